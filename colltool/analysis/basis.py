"""What the prices of several fabrics include, and where they differ; rendering turns the codes into
sentences.

Two times are comparable only if both contain the same terms: a launch overhead or contention that
only one file states is no difference between the machines.

:func:`common_layers` says by which layers of the model all fabrics can be priced; :func:`basis_of` what a
price then includes, :func:`basis_differences` and :func:`group_differences` where these differ;
:func:`software_differences` finds measured times that only some have. ``compare``, ``sweep`` and other
analyses of several fabrics ask.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from operator import attrgetter
from typing import Any, Literal, NamedTuple, get_args

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.formatting import shape_text
from colltool.base.primitives import Primitive
from colltool.estimate.accuracy import DATASHEET
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
from colltool.training.published import published_error

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
reported: a choice of ours."""


class PriceBasis(NamedTuple):
    """What the prices of a fabric include.

    Args:
        launch: seconds to start a call, None if the file does not say.
        protocols: whether measured protocols replace the tiers' own numbers.
        software: whether the library's measured efficiency or start-up is included.
        contention: whether every tier states its eta.
        library: empty for any.
        group: members per domain of each tier, innermost first, or one text of them where domains
            differ; empty for a whole fabric.
        slice: the part of the lattices used, in words; empty without.
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
        parts: each value with the names of the columns that have it.
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
    """Model options under which all fabrics are priced by the same layers, and the layers that this
    leaves out of some.

    Time of a machine or a library that is known of one side only is no difference between the two.
    """
    if readings.ideal:
        return readings, ()
    layers = [layers_of(fabric, primitives) for fabric in fabrics]
    least: Layer = min((*layers, readings.numbers), key=LAYERS.index)
    # alike already: the options stay as the user set them
    if set(layers) == {least}:
        return readings, ()
    common = readings._replace(numbers=least)
    # nothing is left out: all fabrics have the same, or the user's own option limits them
    if len(set(layers)) == 1 or LAYERS.index(least) >= LAYERS.index(readings.numbers):
        return common, ()
    parts = []
    for layer in LAYERS:
        having = tuple(
            name
            for name, layer_of_fabric in zip(names, layers, strict=True)
            if layer_of_fabric == layer
        )
        if having:
            parts.append((layer, having))
    return common, (BasisDifference("layers", tuple(parts)),)


def basis_of(
    fabric: Fabric, primitive: Primitive, group: GroupSpec, *, ideal: bool = False
) -> PriceBasis:
    """The basis of a primitive's price on a group."""
    placed = place(fabric, group)
    tiers = [span.tier for span in placed.spans]
    launch = None
    if launch_is_known(placed, primitive):
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
    # an axis of 2 is both
    rings_or_lines = [axis for axis in axes if axis.size > 2]
    open_sizes = [str(axis.size) for axis in rings_or_lines if not axis.wrap]
    if not open_sizes:
        return shape
    along = "" if len(open_sizes) == len(rings_or_lines) else f" along {', '.join(open_sizes)}"
    return f"{shape} (no wraparound{along})"


def basis_of_fabric(fabric: Fabric, *, ideal: bool) -> PriceBasis:
    """The basis of a fabric's prices whatever the primitive and the group."""
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
    """What differs between columns, in field order of :class:`PriceBasis`.

    Launches differ only if some column has none; slices only if several columns have one.
    """
    differences = []
    for code in get_args(Code):
        # the others are no field of a basis: they are found elsewhere
        if code not in PriceBasis._fields:
            continue
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
    states; 0 for the others."""
    launches = [basis.launch for basis in bases if basis is not None]
    most = max((launch for launch in launches if launch is not None), default=0.0)
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
    """Where software time has its largest share among the columns of a point."""

    software_s: float
    total_s: float
    bytes: float

    @property
    def share(self) -> float:
        return self.software_s / self.total_s


class PointTimes(NamedTuple):
    """Times of the columns at one point.

    Columns without a price, or priced by measured protocols (which include software time), are left
    out.
    """

    primitive: Primitive
    ranks: int
    bytes: float
    times: tuple[ColumnTime, ...]

    @property
    def software_parts(self) -> tuple[tuple[Any, tuple[str, ...]], ...]:
        """The parts of a :class:`BasisDifference` about software time: the largest one with the
        columns that have one, and None with the others. Empty if all or none have it."""
        having = [time for time in self.times if time.software_s]
        lacking = tuple(time.name for time in self.times if time.software_s is None)
        if not having or not lacking:
            return ()
        software_times = [
            LargestSoftwareTime(time.software_s or 0.0, time.total_s, self.bytes) for time in having
        ]
        largest = max(software_times, key=attrgetter("share"))
        return (largest, tuple(time.name for time in having)), (None, lacking)


def software_differences(points: Sequence[PointTimes]) -> Iterator[BasisDifference]:
    """Measured software time that only some columns have, at the size where its share is largest:
    one difference for each collective and division of the columns."""
    alike: dict[tuple[Any, ...], list[PointTimes]] = {}
    for point in points:
        if point.software_parts:
            names = tuple(having for _, having in point.software_parts)
            alike.setdefault((point.primitive, names), []).append(point)
    for (primitive, _), same_columns in alike.items():
        parts = [point.software_parts for point in same_columns]
        # the first of a point's parts has a LargestSoftwareTime as its value
        largest = max(parts, key=lambda of_point: of_point[0][0].share)
        ranks = tuple(dict.fromkeys(point.ranks for point in same_columns if point.ranks))
        yield BasisDifference("software_time", largest, (primitive,), ranks)


def group_differences(
    names: Sequence[str],
    fabrics: Sequence[Fabric],
    primitive: Primitive,
    groups: Sequence[GroupSpec],
    *,
    ideal: bool,
) -> Iterator[BasisDifference]:
    """What differs between fabrics on any of the groups, skipping fabrics on which a group does not
    fit."""
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
    """The basis of a price; None where the group does not fit."""
    try:
        return basis_of(fabric, primitive, group, ideal=ideal)
    except ColltoolError:
        return None


# Relative error of the collectives of a training step, most of which are of 8 to 128 MiB: the third size
# class of :data:`colltool.estimate.accuracy.CLASSES`.
_COLLECTIVES_ERROR = DATASHEET[2]


def step_error(network_share: float, *, same_device: bool) -> float:
    """The expected relative error of the ratio of two steps; on the same device the compute error
    cancels. ``network_share``: of the step's time."""
    published = published_error("all")
    # steps were published, so that all together have an error
    assert published is not None
    if not same_device:
        return published.median
    return min(published.median, network_share * _COLLECTIVES_ERROR)


def too_many(count: int, most: int) -> ColltoolError:
    """The error of a grid with more cells than its limit."""
    return ColltoolError(
        f"{count} cells, more than {most}",
        argument="limit",
        fix=f"fewer values on an axis, or {argument_text('limit', count)}",
    )
