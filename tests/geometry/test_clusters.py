"""Cluster-local isotropy: against loops, against worlds with known clusters, and beside its Gaussian."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from anisoscope.errors import InputError
from anisoscope.geometry import clusters
from anisoscope.geometry.clusters import local_isotropy, silhouette
from anisoscope.geometry.inference import interval, resampling_counts
from anisoscope.geometry.spectrum import spectrum
from reference import clusters as reference


def planted(seed: int = 0, k: int = 4, n: int = 200, width: int = 8, apart: float = 8.0) -> tuple[np.ndarray, ...]:
    """Round clusters, far apart in random directions, all of them away from the origin; and the cluster of each row."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % k)
    return rng.normal(size=(k, width))[labels] * apart + rng.normal(size=(n, width)) + 5.0, labels


def same_parts(one: np.ndarray, other: np.ndarray) -> bool:
    return (
        len(set(zip(one.tolist(), other.tolist(), strict=True))) == len(set(one.tolist())) == len(set(other.tolist()))
    )


def labels_of(x: np.ndarray, seed: int = 0) -> tuple[np.ndarray, float]:
    found, best = clusters.clusters(torch.from_numpy(x).float(), np.random.default_rng(seed))
    return found.numpy(), best


@pytest.mark.parametrize("k", [2, 4, 10])
def test_planted_clusters_are_found_and_scored_as_defined(k: int) -> None:
    x, labels = planted(k, k, n=40 * k)
    seen = local_isotropy(x)
    assert same_parts(labels_of(x)[0], labels)
    assert (seen.num_clusters, seen.sizes) == (k, (40,) * k)
    # float32: squares that cancel where distances are small, and an IsoScore's scatter
    assert seen.silhouette == pytest.approx(reference.silhouette(x, labels), abs=1e-4)
    assert seen.scores == pytest.approx(reference.scores(x, labels), rel=1e-5, abs=1e-7)
    assert seen.scores["isoscore_inside"] > 0.8 > 0.6 > seen.scores["isoscore"]


def test_the_whole_is_scored_as_the_spectrum_scores_it() -> None:
    x, _ = planted()
    seen, whole = local_isotropy(x), spectrum(x)
    assert seen.scores["average_cosine"] == pytest.approx(whole.average_cosine, rel=1e-12)
    assert seen.scores["isoscore"] == pytest.approx(whole.isoscore, rel=1e-5)


def test_silhouettes_equal_loops() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 3))
    for labels in (rng.integers(4, size=60), np.arange(60) // 59, rng.integers(2, size=60) * 7):
        gaps = torch.cdist(torch.from_numpy(x), torch.from_numpy(x), compute_mode="donot_use_mm_for_euclid_dist")
        assert silhouette(gaps, torch.from_numpy(labels)) == pytest.approx(reference.silhouette(x, labels), abs=1e-12)


def test_of_many_rows_a_sample_chooses_and_all_are_clustered() -> None:
    """3,000 rows, of which 1,024 choose k; the clusters are those of all rows, and no row would rather be elsewhere."""
    x, labels = planted(2, k=5, n=3000, apart=3.0)
    found, best = labels_of(x)
    assert (
        same_parts(found, labels)
        or stats.contingency.association(np.histogram2d(found, labels, 5)[0].astype(int)) > 0.9
    )
    means = np.stack([x[found == c].mean(0) for c in range(5)])
    nearest = ((x[:, None] - means) ** 2).sum(2).argmin(1)
    assert (nearest == found).mean() > 0.999  # in float32, and the last step moved the means
    assert best == pytest.approx(reference.silhouette(x[:600], found[:600]), abs=0.03)


def test_the_cost_is_that_of_a_slow_search() -> None:
    """Clusters that overlap, at a given k: not above the best of ten plain runs by more than 2%."""
    x, _ = planted(3, k=6, n=150, width=4, apart=1.5)
    rows = torch.from_numpy(x).float()
    seeds = clusters._seeds(torch.cdist(rows, rows).double().square(), np.random.default_rng(0))
    for k in (2, 4, 6):
        _, _, cost = clusters._lloyd(rows, rows[seeds[:, :k]], 100)
        ours = float(cost.min()) + float((x**2).sum())
        assert ours <= 1.02 * reference.k_means(x, k, np.random.default_rng(4))[1]


def test_one_cloud_is_one_cluster() -> None:
    x = np.random.default_rng(5).normal(size=(400, 30)) + 2.0
    seen = local_isotropy(x)
    assert seen.sizes == (400,)
    assert seen.silhouette < 0.1
    assert seen.scores["isoscore_inside"] == pytest.approx(seen.scores["isoscore"], rel=1e-12)
    assert abs(seen.scores["average_cosine_inside"]) < 0.01 < 0.7 < seen.scores["average_cosine"]


def test_a_gaussian_lowers_its_cosine_as_well() -> None:
    """What the surrogate is for: the cosine inside is 0 with clusters and without; only the IsoScore inside tells."""
    x, _ = planted(6, k=6, n=1500, width=20)
    seen = local_isotropy(x)
    null = seen.surrogate
    assert null is not None
    assert null.surrogate is None
    drop, null_drop = (one.scores["average_cosine"] - one.scores["average_cosine_inside"] for one in (seen, null))
    assert null_drop > 0.9 * drop > 0.1
    assert seen.scores["isoscore_inside"] > 0.9 > 0.5 > null.scores["isoscore_inside"]
    assert null.scores["isoscore"] == pytest.approx(seen.scores["isoscore"], rel=0.1)
    cloud = np.random.default_rng(7).multivariate_normal(x.mean(0), np.cov(x.T), 1500)
    again = local_isotropy(cloud)
    assert again.surrogate is not None
    assert again.scores == pytest.approx(again.surrogate.scores, abs=0.03), "of a Gaussian it says the same"


def test_the_same_seed_gives_the_same_numbers() -> None:
    x, _ = planted(8, apart=1.0)
    one, same, other = local_isotropy(x), local_isotropy(x), local_isotropy(x, seed=1)
    assert one.surrogate is not None
    assert other.surrogate is not None
    assert (one.scores, one.sizes, one.silhouette) == (same.scores, same.sizes, same.silhouette)
    assert one.surrogate.scores == same.surrogate.scores != other.surrogate.scores  # type: ignore[union-attr]


@pytest.mark.parametrize(("scale", "shift"), [(1e-22, 0.0), (1e25, 0.0), (1.0, 1e5)])
def test_scale_and_a_far_mean_are_no_matter(scale: float, shift: float) -> None:
    x, labels = planted(9)
    moved = (x * scale + shift).astype(np.float32 if shift == 0 else np.float64)
    seen = local_isotropy(moved)
    assert seen.sizes == (50,) * 4
    wanted = reference.scores(moved.astype(np.float64) / scale, labels)
    assert seen.scores == pytest.approx(wanted, rel=1e-5, abs=1e-7)


# Intervals


def derivatives(x: np.ndarray, labels: np.ndarray, units: np.ndarray, step: float = 1e-5) -> dict[str, np.ndarray]:
    found: dict[str, list[float]] = {}
    for unit in range(units.max() + 1):
        bump = step * (units == unit)
        up, down = (reference.weighted_scores(x, labels, 1 + sign * bump) for sign in (1, -1))
        for name in up:
            found.setdefault(name, []).append((up[name] - down[name]) / (2 * step))
    return {name: np.array(values) for name, values in found.items()}


def test_influences_are_the_derivatives_by_a_sequences_weight() -> None:
    x, labels = planted(10, k=3, n=120, apart=4.0)
    units = np.repeat(np.arange(12), 10)
    seen = local_isotropy(x, torch.from_numpy(units), num_units=14)
    assert seen.num_clusters == 3
    wanted = derivatives(x, labels, units)
    assert seen.influences.keys() == wanted.keys()
    for name, influence in seen.influences.items():
        assert influence.shape == (14,)
        assert not influence[12:].any(), "sequences without rows"
        size = np.abs(wanted[name]).max()
        np.testing.assert_allclose(influence[:12].numpy(), wanted[name], atol=1e-4 * size)  # float32 scatter
    # Were the clusters' means held fixed too, the derivative would be another: this comparison can fail.
    within = torch.from_numpy(reference.inside(x, labels))
    weights = torch.ones(120, dtype=torch.float64, requires_grad=True)
    (slopes,) = torch.autograd.grad(clusters._average_cosine(within, weights), weights)
    fixed = np.bincount(units, slopes.numpy())
    assert np.abs(fixed - wanted["average_cosine_inside"]).max() > 0.5 * np.abs(wanted["average_cosine_inside"]).max()


def test_replicates_start_with_the_estimate_and_a_surrogate_stands_still() -> None:
    x, _ = planted(11)
    counts = resampling_counts(20)
    seen = local_isotropy(x, torch.arange(200) // 10, num_units=20)
    assert seen.surrogate is not None
    for name, replicates in seen.replicates(counts).items():
        assert replicates.shape == (201,)
        assert float(replicates[0]) == pytest.approx(seen.scores[name], abs=1e-12)
        assert float(replicates.std()) > 0
    for name, replicates in seen.surrogate.replicates(counts).items():
        assert (replicates == seen.surrogate.scores[name]).all()


def test_intervals_cover_the_mean_of_the_estimate() -> None:
    """Tokens of a sequence share a shift, and lean to one of two clusters: 80 samples of 60 sequences of 8 rows.

    What is covered is the estimator's mean at that N, taken over the same samples.
    """
    rng = np.random.default_rng(12)
    counts, units = resampling_counts(60), torch.arange(60).repeat_interleave(8)
    centres = np.array([[6.0, 0, 0, 3, 0, 0], [-6.0, 0, 0, 3, 0, 0]])
    names = ("average_cosine", "average_cosine_inside", "isoscore", "isoscore_inside")
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in names}
    for _ in range(80):
        leaning = rng.beta(2, 2, size=(60, 1)).repeat(8, 0)
        member = (rng.random((480, 1)) < leaning)[:, 0].astype(int)
        shift = rng.normal(size=(60, 6)).repeat(8, 0) * 0.5
        x = centres[member] + shift + rng.normal(size=(480, 6)) * np.array([2.0, 1.5, 1, 1, 1, 0.5])
        for name, replicates in local_isotropy(x, units, 60).replicates(counts).items():
            found[name].append((float(replicates[0]), *interval(replicates)))
    for name, rows in found.items():
        values, low, high = np.array(rows).T
        hits = int(((low < values.mean()) & (values.mean() < high)).sum())
        assert stats.binomtest(hits, 80, 0.94).pvalue > 1e-3, (name, hits)


# Wrong input


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.ones((19, 4)), r"h has shape \(19, 4\); wanted at least 20 rows"),
        (np.full((30, 4), 7.0), r"h has shape \(30, 4\), 30 rows that are not zero, total spread 0; .* constant"),
        (np.arange(30.0)[:, None], r"h has shape \(30, 1\).* clusters need two columns"),
        (np.eye(30)[:, :1] * np.ones((1, 3)), r"h has shape \(30, 3\), 1 rows that are not zero"),
        (np.tile(np.eye(3), (20, 1)) + 0.1, r"the 60 rows hold 3 different ones, each many times: nothing is left"),
    ],
    ids=["few rows", "constant", "one column", "one row that is not zero", "duplicates only"],
)
def test_what_cannot_be_clustered_is_told(x: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        local_isotropy(x)


@pytest.mark.parametrize("x", [np.random.default_rng(13).normal(size=(24, 300)), np.repeat(planted(14, n=60)[0], 3, 0)])
def test_few_rows_and_repeated_rows_have_numbers(x: np.ndarray) -> None:
    """Fewer rows than columns (a covariance without full rank), and every row three times."""
    seen = local_isotropy(x.astype(np.float32))
    assert seen.surrogate is not None
    assert all(map(math.isfinite, [*seen.scores.values(), *seen.surrogate.scores.values(), seen.silhouette]))


def test_repeated_rows_of_a_cluster_have_no_direction_inside() -> None:
    """One row 30 times: rounding leaves some 1e-17 of it, all in one direction, which must not count."""
    x, _ = planted(15, k=2, n=80, width=5)
    repeated = np.vstack([x, np.full((30, 5), 60.1)])
    labels, _ = labels_of(repeated - repeated.mean(0))
    assert set(labels[:80]).isdisjoint(labels[80:])
    left = torch.from_numpy(repeated / 7 - (repeated[80:] / 7).mean(0))[80:]
    assert left.any(), "this test needs a mean that is rounded"
    wanted = reference.cloud.average_cosine(reference.inside(x, labels[:80]))
    assert local_isotropy(repeated).scores["average_cosine_inside"] == pytest.approx(wanted, abs=1e-9)
