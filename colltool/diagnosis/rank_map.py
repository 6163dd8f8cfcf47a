"""Which fabric rank each rank of the job is, where a scheduler placed them in another order, and
what a call takes there.

``block`` fills host after host and ``cyclic`` deals ranks out host by host, as Slurm's
``--distribution``. A file has a line per rank: a fabric rank, or a host as ``srun -l hostname``
prints it. A layout file (``colltool.layout/1``) gives its ``map``.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import mul
from typing import NamedTuple

from colltool.base.errors import ColltoolError, argument_text, either, localize, printable, quote
from colltool.base.files import read_text
from colltool.base.formatting import counted
from colltool.base.primitives import P2P
from colltool.base.statements import NOTHING, Statement
from colltool.calibration.series_prices import MOST_IN_A_HOST
from colltool.diagnosis.sentences import statement
from colltool.estimate.assumptions import ModelOptions
from colltool.fabric.load import exists
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import check_even
from colltool.logs.call_metadata import CallMetadata
from colltool.network.group import sizes_of
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.parallel_config import Axes, RankGroup

BLOCK, CYCLIC = "block", "cyclic"
AnyMap = str | os.PathLike[str] | Sequence[int]
_LAYOUT = re.compile(r"^(?:schema|map|groups|pattern)\s*:(?:\s|$)", re.MULTILINE)
_LINE = re.compile(
    r"(?:(?P<rank>[0-9]{1,9}):\s+)?"
    r"(?:(?P<number>[0-9]{1,9})|(?P<host>[A-Za-z0-9][A-Za-z0-9._-]*)(?::(?P<slot>[0-9]{1,9}))?)"
)
_WRITE = (
    "write a rank of the fabric, a host or host:slot in each line, as srun -l hostname prints them"
)
_LINE_EACH = "give a line for each rank of the job"


class RankMap(NamedTuple):
    """Where a job's ranks sit. ``given``: a word, a file name, ``a list``, or empty for the
    fabric's order. ``places``: the fabric rank of each; empty where they are the same, or the job's
    size is not known yet."""

    given: str = ""
    places: tuple[int, ...] = ()

    def of(self, fabric: Fabric, world: int | None) -> RankMap:
        """The map of a job of this size."""
        if self.given == CYCLIC:
            return RankMap(CYCLIC, _cyclic(fabric, world))
        if self.places and world and len(self.places) not in (world, fabric.ranks):
            raise self._too_short(f"the job has {world}")
        return self

    def place(self, ranks: Sequence[int]) -> tuple[int, ...]:
        """The fabric ranks of a group, ascending."""
        if not self.places:
            return tuple(ranks)
        if max(ranks) >= len(self.places):
            raise self._too_short(f"the traces have a rank {max(ranks)}")
        return tuple(sorted(self.places[rank] for rank in ranks))

    def _too_short(self, job: str) -> ColltoolError:
        return ColltoolError(
            f"lists {counted(len(self.places), 'rank')}, and {job}",
            argument="placed",
            fix=_LINE_EACH,
        )


def _cyclic(fabric: Fabric, world: int | None) -> tuple[int, ...]:
    inside = _ranks_a_host(fabric)
    file = either(shell="a file", python="a file or a list")
    fix = f"give {file} of ranks or hosts, one for each rank of the job"
    if not world:
        what = "the traces do not say how many ranks the job has"
        raise ColltoolError(what, argument="placed", fix=fix)
    if world > fabric.ranks:
        what = f"the job has {world} ranks, and {fabric.name} has {fabric.ranks}"
        raise ColltoolError(what, argument="fabric", fix=_larger(fabric))
    if world > inside and world % inside:
        what = (
            f"{world} ranks do not fill hosts of {inside} ranks: how many are on each is not known"
        )
        raise ColltoolError(what, argument="placed", fix=fix)
    hosts = max(1, world // inside)
    return tuple(rank % hosts * inside + rank // hosts for rank in range(world))


class _MapEntry(NamedTuple):
    """A line: a fabric rank, or a host and a slot on it (-1: the next)."""

    line: int
    rank: int | None
    number: int | None
    host: str
    slot: int


def load_map(placed: AnyMap | None, fabric: Fabric) -> RankMap:
    """A map by word, file or list; None for the fabric's order."""
    check_even(fabric)  # a group of ranks lies by strides, and so by domains of one size
    if placed is None:
        return RankMap()
    if placed in (BLOCK, CYCLIC):
        return RankMap(str(placed))
    if not isinstance(placed, str | os.PathLike):
        entries = [_MapEntry(rank, None, number, "", -1) for rank, number in enumerate(placed)]
        return RankMap("a list", _placed(entries, fabric, ""))
    name = os.fspath(placed)
    text = _map_text(name)
    # a layout file is YAML, and none of its keys is a host
    if _LAYOUT.search(text):
        from colltool.congestion.layout import read_map

        return RankMap(name, read_map(text, name, fabric))
    entries = list(_entries(text, name))
    return RankMap(name, _placed(_in_order(entries, name), fabric, name))


def _map_text(name: str) -> str:
    try:
        return read_text(name, "definition")
    except ColltoolError as error:
        if exists(name):
            raise
        file = either(shell="a file", python="a file or a list")
        raise ColltoolError(
            f"{quote(name)} is neither a rank map nor a file",
            argument="placed",
            fix=f"{BLOCK}, {CYCLIC}, or {file} of ranks or hosts",
        ) from error


def _entries(text: str, name: str) -> Iterator[_MapEntry]:
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.partition("#")[0].strip()
        if not bare:
            continue
        match = _LINE.fullmatch(bare)
        if match is None or (match["slot"] and match["host"].isdigit()):
            raise _refused(name, number, f"{quote(bare)} is neither a rank nor a host", _WRITE)
        slot = -1 if match["slot"] is None else int(match["slot"])
        # a number alone is a rank of the fabric, a word a host
        yield _MapEntry(
            number, _int(match["rank"]), _int(match["number"]), match["host"] or "", slot
        )


def _int(text: str | None) -> int | None:
    return int(text) if text else None


def _in_order(entries: list[_MapEntry], name: str) -> list[_MapEntry]:
    """The lines of a file by rank, refused unless they are all of one kind."""
    if not entries:
        raise ColltoolError("is empty", where=printable(name), fix=_WRITE)
    first = entries[0]
    for entry in entries:
        if (entry.rank is None) != (first.rank is None):
            what = "some lines begin with a rank and some do not"
            raise _refused(name, entry.line, what, "begin all of them with one, or none")
    for entry in entries:
        if (entry.number is None) != (first.number is None):
            what = "some lines are ranks of the fabric and some are hosts"
            raise _refused(name, entry.line, what, "write either")
    if first.rank is None:
        return entries
    by_rank = sorted(entries, key=lambda entry: entry.rank or 0)
    for rank, entry in enumerate(by_rank):
        if entry.rank != rank:
            before = f"those before it are not 0 to {(entry.rank or 0) - 1}, once each"
            what = f"a line for rank {entry.rank}, and {before}"
            raise _refused(name, entry.line, what, "give one line for each rank of the job")
    return by_rank


def _placed(entries: Sequence[_MapEntry], fabric: Fabric, name: str) -> tuple[int, ...]:
    """The fabric rank of each entry, refused unless the fabric has it and no other entry does."""
    found: dict[int, _MapEntry] = {}
    for entry, place in zip(entries, _on_hosts(entries, fabric, name), strict=True):
        if type(place) is not int or not 0 <= place < fabric.ranks:
            ranks = f"{fabric.name}, which has 0 to {fabric.ranks - 1}"
            what = f"{quote(place)} is not a rank of {ranks}"
            raise _refused(name, entry.line, what, "a larger fabric, or other ranks")
        if place in found:
            slot = (
                f"{entry.host}:{entry.slot}" if entry.slot >= 0 else f"rank {place} of the fabric"
            )
            what = f"{slot} is also that of {'line' if name else 'rank'} {found[place].line}"
            raise _refused(name, entry.line, what, "one for each rank of the job")
        found[place] = entry
    return tuple(found)


def _on_hosts(entries: Sequence[_MapEntry], fabric: Fabric, name: str) -> Iterator[int]:
    """Fabric ranks: hosts are domains in order of first mention, slots are dealt out in order."""
    inner = fabric.tiers[0]
    inside = inner.endpoints
    hosts: dict[str, int] = {}
    taken: Counter[str] = Counter()
    for entry in entries:
        if entry.number is not None:
            yield entry.number
            continue
        _ranks_a_host(fabric)
        slot = entry.slot if entry.slot >= 0 else taken[entry.host]
        taken[entry.host] += 1
        if slot >= inside:
            joins = f"{inner.name} of {fabric.name} joins {inside}"
            what = f"{entry.host} has one rank too many: {joins}"
            fix = f"at most {inside} ranks on a host, in slots 0 to {inside - 1}"
            raise _refused(name, entry.line, what, fix)
        yield hosts.setdefault(entry.host, len(hosts)) * inside + slot


def _larger(fabric: Fabric) -> str:
    return (
        f"a larger fabric, or {argument_text('overrides', [f'{fabric.tiers[-1].name}.size=...'])}"
    )


def _ranks_a_host(fabric: Fabric) -> int:
    """Ranks of the innermost domains; refused where these are larger than a host."""
    inner = fabric.tiers[0]
    if inner.endpoints > MOST_IN_A_HOST:
        joins = f"{inner.name} of {fabric.name} joins {inner.endpoints} ranks"
        raise ColltoolError(
            f"{joins}, more than a host has",
            argument="placed",
            fix="give a file with a rank of the fabric in each line",
        )
    return inner.endpoints


def _refused(name: str, line: int, what: str, fix: str) -> ColltoolError:
    if name:
        return ColltoolError(what, where=f"{printable(name)}:{line}", fix=fix)
    return ColltoolError(f"rank {line}: {what}", argument="placed", fix=fix)


class ExpectedTime(NamedTuple):
    """What a call should take; ``places`` are the group's fabric ranks, ascending, ``axes`` how
    they lie; ``reason`` says why there is no price."""

    places: tuple[int, ...] = ()
    axes: Axes = ()
    seconds: float | None = None
    latency_s: float | None = None
    algorithm: str = ""
    tiers: tuple[str, ...] = ()
    reason: Statement = NOTHING


def axes_of(ranks: Sequence[int]) -> Axes:
    """Ascending ranks as (size, stride) per axis, innermost first; empty if not evenly spaced."""
    axes: list[tuple[int, int]] = []
    left = list(ranks)
    while len(left) > 1:
        stride = left[1] - left[0]
        size = 2
        while size < len(left) and left[size] - left[size - 1] == stride:
            size += 1
        if len(left) % size:
            return ()
        axes.append((size, stride))
        left = left[::size]
    group = RankGroup(tuple(axes))
    return group.axes if [ranks[0] + member for member in group.members] == list(ranks) else ()


class CallPrices:
    """Prices of calls on one fabric, cached for groups that lie alike."""

    def __init__(self, fabric: Fabric, readings: ModelOptions, rank_map: RankMap) -> None:
        self._fabric = fabric
        self._costs = CollectiveCostCache(fabric, readings)
        self._map = rank_map
        self._placed = lru_cache(maxsize=None)(self._place)

    def of(self, call: CallMetadata) -> ExpectedTime:
        """The price of a call, or why it has none."""
        if not call.ranks:
            return ExpectedTime(
                reason=statement("no-ends" if call.primitive is P2P else "no-ranks")
            )
        placed = self._placed(call.ranks)
        if placed.reason:
            return placed
        try:
            cost = self._costs.of(call.primitive, RankGroup(placed.axes), float(call.bytes))
        except ColltoolError as error:
            return placed._replace(reason=statement("refused", error=localize(error.what)))
        return placed._replace(
            seconds=cost.each_s,
            latency_s=cost.latency_s,
            algorithm=cost.algorithm,
            tiers=cost.tiers,
        )

    def seconds(self, call: CallMetadata) -> tuple[float | None, Statement]:
        """The time of a call, or None and why there is none."""
        expected = self.of(call)
        return expected.seconds, expected.reason

    def _place(self, ranks: tuple[int, ...]) -> ExpectedTime:
        """Where a group lies, without a price."""
        fabric = self._fabric
        places = self._map.place(ranks)
        if places[-1] >= fabric.ranks:
            has = f"{fabric.name} has ranks 0 to {fabric.ranks - 1}"
            raise ColltoolError(
                f"the traces have a rank {ranks[-1]}, and {has}",
                argument="fabric",
                fix=_larger(fabric),
            )
        axes = axes_of(places)
        if not axes:
            return ExpectedTime(places, reason=statement("unevenly-spaced"))
        # prices are of groups that begin at rank 0
        if _shares(fabric, places) != _shares(fabric, RankGroup(axes).members):
            return ExpectedTime(places, axes, reason=statement("off-domain"))
        return ExpectedTime(places, axes)


def _shares(fabric: Fabric, ranks: Sequence[int]) -> list[Counter[int]]:
    """How many domains of each kind, from the inside out, hold how many of the ranks."""
    inside = 1
    found = []
    for tier in fabric.tiers:
        kind = capabilities_of(tier)
        parts = [level.group for level in kind.levels]
        parts += accumulate(sizes_of(kind.axes), mul)
        for part in (*parts, tier.endpoints):
            domains = Counter(rank // (inside * part) for rank in ranks)
            found.append(Counter(domains.values()))
        inside *= tier.endpoints
    return found
