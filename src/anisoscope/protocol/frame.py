"""The frame of one site in one view: every direction that is measured there, and which of them belong together."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from ..geometry.moments import Moments
from ..geometry.subspace import Method, eigenbasis, numerical_rank, principal_directions

Block = tuple[str, int, str]  # proxy, rank, control ("" or "next_directions"); the oracle stands as a proxy here


@dataclass(frozen=True)
class Frame:
    """Directions side by side: all principal ones, leading ones of the other proxies, then the oracle's."""

    variances: Float[Tensor, " d"]  # of the fit half along the principal directions
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
        parts, blocks, start = [principal], {}, 0
        width = moments.width
        for proxy in proxies:
            if proxy != "pca":
                start = sum(part.shape[1] for part in parts)
                reach = min(width, 2 * max(kept, default=0))
                parts.append(principal_directions(moments, proxy)[1][:, :reach])
            for rank in kept:
                blocks[(proxy, rank, "")] = slice(start, start + rank)
                if 2 * rank <= width:
                    blocks[(proxy, rank, "next_directions")] = slice(start + rank, start + 2 * rank)
            start = 0
        return cls(variances, torch.cat(parts, dim=1), blocks, moments.count, usable)

    @property
    def principal(self) -> Float[Tensor, "d d"]:
        """All principal directions of the fit half."""
        return self.directions[:, : self.directions.shape[0]]

    @property
    def proxies(self) -> list[str]:
        return list(dict.fromkeys(proxy for proxy, _, _ in self.blocks if proxy != "oracle"))

    def basis(self, proxy: str, rank: int) -> Float[Tensor, "d k"]:
        return self.directions[:, self.blocks[(proxy, rank, "")]]

    @property
    def ranks(self) -> list[int]:
        return sorted({rank for _, rank, control in self.blocks if not control})

    def with_oracle(self, second_moment: Float[Tensor, "d d"]) -> "Frame":
        """The same with the leading directions of the test gradients beside."""
        start, reach = self.directions.shape[1], max(self.ranks, default=1)
        oracle = eigenbasis(second_moment)[1][:, :reach]
        blocks = self.blocks | {("oracle", rank, ""): slice(start, start + rank) for rank in self.ranks}
        return replace(self, directions=torch.cat([self.directions, oracle], dim=1), blocks=blocks)
