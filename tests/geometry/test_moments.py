"""Moments: against sums over all pairs and rows, at any scale, split and precision."""

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from anisoscope.errors import InputError
from anisoscope.geometry.moments import Moments, rows_of
from reference import cloud

TOLERANCE = 1e-12  # float32 input too: it is summed in float64, rounding 1e-16 an operation over hundreds of rows


def plain(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and centred covariance in float64."""
    x = np.asarray(x, np.float64)
    return x.mean(0), np.cov(x.T, bias=True).reshape(x.shape[1], x.shape[1])


def assert_close(got: torch.Tensor, wanted: np.ndarray, tolerance: float = TOLERANCE) -> None:
    scale = np.abs(wanted).max()
    np.testing.assert_allclose(got.numpy() / scale, wanted / scale, rtol=0, atol=tolerance)


def cloud_of(rng: np.random.Generator, n: int = 500, width: int = 12) -> np.ndarray:
    return rng.normal(size=(n, width)) * np.linspace(3, 0.2, width) + rng.normal(size=width)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_moments_equal_the_plain_ones(dtype: torch.dtype) -> None:
    x = torch.from_numpy(cloud_of(np.random.default_rng(0))).to(dtype)
    moments = Moments.of(x)
    mean, covariance = plain(x.numpy())
    assert moments.count == 500
    assert_close(moments.mean, mean)
    assert_close(moments.covariance, covariance)
    assert_close(moments.second_moment, covariance + np.outer(mean, mean))
    assert moments.average_cosine == pytest.approx(cloud.average_cosine(x.numpy()), abs=TOLERANCE)


@pytest.mark.parametrize("scale", [1e-22, 1e-10, 1.0, 1e18, 1e25])
def test_scale_costs_no_digits_in_float32(scale: float) -> None:
    x = torch.from_numpy(cloud_of(np.random.default_rng(1)) * scale).float()
    mean, covariance = plain(x.numpy())
    moments = Moments.of(x)
    assert_close(moments.mean, mean)
    assert_close(moments.covariance, covariance)


def test_a_mean_of_ten_thousand_spreads_costs_no_digits_beyond_the_input() -> None:
    rng = np.random.default_rng(2)
    x = torch.from_numpy(rng.normal(size=(20_000, 8)) + 1e4 * rng.normal(size=8)).float()
    mean, covariance = plain(x.numpy())  # of the rounded input: what float32 lost before us is not our error
    moments = Moments.of(x)
    np.testing.assert_allclose(moments.mean.numpy(), mean, rtol=1e-12)
    assert_close(moments.covariance, covariance)


@hypothesis.given(data=st.data())
def test_any_split_merges_to_the_whole(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 40))
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=5)))
    offset = data.draw(st.sampled_from([0.0, 1.0, 1e4]))
    x = torch.from_numpy(np.random.default_rng(n).normal(size=(n, 3)) + offset)
    order = torch.from_numpy(np.random.default_rng(n + 1).permutation(n))
    merged = Moments.empty(3)
    for part in np.split(order.numpy(), cuts):
        merged = merged + Moments.of(x[part])
    whole = Moments.of(x)
    assert merged.count == whole.count == n
    assert merged.num_nonzero == whole.num_nonzero
    # Rounding of float64 entries of size `offset`, over at most 40 rows.
    torch.testing.assert_close(merged.mean, whole.mean, rtol=1e-13, atol=1e-14)
    torch.testing.assert_close(merged.scatter, whole.scatter, rtol=1e-9, atol=1e-14 * (1 + offset) ** 2)
    torch.testing.assert_close(merged.unit_sum, whole.unit_sum, rtol=1e-12, atol=1e-13)


def test_more_rows_than_a_chunk() -> None:
    x = torch.from_numpy(np.random.default_rng(3).normal(size=(20_001, 3)) + 2).float()
    mean, covariance = plain(x.numpy())
    moments = Moments.of(x)
    assert moments.count == 20_001
    np.testing.assert_allclose(moments.mean.numpy(), mean, rtol=1e-12)
    assert_close(moments.covariance, covariance)


def test_one_row_has_a_mean_and_no_spread() -> None:
    moments = Moments.of(torch.tensor([[3.0, 4.0]]))
    assert moments.mean.tolist() == [3.0, 4.0]
    assert not moments.scatter.any()
    assert np.isnan(moments.average_cosine)


def test_rows_of_zeros_count_but_have_no_cosine() -> None:
    x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
    moments = Moments.of(x)
    assert (moments.count, moments.num_nonzero) == (4, 3)
    assert moments.average_cosine == pytest.approx(cloud.average_cosine(x.numpy()), abs=TOLERANCE)
    assert not Moments.of(torch.zeros(5, 2)).scatter.any()


def test_half_precision_that_overflows_when_squared_does_not() -> None:
    x = np.random.default_rng(4).normal(size=(50, 4)).astype(np.float16) * np.float16(9000)
    with np.errstate(over="ignore"):
        assert np.isinf(x * x).any(), "the example must overflow in float16"
    rows = rows_of(x)
    assert rows.dtype == torch.float32
    assert_close(Moments.of(rows).covariance, plain(x)[1])


def test_bfloat16_becomes_float32_and_float64_stays() -> None:
    x = torch.randn(6, 4)
    assert rows_of(x.bfloat16()).dtype == torch.float32
    assert torch.equal(rows_of(x.bfloat16()), x.bfloat16().float())
    assert rows_of(x.double()).dtype == torch.float64
    assert rows_of(x.double().numpy()).dtype == torch.float64


def test_views_strides_and_gradients_are_no_matter() -> None:
    x = torch.randn(8, 30, requires_grad=True)
    turned = x.T
    assert not turned.is_contiguous()
    rows = rows_of(turned)
    assert not rows.requires_grad
    assert_close(Moments.of(rows).scatter, Moments.of(turned.detach().contiguous()).scatter.numpy())
    backwards = np.asfortranarray(turned.detach().numpy())
    assert torch.equal(rows_of(backwards), turned.detach())
    assert x.grad is None


MEND = "rows are not finite): drop those rows, or mend the model that made them"


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.array([[1.0, np.nan], [1.0, np.inf]]), f"h holds NaN in row 0 (2 of 2 {MEND}"),
        (np.array([[1.0, 2.0], [1.0, np.inf]]), f"h holds Inf in row 1 (1 of 2 {MEND}"),
        (np.zeros(3), "h has shape (3,); wanted (N, D), one row per token: reshape it first"),
        (np.zeros((2, 3, 4)), "h has shape (2, 3, 4); wanted (N, D), one row per token: reshape it first"),
        (np.zeros((0, 3)), "h has shape (0, 3); wanted at least 1 row and one column: give more"),
        (np.zeros((3, 0)), "h has shape (3, 0); wanted at least 1 row and one column: give more"),
        (np.ones((2, 2), int), "h holds int64, wanted floating-point rows: convert it with .float()"),
    ],
)  # fmt: skip
def test_what_is_no_cloud_is_refused(x: np.ndarray, message: str) -> None:
    with pytest.raises(InputError) as caught:
        rows_of(x)
    assert str(caught.value).startswith(message)
