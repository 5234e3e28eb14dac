"""Which rows belong to which view: found once a look, before anything is fitted.

Rows fall into four disjoint cells, by whether their output bears the loss and whether they are massive. Moments are
kept by cell; a view is a union of cells, so that one pass serves all views.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..capture.look import Look
from ..capture.positions import HALVES, Site

MASSIVE_MEDIANS = 20.0
_CELLS = {"bearing": (2, 3), "other": (0, 1), "all": (0, 1, 2, 3)}  # cell = 2 * bearing + massive
_MOST_UNITS = 1024


def cells_of(view: str, primary: str) -> tuple[int, ...]:
    """The cells that make up a view."""
    if view == "clean":
        return tuple(cell for cell in _CELLS[primary] if cell % 2 == 0)
    return _CELLS[view]


@dataclass
class Survey:
    """What one pass over a look finds out about its rows.

    `cell[site]` is the cell of each row, `silent[site]` marks test rows whose true gradient is zero in every
    coordinate, `faults[site]` says why a site cannot be measured.
    """

    look: Look
    cell: dict[Site, Tensor] = field(default_factory=dict)
    silent: dict[Site, Tensor] = field(default_factory=dict)
    faults: dict[Site, str] = field(default_factory=dict)
    loss: Tensor | None = None

    @classmethod
    def of(cls, look: Look) -> "Survey":
        survey, positions = cls(look), look.positions
        num_rows, start = positions.sequence.shape[0], positions.num_fit
        norms = {site: torch.zeros(num_rows) for site in look.sites}
        survey.silent = {site: torch.zeros(num_rows, dtype=torch.bool) for site in look.sites}
        losses = torch.zeros(num_rows)
        has_loss = False
        for half in HALVES:
            for chunk in look.scan(half, look.labels if half == "test" else ()):
                for site in look.sites:
                    length = torch.linalg.vector_norm(chunk.h[site].double(), dim=1)
                    norms[site][chunk.rows] = length.float().cpu()
                    survey._check(site, "activations", length)
                    for label in chunk.g:
                        size = chunk.g[label][site].abs().amax(1)
                        survey._check(site, f"{label} gradients", size)
                        if label == "true":
                            survey.silent[site][chunk.rows] = (size == 0).cpu()
                if chunk.loss is not None:
                    losses[chunk.rows], has_loss = chunk.loss.float().cpu(), True
        survey.loss = losses[start:] if has_loss else None
        bearing = torch.ones(num_rows) if positions.bearing is None else positions.bearing
        first = torch.zeros(num_rows, dtype=torch.bool) if positions.position is None else positions.position == 0
        for site in look.sites:
            massive = first | (norms[site] > MASSIVE_MEDIANS * norms[site].median())
            survey.cell[site] = 2 * bearing.long() + massive.long()
            if look.labels and bool(survey.silent[site][start:].all()) and site not in survey.faults:
                survey.faults[site] = "all gradients are zero: the loss does not depend on this layer's output"
        return survey

    def _check(self, site: Site, what: str, lengths: Tensor) -> None:
        bad = ~torch.isfinite(lengths)
        if bool(bad.any()) and site not in self.faults:
            kind = "NaN" if bool(torch.isnan(lengths).any()) else "Inf"
            self.faults[site] = f"{what} hold {kind} in {int(bad.sum())} rows"

    @property
    def views(self) -> list[str]:
        """The primary view, the clean one, then the others that exist."""
        primary = self.look.primary_view
        others = ["all", "bearing", "other"] if self.look.positions.bearing is not None else ["all"]
        return [primary, "clean", *(view for view in others if view != primary)]

    def member(self, site: Site, view: str) -> Tensor:
        """Which rows belong to the view."""
        cells = torch.tensor(cells_of(view, self.look.primary_view))
        return torch.isin(self.cell[site], cells)


def unit_of_sequence(num_sequences: int) -> Tensor:
    """The resampling unit of each test sequence: itself, or one of 1,024 groups of neighbours where there are more.

    A union of sequences is a cluster as good as one sequence; it bounds the per-unit sums.
    """
    sequence = torch.arange(num_sequences)
    return sequence if num_sequences <= _MOST_UNITS else sequence * _MOST_UNITS // num_sequences
