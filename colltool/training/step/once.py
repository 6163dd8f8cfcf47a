"""What a step sends once: buckets behind the last backward pass and before the first forward pass, pipeline borders, updates."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from colltool.training.overlap import Buckets, behind_pass, in_a_row, logp
from colltool.training.setup import Setup
from colltool.training.step.beside import Sent

MOST_BUCKETS = 4096


class PassBuckets(NamedTuple):
    """Buckets behind the last backward pass, or before the first forward pass, which is the same the other way round.

    Those of several dimensions go out in turn over one NIC: their loads add. What is exposed is shared out by load.
    """

    sent: tuple[Sent, ...]
    wires: tuple[str, ...]
    buckets: Buckets
    load_s: float

    def exposed(self, cover_s: float, overhead_s: float) -> list[Sent]:
        """The calls with what of them is exposed: the last bucket always.

        Args:
            cover_s: seconds of the pass that are free of other traffic.
            overhead_s: LogP's o of a call.
        """
        if not self.load_s:
            return list(self.sent)
        share = behind_pass(max(0.0, cover_s), self.buckets, overhead_s).exposed_s / self.load_s
        return [one._replace(exposed_s=share * one.total_s) for one in self.sent]


def of_a_pass(sent: Sequence[Sent]) -> PassBuckets:
    """Calls of one pass as the buckets that they are sent in."""
    wires = tuple(sorted({one.fare.wire for one in sent if one.fare.wire}))
    return PassBuckets(tuple(sent), wires, in_a_row(_in_turn(sent)), sum(one.total_s for one in sent))


def under_all(sent: Sequence[Sent], cover_s: float, overhead_s: float) -> list[Sent]:
    """Plain messages that wait for nothing but the step before: T = 2 o + max(T_c, L), eq P7."""
    load = sum(one.total_s for one in sent)
    count = sum(one.call.calls for one in sent)
    if not load:
        return list(sent)
    exposed = logp(cover_s, load, overhead_s * count).exposed_s
    return [one._replace(exposed_s=exposed * one.total_s / load) for one in sent]


def all_of_it(sent: Sequence[Sent], overhead_s: float) -> list[Sent]:
    """Calls that nothing covers."""
    return [one._replace(exposed_s=one.total_s + 2 * overhead_s * one.call.calls) for one in sent]


def borders(sent: Sequence[Sent], setup: Setup, tau_s: float) -> list[Sent]:
    """Messages between stages in steady state hide under other micro-batches; those of warm-up and drain do not.

    The first micro-batch waits at every border on its way forward, the last on its way back; of every other message what a
    chunk's compute does not cover shows.
    """
    crossed = borders_crossed(setup)
    cover = tau_s / setup.chunks / 2
    over = 2 * setup.overlap.overhead_s
    return [
        one._replace(exposed_s=crossed * one.each_s + max(0.0, one.call.calls - crossed) * max(0.0, one.each_s - cover)
                     + over * one.call.calls)
        for one in sent
    ]  # fmt: skip


def borders_crossed(setup: Setup) -> int:
    """Borders between ranks that one micro-batch crosses on its way through the model.

    p v - 1 where the last stage hands over to the first one's next chunk; ZB-V turns round on the last stage, 2 (p - 1).
    """
    stages, chunks = setup.layout.pp, setup.chunks
    return 2 * (stages - 1) if setup.folded else stages * chunks - 1


def _in_turn(sent: Sequence[Sent]) -> list[float]:
    """Seconds of every bucket, those of each call spread evenly over the pass."""
    placed: list[tuple[float, float]] = []
    shrink = max(1.0, sum(one.call.calls for one in sent) / MOST_BUCKETS)
    for one in sent:
        count = max(1, round(one.call.calls / shrink))
        each = one.total_s / count
        placed += [((index + 1) / count, each) for index in range(count)]
    return [takes for _, takes in sorted(placed, key=itemgetter(0))]
