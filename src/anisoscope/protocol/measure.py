"""`an.measure`: from Looks to a table, and to a run if one is wanted."""

import os
import warnings
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from ..capture.look import Look
from ..errors import InputError
from ..geometry.subspace import METHODS, Method
from ..store import METRICS, Writer
from ..store.environment import environment
from ..store.schema import table
from .observe import DEFAULT_RANKS, Protocol, primary_rank


def manifest_of(look: Look, protocol: Protocol, **more: Any) -> dict[str, Any]:
    """What a run says of itself: model, windows, how it was measured, with which versions."""
    return {
        "objective": look.objective,
        "primary_view": look.primary_view,
        "num_test_sequences": look.positions.num_sequences("test"),
        "num_steps": protocol.num_steps,
        "config": protocol.config,
        "model": dict(look.facts),
        "layers": [{**site._asdict(), "primary_rank": primary_rank(site.width)} for site in look.sites],
        "environment": environment(),
        **more,
    }


def measure(
    looks: Look | Iterable[Look],
    ranks: tuple[int, ...] = DEFAULT_RANKS,
    run: str | os.PathLike[str] | None = None,
    num_steps: int | None = None,
    *,
    proxies: tuple[Method, ...] = METHODS,
    seed: int = 0,
) -> pa.Table:
    """Rows of one look or of several, as a pyarrow table; with `run=` also a store, for `an.open_run(run).claims()`.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rows = measure(Look.from_arrays(rng.normal(size=(400, 16)), rng.normal(size=(400, 16))), ranks=(4,))
    >>> "energy_share" in rows["statistic"].to_pylist()
    True
    """
    looks = [looks] if isinstance(looks, Look) else list(looks)
    if not looks:
        raise InputError("no looks to measure; give one Look or several")
    kinds = sorted({type(look).__name__ for look in looks if not isinstance(look, Look)})
    if kinds:
        raise InputError(f"got {', '.join(kinds)}, wanted one Look or several: make them with an.Look.from_arrays")
    steps = [look.step for look in looks]
    if len(looks) > 1 and (None in steps or steps != sorted(set(steps))):  # type: ignore[type-var]
        raise InputError(f"looks are of steps {steps}; wanted known steps, each once, in rising order: give step=")
    protocol = Protocol(ranks, proxies, num_steps, seed)
    ignored = protocol.ignored_ranks(looks[0].sites)
    if ignored:
        warnings.warn(f"ranks {ignored} are left out: wanted at most half of a layer's width", stacklevel=2)
    writer = None if run is None else Writer(os.fspath(run), manifest_of(looks[0], protocol))
    tables: list[pa.Table] = []
    notices: list[str] = []
    finished = False
    try:
        for look in looks:
            seen = protocol.observe(look, last=look is looks[-1])
            notices += [notice for notice in seen.notices if notice not in notices]
            if writer is None:
                for where, reason in seen.faults:
                    warnings.warn(f"step {look.step}, {where} is not measured: {reason}", stacklevel=2)
                tables.append(table(seen.rows, METRICS))
                continue
            for where, reason in seen.faults:
                writer.fault(look.step, where, reason)
            tables.append(writer.commit(look.step, seen.rows, seen.replicates, seen.bases))
        finished = True
    finally:
        if writer is not None:
            writer.close(finished, notices=notices)
    return pa.concat_tables(tables)
