"""In which directions does a language model learn, is that more than chance, and what else would explain it?"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# name -> the module that defines it. Loaded on first use (PEP 562), so that reading a run never loads torch.
_HOMES = {
    "Spectrum": "geometry.spectrum",
    "spectrum": "geometry.spectrum",
    "tangent_basis": "geometry.proxies",
    "semi_nmf": "geometry.seminmf",
    "Concepts": "geometry.seminmf",
    "intrinsic_dimension": "geometry.dimension",
    "Estimate": "geometry.dimension",
    "energy_share": "geometry.subspace",
    "anisotropy_share": "geometry.subspace",
    "Alignment": "protocol.alignment",
    "alignment": "protocol.alignment",
    "capture_curve": "protocol.alignment",
    "Look": "capture.look",
    "Windows": "capture.windows",
    "measure": "protocol.measure",
    "Scope": "loops.scope",
    "Run": "run",
    "open_run": "run",
    "open_runs": "run",
    "Verdict": "claims.verdict",
    "AnisoscopeError": "errors",
    "InputError": "errors",
    "ModelError": "errors",
    "StoreError": "errors",
    "TextError": "errors",
}

__all__ = [
    "Alignment",
    "AnisoscopeError",
    "Concepts",
    "Estimate",
    "InputError",
    "Look",
    "ModelError",
    "Run",
    "Scope",
    "Spectrum",
    "StoreError",
    "TextError",
    "Verdict",
    "Windows",
    "__version__",
    "alignment",
    "anisotropy_share",
    "capture_curve",
    "energy_share",
    "intrinsic_dimension",
    "measure",
    "open_run",
    "open_runs",
    "semi_nmf",
    "spectrum",
    "tangent_basis",
]

if TYPE_CHECKING:
    from .capture.look import Look
    from .capture.windows import Windows
    from .claims.verdict import Verdict
    from .errors import AnisoscopeError, InputError, ModelError, StoreError, TextError
    from .geometry.dimension import Estimate, intrinsic_dimension
    from .geometry.proxies import tangent_basis
    from .geometry.seminmf import Concepts, semi_nmf
    from .geometry.spectrum import Spectrum, spectrum
    from .geometry.subspace import anisotropy_share, energy_share
    from .loops.scope import Scope
    from .protocol.alignment import Alignment, alignment, capture_curve
    from .protocol.measure import measure
    from .run import Run, open_run, open_runs


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'anisoscope' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
