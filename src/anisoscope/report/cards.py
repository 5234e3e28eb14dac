"""Verdicts as the page shows them: one line, and the evidence that it opens to."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..claims import CLAIMS, Verdict
from ..claims.persistence import SMALLEST_SHARE
from ..claims.tangent import SMALLEST_BITS
from ..claims.verdict import Explanation
from .words import OUTCOMES, READINGS, STATES, TESTS

_SMALLEST = {"bits": SMALLEST_BITS, "share of looks": SMALLEST_SHARE}


@dataclass(frozen=True)
class Rule:
    """A ruler from `low` to `high`: places are in percent of its width, as SVG takes them."""

    low: float
    high: float
    zone: float = 0.0  # around nothing, where an effect would be too small to matter

    def at(self, value: float) -> str:
        return f"{self._share(value):.2f}%"

    def span(self, low: float, high: float) -> str:
        return f"{self._share(high) - self._share(low):.2f}%"

    def _share(self, value: float) -> float:
        return 100 * (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)

    @classmethod
    def over(cls, values: Sequence[float | None], zone: float = 0.0) -> "Rule":
        """Holds zero, the zone, and every value, with some air."""
        known = [value for value in values if value is not None and math.isfinite(value)]
        low, high = min(0.0, -zone, *known), max(0.0, zone, *known)
        air = 0.06 * (high - low) or 1.0
        return cls(low - air, high + air, zone)


@dataclass(frozen=True)
class Card:
    """One verdict for the template, which asks for words and never computes."""

    verdict: Verdict
    rule: Rule

    @property
    def question(self) -> str:
        claim = CLAIMS.get(self.verdict.claim)
        return claim.question if claim else self.verdict.claim

    @property
    def badge(self) -> tuple[str, str, str]:
        """Sign, tone, meaning."""
        return OUTCOMES.get(self.verdict.outcome, ("?", "calm", ""))

    @property
    def has_effect(self) -> bool:
        numbers = (self.verdict.low, self.verdict.effect, self.verdict.high)
        return all(value is not None and math.isfinite(value) for value in numbers)

    @property
    def sentence(self) -> str:
        """The verdict's own sentence, less the outcome that stands on the badge."""
        words, outcome = self.verdict.sentence, f"{self.verdict.outcome}: "
        while words.startswith(outcome):
            words = words.removeprefix(outcome)
        return words[:1].upper() + words[1:]

    @property
    def number(self) -> str:
        """The effect, in plain words too where there are such words for this claim."""
        effect, words = self.verdict.effect, READINGS.get(self.verdict.claim, "")
        said = words.format(times=_times(effect)) + ": " if words and effect is not None and self.has_effect else ""
        return said + self.verdict.number

    @property
    def rival(self) -> str:
        strongest = self.verdict.strongest_rival
        return f"{strongest.title} ({strongest.share:.0%} of the effect)" if strongest else ""

    @property
    def is_explained(self) -> bool:
        """Does something duller do (nearly) all of it, for a verdict that would stand otherwise?"""
        stands = self.verdict.outcome in ("supported", "reversed")
        return stands and any(one.suffices for one in self.verdict.explanations)

    @property
    def explanations(self) -> list[Explanation]:
        """Those that can be drawn."""
        return [one for one in self.verdict.explanations if math.isfinite(one.share)]

    @property
    def bars(self) -> Rule:
        """The ruler of all explanations."""
        return Rule.over([1.0, *(value for one in self.explanations for value in (one.share, one.low, one.high))])

    @property
    def tests(self) -> list[dict[str, str]]:
        """The fatal tests: name, sign, tone, state, what it asks; what is no test comes as words alone."""
        return [_test(part) for part in self.verdict.null.split(", ") if part]

    @property
    def change(self) -> str:
        """What would change the verdict, as a sentence, where something is named."""
        words = self.verdict.would_change.strip().rstrip(".:")
        for ending, verb, joint in ((" failing", "fail", "” or “"), (" passing", "pass", "” and “")):
            if words.endswith(ending):
                words = f"the test “{words.replace(ending, '').replace(', ', joint)}” to {verb}"
        return f"It would take {words}." if words else ""

    @property
    def details(self) -> list[str]:
        return [detail for detail in self.verdict.details if detail]


def _times(bits: float) -> str:
    """
    >>> _times(3.0), _times(-1.0), _times(0.02)
    ('8 times', '0.5 times', 'about')
    """
    if abs(bits) < 0.05:
        return "about"
    return f"{2.0 ** max(min(bits, 60), -60):,.{2 if abs(bits) < 6.6 else 3}g} times"


def _test(part: str) -> dict[str, str]:
    name, _, state = part.rpartition(" ")
    if state not in STATES:
        name, state = part, ""
    sign, tone = STATES.get(state, ("", ""))
    return {"name": name, "sign": sign, "tone": tone, "asks": TESTS.get(name, ""), "state": state}


def cards_of(verdicts: Sequence[Verdict]) -> list[Card]:
    """Cards on common rulers, one for each unit, so that lines can be compared by eye."""
    rules = {}
    for unit in {verdict.unit for verdict in verdicts}:
        numbers = [number for v in verdicts if v.unit == unit for number in (v.low, v.effect, v.high)]
        rules[unit] = Rule.over(numbers, _SMALLEST.get(unit, 0.0))
    return [Card(verdict, rules[verdict.unit]) for verdict in verdicts]


def is_joint(verdict: Verdict) -> bool:
    """Whether a verdict is on all runs together."""
    claim = CLAIMS.get(verdict.claim)
    return claim.judge_together is not None if claim else len(verdict.runs) > 1


def share_out(names: Sequence[str], cards: Sequence[Card]) -> tuple[list[list[Card]], list[Card]]:
    """The cards of each run, and those on all together. Runs of one name are told apart by the order of claims."""
    mine: list[list[Card]] = [[] for _ in names]
    joint = []
    for card in cards:
        places = [at for at, name in enumerate(names) if card.verdict.runs == (name,)] * (not is_joint(card.verdict))
        free = [at for at in places if card.verdict.claim not in {other.verdict.claim for other in mine[at]}]
        (mine[free[0]] if free else joint).append(card)
    return mine, joint
