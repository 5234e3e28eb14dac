"""Looks for the tests of the protocol: correlated tokens, uneven sequences, massive rows, rows without gradient."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from anisoscope import Look
from anisoscope.capture.positions import Chunk
from anisoscope.protocol.observe import Observation
from anisoscope.store import METRICS
from anisoscope.store.schema import table

WIDTH = 16


def arrays(
    seed: int = 0, num_sequences: int = 14, width: int = WIDTH, dtype: type = np.float64
) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """h, g by label, sequences, bearing."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(5, 12, num_sequences)
    sequences = np.repeat(np.arange(num_sequences), lengths)
    common = rng.normal(size=(num_sequences, width))[sequences]
    spread = np.geomspace(3, 0.4, width)
    turn = np.linalg.qr(rng.normal(size=(width, width)))[0]
    h = (rng.normal(size=(len(sequences), width)) + 0.5 * common) * spread @ turn + 0.4
    h[rng.choice(len(h), 3, replace=False)] *= 60  # massive, and not at the start of a sequence
    g = {}
    for i, label in enumerate(("true", "sampled", "permuted")):
        g[label] = (rng.standard_t(4, size=h.shape) + common) * spread ** (0.8 - 0.4 * i) @ turn + 0.2
    bearing = rng.random(len(h)) < 0.6
    silent = rng.random(len(h)) < 0.1
    for rows in g.values():
        rows[silent] = 0
    return h.astype(dtype), {k: v.astype(dtype) for k, v in g.items()}, sequences, bearing


def a_look(
    h: np.ndarray, g: dict[str, np.ndarray], sequences: np.ndarray | None = None, layers: int = 1, **more: object
) -> Look:
    """Layer i is the same turned over i times, so that every layer has rows of its own."""
    by_layer = [{f"blocks.{i}": np.roll(x, i, axis=1) for i in range(layers)} for x in (h, *g.values())]
    others = dict(zip(list(g)[1:], by_layer[2:], strict=True))
    return Look.from_arrays(by_layer[0], by_layer[1], sequences, gradients=others or None, **more)


def stored(seen: Observation) -> list[dict[str, object]]:
    """The rows as the store holds them: every column there, text empty and numbers None where they say nothing."""
    return table(seen.rows, METRICS).to_pylist()


def rescanned(look: Look, change: object = None, pieces: bool = False) -> Look:
    """The same look from another source: in one chunk a sequence, or with chunks that were changed on their way."""

    def scan(half: str, labels: tuple[str, ...]) -> Iterator[Chunk]:
        for chunk in look.scan_source(half, labels):
            for part in split(look, chunk) if pieces else [chunk]:
                yield change(half, part) if change else part

    return replace(look, scan_source=scan)


def split(look: Look, chunk: Chunk) -> Iterator[Chunk]:
    """One chunk for each sequence."""
    sequence = look.positions.sequence[chunk.rows]
    cuts = torch.unique_consecutive(sequence, return_counts=True)[1].cumsum(0).tolist()
    for start, end in zip([0, *cuts], cuts, strict=False):
        yield Chunk(
            slice(chunk.rows.start + start, chunk.rows.start + end),
            {site: h[start:end] for site, h in chunk.h.items()},
            {label: {site: g[start:end] for site, g in by_site.items()} for label, by_site in chunk.g.items()},
            None if chunk.loss is None else chunk.loss[start:end],
        )
