"""How it could be wrong, and the facts of the runs: sentences and rows made from what the stores hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..claims import Verdict
from .cards import is_joint, rival_name
from .rows import RunRows
from .words import ROLES

_CLOSE = 0.5  # a rival that does half of the effect is named among the doubts
_MOST = 12  # items of one list


@dataclass(frozen=True)
class Doubt:
    """One way in which the page could mislead."""

    title: str
    text: str
    items: tuple[tuple[str, str], ...] = ()  # (of whom, what)


def doubts(runs: Sequence[RunRows], verdicts: Sequence[Verdict]) -> list[Doubt]:
    """The most general first; what the data do not give is left out."""
    found = [_seeds(runs), _size(runs), _intervals(runs), _rivals(verdicts), _ways(verdicts), _cause(), *_states(runs)]
    return [doubt for doubt in found if doubt is not None]


def _seeds(runs: Sequence[RunRows]) -> Doubt:
    each = "one run, trained once" if len(runs) == 1 else f"{len(runs)} runs, each trained once"
    return Doubt(
        "One training is one training",
        f"This page rests on {each}. Another seed, another order of the data or another text may come out differently, "
        "and no interval on this page covers that. Train again with other seeds before believing a small difference.",
    )


def _size(runs: Sequence[RunRows]) -> Doubt | None:
    items = tuple((run.name, extent) for run in runs if (extent := _extent(run)))
    text = "What holds in models of this size, trained for this long, need not hold in others."
    return Doubt("Size", text, items) if items else None


def _extent(run: RunRows) -> str:
    """Parameters, steps, tokens tested: as far as they are known."""
    facts, windows = _part(run, "model"), _part(run, "windows")
    steps = [step for step in run.steps if step is not None]
    parts = [
        f"{count(facts['num_parameters'])} parameters" if "num_parameters" in facts else "",
        f"{count(max(steps))} training steps" if steps and max(steps) else "",
        f"{count(windows['test_sequences'])} test sequences of {count(windows.get('length', '?'))} tokens"
        if "test_sequences" in windows
        else "",
    ]
    return ", ".join(part for part in parts if part)


def _intervals(runs: Sequence[RunRows]) -> Doubt:
    draws = sorted({str(_part(run, "config").get("num_replicates", "")) for run in runs} - {""})
    how = f" ({', '.join(draws)} resamplings of the test sequences)" if draws else ""
    return Doubt(
        "What the intervals cover",
        f"Unless a caption says otherwise an interval is a 95% bootstrap over test sequences{how}: what other text of "
        "the same kind would have given for the same trained model. Those of random directions are over random draws. "
        "None is over seeds.",
    )


def _rivals(verdicts: Sequence[Verdict]) -> Doubt:
    close = []
    for verdict in verdicts:
        near = [one for one in verdict.explanations if one.share >= _CLOSE and not is_joint(verdict)]
        if near:
            shares = ", ".join(f"{rival_name(one)} {one.share:.0%}" for one in near)
            close.append((", ".join(verdict.runs), f"{verdict.claim}: {shares}"))
    if close:
        text = "These duller explanations reach at least half of an effect, each by itself:"
        return Doubt("The closest rivals", text, _first(close))
    measured = any(verdict.explanations for verdict in verdicts)
    text = "none of them reaches half of an effect" if measured else "there was no effect large enough to explain"
    return Doubt("The closest rivals", f"Of the duller explanations that were measured, {text}.")


def _ways(verdicts: Sequence[Verdict]) -> Doubt | None:
    asked = [verdict for verdict in verdicts if verdict.robustness is not None and verdict.robustness.total]
    if not asked:
        return None
    same, total = (sum(getattr(verdict.robustness, name) for verdict in asked) for name in ("same", "total"))
    flips = [(", ".join(v.runs), f"{v.claim}: {flip}") for v in asked for flip in v.robustness.flips]  # type: ignore[union-attr]
    text = (
        f"With another number of directions, another way to find them or another choice of tokens, {same} of {total} "
        f"verdicts stay what they are{'. These do not:' if flips else '.'}"
    )
    return Doubt("Other ways to measure", text, _first(flips))


def _cause() -> Doubt:
    return Doubt(
        "A place is no cause",
        "The page says where gradients lie, not that their lying there makes a model learn. Shares also depend on the "
        "units of the activations: a model with a few huge coordinates looks different without being different.",
    )


def _states(runs: Sequence[RunRows]) -> list[Doubt]:
    """What the stores themselves report: runs broken off, what could not be measured, what was left out."""
    broken = [(run.name, "not finished") for run in runs if run.manifest.get("finished") is False]
    faults = [fault for run in runs for fault in _faults(run)]
    notices = [(run.name, str(one)) for run in runs for one in run.manifest.get("notices") or ()]
    found = []
    if broken:
        text = "A run that is still going on, or was broken off, is judged on what it has so far."
        found.append(Doubt("Not finished", text, _first(broken)))
    for title, text, items in (
        ("What could not be measured", "The runs recorded these faults:", faults),
        ("What was left out", "The runs recorded these notices:", notices),
    ):
        if items:
            found.append(Doubt(title, text, _first(items)))
    if not faults and not notices:
        found.append(Doubt("Faults", "No run recorded anything that it could not measure."))
    return found


def _first(items: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    rest = len(items) - _MOST
    return (*items[:_MOST], *([("and", f"{rest} more")] if rest > 0 else []))


def _faults(run: RunRows) -> list[tuple[str, str]]:
    """Each fault once, with the steps at which it came up."""
    steps: dict[tuple[str, str], list[Any]] = {}
    for fault in run.faults:
        steps.setdefault((str(fault.get("where")), str(fault.get("reason"))), []).append(fault.get("step"))
    return [
        (run.name, f"{where}: {reason} (" + (f"{len(at)} looks" if len(at) > 1 else f"step {at[0]}") + ")")
        for (where, reason), at in steps.items()
    ]


def _part(run: RunRows, name: str) -> Mapping[str, Any]:
    part = run.manifest.get(name)
    return part if isinstance(part, Mapping) else {}


def count(value: Any) -> str:
    """
    >>> count(769536), count("many")
    ('769,536', 'many')
    """
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def role(run: RunRows) -> str:
    """What kind of model it is, in two or three words, or nothing."""
    return ROLES[run.objective][0] if run.objective in ROLES else ""


def facts(runs: Sequence[RunRows]) -> list[tuple[str, list[str]]]:
    """Rows of the table of facts: what, and its value in each run. What no run knows is left out."""
    table = [(title, [str(value(run) or "") for run in runs]) for title, value in _FACTS]
    return [(title, values) for title, values in table if any(values)]


def _objective(run: RunRows) -> str:
    return ": ".join(ROLES.get(run.objective, (run.objective,)))


def _windows(run: RunRows) -> str:
    part = _part(run, "windows")
    if not part:
        return ""
    sizes = f"{count(part.get('fit_sequences', '?'))} + {count(part.get('test_sequences', '?'))}"
    return f"{sizes} sequences of {count(part.get('length', '?'))} tokens (fit + test), from {part.get('source', '?')}"


def _looks(run: RunRows) -> str:
    return (
        f"{len(run.steps)}: steps " + ", ".join("unknown" if s is None else count(s) for s in run.steps)
        if run.steps
        else ""
    )


def _primary(run: RunRows) -> str:
    part = _part(run, "config").get("primary") or {}
    ranks = sorted({row["primary_rank"] for row in run.layers if row["width"]})
    return f"{', '.join(map(str, ranks))} directions by {part.get('proxy', 'pca')}, view {run.view}" if ranks else ""


def _versions(run: RunRows) -> str:
    part = _part(run, "environment")
    versions = part.get("versions")
    named = [f"{name} {version}" for name, version in versions.items()] if isinstance(versions, Mapping) else []
    return ", ".join([f"Python {part['python']}" if "python" in part else "", *named]).strip(", ")


_FACTS = (
    ("objective", _objective),
    ("model", lambda run: _part(run, "model").get("class") or _part(run, "model").get("source")),
    ("parameters", lambda run: count(_part(run, "model").get("num_parameters", ""))),
    ("layers watched", lambda run: ", ".join(row["layer"] for row in run.layers)),
    ("width", lambda run: ", ".join(sorted({count(row["width"]) for row in run.layers if row["width"]}))),
    ("windows", _windows),
    ("looks", _looks),
    ("planned steps", lambda run: count(run.manifest.get("num_steps") or "")),
    ("what is judged", _primary),
    ("finished", lambda run: {True: "yes", False: "no"}.get(run.manifest.get("finished"), "")),  # type: ignore[arg-type]
    ("started", lambda run: run.manifest.get("created")),
    ("attempts", lambda run: count(run.manifest.get("attempt", ""))),
    ("versions", _versions),
)
