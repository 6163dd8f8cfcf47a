"""What a measured machine takes over wires, contention and library (layer 4 of a price):
:func:`machine_factor`."""

from __future__ import annotations

from collections.abc import Callable

from colltool.base.arrays import exponential
from colltool.base.primitives import Number, Primitive
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import PlacedGroup
from colltool.fabric.model import Fabric
from colltool.fabric.same_fabric import SameFabric
from colltool.fabric.tier_media import scope_of
from colltool.machines.factor import MeasuredMachine

# at which a machine is asked whether it was measured at all: known at one size is known at all
ANY_SIZE_BYTES = 1e6


def as_read(fabric: Fabric, readings: ModelOptions) -> Fabric:
    """The fabric, without its machine's rows where the options leave these out."""
    if readings.numbers == "measured" and not readings.ideal:
        return fabric
    return fabric.without_machine()


def machine_factor(
    placed: PlacedGroup, primitive: Primitive, readings: ModelOptions
) -> Callable[[Number], Number] | None:
    """exp(d) at a size: what a measured machine takes over wires, contention and library (layer 4).
    None for 1."""
    machine = placed.fabric.machine
    if machine is None or readings.ideal or readings.numbers != "measured":
        return None
    return placed.once(("machine", primitive), lambda: _factor_by_size(machine, placed, primitive))


def _factor_by_size(
    machine: MeasuredMachine, placed: PlacedGroup, primitive: Primitive
) -> Callable[[Number], Number] | None:
    """The measured machine's time over the price, by size. None where nothing was measured there."""
    scope = scope_of(placed.fabric, [span.tier.name for span in placed.spans])
    if machine.sigma(primitive, scope, placed.ranks, ANY_SIZE_BYTES) is None:
        return None
    # The owner's file is of the fabric as it was measured, which an option may have changed since. It is
    # ordered here; the factors that ship are as they are kept.
    measured_fabric = placed.fabric.measured_fabric
    if machine.file and measured_fabric is not None:
        # prices, and so it cannot be imported above
        from colltool.estimate.ordered_factor import ordered_factor

        ordered = ordered_factor(SameFabric(measured_fabric), primitive, scope)
        if ordered is not None:
            return lambda size: exponential(ordered.d(placed.ranks, size))
    return lambda size: exponential(machine.d(primitive, scope, placed.ranks, size))
