"""Shapes in signatures are checked in these tests, and in these tests only."""

import subprocess
import sys

import jaxtyping
import pytest
import torch

import anisoscope as an
from house.shapes import check_package

MODULE = """
{future}
from typing import Protocol, Self
from jaxtyping import Float
from torch import Tensor


def product(x: Float[Tensor, "n d"], y: Float[Tensor, "n e"], scale: float = 1.0) -> Float[Tensor, "d e"]:
    return scale * x.T @ y


def wrong(x: Float[Tensor, "n d"]) -> Float[Tensor, "n"]:
    return x


class Shaped(Protocol):
    def sides(self) -> int: ...


class Square:
    @classmethod
    def default(cls, like: Shaped | None) -> Self | None:
        return cls()

    def sides(self) -> int:
        return 4.0
"""


@pytest.fixture(params=["", "from __future__ import annotations"], ids=["plain", "future annotations"])
def checked(request, tmp_path, monkeypatch):
    """A small module, imported under the same hook as anisoscope."""
    name = "checked_plain" if request.param == "" else "checked_future"
    (tmp_path / f"{name}.py").write_text(MODULE.format(future=request.param))
    monkeypatch.syspath_prepend(tmp_path)
    with check_package(name):
        yield __import__(name)
    del sys.modules[name]


def test_right_shapes_pass_and_an_int_is_a_float(checked):
    assert checked.product(torch.ones(2, 3), torch.ones(2, 4), 2).shape == (3, 4)


def test_what_beartype_cannot_check_is_let_through_and_nothing_else(checked):
    square = checked.Square.default(None)
    assert checked.Square.default(square)
    with pytest.raises(jaxtyping.TypeCheckError, match="return value"):
        square.sides()


def test_wrong_shapes_are_seen(checked):
    with pytest.raises(jaxtyping.TypeCheckError, match="parameter 'y'"):
        checked.product(torch.ones(2, 3), torch.ones(5, 4))
    with pytest.raises(jaxtyping.TypeCheckError, match="return value"):
        checked.wrong(torch.ones(2, 3))


@pytest.mark.usefixtures("shape_checks_off")
def test_the_checks_can_be_put_aside(checked):
    assert checked.wrong(torch.ones(2, 3)).shape == (2, 3)


def test_the_package_is_checked_here():
    assert hasattr(an.energy_share, "__wrapped__")


def test_the_package_is_not_checked_elsewhere():
    script = "import sys, anisoscope; print(hasattr(anisoscope.energy_share, '__wrapped__'), 'beartype' in sys.modules)"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert process.stdout.split() == ["False", "False"], process.stderr
