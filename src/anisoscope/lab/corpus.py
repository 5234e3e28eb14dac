"""The embedded corpus: the English inside every CPython, so that the main job needs no download."""

import ast
import gc
import inspect
import os
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pydoc_data.topics import topics

from ..errors import TextError

# Tests hold little prose, idlelib and lib2to3 are not in every Python, installed packages are not Python's own.
_SKIPPED = {"test", "tests", "idlelib", "lib2to3", "__pycache__", "site-packages", "dist-packages"}
_MIN_CHARS = 80  # shorter docstrings are mostly signatures and "See the base class."
_MIN_TOTAL_CHARS = 1_000_000


def embedded_corpus() -> str:
    """The language reference of `pydoc` and the docstrings of the standard library, about 1.9 MB."""
    text = "\n\n".join(passages())
    if len(text) < _MIN_TOTAL_CHARS:
        raise TextError(
            f"the embedded corpus has {len(text):,} characters, wanted at least {_MIN_TOTAL_CHARS:,}: this Python's "
            f"standard library ({sysconfig.get_path('stdlib')}) comes without its sources; give a text with --text FILE"
        )
    return text


def passages() -> list[str]:
    """The corpus in its pieces, none twice. The same Python version gives the same pieces in the same order: topics
    first, then files by path. Nothing is imported.
    """
    reference = (inspect.cleandoc(topics[name]) for name in sorted(topics))
    with _collector_paused():
        docstrings = list(_docstrings(Path(sysconfig.get_path("stdlib"))))
    return list(dict.fromkeys([*reference, *docstrings]))  # a dict is an ordered set


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Syntax trees hold no cycles, yet their many nodes set the collector off: over half of the time, beside torch."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _docstrings(root: Path) -> Iterator[str]:
    for path in _sources(root):
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):  # templates and deliberately broken files
            continue
        for node in _documented(tree):
            docstring = ast.get_docstring(node)  # cleaned as by inspect.cleandoc
            if docstring and len(docstring) >= _MIN_CHARS:
                yield docstring


def _documented(node: ast.AST) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """All that may have a docstring, in reading order. Statements only: ast.walk takes three times as long."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node
    for block in ("body", "handlers", "orelse", "finalbody"):
        for statement in getattr(node, block, ()):
            yield from _documented(statement)


def _sources(root: Path) -> list[Path]:
    found = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [name for name in subfolders if name not in _SKIPPED]  # pruned: os.walk does not enter them
        found += [Path(folder, name) for name in names if name.endswith(".py")]
    return sorted(found)
