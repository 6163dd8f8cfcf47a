"""What a library adds to the wires (layer 3): launch, time a step, share of the wire, copies, and
what it runs.

Numbers are keyed by library, version, GPU and medium, and apply *on top of* a tier's own: a step takes
η_α·α + o, a byte 1 / (BW·η_β·e), so the tier's α, bandwidth and η act under every protocol. Source:
the file's own ``source`` lines (``nccl-2.30.toml`` beside this module).

:func:`tier_library` is the entry: a library's numbers on one tier, as a :class:`TierLibrary`.
:func:`reached_rows` has the shares of bandwidth that whole schedules reach.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cache
from math import log
from pathlib import Path
from typing import Any, NamedTuple

from colltool.base.cache import packaged_toml
from colltool.base.primitives import Primitive

FOLDER = Path(__file__).parent


class MeasuredAt(NamedTuple):
    """Bytes and rank counts at which numbers were measured; ranks None: not known."""

    smallest: float
    largest: float
    ranks: tuple[int, ...] | None = None


class ProtocolNumbers(NamedTuple):
    """One protocol of a library on a tier.

    Args:
        primitives: those that it holds for; None for all that no other entry names.
        launch_s: L, once a call; None where another tier says it.
        step_s: o, added to η_α·α of every step; a posted send may take less than α, so it may be
            negative.
        share: e, of BW·η_β; above 1 where the library was measured to reach more.
        copy_Bps: rate at which a rank moves the part of M that it keeps; None where that is free.
        measured: where the numbers hold best; None: not known.
        host_Bps: a rate that a CPU or proxy sets, whatever the line; it takes the place of
            ``share``.
        stretch, line: factors on the tier's η_α and bandwidth, where a file of the old form gave a
            protocol its own.
        by_ranks: ``share`` by number of endpoints of the tier, ascending, where what they share is
            not the wires but their host.
    """

    name: str
    primitives: tuple[Primitive, ...] | None = None
    launch_s: float | None = None
    step_s: float = 0.0
    share: float = 1.0
    copy_Bps: float | None = None
    measured: MeasuredAt | None = None
    host_Bps: float | None = None
    stretch: float = 1.0
    line: float = 1.0
    by_ranks: tuple[tuple[int, float], ...] = ()

    def share_on(self, endpoints: int) -> float:
        """e on this many endpoints: between two counts by logarithms, beyond them the nearest."""
        if not self.by_ranks:
            return self.share
        after = bisect_left(self.by_ranks, endpoints, key=lambda point: point[0])
        if after in (0, len(self.by_ranks)):
            return self.by_ranks[max(after - 1, 0)][1]
        (low, first), (high, last) = self.by_ranks[after - 1 : after + 1]
        between: float = first * (last / first) ** (log(endpoints / low) / log(high / low))
        return between


class SwitchNumbers(NamedTuple):
    """Collectives in a tier's switches: time on top of α_switch, shares of the switches' own η_β by
    primitive, and the names of their protocols; None: all."""

    step_s: float = 0.0
    shares: Mapping[Primitive, float] = {}
    protocols: tuple[str, ...] | None = None


class TierLibrary(NamedTuple):
    """A library on one tier; ``runs``: what it runs there by primitive, empty for anything."""

    protocols: tuple[ProtocolNumbers, ...] = ()
    switch: SwitchNumbers | None = None
    runs: Mapping[Primitive, tuple[str, ...]] = {}
    source: str = ""

    def protocols_for(self, primitive: Primitive) -> dict[str, ProtocolNumbers]:
        """The protocols of a primitive by name: those that name it, else those that are for all."""
        named: dict[str, ProtocolNumbers] = {}
        for_all: dict[str, ProtocolNumbers] = {}
        for protocol in self.protocols:
            if protocol.primitives is None:
                for_all[protocol.name] = protocol
            elif primitive in protocol.primitives:
                named[protocol.name] = protocol
        return named or for_all


class LibraryData(NamedTuple):
    """The data of one version of a library, as its file has them: ``tiers`` are its entries by GPU and
    medium, ``reached`` the shares of bandwidth that whole schedules reach."""

    library: str
    version: str
    tiers: tuple[Mapping[str, Any], ...]
    reached: tuple[Mapping[str, Any], ...]


@cache
def library_data(library: str) -> LibraryData | None:
    """The newest measured version of a library. None for one that was not measured.

    Versions share their kernels: what a version changes is its cost model (``colltool.libraries.nccl``), not
    these numbers.
    """
    files = sorted(FOLDER.glob(f"{library}-*.toml"), key=_version_of)
    if not files:
        return None
    data = packaged_toml(files[-1])
    reached = tuple(data.get("reached", ()))
    return LibraryData(data["library"], data["version"], tuple(data["tier"]), reached)


def _version_of(path: Path) -> tuple[int, ...]:
    """The version of a file, for sorting: (2, 30) of ``nccl-2.30.toml``."""
    parts = path.stem.rpartition("-")[2].split(".")
    return tuple(int(part) for part in parts if part.isdecimal())


def tier_library(
    library: str, gpus: Sequence[str], medium: str | None, *, p2p: bool
) -> TierLibrary | None:
    """A library's numbers on a medium: of the first of ``gpus`` (a device, then its generation)
    that has any. None if none has, or no medium is known.

    ``p2p``: cards in PCIe slots read each other's memory, where the numbers depend on it.
    """
    data = library_data(library)
    if data is None or medium is None:
        return None
    # the device itself before its generation
    for gpu in gpus:
        for number, entry in enumerate(data.tiers):
            on_medium = medium in entry["media"] and entry.get("p2p", p2p) == p2p
            if on_medium and gpu in entry["gpus"]:
                return _tier_of(library, number)
    return None


@cache
def _tier_of(library: str, number: int) -> TierLibrary:
    """The entry of a library's file with this number, read; each is read once."""
    data = library_data(library)
    assert data is not None
    entry = data.tiers[number]
    runs: dict[Primitive, tuple[str, ...]] = {}
    for name, algorithms in entry.get("runs", {}).items():
        runs[Primitive(name)] = tuple(algorithms)
    protocols = tuple(map(_protocol_of, entry.get("protocols", ())))
    return TierLibrary(
        protocols, switch=_switch_of(entry.get("switch")), runs=runs, source=entry["source"]
    )


def _protocol_of(row: Mapping[str, Any]) -> ProtocolNumbers:
    """A protocol from a row of a library's file."""
    primitives = row.get("primitives")
    share = row.get("share", 1.0)
    by_ranks: tuple[tuple[int, float], ...] = ()
    if isinstance(share, list):
        # what the endpoints share is not the wires but their host
        by_ranks = tuple((point["ranks"], point["share"]) for point in share)
        share = by_ranks[-1][1]
    measured = None
    if "measured" in row:
        bounds = row["measured"]
        measured = MeasuredAt(bounds["smallest"], bounds["largest"], tuple(bounds["ranks"]))
    return ProtocolNumbers(
        name=row["name"],
        primitives=None if primitives is None else tuple(map(Primitive, primitives)),
        launch_s=_in_si(row.get("launch_us"), 1e-6),
        step_s=row.get("step_us", 0.0) * 1e-6,
        share=share,
        copy_Bps=_in_si(row.get("copy_GBps"), 1e9),
        measured=measured,
        host_Bps=_in_si(row.get("host_GBps"), 1e9),
        by_ranks=by_ranks,
    )


def _switch_of(row: Mapping[str, Any] | None) -> SwitchNumbers | None:
    """A tier's switches from a row of a library's file; None without one."""
    if row is None:
        return None
    shares = {Primitive(name): share for name, share in row.get("shares", {}).items()}
    protocols = tuple(row["protocols"]) if "protocols" in row else None
    return SwitchNumbers(row.get("step_us", 0.0) * 1e-6, shares, protocols)


def _in_si(number: float | None, unit: float) -> float | None:
    """A number of ``unit``, such as 1e-6 of microseconds, in SI units; None where none is known."""
    return None if number is None else number * unit


def reached_rows(
    library: str, gpus: Sequence[str], medium: str | None
) -> tuple[Mapping[str, Any], ...]:
    """The rows of a library's file that say which share of bandwidth whole schedules reach over a
    medium, on any of these GPUs; as the file has them."""
    data = library_data(library)
    if data is None or medium is None:
        return ()
    return tuple(
        row
        for row in data.reached
        if medium in row["media"] and not set(gpus).isdisjoint(row["gpus"])
    )
