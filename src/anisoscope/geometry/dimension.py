"""Intrinsic dimension from the distances to nearest neighbours: five estimators over one search, each with an interval.

Axes: n rows that differ, k neighbours, u units (sequences), b1 = 1 + replicates. `log_r`: log distances, nearest first.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import InputError
from .inference import first_order, interval, resampling_counts, stretched
from .moments import Moments, rows_of
from .neighbours import Neighbours, nearest_neighbours
from .projections import sum_by_unit
from .subspace import gaussian_like

Method = Literal["twonn", "twonn-ml", "twonn-20", "gride", "mle"]
Found = tuple[float, Float[Tensor, " n"], int]
Estimator = Callable[[Tensor], Found]
METHODS: tuple[Method, ...] = ("twonn", "twonn-ml", "twonn-20", "gride", "mle")
GRIDE_SCALE = 8
MLE_NEIGHBOURS = 20
_LEAST_ROWS = 10  # a fifth of them is two ratios
_MOST_UNITS = 4096  # of rows on their own
_LARGEST_SCALE = 32  # of the curve over scale
_SMALLEST_SAMPLE = 128  # of the curve over rows


@dataclass(frozen=True)
class Estimate:
    """An intrinsic dimension with its 95% interval.

    >>> found = intrinsic_dimension(torch.randn(300, 2, generator=torch.Generator().manual_seed(0)))
    >>> found.method, found.num_rows, found.low < found.value < found.high
    ('twonn', 300, True)

    The interval says how far the estimate would move with other rows (other sequences, where they are given): it covers
    the mean of this estimator at this number of rows: in trials (Gaussians of 2 to 30 dimensions, 1,024 and 4,096 rows;
    32 to 128 sequences of alike tokens; 200 to 500 repetitions each) in 90 to 97% with the three TwoNN fits, in 90 to
    99% with `gride` and `mle`. Where regions differ in dimension it is up to 1.5 times as wide as it need be. It does
    not know the estimator's bias, which grows with the dimension (1,024 rows of a Gaussian of 10 dimensions read 9.6,
    of 30 dimensions 22): compare with a surrogate.
    """

    value: float
    low: float
    high: float
    num_points: int  # ratios of distances used
    method: Method
    num_rows: int  # given
    num_duplicates: int  # of them copies of an earlier row: dropped
    replicates: Float[Tensor, " b1"] = field(repr=False, compare=False)


@dataclass(frozen=True)
class DimensionProfile:
    """An estimate beside what it must be read with: without a plateau over rows and scale there is no dimension."""

    estimate: Estimate
    surrogate: Estimate  # the same of as many rows of a Gaussian with the same covariance
    by_rows: dict[int, Estimate]  # of all rows, of half of them (drawn without replacement), of a quarter, ...
    by_scale: dict[int, Estimate]  # GRIDE at n1 = 1, 2, 4, ...: n2 / n1 stays 2, the neighbourhood grows


def intrinsic_dimension(h: object, method: Method = "twonn", *, sequences: object = None, seed: int = 0) -> Estimate:
    """The intrinsic dimension of the cloud of rows `h` (N, D).

    `twonn`: least squares through the origin of `-log(1 - F)` on `log(r2 / r1)`, smallest 90% (Facco et al. 2017);
    `twonn-20`: smallest 20%; `twonn-ml`: `(N - 1) / sum log(r2 / r1)`; `gride`: maximum likelihood of `r16 / r8` (Denti
    et al. 2022); `mle`: Levina and Bickel (2004) over 20 neighbours, inverses averaged (MacKay and Ghahramani 2005).
    Of rows that are the same one is kept. `sequences` gives the sequence of each row: the interval resamples them.

    >>> rows = torch.randn(2000, 3, generator=torch.Generator().manual_seed(0)) @ torch.ones(3, 50).triu()
    >>> found = intrinsic_dimension(rows)
    >>> found.low < 3 < found.high, found.num_points
    (True, 1800)
    """
    return estimates(h, (method,), sequences=sequences, seed=seed)[method]


def estimates(
    h: object,
    methods: Iterable[Method] = METHODS,
    *,
    sequences: object = None,
    seed: int = 0,
    counts: Float[Tensor, "b1 u"] | None = None,
) -> dict[Method, Estimate]:
    """Several estimates from one search for neighbours; `counts` are the (stretched) resampling counts of a run, one
    column a sequence in sorted order, so that replicates pair with those of its other statistics.

    >>> list(estimates(torch.randn(100, 3), ("twonn", "mle")))
    ['twonn', 'mle']
    """
    methods = tuple(methods)
    sample = _Sample.of(h, max(map(_num_neighbours, methods), default=2), sequences, seed, counts)
    return {method: sample.estimate(method) for method in methods}


def dimension_profile(
    h: object, method: Method = "twonn", *, sequences: object = None, seed: int = 0
) -> DimensionProfile:
    """An estimate, the same of a Gaussian with the same covariance, and the curves over rows and over scale.

    >>> seen = dimension_profile(torch.randn(400, 3, generator=torch.Generator().manual_seed(0)))
    >>> list(seen.by_rows), list(seen.by_scale)
    ([400, 200], [1, 2, 4, 8, 16, 32])
    """
    least = _num_neighbours(method)
    sample = _Sample.of(h, least, sequences, seed, most=2 * _LARGEST_SCALE)
    rows, num_rows = sample.rows, len(sample.rows)

    def of(rows: Tensor, units: Tensor) -> Estimate:
        return estimates(rows, (method,), sequences=None if sequences is None else units, seed=seed)[method]

    by_rows = {num_rows: sample.estimate(method)}
    shuffled = torch.from_numpy(np.random.default_rng([seed, num_rows]).permutation(num_rows)).to(rows.device)
    while (size := min(by_rows) // 2) >= max(_SMALLEST_SAMPLE, least + 1):
        by_rows[size] = of(rows[shuffled[:size]], sample.units[shuffled[:size]])
    scales = [2**i for i in range(sample.near.indices.shape[1].bit_length() - 1)]
    by_scale = {n1: sample.estimate("gride", (2 * n1, partial(_gride, n1=n1))) for n1 in scales}
    gaussian = gaussian_like(Moments.of(rows), num_rows, seed).to(rows.dtype)
    return DimensionProfile(by_rows[num_rows], of(gaussian, sample.units), by_rows, by_scale)


def _num_neighbours(method: str) -> int:
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}; wanted one of {', '.join(METHODS)}")
    return _ESTIMATORS[method][0]


def _units(sequences: object, num_rows: int) -> Int[np.ndarray, " n"]:
    """The number of each row's sequence, counted in sorted order."""
    labels = sequences.detach().cpu().numpy() if isinstance(sequences, Tensor) else np.asarray(sequences)
    if labels.shape != (num_rows,):
        raise InputError(f"sequences has shape {labels.shape} for {num_rows} rows; wanted ({num_rows},), one a row")
    found, units = np.unique(labels, return_inverse=True)
    if len(found) < 2:
        raise InputError("all rows are of one sequence: an interval needs two or more; leave sequences out")
    return units


@dataclass(frozen=True)
class _Sample:
    """Rows that differ, the distances to their neighbours, and the resampling of their units."""

    rows: Float[Tensor, "n d"]
    near: Neighbours
    units: Int[Tensor, " n"]
    counts: Float[Tensor, "b1 u"]
    num_given: int

    @classmethod
    def of(
        cls, h: object, least: int, sequences: object, seed: int, counts: Tensor | None = None, most: int = 0
    ) -> "_Sample":
        """Searches for at least `least` neighbours, and for `most` where there are as many rows."""
        rows = rows_of(h, least=2)
        num_given, device = rows.shape[0], rows.device
        units = None if sequences is None else torch.from_numpy(_units(sequences, num_given)).to(device)
        num_units = min(num_given, _MOST_UNITS) if units is None else int(units.max()) + 1
        if counts is None:
            counts = stretched(resampling_counts(num_units, seed=seed))
        elif counts.shape[1] != num_units:
            raise InputError(f"counts has {counts.shape[1]} columns for {num_units} sequences; wanted one each")
        kept = _first_copies(rows)
        wanted = max(least + 1, _LEAST_ROWS)
        if len(kept) < wanted:
            told = "all the same (constant activations)" if len(kept) == 1 else f"{len(kept)} of them different"
            raise InputError(
                f"h has {num_given} rows, {told}; this dimension needs at least {wanted} that differ: give more rows"
            )
        if units is None:  # groups of rows, where there are many: drawn in no time, and no worse
            units = torch.arange(num_given, device=device) * num_units // num_given
        rows = rows if len(kept) == num_given else rows[kept]
        near = nearest_neighbours(rows, min(max(least, most), len(kept) - 1))
        return cls(rows, near, units[kept], counts.to(device), num_given)

    def estimate(self, method: Method, estimator: tuple[int, Estimator] | None = None) -> Estimate:
        num_neighbours, found = estimator or _ESTIMATORS[method]
        value, influence, num_points = found(self.near.distances.log())
        by_unit = self._by_unit(influence, num_neighbours - 1)
        replicates = value * first_order(0.0, by_unit / value, self.counts).exp()  # the spread grows with the value
        num_copies = self.num_given - len(self.rows)
        return Estimate(value, *interval(replicates), num_points, method, self.num_given, num_copies, replicates)

    def _by_unit(self, influence: Float[Tensor, " n"], num_shared: int) -> Float[Tensor, " u"]:
        """The influence of each unit, widened by what the terms of different units have in common.

        A row's term hangs on rows of other units, and so do theirs: they rise and fall together. Resampling cannot
        know, and intervals would be a fifth too short. So each term is shared out over the units of the row and of its
        neighbours, by how many rows it has there, scaled so that independent terms keep their variance: where terms of
        different units meet is their covariance. Shared rows at most double the variance; more comes of regions unlike
        each other in dimension, which resampling does know.
        """
        num_rows, num_units = len(influence), self.counts.shape[1]
        met = torch.cat([self.units[:, None], self.units[self.near.indices[:, :num_shared]]], dim=1)
        row = torch.arange(num_rows, device=met.device)[:, None]
        met, times = torch.unique(row * num_units + met, return_counts=True)
        row, unit = met // num_units, met % num_units
        share = influence[row] * times / _sums(times.double().square(), row, num_rows).sqrt()[row]
        _, pair = torch.unique(self.units[row] * num_units + unit, return_inverse=True)
        within = _sums(share, pair, int(pair.max()) + 1).square().sum()
        common = _sums(share, unit, num_units).square().sum() - within
        by_unit = _sums(influence, self.units, num_units)
        alone = by_unit.square().sum().clamp(min=torch.finfo(by_unit.dtype).tiny)
        return by_unit * (1 + (common / alone).clamp(0, 1)).sqrt()


def _first_copies(rows: Float[Tensor, "n d"]) -> Int[Tensor, " kept"]:
    """Where each row is first met. Copies go before the search: two copies of a neighbour would be the nearest two of
    many rows, and `log(r2 / r1)` zero.
    """
    distinct, inverse = torch.unique(rows, dim=0, return_inverse=True)
    place = torch.arange(len(rows), device=rows.device)
    return place.new_full((len(distinct),), len(rows)).scatter_reduce(0, inverse, place, "amin").sort().values


def _sums(values: Float[Tensor, " n"], groups: Int[Tensor, " n"], num_groups: int) -> Float[Tensor, " groups"]:
    """Sums over groups, always in the same order, on CUDA too."""
    order = groups.argsort(stable=True)
    return sum_by_unit(values[order, None], groups[order], num_groups)[:, 0]


def _least_squares(log_r: Float[Tensor, "n k"], fraction: float) -> Found:
    log_mu, order = (log_r[:, 1] - log_r[:, 0]).sort(stable=True)
    num_points = int(fraction * len(log_mu))
    x = _that_differ(log_mu[:num_points])
    share = torch.arange(1, num_points + 1, dtype=x.dtype, device=x.device) / len(log_mu)
    value = float(-torch.log1p(-share) @ x / (x @ x))
    # The same fit of weighted rows: a row of weight w covers the part w / sum w of F.
    weights = torch.ones_like(log_mu, requires_grad=True)
    with torch.enable_grad():
        below = torch.cat([log_mu.new_zeros(1), weights.cumsum(0) / weights.sum()]).clamp(max=fraction)
        heights = (torch.special.xlog1py(1 - below, -below) + below).diff()  # integral of -log(1 - F)
        (slope,) = torch.autograd.grad(heights @ log_mu / (below.diff() @ log_mu.square()), weights)
    return value, torch.empty_like(slope).index_copy_(0, order, slope), num_points


def _inverse_mean(terms: Float[Tensor, " n"], numerator: float = 1.0) -> Found:
    mean = _that_differ(terms).mean()
    value = numerator / float(mean)
    return value, value * (1 - terms / mean) / len(terms), len(terms)


def _gride(log_r: Float[Tensor, "n k"], n1: int) -> Found:
    """The root of the score, a sum over rows of `1 / d + (n1 - 1) log mu / (1 - mu^-d) - (2 n1 - 1) log mu`.

    It falls and is convex in d, and `x / (1 - e^-x) >= 1 + x / 2` bounds its root from below: Newton climbs from there.
    """
    log_mu = _that_differ(log_r[:, 2 * n1 - 1] - log_r[:, n1 - 1]).clamp(min=1e-100)  # no 0 / 0 for ties

    def at(d: Tensor) -> tuple[Tensor, Tensor]:
        part = log_mu / -torch.expm1(-d * log_mu)
        fall = 1 / d**2 + (n1 - 1) * part.square() * torch.exp(-d * log_mu)
        return 1 / d + (n1 - 1) * part - (2 * n1 - 1) * log_mu, fall.sum()

    d = 2 * n1 / ((3 * n1 - 1) * log_mu.mean())
    for _ in range(100):
        score, fall = at(d)
        step = score.sum() / fall
        d = d + step
        if abs(float(step)) <= 1e-12 * float(d):
            break
    score, fall = at(d)
    return float(d), score / fall, len(log_mu)


def _that_differ(log_mu: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    if float(log_mu.sum()) <= 0:
        raise InputError(
            f"the neighbours of {len(log_mu)} rows are all at the same distance (a grid?): a dimension needs distances "
            "that differ"
        )
    return log_mu


# How many neighbours each method needs, and the method: log distances in, the dimension, its derivative by the weight
# of each row and the number of ratios used out.
_ESTIMATORS: dict[str, tuple[int, Estimator]] = {
    "twonn": (2, partial(_least_squares, fraction=0.9)),
    "twonn-ml": (2, lambda log_r: _inverse_mean(log_r[:, 1] - log_r[:, 0], 1 - 1 / len(log_r))),
    "twonn-20": (2, partial(_least_squares, fraction=0.2)),
    "gride": (2 * GRIDE_SCALE, partial(_gride, n1=GRIDE_SCALE)),
    "mle": (
        MLE_NEIGHBOURS,
        lambda log_r: _inverse_mean(log_r[:, MLE_NEIGHBOURS - 1] - log_r[:, : MLE_NEIGHBOURS - 1].mean(1)),
    ),
}
