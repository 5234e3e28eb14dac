"""False alarms: how often a control that must not differ from the measurement is said to."""

import numpy as np
import torch

from anisoscope.claims.replicates import interval
from anisoscope.geometry.displacement import Displacement, rotated_eigenvalues
from anisoscope.geometry.inference import draw_p
from anisoscope.geometry.spectrum import SCORES, leading_share
from anisoscope.geometry.subspace import SecondMoment

from .table import Rate, repeat
from .worlds import CHANCE, EVEN, RANK, WIDTH, Measured

# What is taken out is the sample's own mean: of gradients that have none it is noise, and the interval knows it.
_CAREFUL = ("common_gradient",)
_ALIKE = ("sampled_labels", "permuted_labels", "next_directions", "common_gradient", "row_normalised")


def false_alarms(repeats: int, quiet: bool = True) -> list[Rate]:
    """Everything is even and independent of everything else: directions, labels, looks, rotations are exchangeable."""

    def once(seed: int) -> dict[str, bool]:
        seen, untrained = (Measured(EVEN.look(2 * seed + step, step)) for step in (1, 0))
        effect, energy = seen.effect(), seen.rows["all", "", "energy_share"]
        found = {
            "p of the energy share among random directions": energy["p"] <= 0.05,
            "p of the anisotropy share among random directions": seen.rows["all", "", "anisotropy_share"]["p"] <= 0.05,
            "energy share against chance (k / D)": _away(seen.replicates("energy_share") - CHANCE),
            "untrained (another look)": _away(effect - untrained.effect()),
        }
        found |= {name: _away(effect - seen.effect(name)) for name in _ALIKE}
        for name, control in (("isotropic", "isotropic"), ("variance_matched", "variance_matched")):
            drawn = seen.rows["all", control, "energy_share"]
            found[f"outside the draws of {name}"] = not drawn["low"] <= energy["value"] <= drawn["high"]
        return found | _rotations(seed)

    found = list(repeat("false alarms", once, repeats, quiet))
    band = 0.01 if repeats >= 10_000 else 0.015
    return [
        Rate(name, int(np.sum([one[name] for one in found])), repeats, 0.05, band, at_most=name in _CAREFUL)
        for name in found[0]
    ]


def _rotations(seed: int) -> dict[str, bool]:
    """Two spectra turned against one another at random, among 199 other turns."""
    rng = np.random.default_rng([2, seed])
    s, c = (np.diag(np.geomspace(3, 0.2, WIDTH) ** 2) for _ in range(2))
    turn = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0]
    gradients, covariance = (SecondMoment(torch.from_numpy(one)) for one in (turn @ s @ turn.T, c))
    values = Displacement.of(gradients, covariance.matrix).eigenvalues
    rotated = rotated_eigenvalues(gradients, covariance.eigen[0], 199, seed)
    scores = {"effective rank": lambda x: SCORES["effective_rank_eigenvalues"](x, WIDTH), "leading share": leading}
    return {
        f"{name} of displacements among rotated gradients": draw_p(
            float(score(values)), torch.stack([score(one) for one in rotated])
        )
        <= 0.05
        for name, score in scores.items()
    }


def leading(values: torch.Tensor) -> torch.Tensor:
    return leading_share(values, RANK)


def _away(difference: np.ndarray) -> bool:
    low, high = interval(difference)
    return not low <= 0 <= high
