"""Maps of layers by steps: enrichment around chance, and the anisotropy of the activations."""

import math
from collections.abc import Sequence

import altair as alt

from .canvas import INK, PAPER, between, finish, layered, lookup, named, records, tick, tips
from .palette import DIVERGING, SEQUENTIAL
from .rows import Row, RunRows

ANISOTROPY_EDGES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7)


def class_width(runs: Sequence[RunRows]) -> float:
    """How many doublings one colour of the enrichment map spans: the least with which nine classes hold all runs."""
    rows = [row for run in runs for row in run.shares("enrichment", ("",))]
    largest = max((abs(_doublings(row["value"])) for row in rows), default=0.0)
    return next((width for width in (0.25, 0.5, 1.0, 2.0) if 4.5 * width >= largest), 4.0)


def _doublings(enrichment: float) -> float:
    return math.log2(max(enrichment, 2**-12))


def enrichment_map(run: RunRows, width: float | None = None) -> alt.LayerChart:
    """How many times the energy share of the leading directions doubles that of chance, by layer and step.

    `width` is what one colour spans, in doublings; several runs need the same to be compared.
    """
    width = width or class_width([run])
    rows = [
        row | {"doublings": _doublings(row["value"]), "unsure": _unsure(row)} for row in run.shares("enrichment", ("",))
    ]
    classes = alt.Scale(
        type="threshold",
        domain=[width * (i + 0.5) for i in range(-4, 4)],
        range=[light for light, _ in DIVERGING.values()],
    )
    colour = alt.Color("doublings:Q", scale=classes, legend=alt.Legend(title="doublings", format="+.2~f"))
    tooltip = tips(
        ("layer:N", "layer"),
        ("step:N", "step"),
        ("value:Q", "times chance", ".2f"),
        ("between:N", "95% over test sequences"),
        ("doublings:Q", "doublings", "+.2f"),
        ("n:Q", "tokens", ","),
    )
    x, y = _axes(run)
    chart = layered(
        _cells(run, ".2f").encode(x, y, color=colour, tooltip=tooltip),
        named("cells").transform_filter("datum.unsure").mark_point(size=12, filled=True, color=INK).encode(x, y),
    )
    question = "Where in the network, and when, do gradients gather in those directions?"
    cells = records(rows, "look", "depth", "layer", "doublings", "value", "low", "high", "unsure", "n")
    return finish(chart, run, question, _height(run, 34), cells=cells)


def _unsure(row: Row) -> bool:
    return row["low"] is not None and row["low"] <= 1 <= row["high"]


def anisotropy_map(run: RunRows) -> alt.LayerChart:
    """Anisotropy of the activations (the share of their variance in one direction), by layer and step."""
    classes = alt.Scale(type="threshold", domain=ANISOTROPY_EDGES, range=[light for light, _ in SEQUENTIAL.values()])
    colour = alt.Color("value:Q", scale=classes, legend=alt.Legend(title="in one direction", format=".0%"))
    tooltip = tips(
        ("layer:N", "layer"),
        ("step:N", "step"),
        ("value:Q", "anisotropy", ".1%"),
        ("between:N", "95% over test sequences"),
        ("n:Q", "tokens", ","),
    )
    x, y = _axes(run)
    chart = layered(_cells(run, ".1%").encode(x, y, color=colour, tooltip=tooltip))
    cells = records(run.shape("anisotropy"), "look", "depth", "layer", "value", "low", "high", "n")
    return finish(chart, run, "How lopsided are the activations, block by block?", _height(run, 24), cells=cells)


def _axes(run: RunRows) -> tuple[alt.X, alt.Y]:
    """All looks and all layers, also those without a cell: the maps of two runs have the same rows."""
    steps, layers = dict(enumerate(map(tick, run.steps))), {row["depth"]: row["layer"] for row in run.layers}
    labels = alt.Axis(labelExpr=lookup(steps, "datum.value"), labelAngle=0, labelOverlap="greedy", labelSeparation=6)
    names = alt.Axis(labelExpr=lookup(layers, "datum.value"), labelLimit=110)
    x = alt.X("look:O", title="training step", axis=labels, scale=alt.Scale(domain=list(steps)))
    return x, alt.Y("depth:O", title=None, axis=names, scale=alt.Scale(domain=sorted(layers, reverse=True)))


def _cells(run: RunRows, format: str) -> alt.Chart:
    steps = lookup(dict(enumerate(map(tick, run.steps))), "datum.look")
    seam = 2 if len(run.steps) <= 40 else 0  # between cells wide enough to have one
    told = named("cells").transform_calculate(between=between(format), step=steps)
    return told.mark_rect(stroke=PAPER, strokeWidth=seam, cornerRadius=3)


def _height(run: RunRows, row: int) -> int:
    return max(60, row * len(run.layers))
