"""The twins: the same weights, the same code, and a mask that is all their difference."""

from dataclasses import replace

import pytest
import torch

from anisoscope.errors import InputError
from anisoscope.lab.model import ModelConfig, build

CAUSAL = ModelConfig(vocab_size=50, num_blocks=2, width=16, num_heads=2, length=12, causal=True)


@pytest.fixture
def ids() -> torch.Tensor:
    return torch.randint(50, (3, 12))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_twins_start_alike_to_the_bit(norm):
    decoder = build(replace(CAUSAL, norm=norm), seed=3).state_dict()
    encoder = build(replace(CAUSAL, norm=norm, causal=False), seed=3).state_dict()
    other = build(replace(CAUSAL, norm=norm), seed=4).state_dict()
    assert decoder.keys() == encoder.keys()
    assert all(torch.equal(decoder[name], encoder[name]) for name in decoder)
    assert not torch.equal(decoder["head.weight"], other["head.weight"])


def test_building_leaves_the_random_stream_alone():
    before = torch.get_rng_state()
    build(CAUSAL, seed=0)
    assert torch.equal(torch.get_rng_state(), before)
    torch.nn.Linear(2, 2)  # the proof that making layers does move it
    assert not torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("causal", [True, False])
def test_only_the_encoder_sees_later_tokens(ids, causal, norm):
    model = build(replace(CAUSAL, causal=causal, norm=norm), seed=0).eval()
    changed = ids.clone()
    changed[:, 7] = (ids[:, 7] + 1) % 50
    same = (model(ids) == model(changed)).flatten(2).all(dim=2)
    assert not same[:, 7].any()
    assert same[:, :7].all() if causal else not same[:, :7].any()


def test_attention_sees_distance_only():
    """Rotary: moved along by five places, the same tokens score the same."""
    attention = build(CAUSAL, seed=0).blocks[0].attention
    q, k = torch.randn(2, 1, 2, 12, 8)
    q, k = q[:, :, :1].expand(q.shape), k[:, :, :1].expand(k.shape)  # one query and one key, everywhere
    scores = attention._rotate(q) @ attention._rotate(k).mT
    torch.testing.assert_close(scores[..., :7, :7], scores[..., 5:, 5:], rtol=1e-5, atol=1e-5)  # float32 sums of 8
    assert not torch.allclose(scores[..., 0, 0], scores[..., 0, 5])


def test_the_encoder_reads_order(ids):
    """Without positions, an encoder of the reversed text would be the reversed encoder of the text."""
    model = build(replace(CAUSAL, causal=False), seed=0).eval()
    assert not torch.allclose(model(ids.flip(1)).flip(1), model(ids), atol=1e-5)
    for block in model.blocks:  # the proof: with every angle at zero they are equal
        block.attention.cos.fill_(1.0)
        block.attention.sin.zero_()
    torch.testing.assert_close(model(ids.flip(1)).flip(1), model(ids), atol=1e-5, rtol=1e-5)


def test_a_block_returns_a_bare_tensor_and_short_sequences_fit(ids):
    model = build(CAUSAL, seed=0)
    h = model.blocks[0](model.tokens(ids[:, :5]))
    assert isinstance(h, torch.Tensor)
    assert h.shape == (3, 5, 16)
    assert model(ids[:, :5]).shape == (3, 5, 50)


@pytest.mark.parametrize(("norm", "normed"), [("pre", False), ("post", True)])
def test_where_the_norm_is(ids, norm, normed):
    model = build(replace(CAUSAL, norm=norm), seed=0)
    h = model.blocks[0](model.tokens(ids))
    assert torch.allclose(h.norm(dim=-1), torch.tensor(4.0), rtol=0.02) == normed  # sqrt(16): fresh norms scale by one
    assert isinstance(model.norm, torch.nn.Identity) == normed


def test_dropout_only_while_training(ids):
    model = build(replace(CAUSAL, dropout=0.5), seed=0)
    assert not torch.equal(model(ids), model(ids))
    model.eval()
    assert torch.equal(model(ids), model(ids))


def test_branches_start_small_as_in_gpt2():
    model = build(ModelConfig.sized(8, vocab_size=300, length=8, causal=True), seed=0)
    assert model.blocks[0].mlp.into.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert model.blocks[0].mlp.out.weight.std().item() == pytest.approx(0.02 / 4, rel=0.05)  # 16 branches
    assert model.head.weight is not model.tokens.weight


def test_one_dial():
    sizes = [ModelConfig.sized(n, vocab_size=300, length=8, causal=True) for n in range(1, 13)]
    assert [config.width for config in sizes] == [32, 32, 64, 64, 96, 96, 128, 128, 160, 160, 192, 192]
    assert all(config.width == 32 * config.num_heads for config in sizes)
    assert ModelConfig.sized(2, vocab_size=300, length=8, causal=True, norm="post").norm == "post"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 15}, "wanted sizes of at least 1 and a width that is a multiple of 2 \\* num_heads"),
        ({"num_blocks": 0}, "wanted sizes of at least 1"),
        ({"norm": "both"}, "got norm='both', wanted 'pre' or 'post'"),
        ({"dropout": 1.0}, r"got dropout=1.0, wanted a number in \[0, 1\)"),
    ],
)
def test_impossible_models_are_refused(shape_checks_off, change, message):
    with pytest.raises(InputError, match=message):
        replace(CAUSAL, **change)


def test_too_long_a_sequence_is_refused():
    with pytest.raises(InputError, match="got 13 tokens a sequence, the model has 12 positions"):
        build(CAUSAL, seed=0)(torch.zeros(1, 13, dtype=torch.int64))
