"""A call's primitive, size, dtype and group from the profiler's metadata, or why they are unknown.

:func:`call_metadata` is the entry. The names of labels are those of ParamCommsUtils in PyTorch; a
PyTorch before 2.1 has none of them, but the dimensions of the tensors. The header of the trace has
``distributedInfo`` with ``world_size`` and ``pg_config``, the ranks of process groups.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from colltool.base.errors import quote
from colltool.base.formatting import MAX_SIZE
from colltool.base.primitives import A2A, AG, BC, P2P, Primitive
from colltool.base.statements import Statement
from colltool.logs.collective_names import collectives_of
from colltool.logs.dtypes import element_bytes
from colltool.logs.json_values import as_list, as_mapping
from colltool.logs.sentences import statement

Labels = dict[str, Any]  # metadata of a call, by the profiler's names
SPLITS = ("In split size", "Out split size")
LABELS = (
    "Collective name",
    "In msg nelems",
    "Out msg nelems",
    "Group size",
    "dtype",
    "Process Group Name",
    "Process Group ID",
    "Process Group Description",
    "Process Group Ranks",
    "Global rank start",
    "Global rank stride",
    "Seq",
    "Src Rank",
    "Dst Rank",
    "Input Dims",
    "Input type",
    *SPLITS,
)
DIMENSIONS = "involved_dim"  # of Chakra: a collective of some dimensions of a network
UNLISTED = "unlisted group"  # of Chakra: a group's name without its ranks
COMMS = "record_param_comms"  # the event that has the labels
_COALESCED = "_coalesced"  # how the name of a call of several tensors ends
_UNNAMED = ("", "undefined")  # descriptions of a group without one
NO_METADATA = statement("no-metadata")
MOST_MEMBERS = 2**18  # ranks of a group up to which they are written out


class CallMetadata(NamedTuple):
    """A call by its metadata."""

    primitive: Primitive
    bytes: int  # as nccl-tests counts them; of several tensors of all
    dtype: str
    group: str  # description of its process group
    name: str  # that group's, private to a process
    size: int  # how many ranks the group has
    ranks: tuple[int, ...]  # empty if unknown, of a point-to-point the two ends
    seq: int | None  # sequence number in the group
    coalesced: bool = False  # several tensors
    uneven: bool = False  # an all-to-all of unequal parts, which takes at least what equal ones do


def call_metadata(
    labels: Labels, header: Labels, primitives: Sequence[Primitive]
) -> CallMetadata | Statement:
    """A call from its labels, or why it is unknown.

    Args:
        header: of the trace.
        primitives: those that its kernel may run; empty for any.
    """
    collective = labels.get("Collective name")
    if not isinstance(collective, str) or not collective:
        return _call_of_dims(labels, header, primitives)
    # "nccl:_allgather_base" is allgatherbase in the table
    word = collective.rpartition(":")[2].lower().replace("_", "")
    primitive = collectives_of("profiler").get(word)
    if primitive is None:
        if collective.endswith(_COALESCED):
            return statement("mixed-types")
        return statement("not-modelled-call", name=quote(collective))
    if primitives and primitive not in primitives:
        return statement("another-kernel", collective=primitive.label)
    size = as_count(labels.get("Group size"))
    dtype = as_text(labels.get("dtype"))
    width = element_bytes(dtype)  # bytes, 0 if unknown
    elements = _elements(labels, primitive)
    if elements is None and "Input Dims" in labels:
        if primitive is P2P:
            return NO_METADATA
        return _call_of_dims(labels, header, (primitive,))
    if DIMENSIONS in labels:
        return statement("some-dimensions")
    if UNLISTED in labels:
        return statement("group-not-listed", name=quote(labels[UNLISTED]))
    if not size or not width or elements is None:
        return statement("incomplete-metadata")
    if size < 2 or elements == 0 or elements * width > MAX_SIZE:
        return statement("nothing-to-send")
    # a number in PyTorch 2.1
    name = as_text(labels.get("Process Group Name", labels.get("Process Group ID")))
    group = as_text(labels.get("Process Group Description"))
    members = _members(labels, header, name, size)
    return CallMetadata(
        primitive=primitive,
        bytes=elements * width,
        dtype=dtype,
        group="" if group in _UNNAMED else group,
        name=name,
        size=size,
        ranks=_ends(labels, members) if primitive is P2P else members,
        seq=as_count(labels.get("Seq")),
        coalesced=collective.endswith(_COALESCED),
        uneven=primitive is A2A and _are_uneven(labels),
    )


def _elements(labels: Labels, primitive: Primitive) -> int | None:
    """Elements of the message as nccl-tests counts it: an all-gather's whole result, a receive's
    output, else what a rank puts in. None where the label is missing."""
    sent = as_count(labels.get("In msg nelems"))
    received = as_count(labels.get("Out msg nelems"))
    if primitive is AG:
        return received
    if primitive in (P2P, BC):
        return sent or received
    return sent


def _are_uneven(labels: Labels) -> bool:
    """Whether the parts of an all-to-all differ, as far as they are listed: ``[4, 4, 8]``; no list
    means equal parts."""
    for side in SPLITS:
        split = labels.get(side)
        if isinstance(split, str) and len(set(re.findall(r"[0-9]+", split))) > 1:
            return True
    return False


def _call_of_dims(
    labels: Labels, header: Labels, primitives: Sequence[Primitive]
) -> CallMetadata | Statement:
    """A call of a PyTorch before 2.1, whose ``record_param_comms`` has the dimensions and types of
    tensors. It names no group: all ranks of the job are taken. NO_METADATA where its kernel may run
    several ``primitives``, or dimensions or ranks are not told."""
    dims = labels.get("Input Dims")
    types = labels.get("Input type")
    world = as_count(as_mapping(header.get("distributedInfo")).get("world_size")) or 0
    if len(primitives) != 1 or not isinstance(dims, list) or not isinstance(types, list):
        return NO_METADATA
    sent_bytes = sum(map(_tensor_bytes, dims, types))
    if world < 2 or not 0 < sent_bytes * world <= MAX_SIZE:
        return NO_METADATA
    primitive = primitives[0]
    return CallMetadata(
        primitive=primitive,
        bytes=sent_bytes * (world if primitive is AG else 1),
        dtype="",
        group="",
        name="",
        size=world,
        ranks=consecutive(0, world, stride=1) if world <= MOST_MEMBERS else (),
        seq=None,
    )


def _tensor_bytes(shape: Any, kind: Any) -> int:
    """Bytes of one tensor, or of a list of them; 0 for what is none: 16,384 of [64, 64] and
    ``float``."""
    if not isinstance(shape, list) or not shape:
        return 0
    if all(isinstance(tensor, list) for tensor in shape):
        return sum(_tensor_bytes(tensor, kind) for tensor in shape)
    return prod([as_count(edge) or 0 for edge in shape]) * element_bytes(
        as_text(kind).removesuffix("[]")
    )


def _members(labels: Labels, header: Labels, name: str, size: int) -> tuple[int, ...]:
    """A group's ranks from its label, the header, or first rank and stride; empty where unknown, or
    too many to list."""
    job = as_mapping(header.get("distributedInfo"))
    ranks = labels.get("Process Group Ranks")
    if isinstance(ranks, str):  # "[0, 1, 2, 3]"
        words = [word.strip() for word in ranks.strip("[] ").split(",")]
        ranks = [as_count(word) for word in words]
        first = ranks[0]
        # "[0, 1, ..., 63]", truncated, and PyTorch's groups ascend
        is_truncated = "..." in words and size <= MOST_MEMBERS
        if is_truncated and first is not None and ranks[-1] == first + size - 1:
            return consecutive(first, size, stride=1)
    members = _ascending(ranks, size) or _ascending(_listed_in_header(job, name), size)
    if members or size > MOST_MEMBERS:
        return members
    if size == as_count(job.get("world_size")):
        return consecutive(0, size, stride=1)  # the header lists no ranks of a group of all
    first = as_count(labels.get("Global rank start"))
    stride = as_count(labels.get("Global rank stride"))
    if first is None or not stride:
        return ()
    return consecutive(first, size, stride)


def _listed_in_header(job: Mapping[str, Any], name: str) -> Any:
    """The ranks of a group by its name, as the header has them; None where it does not."""
    if name:
        for group in map(as_mapping, as_list(job.get("pg_config"))):
            if as_text(group.get("pg_name")) == name:
                return group.get("ranks")
    return None


@lru_cache(maxsize=64)
def consecutive(first: int, size: int, stride: int) -> tuple[int, ...]:
    """Evenly spaced ranks from ``first`` on, ``size`` of them; one tuple for all calls of a group."""
    return tuple(range(first, first + size * stride, stride))


def _ascending(ranks: Any, size: int) -> tuple[int, ...]:
    """A list of ranks, ascending. Empty unless it has the right size and each rank once."""
    if not isinstance(ranks, list) or len(ranks) != size or None in map(as_count, ranks):
        return ()
    if len(set(ranks)) != size:
        return ()
    return tuple(sorted(ranks))


def _ends(labels: Labels, members: tuple[int, ...]) -> tuple[int, ...]:
    """The two ends of a message, ascending: a group of two, or both ends as labelled.

    Some versions label ends by rank and some by place in the group: empty where both are possible
    and differ.
    """
    if len(members) == 2:
        return members
    source = as_count(labels.get("Src Rank"))
    target = as_count(labels.get("Dst Rank"))
    if source is None or target is None or source == target:
        return ()
    possible = set()
    if {source, target} <= set(members):
        possible.add(frozenset((source, target)))
    if max(source, target) < len(members):
        possible.add(frozenset((members[source], members[target])))
    if len(possible) != 1:
        return ()
    return tuple(sorted(possible.pop()))


def as_count(value: Any) -> int | None:
    """A whole number that is not negative, or the number that a text is; None for anything else."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value):
        return int(value)
    if type(value) is int and 0 <= value < 10**18:
        return value
    return None


def as_text(value: Any) -> str:
    """A label as text; empty for none."""
    return "" if value is None else str(value)
