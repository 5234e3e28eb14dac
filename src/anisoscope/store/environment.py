"""With which versions, on what kind of machine: what a reader needs to judge or to repeat a run."""

import importlib.metadata
import os
import platform
from typing import Any


def environment() -> dict[str, Any]:
    """Versions of what the numbers depend on; no name of a person or a machine."""
    versions = {}
    for package in ("anisoscope", "torch", "numpy", "scipy", "pyarrow", "transformers"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "num_cpus": os.cpu_count(),
        "versions": versions,
    }
