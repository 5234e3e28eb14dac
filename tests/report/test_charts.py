"""The charts and the rows behind them."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import vl_convert

from anisoscope.report import curve, figures, maps, palette, training
from anisoscope.report.rows import MEDIAN, MOST_STILLS
from anisoscope.store import METRICS
from anisoscope.store.schema import table
from report.stores import rows_of


@pytest.fixture(scope="module")
def run(two_runs):
    return rows_of(two_runs[0])


def with_data(drawing):
    """A specification that stands alone."""
    tables = {
        name: [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        for name, table in drawing["tables"].items()
    }
    return drawing["spec"] | {"datasets": tables, "width": 400}


@pytest.mark.parametrize("name", ["curve", "energy", "map"])
def test_each_chart_draws_marks(name, run):
    figure = next(figure for figure in figures.figures([run]) if figure.name == name)
    svg = vl_convert.vegalite_to_svg(json.dumps(with_data(figure.panels[0]["drawing"])))
    assert svg.count("<path") > 10
    assert "<script" not in svg
    assert figure.question.endswith("?")


def test_the_loss_stands_beside_a_uniform_guess_where_one_is_known(run):
    rows = [{"step": step, "statistic": "loss", "value": 5.0 - step} for step in (0, 1)]
    without, known = (replace(run, metrics=table(rows, METRICS)), [row | {"chance": 6.2} for row in rows])
    guessed = replace(run, metrics=table(known, METRICS))
    assert [key.label for key in figures.figures([guessed])[-1].keys] == ["loss", "a uniform guess"]
    assert figures.figures([without])[-1].keys == []
    lines = [
        vl_convert.vegalite_to_svg(json.dumps(with_data(training.loss_over_steps(one)))).count("stroke-dasharray")
        for one in (without, guessed)
    ]
    assert lines == [0, 1]


def test_the_dimension_is_drawn_block_by_block_beside_its_gaussian(run):
    rows = [
        {
            "step": step, "layer": f"blocks.{i}", "depth": i, "site": "block", "view": run.view, "control": control,
            "statistic": "intrinsic_dimension_twonn", "value": 10.0 * i + step, "interval": "sequences", "n": 90,
        }
        for step in (0, 1) for i in (0, 1, 2, 3) for control in ("", "gaussian")
    ]  # fmt: skip
    drawing = training.dimension_over_steps(replace(run, metrics=table(rows, METRICS)))
    drawn = with_data(drawing)["datasets"]["dimensions"]
    assert {row["layer"] for row in drawn} == {"blocks.1", "blocks.2", "blocks.3", "median over blocks"}, "no embedding"
    middle = {(row["at"], row["series"]): row["dimension"] for row in drawn if row["depth"] == MEDIAN}
    assert middle == {(step, series): 20 + step for step in (0, 1) for series in ("", "gaussian")}
    assert vl_convert.vegalite_to_svg(json.dumps(with_data(drawing))).count("stroke-dasharray") == 1
    assert training.dimension_over_steps(replace(run, metrics=table([], METRICS))) is None


def test_the_curve_goes_from_none_to_all_and_stays_below_its_oracle(run):
    drawn = with_data(curve.capture_curve(run, 1))["datasets"]["curve"]
    rows = sorted(
        (row for row in drawn if (row["look"], row["depth"]) == (2, 1)), key=lambda row: (row["series"], row["rank"])
    )
    for series in ("", "oracle"):
        mine = [row for row in rows if row["series"] == series]
        assert (mine[0]["x"], mine[0]["y"]) == (0, 0)
        assert (mine[-1]["x"], mine[-1]["y"]) == pytest.approx((1, 1))
    shares = {(row["series"], row["rank"]): row["y"] for row in rows}
    assert all(shares["oracle", rank] >= y - 1e-9 for (series, rank), y in shares.items() if not series)


def test_controls_that_move_no_directions_stand_above_or_below_the_measurement(run):
    drawn = with_data(curve.capture_curve(run, 1))["datasets"]["points"]
    here = {row["series"]: row for row in drawn if (row["look"], row["depth"]) == (2, 1)}
    assert {"", "svd", "sampled_labels", "row_normalised", "next_directions", "random_normal"} <= here.keys()
    assert here["sampled_labels"]["x"] == here["row_normalised"]["x"] == here[""]["x"]
    assert here["next_directions"]["x"] != here[""]["x"]
    assert drawn[0]["series"] == "", "first, and so below the others"


def test_the_median_over_blocks_has_the_interval_of_its_replicates(run):
    last = run.medians("")[-1]
    single = [row for row in run.shares("") if row["look"] == last["look"]]
    assert last["depth"] == MEDIAN
    assert last["y"] == pytest.approx(np.median([row["y"] for row in single]))
    replicates = run.replicates.to_pylist()
    mine = [
        row["replicates"]
        for row in replicates
        if (row["step"], row["proxy"], row["rank"], row["control"], row["view"], row["statistic"])
        == (50, "pca", 4, "", "all", "energy_share")
    ]
    low, high = np.percentile(np.median(mine, axis=0), [2.5, 97.5])
    assert (last["low"], last["high"]) == (pytest.approx(low), pytest.approx(high))


def test_the_median_of_what_is_drawn_has_the_median_of_its_limits(run):
    last = run.medians("random_normal")[-1]
    single = [row for row in run.shares("random_normal") if row["look"] == last["look"]]
    assert last["interval"] == "draws"
    assert last["low"] == pytest.approx(np.median([row["low"] for row in single]))
    assert last["low"] < last["y"] < last["high"]


def test_a_long_run_is_drawn_at_a_bounded_number_of_looks(run):
    rows = table([{"step": step, "statistic": "loss", "value": 1.0} for step in range(100)], METRICS)
    stills = replace(run, metrics=rows).stills
    assert len(stills) == MOST_STILLS
    assert (stills[0], stills[-1]) == (0, 99)


def test_one_slider_serves_runs_of_different_steps(two_runs):
    slider = figures.slider([rows_of(path) for path in two_runs])
    assert slider["labels"] == ["step 0", "step 10", "step 20", "step 50", "step 100"]
    assert slider["stills"] == [[0, 1, 1, 2, 2], [0, 0, 1, 1, 2]]


def test_one_menu_serves_runs_of_different_depths(run):
    names = [{"depth": depth, "layer": f"model.transformer.blocks.{depth}", "site": "block"} for depth in range(1, 6)]
    shallow, deep = (replace(run, metrics=table(names[:number], METRICS)) for number in (2, 5))
    menu = figures.menu([shallow, deep])
    assert [name for _, name in menu["options"]] == [f"{depth}: …transformer.blocks.{depth}" for depth in range(1, 6)]
    assert menu["chosen"] == 2  # both runs have it


def test_the_map_is_centred_at_chance(run):
    drawing = maps.enrichment_map(run, width=0.5)
    scale = drawing["spec"]["layer"][0]["encoding"]["color"]["scale"]
    assert scale["domain"] == [-1.75, -1.25, -0.75, -0.25, 0.25, 0.75, 1.25, 1.75]
    assert scale["range"][4] == "var(--level0)"
    cells = with_data(drawing)["datasets"]["cells"]
    rows = run.metrics.to_pylist()
    enrichment = {
        (row["layer"], str(row["step"])): row["value"]
        for row in rows
        if (row["statistic"], row["proxy"], row["rank"], row["control"], row["view"])
        == ("enrichment", "pca", 4, "", "all")
    }
    assert {(row["layer"], row["at_step"]): row["times"] for row in cells} == pytest.approx(enrichment, rel=1e-3)
    assert maps.class_width([run]) in (0.25, 0.5, 0.75, 1.0, 2.0, 4.0)


def test_every_colour_that_is_named_is_declared(run):
    """Charts, legends, style sheet and template name colours as variables; a wrong name would draw nothing."""
    declared = [dict(palette.variables(theme)) for theme in (0, 1)]
    assert declared[0].keys() == declared[1].keys()
    specs = [
        panel["drawing"]["spec"] for figure in figures.figures([run]) for panel in figure.panels if panel["drawing"]
    ]
    keys = [f"var(--{key.colour})" for figure in figures.figures([run]) for key in figure.keys]
    files = [(Path(figures.__file__).with_name(name)).read_text() for name in ("page.css", "page.html.jinja")]
    named = set(re.findall(r"var\((--\w+)\)", json.dumps(specs) + " ".join(keys + files)))
    assert len(named) > 15
    assert named <= declared[0].keys()
    assert not re.search(r"#[0-9a-f]{6}", json.dumps(specs))
