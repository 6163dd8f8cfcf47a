"""``contention``: slowdown by group, the hottest links, a heat map of all links; or, with
``--as-eta``, the eta to paste.

Read from :data:`VIEWS`: :func:`_blocks` and :func:`_eta_blocks` are the two screens.

Groups of ranks communicate at once, in a ``layout``. A group's ``slowdown`` is its time over that without
contention, packed as tightly as can be; ``interference`` is its time over that alone in the same places. Loads are
bytes, or multiples of M where no size was given (``unit``); ``hottest`` are links by load over capacity, the most
first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import nlargest
from typing import Any

from colltool.base.errors import either, localize
from colltool.base.formatting import (
    counted,
    format_bytes,
    format_count,
    format_factor,
    sentence,
)
from colltool.congestion.contention import Contention, GroupCost, LayoutEta, TierEta
from colltool.congestion.heat import LinkClassLoad, LinkLoad
from colltool.render.blocks import (
    Block,
    Columns,
    Headline,
    Lines,
    Strip,
    Strips,
    Table,
    label,
    later,
    number,
)
from colltool.render.dispatch import View, context, fabric_of
from colltool.render.documents import Document, derived, optional
from colltool.render.shared_documents import OnFabricDocument, whole_size

_MOST_GROUPS = 20  # the slowest; CSV and JSON have all
_FIRST_GROUPS = 4  # that leave room for the map on a screen of 24 lines


def _four_digits(value: float) -> str:
    return format_count(value, 4)


def _slowdown(group: GroupCost) -> float:
    return group.slowdown


_GROUP: Columns[GroupCost] = (
    label("name", "group"),
    number("ranks", drop=6),
    label("primitive", "primitive", lambda primitive: primitive.label, drop=4),
    label("algorithm", drop=7),
    number("slowdown", "slowdown", format_factor),
    number("interference", "by others", format_factor, drop=3),
    number("eta_beta", "eta beta", _four_digits, drop=2),
    number("eta_alpha", "eta alpha", _four_digits, drop=1),
    number("extra_hops", "extra hops", drop=5),
    number("tail_over_mean", "tail/mean", _four_digits, drop=8),
    label("busiest", drop=9),
    number("bytes", "size", format_bytes, hidden=True, whole=True),
    number("ideal_s", "ideal", drop=11),
    number("together_s", "together", drop=10),
)


def _blocks(result: Contention) -> Iterator[Block]:
    """The answer, the links if they were asked for, the groups and the map."""
    # the slowest first; of equally slow ones in their order
    groups = nlargest(_MOST_GROUPS, result.groups, key=_slowdown)
    yield Headline(_answer(result))
    if result.links:
        yield _link_table(result.links, result, "every loaded link")
    yield _group_table(groups, result)._replace(first=_FIRST_GROUPS)
    more = len(result.groups) - len(groups)
    if more:
        where_all = localize(
            either(shell="--format csv and json have all", python="groups has all")
        )
        yield Lines(f"{more} more groups are no slower; {where_all}", (), first=0)
    if not result.links:
        # the answer names the hottest, and the map shows where they are
        yield later(_link_table(result.hottest, result, "hottest links"))
    strips = tuple(Strip(line.line, line.cells, line.per_cell) for line in result.lines)
    yield Strips("load by capacity", f"here {result.hottest[0].link}", strips)
    yield Lines("notes", result.notes, first=0)


def _answer(result: Contention) -> str:
    """Say how much the slowest group is slowed down and by which link, and how many links groups share."""
    worst = max(result.groups, key=_slowdown)
    groups = counted(len(result.groups), "group")
    # less would be shown as 1x
    if worst.slowdown > 1.0005:
        slowdown = (
            f"With contention the slowest group ({worst.name}) takes"
            f" {format_factor(worst.slowdown)} as long: it waits for {result.hottest[0].link}"
        )
    else:
        slowdown = "No group is slowed down"
    verb = "runs" if len(result.groups) == 1 else "run at once"
    shared = f"{result.shared} of the {result.loaded} loaded links and ports are shared by groups"
    return f"{slowdown}. {groups} {verb} ({result.layout} on {fabric_of(result)}); {shared}."


def _context_columns(result: Contention | LayoutEta) -> Columns[Any]:
    return context(result.overrides, fabric=result.fabric, layout=result.layout)


def _group_table(groups: Sequence[GroupCost], result: Contention) -> Table:
    """The groups, a row each, with the layout in hidden columns."""
    table = Table((*_context_columns(result), *_GROUP), groups)
    # without a size there are loads in units of M, but no times
    return table if result.unit == "bytes" else table.without("ideal_s", "together_s")


def _multiples_of_size(load: float) -> str:
    """``1.5 M``, M being the size of a collective."""
    return f"{format_count(load, 5)} M"


def _link_table(links: Sequence[LinkLoad], result: Contention, title: str = "") -> Table:
    """Links with what they carry, in the unit of the result."""
    columns: Columns[LinkLoad] = (
        label("link"),
        number("load", "load", format_bytes if result.unit == "bytes" else _multiples_of_size),
        number("over_ideal", "times ideal", format_factor),
        number("groups", drop=1),
        number("capacity_Bps", "capacity", drop=2),
    )
    return Table((*_context_columns(result), *columns), links, title=title)


def _table(result: Contention) -> Table:
    if result.links:
        return _link_table(result.links, result)
    return _group_table(result.groups, result)


def _summary(result: Contention) -> str:
    groups = f"{counted(len(result.groups), 'group')} at once"
    slowdown = f"the slowest takes {format_factor(result.slowdown)} as long with contention"
    return (
        f"{result.layout} on {fabric_of(result)}: {groups}, {slowdown}; hottest link:"
        f" {result.hottest[0].link}"
    )


class GroupCostDocument(Document, of=GroupCost):
    """A group of a layout, and what the others cost it."""

    name: str
    ranks: int
    slowdown: float
    interference: float
    extra_hops: int
    eta_alpha: float
    eta_beta: float
    primitive: str
    algorithm: str
    bytes: float | None = derived(whole_size)
    tail_over_mean: float
    busiest: str
    ideal_s: float | None
    together_s: float | None


class LinkLoadDocument(Document, of=LinkLoad):
    """What a link carries."""

    link: str
    load: float
    over_ideal: float
    line: str
    capacity_Bps: float
    groups: int


class LinkClassDocument(Document, of=LinkClassLoad):
    """What the links of a kind carry."""

    line: str
    links: int
    loaded: int
    busiest: float
    mean: float


class LayoutDocument(OnFabricDocument):
    """The layout of groups on a fabric."""

    layout: str


class ContentionDocument(LayoutDocument):
    """What groups that communicate at once cost each other."""

    unit: str
    groups: list[GroupCostDocument] = derived(lambda result: tuple(result.groups))
    slowdown: float
    hottest: list[LinkLoadDocument]
    lines: list[LinkClassDocument]
    links_loaded: int = derived("loaded")
    links_shared: int = derived("shared")
    eta: list[TierEta] = derived("etas")
    notes: list[str]
    links: list[LinkLoadDocument] = optional("links")


# --- as an eta to paste


def _nine_digits(value: float) -> str:
    """An eta as a file has it."""
    return format_count(value, 9)


_ETA: Columns[TierEta] = (
    label("tier"),
    number("alpha", "eta alpha", _nine_digits),
    number("beta", "eta beta", _nine_digits),
    number("group", "from"),
)
_MEANING = (
    "they replace the fabric's own eta, for a price of packed groups: what this layout alone costs"
    " the worst group; a tier without beta limits no group, so keep its own"
)
_AGREEMENT = (
    "over several levels the ratios of price and contention differ for an all-to-all: price adds up"
    " its distance classes, contention takes the busiest port or uplink of the whole; beta is the"
    " share of one port, which covers oversubscription and contention together"
)


def _eta_table(result: LayoutEta) -> Table:
    return Table((*_context_columns(result), *_ETA), result.etas)


def _eta_blocks(result: LayoutEta) -> list[Block]:
    """The η of each tier that a price may take for the layout, as lines of a file and as options."""
    yaml = []
    options = []
    for eta in result.etas:
        # a tier that bounds no group has no beta, and keeps its own
        keys = {"alpha": _nine_digits(eta.alpha)}
        if eta.beta is not None:
            keys["beta"] = _nine_digits(eta.beta)
        pairs = ", ".join(f"{key}: {value}" for key, value in keys.items())
        yaml.append(f"eta: {{{pairs}}}  # tier {eta.tier}")
        options += [f"{eta.tier}.eta.{key}={value}" for key, value in keys.items()]
    shell = " ".join(f"--set {option}" for option in options)
    arguments = localize(either(shell=shell, python=f"overrides={options!r}"))
    arguments_title = localize(either(shell="on the command line", python="as an argument"))
    return [
        Headline(f"{sentence(_eta_summary(result))}. Paste either form below."),
        _eta_table(result),
        Lines("in the fabric file", yaml, verbatim=True),
        Lines(arguments_title, (arguments,), verbatim=True),
        Lines("notes", (_MEANING, _AGREEMENT), first=0),
    ]


def _eta_summary(result: LayoutEta) -> str:
    """``for packed x8 on dgx-h100, ib has eta alpha 1 and eta beta 0.5``: each tier's, without a capital."""
    tiers = []
    for eta in result.etas:
        text = f"{eta.tier} has eta alpha {_nine_digits(eta.alpha)}"
        if eta.beta is not None:
            text += f" and eta beta {_nine_digits(eta.beta)}"
        tiers.append(text)
    return f"for {result.layout} on {fabric_of(result)}, {', '.join(tiers)}"


class LayoutEtaDocument(LayoutDocument):
    """The eta that a layout comes to."""

    eta: list[TierEta] = derived("etas")


VIEWS = {
    Contention: View("contention", _blocks, ContentionDocument.of, _table, _summary),
    LayoutEta: View("contention-eta", _eta_blocks, LayoutEtaDocument.of, _eta_table, _eta_summary),
}
