"""The main job: a decoder and its twin, an encoder that differs in the mask alone, trained while being watched."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, cast

import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from ..capture.windows import Windows
from ..errors import TextError
from ..loops.scope import Scope
from ..protocol.observe import primary_rank
from .model import build
from .presets import Preset
from .tokenizer import MASK, train_tokenizer
from .train import split, train

Kind = Literal["decoder", "encoder"]
OBJECTIVE: dict[Kind, Literal["causal", "masked"]] = {"decoder": "causal", "encoder": "masked"}


@dataclass(frozen=True)
class Glance:
    """One look in six numbers, medians over the blocks in the primary cell: what a live table shows."""

    step: int
    loss: float | None
    share: float | None
    random: float | None
    sampled: float | None
    chance: float | None
    anisotropy: float | None

    @classmethod
    def of(cls, rows: pa.Table, view: str, width: int) -> "Glance":
        blocks = rows.filter((pc.field("depth") > 0) & (pc.field("view") == view))

        rank = primary_rank(width)

        def middle(statistic: str, control: str = "", column: str = "value") -> float | None:
            chosen = blocks.filter((pc.field("statistic") == statistic) & (pc.field("control") == control))
            if statistic == "energy_share":
                chosen = chosen.filter((pc.field("proxy") == "pca") & (pc.field("rank") == rank))
            values = chosen[column].to_pylist()
            return statistics.median(values) if values else None

        loss = rows.filter(pc.field("statistic") == "loss")["value"].to_pylist()
        return cls(
            step=rows["step"][0].as_py(),
            loss=loss[0] if loss else None,
            share=middle("energy_share"),
            random=middle("energy_share", "random_normal"),
            sampled=middle("energy_share", "sampled_labels"),
            chance=middle("energy_share", column="chance"),
            anisotropy=middle("anisotropy"),
        )


@dataclass
class Progress:
    """What the caller hears while the twins train."""

    on_stage: Callable[[str], None] = field(default=lambda stage: None)
    on_step: Callable[[Kind, int, float], None] = field(default=lambda kind, step, loss: None)
    on_look: Callable[[Kind, Glance], None] = field(default=lambda kind, glance: None)


def windows_of(held_out: Tensor, preset: Preset, kind: Kind, mask_id: int, counts: Tensor, seed: int) -> Windows:
    """Windows spread evenly over the held-out tokens, alternately to fit on and to test on; the same for both twins."""
    starts = torch.linspace(0, len(held_out) - preset.length, preset.num_windows).long()
    table = held_out[starts[:, None] + torch.arange(preset.length)]
    return Windows.from_ids(
        torch.cat([table[0::2], table[1::2]]),
        OBJECTIVE[kind],
        mask_id=mask_id,
        counts=counts,
        seed=seed,
        source="held-out end of the text",
    )


def train_twins(
    text: str, source: str, preset: Preset, out: Path, seed: int = 0, progress: Progress | None = None
) -> list[Path]:
    """Trains both twins on `text` and returns their run folders, `out/decoder` and `out/encoder`."""
    progress = progress or Progress()
    progress.on_stage("tokenizer")
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
    runs = []
    for kind in ("decoder", "encoder"):
        progress.on_stage(kind)
        model = build(preset.model_config(OBJECTIVE[kind], tokenizer.get_vocab_size()), seed)
        windows = windows_of(held_out, preset, kind, mask_id, counts, seed)
        scope = Scope(
            model,
            windows,
            num_steps=preset.num_steps,
            run=out / kind,
            schedule=frozenset(preset.looks).__contains__,
            name=kind,
            seed=seed,
            on_look=partial(_report, progress, kind, model.config.width),
        )
        with scope:
            train(
                model,
                train_ids,
                preset.train_config(OBJECTIVE[kind], mask_id, seed),
                scope,
                partial(progress.on_step, kind),
            )
        runs.append(out / kind)
    return runs


def _report(progress: Progress, kind: Kind, width: int, rows: pa.Table) -> None:
    progress.on_look(kind, Glance.of(rows, "bearing" if kind == "encoder" else "all", width))
