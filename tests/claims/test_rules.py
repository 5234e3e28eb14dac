"""The rules of a verdict, one case each and in their order (verdicts.md)."""

import numpy as np
import pytest
from scipy import stats

from anisoscope.claims.replicates import discoveries, interval, log_odds, median, p_value
from anisoscope.claims.verdict import Ruling, mixed_by_depth, rule, weaker
from anisoscope.claims.verdict import Test as Fatal

M = 1.0


def near(value: float, half: float = 0.1) -> np.ndarray:
    """An estimate with replicates whose 95% interval is value +- half."""
    return np.append(value, value + half / 0.95 * np.linspace(-1, 1, 201))


def null(quantity: np.ndarray | None, name: str = "untrained") -> Fatal:
    return Fatal(name, "null", quantity, f"an option for {name}", f"{name} does the same")


def condition(quantity: np.ndarray | None) -> Fatal:
    return Fatal("clean", "condition", quantity, "rows in view clean", "without massive tokens it is gone")


PASSED, FAILED, MISSING = null(near(2)), null(near(0)), null(None)
BELOW = null(near(-2))

SUPPORTED, NOT, NULL, UNSURE, REVERSED = (
    "supported", "not supported", "not distinguishable from its null", "inconclusive", "reversed",
)  # fmt: skip
SMALL, REACHES, NONE = "too small to matter", "the interval reaches", "the effect cannot be computed: a look"

CASES = {
    "no effect": (None, [PASSED], {"option": "a look"}, UNSURE, NONE),
    "an effect that is no number": (near(np.nan), [PASSED], {"option": "a look"}, UNSURE, NONE),
    "layers disagree": (near(2), [PASSED], {"mixed": "a up, b down"}, UNSURE, "mixed by depth: a up, b down"),
    "layers disagree, too small": (near(0), [PASSED], {"mixed": "a, b"}, UNSURE, "mixed by depth: a, b"),
    "too small": (near(0.2), [PASSED], {}, NOT, SMALL),
    "too small, a test fails": (near(0.2), [FAILED], {}, NOT, SMALL),
    "too small, a test is missing": (near(-0.2), [MISSING], {}, NOT, SMALL),
    "too small, just": (near(0.85, 0.149), [PASSED], {}, NOT, SMALL),
    "too small or not, just": (near(0.85, 0.151), [PASSED], {}, UNSURE, REACHES),
    "too small and negative or not, just": (near(-0.85, 0.151), [BELOW], {}, UNSURE, REACHES),
    "supported": (near(2), [PASSED, condition(near(1.5))], {}, SUPPORTED, ""),
    "supported, nothing fatal declared": (near(2), [], {}, SUPPORTED, ""),
    "supported, at the smallest": (near(1.0), [PASSED], {}, SUPPORTED, ""),
    "below the smallest": (near(0.99), [PASSED], {}, UNSURE, REACHES),
    "large and uncertain": (near(2, 2.1), [PASSED], {}, UNSURE, REACHES),
    "reversed": (near(-2), [BELOW, condition(near(-1.5))], {}, REVERSED, ""),
    "reversed where that cannot be": (near(-2), [BELOW], {"reversible": False}, UNSURE, REACHES),
    "a null fails": (near(2), [FAILED], {}, NULL, "untrained does the same (untrained)"),
    "a null passes the wrong way": (near(2), [BELOW], {}, NULL, "untrained does the same"),
    "reversed, a null fails": (near(-2), [PASSED], {}, NULL, "untrained does the same"),
    "a null only just above": (near(2), [null(near(0.2))], {}, SUPPORTED, ""),
    "a null of which the interval reaches 0": (near(2), [null(near(0.2, 0.21))], {}, NULL, ""),
    "a condition too small": (near(2), [condition(near(0.9))], {}, NULL, "without massive tokens"),
    "a condition uncertain": (near(2), [condition(near(2, 2.1))], {}, NULL, "without massive"),
    "reversed, a condition too small": (near(-2), [condition(near(-0.9))], {}, NULL, "without"),
    "a null is missing": (near(2), [MISSING], {}, UNSURE, "missing: untrained"),
    "reversed, a null is missing": (near(-2), [MISSING], {}, UNSURE, "missing: untrained"),
    "one fails, one is missing": (near(2), [condition(near(0)), MISSING], {}, NULL, "(clean)"),
    "the excess is too small": (near(2), [PASSED], {"floor": (near(0.02, 0.01), 0.05)}, NOT, SMALL),
    "the excess may be too small": (near(2), [PASSED], {"floor": (near(0.04, 0.02), 0.05)}, UNSURE, REACHES),
    "the excess is large enough": (near(2), [PASSED], {"floor": (near(0.06, 0.02), 0.05)}, SUPPORTED, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_first_rule_that_fits(case: str) -> None:
    effect, tests, options, outcome, reason = CASES[case]
    ruling = rule(effect, M, tests, **options)
    assert ruling.outcome == outcome
    assert reason in ruling.reason


def test_a_ruling_says_what_would_change_it() -> None:
    assert rule(near(2), M, [MISSING]).would_change == "an option for untrained"
    assert rule(None, M, [], option="a look with gradients").would_change == "a look with gradients"
    assert rule(near(2), M, [FAILED, condition(near(0))]).would_change == "untrained, clean passing"
    assert "untrained" in rule(near(2), M, [PASSED]).would_change
    assert isinstance(rule(near(2), M, []), Ruling)


def test_replicates_that_drew_nothing_never_make_an_interval_narrow() -> None:
    empty = np.append(2.0, np.full(200, np.nan))
    assert rule(empty, M, []).outcome == "inconclusive"
    some = near(2)
    some[5:50] = np.nan
    assert rule(some, M, [null(some)]).outcome == "supported"


@pytest.mark.parametrize(
    ("outcomes", "joint"),
    [
        ([SUPPORTED, SUPPORTED], SUPPORTED),
        ([REVERSED, REVERSED], REVERSED),
        ([SUPPORTED, REVERSED], UNSURE),
        ([SUPPORTED, NOT], NOT),
        ([REVERSED, NOT], NOT),
        ([SUPPORTED, NULL], NULL),
        ([NOT, NULL], NOT),
        ([NULL, UNSURE], UNSURE),
        ([SUPPORTED, NOT, NULL, UNSURE, REVERSED], UNSURE),
        ([SUPPORTED, REVERSED, NULL], NULL),
    ],
)
def test_joined_verdicts_are_as_weak_as_the_weakest(outcomes: list[str], joint: str) -> None:
    for order in (outcomes, outcomes[::-1]):
        assert weaker(order) == joint


# Arithmetic on replicates


def test_log_odds_is_the_share_over_its_random_normal_control() -> None:
    for share, rank, width in ((0.3, 4, 32), (0.01, 8, 64), (0.9, 1, 3)):
        normal = (1 - share) * rank / (width - rank)
        assert log_odds(np.array([share]), rank / width) == pytest.approx(np.log2(share / normal))
    assert np.isfinite(log_odds(np.array([0.0, 1.0]), 0.1)).all()


def test_intervals_and_medians_leave_the_estimate_in_its_place() -> None:
    x = np.append(50.0, np.arange(201.0))
    assert interval(x) == (5.0, 195.0)
    assert interval(np.array([3.0])) == (3.0, 3.0)
    parts = [np.array([1.0, 9.0]), np.array([2.0, 8.0]), np.array([5.0, 1.0])]
    assert median(parts).tolist() == [2.0, 8.0]


def test_a_p_value_is_the_estimate_over_its_bootstrap_error() -> None:
    rng = np.random.default_rng(0)
    x = np.append(2.0, rng.normal(7.0, 1.0, 5000))
    assert p_value(x) == pytest.approx(2 * stats.norm.sf(2.0), rel=0.1)
    assert p_value(-x) == p_value(x)
    assert p_value(np.array([0.0, 0.0, 0.0])) == 1.0
    assert p_value(np.array([1.0, 1.0, 1.0])) == 0.0


def test_discoveries_keep_the_false_discovery_rate() -> None:
    """Benjamini-Hochberg by hand on the p-values, and its rate over null families with some true effects among them."""
    rng = np.random.default_rng(1)
    rates = []
    for _ in range(200):
        truth = np.r_[np.full(5, 4.0), np.zeros(15)]
        parts = [np.append(value, rng.normal(value, 1, 200)) for value in rng.normal(truth)]
        found = discoveries(parts)
        p = np.array([p_value(part) for part in parts])
        order = np.sort(p)
        passing = order[order <= 0.05 * np.arange(1, 21) / 20]
        assert ((found != 0) == (p <= (passing.max() if len(passing) else -1))).all()
        assert (found[found != 0] == np.sign([part[0] for part, sign in zip(parts, found, strict=True) if sign])).all()
        rates.append((found[5:] != 0).sum() / max(1, (found != 0).sum()))
    assert np.mean(rates) < 0.07


def test_layers_are_mixed_when_a_quarter_goes_each_way() -> None:
    up, down, flat = near(2), near(-2), near(0.0)
    names = ["a", "b", "c", "d"]
    assert mixed_by_depth(names, [up, up, up, down]) == "above in a, b, c; below in d"
    assert mixed_by_depth([*names, "e"], [up, up, up, up, down]) == ""
    assert mixed_by_depth(names, [up, flat, flat, down]) == "above in a; below in d"
    assert mixed_by_depth(names, [up, up, up, flat]) == ""
    assert mixed_by_depth(["a"], [up]) == ""
