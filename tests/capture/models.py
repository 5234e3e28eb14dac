"""Tiny models with random weights, the windows to watch them on, and the names of their blocks."""

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import anisoscope as an
from anisoscope.lab.model import ModelConfig, Transformer

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the import alone: not ours to mend
    import transformers

transformers.logging.set_verbosity_error()

VOCAB, LENGTH, NUM_SEQUENCES, MASK = 61, 10, 14, 3
WIDTH, NUM_BLOCKS = 16, 3


def gpt2(dropout: float = 0.0) -> nn.Module:
    config = transformers.GPT2Config(
        vocab_size=VOCAB, n_positions=LENGTH, n_embd=WIDTH, n_layer=NUM_BLOCKS, n_head=2, bos_token_id=0,
        eos_token_id=0, resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def llama(dropout: float = 0.0) -> nn.Module:
    config = transformers.LlamaConfig(
        vocab_size=VOCAB, hidden_size=WIDTH, intermediate_size=40, num_hidden_layers=NUM_BLOCKS, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=LENGTH, attention_dropout=dropout,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def bert(dropout: float = 0.0) -> nn.Module:
    config = transformers.BertConfig(
        vocab_size=VOCAB, hidden_size=WIDTH, intermediate_size=40, num_hidden_layers=NUM_BLOCKS, num_attention_heads=2,
        max_position_embeddings=LENGTH, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
    )  # fmt: skip
    return transformers.BertForMaskedLM(config)


def lab(causal: bool = True, norm: str = "pre", dropout: float = 0.0) -> Transformer:
    return Transformer(ModelConfig(VOCAB, NUM_BLOCKS, WIDTH, 2, LENGTH, causal, norm, dropout))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Shape:
    """How to build a model, how it is trained, where its blocks are."""

    build: object
    objective: str
    stack: str

    def model(self, **options: object) -> nn.Module:
        return self.build(**options)  # type: ignore[operator]

    @property
    def blocks(self) -> list[str]:
        return [f"{self.stack}.{index}" for index in range(NUM_BLOCKS)]


SHAPES = {
    "gpt2": Shape(gpt2, "causal", "transformer.h"),
    "llama": Shape(llama, "causal", "model.layers"),
    "bert": Shape(bert, "masked", "bert.encoder.layer"),
    "lab decoder, norm before": Shape(lab, "causal", "blocks"),
    "lab decoder, norm after": Shape(lambda **o: lab(norm="post", **o), "causal", "blocks"),
    "lab encoder, norm before": Shape(lambda **o: lab(causal=False, **o), "masked", "blocks"),
    "lab encoder, norm after": Shape(lambda **o: lab(causal=False, norm="post", **o), "masked", "blocks"),
}


def ids(num_sequences: int = NUM_SEQUENCES, length: int = LENGTH, vocab: int = VOCAB, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(4, vocab, (num_sequences, length), generator=generator)


def windows(objective: object = "causal", **options: object) -> an.Windows:
    """Token 3 is the mask and never occurs."""
    if objective == "masked":
        options = {"mask_id": MASK, "mask_fraction": 0.3, **options}
    return an.Windows.from_ids(ids(), objective, **options)  # type: ignore[arg-type]


class Stack(nn.Module):
    """An embedding, alike blocks, a head: the frame of the odd models in these tests, which override `run`."""

    def __init__(self, width: int = 6, num_blocks: int = 3, vocab: int = VOCAB) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Tanh(), nn.Linear(width, width)) for _ in range(num_blocks))
        self.head = nn.Linear(width, vocab)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.run(self.tokens(ids)))

    def run(self, h: Tensor) -> Tensor:
        for block in self.blocks:
            h = h + block(h)
        return h
