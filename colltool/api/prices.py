"""Prices and what follows from them: one public function a command."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from colltool.api.arguments import AnyFabric, Sizes, fabric_of, names_of, primitive_of, readings, sizes_of
from colltool.errors import ColltoolError
from colltool.fabric.model import Fabric
from colltool.pricing.results import Breakdown, Crossover, Explanation, Ladder, Price, PriceList
from colltool.primitives import AR, Primitive
from colltool.proof.results import Verification
from colltool.study.results import Diff
from colltool.units import parse_size

if TYPE_CHECKING:
    from colltool.fabric.ladder import LadderDefinition


def price(
    fabric: AnyFabric,
    primitive: Primitive | str,
    *,
    size: Sizes,
    ranks: int | None = None,
    algorithms: Sequence[str] | str = (),
    **model: Any,
) -> Price:
    """Price every algorithm that can run, fastest first.

    Args:
        fabric: a fabric, or a path or shipped name to load.
        primitive: by short or long name.
        size: bytes per rank by nccl-tests' convention; ``"16MB"``, a number, or a one-dimensional array or sequence of numbers,
            which one call prices as a whole: rows then hold arrays of its shape, in registry order.
        ranks: N; all of the fabric when None.
        algorithms: only these, such as ``"ring"`` or ``"hierarchical:ring/ring"``.
        **model: fields of :func:`readings`.

    Returns:
        A :class:`colltool.pricing.results.Price`; seconds, bytes, bytes/s.

    Raises:
        ColltoolError: a fabric, group, size or algorithm that cannot be used; says what to do instead.
    """
    from colltool.pricing.price import price as run

    return run(fabric_of(fabric), primitive_of(primitive), sizes_of(size), ranks, readings(**model), names_of(algorithms))


def price_list(
    fabric: AnyFabric,
    primitive: Primitive | str,
    *,
    sizes: Sequence[str | float] = (),
    ranks: int | None = None,
    algorithms: Sequence[str] | str = (),
    **model: Any,
) -> PriceList:
    """One price per size; without sizes the winner and runner-up from 1 KB to 1 GB. Otherwise as :func:`price`."""
    from colltool.pricing.price import price_list as run

    parsed = [parse_size(size) for size in sizes]
    return run(fabric_of(fabric), primitive_of(primitive), parsed, ranks, readings(**model), names_of(algorithms))


def crossover(
    fabric: AnyFabric,
    primitive: Primitive | str = AR,
    *,
    ranks: int | None = None,
    algorithms: Sequence[str] | str = (),
    **model: Any,
) -> Crossover:
    """Every size, in bytes, at which the faster of two algorithms changes, and who wins at which size.

    Args:
        algorithms: the first is compared with each of the others; the usual ones when empty.

    Raises:
        ColltoolError: as :func:`price`, or fewer than two algorithms.
    """
    from colltool.pricing.crossover import crossover as run

    return run(fabric_of(fabric), primitive_of(primitive), ranks, readings(**model), names_of(algorithms))


def breakdown(
    fabric: AnyFabric,
    primitive: Primitive | str,
    *,
    size: str | float,
    ranks: int | None = None,
    algorithm: str | None = None,
    **model: Any,
) -> Breakdown:
    """The phases of the fastest schedule (or of ``algorithm``) beside the flat baselines; arguments as :func:`price`."""
    from colltool.pricing.breakdown import breakdown as run

    return run(fabric_of(fabric), primitive_of(primitive), parse_size(size), ranks, readings(**model), algorithm)


def ladder(definition: LadderDefinition | str | os.PathLike[str] = "n512", **model: Any) -> Ladder:
    """Price a ladder: a definition, a path, or the name of a shipped one.

    Raises:
        ColltoolError: no such ladder, or a rung that cannot be priced.
    """
    from colltool.fabric.ladder import load_ladder
    from colltool.pricing.ladder import climb

    loaded = load_ladder(definition) if isinstance(definition, str | os.PathLike) else definition
    return climb(loaded, readings(**model))


def verify(
    fabrics: AnyFabric | Sequence[AnyFabric],
    primitive: Primitive | str | None = None,
    *,
    ranks: int | None = None,
    algorithms: Sequence[str] | str = (),
    size: str | float = "16MB",
    segments: int = 16,
) -> Verification:
    """Execute every algorithm that runs on a group, message by message, and compare the counts with its formula.

    Args:
        fabrics: one or several, as :func:`price`; their ports and links carry the messages.
        primitive: one, or all when None.
        ranks: N; all of each fabric when None. Some hundreds: a schedule of N ranks has up to N² messages.
        algorithms: only these.
        size: M in bytes, for the times.
        segments: P of pipelined algorithms.

    Returns:
        A :class:`colltool.proof.results.Verification`.

    Raises:
        ColltoolError: a group that does not fit, or nothing of that name runs there.
    """
    from colltool.proof.verify import verify as run

    several = [fabrics] if isinstance(fabrics, Fabric | str | os.PathLike) else list(fabrics)
    primitives = list(Primitive) if primitive is None else [primitive_of(primitive)]
    size_bytes, names = parse_size(size), names_of(algorithms)
    found = [run(fabric_of(one), primitives, size_bytes, ranks, segments, names) for one in several]
    return Verification(sum((one.results for one in found), ()), sum((one.skipped for one in found), ()))


def diff(old: dict[str, Any], new: dict[str, Any], rtol: float = 1e-6) -> Diff:
    """What moved between two JSON documents of the same command, past a relative tolerance.

    Raises:
        ColltoolError: not documents of colltool, or of different commands.
    """
    from colltool.study.diff import diff as run

    return run(old, new, rtol)


def explain(
    algorithm: str,
    primitive: Primitive | str | None = None,
    *,
    fabric: AnyFabric | None = None,
    size: str | float | None = None,
    ranks: int | None = None,
    **model: Any,
) -> Explanation:
    """An algorithm in words; with a fabric and a size also in numbers. Arguments as :func:`price`."""
    from colltool.pricing.explain import explain as run

    wanted = None if primitive is None else primitive_of(primitive)
    loaded = None if fabric is None else fabric_of(fabric)
    if (loaded is None) != (size is None):
        missing = "--size" if size is None else "--fabric"
        raise ColltoolError("numbers need a fabric and a size", where=missing, fix="add -f nvl72 -M 16MB, or leave both out")
    parsed = None if size is None else parse_size(size)
    return run(algorithm, wanted, loaded, parsed, ranks, readings(**model))
