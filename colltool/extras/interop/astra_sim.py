"""A group as input of ASTRA-sim's analytical network: ``network.yml`` and ``system.json``, by
:func:`astra_sim`; :func:`usage_notes` says how to run them.

The network is a product of at most four dimensions, each with equal links of one latency and
bandwidth. Bandwidths are in 2^30 bytes/s one way, latencies in ns per link; a message through a
Switch takes two links. The files are for the congestion-unaware binary, in which a message takes
its links' latencies plus bytes over bandwidth, as in colltool.

ASTRA-sim has one set of numbers: those of the fabric's protocol with the most bandwidth for an all-reduce
(:func:`_widest`). A tier becomes a dimension, a torus one for each axis (:func:`_dimensions`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import ceil
from typing import Literal, NamedTuple, assert_never

from colltool.base.errors import ColltoolError, argument_text, spell
from colltool.base.formatting import counted, format_bytes, format_factor, shape_text
from colltool.base.primitives import A2A, AG, AR, RS, Primitive
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.crossover import lower_envelope
from colltool.estimate.groups import PlacedGroup, Span, place
from colltool.estimate.path_classes import PathClass, tier_paths
from colltool.estimate.placement import AnyGroup
from colltool.estimate.protocols import under_protocols
from colltool.estimate.software_time import Curve
from colltool.extras.interop.comments import comment
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import check_even
from colltool.network.twisted import is_twisted

NETWORK = "network.yml"
SYSTEM = "system.json"
MOST_DIMENSIONS = 4  # that ASTRA-sim's analytical network takes
_COLLECTIVES = (AR, AG, RS, A2A)
_GIB = 2**30
# Settings of system.json but for the algorithms: one chunk at a time, phase after phase. Copies in
# a rank's memory cost nothing (local-mem-bw in GB/s), as colltool's alpha and bandwidth contain them.
_SYSTEM_SETTINGS = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 1,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 1,
}
_AFTER_ALGORITHMS = {"collective-optimization": "localBWAware", "local-mem-bw": 10**9}

# Sentences for the head of the network file and for the terminal.
_ABOUT_SYSTEM = (
    "system.json: one chunk at a time, phase after phase, as colltool prices a hierarchy; 1 ns"
    " of endpoint-delay is the least that ASTRA-sim takes; local-mem-bw is so large that copies"
    " in memory cost nothing, as in colltool"
)
_ALL_TO_ALL_ON_A_SWITCH = (
    "all-to-all on a Switch is direct1, one message after the other: that binary lets those of"
    " direct overlap on a port"
)
_OFF_ON_A_SWITCH = (
    "the congestion-aware one is 1.9 to 3.1 times off for all-reduce, all-gather and"
    " reduce-scatter on a Switch"
)

_Topology = Literal["Switch", "Ring", "FullyConnected"]
_Algorithm = Literal["ring", "direct", "direct1", "halvingDoubling"]
# Links that a message between neighbours takes.
_LINKS: dict[_Topology, int] = {"Switch": 2, "Ring": 1, "FullyConnected": 1}


class AstraDimension(NamedTuple):
    """One dimension; bandwidth and latency are per link, η included."""

    topology: _Topology  # ASTRA-sim's word
    npus: int  # ranks along it
    bandwidth_Bps: float
    latency_s: float


class GroupUnderProtocol(NamedTuple):
    """A group under one protocol; ``curve``: the time of an all-reduce, with launch overhead."""

    placed: PlacedGroup
    dimensions: Sequence[AstraDimension]  # innermost first
    curve: Curve  # a seconds, and b seconds a byte of M

    def has(self, topology: _Topology) -> bool:
        """Whether some dimension has this topology."""
        return any(dimension.topology == topology for dimension in self.dimensions)


def astra_sim(
    fabric: Fabric, group: AnyGroup = None, ideal: bool = False, size: float | None = None
) -> dict[str, str]:
    """Return the text of the two input files, by name.

    Args:
        group: all of the fabric when None.
        ideal: whether every η is 1.
        size: M in bytes, for comments on what to run.

    Raises:
        ColltoolError: the group does not fit, or ASTRA-sim cannot express it.
    """
    by_protocol = _by_protocol(fabric, group, ideal)
    widest = _widest(by_protocol)
    placed = widest.placed
    notes = [
        f"colltool export astra-sim: {placed.fabric.name}, {placed.placement.label}",
        *_omitted_notes(widest, ideal),
        *_run_notes(by_protocol, widest, size),
        _ABOUT_SYSTEM,
    ]
    return {NETWORK: _network(notes, widest.dimensions), SYSTEM: _system(widest.dimensions)}


def _network(notes: Sequence[str], dimensions: Sequence[AstraDimension]) -> str:
    """The network file, with notes as comments."""
    lines = list(map(comment, notes))
    topologies: list[str] = []
    counts = []
    rates = []
    latencies = []
    for topology, npus, bandwidth_Bps, latency_s in dimensions:
        topologies.append(topology)
        counts.append(str(npus))
        rates.append(f"{bandwidth_Bps / _GIB:.12g}")
        latencies.append(f"{latency_s * 1e9:.12g}")
    lines += [
        f"topology: [{', '.join(topologies)}]",
        f"npus_count: [{', '.join(counts)}]",
        f"bandwidth: [{', '.join(rates)}]  # 2^30 B/s per directed link",
        f"latency: [{', '.join(latencies)}]  # ns per link",
    ]
    return "\n".join(lines) + "\n"


def _system(dimensions: Sequence[AstraDimension]) -> str:
    """The system file: the algorithm of each collective on each dimension, and its settings."""
    algorithms = {}
    for primitive in _COLLECTIVES:
        algorithms[f"{primitive.label}-implementation"] = [
            _algorithm(dimension.topology, primitive, dimension.npus) for dimension in dimensions
        ]
    return json.dumps({**_SYSTEM_SETTINGS, **algorithms, **_AFTER_ALGORITHMS}, indent=2) + "\n"


def usage_notes(
    fabric: Fabric, group: AnyGroup = None, ideal: bool = False, size: float | None = None
) -> list[str]:
    """Say what to know before the first run: which binary to take, what not to trust, which sizes to give.
    Arguments and errors as of :func:`astra_sim`."""
    by_protocol = _by_protocol(fabric, group, ideal)
    return _run_notes(by_protocol, _widest(by_protocol), size)


def _run_notes(
    by_protocol: Sequence[GroupUnderProtocol], widest: GroupUnderProtocol, size: float | None
) -> list[str]:
    """Say how to run the files and what to expect. ASTRA-sim's collective size is what each NPU puts in,
    which is M but for an all-gather; ``size`` is M in bytes, or None."""
    size_text = ""
    shard_text = ""
    if size is not None:
        size_text = _whole_bytes_text(size)
        shard_text = _whole_bytes_text(size / widest.placed.ranks)
    return [
        *_protocol_notes(widest, by_protocol),
        *_how_to_run(widest),
        (
            "size of all-reduce, reduce-scatter and all-to-all in ASTRA-sim: M, what each NPU puts"
            f" in{size_text}"
        ),
        f"size of all-gather in ASTRA-sim: the shard of an NPU, M/N{shard_text}",
    ]


def _by_protocol(fabric: Fabric, group: AnyGroup, ideal: bool) -> list[GroupUnderProtocol]:
    """The group under each of the fabric's protocols for an all-reduce; one without a name where it
    lists none. ColltoolError for more dimensions than ASTRA-sim takes."""
    check_even(fabric)
    by_protocol = []
    for placed in under_protocols(place(fabric, group), AR):
        dimensions: list[AstraDimension] = []
        for span in placed.spans:
            dimensions += _dimensions(span, ModelOptions(ideal=ideal))
        curve = _all_reduce_curve(placed, dimensions)
        by_protocol.append(GroupUnderProtocol(placed, dimensions, curve))
    dimension_count = len(by_protocol[0].dimensions)  # protocols have the same
    if dimension_count > MOST_DIMENSIONS:
        what = f"{fabric.name} has {dimension_count} dimensions, ASTRA-sim takes at most {MOST_DIMENSIONS}"
        raise ColltoolError(
            what,
            argument="fabric",
            fix=f"a smaller group spans fewer: give {argument_text('ranks')}",
        )
    return by_protocol


def _widest(by_protocol: Sequence[GroupUnderProtocol]) -> GroupUnderProtocol:
    """The group under the protocol with the most bandwidth; of equals the one with the least fixed time, and
    of those the last."""
    return min(reversed(by_protocol), key=lambda group: (group.curve.b, group.curve.a))


def _all_reduce_curve(placed: PlacedGroup, dimensions: Sequence[AstraDimension]) -> Curve:
    """An all-reduce as ASTRA-sim runs it, dimension by dimension in and out again, plus the launch
    overhead it ignores.

    8 NPUs on a Switch of 100 GB/s and 0.5 us a link: 3 messages in and 3 out of 2 links each, 6 us, and
    2 * 7/8 of the vector at 100 GB/s.
    """
    fixed_s = placed.overhead_s
    seconds_per_byte = 0.0
    share = 1.0  # of the vector that a dimension reduces
    for dimension in dimensions:
        npus = dimension.npus
        # of the reduce-scatter half: messages one after the other, and the share of what the
        # dimension reduces that the busiest link carries; those of a ring, unless said otherwise
        messages = npus - 1
        link_share = (npus - 1) / npus
        match _algorithm(dimension.topology, AR, npus):
            case "direct":
                messages = 1
                link_share = 1 / npus
            case "halvingDoubling":
                messages = npus.bit_length() - 1
        fixed_s += 2 * messages * dimension.latency_s * _LINKS[dimension.topology]
        seconds_per_byte += 2 * share * link_share / dimension.bandwidth_Bps
        share /= npus
    return Curve(fixed_s, seconds_per_byte)


def _dimensions(span: Span, readings: ModelOptions) -> list[AstraDimension]:
    """The dimensions of a tier of a group."""
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
            fix = "take a group inside the tiers below it, or a star of its bandwidth"
            raise ColltoolError(what, argument="fabric", fix=fix)
        case "tiers":
            raise AssertionError("a tier alone is not several")
        case _:
            assert_never(joined)


def _one_class(span: Span, readings: ModelOptions) -> PathClass:
    """The paths of a group on a tier: the farthest, where all have one latency and bandwidth; ColltoolError
    where they have not."""
    name = span.tier.name
    # classes of pairs that the group has, by the level of switches where they meet, the nearest first
    used = tier_paths(span.position, readings).used
    ratio = oversubscription(used[-1])
    if ratio > 1:
        what = f"'{name}' is oversubscribed {ratio:g}:1 within the group"
        fix = f"take a group below that level with {argument_text('ranks')}"
        setting = "oversubscription=1"
    elif len({level.alpha_s for level in used}) > 1:
        levels = ", ".join(level.name for level in used)
        what = f"the group spans levels of '{name}' with different alpha ({levels})"
        fix = f"take a group inside '{used[0].name}' with {argument_text('ranks')}"
        setting = "alpha=TIME"
    else:
        return used[-1]
    if capabilities_of(span.tier).levels:
        fix += f", or {argument_text('overrides', [f'{name}.levels.LEVEL.{setting}'])}"
    raise ColltoolError(f"{what}, which ASTRA-sim cannot express", argument="fabric", fix=fix)


def oversubscription(paths: PathClass) -> float:
    """The largest oversubscription on the way of these paths, as bandwidth below a switch over that of its
    uplinks; 1 where there is none."""
    return max((boundary.oversubscription for boundary in paths.boundaries), default=1.0)


def _rings(span: Span, readings: ModelOptions) -> list[AstraDimension]:
    """The axes of a torus, each a ring; ColltoolError where they are not."""
    tier = span.tier
    part = capabilities_of(tier).part(span.endpoints, span.occupancy.stride) or ()
    axes = [axis for axis in part if axis.size > 1]
    if is_twisted(axes):
        what = (
            f"'{tier.name}' is a twisted torus here, which ASTRA-sim cannot express: its tori are"
            " rings along each axis"
        )
        fix = argument_text("overrides", [f"{tier.name}.twist=false"])
        raise ColltoolError(what, argument="fabric", fix=fix)
    # Two ranks are a ring with and without a wraparound.
    if any(axis.size > 2 and not axis.wrap for axis in axes):
        shape = shape_text([axis.size for axis in axes])
        what = f"'{tier.name}' is an open {shape} here, and ASTRA-sim has only rings"
        fix = "take whole axes of a torus, or a slice that has wraparound"
        raise ColltoolError(what, argument="fabric", fix=fix)
    # a torus has one class of paths: neighbours
    (level,) = tier_paths(span.position, readings).used
    return [_dimension("Ring", axis.size, level) for axis in axes]


def _dimension(topology: _Topology, npus: int, level: PathClass) -> AstraDimension:
    """A dimension whose messages between neighbours take the latency of these paths."""
    latency_s = level.alpha_s * level.eta_alpha / _LINKS[topology]
    return AstraDimension(topology, npus, level.bandwidth_Bps * level.eta_beta, latency_s)


def _algorithm(topology: _Topology, primitive: Primitive, npus: int) -> _Algorithm:
    """The algorithm of a dimension: of those that send no more bytes than a ring, the one with the fewest
    messages; on a Ring, where only neighbours are linked, ASTRA-sim's ring."""
    match topology:
        case "Ring":
            return "ring"
        case "FullyConnected":
            return "direct"
        case "Switch" if primitive is A2A:
            # One message at a time: in the congestion-unaware binary those of direct do not share
            # a port.
            return "direct1"
        case "Switch":
            # A ring's bytes in fewer messages, for a power of two, which has a single bit.
            return "ring" if npus & (npus - 1) else "halvingDoubling"
        case _:
            assert_never(topology)


def _omitted_notes(group: GroupUnderProtocol, ideal: bool) -> Iterator[str]:
    """What the numbers contain, and what ASTRA-sim cannot express."""
    placed = group.placed
    if group.has("Switch"):
        yield "a Switch is two links, so its latency is half of alpha"
    if ideal:
        yield f"every eta left out ({spell(argument_text('ideal', True), 'shell')})"
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


def _protocol_notes(
    widest: GroupUnderProtocol, by_protocol: Sequence[GroupUnderProtocol]
) -> Iterator[str]:
    """Which protocol the numbers belong to, and below which size another is faster."""
    protocol = widest.placed.protocol
    if not protocol:
        return
    tiers = [span.tier for span in widest.placed.spans]
    listed = ""
    if any(map(_collectives_differ, tiers)):
        listed = f" as listed for {AR.label}, other collectives have numbers of their own"
    yield (
        f"numbers of protocol {protocol}{listed}, the one with the most bandwidth: ASTRA-sim knows"
        " none"
    )
    curves = {group.placed.protocol: group.curve for group in by_protocol}
    # (size from which on it is fastest, protocol), ascending from 1 byte; the widest is the last
    *smaller, (border, _) = lower_envelope(curves, 1.0)
    if smaller:
        _, fastest_at_one_byte = smaller[0]
        ratio = format_factor(widest.curve.at(1.0) / curves[fastest_at_one_byte].at(1.0), 2)
        others = " and ".join(dict.fromkeys(name for _, name in reversed(smaller)))
        yield (
            f"below {format_bytes(border, 3)} they mislead: an {AR.label} is faster there under"
            f" {others}, for the smallest messages {ratio} as fast"
        )


def _collectives_differ(tier: Tier) -> bool:
    """Whether a tier lists other protocols for another collective than for all-reduce."""
    listed = tier.protocols_for(AR)
    return any(tier.protocols_for(primitive) != listed for primitive in _COLLECTIVES)


def _how_to_run(group: GroupUnderProtocol) -> Iterator[str]:
    """Which binary, and what it makes of an all-to-all."""
    innermost, *outer = group.dimensions
    why = "these numbers are for it"  # that binary, and not the congestion-aware one
    if outer:
        why = "the congestion-aware one ends with an error on more than one dimension"
    elif innermost.topology == "Ring" and innermost.npus == 2:
        why = "the congestion-aware one ends with an error on a Ring of 2"
    elif innermost.topology == "Switch":
        why = _OFF_ON_A_SWITCH
    yield f"run AstraSim_Analytical_Congestion_Unaware: {why}"
    if group.has("Switch"):
        yield _ALL_TO_ALL_ON_A_SWITCH
    # NPUs of each; a block travels (n - 1)/2 hops in the mean where it goes one way only
    rings = [dimension.npus for dimension in group.dimensions if dimension.topology == "Ring"]
    if max(rings, default=0) > 2:
        shortest = sum(map(_shortest_path_share, rings))
        ratio = sum((npus - 1) / 2 for npus in rings) / shortest
        relayed = sum(npus * (npus - 1) // 2 for npus in rings)
        yield (
            "do not trust an all-to-all on a Ring: ASTRA-sim relays every block one way, one"
            f" message after the other; here its Rings move {format_factor(ratio, 2)} the bytes of"
            f" dim-by-dim, and {relayed} messages follow each other"
        )


def _shortest_path_share(npus: int) -> float:
    """n_β of a shortest-path all-to-all on a ring: floor(n²/4)/(2n), such as 1 of 8; 1/2 between two."""
    return npus * npus // 4 / (2 * npus) if npus > 2 else 0.5


def _whole_bytes_text(size: float) -> str:
    """A size for the end of a note: ``: 16 bytes``, or ``: 3 bytes, rounded up``."""
    rounded = ceil(size)
    text = f": {counted(rounded, 'byte')}"
    return text if rounded == size else f"{text}, rounded up"
