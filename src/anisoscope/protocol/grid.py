"""Which cells a look measures: one table, so that the cost of a look is decided in one place.

The core grid writes about 300 rows a layer; the full one runs at the first look and at the last.
"""

from dataclasses import dataclass

from .controls import DRAWN, FIXED, POPULATIONS


@dataclass(frozen=True)
class Grid:
    """What is written beside the primary cell. There, every control is."""

    views: tuple[str, ...]  # beside the primary and the clean one, at the primary rank
    rank_controls: tuple[str, ...] | None  # controls at the other ranks of the primary view; None: all of them
    curve_points: int  # ranks of the capture curve
    is_full: bool = False  # also what is dear: the spectrum of S C, every estimator on a sample of rows

    def controls(self, is_primary_rank: bool) -> tuple[str, ...]:
        if is_primary_rank or self.rank_controls is None:
            return (*FIXED, *DRAWN, *POPULATIONS)
        return self.rank_controls


CORE = Grid(views=(), rank_controls=("next_directions", "oracle", "sampled_labels"), curve_points=14)
FULL = Grid(views=("all", "bearing", "other"), rank_controls=None, curve_points=24, is_full=True)


def curve_ranks(width: int, points: int) -> list[int]:
    """Ranks at which the capture curve is drawn: evenly in the logarithm, filled up from below, up to all directions.

    >>> curve_ranks(64, 8)
    [1, 2, 3, 6, 11, 20, 35, 64]
    """
    ranks = {max(1, round(width ** (i / (points - 1)))) for i in range(points)}
    fill = 1
    while len(ranks) < min(points, width):
        ranks.add(fill)
        fill += 1
    return sorted(ranks)
