"""Planted worlds, and what must come out of each through arrays, store and claims."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import anisoscope as an
from anisoscope.claims.tangent import SMALLEST_BITS
from claims import worlds
from claims.worlds import NUM_STEPS, STEPS, TOP

MEAN = "the mean gradient that all tokens share accounts for it"
CAMPS = "mixed by depth: above in blocks.0; below in blocks.1"
UNTRAINED = "an untrained model does the same (untrained)"
DEPLETED = "these directions hold less energy than chance, and the anisotropy inside is that lack (chance)"
NULL = "not distinguishable from its null"


Planted = Callable[..., an.Run]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """A run of a planted world on disk, as a user would have it; each is made once."""
    made: dict[object, an.Run] = {}

    def run(plant: Callable, num_steps: int | None = NUM_STEPS, **options: object) -> an.Run:
        key = (plant.__name__, getattr(plant, "untrained", False), num_steps, *sorted(options.items()))
        if key not in made:
            path = tmp_path_factory.mktemp("worlds") / plant.__name__
            an.measure(worlds.looks(plant, **options), ranks=(TOP,), run=path, num_steps=num_steps)
            made[key] = an.open_run(path)
        return made[key]

    return run


def verdicts(run: an.Run) -> dict[str, an.Verdict]:
    return {verdict.claim: verdict for verdict in run.claims()}


@pytest.mark.parametrize(
    ("plant", "energy", "anisotropy"),
    [
        (worlds.tangent, "supported:", "supported:"),
        (worlds.normals, "reversed:", f"{NULL} (depleted: {DEPLETED}"),
        (worlds.chance, "not supported (too small to matter):", ""),
        (worlds.massive, f"{NULL} (without massive tokens it is gone (clean)):", f"{NULL} (without massive tokens"),
        (worlds.mean_gradient, f"supported, and {MEAN}:", "supported, and"),
        (worlds.sampled, "supported, and labels sampled from the model do the same:", "supported, and labels sampled"),
        (worlds.next_directions, "supported, and the next directions do the same:", "supported, and"),
        (worlds.two_camps, f"inconclusive ({CAMPS}):", ""),
        (worlds.always(worlds.tangent), f"{NULL} ({UNTRAINED}):", f"{NULL} ({UNTRAINED}"),
        (worlds.always(worlds.normals), f"{NULL} ({UNTRAINED}):", ""),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_what_was_planted_comes_out(
    plant: Callable[[worlds.Cell], None], energy: str, anisotropy: str, planted: Planted
) -> None:
    found = verdicts(planted(plant))
    a1, a2 = found["tangent-energy"], found["tangent-anisotropy"]
    assert a1.sentence.startswith(energy)
    assert a1.sentence.startswith(a1.outcome)
    assert a2.sentence.startswith(anisotropy)
    assert a1.high - a1.low < SMALLEST_BITS, "the world is too small to say anything"


def test_chance_never_supports_anisotropy(planted: Planted) -> None:
    assert verdicts(planted(worlds.chance))["tangent-anisotropy"].outcome in ("not supported", "inconclusive")


@pytest.mark.parametrize(
    ("plant", "rival"),
    [
        (worlds.mean_gradient, "common_gradient"),
        (worlds.sampled, "sampled_labels"),
        (worlds.next_directions, "next_directions"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_strongest_rival_is_the_planted_one(
    plant: Callable[[worlds.Cell], None], rival: str, planted: Planted
) -> None:
    a1 = verdicts(planted(plant))["tangent-energy"]
    assert a1.effect >= SMALLEST_BITS
    assert a1.strongest_rival.name == rival
    assert a1.strongest_rival.share >= 0.9
    assert a1.strongest_rival.low <= a1.strongest_rival.share <= a1.strongest_rival.high
    assert all(one.share < 0.9 for one in a1.explanations if one.name != rival)


def test_in_the_tangent_no_rival_explains_it(planted: Planted) -> None:
    a1 = verdicts(planted(worlds.tangent))["tangent-energy"]
    assert all(one.share < 0.9 for one in a1.explanations)
    assert {one.name for one in a1.explanations} == {
        "sampled_labels", "next_directions", "variance_matched", "common_gradient", "row_normalised",
    }  # fmt: skip
    assert a1.robustness.same == a1.robustness.total > 0
    # e = 4 * 16 / (4 * 16 + 28), and e_n = (1 - e) 4 / 28
    assert a1.effect == pytest.approx(np.log2(64 / 92 / (28 / 92 * 4 / 28)), abs=0.1)


@pytest.mark.parametrize(
    ("plant", "outcome"),
    [(worlds.tangent, "inconclusive"), (worlds.normals, "inconclusive"), (worlds.chance, "not supported")],
)
def test_without_step_0(plant: Callable[[worlds.Cell], None], outcome: str, planted: Planted) -> None:
    a1 = verdicts(planted(plant, steps=STEPS[1:]))["tangent-energy"]
    assert a1.outcome == outcome
    if outcome == "inconclusive":
        assert a1.sentence.startswith("inconclusive (missing: untrained):")
        assert a1.would_change.startswith(
            "a look at step 0 (Scope takes it on entering; for your own arrays give a Look"
        )


def test_only_trained_looks_count(planted: Planted) -> None:
    """Those after 30% of training; of an unknown number of steps all but step 0. The median is over looks."""
    steps = (0, 20, 40, 70)
    some, every = (verdicts(planted(worlds.late, num_steps=n, steps=steps))["tangent-energy"] for n in (100, None))
    two = verdicts(planted(worlds.late, num_steps=None, steps=(0, 70)))["tangent-energy"]
    assert two.effect == pytest.approx(3.9, abs=0.3), "step 70: with step 0 it would be half of it"
    assert some.effect == pytest.approx(two.effect / 2, abs=0.15), "steps 40 (chance) and 70 (tangent)"
    assert every.effect == pytest.approx(0, abs=0.15), "steps 20, 40 and 70"


def test_without_gradients_nothing_can_be_said(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    bare = [an.Look.from_arrays(rng.normal(size=(60, 32)), step=step) for step in STEPS]
    an.measure(bare, ranks=(TOP,), run=tmp_path / "bare", num_steps=NUM_STEPS)
    a1 = verdicts(an.open_run(tmp_path / "bare"))["tangent-energy"]
    assert a1.outcome == "inconclusive"
    assert "a look with gradients after the first 30% of training" in a1.sentence


# A3

MANY = (0, 2, 5, 10, 20, 30, 45, 60, 75, 90, 100)


def persistence(plant: Callable[[worlds.Cell], None], planted: Planted, steps: tuple[int, ...] = MANY) -> an.Verdict:
    return verdicts(planted(plant, steps=steps, num_layers=2))["early-and-persistent"]


def test_early_and_persistent(planted: Planted) -> None:
    seen = persistence(worlds.tangent, planted)
    assert seen.outcome == "supported"
    assert seen.effect == 1.0
    assert seen.details[0].startswith("first seen at step 2, 2% of training; strongest at step ")
    assert seen.details[1] == "in the last quarter: 2 of 2 looks"


def test_late_onset_is_not_early(planted: Planted) -> None:
    seen = persistence(worlds.late, planted)
    assert seen.outcome == "not supported"
    assert seen.effect == pytest.approx(3 / 8)
    assert seen.details[0].startswith("first seen at step 75, 75% of training; strongest at step 100 (")


def test_early_in_the_normals_is_reversed_and_at_chance_never_sets_in(planted: Planted) -> None:
    assert persistence(worlds.normals, planted).outcome == "reversed"
    seen = persistence(worlds.chance, planted)
    assert seen.outcome == "not supported"
    assert seen.details[0] == "never set in"


def test_layers_in_two_camps_persist_in_nothing(planted: Planted) -> None:
    """Three layers of four in the tangent: each look is mixed by depth, so none of them is supported."""

    def three_of_four(cell: worlds.Cell) -> None:
        (worlds.normals if cell.layer == 3 else worlds.tangent)(cell)

    found = verdicts(planted(three_of_four, steps=MANY, num_layers=4))
    assert found["tangent-energy"].sentence.startswith("inconclusive (mixed by depth")
    assert found["early-and-persistent"].outcome == "not supported"
    assert found["early-and-persistent"].effect == 0


@pytest.mark.parametrize(
    ("steps", "lacking"),
    [
        ((0, 10, 40, 100), "needs at least 8 looks (there are 4): look more often with every=N"),
        (
            (0, 20, 30, 40, 50, 60, 70, 80),
            "needs a look within the first 10% of training: look more often with every=N",
        ),
        ((5, 10, 20, 30, 40, 50, 60, 70), "needs a look at step 0"),
    ],
)
def test_what_persistence_needs(steps: tuple[int, ...], lacking: str, planted: Planted) -> None:
    seen = persistence(worlds.tangent, planted, steps)
    assert seen.outcome == "inconclusive"
    assert lacking in seen.sentence


def test_at_chance_persistence_needs_no_step_0(planted: Planted) -> None:
    """As for tangent-energy itself: what is too small to matter is not supported, whatever is missing."""
    assert persistence(worlds.chance, planted, MANY[1:]).outcome == "not supported"


# A6


@pytest.fixture
def pair(planted: Planted) -> Callable[..., an.Verdict]:
    """The joint verdict on an encoder and a decoder."""

    def judged(encoder: Callable, decoder: Callable, swap: bool = False, **options: object) -> list[an.Verdict]:
        masked = planted(encoder, objective="masked", seed=1, **options)
        causal = planted(decoder, objective="causal", seed=2)
        assert (masked.manifest["primary_view"], causal.manifest["primary_view"]) == ("bearing", "all")
        paths = [masked.path, causal.path]
        return an.open_runs(paths[::-1] if swap else paths).claims()

    return judged


def test_both_architectures(pair: Callable) -> None:
    found = pair(worlds.tangent, worlds.tangent)
    alone = [verdict.effect for verdict in found if verdict.claim == "tangent-energy"]
    assert found[-1].claim == "both-architectures"
    assert found[-1].outcome == "supported"
    assert found[-1].effect == min(alone)
    assert len(found[-1].runs) == len(alone) == 2


@pytest.mark.parametrize(
    ("encoder", "decoder", "outcome"),
    [
        (worlds.tangent, worlds.normals, NULL),  # A2 of the decoder: the weakest of the four verdicts
        (worlds.tangent, worlds.chance, "not supported"),
        (worlds.massive, worlds.tangent, NULL),
        (worlds.massive, worlds.chance, "not supported"),
    ],
)
def test_the_weaker_architecture_decides(encoder: Callable, decoder: Callable, outcome: str, pair: Callable) -> None:
    joint = pair(encoder, decoder)[-1]
    assert joint.outcome == outcome
    assert joint.sentence.startswith(outcome)


@pytest.mark.parametrize("swap", [False, True])
def test_an_inconclusive_half_says_what_it_lacks(swap: bool, pair: Callable) -> None:
    """The decoder is fine; the encoder has no step 0, and that is what would change the joint verdict."""
    joint = pair(worlds.tangent, worlds.tangent, swap, steps=STEPS[1:])[-1]
    assert joint.outcome == "inconclusive"
    assert joint.would_change.startswith("a look at step 0")


def test_one_architecture_is_not_both(planted: Planted) -> None:
    joint = planted(worlds.tangent, objective="causal", seed=2).claims()[-1]
    assert joint.sentence == "inconclusive: needs a run of an encoder"
    assert planted(worlds.tangent).claims()[-1].sentence == "inconclusive: needs a run of a decoder and of an encoder"
