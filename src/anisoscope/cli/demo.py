"""`anisoscope demo`: the main job, from a text to a page."""

import contextlib
import itertools
import operator
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Literal

from rich.console import Group
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from ..capture.windows import read_text
from ..claims.words import summary
from ..lab.corpus import embedded_corpus
from ..lab.presets import PRESETS
from ..lab.twins import OBJECTIVE, train_twins
from ..run import open_runs
from ..store.writer import looks_in, refuse_unwritable
from .printing import Json, conclude, quiet, stderr, stdout


def demo(
    *,
    preset: Literal["smoke", "quick"] = "quick",
    out: Path | None = None,
    text: Path | None = None,
    seed: int = 0,
    as_json: Json = False,
) -> None:
    """Train two small language models while watching them, and open a page that says what the evidence supports.

    Parameters
    ----------
    preset:
        quick takes a few minutes on two cores; smoke less than one, and says less.
    out:
        Folder for both runs and the page; the first free of runs/demo, runs/demo-2, ...
    text:
        A UTF-8 text to learn from instead.
    seed:
        Of initial weights, data order and windows.
    """
    chosen = PRESETS[preset]
    out = _free_folder(Path("runs/demo")) if out is None else out
    for kind in OBJECTIVE:
        refuse_unwritable(out / kind)
    page = out / "report.html"
    words, source = (embedded_corpus(), "the embedded corpus") if text is None else read_text(text)
    watch = _Watch(chosen.num_steps)
    live = Live(get_renderable=watch.picture, console=stderr(), refresh_per_second=4)
    try:
        with contextlib.nullcontext() if quiet() else live:
            paths = train_twins(words, source, chosen, out, seed, watch)
    except KeyboardInterrupt:
        raise SystemExit(_interrupted(out)) from None
    runs = open_runs(paths)
    verdicts = conclude(runs, page, as_json)
    if as_json:
        return
    console = stdout()
    console.print("Worth typing next:")
    command = "anisoscope" if shutil.which("anisoscope") else os.path.relpath(sys.argv[0])
    console.print(f"  {command} explain tangent-energy")
    console.print(f"  {command} report {out}")
    look_at = f"print(an.open_run('{paths[0]}').claims()[0].sentence)"
    console.print(f'  {os.path.relpath(sys.executable)} -c "import anisoscope as an; {look_at}"')
    console.print()
    for line in summary(verdicts, {run.name: run.manifest.get("objective") for run in runs}):
        console.print(line)


def _free_folder(path: Path) -> Path:
    taken, number = path, 2
    while taken.exists():
        taken, number = path.with_name(f"{path.name}-{number}"), number + 1
    return taken


def _interrupted(out: Path) -> int:
    console = stderr()
    runs = [path for path in map(out.joinpath, OBJECTIVE) if looks_in(path)]
    if runs:
        console.print(f"Stopped. What was measured is kept: anisoscope report {' '.join(map(str, runs))}")
        console.print(f"To start again give another folder with --out, or delete {out} first.")
    else:
        console.print("Stopped before anything was measured.")
    return 130


class _Watch:
    """The compact live table: one line a look, and how much time remains. Warnings in the log appear above it."""

    def __init__(self, num_steps: int) -> None:
        self._num_steps = num_steps
        self._looks: list[tuple[str, int, dict[str, float | None]]] = []
        self._stage = ""
        self._done = 0
        self._began_s = 0.0

    def on_stage(self, stage: str) -> None:
        self._stage = stage

    def on_step(self, step: int, loss: float) -> None:
        self._began_s = self._began_s or time.monotonic()
        self._done += 1

    def on_look(self, kind: str, step: int, glance: dict[str, float | None]) -> None:
        self._looks.append((kind, step, glance))

    def picture(self) -> Group:
        """What is known so far; the live display asks for it from a thread of its own."""
        parts: list[Table | Text] = []
        for kind, group in itertools.groupby(list(self._looks), operator.itemgetter(0)):
            looks = list(group)
            headers = [Column(name, justify="right") for name in ("step", *looks[0][2])]
            table = Table(
                *headers, title=kind, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0)
            )
            for _, step, glance in looks:
                table.add_row(str(step), *("" if value is None else f"{value:.3f}" for value in glance.values()))
            parts.append(table)
        total, state = 2 * self._num_steps, self._stage
        if self._done and self._done < total:
            left_s = (time.monotonic() - self._began_s) / self._done * (total - self._done)
            state += f", step {self._done % self._num_steps} of {self._num_steps}; about {left_s:.0f} s remain"
        return Group(*parts, Text(state, style="dim"))
