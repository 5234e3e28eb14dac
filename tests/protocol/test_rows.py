"""Rows of a look against the slow reference: every deterministic number in every view, at every rank."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from anisoscope.geometry.inference import draw_p, resampling_counts, stretched
from anisoscope.geometry.moments import Moments
from anisoscope.geometry.subspace import SecondMoment, even_draws
from anisoscope.protocol.observe import Observation, Protocol, primary_rank
from protocol.looks import WIDTH, a_look, arrays, stored
from reference import rows as slow
from reference import shares

RANKS = (2, 3, 8)
REMOVED = ("anisotropy_removed", "anisotropy_removed_padded")
PRIMARY = primary_rank(WIDTH)


def by_key(seen: Observation, layer: str = "blocks.0") -> dict[tuple[object, ...], dict[str, object]]:
    """{(proxy, rank, view, control, statistic): row} of one layer; every key once."""
    keys = ("proxy", "rank", "view", "control", "statistic")
    mine = [row for row in stored(seen) if row["layer"] == layer]
    found = {tuple(row[key] or "" for key in keys): row for row in mine}
    assert len(found) == len(mine), "a key stands for two rows"
    return found


def value(seen: Observation, *key: object) -> float:
    return float(by_key(seen)[key]["value"])


def test_the_primary_rank() -> None:
    assert [primary_rank(width) for width in (4, 16, 64, 128, 4096)] == [1, 2, 8, 16, 16]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("primary", ["all", "bearing", "plain"])
def test_every_row_equals_the_slow_one(primary: str, dtype: type) -> None:
    """`all`: a causal model; `bearing`: a masked one, or arrays with a mask; `plain`: arrays without one."""
    h, g, sequences, bearing = arrays(dtype=dtype)
    mask = None if primary == "plain" else bearing
    look = a_look(h, g, sequences, bearing=mask)
    if primary == "all":
        look = replace(look, objective="causal")
    primary = "all" if primary == "plain" else primary
    views = ["all", "clean"] if mask is None else ["all", "clean", "bearing", "other"]
    assert look.primary_view == primary
    seen = by_key(Protocol(RANKS).observe(look))

    tolerance = 1e-8 if dtype is np.float64 else 1e-4  # directions of single-precision rows turn by some 1e-6
    h, g = h.astype(np.float64), {label: rows.astype(np.float64) for label, rows in g.items()}
    for proxy in ("pca", "svd"):
        for rank in (PRIMARY, *RANKS):
            for view in views if rank == PRIMARY else (primary, "clean"):
                wanted = slow.rows(h, g, sequences, proxy, rank, view, mask, primary)
                for (control, statistic), number in wanted.items():
                    got = seen[proxy, rank, view, control, statistic]["value"]
                    assert got == pytest.approx(number, rel=tolerance, abs=tolerance), (proxy, rank, view, control)
    drawn = {"isotropic", "variance_matched", "variance_matched/random_normal"}
    shared = {key[3:] for key in seen if key[0] and key[1] in RANKS and key[2] == primary and key[3] not in drawn}
    untested = {("random_normal", name) for name in ("captured_variance", *REMOVED)}  # drawn, or below
    assert shared == {*wanted_keys(h, g, sequences), *untested}, "no row is left untested"
    assert {key[2] for key in seen} == set(views)


def wanted_keys(h: np.ndarray, g: dict[str, np.ndarray], sequences: np.ndarray) -> set[tuple[str, str]]:
    return set(slow.rows(h, g, sequences, "pca", 2, "all"))


def test_without_sequences_no_position_is_known() -> None:
    h, g, _, _ = arrays(1)
    h[::7] += 50 * h[::7]  # massive ones are still found
    seen = by_key(Protocol((2,)).observe(a_look(h, g)))
    for view in ("all", "clean"):
        for (control, statistic), number in slow.rows(h, g, None, "pca", 2, view).items():
            assert seen["pca", 2, view, control, statistic]["value"] == pytest.approx(number, rel=1e-8)
    assert seen["pca", 2, "clean", "", "energy_share"]["n"] < seen["pca", 2, "all", "", "energy_share"]["n"]


def test_gradients_without_a_proxy_and_the_number_of_rows() -> None:
    h, g, sequences, bearing = arrays(2)
    seen = by_key(Protocol((2,)).observe(a_look(h, g, sequences, bearing=bearing)))
    member = ~slow.halves(sequences) & bearing
    for statistic, number in slow.gradient_rows(g["true"], member).items():
        assert seen["", "", "bearing", "", statistic]["value"] == pytest.approx(number, rel=1e-9)
    loud = member & g["true"].any(1)
    assert 0 < loud.sum() < member.sum(), "some rows of the example have no gradient"
    assert seen["pca", 2, "bearing", "", "energy_share"]["n"] == loud.sum()
    assert seen["", "", "bearing", "", "anisotropy"]["n"] == member.sum()


def test_rows_without_gradient_are_left_out_never_averaged_in() -> None:
    """Zero rows put among the others move no share of gradients, and are counted."""
    h, g, sequences, _ = arrays(3)
    loud = g["true"].any(1)
    with_zeros = Protocol((2,)).observe(a_look(h, g, sequences))
    g_only = {label: rows[loud] for label, rows in g.items()}
    # The fit is the same in both: all rows of the fit half have a gradient in neither.
    assert not loud[~slow.halves(sequences)].all()
    kept = loud | slow.halves(sequences)
    g_kept = {label: rows[kept] for label, rows in g.items()}
    without = Protocol((2,)).observe(a_look(h[kept], g_kept, sequences[kept]))
    assert len(g_only["true"]) < len(h)
    for control in ("", "row_normalised", "common_gradient", "sampled_labels"):
        for statistic in ("energy_share", "anisotropy_share"):
            key = ("pca", 2, "all", control, statistic)
            assert value(with_zeros, *key) == pytest.approx(value(without, *key), rel=1e-9)
    assert value(with_zeros, "", "", "all", "", "zero_gradient_rows") > 0
    assert value(without, "", "", "all", "", "zero_gradient_rows") == 0


def test_drawn_controls_agree_with_explicit_draws() -> None:
    h, g, sequences, _ = arrays(4)
    h = h / np.linalg.norm(h, axis=1, keepdims=True) ** 0.5  # no row so massive that all coloured draws are alike
    seen = by_key(Protocol((2,)).observe(a_look(h, g, sequences)))
    fit = slow.halves(sequences)
    true = g["true"][~fit & g["true"].any(1)]
    s, tested = shares.second_moment(true), h[~fit]
    q = shares.principal(h[fit], centred=True)[:, :2]
    spread = np.cov(h[fit].T, bias=True)
    rng = np.random.default_rng(0)
    draws = {
        "isotropic": lambda: shares.haar(rng, WIDTH, 2),
        "variance_matched": lambda: shares.coloured(rng, spread, 2),
        "random_normal": lambda: shares.haar(rng, WIDTH, 2, outside=q),
    }
    for control, draw in draws.items():
        bases = [draw() for _ in range(600)]
        explicit = {
            "energy_share": np.array([np.trace(n.T @ s @ n) / np.trace(s) for n in bases]),
            "anisotropy_share": np.array([shares.anisotropy_share(s, n) for n in bases]),
            "captured_variance": np.array([shares.captured_variance(tested, n) for n in bases]),
        }
        for statistic, values in explicit.items():
            row = seen["pca", 2, "all", control, statistic]
            error = np.hypot(stats.sem(values), values.std() / 200**0.5)
            assert abs(row["value"] - values.mean()) < 4 * error, (control, statistic)
            if statistic == "captured_variance" and control != "variance_matched":
                continue  # an exact mean, nothing is drawn
            assert row["interval"] == "draws"
            # The interval is over draws: its ends are near those of the explicit ones.
            low, high = np.percentile(values, [2.5, 97.5])
            assert row["low"] == pytest.approx(low, abs=0.5 * (high - low))
            assert row["high"] == pytest.approx(high, abs=0.5 * (high - low))
        if control == "variance_matched":
            normal = [shares.normal_anisotropy(s, n) for n in bases]
            row = seen["pca", 2, "all", "variance_matched/random_normal", "anisotropy_share"]
            error = np.hypot(stats.sem(normal), np.std(normal) / 200**0.5)
            assert abs(row["value"] - np.mean(normal)) < 4 * error


def test_p_values_are_those_among_random_normal_draws() -> None:
    """In the tangent far above all draws, so at the minimum; for gradients at chance spread out."""
    h, _, sequences, _ = arrays(5)
    rng = np.random.default_rng(5)
    axes, tangent = shares.principal(h[slow.halves(sequences)], True), rng.normal(size=h.shape)
    tangent += 5 * rng.normal(size=(len(h), 2)) @ axes[:, :2].T
    least = 2 / 201
    seen = by_key(Protocol((2,)).observe(a_look(h, {"true": tangent}, sequences)))
    assert seen["pca", 2, "all", "", "energy_share"]["p"] == pytest.approx(least)
    ps = [
        by_key(Protocol((2,)).observe(a_look(h, {"true": rng.normal(size=h.shape)}, sequences)))[
            "pca", 2, "all", "", "energy_share"
        ]["p"]
        for _ in range(12)
    ]
    assert max(ps) > 0.3
    assert min(ps) >= least


def test_p_is_taken_among_even_draws_of_the_whole_space() -> None:
    """Directions outside the proxy hold the less the more it does: among them p is too small (10% alarms for 5%)."""
    h, _, sequences, _ = arrays(10)
    g = np.random.default_rng(10).normal(size=h.shape)  # no preference: a p that says something
    seen = by_key(Protocol((2,)).observe(a_look(h, {"true": g}, sequences)))
    second = SecondMoment.of(Moments.of(torch.from_numpy(g[~slow.halves(sequences)])))
    for rank in (PRIMARY, 2):
        row, draws = seen["pca", rank, "all", "", "energy_share"], even_draws(second, rank, 200)
        assert row["p"] == pytest.approx(draw_p(row["value"], draws.energy)), rank
        q = torch.from_numpy(shares.principal(h[slow.halves(sequences)], True)[:, :rank])
        outside = even_draws(second, rank, 200, outside=q)
        assert row["p"] != draw_p(row["value"], outside.energy), "the two can be told apart here"


def test_replicates_and_intervals_are_those_of_the_sequences_drawn_again() -> None:
    h, g, sequences, _ = arrays(6)
    seen = Protocol((2,), seed=3).observe(a_look(h, g, sequences))
    fit = slow.halves(sequences)
    q = shares.principal(h[fit], True)[:, :2]
    units = sequences[~fit] - sequences[~fit].min()
    weights = stretched(resampling_counts(int(units.max()) + 1, seed=3)).numpy()[:, units]
    true, tested = g["true"][~fit], h[~fit]

    def share(rows: np.ndarray, w: np.ndarray) -> float:
        return (w @ np.sum((rows @ q) ** 2, 1)) / (w @ np.sum(rows**2, 1))

    wanted = {
        "energy_share": [share(true, w) for w in weights],
        "captured_variance": [share(tested - w @ tested / w.sum(), w) for w in weights],
    }
    for statistic, values in wanted.items():
        where = {"proxy": "pca", "rank": 2, "view": "all", "statistic": statistic}
        (kept,) = [
            row["replicates"] for row in seen.replicates if not row.get("control") and where.items() <= row.items()
        ]
        np.testing.assert_allclose(kept, values[1:], rtol=1e-6)
        row = by_key(seen)["pca", 2, "all", "", statistic]
        assert (row["low"], row["high"]) == pytest.approx(tuple(np.percentile(values[1:], [2.5, 97.5])), rel=1e-9)
        assert row["interval"] == "sequences"


def test_replicates_of_the_shape_are_first_order() -> None:
    """Anisotropy of the test half: against finite differences in each sequence's weight."""
    h, g, sequences, _ = arrays(7)
    h /= np.linalg.norm(h, axis=1, keepdims=True) ** 0.5
    seen = by_key(Protocol((2,)).observe(a_look(h, g, sequences)))
    tested, units = h[~slow.halves(sequences)], sequences[~slow.halves(sequences)]
    units = units - units.min()
    num_units = int(units.max()) + 1
    length = np.linalg.norm(tested, axis=1, keepdims=True)

    def anisotropy(w: np.ndarray) -> float:
        centred = tested - w @ tested / w.sum()
        values = np.linalg.eigvalsh((centred.T * w) @ centred)
        return values[-1] / values.sum()

    def uncentred(w: np.ndarray) -> float:
        values = np.linalg.eigvalsh((tested.T * w) @ tested)
        return values[-1] / values.sum()

    def cosine(w: np.ndarray) -> float:
        total, n = w @ (tested / length), w.sum()
        return (total @ total - n) / (n * (n - 1))

    def mean_share(w: np.ndarray) -> float:
        w = w * g["true"][~slow.halves(sequences)].any(1)
        true = g["true"][~slow.halves(sequences)]
        return np.sum((w @ true) ** 2) / (w.sum() * (w @ np.sum(true**2, axis=1)))

    counts = stretched(resampling_counts(num_units)).numpy()
    for statistic, of in (
        ("anisotropy", anisotropy),
        ("anisotropy_uncentred", uncentred),
        ("average_cosine", cosine),
        ("mean_gradient_share", mean_share),
    ):
        slopes = [(of(1 + 1e-6 * (units == u)) - of(1 - 1e-6 * (units == u))) / 2e-6 for u in range(num_units)]
        replicates = of(np.ones(len(units))) + (counts[1:] - 1) @ slopes
        row = seen["", "", "all", "", statistic]
        assert row["value"] == pytest.approx(of(np.ones(len(units))), rel=1e-9)
        assert (row["low"], row["high"]) == pytest.approx(tuple(np.percentile(replicates, [2.5, 97.5])), abs=1e-6)


def test_the_capture_curve_is_the_leading_directions_one_by_one() -> None:
    h, g, sequences, _ = arrays(8)
    seen = by_key(Protocol((2, 3)).observe(a_look(h, g, sequences)))
    fit = slow.halves(sequences)
    true, tested = g["true"][~fit & g["true"].any(1)], h[~fit]
    axes, best = shares.principal(h[fit], True), shares.principal(true, False)
    ranks = sorted(key[1] for key in seen if key[0] == "pca" and key[2:] == ("all", "", "energy_share"))
    assert ranks == list(range(1, WIDTH + 1))
    for rank in ranks:
        wanted = (shares.energy_share(true, axes[:, :rank]), shares.captured_variance(tested, axes[:, :rank]))
        got = [seen["pca", rank, "all", "", name]["value"] for name in ("energy_share", "captured_variance")]
        assert got == pytest.approx(wanted, rel=1e-9)
        assert seen["pca", rank, "all", "oracle", "energy_share"]["value"] == pytest.approx(
            shares.energy_share(true, best[:, :rank]), rel=1e-9
        )
        assert seen["pca", rank, "all", "oracle", "captured_variance"]["value"] == pytest.approx(
            shares.captured_variance(tested, best[:, :rank]), rel=1e-9
        )
    assert seen["pca", WIDTH, "all", "", "energy_share"]["value"] == pytest.approx(1)


def test_loss_is_the_mean_over_test_positions_that_enter_it() -> None:
    h, g, sequences, bearing = arrays(9)
    targets = np.where(bearing, 7, -100)
    losses = torch.from_numpy(np.random.default_rng(0).random(len(h)))
    look = a_look(h, g, sequences, targets=targets)
    source = look.scan_source

    def scan(half: str, labels: tuple[str, ...]) -> object:
        for chunk in source(half, labels):
            yield chunk._replace(loss=losses[chunk.rows])

    seen = stored(Protocol((2,)).observe(replace(look, scan_source=scan, facts={"vocabulary": 50})))
    (row,) = [row for row in seen if row["statistic"] == "loss"]
    inside = ~slow.halves(sequences) & bearing
    assert row["value"] == pytest.approx(float(losses.numpy()[inside].mean()), rel=1e-6)
    assert row["n"] == inside.sum()
    assert row["low"] < row["value"] < row["high"]
    assert row["chance"] == pytest.approx(np.log(50)), "of a uniform guess"
    assert row["layer"] == ""
