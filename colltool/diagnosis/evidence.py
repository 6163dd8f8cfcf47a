"""What a diagnosis starts from: the series of logs and of traces, and the machine that they name."""

from __future__ import annotations

from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.calibration.placement import MOST_IN_A_HOST
from colltool.fabric.model import Fabric
from colltool.measurements.devices import LoggedHardware
from colltool.measurements.series import Measurements, Series


class LeftOutKernels(NamedTuple):
    """Communication that is in no row: why, how many kernels, and the first file with one."""

    reason: str
    kernels: int
    file: str


class BoundedCalls(NamedTuple):
    """Calls that took at most what was measured: a kernel waits for the slowest rank, and not all ranks were seen.

    Args:
        primitive, ranks: of the calls; how many ranks their group has.
        calls: how many.
        missing: the ranks without a trace; empty where the traces do not tell, or where all are there and their calls do not
            pair off.
    """

    primitive: Primitive
    ranks: int
    calls: int
    missing: tuple[int, ...]


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
    named: LoggedHardware = LoggedHardware((), ())
    traced: tuple[Series, ...] = ()
    bounds: tuple[BoundedCalls, ...] = ()
    left_out: tuple[LeftOutKernels, ...] = ()
    world: int | None = None
    empty: tuple[str, ...] = ()

    @property
    def series(self) -> tuple[Series, ...]:
        return (*self.logs.series, *self.traced)

    @property
    def most_ranks(self) -> int:
        """Of the job, or of the largest group that was seen."""
        return max([self.world or 1, *(one.ranks for one in self.series), *(one.ranks for one in self.bounds)])

    def only(self, primitive: Primitive | None) -> Evidence:
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
