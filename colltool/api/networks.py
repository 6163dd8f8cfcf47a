"""Fabrics as networks: a drawing, the size of a Clos, the load of every link, and schedules
executed message by message."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from math import isfinite
from typing import TYPE_CHECKING, Any

from colltool.api import values as v
from colltool.api.arguments import AnyShape
from colltool.api.own import AnyAlgorithms, own_of, ranks_of
from colltool.api.values import AnyFabric, AnyPath
from colltool.base.errors import ColltoolError, clipped, given, nearest
from colltool.base.extras import extra
from colltool.base.files import remembering
from colltool.base.primitives import Primitive
from colltool.fabric.model import Fabric

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from colltool.algorithms.trace import Vectors
    from colltool.congestion.contention import Contention
    from colltool.congestion.jobs import Layout
    from colltool.definitions.reader import Overrides
    from colltool.fabric.direct_sized import DirectSized
    from colltool.fabric.library import Prices
    from colltool.fabric.load import FabricSource
    from colltool.fabric.results import FabricDrawn, FabricSized
    from colltool.sizing.wiring import Hop
    from colltool.verification.verify import Verification


def draw_fabric(fabric: AnyFabric) -> FabricDrawn:
    """A fabric, or a path or shipped name to load, as a drawing: its tiers, levels, ports and
    oversubscription; lattices too.

    A notebook shows it; ``.svg`` is the drawing as one ``<svg>`` element, light or dark as its
    reader's screen. The same fabric gives the same text.
    """
    from colltool.fabric.properties import fabric_facts
    from colltool.fabric.results import FabricDrawn

    loaded = v.fabric_of(fabric)
    return FabricDrawn(loaded, fabric_facts(loaded))


@remembering()
def size_fabric(
    endpoints: int | None = None,
    radix: int | None = None,
    *,
    fat_tree: int | None = None,
    levels: int | None = None,
    oversubscription: Sequence[float | str] | float | str = (),
    rails: int = 1,
    ports_per_endpoint: int = 1,
    topology: str = "clos",
    prices: FabricSource | None = None,
    overrides: Overrides = (),
) -> FabricSized | DirectSized:
    """A Clos, dragonfly or HyperX in whole switches and whole ports, the fewest that can be wired
    evenly, and its bill.

    Args:
        endpoints: that it joins: GPUs or nodes, of ``ports_per_endpoint`` ports each.
        radix: ports of a switch.
        fat_tree: k, for the k-ary fat-tree of k³/4 endpoints in the place of both.
        levels: 1 to 3; the fewest that have room when None.
        oversubscription: of the switches of each level below the top, hop by hop: ``2``, or ports
            and their rates, ``"48x400Gbps:8x800Gbps"``; 1 where nothing is given. Without levels
            one ratio: the load of the busiest cable between switches over its rate, when every
            endpoint sends alike to all at full rate, on minimal routes.
        rails: separate fabrics, over which the ports spread.
        ports_per_endpoint: ports of one.
        topology: ``clos``, ``dragonfly``, ``dragonfly_plus`` or ``hyperx``.
        prices: what the key ``prices`` of a fabric holds: a mapping, or a file of it, or a fabric
            that has one.
        overrides: of the prices, ``"switch=30000"`` each, or a mapping; they do without ``prices``.

    Returns:
        A :class:`colltool.fabric.results.FabricSized`; counts, watts, and money in the currency of
        the prices. Other than of a Clos a :class:`colltool.fabric.direct_sized.DirectSized`, beside
        a Clos of the same ports.

    Raises:
        ColltoolError: neither a fat-tree nor endpoints and radix, more ports than can be joined,
            prices without a currency.
    """
    from colltool.fabric.load import load_prices
    from colltool.fabric.properties import bill_of_plan
    from colltool.fabric.results import FabricSized
    from colltool.sizing.size_clos import clos_plan, fat_tree_plan, hops_of

    known = (
        load_prices(prices, overrides)
        if prices is not None or not v.is_nothing(overrides)
        else None
    )
    if fat_tree is not None:
        beside = {
            "endpoints": endpoints,
            "radix": radix,
            "levels": levels,
            "oversubscription": oversubscription or None,
            "topology": None if topology == "clos" else topology,
            "rails": None if rails == 1 else rails,
            "ports_per_endpoint": None if ports_per_endpoint == 1 else ports_per_endpoint,
        }
        for name, value in beside.items():
            if value is not None:
                what = "does not apply to a fat-tree, which k fully defines"
                raise ColltoolError(what, argument=name, fix="leave it out")
        tree = fat_tree_plan(v.count_of(fat_tree, "fat_tree"))
        return FabricSized(tree.ports, 1, tree, bill_of_plan(tree, known))
    if endpoints is None or radix is None:
        fix = (
            f"write {given('endpoints', 2048)} and {given('radix', 64)}, or {given('fat_tree', 64)}"
        )
        raise ColltoolError("nothing says what to size", fix=fix)
    ports_of_switch = v.count_of(radix, "radix")
    counts = (
        v.count_of(endpoints, "endpoints"),
        v.count_of(ports_per_endpoint, "ports_per_endpoint"),
        ports_of_switch,
    )
    on_rails, hops = v.count_of(rails, "rails"), hops_of(oversubscription, ports_of_switch)
    if v.text_of(topology, "topology", "dragonfly") != "clos":
        if levels is not None:
            raise ColltoolError(
                f"does not apply to a {topology}", argument="levels", fix="leave it out"
            )
        return _sized_direct(topology, counts, on_rails, hops, known)
    plan = clos_plan(*counts, rails=on_rails, levels=v.count_if(levels, "levels"), hops=hops)
    return FabricSized(endpoints, ports_per_endpoint, plan, bill_of_plan(plan, known))


def _sized_direct(
    topology: str,
    counts: tuple[int, int, int],
    rails: int,
    hops: Sequence[Hop],
    prices: Prices | None,
) -> DirectSized:
    """``counts``: endpoints, ports of each, ports of a switch."""
    from colltool.fabric.direct_sized import DirectSized
    from colltool.fabric.properties import bill_of_plan
    from colltool.sizing.size_clos import LEVELS, clos_plan
    from colltool.sizing.size_direct import DIRECT, direct_plan

    kind = next((one for one in DIRECT if one == topology), None)
    if kind is None:
        what = f"'{clipped(topology)}' is no topology that is sized"
        raise ColltoolError(
            what, argument="topology", fix=f"write one of: clos, {', '.join(DIRECT)}"
        )
    ratios = [one for one in hops if isinstance(one, float)]
    if len(ratios) != len(hops) or len(hops) > 1:
        fix = f"write {given('oversubscription', '2')}"
        raise ColltoolError(f"a {kind} takes one ratio", argument="oversubscription", fix=fix)
    plan = direct_plan(kind, *counts, rails=rails, most=ratios[0] if ratios else 1.0)
    try:
        clos = clos_plan(*counts, rails=rails, hops=hops)
    except ColltoolError:
        clos = None
    alike = prices
    # cables to endpoints are copper in both
    if prices and plan.levels[0].name in (prices.copper or ()):
        alike = prices.model_copy(update={"copper": LEVELS[:1]})
    other = bill_of_plan(clos, alike) if clos else None
    return DirectSized(counts[0], counts[1], plan, bill_of_plan(plan, prices), clos, other)


def contention(
    fabric: AnyFabric,
    layout: Layout | Mapping[str, Any] | AnyPath,
    *,
    placed: str | None = None,
    seed: int = 0,
    primitive: Primitive | str | None = None,
    algorithm: str | None = None,
    size: str | float | None = None,
    matrix: AnyPath | Sequence[Sequence[float]] | NDArray[np.float64] | None = None,
    hot: float | None = None,
    hot_members: Sequence[int] = (0,),
    zipf: float | None = None,
    per_link: bool = False,
) -> Contention:
    """What a layout costs: the load of every link when its groups run together, against each group
    alone and packed.

    Args:
        fabric: as :func:`price`.
        layout: a layout, a path to a layout file, a mapping of what one would hold, or fields of
            :class:`colltool.congestion.patterns.Pattern`, such as
            ``{"kind": "cyclic", "group": 8}``.
        placed: the kind of :class:`colltool.congestion.patterns.MapPattern` for a pattern, with its
            ``seed``.
        primitive, algorithm, size: for groups that do not give their own; size in bytes per rank.
        matrix, hot, zipf: at most one: a skew of the all-to-all groups. ``matrix``: bytes from row
            to column, or a CSV of them; ``hot``: times the mean that each of ``hot_members`` gets;
            ``zipf``: the exponent over destinations.
        per_link: keep every loaded link.

    Raises:
        ColltoolError: a layout, matrix, skew or algorithm that cannot be used; says where and what
            to do instead.
    """
    from colltool.congestion.contention import contention as run
    from colltool.congestion.skew import Skew, load_matrix

    if sum(value is not None for value in (matrix, hot, zipf)) > 1:
        what = "a matrix, a hot spot and a Zipf skew exclude each other"
        raise ColltoolError(what, argument="matrix", fix="give one of them")
    if matrix is not None and size is not None:
        fix = f"leave {given('size')} out, or scale the matrix"
        raise ColltoolError("the matrix already gives bytes", argument="size", fix=fix)
    asked: dict[str, Any] = {
        "algorithm": (
            None
            if algorithm is None
            else v.text_of(algorithm, "algorithm", "ring", noun="the name of an algorithm")
        ),
        "size": None if size is None else v.size_of(size),
        "primitive": None if primitive is None else v.primitive_of(primitive),
        "per_link": v.flag_of(per_link, "per_link"),
    }
    loaded = v.fabric_of(fabric)
    groups = _layout(loaded, layout, placed, v.count_of(seed, "seed"))
    sent = load_matrix(os.fspath(matrix)) if isinstance(matrix, str | os.PathLike) else matrix
    try:
        return run(loaded, groups, skew=Skew(sent, hot, hot_members, zipf), **asked)
    except ColltoolError as error:
        if error.argument != "matrix" or not isinstance(matrix, str | os.PathLike):
            raise
        raise ColltoolError(error.what, where=f"{os.fspath(matrix)}:1:1", fix=error.fix) from error


def _layout(fabric: Fabric, layout: Any, placed: str | None, seed: int) -> Layout:
    from colltool.congestion.jobs import Layout
    from colltool.congestion.layout import load_layout, pattern_layout
    from colltool.congestion.patterns import MapPattern, Pattern

    if isinstance(layout, Layout):
        return layout
    if isinstance(layout, str | os.PathLike) or (
        isinstance(layout, Mapping) and {"groups", "pattern"} & layout.keys()
    ):
        return load_layout(layout, fabric)
    if not isinstance(layout, Mapping):
        raise v.wrong(
            layout,
            "layout",
            "a layout",
            'give a path, or fields of a pattern such as {"kind": "cyclic", "group": 8}',
        )
    # refused where it is laid out
    kind: Any = "identity" if placed is None else v.text_of(placed, "placed", "rotate")
    return pattern_layout(
        Pattern(**_fields(layout, Pattern._fields)), fabric, MapPattern(kind, seed=seed)
    )


def _fields(layout: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """What a pattern is made of: each field of the type that it has."""
    for name, value in layout.items():
        if name not in known:
            fix = f"{nearest(str(name), list(known))} fields: {', '.join(known)}".strip()
            raise ColltoolError(f"no field '{name}' of a pattern", argument="layout", fix=fix)
        if name == "kind":
            v.text_of(value, "kind", "cyclic")
        elif name == "shape" and value is not None:
            if not isinstance(value, list | tuple):
                raise v.wrong(
                    value,
                    "shape",
                    "a tuple of whole numbers",
                    f"write {given('shape', (4, 2), text='4x2')}",
                )
            for side in value:
                v.count_of(side, "shape")
        elif value is not None:
            v.count_of(value, name)
    return dict(layout)


def _vectors_of(values: Any) -> Vectors:
    """A vector for each rank, or all numbers in one row, which are cut into one for each rank:
    ``"1,2,3,4"``, ``"1..16"``."""
    if isinstance(values, str) and values == "example":
        return "example"
    try:
        rows: list[Any] = _numbers_of(values) if isinstance(values, str) else list(values)
        if rows and not any(hasattr(row, "__len__") for row in rows):
            rows = [rows]
        vectors = [list(map(float, row)) for row in rows]
        if not isinstance(values, bytes | Mapping) and all(map(isfinite, chain(*vectors))):
            return vectors
    except (TypeError, ValueError, OverflowError):
        pass
    fix = (
        f"write {given('values', '1,2,3,4')} for two numbers on each of two ranks, or a range such"
        " as 1..16"
    )
    raise v.wrong(values, "values", "numbers, as many for each rank", fix)


_MOST_NUMBERS = 4096
_RANGE = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})")


def _numbers_of(text: str) -> list[Any]:
    """Numbers in a row, ranges written out; ValueError where a part is neither."""
    found: list[float] = []
    for part in text.split(","):
        if ends := _RANGE.fullmatch(part.strip()):
            first, last = int(ends[1]), int(ends[2])
            if abs(last - first) >= _MOST_NUMBERS:
                raise ValueError(part)
            step = 1 if last >= first else -1
            found += range(first, last + step, step)
        else:
            found.append(float(part))
    return found


def verify(
    fabrics: AnyFabric | Sequence[AnyFabric],
    primitive: Primitive | str | None = None,
    *,
    ranks: int | None = None,
    stride: int = 1,
    alone: bool = False,
    shape: AnyShape | None = None,
    algorithms: Sequence[str] | str = (),
    algorithm_files: AnyAlgorithms = (),
    size: str | float = "16MB",
    segments: int | None = None,
    trace: bool = False,
    values: Vectors | Sequence[float] | str = (),
    simulator: str | None = None,
) -> Verification:
    """Execute every algorithm that runs on a group, message by message, and compare the counts with
    its formula.

    Args:
        fabrics: one or several, as :func:`price`; their ports and links carry the messages.
        primitive: one, or all when None.
        ranks, stride, alone, shape, algorithms: as :func:`price`. Some hundreds of ranks: a
            schedule of N has up to N² messages.
        algorithm_files: algorithms of your own, as :func:`price`; without ``algorithms`` only
            these.
        size: M in bytes, for the times.
        segments: P of pipelined algorithms; 16, or 2 of a trace, when None.
        trace: each result carries its steps, who sends what to whom and what each rank then holds;
            16 ranks at most.
        values: of a trace, a vector of numbers for each rank, all of them in one row
            (``"1,2,3,4"``, ``"1..16"``), or ``example`` for small ones: the steps then carry them.
        simulator: ``simgrid``: each schedule also runs there, and each result has the time that it
            finds. Its Python is that of ``COLLTOOL_SIMGRID``, else one on PATH.

    Raises:
        ColltoolError: a group that does not fit, nothing of that name runs there, or the simulator
            is not installed.
    """
    from colltool.verification.verify import Verification
    from colltool.verification.verify import verify as run

    own = own_of(algorithm_files, primitive)
    primitives = list(dict.fromkeys(one.primitive for one in own)) or list(Primitive)
    primitives = primitives if primitive is None else [v.primitive_of(primitive)]
    group = v.group_of(ranks_of(ranks, own, {"shape": shape}), stride, alone, shape)
    size_bytes, names = v.size_of(size), v.names_of(algorithms)
    pieces, steps, vectors = (
        v.count_if(segments, "segments"),
        v.flag_of(trace, "trace"),
        _vectors_of(values),
    )
    if vectors and not steps:
        raise ColltoolError(
            "are shown step by step", argument="values", fix=f"add {given('trace', True)}"
        )
    simgrid = None
    if simulator is not None:
        simgrid = extra("interop.simgrid")
        simgrid.check_simulator(v.text_of(simulator, "simulator", "simgrid"))
        simgrid.find_python()  # before minutes of work, not after
    found = []
    for fabric in map(v.fabric_of, v.several_of(fabrics)):
        one = run(
            fabric,
            primitives,
            size_bytes,
            group,
            pieces,
            names,
            trace=steps,
            vectors=vectors,
            own=own,
        )
        found.append(
            one
            if simgrid is None
            else simgrid.with_simulator(one, size_bytes, fabric, group, pieces)
        )
    overrides = tuple(dict.fromkeys(pair for one in found for pair in one.overrides))
    return Verification(
        sum((one.results for one in found), ()),
        sum((one.skipped for one in found), ()),
        overrides,
        simulator or "",
    )
