"""Fabrics, or values of one, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from colltool.base.errors import ColltoolError, argument_text, rename_arguments
from colltool.base.files import remembering
from colltool.base.primitives import Primitive
from colltool.commands.arguments import COUNTS
from colltool.commands.command import command
from colltool.commands.options import (
    CHART,
    FABRIC,
    PLOT,
    READINGS,
    SIZES,
    FabricChoice,
    Out,
    option,
    result_options,
)
from colltool.commands.public_options import Options, with_options

if TYPE_CHECKING:
    from colltool.analysis.compare import Comparison
    from colltool.commands.reading import AnyFabric
    from colltool.definitions.overrides import Overrides


@remembering()
@with_options
def compare(
    fabrics: AnyFabric | Sequence[AnyFabric],
    primitives: Primitive | str | Sequence[Primitive | str],
    *,
    ranks: Sequence[int] | int | None = None,
    sizes: Sequence[str | float] = (),
    vary: Sequence[str] | str = (),
    overrides: Overrides = (),
    algorithms: Sequence[str] | str = (),
    **options: Unpack[Options],
) -> Comparison:
    """Compare fabrics, or values of one fabric, with a verdict in sentences.

    A fabric that is too small for the ranks is grown to as many nodes as they need.

    An engine's library (``library="vllm"``) is compared by the kernels that it picks in CUDA graphs.

    Args:
        fabrics: one or several fabrics; each is a column for every combination of ``vary``.
        primitives: one or several collectives, by short or long name.
        ranks: one or several numbers of ranks; default: the most that all fabrics can run.
        vary: keys of the fabric with their values, ``"ib.levels.spine.oversubscription=1,2,4"``.

    All else is as in :func:`sweep`.

    Returns:
        A :class:`colltool.analysis.compare.Comparison`; seconds, bytes, bytes/s.

    Raises:
        ColltoolError: fewer than two columns, or as :func:`sweep`.
    """
    from colltool.analysis.compare import compare as compare_columns
    from colltool.commands.kernel_prices import kernels_of
    from colltool.commands.reading import groups_of, is_nothing
    from colltool.commands.requests import grid_request, model_request
    from colltool.commands.several_fabrics import columns_of, several_of

    model = model_request(None, options)
    kernels = kernels_of(model.library)
    # an empty list is refused further on, as no name of a primitive
    listed = isinstance(primitives, list | tuple) and primitives
    several: Sequence[Any] = primitives if listed else [primitives]
    requests = [grid_request(primitive, algorithms, model) for primitive in several]
    groups = groups_of(ranks, model.group)
    compared, overrides = _with_itself(several_of(fabrics), vary, overrides)
    # a library of kernels runs on the fabric with its own library: no fabric can have it
    fabric_library = model.library if kernels is None else None
    columns = columns_of(compared, vary, overrides, fabric_library, model.machine, groups)
    if len(columns) < 2:
        values = argument_text("vary", ["ib.bandwidth=50GB/s,100GB/s"])
        raise ColltoolError(
            "one column has nothing to be compared with",
            argument="fabrics",
            fix=f"name another {argument_text('fabrics', ...)}, or {values}",
        )
    if kernels is None:
        return compare_columns(requests, columns, groups, listed_sizes(sizes))
    from colltool.engines.compare import compare_kernels

    if not is_nothing(algorithms):
        raise ColltoolError(
            f"{kernels.full_name} picks its own kernels",
            argument="algorithms",
            fix=f"leave {argument_text('algorithms')} out",
        )
    compared_calls = [request.primitive for request in requests]
    return compare_kernels(kernels, compared_calls, columns, groups, listed_sizes(sizes))


def listed_sizes(sizes: Sequence[str | float]) -> list[float]:
    """Return sizes in bytes; the standard ones where none is named."""
    from colltool.commands.reading import each_size
    from colltool.estimate.price import STANDARD_SIZES

    with rename_arguments("python", size="sizes"):
        return each_size(sizes) or list(STANDARD_SIZES)


def _with_itself(
    fabrics: Sequence[AnyFabric], vary: Any, overrides: Overrides
) -> tuple[Sequence[AnyFabric], Overrides]:
    """The fabrics to compare, and the values set on all of them.

    A single fabric with overrides becomes two: as its file has it, and with the overrides in its name
    (``dgx-h100:ib.bandwidth=25GB/s``), so that none are left for all.

    Raises:
        ColltoolError: values set on the same fabric twice, which then differs in nothing.
    """
    from colltool.commands.reading import is_nothing
    from colltool.definitions.overrides import texts_of
    from colltool.fabric.expression import with_setting

    typed = [fabric for fabric in fabrics if isinstance(fabric, str)]
    for fabric in typed:
        if not is_nothing(overrides) and typed.count(fabric) > 1:
            what = f"{fabric} is named twice, and {argument_text('overrides')} sets both alike"
            one_alone = argument_text("fabrics", f"{fabric}:ib.bandwidth=25GB/s")
            fix = f"set a value of one alone: {one_alone}"
            raise ColltoolError(what, argument="fabrics", fix=fix)
    is_single = len(fabrics) == 1 and bool(typed) and not vary
    if not is_single or not isinstance(overrides, list | tuple) or not overrides:
        return fabrics, overrides
    with_values = typed[0]
    for setting in texts_of(overrides):
        with_values = with_setting(with_values, setting)
    return [typed[0], with_values], ()


@command(
    [
        option(
            "primitives",
            "Collectives, comma-separated: ar, ag, rs, a2a, bc, reduce, p2p.",
            flags="",
            metavar="PRIM,...",
        ),
        FABRIC,
        option("vary", "Compare values of a key of the fabric (repeatable)."),
        option("rank_counts", f"{COUNTS} [default: the most that all can run]"),
        SIZES,
        "algorithms",
        "stride",
        "alone",
        "shape",
        "library",
        result_options(PLOT, CHART),
        READINGS,
    ],
    public=compare,
)
def compare_command(primitives: str, fabric: FabricChoice, out: Out, **arguments: Any) -> None:
    """Compare fabrics, or values of one fabric: times, ratios to the first, and a verdict.

    A fabric that is too small for the ranks is grown to as many nodes as they need. An engine's
    --library, such as vllm, is compared by the kernels that it picks in CUDA graphs.

    Examples:
      colltool compare ar -f dgx-h100 -f dgx-b200 -n 8,64,256
      colltool compare ar,a2a -f nvl72 -f dgx-b200 -n 1152
      colltool compare ar,a2a -f dgx-h100 -n 256 --set ib.levels.leaf.group=4 --vary ib.levels.spine.oversubscription=1,2,4
      colltool compare ar -f dgx-h100 -n 32,64,256 --vary library.collnet=false,true
    """
    compared = compare(
        fabric.several,
        primitives.split(","),
        overrides=fabric.overrides,
        machine=fabric.machine,
        **arguments,
    )
    out.emit(compared)
