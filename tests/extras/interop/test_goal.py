"""GOAL files, read and run by LogGOPSim's published rules, beside colltool's price."""

from __future__ import annotations

import re
from collections import defaultdict
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.base.primitives import parse_primitive
from colltool.extras.interop.goal import LogGP, goal, log_gp
from colltool.fabric.model import Fabric
from colltool.verification import schedule
from colltool.verification.schedule import Scheduled, scheduled
from tests.commands.conftest import run as command
from tests.small import clos, fabric, full_mesh, star, switch, torus


class Operation(NamedTuple):
    """``peer`` and ``tag`` of a message; ``length``: its bytes, or the time of a calc."""

    kind: str
    length: int
    peer: int = -1
    tag: int = 0


_LINE = re.compile(
    r"(?P<label>[a-zA-Z]\w*): "
    r"(?:(?P<kind>send|recv) (?P<bytes>\d+)b (?P<way>to|from) (?P<peer>\d+) tag (?P<tag>\d+)|calc"
    r" (?P<calc>\d+))"
)
_REQUIRES = re.compile(r"([a-zA-Z]\w*) requires ([a-zA-Z]\w*)")

Ranks = list[dict[str, tuple[Operation, list[str]]]]


def parsed(text: str) -> Ranks:
    """Operations and what each requires, of every rank, by the grammar of txt2bin.re: a label is
    defined before it is used."""
    lines = [line for line in text.split("\n") if line and not line.startswith("//")]
    count = int(lines.pop(0).removeprefix("num_ranks "))
    found: Ranks = []
    for line in lines:
        if line.startswith("rank "):
            assert line == f"rank {len(found)} {{"
            found.append({})
        elif match := _REQUIRES.fullmatch(line):
            assert match[2] in found[-1]
            found[-1][match[1]][1].append(match[2])
        elif line != "}":
            one = _LINE.fullmatch(line)
            assert one is not None, line
            assert one["label"] not in found[-1]
            if one["calc"] is not None:
                operation = Operation("calc", int(one["calc"]))
            else:
                assert (one["kind"], one["way"]) in (("send", "to"), ("recv", "from"))
                operation = Operation(
                    one["kind"], int(one["bytes"]), int(one["peer"]), int(one["tag"])
                )
                assert operation.length > 0  # LogGOPSim charges size - 1 bytes
            found[-1][one["label"]] = operation, []
    assert len(found) == count
    return found


def simulated(ranks: Ranks, net: LogGP) -> int:
    """The end of the last rank by the event loop of LogGOPSim.cpp with o = g = O = 0 and eager
    messages: one CPU and one NIC a rank; a send takes the NIC for (s-1)G, a message arrives L later
        and takes the receiver's CPU and NIC for (s-1)G."""
    cpu, out, into = ([0] * len(ranks) for _ in range(3))
    waits = [{label: set(needs) for label, (_, needs) in rank.items()} for rank in ranks]
    posted: list[dict[tuple[int, int], list[str]]] = [defaultdict(list) for _ in ranks]
    arrived: list[dict[tuple[int, int], int]] = [defaultdict(int) for _ in ranks]
    events: list[tuple[int, int, int, str, Operation]] = []
    order = 0

    def push(at: int, rank: int, label: str, what: Operation) -> None:
        nonlocal order
        order += 1
        heappush(events, (at, order, rank, label, what))

    def done(rank: int, label: str) -> None:
        for other, needs in waits[rank].items():
            if label in needs:
                needs.discard(label)
                if not needs:
                    free(rank, other)

    def free(rank: int, label: str) -> None:
        what = ranks[rank][label][0]
        push(max(cpu[rank], out[rank]) if what.kind == "send" else cpu[rank], rank, label, what)

    for rank, needs_of in enumerate(waits):
        for label, needs in needs_of.items():
            if not needs:
                free(rank, label)
    while events:
        at, _, rank, label, what = heappop(events)
        key = what.peer, what.tag
        if what.kind == "calc":
            if cpu[rank] > at:
                push(cpu[rank], rank, label, what)
                continue
            cpu[rank] = at + what.length
            done(rank, label)
        elif what.kind == "send":
            if (ready := max(cpu[rank], out[rank])) > at:
                push(ready, rank, label, what)
                continue
            cpu[rank], out[rank] = at, at + (what.length - 1) * net.G
            push(at + net.L, what.peer, "", Operation("message", what.length, rank, what.tag))
            done(rank, label)
        elif what.kind == "recv":
            if arrived[rank][key]:
                arrived[rank][key] -= 1
                done(rank, label)
            else:
                posted[rank][key].append(label)
        else:
            if (ready := max(cpu[rank], into[rank])) > at:
                push(ready, rank, label, what)
                continue
            cpu[rank] = into[rank] = at + (what.length - 1) * net.G
            if posted[rank][key]:
                done(rank, posted[rank][key].pop(0))
            else:
                arrived[rank][key] += 1
    assert not any(any(keys.values()) for keys in (*posted, *arrived)), (
        "a message without its receive"
    )
    return max(cpu)


def of(on: Fabric, primitive: str, name: str, **more: Any) -> Scheduled:
    return scheduled(on, parse_primitive(primitive), name, **more)


def seconds(on: Fabric, primitive: str, name: str, size: float, **more: Any) -> tuple[float, float]:
    """By LogGOPSim's rules, and by colltool."""
    run = of(on, primitive, name, **more)
    net = log_gp(run)
    return simulated(parsed(goal(run, size)), net) * net.unit_s, run.wire_s(size)


@swept(
    ("on", "primitive", "name"),
    [
        (fabric(star(4, 1, 50)), "p2p", "send"),
        (fabric(star(6, 1, 50)), "ar", "ring"),
        (fabric(star(8, 3, 450, eta={"alpha": 1.5, "beta": 0.8})), "ar", "ring"),
        (fabric(star(5, 1, 50)), "ag", "ring"),
        (fabric(star(5, 1, 50)), "rs", "ring"),
        (fabric(star(8, 12, 50)), "ar", "rabenseifner"),
        (fabric(star(8, 1, 50)), "ar", "recursive-doubling"),
        (fabric(star(8, 1, 50)), "ag", "recursive-doubling"),
        (fabric(star(8, 1, 50)), "rs", "recursive-halving"),
        (fabric(star(7, 1, 50)), "a2a", "pairwise"),
        (fabric(star(8, 1, 50)), "a2a", "bruck"),
        (fabric(star(8, 1, 50)), "bc", "binomial"),
        (fabric(torus(4, 3)), "ar", "dim-ring"),
    ],
)
@swept("size", [840.0, 8.4e6])
def test_loggopsim_finds_the_price(on: Fabric, primitive: str, name: str, size: float) -> None:
    """But for a byte of each message, which LogGOPSim does not charge."""
    theirs, ours = seconds(on, primitive, name, size)
    steps = len(list(of(on, primitive, name).steps(size)))
    net = log_gp(of(on, primitive, name))
    assert theirs == pytest.approx(ours, rel=2e-3, abs=steps * net.G * net.unit_s)
    assert size < 1e3 or theirs == pytest.approx(ours, rel=2e-3)


def test_a_tree_in_segments_is_at_most_twice_as_slow() -> None:
    """A rank of LogGOPSim receives or sends; one of colltool does both at once."""
    theirs, ours = seconds(fabric(star(8, 1, 50)), "ar", "double-binary-tree", 64e6, segments=64)
    assert ours < theirs < 2.2 * ours


def test_tiers_take_the_numbers_of_the_slowest() -> None:
    run = of(
        fabric(star(4, 1, 450), clos(4, alpha=5, bw=50)), "ar", "hierarchical:ring/ring", group=16
    )
    text = goal(run, 1e6)
    assert "-L 500000000 " in text
    assert "-G 2000 " in text
    assert "slowest tier" in text
    net = log_gp(
        of(
            fabric(star(4, 1, 450), clos(4, alpha=5, bw=50)),
            "ar",
            "hierarchical:ring/ring",
            group=16,
        )
    )
    assert simulated(parsed(text), net) * net.unit_s > run.wire_s(1e6)


def test_every_rank_sends_what_the_schedule_counts() -> None:
    """A ring moves 2(N-1)/N of M through each rank, in and out."""
    for rank in parsed(goal(of(fabric(star(6)), "ar", "ring"), 6e6)):
        for kind in ("send", "recv"):
            assert sum(one.length for one, _ in rank.values() if one.kind == kind) == 10e6


def test_what_goes_to_one_rank_in_a_step_is_one_message() -> None:
    """Bruck's first step: every second of eight blocks of 2 bytes, to the next rank."""
    step = next(of(fabric(star(8)), "a2a", "bruck").steps(16.0))
    assert len({(one.src, one.dst) for one in step}) == len(step) == 8
    assert {one.bytes for one in step} == {8}


def test_sizes_are_whole_and_never_nothing() -> None:
    lengths = {
        one.length
        for rank in parsed(goal(of(fabric(star(8)), "ar", "ring"), 1.0))
        for one, _ in rank.values()
    }
    assert lengths == {1}
    assert {
        one.bytes for step in of(fabric(star(3)), "ag", "ring").steps(100.0) for one in step
    } == {34}


def test_many_operations_are_joined_by_one() -> None:
    """Reading N-1 requirements for each of the next N-1 messages would be N² lines a rank."""
    ranks = parsed(goal(of(fabric(full_mesh(8, 1, 50)), "ar", "two-shot"), 8e6))
    assert (
        max(len(needs) for rank in ranks for one, needs in rank.values() if one.kind != "calc") == 1
    )
    assert [sum(one.kind == "calc" for one, _ in rank.values()) for rank in ranks] == [1] * 8


@swept(
    ("on", "primitive", "name", "message"),
    [
        (fabric(star(8)), "ar", "rng", "no algorithm 'rng'"),
        (fabric(star(8)), "ar", "hierarchical", "hierarchical: needs a group over several tiers"),
        (
            fabric(star(8)),
            "ar",
            "hierarchical:ring/ring",
            "hierarchical:ring/ring: needs a group over several tiers",
        ),
        (fabric(star(6)), "ar", "rabenseifner", "rabenseifner: needs a power-of-two"),
        (fabric(star(8, in_network=switch())), "ar", "in-network", "works in switches or servers"),
    ],
)
def test_what_cannot_be_written_is_refused(
    on: Fabric, primitive: str, name: str, message: str
) -> None:
    with pytest.raises(ColltoolError, match=message):
        goal(of(on, primitive, name), 1e6)


def test_a_file_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "MOST_SENDS", 40)
    with pytest.raises(ColltoolError, match="sends more than 40 messages"):
        goal(of(fabric(star(6)), "ar", "ring"), 1e6)


def test_the_command_writes_a_file(tmp_path: Path) -> None:
    line = ("export", "goal", "ar", "-f", "star512", "-n", "4", "-M", "1MB", "--algorithm", "ring")
    shown = command(*line)
    assert (shown.code, shown.err) == (0, "")
    assert command(*line, "-o", str(tmp_path / "ring.goal")).code == 0
    assert (tmp_path / "ring.goal").read_text() == shown.out
    assert len(parsed(shown.out)) == 4
