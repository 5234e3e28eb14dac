"""Writing a run: parts appear whole or not at all, and only one process writes.

    RUN/manifest.json                            what was measured, on what, with what
    RUN/metrics/001-000004-16.parquet            attempt, number of the look, step
    RUN/replicates/001-000004-16.parquet         bootstrap replicates of the rows that claims read
    RUN/bases/001-000004-16.safetensors          the look's proxies
    RUN/faults/001-000004-16.json                what failed, and why
    RUN/writer.lock                              host, pid and heartbeat of the one writer; readers ignore it

A look is committed by the rename of its metrics part, the last of its files: what a reader sees is complete. A folder
whose writer ended before its first look is free for the next one; a folder with a look is never written to again.
"""

import contextlib
import json
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.numpy

from ..errors import InputError, StoreError
from . import vocabulary
from .schema import METRICS, REPLICATES, SCHEMA_VERSION, table

MANIFEST = "manifest.json"
_PART = re.compile(r"(\d+)-(\d+)-(\d+|none)")  # attempt, number, step
_LOCK = "writer.lock"
_FOLDERS = ("metrics", "replicates", "bases", "faults")
_BEAT_S = 15.0
_STALE_S = 60.0


def write_atomically(path: Path, payload: bytes) -> None:
    """Under a temporary name, flushed to the disk, then renamed: a reader sees the old file or the new one."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # some file systems cannot sync a folder; the rename is atomic all the same
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _as_parquet(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd")
    return sink.getvalue().to_pybytes()


class _Lock:
    """Keeps a second writer out. A dead process, or one whose heartbeat is older than a minute, is taken over."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.owner = {"host": socket.gethostname(), "pid": os.getpid(), "token": uuid.uuid4().hex}
        self._stop = threading.Event()
        self._acquire()
        self._thread = threading.Thread(target=self._beat, name="anisoscope-heartbeat", daemon=True)
        self._thread.start()

    def _acquire(self) -> None:
        for _ in range(10):
            try:
                handle = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            except FileExistsError:
                stale = _refuse_if_held(self.path)
                if stale is not None:
                    self._take_over(stale)
                continue
            with os.fdopen(handle, "w") as file:
                file.write(self._stamp().decode())
            return
        raise StoreError(f"the lock of {self.path.parent} changes hands too often: several processes want to write it")

    def _take_over(self, stale: bytes) -> None:
        """Puts a stale lock aside. One taker wins the rename; if what it got is no longer the stale lock, another taker
        was faster, and its lock goes back.
        """
        aside = self.path.with_name(f".{_LOCK}.{uuid.uuid4().hex[:8]}.tmp")
        try:
            self.path.rename(aside)
        except FileNotFoundError:
            return
        if aside.read_bytes() != stale:
            with contextlib.suppress(FileExistsError):
                os.link(aside, self.path)
        aside.unlink(missing_ok=True)

    def _stamp(self) -> bytes:
        return json.dumps(self.owner | {"beat": time.time()}).encode()

    def _beat(self) -> None:
        while not self._stop.wait(_BEAT_S):
            with contextlib.suppress(OSError):
                if self.held():
                    write_atomically(self.path, self._stamp())

    def held(self) -> bool:
        try:
            return json.loads(self.path.read_text())["token"] == self.owner["token"]
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def release(self) -> None:
        self._stop.set()
        self._thread.join(timeout=5)
        if self.held():
            self.path.unlink(missing_ok=True)


def _refuse_if_held(lock: Path) -> bytes | None:
    """Refuses a folder whose writer lives; else what the stale lock holds, or None where there is no lock."""
    try:
        content, written = lock.read_bytes(), lock.stat().st_mtime
    except FileNotFoundError:
        return None
    try:
        held = json.loads(content)
        age_s = time.time() - held["beat"]
    except (ValueError, KeyError, TypeError):
        held, age_s = {}, time.time() - written
    dead = held.get("host") == socket.gethostname() and not _alive(held.get("pid"))
    if age_s < _STALE_S and not dead:
        raise StoreError(
            f"{lock.parent} is being written by process {held.get('pid')} on {held.get('host')} "
            f"(last heartbeat {age_s:.0f} s ago): write to another folder, or stop that process"
        )
    return content


def _alive(pid: int | None) -> bool:
    if not isinstance(pid, int):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def folder_of(path: object) -> Path:
    """The path of a run."""
    try:
        return Path(path)  # type: ignore[arg-type]
    except TypeError:
        raise InputError(f"the run is {path!r}; wanted the path of a folder, for example 'runs/first'") from None


def refuse_unwritable(path: str | os.PathLike[str]) -> Path:
    """The run folder to be, or the reason why it cannot be one: it holds a run, holds something else, is read-only."""
    path = folder_of(path)
    if path.exists() and not path.is_dir():
        raise StoreError(f"{path} is a file; a run is a folder: choose another path")
    if (path / MANIFEST).exists():
        _refuse_if_held(path / _LOCK)
    _refuse_looks(path)
    foreign = [entry for entry in path.iterdir() if not _is_ours(entry)] if path.exists() else []
    if foreign:
        raise StoreError(f"{path} is not empty and holds no run: choose another folder, so that nothing is mixed up")
    existing = path
    while not existing.exists():
        existing = existing.parent
    if not os.access(existing, os.W_OK | os.X_OK):
        raise StoreError(f"cannot write into {existing} (no permission): choose a folder that you may write")
    return path


def looks_in(path: Path) -> list[Path]:
    """The metrics parts of a run, one a committed look, in the order of their names."""
    return sorted(part for part in (path / "metrics").glob("*.parquet") if _PART.fullmatch(part.stem))


def _refuse_looks(path: Path) -> None:
    if looks_in(path):
        raise StoreError(f"a run exists already in {path}: choose another folder, or delete this one first")


def _is_ours(entry: Path) -> bool:
    """What a writer may leave behind that was killed, or whose model failed, before its first look."""
    if entry.is_dir():
        return entry.name in _FOLDERS and all(
            one.name[0] == "." or _PART.fullmatch(one.stem) for one in entry.iterdir()
        )
    if entry.name == MANIFEST:
        with contextlib.suppress(OSError, ValueError):
            manifest = json.loads(entry.read_bytes())
            return isinstance(manifest, dict) and "schema_version" in manifest
        return False
    return entry.name == _LOCK or entry.name.startswith(".")


class Writer:
    """The one writer of a run.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Writer(folder + "/run", {"name": "tiny"}) as writer:
    ...         _ = writer.commit(0, [{"step": 0, "statistic": "loss", "value": 4.2}])
    ...     sorted(part.name for part in (writer.path / "metrics").iterdir())
    ['001-000000-0.parquet']
    """

    def __init__(self, path: str | os.PathLike[str], manifest: Mapping[str, Any]) -> None:
        self.path = refuse_unwritable(path)
        try:
            for folder in _FOLDERS:
                (self.path / folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot make the run folder {self.path}: {error.strerror or error}") from error
        self._lock = _Lock(self.path / _LOCK)
        self.manifest = {
            "schema_version": SCHEMA_VERSION,
            "attempt": 1,
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "finished": False,
            **manifest,
        }
        self._num_looks = 0
        self._num_faults = 0
        try:
            _refuse_looks(self.path)  # written between our first check and our lock
            for folder in _FOLDERS:
                for left in (self.path / folder).iterdir():
                    left.unlink()
            self.update()
        except BaseException:
            self._lock.release()
            raise

    def commit(
        self,
        step: int | None,
        rows: Iterable[Mapping[str, Any]],
        replicates: Iterable[Mapping[str, Any]] = (),
        bases: Mapping[str, np.ndarray] | None = None,
    ) -> pa.Table:
        """One look, whole: its rows, their replicates, its bases. Returns the rows as a table."""
        metrics, attempt = table(rows, METRICS), self.manifest["attempt"]
        unknown = [
            word
            for column in vocabulary.COLUMNS
            for word in vocabulary.unknown_words(column, metrics[column].unique().to_pylist())
        ]
        if unknown:
            raise StoreError(f"undeclared words {unknown}: declare them in anisoscope/store/vocabulary.py first")
        name = f"{attempt:03d}-{self._num_looks:06d}-{'none' if step is None else step}"
        if bases:
            arrays = {key: np.ascontiguousarray(value) for key, value in bases.items()}
            self._write(f"bases/{name}.safetensors", safetensors.numpy.save(arrays))
        held = table(replicates, REPLICATES)
        if held.num_rows:
            self._write(f"replicates/{name}.parquet", _as_parquet(held))
        self._write(f"metrics/{name}.parquet", _as_parquet(metrics))
        self._num_looks += 1
        return metrics

    def fault(self, step: int | None, where: str, reason: str) -> None:
        """Records that something could not be measured, and why."""
        name = f"{self.manifest['attempt']:03d}-{self._num_faults:06d}-{'none' if step is None else step}.json"
        self._write(f"faults/{name}", json.dumps({"step": step, "where": where, "reason": reason}).encode())
        self._num_faults += 1

    def update(self, **fields: Any) -> None:
        """Adds to the manifest what became known while the run went on."""
        self.manifest.update(fields)
        self._write(MANIFEST, json.dumps(self.manifest, indent=2, default=str).encode())

    def _write(self, name: str, payload: bytes) -> None:
        if not self._lock.held():
            raise StoreError(f"another process has taken over {self.path}: nothing more is written by this one")
        write_atomically(self.path / name, payload)

    def close(self, finished: bool = True, **fields: Any) -> None:
        """Marks the run as finished (or as broken off), with what became known, and lets go of it."""
        try:
            if self._lock.held():
                closed = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                self.update(finished=finished, closed=closed, **fields)
        finally:
            self._lock.release()

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(finished=kind is None)
