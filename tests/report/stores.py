"""Small planted stores for the tests of the page: a tangent in each layer after step 0, hostile names throughout."""

import json
from pathlib import Path
from typing import Any

import numpy as np

import anisoscope as an
from anisoscope.claims import Evidence, Verdict, judge
from anisoscope.report import RunRows
from anisoscope.store import Reader

WIDTH, SEQUENCES, LENGTH = 32, 24, 12

HOSTILE = (
    "<script>window.pwned=1</script>",
    "</title></script><img src=x onerror=window.pwned=2>",
    "javascript:window.pwned=3",
    "\"'`\\ ${window.pwned=4} {{ 7 * 7 }} \u2028 <!--",
    "right \u202e left, \U0001f9ed compass",
)


def planted(path: Path, names: tuple[str, ...] = ("l0", "l1"), steps: tuple[int | None, ...] = (0, 10, 50, 100),
            gradients: bool = True, seed: int = 0, **manifest: Any) -> Path:  # fmt: skip
    """A store of looks whose gradients prefer, after step 0, the directions in which activations vary most."""
    rng = np.random.default_rng(seed)
    rows, spread = SEQUENCES * LENGTH, np.linspace(3, 0.3, WIDTH)
    looks = []
    for step in steps:
        boost = np.where(np.arange(WIDTH) < 4, 1.0 if step == 0 else 4.0, 1.0)
        h = {name: (rng.normal(size=(rows, WIDTH)) * spread).astype("f") for name in names}
        g, sampled = ({name: rng.normal(size=(rows, WIDTH)) * boost for name in names} for _ in range(2))
        sequences = np.repeat(np.arange(SEQUENCES), LENGTH)
        more = {"gradients": {"sampled": sampled}} if gradients else {}
        looks.append(an.Look.from_arrays(h, g if gradients else None, sequences=sequences, step=step, **more))
    an.measure(looks if len(looks) > 1 else looks[0], ranks=(4, 8), run=path, num_steps=100)
    file = path / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | manifest))
    return path


def rows_of(path: Path) -> RunRows:
    return RunRows.of(Reader(path))


def judged(*paths: Path) -> tuple[list[Reader], list[Verdict]]:
    readers = [Reader(path) for path in paths]
    names = [str(reader.manifest.get("name") or reader.path.name) for reader in readers]
    return readers, judge(
        [Evidence(r.metrics(), r.replicates(), r.manifest, name) for r, name in zip(readers, names, strict=True)]
    )
