"""Subspaces: how they are fitted, what they hold, and what random ones hold, against sums over rows and QR draws."""

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from scipy import stats

from anisoscope.errors import InputError
from anisoscope.geometry.moments import Moments
from anisoscope.geometry.proxies import tangent_basis
from anisoscope.geometry.subspace import (
    ColouredDraws,
    Parts,
    SecondMoment,
    anisotropy_removed,
    anisotropy_share,
    coloured_draws,
    eigenbasis,
    energy_share,
    even_draws,
    normal_anisotropy,
    normal_energy,
    orthonormal_basis,
    principal_directions,
)
from reference import shares


def rows(seed: int, n: int = 200, width: int = 10) -> np.ndarray:
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(width, width)))[0]
    return rng.normal(size=(n, width)) * np.geomspace(4, 0.3, width) @ turn + rng.normal(size=width)


def basis(seed: int, width: int = 10, k: int = 3) -> np.ndarray:
    return shares.haar(np.random.default_rng(seed), width, k)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Sine of the largest angle between two subspaces."""
    return float(np.linalg.norm(a @ a.T - b @ b.T, 2))


def moment(g: np.ndarray) -> SecondMoment:
    return SecondMoment.of(Moments.of(torch.from_numpy(g)))


# The fit


@pytest.mark.parametrize(("method", "centred"), [("pca", True), ("svd", False)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-9), (np.float32, 1e-5)])
def test_a_basis_spans_the_leading_singular_vectors(method: str, centred: bool, dtype: type, tolerance: float) -> None:
    h = rows(0).astype(dtype)
    for k in (1, 3, 9):
        q = tangent_basis(h, k, method)
        assert q.dtype == torch.from_numpy(h).dtype
        assert distance(q.double().numpy(), shares.principal(h, centred)[:, :k]) < tolerance
        np.testing.assert_allclose(q.T @ q, np.eye(k), atol=tolerance)


def test_leading_directions_come_first_and_keep_their_sign() -> None:
    h = rows(1)
    whole = principal_directions(Moments.of(torch.from_numpy(h)))[1].numpy()
    wanted = shares.principal(h, centred=True)
    np.testing.assert_allclose(np.abs(np.sum(whole * wanted, axis=0)), 1, atol=1e-9)
    assert (whole[np.abs(whole).argmax(0), range(10)] > 0).all(), "the largest entry is positive"


def test_a_planted_plane_is_found() -> None:
    rng = np.random.default_rng(2)
    plane = basis(3, 12, 2)
    h = rng.normal(size=(500, 2)) * 5 @ plane.T + 0.01 * rng.normal(size=(500, 12)) + 100
    assert distance(tangent_basis(h, 2).numpy(), plane) < 0.01
    mean = np.ones((12, 1)) / 12**0.5
    assert distance(tangent_basis(h, 1, "svd").numpy(), mean) < 0.05, "uncentred, the mean is the leading direction"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gives_a_basis_in_its_own_type(dtype: torch.dtype) -> None:
    h = torch.from_numpy(rows(4)).to(dtype)
    q = tangent_basis(h, 3)
    assert q.dtype == dtype
    # Entries of an orthonormal bfloat16 basis are good to 2^-9 each.
    assert distance(q.double().numpy(), shares.principal(h.double().numpy(), True)[:, :3]) < 2e-2
    assert energy_share(h, q) == pytest.approx(
        shares.energy_share(h.double().numpy(), np.linalg.qr(q.double().numpy())[0]), abs=1e-6
    )


def test_a_large_mean_does_not_turn_the_basis() -> None:
    h = (rows(5, n=2000) + 1e4 * np.random.default_rng(6).normal(size=10)).astype(np.float32)
    assert distance(tangent_basis(h, 3).double().numpy(), shares.principal(h, True)[:, :3]) < 1e-4


@pytest.mark.parametrize(
    ("k", "message"),
    [
        (0, "rank k = 0; wanted a whole number of at least 1"),
        (-2, "rank k = -2; wanted a whole number of at least 1"),
        (2.0, "rank k = 2.0; wanted a whole number of at least 1"),
        (True, "rank k = True; wanted a whole number of at least 1"),
        (10, "rank k = 10 leaves no normal directions in D = 10 coordinates: take k < 10"),
        (11, "rank k = 11 leaves no normal directions in D = 10 coordinates: take k < 10"),
    ],
)
@pytest.mark.usefixtures("shape_checks_off")
def test_ranks_that_no_basis_can_have(k: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        tangent_basis(rows(7), k)
    assert str(caught.value) == message


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_more_directions_than_the_rows_span_are_refused(dtype: type) -> None:
    rng = np.random.default_rng(8)
    flat = (rng.normal(size=(300, 3)) @ rng.normal(size=(3, 20)) + rng.normal(size=20)).astype(dtype)
    assert tangent_basis(flat, 3).shape == (20, 3)
    with pytest.raises(InputError, match="rank k = 5, but the activations have rank 3 only"):
        tangent_basis(flat, 5)
    with pytest.raises(InputError, match="rank k = 2, but all rows of the activations are the same"):
        tangent_basis(np.full((50, 6), 3.1, dtype), 2)
    few = rng.normal(size=(4, 20)).astype(dtype)
    assert tangent_basis(few, 4, "svd").shape == (20, 4)
    with pytest.raises(InputError, match="rank k = 4, but the activations have rank 3 only"):
        tangent_basis(few, 4, "pca")


@pytest.mark.usefixtures("shape_checks_off")
def test_an_unknown_proxy_and_a_crooked_basis_are_named() -> None:
    with pytest.raises(InputError, match="unknown method 'umap'; wanted one of semi-nmf, pca, svd, local"):
        tangent_basis(rows(9), 2, "umap")
    with pytest.raises(InputError, match=r"the columns of q are not orthonormal \(off by 1\): take torch.linalg.qr"):
        energy_share(rows(9), np.ones((10, 2)) / 10**0.5)
    with pytest.raises(InputError, match=r"q has shape \(9, 2\), the rows have D = 10; wanted \(10, k\)"):
        energy_share(rows(9), basis(0, 9, 2))


# The shares


@hypothesis.given(seed=st.integers(0, 10_000), n=st.integers(1, 30), width=st.integers(2, 9), data=st.data())
def test_shares_equal_the_slow_ones_and_stay_between_0_and_1(
    seed: int, n: int, width: int, data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, width))
    g, q = rows(seed, n, width), basis(seed, width, k)
    e, a = energy_share(g, q), anisotropy_share(g, q)
    assert e == pytest.approx(shares.energy_share(g, q), abs=1e-9)
    assert a == pytest.approx(shares.anisotropy_share(shares.second_moment(g), q), abs=1e-9)
    assert 0 <= e <= 1 + 1e-12
    assert 0 <= a <= 1 + 1e-12


@hypothesis.given(seed=st.integers(0, 10_000), scale=st.sampled_from([1e-20, 3.0, 1e20]))
def test_scale_rotation_order_and_the_choice_of_basis_are_no_matter(seed: int, scale: float) -> None:
    g, q = rows(seed, 20, 6), basis(seed, 6, 2)
    rng = np.random.default_rng(seed)
    turn, inside = shares.haar(rng, 6, 6), shares.haar(rng, 2, 2)
    for share in (energy_share, anisotropy_share):
        again = share(scale * g[rng.permutation(20)] @ turn, turn.T @ q @ inside)
        assert again == pytest.approx(share(g, q), abs=1e-9)


@hypothesis.given(seed=st.integers(0, 10_000), width=st.integers(2, 8))
def test_a_full_basis_holds_everything(seed: int, width: int) -> None:
    g, whole = rows(seed, 15, width), basis(seed, width, width)
    assert energy_share(g, whole) == pytest.approx(1, abs=1e-12)
    assert anisotropy_share(g, whole) == pytest.approx(1, abs=1e-9)
    parts = [energy_share(g, whole[:, [i]]) for i in range(width)]
    assert sum(parts) == pytest.approx(1, abs=1e-9)


def test_one_row_and_rank_deficient_rows() -> None:
    g = np.array([[3.0, 0.0, 4.0]])
    q = np.eye(3)[:, :1]
    assert energy_share(g, q) == pytest.approx(9 / 25)
    assert anisotropy_share(g, q) == pytest.approx(shares.anisotropy_share(shares.second_moment(g), q))
    same = np.repeat(g, 40, axis=0)
    assert energy_share(same, q) == pytest.approx(9 / 25)


@pytest.mark.parametrize("scale", [1e-22, 1e25])
def test_tiny_and_huge_gradients_in_float32(scale: float) -> None:
    g, q = (rows(10) * scale).astype(np.float32), basis(10)
    assert energy_share(g, q) == pytest.approx(shares.energy_share(rows(10), q), rel=1e-6)
    assert anisotropy_share(g, q) == pytest.approx(shares.anisotropy_share(shares.second_moment(rows(10)), q), rel=1e-5)


def test_float16_that_overflows_when_squared_and_tensors_as_they_come() -> None:
    g, q = (rows(11) * 1000).astype(np.float16), basis(11)
    wanted = shares.energy_share(g, q)
    assert energy_share(g, q) == pytest.approx(wanted, rel=1e-6)
    leaf = torch.from_numpy(g).float().T.contiguous().requires_grad_(True)
    assert energy_share(leaf.T, torch.from_numpy(q).float()) == pytest.approx(wanted, rel=1e-6)


def test_gradients_that_cannot_be_shared_out() -> None:
    with pytest.raises(InputError, match="all gradients in g are zero: no share can be taken"):
        energy_share(np.zeros((5, 3)), np.eye(3)[:, :1])
    with pytest.raises(InputError, match="spread exactly evenly: they have no anisotropy to share out"):
        anisotropy_share(np.eye(4), np.eye(4)[:, :1])
    with pytest.raises(InputError, match="g holds NaN in row 0"):
        energy_share(np.full((2, 3), np.nan), np.eye(3)[:, :1])


def test_the_oracle_holds_most() -> None:
    g = rows(12)
    best = eigenbasis(moment(g).matrix)[1][:, :3].numpy()
    assert distance(best, shares.principal(g, centred=False)[:, :3]) < 1e-9
    assert all(shares.energy_share(g, basis(seed)) < shares.energy_share(g, best) for seed in range(20))


def test_an_orthonormal_basis_is_made_exactly_so() -> None:
    rough = basis(13) + 1e-4 * np.random.default_rng(0).normal(size=(10, 3))
    q = orthonormal_basis(rough, 10).numpy()
    np.testing.assert_allclose(q.T @ q, np.eye(3), atol=1e-14)
    assert distance(q, np.linalg.qr(rough)[0]) < 1e-12


# What random subspaces hold: closed forms and draws


@pytest.mark.parametrize(("width", "k"), [(10, 1), (10, 3), (9, 4), (10, 5)])
def test_closed_forms_of_the_random_normal_control(width: int, k: int) -> None:
    g, q = rows(14, width=width) ** 3, basis(15, width, k)  # cubed: far from Gaussian, far from isotropic
    s, found = shares.second_moment(g), moment(g)
    cross = torch.from_numpy(q).T @ found.deviator
    inner = cross @ torch.from_numpy(q)
    parts = Parts(found.power, float(cross.square().sum()), float(inner.square().sum()), float(inner.trace()), 0.0)
    assert normal_anisotropy(parts, rank=k, width=width) == pytest.approx(shares.normal_anisotropy(s, q), rel=1e-9)
    rng = np.random.default_rng(16)
    draws = [shares.haar(rng, width, k, outside=q) for _ in range(4000)]
    energy = np.array([np.trace(n.T @ s @ n) / np.trace(s) for n in draws])
    anisotropy = np.array([shares.anisotropy_share(s, n) for n in draws])
    for values, closed in (
        (energy, normal_energy(shares.energy_share(g, q), k, width)),
        (anisotropy, shares.normal_anisotropy(s, q)),
    ):
        error = max(stats.sem(values), 1e-12)
        assert abs(values.mean() - closed) < 4 * error, "four standard errors: one in 16,000"
        assert error < 0.04 * closed, "enough draws to notice"


def test_the_normal_control_needs_room() -> None:
    assert np.isnan(normal_anisotropy(Parts(1.0, 0.1, 0.1, 0.0, 1.0), rank=6, width=10))
    assert np.isnan(normal_anisotropy(Parts(1.0, 0.1, 0.1, 0.0, 1.0), rank=1, width=2))


def drawn(**options: object) -> tuple[object, np.ndarray, np.ndarray]:
    g, h = rows(17), rows(18)
    covariance = np.cov(h.T, bias=True)
    if "colour" in options:
        found = coloured_draws(moment(g), torch.from_numpy(covariance), rank=3, num_draws=2000, **options)
    else:
        found = even_draws(moment(g), 3, 2000, **options)
    return found, shares.second_moment(g), covariance


def assert_same_distribution(found: object, bases: list[np.ndarray], s: np.ndarray, covariance: np.ndarray) -> None:
    explicit = {
        "energy": [np.trace(q.T @ s @ q) / np.trace(s) for q in bases],
        "anisotropy": [shares.anisotropy_share(s, q) for q in bases],
        "normal_anisotropy": [shares.normal_anisotropy(s, q) for q in bases],
        "removed": [shares.anisotropy_removed(s, q) for q in bases],
        "variance": [np.trace(q.T @ covariance @ q) / np.trace(covariance) for q in bases],
    }
    for name, values in explicit.items():
        if name == "variance":
            if not isinstance(found, ColouredDraws):
                continue  # evenly drawn: known in closed form
            mine = found.variance.numpy()
        else:
            mine = {
                "energy": found.energy,
                "anisotropy": found.anisotropy,
                "normal_anisotropy": normal_anisotropy(found.parts, 3, 10),
                "removed": anisotropy_removed(found.parts, 3, 10),
            }[name].numpy()
        assert name == "removed" or mine.min() >= 0
        assert mine.max() <= 1 + 1e-6
        gap = abs(mine.mean() - np.mean(values)) / np.hypot(stats.sem(mine), stats.sem(values))
        assert gap < 4, f"{name}: means {gap:.1f} standard errors apart"
        assert stats.ks_2samp(mine, values).pvalue > 1e-3, name


def test_isotropic_draws() -> None:
    found, s, covariance = drawn()
    rng = np.random.default_rng(19)
    assert_same_distribution(found, [shares.haar(rng, 10, 3) for _ in range(2000)], s, covariance)


def test_draws_outside_a_subspace() -> None:
    q = basis(20)
    found, s, covariance = drawn(outside=torch.from_numpy(q))
    rng = np.random.default_rng(21)
    assert_same_distribution(found, [shares.haar(rng, 10, 3, outside=q) for _ in range(2000)], s, covariance)


def test_draws_outside_a_subspace_are_orthogonal_to_it() -> None:
    """All gradients inside Q, all variance inside Q: what is orthogonal to Q holds neither."""
    q = basis(22)
    inside = rows(23, width=3) @ q.T
    found = even_draws(moment(inside), 3, 50, outside=torch.from_numpy(q))
    assert found.energy.abs().max() < 1e-12


def test_coloured_draws() -> None:
    covariance = np.cov(rows(18).T, bias=True)
    values, vectors = np.linalg.eigh(covariance)
    found, s, covariance = drawn(colour=torch.from_numpy(vectors * values**0.5))
    rng = np.random.default_rng(24)
    assert_same_distribution(found, [shares.coloured(rng, covariance, 3) for _ in range(2000)], s, covariance)
    assert found.variance.mean() > 1.5 * 3 / 10, "they capture more than chance"


def test_draws_are_the_same_every_time_and_another_seed_gives_others() -> None:
    one, again, other = (drawn(seed=seed)[0] for seed in (0, 0, 1))
    assert torch.equal(one.energy, again.energy)
    assert not torch.equal(one.energy, other.energy)


@pytest.mark.parametrize("scale", [1e-22, 1e25])
def test_draws_of_tiny_and_huge_gradients(scale: float) -> None:
    covariance = torch.from_numpy(np.cov(rows(18).T, bias=True))
    for draw in (lambda s: even_draws(s, 3, 50), lambda s: coloured_draws(s, covariance, covariance, 3, 50)):
        plain, scaled = (draw(moment(rows(17) * s)) for s in (1.0, scale))
        torch.testing.assert_close(scaled.energy, plain.energy, rtol=1e-5, atol=0)
        torch.testing.assert_close(scaled.anisotropy, plain.anisotropy, rtol=1e-4, atol=0)
