"""Which fabric rank each rank of the job is, where a scheduler placed them in another order, and
what a call takes there.

``block`` fills host after host and ``cyclic`` deals ranks out host by host, as Slurm's
``--distribution``. A file has a line per
rank: a fabric rank, or a host as ``srun -l hostname`` prints it. A layout file
    (``colltool.layout/1``) gives its ``map``.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from colltool.base.errors import ColltoolError, either, given, printable, said, shown
from colltool.base.files import read_text
from colltool.base.formatting import counted
from colltool.base.primitives import P2P
from colltool.calibration.series_prices import MOST_IN_A_HOST
from colltool.estimate.assumptions import Readings
from colltool.fabric.load import exists
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import check_even
from colltool.logs.call_metadata import CallMetadata
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


class RankMap(NamedTuple):
    """Where a job's ranks sit. ``given``: a word, a file name, ``a list``, or empty for the
    fabric's order. ``places``: the fabric rank of each; empty where they are the same, or the job's
    size is not known yet."""

    given: str = ""
    places: tuple[int, ...] = ()

    def of(self, fabric: Fabric, world: int | None) -> RankMap:
        if self.given == CYCLIC:
            inside = _hosts(fabric)
            fix = (
                f"give {either(shell='a file', python='a file or a list')} of ranks or hosts, one"
                " for each rank of the job"
            )
            if not world:
                raise ColltoolError(
                    "the traces do not say how many ranks the job has", argument="placed", fix=fix
                )
            if world > fabric.ranks:
                what = f"the job has {world} ranks, and {fabric.name} has {fabric.ranks}"
                raise ColltoolError(what, argument="fabric", fix=_larger(fabric))
            if world > inside and world % inside:
                what = (
                    f"{world} ranks do not fill hosts of {inside} ranks: how many are on each is"
                    " not known"
                )
                raise ColltoolError(what, argument="placed", fix=fix)
            hosts = max(1, world // inside)
            return RankMap(
                CYCLIC, tuple(rank % hosts * inside + rank // hosts for rank in range(world))
            )
        if self.places and world and len(self.places) not in (world, fabric.ranks):
            what = f"lists {counted(len(self.places), 'rank')}, and the job has {world}"
            raise ColltoolError(what, argument="placed", fix="give a line for each rank of the job")
        return self

    def place(self, ranks: Sequence[int]) -> tuple[int, ...]:
        if not self.places:
            return tuple(ranks)
        if max(ranks) >= len(self.places):
            what = (
                f"lists {counted(len(self.places), 'rank')}, and the traces have a rank"
                f" {max(ranks)}"
            )
            raise ColltoolError(what, argument="placed", fix="give a line for each rank of the job")
        return tuple(sorted(self.places[rank] for rank in ranks))


class _MapEntry(NamedTuple):
    """A line: a fabric rank, or a host and a slot on it (-1: the next)."""

    line: int
    rank: int | None
    number: int | None
    host: str
    slot: int


def load_map(placed: AnyMap | None, fabric: Fabric) -> RankMap:
    check_even(fabric)  # a group of ranks lies by strides, and so by domains of one size
    if placed is None or placed == BLOCK:
        return RankMap("" if placed is None else BLOCK)
    if placed == CYCLIC:
        return RankMap(CYCLIC)
    if not isinstance(placed, str | os.PathLike):
        entries = [_MapEntry(rank, None, number, "", -1) for rank, number in enumerate(placed)]
        return RankMap("a list", _placed(entries, fabric, ""))
    name = os.fspath(placed)
    try:
        text = read_text(placed, "definition")
    except ColltoolError as error:
        if exists(name):
            raise
        fix = (
            f"{BLOCK}, {CYCLIC}, or {either(shell='a file', python='a file or a list')} of ranks or"
            " hosts"
        )
        raise ColltoolError(
            f"{shown(name)} is neither a rank map nor a file", argument="placed", fix=fix
        ) from error
    if _LAYOUT.search(text):
        from colltool.congestion.layout import read_map

        return RankMap(name, read_map(text, name, fabric))
    return RankMap(name, _placed(_in_order(list(_entries(text, name)), name), fabric, name))


def _entries(text: str, name: str) -> Iterator[_MapEntry]:
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.partition("#")[0].strip()
        if not bare:
            continue
        match = _LINE.fullmatch(bare)
        if match is None or (match["slot"] and match["host"].isdigit()):
            raise _refused(name, number, f"{shown(bare)} is neither a rank nor a host", _WRITE)
        rank, place, slot = (
            int(match[key]) if match[key] else None for key in ("rank", "number", "slot")
        )
        yield _MapEntry(number, rank, place, match["host"] or "", -1 if slot is None else slot)


def _in_order(entries: list[_MapEntry], name: str) -> list[_MapEntry]:
    if not entries:
        raise ColltoolError("is empty", where=printable(name), fix=_WRITE)
    odd = next((one for one in entries if (one.rank is None) != (entries[0].rank is None)), None)
    if odd is not None:
        raise _refused(
            name,
            odd.line,
            "some lines begin with a rank and some do not",
            "begin all of them with one, or none",
        )
    odd = next(
        (one for one in entries if (one.number is None) != (entries[0].number is None)), None
    )
    if odd is not None:
        raise _refused(
            name, odd.line, "some lines are ranks of the fabric and some are hosts", "write either"
        )
    if entries[0].rank is None:
        return entries
    by_rank = sorted(entries, key=lambda one: one.rank or 0)
    odd = next((one for rank, one in enumerate(by_rank) if one.rank != rank), None)
    if odd is not None:
        what = (
            f"a line for rank {odd.rank}, and those before it are not 0 to {(odd.rank or 0) - 1},"
            " once each"
        )
        raise _refused(name, odd.line, what, "give one line for each rank of the job")
    return by_rank


def _placed(entries: Sequence[_MapEntry], fabric: Fabric, name: str) -> tuple[int, ...]:
    found: dict[int, _MapEntry] = {}
    for one, place in zip(entries, _on_hosts(entries, fabric, name), strict=True):
        if type(place) is not int or not 0 <= place < fabric.ranks:
            what = (
                f"{shown(place)} is not a rank of {fabric.name}, which has 0 to {fabric.ranks - 1}"
            )
            raise _refused(name, one.line, what, "a larger fabric, or other ranks")
        if place in found:
            first = f"line {found[place].line}" if name else f"rank {found[place].line}"
            what = (
                f"{f'{one.host}:{one.slot}' if one.slot >= 0 else f'rank {place} of the fabric'} is"
                f" also that of {first}"
            )
            raise _refused(name, one.line, what, "one for each rank of the job")
        found[place] = one
    return tuple(found)


def _on_hosts(entries: Sequence[_MapEntry], fabric: Fabric, name: str) -> Iterator[int]:
    """Fabric ranks: hosts are the innermost domains in order of first mention, slots are dealt out
    in order."""
    inside = fabric.tiers[0].endpoints
    seen: dict[str, int] = {}
    taken: dict[str, int] = defaultdict(int)
    for one in entries:
        if one.number is not None:
            yield one.number
            continue
        _hosts(fabric)
        slot = one.slot if one.slot >= 0 else taken[one.host]
        taken[one.host] += 1
        if slot >= inside:
            what = (
                f"{one.host} has one rank too many: {fabric.tiers[0].name} of {fabric.name} joins"
                f" {inside}"
            )
            raise _refused(
                name,
                one.line,
                what,
                f"at most {inside} ranks on a host, in slots 0 to {inside - 1}",
            )
        yield seen.setdefault(one.host, len(seen)) * inside + slot


def _larger(fabric: Fabric) -> str:
    return f"a larger fabric, or {given('overrides', [f'{fabric.tiers[-1].name}.size=...'])}"


def _hosts(fabric: Fabric) -> int:
    inside = fabric.tiers[0].endpoints
    if inside > MOST_IN_A_HOST:
        what = f"{fabric.tiers[0].name} of {fabric.name} joins {inside} ranks, more than a host has"
        raise ColltoolError(
            what, argument="placed", fix="give a file with a rank of the fabric in each line"
        )
    return inside


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
    reason: str = ""


def axes_of(ranks: Sequence[int]) -> Axes:
    """Ascending ranks as (size, stride) per axis, innermost first; empty if not evenly spaced."""
    axes: list[tuple[int, int]] = []
    left = list(ranks)
    while len(left) > 1:
        stride, size = left[1] - left[0], 2
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

    def __init__(self, fabric: Fabric, readings: Readings, where: RankMap) -> None:
        self._fabric, self._fares, self._map = fabric, CollectiveCostCache(fabric, readings), where
        self._where = lru_cache(maxsize=None)(self._placed)

    def of(self, call: CallMetadata) -> ExpectedTime:
        if not call.ranks:
            message = call.primitive is P2P
            return ExpectedTime(
                reason=(
                    "the trace does not"
                    f" {'name both ends' if message else 'list the ranks of the group'}"
                )
            )
        where = self._where(call.ranks)
        if where.reason:
            return where
        try:
            fare = self._fares.of(call.primitive, RankGroup(where.axes), float(call.bytes))
        except ColltoolError as error:
            return where._replace(reason=said(error.what))
        return ExpectedTime(
            where.places, where.axes, fare.each_s, fare.latency_s, fare.algorithm, fare.tiers
        )

    def seconds(self, call: CallMetadata) -> tuple[float | None, str]:
        """The time of a call, or None and why there is none."""
        expected = self.of(call)
        return expected.seconds, expected.reason

    def _placed(self, ranks: tuple[int, ...]) -> ExpectedTime:
        places = self._map.place(ranks)
        if places[-1] >= self._fabric.ranks:
            what = (
                f"the traces have a rank {ranks[-1]}, and {self._fabric.name} has ranks 0 to"
                f" {self._fabric.ranks - 1}"
            )
            raise ColltoolError(what, argument="fabric", fix=_larger(self._fabric))
        axes = axes_of(places)
        if not axes:
            return ExpectedTime(places, reason="the ranks of the group are not evenly spaced")
        if _lie(self._fabric, places) != _lie(self._fabric, RankGroup(axes).members):
            return ExpectedTime(
                places, axes, reason="the group does not begin where domains of the fabric do"
            )
        return ExpectedTime(places, axes)


def _lie(fabric: Fabric, ranks: Sequence[int]) -> list[Counter[int]]:
    inside, found = 1, []
    for tier in fabric.tiers:
        kind = capabilities_of(tier)
        parts, line = [one.group for one in kind.levels], 1
        for axis in kind.axes:
            line *= axis.size
            parts.append(line)
        for part in (*parts, tier.endpoints):
            found.append(Counter(Counter(rank // (inside * part) for rank in ranks).values()))
        inside *= tier.endpoints
    return found
