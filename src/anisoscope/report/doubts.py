"""How it could be wrong, and the facts of the runs: sentences and rows made from what the stores hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..claims import Verdict
from ..store.vocabulary import OBJECTIVES
from .canvas import in_words
from .cards import is_joint
from .rows import RunRows

_CLOSE = 0.5  # a rival that does half of the effect is named among the doubts
_MOST = 12  # items of one list


@dataclass(frozen=True)
class Doubt:
    """One way in which the page could mislead."""

    title: str
    text: str
    found: Sequence[tuple[str, str]] = ()  # (of whom, what)

    @property
    def items(self) -> list[tuple[str, str]]:
        rest = len(self.found) - _MOST
        return [*self.found[:_MOST], *[("and", f"{rest} more")][: max(rest, 0)]]


def doubts(runs: Sequence[RunRows], verdicts: Sequence[Verdict]) -> list[Doubt]:
    """The most general first; what the data do not give is left out."""
    each = "one run, trained once" if len(runs) == 1 else f"{len(runs)} runs, each trained once"
    draws = sorted({str(run.part("config").get("num_replicates", "")) for run in runs} - {""})
    how = f" ({', '.join(draws)} resamplings of the test sequences)" if draws else ""
    return [
        Doubt(
            "One training is one training",
            f"This page rests on {each}. Another seed, another order of the data, another text or another size may "
            "come out differently, and no interval on this page covers that. Train again with other seeds before "
            "believing a small difference.",
        ),
        Doubt(
            "What the intervals cover",
            "Unless a caption says otherwise an interval is a 95% bootstrap over test sequences"
            f"{how}: what other text of the same kind would have given for the same trained model. Those of random "
            "directions are over random draws. None is over seeds.",
        ),
        _rivals([verdict for verdict in verdicts if not is_joint(verdict)]),
        *_ways(verdicts),
        Doubt(
            "A place is no cause",
            "The page says where gradients lie, not that their lying there makes a model learn. Shares also depend on "
            "the units of activations: a model with a few huge coordinates looks different without being different.",
        ),
        *_states(runs),
    ]


def _rivals(verdicts: Sequence[Verdict]) -> Doubt:
    close = [
        (", ".join(verdict.runs), f"{verdict.claim}: {', '.join(map(str, near))}")
        for verdict in verdicts
        if (near := [one for one in verdict.explanations if one.share >= _CLOSE])
    ]
    measured = any(verdict.explanations for verdict in verdicts)
    text = (
        "These duller explanations reach at least half of an effect, each by itself:"
        if close
        else "Of the duller explanations that were measured, none reaches half of an effect."
        if measured
        else "There was no effect large enough to explain."
    )
    return Doubt("The closest rivals", text, close)


def _ways(verdicts: Sequence[Verdict]) -> list[Doubt]:
    asked = [(verdict, verdict.robustness) for verdict in verdicts if verdict.robustness and verdict.robustness.total]
    same, total = sum(ways.same for _, ways in asked), sum(ways.total for _, ways in asked)
    flips = [(", ".join(verdict.runs), f"{verdict.claim}: {flip}") for verdict, ways in asked for flip in ways.flips]
    text = (
        f"With another number of directions, another way to find them or another choice of tokens, {same} of {total} "
        f"verdicts stay what they are{'. These do not:' if flips else '.'}"
    )
    return [Doubt("Other ways to measure", text, flips)] if asked else []


def _states(runs: Sequence[RunRows]) -> list[Doubt]:
    """What the stores themselves report: runs broken off, what could not be measured, what was left out."""
    broken = [(run.name, "not finished") for run in runs if run.manifest.get("finished") is False]
    faults = [fault for run in runs for fault in _faults(run)]
    notices = [(run.name, str(one)) for run in runs for one in run.manifest.get("notices") or ()]
    states = [
        Doubt("Not finished", "A run still going on, or broken off, is judged on what it has so far.", broken),
        Doubt("What could not be measured", "The runs recorded these faults:", faults),
        Doubt("What was left out", "The runs recorded these notices:", notices),
    ]
    silent = [] if faults or notices else [Doubt("Faults", "No run recorded anything that it could not measure.")]
    return [state for state in states if state.found] + silent


def _faults(run: RunRows) -> list[tuple[str, str]]:
    """Each fault once, with the steps at which it came up."""
    steps: dict[tuple[str, str], list[Any]] = {}
    for fault in run.faults:
        steps.setdefault((str(fault.get("where")), str(fault.get("reason"))), []).append(fault.get("step"))
    return [
        (run.name, f"{where}: {reason} (" + (f"{len(at)} looks" if len(at) > 1 else f"step {at[0]}") + ")")
        for (where, reason), at in steps.items()
    ]


def facts(runs: Sequence[RunRows]) -> list[tuple[str, list[str]]]:
    """Rows of the table of facts: what, and its value in each run. What no run knows is left out."""
    each = [_facts(run) for run in runs]
    titles = dict.fromkeys(title for one in each for title in one)
    table = [(title, [one.get(title, "") for one in each]) for title in titles]
    return [(title, values) for title, values in table if any(values)]


def _facts(run: RunRows) -> dict[str, str]:
    model, windows, versions = run.part("model"), run.part("windows"), run.part("environment").get("versions")
    sizes = [count(windows.get(name, "?")) for name in ("fit_sequences", "test_sequences", "length")]
    ranks = sorted({rank for rank in run.primary_ranks.values() if rank})
    term = OBJECTIVES.get(run.objective)
    found = {
        "objective": f"{term.title}: {term.definition}" if term else run.objective,
        "model": str(model.get("class") or model.get("source") or ""),
        # Isolated: a name that turns the direction of writing turns no other's.
        "layers watched": ", ".join(f"\u2068{layer}\u2069" for layer in run.layers.values()),
        "windows": "{} + {} sequences of {} tokens (fit + test)".format(*sizes) if windows else "",
        "looks": f"{len(run.steps)}: steps {', '.join(map(in_words, run.steps))}" if run.steps else "",
        "what is judged": f"{', '.join(map(str, ranks))} directions by {run.proxy}, view {run.view}" if ranks else "",
        "started": str(run.manifest.get("created") or ""),
    }
    named = versions if isinstance(versions, Mapping) else {}
    return found | {"versions": ", ".join(f"{name} {version}" for name, version in named.items())}


def count(value: Any) -> str:
    """
    >>> count(769536), count("many")
    ('769,536', 'many')
    """
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
