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
from typing import Any, Literal, NamedTuple

from colltool.base.errors import ColltoolError, printable
from colltool.logs.call_metadata import (
    MOST_MEMBERS,
    Labels,
    count,
    text,
)
from colltool.logs.chakra_format import (
    COLLECTIVES,
    MOST_NODES,
    NODE_TYPES,
    ChakraNode,
    Value,
    decoded,
)

MOST_JSON = 2**28  # bytes: JSON is read as a whole
MOST_LISTED = 2**24  # ranks of unevenly spaced groups, over all calls: each call reads them
PROCESS_GROUPS = "process_groups"  # the name of Chakra's own attribute
_RANKS = "Process Group Ranks"
# what the profiler calls the collectives of Chakra
_COLLECTIVE_NAMES = {
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
_STARTS_JSON = (b"{", b" ", b"\n", b"\r", b"\t", b"\xef")
_GIVE_ET = "give the .et file itself"
_WRITE_AGAIN = "write the trace again"

# what runs one node at a time; a rank sends and receives at once
Stream = Literal["cpu", "compute", "communication", "receiving"]


class Timed(NamedTuple):
    """A node with its times, and the labels of its call, empty if it does not communicate."""

    node: ChakraNode
    stream: Stream
    start_us: float
    end_us: float
    labels: Labels


class ChakraTrace(NamedTuple):
    """One file: ``header`` as a profile has it, ``timed`` its nodes in order of start."""

    name: str
    header: Labels
    timed: list[Timed]

    @property
    def communicates(self) -> bool:
        return any(timed.labels for timed in self.timed)

    def walked(self, lasts_us: Callable[[Timed], float]) -> list[Timed]:
        """The graph walked with other durations: its nodes with the times that they then have, in
        order of start."""
        recorded = {timed.node.id: timed for timed in self.timed}
        # each duration is worked out once: it may be a price
        durations = {number: lasts_us(timed) for number, timed in recorded.items()}
        nodes = [timed.node for timed in self.timed]
        walk = _walked(nodes, lambda node: durations[node.id], printable(self.name))
        return [recorded[node.id]._replace(start_us=start, end_us=end) for node, start, end in walk]


def is_chakra(head: bytes) -> bool:
    """Whether the first bytes of a file, unpacked, are those of a Chakra trace."""
    if head[:1] in (b"{", b"[") or head[:1].isspace() or head.startswith(b"\xef\xbb\xbf"):
        return _JSON.match(head) is not None and b'"traceEvents"' not in head
    return _BINARY.match(head) is not None


def read_chakra(stream: BufferedReader, name: str) -> ChakraTrace:
    """Read a file. ColltoolError where it is none, exceeds a limit, or its dependencies go round in
    a circle."""
    where = printable(name)
    metadata, nodes = _read(stream, where)
    groups = _groups(metadata, nodes)
    rank = _rank_of(metadata, name)
    world = count(metadata.get("world_size"))
    if not world:
        world = max((max(members, default=0) + 1 for members in groups.values()), default=0)
    if world <= MOST_MEMBERS:
        groups.setdefault("", list(range(world)))  # of a call that names no group
    placed = {group: _group_labels(members) for group, members in groups.items()}
    calling = [node for node in nodes if node.type in _COMMUNICATION]
    _check_listed(calling, placed, where)
    labels = {node.id: _labels(node, placed, rank) for node in calling}
    timed = []
    for node, start, end in _times(nodes, where):
        timed.append(Timed(node, _stream(node), start, end, labels.get(node.id, {})))
    about: Labels = {}
    if rank is not None:
        about["rank"] = rank
    if world:
        about["world_size"] = world
    return ChakraTrace(name, {"distributedInfo": about}, timed)


def _rank_of(metadata: Mapping[str, Value], name: str) -> int | None:
    """The rank that the file names, else its own name: ``trace.3.et``."""
    rank = count(metadata.get("rank"))
    numbered = re.search(r"\.(\d{1,9})\.(?:et|json)(?:\.gz)?$", name)
    return int(numbered[1]) if rank is None and numbered else rank


def _check_listed(calling: Iterable[ChakraNode], placed: Mapping[str, Labels], where: str) -> None:
    """Refuse files whose calls would list too many ranks."""
    listed = 0
    for node in calling:
        group = placed.get(text(node.attributes.get("pg_name")), {})
        listed += len(group.get(_RANKS, ()))
    if listed > MOST_LISTED:
        raise ColltoolError(
            f"calls of unevenly spaced groups name {listed:,} ranks, more than {MOST_LISTED:,}",
            where=where,
            fix="trace fewer steps",
        )


def _read(stream: BufferedReader, where: str) -> tuple[Mapping[str, Value], list[ChakraNode]]:
    """Metadata and nodes, plain or packed, as protobuf or as JSON."""
    source = stream
    if stream.peek(2).startswith(b"\x1f\x8b"):
        source = BufferedReader(gzip.GzipFile(fileobj=stream))
    try:
        head = source.peek(1)[:1]
        if head in _STARTS_JSON:
            return _from_json(source.read(MOST_JSON + 1), where)
        found = decoded(source, where)
        return found.metadata, list(found.nodes)
    except (EOFError, gzip.BadGzipFile) as error:
        raise ColltoolError(
            "ends within what was packed",
            where=where,
            fix="write the trace again: this file is cut off",
        ) from error


def _from_json(content: bytes, where: str) -> tuple[Mapping[str, Value], list[ChakraNode]]:
    """What chakra_jsonizer writes: one object after another, the metadata first, 64-bit numbers as
    text."""
    if len(content) > MOST_JSON:
        what = f"is larger than {MOST_JSON // 2**20} MiB of JSON"
        raise ColltoolError(what, where=where, fix=_GIVE_ET)
    nodes: list[ChakraNode] = []
    what = "is not JSON of Chakra"
    try:
        objects = _objects(content.decode("utf-8-sig"))
        metadata = _json_attributes(next(objects, {}))
        what = "node 1 is not one of Chakra's"
        for value in objects:
            if len(nodes) >= MOST_NODES:
                many = f"has more than {MOST_NODES:,} nodes"
                raise ColltoolError(many, where=where, fix="trace fewer steps")
            nodes.append(_json_node(value))
            what = f"node {len(nodes) + 1} is not one of Chakra's"
    except (ValueError, RecursionError) as error:
        raise ColltoolError(f"{what}: {error}", where=where, fix=_GIVE_ET) from error
    return metadata, nodes


def _objects(content: str) -> Iterator[dict[str, Any]]:
    """JSON objects that follow each other."""
    decoder = JSONDecoder(strict=False)
    start = 0
    while start < len(content):
        if content[start].isspace() or content[start] == ",":
            start += 1
            continue
        value, start = decoder.raw_decode(content, start)
        if not isinstance(value, dict):
            raise ValueError("an object is due")
        yield value


def _json_attributes(value: dict[str, Any]) -> dict[str, Value]:
    """The attributes of an object by name; whole numbers may be written as text."""
    found: dict[str, Value] = {}
    listed = value.get("attr")
    if not isinstance(listed, list):
        return found
    for attribute in filter(_is_object, listed):
        name = text(attribute.get("name"))
        for kind, content in attribute.items():
            if not kind.endswith("Val") or not isinstance(content, bool | int | float | str):
                continue
            whole = "int" in kind.lower() or "fixed" in kind
            found[name] = int(content) if whole and not isinstance(content, bool) else content
    return found


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _json_node(value: dict[str, Any]) -> ChakraNode:
    """A node of JSON; ValueError for what is none."""
    kind = value.get("type", NODE_TYPES[0])
    control = value.get("ctrlDeps", [])
    data = value.get("dataDeps", [])
    if kind not in NODE_TYPES or not isinstance(control, list) or not isinstance(data, list):
        raise ValueError("its type or dependencies")
    inputs = value.get("inputs")
    return ChakraNode(
        id=_whole(value.get("id")),
        name=text(value.get("name")),
        type=kind,
        ctrl_deps=tuple(map(_whole, control)),
        data_deps=tuple(map(_whole, data)),
        start_us=_whole(value.get("startTimeMicros")),
        duration_us=_whole(value.get("durationMicros")),
        attributes=_json_attributes(value),
        inputs=text(inputs.get("values")) if isinstance(inputs, dict) else "",
    )


def _whole(value: Any) -> int:
    found = count(0 if value is None else value)
    if found is None:
        raise ValueError("a whole number is due")
    return found


def _groups(metadata: Mapping[str, Value], nodes: Iterable[ChakraNode]) -> dict[str, list[int]]:
    """Ranks by group name, from the metadata or from PyTorch's node of process groups."""
    texts = [text(metadata.get(PROCESS_GROUPS))]
    for node in nodes:
        if node.type == "METADATA_NODE" and _INIT in node.name:
            texts.append(node.inputs)
    found: dict[str, list[int]] = {}
    for listed in texts:
        for group in filter(_is_object, _json_list(listed)):
            ranks = group.get("ranks")
            if isinstance(ranks, list) and None not in map(count, ranks):
                found[text(group.get("pg_name"))] = ranks
    return found


def _json_list(listed: str) -> list[Any]:
    """The list of groups in a text; PyTorch nests it in another list, as text."""
    begin = listed.find("[{")
    end = listed.rfind("}]")
    if not 0 <= begin < end:
        return []
    try:
        found = json.loads(listed[begin : end + 2].replace('\\"', '"'))
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _group_labels(members: list[int]) -> Labels:
    """Labels of a group's ranks: first and stride, which cost nothing to read for each call, else
    all of them."""
    ranks = sorted(set(members))
    strides = {after - before for before, after in pairwise(ranks)}
    if len(ranks) == len(members) and len(strides) == 1:
        return {
            "Group size": len(ranks),
            "Global rank start": ranks[0],
            "Global rank stride": strides.pop(),
        }
    return {"Group size": len(members) or None, _RANKS: members}


def _labels(node: ChakraNode, placed: Mapping[str, Labels], rank: int | None) -> Labels:
    """A node's call as the profiler labels one: ``comm_size`` are bytes that a rank puts in."""
    attributes = node.attributes
    size = count(attributes.get("comm_size")) or 0
    name = text(attributes.get("pg_name"))
    labels: Labels = {
        "In msg nelems": size,
        "Out msg nelems": size,
        "dtype": "Byte",
        "Process Group Name": name,
    }
    if node.type in _MESSAGES:
        ends = {count(attributes.get("comm_src", rank)), count(attributes.get("comm_dst", rank))}
        known = sorted(end for end in ends if end is not None)
        both = len(known) == 2
        message = {
            "Collective name": "send",
            "Group size": 2 if both else None,
            _RANKS: known if both else [],
        }
        return labels | message
    group = placed.get(name, {})
    kind = count(attributes.get("comm_type"))
    collective = "unknown"
    if kind is not None and kind < len(COLLECTIVES):
        collective = COLLECTIVES[kind]
    if collective == "ALL_GATHER":
        labels["Out msg nelems"] = size * (group.get("Group size") or 0)
    labels["Collective name"] = _COLLECTIVE_NAMES.get(collective, collective.lower())
    return labels | group


def _stream(node: ChakraNode) -> Stream:
    if node.type == "COMM_RECV_NODE":
        return "receiving"
    if node.type in _COMMUNICATION:
        return "communication"
    return "compute" if node.attributes.get("is_cpu_op") is False else "cpu"


TimedNode = tuple[ChakraNode, float, float]
"""A node, its start and its end in us."""


def _times(nodes: list[ChakraNode], where: str) -> Iterator[TimedNode]:
    """Each node as recorded, else by walking the dependencies."""
    if not any(node.start_us for node in nodes):
        yield from _walked(nodes, lambda node: node.duration_us, where)
        return
    for node in nodes:
        yield node, float(node.start_us), float(node.start_us + node.duration_us)


def _walked(
    nodes: list[ChakraNode], lasts_us: Callable[[ChakraNode], float], where: str
) -> Iterator[TimedNode]:
    """Each node as early as its dependencies and its stream let it start, in that order; nodes
    that the file does not have delay nothing. ColltoolError for a circle."""
    by_id = {node.id: node for node in nodes}
    if len(by_id) < len(nodes):
        raise ColltoolError("has two nodes of one number", where=where, fix=_WRITE_AGAIN)
    followers: dict[int, list[int]] = defaultdict(list)
    waiting: dict[int, int] = {}  # how many nodes each still waits for
    for node in nodes:
        before = {*node.ctrl_deps, *node.data_deps} & by_id.keys()
        before.discard(node.id)
        waiting[node.id] = len(before)
        for number in before:
            followers[number].append(node.id)
    # when each node may start, as far as what it depends on is known
    earliest = dict.fromkeys(by_id, 0.0)
    ready = [(0.0, number) for number, count in waiting.items() if not count]
    heapify(ready)
    free: dict[object, float] = defaultdict(float)
    done = 0
    while ready:
        time, number = heappop(ready)
        node = by_id[number]
        done += 1
        stream = _exclusive_stream(node)
        start = max(time, free[stream])
        end = start + lasts_us(node)
        free[stream] = end
        yield node, start, end
        for follower in followers[number]:
            earliest[follower] = max(earliest[follower], end)
            waiting[follower] -= 1
            if not waiting[follower]:
                heappush(ready, (earliest[follower], follower))
    if done < len(nodes):
        raise ColltoolError(
            "has dependencies that go round in a circle", where=where, fix=_WRITE_AGAIN
        )


def _exclusive_stream(node: ChakraNode) -> object:
    """The stream of a node; communication has one per process group."""
    stream = _stream(node)
    # PyTorch gives every process group a stream of its own (ProcessGroupNCCL)
    if node.type in _COMMUNICATION:
        return stream, node.attributes.get("pg_name", "")
    return stream
