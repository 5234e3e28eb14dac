"""Colours, marks and their names: one table that the charts, the legends and the style sheet share.

The charts hold the light colours. The page writes each as a CSS variable, so that dark, light and print need no
redrawing.
Told apart by shape or dash as well as by colour; orange and blue stay apart for every common kind of colour blindness.
"""

from dataclasses import dataclass

from ..store.vocabulary import CONTROLS

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

# Seven classes of a share, from little to much.
SEQUENTIAL = {
    "share0": ("#f3f2f5", "#23262b"),
    "share1": ("#e0dcea", "#302d40"),
    "share2": ("#c6bfdb", "#423b5f"),
    "share3": ("#a79cc9", "#594f85"),
    "share4": ("#8577b3", "#7668aa"),
    "share5": ("#62519a", "#9a8dc8"),
    "share6": ("#3f2d7c", "#c3baea"),
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


@dataclass(frozen=True)
class Series:
    """How one thing looks wherever it is drawn, and what it is called there."""

    label: str
    colour: str
    shape: str = _DISC
    dash: tuple[int, ...] = ()
    short: str = ""  # beside a point, where there is little room

    @property
    def light(self) -> str:
        return COLOURS[self.colour][0]


MEASUREMENT = Series("the leading directions", "measure", _DISC)
SECOND_PROXY = Series("leading directions, not centred", "measure", _CROSS)
CONTROL_SERIES = {
    "sampled_labels": Series("sampled labels", "sampled", _UP, (7, 3), "sampled labels"),
    "permuted_labels": Series("permuted labels", "permuted", _DOWN, (2, 2), "permuted labels"),
    "next_directions": Series("the next directions", "next", _SQUARE, (3, 2), "next directions"),
    "variance_matched": Series("variance-matched directions", "matched", _DIAMOND, (8, 2, 2, 2), "variance-matched"),
    "random_normal": Series("random directions outside", "random", _PLUS, (), "random, outside"),
    "isotropic": Series("random directions", "random", _SQUARE, (1, 2), "random"),
    "common_gradient": Series("without the common gradient", "other", _LEFT, (5, 2), "no common gradient"),
    "row_normalised": Series("one row, one vote", "other", _RIGHT, (2, 4), "one row, one vote"),
    "oracle": Series("the most any directions could hold", "oracle", _DISC, (9, 3)),
}


def series_of(control: str) -> Series:
    """The looks of a control, also of one that has none of its own yet; "" is the measurement.

    >>> series_of("untrained").label
    'untrained'
    """
    if not control:
        return MEASUREMENT
    title = CONTROLS[control].title if control in CONTROLS else control
    return CONTROL_SERIES.get(control, Series(title, "other", short=title))


def variables(theme: int) -> list[tuple[str, str]]:
    """CSS variables of the light (0) or the dark (1) theme."""
    return [(f"--{name}", pair[theme]) for name, pair in (COLOURS | DIVERGING | SEQUENTIAL).items()]


def themed(value: object) -> object:
    """A chart's specification with every colour of the light theme replaced by its CSS variable.

    >>> themed({"mark": {"color": "#0064ad"}})
    {'mark': {'color': 'var(--measure)'}}
    """
    if isinstance(value, dict):
        return {key: themed(part) for key, part in value.items()}
    if isinstance(value, list):
        return [themed(part) for part in value]
    return _VARIABLES.get(value, value) if isinstance(value, str) else value


_VARIABLES = {light: f"var(--{name})" for name, (light, _) in (COLOURS | DIVERGING | SEQUENTIAL).items()}
