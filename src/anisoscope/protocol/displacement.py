"""What no linear change of coordinates alters: the spectrum of S C, and the part of it inside the principal directions.

On the full grid alone: it takes several eigendecompositions a site.
"""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..geometry.displacement import Displacement, rotated_eigenvalues
from ..geometry.inference import first_order
from ..geometry.moments import Moments
from ..geometry.projections import Projections, sum_by_unit
from ..geometry.spectrum import SCORES, influence, leading_share
from ..geometry.subspace import SecondMoment, eigenbasis
from .frame import Frame

if TYPE_CHECKING:
    from .gauge import Replicates, Write

_MOST_DRAWS, _FEWEST_DRAWS = 32, 4  # of rotations: in many dimensions one is like another, and each is dear


class Displaced:
    """The sums of one site and view over the test half, and the rows that follow from them."""

    def __init__(
        self, frame: Frame, gradients: SecondMoment, activations: Moments, counts: Float[Tensor, "b1 u"]
    ) -> None:
        self.gradients, self.covariance, self.counts = gradients, activations.covariance, counts
        # Only shapes are asked for: both matrices, and the rows behind them, at length one.
        spread = float(self.covariance.trace())
        self._scale_g, self._scale_h, self._mean = gradients.trace**-0.5, spread**-0.5, activations.mean
        g, h = gradients.matrix / gradients.trace, self.covariance / spread
        self.spectrum = Displacement.of(SecondMoment(g), h)
        num_units = counts.shape[1]
        self.g = Projections(self.spectrum.along_g, num_units)
        self.h = Projections(self.spectrum.along_h, num_units)
        self.bases = {rank: frame.basis("pca", rank) for rank in frame.ranks if "pca" in frame.proxies}
        self._inside = {rank: (q.T @ g @ q, q.T @ h @ q) for rank, q in self.bases.items()}
        self._moved = {rank: torch.zeros(2, num_units, dtype=torch.float64, device=g.device) for rank in self.bases}

    def add_activations(self, h: Float[Tensor, "n d"], units: Int[Tensor, " n"]) -> None:
        rows = (h - self._mean.to(h.dtype)) * self._scale_h
        self.h.add(rows, units)
        for rank, (inside_g, _) in self._inside.items():
            self._moved[rank][1] += self._form(rows, rank, inside_g, units)

    def add_gradients(self, g: Float[Tensor, "n d"], units: Int[Tensor, " n"]) -> None:
        rows = g * self._scale_g
        self.g.add(rows, units)
        for rank, (_, inside_h) in self._inside.items():
            self._moved[rank][0] += self._form(rows, rank, inside_h, units)

    def _form(self, rows: Tensor, rank: int, matrix: Tensor, units: Tensor) -> Float[Tensor, " u"]:
        """Sum over each unit's rows of x'Q matrix Q'x."""
        y = rows.double() @ self.bases[rank]
        return sum_by_unit(((y @ matrix) * y).sum(1, keepdim=True), units, self.counts.shape[1])[:, 0]

    def write(self, write: "Write", primary_rank: int, captured: dict[int, float]) -> None:
        """`captured`: the variance inside the principal directions, which is the null of their share."""
        values, slopes = self.spectrum.eigenvalues, self.spectrum.slopes(self.g, self.h)
        variances, _ = eigenbasis(self.covariance)
        num_draws = min(_MOST_DRAWS, max(_FEWEST_DRAWS, 4096 // len(values)))
        rotated = rotated_eigenvalues(self.gradients, variances, num_draws)
        usable = int((values > values[0] * 1e-12).sum())
        for name, key, score in (
            ("displacement_effective_rank", {}, lambda x: SCORES["effective_rank_eigenvalues"](x, usable)),
            ("displacement_leading_share", {"rank": primary_rank}, lambda x: leading_share(x, primary_rank)),
        ):
            write(key, name, first_order(score(values), influence(score, values, slopes), self.counts))
            draws = torch.stack([score(one) for one in rotated])
            write(key | {"control": "rotated_gradients"}, name, draws.mean(), draws=draws)
        for rank, chance in captured.items():
            write({"proxy": "pca", "rank": rank}, "displacement_share", self._share(rank, slopes), chance=chance)

    def _share(self, rank: int, slopes: Float[Tensor, "u d"]) -> "Replicates":
        """`tr(Q'SQ Q'CQ) / tr(SC)`, to first order."""
        inside_g, inside_h = self._inside[rank]
        whole = self.spectrum.eigenvalues.sum()
        share = (inside_g * inside_h).sum() / whole
        by_g, by_h = self._moved[rank]
        moved = by_g / self.g.count.sum() + by_h / self.h.count.sum()
        return first_order(share, (moved - share * slopes.sum(1)) / whole, self.counts)
