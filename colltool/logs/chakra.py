"""Reads Chakra execution traces as the events of a profile: protobuf (``.et``,
:mod:`~colltool.logs.chakra_format`) or JSON (:mod:`~colltool.logs.chakra_json`), plain or gzipped.

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
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, printable
from colltool.logs.call_metadata import (
    DIMENSIONS,
    MOST_MEMBERS,
    Labels,
    count,
    text,
)
from colltool.logs.chakra_format import (
    ChakraNode,
    Value,
    decoded,
)
from colltool.logs.chakra_json import (
    INIT,
    MOST_JSON,
    from_json,
    from_stream,
    is_streamed,
)
from colltool.logs.chakra_labels import MESSAGES, RANKS, group_labels, labels_of
from colltool.logs.chakra_walk import CALLING, Stream, times_of, walk
from colltool.logs.json_stream import GZIP, PackedStream, first_keys
from colltool.logs.json_values import mapping

MOST_LISTED = 2**24  # ranks of unevenly spaced groups, over all calls: each call reads them
PROCESS_GROUPS = "process_groups"  # the name of Chakra's own attribute
_COMMUNICATION = ("COMM_COLL_NODE", *MESSAGES)
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
        placed = {"": group_labels(list(range(world)))}
        timed = []
        for each in self.timed:
            if _is_of_all(each):
                each = each._replace(labels=labels_of(each.node, placed, self.rank))
            timed.append(each)
        about = self.header["distributedInfo"] | {"world_size": world}
        return self._replace(header={"distributedInfo": about}, timed=timed)

    def walked(self, lasts_us: Callable[[Timed], float]) -> list[Timed]:
        """The graph walked with other durations: its nodes with the times that they then have, in
        order of start."""
        recorded = {timed.node.id: timed for timed in self.timed}
        # each duration is worked out once: it may be a price
        durations = {number: lasts_us(timed) for number, timed in recorded.items()}
        streams = {number: timed.stream for number, timed in recorded.items()}
        found = []
        for node, start, end in walk(
            [timed.node for timed in self.timed],
            streams,
            lambda node: durations[node.id],
            printable(self.name),
        ):
            found.append(recorded[node.id]._replace(start_us=start, end_us=end))
        return found


def _is_of_all(timed: Timed) -> bool:
    """Whether a node is a collective that names no group."""
    labels = timed.labels
    unnamed = timed.node.type == "COMM_COLL_NODE" and not labels.get("Process Group Name")
    return unnamed and not labels.get("Group size") and DIMENSIONS not in labels


def is_chakra(head: bytes) -> bool:
    """Whether the first bytes of a file, unpacked, are those of a Chakra trace."""
    if _is_binary(head):
        return True
    if _EMPTY_JSON.match(head):
        return True
    keys = first_keys(head)
    return is_streamed(keys) or (bool(keys) and _METADATA.issuperset(keys))


def _is_binary(head: bytes) -> bool:
    """Whether a file begins with a message of protobuf; its length may look like a blank."""
    if _BINARY.match(head):
        return True
    attribute = _ATTRIBUTE.match(head)
    return attribute is not None and len(attribute[2]) == attribute[1][0]


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
    placed = {group: group_labels(members) for group, members in groups.items()}
    on_gpu = not any("is_cpu_op" in node.attributes for node in nodes)
    streams = {node.id: _stream(node, on_gpu) for node in nodes}
    calling = [node for node in nodes if streams[node.id] in CALLING]
    _check_listed(calling, placed, where)
    labels = {node.id: labels_of(node, placed, rank) for node in calling}
    timed = [
        Timed(node, streams[node.id], start, end, labels.get(node.id, {}))
        for node, start, end in times_of(nodes, streams, where)
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


def _groups(metadata: Mapping[str, Value], nodes: Iterable[ChakraNode]) -> dict[str, list[int]]:
    """Ranks by group name, from the metadata or from PyTorch's node of process groups."""
    texts = [text(metadata.get(PROCESS_GROUPS))]
    for node in nodes:
        if node.type == "METADATA_NODE" and INIT in node.name:
            texts.append(node.inputs)
    found: dict[str, list[int]] = {}
    for listed in texts:
        for group in map(mapping, _json_list(listed)):
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
