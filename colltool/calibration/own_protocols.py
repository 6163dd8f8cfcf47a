"""Launch, time a step and share of the wire of an algorithm and protocol that a log names: t = A +
B M, put into numbers."""

from __future__ import annotations

from collections.abc import Sequence

from colltool.calibration.machine_rows import SeriesRows
from colltool.estimate.groups import PlacedGroup, place
from colltool.estimate.machine_protocols import priced_under
from colltool.fabric.model import Fabric
from colltool.libraries.nccl.rules import protocol_of
from colltool.libraries.numbers import ProtocolNumbers
from colltool.machines.own import MachineRow, ProtocolRow

_FEWEST = 3  # sizes of a line whose ends can be separated
_LEAST_RATIO = 64.0  # of the largest over the smallest of them
_PROBE_S = 1e-6
_PROBE_SHARE = 0.5
_USUAL_LAUNCH_S = 5e-6


def protocol_rows(fabric: Fabric, series: Sequence[SeriesRows]) -> tuple[ProtocolRow, ...]:
    """The numbers of each series whose log forces an algorithm and a protocol, and whose sizes
    allow a line."""
    found: dict[tuple[str, ...], ProtocolRow] = {}
    for measured in series:
        row = _protocol_row(fabric, measured)
        if row is not None:
            found[str(row.primitive), row.scope, row.algorithm, row.protocol] = row
    return tuple(found.values())


def _protocol_row(fabric: Fabric, measured: SeriesRows) -> ProtocolRow | None:
    rows = measured.rows
    forced = measured.forced
    if len(rows) < _FEWEST or not all(forced):  # a name is missing
        return None
    if rows[-1].bytes < _LEAST_RATIO * rows[0].bytes:
        return None
    primitive = measured.series.primitive
    placed = place(fabric, measured.series.ranks)
    listed = placed.spans[-1].tier.protocols_for(primitive)
    name = forced.protocol
    for own in reversed(listed):
        if protocol_of(own) == forced.protocol:
            name = own
    numbers = _numbers(placed, measured, name, listed.get(name))
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
    placed: PlacedGroup, measured: SeriesRows, name: str, known: ProtocolNumbers | None
) -> ProtocolNumbers | None:
    """The numbers under which the schedule's line is that of the measured times; ``known`` are the
    library's.

    A price is affine in the step's time and in 1/share, so three prices determine it. One rank count
    cannot separate launch and step: the launch is the library's.
    """
    fixed_s, per_byte = _line(measured.rows)
    bare = ProtocolNumbers(name=name, launch_s=0.0)
    curves = []
    for probe in (bare, bare._replace(step_s=_PROBE_S), bare._replace(share=_PROBE_SHARE)):
        model = priced_under(placed, measured.series.primitive, measured.forced.spec, probe)
        if model is None:
            return None
        curves.append(model.curve)
    plain, stepped, slowed = curves
    steps = (stepped.a - plain.a) / _PROBE_S
    wire = slowed.b - plain.b  # seconds a byte at a share of 1
    left = per_byte - (plain.b - wire)
    if wire <= 0 or left <= 0:
        return None
    launch_s = _USUAL_LAUNCH_S
    if known is not None and known.launch_s is not None:
        launch_s = known.launch_s
    # times below what the wires alone take are taken off the launch: a step adds to them
    step_s = 0.0
    if steps > 0:
        step_s = max((fixed_s - plain.a - launch_s) / steps, 0.0)
    launch_s = max(fixed_s - plain.a - steps * step_s, 0.0)
    return bare._replace(launch_s=launch_s, step_s=step_s, share=wire / left)


def _line(rows: Sequence[MachineRow]) -> tuple[float, float]:
    """Seconds, and seconds a byte, of the line that is relatively nearest to the times; neither
    below 0."""
    import numpy as np

    columns = np.array([(1.0 / row.time, row.bytes / row.time) for row in rows])
    # columns alike in size, for the solver
    scale = columns.max(axis=0)
    (fixed, slope), *_ = np.linalg.lstsq(columns / scale, np.ones(len(rows)), rcond=None)
    return max(float(fixed / scale[0]), 0.0), max(float(slope / scale[1]), 0.0)
