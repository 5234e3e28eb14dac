"""What all charts share: axes, the looks of a series, the words of a tooltip, and the way out to the page."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, cast

import altair as alt

from .palette import paint, series_of
from .rows import Row

Drawing = dict[str, Any]  # a specification of Vega-Lite without data, and its tables

INK, MUTED, FAINT, PAPER, MEASURE = (paint(name) for name in ("ink", "muted", "faint", "paper", "measure"))
PERCENT = alt.Axis(format=".0%", tickCount=5)

_TIPS = {
    "name": alt.Tooltip("name:N", title="what"),
    "layer": alt.Tooltip("layer:N", title="layer"),
    "at_step": alt.Tooltip("at_step:N", title="step"),
    "rank": alt.Tooltip("rank:Q", title="directions"),
    "x": alt.Tooltip("x:Q", title="share of variance", format=".1%"),
    "y": alt.Tooltip("y:Q", title="share of gradient energy", format=".1%"),
    "times": alt.Tooltip("times:Q", title="times chance", format=".2f"),
    "dimension": alt.Tooltip("dimension:Q", title="dimension", format=".1f"),
    "loss": alt.Tooltip("loss:Q", title="loss", format=".3f"),
    "between": alt.Tooltip("between:N", title="interval"),
    "chance": alt.Tooltip("chance:Q", title="chance", format=".1%"),
    "n": alt.Tooltip("n:Q", title="tokens", format=","),
}
_AXIS = {
    "labelColor": MUTED,
    "titleColor": MUTED,
    "titleFontWeight": "normal",
    "titleFontSize": 12,
    "labelFontSize": 11,
    "gridColor": FAINT,
    "domain": False,
    "ticks": False,
    "labelPadding": 6,
    "titlePadding": 10,
}
_FORM = {
    "width": "container",
    "autosize": {"type": "fit-x", "contains": "padding"},
    "background": "transparent",
    "config": {
        "view": {"stroke": None},
        "font": "system-ui, -apple-system, 'Segoe UI', sans-serif",
        "aria": False,
        "axis": _AXIS,
    },
}


def tips(*fields: str) -> list[alt.Tooltip]:
    return [_TIPS[name] for name in fields]


def named(table: str, format: str = ".1%") -> alt.Chart:
    """A chart of a table that `finish` hands in, its interval in words as well."""
    low, high = f"format(datum.low, '{format}')", f"format(datum.high, '{format}')"
    over = "(datum.interval === 'draws' ? 'random draws' : datum.interval === 'seeds' ? 'seeds' : 'test sequences')"
    between = f"isValid(datum.low) ? {low} + ' to ' + {high} + ' (95% over ' + {over} + ')' : 'none'"
    return alt.Chart(alt.NamedData(name=table)).transform_calculate(between=between)


def scale(series: Sequence[str], looks: Literal["paint", "shape", "dash"]) -> alt.Scale:
    return alt.Scale(domain=list(series), range=[getattr(series_of(name), looks) for name in series])


def layered(*charts: alt.Chart) -> alt.LayerChart:
    """`alt.layer`, which for charts without facets gives this."""
    return cast(alt.LayerChart, alt.layer(*charts))


def records(rows: Iterable[Row], *columns: str) -> dict[str, Any]:
    """Only what a chart needs, without repeating its names, and rounded: nobody reads a fifth digit off a picture.

    >>> records([{"value": 0.123456, "p": 1.0}], "value")
    {'columns': ['value'], 'rows': [[0.1235]]}
    """
    return {"columns": list(columns), "rows": [[_short(row[name]) for name in columns] for row in rows]}


def _short(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return float(f"{value:.4g}") if math.isfinite(value) else None


def finish(chart: alt.LayerChart, height: int, **tables: dict[str, Any]) -> Drawing:
    """As wide as its panel, quiet axes, its tables apart; title and legend are the page's."""
    return {"spec": chart.to_dict() | _FORM | {"height": height}, "tables": tables}


def in_words(step: int | None) -> str:
    """
    >>> in_words(143000), in_words(None)
    ('143,000', 'unknown')
    """
    return "unknown" if step is None else f"{step:,}"


def short(path: str, most: int) -> str:
    """The end of a module's path, which is what tells layers apart.

    >>> short("blocks.2", 14), short("model.transformer.layers.11", 14)
    ('blocks.2', '…layers.11')
    """
    if len(path) <= most:
        return path
    end = path[1 - most :]
    return "…" + (end.partition(".")[2] or end)
