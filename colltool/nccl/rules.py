"""The rules of NCCL's cost model by version; a version's data names the row that computes with its numbers.

A version that computes one thing differently is another row: ``RULES["2.30"]._replace(latency_terms=...)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.nccl import algorithm_map, hardware, tuning
from colltool.nccl.constants import Constants
from colltool.nccl.hardware import GpuNodes, Graph, Hardware
from colltool.nccl.tuning import LatencyTerm

BySize = Callable[[Hardware, Primitive, str, str], dict[float, float]]
"""Factors for an algorithm under a protocol, by the size in bytes from which each holds."""


class Rules(NamedTuple):
    """How a version computes availability, latency, bandwidth, their changes with size, and channels per pattern."""

    why_not: Callable[[Hardware, Primitive, str, str], str]
    latency_terms: Callable[[Hardware, Primitive, str, str], list[LatencyTerm]]
    bus_GBps: Callable[[Hardware, Primitive, str, str], float]
    bandwidth_GBps: Callable[[Hardware, Primitive, str, str], float]
    corrections: BySize
    plateau: BySize
    ring_graph: Callable[[Constants, GpuNodes], Graph]
    tree_graph: Callable[[Constants, GpuNodes], Graph]
    nvls_graph: Callable[[Constants, GpuNodes], Graph | None]
    collnet_graph: Callable[[Constants, GpuNodes], Graph]
    communicator_channels: Callable[[Constants, GpuNodes, Graph], int]


RULES = {
    "2.30": Rules(
        why_not=algorithm_map.why_not,
        latency_terms=tuning.latency_terms,
        bus_GBps=tuning.bus_GBps,
        bandwidth_GBps=tuning.bandwidth_GBps,
        corrections=tuning.corrections,
        plateau=tuning.plateau,
        ring_graph=hardware.ring_graph,
        tree_graph=hardware.tree_graph,
        nvls_graph=hardware.nvls_graph,
        collnet_graph=hardware.collnet_graph,
        communicator_channels=hardware.communicator_channels,
    )
}


def rules_of(numbers: Constants) -> Rules:
    if numbers.rules not in RULES:
        what = f"the data of NCCL {numbers.version} names rules '{numbers.rules}', which do not exist"
        raise ColltoolError(what, where="library.version", fix=f"known rules: {', '.join(RULES)}")
    return RULES[numbers.rules]
