"""The charts of the page, one function each: the rows of one run in, an Altair chart out.

Each stands alone as well, in a notebook with its own slider and menu, or by `.save("chart.svg")`. The page takes the
same charts, puts their titles into its own text, and drives the charts of all runs with one slider and one menu.

>>> from anisoscope.report.rows import RunRows
>>> from anisoscope.store import METRICS, REPLICATES
>>> from anisoscope.store.schema import table
>>> rows = table([{"step": step, "statistic": "loss", "value": 5.0 - step} for step in (0, 1)], METRICS)
>>> loss_over_steps(RunRows("mine", {}, rows, table([], REPLICATES))).title.text
'Did the model learn anything at all?'
"""

from .curve import capture_curve
from .maps import anisotropy_map, enrichment_map
from .training import anisotropy_share_over_steps, energy_over_steps, loss_over_steps

__all__ = [
    "anisotropy_map",
    "anisotropy_share_over_steps",
    "capture_curve",
    "energy_over_steps",
    "enrichment_map",
    "loss_over_steps",
]
