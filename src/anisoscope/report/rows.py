"""`RunRows`: what the page knows of one run, as the charts ask for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..claims import Evidence
from ..claims.evidence import Way
from ..claims.replicates import Replicates, interval
from ..claims.tangent import over
from ..store import Reader

MEDIAN = -1  # stands where a depth does: the median over blocks
MOST_STILLS = 24  # of the capture curve: a long run would make the page too large
Row = dict[str, Any]

_SITES = pc.field("site").isin(["block", "embedding"])
_CELLS = (
    _SITES
    & (pc.field("gradient") == "hidden")
    & (pc.field("regime") == "tracking")
    & (pc.field("group") == "")
    & pc.field("statistic").isin(["energy_share", "captured_variance"])
)


@dataclass(frozen=True)
class RunRows:
    """What the page knows of one run: its name, its manifest, its rows and their replicates."""

    name: str
    manifest: Mapping[str, Any]
    metrics: pa.Table
    replicates: pa.Table
    faults: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of(cls, reader: Reader) -> "RunRows":
        name = str(reader.manifest.get("name") or reader.path.name)
        return cls(name, reader.manifest, reader.metrics(), reader.replicates(), tuple(reader.faults()))

    def part(self, name: str) -> Mapping[str, Any]:
        """A part of the manifest, empty where there is none."""
        part = self.manifest.get(name)
        return part if isinstance(part, Mapping) else {}

    @property
    def proxy(self) -> str:
        """The primary proxy."""
        return str((self.part("config").get("primary") or {}).get("proxy", "pca"))

    @property
    def view(self) -> str:
        return str(self.manifest.get("primary_view") or "all")

    @property
    def objective(self) -> str:
        return str(self.manifest.get("objective") or "")

    @cached_property
    def primary_ranks(self) -> dict[str, int]:
        return {layer["layer"]: layer.get("primary_rank") for layer in self.manifest.get("layers") or ()}

    @cached_property
    def layers(self) -> dict[int, str]:
        """Layers by depth, first to last, as the rows name them."""
        held = self.metrics.filter(_SITES & (pc.field("layer") != "") & pc.field("depth").is_valid())
        pairs = held.group_by(["depth", "layer"]).aggregate([]).to_pylist()
        return {row["depth"]: row["layer"] for row in sorted(pairs, key=lambda row: row["depth"])}

    @cached_property
    def steps(self) -> list[int | None]:
        """The step of each look, in order; None is a look whose step nobody knows."""
        steps = self.metrics["step"].unique().to_pylist()
        return sorted(steps, key=lambda step: (step is not None, step or 0))

    @cached_property
    def stills(self) -> list[int]:
        """The looks at which the capture curve is drawn: all of them, or as many as a page can hold, evenly picked."""
        last = len(self.steps) - 1
        most = min(MOST_STILLS, last + 1)
        return sorted({round(at * last / max(most - 1, 1)) for at in range(most)})

    @cached_property
    def energy(self) -> list[Row]:
        """Energy shares in the primary view, at every rank: y, beside x, the share of variance of the same directions.

        Controls are those of the primary proxy; `series` is "" for the measurement, else the control or other proxy.
        """
        held = self.metrics.filter(_CELLS & (pc.field("view") == self.view)).to_pylist()
        captured = {_key(row, row["control"]): row["value"] for row in held if row["statistic"] == "captured_variance"}
        looks = {step: look for look, step in enumerate(self.steps)}
        rows = []
        for row in held:
            control, other = row["control"], "" if row["proxy"] == self.proxy else row["proxy"]
            if row["statistic"] != "energy_share" or "/" in control or (control and other):
                continue
            # A control that moves no directions (other labels, other weights of the rows) captures what they capture.
            x = captured.get(_key(row, control), captured.get(_key(row, "")))
            own = {"look": looks[row["step"]], "x": x, "y": row["value"], "series": control or other}
            rows.append(row | own | {"is_primary": row["rank"] == self.primary_ranks.get(row["layer"])})
        return rows

    def shares(self, *controls: str) -> list[Row]:
        """Energy shares of the primary cell beside those of controls, by look and layer."""
        mine = [row for row in self.energy if row["is_primary"] and row["series"] in controls]
        return sorted(mine, key=lambda row: (row["look"], row["depth"]))

    def medians(self, *controls: str) -> list[Row]:
        """The median over blocks (embedding apart) of what `shares` gives.

        Over sequences the interval comes from the replicates; over draws it is the median of the blocks' own limits.
        """
        rows = self.shares(*controls)
        groups: dict[tuple[int, str], list[Row]] = {}
        for row in [row for row in rows if row["depth"] > 0] or rows:
            groups.setdefault((row["look"], row["series"]), []).append(row)
        evidence = Evidence(self.metrics, self.replicates, self.manifest)
        found = []
        for group in groups.values():
            first, known = group[0], [row for row in group if row["low"] is not None]
            middle = {name: float(np.median([row[name] for row in group])) for name in ("y", "n")}
            limits = [float(np.median([row[name] for row in known])) for name in ("low", "high") if known]
            if first["interval"] == "sequences":
                drawn = over(evidence, _energy_share, [first["step"]], evidence.primary, first["series"])
                limits = [] if drawn is None else list(interval(drawn))
            low, high = limits or (None, None)
            found.append(first | middle | {"depth": MEDIAN, "layer": "median over blocks", "low": low, "high": high})
        return found

    def loss(self) -> list[Row]:
        return self._rows((pc.field("statistic") == "loss") & (pc.field("layer") == "") & (pc.field("control") == ""))

    def shape(self, statistic: str) -> list[Row]:
        """A score of the activations in the primary view, by look and layer; `series` is "" or its control."""
        mine = (pc.field("statistic") == statistic) & (pc.field("view") == self.view) & (pc.field("proxy") == "")
        return [row | {"series": row["control"]} for row in self._rows(mine & _SITES)]

    def _rows(self, chosen: pc.Expression) -> list[Row]:
        looks = {step: look for look, step in enumerate(self.steps)}
        rows = [row | {"look": looks[row["step"]]} for row in self.metrics.filter(chosen).to_pylist()]
        return sorted(rows, key=lambda row: (row["look"], row["depth"] or 0))


def _key(row: Row, control: str) -> tuple[Any, ...]:
    return row["step"], row["layer"], row["proxy"], row["rank"], control


def _energy_share(evidence: Evidence, step: int | None, layer: str, way: Way, control: str) -> Replicates | None:
    cell = evidence.cell(step, layer, way, "energy_share", control)
    return None if cell is None else cell[0]
