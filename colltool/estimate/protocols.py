"""A group under each protocol of its library, and the fastest of a schedule's rows under them.

:func:`under_protocols` gives the groups, one for each protocol that all tiers with a list have; what
a library adds to a tier is :func:`tier_under`. A schedule is priced on each of them, and
:func:`best_protocol` takes the fastest row at each size. Notes on what was not measured are in
:mod:`colltool.estimate.protocol_notes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

from colltool.base.arrays import is_array, largest
from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.estimate.algorithm_estimate import LATE, AlgorithmEstimate, PhaseCost
from colltool.estimate.groups import PlacedGroup
from colltool.fabric.model import Tier
from colltool.fabric.tier_parts import Eta, InNetwork
from colltool.fabric.topology import capabilities_of
from colltool.libraries.numbers import ProtocolNumbers, SwitchNumbers

# Fields of an estimate that differ between protocols, and the property that has the value. The
# machine's factor does not, and the total is worked out apart.
_FIELDS_OF_ROW = {
    field: name for field, name in LATE.items() if field not in ("late_factor", "late_total")
}
# fields of a phase that differ between protocols
_FIELDS_OF_PHASE = (
    "n_alpha",
    "n_beta",
    "alpha_s",
    "bandwidth_s",
    "eta_alpha",
    "eta_beta",
    "bandwidth_Bps",
    "share",
    "energy_J",
)
# The least α of a step, where a library's own time (below zero) takes nearly all of a wire's away.
_LEAST_STEP_S = 1e-10
Chooser = Callable[[Sequence[Any]], Any]
"""The value of the fastest row at each size, from the values of all rows."""


def best_protocol(rows: Sequence[AlgorithmEstimate]) -> AlgorithmEstimate:
    """The fastest of a schedule's rows, each under another protocol; element by element for arrays,
    with the notes of all.

    A phase that only some protocols have takes no time under the others.
    """
    if len(rows) == 1:
        return rows[0]
    if not is_array(rows[0].bytes):
        return min(rows, key=lambda row: float(row.total_s))
    fastest = _FastestAtEachSize(rows)
    late: dict[str, Any] = {
        field: partial(fastest.values, name) for field, name in _FIELDS_OF_ROW.items()
    }
    notes = tuple(dict.fromkeys(chain.from_iterable(row.notes for row in rows)))
    return replace(
        rows[0], notes=notes, late_phases=fastest.phases, late_total=fastest.total_s, **late
    )


class _FastestAtEachSize:
    """The fastest of a schedule's rows at each of many sizes.

    The total is a running minimum and needs no winner; which row it is from is worked out when
    another number is read. Rows differ in their protocol alone, so that they share the machine's
    factor and the cut bound.
    """

    def __init__(self, rows: Sequence[AlgorithmEstimate]) -> None:
        self.rows = rows

    def total_s(self) -> Any:
        """Seconds of the fastest row at each size.

        The machine's factor is positive and rounding is monotone, so that the least of the products
        is the product of the least.
        """
        import numpy as np

        first, *others = self.rows
        # a new sum, which may be overwritten
        fastest = np.asarray(first.modelled_s)
        for row in others:
            np.minimum(fastest, row.modelled_s, out=fastest)
        return first.on_the_machine(fastest)

    @cached_property
    def winner(self) -> Any:
        """Number of the fastest row at each size, the first of equals."""
        import numpy as np

        first, *others = self.rows
        fastest = np.asarray(first.total_s)
        winner = np.zeros(fastest.shape, dtype=np.uint8)
        for number, row in enumerate(others, start=1):
            seconds = first.on_the_machine(row.modelled_s)
            winner[seconds < fastest] = number
            fastest = np.minimum(fastest, seconds)
        return winner

    def values(self, name: str) -> Any:
        """A property of the rows, at each size that of the fastest."""
        return self.choose([getattr(row, name) for row in self.rows])

    def choose(self, values: Sequence[Any]) -> Any:
        """The value of the fastest row at each size, from the values of all rows."""
        import numpy as np

        first = values[0]
        # numpy's choice between alike values would make arrays of them
        if all(value is first or _equal_numbers(value, first) for value in values):
            return first
        return np.choose(self.winner, values)

    def phases(self) -> tuple[PhaseCost, ...]:
        """The phases of the rows, their numbers at each size those of the fastest."""
        return tuple(_merged_phases(self.rows, self.choose))


def _equal_numbers(value: Any, other: Any) -> bool:
    """Whether two values are equal and no arrays."""
    return not is_array(value) and not is_array(other) and bool(value == other)


def _merged_phases(rows: Sequence[AlgorithmEstimate], choose: Chooser) -> Iterator[PhaseCost]:
    """The phases of all rows, each with the numbers of the row that is chosen at each size."""
    phases_by_row = [_by_place(row.phases) for row in rows]
    everywhere: dict[Hashable, PhaseCost] = {}
    # a phase stands where the row puts it in which it comes latest: of rows (a, c) and (a, b, c) the
    # order is a, b, c
    last_number: dict[Hashable, int] = {}
    for phases in reversed(phases_by_row):
        everywhere |= phases
        for number, place in enumerate(phases):
            last_number[place] = max(number, last_number.get(place, 0))
    for place in sorted(everywhere, key=last_number.__getitem__):
        absent = _without_time(everywhere[place])
        alternatives = [phases.get(place, absent) for phases in phases_by_row]
        numbers = {}
        for name in _FIELDS_OF_PHASE:
            numbers[name] = choose([getattr(phase, name) for phase in alternatives])
        yield absent._replace(**numbers)


def _by_place(phases: Sequence[PhaseCost]) -> dict[Hashable, PhaseCost]:
    """Phases by (tier, level, primitive, label) and, of those that are alike in these, a number."""
    alike: Counter[Hashable] = Counter()
    by_place: dict[Hashable, PhaseCost] = {}
    for phase in phases:
        place = (phase.tier, phase.level, phase.primitive, phase.label)
        by_place[place, alike[place]] = phase
        alike[place] += 1
    return by_place


def _without_time(phase: PhaseCost) -> PhaseCost:
    """The phase under a protocol that does not have it."""
    energy = None if phase.energy_J is None else 0.0
    return phase._replace(n_alpha=0, n_beta=0, alpha_s=0.0, bandwidth_s=0.0, energy_J=energy)


def under_protocols(placed: PlacedGroup, primitive: Primitive) -> tuple[PlacedGroup, ...]:
    """The group under each protocol, in the order of the innermost tier that lists any; the bare
    group if no tier does.

    A tier without a list keeps its own numbers. Launch overhead and local copy are paid once per
    call, so the outermost tier that states them wins.

    Raises:
        ColltoolError: tiers list protocols, but none that all of these have.
    """
    return placed.once(("protocols", primitive), lambda: tuple(_under_each(placed, primitive)))


def _under_each(placed: PlacedGroup, primitive: Primitive) -> list[PlacedGroup]:
    """The group under each protocol that all tiers with a list have."""
    lists: dict[str, dict[str, ProtocolNumbers]] = {}
    for span in placed.spans:
        protocols = span.tier.protocols_for(primitive)
        if protocols:
            lists[span.tier.name] = protocols
    if not lists:
        return [placed]
    first, *others = lists.values()
    # in the order of the innermost tier
    common_protocols = list(first)
    for protocols in others:
        common_protocols = [name for name in common_protocols if name in protocols]
    if not common_protocols:
        protocols_of_tiers = "; ".join(
            f"{tier}: {', '.join(protocols)}" for tier, protocols in lists.items()
        )
        raise ColltoolError(
            f"the tiers of {placed.fabric.name} share no protocol for {primitive.label} ({protocols_of_tiers})",
            fix=(
                "a collective runs under one protocol throughout: give it the same name on every"
                " tier"
            ),
        )
    groups = []
    for protocol in common_protocols:
        numbers = {tier: protocols[protocol] for tier, protocols in lists.items()}
        groups.append(_under(placed, protocol, numbers))
    return groups


def _under(
    placed: PlacedGroup, protocol_name: str, numbers: Mapping[str, ProtocolNumbers]
) -> PlacedGroup:
    """The group with a protocol's numbers, by the name of the tier, innermost first."""
    spans = []
    for span in placed.spans:
        if span.tier.name in numbers:
            tier = tier_under(span.tier, numbers[span.tier.name], span.endpoints)
            span = replace(span, tier=tier)
        spans.append(span)
    overhead_s = placed.overhead_s
    copy_Bps = placed.local_copy_Bps
    # innermost first: the last that states a number holds
    for protocol in numbers.values():
        # a launch that the file states takes the place of the library's
        if protocol.launch_s is not None and not placed.fabric.states_launch:
            overhead_s = protocol.launch_s
        if protocol.copy_Bps is not None:
            copy_Bps = protocol.copy_Bps
    return replace(
        placed,
        spans=tuple(spans),
        overhead_s=overhead_s,
        local_copy_Bps=copy_Bps,
        protocol=protocol_name,
        origin=placed,
    )


def tier_under(tier: Tier, protocol: ProtocolNumbers, endpoints: int) -> Tier:
    """A tier with what a library adds under a protocol on some endpoints: a step takes η_α·α + o, a
    byte 1 / (BW·η_β·e)."""
    kind = capabilities_of(tier)
    eta_alpha = tier.eta.alpha * protocol.stretch
    # a posted send takes less than a wire's α (o below zero), but some time
    alpha_s = largest(kind.nearest_alpha_s + protocol.step_s / eta_alpha, _LEAST_STEP_S)
    eta = Eta.model_construct(alpha=eta_alpha, beta=tier.eta.beta * protocol.share_on(endpoints))
    numbers: dict[str, Any] = {
        "eta": eta,
        "bandwidth": tier.bandwidth * protocol.line,
        **kind.at_alpha(alpha_s),
    }
    switch = kind.in_network
    added = tier.library.switch if tier.library is not None else None
    if switch is not None and added is not None:
        allowed = added.protocols is None or protocol.name in added.protocols
        numbers |= kind.with_switch(switch_under(switch, added, tier) if allowed else None)
    return tier.model_copy(update=numbers)


def switch_under(switch: InNetwork, added: SwitchNumbers, tier: Tier) -> InNetwork:
    """Collectives in the switches with what a library adds: time besides α_switch, and a share of
    the switches' η_β."""
    eta_beta = dict(switch.switch_eta_beta)
    for primitive, share in added.shares.items():
        eta_beta[primitive] = eta_beta.get(primitive, tier.eta.beta) * share
    return switch.model_copy(
        update={"alpha_switch": switch.alpha_switch + added.step_s, "eta_beta": eta_beta or None}
    )
