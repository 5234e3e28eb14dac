"""Intrinsic dimension: against its definitions over all distances, on shapes of known dimension, and resampled."""

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from anisoscope.errors import InputError
from anisoscope.geometry import dimension
from anisoscope.geometry.dimension import METHODS, dimension_profile, estimates, intrinsic_dimension
from anisoscope.geometry.inference import resampling_counts
from anisoscope.geometry.moments import Moments
from anisoscope.geometry.subspace import gaussian_like
from reference import dimension as reference


def gaussian(seed: int, n: int, d: int, width: int | None = None) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return x if width is None else x @ np.linalg.qr(rng.normal(size=(width, d)))[0].T


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "d"), [(24, 2), (301, 3), (400, 15)])
def test_estimates_equal_their_definitions(n: int, d: int, dtype: type) -> None:
    x = gaussian(n, n, d, 20).astype(dtype)
    wanted, seen = reference.estimates(reference.nearest(x, 20)), estimates(x)
    assert tuple(seen) == METHODS
    for method, found in seen.items():
        # The reference takes the likelihood's slope by differences, 1e-4 apart.
        assert found.value == pytest.approx(wanted[method], rel=1e-6 if method == "gride" else 1e-9), method
        assert found.low < found.value < found.high
        assert (found.method, found.num_rows, found.num_duplicates) == (method, n, 0)
        assert found.num_points == {"twonn": int(0.9 * n), "twonn-20": int(0.2 * n)}.get(method, n)
        assert found == intrinsic_dimension(x, method)


def test_copies_are_dropped_and_counted() -> None:
    x = gaussian(1, 120, 3)
    twice = np.random.default_rng(1).permutation(np.concatenate([x, x[:50], x[:20], -0.0 * x[:1], 0.0 * x[:1]]))
    once = reference.distinct(twice)
    assert len(once) == 121
    for method, found in estimates(twice).items():
        assert (found.num_rows, found.num_duplicates) == (192, 71)
        assert found.value == pytest.approx(intrinsic_dimension(once, method).value, rel=1e-12)


def test_a_copy_takes_no_row_from_another_sequence() -> None:
    """Rows behind a copy stay with their own: it changes no replicate."""
    x, units = gaussian(12, 200, 3), np.arange(200) // 10
    whole = intrinsic_dimension(np.concatenate([x[:1], x]), sequences=np.concatenate([[0], units]))
    assert torch.equal(whole.replicates, intrinsic_dimension(x, sequences=units).replicates)


@hypothesis.given(seed=st.integers(0, 1000), scale=st.sampled_from([1e-8, 0.5, 1e8]), shift=st.sampled_from([0.0, 1e4]))
def test_scale_rotation_order_and_shift_are_no_matter(seed: int, scale: float, shift: float) -> None:
    x = gaussian(seed, 40, 4)
    rng = np.random.default_rng(seed)
    moved = ((x @ np.linalg.qr(rng.normal(size=(4, 4)))[0] + shift) * scale)[rng.permutation(40)]
    wanted = {method: found.value for method, found in estimates(x).items()}
    # The shift alone costs each coordinate 1e4 * 1.1e-16.
    assert {method: found.value for method, found in estimates(moved).items()} == pytest.approx(wanted, rel=1e-8)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_read_as_it_is(dtype: torch.dtype) -> None:
    x = torch.from_numpy(gaussian(2, 300, 6)).to(dtype)
    assert intrinsic_dimension(x, "mle") == intrinsic_dimension(x.double(), "mle")


def test_a_mean_far_larger_than_the_spread() -> None:
    x = gaussian(3, 500, 5, 64)
    seen, far = intrinsic_dimension(x).value, intrinsic_dimension((x + 1e4).astype(np.float32)).value
    assert far == pytest.approx(seen, rel=0.02)  # float32 leaves 5e-4 of each coordinate, neighbours are 0.5 apart


@pytest.mark.parametrize(("d", "bias"), [(2, 0.0), (5, 0.01), (10, -0.05)])
def test_gaussians_have_their_dimension(d: int, bias: float) -> None:
    """Fewer rows than a dimension wants read low: by 5% for ten dimensions and 2,000 rows."""
    found = estimates(gaussian(4, 2000, d, 32), ("twonn", "twonn-ml"))
    for each in found.values():
        assert each.value == pytest.approx(d * (1 + bias), rel=0.07)  # three standard errors


def test_curved_surfaces_have_their_dimension() -> None:
    rng = np.random.default_rng(5)
    for x, d in ((reference.sphere(rng, 2000, 4, 40), 4), (reference.swiss_roll(rng, 2000), 2)):
        for method, found in estimates(x).items():
            loose = {"twonn-20": 0.16, "mle": 0.05, "gride": 0.05}.get(method, 0.08)  # three standard errors, and bend
            assert found.value == pytest.approx(d, rel=loose), (method, d)


@pytest.mark.parametrize("method", METHODS)
def test_influences_are_the_derivatives_by_a_rows_weight(method: str) -> None:
    """Against the estimate of rows that count 2,000 times each, and one of them 2,000 + 50."""
    log_r = torch.from_numpy(np.log(reference.nearest(gaussian(6, 40, 3), 20)))
    estimator, times = dimension._ESTIMATORS[method][1], torch.full((40,), 2000)
    influence = estimator(log_r)[1]
    assert float(influence.sum()) == pytest.approx(0, abs=1e-12)
    base = estimator(log_r.repeat_interleave(times, 0))[0]
    for row in range(0, 40, 7):
        more = times + 50 * (torch.arange(40) == row)
        slope = (estimator(log_r.repeat_interleave(more, 0))[0] - base) / 50 * 2000
        # A row that the cut at 90% or 20% divides, and the second derivative: 50 / 2000 of the first.
        assert float(influence[row]) == pytest.approx(slope, rel=0.06, abs=0.006)


def test_replicates_follow_those_of_resampled_sequences() -> None:
    """Rows apart from each other in many sequences: little is in common, and both ways resample the same counts."""
    x, units = gaussian(7, 900, 3), np.repeat(np.arange(30), 30)
    counts = resampling_counts(30, num_replicates=40, seed=3)
    found, r = estimates(x, sequences=units, counts=counts), reference.nearest(x, 20)
    plain = [reference.replicate(r, units, row) for row in counts[1:].numpy()]
    for method, each in found.items():
        exact = np.log([replicate[method] for replicate in plain])
        first = each.replicates.log().numpy()
        assert first[0] == pytest.approx(np.log(each.value))
        assert np.corrcoef(exact, first[1:])[0, 1] > (0.95 if method == "twonn-20" else 0.98)
        assert 0.9 < first[1:].std() / exact.std() < 1.8  # wider: neighbours have something in common


def in_sequences(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Half of the variance of tokens is that of their sequence."""
    x = np.repeat(rng.normal(size=(32, 4)), 12, axis=0) + rng.normal(size=(32 * 12, 4))
    return x, np.repeat(rng.permutation(32), 12)


@pytest.mark.parametrize("correlated", [False, True])
def test_intervals_cover_the_mean_of_the_estimator(correlated: bool) -> None:
    """95% are wanted; 150 repetitions tell 88% from it, and the standard error to 6%."""
    rng = np.random.default_rng(8)
    drawn = [in_sequences(rng) if correlated else (rng.normal(size=(384, 4)), None) for _ in range(150)]
    found = [estimates(x, ("twonn", "twonn-ml", "gride"), sequences=units) for x, units in drawn]
    for method in found[0]:
        value, low, high = np.array([(e[method].value, e[method].low, e[method].high) for e in found]).T
        assert np.mean((low <= value.mean()) & (value.mean() <= high)) >= 0.88
        spread = np.mean([float(e[method].replicates[1:].log().std()) for e in found])
        assert 0.87 < spread / np.log(value).std() < 1.2


def test_regions_of_unlike_dimension_do_not_widen_intervals_many_times() -> None:
    """That rows of a region agree is no covariance of rows: without a bound intervals were over twice too wide."""
    rng = np.random.default_rng(14)
    found = []
    for _ in range(60):
        flat = (rng.random(400) < 0.5)[:, None]
        x = np.where(flat, 0, 20) + rng.normal(size=(400, 8)) * np.where(flat, np.arange(8) < 2, 1)
        found.append(estimates(x, ("twonn", "mle")))
    for method in ("twonn", "mle"):
        spread = np.mean([float(each[method].replicates[1:].log().std()) for each in found])
        assert 0.8 < spread / np.log([each[method].value for each in found]).std() < 1.8


def test_few_sequences_make_wide_intervals() -> None:
    """As wide as a t interval over eight: 1.29 times the plain resampling."""
    x, units = gaussian(13, 200, 3), np.arange(200) // 25
    plain = estimates(x, ("twonn",), sequences=units, counts=resampling_counts(8))["twonn"].replicates.log().std()
    assert float(intrinsic_dimension(x, sequences=units).replicates.log().std() / plain) == pytest.approx(
        1.29, abs=0.01
    )


def test_the_profile_holds_estimate_surrogate_and_curves() -> None:
    """A curved surface of dimension 2 in 10 coordinates; its surrogate knows the covariance alone."""
    rng = np.random.default_rng(9)
    angle = rng.uniform(0, 2 * np.pi, size=(1500, 2))
    x = np.column_stack([f(i * angle) for i in (1, 2) for f in (np.cos, np.sin)])
    x = np.concatenate([x, x[:100]])
    seen = dimension_profile(x, sequences=np.arange(1600) // 16)
    assert seen.estimate == intrinsic_dimension(x, sequences=np.arange(1600) // 16)
    assert list(seen.by_rows) == [1500, 750, 375, 187]
    assert [each.num_rows for each in seen.by_rows.values()] == [1600, 750, 375, 187]
    assert list(seen.by_scale) == [1, 2, 4, 8, 16, 32]
    r = reference.nearest(reference.distinct(x), 64)
    for n1, each in seen.by_scale.items():
        assert each.value == pytest.approx(reference.gride(r, n1), rel=1e-6)
    assert seen.by_scale[8].value == pytest.approx(2, rel=0.05)
    assert 6 < seen.surrogate.low < seen.surrogate.value < 9  # eight even directions
    assert seen.surrogate.num_rows == 1500


def test_the_surrogate_has_the_covariance_of_the_rows() -> None:
    x = gaussian(11, 3000, 6) * np.linspace(5, 0.2, 6) @ np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    drawn = gaussian_like(Moments.of(torch.from_numpy(x)), len(x))
    assert drawn.shape == x.shape
    wanted = np.cov(x.T)
    # Each entry by the spread of both coordinates: 1 / sqrt(3000) is one standard error, and 36 entries are compared.
    size = np.sqrt(np.outer(wanted.diagonal(), wanted.diagonal()))
    assert np.abs((np.cov(drawn.numpy().T) - wanted) / size).max() < 4 * 3000**-0.5


def test_one_seed_one_answer() -> None:
    x = gaussian(10, 300, 4)
    assert dimension_profile(x, seed=1) == dimension_profile(x, seed=1)
    assert dimension_profile(x, seed=1).surrogate != dimension_profile(x, seed=2).surrogate


@pytest.mark.usefixtures("shape_checks_off")
@pytest.mark.parametrize(
    ("rows", "method", "sequences", "told"),
    [
        (np.ones((40, 3)), "twonn", None, r"h has 40 rows, all the same \(constant activations\); .* at least 10"),
        (np.repeat(gaussian(0, 8, 2), 9, 0), "twonn", None, r"h has 72 rows, 8 of them different; .* at least 10"),
        (gaussian(0, 9, 2), "twonn-ml", None, r"h has 9 rows, 9 of them different; .* give more rows"),
        (gaussian(0, 20, 2), "mle", None, r"needs at least 21 that differ"),
        (gaussian(0, 1, 2), "mle", None, r"h has shape \(1, 2\); wanted at least 2 rows"),
        (gaussian(0, 40, 2), "3nn", None, r"unknown method '3nn'; wanted one of twonn, twonn-ml, twonn-20, gride, mle"),
        (gaussian(0, 40, 2), "twonn", np.arange(39), r"sequences has shape \(39,\) for 40 rows; wanted \(40,\)"),
        (gaussian(0, 40, 2), "twonn", [1] * 40, r"all rows are of one sequence"),
        (np.eye(30), "twonn", None, r"the neighbours of 27 rows are all at the same distance \(a grid\?\)"),
        (np.eye(30), "gride", None, r"the neighbours of 30 rows are all at the same distance"),
    ],
)
def test_wrong_input_is_told(rows: np.ndarray, method: str, sequences: object, told: str) -> None:
    with pytest.raises(InputError, match=told):
        intrinsic_dimension(rows, method, sequences=sequences)  # type: ignore[arg-type]


def test_counts_of_other_sequences_are_refused() -> None:
    with pytest.raises(InputError, match=r"counts has 7 columns for 10 sequences; wanted one each"):
        estimates(gaussian(0, 40, 2), sequences=np.arange(40) // 4, counts=resampling_counts(7))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_cuda_gives_the_same() -> None:
    """To 1e-9: sums in another order, then Newton's last step."""
    x = torch.randn(3000, 20)
    here, there = estimates(x), estimates(x.cuda())
    for method, each in here.items():
        for name in ("value", "low", "high"):
            assert getattr(there[method], name) == pytest.approx(getattr(each, name), rel=1e-9)
