from pathlib import Path

import pytest

from report import stores


@pytest.fixture(scope="session")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return stores.two_runs(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of the two runs."""
    return stores.page_of_two(tmp_path_factory.getbasetemp()).read_text(encoding="utf-8")
