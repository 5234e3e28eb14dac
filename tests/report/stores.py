"""Small planted stores for the tests of the page, with hostile names throughout."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

import anisoscope as an
from anisoscope.claims import Evidence, Verdict, judge
from anisoscope.report import RunRows, write_page
from anisoscope.store import Reader

WIDTH, SEQUENCES, LENGTH = 32, 24, 12

HOSTILE = (
    "<script>window.pwned=1</script>",
    "</title></script><img src=x onerror=window.pwned=2>",
    "javascript:window.pwned=3",
    "\"'`\\ ${window.pwned=4} {{ 7 * 7 }} \u2028 <!--",
    "right \u202e left, \U0001f9ed compass",
)


def planted(
    path: Path,
    names: Sequence[str] = ("l0", "l1"),
    steps: Sequence[int | None] = (0, 10, 50, 100),
    gradients: bool = True,
    proxies: tuple[Literal["pca", "svd"], ...] = ("pca",),
    ranks: tuple[int, ...] = (4,),
    **manifest: Any,
) -> Path:
    """A store of looks whose gradients, after step 0, prefer the directions in which the activations vary most."""
    rng = np.random.default_rng(len(path.name))
    shape, spread = (SEQUENCES * LENGTH, WIDTH), np.linspace(3, 0.3, WIDTH)
    looks = []
    for step in steps:
        boost = np.where((np.arange(WIDTH) < 4) & (step != 0), 4.0, 1.0)
        h = {name: (rng.normal(size=shape) * spread).astype("f") for name in names}
        g, sampled = ({name: rng.normal(size=shape) * boost for name in names} for _ in range(2))
        sequences = np.repeat(np.arange(SEQUENCES), LENGTH)
        given = {"g": g, "gradients": {"sampled": sampled}} if gradients else {}
        looks.append(an.Look.from_arrays(h, sequences=sequences, step=step, **given))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # arrays this small are measured ten times as fast by one thread
    try:
        an.measure(looks, ranks=ranks, run=path, num_steps=100, proxies=proxies)
    finally:
        torch.set_num_threads(threads)
    file = path / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | manifest))
    return path


def rows_of(path: Path) -> RunRows:
    return RunRows.of(Reader(path))


def judged(*paths: Path) -> tuple[list[Reader], list[Verdict]]:
    readers = [Reader(path) for path in paths]
    evidence = [Evidence(r.metrics(), r.replicates(), r.manifest, RunRows.of(r).name) for r in readers]
    return readers, judge(evidence)


@cache
def two_runs(base: Path) -> tuple[Path, Path]:
    """A decoder and an encoder, built once a session; whatever a run may name is hostile."""
    notices = [HOSTILE[0], "ranks left out"]
    both: Any = {"proxies": ("pca", "svd"), "ranks": (4, 8)}
    decoder = planted(
        base / "a", HOSTILE[:2], (0, 10, 50), **both, name=HOSTILE[1], objective="causal", notices=notices
    )
    encoder = planted(base / "bb", HOSTILE[2:], (0, 20, 100), name=HOSTILE[4], objective="masked", finished=False)
    for number, step in enumerate((0, 10, 50)):
        fault = {"step": step, "where": HOSTILE[0], "reason": HOSTILE[3]}
        (decoder / "faults" / f"001-{number:06d}-{step}.json").write_text(json.dumps(fault))
    return decoder, encoder


@cache
def page_of_two(base: Path) -> Path:
    return write_page(*judged(*two_runs(base)), base / "two.html")
