"""Rows that come from a sample of rows: dimension and clusters of the test half, beside a Gaussian."""

import numpy as np
import pytest
import torch

from anisoscope.geometry.clusters import local_isotropy
from anisoscope.geometry.dimension import METHODS, estimates
from anisoscope.protocol import observe
from anisoscope.protocol.observe import Protocol
from anisoscope.protocol.sample import spread_out
from protocol.looks import a_look, arrays, rescanned
from protocol.test_rows import by_key
from reference import rows as slow

TWONN = ("", "", "all", "", "intrinsic_dimension_twonn")


def plain(seed: int = 0, num_sequences: int = 60) -> tuple[np.ndarray, dict, np.ndarray]:
    h, g, sequences, _ = arrays(seed, num_sequences)
    return h, {"true": g["true"]}, sequences


def test_rows_of_the_test_half_are_what_is_estimated_on() -> None:
    h, g, sequences = plain()
    seen = by_key(Protocol((2,)).observe(a_look(h, g, sequences)))
    tested = h[~slow.halves(sequences)]
    for method, one in estimates(tested, METHODS).items():
        row = seen["", "", "all", "", f"intrinsic_dimension_{method.replace('-', '_')}"]
        assert row["value"] == pytest.approx(one.value, rel=1e-9)
        assert row["n"] == one.num_points
        assert row["low"] < row["value"] < row["high"]
        beside = seen["", "", "all", "gaussian", row["statistic"]]["value"]
        assert beside == pytest.approx(one.value, rel=0.5), "of a Gaussian with the same covariance"
    codes = np.unique(sequences[~slow.halves(sequences)], return_inverse=True)[1]
    found = local_isotropy(tested, torch.from_numpy(codes), int(codes.max()) + 1)
    assert seen["", "", "all", "", "num_clusters"]["value"] == found.num_clusters
    for name in ("average_cosine_inside", "isoscore_inside"):
        assert seen["", "", "all", "", name]["value"] == pytest.approx(found.scores[name])
        assert seen["", "", "all", "gaussian", name]["value"] == pytest.approx(found.surrogate.scores[name])


def test_a_curved_surface_has_a_dimension_that_its_gaussian_has_not() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3000, 3))
    h = np.zeros((3000, 16))
    h[:, :3] = x / np.linalg.norm(x, axis=1, keepdims=True)
    h += 1e-4 * rng.normal(size=h.shape)
    seen = by_key(Protocol((2,)).observe(a_look(h, {"true": rng.normal(size=h.shape)}, np.arange(3000) // 10)))
    row, flat = seen[TWONN], seen[*TWONN[:3], "gaussian", TWONN[4]]
    assert row["value"] == pytest.approx(2, abs=0.2)
    assert flat["value"] > row["high"] + 0.5


def test_between_full_looks_one_estimate_is_written() -> None:
    h, g, sequences = plain(2)
    protocol = Protocol((2,))
    full, core = (by_key(protocol.observe(a_look(h, g, sequences))) for _ in range(2))
    assert core[TWONN]["value"] == full[TWONN]["value"]
    assert (*TWONN[:3], "gaussian", TWONN[4]) in core, "no number without its null"
    only = {key[4] for key in full if key[4].startswith("intrinsic") or "inside" in key[4]} - {TWONN[4]}
    assert len(only) == 6
    assert not only & {key[4] for key in core}


@pytest.mark.parametrize("pieces", [False, True])
def test_large_looks_are_sampled_evenly(pieces: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    h, g, sequences = plain(3)
    monkeypatch.setattr(observe, "spread_out", lambda member: spread_out(member, 90))
    tested = np.flatnonzero(~slow.halves(sequences))
    chosen = tested[np.linspace(0, len(tested) - 1, 90).round().astype(int)]
    seen = by_key(Protocol((2,)).observe(rescanned(a_look(h, g, sequences), pieces=pieces)))
    assert seen[TWONN]["value"] == pytest.approx(estimates(h[chosen], ("twonn",))["twonn"].value, rel=1e-9)


def test_too_few_rows_are_a_notice_and_no_number() -> None:
    rng = np.random.default_rng(4)
    h, g = rng.normal(size=(16, 16)), rng.normal(size=(16, 16))
    seen = Protocol((2,)).observe(a_look(h, {"true": g}, np.arange(16) // 2))
    assert any("no intrinsic dimension: h has 8 rows" in notice for notice in seen.notices)
    assert not any(row["statistic"].startswith("intrinsic") for row in seen.rows)
