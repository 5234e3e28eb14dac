"""What do moments, spectra and draws cost beside the bare products and decompositions they are made of?"""

import sys

import numpy as np
import torch

from anisoscope.geometry.inference import resampling_counts
from anisoscope.geometry.moments import Moments
from anisoscope.geometry.projections import Projections
from anisoscope.geometry.spectrum import Spectrum
from anisoscope.geometry.subspace import SecondMoment, even_draws

from .calibration.table import markdown
from .harness import in_turn

LAYERS, ROWS, WIDTH, RANK = 13, 8192, 768, 16


def rows_of(num_rows: int, seed: int = 0) -> torch.Tensor:
    """Rows with a spectrum that falls as 1/i and a mean, as activations have them."""
    rng = np.random.default_rng(seed)
    cloud = rng.standard_normal((num_rows, WIDTH), dtype=np.float32) * (np.arange(1, WIDTH + 1) ** -0.5)
    return torch.from_numpy(cloud.astype(np.float32)) + 0.3


def run() -> str:
    return "\n\n".join([moments(), scores(), uncertainty(), growth()])


def moments() -> str:
    layers = [rows_of(ROWS, seed) for seed in range(LAYERS)]
    wanted = layers[0].double()
    torch.testing.assert_close(Moments.of(layers[0]).scatter / ROWS, torch.cov(wanted.T, correction=0))

    def bare(dtype: torch.dtype) -> None:
        for rows in layers:
            rows = rows.to(dtype)
            rows.T @ rows

    found = in_turn(
        {
            "moments of 13 layers x 8192 x 768": lambda: [Moments.of(rows) for rows in layers],
            "bare products in float64": lambda: bare(torch.float64),
            "bare products in float32": lambda: bare(torch.float32),
        },
        repeats=3,
    )
    return _table(found, "bare products in float64")


def scores() -> str:
    rows = rows_of(16384)
    seen = Moments.of(rows)

    def gram_and_eigh() -> None:
        wide = rows.double()
        torch.linalg.eigh(wide.T @ wide)

    contenders = {
        "all spectral scores of 16384 x 768": lambda: Spectrum.of(Moments.of(rows)).scores(),
        "Gram and eigh in float64": gram_and_eigh,
        "the scores alone, from moments": lambda: Spectrum.of(seen).scores(),
    }
    try:
        from IsoScore.IsoScore import IsoScore
    except ImportError:
        print("IsoScore is not installed", file=sys.stderr)
    else:
        array = rows.numpy()
        gap = abs(float(IsoScore(array)) - Spectrum.of(seen).isoscore)
        if gap > 1e-5:
            raise AssertionError(f"IsoScore's own figure is {gap:.1g} away from ours")
        contenders["IsoScore alone, by its own package"] = lambda: IsoScore(array)
    found = in_turn(contenders)
    return _table(found, "Gram and eigh in float64")


def uncertainty() -> str:
    """200 replicates and 200 draws for one layer; the sums by sequence are part of the look's pass over the rows."""
    g = rows_of(4096, 1)
    units = torch.arange(4096) // 64
    counts = resampling_counts(64)
    second = SecondMoment.of(Moments.of(g))
    q = second.eigen[1][:, :RANK]
    sums = Projections(q, 64)
    sums.add(g, units)

    def both() -> None:
        sums.energies(counts).sum(1)
        even_draws(second, RANK, 200, outside=q)

    found = in_turn(
        {
            "200 replicates and 200 draws, D = 768, k = 16, eigh known": both,
            "eigh of the layer": lambda: torch.linalg.eigh(second.matrix),
        }
    )
    return _table(found, "eigh of the layer")


def growth() -> str:
    """Time of moments against the number of rows: the slope in log-log, 1 if linear."""
    sizes = [4096, 8192, 16384, 32768, 65536]
    clouds = {size: rows_of(size) for size in sizes}
    found = in_turn({str(size): (lambda size=size: Moments.of(clouds[size])) for size in sizes}, repeats=5)
    slope = np.polyfit(np.log(sizes), np.log([found[str(size)].low_s for size in sizes]), 1)[0]
    table = markdown(["rows", *map(str, sizes)], [["time", *(found[str(size)] for size in sizes)]])
    return f"{table}\n\nSlope in log-log, fastest of each: {slope:.2f}."


def _table(found: dict, floor: str) -> str:
    base = found[floor].median_s
    return markdown(["what", "time", "times the floor"], ([n, t, f"{t.median_s / base:.2f}"] for n, t in found.items()))
