"""Finds an algorithm's schedule by name, with its price and its messages per step, for export to
simulators: :func:`scheduled`."""

from collections.abc import Iterator
from typing import NamedTuple

from colltool.algorithms.composed import composition_names
from colltool.algorithms.executor import concatenated
from colltool.algorithms.program import Program
from colltool.algorithms.registry import find
from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import Primitive
from colltool.estimate.candidates import choice_on
from colltool.estimate.cost_model import CostModel
from colltool.estimate.groups import PlacedGroup, flat_group, place
from colltool.estimate.hierarchical import hierarchical_candidates, why_not_composed
from colltool.estimate.phase_costs import cost_flat
from colltool.estimate.placement import AnyGroup
from colltool.fabric.model import Fabric
from colltool.network.arrays import np
from colltool.verification import executed
from colltool.verification.verdicts import price_s
from colltool.verification.verify import MOST_MESSAGES, SEGMENTS, why_not_executed

MOST_SENDS = 2_000_000  # messages of an exported schedule: about 100 MB of text


class Sent(NamedTuple):
    """A message between two ranks: all chunks that a step sends from one to the other."""

    src: int
    dst: int
    bytes: int  # rounded up to a whole number, at least 1


class Scheduled(NamedTuple):
    """A schedule on a group."""

    placed: PlacedGroup
    cost_model: CostModel
    program: Program  # its batches can be consumed once

    def wire_s(self, size: float) -> float:
        """Latency and transfer time in seconds for ``size`` bytes of M, without launch and library
        overhead."""
        return price_s(self.cost_model, size)

    def steps(self, size: float) -> Iterator[list[Sent]]:
        """The messages of each step for ``size`` bytes of M, ordered by sender and receiver.

        Raises:
            ColltoolError: switches or servers take part, or there are more than :data:`MOST_SENDS`
                messages.
        """
        ranks = self.program.ranks
        sends_left = MOST_SENDS
        for batch in self.program.batches:
            src, dst, chunk = concatenated(batch)
            if max(src.max(initial=0), dst.max(initial=0)) >= ranks:
                raise ColltoolError(
                    f"{self.cost_model.title} works in switches or servers, and other programs have"
                    " only ranks",
                    argument="algorithm",
                    fix=f"take one that ranks run alone: {argument_text('algorithm', 'ring')}",
                )
            # each sender and receiver once: rank 3 to 5 of 8 is 3 * 8 + 5
            pairs, message = np.unique(src.astype(np.int64) * ranks + dst, return_inverse=True)
            carried = np.bincount(message, self.program.chunk_bytes[chunk] * size)  # bytes
            sends_left -= len(carried)
            if sends_left < 0:
                raise ColltoolError(
                    f"{self.cost_model.title} on {ranks} ranks sends more than {MOST_SENDS:,}"
                    " messages",
                    argument="ranks",
                    fix=f"take fewer ranks: {argument_text('ranks', 64)}",
                )
            if len(carried):
                senders, receivers = np.divmod(pairs, ranks)
                sizes = np.maximum(1, np.ceil(carried)).astype(np.int64)
                yield list(map(Sent, senders.tolist(), receivers.tolist(), sizes.tolist()))


def scheduled(
    fabric: Fabric,
    primitive: Primitive,
    name: str,
    group: AnyGroup = None,
    segments: int | None = None,
    *,
    ideal: bool = False,
    most: int = MOST_MESSAGES,
) -> Scheduled:
    """The schedule of an algorithm on a group, such as ``ring`` or ``hierarchical:ring/ring``.

    Args:
        segments: P of pipelined algorithms; None for 16.
        ideal: priced with every η at 1.
        most: roughly the largest number of chunks that may move.

    Raises:
        ColltoolError: there is no such algorithm, it does not run on the group, or it is too large.
    """
    if segments is None:
        segments = SEGMENTS
    placed = place(fabric, group)
    options = executed.model_options(segments, ideal=ideal)
    choice = choice_on(placed, primitive, options, name)
    # First the compositions of the group's tiers.
    for composition in hierarchical_candidates(placed, primitive, options):
        if composition.definition.name == choice.base:
            cost_model = composition.named(choice.tiers) if choice.tiers else composition.usual()
            if placed.ranks**2 > most:
                raise _refusal(f"{placed.ranks} ranks are too many to execute", cost_model.title)
            try:
                program, _ = executed.composed_program(placed, cost_model, segments, options)
            except ValueError as error:
                raise _refusal(str(error), cost_model.title) from error
            return Scheduled(placed, cost_model, program)
    names = composition_names(primitive)
    if choice.base in names:
        raise _refusal(why_not_composed(placed), name)
    # Then one algorithm over all tiers.
    algorithm = find(primitive, choice.base, names)
    flat, paths = flat_group(placed, options)
    flat = algorithm.on(flat, choice)
    reason = algorithm.why_not(flat) or why_not_executed(algorithm, flat, segments, placed, most)
    if reason:
        raise _refusal(reason, name)
    cost_model = cost_flat(algorithm, flat, paths, options)
    return Scheduled(placed, cost_model, executed.flat_program(algorithm, flat, segments))


def _refusal(reason: str, name: str) -> ColltoolError:
    """The error of an algorithm that is not executed, to be raised."""
    fix = "colltool verify lists what can be executed there"
    return ColltoolError(f"{name}: {reason}", argument="algorithm", fix=fix)
