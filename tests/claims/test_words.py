"""The five closing lines: what they say of each kind of verdict."""

import pytest

from anisoscope.claims.verdict import Explanation, Robustness, Verdict
from anisoscope.claims.words import summary

MADE_UP = "Labels that the model made up itself push there as much"
KINDS = {"left": "causal", "right": "masked", "odd": None}


def energy(run: str, outcome: str = "supported", rival: float = 0.2, **more: object) -> Verdict:
    rivals = (Explanation("sampled_labels", rival, rival - 0.1, rival + 0.1, "in its place"),)
    facts = {"share": 0.336, "beside": 0.125}
    known = {"effect": 2.0, "low": 1.9, "high": 2.1, "unit": "bits", "facts": facts, "explanations": rivals} | more
    return Verdict("tangent-energy", "A1", outcome, runs=(run,), robustness=Robustness(3, 4), **known)


def early(run: str) -> Verdict:
    return Verdict("early-and-persistent", "A3", "supported", runs=(run,), details=("first seen at step 60",))


def test_two_runs_are_told_apart_by_what_they_are() -> None:
    lines = summary([energy("left"), energy("right", rival=1.04), early("left"), early("right")], KINDS)
    assert len(lines) == 5
    assert lines[0].endswith("decoder: 33.6% (chance 12.5%); encoder: 33.6% (chance 12.5%).")
    assert lines[1].startswith("More than chance? decoder: yes, 4 times the odds")
    assert lines[2] == "Since when? decoder: first seen at step 60; encoder: first seen at step 60."
    assert "decoder: sampled labels 20% of the effect; encoder: sampled labels 104% of the effect." in lines[3]
    assert MADE_UP in lines[3]
    assert "these two small runs" in lines[4]
    assert "3 of 4 and 3 of 4 other ways" in lines[4]


def test_made_up_labels_are_named_only_where_they_do_as_much() -> None:
    assert MADE_UP not in " ".join(summary([energy("left", rival=0.89)]))
    assert MADE_UP in " ".join(summary([energy("left", rival=0.9)]))


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("reversed", "odd: no, less: the model avoids these directions, 0.25 times the odds"),
        ("not supported", "odd: no, the difference is too small to matter"),
        ("not distinguishable from its null", "odd: it cannot be told from its null"),
        ("inconclusive", "odd: it cannot be said"),
    ],
)
def test_every_outcome_has_its_words(outcome: str, said: str) -> None:
    assert f"More than chance? {said}" in summary([energy("odd", outcome, effect=-2.0)], KINDS)[1]


def test_a_run_without_numbers_says_why() -> None:
    bare = {"effect": None, "low": None, "high": None, "facts": {}, "explanations": ()}
    lines = summary([energy("odd", "inconclusive", sentence="inconclusive: needs gradients", **bare)], KINDS)
    assert lines[0] == "Found: odd: nothing could be measured (inconclusive: needs gradients)."
    assert "odd: it cannot be said (needs gradients)" in lines[1]
    assert "odd: nothing to explain" in lines[3]
