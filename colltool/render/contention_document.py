"""``contention`` as a document: the field names that machine output promises."""

from __future__ import annotations

from colltool import __version__
from colltool.render.documents import Document
from colltool.wires.results import Contention, GroupCost, LineLoad, LinkLoad


def contention_document(result: Contention) -> Document:
    """Loads in ``unit`` (bytes, or M), capacities in bytes/s, times in seconds; ``links`` only where asked for."""
    fields: Document = {
        "schema": "colltool.contention/1",
        "colltool": __version__,
        "fabric": result.fabric,
        "layout": result.layout,
        "unit": result.unit,
        "groups": [_group(group) for group in result.groups],
        "slowdown": result.slowdown,
        "hottest": [_link(link) for link in result.hottest],
        "lines": [_line(line) for line in result.lines],
        "links_loaded": result.loaded,
        "links_shared": result.shared,
        "eta": [{"tier": one.tier, "alpha": one.alpha, "beta": one.beta, "group": one.group} for one in result.etas],
        "notes": list(result.notes),
    }
    return fields | ({"links": [_link(link) for link in result.links]} if result.links else {})


def eta_document(result: Contention) -> Document:
    """``--as-eta``: one entry per tier; β is null where the tier bounds no group."""
    return {
        "schema": "colltool.contention-eta/1",
        "colltool": __version__,
        "fabric": result.fabric,
        "layout": result.layout,
        "eta": [{"tier": one.tier, "alpha": one.alpha, "beta": one.beta, "group": one.group} for one in result.etas],
    }


def _group(group: GroupCost) -> Document:
    return {
        "name": group.name,
        "ranks": group.ranks,
        "slowdown": group.slowdown,
        "interference": group.interference,
        "extra_hops": group.extra_hops,
        "eta_alpha": group.eta_alpha,
        "eta_beta": group.eta_beta,
        "primitive": str(group.primitive),
        "algorithm": group.algorithm,
        "bytes": int(group.bytes) if group.bytes is not None and group.bytes.is_integer() else group.bytes,
        "tail_over_mean": group.tail_over_mean,
        "busiest": group.busiest,
        "ideal_s": group.ideal_s,
        "together_s": group.together_s,
    }


def _link(link: LinkLoad) -> Document:
    return {
        "link": link.link,
        "load": link.load,
        "over_ideal": link.over_ideal,
        "line": link.line,
        "capacity_Bps": link.capacity_Bps,
        "groups": link.groups,
    }


def _line(line: LineLoad) -> Document:
    return {"line": line.line, "links": line.links, "loaded": line.loaded, "busiest": line.busiest, "mean": line.mean}
