"""Planted worlds: activations and gradients made so that the right verdict is known beforehand (verdicts.md, the end).

Activations vary most along TOP axes, then along TOP more, then less; which axes these are differs by layer and look.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

import anisoscope as an

WIDTH, TOP = 32, 4  # TOP is the primary rank of this width
NUM_SEQUENCES, LENGTH = 48, 12
STEPS = (0, 40, 70, 100)
NUM_STEPS = 100
SPREAD = (np.repeat([4.0, 2.0, 0.5], [TOP, TOP, WIDTH - 2 * TOP]) * np.linspace(1.1, 0.9, WIDTH)).astype(np.float32)


@dataclass
class Cell:
    """One layer at one look, in the coordinates of its own axes: activations, gradients, those of sampled labels."""

    h: np.ndarray
    g: np.ndarray
    sampled: np.ndarray
    layer: int
    step: int


def tangent(cell: Cell) -> None:
    cell.g[:, :TOP] *= 4


def normals(cell: Cell) -> None:
    cell.g[:, :TOP] *= 0.2


def chance(cell: Cell) -> None:
    """Gradients without any preference."""


def massive(cell: Cell) -> None:
    """All preference in the first position of each sequence, whose activations are huge."""
    cell.h[::LENGTH] *= 30
    cell.g[::LENGTH, :TOP] *= 60


def mean_gradient(cell: Cell) -> None:
    cell.g[:, 0] += 6


def sampled(cell: Cell) -> None:
    cell.g[:, :TOP] *= 4
    cell.sampled[:, :TOP] *= 4


def next_directions(cell: Cell) -> None:
    cell.g[:, : 2 * TOP] *= 4


def two_camps(cell: Cell) -> None:
    (normals if cell.layer % 2 else tangent)(cell)


def late(cell: Cell) -> None:
    if cell.step > 0.6 * NUM_STEPS:
        tangent(cell)


def always(plant: Callable[[Cell], None]) -> Callable[[Cell], None]:
    """The same in the untrained model: nothing that training made."""

    def planted(cell: Cell) -> None:
        plant(cell)

    planted.untrained = True  # type: ignore[attr-defined]
    return planted


def looks(
    plant: Callable[[Cell], None],
    steps: Sequence[int] = STEPS,
    num_layers: int = 2,
    objective: str | None = None,
    seed: int = 0,
) -> list[an.Look]:
    """A run's looks; what is planted is there from step 1 on. Masked ones bear the loss at two positions of three."""
    rng = np.random.default_rng(seed)
    num_rows = NUM_SEQUENCES * LENGTH
    bearing = np.arange(num_rows) % 3 < 2 if objective == "masked" else None
    found = []
    for step in steps:
        layers: dict[str, tuple[np.ndarray, ...]] = {}
        for layer in range(num_layers):
            cell = Cell(*rng.standard_normal((3, num_rows, WIDTH), np.float32), layer, step)
            cell.h *= SPREAD
            if step > 0 or getattr(plant, "untrained", False):
                plant(cell)
            if bearing is not None:
                cell.g[~bearing] = rng.normal(size=(int((~bearing).sum()), WIDTH))
            axes = rng.permutation(WIDTH)
            layers[f"blocks.{layer}"] = tuple(x[:, axes] for x in (cell.h, cell.g, cell.sampled))
        h, g, drawn = ({name: parts[i] for name, parts in layers.items()} for i in range(3))
        look = an.Look.from_arrays(
            h, g, np.arange(num_rows) // LENGTH, bearing=bearing, gradients={"sampled": drawn}, step=step
        )
        found.append(replace(look, objective=objective))
    return found
