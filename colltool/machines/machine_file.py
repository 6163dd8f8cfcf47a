"""A user's machine: measured rows in ``NAME.machine.yaml``, and the factor that a Gaussian process
makes of them.

:func:`read_machine_file` and :func:`machine_text` read and write the file, :func:`machine_of` makes a
:class:`~colltool.machines.factor.MeasuredMachine` of it.

Three rows of a primitive, at about 4 KB, 8 MB and 1 GB, take two fifths off the error of its other
sizes (ten clusters that the shipped factors had not seen; half of it where the series has no hump).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, log2, sqrt
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from colltool.base import formatting as fmt
from colltool.base.files import MACHINE_SUFFIX
from colltool.base.primitives import Primitive
from colltool.definitions.field_types import (
    Count,
    FieldHint,
    Label,
    Name,
    Part,
    PrimitiveName,
    Size,
    parsed_quantity,
)
from colltool.definitions.reader import Reading, read
from colltool.machines.factor import (
    INSIDE,
    SIZES,
    Borrowed,
    CustomProtocol,
    MachineFactor,
    MeasuredMachine,
)
from colltool.machines.smoother import (
    Observation,
    Posterior,
    Smooth,
    Smoother,
    posterior,
    rank_lines,
)

SCHEMA = "colltool.machine/1"
# A grid reaches this many doublings beyond the largest measured rank count: d is nearly 0 there.
BEYOND = 8
_MOST_ROWS = 5_000  # of a file: the fit grows with their cube
# Seconds: more than a day is no collective.
_MOST_SECONDS = 1e5


def _seconds(value: Any) -> float:
    """Seconds of a text such as ``412us``; a number without a unit is refused with ValueError, as
    pydantic has it."""
    if not isinstance(value, str):
        raise ValueError("expected text with a unit")
    return float(parsed_quantity(fmt.parse_time, value))


Seconds = Annotated[
    float,
    BeforeValidator(_seconds),
    Field(gt=0, le=_MOST_SECONDS),
    FieldHint("a time with its unit, such as 412us", "time"),
]
Wait = Annotated[
    float,
    BeforeValidator(_seconds),
    Field(ge=0, le=1),
    FieldHint("a time with its unit, such as 7us", "time"),
]
WireShare = Annotated[
    float, Field(gt=0, le=20), FieldHint("a share of the wire's rate, such as 0.8")
]
LogRatio = Annotated[
    float, Field(ge=-20, le=20), FieldHint("ln of measured over priced time, such as 0.13")
]
Deviation = Annotated[
    float, Field(gt=0, le=5), FieldHint("a standard deviation of ln time, such as 0.25")
]
Doublings = Annotated[float, Field(gt=0, le=100), FieldHint("a number of doublings, such as 8")]
Share = Annotated[float, Field(ge=0, le=1), FieldHint("a number from 0 to 1, such as 0.5")]


class MachineRow(Part):
    """One measurement.

    ``scope``: inside, or the outermost medium crossed. ``time``: as measured, in seconds; ``r``: ln of
    it over the price of wires, contention and library, without any machine's factor.
    """

    primitive: PrimitiveName
    scope: Name
    ranks: Count
    bytes: Size
    time: Seconds
    r: LogRatio


class SmootherSettings(Part):
    """How far a row speaks: of the variance of ``sigma`` 85% is one curve over sizes, 15% the
    scatter of rows around it.

    ``size_doublings``, ``rank_doublings``: over how many doublings the curve keeps its value. Of
    ten machines that others published, each known by three rows, 6 doublings of size missed the
    other rows least (3 to 10 tried). ``other_primitive``: the correlation with a primitive that was
    not measured.
    """

    sigma: Deviation | None = None
    size_doublings: Doublings = 6.0
    rank_doublings: Doublings = 3.0
    other_primitive: Share = 0.5


class Media(Part):
    """The medium inside a domain, and the one between domains if there is one."""

    inside: Name
    outside: Name | None = None


class ProtocolRow(Part):
    """A library's numbers under one algorithm and protocol that a log names or forces: launch, time
    a step, share of the wire."""

    primitive: PrimitiveName
    scope: Name
    algorithm: Name
    protocol: Literal["ll", "ll128", "simple"]
    launch: Wait
    step: Wait
    share: WireShare


class MachineFile(Part):
    """A machine's measured rows: what a calibration writes and ``--machine`` reads.

    ``fabric``: the one that ``r`` was worked out on. ``protocols``: what a tuner file reads.
    """

    format: Annotated[Literal["colltool.machine/1"], Field(alias="schema")]
    name: Name
    fabric: Name | None = None
    device: Label | None = None
    media: Media
    smoother: SmootherSettings = SmootherSettings()
    protocols: Annotated[tuple[ProtocolRow, ...], Field(max_length=_MOST_ROWS)] = ()
    rows: Annotated[
        tuple[MachineRow, ...],
        Field(min_length=1, max_length=_MOST_ROWS),
        FieldHint(
            "a list such as [{primitive: all_reduce, scope: roce, ranks: 64, bytes: 8MiB, time:"
            " 412us, r: 0.13}]"
        ),
    ]


# Default standard deviation of ln(measured / price) of a machine that was not measured, by scope: inside
# a domain, and across any medium.
SIGMA = {INSIDE: 0.1}
SIGMA_ACROSS = 0.25
# Share of that variance that is one curve over sizes; the rest is scatter of rows around it.
_CURVE = 0.85


def read_machine_file(content: str | Mapping[str, Any], name: str = "") -> MachineFile:
    """Return a machine file from its text or mapping; raises every error with its place."""
    reading: Reading[MachineFile] = read(MachineFile, content, name)
    return reading.result()


def machine_text(file: MachineFile) -> str:
    """Return a machine file as YAML, one line per row."""
    lines = [f"schema: {SCHEMA}", f"name: {file.name}"]
    if file.fabric:
        lines.append(f"fabric: {file.fabric}")
    if file.device:
        lines.append(f"device: {file.device}")
    outside = f", outside: {file.media.outside}" if file.media.outside else ""
    lines.append(f"media: {{inside: {file.media.inside}{outside}}}")
    settings = file.smoother.model_dump(exclude_defaults=True, exclude_none=True)
    if settings:
        pairs = ", ".join(f"{key}: {value:g}" for key, value in settings.items())
        lines.append(f"smoother: {{{pairs}}}")
    if file.protocols:
        lines += ["protocols:", *map(_protocol_text, file.protocols)]
    return "\n".join([*lines, "rows:", *map(_row_text, file.rows), ""])


def _protocol_text(row: ProtocolRow) -> str:
    """A row of ``protocols`` as a line of the file."""
    return (
        f"  - {{primitive: {row.primitive}, scope: {row.scope}, algorithm: {row.algorithm},"
        f" protocol: {row.protocol}, launch: {row.launch * 1e6:.6g}us, step:"
        f" {row.step * 1e6:.6g}us, share: {row.share:.6g}}}"
    )


def _row_text(row: MachineRow) -> str:
    """A row of ``rows`` as a line of the file."""
    time = f"{row.time * 1e6:.6g}us"
    return (
        f"  - {{primitive: {row.primitive}, scope: {row.scope}, ranks: {row.ranks}, bytes:"
        f" {row.bytes:.0f}, time: {time}, r: {row.r:.6g}}}"
    )


def machine_of(
    file: MachineFile, base: MeasuredMachine | None = None, path: str = ""
) -> MeasuredMachine:
    """Return a machine whose d (ln of measured over priced time) follows the rows of a file and goes to
    0, or to ``base``'s d, away from them.

    A row of one primitive also moves d of the others in its scope, by less. Scopes without a row keep
    the base's factors.

    Args:
        base: a shipped machine of the same device and media; the rows then correct it.
        path: of the file; empty for the name with the usual suffix.
    """
    # by primitive and scope; the prior is the standard deviation of d without rows, by scope
    factors: dict[tuple[str, str], MachineFactor] = {}
    prior: dict[str, float] = {}
    borrowed: dict[str, Borrowed] = {}
    if base is not None:
        factors |= base.factors
        prior |= base.prior
        borrowed |= base.borrowed
    for scope in dict.fromkeys(row.scope for row in file.rows):
        in_scope = [row for row in file.rows if row.scope == scope]
        smoother = machine_smoother(scope, file.smoother)
        prior[scope] = smoother.prior
        observed = [_observation(row, base) for row in in_scope]
        ranks = grid_ranks([row.ranks for row in in_scope])
        for primitive in map(str, Primitive):
            # posterior() looks at its primitive and scope alone
            target = Observation(primitive, scope, ranks=1, size=1.0, r=0.0, source="")
            grid = posterior(smoother, observed, target, ranks)
            if base is not None:
                grid = _on_base(grid, base, target, ranks)
            factors[primitive, scope] = MachineFactor(primitive, scope, rank_lines(grid, ranks))
    return MeasuredMachine(
        name=file.name,
        devices=(file.device,) if file.device else (),
        generation="",
        inside=file.media.inside,
        outside=(file.media.outside,) if file.media.outside else (),
        factors=factors,
        borrowed=borrowed,
        prior=prior,
        sources={file.name: len(file.rows)},
        file=path or f"{file.name}{MACHINE_SUFFIX}",
        protocols=tuple(map(_custom_protocol, file.protocols)),
    )


def _custom_protocol(row: ProtocolRow) -> CustomProtocol:
    """A row of ``protocols`` as a machine keeps it."""
    return CustomProtocol(
        primitive=str(row.primitive),
        scope=row.scope,
        algorithm=row.algorithm,
        protocol=row.protocol,
        launch_s=row.launch,
        step_s=row.step,
        share=row.share,
    )


def machine_smoother(scope: str, settings: SmootherSettings) -> Smoother:
    """Return the Gaussian process for the rows of one machine: they are of one source, so that d has
    no separate part for the source."""
    sigma = settings.sigma or SIGMA.get(scope, SIGMA_ACROSS)
    curve = Smooth(
        sd=sqrt(_CURVE) * sigma,
        size_doublings=settings.size_doublings,
        rank_doublings=settings.rank_doublings,
    )
    return Smoother(
        parts=(curve,),
        # without an effect: its lengths only must not be 0
        source=Smooth(sd=0.0, size_doublings=1.0, rank_doublings=1.0),
        noise=sqrt(1 - _CURVE) * sigma,
        other_primitive=settings.other_primitive,
    )


def grid_ranks(measured: Sequence[int]) -> list[int]:
    """Return the rank counts of a grid: doublings from 2 to :data:`BEYOND` past the largest measured
    one, and the measured ones."""
    doublings = range(1, ceil(log2(max(measured))) + BEYOND + 1)
    return sorted({*measured, *(2**doubling for doubling in doublings)})


def _observation(row: MachineRow, base: MeasuredMachine | None) -> Observation:
    """A row as an observation of its difference from the base."""
    base_d = base.d(row.primitive, row.scope, row.ranks, row.bytes) if base else 0.0
    return Observation(
        primitive=str(row.primitive),
        scope=row.scope,
        ranks=row.ranks,
        size=row.bytes,
        r=row.r - float(base_d),
        # any name: all rows of a file are of one owner
        source="own",
    )


def _on_base(
    correction: Posterior, base: MeasuredMachine, target: Observation, ranks: Sequence[int]
) -> Posterior:
    """The posterior of rows that differ from a base, with the base's d added."""
    import numpy as np

    sizes = np.array(SIZES, dtype=float)
    # shape (ranks, sizes)
    base_d = np.stack([base.d(target.primitive, target.scope, count, sizes) for count in ranks])
    return correction._replace(d=correction.d + base_d)
