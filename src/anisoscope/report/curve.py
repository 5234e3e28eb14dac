"""The capture curve: the one picture of where gradients lie among the directions in which activations vary."""

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt

from .canvas import INK, MEASURE, MUTED, PAPER, PERCENT, Drawing, finish, in_words, layered, named, records, scale, tips
from .palette import SERIES, series_of
from .rows import Row, RunRows
from .words import title_of

_HEIGHT = 420
_SHOWN = "datum.look === look && datum.depth === depth"


def capture_curve(run: RunRows, depth: int) -> Drawing | None:
    """Share of activation variance against share of gradient energy, for the leading directions, one to all."""
    stills = {look: at for at, look in enumerate(run.stills)}
    known = [row for row in run.energy if row["look"] in stills and row["x"] is not None]
    rows: list[Row] = [row | {"look": stills[row["look"]]} for row in known]
    lines = [row for row in rows if row["series"] in ("", "oracle")]
    none: Row = dict.fromkeys(("rank", "x", "y", "low", "high", "chance"), 0)
    lines += {(row["look"], row["depth"], row["series"]): row | none for row in lines}.values()
    points = [
        row | {"name": title_of(row["series"])} for row in rows if row["is_primary"] and row["series"] != "oracle"
    ]
    order = {name: place for place, name in enumerate(SERIES)}
    points.sort(key=lambda row: order.get(row["series"], len(order)))  # the measurement first: large, below the others
    if not points:
        return None
    params = alt.param(name="look", value=len(stills) - 1), alt.param(name="depth", value=depth)
    kinds = list({row["series"]: None for row in points})
    chart = layered(_diagonal(), *_lines(), *_points(kinds), _step()).add_params(*params)
    said = ("look", "depth", "series", "rank", "x", "y", "low", "high", "n")
    return finish(
        chart,
        _HEIGHT,
        curve=records(lines, *said, "chance"),
        points=records(points, *said, "name", "interval"),
        ends=records([{"x": 0, "y": 0}, {"x": 1, "y": 1}], "x", "y"),
        looks=records(
            [{"look": at, "step": f"step {in_words(run.steps[look])}"} for look, at in stills.items()], "look", "step"
        ),
    )


def _x() -> alt.X:
    scale = alt.Scale(domain=[0, 1], nice=False)
    return alt.X("x:Q", title="share of the activations' variance", axis=PERCENT, scale=scale)


def _y(field: str = "y") -> alt.Y:
    scale = alt.Scale(domain=[0, 1], nice=False, clamp=True)
    return alt.Y(f"{field}:Q", title="share of the gradients' energy", axis=PERCENT, scale=scale)


def _diagonal() -> alt.Chart:
    return named("ends").mark_line(color=MUTED, strokeDash=[2, 4], strokeWidth=1).encode(_x(), _y())


def _lines() -> Iterator[alt.Chart]:
    base = named("curve").transform_filter(_SHOWN)
    mine, best = (base.transform_filter(f"datum.series === '{series}'") for series in ("", "oracle"))
    oracle, random = series_of("oracle"), series_of("random_normal")
    thin: dict[str, Any] = {"strokeWidth": 1.5}
    yield mine.mark_area(color=MEASURE, opacity=0.2).encode(_x(), _y("low"), alt.Y2("high:Q"))
    yield best.mark_line(color=oracle.paint, strokeDash=oracle.dash, **thin).encode(_x(), _y(), order="rank:Q")
    yield mine.mark_line(color=random.paint, **thin).encode(_x(), _y("chance"), order="rank:Q")
    yield mine.mark_line(color=MEASURE, strokeWidth=3).encode(_x(), _y(), order="rank:Q")
    told = base.transform_calculate(name=f"datum.series === '' ? '{title_of('')}' : '{title_of('oracle')}'")
    tooltip = tips("name", "rank", "x", "y", "between", "chance", "n")
    yield told.mark_point(size=90, opacity=0, fill=INK).encode(_x(), _y(), tooltip=tooltip)


def _points(kinds: Sequence[str]) -> Iterator[alt.Chart]:
    base = named("points").transform_filter(_SHOWN)
    bars = alt.Color("series:N", legend=None, scale=scale(kinds, "paint"))
    fill = alt.Fill("series:N", legend=None, scale=scale(kinds, "paint"))
    shape = alt.Shape("series:N", legend=None, scale=scale(kinds, "shape"))
    # The measurement is a ring: controls with its very directions (other labels, other weights) lie above and below it.
    mine = "datum.series === ''"
    size = {"condition": {"test": mine, "value": 330}, "value": 64}
    see_through = {"condition": {"test": mine, "value": 0.35}, "value": 1}
    tooltip = tips("name", "rank", "x", "y", "between", "n")
    yield base.mark_rule(strokeWidth=1.2, opacity=0.7).encode(_x(), _y("low"), alt.Y2("high:Q"), color=bars)
    dots = base.mark_point(filled=True, opacity=1, stroke=PAPER, strokeWidth=0.5)
    yield dots.encode(_x(), _y(), fill=fill, fillOpacity=see_through, shape=shape, size=size, tooltip=tooltip)


def _step() -> alt.Chart:
    base = named("looks").transform_filter("datum.look === look")
    style: dict[str, Any] = {"align": "left", "baseline": "top", "fontSize": 20, "fontWeight": 600}
    corner = {"x": alt.value(12), "y": alt.value(12)}  # top left: where no curve comes near
    return base.mark_text(**style, color=MUTED, opacity=0.5).encode(text="step:N", **corner)
