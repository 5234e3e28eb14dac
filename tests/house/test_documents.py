"""What the documents show is true: README's snippets and commands, docstring examples and examples/ all run."""

import importlib
import shutil
import sys
import types

import pytest

import anisoscope as an
from house.documents import (
    REPOSITORY,
    check_command,
    check_examples,
    commands_of,
    has_example,
    num_examples,
    python_of,
    run,
    run_python,
)

README = REPOSITORY / "README.md"
QUICKSTART = REPOSITORY / "docs" / "quickstart.md"
SOURCE = REPOSITORY / "src"
MODULES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if path.name != "__main__.py"
]
NUM_EXAMPLES = 20  # in all docstrings together, at least
DEMO_FOLDER = "runs/demo"  # where the README's demo writes; the smoke demo stands in for it


def test_readme_shows_the_way_in():
    commands = commands_of(README.read_text())
    assert {"make demo", "make test"} <= set(commands)
    assert python_of(README.read_text()).strip()


def test_readme_python_runs(tmp_path):
    assert run_python(README, tmp_path) == ""


def test_readme_commands_run(tmp_path, smoke_demo):
    _, out = smoke_demo

    def demo(arguments: list[str]) -> str:
        """The smoke demo, already run, stands where the README's demo would have written."""
        known = {"--preset", "--out", "--text", "quick", "smoke", DEMO_FOLDER}
        return f"anisoscope demo: unexpected {set(arguments) - known}" * (not set(arguments) <= known)

    shutil.copytree(out, tmp_path / DEMO_FOLDER)
    assert [
        said for command in commands_of(README.read_text()) if (said := check_command(command, tmp_path, demo))
    ] == []


def test_quickstart_runs(tmp_path):
    assert run_python(QUICKSTART, tmp_path) == ""
    assert [
        said
        for command in commands_of(QUICKSTART.read_text())
        if (said := check_command(command, tmp_path, lambda arguments: "the demo stands in the README"))
    ] == []


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert check_examples(importlib.import_module(name)) == ""


def test_docstrings_hold_examples():
    assert sum(num_examples(importlib.import_module(name)) for name in MODULES) >= NUM_EXAMPLES


@pytest.mark.parametrize("name", sorted(set(an.__all__) - {"__version__"}))
def test_a_public_name_has_an_example(name):
    thing = getattr(an, name)
    assert has_example(thing) or (isinstance(thing, type) and issubclass(thing, Exception))


def test_example_files_run(tmp_path):
    files = sorted((REPOSITORY / "examples").glob("*.py"))
    assert [said for file in files if (said := run([sys.executable, file], tmp_path))] == []


class TestTheChecksCanFail:
    DOCUMENT = """\
Text.
<!-- python
x = 1
-->
```python
y = x + 1
```
```text
not python
```
```python
assert y == 2{more}
```
"""

    def test_python_keeps_its_lines_and_one_namespace(self, tmp_path):
        lines = python_of(self.DOCUMENT.format(more="")).splitlines()
        assert {number: line for number, line in enumerate(lines, 1) if line} == {
            3: "x = 1",
            6: "y = x + 1",
            12: "assert y == 2",
        }
        (tmp_path / "good.md").write_text(self.DOCUMENT.format(more=""))
        assert run_python(tmp_path / "good.md", tmp_path) == ""

    def test_a_failing_block_is_seen_with_its_line(self, tmp_path):
        (tmp_path / "bad.md").write_text(self.DOCUMENT.format(more="00"))
        said = run_python(tmp_path / "bad.md", tmp_path)
        assert "line 12" in said
        assert "AssertionError" in said

    def test_a_failing_example_file_is_seen(self, tmp_path):
        (tmp_path / "example.py").write_text("raise SystemExit(3)")
        assert "ended with 3" in run([sys.executable, tmp_path / "example.py"], tmp_path)

    def test_a_warning_is_seen(self, tmp_path):
        (tmp_path / "bad.md").write_text("```python\nimport warnings\nwarnings.warn('hot')\n```\n")
        assert "UserWarning: hot" in run_python(tmp_path / "bad.md", tmp_path)

    def test_commands_are_found(self):
        document = (
            "```sh\nmake demo  # four minutes\n\n# only a remark\n```\n```console\n$ anisoscope --version\n0.1.0\n```\n"
        )
        assert commands_of(document) == ["make demo  # four minutes", "anisoscope --version"]

    @pytest.mark.parametrize(
        ("command", "message"),
        [
            ("make coffee", "no such target"),
            ("anisoscope no-such-command", "-m anisoscope no-such-command ended with"),
            ("anisoscope demo --colour", "demo was asked for --colour"),
            ("curl http://example.org", "do not know how to check it"),
        ],
    )
    def test_a_bad_command_is_seen(self, command, message, tmp_path):
        assert message in check_command(command, tmp_path, lambda words: f"demo was asked for {' '.join(words)}")

    def test_a_good_command_passes(self, tmp_path):
        for command in ("make demo", "make test ARGS=-x", "git clone somewhere", "anisoscope demo"):
            assert check_command(command, tmp_path, lambda words: "") == ""

    def test_a_wrong_docstring_is_seen(self):
        module = types.ModuleType("wrong", ">>> 1 + 1\n3\n")
        assert "Expected:\n    3\nGot:\n    2" in check_examples(module)
        assert num_examples(module) == 1
        assert has_example(module)
        assert not has_example(types.ModuleType("silent", "No example."))
