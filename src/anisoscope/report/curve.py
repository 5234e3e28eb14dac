"""The capture curve: the one picture of where gradients lie among the directions in which activations vary."""

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt

from .canvas import (
    INK,
    MUTED,
    OVER,
    PAPER,
    PERCENT,
    TALL,
    WIDTH,
    between,
    depth_choice,
    finish,
    layered,
    middle_depth,
    named,
    records,
    tips,
)
from .palette import CONTROL_SERIES, MEASUREMENT, SECOND_PROXY, series_of
from .rows import Row, RunRows

_SHOWN = "datum.look === look && datum.depth === depth"
_LINE, _LETTER = 14 / TALL, 6.0 / WIDTH  # the room of a label, in shares of the plot


def capture_curve(run: RunRows) -> alt.LayerChart:
    """Share of activation variance against share of gradient energy, for the leading directions, one to all."""
    stills = {look: at for at, look in enumerate(run.stills)}
    last = max(len(stills) - 1, 0)
    look = alt.param(name="look", value=last, bind=alt.binding_range(min=0, max=last, step=1, name="look "))
    points = sorted(
        (_described(row | {"look": stills[row["look"]]}) for row in run.points()),
        key=lambda row: row["kind"] != "measurement",
    )  # drawn first, large
    _place_labels(points)
    chart = layered(_diagonal(), *_lines(), *_points(points), _step_label()).add_params(
        look, depth_choice(run, middle_depth(run))
    )
    said = ("name", "kind", "rank", "x", "y", "low", "high", "over", "n", "label", "label_y", "align")
    return finish(
        chart,
        run,
        "Do gradients prefer the directions in which activations vary most?",
        TALL,
        curve=records(
            [row | {"look": stills[row["look"]]} for row in run.curve()],
            "look",
            "depth",
            "control",
            "rank",
            "x",
            "y",
            "low",
            "high",
            "chance",
            "n",
        ),
        points=records(points, "look", "depth", *said),
        ends=[{"x": 0, "y": 0}, {"x": 1, "y": 1}],
        looks=[{"look": at, "label": _in_words(run.steps[look])} for look, at in stills.items()],
    )


def _in_words(step: int | None) -> str:
    return "step unknown" if step is None else f"step {step:,}"


def _x() -> alt.X:
    return alt.X("x:Q", title="share of the activations' variance", axis=PERCENT).scale(domain=[0, 1], nice=False)


def _y(field: str = "y") -> alt.Y:
    scale = alt.Scale(domain=[0, 1], nice=False, clamp=True)
    return alt.Y(f"{field}:Q", title="share of the gradients' energy", axis=PERCENT, scale=scale)


def _diagonal() -> alt.Chart:
    return named("ends").mark_line(color=MUTED, strokeDash=[2, 4], strokeWidth=1).encode(_x(), _y())


def _lines() -> list[alt.Chart]:
    base = named("curve").transform_filter(_SHOWN)
    mine, best = (base.transform_filter(f"datum.control === '{control}'") for control in ("", "oracle"))
    oracle, random = CONTROL_SERIES["oracle"], CONTROL_SERIES["random_normal"]
    told = base.transform_filter("datum.rank > 0").transform_calculate(
        between=between(".1%"),
        name="datum.control === 'oracle' ? 'oracle: leading directions of the gradients' : 'leading directions'",
    )
    tooltip = tips(
        ("name:N", "what"),
        ("rank:Q", "directions"),
        ("x:Q", "share of variance", ".1%"),
        ("y:Q", "share of gradient energy", ".1%"),
        ("between:N", "95% over test sequences"),
        ("chance:Q", "chance", ".1%"),
        ("n:Q", "tokens", ","),
    )
    thin: dict[str, Any] = {"strokeWidth": 1.5}
    return [
        mine.mark_area(color=MEASUREMENT.light, opacity=0.2).encode(_x(), _y("low"), alt.Y2("high:Q")),
        best.mark_line(color=oracle.light, strokeDash=list(oracle.dash), **thin).encode(_x(), _y(), order="rank:Q"),
        mine.mark_line(color=random.light, **thin).encode(_x(), _y("chance"), order="rank:Q"),
        mine.mark_line(color=MEASUREMENT.light, strokeWidth=3).encode(_x(), _y(), order="rank:Q"),
        told.mark_point(size=90, opacity=0, fill=INK).encode(_x(), _y(), tooltip=tooltip),
    ]


def _points(rows: Sequence[Row]) -> Iterator[alt.Chart]:
    kinds = {row["kind"]: row["series"] for row in rows}
    colour = alt.Scale(domain=list(kinds), range=[series.light for series in kinds.values()])
    shape = alt.Scale(domain=list(kinds), range=[series.shape for series in kinds.values()])
    tooltip = tips(
        ("name:N", "what"),
        ("rank:Q", "directions"),
        ("x:Q", "share of variance", ".1%"),
        ("y:Q", "share of gradient energy", ".1%"),
        ("between:N", "interval"),
        ("over:N", "which is"),
        ("n:Q", "tokens", ","),
    )
    size = {"condition": {"test": "datum.kind === 'measurement'", "value": 330}, "value": 64}
    base = named("points").transform_filter(_SHOWN).transform_calculate(between=between(".1%"))
    bars = alt.Color("kind:N", legend=None, scale=colour)
    yield base.mark_rule(strokeWidth=1.2, opacity=0.7).encode(_x(), _y("low"), alt.Y2("high:Q"), color=bars)
    yield from _labels(base)
    yield base.mark_point(filled=True, opacity=1, stroke=PAPER, strokeWidth=1).encode(
        _x(),
        _y(),
        fill=alt.Fill("kind:N", legend=None, scale=colour),
        shape=alt.Shape("kind:N", legend=None, scale=shape),
        size=size,
        tooltip=tooltip,
    )


def _labels(base: alt.Chart) -> Iterator[alt.Chart]:
    """Names beside the points, over a halo of paper, where there is room for them; a thin line leads to a moved one."""
    room = alt.value(alt.expr("width < 380 ? 0 : 1"))
    for align, dx in (("left", 10), ("right", -10)):
        named = base.transform_filter(f"datum.label !== '' && datum.align === '{align}'").encode(_x())
        moved = named.transform_filter(f"abs(datum.y - datum.label_y) > {_LINE / 2:.3f}")
        lead: dict[str, Any] = {"color": MUTED, "strokeWidth": 0.7, "x2Offset": dx - dx / 5, "opacity": 0.8}
        yield moved.mark_rule(**lead).encode(_y(), alt.X2("x:Q"), alt.Y2("label_y:Q"), strokeOpacity=room)
        words = named.encode(_y("label_y"), alt.Text("label:N"), opacity=room)
        style: dict[str, Any] = {"align": align, "dx": dx, "baseline": "middle", "fontSize": 11}
        yield words.mark_text(**style, stroke=PAPER, strokeWidth=4, strokeOpacity=0.85, strokeJoin="round", color=PAPER)
        yield words.mark_text(**style, color=INK)


def _step_label() -> alt.Chart:
    base = named("looks").transform_filter("datum.look === look")
    corner = {"x": alt.value(12), "y": alt.value(12)}  # top left: where no curve comes near
    style: dict[str, Any] = {"align": "left", "baseline": "top", "fontSize": 20, "fontWeight": 600}
    return base.mark_text(**style, color=MUTED, opacity=0.5).encode(text="label:N", **corner)


def _described(row: Row) -> Row:
    """A point with its looks and its name."""
    other = not row["control"] and row["proxy"] != "pca"
    series = SECOND_PROXY if other else series_of(row["control"])
    kind = row["control"] or ("other proxy" if other else "measurement" if row["is_primary"] else "other rank")
    label = "" if other else str(row["rank"]) if kind == "other rank" else series.short
    if kind == "measurement":
        label = f"{row['rank']} leading directions"
    room = _LETTER * len(label) + 0.03
    align = "left" if row["x"] + room <= 1 else "right"
    box = (row["x"], row["x"] + room) if align == "left" else (row["x"] - room, row["x"])
    placed = {"series": series, "kind": kind, "name": series.label, "label": label, "align": align, "box": box}
    return row | placed | {"label_y": row["y"], "over": OVER[row["interval"]]}


def _place_labels(rows: Sequence[Row]) -> None:
    """Spreads labels that would cover one another around the height they share, frame by frame.

    Mere numbers stand only where there is room left.
    """
    frames: dict[tuple[int, int], list[list[Row]]] = {}
    named = [row for row in rows if row["label"] and row["kind"] != "other rank"]
    for row in sorted(named, key=lambda row: row["y"]):
        clusters = frames.setdefault((row["look"], row["depth"]), [])
        cluster = [row]
        while below := next((other for other in clusters if _collide(other, cluster)), None):
            clusters.remove(below)
            cluster = sorted(below + cluster, key=lambda row: row["y"])
            _stack(cluster)
        clusters.append(cluster)
    for row in (row for row in rows if row["kind"] == "other rank"):
        clusters = frames.setdefault((row["look"], row["depth"]), [])
        if any(_collide(other, [row]) for other in clusters):
            row["label"] = ""
        else:
            clusters.append([row])


def _collide(one: Sequence[Row], other: Sequence[Row]) -> bool:
    return any(
        a["box"][0] < b["box"][1] and b["box"][0] < a["box"][1] and abs(a["label_y"] - b["label_y"]) < 0.99 * _LINE
        for a in one
        for b in other
    )


def _stack(cluster: Sequence[Row]) -> None:
    middle = sum(row["y"] for row in cluster) / len(cluster)
    lowest = min(max(middle - _LINE * (len(cluster) - 1) / 2, 0.02), 0.98 - _LINE * (len(cluster) - 1))
    for place, row in enumerate(cluster):
        row["label_y"] = lowest + place * _LINE
