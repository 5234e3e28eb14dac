"""`docs/calibration.md` with its plots, from what the sections found."""

import platform
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import altair as alt
import torch

from anisoscope import __version__

from .dimension import Bias
from .power import Power
from .table import Rate, markdown, rates

Found = Mapping[str, Any]
_SCORES = ("anisotropy", "effective_rank", "participation_ratio", "isoscore_star")


def write(found: Found, folder: Path, minutes: float) -> Path:
    """The page, and its plots in `images/` beside it."""
    _save(_samples_plot(found["samples"]), folder, "calibration-rows")
    _save(_power_plot(found["power"]), folder, "calibration-power")
    _save(_bias_plot(found["dimension"]), folder, "calibration-dimension")
    path = folder / "calibration.md"
    path.write_text("\n\n".join(_parts(found, minutes)) + "\n", encoding="utf-8")
    return path


def _parts(found: Found, minutes: float) -> list[str]:
    by_sequences = [f"### {number} test sequences\n\n{rates(found[f'coverage of {number}'])}" for number in (64, 16)]
    return [
        "# Calibration",
        f"`make calibrate` wrote this page on {date.today()}, in {minutes:.0f} minutes, from fixed seeds: anisoscope "
        f"{__version__}, torch {torch.__version__}, Python {platform.python_version()}. A rate *holds* where it lies "
        "inside its band, or outside by no more than two standard errors of so many repetitions.",
        "## False alarms",
        "Gradients, labels, directions, looks: nothing knows of anything else. Each line is a test that the page "
        "makes, under its own null; 5% of them should speak. 64 test sequences of 6 tokens with something in common "
        "(30% of the variance) and heavy tails (a t of 6 degrees), D = 24, k = 3.",
        rates(found["alarms"]),
        "## Coverage of the intervals",
        "How often a 95% interval holds what the same measurement gives on average on other sequences of the same kind "
        "(model and fit half stay). Where a score is mostly noise its interval is too wide, never too narrow: first "
        "order counts the noise twice.",
        *by_sequences,
        "## Power",
        "Planted enrichment of the leading directions over chance; 64 test sequences as above. *Seen*: the interval of "
        "the effect leaves 0 out. *Large*: it lies above the smallest effect that matters (log2 1.5 bits).",
        markdown(
            ["enrichment", "seen", "large", "repetitions"],
            ([f"{p.enrichment:g}", f"{p.seen:.0%}", f"{p.large:.0%}", p.repeats] for p in found["power"]),
        ),
        "![Power against planted enrichment](images/calibration-power.svg)",
        "## What the number of rows does to a score",
        "Round Gaussians of D = 768: every score has one true value, and reports the sample size until there are many "
        "times more rows than directions. The line is what `Spectrum.round_cloud()` says beforehand.",
        "![Scores of round Gaussians by number of rows](images/calibration-rows.svg)",
        "## Intrinsic dimension",
        "Value over truth of each estimator on Gaussians, and on scikit-dimension's benchmark manifolds where it was "
        "installed; scikit-dimension's and DADApy's own TwoNN beside ours.",
        "![Estimated over true dimension of Gaussians](images/calibration-dimension.svg)",
        _bias_table(found["dimension"]),
        "## Rises, then falls",
        "False alarms of *rises, then falls* on flat curves with 3% noise, as sampling error and as wiggle that both "
        "halves of the sequences share (`claims.replicates.rise_and_fall`, m = log 1.1).",
        rates(found["rises"]),
    ]


def _bias_table(found: Sequence[Bias]) -> str:
    methods = list(dict.fromkeys(one.method for one in found))
    places = list(dict.fromkeys((one.manifold, one.truth, one.rows) for one in found))
    value = {(one.manifold, one.truth, one.rows, one.method): one.value for one in found}
    return markdown(
        ["manifold", "true", "rows", *methods],
        (
            [name, truth, f"{rows:,}", *(_number(value.get((name, truth, rows, method))) for method in methods)]
            for name, truth, rows in places
        ),
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _save(chart: alt.Chart | alt.LayerChart | alt.FacetChart, folder: Path, name: str) -> None:
    (folder / "images").mkdir(parents=True, exist_ok=True)
    chart.save(folder / "images" / f"{name}.svg")


def _samples_plot(found: Sequence[dict]) -> alt.FacetChart:
    rows = alt.Data(values=[row for row in found if row["score"] in _SCORES])
    x = alt.X("rows:Q", title="rows", scale=alt.Scale(type="log", base=2))
    base = alt.Chart(rows).properties(width=260, height=160)
    drawn = base.mark_point(filled=True, size=40).encode(x, alt.Y("found:Q", title=None))
    said = base.mark_line(color="#888").encode(x, alt.Y("round_cloud:Q", title=None))
    return (
        alt.layer(said, drawn).facet(facet=alt.Facet("score:N", title=None), columns=2).resolve_scale(y="independent")
    )


def _power_plot(found: Sequence[Power]) -> alt.LayerChart:
    values = [
        {"enrichment": one.enrichment, "rate": rate, "is": name}
        for one in found
        for name, rate in (("seen", one.seen), ("large", one.large))
    ]
    x, y = alt.X("enrichment:Q", title="planted enrichment over chance"), alt.Y("rate:Q", title="rate")
    base = alt.Chart(alt.Data(values=values)).encode(x, y, color=alt.Color("is:N", title=None))
    return alt.layer(base.mark_line(), base.mark_point(filled=True)).properties(width=420, height=220)


def _bias_plot(found: Sequence[Bias]) -> alt.FacetChart:
    values = [
        {"true": one.truth, "ratio": one.value / one.truth, "method": one.method, "rows": one.rows}
        for one in found
        if one.manifold == "Gaussian"
    ]
    base = alt.Chart(alt.Data(values=values)).encode(
        alt.X("true:Q", title="true dimension", scale=alt.Scale(type="log")),
        alt.Y("ratio:Q", title="estimate / truth"),
        color=alt.Color("method:N", title=None),
    )
    return (
        alt.layer(base.mark_line(), base.mark_point(filled=True))
        .properties(width=220, height=180)
        .facet(facet=alt.Facet("rows:N", title=None), columns=3)
    )


def holds(found: Found) -> list[Rate]:
    """The rates that do not hold."""
    return [one for part in found.values() for one in part if isinstance(one, Rate) and not one.holds]
