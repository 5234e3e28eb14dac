"""Every deterministic row of one look at one layer for one proxy, rank and view, written out from the method notes.

Nothing is streamed: all rows at once in float64, one number after the other.
"""

import numpy as np

from reference import shares


def halves(sequences: np.ndarray) -> np.ndarray:
    """True for rows of the fit half: the first half of the sequences, in the order in which they first appear."""
    order = list(dict.fromkeys(sequences.tolist()))
    first = set(order[: len(order) // 2])
    return np.array([sequence in first for sequence in sequences.tolist()])


def massive(h: np.ndarray, sequences: np.ndarray | None) -> np.ndarray:
    """The first position of each sequence, where positions are known, and rows above 20 times the median length."""
    length = np.linalg.norm(h, axis=1)
    found = length > 20 * np.median(length)
    if sequences is not None:
        found |= np.array([sequence not in sequences[:i] for i, sequence in enumerate(sequences)])
    return found


def in_view(view: str, primary: str, bearing: np.ndarray, heavy: np.ndarray) -> np.ndarray:
    everywhere = np.ones_like(bearing)
    plain = {"all": everywhere, "bearing": bearing, "other": ~bearing}
    return plain[primary] & ~heavy if view == "clean" else plain[view]


def rows(
    h: np.ndarray,
    g: dict[str, np.ndarray],
    sequences: np.ndarray | None,
    proxy: str,
    rank: int,
    view: str,
    bearing: np.ndarray | None = None,
    primary: str = "all",
) -> dict[tuple[str, str], float]:
    """{(control, statistic): value}; `g` by label: true, and where there are some sampled, permuted."""
    each_row = np.arange(len(h)) if sequences is None else sequences
    fit = halves(each_row)
    bearing = np.ones(len(h), bool) if bearing is None else bearing
    member = in_view(view, primary, bearing, massive(h, sequences))

    axes = shares.principal(h[fit & member], centred=proxy == "pca")
    q, beside = axes[:, :rank], axes[:, rank : 2 * rank]
    tested = h[~fit & member]
    loud = ~fit & member & g["true"].any(1)
    true, width = g["true"][loud], h.shape[1]
    best = shares.principal(true, centred=False)[:, :rank]

    found = both("", true, q)
    e, e_best = found["", "energy_share"], shares.energy_share(true, best)
    e_normal = shares.normal_energy(e, rank, width)
    found["", "captured_variance"] = shares.captured_variance(tested, q)
    found["", "enrichment"] = e * width / rank
    found["", "placement"] = (e - e_normal) / (e_best - e_normal)
    found["random_normal", "energy_share"] = e_normal
    found["random_normal", "anisotropy_share"] = found.pop(("/random_normal", "anisotropy_share"))
    if view != primary:
        return found

    s = shares.second_moment(true)
    found["", "anisotropy_removed"] = shares.anisotropy_removed(s, q)
    if proxy == "pca":
        c = np.cov(tested.T, bias=True)
        found["", "displacement_share"] = float(np.trace(s @ q @ q.T @ c @ q @ q.T) / np.trace(s @ c))
    found["", "anisotropy_removed_padded"] = shares.anisotropy_removed(s, q, padded=True)
    found |= both("next_directions", true, beside)
    found["next_directions", "captured_variance"] = shares.captured_variance(tested, beside)
    found |= both("oracle", true, best)
    del found["oracle/random_normal", "anisotropy_share"]
    found["oracle", "captured_variance"] = shares.captured_variance(tested, best)
    found |= both("common_gradient", true - true.mean(0), q)
    found |= both("row_normalised", shares.unit(true), q)
    for label in ("sampled", "permuted"):
        if label in g:
            found |= both(f"{label}_labels", g[label][loud], q)
    return found


def both(control: str, g: np.ndarray, q: np.ndarray) -> dict[tuple[str, str], float]:
    """Both shares, and the anisotropy share of the population's own random normal directions."""
    s = shares.second_moment(g)
    return {
        (control, "energy_share"): shares.energy_share(g, q),
        (control, "anisotropy_share"): shares.anisotropy_share(s, q),
        (f"{control}/random_normal", "anisotropy_share"): shares.normal_anisotropy(s, q),
    }


def gradient_rows(g: np.ndarray, member: np.ndarray) -> dict[str, float]:
    """What the gradients of the primary view say without any proxy; `member` marks its test rows."""
    mine = g[member]
    loud = mine[mine.any(1)]
    return {
        "zero_gradient_rows": float(np.mean(~mine.any(1))),
        "mean_gradient_share": float(len(loud) * np.sum(loud.mean(0) ** 2) / np.sum(loud**2)),
    }
