"""What anisoscope raises. Every message says what was got, what was wanted, where, and what to do.

AnisoscopeError
├── InputError   (also a ValueError)    an array, a number or an option cannot be used
├── TextError    (also a ValueError)    a text cannot be cut into windows
├── ModelError   (also a ValueError)    a model cannot be watched: no blocks found, no logits, a parameter changed
└── StoreError   (also an OSError)      a run folder cannot be read or written
"""


class AnisoscopeError(Exception):
    """The base of all errors that anisoscope raises on purpose."""


class InputError(AnisoscopeError, ValueError):
    """An array, a number or an option cannot be used."""


class TextError(AnisoscopeError, ValueError):
    """A text cannot be cut into windows."""


class ModelError(AnisoscopeError, ValueError):
    """A model cannot be watched."""


class StoreError(AnisoscopeError, OSError):
    """A run folder cannot be read or written."""
