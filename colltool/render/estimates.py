"""Parts of views that show prices: columns, names of algorithms, titles, notes, and JSON documents
of prices."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, get_args

from colltool.algorithms.libraries import LIBRARIES, NotRun, NotRunCode
from colltool.base.errors import argument_text, localize
from colltool.base.formatting import (
    counted,
    format_count,
    format_energy,
    format_factor,
    format_time,
    plain_number,
    short_percent,
    title_size,
    whole_percent,
)
from colltool.estimate.algorithm_estimate import (
    LATE,
    AlgorithmEstimate,
    Constant,
    Layers,
    SlowRank,
)
from colltool.estimate.assumptions import DECLARED, KINDS, USUAL, ModelOptions
from colltool.estimate.results import Accuracy, AssumptionsUsed, Inert, Infeasible, Price
from colltool.estimate.segments import BestSegments
from colltool.render.blocks import (
    Block,
    Column,
    Columns,
    Lines,
    Table,
    columns_at,
    flag,
    label,
    lines_by_text,
    number,
)
from colltool.render.dispatch import context, fabric_of, group_columns, listed
from colltool.render.documents import LEFT_OUT, Document, derived, optional
from colltool.render.intervals import IntervalDocument
from colltool.render.shared_documents import GroupDocument, OnFabricDocument, whole_size


class Ranked(NamedTuple):
    """A row and its price, at one size."""

    price: Price
    row: AlgorithmEstimate

    @property
    def how(self) -> str:
        return how(self.row)

    @property
    def alpha_share(self) -> Any:
        return _alpha_share(self.row)

    @property
    def bandwidth_share(self) -> Any:
        return _bandwidth_share(self.row)

    @property
    def shipped_by(self) -> str:
        return ", ".join(self.row.shipped_by)

    @property
    def why_not(self) -> str:
        return why_not_ranked(self.row)


def price_context(price: Price | None) -> Columns[Ranked]:
    """The hidden columns that say what was priced."""
    size: Column[Ranked] = number(
        "bytes", "size", title_size, hidden=True, path="price.bytes", whole=True
    )
    if price is None:
        return (*context(fabric="", primitive="", ranks=0), size)
    return (
        *context(fabric=price.fabric, primitive=price.primitive, ranks=price.ranks),
        *group_columns(price.group, lambda ranked: ranked.price.group),
        size,
        *context(price.overrides),
    )


_ROW: Columns[Ranked] = (
    *columns_at(
        "row",
        (
            label("name", fold=22),
            label("algorithm", fold=22, path="title"),
            label("protocol", drop=5),
            number("n_alpha", "n_alpha", format_count, drop=6),
            number("n_beta", "n_beta", format_count, drop=7),
            number("alpha_s", "alpha", drop=2),
            number("bandwidth_s", "bandwidth", drop=2),
            number("overhead_s", "launch", drop=5),
            number("software_s", "software", drop=1),
            number("total_s", "total"),
            number("slow_total_s", "slow rank", path="slow.total_s"),
            number("slowdown", "slower", format_factor, path="slow.slowdown"),
        ),
    ),
    number("alpha_share", "alpha%", whole_percent, drop=9),
    number("bandwidth_share", "BW%", whole_percent, drop=10),
    *columns_at(
        "row",
        (
            number("algbw_Bps", "algbw", drop=8),
            number("busbw_Bps", "busbw", drop=3),
            number("energy_J", "energy", format_energy, drop=8),
            label("status", drop=11),
        ),
    ),
    label("shipped_by", "shipped by", drop=11),
    label("spec", drop=12, hidden=True, path="row.spec"),
    flag("leads", hidden=True, path="row.selectable"),
    label("why_not", "why not", hidden=True),
)
_NAMED: Columns[Ranked] = (
    label("name", "algorithm", fold=22, path="row.name"),
    label("how", "inside / across", drop=4, fold=18),
)


# the time of a row for people: its parts add up to the total, as the answer counts them; where the
# screen is too narrow the launch goes first, which differs least between the rows
_PARTS: Columns[Ranked] = columns_at(
    "row",
    (
        number("steps_s", "latency", drop=2),
        number("moved_s", "transfer", drop=2),
        number("overhead_s", "launch", drop=3),
        number("rest_s", "overhead", drop=2),
    ),
)
_OF_WIRES = ("alpha_s", "bandwidth_s", "software_s", "alpha_share", "bandwidth_share")
"""Columns of CSV that count what a library adds to steps and bytes as overhead."""


def row_table(
    ranked: Sequence[Ranked],
    title: str = "",
    best: int | None = None,
    *,
    sizes: bool = False,
    names: bool = False,
) -> Table:
    """A table of priced rows.

    Columns that are 0 or empty in all rows are hidden; those of a slow rank and of energy exist
    only if known.

    Args:
        best: the row to highlight.
        sizes: whether to show the size of each row.
        names: whether it is for people: the library's names of algorithms come first, and the parts
            of a time are those that the answer names.
    """
    rows = [record.row for record in ranked]
    hidden_keys = []
    for key in ("overhead_s", "software_s", "rest_s", "protocol"):
        if not any(getattr(row, key) for row in rows):
            hidden_keys.append(key)
    if names:
        hidden_keys += _OF_WIRES
    # in contrast to hidden ones these are not in CSV either
    absent_keys = []
    if not any(row.slow for row in rows):
        absent_keys += ["slow_total_s", "slowdown"]
    if all(row.energy_J is None for row in rows):
        absent_keys.append("energy_J")
    columns = tuple(column for column in _ROW if column.key not in absent_keys)
    if names:
        columns = _with_parts(columns)
    # if the library has no other name for any row, the column of algorithms is enough
    if names and any(record.how for record in ranked):
        columns = (*_NAMED, *columns[2:])
    elif names:
        columns = (_NAMED[0], *columns[2:])
    context_columns = price_context(ranked[0].price if ranked else None)
    table = Table((*context_columns, *columns), ranked, best, title).without(*hidden_keys)
    return table.with_shown("bytes") if sizes else table


def _with_parts(columns: Columns[Ranked]) -> Columns[Ranked]:
    """The columns with the parts of the time before the total, and busbw the last to go."""
    with_parts: list[Column[Ranked]] = []
    for column in columns:
        if column.key == "overhead_s":
            continue
        if column.key == "total_s":
            with_parts += _PARTS
        with_parts.append(column._replace(drop=1) if column.key == "busbw_Bps" else column)
    return tuple(with_parts)


def change_text(share: float) -> str:
    """``-1.6%``, ``+32%``; more than twice as much more is a factor, ``6.2x``."""
    if share > _FAR:
        return format_factor(1 + share, 2)
    return f"{share:+.0%}" if abs(share) >= 0.0995 else short_percent(share, 2, "+")


_FAR = 2.0  # a larger relative change is written as a factor


def seconds(row: AlgorithmEstimate) -> float:
    """The time of a row at its one size."""
    return float(row.total_s)


def every_row(prices: Sequence[Price]) -> Table:
    """All rows of all sizes: what the library picks, the other selectable ones by time, then the
    others by class and time."""
    ranked = []
    for price in prices:
        pick = price.best if price.shows_pick else None
        leading = sorted(price.leading, key=lambda row: (row is not pick, seconds(row)))
        others = sorted(price.others, key=lambda row: (row.rank_class, seconds(row)))
        ranked += [Ranked(price, row) for row in (*leading, *others)]
    return row_table(ranked, sizes=len(prices) > 1)


def how(row: AlgorithmEstimate) -> str:
    """Colltool's description of an algorithm under another name of the library; else empty."""
    name = row.library_name
    if not name or name.lower() == row.title:
        return ""
    return row.how


def library_label(price: Price) -> str:
    """The library's display name; empty without one."""
    return LIBRARIES[price.library.name].label if price.library else ""


_NUMBERS = {"bytes": "bytes"} | LATE
"""Fields of a row that may be arrays over sizes, each with the property that gives its value."""


def at_each_size(price: Price) -> Iterator[Price]:
    """One price per size."""
    if isinstance(price.bytes, float):
        yield price
        return
    for index, size in enumerate(price.bytes):
        rows = []
        for estimate in price.results:
            below = None
            # a row that has no layers below refers to itself
            if estimate.below[0] is not estimate:
                below = Constant(tuple(_at_one_size(layer, index) for layer in estimate.below))
            rows.append(replace(_at_one_size(estimate, index), late_below=below))
        single = replace(price, bytes=float(size), results=tuple(rows))
        # arrays are in registry order
        yield replace(single, results=(*sorted(single.leading, key=seconds), *single.others))


def _at_one_size(row: AlgorithmEstimate, index: int) -> AlgorithmEstimate:
    """A row with the elements of its arrays at an index, without phases."""
    numbers = {}
    for field, source in _NUMBERS.items():
        value = getattr(row, source)
        if getattr(value, "shape", ()):
            value = value[index]
        numbers[field] = plain_number(value)
    return replace(row, late_phases=tuple, **numbers)


def heading(price: Price, sizes: str | None = None) -> str:
    """A title with primitive, fabric, group, size, library and mode.

    Args:
        sizes: text in place of the price's size.
    """
    if sizes is None:
        sizes = f"{title_size(float(price.bytes))} per rank, "
    library = ""
    if price.library:
        library = f"{running(price.library.name, leads=bool(price.runnable))}, "
    what = f"{price.primitive.label}{_where(price)}, {price.group.label}"
    return f"{what}, {sizes}{library}{CONTENTION[price.mode]}"


CONTENTION = {"realistic": "with contention", "ideal": "without contention"}
"""The mode of a price in words."""


def _where(price: Price) -> str:
    """Such as `` on mine (ib as InfiniBand)``, where media were assumed."""
    where = f" on {fabric_of(price)}"
    if not price.assumed or price.mode == "ideal":
        return where
    media = (f"{tier} as {medium}" for tier, medium in price.assumed)
    return f"{where} ({', '.join(media)})"


def running(library: str, *, leads: bool) -> str:
    """The library in a title; ``leads`` says whether it runs any of the rows."""
    known = LIBRARIES[library]
    if leads:
        return known.label
    return f"none of it implemented in {known.label}{known.hint}"


def notes(
    rows: Sequence[AlgorithmEstimate],
    model: AssumptionsUsed,
    prices: Sequence[Price] = (),
    first: int | None = None,
) -> list[Block]:
    """A list of changed model options and winners on one port, then of each note with its rows.

    Args:
        first: how many notes of rows the default view has; all for None.
    """
    extra = dict.fromkeys(_readings_lines(model.readings, model.usual))
    one_port = localize(argument_text("ports", "one"))
    about = []
    for price in prices:
        leader = price.leads_on_one_port
        if not leader or not isinstance(leader, str):
            continue
        text = f"with {one_port}, {leader} would be first"
        if len(prices) == 1:
            extra[text] = None
        else:
            about.append((text, title_size(float(price.bytes))))
    for row in rows:
        about += [(note, row.title) for note in row.notes]
        reason = row.not_selected_reason
        # rows of other libraries need no explanation
        if row.rank_class == 1 and reason and not reason.foreign:
            about.append((not_run_text(reason), row.title))
    shown = None if first is None else len(extra) + first
    return listed("notes", (*extra, *lines_by_text(about)), shown)


def _readings_lines(
    readings: ModelOptions, usual: ModelOptions = USUAL, varied: Collection[str] = ()
) -> list[str]:
    changed = [
        f"{reading}={value}"
        for reading, value in readings.unlike(usual).items()
        if reading not in varied
    ]
    return [f"model options: {', '.join(changed)}"] if changed else []


def readings_block(readings: ModelOptions, varied: Collection[str] = ()) -> list[Block]:
    """The model options that are not the default, but for ``varied`` ones, which are an axis."""
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
    "reference": "for reference only: no library implements it",
    "hypothetical": "hypothetical: no hardware has it",
    "idealised": "matches only on idle wires: real wiring takes longer than its formula",
}


def why_not_ranked(row: AlgorithmEstimate) -> str:
    """Why a row may not be called the fastest; empty if it may."""
    reason = row.not_selected_reason
    return WHY_NOT_RANKED.get(row.status, not_run_text(reason) if reason else "")


def named_anyway(prices: Sequence[Price]) -> list[Block]:
    """Why some of the rows are ranked only because the user named them."""
    lines: dict[str, None] = {}
    for price in prices:
        if not price.asked:
            continue
        for estimate in price.leading:
            if not estimate.selectable:
                lines[f"{estimate.title}: {why_not_ranked(estimate)}"] = None
    return listed("compared because you named them", lines)


def place_name(tier: str, level: str) -> str:
    """Such as ``ib leaf``; a tier without levels has one of its own name."""
    if level in ("", tier):
        return tier
    return f"{tier} {level}"


def segment_lines(cuts: Sequence[BestSegments]) -> list[str]:
    """The best number of segments of each pipelined part."""
    lines = []
    for cut in cuts:
        best = f"P* = {cut.exact:.4g}, best with {counted(cut.segments, 'segment')}"
        if cut.exact < 1:
            best = f"P* = {cut.exact:.2g}, so best sent whole"
        took = f"{format_time(cut.seconds)} including pipeline fill"
        lines.append(f"{place_name(cut.tier, cut.level)}: {best}: {took}")
    return lines


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
# every code needs a text: checked when the module is loaded
assert set(_NOT_RUN) == set(get_args(NotRunCode))


def not_run_text(reason: NotRun) -> str:
    fields = reason._asdict() | {"library": LIBRARIES[reason.library].label}
    return _NOT_RUN[reason.code].format_map(fields)


# --- documents


class ModelDocument(Document):
    """The options of the model in force; some are left out where they are the usual ones."""

    # the options are declared once, with their types, in colltool.estimate.assumptions
    __annotations__ = {
        assumption: KINDS[assumption]
        for assumption in DECLARED
        if DECLARED[assumption].echoed != "never"
    }


for _name in ModelDocument.keys:
    if DECLARED[_name].echoed != "always":
        ModelDocument.keys[_name] = optional(_name)


class LayersDocument(Document, of=Layers):
    """What each layer of the model adds to a price; their sum is the price."""

    wires_s: float
    contention_s: float
    library_s: float
    machine_s: float


class PhaseDocument(Document):
    """A phase of a schedule on one tier."""

    tier: str
    level: str
    label: str
    primitive: str
    algorithm: str
    ranks: int
    bytes: float = derived(whole_size)
    n_alpha: float
    n_beta: float
    alpha_s: float
    bandwidth_s: float
    eta_alpha: float
    eta_beta: float
    bandwidth_Bps: float
    share: float
    of_total: float
    energy_J: float = optional("energy_J")


def _phases(row: AlgorithmEstimate) -> Iterator[dict[str, Any]]:
    for phase in row.phases:
        yield PhaseDocument.of(phase, of_total=phase.total_s / row.total_s)


def _interval(row: AlgorithmEstimate) -> Any:
    """The interval; left out, rather than null, of rows that have no reason for lacking one."""
    return LEFT_OUT if row.interval is None and not row.no_interval else row.interval


def _no_interval(row: AlgorithmEstimate) -> Any:
    return row.no_interval if row.interval is None and row.no_interval else LEFT_OUT


def _bound_ratio(row: AlgorithmEstimate) -> Any:
    if row.lower_bound_s is None:
        return None
    return row.total_s / row.lower_bound_s


def _bound(row: AlgorithmEstimate) -> str | None:
    # rows of arrays have a bound per size
    return None if hasattr(row.bytes, "tolist") else row.bound


def _alpha_share(row: AlgorithmEstimate) -> Any:
    return row.alpha_s / row.total_s


def _bandwidth_share(row: AlgorithmEstimate) -> Any:
    return row.bandwidth_s / row.total_s


class RowDocument(Document, of=AlgorithmEstimate):
    """A priced algorithm."""

    name: str
    algorithm: str
    detail: str
    spec: str
    n_alpha: float | None
    n_beta: float | None
    alpha_s: float
    bandwidth_s: float
    overhead_s: float
    software_s: float
    total_s: float
    interval: IntervalDocument | None = optional(_interval)
    no_interval: str = optional(_no_interval)
    slow_rank: SlowRank = optional("slow")
    lower_bound_s: float | None
    bound_ratio: float | None = derived(_bound_ratio)
    layers: LayersDocument
    bound: str = derived(_bound)
    alpha_share: float = derived(_alpha_share)
    bandwidth_share: float = derived(_bandwidth_share)
    algbw_Bps: float
    busbw_Bps: float
    energy_J: float = optional("energy_J")
    status: str
    shipped_by: list[str]
    leads: bool = derived("selectable")
    why_not: str = derived(why_not_ranked)
    notes: list[str]
    phases: list[PhaseDocument] = derived(_phases)
    # left out where the fabric lists no protocols
    protocol: str = optional("protocol")


class PickDocument(Document):
    """The algorithm and protocol that a library picks, by its own estimate."""

    algorithm: str
    protocol: str
    estimate_s: float | None = derived("seconds")


class LibraryWayDocument(PickDocument):
    """An algorithm and protocol of a library, and why it cannot run."""

    reason: str


class PickingLibraryDocument(Document):
    """The library that a price is for, and what its cost model picks."""

    name: str
    version: str
    pick: PickDocument
    runs: RowDocument | None
    of_fastest: float | None
    ways: list[LibraryWayDocument]


class LibraryNameDocument(Document):
    """The library that a price is for, and why its own pick is not known."""

    name: str
    reason: str = optional("reason")


def _library(price: Price) -> Any:
    library = price.library
    if library is None:
        return LEFT_OUT
    if library.pick is None:
        return LibraryNameDocument.of(library)
    return PickingLibraryDocument.of(
        library,
        pick=PickDocument.of(library.pick),
        of_fastest=price.slower_pick,
        ways=map(LibraryWayDocument.of, library.ways),
    )


def _leads_on_one_port(price: Price) -> Any:
    """A name, or for arrays one of each size; left out where the winner is the same."""
    return price.leads_on_one_port if any(price.leads_on_one_port) else LEFT_OUT


class SizeDocument(OnFabricDocument):
    """The prices of a collective at one size."""

    primitive: str
    ranks: int
    group: GroupDocument
    bytes: float = derived(whole_size)
    mode: str
    model: ModelDocument = derived(lambda price: price.model.echo())
    results: list[RowDocument]
    infeasible: list[Infeasible] = derived(lambda price: (*price.infeasible, *price.failed))
    library: PickingLibraryDocument | LibraryNameDocument = optional(_library)
    leads_on_one_port: str = optional(_leads_on_one_port)
    accuracy: Accuracy | None
    inert: list[Inert] = optional("inert")
    as_filed_s: float = optional("as_filed_s")
