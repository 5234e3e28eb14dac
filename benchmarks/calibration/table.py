"""A line of the calibration: what was repeated, what should come out, what came out."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from rich.console import Console
from rich.progress import track

T = TypeVar("T")


@dataclass(frozen=True)
class Rate:
    """How often something happened, with the band in which it should lie."""

    what: str
    hits: int
    repeats: int
    wanted: float
    band: float
    at_most: bool = False  # less is as good

    @property
    def rate(self) -> float:
        return self.hits / self.repeats

    @property
    def error(self) -> float:
        """Two standard errors of the rate itself: what so few repetitions cannot tell."""
        return 2 * (max(self.wanted * (1 - self.wanted), 1e-9) / self.repeats) ** 0.5

    @property
    def holds(self) -> bool:
        """Inside the band, or outside by no more than the repetitions can tell."""
        away = self.rate - self.wanted
        return away <= self.band + self.error and (self.at_most or -away <= self.band + self.error)


def markdown(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """
    >>> print(markdown(["a", "b"], [[1, 2]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    head = list(columns)
    lines = [head, ["---"] * len(head), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(
        "|" + "|".join(line) + "|" if at == 1 else "| " + " | ".join(line) + " |" for at, line in enumerate(lines)
    )


def rates(found: Iterable[Rate]) -> str:
    """Rates as a table."""
    return markdown(
        ["what", "wanted", "found", "repetitions", "holds"],
        (
            [
                one.what,
                f"{'at most ' * one.at_most}{one.wanted:.0%} ± {100 * one.band:g}",
                f"{one.rate:.1%}",
                f"{one.repeats:,}",
                _word(one),
            ]
            for one in found
        ),
    )


def _word(one: Rate) -> str:
    return "yes" if one.holds else "**no**"


def repeat(what: str, once: Callable[[int], T], repeats: int, quiet: bool = True) -> Iterator[T]:
    """`once(seed)` for as many seeds, with progress on standard error."""
    yield from (
        once(seed) for seed in track(range(repeats), what, console=Console(stderr=True, quiet=quiet), transient=True)
    )
