"""Arithmetic on replicates: arrays whose entry 0 is the estimate and whose others are its bootstrap replicates.

Numpy's own functions carry the uncertainty along: a difference of two such arrays is a difference with replicates, a
median over the first axis of a stack is a median with replicates. Here is what numpy lacks.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy import stats

Replicates = Float[np.ndarray, " b1"]


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
