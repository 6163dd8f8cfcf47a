"""The public functions: one per command, taking text with units or numbers, returning the records that the CLI renders.

Each imports its part of the engine when it is called, so that a price does not wait for a ladder to load.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import colltool.algorithms as _filled  # the registry fills on import
from colltool.cost import Number, Pipelining
from colltool.engine.readings import Readings
from colltool.engine.results import Breakdown, Crossover, Diff, Explanation, Ladder, Price, PriceList, Verification
from colltool.errors import ColltoolError
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric
from colltool.primitives import AR, Primitive, parse_primitive
from colltool.units import parse_size

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from colltool.engine.contention_results import Contention
    from colltool.fabric.ladder import LadderDefinition
    from colltool.fabric.layout import Layout

    Sizes = str | float | Sequence[float] | NDArray[np.float64]
else:
    Sizes = Any

AnyFabric = Fabric | str | os.PathLike[str]

assert _filled
__all__ = [
    "breakdown",
    "contention",
    "crossover",
    "diff",
    "explain",
    "ladder",
    "load_fabric",
    "price",
    "price_list",
    "readings",
    "verify",
]


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
        A :class:`colltool.engine.results.Price`; seconds, bytes, bytes/s.

    Raises:
        ColltoolError: a fabric, group, size or algorithm that cannot be used; says what to do instead.
    """
    from colltool.engine.price import price as run

    return run(_loaded(fabric), _primitive(primitive), _sizes(size), ranks, readings(**model), _names(algorithms))


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
    from colltool.engine.price import price_list as run

    parsed = [parse_size(size) for size in sizes]
    return run(_loaded(fabric), _primitive(primitive), parsed, ranks, readings(**model), _names(algorithms))


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
    from colltool.engine.crossover import crossover as run

    return run(_loaded(fabric), _primitive(primitive), ranks, readings(**model), _names(algorithms))


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
    from colltool.engine.breakdown import breakdown as run

    return run(_loaded(fabric), _primitive(primitive), parse_size(size), ranks, readings(**model), algorithm)


def ladder(definition: LadderDefinition | str | os.PathLike[str] = "n512", **model: Any) -> Ladder:
    """Price a ladder: a definition, a path, or the name of a shipped one.

    Raises:
        ColltoolError: no such ladder, or a rung that cannot be priced.
    """
    from colltool.engine.ladder import climb
    from colltool.fabric.ladder import load_ladder

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
        A :class:`colltool.engine.results.Verification`.

    Raises:
        ColltoolError: a group that does not fit, or nothing of that name runs there.
    """
    from colltool.engine.verify import verify as run

    several = [fabrics] if isinstance(fabrics, Fabric | str | os.PathLike) else list(fabrics)
    primitives = list(Primitive) if primitive is None else [_primitive(primitive)]
    size_bytes, names = parse_size(size), _names(algorithms)
    found = [run(_loaded(one), primitives, size_bytes, ranks, segments, names) for one in several]
    return Verification(sum((one.results for one in found), ()), sum((one.skipped for one in found), ()))


def contention(
    fabric: AnyFabric,
    layout: Layout | Mapping[str, Any] | str | os.PathLike[str],
    *,
    placed: str | None = None,
    seed: int = 0,
    primitive: Primitive | str | None = None,
    algorithm: str | None = None,
    size: str | float | None = None,
    matrix: str | os.PathLike[str] | Sequence[Sequence[float]] | NDArray[np.float64] | None = None,
    hot: float | None = None,
    hot_members: Sequence[int] = (0,),
    zipf: float | None = None,
    per_link: bool = False,
) -> Contention:
    """What a layout costs: the load of every link when its groups run together, against each group alone and packed.

    Args:
        fabric: as :func:`price`.
        layout: a layout, a path to a layout file, or fields of :class:`colltool.fabric.patterns.Pattern`, such as
            ``{"kind": "cyclic", "group": 8}``.
        placed: the kind of :class:`colltool.fabric.patterns.MapPattern` for a pattern, with its ``seed``.
        primitive, algorithm, size: for groups that do not give their own; size in bytes per rank.
        matrix, hot, zipf: at most one: a skew of the all-to-all groups. ``matrix``: bytes from row to column, or a CSV of them;
            ``hot``: times the mean that each of ``hot_members`` gets; ``zipf``: the exponent over destinations.
        per_link: keep every loaded link.

    Returns:
        A :class:`colltool.engine.contention_results.Contention`.

    Raises:
        ColltoolError: a layout, matrix, skew or algorithm that cannot be used; says where and what to do instead.
    """
    from colltool.engine.contention import contention as run
    from colltool.engine.traffic import Skew

    loaded = _loaded(fabric)
    placed_groups = _layout(loaded, layout, placed, seed)
    skew = Skew(_matrix(matrix), hot, tuple(hot_members), zipf)
    if sum(value is not None for value in (matrix, hot, zipf)) > 1:
        raise ColltoolError("a matrix, a hot spot and a Zipf skew exclude each other", where="--matrix", fix="give one of them")
    if matrix is not None and size is not None:
        raise ColltoolError("the matrix already gives bytes", where="--size", fix="leave -M out, or scale the matrix")
    try:
        return run(
            loaded,
            placed_groups,
            primitive=None if primitive is None else _primitive(primitive),
            algorithm=algorithm,
            size=None if size is None else parse_size(size),
            skew=skew,
            per_link=per_link,
        )
    except ColltoolError as error:
        if error.where != "--matrix" or not isinstance(matrix, str | os.PathLike):
            raise
        raise ColltoolError(error.what, where=f"{os.fspath(matrix)}:1:1", fix=error.fix) from error


def _layout(fabric: Fabric, layout: Any, placed: str | None, seed: int) -> Layout:
    from colltool.fabric.layout import Layout, load_layout, pattern_layout
    from colltool.fabric.patterns import MapPattern, Pattern

    if isinstance(layout, Layout):
        return layout
    if isinstance(layout, str | os.PathLike):
        return load_layout(layout, fabric)
    return pattern_layout(Pattern(**layout), fabric, MapPattern(placed or "identity", seed=seed))


def _matrix(matrix: Any) -> Any:
    if isinstance(matrix, str | os.PathLike):
        from colltool.fabric.matrix import load_matrix

        return load_matrix(os.fspath(matrix))
    return matrix


def diff(old: dict[str, Any], new: dict[str, Any], rtol: float = 1e-6) -> Diff:
    """What moved between two JSON documents of the same command, past a relative tolerance.

    Raises:
        ColltoolError: not documents of colltool, or of different commands.
    """
    from colltool.engine.diff import diff as run

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
    from colltool.engine.explain import explain as run

    wanted = None if primitive is None else _primitive(primitive)
    loaded = None if fabric is None else _loaded(fabric)
    if (loaded is None) != (size is None):
        missing = "--size" if size is None else "--fabric"
        raise ColltoolError("numbers need a fabric and a size", where=missing, fix="add -f nvl72 -M 16MB, or leave both out")
    parsed = None if size is None else parse_size(size)
    return run(algorithm, wanted, loaded, parsed, ranks, readings(**model))


def readings(
    *,
    ideal: bool = False,
    pipelining: Pipelining = "asymptotic",
    phases: str | None = None,
    placement: str = "packed",
    ring_alpha: str = "mean",
    tree_beta: float = 2.0,
    order: str | None = None,
) -> Readings:
    """How to read the model where it leaves a choice; see :class:`colltool.engine.readings.Readings`.

    Raises:
        ColltoolError: a reading that does not exist.
    """
    _one_of("phases", phases, (None, "sequential", "pipelined"))
    _one_of("placement", placement, ("packed", "scattered"))
    _one_of("ring_alpha", ring_alpha, ("mean", "worst"))
    _one_of("order", order, (None, "outer-first", "inner-first"))
    if not (isinstance(tree_beta, int | float) and 1 <= tree_beta <= 2):
        raise ColltoolError(
            f"must lie between 1 and 2, got {tree_beta}", where="--tree-beta", fix="2 is a single port; 1 needs two ports"
        )
    segments = isinstance(pipelining, int) and not isinstance(pipelining, bool)
    if pipelining not in ("asymptotic", "optimal") and not (segments and int(pipelining) >= 1):
        fix = "asymptotic, optimal, or a number of segments of at least 1"
        raise ColltoolError(f"'{pipelining}' is not known", where="--pipelining", fix=fix)
    return Readings(ideal, pipelining, phases, placement, ring_alpha, float(tree_beta), order)  # type: ignore[arg-type]


def _one_of(name: str, value: str | None, known: tuple[str | None, ...]) -> None:
    if value not in known:
        raise ColltoolError(f"{name} '{value}' is not known", fix=f"one of {', '.join(str(k) for k in known if k)}")


def _loaded(fabric: AnyFabric) -> Fabric:
    return fabric if isinstance(fabric, Fabric) else load_fabric(fabric)


def _primitive(primitive: Primitive | str) -> Primitive:
    return primitive if isinstance(primitive, Primitive) else parse_primitive(primitive)


def _names(algorithms: Sequence[str] | str) -> list[str]:
    return [algorithms] if isinstance(algorithms, str) else list(algorithms)


def _sizes(size: Sizes) -> Number:
    """A float for one size, a float64 array for several."""
    if isinstance(size, str | int | float) or getattr(size, "ndim", 1) == 0:
        return parse_size(cast("float", size))
    import numpy as np

    try:
        array = np.asarray([parse_size(one) for one in size] if isinstance(size, list | tuple) else size, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ColltoolError("sizes must be numbers of bytes", where="size", fix="text: colltool.units.parse_size") from error
    if array.ndim != 1 or not array.size:
        what = f"sizes must be a one-dimensional array with at least one size, got shape {array.shape}"
        raise ColltoolError(what, where="size")
    return array
