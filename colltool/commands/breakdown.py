"""Where the time of one schedule goes: :func:`breakdown`, and ``colltool breakdown``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from colltool.base.errors import rename_arguments
from colltool.base.primitives import Primitive
from colltool.commands.command import command
from colltool.commands.options import (
    DRAWN_RESULT,
    FABRIC,
    GROUP,
    READINGS,
    FabricChoice,
    Out,
    option,
)
from colltool.commands.public_options import Options, with_options

if TYPE_CHECKING:
    from colltool.commands.reading import AnyFabric
    from colltool.commands.requests import Request
    from colltool.estimate.results import Breakdown


@with_options
def breakdown(
    fabric: AnyFabric,
    primitive: Primitive | str,
    *,
    size: str | float,
    ranks: int | None = None,
    algorithm: str | None = None,
    slow_rank: float | None = None,
    **options: Unpack[Options],
) -> Breakdown:
    """The phases of ``algorithm``; by default of what the library picks, else of the fastest one; next
    to the flat algorithms (``baselines``).

    Arguments are those of :func:`price`.

    Raises:
        ColltoolError: as :func:`price`.
    """
    from colltool.analysis.gains import gains
    from colltool.analysis.inert import SchedulePrice
    from colltool.commands.price import with_inert_keys, with_slow_rank_cost
    from colltool.commands.reading import size_of, text_of
    from colltool.commands.requests import price_request
    from colltool.estimate.breakdown import breakdown as run
    from colltool.estimate.user_price import with_accuracy

    name = None if algorithm is None else text_of(algorithm, "algorithm", "ring")
    request = price_request(fabric, primitive, ranks, options)
    bytes_ = size_of(size)
    # without a pick the name stays None: the fastest
    if name is None:
        name = _picked(request, bytes_)
    # errors of price() are about its algorithms: a caller from Python is told of our "algorithm"
    with rename_arguments("python", algorithms="algorithm"):
        result = run(
            request.fabric, request.primitive, bytes_, request.group, request.readings, name
        )
    # as price shows them: with intervals, and with the overrides that do not move them. The baselines
    # go the same way, as the rows of a price of their own.
    price = with_accuracy(result.price, request.fabric, request.group, request.readings)
    price = with_inert_keys(price, request)
    baselines = replace(result.price, results=result.baselines)
    baselines = with_accuracy(baselines, request.fabric, request.group, request.readings)
    # gains are of the schedule before a slow rank delays it
    schedule = SchedulePrice(
        request.primitive, bytes_, request.group, request.readings, price.results[0]
    )
    price, baselines = with_slow_rank_cost((price, baselines), request, slow_rank)
    return replace(
        result,
        price=price,
        baselines=baselines.results,
        gains=gains(request.fabric, schedule),
    )


def _picked(request: Request, size: float) -> str | None:
    """The spec of the schedule that NCCL picks at a size; None where it picks none that is priced, and
    for other libraries."""
    if request.fabric.library_name != "nccl":
        return None
    from colltool.estimate.library_pick import picked_at

    picks = picked_at(request.fabric, request.group, request.primitive, [size])
    if not picks:
        return None
    # empty for an algorithm that colltool does not price
    return picks[0].spec or None


@command(
    [
        "primitive",
        FABRIC,
        "size",
        *GROUP,
        option(
            "algorithm",
            "Algorithm to break down. [default: what the library runs]",
            kind="single",
        ),
        "library",
        "slow_rank",
        DRAWN_RESULT,
        READINGS,
    ],
    public=breakdown,
)
def breakdown_command(fabric: FabricChoice, out: Out, **arguments: Any) -> None:
    """Show where the time of one algorithm goes: each phase, the launch and the library's overhead.

    Breaks down what the library runs, or the algorithm given by --algorithm; --all adds the flat
    algorithms.

    Examples:
      colltool breakdown ar -f nvl72 -n 144 -M 16MB
      colltool breakdown ar -f dgx-h100 -n 64 -M 1GB --algorithm hierarchical:ring/ring
      colltool breakdown ag -f tpu-v4-512 -M 64MB --algorithm dim-ring
    """
    out.emit(breakdown(fabric.load_for(arguments), **arguments))
