"""Warnings about a fabric file: values that are valid and hardly ever meant.

:func:`lint` checks each number against its usual range (:mod:`colltool.fabric.usual_ranges`), and
numbers against each other (:mod:`colltool.fabric.contradictions`); :func:`check_fabric` places the
warnings in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from colltool.base.formatting import format_count, format_rate, format_time
from colltool.definitions.source import KeyPath, value_at
from colltool.fabric.contradictions import contradictions
from colltool.fabric.library_numbers import with_library_numbers
from colltool.fabric.load import FabricSource, fabric_reading
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.usual_ranges import (
    ALPHA_S,
    ETA_ALPHA,
    ETA_BETA,
    INSIDE_BPS,
    NETWORK_BPS,
    OVERHEAD_S,
    OVERSUBSCRIPTION,
    PORT_GBPS,
    SWITCH_ALPHA_S,
    LintWarning,
    UsualRange,
    unusual,
)

# Steps of the path to a number of a tier: tiers, 0, alpha.
_TIER_NUMBER_STEPS = 3


class CheckedFabric(NamedTuple):
    """A valid fabric file by the name that was typed, and its warnings."""

    file: str
    fabric: Fabric
    warnings: tuple[LintWarning, ...]


def check_fabric(fabric: FabricSource, name: str = "") -> CheckedFabric:
    """Load a fabric and return it with its warnings in the order of the file; ``name``: of the
    result, default: as typed."""
    reading = fabric_reading(fabric)
    loaded = with_library_numbers(reading.result())
    source = reading.source
    warnings = lint(loaded, reading.data)
    warnings.sort(key=lambda warning: source.position(warning.path))
    placed = []
    for warning in warnings:
        where = source.at(warning.path)
        placed.append(warning._replace(where=where))
    return CheckedFabric(name or str(fabric), loaded, tuple(placed))


def lint(fabric: Fabric, written: dict[str, Any]) -> list[LintWarning]:
    """Return the warnings about a fabric; ``written``: its data as the file has it, to find wrong
    units."""
    # keys and structure as in a file, values in SI units
    data = fabric.model_dump(by_alias=True, exclude_none=True)
    for tier, numbers in zip(fabric.tiers, data["tiers"], strict=True):
        # in place of each level's own ratio its total; a tier without levels has one class or more
        classes = capabilities_of(tier).classes
        for level, distance in zip(numbers.get("levels", ()), classes, strict=False):
            level["oversubscription"] = distance.oversubscription
    warnings = list(unusual(data, ("launch_overhead",), OVERHEAD_S, format_time))
    warnings += _schema_1(fabric)
    for index, numbers in enumerate(data["tiers"]):
        path = ("tiers", index)
        warnings += _tier_bandwidth(data, index)
        if index == 0:
            is_only_tier = len(data["tiers"]) == 1
            rate_path = (*path, "bandwidth")
            rate = value_at(rate_path, written)
            warnings += _rate_in_bits(rate_path, rate, is_only_tier=is_only_tier)
        warnings += _tier_parts(data, path)
        warnings += _switch_levels(path, numbers)
    # a number of a tier (tiers, 0, alpha) that is unusual by itself also contradicts others: reported once
    reported = {warning.path[-1] for warning in warnings}
    for warning in contradictions(fabric):
        if len(warning.path) > _TIER_NUMBER_STEPS or warning.path[-1] not in reported:
            warnings.append(warning)
    return warnings


def _tier_bandwidth(data: dict[str, Any], index: int) -> Iterator[LintWarning]:
    """A warning about a bandwidth that no link of this place has: inside a node for the first tier, a
    network for others, either for an only tier."""
    tiers = data["tiers"]
    rate = INSIDE_BPS
    if len(tiers) == 1:  # one tier may be either
        why = f"{NETWORK_BPS.why}; {INSIDE_BPS.why}"
        rate = UsualRange(NETWORK_BPS.least, INSIDE_BPS.most, why)
    elif index > 0:  # a scale-up of two levels: no faster than what it joins
        most = max(NETWORK_BPS.most, tiers[0]["bandwidth"])
        rate = NETWORK_BPS._replace(most=most)
    yield from unusual(data, ("tiers", index, "bandwidth"), rate, format_rate)


def _tier_parts(data: dict[str, Any], path: KeyPath) -> Iterator[LintWarning]:
    """Warnings about unusual latencies, overheads and contention of the tier at a path, of its levels and
    of its protocols."""
    tier = value_at(path, data)
    parts = [path]
    for key in ("levels", "protocols"):
        parts += [(*path, key, number) for number in range(len(tier.get(key, ())))]
    for part in parts:
        alpha = ALPHA_S
        beta = ETA_BETA
        if "protocols" in part:
            # where sizes do not tell alpha from the launch overhead, a fit leaves it at 0; of LL a
            # fit may find latency alone
            alpha = alpha._replace(least=0.0)
            beta = beta._replace(least=0.0)
        numbers: list[tuple[KeyPath, UsualRange, Callable[[float], str]]] = [
            (("alpha",), alpha, format_time),
            (("launch_overhead",), OVERHEAD_S, format_time),
            (("oversubscription",), OVERSUBSCRIPTION, format_count),
            (("eta", "alpha"), ETA_ALPHA, format_count),
            (("eta", "beta"), beta, format_count),
        ]
        for keys, usual, words in numbers:
            yield from unusual(data, (*part, *keys), usual, words)
    yield from unusual(data, (*path, "in_network", "alpha_switch"), SWITCH_ALPHA_S, format_time)


def _switch_levels(path: KeyPath, tier: dict[str, Any]) -> Iterator[LintWarning]:
    """A warning about more levels of switches that reduce than the tier has; one without levels has
    one."""
    reducing = value_at(("in_network", "levels"), tier)
    levels = len(tier.get("levels", (tier,)))
    if reducing is not None and reducing > levels:
        what = f"reduces in {reducing} levels of switches, the tier has {levels}"
        why = "a switch reduces once; leave it out to have them counted"
        yield LintWarning((*path, "in_network", "levels"), what, why)


def _schema_1(fabric: Fabric) -> Iterator[LintWarning]:
    """A warning about the form of schema /1, once, at the first tier with protocols."""
    for index, tier in enumerate(fabric.tiers):
        if tier.protocols:
            what = "a form that is read for one more version, schema /1"
            why = (
                "give the tier its medium under schema colltool.fabric/2; rows of your own:"
                " colltool calibrate"
            )
            yield LintWarning(("tiers", index, "protocols"), what, why)
            return


def _rate_in_bits(path: KeyPath, written: Any, *, is_only_tier: bool) -> Iterator[LintWarning]:
    """A warning about a rate in bits where bytes are usual: 900Gb/s is an eighth of what was meant. An only
    tier may be a network, whose ports are sold in bits. ``written``: the value as the file has it."""
    if not isinstance(written, str):
        return
    text = written.strip()
    if not text.endswith(("bps", "b/s")):
        return
    number = text.removesuffix("bps").removesuffix("b/s").rstrip()
    sold = set()
    for rate_Gbps in PORT_GBPS:
        sold |= {f"{rate_Gbps}G", f"{rate_Gbps / 1000:g}T"}
    if not (is_only_tier and number in sold):
        why = "links inside a node or rack are quoted in bytes, GB/s; network ports in bits"
        yield LintWarning(path, f"{text} is in bits, an eighth of as many bytes", why)
