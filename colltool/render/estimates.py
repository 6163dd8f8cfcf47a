"""What views of prices share: columns, names, titles, notes, and the fields of JSON documents."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from colltool.algorithms.libraries import LIBRARIES, NotRun, NotRunCode, ships
from colltool.base.errors import given, said
from colltool.base.formatting import (
    counted,
    format_count,
    format_energy,
    format_factor,
    format_rate,
    format_time,
    plain_number,
    title_size,
    whole_bytes,
    whole_percent,
)
from colltool.estimate.algorithm_estimate import LATE, AlgorithmEstimate, Kept, PhaseCost, SlowRank
from colltool.estimate.assumptions import USUAL, Readings
from colltool.estimate.results import AssumptionsUsed, Price
from colltool.estimate.segments import BestSegments
from colltool.nccl.rules import name_on
from colltool.render.blocks import Block, Column, Lines, Table, flag, gathered, label, number
from colltool.render.dispatch import (
    Document,
    context,
    fields,
    group_columns,
    group_field,
    listed,
    on_fabric,
    set_field,
)
from colltool.render.intervals import interval_field

if TYPE_CHECKING:
    pass


class Ranked(NamedTuple):
    """A row and its price, at one size."""

    price: Price
    row: AlgorithmEstimate


def price_context(price: Price | None) -> tuple[Column, ...]:
    """The hidden columns that say what was priced."""
    size = number(
        "bytes", "size", title_size, get=lambda one: whole_bytes(one.price.bytes), hidden=True
    )
    if price is None:
        return (*context(fabric="", primitive="", ranks=0), size)
    asked = context(fabric=price.fabric, primitive=price.primitive, ranks=price.ranks)
    return (
        *asked,
        *group_columns(price.group, lambda one: one.price.group),
        size,
        *context(price.overrides),
    )


_ROW: tuple[Column, ...] = (
    label("algorithm", "algorithm", get=lambda one: one.row.title, fold=22),
    label("protocol", "protocol", get=lambda one: one.row.protocol, drop=5),
    number("n_alpha", "n_alpha", format_count, 6, get=lambda one: one.row.n_alpha),
    number("n_beta", "n_beta", format_count, 7, get=lambda one: one.row.n_beta),
    number("alpha_s", "alpha", format_time, 2, get=lambda one: float(one.row.alpha_s)),
    number("bandwidth_s", "bandwidth", format_time, 2, get=lambda one: float(one.row.bandwidth_s)),
    number("overhead_s", "launch", format_time, 5, get=lambda one: float(one.row.overhead_s)),
    number("software_s", "software", format_time, 1, get=lambda one: float(one.row.software_s)),
    number("total_s", "total", format_time, get=lambda one: float(one.row.total_s)),
    number(
        "slow_total_s",
        "slow rank",
        format_time,
        get=lambda one: one.row.slow and one.row.slow.total_s,
    ),
    number(
        "slowdown", "slower", format_factor, get=lambda one: one.row.slow and one.row.slow.slowdown
    ),
    number(
        "alpha_share",
        "alpha%",
        whole_percent,
        9,
        get=lambda one: float(one.row.alpha_s / one.row.total_s),
    ),
    number(
        "bandwidth_share",
        "BW%",
        whole_percent,
        10,
        get=lambda one: float(one.row.bandwidth_s / one.row.total_s),
    ),
    number("algbw_Bps", "algbw", format_rate, 8, get=lambda one: float(one.row.algbw_Bps)),
    number("busbw_Bps", "busbw", format_rate, 3, get=lambda one: float(one.row.busbw_Bps)),
    number("energy_J", "energy", format_energy, 8, get=lambda one: plain_number(one.row.energy_J)),
    label("status", "status", drop=11, get=lambda one: one.row.status),
    label("shipped_by", "shipped by", drop=11, get=lambda one: ", ".join(one.row.shipped_by)),
    label("spec", "spec", drop=12, get=lambda one: one.row.spec, hidden=True),
    flag("leads", "leads", get=lambda one: one.row.selectable, hidden=True),
    label("why_not", "why not", get=lambda one: why_not_ranked(one.row), hidden=True),
)
_NAMED = (
    label("algorithm", "algorithm", get=lambda one: named(one.price, one.row), fold=22),
    label("how", "how (inside / across)", get=lambda one: how(one.price, one.row), fold=18),
)


def row_table(
    ranked: Sequence[Ranked],
    title: str = "",
    best: int | None = None,
    *,
    sizes: bool = False,
    names: bool = False,
) -> Table:
    """A table of priced rows; terms that are 0 everywhere are hidden, and energy is left out where
    it is not known.

    ``names`` puts the library's names first.
    """
    idle = [
        key
        for key in ("overhead_s", "software_s", "protocol")
        if not any(getattr(one.row, key) for one in ranked)
    ]
    absent = set() if any(one.row.slow for one in ranked) else {"slow_total_s", "slowdown"}
    absent |= set() if any(one.row.energy_J is not None for one in ranked) else {"energy_J"}
    own = tuple(column for column in _ROW if column.key not in absent)
    if names and any(how(one.price, one.row) for one in ranked):
        own = (*_NAMED, *own[1:])
    table = Table(
        (*price_context(ranked[0].price if ranked else None), *own), tuple(ranked), best, title
    ).without(*idle)
    return table.with_shown("bytes") if sizes else table


def seconds(row: AlgorithmEstimate) -> float:
    """The time of a row at its one size."""
    return float(row.total_s)


def every_row(prices: Sequence[Price]) -> Table:
    """All rows of all sizes: those that may lead fastest first, then the others by their class."""
    ranked = []
    for price in prices:
        rows = [
            *sorted(price.leading, key=seconds),
            *sorted(price.others, key=lambda row: (row.rank_class, seconds(row))),
        ]
        ranked += [Ranked(price, row) for row in rows]
    return row_table(ranked, sizes=len(prices) > 1)


def _library_name(price: Price, row: AlgorithmEstimate) -> str:
    """The library's own name of an algorithm; may be empty."""
    if price.library is None or not ships(price.library.name, row.shipped_by):
        return ""
    if found := name_on(price.library.name, price.primitive, price.group, row.spec):
        return found
    bracketed = (
        one.partition(" (")[2].rstrip(")")
        for one in row.shipped_by
        if ships(price.library.name, [one])
    )
    return next((name for name in bracketed if name and "," not in name), "")


def named(price: Price, row: AlgorithmEstimate) -> str:
    """The library's name of an algorithm, else ours."""
    return _library_name(price, row) or row.title


def how(price: Price, row: AlgorithmEstimate) -> str:
    """Our name of an algorithm that the library calls otherwise, for a hierarchical one its
    parts."""
    name = _library_name(price, row)
    if not name or name.lower() == row.title:
        return ""
    return row.how


def spoken(price: Price) -> str:
    """The library's display name; empty without one."""
    return LIBRARIES[price.library.name].spoken if price.library else ""


_NUMBERS = {"bytes": "bytes"} | LATE
"""Fields of a row that may be arrays over sizes, each with the property that gives its value."""


def at_each_size(price: Price) -> Iterator[Price]:
    """One price per size."""
    if isinstance(price.bytes, float):
        yield price
        return
    for at, size in enumerate(price.bytes):
        rows = []
        for row in price.results:
            wires, contended = row.below
            below = (
                None
                if wires is row
                else Kept((_at_one_size(wires, at), _at_one_size(contended, at)))
            )
            rows.append(replace(_at_one_size(row, at), late_below=below))
        yield replace(price, bytes=float(size), results=tuple(rows))


def _at_one_size(row: AlgorithmEstimate, at: int) -> AlgorithmEstimate:
    """The element of a row of arrays; its phases are left out."""
    numbers = {}
    for field, name in _NUMBERS.items():
        value = getattr(row, name)
        numbers[field] = plain_number(value[at] if getattr(value, "shape", ()) else value)
    return replace(row, late_phases=tuple, **numbers)


def heading(price: Price, sizes: str | None = None) -> str:
    """What was asked; ``sizes`` is its one size unless given."""
    several = f"{title_size(float(price.bytes))} per rank, " if sizes is None else sizes
    library = (
        f"{running(price.library.name, leads=bool(price.runnable))}, " if price.library else ""
    )
    where = on_fabric(price.fabric, price.overrides)
    media = [f"{tier} as {medium}" for tier, medium in price.assumed]
    over = f" ({', '.join(media)})" if media and price.mode != "ideal" else ""
    return (
        f"{price.primitive.spoken} on {where}{over}, {price.group.spoken},"
        f" {several}{library}{price.mode}"
    )


def running(library: str, *, leads: bool) -> str:
    """The library in a title; ``leads`` says whether it runs any of the rows."""
    known = LIBRARIES[library]
    return known.spoken if leads else f"none of it implemented in {known.spoken}{known.hint}"


NONE_RUNS = "the library implements none of these algorithms"


def notes(
    rows: Sequence[AlgorithmEstimate],
    model: AssumptionsUsed,
    prices: Sequence[Price] = (),
    first: int | None = None,
) -> list[Block]:
    """Non-default readings and who leads on one port, then each note with the rows it is about.

    The default view has all of the former and ``first`` of the latter.
    """
    extra = _readings_lines(model.readings, model.usual)
    one_port = said(given("ports", "one"))
    extra += [
        f"with {one_port} {one.leads_on_one_port} leads: {one.results[0].title}"
        for one in prices
        if one.leads_on_one_port and isinstance(one.leads_on_one_port, str)
    ]
    about = []
    for row in rows:
        about += [(note, row.title) for note in row.notes]
        if row.rank_class == 1 and (reason := row.not_selected_reason) and not reason.foreign:
            about.append((not_run_text(reason), row.title))
    lines = (
        *dict.fromkeys(extra),
        *(f"{note}: {', '.join(titles)}" for note, titles in gathered(about).items()),
    )
    return listed("notes", lines, None if first is None else len(dict.fromkeys(extra)) + first)


def _readings_lines(
    readings: Readings, usual: Readings = USUAL, varied: Collection[str] = ()
) -> list[str]:
    told = [
        f"{name}={value}" for name, value in readings.unlike(usual).items() if name not in varied
    ]
    return [f"readings: {', '.join(told)}"] if told else []


def readings_block(readings: Readings, varied: Collection[str] = ()) -> list[Block]:
    """Such as ``readings: ring_alpha=worst``: those that are not the default; ``varied`` ones are
    an axis."""
    return [Lines(line, ()) for line in _readings_lines(readings, varied=varied)]


def slow_words(slow: SlowRank | None) -> str:
    """Such as ``with one rank at 0.8 of its bandwidth 1.2 ms, 1.19x; rank 0 costs most``."""
    if slow is None:
        return ""
    who = f"with one rank at {slow.share:g} of its bandwidth"
    if slow.total_s is None or slow.slowdown is None:
        return f"{who}: not known, {slow.reason}"
    worst = "" if slow.rank is None else f"; rank {slow.rank} costs most"
    return f"{who} {format_time(slow.total_s)}, {format_factor(slow.slowdown)}{worst}"


WHY_NOT_RANKED = {
    "reference": "reference: of textbooks and papers, no library runs it",
    "hypothetical": "hypothetical: on hardware that does not exist",
    "idealised": "idealised: real wiring takes longer than its formula",
}


def why_not_ranked(row: AlgorithmEstimate) -> str:
    """Why a row may not be called the fastest; empty where it may."""
    reason = row.not_selected_reason
    return WHY_NOT_RANKED.get(row.status, not_run_text(reason) if reason else "")


def named_anyway(prices: Sequence[Price]) -> list[Block]:
    """Why some of the rows would not be ranked unless the user had named them."""
    lines: dict[str, None] = {}
    for price in prices:
        if not price.asked:
            continue
        for row in price.leading:
            if not row.selectable:
                lines[f"{row.title}: {why_not_ranked(row)}"] = None
    return listed("ranked because they were named", lines)


def segment_lines(cuts: Sequence[BestSegments]) -> list[str]:
    """The best number of segments of each pipelined part."""
    lines = []
    for cut in cuts:
        where = cut.tier if cut.level in ("", cut.tier) else f"{cut.tier} {cut.level}"
        exact = (
            f"P* = {cut.exact:.4g}"
            if cut.exact >= 1
            else f"P* = {cut.exact:.2g}, so the payload stays whole"
        )
        lines.append(
            f"{where}: {exact}, best in {counted(cut.segments, 'segment')}:"
            f" {format_time(cut.seconds)} with the filling"
        )
    return lines


def segments_field(cuts: Sequence[BestSegments]) -> Document:
    return {"segments": [cut._asdict() for cut in cuts]} if cuts else {}


def price_fields(price: Price) -> Document:
    own, library = price.library, {}
    if own is not None and own.pick is not None:
        ways = [
            {
                "algorithm": one.algorithm,
                "protocol": one.protocol,
                "estimate_s": one.seconds,
                "reason": one.reason,
            }
            for one in own.ways
        ]
        pick = {
            "algorithm": own.pick.algorithm,
            "protocol": own.pick.protocol,
            "estimate_s": own.pick.seconds,
        }
        runs = {
            "runs": None if own.runs is None else row_fields(own.runs),
            "of_fastest": price.slower_pick,
        }
        library = {"library": {**fields(own, "name version"), "pick": pick, **runs, "ways": ways}}
    elif own is not None:
        library = {"library": {"name": own.name} | ({"reason": own.reason} if own.reason else {})}
    return (
        {"fabric": price.fabric, **set_field(price.overrides), **fields(price, "primitive ranks")}
        | {"group": group_field(price.group), "bytes": whole_bytes(price.bytes), "mode": price.mode}
        | {"model": price.model.echo(), "results": [row_fields(row) for row in price.results]}
        | {"infeasible": [one._asdict() for one in (*price.infeasible, *price.failed)], **library}
        | ({"leads_on_one_port": price.leads_on_one_port} if any(price.leads_on_one_port) else {})
        | {"accuracy": price.accuracy and price.accuracy._asdict()}
        | ({"inert": [told._asdict() for told in price.inert]} if price.inert else {})
    )


def model_field(readings: Readings, varied: Collection[str] = ()) -> Document:
    """All readings of the model; ``varied`` ones are an axis."""
    return {"model": {name: value for name, value in readings.echo().items() if name not in varied}}


def row_fields(row: AlgorithmEstimate) -> Document:
    ratio = None if row.lower_bound_s is None else row.total_s / row.lower_bound_s
    return (
        fields(
            row,
            "algorithm detail spec n_alpha n_beta alpha_s bandwidth_s overhead_s software_s"
            " total_s",
        )
        | interval_field(row.interval, row.no_interval)
        | ({} if row.slow is None else {"slow_rank": row.slow._asdict()})
        | {"lower_bound_s": plain_number(row.lower_bound_s), "bound_ratio": plain_number(ratio)}
        | {
            "layers": {
                name: plain_number(seconds) for name, seconds in row.layers._asdict().items()
            }
        }
        | {"bound": None if hasattr(row.bytes, "tolist") else row.bound}
        | {
            "alpha_share": plain_number(row.alpha_s / row.total_s),
            "bandwidth_share": plain_number(row.bandwidth_s / row.total_s),
        }
        | fields(row, "algbw_Bps busbw_Bps")
        | _energy(row.energy_J)
        | fields(row, "status shipped_by")
        | {"leads": row.selectable, "why_not": why_not_ranked(row), "notes": list(row.notes)}
        | {"phases": [_phase(phase, row) for phase in row.phases], **under(row.protocol)}
    )


def under(protocol: Any) -> Document:
    """The protocol, if the fabric lists any."""
    return {"protocol": plain_number(protocol)} if len(protocol) else {}


def _energy(joule: Any) -> Document:
    return {} if joule is None else {"energy_J": plain_number(joule)}


def _phase(phase: PhaseCost, row: AlgorithmEstimate) -> Document:
    head = fields(phase, "tier level label primitive algorithm ranks") | {
        "bytes": whole_bytes(phase.bytes)
    }
    costs = fields(
        phase, "n_alpha n_beta alpha_s bandwidth_s eta_alpha eta_beta bandwidth_Bps share"
    )
    return (
        head
        | costs
        | {
            "of_total": plain_number(phase.total_s / row.total_s),
            **_energy(phase.energy_J),
        }
    )


_NOT_RUN: dict[NotRunCode, str] = {
    "no_schedule": "not implemented in {library}",
    "no_composition": "{library} does not combine these",
    "nvls_off": "NVLS (NVLink SHARP) is off or not available",
    "collnet_off": (
        "CollNet (SHARP in the network) is off: set NCCL_COLLNET_ENABLE=1, and here library:"
        " {{collnet: true}}"
    ),
    "lattice": "{library} does not run on a torus or mesh",
    "multi_rail": "across nodes {library} runs one for each NIC of a node (multi-rail)",
    "multi_link": "on a full mesh {library} runs rings over all links (multi-link)",
    "chain_inside": (
        "inside a node {library}'s tree is a chain of its GPUs; it is a double binary tree only"
        " between nodes"
    ),
    "nvls_across": "NVLS gathers and scatters only inside a node",
    "nvls_ranks": "NVLS gathers and scatters on at most {most} ranks per node",
    "msccl_links": "RCCL uses MSCCL's kernels only where every pair of GPUs has its own link",
    "kernels_inside": "its kernels read peer memory, which works only inside a node",
    "ranks_inside": "{by} takes at most {most} ranks per node, not {ranks}",
}
assert set(_NOT_RUN) == set(get_args(NotRunCode))


def not_run_text(reason: NotRun) -> str:
    return _NOT_RUN[reason.code].format_map(
        reason._asdict() | {"library": LIBRARIES[reason.library].spoken}
    )
