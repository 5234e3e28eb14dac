"""`Scope`: when it looks, what it writes, and that nothing that goes wrong in it reaches the training loop."""

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
import torch
from torch import Tensor, nn

import anisoscope as an
from anisoscope.capture.positions import IGNORED
from anisoscope.loops.scope import default_schedule
from anisoscope.protocol.observe import Protocol
from capture.models import Stack, ids

WINDOWS = an.Windows.from_ids(ids(8, 8))
LITTLE = {"ranks": (2,), "proxies": ("pca",)}


class Loop:
    """A model, its optimiser, and training steps."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = Stack(width=8, num_blocks=2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.batch = torch.randint(4, 61, (4, 8))

    def step(self) -> None:
        logits = self.model(self.batch)
        nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), self.batch[:, 1:].flatten()).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def scope(self, run: Path, **options: object) -> an.Scope:
        return an.Scope(self.model, WINDOWS, run=run, **{**LITTLE, **options})  # type: ignore[arg-type]

    def watched(self, run: Path, count: int, after: Callable[[int], object] = id, **options: object) -> an.Scope:
        with self.scope(run, **options) as scope:
            for step in range(1, count + 1):
                self.step()
                scope.step()
                after(step)
        return scope

    @property
    def weights(self) -> list[Tensor]:
        return [parameter.detach().clone() for parameter in self.model.parameters()]


def steps_of(run: Path) -> list[int]:
    return sorted(set(an.open_run(run).metrics()["step"].to_pylist()))


def looks_in(run: Path) -> list[str]:
    """The parts on disk, one a look."""
    return sorted(part.stem.split("-", 1)[1] for part in (run / "metrics").iterdir())


def untouched_after(num_steps: int) -> list[Tensor]:
    loop = Loop()
    for _ in range(num_steps):
        loop.step()
    return loop.weights


def assert_trained_as_without(loop: Loop, num_steps: int) -> None:
    assert all(torch.equal(a, b) for a, b in zip(loop.weights, untouched_after(num_steps), strict=True))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in loop.model.modules())


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "anisoscope"]


def test_the_default_schedule() -> None:
    assert [step for step in range(5001) if default_schedule(step)] == [
        0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2000, 3000, 4000, 5000,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "num_steps", "expected"),
    [
        ({}, 6, [0, 1, 2, 4, 6]),
        ({}, 4, [0, 1, 2, 4]),
        ({}, 0, [0]),
        ({"every": 3}, 7, [0, 3, 6, 7]),
        ({"every": 1}, 3, [0, 1, 2, 3]),
        ({"every": 100}, 2, [0, 2]),
        ({"schedule": lambda step: step in (2, 3)}, 5, [0, 2, 3, 5]),
        ({"schedule": lambda step: False}, 2, [0, 2]),
        ({"every": 4, "num_steps": 6}, 6, [0, 4, 6]),
        ({"every": 4, "num_steps": 6}, 9, [0, 4, 6, 8, 9]),
        ({"every": 4, "num_steps": 20}, 6, [0, 4, 6]),
        ({"num_steps": 4}, 4, [0, 1, 2, 4]),
    ],
)
def test_when_it_looks_never_twice_and_always_last(options, num_steps, expected, tmp_path: Path) -> None:
    Loop().watched(tmp_path / "run", num_steps, **options)
    assert steps_of(tmp_path / "run") == expected
    assert looks_in(tmp_path / "run") == [f"{number:06d}-{step}" for number, step in enumerate(expected)]


def test_the_last_look_is_taken_inside_the_last_step_where_it_is_known(tmp_path: Path) -> None:
    seen = []
    Loop().watched(tmp_path / "run", 3, after=lambda step: seen.append(looks_in(tmp_path / "run")[-1]), num_steps=3)
    assert seen == ["000001-1", "000002-2", "000003-3"]


@pytest.mark.parametrize("num_steps", [None, 3])
def test_the_last_look_has_the_full_grid(num_steps: int | None, tmp_path: Path) -> None:
    tables: list[pa.Table] = []
    Loop().watched(tmp_path / "run", 3, num_steps=num_steps, on_look=tables.append)
    sizes = [table.num_rows for table in tables]
    assert sizes[0] == sizes[-1] > sizes[1] == sizes[2]


def test_rows_are_those_of_looks_at_the_same_weights(tmp_path: Path) -> None:
    loop, looks = Loop(), []
    with loop.scope(tmp_path / "run", every=1, num_steps=2) as scope:
        looks.append(an.Look.from_model(loop.model, WINDOWS, step=0))
        for step in (1, 2):
            loop.step()
            scope.step()
            looks.append(an.Look.from_model(loop.model, WINDOWS, step=step))
    wanted = an.measure(looks, ranks=(2,), proxies=("pca",))
    assert an.open_run(tmp_path / "run").metrics().equals(wanted)


def test_on_look_receives_the_rows_of_each_look(tmp_path: Path) -> None:
    tables: list[pa.Table] = []
    Loop().watched(tmp_path / "run", 3, on_look=tables.append)
    assert [set(table["step"].to_pylist()) for table in tables] == [{0}, {1}, {2}, {3}]
    assert pa.concat_tables(tables).equals(an.open_run(tmp_path / "run").metrics().select(tables[0].column_names))


def test_tokens_seen(tmp_path: Path) -> None:
    loop = Loop()
    with loop.scope(tmp_path / "run", every=2) as scope:
        for num_tokens in (32, 16, None, 8):
            loop.step()
            scope.step(num_tokens)
    rows = an.open_run(tmp_path / "run").metrics()
    assert set(zip(rows["step"].to_pylist(), rows["tokens_seen"].to_pylist(), strict=True)) == {
        (0, None), (2, 48), (4, 56),
    }  # fmt: skip


def test_the_manifest_says_what_was_watched(tmp_path: Path) -> None:
    loop = Loop()
    loop.watched(tmp_path / "run", 2, num_steps=2, name="mine", seed=5)
    manifest = an.open_run(tmp_path / "run").manifest
    assert manifest["name"] == "mine"
    assert manifest["finished"] is True
    assert manifest["num_steps"] == 2
    assert manifest["windows"] == WINDOWS.facts()
    assert manifest["model"]["class"] == "Stack"
    assert manifest["config"]["seed"] == 5
    assert [layer["layer"] for layer in manifest["layers"]] == ["embedding", "blocks.0", "blocks.1"]
    assert 0 < manifest["look_s"] <= manifest["total_s"]
    assert manifest["notices"] == []
    assert not (tmp_path / "run" / "writer.lock").exists()


def test_an_exception_in_the_loop_ends_the_run_where_it_was(tmp_path: Path) -> None:
    run = tmp_path / "run"

    def after(step: int) -> None:
        if step == 3:
            raise ZeroDivisionError("the user's own")

    with pytest.raises(ZeroDivisionError, match="the user's own"):
        Loop().watched(run, 6, after)
    assert steps_of(run) == [0, 1, 2]
    assert an.open_run(run).manifest["finished"] is False
    assert an.open_run(run).claims()
    assert not (run / "writer.lock").exists()


class Boom(Exception):
    pass


def raising(error: BaseException) -> Callable[..., None]:
    def fails(*_: object, **__: object) -> None:
        raise error

    return fails


def test_an_exception_in_on_look_ends_on_look_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run, loop, seen = tmp_path / "run", Loop(), []

    def on_look(rows: pa.Table) -> None:
        seen.append(rows["step"][0].as_py())
        if len(seen) == 2:
            raise Boom("cannot draw this")

    loop.watched(run, 4, on_look=on_look)
    assert_trained_as_without(loop, 4)
    assert seen == [0, 1]
    assert steps_of(run) == [0, 1, 2, 4]
    assert an.open_run(run).faults() == [{"step": 1, "where": "on_look", "reason": "Boom: cannot draw this"}]
    assert an.open_run(run).manifest["finished"] is True
    assert warnings_in(caplog) == [
        "anisoscope: on_look switched off at step 1, training goes on. Boom: cannot draw this"
    ]


def test_an_exception_in_a_look_ends_the_looks(monkeypatch, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run, loop = tmp_path / "run", Loop()

    def after(step: int) -> None:
        if step == 1:
            monkeypatch.setattr(Protocol, "observe", raising(Boom("no memory")))

    loop.watched(run, 6, after)
    assert_trained_as_without(loop, 6)
    assert steps_of(run) == [0, 1]
    assert an.open_run(run).faults() == [{"step": 2, "where": "look", "reason": "Boom: no memory"}]
    assert an.open_run(run).manifest["finished"] is False
    assert warnings_in(caplog) == ["anisoscope: look switched off at step 2, training goes on. Boom: no memory"]


def test_an_exception_in_the_schedule_ends_the_looks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run, loop, asked = tmp_path / "run", Loop(), []

    def schedule(step: int) -> bool:
        asked.append(step)
        return [True, True][step]

    loop.watched(run, 4, schedule=schedule)
    assert_trained_as_without(loop, 4)
    assert asked == [*steps_of(run), 2] == [0, 1, 2]
    assert an.open_run(run).faults() == [
        {"step": 2, "where": "schedule", "reason": "IndexError: list index out of range"}
    ]
    assert warnings_in(caplog) == [
        "anisoscope: schedule switched off at step 2, training goes on. IndexError: list index out of range"
    ]


def test_a_schedule_that_fails_at_once_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        Loop().watched(tmp_path / "run", 1, schedule=lambda step: 1 / step > 0)
    assert not (tmp_path / "run").exists()


def test_a_model_that_comes_to_be_built_otherwise_ends_the_looks(tmp_path: Path) -> None:
    run, loop = tmp_path / "run", Loop()

    def after(step: int) -> None:
        if step == 2:
            loop.model.run = lambda h: h + loop.model.blocks[0](h)

    loop.watched(run, 4, after)
    assert steps_of(run) == [0, 1, 2]
    (fault,) = an.open_run(run).faults()
    assert fault["reason"].startswith("ModelError: expected one record a layer and pass, received {'blocks.1': 0}")


def test_weights_that_turn_nan_are_recorded_for_each_layer_and_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run, loop = tmp_path / "run", Loop()

    def after(step: int) -> None:
        if step == 1:
            with torch.no_grad():
                loop.model.blocks[0][1].bias.fill_(torch.nan)

    loop.watched(run, 4, after)
    rows = an.open_run(run).metrics().to_pylist()
    assert {row["step"] for row in rows if row["layer"]} == {0, 1}
    assert all(row["value"] == row["value"] for row in rows)
    faults = an.open_run(run).faults()
    assert [(fault["step"], fault["where"]) for fault in faults] == [
        (2, "embedding"), (2, "blocks.0"), (2, "blocks.1"), (4, "embedding"), (4, "blocks.0"), (4, "blocks.1"),
    ]  # fmt: skip
    assert {fault["reason"] for fault in faults if fault["where"] == "blocks.0"} == {"activations hold NaN in 32 rows"}
    assert len(warnings_in(caplog)) == 3
    assert an.open_run(run).manifest["finished"] is True


def test_one_layer_that_overflows_leaves_the_others_measured(tmp_path: Path) -> None:
    class Overflowing(Stack):
        def run(self, h: Tensor) -> Tensor:
            return self.blocks[1](self.blocks[0](h)).clamp(-9, 9)

    loop = Loop()
    loop.model = Overflowing(width=8, num_blocks=2)
    with torch.no_grad():
        loop.model.blocks[1][1].bias[0] = torch.inf
    with loop.scope(tmp_path / "run"):
        pass
    run = an.open_run(tmp_path / "run")
    assert [(fault["where"], fault["reason"]) for fault in run.faults()] == [
        ("blocks.1", "activations hold Inf in 32 rows")
    ]
    shares = run.sql("select distinct layer from metrics where statistic = 'energy_share' order by layer")
    assert shares["layer"].to_pylist() == ["blocks.0", "embedding"]


def test_a_folder_that_is_deleted_ends_the_looks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run, loop = tmp_path / "run", Loop()
    loop.watched(run, 5, after=lambda step: step == 1 and shutil.rmtree(run))
    assert_trained_as_without(loop, 5)
    told = warnings_in(caplog)
    assert told[0].startswith("anisoscope: look switched off at step 2, training goes on. StoreError: ")
    assert told[1].startswith("anisoscope: the fault itself could not be recorded: ")
    assert len(told) == 2


@pytest.mark.parametrize(("owner", "call"), [(os, "fsync"), (Path, "replace")])
def test_a_disk_that_fails_ends_the_looks_and_keeps_what_was_committed(
    owner: object, call: str, monkeypatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run, loop = tmp_path / "run", Loop()

    def after(step: int) -> None:
        if step == 2:
            monkeypatch.setattr(owner, call, raising(OSError(28, "No space left on device")))

    loop.watched(run, 6, after)
    monkeypatch.undo()
    assert_trained_as_without(loop, 6)
    assert steps_of(run) == [0, 1, 2]
    assert an.open_run(run).manifest["finished"] is False
    assert an.open_run(run).claims()
    assert warnings_in(caplog) == [
        "anisoscope: look switched off at step 4, training goes on. OSError: [Errno 28] No space left on device",
        "anisoscope: the fault itself could not be recorded: [Errno 28] No space left on device",
        f"anisoscope: cannot close {run}: [Errno 28] No space left on device",
    ]
    assert not (run / "writer.lock").exists()
    assert not list(run.rglob("*.tmp"))


@pytest.mark.parametrize("at", [0, 1, 4])
def test_ctrl_c_inside_a_look_goes_through_and_leaves_the_store_intact(at: int, monkeypatch, tmp_path: Path) -> None:
    run, loop, done = tmp_path / "run", Loop(), []
    real = torch.autograd.grad

    def grad(*args, **kwargs):
        if len(done) == at and not is_probe():
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    def is_probe() -> bool:
        return not run.exists()

    monkeypatch.setattr(torch.autograd, "grad", grad)
    with pytest.raises(KeyboardInterrupt):
        loop.watched(run, 4, after=done.append, every=1 if at < 4 else 3)
    monkeypatch.undo()
    assert an.open_run(run).manifest["finished"] is False
    assert steps_of(run) == {0: [], 1: [0, 1], 4: [0, 3]}[at]
    assert not (run / "writer.lock").exists()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in loop.model.modules())
    assert all(module.training for module in loop.model.modules())


def test_a_folder_serves_one_scope(tmp_path: Path) -> None:
    run, loop = tmp_path / "run", Loop()
    first, second = loop.scope(run), loop.scope(run)
    with first:
        for start in (lambda: loop.scope(run), second.__enter__):
            with pytest.raises(an.StoreError, match=rf"^{run} is being written by process {os.getpid()} on "):
                start()
        loop.step()
        first.step()
    assert steps_of(run) == [0, 1]
    for start in (lambda: loop.scope(run), second.__enter__, first.__enter__):
        with pytest.raises(an.StoreError, match=rf"^a run exists already in {run}: "):
            start()


def test_a_step_outside_of_with_is_refused(tmp_path: Path) -> None:
    scope = Loop().scope(tmp_path / "run")
    message = r"^scope.step\(\) outside of `with an.Scope\(...\) as scope:`; nothing is open to write to$"
    with pytest.raises(an.InputError, match=message):
        scope.step()
    with scope:
        pass
    with pytest.raises(an.InputError, match=message):
        scope.step()
    scope.__exit__(None)  # twice is once
    assert steps_of(tmp_path / "run") == [0]


def test_nothing_is_written_before_the_loop_is_entered(tmp_path: Path) -> None:
    Loop().scope(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_readers_run_grows_while_it_is_written(tmp_path: Path) -> None:
    run, sizes = tmp_path / "run", []
    Loop().watched(run, 4, after=lambda _: sizes.append(steps_of(run)))
    assert sizes == [[0, 1], [0, 1, 2], [0, 1, 2], [0, 1, 2, 4]]


def test_an_objective_that_gives_the_loss_alone_can_be_watched(tmp_path: Path) -> None:
    def objective(model: nn.Module, ids: Tensor) -> Tensor:
        targets = torch.cat([ids[:, 1:], torch.full_like(ids[:, :1], IGNORED)], 1)
        return nn.functional.cross_entropy(model(ids).flatten(0, 1), targets.flatten(), reduction="sum")

    loop = Loop()
    with an.Scope(loop.model, an.Windows.from_ids(ids(8, 8), objective), run=tmp_path / "run", **LITTLE):
        pass
    rows = an.open_run(tmp_path / "run").metrics()
    assert "energy_share" in rows["statistic"].to_pylist()
    assert not {"sampled_labels", "permuted_labels"} & set(rows["control"].to_pylist())


def test_logging_is_the_users(tmp_path: Path) -> None:
    """No handler, no level of ours."""
    Loop().watched(tmp_path / "run", 1)
    assert logging.getLogger("anisoscope").handlers == []
    assert logging.getLogger("anisoscope").level == logging.NOTSET


def test_a_first_look_that_fails_is_told_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: object, look: object, last: bool = False) -> None:
        raise MemoryError("too large")

    run, loop = tmp_path / "run", Loop()
    with monkeypatch.context() as patch:
        patch.setattr(Protocol, "observe", fails)
        with pytest.raises(
            an.ModelError, match="the first look failed, so nothing would be measured: MemoryError: too large"
        ):
            loop.watched(run, 2)
    assert an.open_run(run).manifest["finished"] is False
    assert an.open_run(run).faults() == [{"step": 0, "where": "look", "reason": "MemoryError: too large"}]
    loop.watched(run, 2)  # the same folder, at the next try
    assert steps_of(run) == [0, 1, 2]
    assert an.open_run(run).manifest["finished"] is True
    assert an.open_run(run).faults() == []


def test_a_rank_that_no_layer_can_have_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Loop().watched(tmp_path / "run", 4, ranks=(2, 6))
    assert warnings_in(caplog) == ["anisoscope: ranks [6] are left out: wanted at most half of a layer's width"]


def test_notices_are_in_the_manifest_and_in_the_log_at_info_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "anisoscope")
    Loop().watched(tmp_path / "run", 4, ranks=(2, 6))
    layers = ("embedding", "blocks.0", "blocks.1")
    notices = [f"{layer}: ranks [6] left out, above half of the width 8" for layer in layers]
    assert an.open_run(tmp_path / "run").manifest["notices"] == notices
    noted = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    assert noted == [f"anisoscope: step 0, {notice}" for notice in notices]
