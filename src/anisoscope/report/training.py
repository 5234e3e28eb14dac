"""Charts over training: shares beside their controls, and the loss."""

import math
from typing import Any

import altair as alt
import numpy as np

from .canvas import INK, MEASURE, MUTED, PERCENT, Drawing, finish, in_words, layered, named, records, scale, tips
from .rows import MEDIAN, Row, RunRows
from .words import title_of

BESIDE = ("oracle", "random_normal", "next_directions", "permuted_labels", "sampled_labels", "")  # the last on top


def energy_over_steps(run: RunRows) -> Drawing | None:
    """Energy share of the leading directions over training, beside its controls: the median over blocks, or one."""
    rows = [row | {"name": title_of(row["series"])} for row in [*run.medians(*BESIDE), *run.shares(*BESIDE)]]
    if not rows:
        return None
    held = [name for name in BESIDE if any(row["series"] == name for row in rows)]
    colour = alt.Color("series:N", legend=None, scale=scale(held, "paint"))
    dash = alt.StrokeDash("series:N", legend=None, scale=scale(held, "dash"))
    x, y = step_axis(run), alt.Y("y:Q", title="share", axis=PERCENT).scale(domain=[0, 1], clamp=True)
    width = {"condition": {"test": "datum.series === ''", "value": 3.2}, "value": 1.6}
    size = {"condition": {"test": "datum.series === ''", "value": 34}, "value": 14}
    base = named("shares")
    chosen = base.transform_filter("datum.depth === depth")
    banded = chosen.transform_filter("datum.series === '' || datum.series === 'random_normal'")
    single = base.transform_filter(f"depth === {MEDIAN} && datum.depth !== {MEDIAN} && datum.series === ''")
    tooltip = tips("name", "layer", "at_step", "y", "between", "n")
    chart = layered(
        single.mark_line(color=MEASURE, strokeWidth=1, opacity=0.35).encode(x, y, detail="depth:N"),
        banded.mark_area(opacity=0.2).encode(x, alt.Y("low:Q"), alt.Y2("high:Q"), color=colour),
        chosen.mark_line().encode(x, y, color=colour, strokeDash=dash, strokeWidth=width, order="at:Q"),
        chosen.mark_point(filled=True, opacity=1).encode(x, y, color=colour, size=size),
        chosen.mark_point(size=140, opacity=0, fill=INK).encode(x, y, tooltip=tooltip),
    ).add_params(alt.param(name="depth", value=MEDIAN))
    said = ("depth", "layer", "series", "name", "at", "at_step", "y", "low", "high", "interval", "n")
    return finish(chart, 330, shares=records([row | _when(row) for row in rows], *said))


def dimension_over_steps(run: RunRows) -> Drawing | None:
    """Intrinsic dimension of the activations over training: block by block, their median, and that of Gaussians."""
    rows = [row | _when(row) for row in run.shape("intrinsic_dimension_twonn")]
    rows = [row for row in rows if row["depth"] > 0] or rows
    groups: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["look"], row["series"]), []).append(row)
    rows = [row for row in rows if not row["series"]]
    for group in groups.values():
        middle = {name: float(np.median([row[name] for row in group])) for name in ("value", "n")}
        nothing = {"depth": MEDIAN, "layer": "median over blocks", "low": None, "high": None}
        rows.append(group[0] | middle | nothing)
    if not rows:
        return None
    rows = [row | {"dimension": row["value"], "name": title_of(row["series"] or "intrinsic_dimension_twonn")}
            for row in rows]  # fmt: skip
    x, y = step_axis(run), alt.Y("dimension:Q", title="dimensions", axis=alt.Axis(tickCount=5)).scale(zero=True)
    base = named("dimensions", ".1f")
    single = base.transform_filter(f"datum.depth !== {MEDIAN}")
    mine, gaussian = (
        base.transform_filter(f"datum.depth === {MEDIAN} && datum.series === '{name}'") for name in ("", "gaussian")
    )
    tooltip = tips("name", "layer", "at_step", "dimension", "between", "n")
    chart = layered(
        single.mark_line(color=MEASURE, strokeWidth=1, opacity=0.35).encode(x, y, detail="depth:N"),
        gaussian.mark_line(color=MUTED, strokeDash=[2, 4], strokeWidth=1.5).encode(x, y),
        gaussian.mark_point(color=MUTED, filled=True, size=40, opacity=1).encode(x, y),
        mine.mark_line(color=MEASURE, strokeWidth=3.2).encode(x, y),
        base.mark_point(size=110, opacity=0, fill=INK).encode(x, y, tooltip=tooltip),
    )
    said = ("depth", "layer", "series", "name", "at", "at_step", "dimension", "low", "high", "interval", "n")
    return finish(chart, 230, dimensions=records(rows, *said))


def _when(row: Row) -> Row:
    return {"at": row["step"] or 0, "at_step": in_words(row["step"])}


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


def loss_over_steps(run: RunRows) -> Drawing | None:
    """Loss on the test windows over training, beside that of a uniform guess."""
    rows = [row | _when(row) | {"loss": row["value"]} for row in run.loss()]
    if not rows:
        return None
    x, axis = step_axis(run), alt.Axis(tickCount=4)
    y, band, guess = (
        alt.Y(f"{name}:Q", title="nats per token", axis=axis).scale(zero=False) for name in ("loss", "low", "chance")
    )
    base = named("loss", ".3f")
    layers = [
        base.mark_area(color=MEASURE, opacity=0.2).encode(x, band, alt.Y2("high:Q")),
        base.mark_line(color=MEASURE, strokeWidth=2.5).encode(x, y),
        base.mark_point(color=MEASURE, size=30, filled=True, opacity=1).encode(
            x, y, tooltip=tips("at_step", "loss", "between", "n")
        ),
    ]
    if any(row["chance"] is not None for row in rows):
        layers.append(base.mark_line(color=MUTED, strokeDash=[2, 4], strokeWidth=1.5).encode(x, guess))
    said = ("at", "at_step", "loss", "low", "high", "interval", "chance", "n")
    return finish(layered(*layers), 190, loss=records(rows, *said))
