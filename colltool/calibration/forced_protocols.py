"""Numbers of the one algorithm and protocol that a log forces: launch, time of a step, and share of
the wire. :func:`protocol_rows` makes rows of a machine file of them.

Measured times of one protocol lie on a line, t = A + B·M. The price of the same schedule is a line
too, affine in the step's time and in 1/share: the numbers are those under which both lines agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from colltool.calibration.machine_rows import SeriesRows
from colltool.estimate.groups import PlacedGroup, place
from colltool.estimate.machine_protocols import priced_under
from colltool.fabric.model import Fabric
from colltool.libraries.nccl.names import protocol_of
from colltool.libraries.numbers import ProtocolNumbers
from colltool.machines.machine_file import MachineRow, ProtocolRow

# A line needs three sizes, and a largest size this many times the smallest: else noise decides what
# belongs to the latency and what to the bandwidth.
_FEWEST_SIZES = 3
_LEAST_SIZE_RATIO = 64.0
# Values at which the schedule is priced to find how its line depends on them; any other pair of
# values gives the same line.
_PROBE_STEP_S = 1e-6
_PROBE_SHARE = 0.5
# Launch overhead of a call where the library states none, an assumption of ours.
_USUAL_LAUNCH_S = 5e-6


class SeriesLine(NamedTuple):
    """Times of a schedule: ``fixed_s`` + ``per_byte_s`` · size."""

    fixed_s: float
    per_byte_s: float


def protocol_rows(fabric: Fabric, series: Sequence[SeriesRows]) -> tuple[ProtocolRow, ...]:
    """The numbers of each series whose log forces an algorithm and a protocol, and whose sizes
    allow a line. Of several series of one kind the last one counts."""
    rows_by_kind: dict[tuple[str, ...], ProtocolRow] = {}
    for measured in series:
        row = _protocol_row(fabric, measured)
        if row is not None:
            rows_by_kind[str(row.primitive), row.scope, row.algorithm, row.protocol] = row
    return tuple(rows_by_kind.values())


def _protocol_row(fabric: Fabric, measured: SeriesRows) -> ProtocolRow | None:
    """A row of a machine file. None where the series does not determine one."""
    rows = measured.rows
    forced = measured.forced
    if len(rows) < _FEWEST_SIZES or not all(forced):  # a name is missing
        return None
    if rows[-1].bytes < _LEAST_SIZE_RATIO * rows[0].bytes:
        return None
    primitive = measured.series.primitive
    placed = place(fabric, measured.series.ranks)
    listed = placed.spans[-1].tier.protocols_for(primitive)
    # the tier's own name of the protocol, where it lists it: Simple, of several parts the first
    same_protocol = (name for name in listed if protocol_of(name) == forced.protocol)
    name = next(same_protocol, forced.protocol)
    listed_numbers = listed.get(name)
    launch_s = _USUAL_LAUNCH_S
    if listed_numbers is not None and listed_numbers.launch_s is not None:
        launch_s = listed_numbers.launch_s
    numbers = _numbers(placed, measured, name, launch_s)
    if numbers is None:
        return None
    return ProtocolRow.model_validate(
        {
            "primitive": primitive,
            "scope": measured.scope,
            "algorithm": forced.algorithm,
            "protocol": forced.protocol,
            "launch": f"{(numbers.launch_s or 0.0) * 1e6:.9g}us",
            "step": f"{numbers.step_s * 1e6:.9g}us",
            "share": numbers.share,
        }
    )


def _numbers(
    placed: PlacedGroup, measured: SeriesRows, name: str, launch_s: float
) -> ProtocolNumbers | None:
    """The numbers of protocol ``name`` with which the schedule's line becomes that of the measured
    times. None where the schedule cannot run, or the times are below those of its wires.

    One rank count cannot separate launch and step: the launch is the library's, ``launch_s``, but
    for times too short for it.
    """
    measured_line = _fitted_line(measured.rows)
    neutral = ProtocolNumbers(name=name, launch_s=0.0)
    stepping = neutral._replace(step_s=_PROBE_STEP_S)
    half_share = neutral._replace(share=_PROBE_SHARE)
    curves = []
    for probe in (neutral, stepping, half_share):
        model = priced_under(placed, measured.series.primitive, measured.forced.spec, probe)
        if model is None:
            return None
        curves.append(model.curve)
    plain, stepped, halved = curves
    steps = (stepped.a - plain.a) / _PROBE_STEP_S
    # half the share doubles the wire's time: the difference is that of a share of 1
    wire_per_byte_s = halved.b - plain.b
    left_per_byte_s = measured_line.per_byte_s - (plain.b - wire_per_byte_s)
    if wire_per_byte_s <= 0 or left_per_byte_s <= 0:
        return None
    step_s = 0.0
    if steps > 0:
        step_s = max((measured_line.fixed_s - plain.a - launch_s) / steps, 0.0)
    return neutral._replace(
        # fixed times shorter than the library's launch shorten the launch: no step takes less than
        # 0
        launch_s=max(measured_line.fixed_s - plain.a - steps * step_s, 0.0),
        step_s=step_s,
        share=wire_per_byte_s / left_per_byte_s,
    )


def _fitted_line(rows: Sequence[MachineRow]) -> SeriesLine:
    """The line with the least squares of relative errors; neither part below 0."""
    import numpy as np

    columns = np.array([(1.0 / row.time, row.bytes / row.time) for row in rows])
    # columns alike in size, for the solver
    scale = columns.max(axis=0)
    (fixed, slope), *_ = np.linalg.lstsq(columns / scale, np.ones(len(rows)), rcond=None)
    return SeriesLine(max(float(fixed / scale[0]), 0.0), max(float(slope / scale[1]), 0.0))
