"""Domains of different sizes: what the tier that joins them may say, and who cannot do with
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from colltool.base.errors import ColltoolError, given
from colltool.definitions.field_types import Slip
from colltool.fabric.tier_base import TierBase

if TYPE_CHECKING:
    from colltool.fabric.model import Fabric

_INSIDE, _OUTSIDE = ("star", "full_mesh"), ("star", "clos")
"""Topologies in which ranks that are missing take nothing from the others."""


def domains_text(domains: Sequence[int]) -> str:
    """Such as ``64 + 2x72``."""
    return " + ".join(
        f"{count}x{ranks}" if count > 1 else str(ranks) for ranks, count in Counter(domains).items()
    )


def domain_slips(tiers: Sequence[TierBase]) -> list[Slip]:
    """What is wrong with the tiers that list their domains, placed from ``tiers`` on."""
    return [
        slip
        for at, tier in enumerate(tiers)
        if tier.uneven and (slip := _slip(tiers, at)) is not None
    ]


def _slip(tiers: Sequence[TierBase], at: int) -> Slip | None:
    tier, here = tiers[at], ("tiers", at, "domains")
    if at != 1 or len(tiers) != 2:
        what = (
            "domains of different sizes are joined by the outer of two tiers, and this is tier"
            f" {at + 1} of {len(tiers)}"
        )
        return Slip(
            what,
            "leave domains out, or write a fabric of two tiers and give them to the second",
            here,
        )
    inner, count = tiers[0], len(tier.uneven)
    for one, known in ((inner, _INSIDE), (tier, _OUTSIDE)):
        if (topology := getattr(one, "topology", "")) not in known:
            what = (
                f"'{one.name}' is a {topology}: domains of different sizes are modelled where it is"
                f" one of {', '.join(known)}"
            )
            return Slip(what, f"leave domains out, or take topology: {known[0]}", here)
    if count != tier.endpoints:
        return Slip(
            f"lists {count} domains, the tier has a size of {tier.endpoints}",
            f"size: {count}, or one for each",
            here,
        )
    if (most := max(tier.uneven)) > inner.endpoints:
        what = (
            f"a domain of {most} ranks is larger than '{inner.name}', which joins {inner.endpoints}"
        )
        return Slip(what, f"give {inner.name} the size of the largest domain: size: {most}", here)
    if tier.rail_only:
        what = "on rails that never meet, ranks that a smaller domain lacks have nobody to talk to"
        return Slip(what, "leave out domains, or rails: only", here)
    if hashed := next(
        (one for one in tiers if getattr(getattr(one, "planes", None), "spread", "") == "ecmp"),
        None,
    ):
        what = (
            f"flows of '{hashed.name}' are hashed to planes, which is not modelled between domains"
            " of different sizes"
        )
        return Slip(what, "write spread: spray, or leave out domains", here)
    return None


def check_even(fabric: Fabric) -> None:
    """Refuse a fabric whose domains differ in size, for all that counts by domains of one size."""
    if not fabric.domains:
        return
    what = (
        f"the domains of {fabric.name} have {domains_text(fabric.domains)} ranks; this is answered"
        " for domains of one size"
    )
    fix = (
        f"price and verify take it as it is; with {min(fabric.domains)} ranks of each:"
        f" {even_domains(fabric)}"
    )
    raise ColltoolError(what, argument="fabric", fix=fix)


def even_domains(fabric: Fabric) -> str:
    """What to type for as many ranks of each domain as the smallest has."""
    return given(
        "overrides",
        [
            f"{fabric.tiers[-1].name}.domains=[{','.join([str(min(fabric.domains))] * len(fabric.domains))}]"
        ],
    )
