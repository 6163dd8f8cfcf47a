"""Chakra execution traces as the events of a profile: protobuf (``.et``, plain or gzipped) or what
chakra_jsonizer makes of it.

Where nodes have no start times, as PyTorch's converter leaves them out, each starts when what it
depends on has ended and its stream is free: the CPU, compute on the GPU, and communication of each
process group are a stream each.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from io import BufferedReader
from itertools import pairwise
from json import JSONDecoder
from typing import Any, BinaryIO, Literal, NamedTuple, cast

from colltool.base.errors import ColltoolError, printable
from colltool.export.chakra_format import (
    COLLECTIVES,
    MOST_NODES,
    NODE_TYPES,
    ChakraNode,
    Value,
    decoded,
)
from colltool.logs.call_metadata import (
    MOST_MEMBERS,
    Labels,
    count,
    text,
)

MOST_JSON = 2**28  # bytes
MOST_LISTED = 2**24  # ranks of unevenly spaced groups, over all calls: each call reads them
PROCESS_GROUPS = "process_groups"  # the name of Chakra's own attribute
_RANKS = "Process Group Ranks"
_CALLED = {
    "ALL_REDUCE": "allreduce",
    "ALL_GATHER": "allgather",
    "REDUCE_SCATTER": "reduce_scatter",
    "ALL_TO_ALL": "all_to_all",
    "BROADCAST": "broadcast",
    "REDUCE": "reduce",
}
_MESSAGES = ("COMM_SEND_NODE", "COMM_RECV_NODE")
_COMMUNICATION = ("COMM_COLL_NODE", *_MESSAGES)
_LENGTH = rb"[\x80-\xff]{0,4}[\x00-\x7f]"
# a message of a version or of attributes, or an empty one and a node with its id or name
_BINARY = re.compile(
    rb"%b(?:\x0a.\d+\.|\x12%b\x0a)|\x00(?:%b[\x08\x12]|$)" % (_LENGTH, _LENGTH, _LENGTH), re.S
)
_JSON = re.compile(rb'\s*\{\s*(?:\}|"version"\s*:|"attr"\s*:)')
_INIT = "process_group:init"

# a rank sends and receives at once
Stream = Literal["cpu", "compute", "communication", "receiving"]


class Timed(NamedTuple):
    """A node with its times, and of a communication node the labels of a call."""

    node: ChakraNode
    stream: Stream
    start_us: float
    end_us: float
    labels: Labels


class ChakraTrace(NamedTuple):
    """One file: ``header`` as a profile has it."""

    name: str
    header: Labels
    timed: list[Timed]

    @property
    def communicates(self) -> bool:
        return any(one.labels for one in self.timed)

    def walked(self, lasts_us: Callable[[Timed], float]) -> list[Timed]:
        """The graph walked with other durations: its nodes with the times that they then have, in
        order of start."""
        of = {one.node.id: (one, lasts_us(one)) for one in self.timed}
        times = _walked(
            [one.node for one in self.timed], lambda node: of[node.id][1], printable(self.name)
        )
        return [of[node.id][0]._replace(start_us=start, end_us=end) for node, (start, end) in times]


def is_chakra(head: bytes) -> bool:
    """Whether the first bytes of a file, unpacked, are those of a Chakra trace."""
    if head[:1] in (b"{", b"[") or head[:1].isspace() or head.startswith(b"\xef\xbb\xbf"):
        return _JSON.match(head) is not None and b'"traceEvents"' not in head
    return _BINARY.match(head) is not None


def read_chakra(stream: BufferedReader, name: str) -> ChakraTrace:
    """ColltoolError where the file is none, exceeds a limit, or its dependencies go round in a
    circle."""
    packed = stream.peek(2)[:2] == b"\x1f\x8b"
    source = cast("BinaryIO", gzip.GzipFile(fileobj=stream)) if packed else stream
    try:
        metadata, nodes = _opened(source, packed, stream, printable(name))
        found = list(nodes)
    except (EOFError, gzip.BadGzipFile) as error:
        fix = "write the trace again: this file is cut off"
        raise ColltoolError(
            "ends within what was packed", where=printable(name), fix=fix
        ) from error
    groups = _groups(metadata, found)
    rank = count(metadata.get("rank"))
    if rank is None and (numbered := re.search(r"\.(\d{1,9})\.(?:et|json)(?:\.gz)?$", name)):
        rank = int(numbered[1])
    world = count(metadata.get("world_size")) or max(
        (max(one, default=0) + 1 for one in groups.values()), default=0
    )
    about = {"rank": rank, "world_size": world or None}
    if world <= MOST_MEMBERS:
        groups.setdefault("", list(range(world)))  # of a call that names no group
    placed = {key: _placed(members) for key, members in groups.items()}
    calling = [node for node in found if node.type in _COMMUNICATION]
    listed = sum(
        len(placed.get(text(one.attributes.get("pg_name")), {}).get(_RANKS, ())) for one in calling
    )
    if listed > MOST_LISTED:
        what = f"calls of unevenly spaced groups name {listed:,} ranks, more than {MOST_LISTED:,}"
        raise ColltoolError(what, where=printable(name), fix="trace fewer steps")
    labels = {node.id: _labels(node, placed, rank) for node in calling}
    timed = [
        Timed(node, _stream(node), *times, labels.get(node.id, {}))
        for node, times in _times(found, printable(name))
    ]
    return ChakraTrace(
        name,
        {"distributedInfo": {key: value for key, value in about.items() if value is not None}},
        timed,
    )


def _opened(
    source: BinaryIO, packed: bool, stream: BufferedReader, where: str
) -> tuple[Mapping[str, Value], Iterable[ChakraNode]]:
    head = source.read(1) if packed else stream.peek(1)[:1]
    if packed:
        source.seek(0)
    if head in (b"{", b" ", b"\n", b"\r", b"\t", b"\xef"):
        content = source.read(MOST_JSON + 1)
        if len(content) > MOST_JSON:
            raise ColltoolError(
                f"is larger than {MOST_JSON // 2**20} MiB of JSON",
                where=where,
                fix="give the .et file itself",
            )
        return _from_json(content, where)
    made = decoded(source, where)
    return made.metadata, made.nodes


def _from_json(content: bytes, where: str) -> tuple[Mapping[str, Value], Iterator[ChakraNode]]:
    """chakra_jsonizer writes one object after another, the metadata first, 64-bit numbers as
    text."""
    try:
        objects = _objects(content.decode("utf-8-sig"))
        first = next(objects, {})
        metadata = _json_attributes(first)
    except (ValueError, RecursionError) as error:
        raise ColltoolError(
            f"is not JSON of Chakra: {error}", where=where, fix="give the .et file itself"
        ) from error

    def nodes() -> Iterator[ChakraNode]:
        number = 0
        try:
            for one in objects:
                if number >= MOST_NODES:
                    raise ColltoolError(
                        f"has more than {MOST_NODES:,} nodes", where=where, fix="trace fewer steps"
                    )
                node = _json_node(one)
                number += 1
                yield node
        except (ValueError, RecursionError) as error:
            what = f"node {number + 1} is not one of Chakra's: {error}"
            raise ColltoolError(what, where=where, fix="give the .et file itself") from error

    return metadata, nodes()


def _objects(content: str) -> Iterator[dict[str, Any]]:
    at, scan = 0, JSONDecoder(strict=False).raw_decode
    while at < len(content):
        if content[at].isspace() or content[at] == ",":
            at += 1
            continue
        one, at = scan(content, at)
        if not isinstance(one, dict):
            raise ValueError("an object is due")
        yield one


def _json_attributes(one: dict[str, Any]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    listed = one.get("attr")
    for attribute in listed if isinstance(listed, list) else []:
        for key, value in attribute.items() if isinstance(attribute, dict) else ():
            if key.endswith("Val") and isinstance(value, bool | int | float | str):
                whole = "int" in key.lower() or "fixed" in key
                found[text(attribute.get("name"))] = (
                    int(value) if whole and not isinstance(value, bool) else value
                )
    return found


def _json_node(one: dict[str, Any]) -> ChakraNode:
    def whole(value: Any) -> int:
        if (found := count(value if value is not None else 0)) is None:
            raise ValueError("a whole number is due")
        return found

    kind, deps = (
        one.get("type", NODE_TYPES[0]),
        [one.get(key, []) for key in ("ctrlDeps", "dataDeps")],
    )
    if kind not in NODE_TYPES or not all(isinstance(ids, list) for ids in deps):
        raise ValueError("its type or dependencies")
    inputs = one.get("inputs")
    return ChakraNode(
        id=whole(one.get("id")),
        name=text(one.get("name")),
        type=kind,
        ctrl_deps=tuple(map(whole, deps[0])),
        data_deps=tuple(map(whole, deps[1])),
        start_us=whole(one.get("startTimeMicros")),
        duration_us=whole(one.get("durationMicros")),
        attributes=_json_attributes(one),
        inputs=text(inputs.get("values")) if isinstance(inputs, dict) else "",
    )


def _groups(metadata: Mapping[str, Value], nodes: Iterable[ChakraNode]) -> dict[str, list[int]]:
    """Ranks by group name, from the metadata or from PyTorch's node of process groups."""
    texts = [text(metadata.get(PROCESS_GROUPS))]
    texts += [node.inputs for node in nodes if node.type == "METADATA_NODE" and _INIT in node.name]
    found: dict[str, list[int]] = {}
    for one in texts:
        begin, end = one.find("[{"), one.rfind("}]")  # PyTorch's stands in a list as text
        try:
            listed = (
                json.loads(one[begin : end + 2].replace('\\"', '"')) if 0 <= begin < end else []
            )
        except (ValueError, RecursionError):
            continue
        for group in listed if isinstance(listed, list) else []:
            ranks = group.get("ranks") if isinstance(group, dict) else None
            if isinstance(ranks, list) and all(count(rank) is not None for rank in ranks):
                found[text(group.get("pg_name"))] = ranks
    return found


def _placed(members: list[int]) -> Labels:
    """Labels of a group's ranks: first and stride, which cost nothing to read for each call, else
    all of them."""
    ranks = sorted(set(members))
    apart = {after - before for before, after in pairwise(ranks)}
    if len(ranks) == len(members) > 1 and len(apart) == 1:
        return {
            "Group size": len(ranks),
            "Global rank start": ranks[0],
            "Global rank stride": apart.pop(),
        }
    return {"Group size": len(members) or None, _RANKS: members}


def _labels(node: ChakraNode, placed: Mapping[str, Labels], rank: int | None) -> Labels:
    """A node's call as the profiler labels one: ``comm_size`` are bytes that a rank puts in."""
    of, size = node.attributes, count(node.attributes.get("comm_size")) or 0
    name = text(of.get("pg_name"))
    made: Labels = {
        "In msg nelems": size,
        "Out msg nelems": size,
        "dtype": "Byte",
        "Process Group Name": name,
    }
    if node.type in _MESSAGES:
        src, dst = count(of.get("comm_src", rank)), count(of.get("comm_dst", rank))
        ends = [] if src is None or dst is None or src == dst else sorted((src, dst))
        return made | {"Collective name": "send", "Group size": 2 if ends else None, _RANKS: ends}
    group = placed.get(name, {})
    kind = count(of.get("comm_type"))
    called = COLLECTIVES[kind] if kind is not None and kind < len(COLLECTIVES) else "unknown"
    if called == "ALL_GATHER":
        made["Out msg nelems"] = size * (group.get("Group size") or 0)
    return made | {"Collective name": _CALLED.get(called, called.lower())} | group


def _stream(node: ChakraNode) -> Stream:
    if node.type in _COMMUNICATION:
        return "receiving" if node.type == "COMM_RECV_NODE" else "communication"
    return "compute" if node.attributes.get("is_cpu_op") is False else "cpu"


def _times(nodes: list[ChakraNode], where: str) -> Iterator[tuple[ChakraNode, tuple[float, float]]]:
    """Start and end of each node in us: as recorded, else by walking the dependencies."""
    if any(node.start_us for node in nodes):
        yield from (
            (node, (float(node.start_us), float(node.start_us + node.duration_us)))
            for node in nodes
        )
    else:
        yield from _walked(nodes, lambda node: node.duration_us, where)


def _walked(
    nodes: list[ChakraNode], lasts_us: Callable[[ChakraNode], float], where: str
) -> Iterator[tuple[ChakraNode, tuple[float, float]]]:
    """Each node as early as what it depends on and its stream let it start; nodes that the file
    does not have hold nothing up."""
    by_id = {node.id: node for node in nodes}
    if len(by_id) < len(nodes):
        raise ColltoolError("has two nodes of one number", where=where, fix="write the trace again")
    waits = {
        node.id: {
            one for one in (*node.ctrl_deps, *node.data_deps) if one in by_id and one != node.id
        }
        for node in nodes
    }
    after: dict[int, list[int]] = defaultdict(list)
    for number, others in waits.items():
        for other in others:
            after[other].append(number)
    ready = [(0.0, number) for number, others in waits.items() if not others]
    heapify(ready)
    free = defaultdict[tuple[Stream, Value], float](float)
    ends, left = (
        dict.fromkeys(by_id, 0.0),
        {number: len(others) for number, others in waits.items()},
    )
    done = 0
    while ready:
        at, number = heappop(ready)
        node, done = by_id[number], done + 1
        # PyTorch gives every process group a stream of its own (ProcessGroupNCCL)
        stream = (
            _stream(node),
            node.attributes.get("pg_name", "") if node.type in _COMMUNICATION else "",
        )
        start = max(at, free[stream])
        free[stream] = end = start + lasts_us(node)
        yield node, (start, end)
        for other in after[number]:
            ends[other] = max(ends[other], end)
            left[other] -= 1
            if not left[other]:
                heappush(ready, (ends[other], other))
    if done < len(nodes):
        raise ColltoolError(
            "has dependencies that go round in a circle", where=where, fix="write the trace again"
        )
