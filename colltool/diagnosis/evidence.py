"""What a diagnosis starts from: the series of logs and of traces, and the machine that they name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import combinations
from os import PathLike, fspath
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.base.quoting import printable
from colltool.calibration.placement import MOST_IN_A_HOST
from colltool.fabric.model import Fabric
from colltool.measurements.devices import Machine, machine_of
from colltool.measurements.log import is_empty
from colltool.measurements.series import Measurements, Series
from colltool.traces import is_trace
from colltool.traces.measurements import Bounded, measured_calls
from colltool.traces.results import LeftOut

Path = str | PathLike[str]


class Evidence(NamedTuple):
    """What was measured.

    Args:
        logs: the series of benchmarks, and what was left out of them.
        named: devices and hosts.
        traced: the series of traces.
        bounds: calls of traces that took at most what was measured.
        left_out: what of the traces is in neither.
        world: ranks of the traced job; None without.
        empty: the files with nothing in them, as the user named them.
    """

    logs: Measurements
    named: Machine = Machine((), ())
    traced: tuple[Series, ...] = ()
    bounds: tuple[Bounded, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    world: int | None = None
    empty: tuple[str, ...] = ()

    @property
    def series(self) -> tuple[Series, ...]:
        """Of logs and of traces."""
        return (*self.logs.series, *self.traced)

    @property
    def most_ranks(self) -> int:
        """Of the job, or of the largest group that was seen."""
        return max([self.world or 1, *(one.ranks for one in self.series), *(one.ranks for one in self.bounds)])

    def only(self, primitive: Primitive | None) -> Evidence:
        """What was measured of one collective, or all.

        Raises:
            ColltoolError: nothing of it; says what there is.
        """
        if primitive is None:
            return self
        there = dict.fromkeys(map(str, [*(one.primitive for one in self.series), *(one.primitive for one in self.bounds)]))
        if there and str(primitive) not in there:
            what = f"the logs hold nothing of {primitive.spoken}"
            raise ColltoolError(what, argument="primitive", fix=f"they hold: {', '.join(there)}")
        kept = tuple(one for one in self.logs.series if one.primitive is primitive)
        traced = tuple(one for one in self.traced if one.primitive is primitive)
        bounds = tuple(one for one in self.bounds if one.primitive is primitive)
        return self._replace(logs=self.logs._replace(series=kept), traced=traced, bounds=bounds)

    def on(self, fabric: Fabric) -> Measurements:
        """All series; those of traces on as many hosts as the fabric's innermost domains have room for their ranks in."""
        inside = fabric.tiers[0].endpoints
        hosts = [
            one._replace(nodes=max(one.ranks // inside, 1))
            if inside <= MOST_IN_A_HOST and (one.ranks < inside or one.ranks % inside == 0)
            else one
            for one in self.traced
        ]
        return self.logs._replace(series=(*self.logs.series, *hosts))


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
    named = machine_of(others) if others else Machine((), ())
    if not traces:
        return Evidence(logs, named)
    traced = measured_calls(traces)
    devices = tuple(dict.fromkeys((*named.devices, *traced.devices)))
    found = Evidence(
        logs=logs,
        named=Machine(devices, named.hosts),
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
