"""Every word that a row may hold, declared once: statistics, controls, proxies, views and the rest. Data only.

`anisoscope explain NAME` prints from here, the page takes its captions from here, and the writer refuses a word that
is not here. To add a statistic or a control, add its line here first (CONTRIBUTING.md shows it).
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Term:
    """One word of the vocabulary: its name, its title on the page, and what it means."""

    name: str
    title: str
    definition: str
    section: str  # of the method notes
    kind: str = ""
    null: str = ""  # statistics: what must stand beside it; controls: what it rules out
    unit: str = ""
    rival: str = ""  # controls: what a verdict calls it where it explains the effect, if not by its title


def _terms(kind: str, *terms: Term) -> dict[str, Term]:
    return {term.name: Term(**{**term.__dict__, "kind": kind}) for term in terms}


# Of every score of a spectrum; with few rows all of them report the sample size as much as the cloud.
_ROUND = "chance: what as many independent rows of a round Gaussian would give"

_GAUSSIAN = "the same of a Gaussian with the same covariance and as many rows (gaussian)"

STATISTICS = _terms(
    "statistic",
    Term(
        "energy_share",
        "share of gradient energy",
        "|G Q|^2 / |G|^2: how much of the squared length of the gradients lies in the k directions Q. Gradients come "
        "from sequences that the fit of Q never saw.",
        "5",
        null="chance is k / D; beside it random directions of the same rank, the next directions, sampled labels, and "
        "the most that any k directions could hold (oracle)",
        unit="share",
    ),
    Term(
        "anisotropy_share",
        "share of gradient anisotropy",
        "|Q'ZQ|^2 / |Z|^2 with Z = S - (tr S / D) I, S the gradients' second moment: how much of its departure from a "
        "sphere lies inside Q. It is squared and blind to sign: a lack of energy inside Q counts as well.",
        "5",
        null="the mean over random directions in the complement of Q, in closed form",
        unit="share",
    ),
    Term(
        "anisotropy_removed",
        "anisotropy removed",
        "IsoScore* of the gradients outside Q, in their own D - k coordinates, minus IsoScore* of all: how much "
        "rounder they are without what lies in Q",
        "5",
        null="the same with random directions of the complement taken out (random_normal)",
        unit="IsoScore*",
    ),
    Term(
        "anisotropy_removed_padded",
        "anisotropy removed, in all coordinates",
        "the same with the complement in all D coordinates: the k empty ones count against it",
        "5",
        null="the same with random directions of the complement taken out (random_normal)",
        unit="IsoScore*",
    ),
    Term(
        "captured_variance",
        "share of activation variance",
        "tr(Q'CQ) / tr C with C the centred covariance of the activations on the test half, in the same view",
        "5",
        null="a share of gradient energy that merely equals it says that gradients are spread as activations are",
        unit="share",
    ),
    Term(
        "enrichment",
        "enrichment over chance",
        "energy_share * D / k: 1 is chance, below 1 the directions are avoided (depletion)",
        "5",
        null="1",
        unit="times chance",
    ),
    Term(
        "placement",
        "placement between control and oracle",
        "(e - e_normal) / (e_oracle - e_normal): 0 is a random direction of the complement, 1 the best that any k "
        "directions could do",
        "5",
        null="0",
        unit="share",
    ),
    Term(
        "mean_gradient_share",
        "energy of the mean gradient",
        "N |mean g|^2 / sum |g|^2: the part of the gradient energy in the one direction that all tokens share",
        "6",
        null="1 / (number of tokens), were the gradients independent and centred",
        unit="share",
    ),
    Term(
        "zero_gradient_rows",
        "rows without gradient",
        "share of the view's positions whose gradient is zero in every coordinate (no loss depends on them): left out",
        "4",
        null="0 where every position feeds the loss",
        unit="share",
    ),
    Term(
        "anisotropy",
        "anisotropy",
        "l_1 / sum l, l the eigenvalues of the centred covariance (squared singular values)",
        "1",
        null=_ROUND,
        unit="share",
    ),
    Term(
        "anisotropy_uncentred",
        "anisotropy, uncentred",
        "the same with the mean left in: l_1 / sum l of the second moment",
        "1",
        null=_ROUND,
        unit="share",
    ),
    Term(
        "singular_value_anisotropy",
        "anisotropy, singular values",
        "s_1 / sum s of the centred rows: the literal reading, not squared",
        "1",
        null=_ROUND,
        unit="share",
    ),
    Term(
        "average_cosine",
        "average cosine",
        "mean cosine over all pairs of different rows, exactly",
        "1",
        null="0 for directions without a preference",
        unit="cosine",
    ),
    Term(
        "effective_rank",
        "effective rank",
        "exp of the entropy of s / sum s, s the singular values of the centred rows (Roy and Vetterli 2007)",
        "1",
        null=_ROUND,
        unit="directions",
    ),
    Term(
        "effective_rank_eigenvalues",
        "effective rank, eigenvalues",
        "exp of the entropy of l / sum l, l the eigenvalues of the centred covariance",
        "1",
        null=_ROUND,
        unit="directions",
    ),
    Term(
        "participation_ratio",
        "participation ratio",
        "(sum l)^2 / sum l^2",
        "1",
        null=_ROUND,
        unit="directions",
    ),
    Term(
        "isoscore",
        "IsoScore",
        "(participation ratio - 1) / (D - 1) (Rudman 2022)",
        "1",
        null=_ROUND,
        unit="0 to 1",
    ),
    Term(
        "isoscore_star",
        "IsoScore*",
        "IsoScore of the covariance shrunk towards a round one, 0.8 C + 0.2 (tr C / D) I (Rudman and Eickhoff 2024)",
        "1",
        null=_ROUND,
        unit="0 to 1",
    ),
    Term("stable_rank", "stable rank", "sum l / l_1", "1", null=_ROUND, unit="directions"),
    Term(
        "spectral_exponent",
        "spectral exponent",
        "slope of log l_i on log i over i from 1 to half of the usable rank",
        "1",
        null=_ROUND,
        unit="slope",
    ),
    Term(
        "displacement_effective_rank",
        "effective rank of displacements",
        "exp of the entropy of l / sum l, l the eigenvalues of S C: in how many directions a displacement with the "
        "activations' covariance changes the loss. No linear change of coordinates alters it.",
        "5",
        null="the same with all gradient rows turned by one random rotation (rotated_gradients)",
        unit="directions",
    ),
    Term(
        "displacement_leading_share",
        "leading share of displacements",
        "sum of the k largest eigenvalues of S C over the sum of all",
        "5",
        null="the same with all gradient rows turned by one random rotation (rotated_gradients)",
        unit="share",
    ),
    Term(
        "displacement_share",
        "share of the loss's change",
        "tr(Q'SQ Q'CQ) / tr(SC): how much of the mean squared change of the loss under a displacement with the "
        "activations' covariance is kept if the displacement stays inside the principal directions Q",
        "5",
        null="the share of activation variance inside Q (chance): what gradients without a preference give",
        unit="share",
    ),
    Term(
        "intrinsic_dimension_twonn",
        "intrinsic dimension",
        "TwoNN: least squares through the origin of -log(1 - F) on log(r2 / r1), the smallest 90% of ratios (Facco "
        "2017); on at most 4,096 rows of the test half, copies dropped",
        "2",
        null=_GAUSSIAN,
        unit="dimensions",
    ),
    Term(
        "intrinsic_dimension_twonn_ml",
        "intrinsic dimension, maximum likelihood",
        "TwoNN by maximum likelihood: (N - 1) / sum log(r2 / r1)",
        "2",
        null=_GAUSSIAN,
        unit="dimensions",
    ),
    Term(
        "intrinsic_dimension_twonn_20",
        "intrinsic dimension, smallest 20%",
        "TwoNN by least squares on the smallest 20% of ratios: what the authors of the second paper ran",
        "2",
        null=_GAUSSIAN,
        unit="dimensions",
    ),
    Term(
        "intrinsic_dimension_gride",
        "intrinsic dimension, larger scale",
        "GRIDE: maximum likelihood of r16 / r8 (Denti 2022)",
        "2",
        null=_GAUSSIAN,
        unit="dimensions",
    ),
    Term(
        "intrinsic_dimension_mle",
        "intrinsic dimension, 20 neighbours",
        "Levina and Bickel's maximum likelihood over 20 neighbours, inverses averaged",
        "2",
        null=_GAUSSIAN,
        unit="dimensions",
    ),
    Term(
        "num_clusters",
        "clusters",
        "number of clusters by k-means, k = 2 to 10 by silhouette; 1 where the best silhouette is below 0.1",
        "1",
        null="1 for a cloud without clusters",
        unit="clusters",
    ),
    Term(
        "average_cosine_inside",
        "average cosine inside clusters",
        "average cosine of rows with the mean of their cluster taken out (Cai 2021)",
        "1",
        null="the same of a Gaussian (gaussian): taking means out lowers it by itself",
        unit="cosine",
    ),
    Term(
        "isoscore_inside",
        "IsoScore inside clusters",
        "IsoScore of rows with the mean of their cluster taken out",
        "1",
        null="the same of a Gaussian (gaussian)",
        unit="0 to 1",
    ),
    Term(
        "loss",
        "loss",
        "mean cross-entropy over the positions of the test half that enter the loss",
        "4",
        null="log(vocabulary size) for a uniform guess",
        unit="nats per token",
    ),
)

CONTROLS = _terms(
    "control",
    Term(
        "random_normal",
        "random normal directions",
        "k random directions in the complement of Q; the mean in closed form, draws for the spread",
        "6",
        null="the papers' control: any direction outside Q would do",
    ),
    Term(
        "isotropic", "random directions", "k random directions of the whole space", "6", null="chance: any k directions"
    ),
    Term(
        "next_directions",
        "the next directions",
        "principal directions k+1 to 2k of the same fit",
        "6",
        null="any direction with much variance would do",
    ),
    Term(
        "variance_matched",
        "variance-matched directions",
        "k random directions drawn with the activations' covariance, made orthonormal; they capture less variance than "
        "the leading directions, so their captured variance stands beside",
        "6",
        null="directions that are likely merely because activations vary along them",
    ),
    Term(
        "sampled_labels",
        "sampled labels",
        "gradients of the same model for labels drawn from its own predictions: same backward map, no information",
        "6",
        null="directions that the model's output map excites whatever the data say",
        rival="labels sampled from the model",
    ),
    Term(
        "permuted_labels",
        "permuted labels",
        "gradients for the true labels shuffled among positions",
        "6",
        null="directions that a wrong loss excites",
    ),
    Term(
        "untrained",
        "untrained",
        "the same configuration freshly initialised; in a live run its own step 0",
        "6",
        null="architecture and initialisation",
    ),
    Term(
        "common_gradient",
        "without the common gradient",
        "the mean of G over the test tokens taken out",
        "6",
        null="one direction that all tokens share (learning how frequent each token is)",
        rival="the mean gradient that all tokens share",
    ),
    Term(
        "row_normalised",
        "one row, one vote",
        "every gradient row scaled to length one",
        "4",
        null="a few rows that carry all the energy",
        rival="the weight of a few heavy tokens",
    ),
    Term(
        "gaussian",
        "Gaussian",
        "as many rows of a Gaussian with the same mean and covariance, through the same estimate",
        "2",
        null="the covariance alone, without any curvature or clusters",
    ),
    Term(
        "rotated_gradients",
        "rotated gradients",
        "all gradient rows turned by one random rotation: both spectra stay, their relation goes",
        "5",
        null="two spectra that know nothing of each other",
    ),
    Term(
        "oracle",
        "oracle",
        "the k leading directions of the test gradients themselves: the most that any k directions could hold",
        "5",
        null="the upper end of the scale",
    ),
)

PROXIES = _terms(
    "proxy",
    Term("pca", "principal directions", "leading directions of the centred activations", "3"),
    Term("svd", "principal directions, uncentred", "leading directions of the activations with their mean", "3"),
)

VIEWS = _terms(
    "view",
    Term("all", "all positions", "every position; the primary view of causal models", "4"),
    Term(
        "clean",
        "without massive tokens",
        "the primary view without the first position of each sequence (where positions are known) and without rows "
        "longer than 20 times the median row of the layer in that look",
        "4",
    ),
    Term(
        "bearing",
        "positions in the loss",
        "positions whose own output enters the loss; the primary view of masked models",
        "4",
    ),
    Term("other", "positions outside the loss", "positions whose own output does not enter the loss", "4"),
)

REGIMES = _terms("regime", Term("tracking", "tracking", "the proxy is fitted anew at every look", "3"))

GRADIENTS = _terms(
    "gradient",
    Term("hidden", "hidden-state gradient", "gradient of the summed loss with respect to the hidden states", "4"),
)

SITES = _terms(
    "site",
    Term("block", "block output", "the output of a block", "4"),
    Term("embedding", "embedding output", "what enters the first block", "4"),
)

# What a model is trained for; its title is what such a model is called.
OBJECTIVES = _terms(
    "objective",
    Term("causal", "decoder", "predicts the next token", "4"),
    Term("masked", "encoder", "fills in masked tokens", "4"),
)

# Words of the trade that stand in tables and verdicts.
WORDS = _terms(
    "word",
    Term(
        "chance",
        "chance",
        "what a number would be if the directions had nothing to do with what is measured in them; for a share of "
        "gradient energy in k directions of D it is k / D",
        "5",
    ),
    Term(
        "bits",
        "bits",
        "doublings: log2 of how many times larger. 1 bit is twice as much, 2 bits four times, 0 bits no difference",
        "9",
    ),
    Term("proxy", "proxy", "directions fitted from activations alone, in the hope that gradients lie in them", "3"),
    Term("rank", "rank", "k, the number of directions that a proxy has", "3"),
    Term("look", "look", "one measurement at one step, in a pass of its own on held-out windows", "3"),
    Term("view", "view", "which positions are counted: all, clean, bearing or other", "4"),
)

ALL = STATISTICS | CONTROLS | PROXIES | VIEWS | REGIMES | GRADIENTS | SITES | OBJECTIVES | WORDS


_COLUMNS = {
    "statistic": STATISTICS,
    "control": CONTROLS,
    "proxy": PROXIES,
    "view": VIEWS,
    "regime": REGIMES,
    "gradient": GRADIENTS,
    "site": SITES,
}


def unknown_words(column: str, words: Iterable[str]) -> list[str]:
    """The words of a column that nothing declares; `a/b` is the control b of the control a.

    >>> unknown_words("control", ["", "sampled_labels/random_normal", "hunch"])
    ['hunch']
    """
    parts = {part for word in words for part in word.split("/") if part}
    return sorted(parts - _COLUMNS[column].keys())


COLUMNS = tuple(_COLUMNS)
