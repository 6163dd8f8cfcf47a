"""What is odd about a machine, though no reason to call it slow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from colltool.base.formatting import size_text, whole_percent
from colltool.calibration.bars import FASTER, FEW
from colltool.calibration.results import ValidatedSeries
from colltool.diagnosis.causes import Bench
from colltool.diagnosis.hypotheses import Hypothesis
from colltool.diagnosis.units import Unit

OF_FEW = "so few reach 55 to 85% of the price on healthy nodes too, and are held to that; measure all GPUs of a host"
"""NCCL 2.27 to 2.29 on 2 GPUs of NVSwitch nodes (A100, H100, B200), ai-dynamo/aiconfigurator."""

DIP, NEAR = 0.6, 0.9
"""A size that reaches less than this share of what larger ones do is worth a word, until sizes come near to that."""

SHORT, EXACT = 0.9, 0.06
"""Large messages below this share of the price, though above the bar, are worth a word where a setting gives them to so much."""


def notes(bench: Bench, causes: Sequence[Hypothesis]) -> Iterator[str]:
    """All of them, as sentences."""
    yield from filter(None, map(of_few, sorted({one.series.ranks for one in bench.series})))
    settings = [cause for cause in causes if not cause.fits]
    for unit in bench.units:
        one = bench.series[unit.at]
        found = (_faster(unit), *((_as_if(bench, unit, settings), _dip(one, unit)) if unit.size == "large" else ()))
        yield from (f"{one.series.title}: {said}" for said in found if said)


def of_few(ranks: int) -> str:
    """What to expect of so few ranks; empty of more."""
    return f"{ranks} ranks: {OF_FEW}" if ranks < FEW else ""


def _faster(unit: Unit) -> str:
    if unit.share <= FASTER:
        return ""
    what = "another algorithm ran, or the machine is another than this fabric"
    return f"{unit.size} messages at {whole_percent(unit.share)} of expected: {what}"


def _as_if(bench: Bench, unit: Unit, settings: Sequence[Hypothesis]) -> str:
    """A setting under which a unit that passes is as it should be."""
    plain = bench.error(unit, bench.base) or 0.0
    if unit.low or unit.share >= SHORT:
        return ""
    for cause in settings:
        error = bench.error(unit, cause.world(0.0))
        if error is not None and error <= min(EXACT, plain / 2):
            return f"{whole_percent(unit.share)} of expected, as if {cause.said(0.0)}; look at {cause.look}"
    return ""


def _dip(one: ValidatedSeries, unit: Unit) -> str:
    """Sizes below the largest that fall short of what these reach."""
    below = [point for point in one.points[: min(unit.focus)] if point.bound == "bandwidth"]
    short = [point for point in below if point.of_expected < NEAR * unit.share]
    if unit.low or not short or min(point.of_expected for point in short) >= DIP * unit.share:
        return ""
    first = next(point for point in one.points if point.bytes > short[-1].bytes)
    reached = f"{whole_percent(short[0].of_expected)} of expected at {size_text(short[0].bytes)}"
    return f"{reached}, as expected from {size_text(first.bytes)} on: not the wire"
