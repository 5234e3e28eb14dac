"""The map of layers by steps: enrichment around chance."""

import math
from collections.abc import Sequence

import altair as alt

from .canvas import INK, PAPER, Drawing, finish, in_words, layered, named, records, short, tips
from .palette import DIVERGING, paint
from .rows import Row, RunRows


def class_width(runs: Sequence[RunRows]) -> float:
    """How many doublings one colour of the map spans: the least with which nine classes hold all runs."""
    largest = max((abs(_doublings(row["y"] / row["chance"])) for run in runs for row in run.shares("")), default=0.0)
    return next((width for width in (0.25, 0.5, 0.75, 1.0, 2.0) if 4.5 * width >= largest), 4.0)


def _doublings(times: float) -> float:
    return math.log2(max(times, 2**-12))


def enrichment_map(run: RunRows, width: float) -> Drawing | None:
    """How many times the energy share of the leading directions is that of chance, by layer and step.

    `width` is what one colour spans, in doublings, the same for all runs that are to be compared.
    """
    names = {depth: f"{depth}: {short(layer, 14)}" for depth, layer in run.layers.items()}
    rows: list[Row] = []
    for row in run.shares(""):
        times, low, high = (row[name] and row[name] / row["chance"] for name in ("y", "low", "high"))
        unsure = low is not None and low <= 1 <= high
        said = {"row": names[row["depth"]], "at_step": in_words(row["step"]), "doublings": _doublings(times)}
        rows.append(row | said | {"times": times, "low": low, "high": high, "unsure": unsure})
    if not rows:
        return None
    classes = alt.Scale(
        type="threshold",
        domain=[width * (i + 0.5) for i in range(-4, 4)],
        range=[paint(name) for name in DIVERGING],
    )
    colour = alt.Color("doublings:Q", scale=classes, legend=None)
    # All looks and all layers, also those without a cell: the maps of two runs have the same rows.
    axis = alt.Axis(labelAngle=0, labelOverlap="greedy", labelSeparation=6)
    x = alt.X("at_step:N", title="training step", axis=axis).scale(domain=[in_words(step) for step in run.steps])
    y = alt.Y("row:N", title=None, axis=alt.Axis(labelLimit=150)).scale(domain=list(reversed(names.values())))
    cells = named("cells", ".2f")
    seam = 2 if len(run.steps) <= 40 else 0  # between cells wide enough to have one
    tooltip = tips("layer", "at_step", "times", "between", "n")
    chart = layered(
        cells.mark_rect(stroke=PAPER, strokeWidth=seam, cornerRadius=3).encode(x, y, color=colour, tooltip=tooltip),
        cells.transform_filter("datum.unsure").mark_point(size=12, filled=True, color=INK).encode(x, y),
    )
    said = ("at_step", "row", "layer", "doublings", "times", "low", "high", "interval", "unsure", "n")
    return finish(chart, max(60, 34 * len(names)), cells=records(rows, *said))
