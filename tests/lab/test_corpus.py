"""The text that every Python carries, and the tokenizer trained on it."""

import hashlib
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from anisoscope.errors import InputError, TextError
from anisoscope.lab import corpus
from anisoscope.lab.corpus import embedded_corpus, passages
from anisoscope.lab.tokenizer import MASK, train_tokenizer

FINGERPRINT = """
from anisoscope.lab.corpus import embedded_corpus
from anisoscope.lab.tokenizer import train_tokenizer
import hashlib
text = embedded_corpus()
print(hashlib.sha256((text + train_tokenizer(text[:200_000], 600).to_str()).encode()).hexdigest())
"""


@pytest.fixture(scope="module")
def pieces() -> list[str]:
    return passages()


@pytest.fixture(scope="module")
def text(pieces) -> str:
    return "\n\n".join(pieces)


@pytest.fixture(scope="module")
def tokenizer(text) -> Tokenizer:
    return train_tokenizer(text[:200_000], 600)


def test_corpus_is_large_and_english(text):
    assert 1_500_000 < len(text) < 4_000_000
    words = text.lower().split()
    assert words.count("the") / len(words) > 0.03  # English has about .05


def test_no_passage_comes_twice(pieces):
    assert len(pieces) == len(set(pieces)) > 3000


def test_corpus_and_tokenizer_do_not_depend_on_the_process(text, tokenizer):
    """Another process, another hash seed: no set's order reaches the text."""
    command = [sys.executable, "-c", FINGERPRINT]
    printed = subprocess.run(command, env={"PYTHONHASHSEED": "7"}, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == hashlib.sha256((text + tokenizer.to_str()).encode()).hexdigest()


def test_docstrings_are_parsed_once_each_and_never_run(tmp_path, monkeypatch):
    long = "A sentence that is long enough to be kept, because it has more than eighty characters in it."
    nested = f'try:\n  pass\nexcept E:\n  def f():\n    """{long} B.\n\n    C:\n      D.\n    """'
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "skipped.py").write_text(f'"""{long} But in a skipped folder."""')
    (tmp_path / "a.py").write_text(f'"""{long}"""\nraise SystemExit\nclass A:\n    """Short."""')
    (tmp_path / "b.py").write_text(nested)
    (tmp_path / "c.py").write_text(f'class C:\n    def f(self):\n        """{long}"""')  # a second time
    (tmp_path / "broken.py").write_text("def (")
    assert list(corpus._docstrings(tmp_path)) == [long, f"{long} B.\n\nC:\n  D.", long]
    monkeypatch.setattr(corpus.sysconfig, "get_path", lambda name: str(tmp_path))
    assert passages().count(long) == 1


def test_a_python_without_sources_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(corpus.sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(TextError, match=r"wanted at least 1,000,000: this Python's standard library .* --text FILE"):
        embedded_corpus()


HOSTILE = [
    "",
    " ",
    MASK,
    f"a{MASK}b {MASK}",
    "\x00\r\n\t  \u2028",
    "née 😀 漢字 \u202eabc",
    "<script>&amp;</script>",
    "a" * 5000,
]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_comes_back(tokenizer, hostile):
    assert tokenizer.decode(tokenizer.encode(hostile).ids) == hostile


@settings(max_examples=25)
@given(drawn=st.text())
def test_any_text_comes_back(tokenizer, drawn):
    assert tokenizer.decode(tokenizer.encode(drawn).ids) == drawn


def test_no_text_can_smuggle_the_mask_in(tokenizer):
    mask = tokenizer.token_to_id(MASK)
    assert mask not in tokenizer.encode(f"a {MASK} b").ids
    tokenizer.encode_special_tokens = False  # the proof that it is this setting which keeps it out
    assert mask in tokenizer.encode(f"a {MASK} b").ids
    tokenizer.encode_special_tokens = True


def test_encoding_adds_nothing(tokenizer):
    ids = tokenizer.encode("the list").ids
    assert ids == tokenizer.encode("the list", add_special_tokens=False).ids
    assert tokenizer.get_vocab_size() == 600


def test_an_endless_word_is_trained_on_in_pieces():
    """Whole, a million letters without a space train for hours; whole, these would make tokens of 10,000 letters."""
    tokenizer = train_tokenizer("a" * 50_000, 700)
    assert 100 < max(map(len, tokenizer.get_vocab())) <= 1000


def test_a_short_text_gives_fewer_entries_and_too_few_are_refused():
    assert train_tokenizer("ab ab", 1000).get_vocab_size() < 300
    with pytest.raises(InputError, match="got vocab_size=100, wanted at least 257"):
        train_tokenizer("ab", 100)
