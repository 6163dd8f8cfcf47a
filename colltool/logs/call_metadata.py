"""A call's primitive, size, dtype and group from the profiler's metadata, or why they cannot be
told."""

import re
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from colltool.base.errors import shown
from colltool.base.formatting import MAX_SIZE
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive

Labels = dict[str, Any]  # metadata of a call, by the profiler's names
SPLITS = ("In split size", "Out split size")
LABELS = (
    "Collective name",
    "In msg nelems",
    "Out msg nelems",
    "Group size",
    "dtype",
    "Process Group Name",
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
COMMS = "record_param_comms"
_PRIMITIVES: dict[str, Primitive] = {
    "allreduce": AR,
    "all_reduce": AR,
    "allgather": AG,
    "all_gather": AG,
    "_allgather_base": AG,
    "_all_gather_base": AG,
    "allgather_into_tensor": AG,
    "reduce_scatter": RS,
    "_reduce_scatter_base": RS,
    "reduce_scatter_tensor": RS,
    "all_to_all": A2A,
    "all_to_allv": A2A,
    "alltoall": A2A,
    "alltoall_base": A2A,
    "broadcast": BC,
    "_broadcast_oop": BC,
    "reduce": REDUCE,
    "_reduce_oop": REDUCE,
    "send": P2P,
    "recv": P2P,
    "allreduce_coalesced": AR,
}
_COALESCED = "_coalesced"
_WIDTHS = {
    "Float": 4,
    "Double": 8,
    "Half": 2,
    "BFloat16": 2,
    "Long": 8,
    "Int": 4,
    "Short": 2,
    "Char": 1,
    "Byte": 1,
    "Bool": 1,
    "UInt16": 2,
    "UInt32": 4,
    "UInt64": 8,
    "ComplexHalf": 4,
    "ComplexFloat": 8,
    "ComplexDouble": 16,
}
_UNNAMED = ("", "undefined")
NO_METADATA = "no metadata (coalesced, from a CUDA graph, or of a PyTorch before 2.1)"
MIXED = "coalesced: the trace has the type of the first tensor alone"
MOST_MEMBERS = 2**18


class CallMetadata(NamedTuple):
    """A call by its metadata. ``group``: description of its process group; ``name``: that group's,
    private to a process.
    ``ranks``: empty if unknown, of a point-to-point the two ends. ``seq``: sequence number in the
    group. ``coalesced``: several tensors, ``bytes`` of all. ``uneven``: an all-to-all of unequal
    parts, which takes at least what equal ones do."""

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


def call_metadata(
    labels: Labels, header: Labels, primitives: Sequence[Primitive]
) -> CallMetadata | str:
    """A call from its labels, or a text that says why it cannot be told."""
    called = labels.get("Collective name")
    if not isinstance(called, str) or not called:
        return _by_dims(labels, header, primitives)
    primitive = _PRIMITIVES.get(called.lower())
    if primitive is None:
        return (
            MIXED
            if called.endswith(_COALESCED)
            else f"{shown(called)} is not a primitive that colltool models"
        )
    if primitives and primitive not in primitives:
        return (
            f"labelled {primitive.spoken}, and the kernel is another: batched sends are labelled so"
        )
    size, dtype = count(labels.get("Group size")), text(labels.get("dtype"))
    width = 1 if dtype.startswith("Float8") else _WIDTHS.get(dtype)
    # elements of M: an all-gather's whole result, a receive's output, else what a rank puts in
    into, out = count(labels.get("In msg nelems")), count(labels.get("Out msg nelems"))
    elements = out if primitive is AG else into or out if primitive in (P2P, BC) else into
    if not size or not width or elements is None:
        return "metadata without a group size, a known dtype or a number of elements"
    if size < 2 or elements == 0 or elements * width > MAX_SIZE:
        return "groups of one rank, or nothing to send"
    name, group = (
        text(labels.get("Process Group Name")),
        text(labels.get("Process Group Description")),
    )
    members = _members(labels, header, name, size)
    # parts that differ as far as they are listed; no list means equal parts
    splits = [
        set(re.findall(r"[0-9]+", split))
        for side in SPLITS
        if isinstance(split := labels.get(side), str)
    ]
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


def _by_dims(labels: Labels, header: Labels, primitives: Sequence[Primitive]) -> CallMetadata | str:
    """A call of a PyTorch before 2.1, whose ``record_param_comms`` has the tensors' dims and types:
    of all ranks."""
    dims, types = labels.get("Input Dims"), labels.get("Input type")
    about = header.get("distributedInfo")
    world = count(about.get("world_size")) if isinstance(about, dict) else None
    if (
        len(primitives) != 1
        or not isinstance(dims, list)
        or not isinstance(types, list)
        or not world
        or world < 2
    ):
        return NO_METADATA
    size = sum(_tensor_bytes(shape, kind) for shape, kind in zip(dims, types, strict=False))
    if not 0 < size * world <= MAX_SIZE:
        return NO_METADATA
    primitive = primitives[0]
    return CallMetadata(
        primitive=primitive,
        bytes=size * (world if primitive is AG else 1),
        dtype="",
        group="",
        name="",
        size=world,
        ranks=consecutive(0, world, 1) if world <= MOST_MEMBERS else (),
        seq=None,
    )


_BY_C_NAME = {
    "float": 4,
    "double": 8,
    "c10::Half": 2,
    "c10::BFloat16": 2,
    "long int": 8,
    "long": 8,
    "int": 4,
    "unsigned char": 1,
}


def _tensor_bytes(shape: Any, kind: Any) -> int:
    """Of one tensor, or of a list of them; 0 for what is none."""
    if isinstance(shape, list) and shape and all(isinstance(one, list) for one in shape):
        return sum(_tensor_bytes(one, kind) for one in shape)
    edges = [count(edge) for edge in shape] if isinstance(shape, list) else []
    width = _BY_C_NAME.get(text(kind).removesuffix("[]"), 0)
    return (
        prod(edge for edge in edges if edge is not None) * width
        if edges and None not in edges
        else 0
    )


def _members(labels: Labels, header: Labels, name: str, size: int) -> tuple[int, ...]:
    """A group's ranks from its label, the header, or first rank and stride."""
    listed = labels.get("Process Group Ranks")
    about = header.get("distributedInfo")
    about = about if isinstance(about, dict) else {}
    if isinstance(listed, str):  # "[0, 1, 2, 3]"
        parts = [part.strip() for part in listed.strip("[] ").split(",")]
        listed, low, high = [count(part) for part in parts], count(parts[0]), count(parts[-1])
        if "..." in parts and low is not None and high == low + size - 1 and size <= MOST_MEMBERS:
            # "[0, 1, ..., 63]", truncated, and PyTorch's groups ascend
            return consecutive(low, size, 1)
    found = _ranks(listed, size)
    if not found and name and isinstance(groups := about.get("pg_config"), list):
        named = (
            one for one in groups if isinstance(one, dict) and text(one.get("pg_name")) == name
        )
        found = _ranks(next(named, {}).get("ranks"), size)
    if found or size > MOST_MEMBERS:
        return found
    if size == count(about.get("world_size")):
        return consecutive(0, size, 1)  # the header lists no ranks of a group of all
    first, stride = count(labels.get("Global rank start")), count(labels.get("Global rank stride"))
    return () if first is None or not stride else consecutive(first, size, stride)


@lru_cache(maxsize=64)
def consecutive(first: int, size: int, stride: int) -> tuple[int, ...]:
    """Evenly spaced ranks; one tuple for all calls of a group."""
    return tuple(range(first, first + size * stride, stride))


def _ranks(listed: Any, size: int) -> tuple[int, ...]:
    if (
        not isinstance(listed, list)
        or len(listed) != size
        or any(count(rank) is None for rank in listed)
    ):
        return ()
    return tuple(sorted(listed)) if len(set(listed)) == size else ()


def _ends(labels: Labels, members: tuple[int, ...]) -> tuple[int, ...]:
    """The two ends of a message: a group of two, or both named, if it is clear whether by rank or
    by place in the group."""
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
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value):
        return int(value)
    return value if type(value) is int and 0 <= value < 10**18 else None


def text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


_COLLECTIVE = re.compile(
    # NCCL and RCCL, old and new, symmetric ones too; PyTorch's symmetric memory; custom all-reduce
    # of engines; experts
    r"^(?:void )?(?:nccl|rccl|msccl)\w*Kernel"
    r"|\bmultimem_\w+|\b(?:one|two)_shot_all_reduce\w*|symm_mem\w*(?:all_reduce|all_gather|reduce_scatter|all_to_all)"
    r"|cross_device_reduce|quickreduce|custom_all_?reduce|allreduce_fusion|(?:one|two)shotAllreduce|lamport\w*allreduce"
    r"|\bdeep_ep::|\bnvshmem\w*|\brocshmem\w*|\bmori::|\bmscclpp::|\bEp(?:Dispatch|Combine)\w*Kernel",
    re.ASCII | re.IGNORECASE,
)
_ALGORITHM = re.compile(
    r"(?:^|_)(COLLNET(?:_DIRECT|_CHAIN)?|NVLS(?:_TREE)?|PAT|RING|TREE)(?:_(LL128|LL|SIMPLE))?(?=_|$)"
)
_CALLED = {
    "AllReduce": (AR,),
    "AllGather": (AG,),
    "ReduceScatter": (RS,),
    "Broadcast": (BC,),
    "Reduce": (REDUCE,),
    "SendRecv": (A2A, P2P),
}
_PRIMITIVE = re.compile(
    r"Kernel_(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv)(?:_|$)"
)


class KernelName(NamedTuple):
    """What a kernel's name says: ``says`` as written (``RING_LL``), ``algorithm`` and ``protocol``
    what of it holds for every call under that name, ``primitives`` what it may run (empty:
    anything)."""

    says: str
    algorithm: str
    protocol: str
    primitives: tuple[Primitive, ...]


@lru_cache(maxsize=4096)
def is_collective(name: str) -> bool:
    return _COLLECTIVE.search(name) is not None


_LONGEST = 60


def short_name(name: str) -> str:
    """Without template arguments and parameters."""
    bare = name.removeprefix("void ")
    return (
        bare[: min(at for at in (bare.find("<"), bare.find("("), len(bare)) if at >= 0)] or bare
    )[:_LONGEST]


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
    return KernelName(
        says, "" if carries_any else algorithm, "" if protocol == "ll" else protocol, primitives
    )
