"""Shares of gradients in subspaces, written out from sections 3, 5 and 6 of the method: plain numpy float64.

Rows are (N, D), a basis `q` is (D, k). `weights` gives the weight of each row (a resampled row counts twice).
"""

import numpy as np
from scipy.linalg import null_space


def principal(h: np.ndarray, centred: bool) -> np.ndarray:
    """All principal directions as columns, leading ones first, from the rows themselves."""
    h = np.asarray(h, np.float64)
    return np.linalg.svd(h - h.mean(0) if centred else h, full_matrices=True)[2].T


def energy_share(g: np.ndarray, q: np.ndarray) -> float:
    """|G Q|^2 / |G|^2, row by row."""
    inside = outside = 0.0
    for row in np.asarray(g, np.float64):
        inside += np.sum((row @ q) ** 2)
        outside += np.sum(row**2)
    return float(inside / outside)


def captured_variance(h: np.ndarray, q: np.ndarray) -> float:
    """tr(Q'CQ) / tr C."""
    h = np.asarray(h, np.float64)
    return energy_share(h - h.mean(0), q)


def second_moment(g: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    g = np.asarray(g, np.float64)
    weights = np.ones(len(g)) if weights is None else weights
    return sum(w * np.outer(row, row) for w, row in zip(weights, g, strict=True)) / weights.sum()


def deviator(s: np.ndarray) -> np.ndarray:
    return s - np.trace(s) / len(s) * np.eye(len(s))


def anisotropy_share(s: np.ndarray, q: np.ndarray) -> float:
    """|Q'ZQ|^2 / |Z|^2 of a second moment `s`."""
    z = deviator(s)
    return float(np.sum((q.T @ z @ q) ** 2) / np.sum(z**2))


def normal_energy(e: float, rank: int, width: int) -> float:
    return (1 - e) * rank / (width - rank)


def normal_anisotropy(s: np.ndarray, q: np.ndarray) -> float:
    """verdicts.md, A2: the mean over random subspaces of the complement, from the deviator among the normals."""
    z, normals = deviator(s), null_space(q.T)
    a, k, d = normals.T @ z @ normals, q.shape[1], normals.shape[1]
    above = k * ((k * d + d - 2) * np.sum(a**2) + (d - k) * np.trace(a) ** 2)
    return float(above / (d * (d - 1) * (d + 2) * np.sum(z**2)))


def isoscore_star(c: np.ndarray, z: float = 0.2) -> float:
    """IsoScore as Rudman (2022) writes it, of the covariance shrunk towards a round one."""
    d = len(c)
    values = np.linalg.eigvalsh((1 - z) * c + z * np.trace(c) / d * np.eye(d))
    normed = np.sqrt(d) * values / np.linalg.norm(values)
    defect = np.linalg.norm(normed - 1) / np.sqrt(2 * (d - np.sqrt(d)))
    share = (d - defect**2 * (d - np.sqrt(d))) ** 2 / d**2
    return float((d * share - 1) / (d - 1))


def anisotropy_removed(s: np.ndarray, q: np.ndarray, padded: bool = False) -> float:
    """IsoScore* outside the subspace minus IsoScore* of all."""
    normals = null_space(q.T)
    outside = normals @ normals.T @ s @ normals @ normals.T if padded else normals.T @ s @ normals
    return isoscore_star(outside) - isoscore_star(s)


def haar(rng: np.random.Generator, width: int, rank: int, outside: np.ndarray | None = None) -> np.ndarray:
    """One random subspace: of the whole space, or of the complement of `outside`."""
    inside = np.eye(width) if outside is None else null_space(outside.T)
    return inside @ np.linalg.qr(rng.normal(size=(inside.shape[1], rank)))[0]


def coloured(rng: np.random.Generator, covariance: np.ndarray, rank: int) -> np.ndarray:
    """The span of k draws from a Gaussian of this covariance."""
    return np.linalg.qr(rng.multivariate_normal(np.zeros(len(covariance)), covariance, size=rank).T)[0]


def unit(g: np.ndarray) -> np.ndarray:
    g = np.asarray(g, np.float64)
    return np.stack([row / np.linalg.norm(row) if row.any() else row for row in g])


def resampled(rows: np.ndarray, units: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The rows of each unit as often as it was drawn."""
    return np.concatenate([rows[units == unit] for unit, count in enumerate(counts) for _ in range(int(count))])
