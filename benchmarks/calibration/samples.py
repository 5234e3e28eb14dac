"""How each score of a spectrum depends on the number of rows: isotropic Gaussians, whose every score is known."""

import numpy as np
import torch

from anisoscope.geometry.moments import Moments
from anisoscope.geometry.spectrum import Spectrum

from .table import repeat

WIDTH = 768
ROWS = tuple(2**power for power in range(5, 17))


def scores_by_rows(width: int = WIDTH, rows: tuple[int, ...] = ROWS, quiet: bool = True) -> list[dict]:
    """{"rows", "score", "found", "round_cloud"}: what came out of one sample, and what was said of it beforehand."""

    def once(at: int) -> list[dict]:
        cloud = torch.from_numpy(np.random.default_rng([3, at]).standard_normal((rows[at], width), dtype=np.float32))
        seen = Spectrum.of(Moments.of(cloud))
        said = seen.round_cloud().scores()
        return [
            {"rows": rows[at], "score": name, "found": value, "round_cloud": said.get(name)}
            for name, value in seen.scores().items()
        ]

    return [row for part in repeat("scores by rows", once, len(rows), quiet) for row in part]
