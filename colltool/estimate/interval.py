"""The interval that nine of ten measurements of a price lie in, by the sigma of
:mod:`colltool.estimate.spread`.

:func:`error_model` holds what is alike for all sizes and schedules on a group;
:meth:`ErrorModel.interval` adds a size and a price.

ln t = ln price +- kappa sigma, kappa of ``spread.csv``. Sigma is a sum of squared *parts*, each with a
name and a reason of its own (:mod:`colltool.estimate.spread` lists them). Parts that can only make a call
slower, or hardly faster, widen the upper end alone: ``p2p`` and ``ll``, and ``exchange``, which the lower
end leaves out. A price by datasheets alone also has a *shift* that moves both ends.

*Dials* are the numbers that the user changed on a fabric. The price without them, ``base_total_s``, is
None where nothing was changed, and inf where the schedule does not run without.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from math import acos, cos, exp, hypot, inf, isfinite, log, log2, sqrt
from typing import Literal, NamedTuple

from colltool.base.primitives import Primitive
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import PlacedGroup, place
from colltool.estimate.interval_words import PART_WORDS, reason_words, row_words
from colltool.estimate.machine_factor import ANY_SIZE_BYTES
from colltool.estimate.placement import AnyGroup
from colltool.estimate.spread import (
    FEWEST_IN_A_RACK,
    ErrorRequest,
    MeasuredPlace,
    PriceSpread,
    by_size,
    comparable,
    index,
    series_of,
    sigma_table,
    spread_without_dials,
    unmeasured,
    with_dials,
)
from colltool.fabric.library_numbers import before_overrides
from colltool.fabric.media import GENERATIONS, NETWORKS, gpus_of
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.tier_media import media_of, scope_of

SHARE = 0.9
"""Share of measurements that lie inside an interval."""
NO_INTERVAL = (
    "exact: an ideal price is the model's own arithmetic, and no measurement is compared with it"
)
SEVERAL = "an array of sizes: price_list gives each size its interval"
# Bytes that a rank sends another: the part ``ll`` rises from 0 at _LL_LEAST to _LL_MOST, up to which
# NCCL sends by LL where it counts all 32 channels of a rack's pair, 16 KiB each
# (NCCL_P2P_LL_THRESHOLD).
_LL_LEAST = 2.0**15
_LL_MOST = 2.0**19
_LL_RANKS = 64  # on which the part was measured

_SHAPE = frozenset(
    {
        "size",
        "shape",
        "wrap",
        "twist",
        "group",
        "domains",
        "max_size",
        "sizing",
        "slices",
        "cube",
        "planes",
        "rails",
        "name",
        "topology",
        "medium",
        "device",
        "library",
        "prices",
        "cable",
        "energy",
        "source",
        "notes",
        "description",
        "uncertainty",
    }
)
"""Parts of keys of a fabric that say what machine it is, not how fast: where the user sets one, other
measured rows are near, and the price is that of another machine."""

Basis = Literal[
    "measured",
    "interpolated",
    "extrapolated",
    "other machine",
    "changed",
    "datasheet",
    "announced",
    "exact",
]

_OWN_GENERATION = frozenset({"gh200"})
"""Devices whose boards differ from their generation's: four GH200 are joined by NVLink without a
switch."""
_AMD = ("mi",)
"""How names of AMD's devices begin."""
_ALIKE = {"nvswitch": "nvlink"}
"""Media whose rows count as another's."""
_SENDS_TO_EACH = ("nccl", "rccl")
"""Libraries whose all-to-alls between nodes were measured: a send and a receive for each GPU."""


class Interval(NamedTuple):
    """Where nine of ten measurements of a price lie, in seconds.

    Args:
        rows: measured rows like it: of such a machine and collective, near it in ranks and size.
        basis: what it rests on, a stable word.
        parts: of the standard deviation of ln(measured / price) by name, largest first, after
            ``announced`` and ``p2p``, which lead wherever they are; their squares add up, but for the
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
        """Standard deviation without the shift of datasheets, which moves both ends."""
        return sqrt(sum(value**2 for part, value in self.parts if part != "shift"))

    def slowest_s(self, seconds: float, share: float, reach: float) -> float:
        """The time within which a share of healthy machines stay, where the price is so many
        seconds; never less than the price. ``reach`` multiplies that share's quantile: 1 for the
        share itself, 2 for a bar twice as far away."""
        shift = dict(self.parts).get("shift", 0.0)
        return seconds * exp(max(shift + reach * one_sided(share) * self.sigma, 0.0))


class ErrorModel(NamedTuple):
    """The part of a price's error that is the same for all sizes and schedules on a group.

    Args:
        request: what is priced, at any size: :meth:`at` replaces the size in it.
        basis: None where the distance of the nearest row says it; only ``datasheet`` or ``announced``
            hold for all sizes.
        device, wire: the accelerator, and the outermost tier that the group spans.
        p2p_unknown: its ranks are on PCIe, and whether they reach each other is not known.
        by_ll: an all-to-all of NCCL in a rack, some versions of which send up to 512 KiB a peer by
            LL.
        machine: sigma of a measured machine's own factor at a size; None where nothing was measured
            of it.
        own_rows: of a machine file in the price; 0 for a machine that ships.
    """

    request: ErrorRequest
    basis: Basis | None
    device: str
    wire: str
    p2p_unknown: bool = False
    by_ll: bool = False
    machine: Callable[[float], float] | None = None
    own_rows: int = 0

    def interval(
        self,
        size: float,
        total_s: float,
        *,
        base_total_s: float | None = None,
        runs: bool = True,
    ) -> Interval:
        """Interval of a price at a size; arguments as of :func:`interval_of`."""
        # what does not run at all without the change cannot have been measured
        measurable = runs and base_total_s != inf
        return self.at(size, measurable=measurable).interval(total_s, base_total_s)

    def at(self, size: float, *, measurable: bool = True) -> ErrorAtSize:
        """The error at a size. ``measurable``: rows of such a schedule may have been measured; it
        makes no difference to prices by datasheets."""
        if self.basis == "datasheet":
            return ErrorAtSize(self, self.request._replace(size=size), without_dials=None)
        foreign = self.request.foreign or not measurable
        request = self.request._replace(size=size, foreign=foreign)
        posterior = None if self.machine is None or foreign else self.machine(size)
        return ErrorAtSize(
            self, request, _error_without_dials(request, posterior), _ll_sigma(self, request)
        )


class ErrorAtSize(NamedTuple):
    """The part of a price's error that is the same for all prices of a size on a group.

    Args:
        request: what is priced, at this size.
        without_dials: the error before any number that the user changed; None of datasheets.
        ll_sigma: the part ``ll``; 0 where it is none.
    """

    model: ErrorModel
    request: ErrorRequest
    without_dials: _ErrorWithoutDials | None
    ll_sigma: float = 0.0

    def interval(self, total_s: float, base_total_s: float | None = None) -> Interval:
        """Interval of a price of ``total_s`` seconds, ``base_total_s`` before the user's changes."""
        if self.without_dials is None:
            return _by_datasheet(self.model, self.request, total_s)
        return _measured(self, self.without_dials, total_s, base_total_s)


def one_sided(share: float) -> float:
    """How many sigma above a price this share of measurements end, 50% or more of them.

    The quantile of Student's t with 4 degrees of freedom, ``nu`` of ``spread.csv``, by which sigma
    is fitted (Shaw 2006, closed form): 2.13 for 95%.
    """
    width = sqrt(4 * share * (1 - share))
    third = acos(width) / 3
    ratio = cos(third) / width
    # at 50% the difference is a rounding error, perhaps below 0
    beyond = max(ratio - 1, 0.0)
    return 2 * sqrt(beyond)


def interval_of(
    fabric: Fabric,
    primitive: Primitive,
    group: AnyGroup,
    size: float,
    readings: ModelOptions,
    *,
    total_s: float,
    base_total_s: float | None = None,
    runs: bool = True,
) -> Interval | None:
    """The interval of a price of ``total_s`` seconds. None for an ideal one.

    Args:
        size: bytes, as in nccl-tests.
        base_total_s: the same schedule without what the user changed (``--set``); None where
            nothing was, inf where it has none.
        runs: the library runs this schedule, so that rows of its kind may have been measured.
    """
    if readings.ideal:
        return None
    placed = place(fabric, group)
    errors = placed.once(
        ("error ground", primitive, readings),
        lambda: error_model(fabric, primitive, placed, size, readings),
    )
    return errors.interval(size, total_s, base_total_s=base_total_s, runs=runs)


def error_model(
    fabric: Fabric, primitive: Primitive, placed: PlacedGroup, size: float, readings: ModelOptions
) -> ErrorModel:
    """Describe a primitive on a group to the error model: device, medium, and how sure the numbers
    are."""
    outer = placed.spans[-1].tier
    device = fabric.device or ""
    across = is_network(fabric, outer)
    facts = fabric.library_facts
    p2p_unknown = False
    if facts is None or facts.p2p is None:
        p2p_unknown = any(medium_of(fabric, span.tier) == "pcie" for span in placed.spans)
    machine_sigma = _machine_sigma(fabric, primitive, placed, readings)
    own_rows = 0 if machine_sigma is None or fabric.machine is None else fabric.machine.user_rows
    # GPUs of other domains that each one sends to, in an all-to-all
    peers = 0
    if across and primitive is Primitive.ALL_TO_ALL and fabric.library_name in _SENDS_TO_EACH:
        peers = placed.ranks - outer.ranks_inside
    request = ErrorRequest(
        MeasuredPlace(generation_of(fabric), medium_of(fabric, outer), across),
        str(primitive),
        placed.ranks,
        size,
        amd=device.startswith(_AMD),
        # racks joined to racks: few series were published, and they differ
        racks=across and outer.ranks_inside >= FEWEST_IN_A_RACK,
        peers=peers,
        own=own_rows > 0,
        foreign=fabric.announced or fabric.hypothetical or p2p_unknown or bool(placed.domains),
    )
    basis: Basis | None = None
    # without a library's time the price is short by its class's usual share, whatever the distance
    if readings.numbers == "datasheet" or not has_library_layer(placed, primitive):
        basis = "datasheet"
    elif fabric.announced:
        basis = "announced"
    in_a_rack = not across and outer.endpoints >= FEWEST_IN_A_RACK
    return ErrorModel(
        request=request,
        basis=basis,
        device=device,
        wire=outer.name,
        p2p_unknown=p2p_unknown,
        by_ll=in_a_rack and primitive is Primitive.ALL_TO_ALL and fabric.library_name == "nccl",
        machine=machine_sigma,
        own_rows=own_rows,
    )


def _machine_sigma(
    fabric: Fabric, primitive: Primitive, placed: PlacedGroup, readings: ModelOptions
) -> Callable[[float], float] | None:
    """Sigma of the machine's factor on this group. None where none is in the price."""
    machine = fabric.machine
    if machine is None or readings.numbers != "measured":
        return None
    scope = scope_of(fabric, [span.tier.name for span in placed.spans])
    if machine.sigma(primitive, scope, placed.ranks, ANY_SIZE_BYTES) is None:
        return None

    @cache
    def sigma(size: float) -> float:
        return float(machine.sigma(primitive, scope, placed.ranks, size) or 0.0)

    return sigma


def before_dials(fabric: Fabric) -> Fabric | None:
    """The fabric without the overrides that move a price but do not change what the machine is.
    None where there are none."""
    moving = [key for key, _ in fabric.overrides if not _SHAPE & set(key.split("."))]
    return before_overrides(fabric, moving)


def has_library_layer(placed: PlacedGroup, primitive: Primitive) -> bool:
    """Whether measured numbers of a library are in the price, rather than datasheets alone."""
    return any(span.tier.protocols_for(primitive) for span in placed.spans)


def generation_of(fabric: Fabric) -> str:
    """The GPUs' generation as rows are compared by; a device that is not known is a generation of
    its own."""
    device = fabric.device or ""
    # rows of such a device say nothing of others of its generation
    if device in _OWN_GENERATION or (device and device not in GENERATIONS):
        return device
    facts = fabric.library_facts
    # of no device the file may state the generation alone
    generation = GENERATIONS.get(device) or (facts.gpu if facts else None)
    media = [medium and medium.name for medium in media_of(fabric)]
    known = gpus_of(None, generation, media, "")
    return known[0] if known else ""


def medium_of(fabric: Fabric, tier: Tier) -> str:
    """A tier's medium as rows are compared by, whatever its version: ``nvlink``, ``pcie``, ``ib``;
    else the tier's name."""
    number = [known.name for known in fabric.tiers].index(tier.name)
    medium = media_of(fabric)[number]
    name = tier.name.lower() if medium is None else medium.name.rstrip("0123456789")
    return _ALIKE.get(name, name)


def is_network(fabric: Fabric, tier: Tier) -> bool:
    """Whether a tier joins nodes: by its medium, or as its endpoints hold several ranks."""
    return medium_of(fabric, tier) in NETWORKS or tier.ranks_inside > 1


class _ErrorWithoutDials(NamedTuple):
    """The part of a price's error that does not depend on numbers that the user changed.

    Args:
        rows: measured rows like it.
        nearest: the nearest measured row in words.
        basis: where the error model does not say it.
    """

    spread: PriceSpread
    rows: int
    nearest: str | None
    basis: Basis


@lru_cache(maxsize=8192)
def _error_without_dials(request: ErrorRequest, posterior: float | None) -> _ErrorWithoutDials:
    """Work out the distance to all measured rows; once for all cells of a sweep that differ in a
    bandwidth alone."""
    spread = spread_without_dials(request, sigma_table(), index(), posterior)
    rows = 0 if request.foreign else comparable(request, index())
    return _ErrorWithoutDials(
        spread,
        rows,
        nearest=spread.nearest and row_words(spread.nearest),
        basis=_basis(request, spread, posterior, has_rows=request.own or rows > 0),
    )


def _measured(
    errors: ErrorAtSize,
    without_dials: _ErrorWithoutDials,
    total_s: float,
    base_total_s: float | None,
) -> Interval:
    """Interval around a price in seconds by the distance to the nearest measured row.

    ``sigma`` is that of both ends. The lower end leaves out ``exchange``, the upper one has ``p2p`` and
    ``ll`` on top.
    """
    model, request, _, ll_sigma = errors
    sigmas = sigma_table()
    # |ln| of the price over the price before the user's changes
    moved = 0.0
    if base_total_s is not None and isfinite(base_total_s):
        moved = abs(log(total_s / base_total_s))
    spread = with_dials(without_dials.spread, request.place, moved, sigmas)
    sigma = high_sigma = spread.sigma
    parts = spread.parts
    # ``exchange``: an all-to-all between nodes may be slower than priced, and hardly faster
    low_sigma = sqrt(sum([value**2 for name, value in parts if name != "exchange"]))
    if model.basis == "announced":
        low_sigma = hypot(low_sigma, sigmas["announced"])
        sigma = high_sigma = hypot(sigma, sigmas["announced"])
        parts = (("announced", sigmas["announced"]), *parts)
    # only the upper end: no box is faster for want of P2P
    if model.p2p_unknown:
        high_sigma = hypot(sigma, sigmas["p2p"])
        parts = (("p2p", sigmas["p2p"]), *parts)
    # nor is a rack faster for sending by LL
    if ll_sigma:
        high_sigma = hypot(high_sigma, ll_sigma)
        ll = ("ll", ll_sigma)
        parts = (ll, *parts) if ll_sigma > sigma else (*parts, ll)
    rows = model.own_rows or without_dials.rows
    changed = moved > 0 or base_total_s == inf
    return Interval(
        low_s=total_s * exp(-(sigmas["kappa"] * low_sigma)),
        high_s=total_s * exp(sigmas["kappa"] * high_sigma),
        share=SHARE,
        rows=rows,
        basis=model.basis or ("changed" if changed else without_dials.basis),
        parts=parts,
        nearest=without_dials.nearest,
        reason=reason_words(model, request, parts, spread.nearest, rows),
    )


def _ll_sigma(errors: ErrorModel, request: ErrorRequest) -> float:
    """The part ``ll`` of an all-to-all: it rises with the bytes a peer and the ranks.

    128 KiB a peer are halfway from 32 KiB to 512 KiB, and 8 ranks halfway to 64: 0.5 x 0.5 of the
    whole.
    """
    peer_bytes = request.size / request.ranks
    if not errors.by_ll or not _LL_LEAST < peer_bytes <= _LL_MOST:
        return 0.0
    by_bytes = log(peer_bytes / _LL_LEAST) / log(_LL_MOST / _LL_LEAST)
    share = by_bytes * min(log(request.ranks) / log(_LL_RANKS), 1.0)
    return sigma_table()["ll"] * share


def _by_datasheet(errors: ErrorModel, request: ErrorRequest, total_s: float) -> Interval:
    """Prices without a library's own time are mostly too fast: the shift of their class is in the
    interval.

    The class covers GPUs that NCCL and RCCL were measured on: others are no surer than what was not
    measured.
    """
    sigmas = sigma_table()
    scope = request.place.scope
    log_size = log2(request.size)
    plain = by_size(sigmas, f"datasheet_{scope}", log_size)
    shift = by_size(sigmas, f"datasheet_mean_{scope}", log_size, signed=True)
    parts = [("datasheet", plain), ("shift", shift)]
    sigma = plain
    if request.foreign or request.place not in index():
        far = unmeasured(sigmas, scope, log_size)
        sigma = hypot(plain, far)
        parts.insert(1, ("unmeasured", far))
    high_sigma = sigma
    reason = "datasheet numbers without library overhead, usually too fast"
    if errors.p2p_unknown:
        high_sigma = hypot(sigma, sigmas["p2p"])
        parts.insert(0, ("p2p", sigmas["p2p"]))
        reason = PART_WORDS["p2p"]
    return Interval(
        low_s=total_s * exp(min(shift - sigmas["kappa"] * sigma, 0.0)),
        high_s=total_s * exp(max(shift + sigmas["kappa"] * high_sigma, 0.0)),
        share=SHARE,
        rows=0,
        basis="datasheet",
        parts=tuple(parts),
        nearest=None,
        reason=reason,
    )


def _basis(
    request: ErrorRequest, spread: PriceSpread, posterior: float | None, *, has_rows: bool
) -> Basis:
    """What an interval rests on where the user changed no number. ``posterior``: sigma of the
    machine's own factor, None where it has none; ``has_rows``: there are measured rows like the
    request, or the user's own."""
    # a machine that was measured elsewhere only is priced between its rows, or beyond them
    if posterior is not None and has_rows:
        return "measured"
    if spread.nearest is None:
        return "extrapolated" if request.foreign else "other machine"
    if has_rows and spread.nearest.squared == 0:
        return "measured"
    # the place was measured, as a row is near
    same = series_of(request.place, request.collective)
    if not same:
        return "extrapolated"
    # within the ends of all series of this collective, whichever they are
    ranks = [series.ranks for series in same]
    smallest = min(series.sizes[0] for series in same)
    largest = max(series.sizes[-1] for series in same)
    within = min(ranks) <= request.ranks <= max(ranks) and smallest <= log2(request.size) <= largest
    return "interpolated" if within else "extrapolated"


def ratio_sigma(first: Interval, other: Interval, *, alike: bool, one_file: bool = False) -> float:
    """Standard deviation of ln(first time / other time).

    ``alike``: the same device and medium, whose errors are the same for both: only what differs
    between them stays. Parts of 0.3 and 0.5 leave sqrt(0.25 - 0.09) = 0.4.
    ``one_file``: the two differ in values of one fabric alone; how far a number was moved
    (``dials``) then leaves no doubt which is faster, and is left out.
    """
    first_parts, other_parts = dict(first.parts), dict(other.parts)
    shift = first_parts.get("shift", 0.0) - other_parts.get("shift", 0.0)
    if not alike:
        return hypot(first.sigma, other.sigma, shift)
    names = sorted({*first_parts, *other_parts} - {"shift"})
    if one_file and "dials" in names:
        names.remove("dials")
    apart = [
        abs(first_parts.get(name, 0.0) ** 2 - other_parts.get(name, 0.0) ** 2) for name in names
    ]
    return sqrt(shift**2 + sum(apart))
