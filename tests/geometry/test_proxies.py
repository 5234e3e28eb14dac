"""Every kind of proxy by name: orthonormal, in the input's type, and the one that its name says."""

import pytest
import torch

from anisoscope.errors import InputError
from anisoscope.geometry.proxies import KINDS, tangent_basis
from anisoscope.geometry.seminmf import semi_nmf
from anisoscope.geometry.subspace import principal_angles

ONE_BASIS = [kind for kind in KINDS if kind != "local"]


def cloud(seed: int = 0, n: int = 400, width: int = 10) -> torch.Tensor:
    rng = torch.Generator().manual_seed(seed)
    codes, concepts = torch.rand(n, 3, generator=rng) ** 2, torch.randn(3, width, generator=rng)
    return codes @ concepts + 0.05 * torch.randn(n, width, generator=rng)


@pytest.mark.parametrize("kind", ONE_BASIS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_proxy_is_orthonormal_and_of_the_type_of_the_rows(kind: str, dtype: torch.dtype) -> None:
    q = tangent_basis(cloud().to(dtype), 3, kind)
    assert (q.shape, q.dtype) == ((10, 3), dtype)
    tolerance = 5e-3 if dtype == torch.float16 else 1e-5
    torch.testing.assert_close(q.double().T @ q.double(), torch.eye(3).double(), atol=tolerance, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_rows_give_the_same_proxy(kind: str) -> None:
    one, other = (tangent_basis(cloud(1), 2, kind, seed=3) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_concepts_span_the_plane_of_planted_ones_and_random_concepts_the_variance() -> None:
    rows = cloud(2)
    spanned = tangent_basis(rows, 3, "semi-nmf")
    assert float(principal_angles(spanned, semi_nmf(rows, 3).basis()).max()) < 1e-4
    planted = torch.linalg.svd(rows.double()).Vh[:3].T
    for kind in ("semi-nmf", "random-concepts"):
        assert float(principal_angles(tangent_basis(rows, 3, kind), planted).max()) < 0.2, kind


@pytest.mark.usefixtures("shape_checks_off")
@pytest.mark.parametrize("kind", KINDS)
def test_ranks_that_cannot_be(kind: str) -> None:
    for k in (0, 10):
        with pytest.raises(InputError, match="rank k"):
            tangent_basis(cloud(3), k, kind)
