"""The readings of the model that a user may choose; the defaults are the contract's."""

from typing import Literal, NamedTuple

from colltool.algorithms.composed import Order
from colltool.cost import Pipelining

Phases = Literal["sequential", "pipelined"]
Placement = Literal["packed", "scattered"]
RingAlpha = Literal["mean", "worst"]


class Readings(NamedTuple):
    """How to read the model where it leaves a choice.

    Args:
        ideal: every η is 1. Oversubscription stays: it is wiring, not contention.
        pipelining: ``asymptotic``, ``optimal``, or a number of segments P.
        phases: how the phases of a composition follow each other; None is each composition's own default.
        placement: ``packed`` fills the smallest domain first; ``scattered`` is the cautious reading of an unknown layout.
        ring_alpha: a ring's α where its hops differ: the ``mean`` over the ring, or the ``worst`` hop in every step.
        tree_beta: c, the double binary tree's n_β.
        order: order of tiers of an all-gather or reduce-scatter; None is the one that keeps bytes inside.
    """

    ideal: bool = False
    pipelining: Pipelining = "asymptotic"
    phases: Phases | None = None
    placement: Placement = "packed"
    ring_alpha: RingAlpha = "mean"
    tree_beta: float = 2.0
    order: Order | None = None
