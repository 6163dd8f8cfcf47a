"""Parts of a tier as pydantic models: contention, switches that compute, levels, protocols, sizing.

Numbers are SI once validated. Class docstrings go into the JSON Schema. First the parts, then what
tiers check of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from colltool.base.errors import ColltoolError, nearest
from colltool.base.formatting import shape_text
from colltool.base.primitives import SHORT, Primitive
from colltool.definitions import field_types as ft
from colltool.definitions.field_types import FieldError, FieldErrors, FieldHint, Part, model_check
from colltool.network.twisted import TWISTED_SHAPES, twisted_axes

# What errors expect in place of a wrong value; tiers use those without an underscore too.
ETA = FieldHint("a mapping such as {alpha: 1.2, beta: 0.8}")

_OWN_ETA = FieldHint(
    "a number from 0.000001 to 1, such as 0.52, or one by primitive, such as {all_reduce: 0.52}"
)
_LISTED = Field(min_length=1, max_length=ft.MAX_LISTED)
_OVERSUBSCRIPTION = FieldHint(
    "a number from 1 to 1000, such as 2, or hop by hop, such as {uplinks: 2}"
)
_LIMITS = FieldHint(
    "a mapping such as {operations: [sum, min, max], types: [bf16, fp32], alignment: 128B,"
    " groups: 64}"
)
Shape = Annotated[
    tuple[ft.Count, ...],
    Field(min_length=1, max_length=ft.MAX_DEPTH),
    FieldHint(f"a list of 1 to {ft.MAX_DEPTH} whole numbers, such as [8, 8, 4]", other_key="size"),
]


class Eta(Part):
    """Contention: ``alpha`` >= 1 multiplies latency, ``beta`` in (0, 1] is the share of bandwidth
    reached."""

    alpha: ft.Ratio = 1.0
    beta: ft.Fraction = 1.0


class Limits(Part):
    """What the switch hardware can handle; what is not listed is not limited.

    ``groups``: how many at a time; further collectives cannot run there. The others are printed
    beside prices, which do not know what is reduced.
    """

    operations: Annotated[
        tuple[ft.Name, ...] | None,
        _LISTED,
        FieldHint("a list of reductions, such as [sum, min, max]"),
    ] = None
    types: Annotated[
        tuple[ft.Name, ...] | None,
        _LISTED,
        FieldHint("a list of types, such as [bf16, fp16, fp32]"),
    ] = None
    alignment: ft.Size | None = None
    groups: ft.Count | None = None


class InNetwork(Part):
    """What a tier's switches compute: NVLS, SHARP, hardware all-to-all; ``protocols``: under which,
    default: all.

    ``eta_beta``: the share of bandwidth reached in them, a number for all-reduce or one by
    primitive; default: the tier's.
    """

    reduce: ft.Flag = False
    multicast: ft.Flag = False
    all_to_all: ft.Flag = False
    alpha_switch: ft.Alpha
    levels: Annotated[
        int | None,
        Field(ge=1, le=ft.MAX_DEPTH, strict=True),
        FieldHint(f"a whole number from 1 to {ft.MAX_DEPTH}"),
    ] = None
    eta_beta: Annotated[ft.Fraction | dict[ft.PrimitiveName, ft.Fraction] | None, _OWN_ETA] = None
    protocols: (
        Annotated[
            tuple[ft.Name, ...],
            _LISTED,
            FieldHint("a list of names of the tier's protocols, such as [Simple]"),
        ]
        | None
    ) = None
    limits: Annotated[Limits | None, _LIMITS] = None

    @property
    def switch_eta_beta(self) -> dict[Primitive, float]:
        """``eta_beta`` by primitive; empty if the tier's holds for all."""
        if self.eta_beta is None:
            return {}
        if isinstance(self.eta_beta, dict):
            return self.eta_beta
        return {Primitive.ALL_REDUCE: self.eta_beta}

    @field_validator("eta_beta", mode="before")
    @classmethod
    def _primitives_differ(cls, value: Any) -> Any:
        """Refuse a primitive under two of its names."""
        if isinstance(value, dict):
            check_named_once([key for key in value if isinstance(key, str)])
        return value


class Planes(Part):
    """Separate networks over which the links of every port are split evenly, such as eight of 100G
    for a NIC of 800G.

    ``failed``: of them, everywhere. ``spread``: ``spray`` sends every message over all planes that
    work, packet by packet; ``ecmp`` keeps each flow on one, so that a message has as many as it is
    striped over ``flows``, evenly at best.
    """

    count: Annotated[int, Field(ge=2, le=64, strict=True), FieldHint("a whole number from 2 to 64")]
    failed: Annotated[
        int, Field(ge=0, le=63, strict=True), FieldHint("a whole number of planes, such as 1")
    ] = 0
    spread: Literal["spray", "ecmp"] = "spray"
    flows: Annotated[
        int, Field(ge=1, le=1024, strict=True), FieldHint("a whole number from 1 to 1024")
    ] = 1

    @model_check
    def _some_planes_work(self) -> Iterator[FieldError]:
        """Refuse a tier without working planes, and flows where packets are sprayed."""
        if self.failed >= self.count:
            what = f"all {self.count} planes failed"
            yield FieldError(what, f"at most {self.count - 1}", ("failed",))
            return
        if self.flows > 1 and self.spread == "spray":
            what = "packets are sprayed over all planes, whatever the flows"
            yield FieldError(what, "write spread: ecmp", ("flows",))

    @property
    def working(self) -> int:
        """Number of planes that work."""
        return self.count - self.failed

    @property
    def share(self) -> float:
        """Share of a port's bandwidth in all planes that work."""
        return self.working / self.count

    def share_of(self, messages: float) -> float:
        """Return the share of a port's bandwidth that this many messages at once get: their flows
        spread evenly over the planes, and the fullest plane finishes last.

        Of 4 planes one failed: 4 flows leave two on the fullest, which takes as long as half a port.
        """
        if self.spread == "spray":
            return self.share
        flows = ceil(messages) * self.flows
        return flows / ceil(flows / self.working) / self.count


PLANES = FieldHint("a mapping such as {count: 8, failed: 1, spread: spray}")


class HopByHop(Part):
    """Oversubscription of one hop: of the switches below a boundary, the capacity of all downlinks
    over that of all uplinks.

    The total against the endpoints, which a plain number gives, is the product of the hops below.
    """

    uplinks: Annotated[ft.Ratio, FieldHint("a number from 1 to 1000, such as 2")]


class Level(Part):
    """One level of a Clos: ``group`` endpoints under one switch or pod, ``alpha`` of a pair that
    meets here.

    ``oversubscription`` of the boundary below it: a number is the bandwidth of all endpoints below
    over that of the uplinks that enter the level; ``{uplinks: 2}`` is the downlinks of the switches
    below over their uplinks, so that hops multiply. ``cable`` in metres, in the place of the
    tier's.
    """

    name: ft.Name
    group: ft.Count
    alpha: ft.Alpha
    oversubscription: Annotated[ft.Ratio | HopByHop, _OVERSUBSCRIPTION] = 1.0
    cable: ft.Cable | None = None


Node = Annotated[
    int | ft.Name,
    Field(union_mode="left_to_right"),
    FieldHint("a rank, such as 0, or the name of a switch, such as s1"),
]

_BETWEEN = FieldHint("the two ends, such as [0, 1] or [0, s1]")


class GraphLink(Part):
    """A cable of a graph: ``between`` two ranks or switches, ``links`` of them in parallel;
    default: the tier's numbers."""

    between: Annotated[tuple[Node, Node], _BETWEEN]
    links: ft.Count = 1
    bandwidth: ft.Bandwidth | None = None
    alpha: ft.Alpha | None = None


class GroupLinks(Part):
    """Cables of a dragonfly: ``bandwidth`` of one, shared by all ranks; ``alpha`` that passing one
    adds.

    ``links``: in parallel between two switches (``local``) or between two groups (``global``).
    """

    bandwidth: ft.Bandwidth
    alpha: ft.Alpha
    links: ft.Count = 1


class AxisLinks(Part):
    """What joins two nodes of a HyperX along an axis: ``links`` cables in parallel; default: the
    tier's numbers.

    ``alpha``: what passing it adds where nodes are switches; else a message's over one.
    """

    links: ft.Count = 1
    bandwidth: ft.Bandwidth | None = None
    alpha: ft.Alpha | None = None


class MeasuredRange(Part):
    """The sizes and rank counts at which numbers were measured; a price outside says so."""

    smallest: ft.Size
    largest: ft.Size
    ranks: (
        Annotated[tuple[ft.Count, ...], _LISTED, FieldHint("a list of rank counts, such as [4, 8]")]
        | None
    ) = None

    @model_validator(mode="after")
    def _ordered(self) -> MeasuredRange:
        """Refuse a range that is upside down."""
        if self.smallest > self.largest:  # no key of its own to blame: the whole range
            raise ValueError("smallest is above largest")
        return self


class Protocol(Part):
    """One way in which a library moves bytes on a tier, such as NCCL's LL, LL128 and Simple;
    default: the tier's numbers.

    ``local_copy``: the rate at which a rank moves its own M/N bytes, which cross no link.
    ``primitives`` restricts it: a primitive that some entries name uses only those. ``measured`` is
    never priced.
    """

    name: ft.Name
    launch_overhead: ft.Overhead | None = None
    alpha: ft.Alpha | None = None
    bandwidth: ft.Bandwidth | None = None
    eta: Annotated[Eta | None, ETA] = None
    local_copy: ft.Bandwidth | None = None
    measured: Annotated[
        MeasuredRange | None, FieldHint("a mapping such as {smallest: 1KiB, largest: 8GiB}")
    ] = None
    primitives: ft.PrimitiveNames | None = None


class Sizing(Part):
    """For ``fabric show`` to size a Clos of equal switches with ``radix`` ports, on separate
    ``rails``."""

    rails: ft.Count
    nics_per_rail: ft.Count
    radix: ft.Count


def check_algorithm(primitive: Primitive, name: str) -> None:
    """Raise an error unless ``--algorithm`` takes this name for a primitive. Behind a colon a composition
    may have its choices, ``hierarchical:ring/tree``, and an algorithm that is found on request a number,
    ``NAME:8``."""
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.algorithms.composed import compositions
    from colltool.algorithms.registry import find, on_request, usual_algorithms

    composed = [composition.name for composition in compositions(primitive)]
    base, colon, choice = name.partition(":")
    if base not in composed:
        takes_number = any(row.name == base for row in on_request())
        row = find(primitive, base if takes_number else name, composed)
        # The first nine digits say whether a number is 0; int() would refuse thousands of them.
        if colon and not (choice.isascii() and choice.isdecimal() and int(choice[:9])):
            raise ColltoolError(
                f"'{name}' has no number of {row.counts} behind its name", fix=f"such as {base}:8"
            )
        return
    known = sorted({algorithm.name for algorithm in usual_algorithms()})
    for part in choice.split("/") if colon else ():
        if part not in known:
            fix = nearest(part, known) or f"known: {', '.join(known)}"
            raise ColltoolError(f"no algorithm '{part}' in '{name}'", fix=fix)


def check_named_once(keys: Sequence[str]) -> None:
    """Raise an error if a mapping by primitive has two keys for the same one: ``ar`` and
    ``all_reduce``."""
    by_name = {short: primitive for primitive, short in SHORT.items()}
    by_name |= {str(primitive): primitive for primitive in SHORT}
    names = [by_name.get(key.lower().replace("-", "_")) for key in keys]
    for name in names:
        if name is not None and names.count(name) > 1:
            what = f"gives {name} twice, under two of its names"
            raise FieldErrors(FieldError(what, "keep one of the two"))


def first_repeated(names: Sequence[str]) -> int | None:
    """Return the index of the first name that has already occurred; None if all differ."""
    for index, name in enumerate(names):
        if name in names[:index]:
            return index
    return None


def oversubscription_totals(levels: Sequence[Level]) -> Iterator[float]:
    """Yield the oversubscription of each boundary against all endpoints below it: ``{uplinks: s}``
    multiplies, a plain number is the total.

    Of levels with 2 and then ``{uplinks: 2}`` it is 2 and 4; with 2 and 2 it stays 2.

    Source: Collectives Explainer Series part 03 §1, where s is that of one switch.
    """
    total = 1.0
    for level in levels:
        ratio = level.oversubscription
        if isinstance(ratio, HopByHop):
            total *= ratio.uplinks
        else:
            total = ratio
        yield total


def switch_errors(switch: InNetwork | None, listed: Sequence[Protocol]) -> Iterator[FieldError]:
    """Yield an error for each protocol of the switches that is none of those ``listed`` by the tier."""
    known = [protocol.name for protocol in listed]
    if switch is None or switch.protocols is None:
        return
    for index, name in enumerate(switch.protocols):
        if name not in known:
            what = f"names '{name}', protocols lists {', '.join(known) or 'none'}"
            fix = "name a protocol of this tier"
            yield FieldError(what, fix, ("in_network", "protocols", index))


def twist_errors(
    shape: Shape, wrap: tuple[bool, ...] | None, cube: int | None, *, torus: bool
) -> list[FieldError]:
    """Return why a lattice of this shape cannot be twisted; empty if it can."""
    if not torus:
        what = "a mesh has no wraparound to twist"
        return [FieldError(what, "write topology: torus, or leave out twist", ("twist",))]
    if wrap is not None:
        what = "a twisted torus is closed along every axis"
        return [FieldError(what, "leave out wrap, or twist", ("wrap",))]
    if twisted_axes(shape) is None:
        fix = f"write a shape of {TWISTED_SHAPES}, or leave out twist"
        return [FieldError(f"no twist is defined for {shape_text(shape)}", fix, ("twist",))]
    if cube is not None and any(size % cube for size in shape):
        what = f"{shape_text(shape)} is not whole cubes of {cube}, which alone have wraparound"
        fix = f"write multiples of {cube} along every axis, or leave out twist"
        return [FieldError(what, fix, ("twist",))]
    return []
