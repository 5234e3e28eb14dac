"""`RunRows`: the rows of one run as the charts ask for them. One SQL query or one median a question."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from ..claims.replicates import interval, median
from ..store import Reader

MEDIAN = -1  # stands where a depth does: the median over blocks
MOST_STILLS = 24  # of the capture curve: a long run would make the page too large
Row = dict[str, Any]

# `layers`: as the rows name them, also where the manifest says less; the width follows from chance = k / D.
_LAYERS = """
select layer, depth, max(round(rank / chance)) filter (statistic = 'energy_share' and chance > 0)::int as width,
       coalesce(any_value(declared.primary_rank), greatest(1, least(16, width // 8))) as primary_rank
from metrics left join declared using (layer)
where layer <> '' and depth is not null and site in ('block', 'embedding') group by layer, depth
order by depth, layer
"""
_DECLARED = pa.schema([("layer", pa.string()), ("primary_rank", pa.int32())])
_LOOKS = """
select (row_number() over (order by step nulls first) - 1)::int as look, step
from (select distinct step from metrics) order by look
"""
# `cells`: proxies against hidden gradients in the primary view.
_CELLS = """
select look, m.*, primary_rank from metrics m join layers using (layer, depth)
join looks on m.step is not distinct from looks.step
where gradient = 'hidden' and regime = 'tracking' and "group" = '' and view = $view
      and site in ('block', 'embedding')
"""
_CURVE = """
select e.look, e.depth, e.control, e.rank, v.value as x, e.value as y, e.low, e.high, e.chance, e.n
from cells e join cells v using (look, layer, depth, proxy, rank, control)
where e.statistic = 'energy_share' and v.statistic = 'captured_variance' and proxy = 'pca'
      and control in ('', 'oracle') and list_contains($looks, look)
union all
select distinct look, depth, control, 0, 0, 0, 0, 0, 0, n from cells
where statistic = 'energy_share' and proxy = 'pca' and control in ('', 'oracle') and list_contains($looks, look)
order by look, depth, control, rank
"""
# A control that moves no directions (other labels, other weights of the rows) captures what the measurement captures.
_POINTS = """
select e.look, e.layer, e.depth, e.proxy, e.control, e.rank, e.rank = e.primary_rank as is_primary,
       coalesce(v.value, own.value) as x, e.value as y, e.low, e.high, e.interval, e.n
from cells e
left join cells v on (v.look, v.layer, v.proxy, v.rank, v.control, v.statistic)
                   = (e.look, e.layer, e.proxy, e.rank, e.control, 'captured_variance')
left join cells own on (own.look, own.layer, own.proxy, own.rank, own.control, own.statistic)
                     = (e.look, e.layer, e.proxy, e.rank, '', 'captured_variance')
where e.statistic = 'energy_share' and e.control <> 'oracle' and e.control not like '%/%'
      and (e.control = '' or (e.proxy = $proxy and e.rank = e.primary_rank))
      and (e.proxy, e.rank) in (select (proxy, rank) from cells where statistic = 'enrichment')
      and coalesce(v.value, own.value) is not null and list_contains($looks, e.look)
order by e.look, e.depth, e.proxy, e.rank, e.control
"""
_PRIMARY_CELLS = """
select look, step, layer, depth, control, value, low, high, interval, chance, n from cells
where statistic = $statistic and proxy = $proxy and rank = primary_rank and list_contains($controls, control)
order by look, depth
"""
_SHAPE = """
select look, m.step, layer, depth, value, low, high, n from metrics m join layers using (layer, depth)
join looks on m.step is not distinct from looks.step
where statistic = $statistic and gradient = '' and control = '' and view = $view
      and site in ('block', 'embedding')
order by look, depth
"""
_REPLICATES = """
select step, layer, control, statistic, replicates from replicates join layers using (layer, depth)
where proxy = $proxy and rank = primary_rank and view = $view and gradient = 'hidden'
      and regime = 'tracking' and "group" = ''
"""
_LOSS = """
select look, m.step, value, low, high, n from metrics m join looks on m.step is not distinct from looks.step
where statistic = 'loss' and layer = '' and control = '' order by look
"""


def _answer(query: str, parameters: Mapping[str, Any] | None = None, **tables: pa.Table) -> pa.Table:
    """What DuckDB answers; nothing stays open that a page or a notebook would have to close."""
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(query, params=dict(parameters or {})).to_arrow_table()


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

    def _ask(self, query: str, **parameters: Any) -> list[Row]:
        """The answer over `metrics`, `replicates`, `layers`, `looks` and `cells`."""
        tables = {"metrics": self.metrics, "replicates": self.replicates}
        return _answer(query, parameters, **tables, **self._tables).to_pylist()

    @cached_property
    def _tables(self) -> dict[str, pa.Table]:
        metrics = self.metrics
        layers, looks = _answer(_LAYERS, metrics=metrics, declared=self._declared), _answer(_LOOKS, metrics=metrics)
        cells = _answer(_CELLS, {"view": self.view}, metrics=metrics, layers=layers, looks=looks)
        return {"layers": layers, "looks": looks, "cells": cells}

    @property
    def _declared(self) -> pa.Table:
        """The primary rank of each layer, as far as the manifest declares it."""
        layers = self.manifest.get("layers") or []
        known = [layer for layer in layers if isinstance(layer.get("primary_rank"), int)]
        rows = [{name: layer.get(name) for name in _DECLARED.names} for layer in known]
        return pa.Table.from_pylist(rows, schema=_DECLARED)

    @property
    def proxy(self) -> str:
        """The primary proxy."""
        primary = (self.manifest.get("config") or {}).get("primary") or {}
        return str(primary.get("proxy", "pca"))

    @property
    def view(self) -> str:
        return str(self.manifest.get("primary_view") or "all")

    @property
    def objective(self) -> str:
        return str(self.manifest.get("objective") or "")

    @cached_property
    def layers(self) -> list[Row]:
        """layer, depth, width (null without gradients), primary rank; first to last."""
        return self._tables["layers"].to_pylist()

    @cached_property
    def steps(self) -> list[int | None]:
        """The step of each look, in order; None is a look whose step nobody knows."""
        return self._tables["looks"]["step"].to_pylist()

    @cached_property
    def stills(self) -> list[int]:
        """The looks at which the capture curve is drawn: all of them, or as many as a page can hold, evenly picked."""
        last = len(self.steps) - 1
        most = min(MOST_STILLS, last + 1)
        return sorted({round(at * last / max(most - 1, 1)) for at in range(most)})

    @cached_property
    def has_gradients(self) -> bool:
        return bool(self.shares("energy_share", ("",)))

    def curve(self) -> list[Row]:
        """The capture curve: x share of variance, y share of gradient energy, by look, depth, control ("", oracle)."""
        return self._ask(_CURVE, looks=self.stills)

    def points(self) -> list[Row]:
        """Points in the plane of the capture curve: each proxy at its own ranks, each control at the primary one."""
        return self._ask(_POINTS, proxy=self.proxy, looks=self.stills)

    def shares(self, statistic: str, controls: tuple[str, ...]) -> list[Row]:
        """A statistic of the primary cell, beside controls, by look and layer."""
        return self._ask(_PRIMARY_CELLS, statistic=statistic, proxy=self.proxy, controls=list(controls))

    def shape(self, statistic: str) -> list[Row]:
        """A score of the activations by look and layer, in the primary view."""
        return self._ask(_SHAPE, statistic=statistic, view=self.view)

    def loss(self) -> list[Row]:
        return self._ask(_LOSS)

    def medians(self, statistic: str, controls: tuple[str, ...]) -> list[Row]:
        """The median over blocks (embedding apart) of what `shares` gives.

        Its interval comes from the replicates; where there are none (controls that are drawn) it is the median of the
        blocks' own limits.
        """
        rows = self.shares(statistic, controls)
        blocks = [row for row in rows if row["depth"] > 0] or rows
        groups: dict[tuple[int, str], list[Row]] = {}
        for row in blocks:
            groups.setdefault((row["look"], row["control"]), []).append(row)
        return [self._median(statistic, group) for group in groups.values()]

    def _median(self, statistic: str, group: list[Row]) -> Row:
        found = [self._replicates.get((row["step"], row["layer"], row["control"], statistic)) for row in group]
        middle = {key: float(np.median([row[key] for row in group])) for key in ("value", "n")}
        low = high = None
        if all(one is not None for one in found):
            low, high = interval(
                median([np.append(row["value"], one) for row, one in zip(group, found, strict=True)])  # type: ignore[arg-type]
            )
        elif all(row["low"] is not None for row in group):
            low, high = (float(np.median([row[key] for row in group])) for key in ("low", "high"))
        return group[0] | middle | {"depth": MEDIAN, "layer": "median over blocks", "low": low, "high": high}

    @cached_property
    def _replicates(self) -> dict[tuple[int | None, str, str, str], np.ndarray]:
        """The replicates of the primary cells."""
        rows = self._ask(_REPLICATES, proxy=self.proxy, view=self.view)
        return {
            (row["step"], row["layer"], row["control"], row["statistic"]): np.asarray(
                row["replicates"], dtype=np.float64
            )
            for row in rows
        }
