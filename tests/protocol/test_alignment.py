"""Two arrays in a notebook: the same numbers as the slow reference."""

import numpy as np
import pytest
import torch

import anisoscope as an
from protocol.looks import WIDTH, arrays
from reference import rows as slow
from reference import shares


def halves() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Activations to fit on, gradients to test, activations and sequences of the tested rows."""
    h, g, sequences, _ = arrays(20)
    fit = slow.halves(sequences)
    return h[fit], g["true"][~fit], h[~fit], sequences[~fit]


@pytest.mark.parametrize("method", ["pca", "svd"])
def test_an_alignment_equals_the_slow_one(method: str) -> None:
    fit, g, tested, groups = halves()
    seen = an.alignment(fit, g, 3, method, h_test=tested, groups=groups)
    axes, loud = shares.principal(fit, method == "pca"), g[g.any(1)]
    q, best = axes[:, :3], shares.principal(loud, False)[:, :3]
    e, most = shares.energy_share(loud, q), shares.energy_share(loud, best)
    normal = shares.normal_energy(e, 3, WIDTH)
    assert seen.share == pytest.approx(e, rel=1e-9)
    assert seen.oracle == pytest.approx(most, rel=1e-9)
    assert seen.placement == pytest.approx((e - normal) / (most - normal), rel=1e-9)
    assert seen.captured_variance == pytest.approx(shares.captured_variance(tested, q), rel=1e-9)
    assert (seen.chance, seen.enrichment) == pytest.approx((3 / WIDTH, e * WIDTH / 3))
    assert seen.controls == pytest.approx(
        {
            "random_normal": normal,
            "isotropic": 3 / WIDTH,
            "next_directions": shares.energy_share(loud, axes[:, 3:6]),
            "variance_matched": seen.controls["variance_matched"],
            "row_normalised": shares.energy_share(shares.unit(loud), q),
            "common_gradient": shares.energy_share(loud - loud.mean(0), q),
        }
    )
    assert seen.low < seen.share < seen.high
    assert (seen.num_rows, seen.num_sequences) == (len(loud), 7)


def test_the_interval_resamples_sequences_and_not_tokens() -> None:
    """Thirty copies of each row say no more than one: with its copies as a group, the interval stays."""
    fit, g, _, _ = halves()
    g = g[g.any(1)]
    one = an.alignment(fit, g, 3)
    copied = an.alignment(fit, g.repeat(30, axis=0), 3, groups=np.repeat(np.arange(len(g)), 30))
    fooled = an.alignment(fit, g.repeat(30, axis=0), 3)
    assert (copied.low, copied.high) == pytest.approx((one.low, one.high), rel=1e-9)
    assert fooled.high - fooled.low < 0.3 * (one.high - one.low)


def test_a_capture_curve_equals_the_slow_one() -> None:
    fit, g, tested, _ = halves()
    curve = an.capture_curve(fit, g, tested)
    axes, best = shares.principal(fit, True), shares.principal(g, False)
    assert curve.rank.tolist() == list(range(1, WIDTH + 1))
    for k in curve.rank:
        at = k - 1
        assert curve.energy_share[at] == pytest.approx(shares.energy_share(g, axes[:, :k]), rel=1e-9)
        assert curve.captured_variance[at] == pytest.approx(shares.captured_variance(tested, axes[:, :k]), rel=1e-9)
        assert curve.oracle[at] == pytest.approx(shares.energy_share(g, best[:, :k]), rel=1e-9)
        assert curve.chance[at] == k / WIDTH
    np.testing.assert_allclose(an.capture_curve(fit, g).energy_share, curve.energy_share)


@pytest.mark.parametrize("rows", [1, 5])
def test_gradients_that_are_all_the_same(rows: int) -> None:
    """No crash, and no common gradient taken out: nothing would be left."""
    fit, g, _, _ = halves()
    same = np.tile(g[2] + 1, (rows + 1, 1))
    same[rows:] = 0 if rows == 1 else same[rows:]
    seen = an.alignment(fit, same, 3)
    assert seen.share == pytest.approx(shares.energy_share(same[:1], shares.principal(fit, True)[:, :3]))
    assert "common_gradient" not in seen.controls
    assert np.isfinite([seen.low, seen.high, seen.p, seen.placement]).all()


@pytest.mark.parametrize(
    "change", [torch.from_numpy, np.asfortranarray, lambda x: torch.from_numpy(x).requires_grad_()]
)
def test_arrays_as_they_come(change: object) -> None:
    fit, g, _, _ = halves()
    assert an.alignment(change(fit), change(g), 3).share == pytest.approx(an.alignment(fit, g, 3).share, rel=1e-9)


ZERO = "all gradients in g_test are zero: no share can be taken; did the loss depend on these rows?"
FEW = (
    "rank k = 2, but the activations have rank 1 only (constant, repeated or too few rows): take k <= 1, or fit on "
    "more rows"
)
SINGLE = "groups names a single sequence; wanted at least 2, an interval needs several"
NAN = "h_fit holds NaN in row 0 (30 of 30 rows are not finite): drop those rows, or mend the model that made them"
FIT = np.random.default_rng(0).normal(size=(30, 4))


@pytest.mark.usefixtures("shape_checks_off")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((FIT, FIT[:, :3], 2), "g_test has width 3, h_fit has 4: give activations and gradients of one layer"),
        ((FIT, 0 * FIT, 2), ZERO),
        ((FIT, FIT, 4), "rank k = 4 leaves no normal directions in D = 4 coordinates: take k < 4"),
        ((FIT, FIT, 0), "rank k = 0; wanted a whole number of at least 1"),
        ((FIT, FIT, 2, "umap"), "unknown method 'umap'; wanted one of pca, svd"),
        ((FIT, FIT, 2, "pca", FIT[:9]), "h_test has shape (9, 4), g_test (30, 4): give the same positions in both"),
        ((FIT[:2], FIT, 2), FEW),
        ((FIT, FIT, 2, "pca", None, np.zeros(30)), SINGLE),
        ((FIT, FIT, 2, "pca", None, np.zeros(9)), "groups has shape (9,); wanted (30,), the sequence of each row"),
        ((FIT * np.nan, FIT, 2), NAN),
    ],
)  # fmt: skip
def test_arrays_that_cannot_be_aligned(arguments: tuple, message: str) -> None:
    with pytest.raises(an.InputError) as caught:
        an.alignment(*arguments)
    assert str(caught.value) == message
