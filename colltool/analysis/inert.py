"""Overrides that do not change a price, each with the reason: what the user sets either acts or is
listed here.

:func:`against_file` is the entry. Each override is put back alone to the file's value, and the same
schedule is priced again; where the seconds stay the same, the phases of the price tell why.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from typing import Any, NamedTuple

from colltool.base.primitives import Primitive
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import PlacedGroup, place
from colltool.estimate.placement import AnyGroup
from colltool.estimate.price import price
from colltool.estimate.results import Inert
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.same_fabric import SameFabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.values import Place, keys_of, values_of, with_values

# Parts of a fabric file that no time depends on, and what they are for.
_FOR_OTHER_ANSWERS = {
    "sizing": "it counts switches and cables: colltool fabric show",
    "prices": "it counts money: colltool fabric show",
    "energy": "it is for energy_J",
    "max_size": "it bounds size, and no time depends on it",
}


class SchedulePrice(NamedTuple):
    """The price of a schedule (``row``) with what it is a price of; ``size`` in bytes."""

    primitive: Primitive
    size: float
    group: AnyGroup
    readings: ModelOptions
    row: AlgorithmEstimate

    def seconds_on(self, fabric: Fabric) -> float:
        """The same schedule's price on another fabric."""
        only = [self.row.spec]
        priced = price(fabric, self.primitive, self.size, self.group, self.readings, only)
        return float(priced.best.total_s)


class AgainstFile(NamedTuple):
    """A price beside that with the fabric file's own values.

    Args:
        inert: overrides that do not change it, in the user's order.
        as_filed_s: seconds with the file's values; None if other than numbers were set, since words
            and counts change what is asked.
    """

    inert: tuple[Inert, ...] = ()
    as_filed_s: float | None = None


def against_file(fabric: Fabric, priced: SchedulePrice) -> AgainstFile:
    """What the overrides of a fabric do to a price; nothing without overrides, and of a schedule of
    the user's own."""
    # None where nothing was set
    filed = fabric.as_filed
    if filed is None or priced.row.status == "own":
        return AgainstFile()
    changes = _file_values(SameFabric(fabric), SameFabric(filed))
    # by key, those whose values are numbers; empty of a key whose value is the file's own
    numbers = {key: changed for key, changed in changes.items() if _are_numbers(changed)}
    set_s = filed_s = None
    if numbers:
        set_s = priced.seconds_on(fabric)
    if len(numbers) == len(changes):
        filed_s = priced.seconds_on(filed)
    inert = []
    for key in changes:
        purpose = _other_purpose(key)
        if purpose is not None:
            inert.append(Inert(key, purpose))
        elif key in numbers:
            # seconds with this key alone put back; of a single key all are
            alone_s = filed_s
            if alone_s is None or len(changes) > 1:
                alone_s = priced.seconds_on(with_values(fabric, numbers[key]))
            if alone_s == set_s:
                changed_place = next(iter(numbers[key]))
                placed = place(fabric, priced.group)
                reason = _reason(changed_place, fabric, placed, priced.readings, priced.row)
                inert.append(Inert(key, reason))
    return AgainstFile(tuple(inert), filed_s)


@lru_cache(maxsize=16)
def _file_values(set_on: SameFabric, filed: SameFabric) -> dict[str, dict[Place, Any]]:
    """The file's values of each overridden key and of all keys below it, where they differ."""
    filed_values = values_of(filed.fabric)
    fabric = set_on.fabric
    set_values = values_of(fabric)
    names = keys_of(fabric)
    changes: dict[str, dict[Place, Any]] = {}
    for key, _ in fabric.overrides:
        changes[key] = {}
        for place_in_fabric, name in names.items():
            is_key_or_below = name == key or name.startswith(f"{key}.")
            if not is_key_or_below or place_in_fabric not in filed_values:
                continue
            if filed_values[place_in_fabric] != set_values[place_in_fabric]:
                changes[key][place_in_fabric] = filed_values[place_in_fabric]
    return changes


def _are_numbers(changed: dict[Place, Any]) -> bool:
    """Whether there are values, and all are quantities: words and counts change what is asked."""
    if not changed:
        return False
    return all(isinstance(value, float) for value in changed.values())


def _other_purpose(key: str) -> str | None:
    """What a key is for if no time depends on it, else None."""
    parts = key.split(".")
    return next((reason for part, reason in _FOR_OTHER_ANSWERS.items() if part in parts), None)


def _reason(
    place_in_fabric: Place,
    fabric: Fabric,
    placed: PlacedGroup,
    readings: ModelOptions,
    estimate: AlgorithmEstimate,
) -> str:
    """Why a number at a place of the fabric, such as ``("tiers", 1, "eta", "alpha")``, does not change
    a price."""
    if place_in_fabric[0] != "tiers":
        return (
            "ideal leaves launches out" if readings.ideal else f"{estimate.title} does not pay it"
        )
    tier = fabric.tiers[int(place_in_fabric[1])]
    field = [str(step) for step in place_in_fabric[2:]]
    if tier.name not in [span.tier.name for span in placed.spans]:
        spanned = ", ".join(span.tier.name for span in placed.spans)
        return f"nothing crosses {tier.name}: {placed.ranks} ranks lie on {spanned} alone"
    if field[0] == "eta" and readings.ideal:
        return "ideal leaves contention out"
    phases = [phase for phase in estimate.phases if phase.tier == tier.name]
    if field[0] == "levels":
        return _reason_of_level(int(field[1]), field[2], tier, placed, estimate)
    in_switch = bool(phases) and all(phase.algorithm == "in-network" for phase in phases)
    if field[0] == "in_network":
        return f"{estimate.title} computes nothing in the switches of {tier.name}"
    if in_switch and field[0] in ("alpha", "eta"):
        switch_field = "alpha_switch" if "alpha" in field else "eta_beta"
        return (
            f"{estimate.title} runs in the switches of {tier.name}, which have a number of their own:"
            f" {tier.name}.in_network.{switch_field}"
        )
    if field[0] == "post":
        return f"{estimate.title} posts one message at a time on {tier.name}"
    return _reason_hidden(tier, estimate)


def _reason_of_level(
    number: int, field: str, tier: Tier, placed: PlacedGroup, estimate: AlgorithmEstimate
) -> str:
    """Why a field of a tier's level, such as its oversubscription, does not change a price."""
    span = next(span for span in placed.spans if span.tier.name == tier.name)
    classes = capabilities_of(tier).classes
    name = classes[number].name
    below = classes[number - 1].group if number else 0
    if span.endpoints * span.occupancy.stride <= below:
        return (
            f"no two members meet at {name}: {span.endpoints} endpoints lie under one"
            f" {classes[number - 1].name}"
        )
    if field == "oversubscription":
        return f"too few flows of {estimate.title} cross to {name} at once for its uplinks to bind"
    return f"{estimate.title} waits for no message that meets at {name}"


def _reason_hidden(tier: Tier, estimate: AlgorithmEstimate) -> str:
    """Why the bandwidth of a tier does not change a price: other bytes, of another tier or of an
    oversubscribed level, take longer meanwhile."""
    by_tier: dict[str, float] = defaultdict(float)
    for phase in estimate.phases:
        by_tier[phase.tier] += float(phase.bandwidth_s)
    slowest = max(by_tier, key=lambda name: by_tier[name], default=tier.name)
    if slowest != tier.name:
        return (
            f"phases of {estimate.title} stream, and the bytes of {slowest} take longer than those of"
            f" {tier.name}"
        )
    if any(float(phase.share) < 1 for phase in estimate.phases if phase.tier == tier.name):
        return f"oversubscription leaves {tier.name} less than that"
    return f"{estimate.title} does not pay it"
