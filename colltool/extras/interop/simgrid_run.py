"""Run by a Python that has SimGrid, with a file of messages on links, and one to write ``seconds``
to, how long they take.

Both are JSON. In: ``links`` [bytes/s], ``routes`` [[src, dst, latency in s, [number of each
link]]], ``steps`` [[[src, dst, bytes]]]. Nothing of colltool is imported: the Python may be another
one. A rank starts a step when all that it sends and is sent in its last one has arrived.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from contextlib import suppress
from importlib import import_module
from typing import Any

# SimGrid's plain fluid model: latency once, then the max-min fair share of the narrowest link;
# nothing of TCP. Its lazy updates let messages of microseconds that ended at one instant share
# links with those that start then.
_PLAIN = [
    "model:CM02",
    "optim:Full",
    "crosstraffic:0",
    "TCP-gamma:0",
    "weight-S:0",
    "latency-factor:1",
    "bandwidth-factor:1",
]

_WIDE = 1e18  # bytes/s: a link that is nobody's narrowest


def main() -> None:
    simgrid = import_module("simgrid")
    with open(sys.argv[1]) as stream:
        given = json.load(stream)
    engine = simgrid.Engine(
        ["colltool", "--log=root.thres:error", *(f"--cfg=network/{one}" for one in _PLAIN)]
    )
    for name in ("precision/timing", "surf/precision"):  # its name since 3.33, and before
        with suppress(IndexError):
            simgrid.Engine.set_config(f"{name}:1e-12")
    hosts = _platform(simgrid, given)
    ended: list[float] = []
    simgrid.Actor.create(
        "schedule", next(iter(hosts.values())), _run, simgrid, hosts, given["steps"], ended
    )
    engine.run()
    with open(sys.argv[2], "w") as stream:
        json.dump({"seconds": ended[0]}, stream)


def _platform(simgrid: Any, given: Any) -> dict[int, Any]:
    """Hosts by rank, with a route for each pair that sends."""
    zone = simgrid.NetZone.create_full_zone("fabric")
    links = [
        zone.create_link(f"link{number}", rate).seal() for number, rate in enumerate(given["links"])
    ]
    ranks = sorted({rank for route in given["routes"] for rank in route[:2]})
    hosts = {rank: zone.create_host(str(rank), 1e9).seal() for rank in ranks}
    waits: dict[float, Any] = {}
    for src, dst, latency, used in given["routes"]:
        if latency not in waits:
            waits[latency] = (
                zone.create_link(f"latency{len(waits)}", _WIDE).set_latency(latency).seal()
            )
        way = [
            simgrid.LinkInRoute(one)
            for one in (waits[latency], *(links[number] for number in used))
        ]
        zone.add_route(hosts[src].netpoint, hosts[dst].netpoint, None, None, way, False)
    zone.seal()
    return hosts


def _run(simgrid: Any, hosts: dict[int, Any], steps: list[Any], ended: list[float]) -> None:
    """Starts each message when its sender's last step is over, in the order in which messages
    arrive."""
    sends: dict[tuple[int, int], list[tuple[int, int]]] = {}
    left: dict[tuple[int, int], int] = {}  # messages of a rank's step that have not arrived
    for number, step in enumerate(steps):
        for src, dst, size in step:
            sends.setdefault((src, number), []).append((dst, size))
            for rank in (src, dst):
                left[rank, number] = left.get((rank, number), 0) + 1
    ahead: dict[int, deque[int]] = {rank: deque() for rank in hosts}  # steps of each rank
    for rank, number in left:
        ahead[rank].append(number)
    going: list[Any] = []
    what: list[tuple[int, int, int]] = []

    def start(rank: int) -> None:
        while ahead[rank]:
            number = ahead[rank][0]
            for dst, size in sends.pop((rank, number), ()):
                going.append(simgrid.Comm.sendto_async(hosts[rank], hosts[dst], size))
                what.append((rank, dst, number))
            if left[rank, number]:
                return
            ahead[rank].popleft()

    for rank in hosts:
        start(rank)
    while going:
        at = simgrid.Comm.wait_any(going)
        going.pop(at)
        src, dst, number = what.pop(at)
        for rank in (src, dst):
            left[rank, number] -= 1
        for rank in (src, dst):
            start(rank)
    ended.append(simgrid.Engine.clock)


if __name__ == "__main__":
    main()
