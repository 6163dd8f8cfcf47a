"""A call's primitive, size, dtype and group from the profiler's metadata, or why they cannot be told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from colltool.base.errors import shown
from colltool.base.formatting import MAX_SIZE
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive

Labels = dict[str, Any]  # metadata of a call, by the profiler's names
SPLITS = ("In split size", "Out split size")
LABELS = (
    "Collective name", "In msg nelems", "Out msg nelems", "Group size", "dtype", "Process Group Name",
    "Process Group Description", "Process Group Ranks", "Global rank start", "Global rank stride", "Seq", "Src Rank", "Dst Rank",
    *SPLITS,
)  # fmt: skip
_PRIMITIVES: dict[str, Primitive] = {
    "allreduce": AR, "all_reduce": AR,
    "allgather": AG, "all_gather": AG, "_allgather_base": AG, "_all_gather_base": AG, "allgather_into_tensor": AG,
    "reduce_scatter": RS, "_reduce_scatter_base": RS, "reduce_scatter_tensor": RS,
    "all_to_all": A2A, "all_to_allv": A2A, "alltoall": A2A, "alltoall_base": A2A,
    "broadcast": BC, "_broadcast_oop": BC, "reduce": REDUCE, "_reduce_oop": REDUCE, "send": P2P, "recv": P2P,
    "allreduce_coalesced": AR,
}  # fmt: skip
_COALESCED = "_coalesced"
_WIDTHS = {
    "Float": 4, "Double": 8, "Half": 2, "BFloat16": 2, "Long": 8, "Int": 4, "Short": 2, "Char": 1, "Byte": 1, "Bool": 1,
    "UInt16": 2, "UInt32": 4, "UInt64": 8, "ComplexHalf": 4, "ComplexFloat": 8, "ComplexDouble": 16,
}  # fmt: skip
_UNNAMED = ("", "undefined")
NO_METADATA = "no metadata (coalesced, from a CUDA graph, or of a PyTorch before 2.1)"
MIXED = "coalesced: the trace has the type of the first tensor alone"
MOST_MEMBERS = 2**18


class CallMetadata(NamedTuple):
    """A call by its metadata. ``group``: description of its process group; ``name``: that group's, private to a process.
    ``ranks``: empty if unknown, of a point-to-point the two ends. ``seq``: sequence number in the group. ``coalesced``: several
    tensors, ``bytes`` of all. ``uneven``: an all-to-all of unequal parts, which takes at least what equal ones do."""

    primitive: Primitive
    bytes: int
    dtype: str
    group: str
    name: str
    size: int
    ranks: tuple[int, ...]
    seq: int | None
    coalesced: bool = False
    uneven: bool = False


def call_metadata(labels: Labels, header: Labels, primitives: Sequence[Primitive]) -> CallMetadata | str:
    """A call from its labels, or a text that says why it cannot be told."""
    called = labels.get("Collective name")
    if not isinstance(called, str) or not called:
        return NO_METADATA
    primitive = _PRIMITIVES.get(called.lower())
    if primitive is None:
        return MIXED if called.endswith(_COALESCED) else f"{shown(called)} is not a primitive that colltool models"
    if primitives and primitive not in primitives:
        return f"labelled {primitive.spoken}, and the kernel is another: batched sends are labelled so"
    size, dtype = count(labels.get("Group size")), text(labels.get("dtype"))
    width = 1 if dtype.startswith("Float8") else _WIDTHS.get(dtype)
    # elements of M: an all-gather's whole result, a receive's output, else what a rank puts in
    into, out = count(labels.get("In msg nelems")), count(labels.get("Out msg nelems"))
    elements = out if primitive is AG else into or out if primitive in (P2P, BC) else into
    if not size or not width or elements is None:
        return "metadata without a group size, a known dtype or a number of elements"
    if size < 2 or elements == 0 or elements * width > MAX_SIZE:
        return "groups of one rank, or nothing to send"
    name, group = text(labels.get("Process Group Name")), text(labels.get("Process Group Description"))
    members = _members(labels, header, name, size)
    # parts that differ as far as they are listed; no list means equal parts
    splits = [set(re.findall(r"[0-9]+", split)) for side in SPLITS if isinstance(split := labels.get(side), str)]
    return CallMetadata(
        primitive=primitive,
        bytes=elements * width,
        dtype=dtype,
        group="" if group in _UNNAMED else group,
        name=name,
        size=size,
        ranks=_ends(labels, members) if primitive is P2P else members,
        seq=count(labels.get("Seq")),
        coalesced=called.endswith(_COALESCED),
        uneven=primitive is A2A and any(len(parts) > 1 for parts in splits),
    )


def _members(labels: Labels, header: Labels, name: str, size: int) -> tuple[int, ...]:
    """A group's ranks from its label, the header, or first rank and stride."""
    listed = labels.get("Process Group Ranks")
    about = header.get("distributedInfo")
    about = about if isinstance(about, dict) else {}
    found = _listed(listed, size) if isinstance(listed, str) else _ranks(listed, size)
    if not found and name and isinstance(groups := about.get("pg_config"), list):
        named = (one for one in groups if isinstance(one, dict) and text(one.get("pg_name")) == name)
        found = _ranks(next(named, {}).get("ranks"), size)
    if found or size > MOST_MEMBERS:
        return found
    if size == count(about.get("world_size")):
        return consecutive(0, size, 1)  # the header lists no ranks of a group of all
    first, stride = count(labels.get("Global rank start")), count(labels.get("Global rank stride"))
    return () if first is None or not stride else consecutive(first, size, stride)


def _listed(text: str, size: int) -> tuple[int, ...]:
    """Ranks from ``[0, 1, 2, 3]``, or from a truncated ``[0, 1, ..., 63]`` if they can only be consecutive: PyTorch's groups
    ascend."""
    parts = [part.strip() for part in text.strip("[] ").split(",")]
    if "..." not in parts:
        return _ranks([count(part) for part in parts], size)
    first, last = count(parts[0]), count(parts[-1])
    if first is None or last is None or size > MOST_MEMBERS or last - first != size - 1:
        return ()
    return consecutive(first, last + 1 - first, 1)


@lru_cache(maxsize=64)
def consecutive(first: int, size: int, stride: int) -> tuple[int, ...]:
    """Evenly spaced ranks; one tuple for all calls of a group."""
    return tuple(range(first, first + size * stride, stride))


def _ranks(listed: Any, size: int) -> tuple[int, ...]:
    if not isinstance(listed, list) or len(listed) != size or any(count(rank) is None for rank in listed):
        return ()
    return tuple(sorted(listed)) if len(set(listed)) == size else ()


def _ends(labels: Labels, members: tuple[int, ...]) -> tuple[int, ...]:
    """The two ends of a message: a group of two, or both named, if it is clear whether by rank or by place in the group."""
    if len(members) == 2:
        return members
    source, target = count(labels.get("Src Rank")), count(labels.get("Dst Rank"))
    if source is None or target is None or source == target or not members:
        return ()
    by_rank = {source, target} if {source, target} <= set(members) else None
    by_place = {members[source], members[target]} if max(source, target) < len(members) else None
    if by_rank and by_place and by_rank != by_place:
        return ()
    return tuple(sorted(by_rank or by_place or ()))


def count(value: Any) -> int | None:
    """A non-negative integer, also from text."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value):
        return int(value)
    return value if type(value) is int and 0 <= value < 10**18 else None


def text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


_COLLECTIVE = re.compile(r"^(?:void )?(?:nccl|rccl|msccl)\w*Kernel", re.ASCII)
_ALGORITHM = re.compile(
    r"(?:^|_)(COLLNET_DIRECT|COLLNET_CHAIN|COLLNET|NVLS_TREE|NVLS|PAT|RING|TREE)(?:_(LL128|LL|SIMPLE))?(?=_|$)"
)
_CALLED = {
    "AllReduce": (AR,),
    "AllGather": (AG,),
    "ReduceScatter": (RS,),
    "Broadcast": (BC,),
    "Reduce": (REDUCE,),
    "SendRecv": (A2A, P2P),
}
_PRIMITIVE = re.compile(r"Kernel_(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv)(?:_|$)")


class KernelName(NamedTuple):
    """What a kernel's name says: ``says`` as written (``RING_LL``), ``algorithm`` and ``protocol`` what of it holds for every
    call under that name, ``primitives`` what it may run (empty: anything)."""

    says: str
    algorithm: str
    protocol: str
    primitives: tuple[Primitive, ...]


def is_collective(name: str) -> bool:
    """Whether a kernel is NCCL's, RCCL's or MSCCL's."""
    return _COLLECTIVE.match(name) is not None


@lru_cache(maxsize=4096)
def kernel_name(name: str) -> KernelName:
    bare = name.partition("(")[0]
    found, kind = _ALGORITHM.search(bare), _PRIMITIVE.search(bare)
    primitives = _CALLED[kind.group(1)] if kind else ()
    if found is None or primitives == (A2A, P2P):
        return KernelName("", "", "", primitives)
    algorithm, protocol = found.group(1).lower(), (found.group(2) or "").lower()
    carries_any = "DevKernel" in bare and algorithm == "ring" and protocol == "ll"
    says = "_".join(part for part in found.groups() if part)
    return KernelName(says, "" if carries_any else algorithm, "" if protocol == "ll" else protocol, primitives)
