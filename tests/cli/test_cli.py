"""The commands as a user meets them: output, help, errors, interruption."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console
from rich.live import Live

import anisoscope as an
from anisoscope.cli.demo import _Watch
from anisoscope.lab.twins import glance
from house.documents import check_command

COMMANDS = ("demo", "report", "explain")


def anisoscope(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "anisoscope", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_the_demo_ends_on_what_was_found(smoke_demo):
    process, out = smoke_demo
    lines = process.stdout.strip().splitlines()
    first_words = ("Found:", "More than chance?", "Since when?", "What else would explain it?", "How sure?")
    assert [line.startswith(word) for line, word in zip(lines[-5:], first_words, strict=True)] == [True] * 5
    assert "In these two small runs" in lines[-1]
    assert (out / "report.html").as_uri() in process.stdout
    for claim in ("tangent-energy", "tangent-anisotropy", "early-and-persistent"):
        assert len(re.findall(rf"^{claim} +(decoder|encoder)", process.stdout, flags=re.M)) == 2
    assert len(re.findall(r"^both-architectures +together", process.stdout, flags=re.M)) == 1


def test_the_demo_is_quiet_in_a_pipe(smoke_demo):
    process, _ = smoke_demo
    assert process.stderr == ""
    assert "\x1b" not in process.stdout


def test_the_demo_leaves_two_finished_runs(smoke_demo):
    _, out = smoke_demo
    for kind, view in (("decoder", "all"), ("encoder", "bearing")):
        run = an.open_run(out / kind)
        assert run.manifest["finished"] is True
        assert run.manifest["primary_view"] == view
        assert run.faults() == []
        statistics = set(run.metrics()["statistic"].to_pylist())
        assert {
            "energy_share",
            "anisotropy_share",
            "captured_variance",
            "placement",
            "loss",
            "anisotropy",
        } <= statistics
        controls = set(run.metrics()["control"].to_pylist())
        assert {"random_normal", "sampled_labels", "permuted_labels", "common_gradient", "oracle"} <= controls


def test_the_live_table_shows_medians_over_the_blocks(smoke_demo):
    run = an.open_run(smoke_demo[1] / "encoder")
    step = max(run.metrics()["step"].to_pylist())
    width, rank = run.manifest["layers"][-1]["width"], run.manifest["layers"][-1]["primary_rank"]

    def median(column: str, where: str) -> float:
        query = f"select median({column}) m from metrics where step = {step} and view = 'bearing' and depth > 0 and "
        return run.sql(query + where).to_pylist()[0]["m"]

    share = f"statistic = 'energy_share' and proxy = 'pca' and rank = {rank} and control = "
    (loss,) = run.sql(f"select value from metrics where step = {step} and statistic = 'loss'")["value"].to_pylist()
    assert glance(run.sql(f"from metrics where step = {step}"), "bearing", width) == {
        "loss": loss,
        "tangent share": median("value", f"{share} ''"),
        "random others": median("value", f"{share} 'random_normal'"),
        "sampled labels": median("value", f"{share} 'sampled_labels'"),
        "chance": median("chance", f"{share} ''"),
        "anisotropy": median("value", "statistic = 'anisotropy' and control = ''"),
    }


def test_report_json_is_one_array_alone(smoke_demo, tmp_path):
    _, out = smoke_demo
    process = anisoscope("report", out, "--json", "--out", tmp_path / "page.html")
    verdicts = json.loads(process.stdout)
    assert {verdict["claim"] for verdict in verdicts} == {
        "tangent-energy",
        "tangent-anisotropy",
        "early-and-persistent",
        "both-architectures",
    }
    assert (tmp_path / "page.html").stat().st_size > 500_000


def test_report_says_the_same_as_the_demo(smoke_demo, tmp_path):
    process, out = smoke_demo
    again = anisoscope("report", out / "decoder", out / "encoder", "--out", tmp_path / "page.html")
    table = [line for line in again.stdout.splitlines() if line.startswith(("tangent-", "early-", "both-"))]
    assert table
    assert set(table) <= set(process.stdout.splitlines())


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_examples_that_run(command, smoke_demo, tmp_path):
    _, out = smoke_demo
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "demo").symlink_to(out)
    said = anisoscope(command, "--help").stdout
    examples = re.findall(r"^ +(anisoscope .+?) *$", said, flags=re.M)
    assert examples

    def demo(arguments: list[str]) -> str:
        return f"unexpected {arguments}" * (not set(arguments) <= {"--preset", "smoke", "--out", "runs/demo"})

    assert [check_command(example, tmp_path, demo) for example in examples] == [""] * len(examples)


def test_explain_knows_every_word_of_a_run(smoke_demo):
    _, out = smoke_demo
    metrics = an.open_run(out / "decoder").metrics()
    words = set(metrics["statistic"].to_pylist()) | {"tangent-energy", "both-architectures"}
    words |= {part for control in metrics["control"].to_pylist() for part in control.split("/") if part}
    known = {term["name"] for term in json.loads(anisoscope("explain", "--json").stdout)}
    assert words <= known


@pytest.mark.parametrize("name", ["A1", "a1", "Tangent-Energy"])
def test_explain_knows_claims_by_their_code_and_in_any_case(name):
    process = anisoscope("explain", name)
    assert process.stdout == anisoscope("explain", "tangent-energy").stdout
    assert process.stdout.startswith("name: tangent-energy\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["explain", "energy"],
            "error: nothing is called 'energy'; did you mean energy_share, tangent-energy, bearing?",
        ),
        (["explain", "qqq"], "error: nothing is called 'qqq'; anisoscope explain lists all names"),
        (
            ["report", "nowhere"],
            "error: there is no run at nowhere: give the folder that was named with run= or --out",
        ),
        (["demo", "--text", "missing.txt"], "error: there is no file missing.txt"),
    ],
)
def test_wrong_input_is_one_line_and_no_traceback(arguments, message, tmp_path):
    process = anisoscope(*arguments, cwd=tmp_path)
    assert process.returncode == 1
    assert process.stderr.startswith(message)
    assert process.stderr.count("\n") == 1
    assert process.stdout == ""


def test_a_run_that_exists_is_refused_before_training(smoke_demo):
    _, out = smoke_demo
    began_s = time.monotonic()
    process = anisoscope("demo", "--preset", "smoke", "--out", out)
    assert process.returncode == 1
    assert f"a run exists already in {out / 'decoder'}" in process.stderr
    assert time.monotonic() - began_s < 15


def test_an_out_that_cannot_be_written_is_refused_before_training(tmp_path):
    (tmp_path / "file").write_text("in the way")
    process = anisoscope("demo", "--preset", "smoke", "--out", tmp_path / "file" / "demo")
    assert process.returncode == 1
    assert "error: cannot write into" in process.stderr


def test_a_text_too_short_says_how_much_is_needed(tmp_path):
    (tmp_path / "short.txt").write_text("the cat sat on the mat. " * 40)
    process = anisoscope("demo", "--preset", "smoke", "--text", "short.txt", "--out", "out", cwd=tmp_path)
    assert process.returncode == 1
    assert re.search(r"error: short\.txt gives \d+ tokens, \d+ of them held out; wanted at least 4096", process.stderr)


def test_the_live_table_grows_and_warnings_appear_above_it():
    watch, screen = _Watch(num_steps=10), io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80)
    with Live(get_renderable=watch.picture, console=console, auto_refresh=False) as live:
        watch.on_stage("training the decoder")
        for kind in ("decoder", "encoder"):
            for step in (0, 10):
                watch.on_look(kind, step, {"loss": 6.25, "tangent share": None if step else 0.5})
                watch.on_step(step, 6.25)
                live.refresh()
        sys.stderr.write("a warning\n")
    before, _, after = screen.getvalue().rpartition("a warning\n")
    assert before.endswith("\x1b[2K"), "on a line of its own"
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", after)
    assert [line.split() for line in plain.splitlines()[:8]] == [
        ["decoder"], ["step", "loss", "tangent", "share"], ["0", "6.250", "0.500"], ["10", "6.250"],
        ["encoder"], ["step", "loss", "tangent", "share"], ["0", "6.250", "0.500"], ["10", "6.250"],
    ]  # fmt: skip


def test_interrupting_keeps_what_was_measured(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "anisoscope", "demo", "--preset", "smoke", "--out", "out"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background job inherits a SIGINT that is ignored, and would hand that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    first_looks = tmp_path / "out" / "decoder" / "metrics"
    deadline = time.monotonic() + 120
    while len(list(first_looks.glob("*.parquet"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.startswith("Stopped. What was measured is kept: anisoscope report out/decoder")
    run = an.open_run(tmp_path / "out" / "decoder")
    assert run.manifest["finished"] is False
    assert run.metrics().num_rows > 0
    assert anisoscope("report", "out/decoder", cwd=tmp_path).returncode == 0


def test_version():
    assert anisoscope("--version").stdout.strip() == an.__version__
