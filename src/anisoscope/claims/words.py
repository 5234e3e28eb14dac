"""Verdicts in plain words, for somebody who has read neither paper."""

from collections.abc import Mapping, Sequence

from ..store.vocabulary import OBJECTIVES
from .verdict import Verdict


def summary(verdicts: Sequence[Verdict], objectives: Mapping[str, str | None] | None = None) -> list[str]:
    """What was found, whether it is more than chance, since when, what else would explain it, and how sure one can be.

    `objectives` of the runs by name, so that they can be called encoder and decoder.

    >>> verdict = Verdict("tangent-energy", "A1", "inconclusive", sentence="inconclusive: no gradients", runs=("a",))
    >>> summary([verdict])[0]
    'Found: in a nothing could be measured (inconclusive: no gradients).'
    """
    named = {run: OBJECTIVES[name].title for run, name in (objectives or {}).items() if name in OBJECTIVES}
    energy = [verdict for verdict in verdicts if verdict.claim == "tangent-energy"]
    early = [verdict for verdict in verdicts if verdict.claim == "early-and-persistent"]

    def name(verdict: Verdict) -> str:
        return " and ".join(f"the {named[run]}" if run in named else run for run in verdict.runs)

    return [
        "Found: " + "; ".join(_found(verdict, name(verdict)) for verdict in energy) + ".",
        "More than chance? " + "; ".join(_chance(verdict, name(verdict)) for verdict in energy) + ".",
        "Since when? " + "; ".join(_early(verdict, name(verdict)) for verdict in early) + ".",
        "What else would explain it? " + "; ".join(_rival(verdict, name(verdict)) for verdict in energy) + ".",
        _sure(energy),
    ]


def _found(verdict: Verdict, name: str) -> str:
    if not verdict.facts:
        return f"in {name} nothing could be measured ({verdict.sentence})"
    share, beside = verdict.facts["share"], verdict.facts["beside"]
    return (
        f"in {name}, {100 * share:.3g}% of what pushes on the hidden states lies in the few directions in which they "
        f"vary most (chance {100 * beside:.3g}%)"
    )


def _chance(verdict: Verdict, name: str) -> str:
    plain = {
        "supported": "yes, also against the untrained model and without outlier tokens",
        "reversed": "no: less than chance, the model avoids these directions",
        "not supported": "no, the difference is too small to matter",
        "not distinguishable from its null": "it cannot be told from its null",
        "inconclusive": "it cannot be said",
    }[verdict.outcome]
    if verdict.effect is not None:
        plain += f", {2**verdict.effect:.2g} times the odds of random other directions"
    if verdict.outcome == "supported" and any(one.name == "sampled_labels" and one.suffices for one in verdict.rivals):
        plain += "; but labels that the model made up push there as much, so this is no sign of learning from the text"
    return f"{name}: {plain} ({verdict.number})"


def _early(verdict: Verdict, name: str) -> str:
    return f"{name}: {verdict.details[0]}" if verdict.details else f"{name}: {verdict.sentence}"


def _rival(verdict: Verdict, name: str) -> str:
    parts = [
        f"{one.title} {'alone reach' if one.how == 'in its place' else 'account for'} {one.share:.0%} of the effect"
        for one in verdict.rivals
    ]
    return f"{name}: {', '.join(parts) or 'nothing to explain'}"


def _sure(energy: Sequence[Verdict]) -> str:
    same = [str(verdict.robustness) for verdict in energy if verdict.robustness and verdict.robustness.total]
    ways = "other directions, ranks and views of the same runs"
    held = f"; the verdict holds in {' and '.join(same)} {ways}" if same else ""
    runs = {1: "this one run", 2: "these two small runs"}.get(len(energy), f"these {len(energy)} runs")
    return f"How sure? In {runs}, one seed each, intervals over sequences{held}."
