"""Looks whose law is known: correlated tokens, heavy tails, a fit half that stays the same."""

from dataclasses import dataclass

import numpy as np

from anisoscope import Look
from anisoscope.claims.replicates import log_odds
from anisoscope.protocol.observe import Observation, Protocol

WIDTH, RANK, SEQUENCES, TOKENS = 24, 3, 64, 6  # sequences of one half
CHANCE = RANK / WIDTH


def correlated(rng: np.random.Generator, num_sequences: int, width: int = WIDTH, within: float = 0.3) -> np.ndarray:
    """Rows of sequences that have something in common (`within` of the variance), with tails of a t of 6 degrees."""
    common = rng.standard_t(6, size=(num_sequences, 1, width))
    own = rng.standard_t(6, size=(num_sequences, TOKENS, width))
    rows = within**0.5 * common + (1 - within) ** 0.5 * own
    return rows.reshape(-1, width) * (4 / 6) ** 0.5  # of variance one


@dataclass(frozen=True)
class World:
    """`h` spread as `spread`, gradients as `pull` along the same axes, where both are lists of standard deviations."""

    spread: np.ndarray
    pull: np.ndarray
    shift: float = 0.0  # of the gradients' mean, in each coordinate

    def look(self, seed: int, step: int = 1, sequences: int = SEQUENCES) -> Look:
        """The fit half is the same for every seed: an interval says nothing about another fit."""
        rng, fixed = np.random.default_rng([1, seed]), np.random.default_rng(0)
        h = np.vstack([correlated(fixed, sequences), correlated(rng, sequences)]) * self.spread
        labels = [np.vstack([correlated(rng, sequences) for _ in range(2)]) * self.pull + self.shift for _ in range(3)]
        units = np.repeat(np.arange(2 * sequences), TOKENS)
        return Look.from_arrays(h, labels[0], units, gradients={"sampled": labels[1], "permuted": labels[2]}, step=step)


EVEN = World(np.ones(WIDTH), np.ones(WIDTH))
TYPICAL = World(np.geomspace(4, 0.4, WIDTH), np.geomspace(2, 0.5, WIDTH), shift=0.1)


class Measured:
    """Rows and replicates of one look by (view, control, statistic) of the primary cell."""

    def __init__(self, look: Look, full: bool = False) -> None:
        protocol = Protocol((RANK,), ("pca",))
        if not full:
            protocol.load_state_dict({"num_looks": 1})
        self.seen: Observation = protocol.observe(look)
        self.rows = {_key(row): row for row in self.seen.rows if row.get("rank") in (None, RANK)}
        self._replicates = {_key(row): row["replicates"] for row in self.seen.replicates if row.get("rank") == RANK}

    def replicates(self, statistic: str, control: str = "", view: str = "all") -> np.ndarray:
        key = (view, control, statistic)
        return np.append(self.rows[key]["value"], self._replicates[key])

    def effect(self, control: str = "") -> np.ndarray:
        return log_odds(self.replicates("energy_share", control), CHANCE)


def _key(row: dict) -> tuple[str, str, str]:
    return row.get("view", ""), row.get("control", ""), row["statistic"]
