"""The training loop: what it reads, in which order, and that it learns."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F

from anisoscope.capture.positions import IGNORED
from anisoscope.errors import InputError, TextError
from anisoscope.lab.model import ModelConfig, build
from anisoscope.lab.presets import PRESETS
from anisoscope.lab.train import TrainConfig, adamw, batches, learning_rate_at, loss_of, split, train

MASK_ID = 0
CAUSAL = TrainConfig("causal", num_steps=40, batch_size=8, length=12, learning_rate=3e-3, warmup_steps=4, seed=1)
MASKED = replace(CAUSAL, objective="masked", mask_id=MASK_ID)
MODEL = ModelConfig(vocab_size=20, num_blocks=2, width=16, num_heads=2, length=12, causal=True)


@pytest.fixture
def ids() -> torch.Tensor:
    """A stream in which each token follows from the one before, most of the time; never the mask."""
    steps = torch.where(torch.rand(4000) < 0.9, 3, torch.randint(19, (4000,)))
    return steps.cumsum(0) % 19 + 1


def test_rate_warms_up_and_falls_to_a_tenth():
    config = replace(CAUSAL, num_steps=100, warmup_steps=10, learning_rate=1.0)
    rates = [learning_rate_at(step, config) for step in range(1, 101)]
    assert rates[:10] == pytest.approx([0.1 * n for n in range(1, 11)])
    assert rates[54] == pytest.approx(0.55)  # half way
    assert rates[99] == pytest.approx(0.1)
    assert all(a > b for a, b in pairwise(rates[9:]))


def test_both_objectives_read_the_same_windows(ids):
    for (causal, _), (masked, targets) in zip(batches(ids, CAUSAL), batches(ids, MASKED), strict=True):
        assert torch.equal(torch.where(targets == IGNORED, masked, targets), causal)
    other = next(batches(ids, replace(CAUSAL, seed=2)))[0]
    assert not torch.equal(other, next(batches(ids, CAUSAL))[0])


def test_causal_targets_are_the_next_tokens(ids):
    ids = torch.arange(4000)
    for inputs, targets in batches(ids, CAUSAL):
        assert torch.equal(targets, inputs + 1)
        assert torch.equal(inputs - inputs[:, :1], torch.arange(12).expand(8, 12))


def test_masks_hide_their_share_and_nothing_else(ids):
    places = torch.zeros(12)
    for inputs, targets in batches(ids, MASKED):
        hidden = inputs == MASK_ID
        assert torch.equal(hidden, targets != IGNORED)
        assert (hidden.sum(dim=1) == 2).all()  # 15% of 12
        places += hidden.sum(dim=0)
    assert places.min() > places.mean() / 2  # every position has its turn


def test_loss_counts_targets_only():
    logits, targets = torch.randn(2, 5, 20), torch.full((2, 5), IGNORED)
    targets[0, 1], targets[1, 4] = 7, 3
    expected = (F.cross_entropy(logits[0, 1], torch.tensor(7)) + F.cross_entropy(logits[1, 4], torch.tensor(3))) / 2
    torch.testing.assert_close(loss_of(logits, targets), expected)
    elsewhere = logits.clone()
    elsewhere[0, 2] += torch.randn(20)
    assert torch.equal(loss_of(elsewhere, targets), loss_of(logits, targets))


def test_decay_on_matrices_only():
    model = build(MODEL, seed=0)
    decayed, spared = adamw(model, CAUSAL).param_groups
    assert {p.ndim for p in decayed["params"]} == {2}
    assert {p.ndim for p in spared["params"]} == {1}
    assert len(decayed["params"]) + len(spared["params"]) == len(list(model.parameters()))
    assert decayed["weight_decay"] == 0.1
    assert spared["weight_decay"] == 0


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("config", [CAUSAL, MASKED], ids=["causal", "masked"])
def test_training_learns_more_than_the_frequencies(ids, config, norm):
    """The tokens are equally frequent, so only who reads the neighbours gets below log 19."""
    config = replace(config, num_steps=150, batch_size=16, learning_rate=1e-2)
    model = build(replace(MODEL, causal=config.objective == "causal", norm=norm), seed=0)
    losses = train(model, ids, config)
    assert len(losses) == 150
    assert sum(losses[:5]) / 5 > math.log(19) - 0.2
    assert sum(losses[-20:]) / 20 < math.log(19) - 0.3


@pytest.mark.parametrize("config", [CAUSAL, MASKED], ids=["causal", "masked"])
def test_same_seed_same_bits(ids, config):
    def run(config: TrainConfig) -> tuple[list[float], dict[str, torch.Tensor]]:
        torch.rand(1)  # the global stream has moved between the runs
        model = build(MODEL, seed=0)
        return train(model, ids, config), model.state_dict()

    (losses, weights), (losses_again, weights_again) = run(config), run(config)
    assert losses == losses_again
    assert all(torch.equal(weights[name], weights_again[name]) for name in weights)
    losses_other, weights_other = run(replace(config, seed=2))
    assert losses != losses_other
    assert not torch.equal(weights["head.weight"], weights_other["head.weight"])


def test_scope_steps_after_the_optimizer_and_the_caller_hears_last(ids):
    model, events = build(MODEL, seed=0), []
    before = model.head.weight.clone()

    class Watcher:
        def step(self, num_tokens: int) -> None:
            events.append(("scope", not torch.equal(model.head.weight, before)))

    losses = train(model, ids, replace(CAUSAL, num_steps=2), Watcher(), lambda step, loss: events.append((step, loss)))
    assert events == [("scope", True), (1, losses[0]), ("scope", True), (2, losses[1])]


def test_gradients_are_clipped(ids):
    """Without decay, momentum or adaptation to hide it: the norm that AdamW sees."""
    model, norms = build(MODEL, seed=0), []

    class Watcher:
        def step(self, num_tokens: int) -> None:
            norms.append(torch.stack([p.grad.norm() for p in model.parameters()]).norm().item())

    train(model, ids, replace(CAUSAL, num_steps=3, grad_clip=0.01), Watcher())
    assert norms == pytest.approx([0.01] * 3, rel=1e-3)


def test_split_holds_the_end_out(ids):
    train_ids, held_out = split(ids, 0.1)
    assert (len(train_ids), len(held_out)) == (3600, 400)
    assert torch.equal(torch.cat([train_ids, held_out]), ids)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"objective": "prefix"}, "got objective='prefix', wanted 'causal' or 'masked'"),
        ({"objective": "masked"}, "the masked objective needs mask_id"),
        ({"warmup_steps": 0}, "got warmup_steps=0, wanted at least 1"),
        ({"mask_fraction": 1.5}, "got mask_fraction=1.5, wanted a number between 0 and 1"),
    ],
)
def test_impossible_settings_are_refused(shape_checks_off, change, message):
    with pytest.raises(InputError, match=message):
        replace(CAUSAL, **change)


def test_too_short_a_text_is_refused():
    with pytest.raises(TextError, match="got 12 tokens to train on, wanted at least 13: give a longer text"):
        train(build(MODEL, seed=0), torch.arange(12), CAUSAL)
    train(build(MODEL, seed=0), torch.arange(13), replace(CAUSAL, num_steps=1))


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_presets_look_early_and_to_the_end(preset):
    assert preset.looks[0] == 0
    assert preset.looks[-1] == preset.num_steps
    assert list(preset.looks) == sorted(set(preset.looks))
    assert any(0 < step <= preset.num_steps / 10 for step in preset.looks)
    decoder, encoder = preset.model_config("causal", 300), preset.model_config("masked", 300)
    assert decoder.causal
    assert encoder == replace(decoder, causal=False)
    causal, masked = preset.train_config("causal", MASK_ID, 5), preset.train_config("masked", MASK_ID, 5)
    assert masked == replace(causal, objective="masked")
    assert causal.seed == 5


def test_the_quick_preset_is_as_large_as_promised():
    assert PRESETS["quick"].num_blocks >= 6
    assert len(PRESETS["quick"].looks) >= 8
