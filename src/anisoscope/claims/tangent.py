"""`tangent-energy` (A1) and `tangent-anisotropy` (A2): do a few directions, fitted on activations alone, hold more of
the gradient than directions outside them?
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .evidence import Evidence, Way
from .replicates import Replicates, discoveries, interval, log2_first_order, log_odds, median
from .verdict import Explanation, Robustness, Ruling, Test, Verdict, mixed_by_depth, rule, suffice_in_words

SMALLEST_BITS = float(np.log2(1.5))
SMALLEST_EXCESS = 0.05
FEWEST_SEQUENCES = 8
FREEZE = 0.3  # looks after this fraction of training are judged

# (evidence, step, layer, way, control) -> the effect in that cell, or None
Effect = Callable[[Evidence, int | None, str, Way, str], Replicates | None]

# rival in the measurement's place: theta_rival / theta
_IN_ITS_PLACE = ("sampled_labels", "permuted_labels", "next_directions", "variance_matched")
# taken out and measured again: 1 - theta_without / theta
_TAKEN_OUT = ("common_gradient", "row_normalised")


def energy_effect(evidence: Evidence, step: int | None, layer: str, way: Way, control: str) -> Replicates | None:
    """`log2(e / e_n)` of a cell, e_n the mean of its own random normal controls."""
    found = evidence.cell(step, layer, way, "energy_share", control)
    return None if found is None or found[1] is None else log_odds(found[0], found[1])


def anisotropy_effect(evidence: Evidence, step: int | None, layer: str, way: Way, control: str) -> Replicates | None:
    """`log2(a / mean a_n)` of a cell, a_n those of its own random normal controls."""
    share = evidence.cell(step, layer, way, "anisotropy_share", control)
    own = f"{control}/random_normal" if control else "random_normal"
    normal = evidence.cell(step, layer, way, "anisotropy_share", own)
    if share is None or normal is None:
        return None
    return log2_first_order(share[0]) - log2_first_order(normal[0])


def _cell(statistic: str, beside: str = "") -> Effect:
    """A number of the store as it is, of the control asked for or of the one that stands beside the measurement."""

    def cell(evidence: Evidence, step: int | None, layer: str, way: Way, control: str) -> Replicates | None:
        found = evidence.cell(step, layer, way, statistic, control or beside)
        return None if found is None else found[0]

    return cell


def _chance(evidence: Evidence, step: int | None, layer: str, way: Way, control: str) -> Replicates | None:
    found = evidence.cell(step, layer, way, "energy_share", control)
    return None if found is None or found[1] is None else np.full_like(found[0], found[1])


def _less(one: Effect, other: Effect) -> Effect:
    """The difference of two."""

    def difference(*where: Any) -> Replicates | None:
        left, right = one(*where), other(*where)
        return None if left is None or right is None else left - right

    return difference


_RANDOM_ANISOTROPY = _cell("anisotropy_share", "random_normal")
_ENERGY_EXCESS = _less(_cell("energy_share"), _chance)
_ANISOTROPY_EXCESS = _less(_cell("anisotropy_share"), _RANDOM_ANISOTROPY)
# Above or below the diagonal of the capture curve.
_CURVE_HEIGHT = _less(_cell("energy_share"), _cell("captured_variance"))


def over(
    evidence: Evidence, effect: Effect, steps: Sequence[int | None], way: Way, control: str = ""
) -> Replicates | None:
    """Median over the watched blocks, then over looks; None where no cell is there."""
    looks = []
    for step in steps:
        parts = [effect(evidence, step, layer, way, control) for layer in evidence.layers]
        parts = [part for part in parts if part is not None]
        if parts:
            looks.append(median(parts))
    return median(looks) if looks else None


def by_layer(evidence: Evidence, effect: Effect, steps: Sequence[int | None], way: Way) -> dict[str, Replicates]:
    found = {}
    for layer in evidence.layers:
        parts = [effect(evidence, step, layer, way, "") for step in steps]
        parts = [part for part in parts if part is not None]
        if parts:
            found[layer] = median(parts)
    return found


def _against_untrained(effect: Effect) -> Effect:
    """The effect minus that of the same layer untrained: a control of its own, else the run's own step 0."""

    def untrained(evidence: Evidence, step: int | None, layer: str, way: Way, control: str) -> Replicates | None:
        declared = effect(evidence, step, layer, way, "untrained")
        return effect(evidence, 0, layer, way, control) if declared is None and step != 0 else declared

    return _less(effect, untrained)


@dataclass(frozen=True)
class _Question:
    """What A1 and A2 differ in."""

    claim: str
    source: str
    effect: Effect
    share: Effect
    beside: Effect  # what the share is read against
    words: str  # of the two
    reversible: bool


_ENERGY = _Question(
    "tangent-energy",
    "A1",
    energy_effect,
    _cell("energy_share"),
    _chance,
    "{share:.0%} of the gradient's energy lies in the leading directions of the activations, where chance is "
    "{beside:.3g}%",
    reversible=True,
)
_ANISOTROPY = _Question(
    "tangent-anisotropy",
    "A2",
    anisotropy_effect,
    _cell("anisotropy_share"),
    _RANDOM_ANISOTROPY,
    "{share:.0%} of the gradient's anisotropy lies in the leading directions of the activations, where random other "
    "directions hold {beside:.3g}%",
    reversible=False,
)


def too_few_sequences(evidence: Evidence) -> Ruling | None:
    """Resampling a handful of sequences cannot show how far others would differ."""
    number = evidence.num_test_sequences
    if number is None or number >= FEWEST_SEQUENCES:
        return None
    option = f"at least {FEWEST_SEQUENCES} test sequences"
    return Ruling("inconclusive", f"only {number} test sequences, an interval over them says little", option)


def fatal_tests(evidence: Evidence, effect: Effect, steps: Sequence[int | None], way: Way) -> list[Test]:
    """The tests that decide A1: the same layer untrained, and the view without massive tokens."""
    clean = Way(way.proxy, "clean", way.rank)
    return [
        Test(
            "untrained",
            "null",
            over(evidence, _against_untrained(effect), steps, way),
            "a look at step 0 (Scope takes it on entering; for your own arrays give a Look with step=0)",
            "an untrained model does the same",
        ),
        Test(
            "clean",
            "condition",
            over(evidence, effect, steps, clean),
            "rows in view clean",
            "without massive tokens it is gone",
        ),
    ]


def _ruling(evidence: Evidence, question: _Question, way: Way) -> tuple[Ruling, Replicates | None, list[Test]]:
    steps = evidence.after(FREEZE)
    effect = over(evidence, question.effect, steps, way)
    tests = fatal_tests(evidence, question.effect, steps, way)
    floor = None
    if not question.reversible and effect is not None:
        chance = over(evidence, _ENERGY_EXCESS, steps, way)
        tests.append(Test("chance", "null", chance, "rows of energy_share", "depleted: these directions hold less "
                          "energy than chance, and the anisotropy inside is that lack"))  # fmt: skip
        excess = over(evidence, _ANISOTROPY_EXCESS, steps, way)
        floor = None if excess is None else (excess, SMALLEST_EXCESS)
    layers = by_layer(evidence, question.effect, steps, way)
    ruling = too_few_sequences(evidence) or rule(
        effect,
        SMALLEST_BITS,
        tests,
        reversible=question.reversible,
        floor=floor,
        option="a look with gradients after the first 30% of training",
        mixed=mixed_by_depth(list(layers), list(layers.values())),
    )
    return ruling, effect, tests


def _explanations(evidence: Evidence, question: _Question, way: Way, theta: Replicates) -> tuple[Explanation, ...]:
    """Of an effect large enough to be worth explaining."""
    found = []
    steps = evidence.after(FREEZE)
    for name in (*_IN_ITS_PLACE, *_TAKEN_OUT):
        rival = over(evidence, question.effect, steps, way, name)
        if rival is None:
            continue
        with np.errstate(divide="ignore", invalid="ignore"):
            share = rival / theta if name in _IN_ITS_PLACE else 1 - rival / theta
        low, high = interval(share)
        how = "in its place" if name in _IN_ITS_PLACE else "taken out"
        found.append(Explanation(name, float(share[0]), low, high, how))
    return tuple(sorted(found, key=lambda one: -one.share))


def _details(evidence: Evidence, question: _Question, way: Way) -> tuple[str, ...]:
    steps = evidence.after(FREEZE)
    looks = [over(evidence, question.effect, [step], way) for step in steps]
    values = [float(look[0]) for look in looks if look is not None]
    found = []
    if values:
        found.append(f"looks judged: the last {values[-1]:.2f} bits, the largest {max(values, key=abs):.2f}")
    height = over(evidence, _CURVE_HEIGHT, steps, way)
    if height is not None:
        low, high = interval(height)
        side = (
            "above the diagonal: gradients prefer these directions more than the activations themselves do"
            if low > 0
            else "below the diagonal: gradients prefer these directions less than the activations themselves do"
            if high < 0
            else "on the diagonal: gradients are spread as the activations are"
        )
        found.append(f"on the capture curve {side} ({height[0]:+.2f} [{low:+.2f}, {high:+.2f}])")
    cells = [question.effect(evidence, step, layer, way, "") for step in steps for layer in evidence.layers]
    signs = discoveries([cell for cell in cells if cell is not None])
    found.append(
        f"single layers and looks, at a false discovery rate of 5%: {(signs > 0).sum()} above random other directions, "
        f"{(signs < 0).sum()} below, {(signs == 0).sum()} neither"
    )
    regime = evidence.manifest["config"]["primary"]
    found.append(f"primary cell: proxy {way.proxy}, regime {regime['regime']}, view {way.view}")
    return tuple(found)


def _facts(evidence: Evidence, question: _Question, way: Way) -> dict[str, float]:
    """The share itself, and what stands beside it: chance, or what random other directions hold."""
    steps = evidence.after(FREEZE)
    share, beside = (over(evidence, one, steps, way) for one in (question.share, question.beside))
    return {} if share is None or beside is None else {"share": float(share[0]), "beside": float(beside[0])}


def _sentence(question: _Question, ruling: Ruling, explained: Sequence[Explanation], found: Mapping[str, float]) -> str:
    words = ruling.outcome + (f" ({ruling.reason})" if ruling.reason else "")
    if ruling.outcome in ("supported", "reversed"):
        words += "".join(f", and {told}" for told in suffice_in_words(explained))
    if not found:
        return words
    return f"{words}: " + question.words.format(share=found["share"], beside=100 * found["beside"])


def _robustness(evidence: Evidence, question: _Question, outcome: str) -> Robustness:
    others = [way for way in evidence.ways if way != evidence.primary]
    flips = []
    for way in others:
        other = _ruling(evidence, question, way)[0].outcome
        if other != outcome:
            flips.append(f"{way}: {other}")
    return Robustness(len(others) - len(flips), len(others), tuple(flips))


def _judge(evidence: Evidence, question: _Question) -> Verdict:
    way = evidence.primary
    ruling, effect, tests = _ruling(evidence, question, way)
    if effect is None:
        return Verdict(
            question.claim, question.source, "inconclusive", unit="bits", sentence=f"inconclusive: {ruling.reason}",
            would_change=ruling.would_change, runs=(evidence.name,),
        )  # fmt: skip
    low, high = interval(effect)
    sign = -1 if question.reversible and effect[0] < 0 else 1
    facts = _facts(evidence, question, way)
    explained = _explanations(evidence, question, way, effect) if abs(effect[0]) >= SMALLEST_BITS else ()
    return Verdict(
        claim=question.claim,
        source=question.source,
        outcome=ruling.outcome,
        effect=float(effect[0]),
        low=low,
        high=high,
        unit="bits",
        null=", ".join(test.describe(sign, SMALLEST_BITS) for test in tests),
        sentence=_sentence(question, ruling, explained, facts),
        facts=facts,
        explanations=explained,
        robustness=_robustness(evidence, question, ruling.outcome),
        would_change=ruling.would_change,
        runs=(evidence.name,),
        details=_details(evidence, question, way),
        replicates=effect,
    )


def tangent_energy(evidence: Evidence) -> Verdict:
    """A1: tangent energy exceeds that of random normal directions."""
    return _judge(evidence, _ENERGY)


def tangent_anisotropy(evidence: Evidence) -> Verdict:
    """A2: so does the share of gradient anisotropy."""
    return _judge(evidence, _ANISOTROPY)
