"""A fabric drawn in text: its tiers as boxes within boxes, outermost first.

Switches are bars across a box, what they join stands below: the first domain is drawn in full, the
second and the last stand for the others. A drawing is a list of lines of equal width, to which each
function adds: :func:`boxes` is the whole, :func:`_tier_box` a tier with all that is inside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from colltool.base.formatting import counted, format_rate
from colltool.fabric.model import Fabric
from colltool.render.views.fabric_diagram import (
    LevelDiagram,
    TierDiagram,
    diagrams,
    endpoint_text,
    kind_text,
    level_texts,
    uplink_texts,
)
from colltool.render.views.fabric_parts import alpha_text, switches_text

WIDTH = 78
"""Characters of the outermost box: a list is indented by two."""
_MOST_ACROSS = 8  # ranks of a row of a lattice
_MOST_ROWS = 3  # of a lattice; dots stand for more
_MOST_RANKS = 6  # in brackets on a line before the last one: as many as a glance takes in


def boxes(fabric: Fabric) -> tuple[str, ...]:
    """The lines of the drawing; each tier's box stands within that of the tier around it."""
    return tuple(_tier_box(diagrams(fabric), WIDTH))


def _tier_box(tiers: Sequence[TierDiagram], width: int, count: int = 1) -> list[str]:
    """The box of the last of some tiers, which is the outermost, with those of the others inside; it is the first
    of ``count`` such boxes. ``width``: characters with its frame."""
    *inner, tier = tiers
    # a frame and a blank on either side
    room = width - 4
    lines = wrap(_rates_text(tier), room)
    for index, level in reversed(list(enumerate(tier.levels))):
        lines += _bar(_level_text(tier, level, has_levels_below=index > 0), room)
    lines += _domains(inner, tier, room) if inner else _ranks(tier, room)
    title = f"{tier.tier.name} 1 of {count}" if count > 1 else tier.tier.name
    title += f": {_join_text(tier)}"
    if inner:
        title += f", {counted(tier.facts.ranks, 'rank')}"
    return _box(title, lines, width)


def _join_text(tier: TierDiagram) -> str:
    """What joins what: ``72 ranks on one switch``, ``Clos of 32 nvlink domains``."""
    if tier.kind.label == "star":
        return f"{counted(tier.facts.endpoints, endpoint_text(tier))} on one switch"
    return kind_text(tier).replace("  ", " ")


def _rates_text(tier: TierDiagram) -> str:
    """``8 ports of 50 GB/s per nvlink domain, alpha 2.5 us, reduction in the switches``."""
    rate = format_rate(tier.tier.bandwidth)
    endpoint = endpoint_text(tier)
    if not tier.kind.has_ports:
        texts = [f"{rate} per link"]
    elif tier.ports == 1:
        texts = [f"{rate} per {endpoint}"]
    else:
        texts = [f"{tier.ports} ports of {rate} per {endpoint}"]
    # named levels have a latency each
    if not tier.kind.named:
        texts.append(alpha_text(tier.kind.classes[0]))
    if tier.kind.in_network is not None:
        texts.append("reduction in the switches")
    return ", ".join(texts)


def _level_text(tier: TierDiagram, level: LevelDiagram, *, has_levels_below: bool) -> str:
    """A level of switches in a line."""
    if not level.name:
        return "switch" if level.switches is None else switches_text(level.switches)
    texts = level_texts(tier, level)
    if has_levels_below:
        texts += uplink_texts(level)
    return f"{level.name}: {', '.join(texts)}"


def _bar(text: str, room: int) -> list[str]:
    """Switches as a bar with their text; what does not fit follows below it."""
    first, *rest = wrap(text, room - 6)
    return [f"{f'══ {first} ':═<{room}}", *(f"   {line}" for line in rest)]


def _box(title: str, lines: Sequence[str], width: int) -> list[str]:
    """Lines in a frame that has the title; what is too long is cut."""
    head = f"╭─ {title[: width - 6]} "
    inside = [f"│ {line[: width - 4]:<{width - 4}} │" for line in lines]
    return [f"{head:─<{width - 1}}╮", *inside, f"╰{'':─<{width - 2}}╯"]


def _domains(inner: Sequence[TierDiagram], tier: TierDiagram, room: int) -> list[str]:
    """The domains that a tier joins: the first in full, the second and the last beside it."""
    count = tier.facts.endpoints
    # each with what stands before it: of more than three, dots for those that are left out
    closed: list[tuple[str, str]] = []
    if count > 1:
        closed.append((" ", "2"))
    if count > 2:
        closed.append((" ... " if count > 3 else " ", str(count)))
    # a closed box has a frame and a blank on either side of its name: four characters
    taken = sum(len(gap) + len(name) + 4 for gap, name in closed)
    first = _tier_box(inner, room - taken, count)
    middle = len(first) // 2
    rows = []
    for row, line in enumerate(first):
        for gap, name in closed:
            line += gap if row == middle else " " * len(gap)
            line += _closed_box_row(name, row, middle, len(first))
        rows.append(line)
    return rows


def _closed_box_row(name: str, row: int, middle: int, rows: int) -> str:
    """A row of a box of so many rows that has only its name, in the middle one."""
    width = len(name) + 2
    if row == 0:
        return f"╭{'':─<{width}}╮"
    if row == rows - 1:
        return f"╰{'':─<{width}}╯"
    text = name if row == middle else ""
    return f"│ {text:<{len(name)}} │"


def _ranks(tier: TierDiagram, room: int) -> list[str]:
    """Ranks of the innermost tier, in rows of a lattice where they form one."""
    count = tier.facts.endpoints
    axes = [axis.size for axis in tier.kind.axes]
    if not axes:
        return [_row([f"[{number}]" for number in range(1, count + 1)], " ", room)]
    # what lacks a second axis has one place on it; the further axes are said in words
    width, height, *planes = (*axes, 1) if len(axes) == 1 else axes
    # a rank and the line to the next take three characters, dots and what surrounds them four more
    across = _row(["o"] * width, "──", min(room, _MOST_ACROSS * 3 + 4))
    down = "".join("│" if character == "o" else " " for character in across)
    rows = [across, *[down, across] * (min(height, _MOST_ROWS) - 1)]
    if height > _MOST_ROWS:
        rows.append(down.replace("│", ":"))
    if planes:
        plane_count = " x ".join(map(str, planes))
        rows.append(f"{plane_count} planes of {width} x {height}, linked one to the next")
    if any(axis.twist for axis in tier.kind.axes):
        rows.append("axes wrap around, with a twist")
    elif any(axis.wrap for axis in tier.kind.axes):
        rows.append("each axis wraps around: its last rank is linked to its first")
    return rows


def _row(items: Sequence[str], between: str, room: int) -> str:
    """Items side by side; where there are too many, the first ones and the last."""
    all_items = between.join(items)
    if len(all_items) <= room:
        return all_items
    # a line of a lattice goes on through the dots
    gap = between if between.strip() else " "
    last = f"{gap}...{gap}{items[-1]}"
    row = items[0]
    for item in items[1:]:
        longer = f"{row}{between}{item}"
        if len(longer) + len(last) > room or longer.count("[") > _MOST_RANKS:
            break
        row = longer
    return row + last
