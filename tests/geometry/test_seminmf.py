"""Semi-NMF: its bounds, its descent and its codes, against plain updates and active sets, on planted concepts."""

from dataclasses import replace
from itertools import pairwise

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from anisoscope.errors import InputError
from anisoscope.geometry import seminmf
from anisoscope.geometry.moments import Moments
from anisoscope.geometry.seminmf import fit_concepts, random_concepts, semi_nmf
from reference import seminmf as reference

# What comes out of the float32 rounds is known to this, relative to |H|.
ROUNDING = 2e-6


def gaussian(seed: int, n: int = 300, width: int = 12, decay: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, width)) * np.logspace(0, -decay, width)


def planted(seed: int, n: int = 1200, width: int = 20, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Rows as non-negative sparse sums of k directions, and a little noise; the directions."""
    rng = np.random.default_rng(seed)
    concepts = rng.normal(size=(k, width))
    concepts /= np.linalg.norm(concepts, axis=1, keepdims=True)
    codes = rng.exponential(size=(n, k)) * (rng.random((n, k)) < 0.35)
    return codes @ concepts + 0.01 * rng.normal(size=(n, width)), concepts


def cosines(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Of matched rows of length one."""
    found = np.asarray(one, np.float64) @ np.asarray(two, np.float64).T
    return found[linear_sum_assignment(-found)]


# The bounds and the descent


@hypothesis.given(
    seed=st.integers(0, 10_000),
    n=st.integers(8, 60),
    width=st.integers(2, 9),
    mean=st.sampled_from([0.0, 1.0, 100.0]),
    data=st.data(),
)
def test_the_error_is_the_residual_and_stays_inside_its_bounds(
    seed: int, n: int, width: int, mean: float, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(1, width))
    k = data.draw(st.integers(1, min(rank, width - 1)))
    rng = np.random.default_rng(seed)
    h = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, width)) + mean * rng.normal(size=rank) @ np.ones(
        (rank, width)
    )
    h = h if rank == width else h @ np.linalg.qr(h[:rank].T)[0] @ np.linalg.qr(h[:rank].T)[0].T
    found = semi_nmf(h, k)
    u, w = found.codes.numpy(), found.concepts.numpy()
    assert u.min() >= 0
    np.testing.assert_allclose(np.linalg.norm(w, axis=1), 1, atol=1e-9)
    assert found.error == pytest.approx(reference.error(h, u, w), abs=ROUNDING)
    assert found.error_bounds == pytest.approx(reference.bounds(h, k), abs=ROUNDING)
    assert found.error_bounds[0] - ROUNDING <= found.error <= found.error_bounds[1] + ROUNDING


def test_what_gaussian_rows_drive_above_the_bound_begins_again_from_a_shifted_svd() -> None:
    fits = [(semi_nmf(gaussian(seed, 500, 10), 9), reference.bounds(gaussian(seed, 500, 10), 9)) for seed in range(12)]
    assert any(fit.shifted for fit, _ in fits)
    assert not all(fit.shifted for fit, _ in fits)
    assert all(low <= fit.error < high for fit, (low, high) in fits)
    assert all(("shifted SVD" in repr(fit)) == fit.shifted for fit, _ in fits)


def test_the_shifted_svd_alone_ends_below_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that no descent mends: all concepts the same."""
    monkeypatch.setattr(seminmf, "_start", lambda y, k, *_: torch.ones(k, y.shape[1]) / y.shape[1] ** 0.5)
    monkeypatch.setattr(seminmf, "_ALL_ROUNDS", 1)
    for k in (2, 4, 9):
        h = gaussian(1, 400, 10)
        found = semi_nmf(h, k)
        low, high = reference.bounds(h, k)
        assert found.shifted
        assert low <= found.error < high


@pytest.mark.parametrize("h", [gaussian(2, 600), planted(2)[0], planted(3)[0] + 3.0])
def test_the_descent_never_rises_and_more_rounds_continue_it(h: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = []
    for num_rounds in (1, 2, 5, 10):
        monkeypatch.setattr(seminmf, "_ALL_ROUNDS", num_rounds)
        found = semi_nmf(h, 4)
        assert found.num_rounds <= num_rounds
        assert all(late <= early for early, late in pairwise(found.errors))
        assert found.error <= found.errors[-1] + ROUNDING, "the exact codes end the descent, below its last round"
        ends.append(found.errors)
    for short, long in pairwise(ends):
        assert long[: len(short)] == short


def test_the_descent_ends_where_only_the_cone_would_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    h, concepts = planted(1)
    early = semi_nmf(h, 5)
    monkeypatch.setattr(seminmf, "_ENOUGH", -1.0)
    late = semi_nmf(h, 5)
    assert early.num_rounds < late.num_rounds
    assert late.error < early.error < reference.bounds(h, 5)[1] / 5
    assert cosines(early.concepts.numpy(), concepts).mean() > cosines(late.concepts.numpy(), concepts).mean()


def test_an_unused_concept_begins_anew_where_rows_are_explained_worst() -> None:
    y = torch.rand(300, 6)
    start = torch.eye(6)[:4] * torch.tensor([[1.0], [1.0], [1.0], [-1.0]])  # no row is on the fourth's side
    w, left = seminmf._descend(y, start, 8, enough=0.0)
    np.testing.assert_allclose(w.norm(dim=1), 1, atol=1e-5)
    assert left[-1] < 0.7 * left[0]


def test_the_cone_is_tilted_to_the_heavier_side() -> None:
    y = torch.randn(500, 6)
    for side in (1.0, -1.0):
        y[:, 2] = side * torch.rand(500).pow(4)
        assert seminmf._tilted_cone(y, 3, 0.25)[2, 2] * side > 0


def test_the_error_is_below_that_of_plain_updates() -> None:
    for h in (planted(4)[0], planted(5, k=8)[0] + 1.0):
        assert semi_nmf(h, 5).error < reference.error(h, *reference.multiplicative(h, 5, 100))


# The concepts


@pytest.mark.parametrize("seed", range(4))
def test_planted_concepts_are_found(seed: int) -> None:
    h, concepts = planted(seed)
    found = semi_nmf(h, 5)
    assert cosines(found.concepts.numpy(), concepts).min() > 0.99
    assert found.sparsity == pytest.approx(reference.hoyer(found.codes.numpy()), abs=1e-9)
    assert found.sparsity > 0.4


def test_the_basis_is_the_span_of_the_concepts() -> None:
    found = semi_nmf(planted(6)[0], 4)
    q, w = found.basis().numpy(), found.concepts.numpy()
    np.testing.assert_allclose(q.T @ q, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(w @ q @ q.T, w, atol=1e-9)


def test_many_rows_begin_on_a_sample_and_end_on_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seminmf, "_FEW_ROWS", 300)
    h, concepts = planted(7, n=3000)
    one, again, other = semi_nmf(h, 5), semi_nmf(h, 5), semi_nmf(h, 5, seed=1)
    assert torch.equal(one.codes, again.codes)
    assert torch.equal(one.concepts, again.concepts)
    assert not torch.equal(one.codes, other.codes)
    assert cosines(one.concepts.numpy(), concepts).min() > 0.99


@hypothesis.given(seed=st.integers(0, 1000), scale=st.sampled_from([2.0**-40, 3e-5, 7.0, 2.0**40]))
def test_scale_is_no_matter(seed: int, scale: float) -> None:
    h = planted(seed, 200, 8, 3)[0]
    one, other = semi_nmf(h, 3), semi_nmf(scale * h, 3)
    assert other.error == pytest.approx(one.error, abs=1e-4)  # rounding may turn a choice of the descent
    assert cosines(one.concepts.numpy(), other.concepts.numpy()).min() > 0.999
    np.testing.assert_allclose(other.codes.sum(0).sort().values, scale * one.codes.sum(0).sort().values, rtol=1e-2)


# The codes


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shift", [0.0, 2.0])
def test_codes_are_non_negative_least_squares_for_the_concepts(dtype: type, shift: float) -> None:
    h = (planted(8, 400)[0] + shift).astype(dtype)
    found = semi_nmf(h, 6)
    wanted = reference.codes(h.astype(np.float64), found.concepts.double().numpy())
    np.testing.assert_allclose(found.codes, wanted, atol=1e-5 * wanted.max())
    np.testing.assert_allclose(found.encode(h), found.codes, atol=1e-5 * wanted.max())
    few = found.encode(h[7:40])
    assert few.dtype == torch.from_numpy(h).dtype
    np.testing.assert_allclose(few, found.codes[7:40], atol=1e-5 * wanted.max())


def test_rows_of_zeros_have_no_codes() -> None:
    h = planted(9)[0]
    h[[0, 50, 51]] = 0
    found = semi_nmf(h, 4)
    assert not found.codes[[0, 50, 51]].any()
    assert np.isfinite(found.sparsity)
    assert not found.encode(np.zeros((2, 20))).any()


def test_nearly_parallel_concepts_still_have_converged_codes() -> None:
    rng = np.random.default_rng(10)
    w = np.ones(12) + 0.05 * rng.normal(size=(6, 12))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    h = rng.exponential(size=(100, 6)) @ w + 0.1 * rng.normal(size=(100, 12))
    b, g = torch.from_numpy(w @ h.T), torch.from_numpy(w @ w.T)
    wanted = reference.codes(h, w)
    np.testing.assert_allclose(seminmf._nnls(b, g).T, wanted, atol=1e-5 * wanted.max())


# Stability


def test_stability_tells_a_planted_concept_from_one_that_half_of_the_sequences_lack() -> None:
    rng = np.random.default_rng(12)
    turn = np.linalg.qr(rng.normal(size=(20, 7)))[0].T
    codes = rng.exponential(size=(1600, 6)) * (rng.random((1600, 6)) < 0.35)
    # The sixth concept points one way in the first sequences and another way in the last ones.
    late = np.arange(1600) >= 800
    h = codes[:, :5] @ turn[:5] + codes[:, 5:] * np.where(late[:, None], turn[5], turn[6])
    h += 0.01 * rng.normal(size=h.shape)
    found = semi_nmf(h, 6)
    seen = found.stability(h, np.repeat(np.arange(16), 100))
    steady = (found.concepts.numpy() @ turn[:5].T).max(1) > 0.9
    assert steady.sum() == 5
    assert seen.stable.tolist() == steady.tolist()
    assert seen.cosines.numpy()[~steady] < 0.3
    assert seen.cosines.shape == seen.found.shape == (6,)
    order = [3, 0, 5, 1, 4, 2]
    turned = replace(found, concepts=found.concepts[order]).stability(h, np.repeat(np.arange(16), 100))
    torch.testing.assert_close(turned.cosines, seen.cosines[order])
    torch.testing.assert_close(turned.found, seen.found[order])


def test_a_stable_concept_comes_back_on_both_halves_and_is_what_came_back() -> None:
    seen = seminmf.Stability(torch.tensor([0.9, 0.9, 0.6, 0.7]), torch.tensor([0.9, 0.6, 0.9, 0.7]))
    assert seen.stable.tolist() == [True, False, False, True]


def test_halves_are_of_sequences_in_order_of_appearance() -> None:
    names = np.array(["b", "a", "b", "c", "a", "d", "c"])
    assert seminmf._second_half(names, 7).tolist() == [False, False, False, True, False, True, True]
    assert seminmf._second_half(None, 5).tolist() == [False, False, True, True, True]
    h = planted(13)[0]
    found = semi_nmf(h, 5)
    one, two = (semi_nmf(half, 5).concepts.numpy() for half in (h[:600], h[600:]))
    np.testing.assert_allclose(np.sort(found.stability(h).cosines), np.sort(cosines(one, two)), atol=1e-9)
    assert found.stability(h).stable.all()


# The control


def test_random_concepts_keep_mean_and_covariance_and_nothing_else() -> None:
    h = planted(14, n=4000)[0]
    moments = Moments.of(torch.from_numpy(h))
    one, again, other = (random_concepts(moments, 5, 4000, seed) for seed in (0, 0, 1))
    assert torch.equal(one.concepts, again.concepts)
    assert not torch.equal(one.concepts, other.concepts)
    drawn = (one.codes @ one.concepts).numpy()
    # Five standard errors over 4000 rows, and what five concepts leave out.
    np.testing.assert_allclose(drawn.mean(0), h.mean(0), atol=5 * h.std() / 4000**0.5 + 0.02)
    np.testing.assert_allclose(np.cov(drawn.T), np.cov(h.T), atol=5 * 2**0.5 * h.var() / 4000**0.5 + 0.02)
    # The span is that of the leading directions, of either; the concepts inside it are not the planted ones.
    q, p = one.basis().double().numpy(), semi_nmf(h, 5).basis().numpy()
    assert np.linalg.svd(q.T @ p)[1].min() > 0.9
    assert cosines(one.concepts.numpy(), semi_nmf(h, 5).concepts.numpy()).min() < 0.9


# What comes in


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_half_precision_gives_a_basis_in_its_own_type(dtype: torch.dtype) -> None:
    h, concepts = planted(15)
    found = semi_nmf(torch.from_numpy(h).to(dtype), 5)
    assert found.basis().dtype == dtype
    assert found.codes.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert cosines(found.concepts.numpy(), concepts).min() > 0.99  # rounding to bfloat16 is noise of 2^-9 a number


@pytest.mark.parametrize(
    ("h", "k", "message"),
    [
        (gaussian(0), 0, "rank k = 0; wanted a whole number of at least 1"),
        (gaussian(0), 2.0, "rank k = 2.0; wanted a whole number of at least 1"),
        (gaussian(0), 12, "rank k = 12 leaves no normal directions in D = 12 coordinates: take k < 12"),
        (
            gaussian(0)[:, :3] @ gaussian(1)[:3],
            4,
            "rank k = 4, but the activations have rank 3 only (constant, repeated or too few rows): "
            "take k <= 3, or fit on more rows",
        ),
        (
            gaussian(0)[:3],
            4,
            "rank k = 4, but the activations have rank 3 only (constant, repeated or too few rows): "
            "take k <= 3, or fit on more rows",
        ),
        (np.ones((9, 4)), 1, "rank k = 1, but all rows of the activations are the same: fit on rows that differ"),
        (np.zeros((9, 4)), 2, "rank k = 2, but all rows of the activations are the same: fit on rows that differ"),
        (gaussian(0)[:1], 1, "h has shape (1, 12); wanted at least 2 rows and one column: give more of them"),
    ],
)
@pytest.mark.usefixtures("shape_checks_off")
def test_what_cannot_be_fitted_is_said(h: np.ndarray, k: int, message: str) -> None:
    with pytest.raises(InputError) as caught:
        semi_nmf(h, k)
    assert str(caught.value) == message


def test_other_wrong_input_is_named() -> None:
    h = planted(16, 60)[0]
    found = semi_nmf(h, 2)
    with pytest.raises(InputError, match=r"h has shape \(60, 7\); these concepts were fitted on rows of width D = 20"):
        found.encode(h[:, :7])
    with pytest.raises(InputError, match=r"sequences has shape \(3,\), h has 60 rows; wanted one entry a row"):
        found.stability(h, [1, 2, 3])
    with pytest.raises(InputError, match="sequences names one sequence only; two halves need at least two"):
        found.stability(h, np.zeros(60))
    h[3, 2] = np.nan
    with pytest.raises(InputError, match="h holds NaN in row 3"):
        semi_nmf(h, 2)


@pytest.mark.gpu
def test_cuda_gives_what_the_cpu_gives() -> None:
    h = torch.from_numpy(planted(17, n=6000)[0]).float()
    one, other = fit_concepts(h, 5), fit_concepts(h.cuda(), 5)
    assert other.concepts.is_cuda
    # Float32 products in another order, over forty rounds; where rows nearly tie, concepts may come in another order.
    assert other.error == pytest.approx(one.error, abs=1e-4)
    assert cosines(one.concepts.numpy(), other.concepts.cpu().numpy()).min() > 0.999
    again = replace(one, concepts=one.concepts.cuda())
    torch.testing.assert_close(again.encode(h.cuda()).cpu(), one.codes, atol=1e-5 * float(one.codes.max()), rtol=0)
    torch.testing.assert_close(other.encode(h.cuda()), other.codes, atol=1e-5 * float(one.codes.max()), rtol=0)
    assert other.stability(h.cuda()).stable.all()
