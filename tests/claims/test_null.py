"""How often nothing is called something: worlds whose gradients are at chance, and methods that would be fooled."""

from collections import Counter

import numpy as np
import pytest
from scipy import stats

import anisoscope as an
from anisoscope.claims import Evidence, judge
from anisoscope.protocol.measure import manifest_of
from anisoscope.protocol.observe import Protocol
from anisoscope.store import METRICS, REPLICATES
from anisoscope.store.schema import table

pytestmark = pytest.mark.usefixtures("shape_checks_off")  # hundreds of worlds; shapes are checked elsewhere
WIDTH, TOP = 16, 2
FALSE = ("supported", "reversed")
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # h, g, sequences


def judged(looks: list[an.Look]) -> dict[str, str]:
    """{claim: outcome}, straight from the rows; proxies and ranks beside the primary ones are left out for speed."""
    protocol, seen = Protocol((TOP,), ("pca",), num_steps=100), []
    protocol.load_state_dict({"num_looks": 1})  # the core grid
    seen = [protocol.observe(look) for look in looks]
    metrics = table([row for one in seen for row in one.rows], METRICS)
    replicates = table([row for one in seen for row in one.replicates], REPLICATES)
    verdicts = judge([Evidence(metrics, replicates, manifest_of(looks[0], protocol))])
    return {verdict.claim: verdict.outcome for verdict in verdicts}


def at_chance(rng: np.random.Generator, num_sequences: int, length: int) -> Arrays:
    """Tokens of a sequence nearly share their gradient: the sequences, not the tokens, are the sample."""
    sequences = np.repeat(np.arange(num_sequences), length)
    h = rng.normal(size=(len(sequences), WIDTH)) * np.geomspace(3, 0.5, WIDTH)
    g = rng.normal(size=(num_sequences, WIDTH))[sequences] + 0.2 * rng.normal(size=h.shape)
    return h, g, sequences


def heavy_rows(rng: np.random.Generator, num_sequences: int, length: int) -> Arrays:
    """Row lengths with a Pareto tail of index 1: a few rows carry most of the energy."""
    h, g, sequences = at_chance(rng, num_sequences, length)
    return h, g * (rng.pareto(1.0, size=(len(g), 1)) + 1), sequences


def heavy_sequences(rng: np.random.Generator, num_sequences: int, length: int) -> Arrays:
    h, g, sequences = at_chance(rng, num_sequences, length)
    return h, g * np.exp(1.5 * rng.normal(size=(num_sequences, 1)))[sequences], sequences


def outcomes(
    make: object, num_worlds: int, num_sequences: int = 24, length: int = 6, steps: tuple[int, ...] = (0, 100)
) -> dict[str, Counter[str]]:
    """{claim: how often each outcome} over worlds that differ by their seed only."""
    found: dict[str, Counter[str]] = {}
    for seed in range(num_worlds):
        rng = np.random.default_rng(seed)
        arrays = [make(rng, num_sequences, length) for _ in steps]
        looks = [an.Look.from_arrays(*one, step=step) for one, step in zip(arrays, steps, strict=True)]
        for claim, outcome in judged(looks).items():
            found.setdefault(claim, Counter())[outcome] += 1
    return found


def assert_rarely_false(found: dict[str, Counter[str]]) -> None:
    """Not significantly more often than 5%, for each false outcome of each claim by itself."""
    for claim in ("tangent-energy", "tangent-anisotropy"):
        counts = found[claim]
        for outcome in FALSE:
            test = stats.binomtest(counts[outcome], counts.total(), 0.05, alternative="greater")
            assert test.pvalue > 0.01, f"{claim}: {dict(counts)}"


@pytest.mark.parametrize("make", [at_chance, heavy_rows])
def test_at_chance_hardly_anything_is_supported_or_reversed(make: object) -> None:
    found = outcomes(make, 60)
    assert_rarely_false(found)
    assert found["tangent-energy"]["not supported"] < 30, "so noisy that it could go wrong"


@pytest.mark.slow
@pytest.mark.parametrize("make", [at_chance, heavy_rows, heavy_sequences])
@pytest.mark.parametrize("num_sequences", [16, 64])
def test_at_chance_hardly_anything_is_supported_or_reversed_at_length(make: object, num_sequences: int) -> None:
    assert_rarely_false(outcomes(make, 300, num_sequences))


def test_too_few_sequences_are_no_ground_for_a_verdict() -> None:
    """Two test sequences: resampling them cannot show how far others would differ, so nothing can be concluded."""
    assert set(outcomes(at_chance, 10, num_sequences=4)["tangent-energy"]) == {"inconclusive"}


def test_tokens_taken_for_sequences_would_be_fooled() -> None:
    """Proof that the worlds above are hard: without `sequences` the same rows are called something far too often."""

    def alone(rng: np.random.Generator, num_sequences: int, length: int) -> Arrays:
        return *at_chance(rng, num_sequences, length)[:2], None

    counts = outcomes(alone, 40, num_sequences=16, length=20)["tangent-energy"]
    assert sum(counts[outcome] for outcome in FALSE) >= 5, dict(counts)


def shared_by_sequence(rng: np.random.Generator, num_sequences: int, length: int) -> Arrays:
    """Activations and gradients of one sequence share a direction; other sequences have others."""
    sequences = np.repeat(np.arange(num_sequences), length)
    own = rng.normal(size=(num_sequences, WIDTH))[sequences]
    h, g = (own + 0.3 * rng.normal(size=(len(sequences), WIDTH)) for _ in range(2))
    mixed = rng.permutation(len(h))  # tokens of every sequence in both halves, unless sequences stay together
    return h[mixed], g[mixed], sequences[mixed]


def test_what_one_sequence_shares_with_itself_is_no_tangent() -> None:
    """In sample the fit would find it: the halves must not share sequences."""

    def fooled(rng: np.random.Generator, *size: int) -> Arrays:
        return *shared_by_sequence(rng, *size)[:2], None

    def untrained(make: object) -> list[str]:
        found = []
        for seed in range(15):
            rng = np.random.default_rng(seed)
            before = an.Look.from_arrays(*at_chance(rng, 20, 12), step=0)
            found.append(judged([before, an.Look.from_arrays(*make(rng, 20, 12), step=100)])["tangent-energy"])
        return found

    assert untrained(shared_by_sequence).count("supported") <= 2
    assert untrained(fooled).count("supported") >= 8


def test_one_sequence_with_all_the_gradient_is_no_ground_and_no_crash() -> None:
    """Most bootstrap samples hold it, some hold no gradient at all."""
    rng = np.random.default_rng(0)
    looks = []
    for step in (0, 50, 100):
        by_layer = [at_chance(rng, 24, 6) for _ in range(3)]
        for _, g, sequences in by_layer:
            g[(sequences > 11) & (sequences != 20)] = 0
        h, g = ({f"blocks.{i}": one[part] for i, one in enumerate(by_layer)} for part in (0, 1))
        looks.append(an.Look.from_arrays(h, g, by_layer[0][2], step=step))
    assert judged(looks)["tangent-energy"] not in FALSE
