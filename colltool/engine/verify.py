"""``verify``: execute the schedule of every algorithm and hold its formula against what was counted."""

from collections.abc import Sequence

from colltool.algorithms.registry import Algorithm, Group, algorithms
from colltool.cost import Schedule, segmented, total_n_alpha, total_n_beta
from colltool.engine.placement import Placed, flat_group, place
from colltool.engine.plan import flat_plan
from colltool.engine.reach import Reach
from colltool.engine.readings import Readings
from colltool.engine.results import Infeasible, Verification, Verified
from colltool.errors import ColltoolError
from colltool.fabric.model import Fabric
from colltool.primitives import Primitive
from colltool.schedules.library import maker
from colltool.schedules.machine import run
from colltool.schedules.network import FullMesh, Lattice, Network, Ports

MOST_MESSAGES = 40_000_000
"""Beyond it a schedule takes minutes and gigabytes; the formula does not depend on it."""

SEGMENTS = 16
_SAME = 1e-9


def verify(
    fabric: Fabric,
    primitives: Sequence[Primitive],
    ranks: int | None = None,
    readings: Readings | None = None,
    names: Sequence[str] = (),
) -> Verification:
    """Execute every flat algorithm that runs on a group.

    Args:
        fabric, ranks: the group; the links and ports that carry the schedules.
        primitives: which collectives.
        readings: a number for ``pipelining`` is the segments P of pipelined algorithms, 16 otherwise.
        names: only these algorithms.

    Raises:
        ColltoolError: a group that does not fit, or no algorithm of that name runs there.
    """
    reading = (readings or Readings())._replace(ideal=True)
    segments = reading.pipelining if isinstance(reading.pipelining, int) else SEGMENTS
    reading = reading._replace(pipelining=segments)
    placed = place(fabric, ranks)
    group, reach = flat_group(placed, reading)
    done: list[Verified] = []
    skipped: list[Infeasible] = []
    for primitive in primitives:
        for row in algorithms(primitive):
            if (names and row.name not in names) or row.why_not(group) is not None:
                continue
            reason = _why_skip(row, group)
            if reason:
                skipped.append(Infeasible(f"{row.name} ({primitive.replace('_', '-')})", reason))
            else:
                done.append(_executed(row, group, reach, placed, reading, segments))
    if not done and not skipped:
        asked = f" called {', '.join(names)}" if names else ""
        raise ColltoolError(f"no algorithm{asked} runs on {placed.ranks} ranks of {fabric.name}", where="--algorithm")
    return Verification(tuple(done), tuple(skipped))


def _why_skip(row: Algorithm, group: Group) -> str:
    if maker(row.primitive, row.name) is None:
        return "a baseline without a schedule of its own"
    if group.topology in ("tiers", "lattice_tiers"):
        return "a flat schedule over several tiers: verify it on one tier, its counts are the same"
    dense = group.ranks**2 if row.name in ("ring", "chain") else group.ranks**2 * 8
    return "" if dense <= MOST_MESSAGES else f"{group.ranks} ranks are too many to execute; take -n 512 or fewer"


def network_for(group: Group) -> Network:
    """What carries the messages of a group on one tier."""
    if group.axes:
        return Lattice(group.axes)
    return FullMesh(group.ranks) if group.topology == "full_mesh" else Ports(group.ranks)


def _executed(row: Algorithm, group: Group, reach: Reach, placed: Placed, readings: Readings, segments: int) -> Verified:
    make = maker(row.primitive, row.name)
    assert make is not None
    program, network = make(group, segments), network_for(group)
    streamed = program.streamed
    outcome = run(program, network.carry)
    schedule = row.schedule(group)
    formula = _formula(schedule, segments)
    counted = (float(network.hops), network.busiest if streamed else network.peak)
    if streamed:
        counted = (counted[0] * group.switch_levels, counted[1])
    verdict, note = _judge(row, formula, counted, outcome.holds, outcome.problem)
    if any(terms.pipelined for terms in schedule):
        note = "; ".join(filter(None, (f"{segments} segments", note)))
    del placed, reach
    return Verified(
        row.primitive, row.name, group.topology, group.ranks, verdict, (formula[0], counted[0]), (formula[1], counted[1]),
        outcome.holds, note
    )  # fmt: skip


def _formula(schedule: Schedule, segments: int) -> tuple[float, float]:
    """n_α and n_β by the registered formula, pipelined parts at P segments."""
    if not any(terms.pipelined for terms in schedule):
        return total_n_alpha(schedule), total_n_beta(schedule)
    (terms,) = schedule
    n_alpha, n_beta = segmented(terms.n_alpha, terms.n_beta, 1.0, 1.0, 1.0, segments)
    return float(n_alpha), float(n_beta)


def _judge(
    row: Algorithm, formula: tuple[float, float], counted: tuple[float, float], holds: bool, problem: str
) -> tuple[str, str]:
    if not holds:
        return "mismatch", problem
    apart = [abs(c - f) > _SAME * max(1.0, f) for f, c in zip(formula, counted, strict=True)]
    if not any(apart):
        return "proved", ""
    words = [
        f"{name} executed is {c / f:.4g} of the formula"
        for name, f, c, off in zip(("n_alpha", "n_beta"), formula, counted, apart, strict=True)
        if off
    ]
    below = all(c <= f * (1 + _SAME) for f, c in zip(formula, counted, strict=True))
    if below:
        return "idealised", f"the formula is an upper bound here: {'; '.join(words)}"
    return ("idealised" if "idealised" in row.note else "mismatch"), "; ".join(words)


_ = flat_plan
