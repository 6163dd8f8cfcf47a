"""The sizes at which the fastest algorithm changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from colltool.base.primitives import AR, Primitive
from colltool.commands.command import command
from colltool.commands.options import (
    DRAWN_RESULT,
    GROUP,
    READINGS,
    FabricChoice,
    Out,
    fabric_options,
    option,
)
from colltool.commands.public_options import Options, with_options

if TYPE_CHECKING:
    from colltool.commands.reading import AnyFabric, AnyPath
    from colltool.commands.requests import Request
    from colltool.engines.results import KernelCrossover
    from colltool.estimate.results import Crossover


@with_options
def crossover(
    fabric: AnyFabric,
    primitive: Primitive | str = AR,
    *,
    ranks: int | None = None,
    algorithms: Sequence[str] | str = (),
    library_file: AnyPath | None = None,
    mode: str | None = None,
    **options: Unpack[Options],
) -> Crossover | KernelCrossover:
    """Every size, in bytes, at which the faster of two algorithms changes, and to which one.

    The first of ``algorithms`` is compared with each of the others, by default the usual ones; all
    else as :func:`price`. With an engine's library: where its kernels cross, next to its own
    thresholds (:class:`colltool.engines.results.KernelCrossover`); ``mode``: ``"graph"`` or
    ``"eager"``.

    Raises:
        ColltoolError: as :func:`price`, or fewer than two algorithms to compare.
    """
    from colltool.commands.kernel_prices import split_request
    from colltool.commands.reading import names_of
    from colltool.commands.requests import price_request

    # who answers: measured kernels, or algorithms (None) with the options of the model
    kernels, model_options = split_request(
        fabric, primitive, ranks, options, library_file=library_file, mode=mode
    )
    # kernels of no library are those of experts, a primitive that price_request refuses
    if kernels is not None and kernels.library is not None:
        return kernels.crossover(kernels.library)
    request = price_request(fabric, primitive, ranks, model_options)
    return crossover_of(request, names_of(algorithms))


def crossover_of(request: Request, names: Sequence[str] = ()) -> Crossover:
    """The crossovers of a request; on a fabric with NCCL also its own picks and what they cost.

    Args:
        names: algorithms, of which the first is compared with each other; empty for the usual ones.
    """
    from colltool.estimate.crossover import crossover as run

    crossings = run(request.fabric, request.primitive, request.group, request.readings, names)
    if request.fabric.library_name != "nccl":
        return crossings
    from colltool.estimate.library_crossover import with_library_picks, with_pick_cost

    with_picks = with_library_picks(crossings, request.fabric)
    return with_pick_cost(with_picks, request.fabric, request.readings)


@command(
    [
        "primitive",
        fabric_options(["nvl72"]),
        *GROUP,
        option(
            "algorithms",
            "Compare the first with each of the others, comma-separated. [default: ring and the trees]",
        ),
        "library",
        "library_file",
        "mode",
        DRAWN_RESULT,
        READINGS,
    ],
    public=crossover,
)
def crossover_command(
    fabric: FabricChoice, out: Out, primitive: str = "ar", **arguments: Any
) -> None:
    """Show which algorithm runs at which size, what the library's choice costs, and where two cross.

    Every size at which the faster of two algorithms changes is solved exactly. Without options:
    all-reduce on all of nvl72, ring against the trees.

    Examples:
      colltool crossover
      colltool crossover ar -f nvl72 -n 72
      colltool crossover ar -f dgx-h100 -n 64 --algorithm hierarchical:ring/ring,multi-rail-ring
      colltool crossover a2a -f nvl72 -n 72 --algorithm pairwise,bruck --format json
      colltool crossover ar -f hgx-h200 -n 8 --library vllm@0.24.0
    """
    out.emit(crossover(fabric.load_for(arguments), primitive, **arguments))
