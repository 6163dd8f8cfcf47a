"""What ``explain`` returns: frozen records in SI units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from colltool.algorithms.registry import Status
from colltool.base.primitives import Primitive
from colltool.base.result import Result
from colltool.estimate.readings import USUAL, Readings
from colltool.estimate.results import Overrides
from colltool.estimate.row import Row
from colltool.estimate.who import Seats


class EstimateParts(NamedTuple):
    """What a library's own estimate of a call is made of.

    Args:
        algorithm, protocol: as the library calls them.
        latency: (what, how often, seconds each); their sum times ``plateau`` is the latency.
        plateau: what the size makes of the latency.
        bus_Bps: of all channels under the protocol.
        bandwidth_Bps: what the schedule makes of it, bytes of the call over time.
        correction: what is left of that at the size.
        seconds: the estimate.
        picked: whether the library would take it.
    """

    algorithm: str
    protocol: str
    latency: tuple[tuple[str, float, float], ...]
    plateau: float
    bus_Bps: float
    bandwidth_Bps: float
    correction: float
    seconds: float
    picked: bool


class Cabled(NamedTuple):
    """A distance class with a cable: its metres, and the seconds of α that they are."""

    tier: str
    level: str
    metres: float
    adds_s: float


class Explained(NamedTuple):
    """One algorithm for one primitive in words, and priced where a fabric was given.

    ``balance`` is n*, bytes; ``partners`` with how many others a rank exchanges at most, None of a composition.
    """

    algorithm: str
    primitive: Primitive
    title: str
    formula: tuple[str, ...]
    text: str
    size_means: str
    runs_on: str
    requires: tuple[str, ...]
    status: Status
    shipped_by: tuple[str, ...]
    source: str
    note: str
    in_switch: bool
    row: Row | None = None
    reason: str = ""
    estimates: tuple[EstimateParts, ...] = ()
    balance: float | None = None
    partners: int | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Result):
    """Every use of one algorithm name; ``fabric``, ``group`` and ``bytes`` when numbers are put in.

    ``cables`` are those that have a part in the α of what the group crosses.
    """

    subject: ClassVar[str] = "explain"
    algorithm: str
    entries: tuple[Explained, ...]
    fabric: str = ""
    group: Seats | None = None
    bytes: float = 0.0
    mode: str = ""
    overrides: Overrides = ()
    library: str = ""
    cables: tuple[Cabled, ...] = ()
    readings: Readings = USUAL

    @property
    def ranks(self) -> int:
        """N; 0 without numbers."""
        return self.group.ranks if self.group else 0
