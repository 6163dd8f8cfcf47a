"""The interval that nine of ten measurements of a price lie in: the question as :mod:`colltool.estimate.spread` takes it.

ln t = ln price +- kappa sigma. A price by datasheets alone has a shift of its own as well, and its interval is not symmetric.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, hypot, inf, isfinite, log, log2, sqrt
from typing import Any, Literal, NamedTuple

from colltool.base.formatting import size_text
from colltool.base.primitives import Primitive, parse_primitive
from colltool.estimate.assumptions import Readings
from colltool.estimate.groups import MachineSpread, PlacedGroup, machine_spread, place
from colltool.estimate.placement import AnyGroup
from colltool.estimate.spread import (
    Distance,
    ErrorQuestion,
    MeasuredPlace,
    PriceSpread,
    by_size,
    comparable,
    index,
    law,
    spread_of,
)
from colltool.fabric.ground import before_overrides
from colltool.fabric.model import Fabric, Tier

SHARE = 0.9
"""Of measurements, that lie inside an interval."""
NO_INTERVAL = "exact: an ideal price is the model's own arithmetic, and no measurement is compared with it"
SEVERAL = "an array of sizes: price_list gives each size its interval"
FEWEST_IN_A_RACK = 17
"""Ranks of a domain that is more than a node."""

_SHAPE = frozenset({
    "size", "shape", "wrap", "twist", "group", "domains", "max_size", "sizing", "slices", "cube", "planes", "rails", "name",
    "topology", "medium", "device", "library", "prices", "cable", "energy", "source", "notes", "description", "uncertainty",
})  # fmt: skip
"""Parts of keys that say what machine it is, not how fast: changing them changes which rows are near."""

Basis = Literal["measured", "interpolated", "extrapolated", "other machine", "changed", "datasheet", "announced", "exact"]

GENERATIONS = {
    "a100-40gb": "ampere", "a100-80gb": "ampere", "a800": "ampere",
    "h100": "hopper", "h200": "hopper", "h800": "hopper", "h20": "hopper", "gh200": "hopper",
    "b200": "blackwell", "gb200": "blackwell", "b300": "blackwell", "gb300": "blackwell",
    "mi300x": "cdna3", "mi325x": "cdna3", "mi355x": "cdna4",
}  # fmt: skip
"""Devices whose collectives run alike: NCCL has one set of constants for Blackwell and Blackwell Ultra."""
_AMD = ("mi",)
_NETWORKS = {
    "slingshot": "slingshot", "efa": "efa", "tcpx": "tcpx", "roce": "roce", "qsfp": "roce", "ethernet": "roce",
    "ib": "ib", "infiniband": "ib", "hdr": "ib", "ndr": "ib", "xdr": "ib",
}  # fmt: skip
"""Media between nodes, by how a tier's name begins."""
_INSIDE = ("nvlink", "xgmi", "pcie")
"""Media inside a node, by how a tier's name begins."""


class Interval(NamedTuple):
    """Where nine of ten measurements of a price lie, in seconds.

    Args:
        rows: measured rows like it: of such a machine and collective, near it in ranks and size.
        basis: what it rests on, a stable word.
        parts: of the standard deviation of ln(measured / price) by name, largest first; their squares add up, but for the
            ``shift`` of a datasheet's prices, by which both ends move.
        nearest: the nearest measured row in words; None where no row can speak for it.
        reason: the largest part in words.
    """

    low_s: float
    high_s: float
    share: float
    rows: int
    basis: Basis
    parts: tuple[tuple[str, float], ...]
    nearest: str | None
    reason: str

    def around(self, seconds: float) -> tuple[float, float]:
        """The ends relative to a price: -0.34 and 0.51 are 34% less and 51% more."""
        return self.low_s / seconds - 1, self.high_s / seconds - 1

    def larger_side(self, seconds: float) -> float:
        return max(map(abs, self.around(seconds)))

    @property
    def sigma(self) -> float:
        """Without the shift of datasheets, which moves both ends."""
        return sqrt(sum(value**2 for name, value in self.parts if name != "shift"))


class ErrorGround(NamedTuple):
    """What of a price's error is the same for all sizes and schedules on a group.

    Args:
        asked: the question, at any size.
        basis: None where the distance of the nearest row says it.
        p2p_unknown: its ranks are on PCIe, and whether they reach each other is not known.
        machine: what its machine's rows leave open; None where it has none of the kind.
    """

    asked: ErrorQuestion
    basis: Basis | None
    device: str
    wire: str
    p2p_unknown: bool = False
    machine: MachineSpread | None = None

    def interval(
        self,
        size: float,
        total_s: float,
        *,
        base_total_s: float | None = None,
        runs: bool = True,
        one_process: bool = False,
        posterior: float | None = None,
    ) -> Interval:
        """As :func:`interval_of`."""
        sized = self._replace(asked=self.asked._replace(size=size))
        if self.basis == "datasheet":
            return _by_datasheet(sized, total_s)
        moved = 0.0 if base_total_s is None else abs(log(total_s / base_total_s)) if isfinite(base_total_s) else inf
        foreign = self.asked.foreign or not runs or moved == inf
        asked = sized.asked._replace(foreign=foreign, one_process=one_process, moved=moved if isfinite(moved) else 0.0)
        if posterior is None and self.machine is not None and not foreign:
            posterior = self.machine.sigma(size)
            if not self.machine.own_rows:
                posterior = _narrower(asked, posterior)
        return _measured(sized._replace(asked=asked), total_s, posterior, changed=moved > 0)


def interval_of(
    fabric: Fabric,
    primitive: Primitive,
    group: AnyGroup,
    size: float,
    readings: Readings,
    *,
    total_s: float,
    base_total_s: float | None = None,
    runs: bool = True,
    one_process: bool = False,
    posterior: float | None = None,
) -> Interval | None:
    """The interval of a price of ``total_s`` seconds; None for an ideal one.

    Args:
        size: bytes, as in nccl-tests.
        base_total_s: the same schedule without what the user changed (``--set``); None where nothing was, inf where it has none.
        runs: the library runs this schedule, so that rows of its kind may have been measured.
        one_process: one process drives all GPUs of a node (nccl-tests ``-g 8``).
        posterior: sigma of the machine's own correction at this size and rank count, where it has rows.
    """
    ground = None if readings.ideal else ground_of(fabric, primitive, place(fabric, group), size, readings)
    if ground is None:
        return None
    return ground.interval(size, total_s, base_total_s=base_total_s, runs=runs, one_process=one_process, posterior=posterior)


def ground_of(fabric: Fabric, primitive: Primitive, placed: PlacedGroup, size: float, readings: Readings) -> ErrorGround:
    """The question, and the basis where it is not for the distance to say."""
    outer = placed.spans[-1].tier
    device = fabric.device or ""
    place_ = MeasuredPlace(generation_of(fabric), medium_of(outer), is_network(outer))
    p2p_unknown = any(medium_of(span.tier) == "pcie" for span in placed.spans)
    racks = place_.across and outer.ranks_inside >= FEWEST_IN_A_RACK
    foreign = fabric.announced or fabric.hypothetical or p2p_unknown or bool(placed.domains)
    asked = ErrorQuestion(place_, str(primitive), placed.ranks, size, device.startswith(_AMD), racks, foreign=foreign)
    basis: Basis | None = None
    if readings.numbers == "datasheet" or not has_library_layer(placed, primitive):
        basis = "datasheet"
    elif fabric.announced:
        basis = "announced"
    return ErrorGround(asked, basis, device, outer.name, p2p_unknown, machine_spread(placed, primitive, readings))


def before_dials(fabric: Fabric) -> Fabric | None:
    """The fabric without those overrides that move a price but are no part of its shape; None where there are none."""
    return before_overrides(fabric, [key for key, _ in fabric.overrides if not _SHAPE & set(key.split("."))])


def has_library_layer(placed: PlacedGroup, primitive: Primitive) -> bool:
    """Whether measured numbers of a library are in the price, rather than datasheets alone."""
    return any(span.tier.protocols_for(primitive) for span in placed.spans)


def generation_of(fabric: Fabric) -> str:
    """Of the GPUs, as rows are compared by; a device that is not known is a generation of its own."""
    facts = fabric.library_facts
    told = facts.gpu if facts and facts.gpu else ""
    return GENERATIONS.get(fabric.device or "", fabric.device or told)


def medium_of(tier: Tier) -> str:
    """What a tier's links are, by its name: ``nvlink``, ``xgmi``, ``pcie``, or a network, else the name itself."""
    name = tier.name.lower()
    known = next((medium for medium in _INSIDE if name.startswith(medium)), "")
    return known or next((medium for start, medium in _NETWORKS.items() if name.startswith(start)), name)


def is_network(tier: Tier) -> bool:
    """Whether a tier joins nodes."""
    return medium_of(tier) in _NETWORKS.values() or tier.ranks_inside > 1


def _narrower(asked: ErrorQuestion, posterior: float) -> float | None:
    """A shipped machine's sigma where it says more than the distance to all measured rows does."""
    alone, with_rows = spread_of(asked, law(), index()), spread_of(asked, law(), index(), posterior)
    return posterior if with_rows.sigma < alone.sigma else None


def _measured(ground: ErrorGround, total_s: float, posterior: float | None, *, changed: bool) -> Interval:
    asked, known = ground.asked, law()
    spread = spread_of(asked, known, index(), posterior)
    wide = known["kappa"] * spread.sigma
    high, parts = wide, spread.parts
    if ground.p2p_unknown:  # nobody is faster for want of P2P
        high = known["kappa"] * hypot(spread.sigma, known["p2p"])
        parts = (("p2p", known["p2p"]), *parts)
    rows = 0 if asked.foreign else comparable(asked, index())
    own = ground.machine.own_rows if posterior is not None and ground.machine is not None else 0
    rows = own or rows
    ships = ground.machine is not None and not own
    basis = ground.basis or _basis(asked, spread, rows, None if ships else posterior, changed=changed)
    return Interval(
        low_s=total_s * exp(-wide),
        high_s=total_s * exp(high),
        share=SHARE,
        rows=rows,
        basis=basis,
        parts=parts,
        nearest=spread.nearest and _in_words(spread.nearest),
        reason=_reason(ground, parts, spread.nearest, rows),
    )


def _by_datasheet(ground: ErrorGround, total_s: float) -> Interval:
    """Prices without a library's own time are mostly too fast: the shift of their class is in the interval."""
    asked, known = ground.asked, law()
    scope, at = ("across" if asked.place.across else "inside"), log2(asked.size)
    sigma = by_size(known, f"datasheet_{scope}", at)
    shift = by_size(known, f"datasheet_mean_{scope}", at, signed=True)
    wide = high = known["kappa"] * sigma
    parts: tuple[tuple[str, float], ...] = (("datasheet", sigma), ("shift", shift))
    reason = "a datasheet's numbers without a library's own time, mostly too fast"
    if ground.p2p_unknown:
        high, parts, reason = known["kappa"] * hypot(sigma, known["p2p"]), (("p2p", known["p2p"]), *parts), _WORDS["p2p"]
    return Interval(
        low_s=total_s * exp(min(shift - wide, 0.0)),
        high_s=total_s * exp(max(shift + high, 0.0)),
        share=SHARE,
        rows=0,
        basis="datasheet",
        parts=parts,
        nearest=None,
        reason=reason,
    )


def _basis(asked: ErrorQuestion, spread: PriceSpread, rows: int, posterior: float | None, *, changed: bool) -> Basis:
    if changed:
        return "changed"
    if posterior is not None:
        return "measured"
    if spread.nearest is None:
        return "extrapolated" if asked.foreign else "other machine"
    if rows and spread.nearest.squared == 0:
        return "measured"
    same = [one for one in index()[asked.place] if one.collective == asked.collective]
    inside = same and min(one.ranks for one in same) <= asked.ranks <= max(one.ranks for one in same)
    at = log2(asked.size)
    within = inside and min(one.sizes[0] for one in same) <= at <= max(one.sizes[-1] for one in same)
    return "interpolated" if within else "extrapolated"


def _reason(ground: ErrorGround, parts: tuple[tuple[str, float], ...], nearest: Distance | None, rows: int) -> str:
    """The largest part beside the base in words, if it is felt; else how many rows are like it."""
    base = dict(parts).get("base", 0.0)
    name, value = max(((name, value) for name, value in parts if name != "base"), key=lambda part: part[1], default=("base", 0.0))
    if name == "machine" and ground.machine is not None and not ground.machine.own_rows:
        return "owners of such machines differ this much"
    if name == "base" and ground.machine is not None and ground.machine.own_rows:
        return _WORDS["machine"]
    if name == "base" or value < base / 2:
        count = f"{rows} measurement{'s' * (rows != 1)} like it"
        return count if rows else "measurements of such machines"
    if name == "unmeasured" and nearest is not None:  # so far away that it is taken as if nothing had been
        name = max(("collective", "ranks", "size"), key=lambda part: getattr(nearest, part))
    if nearest is not None and name in ("ranks", "size", "collective"):
        return _distance_words(ground.asked, name, nearest)
    return _WORDS.get(name) or _unmeasured_words(ground)


_WORDS = {
    "amd": "AMD clusters differ this much",
    "racks": "few racks were measured, and they differ this much",
    "launch": "one process drives all GPUs",
    "dials": "numbers changed by you",
    "machine": "the rows of this machine",
    "p2p": "such boxes differ this much by whether P2P over PCIe works",
}


def _unmeasured_words(ground: ErrorGround) -> str:
    asked = ground.asked
    if ground.basis == "announced":
        return "announced: nobody has measured it"
    if not asked.foreign:
        where = f"across {ground.wire}" if asked.place.across else f"on {ground.wire}"
        return f"no measurement of {ground.device or 'such GPUs'} {where}"
    return "no measurement of such a schedule"


def _distance_words(asked: ErrorQuestion, name: str, nearest: Distance) -> str:
    """Such as ``no measurement beyond 192 ranks``; between two measured ones the nearest is named."""
    if name == "collective":
        return f"no {_spoken(asked.collective)} was measured there"
    several = [one for one in index()[asked.place] if one.collective == nearest.series.collective]
    if name == "ranks":
        least, most = min(one.ranks for one in several), max(one.ranks for one in several)
        return _edge(asked.ranks, least, most, str) or f"the nearest measurement is on {nearest.series.ranks} ranks"
    near = [one for one in several if abs(log2(one.ranks / asked.ranks)) <= 1] or [nearest.series]
    least_size, most_size = (2.0**end for end in (min(one.sizes[0] for one in near), max(one.sizes[-1] for one in near)))
    told = _edge(asked.size, least_size, most_size, size_text)
    return told or f"the nearest measurement is of {size_text(2.0**nearest.log_size)}"


def _edge(asked: float, least: Any, most: Any, show: Callable[[Any], str]) -> str:
    """Empty where the question is between the ends of what was measured."""
    ranks = " ranks" if show is str else ""
    if asked > most:
        return f"no measurement beyond {show(most)}{ranks}"
    return f"no measurement below {show(least)}{ranks}" if asked < least else ""


def _in_words(nearest: Distance) -> str:
    series = nearest.series
    return f"{_spoken(series.collective)} of {size_text(2.0**nearest.log_size)} on {series.ranks} ranks ({series.source})"


def _spoken(collective: str) -> str:
    return parse_primitive(collective).spoken


def ratio_sigma(first: Interval, other: Interval, *, alike: bool) -> float:
    """Sigma of ln(one time / another time).

    ``alike``: the same device and medium, whose errors are the same for both: only what differs between them stays.
    """
    mine, theirs = dict(first.parts), dict(other.parts)
    shift = mine.get("shift", 0.0) - theirs.get("shift", 0.0)
    if not alike:
        return hypot(first.sigma, other.sigma, shift)
    names = {*mine, *theirs} - {"shift"}
    return sqrt(shift**2 + sum(abs(mine.get(name, 0.0) ** 2 - theirs.get(name, 0.0) ** 2) for name in names))
