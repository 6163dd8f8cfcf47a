"""A group as input of ASTRA-sim's analytical network: ``network.yml`` and ``system.json``.

The network is a product of at most four dimensions with equal links. Bandwidths are in 2^30 bytes/s one way, latencies in ns per
link; a message through a Switch takes two links. The files are for the congestion-unaware binary, in which a message takes its
links' latencies plus bytes over bandwidth, as in colltool.
"""

import json
from collections.abc import Iterator, Sequence
from math import ceil
from textwrap import wrap
from typing import NamedTuple

from colltool.base.errors import ColltoolError, given, spell
from colltool.base.formatting import format_bytes, format_factor
from colltool.base.primitives import AR
from colltool.estimate.algorithm_estimate import Curve
from colltool.estimate.assumptions import Readings
from colltool.estimate.crossover import lower_envelope
from colltool.estimate.groups import PlacedGroup, place
from colltool.estimate.placement import AnyGroup
from colltool.estimate.protocols import under_protocols
from colltool.export.astra_dimensions import COLLECTIVES, AstraDimension, Topology, all_reduce, dimensions_of, runs
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of

NETWORK, SYSTEM = "network.yml", "system.json"
MOST_DIMENSIONS = 4
_GIB = 2**30
_WIDTH = 120
_NO_COPIES = 10**9  # local-mem-bw in GB/s: ASTRA-sim charges copies in a rank's memory, which colltool's α and bandwidth contain


class GroupUnderProtocol(NamedTuple):
    """A group under one protocol: its dimensions, and the cost of an all-reduce with launch overhead."""

    placed: PlacedGroup
    dimensions: Sequence[AstraDimension]
    curve: Curve


def astra_sim(fabric: Fabric, group: AnyGroup = None, ideal: bool = False, size: float | None = None) -> dict[str, str]:
    """The two input files by name. ``group``: all of the fabric when None. ``ideal``: every η is 1. ``size``: M in bytes, for
    comments on what to run. Raises ColltoolError for a group that does not fit or that ASTRA-sim cannot express."""
    placed, dimensions, _ = _widest(_under_each(fabric, group, ideal))
    notes = [*left_out(placed, dimensions, ideal), *to_know(fabric, group, ideal, size), about_system()]
    return {NETWORK: _network(placed, dimensions, notes), SYSTEM: _system(dimensions)}


def to_know(fabric: Fabric, group: AnyGroup = None, ideal: bool = False, size: float | None = None) -> list[str]:
    """What to know before the first run: which binary, what not to trust, which sizes to give."""
    several = _under_each(fabric, group, ideal)
    widest = _widest(several)
    return [*misleads(widest, several), *how_to_run(widest.dimensions), *size_notes(widest.placed.ranks, size)]


def _under_each(fabric: Fabric, group: AnyGroup, ideal: bool) -> list[GroupUnderProtocol]:
    several = [_laid(under, Readings(ideal=ideal)) for under in under_protocols(place(fabric, group), AR)]
    if (count := len(several[0].dimensions)) > MOST_DIMENSIONS:
        what = f"{fabric.name} has {count} dimensions, ASTRA-sim takes at most {MOST_DIMENSIONS}"
        raise ColltoolError(what, argument="fabric", fix=f"a smaller group spans fewer: give {given('ranks')}")
    return several


def _widest(several: Sequence[GroupUnderProtocol]) -> GroupUnderProtocol:
    """ASTRA-sim has one set of numbers: the protocol with the most bandwidth, the last of equals."""
    return min(reversed(several), key=lambda one: (one.curve.b, one.curve.a))


def _laid(under: PlacedGroup, readings: Readings) -> GroupUnderProtocol:
    dimensions = dimensions_of(under, readings)
    return GroupUnderProtocol(under, dimensions, all_reduce(under, dimensions))


def _network(placed: PlacedGroup, dimensions: Sequence[AstraDimension], notes: Sequence[str]) -> str:
    title = f"colltool export astra-sim: {placed.fabric.name}, {placed.placement.spoken}"
    comments = "".join(f"# {line}\n" for note in (title, *notes) for line in wrap(note, _WIDTH))
    lists: dict[str, Sequence[str]] = {
        "topology": [one.topology for one in dimensions],
        "npus_count": [str(one.npus) for one in dimensions],
        "bandwidth": [f"{one.bandwidth_Bps / _GIB:.12g}" for one in dimensions],
        "latency": [f"{one.latency_s * 1e9:.12g}" for one in dimensions],
    }
    units = {"bandwidth": "  # 2^30 B/s per directed link", "latency": "  # ns per link"}
    return comments + "".join(f"{key}: [{', '.join(items)}]{units.get(key, '')}\n" for key, items in lists.items())


def _system(dimensions: Sequence[AstraDimension]) -> str:
    names = {
        f"{primitive.spoken}-implementation": [runs(one.topology, primitive, one.npus) for one in dimensions]
        for primitive in COLLECTIVES
    }
    document = {
        "scheduling-policy": "LIFO",
        "endpoint-delay": 1,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 1,
        **names,
        "collective-optimization": "localBWAware",
        "local-mem-bw": _NO_COPIES,
    }
    return json.dumps(document, indent=2) + "\n"


_BINARY = "AstraSim_Analytical_Congestion_Unaware"


def left_out(placed: PlacedGroup, dimensions: Sequence[AstraDimension], ideal: bool) -> Iterator[str]:
    """What the numbers contain, and what ASTRA-sim cannot express."""
    if _has(dimensions, "Switch"):
        yield "a Switch is two links, so its latency is half of alpha"
    if ideal:
        yield f"every eta left out ({spell(given('ideal', True), 'shell')})"
    else:
        yield "bandwidth with eta.beta and latency with eta.alpha of the fabric"
    if placed.overhead_s:
        yield f"left out: the launch overhead of {placed.overhead_s * 1e6:g} us, add it to every collective"
    if placed.local_copy_Bps is not None:
        yield "left out: the copy of a rank's own share"
    for span in placed.spans:
        if capabilities_of(span.tier).in_network is not None:
            yield f"left out: in-network operations of {span.tier.name}, ASTRA-sim's NPUs do all work"


def misleads(widest: GroupUnderProtocol, several: Sequence[GroupUnderProtocol]) -> Iterator[str]:
    """That one protocol stands for all, and below which size another is faster."""
    protocol = widest.placed.protocol
    if not protocol:
        return
    listed = f" as listed for {AR.spoken}, other collectives have numbers of their own" if _lists_differ(widest.placed) else ""
    yield f"numbers of protocol {protocol}{listed}, the one with the most bandwidth: ASTRA-sim knows none"
    curves = {one.placed.protocol: one.curve for one in several}
    *faster, (border, _) = lower_envelope(curves, 1.0)
    if faster:
        ratio = format_factor(widest.curve.at(1.0) / curves[faster[0][1]].at(1.0), 2)
        others = " and ".join(dict.fromkeys(name for _, name in reversed(faster)))
        below = f"below {format_bytes(border, 3)} they mislead: an {AR.spoken} is faster there under {others}"
        yield f"{below}, for the smallest messages {ratio} as fast"


def how_to_run(dimensions: Sequence[AstraDimension]) -> Iterator[str]:
    """Which binary, and what it makes of an all-to-all."""
    aware = "the congestion-aware one ends with an error"
    if len(dimensions) > 1:
        yield f"run {_BINARY}: {aware} on more than one dimension"
    elif dimensions[0].topology == "Ring" and dimensions[0].npus == 2:
        yield f"run {_BINARY}: {aware} on a Ring of 2"
    elif dimensions[0].topology == "Switch":
        off = "is 1.9 to 3.1 times off for all-reduce, all-gather and reduce-scatter on a Switch"
        yield f"run {_BINARY}: the congestion-aware one {off}"
    else:
        yield f"run {_BINARY}: these numbers are for it"
    if _has(dimensions, "Switch"):
        yield "all-to-all on a Switch is direct1, one message after the other: that binary lets those of direct overlap on a port"
    rings = [one.npus for one in dimensions if one.topology == "Ring"]
    if any(npus > 2 for npus in rings):
        ratio = sum((npus - 1) / 2 for npus in rings) / sum(_shortest(npus) for npus in rings)
        yield (
            f"do not trust an all-to-all on a Ring: ASTRA-sim relays every block one way, one message after the other; here its"
            f" Rings move {format_factor(ratio, 2)} the bytes of dim-by-dim, and {_relayed(rings)} messages follow each other"
        )


def about_system() -> str:
    return (
        "system.json: one chunk at a time, phase after phase, as colltool prices a hierarchy; 1 ns of endpoint-delay is the least"
        " that ASTRA-sim takes; local-mem-bw is so large that copies in memory cost nothing, as in colltool"
    )


def _has(dimensions: Sequence[AstraDimension], topology: Topology) -> bool:
    return any(one.topology == topology for one in dimensions)


def _shortest(npus: int) -> float:
    """n_β of a shortest-path all-to-all on a ring: floor(n²/4)/(2n), and 1/2 between two."""
    return npus * npus // 4 / (2 * npus) if npus > 2 else 0.5


def _relayed(rings: Sequence[int]) -> int:
    """Messages of ASTRA-sim's ring all-to-all: n(n-1)/2 per axis."""
    return sum(npus * (npus - 1) // 2 for npus in rings)


def _lists_differ(placed: PlacedGroup) -> bool:
    tiers = [span.tier for span in placed.spans]
    return any(tier.protocols_for(primitive) != tier.protocols_for(AR) for tier in tiers for primitive in COLLECTIVES)


def size_notes(ranks: int, size: float | None = None) -> list[str]:
    """ASTRA-sim's collective size is each NPU's input; colltool and nccl-tests count M."""
    each, shard = ("", "") if size is None else (_whole(size), _whole(size / ranks))
    return [
        f"size of all-reduce, reduce-scatter and all-to-all in ASTRA-sim: M, what each NPU puts in{each}",
        f"size of all-gather in ASTRA-sim: the shard of an NPU, M/N{shard}",
    ]


def _whole(size: float) -> str:
    whole = ceil(size)
    return f": {whole} byte{'s' if whole != 1 else ''}{', rounded up' if whole != size else ''}"
