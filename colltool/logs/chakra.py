"""Reads Chakra execution traces as the events of a profile: protobuf (``.et``,
:mod:`~colltool.logs.chakra_decode`) or JSON (:mod:`~colltool.logs.chakra_json`), plain or gzipped.

:func:`read_chakra` is the entry; :mod:`~colltool.logs.chakra_walk` says when each node runs,
:mod:`~colltool.logs.chakra_labels` which call it is. Where no node says whether it runs on the CPU,
as in converted texts, compute is that of the accelerator.

A collective that names no group is of all ranks of the job, as ASTRA-sim takes it. Where the file
does not say how many there are, :meth:`ChakraTrace.in_job` is told.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from io import BufferedReader
from itertools import chain
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, printable
from colltool.logs.call_metadata import (
    DIMENSIONS,
    MOST_MEMBERS,
    Labels,
    as_count,
    as_text,
)
from colltool.logs.chakra_decode import decode_trace
from colltool.logs.chakra_format import PROCESS_GROUPS, ChakraNode, Value
from colltool.logs.chakra_json import MOST_JSON, is_one_object, read_jsonizer, read_one_object
from colltool.logs.chakra_labels import MESSAGES, RANKS, group_labels, labels_of
from colltool.logs.chakra_observer import INIT
from colltool.logs.chakra_walk import CALLING, Stream, times_of, walk
from colltool.logs.json_stream import GZIP, PackedStream, first_keys
from colltool.logs.json_values import as_mapping

MOST_LISTED = 2**24  # ranks of unevenly spaced groups, over all calls: each call reads them
_WORLD_GROUP = ""  # the name of the group of all ranks of the job: a call of it names no group
_COMMUNICATION = ("COMM_COLL_NODE", *MESSAGES)
# a length as protobuf's varint
_LENGTH = rb"[\x80-\xff]{0,4}[\x00-\x7f]"
# behind its length: metadata with a version (\x0a, "0.0.4"); a node with id and name (\x08, \x12),
# or with a name and a type (\x12, \x18); or empty metadata and a node
_BINARY = re.compile(
    rb"%b(?:\x0a.\d+\.|\x08%b\x12%b[ -~]|\x12%b[ -~]+\x18[\x01-\x0a])"
    rb"|\x00(?:%b[\x08\x12]|$)" % ((_LENGTH,) * 5),
    re.S,
)
# metadata that begins with an attribute: (\x0a) the length of its name, the name, and the key of
# its value, one for each type
_ATTRIBUTE = re.compile(
    rb"%b[\x0a\x12]%b\x0a([\x01-\x1f])([a-z_]+)[\x10\x38\x48\x58\x68\xd8\xea]" % (_LENGTH, _LENGTH)
)
_EMPTY_JSON = re.compile(rb"\s*\{\s*\}\s*\{")  # empty metadata and a node
_METADATA_KEYS = {"version", "attr"}  # of the first object of chakra_jsonizer


class NodeEvent(NamedTuple):
    """A node of a graph and when it ran."""

    node: ChakraNode
    stream: Stream  # what runs it: cpu, compute, communication or receiving
    start_us: float
    end_us: float
    labels: Labels  # of its call, as PyTorch's profiler names them; empty if it is none


class ChakraTrace(NamedTuple):
    """One file, of one rank.

    Args:
        name: of the file.
        header: as a profile has it: ``distributedInfo`` with ``rank`` and ``world_size``, each
            where it is known.
        timed: its nodes, in order of start where the file has no times.
    """

    name: str
    header: Labels
    timed: list[NodeEvent]

    @property
    def communicates(self) -> bool:
        """Whether any node is a call."""
        return any(event.labels for event in self.timed)

    @property
    def rank(self) -> int | None:
        """The rank whose file it is; None if it is unknown."""
        return as_count(self.header["distributedInfo"].get("rank"))

    @property
    def lacks_world(self) -> bool:
        """Whether calls are of all ranks of a job, and the file does not say how many those are."""
        if "world_size" in self.header["distributedInfo"]:
            return False
        return any(_is_of_all_ranks(event) for event in self.timed)

    def in_job(self, world: int) -> ChakraTrace:
        """The same trace as of a job of so many ranks: calls that name no group are of all."""
        groups = {_WORLD_GROUP: group_labels(list(range(world)))}
        events = []
        for event in self.timed:
            if _is_of_all_ranks(event):
                event = event._replace(labels=labels_of(event.node, groups, self.rank))
            events.append(event)
        distributed = self.header["distributedInfo"] | {"world_size": world}
        return self._replace(header={"distributedInfo": distributed}, timed=events)

    def walked(self, lasts_us: Callable[[NodeEvent], float]) -> list[NodeEvent]:
        """The nodes with the times that they would have if each lasted as ``lasts_us`` says, in
        order of start. ColltoolError where dependencies go round in a circle."""
        recorded = {event.node.id: event for event in self.timed}
        # each duration is worked out once: it may be a price
        durations = {node_id: lasts_us(event) for node_id, event in recorded.items()}
        walk_of_nodes = walk(
            [event.node for event in self.timed],
            {node_id: event.stream for node_id, event in recorded.items()},
            lambda node: durations[node.id],
            printable(self.name),
        )
        events = []
        for node, start_us, end_us in walk_of_nodes:
            events.append(recorded[node.id]._replace(start_us=start_us, end_us=end_us))
        return events


def _is_of_all_ranks(event: NodeEvent) -> bool:
    """Whether a node is a collective that names no group, and has no size of one."""
    labels = event.labels
    if event.node.type != "COMM_COLL_NODE" or DIMENSIONS in labels:
        return False
    return not labels.get("Process Group Name") and not labels.get("Group size")


def is_chakra(head: bytes) -> bool:
    """Whether the first bytes of a file, unpacked, are those of a Chakra trace."""
    if _is_binary(head):
        return True
    if _EMPTY_JSON.match(head):
        return True
    keys = first_keys(head)
    return is_one_object(keys) or (bool(keys) and _METADATA_KEYS.issuperset(keys))


def _is_binary(head: bytes) -> bool:
    """Whether a file begins with a message of Chakra in protobuf, not with a text."""
    if _BINARY.match(head):
        return True
    attribute = _ATTRIBUTE.match(head)
    # the length that stands before the name is that of the name
    return attribute is not None and len(attribute[2]) == attribute[1][0]


def read_chakra(stream: BufferedReader, name: str) -> ChakraTrace:
    """Read a file; ``name`` is its own, which may tell the rank.

    Raises:
        ColltoolError: it is no Chakra trace, exceeds a limit, or its dependencies go round in a
            circle.
    """
    where = printable(name)
    metadata, nodes = _read(stream, where)
    members_by_group = _groups(metadata, nodes)
    rank = _rank_of(metadata, name)
    world = as_count(metadata.get("world_size")) or _world_of(members_by_group, nodes)
    if world <= MOST_MEMBERS:
        members_by_group.setdefault(_WORLD_GROUP, list(range(world)))
    groups = {group: group_labels(members) for group, members in members_by_group.items()}
    is_all_on_gpu = not any("is_cpu_op" in node.attributes for node in nodes)
    streams = {node.id: _stream(node, is_all_on_gpu) for node in nodes}
    calls = [node for node in nodes if streams[node.id] in CALLING]
    _check_listed(calls, groups, where)
    labels = {node.id: labels_of(node, groups, rank) for node in calls}
    events = []
    for node, start_us, end_us in times_of(nodes, streams, where):
        events.append(NodeEvent(node, streams[node.id], start_us, end_us, labels.get(node.id, {})))
    distributed: Labels = {}
    if rank is not None:
        distributed["rank"] = rank
    if world:
        distributed["world_size"] = world
    return ChakraTrace(name, {"distributedInfo": distributed}, events)


def _world_of(groups: Mapping[str, list[int]], nodes: Iterable[ChakraNode]) -> int:
    """The ranks of the job: one more than the largest rank that a group lists, else the largest
    group of a call. 0 where neither is told."""
    listed = chain.from_iterable(groups.values())
    largest_rank = max(listed, default=-1)
    if largest_rank >= 0:
        return largest_rank + 1
    sizes = (as_count(node.attributes.get("pg_size")) or 0 for node in nodes)
    return max(sizes, default=0)


def _rank_of(metadata: Mapping[str, Value], name: str) -> int | None:
    """The rank that the file states, else that in its name: ``trace.3.et``, ``rank-3.json``; None
    if neither has one."""
    rank = as_count(metadata.get("rank"))
    numbered = re.search(r"(?:\.|rank[-_]?)(\d{1,9})\.(?:et|json)(?:\.gz)?$", name)
    return int(numbered[1]) if rank is None and numbered else rank


def _check_listed(calls: Iterable[ChakraNode], groups: Mapping[str, Labels], where: str) -> None:
    """Refuse files whose calls would list too many ranks."""
    listed = 0
    for node in calls:
        group = groups.get(as_text(node.attributes.get("pg_name")), {})
        listed += len(group.get(RANKS, ()))
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
            if is_one_object(first_keys(head)):
                return read_one_object(source, where)
            # a byte more than is read, so that a larger file is refused
            return read_jsonizer(source.read(MOST_JSON + 1), where)
        decoded = decode_trace(source, where)
        return decoded.metadata, list(decoded.nodes)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ColltoolError(
            "ends within what was packed",
            where=where,
            fix="write the trace again: this file is cut off",
        ) from error


def _groups(metadata: Mapping[str, Value], nodes: Iterable[ChakraNode]) -> dict[str, list[int]]:
    """Ranks by group name, from the metadata or from PyTorch's node of process groups."""
    texts = [as_text(metadata.get(PROCESS_GROUPS))]
    for node in nodes:
        if node.type == "METADATA_NODE" and INIT in node.name:
            texts.append(node.inputs)
    members_by_group: dict[str, list[int]] = {}
    for group_list in texts:
        for group in map(as_mapping, _json_list(group_list)):
            ranks = group.get("ranks")
            if isinstance(ranks, list) and None not in map(as_count, ranks):
                members_by_group[as_text(group.get("pg_name"))] = ranks
    return members_by_group


def _json_list(group_list: str) -> list[Any]:
    """The groups that a text lists; empty for any other text.

    Chakra: ``[{"pg_name": "0", "ranks": [0, 1]}]``; PyTorch has such a text, with its quotation
    marks escaped, in a list.
    """
    begin = group_list.find("[{")
    end = group_list.rfind("}]")
    if not 0 <= begin < end:
        return []
    try:
        groups = json.loads(group_list[begin : end + 2].replace('\\"', '"'))
    except (ValueError, RecursionError):
        return []
    return groups if isinstance(groups, list) else []


def _stream(node: ChakraNode, is_all_on_gpu: bool) -> Stream:
    """What runs a node: the CPU, or of the GPU compute, communication, or a receive, which waits.
    ``is_all_on_gpu``: no node of the file says where it runs."""
    on_cpu = node.attributes.get("is_cpu_op", not is_all_on_gpu)
    if node.type in _COMMUNICATION:
        # a node on the CPU without a size is the launch of a call, whose own node has one
        is_stated = "is_cpu_op" in node.attributes
        if on_cpu and is_stated and "comm_size" not in node.attributes:
            return "cpu"
        return "receiving" if node.type == "COMM_RECV_NODE" else "communication"
    if node.type == "METADATA_NODE":
        return "cpu"
    return "cpu" if on_cpu else "compute"
