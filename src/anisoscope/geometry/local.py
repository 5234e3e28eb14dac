"""Proxies that differ from token to token: the tangent space at the nearest anchor, or the atoms that are active there.

Axes: n rows, d coordinates, k rank, a anchors, m neighbours (or atoms).
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import InputError
from .moments import rows_of
from .subspace import check_rank

NUM_ANCHORS = 64
NEIGHBOURS_A_DIRECTION = 4


class LocalBases(NamedTuple):
    """One basis per anchor."""

    bases: Float[Tensor, "a d k"]
    anchors: Float[Tensor, "a d"]


def local_bases(h: object, k: int, num_anchors: int = NUM_ANCHORS, seed: int = 0) -> LocalBases:
    """Local PCA: the k leading directions among the 4k rows nearest to each anchor, centred on their own mean.

    Anchors are rows drawn evenly, so that they lie where rows do.

    >>> found = local_bases(torch.randn(200, 6), k=2, num_anchors=5)
    >>> found.bases.shape, found.anchors.shape
    (torch.Size([5, 6, 2]), torch.Size([5, 6]))
    """
    rows = rows_of(h, least=2)
    check_rank(k, rows.shape[1])
    near = NEIGHBOURS_A_DIRECTION * k
    if rows.shape[0] < near:
        raise InputError(f"h has {rows.shape[0]} rows; wanted at least {near}, 4 neighbours for each of k = {k}")
    order = np.random.default_rng([seed, rows.shape[0]]).permutation(rows.shape[0])[:num_anchors]
    anchors = rows[torch.from_numpy(np.sort(order)).to(rows.device)].double()
    closest = torch.cdist(anchors, rows.double()).topk(near, largest=False).indices
    patch = rows.double()[closest]
    patch = patch - patch.mean(1, keepdim=True)
    # The small Gram of the neighbours: (a, m, m) instead of (a, d, d).
    values, left = torch.linalg.eigh(patch @ patch.mT)
    values, left = values.flip(1)[:, :k], left.flip(2)[:, :, :k]
    flat = int((values[:, -1] <= values[:, 0] * 1e-12).sum())
    if flat:
        raise InputError(
            f"around {flat} of {len(anchors)} anchors the {near} nearest rows span fewer than k = {k} directions "
            "(duplicate rows): take a smaller k, or drop duplicates"
        )
    bases = torch.linalg.qr(patch.mT @ (left / values.sqrt()[:, None])).Q
    dtype = h.dtype if isinstance(h, Tensor) else rows.dtype
    return LocalBases(bases.to(dtype), anchors.to(dtype))


def nearest_anchor(h: Float[Tensor, "n d"], local: LocalBases) -> Int[Tensor, " n"]:
    """Which basis each row takes."""
    return torch.cdist(h.double(), local.anchors.double()).argmin(1)


def local_energy(g: Float[Tensor, "n d"], h: Float[Tensor, "n d"], local: LocalBases) -> Float[Tensor, " n"]:
    """`|Q_i' g_i|^2`, Q_i the basis of the anchor nearest to `h_i`; over `|g|^2` summed it is a share, chance k / D."""
    mine = nearest_anchor(h, local)
    energy = torch.zeros(g.shape[0], dtype=torch.float64, device=g.device)
    for anchor in mine.unique().tolist():
        at = mine == anchor
        energy[at] = (g[at].double() @ local.bases[anchor].double()).square().sum(1)
    return energy


def active_energy(
    g: Float[Tensor, "n d"], atoms: Float[Tensor, "m d"], codes: Float[Tensor, "n m"], most: int
) -> tuple[Float[Tensor, " n"], Int[Tensor, " n"]]:
    """Energy of each row inside the span of its own active atoms (code not zero, the `most` largest), and how many
    directions that span has: chance is their mean over D.

    >>> g, atoms, codes = torch.ones(1, 3), torch.eye(3)[:2], torch.tensor([[0.5, 0.0]])
    >>> [one.tolist() for one in active_energy(g, atoms, codes, most=2)]
    [[1.0], [1]]
    """
    size, which = codes.abs().topk(min(most, codes.shape[1]), dim=1)
    energy = torch.zeros(g.shape[0], dtype=torch.float64, device=g.device)
    rank = torch.zeros(g.shape[0], dtype=torch.int64, device=g.device)
    for rows in torch.arange(g.shape[0], device=g.device).split(1024):  # (rows, atoms, d) at once, and no more
        span = atoms.double()[which[rows]] * (size[rows] > 0)[..., None]
        length = torch.linalg.vector_norm(span, dim=2, keepdim=True)
        span = span / length.where(length > 0, torch.ones_like(length))
        values, vectors = torch.linalg.eigh(span @ span.mT)
        used = values > 1e-9 * values[:, -1:]
        along = vectors.mT @ (span @ g[rows].double()[..., None])
        parts = along[..., 0].square() / values.where(used, torch.full_like(values, torch.inf))
        energy[rows], rank[rows] = parts.sum(1), used.sum(1)
    return energy, rank
