"""The shape of the activations at one site: the spectrum of the test half, with intervals over sequences."""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import InputError
from ..geometry.inference import first_order
from ..geometry.moments import Moments
from ..geometry.projections import Projections, sum_by_unit
from ..geometry.spectrum import Spectrum, top_with_mean
from ..geometry.subspace import eigenbasis

if TYPE_CHECKING:
    from .gauge import Write


class Shape:
    """Spectral scores of one view, and the per-unit sums that their first-order replicates need."""

    def __init__(self, moments: Moments, num_units: int) -> None:
        self.moments = moments
        values, vectors = eigenbasis(moments.covariance)
        self.spectrum = Spectrum.of(moments, (values, vectors))
        _, axis = top_with_mean(values, vectors, moments.mean)
        self.centred = Projections(vectors, num_units, centre=moments.mean)
        self.raw = Projections(axis[:, None], num_units)
        self.unit_sums = torch.zeros(num_units, moments.width, dtype=torch.float64, device=values.device)
        self.num_nonzero = torch.zeros(num_units, dtype=torch.float64, device=values.device)

    def add(self, h: Float[Tensor, "n d"], units: Int[Tensor, " n"]) -> None:
        if h.shape[0] == 0:
            return
        self.centred.add(h, units)
        self.raw.add(h, units)
        length = torch.linalg.vector_norm(h, dim=1, keepdim=True)
        num_units = self.num_nonzero.shape[0]
        self.unit_sums += sum_by_unit(h / length.where(length > 0, torch.ones_like(length)), units, num_units)
        self.num_nonzero += sum_by_unit((length > 0).double(), units, num_units)[:, 0]

    def write(self, write: "Write", counts: Float[Tensor, "b1 u"]) -> None:
        influences = self.spectrum.influences(self.centred.energy)
        # Uncentred: the top direction's energy over all energy, the direction held fixed (first order).
        raw = self.raw
        influences["anisotropy_uncentred"] = (
            raw.energy[:, 0] - self.spectrum.anisotropy_uncentred * raw.norm2
        ) / raw.norm2.sum()
        total, n = self.moments.unit_sum, float(self.moments.num_nonzero)
        cosine = self.moments.average_cosine
        # d/dw of (|sum of unit vectors|^2 - n) / (n (n - 1))
        d_pairs = 2 * (self.unit_sums @ total) - self.num_nonzero
        influences["average_cosine"] = (d_pairs - cosine * (2 * n - 1) * self.num_nonzero) / max(n * (n - 1), 1.0)
        chance = self.spectrum.round_cloud().scores()
        for name, value in self.spectrum.scores().items():
            replicates = first_order(value, influences[name], counts)
            write({}, name, replicates, chance=chance.get(name), keep=name == "anisotropy")


def shape_of(moments: Moments, num_units: int) -> Shape | None:
    """The shape of a view, or None where its rows are all the same."""
    try:
        return Shape(moments, num_units)
    except InputError:
        return None
