"""The parts of NCCL's own estimate of a call: latencies one by one, channels, and the effect of size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.estimate.explain import AlgorithmExplanation, Explanation, NcclEstimateParts
from colltool.fabric.model import Fabric
from colltool.nccl.algorithm_map import spec_of
from colltool.nccl.hardware import Hardware
from colltool.nccl.model import estimates, pick
from colltool.nccl.rules import rules_of
from colltool.nccl.topology_inputs import hardware_on


def with_estimates(found: Explanation, fabric: Fabric, *, asked: bool) -> Explanation:
    """Add the parts of NCCL's estimate to each entry that NCCL runs, if the explanation has a group.

    ``asked``: the user named the library, so missing facts are an error; otherwise they leave it unchanged.
    """
    if found.group is None:
        return found
    try:
        on = hardware_on(fabric, found.group.spec)
    except ColltoolError:
        if asked:
            raise
        return found
    entries = tuple(one._replace(estimates=tuple(_estimates(one, on, found.bytes))) for one in found.entries)
    return replace(found, entries=entries, library=f"NCCL {on.version}")


def _estimates(entry: AlgorithmExplanation, on: Hardware, size: float) -> Iterator[NcclEstimateParts]:
    if entry.primitive not in on.constants.algorithms:
        return
    spec = entry.row.spec if entry.row else entry.algorithm
    chosen = pick(on, entry.primitive, size)
    for one in estimates(on, entry.primitive, size):
        if one.seconds is not None and spec_of(one.algorithm, entry.primitive, on) == spec:
            picked = (one.algorithm, one.protocol) == (chosen.algorithm, chosen.protocol)
            yield _parts(on, entry.primitive, one.algorithm, one.protocol, size)._replace(picked=picked)


def _parts(on: Hardware, primitive: Primitive, algorithm: str, protocol: str, size: float) -> NcclEstimateParts:
    rules = rules_of(on.constants)
    terms = rules.latency_terms(on, primitive, algorithm, protocol)
    whole = sum(term.times * term.us for term in terms) * 1e-6
    ways = estimates(on, primitive, size)
    one = next(way for way in ways if (way.algorithm, way.protocol) == (algorithm, protocol))
    assert one.seconds is not None  # it runs
    assert one.latency_s is not None
    assert one.bandwidth_Bps is not None
    bandwidth = rules.bandwidth_GBps(on, primitive, algorithm, protocol) * 1e9
    return NcclEstimateParts(
        algorithm=algorithm,
        protocol=protocol,
        latency=tuple((term.name, term.times, term.us * 1e-6) for term in terms if term.times and term.us),
        plateau=float(one.latency_s) / whole if whole else 1.0,
        bus_Bps=rules.bus_GBps(on, primitive, algorithm, protocol) * 1e9,
        bandwidth_Bps=bandwidth,
        correction=float(one.bandwidth_Bps) / bandwidth,
        seconds=float(one.seconds),
        picked=False,
    )
