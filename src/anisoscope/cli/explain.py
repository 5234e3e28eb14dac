"""`anisoscope explain`: every word of the tables, with what to hold against it."""

import difflib
import json

from rich.table import Table
from rich.text import Text

from ..claims import CLAIMS
from ..errors import InputError
from ..store.vocabulary import ALL
from .printing import Json, stdout


def explain(name: str | None = None, /, *, as_json: Json = False) -> None:
    """Say what a statistic, a control or a claim means, and what to hold against it.

    Parameters
    ----------
    name:
        As it stands in the tables: energy_share, sampled_labels, tangent-energy, or a claim's code: A1, ...
    """
    known = {**{name: _term_facts(name) for name in ALL}, **{name: _claim_facts(name) for name in CLAIMS}}
    codes = {claim.source.lower(): claim.name for claim in CLAIMS.values()}
    found = name and codes.get(name.lower(), name.lower())
    if found is not None and found not in known:
        close = difflib.get_close_matches(found, known, n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(close)}?" if close else "anisoscope explain lists all names"
        raise InputError(f"nothing is called {name!r}; {hint}")
    chosen = list(known.values()) if found is None else [known[found]]
    if as_json:
        print(json.dumps(chosen, indent=1))  # noqa: T201
        return
    console = stdout()
    if found is None:
        table = Table("name", "kind", "what it is", box=None, padding=(0, 2, 0, 0), show_edge=False)
        for facts in chosen:
            table.add_row(facts["name"], facts["kind"], facts["title"])
        console.print(table)
        return
    for key, value in chosen[0].items():
        if value:
            console.print(Text(f"{key}: ", style="bold").append(str(value), style="not bold"))


def _term_facts(name: str) -> dict[str, str]:
    term = ALL[name]
    beside = "rules out" if term.kind == "control" else "hold against it"
    return {
        "name": name,
        "kind": term.kind,
        "title": term.title,
        "definition": term.definition,
        "unit": term.unit,
        beside: term.null,
        "section": f"docs/method.md, section {term.section}",
    }


def _claim_facts(name: str) -> dict[str, str]:
    claim = CLAIMS[name]
    return {
        "name": name,
        "kind": "claim",
        "title": claim.question,
        "effect": claim.effect,
        "smallest effect that matters": claim.smallest,
        "decided by": claim.fatal,
        "section": f"docs/method.md, section 9 ({claim.source})",
    }
