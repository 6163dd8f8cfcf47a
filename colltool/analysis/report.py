"""What ``report`` returns: every result of a page with the command line that gives it, and what all of them rest on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from colltool.base.result import Result
from colltool.estimate.assumptions import Readings
from colltool.fabric.model import Fabric
from colltool.fabric.provenance import Provenance


class ReportEntry(NamedTuple):
    """One result of a report.

    Args:
        title: what it shows, in a few words.
        result: of the public function that a reader would call for it.
        commands: the command line that gives the same; several where it takes one for each fabric, none of what is Python's own.
        view: which of its pictures; empty for the usual one, None where it has none.
    """

    title: str
    result: Result
    commands: tuple[str, ...]
    view: str | None = ""


class ReportSection(NamedTuple):
    """Exhibits that answer one question; ``key`` names it in the address of the page."""

    key: str
    title: str
    exhibits: tuple[ReportEntry, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Assumptions(Result):
    """What the prices of one fabric rest on: numbers of its file with their source, and how the model was read.

    ``library``: that was asked for in the place of the file's own; empty without.
    """

    subject: ClassVar[str] = "report"
    fabric: Fabric
    stated: tuple[Provenance, ...]
    library: str
    readings: Readings


@dataclass(frozen=True, eq=False, repr=False)
class Report(Result):
    """A page about a fabric: its drawing, prices, what it is compared with, a job's step, and what was measured.

    ``ranks`` and ``bytes`` are what is looked at closely; ``fabrics`` the columns, what the page is about first, and ``titles``
    what tells them apart.
    """

    subject: ClassVar[str] = "report"
    fabrics: tuple[Fabric, ...]
    titles: tuple[str, ...]
    ranks: int
    bytes: float
    sections: tuple[ReportSection, ...]

    @property
    def overrides(self) -> tuple[tuple[str, str], ...]:
        first, *others = self.fabrics
        return tuple(pair for pair in first.overrides if all(pair in other.overrides for other in others))
