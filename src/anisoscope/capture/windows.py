"""Fixed held-out windows: the same tokens, masks and labels at every look, so that looks differ by the model alone."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from ..errors import InputError, TextError
from .positions import HALVES, IGNORED, Half, Positions

Objective = Literal["causal", "masked"] | Callable[[nn.Module, Tensor], Any]
_PIECE_CHARS = 1 << 16
_MOST_CHARS = 1 << 25


@dataclass(frozen=True, repr=False)
class Windows:
    """Windows of tokens that training never sees, half to fit proxies on and half to test them with gradients.

    >>> windows = Windows.from_ids(torch.arange(32).reshape(8, 4))
    >>> windows.fit_ids.shape, windows.test_ids.shape, windows.objective
    (torch.Size([4, 4]), torch.Size([4, 4]), 'causal')
    """

    fit_ids: Int[Tensor, "fit_sequences length"]
    test_ids: Int[Tensor, "test_sequences length"]
    objective: Objective = "causal"
    mask_id: int | None = None
    fit_mask: Bool[Tensor, "fit_sequences length"] | None = None
    test_mask: Bool[Tensor, "test_sequences length"] | None = None
    counts: Int[Tensor, " vocab"] | None = None  # how often each token occurs in the corpus
    special: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # what the tokenizer puts before and after
    seed: int = 0
    source: str = field(default="ids", compare=False)

    @classmethod
    def from_ids(
        cls,
        ids: object,
        objective: Objective = "causal",
        *,
        mask_id: int | None = None,
        mask_fraction: float = 0.15,
        counts: object | None = None,
        special: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()),
        seed: int = 0,
        source: str = "ids",
    ) -> "Windows":
        """Windows from token ids (sequences, length); uses every row: the first half to fit on, the second to test on.

        `objective` is "causal" (next token), "masked" (needs `mask_id`), or `f(model, ids) -> (logits, targets)` with
        -100 where no loss is taken; `f` may return the summed loss alone: sampled and permuted labels are then missing.
        """
        table = _table_of(ids)
        if table.shape[0] < 4 or table.shape[1] < 2:
            raise InputError(
                f"ids has shape {tuple(table.shape)}; wanted at least 4 sequences of at least 2 tokens, half of them "
                "to fit on and half to test on"
            )
        if int(table.min()) < 0:
            raise InputError(f"ids holds the negative id {int(table.min())}; leave padding out, windows are full")
        if isinstance(objective, str) and objective not in ("causal", "masked"):
            raise InputError(f"unknown objective {objective!r}; wanted 'causal', 'masked' or a function(model, ids)")
        num_fit = table.shape[0] // 2
        if objective == "masked" and mask_id is None:
            raise InputError("objective 'masked' needs the id of the tokenizer's mask token: give mask_id=")
        if mask_id is not None and not is_whole(mask_id, 0):
            raise InputError(
                f"mask_id = {mask_id!r}; wanted a token id, a whole number of at least 0: give that of the tokenizer's "
                "mask token"
            )
        mask = _fixed_mask(table, mask_fraction, special, seed) if objective == "masked" else None
        return cls(
            table[:num_fit],
            table[num_fit:],
            objective,
            None if mask_id is None else int(mask_id),
            None if mask is None else mask[:num_fit],
            None if mask is None else mask[num_fit:],
            torch.bincount(table.flatten()) if counts is None else torch.as_tensor(counts),
            special,
            seed,
            source,
        )

    @classmethod
    def from_text(
        cls,
        text_or_path: str | os.PathLike[str],
        tokenizer: Any,
        objective: Objective = "causal",
        *,
        length: int = 128,
        num_sequences: int = 64,
        mask_id: int | None = None,
        mask_fraction: float = 0.15,
        seed: int = 0,
    ) -> "Windows":
        """Windows spread evenly over a text or a UTF-8 file, alternately to fit on and to test on.

        `tokenizer` is one of `tokenizers` or `transformers`, or a function from text to ids. Its own rule for begin
        and end tokens is followed in every window. At most the first 32 million characters are read.
        """
        if num_sequences < 4:
            raise InputError(f"num_sequences = {num_sequences}; wanted at least 4, two to fit on and two to test on")
        text, source = read_text(text_or_path)
        encode, special = _encoder(tokenizer, text[:1024].split() or [""])
        num_special = len(special[0]) + len(special[1])
        room = length - num_special
        if length < 2 or room < 1:
            beside = f" beside the tokenizer's {num_special} begin and end tokens" if num_special else ""
            raise InputError(
                f"length = {length}; wanted windows of at least {2 if num_special == 0 else 1} tokens{beside}"
            )
        ids = torch.tensor([token for piece in _pieces(text) for token in encode(piece)])
        needed = num_sequences * room
        if len(ids) < needed:
            raise TextError(
                f"{source} gives {len(ids)} tokens; wanted at least {needed} ({num_sequences} windows of "
                f"{room}): give a longer text, or lower num_sequences or length"
            )
        table = spread(ids, room, num_sequences)
        before, after = (torch.tensor(part, dtype=torch.int64).expand(len(table), -1) for part in special)
        return cls.from_ids(
            torch.cat([before, table, after], 1),
            objective,
            mask_id=_mask_id(tokenizer) if mask_id is None and objective == "masked" else mask_id,
            mask_fraction=mask_fraction,
            counts=torch.bincount(ids),
            special=special,
            seed=seed,
            source=source,
        )

    def __repr__(self) -> str:
        sizes = f"{self.fit_ids.shape[0]} + {self.test_ids.shape[0]} sequences of {self.length}"
        return f"Windows({self.objective_name}, {sizes}, fingerprint {self.fingerprint})"

    @property
    def length(self) -> int:
        return self.fit_ids.shape[1]

    @property
    def objective_name(self) -> str:
        return self.objective if isinstance(self.objective, str) else "custom"

    def ids(self, half: Half) -> Int[Tensor, "sequences length"]:
        """The true tokens of one half."""
        return self.fit_ids if half == "fit" else self.test_ids

    def inputs(self, half: Half) -> Int[Tensor, "sequences length"]:
        """What the model is given: the true tokens, masked ones replaced."""
        mask = self._mask(half)
        return self.ids(half) if mask is None else self.ids(half).masked_fill(mask, self.mask_id or 0)

    def _mask(self, half: Half) -> Bool[Tensor, "sequences length"] | None:
        return self.fit_mask if half == "fit" else self.test_mask

    def targets(self, half: Half) -> Int[Tensor, "sequences length"] | None:
        """What each position shall predict, -100 where it enters no loss; None where the user's objective says."""
        ids, mask = self.ids(half), self._mask(half)
        if self.objective == "causal":
            return torch.cat([ids[:, 1:], torch.full_like(ids[:, :1], IGNORED)], dim=1)
        return ids.masked_fill(~mask, IGNORED) if self.objective == "masked" and mask is not None else None

    def positions(self, targets: Mapping[Half, Tensor | None] | None = None) -> Positions:
        """One entry a row; `targets` as the user's objective gave them, where it did."""
        known = targets or {half: self.targets(half) for half in HALVES}
        given = [one.flatten() for half in HALVES if (one := known[half]) is not None]
        target = torch.cat(given) if len(given) == len(HALVES) else None
        sequence = [torch.arange(len(self.ids(half))).repeat_interleave(self.length) for half in HALVES]
        return Positions(
            sequence=torch.cat(sequence),
            num_fit=self.fit_ids.numel(),
            position=torch.arange(self.length).repeat(sum(len(self.ids(half)) for half in HALVES)),
            token=torch.cat([self.ids(half).flatten() for half in HALVES]),
            target=target,
            bearing=None if target is None else target != IGNORED,
        )

    def permuted(self, targets: Tensor) -> Tensor:
        """The same targets shuffled among the positions that have one; the same shuffle at every look."""
        flat = targets.flatten().clone()
        bearing = (flat != IGNORED).nonzero()[:, 0]
        generator = torch.Generator().manual_seed(self.seed + 1)
        flat[bearing] = flat[bearing[torch.randperm(len(bearing), generator=generator)]]
        return flat.view_as(targets)

    @cached_property
    def fingerprint(self) -> str:
        """Names these windows in every record: two runs with the same fingerprint saw the same tokens and masks."""
        digest = hashlib.sha256(f"{self.objective_name} {self.mask_id} {self.seed}".encode())
        for tensor in (self.fit_ids, self.test_ids, self.fit_mask, self.test_mask):
            if tensor is not None:
                digest.update(str(tuple(tensor.shape)).encode() + tensor.numpy().tobytes())
        return digest.hexdigest()[:16]

    def facts(self) -> dict[str, Any]:
        """What a run's manifest says of its windows."""
        return {
            "fingerprint": self.fingerprint,
            "source": self.source,
            "objective": self.objective_name,
            "fit_sequences": self.fit_ids.shape[0],
            "test_sequences": self.test_ids.shape[0],
            "length": self.length,
            "special": [list(part) for part in self.special],
            "seed": self.seed,
        }


def is_whole(number: object, least: int) -> bool:
    """Whether it is a whole number, numpy's too, of at least `least`."""
    return isinstance(number, Integral) and not isinstance(number, bool) and int(number) >= least


def spread(ids: Int[Tensor, "tokens"], length: int, num_sequences: int) -> Int[Tensor, "sequences length"]:
    """Windows spread evenly over a stream of tokens, alternately to fit on and to test on: those to fit on come first.

    >>> spread(torch.arange(20), length=5, num_sequences=4).tolist()
    [[0, 1, 2, 3, 4], [10, 11, 12, 13, 14], [5, 6, 7, 8, 9], [15, 16, 17, 18, 19]]
    """
    starts = np.linspace(0, len(ids) - length, num_sequences).astype(int)
    table = ids[torch.from_numpy(starts)[:, None] + torch.arange(length)]
    odd = num_sequences % 2  # then the test half has one more
    return torch.cat([table[odd::2], table[1 - odd :: 2]])


def _table_of(ids: object) -> Int[Tensor, "..."]:
    """Token ids as int64 of two axes; read-only, small unsigned and oddly strided arrays are copied."""
    try:
        table = torch.as_tensor(ids if isinstance(ids, Tensor) else np.array(ids)).cpu()
    except (TypeError, ValueError, RuntimeError):
        raise InputError("ids is no table of token ids; wanted whole numbers, in rows of one length") from None
    if table.ndim != 2 or table.is_floating_point() or table.dtype == torch.bool:
        raise InputError(
            f"ids has shape {tuple(table.shape)} and type {table.dtype}; wanted whole numbers (sequences, length): "
            "cut one long row with reshape(-1, length)"
        )
    return table.long()


def _fixed_mask(
    ids: Tensor, fraction: float, special: tuple[tuple[int, ...], tuple[int, ...]], seed: int
) -> Bool[Tensor, "sequences length"]:
    """Which positions are masked: the given share of each sequence, at least one, never a special token."""
    if not 0 < fraction < 1:
        raise InputError(f"mask_fraction = {fraction}; wanted a number between 0 and 1")
    score = torch.rand(ids.shape, generator=torch.Generator().manual_seed(seed))
    score[:, : len(special[0])] = 2
    score[:, ids.shape[1] - len(special[1]) :] = 2
    room = ids.shape[1] - len(special[0]) - len(special[1])
    if room < 1:
        raise InputError(
            f"windows of {ids.shape[1]} tokens hold {ids.shape[1] - room} special ones: none is left to mask; wanted "
            "longer windows"
        )
    num_masked = max(1, round(fraction * room))
    threshold = score.sort(1).values[:, num_masked - 1 : num_masked]
    return score <= threshold


def read_text(text_or_path: str | os.PathLike[str]) -> tuple[str, str]:
    """The text, and what to call it; a path, or a short line that names a file, is read as UTF-8."""
    if isinstance(text_or_path, str):
        short = 0 < len(text_or_path) < 1024 and "\n" not in text_or_path
        like_path = short and " " not in text_or_path and ("/" in text_or_path or bool(Path(text_or_path).suffix))
        # os.path, not pathlib: to a line that is too long for a file name it says no, and does not raise.
        if not like_path and not (short and os.path.exists(text_or_path)):
            return text_or_path[:_MOST_CHARS], "the text"
    path = Path(text_or_path)
    try:
        with path.open(encoding="utf-8-sig") as file:
            return file.read(_MOST_CHARS), str(path)
    except UnicodeDecodeError:
        byte, offset = _first_bad_byte(path)
        raise TextError(
            f"{path} is not UTF-8 (byte {byte:#04x} at {offset}): convert it, for example with iconv -f latin1 -t utf-8"
        ) from None
    except FileNotFoundError:
        raise TextError(f"there is no file {path}: give the path of a UTF-8 text, or the text itself") from None
    except IsADirectoryError:
        raise TextError(f"{path} is a folder; wanted a text file: name one file") from None
    except OSError as error:
        raise TextError(f"cannot read {path} ({error.strerror}); wanted a text file that you may read") from None


def _first_bad_byte(path: Path) -> tuple[int, int]:
    """Which byte is no UTF-8, and where in the file; a text stream knows it inside its own buffer only."""
    try:
        path.read_bytes().decode()
    except UnicodeDecodeError as error:
        return error.object[error.start], error.start
    return 0, 0


def _pieces(text: str) -> Iterator[str]:
    """Pieces of bounded size, cut at white space where there is some: one endless line must not cost quadratic time."""
    start = 0
    while start < len(text):
        end = min(len(text), start + _PIECE_CHARS)
        if end < len(text):
            cut = max(text.rfind(mark, start + 1, end) for mark in ("\n", " "))
            end = cut if cut > start else end
        yield text[start:end]
        start = end


def _encoder(
    tokenizer: Any, words: list[str]
) -> tuple[Callable[[str], list[int]], tuple[tuple[int, ...], tuple[int, ...]]]:
    """How to encode plain text, and what the tokenizer itself puts before and after a text, seen on a word of it."""
    if hasattr(tokenizer, "encode") and hasattr(tokenizer, "get_vocab_size"):  # tokenizers.Tokenizer
        if tokenizer.truncation or tokenizer.padding:  # as many files carry them: they would cut or fill every piece
            tokenizer = type(tokenizer).from_str(tokenizer.to_str())
            tokenizer.no_truncation()
            tokenizer.no_padding()

        def encode(text: str, special: bool = False) -> list[int]:
            return tokenizer.encode(text, add_special_tokens=special).ids

    elif hasattr(tokenizer, "encode") and not isinstance(tokenizer, str):  # transformers

        def encode(text: str, special: bool = False) -> list[int]:
            return list(tokenizer.encode(text, add_special_tokens=special, verbose=False))

    elif callable(tokenizer):
        return lambda text: [int(token) for token in tokenizer(text)], ((), ())  # type: ignore[operator]

    else:
        raise InputError(
            f"cannot encode with a {type(tokenizer).__name__}; wanted a tokenizer of tokenizers or transformers, or a "
            "function from text to ids"
        )
    word = next((word for word in words if encode(word)), words[0])
    bare, dressed = encode(word), encode(word, True)
    before = next((i for i in range(len(dressed) - len(bare) + 1) if dressed[i : i + len(bare)] == bare), 0)
    special = (tuple(dressed[:before]), tuple(dressed[before + len(bare) :]))
    return encode, special


def _mask_id(tokenizer: Any) -> int | None:
    if getattr(tokenizer, "mask_token_id", None) is not None:
        return int(tokenizer.mask_token_id)
    find = getattr(tokenizer, "token_to_id", None)
    found = [find(name) for name in ("[MASK]", "<mask>")] if find else []
    return next((token for token in found if token is not None), None)
