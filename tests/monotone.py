"""What may only make a collective slower, and the few honest exceptions: gates that every fabric's
prices are held against.

At the same bytes a rank: more ranks, a larger message, less bandwidth, more latency, a thinner
spine, a library that runs less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import place
from colltool.estimate.placement import fits
from colltool.estimate.price import price
from colltool.fabric.library_numbers import under_library
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.routed_tiers import DragonflyPlusTier, DragonflyTier, GraphTier, HyperXTier
from colltool.fabric.tiers import ClosTier, FullMeshTier, LatticeTier
from colltool.fabric.topology import capabilities_of

SIZES = np.array([1e2, 1e4, 1e6, 16e6, 256e6, 1e10])
_DUST = 1e-9


class Leading(NamedTuple):
    """The fastest of what the fabric's library runs, at each of :data:`SIZES`."""

    seconds: NDArray[np.float64]
    specs: tuple[str, ...]


class Step(NamedTuple):
    """From few to many ranks, and what is fastest on either side."""

    where: Fabric
    few: int
    many: int
    before: str
    after: str
    readings: ModelOptions

    def spans(self, ranks: int) -> dict[str, int]:
        """The members in a domain of each tier."""
        return {span.tier.name: span.endpoints for span in place(self.where, ranks).spans}

    def grows(self, kind: type[Tier]) -> bool:
        """Whether a tier of a kind holds more members in the larger group."""
        before, after = self.spans(self.few), self.spans(self.many)
        return any(
            isinstance(t, kind) and after.get(t.name, 1) > before.get(t.name, 1)
            for t in self.where.tiers
        )


class Exempt(NamedTuple):
    """A case in which more ranks are honestly faster: why, and whether a step is one."""

    reason: str
    applies: Callable[[Step], bool]


def _copies(where: Fabric) -> bool:
    return any(one.local_copy is not None for tier in where.tiers for one in tier.protocols or ())


def _listed(step: Step) -> bool:
    """Whether the smaller group is bound to what its only tier lists, and the larger spans more."""
    lists = step.where.tiers[0].algorithms or {}
    return len(step.spans(step.few)) == 1 < len(step.spans(step.many)) and step.before in {
        n for one in lists.values() for n in one
    }


_DOUBLING = ("recursive-doubling", "recursive-halving", "rabenseifner", "bruck", "pat")

EXEMPT = (
    Exempt(
        "of domains that differ the last may hold a few ranks: each more is a rail more, by which"
        " all rings go",
        lambda step: bool(place(step.where, step.few).domains),
    ),
    Exempt("a rank of a larger full mesh has more links", lambda step: step.grows(FullMeshTier)),
    Exempt(
        "a longer slice of a lattice closes an axis to a ring or gets another axis: more links a"
        " rank",
        lambda step: step.grows(LatticeTier),
    ),
    Exempt(
        "a larger group of a tier that is routed link by link meets more links, and has other ways",
        lambda step: any(
            step.grows(kind) for kind in (GraphTier, HyperXTier, DragonflyTier, DragonflyPlusTier)
        ),
    ),
    Exempt(
        "recursive doubling, halving and their kin are made for powers of two: others take a round"
        " more, or another schedule",
        lambda step: (
            bool(step.few & (step.few - 1))
            and any(name in step.after + step.before for name in _DOUBLING)
        ),
    ),
    Exempt(
        "a root's chains leave it by its links and, once there are more nodes, by its NIC as well",
        lambda step: (
            "multi-rail-chain" in step.after
            and any(isinstance(tier, FullMeshTier) for tier in step.where.tiers)
        ),
    ),
    Exempt(
        "hosts send over their memory and their NIC at once, and the one is no faster than the"
        " other",
        lambda step: (
            len(step.spans(step.many)) > len(step.spans(step.few))
            and step.where.tiers[0].bandwidth <= step.where.tiers[-1].bandwidth
        ),
    ),
    Exempt(
        "what a tier lists as run by its library holds inside it: over several tiers another"
        " schedule may run",
        _listed,
    ),
    Exempt(
        "a rank's own share, M/N, is copied at a rate of its own: less of it on more ranks",
        lambda step: (
            _copies(step.where) and (step.before == step.after or step.after == "in-network")
        ),
    ),
    Exempt(
        "scattered ranks are counted whole: of 11 another one sits in one's own leaf than of 8, and"
        " less crosses",
        lambda step: step.readings.placement == "scattered",
    ),
    Exempt(
        "a library's tree is over the outermost tier: one tier more may stream what ran in turn, or"
        " make a ring of a tree",
        lambda step: (
            "double-binary-tree" in step.before + step.after
            and len(step.spans(step.many)) > len(step.spans(step.few)) > 1
        ),
    ),
    Exempt(
        "the edges of a double binary tree that leave a leaf are counted: over thin uplinks some"
        " counts of ranks have fewer",
        lambda step: (
            "double-binary-tree" in step.after
            and any(len(capabilities_of(tier).reached) > 1 for tier in step.where.tiers)
        ),
    ),
)
"""The table of exceptions. A row more needs a reason that is physics, or how the library is."""


def leading(
    where: Fabric, primitive: Primitive, ranks: int, readings: ModelOptions | None = None
) -> Leading | None:
    """None where the library runs nothing."""
    try:
        rows = price(where, primitive, SIZES, ranks, readings).leading
    except ColltoolError:
        return None
    if not rows:
        return None
    totals = np.stack([np.broadcast_to(row.total_s, SIZES.shape) for row in rows])
    return Leading(totals.min(axis=0), tuple(rows[index].spec for index in totals.argmin(axis=0)))


def counts(where: Fabric, most: int = 8) -> list[int]:
    """Rank counts that fit, small and large."""
    found = [n for n in range(2, min(where.ranks, 96) + 1) if fits(where, n)]
    found += [n for n in range(128, where.ranks, 64) if fits(where, n)]
    step = max(1, len(found) // most)
    return sorted({*found[::step], *_ends(where)})


def _ends(where: Fabric) -> Iterator[int]:
    inside = 1
    for tier in where.tiers:
        inside *= tier.endpoints
        yield inside


def fewer_faster(
    where: Fabric, primitive: Primitive, readings: ModelOptions | None = None, most: int = 8
) -> tuple[list[str], list[str]]:
    """Steps to more ranks, and to more bytes, that make it faster: those without an excuse, and the
    reasons of the others."""
    broken, excused = [], []
    priced = [
        (n, found) for n in counts(where, most) if (found := leading(where, primitive, n, readings))
    ]
    for n, found in priced:
        if (np.diff(found.seconds) < -_DUST * found.seconds[1:]).any():
            broken.append(
                f"{primitive} on {n} of {where.name}: a larger message is faster, {found.seconds}"
            )
    for (few, before), (many, after) in pairwise(priced):
        for index in np.flatnonzero(after.seconds < before.seconds * (1 - _DUST)):
            step = Step(
                where,
                few,
                many,
                before.specs[index],
                after.specs[index],
                readings or ModelOptions(),
            )
            reason = next((one.reason for one in EXEMPT if one.applies(step)), "")
            ratio = after.seconds[index] / before.seconds[index]
            said = (
                f"{primitive} of {SIZES[index]:g} B, {few} to {many} of {where.name}: {ratio:.3f},"
                f" {step.before} -> {step.after}"
            )
            (excused if reason else broken).append(reason or said)
    return broken, excused


def better(where: Fabric) -> Iterator[tuple[str, Fabric]]:
    """The fabric with more bandwidth, less latency or an even spine, tier by tier."""
    for at, tier in enumerate(where.tiers):
        yield f"3 x bandwidth of {tier.name}", _put(where, at, _scaled(tier, "bandwidth", 3.0))
        yield f"a third of alpha of {tier.name}", _put(where, at, _less_alpha(tier))
        if isinstance(tier, ClosTier) and tier.levels:
            even = tuple(
                level.model_copy(update={"oversubscription": 1.0}) for level in tier.levels
            )
            yield f"{tier.name} at 1:1", _put(where, at, {"levels": even})


def _put(where: Fabric, at: int, update: dict[str, Any]) -> Fabric:
    tiers = list(where.tiers)
    tiers[at] = tiers[at].model_copy(update=update)
    return where.model_copy(update={"tiers": tuple(tiers)})


def _scaled(tier: Tier, name: str, factor: float) -> dict[str, Any]:
    """A number of the tier and of its protocols."""
    listed = tuple(
        (
            one.model_copy(update={name: factor * value})
            if (value := getattr(one, name)) is not None
            else one
        )
        for one in tier.protocols or ()
    )
    own = getattr(tier, name)
    return ({} if own is None else {name: factor * own}) | ({"protocols": listed} if listed else {})


def _less_alpha(tier: Tier) -> dict[str, Any]:
    found = _scaled(tier, "alpha", 1 / 3)
    if isinstance(tier, ClosTier) and tier.levels:
        found |= {
            "levels": tuple(
                level.model_copy(update={"alpha": level.alpha / 3}) for level in tier.levels
            )
        }
    return found


def slower_when_better(
    where: Fabric, primitive: Primitive, ranks: int, readings: ModelOptions | None = None
) -> list[str]:
    """Changes for the better that make it slower."""
    broken = _slower(where, better(where), primitive, ranks, readings)
    if not any(tier.protocols for tier in where.tiers):  # those are one library's, measured
        own = where.without_machine()
        any_library = [("any library", under_library(own, "all"))]
        broken += _slower(own, any_library, primitive, ranks, readings)
    return broken


def _slower(
    where: Fabric,
    changes: Iterable[tuple[str, Fabric]],
    primitive: Primitive,
    ranks: int,
    readings: ModelOptions | None,
) -> list[str]:
    before = leading(where, primitive, ranks, readings)
    if before is None:
        return []
    broken = []
    for what, changed in changes:
        after = leading(changed, primitive, ranks, readings)
        assert after is not None, f"{what} leaves nothing to run"
        if (after.seconds > before.seconds * (1 + _DUST)).any():
            worst = int(np.argmax(after.seconds / before.seconds))
            ratio = after.seconds[worst] / before.seconds[worst]
            broken.append(
                f"{what}: {primitive} of {SIZES[worst]:g} B on {ranks} of {where.name} takes"
                f" {ratio:.4f} of the time"
            )
    return broken


def ordered(where: Fabric) -> Fabric:
    """The fabric as people build them, without protocols: each tier outwards has less bandwidth and
    more latency.

    Else a larger group is honestly faster: it alone reaches the faster tier, or has its ports
    beside those inside.
    """
    tiers: list[Tier] = []
    for tier in where.tiers:
        update: dict[str, Any] = {"protocols": None}
        if tiers:
            inner, own = capabilities_of(tiers[-1]), capabilities_of(tier)
            slowest = (
                tiers[-1].bandwidth
                * tiers[-1].ports
                * tiers[-1].eta.beta
                / max(one.oversubscription for one in inner.reached)
            )
            longest = (
                max(one.alpha_s for one in inner.reached)
                * tiers[-1].eta.alpha
                * max(1, inner.diameter_links)
            )
            update["bandwidth"] = min(tier.bandwidth, slowest / 4 / tier.ports)
            update |= own.at_alpha(max(longest, own.reached[0].alpha_s))
        tiers.append(tier.model_copy(update=update))
    return where.model_copy(update={"tiers": tuple(tiers)})
