"""What was measured of a machine, and what the logs say of it themselves."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.calibration.series_prices import MOST_IN_A_HOST
from colltool.fabric.model import Fabric
from colltool.logs.hardware_in_log import LoggedHardware
from colltool.logs.nccl_debug import DebugLines
from colltool.logs.series import Measurements, Series
from colltool.logs.traced_calls import LeftOutKernels, UpperBound


class FailedLog(NamedTuple):
    """A file that cannot be used: a run that failed, or what is no log."""

    file: str
    reason: str
    hosts: tuple[str, ...]


class Evidence(NamedTuple):
    """What was measured: ``logs`` of benchmarks, ``traced`` series, ``bounds`` for traced calls
    known only as upper bounds.
    ``world`` is the traced job's rank count, ``empty`` the files with nothing in them, ``debug``
    what NCCL_DEBUG=INFO says, ``failed`` the files that cannot be used, ``hosts`` those of each
    file."""

    logs: Measurements
    named: LoggedHardware = LoggedHardware((), ())
    traced: tuple[Series, ...] = ()
    bounds: tuple[UpperBound, ...] = ()
    left_out: tuple[LeftOutKernels, ...] = ()
    world: int | None = None
    empty: tuple[str, ...] = ()
    debug: DebugLines = DebugLines()
    failed: tuple[FailedLog, ...] = ()
    hosts: Mapping[str, tuple[str, ...]] = MappingProxyType({})

    @property
    def series(self) -> tuple[Series, ...]:
        return (*self.logs.series, *self.traced)

    @property
    def most_ranks(self) -> int:
        return max(
            [
                self.world or 1,
                *(one.ranks for one in self.series),
                *(one.ranks for one in self.bounds),
            ]
        )

    def only(self, primitive: Primitive | None) -> Evidence:
        if primitive is None:
            return self
        there = dict.fromkeys(
            map(
                str,
                [*(one.primitive for one in self.series), *(one.primitive for one in self.bounds)],
            )
        )
        if there and str(primitive) not in there:
            what = f"the logs hold no {primitive.spoken}"
            raise ColltoolError(what, argument="primitive", fix=f"they hold: {', '.join(there)}")
        kept = tuple(one for one in self.logs.series if one.primitive is primitive)
        traced = tuple(one for one in self.traced if one.primitive is primitive)
        bounds = tuple(one for one in self.bounds if one.primitive is primitive)
        return self._replace(logs=self.logs._replace(series=kept), traced=traced, bounds=bounds)

    def on(self, fabric: Fabric) -> Measurements:
        """All series; traced ones placed on the fewest hosts of this fabric that hold them."""
        inside, found = fabric.tiers[0].endpoints, [*self.logs.series]
        for one in self.traced:
            whole = inside <= MOST_IN_A_HOST and (one.ranks < inside or one.ranks % inside == 0)
            found.append(one._replace(nodes=max(one.ranks // inside, 1)) if whole else one)
        return self.logs._replace(series=tuple(found))
