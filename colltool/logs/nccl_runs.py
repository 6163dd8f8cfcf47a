"""Records of one run of nccl-tests, checked against its own numbers and the caller's.

Readers of text and JSON fill a :class:`~colltool.logs.nccl_rows.TestRun`; :func:`records_of` makes
records of it: it finds the program and the collective, takes the half of each row that is used
(:mod:`colltool.logs.nccl_rows`), and checks rank count and times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import Primitive, parse_primitive
from colltool.logs.busbw_ratio import busbw_over_algbw, ranks_of
from colltool.logs.nccl_rows import Device, TestRun, printed_cell, used_rows
from colltool.logs.nccl_table import IN, Half
from colltool.logs.printed_numbers import (
    rounding_interval,
)
from colltool.logs.records import (
    Note,
    Record,
    UserHints,
    agreed_nodes,
    agreed_primitive,
    agreed_ranks,
)
from colltool.logs.sentences import statement
from colltool.logs.which_collective import TellingRow, collective_of


class NotModelled(ColltoolError):
    """A run of something other than the seven primitives; an error only if the file holds nothing
    else."""


def records_of(run: TestRun, hints: UserHints) -> tuple[list[Record], list[Note]]:
    """The usable rows of a run, with everything checked that can be, and notes on the others.

    Raises:
        NotModelled: it is of a collective that has no price.
        ColltoolError: no row can be used, or the log contradicts itself or the caller, or neither
            says the collective or the ranks.
    """
    name = _program(run, hints)
    primitive = _primitive(name, run, hints)
    rows, notes = used_rows(run, hints.in_place)
    ratios = [row.ratio for row in rows if row.ratio]
    listed = _listed_ranks(run)
    nodes = None
    # who says the rank count, and where, for errors: the caller, unless the log lists ranks
    source = f"{argument_text('ranks')} is"
    where = run.where
    if listed:
        source = "the Rank lines list"
        where = run.where_devices
        group = run.devices[0].group
        nodes = len({device.host for device in run.devices if device.group == group})
    ranks, garbled_places = ranks_of(
        primitive, ratios, agreed_ranks(listed, hints, where), source, run.where, named=bool(name)
    )
    _check_ranks(run, ranks, where)
    nodes = agreed_nodes(nodes, hints, where)
    groups = len(run.groups)
    records = []
    for used in rows:
        row = used.row
        if garbled_places and run.place(row) in garbled_places:
            notes.append(run.note(statement("garbled-busbw"), row))
            continue
        records.append(
            Record(
                primitive,
                ranks,
                nodes,
                used.size,
                used.seconds,
                used.dtype,
                library=run.library,
                version=run.library_version or run.tests_version,
                file=run.file,
                line=row.number,
                item=row.item,
            )
        )
        if groups > 1:
            notes.append(run.note(statement("groups-at-once", groups=groups), row, used=True))
    return records, notes


def _program(run: TestRun, hints: UserHints) -> str:
    """The collective's name as the program announced itself, else as the only command line above
    names it, else by the columns. Empty where nothing says it or the caller does."""
    if run.started:
        return run.started
    if len(run.mentions) == 1:
        (mentioned,) = run.mentions
        return mentioned
    if hints.primitive is not None:
        return ""
    return str(collective_of(_telling_rows(run)) or "")


def _telling_rows(run: TestRun) -> Iterator[TellingRow]:
    """The columns of each row that tell which collective ran."""
    for row in run.rows:
        cells = row.cells()
        before = cells.before
        half: Half = next(iter(cells.halves.values()), {})
        algbw = printed_cell(half, "algbw")
        ratio = busbw_over_algbw(algbw, printed_cell(half, "busbw"), run.place(row))
        size = rounding_interval(cells.size)
        count = printed_cell(before, "count")
        yield TellingRow(
            size=size.value if size else 0.0,
            elements=count.value if count else 0.0,
            dtype=cells.dtype,
            redop=before.get("redop", ""),
            root=before.get("root", ""),
            ratio=(ratio.low + ratio.high) / 2 if ratio else None,
            in_place_wrong=cells.halves.get(IN, {}).get("wrong", ""),
        )


def _primitive(name: str, run: TestRun, hints: UserHints) -> Primitive:
    """The collective of a run by its program's name or the caller; ColltoolError without either."""
    by_name = None
    if name:
        try:
            by_name = parse_primitive(name.rpartition("/")[2])
        except ColltoolError as error:
            raise NotModelled(
                f"'{name}' is not one of the seven modelled primitives",
                where=run.where,
                fix=error.fix,
            ) from error
    agreed = agreed_primitive(by_name, hints, run.where)
    if agreed is None:
        raise ColltoolError(
            "the log does not say which collective this table measures",
            where=run.where,
            fix=f"say it: {argument_text('primitive', 'all_reduce')}",
        )
    return agreed


def _listed_ranks(run: TestRun) -> int | None:
    """How many ranks the first group has by the Rank lines; None where they are not all there.

    Raises:
        ColltoolError: a rank is listed twice, or groups of different sizes ran at once.
    """
    owners: dict[int, Device] = {}  # by rank
    for device in run.devices:
        first = owners.setdefault(device.rank, device)
        if (first.pid, first.host) != (device.pid, device.host):
            raise ColltoolError(
                f"Rank {device.rank} is listed twice, by process {first.pid} and {device.pid}",
                where=f"{run.file}:{device.line}",
                fix=(
                    "either logs ran together: split them; or nccl-tests was built without MPI=1"
                    " and measured no communication"
                ),
            )
    # all of them are those from 0 on without a gap
    if not owners or run.devices_cut or max(owners) != len(owners) - 1:
        return None
    # a process drives as many as any other (0: unknown)
    if run.per_process and len(owners) % run.per_process:
        return None
    sizes = Counter(device.group for device in owners.values())
    if len(set(sizes.values())) > 1:
        listed = ", ".join(map(str, sorted(sizes.values())))
        raise ColltoolError(
            f"groups of different sizes ran at once: {listed} ranks",
            where=run.where_devices,
            fix="the table does not say whose times it prints; measure equal groups",
        )
    return sizes[run.devices[0].group]


def _check_ranks(run: TestRun, ranks: int, where: str) -> None:
    """Refuse runs on one rank, and rank counts that contradict the Rank lines."""
    if ranks < 2:
        raise ColltoolError(
            f"{ranks} rank: nothing was communicated",
            where=where,
            fix="run nccl-tests on two ranks or more, built with MPI=1 across processes",
        )
    listed = {device.rank for device in run.devices}
    if len(listed) > ranks and len(run.groups) == 1:
        raise ColltoolError(
            f"the log lists {len(run.devices)} ranks, {argument_text('ranks')} says {ranks}",
            where=run.where_devices,
            fix=f"leave {argument_text('ranks')} out, or correct it",
        )
