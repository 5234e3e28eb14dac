"""Resampling counts, intervals and p-values."""

import numpy as np
import pytest
import torch
from scipy import stats

from anisoscope.geometry.inference import draw_p, first_order, interval, resampling_counts


def test_counts_are_a_bootstrap_of_units() -> None:
    counts = resampling_counts(30, 4000).numpy()
    assert counts.shape == (4001, 30)
    assert (counts[0] == 1).all()
    assert (counts >= 0).all()
    assert (counts == counts.round()).all()
    assert (counts.sum(1) == 30).all()
    # A unit's count is binomial(30, 1/30): mean 1, variance 29/30, absent in 36%.
    assert counts[1:].mean() == pytest.approx(1)
    assert counts[1:].var() == pytest.approx(29 / 30, rel=0.03)
    assert (counts[1:] == 0).mean() == pytest.approx((29 / 30) ** 30, abs=0.01)


def test_counts_are_the_same_for_everybody_and_differ_by_seed() -> None:
    assert torch.equal(resampling_counts(9), resampling_counts(9))
    assert not torch.equal(resampling_counts(9, seed=0), resampling_counts(9, seed=1))
    assert resampling_counts(9).shape == (201, 9), "200 replicates unless said"


def test_first_order_replicates_of_a_sum_are_exact() -> None:
    counts = resampling_counts(12, 50)
    parts = torch.randn(12, dtype=torch.float64)
    torch.testing.assert_close(first_order(float(parts.sum()), parts, counts), counts @ parts, rtol=1e-12, atol=1e-12)


def test_an_interval_holds_the_middle_95_percent_and_leaves_the_estimate_out() -> None:
    replicates = torch.cat([torch.tensor([1e9]), torch.arange(0.0, 201.0)]).double()
    assert interval(replicates) == (5.0, 195.0)


def test_an_interval_of_a_mean_covers_it() -> None:
    """95% of samples of 60 units, within what 300 trials can tell apart (and what a percentile interval lacks)."""
    rng, hits = np.random.default_rng(0), 0
    counts = resampling_counts(60)
    for _ in range(300):
        x = torch.from_numpy(rng.normal(1.0, 2.0, 60))
        low, high = interval(counts @ x / 60)
        hits += low < 1.0 < high
    assert stats.binomtest(hits, 300, 0.94).pvalue > 1e-3


@pytest.mark.parametrize(
    ("value", "p"),
    [
        (-1.0, 2 / 200),  # below all
        (2.0, 2 / 200),  # above all
        (0.5, 1.0),  # the middle: twice (1 + 100) / 200, at most 1
        (0.0, 2 * (1 + 1) / 200),  # equal to the smallest: it counts on both sides
    ],
)
def test_a_p_value_is_two_sided_and_never_zero(value: float, p: float) -> None:
    assert draw_p(value, torch.linspace(0, 1, 199)) == pytest.approx(p)


def test_a_p_value_is_uniform_under_its_null() -> None:
    rng = np.random.default_rng(1)
    p = [draw_p(float(x[0]), torch.from_numpy(x[1:])) for x in rng.normal(size=(1000, 100))]
    assert stats.kstest(p, "uniform").pvalue > 1e-3
    assert np.mean(np.array(p) <= 0.05) <= 0.07
