"""Domains of different sizes: which fabrics can have them, and the error of what needs equal ones.

The outer of two tiers lists the ranks of each domain under ``domains`` (``Tier.uneven``, empty where all
are alike). The tier inside is a domain, of which the largest fills its ``endpoints``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from colltool.base.errors import ColltoolError, argument_text
from colltool.definitions.field_types import FieldError

if TYPE_CHECKING:
    from colltool.fabric.model import Fabric, Tier

# Topologies of a domain in which the ranks that a smaller one lacks take nothing from the others; any
# other is refused.
INSIDE = ("star", "full_mesh")
# Topologies that can join domains of different sizes.
OUTSIDE = ("star", "clos")


def domains_text(domains: Sequence[int]) -> str:
    """Return the ranks of domains as ``64 + 2x72``, in the order in which each number first occurs."""
    counts = Counter(domains).items()
    return " + ".join(f"{count}x{ranks}" if count > 1 else str(ranks) for ranks, count in counts)


def domain_errors(tiers: Sequence[Tier]) -> Iterator[FieldError]:
    """Yield an error for each tier that cannot list its domains, at its key path."""
    for number, tier in enumerate(tiers):
        if tier.uneven:
            problem = _domains_error(tiers, number)
            if problem:
                yield FieldError(*problem, ("tiers", number, "domains"))


def _domains_error(tiers: Sequence[Tier], number: int) -> tuple[str, str] | None:
    """Why a tier cannot list its domains, and what to write. None if it can."""
    tier = tiers[number]
    if number != 1 or len(tiers) != 2:
        return (
            "domains of different sizes are joined by the outer of two tiers, and this is tier"
            f" {number + 1} of {len(tiers)}",
            "leave domains out, or write a fabric of two tiers and give them to the second",
        )
    inner = tiers[0]
    problem = _wrong_topology(inner, INSIDE) or _wrong_topology(tier, OUTSIDE)
    if problem:
        return problem
    count = len(tier.uneven)
    if count != tier.endpoints:
        return (
            f"lists {count} domains, the tier has a size of {tier.endpoints}",
            f"size: {count}, or one for each",
        )
    most = max(tier.uneven)
    if most > inner.endpoints:
        return (
            f"a domain of {most} ranks is larger than '{inner.name}', which joins"
            f" {inner.endpoints}",
            f"give {inner.name} the size of the largest domain: size: {most}",
        )
    if tier.rail_only:
        return (
            "on rails that never meet, ranks that a smaller domain lacks have nobody to talk to",
            "leave out domains, or rails: only",
        )
    for either_tier in tiers:
        # only stars and Clos tiers have the key
        planes = getattr(either_tier, "planes", None)
        if planes is not None and planes.spread == "ecmp":
            return (
                f"flows of '{either_tier.name}' are hashed to planes, which is not modelled between"
                " domains of different sizes",
                "write spread: spray, or leave out domains",
            )
    return None


def _wrong_topology(tier: Tier, known: Sequence[str]) -> tuple[str, str] | None:
    """Why a tier of a topology that is not among those known cannot have part in it, and what to write.
    None if it is among them."""
    topology = tier.topology
    if topology in known:
        return None
    return (
        f"'{tier.name}' is a {topology}: domains of different sizes are modelled where it is one of"
        f" {', '.join(known)}",
        f"leave domains out, or take topology: {known[0]}",
    )


def check_even(fabric: Fabric) -> None:
    """Raise an error if domains differ in size, for code that assumes equal ones."""
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
    """Return the override, as an error writes it, that leaves each domain as many ranks as the smallest
    has."""
    fewest = min(fabric.domains)
    sizes = ",".join([str(fewest)] * len(fabric.domains))
    return argument_text("overrides", [f"{fabric.tiers[-1].name}.domains=[{sizes}]"])
