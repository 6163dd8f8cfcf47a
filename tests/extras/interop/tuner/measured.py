"""A node of H100 with protocols as calibrate writes them where it knows that they are NCCL's."""

from __future__ import annotations

from typing import Any

from colltool.base.primitives import AR, Primitive
from colltool.estimate.nccl_hardware import hardware_on
from colltool.extras.interop.nccl_tuner_rows import GUARD_FACTOR
from colltool.fabric.model import Fabric
from colltool.libraries.nccl.model import estimates
from tests.small import clos, fabric, star, switch

FACTS = {"name": "nccl", "version": "2.30", "gpu": "hopper", "cpu": "intel", "collnet": False}


def protocols(*names: str, **more: Any) -> list[dict[str, Any]]:
    """Each with more latency and more bandwidth than the one before, as a ring runs under it."""
    numbers = (
        ("4.6us", "0.8us", "20GB/s"),
        ("5.3us", "0.9us", "226GB/s"),
        ("17us", "1.35us", "352GB/s"),
    )
    return [
        {
            "name": name,
            "launch_overhead": launch,
            "alpha": alpha,
            "bandwidth": rate,
            "eta": {"alpha": 1.0, "beta": 1.0},
            **more,
        }
        for name, (launch, alpha, rate) in zip(names, numbers, strict=False)
    ]


def measured(*names: str, **more: Any) -> Fabric:
    """Measured all-reduce, all-gather and reduce-scatter on one node, from 512 B to 512 MiB; not
    between nodes."""
    known = {"measured": {"smallest": "512B", "largest": "512MiB"}}
    node = star(
        8,
        0.8,
        450,
        in_network=switch(27.0, all_to_all=False, eta_beta=0.72, protocols=[names[-1]]),
        algorithms={
            "all_reduce": ["ring", "in-network"],
            "all_gather": ["ring"],
            "reduce_scatter": ["ring"],
        },
        protocols=[
            *protocols(*names, **known, primitives=["all_reduce", "broadcast", "reduce", "p2p"]),
            *protocols(*names, **known, primitives=["all_gather"]),
            *protocols(*names, **known, primitives=["reduce_scatter"]),
        ],
    )
    across = clos(4, alpha=5, in_network=switch(0.5), protocols=protocols(*names))
    return fabric(node, across, library=FACTS, **more)


MEASURED = measured("LL", "LL128", "Simple")


def hurts(
    fabric: Fabric, primitive: Primitive, size: float, ranks: int, way: tuple[str, str]
) -> bool:
    """Whether NCCL's own model warns of a way: by the algorithms of a measured file, it could do
    far better."""
    known = {
        (one.algorithm, one.protocol): float(one.seconds)
        for one in estimates(hardware_on(fabric, ranks), primitive, size)
        if one.seconds is not None
        and one.algorithm in (("ring", "nvls") if primitive is AR else ("ring",))
    }
    return known[way] > GUARD_FACTOR * min(known.values()) * (1 + 1e-9)
