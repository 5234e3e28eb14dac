"""Neighbours and intrinsic dimension, written out from section 2 of the method: all distances, plain numpy float64."""

import numpy as np
from scipy.optimize import brentq
from scipy.spatial.distance import cdist

from reference.shares import resampled


def all_distances(x: np.ndarray) -> np.ndarray:
    """Between all rows; a row is infinitely far from itself."""
    x = np.asarray(x, np.float64)
    distances = cdist(x, x)
    np.fill_diagonal(distances, np.inf)
    return distances


def nearest(x: np.ndarray, k: int) -> np.ndarray:
    """The k smallest distances of each row, ascending."""
    return np.sort(all_distances(x), axis=1)[:, :k]


def distinct(x: np.ndarray) -> np.ndarray:
    """The rows without later copies."""
    found: list[np.ndarray] = []
    for row in x:
        if not any(np.array_equal(row, other) for other in found):
            found.append(row)
    return np.stack(found)


def least_squares(mu: np.ndarray, fraction: float) -> float:
    """Through the origin, `-log(1 - F)` on `log mu`, F(i-th smallest) = i / N."""
    n, mu = len(mu), sorted(mu)
    up = across = 0.0
    for i in range(1, int(fraction * n) + 1):
        x, y = np.log(mu[i - 1]), -np.log(1 - i / n)
        up, across = up + x * y, across + x * x
    return float(up / across)


def gride(r: np.ndarray, n1: int) -> float:
    """The d of the largest likelihood of mu = r_{2 n1} / r_{n1} (Denti et al. 2022, equation 11), by its derivative."""
    log_mu = np.log(r[:, 2 * n1 - 1] / r[:, n1 - 1])

    def likelihood(d: float) -> float:
        inner = (d * log_mu + np.log1p(-np.exp(-d * log_mu))).sum() if n1 > 1 else 0.0  # log(mu^d - 1)
        return float(len(log_mu) * np.log(d) + (n1 - 1) * inner - ((2 * n1 - 1) * d + 1) * log_mu.sum())

    return float(brentq(lambda d: likelihood(d * (1 + 1e-4)) - likelihood(d * (1 - 1e-4)), 0.05, 500, xtol=1e-12))


def mle(r: np.ndarray, k: int = 20) -> float:
    """Levina-Bickel per row, then the mean of the inverses (MacKay and Ghahramani)."""
    inverses = [np.mean([np.log(row[k - 1] / row[j]) for j in range(k - 1)]) for row in r]
    return float(1 / np.mean(inverses))


def estimates(r: np.ndarray) -> dict[str, float]:
    """Every estimate by name, from distances (N, k) to at least 20 neighbours."""
    mu = r[:, 1] / r[:, 0]
    return {
        "twonn": least_squares(mu, 0.9),
        "twonn-ml": float((len(mu) - 1) / np.log(mu).sum()),
        "twonn-20": least_squares(mu, 0.2),
        "gride": gride(r, 8),
        "mle": mle(r),
    }


def replicate(r: np.ndarray, units: np.ndarray, counts: np.ndarray) -> dict[str, float]:
    """The estimates from the ratios of each unit as often as it was drawn, neighbours held fixed."""
    return estimates(resampled(r, units, counts))


def sphere(rng: np.random.Generator, n: int, d: int, width: int) -> np.ndarray:
    """The surface of dimension d, turned into `width` coordinates."""
    x = rng.normal(size=(n, d + 1))
    return x / np.linalg.norm(x, axis=1, keepdims=True) @ np.linalg.qr(rng.normal(size=(width, d + 1)))[0].T


def swiss_roll(rng: np.random.Generator, n: int) -> np.ndarray:
    """Even over its surface, which is flat and of dimension 2."""
    angle = 1.5 * np.pi * np.sqrt(1 + 8 * rng.random(n))
    return np.column_stack([angle * np.cos(angle), 21 * rng.random(n), angle * np.sin(angle)])
