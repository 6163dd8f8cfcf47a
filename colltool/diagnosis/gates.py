"""Logs against what a gate may ask: ``colltool expect --against``.

:func:`judge_logs` prices what the library runs at each measured size, on the ranks of the log, and
takes the gate from the price as :mod:`colltool.estimate.expected` does. Why a size falls short is
the doctor's to say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from colltool.base.errors import ColltoolError, argument_text, localize
from colltool.base.primitives import Primitive
from colltool.calibration.log_fits import check_fits
from colltool.calibration.other_hardware import other_devices
from colltool.diagnosis.machines import hardware_note
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.expected import ExpectedSize, MeasuredSize, expected, test_name
from colltool.estimate.placement import GroupPlacement
from colltool.fabric.library_numbers import under_library
from colltool.fabric.model import Fabric
from colltool.logs.series import Measurements, Series, log_library


class JudgedLogs(NamedTuple):
    """The measured sizes of logs beside what was expected of them."""

    expected: tuple[ExpectedSize, ...]
    measured: tuple[MeasuredSize, ...]  # in the order of ``expected``
    group: GroupPlacement  # the largest that was measured


def judge_logs(
    fabric: Fabric,
    measurements: Measurements,
    devices: Sequence[str],
    *,
    primitives: Sequence[Primitive],
    sizes: Sequence[float],
    readings: ModelOptions,
    share: float,
) -> JudgedLogs:
    """Each measured size beside what a gate may ask of it.

    Args:
        devices: what the logs name.
        primitives: judge only these; all if empty.
        sizes: judge only from the least to the largest of these, bytes; all if empty.
        share: of the price's rate that a gate may ask for.

    Raises:
        ColltoolError: logs of another machine, on ranks that do not fit the fabric, or without a
            size that was asked for.
    """
    note = hardware_note(fabric, devices)
    if note:
        # the bundled fabric that has the first of the foreign devices
        nearest = next(iter(other_devices(fabric, devices).values()))
        raise ColltoolError(
            localize(str(note)),
            argument="against",
            fix=f"name the fabric of that machine: {argument_text('fabric', nearest)}",
        )
    expected_sizes: list[ExpectedSize] = []
    measured: list[MeasuredSize] = []
    largest: GroupPlacement | None = None
    for series in measurements.series:
        if primitives and series.primitive not in primitives:
            continue
        points = [
            point for point in series.points if not sizes or min(sizes) <= point.bytes <= max(sizes)
        ]
        if not points:
            continue
        placed = check_fits(fabric, series)
        of_series = expected(
            _under_library_of(fabric, series),
            series.primitive,
            [point.bytes for point in points],
            series.ranks,
            readings,
            share,
        )
        expected_sizes += of_series
        for point, size in zip(points, of_series, strict=True):
            measured.append(
                MeasuredSize(
                    series=series.title,
                    file=point.where.rpartition(":")[0],
                    where=point.where,
                    ranks=series.ranks,
                    measured_s=point.seconds,
                    measured_busbw_Bps=series.busbw_Bps(point),
                    expected=size,
                )
            )
        if largest is None or series.ranks > largest.ranks:
            largest = placed.placement
    if largest is None:
        raise _nothing_to_judge(measurements, primitives)
    return JudgedLogs(tuple(expected_sizes), tuple(measured), largest)


def _under_library_of(fabric: Fabric, series: Series) -> Fabric:
    """The fabric under the library that the log names, NCCL of the log's version; as it is where it
    names none."""
    library = log_library(series.library).in_fabrics
    if library is None or fabric.library_name == "all":
        return fabric
    version = ""
    # a version that is no number is that of the benchmark: nccl-tests 2.17.8
    if library == "nccl" and re.match(r"\d", series.version):
        version = series.version
    return under_library(fabric, library, version)


def _nothing_to_judge(measurements: Measurements, primitives: Sequence[Primitive]) -> ColltoolError:
    """The error for logs that hold nothing of what was asked for."""
    if not measurements.series:
        return ColltoolError(
            "the logs hold no usable measurement",
            argument="against",
            fix="give the whole output of the benchmark",
        )
    tests = dict.fromkeys(test_name(series.primitive) for series in measurements.series)
    if primitives and not any(series.primitive in primitives for series in measurements.series):
        return ColltoolError(
            f"the logs hold {', '.join(tests)}, not {', '.join(map(test_name, primitives))}",
            argument="test",
            fix=f"write {argument_text('test', next(iter(tests)))}, or leave it out",
        )
    return ColltoolError(
        "the logs hold no size of this range",
        argument="begin",
        fix="leave the sizes out to judge all of them",
    )
