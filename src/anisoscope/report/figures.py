"""What the page draws, in order: a chart for each run, what it asks, how to read it, its legend, its controls."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import altair as alt

from .canvas import middle_depth
from .charts import (
    anisotropy_map,
    anisotropy_share_over_steps,
    capture_curve,
    energy_over_steps,
    enrichment_map,
    loss_over_steps,
)
from .maps import ANISOTROPY_EDGES, class_width
from .palette import CONTROL_SERIES, DIVERGING, MEASUREMENT, SECOND_PROXY, SEQUENTIAL, Series, themed
from .rows import MEDIAN, RunRows
from .training import BESIDE_ENERGY
from .words import CAPTIONS


@dataclass(frozen=True)
class Key:
    """One entry of a legend: a line, a point, or a field of colour."""

    label: str
    colour: str
    kind: str  # bold, line, thin, point, field
    shape: str = ""
    dash: str = ""


@dataclass(frozen=True)
class Figure:
    """One question, drawn for every run side by side."""

    name: str
    heading: str
    caption: str
    draw: Callable[[RunRows], alt.LayerChart]
    has: Callable[[RunRows], bool]
    missing: str
    keys: Sequence[Key] = ()
    controls: tuple[str, ...] = ()  # look, depth, depth-or-median
    minor: bool = False
    panels: list[dict[str, Any]] = field(default_factory=list)
    question: str = ""


_NO_GRADIENTS = "No gradients were measured in this run (a look with gradients is needed), so there is nothing to draw."


_BOLD = Key(MEASUREMENT.label, MEASUREMENT.colour, "bold")


def _line(series: Series, label: str = "") -> Key:
    return Key(label or series.label, series.colour, "line", dash=" ".join(map(str, series.dash)))


def _point(series: Series) -> Key:
    return Key(series.label, series.colour, "point", shape=series.shape)


def _curve_keys(runs: Sequence[RunRows]) -> list[Key]:
    held = {row["control"] for run in runs for row in run.points()}
    second = any(not row["control"] and row["proxy"] != "pca" for run in runs for row in run.points())
    oracle, random = CONTROL_SERIES["oracle"], CONTROL_SERIES["random_normal"]
    return [
        _BOLD,
        _line(oracle, "oracle: leading directions of the gradients themselves"),
        _line(Series("", random.colour), "chance"),
        Key("diagonal: as much as of the activations", "muted", "line", dash="2 4"),
        *([_point(SECOND_PROXY)] if second else []),
        *(_point(series) for name, series in CONTROL_SERIES.items() if name in held),
    ]


def _energy_keys(runs: Sequence[RunRows]) -> list[Key]:
    held = {row["control"] for run in runs for row in run.shares("energy_share", BESIDE_ENERGY)}
    named = [_line(series) for name, series in CONTROL_SERIES.items() if name in held and name in BESIDE_ENERGY]
    return [_BOLD, Key("single blocks", "measure", "thin"), *named]


def _class_keys(width: float) -> list[Key]:
    """Nine fields named by what they mean: so many times chance, or chance divided by so much."""
    times = [f"{2.0 ** (width * place):.2g}" for place in range(1, 5)]
    labels = [*(f"÷{number}" for number in reversed(times)), "chance", *(f"×{number}" for number in times)]
    return [Key(label, name, "field") for label, name in zip(labels, DIVERGING, strict=True)]


def _share_keys() -> list[Key]:
    edges = [f"{100 * edge:.0f}" for edge in ANISOTROPY_EDGES]
    between = [f"{low}–{high}%" for low, high in pairwise(edges)]
    return [
        Key(label, name, "field")
        for label, name in zip([f"< {edges[0]}%", *between, f"> {edges[-1]}%"], SEQUENTIAL, strict=True)
    ]


def figures(runs: Sequence[RunRows]) -> list[Figure]:
    """All figures, with a panel for each run."""
    width = class_width(runs)
    gradients = {"has": lambda run: run.has_gradients, "missing": _NO_GRADIENTS}
    found = [
        Figure(
            "curve",
            "The one picture",
            CAPTIONS["curve"],
            capture_curve,
            **gradients,
            keys=_curve_keys(runs),
            controls=("look", "depth"),
        ),
        Figure(
            "energy",
            "Over training",
            CAPTIONS["energy"],
            energy_over_steps,
            **gradients,
            keys=_energy_keys(runs),
            controls=("depth-or-median",),
        ),
        Figure(
            "map",
            "Layer by layer",
            CAPTIONS["map"],
            partial(enrichment_map, width=width),
            **gradients,
            keys=_class_keys(width),
        ),
        Figure(
            "anisotropy-share",
            "Shape as well as size",
            CAPTIONS["anisotropy-share"],
            anisotropy_share_over_steps,
            **gradients,
            keys=[_BOLD, Key("single blocks", "measure", "thin"), _line(CONTROL_SERIES["random_normal"])],
            minor=True,
        ),
        Figure(
            "anisotropy",
            "The activations themselves",
            CAPTIONS["anisotropy"],
            anisotropy_map,
            lambda run: bool(run.shape("anisotropy")),
            "This run holds no spectra of activations.",
            keys=_share_keys(),
            minor=True,
        ),
        Figure(
            "loss",
            "The loss",
            CAPTIONS["loss"],
            loss_over_steps,
            lambda run: bool(run.loss()),
            "No loss was recorded: arrays carry none, and some objectives give none.",
            minor=True,
        ),
    ]
    return [_with_panels(figure, runs) for figure in found]


def _with_panels(figure: Figure, runs: Sequence[RunRows]) -> Figure:
    questions = []
    for place, run in enumerate(runs):
        panel: dict[str, Any] = {"run": run.name, "place": place, "id": "", "missing": figure.missing}
        if figure.has(run):
            chart = figure.draw(run)
            questions.append(chart.title.text)
            panel |= {"id": f"{figure.name}-{place}", "missing": "", **_for_page(chart, run)}
        figure.panels.append(panel)
    return Figure(**{**figure.__dict__, "question": questions[0] if questions else ""})


def _for_page(chart: alt.LayerChart, run: RunRows) -> dict[str, Any]:
    """A chart's specification as the page wants it: no title, no menus, its colours as variables, its tables apart."""
    tables = chart.datasets
    chart.datasets = alt.Undefined
    spec = chart.to_dict()
    spec.pop("title")
    spec |= {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
    spec["params"] = [{"name": one["name"], "value": one["value"]} for one in spec.get("params", [])]
    spec["config"]["aria"] = False
    height = spec["height"]
    return {
        "spec": themed(_without_legends(spec)),
        "tables": {name: columns(rows) for name, rows in tables.items()},
        "height": height,
    }


def _without_legends(value: Any) -> Any:
    """The page has legends of its own, one for all runs."""
    if isinstance(value, dict):
        return {key: None if key == "legend" else _without_legends(part) for key, part in value.items()}
    return [_without_legends(part) for part in value] if isinstance(value, list) else value


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows as columns, and text as numbers into a list of the texts: a tenth of the size.

    >>> columns([{"x": 1, "name": "a"}, {"x": 2, "name": "a"}])
    {'x': [1, 2], 'name': {'texts': ['a'], 'at': [0, 0]}}
    """
    found: dict[str, Any] = {}
    for name in rows[0] if rows else ():
        values = [row[name] for row in rows]
        if values and all(isinstance(value, str) for value in values):
            texts = sorted(set(values))
            place = {text: at for at, text in enumerate(texts)}
            found[name] = {"texts": texts, "at": [place[value] for value in values]}
        else:
            found[name] = values
    return found


def slider(runs: Sequence[RunRows]) -> dict[str, Any]:
    """One slider for all runs: every step at which any of them is drawn, and the still of each run that it shows."""
    own = [[run.steps[look] for look in run.stills] for run in runs]
    steps = sorted({step for each in own for step in each if step is not None})
    stills = [
        [max((at for at, mine in enumerate(each) if mine is None or mine <= step), default=0) for step in steps] or [0]
        for each in own
    ]
    return {"labels": [f"step {step:,}" for step in steps] or ["step unknown"], "stills": stills}


def menu(runs: Sequence[RunRows]) -> dict[str, Any]:
    """The layers of all runs by depth, and the depth that is shown first."""
    names: dict[int, list[str]] = {}
    for row in [row for run in runs for row in run.layers]:
        same = names.setdefault(row["depth"], [])
        same += [row["layer"]] if row["layer"] not in same else []
    chosen = next((middle_depth(run) for run in runs if run.layers), 0)
    options = [(depth, f"depth {depth}: {' / '.join(names[depth])}") for depth in sorted(names)]
    return {"options": options, "chosen": chosen, "median": MEDIAN}
