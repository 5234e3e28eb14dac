"""`early-and-persistent` (A3): is tangent energy there early in training, and does it stay?"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from .evidence import Evidence
from .replicates import interval
from .tangent import SMALLEST_BITS, by_layer, energy_effect, fatal_tests, over, too_few_sequences
from .verdict import Test, Verdict, mixed_by_depth, rule

SMALLEST_SHARE = 0.8
_EARLY = 0.1


def early_and_persistent(evidence: Evidence) -> Verdict:
    """A3: share of looks, from the last one within the first 10% of training on, in which `tangent-energy` is
    supported, minus the share in which it is reversed.
    """
    name = {"claim": "early-and-persistent", "source": "A3", "unit": "share of looks", "runs": (evidence.name,)}
    steps = [step for step in evidence.steps if step is not None]
    total = evidence.num_steps
    if total is None:
        lacking = "the planned number of steps: give num_steps=N"
        return Verdict(outcome="inconclusive", sentence=f"inconclusive: needs {lacking}", would_change=lacking, **name)
    early = [step for step in steps if 0 < step <= _EARLY * total]
    few = too_few_sequences(evidence)
    lacking = (
        few.would_change
        if few
        else f"at least 8 looks (there are {len(steps)}): look more often with every=N"
        if len(steps) < 8
        else "a look within the first 10% of training: look more often with every=N"
        if not early
        else ""
    )
    if lacking:
        return Verdict(outcome="inconclusive", sentence=f"inconclusive: needs {lacking}", would_change=lacking, **name)

    looks = {step: _judge_look(evidence, step) for step in steps if step > 0}
    missing = {option for look in looks.values() for option in look.missing}
    if missing:
        option = "; ".join(sorted(missing))
        return Verdict(outcome="inconclusive", sentence=f"inconclusive: needs {option}", would_change=option, **name)
    counted = {step: look for step, look in looks.items() if step >= early[-1]}
    signs = [look.sign for look in counted.values()]
    effect = np.append(np.mean(signs), np.mean([look.passing for look in counted.values()], axis=0))
    ruling = rule(effect, SMALLEST_SHARE, [])
    low, high = interval(effect)
    onset = next((step for step, look in looks.items() if look.sign > 0), None)
    late = [look.sign for step, look in counted.items() if step > 0.75 * total]
    details = (
        "never set in" if onset is None else _course(looks, onset, total),
        f"in the last quarter: {late.count(1)} of {len(late)} looks",
    )
    words = ruling.outcome + (f" ({ruling.reason})" if ruling.reason else "")
    return Verdict(
        outcome=ruling.outcome,
        effect=float(effect[0]),
        low=low,
        high=high,
        null="each look's own: untrained, clean",
        sentence=f"{words}: tangent-energy is supported in {signs.count(1)} and reversed in {signs.count(-1)} of "
        f"{len(counted)} looks from step {early[-1]} on; {details[0]}",
        would_change=ruling.would_change,
        details=details,
        replicates=effect,
        **name,
    )


def _course(looks: Mapping[int, "_Judged"], onset: int, total: int) -> str:
    """When it set in, when it was strongest, and what is left at the end."""
    last = max(looks)
    peak = max(looks, key=lambda step: np.nan_to_num(looks[step].bits, nan=-np.inf))
    return (
        f"first seen at step {onset}, {onset / total:.0%} of training; strongest at step {peak} "
        f"({looks[peak].bits:.2f} bits), {looks[last].bits:.2f} bits at the end"
    )


class _Judged(NamedTuple):
    """What `tangent-energy` comes to at one look."""

    bits: float
    sign: int  # +1 supported, -1 reversed, else 0
    passing: np.ndarray  # the same for each replicate
    missing: list[str]  # options that would provide what is not there


def _judge_look(evidence: Evidence, step: int) -> _Judged:
    way = evidence.primary
    effect = over(evidence, energy_effect, [step], way)
    tests = fatal_tests(evidence, energy_effect, [step], way)
    layers = by_layer(evidence, energy_effect, [step], way)
    mixed = mixed_by_depth(list(layers), list(layers.values()))
    outcome = rule(effect, SMALLEST_BITS, tests, mixed=mixed).outcome
    passing = _replicates_that_pass(None if mixed else effect, tests, evidence.num_replicates)
    # What is missing counts where it decides: a look without an effect, or with one too small, needs nothing more.
    missing = [test.option for test in tests if test.quantity is None and effect is not None]
    missing = missing if outcome == "inconclusive" and not mixed else []
    bits = float("nan") if effect is None else float(effect[0])
    return _Judged(bits, {"supported": 1, "reversed": -1}.get(outcome, 0), passing, missing)


def _replicates_that_pass(effect: np.ndarray | None, tests: list[Test], num_replicates: int) -> np.ndarray:
    """+1 where a replicate passes what `tangent-energy` asks, -1 where it passes the mirror image, else 0."""
    if effect is None:
        return np.zeros(num_replicates)
    up, down = effect[1:] >= SMALLEST_BITS, effect[1:] <= -SMALLEST_BITS
    for test in tests:
        if test.quantity is not None:
            least = SMALLEST_BITS if test.kind == "condition" else 0.0
            up, down = up & (test.quantity[1:] >= least), down & (test.quantity[1:] <= -least)
    return up.astype(float) - down
