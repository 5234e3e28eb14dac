"""Charts over training: shares beside their controls, and the loss."""

import math
from typing import Any

import altair as alt

from .canvas import INK, OVER, PERCENT, SMALL, between, depth_choice, finish, layered, named, records, tips
from .palette import MEASUREMENT, series_of
from .rows import MEDIAN, Row, RunRows

BESIDE_ENERGY = ("", "sampled_labels", "permuted_labels", "next_directions", "random_normal", "oracle")
BESIDE_ANISOTROPY = ("", "random_normal")


def energy_over_steps(run: RunRows) -> alt.LayerChart:
    """Energy share of the leading directions over training, beside its controls: the median over blocks, or one."""
    question = "How much of the gradient lies in the leading directions, as training goes on?"
    return _shares_over_steps(run, "energy_share", BESIDE_ENERGY, question, 330, depth_choice(run, MEDIAN))


def anisotropy_share_over_steps(run: RunRows) -> alt.LayerChart:
    """Share of the gradients' anisotropy inside the leading directions, beside that of random directions outside."""
    question = "Is what is lopsided about the gradients in those directions too?"
    only = alt.param(name="depth", value=MEDIAN)
    return _shares_over_steps(run, "anisotropy_share", BESIDE_ANISOTROPY, question, SMALL, only)


def _shares_over_steps(
    run: RunRows, statistic: str, controls: tuple[str, ...], question: str, height: int, choice: alt.Parameter
) -> alt.LayerChart:
    rows = [_described(row) for row in [*run.medians(statistic, controls), *run.shares(statistic, controls)]]
    held = [name for name in reversed(controls) if any(row["control"] == name for row in rows)]
    series = [series_of(name) for name in held]
    colour = alt.Color("control:N", legend=None).scale(domain=held, range=[one.light for one in series])
    dash = alt.StrokeDash("control:N", legend=None).scale(
        domain=held, range=[list(one.dash or (1, 0)) for one in series]
    )
    x, y = step_axis(run), alt.Y("value:Q", title="share", axis=PERCENT).scale(domain=[0, 1], clamp=True)
    width = {"condition": {"test": "datum.control === ''", "value": 3.2}, "value": 1.6}
    size = {"condition": {"test": "datum.control === ''", "value": 34}, "value": 14}
    base = named("shares")
    chosen = base.transform_filter("datum.depth === depth")
    banded = chosen.transform_filter("datum.control === '' || datum.control === 'random_normal'")
    single = base.transform_filter(f"depth === {MEDIAN} && datum.depth !== {MEDIAN} && datum.control === ''")
    chart = layered(
        single.mark_line(color=MEASUREMENT.light, strokeWidth=1, opacity=0.35).encode(x, y, detail="depth:N"),
        banded.mark_area(opacity=0.2).encode(x, alt.Y("low:Q"), alt.Y2("high:Q"), color=colour),
        chosen.mark_line().encode(x, y, color=colour, strokeDash=dash, strokeWidth=width, order="at:Q"),
        chosen.mark_point(filled=True, opacity=1).encode(x, y, color=colour, size=size),
        chosen.transform_calculate(between=between(".1%"))
        .mark_point(size=140, opacity=0, fill=INK)
        .encode(x, y, tooltip=_TIPS),
    ).add_params(choice)
    said = ("depth", "layer", "control", "name", "at", "value", "low", "high", "over", "n")
    return finish(chart, run, question, height, shares=records(rows, *said))


_TIPS = tips(
    ("name:N", "what"),
    ("layer:N", "layer"),
    ("at:Q", "step", ","),
    ("value:Q", "share", ".1%"),
    ("between:N", "interval"),
    ("over:N", "which is"),
    ("n:Q", "tokens", ","),
)


def _described(row: Row) -> Row:
    return row | {"at": row["step"] or 0, "name": series_of(row["control"]).label, "over": OVER[row["interval"]]}


def step_axis(run: RunRows) -> alt.X:
    """Steps on a scale that shows step 0 and yet spreads the early looks apart, if they lie as early as that."""
    steps = [step for step in run.steps if step is not None]
    positive = [step for step in steps if step > 0]
    wide = len(positive) > 1 and positive[-1] / positive[0] > 30
    first, last = min(steps, default=0), max(steps, default=0)
    domain = [first, last] if first < last else [first - 1, first + 1]
    scale: dict[str, Any] = {"type": "symlog", "constant": 1} if wide else {"padding": 8}
    axis = alt.Axis(
        values=_ticks(steps or [0], wide),
        labelExpr="'unknown'" if None in run.steps else "format(datum.value, ',')",
        labelOverlap="greedy",
        labelSeparation=8,
        grid=False,
    )
    title = "training step" + (" (log scale)" if wide else "")
    return alt.X("at:Q", title=title, axis=axis, scale=alt.Scale(**scale, domain=domain, nice=False, zero=False))


def _ticks(steps: list[int], wide: bool) -> list[int]:
    """As many steps as there is room for, the last one always among them.

    >>> _ticks([0, 50, 98, 100], wide=False)
    [0, 50, 100]
    """
    places = [math.log1p(step) if wide else float(step) for step in steps]
    room, kept = 0.08 * (places[-1] - places[0]), [len(steps) - 1]
    for at in reversed(range(len(steps) - 1)):
        if places[kept[-1]] - places[at] >= room:
            kept.append(at)
    return [steps[at] for at in reversed(kept)]


def loss_over_steps(run: RunRows) -> alt.LayerChart:
    """Loss on the test windows over training."""
    x, y = step_axis(run), alt.Y("value:Q", title="nats per token", axis=alt.Axis(tickCount=4)).scale(zero=False)
    base = named("loss")
    tooltip = tips(
        ("at:Q", "step", ","),
        ("value:Q", "loss", ".3f"),
        ("between:N", "95% over test sequences"),
        ("n:Q", "tokens", ","),
    )
    band = alt.Y("low:Q").scale(zero=False)
    chart = layered(
        base.mark_area(color=MEASUREMENT.light, opacity=0.2).encode(x, band, alt.Y2("high:Q")),
        base.mark_line(color=MEASUREMENT.light, strokeWidth=2.5).encode(x, y),
        base.transform_calculate(between=between(".3f"))
        .mark_point(color=MEASUREMENT.light, size=30, filled=True, opacity=1)
        .encode(x, y, tooltip=tooltip),
    )
    rows = [row | {"at": row["step"] or 0} for row in run.loss()]
    loss = records(rows, "at", "value", "low", "high", "n")
    return finish(chart, run, "Did the model learn anything at all?", SMALL, loss=loss)
