"""Reading a run, also while it is being written. Never loads torch, never unpickles."""

import json
import os
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.numpy

from ..errors import StoreError
from .schema import METRICS, REPLICATES, SCHEMA_VERSION
from .writer import MANIFEST, folder_of, looks_in


class Reader:
    """A run folder as tables.

    Where a step was measured again by a later attempt, readers see the later one; the old rows stay on disk.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = folder_of(path)
        if not self.path.exists():
            raise StoreError(f"there is no run at {self.path}{_nearest(self.path)}")
        if not (self.path / MANIFEST).exists():
            what = "is a file" if self.path.is_file() else "is a folder without a manifest.json"
            raise StoreError(f"{self.path} is no run (it {what}){_nearest(self.path)}")
        version = self.manifest.get("schema_version")
        if not isinstance(version, int):
            raise StoreError(f"{self.path / MANIFEST} names no schema version: this is not a run of anisoscope")
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"{self.path} was written with schema {version}, this anisoscope reads up to {SCHEMA_VERSION}: upgrade"
            )

    @property
    def manifest(self) -> dict[str, Any]:
        """What was measured, on what, with what."""
        manifest = _json(self.path / MANIFEST)
        if not isinstance(manifest, dict):
            raise StoreError(f"{self.path / MANIFEST} holds no JSON object: this is not a run of anisoscope")
        return manifest

    def _parts(self, folder: str) -> list[Path]:
        """The valid parts, oldest first: for each step the latest attempt, and only looks that were committed."""
        chosen: dict[object, str] = {}
        for committed in looks_in(self.path):
            _, number, step = committed.stem.split("-")
            chosen[number if step == "none" else int(step)] = committed.stem
        suffix = ".safetensors" if folder == "bases" else ".parquet"
        paths = [self.path / folder / (stem + suffix) for stem in sorted(chosen.values())]
        return [path for path in paths if path.exists()]

    def _table(self, folder: str, schema: pa.Schema) -> pa.Table:
        tables = []
        for path in self._parts(folder):
            try:
                tables.append(pq.read_table(path))
            except (OSError, pa.ArrowException) as error:
                raise StoreError(f"cannot read {path}: {error}; move it away to read the rest of the run") from error
        return pa.concat_tables(tables, promote_options="default") if tables else schema.empty_table()

    def metrics(self) -> pa.Table:
        """All rows (columns: `anisoscope.store.METRICS`)."""
        return self._table("metrics", METRICS)

    def replicates(self) -> pa.Table:
        """The bootstrap replicates of the rows that claims read."""
        return self._table("replicates", REPLICATES)

    def bases(self, step: int | None) -> dict[tuple[str, str, str], np.ndarray]:
        """The proxies of one look, `{(layer, proxy, view): (D, k)}`, leading directions first."""
        parts = {path.stem.split("-")[2]: path for path in self._parts("bases")}
        path = parts.get("none" if step is None else str(step))
        if path is None:
            raise StoreError(f"{self.path} holds no bases of step {step}; it holds those of steps {', '.join(parts)}")
        try:
            arrays = safetensors.numpy.load_file(path)
        except Exception as error:  # safetensors raises its own, which is no OSError
            raise StoreError(f"cannot read {path}: {error}") from error
        return {tuple(key.split("|")): value for key, value in arrays.items()}  # type: ignore[misc]

    def faults(self) -> list[dict[str, Any]]:
        """What could not be measured, and why."""
        aside = "; move it away to read the rest of the run"
        return [_json(path, aside) for path in sorted((self.path / "faults").glob("*.json"))]

    def sql(self, query: str) -> pa.Table:
        """The answer of DuckDB to `query` over the tables `metrics` and `replicates`."""
        with duckdb.connect() as connection:
            try:
                for name, schema in (("metrics", METRICS), ("replicates", REPLICATES)):
                    paths = [str(path) for path in self._parts(name)]
                    if paths:
                        connection.from_parquet(paths, union_by_name=True).create_view(name)
                    else:
                        connection.register(name, schema.empty_table())
                answer = connection.sql(query)
                if answer is None:
                    raise StoreError(f"the query {query!r} gives no table; wanted a select")
                return answer.to_arrow_table()
            except duckdb.Error as error:
                raise StoreError(f"DuckDB cannot answer on {self.path}: {error}") from error


def _json(path: Path, hint: str = "") -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot read {path}: {error}{hint}") from error


def _nearest(path: Path) -> str:
    """A hint: the runs that lie below or beside a path that is none."""
    for folder in (path, path.parent, path.parent.parent):
        found = sorted(manifest.parent for manifest in folder.glob(f"*/{MANIFEST}")) if folder.is_dir() else []
        if found:
            return "; the nearest runs are " + ", ".join(str(run) for run in found[:3])
    return ": give the folder that was named with run= or --out"
