"""The papers that formulas come from, and the registry of algorithms by (primitive, name).

:func:`algorithm` registers a formula as a row, an :class:`Algorithm`; :func:`find` and
:func:`algorithms` look rows up; :func:`parse_choice` reads what a user wrote after ``--algorithm``. The
docstring of a formula is what ``colltool explain`` prints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypedDict, Unpack, assert_never, get_args

from colltool.algorithms.aliases import LIBRARY_NAMES, any_spec_called
from colltool.algorithms.libraries import NotRun, Running, ships
from colltool.base.errors import ColltoolError, argument_text, clipped, nearest
from colltool.base.primitives import (
    SHORT,
    AllPeers,
    Chain,
    Links,
    Pair,
    Peers,
    Primitive,
    Ring,
    Rounds,
    Route,
    Schedule,
    Servers,
    ShardExchange,
    Switch,
    Terms,
    Trees,
)
from colltool.network.group import SEVERAL_TIERS, Group, Topology, needs

BLUE_GENE = (
    'Faraj, Kumar, Smith, Mamidala, Gunnels, "MPI collective communications on the Blue Gene/P'
    ' supercomputer: algorithms and optimizations", Hot Interconnects 2009, 63-72'
)
BRUCK = (
    'Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for all-to-all communications in'
    ' multiport message-passing systems", IEEE TPDS 8(11), 1997, 1143-1156, doi:10.1109/71.642949'
)
CHAN = (
    'Chan, Heimlich, Purkayastha, van de Geijn, "Collective communication: theory, practice, and'
    ' experience", CCPE 19(13), 2007, 1749-1783, doi:10.1002/cpe.1206'
)
FORESTCOLL = (
    'Zhao, Maleki, Yang, Pourreza, Krishnamurthy, "ForestColl: Throughput-optimal collective'
    ' communications on heterogeneous network fabrics", 2024, arXiv:2402.06787'
)
HAN_PAPER = (
    'Luo et al., "HAN: a hierarchical autotuned collective communication framework", CLUSTER 2020,'
    " 23-34"
)
HOCKNEY = (
    'Hockney, "The communication challenge for MPP: Intel Paragon and Meiko CS-2", Parallel'
    " Computing 20(3), 1994, 389-398, doi:10.1016/S0167-8191(06)80021-9"
)
JAIN_SABHARWAL = (
    'Jain, Sabharwal, "Optimal bucket algorithms for large MPI collectives on torus interconnects",'
    " ICS 2010, 27-36"
)
MAGPIE = (
    "Kielmann, Hofman, Bal, Plaat, Bhoedjang, \"MagPIe: MPI's collective communication operations"
    ' for clustered wide area systems", PPoPP 1999, 131-140, doi:10.1145/301104.301116'
)
MSCCLPP = (
    'Shah et al., "MSCCL++: Rethinking GPU communication abstractions for cutting-edge AI'
    ' applications", 2025, arXiv:2504.09014'
)
NCCL_RINGS = (
    'Hu et al., "Demystifying NCCL: An in-depth analysis of GPU communication protocols and'
    ' algorithms", 2025, arXiv:2507.04786'
)
NCCL_TREES = (
    'Jeaugey, "Massively scale your deep learning training with NCCL 2.4", NVIDIA, 2019, '
    "developer.nvidia.com/blog/massively-scale-deep-learning-training-nccl-2-4"
)
PAT = (
    'Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale", 2025,'
    " arXiv:2506.20252"
)
PARAMETER_SERVER = (
    'Li, Andersen, Park, Smola, Ahmed, Josifovski, Long, Shekita, Su, "Scaling distributed machine'
    ' learning with the parameter server", OSDI 2014, 583-598'
)
PATARASUK_YUAN = (
    'Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC'
    " 69(2), 2009, 117-124, doi:10.1016/j.jpdc.2008.09.002"
)
RABENSEIFNER = (
    'Rabenseifner, "Optimization of collective reduction operations", ICCS 2004, LNCS 3036, 1-9,'
    " doi:10.1007/978-3-540-24685-5_1"
)
SHARP = (
    'Graham et al., "Scalable Hierarchical Aggregation Protocol (SHArP): a hardware architecture'
    ' for efficient data reduction", COMHPC 2016, 1-10, doi:10.1109/COMHPC.2016.006'
)
THAKUR_GROPP = (
    'Thakur, Gropp, "Improving the performance of collective operations in MPICH", EuroPVM/MPI'
    " 2003, LNCS 2840, 257-267, doi:10.1007/978-3-540-39924-7_38"
)
THAKUR_RABENSEIFNER_GROPP = (
    'Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH",'
    " IJHPCA 19(1), 2005, 49-66, doi:10.1177/1094342005051521"
)
TUTEL = 'Hwang et al., "Tutel: Adaptive mixture-of-experts at scale", MLSys 2023, arXiv:2206.03382'
TWO_TREES = (
    'Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",'
    " Parallel Computing 35(12), 2009, 581-594, doi:10.1016/j.parco.2009.09.001"
)
TACOS = (
    'Won, Elavazhagan, Srinivasan, Gupta, Krishna, "TACOS: Topology-aware collective algorithm'
    ' synthesizer for distributed machine learning", MICRO 2024, arXiv:2304.05301'
)
UB_MESH = (
    'Liao et al., "UB-Mesh: a hierarchically localized nD-FullMesh datacenter network'
    ' architecture", 2025, arXiv:2503.20377'
)

KIM_DRAGONFLY = (
    'Kim, Dally, Scott, Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA 2008,'
    " 77-88"
)
MCF = (
    'Basu, Zhao, Fantl, Pal, Krishnamurthy, Khoury, "Efficient all-to-all collective communication'
    ' schedules for direct-connect topologies", HPDC 2024, arXiv:2309.13541'
)

# Limits on what is priced link by link on routed tiers, so that a price takes seconds.
MOST_AT_ONCE = 2400  # ranks, or switches of theirs, in an exchange of all with all in one step
MOST_FOLLOWED = 20_000_000  # links times steps, where no two steps are alike

# shipped: some library runs it. reference: textbook or research. idealised: executed, it costs more
# on real wiring. hypothetical: no such hardware. own: a file or plugin of the user.
Status = Literal["shipped", "reference", "idealised", "hypothetical", "own"]
# From what can be run today to what no hardware can run; ``own`` is ranked apart (rank_class).
STATUSES: tuple[Status, ...] = get_args(Status)


class Caveat(NamedTuple):
    """A status that differs from the algorithm's on some groups, and why."""

    status: Status
    note: str


Formula = Callable[[Group], Terms | Schedule]
Requirement = Callable[[Group], str | None]  # why a group cannot run it
Limit = Callable[[Running, Group], NotRun | None]  # why a library does not run it there
Caveats = Callable[[Group], Caveat | None]


def rank_class(status: Status, not_selected: NotRun | None) -> int:
    """The rank of a schedule in tables: 0 if the user can run it, 1 if only other libraries can
    (``not_selected``), then by status."""
    by_status = 0 if status == "own" else STATUSES.index(status)
    if by_status or not_selected:
        return by_status + 1
    return 0


def selectable(status: Status) -> bool:
    """Whether a schedule of this status may be reported as the fastest: only if some user can run it."""
    return rank_class(status, None) == 0


class _Details(TypedDict, total=False):
    """The optional arguments of :func:`algorithm`."""

    # Each returns why a group cannot run it, or None; ``explain`` prints their docstrings.
    requires: tuple[Requirement, ...]
    shipped_by: tuple[str, ...]  # libraries that run it
    note: str  # what a reader of its price should know
    baseline: bool  # a flat schedule that ``breakdown`` compares compositions with
    usual: bool  # ``crossover`` compares it by default, the first of a primitive with the others
    # Switches reduce or replicate, so lower bounds of endpoint-driven schedules do not apply.
    in_switch: bool
    caveat: Caveats  # returns another status on some groups, or None
    limits: tuple[Limit, ...]  # each returns why a library that ships it does not run it on a group
    twice: bool  # the formula is that of an all-gather, and this all-reduce runs it twice
    # What the N of ``name:N`` counts; such an algorithm is priced only on request.
    counts: str


class Algorithm(NamedTuple):
    """An algorithm for one primitive; :class:`_Details` explains the fields with a default.

    What methods ask of a :class:`~colltool.network.group.Group`: ``links``, 0 unless every message is put
    on its links; ``pairs``, that an all-to-all joins; ``servers``, the number after the name; ``rail_only``
    and ``hashed``, networks on which not every schedule is followed.
    """

    name: str  # as ``--algorithm`` takes it
    primitive: Primitive
    topologies: frozenset[Topology]  # that it runs on
    formula: Formula  # its docstring explains the algorithm
    equation: str  # the formula as text, several of them on lines of their own
    source: str
    status: Status
    mirror: str  # the name of the all-gather that reverses this reduce-scatter
    requires: tuple[Requirement, ...] = ()
    shipped_by: tuple[str, ...] = ()
    note: str = ""
    baseline: bool = False
    usual: bool = False
    in_switch: bool = False
    caveat: Caveats = lambda _: None
    limits: tuple[Limit, ...] = ()
    twice: bool = False
    counts: str = ""

    def status_on(self, group: Group) -> Status:
        """The status on a group: that of the caveat, or the algorithm's own."""
        caveat = self.caveat(group)
        return caveat.status if caveat else self.status

    def notes_on(self, group: Group) -> list[str]:
        """The notes for a reader of its price on a group."""
        notes = [self.note]
        caveat = self.caveat(group)
        if caveat:
            notes.append(caveat.note)
        return [note for note in notes if note]

    def not_run_by(self, running: Running | None, group: Group) -> NotRun | None:
        """Why a library does not run it on a group; None where it does, or where no library is
        given."""
        if running is None:
            return None
        if not ships(running.name, self.shipped_by):
            return NotRun("no_schedule", running.name)
        for limit in self.limits:
            reason = limit(running, group)
            if reason is not None:
                return reason
        return None

    def on(self, group: Group, choice: Choice) -> Group:
        """The group, with the number that a choice gives after the name (``parameter-server:4``) as its
        ``servers``. The group as it is where the choice gives none.

        Raises:
            ColltoolError: the algorithm takes no number, or what is given is none from 1 to the ranks.
        """
        if not choice.tiers:
            return group
        if not self.counts:
            raise ColltoolError(
                f"'{self.name}' takes no choice of algorithms, got ':{'/'.join(choice.tiers)}'",
                argument="algorithms",
                fix=f"write {argument_text('algorithms', self.name)}",
            )
        text = choice.tiers[0]
        is_number = text.isascii() and text.isdecimal()
        # Cut to nine digits: a longer number is too large anyway, and int() refuses very long ones.
        if len(choice.tiers) > 1 or not is_number or not 1 <= int(text[:9]) <= group.ranks:
            example = argument_text("algorithms", f"{self.name}:{min(8, group.ranks)}")
            raise ColltoolError(
                f"'{choice.spec}' has no number of {self.counts} behind its name",
                argument="algorithms",
                fix=f"1 to {group.ranks} {self.counts}: {example}",
            )
        return group._replace(servers=int(text))

    def chosen(self, group: Group) -> Choice:
        """The choice that names it on a group: :meth:`on` backwards. A number of 1 is left out."""
        if self.counts and group.servers > 1:
            return Choice(self.name, (str(group.servers),))
        return Choice(self.name)

    def schedule(self, group: Group) -> Schedule:
        """The terms of its phases; of an all-reduce that runs an all-gather's formula twice, doubled."""
        terms = self.formula(group)
        schedule = (terms,) if isinstance(terms, Terms) else terms
        if not self.twice:
            return schedule
        there_and_back = []
        for phase in schedule:
            doubled = phase._replace(n_alpha=2 * phase.n_alpha, n_beta=2 * phase.n_beta)
            there_and_back.append(doubled)
        return tuple(there_and_back)

    def why_not(self, group: Group) -> str | None:
        """Why a group cannot run it, or why it is not priced there; None where it is."""
        if group.topology not in self.topologies:
            both_over_tiers = {*self.topologies, group.topology} <= SEVERAL_TIERS
            if both_over_tiers and len(self.topologies) > 1:
                return f"does not run on {group.label}"
            return f"{needs(self.topologies)}; this is {group.label}"
        for requirement in self.requires:
            reason = requirement(group)
            if reason:
                return reason
        if group.rail_only:
            reason = self._changes_rails(group)
            if reason:
                return reason
        if not group.links:
            return None
        if group.hashed:
            return (
                "flows that are hashed to planes are not followed link by link: what goes tier by"
                " tier is priced"
            )
        return self._too_long(group)

    def _changes_rails(self, group: Group) -> str | None:
        """The reason if messages join different rails; None where all keep to one. Flat schedules send
        across rails unless their ring or chain goes by way of rails."""
        if group.topology == "routed_tiers":
            return (
                "rails that never meet are not followed where a tier is routed link by link: what"
                " goes tier by tier is priced"
            )
        for terms in self.schedule(group):
            route = terms.route
            if not isinstance(route, Ring | Chain) or route.via != "rails":
                return (
                    "sends from rail to rail, which never meet here: what goes tier by tier does,"
                    " or keeps to rails"
                )
        return None

    def _too_long(self, group: Group) -> str | None:
        """The reason if there are too many messages at once, or too many steps of which no two are alike,
        to price link by link; None if not."""
        followed = {_messages_followed(terms.route) for terms in self.schedule(group)}
        if "all at once" in followed and group.pairs > MOST_AT_ONCE**2:
            return (
                f"{group.ranks} ranks, all to all at once, are too many to follow link by link:"
                f" at most {MOST_AT_ONCE} ranks, or {MOST_AT_ONCE} switches of a dragonfly or HyperX"
            )
        steps = group.ranks - 1
        if "one by one" in followed and steps * group.links > MOST_FOLLOWED:
            return f"its {steps} steps over {group.links} links are too many to follow one by one"
        return None


def _messages_followed(route: Route) -> Literal["all at once", "one by one", "few"]:
    """How the messages of a route are followed where they are put on links: all in one step, each of
    N-1 different steps, or only the few steps that are not alike."""
    match route:
        case AllPeers() | ShardExchange():
            return "all at once"
        case Peers():
            return "one by one"
        case Ring() | Chain() | Trees() | Rounds() | Pair() | Links() | Switch() | Servers():
            return "few"
        case _:
            assert_never(route)


_ROWS: dict[tuple[Primitive, str], Algorithm] = {}  # in the order of registration


def algorithm(
    name: str,
    *primitives: Primitive,
    on: frozenset[Topology],
    source: str,
    equation: str,
    status: Status | None = None,
    mirror: str = "",
    **more: Unpack[_Details],
) -> Callable[[Formula], Formula]:
    """Register a formula for its primitives, a row for each.

    Args:
        on: topologies that it runs on.
        source: a paper or a library's code.
        equation: the formula as text.
        status: by default shipped if any library ships it, else reference.
        mirror: of a reduce-scatter, the all-gather that reverses it; by default the one of its name.

    Raises:
        ValueError: the name is taken.
    """
    known_status = status or ("shipped" if more.get("shipped_by") else "reference")

    def register(formula: Formula) -> Formula:
        for primitive in primitives:
            if (primitive, name) in _ROWS:
                raise ValueError(f"{name} is registered twice for {primitive}")
            row = Algorithm(
                name,
                primitive,
                on,
                formula,
                equation,
                source,
                status=known_status,
                mirror=mirror or name,
                **more,
            )
            _ROWS[primitive, name] = row
        return formula

    return register


def algorithms(primitive: Primitive) -> list[Algorithm]:
    """The algorithms of a primitive in the order of registration, without those on request."""
    return [row for row in _ROWS.values() if row.primitive is primitive and not row.counts]


def row_of(primitive: Primitive, name: str) -> Algorithm | None:
    """The algorithm of that name; None if there is none."""
    return _ROWS.get((primitive, name))


def find(primitive: Primitive, name: str, also: Sequence[str] = ()) -> Algorithm:
    """The algorithm of that name.

    Raises:
        ColltoolError: there is none; it suggests names of the registry and of ``also``, such as those of
            compositions.
    """
    row = row_of(primitive, name)
    if row is not None:
        return row
    usual = [row.name for row in algorithms(primitive)]
    on_demand = [row.name for row in on_request() if row.primitive is primitive]
    known = list(dict.fromkeys([*usual, *also, *on_demand]))
    with_this_name = [SHORT[other] for other, key in _ROWS if key == name.lower()]
    hint = nearest(name, known) or nearest(name, list(LIBRARY_NAMES))
    alias_of = any_spec_called(name)
    if alias_of in known:
        hint = f"that is '{alias_of}' here."
    elif with_this_name:
        hint = f"'{name}' is an algorithm of {', '.join(with_this_name)}."
    raise ColltoolError(
        f"no algorithm '{clipped(name)}' for {primitive.label}",
        fix=f"{hint} known for {SHORT[primitive]}: {', '.join(known)}".strip(),
    )


APPROXIMATIONS: dict[
    tuple[Primitive, str, str], Callable[[int, float, float], dict[str, float]]
] = {}
"""Textbook approximations of the size at which two algorithms of a primitive cross: (N, α in s, BW
in bytes/s) -> bytes by formula."""


def all_algorithms() -> list[Algorithm]:
    """Every algorithm, those on request last."""
    return [*usual_algorithms(), *on_request()]


def usual_algorithms() -> list[Algorithm]:
    """All algorithms in the order of registration, without those on request."""
    return [row for row in _ROWS.values() if not row.counts]


def on_request() -> list[Algorithm]:
    """The algorithms that are priced only if the user names them: those that take a number."""
    return [row for row in _ROWS.values() if row.counts]


# A choice as tables print it: ``hierarchical (ring / ring, pipelined)``.
_PRINTED = re.compile(r"([^ (:]+) \(([^,)]+)(?:, [^)]*)?\)")


class Choice(NamedTuple):
    """What a user chose: an algorithm, or a composition with the algorithms of its tiers, innermost
    first, or without them where any will do.

    >>> parse_choice("hierarchical:ring/ring")
    Choice(base='hierarchical', tiers=('ring', 'ring'))
    >>> parse_choice("ring").spec
    'ring'
    """

    base: str
    tiers: tuple[str, ...] = ()

    @property
    def spec(self) -> str:
        """The text that options take: ``hierarchical:ring/ring``."""
        return f"{self.base}:{'/'.join(self.tiers)}" if self.tiers else self.base


@lru_cache(maxsize=4096)
def parse_choice(text: str) -> Choice:
    """The choice in a text, as typed or as tables print it; ColltoolError where a name is missing.
    Whether the names exist is not checked."""
    # as printed: "hierarchical (ring / ring, pipelined)" is "hierarchical:ring / ring"
    printed = _PRINTED.fullmatch(text)
    spec = f"{printed[1]}:{printed[2]}" if printed else text
    base, colon, names = spec.partition(":")
    tiers = tuple(name.strip() for name in names.split("/")) if colon else ()
    if not base or not all(tiers):
        raise ColltoolError(
            f"'{text}' ends where a name is due",
            argument="algorithms",
            fix=f"name one algorithm per tier, innermost first: {base or 'hierarchical'}:ring/ring",
        )
    return Choice(base, tiers)
