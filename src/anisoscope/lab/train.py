"""A training loop that reads from top to bottom: seeded windows of one stream of tokens, AdamW, warm-up and cosine."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..capture.positions import IGNORED
from ..errors import InputError, TextError


@dataclass(frozen=True)
class TrainConfig:
    objective: Literal["causal", "masked"]
    num_steps: int
    batch_size: int
    length: int
    learning_rate: float
    warmup_steps: int
    weight_decay: float = 0.1
    grad_clip: float = 1.0
    mask_fraction: float = 0.15
    mask_id: int | None = None  # for the masked objective
    seed: int = 0

    def __post_init__(self):
        if self.objective not in ("causal", "masked"):
            raise InputError(f"got objective={self.objective!r}, wanted 'causal' or 'masked'")
        if self.objective == "masked" and self.mask_id is None:
            raise InputError("the masked objective needs mask_id, the token that stands in for the hidden ones")
        if self.warmup_steps < 1:
            raise InputError(f"got warmup_steps={self.warmup_steps}, wanted at least 1")
        if not 0 < self.mask_fraction < 1:
            raise InputError(f"got mask_fraction={self.mask_fraction}, wanted a number between 0 and 1")


class Watcher(Protocol):
    """What the loop needs of an `anisoscope.Scope`."""

    def step(self, num_tokens: int | None = None) -> object: ...


def train(
    model: nn.Module,
    ids: Int[Tensor, "tokens"],
    config: TrainConfig,
    scope: Watcher | None = None,
    on_step: Callable[[int, float], object] | None = None,
) -> list[float]:
    """Trains `model` in place on the stream `ids` and returns the training loss of every step, in nats.

    `scope` is entered by the caller. `on_step(n, loss)` is called last, when n steps are done. Dropout, if the model
    has any, draws from torch's global generator, which is the caller's to seed; all else follows from `config`.
    """
    device = next(model.parameters()).device
    optimizer = adamw(model, config)
    losses = []
    model.train()
    for step, (inputs, targets) in enumerate(batches(ids, config), start=1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate_at(step, config)
        loss = loss_of(model(inputs.to(device)), targets.to(device))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip)
        optimizer.step()
        if scope is not None:
            scope.step(inputs.numel())
        losses.append(loss.item())
        if on_step is not None:
            on_step(step, losses[-1])
    return losses


def loss_of(logits: Float[Tensor, "batch length vocab"], targets: Int[Tensor, "batch length"]) -> Float[Tensor, ""]:
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)


def learning_rate_at(step: int, config: TrainConfig) -> float:
    """The rate of the `step`-th update, 1 to `num_steps`: linear warm-up, then a cosine down to a tenth."""
    if step <= config.warmup_steps:
        return config.learning_rate * step / config.warmup_steps
    progress = (step - config.warmup_steps) / (config.num_steps - config.warmup_steps)
    return config.learning_rate * (0.1 + 0.45 * (1 + math.cos(math.pi * progress)))


def adamw(model: nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    """Weight decay on matrices only: it has no business with biases and norms."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=(0.9, 0.95))


def batches(
    ids: Int[Tensor, "tokens"], config: TrainConfig
) -> Iterator[tuple[Int[Tensor, "batch length"], Int[Tensor, "batch length"]]]:
    """`num_steps` pairs of inputs and targets: random windows, in an order that depends on the seed alone.

    Causal: the target is the next token. Masked: the targets are `mask_fraction` of the positions, equally many in
    every sequence, and the mask stands in all of them (not BERT's 80/10/10, which makes three kinds of position).
    """
    if len(ids) <= config.length:
        raise TextError(f"got {len(ids)} tokens to train on, wanted at least {config.length + 1}: give a longer text")
    order = torch.Generator().manual_seed(config.seed)
    # The masks have a stream of their own, else masking would change which windows come next and the twins would
    # read different text.
    masks = torch.Generator().manual_seed(int(torch.randint(2**62, (), generator=order)))
    num_masked = max(1, round(config.mask_fraction * config.length))
    offsets = torch.arange(config.length + 1)
    for _ in range(config.num_steps):
        starts = torch.randint(len(ids) - config.length, (config.batch_size, 1), generator=order)
        windows = ids[starts + offsets]
        if config.objective == "causal" or config.mask_id is None:  # TrainConfig refuses masked without a mask
            yield windows[:, :-1], windows[:, 1:]
        else:
            windows = windows[:, :-1]
            chosen = torch.rand(windows.shape, generator=masks).argsort(dim=1)[:, :num_masked]
            masked = torch.zeros_like(windows, dtype=torch.bool).scatter(1, chosen, True)
            yield windows.masked_fill(masked, config.mask_id), windows.masked_fill(~masked, IGNORED)


def split(
    ids: Int[Tensor, "tokens"], held_out_fraction: float = 0.1
) -> tuple[Int[Tensor, "train"], Int[Tensor, "held_out"]]:
    """The stream's beginning to train on, its end for the instrument's windows."""
    num_train = round(len(ids) * (1 - held_out_fraction))
    return ids[:num_train], ids[num_train:]
