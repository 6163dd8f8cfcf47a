"""Records of ``report``: sections of results, each with the commands that reproduce it. The results
themselves are made in :mod:`colltool.commands.report_sections`."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, TypeVar

from colltool.base.result import Result, result
from colltool.estimate.assumptions import ModelOptions
from colltool.fabric.library import Prices
from colltool.fabric.model import Fabric
from colltool.fabric.provenance import Provenance
from colltool.machines.used import common

ResultType = TypeVar("ResultType", bound=Result)


class Exhibit(NamedTuple):
    """One result, as the page shows it."""

    title: str
    result: Result
    # the commands that reproduce it: one per fabric if necessary, none for Python-only results
    commands: tuple[str, ...]
    # the picture to show: empty for the default one, None for no picture, only tables
    view: str | None = ""


class ReportSection(NamedTuple):
    """Results that answer one question; ``key`` is the anchor on the page."""

    key: str
    title: str
    exhibits: tuple[Exhibit, ...]


@result
class Assumptions(Result):
    """What a fabric's prices rest on: the sourced numbers of its file, and the model's options.

    ``library``: the one requested instead of the file's own, or empty.
    """

    subject: ClassVar[str] = "report"  # rendered as a part of it
    fabric: Fabric
    stated: tuple[Provenance, ...]
    library: str
    readings: ModelOptions


class FabricPrices(NamedTuple):
    """What a fabric of the page is bought at, in its currency; None where it is not known."""

    currency: str
    gpu: float | None = None  # of one GPU
    parts: Prices | None = None  # of the network


@result
class Report(Result):
    """A page about a fabric, the first of ``fabrics``."""

    subject: ClassVar[str] = "report"
    fabrics: tuple[Fabric, ...]
    titles: tuple[str, ...]
    # of the reference point, at which the page compares fabrics and algorithms
    ranks: int
    bytes: float
    sections: tuple[ReportSection, ...]
    # one a fabric, None where neither the user nor its file gives any; empty where none has any
    prices: tuple[FabricPrices | None, ...] = ()

    def results_of(self, kind: type[ResultType]) -> list[ResultType]:
        """The results of a type, of all sections."""
        results = []
        for section in self.sections:
            for exhibit in section.exhibits:
                if isinstance(exhibit.result, kind):
                    results.append(exhibit.result)
        return results

    def result_of(self, kind: type[ResultType]) -> ResultType | None:
        """The first result of a type; None without any."""
        return next(iter(self.results_of(kind)), None)

    @property
    def overrides(self) -> tuple[tuple[str, str], ...]:
        """The overrides that all fabrics share."""
        return tuple(common([fabric.overrides for fabric in self.fabrics]))
