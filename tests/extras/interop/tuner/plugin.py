"""NCCL's example tuner plugin, as its C code reads a file: what it does with every line, careless
as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

COLLECTIVES = {"broadcast": 0, "reduce": 1, "allgather": 2, "reducescatter": 3, "allreduce": 4}
ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
PROTOCOLS = ("ll", "ll128", "simple")
LONGEST = 255


class Taken(NamedTuple):
    """What NCCL then runs."""

    algorithm: str
    protocol: str
    channels: int


class Line(NamedTuple):
    """One row as the plugin keeps it: words that it does not know have become all-reduce, ring and
    Simple."""

    collective: int
    low: int
    high: int
    algorithm: str
    protocol: str
    channels: int
    nodes: int
    ranks: int
    operations: int
    registered: int


def read(text: str) -> list[Line]:
    """All lines that have the eight fields that it wants; empty fields collapse, as in strtok."""
    found = []
    for line in text.split("\n"):
        assert len(line) < LONGEST, "fgets cuts here, and reads the rest as a line of its own"
        words = [word.strip() for word in line.split(",") if word]
        if not line or line[0] == "#" or len(words) < 8:
            continue
        kind, low, high, algorithm, protocol, *rest = words
        numbers = [int(word) for word in rest] + [-1] * (5 - len(rest))
        found.append(
            Line(
                COLLECTIVES.get(kind, 4),
                int(low),
                int(high),
                algorithm if algorithm in ALGORITHMS else "ring",
                protocol if protocol in PROTOCOLS else "simple",
                *numbers,
            )
        )
    return found


def follow(
    lines: list[Line],
    collective: str,
    size: int,
    nodes: int,
    ranks: int,
    available: Callable[[str, str], bool],
) -> Taken | None:
    """The first row that matches and that NCCL can run; None: NCCL's own choice, on 1 channel."""
    for line in lines:
        matches = (
            line.collective == COLLECTIVES[collective]
            and line.low <= size <= line.high
            and line.nodes in (-1, nodes)
            and line.ranks in (-1, ranks)
            and line.operations in (-1, 1)
            and line.registered in (-1, 0, 1)
        )
        if matches and available(line.algorithm, line.protocol):
            return Taken(line.algorithm, line.protocol, 1 if line.channels == -1 else line.channels)
    return None
