"""A verdict, and the rules that lead to one: fixed before anything is measured, the first that fits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ..store.vocabulary import CONTROLS
from .replicates import Replicates, discoveries, interval

Outcome = Literal["supported", "reversed", "not supported", "inconclusive", "not distinguishable from its null"]
AS_MUCH = 0.9  # from here on a rival does as much as the effect itself, and stands in the verdict's own sentence
WEAKEST_FIRST: tuple[Outcome, ...] = ("inconclusive", "not supported", "not distinguishable from its null")


@dataclass(frozen=True)
class Explanation:
    """How much of an effect something duller explains: 0 nothing, 1 all of it; never clipped."""

    name: str
    share: float
    low: float
    high: float
    how: Literal["in its place", "taken out"]

    def __str__(self) -> str:
        return f"{self.title} {self.share:.0%}"

    @property
    def suffices(self) -> bool:
        """Does it do as much as the effect itself?"""
        return self.share >= AS_MUCH

    @property
    def title(self) -> str:
        """What it is called as a rival: what is taken out is named by itself, not by what is left."""
        if self.name not in CONTROLS:
            return self.name
        term = CONTROLS[self.name]
        return term.rival if self.how == "taken out" and term.rival else term.title


def suffice_in_words(explained: Sequence[Explanation]) -> list[str]:
    """Those that do as much as the effect itself, within a sentence.

    >>> suffice_in_words([Explanation(name, 1.0, 0.9, 1.1, "in its place") for name in ("permuted_labels", "x")])
    ['permuted labels and x do the same']
    """

    def named(how: str) -> list[str]:
        rivals = [one for one in explained if one.suffices and one.how == how]
        return [CONTROLS[one.name].rival or one.title if one.name in CONTROLS else one.name for one in rivals]

    same = " and ".join(named("in its place"))
    return [f"{same} do the same"] * bool(same) + [f"{name} accounts for it" for name in named("taken out")]


@dataclass(frozen=True)
class Robustness:
    """In how many ways to measure the verdict stays the same, and the ways that flip it."""

    same: int
    total: int
    flips: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.same} of {self.total}"


@dataclass(frozen=True)
class Verdict:
    """What the evidence says of one claim. Effect first, then everything that could explain it away.

    >>> print(Verdict("tangent-energy", "A1", "supported", 2.1, 1.9, 2.4, "bits", null="untrained"))
    tangent-energy: supported, 2.10 [1.90, 2.40] bits
    """

    claim: str
    source: str
    outcome: Outcome
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    null: str = ""  # the fatal tests, with how they came out
    sentence: str = ""
    explanations: tuple[Explanation, ...] = ()
    robustness: Robustness | None = None
    would_change: str = ""
    runs: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    facts: Mapping[str, float] = field(default_factory=dict)  # plain shares behind the effect, where there are some
    replicates: np.ndarray | None = field(default=None, repr=False, compare=False)

    @property
    def strongest_rival(self) -> Explanation | None:
        """The explanation that accounts for most of the effect."""
        return max(self.explanations, key=lambda one: one.share, default=None)

    @property
    def rivals(self) -> tuple[Explanation, ...]:
        """All that do as much as the effect itself, made-up labels first (they carry nothing); else the strongest."""
        heavy = [one for one in self.explanations if one.suffices]
        if heavy:
            return tuple(sorted(heavy, key=lambda one: (one.name != "sampled_labels", -one.share)))
        return () if self.strongest_rival is None else (self.strongest_rival,)

    @property
    def rival_line(self) -> str:
        """The strongest rivals in words, with what it means if they do as much as the effect itself."""
        named = ", ".join(map(str, self.rivals[:2])) + (f" and {len(self.rivals) - 2} more" * (len(self.rivals) > 2))
        return named + (" (as much as the effect)" if self.rivals and self.rivals[0].suffices else "")

    @property
    def number(self) -> str:
        """Effect with interval, in words for a line; where there is none, why."""
        if self.effect is None:
            return self.sentence.removeprefix("inconclusive: ") or "no effect computed"
        return f"{self.effect:.2f} [{self.low:.2f}, {self.high:.2f}] {self.unit}"

    def __str__(self) -> str:
        rivals = f"; strongest rival: {self.rival_line}" if self.rivals else ""
        return f"{self.claim}: {self.outcome}, {self.number}{rivals}"


@dataclass(frozen=True)
class Test:
    """Something fatal that stands beside an effect.

    A null's quantity is (effect - null): its interval must lie above 0. A condition's is the effect measured again in
    a way that must not change it: it must itself lie above 0 and reach `m`. Mirrored for a reversed effect.
    """

    name: str
    kind: Literal["null", "condition"]
    quantity: Replicates | None
    option: str  # what would provide it
    failure: str = ""  # how to say that it failed

    def passes(self, sign: int, m: float) -> bool | None:
        """None where the quantity is missing."""
        if self.quantity is None:
            return None
        low, _ = interval(sign * self.quantity)
        return low > 0 and (self.kind == "null" or sign * float(self.quantity[0]) >= m)

    def describe(self, sign: int, m: float) -> str:
        state = {True: "passed", False: "failed", None: "missing"}[self.passes(sign, m)]
        return f"{self.name} {state}"


@dataclass(frozen=True)
class Ruling:
    """An outcome with the reason for it and what would change it."""

    outcome: Outcome
    reason: str
    would_change: str


def rule(
    effect: Replicates | None,
    m: float,
    tests: Sequence[Test],
    *,
    reversible: bool = True,
    floor: tuple[Replicates, float] | None = None,
    option: str = "",
    mixed: str = "",
) -> Ruling:
    """The first rule that fits. `floor` is a second quantity with its own smallest size, asked of *supported* as well;
    `mixed` says in which layers the effect goes each way, if it does.
    """
    if effect is None or not np.isfinite(effect[0]):
        return Ruling("inconclusive", f"the effect cannot be computed: {option}", option)
    if mixed:
        return Ruling("inconclusive", f"mixed by depth: {mixed}", "layers that agree; read them one by one")
    low, high = interval(effect)
    if (-m < low and high < m) or (floor is not None and interval(floor[0])[1] < floor[1]):
        return Ruling("not supported", "too small to matter", "a larger effect; the interval leaves no room for one")
    large = low > 0 and effect[0] >= m and (floor is None or floor[0][0] >= floor[1])
    sign = 1 if large else -1 if reversible and high < 0 and effect[0] <= -m else 0
    if not sign:
        return Ruling(
            "inconclusive",
            "the interval reaches from too small to matter to large enough",
            "a narrower interval: more test windows, or more looks",
        )
    states = [(test, test.passes(sign, m)) for test in tests]
    failed = [test for test, state in states if state is False]
    missing = [test for test, state in states if state is None]
    if failed:
        names = ", ".join(test.name for test in failed)
        said = next((test.failure for test in failed if test.failure), "")
        return Ruling("not distinguishable from its null", f"{said or 'it fails'} ({names})", f"{names} passing")
    if missing:
        options = "; ".join(test.option for test in missing)
        return Ruling("inconclusive", f"missing: {', '.join(test.name for test in missing)}", options)
    change = ", ".join(f"{test.name} failing" for test in tests) or "an interval that reaches below what matters"
    return Ruling("supported" if sign > 0 else "reversed", "", change)


def mixed_by_depth(layers: Sequence[str], effects: Sequence[Replicates]) -> str:
    """Names the layers if at least a quarter of them is significant in each direction, else nothing."""
    if len(effects) < 2:
        return ""
    found = discoveries(effects)
    up = [layer for layer, sign in zip(layers, found, strict=True) if sign > 0]
    down = [layer for layer, sign in zip(layers, found, strict=True) if sign < 0]
    if 4 * min(len(up), len(down)) < len(layers):
        return ""
    return f"above in {', '.join(up)}; below in {', '.join(down)}"


def weaker(outcomes: Sequence[Outcome]) -> Outcome:
    """Where verdicts are joined the weaker stands; *supported* beside *reversed* is inconclusive.

    >>> weaker(["supported", "not supported"])
    'not supported'
    """
    for outcome in WEAKEST_FIRST:
        if outcome in outcomes:
            return outcome
    return outcomes[0] if len(set(outcomes)) == 1 else "inconclusive"
