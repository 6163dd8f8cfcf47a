"""Energy of a step: what every call spends on the wires, over all ranks that send it."""

from __future__ import annotations

from colltool.base.primitives import P2P
from colltool.fabric.model import Fabric
from colltool.training.setup import Setup
from colltool.training.step.beside import Sent
from colltool.training.step.once import borders_crossed


def energy_J(setup: Setup, sent: Sent) -> float | None:
    """Joule of all calls of one kind in a step on all ranks of a pipeline stage; None where no tier that it crosses says.

    Of a job without a model all ranks are one stage. Messages between neighbours spend what the worst pair does.
    """
    if sent.fare.energy_J is None:
        return None
    senders = setup.layout.ranks / (1 if setup.model is None else setup.layout.pp)
    return sent.fare.energy_J * senders * sent.call.calls * _that_send(setup, sent)


def _that_send(setup: Setup, sent: Sent) -> float:
    """The share of ranks that send: of a chain the last has nobody to send to."""
    call = sent.call
    if call.per == "border":
        return borders_crossed(setup) / (setup.layout.pp * setup.chunks)
    return 1 - 1 / call.group.ranks if call.primitive is P2P and not call.closed else 1.0


def silent(fabric: Fabric, crossed: set[str]) -> tuple[str, ...]:
    """Tiers that are crossed and say nothing of their energy."""
    return tuple(tier.name for tier in fabric.tiers if tier.name in crossed and tier.energy is None)
