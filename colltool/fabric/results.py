"""Results of the commands about fabric files: list, show, draw, size and check. ``subject`` names the
view of each in :mod:`colltool.render.views`."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from colltool.base.extras import drawing
from colltool.base.result import Result, result
from colltool.fabric.bill import Bill, bill_of
from colltool.fabric.failures import Failure, failures_of, failures_of_plan
from colltool.fabric.lint import CheckedFabric
from colltool.fabric.model import Fabric
from colltool.fabric.properties import FabricFacts
from colltool.network.sizing.size_clos import ClosPlan


@result
class FabricList(Result):
    """The shipped fabrics."""

    subject: ClassVar[str] = "fabric"
    fabrics: tuple[Fabric, ...]


@result
class FabricShown(Result):
    """One fabric, with the facts, the bill and the failures that follow from it."""

    subject: ClassVar[str] = "fabric"
    fabric: Fabric
    facts: FabricFacts

    @property
    def bill(self) -> Bill:
        """Its parts, with their cost where the file has prices."""
        return bill_of(self.fabric)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What each kind of single failure takes down."""
        return failures_of(self.fabric)


@result
class FabricDrawn(Result):
    """The picture of a fabric."""

    subject: ClassVar[str] = "fabric"
    fabric: Fabric
    facts: FabricFacts

    @cached_property
    def svg(self) -> str:
        """One ``<svg>`` element."""
        return drawing().fabric_svg(self.fabric, self.fabric.name)


@result
class FabricSized(Result):
    """A Clos sized for a number of endpoints and of ports of each."""

    subject: ClassVar[str] = "fabric_size"
    endpoints: int
    ports_per_endpoint: int
    plan: ClosPlan
    bill: Bill

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What each kind of single failure takes down."""
        return tuple(failures_of_plan(self.plan, self.endpoints, self.ports_per_endpoint))


@result
class FabricsChecked(Result):
    """The warnings about several files, each with its own."""

    subject: ClassVar[str] = "fabric_check"
    checks: tuple[CheckedFabric, ...]
