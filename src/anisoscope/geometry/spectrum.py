"""The shape of a cloud of vectors, as far as its eigenvalues tell it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from scipy import optimize
from torch import Tensor

from ..errors import InputError
from .moments import Moments, rows_of

SHRINKAGE = 0.2  # z of IsoScore*


@dataclass(frozen=True, repr=False)
class Spectrum:
    """Scores of a cloud of `num_rows` vectors; eigenvalues of the centred covariance, largest first.

    With fewer rows than a few times the width every score here reports the sample size as much as the cloud:
    `round_cloud()` says what as many rows without any preference would give.

    >>> cloud = Spectrum(torch.tensor([100., 4., 1.]).double(), 1000, 0.9, 0.1)
    >>> round(cloud.anisotropy, 4), round(cloud.singular_value_anisotropy, 4)
    (0.9524, 0.7692)
    >>> cloud
    Spectrum(1000 rows of width 3; anisotropy 0.952, of a round cloud 0.354; effective rank 1.99, of a round cloud 3)
    """

    eigenvalues: Float[Tensor, " d"]
    num_rows: int
    anisotropy_uncentred: float
    average_cosine: float

    @classmethod
    def of(cls, moments: Moments, eigen: tuple[Float[Tensor, " d"], Float[Tensor, "d d"]] | None = None) -> "Spectrum":
        """From moments; `eigen`: eigenvalues, largest first, and vectors of the covariance where they are known."""
        if eigen is None:
            values, vectors = torch.linalg.eigh(moments.covariance)
            eigen = values.flip(0), vectors.flip(1)
        eigenvalues = eigen[0].clamp(min=0)
        if moments.is_constant or float(eigenvalues[0]) == 0:
            raise InputError(
                f"all {moments.count} rows are the same (constant activations): a spectrum needs rows that differ"
            )
        top, _ = top_with_mean(*eigen, moments.mean)
        total = float(eigenvalues.sum() + moments.mean.square().sum())
        return cls(eigenvalues, moments.count, top / total, moments.average_cosine)

    def round_cloud(self) -> "Spectrum":
        """What as many independent rows of a round Gaussian around the origin would give."""
        even = isotropic_eigenvalues(self.num_rows, self.width)
        return Spectrum(even, self.num_rows, float(even[0] / even.sum()), 0.0)

    def __repr__(self) -> str:
        even = self.round_cloud()
        told = ("anisotropy", "effective_rank")
        scores = "".join(
            f"; {name.replace('_', ' ')} {getattr(self, name):.3g}, of a round cloud {getattr(even, name):.3g}"
            for name in told
        )
        limited = ", fewer than it takes: the scores report the sample size" if self.rank_limited else ""
        return f"Spectrum({self.num_rows} rows of width {self.width}{limited}{scores})"

    @property
    def width(self) -> int:
        return self.eigenvalues.shape[0]

    @property
    def usable_rank(self) -> int:
        """Number of eigenvalues that rounding cannot have made; at most `num_rows - 1`."""
        above = int((self.eigenvalues > self.eigenvalues[0] * 1e-12).sum())
        return max(1, min(above, self.num_rows - 1))

    @cached_property
    def _scores(self) -> dict[str, float]:
        return {name: float(score(self.eigenvalues, self.usable_rank)) for name, score in SCORES.items()}

    @property
    def anisotropy(self) -> float:
        """l_1 / sum l."""
        return self._scores["anisotropy"]

    @property
    def singular_value_anisotropy(self) -> float:
        """s_1 / sum s, the literal reading."""
        return self._scores["singular_value_anisotropy"]

    @property
    def stable_rank(self) -> float:
        """sum l / l_1."""
        return self._scores["stable_rank"]

    @property
    def participation_ratio(self) -> float:
        """(sum l)^2 / sum l^2."""
        return self._scores["participation_ratio"]

    @property
    def isoscore(self) -> float:
        """(participation ratio - 1) / (D - 1) (Rudman 2022)."""
        return self._scores["isoscore"]

    @property
    def isoscore_star(self) -> float:
        """IsoScore of the covariance shrunk towards a round one by `SHRINKAGE`."""
        return self._scores["isoscore_star"]

    @property
    def rank_limited(self) -> bool:
        """Whether there are no more rows than directions: then every score here reports the sample size."""
        return self.num_rows <= self.width

    @property
    def effective_rank(self) -> float:
        """exp of the entropy of the singular values (Roy and Vetterli 2007)."""
        return self._scores["effective_rank"]

    @property
    def effective_rank_eigenvalues(self) -> float:
        """exp of the entropy of the eigenvalues."""
        return self._scores["effective_rank_eigenvalues"]

    @property
    def spectral_exponent(self) -> float:
        """Slope of log l_i on log i over i = 1 ... half of the usable rank."""
        return self._scores["spectral_exponent"]

    def scores(self) -> dict[str, float]:
        """Every score under its name in the vocabulary; those that do not exist here (one column, say) are left out."""
        values = self._scores | {
            "anisotropy_uncentred": self.anisotropy_uncentred,
            "average_cosine": self.average_cosine,
        }
        return {name: value for name, value in values.items() if math.isfinite(value)}

    def influences(self, d_eigenvalues: Float[Tensor, "u d"]) -> dict[str, Float[Tensor, " u"]]:
        """Derivative of each eigenvalue score by the weight of each unit.

        `d_eigenvalues[u, i]` is the derivative of eigenvalue i (of the scatter, up to one common factor): the squared
        length of the unit's centred rows along eigenvector i.
        """
        scaled = d_eigenvalues * (self.eigenvalues.sum() / d_eigenvalues.sum())
        rank = self.usable_rank
        return {
            name: influence(lambda x, score=score: score(x, rank), self.eigenvalues, scaled)
            for name, score in SCORES.items()
        }


def influence(
    score: Callable[[Tensor], Tensor], values: Float[Tensor, " d"], d_values: Float[Tensor, "u d"]
) -> Float[Tensor, " u"]:
    """Derivative of a score of eigenvalues by the weight of each unit, from that of each eigenvalue."""
    values = values.detach().clone().requires_grad_(True)
    with torch.enable_grad():
        (slope,) = torch.autograd.grad(score(values), values)
    return d_values @ torch.nan_to_num(slope, posinf=0.0, neginf=0.0)


def leading_share(values: Float[Tensor, "... d"], rank: int) -> Float[Tensor, "..."]:
    """Share of the sum in the `rank` largest."""
    return values[..., :rank].sum(-1) / values.sum(-1)


def _exp_entropy(weights: Float[Tensor, " d"]) -> Float[Tensor, ""]:
    share = weights / weights.sum()
    return torch.exp(-torch.special.xlogy(share, share).sum())


def _participation_ratio(values: Float[Tensor, " d"]) -> Float[Tensor, ""]:
    return values.sum() ** 2 / values.square().sum()


def _exponent(values: Float[Tensor, " d"], usable_rank: int) -> Float[Tensor, ""]:
    last = usable_rank // 2
    if last < 2:
        return values.sum() * math.nan
    x = torch.log(torch.arange(1, last + 1, dtype=values.dtype, device=values.device))
    x = x - x.mean()
    return (x * torch.log(values[:last])).sum() / x.square().sum()


def isoscore_star(trace: Any, square: Any, width: int, shrinkage: float = SHRINKAGE) -> Any:
    """IsoScore* from `tr C` and `|C|^2`: IsoScore of `(1 - z) C + z (tr C / D) I` (Rudman and Eickhoff 2024, whose own
    target is I, which makes the score depend on the scale of the data).

    >>> isoscore_star(3.0, 3.0, 3), isoscore_star(1.0, 1.0, 3, shrinkage=0.0)
    (1.0, 0.0)
    """
    kept = 1 - shrinkage
    shrunk = kept**2 * square + (1 - kept**2) * trace**2 / width
    return (trace**2 / shrunk - 1) / (width - 1) if width > 1 else trace * math.nan


# Each score as a differentiable function of (eigenvalues, usable rank); all are free of scale.
SCORES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "anisotropy": lambda values, _: values[0] / values.sum(),
    "singular_value_anisotropy": lambda values, rank: values[0].sqrt() / values[:rank].sqrt().sum(),
    "effective_rank": lambda values, rank: _exp_entropy(values[:rank].sqrt()),
    "effective_rank_eigenvalues": lambda values, rank: _exp_entropy(values[:rank]),
    "participation_ratio": lambda values, _: _participation_ratio(values),
    "isoscore": lambda values, _: (_participation_ratio(values) - 1) / (values.shape[0] - 1),
    "isoscore_star": lambda values, _: isoscore_star(values.sum(), values.square().sum(), values.shape[0]),
    "stable_rank": lambda values, _: values.sum() / values[0],
    "spectral_exponent": _exponent,
}


def top_with_mean(
    values: Float[Tensor, " d"], vectors: Float[Tensor, "d d"], mean: Float[Tensor, " d"]
) -> tuple[float, Float[Tensor, " d"]]:
    """Largest eigenvalue of `C + mean mean'` with its direction, from the eigenvalues (largest first) and vectors of C:
    the root of the secular equation (Golub 1973), so that no second decomposition is needed.
    """
    along = vectors.T @ mean
    poles, weights = (x.cpu().numpy() for x in (values, along.square()))
    reach = float(weights.sum())

    def secular(above: float) -> float:
        return 1 - float((weights / (above + (poles[0] - poles))).sum())

    least = 1e-15 * max(float(poles[0]), reach)
    if reach <= least or secular(least) >= 0:  # the mean is nothing, or square to the top direction and shorter
        return float(poles[0]), vectors[:, 0]
    above: Any = optimize.brentq(secular, least, reach * (1 + 1e-12), xtol=least)
    direction = vectors @ (along / (above + (values[0] - values)))
    return float(poles[0]) + above, direction / torch.linalg.vector_norm(direction)


def isotropic_eigenvalues(num_rows: int, width: int) -> Float[Tensor, " d"]:
    """Eigenvalues to expect of the covariance of independent rows of a round Gaussian: quantiles of the law of
    Marchenko and Pastur (1967). With few rows even a round cloud looks long in some directions.

    >>> isotropic_eigenvalues(400, 100)[[0, -1]].round(decimals=1).tolist()
    [2.2, 0.3]
    """
    ratio = width / max(num_rows - 1, 1)
    rank = min(width, max(num_rows - 1, 1))
    # x = 1 + ratio + 2 sqrt(ratio) cos(angle): in the angle the density is smooth at both edges.
    angle = torch.linspace(0, math.pi, 4097, dtype=torch.float64)
    x = (1 + ratio + 2 * ratio**0.5 * torch.cos(angle)).clamp(min=1e-12)
    mass = torch.cumulative_trapezoid(torch.sin(angle).square() / x, angle)
    places = (torch.arange(rank, dtype=torch.float64) + 0.5) / rank * mass[-1]
    found = torch.searchsorted(mass, places).clamp(max=len(mass) - 1)
    return torch.cat([x[found + 1], torch.zeros(width - rank, dtype=torch.float64)])


def partition_isotropy(w: object) -> float:
    """`min Z(c) / max Z(c)` with `Z(c) = sum_w exp(c.w)` over both signs of every eigenvector of `w'w` (Mu and
    Viswanath 2018): 1 where rows `w` (N, D), an embedding matrix say, point everywhere alike. In logarithms throughout.

    >>> round(partition_isotropy(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])), 12)
    1.0
    """
    rows = rows_of(w, "w", least=2)
    _, axes = torch.linalg.eigh(Moments.of(rows).second_moment)
    total = torch.full((2 * rows.shape[1],), -math.inf, dtype=torch.float64, device=rows.device)
    for chunk in rows.split(8192):
        along = chunk.double() @ axes
        total = torch.logaddexp(total, torch.cat([along, -along], 1).logsumexp(0))
    return float((total.min() - total.max()).exp())


def spectrum(h: object) -> Spectrum:
    """The spectral scores of rows `h` (N, D), numpy or torch, any floating-point type.

    >>> import torch
    >>> seen = spectrum(torch.randn(4000, 8, generator=torch.Generator().manual_seed(0)))
    >>> seen.num_rows, 7.9 < seen.participation_ratio < 8.0
    (4000, True)
    """
    return Spectrum.of(Moments.of(rows_of(h, least=2)))
