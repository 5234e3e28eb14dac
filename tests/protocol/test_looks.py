"""What must not change a row, what must never reach the fit, and looks that can be measured in part only."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import anisoscope as an
from anisoscope.capture.look import Look
from anisoscope.capture.positions import Chunk
from anisoscope.protocol import observe
from anisoscope.protocol.observe import Observation, Protocol
from anisoscope.protocol.views import unit_of_sequence
from anisoscope.store import vocabulary
from protocol.looks import WIDTH, a_look, arrays, rescanned, stored
from reference import rows as slow
from reference import shares

RANKS = (2, 3)
KEYS = ("layer", "proxy", "rank", "view", "control", "statistic", "gradient")


def numbers(seen: Observation, layer: str | None = None) -> dict[tuple[object, ...], list[float]]:
    names = ("value", "low", "high", "p", "n")
    return {
        tuple(row[key] or "" for key in KEYS): [row[name] for name in names if row[name] is not None]
        for row in stored(seen)
        if layer in (None, row["layer"])
    }


def assert_same(one: Observation, other: Observation, tolerance: float = 1e-9, layer: str | None = None) -> None:
    mine, theirs = numbers(one, layer), numbers(other, layer)
    assert mine.keys() == theirs.keys()
    assert mine, "nothing was compared"
    for key, found in mine.items():
        assert found == pytest.approx(theirs[key], rel=tolerance, abs=1e-12), key


def measured(look: an.Look, **options: object) -> Observation:
    return Protocol(RANKS, **options).observe(look)


# What must not change a row


def test_chunks_are_no_matter() -> None:
    """Other sums in another order: equal up to rounding, draws included."""
    h, g, sequences, bearing = arrays(0)
    look = a_look(h, g, sequences, layers=2, bearing=bearing)
    assert_same(measured(rescanned(look, pieces=True)), measured(look))


def test_the_order_of_rows_is_no_matter() -> None:
    """Sequences dealt out like cards: each still in its own order, and first seen in the same order."""
    h, g, sequences, bearing = arrays(1)
    position = np.concatenate([np.arange(count) for count in np.bincount(sequences)])
    dealt = np.lexsort((sequences, position))
    assert (np.diff(sequences[dealt]) != 0).mean() > 0.9
    shuffled = a_look(
        h[dealt], {label: rows[dealt] for label, rows in g.items()}, sequences[dealt], bearing=bearing[dealt]
    )
    assert_same(measured(shuffled), measured(a_look(h, g, sequences, bearing=bearing)))


def test_names_of_sequences_are_no_matter() -> None:
    h, g, sequences, _ = arrays(2)
    names = np.array([f"text {hash(i) * 7919 % 101}" for i in range(sequences.max() + 1)])[sequences]
    assert_same(measured(a_look(h, g, names)), measured(a_look(h, g, sequences)))


@pytest.mark.parametrize("scale", [1e-22, 1e18])
def test_the_scale_of_gradients_is_no_matter(scale: float) -> None:
    h, g, sequences, _ = arrays(3, dtype=np.float32)
    scaled = {label: (rows.astype(np.float64) * scale).astype(np.float32) for label, rows in g.items()}
    one, other = numbers(measured(a_look(h, scaled, sequences))), numbers(measured(a_look(h, g, sequences)))
    for key, found in one.items():
        assert found[0] == pytest.approx(other[key][0], rel=1e-4, abs=1e-6), key


def test_a_rotation_is_no_matter() -> None:
    """Everything that is no draw: the draws themselves are made in fixed coordinates."""
    h, g, sequences, _ = arrays(4)
    turn = shares.haar(np.random.default_rng(0), WIDTH, WIDTH)
    one = numbers(measured(a_look(h, g, sequences)))
    other = numbers(measured(a_look(h @ turn, {label: rows @ turn for label, rows in g.items()}, sequences)))
    drawn = ("isotropic", "variance_matched", "variance_matched/random_normal", "random_normal", "gaussian")
    for key, found in one.items():
        if key[4] not in drawn:
            assert found[0] == pytest.approx(other[key][0], rel=1e-7, abs=1e-9), key


@pytest.mark.parametrize("kind", ["numpy", "float", "half", "strided", "leaf"])
def test_arrays_as_they_come(kind: str) -> None:
    h, g, sequences, _ = arrays(5)
    h = h / np.abs(h).max() * 3  # every entry fits into float16 and 200 times it squared does not
    change = {
        "numpy": lambda x: np.asfortranarray(x.astype(np.float32)),
        "float": lambda x: torch.from_numpy(x).float(),
        "half": lambda x: torch.from_numpy(x * 200).half(),
        "strided": lambda x: torch.from_numpy(x).float().repeat_interleave(2, dim=1)[:, ::2],
        "leaf": lambda x: torch.from_numpy(x).float().requires_grad_(True),
    }[kind]
    got = numbers(measured(a_look_of(change(h), {label: change(rows) for label, rows in g.items()}, sequences)))
    wanted = numbers(measured(a_look(h, g, sequences)))
    key = ("array", "pca", 2, "all", "", "energy_share", "hidden")
    tolerance = 2e-3 if kind == "half" else 1e-5  # a half keeps 11 bits of each entry
    assert got[key][0] == pytest.approx(wanted[("blocks.0", *key[1:])][0], rel=tolerance)


def a_look_of(h: object, g: dict[str, object], sequences: np.ndarray) -> an.Look:
    return an.Look.from_arrays(
        h, g["true"], sequences, gradients={label: g[label] for label in ("sampled", "permuted")}
    )


def test_a_second_look_at_the_same_gives_the_same_in_the_core_grid() -> None:
    """The core grid is a part of the full one: the same numbers, fewer of them."""
    h, g, sequences, bearing = arrays(6)
    protocol, look = Protocol(RANKS), a_look(h, g, sequences, bearing=bearing)
    full, core, last = protocol.observe(look), protocol.observe(look), protocol.observe(look, last=True)
    assert_same(full, last)
    everything = numbers(full)
    assert len(core.rows) < len(full.rows)
    for key, found in numbers(core).items():
        assert (found[0], found[-1]) == pytest.approx((everything[key][0], everything[key][-1]), rel=1e-9), key


# What must never reach the fit


def test_the_fit_never_sees_test_rows() -> None:
    h, g, sequences, _ = arrays(7)
    poisoned = h.copy()
    test = ~slow.halves(sequences)
    poisoned[test] = np.random.default_rng(0).normal(size=h[test].shape) * np.geomspace(1, 9, WIDTH)
    bases, others = measured(a_look(h, g, sequences)).bases, measured(a_look(poisoned, g, sequences)).bases
    assert bases.keys() == others.keys() == {"blocks.0|pca|all", "blocks.0|svd|all"}
    for key, basis in bases.items():
        np.testing.assert_array_equal(basis, others[key])
        wanted = shares.principal(h[~test], centred="pca" in key)[:, : max(RANKS)]
        np.testing.assert_allclose(np.abs(np.sum(basis * wanted, axis=0)), 1, atol=1e-6)


def test_the_fit_sees_no_gradient_at_all() -> None:
    """Gradients of the fit half, and those that nobody asked for, change nothing."""
    h, g, sequences, _ = arrays(8)
    poisoned = {label: rows.copy() for label, rows in g.items()}
    for rows in poisoned.values():
        rows[slow.halves(sequences)] = 1e9
    assert_same(measured(a_look(h, poisoned, sequences)), measured(a_look(h, g, sequences)))


def test_the_fit_does_see_the_fit_rows() -> None:
    """Proof that the two tests above can fail."""
    h, g, sequences, _ = arrays(7)
    other = h.copy()
    other[slow.halves(sequences)] = np.random.default_rng(0).normal(size=other[slow.halves(sequences)].shape)
    one, two = measured(a_look(h, g, sequences)).bases, measured(a_look(other, g, sequences)).bases
    assert not np.allclose(one["blocks.0|pca|all"], two["blocks.0|pca|all"], atol=1e-2)


def test_tokens_that_gradients_copy_are_caught_only_where_fit_and_test_share_them() -> None:
    """g = h, all of it noise of its own token: in sample the leading directions hold more, on other tokens chance."""
    rng = np.random.default_rng(0)
    h = rng.normal(size=(60, 32))
    in_sample = shares.energy_share(h, shares.principal(h, True)[:, :4])
    ours = numbers(measured(a_look(h, {"true": h}, np.repeat(np.arange(20), 3))))
    found = ours["blocks.0", "pca", 4, "all", "", "energy_share", "hidden"][0]
    assert in_sample > 2 * 4 / 32
    assert found < 1.5 * 4 / 32


# Looks that can be measured in part only


def broken(look: an.Look, layer: str, value: float, half: str = "test", gradients: bool = False) -> an.Look:
    def change(at: str, chunk: Chunk) -> Chunk:
        def spoil(tensors: dict) -> dict:
            return {site: x.clone().fill_(value) if site.layer == layer else x for site, x in tensors.items()}

        if at != half:
            return chunk
        if gradients:
            return chunk._replace(g={label: spoil(g) for label, g in chunk.g.items()})
        return chunk._replace(h=spoil(chunk.h))

    return rescanned(look, change)


@pytest.mark.parametrize(
    ("value", "half", "gradients", "reason"),
    [
        (float("nan"), "test", False, "activations hold NaN in"),
        (float("inf"), "fit", False, "activations hold Inf in"),
        (float("nan"), "test", True, "true gradients hold NaN in"),
        (0.0, "test", True, "all gradients are zero: the loss does not depend on this layer's output"),
    ],
)
def test_a_broken_layer_is_a_fault_and_leaves_the_others_alone(
    value: float, half: str, gradients: bool, reason: str
) -> None:
    h, g, sequences, bearing = arrays(9)
    look = a_look(h, g, sequences, layers=3, bearing=bearing)
    whole, part = measured(look), measured(broken(look, "blocks.1", value, half, gradients))
    for layer in ("blocks.0", "blocks.2"):
        assert_same(part, whole, tolerance=0, layer=layer)
    assert [where for where, _ in part.faults] == ["blocks.1"]
    assert part.faults[0][1].startswith(reason)
    left = {key[5] for key in numbers(part, "blocks.1")}
    assert "energy_share" not in left
    assert all(np.isfinite(found).all() for found in numbers(part).values())
    assert not any("blocks.1|" in key for key in part.bases) or not gradients


def test_identical_gradients_have_no_common_part_left_and_no_crash() -> None:
    """Without their mean nothing remains: no row is written for it, all others are."""
    h, g, sequences, _ = arrays(10)
    same = {"true": np.tile(g["true"][1:2] + 1.0, (len(h), 1))}
    found = numbers(measured(a_look(h, same, sequences)))
    assert found["blocks.0", "pca", 2, "all", "", "energy_share", "hidden"][0] == pytest.approx(
        shares.energy_share(same["true"][:1], shares.principal(h[slow.halves(sequences)], True)[:, :2])
    )
    assert not any(key[4] == "common_gradient" for key in found)


def test_gradients_spread_exactly_evenly_have_an_energy_share_and_no_anisotropy() -> None:
    h, _, _, _ = arrays(11)
    num = len(h) // (4 * WIDTH) * 4 * WIDTH
    assert num, "whole copies of the unit vectors in each half"
    even = {"true": np.tile(np.eye(WIDTH), (num // WIDTH, 1))}
    found = numbers(measured(a_look(h[:num], even, np.arange(num) // WIDTH)))
    assert found["blocks.0", "pca", 2, "all", "", "energy_share", "hidden"][0] == pytest.approx(2 / WIDTH)
    assert not any(key[3] == "all" and key[5] == "anisotropy_share" for key in found if key[4][:6] != "common")


def test_one_row_with_a_gradient_is_measured() -> None:
    h, g, sequences, _ = arrays(12)
    one = {"true": np.zeros_like(h)}
    at = np.flatnonzero(~slow.halves(sequences))[5]
    one["true"][at] = g["true"][at] + 1
    found = numbers(measured(a_look(h, one, sequences)))
    e = found["blocks.0", "pca", 2, "all", "", "energy_share", "hidden"]
    assert e[0] == pytest.approx(
        shares.energy_share(one["true"][at][None], shares.principal(h[slow.halves(sequences)], True)[:, :2])
    )
    assert np.isfinite(e).all()


def test_no_gradients_at_all_gives_shapes_only() -> None:
    h, _, sequences, _ = arrays(13)
    seen = Protocol(RANKS).observe(an.Look.from_arrays(h, None, sequences))
    assert {row["gradient"] for row in stored(seen)} == {""}
    assert seen.bases.keys() == {"array|pca|all", "array|svd|all"}
    assert not seen.faults


def test_ranks_that_no_layer_can_have_are_told_where_somebody_asked_for_them() -> None:
    h, g, sequences, _ = arrays(1)
    look = a_look(h, g, sequences)
    with pytest.warns(UserWarning, match=r"ranks \[9, 40\] are left out: wanted at most half of a layer's width"):
        an.measure(look, ranks=(2, 9, 40))
    an.measure(look)  # nobody asked for 32: warnings are errors here


def test_ranks_that_cannot_be_are_left_out_with_a_notice() -> None:
    h, g, sequences, _ = arrays(14)
    seen = Protocol((2, 8, 9, 40)).observe(a_look(h, g, sequences))
    assert seen.notices == ["blocks.0: ranks [9, 40] left out, above half of the width 16"]
    flat = h @ shares.haar(np.random.default_rng(0), WIDTH, 3) @ shares.haar(np.random.default_rng(1), WIDTH, 3).T
    seen = Protocol((2, 8)).observe(a_look(flat.astype(np.float32), g, sequences))
    assert seen.notices == [
        f"blocks.0: ranks [8] left out, the {slow.halves(sequences).sum()} fit rows span only fewer directions "
        "(constant or rank-deficient activations, or too few rows)"
    ]
    ranks = {row["rank"] for row in stored(seen) if row.get("control") == "random_normal"}
    assert ranks == {2}


def test_sequences_of_one_row_are_clean_all_the_same() -> None:
    """Said or not said, every row is its own sequence: the same rows must follow, else no verdict can be reached."""
    h, g, _, _ = arrays(19)
    said, unsaid = measured(a_look(h, g, np.arange(len(h)))), measured(a_look(h, g))
    assert_same(said, unsaid)


@pytest.mark.parametrize("half", ["fit", "test"])
def test_constant_activations_are_left_out_and_leave_the_others_alone(half: str) -> None:
    h, g, sequences, _ = arrays(15)
    look = a_look(h, g, sequences, layers=2)
    whole, part = measured(look), measured(broken(look, "blocks.1", 0.3, half))
    assert_same(part, whole, tolerance=0, layer="blocks.0")
    assert not any(key[1] for key in numbers(part, "blocks.1"))
    noted = [*part.notices, *(reason for _, reason in part.faults)]
    assert any("the same" in one or "span only fewer directions" in one for one in noted) or half == "fit"


@pytest.mark.parametrize("width", [1, 2, 3])
def test_narrow_layers(width: int) -> None:
    rng = np.random.default_rng(width)
    h, g = rng.normal(size=(40, width)), {"true": rng.normal(size=(40, width))}
    seen = measured(a_look(h, g, np.repeat(np.arange(8), 5)))
    ranks = {row.get("rank") for row in stored(seen) if row.get("proxy") and row["statistic"] == "placement"}
    assert ranks == ({1} if width > 1 else set())


# The budget and the words


def words(seen: Observation) -> None:
    for row in seen.rows + seen.replicates:
        assert not vocabulary.unknown_words("statistic", [row["statistic"]])
        assert not vocabulary.unknown_words("control", [row.get("control", "")])
        assert row.get("view", "all") in vocabulary.VIEWS
        assert row.get("proxy", "pca") in vocabulary.PROXIES
        assert row.get("gradient") or not row.get("proxy")
        assert row.get("gradient") in ("", "hidden", None)
        assert row.get("regime") in ("", "tracking", None)
    for row in stored(seen):
        assert row["interval"] in ("", "sequences", "draws")
        assert (row["low"] is None) == (row["high"] is None) == (row["interval"] == "")
        if row["low"] is not None:
            assert row["low"] <= row["high"]


@pytest.mark.parametrize("objective", ["causal", "masked"])
def test_a_look_writes_about_300_rows_a_layer(objective: str) -> None:
    h, g, sequences, bearing = arrays(16, num_sequences=60, width=128)
    look = replace(a_look(h, g, sequences, bearing=bearing), objective=objective)
    protocol = Protocol()
    full, core = protocol.observe(look), protocol.observe(look)
    for seen in (full, core):
        words(seen)
    assert 200 <= len(core.rows) <= 330
    assert len(core.rows) < len(full.rows) <= 2 * 330
    ranks = {row["rank"] for row in stored(core) if row.get("control") == "sampled_labels"}
    assert ranks == {8, 16, 32}
    kept = {(row.get("control"), row["statistic"]) for row in core.replicates}
    assert {("sampled_labels", "energy_share"), ("random_normal", "anisotropy_share"), (None, "captured_variance")} <= {
        (control or None, statistic) for control, statistic in kept
    }


def test_many_sequences_are_resampled_in_groups() -> None:
    assert unit_of_sequence(7).tolist() == list(range(7))
    units = unit_of_sequence(5000)
    assert int(units.max()) == 1023
    assert (units.diff() >= 0).all()
    assert set(units.bincount().tolist()) == {4, 5}


def test_tables_and_runs_of_several_looks(tmp_path: object) -> None:
    h, g, sequences, _ = arrays(17)
    looks = [a_look(h, g, sequences, step=step) for step in (0, 10, 20)]
    alone = an.measure(looks, ranks=RANKS, num_steps=20)
    stored = an.measure(looks, ranks=RANKS, num_steps=20, run=f"{tmp_path}/run")
    assert alone.equals(stored)
    run = an.open_run(f"{tmp_path}/run")
    assert run.metrics().equals(alone)
    assert run.manifest["finished"]
    counts = run.sql("select step, count(*) n from metrics group by step order by step").to_pylist()
    assert [row["step"] for row in counts] == [0, 10, 20]
    assert counts[0]["n"] == counts[2]["n"] > counts[1]["n"], "full, core, full"


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((), "no looks to measure; give one Look or several"),
        ((3, None), "looks are of steps [3, None]; wanted known steps, each once, in rising order: give step="),
        ((3, 3), "looks are of steps [3, 3]; wanted known steps, each once, in rising order: give step="),
        ((3, 1), "looks are of steps [3, 1]; wanted known steps, each once, in rising order: give step="),
    ],
)
def test_looks_that_make_no_run(steps: tuple[int | None, ...], message: str) -> None:
    h, g, sequences, _ = arrays(18)
    with pytest.raises(an.InputError) as caught:
        an.measure([a_look(h, g, sequences, step=step) for step in steps])
    assert str(caught.value) == message


@pytest.mark.usefixtures("shape_checks_off")
@pytest.mark.parametrize("ranks", [(0,), (-1,), (2.5,), (True,)])
def test_ranks_that_are_none(ranks: tuple[object, ...]) -> None:
    with pytest.raises(an.InputError, match="wanted whole numbers of at least 1"):
        Protocol(ranks)
    with pytest.raises(an.InputError, match="wanted some of pca, svd"):
        Protocol((2,), proxies=("umap",))


def test_a_mean_far_above_the_spread_leaves_captured_variance_alone() -> None:
    h, g, sequences, _ = arrays(21, dtype=np.float32)

    def captured(shift: float) -> list[float]:
        seen = measured(a_look((h + shift).astype(np.float32), g, sequences), proxies=("pca",))
        return [
            row["value"]
            for row in seen.rows
            if row["statistic"] == "captured_variance" and row["view"] == "all" and not row.get("control")
        ]

    near, far = captured(0.0), captured(1e5)
    assert len(near) > 3
    np.testing.assert_allclose(far, near, atol=5e-3)


def test_sites_measured_in_groups_or_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many wide layers do not fit into memory together; how they are grouped is no matter."""
    h, g, sequences, bearing = arrays(6)
    layers = {f"blocks.{i}": h * (i + 1) + i for i in range(3)}
    gradients = {label: {layer: rows + i for i, layer in enumerate(layers)} for label, rows in g.items()}
    others = {label: gradients[label] for label in ("sampled", "permuted")}
    look = Look.from_arrays(layers, gradients["true"], sequences, bearing=bearing, gradients=others)
    together = Protocol((2,)).observe(look)
    monkeypatch.setattr(observe, "in_groups", lambda sites: [[site] for site in sites])
    alone = Protocol((2,)).observe(look)
    assert numbers(alone) == numbers(together)
    assert alone.bases.keys() == together.bases.keys()
    assert len({row["layer"] for row in alone.rows} - {""}) == 3
