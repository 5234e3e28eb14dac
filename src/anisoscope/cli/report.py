"""`anisoscope report`: verdicts and the page of runs on disk."""

from pathlib import Path

from ..run import open_runs
from ..store.writer import MANIFEST
from .printing import Json, conclude


def report(runs: list[Path], /, *, out: Path | None = None, as_json: Json = False) -> None:
    """Judge one run or several together, and write the page.

    Parameters
    ----------
    runs:
        Run folders, or a folder that holds some.
    out:
        The page; report.html beside the first run.
    """
    paths = [found for path in runs for found in _runs_in(path)]
    opened = open_runs(paths)
    page = out or (paths[0] if len(paths) == 1 else paths[0].parent) / "report.html"
    conclude(opened, page, as_json)


def _runs_in(path: Path) -> list[Path]:
    if path.is_dir() and not (path / MANIFEST).exists():
        inside = sorted(manifest.parent for manifest in path.glob(f"*/{MANIFEST}"))
        if inside:
            return inside
    return [path]
