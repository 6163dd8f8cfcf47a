"""A program for a Python that has SimGrid. It reads a file of messages on links, and writes the
``seconds`` that they take to another file.

Both are JSON. In: ``links`` [bytes/s], ``routes`` [[src, dst, latency in s, [number of each
link]]], ``steps`` [[[src, dst, bytes]]]. Nothing of colltool is imported, as the Python may be
another one. A rank starts a step when all that it sends and receives in its last one has arrived.
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
_FLUID_MODEL = [
    "model:CM02",
    "optim:Full",
    "crosstraffic:0",
    "TCP-gamma:0",
    "weight-S:0",
    "latency-factor:1",
    "bandwidth-factor:1",
]

_UNLIMITED_BPS = 1e18  # bytes/s: a link that is nobody's narrowest


def main() -> None:
    """Read the messages, run them, write the seconds."""
    simgrid = import_module("simgrid")
    with open(sys.argv[1]) as stream:
        network = json.load(stream)
    settings = [f"--cfg=network/{setting}" for setting in _FLUID_MODEL]
    engine = simgrid.Engine(["colltool", "--log=root.thres:error", *settings])
    # The first is the name since 3.33, the second the one before.
    for name in ("precision/timing", "surf/precision"):
        with suppress(IndexError):
            simgrid.Engine.set_config(f"{name}:1e-12")
    hosts = _platform(simgrid, network)
    end_times: list[float] = []
    simgrid.Actor.create(
        "schedule", next(iter(hosts.values())), _run, simgrid, hosts, network["steps"], end_times
    )
    engine.run()
    with open(sys.argv[2], "w") as stream:
        json.dump({"seconds": end_times[0]}, stream)


def _platform(simgrid: Any, network: Any) -> dict[int, Any]:
    """Hosts by rank, with a route for each pair that sends."""
    zone = simgrid.NetZone.create_full_zone("fabric")
    links = []
    for number, rate in enumerate(network["links"]):
        links.append(zone.create_link(f"link{number}", rate).seal())
    ranks = set()
    for src, dst, *_ in network["routes"]:
        ranks |= {src, dst}
    hosts = {rank: zone.create_host(str(rank), 1e9).seal() for rank in sorted(ranks)}
    # The latency of a route is that of an own link, which all routes of this latency share.
    delays: dict[float, Any] = {}
    for src, dst, latency, used in network["routes"]:
        if latency not in delays:
            delay = zone.create_link(f"latency{len(delays)}", _UNLIMITED_BPS)
            delays[latency] = delay.set_latency(latency).seal()
        way = [simgrid.LinkInRoute(delays[latency])]
        way += [simgrid.LinkInRoute(links[number]) for number in used]
        zone.add_route(hosts[src].netpoint, hosts[dst].netpoint, None, None, way, False)
    zone.seal()
    return hosts


def _run(simgrid: Any, hosts: dict[int, Any], steps: list[Any], end_times: list[float]) -> None:
    """Start each message when its sender's last step is over, in the order in which messages arrive; append
    the time of the end to ``end_times``, as an actor of SimGrid returns nothing."""
    sends: dict[tuple[int, int], list[tuple[int, int]]] = {}
    # Messages that have not arrived, by rank and step.
    not_arrived: dict[tuple[int, int], int] = {}
    for number, step in enumerate(steps):
        for src, dst, size in step:
            sends.setdefault((src, number), []).append((dst, size))
            for rank in (src, dst):
                not_arrived[rank, number] = not_arrived.get((rank, number), 0) + 1
    # Steps that each rank has still to finish, the current one first.
    pending_steps: dict[int, deque[int]] = {rank: deque() for rank in hosts}
    for rank, number in not_arrived:
        pending_steps[rank].append(number)
    in_flight: list[Any] = []
    ends_of_message: list[tuple[int, int, int]] = []  # sender, receiver, step

    def start(rank: int) -> None:
        """Send what the rank's current step sends, and go on where nothing of it is left."""
        while pending_steps[rank]:
            number = pending_steps[rank][0]
            for dst, size in sends.pop((rank, number), ()):
                in_flight.append(simgrid.Comm.sendto_async(hosts[rank], hosts[dst], size))
                ends_of_message.append((rank, dst, number))
            if not_arrived[rank, number]:
                return
            pending_steps[rank].popleft()

    for rank in hosts:
        start(rank)
    while in_flight:
        arrived = simgrid.Comm.wait_any(in_flight)
        in_flight.pop(arrived)
        src, dst, number = ends_of_message.pop(arrived)
        for rank in (src, dst):
            not_arrived[rank, number] -= 1
        for rank in (src, dst):
            start(rank)
    end_times.append(simgrid.Engine.clock)


if __name__ == "__main__":
    main()
