"""The command line: parse, call, print. Commands are loaded when they are called, so that the light ones stay fast."""

import importlib.metadata
import os
import sys
from collections.abc import Sequence

import cyclopts
from rich.console import Console
from rich.text import Text

from ..errors import AnisoscopeError

app = cyclopts.App(
    name="anisoscope",
    version=lambda: importlib.metadata.version("anisoscope"),
    help="In which directions does a language model learn, is that more than chance, and what else would explain it?",
    help_format="plaintext",
    version_flags=["--version"],
)
_HELP = {
    "demo": """Train two small language models while watching them, and write a page with what the evidence supports.

A decoder (it guesses the next token) and its twin, an encoder (it guesses hidden tokens), learn from the English inside
every Python. Nothing is downloaded.

Try:

    anisoscope demo
    anisoscope demo --preset smoke --out runs/demo
""",
    "report": """Judge one run or several together, and write the page.

Verdicts are recomputed from the rows of the runs, also of a run that is still being written.

Try:

    anisoscope report runs/demo
    anisoscope report runs/demo/decoder --out decoder.html
""",
    "explain": """Say what a statistic, a control or a claim means, and what to hold against it.

Without a name it lists all there are.

Try:

    anisoscope explain
    anisoscope explain energy_share
    anisoscope explain tangent-energy
    anisoscope explain A1
""",
}
for _name, _help in _HELP.items():
    app.command(f"anisoscope.cli.{_name}:{_name}", name=_name, help=_help)


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: errors of ours are one line on standard error, not a traceback."""
    try:
        app(arguments)
    except AnisoscopeError as error:
        Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(
            Text("error: ", style="red").append(str(error))
        )
        raise SystemExit(1) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
