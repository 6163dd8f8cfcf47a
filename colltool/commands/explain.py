"""An algorithm in words, with numbers put in."""

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
    with its own parts."""
    from colltool.commands.reading import primitive_if, size_of, text_of
    from colltool.commands.requests import fabric_of, model_request, under_library
    from colltool.estimate.explain import explain as run
    from colltool.estimate.machine_factor import as_read

    name = text_of(algorithm, "algorithm", "ring")
    model = model_request(ranks, options)
    collective = primitive_if(primitive)
    # the file's own library, and the one that was requested
    as_filed = None if fabric is None else fabric_of(fabric, machine=model.machine)
    _refuse_half_of_numbers(as_filed, size, model.library)
    loaded = None
    if as_filed is not None:
        loaded = as_read(under_library(as_filed, model.library), model.readings)
    bytes_ = None if size is None else size_of(size)
    # price() calls the argument algorithms, an explanation takes one
    with rename_arguments("python", algorithms="algorithm"):
        explanation = run(name, collective, loaded, bytes_, model.group, model.readings)
    share = remaining_share(slow_rank, loaded)
    if as_filed is None or loaded is None:
        return explanation
    explanation = _with_numbers(explanation, loaded, share, model.readings)
    if loaded.library_name == "nccl":
        from colltool.estimate.nccl_estimates import with_estimates

        explanation = with_estimates(explanation, loaded, required=model.is_other(as_filed))
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
    explanation: Explanation, fabric: Fabric, share: float | None, readings: ModelOptions
) -> Explanation:
    """An explanation whose rows have intervals and, with a ``share``, the cost of a slow rank."""
    from colltool.estimate.user_price import row_with_accuracy

    group = explanation.group.spec if explanation.group else None
    entries = []
    for entry in explanation.entries:
        row = entry.row
        if row is not None and share is not None:
            from colltool.verification.slow_rank import with_slow_rank

            [row] = with_slow_rank([row], share, fabric, entry.primitive, group, readings)
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
    # options with a default always have a value
    not_given = {"stride": 1, "alone": False}
    of_fabric = {
        argument: arguments[argument] for argument in (*GROUP, "library") if argument in arguments
    }
    # hierarchical:ring/ring is a choice of algorithms for tiers
    if of_fabric != not_given or fabric.overrides or ":" in algorithm:
        options = ", ".join(
            argument_text(name) for name in ("ranks", "stride", "library", "overrides")
        )
        raise ColltoolError(
            f"{options} and a choice of algorithms need a fabric",
            fix=f"add {argument_text('fabric', 'nvl72')} {argument_text('size', '16MB')}",
        )
    out.emit(explain(algorithm, **arguments))
