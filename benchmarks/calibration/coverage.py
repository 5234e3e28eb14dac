"""Coverage: how often a 95% interval holds the mean of the estimator at that number of rows.

The target is no population value but what the same measurement gives on average on other text of the same kind: that is
what the page says of its intervals. Fit half and model stay, only the test sequences change.
"""

import numpy as np

from .table import Rate, repeat
from .worlds import TYPICAL, Measured, World

STATISTICS = (
    ("", "energy_share"),
    ("", "anisotropy_share"),
    ("random_normal", "anisotropy_share"),
    ("", "captured_variance"),
    ("", "placement"),
    ("sampled_labels", "energy_share"),
    ("row_normalised", "anisotropy_share"),
    ("common_gradient", "energy_share"),
    ("oracle", "energy_share"),
    ("", "anisotropy_removed"),
    ("", "anisotropy"),
    ("", "anisotropy_uncentred"),
    ("", "singular_value_anisotropy"),
    ("", "effective_rank"),
    ("", "effective_rank_eigenvalues"),
    ("", "participation_ratio"),
    ("", "isoscore_star"),
    ("", "spectral_exponent"),
    ("", "average_cosine"),
    ("", "mean_gradient_share"),
    ("", "displacement_effective_rank"),
    ("", "displacement_leading_share"),
    ("", "displacement_share"),
)


def coverage(repeats: int, world: World = TYPICAL, sequences: int = 64, quiet: bool = True) -> list[Rate]:
    """One look a repetition gives every statistic at once."""

    def once(seed: int) -> list[tuple[float, float, float]]:
        rows = Measured(world.look(seed, sequences=sequences), full=True).rows
        return [
            (row["value"], row["low"], row["high"])
            for row in (rows["all", control, statistic] for control, statistic in STATISTICS)
        ]

    found = np.array(list(repeat("coverage", once, repeats, quiet)))  # (repeats, statistics, 3)
    target = found[..., 0].mean(0)
    hits = ((found[..., 1] <= target) & (target <= found[..., 2])).sum(0)
    names = [statistic + (f" of {control}" if control else "") for control, statistic in STATISTICS]
    return [Rate(name, int(count), repeats, 0.95, 0.02) for name, count in zip(names, hits, strict=True)]
