"""Verdicts in plain words, for somebody who has read neither paper."""

from collections.abc import Mapping, Sequence

from ..store.vocabulary import OBJECTIVES
from .verdict import Outcome, Verdict

_PLAIN: dict[Outcome, str] = {
    "supported": "yes",
    "reversed": "no, less: the model avoids these directions",
    "not supported": "no, the difference is too small to matter",
    "not distinguishable from its null": "it cannot be told from its null",
    "inconclusive": "it cannot be said",
}


def summary(verdicts: Sequence[Verdict], objectives: Mapping[str, str | None] | None = None) -> list[str]:
    """What was found, whether it is more than chance, since when, what else would explain it, and how sure one can be.

    `objectives` of the runs by name, so that they can be called encoder and decoder.

    >>> verdict = Verdict("tangent-energy", "A1", "inconclusive", sentence="inconclusive: no gradients", runs=("a",))
    >>> summary([verdict])[0]
    'Found: a: nothing could be measured (inconclusive: no gradients).'
    """
    named = {run: OBJECTIVES[name].title for run, name in (objectives or {}).items() if name in OBJECTIVES}

    def told(claim: str) -> list[tuple[str, Verdict]]:
        mine = [verdict for verdict in verdicts if verdict.claim == claim]
        return [(" and ".join(named.get(run, run) for run in verdict.runs), verdict) for verdict in mine]

    energy, early = told("tangent-energy"), told("early-and-persistent")
    rivals = "; ".join(f"{name}: {_rivals(verdict)}" for name, verdict in energy)
    return [
        _found(energy),
        "More than chance? " + "; ".join(f"{name}: {_chance(verdict)}" for name, verdict in energy) + ".",
        "Since when? " + "; ".join(f"{name}: {(*one.details, one.sentence)[0]}" for name, one in early) + ".",
        f"What else would explain it? {rivals}.{_made_up([verdict for _, verdict in energy])}",
        _sure([verdict for _, verdict in energy]),
    ]


def _found(energy: Sequence[tuple[str, Verdict]]) -> str:
    shares = [
        f"{name}: {100 * one.facts['share']:.3g}% (chance {100 * one.facts['beside']:.3g}%)"
        if one.facts
        else f"{name}: nothing could be measured ({one.sentence})"
        for name, one in energy
    ]
    lead = "how much of the gradient lies in the few directions in which the activations vary most? "
    return "Found: " + (lead if any(one.facts for _, one in energy) else "") + "; ".join(shares) + "."


def _chance(verdict: Verdict) -> str:
    times = "" if verdict.effect is None else f", {2**verdict.effect:.2g} times the odds of random other directions"
    return f"{_PLAIN[verdict.outcome]}{times} ({verdict.number})"


def _rivals(verdict: Verdict) -> str:
    shares = [f"{one.title} {one.share:.0%}" for one in verdict.rivals]
    return f"{', '.join(shares)} of the effect" if shares else "nothing to explain"


def _made_up(energy: Sequence[Verdict]) -> str:
    same = [any(one.name == "sampled_labels" and one.suffices for one in verdict.rivals) for verdict in energy]
    if not any(same):
        return ""
    return " Labels that the model made up itself push there as much, so this is no sign of learning from the text."


def _sure(energy: Sequence[Verdict]) -> str:
    same = [str(verdict.robustness) for verdict in energy if verdict.robustness and verdict.robustness.total]
    held = f"; the verdict holds in {' and '.join(same)} other ways to measure the same runs" if same else ""
    runs = {1: "this one run", 2: "these two small runs"}.get(len(energy), f"these {len(energy)} runs")
    return f"How sure? In {runs}, one seed each, intervals over sequences{held}."
