"""What a formula may know of the ranks it runs on, and how people call it."""

from functools import cache
from typing import Literal, NamedTuple, assert_never, get_args

from colltool.base.errors import given

Topology = Literal["star", "full_mesh", "clos", "tiers", "lattice_tiers", "torus", "mesh"]
JoinedBy = Literal["switches", "pair_links", "neighbour_links", "tiers"]


class _Words(NamedTuple):
    """A topology: what joins its ranks, and how people call it."""

    joined_by: JoinedBy
    here: str


def _words(topology: Topology) -> _Words:
    match topology:
        case "star":
            return _Words("switches", "a star")
        case "full_mesh":
            return _Words("pair_links", "a full mesh")
        case "clos":
            return _Words("switches", "a Clos")
        case "tiers":
            return _Words("tiers", "a group over several tiers")
        case "lattice_tiers":
            return _Words("tiers", "a group over several tiers, one of them a lattice")
        case "torus":
            return _Words("neighbour_links", "a torus")
        case "mesh":
            return _Words("neighbour_links", "a mesh")
        case _:
            assert_never(topology)


_WORDS: dict[Topology, _Words] = {topology: _words(topology) for topology in get_args(Topology)}


def joined_by(topology: Topology) -> JoinedBy:
    return _WORDS[topology].joined_by


def _joined(*by: JoinedBy) -> frozenset[Topology]:
    return frozenset(topology for topology, words in _WORDS.items() if words.joined_by in by)


SWITCHED = _joined("switches")
FULL_MESH = _joined("pair_links")
ONE_TIER = _joined("switches", "pair_links")
ANY_TO_ANY: frozenset[Topology] = ONE_TIER | {"tiers"}
LATTICE = _joined("neighbour_links")
SEVERAL_TIERS = _joined("tiers")


@cache
def needs(topologies: frozenset[Topology]) -> str:
    """Where an algorithm runs, in words: what to print when it does not."""
    if topologies == SEVERAL_TIERS:
        return "needs a group over several tiers"
    *others, last = [words.here for topology, words in _WORDS.items() if topology in topologies - SEVERAL_TIERS]
    return f"needs {', '.join(others)} or {last}" if others else f"needs {last}"


class Axis(NamedTuple):
    """One axis of a lattice: ``size`` ranks in line, closed to a ring where ``wrap``."""

    size: int
    wrap: bool

    @property
    def is_ring(self) -> bool:
        """Whether the wraparound is a link of its own: not below three ranks."""
        return self.wrap and self.size >= 3

    def ring_steps(self, *, one_port: bool) -> int:
        """Steps once round it in one direction; of an open line from both ends at once.

        On one port a rank in the middle of a line sends one way after the other: ceil(d/2) of the d-1 steps take twice as long
        (executed; a bound of twice the bytes is often quoted).
        """
        in_turn = one_port and self.size > 2 and not self.is_ring
        return self.size - 1 + (-(-self.size // 2) if in_turn else 0)


class Group(NamedTuple):
    """All that a formula may know of the ranks it runs on.

    Args:
        ranks: N, at least 2.
        topology: what joins them.
        axes: the lattice's axes; empty elsewhere.
        scale_out: whether the ranks sit one to a node (a network), not inside one node.
        switch: what the switches compute: ``reduce``, ``multicast``, ``all_to_all``.
        switch_levels: k, levels of the aggregation tree.
        switch_groups: groups that compute in those switches at once, this one among them.
        switch_room: for how many they have room; None: for any number.
        tree_beta: c, the double binary tree's n_β.
        posts_cost: whether the fabric says what each further message takes of those that a rank posts at once.
        one_port: a rank drives one port or link at a time, and posts one message after the other.
        servers: K, machines apart from the ranks that a parameter server has.
    """

    ranks: int
    topology: Topology
    axes: tuple[Axis, ...] = ()
    scale_out: bool = False
    switch: frozenset[str] = frozenset()
    switch_levels: int = 1
    switch_groups: int = 1
    switch_room: int | None = None
    tree_beta: float = 2.0
    posts_cost: bool = False
    one_port: bool = False
    servers: int = 1

    @property
    def joined_by(self) -> JoinedBy:
        return _WORDS[self.topology].joined_by

    @property
    def spoken(self) -> str:
        return _WORDS[self.topology].here

    @property
    def dedicated(self) -> bool:
        return self.joined_by == "pair_links"


def power_of_two(group: Group) -> str | None:
    """Partners at distances 1, 2, 4 ... must all exist."""
    return None if group.ranks & (group.ranks - 1) == 0 else f"needs a power-of-two rank count, got {group.ranks}"


def all_ports(group: Group) -> str | None:
    """What drives several links of a rank at once."""
    return f"drives several links of a rank at once, and {given('ports', 'one')} has one" if group.one_port else None
