"""The shipped machines' factors, ``colltool/machines/data``: from the rows of
``tests/data/measured``, over layers 1 to 3.

    python tests/benchmarks/fit_machines.py [--check] [--accuracy]

r = ln(measured / price of wires, contention and library) of each row of role ``fit`` goes through a
Gaussian process over size and ranks (:mod:`colltool.machines.smoother`; a time above that of a
larger message is first levelled with it), and its mean through :mod:`colltool.machines.shape`.
``--check``: write nothing, exit 1 if a file would change. ``--accuracy``: errors with each source
left out of layers 3 and 4, beside those of the library alone.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from math import log, nan
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import fit_across  # noqa: E402
import fit_fabrics  # noqa: E402
from effort import some  # noqa: E402
from measured_rows import Row, Source, rows  # noqa: E402

import colltool  # noqa: E402
from colltool.base.errors import ColltoolError  # noqa: E402
from colltool.estimate.results import Price  # noqa: E402
from colltool.fabric.load import fabric_data  # noqa: E402
from colltool.fabric.model import Fabric  # noqa: E402
from colltool.machines import shipped  # noqa: E402
from colltool.machines.factor import (  # noqa: E402
    INSIDE,
    SIZES,
    Borrowed,
    MachineFactor,
    MeasuredMachine,
    RankLine,
)
from colltool.machines.shape import MOST_FALL, Room, room_of, shaped  # noqa: E402
from colltool.machines.smoother import (  # noqa: E402
    Observation,
    Posterior,
    Smooth,
    Smoother,
    posterior,
    rank_lines,
)

Data = dict[str, Any]
Floats = Any  # an array of numbers by (ranks, sizes)

PRIMITIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
CORRELATIONS = (
    ("all_reduce", "all_gather", 0.6),
    ("all_reduce", "reduce_scatter", 0.6),
    # the same steps in the other order: where one is not measured it takes the other's d
    ("all_gather", "reduce_scatter", 0.95),
)
SMOOTHERS = {
    INSIDE: Smoother(
        parts=(Smooth(0.1, 1.5, 1.0),),
        source=Smooth(0.05, 3.0, 1.0),
        noise=0.03,
        other_primitive=0.3,
        other_machine=0.9,
    ),
    "across": Smoother(
        parts=(Smooth(0.7, 8.0, 5.0), Smooth(0.2, 4.0, 2.0), Smooth(0.2, 2.0, 1.0)),
        source=Smooth(0.15, 6.0, 3.0),
        noise=0.04,
        primitives=CORRELATIONS,
        other_primitive=0.25,
        other_scope=0.9,
        other_machine=0.9,
    ),
}
"""Chosen by the errors of sources left out (inside also of sizes left out) over all machines: one
set a scope."""
BORROWED = {"broadcast": Borrowed("all_gather", 0.5), "reduce": Borrowed("reduce_scatter", 0.5)}
MEDIA = {
    "RoCE": "roce",
    "InfiniBand": "ib",
    "EFA": "efa",
    "TCPXO": "tcpx",
    "Slingshot": "slingshot",
}
"""Words of a source's hardware, and the medium they mean."""


class Shipped(NamedTuple):
    """A machine that ships.

    Args:
        scopes: each outer medium and the fabric whose prices keep that factor in order.
        board: the fabric of the innermost domain.
        fabrics: whose rows are its own.
        lenders: other machines whose rows across nodes count for it as well.
        domains: ranks of a domain, the usual first; rows of racks that are filled in part need
            another.
    """

    name: str
    devices: tuple[str, ...]
    generation: str
    inside: str
    scopes: dict[str, str]
    board: str
    fabrics: tuple[str, ...]
    lenders: tuple[str, ...] = ()
    domains: tuple[int, ...] = (8,)


MACHINES = (
    Shipped(
        "dgx-h100",
        ("h100", "h200", "h800", "h20"),
        "hopper",
        "nvlink4",
        {"ib": "dgx-h100", "roce": "hgx-h200"},
        "dgx-h100",
        ("dgx-h100", "hgx-h200", "hgx-h800"),
        ("dgx-b200",),
    ),
    Shipped(
        "aws-p5",
        ("h100", "h200"),
        "hopper",
        "nvlink4",
        {"efa": "aws-p5"},
        "",
        ("aws-p5",),
        ("dgx-h100",),
    ),
    Shipped(
        "gcp-a3-mega",
        ("h100",),
        "hopper",
        "nvlink4",
        {"tcpx": "gcp-a3-mega"},
        "",
        ("gcp-a3-mega",),
        ("dgx-h100",),
    ),
    Shipped(
        "dgx-a100",
        ("a100-80gb", "a100-40gb", "a800"),
        "ampere",
        "nvlink3",
        {"ib": "dgx-a100", "roce": "dgx-a100"},
        "dgx-a100",
        ("dgx-a100",),
    ),
    Shipped(
        "dgx-b200",
        ("b200", "b300"),
        "blackwell",
        "nvlink5",
        {"ib": "dgx-b200"},
        "dgx-b200",
        ("dgx-b200",),
        ("dgx-h100",),
    ),
    Shipped(
        "nvl72",
        ("gb200", "gb300"),
        "blackwell",
        "nvlink5",
        {"ib": "nvl72", "roce": "nvl72"},
        "nvl72",
        ("nvl72", "gb300-nvl72"),
        domains=(72, 64),
    ),
    Shipped(
        "gh200",
        ("gh200",),
        "hopper",
        "nvlink4",
        {"slingshot": "gh200"},
        "gh200",
        ("gh200",),
        domains=(4,),
    ),
    Shipped("mi300x", ("mi300x",), "cdna3", "xgmi", {}, "mi300x", ("mi300x",)),
)
"""Of two with the same device and inner medium the first one's board counts."""
KNOWN = {machine.name: machine for machine in MACHINES}
OF_FABRIC = {fabric: machine for machine in MACHINES for fabric in machine.fabrics}


# Layers 1 to 3 as they can be had today.
# ------------------------------------------------------------------------------------


@cache
def library_fabric(name: str, change: str, without: frozenset[str]) -> Fabric:
    """Layers 1 to 3 of a fabric, made without some sources."""
    if without and (name in fit_fabrics.INSIDE or name in fit_fabrics.SAME_AS):
        return fit_fabrics.loaded_without(name, change, without)
    return colltool.load_fabric(name, overrides=change.split())


def library_price(row: Row, without: Collection[str] = ()) -> float | None:
    """Seconds of a row by layers 1 to 3, made without some sources; None where these do not say."""
    return _library_price(row, frozenset(without))


@cache
def _library_price(row: Row, without: frozenset[str]) -> float | None:
    """Each row once: the rows of a machine count anew for every source that is left out."""
    try:
        fabric = library_fabric(row.source.fabric, row.source.set, without)
        return float(fit_across.picked(fabric, row, numbers="library").total_s)
    except ColltoolError:
        return None


def library_ways(fabric: str, change: str, primitive: str, ranks: int, size: int) -> Price | None:
    """Every way of layers 1 to 3, as this package prices them."""
    try:
        loaded = library_fabric(fabric, change, frozenset())
        found: Price = colltool.price(loaded, primitive, size=size, ranks=ranks, numbers="library")
    except ColltoolError:
        return None
    return found


# Rows.
# ----------------------------------------------------------------------------------------------------------------------


@cache
def domain_of(source: Source) -> int:
    return colltool.load_fabric(source.fabric, source.overrides).tiers[0].endpoints


def scope_of(row: Row) -> str:
    """Inside, or the medium that the source's hardware names, else that of its fabric."""
    if row.ranks <= domain_of(row.source):
        return INSIDE
    named = next((medium for word, medium in MEDIA.items() if word in row.source.hardware), "")
    scopes = OF_FABRIC[row.source.fabric].scopes
    of_fabric = [
        medium for medium, fabric in scopes.items() if fabric == row.source.fabric
    ] or list(scopes)
    return named if named in scopes else of_fabric[0]


# below it a call from Python takes twice what nccl-tests measures, and that is not the machine's
_LAUNCHER_SHOWS = 8 * 2**20


def own_rows(machine: str, *, inside: bool) -> list[Row]:
    """Rows that a machine's factor is made of: nothing forced but the switches, which NCCL takes by
    itself there."""
    return [
        row
        for row in rows()
        if row.source.fabric in KNOWN[machine].fabrics
        and row.role == "fit"
        and row.collective in PRIMITIVES
        and row.algorithm in ("", "in-network")
        and (scope_of(row) == INSIDE) == inside
        and not ("under PyTorch" in row.source.note and row.bytes < _LAUNCHER_SHOWS)
    ]


def observations(
    machine: str, without: Collection[str], refit: bool, *, inside: bool
) -> list[Observation]:
    """What a machine's and its lenders' rows say; ``refit``: layers 1 to 3 as well have not seen
    what is left out."""
    names = (machine,) if inside else (machine, *KNOWN[machine].lenders)
    kept = [
        (name, row)
        for name in names
        for row in own_rows(name, inside=inside)
        if row.source.source_id not in without
    ]
    series: dict[tuple[str, ...], list[tuple[str, Row]]] = defaultdict(list)
    for name, row in kept:
        series[row.source.source_id, row.collective, str(row.ranks), row.algorithm].append(
            (name, row)
        )
    return [
        found
        for several in series.values()
        for found in _observed(several, without if refit else ())
    ]


def rising_times(times: Sequence[float]) -> list[float]:
    """Times of ascending sizes without their falls: neighbours that fall take one time (pool
    adjacent violators, by 1/t^2).

    A hump that a larger message does not show is a setting of one owner, not what the next message
    should be priced by.
    """
    # sum of weighted times, of weights, and how many times
    levels: list[tuple[float, float, int]] = []
    for time in times:
        levels.append((1 / time, 1 / time**2, 1))
        while len(levels) > 1 and levels[-2][0] / levels[-2][1] > levels[-1][0] / levels[-1][1]:
            last, before = levels.pop(), levels.pop()
            levels.append((before[0] + last[0], before[1] + last[1], before[2] + last[2]))
    return [total / weight for total, weight, count in levels for _ in range(count)]


def allowing(room: Room, steps: list[tuple[int, int]]) -> Room:
    """The room with no bound on the bus bandwidth at (ranks, size) steps where measured rows show
    its fall."""
    most = room.most_by_size.copy()
    for at in steps:
        most[at] = float("inf")
    return room._replace(most_by_size=most)


def text_of(machine: MeasuredMachine) -> str:
    """A machine as JSON: a line a primitive, scope and rank count."""
    head = {
        "schema": shipped.SCHEMA,
        "name": machine.name,
        "devices": machine.devices,
        "generation": machine.generation,
        "inside": machine.inside,
        "outside": machine.outside,
        "prior": machine.prior,
        "borrowed": machine.borrowed,
        "sources": machine.sources,
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    lines.append(_listed("exceptions", [json.dumps(one) for one in machine.exceptions]))
    lines.append(
        _listed(
            "factors",
            [_line(*key, line) for key, factor in machine.factors.items() for line in factor.lines],
        )
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _listed(key: str, items: list[str]) -> str:
    return f'"{key}": [\n' + ",\n".join(items) + "\n]" if items else f'"{key}": []'


def _line(primitive: str, scope: str, line: RankLine) -> str:
    d, sigma = (",".join(rounded(value) for value in values) for values in (line.d, line.sigma))
    return f'{{"primitive":"{primitive}","scope":"{scope}","ranks":{line.ranks},"d":[{d}],"sigma":[{sigma}]}}'


def rounded(value: float) -> str:
    """Three decimals: a thousandth of the price."""
    text = f"{value:.3f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _observed(series: list[tuple[str, Row]], without: Collection[str]) -> Iterator[Observation]:
    series = sorted(series, key=lambda one: one[1].bytes)
    times = rising_times([row.time_s for _, row in series])
    for (machine, row), time in zip(series, times, strict=True):
        if priced := library_price(row, without):
            yield Observation(
                primitive=row.collective,
                scope=scope_of(row),
                ranks=row.ranks,
                size=row.bytes,
                r=log(time / priced),
                source=row.source.source_id,
                machine=machine,
            )


# Grids.
# ---------------------------------------------------------------------------------------------------------------------

_BEYOND = 8  # doublings past the last measured rank count
_BEYOND_INSIDE = 3  # where the process has forgotten


def grid_ranks(machine: Shipped, measured: Collection[int], *, inside: bool) -> tuple[int, ...]:
    """Measured counts; doublings of the usual domain and half-way between them (inside one, of 2),
    every second doubling from two past the last measured on, and below the first.
    """
    first, last = min(measured), max(measured)
    unit = 2 if inside else 2 * machine.domains[0]
    doublings = [unit * 2**at for at in range(24) if first <= unit * 2**at <= 4 * last]
    # between them prices rise unevenly
    near = {*doublings, *(count * 3 // 2 for count in doublings[:-1] if not inside)}
    below = {2 * 4**at for at in range(12) if 2 * 4**at < first}
    beyond = _BEYOND_INSIDE if inside else _BEYOND
    far = {last * 2**at for at in range(4 if not inside else beyond, beyond + 1, 2)}
    return tuple(sorted({*measured, *near, *below, *far}))


class Priced(NamedTuple):
    """ln t of layers 1 to 3 on a grid: of what runs, its name, and of the ways that run anywhere on
    a line."""

    best: Floats
    runs: list[list[str]]
    ways: list[Floats]


@cache
def priced_grid(machine: str, primitive: str, scope: str, ranks: tuple[int, ...]) -> Priced:
    """nan where the fabric cannot be asked."""
    shipped_as = KNOWN[machine]
    fabric = shipped_as.board if scope == INSIDE else shipped_as.scopes[scope]
    found = [
        [library_ways(fabric, change, primitive, count, size) for size in SIZES]
        for count in ranks
        for change in [_grown(shipped_as, fabric, count, inside=scope == INSIDE)]
    ]
    runs = [[_runs(price).spec if price else "" for price in line] for line in found]
    best = np.array(
        [[log(_runs(price).total_s) if price else nan for price in line] for line in found]
    )
    names = sorted({name for line in runs for name in line if name})
    ways = [_way(name, found, runs) for name in names]
    return Priced(best, runs, ways)


def _runs(price: Price) -> Any:
    picked = price.library.runs if price.library else None
    return picked or price.best


def _way(name: str, found: list[list[Price | None]], runs: list[list[str]]) -> Floats:
    """ln t of one way, on the lines where it runs at some size."""
    values = np.full((len(found), len(SIZES)), nan)
    for line, prices in enumerate(found):
        if name not in runs[line]:
            continue
        for column, price in enumerate(prices):
            row = next((row for row in price.results if row.spec == name), None) if price else None
            if row is not None:
                values[line, column] = log(row.total_s)
    return values


def _grown(machine: Shipped, fabric: str, ranks: int, *, inside: bool) -> str:
    """Overrides under which a fabric has so many ranks: full domains, one leaf and spine layer as
    wide as needed."""
    inner, *outer = (
        fit_fabrics.shipped(machine.board or fabric)["tiers"]
        if inside
        else fabric_data(fabric)["tiers"]
    )
    if inside:
        return (
            f"{inner['name']}.size={ranks}"
            if ranks > inner["size"] and ranks <= inner.get("max_size", ranks)
            else ""
        )
    domain = next((size for size in machine.domains if ranks % size == 0), 0)
    if not domain or not outer:
        return ""
    nodes, tier = ranks // domain, outer[0]
    changes = [f"{inner['name']}.size={domain}"] if domain != inner["size"] else []
    if nodes > tier["size"]:
        last = tier["levels"][-1]
        changes.append(f"{tier['name']}.size={nodes}")
        changes += (
            [f"{tier['name']}.levels.{last['name']}.group={nodes}"] if last["group"] < nodes else []
        )
    return " ".join(changes)


def shown_falls(machine: str, primitive: str, scope: str) -> list[tuple[Row, Row]]:
    """Neighbouring rows of one series between which the bus bandwidth falls by more than a tenth a
    doubling."""
    series: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in own_rows(machine, inside=scope == INSIDE):
        if row.collective == primitive and scope_of(row) == scope:
            series[row.source.source_id, row.ranks].append(row)
    found = []
    for several in series.values():
        several.sort(key=lambda row: row.bytes)
        for small, large in pairwise(several):
            doublings = log(large.bytes / small.bytes) / log(2)
            falls = log(large.time_s / small.time_s) - log(large.bytes / small.bytes)
            if doublings <= 1.1 and falls > -log(1 - MOST_FALL) * max(doublings, 1.0):
                found.append((small, large))
    return found


def _shown_steps(
    falls: list[tuple[Row, Row]], ranks: tuple[int, ...]
) -> dict[tuple[int, int], tuple[Row, Row]]:
    """Steps of the grid that such a pair of rows overlaps, within twice its ranks."""
    return {
        (line, column): pair
        for pair in falls
        for line, count in enumerate(ranks)
        for column in range(len(SIZES) - 1)
        if 0.5 <= count / pair[0].ranks <= 2
        and SIZES[column] < pair[1].bytes
        and SIZES[column + 1] > pair[0].bytes
    }


def _factor(
    machine: str,
    primitive: str,
    scope: str,
    ranks: tuple[int, ...],
    rows: list[Observation],
    keep_order: bool,
) -> Any:
    smoother = SMOOTHERS[INSIDE if scope == INSIDE else "across"]
    found = posterior(
        smoother, rows, Observation(primitive, scope, 1, 1.0, 0.0, "", machine), ranks
    )
    if not keep_order:
        return MachineFactor(primitive, scope, rank_lines(found, ranks)), []
    priced = priced_grid(machine, primitive, scope, ranks)
    shown = _shown_steps(shown_falls(machine, primitive, scope), ranks)
    d = shaped(found.d, found.sigma, allowing(room_of(priced.best, priced.ways), sorted(shown)))
    told = list(_exceptions(primitive, scope, ranks, priced.best + d, shown))
    return MachineFactor(primitive, scope, rank_lines(Posterior(d, found.sigma), ranks)), told


def _exceptions(
    primitive: str,
    scope: str,
    ranks: tuple[int, ...],
    times: Floats,
    shown: dict[tuple[int, int], tuple[Row, Row]],
) -> Iterator[dict[str, Any]]:
    for (line, column), pair in sorted(shown.items()):
        falls = times[line, column + 1] - times[line, column] - log(2)
        if falls > -log(1 - MOST_FALL):
            ids = [
                f"{row.source.source_id}:{row.collective}:{row.ranks}:{row.bytes}" for row in pair
            ]
            yield {
                "primitive": primitive,
                "scope": scope,
                "ranks": ranks[line],
                "bytes": SIZES[column],
                "rows": ids,
            }


Key = tuple[str, str]  # primitive and scope


def made(
    name: str,
    without: Collection[str] = (),
    *,
    refit: bool = False,
    keep_order: bool = True,
    only: Collection[Key] | None = None,
) -> MeasuredMachine:
    """A machine's factors, made without some sources.

    ``refit``: layers 1 to 3 too are made without them; ``keep_order``: as
    :mod:`colltool.machines.shape` has it; ``only``: these factors, None for all.
    """
    machine = KNOWN[name]
    factors: dict[tuple[str, str], MachineFactor] = {}
    exceptions: list[dict[str, Any]] = []
    used: list[Row] = []
    for inside in (True, False):
        observed = observations(name, without, refit, inside=inside)
        if not observed:
            continue
        used += [
            row for row in own_rows(name, inside=inside) if row.source.source_id not in without
        ]
        ranks = grid_ranks(machine, {row.ranks for row in observed}, inside=inside)
        for scope in (INSIDE,) if inside else machine.scopes:
            for primitive in PRIMITIVES:
                if only is not None and (primitive, scope) not in only:
                    continue
                factors[primitive, scope], told = _factor(
                    name, primitive, scope, ranks, observed, keep_order
                )
                exceptions += told
    counted = [row.source.source_id for row in used]
    return MeasuredMachine(
        name=name,
        devices=machine.devices,
        generation=machine.generation,
        inside=machine.inside,
        outside=tuple(machine.scopes),
        factors=factors,
        borrowed=BORROWED,
        prior={
            scope: round(SMOOTHERS[INSIDE if scope == INSIDE else "across"].prior, 4)
            for _, scope in factors
        },
        sources={source: counted.count(source) for source in dict.fromkeys(counted)},
        exceptions=tuple(exceptions),
    )


# Accuracy.
# ------------------------------------------------------------------------------------------------------------------


class Judged(NamedTuple):
    """ln(price / measured) of a row whose source was left out: layers 1 to 3 alone, and with the
    machine's factor."""

    row: Row
    library: float
    machine: float
    sigma: float


def left_out(
    name: str,
    *,
    refit: bool,
    keep_order: bool,
    wires: Collection[str] = (INSIDE, "across"),
    most: int | None = None,
) -> list[Judged]:
    """Every source of a machine left out in turn, or so many of them; ``wires``: whose rows are
    judged."""
    own = [row for wire in wires for row in own_rows(name, inside=wire == INSIDE)]
    sources = list(dict.fromkeys(row.source.source_id for row in own))
    found = []
    for source in sources if most is None else some(sources, most):
        several = [row for row in own if row.source.source_id == source]
        asked = {(row.collective, scope_of(row)) for row in several}
        machine = made(name, {source}, refit=refit, keep_order=keep_order, only=asked)
        found += [
            judged for row in several if (judged := judge(row, machine, {source} if refit else ()))
        ]
    return found


def judge(row: Row, machine: MeasuredMachine, without: Collection[str] = ()) -> Judged | None:
    priced = library_price(row, without)
    if priced is None:
        return None
    at = row.collective, scope_of(row), row.ranks, float(row.bytes)
    off = log(priced / row.time_s)
    return Judged(row, off, off + float(machine.d(*at)), float(machine.sigma(*at) or 0.0))


CLASSES = (2**16, 2**23, 2**27 - 1)
NAMES = ("<=64 KiB", "64 KiB-8 MiB", "8-128 MiB", ">=128 MiB")


def size_class(size: int) -> int:
    return sum(size > bound for bound in CLASSES)


def by_class(several: Iterable[Judged]) -> dict[tuple[str, str, int], list[Judged]]:
    """By fabric, ``inside`` or ``across``, and size class."""
    found: dict[tuple[str, str, int], list[Judged]] = defaultdict(list)
    for one in several:
        wire = INSIDE if scope_of(one.row) == INSIDE else "across"
        found[one.row.source.fabric, wire, size_class(one.row.bytes)].append(one)
    return dict(sorted(found.items()))


def print_accuracy() -> None:
    print(
        f"{'mean |ln(price/measured)|, sources left out':46} {'rows':>5} {'library':>8}"
        f" {'machine':>8}"
    )
    for machine in MACHINES:
        for (fabric, wire, at), several in by_class(
            left_out(machine.name, refit=True, keep_order=True)
        ).items():
            errors = [
                fmean(abs(getattr(one, layer)) for one in several)
                for layer in ("library", "machine")
            ]
            print(
                f"{fabric:14} {wire:8} {NAMES[at]:22} {len(several):5} {errors[0]:8.1%}"
                f" {errors[1]:8.1%}"
            )


def main() -> int:
    if "--accuracy" in sys.argv:
        print_accuracy()
        return 0
    check, changed = "--check" in sys.argv, []
    texts = {f"{machine.name}.json": text_of(made(machine.name)) for machine in MACHINES}
    texts["index.json"] = index_text()
    shipped.FOLDER.mkdir(exist_ok=True)
    for name, text in texts.items():
        file = shipped.FOLDER / name
        if not file.exists() or not is_same(file.read_text(encoding="utf-8"), text):
            changed.append(name)
            if not check:
                file.write_text(text, encoding="utf-8")
    print(f"{len(texts)} files, changed: {', '.join(changed) or 'none'}")
    return int(bool(changed) and check)


_NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?")
_LAST_DIGIT = 1.1e-3
"""By how much d or sigma may differ between two libraries of linear algebra: in the third
decimal."""


def is_same(text: str, other: str) -> bool:
    """Whether two files hold the same words, and numbers that differ in the last digit at most."""
    if _NUMBER.sub("", text) != _NUMBER.sub("", other):
        return False
    numbers = zip(
        map(float, _NUMBER.findall(text)), map(float, _NUMBER.findall(other)), strict=True
    )
    return all(abs(first - second) <= _LAST_DIGIT for first, second in numbers)


def index_text() -> str:
    lines = [
        json.dumps(
            {
                "name": machine.name,
                "devices": machine.devices,
                "inside": machine.inside,
                "outside": list(machine.scopes),
            }
        )
        for machine in MACHINES
    ]
    return "[\n" + ",\n".join(lines) + "\n]\n"


if __name__ == "__main__":
    sys.exit(main())
