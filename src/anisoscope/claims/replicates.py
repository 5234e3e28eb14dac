"""Arithmetic on replicates: arrays whose entry 0 is the estimate and whose others are its bootstrap replicates.

Numpy's own functions carry the uncertainty along: a difference of two such arrays is a difference with replicates, a
median over the first axis of a stack is a median with replicates. Here is what numpy lacks.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Real
from scipy import stats

from ..errors import InputError

Replicates = Float[np.ndarray, " b1"]
Stack = Sequence[Replicates] | Float[np.ndarray, "n b1"]  # n quantities (bins, layers, looks), each with replicates
Fixed = Real[np.ndarray, " n"]  # n numbers without uncertainty


def median(parts: Sequence[Replicates]) -> Replicates:
    """The median of several quantities, replicate by replicate."""
    return np.median(np.stack(parts), axis=0)


def interval(x: Replicates) -> tuple[float, float]:
    """95% percentile interval; of a single number, the number itself. NaN: that replicate drew nothing to measure."""
    if len(x) < 2:
        return float(x[0]), float(x[0])
    drawn = x[1:][~np.isnan(x[1:])]
    low, high = np.percentile(drawn, [2.5, 97.5]) if len(drawn) else (np.nan, np.nan)
    return float(low), float(high)


def p_value(x: Replicates) -> float:
    """Two-sided p of "this is zero", from the estimate over its bootstrap standard error."""
    drawn = x[1:][~np.isnan(x[1:])]
    error = float(np.std(drawn, ddof=1)) if len(drawn) > 1 else 0.0
    if error == 0:
        return 1.0 if x[0] == 0 else 0.0
    return float(2 * stats.norm.sf(abs(x[0]) / error))


def discoveries(parts: Sequence[Replicates], level: float = 0.05) -> np.ndarray:
    """+1 or -1 where a quantity differs from zero in that direction at this false discovery rate, else 0.

    >>> rng = np.random.default_rng(0)
    >>> discoveries([np.append(5.0, rng.normal(5, 1, 200)), np.append(0.1, rng.normal(0.1, 1, 200))]).tolist()
    [1, 0]
    """
    adjusted = stats.false_discovery_control([p_value(part) for part in parts])
    return np.where(adjusted <= level, np.sign([part[0] for part in parts]), 0).astype(int)


def log2_first_order(x: Replicates) -> Replicates:
    """`log2(x)` with its replicates to first order: those of a first-order statistic may be negative, and the logarithm
    of a number clipped at zero would be a replicate of nothing.

    >>> log2_first_order(np.array([2.0, 2.0])).tolist()
    [1.0, 1.0]
    """
    if not x[0] > 0:
        return np.full_like(x, np.nan)
    return np.log2(x[0]) + (x - x[0]) / (x[0] * np.log(2))


def log_odds(share: np.ndarray, chance: float) -> np.ndarray:
    """`log2(e / e_n)` with `e_n = (1 - e) k / (D - k)`, the mean of random normal directions, and chance = k / D.

    >>> log_odds(np.array([0.125]), 0.125).tolist()
    [0.0]
    """
    share = np.clip(share, 1e-9, 1 - 1e-9)
    return np.log2(share / (1 - share)) - np.log2(chance / (1 - chance))


def slope(x: Fixed, y: Stack, weights: Fixed | None = None) -> Replicates:
    """Least-squares slope of n quantities on fixed x, replicate by replicate; NaN where all x are the same.

    It is linear in y: replicates of y, exact or to first order, give it an interval as good as their own.

    >>> slope(np.array([0, 1, 2]), [np.array([1.0, 5.0]), np.array([3.0, 5.0]), np.array([5.0, 5.0])]).tolist()
    [2.0, 0.0]
    """
    w = np.full(len(x), 1 / len(x)) if weights is None else weights / weights.sum()
    lever = w * (x - w @ x)
    spread = lever @ x
    return lever @ _stacked(y) / (spread if spread > 0 else np.nan)


def pearson(x: Stack | Fixed, y: Stack | Fixed) -> Replicates:
    """Correlation over n pairs, each side fixed or with replicates; NaN where a side does not vary.

    Replicates carry the noise of the estimate and their own, and correlate less than it does: they are moved so that
    their mean is the estimate. The interval then covers the mean of the estimate at this noise (90-98%, where
    percentiles as they come cover 55%), not the correlation of what the n quantities would be without noise.

    >>> pearson(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0])).round(12).tolist()
    [1.0]
    """
    return _recentred(_correlation(_stacked(x), _stacked(y)))


def spearman(x: Stack | Fixed, y: Stack | Fixed, covariates: Sequence[Fixed] = ()) -> Replicates:
    """Correlation of ranks, covariates (depth and step, say) partialled out as ranks; replicates as in `pearson`.

    >>> depth = np.array([1.0, 2.0, 3.0, 4.0])
    >>> spearman(depth, depth**3).round(12).tolist(), spearman(depth, depth**3, [depth]).tolist()
    ([1.0], [nan])
    """
    known = np.column_stack([np.ones(len(x)), *map(stats.rankdata, covariates)])
    take_out = np.eye(len(x)) - known @ np.linalg.pinv(known)
    sides = [take_out @ stats.rankdata(_stacked(side), axis=0) for side in (x, y)]
    # What covariates explain altogether leaves rounding behind, which correlates with anything.
    return _recentred(_correlation(*(np.where(np.abs(side) < 1e-9 * len(x), 0.0, side) for side in sides)))


def rise_and_fall(one_half: Stack, other_half: Stack) -> Replicates:
    """How far a curve over looks rises and falls again, less how far it falls and rises again: `min(log(peak/start),
    log(peak/end)) - min(log(start/trough), log(end/trough))`; 0 of a curve that goes one way. Peak and trough are found
    on one half of the test sequences and valued on the other, both ways averaged.

    Needed of the store: at each look a row with replicates for either half of the sequences (the same at every look),
    from as many rows each (a dimension depends on their number), with neighbours sought within the half; replicate b
    of all of them from the same row of resampling counts.

    Each replicate finds peak and trough anew: the interval holds the uncertainty of the choice as well, and covers
    98-100% (68-93% with the estimate's own choice kept).

    >>> up_down, up = np.array([[1.0], [4.0], [2.0]]), np.array([[1.0], [2.0], [4.0]])
    >>> rise_and_fall(up_down, up_down).round(3).tolist(), rise_and_fall(up, up).tolist()
    ([0.693], [0.0])
    """
    one, other = np.log(_stacked(one_half)), np.log(_stacked(other_half))

    def valued(choice: np.ndarray, curve: np.ndarray) -> np.ndarray:
        peak, trough = (np.take_along_axis(curve, at[None], 0)[0] for at in (choice.argmax(0), choice.argmin(0)))
        start, end = curve[0], curve[-1]
        return np.minimum(peak - start, peak - end) - np.minimum(start - trough, end - trough)

    missing = np.isnan(one + other).any(0)
    return np.where(missing, np.nan, (valued(one, other) + valued(other, one)) / 2)


def thirds(blocks: Stack) -> Float[np.ndarray, "3 b1"]:
    """Means over the first, the middle and the last third of the blocks; outer thirds have the same size.

    >>> thirds([np.array([float(i)]) for i in range(8)])[:, 0].tolist()
    [1.0, 3.5, 6.0]
    """
    values = _stacked(blocks)
    outer = (len(values) + 1) // 3
    return np.stack([part.mean(0) for part in np.split(values, [outer, len(values) - outer])])


def depth_contrast(blocks: Stack) -> Replicates:
    """By how much the middle third lies above both outer thirds (or, negative, below both); between them it is 0.

    >>> depth_contrast([np.array([y]) for y in (1.0, 1.0, 5.0, 5.0, 2.0, 2.0)]).tolist()
    [3.0]
    """
    first, middle, last = thirds(blocks)
    return np.maximum(0, middle - np.maximum(first, last)) + np.minimum(0, middle - np.minimum(first, last))


def arch(blocks: Stack) -> Replicates:
    """Minus the quadratic coefficient over depth from -1 to 1: positive, as `depth_contrast`, for a bell.

    >>> arch([np.array([y]) for y in (0.0, 3.0, 4.0, 3.0, 0.0)]).round(12).tolist()
    [4.0]
    """
    depth = np.linspace(-1, 1, len(blocks))
    return -np.linalg.pinv(np.vander(depth, 3))[0] @ _stacked(blocks)


def over_seeds(effects: Sequence[Replicates]) -> Float[np.ndarray, " quantiles"]:
    """The mean effect of three or more seeds, as replicates of which `interval` is the t interval over seeds.

    They are quantiles, in order and not draws: take differences within each seed first.

    >>> [round(end, 3) for end in interval(over_seeds([np.array([1.0]), np.array([2.0]), np.array([3.0])]))]
    [-0.484, 4.484]
    """
    if len(effects) < 3:
        raise InputError(f"{len(effects)} seeds; a t interval wants three or more: of two the weaker verdict stands")
    values = np.array([effect[0] for effect in effects])
    levels = np.clip(np.arange(201) / 200, 1 / 400, 1 - 1 / 400)
    spread = stats.t.ppf(levels, len(values) - 1) * stats.sem(values)
    return values.mean() + np.append(0.0, spread)


def _stacked(x: Stack | Fixed) -> Float[np.ndarray, "n b1"]:
    return np.stack(list(x)).astype(float).reshape(len(x), -1)


def _correlation(x: Float[np.ndarray, "n _"], y: Float[np.ndarray, "n _"]) -> Replicates:
    x, y = x - x.mean(0), y - y.mean(0)
    size = np.sqrt(x.var(0) * y.var(0))
    return (x * y).mean(0) / np.where(size > 0, size, np.nan)


def _recentred(x: Replicates) -> Replicates:
    drawn = x[1:][~np.isnan(x[1:])]
    return np.append(x[0], x[1:] + (x[0] - drawn.mean())) if len(drawn) else x
