"""What `open_run` returns: the rows of a run, its verdicts, its bases."""

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from .claims import Evidence, Verdict, judge
from .errors import InputError
from .store import Reader


class Run:
    """A run on disk, also while it is being written. Opening and judging it never loads torch.

    >>> import tempfile, numpy as np, anisoscope as an
    >>> rng = np.random.default_rng(0)
    >>> look = an.Look.from_arrays(rng.normal(size=(400, 32)), rng.normal(size=(400, 32)), step=100)
    >>> path = tempfile.mkdtemp() + "/mine"
    >>> _ = an.measure(look, ranks=(4,), run=path)
    >>> run = Run(path)
    >>> run.claims()[0].outcome
    'not supported'
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._reader = Reader(path)
        self.path = self._reader.path

    @property
    def name(self) -> str:
        return str(self.manifest.get("name") or self.path.name)

    @property
    def manifest(self) -> dict[str, Any]:
        """What was measured, on what, with what."""
        return self._reader.manifest

    def metrics(self) -> pa.Table:
        """All rows, long format: one row is one number (columns: `anisoscope.store.METRICS`)."""
        return self._reader.metrics()

    def sql(self, query: str) -> pa.Table:
        """The answer of DuckDB to `query` over the tables `metrics` and `replicates`."""
        return self._reader.sql(query)

    def bases(self, step: int | None) -> dict[tuple[str, str, str], np.ndarray]:
        """The proxies of one look, `{(layer, proxy, view): (D, k)}`."""
        return self._reader.bases(step)

    def faults(self) -> list[dict[str, Any]]:
        """What could not be measured, and why."""
        return self._reader.faults()

    def evidence(self) -> Evidence:
        """The rows and replicates as claims read them."""
        reader = self._reader
        return Evidence(reader.metrics(), reader.replicates(), reader.manifest, self.name, reader.faults())

    def claims(self) -> list[Verdict]:
        """The verdicts on this run, recomputed from its rows."""
        return judge([self.evidence()])

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"


class Runs:
    """Several runs, judged together."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self.runs = list(runs)

    def claims(self) -> list[Verdict]:
        """The verdicts on each run, then those on all of them together."""
        return judge([run.evidence() for run in self.runs])

    def __iter__(self) -> Any:
        return iter(self.runs)

    def __repr__(self) -> str:
        return f"Runs({[str(run.path) for run in self.runs]})"


def open_run(path: str | os.PathLike[str]) -> Run:
    """Opens a run folder; it may still be growing.

    >>> open_run("runs/nowhere")
    Traceback (most recent call last):
    anisoscope.errors.StoreError: there is no run at runs/nowhere: give the folder that was named with run= or --out
    """
    return Run(path)


def open_runs(paths: Iterable[str | os.PathLike[str]]) -> Runs:
    """Opens several runs, to be judged together.

    >>> open_runs([])
    Traceback (most recent call last):
    anisoscope.errors.InputError: no runs to open; give one path or several
    """
    paths = list(paths) if isinstance(paths, Iterable) and not isinstance(paths, str) else [paths]
    if not paths:
        raise InputError("no runs to open; give one path or several")
    return Runs(open_run(path) for path in paths)
