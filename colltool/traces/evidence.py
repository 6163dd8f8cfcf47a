"""Logs and traces as the evidence of a diagnosis, told apart by how they begin."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import combinations
from os import PathLike, fspath

from colltool.base.errors import ColltoolError
from colltool.base.quoting import printable
from colltool.diagnosis.evidence import Evidence
from colltool.measurements.devices import LoggedHardware, logged_hardware
from colltool.measurements.log import is_empty
from colltool.measurements.series import Measurements, Series
from colltool.traces.measurements import measured_calls
from colltool.traces.reader import is_trace

Path = str | PathLike[str]


def evidence_of(paths: Sequence[Path], logs_of: Callable[[Sequence[Path]], Measurements]) -> Evidence:
    """Traces and logs, told apart by how they begin; an empty file among others is named, and the others judged.

    Args:
        paths: of either.
        logs_of: reads those of benchmarks.

    Raises:
        ColltoolError: a file that cannot be read, traces of no collective, nothing but empty files.
    """
    empty = [path for path in paths if not is_trace(path) and is_empty(fspath(path))]
    if len(empty) in (0, len(paths)):
        return _evidence(paths, logs_of)
    found = _evidence([path for path in paths if path not in empty], logs_of)
    return found._replace(empty=tuple(printable(fspath(path)) for path in dict.fromkeys(empty)))


def _evidence(paths: Sequence[Path], logs_of: Callable[[Sequence[Path]], Measurements]) -> Evidence:
    traces = [path for path in paths if is_trace(path)]
    others = [path for path in paths if path not in traces]
    logs = _run_by_run(others, logs_of) if others else Measurements((), ())
    named = logged_hardware(others) if others else LoggedHardware((), ())
    if not traces:
        return Evidence(logs, named)
    traced = measured_calls(traces)
    devices = tuple(dict.fromkeys((*named.devices, *traced.devices)))
    found = Evidence(
        logs=logs,
        named=LoggedHardware(devices, named.hosts),
        traced=traced.measurements.series,
        bounds=traced.bounds,
        left_out=traced.left_out,
        world=traced.world,
    )
    if not found.series and not found.bounds:
        why = f": {found.left_out[0].reason}" if found.left_out else ""
        what = f"the traces hold no collective whose time can be told{why}"
        raise ColltoolError(what, where=str(traces[0]), fix="give the traces of all ranks, or a log of nccl-tests")
    return found


def _run_by_run(paths: Sequence[Path], logs_of: Callable[[Sequence[Path]], Measurements]) -> Measurements:
    """The series of logs; where several files measure the same sizes of one, a series for each.

    Files of one kind are mostly of one host each, and the median of healthy hosts hides one that is not.
    """
    together = logs_of(paths)
    if len(paths) == 1:
        return together
    runs: dict[tuple[object, ...], list[Series]] = defaultdict(list)
    for path in paths:
        for one in logs_of([path]).series:
            runs[_of_one(one)].append(one._replace(run=printable(fspath(path))))
    found: list[Series] = []
    for one in together.series:
        several = runs[_of_one(one)]
        again = any(
            {point.bytes for point in a.points} & {point.bytes for point in b.points} for a, b in combinations(several, 2)
        )
        found += several if again else [one]
    return together._replace(series=tuple(found))


def _of_one(series: Series) -> tuple[object, ...]:
    return series.primitive, series.ranks, series.nodes
