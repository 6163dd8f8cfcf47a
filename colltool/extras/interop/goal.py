"""A schedule as GOAL, the input of LogGOPSim: for each rank its sends and receives, and which of
them wait for which (:func:`goal`).

Grammar: txt2bin.re of LogGOPSim (Hoefler, Schneider, Lumsdaine 2010). Times there are whole numbers
of any unit. The unit here is the power of ten seconds in which L just fits 31 bits, so that G, one
over the bandwidth, keeps its digits.
"""

from collections.abc import Iterator
from math import ceil, log10
from typing import NamedTuple

from colltool.base.formatting import format_bytes, format_time
from colltool.extras.interop.comments import comment
from colltool.verification.schedule import Scheduled, Sent

MOST_LISTED = 2  # operations that all of the next step name; more are joined by a calc of no length
_MOST_INT = 2**31 - 1  # the most that L and S may be


class LogGP(NamedTuple):
    """LogGOPSim's parameters of the network: L and G in units of ``unit_s``; o, g and O are 0, as
    all of α is in L."""

    L: int  # latency of a message
    G: int  # of a byte
    unit_s: float

    @property
    def options(self) -> str:
        """The options of LogGOPSim's command line."""
        return f"-L {self.L} -o 0 -g 0 -G {self.G} -O 0 -S {_MOST_INT}"


def log_gp(run: Scheduled) -> LogGP:
    """α as L and 1/bandwidth as G, each the largest of any part of a schedule: LogGOPSim has one of
    each for all pairs."""
    costs = [part.cost for part in run.cost_model.parts]
    alpha_s = max(cost.alpha_s for cost in costs)
    rate_Bps = min(cost.effective_Bps for cost in costs)
    unit_s = 10.0 ** ceil(log10(max(alpha_s, 1 / rate_Bps) / _MOST_INT))
    return LogGP(round(alpha_s / unit_s), max(1, round(1 / rate_Bps / unit_s)), unit_s)


def goal(run: Scheduled, size: float) -> str:
    """Return the schedule for ``size`` bytes of M as GOAL; ``run`` is consumed.

    A rank starts a step when its own part of the step before is done. ColltoolError as
    :meth:`Scheduled.steps`.
    """
    ranks = [_RankOperations() for _ in range(run.program.ranks)]
    for number, step in enumerate(run.steps(size)):
        _add_step(ranks, step, number)
    lines = [comment(note, "//") for note in about(run, size)]
    lines += [f"num_ranks {len(ranks)}", ""]
    for number, rank in enumerate(ranks):
        lines += [f"rank {number} {{", *rank.lines, "}\n"]
    return "\n".join(lines)


def about(run: Scheduled, size: float) -> Iterator[str]:
    """Say how to run the file, and how LogGOPSim's time differs from the price."""
    network = log_gp(run)
    placed = run.placed
    what = (
        f"{run.cost_model.primitive.label} of {format_bytes(size)}, {run.cost_model.title},"
        f" {placed.placement.label}"
    )
    yield f"colltool export goal: {what} of {placed.fabric.name}"
    yield f"txt2bin -i FILE.goal -o FILE.bin && LogGOPSim -f FILE.bin {network.options}"
    yield (
        f"its times are in units of {network.unit_s:.0e} s; colltool's price is"
        f" {format_time(run.wire_s(size))}, without launch"
    )
    if any(span.tier.library for span in placed.spans):
        yield "L and G are the tiers' own, of none of their protocols"
    if len({(part.cost.alpha_s, part.cost.effective_Bps) for part in run.cost_model.parts}) > 1:
        yield (
            "L and G are those of the slowest tier: LogGOPSim has one of each for all pairs, so it"
            " takes longer than the price"
        )
    if run.program.streamed:
        yield (
            "segments overlap: a rank of LogGOPSim does not send while it receives, as the price"
            " lets it: up to twice the time"
        )


class _RankOperations:
    """The operations of one rank while they grow.

    Attributes:
        lines: as in the file.
        last_step: labels of the operations of its last step, for which the next ones wait.
        operations: how many it has; labels are numbered by them.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.last_step: list[str] = []
        self.operations = 0

    def add(self, operation: str, waits: list[str]) -> str:
        """Add an operation that waits for others; return its label."""
        self.operations += 1
        label = f"l{self.operations}"
        self.lines.append(f"{label}: {operation}")
        for earlier in waits:
            self.lines.append(f"{label} requires {earlier}")
        return label

    def joined_last_step(self) -> list[str]:
        """The labels of the last step; of a step with many operations, that of a calc which joins
        them, added here."""
        if len(self.last_step) > MOST_LISTED:
            self.last_step = [self.add("calc 0", self.last_step)]
        return self.last_step


def _add_step(ranks: list[_RankOperations], step: list[Sent], number: int) -> None:
    """Add one step: every rank in it sends and receives at the same time; the tag is the step."""
    waits: dict[int, list[str]] = {}  # by rank, what its operations wait for
    added: dict[int, list[str]] = {}  # by rank, labels of its operations
    for message in step:
        for rank in (message.src, message.dst):
            if rank not in waits:
                waits[rank] = ranks[rank].joined_last_step()
                added[rank] = []
    # All sends come first, so that the labels of a rank's receives follow those of its sends.
    for src, dst, size in step:
        send = f"send {size}b to {dst} tag {number}"
        added[src].append(ranks[src].add(send, waits[src]))
    for src, dst, size in step:
        receive = f"recv {size}b from {src} tag {number}"
        added[dst].append(ranks[dst].add(receive, waits[dst]))
    for rank, labels in added.items():
        ranks[rank].last_step = labels
