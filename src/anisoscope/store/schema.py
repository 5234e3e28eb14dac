"""The columns of the store: a contract for everybody who queries it.

Long format: one row is one number. What a number is of stands in its key columns; a control is a row like any
other, so that a comparison is a join on all keys but `control`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

SCHEMA_VERSION = 1

_KEY_FIELDS = [
    pa.field("attempt", pa.int32(), nullable=False),  # 1, then one more for each resumption after a crash
    pa.field("step", pa.int64()),  # optimiser steps done; null where unknown
    pa.field("layer", pa.string(), nullable=False),  # module path; empty for what has no layer (loss)
    pa.field("depth", pa.int32()),  # 0 the embedding's output, i the output of block i
    pa.field("site", pa.string(), nullable=False),  # block, embedding, normed
    pa.field("gradient", pa.string(), nullable=False),  # hidden, weight, update; empty: statistics of activations
    pa.field("proxy", pa.string(), nullable=False),
    pa.field("regime", pa.string(), nullable=False),  # tracking, frozen, frozen-within, frozen-drift
    pa.field("rank", pa.int32()),
    pa.field("view", pa.string(), nullable=False),  # all, clean, bearing, other
    pa.field("group", pa.string(), nullable=False),  # frequency bin, concept, or empty
    pa.field("control", pa.string(), nullable=False),  # empty for the measurement itself; a/b: the control b of a
    pa.field("statistic", pa.string(), nullable=False),
]
KEYS = tuple(field.name for field in _KEY_FIELDS)

METRICS = pa.schema(
    [
        *_KEY_FIELDS,
        pa.field("tokens_seen", pa.int64()),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("low", pa.float64()),
        pa.field("high", pa.float64()),
        pa.field("interval", pa.string(), nullable=False),  # sequences, draws, seeds: what low and high are over
        pa.field("p", pa.float64()),  # two-sided, against the control's draws
        pa.field("chance", pa.float64()),
        pa.field("n", pa.int64()),  # rows (token positions) behind the value
    ],
    metadata={"schema_version": str(SCHEMA_VERSION)},
)

REPLICATES = pa.schema(
    [*_KEY_FIELDS, pa.field("replicates", pa.list_(pa.float32()), nullable=False)],
    metadata={"schema_version": str(SCHEMA_VERSION)},
)

_DEFAULTS: dict[str, Any] = {
    field.name: ("" if field.type == pa.string() else None) for field in [*METRICS, *REPLICATES]
} | {"attempt": 1}


def table(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows as a table of `schema`; a key that a row leaves out is empty (text) or null (numbers).

    >>> table([{"statistic": "loss", "value": 2.0}], METRICS).to_pylist()[0]["layer"]
    ''
    """
    rows = list(rows)
    columns = [
        pa.array([row.get(field.name, _DEFAULTS[field.name]) for row in rows], type=field.type) for field in schema
    ]
    return pa.table(columns, schema=schema)
