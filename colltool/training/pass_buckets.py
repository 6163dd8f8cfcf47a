"""Gradients and weights that hide under a whole pass, in buckets.

A bucket goes out as soon as it is ready, one after the other. :func:`pass_buckets` queues the buckets
of all calls of a pass once; :meth:`PassBuckets.exposed` then says for a pass of any length what is
exposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from colltool.training.overlap import PricedCall

MOST_BUCKETS = 4096  # of a pass; more are merged, which changes no printed digit


class PassBuckets(NamedTuple):
    """Buckets under the last backward pass, or under the first forward pass (the same in reverse).

    Buckets of several dimensions share one NIC: their loads add, and the exposed time is shared out
    by load.
    """

    sent: tuple[PricedCall, ...]  # all in one direction, exposed seconds not known yet
    wires: tuple[str, ...]  # names of the tiers that the calls keep busy longest, each once
    buckets: Buckets
    load_s: float  # of all calls together

    def exposed(self, cover_s: float, overhead_s: float) -> list[PricedCall]:
        """Return the calls with their exposed seconds; the last bucket is always exposed.

        ``cover_s``: the pass less other traffic; ``overhead_s``: LogP's o of a call.
        """
        if not self.load_s:
            return list(self.sent)
        exposed_s = behind_pass(max(0.0, cover_s), self.buckets, overhead_s)
        # the first corner is the last bucket (:func:`queued`)
        last_s = self.buckets.corners[0].remaining_s
        # more compute would hide all but the last bucket
        overflow_s = max(0.0, exposed_s - last_s)
        # shared out by load
        exposed_share = exposed_s / self.load_s
        overflow_share = overflow_s / self.load_s
        return [call.with_exposed(exposed_share, overflow_share) for call in self.sent]


def pass_buckets(sent: Sequence[PricedCall]) -> PassBuckets:
    """Queue the buckets of calls by when they become ready, those of one call evenly over the pass.

    Each of a call's ``calls`` is a bucket.
    """
    # when a bucket becomes ready, as a share of the pass, and its seconds
    ready: list[tuple[float, float]] = []
    # thousands of buckets cost time here and change nothing, so of more each stands for several
    shrink = max(1.0, sum(call.call.calls for call in sent) / MOST_BUCKETS)
    for call in sent:
        count = max(1, round(call.call.calls / shrink))
        each_s = call.total_s / count
        for index in range(count):
            share = (index + 1) / count
            ready.append((share, each_s))
    ready.sort(key=itemgetter(0))
    wires = {call.cost.busiest_tier for call in sent}
    wires.discard("")  # of a given time
    return PassBuckets(
        tuple(sent),
        wires=tuple(sorted(wires)),
        buckets=queued([seconds for _, seconds in ready]),
        load_s=sum(call.total_s for call in sent),
    )


class Corner(NamedTuple):
    """A bucket that may set the end of all, by the length of the pass."""

    share: float  # of the pass, after which it is ready
    remaining_s: float  # that it and all behind it take


class Buckets(NamedTuple):
    """Buckets sent one after the other."""

    calls: int  # number of buckets
    # from the last bucket, ready at 1, to the first; empty without buckets
    corners: tuple[Corner, ...]


def queued(takes_s: Sequence[float]) -> Buckets:
    """Queue buckets of these seconds, which become ready evenly over a pass of any length: end_k =
    max(ready_k, end_(k-1)) + t_k.

    The last end is the maximum over k of ready_k + t_k + t_(k+1) + ...: lines in the length of the
    pass, so only their upper envelope counts. Equal buckets have two, however many there are.
    """
    count = len(takes_s)  # bucket k of them is ready at the share k / count of the pass
    remaining_s = 0.0  # of a bucket and all behind it
    corners: list[Corner] = []
    # from the last bucket to the first
    for index in reversed(range(count)):
        remaining_s += takes_s[index]
        corner = Corner((index + 1) / count, remaining_s)
        while len(corners) > 1 and _below_line(corner, corners[-1], corners[-2]):
            corners.pop()
        corners.append(corner)
    return Buckets(count, tuple(corners))


def _below_line(left: Corner, middle: Corner, right: Corner) -> bool:
    """Whether the middle one of three points (share, seconds) lies on or below the line through the
    others."""
    # the slopes from the left point to the two others, each times both distances
    to_middle = (middle.remaining_s - left.remaining_s) * (right.share - left.share)
    to_right = (right.remaining_s - left.remaining_s) * (middle.share - left.share)
    return to_middle <= to_right


def behind_pass(pass_s: float, buckets: Buckets, overhead_s: float) -> float:
    """Exposed seconds of buckets under a pass, which each call makes longer by 2 o.

    The last bucket is ready when the pass ends, so it is always exposed.
    """
    if not buckets.calls:
        return 0.0
    whole_s = pass_s + 2 * overhead_s * buckets.calls
    last_end_s = max(whole_s * corner.share + corner.remaining_s for corner in buckets.corners)
    return last_end_s - pass_s
