"""The plain words of the page: what a badge, a test, a unit means to somebody who has read no paper. Data only."""

ROLES = {
    "causal": ("decoder", "predicts the next token"),
    "masked": ("encoder", "fills in masked tokens"),
}

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

# claim -> what was found, from the verdict's plain shares
FINDINGS = {
    "tangent-energy": "{share} of the gradient's energy, where chance is {beside}",
    "tangent-anisotropy": "{share} of the gradient's anisotropy, where random directions hold {beside}",
}

# claim -> how its effect reads in plain words; {times} is two to the effect
READINGS = {
    "tangent-energy": "{times} the odds of random other directions",
    "tangent-anisotropy": "{times} what random other directions hold",
    "both-architectures": "in the weaker of the two {times} the odds of random other directions",
}

# What is taken out is named by itself, where the vocabulary names what is left.
RIVALS = {"common_gradient": "the gradient that all tokens share", "row_normalised": "a few heavy tokens"}

HOW = {
    "in its place": "put in the measurement's place, it reaches this much of the effect",
    "taken out": "taken out, this much of the effect is gone",
}

_BITS = (
    "bits",
    "Doublings. 1 bit: twice the odds of random other directions; 2 bits: four times; 0 bits: no difference.",
)
_GRADIENT = (
    "gradient energy",
    "The gradient says in which direction each activation should move to lower the loss. Its energy is its squared "
    "length, summed over tokens.",
)
_LEADING = (
    "leading directions",
    "The few directions in which a layer's activations vary most, found from the activations alone, on other text than "
    "the gradients come from.",
)
_INTERVAL = (
    "[low, high]",
    "95% interval over test sequences: what the number could have been on other text of the same kind. It does not "
    "cover another training run.",
)
_RIVAL = (
    "rivals",
    "Duller explanations. At 100% a rival does all that the measurement does; below 0% it works against it; above 100% "
    "it does more.",
)
_ANISOTROPY = (
    "anisotropy",
    "How far a cloud of vectors departs from a ball: how much longer it is in some directions than in others.",
)
_LOOK = ("look", "One measurement of the whole model, at one step of its training.")

GLOSSARY = {
    "tangent-energy": (_GRADIENT, _LEADING, _BITS, _INTERVAL, _RIVAL),
    "tangent-anisotropy": (_ANISOTROPY, _LEADING, _BITS, _INTERVAL, _RIVAL),
    "early-and-persistent": (_LOOK, _LEADING, _INTERVAL),
    "both-architectures": (
        (
            "encoder, decoder",
            "An encoder reads a whole text and fills in hidden words; a decoder predicts the next one.",
        ),
        _BITS,
        _INTERVAL,
        _RIVAL,
    ),
}
DEFAULT_GLOSSARY = (_BITS, _INTERVAL, _RIVAL)

# figure -> how to read it, and what its bands are
CAPTIONS = {
    "curve": (
        "Each line adds directions one by one: none at the bottom left, all of them at the top right. Above the "
        "dotted diagonal, gradients prefer the leading directions more than the activations themselves do. Between "
        "chance and the diagonal they hold more of the gradient than random directions would, yet less than of the "
        "activations. Points are controls, each with as many directions as the large blue point; plain numbers are "
        "other numbers of directions. Bars and the pale band: 95% over test sequences (random and variance-matched "
        "directions: 95% over random draws)."
    ),
    "energy": (
        "Bold: the median over blocks, or the layer chosen above; thin: single blocks. The blue band is 95% over test "
        "sequences, the grey one 95% over random draws. Where “sampled labels” runs along with the bold line, "
        "gradients for labels that the model made up itself, with no information in them, do the same."
    ),
    "map": (
        "Blue: more gradient energy in the leading directions than in as many random ones; orange: less. One colour "
        "scale for all runs, centred at chance. A dot marks a cell whose interval (95% over test sequences) includes "
        "chance."
    ),
    "anisotropy-share": (
        "The share of the gradients' departure from a ball that lies inside the leading directions; bold: median over "
        "blocks, thin: single blocks. Bands: 95% over test sequences (blue), 95% over random draws (grey)."
    ),
    "anisotropy": (
        "The share of the activations' variance that lies in their single strongest direction. No gradient is "
        "involved here. Point at a cell for its 95% interval over test sequences."
    ),
    "loss": (
        "Mean loss on the test windows. Band: 95% over test sequences. Losses of two different tasks cannot be "
        "compared."
    ),
}
