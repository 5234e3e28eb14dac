"""A run on disk: one folder, long tables, readable while it is written, never a pickle."""

from .reader import Reader
from .schema import KEYS, METRICS, REPLICATES, SCHEMA_VERSION
from .writer import Writer

__all__ = ["KEYS", "METRICS", "REPLICATES", "SCHEMA_VERSION", "Reader", "Writer"]
