"""The registry: every algorithm by (primitive, name), with where it runs, what it needs, who ships it and its source.

A formula is registered where it stands and looked up only here. Its docstring is what ``colltool explain`` prints.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal, NamedTuple, assert_never, get_args

from colltool.cost import Schedule, Terms
from colltool.errors import ColltoolError, nearest
from colltool.primitives import SHORT, Primitive

Topology = Literal["star", "full_mesh", "clos", "tiers", "lattice_tiers", "torus", "mesh"]
Status = Literal["shipped", "reference", "idealised", "hypothetical"]
STATUSES: tuple[Status, ...] = get_args(Status)
"""From what somebody can run today to what no hardware does."""

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
    """What joins the ranks: switches, a link for each pair, links between neighbours, or several tiers."""
    return _WORDS[topology].joined_by


def _joined(*by: JoinedBy) -> frozenset[Topology]:
    return frozenset(topology for topology, words in _WORDS.items() if words.joined_by in by)


SWITCHED = _joined("switches")
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


class Group(NamedTuple):
    """All that a formula may know of the ranks it runs on.

    Args:
        ranks: N, at least 2.
        topology: what joins them.
        axes: the lattice's axes; empty elsewhere.
        scale_out: whether the ranks sit one to a node (a network), not inside one node.
        switch: what the switches compute: ``reduce``, ``multicast``, ``all_to_all``.
        switch_levels: k, levels of the aggregation tree.
        tree_beta: c, the double binary tree's n_β.
    """

    ranks: int
    topology: Topology
    axes: tuple[Axis, ...] = ()
    scale_out: bool = False
    switch: frozenset[str] = frozenset()
    switch_levels: int = 1
    tree_beta: float = 2.0

    @property
    def joined_by(self) -> JoinedBy:
        """What joins the ranks."""
        return _WORDS[self.topology].joined_by

    @property
    def dedicated(self) -> bool:
        """Whether every pair of ranks has a link of its own."""
        return self.joined_by == "pair_links"


class Caveat(NamedTuple):
    """What a group makes of an algorithm: another status than its row's, and why."""

    status: Status
    note: str


Formula = Callable[[Group], Terms | Schedule]
Requirement = Callable[[Group], str | None]
Caveats = Callable[[Group], Caveat | None]


def leads(status: Status) -> bool:
    """Whether a schedule may be called the fastest: only one that somebody can run."""
    return status == "shipped"


def _no_caveat(_group: Group) -> None:
    return None


class Algorithm(NamedTuple):
    """One row: an algorithm for one primitive.

    Args:
        name: as ``--algorithm`` takes it.
        primitive: what it computes.
        topologies: where it runs.
        formula: Group -> coefficients; its docstring explains it.
        requires: predicates, each giving the reason why a group cannot run it, or None.
        status: shipped, reference (textbook or research), idealised (executed, it costs more than its formula on real wiring),
            hypothetical (no such hardware).
        shipped_by: libraries that run it.
        source: where the formula comes from.
        note: what a reader of its price should know.
        mirror: the name of the all-gather that undoes this reduce-scatter.
        baseline: a flat schedule that compositions are to beat: ``breakdown`` shows it.
        usual: what ``crossover`` compares unless told, the first of them with the others.
        in_switch: the switches do the work, so the bounds of endpoint-driven schedules say nothing.
        caveat: another status on some groups.
    """

    name: str
    primitive: Primitive
    topologies: frozenset[Topology]
    formula: Formula
    requires: tuple[Requirement, ...]
    status: Status
    shipped_by: tuple[str, ...]
    source: str
    note: str
    mirror: str
    baseline: bool
    usual: bool
    in_switch: bool
    caveat: Caveats

    def status_on(self, group: Group) -> Status:
        """The status on a group."""
        caveat = self.caveat(group)
        return caveat.status if caveat else self.status

    def notes_on(self, group: Group) -> list[str]:
        """What a reader of its price on a group should know."""
        caveat = self.caveat(group)
        return [note for note in (self.note, caveat.note if caveat else "") if note]

    def schedule(self, group: Group) -> Schedule:
        """The formula's terms, always as a tuple."""
        terms = self.formula(group)
        return (terms,) if isinstance(terms, Terms) else terms

    def why_not(self, group: Group) -> str | None:
        """The reason why this group cannot run it, or None."""
        if group.topology not in self.topologies:
            return f"{needs(self.topologies)}; this is {_WORDS[group.topology].here}"
        return next((reason for requirement in self.requires if (reason := requirement(group))), None)


_ROWS: dict[tuple[Primitive, str], Algorithm] = {}

OTHER_NAMES = {
    "nvls": "in-network",
    "sharp": "in-network",
    "collnet": "in-network",
    "nvlstree": "hierarchical:in-network/double-binary-tree",
    "dbt": "double-binary-tree",
    "rhd": "rabenseifner",
    "halving-doubling": "rabenseifner",
    "allpairs": "two-shot",
    "linear": "direct",
    "van-de-geijn": "scatter-allgather",
}
"""What libraries and papers call some of them; an error answers with our name."""


def algorithm(
    name: str,
    *primitives: Primitive,
    on: frozenset[Topology],
    source: str,
    requires: tuple[Requirement, ...] = (),
    shipped_by: tuple[str, ...] = (),
    status: Status | None = None,
    note: str = "",
    mirror: str = "",
    baseline: bool = False,
    usual: bool = False,
    in_switch: bool = False,
    caveat: Caveats = _no_caveat,
) -> Callable[[Formula], Formula]:
    """Register a formula for its primitives. Without ``status``: shipped if somebody ships it, else reference."""

    def register(formula: Formula) -> Formula:
        for primitive in primitives:
            if (primitive, name) in _ROWS:
                raise ValueError(f"{name} is registered twice for {primitive}")
            _ROWS[primitive, name] = Algorithm(
                name=name,
                primitive=primitive,
                topologies=on,
                formula=formula,
                requires=requires,
                status=status or ("shipped" if shipped_by else "reference"),
                shipped_by=shipped_by,
                source=source,
                note=note,
                mirror=mirror or name,
                baseline=baseline,
                usual=usual,
                in_switch=in_switch,
                caveat=caveat,
            )
        return formula

    return register


def algorithms(primitive: Primitive) -> list[Algorithm]:
    """Every algorithm of a primitive, in registry order."""
    return [row for row in _ROWS.values() if row.primitive is primitive]


def row_of(primitive: Primitive, name: str) -> Algorithm | None:
    """The row of that name, or None."""
    return _ROWS.get((primitive, name))


def find(primitive: Primitive, name: str, also: Sequence[str] = ()) -> Algorithm:
    """The row of that name; ``also`` are names beside the registry that an error should offer.

    Raises:
        ColltoolError: no such algorithm for this primitive; names those that exist.
    """
    row = row_of(primitive, name)
    if row is not None:
        return row
    known = [*(row.name for row in algorithms(primitive)), *also]
    others = [SHORT[other] for other, key in _ROWS if key == name]
    hint = nearest(name, known)
    if name.lower() in OTHER_NAMES:
        hint = f"that is '{OTHER_NAMES[name.lower()]}' here."
    elif others:
        hint = f"'{name}' is an algorithm of {', '.join(others)}."
    fix = f"{hint} known for {SHORT[primitive]}: {', '.join(known)}".strip()
    raise ColltoolError(f"no algorithm '{name}' for {primitive.spoken}", fix=fix)


Approximation = Callable[[int, float, float], dict[str, float]]
_APPROXIMATIONS: dict[tuple[Primitive, str, str], Approximation] = {}


def textbook_crossover(primitive: Primitive, one: str, other: str) -> Callable[[Approximation], Approximation]:
    """Register what textbooks say of the size at which two algorithms cross: (N, α in s, BW in bytes/s) -> bytes by formula."""

    def register(sizes: Approximation) -> Approximation:
        _APPROXIMATIONS[primitive, one, other] = sizes
        return sizes

    return register


def approximation(primitive: Primitive, one: str, other: str) -> Approximation | None:
    """The textbooks' sizes for two algorithms, or None."""
    return _APPROXIMATIONS.get((primitive, one, other))


def every_algorithm() -> list[Algorithm]:
    """The whole registry, in the order of registration."""
    return list(_ROWS.values())


def power_of_two(group: Group) -> str | None:
    """Partners at distances 1, 2, 4 ... must all exist."""
    return None if group.ranks & (group.ranks - 1) == 0 else f"needs a power-of-two rank count, got {group.ranks}"
