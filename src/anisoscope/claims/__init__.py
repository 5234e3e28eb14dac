"""Claims: the store's rows and replicates in, verdicts out. Pure functions, no torch.

To add a claim: write `f(evidence) -> Verdict` and declare it in `CLAIMS` (CONTRIBUTING.md shows it).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .architectures import both_architectures
from .evidence import Evidence
from .persistence import early_and_persistent
from .tangent import tangent_anisotropy, tangent_energy
from .verdict import Verdict


@dataclass(frozen=True)
class Claim:
    """A claim as it was declared before anything was measured."""

    name: str
    source: str  # code in the method notes
    question: str
    effect: str
    smallest: str  # the smallest effect that matters
    fatal: str
    judge: Callable[[Evidence], Verdict] | None = None  # of one run
    judge_together: Callable[[Sequence[Evidence]], Verdict] | None = None  # of several


CLAIMS = {
    claim.name: claim
    for claim in (
        Claim(
            "tangent-energy",
            "A1",
            "Do gradients put more energy into the leading directions of the activations than into others?",
            "log2(e / e_n): energy share over the mean of random directions outside",
            "log2 1.5 bits",
            "the same layer untrained; the view without massive tokens",
            judge=tangent_energy,
        ),
        Claim(
            "tangent-anisotropy",
            "A2",
            "Does the gradient's anisotropy lie in the leading directions of the activations?",
            "log2(a / mean a_n): anisotropy share over the mean of random directions outside",
            "log2 1.5 bits, and an excess of 0.05",
            "the same layer untrained; the view without massive tokens; an energy share above chance",
            judge=tangent_anisotropy,
        ),
        Claim(
            "early-and-persistent",
            "A3",
            "Is it there early in training, and does it stay?",
            "share of looks in which tangent-energy is supported minus share in which it is reversed",
            "0.8",
            "those of each look",
            judge=early_and_persistent,
        ),
        Claim(
            "both-architectures",
            "A6",
            "Does it hold in an encoder and in a decoder?",
            "the smaller of the runs' effects; the weaker verdict",
            "log2 1.5 bits",
            "those of each run",
            judge_together=both_architectures,
        ),
    )
}


def judge(runs: Sequence[Evidence]) -> list[Verdict]:
    """All verdicts: run by run, then on all runs together."""
    alone = [claim.judge(run) for run in runs for claim in CLAIMS.values() if claim.judge]
    together = [claim.judge_together(runs) for claim in CLAIMS.values() if claim.judge_together]
    return alone + together


__all__ = ["CLAIMS", "Claim", "Evidence", "Verdict", "judge"]
