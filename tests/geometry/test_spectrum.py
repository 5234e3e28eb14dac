"""Spectral scores: against their definitions over singular values and all pairs."""

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from anisoscope.errors import InputError
from anisoscope.geometry.moments import Moments
from anisoscope.geometry.spectrum import Spectrum, partition_isotropy, spectrum, top_with_mean
from anisoscope.geometry.subspace import eigenbasis
from reference import cloud


def a_cloud(seed: int, n: int = 120, width: int = 10) -> np.ndarray:
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(width, width)))[0]
    return rng.normal(size=(n, width)) * np.linspace(4, 0.3, width) @ turn + rng.normal(size=width)


def planted(singular: list[float], n: int = 40) -> np.ndarray:
    """Rows whose centred matrix has exactly these singular values."""
    rng = np.random.default_rng(0)
    left = np.linalg.qr(np.column_stack([np.ones(n), rng.normal(size=(n, len(singular)))]))[0][:, 1:]
    return left * singular @ np.linalg.qr(rng.normal(size=(len(singular),) * 2))[0] + 3.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scores_equal_their_definitions(dtype: type) -> None:
    x = a_cloud(0).astype(dtype)
    wanted, seen = cloud.scores(x), spectrum(x)
    assert seen.scores().keys() == wanted.keys()
    assert seen.scores() == pytest.approx(wanted, rel=1e-9)
    assert seen.num_rows == 120
    for name, value in seen.scores().items():
        assert getattr(seen, name) == value


def test_the_quick_check_of_the_method_notes() -> None:
    seen = spectrum(planted([10.0, 2.0, 1.0]))
    assert seen.singular_value_anisotropy == pytest.approx(10 / 13, abs=1e-12)
    assert seen.anisotropy == pytest.approx(100 / 105, abs=1e-12)
    assert seen.stable_rank == pytest.approx(105 / 100, abs=1e-12)


def test_a_power_law_has_its_exponent() -> None:
    seen = spectrum(planted([(i + 1) ** -0.75 for i in range(12)]))
    assert seen.spectral_exponent == pytest.approx(-1.5, abs=1e-9)


def test_a_sphere_is_isotropic() -> None:
    seen = spectrum(planted([2.0] * 5))
    assert seen.isoscore == pytest.approx(1, abs=1e-9)
    assert seen.effective_rank == pytest.approx(5, abs=1e-9)
    assert seen.anisotropy == pytest.approx(1 / 5, abs=1e-9)


@hypothesis.given(seed=st.integers(0, 1000), scale=st.sampled_from([1e-8, 0.5, 1e8]))
def test_scale_rotation_and_order_are_no_matter(seed: int, scale: float) -> None:
    x = a_cloud(seed, n=30, width=5)
    rng = np.random.default_rng(seed + 1)
    turned = (x @ np.linalg.qr(rng.normal(size=(5, 5)))[0] * scale)[rng.permutation(30)]
    assert spectrum(turned).scores() == pytest.approx(spectrum(x).scores(), rel=1e-8, abs=1e-12)


@hypothesis.given(seed=st.integers(0, 1000), n=st.integers(2, 12), width=st.integers(1, 8))
def test_scores_keep_their_bounds(seed: int, n: int, width: int) -> None:
    seen = spectrum(np.random.default_rng(seed).normal(size=(n, width)))
    most = min(n - 1, width) + 1e-9
    assert 0 < seen.anisotropy <= 1 + 1e-12
    assert 0 < seen.anisotropy_uncentred <= 1 + 1e-12
    assert 1 - 1e-9 <= seen.stable_rank <= most
    assert 1 - 1e-9 <= seen.participation_ratio <= most
    assert 1 - 1e-9 <= seen.effective_rank <= most
    assert -1 <= seen.average_cosine <= 1
    assert all(np.isfinite(value) for value in seen.scores().values())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_rank_of_rank_deficient_rows_is_found(dtype: type) -> None:
    rng = np.random.default_rng(5)
    x = (rng.normal(size=(300, 3)) @ rng.normal(size=(3, 40)) + rng.normal(size=40)).astype(dtype)
    seen = spectrum(x)
    assert seen.usable_rank == 3
    assert seen.effective_rank == pytest.approx(cloud.scores(x)["effective_rank"], rel=1e-4)


def test_a_spectrum_over_many_decades_survives_single_precision() -> None:
    """One huge direction, as in layers with massive tokens: the others keep their size."""
    rng = np.random.default_rng(11)
    x = (rng.normal(size=(400, 30)) * np.array([1e4, *[1.0] * 29]) @ np.linalg.qr(rng.normal(size=(30, 30)))[0]).astype(
        np.float32
    )
    assert spectrum(x).scores() == pytest.approx(cloud.scores(x), rel=1e-6)


def test_fewer_rows_than_columns() -> None:
    x = a_cloud(6, n=6, width=30)
    seen = spectrum(x)
    assert seen.usable_rank == 5
    assert seen.scores() == pytest.approx(cloud.scores(x), rel=1e-8)


@pytest.mark.parametrize("value", [0.0, 7.0, 1e4 + 0.1])
def test_constant_rows_have_no_spectrum(value: float) -> None:
    with pytest.raises(InputError, match=r"all 9 rows are the same \(constant activations\)"):
        spectrum(np.full((9, 4), value, np.float32))


def test_one_row_is_refused() -> None:
    with pytest.raises(InputError, match=r"h has shape \(1, 4\); wanted at least 2 rows and one column"):
        spectrum(np.ones((1, 4)))


@pytest.mark.parametrize("scale", [1e-22, 1e25])
def test_tiny_and_huge_rows_in_float32(scale: float) -> None:
    x = (a_cloud(7) * scale).astype(np.float32)
    assert spectrum(x).scores() == pytest.approx(cloud.scores(a_cloud(7)), rel=1e-5)  # what the cast to float32 costs


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_read_as_it_is(dtype: torch.dtype) -> None:
    x = torch.from_numpy(a_cloud(8)).to(dtype)
    assert spectrum(x).scores() == pytest.approx(cloud.scores(x.double().numpy()), rel=1e-9)


def test_influences_are_the_derivatives_by_a_sequences_weight() -> None:
    """Against a finite difference: weighted rows, their covariance, and its eigenvalues all over again."""
    x, units = a_cloud(9), np.repeat(np.arange(12), 10)

    def weighted(weights: np.ndarray) -> Spectrum:
        w = weights[units] / weights[units].sum()
        centred = x - w @ x
        return Spectrum(torch.from_numpy(np.linalg.eigvalsh((centred.T * w) @ centred)[::-1].copy()), 120, 0.0, 0.0)

    moments = Moments.of(torch.from_numpy(x))
    values, vectors = eigenbasis(moments.covariance)
    along = ((torch.from_numpy(x) - moments.mean) @ vectors).square()
    by_unit = torch.stack([along[units == unit].sum(0) for unit in range(12)])
    found = Spectrum.of(moments, (values, vectors)).influences(by_unit)
    step = 1e-5
    for unit in range(12):
        up, down = (weighted(1 + sign * step * (np.arange(12) == unit)).scores() for sign in (1, -1))
        for name, influence in found.items():
            slope = (up[name] - down[name]) / (2 * step)
            # Central differences in float64: error about 1e-16 / 1e-5 and 1e-10 times the third derivative.
            assert float(influence[unit]) == pytest.approx(slope, rel=1e-5, abs=1e-8), name


def test_influences_of_scores_that_know_no_scale_sum_to_zero() -> None:
    x = torch.from_numpy(a_cloud(10))
    moments = Moments.of(x)
    values, vectors = eigenbasis(moments.covariance)
    found = Spectrum.of(moments, (values, vectors)).influences(((x - moments.mean) @ vectors).square())
    for name, influence in found.items():
        assert float(influence.sum()) == pytest.approx(0, abs=1e-9 * float(influence.abs().sum())), name


@pytest.mark.parametrize(("n", "width"), [(4000, 40), (300, 100), (60, 100), (1000, 1000)])
def test_a_round_cloud_gives_what_is_said_of_it(n: int, width: int) -> None:
    """Also with fewer rows than columns. The law is that of many rows and columns: to 5%, the top eigenvalue to 10%."""
    seen = spectrum(np.random.default_rng(12).normal(size=(n, width)))
    said = seen.round_cloud().scores()
    assert said.keys() == seen.scores().keys()
    for name, value in seen.scores().items():
        loose = name in ("anisotropy", "anisotropy_uncentred", "stable_rank", "singular_value_anisotropy")
        absolute = {"average_cosine": 0.01, "spectral_exponent": 0.03}.get(name, 0.0)
        assert said[name] == pytest.approx(value, rel=0.1 if loose else 0.05, abs=absolute), name


def test_a_spectrum_is_printed_beside_a_round_one() -> None:
    assert "anisotropy 0.952, of a round cloud" in repr(spectrum(planted([10.0, 2.0, 1.0])))


def test_too_few_rows_are_told() -> None:
    few, many = spectrum(a_cloud(13, n=10)), spectrum(a_cloud(13, n=11))
    assert few.rank_limited
    assert not many.rank_limited
    assert "10 rows of width 10, fewer than it takes: the scores report the sample size" in repr(few)
    assert "fewer" not in repr(many)


def test_partition_isotropy_is_its_definition() -> None:
    w = a_cloud(14, n=60, width=5) / 3
    axes = np.linalg.eigh(w.T @ w)[1]
    z = [sum(np.exp(sign * row @ axis) for row in w) for axis in axes.T for sign in (1, -1)]
    assert partition_isotropy(w) == pytest.approx(min(z) / max(z), rel=1e-10)


def test_partition_isotropy_never_overflows() -> None:
    assert partition_isotropy(a_cloud(15, n=60, width=5) * 1e4) == 0.0  # exp(-1e4): less than a number can be
    even = np.concatenate([np.eye(4), -np.eye(4)])
    assert partition_isotropy(even * 1e3) == pytest.approx(1)


@pytest.mark.parametrize("mean", [0.0, 1e-9, 1e-3, 1.0, 1e4])
def test_the_top_direction_about_the_origin_needs_no_second_decomposition(mean: float) -> None:
    rng = np.random.default_rng(16)
    x = torch.from_numpy(rng.normal(size=(300, 12)) * np.geomspace(3, 0.1, 12) + mean * rng.normal(size=12))
    moments = Moments.of(x)
    values, vectors = eigenbasis(moments.covariance)
    top, axis = top_with_mean(values, vectors, moments.mean)
    wanted, axes = torch.linalg.eigh(moments.second_moment)
    assert top == pytest.approx(float(wanted[-1]), rel=1e-12)
    assert abs(float(axis @ axes[:, -1])) == pytest.approx(1, abs=1e-9)


def test_a_mean_square_to_the_top_direction_may_change_nothing() -> None:
    values, vectors = torch.tensor([4.0, 1.0]).double(), torch.eye(2).double()
    for length, top in ((1.0, 4.0), (2.0, 5.0)):  # 1 + length^2 along the second
        assert top_with_mean(values, vectors, torch.tensor([0.0, length]).double())[0] == pytest.approx(top)
