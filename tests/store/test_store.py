"""The store: what is written comes back; nothing half-written is ever seen; only one process writes."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anisoscope as an
from anisoscope.errors import StoreError
from anisoscope.store import KEYS, METRICS, REPLICATES, SCHEMA_VERSION, Reader, Writer, vocabulary, writer
from anisoscope.store.schema import table
from store.killed import NUM_ROWS

BASIS = np.arange(12, dtype=np.float32).reshape(4, 3)


def row(step: int | None, value: float = 0.5, **more: object) -> dict[str, object]:
    return {"step": step, "layer": "blocks.0", "depth": 1, "statistic": "energy_share", "value": value, **more}


def kept(step: int | None, number: float = 0.5) -> dict[str, object]:
    return row(step) | {"replicates": np.full(5, number, np.float32)}


def commit(to: Writer, step: int | None, value: float = 0.5) -> None:
    rows = [row(step, value), row(step, value + 1, control="oracle")]
    to.commit(step, rows, [kept(step, value)], {"blocks.0|pca|all": BASIS})


def run_of(path: Path, steps: tuple[int | None, ...] = (0, 1, 2)) -> Path:
    with Writer(path, {"name": "small"}) as to:
        for step in steps:
            commit(to, step)
    return path


def steps_in(path: Path) -> list[int | None]:
    return sorted(set(Reader(path).metrics()["step"].to_pylist()), key=lambda step: -1 if step is None else step)


# What is written comes back


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = run_of(tmp_path / "run")
    run = an.open_run(path)
    metrics = run.metrics()
    assert metrics.schema == METRICS
    assert metrics.schema.metadata == {b"schema_version": b"1"}
    assert metrics.num_rows == 6
    first = metrics.to_pylist()[0]
    assert {key: value for key, value in first.items() if value not in (None, "")} == {
        "attempt": 1, "step": 0, "layer": "blocks.0", "depth": 1, "statistic": "energy_share", "value": 0.5,
    }  # fmt: skip
    assert set(KEYS) < set(first)
    replicates = Reader(path).replicates()
    assert replicates.schema == REPLICATES
    assert replicates["replicates"].to_pylist() == [[0.5] * 5] * 3
    np.testing.assert_array_equal(run.bases(1)["blocks.0", "pca", "all"], BASIS)
    assert run.manifest["finished"] is True
    assert (run.manifest["schema_version"], run.manifest["attempt"], run.name) == (SCHEMA_VERSION, 1, "small")


def test_looks_come_in_the_order_of_their_writing(tmp_path: Path) -> None:
    path = run_of(tmp_path / "run", tuple(range(12)))
    assert Reader(path).metrics()["step"].to_pylist() == [step for step in range(12) for _ in range(2)]


def test_a_look_of_unknown_step(tmp_path: Path) -> None:
    assert steps_in(run_of(tmp_path / "run", (None,))) == [None]


def test_numbers_at_the_ends_of_float64_come_back(tmp_path: Path) -> None:
    values = [1e-300, 1.7e308, -0.0, 1 / 3, float("nan")]
    with Writer(tmp_path / "run", {}) as to:
        to.commit(0, [row(0, value, group=f"{i}", layer="a|b\n\"'") for i, value in enumerate(values)])
    back = Reader(tmp_path / "run").metrics()
    np.testing.assert_array_equal(back["value"].to_numpy(), values)
    assert set(back["layer"].to_pylist()) == {"a|b\n\"'"}


def test_an_empty_run_has_the_columns(tmp_path: Path) -> None:
    with Writer(tmp_path / "run", {}):
        reader = Reader(tmp_path / "run")
        assert reader.metrics().schema == METRICS
        assert reader.replicates().schema == REPLICATES
        assert reader.sql("select count(*) n from metrics").to_pylist() == [{"n": 0}]
        assert reader.faults() == []


def test_sql_joins_a_control_to_its_measurement(tmp_path: Path) -> None:
    path = run_of(tmp_path / "run")
    query = """select a.step, b.value - a.value gap from metrics a join metrics b using (step, layer, statistic)
               where a.control = '' and b.control = 'oracle' order by 1"""
    assert an.open_run(path).sql(query).to_pylist() == [{"step": step, "gap": 1.0} for step in (0, 1, 2)]
    assert an.open_run(path).sql("select sum(len(replicates)) n from replicates").to_pylist() == [{"n": 15}]
    with pytest.raises(StoreError, match=f"DuckDB cannot answer on {path}: .*nonsense"):
        an.open_run(path).sql("select nonsense from metrics")


def test_faults_come_back(tmp_path: Path) -> None:
    with Writer(tmp_path / "run", {}) as to:
        to.fault(3, "blocks.1", "activations hold NaN in 2 rows")
        to.fault(None, "blocks.2", "other")
    assert an.open_run(tmp_path / "run").faults() == [
        {"step": 3, "where": "blocks.1", "reason": "activations hold NaN in 2 rows"},
        {"step": None, "where": "blocks.2", "reason": "other"},
    ]


def test_the_manifest_grows_and_says_how_the_run_ended(tmp_path: Path) -> None:
    def breaks() -> None:
        with Writer(tmp_path / "run", {"name": "a"}) as to:
            to.update(num_steps=100)
            assert Reader(tmp_path / "run").manifest["num_steps"] == 100
            raise ValueError("training broke")

    with pytest.raises(ValueError, match="training broke"):
        breaks()
    manifest = Reader(tmp_path / "run").manifest
    assert manifest["finished"] is False
    assert "closed" in manifest


# Readable while written, and never in halves


def test_a_reader_sees_each_look_once_it_is_committed(tmp_path: Path) -> None:
    with Writer(tmp_path / "run", {}) as to:
        early = Reader(tmp_path / "run")
        for step in range(4):
            commit(to, step)
            for reader in (early, Reader(tmp_path / "run")):
                assert reader.metrics().num_rows == reader.sql("from metrics").num_rows == 2 * (step + 1)
                assert reader.replicates().num_rows == step + 1
                assert reader.bases(step)


@pytest.mark.parametrize("stage", ["bases", "replicates", "metrics"])
def test_a_look_that_was_broken_off_is_invisible(stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, write = tmp_path / "run", writer.write_atomically

    def breaks(to: Path, payload: bytes) -> None:
        if to.parent.name == stage:
            raise KeyboardInterrupt
        write(to, payload)

    with Writer(path, {}) as to:
        commit(to, 0)
        with monkeypatch.context() as patch:
            patch.setattr(writer, "write_atomically", breaks)
            with pytest.raises(KeyboardInterrupt):
                commit(to, 1, value=7)
        reader = Reader(path)
        assert steps_in(path) == [0]
        assert reader.replicates()["step"].to_pylist() == [0]
        with pytest.raises(StoreError, match="holds no bases of step 1; it holds those of steps 0"):
            reader.bases(1)
        commit(to, 1)  # and can be made up for
        assert Reader(path).replicates()["replicates"].to_pylist() == [[0.5] * 5] * 2
    assert steps_in(path) == [0, 1]


def test_a_broken_write_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "file"
    writer.write_atomically(target, b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            writer.write_atomically(target, b"new")
    assert target.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_file_is_flushed_to_the_disk_before_it_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, flushed, fsync = tmp_path / "file", [], os.fsync
    writer.write_atomically(target, b"old")

    def noted(handle: int) -> None:
        flushed.append((os.fstat(handle).st_ino, target.read_bytes()))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    writer.write_atomically(target, b"new")
    assert target.read_bytes() == b"new"
    assert flushed[0] == (target.stat().st_ino, b"old"), "the very file that was flushed while the old one still stood"
    assert flushed[1] == (tmp_path.stat().st_ino, b"new"), "then the folder, so that the rename lasts too"


def test_a_killed_writer_loses_no_committed_row(tmp_path: Path) -> None:
    """Killed -9 at 20 random instants: every look that it had reported is whole, and nothing else is in the way."""
    script = Path(__file__).with_name("killed.py")
    subprocess.run([sys.executable, script, tmp_path, "20", "0"], check=True, timeout=120)
    reported = 0
    for kill in range(20):
        path = tmp_path / str(kill)
        committed = [int(line) for line in (tmp_path / f"{kill}.log").read_text().splitlines()]
        reported += len(committed)
        if not (path / "manifest.json").exists():
            assert not committed
            continue
        reader = Reader(path)
        metrics, replicates = reader.metrics(), reader.replicates()
        seen = sorted(set(metrics["step"].to_pylist()))
        assert seen == list(range(len(seen)))
        assert len(committed) <= len(seen) <= len(committed) + 1  # the last one may not have been reported any more
        assert metrics.num_rows == NUM_ROWS * len(seen)
        assert replicates["step"].to_pylist() == seen
        for step in seen:
            assert (reader.bases(step)["blocks.0", "pca", "all"] == step).all()
        assert reader.manifest["finished"] is False
    assert reported > 20, "the writers were killed before they had written anything"


# One writer


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with Writer(path, {}) as first:
        commit(first, 0)
        with pytest.raises(StoreError) as caught:
            Writer(path, {})
        assert str(caught.value).startswith(f"{path} is being written by process {os.getpid()} on ")
        assert str(caught.value).endswith(" s ago): write to another folder, or stop that process")
        commit(first, 1)
    assert steps_in(path) == [0, 1]
    assert not (path / "writer.lock").exists()


def locked(path: Path, **changes: object) -> Path:
    """A folder in which a writer has left its lock and nothing else."""
    path.mkdir()
    held = {"host": os.uname().nodename, "pid": os.getpid(), "token": "theirs", "beat": time.time()} | changes
    (path / "writer.lock").write_text(json.dumps(held))
    return path


def a_dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    assert steps_in(run_of(locked(tmp_path / "dead", pid=a_dead_pid()), (5,))) == [5]
    assert steps_in(run_of(locked(tmp_path / "stale", beat=time.time() - 61), (5,))) == [5]


@pytest.mark.parametrize("changes", [{}, {"host": "elsewhere", "pid": 1}, {"beat": time.time() + 3600}])
def test_the_lock_of_a_living_one_is_not(changes: dict[str, object], tmp_path: Path) -> None:
    path = locked(tmp_path / "run", **changes)
    with pytest.raises(StoreError, match=r"is being written by process \d+ on"):
        Writer(path, {})
    assert json.loads((path / "writer.lock").read_text())["token"] == "theirs"


def test_a_lock_that_cannot_be_read_is_held_for_a_minute(tmp_path: Path) -> None:
    path = locked(tmp_path / "run")
    (path / "writer.lock").write_text("")  # its writer is between making and filling it
    with pytest.raises(StoreError, match="is being written"):
        Writer(path, {})
    old = locked(tmp_path / "old")
    (old / "writer.lock").write_text("")
    os.utime(old / "writer.lock", (time.time() - 61,) * 2)
    assert steps_in(run_of(old, (5,))) == [5]


def test_a_writer_that_was_taken_over_writes_no_more(tmp_path: Path) -> None:
    with Writer(tmp_path / "run", {}) as to:
        commit(to, 0)
        lock = json.loads((tmp_path / "run/writer.lock").read_text())
        (tmp_path / "run/writer.lock").write_text(json.dumps(lock | {"token": "another"}))
        with pytest.raises(StoreError) as caught:
            commit(to, 1)
        message = f"another process has taken over {to.path}: nothing more is written by this one"
        assert str(caught.value) == message
        for write in (lambda: to.fault(1, "blocks.0", "NaN"), lambda: to.update(name="mine")):
            with pytest.raises(StoreError, match=message):
                write()
    assert steps_in(tmp_path / "run") == [0]
    assert Reader(tmp_path / "run").faults() == []
    assert "closed" not in Reader(tmp_path / "run").manifest
    assert json.loads((tmp_path / "run/writer.lock").read_text())["token"] == "another", "it is not ours to remove"


def test_a_heartbeat_keeps_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_BEAT_S", 0.02)
    with Writer(tmp_path / "run", {}):
        lock = tmp_path / "run/writer.lock"
        first = json.loads(lock.read_text())["beat"]
        deadline = time.monotonic() + 10
        while json.loads(lock.read_text())["beat"] == first and time.monotonic() < deadline:
            time.sleep(0.01)
        assert json.loads(lock.read_text())["beat"] > first


# Attempts


def part(path: Path, folder: str, name: str, rows: list[dict[str, object]]) -> None:
    schema = METRICS if folder == "metrics" else REPLICATES
    pq.write_table(table(rows, schema), path / folder / f"{name}.parquet")


def test_a_later_attempt_supersedes_an_earlier_one_step_by_step(tmp_path: Path) -> None:
    path = run_of(tmp_path / "run", (0, 10, 20))
    for index, step in enumerate((20, 30)):  # resumed after step 10
        name = f"002-{index:06d}-{step}"
        part(path, "metrics", name, [row(step, 9.0, attempt=2)])
        part(path, "replicates", name, [kept(step, 9.0) | {"attempt": 2}])
    reader = Reader(path)
    found = [(one["attempt"], one["step"], one["value"]) for one in reader.metrics().to_pylist()]
    assert found == [(1, 0, 0.5), (1, 0, 1.5), (1, 10, 0.5), (1, 10, 1.5), (2, 20, 9.0), (2, 30, 9.0)]
    assert reader.sql("select max(value) x from metrics where step = 20").to_pylist() == [{"x": 9.0}]
    assert reader.replicates()["replicates"].to_pylist() == [[0.5] * 5, [0.5] * 5, [9.0] * 5, [9.0] * 5]
    assert len(list((path / "metrics").iterdir())) == 5, "the old rows stay on disk"
    with pytest.raises(StoreError, match="holds no bases of step 20; it holds those of steps 0, 10"):
        reader.bases(20)  # those of attempt 1 belong to rows that no longer count


def test_foreign_files_among_the_parts_are_no_parts(tmp_path: Path) -> None:
    path = run_of(tmp_path / "run", (0,))
    for name in (".001-000001-1.parquet.ab12.tmp", "notes.parquet", "001-x-1.parquet"):
        (path / "metrics" / name).write_bytes(b"half of somethi")
    assert steps_in(path) == [0]


def test_columns_of_a_later_version_are_kept(tmp_path: Path) -> None:
    path = run_of(tmp_path / "run", (0,))
    more = table([row(1)], METRICS).append_column("extra", pa.array([1]))
    pq.write_table(more, path / "metrics/001-000001-1.parquet")
    assert Reader(path).metrics()["extra"].to_pylist() == [None, None, 1]
    assert Reader(path).sql("select extra from metrics where step = 1").to_pylist() == [{"extra": 1}]


# Words


def test_an_undeclared_word_is_refused(tmp_path: Path) -> None:
    with Writer(tmp_path / "run", {}) as to:
        for word, one in {
            "hunch": row(0, statistic="hunch"),
            "wish": row(0, control="wish"),
            "guess": row(0, control="sampled_labels/guess"),
        }.items():
            with pytest.raises(StoreError) as caught:
                to.commit(0, [row(0), one])
            assert str(caught.value) == (
                f"undeclared words ['{word}']: declare them in anisoscope/store/vocabulary.py first"
            )
        assert Reader(to.path).metrics().num_rows == 0
        to.commit(0, [row(0, control="sampled_labels/random_normal")])


@pytest.mark.parametrize("key", ["proxy", "view", "regime", "gradient", "site"])
def test_an_undeclared_word_is_refused_in_every_column(key: str, tmp_path: Path) -> None:
    with Writer(tmp_path / "run", {}) as to, pytest.raises(StoreError, match=r"undeclared words \['hunch'\]"):
        to.commit(0, [row(0, **{key: "hunch"})])


def test_every_word_says_what_it_means() -> None:
    for name, term in vocabulary.ALL.items():
        assert name == term.name
        assert term.title
        assert len(term.definition) > 5
        assert term.section
        assert term.kind
        assert term.null or term.kind not in ("statistic", "control")


# What is no run


def messages(path: Path) -> str:
    with pytest.raises(StoreError) as caught:
        an.open_run(path)
    return str(caught.value)


def test_what_is_no_run_says_so_and_names_the_nearest(tmp_path: Path) -> None:
    hint = ": give the folder that was named with run= or --out"
    empty, foreign = tmp_path / "lone/empty", tmp_path / "lone/foreign"
    empty.mkdir(parents=True)
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("all of it")
    assert messages(tmp_path / "lone/none") == f"there is no run at {tmp_path}/lone/none{hint}"
    assert messages(empty) == f"{empty} is no run (it is a folder without a manifest.json){hint}"
    assert messages(foreign) == f"{foreign} is no run (it is a folder without a manifest.json){hint}"
    assert messages(foreign / "thesis.txt") == f"{foreign}/thesis.txt is no run (it is a file){hint}"
    run = run_of(tmp_path / "lone/real")
    assert messages(tmp_path / "lone") == (
        f"{tmp_path}/lone is no run (it is a folder without a manifest.json); the nearest runs are {run}"
    )
    assert messages(empty) == f"{empty} is no run (it is a folder without a manifest.json); the nearest runs are {run}"


def test_manifests_that_cannot_be_read(tmp_path: Path) -> None:
    path = run_of(tmp_path / "run")
    manifest = path / "manifest.json"
    manifest.write_text("{half of it")
    assert messages(path) == (
        f"cannot read {manifest}: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    )
    manifest.write_text("[1, 2]")
    assert messages(path) == f"{manifest} holds no JSON object: this is not a run of anisoscope"
    manifest.write_text('{"name": "site"}')
    assert messages(path) == f"{manifest} names no schema version: this is not a run of anisoscope"
    manifest.write_text('{"schema_version": 2}')
    assert messages(path) == f"{path} was written with schema 2, this anisoscope reads up to 1: upgrade"
    manifest.write_bytes(b"\xff\xfe")
    assert messages(path).startswith(f"cannot read {manifest}: ")


def damaged(path: Path) -> Path:
    broken = run_of(path) / "metrics/001-000001-1.parquet"
    broken.write_bytes(broken.read_bytes()[:-20])
    return broken


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    path, broken = tmp_path / "run", damaged(tmp_path / "run")
    with pytest.raises(StoreError, match=f"cannot read {broken}: .*; move it away to read the rest of the run"):
        Reader(path).metrics()
    broken.unlink()
    assert steps_in(path) == [0, 2]
    bases = path / "bases/001-000002-2.safetensors"
    bases.write_bytes(b"\x00")
    with pytest.raises(StoreError, match=f"cannot read {bases}: "):
        Reader(path).bases(2)


def test_a_damaged_part_is_named_by_sql_too(tmp_path: Path) -> None:
    broken = damaged(tmp_path / "run")
    with pytest.raises(StoreError, match=str(broken)):
        Reader(tmp_path / "run").sql("from metrics")


def test_a_writer_killed_before_its_manifest_leaves_a_folder_that_can_be_used(tmp_path: Path) -> None:
    path = locked(tmp_path / "run", pid=a_dead_pid())
    for folder in ("metrics", "replicates", "bases", "faults"):
        (path / folder).mkdir()
    assert steps_in(run_of(path, (5,))) == [5]


def begun(path: Path, beat: float, pid: int) -> Path:
    """A run whose writer was killed inside its first look: all but the metrics part is there."""
    run_of(path, (0,))
    (path / "metrics/001-000000-0.parquet").rename(path / "metrics/.001-000000-0.parquet.ab12.tmp")
    (path / "faults/001-000000-0.json").write_text('{"step": 0, "where": "blocks.0", "reason": "NaN"}')
    held = {"host": os.uname().nodename, "pid": pid, "token": "theirs", "beat": beat}
    (path / "writer.lock").write_text(json.dumps(held))
    return path


def test_a_run_whose_writer_died_before_its_first_look_is_taken_over(tmp_path: Path) -> None:
    path = begun(tmp_path / "run", time.time(), a_dead_pid())
    assert writer.refuse_unwritable(path) == path
    assert Reader(path).faults(), "asking changes nothing"
    with Writer(path, {"name": "second"}) as to:
        assert Reader(path).faults() == []
        assert [entry for folder in ("metrics", "bases", "replicates") for entry in (path / folder).iterdir()] == []
        commit(to, 5)
    assert steps_in(path) == [5]
    assert Reader(path).manifest["name"] == "second"


def test_a_run_whose_writer_lives_is_not_taken_over_before_its_first_look(tmp_path: Path) -> None:
    path = begun(tmp_path / "run", time.time(), os.getpid())
    before = sorted(path.rglob("*"))
    for start in (writer.refuse_unwritable, lambda path: Writer(path, {})):
        with pytest.raises(StoreError, match=f"is being written by process {os.getpid()} on"):
            start(path)
    assert sorted(path.rglob("*")) == before


def test_a_run_with_a_look_is_never_taken_over_whatever_its_writer_does(tmp_path: Path) -> None:
    path = run_of(tmp_path / "run", (0,))
    (path / "writer.lock").write_text(json.dumps({"host": "elsewhere", "pid": 1, "token": "theirs", "beat": 0.0}))
    with pytest.raises(StoreError, match="a run exists already in"):
        Writer(path, {})
    assert steps_in(path) == [0]


def test_a_run_that_got_its_first_look_between_check_and_lock_is_not_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = run_of(tmp_path / "run", (0,))
    monkeypatch.setattr(writer, "refuse_unwritable", lambda path: path)
    with pytest.raises(StoreError, match="a run exists already in"):
        Writer(path, {})
    assert steps_in(path) == [0]
    assert not (path / "writer.lock").exists()


@pytest.mark.parametrize("foreign", ["report.html", "faults/notes.txt", "metrics/2024.parquet", "other/manifest.json"])
def test_a_folder_that_holds_anything_else_is_not_taken_over(foreign: str, tmp_path: Path) -> None:
    path = begun(tmp_path / "run", 0.0, os.getpid())
    (path / foreign).parent.mkdir(exist_ok=True)
    (path / foreign).write_text("mine")
    with pytest.raises(StoreError, match="is not empty and holds no run"):
        Writer(path, {})
    assert (path / foreign).read_text() == "mine"


@pytest.mark.parametrize("manifest", ["{}", '["schema_version"]', "3", "half of {", ""])
def test_a_manifest_that_is_none_of_ours_is_not_written_over(manifest: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(manifest)
    with pytest.raises(StoreError, match="is not empty and holds no run"):
        Writer(tmp_path, {})
    assert (tmp_path / "manifest.json").read_text() == manifest


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda path: path.write_text("x"), "{path} is a file; a run is a folder: choose another path"),
        (lambda path: run_of(path), "a run exists already in {path}: choose another folder, or delete this one first"),
        (
            lambda path: (path / "thesis").mkdir(parents=True),
            "{path} is not empty and holds no run: choose another folder, so that nothing is mixed up",
        ),
    ],
)
def test_folders_that_cannot_become_a_run(prepare: object, message: str, tmp_path: Path) -> None:
    path = tmp_path / "run"
    prepare(path)
    before = sorted(path.rglob("*"))
    with pytest.raises(StoreError) as caught:
        Writer(path, {})
    assert str(caught.value) == message.format(path=path)
    assert sorted(path.rglob("*")) == before, "nothing is left behind"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StoreError) as caught:
            Writer(tmp_path / "a/b", {})
    finally:
        tmp_path.chmod(0o700)
    assert str(caught.value) == f"cannot write into {tmp_path} (no permission): choose a folder that you may write"


def test_an_empty_folder_and_folders_yet_to_be_made_become_a_run(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert steps_in(run_of(tmp_path / "empty")) == [0, 1, 2]
    assert steps_in(run_of(tmp_path / "a/b/c")) == [0, 1, 2]


def test_nothing_on_disk_is_a_pickle(tmp_path: Path) -> None:
    path = run_of(tmp_path / "run")
    kinds = {entry.suffix for entry in path.rglob("*") if entry.is_file()}
    assert kinds == {".json", ".parquet", ".safetensors"}
