"""The page: reads the store and the claims only, and never loads torch."""

from .page import write_page
from .rows import RunRows

__all__ = ["RunRows", "write_page"]
