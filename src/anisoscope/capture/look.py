"""`Look`, the waist of the system: one look at one model at one step.

Everything behind it (rows, store, claims, page) is the same whether a Look comes from a hooked model, from saved
arrays or from a test. A Look is scanned, never asked for all its rows, so that arrays and large models fit alike.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import InputError
from ..geometry.moments import rows_of
from .passes import Passes
from .positions import HALVES, LABELS, Chunk, Half, Positions, Site
from .windows import Windows, is_whole

_CHUNK_ROWS = 8192
Scan = Callable[[Half, tuple[str, ...]], Iterator[Chunk]]


@dataclass(frozen=True, repr=False)
class Look:
    """One look at one model at one step: hidden states `h` and gradients `g` of the same positions, layer by layer.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> look = Look.from_arrays(h=rng.normal(size=(400, 8)), g=rng.normal(size=(400, 8)), step=10)
    >>> look.labels, look.sites[0].width, look.positions.num_fit
    (('true',), 8, 200)
    """

    sites: tuple[Site, ...]
    positions: Positions
    labels: tuple[str, ...]
    scan_source: Scan = field(repr=False)
    step: int | None = None
    tokens_seen: int | None = None
    objective: str | None = None
    windows: str | None = None  # fingerprint
    facts: Mapping[str, Any] = field(default_factory=dict)  # of the model, for the manifest of a run

    def __repr__(self) -> str:
        layers = ", ".join(site.layer for site in self.sites)
        return f"Look(step={self.step}, {self.positions.sequence.shape[0]} positions, layers: {layers})"

    @property
    def primary_view(self) -> str:
        """`bearing` for masked models and for arrays with a mask, else `all`."""
        masked = self.positions.bearing is not None if self.objective is None else self.objective == "masked"
        return "bearing" if masked else "all"

    def scan(self, half: Half, labels: tuple[str, ...] = ()) -> Iterator[Chunk]:
        """Chunks of one half with the gradients of `labels`; the same values every time."""
        missing = [label for label in labels if label not in self.labels]
        if missing:
            raise InputError(f"this look has no gradients for {missing}; it has {list(self.labels)}")
        return self.scan_source(half, labels)

    @staticmethod
    def from_model(
        model: nn.Module,
        windows: Windows,
        *,
        layers: str | Sequence[str] | None = None,
        batch_size: int = 16,
        step: int | None = None,
    ) -> "Look":
        """One look at a model, now: a forward and backward pass of its own on fixed windows, everything restored.

        `layers` names what to watch, where it is not found or other layers are wanted: module paths, first to last, or
        one path, that of the list of blocks.

        >>> import torch
        >>> from anisoscope.lab.model import ModelConfig, Transformer
        >>> model = Transformer(ModelConfig(vocab_size=50, num_blocks=2, width=16, num_heads=2, length=8, causal=True))
        >>> look = Look.from_model(model, Windows.from_ids(torch.randint(50, (6, 8))))
        >>> [site.layer for site in look.sites]
        ['embedding', 'blocks.0', 'blocks.1']
        """
        passes = Passes(model, windows, layers=layers, batch_size=batch_size)
        look = Look.from_passes(passes, step=step, keep_bytes=None)
        for half in HALVES:
            for _ in look.scan(half, look.labels if half == "test" else ()):
                pass
        return look

    @classmethod
    def from_passes(
        cls, passes: Passes, step: int | None = None, tokens_seen: int | None = None, keep_bytes: int | None = 2**30
    ) -> "Look":
        """A look that runs its model when it is scanned, and keeps what it saw up to `keep_bytes` (None: all)."""
        return cls(
            passes.sites,
            passes.positions,
            passes.labels,
            passes.scanner(keep_bytes),
            step,
            tokens_seen,
            passes.windows.objective_name,
            passes.windows.fingerprint,
            passes.facts,
        )

    @classmethod
    def from_arrays(
        cls,
        h: object,
        g: object | None = None,
        sequences: object | None = None,
        tokens: object | None = None,
        targets: object | None = None,
        bearing: object | None = None,
        gradients: Mapping[str, object] | None = None,
        step: int | None = None,
    ) -> "Look":
        """A Look from your own (N, D) arrays, or {layer: array}; numpy or torch.

        `sequences` names the sequence of each row: the first half of the sequences is fitted on, the second tested.
        Without it every row is its own sequence and no position is known. `gradients` holds further labels,
        {"sampled": ..., "permuted": ...}. `step=None` is unknown, 0 means untrained.
        """
        if step is not None and not is_whole(step, 0):
            raise InputError(f"step = {step!r}; wanted a whole number of optimiser steps, 0 for untrained, or None")
        hidden, labelled = _checked_arrays(h, g, gradients or {})
        num_rows = next(iter(hidden.values())).shape[0]
        codes = sequence_codes(sequences, num_rows)
        order = torch.from_numpy(np.argsort(codes, kind="stable"))
        codes = torch.from_numpy(np.sort(codes, kind="stable"))
        num_sequences = int(codes[-1]) + 1
        if num_sequences < 4:
            raise InputError(
                f"{num_sequences} sequence{'s' if num_sequences > 1 else ''}; wanted at least 4, two to fit on and two "
                "to test on: give more rows, or say with sequences= which rows belong together"
            )
        num_fit_sequences = num_sequences // 2
        starts = torch.searchsorted(codes, torch.arange(num_sequences))
        positions = Positions(
            sequence=torch.where(codes < num_fit_sequences, codes, codes - num_fit_sequences),
            num_fit=int((codes < num_fit_sequences).sum()),
            position=None if num_sequences == num_rows else torch.arange(num_rows) - starts[codes],
            token=_column(tokens, "tokens", order),
            target=_column(targets, "targets", order),
            bearing=_column(bearing, "bearing", order, boolean=True),
        )
        for half in HALVES:
            marked = 2 if positions.bearing is None else int(positions.bearing[positions.half(half)].sum())
            if marked < 2:
                raise InputError(
                    f"bearing marks {marked} rows of the {half} half; wanted at least 2 in each: it says which "
                    "positions' own output enters the loss"
                )
        sites = tuple(
            Site(layer, depth, "block", array.shape[1]) for depth, (layer, array) in enumerate(hidden.items(), start=1)
        )
        chunks = {half: _row_chunks(positions, half) for half in HALVES}

        def scan(half: Half, labels: tuple[str, ...]) -> Iterator[Chunk]:
            for rows in chunks[half]:
                taken = order[rows]
                h, *g = (
                    {site: arrays[site.layer][taken.to(arrays[site.layer].device)] for site in sites}
                    for arrays in (hidden, *(labelled[label] for label in labels))
                )
                yield Chunk(rows, h, dict(zip(labels, g, strict=True)))

        step = None if step is None else int(step)
        return cls(sites, positions, tuple(labelled), scan, step, facts={"source": "arrays"})


def _checked_arrays(
    h: object, g: object | None, gradients: Mapping[str, object]
) -> tuple[dict[str, Tensor], dict[str, dict[str, Tensor]]]:
    """Hidden states by layer and gradients by label and layer, of the same layers, rows and widths."""
    if gradients and g is None:
        raise InputError("gradients= without g: wanted the gradients of the true labels in g as well")
    unknown = [label for label in gradients if label not in LABELS[1:]]
    if unknown:
        raise InputError(
            f"gradients names {', '.join(map(repr, unknown))}; wanted some of {', '.join(LABELS[1:])}: those of "
            "the true labels are g"
        )
    hidden = _by_layer(h, "h")
    labelled = {}
    for label, arrays in {"true": g, **gradients}.items():
        if arrays is not None:
            name = "g" if label == "true" else f"gradients[{label!r}]"
            labelled[label] = _by_layer(arrays, name, hidden)
    return hidden, {label: labelled[label] for label in LABELS if label in labelled}


def _by_layer(arrays: object, name: str, hidden: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
    """One array or {layer: array} as checked rows by layer, all of one length; those of `hidden` where it is given."""
    if isinstance(arrays, Mapping):
        if not arrays:
            raise InputError(f"{name} is an empty mapping; wanted {{layer: array}}")
        found = {str(layer): rows_of(array, f"{name}[{layer!r}]", least=2) for layer, array in arrays.items()}
    else:
        found = {"array": rows_of(arrays, name, least=2)}
    hidden = hidden or found
    if found.keys() != hidden.keys():
        raise InputError(
            f"{name} has the layers {', '.join(found)}, h has {', '.join(hidden)}; wanted the same: give "
            "{layer: array} in both, or one array each"
        )
    num_rows = next(iter(hidden.values())).shape[0]
    for layer, array in found.items():
        one, width = f"{name}[{layer!r}]" if isinstance(arrays, Mapping) else name, hidden[layer].shape[1]
        if array.shape[0] != num_rows:
            raise InputError(f"{one} has {array.shape[0]} rows, h has {num_rows}; wanted one row per position in both")
        if array.shape[1] != width:
            raise InputError(f"{one} has width {array.shape[1]}, h has {width}; wanted both of the same layer")
    return found


def sequence_codes(sequences: object | None, num_rows: int, name: str = "sequences") -> np.ndarray:
    """Sequence numbers in order of first appearance."""
    if sequences is None:
        return np.arange(num_rows)
    column = np.asarray(sequences.cpu() if isinstance(sequences, Tensor) else sequences)
    if column.shape != (num_rows,):
        raise InputError(f"{name} has shape {column.shape}; wanted ({num_rows},), the sequence of each row")
    _, first, inverse = np.unique(column, return_index=True, return_inverse=True)
    rank = np.empty_like(first)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def _column(values: object | None, name: str, order: Tensor, boolean: bool = False) -> Tensor | None:
    if values is None:
        return None
    try:
        column = torch.as_tensor(values).cpu()
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{name} is no column of numbers; wanted one per row of h: give token ids, not text") from None
    if column.shape != order.shape:
        raise InputError(f"{name} has shape {tuple(column.shape)}; wanted ({order.shape[0]},), one entry per row of h")
    return (column.bool() if boolean else column.long())[order]


def _row_chunks(positions: Positions, half: Half) -> list[slice]:
    """Rows of one half in pieces of about `_CHUNK_ROWS`, cut between sequences."""
    rows = positions.half(half)
    sequence = positions.sequence[rows]
    ends = [*(torch.nonzero(sequence[1:] != sequence[:-1])[:, 0] + 1).tolist(), len(sequence)]
    cuts = [0]
    for last, end in pairwise([0, *ends]):
        if end - cuts[-1] > _CHUNK_ROWS and last > cuts[-1]:
            cuts.append(last)
    return [slice(rows.start + start, rows.start + end) for start, end in pairwise([*cuts, len(sequence)])]
