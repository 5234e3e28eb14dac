"""Imports point down: the layer rule, read from the syntax tree, and the proof that each breach is seen."""

import ast
import re
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

# An import may only point to a lower number; packages of one number never import each other.
LAYERS = {
    "errors": 0,
    "store": 1,
    "manifolds": 1,
    "geometry": 2,
    "claims": 2,
    "capture": 3,
    "protocol": 4,
    "theory": 4,
    "loops": 5,
    "checkpoints": 5,
    "report": 5,
    "lab": 6,
    "sweep": 6,
    "run": 6,
    "cli": 7,
    "": 7,  # the front door, __init__.py
    "__main__": 8,
}


def optional_packages() -> set[str]:
    """The packages of the extras that users install; `test` and `dev` are no business of the source."""
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    lines = [line for name, lines in extras.items() if name not in {"test", "dev"} for line in lines]
    return {re.split(r"[^\w-]", line)[0].replace("-", "_") for line in lines} - {"anisoscope"}


def module_names(root: Path) -> dict[str, Path]:
    """{"anisoscope.store.schema": path}: every module of the package that lies in the folder `root`."""
    paths = {path.relative_to(root.parent).with_suffix(""): path for path in sorted(root.rglob("*.py"))}
    return {".".join(name.parts).removesuffix(".__init__"): path for name, path in paths.items()}


def imports(
    tree: ast.AST, in_function: bool = False, type_checking: bool = False
) -> Iterator[tuple[ast.stmt, bool, bool]]:
    """Every import statement below `tree`: (statement, inside a function, under `if TYPE_CHECKING`)."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, in_function, type_checking
        elif isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            for branch, checking in ((node.body, True), (node.orelse, type_checking)):
                yield from imports(ast.Module(branch, []), in_function, checking)
        else:
            function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from imports(node, in_function or function, type_checking)


def targets(node: ast.stmt, module: str, is_package: bool, modules: dict[str, Path]) -> list[str]:
    """The full names of the modules that one import statement loads."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    assert isinstance(node, ast.ImportFrom)
    source = node.module or ""
    if node.level:
        up = module.split(".")[: len(module.split(".")) - node.level + is_package]
        source = ".".join([*up, *filter(None, [node.module])])
    # `from package import name` loads package.name where that is a module, else what package/__init__.py defines
    return [f"{source}.{alias.name}" if f"{source}.{alias.name}" in modules else source for alias in node.names]


def dynamic_imports(tree: ast.AST, optional: set[str]) -> Iterator[int]:
    """The lines that call `import_module` or `__import__`, unless they name an optional package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and re.search(r"(^|\.)(import_module|__import__)$", ast.unparse(node.func)):
            name = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else ""
            if str(name).split(".")[0] not in optional:
                yield node.lineno


def violations(root: Path, optional: set[str]) -> list[str]:
    """Every breach of the layer rule in the package that lies in the folder `root`."""
    modules, found, graph = module_names(root), [], {}
    for module, path in modules.items():
        part = [*module.split("."), ""][1]
        if part not in LAYERS:
            found.append(f"{module}: no layer is declared for it")
            continue
        graph[module] = set()
        tree = ast.parse(path.read_text())
        for node, in_function, type_checking in imports(tree):
            for target in targets(node, module, path.name == "__init__.py", modules):
                top, _, rest = target.partition(".")
                if in_function and top not in optional:
                    found.append(f"{module}:{node.lineno}: imports {target} inside a function")
                if top != root.name or (type_checking and module == root.name):
                    continue
                other = rest.split(".")[0]
                if other not in LAYERS or target not in modules:
                    found.append(f"{module}:{node.lineno}: imports {target}, which is not a module with a layer")
                elif target != module and (other == part or LAYERS[other] < LAYERS[part]):
                    graph[module].add(target)
                elif target != module:
                    found.append(
                        f"{module}:{node.lineno}: layer {LAYERS[part]} imports {target} of layer {LAYERS[other]}"
                    )
        if module != root.name:  # the front door loads its names on first use
            found += [f"{module}:{line}: imports by name at run time" for line in dynamic_imports(tree, optional)]
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found.append("cycle: " + " -> ".join(reversed(error.args[1])))
    return found


def test_the_source_keeps_the_layer_rule():
    assert violations(REPOSITORY / "src" / "anisoscope", optional_packages()) == []


def test_optional_packages_are_those_of_the_users_extras():
    assert "transformers" in optional_packages()
    assert optional_packages().isdisjoint({"torch", "pytest", "ruff", "anisoscope"})


GOOD = {
    "__init__.py": """
        import importlib
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from .__main__ import main
        def __getattr__(name):
            return getattr(importlib.import_module(".store", __name__), name)
    """,
    "errors.py": "import sys",
    "store/__init__.py": "from .schema import COLUMNS",
    "store/schema.py": "from ..errors import StoreError",
    "geometry/spectrum.py": """
        import torch
        from anisoscope import errors
        from anisoscope.store import schema
        def load():
            import transformers
            from transformers import models
    """,
    "capture/look.py": "from . import windows\nfrom ..geometry import spectrum",
    "capture/windows.py": "import anisoscope.errors",
    "cli.py": "from .capture import look",
    "__main__.py": "from .cli import main",
}
BREACHES = {
    "upward": ({"store/reader.py": "from ..protocol import rows", "protocol/rows.py": ""}, "layer 1 imports"),
    "upward, absolute": ({"errors.py": "import anisoscope.store.schema"}, "layer 0 imports anisoscope.store.schema"),
    "upward, guarded for the type checker": (
        {"errors.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .store import schema"},
        "layer 0 imports",
    ),
    "upward, to the front door": ({"store/reader.py": "from .. import __version__"}, "imports anisoscope of layer 7"),
    "sideways": (
        {"claims/rules.py": "from ..geometry.spectrum import spectrum"},
        "layer 2 imports anisoscope.geometry.spectrum of layer 2",
    ),
    "cycle": ({"capture/windows.py": "from .look import Look"}, "cycle: anisoscope.capture."),
    "cycle through the package": (
        {"store/schema.py": "from . import COLUMNS"},
        "cycle: anisoscope.store",
    ),
    "in a function, relative": (
        {"cli.py": "def demo():\n    from .store import schema"},
        "anisoscope.cli:2: imports anisoscope.store.schema inside a function",
    ),
    "in a function, absolute": ({"cli.py": "def demo():\n    if True:\n        import torch"}, "imports torch inside"),
    "in a method": ({"cli.py": "class A:\n    async def f(self):\n        import json"}, "imports json inside"),
    "by name at run time": ({"cli.py": "import importlib\nimportlib.import_module('torch')"}, "cli:2: imports by name"),
    "unknown package": ({"helpers.py": ""}, "anisoscope.helpers: no layer is declared"),
    "unknown target": ({"cli.py": "from .helpers import text"}, "imports anisoscope.helpers, which is not a module"),
}


def write_tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        indent = re.match(r"\n*( *)", text).group(1)
        path.write_text(re.sub(f"^{indent}", "", text, flags=re.MULTILINE))
    return root


def test_a_good_tree_passes(tmp_path):
    assert violations(write_tree(tmp_path / "anisoscope", GOOD), {"transformers"}) == []


@pytest.mark.parametrize(("change", "message"), BREACHES.values(), ids=BREACHES.keys())
def test_a_breach_is_seen(tmp_path, change, message):
    found = violations(write_tree(tmp_path / "anisoscope", GOOD | change), {"transformers"})
    assert len(found) == 1
    assert message in found[0]


def test_an_optional_package_is_the_only_excuse(tmp_path):
    found = violations(write_tree(tmp_path / "anisoscope", GOOD), set())
    assert [line.split(": ")[1] for line in found] == [
        "imports transformers inside a function",
        "imports transformers inside a function",
    ]
