"""Compositions over several tiers: which primitive runs on which tier, in which order, on how much
of M.

A composition has no formula of its own: each phase is priced by an algorithm of its tier. This module
registers the compositions, as functions that return their phases, whose docstrings ``explain``
prints; :mod:`colltool.algorithms.composed_program` makes executable schedules of them.

A function is called with the ranks of each tier, innermost first, and the order of tiers, which only
all-gathers and reduce-scatters have a choice of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, chain
from operator import truediv
from typing import Literal, NamedTuple

from colltool.algorithms.libraries import (
    HOROVOD,
    MPI_HAN,
    NCCL_ALL_REDUCE,
    PXN,
    RAILS_FIRST,
    RELAYED,
    SLICES,
    ShippedAs,
)
from colltool.algorithms.registry import HAN_PAPER, HOCKNEY, MAGPIE, THAKUR_GROPP, TUTEL, find
from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, SHORT, Primitive

Order = Literal["outer-first", "inner-first"]


class TierPhase(NamedTuple):
    """A phase of a composition."""

    tier: int  # index among the tiers that the group spans, 0 for the innermost
    primitive: Primitive
    payload: float  # M of the phase's primitive, in units of M of the whole collective
    # Only one rank of each domain of the tier below takes part.
    leaders: bool = False


# (ranks of each tier, innermost first; order) -> phases
PhasePlan = Callable[[tuple[int, ...], Order], tuple[TierPhase, ...]]


class Composition(NamedTuple):
    """A registered composition of a primitive."""

    name: str  # as ``--algorithm`` takes it, alone or with ``:inner/outer`` choices
    primitive: Primitive
    steps: PhasePlan  # its docstring explains the composition
    equation: str  # the formula as text, several of them on lines of their own
    shipped_as: tuple[ShippedAs, ...]  # as libraries ship it
    source: str
    phases: Literal["sequential", "pipelined"]  # by default: one after the other, or streaming
    usual: tuple[str, ...]  # the textbook's algorithms; on each tier the first that runs there

    @property
    def shipped_by(self) -> tuple[str, ...]:
        """The names of those that ship it, each once."""
        names = chain.from_iterable(shipped.by for shipped in self.shipped_as)
        return tuple(dict.fromkeys(names))


_ROWS: dict[tuple[Primitive, str], Composition] = {}
_RINGS = ("ring", "dim-ring")
NATURAL_ORDER: dict[Primitive, Order] = {AG: "outer-first", RS: "inner-first"}
"""The order of tiers that keeps most bytes on the inner ones, for primitives with a choice."""


def composition(
    name: str,
    primitive: Primitive,
    *,
    shipped_as: tuple[ShippedAs, ...],
    source: str,
    equation: str,
    usual: tuple[str, ...],
    phases: Literal["sequential", "pipelined"] = "sequential",
) -> Callable[[PhasePlan], PhasePlan]:
    """Register a function that returns the phases of a composition."""

    def register(steps: PhasePlan) -> PhasePlan:
        _ROWS[primitive, name] = Composition(
            name, primitive, steps, equation, shipped_as, source=source, phases=phases, usual=usual
        )
        return steps

    return register


def compositions(primitive: Primitive) -> list[Composition]:
    """The compositions of a primitive, in the order of registration."""
    return [algorithm for algorithm in _ROWS.values() if algorithm.primitive is primitive]


def composition_names(primitive: Primitive) -> list[str]:
    """The names of a primitive's compositions, in the order of registration."""
    return [composition.name for composition in compositions(primitive)]


def every_composition() -> list[Composition]:
    """All compositions, in the order of registration."""
    return list(_ROWS.values())


def find_composition(primitive: Primitive, name: str) -> Composition:
    """The composition of that name; ColltoolError if there is none."""
    row = _ROWS.get((primitive, name))
    if row is None:
        known = ", ".join(row.name for row in compositions(primitive)) or "none"
        raise ColltoolError(
            f"{primitive.label} has no composition '{name}'",
            fix=f"known for {SHORT[primitive]}: {known}",
        )
    return row


def _scattered_payloads(sizes: Sequence[int]) -> list[float]:
    """The payload of each tier after those before it have scattered it, in units of M: 1 over the product
    of their sizes.

    >>> _scattered_payloads([8, 4, 2])
    [1.0, 0.125, 0.03125]
    """
    return list(accumulate(sizes[:-1], truediv, initial=1.0))


def _phase_per_tier(
    primitive: Primitive, sizes: tuple[int, ...], *, largest_inside: bool
) -> list[TierPhase]:
    """A phase on each tier, innermost first; the innermost has all of M and each tier further out a
    part of it (``largest_inside``), or the other way round."""
    if largest_inside:
        payloads = _scattered_payloads(sizes)
    else:
        payloads = _scattered_payloads(sizes[::-1])[::-1]
    return [TierPhase(tier, primitive, payload) for tier, payload in enumerate(payloads)]


@composition(
    "hierarchical",
    AR,
    shipped_as=(*NCCL_ALL_REDUCE, *SLICES, *HOROVOD),
    source=f"{THAKUR_GROPP}; {HAN_PAPER}",
    usual=_RINGS,
    equation="t = RS_1(M) + RS_2(M/n_1) + ... + AR_T(M/Π n) + ... + AG_2(M/n_1) + AG_1(M)",
)
def hierarchical_all_reduce(sizes: tuple[int, ...], _order: Order) -> tuple[TierPhase, ...]:
    """Reduce-scatter inside, all-reduce outside on what is left, all-gather inside.

    The payload telescopes: the outer tier carries M over the number of ranks in an inner domain, on
    each of their NICs.
    What NCCL runs as NVLSTree, NVLS with SHARP and tree streams: chunks pass all tiers at once, and
    the slowest tier's bandwidth term counts alone. With a ring on every tier: Σ_l 2(p_l - 1) α_l +
    2(p_l - 1)/p_l M/(Π_{j<l} p_j)/BW_l.

    >>> [(step.tier, step.primitive.label, step.payload) for step in hierarchical_all_reduce((8, 4), "inner-first")]
    [(0, 'reduce-scatter', 1.0), (1, 'all-reduce', 0.125), (0, 'all-gather', 1.0)]
    """
    *scatter, last = _phase_per_tier(RS, sizes, largest_inside=True)
    gather = [phase._replace(primitive=AG) for phase in reversed(scatter)]
    return (*scatter, last._replace(primitive=AR), *gather)


@composition(
    "leader",
    AR,
    shipped_as=MPI_HAN,
    source=f"{MAGPIE}; {HAN_PAPER}",
    usual=("binomial", "ring", "dim-chain"),
    equation="t = Reduce_1(M) + AR_T(M) + BC_1(M)",
)
def leader_all_reduce(sizes: tuple[int, ...], _order: Order) -> tuple[TierPhase, ...]:
    """Reduce to one leader per domain, all-reduce among the leaders, broadcast inside.

    The outer payload stays M, but only one flow leaves a domain: for small messages and an
    expensive outer α.

    >>> [(step.tier, step.primitive.label, step.payload) for step in leader_all_reduce((8, 4), "inner-first")]
    [(0, 'reduce', 1.0), (1, 'all-reduce', 1.0), (0, 'broadcast', 1.0)]
    """
    up = [TierPhase(tier, REDUCE, payload=1.0, leaders=tier > 0) for tier in range(len(sizes) - 1)]
    down = [phase._replace(primitive=BC) for phase in reversed(up)]
    return (*up, TierPhase(len(sizes) - 1, AR, payload=1.0, leaders=True), *down)


@composition(
    "hierarchical",
    RS,
    shipped_as=SLICES,
    source=THAKUR_GROPP,
    usual=_RINGS,
    equation="t = RS_1(M) + RS_2(M/n_1) + ...",
)
def hierarchical_reduce_scatter(sizes: tuple[int, ...], order: Order) -> tuple[TierPhase, ...]:
    """Reduce-scatter tier by tier, innermost first, so that the outer tier sees the smallest
    payload.

    ``outer-first`` moves the same n_β in all, but almost all of it over the outer tier.

    >>> [(step.tier, step.payload) for step in hierarchical_reduce_scatter((8, 4), "inner-first")]
    [(0, 1.0), (1, 0.125)]
    >>> [(step.tier, step.payload) for step in hierarchical_reduce_scatter((8, 4), "outer-first")]
    [(1, 1.0), (0, 0.25)]
    """
    phases = _phase_per_tier(RS, sizes, largest_inside=order == "inner-first")
    return tuple(phases if order == "inner-first" else reversed(phases))


@composition(
    "hierarchical",
    AG,
    shipped_as=(*SLICES, *RAILS_FIRST),
    source=THAKUR_GROPP,
    usual=_RINGS,
    equation="t = AG_T(M/Π n) + ... + AG_1(M)",
)
def hierarchical_all_gather(sizes: tuple[int, ...], order: Order) -> tuple[TierPhase, ...]:
    """All-gather tier by tier, outermost first, so that the outer tier moves the smallest pieces.

    ``inner-first`` moves the same n_β in all, but almost all of it over the outer tier.

    >>> [(step.tier, step.payload) for step in hierarchical_all_gather((8, 4), "outer-first")]
    [(1, 0.125), (0, 1.0)]
    >>> [(step.tier, step.payload) for step in hierarchical_all_gather((8, 4), "inner-first")]
    [(0, 0.25), (1, 1.0)]
    """
    phases = _phase_per_tier(AG, sizes, largest_inside=order == "outer-first")
    return tuple(phases if order == "inner-first" else reversed(phases))


_rooted = partial(
    composition,
    "hierarchical",
    shipped_as=MPI_HAN,
    source=MAGPIE,
    usual=("pipelined-tree", "dim-chain"),
    phases="pipelined",
    equation=(
        "t = Σ α terms + the slowest tier's bandwidth term (pipelined across tiers, the default);"
        " sequential: both add up"
    ),
)


@_rooted(BC)
def hierarchical_broadcast(sizes: tuple[int, ...], _order: Order) -> tuple[TierPhase, ...]:
    """Broadcast among one leader per domain, then inside every domain.

    >>> [(step.tier, step.payload, step.leaders) for step in hierarchical_broadcast((8, 4), "inner-first")]
    [(1, 1.0, True), (0, 1.0, False)]
    """
    return tuple(
        TierPhase(tier, BC, payload=1.0, leaders=tier > 0) for tier in reversed(range(len(sizes)))
    )


@_rooted(REDUCE)
def hierarchical_reduce(sizes: tuple[int, ...], _order: Order) -> tuple[TierPhase, ...]:
    """Reduce inside every domain to a leader, then among the leaders.

    >>> [(step.tier, step.payload, step.leaders) for step in hierarchical_reduce((8, 4), "inner-first")]
    [(0, 1.0, False), (1, 1.0, True)]
    """
    return tuple(
        TierPhase(tier, REDUCE, payload=1.0, leaders=tier > 0) for tier in range(len(sizes))
    )


@composition(
    "two-level",
    A2A,
    shipped_as=PXN,
    source=f"{TUTEL}; NCCL's PXN: inside the pod to the destination's rail, then along the rail",
    usual=("pairwise", "shortest-path"),
    equation="t = (n_1 - 1) α_1 + (n_2 - 1) α_2 + (n_1 - 1)/n_1 M/BW_1 + (n_2 - 1)/n_2 M/BW_2",
)
def two_level_all_to_all(sizes: tuple[int, ...], _order: Order) -> tuple[TierPhase, ...]:
    """All-to-all inside each domain to the rank on the destination's rail, then along the rails.

    Saves α, never bytes: every tier carries its share of the whole send buffer.

    >>> [(step.tier, step.payload) for step in two_level_all_to_all((8, 4), "inner-first")]
    [(0, 1.0), (1, 1.0)]
    """
    return tuple(TierPhase(tier, A2A, payload=1.0) for tier in range(len(sizes)))


@composition(
    "cross-rail",
    P2P,
    shipped_as=RELAYED,
    source=f"{HOCKNEY}; NCCL's PXN: inside the pod to the destination's rail, then along the rail",
    usual=("send",),
    phases="pipelined",
    equation=(
        "t = α_1 + α_2 + M over the slower of both (pipelined across tiers, the default);"
        " sequential: both add up"
    ),
)
def cross_rail_send(sizes: tuple[int, ...], _order: Order) -> tuple[TierPhase, ...]:
    """A message to a rank in another domain and on another rail: to the rank on that rail inside,
    then along the rail.

    Where rails are fabrics of their own, ``send`` is a pair on one rail, and pays the outer path
    alone.

    >>> [(step.tier, step.payload) for step in cross_rail_send((72, 4), "inner-first")]
    [(0, 1.0), (1, 1.0)]
    """
    return tuple(TierPhase(tier, P2P, payload=1.0, leaders=tier > 0) for tier in range(len(sizes)))


def name_in_phase(choice: str, first: Primitive, primitive: Primitive) -> str:
    """The name of a tier's algorithm in a phase: in an all-gather after a reduce-scatter its mirror
    image, else that of the tier's ``first`` phase."""
    if first is RS and primitive is AG:
        return find(first, choice).mirror
    return choice
