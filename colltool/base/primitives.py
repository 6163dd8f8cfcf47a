"""The seven primitives, and what a formula returns: :class:`Terms` and the route of its messages, and
:func:`split_seconds`, which makes seconds of counts.

N is the number of ranks, M the size in bytes per rank (:data:`SIZE_MEANS`), α seconds of a message, BW
bytes/s; n_α counts sequential messages, n_β bytes through the busiest port in units of M.

A formula never sees α, bandwidth or contention: it counts sequential messages and bytes through the
busiest port, and names the route; pricing knows what a route costs on a fabric.
"""

from enum import StrEnum
from math import ceil, floor, sqrt
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from colltool.base.errors import ColltoolError, clipped, nearest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Number = float | NDArray[np.float64]
else:
    Number = Any


class Primitive(StrEnum):
    """A collective or a point-to-point send, by its name in machine output."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    P2P = "p2p"

    @property
    def label(self) -> str:
        """``all-reduce``."""
        return self.value.replace("_", "-")


AR, AG, RS = Primitive.ALL_REDUCE, Primitive.ALL_GATHER, Primitive.REDUCE_SCATTER
A2A, BC, REDUCE, P2P = Primitive.ALL_TO_ALL, Primitive.BROADCAST, Primitive.REDUCE, Primitive.P2P

# Short names, as typed on the command line and in CSV.
SHORT = {AR: "ar", AG: "ag", RS: "rs", A2A: "a2a", BC: "bc", REDUCE: "reduce", P2P: "p2p"}

# M, the message size in bytes per rank, by nccl-tests' convention.
SIZE_MEANS = {
    AR: "the vector each rank holds",
    AG: "the whole result each rank ends with",
    RS: "the vector each rank starts with",
    A2A: "the whole send buffer of a rank (N chunks of M/N)",
    **dict.fromkeys((BC, REDUCE, P2P), "the payload"),
}

_OTHER_NAMES = {
    "allreduce": AR,
    "allgather": AG,
    "reducescatter": RS,
    "alltoall": A2A,
    "bcast": BC,
    "sendrecv": P2P,
}
# The programs of nccl-tests.
NCCL_TESTS = {
    AR: "all_reduce_perf",
    AG: "all_gather_perf",
    RS: "reduce_scatter_perf",
    A2A: "alltoall_perf",
    BC: "broadcast_perf",
    REDUCE: "reduce_perf",
    P2P: "sendrecv_perf",
}
_BY_NAME: dict[str, Primitive] = {primitive.value: primitive for primitive in Primitive}
_BY_NAME |= {short: primitive for primitive, short in SHORT.items()}
_BY_NAME |= _OTHER_NAMES


def parse_primitive(text: str) -> Primitive:
    """Return a primitive by its short, long or nccl-tests' name, in any case: ``ar``, ``all-reduce``,
    ``all_reduce_perf``.

    Raises:
        ColltoolError: it is the name of none.
    """
    word = text.lower().replace("-", "_").removesuffix("_perf")
    if word in _BY_NAME:
        return _BY_NAME[word]
    known = ", ".join(f"{short} ({primitive.label})" for primitive, short in SHORT.items())
    raise ColltoolError(
        f"unknown primitive '{clipped(text)}'",
        fix=f"{nearest(word, list(_BY_NAME))} known: {known}".strip(),
    )


def busbw_factor(primitive: Primitive, ranks: int) -> float:
    """busbw / algbw of nccl-tests: 2(N-1)/N for AR, (N-1)/N for AG, RS, A2A, 1 for the rest."""
    share = (ranks - 1) / ranks
    return {AR: 2 * share, AG: share, RS: share, A2A: share}.get(primitive, 1.0)


def least_n_beta(primitive: Primitive, ranks: int) -> float:
    """Lower bound on n_β, in units of M, of an endpoint-driven schedule on one full-duplex port per
    rank.

    Only reduction inside a switch goes below AR's 2(N-1)/N, to 1. A port of p parallel links
    divides each by p.
    """
    return busbw_factor(primitive, ranks)


def local_share(primitive: Primitive, ranks: int) -> float:
    """Return what a rank keeps, in units of M: the 1/N of AR, AG, RS and A2A that crosses no wire; 0 of the
    others."""
    return 1 / ranks if primitive in (AR, AG, RS, A2A) else 0.0


def ceil_div(whole: int, part: int) -> int:
    """How many parts hold a whole: the quotient, rounded up.

    >>> ceil_div(9, 4)
    3
    """
    # floor division of the negative: exact for integers of any size, which ceil(a / b) is not
    return -(-whole // part)


def distinct(targets: float, draws: int) -> float:
    """Expected number of different targets among so many independent even draws,
    n (1 - (1 - 1/n)^k).

    >>> distinct(8, 2)
    1.875
    """
    return targets * (1 - (1 - 1 / targets) ** draws)


def log2_ceil(ranks: int) -> int:
    """ceil(log2 N), exactly: the rounds in which one rank can reach N."""
    return (ranks - 1).bit_length()


class Ring(NamedTuple):
    """Every rank sends to the next one, all at once, step after step.

    ``via``, for a group over several tiers: ``packed`` (each hop by its shortest way),
    ``outermost`` (all hops over the outer tier), ``innermost`` (the inner tier stretched over the
    group), ``rails`` (one ring for every NIC of a domain, each with its share of the payload),
    ``links`` (rings that share out all links of a full mesh); for a dragonfly ``gateways`` (ranks
    in the order of the cables between groups).
    """

    via: Literal["packed", "outermost", "innermost", "rails", "links", "gateways"] = "packed"


class Chain(NamedTuple):
    """A pipeline of segments from the first rank to the last; ``via`` as in :class:`Ring`."""

    via: Literal["packed", "rails", "links", "gateways"] = "packed"


class Trees(NamedTuple):
    """Two complementary binary trees with half of the payload each; ``both_ways``: up and down
    again.

    ``rails``: of domains of different sizes, R times with M/R, R the ranks of the smallest: each a
    chain of those of a domain.
    """

    both_ways: bool
    rails: bool = False


Partner = Literal["xor", "shift", "fanout"]
"""Who a rank meets in a round, see :class:`Rounds`."""


class Rounds(NamedTuple):
    """Rounds with a new partner each: ``steps`` are (stride between partners, bytes sent in units
    of M).

    ``partner``: ``xor`` (rank xor stride, everybody), ``shift`` (rank + stride, everybody),
    ``fanout`` (binomial tree: one sender in every block of 2·stride ranks). ``folded``: the first
    ranks, this many pairs, act as one rank per pair.
    """

    partner: Partner
    steps: tuple[tuple[int, float], ...]
    folded: int = 0


class Peers(NamedTuple):
    """One message to each other rank, one after the other. ``via`` as in :class:`Ring`."""

    via: Literal["packed", "outermost", "innermost"] = "packed"


class AllPeers(NamedTuple):
    """A message of ``per_peer``·M to each other rank, all at once."""

    per_peer: float


class ShardExchange(NamedTuple):
    """Each rank sends an equal part of its own to every rank of other domains, which send theirs on
    to all inside, at once."""


class Pair(NamedTuple):
    """One message between the two ranks of the group that are farthest apart."""


class Links(NamedTuple):
    """Hops between neighbours; ``sends``: or messages from rank to rank that are under way at once,
    sizes in units of M."""

    sends: tuple[tuple[int, int, float], ...] = ()


class Switch(NamedTuple):
    """Up into the switches and down again; ``does``: the primitive they compute, which may have its
    own share of bandwidth."""

    does: Primitive


class Servers(NamedTuple):
    """Messages to servers apart from the ranks and back, both ways at once."""


Route = (
    Ring
    | Chain
    | Trees
    | Rounds
    | Peers
    | AllPeers
    | ShardExchange
    | Pair
    | Links
    | Switch
    | Servers
)


class Terms(NamedTuple):
    """One part of a schedule: its coefficients and route."""

    n_alpha: float  # sequential messages; of a pipeline its depth L
    # bytes through the busiest port or link in units of this part's payload; of a pipeline its load b
    n_beta: float
    route: Route
    payload: float = 1.0  # in units of M
    # F of a pipeline, the segments that pass the busiest port while it fills; None where the payload
    # cannot be cut
    fill: float | None = None
    # where it is not the whole collective, such as a reduce-scatter inside an all-reduce
    primitive: Primitive | None = None
    label: str = ""  # the axis or step, for breakdowns
    ranks: int | None = None  # of one ring or line, where that is not the whole group


Schedule = tuple[Terms, ...]


def step_a_peer(ranks: int, route: Route, label: str = "") -> Terms:
    """N-1 steps, a chunk of M/N in each: what rings and pairwise exchanges take.

    >>> step_a_peer(4, Ring())[:2]
    (3, 0.75)
    """
    return Terms(ranks - 1, (ranks - 1) / ranks, route, label=label)


def totals(returned: Terms | Schedule) -> tuple[float, float]:
    """(n_α, n_β) of what a formula returned, n_β in units of M."""
    schedule = (returned,) if isinstance(returned, Terms) else returned
    n_beta = sum(terms.n_beta * terms.payload for terms in schedule)
    return sum(terms.n_alpha for terms in schedule), n_beta


def split_seconds(
    n_alpha: Number, n_beta: Number, size: Number, alpha_s: float, bandwidth_Bps: float
) -> tuple[Number, Number]:
    """``n_α·α`` and ``n_β·M/BW``, the summands of t in seconds; α and BW include η and shares.
    ``size`` may be an array."""
    return n_alpha * alpha_s, (n_beta / bandwidth_Bps) * size


def energy_J(ranks: int, n_beta: Number, size: Number, J_per_bit: float) -> Number:
    """Joule of a collective on one tier: N·n_β·M·8·(energy per bit), as each of N ranks moves n_β·M
    bytes over it."""
    return ranks * n_beta * size * 8 * J_per_bit


Pipelining = Literal["asymptotic", "optimal"] | int


class Pipeline(NamedTuple):
    """A schedule that streams segments."""

    depth: float  # L, steps that the first segment takes
    # F, segments that pass the busiest port while the pipeline fills: L, unless ways use different
    # directions of it
    fill: float
    load: float  # b, what each segment loads that port with, in units of the segment

    def counts(self, segments: Number) -> tuple[Number, Number]:
        """(n_α, n_β) at P segments: n_α = L+P-1 and n_β = b·(F+P-1)/P."""
        return self.depth + segments - 1, self.load * (self.fill + segments - 1) / segments

    def counted(
        self, size: Number, alpha_s: float, bandwidth_Bps: float, reading: Pipelining
    ) -> tuple[Number, Number]:
        """(n_α, n_β): ``asymptotic`` is (L, b), where filling costs nothing; ``optimal`` the best P
        for each size; a number P."""
        if reading == "asymptotic":
            return self.depth, self.load
        if reading == "optimal":
            return self.counts(self.best_segments(size, alpha_s, bandwidth_Bps))
        return self.counts(reading)

    def exact_segments(self, size: Number, alpha_s: float, bandwidth_Bps: float) -> Number:
        """``P* = sqrt((F-1)·b·M/(α·BW))``, no whole number, at which t(P) is least."""
        exact: Number = ((self.fill - 1) * self.load * size / (alpha_s * bandwidth_Bps)) ** 0.5
        return exact

    def best_segments(self, size: Number, alpha_s: float, bandwidth_Bps: float) -> Number:
        """The whole number P >= 1 that minimises t(P), next to ``P* = sqrt((F-1)·b·M/(α·BW))``: t
        is convex in P."""
        ratio = self.load * size / (alpha_s * bandwidth_Bps)

        def steps(segments: Number) -> Number:
            """t(P)/α."""
            return self.depth + segments - 1 + ratio * (self.fill + segments - 1) / segments

        if isinstance(ratio, float):
            exact = sqrt((self.fill - 1) * ratio)
            return min((max(1, floor(exact)), max(1, ceil(exact))), key=steps)
        import numpy as np

        smooth = np.sqrt((self.fill - 1) * ratio)
        below, above = np.maximum(1, np.floor(smooth)), np.maximum(1, np.ceil(smooth))
        return np.where(steps(below) <= steps(above), below, above)
