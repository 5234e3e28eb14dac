"""Subspaces: how they are fitted, and how much of a cloud of vectors they hold.

Axes: n rows, d coordinates, k rank, m draws. `q_dk` is orthonormal.
"""

from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import InputError
from .moments import Moments, rows_of
from .spectrum import isoscore_star

T = TypeVar("T", float, Tensor)
Method = Literal["pca", "svd"]
METHODS: tuple[Method, ...] = ("pca", "svd")


def eigenbasis(symmetric: Float[Tensor, "d d"]) -> tuple[Float[Tensor, " d"], Float[Tensor, "d d"]]:
    """Eigenvalues, largest first, and eigenvectors as columns, each signed so that its largest entry is positive."""
    values, vectors = torch.linalg.eigh(symmetric)
    values, vectors = values.flip(0), vectors.flip(1)
    peaks = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
    return values, vectors * torch.where(peaks < 0, -1.0, 1.0)


def gaussian_like(moments: Moments, num_rows: int, seed: int = 0) -> Float[Tensor, "n d"]:
    """Independent rows of a Gaussian with the same mean and covariance: what a cloud owes to anything beyond them.

    >>> drawn = Moments.of(gaussian_like(Moments.of(torch.randn(50, 3)), 400))
    >>> drawn.count, drawn.width
    (400, 3)
    """
    values, vectors = eigenbasis(moments.covariance)
    drawn = np.random.default_rng([seed, num_rows, moments.width]).standard_normal(
        (num_rows, moments.width), np.float32
    )
    return torch.from_numpy(drawn).to(vectors) @ (vectors * values.clamp(min=0).sqrt()).T + moments.mean


def principal_directions(moments: Moments, method: Method = "pca") -> tuple[Float[Tensor, " d"], Float[Tensor, "d d"]]:
    """All principal directions of a cloud, leading ones first: centred (`pca`) or about the origin (`svd`)."""
    if method not in METHODS:
        raise InputError(f"unknown proxy {method!r}; wanted one of {', '.join(METHODS)}")
    return eigenbasis(moments.covariance if method == "pca" else moments.second_moment)


def check_rank(k: int, width: int, usable: int | None = None) -> None:
    """Refuses a rank that no proxy can have."""
    if isinstance(k, bool) or not isinstance(k, Integral) or k <= 0:
        raise InputError(f"rank k = {k!r}; wanted a whole number of at least 1")
    if k >= width:
        raise InputError(f"rank k = {k} leaves no normal directions in D = {width} coordinates: take k < {width}")
    if usable == 0:
        raise InputError(f"rank k = {k}, but all rows of the activations are the same: fit on rows that differ")
    if usable is not None and k > usable:
        raise InputError(
            f"rank k = {k}, but the activations have rank {usable} only (constant, repeated or too few rows): "
            f"take k <= {usable}, or fit on more rows"
        )


def numerical_rank(eigenvalues: Float[Tensor, " d"], num_rows: int, centred: bool) -> int:
    """Number of directions that the rows really span: eigenvalues that rounding in float32 cannot have made."""
    if float(eigenvalues[0]) <= 0:
        return 0
    above = int((eigenvalues > eigenvalues[0] * 1e-12).sum())
    return min(above, num_rows - 1 if centred else num_rows)


def orthonormal_basis(q: object, width: int) -> Tensor:
    """`q` as a float64 (D, k) tensor, checked to have orthonormal columns."""
    basis = rows_of(q, "q").double()
    if basis.shape[0] != width:
        raise InputError(f"q has shape {tuple(basis.shape)}, the rows have D = {width}; wanted ({width}, k)")
    gap = float((basis.T @ basis - torch.eye(basis.shape[1], dtype=torch.float64, device=basis.device)).abs().max())
    if gap > 2e-2:
        raise InputError(f"the columns of q are not orthonormal (off by {gap:.2g}): take torch.linalg.qr(q).Q")
    return torch.linalg.qr(basis).Q


def principal_angles(q: object, p: object) -> Float[Tensor, " k"]:
    """Angles in radians between two subspaces, (D, k) and (D, j), smallest first; as many as the smaller one has.

    Cosines lose small angles (arccos has a floor of 1e-8, in float32 of 6e-4), sines those near a right one: each angle
    is taken from the one that tells it better (Knyazev and Argentati 2002).

    >>> principal_angles(np.eye(3)[:, :2], np.eye(3)[:, 1:]).tolist()
    [0.0, 1.5707963267948966]
    """
    width = rows_of(q, "q").shape[0]
    q_dk = orthonormal_basis(q, width)
    p_dj = orthonormal_basis(p, width).to(q_dk.device)
    if q_dk.shape[1] < p_dj.shape[1]:
        q_dk, p_dj = p_dj, q_dk
    overlap = q_dk.T @ p_dj
    cosines = torch.linalg.svdvals(overlap).clamp(max=1)
    sines = torch.linalg.svdvals(p_dj - q_dk @ overlap).flip(0).clamp(max=1)
    return torch.where(cosines.square() > 0.5, sines.arcsin(), cosines.arccos())


def dictionary_basis(atoms: object, codes: object, k: int) -> Tensor:
    """A user's dictionary as a proxy: the span of the k atoms with the largest activation mass, (D, k) orthonormal.

    `atoms` (m, D), m of any size: concepts of any library, decoder rows of a sparse autoencoder. `codes` (N, m) are
    their activations on the fit rows; the mass of an atom is the sum of |code| times its length. Atoms that are zero,
    or lie in the span of heavier ones, are passed over.

    >>> atoms, codes = np.eye(3)[[0, 0, 1, 2]], np.array([[3.0, 2.0, 1.0, 0.0], [0.0, 2.0, 1.0, 0.5]])
    >>> dictionary_basis(atoms, codes, k=2).abs().tolist()
    [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    """
    rows, mass = rows_of(atoms, "atoms").double(), rows_of(codes, "codes").double()
    check_rank(k, rows.shape[1])
    if mass.shape[1] != rows.shape[0]:
        raise InputError(f"codes has shape {tuple(mass.shape)}, atoms are {rows.shape[0]}; wanted one column per atom")
    length = torch.linalg.vector_norm(rows, dim=1)
    basis = rows.new_zeros(rows.shape[1], 0)
    for at in (mass.abs().sum(0) * length).argsort(descending=True, stable=True).tolist():
        if basis.shape[1] == k or length[at] == 0:
            break
        atom = rows[at] / length[at]
        for _ in range(2):  # once more: what is left of a nearly dependent atom is mostly rounding
            atom = atom - basis @ (basis.T @ atom)
        left = torch.linalg.vector_norm(atom)
        if left > 1e-6:
            basis = torch.cat([basis, (atom / left)[:, None]], dim=1)
    if basis.shape[1] < k:
        raise InputError(
            f"rank k = {k}, but the dictionary's atoms span {basis.shape[1]} directions only (zero or duplicate "
            f"atoms): take k <= {basis.shape[1]}"
        )
    return basis.to(atoms.dtype if isinstance(atoms, Tensor) else rows_of(atoms, "atoms").dtype)


@dataclass(frozen=True)
class SecondMoment:
    """Uncentred second moment `S` of gradients (any scale), and what its shape says about a subspace."""

    matrix: Float[Tensor, "d d"]

    @classmethod
    def of(cls, moments: Moments) -> "SecondMoment":
        return cls(moments.second_moment)

    @property
    def width(self) -> int:
        return self.matrix.shape[0]

    @cached_property
    def trace(self) -> float:
        return float(self.matrix.trace())

    @cached_property
    def eigen(self) -> tuple[Float[Tensor, " d"], Float[Tensor, "d d"]]:
        """Eigenvalues, largest first, and the directions that belong to them."""
        values, vectors = eigenbasis(self.matrix)
        return values.clamp(min=0), vectors

    @property
    def deviator(self) -> Float[Tensor, "d d"]:
        """Departure from a sphere, `Z = S - (tr S / D) I`; made anew each time, one matrix less is kept."""
        eye = torch.eye(self.width, dtype=self.matrix.dtype, device=self.matrix.device)
        return self.matrix - eye * (self.trace / self.width)

    @cached_property
    def power(self) -> float:
        """`|Z|^2`."""
        return float(self.deviator.square().sum())

    @cached_property
    def is_even(self) -> bool:
        """Whether the gradients are spread evenly in all directions, up to rounding: no anisotropy to share out."""
        return self.power <= (1e-12 * self.trace) ** 2

    def energy_share(self, q_dk: Float[Tensor, "d k"]) -> float:
        """`tr(Q'SQ) / tr S`."""
        return float(((self.matrix @ q_dk) * q_dk).sum()) / self.trace

    def anisotropy_share(self, q_dk: Float[Tensor, "d k"]) -> float:
        """`|Q'ZQ|^2 / |Z|^2`."""
        return float((q_dk.T @ self.deviator @ q_dk).square().sum()) / self.power


def normal_energy(share: T, rank: int, width: int) -> T:
    """Mean energy share of random rank-k subspaces in the complement of a subspace that holds `share`.

    >>> normal_energy(0.25, rank=2, width=8)
    0.25
    """
    return (1 - share) * rank / (width - rank)


def haar_anisotropy(power: Any, trace: Any, rank: int, width: int) -> Any:
    """Mean of `|Q'AQ|^2` over random rank-k subspaces of all d coordinates, from `|A|^2` and `tr A`:
    `k ((kd + d - 2) |A|^2 + (d - k) (tr A)^2) / (d (d - 1) (d + 2))`, the second moment of a Haar-random block.

    >>> haar_anisotropy(power=4.0, trace=2.0, rank=3, width=3)
    4.0
    """
    d, k = width, rank
    weight = k / (d * (d - 1) * (d + 2)) if d > 1 and k <= d else float("nan")
    return weight * ((k * d + d - 2) * power + (d - k) * trace**2)


class Parts(NamedTuple):
    """All that the anisotropy scores of a subspace Q need of S = Z + level I: numbers, or one entry a draw each."""

    power: Any  # |Z|^2
    cross: Any  # |Q'Z|^2
    inner: Any  # |Q'ZQ|^2
    trace: Any  # tr Q'ZQ
    level: Any  # tr S / D


def anisotropy_inside(parts: Parts) -> Any:
    """`|Q'ZQ|^2 / |Z|^2`."""
    return parts.inner / parts.power


def normal_anisotropy(parts: Parts, rank: int, width: int) -> Any:
    """Mean anisotropy share of random rank-k subspaces in the complement of Q."""
    outside = parts.power - 2 * parts.cross + parts.inner
    return haar_anisotropy(outside, parts.trace, rank, width - rank) / parts.power


def anisotropy_removed(parts: Parts, rank: int, width: int, padded: bool = False) -> Any:
    """IsoScore* of the gradients without what lies in Q, minus that of the whole: by how much they are rounder outside.

    The complement is taken in its own D - k coordinates, or, `padded`, in all D, where the empty ones count against it.
    """
    level, trace = parts.level, parts.trace
    whole = isoscore_star(width * level, parts.power + width * level**2, width)
    rest = width - rank
    square = parts.power - 2 * parts.cross + parts.inner - 2 * level * trace + rest * level**2
    return isoscore_star(rest * level - trace, square, width if padded else rest) - whole


@dataclass(frozen=True)
class Draws:
    """Shares of m random subspaces, one entry a draw; the parts are those of S over the length of its deviator."""

    energy: Float[Tensor, " m"]
    parts: Parts

    @property
    def anisotropy(self) -> Float[Tensor, " m"]:
        return anisotropy_inside(self.parts)


@dataclass(frozen=True)
class ColouredDraws(Draws):
    """The same of subspaces that are not drawn evenly, with the variance that each captures."""

    variance: Float[Tensor, " m"]


def _normals(width: int, rank: int, num_draws: int, seed: int, device: torch.device) -> Float[Tensor, "m d k"]:
    """The same numbers for every layer and proxy, so that they differ by what is measured alone."""
    rng = np.random.default_rng([seed, width, rank, num_draws])
    return torch.from_numpy(rng.standard_normal((num_draws, width, rank), dtype=np.float32)).to(device)


def _side_by_side(matrix: Float[Tensor, "d d"], x: Float[Tensor, "m d k"]) -> Float[Tensor, "m d k"]:
    """`matrix @ x` as one product; as m small ones it takes three times as long."""
    num_draws, width, rank = x.shape
    flat = x.permute(1, 0, 2).reshape(width, num_draws * rank)
    return (matrix @ flat).view(width, num_draws, rank).permute(1, 0, 2)


def even_draws(
    gradients: SecondMoment, rank: int, num_draws: int, seed: int = 0, outside: Float[Tensor, "d q"] | None = None
) -> Draws:
    """Random subspaces of one rank, evenly drawn from the whole space or from the complement of `outside`.

    An even draw is as even in the eigenbasis of S, and there S costs D products a vector and not D^2; nor is any basis
    made orthonormal: with x = Q R all that is asked for follows from x'x and x'Sx, both k x k.
    """
    values, vectors = gradients.eigen
    x = _normals(gradients.width, rank, num_draws, seed, values.device).double()
    if outside is not None:
        q = vectors.T @ outside
        x = x - q @ (q.T @ x)
    half = torch.linalg.cholesky(x.mT @ x)

    def inside(weights: Tensor) -> Tensor:  # R^-T (x' diag x) R^-1
        once = torch.linalg.solve_triangular(half, x.mT @ (x * weights[:, None]), upper=False)
        return torch.linalg.solve_triangular(half, once.mT, upper=False)

    deviating = values / gradients.trace - 1 / gradients.width
    inner, square = inside(deviating), inside(deviating.square())
    return _draws(gradients, rank, inner, square.diagonal(dim1=1, dim2=2).sum(1))


def coloured_draws(
    gradients: SecondMoment,
    covariance: Float[Tensor, "d d"],
    colour: Float[Tensor, "d d"],
    rank: int,
    num_draws: int,
    seed: int = 0,
) -> ColouredDraws:
    """Random subspaces spanned by the columns of `colour @ normal`."""
    width, dtype = gradients.width, torch.float32
    normals = _normals(width, rank, num_draws, seed, colour.device)
    # Householder, not a Gram matrix: a steep spectrum would break Cholesky.
    drawn = torch.linalg.qr(_side_by_side(colour.to(dtype), normals)).Q

    def along(matrix: Tensor) -> Tensor:
        return _side_by_side(matrix.to(dtype), drawn)

    spread = float(covariance.trace())
    held = (drawn * along(covariance / spread)).double().sum((1, 2)) if spread > 0 else torch.zeros(num_draws)
    pulled = along(gradients.matrix / gradients.trace)
    deviating = pulled - drawn / width
    even = _draws(gradients, rank, (drawn.mT @ deviating).double(), deviating.double().square().sum((1, 2)))
    return ColouredDraws(even.energy, even.parts, held)


def _draws(gradients: SecondMoment, rank: int, inner: Float[Tensor, "m k k"], cross: Float[Tensor, " m"]) -> Draws:
    """From Q'ZQ and |ZQ|^2 of each draw, in units of the trace."""
    scale = float("nan") if gradients.is_even else gradients.trace / gradients.power**0.5
    trace = inner.diagonal(dim1=1, dim2=2).sum(1)
    parts = Parts(1.0, cross * scale**2, inner.square().sum((1, 2)) * scale**2, trace * scale, scale / gradients.width)
    return Draws(trace + rank / gradients.width, parts)


def _gradient_rows(g: object, name: str = "g") -> Tensor:
    rows = rows_of(g, name)
    if not bool(rows.any()):
        raise InputError(f"all gradients in {name} are zero: no share can be taken; did the loss depend on these rows?")
    return rows


def energy_share(g: object, q: object) -> float:
    """Share of the squared length of gradients `g` (N, D) that lies in the span of `q` (D, k); chance is k / D.

    >>> round(energy_share(np.array([[3.0, 4.0]]), np.array([[1.0], [0.0]])), 12)
    0.36
    """
    moment = SecondMoment.of(Moments.of(_gradient_rows(g)))
    return moment.energy_share(orthonormal_basis(q, moment.width).to(moment.matrix.device))


def anisotropy_share(g: object, q: object) -> float:
    """Share of the gradients' departure from a sphere that lies in the span of `q` (D, k).

    >>> round(anisotropy_share(np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[1.0], [0.0]])), 12)
    0.5
    """
    moment = SecondMoment.of(Moments.of(_gradient_rows(g)))
    if moment.is_even:
        raise InputError("the gradients are spread exactly evenly: they have no anisotropy to share out")
    return moment.anisotropy_share(orthonormal_basis(q, moment.width).to(moment.matrix.device))
