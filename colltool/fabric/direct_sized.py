"""The result of sizing a dragonfly, dragonfly+ or HyperX without a fabric: its plan, bill and failures,
and a Clos to compare it with."""

from __future__ import annotations

from typing import ClassVar

from colltool.base.result import Result, result
from colltool.fabric.bill import Bill
from colltool.fabric.failures import Failure
from colltool.network.sizing.size_clos import ClosPlan
from colltool.network.sizing.size_direct import DirectPlan


@result
class DirectSized(Result):
    """A dragonfly, dragonfly+ or HyperX sized for a number of endpoints and of ports of each, as
    ``colltool fabric size --topology`` answers."""

    subject: ClassVar[str] = "direct"
    endpoints: int
    ports_per_endpoint: int
    plan: DirectPlan
    bill: Bill
    # of the same endpoints, switches and oversubscription; None if they need more than three levels
    clos: ClosPlan | None
    clos_bill: Bill | None

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What a failed port takes down, and a failed switch that has endpoints.

        Cables between switches are left out: their traffic has detours.
        """
        switches = self.plan.levels[0]
        ports = self.ports_per_endpoint
        nic = Failure.of_part(
            "NIC",
            switches.name,
            count=self.plan.ports,
            nics=1,
            endpoints=1,
            share=1 / ports,
        )
        # a switch is of one rail: it has those ports of its endpoints that are on this rail
        endpoints = min(self.plan.hosts, self.plan.ports // ports)
        rails = self.plan.rails
        switch = Failure.of_part(
            "switch",
            switches.name,
            count=switches.switches,
            nics=endpoints * ports // rails,
            endpoints=endpoints,
            share=1 / rails,
        )
        return nic, switch
