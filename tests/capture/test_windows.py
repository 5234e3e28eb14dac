"""Windows: where they are cut, what the tokenizer puts round them, which positions are masked, what names them."""

import os
import subprocess
import sys
import time
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

import anisoscope as an
from anisoscope import TextError, Windows
from anisoscope.capture.positions import HALVES
from capture.models import MASK, ids, windows

WORDS = [f"w{number}" for number in range(400)]
TEXT = " ".join(np.random.default_rng(0).choice(WORDS, 6000))


@pytest.fixture(scope="module")
def byte_level() -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        [TEXT], trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False)
    )
    return tokenizer


def word_level(template: str = "<bos> $A <eos>") -> tokenizers.Tokenizer:
    """Knows no "a", puts <bos> and <eos> round a text."""
    names = ["<pad>", "<bos>", "<eos>", "[MASK]", *WORDS]
    tokenizer = tokenizers.Tokenizer(models.WordLevel({name: index for index, name in enumerate(names)}))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = [(name, names.index(name)) for name in ("<bos>", "<eos>") if name in template]
    tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=special)
    return tokenizer


def fast(template: str = "<bos> $A <eos>") -> transformers.PreTrainedTokenizerFast:
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=word_level(template), bos_token="<bos>", eos_token="<eos>", mask_token="[MASK]"
    )


def by_word(text: str) -> list[int]:
    return [4 + WORDS.index(word) for word in text.split()]


TRUE_IDS = np.array(by_word(TEXT))


def places(window: Windows, num_special: tuple[int, int] = (0, 0)) -> list[int]:
    """Where in the text each window begins, fit and test alternately; each must occur there as it is."""
    before, after = num_special
    found = []
    for row in torch.stack([window.fit_ids, window.test_ids], dim=1).flatten(0, 1):
        row = row[before : len(row) - after].numpy()
        starts = np.flatnonzero(TRUE_IDS[: len(TRUE_IDS) - len(row) + 1] == row[0])
        (start,) = [start for start in starts if np.array_equal(TRUE_IDS[start : start + len(row)], row)]
        found.append(int(start))
    return found


@pytest.mark.parametrize(
    "tokenizer", [by_word, word_level("$A"), fast("$A")], ids=["function", "tokenizers", "transformers"]
)
def test_windows_are_pieces_of_the_text_spread_evenly_and_halves_alternate(tokenizer) -> None:
    window = Windows.from_text(TEXT, tokenizer, length=30, num_sequences=10)
    starts = places(window)
    assert starts == sorted(starts)
    assert (starts[0], starts[-1]) == (0, 6000 - 30)
    assert max(np.diff(starts)) - min(np.diff(starts)) <= 1
    assert window.special == ((), ())
    assert window.source == "the text"


def test_byte_level_windows_decode_to_the_text(byte_level: tokenizers.Tokenizer) -> None:
    window = Windows.from_text(TEXT, byte_level, length=40, num_sequences=12)
    for row in torch.cat([window.fit_ids, window.test_ids]):
        assert byte_level.decode(row.tolist()) in TEXT
    assert window.counts.sum() == len(byte_level.encode(TEXT).ids)
    assert torch.equal(window.counts, torch.bincount(torch.tensor(byte_level.encode(TEXT).ids)))


def test_windows_do_not_overlap_where_the_text_just_suffices() -> None:
    window = Windows.from_text(" ".join(TEXT.split()[:120]), by_word, length=12, num_sequences=10)
    assert places(window) == list(range(0, 120, 12))


@pytest.mark.parametrize(
    ("template", "special"),
    [
        ("<bos> $A <eos>", ((1,), (2,))),
        ("<bos> $A", ((1,), ())),
        ("$A <eos>", ((), (2,))),
        ("<bos> <bos> $A <eos>", ((1, 1), (2,))),
    ],
)
@pytest.mark.parametrize("build", [word_level, fast])
def test_the_tokenizers_own_begin_and_end_tokens_stand_in_every_window(build, template: str, special) -> None:
    window = Windows.from_text(TEXT, build(template), length=20, num_sequences=8)
    table = torch.cat([window.fit_ids, window.test_ids])
    before, after = special
    assert window.special == special
    assert table.shape == (8, 20)
    assert torch.equal(table[:, : len(before)], torch.tensor([before] * 8).view(8, -1))
    assert torch.equal(table[:, 20 - len(after) :], torch.tensor([after] * 8).view(8, -1))
    assert places(window, (len(before), len(after)))[0] == 0
    assert window.facts()["special"] == [list(before), list(after)]


@pytest.mark.parametrize("build", [word_level, fast])
def test_special_tokens_are_never_masked_and_the_mask_token_is_the_tokenizers(build) -> None:
    window = Windows.from_text(TEXT, build(), "masked", length=20, num_sequences=40, mask_fraction=0.5)
    masks = torch.cat([window.fit_mask, window.test_mask])
    assert window.mask_id == 3
    assert not masks[:, 0].any()
    assert not masks[:, -1].any()
    assert masks[:, 1:-1].any(0).all()


def test_truncation_and_padding_of_a_tokenizer_are_put_aside_and_left_as_they_were() -> None:
    """Many published files carry both; they are meant for batches of short texts."""
    tokenizer = word_level()
    plain = Windows.from_text(TEXT, tokenizer, length=20, num_sequences=8)
    tokenizer.enable_truncation(16)
    tokenizer.enable_padding(length=32)
    before = (tokenizer.truncation, tokenizer.padding)
    assert Windows.from_text(TEXT, tokenizer, length=20, num_sequences=8).fingerprint == plain.fingerprint
    assert (tokenizer.truncation, tokenizer.padding) == before


@pytest.mark.parametrize("num_sequences", [4, 5, 7, 64])
def test_any_number_of_sequences_from_four_on(num_sequences: int) -> None:
    window = Windows.from_text(TEXT, by_word, length=10, num_sequences=num_sequences)
    assert len(window.fit_ids) == num_sequences // 2
    assert len(window.test_ids) == num_sequences - num_sequences // 2
    table = Windows.from_ids(ids(num_sequences))
    assert torch.equal(torch.cat([table.fit_ids, table.test_ids]), ids(num_sequences))
    assert len(table.fit_ids) == num_sequences // 2


@pytest.mark.parametrize("mask_id", [MASK, np.int64(MASK), np.uint8(MASK)])
def test_a_mask_token_may_be_any_whole_number(mask_id, shape_checks_off: None) -> None:
    window = windows("masked", mask_id=mask_id)
    assert type(window.mask_id) is int
    assert window.fingerprint == windows("masked").fingerprint


def test_targets_are_the_next_token_and_the_last_has_none() -> None:
    window = windows()
    for half in HALVES:
        assert torch.equal(window.targets(half)[:, :-1], window.ids(half)[:, 1:])
        assert (window.targets(half)[:, -1] == -100).all()
        assert torch.equal(window.inputs(half), window.ids(half))


@pytest.mark.parametrize(("fraction", "num_masked"), [(0.15, 2), (0.3, 3), (0.01, 1), (0.99, 10)])
def test_masked_windows_hide_the_right_share_of_every_sequence(fraction: float, num_masked: int) -> None:
    window = windows("masked", mask_fraction=fraction)
    for half, mask in (("fit", window.fit_mask), ("test", window.test_mask)):
        assert (mask.sum(1) == num_masked).all()
        assert torch.equal(window.inputs(half)[~mask], window.ids(half)[~mask])
        assert (window.inputs(half)[mask] == MASK).all()
        assert torch.equal(window.targets(half), torch.where(mask, window.ids(half), -100))


def test_masks_are_fixed_and_differ_between_sequences_and_seeds() -> None:
    first, again, other = windows("masked"), windows("masked"), windows("masked", seed=1)
    assert torch.equal(first.test_mask, again.test_mask)
    assert not torch.equal(first.test_mask, other.test_mask)
    assert len(first.test_mask.unique(dim=0)) > 1


def test_permuted_targets_are_the_targets_in_a_fixed_other_order() -> None:
    window = windows("masked")
    targets = window.targets("test")
    shuffled = window.permuted(targets)
    assert torch.equal(shuffled == -100, targets == -100)
    assert torch.equal(shuffled.flatten().sort().values, targets.flatten().sort().values)
    assert not torch.equal(shuffled, targets)
    assert torch.equal(shuffled, window.permuted(targets))
    assert torch.equal(targets, window.targets("test"))


def test_positions_say_of_each_row_where_it_is_and_what_it_bears() -> None:
    window = windows("masked")
    positions = window.positions()
    assert positions.num_fit == 70
    assert positions.sequence.tolist() == [row // 10 % 7 for row in range(140)]
    assert positions.position.tolist() == [row % 10 for row in range(140)]
    assert torch.equal(positions.token, torch.cat([window.fit_ids, window.test_ids]).flatten())
    assert torch.equal(positions.bearing, torch.cat([window.fit_mask, window.test_mask]).flatten())
    assert torch.equal(positions.target, torch.where(positions.bearing, positions.token, -100))
    assert (positions.half("fit"), positions.half("test")) == (slice(0, 70), slice(70, 140))


def test_counts_are_those_of_the_ids_unless_given() -> None:
    assert torch.equal(windows().counts, torch.bincount(ids().flatten()))
    assert windows(counts=[1, 2]).counts.tolist() == [1, 2]


@pytest.mark.parametrize(
    "kind",
    [
        torch.int32,
        torch.int16,
        torch.uint8,
        "uint16",
        "read-only",
        "reversed",
        "lists",
        "tensors",
        "cut from a larger one",
    ],
)
def test_ids_of_every_kind_give_the_same_windows(kind) -> None:
    table = ids()
    given = {
        "uint16": table.numpy().astype(np.uint16),
        "reversed": table.numpy()[::-1].copy()[::-1],
        "lists": table.tolist(),
        "tensors": list(table),
        "cut from a larger one": torch.cat([table, table], 1)[:, :10],
        "read-only": table.numpy().copy(),
    }.get(kind, table if isinstance(kind, str) else table.to(kind))
    if kind == "read-only":
        given.flags.writeable = False
    assert Windows.from_ids(given).fingerprint == windows().fingerprint


def test_later_changes_of_the_ids_do_not_reach_the_windows() -> None:
    table = ids().numpy()
    window = Windows.from_ids(table)
    table[:] = 0
    assert torch.equal(torch.cat([window.fit_ids, window.test_ids]), ids())


BASE = windows("masked")


@pytest.mark.parametrize(
    "other",
    [
        replace(BASE, fit_ids=BASE.fit_ids.clone().index_fill_(0, torch.tensor([6]), 4)),
        replace(BASE, test_ids=BASE.test_ids.flip(0)),
        replace(BASE, fit_ids=BASE.test_ids, test_ids=BASE.fit_ids),
        replace(BASE, objective="causal"),
        replace(BASE, mask_id=4),
        replace(BASE, test_mask=~BASE.test_mask),
        replace(BASE, fit_mask=BASE.test_mask, test_mask=BASE.fit_mask),
        replace(BASE, fit_mask=None),
        replace(BASE, seed=1),
        replace(BASE, objective=lambda model, ids: None),
    ],
)
def test_the_fingerprint_changes_with_whatever_changes_a_look(other: Windows) -> None:
    assert other.fingerprint != BASE.fingerprint


def test_the_fingerprint_tells_where_one_half_ends() -> None:
    window = windows()
    moved = replace(window, fit_ids=window.fit_ids[:-1], test_ids=torch.cat([window.fit_ids[-1:], window.test_ids]))
    assert moved.fingerprint != window.fingerprint


def test_the_fingerprint_does_not_change_with_what_changes_no_look() -> None:
    assert replace(BASE, source="elsewhere", counts=None).fingerprint == BASE.fingerprint
    assert {field.name for field in fields(Windows)} == {
        "fit_ids", "test_ids", "objective", "mask_id", "fit_mask", "test_mask", "counts", "special", "seed", "source",
    }, "does the new field change what a look sees?"  # fmt: skip


def test_the_fingerprint_is_the_same_in_another_process() -> None:
    script = (
        "import torch, anisoscope as an\n"
        "ids = torch.randint(4, 61, (14, 10), generator=torch.Generator().manual_seed(0))\n"
        "print(an.Windows.from_ids(ids, 'masked', mask_id=3, mask_fraction=0.3).fingerprint)"
    )
    process = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": "7"},
    )  # fmt: skip
    assert process.stdout.strip() == BASE.fingerprint


@pytest.mark.parametrize("length", [200, 300, 1000])
def test_a_short_text_without_a_line_end_is_no_path(length: int) -> None:
    """Longer than a file name may be: asking the system whether it exists fails in a way of its own."""
    text = "abc " * (length // 4)
    window = Windows.from_text(text, lambda piece: [ord(char) for char in piece], length=5, num_sequences=4)
    assert window.source == "the text"


def test_a_path_is_read_as_utf8_with_or_without_a_byte_order_mark(tmp_path: Path) -> None:
    text = "äöü — " * 200
    plain, marked, bare = tmp_path / "plain.txt", tmp_path / "marked.txt", tmp_path / "no suffix"
    plain.write_text(text, encoding="utf-8")
    marked.write_text(text, encoding="utf-8-sig")
    bare.write_text(text, encoding="utf-8")
    names = {}
    for path in (plain, marked, bare, str(plain), str(bare)):
        window = Windows.from_text(path, lambda piece: [ord(char) for char in piece], length=5, num_sequences=4)
        names[window.source] = window.fingerprint
    given = Windows.from_text(text, lambda piece: [ord(char) for char in piece], length=5, num_sequences=4)
    assert names == dict.fromkeys(map(str, (plain, marked, bare)), given.fingerprint)


@pytest.mark.parametrize(
    "line", ["a" * 2_000_000, "ab" * 500_000 + " " + "c" * 1_000_000], ids=["one letter", "two words"]
)
def test_an_endless_line_is_read_in_good_time(byte_level: tokenizers.Tokenizer, line: str, tmp_path: Path) -> None:
    path = tmp_path / "line.txt"
    path.write_text(line)
    start = time.monotonic()
    window = Windows.from_text(path, byte_level, length=32, num_sequences=8)
    assert time.monotonic() - start < 30  # quadratic: hours
    assert byte_level.decode(window.fit_ids[0].tolist()) in line


def test_pieces_are_cut_at_white_space_so_that_no_word_is_broken() -> None:
    words = " ".join(f"word{number}" for number in range(30_000))
    seen: list[str] = []

    def tokenizer(piece: str) -> list[int]:
        seen.append(piece)
        return [1] * len(piece.split())

    window = Windows.from_text(words, tokenizer, length=8, num_sequences=4)
    assert "".join(piece for piece in seen if len(piece) > 64) == words
    assert max(map(len, seen)) <= 1 << 16
    assert window.counts.tolist() == [0, 30_000]


def test_a_text_that_is_too_short_says_what_it_takes() -> None:
    def short(num_words: int, tokenizer=by_word) -> Windows:
        return Windows.from_text(" ".join(TEXT.split()[:num_words]), tokenizer, length=12, num_sequences=10)

    assert short(120).length == 12
    with pytest.raises(TextError) as caught:
        short(119)
    assert str(caught.value) == (
        "the text gives 119 tokens; wanted at least 120 (10 windows of 12): give a longer text, or lower num_sequences "
        "or length"
    )
    assert short(100, fast()).length == 12
    with pytest.raises(TextError, match=r"gives 99 tokens; wanted at least 100 \(10 windows of 10\)"):
        short(99, fast())


def test_a_window_that_is_measured_tells_the_run_what_it_was(tmp_path: Path) -> None:
    window = windows("masked")
    assert window.facts() == {
        "fingerprint": window.fingerprint, "source": "ids", "objective": "masked", "fit_sequences": 7,
        "test_sequences": 7, "length": 10, "special": [[], []], "seed": 0,
    }  # fmt: skip
    assert replace(window, objective=an.measure).facts()["objective"] == "custom"
