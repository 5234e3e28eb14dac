"""Sums by sequence: replicates against the rows repeated, influences against finite differences of the slow share."""

from functools import partial

import numpy as np
import pytest
import torch

from anisoscope.geometry.inference import resampling_counts
from anisoscope.geometry.moments import Moments
from anisoscope.geometry.projections import Projections, sum_by_unit
from anisoscope.geometry.subspace import SecondMoment, anisotropy_inside, anisotropy_removed, normal_anisotropy
from reference import shares

WIDTH, UNITS = 8, 9
LENGTHS = np.array([3, 7, 1, 12, 5, 5, 20, 2, 6])  # sequences of unequal length
UNIT = np.repeat(np.arange(UNITS), LENGTHS)
COUNTS = resampling_counts(UNITS, 40)
BLOCKS = {"first": slice(0, 3), "second": slice(3, 5), "overlap": slice(5, 7)}


# (score of the parts at a rank, the slow one of a second moment and a basis)
SCORES = [
    (lambda k, parts, width=WIDTH: anisotropy_inside(parts), shares.anisotropy_share),
    (lambda k, parts, width=WIDTH: normal_anisotropy(parts, k, width), shares.normal_anisotropy),
    (lambda k, parts: anisotropy_removed(parts, k, WIDTH), shares.anisotropy_removed),
    (
        lambda k, parts: anisotropy_removed(parts, k, WIDTH, padded=True),
        partial(shares.anisotropy_removed, padded=True),
    ),
]


def rank(name: str) -> int:
    return BLOCKS[name].stop - BLOCKS[name].start


def rows(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    mine = rng.normal(size=(UNITS, WIDTH))[UNIT]  # tokens of one sequence have something in common
    return (rng.normal(size=(len(UNIT), WIDTH)) + mine) * np.geomspace(2, 0.5, WIDTH) + 0.3


def directions() -> np.ndarray:
    rng = np.random.default_rng(1)
    whole = shares.haar(rng, WIDTH, 5)
    return np.hstack([whole, shares.haar(rng, WIDTH, 2)])


def sums(g: np.ndarray, centre: bool = False, pieces: int = 1) -> Projections:
    moments = Moments.of(torch.from_numpy(g))
    second = SecondMoment(moments.covariance if centre else moments.second_moment)
    mean = moments.mean if centre else None
    found = Projections(torch.from_numpy(directions()), UNITS, second, BLOCKS, centre=mean)
    for part, units in zip(np.array_split(g, pieces), np.array_split(UNIT, pieces), strict=True):
        found.add(torch.from_numpy(part), torch.from_numpy(units))
    return found


def test_sums_by_unit_also_where_a_unit_has_no_rows() -> None:
    units = torch.tensor([0, 0, 2, 2, 2])
    got = sum_by_unit(torch.arange(10.0).view(5, 2), units, 4)
    assert got.tolist() == [[2, 4], [0, 0], [18, 21], [0, 0]]
    assert got.dtype == torch.float64


def test_energies_equal_those_of_the_rows_repeated() -> None:
    g, q = rows(2), directions()
    energies = sums(g).energies(COUNTS).numpy()
    for b, counts in enumerate(COUNTS.numpy()):
        again = shares.resampled(g, UNIT, counts)
        wanted = [shares.energy_share(again, q[:, [j]]) for j in range(q.shape[1])]
        np.testing.assert_allclose(energies[b], wanted, atol=1e-9)


def test_centred_energies_equal_those_of_the_rows_repeated_and_centred_again() -> None:
    h, q = rows(3), directions()
    for found in (sums(h), sums(h, centre=True)):  # a centre taken out beforehand changes nothing
        energies = found.energies(COUNTS, centred=True).numpy()
        for b, counts in enumerate(COUNTS.numpy()):
            again = shares.resampled(h, UNIT, counts)
            wanted = [shares.captured_variance(again, q[:, [j]]) for j in range(q.shape[1])]
            np.testing.assert_allclose(energies[b], wanted, atol=1e-9)


def slopes(g: np.ndarray, share: object, step: float = 1e-6) -> np.ndarray:
    """Derivative of a share by the weight of each sequence, by central differences."""
    found = []
    for unit in range(UNITS):
        up, down = (share(g, 1 + sign * step * (unit == UNIT)) for sign in (1, -1))
        found.append((up - down) / (2 * step))
    return np.array(found)


def weighted(g: np.ndarray, weights: np.ndarray, centre: bool) -> np.ndarray:
    mean = weights @ g / weights.sum() if centre else 0.0
    return shares.second_moment(g - mean, weights)


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("name", BLOCKS)
def test_anisotropy_replicates_are_the_first_order_ones(name: str, centre: bool) -> None:
    g, q = rows(4), directions()[:, BLOCKS[name]]
    for score, slow in SCORES:
        got = sums(g, centre).anisotropy(name, partial(score, q.shape[1]), COUNTS).numpy()

        def of(g: np.ndarray, weights: np.ndarray, slow: object = slow) -> float:
            return slow(weighted(g, weights, centre), q)

        value, slope = of(g, np.ones(len(g))), slopes(g, of)
        assert got[0] == pytest.approx(value, rel=1e-9)
        # Central differences with step 1e-6: rounding 1e-16 / 1e-6, times the counts.
        np.testing.assert_allclose(got, value + (COUNTS.numpy() - 1) @ slope, atol=1e-8)
        # 40 rows of counts have full rank in 9 units: equal replicates mean equal influences.
        assert slope.sum() == pytest.approx(0, abs=1e-8), "a share knows no scale"


def test_influences_of_a_share_sum_to_zero() -> None:
    found = sums(rows(5))
    twice = torch.full((1, UNITS), 2.0, dtype=torch.float64)
    for name in BLOCKS:
        for score, _ in SCORES:
            one = found.anisotropy(name, partial(score, rank(name)), torch.cat([twice / 2, twice]))
            assert float(one[1]) == pytest.approx(float(one[0]), abs=1e-12)


def test_rows_added_in_pieces() -> None:
    g = rows(6)
    whole, pieces = sums(g), sums(g, pieces=10)
    torch.testing.assert_close(pieces.energies(COUNTS), whole.energies(COUNTS), rtol=1e-12, atol=0)
    for name in BLOCKS:
        for score, _ in SCORES:
            one, other = (each.anisotropy(name, partial(score, rank(name)), COUNTS) for each in (pieces, whole))
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-22, 1.0, 1e25])
def test_single_precision_at_any_scale(scale: float) -> None:
    g = (rows(7) * scale).astype(np.float32)
    single, double = sums(g), sums(rows(7))
    torch.testing.assert_close(single.energies(COUNTS), double.energies(COUNTS), rtol=1e-5, atol=1e-7)
    for name in BLOCKS:
        for score, _ in SCORES:
            one, other = (each.anisotropy(name, partial(score, rank(name)), COUNTS) for each in (single, double))
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_one_direction_among_two_has_no_normal_anisotropy() -> None:
    """D - k = 1: no second direction to be anisotropic in; the share itself is there all the same."""
    g = torch.from_numpy(rows(8)[:, :2])
    found = Projections(torch.eye(2).double()[:, :1], UNITS, SecondMoment.of(Moments.of(g)), {"q": slice(0, 1)})
    found.add(g, torch.from_numpy(UNIT))
    share, normal = (found.anisotropy("q", partial(score, 1, width=2), COUNTS) for score, _ in SCORES[:2])
    assert torch.isfinite(share).all()
    assert torch.isnan(normal).all()


def test_captured_variance_survives_a_mean_far_above_the_spread() -> None:
    """Centred at the mean before squares are summed: else two huge sums cancel in float32."""
    rows = (torch.randn(400, 6) * torch.arange(1, 7) + 1e4).float()
    units = torch.arange(400) // 20
    sums = Projections(torch.eye(6, dtype=torch.float64), 20, centre=rows.double().mean(0))
    sums.add(rows, units)
    wanted = rows.double().var(0, correction=0)
    seen = sums.energies(resampling_counts(20), centred=True)[0]
    assert torch.allclose(seen, wanted / wanted.sum(), rtol=1e-3)
    assert float(seen.sum()) == pytest.approx(1, abs=1e-4)
