"""What claims take from replicates: known answers, coverage, and for each a wrong way that is seen to be wrong."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from anisoscope.claims.replicates import (
    arch,
    depth_contrast,
    interval,
    over_seeds,
    pearson,
    rise_and_fall,
    slope,
    spearman,
    thirds,
)
from anisoscope.claims.verdict import rule
from anisoscope.errors import InputError


def noisy(truth: np.ndarray, noise: float, rng: np.random.Generator, num_replicates: int = 200) -> np.ndarray:
    """Estimates of n quantities, and replicates that have the estimate's own noise once more."""
    estimate = truth + rng.normal(0, noise, len(truth))
    again = estimate[:, None] + rng.normal(0, noise, (len(truth), num_replicates))
    return np.column_stack([estimate, again])


def covers(hits: int, trials: int, share: float = 0.94) -> bool:
    """95% as far as so many trials tell (a percentile interval of 200 replicates lacks a little)."""
    return stats.binomtest(hits, trials, share, alternative="less").pvalue > 1e-3


def within(x: np.ndarray, truth: float) -> bool:
    low, high = interval(x)
    return low < truth < high


# Slopes


def test_a_slope_is_that_of_weighted_least_squares() -> None:
    rng = np.random.default_rng(0)
    x, y, weights = rng.normal(size=9), rng.normal(size=(9, 6)), rng.uniform(0.1, 5, 9)
    wanted = np.polyfit(x, y, 1, w=np.sqrt(weights))[0]
    np.testing.assert_allclose(slope(x, y, weights), wanted, rtol=1e-12)
    np.testing.assert_allclose(slope(x, y), np.polyfit(x, y, 1)[0], rtol=1e-12)
    np.testing.assert_allclose(slope(x, list(y)), slope(x, y, np.full(9, 7.0)), rtol=1e-12)
    assert not np.allclose(slope(x, y), wanted, rtol=0.01), "weights count"


def test_a_slope_knows_whole_numbers_and_missing_ones() -> None:
    y = np.array([[1.0, np.nan], [3.0, 1.0], [5.0, 1.0]])
    np.testing.assert_equal(slope(np.arange(3), y), [2.0, np.nan])
    assert np.isnan(slope(np.ones(3), y)).all()


def test_the_interval_of_a_slope_covers_it() -> None:
    rng, x = np.random.default_rng(1), np.arange(8.0)
    hits = sum(within(slope(x, noisy(1 + 0.3 * x, 2.0, rng)), 0.3) for _ in range(400))
    assert covers(hits, 400)
    assert not covers(sum(within(slope(x, noisy(1 + 0.3 * x, 2.0, rng)), 0.9) for _ in range(400)), 400)


# Correlations


@pytest.mark.parametrize(("ours", "theirs"), [(pearson, stats.pearsonr), (spearman, stats.spearmanr)])
def test_correlations_equal_scipys(ours: Callable, theirs: Callable) -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(12, 5)), rng.normal(size=(12, 5))
    y[0] = y[1]  # ties
    each = np.array([theirs(x[:, b], y[:, b])[0] for b in range(5)])
    moved = np.append(each[0], each[1:] - each[1:].mean() + each[0])
    np.testing.assert_allclose(ours(x, y), moved, rtol=1e-12)
    assert ours(x[:, 0], y)[0] == pytest.approx(each[0], rel=1e-12)
    assert ours(x[:, 0], y[:, 0]) == pytest.approx(each[:1], rel=1e-12)
    assert np.isnan(ours(np.ones(12), y)).all()


@pytest.mark.parametrize("correlation", [pearson, spearman])
def test_the_interval_of_a_correlation_covers_the_mean_of_the_estimate(correlation: Callable) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=40)
    y = 0.9 * x + 0.4 * rng.normal(size=40)
    found = [(noisy(x, 0.4, rng), noisy(y, 0.4, rng)) for _ in range(200)]
    target = float(np.mean([correlation(a[:, 0], b[:, 0])[0] for a, b in found]))
    assert covers(sum(within(correlation(a, b), target) for a, b in found), 200)
    # Percentiles as they come: their noise counts twice.
    ranks = (lambda x: stats.rankdata(x, axis=0)) if correlation is spearman else np.asarray
    plain = [stats.pearsonr(ranks(a), ranks(b), axis=0).statistic for a, b in found]
    assert not covers(sum(within(each, target) for each in plain), 200)


def test_what_covariates_explain_is_taken_out() -> None:
    """Score and share both follow depth and nothing else; and the formula for one covariate."""
    rng = np.random.default_rng(4)
    depth, step = np.repeat(np.arange(12.0), 10), np.tile(np.arange(10.0), 12)
    score, share = depth + rng.normal(size=120), depth**3 + 300 * rng.normal(size=120)
    assert spearman(score, share)[0] > 0.6
    assert abs(spearman(score, share, [depth, step])[0]) < 0.2
    tied = share + 200 * (score - depth)
    assert spearman(score, tied, [depth, step])[0] > 0.4
    xy, xz, yz = (stats.spearmanr(a, b)[0] for a, b in ((score, tied), (score, depth), (tied, depth)))
    partial = (xy - xz * yz) / np.sqrt((1 - xz**2) * (1 - yz**2))
    assert spearman(score, tied, [depth])[0] == pytest.approx(partial, rel=1e-12)
    assert np.isnan(spearman(score, 2 * depth + 1, [depth])).all(), "nothing is left of it"


# Rise and fall

M = np.log(1.1)


def halves(curve: np.ndarray, noise: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Replicates of a curve for either half; `noise` is that of the whole, in logarithms."""
    one, other = (noisy(np.log(curve), noise * 2**0.5, rng) for _ in range(2))
    return np.exp(one), np.exp(other)


def single(curve: list[float]) -> np.ndarray:
    return np.array(curve)[:, None]


@pytest.mark.parametrize(
    ("curve", "wanted"),
    [
        ([2.0, 8.0, 4.0], np.log(2)),  # up 4 times, down by half
        ([4.0, 1.0, 2.0], -np.log(2)),
        ([1.0, 2.0, 3.0, 9.0], 0.0),
        ([9.0, 3.0, 2.0, 1.0], 0.0),
        ([4.0, 8.0, 2.0, 4.0], 0.0),  # as far up as down
        ([5.0, 5.0, 5.0], 0.0),
    ],
)
def test_rise_and_fall_of_curves_without_noise(curve: list[float], wanted: float) -> None:
    assert rise_and_fall(single(curve), single(curve)) == pytest.approx([wanted], abs=1e-12)


def test_a_peak_is_found_on_one_half_and_valued_on_the_other() -> None:
    one, other = single([1.0, 4.0, 2.0, 1.0]), single([1.0, 2.0, 8.0, 1.0])
    # Found on one, the peak is at look 1, where the other is 2; found on the other, at look 2, where the one is 2.
    assert rise_and_fall(one, other) == pytest.approx([np.log(2)])
    assert rise_and_fall(other, one) == pytest.approx([np.log(2)])
    one = np.column_stack([one, one, one])
    one[2, 1] = np.nan
    np.testing.assert_array_equal(np.isnan(rise_and_fall(one, np.column_stack([other] * 3))), [False, True, False])


def peak_alone(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """What one would do without thinking: the highest look of all sequences against the ends."""
    curve = (np.log(one) + np.log(other)) / 2
    return np.minimum(curve.max(0) - curve[0], curve.max(0) - curve[-1])


@pytest.mark.parametrize("num_looks", [8, 30])
@pytest.mark.parametrize("kind", ["sampling error", "shared wiggle", "both"])
def test_a_flat_curve_is_seldom_said_to_rise_and_fall(kind: str, num_looks: int) -> None:
    """3% noise; the wiggle of both halves is no part of the replicates. The thoughtless way breaks the limit."""
    rng, said, thoughtless = np.random.default_rng(5), 0, 0
    for _ in range(400):
        curve = np.exp(rng.normal(0, 0.0 if kind == "sampling error" else 0.03, num_looks))
        one, other = halves(curve, 0.003 if kind == "shared wiggle" else 0.03, rng)
        said += rule(rise_and_fall(one, other), M, []).outcome == "supported"
        thoughtless += interval(peak_alone(one, other))[0] > 0
    assert said <= 0.05 * 400
    assert thoughtless > 0.05 * 400


@pytest.mark.parametrize(("sign", "outcome"), [(1, "supported"), (-1, "reversed")])
def test_a_bell_rises_and_falls(sign: int, outcome: str) -> None:
    rng, x = np.random.default_rng(6), np.linspace(0, 1, 20)
    curve = 30 * np.exp(sign * 0.3 * np.sin(np.pi * x) ** 2)
    effects = [rise_and_fall(*halves(curve, 0.03, rng)) for _ in range(200)]
    truth = sign * (np.log(curve).max() - np.log(curve).min())
    assert sum(rule(effect, M, []).outcome == outcome for effect in effects) > 0.95 * 200
    assert covers(sum(within(effect, truth) for effect in effects), 200)
    assert np.mean([effect[0] for effect in effects]) == pytest.approx(truth, abs=0.02)


# Depth


def test_thirds_are_the_same_from_both_ends() -> None:
    for n in range(3, 20):
        blocks = np.random.default_rng(n).normal(size=(n, 4))
        np.testing.assert_allclose(thirds(blocks), thirds(blocks[::-1])[::-1], rtol=1e-12)
        assert thirds(np.ones((n, 1)) * 3.0).tolist() == [[3.0]] * 3


@pytest.mark.parametrize(
    ("profile", "wanted"),
    [
        ([1.0, 1, 5, 5, 2, 2], 3.0),  # above the larger outer third
        ([4.0, 4, 1, 1, 2, 2], -1.0),  # below the smaller
        ([1.0, 1, 2, 2, 3, 3], 0.0),
        ([1.0, 1, 1, 1, 1, 1], 0.0),
    ],
)
def test_depth_contrast(profile: list[float], wanted: float) -> None:
    values = np.array(profile)[:, None]
    assert depth_contrast(values).tolist() == [wanted]
    assert np.sign(arch(values)[0].round(12)) == np.sign(wanted)


def test_an_arch_is_minus_the_quadratic_coefficient() -> None:
    blocks = np.random.default_rng(7).normal(size=(9, 5))
    np.testing.assert_allclose(arch(blocks), -np.polyfit(np.linspace(-1, 1, 9), blocks, 2)[0], rtol=1e-10)


def test_the_intervals_of_depth_cover_and_a_flat_profile_is_called_flat() -> None:
    rng = np.random.default_rng(8)
    bell = 0.3 * np.sin(np.pi * np.linspace(0, 1, 12))
    first, middle, last = thirds(bell[:, None])[:, 0]
    truths = {depth_contrast: middle - max(first, last), arch: arch(bell[:, None])[0]}
    found = [noisy(bell, 0.05, rng) for _ in range(300)]
    for statistic, truth in truths.items():
        assert covers(sum(within(statistic(blocks), truth) for blocks in found), 300), statistic

    def is_flat(profile: np.ndarray) -> bool:
        return interval(0.05 - np.ptp(thirds(noisy(profile, 0.015, rng)), axis=0))[0] > 0

    assert sum(is_flat(np.zeros(12)) for _ in range(100)) > 80
    assert sum(is_flat(np.repeat([0.0, 0.05, 0.0], 4)) for _ in range(200)) <= 0.05 * 200


# Seeds, and effects too small to matter


def test_the_interval_over_seeds_is_students() -> None:
    effects = [np.append(value, np.full(200, 99.0)) for value in (1.0, 2.5, 2.0, 4.0)]
    values = [1.0, 2.5, 2.0, 4.0]
    wanted = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    joint = over_seeds(effects)
    assert joint[0] == pytest.approx(np.mean(values))
    assert interval(joint) == pytest.approx(wanted, rel=1e-12)
    assert (np.diff(joint[1:]) >= 0).all()
    with pytest.raises(InputError, match="2 seeds; a t interval wants three or more: of two the weaker verdict stands"):
        over_seeds(effects[:2])


def test_the_interval_over_seeds_covers_where_the_spread_of_three_does_not() -> None:
    rng = np.random.default_rng(9)
    trials = [[np.array([value]) for value in rng.normal(1.0, 0.5, 3)] for _ in range(1000)]
    assert covers(sum(within(over_seeds(seeds), 1.0) for seeds in trials), 1000, 0.95)
    assert not covers(sum(min(seeds)[0] < 1.0 < max(seeds)[0] for seeds in trials), 1000)


def test_an_effect_that_just_matters_is_seldom_called_too_small() -> None:
    """The whole interval inside (-m, m) is two one-sided tests at 2.5% each: `rule` has no need of another function."""
    rng = np.random.default_rng(10)
    for truth, most in ((1.0, 0.045), (-1.0, 0.045)):
        outcomes = [rule(noisy(np.array([truth]), 0.2, rng)[0], 1.0, []).outcome for _ in range(1000)]
        assert outcomes.count("not supported") <= most * 1000
    outcomes = [rule(noisy(np.array([0.0]), 0.2, rng)[0], 1.0, []).outcome for _ in range(200)]
    assert outcomes.count("not supported") > 190
