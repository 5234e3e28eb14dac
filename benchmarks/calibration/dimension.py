"""Bias of the dimension estimators: on Gaussians, and on scikit-dimension's manifolds where it is installed."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from anisoscope.geometry.dimension import METHODS, estimates

from .table import repeat

DIMENSIONS = (2, 5, 10, 20, 50, 100)
ROWS = (1024, 4096, 16384)
MANIFOLD_ROWS = 2048


@dataclass(frozen=True)
class Bias:
    """The mean of an estimator over samples of one manifold."""

    manifold: str
    truth: int
    rows: int
    method: str
    value: float


def biases(repeats: int, rows: tuple[int, ...] = ROWS, quiet: bool = True) -> list[Bias]:
    """Ours in all five methods, and the peers' TwoNN beside, on the same rows."""
    peers = {**_dadapy(), **_skdim()}
    cases = [("Gaussian", d, n, None) for n in rows for d in DIMENSIONS]
    cases += [(name, d, MANIFOLD_ROWS, draw) for name, d, draw in _manifolds()]

    def once(at: int) -> list[Bias]:
        name, truth, number, draw = cases[at]
        found: dict[str, list[float]] = {}
        for seed in range(repeats if number < 10_000 else 1):
            rng = np.random.default_rng([5, seed, truth, number])
            cloud = rng.standard_normal((number, truth)) if draw is None else draw(number, seed)
            cloud = cloud.astype(np.float32)
            for method, one in estimates(cloud, METHODS).items():
                found.setdefault(method, []).append(one.value)
            for peer, estimate in peers.items():
                found.setdefault(peer, []).append(estimate(cloud))
        return [Bias(name, truth, number, method, float(np.mean(values))) for method, values in found.items()]

    return [one for part in repeat("dimension", once, len(cases), quiet) for one in part]


def _dadapy() -> dict[str, Callable[[np.ndarray], float]]:
    try:
        from dadapy import Data
    except ImportError:
        return {}
    return {"DADApy twonn": lambda x: Data(coordinates=x.astype(np.float64)).compute_id_2NN(algorithm="base")[0]}


def _skdim() -> dict[str, Callable[[np.ndarray], float]]:
    try:
        from skdim.id import TwoNN
    except ImportError:
        return {}
    return {"scikit-dimension twonn": lambda x: TwoNN().fit(x).dimension_}


def _manifolds() -> Iterator[tuple[str, int, Callable[[int, int], np.ndarray]]]:
    """(name, true dimension, rows from (number, seed))."""
    try:
        from skdim.datasets import BenchmarkManifolds
    except ImportError:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        truth = BenchmarkManifolds(random_state=0).truth
    for name, known, width in zip(truth.index, truth["Intrinsic Dimension"], truth["Number of variables"], strict=True):

        def draw(number: int, seed: int, name: str = name, known: int = known, width: int = width) -> np.ndarray:
            return BenchmarkManifolds(random_state=seed).generate(name=name, n=number, dim=int(width), d=int(known))

        yield str(name), int(known), draw
