"""The shape of a cloud of vectors, written out from section 1 of the method: plain numpy float64, loops, no tricks."""

import numpy as np

from reference import shares


def singular_values(x: np.ndarray, centred: bool = True) -> np.ndarray:
    x = np.asarray(x, np.float64)
    return np.linalg.svd(x - x.mean(0) if centred else x, compute_uv=False)


def spanned(s: np.ndarray) -> np.ndarray:
    """The singular values that float64 rounding cannot have made."""
    return s[s > s[0] * 1e-7]


def entropy(weights: np.ndarray) -> float:
    total = 0.0
    for p in weights / weights.sum():
        if p > 0:
            total -= p * np.log(p)
    return total


def average_cosine(x: np.ndarray) -> float:
    """Over all pairs of different rows, one pair after the other."""
    x = [row / np.linalg.norm(row) for row in np.asarray(x, np.float64) if np.linalg.norm(row) > 0]
    pairs = [float(x[i] @ x[j]) for i in range(len(x)) for j in range(i)]
    return float(np.mean(pairs))


def exponent(values: np.ndarray) -> float:
    """Least-squares slope of log l_i on log i over the first half of the usable eigenvalues."""
    last = len(values) // 2
    if last < 2:
        return float("nan")
    return float(np.polyfit(np.log(np.arange(1, last + 1)), np.log(values[:last]), 1)[0])


def scores(x: np.ndarray) -> dict[str, float]:
    """Every score by name; `x` is (N, D)."""
    s, width = spanned(singular_values(x)), x.shape[1]
    values, raw = s**2, singular_values(x, centred=False) ** 2
    ratio = values.sum() ** 2 / (values**2).sum()
    return {
        "anisotropy": values[0] / values.sum(),
        "anisotropy_uncentred": raw[0] / raw.sum(),
        "singular_value_anisotropy": s[0] / s.sum(),
        "average_cosine": average_cosine(x),
        "effective_rank": float(np.exp(entropy(s))),
        "effective_rank_eigenvalues": float(np.exp(entropy(values))),
        "participation_ratio": ratio,
        "isoscore": (ratio - 1) / (width - 1),
        "isoscore_star": shares.isoscore_star(np.cov(x.T, bias=True).reshape(width, width)) if width > 1 else np.nan,
        "stable_rank": values.sum() / values[0],
        "spectral_exponent": exponent(values),
    }
