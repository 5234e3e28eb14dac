"""How annotations are checked, in tests only: anisoscope itself never imports beartype."""

from collections.abc import Callable
from typing import Any, Self, get_args

import beartype
import jaxtyping

# The numeric tower lets an int pass for a float, as every type checker does.
BEARTYPE = beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))


def is_checkable(hint: object) -> bool:
    """Whether beartype can check it: not `Self` (it sees one method at a time), not a protocol without isinstance."""
    if isinstance(hint, type):
        try:
            isinstance(None, hint)
        except TypeError:
            return False
    return hint is not Self and all(map(is_checkable, get_args(hint)))


def check(function: Callable) -> Callable:
    """The decorator that jaxtyping puts on every function of a checked package."""
    hints = function.__annotations__
    function.__annotations__ = {name: hint if is_checkable(hint) else Any for name, hint in hints.items()}
    return BEARTYPE(function)


def check_package(name: str) -> jaxtyping._import_hook.ImportHookManager:
    """From now on, every function of the package is imported with its annotations checked."""
    return jaxtyping.install_import_hook(name, "house.shapes.check")
