"""What a user of ASTRA-sim's input files should know: what they leave out, which binary to run, where they mislead."""

from collections.abc import Iterator, Sequence
from math import ceil
from typing import NamedTuple

from colltool.base.errors import given, spell
from colltool.base.formatting import format_bytes, format_factor
from colltool.base.primitives import AR
from colltool.estimate.crossover import lower_envelope
from colltool.estimate.curve import Curve
from colltool.estimate.groups import PlacedGroup
from colltool.export.astra_dimensions import COLLECTIVES, Dimension
from colltool.fabric.topology import capabilities_of

_BINARY = "AstraSim_Analytical_Congestion_Unaware"


class Laid(NamedTuple):
    """A group under one protocol: its dimensions, and an all-reduce over them with its launch overhead."""

    placed: PlacedGroup
    dimensions: Sequence[Dimension]
    curve: Curve


def left_out(placed: PlacedGroup, dimensions: Sequence[Dimension], ideal: bool) -> Iterator[str]:
    """What the numbers contain, and what ASTRA-sim has no word for."""
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


def misleads(widest: Laid, several: Sequence[Laid]) -> Iterator[str]:
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


def how_to_run(dimensions: Sequence[Dimension]) -> Iterator[str]:
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
    """Why the keys of system.json are as they are."""
    return (
        "system.json: one chunk at a time, phase after phase, as colltool prices a hierarchy; 1 ns of endpoint-delay is the least"
        " that ASTRA-sim takes; local-mem-bw is so large that copies in memory cost nothing, as in colltool"
    )


def _has(dimensions: Sequence[Dimension], topology: str) -> bool:
    return any(one.topology == topology for one in dimensions)


def _shortest(npus: int) -> float:
    """n_β of an all-to-all on a ring whose blocks take the shorter way round: floor(n²/4)/(2n), and 1/2 between two."""
    return npus * npus // 4 / (2 * npus) if npus > 2 else 0.5


def _relayed(rings: Sequence[int]) -> int:
    """Messages of ASTRA-sim's ring all-to-all: n(n-1)/2 on each axis."""
    return sum(npus * (npus - 1) // 2 for npus in rings)


def _lists_differ(placed: PlacedGroup) -> bool:
    tiers = [span.tier for span in placed.spans]
    return any(tier.protocols_for(primitive) != tier.protocols_for(AR) for tier in tiers for primitive in COLLECTIVES)


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
