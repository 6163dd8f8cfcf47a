"""Rows of a machine of one's own: each measured time over the price of wires, contention and
library, as a machine file.

One row a series will do; three, at about 4 KB, 8 MB and 1 GB, take two fifths off the error of all
other sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import log
from typing import NamedTuple

from colltool.base.errors import ColltoolError, given
from colltool.calibration.series_prices import check_fits, own_names
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import Readings
from colltool.estimate.groups import PlacedGroup
from colltool.estimate.library_pick import hardware_of, with_library_choice
from colltool.estimate.price import price
from colltool.fabric.ground import media_of, scope_of
from colltool.fabric.model import Fabric
from colltool.fabric.own_machine import on_machine
from colltool.libraries.nccl.hardware import ALGORITHMS, PROTOCOLS
from colltool.libraries.nccl.rules import spec_of
from colltool.logs.nccl_debug import debug_lines
from colltool.logs.series import Measurements, Point, Series
from colltool.machines.factor import MeasuredMachine
from colltool.machines.own import SCHEMA, MachineFile, MachineRow, Media, machine_of, machine_text

LIBRARY = Readings(numbers="library")
"""Wires, contention and library: what a machine's rows are held against."""

_TUNER_NAMES = {name.replace("_", ""): name for name in ALGORITHMS}
"""NCCL_ALGO's spelling, in lower case, beside that of tuner files."""


class Forced(NamedTuple):
    """What a log says ran whatever the size; empty where it does not. ``spec``: our schedule of
    NCCL's algorithm."""

    algorithm: str = ""
    protocol: str = ""
    spec: str = ""


class SeriesRows(NamedTuple):
    """The rows of one series."""

    series: Series
    scope: str
    forced: Forced
    rows: tuple[MachineRow, ...]

    @property
    def off(self) -> float:
        """The mean of |ln(measured / priced)|."""
        return sum(abs(row.r) for row in self.rows) / len(self.rows)


class OwnRows(NamedTuple):
    """A machine file, the machine that it makes, and the series it is made of."""

    text: str
    file: MachineFile
    machine: MeasuredMachine
    series: tuple[SeriesRows, ...]

    @property
    def total(self) -> int:
        return len(self.file.rows)


def _file(fabric: Fabric, name: str, media: Media, series: Sequence[SeriesRows]) -> MachineFile:
    from colltool.calibration.own_protocols import protocol_rows

    return MachineFile.model_validate(
        {
            "schema": SCHEMA,
            "name": name,
            "fabric": fabric.name,
            "device": fabric.device,
            "media": media,
            "protocols": protocol_rows(fabric, series),
            "rows": tuple(row for measured in series for row in measured.rows),
        }
    )


def own_rows(
    fabric: Fabric, measurements: Measurements, name: str, algorithms: Sequence[str] = ()
) -> OwnRows:
    """The machine file of measured series.

    Args:
        fabric: where they ran.
        name: of the machine.
        algorithms: what ran; where empty what the log forces, else the library's pick.

    Raises:
        ColltoolError: logs without a series, ranks that the fabric does not hold, a medium that
            nothing tells.
    """
    media = _media(fabric)
    if not measurements.series:
        why = "; ".join(f"{left.reason} ({left.where})" for left in measurements.skipped)
        what = f"the logs hold no usable row{f': {why}' if why else ''}"
        raise ColltoolError(what, fix="measure again, and give the whole output of the benchmark")
    series = tuple(_series_rows(fabric, measured, algorithms) for measured in measurements.series)
    file = _file(fabric, name, media, series)
    return OwnRows(machine_text(file), file, machine_of(file, shipped_machine(fabric)), series)


def shipped_machine(fabric: Fabric) -> MeasuredMachine | None:
    """The machine that ships for a fabric."""
    return None if fabric.machine is None or fabric.machine.file else fabric.machine


def with_rows(fabric: Fabric, own: OwnRows) -> Fabric:
    """The fabric priced with its own rows."""
    return on_machine(fabric, own.machine)


def _media(fabric: Fabric) -> Media:
    found = media_of(fabric)
    unknown = next(
        (tier.name for tier, medium in zip(fabric.tiers, found, strict=True) if medium is None),
        None,
    )
    if unknown is not None:
        what = f"nothing tells what the wires of {unknown} are"
        fix = f"say so in the file, or with {given('overrides', [f'{unknown}.medium=nvlink4'])}"
        raise ColltoolError(what, argument="fabric", fix=fix)
    names = [medium.name for medium in found if medium is not None]
    return Media(inside=names[0], outside=names[-1] if len(names) > 1 else None)


def _series_rows(fabric: Fabric, series: Series, algorithms: Sequence[str]) -> SeriesRows:
    placed = check_fits(fabric, series)
    scope = scope_of(fabric, [span.tier.name for span in placed.spans])
    forced = _named(series, algorithms) if algorithms else _forced(placed, series)
    rows = tuple(
        MachineRow(
            primitive=series.primitive,
            scope=scope,
            ranks=series.ranks,
            bytes=point.bytes,
            time=f"{point.seconds * 1e6:.9g}us",
            r=log(point.seconds / _library_s(fabric, series, point, forced)),
        )
        for point in series.points
    )
    return SeriesRows(series, scope, forced, rows)


def _named(series: Series, algorithms: Sequence[str]) -> Forced:
    return Forced(spec=own_names(series, algorithms)[0])


def _forced(placed: PlacedGroup, series: Series) -> Forced:
    """The one algorithm or protocol that the variables of a log leave to NCCL; none where they
    leave it a choice."""
    said: dict[str, str] = {}
    with suppress(ColltoolError):  # measurements of Python may name files that are no longer there
        said = dict(debug_lines(series.files).env)
    algorithm, protocol = said.get("NCCL_ALGO", "").lower(), said.get("NCCL_PROTO", "").lower()
    algorithm = _TUNER_NAMES.get(algorithm, algorithm)
    protocol = protocol if protocol in PROTOCOLS else ""
    if algorithm not in ALGORITHMS:
        return Forced(protocol=protocol)
    try:
        return Forced(
            algorithm, protocol, spec_of(algorithm, series.primitive, hardware_of(placed))
        )
    except ColltoolError:  # NCCL's model does not know the fabric
        return Forced(algorithm, protocol)


def _library_s(fabric: Fabric, series: Series, point: Point, forced: Forced) -> float:
    """Seconds by layers 1 to 3 of what ran."""
    try:
        found = price(
            fabric,
            series.primitive,
            float(point.bytes),
            series.ranks,
            LIBRARY,
            [forced.spec] if forced.spec else (),
        )
    except ColltoolError as error:
        raise ColltoolError(
            f"{series.title}: {error.what}", where=point.where, fix=error.fix
        ) from error
    if forced.protocol:
        under = [
            row
            for row in found.results
            if row.protocol and str(row.protocol).lower() == forced.protocol
        ]
        if under:
            return _seconds(under[0])
    # what it picks, not what is fastest on paper
    if not forced.spec and fabric.library_name == "nccl":
        (found,) = with_library_choice([found], fabric, LIBRARY, asked=False)
    return _seconds(found.best)


def _seconds(row: AlgorithmEstimate) -> float:
    return float(row.total_s)
