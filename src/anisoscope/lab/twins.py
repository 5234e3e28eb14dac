"""The main job: a decoder and its twin, an encoder that differs in the mask alone, trained while being watched."""

import statistics
from functools import partial
from pathlib import Path
from typing import Literal, Protocol, cast

import pyarrow as pa
import pyarrow.compute as pc
import torch

from ..capture.windows import Windows, spread
from ..errors import TextError
from ..loops.scope import Scope
from ..protocol.observe import primary_rank
from ..store.vocabulary import OBJECTIVES
from .model import ModelConfig, build
from .presets import Preset
from .tokenizer import MASK, train_tokenizer
from .train import split, train

# decoder: causal, encoder: masked
OBJECTIVE: dict[str, Literal["causal", "masked"]] = {OBJECTIVES[name].title: name for name in ("causal", "masked")}


class Progress(Protocol):
    """What hears of the twins while they train."""

    def on_stage(self, stage: str) -> None: ...

    def on_step(self, step: int, loss: float) -> None: ...

    def on_look(self, kind: str, step: int, glance: dict[str, float | None]) -> None: ...


def glance(rows: pa.Table, view: str, width: int) -> dict[str, float | None]:
    """One look in six numbers for a live table: the loss, and medians over the blocks in the primary cell."""
    blocks = rows.filter((pc.field("depth") > 0) & (pc.field("view") == view))
    rank = primary_rank(width)

    def middle(statistic: str, control: str = "", column: str = "value", of: pa.Table = blocks) -> float | None:
        chosen = of.filter((pc.field("statistic") == statistic) & (pc.field("control") == control))
        if statistic == "energy_share":
            chosen = chosen.filter((pc.field("proxy") == "pca") & (pc.field("rank") == rank))
        values = chosen[column].to_pylist()
        return statistics.median(values) if values else None

    return {
        "loss": middle("loss", of=rows),
        "tangent share": middle("energy_share"),
        "random others": middle("energy_share", "random_normal"),
        "sampled labels": middle("energy_share", "sampled_labels"),
        "chance": middle("energy_share", column="chance"),
        "anisotropy": middle("anisotropy"),
    }


def train_twins(text: str, source: str, preset: Preset, out: Path, seed: int, progress: Progress) -> list[Path]:
    """Trains both twins on `text` and returns their run folders, `out/decoder` and `out/encoder`."""
    progress.on_stage("learning a tokenizer")
    tokenizer = train_tokenizer(text, preset.vocab_size)
    mask_id = cast(int, tokenizer.token_to_id(MASK))
    ids = torch.tensor(tokenizer.encode(text).ids)
    train_ids, held_out = split(ids)
    needed = preset.num_windows * preset.length
    if len(held_out) < needed:
        raise TextError(
            f"{source} gives {len(ids)} tokens, {len(held_out)} of them held out; wanted at least {needed} held out "
            f"({preset.num_windows} windows of {preset.length}): give a text of {10 * needed} tokens or more"
        )
    counts = torch.bincount(ids, minlength=tokenizer.get_vocab_size())
    table = spread(held_out, preset.length, preset.num_windows)
    for kind, objective in OBJECTIVE.items():
        progress.on_stage(f"training the {kind}")
        model = build(preset.model_config(objective, tokenizer.get_vocab_size()), seed)
        windows = Windows.from_ids(
            table, objective, mask_id=mask_id, counts=counts, seed=seed, source="held-out end of the text"
        )
        with Scope(
            model,
            windows,
            num_steps=preset.num_steps,
            run=out / kind,
            schedule=frozenset(preset.looks).__contains__,
            name=kind,
            seed=seed,
            on_look=partial(_report, progress, kind, model.config),
        ) as scope:
            train(model, train_ids, preset.train_config(objective, mask_id, seed), scope, progress.on_step)
    return [out / kind for kind in OBJECTIVE]


def _report(progress: Progress, kind: str, config: ModelConfig, rows: pa.Table) -> None:
    view = "all" if config.causal else "bearing"
    progress.on_look(kind, rows["step"][0].as_py(), glance(rows, view, config.width))
