"""Verdicts as the page shows them: one line, and the evidence that it opens to."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..claims import CLAIMS, Verdict
from ..claims.persistence import SMALLEST_SHARE
from ..claims.tangent import SMALLEST_BITS
from ..claims.verdict import Explanation
from .words import DEFAULT_GLOSSARY, FINDINGS, GLOSSARY, HOW, OUTCOMES, READINGS, RIVALS, STATES, TESTS

_SMALLEST = {"bits": SMALLEST_BITS, "share of looks": SMALLEST_SHARE}


@dataclass(frozen=True)
class Rule:
    """A ruler from `low` to `high`: places are in percent of its width, as SVG takes them."""

    low: float
    high: float
    zone: float | None = None

    def at(self, value: float) -> str:
        return f"{self._share(value):.2f}%"

    def span(self, low: float, high: float) -> str:
        return f"{self._share(high) - self._share(low):.2f}%"

    def _share(self, value: float) -> float:
        return 100 * (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)

    @classmethod
    def over(cls, values: Sequence[float], zone: float | None = None) -> "Rule":
        """Holds zero, the zone, and every value, with some air."""
        known = [value for value in values if math.isfinite(value)]
        low, high = min([0.0, -(zone or 0), *known]), max([0.0, zone or 0, *known])
        air = 0.06 * (high - low) or 1.0
        return cls(low - air, high + air, zone)


@dataclass(frozen=True)
class Card:
    """One verdict for the template, which asks for words and never computes."""

    verdict: Verdict
    rule: Rule | None = None

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
        return all(value is not None and math.isfinite(value) for value in self._numbers)

    @property
    def _numbers(self) -> tuple[Any, Any, Any]:
        return self.verdict.low, self.verdict.effect, self.verdict.high

    @property
    def reading(self) -> str:
        """The effect in plain words, where there are such words for this claim."""
        words = READINGS.get(self.verdict.claim, "")
        return words.format(times=_times(self.verdict.effect)) + ":" if words and self.has_effect else ""  # type: ignore[arg-type]

    @property
    def plain(self) -> str:
        """What was found, in a line that needs no unit."""
        words, facts = FINDINGS.get(self.verdict.claim, ""), dict(self.verdict.facts)
        if words and facts.keys() >= {"share", "beside"}:
            return words.format(**{name: f"{100 * share:.2g}%" for name, share in facts.items()})
        return self.verdict.details[0] if self.verdict.claim == "early-and-persistent" and self.details else ""

    @property
    def rival(self) -> str:
        strongest = self.verdict.strongest_rival
        return f"{rival_name(strongest)} ({strongest.share:.0%} of the effect)" if strongest else ""

    @property
    def sufficient(self) -> list[str]:
        """Duller explanations that do (nearly) all of it, for a verdict that would stand otherwise."""
        if self.verdict.outcome not in ("supported", "reversed"):
            return []
        return [rival_name(one) for one in self.verdict.explanations if one.suffices]

    @property
    def explanations(self) -> list[dict[str, Any]]:
        """Name, share with interval, how it was measured, and where its bar goes."""
        shown = [one for one in self.verdict.explanations if math.isfinite(one.share)]
        rule = Rule.over([value for one in shown for value in (one.share, one.low, one.high)] + [1.0])
        return [{"name": rival_name(one), "it": one, "how": HOW[one.how], "rule": rule} for one in shown]

    @property
    def tests(self) -> list[dict[str, str]]:
        """The fatal tests as (name, sign, tone, what it asks); what is no test comes as words alone."""
        return [_test(part) for part in self.verdict.null.split(", ") if part]

    @property
    def change(self) -> str:
        """What would change the verdict, said only where something is named."""
        words = self.verdict.would_change.strip()
        return "" if words.endswith(":") else words

    @property
    def details(self) -> list[str]:
        return [detail for detail in self.verdict.details if detail]

    @property
    def glossary(self) -> tuple[tuple[str, str], ...]:
        return GLOSSARY.get(self.verdict.claim, DEFAULT_GLOSSARY)


def rival_name(one: Explanation) -> str:
    """
    >>> rival_name(Explanation("row_normalised", 0.1, 0.0, 0.2, "taken out"))
    'a few heavy tokens'
    """
    return RIVALS.get(one.name, one.title)


def _times(bits: float) -> str:
    """
    >>> _times(3.0), _times(-1.0), _times(0.02)
    ('8 times', '0.5 times', 'about')
    """
    if abs(bits) < 0.05:
        return "about"
    return f"{2.0 ** min(bits, 60):.2g} times" if abs(bits) < 6.6 else f"{2.0 ** max(min(bits, 60), -60):,.3g} times"


def _test(part: str) -> dict[str, str]:
    name, _, state = part.rpartition(" ")
    if state not in STATES:
        return {"name": part, "sign": "", "tone": "calm", "asks": TESTS.get(part, ""), "state": ""}
    sign, tone = STATES[state]
    return {"name": name, "sign": sign, "tone": tone, "asks": TESTS.get(name, ""), "state": state}


def cards_of(verdicts: Sequence[Verdict]) -> list[Card]:
    """Cards on common rulers, one for each unit, so that lines can be compared by eye."""
    rules = {}
    for unit in {verdict.unit for verdict in verdicts}:
        numbers = [n for v in verdicts if v.unit == unit for n in (v.low, v.effect, v.high) if n is not None]
        rules[unit] = Rule.over(numbers, _SMALLEST.get(unit)) if numbers else None
    return [Card(verdict, rules[verdict.unit]) for verdict in verdicts]


def is_joint(verdict: Verdict) -> bool:
    """Whether a verdict is on all runs together."""
    claim = CLAIMS.get(verdict.claim)
    return claim.judge_together is not None if claim else len(verdict.runs) > 1


def share_out(names: Sequence[str], verdicts: Sequence[Verdict]) -> tuple[list[list[Verdict]], list[Verdict]]:
    """The verdicts of each run, and those on all together. Runs of one name are told apart by the order of claims."""
    mine: list[list[Verdict]] = [[] for _ in names]
    joint = []
    for verdict in verdicts:
        places = [] if is_joint(verdict) else [at for at, name in enumerate(names) if verdict.runs == (name,)]
        free = [at for at in places if verdict.claim not in {other.claim for other in mine[at]}]
        (mine[free[0]] if free else joint).append(verdict)
    return mine, joint
