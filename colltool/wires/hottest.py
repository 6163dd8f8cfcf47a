"""The hottest links, the load of every link, and lines of links for a heat strip."""

import numpy as np

from colltool.schedules.step import Indices
from colltool.wires.links import Wires
from colltool.wires.loads import LineTotals
from colltool.wires.results import LineLoad, LinkLoad
from colltool.wires.traffic import Floats

HOTTEST = 10
CELLS = 64


def _line_name(wires: list[Wires], line: LineTotals) -> str:
    kind = wires[line.tier].lines[line.line]
    return f"{kind.tier} {kind.name}"


def busiest_names(wires: list[Wires], lines: list[LineTotals], at: Indices) -> list[str]:
    """For each group the busiest resource that it uses of line ``at[group]``, the first of equals."""
    names = [""] * len(at)
    for number in np.unique(at):
        line = lines[number]
        resource, by = line.pairs
        order = np.lexsort((resource, -line.load[resource], by))
        groups, first = np.unique(by[order], return_index=True)
        for group, place in zip(groups, resource[order][first], strict=True):
            if at[group] == number:
                names[group] = wires[line.tier].name(line.line, int(place))
    return names


def link_loads(
    wires: list[Wires], lines: list[LineTotals], alone_s: Floats, per_link: bool
) -> tuple[tuple[LinkLoad, ...], tuple[LinkLoad, ...]]:
    """Every loaded resource in the order of the wiring (with ``per_link``), and the hottest, hottest first."""
    found: list[tuple[float, int, int]] = []
    least = []
    for number, line in enumerate(lines):
        resource, by = line.pairs
        smallest = np.full(len(line.load), np.inf)
        np.minimum.at(smallest, resource, alone_s[by])
        least.append(smallest)
        seconds = line.load / wires[line.tier].lines[line.line].capacity_Bps
        used = np.flatnonzero(line.users)
        kept = used if per_link else used[np.argsort(-seconds[used].round(18), kind="stable")[:HOTTEST]]
        found += [(float(seconds[one]), number, int(one)) for one in kept]

    def as_link(number: int, resource: int) -> LinkLoad:
        line = lines[number]
        one, rate = wires[line.tier], wires[line.tier].lines[line.line].capacity_Bps
        load = float(line.load[resource])
        over = float(f"{load / rate / float(least[number][resource]):.10g}")
        name = one.name(line.line, resource)
        return LinkLoad(name, _line_name(wires, line), load, rate, over, int(line.users[resource]))

    found.sort(key=lambda item: (item[1], item[2]))
    every = tuple(as_link(number, resource) for _, number, resource in found) if per_link else ()
    top = sorted(found, key=lambda item: -float(f"{item[0]:.9e}"))[:HOTTEST]
    return every, tuple(as_link(number, resource) for _, number, resource in top)


def line_loads(wires: list[Wires], lines: list[LineTotals]) -> tuple[LineLoad, ...]:
    """Every line of the tiers in use, cut in cells for a strip."""
    rates = [wires[line.tier].lines[line.line] for line in lines]
    hottest = max(float(line.load.max()) / kind.capacity_Bps for line, kind in zip(lines, rates, strict=True) if len(line.load))
    out = []
    for line, kind in zip(lines, rates, strict=True):
        load = line.load[kind.exists]
        if not len(load):
            continue
        per_cell = -(-len(load) // CELLS)
        cells = np.maximum.reduceat(load, np.arange(0, len(load), per_cell)) / kind.capacity_Bps / hottest
        loaded = load[load > 0]
        mean = float(loaded.mean()) if len(loaded) else 0.0
        shades = tuple(float(cell) for cell in cells)
        out.append(LineLoad(_line_name(wires, line), len(load), len(loaded), float(load.max()), mean, per_cell, shades))
    return tuple(out)
