"""What every test stands on: checked shapes, fixed seeds, a plain environment, and one smoke demo a session."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import jaxtyping
import numpy as np
import pytest
import torch

from house.shapes import check_package

SEED = 20261119
NUM_THREADS = 1  # matrices this small gain nothing from a second thread, and on busy cores threads wait for each other

assert "anisoscope" not in sys.modules, "anisoscope was imported before its shapes could be checked"
check_package("anisoscope")

# Time is no criterion on shared cores, and a test that fails must fail again. No database: derandomised runs need none.
hypothesis.settings.register_profile(
    "anisoscope",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("anisoscope")


def pytest_configure() -> None:
    torch.set_num_threads(NUM_THREADS)


def pytest_report_header() -> list[str]:
    profile = hypothesis.settings()
    return [
        f"seeds: {SEED} for torch, numpy and random, set anew before each test",
        f"torch {torch.__version__}, numpy {np.__version__}, {torch.get_num_threads()} threads, "
        f"CUDA {'there' if torch.cuda.is_available() else 'not there'}",
        f"hypothesis: derandomised, no deadline, {profile.max_examples} examples",
    ]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device; torch.cuda.is_available() says there is none")


@pytest.fixture(autouse=True)
def _seeds() -> None:
    torch.manual_seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002  (libraries under test may draw from the global stream)
    random.seed(SEED)


@pytest.fixture(scope="session", autouse=True)
def _plain_environment() -> Iterator[None]:
    """The same environment on a desk and in CI; a test of colours, CI or widths sets its own."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CI", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"):
            patch.delenv(name, raising=False)
        patch.setenv("NO_COLOR", "1")
        patch.setenv("OMP_NUM_THREADS", str(NUM_THREADS))
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("TOKENIZERS_PARALLELISM", "false")
        yield


@pytest.fixture
def shape_checks_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls reach the package as a user's do, so that its own message about a wrong input is what is raised."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture(scope="session")
def smoke_demo(
    tmp_path_factory: pytest.TempPathFactory, _plain_environment: None
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """`anisoscope demo --preset smoke`, run once a session: its process, its folder (not to be changed)."""
    out = tmp_path_factory.mktemp("demo") / "smoke"
    command = [sys.executable, "-m", "anisoscope", "demo", "--preset", "smoke", "--out", os.fspath(out)]
    process = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, cwd=out.parent, check=False
    )
    if process.returncode:
        pytest.fail(f"{' '.join(command[1:])} ended with {process.returncode}\n{process.stdout}\n{process.stderr}")
    return process, out
