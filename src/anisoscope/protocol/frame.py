"""The frame of one site in one view: every direction that is measured there, and which of them belong together."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from ..geometry.moments import Moments
from ..geometry.subspace import Method, numerical_rank, principal_directions

Block = tuple[str, int, str]  # proxy, rank, control ("" or "next_directions"); the oracle stands as a proxy here


@dataclass(frozen=True)
class Frame:
    """All principal directions, and side by side those that blocks are made of: the leading ones of each proxy, then
    the oracle's.
    """

    variances: Float[Tensor, " d"]  # of the fit half along the principal directions
    principal: Float[Tensor, "d d"]
    directions: Float[Tensor, "d j"]
    blocks: dict[Block, slice]
    num_rows: int
    usable_rank: int  # directions that the fit rows really span

    @classmethod
    def fit(cls, moments: Moments, proxies: tuple[Method, ...], ranks: tuple[int, ...]) -> "Frame":
        """Proxies of one cloud, each at all ranks from one decomposition, without ranks that the rows do not span."""
        variances, principal = principal_directions(moments, "pca")
        usable = 0 if moments.is_constant else numerical_rank(variances, moments.count, centred=True)
        kept = [rank for rank in ranks if rank <= usable]
        reach = min(moments.width, 2 * max(kept, default=0))
        parts, blocks = [principal[:, :0]], {}
        for at, proxy in enumerate(proxies):
            basis = principal if proxy == "pca" else principal_directions(moments, proxy)[1]
            parts.append(basis[:, :reach])
            start = at * reach
            for rank in kept:
                blocks[(proxy, rank, "")] = slice(start, start + rank)
                if 2 * rank <= moments.width:
                    blocks[(proxy, rank, "next_directions")] = slice(start + rank, start + 2 * rank)
        return cls(variances, principal, torch.cat(parts, dim=1), blocks, moments.count, usable)

    @property
    def proxies(self) -> list[str]:
        return list(dict.fromkeys(proxy for proxy, _, _ in self.blocks if proxy != "oracle"))

    def basis(self, proxy: str, rank: int) -> Float[Tensor, "d k"]:
        return self.directions[:, self.blocks[(proxy, rank, "")]]

    @property
    def ranks(self) -> list[int]:
        return sorted({rank for _, rank, control in self.blocks if not control})

    def with_oracle(self, oracle: Float[Tensor, "d d"]) -> "Frame":
        """The same with the leading ones of the test gradients' own directions beside."""
        start, reach = self.directions.shape[1], max(self.ranks, default=1)
        blocks = self.blocks | {("oracle", rank, ""): slice(start, start + rank) for rank in self.ranks}
        return replace(self, directions=torch.cat([self.directions, oracle[:, :reach]], dim=1), blocks=blocks)
