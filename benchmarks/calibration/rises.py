"""False alarms of "rises, then falls" on flat curves."""

import numpy as np

from anisoscope.claims.replicates import interval, rise_and_fall

from .table import Rate, repeat

SMALLEST, NOISE, REPLICATES = np.log(1.1), 0.03, 200


def flat_curves(repeats: int, looks: int = 16, quiet: bool = True) -> list[Rate]:
    """Both halves of the sequences see a curve that is flat but for noise: each its own, or the same wiggle."""

    def once(seed: int, shared: float, own: float) -> bool:
        rng = np.random.default_rng([4, seed])
        curve = np.exp(shared * rng.normal(size=(looks, 1)))
        halves = []
        for _ in range(2):
            value = curve * np.exp(own * rng.normal(size=(looks, 1)))
            halves.append(value * np.exp(own * rng.normal(size=(looks, 1 + REPLICATES)) * _SPREAD))
        effect = rise_and_fall(*halves)
        return interval(effect)[0] > 0 and effect[0] >= SMALLEST

    kinds = {"own sampling error": (0.0, NOISE), "a wiggle that both share": (NOISE, 0.0), "both": (NOISE, NOISE)}
    return [
        Rate(
            f"{looks} looks, {name}",
            sum(repeat(name, lambda seed, kind=kind: once(seed, *kind), repeats, quiet)),
            repeats,
            0.05,
            0.0,
            at_most=True,
        )
        for name, kind in kinds.items()
    ]


_SPREAD = np.r_[0.0, np.ones(REPLICATES)]  # the estimate itself, then its replicates
