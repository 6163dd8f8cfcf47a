"""The result of sizing a dragonfly, dragonfly+ or HyperX without a fabric: its plan, bill and failures,
and a Clos to compare it with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from colltool.base.result import Result, result
from colltool.fabric.bill import Bill
from colltool.fabric.failures import Failure
from colltool.network.sizing.size_clos import ClosPlan
from colltool.network.sizing.size_direct import DirectPlan


@result
class DirectSized(Result):
    """A dragonfly, dragonfly+ or HyperX sized for a number of endpoints and of ports of each.

    ``clos``: with the same ports, switches and oversubscription, and its ``clos_bill``; None where
    three levels do not join them.
    """

    subject: ClassVar[str] = "direct"
    endpoints: int
    ports_per_endpoint: int
    plan: DirectPlan
    bill: Bill
    clos: ClosPlan | None
    clos_bill: Bill | None

    @property
    def failures(self) -> tuple[Failure, ...]:
        return tuple(_failures(self.plan, self.ports_per_endpoint))


def _failures(plan: DirectPlan, ports: int) -> Iterator[Failure]:
    """A port, and a switch with endpoints at it, of endpoints with ``ports`` each; cables between
    switches have detours."""
    with_endpoints = plan.levels[0]
    lost = min(plan.hosts, plan.ports // ports)
    yield Failure(
        tier="",
        part="NIC",
        level=with_endpoints.name,
        count=plan.ports,
        nics=1,
        endpoints=1,
        ranks=1,
        share=1 / ports,
        cut_off=1 if ports == 1 else 0,
    )
    yield Failure(
        tier="",
        part="switch",
        level=with_endpoints.name,
        count=with_endpoints.switches,
        nics=lost * ports // plan.rails,
        endpoints=lost,
        ranks=lost,
        share=1 / plan.rails,
        cut_off=lost if plan.rails == 1 else 0,
    )
