"""Whether logs are of other hardware than a fabric: their devices by name against its own.

Devices are compared by generation: H100 and H200 measure alike, H100 and GB200 do not. Names that
no bundled fabric has tell nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from colltool.base.errors import ColltoolError, argument_text
from colltool.fabric.bundled_for import bundled_for
from colltool.fabric.load import load_fabric
from colltool.fabric.media import GENERATIONS
from colltool.fabric.model import Fabric


def other_devices(fabric: Fabric, devices: Sequence[str]) -> dict[str, str]:
    """The named devices that a fabric does not have, each with the bundled fabric that has it.
    Empty where the fabric names no device, or one of them may be its own."""
    own = _generation(fabric)
    if not own:
        return {}
    bundled = {}
    for device in devices:
        nearest = bundled_for(device)
        if nearest is None:
            continue
        generation = _generation(load_fabric(nearest.fabric))
        if generation == own:
            return {}
        if generation:
            bundled[device] = nearest.fabric
    return bundled


def _generation(fabric: Fabric) -> str:
    """The generation of a fabric's device, else of the GPUs that its library names; else empty."""
    return GENERATIONS.get(fabric.device or "", _gpu(fabric))


def _gpu(fabric: Fabric) -> str:
    """The generation of GPUs that a fabric's library names; else empty."""
    facts = fabric.library_facts
    return (facts and facts.gpu) or ""


def check_hardware(fabric: Fabric, devices: Sequence[str]) -> None:
    """Raise ColltoolError where logs name other devices than the fabric has: what is fitted to them
    would pass for its own."""
    other = other_devices(fabric, devices)
    if not other:
        return
    fabric_option = argument_text("fabric", next(iter(other.values())))
    raise ColltoolError(
        f"the logs are of {', '.join(other)}, {fabric.name} is a machine of {device_of(fabric)}",
        argument="fabric",
        fix=f"fit the machine that ran this: {fabric_option}, or a file of your own",
    )


def device_of(fabric: Fabric) -> str:
    """A fabric's device as people write it, else its GPUs' generation."""
    return (fabric.device or _gpu(fabric)).upper()
