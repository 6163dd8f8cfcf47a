"""When ``price`` says that another algorithm than NCCL's pick would take less."""

from __future__ import annotations

from dataclasses import replace

import pytest

import colltool
from colltool.estimate.results import Price
from colltool.render.dispatch import rendered


@pytest.fixture(scope="module")
def slower_pick() -> Price:
    """NCCL's pick at 1 MB over sockets is a ring, and a tree takes half of its time."""
    return colltool.price("sockets", "ar", size="1MB")


@pytest.mark.parametrize(("errors_a_gain", "says_so"), [(0.95, True), (1.05, False)])
def test_a_gain_beyond_the_error_is_said_with_what_to_type(
    slower_pick: Price, errors_a_gain: float, says_so: bool
) -> None:
    gain = 1 - float(slower_pick.fastest.total_s) / float(slower_pick.best.total_s)
    assert gain > 0.3
    assert slower_pick.accuracy is not None
    error = slower_pick.accuracy._replace(median=gain * errors_a_gain)
    text = rendered(replace(slower_pick, accuracy=error), "table")
    assert ("would be faster" in text and "NCCL_ALGO=" in text) is says_so
