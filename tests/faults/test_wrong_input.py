"""What is refused, with its exact message, and what looks odd and works. One table each; then what is left."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import anisoscope as an
from anisoscope.store.schema import SCHEMA_VERSION
from capture.models import Stack, windows

pytestmark = pytest.mark.usefixtures("shape_checks_off")  # our own messages, as a user sees them

RNG = np.random.default_rng(0)
H, G = RNG.normal(size=(60, 6)), RNG.normal(size=(60, 6))
Q = np.eye(6)[:, :2]
IDS = np.arange(64).reshape(8, 8)


def letters(text: str) -> list[int]:
    return [ord(letter) % 50 for letter in text]


def holding(value: float) -> np.ndarray:
    rows = H.copy()
    rows[3:5, 1] = value
    return rows


def look(h: object = H, g: object = G, **options: object) -> an.Look:
    return an.Look.from_arrays(h, g, **options)  # type: ignore[arg-type]


def text(given: object, tokenizer: object = letters, *args: object, **options: object) -> an.Windows:
    return an.Windows.from_text(given, tokenizer, *args, **options)  # type: ignore[arg-type]


def scope(model: object = None, window: object = None, **options: object) -> an.Scope:
    return an.Scope(model or Stack(), windows() if window is None else window, **options)  # type: ignore[arg-type]


class Flat(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(61, 6), nn.Linear(6, 61)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.tokens(ids))


NOT_FINITE = "(2 of 60 rows are not finite): drop those rows, or mend the model that made them"
NUMBERS = "no table of numbers: give a numpy array or torch tensor (N, D)"
CONVERT = "wanted floating-point rows: convert it with .float() or .astype('float32') first"
MORE = "wanted at least 2 rows and one column: give more of them"
ALL_ZERO = "are zero: no share can be taken; did the loss depend on these rows?"
TOO_FEW = (
    "wanted at least 4, two to fit on and two to test on: give more rows, or say with sequences= which rows belong "
    "together"
)
FEW_IDS = "wanted at least 4 sequences of at least 2 tokens, half of them to fit on and half to test on"
MASK_ID = "wanted a token id, a whole number of at least 0: give that of the tokenizer's mask token"
NO_PATH = "wanted the path of a folder, for example 'runs/first'"
SHORT = "wanted at least 8192 (64 windows of 128): give a longer text, or lower num_sequences or length"
ENCODES = "wanted a tokenizer of tokenizers or transformers, or a function from text to ids"
NO_BLOCKS = (
    "no blocks found in Flat: it holds no nn.ModuleList of alike modules. It has tokens (Embedding), head (Linear): "
    "name the blocks with layers=[...], first to last"
)

# What is called, and the exact message. Paths are relative to the folder that the fixture fills.
WRONG: dict[str, tuple[Callable[[], object], str]] = {
    # an.spectrum, and with it the rows of every function
    "NaN": (lambda: an.spectrum(holding(np.nan)), f"h holds NaN in row 3 {NOT_FINITE}"),
    "Inf": (lambda: an.spectrum(holding(np.inf)), f"h holds Inf in row 3 {NOT_FINITE}"),
    "minus Inf in float16": (
        lambda: an.spectrum(torch.tensor(holding(-1e9)).half()), f"h holds Inf in row 3 {NOT_FINITE}"),
    "no rows": (lambda: an.spectrum(H[:0]), f"h has shape (0, 6); {MORE}"),
    "no columns": (lambda: an.spectrum(H[:, :0]), f"h has shape (60, 0); {MORE}"),
    "one row": (lambda: an.spectrum(H[:1]), f"h has shape (1, 6); {MORE}"),
    "constant rows": (
        lambda: an.spectrum(np.full((9, 6), 7.1)),
        "all 9 rows are the same (constant activations): a spectrum needs rows that differ"),
    "rows of zeros": (
        lambda: an.spectrum(np.zeros((9, 6))),
        "all 9 rows are the same (constant activations): a spectrum needs rows that differ"),
    "whole numbers": (lambda: an.spectrum(np.ones((9, 6), int)), f"h holds int64, {CONVERT}"),
    "booleans": (lambda: an.spectrum(torch.ones(9, 6).bool()), f"h holds bool, {CONVERT}"),
    "complex numbers": (lambda: an.spectrum(np.ones((9, 6), complex)), f"h holds complex128, {CONVERT}"),
    "one axis": (
        lambda: an.spectrum(H[0]), "h has shape (6,); wanted (N, D), one row per token: reshape it first"),
    "three axes": (
        lambda: an.spectrum(H.reshape(10, 6, 6)),
        "h has shape (10, 6, 6); wanted (N, D), one row per token: reshape it first"),
    "a number": (lambda: an.spectrum(3.0), "h has shape (); wanted (N, D), one row per token: reshape it first"),
    "nothing": (lambda: an.spectrum(None), f"h is a NoneType, {NUMBERS}"),
    "a path": (lambda: an.spectrum("h.npy"), f"h is a str, {NUMBERS}"),
    "ragged lists": (lambda: an.spectrum([[1.0], [1.0, 2.0]]), f"h is a list, {NUMBERS}"),
    "an array of objects": (lambda: an.spectrum(np.array([[1.0, None]])), f"h is a ndarray of object, {NUMBERS}"),
    # an.tangent_basis
    "k = 0": (lambda: an.tangent_basis(H, 0), "rank k = 0; wanted a whole number of at least 1"),
    "k = -1": (lambda: an.tangent_basis(H, -1), "rank k = -1; wanted a whole number of at least 1"),
    "k = 2.5": (lambda: an.tangent_basis(H, 2.5), "rank k = 2.5; wanted a whole number of at least 1"),  # type: ignore[arg-type]
    "k = True": (lambda: an.tangent_basis(H, True), "rank k = True; wanted a whole number of at least 1"),
    "k = D": (
        lambda: an.tangent_basis(H, 6), "rank k = 6 leaves no normal directions in D = 6 coordinates: take k < 6"),
    "k > D": (
        lambda: an.tangent_basis(H, 7), "rank k = 7 leaves no normal directions in D = 6 coordinates: take k < 6"),
    "k > rank": (
        lambda: an.tangent_basis(H @ np.diag([1, 1, 0, 0, 0, 0]), 3),
        "rank k = 3, but the activations have rank 2 only (constant, repeated or too few rows): take k <= 2, or fit on "
        "more rows"),
    "k > rows": (
        lambda: an.tangent_basis(H[:3], 4),
        "rank k = 4, but the activations have rank 2 only (constant, repeated or too few rows): take k <= 2, or fit on "
        "more rows"),
    "k of constant rows": (
        lambda: an.tangent_basis(np.ones((60, 6)), 3),
        "rank k = 3, but all rows of the activations are the same: fit on rows that differ"),
    "a proxy that does not exist": (
        lambda: an.tangent_basis(H, 3, "ica"),  # type: ignore[call-overload]
        "unknown method 'ica'; wanted one of semi-nmf, pca, svd, local, random-concepts"),
    "too few neighbours": (
        lambda: an.tangent_basis(H[:7], 2, "local"), "h has 7 rows; wanted at least 8, 4 neighbours for each of k = 2"),
    # an.semi_nmf
    "k = 0, concepts": (lambda: an.semi_nmf(H, 0), "rank k = 0; wanted a whole number of at least 1"),
    "k = D, concepts": (
        lambda: an.semi_nmf(H, 6), "rank k = 6 leaves no normal directions in D = 6 coordinates: take k < 6"),
    "k > rank, concepts": (
        lambda: an.semi_nmf(H[:, [0, 0, 0, 1]], 3),
        "rank k = 3, but the activations have rank 2 only (constant, repeated or too few rows): take k <= 2, or fit on "
        "more rows"),
    "constant rows, concepts": (
        lambda: an.semi_nmf(np.ones((60, 6)), 2),
        "rank k = 2, but all rows of the activations are the same: fit on rows that differ"),
    "NaN, concepts": (lambda: an.semi_nmf(holding(np.nan), 2), f"h holds NaN in row 3 {NOT_FINITE}"),
    "rows of another width, concepts": (
        lambda: an.semi_nmf(H, 2).encode(H[:, :4]),
        "h has shape (60, 4); these concepts were fitted on rows of width D = 6"),
    # an.intrinsic_dimension
    "too few rows for a dimension": (
        lambda: an.intrinsic_dimension(H[:8]),
        "h has 8 rows, 8 of them different; this dimension needs at least 10 that differ: give more rows"),
    "too few rows for 20 neighbours": (
        lambda: an.intrinsic_dimension(H[:15], "mle"),
        "h has 15 rows, 15 of them different; this dimension needs at least 21 that differ: give more rows"),
    "copies of a few rows": (
        lambda: an.intrinsic_dimension(np.repeat(H[:5], 10, 0)),
        "h has 50 rows, 5 of them different; this dimension needs at least 10 that differ: give more rows"),
    "constant rows, dimension": (
        lambda: an.intrinsic_dimension(np.ones((50, 6))),
        "h has 50 rows, all the same (constant activations); this dimension needs at least 10 that differ: give more "
        "rows"),
    "an estimator that does not exist": (
        lambda: an.intrinsic_dimension(H, "ph"),  # type: ignore[arg-type]
        "unknown method 'ph'; wanted one of twonn, twonn-ml, twonn-20, gride, mle"),
    "sequences of another length, dimension": (
        lambda: an.intrinsic_dimension(H, sequences=[1, 2]), "sequences has shape (2,) for 60 rows; wanted (60,), one "
        "a row"),
    # an.energy_share, an.anisotropy_share
    "NaN gradients": (lambda: an.energy_share(holding(np.nan), Q), f"g holds NaN in row 3 {NOT_FINITE}"),
    "zero gradients, energy": (lambda: an.energy_share(G * 0, Q), f"all gradients in g {ALL_ZERO}"),
    "zero gradients, anisotropy": (lambda: an.anisotropy_share(G * 0, Q), f"all gradients in g {ALL_ZERO}"),
    "no gradients": (
        lambda: an.energy_share(G[:0], Q),
        "g has shape (0, 6); wanted at least 1 row and one column: give more of them"),
    "gradients spread evenly": (
        lambda: an.anisotropy_share(np.eye(6), Q),
        "the gradients are spread exactly evenly: they have no anisotropy to share out"),
    "a basis of another width": (
        lambda: an.energy_share(G, np.eye(5)[:, :2]), "q has shape (5, 2), the rows have D = 6; wanted (6, k)"),
    "a basis that is none": (
        lambda: an.energy_share(G, 2 * Q),
        "the columns of q are not orthonormal (off by 3): take torch.linalg.qr(q).Q"),
    # an.alignment, an.capture_curve
    "widths differ": (
        lambda: an.alignment(H, G[:, :5], 2),
        "g_test has width 5, h_fit has 6: give activations and gradients of one layer"),
    "widths differ, curve": (
        lambda: an.capture_curve(H[:, :4], G),
        "g_test has width 6, h_fit has 4: give activations and gradients of one layer"),
    "zero gradients, alignment": (lambda: an.alignment(H, G * 0, 2), f"all gradients in g_test {ALL_ZERO}"),
    "zero gradients, curve": (lambda: an.capture_curve(H, G * 0), f"all gradients in g_test {ALL_ZERO}"),
    "NaN, alignment": (lambda: an.alignment(holding(np.nan), G, 2), f"h_fit holds NaN in row 3 {NOT_FINITE}"),
    "NaN, curve": (lambda: an.capture_curve(H, holding(np.nan)), f"g_test holds NaN in row 3 {NOT_FINITE}"),
    "one gradient": (lambda: an.alignment(H, G[:1], 2), f"g_test has shape (1, 6); {MORE}"),
    "k = D, alignment": (
        lambda: an.alignment(H, G, 6), "rank k = 6 leaves no normal directions in D = 6 coordinates: take k < 6"),
    "k of constant rows, alignment": (
        lambda: an.alignment(np.ones((60, 6)), G, 2),
        "all rows of h_fit are the same (constant activations); wanted rows that differ"),
    "no Look": (
        lambda: an.measure("x"),
        "got str, wanted one Look or several: make them with an.Look.from_arrays"),
    "a single rank": (
        lambda: an.measure(an.Look.from_arrays(H, G), ranks=8),
        "ranks = 8; wanted whole numbers of at least 1"),
    "half a step": (
        lambda: an.Look.from_arrays(H, G, step=0.5),
        "step = 0.5; wanted a whole number of optimiser steps, 0 for untrained, or None"),
    "a step before the first": (
        lambda: an.Look.from_arrays(H, G, step=-1),
        "step = -1; wanted a whole number of optimiser steps, 0 for untrained, or None"),
    "a method that does not exist": (
        lambda: an.alignment(H, G, 2, "ica"), "unknown method 'ica'; wanted one of pca, svd"),  # type: ignore[arg-type]
    "one group": (
        lambda: an.alignment(H, G, 2, groups=["a"] * 60),
        "groups names a single sequence; wanted at least 2, an interval needs several"),
    "too few groups": (
        lambda: an.alignment(H, G, 2, groups=[1, 2]),
        "groups has shape (2,); wanted (60,), the sequence of each row"),
    "other positions": (
        lambda: an.alignment(H, G, 2, h_test=H[:5]),
        "h_test has shape (5, 6), g_test (60, 6): give the same positions in both"),
    # an.Look.from_arrays
    "lengths differ": (lambda: look(H, G[:50]), "g has 50 rows, h has 60; wanted one row per position in both"),
    "lengths differ between layers": (
        lambda: look({"a": H, "b": H[:50]}, None), "h['b'] has 50 rows, h has 60; wanted one row per position in both"),
    "lengths differ in one label": (
        lambda: look(gradients={"sampled": G[:9]}),
        "gradients['sampled'] has 9 rows, h has 60; wanted one row per position in both"),
    "widths differ in a layer": (
        lambda: look({"a": H, "b": H}, {"a": G, "b": G[:, :5]}),
        "g['b'] has width 5, h has 6; wanted both of the same layer"),
    "NaN in a layer": (lambda: look({"a": H, "b": holding(np.nan)}, None), f"h['b'] holds NaN in row 3 {NOT_FINITE}"),
    "Inf in a label": (
        lambda: look(gradients={"permuted": holding(np.inf)}),
        f"gradients['permuted'] holds Inf in row 3 {NOT_FINITE}"),
    "a layer is missing": (
        lambda: look({"a": H, "b": H}, {"a": G}),
        "g has the layers a, h has a, b; wanted the same: give {layer: array} in both, or one array each"),
    "one array beside layers": (
        lambda: look({"a": H, "b": H}, G),
        "g has the layers array, h has a, b; wanted the same: give {layer: array} in both, or one array each"),
    "no layers": (lambda: look({}), "h is an empty mapping; wanted {layer: array}"),
    "whole numbers, look": (lambda: look(np.ones((9, 6), int)), f"h holds int64, {CONVERT}"),
    "an unknown label": (
        lambda: look(gradients={"noise": G}),
        "gradients names 'noise'; wanted some of sampled, permuted: those of the true labels are g"),
    "the true label twice": (
        lambda: look(gradients={"true": G}),
        "gradients names 'true'; wanted some of sampled, permuted: those of the true labels are g"),
    "a single sequence": (lambda: look(sequences=[0] * 60), f"1 sequence; {TOO_FEW}"),
    "three rows": (lambda: look(H[:3], G[:3]), f"3 sequences; {TOO_FEW}"),
    "too few sequence names": (
        lambda: look(sequences=[0, 1]), "sequences has shape (2,); wanted (60,), the sequence of each row"),
    "too few tokens": (
        lambda: look(tokens=[0, 1]), "tokens has shape (2,); wanted (60,), one entry per row of h"),
    "tokens as text": (
        lambda: look(tokens=["a"] * 60),
        "tokens is no column of numbers; wanted one per row of h: give token ids, not text"),
    # an.measure
    "no looks": (lambda: an.measure([]), "no looks to measure; give one Look or several"),
    "steps unknown": (
        lambda: an.measure([look(), look()]),
        "looks are of steps [None, None]; wanted known steps, each once, in rising order: give step="),
    "steps out of order": (
        lambda: an.measure([look(step=3), look(step=1)]),
        "looks are of steps [3, 1]; wanted known steps, each once, in rising order: give step="),
    "rank 0": (lambda: an.measure(look(), ranks=(4, 0)), "ranks = (4, 0); wanted whole numbers of at least 1"),
    "no proxies": (lambda: an.measure(look(), proxies=()), "proxies = (); wanted some of pca, svd"),
    "a proxy that does not exist, measure": (
        lambda: an.measure(look(), proxies=("ica",)), "proxies = ('ica',); wanted some of pca, svd"),  # type: ignore[arg-type]
    "a run that is a file": (
        lambda: an.measure(look(), run="file"), "file is a file; a run is a folder: choose another path"),
    # an.Windows.from_ids
    "ids with a fraction": (
        lambda: an.Windows.from_ids(IDS / 2),
        "ids has shape (8, 8) and type torch.float64; wanted whole numbers (sequences, length): cut one long row with "
        "reshape(-1, length)"),
    "ids in one row": (
        lambda: an.Windows.from_ids(IDS.ravel()),
        "ids has shape (64,) and type torch.int64; wanted whole numbers (sequences, length): cut one long row with "
        "reshape(-1, length)"),
    "ids of several lengths": (
        lambda: an.Windows.from_ids([[1, 2], [3]]),
        "ids is no table of token ids; wanted whole numbers, in rows of one length"),
    "three sequences": (
        lambda: an.Windows.from_ids(IDS[:3]),
        f"ids has shape (3, 8); {FEW_IDS}"),
    "one token a sequence": (
        lambda: an.Windows.from_ids(IDS[:, :1]),
        f"ids has shape (8, 1); {FEW_IDS}"),
    "a mask token below 0": (
        lambda: an.Windows.from_ids(IDS, "masked", mask_id=-5), f"mask_id = -5; {MASK_ID}"),
    "the mask token by name": (
        lambda: an.Windows.from_ids(IDS, "masked", mask_id="[MASK]"), f"mask_id = '[MASK]'; {MASK_ID}"),  # type: ignore[arg-type]
    "the mask token by name, text": (
        lambda: text("abc " * 99, letters, "masked", length=8, num_sequences=4, mask_id="x"),
        f"mask_id = 'x'; {MASK_ID}"),
    "padding": (
        lambda: an.Windows.from_ids(IDS - 1), "ids holds the negative id -1; leave padding out, windows are full"),
    "an unknown objective": (
        lambda: an.Windows.from_ids(IDS, "clm"),  # type: ignore[arg-type]
        "unknown objective 'clm'; wanted 'causal', 'masked' or a function(model, ids)"),
    "masked without a mask": (
        lambda: an.Windows.from_ids(IDS, "masked"),
        "objective 'masked' needs the id of the tokenizer's mask token: give mask_id="),
    "everything masked": (
        lambda: an.Windows.from_ids(IDS, "masked", mask_id=0, mask_fraction=1.0),
        "mask_fraction = 1.0; wanted a number between 0 and 1"),
    "nothing left to mask": (
        lambda: an.Windows.from_ids(IDS[:, :2], "masked", mask_id=0, special=((1,), (2,))),
        "windows of 2 tokens hold 2 special ones: none is left to mask; wanted longer windows"),
    # an.Windows.from_text
    "a short text": (
        lambda: text("abc def"),
        f"the text gives 7 tokens; {SHORT}"),
    "an empty text": (
        lambda: text(""),
        f"the text gives 0 tokens; {SHORT}"),
    "a short file": (
        lambda: text("file"),
        f"file gives 4 tokens; {SHORT}"),
    "no file": (
        lambda: text("corpus.txt"),
        "there is no file corpus.txt: give the path of a UTF-8 text, or the text itself"),
    "no file, and no suffix": (
        lambda: text("other/corpus"),
        "there is no file other/corpus: give the path of a UTF-8 text, or the text itself"),
    "no file, as a Path": (
        lambda: text(Path("nowhere")), "there is no file nowhere: give the path of a UTF-8 text, or the text itself"),
    "a folder as text": (lambda: text("other"), "other is a folder; wanted a text file: name one file"),
    "not UTF-8": (
        lambda: text("latin1.txt"),
        "latin1.txt is not UTF-8 (byte 0xe9 at 20000): convert it, for example with iconv -f latin1 -t utf-8"),
    "no tokenizer": (
        lambda: text("abc", None),
        f"cannot encode with a NoneType; {ENCODES}"),
    "the name of a tokenizer": (
        lambda: text("abc", "gpt2"),
        f"cannot encode with a str; {ENCODES}"),
    "windows of one token": (
        lambda: text("abc", letters, length=1), "length = 1; wanted windows of at least 2 tokens"),
    "three windows": (
        lambda: text("abc", num_sequences=3),
        "num_sequences = 3; wanted at least 4, two to fit on and two to test on"),
    "masked without a mask token": (
        lambda: text("abc " * 99, letters, "masked", length=8, num_sequences=4),
        "objective 'masked' needs the id of the tokenizer's mask token: give mask_id="),
    # an.Look.from_model, an.Scope (more of models: tests/capture/test_blocks.py)
    "a model without blocks": (
        lambda: an.Look.from_model(Flat(), windows()), NO_BLOCKS),
    "a model without blocks, scope": (
        lambda: scope(Flat()), NO_BLOCKS),
    "the name of a model": (
        lambda: scope("gpt2"), "model is a str; wanted a torch.nn.Module: load it first"),
    "ids for windows": (
        lambda: scope(None, torch.ones(8, 8)),
        "windows is a Tensor; wanted an.Windows: make them with an.Windows.from_text or an.Windows.from_ids"),
    "no sequence a batch": (
        lambda: an.Look.from_model(Stack(), windows(), batch_size=0),
        "batch_size = 0; wanted a whole number of sequences, at least 1"),
    "every 0 steps": (lambda: scope(every=0), "every = 0; wanted a whole number of steps, at least 1"),
    "every half step": (lambda: scope(every=0.5), "every = 0.5; wanted a whole number of steps, at least 1"),
    "no steps": (
        lambda: scope(num_steps=0), "num_steps = 0; wanted the planned number of optimiser steps, at least 1"),
    "two schedules": (
        lambda: scope(every=1, schedule=bool), "every and schedule both say when to look; give one of them"),
    "a schedule that is a list": (
        lambda: scope(schedule=[0, 9]), "schedule = [0, 9]; wanted a function from step to True or False"),
    "rank 0, scope": (lambda: scope(ranks=(0,)), "ranks = (0,); wanted whole numbers of at least 1"),
    "a proxy that does not exist, scope": (
        lambda: scope(proxies=("ica",)), "proxies = ('ica',); wanted some of pca, svd"),
    "a run that is a file, scope": (
        lambda: scope(run="file"), "file is a file; a run is a folder: choose another path"),
    "a run that exists": (
        lambda: scope(run="run"),
        "a run exists already in run: choose another folder, or delete this one first"),
    "a run in a folder of others": (
        lambda: scope(run="other"),
        "other is not empty and holds no run: choose another folder, so that nothing is mixed up"),
    "no path, scope": (lambda: scope(run=None), f"the run is None; {NO_PATH}"),
    # an.open_run
    "no path": (lambda: an.open_run(None), f"the run is None; {NO_PATH}"),  # type: ignore[arg-type]
    "a number as path": (lambda: an.open_runs([3]), f"the run is 3; {NO_PATH}"),  # type: ignore[list-item]
    "nothing to open": (lambda: an.open_runs(None), f"the run is None; {NO_PATH}"),  # type: ignore[arg-type]
    "no run": (
        lambda: an.open_run("deep/er/none"),
        "there is no run at deep/er/none: give the folder that was named with run= or --out"),
    "no run, but others": (
        lambda: an.open_run("none"), "there is no run at none; the nearest runs are foreign, future, run"),
    "a file as run": (
        lambda: an.open_run("deep/er/file"),
        "deep/er/file is no run (it is a file): give the folder that was named with run= or --out"),
    "an empty folder as run": (
        lambda: an.open_run("deep/er/empty"),
        "deep/er/empty is no run (it is a folder without a manifest.json): give the folder that was named with run= "
        "or --out"),
    "a foreign manifest": (
        lambda: an.open_run("foreign"),
        "foreign/manifest.json names no schema version: this is not a run of anisoscope"),
    "a run of the future": (
        lambda: an.open_run("future"),
        f"future was written with schema 99, this anisoscope reads up to {SCHEMA_VERSION}: upgrade"),
    "no runs": (lambda: an.open_runs([]), "no runs to open; give one path or several"),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What stands in the way, and the place to be."""
    (tmp_path / "file").write_text("text")
    (tmp_path / "latin1.txt").write_bytes(b"abc " * 5000 + "é".encode("latin1"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("")
    (tmp_path / "deep" / "er" / "empty").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "file").write_text("")
    for name, manifest in (("run", '{"schema_version": 1}'), ("foreign", "{}"), ("future", '{"schema_version": 99}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text(manifest)
    (tmp_path / "run" / "metrics").mkdir()
    (tmp_path / "run" / "metrics" / "001-000000-0.parquet").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_refused_with_its_message(name: str, folder: Path) -> None:
    call, message = WRONG[name]
    with pytest.raises(an.AnisoscopeError) as caught:
        call()
    assert str(caught.value) == message


def test_a_folder_that_may_not_be_written_is_refused_before_training(folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != folder / "deep")  # root may write anywhere
    message = f"cannot write into {folder}/deep (no permission): choose a folder that you may write"
    for start in (scope, lambda run: an.measure(look(), ranks=(2,), run=run)):
        with pytest.raises(an.StoreError) as caught:
            start(run=folder / "deep" / "new" / "run")
        assert str(caught.value) == message
    assert not (folder / "deep" / "new").exists()


def test_a_file_where_a_folder_is_needed_is_refused_before_training(folder: Path) -> None:
    for start in (scope, lambda run: an.measure(look(), ranks=(2,), run=run)):
        with pytest.raises(an.StoreError, match=r"^cannot write into file "):
            start(run="file/run")


def test_a_text_that_may_not_be_read_is_refused(folder: Path, monkeypatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(an.TextError) as caught:
        text("file")
    assert str(caught.value) == "cannot read file (Permission denied); wanted a text file that you may read"


def test_all_zero_gradients_in_one_layer_are_a_fault_of_that_layer(folder: Path) -> None:
    one = look({"a": H, "b": H}, {"a": G * 0, "b": G}, step=3)
    an.measure(one, ranks=(2,), run="zero")
    assert an.open_run("zero").faults() == [
        {"step": 3, "where": "a", "reason": "all gradients are zero: the loss does not depend on this layer's output"}
    ]
    shares = an.open_run("zero").sql("select distinct layer from metrics where statistic = 'energy_share'")
    assert shares["layer"].to_pylist() == ["b"]


def test_what_is_not_measured_is_said_where_there_is_no_run_to_record_it() -> None:
    message = "step 3, array is not measured: all gradients are zero: the loss does not depend on this layer's output"
    with pytest.warns(UserWarning, match=f"^{message}$"):
        an.measure(look(H, G * 0, step=3), ranks=(2,))


def test_every_error_is_one_of_ours_and_of_pythons() -> None:
    for kind, python in (("InputError", ValueError), ("TextError", ValueError), ("ModelError", ValueError)):
        assert issubclass(getattr(an, kind), (an.AnisoscopeError, python))
        assert issubclass(getattr(an, kind), python)
    assert issubclass(an.StoreError, OSError)


def read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


def tensor(x: np.ndarray, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor(x, dtype=dtype)


# What looks odd and works, to the precision of the numbers that are given.
WORKS: dict[str, Callable[[np.ndarray], object]] = {
    "float64 numpy": lambda x: x,
    "float32 numpy": lambda x: x.astype(np.float32),
    "float16 numpy that overflows when squared": lambda x: (x * 1000).astype(np.float16),
    "float16 torch that overflows when squared": lambda x: tensor(x * 1000, torch.float16),
    "float32 torch that overflows when squared": lambda x: tensor(x * 1e25),
    "float32 torch that vanishes when squared": lambda x: tensor(x * 1e-25),
    "bfloat16 torch": lambda x: tensor(x, torch.bfloat16),
    "float64 torch": lambda x: tensor(x, torch.float64),
    "long double": lambda x: x.astype(np.longdouble),
    "another byte order": lambda x: x.astype(x.dtype.newbyteorder()),
    "every second column, torch": lambda x: tensor(x.repeat(2, 1))[:, ::2],
    "every second column, numpy": lambda x: x.repeat(2, 1)[:, ::2],
    "transposed, torch": lambda x: tensor(x.T.copy()).T,
    "Fortran order": np.asfortranarray,
    "backwards and back": lambda x: x[::-1].copy()[::-1],
    "expanded": lambda x: tensor(x)[None].expand(1, -1, -1)[0],
    "read-only": read_only,
    "requires grad": lambda x: tensor(x).requires_grad_(True),
    "inside a graph": lambda x: tensor(x).requires_grad_(True) * 1,
    "a parameter": lambda x: nn.Parameter(tensor(x)),
    "lists of lists": lambda x: x.tolist(),
    "tuples": lambda x: tuple(map(tuple, x)),
    "an array of another class": lambda x: x.view(np.recarray),
}


def exact(given: object) -> np.ndarray:
    """The numbers that were given, in float64."""
    return given.detach().double().numpy() if isinstance(given, Tensor) else np.asarray(given, np.float64)


@pytest.mark.parametrize("name", WORKS)
def test_odd_input_works(name: str) -> None:
    h, g = WORKS[name](H), WORKS[name](G)
    h64, g64 = exact(h), exact(g)
    close = {"rel": 1e-5, "abs": 1e-7}  # float32 in the worst case
    assert an.spectrum(h).anisotropy == pytest.approx(anisotropy(h64), **close)
    assert an.energy_share(g, Q) == pytest.approx(float((g64[:, :2] ** 2).sum() / (g64**2).sum()), **close)
    assert 0 < an.anisotropy_share(g, Q) < 1
    seen, wanted = an.alignment(h, g, 2), an.alignment(h64, g64, 2)
    assert (seen.share, seen.low, seen.high) == pytest.approx((wanted.share, wanted.low, wanted.high), **close)
    assert an.capture_curve(h, g).energy_share == pytest.approx(an.capture_curve(h64, g64).energy_share, **close)
    rows, wanted_rows = (an.measure(look(*pair), ranks=(2,))["value"].to_numpy() for pair in ((h, g), (h64, g64)))
    assert rows == pytest.approx(wanted_rows, rel=1e-3, abs=1e-6)


def anisotropy(x: np.ndarray) -> float:
    eigenvalues = np.linalg.eigvalsh(np.cov(x.T, bias=True))
    return eigenvalues[-1] / eigenvalues.sum()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_basis_has_the_dtype_of_its_rows_and_is_one_for_every_function(dtype: torch.dtype) -> None:
    q = an.tangent_basis(tensor(H, dtype), 2)
    assert (q.dtype, q.shape) == (dtype, (6, 2))
    reference = an.tangent_basis(H, 2)
    assert an.energy_share(G, q) == pytest.approx(
        an.energy_share(G, reference), abs=2e-2 if q.dtype.itemsize == 2 else 1e-6
    )


def test_a_rank_may_be_a_numpy_integer() -> None:
    assert torch.equal(an.tangent_basis(H, np.int64(2)), an.tangent_basis(H, 2))  # type: ignore[arg-type]


def test_input_is_never_changed() -> None:
    for name, make in WORKS.items():
        given = make(H)
        before = exact(given).copy()
        an.spectrum(given)
        an.measure(look(given, given), ranks=(2,))
        assert np.array_equal(exact(given), before), name
        assert not isinstance(given, Tensor) or given.requires_grad == (
            name in ("requires grad", "inside a graph", "a parameter")
        )
