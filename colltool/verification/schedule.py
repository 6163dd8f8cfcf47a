"""One schedule by its name: the program that a group runs, with the price of the same, for other
programs to run."""

from collections.abc import Iterator
from typing import NamedTuple

from colltool.algorithms.composed import compositions
from colltool.algorithms.executor import joined
from colltool.algorithms.program import Program
from colltool.algorithms.registry import find, parse_choice
from colltool.base.errors import ColltoolError, given
from colltool.base.primitives import Primitive
from colltool.estimate.assumptions import Readings
from colltool.estimate.cost_model import CostModel
from colltool.estimate.groups import PlacedGroup, flat_group, place
from colltool.estimate.hierarchical import hierarchical_candidates, why_not_composed
from colltool.estimate.phase_costs import cost_flat
from colltool.estimate.placement import AnyGroup
from colltool.fabric.model import Fabric
from colltool.verification import executed
from colltool.verification.verify import MOST_MESSAGES, SEGMENTS, why_not_executed

MOST_SENDS = 2_000_000  # messages between two ranks in a file: about 100 MB of text


class Sent(NamedTuple):
    """A step of a schedule between two ranks: all chunks as one message."""

    src: int
    dst: int
    bytes: int  # rounded up to a whole number, at least 1


class Scheduled(NamedTuple):
    """A schedule on a group; its ``program`` can be run once."""

    placed: PlacedGroup
    costed: CostModel
    program: Program

    def wire_s(self, size: float) -> float:
        """Its price for ``size`` bytes of M in seconds: α and bytes alone, without launches and
        what a library adds."""
        row = self.costed.at(size)
        return float(row.steps_s) + float(row.moved_s)

    def steps(self, size: float) -> Iterator[list[Sent]]:
        """Messages of each step for ``size`` bytes of M, ordered by sender and receiver.

        ColltoolError for a switch or server among the nodes, and for more than :data:`MOST_SENDS`
        messages.
        """
        left = MOST_SENDS
        for batch in self.program.batches:
            sent: dict[tuple[int, int], float] = {}
            src, dst, chunk = joined(batch)
            weight = self.program.chunk_bytes[chunk] * size
            for one, other, carried in zip(
                src.tolist(), dst.tolist(), weight.tolist(), strict=True
            ):
                sent[one, other] = sent.get((one, other), 0.0) + carried
            if any(max(pair) >= self.program.ranks for pair in sent):
                what = (
                    f"{self.costed.title} works in switches or servers, and other programs have"
                    " only ranks"
                )
                raise ColltoolError(
                    what,
                    argument="algorithm",
                    fix=f"take one that ranks run alone: {given('algorithm', 'ring')}",
                )
            if (left := left - len(sent)) < 0:
                what = (
                    f"{self.costed.title} on {self.program.ranks} ranks sends more than"
                    f" {MOST_SENDS:,} messages"
                )
                raise ColltoolError(
                    what, argument="ranks", fix=f"take fewer ranks: {given('ranks', 64)}"
                )
            if sent:
                yield [
                    Sent(*pair, max(1, -int(-carried // 1)))
                    for pair, carried in sorted(sent.items())
                ]


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
    """The schedule that ``name`` is on a group: ``ring``, ``hierarchical:ring/ring``.

    ``segments``: P of pipelined ones; 16 when None. ``ideal``: priced with every η at 1. ``most``:
    about how many chunks may move. ColltoolError where there is no such algorithm, none of that
    name runs there, or it is too large.
    """
    cut, choice, placed = segments or SEGMENTS, parse_choice(name), place(fabric, group)
    readings = Readings(ideal=ideal, pipelining=cut, ring_alpha="worst", phases="sequential")
    for bench in hierarchical_candidates(placed, primitive, readings):
        if bench.row.name == choice.base:
            costed = bench.named(choice.tiers) if choice.tiers else bench.usual()
            if placed.ranks**2 > most:
                raise _refused(f"{placed.ranks} ranks are too many to execute", costed.title)
            try:
                return Scheduled(
                    placed, costed, executed.on_tiers(placed, costed, cut, readings)[0]
                )
            except ValueError as error:
                raise _refused(str(error), costed.title) from error
    composed = [row.name for row in compositions(primitive)]
    if choice.base in composed:
        raise _refused(why_not_composed(placed), name)
    row = find(primitive, choice.base, composed)
    seen, reach = flat_group(placed, readings)
    seen = row.on(seen, choice)
    if reason := row.why_not(seen) or why_not_executed(row, seen, cut, placed, most):
        raise _refused(reason, name)
    return Scheduled(
        placed, cost_flat(row, seen, reach, readings), executed.flat_program(row, seen, cut)
    )


def _refused(reason: str, name: str) -> ColltoolError:
    return ColltoolError(
        f"{name}: {reason}",
        argument="algorithm",
        fix="colltool verify lists what can be executed there",
    )
