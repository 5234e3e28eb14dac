"""Verdicts in plain words, for somebody who has read neither paper."""

from collections.abc import Mapping, Sequence

from .verdict import Verdict

_KIND = {"masked": "encoder", "causal": "decoder"}


def summary(verdicts: Sequence[Verdict], objectives: Mapping[str, str | None] | None = None) -> list[str]:
    """What was found, whether it is more than chance, since when, what else would explain it, and how sure one can be.

    `objectives` of the runs by name, so that they can be called encoder and decoder.

    >>> verdict = Verdict("tangent-energy", "A1", "inconclusive", sentence="inconclusive: no gradients", runs=("a",))
    >>> summary([verdict])[0]
    'Found: in a nothing could be measured (inconclusive: no gradients).'
    """
    named = {run: _KIND.get(str(objective), run) for run, objective in (objectives or {}).items()}
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
    return f"{name}: {plain} ({verdict.number})"


def _early(verdict: Verdict, name: str) -> str:
    return f"{name}: {verdict.details[0]}" if verdict.details else f"{name}: {verdict.sentence}"


def _rival(verdict: Verdict, name: str) -> str:
    """The strongest rival, or all that do as much as the effect itself: made-up labels first, they carry nothing."""
    heavy = [one for one in verdict.explanations if one.share >= 0.9]
    named = sorted(heavy, key=lambda one: one.name != "sampled_labels") or [verdict.strongest_rival]
    parts = [
        f"{one.title} {'alone reach' if one.how == 'in its place' else 'account for'} {one.share:.0%} of it"
        for one in named
        if one is not None
    ]
    if not parts:
        return f"{name}: nothing to explain"
    return f"{name}: {', '.join(parts)}" + (", as much as the effect itself" if heavy else "")


def _sure(energy: Sequence[Verdict]) -> str:
    same = [str(verdict.robustness) for verdict in energy if verdict.robustness and verdict.robustness.total]
    held = f"; the verdict holds in {' and '.join(same)} other ways to measure" if same else ""
    runs = {1: "one run", 2: "two small runs"}.get(len(energy), f"{len(energy)} runs")
    return (
        f"How sure? In {'this' if len(energy) == 1 else 'these'} {runs}, one seed each, intervals over sequences{held}."
    )
