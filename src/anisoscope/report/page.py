"""The page: one file of HTML that shows what the evidence supports, and asks nothing of any network."""

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import jinja2
import vl_convert
from markupsafe import Markup

from ..claims import Verdict
from ..errors import StoreError
from ..store import Reader, vocabulary
from .cards import cards_of, share_out
from .doubts import count, doubts, facts
from .figures import Figure, figures, menu, slider
from .palette import variables
from .rows import RunRows
from .words import GLOSSARY

_HERE = Path(__file__).parent
_STATISTICS = ("energy_share", "captured_variance", "enrichment", "anisotropy_share", "loss")


def write_page(readers: Sequence[Reader], verdicts: Sequence[Verdict], out: str | os.PathLike[str]) -> Path:
    """Writes the page of these runs and what was judged of them; returns where it lies.

    >>> import tempfile
    >>> from anisoscope.store import Writer
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Writer(folder + "/run", {"name": "tiny"}) as writer:
    ...         _ = writer.commit(0, [{"step": 0, "statistic": "loss", "value": 4.2}])
    ...     page = write_page([Reader(folder + "/run")], [], folder + "/report.html")
    ...     "In which directions does this model learn?" in page.read_text()
    True
    """
    path = Path(out)
    text = render([RunRows.of(reader) for reader in readers], verdicts)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A name may hold half a surrogate pair, which has no UTF-8.
        path.write_text(text, encoding="utf-8", errors="replace", newline="\n")
    except OSError as error:
        raise StoreError(f"cannot write the page {path}: {error.strerror or error}; give another --out") from error
    return path


def render(runs: Sequence[RunRows], verdicts: Sequence[Verdict]) -> str:
    """The page as text."""
    drawn = figures(runs)
    own, joint = share_out([run.name for run in runs], cards_of(verdicts))
    style, script, library = _read("page.css").replace("/* colours */", _colours()), _read("page.js"), _library()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("page.html.jinja").render(
        runs=runs,
        watched=[_watched(run) for run in runs],
        roles={name: term.title for name, term in vocabulary.OBJECTIVES.items()},
        figures=drawn,
        slider=slider(runs),
        menu=menu(runs),
        doubts=doubts(runs, verdicts),
        facts=facts(runs),
        glossary=GLOSSARY,
        terms=_terms(runs),
        charts=_as_json(drawn),
        style=Markup(style),
        script=Markup(script),
        library=Markup(library),
        policy=_policy([style], [library, script]),
        own=own,
        joint=joint,
    )


def _watched(run: RunRows) -> str:
    """One run in one clause of the page's first sentence."""
    model = run.part("model")
    size = model.get("num_parameters")
    term = vocabulary.OBJECTIVES.get(run.objective)
    does = f" that {term.definition}" if term else ""
    kind = f"a model of {count(size)} parameters{does}" if size else f"a model{does}"
    if model.get("source") == "arrays":
        kind = "activations and gradients given as arrays"
    steps = [step for step in run.steps if step is not None]
    looks = "1 look" if len(run.steps) == 1 else f"{len(run.steps)} looks"
    when = f" from step {count(steps[0])} to step {count(steps[-1])}" if len(steps) > 1 else ""
    return f"{kind}, {looks}{when}" if run.steps else f"{kind}, nothing measured yet"


def _terms(runs: Sequence[RunRows]) -> list[tuple[str, list[vocabulary.Term]]]:
    """The words that this page uses, as the vocabulary defines them."""
    used: dict[str, set[str]] = {"control": set(), "proxy": set(), "view": set()}
    for run in runs:
        for name, words in used.items():
            words |= {str(word).split("/")[0] for word in run.metrics[name].unique().to_pylist() if word}
    known = (
        ("What is measured", vocabulary.STATISTICS, set(_STATISTICS)),
        ("What it is compared with", vocabulary.CONTROLS, used["control"]),
        ("How directions are found", vocabulary.PROXIES, used["proxy"]),
        ("Which tokens", vocabulary.VIEWS, used["view"]),
    )
    groups = [(title, [term for name, term in terms.items() if name in names]) for title, terms, names in known]
    return [(title, terms) for title, terms in groups if terms]


def _as_json(drawn: Sequence[Figure]) -> Markup:
    """Specifications and tables of all charts. Inside a script element only `<` could end it."""
    charts = {panel["id"]: panel["drawing"] for figure in drawn for panel in figure.panels if panel["drawing"]}
    return Markup(json.dumps(charts, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"))


def _colours() -> str:
    """The variables of both themes; print always has the light one."""
    light, dark = ("".join(f"{name}:{colour};" for name, colour in variables(theme)) for theme in (0, 1))
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"


@cache
def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


@cache
def _library() -> str:
    """Vega, Vega-Lite and vegaEmbed in one script. It must not be able to end its own element."""
    library = vl_convert.javascript_bundle().replace("\r", "")  # type: ignore[call-arg]  (the stub lacks its default)
    return library.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """Nothing but these very scripts and styles may run, and nothing may be asked of any network."""
    hashes = {kind: " ".join(f"'sha256-{_hash(text)}'" for text in texts)
              for kind, texts in (("style-src", styles), ("script-src", scripts))}  # fmt: skip
    rules = [f"{kind} {allowed}" for kind, allowed in hashes.items()]
    return "; ".join(["default-src 'none'", *rules, "base-uri 'none'", "form-action 'none'"])


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
