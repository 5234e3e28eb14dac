"""What several commands print: verdict lines, as a table or as JSON; and how they find runs and write the page."""

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import cyclopts
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..claims import CLAIMS, Verdict
from ..report import write_page
from ..run import Runs
from ..store import Reader

Json = Annotated[bool, cyclopts.Parameter(name="--json", negative="", help="Print the table as JSON and nothing else.")]


def stdout() -> Console:
    """Where results go; a pipe has no width, a line is a line there. Paths may hold brackets: no markup."""
    terminal = sys.stdout.isatty()
    return Console(soft_wrap=not terminal, highlight=False, markup=False, width=None if terminal else 160)


def stderr() -> Console:
    """Where progress and complaints go."""
    return Console(stderr=True, soft_wrap=True, highlight=False, markup=False)


def quiet() -> bool:
    """No progress in pipes and under CI."""
    return not sys.stderr.isatty() or bool(os.environ.get("CI"))


def conclude(runs: Runs, page: Path, as_json: bool) -> list[Verdict]:
    """Judges the runs, writes the page, prints the verdict lines (or their JSON, and nothing else)."""
    with contextlib.nullcontext() if quiet() else stderr().status("judging, and drawing the page"):
        verdicts = runs.claims()
        write_page([Reader(run.path) for run in runs], verdicts, page)
    if as_json:
        print(json.dumps(_verdict_rows(verdicts), indent=1))  # noqa: T201
    else:
        print_verdicts(stdout(), verdicts)
        stdout().print(f"\nThe page: {page.resolve().as_uri()}")
    return verdicts


def print_verdicts(console: Console, verdicts: Sequence[Verdict]) -> None:
    """One line a claim and run: name, run, verdict, effect with interval, strongest rival."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    for name in ("claim", "run", "verdict"):
        table.add_column(name, no_wrap=True)
    for name in ("effect [95%]", "strongest rival"):
        table.add_column(name, overflow="fold")
    styles = {"supported": "green", "reversed": "magenta", "not supported": "yellow"}
    for claim in CLAIMS:
        for verdict in verdicts:
            if verdict.claim == claim:
                outcome = Text(verdict.outcome, style=styles.get(verdict.outcome, "cyan"))
                names = "together" if len(verdict.runs) > 1 else " ".join(verdict.runs)
                table.add_row(claim, names, outcome, verdict.number, verdict.rival_line)
    console.print(table)


def _verdict_rows(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    return [
        {
            "claim": verdict.claim,
            "source": verdict.source,
            "runs": list(verdict.runs),
            "outcome": verdict.outcome,
            "value": verdict.effect,
            "low": verdict.low,
            "high": verdict.high,
            "interval": "" if verdict.effect is None else "sequences",
            "unit": verdict.unit,
            "null": verdict.null,
            "sentence": verdict.sentence,
            "explanations": {one.name: one.share for one in verdict.explanations},
            "robustness": None if verdict.robustness is None else str(verdict.robustness),
            "would_change": verdict.would_change,
        }
        for verdict in verdicts
    ]
