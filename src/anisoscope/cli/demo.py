"""`anisoscope demo`: the main job, from a text to a page."""

import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..capture.windows import read_text
from ..claims.words import summary
from ..lab.corpus import embedded_corpus
from ..lab.presets import PRESETS
from ..lab.twins import Glance, Kind, Progress, train_twins
from ..run import open_runs
from ..store.writer import MANIFEST, refuse_unwritable
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
    for kind in ("decoder", "encoder"):
        refuse_unwritable(out / kind)
    page = out / "report.html"
    source, words = ("the embedded corpus", embedded_corpus()) if text is None else _text(text)
    watch = _Watch(chosen.num_steps, quiet=quiet())
    try:
        with watch:
            paths = train_twins(words, source, chosen, out, seed, watch.progress)
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


def _text(path: Path) -> tuple[str, str]:
    words, source = read_text(path)
    return source, words


def _free_folder(path: Path) -> Path:
    taken, number = path, 2
    while taken.exists():
        taken, number = path.with_name(f"{path.name}-{number}"), number + 1
    return taken


def _interrupted(out: Path) -> int:
    console = stderr()
    runs = [path for path in (out / "decoder", out / "encoder") if (path / MANIFEST).exists()]
    if runs:
        console.print(f"Stopped. What was measured is kept: anisoscope report {' '.join(map(str, runs))}")
        console.print(f"To start again give another folder with --out, or delete {out} first.")
    else:
        console.print("Stopped before anything was measured.")
    return 130


class _Watch:
    """The compact live table on standard error: one line a look, and how much time remains."""

    def __init__(self, num_steps: int, quiet: bool) -> None:
        self._num_steps, self._quiet = num_steps, quiet
        self._glances: dict[Kind, list[Glance]] = {"decoder": [], "encoder": []}
        self._stage = "reading the text"
        self._done = 0
        self._began_s = 0.0
        self._live: Live | None = None
        self.progress = Progress(self._on_stage, self._on_step, self._on_look)

    def __enter__(self) -> "_Watch":
        if not self._quiet:
            self._live = Live(self._picture(), console=stderr(), refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.update(self._picture())
            self._live.stop()

    def _on_stage(self, stage: str) -> None:
        self._stage = {"tokenizer": "learning a tokenizer"}.get(stage, f"training the {stage}")
        self._show()

    def _on_step(self, kind: Kind, step: int, loss: float) -> None:
        self._began_s = self._began_s or time.monotonic()
        self._done += 1
        self._show()

    def _on_look(self, kind: Kind, glance: Glance) -> None:
        self._glances[kind].append(glance)
        self._show()

    def _show(self) -> None:
        if self._live is not None:
            self._live.update(self._picture())

    def _picture(self) -> Group:
        parts: list[Any] = []
        for kind, glances in self._glances.items():
            if glances:
                parts.append(_glance_table(kind, glances))
        total, state = 2 * self._num_steps, self._stage
        if self._done and self._done < total:
            left_s = (time.monotonic() - self._began_s) / self._done * (total - self._done)
            state += f", step {self._done % self._num_steps} of {self._num_steps}; about {left_s:.0f} s remain"
        return Group(*parts, Text(state, style="dim"))


def _glance_table(kind: Kind, glances: Sequence[Glance]) -> Table:
    table = Table(title=kind, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    for name in ("step", "loss", "tangent share", "random others", "sampled labels", "chance", "anisotropy"):
        table.add_column(name, justify="right")
    for glance in glances:
        values = (glance.share, glance.random, glance.sampled, glance.chance, glance.anisotropy)
        loss = "" if glance.loss is None else f"{glance.loss:.2f}"
        table.add_row(str(glance.step), loss, *("" if value is None else f"{value:.3f}" for value in values))
    return table
