"""Is our semi-NMF nearer to the bound than interpreto's SemiNMF and than plain updates, and how much faster?

    python -m benchmarks.bench_seminmf [ARRAYS.npz]

Synthetic rows: 256 concepts with Zipf-weighted, non-negative sparse codes, a mean, and Gaussian noise whose variances
fall as 1/i; 16384 x 768, float32. ARRAYS: an .npz with one (N, D) array a layer and `sequences` (N,); there sparsity
and the matched cosine of concepts between the two halves of the sequences are told too.
interpreto (its solver is overcomplete's) takes part where it can be imported; all at their default settings.
"""

import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from anisoscope.geometry.seminmf import _second_half, semi_nmf

from .calibration.table import markdown

RANKS, REPEATS = (16, 64), 3

Fit = Callable[[torch.Tensor, int, int], tuple[torch.Tensor, torch.Tensor]]


def ours(h: torch.Tensor, k: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    found = semi_nmf(h, k, seed=seed)
    return found.codes, found.concepts


def plain_updates(h: torch.Tensor, k: int, seed: int, num_updates: int = 100) -> tuple[torch.Tensor, torch.Tensor]:
    """Ding, Li and Jordan (2010), as written, without a stopping rule."""
    u = torch.rand(len(h), k, generator=torch.Generator().manual_seed(seed)) + 0.1
    for _ in range(num_updates):
        w = torch.linalg.lstsq(u.T @ u, u.T @ h).solution
        b, g = h @ w.T, w @ w.T
        up, down = b.clamp(min=0) + u @ (-g).clamp(min=0), (-b).clamp(min=0) + u @ g.clamp(min=0)
        u = u * (up / down.clamp(min=1e-30)).sqrt()
    return u, torch.linalg.lstsq(u.T @ u, u.T @ h).solution


def contestants() -> dict[str, Fit]:
    found: dict[str, Fit] = {"anisoscope": ours, "plain updates (100)": plain_updates}
    try:
        from interpreto._vendor.overcomplete.optimization import SemiNMF  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        print(f"interpreto takes no part: {error}", file=sys.stderr)
        return found

    def interpreto(h: torch.Tensor, k: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        torch.manual_seed(seed)
        return SemiNMF(k).fit(h)

    return found | {f"interpreto {version('interpreto')}": interpreto}


def synthetic(n: int = 16384, width: int = 768, num_concepts: int = 256, seed: int = 0) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    strength = 1 / np.arange(1, num_concepts + 1) ** 0.75
    codes = rng.exponential(size=(n, num_concepts)) * (rng.random((n, num_concepts)) < 0.1)
    concepts = rng.normal(size=(num_concepts, width)) / width**0.5
    noise = rng.normal(size=(n, width)) / np.arange(1, width + 1) ** 0.5
    h = (codes * strength) @ concepts + 0.05 * noise @ np.linalg.qr(rng.normal(size=(width, width)))[0]
    return torch.from_numpy((h + rng.normal(size=width) / width**0.5).astype(np.float32))


def bounds(h: torch.Tensor, k: int) -> tuple[float, float]:
    values = torch.linalg.eigvalsh(h.double().T @ h.double()).flip(0)
    low, high = (float((values[rank:].sum() / values.sum()).sqrt()) for rank in (k, k - 1))
    return low, high


def error(h: torch.Tensor, u: torch.Tensor, w: torch.Tensor) -> float:
    return float((h - u @ w).double().norm() / h.double().norm())


def hoyer(u: torch.Tensor, w: torch.Tensor) -> float:
    """Mean sparsity of the codes of concepts of length one."""
    u, k = (u * w.norm(dim=1)).double(), u.shape[1]
    u = u[u.any(1)]
    return float(((k**0.5 - u.sum(1) / u.norm(dim=1)) / (k**0.5 - 1)).mean())


def matched(one: torch.Tensor, two: torch.Tensor) -> float:
    cosines = (torch.nn.functional.normalize(one, dim=1) @ torch.nn.functional.normalize(two, dim=1).T).numpy()
    return float(cosines[linear_sum_assignment(-cosines)].mean())


Score = tuple[float, float, float]  # seconds, error, sparsity


def scores(h: torch.Tensor, k: int, fits: dict[str, Fit], repeats: int) -> dict[str, list[Score]]:
    """Round after round, so that a slow spell of the machine meets all; each round has a seed of its own, so that the
    spread of the error is that of the method.
    """
    low, high = bounds(h, k)
    found: dict[str, list[Score]] = {who: [] for who in fits}
    for seed in range(repeats):
        for who, fit in fits.items():
            began_s = time.perf_counter()
            u, w = fit(h, k, seed)
            took_s, missed = time.perf_counter() - began_s, error(h, u, w)
            assert float(u.min()) >= 0, "codes are not negative"
            assert low - 1e-5 <= missed, "no factorisation is below the SVD"
            assert fit is not ours or missed <= high + 1e-5, "ours promises the upper bound"
            found[who].append((took_s, missed, hoyer(u, w)))
    return found


def cells(h: torch.Tensor, k: int, fit: Fit, found: list[Score], halves: torch.Tensor | None) -> list[str]:
    low, high = bounds(h, k)
    took_s, errors, sparsity = zip(*found, strict=True)
    shared = [] if halves is None else [f"{matched(fit(h[~halves], k, 0)[1], fit(h[halves], k, 1)[1]):.2f}"]
    return [
        f"{low:.5f}-{high:.5f}",
        f"{statistics.median(errors):.5f} ({min(errors):.5f}-{max(errors):.5f})",
        f"{statistics.median(sparsity):.3f}",
        f"{statistics.median(took_s):.2f} ({min(took_s):.2f}-{max(took_s):.2f})",
        *shared,
    ]


def run(real: str = "") -> str:
    """Both ranks on the synthetic rows, or on the arrays of a file."""
    halves, clouds = None, {"synthetic": synthetic()}
    if real:
        with np.load(real) as arrays:
            halves = _second_half(arrays["sequences"], len(arrays["sequences"]))
            clouds = {name: torch.from_numpy(arrays[name]) for name in arrays.files if name != "sequences"}
    fits = contestants()
    for fit in fits.values():  # warm
        fit(torch.randn(512, 32), 4, 0)
    lines = [
        [f"{name} {h.shape[0]} x {h.shape[1]}, {k}", who, *cells(h, k, fits[who], found, halves)]
        for name, h in clouds.items()
        for k in RANKS
        for who, found in scores(h, k, fits, REPEATS).items()
    ]
    head = ["rows, k", "", "bounds", "error, median (spread)", "Hoyer", "seconds, median (spread)"]
    return markdown([*head, *(["halves"] if real else [])], lines)


if __name__ == "__main__":
    print(run(*sys.argv[1:]))
