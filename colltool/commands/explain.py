"""An algorithm in words, with numbers put in: :func:`explain`, and ``colltool explain``.

A fabric and a size come together or not at all; without them the answer has no numbers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from colltool.base.errors import ColltoolError, argument_text, rename_arguments
from colltool.base.primitives import Primitive
from colltool.commands.command import command
from colltool.commands.options import (
    GROUP,
    MAYBE_FABRIC,
    READINGS,
    RESULT,
    FabricChoice,
    Out,
    option,
)
from colltool.commands.price import remaining_share
from colltool.commands.public_options import Options, with_options

if TYPE_CHECKING:
    from colltool.commands.reading import AnyFabric
    from colltool.estimate.assumptions import ModelOptions
    from colltool.estimate.explain import AlgorithmList, Explanation
    from colltool.fabric.model import Fabric


@with_options
def explain(
    algorithm: str,
    primitive: Primitive | str | None = None,
    *,
    fabric: AnyFabric | None = None,
    size: str | float | None = None,
    ranks: int | None = None,
    slow_rank: float | None = None,
    **options: Unpack[Options],
) -> Explanation:
    """An algorithm in words; with a fabric and a size also in numbers, as :func:`price`, on NCCL
    also with the terms of NCCL's own estimate.

    Args:
        algorithm: by any of its names, or a choice for tiers: ``"hierarchical:ring/ring"``.
        primitive: default: every collective that it computes.
        fabric, size, ranks, slow_rank, **options: as of :func:`price`, of one size.

    Raises:
        ColltoolError: an unknown algorithm, one that cannot run there, half of the numbers, or an
            argument that cannot be used.
    """
    from colltool.commands.reading import primitive_if, size_of, text_of
    from colltool.commands.requests import fabric_of, model_request, under_library
    from colltool.estimate.explain import explain as run
    from colltool.estimate.machine_factor import as_read

    name = text_of(algorithm, "algorithm", "ring")
    model = model_request(ranks, options)
    collective = primitive_if(primitive)
    # with the library of its file, not yet with the requested one
    as_filed = None if fabric is None else fabric_of(fabric, machine=model.machine)
    _refuse_half_of_numbers(as_filed, size, model.library)
    as_priced = None
    if as_filed is not None:
        as_priced = as_read(under_library(as_filed, model.library), model.readings)
    bytes_ = None if size is None else size_of(size)
    # errors of price() are about its algorithms: a caller from Python is told of our "algorithm"
    with rename_arguments("python", algorithms="algorithm"):
        explanation = run(name, collective, as_priced, bytes_, model.group, model.readings)
    # also without a fabric, where it refuses a slow rank
    bandwidth_left = remaining_share(slow_rank, as_priced)
    if as_filed is None or as_priced is None:
        return explanation
    explanation = _with_numbers(explanation, as_priced, bandwidth_left, model.readings)
    if as_priced.library_name == "nccl":
        from colltool.estimate.nccl_estimates import with_estimates

        # what NCCL's estimate lacks is an error only where NCCL was requested, not the file's own
        explanation = with_estimates(explanation, as_priced, required=model.is_other(as_filed))
    return explanation


def _refuse_half_of_numbers(
    fabric: Fabric | None, size: str | float | None, library: str | None
) -> None:
    """Raise ColltoolError for a fabric without a size, a size or a library without a fabric."""
    numbers = f"{argument_text('fabric', 'nvl72')} {argument_text('size', '16MB')}"
    if fabric is None and library is not None:
        raise ColltoolError("needs a fabric and a size", argument="library", fix=f"add {numbers}")
    if (fabric is None) != (size is None):
        raise ColltoolError(
            "numbers need a fabric and a size",
            argument="size" if size is None else "fabric",
            fix=f"add {numbers}, or leave both out",
        )


def _with_numbers(
    explanation: Explanation, fabric: Fabric, bandwidth_left: float | None, readings: ModelOptions
) -> Explanation:
    """An explanation whose prices have intervals, and the cost of a slow rank where one has only the
    share ``bandwidth_left`` of its bandwidth.

    An entry, one per primitive, has its price as ``row``: None where it cannot run there.
    """
    from colltool.estimate.user_price import row_with_accuracy

    group = explanation.group.spec if explanation.group else None
    entries = []
    for entry in explanation.entries:
        row = entry.row
        if row is not None and bandwidth_left is not None:
            from colltool.verification.slow_rank import with_slow_rank

            [row] = with_slow_rank([row], bandwidth_left, fabric, entry.primitive, group, readings)
        if row is not None and group is not None:
            row = row_with_accuracy(row, entry.primitive, fabric, group, readings)
        entries.append(entry._replace(row=row))
    return replace(explanation, entries=tuple(entries))


def list_algorithms(primitive: Primitive | str | None = None) -> AlgorithmList:
    """Every algorithm of a primitive, or of any, with the names that others have for it."""
    from colltool.commands.reading import primitive_if
    from colltool.estimate.explain import list_algorithms as run

    return run(primitive_if(primitive))


@command(
    [
        option(
            "algorithm",
            "Algorithm, by any of its names. [default: list all]",
            flags="",
            metavar="ALGORITHM",
            default=None,
        ),
        option("primitive", "Collective. [default: all]"),
        MAYBE_FABRIC,
        *GROUP,
        option("size", "Bytes per rank.", kind="text"),
        "library",
        "slow_rank",
        RESULT,
        READINGS,
    ],
    public=explain,
)
def explain_command(
    fabric: FabricChoice, out: Out, algorithm: str | None = None, **arguments: Any
) -> None:
    """Explain an algorithm: its formula, source, assumptions and the libraries that implement it, with
    your numbers filled in. Without a name, list all algorithms.

    Examples:
      colltool explain
      colltool explain double-binary-tree
      colltool explain ring ar -f nvl72 -n 72 -M 16MB
      colltool explain hierarchical:ring/ring ar -f nvl72 -n 144 -M 16MB
      colltool explain multi-rail-ring ar -f dgx-h100 -n 64 -M 16MB --library nccl
    """
    if algorithm is None:
        out.emit(list_algorithms(arguments.get("primitive")))
        return
    if fabric.names:
        out.emit(explain(algorithm, fabric=fabric.load(), **arguments))
        return
    # of these, two options have defaults and are always there, the others only if they were typed
    defaults = {"stride": 1, "alone": False}
    group_and_library = {
        argument: arguments[argument] for argument in (*GROUP, "library") if argument in arguments
    }
    # hierarchical:ring/ring is a choice of algorithms for tiers
    if group_and_library != defaults or fabric.overrides or ":" in algorithm:
        options = ", ".join(
            argument_text(name) for name in ("ranks", "stride", "library", "overrides")
        )
        raise ColltoolError(
            f"{options} and a choice of algorithms need a fabric",
            fix=f"add {argument_text('fabric', 'nvl72')} {argument_text('size', '16MB')}",
        )
    out.emit(explain(algorithm, **arguments))
