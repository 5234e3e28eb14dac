"""Gradients against proxies at one site in one view: the sums, then the rows with their controls.

A *population* is a set of gradient rows: the true ones, or those of a control that needs rows of its own (sampled and
permuted labels, rows scaled to length one, rows without their mean). Each has the measurement's own statistics, so
that a rival can be put in the measurement's place.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..geometry.inference import NUM_DRAWS, draw_p, interval
from ..geometry.moments import Moments
from ..geometry.projections import Projections
from ..geometry.subspace import Draws, SecondMoment, draw_shares, eigenbasis, normal_energy
from .frame import Frame
from .grid import POPULATIONS, Grid, curve_ranks

Replicates = Float[Tensor, " b1"]
Write = Callable[..., None]


def unit_rows(g: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """Rows scaled to length one; rows of zeros stay."""
    largest = g.abs().amax(1, keepdim=True)
    g = g / largest.where(largest > 0, torch.ones_like(largest))  # first by the largest entry: squares may underflow
    length = torch.linalg.vector_norm(g, dim=1, keepdim=True)
    return g / length.where(length > 0, torch.ones_like(length))


@dataclass(frozen=True)
class Shares:
    """What one population says of one block, as estimate and replicates."""

    energy: Replicates
    anisotropy: Replicates
    normal_anisotropy: Replicates


class Gauge:
    """The sums of one site and view over the test half, and the rows that follow from them."""

    def __init__(
        self, frame: Frame, moments: Mapping[str, Moments], activations: Moments, num_units: int, second: bool
    ) -> None:
        """`moments` of each population; `second`: is this beside the primary view, where only the truth is asked?"""
        self.true = SecondMoment.of(moments["true"])
        self.frame = frame.with_oracle(self.true.matrix)
        self.activations = activations
        self.num_rows = moments["true"].count
        self.second = second
        directions, blocks = self.frame.directions, self.frame.blocks
        self.variance = Projections(directions, num_units)
        self.sums: dict[str, Projections] = {}
        for name, moment in moments.items():
            self.sums[name] = Projections(directions, num_units, SecondMoment.of(moment), blocks)
        if not second:
            mean = moments["true"].mean
            centred = SecondMoment(moments["true"].covariance)
            self.sums["common_gradient"] = Projections(directions, num_units, centred, blocks, centre=mean)

    def add_activations(self, h: Float[Tensor, "n d"], units: Int[Tensor, " n"] | None) -> None:
        """Activations of this view; without units they count as one, and only the estimate can be read off."""
        self.variance.add(h, torch.zeros(h.shape[0], dtype=torch.long, device=h.device) if units is None else units)

    def add_gradients(self, g: Mapping[str, Tensor], units: Int[Tensor, " n"], loud: Tensor) -> None:
        """Gradients of this view by label, and which of the rows have a gradient at all."""
        for name, sums in self.sums.items():
            rows = g[POPULATIONS.get(name, "true")][loud]
            sums.add(unit_rows(rows) if name == "row_normalised" else rows, units[loud])

    def shares(self, population: str, block: tuple[str, int, str], counts: Tensor) -> Shares:
        sums = self.sums[population]
        columns = self.frame.blocks[block]
        energies = sums.energies(counts, centred=population == "common_gradient")
        return Shares(energies[:, columns].sum(1), *sums.anisotropy(block, counts))

    def captured(self, block: tuple[str, int, str], counts: Tensor) -> Replicates:
        return self.variance.energies(counts, centred=True)[:, self.frame.blocks[block]].sum(1)

    def write(self, write: Write, counts: Tensor, grid: Grid, primary_rank: int, proxies: tuple[str, ...]) -> None:
        """All rows of this site and view, handed to `write(key, statistic, value, ...)` one by one."""
        for proxy in proxies:
            for rank in self.frame.ranks:
                if not self.second or rank == primary_rank or "clean" in grid.view_ranks:
                    self.write_cell(write, counts, grid, proxy, rank, rank == primary_rank)
        if not self.second:
            self._write_curve(write, counts, grid, proxies)

    def write_cell(self, write: Write, counts: Tensor, grid: Grid, proxy: str, rank: int, is_primary: bool) -> None:
        width, key = self.true.width, {"proxy": proxy, "rank": rank}
        chance = rank / width
        block = (proxy, rank, "")
        own, variance = self.shares("true", block, counts), self.captured(block, counts)
        normal_e = normal_energy(own.energy, rank, width)  # type: ignore[arg-type]
        q = self.frame.basis(proxy, rank)
        covariance = self.activations.covariance
        draws: Draws | None = None
        if not self.second:
            draws = draw_shares(self.true, covariance, rank, NUM_DRAWS, outside=q)
        p_energy = draw_p(float(own.energy[0]), draws.energy) if draws else None
        p_anisotropy = draw_p(float(own.anisotropy[0]), draws.anisotropy) if draws else None
        oracle = self.shares("true", ("oracle", rank, ""), counts)

        write(key, "energy_share", own.energy, p=p_energy, chance=chance, keep=True)
        write(key, "anisotropy_share", own.anisotropy, p=p_anisotropy, keep=True)
        write(key, "captured_variance", variance, chance=chance, keep=True)
        write(key, "enrichment", own.energy / chance, chance=1.0)
        write(key, "placement", (own.energy - normal_e) / (oracle.energy - normal_e), chance=0.0)
        normal_key = key | {"control": "random_normal"}
        write(normal_key, "energy_share", normal_e, chance=chance, draws=draws.energy if draws else None)
        write(
            normal_key,
            "anisotropy_share",
            own.normal_anisotropy,
            keep=True,
            draws=draws.anisotropy if draws else None,
        )
        if draws:
            write(normal_key, "captured_variance", draws.variance.mean(), chance=chance, draws=draws.variance)
        if self.second:
            return
        for control in grid.controls(is_primary):
            control_key = key | {"control": control}
            if control in POPULATIONS and control in self.sums:
                self._write_rival(write, control_key, self.shares(control, block, counts), chance)
            elif control == "next_directions" and (proxy, rank, control) in self.frame.blocks:
                beside = (proxy, rank, control)
                self._write_rival(write, control_key, self.shares("true", beside, counts), chance)
                write(control_key, "captured_variance", self.captured(beside, counts), chance=chance, keep=True)
            elif control == "oracle":
                write(control_key, "energy_share", oracle.energy, chance=chance, keep=True)
                write(control_key, "anisotropy_share", oracle.anisotropy)
                write(control_key, "captured_variance", self.captured(("oracle", rank, ""), counts), chance=chance)
            elif control in ("isotropic", "variance_matched"):
                self._write_drawn(write, control_key, control, rank, counts, chance)

    def _write_rival(self, write: Write, key: Mapping[str, Any], shares: Shares, chance: float) -> None:
        """A rival in the measurement's place, with the mean of its own random normal control."""
        write(key, "energy_share", shares.energy, chance=chance, keep=True)
        write(key, "anisotropy_share", shares.anisotropy, keep=True)
        own_control = {**key, "control": f"{key['control']}/random_normal"}
        write(own_control, "anisotropy_share", shares.normal_anisotropy, keep=True)

    def _write_drawn(
        self, write: Write, key: Mapping[str, Any], control: str, rank: int, counts: Tensor, chance: float
    ) -> None:
        """Controls that are a distribution of subspaces; the interval is over draws."""
        colour = None
        if control == "variance_matched":
            directions = self.frame.directions[:, : self.true.width]
            colour = directions * self.frame.variances.clamp(min=0).sqrt()
        draws = draw_shares(self.true, self.activations.covariance, rank, NUM_DRAWS, colour=colour)
        write(key, "energy_share", draws.energy.mean(), chance=chance, draws=draws.energy)
        write(key, "anisotropy_share", draws.anisotropy.mean(), draws=draws.anisotropy)
        write(key, "captured_variance", draws.variance.mean(), chance=chance, draws=draws.variance)

    def _write_curve(self, write: Write, counts: Tensor, grid: Grid, proxies: tuple[str, ...]) -> None:
        """The capture curve: shares of the leading k principal directions for k up to all, and the oracle's."""
        width = self.true.width
        done = set(self.frame.ranks)
        if "pca" in proxies:
            energy = self.sums["true"].energies(counts)[:, :width].cumsum(1)
            variance = self.variance.energies(counts, centred=True)[:, :width].cumsum(1)
        values, vectors = eigenbasis(self.true.matrix)
        held = (values.clamp(min=0) / self.true.trace).cumsum(0)
        spread = ((self.activations.covariance @ vectors) * vectors).sum(0)
        varied = (spread / self.activations.covariance.trace()).cumsum(0)
        for rank in curve_ranks(width, grid.curve_points):
            if rank in done:
                continue
            key, chance = {"proxy": "pca", "rank": rank}, rank / width
            if "pca" in proxies:
                write(key, "energy_share", energy[:, rank - 1], chance=chance)
                write(key, "captured_variance", variance[:, rank - 1], chance=chance)
            write(key | {"control": "oracle"}, "energy_share", held[rank - 1], chance=chance)
            write(key | {"control": "oracle"}, "captured_variance", varied[rank - 1], chance=chance)


def spread_interval(value: Tensor, draws: Tensor | None) -> tuple[float, float | None, float | None, str]:
    """A value, its 95% interval, and what the interval is over: draws of a control, or resampled sequences."""
    if draws is not None:
        low, high = interval(torch.cat([draws[:1], draws]))
        return float(value.flatten()[0]), low, high, "draws"
    if value.ndim == 1 and value.shape[0] > 1:
        return float(value[0]), *interval(value), "sequences"
    return float(value), None, None, ""


def populations_of(labels: Iterator[str] | tuple[str, ...]) -> list[str]:
    """The populations whose rows are at hand: the true one, and the controls made from the labels that exist."""
    known = set(labels)
    return ["true", *(name for name, label in POPULATIONS.items() if label in known and name != "common_gradient")]
