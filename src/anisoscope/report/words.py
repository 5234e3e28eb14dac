"""The plain words of the page: what a badge, a test, a unit means to somebody who has read no paper. Data only."""

from ..store.vocabulary import CONTROLS, PROXIES, STATISTICS

# outcome -> (sign on the badge, tone, what it means)
OUTCOMES = {
    "supported": (
        "✓",
        "good",
        "The effect is there, it is large enough to matter, and every test that could sink it came out well.",
    ),
    "reversed": ("⇅", "bad", "The opposite holds: an effect large enough to matter, in the other direction."),
    "not supported": ("○", "calm", "Shown to be too small to matter: the whole interval lies inside that range."),
    "not distinguishable from its null": (
        "≈",
        "warn",
        "The number alone looks good, but something that must not show the same effect shows it too.",
    ),
    "inconclusive": ("?", "calm", "The evidence does not decide: something is missing, or the interval is too wide."),
}

# name of a fatal test -> what it asks
TESTS = {
    "untrained": "more than in the same layers before training (step 0)",
    "clean": "still there without massive tokens (the first of each sequence, and the very longest)",
    "chance": "more energy than any directions would hold by chance",
}

STATES = {"passed": ("✓", "good"), "failed": ("✗", "bad"), "missing": ("?", "calm")}

# claim -> how its effect reads in plain words; {times} is two to the effect
READINGS = {
    "tangent-energy": "{times} the odds of random other directions",
    "tangent-anisotropy": "{times} what random other directions hold",
    "both-architectures": "in the weaker of the two, {times} the odds of random other directions",
}

GLOSSARY = {
    "gradient energy": "The gradient says in which direction each activation should move to lower the loss. Its energy "
    "is its squared length, summed over tokens.",
    "leading directions": "The few directions in which a layer's activations vary most, found from the activations "
    "alone, on other text than the gradients come from.",
    "anisotropy": "How far a cloud of vectors departs from a ball: how much longer it is in some directions than in "
    "others.",
    "bits": "Doublings. 1 bit: twice the odds of random other directions; 2 bits: four times; 0 bits: no difference.",
    "[low, high]": "95% interval over test sequences: what the number could have been on other text of the same kind. "
    "It does not cover another training run.",
    "rivals": "Duller explanations. At 100% a rival does all that the measurement does; below 0% it works against it; "
    "above 100% it does more.",
    "look": "One measurement of the whole model, at one step of its training.",
}

# figure -> heading, question, how to read it and what its bands are, what is said where there is nothing to draw
_NO_GRADIENTS = "No gradients were measured in this run (a look with gradients is needed), so there is nothing to draw."
FIGURES = {
    "curve": (
        "The one picture",
        "Do gradients prefer the directions in which activations vary most?",
        "Each line adds directions one by one: none at the bottom left, all of them at the top right. Above the dotted "
        "diagonal, gradients prefer the leading directions more than the activations themselves do. Between chance and "
        "the diagonal they hold more of the gradient than random directions would, yet less than of the activations. "
        "The oracle is the most that any directions could hold. The large pale point is what the verdicts are about; "
        "others are controls with as many directions. Those with the same directions (other labels, other weights) "
        "differ from it in height alone: inside it they do as much. Bars and pale band: 95% over test sequences "
        "(random and variance-matched directions: 95% over random draws).",
        _NO_GRADIENTS,
    ),
    "energy": (
        "Over training",
        "How much of the gradient lies in the leading directions, as training goes on?",
        "Bold: the median over blocks, or the layer chosen above; thin: single blocks. The blue band is 95% over test "
        "sequences, the grey one 95% over random draws. Where “sampled labels” runs along with the bold line, "
        "gradients for labels that the model made up itself, with no information in them, do the same.",
        _NO_GRADIENTS,
    ),
    "map": (
        "Layer by layer",
        "Where in the network, and when, do gradients gather in those directions?",
        "Blue: more gradient energy in the leading directions than in as many random ones; orange: less. One colour "
        "scale for all runs, centred at chance. A dot marks a cell whose interval (95% over test sequences) includes "
        "chance.",
        _NO_GRADIENTS,
    ),
    "dimension": (
        "The activations themselves",
        "In how many directions do activations vary, seen from nearby?",
        "TwoNN on at most 4,096 test tokens a block; point at a line for its 95% interval over test sequences. The "
        "dotted line is as many rows of Gaussians with the same covariance: where the activations lie below it, they "
        "lie on something curved or clustered, and not merely in few directions. All such estimates read too low in "
        "many dimensions; the gap is what counts.",
        "No intrinsic dimension was measured in this run: it takes ten different test tokens or more.",
    ),
    "loss": (
        "The loss",
        "Did the model learn anything at all?",
        "Mean loss on the test windows. Band: 95% over test sequences. Losses of two different tasks cannot be "
        "compared.",
        "No loss was recorded: arrays carry none, and some objectives give none.",
    ),
}


def title_of(series: str) -> str:
    """What a legend calls a control or a proxy, as the vocabulary does; "" is the measurement.

    >>> title_of("next_directions"), title_of("hunch")
    ('the next directions', 'hunch')
    """
    known = CONTROLS | PROXIES | STATISTICS
    return known[series].title if series in known else series or "the leading directions"
