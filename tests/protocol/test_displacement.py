"""The spectrum of S C: against its definition, against finite differences, and what must not change it."""

import numpy as np
import pytest
from scipy import linalg

from anisoscope.geometry.inference import resampling_counts, stretched
from anisoscope.protocol.observe import Protocol
from protocol.looks import WIDTH, a_look, arrays
from protocol.test_rows import by_key
from reference import cloud, shares
from reference import rows as slow

RANK = 2
NAMES = ("displacement_effective_rank", "displacement_leading_share")


def look_arrays(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    h, g, sequences, _ = arrays(seed)
    return h / np.linalg.norm(h, axis=1, keepdims=True) ** 0.5, g["true"], sequences


def rows_of(h: np.ndarray, g: np.ndarray, sequences: np.ndarray) -> dict:
    return by_key(Protocol((RANK,)).observe(a_look(h, {"true": g}, sequences)))


def halves(h: np.ndarray, g: np.ndarray, sequences: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    tested = ~slow.halves(sequences)
    units = sequences[tested] - sequences[tested].min()
    return h[tested], g[tested], units


def of_weights(h: np.ndarray, g: np.ndarray, w: np.ndarray, q: np.ndarray) -> dict[str, float]:
    """All three from the method notes; the eigenvalues of S C are those of no symmetric matrix."""
    loud = g.any(1)
    s = (g[loud].T * w[loud]) @ g[loud] / w[loud].sum()
    centred = h - w @ h / w.sum()
    c = (centred.T * w) @ centred / w.sum()
    values = np.sort(linalg.eigvals(s @ c).real)[::-1].clip(min=0)
    inside = np.trace(s @ q @ q.T @ c @ q @ q.T) / np.trace(s @ c)
    return {
        NAMES[0]: float(np.exp(cloud.entropy(values))),
        NAMES[1]: float(values[:RANK].sum() / values.sum()),
        "displacement_share": float(inside),
    }


def key_of(name: str) -> tuple[object, ...]:
    return {NAMES[0]: ("", ""), NAMES[1]: ("", RANK), "displacement_share": ("pca", RANK)}[name] + ("all", "", name)


def test_values_and_first_order_intervals() -> None:
    h, g, sequences = look_arrays()
    seen, q = rows_of(h, g, sequences), shares.principal(h[slow.halves(sequences)], True)[:, :RANK]
    h, g, units = halves(h, g, sequences)
    counts = stretched(resampling_counts(int(units.max()) + 1)).numpy()
    whole = of_weights(h, g, np.ones(len(units)), q)
    up, down = (
        [of_weights(h, g, 1 + sign * 1e-6 * (units == u), q) for u in range(counts.shape[1])] for sign in (1, -1)
    )
    for name, value in whole.items():
        row = seen[key_of(name)]
        assert row["value"] == pytest.approx(value, rel=1e-8), name
        slopes = [(one[name] - other[name]) / 2e-6 for one, other in zip(up, down, strict=True)]
        replicates = value + (counts[1:] - 1) @ slopes
        assert (row["low"], row["high"]) == pytest.approx(tuple(np.percentile(replicates, [2.5, 97.5])), rel=1e-5), name


def test_no_linear_change_of_coordinates_alters_the_spectrum() -> None:
    h, g, sequences = look_arrays(1)
    change = np.diag(np.geomspace(0.1, 30, WIDTH)) @ shares.haar(np.random.default_rng(2), WIDTH, WIDTH)
    one, other = rows_of(h, g, sequences), rows_of(h @ change, g @ np.linalg.inv(change).T, sequences)
    for name in NAMES:
        assert other[key_of(name)]["value"] == pytest.approx(one[key_of(name)]["value"], rel=1e-8)
    energy = ("pca", RANK, "all", "", "energy_share")
    assert abs(one[energy]["value"] - other[energy]["value"]) > 0.05, "the shares are not so lucky"


def test_rotated_gradients_are_the_null_of_gradients_without_a_preference() -> None:
    """Planted: gradients that know nothing of h lie among the rotations, those along its top direction far outside."""
    rng = np.random.default_rng(3)
    sequences = np.repeat(np.arange(400), 5)
    spread = np.geomspace(3, 0.4, WIDTH)
    h = rng.normal(size=(2000, WIDTH)) * spread
    inside = {}
    for kind, g in (
        ("even", rng.normal(size=h.shape) * rng.permutation(spread) @ shares.haar(rng, WIDTH, WIDTH)),
        ("aligned", rng.normal(size=h.shape) * spread),
    ):
        seen = rows_of(h, g, sequences)
        share = seen[key_of(NAMES[1])]["value"]
        null = seen["", RANK, "all", "rotated_gradients", NAMES[1]]
        assert null["interval"] == "draws"
        inside[kind] = null["low"] <= share <= null["high"]
        displaced = seen[key_of("displacement_share")]
        assert displaced["chance"] == pytest.approx(seen["pca", RANK, "all", "", "captured_variance"]["value"])
        assert (displaced["low"] > displaced["chance"]) == (kind == "aligned")
    assert inside == {"even": True, "aligned": False}


def test_only_the_full_grid_pays_for_it() -> None:
    h, g, sequences = look_arrays(4)
    protocol = Protocol((RANK,))
    for expected in (True, False):
        seen = by_key(protocol.observe(a_look(h, {"true": g}, sequences)))
        assert any(key[-1] == NAMES[0] for key in seen) == expected
