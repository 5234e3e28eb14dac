"""Timing: one warm-up, the median of repeats with its spread, everything that is compared in turn in one run."""

import platform
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import torch

_VERSIONS = (
    "torch",
    "numpy",
    "scipy",
    "dadapy",
    "faiss-cpu",
    "interpreto",
    "scikit-dimension",
    "scikit-learn",
    "IsoScore",
)


@dataclass(frozen=True)
class Timing:
    """Seconds: the median of the repeats, the fastest and the slowest."""

    median_s: float
    low_s: float
    high_s: float

    def __str__(self) -> str:
        return f"{_short(self.median_s)} [{_short(self.low_s)}, {_short(self.high_s)}]"


def _short(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def in_turn(contenders: Mapping[str, Callable[[], Any]], repeats: int = 5) -> dict[str, Timing]:
    """Each contender once to warm up, then round after round: a slow spell of the machine meets all of them."""
    for run in contenders.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, run in contenders.items():
            began_s = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - began_s)
    return {name: Timing(statistics.median(each), min(each), max(each)) for name, each in times.items()}


def machine() -> str:
    """Processor, threads and versions, for the head of a result."""
    with open("/proc/cpuinfo") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    versions = []
    for name in _VERSIONS:
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            versions.append(f"{name} absent")
    return (
        f"{names[0] if names else platform.machine()}, {torch.get_num_threads()} threads, Python "
        f"{platform.python_version()}; {', '.join(versions)}"
    )
