"""Does TwoNN cost more than the matrix products it stands on, and than TwoNN of other packages?

    python benchmarks/bench_neighbours.py [--rows 16384] [--width 768] [--repeats 5] [--threads 1]

The floor is the float32 block products alone, each pair of blocks once. Every round times all contestants in turn, so
that a busy machine is as busy for each; ratios are of times in the same round.
"""

import argparse
import importlib
import importlib.metadata
import platform
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from anisoscope.geometry.dimension import intrinsic_dimension
from anisoscope.geometry.neighbours import nearest_neighbours

BLOCK_ROWS = 1024


def floor(x: np.ndarray) -> None:
    blocks = torch.from_numpy(x).split(BLOCK_ROWS)
    out = torch.empty(BLOCK_ROWS * BLOCK_ROWS)
    for i, left in enumerate(blocks):
        for right in blocks[: i + 1]:
            torch.mm(left, right.T, out=out[: len(left) * len(right)].view(len(left), len(right)))


def least_squares(distances: np.ndarray) -> float:
    """TwoNN of peers that give neighbours only."""
    log_mu = np.sort(np.log(distances[:, 1] / distances[:, 0]))
    num_points = int(0.9 * len(log_mu))
    kept, heights = log_mu[:num_points], -np.log1p(-np.arange(1, num_points + 1) / len(log_mu))
    return float(kept @ heights / (kept @ kept))


def faiss(x: np.ndarray) -> float:
    import faiss

    index = faiss.IndexFlatL2(x.shape[1])
    index.add(x)
    return least_squares(np.sqrt(np.maximum(index.search(x, 3)[0][:, 1:], 0)))


def sklearn(x: np.ndarray) -> float:
    from sklearn.neighbors import NearestNeighbors

    return least_squares(NearestNeighbors(n_neighbors=2, algorithm="brute").fit(x).kneighbors()[0])


def dadapy(x: np.ndarray) -> float:
    from dadapy import Data

    return float(Data(x, verbose=False).compute_id_2NN()[0])


def skdim(x: np.ndarray) -> float:
    from skdim.id import TwoNN

    return float(TwoNN().fit(x).dimension_)


PEERS: dict[str, tuple[str, Callable[[np.ndarray], float]]] = {
    "faiss-cpu": ("faiss", faiss),
    "scikit-learn": ("sklearn", sklearn),
    "dadapy": ("dadapy", dadapy),
    "scikit-dimension": ("skdim", skdim),
}


def absent(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return True
    return False


def correct(x: np.ndarray, num_checked: int = 256) -> None:
    """The distances of some rows against all differences in float64."""
    found = nearest_neighbours(x, 2).distances.numpy()
    for row in np.random.default_rng(1).choice(len(x), num_checked, replace=False):
        apart = np.linalg.norm(x.astype(np.float64) - x[row], axis=1)
        assert np.allclose(found[row], np.sort(np.delete(apart, row))[:2], rtol=1e-12), row


def main() -> None:
    parse = argparse.ArgumentParser(description=__doc__)
    for name, usual in (("rows", 16384), ("width", 768), ("repeats", 5), ("threads", 1)):
        parse.add_argument(f"--{name}", type=int, default=usual)
    told = parse.parse_args()
    torch.set_num_threads(told.threads)
    spread = np.arange(1, told.width + 1) ** -0.5  # a falling spectrum, as activations have
    x = (np.random.default_rng(0).normal(size=(told.rows, told.width)) * spread).astype(np.float32)
    correct(x)
    missing = [package for package, (module, _) in PEERS.items() if absent(module)]
    contestants: dict[str, Callable[[np.ndarray], object]] = {
        "block products (floor)": floor,
        "neighbours": lambda x: nearest_neighbours(x, 2),
        "TwoNN": lambda x: intrinsic_dimension(x).value,
    }
    for package, (_, peer) in PEERS.items():
        if package not in missing:
            contestants[f"{package} {importlib.metadata.version(package)}"] = peer
    times: dict[str, list[float]] = {name: [] for name in contestants}
    values: dict[str, object] = {}
    for turn in range(told.repeats + 1):
        for name, contestant in contestants.items():
            start = time.perf_counter()
            values[name] = contestant(x)
            if turn:  # the first round warms up
                times[name].append(time.perf_counter() - start)
    ours = values["TwoNN"]
    base = times["block products (floor)"]
    lines = [
        f"{told.rows} x {told.width} float32, {told.threads} threads, median [least - most] of {told.repeats}, "
        f"torch {torch.__version__}, numpy {np.__version__}, Python {platform.python_version()}, {platform.machine()}",
        "",
        "| | seconds | to the floor | dimension |",
        "|---|---|---|---|",
    ]
    for name, taken in times.items():
        ratios = [mine / least for mine, least in zip(taken, base, strict=True)]
        value = values[name] if isinstance(values[name], float) else None
        assert value is None or np.isclose(value, ours, rtol=0.01), (name, value, ours)  # the last ranks differ by peer
        lines.append(
            f"| {name} | {statistics.median(taken):.2f} [{min(taken):.2f} - {max(taken):.2f}] | "
            f"{statistics.median(ratios):.2f} [{min(ratios):.2f} - {max(ratios):.2f}] | "
            f"{'' if value is None else f'{value:.3f}'} |"
        )
    lines += ["", f"Absent: {', '.join(missing) or 'none'}."]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
