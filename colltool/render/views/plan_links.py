"""``plan --links``: the busiest link of each kind under the whole job."""

from __future__ import annotations

from colltool.base.formatting import format_bytes, format_factor, format_rate, format_time, percent, whole_bytes, whole_percent
from colltool.render.blocks import Block, Lines, Table, label, number
from colltool.render.view import Document
from colltool.training.link_utilisation import JobLink, JobLinks

_LINKS = (
    label("link", "busiest link"),
    label("kind", "of the", drop=3, get=lambda one: f"{one.tier} {one.kind}"),
    number("bytes", "carries", format_bytes),
    number("rate_Bps", "at", format_rate, drop=2),
    number("busy_s", "busy", format_time),
    number("share", "of the step", percent),
    number("over_mean", "over the mean", format_factor, drop=1),
    label("by", "for", get=lambda one: _by(one)),
)


def _by(one: JobLink) -> str:
    """``ep 61%, expert dp 38%``: who sends what it carries, but for less than half a percent."""
    shares = [(name, size / one.bytes) for name, size in one.by]
    return ", ".join(f"{name} {whole_percent(share)}" for name, share in shares if share >= 0.005)


def links_blocks(found: JobLinks | None) -> list[Block]:
    """The table, and what is not in it; nothing where nobody asked."""
    if found is None:
        return []
    table = Table(_LINKS, found.links, None, "the busiest link of each kind, all groups at once, at its full rate")
    return [table, *([Lines("notes", found.notes)] if found.notes else [])]


def links_fields(found: JobLinks | None) -> Document:
    """As machines read it."""
    if found is None:
        return {}
    return {"busiest_links": [_fields(one) for one in found.links], "link_notes": list(found.notes)}


def _fields(one: JobLink) -> Document:
    return one._asdict() | {"bytes": whole_bytes(one.bytes), "by": {name: whole_bytes(size) for name, size in one.by}}
