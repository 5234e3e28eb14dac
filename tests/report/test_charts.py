"""The charts and the rows behind them."""

import json
from dataclasses import replace

import hypothesis
import numpy as np
import pyarrow as pa
import pytest
import vl_convert
from hypothesis import strategies as st

from anisoscope.report import charts, curve, figures, maps, palette
from anisoscope.report.rows import MEDIAN, MOST_STILLS
from anisoscope.store import METRICS
from anisoscope.store.schema import table
from report.stores import HOSTILE, rows_of

CHARTS = [getattr(charts, name) for name in charts.__all__ if name != "loss_over_steps"]


@pytest.fixture(scope="module")
def run(two_runs):
    return rows_of(two_runs[0])


@pytest.mark.parametrize("draw", CHARTS, ids=lambda draw: draw.__name__)
def test_each_chart_stands_alone(draw, run):
    chart = draw(run)
    assert chart.title.text.endswith("?")
    assert chart.title.subtitle == run.name
    svg = vl_convert.vegalite_to_svg(chart.to_json())
    assert svg.count("<path") > 10
    assert "<script" not in svg


def test_the_curve_goes_from_none_to_all_and_stays_below_its_oracle(run):
    rows = [row for row in run.curve() if (row["look"], row["depth"]) == (2, 1)]
    for control in ("", "oracle"):
        mine = [row for row in rows if row["control"] == control]
        assert [row["rank"] for row in mine] == sorted(row["rank"] for row in mine)
        assert (mine[0]["x"], mine[0]["y"]) == (0, 0)
        assert (mine[-1]["x"], mine[-1]["y"]) == pytest.approx((1, 1))
    shares = {(row["control"], row["rank"]): row["y"] for row in rows}
    assert all(shares["oracle", rank] >= y - 1e-9 for (control, rank), y in shares.items() if not control)


def test_controls_that_move_no_directions_stand_above_the_measurement(run):
    points = [row for row in run.points() if (row["look"], row["depth"], row["proxy"]) == (2, 1, "pca")]
    here = {row["control"]: row for row in points if row["is_primary"]}
    assert {"", "sampled_labels", "row_normalised", "next_directions", "random_normal"} <= here.keys()
    assert here["sampled_labels"]["x"] == here["row_normalised"]["x"] == here[""]["x"]
    assert here["next_directions"]["x"] != here[""]["x"]


def test_the_median_over_blocks_has_the_interval_of_its_replicates(run):
    last = run.medians("energy_share", ("",))[-1]
    single = [row for row in run.shares("energy_share", ("",)) if row["look"] == last["look"]]
    assert last["depth"] == MEDIAN
    assert last["value"] == pytest.approx(np.median([row["value"] for row in single]))
    replicates = run.replicates.to_pylist()
    mine = [
        row["replicates"]
        for row in replicates
        if (row["step"], row["proxy"], row["rank"], row["control"], row["view"], row["statistic"])
        == (50, "pca", 4, "", "all", "energy_share")
    ]
    low, high = np.percentile(np.median(mine, axis=0), [2.5, 97.5])
    assert (last["low"], last["high"]) == (pytest.approx(low), pytest.approx(high))


def test_a_long_run_is_drawn_at_a_bounded_number_of_looks(run):
    rows = table([{"step": step, "statistic": "loss", "value": 1.0} for step in range(100)], METRICS)
    stills = replace(run, metrics=rows).stills
    assert len(stills) == MOST_STILLS
    assert (stills[0], stills[-1]) == (0, 99)


def test_one_slider_serves_runs_of_different_steps(two_runs):
    slider = figures.slider([rows_of(path) for path in two_runs])
    assert slider["labels"] == ["step 0", "step 10", "step 20", "step 50", "step 100"]
    assert slider["stills"] == [[0, 1, 1, 2, 2], [0, 0, 1, 1, 2]]


def test_the_map_is_centred_at_chance(run):
    scale = maps.enrichment_map(run, width=0.5).to_dict()["layer"][0]["encoding"]["color"]["scale"]
    assert scale["domain"] == [-1.75, -1.25, -0.75, -0.25, 0.25, 0.75, 1.25, 1.75]
    assert scale["range"][4] == palette.DIVERGING["level0"][0]
    assert maps.class_width([run]) in (0.25, 0.5, 1.0, 2.0, 4.0)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_inside_an_expression_stays_a_name(name, run):
    metrics = run.metrics
    at = metrics.column_names.index("layer")
    chart = maps.anisotropy_map(
        replace(run, metrics=metrics.set_column(at, METRICS.field("layer"), pa.array([name] * len(metrics))))
    )
    expression = chart.to_dict()["layer"][0]["encoding"]["y"]["axis"]["labelExpr"]
    assert name not in expression
    assert json.loads('"' + expression.split("':'")[1].split("'")[0] + '"') == name


@hypothesis.given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=9),
)
def test_no_label_covers_another(places):
    names = list(palette.CONTROL_SERIES)
    rows = [
        curve._described(
            {"look": 0, "depth": 0, "control": names[at % 8], "proxy": "pca", "rank": 4, "is_primary": True,
             "x": x, "y": y, "interval": ""}
        )
        for at, (x, y) in enumerate(places)
    ]  # fmt: skip
    curve._place_labels(rows)
    assert all(0 <= row["label_y"] <= 1 for row in rows)
    assert not any(curve._collide([a], [b]) for a in rows for b in rows if a is not b)


def test_the_colours_of_the_page_are_variables(run):
    drawn = figures.figures([run])
    specs = json.dumps([panel["spec"] for figure in drawn for panel in figure.panels if panel["id"]])
    lights = {light for light, _ in (palette.COLOURS | palette.DIVERGING | palette.SEQUENTIAL).values()}
    assert len(lights) == len(palette.COLOURS) + len(palette.DIVERGING) + len(palette.SEQUENTIAL)
    assert not [light for light in lights if light in specs]
