"""Runs what documents show: Python, shell commands, docstring examples. Each check returns what went wrong, or ""."""

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

REPOSITORY = Path(__file__).parents[2]

# Shown in documents and not run here: they install, fetch, move about or open a window.
SHOWN_ONLY = {"cd", "git", "pip", "python3.11", "source", "xdg-open", "open"}

DOCTEST_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):.*##", (REPOSITORY / "Makefile").read_text(), flags=re.MULTILINE))


def python_of(document: str) -> str:
    """The Python of a document, every other line left blank, so that a traceback's line is the document's.

    That is the blocks fenced as python, and what stands between `<!-- python` and `-->`: the lines that a reader
    has already (a model, a loader) and need not see again.
    """
    kept, end = [], None
    for line in document.splitlines():
        if end is None:
            end = {"```python": "```", "<!-- python": "-->"}.get(line.rstrip())
            kept.append("")
        else:
            end = None if line.rstrip() == end else end
            kept.append("" if end is None else line)
    return "\n".join(kept) + "\n"


def commands_of(document: str) -> list[str]:
    """The shell commands of a document: each line of a sh or bash block, each line after `$ ` of a console block."""
    commands = []
    for language, block in re.findall(r"^```(sh|bash|console)\n(.*?)^```", document, flags=re.MULTILINE | re.DOTALL):
        lines = block.replace("\\\n", " ").splitlines()
        if language == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        commands += [line for line in lines if shlex.split(line, comments=True)]
    return commands


def run(arguments: list[str | Path], folder: Path, timeout_s: float = 300) -> str:
    """What went wrong, or nothing: warnings count, as they do in the tests."""
    process = subprocess.run(
        arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=folder, timeout=timeout_s, check=False
    )
    trouble = process.returncode != 0 or "Warning:" in process.stderr
    return f"{shlex.join(map(os.fspath, arguments))} ended with {process.returncode}\n{process.stderr}" * trouble


def run_python(document: Path, folder: Path) -> str:
    """Run a document's Python in one namespace inside `folder`; what went wrong, or nothing."""
    script = folder / f"{document.name}.py"
    script.write_text(python_of(document.read_text()))
    return run([sys.executable, script], folder)


def check_command(command: str, folder: Path, demo: Callable[[list[str]], str]) -> str:
    """What is wrong with one command of a document, or nothing.

    `make` must name a target that exists; `anisoscope` runs inside `folder`, its `demo` by `demo(arguments)` instead.
    """
    words = shlex.split(command, comments=True)
    if words[0] == "make":
        goals = {word for word in words[1:] if "=" not in word}
        return f"{command}: the Makefile has no such target" * (not goals <= make_targets())
    if words[0] == "anisoscope":
        return demo(words[2:]) if words[1:2] == ["demo"] else run([sys.executable, "-m", *words], folder)
    return f"{command}: the tests do not know how to check it" * (words[0] not in SHOWN_ONLY)


def check_examples(module: ModuleType) -> str:
    """What went wrong when the docstring examples of a module ran, or nothing."""
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=DOCTEST_OPTIONS)
    for test in doctest.DocTestFinder().find(module):
        runner.run(test, out=said.append)
    return "".join(said)


def num_examples(module: ModuleType) -> int:
    return sum(len(test.examples) for test in doctest.DocTestFinder().find(module))


def has_example(thing: object) -> bool:
    return bool(doctest.DocTestParser().get_examples(thing.__doc__ or ""))
