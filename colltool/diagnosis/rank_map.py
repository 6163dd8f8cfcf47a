"""Which fabric rank each rank of the job is, where a scheduler placed them in another order.

``block`` fills host after host and ``cyclic`` deals ranks out host by host, as Slurm's
``--distribution``. A file has a line per rank: a fabric rank, or a host as ``srun -l hostname``
prints it. A layout file (``colltool.layout/1``) gives its ``map``.

:func:`load_map` reads what the user gave; :meth:`RankMap.of` fits it to the size of the job.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from colltool.base.errors import ColltoolError, argument_text, either, printable, quote
from colltool.base.files import read_text
from colltool.base.formatting import counted
from colltool.calibration.log_fits import MOST_IN_A_HOST
from colltool.fabric.load import exists
from colltool.fabric.model import Fabric
from colltool.fabric.uneven import check_even

BLOCK, CYCLIC = "block", "cyclic"
AnyMap = str | os.PathLike[str] | Sequence[int]
"""A word, a file, or the fabric rank of each rank of the job."""
# the keys of a layout file: "schema: colltool.layout/1"
_LAYOUT = re.compile(r"^(?:schema|map|groups|pattern)\s*:(?:\s|$)", re.MULTILINE)
# "17", "0: node01", "node01:3", "12: node02:0"
_LINE = re.compile(
    r"(?:(?P<rank>[0-9]{1,9}):\s+)?"
    r"(?:(?P<number>[0-9]{1,9})|(?P<host>[A-Za-z0-9][A-Za-z0-9._-]*)(?::(?P<slot>[0-9]{1,9}))?)"
)
_WRITE = (
    "write a rank of the fabric, a host or host:slot in each line, as srun -l hostname prints them"
)
_LINE_EACH = "give a line for each rank of the job"


class RankMap(NamedTuple):
    """Which fabric rank each rank of a job is."""

    given: str = ""  # a word, a file name, ``a list``, or empty for the fabric's order
    # the fabric rank of each; empty where they are the same, or the job's size is not known yet
    places: tuple[int, ...] = ()

    def of(self, fabric: Fabric, world: int | None) -> RankMap:
        """The map for a job of ``world`` ranks, None if that is unknown; ColltoolError for a map of
        another size."""
        if self.given == CYCLIC:
            return RankMap(CYCLIC, _cyclic(fabric, world))
        if self.places and world and len(self.places) not in (world, fabric.ranks):
            raise self._other_size(f"the job has {world}")
        return self

    def place(self, ranks: Sequence[int]) -> tuple[int, ...]:
        """The fabric ranks of a group, ascending; ColltoolError for a rank that the map lacks."""
        if not self.places:
            return tuple(ranks)
        if max(ranks) >= len(self.places):
            raise self._other_size(f"the traces have a rank {max(ranks)}")
        return tuple(sorted(self.places[rank] for rank in ranks))

    def _other_size(self, job: str) -> ColltoolError:
        """The error for a map of fewer ranks, or others, than a job has, which ``job`` says."""
        return ColltoolError(
            f"lists {counted(len(self.places), 'rank')}, and {job}",
            argument="placed",
            fix=_LINE_EACH,
        )


def _cyclic(fabric: Fabric, world: int | None) -> tuple[int, ...]:
    """The fabric rank of each rank, dealt out host by host; ColltoolError if the number of ranks is
    not known, more than the fabric has, or does not fill hosts."""
    inside = _ranks_a_host(fabric)
    file = either(shell="a file", python="a file or a list")
    fix = f"give {file} of ranks or hosts, one for each rank of the job"
    if not world:
        raise ColltoolError(
            "the traces do not say how many ranks the job has", argument="placed", fix=fix
        )
    if world > fabric.ranks:
        raise ColltoolError(
            f"the job has {world} ranks, and {fabric.name} has {fabric.ranks}",
            argument="fabric",
            fix=larger_fabric(fabric),
        )
    if world > inside and world % inside:
        raise ColltoolError(
            f"{world} ranks do not fill hosts of {inside} ranks: how many are on each is not known",
            argument="placed",
            fix=fix,
        )
    hosts = max(1, world // inside)
    # rank 0 on the first host, rank 1 on the second
    return tuple(rank % hosts * inside + rank // hosts for rank in range(world))


class _MapEntry(NamedTuple):
    """A line of a map or an entry of a list: a fabric rank, or a host and a slot."""

    line: int  # from 1, or the index in a list, from 0
    rank: int | None  # of the job, where the line names it
    number: int | None  # the fabric rank; None where it names a host
    host: str
    slot: int  # on the host; -1 for the next


def load_map(placed: AnyMap | None, fabric: Fabric) -> RankMap:
    """A map by word, file or list; None for the fabric's order.

    Raises:
        ColltoolError: a map that cannot be read, that names ranks twice or such as the fabric does
            not have; a fabric of uneven domains.
    """
    check_even(fabric)  # a group of ranks lies by strides, and so by domains of one size
    if placed is None:
        return RankMap()
    if placed in (BLOCK, CYCLIC):
        return RankMap(str(placed))
    if not isinstance(placed, str | os.PathLike):
        entries = [
            _MapEntry(rank, rank=None, number=number, host="", slot=-1)
            for rank, number in enumerate(placed)
        ]
        return RankMap("a list", _fabric_ranks(entries, fabric, ""))
    name = os.fspath(placed)
    text = _map_text(name)
    # a layout file is YAML, and none of its keys is a host
    if _LAYOUT.search(text):
        from colltool.congestion.layout import read_map

        return RankMap(name, read_map(text, name, fabric))
    entries = list(_entries(text, name))
    return RankMap(name, _fabric_ranks(_by_job_rank(entries, name), fabric, name))


def _map_text(name: str) -> str:
    """The text of a file with a map; ColltoolError where the name is neither a file nor a word."""
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
    """The entries of a file, a line each; comments and blank lines are skipped."""
    for number, line in enumerate(text.splitlines(), 1):
        content = line.partition("#")[0].strip()
        if not content:
            continue
        match = _LINE.fullmatch(content)
        # "17:0" is no host of a name
        if match is None or (match["slot"] and match["host"].isdigit()):
            raise _entry_error(
                name, number, f"{quote(content)} is neither a rank nor a host", _WRITE
            )
        slot = -1 if match["slot"] is None else int(match["slot"])
        # a number alone is a rank of the fabric, a word a host
        yield _MapEntry(
            number, _int(match["rank"]), _int(match["number"]), match["host"] or "", slot
        )


def _int(text: str | None) -> int | None:
    """A number, None where there is none."""
    return int(text) if text else None


def _by_job_rank(entries: list[_MapEntry], name: str) -> list[_MapEntry]:
    """The lines of a file by the job's rank that they begin with, or as they stand if none does;
    refused unless they are all of one kind, and a line each for ranks from 0 on."""
    if not entries:
        raise ColltoolError("is empty", where=printable(name), fix=_WRITE)
    first = entries[0]
    for entry in entries:
        if (entry.rank is None) != (first.rank is None):
            raise _entry_error(
                name,
                entry.line,
                "some lines begin with a rank and some do not",
                "begin all of them with one, or none",
            )
    for entry in entries:
        if (entry.number is None) != (first.number is None):
            raise _entry_error(
                name,
                entry.line,
                "some lines are ranks of the fabric and some are hosts",
                "write either",
            )
    if first.rank is None:
        return entries
    by_rank = sorted(entries, key=lambda entry: entry.rank or 0)
    for rank, entry in enumerate(by_rank):
        if entry.rank != rank:
            before = f"those before it are not 0 to {(entry.rank or 0) - 1}, once each"
            raise _entry_error(
                name,
                entry.line,
                f"a line for rank {entry.rank}, and {before}",
                "give one line for each rank of the job",
            )
    return by_rank


def _fabric_ranks(entries: Sequence[_MapEntry], fabric: Fabric, name: str) -> tuple[int, ...]:
    """The fabric rank of each entry, refused unless the fabric has it and no other entry does;
    ``name``: of the file, empty for a list."""
    entry_at: dict[int, _MapEntry] = {}  # by fabric rank
    for entry, place in zip(entries, _places_of(entries, fabric, name), strict=True):
        # a list of the user's may hold anything
        if type(place) is not int or not 0 <= place < fabric.ranks:
            ranks = f"{fabric.name}, which has 0 to {fabric.ranks - 1}"
            raise _entry_error(
                name,
                entry.line,
                f"{quote(place)} is not a rank of {ranks}",
                "a larger fabric, or other ranks",
            )
        if place in entry_at:
            text = f"rank {place} of the fabric"
            if entry.slot >= 0:
                text = f"{entry.host}:{entry.slot}"
            line = "line" if name else "rank"
            raise _entry_error(
                name,
                entry.line,
                f"{text} is also that of {line} {entry_at[place].line}",
                "one for each rank of the job",
            )
        entry_at[place] = entry
    return tuple(entry_at)


def _places_of(entries: Sequence[_MapEntry], fabric: Fabric, name: str) -> Iterator[int]:
    """The fabric rank that each entry says, not checked where it is a number. Hosts are domains in
    order of first mention; slots are dealt out in order."""
    inner = fabric.tiers[0]
    inside = inner.endpoints
    hosts: dict[str, int] = {}  # number of the domain by name
    slots_used: Counter[str] = Counter()
    for entry in entries:
        if entry.number is not None:
            yield entry.number
            continue
        _ranks_a_host(fabric)  # refuses a fabric without hosts
        slot = entry.slot if entry.slot >= 0 else slots_used[entry.host]
        slots_used[entry.host] += 1
        if slot >= inside:
            joins = f"{inner.name} of {fabric.name} joins {inside}"
            raise _entry_error(
                name,
                entry.line,
                f"{entry.host} has one rank too many: {joins}",
                f"at most {inside} ranks on a host, in slots 0 to {inside - 1}",
            )
        yield hosts.setdefault(entry.host, len(hosts)) * inside + slot


def larger_fabric(fabric: Fabric) -> str:
    """How to fix a fabric that has too few ranks, as an error's ``fix``."""
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


def _entry_error(name: str, line: int, what: str, fix: str) -> ColltoolError:
    """The error for an entry of a file, or of a list (no ``name``), by its ``line``."""
    if name:
        return ColltoolError(what, where=f"{printable(name)}:{line}", fix=fix)
    return ColltoolError(f"rank {line}: {what}", argument="placed", fix=fix)
