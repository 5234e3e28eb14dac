"""Clusters and isotropy inside them, row by row: plain numpy float64, loops, no tricks."""

import numpy as np

from . import cloud


def k_means(x: np.ndarray, k: int, rng: np.random.Generator, num_restarts: int = 10) -> tuple[np.ndarray, float]:
    """Labels and cost (summed squared distances) of the best of many runs from rows drawn at random."""
    best = np.zeros(len(x), int), np.inf
    for _ in range(num_restarts):
        centres = x[rng.permutation(len(x))[:k]].copy()
        for _ in range(200):
            away = np.array([[((row - centre) ** 2).sum() for centre in centres] for row in x])
            labels = away.argmin(1)
            moved = np.array([x[labels == c].mean(0) if (labels == c).any() else centres[c] for c in range(k)])
            if np.array_equal(moved, centres):
                break
            centres = moved
        if away.min(1).sum() < best[1]:
            best = labels, float(away.min(1).sum())
    return best


def silhouette(x: np.ndarray, labels: np.ndarray) -> float:
    """Rousseeuw 1987: (b - a) / max(a, b), one row after the other; 0 for a row alone in its cluster."""
    found = []
    for i, row in enumerate(x):
        away = np.linalg.norm(x - row, axis=1)
        own = (labels == labels[i]) & (np.arange(len(x)) != i)
        if not own.any():
            found.append(0.0)
            continue
        a = away[own].mean()
        b = min(away[labels == other].mean() for other in set(labels.tolist()) - {labels[i]})
        found.append((b - a) / max(a, b))
    return float(np.mean(found))


def inside(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Rows with the mean of their cluster taken out."""
    return np.array([row - x[labels == label].mean(0) for row, label in zip(x, labels, strict=True)])


def scores(x: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    whole, within = cloud.scores(x), cloud.scores(inside(x, labels))
    return {
        "average_cosine": whole["average_cosine"],
        "average_cosine_inside": within["average_cosine"],
        "isoscore": whole["isoscore"],
        "isoscore_inside": within["isoscore"],
    }


def weighted_scores(x: np.ndarray, labels: np.ndarray, w: np.ndarray) -> dict[str, float]:
    """The same where each row counts `w` times: means, unit vectors and scatter all over again."""

    def cosine(rows: np.ndarray) -> float:
        total = w @ (rows / np.linalg.norm(rows, axis=1, keepdims=True))
        return float((total @ total - w.sum()) / (w.sum() * (w.sum() - 1)))

    def isoscore(rows: np.ndarray) -> float:
        values = np.linalg.eigvalsh((rows.T * w) @ rows)
        return float((values.sum() ** 2 / (values**2).sum() - 1) / (x.shape[1] - 1))

    within = x.copy()
    for label in set(labels.tolist()):
        own = labels == label
        within[own] -= w[own] @ x[own] / w[own].sum()
    return {
        "average_cosine": cosine(x),
        "average_cosine_inside": cosine(within),
        "isoscore": isoscore(x - w @ x / w.sum()),
        "isoscore_inside": isoscore(within),
    }
