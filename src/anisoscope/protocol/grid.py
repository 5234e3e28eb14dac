"""Which cells a look measures: one table, so that the cost of a look is decided in one place.

The core grid writes about 300 rows a layer; the full one runs at the first and at the last look.
"""

from dataclasses import dataclass

# Controls that need gradients of their own, made from the true ones or from other labels, in the primary view.
POPULATIONS = {
    "sampled_labels": "sampled",
    "permuted_labels": "permuted",
    "row_normalised": "true",
    "common_gradient": "true",
}


@dataclass(frozen=True)
class Grid:
    """What is written for a proxy at a rank, by how the cell stands to the primary one."""

    primary: tuple[str, ...]  # controls at the primary rank in the primary view
    ranks: tuple[str, ...]  # controls at the other ranks in the primary view
    view_ranks: tuple[str, ...]  # views beside the primary one that are measured at every rank
    curve_points: int  # ranks of the capture curve

    def controls(self, is_primary_rank: bool) -> tuple[str, ...]:
        return self.primary if is_primary_rank else self.ranks


_ALL = (
    "random_normal",
    "isotropic",
    "next_directions",
    "variance_matched",
    "sampled_labels",
    "permuted_labels",
    "common_gradient",
    "row_normalised",
    "oracle",
)
CORE = Grid(_ALL, ("random_normal", "next_directions", "sampled_labels", "oracle"), ("clean",), 14)
FULL = Grid(_ALL, _ALL, ("clean", "all", "bearing", "other"), 24)


def curve_ranks(width: int, points: int) -> list[int]:
    """Ranks at which the capture curve is drawn: every small one, then evenly in the logarithm, up to all directions.

    >>> curve_ranks(64, 8)
    [1, 2, 3, 6, 11, 19, 35, 64]
    """
    ranks = {max(1, round(width ** (i / (points - 1)))) for i in range(points)}
    fill = 1
    while len(ranks) < min(points, width):
        ranks.add(fill)
        fill += 1
    return sorted(ranks)
