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
    help_format="markdown",
    version_flags=["--version"],
)
app.command(
    "anisoscope.cli.demo:demo",
    help="Train two small language models while watching them, and write a page that says what the evidence supports.",
)
app.command("anisoscope.cli.report:report", help="Judge one run or several together, and write the page.")
app.command("anisoscope.cli.explain:explain", help="Say what a statistic, a control or a claim means.")


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: errors of ours are one line on standard error, not a traceback."""
    try:
        app(arguments)
    except AnisoscopeError as error:
        Console(stderr=True, soft_wrap=True, highlight=False).print(Text("error: ", style="red").append(str(error)))
        raise SystemExit(1) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
