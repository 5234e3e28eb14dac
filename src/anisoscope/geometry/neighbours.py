"""Exact nearest neighbours of every row among the others, in blocks: memory is bounded by the block, never by N x N.

Axes: n rows, d coordinates, k neighbours, a and b the rows of two blocks; flat lists hold pairs of rows.

Products of rows find the neighbours, differences measure them: `|x|^2 + |y|^2 - 2 x.y` loses the digits of a distance
that is small beside the lengths. So a product only brackets a pair: its squared distance lies in [low, high], as wide
as the product can be off. A pair whose low end is above the k-th smallest high end of its row is dropped, the rest is
measured in float64 from their differences: the neighbours are exact whatever the rows are.
"""

from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import InputError
from .moments import rows_of

_BLOCK_ROWS = 1024
_MEASURED_NUMBERS = 1 << 16  # in the differences taken at a time: they stay in cache


@dataclass(frozen=True)
class Neighbours:
    """The nearest rows of each row, nearest first. No row is its own neighbour; a copy of it is one, at distance 0."""

    distances: Float[Tensor, "n k"]  # float64
    indices: Int[Tensor, "n k"]


def nearest_neighbours(h: object, k: int) -> Neighbours:
    """The exact `k` nearest rows of every row of `h` (N, D) by Euclidean distance; numpy or torch, on any device.

    Distances are right to float64 rounding. Which of several rows at the same distance come first is not specified,
    but always the same.

    >>> nearest_neighbours(torch.tensor([[0.0], [1.0], [3.0]]), k=1).distances.T
    tensor([[1., 1., 2.]], dtype=torch.float64)
    """
    rows = rows_of(h, least=2)
    if isinstance(k, bool) or not isinstance(k, Integral) or not 1 <= k < rows.shape[0]:
        raise InputError(
            f"k = {k!r} neighbours among {rows.shape[0]} rows; wanted a whole number from 1 to {rows.shape[0] - 1}: "
            "take a smaller k, or give more rows"
        )
    return _Search(rows, int(k)).run()


class _Search:
    """The rows, how far each of them still has to look, and the pairs that may be among its nearest."""

    def __init__(self, rows: Float[Tensor, "n d"], k: int) -> None:
        self.rows, self.k = rows, k
        num_rows, device = rows.shape[0], rows.device
        # Distances know no centre; the rounding of products does. The scale is a power of two, so it rounds nothing.
        largest = max(float(rows.max()), -float(rows.min()), torch.finfo(rows.dtype).tiny)
        self.scale = 2.0 ** -int(torch.tensor(largest, dtype=torch.float64).frexp().exponent)
        total = torch.stack([part.double().mul(self.scale).sum(0) for part in rows.split(_BLOCK_ROWS)]).sum(0)
        self.centre = (total / num_rows).to(rows.dtype)
        # float32 only where it is float32: TF32 and its like, which a caller may have set, would break the bound.
        single = device.type == "cpu" and torch.get_float32_matmul_precision() == "highest"
        self.dtype = torch.float32 if single else torch.float64
        num_blocks = -(-num_rows // max(_BLOCK_ROWS, 2 * k + 2))  # so that each has more than k rows
        edges = [num_rows * i // num_blocks for i in range(num_blocks + 1)]
        self.spans = [slice(start, stop) for start, stop in pairwise(edges)]
        self.reach = torch.full((num_rows,), torch.inf, dtype=torch.float64, device=device)  # the k nearest are within
        self.slack = torch.zeros_like(self.reach)  # products of a pair are off by at most the slack of both
        self.weight = torch.zeros(num_rows, dtype=self.dtype, device=device)  # |y|^2 - slack
        none = torch.zeros(0, dtype=torch.int64, device=device)
        self.row, self.col, self.low, self.high = none, none, self.reach[:0], self.reach[:0]
        self.found: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []

    def run(self) -> Neighbours:
        num_rows, width = self.rows.shape
        longest = max(span.stop - span.start for span in self.spans)
        left, right = torch.empty(2, longest, width, dtype=self.dtype, device=self.rows.device)
        product = torch.empty(longest * longest, dtype=self.dtype, device=self.rows.device)
        for i, here in enumerate(self.spans):
            y_ad = self._load(here, left)
            self._weigh(here, y_ad)
            for there in (here, *self.spans[:i]):  # itself first: then every row has a reach
                y_bd = y_ad if there is here else self._load(there, right)
                tile = product[: y_ad.shape[0] * y_bd.shape[0]].view(y_ad.shape[0], -1)
                self._scan(here, there, torch.addmm(self.weight[there], y_ad, y_bd.T, alpha=-2, out=tile))
                if sum(len(part[0]) for part in self.found) > num_rows + len(self.row):
                    self._settle()
        self._settle()
        self._measure(self.low < self.high)
        self._prune()
        distances = self.high.sqrt() / self.scale
        return Neighbours(distances.view(num_rows, self.k), self.col.view(num_rows, self.k))

    def _load(self, span: slice, buffer: Float[Tensor, "longest d"]) -> Float[Tensor, "a d"]:
        rows = self.rows[span]
        return torch.add(-self.centre, rows, alpha=self.scale, out=buffer[: rows.shape[0]])

    def _weigh(self, span: slice, y_ad: Float[Tensor, "a d"]) -> None:
        """Squared lengths and slack: a sum of D products is off by at most D roundings of the sum of their sizes, in
        whatever order it is taken (Higham 2002, section 3.1); the other ten are those of the centring and the weights.
        """
        length2, kind = y_ad.double().square().sum(1), torch.finfo(self.dtype)
        num_roundings = y_ad.shape[1] + 10
        self.slack[span] = num_roundings * (1.01 * kind.eps * length2 + 8 * kind.tiny)  # eps: two roundings
        self.weight[span] = length2 - self.slack[span]

    def _scan(self, here: slice, there: slice, tile: Float[Tensor, "a b"]) -> None:
        """Takes up the pairs of two blocks that may be near; `tile` and the weight of the left row make the low end."""
        weight = self.weight[here, None]
        if there is here:
            tile.fill_diagonal_(torch.inf)
            first = tile.topk(self.k, largest=False)
            high = first.values + weight + 2 * (self.slack[here, None] + self.slack[here][first.indices])
            self.reach[here] = high.amax(1)
        limit = torch.maximum(self.reach[here, None], self.reach[there]).to(tile.dtype) - weight
        i, j = (tile <= limit).nonzero(as_tuple=True)
        low = (tile[i, j] + weight[i, 0]).double()
        i, j = i + here.start, j + there.start
        high = low + 2 * (self.slack[i] + self.slack[j])
        for row, col in ((i, j),) if there is here else ((i, j), (j, i)):
            near = low <= self.reach[row]
            self.found.append((row[near], col[near], low[near], high[near]))

    def _settle(self) -> None:
        """Takes in what was found. Rows for which products cannot tell many pairs apart (copies, rows that almost
        agree) are measured at once, so that they never fill the memory.
        """
        columns = zip((self.row, self.col, self.low, self.high), *self.found, strict=True)
        self.row, self.col, self.low, self.high = map(torch.cat, columns)
        self.found = []
        rank = self._prune()
        for nearest in (self.k, len(self.row)):  # the k nearest first: their reach may suffice
            crowded = torch.bincount(self.row)[self.row] > 4 * self.k + 64
            if bool(crowded.any()):
                self._measure(crowded & (rank < nearest) & (self.low < self.high))
                rank = self._prune()

    def _prune(self) -> Int[Tensor, " pairs"]:
        """Sorts the pairs by row and high end, and keeps those that may be among the k nearest: the rank of each."""
        order = self.high.abs().view(torch.int64).argsort(stable=True)  # as bits: sorted six times as fast
        order = order[self.row[order].argsort(stable=True)]
        row, low, high = self.row[order], self.low[order], self.high[order]
        start = torch.searchsorted(row, row)
        rank = torch.arange(len(row), device=row.device) - start
        last = rank == self.k - 1
        # No pair beats k copies: with a reach below zero no other is taken up.
        self.reach[row[last]] = high[last].where(high[last] > 0, -1.0)
        keep = (rank < self.k) | ((low < high) & (low <= self.reach[row]))
        self.row, self.col, self.low, self.high = row[keep], self.col[order[keep]], low[keep], high[keep]
        return rank[keep]

    def _measure(self, which: Bool[Tensor, " pairs"]) -> None:
        """Squared distances of these pairs from their differences, in float64."""
        for part in which.nonzero()[:, 0].split(max(1, _MEASURED_NUMBERS // self.rows.shape[1])):
            apart = self.rows[self.row[part]].double().mul_(self.scale)
            apart.sub_(self.rows[self.col[part]], alpha=self.scale)
            self.low[part] = self.high[part] = apart.square_().sum(1)
