"""Per-unit sums of rows along fixed directions: all that shares, their replicates and their influences need.

Axes: n rows, d coordinates, j directions, u units (sequences), b1 = 1 + replicates.
A *block* is a slice of the directions whose columns are orthonormal: one proxy at one rank.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .inference import first_order
from .subspace import Parts, SecondMoment


def sum_by_unit(values: Float[Tensor, "n j"], units: Int[Tensor, " n"], num_units: int) -> Float[Tensor, "u j"]:
    """Sums over the rows of each unit, in float64 and in a fixed order; `units` must not decrease."""
    lengths = torch.bincount(units, minlength=num_units)
    return torch.segment_reduce(values.double(), "sum", lengths=lengths, axis=0)


class Projections:
    """Sums over the rows of each unit: of the rows, of their squared coordinates along the directions, and, where a
    second moment is given, of what its anisotropy shares need for their first-order replicates.
    """

    def __init__(
        self,
        directions: Float[Tensor, "d j"],
        num_units: int,
        moment: SecondMoment | None = None,
        blocks: Mapping[Any, slice] | None = None,
        centre: Float[Tensor, " d"] | None = None,
    ) -> None:
        self.directions = directions
        self.blocks = dict(blocks or {})
        self.centre = centre
        zeros = {"dtype": torch.float64, "device": directions.device}
        width, num_directions = directions.shape
        self.count = torch.zeros(num_units, **zeros)
        self.total = torch.zeros(num_units, width, **zeros)
        self.norm2 = torch.zeros(num_units, **zeros)
        self.energy = torch.zeros(num_units, num_directions, **zeros)
        self._anisotropic = moment is not None and not moment.is_even
        if moment is not None and self._anisotropic:
            self._moment = moment
            self._scale = moment.power**-0.5  # the deviator at length one: tiny gradients do not vanish in float32
            along = (moment.deviator * self._scale) @ directions
            self._cross = {name: along[:, block].square().sum() for name, block in self.blocks.items()}
            self._inner = {name: directions[:, block].T @ along[:, block] for name, block in self.blocks.items()}
            self.power = torch.zeros(num_units, **zeros)
            self.cross = torch.zeros(num_units, num_directions, **zeros)
            self.inner = {name: torch.zeros(num_units, **zeros) for name in self.blocks}

    def add(self, x: Float[Tensor, "n d"], units: Int[Tensor, " n"]) -> None:
        """Adds rows; `units` gives the unit of each row and must not decrease."""
        if x.shape[0] == 0:
            return
        num_units = self.count.shape[0]
        if self.centre is not None:
            x = x - self.centre.to(x.dtype)

        def by_unit(values: Tensor) -> Tensor:
            return sum_by_unit(values.reshape(x.shape[0], -1), units, num_units)

        y = (x @ self.directions.to(x.dtype)).double()
        self.count += torch.bincount(units, minlength=num_units)
        self.total += by_unit(x)
        self.norm2 += by_unit(x.double().square().sum(1))[:, 0]
        self.energy += by_unit(y.square())
        if not self._anisotropic:
            return
        xz = x @ (self._moment.deviator * self._scale).to(x.dtype)
        self.power += by_unit((xz.double() * x.double()).sum(1))[:, 0]
        self.cross += by_unit((xz @ self.directions.to(x.dtype)).double() * y)
        for name, block in self.blocks.items():
            part = y[:, block]
            self.inner[name] += by_unit(((part @ self._inner[name]) * part).sum(1))[:, 0]

    def energies(self, counts: Float[Tensor, "b1 u"], centred: bool = False) -> Float[Tensor, "b1 j"]:
        """Share of squared length along each direction, recomputed exactly under the resampling counts."""
        energy, norm2 = counts @ self.energy, counts @ self.norm2
        if centred:
            total, count = counts @ self.total, counts @ self.count
            energy = energy - (total @ self.directions).square() / count[:, None]
            norm2 = norm2 - total.square().sum(1) / count
        return energy.clamp(min=0) / norm2[:, None]

    def anisotropy(
        self, name: object, score: Callable[[Parts], Tensor], counts: Float[Tensor, "b1 u"]
    ) -> Float[Tensor, " b1"]:
        """A score of a block's parts (`subspace.Parts`), free of scale, with its first-order replicates; NaN where the
        rows are spread evenly.
        """
        if not self._anisotropic:
            return torch.full_like(counts[:, 0], float("nan"))
        block, width = self.blocks[name], self.directions.shape[0]
        inner = self._inner[name]
        parts = torch.stack(
            [
                torch.ones_like(self.count[0]),
                self._cross[name],
                inner.square().sum(),
                inner.trace(),
                inner.new_tensor(self._moment.trace * self._scale / width),
            ]
        ).requires_grad_(True)
        with torch.enable_grad():
            value = score(Parts(*parts.unbind()))
            (slope,) = torch.autograd.grad(value, parts)
        # How each part changes with a unit's weight; S enters through its sum over units. `even` is the isotropic part
        # that a unit takes out of its own second moment.
        even, trace = self.norm2 / width, float(inner.trace())
        by_unit = torch.stack(
            [
                2 * self.power,
                2 * (self.cross[:, block].sum(1) - even * trace),
                2 * (self.inner[name] - even * trace),
                self.energy[:, block].sum(1) - even * (block.stop - block.start),
                even,
            ]
        )
        influence = slope @ by_unit * (self._scale / self.count.sum())
        return first_order(value.detach(), influence, counts)
