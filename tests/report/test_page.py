"""The page as a file: self-contained, small, hostile names as text, and never without an answer."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest

from anisoscope.claims.verdict import Explanation, Robustness, Verdict
from anisoscope.errors import StoreError
from anisoscope.report import RunRows, write_page
from anisoscope.report.cards import cards_of
from anisoscope.report.page import render
from anisoscope.store import METRICS, REPLICATES, Reader, Writer
from anisoscope.store.schema import table
from report.stores import HOSTILE, judged, planted, rows_of


class Document(HTMLParser):
    """Elements with their attributes, the text of scripts and styles, and what is left: the words."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, dict[str, str | None], str]] = []
        self.words = self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style"):
            self.raw.append((*self.elements[-1], data))
        else:
            self.words += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def words(text: str) -> str:
    return " ".join(Document(text).words.split())


def test_no_element_asks_for_anything(page):
    document = Document(page)
    assert {tag for tag, _ in document.elements}.isdisjoint(
        {"link", "img", "iframe", "object", "embed", "base", "form"}
    )
    for tag, attributes in document.elements:
        assert not attributes.keys() & {"src", "srcset", "action", "data", "poster", "style"}, (tag, attributes)
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        assert (attributes.get("href") or "#").startswith("#")
    style = next(text for tag, _, text in document.raw if tag == "style")
    assert "url(" not in style
    assert "@import" not in style


def test_only_these_very_scripts_and_styles_may_run(page):
    document = Document(page)
    policy = next(m["content"] for m in document.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    run = [(tag, text) for tag, attributes, text in document.raw if attributes.get("type") != "application/json"]
    assert [tag for tag, _ in run] == ["style", "script", "script"]
    for _, text in run:
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy


def test_hostile_names_are_words(page):
    document = Document(page)
    assert len(document.all("script")) == 3
    for name in (HOSTILE[1], HOSTILE[4], HOSTILE[0], HOSTILE[3]):  # runs, then layers
        assert " ".join(name.split()) in words(page)
    assert "49" not in re.findall(r"\$\{window\S* (\S+)", words(page))  # no template is run on a name
    charts = json.loads(next(text for _, attributes, text in document.raw if attributes.get("id") == "charts"))
    shares = charts["energy-0"]["tables"]["shares"]
    assert HOSTILE[0] in {row[shares["columns"].index("layer")] for row in shares["rows"]}


def test_that_the_parser_sees_what_an_unescaped_name_would_do(page):
    broken = page.replace("&lt;script&gt;", "<script>").replace("&lt;/script&gt;", "</script>")
    assert len(Document(broken).all("script")) > 3


def test_landmarks_language_and_labels(page):
    document = Document(page)
    assert document.all("html") == [{"lang": "en"}]
    assert [len(document.all(tag)) for tag in ("title", "h1", "main", "header", "footer", "nav")] == [1] * 6
    ids = [attributes["id"] for _, attributes in document.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for attributes in document.all("section"):
        assert attributes["aria-labelledby"] in ids
    for attributes in document.all("a"):
        assert str(attributes["href"])[1:] in ids
    charts = [attributes for attributes in document.all("div") if attributes.get("class") == "chart"]
    assert len(charts) == 8  # four figures for two runs; arrays have no loss
    assert all(attributes["role"] == "img" and attributes["aria-label"] for attributes in charts)


def test_verdicts_stand_first_and_the_joint_one_before_the_others(page):
    said = words(page).split("Every line opens")[1]
    order = [
        "Together",
        "Does it hold in an encoder and in a decoder?",
        "Do gradients put more",
    ]
    places = [said.index(part) for part in [*order, "The one picture", "How it could be wrong", "Definitions"]]
    assert places == sorted(places)


def test_a_single_run_is_judged_before_what_needs_others(two_runs):
    said = words(render([rows_of(two_runs[0])], judged(two_runs[0])[1]))
    assert "In which directions does this model learn?" in said
    assert (
        said.index("Do gradients put more") < said.index("With other runs") < said.index("Does it hold in an encoder")
    )


def test_what_the_stores_report_stands_among_the_doubts(page):
    said = words(page)
    said = said[said.index("How it could be wrong") :]
    assert "2 runs, each trained once" in said
    assert "(200 resamplings" in said
    assert " ".join(f"{HOSTILE[0]}: {HOSTILE[3]} (3 looks)".split()) in said  # one fault, once
    assert "ranks left out" in said
    assert "broken off" in said


def test_every_line_opens_to_its_evidence():
    rivals = (
        Explanation("sampled_labels", 1.02, 0.97, 1.08, "in its place"),
        Explanation("x y", -0.1, -0.2, 0.0, "taken out"),
        Explanation("row_normalised", -0.001, -0.002, 0.0, "taken out"),
    )
    verdict = Verdict(
        "tangent-energy", "A1", "supported", 2.0, 1.8, 2.2, "bits", "untrained passed, clean failed, chance missing",
        "supported, and sampled labels do the same", rivals, Robustness(41, 43, ("svd: reversed",)), "more looks",
        ("a",), ("a detail",),
    )  # fmt: skip
    said = words(render([empty("a")], [verdict]))
    tests = ("passed untrained", "failed clean", "missing chance")
    rest = (
        "102% [97, 108]",
        "x y",
        "-10% [-20, 0]",
        "41 of 43",
        "svd: reversed",
        "a detail",
        "the weight of a few heavy tokens 0% [0, 0]",
    )
    for part in ("4 times the odds", "something duller does the same", "It would take more looks.", *tests, *rest):
        assert part in said, part
    assert "-0%" not in said
    weak = replace(verdict, explanations=(replace(rivals[0], share=0.8),))
    assert "something duller does the same" not in words(render([empty("a")], [weak]))


def test_what_is_inconclusive_says_so_once():
    verdict = Verdict(
        "both-architectures", "A6", "inconclusive", sentence="inconclusive: inconclusive: nothing", runs=("a", "b")
    )
    said = words(render([empty("a"), empty("b")], [verdict])).split("Every line opens")[1]
    assert "inconclusive Nothing inconclusive means" in said
    assert "inconclusive:" not in said


@pytest.mark.parametrize(
    ("would_change", "said"),
    [
        ("untrained failing, clean failing", "It would take the test “untrained” or “clean” to fail."),
        ("untrained, clean passing", "It would take the test “untrained” and “clean” to pass."),
        ("a narrower interval: more test windows", "It would take a narrower interval: more test windows."),
        ("", ""),
    ],
)
def test_what_would_change_a_verdict_is_a_sentence(would_change, said):
    [card] = cards_of([Verdict("tangent-energy", "A1", "supported", would_change=would_change)])
    assert card.change == said


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict("of-tomorrow", "Z9", "supported", 1.0, 0.5, 1.5, "furlongs", runs=("a", "b")),
        Verdict("tangent-energy", "A1", "inconclusive", runs=("a",)),
        Verdict("tangent-energy", "A1", "reversed", float("-inf"), float("-inf"), float("nan"), "bits", runs=("a",)),
        Verdict("tangent-energy", "A1", "reversed", -400.0, -500.0, -300.0, "bits", runs=("nobody",)),
        Verdict("tangent-anisotropy", "A2", "not supported", 0.0, 0.0, 0.0, "bits", runs=("a",)),
    ],
    ids=["unknown", "no effect", "infinite", "huge", "zero"],
)
def test_unusual_verdicts_are_shown(verdict):
    assert verdict.outcome in words(render([empty("a")], [verdict]))


def empty(name: str, rows: pa.Table | None = None) -> RunRows:
    return RunRows(name, {}, table([], METRICS) if rows is None else rows, table([], REPLICATES))


def test_no_rows_and_no_verdicts():
    said = words(render([empty("nothing yet")], []))
    assert "nothing measured yet" in said
    assert "No claim was judged" in said
    assert "No gradients were measured" in said


def test_a_store_that_says_next_to_nothing(tmp_path):
    with Writer(tmp_path / "run", {"name": None}) as writer:
        writer.commit(None, [{"statistic": "loss", "value": 4.2}])
    out = write_page([Reader(tmp_path / "run")], [], tmp_path / "new" / "page.html")
    assert "Did the model learn anything at all?" in words(out.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"gradients": False}, "No gradients were measured in this run"),
        ({"steps": (None,)}, "step unknown"),
        ({"steps": (0,)}, "step 0"),
        ({"names": ("only",)}, "1: only"),
    ],
    ids=["no gradients", "no step", "one look", "one layer"],
)
def test_runs_that_lack_something(tmp_path, options, said):
    path = planted(tmp_path / "run", **{"steps": (0, 40), **options})
    assert said in words(render([rows_of(path)], judged(path)[1]))


def test_runs_of_one_name_are_told_apart(two_runs):
    runs = [replace(rows_of(path), name="same") for path in two_runs]
    verdicts = [Verdict("tangent-energy", "A1", o, sentence=o, runs=("same",)) for o in ("supported", "reversed")]
    said = words(render(runs, verdicts)).split("Every line opens")[1]
    assert said.index("supported") < said.index("reversed") < said.index("The one picture")


def test_the_size_stays_below_two_megabytes(two_runs):
    """Two runs of seven layers and ten looks, with the rows that layers and looks of a full run have."""
    sparse = rows_of(two_runs[0])
    layer, last = sparse.layers[1], max(step for step in sparse.steps if step is not None)
    keep = pa.compute.and_(
        pa.compute.equal(sparse.metrics["layer"], layer), pa.compute.equal(sparse.metrics["step"], last)
    )
    rows = sparse.metrics.filter(keep).to_pylist()
    many = [row | {"layer": f"blocks.{depth}", "depth": depth, "step": 2**at, "value": row["value"] * (1 - at / 97)}
            for depth in range(7) for at in range(10) for row in rows]  # fmt: skip
    layers = [{"layer": f"blocks.{depth}", "depth": depth, "primary_rank": 4} for depth in range(7)]
    run = replace(sparse, metrics=table(many, METRICS), manifest={**sparse.manifest, "layers": layers})
    assert len(many) > 7 * 10 * 200
    assert len(run.shares("sampled_labels")) == 7 * 10
    assert len(render([run, run], []).encode()) < 2_000_000


def test_a_page_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot write the page .*file/page.html: .*; give another --out"):
        write_page([], [], tmp_path / "file" / "page.html")


def test_names_that_are_no_text(tmp_path: Path):
    out = write_page([], [Verdict("half \ud800", "", "inconclusive", runs=("a",))], tmp_path / "page.html")
    assert "half ?" in out.read_text(encoding="utf-8")
