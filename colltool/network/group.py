"""What a formula may know of the ranks it runs on."""

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


_WORDS: dict[Topology, tuple[JoinedBy, str]] = {
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
assert set(_WORDS) == set(get_args(Topology))


def joined_by(topology: Topology) -> JoinedBy:
    """What joins the endpoints of a topology."""
    return _WORDS[topology][0]


def _joined(*by: JoinedBy) -> frozenset[Topology]:
    return frozenset(topology for topology in _WORDS if joined_by(topology) in by)


SWITCHED = _joined("switches")
FULL_MESH = _joined("pair_links")
ONE_TIER = _joined("switches", "pair_links", "routes")
ANY_TO_ANY: frozenset[Topology] = ONE_TIER | {"tiers", "routed_tiers", "uneven_tiers"}
LATTICE = _joined("neighbour_links")
SEVERAL_TIERS = _joined("tiers")


@cache
def needs(topologies: frozenset[Topology]) -> str:
    """Where an algorithm runs, in words: what to print when it does not."""
    if topologies == {"uneven_tiers"}:
        return "needs domains of different sizes"
    if topologies <= SEVERAL_TIERS:
        return "needs a group over several tiers"
    *others, last = [
        here for topology, (_, here) in _WORDS.items() if topology in topologies - SEVERAL_TIERS
    ]
    return f"needs {', '.join(others)} or {last}" if others else f"needs {last}"


class Axis(NamedTuple):
    """An axis of a lattice: ``size`` ranks in line, closed to a ring where ``wrap``.

    ``twist``: of a twisted torus, how far on along each axis its wraparound lands; ``wrap`` is then
    false.
    """

    size: int
    wrap: bool
    twist: tuple[int, ...] = ()

    @property
    def is_ring(self) -> bool:
        """Whether the wraparound is a link of its own: from three ranks on."""
        return self.wrap and self.size >= 3

    @property
    def closed(self) -> bool:
        """Whether all its ranks have two links along it."""
        return self.is_ring or bool(self.twist)

    @property
    def diameter(self) -> int:
        """Links between the two ranks that are farthest apart on it."""
        return self.size // 2 if self.is_ring else self.size - 1

    def ring_steps(self, *, one_port: bool) -> int:
        """Steps once round it in one direction; on an open line from both ends at once.

        On one port a rank in the middle of a line sends one way after the other: ceil(d/2) of the
        d-1 steps take twice as long (executed; a bound of twice the bytes is often quoted).
        """
        steps = self.size - 1
        if one_port and self.size > 2 and not self.is_ring:
            steps += ceil_div(self.size, 2)
        return steps


def sizes_of(axes: Iterable[Axis]) -> tuple[int, ...]:
    """How many ranks each axis has."""
    return tuple(axis.size for axis in axes)


class Group(NamedTuple):
    """All that a formula may know of the ranks it runs on."""

    ranks: int  # N, at least 2
    topology: Topology
    axes: tuple[Axis, ...] = ()  # of a lattice
    hops: int = 1  # over several tiers: the most links that a message passes on the outermost
    scale_out: bool = False  # one rank to a node, on a network
    # what the switches compute: ``reduce``, ``multicast``, ``all_to_all``
    switch: frozenset[str] = frozenset()
    switch_levels: int = 1  # k, levels of the aggregation tree
    switch_groups: int = 1  # groups that compute in those switches at once, this one among them
    switch_room: int | None = None  # for how many groups they have room; None: any number
    tree_beta: float = 2.0  # c, the double binary tree's n_β
    # the fabric says what each further message takes of those that a rank posts at once
    posts_cost: bool = False
    # a rank drives one port or link at a time, and posts one message after the other
    one_port: bool = False
    servers: int = 1  # K, machines apart from the ranks that a parameter server has
    # On a routed tier: its links, scaled to one rank's part of them; how far apart its endpoints
    # that take part are; and whether the groups in between are idle.
    wires: Wires | None = None
    stride: int = 1
    alone: bool = False
    # Over domains of different sizes: the ranks of each; and whether every two ranks of a domain
    # have a link, over which what runs on rails is shared out.
    domains: tuple[int, ...] = ()
    spread: bool = False
    # Over several tiers: whether ranks at different places of their domains have no way to each
    # other but inside a domain.
    rail_only: bool = False
    # How many links the messages of every step are put on, where they are followed one by one: the
    # links of routed tiers, or the ports of domains of different sizes. 0: they are not.
    links: int = 0
    # Where they are followed: whether each flow is hashed to one of several planes.
    hashed: bool = False
    # Where they are followed: the pairs of ranks, or of switches, between which an exchange of all
    # with all is put on links.
    pairs: int = 0

    @property
    def joined_by(self) -> JoinedBy:
        return joined_by(self.topology)

    @property
    def label(self) -> str:
        """Its topology in words."""
        if self.topology == "torus" and any(axis.twist for axis in self.axes):
            return "a twisted torus"
        _, words = _WORDS[self.topology]
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
