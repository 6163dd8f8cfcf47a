"""What the name of a communication kernel tells, which is less than it seems.

NCCL builds few kernels and lets one carry the work of others. Up to 2.18 (``ncclKernel_``) there is one for each algorithm, all
called LL (enqueue.cc: "Only generate inline kernels for LL"). Since 2.19 (``ncclDevKernel_``) RING stands for every algorithm but
a tree, LL for every protocol, and all-gathers and broadcasts have RING_LL alone (generate.py, best_kernel). A SendRecv or Generic
kernel carries what has none of its own.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive

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


class Named(NamedTuple):
    """A kernel by its name.

    Args:
        says: the algorithm and protocol in the name, as they stand there: ``RING_LL``; empty where there are none.
        algorithm, protocol: what of it is true of every call under that name; empty where it is not.
        primitives: what it may run; empty: anything.
    """

    says: str
    algorithm: str
    protocol: str
    primitives: tuple[Primitive, ...]


def is_collective(name: str) -> bool:
    """Whether a kernel is one of NCCL, RCCL or MSCCL."""
    return _COLLECTIVE.match(name) is not None


@lru_cache(maxsize=4096)
def named(name: str) -> Named:
    """What a kernel's name tells."""
    bare = name.partition("(")[0]
    found, kind = _ALGORITHM.search(bare), _PRIMITIVE.search(bare)
    primitives = _CALLED[kind.group(1)] if kind else ()
    if found is None or primitives == (A2A, P2P):
        return Named("", "", "", primitives)
    algorithm, protocol = found.group(1).lower(), (found.group(2) or "").lower()
    carries_any = "DevKernel" in bare and algorithm == "ring" and protocol == "ll"
    says = "_".join(part for part in found.groups() if part)
    return Named(says, "" if carries_any else algorithm, "" if protocol == "ll" else protocol, primitives)
