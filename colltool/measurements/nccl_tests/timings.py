"""A run of nccl-tests as timings: its collective, ranks and nodes, checked against its own numbers and the caller."""

from __future__ import annotations

from colltool.base.errors import ColltoolError, given
from colltool.base.primitives import Primitive, parse_primitive
from colltool.measurements.nccl_tests.half import Chosen, choose
from colltool.measurements.nccl_tests.run import Device, Run
from colltool.measurements.rank_count import contradicting, evidence, follow
from colltool.measurements.stated_collective import check_collective
from colltool.measurements.timing import Note, Stated, Timing, agree


class NotModelled(ColltoolError):
    """A run that is no measurement of one of the seven primitives; an error only where the file holds nothing else."""


def timings_of(run: Run, stated: Stated) -> tuple[list[Timing], list[Note]]:
    """The rows of a run, in SI units, with everything checked that can be checked.

    Raises:
        ColltoolError: no row survives, or the log contradicts itself or the caller.
    """
    name = _name(run)
    primitive = _primitive(name, run, stated)
    chosen, notes = choose(run, stated.in_place)
    ratios = [half.ratio for half in chosen if half.ratio]
    ranks = _listed_ranks(run)
    source, where = ("the Rank lines list", f"{run.file}:{run.devices[0].line}") if ranks else (f"{given('ranks')} is", run.where)
    nodes = len({device.host for device in run.devices if device.group == run.devices[0].group}) if ranks else None
    agreed = agree(ranks, stated.ranks, "ranks:", "ranks", where)
    if not name and agreed != 1:
        check_collective(primitive, ratios, agreed)
    proof = evidence(primitive, ratios)
    if agreed is None:
        source, agreed = "the other rows say", follow(proof, run.where)
    garbled = contradicting(proof, agreed, source)
    _check_ranks(run, agreed, where)
    nodes = agree(nodes, stated.nodes, "nodes:", "nodes", where)
    groups = len({device.group for device in run.devices})
    timings = []
    for half in chosen:
        if garbled and run.place(half.row) in garbled:
            notes.append(run.note("busbw and algbw do not fit the rank count: garbled", half.row))
            continue
        timings.append(_timing(run, half, primitive, agreed, nodes))
        if groups > 1:
            what = f"used as measured: {groups} groups ran this at the same time (NCCL_TESTS_SPLIT)"
            notes.append(run.note(what, half.row, used=True))
    return timings, notes


def _timing(run: Run, half: Chosen, primitive: Primitive, ranks: int, nodes: int | None) -> Timing:
    return Timing(
        primitive=primitive,
        ranks=ranks,
        nodes=nodes,
        bytes=half.size,
        seconds=half.seconds,
        dtype=half.dtype,
        library=run.library,
        version=run.library_version or run.tests_version,
        file=run.file,
        line=half.row.number,
        item=half.row.item,
    )


def _name(run: Run) -> str:
    """The collective as the program announced itself, else as the command lines above it name one program, else empty."""
    return run.started or (next(iter(run.mentions)) if len(run.mentions) == 1 else "")


def _primitive(name: str, run: Run, stated: Stated) -> Primitive:
    """The collective that the log names, else the stated one."""
    if not name and stated.primitive is None:
        what = "the log does not say which collective this table measures"
        raise ColltoolError(what, where=run.where, fix=f"say it: {given('primitive', 'all_reduce')}")
    try:
        found = parse_primitive(name.rpartition("/")[2]) if name else None
    except ColltoolError as error:
        what = f"'{name}' is none of the seven primitives that are modelled"
        raise NotModelled(what, where=run.where, fix=error.fix) from error
    agreed = agree(found, stated.primitive, "the collective is", "primitive", run.where)
    assert agreed is not None
    return agreed


def _listed_ranks(run: Run) -> int | None:
    """Ranks of a communicator as the Rank lines list them; None where they are missing or incomplete.

    Raises:
        ColltoolError: one rank twice, or groups of different sizes.
    """
    owners: dict[int, Device] = {}
    for device in run.devices:
        first = owners.setdefault(device.rank, device)
        if (first.pid, first.host) != (device.pid, device.host):
            what = f"Rank {device.rank} is listed twice, by process {first.pid} and {device.pid}"
            fix = "either logs ran together: split them; or nccl-tests was built without MPI=1 and measured no communication"
            raise ColltoolError(what, where=f"{run.file}:{device.line}", fix=fix)
    if not owners or run.devices_cut or set(owners) != set(range(len(owners))) or len(owners) % (run.per_process or 1):
        return None
    sizes = {group: sum(one.group == group for one in owners.values()) for group in {one.group for one in owners.values()}}
    if len(set(sizes.values())) > 1:
        what = f"groups of different sizes ran at once: {', '.join(f'{size}' for size in sorted(sizes.values()))} ranks"
        where = f"{run.file}:{run.devices[0].line}"
        raise ColltoolError(what, where=where, fix="the table does not say whose times it prints; measure equal groups")
    return sizes[run.devices[0].group]


def _check_ranks(run: Run, ranks: int, where: str) -> None:
    if ranks < 2:
        what = f"{ranks} rank: nothing was communicated"
        fix = "run nccl-tests on two ranks or more, built with MPI=1 across processes"
        raise ColltoolError(what, where=where, fix=fix)
    if len({device.rank for device in run.devices}) > ranks and len({device.group for device in run.devices}) == 1:
        what = f"the log lists {len(run.devices)} ranks, {given('ranks')} says {ranks}"
        fix = f"leave {given('ranks')} out, or correct it"
        raise ColltoolError(what, where=f"{run.file}:{run.devices[0].line}", fix=fix)
