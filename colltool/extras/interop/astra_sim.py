"""A group as input of ASTRA-sim's analytical network: ``network.yml`` and ``system.json``.

The network is a product of at most four dimensions, each with equal links of one latency and
bandwidth. Bandwidths are in 2^30 bytes/s one way, latencies in ns per link; a message through a
Switch takes two links. The files are for the congestion-unaware binary, in which a message takes
its links' latencies plus bytes over bandwidth, as in colltool.
"""

import json
from collections.abc import Iterator, Sequence
from math import ceil
from textwrap import wrap
from typing import Literal, NamedTuple, assert_never

from colltool.base.errors import ColltoolError, given, spell
from colltool.base.formatting import format_bytes, format_factor, shape_text
from colltool.base.primitives import A2A, AG, AR, RS, Primitive
from colltool.estimate.assumptions import Readings
from colltool.estimate.crossover import lower_envelope
from colltool.estimate.groups import PlacedGroup, Span, place
from colltool.estimate.path_classes import PathClass, tier_paths
from colltool.estimate.placement import AnyGroup
from colltool.estimate.protocols import under_protocols
from colltool.estimate.software_time import Curve
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import check_even
from colltool.network.twisted import is_twisted

NETWORK, SYSTEM = "network.yml", "system.json"
MOST_DIMENSIONS = 4
_COLLECTIVES = (AR, AG, RS, A2A)
_GIB = 2**30
_WIDTH = 120
# local-mem-bw in GB/s: ASTRA-sim charges copies in a rank's memory, which colltool's α and
# bandwidth contain
_NO_COPIES = 10**9

_Topology = Literal["Switch", "Ring", "FullyConnected"]
_Algorithm = Literal["ring", "direct", "direct1", "halvingDoubling"]
# links per message between neighbours
_LINKS: dict[_Topology, int] = {"Switch": 2, "Ring": 1, "FullyConnected": 1}


class AstraDimension(NamedTuple):
    """One dimension; bandwidth and latency are per link, η included."""

    topology: _Topology
    npus: int
    bandwidth_Bps: float
    latency_s: float


class GroupUnderProtocol(NamedTuple):
    """A group under one protocol: its dimensions, and the cost of an all-reduce with launch
    overhead."""

    placed: PlacedGroup
    dimensions: Sequence[AstraDimension]
    curve: Curve

    def has(self, topology: _Topology) -> bool:
        return any(one.topology == topology for one in self.dimensions)


def astra_sim(
    fabric: Fabric, group: AnyGroup = None, ideal: bool = False, size: float | None = None
) -> dict[str, str]:
    """The two input files by name. ``group``: all of the fabric when None. ``ideal``: every η is 1.
    ``size``: M in bytes, for comments on what to run. Raises ColltoolError for a group that does
    not fit or that ASTRA-sim cannot express."""
    widest = _widest(_under_each(fabric, group, ideal))
    placed, dimensions, _ = widest
    title = f"colltool export astra-sim: {placed.fabric.name}, {placed.placement.spoken}"
    about_system = (
        "system.json: one chunk at a time, phase after phase, as colltool prices a hierarchy; 1 ns"
        " of endpoint-delay is the least that ASTRA-sim takes; local-mem-bw is so large that copies"
        " in memory cost nothing, as in colltool"
    )
    notes = [title, *_left_out(widest, ideal), *to_know(fabric, group, ideal, size), about_system]
    lists = (
        ("topology", "", [one.topology for one in dimensions]),
        ("npus_count", "", [str(one.npus) for one in dimensions]),
        (
            "bandwidth",
            "  # 2^30 B/s per directed link",
            [f"{one.bandwidth_Bps / _GIB:.12g}" for one in dimensions],
        ),
        ("latency", "  # ns per link", [f"{one.latency_s * 1e9:.12g}" for one in dimensions]),
    )
    network = [f"# {line}" for note in notes for line in wrap(note, _WIDTH)]
    network += [f"{key}: [{', '.join(items)}]{unit}" for key, unit, items in lists]
    algorithms = {
        f"{primitive.spoken}-implementation": [
            _runs(one.topology, primitive, one.npus) for one in dimensions
        ]
        for primitive in _COLLECTIVES
    }
    system = {
        "scheduling-policy": "LIFO",
        "endpoint-delay": 1,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 1,
        **algorithms,
        "collective-optimization": "localBWAware",
        "local-mem-bw": _NO_COPIES,
    }
    return {NETWORK: "\n".join(network) + "\n", SYSTEM: json.dumps(system, indent=2) + "\n"}


def to_know(
    fabric: Fabric, group: AnyGroup = None, ideal: bool = False, size: float | None = None
) -> list[str]:
    """What to know before the first run: which binary, what not to trust, which sizes to give.
    ASTRA-sim's collective size is each NPU's input; colltool and nccl-tests count M."""
    several = _under_each(fabric, group, ideal)
    widest = _widest(several)
    each, shard = ("", "") if size is None else (_whole(size), _whole(size / widest.placed.ranks))
    return [
        *_misleads(widest, several),
        *_how_to_run(widest),
        (
            "size of all-reduce, reduce-scatter and all-to-all in ASTRA-sim: M, what each NPU puts"
            f" in{each}"
        ),
        f"size of all-gather in ASTRA-sim: the shard of an NPU, M/N{shard}",
    ]


def _under_each(fabric: Fabric, group: AnyGroup, ideal: bool) -> list[GroupUnderProtocol]:
    check_even(fabric)
    several = []
    for placed in under_protocols(place(fabric, group), AR):
        dimensions = [
            dimension
            for span in placed.spans
            for dimension in _dimensions(span, Readings(ideal=ideal))
        ]
        several.append(GroupUnderProtocol(placed, dimensions, _all_reduce(placed, dimensions)))
    if (count := len(several[0].dimensions)) > MOST_DIMENSIONS:
        what = f"{fabric.name} has {count} dimensions, ASTRA-sim takes at most {MOST_DIMENSIONS}"
        raise ColltoolError(
            what, argument="fabric", fix=f"a smaller group spans fewer: give {given('ranks')}"
        )
    return several


def _widest(several: Sequence[GroupUnderProtocol]) -> GroupUnderProtocol:
    """ASTRA-sim has one set of numbers: the protocol with the most bandwidth, the last of
    equals."""
    return min(reversed(several), key=lambda one: (one.curve.b, one.curve.a))


def _all_reduce(placed: PlacedGroup, dimensions: Sequence[AstraDimension]) -> Curve:
    """An all-reduce as ASTRA-sim runs it, dimension by dimension in and out again, plus the launch
    overhead it ignores."""
    a, b, held = placed.overhead_s, 0.0, 1.0
    for one in dimensions:
        algorithm = _runs(one.topology, AR, one.npus)
        # sequential messages and share of the vector per link, of the reduce-scatter half
        messages, sent = one.npus - 1, (one.npus - 1) / one.npus
        if algorithm == "direct":
            messages, sent = 1, 1 / one.npus
        elif algorithm == "halvingDoubling":
            messages = one.npus.bit_length() - 1
        a += 2 * messages * one.latency_s * _LINKS[one.topology]
        b += 2 * held * sent / one.bandwidth_Bps
        held /= one.npus
    return Curve(a, b)


def _dimensions(span: Span, readings: Readings) -> list[AstraDimension]:
    """Of one tier of a group."""
    joined = capabilities_of(span.tier).joined_by
    match joined:
        case "neighbour_links":
            return _rings(span, readings)
        case "switches":
            return [_dimension("Switch", span.endpoints, _one_class(span, readings))]
        case "pair_links":
            return [_dimension("FullyConnected", span.endpoints, _one_class(span, readings))]
        case "routes":
            what = (
                f"'{span.tier.name}' is routed link by link, which ASTRA-sim's dimensions cannot"
                " express"
            )
            raise ColltoolError(
                what,
                argument="fabric",
                fix="take a group inside the tiers below it, or a star of its bandwidth",
            )
        case "tiers":
            raise AssertionError("a tier alone is not several")
        case _:
            assert_never(joined)


def _one_class(span: Span, readings: Readings) -> PathClass:
    name = span.tier.name
    used = tier_paths(span.seat, readings).used
    thinned = max((boundary.oversubscription for boundary in used[-1].boundaries), default=1.0)
    if thinned > 1:
        what, setting = (
            f"'{name}' is oversubscribed {thinned:g}:1 within the group",
            "oversubscription=1",
        )
        fix = f"take a group below that level with {given('ranks')}"
    elif len({level.alpha_s for level in used}) > 1:
        levels = ", ".join(level.name for level in used)
        what, setting = (
            f"the group spans levels of '{name}' with different alpha ({levels})",
            "alpha=TIME",
        )
        fix = f"take a group inside '{used[0].name}' with {given('ranks')}"
    else:
        return used[-1]
    if capabilities_of(span.tier).levels:
        fix += f", or {given('overrides', [f'{name}.levels.LEVEL.{setting}'])}"
    raise ColltoolError(f"{what}, which ASTRA-sim cannot express", argument="fabric", fix=fix)


def _rings(span: Span, readings: Readings) -> list[AstraDimension]:
    tier, kind = span.tier, capabilities_of(span.tier)
    axes = [
        axis for axis in kind.part(span.endpoints, span.occupancy.stride) or () if axis.size > 1
    ]
    if is_twisted(axes):
        what = (
            f"'{tier.name}' is a twisted torus here, which ASTRA-sim cannot express: its tori are"
            " rings along each axis"
        )
        raise ColltoolError(
            what, argument="fabric", fix=given("overrides", [f"{tier.name}.twist=false"])
        )
    # two ranks are a ring with and without
    if any(axis.size > 2 and not axis.wrap for axis in axes):
        what = (
            f"'{tier.name}' is an open {shape_text([axis.size for axis in axes])} here, and"
            " ASTRA-sim has only rings"
        )
        raise ColltoolError(
            what,
            argument="fabric",
            fix="take whole axes of a torus, or a slice that has wraparound",
        )
    (level,) = tier_paths(span.seat, readings).used
    return [_dimension("Ring", axis.size, level) for axis in axes]


def _dimension(topology: _Topology, npus: int, level: PathClass) -> AstraDimension:
    latency_s = level.alpha_s * level.eta_alpha / _LINKS[topology]
    return AstraDimension(topology, npus, level.bandwidth_Bps * level.eta_beta, latency_s)


def _runs(topology: _Topology, primitive: Primitive, npus: int) -> _Algorithm:
    """The algorithm of a dimension: the fewest messages that send no more than a ring's bytes; only
    neighbours on a Ring."""
    match topology:
        case "Ring":
            return "ring"
        case "FullyConnected":
            return "direct"
        case "Switch" if primitive is A2A:
            # one message at a time: in the congestion-unaware binary those of direct do not share a
            # port
            return "direct1"
        case "Switch":
            # a ring's bytes in fewer messages, for a power of two
            return "ring" if npus & (npus - 1) else "halvingDoubling"
        case _:
            assert_never(topology)


def _left_out(group: GroupUnderProtocol, ideal: bool) -> Iterator[str]:
    """What the numbers contain, and what ASTRA-sim cannot express."""
    placed = group.placed
    if group.has("Switch"):
        yield "a Switch is two links, so its latency is half of alpha"
    if ideal:
        yield f"every eta left out ({spell(given('ideal', True), 'shell')})"
    else:
        yield "bandwidth with eta.beta and latency with eta.alpha of the fabric"
    if placed.overhead_s:
        yield (
            f"left out: the launch overhead of {placed.overhead_s * 1e6:g} us, add it to every"
            " collective"
        )
    if placed.local_copy_Bps is not None:
        yield "left out: the copy of a rank's own share"
    for span in placed.spans:
        if capabilities_of(span.tier).in_network is not None:
            yield (
                f"left out: in-network operations of {span.tier.name}, ASTRA-sim's NPUs do all work"
            )


def _misleads(widest: GroupUnderProtocol, several: Sequence[GroupUnderProtocol]) -> Iterator[str]:
    """That one protocol stands for all, and below which size another is faster."""
    protocol = widest.placed.protocol
    if not protocol:
        return
    tiers = [span.tier for span in widest.placed.spans]
    differ = any(
        tier.protocols_for(primitive) != tier.protocols_for(AR)
        for tier in tiers
        for primitive in _COLLECTIVES
    )
    listed = (
        f" as listed for {AR.spoken}, other collectives have numbers of their own" if differ else ""
    )
    yield (
        f"numbers of protocol {protocol}{listed}, the one with the most bandwidth: ASTRA-sim knows"
        " none"
    )
    curves = {one.placed.protocol: one.curve for one in several}
    *faster, (border, _) = lower_envelope(curves, 1.0)
    if faster:
        ratio = format_factor(widest.curve.at(1.0) / curves[faster[0][1]].at(1.0), 2)
        others = " and ".join(dict.fromkeys(name for _, name in reversed(faster)))
        below = (
            f"below {format_bytes(border, 3)} they mislead: an {AR.spoken} is faster there under"
            f" {others}"
        )
        yield f"{below}, for the smallest messages {ratio} as fast"


def _how_to_run(group: GroupUnderProtocol) -> Iterator[str]:
    """Which binary, and what it makes of an all-to-all."""
    first, *others = group.dimensions
    why = "these numbers are for it"
    if others or (first.topology == "Ring" and first.npus == 2):
        why = (
            "the congestion-aware one ends with an error on"
            f" {'more than one dimension' if others else 'a Ring of 2'}"
        )
    elif first.topology == "Switch":
        off = "1.9 to 3.1 times off for all-reduce, all-gather and reduce-scatter on a Switch"
        why = f"the congestion-aware one is {off}"
    yield f"run AstraSim_Analytical_Congestion_Unaware: {why}"
    if group.has("Switch"):
        yield (
            "all-to-all on a Switch is direct1, one message after the other: that binary lets those"
            " of direct overlap on a port"
        )
    rings = [one.npus for one in group.dimensions if one.topology == "Ring"]
    if any(npus > 2 for npus in rings):
        # n_β of a shortest-path all-to-all on a ring: floor(n²/4)/(2n), and 1/2 between two;
        # ASTRA-sim's has n(n-1)/2 messages
        shortest = sum(npus * npus // 4 / (2 * npus) if npus > 2 else 0.5 for npus in rings)
        ratio, relayed = (
            sum((npus - 1) / 2 for npus in rings) / shortest,
            sum(npus * (npus - 1) // 2 for npus in rings),
        )
        yield (
            "do not trust an all-to-all on a Ring: ASTRA-sim relays every block one way, one"
            f" message after the other; here its Rings move {format_factor(ratio, 2)} the bytes of"
            f" dim-by-dim, and {relayed} messages follow each other"
        )


def _whole(size: float) -> str:
    whole = ceil(size)
    return f": {whole} byte{'s' if whole != 1 else ''}{', rounded up' if whole != size else ''}"
