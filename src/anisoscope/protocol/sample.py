"""What needs rows and not moments: intrinsic dimension and isotropy inside clusters, on a bounded sample of a site."""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import InputError
from ..geometry.clusters import local_isotropy
from ..geometry.dimension import METHODS, estimates
from ..geometry.moments import Moments
from ..geometry.subspace import gaussian_like

if TYPE_CHECKING:
    from .gauge import Write

SAMPLE_ROWS = 4096


def spread_out(member: Bool[Tensor, " n"], most: int = SAMPLE_ROWS) -> Bool[Tensor, " n"]:
    """At most so many of the marked rows, evenly over all of them, so that every sequence has its share.

    >>> spread_out(torch.tensor([True, True, False, True, True, True]), most=3).tolist()
    [True, False, False, True, False, True]
    """
    at = member.nonzero()[:, 0]
    if len(at) > most:
        at = at[torch.linspace(0, len(at) - 1, most).round().long()]
    chosen = torch.zeros_like(member)
    chosen[at] = True
    return chosen


class Sample:
    """Rows of one site in the primary view of the test half, kept as they come by."""

    def __init__(self) -> None:
        self._rows: list[Float[Tensor, "n d"]] = []
        self._units: list[Int[Tensor, " n"]] = []

    def add(self, h: Float[Tensor, "n d"], units: Int[Tensor, " n"]) -> None:
        self._rows.append(h)
        self._units.append(units)

    def write(self, write: "Write", counts: Float[Tensor, "b1 u"], full: bool) -> str:
        """The dimension by the default estimator, `full`: by all of them, and clusters; always beside a Gaussian's.
        Returns why there is nothing to write, or nothing.
        """
        rows, units = torch.cat(self._rows), torch.cat(self._units)
        present, codes = torch.unique(units, return_inverse=True)  # a sequence may have no row in the view
        if len(present) < 2:
            return "an intrinsic dimension needs rows of two sequences or more"
        mine = counts[:, present]
        methods = METHODS if full else METHODS[:1]
        try:
            found = estimates(rows, methods, sequences=codes, counts=mine)
            drawn = gaussian_like(Moments.of(rows), len(rows)).to(rows.dtype)
            gaussian = estimates(drawn, methods, sequences=codes, counts=mine)
            isotropy = local_isotropy(rows, codes, len(present)) if full else None
        except InputError as error:
            return str(error)
        for method, one in found.items():
            write({}, _name(method), one.replicates.to(counts), keep=True, n=one.num_points)
        beside = {"control": "gaussian"}
        for method, one in gaussian.items():
            write(beside, _name(method), one.replicates.to(counts), n=one.num_points)
        if isotropy is not None and isotropy.surrogate is not None:
            inside = isotropy.replicates(mine)
            write({}, "num_clusters", torch.tensor(float(isotropy.num_clusters)), n=len(rows))
            for name in ("average_cosine_inside", "isoscore_inside"):
                write({}, name, inside[name], keep=True, n=len(rows))
            for name, value in isotropy.surrogate.scores.items():
                write(beside, name, torch.tensor(value), n=len(rows))
        return ""


def _name(method: str) -> str:
    return f"intrinsic_dimension_{method.replace('-', '_')}"
