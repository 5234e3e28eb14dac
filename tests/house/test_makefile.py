"""The Makefile and .ci/run say what they do, and every pip call of the repository is held to constraints.txt."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from house.documents import REPOSITORY, make_targets

TARGETS = {"help", "demo", "test", "test-slow", "calibrate", "bench", "lint", "ruff", "types", "clean"}
FILES_WITH_COMMANDS = ["Makefile", ".ci/run", "README.md", "CONTRIBUTING.md", "docs"]


def unconstrained(text: str) -> list[str]:
    """The lines that install with pip and without constraints.txt."""
    lines = text.replace("\\\n", " ").splitlines()
    calls = [line for line in lines if re.search(r"\bpip3?( +-\S+)* +install\b", line)]
    return [line for line in calls if "-c constraints.txt" not in line]


def texts(name: str) -> list[Path]:
    path = REPOSITORY / name
    return sorted(path.rglob("*.md")) if path.is_dir() else [path]


def make(*arguments: str) -> str:
    return subprocess.run(["make", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout


def test_help_names_every_target_and_is_what_make_alone_says():
    assert make_targets() == TARGETS
    said = dict(re.findall(r"^  make ([a-z-]+) +(\S.*)$", make("help"), flags=re.MULTILINE))
    assert set(said) == TARGETS
    assert make() == make("help")


@pytest.mark.parametrize("name", FILES_WITH_COMMANDS)
def test_every_pip_call_is_constrained(name):
    assert [line for path in texts(name) for line in unconstrained(path.read_text())] == []


def test_an_unconstrained_pip_call_is_seen():
    assert unconstrained(
        "pip install torch\npython -m pip install -e .\npip install \\\n -c constraints.txt torch"
    ) == [
        "pip install torch",
        "python -m pip install -e .",
    ]


def test_an_installation_is_reused(tmp_path):
    """With the stamps newer than pyproject.toml, `make test` goes straight to pytest."""
    for stamp in (".created", ".installed", ".installed-test", ".installed-dev"):
        (tmp_path / stamp).touch()
    assert "pip install" not in make("-n", "test", "demo", "ruff", f"VENV={tmp_path}")
    (tmp_path / ".installed").unlink()
    assert "pip install" in make("-n", "demo", f"VENV={tmp_path}")


def test_the_ci_script_is_sound():
    script = REPOSITORY / ".ci" / "run"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", script], check=True)
    assert "set -euo pipefail" in script.read_text()
