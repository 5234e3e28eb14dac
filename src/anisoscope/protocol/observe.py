"""`Protocol`: Looks in, rows out. The one place that knows the order in which a look is scanned.

Scans: survey (which rows belong where); then, for as many sites as memory allows, fit half: moments, then frames ->
test half: moments of activations and gradients -> test half again: per-sequence sums, whose influences need the
finished second moments -> rows.
"""

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..capture.look import Look
from ..capture.positions import IGNORED, Half, Site
from ..errors import InputError
from ..geometry.inference import NUM_REPLICATES, first_order, intervals, resampling_counts, stretched
from ..geometry.moments import Moments
from ..geometry.subspace import METHODS, Method
from .controls import TRUE, populations
from .displacement import Displaced
from .frame import Frame
from .gauge import Gauge, spread_of
from .grid import CORE, FULL, Grid
from .sample import Sample, spread_out
from .shape import Shape, shape_of
from .views import Survey, cells_of, unit_of_sequence

DEFAULT_RANKS = (8, 16, 32)
PRIMARY_RANK = 16
GROUP_BYTES = 2**30
_MATRICES_A_SITE = 25  # D x D in float64 alive at once, on the full grid
Found = dict[tuple[Site, str, str], Moments]  # by site, population ("h": activations) and view


def primary_rank(width: int) -> int:
    """16, or an eighth of the width where that is smaller."""
    return max(1, min(PRIMARY_RANK, width // 8))


def in_groups(sites: Iterable[Site], group_bytes: int = GROUP_BYTES) -> list[list[Site]]:
    """The sites in groups that are measured in one go: as many as `group_bytes` hold the matrices of, at least one.

    >>> wide = [Site(f"blocks.{i}", i, "block", 768) for i in range(13)]
    >>> [len(group) for group in in_groups(wide)]
    [9, 4]
    """
    groups: list[list[Site]] = []
    room = 0
    for site in sites:
        size = _MATRICES_A_SITE * 8 * site.width**2
        if size > room or not groups:
            groups.append([])
            room = group_bytes
        groups[-1].append(site)
        room -= size
    return groups


def _whole_numbers(ranks: Any) -> tuple[int, ...]:
    try:
        numbers = sorted({operator.index(rank) for rank in ranks})
    except TypeError:
        numbers = []
    if not numbers or numbers[0] < 1 or any(isinstance(rank, bool) for rank in ranks):
        raise InputError(f"ranks = {ranks!r}; wanted whole numbers of at least 1")
    return tuple(numbers)


@dataclass
class Observation:
    """What one look gave: rows for the store, replicates and bases beside them, and what could not be measured."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    replicates: list[dict[str, Any]] = field(default_factory=list)
    bases: dict[str, np.ndarray] = field(default_factory=dict)
    faults: list[tuple[str, str]] = field(default_factory=list)  # (where, reason)
    notices: list[str] = field(default_factory=list)


class Protocol:
    """Measures looks. Knows nothing of models, files or loops.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> look = Look.from_arrays(rng.normal(size=(400, 16)), rng.normal(size=(400, 16)), step=0)
    >>> seen = Protocol(ranks=(4,)).observe(look)
    >>> {row["statistic"] for row in seen.rows} >= {"energy_share", "anisotropy_share", "anisotropy"}
    True
    """

    def __init__(
        self,
        ranks: tuple[int, ...] = DEFAULT_RANKS,
        proxies: tuple[Method, ...] = METHODS,
        num_steps: int | None = None,
        seed: int = 0,
    ) -> None:
        unknown = [proxy for proxy in proxies if proxy not in METHODS]
        if unknown or not proxies:
            raise InputError(f"proxies = {proxies}; wanted some of {', '.join(METHODS)}")
        self.ranks = _whole_numbers(ranks)
        if num_steps is not None and (isinstance(num_steps, bool) or not isinstance(num_steps, int) or num_steps < 1):
            raise InputError(f"num_steps = {num_steps!r}; wanted the planned number of optimiser steps, at least 1")
        self.proxies = tuple(proxies)
        self.num_steps = num_steps
        self.seed = seed
        self._num_looks = 0

    def ignored_ranks(self, sites: Sequence[Site]) -> list[int]:
        """Ranks that somebody asked for and no layer can have: above half of every width."""
        asked = () if self.ranks == DEFAULT_RANKS else self.ranks
        return [rank for rank in asked if all(2 * rank > site.width for site in sites)]

    @property
    def config(self) -> dict[str, Any]:
        """What a run's manifest says of how it was measured."""
        return {
            "ranks": list(self.ranks),
            "proxies": list(self.proxies),
            "regimes": ["tracking"],
            "num_replicates": NUM_REPLICATES,
            "seed": self.seed,
            "primary": {"proxy": self.proxies[0], "rank": PRIMARY_RANK, "regime": "tracking", "gradient": "hidden"},
        }

    def state_dict(self) -> dict[str, Any]:
        """What later looks need to know of earlier ones."""
        return {"num_looks": self._num_looks}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._num_looks = int(state["num_looks"])

    def observe(self, look: Look, last: bool = False) -> Observation:
        """Measures one look; the full grid at the first look and at the last, the core grid between."""
        seen = Observation()
        with torch.no_grad(), torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            _Measurement(self, look, FULL if last or self._num_looks == 0 else CORE, seen).run()
        self._num_looks += 1
        return seen


class _Measurement:
    """One look being measured."""

    def __init__(self, protocol: Protocol, look: Look, grid: Grid, seen: Observation) -> None:
        self.protocol, self.look, self.grid, self.seen = protocol, look, grid, seen
        num_sequences = look.positions.num_sequences("test")
        units = unit_of_sequence(num_sequences)
        self.num_units = int(units[-1]) + 1
        self.units = units[look.positions.sequence[look.positions.half("test")]]
        self.counts = stretched(resampling_counts(self.num_units, seed=protocol.seed))
        self._sampled: dict[Site, Tensor] = {}
        self._spreads: list[tuple[dict[str, Any], np.ndarray]] = []  # rows that still want their interval

    def run(self) -> None:
        self.survey = Survey.of(self.look)
        for site, reason in self.survey.faults.items():
            self.seen.faults.append((site.layer, reason))
        self._write_loss()
        for sites in in_groups([site for site in self.look.sites if site not in self.survey.faults]):
            self._measure(sites)
        self._fill_intervals()

    def _measure(self, sites: Sequence[Site]) -> None:
        """Everything about some of the sites: one scan of the fit half, two of the test half."""
        frames = self._fit(sites, self._moments(sites, "fit", ()))
        found = self._moments(sites, "test", self.look.labels)
        gauges, shapes = self._gauges(frames, found), self._shapes(sites, found)
        del found
        displaced = {
            place: Displaced(frames[place], gauge.true, gauge.activations, gauge.counts)
            for place, gauge in gauges.items()
            if self.grid.is_full and not gauge.plain
        }
        samples = {site: Sample() for site, view in shapes if view == self.look.primary_view}
        if gauges or shapes:
            for chunk in self.look.scan("test", self.look.labels):
                self._add(chunk, gauges, shapes, displaced)
                self._add_sample(chunk, samples)
        for (site, view), shape in shapes.items():
            shape.write(self._writer(site, view, "", shape.moments.count), self._on(shape.moments.mean))
        for site, sample in samples.items():
            write = self._writer(site, self.look.primary_view, "", 0)
            missing = sample.write(
                write, self._on(shapes[site, self.look.primary_view].moments.mean), self.grid.is_full
            )
            if missing:
                self._notice(f"{site.layer}: no intrinsic dimension: {missing}")
        for (site, view), gauge in gauges.items():
            write = self._writer(site, view, "hidden", gauge.num_rows)
            rank, ranks = primary_rank(site.width), gauge.frame.ranks
            if view not in self.survey.views[:2]:
                ranks = [one for one in ranks if one == rank]
            gauge.write(write, self.grid, rank, ranks)
            if (site, view) in displaced:
                captured = {one: float(gauge.captured(("pca", one, ""))[0]) for one in displaced[site, view].bases}
                displaced[site, view].write(write, rank, captured)
            self._write_gradient_rows(site, view, gauge, write)

    def _on(self, tensor: Tensor) -> Tensor:
        return self.counts.to(tensor.device)

    def _views(self) -> list[str]:
        """The views to measure: the primary and the clean one, and those that the grid asks for."""
        return self.survey.views[:2] + [view for view in self.survey.views[2:] if view in self.grid.views]

    def _moments(self, sites: Sequence[Site], half: Half, labels: tuple[str, ...]) -> Found:
        """Moments of the activations, and of the gradients of every population that `labels` allow.

        Other populations than the true gradients stand beside the primary view alone.
        """
        asked = populations(labels) if labels else {}
        others = [name for name, one in asked.items() if not one.shares_moments(TRUE)]
        total: dict[tuple[Site, str, int | str], Moments] = {}  # by cell, or by view where there is only one
        primary = self.look.primary_view
        for chunk in self.look.scan(half, labels):
            for site in sites:
                device = chunk.h[site].device
                cells, loud = self.survey.cell[site][chunk.rows], ~self.survey.silent[site][chunk.rows]
                parts = [("h", cell, cells == cell) for cell in cells.unique().tolist()]
                if asked:
                    parts += [("true", cell, inside & loud) for _, cell, inside in parts]
                    member = self.survey.member(site, primary)[chunk.rows] & loud
                    parts += [(name, primary, member) for name in others]
                for name, place, inside in parts:
                    rows = chunk.h[site] if name == "h" else chunk.g[asked[name].label][site]
                    rows = rows[inside.to(device)]
                    moments = Moments.of(rows if name == "h" else asked[name].rows(rows))
                    key = (site, name, place)
                    total[key] = total[key] + moments if key in total else moments
        found: Found = {}
        for site in sites:
            for name in ("h", "true"):
                for view in self._views():
                    cells = [total.get((site, name, cell)) for cell in cells_of(view, primary)]
                    parts = [one for one in cells if one is not None and one.count]
                    if parts:
                        found[(site, name, view)] = sum(parts[1:], parts[0])
            for name in asked:
                known = total.get((site, name, primary)) if name in others else found.get((site, "true", primary))
                if known is not None and known.count:
                    found[(site, name, primary)] = known
        return found

    def _fit(self, sites: Sequence[Site], fitted: Found) -> dict[tuple[Site, str], Frame]:
        """The proxies of each site and view, and the bases that the store keeps."""
        frames = {}
        for site in sites:
            ranks = self._ranks(site)
            for view in self._views():
                moments = fitted.get((site, "h", view))
                if moments is None or moments.count < 2:
                    continue
                frame = Frame.fit(moments, self.protocol.proxies, ranks)
                left_out = [rank for rank in ranks if rank not in frame.ranks]
                if left_out and frame.ranks and view == self.look.primary_view:
                    self._notice(
                        f"{site.layer}: ranks {left_out} left out, the {moments.count} fit rows span only fewer "
                        "directions (constant or rank-deficient activations, or too few rows)"
                    )
                if frame.ranks:
                    frames[(site, view)] = frame
                    for proxy in self.protocol.proxies if view == self.look.primary_view else ():
                        basis = frame.basis(proxy, frame.ranks[-1])
                        self.seen.bases[f"{site.layer}|{proxy}|{view}"] = basis.float().cpu().numpy()
        return frames

    def _ranks(self, site: Site) -> tuple[int, ...]:
        """The ranks asked for that leave at least as many normal directions, and always the primary one."""
        fitting = {rank for rank in self.protocol.ranks if 2 * rank <= site.width}
        left_out = sorted(set(self.protocol.ranks) - fitting)
        if left_out:
            self._notice(f"{site.layer}: ranks {left_out} left out, above half of the width {site.width}")
        return tuple(sorted(fitting | {primary_rank(site.width)})) if site.width > 1 else ()

    def _notice(self, text: str) -> None:
        if text not in self.seen.notices:
            self.seen.notices.append(text)

    def _gauges(self, frames: Mapping[tuple[Site, str], Frame], found: Found) -> dict[tuple[Site, str], Gauge]:
        gauges = {}
        for (site, view), frame in frames.items():
            activations = found.get((site, "h", view))
            moments = {
                name: one
                for (where, name, seen_in), one in found.items()
                if (where, seen_in) == (site, view) and name != "h" and bool(one.second_moment.any())
            }
            if "true" in moments and activations is not None and not activations.is_constant:
                gauges[(site, view)] = Gauge(frame, moments, activations, self._on(frame.directions))
        return gauges

    def _shapes(self, sites: Sequence[Site], found: Found) -> dict[tuple[Site, str], Shape]:
        shapes = {}
        for site in sites:
            for view in self.survey.views[:2]:
                moments = found.get((site, "h", view))
                shape = shape_of(moments, self.num_units) if moments is not None and moments.count > 1 else None
                if shape is not None:
                    shapes[(site, view)] = shape
                elif view == self.look.primary_view:
                    self._notice(f"{site.layer}: all activations in view {view} are the same, nothing to measure")
        return shapes

    def _add(
        self,
        chunk: Any,
        gauges: Mapping[Any, Gauge],
        shapes: Mapping[Any, Shape],
        displaced: Mapping[Any, Displaced],
    ) -> None:
        start = self.look.positions.num_fit
        units = self.units[chunk.rows.start - start : chunk.rows.stop - start]
        for site, view in {**gauges, **shapes}:
            h = chunk.h[site]
            inside = self.survey.member(site, view)[chunk.rows]
            if not bool(inside.any()):
                continue
            loud = (~self.survey.silent[site][chunk.rows][inside]).to(h.device)
            mine, at = inside.to(h.device), units[inside].to(h.device)
            if (site, view) in shapes:
                shapes[(site, view)].add(h[mine], at)
            if (site, view) in gauges:
                gradients = {label: chunk.g[label][site][mine] for label in chunk.g}
                gauges[(site, view)].add_activations(h[mine], at)
                gauges[(site, view)].add_gradients(gradients, at, loud)
            if (site, view) in displaced:
                displaced[(site, view)].add_activations(h[mine], at)
                displaced[(site, view)].add_gradients(chunk.g["true"][site][mine][loud], at[loud])

    def _add_sample(self, chunk: Any, samples: Mapping[Site, Sample]) -> None:
        test = self.look.positions.half("test")
        for site, sample in samples.items():
            if site not in self._sampled:
                self._sampled[site] = spread_out(self.survey.member(site, self.look.primary_view)[test])
            rows = slice(chunk.rows.start - test.start, chunk.rows.stop - test.start)
            chosen = self._sampled[site][rows].to(chunk.h[site].device)
            sample.add(chunk.h[site][chosen], self.units[rows].to(chosen.device)[chosen])

    def _writer(self, site: Site, view: str, gradient: str, num_rows: int) -> Callable[..., None]:
        """A function that writes one row of this site and view."""
        where = {
            "step": self.look.step,
            "layer": site.layer,
            "depth": site.depth,
            "site": site.site,
            "view": view,
            "gradient": gradient,
            "regime": "tracking" if gradient else "",
        }

        def write(
            key: Mapping[str, Any],
            statistic: str,
            value: Tensor,
            p: float | None = None,
            chance: float | None = None,
            draws: Tensor | None = None,
            keep: bool = False,
            n: int | None = None,
        ) -> None:
            count = num_rows if n is None else n
            self._row({**where, **key}, statistic, torch.as_tensor(value), count, p, chance, draws, keep)

        return write

    def _row(
        self,
        key: dict[str, Any],
        statistic: str,
        value: Tensor,
        num_rows: int,
        p: float | None = None,
        chance: float | None = None,
        draws: Tensor | None = None,
        keep: bool = False,
    ) -> None:
        if not torch.isfinite(value.flatten()[0]):
            return
        point, spread, over = spread_of(value, draws)
        row = {**key, "statistic": statistic, "tokens_seen": self.look.tokens_seen, "value": point, "n": num_rows}
        row |= {"interval": over, "p": p, "chance": chance}
        self.seen.rows.append(row)
        if spread is not None:
            self._spreads.append((row, spread))
        if keep:
            self.seen.replicates.append({**key, "statistic": statistic, "replicates": value[1:].cpu().numpy()})

    def _fill_intervals(self) -> None:
        """The intervals of all rows, as few percentiles as there are lengths of replicates and draws."""
        for length in {len(spread) for _, spread in self._spreads}:
            some = [(row, spread) for row, spread in self._spreads if len(spread) == length]
            for (row, _), low, high in zip(some, *intervals(np.stack([spread for _, spread in some])), strict=True):
                row |= {"low": float(low), "high": float(high)}

    def _write_loss(self) -> None:
        """Mean loss over the test positions that enter it."""
        losses, target = self.survey.loss, self.look.positions.target
        if losses is None or target is None:
            return
        bearing = target[self.look.positions.half("test")] != IGNORED
        units = torch.zeros(2, self.num_units, dtype=torch.float64)
        units[0].index_add_(0, self.units, losses.double() * bearing)
        units[1].index_add_(0, self.units, bearing.double())
        value = (self.counts @ units[0]) / (self.counts @ units[1])
        vocabulary = self.look.facts.get("vocabulary")
        even = math.log(vocabulary) if vocabulary else None
        self._row({"step": self.look.step}, "loss", value, int(bearing.sum()), chance=even)

    def _write_gradient_rows(self, site: Site, view: str, gauge: Gauge, write: Callable[..., None]) -> None:
        """How many rows had no gradient, and how much energy lies in the mean gradient."""
        if view != self.look.primary_view:
            return
        member = self.survey.member(site, view)[self.look.positions.half("test")]
        silent = self.survey.silent[site][self.look.positions.half("test")][member]
        write({}, "zero_gradient_rows", silent.double().mean(), n=len(silent))
        sums, counts = gauge.sums["true"], gauge.counts
        total, count, norm2 = sums.total.sum(0), sums.count.sum(), sums.norm2.sum()
        share = total.square().sum() / (count * norm2)
        # A squared mean is biased under resampling: first order, not percentiles.
        influence = 2 * (sums.total @ total) / (count * norm2) - share * (sums.count / count + sums.norm2 / norm2)
        write({}, "mean_gradient_share", first_order(share, influence, counts), chance=1 / gauge.num_rows)
