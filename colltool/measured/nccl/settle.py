"""A test of nccl-tests as rows: its collective, ranks and nodes, found in the log, checked against its numbers and the caller."""

from __future__ import annotations

from colltool.errors import ColltoolError
from colltool.measured.nccl.half import choose
from colltool.measured.nccl.run import Device, Run
from colltool.measured.rank_count import contradicting, evidence, follow, ratio
from colltool.measured.rows import Note, Stated, Timing, agree
from colltool.measured.stated_collective import check_collective
from colltool.primitives import Primitive, parse_primitive


class Rowless(ColltoolError):
    """A test that is no measurement of one of the seven primitives; an error only where the file holds nothing else."""


def settle(test: Run, stated: Stated) -> tuple[list[Timing], list[Note]]:
    """The rows of a test, in SI units, with everything checked that can be checked.

    Raises:
        ColltoolError: no row survives, or the log contradicts itself or the caller.
    """
    name = _name(test)
    primitive = _primitive(name, test, stated)
    chosen, notes = choose(test, stated.in_place)
    ratios = [one for row in chosen if (one := ratio(row.algbw, row.busbw, test.place(row.line)))]
    groups = {device.group for device in test.devices}
    ranks = _listed_ranks(test)
    source, where = ("the Rank lines list", f"{test.file}:{test.devices[0].line}") if ranks else ("--ranks is", test.where)
    nodes = len({device.host for device in test.devices if device.group == test.devices[0].group}) if ranks else None
    agreed = agree(ranks, stated.ranks, "ranks:", "--ranks", where)
    if not name and agreed != 1:
        check_collective(primitive, ratios, agreed)
    proof = evidence(primitive, ratios)
    if agreed is None:
        source, agreed = "the other rows say", follow(proof, test.where)
    garbled = contradicting(proof, agreed, source)
    _check_ranks(test, agreed, where)
    nodes = agree(nodes, stated.nodes, "nodes:", "--nodes", where)
    version = test.library_version or test.tests_version
    rows = []
    for row in chosen:
        line = row.line
        if test.place(line) in garbled:
            notes.append(test.note("busbw and algbw do not fit the rank count: garbled", line))
            continue
        place, seconds = (test.file, line.number, line.item), row.time.value / 1e6
        rows.append(Timing(primitive, agreed, nodes, row.size, seconds, line.dtype, test.library, version, *place))
        if len(groups) > 1:
            what = f"used as measured: {len(groups)} groups ran this at the same time (NCCL_TESTS_SPLIT)"
            notes.append(test.note(what, line, used=True))
    return rows, notes


def _name(test: Run) -> str:
    """The collective as the test announced itself, else as the command lines above it name one program, else empty."""
    return test.started or (next(iter(test.mentions)) if len(test.mentions) == 1 else "")


def _primitive(name: str, test: Run, stated: Stated) -> Primitive:
    """The collective that the log names, else the stated one."""
    if not name and stated.primitive is None:
        what = "the log does not say which collective this table measures"
        raise ColltoolError(what, where=test.where, fix="say it: --collective all_reduce")
    try:
        found = parse_primitive(name.rpartition("/")[2]) if name else None
    except ColltoolError as error:
        what = f"'{name}' is none of the seven primitives that are modelled"
        raise Rowless(what, where=test.where, fix=error.fix) from error
    agreed = agree(found, stated.primitive, "the collective is", "--collective", test.where)
    assert agreed is not None
    return agreed


def _listed_ranks(test: Run) -> int | None:
    """Ranks of a communicator as the Rank lines list them; None where they are missing or incomplete.

    Raises:
        ColltoolError: one rank twice, or groups of different sizes.
    """
    owners: dict[int, Device] = {}
    for device in test.devices:
        first = owners.setdefault(device.rank, device)
        if (first.pid, first.host) != (device.pid, device.host):
            what = f"Rank {device.rank} is listed twice, by process {first.pid} and {device.pid}"
            fix = "either logs ran together: split them; or nccl-tests was built without MPI=1 and measured no communication"
            raise ColltoolError(what, where=f"{test.file}:{device.line}", fix=fix)
    if not owners or test.devices_cut or set(owners) != set(range(len(owners))) or len(owners) % (test.per_process or 1):
        return None
    sizes = {group: sum(one.group == group for one in owners.values()) for group in {one.group for one in owners.values()}}
    if len(set(sizes.values())) > 1:
        what = f"groups of different sizes ran at once: {', '.join(f'{size}' for size in sorted(sizes.values()))} ranks"
        where = f"{test.file}:{test.devices[0].line}"
        raise ColltoolError(what, where=where, fix="the table does not say whose times it prints; measure equal groups")
    return sizes[test.devices[0].group]


def _check_ranks(test: Run, ranks: int, where: str) -> None:
    if ranks < 2:
        what = f"{ranks} rank: nothing was communicated"
        fix = "run nccl-tests on two ranks or more, built with MPI=1 across processes"
        raise ColltoolError(what, where=where, fix=fix)
    if len({device.rank for device in test.devices}) > ranks and len({device.group for device in test.devices}) == 1:
        what = f"the log lists {len(test.devices)} ranks, --ranks says {ranks}"
        raise ColltoolError(what, where=f"{test.file}:{test.devices[0].line}", fix="leave --ranks out, or correct it")
