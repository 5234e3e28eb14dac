"""A byte-level tokenizer trained on the text at hand."""

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from ..errors import InputError

MASK = "[MASK]"
_MIN_VOCAB_SIZE = 257  # the bytes and the mask
_MAX_PIECE = 1000  # characters


def train_tokenizer(text: str, vocab_size: int) -> Tokenizer:
    """Byte-level BPE with `vocab_size` entries (fewer if the text is too short for that many merges).

    One is `[MASK]`, 256 are the bytes: no text is unknown to it, and decoding gives the text back. It has no begin or
    end token, so encoding adds none. A `[MASK]` written in a text is ordinary characters: only the masked objective
    puts the mask there.
    """
    if vocab_size < _MIN_VOCAB_SIZE:
        raise InputError(f"got vocab_size={vocab_size}, wanted at least {_MIN_VOCAB_SIZE}: 256 bytes and {MASK}")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[MASK],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),  # else a byte missing from `text` would be dropped
        show_progress=False,
    )
    # Merging inside a word is quadratic in its length: a text that is one endless word would train for hours.
    lines = text.splitlines(keepends=True)
    pieces = (line[at : at + _MAX_PIECE] for line in lines for at in range(0, len(line), _MAX_PIECE))
    tokenizer.train_from_iterator(pieces, trainer)
    tokenizer.encode_special_tokens = True
    return tokenizer
