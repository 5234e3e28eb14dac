"""`anisoscope explain`: every word of the tables, with what to hold against it."""

import difflib
import json

from rich.table import Table
from rich.text import Text

from ..claims import CLAIMS, Claim
from ..errors import InputError
from ..store.vocabulary import ALL, Term
from .printing import Json, stdout


def explain(name: str | None = None, /, *, as_json: Json = False) -> None:
    """Say what a statistic, a control or a claim means, and what to hold against it.

    Parameters
    ----------
    name:
        As it stands in the tables: energy_share, sampled_labels, tangent-energy, or a claim's code: A1, ...
    """
    facts = [*map(_term_facts, ALL.values()), *map(_claim_facts, CLAIMS.values())]
    if name is not None:
        facts = [_named(name, {one["name"]: one for one in facts})]
    if as_json:
        print(json.dumps(facts, indent=1))  # noqa: T201
    elif name is None:
        table = Table("name", "kind", "what it is", box=None, padding=(0, 2, 0, 0), show_edge=False)
        for one in facts:
            table.add_row(one["name"], one["kind"], one["title"])
        stdout().print(table)
    else:
        for key, value in facts[0].items():
            if value:
                stdout().print(Text(f"{key}: ", style="bold").append(value, style="not bold"))


def _named(name: str, known: dict[str, dict[str, str]]) -> dict[str, str]:
    """What is called so, in any case; a claim by its code too."""
    codes = {claim.source.lower(): claim.name for claim in CLAIMS.values()}
    wanted = codes.get(name.lower(), name.lower())
    if wanted not in known:
        close = difflib.get_close_matches(wanted, known, n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(close)}?" if close else "anisoscope explain lists all names"
        raise InputError(f"nothing is called {name!r}; {hint}")
    return known[wanted]


def _term_facts(term: Term) -> dict[str, str]:
    return {
        "name": term.name,
        "kind": term.kind,
        "title": term.title,
        "definition": term.definition,
        "unit": term.unit,
        "rules out" if term.kind == "control" else "hold against it": term.null,
        "section": f"docs/method.md, section {term.section}",
    }


def _claim_facts(claim: Claim) -> dict[str, str]:
    return {
        "name": claim.name,
        "kind": "claim",
        "title": claim.question,
        "effect": claim.effect,
        "smallest effect that matters": claim.smallest,
        "decided by": claim.fatal,
        "section": f"docs/method.md, section 9 ({claim.source})",
    }
