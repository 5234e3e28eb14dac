"""CONTRIBUTING.md shows where a statistic, a control and a claim go; what it shows runs."""

from house.documents import REPOSITORY, check_command, commands_of, python_of, run_python

CONTRIBUTING = REPOSITORY / "CONTRIBUTING.md"


def test_the_worked_example_runs(tmp_path):
    script = python_of(CONTRIBUTING.read_text())
    for thing in ("statistic", "control", "claim"):
        assert thing in script
    assert run_python(CONTRIBUTING, tmp_path) == ""


def test_its_commands_exist(tmp_path):
    commands = commands_of(CONTRIBUTING.read_text())
    assert [said for command in commands if (said := check_command(command, tmp_path, lambda _: ""))] == []
