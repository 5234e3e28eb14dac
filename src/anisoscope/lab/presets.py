"""How large the main job is. The settings were chosen by the loss alone, never by anything that is measured."""

from dataclasses import dataclass
from typing import Literal

from .model import ModelConfig
from .train import TrainConfig


@dataclass(frozen=True)
class Preset:
    """One size of the main job; both twins share all of it."""

    num_blocks: int
    vocab_size: int
    length: int
    batch_size: int
    num_steps: int
    learning_rate: float
    looks: tuple[int, ...]  # the steps that are looked at
    num_windows: int  # held out, one half to fit on and one to test on
    # In so few steps post-norm learns faster, the encoder above all: held-out loss 5.2 after 1,000 steps, pre-norm 5.8.
    norm: Literal["pre", "post"] = "post"

    def model_config(self, objective: Literal["causal", "masked"], vocab_size: int) -> ModelConfig:
        """`vocab_size` is the trained tokenizer's: a short text gives fewer entries than the preset asks for."""
        return ModelConfig.sized(
            self.num_blocks,
            vocab_size=vocab_size,
            length=self.length,
            causal=objective == "causal",
            norm=self.norm,
        )

    def train_config(self, objective: Literal["causal", "masked"], mask_id: int, seed: int) -> TrainConfig:
        return TrainConfig(
            objective=objective,
            num_steps=self.num_steps,
            batch_size=self.batch_size,
            length=self.length,
            learning_rate=self.learning_rate,
            warmup_steps=self.num_steps // 10,
            mask_id=mask_id,
            seed=seed,
        )


PRESETS = {
    "smoke": Preset(
        num_blocks=4,
        vocab_size=1024,
        length=64,
        batch_size=16,
        num_steps=250,
        learning_rate=3e-3,
        looks=(0, 10, 25, 75, 150, 250),
        num_windows=64,
    ),
    "quick": Preset(
        num_blocks=6,
        vocab_size=2048,
        length=64,
        batch_size=16,
        num_steps=1000,
        learning_rate=1.4e-3,
        looks=(0, 10, 30, 60, 100, 200, 400, 700, 1000),
        num_windows=128,
    ),
}
