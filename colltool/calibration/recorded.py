"""What a fit found, put into a fabric's data: algorithms, the switch's numbers, and protocols for the tiers inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from colltool.base.primitives import Primitive
from colltool.calibration.account import source_of
from colltool.calibration.candidates import IN_SWITCH
from colltool.calibration.entries import switch_update
from colltool.calibration.placement import check_fits
from colltool.calibration.results import Fitted
from colltool.calibration.sample import name_inside
from colltool.calibration.select import Chosen
from colltool.estimate.assumptions import Readings
from colltool.estimate.candidates import named_candidates
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of


def note_algorithms(tier_data: dict[str, Any], chosen: Chosen) -> None:
    """What the library runs of a collective."""
    listed: Mapping[str, Any] = tier_data.get("algorithms") or {}
    primitive = chosen.members[0].series.primitive
    tier_data["algorithms"] = {**listed, str(primitive): list(chosen.algorithms)}


def note_switch(tier_data: dict[str, Any], fabric: Fabric, chosen: Chosen, last: Fitted) -> None:
    """What the switch does, where it was measured; ``last`` is the protocol that it runs under beside other algorithms."""
    if IN_SWITCH not in chosen.algorithms:
        return
    series = chosen.members[0].series
    costed = named_candidates(check_fits(fabric, series), series.primitive, Readings(), [IN_SWITCH])[0]
    update = switch_update(chosen, sum(part.cost.n_alpha for part in costed.parts), last.eta_beta or 1.0)
    if "protocols" in update:
        update["protocols"] = [last.name]
    switch = {key: value for key, value in tier_data["in_network"].items() if key != "eta_beta"}
    own = {str(series.primitive): update["eta_beta"]} if "eta_beta" in update else {}
    if others := _others_eta(fabric, tier_data["name"], series.primitive):
        (update if own else switch)["eta_beta"] = own | others
    said = switch.get("source")
    measured = source_of([member.series for member in chosen.members], chosen.algorithms)
    kept = said if isinstance(said, dict) else {"in_network": said} if said else {}
    source = {key: text for key, text in kept.items() if key != "eta_beta" or key in switch}
    tier_data["in_network"] = {**switch, **update, "source": {**source, **dict.fromkeys(update, measured)}}


def _others_eta(fabric: Fabric, tier: str, primitive: Primitive) -> dict[str, float]:
    """The switches' bandwidth coefficients of what was not measured, by primitive."""
    spec = next(capabilities_of(one).in_network for one in fabric.tiers if one.name == tier)
    return {str(other): value for other, value in (spec.own_eta if spec else {}).items() if other is not primitive}


def complete_inner(data: dict[str, Any]) -> None:
    """Give tiers that list protocols one under each name of the tiers outside them: one holds throughout a call.

    It is the one that a call ran under there when the outer tier was fitted.
    """
    for index, inner in enumerate(data["tiers"]):
        listed = inner.get("protocols") or []
        for scope in dict.fromkeys(tuple(entry.get("primitives") or ()) for entry in listed):
            same = [entry for entry in listed if tuple(entry.get("primitives") or ()) == scope]
            own = {entry["name"]: entry for entry in same}
            inside = _inside(data["tiers"][index + 1 :], scope, list(own))
            inner["protocols"] = [*inner["protocols"], *({**own[theirs], "name": name} for name, theirs in inside.items())]
            switch = inner.get("in_network") or {}
            if (under := switch.get("protocols")) is not None:  # the switch runs under what stands for its own
                also = [name for name, theirs in inside.items() if theirs in under and name not in under]
                inner["in_network"] = {**switch, "protocols": [*under, *also]}


def _inside(outer: Sequence[Mapping[str, Any]], scope: Sequence[str], own: Sequence[str]) -> dict[str, str]:
    """Names of outer tiers that an inner one lacks, and which of its own stands for each; the innermost tier speaks first."""
    found: dict[str, str] = {}
    for tier in outer:
        by_scope: dict[tuple[str, ...], list[str]] = {}
        for entry in tier.get("protocols") or ():
            by_scope.setdefault(tuple(entry.get("primitives") or ()), []).append(entry["name"])
        for theirs, names in by_scope.items():
            if not theirs or not scope or set(theirs) & set(scope):
                inside = (name_inside(name, place, len(names), own) for place, name in enumerate(names))
                found = dict(zip(names, inside, strict=True)) | found
    return {name: one for name, one in found.items() if name not in own}
