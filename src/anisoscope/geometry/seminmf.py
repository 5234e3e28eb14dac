"""Semi-NMF: concepts, and codes >= 0, such that every row is nearly a sum of concepts (Ding, Li, Jordan 2010).

Axes: n rows, d coordinates, k concepts, r leading coordinates of the rows (4k at most). Codes are kept as (k, n) while
they are worked on: a concept's codes lie side by side then.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from ..errors import InputError
from .moments import Moments, rows_of
from .subspace import check_rank, eigenbasis, gaussian_like, numerical_rank

STABLE_COSINE = 0.7
_SPARSE_ROUNDS, _FEW_ROUNDS, _ALL_ROUNDS = 20, 16, 12
_FEW_ROWS = 8192
# The price of a code in the first rounds, in units of the root mean square length of the rows: what makes each concept
# a direction that some rows nearly point along. At the bottom of the error alone all codes are positive and any
# change of basis inside the cone is as good: the concepts of two halves of the data then share nothing but the span.
_PRICE = 0.06
_ENOUGH = 0.01  # of the way from the lower to the upper bound (squared): below, cones only grow away from the rows
_MOMENTUM = 0.7
_CHUNK_ROWS = 4096


@dataclass(frozen=True, eq=False)
class Stability:
    """How well concepts fitted on one half of the sequences come back on the other, one entry a concept.

    `cosines`: of the two halves' concepts that belong together; `found`: of the concept itself with the pair's mean.
    """

    cosines: Float[Tensor, " k"]
    found: Float[Tensor, " k"]

    @property
    def stable(self) -> Bool[Tensor, " k"]:
        """Both cosines at least STABLE_COSINE."""
        return torch.minimum(self.cosines, self.found) >= STABLE_COSINE


@dataclass(frozen=True, eq=False, repr=False)
class Concepts:
    """A semi-NMF of rank k: rows ~ codes @ concepts. Concepts have length one, codes are the exact non-negative least
    squares for them.

    `error` is |H - UW| / |H|; no rank k can be below `error_bounds[0]` (truncated SVD of rank k), and a converged fit
    is not above `error_bounds[1]` (of rank k - 1). `errors`: after each round on all rows, never rising. `shifted`: the
    fit began from a shifted SVD, because successive projections ended above the bound: its concepts mean little.

    >>> mixed = torch.rand(200, 3, generator=torch.Generator().manual_seed(0)) @ torch.eye(3, 8)
    >>> found = semi_nmf(mixed, 3)
    >>> bool(torch.allclose(found.encode(mixed), found.codes, atol=1e-5)), found.basis().shape
    (True, torch.Size([8, 3]))
    """

    codes: Float[Tensor, "n k"]
    concepts: Float[Tensor, "k d"]
    error: float
    error_bounds: tuple[float, float]
    errors: tuple[float, ...]
    shifted: bool
    seed: int = 0
    dtype: torch.dtype = field(default=torch.float32)

    @property
    def num_rounds(self) -> int:
        return len(self.errors)

    @property
    def sparsity(self) -> float:
        """Mean over rows of Hoyer's measure of the codes: 1 for one concept a row, 0 for all equal; NaN for k = 1."""
        k = self.codes.shape[1]
        used = self.codes[self.codes.any(1)].double()
        ratio = used.sum(1) / torch.linalg.vector_norm(used, dim=1)
        return float(((k**0.5 - ratio) / (k**0.5 - 1)).mean()) if k > 1 else float("nan")

    def basis(self) -> Float[Tensor, "d k"]:
        """The span of the concepts, orthonormal, in the input's dtype."""
        return torch.linalg.qr(self.concepts.double().T).Q.to(self.dtype)

    def encode(self, h: object) -> Float[Tensor, "n k"]:
        """Codes of rows `h` (N, D) for these concepts."""
        rows = rows_of(h)
        width = self.concepts.shape[1]
        if rows.shape[1] != width:
            raise InputError(
                f"h has shape {tuple(rows.shape)}; these concepts were fitted on rows of width D = {width}"
            )
        return _nnls(*_products(self.concepts, rows)).T.to(rows.dtype).contiguous()

    def stability(self, h: object, sequences: object = None) -> Stability:
        """Fits the same rows `h` again in two halves: the first and the last sequences (without `sequences`, rows).

        Costs two fits of half the rows. Tokens of one sequence resemble each other: halves that share sequences agree
        more than two texts would.
        """
        rows = rows_of(h, least=2)
        late = _second_half(sequences, rows.shape[0]).to(rows.device)
        k = self.concepts.shape[0]
        one, two = (fit_concepts(half, k, self.seed).concepts.double() for half in (rows[~late], rows[late]))
        of_one, of_two, cosines = _matched(one, two)
        means = torch.nn.functional.normalize(one[of_one] + two[of_two], dim=1)
        _, pair, found = _matched(self.concepts.double(), means)
        return Stability(cosines[pair], found)

    def __repr__(self) -> str:
        low, high = self.error_bounds
        start = ", from a shifted SVD" if self.shifted else ""
        return (
            f"Concepts({self.codes.shape[1]} of width {self.concepts.shape[1]} from {self.codes.shape[0]} rows; error "
            f"{self.error:.5f}, bounds {low:.5f} and {high:.5f}; sparsity {self.sparsity:.2f}{start})"
        )


def semi_nmf(h: object, k: int, *, seed: int = 0) -> Concepts:
    """Semi-NMF of activations `h` (N, D): k concepts, and for every row how much of each, never negative.

    The same rows and seed give the same concepts; the seed chooses the rows of the first rounds where there are many.

    >>> import torch
    >>> mixed = torch.rand(200, 3) @ torch.randn(3, 8)
    >>> found = semi_nmf(mixed, 2)
    >>> found.codes.shape, found.concepts.shape, bool((found.codes >= 0).all())
    (torch.Size([200, 2]), torch.Size([2, 8]), True)
    >>> found.error_bounds[0] <= found.error <= found.error_bounds[1]
    True
    """
    rows = rows_of(h, least=2)
    return fit_concepts(rows, k, seed, h.dtype if isinstance(h, Tensor) else rows.dtype)


def random_concepts(moments: Moments, k: int, num_rows: int, seed: int = 0) -> Concepts:
    """The same fit on `num_rows` draws of a Gaussian with the mean and covariance of the activations: what concepts
    owe to anything beyond their second moments.

    The mean stays: codes >= 0 see it (rows far from the origin lie in a narrow cone), and a control without it would
    take away the place of the cloud together with its shape.

    >>> import torch
    >>> random_concepts(Moments.of(torch.randn(500, 6)), 2, num_rows=300).basis().shape
    torch.Size([6, 2])
    """
    return fit_concepts(gaussian_like(moments, num_rows, seed), k, seed, torch.float32)


def fit_concepts(rows: Float[Tensor, "n d"], k: int, seed: int = 0, dtype: torch.dtype | None = None) -> Concepts:
    """`semi_nmf` on finite float32 or float64 rows; the basis comes in `dtype`."""
    num_rows, width = rows.shape
    check_rank(k, width)
    if bool((rows == rows[0]).all()):
        check_rank(k, width, usable=0)
    values, vectors = eigenbasis(_gram(rows))
    check_rank(k, width, numerical_rank(values, num_rows, centred=False))
    energy = float(values.clamp(min=0).sum())
    low, high = (float(values[rank:].clamp(min=0).sum() / energy) ** 0.5 for rank in (k, k - 1))
    # Not in k coordinates: there the span would be the SVD's by construction, and claim A9 compare a thing to itself.
    leading = vectors[:, : min(4 * k, width)]
    y_nr = (rows @ (leading * (num_rows / energy) ** 0.5).to(rows.dtype)).float()

    outside = 1 - float(values[: leading.shape[1]].sum()) / energy
    enough = low**2 + _ENOUGH * (high**2 - low**2) - outside

    def finish(start_kr: Float[Tensor, "k r"], shifted: bool) -> Concepts:
        w_kr, left = _descend(y_nr, start_kr, _ALL_ROUNDS, enough)
        errors = tuple(max(part + outside, 0.0) ** 0.5 for part in left)
        w_kd = _unit(w_kr.double() @ leading.T).to(rows.dtype)
        b_kn, g_kk = _products(w_kd, rows)
        u_kn = _nnls(b_kn, g_kk)
        missed = energy - 2 * float((u_kn * b_kn).sum()) + float((u_kn * (g_kk @ u_kn)).sum())
        error = (max(missed, 0.0) / energy) ** 0.5
        codes = u_kn.T.to(rows.dtype).contiguous()
        return Concepts(codes, w_kd, error, (low, high), errors, shifted, seed, dtype or rows.dtype)

    found = finish(_start(y_nr, k, seed, enough), shifted=False)
    tilt = 0.25
    while found.error > high and tilt > 1e-6:
        again = finish(_tilted_cone(y_nr, k, tilt), shifted=True)
        found, tilt = min(found, again, key=lambda fit: fit.error), tilt / 8
    return found


def _gram(rows: Float[Tensor, "n d"]) -> Float[Tensor, "d d"]:
    """H'H in float64: in float32 all below 1e-7 of the largest eigenvalue is rounding, and one massive token hides the
    rest of the spectrum. It costs twice the time of float32; the lower triangle is not computed, a third of the work.
    """
    width = rows.shape[1]
    total = torch.zeros(width, width, dtype=torch.float64, device=rows.device)
    for chunk in rows.split(_CHUNK_ROWS):
        x = chunk.double()
        for left in range(0, width, 256):
            total[left : left + 256, left:].addmm_(x[:, left : left + 256].T, x[:, left:])
    return total.triu() + total.triu(1).T


def _unit(rows: Tensor) -> Tensor:
    return torch.nn.functional.normalize(rows, dim=1, eps=torch.finfo(rows.dtype).tiny)


# The start: directions that some rows nearly point along


def _start(y_nr: Float[Tensor, "n r"], k: int, seed: int, enough: float) -> Float[Tensor, "k r"]:
    """Concepts of a sample of the rows: extreme rows, then means of the rows nearest to each, then sparse rounds."""
    if y_nr.shape[0] > _FEW_ROWS:  # drawn, not every fourth: sequences have a period
        drawn = np.random.default_rng([seed, y_nr.shape[0]]).permutation(y_nr.shape[0])[:_FEW_ROWS]
        y_nr = y_nr[torch.from_numpy(np.sort(drawn)).to(y_nr.device)]
    # Rows far shorter than most stay short: at length one their noise would be the most extreme direction of all.
    lengths = torch.linalg.vector_norm(y_nr, dim=1, keepdim=True)
    unit = y_nr / lengths.clamp(min=max(0.3 * float(lengths.median()), torch.finfo(y_nr.dtype).tiny))
    w_kr = _unit(unit[_extreme_rows(unit, k)])
    for _ in range(3):
        nearest = torch.nn.functional.one_hot((unit @ w_kr.T).argmax(1), k).to(unit.dtype)
        w_kr = _unit_or(nearest.T @ unit, w_kr)  # a product, not index_add: that is not deterministic on CUDA
    w_kr = _sparse_rounds(y_nr, w_kr)
    return _descend(y_nr, w_kr, _FEW_ROUNDS, enough)[0]


def _extreme_rows(unit_nr: Float[Tensor, "n r"], k: int) -> list[int]:
    """Successive projections (Araujo 2001; Gillis and Vavasis 2014): each time the row that the rows chosen so far
    explain worst.
    """
    chosen: list[int] = []
    q_jr = unit_nr[:0]
    left = unit_nr.square().sum(1)
    # All have length one, so that rounding would choose the first: it is the one farthest from the mean direction.
    first = left - (unit_nr @ _unit(unit_nr.mean(0, keepdim=True))[0]).square()
    for _ in range(k):
        chosen.append(int((left if chosen else first).argmax()))
        q = unit_nr[chosen[-1]]
        for _ in range(2):  # twice is enough (Kahan): once leaves rounding along the earlier ones
            q = q - q_jr.T @ (q_jr @ q)
        q = _unit(q[None])
        q_jr = torch.cat([q_jr, q])
        left = left - (unit_nr @ q[0]).square()
    return chosen


def _unit_or(rows: Float[Tensor, "k r"], instead: Float[Tensor, "k r"]) -> Float[Tensor, "k r"]:
    """Rows at length one; where one is zero, that of `instead`."""
    return torch.where(rows.any(1, keepdim=True), _unit(rows), instead)


def _sparse_rounds(y_nr: Float[Tensor, "n r"], w_kr: Float[Tensor, "k r"]) -> Float[Tensor, "k r"]:
    """Rounds on `|Y - UW|^2 + 2 price sum U` with concepts of length one: one sweep over codes, one over concepts."""
    u_kn = (w_kr @ y_nr.T).clamp(min=0)
    for _ in range(_SPARSE_ROUNDS):
        _sweep(u_kn, w_kr @ y_nr.T - _PRICE, w_kr @ w_kr.T)
        a_kk, c_kr = u_kn @ u_kn.T, u_kn @ y_nr
        w_kr = w_kr.clone()
        for j in range(len(w_kr)):
            pull = c_kr[j] - a_kk[j] @ w_kr + a_kk[j, j] * w_kr[j]
            w_kr[j] = _unit_or(pull[None], w_kr[j : j + 1])[0]
    return w_kr


def _tilted_cone(y_nr: Float[Tensor, "n r"], k: int, tilt: float) -> Float[Tensor, "k r"]:
    """The shifted SVD: k - 1 leading directions, and one against them all. Sums of these with codes >= 0 reach all of
    the k - 1 directions' span; the last one is tilted towards direction k, where half of the rows gain by it: as the
    tilt goes to zero the error ends strictly below that of the SVD of rank k - 1.
    """
    sizes = y_nr[:, :k].square().mean(0).sqrt()
    w_kr = torch.eye(k, y_nr.shape[1], dtype=y_nr.dtype, device=y_nr.device)
    along = y_nr[:, k - 1]
    side = 1.0 if float((along * along.abs()).sum()) >= 0 else -1.0
    w_kr[k - 1, :k] = torch.cat([-sizes[: k - 1], side * tilt * sizes[k - 1 :]])
    return _unit(w_kr)


# The descent


def _descend(
    y_nr: Float[Tensor, "n r"], w_kr: Float[Tensor, "k r"], num_rounds: int, enough: float
) -> tuple[Float[Tensor, "k r"], list[float]]:
    """Rounds of one sweep over the codes and least squares for the concepts, each begun a little ahead (Ang and Gillis
    2019) and begun again from where we stand if that did not descend. Ends early at `enough`. Returns
    the concepts and, after each round, the mean over rows of `|y - uW|^2`.
    """
    y_rn = y_nr.T.contiguous()
    whole = float(y_nr.double().square().sum())

    def one_round(u_kn: Tensor, w_kr: Tensor) -> tuple[Tensor, Tensor, float]:
        _sweep(u_kn, w_kr @ y_rn, w_kr @ w_kr.T)
        a_kk, c_kr = (u_kn @ u_kn.T).double(), (u_kn @ y_nr).double()
        w_new = torch.linalg.pinv(a_kk, hermitian=True, rtol=1e-12) @ c_kr
        left = (whole - float((c_kr * w_new).sum())) / len(y_nr)
        lengths = torch.linalg.vector_norm(w_new, dim=1, keepdim=True)
        w_new, u_kn = _unit(w_new).to(y_nr.dtype), u_kn * lengths.to(y_nr.dtype)
        unused = ~u_kn.any(1)
        if unused.any():  # they begin anew at the rows explained worst
            missed = y_nr - u_kn.T @ w_new
            w_new[unused] = _unit(missed[missed.square().sum(1).topk(int(unused.sum())).indices])
        return u_kn, w_new, left

    u_kn = _unconstrained(w_kr @ y_rn, w_kr @ w_kr.T)
    u_kn, w_kr, left = one_round(u_kn, w_kr)
    u_before, w_before, momentum, descent = u_kn, w_kr, _MOMENTUM, [left]
    for _ in range(num_rounds - 1):
        if descent[-1] <= enough:
            break
        ahead = (u_kn + momentum * (u_kn - u_before)).clamp_(min=0), _unit(w_kr + momentum * (w_kr - w_before))
        u_new, w_new, left = one_round(*ahead)
        if left > descent[-1]:
            momentum /= 2
            u_new, w_new, left = one_round(u_kn.clone(), w_kr)
            if left > descent[-1]:  # nothing left but rounding
                break
        u_before, w_before, u_kn, w_kr = u_kn, w_kr, u_new, w_new
        descent.append(left)
    return w_kr, descent


# The codes


def _sweep(u_kn: Float[Tensor, "k n"], b_kn: Float[Tensor, "k n"], g_kk: Float[Tensor, "k k"]) -> None:
    """One pass of coordinate-wise non-negative least squares over all concepts (of length one), in place.

    Four concepts at a time: their gradients are one product that reads the codes once, not four times.
    """
    for first in range(0, len(u_kn), 4):
        four = slice(first, min(first + 4, len(u_kn)))
        slope = torch.addmm(b_kn[four], g_kk[four], u_kn, alpha=-1)
        for j, codes in enumerate(u_kn[four]):
            before = codes.clone()
            codes.add_(slope[j]).clamp_(min=0)
            slope[j + 1 :].addr_(g_kk[four, first + j][j + 1 :], codes - before, alpha=-1)


def _unconstrained(b_kn: Float[Tensor, "k n"], g_kk: Float[Tensor, "k k"]) -> Float[Tensor, "k n"]:
    """Least squares codes, negative ones at zero: few are, so that sweeps have little left to do."""
    inverse = torch.linalg.pinv(g_kk.double(), hermitian=True, rtol=1e-10).to(b_kn.dtype)
    return (inverse @ b_kn).clamp_(min=0)


def _products(w_kd: Float[Tensor, "k d"], rows: Float[Tensor, "n d"]) -> tuple[Tensor, Tensor]:
    """Concepts by rows and concepts by concepts, in float64."""
    w_kd = w_kd.double()
    return torch.cat([w_kd @ chunk.double().T for chunk in rows.split(_CHUNK_ROWS)], 1), w_kd @ w_kd.T


def _nnls(b_kn: Float[Tensor, "k n"], g_kk: Float[Tensor, "k k"]) -> Float[Tensor, "k n"]:
    """Non-negative least squares, exact, each row for itself: from least squares, all codes that came out negative at
    zero, by pivots. Sweeps would need thousands where concepts are nearly parallel.
    """
    k = len(g_kk)
    g_kk = g_kk + 1e-12 * torch.eye(k, dtype=g_kk.dtype, device=g_kk.device)  # two of the same direction share a code
    inverse = torch.linalg.inv(g_kk)
    u_nk = b_kn.T @ inverse
    found = u_nk.clamp(min=0)
    num_free = (u_nk > 0).sum(1)
    todo = (num_free < k).nonzero()[:, 0]
    todo = todo[num_free[todo].argsort(stable=True)]  # rows of one chunk share the size of their systems
    for first in range(0, len(todo), 512):
        some = todo[first : first + 512]
        found[some] = _pivot(b_kn.T[some], u_nk[some], g_kk, inverse)
    return found.T


def _pivot(
    b_nk: Float[Tensor, "n k"], u_nk: Float[Tensor, "n k"], g_kk: Float[Tensor, "k k"], inverse: Float[Tensor, "k k"]
) -> Float[Tensor, "n k"]:
    """Block principal pivoting (Portugal, Judice and Vicente 1994) from the least squares codes `u_nk`: solve with some
    codes free and the others zero, fix those that came out negative and free those whose slope says so; where that
    stops helping, one at a time (Murty's rule, which ends).
    """
    k = len(g_kk)
    found, todo = u_nk.clamp(min=0), torch.arange(len(u_nk), device=u_nk.device)
    fewest, patience = torch.full_like(todo, k + 1), torch.full_like(todo, 3)
    free_nk, least_nk = u_nk > 0, u_nk
    for _ in range(5 * k + 20):
        size = int(free_nk.sum(1).amax())
        if 2 * size <= k:
            u_nk = _solve_on(free_nk, g_kk, b_nk)
            slope_nk = u_nk @ g_kk - b_nk
        else:  # few are zero: solve for their slopes, those that bring them there
            slope_nk = _solve_on(~free_nk, inverse, -least_nk)
            u_nk = torch.where(free_nk, least_nk + slope_nk @ inverse, 0.0)
        found[todo] = u_nk.clamp(min=0)
        floor = -1e-10 * torch.where(free_nk, u_nk.abs().amax(1, keepdim=True), b_nk.abs().amax(1, keepdim=True))
        wrong = torch.where(free_nk, u_nk, slope_nk) < floor
        count = wrong.sum(1)
        on = count > 0
        if not on.any():
            break
        patience = torch.where(count < fewest, 3, patience - 1)
        fewest = torch.minimum(fewest, count)
        last = wrong & (wrong.flip(1).cumsum(1).flip(1) == 1)
        free_nk = free_nk ^ torch.where((patience >= 0)[:, None], wrong, last)
        state = (todo, free_nk, b_nk, least_nk, fewest, patience)
        todo, free_nk, b_nk, least_nk, fewest, patience = (part[on] for part in state)
    return found


def _solve_on(
    some_nk: Bool[Tensor, "n k"], matrix: Float[Tensor, "k k"], right_nk: Float[Tensor, "n k"]
) -> Float[Tensor, "n k"]:
    """For each row the solution of the system of some of the unknowns; the others are zero."""
    places = some_nk.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, : int(some_nk.sum(1).amax())]
    mask = some_nk.gather(1, places).to(matrix)
    systems = matrix[places[:, :, None], places[:, None]] * mask[:, :, None] * mask[:, None]
    systems += torch.diag_embed(1 - mask)
    values = torch.linalg.solve(systems, right_nk.gather(1, places) * mask)
    return torch.zeros_like(right_nk).scatter(1, places, values)


# Stability


def _second_half(sequences: object, num_rows: int) -> Bool[Tensor, " n"]:
    """Which rows belong to the later half of the sequences, in order of appearance."""
    if sequences is None:
        return torch.arange(num_rows) >= num_rows // 2
    names = np.asarray(sequences)
    if names.shape != (num_rows,):
        raise InputError(f"sequences has shape {names.shape}, h has {num_rows} rows; wanted one entry a row")
    _, firsts, place = np.unique(names, return_index=True, return_inverse=True)
    if len(firsts) < 2:
        raise InputError("sequences names one sequence only; two halves need at least two: leave sequences out")
    return torch.from_numpy(firsts.argsort().argsort()[place] >= len(firsts) // 2)


def _matched(one: Float[Tensor, "k d"], two: Float[Tensor, "k d"]) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs of rows (of length one) with the largest sum of cosines, in the order of `one`: places in both, cosines."""
    cosines = one @ two.T
    rows, columns = (torch.from_numpy(part) for part in linear_sum_assignment(-cosines.cpu().numpy()))
    return rows.to(one.device), columns.to(one.device), cosines[rows, columns]
