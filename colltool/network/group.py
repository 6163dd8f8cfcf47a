"""Topologies, axes of lattices, and :class:`Group`, which is all that a formula may know of its
ranks.

A topology is one tier's (``star`` ... ``dragonfly_plus``), or a group's over several tiers that flat
algorithms cross as one (``tiers``, ``lattice_tiers``, ``routed_tiers``, ``uneven_tiers``).

The functions at the end are requirements of algorithms: each returns why a group cannot run one, or
None. Their docstrings are printed by ``explain``.
"""

from collections.abc import Iterable
from functools import cache
from typing import Literal, NamedTuple, get_args

from colltool.base.errors import argument_text
from colltool.base.primitives import ceil_div
from colltool.network.wires import Wires

Topology = Literal[
    "star",
    "full_mesh",
    "clos",
    "tiers",
    "lattice_tiers",
    "routed_tiers",
    "uneven_tiers",
    "torus",
    "mesh",
    "graph",
    "hyperx",
    "dragonfly",
    "dragonfly_plus",
]
JoinedBy = Literal["switches", "pair_links", "neighbour_links", "routes", "tiers"]


# What joins the endpoints of each topology, and how sentences name it.
_TOPOLOGIES: dict[Topology, tuple[JoinedBy, str]] = {
    "star": ("switches", "a star"),
    "full_mesh": ("pair_links", "a full mesh"),
    "clos": ("switches", "a Clos"),
    "tiers": ("tiers", "a group over several tiers"),
    "lattice_tiers": ("tiers", "a group over several tiers, one of them a lattice"),
    "routed_tiers": ("tiers", "a group over several tiers, one of them routed link by link"),
    "uneven_tiers": ("tiers", "a group over domains of different sizes"),
    "torus": ("neighbour_links", "a torus"),
    "mesh": ("neighbour_links", "a mesh"),
    "graph": ("routes", "a graph of links"),
    "hyperx": ("routes", "a HyperX"),
    "dragonfly": ("routes", "a dragonfly"),
    "dragonfly_plus": ("routes", "a dragonfly+"),
}
assert set(_TOPOLOGIES) == set(get_args(Topology)), "every topology has its words here"


def joined_by(topology: Topology) -> JoinedBy:
    """What joins the endpoints of a topology."""
    return _TOPOLOGIES[topology][0]


def _all_joined_by(*kinds: JoinedBy) -> frozenset[Topology]:
    return frozenset(topology for topology in _TOPOLOGIES if joined_by(topology) in kinds)


# What an algorithm may say it runs on; ANY_TO_ANY is everything but lattices.
SWITCHED = _all_joined_by("switches")
FULL_MESH = _all_joined_by("pair_links")
ONE_TIER = _all_joined_by("switches", "pair_links", "routes")
ANY_TO_ANY: frozenset[Topology] = ONE_TIER | {"tiers", "routed_tiers", "uneven_tiers"}
LATTICE = _all_joined_by("neighbour_links")
SEVERAL_TIERS = _all_joined_by("tiers")


@cache
def needs(topologies: frozenset[Topology]) -> str:
    """What an algorithm of these topologies needs, for a group on which it does not run: ``needs a torus or
    a mesh``. Of topologies over several tiers beside others only the others are named."""
    if topologies == {"uneven_tiers"}:
        return "needs domains of different sizes"
    if topologies <= SEVERAL_TIERS:
        return "needs a group over several tiers"
    single = topologies - SEVERAL_TIERS
    *others, last = [words for topology, (_, words) in _TOPOLOGIES.items() if topology in single]
    return f"needs {', '.join(others)} or {last}" if others else f"needs {last}"


class Axis(NamedTuple):
    """An axis of a lattice."""

    size: int  # ranks
    wrap: bool  # closed to a ring by a link from the last rank to the first
    # On a twisted torus, how many places further along each axis its wraparound link ends; ``wrap``
    # is then false.
    twist: tuple[int, ...] = ()

    @property
    def is_ring(self) -> bool:
        """Whether the wraparound is another link than the ones between neighbours: from 3 ranks."""
        return self.wrap and self.size >= 3

    @property
    def closed(self) -> bool:
        """Whether every rank has two links along the axis."""
        return self.is_ring or bool(self.twist)

    @property
    def diameter(self) -> int:
        """Links between the two ranks of the axis that are farthest apart."""
        return self.size // 2 if self.is_ring else self.size - 1

    def ring_steps(self, *, one_port: bool) -> int:
        """Steps of an all-gather along the axis: round the ring in one direction, or from both ends
        of an open line at once.

        With one port a rank in the middle of a line sends in one direction after the other, so that
        ceil(d/2) of the d-1 steps take twice as long. Executing it shows that; often the bound of
        twice the bytes is quoted instead.
        """
        steps = self.size - 1
        if one_port and self.size > 2 and not self.is_ring:
            steps += ceil_div(self.size, 2)
        return steps


def sizes_of(axes: Iterable[Axis]) -> tuple[int, ...]:
    """The number of ranks on each axis."""
    return tuple(axis.size for axis in axes)


class Group(NamedTuple):
    """The ranks that a formula runs on: their number, what joins them, and what limits them."""

    ranks: int  # N, at least 2
    topology: Topology
    axes: tuple[Axis, ...] = ()  # of a lattice
    hops: int = 1  # over several tiers: the most links that a message passes on the outermost
    scale_out: bool = False  # one rank to a node, on a network
    # what the switches compute, of ``reduce``, ``multicast`` and ``all_to_all``
    switch: frozenset[str] = frozenset()
    switch_levels: int = 1  # k, levels of the aggregation tree
    switch_groups: int = 1  # groups that compute in those switches at once, this one among them
    switch_room: int | None = None  # for how many groups they have room; None: any number
    tree_beta: float = 2.0  # c, the double binary tree's n_β
    # Whether the fabric has a cost for each further message that a rank posts in a step.
    posts_cost: bool = False
    # A rank drives one port or link at a time, and posts one message after the other.
    one_port: bool = False
    servers: int = 1  # K, machines apart from the ranks that a parameter server has
    # On a routed tier: its links, with the bandwidth that one rank behind an endpoint has of them.
    wires: Wires | None = None
    stride: int = 1  # on a routed tier: distance between two consecutive endpoints of the group
    alone: bool = False  # on a routed tier: the endpoints in between are idle
    domains: tuple[int, ...] = ()  # ranks of each, where domains have different sizes
    # Only with ``domains``: every two ranks of a domain have a link of their own.
    spread: bool = False
    # Over several tiers: outer networks join only ranks at the same place of their domains.
    rail_only: bool = False
    # How many links routed tiers have, or ports domains of different sizes, where every message is put
    # on its links; 0: it is not, distances alone give the cost. The next two fields are for groups with
    # ``links``.
    links: int = 0
    hashed: bool = False  # each flow is hashed to one of several planes
    pairs: int = 0  # pairs of ranks, or of their switches, that an all-to-all exchange joins

    @property
    def joined_by(self) -> JoinedBy:
        return joined_by(self.topology)

    @property
    def label(self) -> str:
        """The topology in words."""
        if self.topology == "torus" and any(axis.twist for axis in self.axes):
            return "a twisted torus"
        _, words = _TOPOLOGIES[self.topology]
        return words

    @property
    def dedicated(self) -> bool:
        """Whether every two ranks have a link of their own."""
        return self.joined_by == "pair_links"


def power_of_two(group: Group) -> str | None:
    """Partners at distances 1, 2, 4 ... must all exist."""
    if group.ranks & (group.ranks - 1):
        return f"needs a power-of-two rank count, got {group.ranks}"
    return None


def all_ports(group: Group) -> str | None:
    """Ranks that drive several links at once."""
    if group.one_port:
        return (
            f"drives several links of a rank at once, and {argument_text('ports', 'one')} has one"
        )
    return None
