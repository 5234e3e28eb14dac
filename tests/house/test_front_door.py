"""The front door: which names it shows, that each is explained, and that reading a run never loads torch."""

import dataclasses
import subprocess
import sys

import pytest

import anisoscope as an

# Frozen: a name more or less is a decision, and goes into CHANGELOG.md. At most 30.
PUBLIC = {
    "__version__",
    "Spectrum",
    "spectrum",
    "tangent_basis",
    "semi_nmf",
    "Concepts",
    "intrinsic_dimension",
    "Estimate",
    "energy_share",
    "anisotropy_share",
    "Alignment",
    "alignment",
    "capture_curve",
    "Look",
    "Windows",
    "measure",
    "Scope",
    "Run",
    "open_run",
    "open_runs",
    "Verdict",
    "AnisoscopeError",
    "InputError",
    "ModelError",
    "StoreError",
    "TextError",
}
EXPLAINED = sorted(PUBLIC - {"__version__"})
NO_TORCH = ("anisoscope.report", "anisoscope.store", "anisoscope.claims", "anisoscope.run")


def has_docstring(thing: object) -> bool:
    """Whether somebody wrote one: `@dataclass` makes up "Name(field: type)" where there is none."""
    text = vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__
    return bool(text) and not (dataclasses.is_dataclass(thing) and text.startswith(f"{thing.__name__}("))


def loaded(statements: str, packages: set[str]) -> set[str]:
    """Which of `packages` a fresh interpreter has loaded after `statements`."""
    script = f"{statements}\nimport sys\nprint('loaded:', *(set(sys.modules) & {packages!r}))"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return set(process.stdout.splitlines()[-1].split()[1:])


def import_all(packages: tuple[str, ...]) -> str:
    """A script that imports the packages and every module inside them."""
    return f"""
import importlib, pkgutil
for name in {packages!r}:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(getattr(package, "__path__", []), name + "."):
        importlib.import_module(module.name)
"""


def test_the_public_names_are_frozen():
    assert set(an.__all__) == PUBLIC
    assert len(an.__all__) == len(PUBLIC) <= 30
    assert dir(an) == sorted(PUBLIC)


@pytest.mark.parametrize("name", EXPLAINED)
def test_a_public_name_is_there_and_explained(name):
    thing = getattr(an, name)
    assert thing.__name__ == name
    assert has_docstring(thing)


def test_a_missing_docstring_is_seen():
    @dataclasses.dataclass
    class Bare:
        x: int

    class Heir(an.InputError):
        pass

    assert not has_docstring(Bare)
    assert not has_docstring(Heir)
    assert not has_docstring(lambda: None)


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(AttributeError) as caught:
        an.spektrum  # noqa: B018
    known = ", ".join(an.__all__)
    assert str(caught.value) == f"module 'anisoscope' has no attribute 'spektrum'; it has {known}"


def test_importing_anisoscope_loads_nothing_heavy():
    heavy = {"torch", "numpy", "scipy", "pyarrow", "duckdb", "altair", "rich", "cyclopts", "tokenizers", "jinja2"}
    assert loaded("import anisoscope", heavy) == set()


def test_reading_judging_and_reporting_load_no_torch():
    assert loaded("import anisoscope.report, anisoscope.store, anisoscope.claims, anisoscope.run", {"torch"}) == set()
    assert loaded(import_all(NO_TORCH), {"torch"}) == set()


def test_a_finished_run_is_read_and_judged_without_torch(smoke_demo):
    _, out = smoke_demo
    runs = sorted(str(path.parent) for path in out.rglob("manifest.json"))
    assert runs
    script = f"import anisoscope as an\nrun = an.open_run({runs[0]!r})\nrun.metrics()\nrun.claims()"
    assert loaded(script, {"torch", "pyarrow"}) == {"pyarrow"}


def test_a_package_that_loads_torch_is_seen():
    assert loaded("import torch", {"torch", "numpy", "pyarrow"}) >= {"torch"}
    assert loaded(import_all(("torch.version",)), {"torch"}) == {"torch"}
