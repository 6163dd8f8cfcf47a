"""What was measured of a machine, and what the logs say of it themselves: :class:`Evidence`, which
:mod:`colltool.diagnosis.read_evidence` gathers from files."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.calibration.log_fits import MOST_IN_A_HOST
from colltool.fabric.model import Fabric
from colltool.logs.debug_record import DebugLines
from colltool.logs.hardware_in_log import LoggedHardware
from colltool.logs.records import WrongValues
from colltool.logs.series import Measurements, Series
from colltool.logs.stated import StatedLine
from colltool.logs.traced_calls import LeftOutKernels
from colltool.logs.traced_series import UpperBound


class FailedLog(NamedTuple):
    """A file that cannot be used: the log of a run that failed, or no log at all."""

    file: str
    reason: str
    hosts: tuple[str, ...]  # that it names


class Evidence(NamedTuple):
    """What was measured, and what the logs say themselves."""

    logs: Measurements  # of benchmarks
    named: LoggedHardware = LoggedHardware((), ())  # devices and hosts that logs or traces name
    traced: tuple[Series, ...] = ()  # series of traces
    bounds: tuple[UpperBound, ...] = ()  # for traced calls known only as upper bounds
    left_out: tuple[LeftOutKernels, ...] = ()  # traced kernels that are no measured call
    world: int | None = None  # the traced job's rank count
    empty: tuple[str, ...] = ()  # files with nothing in them
    debug: DebugLines = DebugLines()  # what NCCL_DEBUG=INFO says
    failed: tuple[FailedLog, ...] = ()  # files that cannot be used
    hosts: Mapping[str, tuple[str, ...]] = MappingProxyType({})  # of each of several files, by name
    stated: tuple[StatedLine, ...] = ()  # what lines of logs state, the worst first
    wrong: tuple[WrongValues, ...] = ()  # tables in which every result is wrong

    @property
    def series(self) -> tuple[Series, ...]:
        """All series, of logs and of traces."""
        return (*self.logs.series, *self.traced)

    @property
    def _groups(self) -> tuple[Series | UpperBound, ...]:
        """Everything that was seen on a number of ranks."""
        return (*self.series, *self.bounds)

    @property
    def most_ranks(self) -> int:
        """Ranks of the largest run or job."""
        return max(self.world or 1, *(group.ranks for group in self._groups), 1)

    @property
    def most_hosts(self) -> int:
        """Hosts of the run on most of them, as far as the logs list them."""
        return max((series.nodes or 1 for series in self.logs.series), default=1)

    @property
    def ranks_per_host(self) -> set[int]:
        """Ranks a host of the logs' runs across hosts."""
        per_host = {series.ranks_per_host for series in self.logs.series}
        return {ranks for ranks in per_host if ranks is not None}

    def only(self, primitive: Primitive | None) -> Evidence:
        """What there is of one primitive, all of it for None; ColltoolError where there is none."""
        if primitive is None:
            return self
        measured = dict.fromkeys(str(group.primitive) for group in self._groups)
        if measured and str(primitive) not in measured:
            raise ColltoolError(
                f"the logs hold no {primitive.label}",
                argument="primitive",
                fix=f"they hold: {', '.join(measured)}",
            )
        logs = tuple(series for series in self.logs.series if series.primitive is primitive)
        return self._replace(
            logs=self.logs._replace(series=logs),
            traced=tuple(series for series in self.traced if series.primitive is primitive),
            bounds=tuple(bound for bound in self.bounds if bound.primitive is primitive),
        )

    def on(self, fabric: Fabric) -> Measurements:
        """All series; traced ones placed on the fewest hosts of this fabric that hold them."""
        inside = fabric.tiers[0].endpoints
        placed = list(self.logs.series)
        for series in self.traced:
            fills_hosts = series.ranks < inside or series.ranks % inside == 0
            # racks of more ranks than a host has say nothing of hosts
            if inside <= MOST_IN_A_HOST and fills_hosts:
                series = series._replace(nodes=max(series.ranks // inside, 1))
            placed.append(series)
        return self.logs._replace(series=tuple(placed))
