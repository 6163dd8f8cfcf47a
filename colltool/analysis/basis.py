"""What the prices of several fabrics include, and where they differ; rendering turns the codes into
sentences.

Two times are comparable only if both contain the same terms: a launch overhead or contention that
only one file states is no difference between the machines.

:func:`common_layers` says by which layers of the model all fabrics can be priced; :func:`basis_of` what a
price then includes, :func:`basis_differences` and :func:`group_differences` where these differ;
:func:`software_differences` finds measured times that only some have. ``compare``, ``sweep`` and other
analyses of several fabrics ask. :data:`LAUNCH_SHARE`, their limit for launches, and :func:`too_many`,
their error for too large grids, are here because all of them import this module.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from operator import attrgetter
from typing import Any, Literal, NamedTuple, get_args

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.formatting import shape_text
from colltool.base.primitives import Primitive
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import place
from colltool.estimate.placement import GroupSpec
from colltool.estimate.protocol_notes import launch_is_known
from colltool.estimate.protocols import under_protocols
from colltool.estimate.running import library_of
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import domains_text
from colltool.libraries.numbers import ProtocolNumbers
from colltool.network.group import sizes_of
from colltool.network.twisted import is_twisted

Code = Literal[
    "layers",
    "launch",
    "protocols",
    "software",
    "contention",
    "library",
    "group",
    "slice",
    "software_time",
]

LAUNCH_SHARE = 0.1
"""Where one side lacks a launch overhead of more than this share of its time, the ratio is not
reported (:mod:`colltool.analysis.outcomes`): a choice of ours."""


class PriceBasis(NamedTuple):
    """What the prices of a fabric include.

    Args:
        launch: seconds to start a call, None if the file does not say.
        protocols: whether measured protocols replace the tiers' own numbers.
        software: whether the library's measured efficiency or start-up is included.
        contention: whether every tier states its eta.
        library: the communication library whose numbers the file has; empty for any.
        group: members per domain of each tier, innermost first; where domains differ in size one text
            instead, which lists these; empty for a whole fabric.
        slice: the part of the lattices (meshes and tori) used, ``4x4x4``; empty without any.
    """

    launch: float | None
    protocols: bool
    software: bool
    contention: bool
    library: str
    group: tuple[int | str, ...] = ()
    slice: str = ""


class BasisDifference(NamedTuple):
    """A difference in basis.

    Args:
        code: what differs: a field of :class:`PriceBasis`, ``layers`` or ``software_time``.
        parts: each value with the names of the columns that have it: the value of that field, a
            :data:`Layer`, or of software time a :class:`LargestSoftwareTime` or None.
        primitives, ranks: where it differs; empty: everywhere.
    """

    code: Code
    parts: tuple[tuple[Any, tuple[str, ...]], ...]
    primitives: tuple[Primitive, ...] = ()
    ranks: tuple[int, ...] = ()


Layer = Literal["datasheet", "library", "measured"]
LAYERS: tuple[Layer, ...] = get_args(Layer)
"""Values of the option ``numbers``, from the fewest layers of the model to all."""


def layers_of(fabric: Fabric, primitives: Collection[Primitive]) -> Layer:
    """The most layers that a fabric has: ``measured`` of a machine, a ``library``'s, or wires and
    contention (``datasheet``)."""
    if fabric.machine is not None:
        return "measured"
    has_library = any(
        tier.protocols_for(primitive) for tier in fabric.tiers for primitive in primitives
    )
    return "library" if has_library else "datasheet"


def common_layers(
    names: Sequence[str],
    fabrics: Sequence[Fabric],
    readings: ModelOptions,
    primitives: Collection[Primitive],
) -> tuple[ModelOptions, tuple[BasisDifference, ...]]:
    """Model options under which all fabrics are priced by the same layers; and where this leaves out
    layers that some have, one difference that says which fabric has which (else none).

    Time of a machine or a library that is known of one side only is no difference between the two.
    ``names`` has one for each fabric.
    """
    if readings.ideal:
        return readings, ()
    layers = [layers_of(fabric, primitives) for fabric in fabrics]
    least: Layer = min((*layers, readings.numbers), key=LAYERS.index)
    # nothing is left out: the user's own option limits all, or all have the same layers
    if least == readings.numbers or set(layers) == {least}:
        return readings, ()
    parts = []
    for layer in LAYERS:
        having = tuple(
            name
            for name, layer_of_fabric in zip(names, layers, strict=True)
            if layer_of_fabric == layer
        )
        if having:
            parts.append((layer, having))
    return readings._replace(numbers=least), (BasisDifference("layers", tuple(parts)),)


def basis_of(
    fabric: Fabric, primitive: Primitive, group: GroupSpec, *, ideal: bool = False
) -> PriceBasis:
    """The basis of a primitive's price on a group.

    An ``ideal`` price is one of wires alone: it has no software time, and lacks no contention.

    Raises:
        ColltoolError: the group does not fit the fabric, or its tiers have no protocol in common.
    """
    placed = place(fabric, group)
    tiers = [span.tier for span in placed.spans]
    launch = None
    if launch_is_known(placed, primitive):
        # what every price includes, whichever protocol is the fastest
        launch = min(protocol.overhead_s for protocol in under_protocols(placed, primitive))
    members: tuple[int | str, ...] = tuple(placed.placement.per_domain)
    if placed.domains:
        members = (domains_text(placed.domains),)
    return PriceBasis(
        launch=launch,
        protocols=any(tier.protocols_for(primitive) for tier in tiers),
        software=not ideal
        and any(primitive in figure.primitives for figure in fabric.efficiencies),
        contention=ideal or _contended(tiers),
        library=library_of(fabric),
        group=members,
        slice=" x ".join([shape for shape in map(_slice, tiers) if shape]),
    )


def _slice(tier: Tier) -> str:
    """``4x4x4``, plus the axes without wraparound, or that it is twisted; empty off lattices."""
    axes = capabilities_of(tier).axes
    shape = shape_text(sizes_of(axes))
    if is_twisted(axes):
        return f"{shape} twisted"
    # an axis of 2 has the same links as a ring and as a line
    rings_or_lines = [axis for axis in axes if axis.size > 2]
    open_sizes = [str(axis.size) for axis in rings_or_lines if not axis.wrap]
    if not open_sizes:
        return shape
    along = "" if len(open_sizes) == len(rings_or_lines) else f" along {', '.join(open_sizes)}"
    return f"{shape} (no wraparound{along})"


def basis_of_fabric(fabric: Fabric, *, ideal: bool) -> PriceBasis:
    """The basis of a fabric's prices whatever the primitive and the group: what any of its tiers
    states. ``group`` and ``slice`` are empty."""
    protocols: list[ProtocolNumbers] = []
    for tier in fabric.tiers:
        if tier.library:
            protocols += tier.library.protocols
    launches = [protocol.launch_s for protocol in protocols if protocol.launch_s is not None]
    if "launch_overhead" in fabric.model_fields_set:
        launches.append(fabric.launch_overhead)
    return PriceBasis(
        launch=min(launches, default=None),
        protocols=bool(protocols),
        software=not ideal and bool(fabric.efficiencies),
        contention=ideal or _contended(fabric.tiers),
        library=library_of(fabric),
    )


def _contended(tiers: Sequence[Tier]) -> bool:
    """Whether every tier states its contention."""
    return all("eta" in tier.model_fields_set for tier in tiers)


def basis_differences(
    names: Sequence[str], bases: Sequence[PriceBasis]
) -> tuple[BasisDifference, ...]:
    """What differs between columns, in field order of :class:`PriceBasis`; ``names`` has one for each
    basis.

    Launches differ only if some column has none; slices only if there are several different ones.
    """
    differences = []
    code: Any  # each field is a Code; the other codes are found elsewhere
    for code in PriceBasis._fields:
        parts: dict[Any, list[str]] = {}
        for name, basis in zip(names, bases, strict=True):
            parts.setdefault(getattr(basis, code), []).append(name)
        if len(parts) < 2 or (code == "launch" and None not in parts):
            continue
        if code == "slice" and len([shape for shape in parts if shape]) < 2:
            continue
        with_columns = tuple((value, tuple(having)) for value, having in parts.items())
        differences.append(BasisDifference(code, with_columns))
    return tuple(differences)


def joined(differences: Sequence[BasisDifference]) -> tuple[BasisDifference, ...]:
    """Equal differences as one, of all their primitives and rank counts."""
    by_parts: dict[tuple[Any, ...], BasisDifference] = {}
    for difference in differences:
        key = (difference.code, difference.parts)
        before = by_parts.get(key, difference)
        by_parts[key] = difference._replace(
            primitives=tuple(dict.fromkeys((*before.primitives, *difference.primitives))),
            ranks=tuple(dict.fromkeys((*before.ranks, *difference.ranks))),
        )
    return tuple(by_parts.values())


def launch_missing(bases: Sequence[PriceBasis | None]) -> Iterator[float]:
    """For each column that states no launch overhead, the largest one (seconds) that another column
    states; 0 for the others, which are those that state one and those without a price (None)."""
    stated = [basis.launch for basis in bases if basis and basis.launch is not None]
    most = max(stated, default=0.0)
    for basis in bases:
        states_none = basis is not None and basis.launch is None
        yield most if states_none else 0.0


class ColumnTime(NamedTuple):
    """A column's price at one point: seconds in all, and measured software seconds of these, None
    if not measured."""

    name: str
    total_s: float
    software_s: float | None


class LargestSoftwareTime(NamedTuple):
    """Where software time has its largest share among the columns of a point: the seconds of that
    column, and the size of the call."""

    software_s: float
    total_s: float
    bytes: float

    @property
    def share(self) -> float:
        """Software time over the whole time."""
        return self.software_s / self.total_s


class SoftwareSplit(NamedTuple):
    """The columns of a point that have software time and those that lack it, by name."""

    largest: LargestSoftwareTime
    having: tuple[str, ...]
    lacking: tuple[str, ...]


class PointTimes(NamedTuple):
    """Times of the columns at one point of a grid: a primitive on so many ranks (0: not said), of so
    many bytes.

    Columns without a price, or priced by measured protocols (which include software time), are left
    out.
    """

    primitive: Primitive
    ranks: int
    bytes: float
    times: tuple[ColumnTime, ...]

    @property
    def software_split(self) -> SoftwareSplit | None:
        """Which columns have software time. None if none has it or none lacks it.

        A column whose software time was measured as 0 neither has nor lacks it.
        """
        having = [time for time in self.times if time.software_s]
        lacking = tuple(time.name for time in self.times if time.software_s is None)
        if not having or not lacking:
            return None
        software_times = [
            LargestSoftwareTime(time.software_s or 0.0, time.total_s, self.bytes) for time in having
        ]
        largest = max(software_times, key=attrgetter("share"))
        return SoftwareSplit(largest, tuple(time.name for time in having), lacking)


def software_differences(points: Sequence[PointTimes]) -> Iterator[BasisDifference]:
    """Measured software time that only some columns have, at the size where its share is largest:
    one difference for each collective and division of the columns in those that have it and those
    that lack it."""
    by_division: dict[tuple[Any, ...], list[tuple[int, LargestSoftwareTime]]] = {}
    for point in points:
        split = point.software_split
        if split is not None:
            division = (point.primitive, split.having, split.lacking)
            by_division.setdefault(division, []).append((point.ranks, split.largest))
    for (primitive, having, lacking), alike in by_division.items():
        largest = max([software for _, software in alike], key=attrgetter("share"))
        ranks = tuple(dict.fromkeys(count for count, _ in alike if count))
        parts = (largest, having), (None, lacking)
        yield BasisDifference("software_time", parts, (primitive,), ranks)


def group_differences(
    names: Sequence[str],
    fabrics: Sequence[Fabric],
    primitive: Primitive,
    groups: Sequence[GroupSpec],
    *,
    ideal: bool,
) -> Iterator[BasisDifference]:
    """What differs between fabrics on each of the groups in turn, skipping fabrics on which a group
    does not fit. Equal differences of several groups come several times (see :func:`joined`)."""
    for group in groups:
        columns, bases = [], []
        for name, fabric in zip(names, fabrics, strict=True):
            basis = basis_or_none(fabric, primitive, group, ideal=ideal)
            if basis is not None:
                columns.append(name)
                bases.append(basis)
        ranks = (group.ranks,) if group.ranks else ()
        for difference in basis_differences(columns, bases):
            yield difference._replace(primitives=(primitive,), ranks=ranks)


def basis_or_none(
    fabric: Fabric, primitive: Primitive, group: GroupSpec, *, ideal: bool
) -> PriceBasis | None:
    """:func:`basis_of`; None where that raises."""
    try:
        return basis_of(fabric, primitive, group, ideal=ideal)
    except ColltoolError:
        return None


def too_many(count: int, most: int) -> ColltoolError:
    """The error of a grid of ``count`` cells, which is more than its limit."""
    return ColltoolError(
        f"{count} cells, more than {most}",
        argument="limit",
        fix=f"fewer values on an axis, or {argument_text('limit', count)}",
    )
