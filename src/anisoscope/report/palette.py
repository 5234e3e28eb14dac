"""Colours, marks and dashes: one table that the charts, the legends and the style sheet share.

Charts and legends name the colours as CSS variables, so that dark, light and print need no redrawing.
Told apart by shape or dash as well as by colour; orange and blue stay apart for every common kind of colour blindness.
"""

from dataclasses import dataclass

# name -> (light, dark)
COLOURS = {
    "ink": ("#1c2025", "#e9ebee"),
    "muted": ("#626b74", "#a3acb5"),
    "faint": ("#e4e4df", "#31373e"),
    "paper": ("#fdfdfb", "#15181c"),
    "measure": ("#0064ad", "#62b5f6"),
    "sampled": ("#b3530f", "#f2a155"),
    "permuted": ("#5f6c0c", "#c9d268"),
    "next": ("#8a569f", "#c79be0"),
    "matched": ("#ab4a76", "#e892b7"),
    "random": ("#7b838b", "#99a2ab"),
    "oracle": ("#1f8058", "#5fc898"),
    "other": ("#4f7a86", "#8fbecb"),
}

# Nine classes from avoided (orange) over chance to preferred (blue).
DIVERGING = {
    "below4": ("#a8500a", "#f3ab4e"),
    "below3": ("#d9842b", "#bd7a24"),
    "below2": ("#f2b874", "#7d5422"),
    "below1": ("#f9dfbb", "#4b3821"),
    "level0": ("#efefed", "#272c32"),
    "above1": ("#d3e4f0", "#233f55"),
    "above2": ("#97c3df", "#2a638f"),
    "above3": ("#4a93c5", "#4390ca"),
    "above4": ("#155f9f", "#8fc8f2"),
}

# Paths in the square from -1 to 1, for Vega and for the legends alike.
_DISC = "M0,-.8A.8,.8,0,1,1,0,.8A.8,.8,0,1,1,0,-.8Z"
_SQUARE = "M-.7,-.7H.7V.7H-.7Z"
_DIAMOND = "M0,-1L1,0L0,1L-1,0Z"
_UP = "M0,-.9L.9,.7H-.9Z"
_DOWN = "M0,.9L.9,-.7H-.9Z"
_LEFT = "M-.9,0L.7,-.9V.9Z"
_RIGHT = "M.9,0L-.7,.9V-.9Z"
_CROSS = "M-.9,-.5L-.5,-.9L0,-.4L.5,-.9L.9,-.5L.4,0L.9,.5L.5,.9L0,.4L-.5,.9L-.9,.5L-.4,0Z"
_PLUS = "M-.3,-.9H.3V-.3H.9V.3H.3V.9H-.3V.3H-.9V-.3H-.3Z"


def paint(name: str) -> str:
    return f"var(--{name})"


@dataclass(frozen=True)
class Series:
    """How one thing looks wherever it is drawn."""

    colour: str
    shape: str = _DISC
    dash: tuple[int, ...] = (1, 0)

    @property
    def paint(self) -> str:
        return paint(self.colour)


# A control, or a proxy beside the primary one; "" is the measurement itself. Legends keep this order.
SERIES = {
    "": Series("measure"),
    "oracle": Series("oracle", _DISC, (9, 3)),
    "svd": Series("measure", _CROSS),
    "sampled_labels": Series("sampled", _UP, (7, 3)),
    "permuted_labels": Series("permuted", _DOWN, (2, 2)),
    "next_directions": Series("next", _SQUARE, (3, 2)),
    "variance_matched": Series("matched", _DIAMOND, (8, 2, 2, 2)),
    "random_normal": Series("random", _PLUS),
    "isotropic": Series("random", _SQUARE, (1, 2)),
    "common_gradient": Series("other", _LEFT, (5, 2)),
    "row_normalised": Series("other", _RIGHT, (2, 4)),
}


def series_of(name: str) -> Series:
    """The looks of a series, also of one that has none of its own yet.

    >>> series_of("untrained").colour
    'other'
    """
    return SERIES.get(name, Series("other"))


def variables(theme: int) -> list[tuple[str, str]]:
    """CSS variables of the light (0) or the dark (1) theme."""
    return [(f"--{name}", pair[theme]) for name, pair in (COLOURS | DIVERGING).items()]
