"""The first page of the site (:func:`index_page`), and its twin for language models
(:func:`llms_text`).

Both list the machines by vendor (:func:`_by_vendor`). ``curves.headline`` has an all-reduce of 1 GiB last, on
groups of the machine from the smallest to the largest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from colltool import __version__
from colltool.analysis.machine_curves import MachineCurve, MachineCurves
from colltool.base.formatting import format_rate
from colltool.fabric.model import Fabric
from colltool.fabric.properties import basis_of
from colltool.guides import TOPICS, about, read_guide
from colltool.render.dispatch import description_line
from colltool.render.markup import html
from colltool.render.site.frame import (
    HOME,
    SCOREBOARD,
    SiteLink,
    anchor,
    guide_link,
    machine_link,
    page,
    section,
)
from colltool.render.site.guide import body_of, guide_title

_PURPOSE = (
    "What an all-reduce, all-gather or all-to-all costs on a network: what a machine should reach and"
    " what a gate may ask of it, which algorithm wins, where the time goes, and what would change it."
)
# the table of the guide to accuracy with rows for all devices together: head, rule, rows "| all ..."
_SUMMARY = re.compile(r"^\|.*\n\|[-|]+\n(?:\| all .*\n)+", re.MULTILINE)
_TEXTBOOK = "Textbook networks"
_VENDORS = (
    ("Huawei", r"Huawei|Ascend"),
    ("Google", r"\bTPU"),
    ("AWS", r"Trainium|\bTrn\d"),
    ("AMD", r"\bMI\d{3}"),
    ("Intel", r"\bArc\b|\bB[56]0\b|Gaudi"),
    ("Microsoft", r"\bMaia\b"),
    ("Broadcom", r"Broadcom"),
    ("CPUs", r"\bMPI\b"),
)
"""Whose accelerators a description names, the first that it matches; all others are NVIDIA's."""
_KINDS = ("measured", "as", "datasheet", "announced", "hypothetical")
"""Kinds of machines by what their numbers rest on, the surest first; ``as`` begins ``as dgx-b200``, a machine
that is taken to be like a measured one."""


class IndexEntry(NamedTuple):
    """A machine in the list."""

    fabric: Fabric
    kind: str  # what its numbers rest on, as basis_of has it: ``measured``, ``as dgx-b200`` ...
    reach: Sequence[str]  # sentences on one or two groups


def index_page(machines: Sequence[MachineCurves], menu: Sequence[SiteLink]) -> str:
    """Return the page: what colltool is for, the machines by vendor and kind, how far off it is, and the
    guides."""
    body = f'<h1>colltool {__version__}</h1>\n<p class="lead">{_PURPOSE}</p>\n'
    body += section("machines", "Machines", _machines(machines))
    body += section("accuracy", "How accurate is it?", _accuracy())
    body += section("guides", "Guides", _guides())
    return page(HOME, "colltool", body, menu)


def vendor_of(fabric: Fabric) -> str:
    """The vendor of a machine's accelerators, by its description."""
    if fabric.hypothetical:
        return _TEXTBOOK
    for vendor, pattern in _VENDORS:
        if re.search(pattern, fabric.description or ""):
            return vendor
    return "NVIDIA"


def _by_vendor(machines: Sequence[MachineCurves]) -> dict[str, list[IndexEntry]]:
    """The machines of each vendor, the surest kind first; vendors with most machines first, and
    what no one sells last."""
    by_vendor: dict[str, list[IndexEntry]] = {}
    for curves in machines:
        fabric = curves.fabric
        kind = basis_of(fabric)
        entry = IndexEntry(fabric, kind, _reach(curves))
        by_vendor.setdefault(vendor_of(fabric), []).append(entry)
    for entries in by_vendor.values():
        entries.sort(key=_kind_and_name)
    vendors = sorted(by_vendor, key=lambda name: (name == _TEXTBOOK, -len(by_vendor[name]), name))
    return {vendor: by_vendor[vendor] for vendor in vendors}


def _kind_and_name(entry: IndexEntry) -> tuple[int, str]:
    """The sort key of a machine among those of its vendor: kind, then name."""
    # "as" of "as dgx-b200"
    kind = entry.kind.partition(" ")[0]
    return _KINDS.index(kind), entry.fabric.name


def _reach(curves: MachineCurves) -> list[str]:
    """What its smallest and its largest group reach."""
    texts = [_reach_of(curves.headline[0])]
    if len(curves.headline) > 1:
        texts.append(_reach_of(curves.headline[-1]))
    return texts


def _reach_of(curve: MachineCurve) -> str:
    """``8 ranks: 480 GB/s, gate 440 GB/s``, at the largest size."""
    large = curve.sizes[-1]
    gate = format_rate(large.floor_busbw_Bps, 3)
    return f"{curve.group.label}: {format_rate(large.busbw_Bps, 3)}, gate {gate}"


def _machines(machines: Sequence[MachineCurves]) -> Iterator[str]:
    """A table of machines for each vendor."""
    yield (
        "<p>What each should reach in every test of nccl-tests, with published measurements. Beside"
        " its name: what its numbers rest on. On the right: the expected bus bandwidth of an"
        " all-reduce of 1 GiB, and what a gate may ask.</p>\n"
    )
    for vendor, entries in _by_vendor(machines).items():
        yield f'<h3 id="{vendor.split()[0].lower()}">{html(vendor)}</h3>\n<div class="scroll machines" tabindex="0">\n'
        yield "<table>\n<thead><tr><th>machine</th><th>all-reduce, 1 GiB</th></tr></thead>\n<tbody>\n"
        for entry in entries:
            link = machine_link(entry.fabric.name)
            machine = f"{anchor(*link)} <span>{html(entry.kind)}</span>"
            description = html(description_line(entry.fabric))
            reach = "<br>".join(map(html, entry.reach))
            yield f"<tr><td>{machine}<br>{description}</td><td>{reach}</td></tr>\n"
        yield "</tbody>\n</table>\n</div>\n"


def _accuracy() -> Iterator[str]:
    """The errors of all devices together, from the guide."""
    accuracy = _SUMMARY.search(read_guide("accuracy"))
    assert accuracy is not None  # tests ensure that the guide has this table
    yield (
        "<p>Median errors on published rows by the size of the collective, the source of each left"
        f" out of the fit; in brackets how many rows:</p>\n{body_of(accuracy[0])}"
    )
    yield f"<p>{anchor(SCOREBOARD.path, 'Scoreboard')}: colltool beside other predictors. "
    yield f"{anchor('guides/accuracy.html', 'How accuracy is measured')}.</p>\n"


def _guides() -> Iterator[str]:
    """A list of the guides, each with its first paragraph."""
    yield "<ul>\n"
    for topic in TOPICS:
        paragraph = body_of(about(topic)).strip().removeprefix("<p>").removesuffix("</p>")
        yield f"<li>{anchor(*guide_link(topic, guide_title(topic)))}: {paragraph}</li>\n"
    yield "</ul>\n"


def llms_text(machines: Sequence[MachineCurves]) -> str:
    """The index as ``llms.txt`` has it: a title, a summary, and links of a line each."""
    lines = ["# colltool", "", f"> {_PURPOSE}", ""]
    lines += [
        "A page of a machine has, for each test of nccl-tests, what is expected on 1 to 128 nodes, a",
        "gate's floor, published measurements with their sources, and the commands that give the numbers;",
        "its anchors are the tests: machines/dgx-h100.html#all_reduce. Bandwidths are bus bandwidths.",
    ]
    for vendor, entries in _by_vendor(machines).items():
        lines += ["", f"## {vendor}", ""]
        for entry in entries:
            link = machine_link(entry.fabric.name)
            reach = f"All-reduce of 1 GiB: {'; '.join(entry.reach)}"
            text = f"{description_line(entry.fabric)} ({entry.kind}). {reach}"
            lines.append(f"- [{link.title}]({link.path}): {text}")
    lines += ["", "## Accuracy", ""]
    lines.append(f"- [{SCOREBOARD.title}]({SCOREBOARD.path}): predictors on published measurements")
    lines += ["", "## Guides", ""]
    for topic in TOPICS:
        link = guide_link(topic, guide_title(topic))
        lines.append(f"- [{link.title}]({link.path}): {about(topic)}")
    return "\n".join([*lines, ""])
