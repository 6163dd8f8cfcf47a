"""The tiers of a fabric file whose messages are routed link by link: graph, dragonfly, dragonfly+ and
HyperX. What they can do is in ``routed`` and ``dragonfly``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count
from math import prod
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from colltool.definitions import field_types as ft
from colltool.definitions.field_types import (
    FieldError,
    FieldErrors,
    FieldHint,
    model_check,
    raise_errors,
)
from colltool.fabric import tier_parts as parts
from colltool.fabric.tier_base import TierBase
from colltool.fabric.tier_parts import Shape
from colltool.network.wires import Routing, hops_from

# What errors expect in place of a wrong value.
_EDGE = FieldHint(
    "the ends of a link, such as [0, 1], or a mapping such as {between: [0, 1], links: 2}"
)
_EDGES = FieldHint("a list of links, such as [[0, 1], {between: [1, 2], links: 2}]")
_LINKS = FieldHint("a mapping such as {bandwidth: 25GB/s, alpha: 0.3us, links: 2}")
_ROUTING = FieldHint("minimal, valiant or adaptive")
_AXES = FieldHint(
    "a list, one for each axis, such as [{bandwidth: 50GB/s}, {bandwidth: 25GB/s, links: 2, alpha:"
    " 1us}]"
)
_AXIS = FieldHint("a mapping such as {bandwidth: 50GB/s, links: 2, alpha: 1us}")

# Limits of a graph and of a HyperX, whose routes are followed one by one.
MOST_EDGES = 20_000
MOST_NODES = 1024
MOST_AXES = 5
# One-way links of a HyperX, each of which has its load in every step of a price.
MOST_AXIS_LINKS = 4_000_000
# Routes of a dragonfly: switches of a group times groups times the cables of a group; more take too
# long to follow.
MOST_ROUTES = 10_000_000


def _link(edge: tuple[int | str, int | str] | parts.GraphLink) -> parts.GraphLink:
    """A pair of ends as a link with the tier's numbers; a link as it is."""
    return edge if isinstance(edge, parts.GraphLink) else parts.GraphLink(between=edge)


class GraphTier(TierBase):
    """An explicit graph: ``edges`` join ranks, numbered from 0, and switches by name; ``alpha``,
    ``bandwidth`` are one link's.

    Messages take shortest paths, over ranks of the group and switches, spread evenly over equal
    ones.
    """

    topology: Literal["graph"]
    alpha: ft.Alpha
    edges: Annotated[
        tuple[
            Annotated[
                Annotated[tuple[parts.Node, parts.Node], _EDGE] | parts.GraphLink,
                AfterValidator(_link),
                _EDGE,
            ],
            ...,
        ],
        Field(min_length=1, max_length=MOST_EDGES),
        _EDGES,
    ]

    @property
    def links(self) -> tuple[parts.GraphLink, ...]:
        """Links as :func:`_link` made them of the file's ``edges``."""
        return tuple(edge for edge in self.edges if isinstance(edge, parts.GraphLink))

    @property
    def _ends(self) -> list[int | str]:
        """Both ends of every link, in the order of the file."""
        return list(chain.from_iterable(link.between for link in self.links))

    @property
    def endpoints(self) -> int:
        return 1 + max(end for end in self._ends if isinstance(end, int))

    @property
    def switch_names(self) -> tuple[str, ...]:
        """Names of the switches in the order of the file."""
        return tuple(dict.fromkeys(end for end in self._ends if isinstance(end, str)))

    @model_validator(mode="after")
    def _edges_agree(self) -> GraphTier:
        """Refuse a link from a rank to itself, ranks without a link, parts that no link joins, and a graph
        that is too large."""
        errors = []
        for index, link in enumerate(self.links):
            a, b = link.between
            if a == b:
                errors.append(
                    FieldError(f"joins {a} to itself", "two ends that differ", ("edges", index))
                )
            if any(isinstance(end, int) and end < 0 for end in link.between):
                what = "ranks are numbered from 0"
                errors.append(FieldError(what, "a rank from 0 on", ("edges", index)))
        raise_errors(errors)
        ranks = {end for end in self._ends if isinstance(end, int)}
        if not ranks or len(ranks) <= max(ranks):
            missing = next(rank for rank in count() if rank not in ranks)
            fix = "number the ranks from 0 without gaps"
            raise FieldErrors(FieldError(f"rank {missing} has no link", fix, ("edges",)))
        nodes = len(ranks) + len(self.switch_names)
        if nodes > MOST_NODES:
            what = f"{nodes} ranks and switches are more than {MOST_NODES}"
            raise FieldErrors(FieldError(what, "a smaller graph", ("edges",)))
        neighbours: dict[int | str, set[int | str]] = {}
        for link in self.links:
            a, b = link.between
            neighbours.setdefault(a, set()).add(b)
            neighbours.setdefault(b, set()).add(a)
        reached = hops_from(0, neighbours)
        if len(reached) < nodes:
            apart = next(end for end in neighbours if end not in reached)
            what = f"{apart} cannot be reached from rank 0"
            raise FieldErrors(FieldError(what, "join it by a link", ("edges",)))
        return self


class _GroupedTier(TierBase):
    """What dragonflies have in common; ``bandwidth`` is a rank's port, ``alpha`` of two endpoints
    at one switch."""

    alpha: ft.Alpha
    hosts: ft.Count
    switches_: Annotated[ft.Count, Field(alias="switches")]
    groups: ft.Count
    local: Annotated[parts.GroupLinks, _LINKS]
    global_: Annotated[parts.GroupLinks, Field(alias="global"), _LINKS]
    routing: Annotated[Routing, _ROUTING] = "adaptive"

    @property
    def endpoints(self) -> int:
        return self.hosts * self.switches_ * self.groups

    @property
    def spine_count(self) -> int:
        """Spines of a group; 0 where its switches are joined directly."""
        return 0

    @model_check
    def _not_too_large(self) -> Iterator[FieldError]:
        """Refuse more endpoints than any fabric has, or more routes than are followed."""
        if self.endpoints > ft.MAX_RANKS:
            what = f"{self.endpoints} endpoints are more than {ft.MAX_RANKS}"
            yield FieldError(what, "fewer groups", ("groups",))
            return
        # what the global links leave a group from: its spines, or its switches where it has none
        gateways = self.spine_count or self.switches_
        routes = self.groups * gateways * max(self.switches_, self.groups * self.global_.links)
        if routes > MOST_ROUTES:
            what = (
                f"{self.groups} groups of {gateways} switches and {self.global_.links} links to"
                f" each other group have {routes} routes to follow, more than {MOST_ROUTES}"
            )
            fix = "fewer groups, or fewer links of a higher bandwidth"
            yield FieldError(what, fix, ("groups",))


class DragonflyTier(_GroupedTier):
    """Groups of ``switches`` with ``hosts`` endpoints each; ``local`` links join the switches of a
    group, ``global`` ones groups.

    ``bandwidth`` is a rank's port, ``alpha`` that of two endpoints at one switch. ``routing``:
    minimal; valiant, by way of a random other group; adaptive, whichever of the two loads the
    busiest link less.
    """

    topology: Literal["dragonfly"]


class DragonflyPlusTier(_GroupedTier):
    """A dragonfly of leaves and spines: ``switches`` leaves a group, with ``hosts`` endpoints each,
    all joined to ``spines``.

    ``local`` links join every leaf to every spine of a group, ``global`` ones spines of every two
    groups.
    """

    topology: Literal["dragonfly_plus"]
    spines: ft.Count

    @property
    def spine_count(self) -> int:
        return self.spines


class HyperXTier(TierBase):
    """A HyperX: along each axis of ``shape`` a link between every two nodes that differ there
    alone.

    ``hosts``: endpoints with a port at each node, a switch; ``bandwidth`` is a port's, ``alpha``
    that of two at one switch.
    Without, the nodes are the endpoints, as in nested full meshes; both are then of a link.
    ``links``: of each axis, where they differ. Messages take shortest paths, spread over the orders
    of axes.
    """

    topology: Literal["hyperx"]
    alpha: ft.Alpha
    shape: Shape
    hosts: ft.Count | None = None
    links: (
        Annotated[
            tuple[Annotated[parts.AxisLinks, _AXIS], ...],
            Field(min_length=1, max_length=MOST_AXES),
            _AXES,
        ]
        | None
    ) = None

    @property
    def endpoints(self) -> int:
        return prod(self.shape) * (self.hosts or 1)

    @property
    def each_axis(self) -> tuple[parts.AxisLinks, ...]:
        """The links of each axis of ``shape``; with the tier's numbers where the file has none."""
        return self.links or (parts.AxisLinks(),) * len(self.shape)

    @model_check
    def _axes_agree(self) -> Iterator[FieldError]:
        """Refuse more endpoints, axes or links than are followed."""
        if self.endpoints > ft.MAX_RANKS:
            what = f"{self.endpoints} endpoints are more than {ft.MAX_RANKS}"
            yield FieldError(what, "shorten an axis", ("shape",))
        if len(self.shape) > MOST_AXES:
            what = f"{len(self.shape)} axes are more than {MOST_AXES}"
            yield FieldError(what, "fewer axes", ("shape",))
        links = prod(self.shape) * sum(size - 1 for size in self.shape)
        if self.endpoints <= ft.MAX_RANKS and links > MOST_AXIS_LINKS:
            what = f"{links} links are more than the {MOST_AXIS_LINKS} that are followed one by one"
            fix = "shorten an axis, or price a smaller part: each rank's share is much the same"
            yield FieldError(what, fix, ("shape",))
        if self.links is not None and len(self.links) != len(self.shape):
            what = f"has {len(self.links)} entries, the shape has {len(self.shape)} axes"
            yield FieldError(what, "give one for each axis", ("links",))
