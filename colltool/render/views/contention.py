"""``contention``: slowdown by group, the hottest links, a heat map of all links; or the eta to paste."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from typing import Any, NamedTuple

from colltool.base.errors import either, said
from colltool.base.formatting import (
    counted,
    format_bytes,
    format_count,
    format_factor,
    format_rate,
    format_time,
    sentence,
    whole_bytes,
)
from colltool.congestion.contention import Contention, GroupCost, LayoutEta
from colltool.congestion.top_links import LinkLoad
from colltool.render.blocks import Block, Column, Headline, Lines, Strip, Strips, Table, label, number
from colltool.render.view import Document, Overrides, View, fields, on_fabric, set_field, set_text

MOST_GROUPS = 20  # the slowest; CSV and JSON have all


class _Of(NamedTuple):
    result: Any
    one: Any


def _context(overrides: Overrides) -> tuple[Column, ...]:
    fabric = label("fabric", "fabric", get=lambda of: of.result.fabric, hidden=True)
    layout = label("layout", "layout", get=lambda of: of.result.layout, hidden=True)
    changed = label("set", "set", get=lambda of: set_text(of.result.overrides), hidden=True)
    return (fabric, layout, changed) if overrides else (fabric, layout)


def _coefficient(value: float) -> str:
    return format_count(value, 4)


_GROUP: tuple[Column, ...] = (
    label("name", "group", get=lambda of: of.one.name),
    number("ranks", "ranks", drop=6, get=lambda of: of.one.ranks),
    label("primitive", "primitive", lambda primitive: primitive.spoken, 4, get=lambda of: of.one.primitive),
    label("algorithm", "algorithm", drop=7, get=lambda of: of.one.algorithm),
    number("slowdown", "slowdown", format_factor, get=lambda of: of.one.slowdown),
    number("interference", "neighbours", format_factor, 3, get=lambda of: of.one.interference),
    number("eta_beta", "eta_b", _coefficient, 2, get=lambda of: of.one.eta_beta),
    number("eta_alpha", "eta_a", _coefficient, 1, get=lambda of: of.one.eta_alpha),
    number("extra_hops", "extra hops", drop=5, get=lambda of: of.one.extra_hops),
    number("tail_over_mean", "tail/mean", _coefficient, 8, get=lambda of: of.one.tail_over_mean),
    label("busiest", "busiest", drop=9, get=lambda of: of.one.busiest),
    number("bytes", "size", format_bytes, get=lambda of: whole_bytes(of.one.bytes), hidden=True),
    number("ideal_s", "ideal", format_time, 11, get=lambda of: of.one.ideal_s),
    number("together_s", "together", format_time, 10, get=lambda of: of.one.together_s),
)


def _load(value: float, unit: str) -> str:
    return format_bytes(value) if unit == "bytes" else f"{format_count(value, 5)} M"


def _link_columns(unit: str) -> tuple[Column, ...]:
    return (
        label("link", "link", get=lambda of: of.one.link),
        number("load", "load", lambda value: _load(value, unit), get=lambda of: of.one.load),
        number("over_ideal", "over ideal", format_factor, get=lambda of: of.one.over_ideal),
        number("groups", "groups", drop=1, get=lambda of: of.one.groups),
        number("capacity_Bps", "capacity", format_rate, 2, get=lambda of: of.one.capacity_Bps),
    )


def _blocks(result: Contention) -> list[Block]:
    groups = result.groups
    if len(groups) > MOST_GROUPS:
        groups = nsmallest(MOST_GROUPS, result.groups, key=lambda group: -group.slowdown)
    about = _group_table(groups, result)._replace(first=8)
    per_link = [_link_table(result.links, result, "every loaded link")] if result.links else []
    left = len(result.groups) - len(groups)
    more = [Lines(f"{left} more groups, none slower; {_everywhere()}", (), first=0)] if left else []
    hottest = [] if per_link else [_link_table(result.hottest, result, "hottest links")._replace(first=3)]
    strips = tuple(Strip(line.line, line.cells, line.per_cell) for line in result.lines)
    shades = Strips("load/capacity", f"here {result.hottest[0].link}", strips)
    return [Headline(_answer(result)), *per_link, about, *more, *hottest, shades, Lines("notes", result.notes, first=0)]


def _answer(result: Contention) -> str:
    worst = max(result.groups, key=lambda group: group.slowdown)
    slow = f"slowdown {format_factor(worst.slowdown)}: {worst.name} waits for {result.hottest[0].link}"
    said = sentence(slow) if worst.slowdown > _SAME else "No group is slowed down"
    asked = f"{counted(len(result.groups), 'group')} at once: {result.layout} on {on_fabric(result.fabric, result.overrides)}"
    shared = f"{result.shared} of {result.loaded} loaded links and ports carry more than one group"
    return f"{said}. {sentence(asked)}. {sentence(shared)}."


_SAME = 1.0005


def _group_table(groups: Sequence[GroupCost], result: Contention, title: str = "") -> Table:
    table = Table((*_context(result.overrides), *_GROUP), tuple(_Of(result, group) for group in groups), None, title)
    return table if result.unit == "bytes" else table.without("ideal_s", "together_s")


def _link_table(links: Sequence[LinkLoad], result: Contention, title: str = "") -> Table:
    columns = (*_context(result.overrides), *_link_columns(result.unit))
    return Table(columns, tuple(_Of(result, link) for link in links), None, title)


def _table(result: Contention) -> Table:
    return _link_table(result.links, result) if result.links else _group_table(result.groups, result)


def _document(result: Contention) -> Document:
    return {"fabric": result.fabric} | set_field(result.overrides) | {
        "layout": result.layout,
        "unit": result.unit,
        "groups": [_group(group) for group in result.groups],
        "slowdown": result.slowdown,
        "hottest": [fields(link, _OF_LINK) for link in result.hottest],
        "lines": [fields(line, "line links loaded busiest mean") for line in result.lines],
        "links_loaded": result.loaded,
        "links_shared": result.shared,
        "eta": [fields(one, _OF_TIER) for one in result.etas],
        "notes": list(result.notes),
    } | ({"links": [fields(link, _OF_LINK) for link in result.links]} if result.links else {})  # fmt: skip


_OF_GROUP = "name ranks slowdown interference extra_hops eta_alpha eta_beta primitive algorithm"
_OF_TIER = "tier alpha beta group"
_OF_LINK = "link load over_ideal line capacity_Bps groups"


def _group(group: GroupCost) -> Document:
    return {
        **fields(group, _OF_GROUP),
        "bytes": whole_bytes(group.bytes),
        **fields(group, "tail_over_mean busiest ideal_s together_s"),
    }


def _summary(result: Contention) -> str:
    together = f"{counted(len(result.groups), 'group')} at once, slowdown {format_factor(result.slowdown)}"
    return f"{result.layout} on {on_fabric(result.fabric, result.overrides)}: {together}, hottest {result.hottest[0].link}"


def _file(value: float) -> str:
    return format_count(value, 9)


_ETA: tuple[Column, ...] = (
    label("tier", "tier", get=lambda of: of.one.tier),
    number("alpha", "eta alpha", _file, get=lambda of: of.one.alpha),
    number("beta", "eta beta", _file, get=lambda of: of.one.beta),
    number("group", "from", get=lambda of: of.one.group),
)
_MEANING = (
    "in place of the fabric's own eta: what this layout alone costs the worst group, for a price of packed groups; "
    "a tier without beta bounds no group, keep its own"
)
_AGREEMENT = (
    "price adds the distance classes of an all-to-all up one after the other, contention takes the busiest port or uplink of "
    "the whole: over several levels their ratios differ; beta is the share of one port, which price takes for "
    "oversubscription and contention together"
)


def _eta_table(result: LayoutEta, title: str = "") -> Table:
    columns = (*_context(result.overrides), *_ETA)
    return Table(columns, tuple(_Of(result, one) for one in result.etas), None, title)


def _as_options(options: Sequence[str]) -> str:
    return said(either(shell=" ".join(f"--set {option}" for option in options), python=f"overrides={list(options)!r}"))


def _everywhere() -> str:
    return said(either(shell="--format csv and json have all", python="groups has all"))


def _eta_blocks(result: LayoutEta) -> list[Block]:
    yaml, options = [], []
    for one in result.etas:
        beta = "" if one.beta is None else f", beta: {_file(one.beta)}"
        yaml.append(f"eta: {{alpha: {_file(one.alpha)}{beta}}}  # tier {one.tier}")
        options.append(f"{one.tier}.eta.alpha={_file(one.alpha)}")
        options += [] if one.beta is None else [f"{one.tier}.eta.beta={_file(one.beta)}"]
    return [
        Headline(f"{sentence(_eta_summary(result))} (alpha/BW): paste either form below."),
        _eta_table(result),
        Lines("in the fabric file", tuple(yaml), verbatim=True),
        Lines(said(either(shell="on the command line", python="as an argument")), (_as_options(options),), verbatim=True),
        Lines("notes", (_MEANING, _AGREEMENT), first=0),
    ]


def _eta_document(result: LayoutEta) -> Document:
    head: Document = {"fabric": result.fabric} | set_field(result.overrides)
    return head | {"layout": result.layout, "eta": [fields(one, _OF_TIER) for one in result.etas]}


def _eta_summary(result: LayoutEta) -> str:
    tiers = (f"{one.tier} {_file(one.alpha)}/{'-' if one.beta is None else _file(one.beta)}" for one in result.etas)
    return f"eta of {result.layout} on {on_fabric(result.fabric, result.overrides)}: {', '.join(tiers)}"


VIEWS = {
    Contention: View("contention", _blocks, _document, _table, _summary),
    LayoutEta: View("contention-eta", _eta_blocks, _eta_document, _eta_table, _eta_summary),
}
