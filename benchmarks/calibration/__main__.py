"""`python -m benchmarks.calibration`: every section from fixed seeds, two at a time, then the page."""

import argparse
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

from .alarms import false_alarms
from .coverage import coverage
from .dimension import biases
from .page import holds, write
from .power import power
from .rises import flat_curves
from .samples import scores_by_rows

# name -> (function, its arguments, how many repetitions: in full, in short)
SECTIONS: dict[str, tuple[Callable[..., Any], dict[str, Any], tuple[int, int]]] = {
    "alarms": (false_alarms, {}, (10_000, 100)),
    "coverage of 64": (coverage, {"sequences": 64}, (2_000, 100)),
    "coverage of 16": (coverage, {"sequences": 16}, (2_000, 100)),
    "power": (power, {}, (500, 20)),
    "dimension": (biases, {}, (5, 1)),
    "samples": (scores_by_rows, {}, (0, 0)),
    "rises": (flat_curves, {}, (10_000, 200)),
}


def section(name: str, short: bool) -> Any:
    torch.set_num_threads(1)
    function, arguments, repeats = SECTIONS[name]
    number = repeats[short]
    return function(**({"repeats": number} if number else {}), **arguments)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="few repetitions: does it run at all?")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="the folder of calibration.md")
    options = parser.parse_args()
    began_s, found = time.monotonic(), {}
    with ProcessPoolExecutor(2) as pool:
        jobs = {pool.submit(section, name, options.short): name for name in SECTIONS}
        for job in as_completed(jobs):
            found[jobs[job]] = job.result()
            print(f"{time.monotonic() - began_s:6.0f} s  {jobs[job]}", file=sys.stderr)
    print(write(found, options.out, (time.monotonic() - began_s) / 60))
    broken = holds(found)
    for one in broken:
        print(f"does not hold: {one.what}, wanted {one.wanted:.0%}, found {one.rate:.1%}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
