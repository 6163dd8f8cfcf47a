"""What a library would run for a call by its own cost model, beside our price of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from colltool.errors import ColltoolError, nearest
from colltool.fabric.model import Fabric
from colltool.library.facts import hardware_on
from colltool.library.model import Estimate, estimates, picks
from colltool.library.ways import spec_of
from colltool.pricing.catalogue import CannotRun
from colltool.pricing.price import price
from colltool.pricing.readings import Readings
from colltool.pricing.row import Row
from colltool.primitives import Primitive

WITH_A_MODEL = ("nccl",)
"""Libraries whose own choice is known: their cost model and its constants."""


class Answer(NamedTuple):
    """A library's choice for one call.

    Args:
        name, version: of the library, and of the data its model is computed from.
        pick: what it takes to be fastest, with its estimate.
        ways: every combination of algorithm and protocol in its order, with the reason where one cannot run.
        runs: our price of what is picked; None where no schedule of ours is that one, or none runs here.
    """

    name: str
    version: str
    pick: Estimate
    ways: tuple[Estimate, ...]
    runs: Row | None


def answers(name: str, fabric: Fabric, primitive: Primitive, sizes: Sequence[float], ranks: int | None = None,
            readings: Readings | None = None) -> list[Answer]:  # fmt: skip
    """What a library picks at each size.

    Args:
        name: ``nccl``.
        fabric: its ``library`` key gives the facts that the model needs.
        primitive, ranks, readings: as for :func:`colltool.pricing.price.price`.
        sizes: M in bytes each.

    Raises:
        ColltoolError: a library without a cost model here, facts that the fabric lacks, a collective without a choice.
    """
    if name not in WITH_A_MODEL:
        known = f"{nearest(name, list(WITH_A_MODEL))} known: {', '.join(WITH_A_MODEL)}".strip()
        raise ColltoolError(f"no cost model of '{name}' is known", argument="library", fix=f"{known}; or leave it out")
    hardware = hardware_on(fabric, ranks)
    found = []
    for size, chosen in zip(sizes, picks(hardware, primitive, sizes), strict=True):
        spec = spec_of(chosen.algorithm, primitive, hardware)
        runs = _priced(spec, fabric, primitive, size, ranks, readings)
        found.append(Answer(name, hardware.version, chosen, tuple(estimates(hardware, primitive, size)), runs))
    return found


def _priced(
    spec: str, fabric: Fabric, primitive: Primitive, size: float, ranks: int | None, readings: Readings | None
) -> Row | None:
    if not spec:
        return None
    try:
        return price(fabric, primitive, size, ranks, readings, [spec]).best
    except CannotRun:
        return None
