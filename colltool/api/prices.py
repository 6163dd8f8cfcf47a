"""Prices and what follows from them: one public function a command."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from colltool.api.arguments import (
    AnyFabric,
    AnyPath,
    Sizes,
    count_of,
    fabric_of,
    fabrics_of,
    flag_of,
    names_of,
    number_of,
    primitive_of,
    size_of,
    sizes_of,
    text_of,
    under_library,
    wrong,
)
from colltool.api.groups import AnyShape, group_of
from colltool.api.picks import is_other, with_estimates, with_pick, with_turn
from colltool.api.slow import explained_slow, slowed
from colltool.base.errors import ColltoolError, called, given
from colltool.base.primitives import AR, Primitive
from colltool.estimate.readings import Readings, checked

if TYPE_CHECKING:
    from colltool.analysis.results import Diff
    from colltool.estimate.explained import Explanation
    from colltool.estimate.results import Breakdown, Crossover, Ladder, Price, PriceList
    from colltool.fabric.ladder import LadderDefinition
    from colltool.verification.results import Verification

MOST_SEGMENTS = 65_536  # a schedule is executed segment by segment


def price(
    fabric: AnyFabric,
    primitive: Primitive | str,
    *,
    size: Sizes,
    ranks: int | None = None,
    stride: int = 1,
    alone: bool = False,
    shape: AnyShape | None = None,
    algorithms: Sequence[str] | str = (),
    library: str | None = None,
    slow_rank: float | None = None,
    readings: Readings | None = None,
    **parts: Any,
) -> Price:
    """Price every algorithm that can run, fastest first.

    Args:
        fabric: a fabric, or a path or shipped name to load.
        primitive: by short or long name.
        size: bytes per rank by nccl-tests' convention; ``"16MB"``, a number, or a one-dimensional array or sequence of them,
            which one call prices as a whole: rows then hold arrays of its shape, in registry order.
        ranks: N; all of the fabric, or of what the stride leaves of it, when None.
        stride: every so many-th rank of the fabric is in the group: 8 is one rank of each node of 8. The groups of the ranks
            in between run at the same time.
        alone: they are idle.
        shape: of the slice on a torus or mesh, ``"4x4x4"`` or ``(4, 4, 4)``; as near a cube as fits when None.
        algorithms: only these, such as ``"ring"`` or ``"hierarchical:ring/ring"``.
        library: whose schedules are ranked: ``"nccl"``, ``"rccl"``, ``"mpi"``, ``"xla"``, ``"mscclpp"``, ``"all"``; the fabric's
            own when None. NCCL's own pick for each size stands in :attr:`Price.library`.
        slow_rank: each row also carries what it takes where all ports and links of one rank, the worst one for it, run at this
            share of their bandwidth (:attr:`colltool.estimate.row.Row.slow`); of a single size.
        readings: of the model; the defaults when None.
        **parts: single readings by name, such as ``ideal=True``, in place of those.

    Returns:
        A :class:`colltool.estimate.results.Price`; seconds, bytes, bytes/s. ``leads_on_one_port`` names what leads with
        ``ports="one"`` where that is another schedule; of an array of sizes it is a tuple of such names, one for each.

    Raises:
        ColltoolError: a fabric, group, size, algorithm or reading that cannot be used; says what to do instead.
    """
    from colltool.estimate.price import price as run

    reading, own = checked(readings, **parts), fabric_of(fabric)
    loaded = under_library(own, library)
    group = group_of(ranks, stride, alone, shape)
    priced = run(loaded, primitive_of(primitive), sizes_of(size), group, reading, only := names_of(algorithms))
    picked = with_pick(with_turn((priced,), loaded, group, reading, only), loaded, reading, asked=is_other(library, own))
    return slowed(picked, loaded, reading, slow_rank)[0]


def price_list(
    fabric: AnyFabric,
    primitive: Primitive | str,
    *,
    sizes: Sequence[str | float] = (),
    ranks: int | None = None,
    stride: int = 1,
    alone: bool = False,
    shape: AnyShape | None = None,
    algorithms: Sequence[str] | str = (),
    library: str | None = None,
    slow_rank: float | None = None,
    readings: Readings | None = None,
    **parts: Any,
) -> PriceList:
    """One price per size; without sizes the winner and runner-up from 1 KB to 1 GB. Otherwise as :func:`price`."""
    from colltool.estimate.price import price_list as run

    if not isinstance(sizes, list | tuple) and getattr(sizes, "ndim", 0) != 1:
        raise wrong(sizes, "sizes", "a list of sizes", f"write {given('sizes', ['1MB', '16MB'])}")
    reading = checked(readings, **parts)
    with called("python", size="sizes"):
        parsed = [size_of(size) for size in sizes]
    own = fabric_of(fabric)
    loaded = under_library(own, library)
    group = group_of(ranks, stride, alone, shape)
    listed = run(loaded, primitive_of(primitive), parsed, group, reading, only := names_of(algorithms))
    picked = with_pick(with_turn(listed.prices, loaded, group, reading, only), loaded, reading, asked=is_other(library, own))
    return replace(listed, prices=slowed(picked, loaded, reading, slow_rank))


def crossover(
    fabric: AnyFabric,
    primitive: Primitive | str = AR,
    *,
    ranks: int | None = None,
    stride: int = 1,
    alone: bool = False,
    shape: AnyShape | None = None,
    algorithms: Sequence[str] | str = (),
    library: str | None = None,
    readings: Readings | None = None,
    **parts: Any,
) -> Crossover:
    """Every size, in bytes, at which the faster of two algorithms changes, and who wins at which size.

    Args:
        fabric, primitive, ranks, stride, alone, shape, library, readings: as :func:`price`.
        algorithms: the first is compared with each of the others; the usual ones when empty.
        **parts: as :func:`price`.

    Raises:
        ColltoolError: as :func:`price`, or fewer than two algorithms.
    """
    from colltool.estimate.crossover import crossover as run

    reading, loaded = checked(readings, **parts), under_library(fabric_of(fabric), library)
    found = run(loaded, primitive_of(primitive), group_of(ranks, stride, alone, shape), reading, names_of(algorithms))
    if found.library != "nccl":
        return found
    from colltool.nccl.answer import picked

    return picked(found, loaded)


def breakdown(
    fabric: AnyFabric,
    primitive: Primitive | str,
    *,
    size: str | float,
    ranks: int | None = None,
    stride: int = 1,
    alone: bool = False,
    shape: AnyShape | None = None,
    algorithm: str | None = None,
    library: str | None = None,
    slow_rank: float | None = None,
    readings: Readings | None = None,
    **parts: Any,
) -> Breakdown:
    """The phases of the fastest schedule (or of ``algorithm``) beside the flat baselines; arguments as :func:`price`."""
    from colltool.estimate.breakdown import breakdown as run

    reading = checked(readings, **parts)
    name = None if algorithm is None else text_of(algorithm, "algorithm", "ring")
    with called("python", algorithms="algorithm"):
        loaded = under_library(fabric_of(fabric), library)
        found = run(loaded, primitive_of(primitive), size_of(size), group_of(ranks, stride, alone, shape), reading, name)
    first, beside = slowed((found.price, replace(found.price, results=found.baselines)), loaded, reading, slow_rank)
    return replace(found, price=first, baselines=beside.results)


def ladder(definition: LadderDefinition | AnyPath = "n512", *, readings: Readings | None = None, **parts: Any) -> Ladder:
    """Price a ladder: a definition, a path, or the name of a shipped one.

    Raises:
        ColltoolError: no such ladder, or a rung that cannot be priced.
    """
    from colltool.estimate.ladder import climb
    from colltool.fabric.ladder import LadderDefinition, load_ladder

    reading = checked(readings, **parts)
    if not isinstance(definition, str | os.PathLike | LadderDefinition):
        raise wrong(definition, "definition", "a ladder", 'give a path, or the name of a shipped ladder ("n512")')
    loaded = definition if isinstance(definition, LadderDefinition) else load_ladder(definition)
    return climb(loaded, reading)


def verify(
    fabrics: AnyFabric | Sequence[AnyFabric],
    primitive: Primitive | str | None = None,
    *,
    ranks: int | None = None,
    stride: int = 1,
    alone: bool = False,
    shape: AnyShape | None = None,
    algorithms: Sequence[str] | str = (),
    size: str | float = "16MB",
    segments: int | None = None,
    trace: bool = False,
    values: Sequence[Sequence[float]] | Literal[example] = (),
) -> Verification:
    """Execute every algorithm that runs on a group, message by message, and compare the counts with its formula.

    Args:
        fabrics: one or several, as :func:`price`; their ports and links carry the messages.
        primitive: one, or all when None.
        ranks, stride, alone, shape: as :func:`price`. Some hundreds of ranks: a schedule of N ranks has up to N² messages.
        algorithms: only these.
        size: M in bytes, for the times.
        segments: P of pipelined algorithms; 16, or 2 of a trace, when None.
        trace: each result carries its steps, who sends what to whom and what each rank then holds; 8 ranks at most.
        values: of a trace, a vector for each rank, or ``example`` for small ones; messages and holdings then carry numbers.

    Returns:
        A :class:`colltool.verification.results.Verification`.

    Raises:
        ColltoolError: a group that does not fit, or nothing of that name runs there.
    """
    from colltool.verification.verify import verify as run

    primitives = list(Primitive) if primitive is None else [primitive_of(primitive)]
    size_bytes, names, group = size_of(size), names_of(algorithms), group_of(ranks, stride, alone, shape)
    pieces = None if segments is None else count_of(segments, "segments", 1, MOST_SEGMENTS)
    asked = {"trace": flag_of(trace, "trace"), "vectors": values}
    found = [run(fabric, primitives, size_bytes, group, pieces, names, **asked) for fabric in fabrics_of(fabrics)]
    overrides = tuple(dict.fromkeys(pair for one in found for pair in one.overrides))
    from colltool.verification.results import Verification

    return Verification(sum((one.results for one in found), ()), sum((one.skipped for one in found), ()), overrides)


def diff(old: Mapping[str, Any], new: Mapping[str, Any], rtol: float = 1e-6) -> Diff:
    """What moved between two JSON documents of the same command, past a relative tolerance.

    Args:
        old, new: what ``json.load`` made of two outputs; NaN and infinite numbers in them are refused.
        rtol: numbers that differ by at most this fraction of the old one are the same.

    Raises:
        ColltoolError: not documents of colltool, or of different commands.
    """
    from colltool.analysis.diff import diff as run

    for argument, document in (("old", old), ("new", new)):
        if not isinstance(document, Mapping):
            raise wrong(document, argument, "a JSON document as a mapping", "give what json.load returns")
    return run(old, new, number_of(rtol, "rtol"))


def explain(
    algorithm: str,
    primitive: Primitive | str | None = None,
    *,
    fabric: AnyFabric | None = None,
    size: str | float | None = None,
    ranks: int | None = None,
    stride: int = 1,
    alone: bool = False,
    shape: AnyShape | None = None,
    library: str | None = None,
    slow_rank: float | None = None,
    readings: Readings | None = None,
    **parts: Any,
) -> Explanation:
    """An algorithm in words; with a fabric and a size also in numbers, and where NCCL runs with the parts of its own estimate.

    Arguments as :func:`price`.
    """
    from colltool.estimate.explain import explain as run

    name = text_of(algorithm, "algorithm", "ring")
    reading = checked(readings, **parts)
    wanted = None if primitive is None else primitive_of(primitive)
    own = None if fabric is None else fabric_of(fabric)
    if own is None and library is not None:
        raise ColltoolError("is of numbers", argument="library", fix=f"add {given('fabric', 'nvl72')} {given('size', '16MB')}")
    loaded = None if own is None else under_library(own, library)
    if (loaded is None) != (size is None):
        fix = f"add {given('fabric', 'nvl72')} {given('size', '16MB')}, or leave both out"
        raise ColltoolError("numbers need a fabric and a size", argument="size" if size is None else "fabric", fix=fix)
    parsed = None if size is None else size_of(size)
    with called("python", algorithms="algorithm"):
        explained = run(name, wanted, loaded, parsed, group_of(ranks, stride, alone, shape), reading)
    explained = explained_slow(explained, loaded, reading, slow_rank)
    return explained if own is None or loaded is None else with_estimates(explained, loaded, asked=is_other(library, own))
