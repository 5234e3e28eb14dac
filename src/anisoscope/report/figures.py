"""What the page draws, in order: a chart for each run, what it asks, how to read it, its legend, its controls."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from .canvas import Drawing, short
from .curve import capture_curve
from .maps import class_width, enrichment_map
from .palette import DIVERGING, SERIES, series_of
from .rows import RunRows
from .training import BESIDE, dimension_over_steps, energy_over_steps, loss_over_steps
from .words import FIGURES, title_of


@dataclass(frozen=True)
class Key:
    """One entry of a legend: a line (of this width), a point, or a field of colour."""

    label: str
    colour: str
    kind: str = "line"  # line, point, field
    shape: str = ""
    dash: str = ""
    width: float = 1.8


@dataclass(frozen=True)
class Figure:
    """One question, drawn for every run side by side."""

    name: str
    heading: str
    question: str
    caption: str
    keys: Sequence[Key]
    panels: Sequence[dict[str, Any]]  # of each run: its name, and a drawing or why there is none

    @property
    def is_drawn(self) -> bool:
        return any(panel["drawing"] for panel in self.panels)


_BOLD = Key(title_of(""), series_of("").colour, width=3.2)


def _line(name: str) -> Key:
    series = series_of(name)
    return Key(title_of(name), series.colour, dash=" ".join(map(str, series.dash)))


def _point(name: str) -> Key:
    return Key(title_of(name), series_of(name).colour, "point", series_of(name).shape)


def _class_keys(width: float) -> list[Key]:
    """Nine fields named by what they mean: so many times chance, or chance divided by so much."""
    times = [f"{2.0 ** (width * place):.2g}" for place in range(1, 5)]
    labels = [*(f"÷{number}" for number in reversed(times)), "chance", *(f"×{number}" for number in times)]
    return [Key(label, name, "field") for label, name in zip(labels, DIVERGING, strict=True)]


def figures(runs: Sequence[RunRows]) -> list[Figure]:
    """All figures, with a panel for each run."""
    drawn = {row["series"] for run in runs for row in run.energy if row["is_primary"]}
    held = [name for name in SERIES if name in drawn and name] + sorted(drawn - SERIES.keys())
    points = [_point(name) for name in held if name != "oracle"]
    lines = [_line(name) for name in held if name in BESIDE]
    chance, diagonal = Key("chance", "random"), Key("diagonal: as much as of the activations", "muted", dash="2 4")
    guess = [Key("a uniform guess", "muted", dash="2 4")] * any(row["chance"] for run in runs for row in run.loss())
    width, depth = class_width(runs), menu(runs)["chosen"]
    return [
        _figure(
            "curve", runs, partial(capture_curve, depth=depth), [_BOLD, _line("oracle"), chance, diagonal, *points]
        ),
        _figure("energy", runs, energy_over_steps, [_BOLD, Key("single blocks", "measure", width=1), *lines]),
        _figure("map", runs, partial(enrichment_map, width=width), _class_keys(width)),
        _figure(
            "dimension",
            runs,
            dimension_over_steps,
            [
                Key("median over blocks", "measure", width=3.2),
                Key("single blocks", "measure", width=1),
                Key("Gaussians of the same covariance", "muted", dash="2 4"),
            ],
        ),
        _figure("loss", runs, loss_over_steps, [Key("loss", "measure", width=2.5), *guess] if guess else []),
    ]


def _figure(
    name: str, runs: Sequence[RunRows], draw: Callable[[RunRows], Drawing | None], keys: Sequence[Key]
) -> Figure:
    heading, question, caption, missing = FIGURES[name]
    panels = [
        {"run": run.name, "place": place, "id": f"{name}-{place}", "drawing": draw(run), "missing": missing}
        for place, run in enumerate(runs)
    ]
    return Figure(name, heading, question, caption, keys, panels)


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
    """The layers of all runs by depth, and the depth that is shown first: the middle block of those in every run."""
    names: dict[int, list[str]] = {}
    for depth, layer in (pair for run in runs for pair in run.layers.items()):
        names.setdefault(depth, []).append(short(layer, 22))
    common = [depth for depth in sorted(names) if len(names[depth]) == len([run for run in runs if run.layers])]
    blocks = [depth for depth in common if depth > 0] or sorted(names) or [0]
    options = [(depth, f"{depth}: {' / '.join(dict.fromkeys(names[depth]))}") for depth in sorted(names)]
    return {"options": options, "chosen": blocks[len(blocks) // 2]}
