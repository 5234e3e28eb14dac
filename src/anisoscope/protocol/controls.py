"""The controls, each one entry in a table: what gradient rows it takes, or what directions it puts in a proxy's place.

To add one: a function here, a line in `store/vocabulary.py` (CONTRIBUTING.md shows it).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from .frame import Frame


def unit_rows(g: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """Rows scaled to length one; rows of zeros stay."""
    largest = g.abs().amax(1, keepdim=True)
    g = g / largest.where(largest > 0, torch.ones_like(largest))  # first by the largest entry: squares may underflow
    length = torch.linalg.vector_norm(g, dim=1, keepdim=True)
    return g / length.where(length > 0, torch.ones_like(length))


@dataclass(frozen=True)
class Population:
    """Gradient rows that stand in the true ones' place: those of `label`, changed by `rows`, with or without mean."""

    label: str
    rows: Callable[[Tensor], Tensor] = lambda g: g
    centred: bool = False

    def shares_moments(self, other: "Population") -> bool:
        """Whether both are of the same rows."""
        return (self.label, self.rows) == (other.label, other.rows)


TRUE = Population("true")
POPULATIONS = {
    "sampled_labels": Population("sampled"),
    "permuted_labels": Population("permuted"),
    "row_normalised": Population("true", unit_rows),
    "common_gradient": Population("true", centred=True),
}


def _activation_spread(frame: Frame) -> Float[Tensor, "d d"]:
    """A square root of the covariance of the fit half."""
    return frame.principal * frame.variances.clamp(min=0).sqrt()


# Random subspaces, drawn as (this matrix) @ normal; None draws them evenly. The interval is over draws.
DRAWN: dict[str, Callable[[Frame], Tensor] | None] = {"isotropic": None, "variance_matched": _activation_spread}

# Directions of the same fit or of the test gradients, kept side by side in the frame.
FIXED = ("next_directions", "oracle")


def populations(labels: tuple[str, ...]) -> dict[str, Population]:
    """The true gradients, and every control whose labels are at hand."""
    return {"true": TRUE} | {name: one for name, one in POPULATIONS.items() if one.label in labels}
