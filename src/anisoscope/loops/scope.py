"""`Scope`: watches a model in a plain training loop. Two added lines."""

import logging
import os
import time
from collections.abc import Callable, Sequence

import pyarrow as pa
import torch
from torch import nn

from ..capture.look import Look
from ..capture.passes import Passes
from ..capture.windows import Windows, is_whole
from ..errors import InputError, ModelError
from ..geometry.subspace import METHODS, Method
from ..protocol.measure import manifest_of
from ..protocol.observe import DEFAULT_RANKS, Protocol
from ..store import Writer
from ..store.writer import refuse_unwritable

_log = logging.getLogger("anisoscope")


def default_schedule(step: int) -> bool:
    """0, 1, 2, 4, ..., 1024, then every 1,000 steps.

    >>> [step for step in range(3001) if default_schedule(step)]
    [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2000, 3000]
    """
    return step & (step - 1) == 0 if step <= 1024 else step % 1000 == 0


class Scope:
    """Watches a model while it trains, on windows that training never sees, and writes a run.

    A look is a pass of its own: training with a Scope is bit-identical to training without one. Once training has
    begun nothing of ours raises into it: what fails is recorded with its reason, and switched off.

    Claims take step 0, the look on entering, for the untrained model. Where training starts from learned weights it is
    none: read "untrained" as "before this training", or take the looks yourself, at steps from 1 on, with
    `an.Look.from_model(model, windows, step=...)` and `an.measure(looks, run=...)`, and the claims say what is missing.

    >>> import tempfile, torch, anisoscope as an
    >>> from anisoscope.lab.model import ModelConfig, Transformer
    >>> model = Transformer(ModelConfig(vocab_size=50, num_blocks=2, width=16, num_heads=2, length=8, causal=True))
    >>> optimizer = torch.optim.AdamW(model.parameters())
    >>> windows, batch = an.Windows.from_ids(torch.randint(50, (64, 8))), torch.randint(50, (4, 8))
    >>> with an.Scope(model, windows, num_steps=3, run=tempfile.mkdtemp() + "/run") as scope:
    ...     for _ in range(3):
    ...         logits = model(batch)
    ...         torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), batch[:, 1:].flatten()).backward()
    ...         optimizer.step(); optimizer.zero_grad()
    ...         scope.step()
    >>> sorted(set(an.open_run(scope.run).metrics()["step"].to_pylist()))
    [0, 1, 2, 3]
    """

    def __init__(
        self,
        model: nn.Module,
        windows: Windows,
        every: int | None = None,
        num_steps: int | None = None,
        run: str | os.PathLike[str] = "runs/first",
        *,
        schedule: Callable[[int], bool] | None = None,
        ranks: tuple[int, ...] = DEFAULT_RANKS,
        proxies: tuple[Method, ...] = METHODS,
        layers: str | Sequence[str] | None = None,
        batch_size: int = 16,
        name: str | None = None,
        seed: int = 0,
        on_look: Callable[[pa.Table], None] | None = None,
    ) -> None:
        """`every=N` looks every N steps, `schedule` is a function from step to yes or no; neither means 0, 1, 2, 4,
        ..., 1024, then every 1,000. `num_steps` is the planned number of optimiser steps; the last one is always looked
        at. `layers` is as for `an.Look.from_model`. `on_look` receives the rows of each look as a table.
        """
        if every is not None and not is_whole(every, 1):
            raise InputError(f"every = {every!r}; wanted a whole number of steps, at least 1")
        if every is not None and schedule is not None:
            raise InputError("every and schedule both say when to look; give one of them")
        if schedule is not None and not callable(schedule):
            raise InputError(f"schedule = {schedule!r}; wanted a function from step to True or False")
        ranked = torch.distributed.is_available() and torch.distributed.is_initialized()
        if ranked and torch.distributed.get_world_size() > 1:
            raise ModelError(
                f"this process is one of {torch.distributed.get_world_size()} ranks; this version watches training in "
                "one process: measure its checkpoints with an.Look.from_model instead"
            )
        self.run = refuse_unwritable(run)
        self._due = schedule or (default_schedule if every is None else lambda step: step % every == 0)
        self._protocol = Protocol(ranks, proxies, num_steps, seed)
        self._passes = Passes(model, windows, layers=layers, batch_size=batch_size)
        self._num_steps = num_steps
        self._name = name
        self._on_look = on_look
        self._writer: Writer | None = None
        self._step = 0
        self._seen: int | None = None
        self._tokens: int | None = None
        self._off = ""
        self._told: set[str] = set()
        self._look_s = 0.0
        self._notices: list[str] = []
        ignored = self._protocol.ignored_ranks(self._passes.sites)
        if ignored:
            self._tell("ranks", f"ranks {ignored} are left out: wanted at most half of a layer's width")

    def __enter__(self) -> "Scope":
        self._due(0)  # step 0 is always looked at; a schedule that fails shall say so before anything is written
        look = Look.from_passes(self._passes, step=0)
        extra = {"name": self._name, "windows": self._passes.windows.facts()}
        self._writer = Writer(self.run, manifest_of(look, self._protocol, **extra))
        self._began_s = time.monotonic()
        try:
            self._look(look)
            if self._off:  # training has not begun: better now than after a night without a row
                raise ModelError(f"the first look failed, so nothing would be measured: {self._off}")
        except BaseException as error:  # `with` does not close what it never entered
            self.__exit__(type(error))
            raise
        return self

    def step(self, num_tokens: int | None = None) -> None:
        """Counts one optimiser step, and looks if it is time. `num_tokens`: how many tokens this step trained on."""
        if self._writer is None:
            raise InputError("scope.step() outside of `with an.Scope(...) as scope:`; nothing is open to write to")
        self._step += 1
        if self._off:
            return
        try:
            if num_tokens is not None:
                self._tokens = (self._tokens or 0) + int(num_tokens)
            due = self._step == self._num_steps or self._due(self._step)
        except Exception as error:
            self._switch_off(error, "schedule")
            return
        if due:
            self._look()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._writer is None:
            return
        finished = False
        try:
            if kind is None and self._seen != self._step:
                self._look(last=True)
            finished = kind is None and not self._off
        finally:
            writer, self._writer = self._writer, None
            total_s = time.monotonic() - self._began_s
            try:
                writer.close(finished, look_s=round(self._look_s, 3), total_s=round(total_s, 3), notices=self._notices)
            except Exception as error:
                _log.warning("anisoscope: cannot close %s: %s", self.run, error)

    def _look(self, look: Look | None = None, last: bool = False) -> None:
        """One look, committed. Whatever goes wrong in it stays in it."""
        if self._off or self._writer is None:
            return
        began_s = time.monotonic()
        try:
            look = look or Look.from_passes(self._passes, self._step, self._tokens)
            seen = self._protocol.observe(look, last=last or self._step == self._num_steps)
            for where, reason in seen.faults:
                self._writer.fault(self._step, where, reason)
                self._tell(where, f"step {self._step}, {where} is not measured: {reason}")
            rows = self._writer.commit(self._step, seen.rows, seen.replicates, seen.bases)
            self._note(seen.notices)
            self._seen = self._step
            self._look_s += time.monotonic() - began_s
        except Exception as error:
            self._switch_off(error, "look")
            return
        try:
            if self._on_look is not None:
                self._on_look(rows)
        except Exception as error:
            self._switch_off(error, "on_look")

    def _note(self, notices: Sequence[str]) -> None:
        """For the manifest, and for those who listen to the log at info."""
        for notice in notices:
            if notice not in self._notices:
                self._notices.append(notice)
                _log.info("anisoscope: step %s, %s", self._step, notice)

    def _switch_off(self, error: Exception, what: str) -> None:
        """No more of what failed: of the user's `on_look` alone, else of all looks."""
        reason = f"{type(error).__name__}: {error}"
        if what == "on_look":
            self._on_look = None
        else:
            self._off = reason
        self._tell(what, f"{what} switched off at step {self._step}, training goes on. {reason}")
        try:
            self._writer.fault(self._step, what, reason)  # type: ignore[union-attr]
        except Exception as second:
            self._tell("fault", f"the fault itself could not be recorded: {second}")

    def _tell(self, where: str, text: str) -> None:
        """One line in the log for each place where something fails; the store keeps them all."""
        if where not in self._told:
            self._told.add(where)
            _log.warning("anisoscope: %s", text)
