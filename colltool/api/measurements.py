"""Fabrics meet measurements."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from colltool.api import values as v
from colltool.api.values import AnyFabric, AnyPath
from colltool.base.errors import ColltoolError, given, naming
from colltool.base.files import remembering
from colltool.base.formatting import parse_rate
from colltool.base.primitives import Primitive
from colltool.base.reach import within_reach
from colltool.definitions.reader import Overrides
from colltool.estimate.assumptions import Readings, checked
from colltool.estimate.groups import as_read
from colltool.fabric.load import fabric_data, load_fabric
from colltool.fabric.own_machine import OwnMachine
from colltool.logs.series import Measurements

if TYPE_CHECKING:
    from colltool.calibration.calibrate import Calibration
    from colltool.diagnosis.plan_traces import TracePlan
    from colltool.diagnosis.results import Diagnosis, Validation
    from colltool.diagnosis.trace_results import TraceComparison

Logs = Measurements | AnyPath | Sequence[AnyPath]
_ENDS = (".et", ".et.gz")
_FEWEST_SIZES = 2  # of a series that tiers are fitted to
MOST = 10**9  # ranks or nodes that a log may be said to have


@remembering()
def calibrate(
    fabric: AnyPath | Mapping[str, Any],
    logs: Logs,
    *,
    overrides: Sequence[str] = (),
    tier: str | None = None,
    algorithms: Sequence[str] | str = (),
    line_rate: str | float | None = None,
    ranks: int | None = None,
    primitive: Primitive | str | None = None,
    nodes: int | None = None,
    in_place: bool = False,
    name: str | None = None,
    machine_only: bool | None = None,
) -> Calibration:
    """Measured times as rows of one's own, and as a fabric with fitted launch overheads, α and
    bandwidths.

    The rows are ``machine_text``, a machine file (``NAME.machine.yaml``) for ``machine=`` of
    :func:`price`; one row a series will do. The fit takes one to three protocols per collective and
    tier.

    Args:
        fabric: path or shipped name; gives the shape, and α where the logs cannot tell it.
        overrides: ``KEY=VALUE`` each, as for :func:`colltool.load_fabric`.
        tier: only this one; default: each that some series spans as its outermost.
        algorithms: exactly these; when empty those that a log's library may have run are compared.
        line_rate: give bandwidths as shares of this rate, bytes/s or text with a unit.
        logs, ranks, primitive, nodes, in_place: as :func:`validate`.
        name: of the new fabric or machine; default: the old one's, of a fitted fabric with
            ``-calibrated``.
        machine_only: rows alone, without a fit; default: where no series has two sizes.

    Returns:
        A :class:`colltool.calibration.calibrate.Calibration`: its ``fabric`` can be priced at once,
        its ``text`` is the file; ``machine`` and ``machine_text`` are the rows, ``next`` is the
        measurement that would narrow prices most.

    Raises:
        ColltoolError: logs or a fabric that cannot be used, ranks that the fabric does not hold, an
            algorithm that cannot run.
    """
    from colltool.calibration.calibrate import Wanted, machine_alone, with_own
    from colltool.calibration.calibrate import calibrate as run

    if not isinstance(fabric, str | os.PathLike | Mapping):
        raise v.wrong(
            fabric,
            "fabric",
            "a fabric by path, by name or as a mapping",
            f"write {given('fabric', 'dgx-h100')}",
        )
    only, names = (
        None if tier is None else v.text_of(tier, "tier", "ib"),
        tuple(v.names_of(algorithms)),
    )
    rate = (
        line_rate
        if line_rate is None or isinstance(line_rate, str)
        else v.number_of(line_rate, "line_rate")
    )
    with naming("line_rate"):
        wanted = Wanted(only, names, None if rate is None else parse_rate(rate))
    data = fabric_data(fabric, overrides)
    read = _measurements(logs, ranks, primitive, nodes, in_place)
    called = (
        ""
        if name is None
        else re.sub(r"[^A-Za-z0-9_-]+", "-", v.text_of(name, "name", "measured")).strip("-_")
    )
    loaded = load_fabric(fabric, overrides)
    sizes = max((len(series.points) for series in read.series), default=_FEWEST_SIZES)
    alone = (
        sizes < _FEWEST_SIZES if machine_only is None else v.flag_of(machine_only, "machine_only")
    )
    if alone:
        return machine_alone(loaded, read, wanted, called or loaded.name)
    fitted = run(data, read, wanted, called or f"{data['name']}-calibrated")
    return with_own(fitted, loaded, read, wanted, called or loaded.name)


@remembering()
def validate(
    fabric: AnyFabric,
    logs: Logs,
    *,
    ranks: int | None = None,
    primitive: Primitive | str | None = None,
    nodes: int | None = None,
    in_place: bool = False,
    algorithms: Sequence[str] | str = (),
    max_mape: float | None = None,
    machine: OwnMachine | None = None,
    readings: Readings | None = None,
    **parts: Any,
) -> Validation:
    """Compare measured times with the prices of a fabric, size by size, and say what the difference
    tells.

    Args:
        fabric: as :func:`price`.
        logs: files of nccl-tests, rccl-tests (text or JSON), OSU micro-benchmarks or CSV; or what
            was read from them.
        ranks, primitive, nodes: for logs that do not say.
        in_place: the in-place half of nccl-tests' tables.
        algorithms: exactly these; when empty what the fabric lists for its library, else what the
            library of the log ships.
        max_mape: up to which mean absolute relative error of each series the result ``holds``; a
            fraction.
        machine, readings, **parts: as :func:`price`.

    Returns:
        A :class:`colltool.diagnosis.results.Validation`; a relative error is predicted/measured -
        1.

    Raises:
        ColltoolError: logs that cannot be read, ranks that the fabric does not hold or places
            elsewhere; says where and what to do instead.
    """
    from colltool.diagnosis.validate import validate as run

    limit, reading, names = (
        v.fraction_if(max_mape, "max_mape"),
        checked(readings, **parts),
        v.names_of(algorithms),
    )
    read = _measurements(logs, ranks, primitive, nodes, in_place)
    return run(
        as_read(v.fabric_of(fabric, machine=machine), reading),
        read,
        max_mape=limit,
        readings=reading,
        algorithms=names,
    )


@remembering()
def trace(
    fabric: AnyFabric,
    files: AnyPath | Sequence[AnyPath],
    *,
    placed: AnyPath | Sequence[int] | None = None,
    against: AnyPath | Sequence[AnyPath] = (),
    library: str | None = None,
    machine: OwnMachine | None = None,
    readings: Readings | None = None,
    **parts: Any,
) -> TraceComparison:
    """The collectives of profiler traces: what each took, what it should take, and what compute hid
    of it.

    Args:
        fabric: where they ran, as :func:`price`.
        files: traces of the PyTorch profiler or Chakra, plain or gzipped, one a rank; one path or
            several.
        placed: which rank of the fabric each rank of the job is: a list; ``block`` or ``cyclic``,
            as Slurm deals ranks to hosts; a file with a rank of the fabric, a host or host:slot in
            each line, or a layout file with a ``map``. Rank r is rank r when None.
        against: traces of the same job from before a change, to say what changed.
        library: whose schedules are expected; default: the fabric's own.
        machine, readings, **parts: as :func:`price`.

    Returns:
        A :class:`colltool.diagnosis.trace_results.TraceComparison`; seconds, bytes. Its ``job`` is a job
        file for :func:`plan`.

    Raises:
        ColltoolError: a file that is no trace, two of one rank, no call that can be told, a rank
            that the fabric does not have, a map of ranks that is none.
    """
    from colltool.diagnosis.trace import trace as run

    paths = v.paths_of(files, "files", "traces", "rank0.json.gz")
    if placed is not None and not isinstance(placed, str | os.PathLike):
        if not isinstance(placed, Sequence) or not placed:
            raise v.wrong(
                placed,
                "placed",
                "a map of ranks",
                f"write {given('placed', 'cyclic')}, a path, or a list of ranks",
            )
        placed = [v.count_of(rank, "placed") for rank in placed]
    reading = checked(readings, **parts)
    held = as_read(v.fabric_of(fabric, library, machine), reading)
    result = run(held, paths, reading, placed)
    if v.is_nothing(against):
        return result
    return replace(
        result,
        against=run(
            held, v.paths_of(against, "against", "traces", "rank0.json.gz"), reading, placed
        ),
    )


def trace_files(given: Sequence[AnyPath]) -> list[str]:
    """Chakra traces by their names, those of a folder in order of rank; empty where something else
    is given."""
    found: list[str] = []
    for path in (os.fspath(one) for one in given):
        if within_reach(path) and os.path.isdir(path):
            inside = [one for one in os.listdir(path) if one.endswith(_ENDS)]
            found += [
                os.path.join(path, one) for one in sorted(inside, key=lambda one: (len(one), one))
            ]
        elif path.endswith(_ENDS):
            found.append(path)
    return found


@remembering()
def plan_traces(
    files: AnyPath | Sequence[AnyPath],
    fabric: AnyFabric,
    *,
    library: str | None = None,
    machine: OwnMachine | None = None,
    readings: Readings | None = None,
    **parts: Any,
) -> TracePlan:
    """A step out of Chakra execution traces on a fabric: compute as recorded, collectives priced,
    dependencies honoured.

    Each rank's graph is walked by itself; the slowest is the step.

    Args:
        files: Chakra traces, plain or gzipped, one a rank; one path or several, or a folder of
            ``.et`` files. Rank r is rank r of the fabric.
        fabric, library, machine, readings, **parts: as :func:`price`.

    Returns:
        A :class:`colltool.diagnosis.plan_traces.TracePlan`; seconds, bytes.

    Raises:
        ColltoolError: as :func:`trace`, and a trace that does not say what waits for what.
    """
    from colltool.diagnosis.plan_traces import plan_traces as run

    paths = v.paths_of(files, "files", "traces", "workload.0.et")
    reading = checked(readings, **parts)
    return run(
        as_read(v.fabric_of(fabric, library, machine), reading),
        trace_files(paths) or paths,
        reading,
    )


@remembering()
def doctor(
    logs: Logs,
    fabric: AnyFabric | None = None,
    *,
    overrides: Overrides = (),
    expect: float | None = None,
    primitive: Primitive | str | None = None,
    ranks: int | None = None,
    nodes: int | None = None,
    in_place: bool = False,
    readings: Readings | None = None,
    **parts: Any,
) -> Diagnosis:
    """What ails a machine: hardware from the logs, what is off, which causes the prices support,
    what to run next.

    Args:
        logs: as :func:`validate`, and traces of the PyTorch profiler as :func:`trace`, judged
            together.
        fabric: as :func:`price`; when None the shipped one nearest to the devices that the logs
            name.
        overrides: as in :func:`colltool.load_fabric`, on either.
        expect: the share of the expected rate below which something is off, a fraction; default:
            0.8.
        primitive: only this collective; also what logs measure that do not say.
        ranks, nodes, in_place: as :func:`validate`.
        readings, **parts: as :func:`price`.

    Returns:
        A :class:`colltool.diagnosis.results.Diagnosis`: ``ok``, ``findings`` with their causes and
        the next experiment.

    Raises:
        ColltoolError: logs that cannot be read or hold nothing of ``primitive``, hardware that is
            not known and no fabric.
    """
    from colltool.diagnosis.doctor import diagnose
    from colltool.diagnosis.evidence import Evidence
    from colltool.diagnosis.read_evidence import evidence_of

    bar, reading = v.fraction_if(expect, "expect"), checked(readings, **parts)
    only = None if primitive is None else v.primitive_of(primitive)

    def logs_of(some: Any) -> Measurements:
        try:
            return _measurements(some, ranks, None, nodes, in_place)
        except ColltoolError:
            if only is None:
                raise
            # what a log does not name is the one that is asked for
            return _measurements(some, ranks, only, nodes, in_place)

    if isinstance(logs, Measurements):
        seen = Evidence(logs)
    else:
        seen = evidence_of(v.paths_of(logs, "logs", "logs or traces", "all_reduce.log"), logs_of)
    if fabric is None:
        held = None
    elif v.is_nothing(overrides):
        held = v.fabric_of(fabric)
    else:
        held = load_fabric(fabric, overrides)  # type: ignore[arg-type]
    return diagnose(seen.only(only), held, overrides=overrides, expect=bar, readings=reading)


def _measurements(
    logs: Any,
    ranks: int | None,
    primitive: Primitive | str | None,
    nodes: int | None,
    in_place: bool,
) -> Measurements:
    from colltool.logs.read import read_logs

    wanted = None if primitive is None else v.primitive_of(primitive)
    count, machines = (
        v.count_if(ranks, "ranks", -MOST, MOST),
        v.count_if(nodes, "nodes", -MOST, MOST),
    )
    half = v.flag_of(in_place, "in_place")
    if isinstance(logs, Measurements):
        return logs
    paths = v.paths_of(logs, "logs", "logs", "all_reduce.log")
    return read_logs(paths, ranks=count, primitive=wanted, nodes=machines, in_place=half)
