"""What does TwoNN cost beside the matrix products it stands on, and beside the TwoNN of other packages?"""

import importlib
import sys
from collections.abc import Callable

import numpy as np
import torch

from anisoscope.geometry.dimension import intrinsic_dimension
from anisoscope.geometry.neighbours import nearest_neighbours

from .calibration.table import markdown
from .harness import in_turn

ROWS, WIDTH, BLOCK_ROWS = 16384, 768, 1024
FLOOR = "the block products alone, each pair of blocks once, float32"


def activations() -> np.ndarray:
    """Rows with a spectrum that falls as 1/i and a mean."""
    rng = np.random.default_rng(0)
    return (rng.standard_normal((ROWS, WIDTH)) * np.arange(1, WIDTH + 1) ** -0.5 + 0.3).astype(np.float32)


def block_products(x: np.ndarray) -> None:
    blocks, out = torch.from_numpy(x).split(BLOCK_ROWS), torch.empty(BLOCK_ROWS, BLOCK_ROWS)
    for i, left in enumerate(blocks):
        for right in blocks[: i + 1]:
            torch.mm(left, right.T, out=out)


def least_squares(distances: np.ndarray) -> float:
    """TwoNN where a peer gives the neighbours only."""
    log_mu = np.sort(np.log(distances[:, 1] / distances[:, 0]))
    num_points = int(0.9 * len(log_mu))
    kept, heights = log_mu[:num_points], -np.log1p(-np.arange(1, num_points + 1) / len(log_mu))
    return float(kept @ heights / (kept @ kept))


def by_faiss(x: np.ndarray) -> float:
    faiss = importlib.import_module("faiss")
    index = faiss.IndexFlatL2(x.shape[1])
    index.add(x)
    return least_squares(np.sqrt(np.maximum(index.search(x, 3)[0][:, 1:], 0)))


def by_sklearn(x: np.ndarray) -> float:
    search = importlib.import_module("sklearn.neighbors").NearestNeighbors(n_neighbors=2, algorithm="brute")
    return least_squares(search.fit(x).kneighbors()[0])


def by_dadapy(x: np.ndarray) -> float:
    return float(importlib.import_module("dadapy").Data(x, verbose=False).compute_id_2NN()[0])


def by_skdim(x: np.ndarray) -> float:
    return float(importlib.import_module("skdim.id").TwoNN().fit(x).dimension_)


PEERS: dict[str, tuple[str, Callable[[np.ndarray], float]]] = {
    "faiss": ("faiss, flat index", by_faiss),
    "sklearn": ("scikit-learn, brute force", by_sklearn),
    "dadapy": ("DADApy", by_dadapy),
    "skdim": ("scikit-dimension", by_skdim),
}


def check(x: np.ndarray, num_checked: int = 256) -> None:
    """Some rows against all their differences in float64."""
    found = nearest_neighbours(x, 2).distances.numpy()
    for row in np.random.default_rng(1).choice(len(x), num_checked, replace=False):
        apart = np.linalg.norm(x.astype(np.float64) - x[row], axis=1)
        np.testing.assert_allclose(found[row], np.sort(np.delete(apart, row))[:2], rtol=1e-12)


def run() -> str:
    x = activations()
    check(x)
    ours = intrinsic_dimension(x).value
    contenders: dict[str, Callable[[], object]] = {
        FLOOR: lambda: block_products(x),
        "neighbours (k = 2)": lambda: nearest_neighbours(x, 2),
        "TwoNN with its interval": lambda: intrinsic_dimension(x),
    }
    for module, (name, peer) in PEERS.items():
        try:
            importlib.import_module(module)
        except ImportError:
            print(f"{module} is not installed", file=sys.stderr)
            continue
        # The peers' own figures differ in the last ranks kept, and those of single precision.
        np.testing.assert_allclose(peer(x), ours, rtol=0.01, err_msg=name)
        contenders[name] = lambda peer=peer: peer(x)
    found = in_turn(contenders)
    floor = found[FLOOR].median_s
    lines = [[name, timing, f"{timing.median_s / floor:.2f}"] for name, timing in found.items()]
    return markdown([f"TwoNN of {ROWS} x {WIDTH}", "time", "to the products"], lines)


if __name__ == "__main__":
    print(run())
