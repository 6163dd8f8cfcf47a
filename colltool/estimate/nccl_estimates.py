"""The parts of NCCL's own estimate, for an explanation of an algorithm: :func:`with_estimates`.

A *way* is an algorithm of NCCL's under one protocol. Its latency is the sum of terms (``times`` times
``us`` microseconds) times a factor ``plateau``, its bandwidth a rate times ``correction``; both factors
depend on the size, and are found here as what its estimate has over the product.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from colltool.base.errors import ColltoolError
from colltool.estimate.explain import AlgorithmExplanation, Explanation, NcclEstimateParts
from colltool.estimate.groups import PlacedGroup, place
from colltool.estimate.library_pick import schedule_on
from colltool.estimate.nccl_hardware import hardware_on
from colltool.fabric.model import Fabric
from colltool.libraries.nccl.hardware import Hardware
from colltool.libraries.nccl.model import estimates, pick
from colltool.libraries.nccl.rules import rules_of


def with_estimates(explanation: Explanation, fabric: Fabric, *, required: bool) -> Explanation:
    """Add the parts of NCCL's estimate to each entry that NCCL runs, if the explanation has a
    group.

    ``required``: the user named the library, so missing facts are an error; otherwise they leave it
    unchanged.
    """
    if explanation.group is None:
        return explanation
    try:
        hardware = hardware_on(fabric, explanation.group.spec)
    except ColltoolError:
        if required:
            raise
        return explanation
    placed = place(fabric, explanation.group.spec)
    entries = tuple(
        entry._replace(estimates=tuple(_parts(entry, hardware, explanation.bytes, placed)))
        for entry in explanation.entries
    )
    return replace(explanation, entries=entries, library=f"NCCL {hardware.version}")


def _parts(
    entry: AlgorithmExplanation, hardware: Hardware, size: float, placed: PlacedGroup
) -> Iterator[NcclEstimateParts]:
    """NCCL's estimates for an algorithm at a size in bytes, protocol by protocol; none where NCCL has
    no algorithm that corresponds to it."""
    primitive = entry.primitive
    if primitive not in hardware.constants.algorithms:
        return
    rules = rules_of(hardware.constants)
    chosen = pick(hardware, primitive, size)
    # an algorithm without a price of ours here has no row
    spec = entry.row.spec if entry.row else entry.algorithm
    for way in estimates(hardware, primitive, size):
        if way.seconds is None or schedule_on(way.algorithm, primitive, hardware, placed) != spec:
            continue
        # it runs, and so it has all its numbers
        assert way.latency_s is not None
        assert way.bandwidth_Bps is not None
        call = (hardware, primitive, way.algorithm, way.protocol)
        terms = rules.latency_terms(*call)
        counted = [term for term in terms if term.times and term.us]
        terms_s = sum(term.times * term.us for term in terms) * 1e-6
        bandwidth_Bps = rules.bandwidth_GBps(*call) * 1e9
        yield NcclEstimateParts(
            algorithm=way.algorithm,
            protocol=way.protocol,
            latency=tuple((term.name, term.times, term.us * 1e-6) for term in counted),
            plateau=float(way.latency_s) / terms_s if terms_s else 1.0,
            bus_Bps=rules.bus_GBps(*call) * 1e9,
            bandwidth_Bps=bandwidth_Bps,
            correction=float(way.bandwidth_Bps) / bandwidth_Bps,
            seconds=float(way.seconds),
            picked=(way.algorithm, way.protocol) == (chosen.algorithm, chosen.protocol),
        )
