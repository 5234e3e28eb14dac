"""What one run's store holds, as claims ask for it: a cell is a number with its replicates, or missing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_WHERE = ("step", "layer", "proxy", "rank", "view", "control", "statistic", "gradient")


@dataclass(frozen=True)
class Way:
    """A way to measure: the primary cell, or one of the others that robustness goes through."""

    proxy: str
    view: str
    rank: int | None = None  # None: the primary rank of each layer's width

    def __str__(self) -> str:
        return f"{self.proxy}, rank {self.rank or 'primary'}, view {self.view}"


class Evidence:
    """The rows and replicates of one run, by cell."""

    def __init__(
        self,
        metrics: pa.Table,
        replicates: pa.Table,
        manifest: Mapping[str, Any],
        name: str = "this run",
        faults: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.manifest, self.name = manifest, name
        self._faulty = {fault.get("step") for fault in faults}
        # Only what claims read (proxies against gradients) is turned into Python objects.
        wanted = metrics.filter(pc.field("proxy") != "")
        columns = [wanted[key].to_pylist() for key in _WHERE]
        self._rows = {
            key: (value, chance)
            for *key_parts, value, chance in zip(
                *columns, wanted["value"].to_pylist(), wanted["chance"].to_pylist(), strict=True
            )
            for key in [tuple(key_parts)]
        }
        keys = zip(*[replicates[key].to_pylist() for key in _WHERE], strict=True)
        flat = replicates["replicates"].combine_chunks()
        each = [np.asarray(part.values if part.is_valid else [], dtype=np.float64) for part in flat]
        self._replicates = dict(zip(keys, each, strict=True))
        self.num_replicates = len(each[0]) if each else 0

    @cached_property
    def layers(self) -> list[str]:
        """The watched blocks, first to last; the embedding apart."""
        named = [layer["layer"] for layer in self.manifest["layers"] if layer["depth"] > 0]
        seen = {key[1] for key in self._rows}
        return [layer for layer in named if layer in seen]

    @cached_property
    def primary_ranks(self) -> dict[str, int]:
        return {layer["layer"]: layer["primary_rank"] for layer in self.manifest["layers"]}

    @cached_property
    def steps(self) -> list[int | None]:
        """The steps that were looked at, in order, faulty looks too; None is a look whose step nobody knows."""
        steps = {key[0] for key in self._rows} | self._faulty
        return sorted(steps, key=lambda step: (step is not None, step or 0))

    @property
    def num_steps(self) -> int | None:
        return self.manifest.get("num_steps")

    @property
    def num_test_sequences(self) -> int | None:
        return self.manifest.get("num_test_sequences")

    @property
    def objective(self) -> str | None:
        return self.manifest.get("objective")

    @property
    def primary(self) -> Way:
        """The cell declared before the run."""
        return Way(self.manifest["config"]["primary"]["proxy"], self.manifest["primary_view"])

    @cached_property
    def ways(self) -> list[Way]:
        """Every way to measure that the store holds with replicates, the primary one first."""
        views = [self.primary.view, *sorted({key[4] for key in self._replicates} - {self.primary.view})]
        ranks = sorted({key[3] for key in self._replicates if key[3]})
        proxies = self.manifest["config"]["proxies"]
        default = {self.rank(self.primary, layer) for layer in self.layers}
        ways = [
            Way(proxy, view, None if {rank} == default else rank)
            for proxy in proxies
            for view in views
            for rank in ranks
        ]
        held = {(key[2], key[4], key[3]) for key in self._replicates if key[5] == "" and key[0] != 0}
        some = next(iter(default), 0)
        return sorted(
            (way for way in ways if (way.proxy, way.view, way.rank or some) in held),
            key=lambda way: way != self.primary,
        )

    def rank(self, way: Way, layer: str) -> int:
        return way.rank or self.primary_ranks[layer]

    def after(self, fraction: float) -> list[int | None]:
        """Looks after this fraction of training; of an unknown number of steps, all looks but step 0."""
        trained = [step for step in self.steps if step != 0]
        if self.num_steps is None:
            return trained
        return [step for step in trained if step is None or step > fraction * self.num_steps]

    def cell(
        self, step: int | None, layer: str, way: Way, statistic: str, control: str = ""
    ) -> tuple[np.ndarray, float | None] | None:
        """(the value followed by its replicates, chance); without replicates the value is repeated."""
        key = (step, layer, way.proxy, self.rank(way, layer), way.view, control, statistic, "hidden")
        row = self._rows.get(key)
        if row is None:
            return None
        value, chance = row
        others = self._replicates.get(key)
        if others is None:
            others = np.full(self.num_replicates, value)
        return np.append(value, others), chance
