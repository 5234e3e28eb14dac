"""`early-and-persistent` (A3): is tangent energy there early in training, and does it stay?"""

import numpy as np

from .evidence import Evidence
from .replicates import interval
from .tangent import SMALLEST_BITS, by_layer, energy_effect, fatal_tests, over
from .verdict import Test, Verdict, mixed_by_depth, rule

SMALLEST_SHARE = 0.8
_EARLY = 0.1


def early_and_persistent(evidence: Evidence) -> Verdict:
    """A3: share of looks, from the last one within the first 10% of training on, in which `tangent-energy` is
    supported, minus the share in which it is reversed.
    """
    steps = [step for step in evidence.steps if step is not None]
    total = evidence.num_steps
    early = [step for step in steps if total is not None and 0 < step <= _EARLY * total]
    lacking = (
        "the planned number of steps: give num_steps="
        if total is None
        else f"at least 8 looks (there are {len(steps)}): look more often with every="
        if len(steps) < 8
        else "a look within the first 10% of training: look more often with every="
        if not early
        else ""
    )
    name = {"claim": "early-and-persistent", "source": "A3", "unit": "share of looks", "runs": (evidence.name,)}
    if lacking:
        return Verdict(outcome="inconclusive", sentence=f"inconclusive: needs {lacking}", would_change=lacking, **name)

    counted = [step for step in steps if step >= early[-1]]
    way, signs, passing, missing = evidence.primary, [], [], set()
    for step in counted:
        effect = over(evidence, energy_effect, [step], way)
        tests = fatal_tests(evidence, energy_effect, [step], way)
        layers = by_layer(evidence, energy_effect, [step], way)
        mixed = mixed_by_depth(list(layers), list(layers.values()))
        outcome = rule(effect, SMALLEST_BITS, tests, mixed=mixed).outcome
        signs.append({"supported": 1, "reversed": -1}.get(outcome, 0))
        missing |= {test.option for test in tests if test.quantity is None}
        passing.append(_replicates_that_pass(None if mixed else effect, tests, evidence.num_replicates))
    if missing:
        option = "; ".join(sorted(missing))
        return Verdict(outcome="inconclusive", sentence=f"inconclusive: needs {option}", would_change=option, **name)
    effect = np.append(np.mean(signs), np.mean(passing, axis=0))
    ruling = rule(effect, SMALLEST_SHARE, [])
    low, high = interval(effect)
    onset = next((step for step, sign in zip(counted, signs, strict=True) if sign > 0), None)
    late = [sign for step, sign in zip(counted, signs, strict=True) if step > 0.75 * total]  # type: ignore[operator]
    details = (
        "never set in" if onset is None else f"first seen at step {onset}, {onset / total:.0%} of training",  # type: ignore[operator]
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
        f"{len(counted)} looks from step {counted[0]} on; {details[0]}",
        would_change=ruling.would_change,
        details=details,
        replicates=effect,
        **name,
    )


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
