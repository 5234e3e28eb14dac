"""Power: how often a planted preference is seen, against its strength."""

from dataclasses import dataclass

import numpy as np

from anisoscope.claims.replicates import interval
from anisoscope.claims.tangent import SMALLEST_BITS

from .table import repeat
from .worlds import CHANCE, RANK, WIDTH, Measured, World

# Times chance that the leading directions hold.
STRENGTHS = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0)


@dataclass(frozen=True)
class Power:
    """Of looks with this enrichment: how often it is told from none at all, and from one too small to matter."""

    enrichment: float
    sequences: int
    seen: float
    large: float
    repeats: int


def power(
    repeats: int, strengths: tuple[float, ...] = STRENGTHS, sequences: int = 64, quiet: bool = True
) -> list[Power]:
    """Gradients whose share inside the leading directions is planted; `seen` at strength 1 is a false alarm."""
    found = []
    for strength in strengths:
        share = strength * CHANCE
        pull = np.sqrt(np.r_[np.full(RANK, share / RANK), np.full(WIDTH - RANK, (1 - share) / (WIDTH - RANK))])
        world = World(np.r_[np.full(RANK, 4.0), np.ones(WIDTH - RANK)], pull)

        def once(seed: int, world: World = world) -> tuple[bool, bool]:
            low, high = interval(Measured(world.look(seed, sequences=sequences)).effect())
            return low > 0 or high < 0, low > SMALLEST_BITS

        each = np.array(list(repeat(f"power at {strength:g}", once, repeats, quiet)))
        found.append(Power(strength, sequences, *each.mean(0), repeats))
    return found
