"""Tangent proxies by name: the directions that each kind fits on activations alone."""

from typing import Literal, overload

import torch
from torch import Tensor

from ..errors import InputError
from .local import LocalBases, local_bases
from .moments import Moments, rows_of
from .seminmf import random_concepts, semi_nmf
from .subspace import METHODS, Method, check_rank, numerical_rank, principal_directions

Kind = Literal["pca", "svd", "semi-nmf", "random-concepts"]
KINDS = ("semi-nmf", "pca", "svd", "local", "random-concepts")


@overload
def tangent_basis(h: object, k: int, method: Kind = ..., *, seed: int = ...) -> Tensor: ...
@overload
def tangent_basis(h: object, k: int, method: Literal["local"], *, seed: int = ...) -> LocalBases: ...


def tangent_basis(h: object, k: int, method: str = "pca", *, seed: int = 0) -> Tensor | LocalBases:
    """k directions fitted on activations `h` (N, D), as an orthonormal (D, k) basis in the input's dtype.

    `pca`: leading directions of the centred rows; `svd`: about the origin; `semi-nmf`: the span of k concepts
    (`an.semi_nmf`); `random-concepts`: of k concepts of a Gaussian with the same mean and covariance; `local`: one
    basis per anchor, (anchors, D, k), with its anchors.

    >>> import torch
    >>> q = tangent_basis(torch.randn(200, 6), k=2)
    >>> q.shape, bool(torch.allclose(q.T @ q, torch.eye(2), atol=1e-5))
    (torch.Size([6, 2]), True)
    >>> tangent_basis(torch.randn(200, 6), k=2, method="local").bases.shape
    torch.Size([64, 6, 2])
    """
    if method not in KINDS:
        raise InputError(f"unknown method {method!r}; wanted one of {', '.join(KINDS)}")
    if method == "local":
        return local_bases(h, k, seed=seed)
    if method == "semi-nmf":
        return semi_nmf(h, k, seed=seed).basis()
    rows = rows_of(h, least=2)
    check_rank(k, rows.shape[1])
    moments = Moments.of(rows)
    dtype = h.dtype if isinstance(h, Tensor) else rows.dtype
    if method == "random-concepts":
        return random_concepts(moments, k, rows.shape[0], seed).basis().to(dtype)
    return _principal(moments, k, METHODS[METHODS.index(method)]).to(dtype)  # type: ignore[arg-type]


def _principal(moments: Moments, k: int, method: Method) -> Tensor:
    values, basis = principal_directions(moments, method)
    floor = 1e-14 * float(moments.mean.square().sum())
    values = values.where(values > floor, torch.zeros_like(values))
    check_rank(k, moments.width, numerical_rank(values, moments.count, method == "pca"))
    return basis[:, :k]
