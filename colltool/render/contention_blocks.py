"""``contention`` as blocks: a row per group, the hottest links, and a strip of shades for every line of links."""

from collections.abc import Sequence
from heapq import nsmallest
from math import ceil

from colltool.render.parts import Block, Cell, Column, Lines, Table, plain
from colltool.units import format_bytes, format_rate, format_time
from colltool.wires.results import Contention, GroupCost, LineLoad, LinkLoad

ASCII = ".:-=+*#%@"
BLOCKS = "·▁▂▃▄▅▆▇█"
MOST_GROUPS = 20
"""Groups in a table for people, the slowest; CSV and JSON have all."""


def contention_blocks(result: Contention, *, width: int | None = None, unicode: bool = False, whole: bool = False) -> list[Block]:
    """The result for people; the first table is that of the links where the result has them, of the groups otherwise.

    Args:
        width: of the terminal; None is a pipe.
        unicode: whether it shows block characters.
        whole: every group, for CSV.
    """
    groups = result.groups
    if not whole and len(groups) > MOST_GROUPS:
        groups = nsmallest(MOST_GROUPS, result.groups, key=lambda group: -group.slowdown)
    about = _group_table(groups, result)
    per_link = [_link_table(result.links, result.unit, "every loaded link")] if result.links else []
    left = len(result.groups) - len(groups)
    more = [Lines(f"{left} more groups, none slower; --format csv and json have all", ())] if left else []
    hottest = [] if per_link else [_link_table(result.hottest, result.unit, "hottest links")]
    strips = Lines(_strip_title(result), tuple(_strips(result.lines, width, BLOCKS if unicode else ASCII)))
    found = Lines(f"{result.loaded} links and ports loaded, {result.shared} of them by more than one group", ())
    return [*per_link, about, *more, *hottest, strips, found, Lines("notes", result.notes)]


def eta_blocks(result: Contention) -> list[Block]:
    """``--as-eta``: a table for CSV, and what to paste into a fabric file or on a command line."""
    columns = (
        Column("tier", "tier", right=False),
        Column("alpha", "eta alpha"),
        Column("beta", "eta beta"),
        Column("group", "from"),
    )
    rows = tuple(
        (plain(one.tier), Cell(_file(one.alpha), one.alpha), Cell(_file(one.beta), one.beta), plain(one.group))
        for one in result.etas
    )
    yaml, options = [], []
    for one in result.etas:
        beta = "" if one.beta is None else f", beta: {_file(one.beta)}"
        yaml.append(f"eta: {{alpha: {_file(one.alpha)}{beta}}}  # tier {one.tier}")
        options.append(f"--set {one.tier}.eta.alpha={_file(one.alpha)}")
        options += [] if one.beta is None else [f"--set {one.tier}.eta.beta={_file(one.beta)}"]
    meaning = (
        "in place of the fabric's own eta: what this layout alone costs the worst group, for a price of packed groups; "
        "a tier without beta bounds no group, keep its own"
    )
    agreement = (
        "price adds the distance classes of an all-to-all up one after the other, contention takes the busiest port or uplink of "
        "the whole: over several levels their ratios differ; beta is the share of one port, which price takes for "
        "oversubscription and contention together"
    )
    title = f"eta of {result.layout} on {result.fabric}"
    return [
        Table(columns, rows, None, title),
        Lines("in the fabric file", tuple(yaml)),
        Lines("on the command line", (" ".join(options),), verbatim=True),
        Lines("notes", (meaning, agreement)),
    ]


def _file(value: float | None) -> str:
    """Nine digits: what a fabric file needs."""
    return "-" if value is None else f"{value:.9g}"


def _load(value: float, unit: str) -> Cell:
    return Cell(format_bytes(value) if unit == "bytes" else f"{value:.5g} M", value)


def _seconds(value: float | None) -> Cell:
    return Cell("-" if value is None else format_time(value), value)


def _group_table(groups: Sequence[GroupCost], result: Contention) -> Table:
    columns = [
        Column("name", "group", right=False),
        Column("ranks", "ranks", 6),
        Column("primitive", "primitive", 4, right=False),
        Column("algorithm", "algorithm", 7, right=False),
        Column("slowdown", "slowdown"),
        Column("interference", "neighbours", 3),
        Column("eta_beta", "eta_b", 2),
        Column("eta_alpha", "eta_a", 1),
        Column("extra_hops", "extra hops", 5),
        Column("tail_over_mean", "tail/mean", 8),
        Column("busiest", "busiest", 9, right=False),
    ]
    sized = result.unit == "bytes"
    columns += [Column("ideal_s", "ideal", 11), Column("together_s", "together", 10)] if sized else []
    rows = []
    for group in groups:
        cells = [
            plain(group.name),
            plain(group.ranks),
            plain(group.primitive.spoken),
            plain(group.algorithm),
            Cell(f"{group.slowdown:.4g}x", group.slowdown),
            Cell(f"{group.interference:.4g}x", group.interference),
            Cell(f"{group.eta_beta:.4g}", group.eta_beta),
            Cell(f"{group.eta_alpha:.4g}", group.eta_alpha),
            plain(group.extra_hops),
            Cell(f"{group.tail_over_mean:.4g}", group.tail_over_mean),
            plain(group.busiest),
        ]
        rows.append((*cells, *((_seconds(group.ideal_s), _seconds(group.together_s)) if sized else ())))
    title = f"{result.layout} on {result.fabric}: {len(result.groups)} groups at once, slowdown {result.slowdown:.4g}x"
    return Table(tuple(columns), tuple(rows), None, title.replace("1 groups at once", "1 group"))


def _link_table(links: Sequence[LinkLoad], unit: str, title: str) -> Table:
    columns = (
        Column("link", "link", right=False),
        Column("load", "load"),
        Column("over_ideal", "over ideal"),
        Column("groups", "groups", 1),
        Column("capacity_Bps", "capacity", 2),
    )
    rows = tuple(
        (
            plain(link.link),
            _load(link.load, unit),
            Cell(f"{link.over_ideal:.4g}x", link.over_ideal),
            plain(link.groups),
            Cell(format_rate(link.capacity_Bps), link.capacity_Bps),
        )
        for link in links
    )
    return Table(columns, rows, None, title)


def _strip_title(result: Contention) -> str:
    return f"load/capacity, darkest = the hottest link ({result.hottest[0].link})"


def _strips(lines: Sequence[LineLoad], width: int | None, shades: str) -> list[str]:
    """One character a cell; where a line is too long for the terminal, neighbouring cells share one, the busiest seen."""
    label = max(len(line.line) for line in lines)
    room = max(8, (width or 200) - label - 6)
    out = []
    for line in lines:
        merged = ceil(len(line.cells) / room)
        cells = [max(line.cells[start : start + merged]) for start in range(0, len(line.cells), merged)]
        text = f"{line.line:<{label}}  {''.join(_shade(cell, shades) for cell in cells)}"
        each = f"  {line.per_cell * merged} links a character" if line.per_cell * merged > 1 else ""
        out.append(text + each if len(text + each) + 2 <= (width or 200) else text)
    return out


def _shade(cell: float, shades: str) -> str:
    """The first shade is no load at all, the last the hottest."""
    return shades[0] if cell <= 0 else shades[1 + min(len(shades) - 2, int(cell * (len(shades) - 1) - 1e-9))]
