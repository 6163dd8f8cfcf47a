"""The machine file of measured series: a row for each measured time, as its ratio to the price of
wires, contention and library.

:func:`machine_rows` is the entry. One row per series will do; three, at about 4 KB, 8 MB and 1 GB, take
two fifths off the error of all other sizes. What ran is what the user names, else what the log forces,
else the library's pick.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import log
from typing import NamedTuple

from colltool.base.errors import ColltoolError, argument_text
from colltool.calibration.log_fits import check_fits
from colltool.calibration.series_prices import applicable_names
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import PlacedGroup
from colltool.estimate.library_pick import with_library_choice
from colltool.estimate.nccl_hardware import hardware_of
from colltool.estimate.price import price
from colltool.fabric.model import Fabric
from colltool.fabric.tier_media import media_of, scope_of
from colltool.libraries.nccl.hardware import ALGORITHMS, PROTOCOLS
from colltool.libraries.nccl.names import spec_of
from colltool.logs.nccl_debug import debug_lines
from colltool.logs.series import Measurements, Point, Series
from colltool.machines.factor import MeasuredMachine
from colltool.machines.machine_file import (
    SCHEMA,
    MachineFile,
    MachineRow,
    Media,
    machine_of,
    machine_text,
)

# Wires, contention and library (layers 1 to 3): the prices that a machine's rows are compared with.
LIBRARY = ModelOptions(numbers="library")

# Names of tuner files by NCCL_ALGO's spelling in lower case: collnet_direct by collnetdirect.
_TUNER_NAMES = {name.replace("_", ""): name for name in ALGORITHMS}


class Forced(NamedTuple):
    """What NCCL's environment in a log forces at every size, or what the user says ran; empty where
    there is a choice.

    Args:
        algorithm, protocol: as NCCL's tuner files spell them.
        spec: our schedule of NCCL's algorithm.
    """

    algorithm: str = ""
    protocol: str = ""
    spec: str = ""


class SeriesRows(NamedTuple):
    """The rows of one series; ``scope`` names the tiers that it spans, as machine files do."""

    series: Series
    scope: str
    forced: Forced
    rows: tuple[MachineRow, ...]

    @property
    def mean_deviation(self) -> float:
        """The mean of |ln(measured / priced)|."""
        return sum(abs(row.r) for row in self.rows) / len(self.rows)


class MachineRows(NamedTuple):
    """A machine file with its text, the machine that it makes, and the series it is made of.

    Args:
        machine: as ``machine=`` of a price takes it: the shipped one, corrected by the rows.
    """

    text: str
    file: MachineFile
    machine: MeasuredMachine
    series: tuple[SeriesRows, ...]

    @property
    def total(self) -> int:
        """The number of rows."""
        return len(self.file.rows)


def machine_rows(
    fabric: Fabric, measurements: Measurements, name: str, algorithms: Sequence[str] = ()
) -> MachineRows:
    """The machine file of measured series.

    Args:
        fabric: where they ran.
        name: of the machine.
        algorithms: what ran; where empty what the log forces, else the library's pick.

    Raises:
        ColltoolError: logs without a series, ranks that the fabric does not hold, a tier whose
            medium is unknown.
    """
    from colltool.calibration.forced_protocols import protocol_rows

    media = _media(fabric)
    check_any(measurements, "the logs hold no usable row")
    series = [_series_rows(fabric, measured, algorithms) for measured in measurements.series]
    rows: list[MachineRow] = []
    for measured in series:
        rows += measured.rows
    file = MachineFile.model_validate(
        {
            "schema": SCHEMA,
            "name": name,
            "fabric": fabric.name,
            "device": fabric.device,
            "media": media,
            "protocols": protocol_rows(fabric, series),
            "rows": tuple(rows),
        }
    )
    # the user's rows correct the machine that ships for the fabric, not one from a user's file
    shipped = fabric.machine
    if shipped is not None and shipped.file:
        shipped = None
    return MachineRows(machine_text(file), file, machine_of(file, shipped), tuple(series))


def check_any(measurements: Measurements, what: str) -> None:
    """Refuse logs without a series.

    Args:
        what: the words of the error, which the reasons follow why records were skipped.

    Raises:
        ColltoolError: there is no series.
    """
    if measurements.series:
        return
    reasons = "; ".join(f"{skipped.reason} ({skipped.where})" for skipped in measurements.skipped)
    if reasons:
        what += f": {reasons}"
    raise ColltoolError(what, fix="measure again, and give the whole output of the benchmark")


def _media(fabric: Fabric) -> Media:
    """The media of the innermost and outermost tier; an error where one is unknown."""
    names = []
    for tier, medium in zip(fabric.tiers, media_of(fabric), strict=True):
        if medium is None:
            option = argument_text("overrides", [f"{tier.name}.medium=nvlink4"])
            raise ColltoolError(
                f"nothing tells what the wires of {tier.name} are",
                argument="fabric",
                fix=f"say so in the file, or with {option}",
            )
        names.append(medium.name)
    return Media(inside=names[0], outside=names[-1] if len(names) > 1 else None)


def _series_rows(fabric: Fabric, series: Series, algorithms: Sequence[str]) -> SeriesRows:
    """The rows of a series. ``algorithms`` are those that the user names; empty for those that the
    log forces."""
    placed = check_fits(fabric, series)
    scope = scope_of(fabric, [span.tier.name for span in placed.spans])
    if algorithms:
        forced = Forced(spec=applicable_names(series, algorithms)[0])
    else:
        forced = _forced(placed, series)
    rows = []
    for point in series.points:
        library_s = _library_s(fabric, series, point, forced)
        rows.append(
            MachineRow(
                primitive=series.primitive,
                scope=scope,
                ranks=series.ranks,
                bytes=point.bytes,
                time=f"{point.seconds * 1e6:.9g}us",
                r=log(point.seconds / library_s),
            )
        )
    return SeriesRows(series, scope, forced, tuple(rows))


def _forced(placed: PlacedGroup, series: Series) -> Forced:
    """The algorithm and protocol that NCCL_ALGO and NCCL_PROTO in a log force, each empty where
    NCCL has a choice."""
    variables: dict[str, str] = {}
    # measurements made in Python may name files that no longer exist
    with suppress(ColltoolError):
        variables = dict(debug_lines(series.files).env)
    algorithm = variables.get("NCCL_ALGO", "").lower()
    algorithm = _TUNER_NAMES.get(algorithm, algorithm)
    protocol = variables.get("NCCL_PROTO", "").lower()
    if protocol not in PROTOCOLS:
        protocol = ""
    if algorithm not in ALGORITHMS:
        return Forced(protocol=protocol)
    spec = ""
    # NCCL's model may not know the fabric
    with suppress(ColltoolError):
        spec = spec_of(algorithm, series.primitive, hardware_of(placed))
    return Forced(algorithm, protocol, spec)


def _library_s(fabric: Fabric, series: Series, point: Point, forced: Forced) -> float:
    """The seconds that wires, contention and library take for what ran.

    Raises:
        ColltoolError: nothing, or not what was forced, can run on the fabric.
    """
    only = [forced.spec] if forced.spec else []
    try:
        priced = price(fabric, series.primitive, float(point.bytes), series.ranks, LIBRARY, only)
    except ColltoolError as error:
        raise ColltoolError(
            f"{series.title}: {error.what}", where=point.where, fix=error.fix
        ) from error
    if forced.protocol:
        for row in priced.results:
            if str(row.protocol).lower() == forced.protocol:
                return float(row.total_s)
    # what the library picks, not what the model finds fastest
    if not forced.spec and fabric.library_name == "nccl":
        (priced,) = with_library_choice([priced], fabric, LIBRARY, required=False)
    return float(priced.best.total_s)
