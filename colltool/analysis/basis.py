"""What the prices of several fabrics rest on, and where they differ; rendering turns the codes into
sentences.

Two times are comparable only if both contain the same terms: a launch overhead or contention that
only one file states is no difference between the machines.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal, NamedTuple, get_args

from colltool.base.errors import ColltoolError, given
from colltool.base.formatting import shape_text
from colltool.base.primitives import Primitive
from colltool.estimate.assumptions import Readings
from colltool.estimate.groups import library_of, place
from colltool.estimate.placement import GroupSpec
from colltool.estimate.protocols import launch_is_known, under_protocols
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import domains_text
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
reported."""


class PriceBasis(NamedTuple):
    """What the prices of a fabric rest on.

    ``launch``: seconds to start a call, None if the file does not say. ``protocols``: measured
    protocols replace the tiers' own numbers. ``software``: the library's measured efficiency or
    start-up is included. ``contention``: every tier states its eta.
    ``library``: empty for any. ``group``: members per domain of each tier, innermost first; empty
    for a whole fabric. ``slice``:
    the part of the lattices used.
    """

    launch: float | None
    protocols: bool
    software: bool
    contention: bool
    library: str
    group: tuple[int | str, ...] = ()
    slice: str = ""


class BasisDifference(NamedTuple):
    """A difference in basis: each value with the columns that have it. Empty ``primitives`` or
    ``ranks``: everywhere."""

    code: Code
    parts: tuple[tuple[Any, tuple[str, ...]], ...]
    primitives: tuple[Primitive, ...] = ()
    ranks: tuple[int, ...] = ()


Layer = Literal["datasheet", "library", "measured"]
LAYERS: tuple[Layer, ...] = get_args(Layer)
"""Readings of ``numbers``, from the fewest layers of the model to all."""


def layers_of(fabric: Fabric, primitives: Collection[Primitive]) -> Layer:
    """The most layers that a fabric has: ``measured`` of a machine, a ``library``'s, or wires and
    contention (``datasheet``)."""
    if fabric.machine is not None:
        return "measured"
    known = any(tier.protocols_for(primitive) for tier in fabric.tiers for primitive in primitives)
    return "library" if known else "datasheet"


def common_layers(
    names: Sequence[str],
    fabrics: Sequence[Fabric],
    readings: Readings,
    primitives: Collection[Primitive],
) -> tuple[Readings, tuple[BasisDifference, ...]]:
    """Readings under which primitives are priced by the layers that all fabrics have, and what that
    leaves out of some.

    A machine's or a library's own time that only one side is known to take is no difference between
    the two.
    """
    if readings.ideal:
        return readings, ()
    known = {
        name: layers_of(fabric, primitives) for name, fabric in zip(names, fabrics, strict=True)
    }
    least: Layer = min((*known.values(), readings.numbers), key=LAYERS.index)
    # alike already: what was asked for stands
    if all(layers == least for layers in known.values()):
        return readings, ()
    parts = {
        layers: tuple(name for name, own in known.items() if own == layers) for layers in LAYERS
    }
    told = tuple((layers, columns) for layers, columns in parts.items() if columns)
    differ = (
        (BasisDifference("layers", told),)
        if len(told) > 1 and LAYERS.index(least) < LAYERS.index(readings.numbers)
        else ()
    )
    return readings._replace(numbers=least), differ


def basis_of(
    fabric: Fabric, primitive: Primitive, group: GroupSpec, *, ideal: bool = False
) -> PriceBasis:
    """What the price of a primitive on a group rests on."""
    placed = place(fabric, group)
    known = launch_is_known(placed, primitive)
    tiers = [span.tier for span in placed.spans]
    return PriceBasis(
        launch=(
            min(under.overhead_s for under in under_protocols(placed, primitive)) if known else None
        ),
        protocols=any(tier.protocols_for(primitive) for tier in tiers),
        software=not ideal and any(primitive in one.primitives for one in fabric.efficiencies),
        contention=ideal or _contended(tiers),
        library=library_of(fabric),
        group=(
            (domains_text(placed.domains),)
            if placed.domains
            else tuple(placed.placement.per_domain)
        ),
        slice=" x ".join(filter(None, (_sliced(span.tier) for span in placed.spans))),
    )


def _sliced(tier: Tier) -> str:
    """``4x4x4``, plus the axes without wraparound (a ring of 2 is a line anyway), or that it is
    twisted; empty off lattices."""
    axes = capabilities_of(tier).axes
    if is_twisted(axes):
        return f"{shape_text([axis.size for axis in axes])} twisted"
    long = [axis for axis in axes if axis.size > 2]
    open_ = [str(axis.size) for axis in long if not axis.wrap]
    along = "" if len(open_) == len(long) else f" along {', '.join(open_)}"
    return shape_text([axis.size for axis in axes]) + (f" (no wraparound{along})" if open_ else "")


def basis_of_all(fabric: Fabric, *, ideal: bool = False) -> PriceBasis:
    listed = [row for tier in fabric.tiers if tier.library for row in tier.library.protocols]
    launches = [row.launch_s for row in listed if row.launch_s is not None]
    launches += [fabric.launch_overhead] if "launch_overhead" in fabric.model_fields_set else []
    return PriceBasis(
        launch=min(launches, default=None),
        protocols=bool(listed),
        software=not ideal and bool(fabric.efficiencies),
        contention=ideal or _contended(fabric.tiers),
        library=library_of(fabric),
    )


def _contended(tiers: Sequence[Tier]) -> bool:
    return all("eta" in tier.model_fields_set for tier in tiers)


def basis_differences(
    names: Sequence[str], grounds: Sequence[PriceBasis]
) -> tuple[BasisDifference, ...]:
    """What differs between columns, in field order of :class:`PriceBasis`.

    Launches differ only if some column has none; slices only if several columns have one.
    """
    found = []
    for code in (one for one in get_args(Code) if one in PriceBasis._fields):
        parts: dict[Any, list[str]] = {}
        for name, ground in zip(names, grounds, strict=True):
            parts.setdefault(getattr(ground, code), []).append(name)
        alone = {"launch": None not in parts, "slice": len([one for one in parts if one]) < 2}
        if len(parts) > 1 and not alone.get(code):
            found.append(
                BasisDifference(
                    code, tuple((value, tuple(several)) for value, several in parts.items())
                )
            )
    return tuple(found)


def joined(several: Sequence[BasisDifference]) -> tuple[BasisDifference, ...]:
    found: dict[tuple[Any, ...], BasisDifference] = {}
    for one in several:
        key = (one.code, one.parts)
        before = found.get(key, one)
        found[key] = one._replace(
            primitives=tuple(dict.fromkeys((*before.primitives, *one.primitives))),
            ranks=tuple(dict.fromkeys((*before.ranks, *one.ranks))),
        )
    return tuple(found.values())


def launch_missing(grounds: Sequence[PriceBasis | None]) -> tuple[float, ...]:
    """For each column that states no launch: the largest launch (seconds) that another one states;
    0 for the others."""
    most = max(
        (one.launch for one in grounds if one is not None and one.launch is not None), default=0.0
    )
    return tuple(most if one is not None and one.launch is None else 0.0 for one in grounds)


class PointTimes(NamedTuple):
    """Times of the columns at one point: (name, total seconds, software seconds of these or None if
    not measured).

    Columns without a price, or priced by measured protocols (which include software time), are left
    out.
    """

    primitive: Primitive
    ranks: int
    bytes: float
    took: tuple[tuple[str, float, float | None], ...]

    @property
    def told(self) -> tuple[tuple[Any, tuple[str, ...]], ...]:
        """The parts of a :class:`BasisDifference`, with the largest (software, total, bytes); empty
        if all or none have it."""
        having = [(fitted, total, name) for name, total, fitted in self.took if fitted]
        lacking = tuple(name for name, _, fitted in self.took if fitted is None)
        if not having or not lacking:
            return ()
        most = max(having, key=lambda one: one[0] / one[1])
        return (
            ((most[0], most[1], self.bytes), tuple(name for _, _, name in having)),
            (None, lacking),
        )


def software_differences(points: Sequence[PointTimes]) -> tuple[BasisDifference, ...]:
    """Measured software time that only some columns have, at the size where its share is
    largest."""
    found: dict[tuple[Any, ...], list[PointTimes]] = {}
    for point in points:
        if told := point.told:
            found.setdefault((point.primitive, tuple(names for _, names in told)), []).append(point)
    return tuple(
        BasisDifference(
            "software_time",
            max((one.told for one in several), key=lambda told: told[0][0][0] / told[0][0][1]),
            (primitive,),
            tuple(dict.fromkeys(one.ranks for one in several if one.ranks)),
        )
        for (primitive, _), several in found.items()
    )


def group_differences(
    names: Sequence[str],
    fabrics: Sequence[Fabric],
    primitive: Primitive,
    groups: Sequence[GroupSpec],
    *,
    ideal: bool = False,
) -> tuple[BasisDifference, ...]:
    """What differs between fabrics on any of the groups, skipping fabrics on which a group does not
    fit."""
    found: list[BasisDifference] = []
    for group in groups:
        grounds = [basis_or_none(fabric, primitive, group, ideal=ideal) for fabric in fabrics]
        both = [(name, one) for name, one in zip(names, grounds, strict=True) if one is not None]
        ranks = (group.ranks,) if group.ranks else ()
        found += [
            one._replace(primitives=(primitive,), ranks=ranks)
            for one in basis_differences([name for name, _ in both], [one for _, one in both])
        ]
    return tuple(found)


def basis_or_none(
    fabric: Fabric, primitive: Primitive, group: GroupSpec, *, ideal: bool = False
) -> PriceBasis | None:
    try:
        return basis_of(fabric, primitive, group, ideal=ideal)
    except ColltoolError:
        return None


_OF_A_STEP = 0.26
"""Error of a step's collectives, most of which are 8 to 128 MB."""


def step_error(network_share: float, *, same_device: bool) -> float:
    """Expected relative error of the ratio of two steps; on the same device the compute error
    cancels."""
    published = published_error("all")
    assert published is not None
    return min(published.median, network_share * _OF_A_STEP) if same_device else published.median


def too_many(count: int, most: int) -> ColltoolError:
    fix = f"fewer values on an axis, or {given('limit', count)}"
    return ColltoolError(f"{count} cells, more than {most}", argument="limit", fix=fix)
