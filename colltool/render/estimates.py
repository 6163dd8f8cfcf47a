"""What views of prices share, in this order: the table of priced rows (:func:`row_table`), one price
of many sizes as prices of one size (:func:`at_each_size`), titles and notes in words, and the JSON of
a price (:class:`SizeDocument`).

``price``, ``breakdown``, ``crossover`` and ``explain`` are made of these; ``sweep``, ``compare`` and
others use the words.

Of a ``Price``, ``leading`` are the rows that may be called the fastest (what the user can run, or what was
named), ``others`` the rest; both are in the order of ``results``. A row's ``rank_class`` is 0 where the user
can run it, 1 where another library does, higher where none does. Its seconds are floats, or arrays where
``price.bytes`` is an array of sizes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from colltool.algorithms.libraries import LIBRARIES
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
from colltool.estimate.algorithm_estimate import LATE, AlgorithmEstimate, Constant, SlowRank
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
from colltool.render.not_ranked import not_run_text, why_not_ranked
from colltool.render.row_document import RowDocument, alpha_share, bandwidth_share
from colltool.render.shared_documents import GroupDocument, OnFabricDocument, whole_size


class Ranked(NamedTuple):
    """A priced row and the price that it is of, at one size: a record of the tables below.

    The properties are values of columns that neither of them has as it stands.
    """

    price: Price
    row: AlgorithmEstimate

    @property
    def how(self) -> str:
        """Our description of an algorithm that the library has another name for; else empty."""
        name = self.row.library_name
        if not name or name.lower() == self.row.title:
            return ""
        return self.row.how

    @property
    def alpha_share(self) -> Any:
        return alpha_share(self.row)

    @property
    def bandwidth_share(self) -> Any:
        return bandwidth_share(self.row)

    @property
    def shipped_by(self) -> str:
        return ", ".join(self.row.shipped_by)

    @property
    def why_not(self) -> str:
        return why_not_ranked(self.row)


def price_context(price: Price | None) -> Columns[Ranked]:
    """The hidden columns that say what was priced; with empty values for a table without rows."""
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


# CSV, and the base of every table
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
# what people see in place of the columns name and algorithm
_NAME: Column[Ranked] = label("name", "algorithm", fold=22, path="row.name")
_HOW: Column[Ranked] = label("how", "inside / across", drop=4, fold=18)
# The time of a row for people, in the parts that the answer names, which add up to the total: steps, bytes
# moved, launch, and the rest, which is the library's overhead. Where the screen is too narrow the launch
# goes first, which differs least between the rows.
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
"""Columns of CSV that people do not see: they count what a library adds to steps and bytes as
overhead, which the parts for people do not."""
_HIDDEN_IF_EMPTY = ("overhead_s", "software_s", "rest_s", "protocol")


def row_table(
    ranked: Sequence[Ranked],
    title: str = "",
    best: int | None = None,
    *,
    sizes: bool = False,
    names: bool = False,
) -> Table:
    """A table of priced rows.

    Some columns are hidden if they are 0 or empty in all rows; those of a slow rank and of energy
    exist only if known.

    Args:
        best: the index of the row to highlight; none for None.
        sizes: whether to show the size of each row.
        names: whether it is for people: the library's names of algorithms come first, and the parts
            of a time are those that the answer names.
    """
    rows = [record.row for record in ranked]
    columns: Sequence[Column[Ranked]] = _ROW
    hidden_keys = []
    for key in _HIDDEN_IF_EMPTY:
        if not any(getattr(row, key) for row in rows):
            hidden_keys.append(key)
    if names:
        columns = _columns_for_people(ranked)
        hidden_keys += _OF_WIRES
    # in contrast to hidden ones these are not in CSV either
    absent_keys = []
    if not any(row.slow for row in rows):
        absent_keys += ["slow_total_s", "slowdown"]
    if all(row.energy_J is None for row in rows):
        absent_keys.append("energy_J")
    present = [column for column in columns if column.key not in absent_keys]
    context_columns = price_context(ranked[0].price if ranked else None)
    table = Table((*context_columns, *present), ranked, best, title).without(*hidden_keys)
    return table.with_shown("bytes") if sizes else table


def _columns_for_people(ranked: Sequence[Ranked]) -> list[Column[Ranked]]:
    """The columns of CSV with the library's names, with the parts of the time before the total, and
    with busbw among the last that a narrow screen drops."""
    columns: list[Column[Ranked]] = []
    for column in _ROW:
        match column.key:
            case "name":
                columns.append(_NAME)
            case "algorithm":
                # if the library has no other name for any row, its name is enough
                if any(record.how for record in ranked):
                    columns.append(_HOW)
            case "overhead_s":
                # one of the parts
                pass
            case "total_s":
                columns += [*_PARTS, column]
            case "busbw_Bps":
                columns.append(column._replace(drop=1))
            case _:
                columns.append(column)
    return columns


_MOST_IN_PERCENT = 2.0  # a larger relative increase is written as a factor


def change_text(share: float) -> str:
    """A relative change: ``-1.6%``, ``+32%``, and ``6.2x`` for 5.2 times as much more."""
    if share > _MOST_IN_PERCENT:
        return format_factor(1 + share, 2)
    # two digits: from 9.95% on, which is 10% when rounded, there are no decimals
    if abs(share) >= 0.0995:
        return f"{share:+.0%}"
    return short_percent(share, 2, "+")


def seconds(row: AlgorithmEstimate) -> float:
    """The time of a row that has one size, not an array of them."""
    return float(row.total_s)


def every_row(prices: Sequence[Price]) -> Table:
    """All rows of all sizes: at each what the library picks, where that is known, the other leading ones by
    time, then the others by class and time."""
    ranked = []
    for price in prices:
        pick = price.best if price.shows_pick else None
        leading = sorted(price.leading, key=lambda row: (row is not pick, seconds(row)))
        others = sorted(price.others, key=lambda row: (row.rank_class, seconds(row)))
        ranked += [Ranked(price, row) for row in (*leading, *others)]
    return row_table(ranked, sizes=len(prices) > 1)


def library_label(price: Price) -> str:
    """The display name of the library of a price; empty without one."""
    return LIBRARIES[price.library.name].label if price.library else ""


# --- one price of many sizes as prices of one size

_NUMBERS = {"bytes": "bytes"} | LATE
"""Fields of a row that may be arrays over sizes, each with the property that gives its value: fields of
``LATE`` hold functions that compute it when it is asked for."""


def at_each_size(price: Price) -> Iterator[Price]:
    """One price per size, in the order of sizes; the price itself if it has one size."""
    if isinstance(price.bytes, float):
        yield price
        return
    for index, size in enumerate(price.bytes):
        rows = [_at_one_size(row, index) for row in price.results]
        single = replace(price, bytes=float(size), results=tuple(rows))
        # arrays are in registry order, rows at one size by time
        yield replace(single, results=(*sorted(single.leading, key=seconds), *single.others))


def _at_one_size(row: AlgorithmEstimate, index: int) -> AlgorithmEstimate:
    """A row with the elements of its arrays at an index, without phases; likewise its layers below, which
    are the same schedule's prices with less in them (on wires alone, with contention)."""
    below = None
    # a row without layers refers to itself
    if row.below[0] is not row:
        below = Constant(tuple(_at_one_size(layer, index) for layer in row.below))
    numbers = {}
    for field, source in _NUMBERS.items():
        value = getattr(row, source)
        # plain numbers hold for all sizes; an array of no dimension is one too
        if getattr(value, "shape", ()):
            value = value[index]
        numbers[field] = plain_number(value)
    # late_phases is called for the phases: tuple() gives none, as those of the arrays do not fit one size
    return replace(row, late_phases=tuple, late_below=below, **numbers)


# --- titles and notes


def heading(price: Price, sizes: str | None = None) -> str:
    """A title: ``all-reduce on nvl72, 72 ranks, 16 MB per rank, NCCL, with contention``.

    Args:
        sizes: text in place of the price's size, with ", " at its end if it is not empty.
    """
    if sizes is None:
        sizes = f"{title_size(float(price.bytes))} per rank, "
    library = ""
    if price.library:
        library = f"{library_in_title(price.library.name, leads=bool(price.runnable))}, "
    collective = f"{price.primitive.label}{_on_fabric_text(price)}, {price.group.label}"
    return f"{collective}, {sizes}{library}{CONTENTION[price.mode]}"


CONTENTION = {"realistic": "with contention", "ideal": "without contention"}
"""The mode of a price in words."""


def _on_fabric_text(price: Price) -> str:
    """`` on mine``, or `` on mine (ib as InfiniBand)`` where media were assumed."""
    text = f" on {fabric_of(price)}"
    # a price without contention does not depend on the media
    if not price.assumed or price.mode == "ideal":
        return text
    media = (f"{tier} as {medium}" for tier, medium in price.assumed)
    return f"{text} ({', '.join(media)})"


def library_in_title(library: str, *, leads: bool) -> str:
    """A library, by its key of ``LIBRARIES``, in a title; ``leads`` says whether it runs any of the
    rows."""
    entry = LIBRARIES[library]
    if leads:
        return entry.label
    return f"none of it implemented in {entry.label}{entry.hint}"


def notes(
    rows: Sequence[AlgorithmEstimate],
    model: AssumptionsUsed,
    prices: Sequence[Price] = (),
    first: int | None = None,
) -> list[Block]:
    """The block of notes, as a list of one; empty without any.

    It has changed model options, then who would be first if ranks drove one port at a time, then each
    note of a row with the rows that it is of, and why a library of the fabric does not run a row.

    Args:
        rows: whose notes to show.
        model: the model options in force, and ``usual``, those of the fabric's library.
        prices: where to look for a winner on one port.
        first: how many notes the default view has, beside model options and a single winner on one
            port; all for None.
    """
    always_shown = dict.fromkeys(_readings_lines(model.readings, model.usual))
    one_port = localize(argument_text("ports", "one"))
    note_and_subject = []
    for price in prices:
        leader = price.leads_on_one_port
        # arrays have a leader for each size, which no note says
        if not leader or not isinstance(leader, str):
            continue
        text = f"with {one_port}, {leader} would be first"
        if len(prices) == 1:
            always_shown[text] = None
        else:
            note_and_subject.append((text, title_size(float(price.bytes))))
    for row in rows:
        note_and_subject += [(note, row.title) for note in row.notes]
        reason = row.not_selected_reason
        # rows of other libraries need no explanation
        if row.rank_class == 1 and reason and not reason.foreign:
            note_and_subject.append((not_run_text(reason), row.title))
    brief = None if first is None else len(always_shown) + first
    return listed("notes", (*always_shown, *lines_by_text(note_and_subject)), brief)


def _readings_lines(
    readings: ModelOptions, usual: ModelOptions = USUAL, varied: Collection[str] = ()
) -> list[str]:
    """``model options: ports=one``, as a list of one; empty if all are the usual ones."""
    changed = [
        f"{reading}={value}"
        for reading, value in readings.unlike(usual).items()
        if reading not in varied
    ]
    return [f"model options: {', '.join(changed)}"] if changed else []


def readings_block(readings: ModelOptions, varied: Collection[str] = ()) -> list[Block]:
    """The model options that are not the default, as a list of one block; empty without any. ``varied``
    ones, which are an axis of a sweep, are left out."""
    return [Lines(line, ()) for line in _readings_lines(readings, varied=varied)]


def slow_words(slow: SlowRank | None) -> str:
    """Such as ``with one rank at 0.8 of its bandwidth 1.2 ms, 1.19x; rank 0 costs most``. Empty for
    None."""
    if slow is None:
        return ""
    condition = f"with one rank at {slow.share:g} of its bandwidth"
    # both are None where the time is not known; ``reason`` says why
    if slow.total_s is None or slow.slowdown is None:
        return f"{condition}: not known, {slow.reason}"
    costliest = "" if slow.rank is None else f"; rank {slow.rank} costs most"
    return f"{condition} {format_time(slow.total_s)}, {format_factor(slow.slowdown)}{costliest}"


def named_anyway(prices: Sequence[Price]) -> list[Block]:
    """Why rows lead that would not if the user had not named them, as a list of one block; empty without
    such rows."""
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


def segment_lines(pipelined_parts: Sequence[BestSegments]) -> list[str]:
    """A line on the best number of segments for each pipelined part, where P* is the formula's, no whole
    number: ``ib: P* = 12.34, best with 12 segments: 1.2 ms including pipeline fill``."""
    lines = []
    for part in pipelined_parts:
        best = f"P* = {part.exact:.4g}, best with {counted(part.segments, 'segment')}"
        if part.exact < 1:
            best = f"P* = {part.exact:.2g}, so best sent whole"
        time = f"{format_time(part.seconds)} including pipeline fill"
        lines.append(f"{place_name(part.tier, part.level)}: {best}: {time}")
    return lines


# --- documents


class ModelDocument(Document):
    """The options of the model in force; some are left out where they are the usual ones.

    They are declared once, with their types, in :mod:`colltool.estimate.assumptions`: those that are
    echoed ``always`` or only if ``given``.
    """

    # a class of annotations alone has them as keys: here they come from a table
    __annotations__ = {
        assumption: KINDS[assumption]
        for assumption in DECLARED
        if DECLARED[assumption].echoed != "never"
    }


for _option in ModelDocument.keys:
    if DECLARED[_option].echoed != "always":
        ModelDocument.keys[_option] = optional(_option)


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
    """The library, with its own pick where that is known; left out of a price for any library."""
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
    # any() of a name is whether it is not empty
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
