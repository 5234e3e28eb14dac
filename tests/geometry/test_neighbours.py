"""Neighbours: against all distances in float64, on rows that products alone would get wrong."""

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from anisoscope.errors import InputError
from anisoscope.geometry import neighbours
from anisoscope.geometry.neighbours import nearest_neighbours
from reference.dimension import all_distances

ROUNDING = 1e-12  # relative: float64 differences on both sides


def check(x: np.ndarray | torch.Tensor, k: int) -> None:
    """Distances are those of a full sort; indices are k different other rows at these distances."""
    found = nearest_neighbours(x, k)
    rows = x.double().numpy() if isinstance(x, torch.Tensor) else x.astype(np.float64)
    everything = all_distances(rows)
    wanted = np.sort(everything, axis=1)[:, :k]
    got, indices = found.distances.numpy(), found.indices.numpy()
    assert got.shape == indices.shape == (len(rows), k)
    assert found.distances.dtype == torch.float64
    np.testing.assert_allclose(got, wanted, rtol=ROUNDING, atol=0)
    np.testing.assert_allclose(np.take_along_axis(everything, indices, 1), got, rtol=ROUNDING, atol=0)
    assert all(len(set(row)) == k for row in indices.tolist())
    assert not (indices == np.arange(len(rows))[:, None]).any()


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many blocks of unequal sizes with few rows."""
    monkeypatch.setattr(neighbours, "_BLOCK_ROWS", 37)


def near_copies(rng: np.random.Generator, num_groups: int, size: int, apart: float = 1e-6) -> np.ndarray:
    """Groups of rows 1e-6 apart with lengths of 1e3, shuffled: 1e-9 of the lengths, under any product's rounding."""
    centres = rng.normal(size=(num_groups, 40))
    centres *= 1e3 / np.linalg.norm(centres, axis=1, keepdims=True)
    x = np.repeat(centres, size, axis=0)
    return rng.permutation(x + apart / np.sqrt(80) * rng.normal(size=x.shape))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "width", "k"), [(2, 1, 1), (5, 3, 4), (300, 20, 2), (1025, 7, 20), (2100, 3, 1)])
def test_neighbours_are_those_of_all_distances(n: int, width: int, k: int, dtype: type) -> None:
    check(np.random.default_rng(n).normal(size=(n, width)).astype(dtype), k)


@pytest.mark.parametrize("k", [1, 2, 17, 18, 36, 37, 150])
@pytest.mark.usefixtures("small_blocks")
def test_blocks_of_odd_sizes_hide_nothing(k: int) -> None:
    check(np.random.default_rng(k).normal(size=(211, 6)).astype(np.float32), k)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_read_as_it_is(dtype: torch.dtype) -> None:
    check(torch.randn(400, 12).to(dtype), 5)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("mean", [1e4, -1e6])
def test_a_mean_far_from_zero(mean: float, dtype: type) -> None:
    check((np.random.default_rng(0).normal(size=(500, 30)) + mean).astype(dtype), 3)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("size", [3, 60])
def test_near_copies_with_huge_lengths(size: int) -> None:
    """No product in float32 or float64 tells them apart; 60 to a group also fill more than a row may keep."""
    check(near_copies(np.random.default_rng(1), 600 // size, size), 5)


@pytest.mark.usefixtures("small_blocks")
def test_one_row_far_away_from_all_others() -> None:
    x = np.random.default_rng(2).normal(size=(400, 10)).astype(np.float32)
    x[17] *= 1e6
    check(x, 4)


@pytest.mark.usefixtures("small_blocks")
def test_copies_are_neighbours_at_distance_zero() -> None:
    rng = np.random.default_rng(3)
    check(rng.permutation(np.repeat(rng.normal(size=(20, 8)), 15, axis=0)).astype(np.float32), 20)
    found = nearest_neighbours(np.full((300, 4), 0.1, np.float32), 6)
    assert not found.distances.any()


@pytest.mark.usefixtures("small_blocks")
def test_ties_on_a_grid_and_between_unit_vectors() -> None:
    check(np.stack(np.meshgrid(*[np.arange(6.0)] * 3), -1).reshape(-1, 3), 6)
    check(np.eye(150), 3)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("scale", "dtype"), [(1e-30, np.float32), (1e30, np.float32), (1e-150, np.float64), (1e300, np.float64)]
)
def test_tiny_and_huge_rows(scale: float, dtype: type) -> None:
    x = (np.random.default_rng(4).normal(size=(200, 5)) * scale).astype(dtype)
    found = nearest_neighbours(x, 3)
    wanted = np.sort(all_distances(x.astype(np.float64) / scale), axis=1)[:, :3]
    np.testing.assert_allclose(found.distances.numpy() / scale, wanted, rtol=1e-12)


@pytest.mark.usefixtures("small_blocks")
def test_lengths_over_all_decades_of_single_precision() -> None:
    rng = np.random.default_rng(5)
    check((rng.normal(size=(300, 4)) * 10.0 ** rng.uniform(-18, 18, size=(300, 1))).astype(np.float32), 2)


@pytest.mark.usefixtures("small_blocks")
def test_products_below_the_smallest_number() -> None:
    x = np.random.default_rng(6).normal(size=(300, 6)).astype(np.float32) * np.float32(3e-22)
    x[:2] = np.float32([[1.0], [-1.0]])  # their mean is none, the scale is theirs
    check(x, 3)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("apart", [0.0, 1e-6])
def test_rows_that_products_cannot_tell_apart_never_fill_the_memory(
    apart: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 600 x 600 pairs no more are kept between blocks than a few a row, nor are copies measured again and again."""
    kept, measured, settle, measure = [], [], neighbours._Search._settle, neighbours._Search._measure

    def record(self: neighbours._Search) -> None:
        settle(self)
        kept.append(len(self.row))

    def count(self: neighbours._Search, which: torch.Tensor) -> None:
        measured.append(int(which.sum()))
        measure(self, which)

    monkeypatch.setattr(neighbours._Search, "_settle", record)
    monkeypatch.setattr(neighbours._Search, "_measure", count)
    check(near_copies(np.random.default_rng(7), 2, 300, apart), 2)
    assert max(kept) <= 600 * (4 * 2 + 64)
    if not apart:
        assert sum(measured) <= 10 * 600 * 2


def test_coarse_products_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller who allows bfloat16 products gets the same neighbours."""
    x = torch.randn(600, 64)
    before = nearest_neighbours(x, 4)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "medium")
    assert neighbours._Search(x, 4).dtype == torch.float64
    with torch.autocast("cpu", dtype=torch.bfloat16):
        after = nearest_neighbours(x, 4)
    assert torch.equal(before.indices, after.indices)
    assert torch.equal(before.distances, after.distances)


def test_the_bound_holds_for_every_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """Low and high ends of the products enclose the squared distances in float64, and lie close together."""
    seen = []

    def record(self: neighbours._Search, here: slice, there: slice, tile: torch.Tensor) -> None:
        y = self.rows.double() * self.scale
        length2 = (y - self.centre).square().sum(1)
        width = 2 * (self.slack[here, None] + self.slack[there])
        seen.append(((tile + self.weight[here, None]).double(), width, (y[here, None] - y[there]).square().sum(2)))
        assert float((width / (length2[here, None] + length2[there])).max()) < 2e-4  # 2 D roundings, D = 700
        scan(self, here, there, tile)

    scan = neighbours._Search._scan
    monkeypatch.setattr(neighbours._Search, "_scan", record)
    x = torch.randn(100, 700) * torch.logspace(0, 3, 100)[:, None]
    nearest_neighbours(x, 2)
    ((low, width, exact),) = seen
    assert bool((low <= exact).all())
    assert bool((exact <= low + width).all())


@hypothesis.given(seed=st.integers(0, 1000), n=st.integers(3, 40), width=st.integers(1, 6), k=st.integers(1, 2))
def test_order_rotation_scale_and_shift_are_no_matter(seed: int, n: int, width: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, width))
    order, turn = rng.permutation(n), np.linalg.qr(rng.normal(size=(width, width)))[0]
    moved = (8 * x @ turn + 1e4)[order]
    # The shift costs the rows 1e4 * 1.1e-16 each before they come to us.
    np.testing.assert_allclose(
        nearest_neighbours(moved, k).distances.numpy(),
        8 * nearest_neighbours(x, k).distances.numpy()[order],
        rtol=0,
        atol=1e-10,
    )


def test_the_same_rows_have_the_same_answer() -> None:
    """Bit for bit, ties included."""
    x = torch.randint(0, 3, (1500, 5)).float()
    one, two = nearest_neighbours(x, 7), nearest_neighbours(x.clone(), 7)
    assert torch.equal(one.indices, two.indices)
    assert torch.equal(one.distances, two.distances)


@pytest.mark.usefixtures("shape_checks_off")
@pytest.mark.parametrize("k", [0, -1, 5, 2.0, True, "3"])
def test_a_number_of_neighbours_that_cannot_be(k: object) -> None:
    with pytest.raises(InputError, match=r"k = .* neighbours among 5 rows; wanted a whole number from 1 to 4"):
        nearest_neighbours(np.ones((5, 2)), k)  # type: ignore[arg-type]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_cuda_finds_the_same() -> None:
    """To 1e-12: the order of a sum of squares in float64."""
    x = torch.randn(5000, 100)
    here, there = nearest_neighbours(x, 5), nearest_neighbours(x.cuda(), 5)
    assert torch.equal(here.indices, there.indices.cpu())
    torch.testing.assert_close(here.distances, there.distances.cpu(), rtol=1e-12, atol=0)
