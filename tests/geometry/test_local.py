"""Bases that differ from token to token, and a user's dictionary: against loops in numpy, and planted answers."""

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from anisoscope.errors import InputError
from anisoscope.geometry.local import active_energy, local_bases, local_energy
from anisoscope.geometry.subspace import dictionary_basis, principal_angles
from reference import shares

RNG = np.random.default_rng


def on_a_sphere(seed: int, n: int = 600, d: int = 2, width: int = 12) -> np.ndarray:
    """Rows of a d-sphere in a turned subspace: its tangent space at x is what is orthogonal to x inside."""
    rng = RNG(seed)
    x = rng.normal(size=(n, d + 1))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)) @ shares.haar(rng, width, d + 1).T


def test_local_bases_are_the_tangent_spaces_of_a_sphere() -> None:
    rows = on_a_sphere(0)
    found = local_bases(rows, 2, num_anchors=20)
    assert found.bases.shape == (20, 12, 2)
    for basis, anchor in zip(found.bases, found.anchors, strict=True):
        assert float((basis.T @ anchor).norm()) < 0.15, "orthogonal to the normal, up to the curvature of 8 neighbours"
        torch.testing.assert_close(basis.T @ basis, torch.eye(2, dtype=basis.dtype), atol=1e-10, rtol=0)
        assert (np.abs(rows - anchor.numpy()).max(1) < 1e-12).any(), "an anchor is a row"


def test_local_bases_are_those_of_the_nearest_rows_one_by_one() -> None:
    rows = RNG(1).normal(size=(120, 9)) * np.geomspace(4, 0.5, 9)
    found = local_bases(rows, 3, num_anchors=7)
    for basis, anchor in zip(found.bases.numpy(), found.anchors.numpy(), strict=True):
        near = rows[np.argsort(np.linalg.norm(rows - anchor, axis=1))[:12]]
        slow = np.linalg.svd(near - near.mean(0))[2][:3].T
        assert np.linalg.norm(basis - slow @ (slow.T @ basis)) < 1e-9


def test_each_row_takes_the_basis_of_its_nearest_anchor() -> None:
    rng = RNG(2)
    h, g = rng.normal(size=(300, 8)), rng.normal(size=(300, 8))
    local = local_bases(h, 2, num_anchors=10)
    slow = []
    for row, gradient in zip(h, g, strict=True):
        anchor = np.argmin([np.linalg.norm(row - one) for one in local.anchors.numpy()])
        slow.append(np.sum((gradient @ local.bases[anchor].numpy()) ** 2))
    got = local_energy(torch.from_numpy(g), torch.from_numpy(h), local)
    np.testing.assert_allclose(got.numpy(), slow, rtol=1e-10)


def test_gradients_without_a_preference_have_the_chance_share_locally_too() -> None:
    rng = RNG(3)
    h, g = torch.from_numpy(on_a_sphere(4, 4000)), torch.from_numpy(rng.normal(size=(4000, 12)))
    share = float(local_energy(g, h, local_bases(h[:2000], 2)).sum() / g.square().sum())
    assert share == pytest.approx(2 / 12, abs=0.01)


@pytest.mark.parametrize(
    ("rows", "k", "message"),
    [
        (np.ones((3, 4)), 1, "h has 3 rows; wanted at least 4, 4 neighbours for each of k = 1"),
        (np.ones((40, 4)), 2, r"around 40 of 40 anchors the 8 nearest rows span fewer than k = 2 directions"),
        (np.ones((40, 4)), 4, "rank k = 4 leaves no normal directions in D = 4"),
    ],
)
def test_what_has_no_local_bases(rows: np.ndarray, k: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        local_bases(rows, k)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_local_bases_come_in_the_type_of_the_rows(dtype: torch.dtype) -> None:
    assert local_bases(torch.randn(80, 6).to(dtype), 2).bases.dtype == dtype


def test_the_heaviest_atoms_make_the_basis_of_a_dictionary() -> None:
    rng = RNG(5)
    atoms, codes = rng.normal(size=(30, 8)), np.abs(rng.normal(size=(50, 30)))
    codes[:, [4, 7, 20]] += 10
    wanted = np.linalg.qr(atoms[[4, 7, 20]].T)[0]
    found = dictionary_basis(atoms, codes, 3)
    assert float(principal_angles(found, wanted).max()) < 1e-7
    np.testing.assert_allclose(found.T @ found, np.eye(3), atol=1e-12)


def test_zero_and_duplicate_atoms_are_passed_over() -> None:
    atoms = np.array([[0, 0, 0, 0], [2, 0, 0, 0], [1, 0, 0, 0], [1, 1e-9, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]], float)
    codes = np.array([[9, 8, 7, 6, 5, 4]], float)
    assert dictionary_basis(atoms, codes, 2).abs().numpy() == pytest.approx(np.eye(4)[:, :2])
    with pytest.raises(InputError, match=r"rank k = 2, but the dictionary's atoms span 1 directions only"):
        dictionary_basis(atoms[:4], codes[:, :4], 2)
    with pytest.raises(InputError, match=r"codes has shape \(1, 6\), atoms are 4; wanted one column per atom"):
        dictionary_basis(atoms[:4], codes, 2)


def test_the_span_of_active_atoms_one_row_after_the_other() -> None:
    rng = RNG(6)
    atoms = rng.normal(size=(20, 7))
    atoms[3] = atoms[2]  # a duplicate adds no direction
    atoms[5] = 0
    codes = rng.normal(size=(60, 20)) * (rng.random((60, 20)) < 0.2)
    codes[0], codes[1, [2, 3]] = 0, 5
    g = rng.normal(size=(60, 7))
    energy, rank = active_energy(*(torch.from_numpy(x) for x in (g, atoms, codes)), most=4)
    for i in range(60):
        active = [at for at in np.argsort(-np.abs(codes[i]), kind="stable")[:4] if codes[i, at] != 0]
        span = atoms[active].T
        slow = np.linalg.lstsq(span, g[i], rcond=1e-8)[0] if active else np.zeros(0)
        assert float(energy[i]) == pytest.approx(np.sum((span @ slow) ** 2), abs=1e-9)
        assert int(rank[i]) == (np.linalg.matrix_rank(span, tol=1e-6) if active else 0)


@hypothesis.given(seed=st.integers(0, 1000), angle=st.floats(1e-12, np.pi / 2))
def test_planted_angles_are_found_also_tiny_ones(seed: int, angle: float) -> None:
    """To 1e-12: where arccos of a cosine would see nothing below 1e-8."""
    turn = shares.haar(RNG(seed), 6, 6)
    q, p = np.eye(6)[:, :2], np.eye(6)[:, :2].copy()
    p[:, 1] = [0, np.cos(angle), 0, np.sin(angle), 0, 0]
    found = principal_angles(turn @ q, turn @ p).numpy()
    np.testing.assert_allclose(np.sort(found), [0, angle], atol=1e-12 + 4e-16)


def test_angles_of_subspaces_of_unequal_rank() -> None:
    q = shares.haar(RNG(8), 10, 5)
    inside, outside = q[:, :2], shares.haar(RNG(9), 10, 2, outside=q)
    assert float(principal_angles(q, inside).max()) < 1e-12
    assert principal_angles(outside, q).tolist() == pytest.approx([np.pi / 2] * 2)
