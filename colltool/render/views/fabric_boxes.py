"""A fabric drawn in text: its tiers as boxes within boxes, outermost first.

Switches are bars across a box, what they join stands below: the first domain is drawn in full, the
second and the last stand for the others.
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
_STAR = "star"


def boxes(fabric: Fabric) -> tuple[str, ...]:
    """The lines of the drawing; each tier's box stands within that of the tier around it."""
    return tuple(_tier(diagrams(fabric), WIDTH))


def _tier(tiers: Sequence[TierDiagram], width: int, count: int = 1) -> list[str]:
    """The box of the outermost of some tiers; of ``count`` such boxes it is the first."""
    *inner, tier = tiers
    room = width - 4
    lines = wrap(_facts(tier), room)
    for index, level in reversed(list(enumerate(tier.levels))):
        lines += _bar(_level(tier, level, has_levels_below=index > 0), room)
    lines += _domains(inner, tier, room) if inner else _ranks(tier, room)
    title = f"{tier.tier.name} 1 of {count}" if count > 1 else tier.tier.name
    title += f": {_kind(tier)}"
    if inner:
        title += f", {counted(tier.facts.ranks, 'rank')}"
    return _box(title, lines, width)


def _kind(tier: TierDiagram) -> str:
    """What joins what: ``72 ranks on one switch``, ``Clos of 32 nvlink domains``."""
    if tier.kind.label == _STAR:
        return f"{counted(tier.facts.endpoints, endpoint_text(tier))} on one switch"
    return kind_text(tier).replace("  ", " ")


def _facts(tier: TierDiagram) -> str:
    """The rates of a tier: ``8 ports of 50 GB/s per nvlink domain``."""
    rate = format_rate(tier.tier.bandwidth)
    endpoint = endpoint_text(tier)
    if not tier.kind.has_ports:
        facts = [f"{rate} per link"]
    elif tier.ports == 1:
        facts = [f"{rate} per {endpoint}"]
    else:
        facts = [f"{tier.ports} ports of {rate} per {endpoint}"]
    if not tier.kind.named:
        facts.append(alpha_text(tier.kind.classes[0]))
    if tier.kind.in_network is not None:
        facts.append("reduction in the switches")
    return ", ".join(facts)


def _level(tier: TierDiagram, level: LevelDiagram, *, has_levels_below: bool) -> str:
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
    head = f"╭─ {title[: width - 6]} "
    inside = [f"│ {line[: width - 4]:<{width - 4}} │" for line in lines]
    return [f"{head:─<{width - 1}}╮", *inside, f"╰{'':─<{width - 2}}╯"]


def _domains(inner: Sequence[TierDiagram], tier: TierDiagram, room: int) -> list[str]:
    """The domains that a tier joins: the first in full, the second and the last beside it."""
    count = tier.facts.endpoints
    others = [str(number) for number in dict.fromkeys((2, count)) if 1 < number <= count]
    gap = " ... " if count > 3 else " "
    # each closed box has a blank before it and two characters of frame and margin on either side
    taken = sum(len(other) + 5 for other in others) + (len(gap) - 1 if len(others) > 1 else 0)
    first = _tier(inner, room - taken, count)
    middle = len(first) // 2
    rows = []
    for row, line in enumerate(first):
        for place, other in enumerate(others):
            between = gap if place and row == middle else " " * (len(gap) if place else 1)
            line += between + _closed(other, row, middle, len(first))
        rows.append(line)
    return rows


def _closed(name: str, row: int, middle: int, high: int) -> str:
    """A row of a box of ``high`` rows that has only its name, in the middle one."""
    width = len(name) + 2
    if row == 0:
        return f"╭{'':─<{width}}╮"
    if row == high - 1:
        return f"╰{'':─<{width}}╯"
    text = name if row == middle else ""
    return f"│ {text:<{len(name)}} │"


def _ranks(tier: TierDiagram, room: int) -> list[str]:
    """Ranks of the innermost tier, in rows of a lattice where they form one."""
    count = tier.facts.endpoints
    axes = [axis.size for axis in tier.kind.axes]
    if not axes:
        return [_row([f"[{number}]" for number in range(1, count + 1)], " ", room)]
    # what lacks an axis has one place on it
    wide, high, *planes = (*axes, 1) if len(axes) == 1 else axes
    across = _row(["o"] * wide, "──", min(room, _MOST_ACROSS * 3 + 4))
    down = "".join("│" if character == "o" else " " for character in across)
    # up to three rows, and dots for more
    rows = [across, *[down, across] * (min(high, 3) - 1)]
    if high > 3:
        rows.append(down.replace("│", ":"))
    if planes:
        count_text = " x ".join(map(str, planes))
        rows.append(f"{count_text} planes of {wide} x {high}, linked one to the next")
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
        # as many as a glance takes in
        if len(longer) + len(last) > room or longer.count("[") > 6:
            break
        row = longer
    return row + last
