"""The bar below which a machine is off: 80% of the price on whole hosts."""

from __future__ import annotations

from pathlib import Path

import pytest
from machine_logs import LARGE, Time, log, time_on

import colltool

FIVE = ("ar", "ag", "rs", "a2a", "p2p")


def at_share(share: float) -> Time:
    """A whole node that reaches this share of its price, at every size of every collective."""
    healthy = time_on()
    return lambda primitive, size: healthy(primitive, size) / share


@pytest.mark.parametrize(("share", "healthy"), [(0.815, True), (0.785, False)])
def test_a_whole_node_is_healthy_from_four_fifths_on(
    share: float, healthy: bool, tmp_path: Path
) -> None:
    file = log(tmp_path / "node.log", at_share(share), FIVE, LARGE)
    assert colltool.doctor(file).ok is healthy
