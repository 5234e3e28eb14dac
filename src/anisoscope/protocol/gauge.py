"""Gradients against proxies at one site in one view: the sums, then the rows with their controls.

Each population of gradient rows (`controls.py`) has the measurement's own statistics, so that a rival can be put in
the measurement's place.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..geometry.inference import NUM_DRAWS, draw_p
from ..geometry.moments import Moments
from ..geometry.projections import Projections
from ..geometry.subspace import (
    ColouredDraws,
    Draws,
    Parts,
    SecondMoment,
    anisotropy_inside,
    anisotropy_removed,
    coloured_draws,
    even_draws,
    haar_anisotropy,
    normal_anisotropy,
    normal_energy,
)
from .controls import DRAWN, POPULATIONS, TRUE
from .frame import Block, Frame
from .grid import Grid, curve_ranks

Replicates = Float[Tensor, " b1"]
Write = Callable[..., None]
Key = Mapping[str, Any]


@dataclass(frozen=True)
class Shares:
    """What one population says of one block, as estimate and replicates."""

    energy: Replicates
    anisotropy: Replicates
    normal_anisotropy: Replicates


class Gauge:
    """The sums of one site and view over the test half, and the rows that follow from them.

    `moments` holds those of each population that is measured; of the true gradients alone, the rows are those of a view
    beside the primary one, without controls that need populations or draws.
    """

    def __init__(
        self, frame: Frame, moments: Mapping[str, Moments], activations: Moments, counts: Float[Tensor, "b1 u"]
    ) -> None:
        self.true = SecondMoment.of(moments["true"])
        values, own = self.true.eigen
        self.frame = frame.with_oracle(own)
        self.activations = activations
        self.num_rows = moments["true"].count
        self.plain = set(moments) == {"true"}
        directions, blocks = self.frame.directions, self.frame.blocks
        self.counts = counts
        num_units = counts.shape[1]
        self.variance = Projections(directions, num_units, centre=activations.mean)
        self.sums: dict[str, Projections] = {}
        # For the capture curve: the two clouds along every principal direction, and the oracle's two shares.
        self._all: dict[str, Projections] = {}
        if not self.plain:
            self._all["h"] = Projections(frame.principal, num_units, centre=activations.mean)
            self._all["true"] = Projections(frame.principal, num_units)
            spread = ((activations.covariance @ own) * own).sum(0) / activations.covariance.trace()
            self._oracle = (values / self.true.trace).cumsum(0), spread.cumsum(0)
        self._energies: dict[str, Tensor] = {}  # by population, once the sums are complete
        self._drawn: dict[tuple[str, int], Draws] = {}  # the same for every proxy
        for name, moment in moments.items():
            centred = POPULATIONS.get(name, TRUE).centred
            second = SecondMoment(moment.covariance if centred else moment.second_moment)
            if centred and moment.is_constant:
                continue  # without their mean only rounding is left
            self.sums[name] = Projections(directions, num_units, second, blocks, moment.mean if centred else None)

    def add_activations(self, h: Float[Tensor, "n d"], units: Int[Tensor, " n"] | None) -> None:
        """Activations of this view; without units they count as one, and only the estimate can be read off."""
        if units is None:
            units = torch.zeros(h.shape[0], dtype=torch.long, device=h.device)
        self.variance.add(h, units)
        if "h" in self._all:
            self._all["h"].add(h, units)

    def add_gradients(self, g: Mapping[str, Tensor], units: Int[Tensor, " n"], loud: Tensor) -> None:
        """Gradients of this view by label, and which of the rows have a gradient at all."""
        for name, sums in self.sums.items():
            population = POPULATIONS.get(name, TRUE)
            sums.add(population.rows(g[population.label][loud]), units[loud])
        if "true" in self._all:
            self._all["true"].add(g["true"][loud], units[loud])

    def _along(self, population: str) -> Float[Tensor, "b1 j"]:
        """Share of a population's energy along each direction; of `h`, of the centred activations' variance."""
        if population not in self._energies:
            sums = self.variance if population == "h" else self.sums[population]
            centred = population == "h" or sums.centre is not None
            self._energies[population] = sums.energies(self.counts, centred)
        return self._energies[population]

    def shares(self, population: str, block: Block) -> Shares:
        energy = self._along(population)[:, self.frame.blocks[block]].sum(1)
        normal = partial(normal_anisotropy, **self._sizes(block))
        inside, outside = (self._anisotropy(population, block, score) for score in (anisotropy_inside, normal))
        return Shares(energy, inside, outside)

    def _anisotropy(self, population: str, block: Block, score: Callable[[Parts], Any]) -> Replicates:
        return self.sums[population].anisotropy(block, score, self.counts)

    def _sizes(self, block: Block) -> dict[str, int]:
        return {"rank": block[1], "width": self.true.width}

    def captured(self, block: Block) -> Replicates:
        return self._along("h")[:, self.frame.blocks[block]].sum(1)

    def write(self, write: Write, grid: Grid, primary_rank: int, ranks: list[int]) -> None:
        """All rows of this site and view, handed to `write(key, statistic, value, ...)` one by one."""
        for proxy in self.frame.proxies:
            for rank in ranks:
                self.write_cell(write, grid.controls(rank == primary_rank), proxy, rank)
        if not self.plain:
            self._write_curve(write, grid)

    def write_cell(self, write: Write, controls: tuple[str, ...], proxy: str, rank: int) -> None:
        """The measurement, its random normal control, and the other controls asked for."""
        width, key, block = self.true.width, {"proxy": proxy, "rank": rank}, (proxy, rank, "")
        chance = rank / width
        own, oracle = self.shares("true", block), self.shares("true", ("oracle", rank, ""))
        normal = normal_energy(own.energy, rank, width)
        draws = p_energy = p_anisotropy = None
        if not self.plain and any(control in DRAWN for control in controls):
            outside = self.frame.basis(proxy, rank)
            draws = even_draws(self.true, rank, NUM_DRAWS, outside=outside)
            # Among draws of the whole space: those outside Q hold the less the more Q does, and p would be too small.
            whole = self._draws("isotropic", rank)
            p_energy = draw_p(float(own.energy[0]), whole.energy)
            p_anisotropy = draw_p(float(own.anisotropy[0]), whole.anisotropy)
        write(key, "energy_share", own.energy, p=p_energy, chance=chance, keep=True)
        write(key, "anisotropy_share", own.anisotropy, p=p_anisotropy, keep=True)
        write(key, "captured_variance", self.captured(block), chance=chance, keep=True, n=self.activations.count)
        write(key, "enrichment", own.energy / chance, chance=1.0)
        room = oracle.energy - normal
        placement = (own.energy - normal) / room.where(room > 1e-9, torch.full_like(room, float("nan")))
        write(key, "placement", placement, chance=0.0)
        beside = key | {"control": "random_normal"}
        for name, padded in (("anisotropy_removed", False), ("anisotropy_removed_padded", True)) if draws else ():
            removed = partial(anisotropy_removed, **self._sizes(block), padded=padded)
            write(key, name, self._anisotropy("true", block, removed), keep=True)
            drawn = removed(draws.parts)  # type: ignore[union-attr]
            write(beside, name, drawn.mean(), draws=drawn)
        write(beside, "energy_share", normal, chance=chance, draws=draws and draws.energy)
        write(beside, "anisotropy_share", own.normal_anisotropy, draws=draws and draws.anisotropy, keep=True)
        if draws is not None:
            write(beside, "captured_variance", normal_energy(self.captured(block), rank, width), chance=chance)
        for control in () if self.plain else controls:
            beside, place = key | {"control": control}, (proxy, rank, control)
            if control in self.sums:
                self._write_rival(write, beside, self.shares(control, block), chance)
            elif control in DRAWN:
                self._write_drawn(write, beside, control, rank, chance)
            elif control == "oracle":
                write(beside, "energy_share", oracle.energy, chance=chance, keep=True)
                write(beside, "anisotropy_share", oracle.anisotropy)
                write(beside, "captured_variance", self.captured(("oracle", rank, "")), chance=chance)
            elif place in self.frame.blocks:
                self._write_rival(write, beside, self.shares("true", place), chance)
                write(
                    beside,
                    "captured_variance",
                    self.captured(place),
                    chance=chance,
                    keep=True,
                    n=self.activations.count,
                )

    def _write_rival(self, write: Write, key: Key, shares: Shares, chance: float) -> None:
        """A rival in the measurement's place, with the mean of its own random normal control."""
        write(key, "energy_share", shares.energy, chance=chance, keep=True)
        write(key, "anisotropy_share", shares.anisotropy, keep=True)
        own_control = {**key, "control": f"{key['control']}/random_normal"}
        write(own_control, "anisotropy_share", shares.normal_anisotropy, keep=True)

    def _write_drawn(self, write: Write, key: Key, control: str, rank: int, chance: float) -> None:
        """Controls that are a distribution of subspaces: interval over draws, mean exact where it is known."""
        drawn = self._draws(control, rank)
        if isinstance(drawn, ColouredDraws):
            write(key, "energy_share", drawn.energy.mean(), chance=chance, draws=drawn.energy)
            write(key, "anisotropy_share", drawn.anisotropy.mean(), draws=drawn.anisotropy)
            write(key, "captured_variance", drawn.variance.mean(), chance=chance, draws=drawn.variance)
            normal = normal_anisotropy(drawn.parts, rank, self.true.width)
            write({**key, "control": f"{control}/random_normal"}, "anisotropy_share", normal.mean(), draws=normal)
            return
        even = float("nan") if self.true.is_even else haar_anisotropy(1.0, 0.0, rank, self.true.width)
        write(key, "energy_share", torch.tensor(chance), chance=chance, draws=drawn.energy)
        write(key, "anisotropy_share", torch.tensor(even), draws=drawn.anisotropy)
        write(key, "captured_variance", torch.tensor(chance), chance=chance)

    def _draws(self, control: str, rank: int) -> Draws:
        """The same for every proxy."""
        if (control, rank) not in self._drawn:
            colour, covariance = DRAWN[control], self.activations.covariance
            self._drawn[(control, rank)] = (
                coloured_draws(self.true, covariance, colour(self.frame), rank, NUM_DRAWS)
                if colour
                else even_draws(self.true, rank, NUM_DRAWS)
            )
        return self._drawn[(control, rank)]

    def _write_curve(self, write: Write, grid: Grid) -> None:
        """The capture curve: shares of the leading k principal directions for k up to all, and the oracle's."""
        energy = self._all["true"].energies(self.counts).cumsum(1)
        variance = self._all["h"].energies(self.counts, centred=True).cumsum(1)
        held, varied = self._oracle
        measured = self.frame.ranks if "pca" in self.frame.proxies else []
        for rank in curve_ranks(self.true.width, grid.curve_points):
            if rank in measured:
                continue  # a cell of its own, with all its controls
            key, chance = {"proxy": "pca", "rank": rank}, rank / self.true.width
            write(key, "energy_share", energy[:, rank - 1], chance=chance)
            write(key, "captured_variance", variance[:, rank - 1], chance=chance)
            write(key | {"control": "oracle"}, "energy_share", held[rank - 1], chance=chance)
            write(key | {"control": "oracle"}, "captured_variance", varied[rank - 1], chance=chance)


def spread_of(value: Tensor, draws: Tensor | None) -> tuple[float, np.ndarray | None, str]:
    """A value, what its 95% interval is taken from, and the word for that: draws of a control, or sequences."""
    point = float(value.flatten()[0])
    if draws is not None:
        return point, draws.cpu().numpy(), "draws"
    if value.ndim == 1 and value.shape[0] > 1:
        return point, value[1:].cpu().numpy(), "sequences"
    return point, None, ""
