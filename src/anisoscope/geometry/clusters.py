"""Cluster-local isotropy: is a cloud even inside its clusters, though not as a whole? (Cai et al. 2021)

Axes: n rows, d coordinates, k clusters, r restarts, u units (sequences), b1 = 1 + replicates.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from ..errors import InputError
from .inference import first_order
from .moments import Moments, rows_of
from .subspace import gaussian_like

MAX_CLUSTERS = 10
MIN_SILHOUETTE = 0.1  # below it the rows are one cluster
NUM_RESTARTS = 4
SAMPLE_ROWS = 1024
_SHORT_STEPS, _LONG_STEPS = 15, 100


@dataclass(frozen=True)
class LocalIsotropy:
    """Average cosine and IsoScore of a cloud as it is, and of its rows with the mean of their cluster taken out.

    `surrogate` is the same of a Gaussian with the cloud's mean and covariance. Of any cloud, taking means out brings
    the average cosine near 0: only what the surrogate does not do as well speaks of clusters.
    """

    sizes: tuple[int, ...]  # rows in each cluster, the largest first
    silhouette: float  # the best over k = 2 ... 10, also where it was too low to split the rows
    scores: Mapping[str, float]  # average_cosine, average_cosine_inside, isoscore, isoscore_inside
    influences: Mapping[str, Float[Tensor, " u"]]  # their derivatives by each unit's weight; a surrogate has none
    surrogate: "LocalIsotropy | None" = None

    @property
    def num_clusters(self) -> int:
        return len(self.sizes)

    def replicates(self, counts: Float[Tensor, "b1 u"]) -> dict[str, Float[Tensor, " b1"]]:
        """Each score with its first-order replicates; those of a surrogate, which holds no sequences, stand still.

        The clusters' means move with the weights, but which row is in which cluster is held fixed: the intervals say
        nothing of how other sequences would be clustered.
        """
        still = counts.new_zeros(counts.shape[1])
        influence = {name: self.influences.get(name, still) for name in self.scores}
        return {name: first_order(value, influence[name], counts) for name, value in self.scores.items()}


def local_isotropy(
    h: object, units: Int[Tensor, " n"] | None = None, num_units: int | None = None, seed: int = 0
) -> LocalIsotropy:
    """Isotropy of rows `h` (N, D) inside the clusters that k-means finds, beside that of the whole and of a Gaussian.

    k = 2 ... 10 by the mean silhouette of at most 1,024 sampled rows (exact among them); one cluster if the best is
    below 0.1. `units` is the sequence of each row; without it every row is its own. With fewer rows than a few times D,
    IsoScores report the sample size as much as the cloud.

    >>> at = torch.tensor([[30.0, 0, 0, 9], [0, 30, 0, 9], [0, 0, 30, 9]]).repeat_interleave(200, 0)
    >>> seen = local_isotropy(at + torch.randn(600, 4, generator=torch.Generator().manual_seed(0)))
    >>> seen.sizes, {name: round(value, 1) for name, value in seen.scores.items() if "isoscore" in name}
    ((200, 200, 200), {'isoscore': 0.3, 'isoscore_inside': 1.0})
    """
    rows = rows_of(h, least=2 * MAX_CLUSTERS).double()
    moments = Moments.of(rows)
    if moments.width < 2 or moments.num_nonzero < 2 or moments.is_constant:
        raise InputError(
            f"h has shape {tuple(rows.shape)}, {moments.num_nonzero} rows that are not zero, total spread "
            f"{float(moments.scatter.trace()):.3g}; clusters need two columns and rows that differ (are they constant?)"
            ": give another layer or more tokens"
        )
    units = torch.arange(len(rows), device=rows.device) if units is None else units
    rng = np.random.default_rng([seed, *rows.shape])
    spread = moments.covariance.trace().sqrt()  # its unit from here on: float32 suffices if nothing overflows it
    weights = torch.ones(int(units.max()) + 1 if num_units is None else num_units, dtype=rows.dtype, device=rows.device)
    seen = _measure(rows / spread, units, weights.clone().requires_grad_(), rng)
    drawn = gaussian_like(moments, len(rows), seed) / spread
    return replace(seen, surrogate=_measure(drawn, units, weights, rng))


def _measure(
    x_nd: Float[Tensor, "n d"], units: Int[Tensor, " n"], weights: Float[Tensor, " u"], rng: np.random.Generator
) -> LocalIsotropy:
    labels, best = clusters((x_nd - x_nd.mean(0)).float(), rng)
    with torch.enable_grad():
        found = _scores(x_nd, labels, weights[units])
    each = found if weights.requires_grad else {}
    influences = {name: torch.autograd.grad(score, weights, retain_graph=True)[0] for name, score in each.items()}
    sizes = tuple(sorted(labels.bincount().tolist(), reverse=True))
    return LocalIsotropy(sizes, best, {name: float(score.detach()) for name, score in found.items()}, influences)


def _scores(
    x_nd: Float[Tensor, "n d"], labels: Int[Tensor, " n"], weights: Float[Tensor, " n"]
) -> dict[str, Float[Tensor, ""]]:
    """The four scores of rows of these weights, differentiable by them."""
    member = one_hot(labels) * weights[:, None]
    inside = x_nd - (member.T @ x_nd / member.sum(0)[:, None])[labels]
    # A row on its cluster's mean has no direction but that of rounding, which repeated rows would even share.
    floor = 1e-12 * x_nd.square().sum(1).mean().sqrt()
    inside = inside * (torch.linalg.vector_norm(inside, dim=1, keepdim=True) > floor)
    if not inside.any():
        raise InputError(
            f"the {len(x_nd)} rows hold {member.shape[1]} different ones, each many times: nothing is left inside "
            "clusters; give rows that differ"
        )
    return {
        "average_cosine": _average_cosine(x_nd, weights),
        "average_cosine_inside": _average_cosine(inside, weights),
        "isoscore": _isoscore(x_nd - x_nd.mean(0), weights),
        "isoscore_inside": _isoscore(inside, weights),
    }


def _average_cosine(x_nd: Float[Tensor, "n d"], weights: Float[Tensor, " n"]) -> Float[Tensor, ""]:
    """Over all pairs of rows; rows of length zero are left out."""
    lengths = torch.linalg.vector_norm(x_nd, dim=1)
    there = lengths > 0
    unit_sum = (weights * there / lengths.where(there, torch.ones_like(lengths))) @ x_nd
    n = (weights * there).sum()
    return (unit_sum.square().sum() - n) / (n * (n - 1))


def _isoscore(x_nd: Float[Tensor, "n d"], weights: Float[Tensor, " n"]) -> Float[Tensor, ""]:
    """Of rows about their means, which stand where the scatter is least: their moving adds nothing to first order.

    In float32: unlike a spectrum's tail, this score hangs on the large eigenvalues alone.
    """
    x_nd = x_nd.detach().float()
    scatter = (x_nd * weights.float()[:, None]).T @ x_nd
    return ((scatter.trace().square() / scatter.square().sum() - 1) / (x_nd.shape[1] - 1)).double()


def clusters(x_nd: Float[Tensor, "n d"], rng: np.random.Generator) -> tuple[Int[Tensor, " n"], float]:
    """The cluster of each row, and the best silhouette; below 0.1 all rows are one cluster.

    k is chosen on a sample of rows by short runs of k-means, seeded as k-means++ (Arthur and Vassilvitskii 2007); the
    best of them goes on with all rows.
    """
    sample = x_nd[torch.from_numpy(rng.permutation(len(x_nd))[:SAMPLE_ROWS]).to(x_nd.device)]
    gaps = torch.cdist(sample, sample)
    seeds = _seeds(gaps.double().square(), rng)
    best, start = -1.0, sample[:1]
    for k in range(2, MAX_CLUSTERS + 1):
        labels, centres, cost = _lloyd(sample, sample[seeds[:, :k]], _SHORT_STEPS)
        cheapest = int(cost.argmin())
        score = silhouette(gaps, labels[cheapest])
        if score > best:
            best, start = score, centres[cheapest]
    labels, _, _ = _lloyd(x_nd, (sample[:1] if best < MIN_SILHOUETTE else start)[None], _LONG_STEPS)
    return labels[0].unique(return_inverse=True)[1], best


def _seeds(away_nn: Float[Tensor, "n n"], rng: np.random.Generator) -> Int[Tensor, "r k"]:
    """Rows drawn one after the other by their squared distance to the nearest so far; the first k seed k clusters."""
    found = [torch.from_numpy(rng.integers(len(away_nn), size=NUM_RESTARTS)).to(away_nn.device)]
    nearest = away_nn[found[0]]
    for _ in range(MAX_CLUSTERS - 1):
        mass = nearest.cumsum(1)
        drawn = torch.from_numpy(rng.random((NUM_RESTARTS, 1))).to(mass.device) * mass[:, -1:]
        found.append(torch.searchsorted(mass, drawn, right=True)[:, 0].clamp(max=len(away_nn) - 1))
        nearest = torch.minimum(nearest, away_nn[found[-1]])
    return torch.stack(found, 1)


def _lloyd(
    x_nd: Float[Tensor, "n d"], centres: Float[Tensor, "r k d"], num_steps: int
) -> tuple[Int[Tensor, "r n"], Float[Tensor, "r k d"], Float[Tensor, " r"]]:
    """Labels, centres and cost (up to what is the same for all) of r runs of k-means side by side."""
    runs, k, _ = centres.shape
    before = None
    while True:
        along = (centres.flatten(0, 1) @ x_nd.T).view(runs, k, -1)
        least, labels = (centres.square().sum(2)[:, :, None] - 2 * along).min(1)
        if num_steps == 0 or (before is not None and torch.equal(labels, before)):
            return labels, centres, least.sum(1)
        member = one_hot(labels, k).to(x_nd.dtype)
        sizes = member.sum(1)[:, :, None]
        means = (member.mT.flatten(0, 1) @ x_nd).view_as(centres) / sizes.clamp(min=1)
        centres = torch.where(sizes > 0, means, centres)  # a centre without rows stays where it is
        before, num_steps = labels, num_steps - 1


def silhouette(gaps: Float[Tensor, "n n"], labels: Int[Tensor, " n"]) -> float:
    """Mean silhouette (Rousseeuw 1987) from all distances: 0 of a row alone in its cluster, -1 if there is one only.

    >>> silhouette(torch.tensor([[0.0, 1, 4], [1, 0, 4], [4, 4, 0]]), torch.tensor([0, 0, 1]))
    0.5
    """
    labels = labels.unique(return_inverse=True)[1]
    member = one_hot(labels).to(gaps.dtype)
    if member.shape[1] < 2:
        return -1.0
    sizes, total = member.sum(0), gaps @ member
    inner = total.gather(1, labels[:, None])[:, 0] / (sizes[labels] - 1).clamp(min=1)
    outer = (total / sizes).masked_fill(member.bool(), torch.inf).amin(1)
    widest = torch.maximum(inner, outer)
    score = (outer - inner) / widest.where(widest > 0, torch.ones_like(widest))
    return float((score * (sizes[labels] > 1)).mean())
