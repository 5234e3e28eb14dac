"""The calibration, cut short: the same functions with few repetitions, and the bands that so few can tell."""

import numpy as np
import pytest

from anisoscope.protocol import observe
from benchmarks.calibration import page
from benchmarks.calibration.alarms import false_alarms
from benchmarks.calibration.coverage import coverage
from benchmarks.calibration.dimension import biases
from benchmarks.calibration.power import power
from benchmarks.calibration.rises import flat_curves
from benchmarks.calibration.samples import scores_by_rows
from benchmarks.calibration.table import Rate, rates

# First order counts noise twice: these cover too much, and the page says so.
WIDE = ("anisotropy_share of random_normal", "energy_share of oracle", "average_cosine")


def test_false_alarms_are_about_as_many_as_they_should_be() -> None:
    found = false_alarms(80)
    assert len(found) > 10
    assert [one.what for one in found if not one.holds] == [], rates(found)


def test_intervals_cover() -> None:
    found = coverage(80)
    assert [one.what for one in found if not one.holds and one.what not in WIDE] == [], rates(found)


def test_intervals_of_half_the_width_are_seen_not_to_cover(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observe, "stretched", lambda counts: 1 + 0.5 * (counts - 1))
    assert sum(not one.holds for one in coverage(40)) > 10


def test_a_plain_preference_is_seen_and_none_is_not() -> None:
    none, strong = power(20, strengths=(1.0, 3.0))
    assert none.seen <= 0.25
    assert none.large == 0
    assert strong.seen == strong.large == 1


def test_flat_curves_seldom_rise_and_fall() -> None:
    found = flat_curves(200)
    assert all(one.holds for one in found), rates(found)


def test_a_rate_holds_within_its_band_and_what_its_repetitions_can_tell() -> None:
    assert Rate("", 65, 1000, 0.05, 0.015).holds
    assert not Rate("", 90, 1000, 0.05, 0.015).holds
    assert not Rate("", 5, 1000, 0.05, 0.015).holds
    assert Rate("", 5, 1000, 0.05, 0.015, at_most=True).holds


def test_the_page_is_written_with_its_plots(tmp_path: object) -> None:
    found = {
        "alarms": [Rate("a", 5, 100, 0.05, 0.015)],
        "coverage of 64": [Rate("b", 50, 100, 0.95, 0.02)],
        "coverage of 16": [],
        "power": power(2, strengths=(1.0, 2.0)),
        "dimension": biases(1, rows=(128,)),
        "samples": scores_by_rows(width=16, rows=(32, 64)),
        "rises": [],
    }
    path = page.write(found, tmp_path, 1.0)
    text = path.read_text()
    assert "| b | 95% ± 2 | 50.0% | 100 | **no** |" in text
    for line in text.splitlines():
        if line.startswith("!["):
            assert (tmp_path / line.split("(")[1].rstrip(")")).stat().st_size > 1000
    assert [one.what for one in page.holds(found)] == ["b"]
    assert np.all([row["found"] > 0 for row in found["samples"] if row["score"] == "isoscore_star"])
