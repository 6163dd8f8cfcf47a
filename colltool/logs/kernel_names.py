"""What the names of kernels say: whether they communicate (:func:`is_collective`), and NCCL's
algorithm, protocol and primitives (:func:`kernel_name`)."""

import re
from functools import lru_cache
from typing import NamedTuple

from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive

_COLLECTIVE = re.compile(
    # NCCL and RCCL, old and new, symmetric ones too; PyTorch's symmetric memory; custom all-reduce
    # of engines; experts
    r"^(?:void )?(?:nccl|rccl|msccl)\w*Kernel"
    r"|\bmultimem_\w+|\b(?:one|two)_shot_all_reduce\w*|symm_mem\w*(?:all_reduce|all_gather|reduce_scatter|all_to_all)"
    r"|cross_device_reduce|quickreduce|custom_all_?reduce|allreduce_fusion|(?:one|two)shotAllreduce|lamport\w*allreduce"
    # oneCCL and HCCL
    r"|^oneccl_\w+|^hcom_\w+"
    r"|\bdeep_ep::|\bnvshmem\w*|\brocshmem\w*|\bmori::|\bmscclpp::|\bEp(?:Dispatch|Combine)\w*Kernel",
    re.ASCII | re.IGNORECASE,
)
# "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
_ALGORITHM = re.compile(
    r"(?:^|_)(COLLNET(?:_DIRECT|_CHAIN)?|NVLS(?:_TREE)?|PAT|RING|TREE)(?:_(LL128|LL|SIMPLE))?(?=_|$)"
)
# the primitives that a kernel of NCCL may run, by the word in its name
_RUN_BY = {
    "AllReduce": (AR,),
    "AllGather": (AG,),
    "ReduceScatter": (RS,),
    "Broadcast": (BC,),
    "Reduce": (REDUCE,),
    "SendRecv": (A2A, P2P),
}
# "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)"
_PRIMITIVE = re.compile(
    r"Kernel_(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv)(?:_|$)"
)


class KernelName(NamedTuple):
    """What a kernel's name says."""

    says: str  # algorithm and protocol as written (``RING_LL``), empty where the name has none
    algorithm: str  # where it holds for every call under that name, else empty
    protocol: str  # where it holds for every call under that name, else empty
    primitives: tuple[Primitive, ...]  # what the kernel may run, empty for anything


@lru_cache(maxsize=4096)
def is_collective(name: str) -> bool:
    """Whether a kernel communicates, by its name."""
    return _COLLECTIVE.search(name) is not None


_LONGEST = 60  # characters of a name in a table


def short_name(name: str) -> str:
    """A kernel's name without template arguments and parameters."""
    full = name.removeprefix("void ")
    return (re.split(r"[<(]", full, maxsplit=1)[0] or full)[:_LONGEST]


@lru_cache(maxsize=4096)
def kernel_name(name: str) -> KernelName:
    """Algorithm, protocol and primitives by a kernel's name: ``RING_LL``, ``ring``, none and an
    all-reduce of ``ncclKernel_AllReduce_RING_LL_Sum_float(...)``."""
    function = name.partition("(")[0]
    collective = _PRIMITIVE.search(function)
    primitives = _RUN_BY[collective[1]] if collective else ()
    algorithm_match = _ALGORITHM.search(function)
    if algorithm_match is None or primitives == (A2A, P2P):
        return KernelName(says="", algorithm="", protocol="", primitives=primitives)
    algorithm = algorithm_match[1].lower()
    protocol = (algorithm_match[2] or "").lower()
    says = "_".join(filter(None, algorithm_match.groups()))
    # a kernel under LL runs the calls of every protocol, one of ncclDevKernel those of every
    # algorithm as well
    if protocol == "ll":
        protocol = ""
        if "DevKernel" in function and algorithm == "ring":
            algorithm = ""
    return KernelName(says, algorithm, protocol, primitives)
