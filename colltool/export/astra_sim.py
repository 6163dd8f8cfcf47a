"""A group as input of ASTRA-sim's analytical network: ``network.yml`` and ``system.json``.

ASTRA-sim's network is a product of at most four dimensions, each with equal links. A bandwidth there is in units of 2^30 bytes/s
and one direction, a latency is of one link in ns; a message through a Switch takes two links.
"""

import json
from collections.abc import Callable, Sequence
from math import ceil, prod
from textwrap import wrap
from typing import NamedTuple, assert_never

from colltool.errors import ColltoolError, given, spell
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import kind_of
from colltool.pricing.distances import Level, tier_reach
from colltool.pricing.groups import Placed, Span, place
from colltool.pricing.protocols import under_protocols
from colltool.pricing.readings import Readings
from colltool.primitives import A2A, AG, AR, RS, Primitive

NETWORK, SYSTEM = "network.yml", "system.json"
MOST_DIMENSIONS = 4
_GIB = 2**30
_COLLECTIVES = (AR, AG, RS, A2A)
_WIDTH = 120
_SYSTEM_NOTE = (
    "one chunk at a time, phase after phase, as colltool prices a hierarchy; 1 ns of endpoint-delay is the least that ASTRA-sim"
    " takes, local-mem-bw a placeholder"
)


class Dimension(NamedTuple):
    """One dimension of the network. ``bandwidth_Bps`` and ``latency_s`` of a link, η included."""

    topology: str
    npus: int
    bandwidth_Bps: float
    latency_s: float


def astra_sim(fabric: Fabric, ranks: int | None = None, ideal: bool = False, size: float | None = None) -> dict[str, str]:
    """The two input files by name.

    Args:
        fabric: where.
        ranks: N; all of the fabric when None.
        ideal: every η is 1.
        size: M in bytes, nccl-tests' convention; the comments then say what to run for it.

    Raises:
        ColltoolError: a group that does not fit, or that ASTRA-sim's dimensions cannot express; says what and how to go on.
    """
    placed = _widest_protocol(place(fabric, ranks))
    dimensions = [dimension for span in placed.spans for dimension in _dimensions(span, Readings(ideal=ideal))]
    if len(dimensions) > MOST_DIMENSIONS:
        what = f"{fabric.name} has {len(dimensions)} dimensions, ASTRA-sim takes at most {MOST_DIMENSIONS}"
        raise ColltoolError(what, argument="fabric", fix=f"a smaller group spans fewer: give {given('ranks')}")
    notes = [*_notes(placed, dimensions, ideal), *size_notes(placed.ranks, size)]
    return {NETWORK: _network(placed, dimensions, notes), SYSTEM: _system(dimensions)}


def size_notes(ranks: int, size: float | None = None) -> list[str]:
    """What ASTRA-sim's collective size is: each NPU's input, where colltool and nccl-tests count M."""
    each, shard = ("", "") if size is None else (_whole(size), _whole(size / ranks))
    return [
        f"size of all-reduce, reduce-scatter and all-to-all in ASTRA-sim: M, what each NPU puts in{each}",
        f"size of all-gather in ASTRA-sim: the shard of an NPU, M/N{shard}",
    ]


def _whole(size: float) -> str:
    """ASTRA-sim takes whole bytes."""
    whole = ceil(size)
    return f": {whole} byte{'s' if whole != 1 else ''}{', rounded up' if whole != size else ''}"


def _widest_protocol(placed: Placed) -> Placed:
    """ASTRA-sim has one set of numbers: of several protocols the one with the most bandwidth over all tiers, else the last."""
    return max(reversed(under_protocols(placed, AR)), key=lambda one: prod(span.tier.bandwidth for span in one.spans))


def _dimensions(span: Span, readings: Readings) -> list[Dimension]:
    joined = kind_of(span.tier).joined_by
    match joined:
        case "neighbour_links":
            return _rings(span, readings)
        case "switches":
            return [_dimension("Switch", span.endpoints, _one_class(span, readings), 2)]
        case "pair_links":
            return [_dimension("FullyConnected", span.endpoints, _one_class(span, readings), 1)]
        case "tiers":
            raise AssertionError("a tier alone is not several")
        case _:
            assert_never(joined)


def _one_class(span: Span, readings: Readings) -> Level:
    """The distance class of a tier on which all pairs of the group are alike.

    Raises:
        ColltoolError: pairs differ in α, or share oversubscribed uplinks.
    """
    name = span.tier.name
    used = tier_reach(span.tier, span.endpoints, readings).used()
    thinned = max((boundary.oversubscription for boundary in used[-1].boundaries), default=1.0)
    if thinned > 1:
        what = f"'{name}' is oversubscribed {thinned:g}:1 within the group, which ASTRA-sim cannot express"
        change = _or_set(span.tier, "oversubscription=1")
        fix = f"take a group below that level with {given('ranks')}{change}"
        raise ColltoolError(what, argument="fabric", fix=fix)
    if len({level.alpha_s for level in used}) > 1:
        levels = ", ".join(level.name for level in used)
        what = f"the group spans levels of '{name}' with different alpha ({levels}), which ASTRA-sim cannot express"
        change = _or_set(span.tier, "alpha=TIME")
        fix = f"take a group inside '{used[0].name}' with {given('ranks')}{change}"
        raise ColltoolError(what, argument="fabric", fix=fix)
    return used[-1]


def _or_set(tier: Tier, setting: str) -> str:
    """The cure beside a smaller group: other numbers for the levels, where the tier has any."""
    return f", or {given('overrides', [f'{tier.name}.levels.LEVEL.{setting}'])}" if kind_of(tier).levels else ""


def _rings(span: Span, readings: Readings) -> list[Dimension]:
    """A torus as one ring per axis.

    Raises:
        ColltoolError: a mesh, or a part of an axis: both are open lines.
    """
    tier, kind = span.tier, kind_of(span.tier)
    if not all(axis.wrap for axis in kind.axes):
        what = f"'{tier.name}' is a mesh, and ASTRA-sim has no lines without wraparound"
        raise ColltoolError(what, argument="fabric", fix="ASTRA-sim takes tori, stars, Closes and full meshes")
    (level,) = tier_reach(tier, span.endpoints, readings).used()
    rings = []
    for axis, part in zip(kind.axes, kind.part(span.endpoints) or (), strict=True):
        taken = part.size
        if taken not in (1, axis.size):
            what = f"{taken} of the {axis.size} ranks of an axis of '{tier.name}' are an open line, and ASTRA-sim has only rings"
            raise ColltoolError(what, argument="ranks", fix="take whole axes")
        if taken > 1:
            rings.append(_dimension("Ring", taken, level, 1))
    return rings


def _dimension(topology: str, npus: int, level: Level, links: int) -> Dimension:
    return Dimension(topology, npus, level.bandwidth_Bps * level.eta_beta, level.alpha_s * level.eta_alpha / links)


def _network(placed: Placed, dimensions: Sequence[Dimension], notes: Sequence[str]) -> str:
    """YAML by hand: four short lists."""
    title = f"colltool export astra-sim: {placed.fabric.name}, {placed.ranks} ranks"
    comments = "".join(f"# {line}\n" for note in (title, *notes) for line in wrap(note, _WIDTH))
    lists = {
        "topology": [one.topology for one in dimensions],
        "npus_count": [str(one.npus) for one in dimensions],
        "bandwidth": [f"{one.bandwidth_Bps / _GIB:.12g}" for one in dimensions],
        "latency": [f"{one.latency_s * 1e9:.12g}" for one in dimensions],
    }
    units = {"bandwidth": "  # 2^30 B/s per directed link", "latency": "  # ns per link"}
    return comments + "".join(f"{key}: [{', '.join(items)}]{units.get(key, '')}\n" for key, items in lists.items())


def _notes(placed: Placed, dimensions: Sequence[Dimension], ideal: bool) -> list[str]:
    """What the numbers contain, and what ASTRA-sim has no word for."""
    switched = any(one.topology == "Switch" for one in dimensions)
    notes = ["a Switch is two links, so its latency is half of alpha"] if switched else []
    notes.append(
        f"every eta left out ({spell(given('ideal', True), 'shell')})"
        if ideal
        else "bandwidth with eta.beta and latency with eta.alpha of the fabric"
    )
    if placed.protocol:
        listed = f" as listed for {AR.spoken}, other collectives have numbers of their own" if _lists_differ(placed) else ""
        notes.append(f"numbers of protocol {placed.protocol}{listed}, the one with the most bandwidth: ASTRA-sim knows none")
    if placed.overhead_s:
        notes.append(f"left out: the launch overhead of {placed.overhead_s * 1e6:g} us, add it to every collective")
    if placed.local_copy_Bps is not None:
        notes.append("left out: the copy of a rank's own share")
    for span in placed.spans:
        if kind_of(span.tier).in_network is not None:
            notes.append(f"left out: in-network operations of {span.tier.name}, ASTRA-sim's NPUs do all work")
    if switched:
        notes.append("run the congestion-aware binary: in the other one the messages of 'direct' do not share a Switch's port")
    return [*notes, f"{SYSTEM}: {_SYSTEM_NOTE}"]


def _lists_differ(placed: Placed) -> bool:
    tiers = [span.tier for span in placed.spans]
    return any(tier.protocols_for(primitive) != tier.protocols_for(AR) for tier in tiers for primitive in _COLLECTIVES)


def _ring(_npus: int) -> str:
    return "ring"


def _direct(_npus: int) -> str:
    return "direct"


def _switched(npus: int) -> str:
    """Halving-doubling has a ring's bytes in fewer messages, but needs a power of two."""
    return "halvingDoubling" if npus & (npus - 1) == 0 else "ring"


_RUNS: dict[str, dict[Primitive, Callable[[int], str]]] = {
    "Ring": dict.fromkeys(_COLLECTIVES, _ring),
    "FullyConnected": dict.fromkeys(_COLLECTIVES, _direct),
    "Switch": dict.fromkeys((AR, AG, RS), _switched) | {A2A: _direct},
}
"""What runs on each kind of dimension: the fewest messages that send no more than a ring's bytes, neighbours alone on a Ring."""


def _system(dimensions: Sequence[Dimension]) -> str:
    names = {
        f"{primitive.spoken}-implementation": [_RUNS[one.topology][primitive](one.npus) for one in dimensions]
        for primitive in _COLLECTIVES
    }
    document = {
        "scheduling-policy": "LIFO",
        "endpoint-delay": 1,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 1,
        **names,
        "collective-optimization": "localBWAware",
        "local-mem-bw": 1600,
    }
    return json.dumps(document, indent=2) + "\n"
