"""What runs, and what is fastest, over lists of fabrics, ranks, sizes and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack

from colltool.base.files import remembering
from colltool.base.primitives import Primitive
from colltool.commands.command import command
from colltool.commands.compare import listed_sizes
from colltool.commands.options import (
    FABRIC,
    PLOT,
    READINGS,
    SIZES,
    FabricChoice,
    Out,
    option,
    plot_views,
    result_options,
)
from colltool.commands.public_options import Options, with_options

if TYPE_CHECKING:
    from colltool.analysis.sweep import Sweep
    from colltool.commands.reading import AnyFabric
    from colltool.definitions.overrides import Overrides


@remembering()
@with_options
def sweep(
    fabrics: AnyFabric | Sequence[AnyFabric],
    primitive: Primitive | str,
    *,
    ranks: Sequence[int] | int | None = None,
    sizes: Sequence[str | float] = (),
    vary: Sequence[str] | str = (),
    overrides: Overrides = (),
    algorithms: Sequence[str] | str = (),
    limit: int | None = None,
    **options: Unpack[Options],
) -> Sweep:
    """What runs, and what is fastest, at every point of a grid, and where that changes.

    A fabric that is too small for the ranks is grown to as many nodes as they need.

    Args:
        fabrics: one or several, each a path, shipped name or mapping; one that is loaded where
            nothing of it is varied.
        ranks: one number or several; default: all of each fabric.
        sizes: bytes per rank, as in nccl-tests; default: six from 1 KB to 1 GB.
        vary: further axes, ``"ib.bandwidth=50GB/s,100GB/s"``, ``"alpha=0.1us:10us:5log"``,
            ``"ideal=true,false"``.
        overrides: as in :func:`colltool.load_fabric`, on every fabric.
        limit: the most cells that are priced; default: 100,000.
        library: library that runs the collectives; default: each fabric's own.

    All else is as in :func:`colltool.price`.

    Returns:
        A :class:`colltool.analysis.sweep.Sweep`; seconds, bytes, bytes/s.

    Raises:
        ColltoolError: an axis that names nothing, a range upside down, too many cells, or as
            :func:`colltool.price`.
    """
    from colltool.analysis.axes import axes_of
    from colltool.analysis.sweep import MOST_CELLS
    from colltool.analysis.sweep import sweep as sweep_grid
    from colltool.commands.reading import count_if, groups_of, vary_of
    from colltool.commands.requests import grid_request, model_request
    from colltool.commands.several_fabrics import fitted_fabrics, several_of

    model = model_request(None, options)
    groups = groups_of(ranks, model.group)
    axes = axes_of(vary_of(vary))
    varied = [axis.key for axis in axes]
    several = several_of(fabrics)
    return sweep_grid(
        grid_request(primitive, algorithms, model),
        fitted_fabrics(several, overrides, model.library, model.machine, groups, varied),
        groups,
        listed_sizes(sizes),
        axes,
        count_if(limit, "limit") or MOST_CELLS,
    )


@command(
    [
        "primitive",
        FABRIC,
        "rank_counts",
        SIZES,
        option(
            "vary",
            "Values of a key of the fabric or of a model option: a list, or KEY=LOW:HIGH:COUNT (COUNTlog"
            " for a logarithmic range); repeatable.",
        ),
        "pivot",
        "rows",
        "cols",
        "algorithms",
        "stride",
        "alone",
        "shape",
        "library",
        "limit",
        result_options(
            PLOT,
            plot_views(("map", "busbw"), "Plot a map of the algorithms, or its busbw as lines."),
        ),
        READINGS,
    ],
    public=sweep,
)
def sweep_command(
    fabric: FabricChoice,
    out: Out,
    pivot: Literal["busbw", "total", "algorithm"] | None = None,
    rows: str = "",
    cols: str = "",
    **arguments: Any,
) -> None:
    """Find what runs, and what is fastest, over lists of fabrics, ranks, sizes and values.

    A fabric that is too small for the ranks is grown to as many nodes as they need; colltool
    compare says which of several fabrics is faster.

    Examples:
      colltool sweep ar -f dgx-h100 -n 8,64,256 -M 1MB,16MB,1GB --pivot busbw
      colltool sweep a2a -f dgx-h100 -n 64 --vary ib.levels.spine.oversubscription=1,2,4
      colltool sweep ar -f torus512 -M 16MB --vary torus.shape=8x8x8,16x8x4 --vary ideal=true,false
      colltool sweep ar -f dgx-h100 -f nvl72 -n 64 --format csv
      colltool sweep ar -f dgx-h100 -n 64 --vary ib.bandwidth=25GB/s:100GB/s:7 --pivot algorithm
      colltool sweep ar -f dgx-h100 -n 8,64,256 --plot busbw.svg --plot-what busbw
    """
    swept = sweep(fabric.several, overrides=fabric.overrides, machine=fabric.machine, **arguments)
    # --rows and --cols alone also ask for pivot tables
    if pivot is not None or rows or cols:
        swept = swept.pivoted(pivot or "busbw", rows, cols)
    out.emit(swept)
