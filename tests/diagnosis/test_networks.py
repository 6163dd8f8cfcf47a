"""A machine whose log names no NICs is a question, not a verdict: the usual NICs that fit what was
measured."""

from __future__ import annotations

from pathlib import Path

import machine_logs
import pytest

import colltool


def measured(folder: Path, gbit: float) -> Path:
    """Two hosts of eight H100 with NICs of so many Gbit/s a device."""
    time = machine_logs.time_on(
        "dgx-h100", 16, [f"ib.bandwidth={gbit / 8}GB/s"], only={"ar": "multi-rail-ring"}
    )
    return machine_logs.log(folder / "two.log", time, sizes=machine_logs.LARGE, ranks=16)


@pytest.mark.parametrize("gbit", [200, 100])
def test_slower_nics_that_are_usual_are_asked_for_and_healthy(gbit: int, tmp_path: Path) -> None:
    found = colltool.doctor(measured(tmp_path, gbit))
    assert found.ok
    assert f"8 x {gbit}G" in str(found.assumed.network)
    assert found.summary().startswith("If your hosts have ")


def test_nics_as_the_bundled_machine_has_ask_nothing_of_their_speed(tmp_path: Path) -> None:
    log = machine_logs.log(
        tmp_path / "two.log", machine_logs.time_on(ranks=16), sizes=machine_logs.LARGE, ranks=16
    )
    found = colltool.doctor(log)
    assert found.ok
    assert not found.assumed.network


def test_a_network_far_below_any_usual_one_is_a_fault(tmp_path: Path) -> None:
    found = colltool.doctor(measured(tmp_path, 25))
    assert not found.ok
    assert not found.assumed.network


def test_a_fabric_that_was_given_is_not_guessed(tmp_path: Path) -> None:
    found = colltool.doctor(measured(tmp_path, 100), "dgx-h100")
    assert not found.ok
    assert not found.assumed.network
