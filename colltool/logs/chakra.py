"""Reads Chakra execution traces as the events of a profile: protobuf (``.et``,
:mod:`~colltool.logs.chakra_format`) or JSON (:mod:`~colltool.logs.chakra_json`), plain or gzipped.

Where nodes have no start times, as PyTorch's converter leaves them out, each starts when what it
depends on has ended and its stream is free: the CPU, compute on the GPU, and communication of each
process group are a stream each. Order is ``data_deps``, as Chakra's feeder takes it: ``ctrl_deps``
name the caller, which ends after what it calls. Where no node says whether it runs on the CPU, as
in converted texts, compute is that of the accelerator.

A collective that names no group is of all ranks of the job, as ASTRA-sim takes it. Where the file
does not say how many there are, :meth:`ChakraTrace.in_job` is told.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from io import BufferedReader
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from colltool.base.errors import ColltoolError, printable
from colltool.logs.call_metadata import (
    DIMENSIONS,
    MOST_MEMBERS,
    UNLISTED,
    Labels,
    count,
    text,
)
from colltool.logs.chakra_format import (
    COLLECTIVES,
    ChakraNode,
    Value,
    decoded,
)
from colltool.logs.chakra_json import (
    COLLECTIVE,
    INIT,
    MOST_JSON,
    from_json,
    from_stream,
    is_streamed,
)
from colltool.logs.json_stream import GZIP, PackedStream, first_keys
from colltool.logs.kernel_names import kernel_name

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
# labels of the profiler by the attributes of PyTorch's execution trace
_LABELS = {
    COLLECTIVE: "Collective name",
    "in_msg_nelems": "In msg nelems",
    "out_msg_nelems": "Out msg nelems",
    "in_split_size": "In split size",
    "out_split_size": "Out split size",
    "dtype": "dtype",
    "pg_size": "Group size",
    "pg_name": "Process Group Name",
    "pg_desc": "Process Group Description",
    "global_rank_start": "Global rank start",
    "global_rank_stride": "Global rank stride",
}
_LENGTH = rb"[\x80-\xff]{0,4}[\x00-\x7f]"
# behind its length: metadata with a version; a node with id and name, or with a name and a type; or
# empty metadata and a node
_BINARY = re.compile(
    rb"%b(?:\x0a.\d+\.|\x08%b\x12%b[ -~]|\x12%b[ -~]+\x18[\x01-\x0a])"
    rb"|\x00(?:%b[\x08\x12]|$)" % ((_LENGTH,) * 5),
    re.S,
)
# metadata that begins with an attribute: the length of its name, the name, the key of its value
_ATTRIBUTE = re.compile(
    rb"%b[\x0a\x12]%b\x0a([\x01-\x1f])([a-z_]+)[\x10\x38\x48\x58\x68\xd8\xea]" % (_LENGTH, _LENGTH)
)
_EMPTY_JSON = re.compile(rb"\s*\{\s*\}\s*\{")  # empty metadata and a node
_METADATA = {"version", "attr"}  # keys of the first object of chakra_jsonizer
_WRITE_AGAIN = "write the trace again"

# what runs one node at a time; a rank sends and receives at once
Stream = Literal["cpu", "compute", "communication", "receiving"]
_CALLING = ("communication", "receiving")


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

    @property
    def rank(self) -> int | None:
        return count(self.header["distributedInfo"].get("rank"))

    @property
    def lacks_world(self) -> bool:
        """Whether calls are of all ranks of a job, and the file does not say how many those are."""
        if "world_size" in self.header["distributedInfo"]:
            return False
        return any(_is_of_all(timed) for timed in self.timed)

    def in_job(self, world: int) -> ChakraTrace:
        """The same trace as of a job of so many ranks: calls that name no group are of all."""
        placed = {"": _group_labels(list(range(world)))}
        timed = []
        for each in self.timed:
            if _is_of_all(each):
                each = each._replace(labels=_labels(each.node, placed, self.rank))
            timed.append(each)
        about = self.header["distributedInfo"] | {"world_size": world}
        return self._replace(header={"distributedInfo": about}, timed=timed)

    def walked(self, lasts_us: Callable[[Timed], float]) -> list[Timed]:
        """The graph walked with other durations: its nodes with the times that they then have, in
        order of start."""
        recorded = {timed.node.id: timed for timed in self.timed}
        # each duration is worked out once: it may be a price
        durations = {number: lasts_us(timed) for number, timed in recorded.items()}
        nodes = [timed.node for timed in self.timed]
        streams = {number: timed.stream for number, timed in recorded.items()}
        walk = _walked(nodes, streams, lambda node: durations[node.id], printable(self.name))
        return [recorded[node.id]._replace(start_us=start, end_us=end) for node, start, end in walk]


def _is_of_all(timed: Timed) -> bool:
    """Whether a node is a collective that names no group."""
    labels = timed.labels
    unnamed = timed.node.type == "COMM_COLL_NODE" and not labels.get("Process Group Name")
    return unnamed and not labels.get("Group size") and DIMENSIONS not in labels


def is_chakra(head: bytes) -> bool:
    """Whether the first bytes of a file, unpacked, are those of a Chakra trace."""
    if _is_binary(head):
        return True
    return _EMPTY_JSON.match(head) is not None or _is_json(first_keys(head))


def _is_binary(head: bytes) -> bool:
    """Whether a file begins with a message of protobuf; its length may look like a blank."""
    if _BINARY.match(head):
        return True
    attribute = _ATTRIBUTE.match(head)
    return attribute is not None and len(attribute[2]) == attribute[1][0]


def _is_json(keys: list[str]) -> bool:
    """Whether the keys of a file's first object are those of a Chakra trace."""
    return is_streamed(keys) or (bool(keys) and _METADATA.issuperset(keys))


def read_chakra(stream: BufferedReader, name: str) -> ChakraTrace:
    """Read a file. ColltoolError where it is none, exceeds a limit, or its dependencies go round in
    a circle."""
    where = printable(name)
    metadata, nodes = _read(stream, where)
    groups = _groups(metadata, nodes)
    rank = _rank_of(metadata, name)
    world = count(metadata.get("world_size")) or _world_of(groups, nodes)
    if world <= MOST_MEMBERS:
        groups.setdefault("", list(range(world)))  # of a call that names no group
    placed = {group: _group_labels(members) for group, members in groups.items()}
    on_gpu = not any("is_cpu_op" in node.attributes for node in nodes)
    streams = {node.id: _stream(node, on_gpu) for node in nodes}
    calling = [node for node in nodes if streams[node.id] in _CALLING]
    _check_listed(calling, placed, where)
    labels = {node.id: _labels(node, placed, rank) for node in calling}
    timed = [
        Timed(node, streams[node.id], start, end, labels.get(node.id, {}))
        for node, start, end in _times(nodes, streams, where)
    ]
    about: Labels = {}
    if rank is not None:
        about["rank"] = rank
    if world:
        about["world_size"] = world
    return ChakraTrace(name, {"distributedInfo": about}, timed)


def _world_of(groups: Mapping[str, list[int]], nodes: Iterable[ChakraNode]) -> int:
    """The ranks of the job: one more than the largest rank that a group lists, else the largest
    group of a call. 0 where neither is told."""
    largest = max((max(members, default=-1) for members in groups.values()), default=-1)
    if largest >= 0:
        return largest + 1
    sizes = (count(node.attributes.get("pg_size")) or 0 for node in nodes)
    return max(sizes, default=0)


def _rank_of(metadata: Mapping[str, Value], name: str) -> int | None:
    """The rank that the file names, else its own name: ``trace.3.et``, ``rank-3.json``."""
    rank = count(metadata.get("rank"))
    numbered = re.search(r"(?:\.|rank[-_]?)(\d{1,9})\.(?:et|json)(?:\.gz)?$", name)
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
    if stream.peek(2).startswith(GZIP):
        source = BufferedReader(PackedStream(stream))
    try:
        head = source.peek(1)
        if not _is_binary(head):
            if is_streamed(first_keys(head)):
                return from_stream(source, where)
            return from_json(source.read(MOST_JSON + 1), where)
        found = decoded(source, where)
        return found.metadata, list(found.nodes)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ColltoolError(
            "ends within what was packed",
            where=where,
            fix="write the trace again: this file is cut off",
        ) from error


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _groups(metadata: Mapping[str, Value], nodes: Iterable[ChakraNode]) -> dict[str, list[int]]:
    """Ranks by group name, from the metadata or from PyTorch's node of process groups."""
    texts = [text(metadata.get(PROCESS_GROUPS))]
    for node in nodes:
        if node.type == "METADATA_NODE" and INIT in node.name:
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
    if COLLECTIVE in attributes:
        return _labels_of_pytorch(attributes, placed)
    size = count(attributes.get("comm_size"))
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
    collective = _by_name(node.name)
    if kind is not None and kind < len(COLLECTIVES):
        collective = COLLECTIVES[kind]
    if collective == "ALL_GATHER":
        labels["Out msg nelems"] = (size or 0) * (group.get("Group size") or 0)
    labels["Collective name"] = _COLLECTIVE_NAMES.get(collective, collective.lower())
    if "0" in text(attributes.get(DIMENSIONS)):
        # the group is what those dimensions of a network join, which the file does not say
        return labels | {DIMENSIONS: True}
    if name and not group.get("Group size"):
        return labels | {UNLISTED: name}
    return labels | group


def _by_name(name: str) -> str:
    """The collective that a kernel's name tells, as Chakra's converter does."""
    primitives = kernel_name(name).primitives
    return primitives[0].name if primitives else "unknown"


def _labels_of_pytorch(attributes: Mapping[str, Value], placed: Mapping[str, Labels]) -> Labels:
    """The labels of a call of PyTorch's execution trace, which are the profiler's own."""
    labels: Labels = {
        label: attributes[attribute]
        for attribute, label in _LABELS.items()
        if attribute in attributes
    }
    listed = placed.get(text(labels.get("Process Group Name")), {})
    known = count(labels.get("Group size"))
    if not known or known == listed.get("Group size"):
        labels |= listed
    return labels


def _stream(node: ChakraNode, on_gpu: bool) -> Stream:
    """What runs a node; ``on_gpu``: no node of the file says where it runs."""
    cpu = node.attributes.get("is_cpu_op", not on_gpu)
    if node.type in _COMMUNICATION:
        # the launch of a call, not the call
        if cpu and "is_cpu_op" in node.attributes and "comm_size" not in node.attributes:
            return "cpu"
        return "receiving" if node.type == "COMM_RECV_NODE" else "communication"
    if node.type == "METADATA_NODE":
        return "cpu"
    return "cpu" if cpu else "compute"


TimedNode = tuple[ChakraNode, float, float]
"""A node, its start and its end in us."""


def _times(
    nodes: list[ChakraNode], streams: Mapping[int, Stream], where: str
) -> Iterator[TimedNode]:
    """Each node as recorded, else by walking the dependencies."""
    if not any(node.start_us for node in nodes):
        yield from _walked(nodes, streams, lambda node: node.duration_us, where)
        return
    for node in nodes:
        yield node, float(node.start_us), float(node.start_us + node.duration_us)


def _walked(
    nodes: list[ChakraNode],
    streams: Mapping[int, Stream],
    lasts_us: Callable[[ChakraNode], float],
    where: str,
) -> Iterator[TimedNode]:
    """Start each node as early as its dependencies and its stream let it, and return the nodes in
    that order. Dependencies on nodes that the file does not have delay nothing. ColltoolError for a
    circle."""
    by_id = {node.id: node for node in nodes}
    if len(by_id) < len(nodes):
        raise ColltoolError("has two nodes of one number", where=where, fix=_WRITE_AGAIN)
    followers: dict[int, list[int]] = defaultdict(list)
    waiting: dict[int, int] = {}  # how many nodes each still waits for
    for node in nodes:
        before = by_id.keys() & node.data_deps
        before.discard(node.id)
        waiting[node.id] = len(before)
        for number in before:
            followers[number].append(node.id)
    # when each node may start, as far as what it depends on is known
    earliest = dict.fromkeys(by_id, 0.0)
    ready = [(0.0, number) for number, left in waiting.items() if not left]
    heapify(ready)
    free: dict[object, float] = defaultdict(float)
    done = 0
    while ready:
        time, number = heappop(ready)
        node = by_id[number]
        done += 1
        stream = _exclusive_stream(node, streams[number])
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


def _exclusive_stream(node: ChakraNode, stream: Stream) -> object:
    """The stream of a node; communication has one per process group."""
    # PyTorch gives every process group a stream of its own (ProcessGroupNCCL)
    if stream in _CALLING:
        return stream, node.attributes.get("pg_name", "")
    return stream
