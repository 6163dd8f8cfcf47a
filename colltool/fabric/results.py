"""What the commands about fabric files answer."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from colltool.base.pictures import drawing
from colltool.base.result import Result, result
from colltool.fabric.failures import Failure, failures_of, failures_of_plan
from colltool.fabric.lint import CheckedFabric
from colltool.fabric.model import Fabric
from colltool.fabric.properties import Bill, FabricFacts, bill_of
from colltool.network.sizing.size_clos import ClosPlan


@result
class FabricList(Result):
    """The shipped fabrics."""

    subject: ClassVar[str] = "fabric"
    fabrics: tuple[Fabric, ...]


@result
class FabricShown(Result):
    """One fabric, with what follows from it."""

    subject: ClassVar[str] = "fabric"
    fabric: Fabric
    facts: FabricFacts

    @property
    def bill(self) -> Bill:
        return bill_of(self.fabric)

    @property
    def failures(self) -> tuple[Failure, ...]:
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

    subject: ClassVar[str] = "fabric_parts"
    endpoints: int
    ports_per_endpoint: int
    plan: ClosPlan
    bill: Bill

    @property
    def failures(self) -> tuple[Failure, ...]:
        return tuple(failures_of_plan(self.plan, self.endpoints, self.ports_per_endpoint))


@result
class FabricsChecked(Result):
    """The warnings about several files."""

    subject: ClassVar[str] = "job"
    checks: tuple[CheckedFabric, ...]
