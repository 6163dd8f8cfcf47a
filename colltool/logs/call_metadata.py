"""A call's primitive, size, dtype and group from the profiler's metadata, or why they are unknown."""

import re
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from colltool.base.errors import quote
from colltool.base.formatting import MAX_SIZE
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive
from colltool.logs.dtypes import element_bytes

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
_UNNAMED = ("", "undefined")
NO_METADATA = "no metadata (coalesced, from a CUDA graph, or of a PyTorch before 2.1)"
MIXED = "coalesced: the trace has the type of the first tensor alone"
MOST_MEMBERS = 2**18


class CallMetadata(NamedTuple):
    """A call by its metadata.

    ``group``: description of its process group; ``name``: that group's, private to a process.
    ``ranks``: empty if unknown, of a point-to-point the two ends. ``seq``: sequence number in the
    group. ``coalesced``: several tensors, ``bytes`` of all. ``uneven``: an all-to-all of unequal
    parts, which takes at least what equal ones do.
    """

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
    """A call from its labels, or a text that says why it is unknown."""
    called = labels.get("Collective name")
    if not isinstance(called, str) or not called:
        return _by_dims(labels, header, primitives)
    primitive = _PRIMITIVES.get(called.lower())
    if primitive is None:
        if called.endswith(_COALESCED):
            return MIXED
        return f"{quote(called)} is not a primitive that colltool models"
    if primitives and primitive not in primitives:
        return (
            f"labelled {primitive.label}, and the kernel is another: batched sends are labelled so"
        )
    size = count(labels.get("Group size"))
    dtype = text(labels.get("dtype"))
    width = element_bytes(dtype)
    elements = _elements(labels, primitive)
    if not size or not width or elements is None:
        return "metadata without a group size, a known dtype or a number of elements"
    if size < 2 or elements == 0 or elements * width > MAX_SIZE:
        return "groups of one rank, or nothing to send"
    name = text(labels.get("Process Group Name"))
    group = text(labels.get("Process Group Description"))
    members = _members(labels, header, name, size)
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
        uneven=primitive is A2A and _are_uneven(labels),
    )


def _elements(labels: Labels, primitive: Primitive) -> int | None:
    """Elements of M: an all-gather's whole result, a receive's output, else what a rank puts in."""
    sent = count(labels.get("In msg nelems"))
    received = count(labels.get("Out msg nelems"))
    if primitive is AG:
        return received
    if primitive in (P2P, BC):
        return sent or received
    return sent


def _are_uneven(labels: Labels) -> bool:
    """Whether parts differ as far as they are listed; no list means equal parts."""
    for side in SPLITS:
        split = labels.get(side)
        if isinstance(split, str) and len(set(re.findall(r"[0-9]+", split))) > 1:
            return True
    return False


def _by_dims(labels: Labels, header: Labels, primitives: Sequence[Primitive]) -> CallMetadata | str:
    """A call of a PyTorch before 2.1, whose ``record_param_comms`` has the tensors' dims and types:
    of all ranks."""
    dims = labels.get("Input Dims")
    types = labels.get("Input type")
    world = count(_about(header).get("world_size")) or 0
    if len(primitives) != 1 or not isinstance(dims, list) or not isinstance(types, list):
        return NO_METADATA
    size = sum(map(_tensor_bytes, dims, types))
    if world < 2 or not 0 < size * world <= MAX_SIZE:
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


def _about(header: Labels) -> Labels:
    about = header.get("distributedInfo")
    return about if isinstance(about, dict) else {}


def _tensor_bytes(shape: Any, kind: Any) -> int:
    """Bytes of one tensor, or of a list of them; 0 for what is none."""
    if not isinstance(shape, list) or not shape:
        return 0
    if all(isinstance(tensor, list) for tensor in shape):
        return sum(_tensor_bytes(tensor, kind) for tensor in shape)
    edges = [count(edge) or 0 for edge in shape]
    return prod(edges) * element_bytes(text(kind).removesuffix("[]"))


def _members(labels: Labels, header: Labels, name: str, size: int) -> tuple[int, ...]:
    """A group's ranks from its label, the header, or first rank and stride."""
    listed = labels.get("Process Group Ranks")
    about = _about(header)
    if isinstance(listed, str):  # "[0, 1, 2, 3]"
        parts = [part.strip() for part in listed.strip("[] ").split(",")]
        listed = [count(part) for part in parts]
        low = listed[0]
        # "[0, 1, ..., 63]", truncated, and PyTorch's groups ascend
        cut = "..." in parts and size <= MOST_MEMBERS
        if cut and low is not None and listed[-1] == low + size - 1:
            return consecutive(low, size, 1)
    found = _ranks(listed, size) or _ranks(_listed_in_header(about, name), size)
    if found or size > MOST_MEMBERS:
        return found
    if size == count(about.get("world_size")):
        return consecutive(0, size, 1)  # the header lists no ranks of a group of all
    first = count(labels.get("Global rank start"))
    stride = count(labels.get("Global rank stride"))
    return () if first is None or not stride else consecutive(first, size, stride)


def _listed_in_header(about: Labels, name: str) -> Any:
    """The ranks of a group by its name."""
    groups = about.get("pg_config")
    for group in groups if name and isinstance(groups, list) else ():
        if isinstance(group, dict) and text(group.get("pg_name")) == name:
            return group.get("ranks")
    return None


@lru_cache(maxsize=64)
def consecutive(first: int, size: int, stride: int) -> tuple[int, ...]:
    """Evenly spaced ranks; one tuple for all calls of a group."""
    return tuple(range(first, first + size * stride, stride))


def _ranks(listed: Any, size: int) -> tuple[int, ...]:
    """A list of ranks, ascending; empty unless it has the right size and each rank once."""
    if not isinstance(listed, list) or len(listed) != size or None in map(count, listed):
        return ()
    return tuple(sorted(listed)) if len(set(listed)) == size else ()


def _ends(labels: Labels, members: tuple[int, ...]) -> tuple[int, ...]:
    """The two ends of a message: a group of two, or both named, if it is clear whether by rank or
    by place in the group."""
    if len(members) == 2:
        return members
    source = count(labels.get("Src Rank"))
    target = count(labels.get("Dst Rank"))
    if source is None or target is None or source == target:
        return ()
    readings = set()
    if {source, target} <= set(members):
        readings.add((source, target))
    if max(source, target) < len(members):
        readings.add((members[source], members[target]))
    if len({frozenset(ends) for ends in readings}) != 1:
        return ()
    return tuple(sorted(readings.pop()))


def count(value: Any) -> int | None:
    """A number that is not negative, or its text; None for anything else."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value):
        return int(value)
    return value if type(value) is int and 0 <= value < 10**18 else None


def text(value: Any) -> str:
    """A label as text; empty for none."""
    return "" if value is None else str(value)


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
    """Whether a kernel communicates, by its name."""
    return _COLLECTIVE.search(name) is not None


_LONGEST = 60


def short_name(name: str) -> str:
    """A kernel's name without template arguments and parameters."""
    bare = name.removeprefix("void ")
    return (re.split(r"[<(]", bare, maxsplit=1)[0] or bare)[:_LONGEST]


@lru_cache(maxsize=4096)
def kernel_name(name: str) -> KernelName:
    """Algorithm, protocol and primitives by a kernel's name."""
    bare = name.partition("(")[0]
    kind = _PRIMITIVE.search(bare)
    primitives = _CALLED[kind[1]] if kind else ()
    found = _ALGORITHM.search(bare)
    if found is None or primitives == (A2A, P2P):
        return KernelName("", "", "", primitives)
    algorithm = found[1].lower()
    protocol = (found[2] or "").lower()
    says = "_".join(filter(None, found.groups()))
    # such a kernel carries the calls of every algorithm
    if "DevKernel" in bare and algorithm == "ring" and protocol == "ll":
        algorithm = ""
    return KernelName(says, algorithm, "" if protocol == "ll" else protocol, primitives)
