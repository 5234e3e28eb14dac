"""The charts of the page, one function each: the rows of one run in, an Altair chart out.

Each stands alone too (in a notebook, with its own slider and menu, `.save("chart.svg")`). The page takes the same
specifications, puts title and caption into its own text, and replaces the menus by one for all runs.
"""

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from .palette import COLOURS, CONTROL_SERIES, DIVERGING, MEASUREMENT, SECOND_PROXY, Series, series_of
from .rows import MEDIAN, Row, RunRows

WIDTH, HEIGHT, SMALL = 470, 420, 190
_INK, _MUTED, _FAINT, _PAPER = (COLOURS[name][0] for name in ("ink", "muted", "faint", "paper"))
_PERCENT = alt.Axis(format=".0%", tickCount=5)
_SHOWN = "datum.look === look && datum.depth === depth"
_BETWEEN = "isValid(datum.low) ? format(datum.low, '{0}') + ' to ' + format(datum.high, '{0}') : 'none'"
_OVER = {"sequences": "95% over test sequences", "draws": "95% over random draws", "seeds": "95% over seeds", "": "none"}

CURVES = ("", "oracle")
POINTS = (*(name for name in CONTROL_SERIES if name != "oracle"),)
BESIDE = ("", "sampled_labels", "next_directions", "random_normal", "oracle")


def _data(rows: Sequence[Row], *columns: str) -> alt.InlineData:
    """Only what a chart needs, rounded: nobody reads a fifth digit off a picture."""
    return alt.InlineData(values=[{name: _short(row[name]) for name in columns} for row in rows])


def _short(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _titled(chart: Any, run: RunRows, question: str, height: int) -> Any:
    title = alt.Title(question, subtitle=run.name, anchor="start", fontSize=13, subtitleColor=_MUTED, color=_INK)
    return chart.properties(title=title, width=WIDTH, height=height, background="transparent").configure(
        view=alt.ViewConfig(stroke=None),
        font="system-ui, -apple-system, 'Segoe UI', sans-serif",
        axis=alt.AxisConfig(
            labelColor=_MUTED,
            titleColor=_MUTED,
            titleFontWeight="normal",
            titleFontSize=12,
            labelFontSize=11,
            gridColor=_FAINT,
            domain=False,
            ticks=False,
            labelPadding=6,
            titlePadding=10,
        ),
    )


def layer_names(run: RunRows) -> dict[int, str]:
    """What a menu calls each depth."""
    return {row["depth"]: f"{row['layer']} (depth {row['depth']})" for row in run.layers}


def middle_depth(run: RunRows) -> int:
    """The block in the middle of the network: what is shown before anybody chooses."""
    depths = [row["depth"] for row in run.layers if row["depth"] > 0] or [row["depth"] for row in run.layers] or [0]
    return depths[len(depths) // 2]


def _depth_choice(run: RunRows, chosen: int, first: dict[int, str]) -> Any:
    names = first | layer_names(run)
    menu = alt.binding_select(options=list(names), labels=list(names.values()), name="layer ")
    return alt.param(name="depth", value=chosen, bind=menu)


# The capture curve ----------------------------------------------------------------------------------------------


def capture_curve(run: RunRows) -> alt.LayerChart:
    """Share of activation variance against share of gradient energy, for the leading directions, 1 to all."""
    last = max(len(run.steps) - 1, 0)
    look = alt.param(name="look", value=last, bind=alt.binding_range(min=0, max=last, step=1, name="look "))
    x = alt.X("x:Q", title="share of the activations' variance", axis=_PERCENT).scale(domain=[0, 1], nice=False)
    layers = [_diagonal(), *_curve_layers(run, x), *_point_layers(run, x), _step_label(run)]
    chart = alt.layer(*layers).add_params(look, _depth_choice(run, middle_depth(run), {}))
    question = "Do gradients prefer the directions in which activations vary most?"
    return _titled(chart, run, question, HEIGHT)


def _share_y(field: str = "y", **more: Any) -> alt.Y:
    title = "share of the gradients' energy"
    return alt.Y(f"{field}:Q", title=title, axis=_PERCENT, **more).scale(domain=[0, 1], nice=False, clamp=True)


def _diagonal() -> alt.Chart:
    ends = alt.Chart(alt.InlineData(values=[{"x": 0, "y": 0}, {"x": 1, "y": 1}]))
    return ends.mark_line(color=_MUTED, strokeDash=[2, 4], strokeWidth=1).encode(x="x:Q", y="y:Q")


def _curve_layers(run: RunRows, x: alt.X) -> list[alt.Chart]:
    rows = run.curve()
    data = _data(rows, "look", "depth", "control", "rank", "x", "y", "low", "high", "chance", "n")
    base = alt.Chart(data).transform_filter(_SHOWN)
    mine, oracle = (base.transform_filter(alt.datum.control == control) for control in CURVES)
    best, random = CONTROL_SERIES["oracle"], CONTROL_SERIES["random_normal"]
    tip = [
        alt.Tooltip("rank:Q", title="leading directions"),
        alt.Tooltip("x:Q", title="share of variance", format=".1%"),
        alt.Tooltip("y:Q", title="share of gradient energy", format=".1%"),
        alt.Tooltip("between:N", title="95% over test sequences"),
        alt.Tooltip("chance:Q", title="chance", format=".1%"),
        alt.Tooltip("n:Q", title="tokens", format=","),
    ]
    told = base.transform_calculate(between=_BETWEEN.format(".1%"))
    return [
        mine.mark_area(color=MEASUREMENT.light, opacity=0.18, clip=True).encode(x, _share_y("low"), alt.Y2("high:Q")),
        oracle.mark_line(color=best.light, strokeWidth=1.5, strokeDash=list(best.dash)).encode(x, _share_y(), order="rank:Q"),
        mine.mark_line(color=random.light, strokeWidth=1.5).encode(x, _share_y("chance"), order="rank:Q"),
        mine.mark_line(color=MEASUREMENT.light, strokeWidth=3).encode(x, _share_y(), order="rank:Q"),
        told.mark_point(size=90, opacity=0, fill=_INK).encode(x, _share_y(), tooltip=tip),
    ]  # fmt: skip


def _point_layers(run: RunRows, x: alt.X) -> list[alt.Chart]:
    rows = [_placed(row) for row in run.points()]
    _spread_labels(rows)
    data = _data(
        rows, "look", "depth", "name", "kind", "rank", "x", "y", "low", "high", "over", "n", "label", "lx", "ly", "side"
    )
    base = alt.Chart(data).transform_filter(_SHOWN).transform_calculate(between=_BETWEEN.format(".1%"))
    kinds = {row["kind"]: row["series"] for row in rows}
    colour = alt.Color("kind:N", legend=None).scale(domain=list(kinds), range=[s.light for s in kinds.values()])
    shape = alt.Shape("kind:N", legend=None).scale(domain=list(kinds), range=[s.shape for s in kinds.values()])
    tip = [
        alt.Tooltip("name:N", title="what"),
        alt.Tooltip("rank:Q", title="directions"),
        alt.Tooltip("x:Q", title="share of variance", format=".1%"),
        alt.Tooltip("y:Q", title="share of gradient energy", format=".1%"),
        alt.Tooltip("between:N", title="95% interval"),
        alt.Tooltip("over:N", title="the interval is"),
        alt.Tooltip("n:Q", title="tokens", format=","),
    ]
    bold = {"condition": {"test": "datum.kind === 'measurement'", "value": 130}, "value": 62}
    text = {"fontSize": 11, "dy": 0, "baseline": "middle"}
    words = base.transform_filter("datum.label !== ''").encode(
        alt.X("lx:Q"), alt.Y("ly:Q"), alt.Text("label:N"), opacity=alt.value(alt.expr("width < 380 ? 0 : 1"))
    )
    return [
        base.mark_rule(strokeWidth=1, opacity=0.7).encode(x, _share_y("low"), alt.Y2("high:Q"), color=colour),
        base.mark_point(filled=True, opacity=1, stroke=_PAPER, strokeWidth=1).encode(
            x, _share_y(), fill=colour, shape=shape, size=bold, tooltip=tip
        ),
        *(
            words.transform_filter(f"datum.side === '{side}'").mark_text(align=side, dx=dx, color=_INK, **text)
            for side, dx in (("left", 9), ("right", -9))
        ),
    ]  # type: ignore[list-item]


def _placed(row: Row) -> Row:
    """A point with its looks, its name, and where its label would like to be."""
    other = not row["control"] and row["proxy"] != "pca"
    series = SECOND_PROXY if other else series_of(row["control"])
    kind = row["control"] or ("other proxy" if other else "measurement" if row["is_primary"] else "other rank")
    label = "" if other else str(row["rank"]) if kind == "other rank" else series.short
    if kind == "measurement":
        label = f"{row['rank']} leading directions"
    side = "left" if row["x"] < 0.6 else "right"
    placed = {"series": series, "kind": kind, "name": series.label, "label": label, "side": side}
    return row | placed | {"lx": row["x"], "ly": row["y"], "over": _OVER[row["interval"]]}


def _spread_labels(rows: Sequence[Row], line: float = 14 / HEIGHT, letter: float = 6.2 / WIDTH) -> None:
    """Moves labels up until none covers another of the same frame; lower ones keep their place."""
    frames: dict[tuple[int, int], list[Row]] = {}
    for row in sorted((row for row in rows if row["label"]), key=lambda row: row["y"]):
        frames.setdefault((row["look"], row["depth"]), []).append(row)
    for frame in frames.values():
        placed: list[tuple[float, float, float]] = []
        for row in frame:
            room = letter * len(row["label"]) + 0.04
            start, end = (row["x"], row["x"] + room) if row["side"] == "left" else (row["x"] - room, row["x"])
            for left, right, height in sorted(placed, key=lambda box: box[2]):
                if start < right and left < end and abs(row["ly"] - height) < line:
                    row["ly"] = height + line
            placed.append((start, end, row["ly"]))


def _step_label(run: RunRows) -> alt.Chart:
    labels = [{"look": look, "label": _step_words(step)} for look, step in enumerate(run.steps)]
    base = alt.Chart(alt.InlineData(values=labels)).transform_filter("datum.look === look")
    corner = {"x": alt.value(alt.expr("width - 6")), "y": alt.value(alt.expr("height - 16"))}
    style = {"align": "right", "baseline": "bottom", "fontSize": 22, "fontWeight": 600, "color": _MUTED, "opacity": 0.55}
    return base.mark_text(**style).encode(text="label:N", **corner)


def _step_words(step: int | None) -> str:
    return "step unknown" if step is None else f"step {step:,}"


# Over training ----------------------------------------------------------------------------------------------------


def energy_over_steps(run: RunRows) -> alt.LayerChart:
    """Energy share of the leading directions over training, beside its controls: the median over blocks, or one."""
    question = "How much of the gradient lies in the leading directions, as training goes on?"
    choice = _depth_choice(run, MEDIAN, {MEDIAN: "median over blocks"})
    return _titled(_shares_over_steps(run, "energy_share", BESIDE).add_params(choice), run, question, 330)


def anisotropy_share_over_steps(run: RunRows) -> alt.LayerChart:
    """Share of the gradients' anisotropy inside the leading directions, beside that of random normal directions."""
    question = "Is the gradients' lopsidedness in those directions too?"
    only_median = alt.param(name="depth", value=MEDIAN)
    chart = _shares_over_steps(run, "anisotropy_share", ("", "random_normal")).add_params(only_median)
    return _titled(chart, run, question, SMALL)


def _shares_over_steps(run: RunRows, statistic: str, controls: tuple[str, ...]) -> alt.LayerChart:
    rows = [
        row | {"at": row["step"] or 0, "name": series_of(row["control"]).label, "over": _OVER[row["interval"]]}
        for row in [*run.medians(statistic, controls), *run.shares(statistic, controls)]
    ]
    data = _data(rows, "depth", "layer", "control", "name", "at", "value", "low", "high", "over", "n")
    base = alt.Chart(data)
    chosen = base.transform_filter("datum.depth === depth")
    held = [name for name in reversed(controls) if any(row["control"] == name for row in rows)]
    series = [series_of(name) for name in held]
    colour = alt.Color("control:N", legend=None).scale(domain=held, range=[one.light for one in series])
    dash = alt.StrokeDash("control:N", legend=None).scale(domain=held, range=[list(one.dash) or [1, 0] for one in series])
    x, y = _step_axis(run), alt.Y("value:Q", title="share", axis=_PERCENT).scale(domain=[0, 1], clamp=True)
    width = {"condition": {"test": "datum.control === ''", "value": 3}, "value": 1.6}
    banded = chosen.transform_filter("datum.control === '' || datum.control === 'random_normal'")
    single = base.transform_filter(f"depth === {MEDIAN} && datum.depth !== {MEDIAN} && datum.control === ''")
    return alt.layer(
        single.mark_line(color=MEASUREMENT.light, strokeWidth=1, opacity=0.3).encode(x, y, detail="depth:N"),
        banded.mark_area(opacity=0.2).encode(x, alt.Y("low:Q"), alt.Y2("high:Q"), color=colour),
        chosen.mark_line().encode(x, y, color=colour, strokeDash=dash, strokeWidth=width, order="at:Q"),
        chosen.mark_point(size=20, filled=True, opacity=1).encode(x, y, color=colour),
        chosen.transform_calculate(between=_BETWEEN.format(".1%"))
        .mark_point(size=140, opacity=0, fill=_INK)
        .encode(x, y, tooltip=_share_tip()),
    )


def _share_tip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("name:N", title="what"),
        alt.Tooltip("layer:N", title="layer"),
        alt.Tooltip("at:Q", title="step", format=","),
        alt.Tooltip("value:Q", title="share", format=".1%"),
        alt.Tooltip("between:N", title="95% interval"),
        alt.Tooltip("over:N", title="the interval is"),
        alt.Tooltip("n:Q", title="tokens", format=","),
    ]


def _step_axis(run: RunRows) -> alt.X:
    """Steps on a scale that shows step 0 and yet spreads the early looks apart, if they lie as early as that."""
    steps = [step for step in run.steps if step is not None]
    positive = [step for step in steps if step > 0]
    wide = len(positive) > 1 and positive[-1] / positive[0] > 30
    scale = alt.Scale(type="symlog", constant=1, nice=False) if wide else alt.Scale(zero=False, nice=False, padding=8)
    names = "'unknown'" if None in run.steps else "format(datum.value, ',')"
    ticks = steps or [0]
    axis = alt.Axis(values=ticks, labelExpr=names, labelOverlap="greedy", labelSeparation=8, grid=False)
    return alt.X("at:Q", title="training step" + (" (log scale)" if wide else ""), axis=axis, scale=scale)


def loss_over_steps(run: RunRows) -> alt.LayerChart:
    """Loss on the test windows over training."""
    data = _data([row | {"at": row["step"] or 0} for row in run.loss()], "at", "value", "low", "high", "n")
    base = alt.Chart(data)
    x, y = _step_axis(run), alt.Y("value:Q", title="nats per token", axis=alt.Axis(tickCount=4)).scale(zero=False)
    tip = [
        alt.Tooltip("at:Q", title="step", format=","),
        alt.Tooltip("value:Q", title="loss", format=".3f"),
        alt.Tooltip("between:N", title="95% over test sequences"),
        alt.Tooltip("n:Q", title="tokens", format=","),
    ]
    told = base.transform_calculate(between=_BETWEEN.format(".3f"))
    chart = alt.layer(
        base.mark_area(color=MEASUREMENT.light, opacity=0.18).encode(x, alt.Y("low:Q").scale(zero=False), alt.Y2("high:Q")),
        base.mark_line(color=MEASUREMENT.light, strokeWidth=2.5).encode(x, y),
        told.mark_point(color=MEASUREMENT.light, size=24, filled=True, opacity=1).encode(x, y, tooltip=tip),
    )  # fmt: skip
    return _titled(chart, run, "Did the model learn anything at all?", SMALL)


# Over depth -------------------------------------------------------------------------------------------------------


def class_width(runs: Sequence[RunRows]) -> float:
    """How many doublings one colour of the enrichment map spans: the least that lets nine classes hold all runs."""
    rows = [row for run in runs for row in run.shares("enrichment", ("",))]
    largest = max((abs(_doublings(row["value"])) for row in rows), default=0.0)
    return next((width for width in (0.25, 0.5, 1.0, 2.0) if 4.5 * width >= largest), 4.0)


def _doublings(enrichment: float | None) -> float:
    return math.log2(max(enrichment or 0.0, 2**-12))


def enrichment_map(run: RunRows, width: float | None = None) -> alt.LayerChart:
    """Layers by steps: how often the energy share of the leading directions doubles that of chance (0: chance)."""
    width = width or class_width([run])
    edges = [width * (i + 0.5) for i in range(-4, 4)]
    rows = [
        row | {"doublings": _doublings(row["value"]), "unsure": row["low"] is not None and row["low"] <= 1 <= row["high"]}
        for row in run.shares("enrichment", ("",))
    ]
    data = _data(rows, "look", "depth", "layer", "doublings", "value", "low", "high", "unsure", "n")
    names = {str(look): _tick(step) for look, step in enumerate(run.steps)}
    layers = {str(row["depth"]): row["layer"] for row in run.layers}
    x = alt.X("look:O", title="training step", axis=alt.Axis(labelExpr=_lookup(names), labelAngle=0, labelOverlap="greedy"))
    y = alt.Y("depth:O", title=None, sort="descending", axis=alt.Axis(labelExpr=_lookup(layers), labelLimit=110))
    classes = alt.Scale(type="threshold", domain=edges, range=[light for light, _ in DIVERGING.values()])
    tip = [
        alt.Tooltip("layer:N", title="layer"),
        alt.Tooltip("step:N", title="step"),
        alt.Tooltip("value:Q", title="times chance", format=".2f"),
        alt.Tooltip("between:N", title="95% over test sequences"),
        alt.Tooltip("doublings:Q", title="doublings", format="+.2f"),
        alt.Tooltip("n:Q", title="tokens", format=","),
    ]
    base = alt.Chart(data)
    told = base.transform_calculate(between=_BETWEEN.format(".2f"), step=_lookup(names, "toString(datum.look)"))
    colour = alt.Color("doublings:Q", scale=classes, legend=alt.Legend(title="doublings of chance", format="+.2~f"))
    chart = alt.layer(
        told.mark_rect(stroke=_PAPER, strokeWidth=2, cornerRadius=3).encode(x, y, color=colour, tooltip=tip),
        base.transform_filter("datum.unsure").mark_point(size=10, filled=True, color=_INK, opacity=0.8).encode(x, y),
    )
    question = "Where in the network, and when, do gradients gather in those directions?"
    return _titled(chart, run, question, max(90, 34 * len(layers) + 10))


def _tick(step: int | None) -> str:
    return "unknown" if step is None else f"{step:,}" if step < 10_000 else f"{step / 1000:.0f}k"


def _lookup(names: dict[str, str], key: str = "datum.label") -> str:
    """A Vega expression that looks a key up; names are data from outside and are quoted as such."""
    pairs = ",".join(f"{_quoted(key)}:{_quoted(value)}" for key, value in names.items())
    return f"({{{pairs}}})[{key}]"


def _quoted(text: str) -> str:
    return "'" + "".join(f"\\u{ord(c):04x}" if c in "'\\\n\r\u2028\u2029<>&" else c for c in text) + "'"


def anisotropy_over_depth(run: RunRows) -> alt.LayerChart:
    """Anisotropy of the activations over depth, one line a look, the last one bold."""
    last = max(len(run.steps) - 1, 0)
    rows = [row | {"age": (row["look"] + 1) / (last + 1), "step": _tick(row["step"])} for row in run.shape("anisotropy")]
    data = _data(rows, "look", "depth", "layer", "step", "age", "value", "low", "high", "n")
    base = alt.Chart(data)
    depths = sorted({row["depth"] for row in rows})
    x = alt.X("depth:Q", title="depth (0 is the embedding)", axis=alt.Axis(values=depths, format="d", grid=False))
    x = x.scale(zero=False, nice=False, padding=8)
    y = alt.Y("value:Q", title="share in one direction", axis=alt.Axis(format=".0%", tickCount=4)).scale(domainMin=0)
    faded = alt.Opacity("age:Q", legend=None).scale(domain=[0, 1], range=[0.06, 0.6])
    tip = [
        alt.Tooltip("layer:N", title="layer"),
        alt.Tooltip("step:N", title="step"),
        alt.Tooltip("value:Q", title="anisotropy", format=".1%"),
        alt.Tooltip("between:N", title="95% over test sequences"),
        alt.Tooltip("n:Q", title="tokens", format=","),
    ]
    final = base.transform_filter(f"datum.look === {last}")
    told = base.transform_calculate(between=_BETWEEN.format(".1%"))
    chart = alt.layer(
        base.mark_line(color=_INK, strokeWidth=1.2).encode(x, y, detail="look:N", opacity=faded),
        final.mark_area(color=MEASUREMENT.light, opacity=0.2).encode(x, alt.Y("low:Q"), alt.Y2("high:Q")),
        final.mark_line(color=MEASUREMENT.light, strokeWidth=2.5, point={"size": 24, "opacity": 1}).encode(x, y),
        told.mark_point(size=110, opacity=0, fill=_INK).encode(x, y, tooltip=tip),
    )
    return _titled(chart, run, "How lopsided are the activations, block by block?", SMALL)


def legend_of(controls: Sequence[str]) -> list[Series]:
    """The series of a legend, in the order given."""
    return [series_of(control) for control in controls]
