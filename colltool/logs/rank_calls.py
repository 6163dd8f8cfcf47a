"""Calls that several ranks recorded, each in a file of its own: one record a call
(:func:`join_calls`).

Inspector, the profiler plugin and the Flight Recorder number the calls of a communicator, the same
on every rank. A rank at the edge of a tree is done long before the call is, so the longest time is
the call's. Where times include the wait for the last rank (between CUDA events), it is the shortest,
which is that rank's; of a broadcast the second shortest, as its root waits for nobody. A call that
no more than half of the ranks recorded, such as 4 of 8, tells neither and is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from colltool.base.primitives import BC, REDUCE
from colltool.logs.records import Note, RankCall, Record
from colltool.logs.sentences import statement


class JoinedCalls(NamedTuple):
    """Records of which each call has one.

    Args:
        records: of calls, and as they were those that are of no single call.
        notes: on calls left out or doubted.
        files: those whose records were put together with another file's.
    """

    records: list[Record]
    notes: list[Note]
    files: frozenset[str]


def join_calls(records: Iterable[Record]) -> JoinedCalls:
    """Put the records of each call together."""
    joined: list[Record] = []
    # by call, and by the rank that saw it
    calls: dict[RankCall, dict[int | str, Record]] = defaultdict(dict)
    for record in records:
        if record.call is None:
            joined.append(record)
        else:
            key = record.call._replace(rank=0)  # the same for all ranks
            calls[key].setdefault(record.call.rank, record)
    # the most ranks that recorded a call of each communicator and operation
    most_ranks: dict[tuple[str, str], int] = defaultdict(int)
    for call, by_rank in calls.items():
        group = (call.communicator, call.operation)
        most_ranks[group] = max(most_ranks[group], len(by_rank))
    notes: list[Note] = []
    files: set[str] = set()
    for call, by_rank in calls.items():
        of_call = list(by_rank.values())
        first = of_call[0]
        recording = most_ranks[call.communicator, call.operation]  # ranks with a file
        if recording > first.ranks:
            # files of several jobs, whose groups have the same name
            joined += of_call
            continue
        if 2 * len(of_call) <= recording:
            reason = statement("seen-by-few", seen=len(of_call), ranks=recording)
            notes.append(Note(reason, first.file, first.line, first.item))
            continue
        if recording > 1:
            files.update(record.file for record in of_call)
        else:
            reason = statement("one-rank", ranks=first.ranks)
            notes.append(Note(reason, first.file, first.line, first.item, used=True))
        joined.append(_of_all_ranks(call, of_call))
    return JoinedCalls(joined, notes, frozenset(files))


def _of_all_ranks(call: RankCall, of_call: Sequence[Record]) -> Record:
    """The record whose time is the call's; ``of_call``: what each rank recorded of it."""
    by_time = sorted(of_call, key=attrgetter("seconds"))
    primitive = by_time[0].primitive
    if not call.waits or primitive is REDUCE:
        return by_time[-1]
    if primitive is BC:
        # the root is done early and waits for nobody
        return by_time[min(1, len(by_time) - 1)]
    return by_time[0]
