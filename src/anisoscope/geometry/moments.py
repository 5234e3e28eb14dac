"""Streaming, mergeable moments of a cloud of vectors: one pass, O(D^2) state, exact under merging.

Axes: n rows, d coordinates.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import InputError

_CHUNK_ROWS = 8192


def rows_of(x: object, name: str = "h", least: int = 1) -> Tensor:
    """The rows of an array or tensor as float32 or float64, detached and finite; the edge where input is checked.

    Half precision becomes float32 (its squares would overflow); float64 stays.
    """
    if isinstance(x, np.ndarray) and x.dtype.kind == "f":  # what torch does not take: long doubles, other byte orders
        x = np.asarray(x, x.dtype.newbyteorder("=") if x.dtype.itemsize <= 8 else np.float64)
        x = x if min(x.strides, default=0) >= 0 else x.copy()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # nor is it written to
            tensor = torch.as_tensor(x).detach()  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        told = f"a {type(x).__name__}" + (f" of {x.dtype}" if isinstance(x, np.ndarray) else "")
        raise InputError(f"{name} is {told}, no table of numbers: give a numpy array or torch tensor (N, D)") from None
    if tensor.ndim != 2:
        raise InputError(f"{name} has shape {tuple(tensor.shape)}; wanted (N, D), one row per token: reshape it first")
    if not tensor.is_floating_point():
        raise InputError(
            f"{name} holds {str(tensor.dtype).removeprefix('torch.')}, wanted floating-point rows: convert it with "
            ".float() or .astype('float32') first"
        )
    if tensor.shape[0] < least or tensor.shape[1] == 0:
        wanted = f"at least {least} row{'s' if least > 1 else ''} and one column"
        raise InputError(f"{name} has shape {tuple(tensor.shape)}; wanted {wanted}: give more of them")
    if tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.float()
    infinite = torch.cat([~torch.isfinite(part).all(1) for part in tensor.split(_CHUNK_ROWS)])
    if infinite.any():
        bad, count = int(infinite.nonzero()[0]), int(infinite.sum())
        kind = "NaN" if bool(torch.isnan(tensor[bad]).any()) else "Inf"
        raise InputError(
            f"{name} holds {kind} in row {bad} ({count} of {tensor.shape[0]} rows are not finite): "
            "drop those rows, or mend the model that made them"
        )
    return tensor


@dataclass(frozen=True)
class Moments:
    """Count, mean and scatter of rows, and the sum of their unit vectors.

    All in float64 on rows that were centred chunk by chunk: a mean far larger than the spread, a spectrum that falls
    over many decades, values near the ends of float32 cost no accuracy beyond that of the input itself.

    >>> import torch
    >>> left, right = torch.randn(100, 4).split(60)
    >>> both = Moments.of(left) + Moments.of(right)
    >>> bool(torch.allclose(both.mean, torch.cat([left, right]).double().mean(0)))
    True
    """

    count: int
    mean: Float[Tensor, " d"]
    scatter: Float[Tensor, "d d"]  # sum of (x - mean)(x - mean)'
    unit_sum: Float[Tensor, " d"]  # sum of x / |x| over rows that are not zero
    num_nonzero: int

    @classmethod
    def empty(cls, width: int, device: torch.device | None = None) -> "Moments":
        zeros = torch.zeros(width, dtype=torch.float64, device=device)
        return cls(0, zeros, torch.zeros(width, width, dtype=torch.float64, device=device), zeros, 0)

    @classmethod
    def of(cls, x: Float[Tensor, "n d"]) -> "Moments":
        total = cls.empty(x.shape[1], x.device)
        for chunk in x.split(_CHUNK_ROWS):
            total = total + cls._of_chunk(chunk)
        return total

    @classmethod
    def _of_chunk(cls, x: Float[Tensor, "n d"]) -> "Moments":
        if x.shape[0] == 0:
            return cls.empty(x.shape[1], x.device)
        # In float64: a Gram in float32 hides every direction with less than 1e-7 of the largest variance under its own
        # rounding, so that rank-deficient rows look full, and a caller's TF32 setting would cost four digits more.
        x = x.to(torch.float64, copy=True)  # our own: one copy serves all that follows
        mean = x.mean(0)
        lengths = torch.linalg.vector_norm(x, dim=1)
        nonzero = lengths > 0
        unit_sum = (1 / lengths.where(nonzero, torch.ones_like(lengths))) @ x
        x -= mean
        return cls(x.shape[0], mean, x.T @ x, unit_sum, int(nonzero.sum()))

    def __add__(self, other: "Moments") -> "Moments":
        if not self.count or not other.count:
            return other if other.count else self
        count = self.count + other.count
        shift = other.mean - self.mean
        return Moments(
            count,
            self.mean + shift * (other.count / count),
            self.scatter + other.scatter + torch.outer(shift, shift) * (self.count * other.count / count),
            self.unit_sum + other.unit_sum,
            self.num_nonzero + other.num_nonzero,
        )

    @property
    def width(self) -> int:
        return self.mean.shape[0]

    @property
    def covariance(self) -> Float[Tensor, "d d"]:
        """Centred second moment, divided by the number of rows."""
        return self.scatter / self.count

    @property
    def is_constant(self) -> bool:
        """Whether the rows are all the same: rounding alone leaves about 1e-15 of their squared length behind."""
        return float(self.scatter.trace()) <= 1e-14 * self.count * float(self.mean.square().sum())

    @property
    def second_moment(self) -> Float[Tensor, "d d"]:
        """Uncentred second moment X'X / N."""
        return self.covariance + torch.outer(self.mean, self.mean)

    @property
    def average_cosine(self) -> float:
        """Mean cosine over all pairs of different rows (Ethayarajh 2019), exact; rows of length zero are left out."""
        if self.num_nonzero < 2:
            return float("nan")
        pairs = self.num_nonzero * (self.num_nonzero - 1)
        return float((self.unit_sum.square().sum() - self.num_nonzero) / pairs)
