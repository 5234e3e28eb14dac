"""What a look is made of: sites, positions, and chunks of whole sequences."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

Half = Literal["fit", "test"]
HALVES: tuple[Half, ...] = ("fit", "test")
LABELS = ("true", "sampled", "permuted")
IGNORED = -100  # the target of a position that enters no loss


class Site(NamedTuple):
    """A place in the model that is watched: which layer, how deep, which of its tensors, how wide."""

    layer: str
    depth: int
    site: str
    width: int


@dataclass(frozen=True)
class Positions:
    """One entry a row, the same for all sites: fit rows first, then test rows, each sequence in one piece.

    `sequence` counts from 0 inside each half. `position`, `token`, `target` are None where unknown; a target of -100
    enters no loss. `bearing` says which positions' own output enters the loss; None where nobody said.
    """

    sequence: Int[Tensor, " n"]
    num_fit: int
    position: Int[Tensor, " n"] | None = None
    token: Int[Tensor, " n"] | None = None
    target: Int[Tensor, " n"] | None = None
    bearing: Tensor | None = None

    def half(self, half: Half) -> slice:
        """The rows of one half."""
        return slice(0, self.num_fit) if half == "fit" else slice(self.num_fit, self.sequence.shape[0])

    def num_sequences(self, half: Half) -> int:
        rows = self.sequence[self.half(half)]
        return int(rows[-1]) + 1 if rows.shape[0] else 0


class Chunk(NamedTuple):
    """Whole sequences of a Look: rows of the positions, `h` at each site, `g` for each label and site, loss a row."""

    rows: slice
    h: Mapping[Site, Float[Tensor, "n d"]]
    g: Mapping[str, Mapping[Site, Float[Tensor, "n d"]]]
    loss: Float[Tensor, " n"] | None = None
