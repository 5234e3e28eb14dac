"""Semi-NMF written out: the updates of Ding, Li and Jordan (2010), and non-negative least squares one row at a time."""

import numpy as np
from scipy.optimize import nnls


def error(h: np.ndarray, u: np.ndarray, w: np.ndarray) -> float:
    """|H - UW| / |H|."""
    return float(np.linalg.norm(h - u @ w) / np.linalg.norm(h))


def bounds(h: np.ndarray, k: int) -> tuple[float, float]:
    """Relative errors of the truncated SVDs of rank k and k - 1."""
    s = np.linalg.svd(h, compute_uv=False)
    low, high = (float(np.sqrt(np.sum(s[rank:] ** 2) / np.sum(s**2))) for rank in (k, k - 1))
    return low, high


def multiplicative(h: np.ndarray, k: int, num_updates: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Least squares for the concepts, then `U <- U sqrt(((HW')+ + U(WW')-) / ((HW')- + U(WW')+))`."""
    u = np.random.default_rng(seed).uniform(0.1, 1, (len(h), k))
    for _ in range(num_updates):
        w = np.linalg.solve(u.T @ u, u.T @ h)
        b, g = h @ w.T, w @ w.T
        up, down = np.maximum(b, 0) + u @ np.maximum(-g, 0), np.maximum(-b, 0) + u @ np.maximum(g, 0)
        u *= np.sqrt(up / np.maximum(down, 1e-300))
    return u, np.linalg.lstsq(u, h, rcond=None)[0]


def codes(h: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Non-negative least squares codes for given concepts, by Lawson and Hanson's active sets."""
    return np.array([nnls(w.T, row)[0] for row in h])


def hoyer(u: np.ndarray) -> float:
    """Mean over the rows that are not zero of `(sqrt(k) - |u|_1 / |u|_2) / (sqrt(k) - 1)`."""
    k = u.shape[1]
    return float(np.mean([(k**0.5 - row.sum() / np.linalg.norm(row)) / (k**0.5 - 1) for row in u if row.any()]))
