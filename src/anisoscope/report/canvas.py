"""What all charts have in common: data in, title and axes, the words of a tooltip."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import altair as alt

from .palette import COLOURS
from .rows import MEDIAN, Row, RunRows

WIDTH, TALL, SMALL = 470, 420, 190
INK, MUTED, FAINT, PAPER = (COLOURS[name][0] for name in ("ink", "muted", "faint", "paper"))
PERCENT = alt.Axis(format=".0%", tickCount=5)
OVER = {"sequences": "95% over test sequences", "draws": "95% over random draws", "seeds": "95% over seeds", "": "none"}


def records(rows: Sequence[Row], *columns: str) -> list[Row]:
    """Only what a chart needs, rounded: nobody reads a fifth digit off a picture.

    >>> records([{"value": 0.123456, "p": 1.0}], "value")
    [{'value': 0.1235}]
    """
    return [{name: _short(row[name]) for name in columns} for row in rows]


def _short(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return float(f"{value:.4g}") if math.isfinite(value) else None


def named(table: str) -> alt.Chart:
    """A chart of a table that `finish` hands in: else Altair copies the table with every step of building."""
    return alt.Chart(alt.NamedData(name=table))


def layered(*charts: alt.Chart) -> alt.LayerChart:
    """`alt.layer`, which for charts without facets gives this."""
    return cast(alt.LayerChart, alt.layer(*charts))


def finish(chart: alt.LayerChart, run: RunRows, question: str, height: int, **tables: list[Row]) -> alt.LayerChart:
    """Title, size, quiet axes, and at last the tables."""
    title = alt.Title(question, subtitle=run.name, anchor="start", fontSize=13, subtitleColor=MUTED, color=INK)
    done = chart.properties(title=title, width=WIDTH, height=height, background="transparent").configure(
        view=alt.ViewConfig(stroke=None),
        font="system-ui, -apple-system, 'Segoe UI', sans-serif",
        axis=alt.AxisConfig(
            labelColor=MUTED,
            titleColor=MUTED,
            titleFontWeight="normal",
            titleFontSize=12,
            labelFontSize=11,
            gridColor=FAINT,
            domain=False,
            ticks=False,
            labelPadding=6,
            titlePadding=10,
        ),
    )
    done.datasets = tables
    return done


def between(format: str) -> str:
    """A Vega expression: the interval of a row in words."""
    return f"isValid(datum.low) ? format(datum.low, '{format}') + ' to ' + format(datum.high, '{format}') : 'none'"


def tips(*fields: tuple[str, str] | tuple[str, str, str]) -> list[alt.Tooltip]:
    """Tooltip lines from (field, title) or (field, title, format)."""
    return [alt.Tooltip(name, title=title, format=more[0] if more else alt.Undefined) for name, title, *more in fields]


def tick(step: int | None) -> str:
    """A step as an axis says it.

    >>> tick(1000), tick(143_000), tick(None)
    ('1,000', '143k', 'unknown')
    """
    return "unknown" if step is None else f"{step:,}" if step < 10_000 else f"{step / 1000:.4g}k"


def lookup(names: Mapping[int, str], key: str) -> str:
    """A Vega expression that looks a number up; the names come from outside and are quoted as text.

    >>> lookup({0: "it's"}, "datum.value")
    "({'0':'it\\\\u0027s'})[toString(datum.value)]"
    """
    pairs = ",".join(f"'{number}':{_quoted(name)}" for number, name in names.items())
    return f"({{{pairs}}})[toString({key})]"


def _quoted(text: str) -> str:
    """Everything but plain letters, digits and blanks is escaped, as two units where it lies beyond 16 bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    numbers = [int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2)]
    return "'" + "".join(chr(n) if chr(n).isascii() and (chr(n).isalnum() or n in b" ._-,") else f"\\u{n:04x}"
                         for n in numbers) + "'"  # fmt: skip


def middle_depth(run: RunRows) -> int:
    """The block in the middle of the network: what is shown before anybody chooses."""
    depths = [row["depth"] for row in run.layers if row["depth"] > 0] or [row["depth"] for row in run.layers] or [0]
    return depths[len(depths) // 2]


def depth_choice(run: RunRows, chosen: int) -> alt.Parameter:
    """The menu of layers; with the median over blocks on top where that is what is shown first."""
    names = {MEDIAN: "median over blocks"} if chosen == MEDIAN else {}
    names |= {row["depth"]: f"depth {row['depth']}: {row['layer']}" for row in run.layers}
    menu = alt.binding_select(options=list(names), labels=list(names.values()), name="layer ")
    return alt.param(name="depth", value=chosen, bind=menu)
