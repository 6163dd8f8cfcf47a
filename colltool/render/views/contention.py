"""``contention``: slowdown by group, the hottest links, a heat map of all links; or the eta to
paste."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest

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
from colltool.congestion.loads import LinkLoad
from colltool.render.blocks import (
    Block,
    Column,
    Headline,
    Lines,
    Strip,
    Strips,
    Table,
    label,
    number,
)
from colltool.render.dispatch import Document, View, context, fields, on_fabric, set_field

_MOST_GROUPS = 20  # the slowest; CSV and JSON have all
_GROUP = (
    label("name", "group"),
    number("ranks", "ranks", drop=6),
    label("primitive", "primitive", lambda primitive: primitive.spoken, 4),
    label("algorithm", "algorithm", drop=7),
    number("slowdown", "slowdown", format_factor),
    number("interference", "neighbours", format_factor, 3),
    number("eta_beta", "eta_b", lambda eta: format_count(eta, 4), 2),
    number("eta_alpha", "eta_a", lambda eta: format_count(eta, 4), 1),
    number("extra_hops", "extra hops", drop=5),
    number("tail_over_mean", "tail/mean", lambda ratio: format_count(ratio, 4), 8),
    label("busiest", "busiest", drop=9),
    number("bytes", "size", format_bytes, get=lambda one: whole_bytes(one.bytes), hidden=True),
    number("ideal_s", "ideal", format_time, 11),
    number("together_s", "together", format_time, 10),
)


def _blocks(result: Contention) -> list[Block]:
    groups = result.groups
    if len(groups) > _MOST_GROUPS:
        groups = nsmallest(_MOST_GROUPS, result.groups, key=lambda group: -group.slowdown)
    out: list[Block] = (
        [_link_table(result.links, result, "every loaded link")] if result.links else []
    )
    out.append(_group_table(groups, result)._replace(first=8))
    if left := len(result.groups) - len(groups):
        everywhere = said(either(shell="--format csv and json have all", python="groups has all"))
        out.append(Lines(f"{left} more groups, none slower; {everywhere}", (), first=0))
    if not result.links:
        out.append(_link_table(result.hottest, result, "hottest links")._replace(first=3))
    strips = tuple(Strip(line.line, line.cells, line.per_cell) for line in result.lines)
    shades = Strips("load/capacity", f"here {result.hottest[0].link}", strips)
    return [Headline(_answer(result)), *out, shades, Lines("notes", result.notes, first=0)]


def _answer(result: Contention) -> str:
    worst = max(result.groups, key=lambda group: group.slowdown)
    slow = (
        f"slowdown {format_factor(worst.slowdown)}: {worst.name} waits for {result.hottest[0].link}"
    )
    told = sentence(slow) if worst.slowdown > 1.0005 else "No group is slowed down"
    asked = (
        f"{counted(len(result.groups), 'group')} at once: {result.layout} on"
        f" {on_fabric(result.fabric, result.overrides)}"
    )
    shared = f"{result.shared} of {result.loaded} loaded links and ports carry more than one group"
    return f"{told}. {sentence(asked)}. {sentence(shared)}."


def _asked(result: Contention | LayoutEta) -> tuple[Column, ...]:
    return context(result.overrides, fabric=result.fabric, layout=result.layout)


def _group_table(groups: Sequence[GroupCost], result: Contention) -> Table:
    table = Table((*_asked(result), *_GROUP), tuple(groups))
    return table if result.unit == "bytes" else table.without("ideal_s", "together_s")


def _link_table(links: Sequence[LinkLoad], result: Contention, title: str = "") -> Table:
    unit = result.unit
    columns = (
        label("link", "link"),
        number(
            "load",
            "load",
            lambda load: format_bytes(load) if unit == "bytes" else f"{format_count(load, 5)} M",
        ),
        number("over_ideal", "over ideal", format_factor),
        number("groups", "groups", drop=1),
        number("capacity_Bps", "capacity", format_rate, 2),
    )
    return Table((*_asked(result), *columns), tuple(links), None, title)


def _table(result: Contention) -> Table:
    return (
        _link_table(result.links, result) if result.links else _group_table(result.groups, result)
    )


def _document(result: Contention) -> Document:
    groups = [
        fields(
            group,
            "name ranks slowdown interference extra_hops eta_alpha eta_beta primitive algorithm",
        )
        | {
            "bytes": whole_bytes(group.bytes),
            **fields(group, "tail_over_mean busiest ideal_s together_s"),
        }
        for group in result.groups
    ]
    return (
        {
            "fabric": result.fabric,
            **set_field(result.overrides),
            "layout": result.layout,
            "unit": result.unit,
        }
        | {
            "groups": groups,
            "slowdown": result.slowdown,
            "hottest": [fields(link, _OF_LINK) for link in result.hottest],
        }
        | {"lines": [fields(line, "line links loaded busiest mean") for line in result.lines]}
        | {"links_loaded": result.loaded, "links_shared": result.shared}
        | {"eta": [fields(one, _OF_TIER) for one in result.etas], "notes": list(result.notes)}
        | ({"links": [fields(link, _OF_LINK) for link in result.links]} if result.links else {})
    )


_OF_TIER = "tier alpha beta group"
_OF_LINK = "link load over_ideal line capacity_Bps groups"


def _summary(result: Contention) -> str:
    together = (
        f"{counted(len(result.groups), 'group')} at once, slowdown {format_factor(result.slowdown)}"
    )
    return (
        f"{result.layout} on {on_fabric(result.fabric, result.overrides)}: {together}, hottest"
        f" {result.hottest[0].link}"
    )


def _file(value: float) -> str:
    return format_count(value, 9)


_ETA = (
    label("tier", "tier"),
    number("alpha", "eta alpha", _file),
    number("beta", "eta beta", _file),
    number("group", "from"),
)
_MEANING = (
    "in place of the fabric's own eta: what this layout alone costs the worst group, for a price of"
    " packed groups; a tier without beta bounds no group, keep its own"
)
_AGREEMENT = (
    "price adds the distance classes of an all-to-all up one after the other, contention takes the"
    " busiest port or uplink of the whole: over several levels their ratios differ; beta is the"
    " share of one port, which price takes for oversubscription and contention together"
)


def _etas(result: LayoutEta) -> Table:
    return Table((*_asked(result), *_ETA), result.etas)


def _eta_blocks(result: LayoutEta) -> list[Block]:
    yaml, options = [], []
    for one in result.etas:
        beta = "" if one.beta is None else f", beta: {_file(one.beta)}"
        yaml.append(f"eta: {{alpha: {_file(one.alpha)}{beta}}}  # tier {one.tier}")
        options.append(f"{one.tier}.eta.alpha={_file(one.alpha)}")
        options += [] if one.beta is None else [f"{one.tier}.eta.beta={_file(one.beta)}"]
    pasted = said(
        either(
            shell=" ".join(f"--set {option}" for option in options), python=f"overrides={options!r}"
        )
    )
    return [
        Headline(f"{sentence(_eta_summary(result))} (alpha/BW): paste either form below."),
        _etas(result),
        Lines("in the fabric file", tuple(yaml), verbatim=True),
        Lines(
            said(either(shell="on the command line", python="as an argument")),
            (pasted,),
            verbatim=True,
        ),
        Lines("notes", (_MEANING, _AGREEMENT), first=0),
    ]


def _eta_document(result: LayoutEta) -> Document:
    head = {"fabric": result.fabric, **set_field(result.overrides), "layout": result.layout}
    return head | {"eta": [fields(one, _OF_TIER) for one in result.etas]}


def _eta_summary(result: LayoutEta) -> str:
    tiers = (
        f"{one.tier} {_file(one.alpha)}/{'-' if one.beta is None else _file(one.beta)}"
        for one in result.etas
    )
    return (
        f"eta of {result.layout} on {on_fabric(result.fabric, result.overrides)}:"
        f" {', '.join(tiers)}"
    )


VIEWS = {
    Contention: View("contention", _blocks, _document, _table, _summary),
    LayoutEta: View("contention-eta", _eta_blocks, _eta_document, _etas, _eta_summary),
}
