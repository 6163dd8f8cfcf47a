"""An algorithm in words, with numbers put in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from colltool.base.errors import ColltoolError, called, given
from colltool.base.primitives import Primitive
from colltool.commands.arguments import Options, with_options
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

if TYPE_CHECKING:
    from colltool.commands.reading import AnyFabric
    from colltool.estimate.explain import Explanation


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
    from colltool.commands.price import share_left
    from colltool.commands.reading import primitive_of, size_of, text_of
    from colltool.commands.requests import fabric_of, model_request, under_library
    from colltool.estimate.explain import explain as run
    from colltool.estimate.groups import as_read

    name = text_of(algorithm, "algorithm", "ring")
    asked = model_request(ranks, options)
    wanted = None if primitive is None else primitive_of(primitive)
    own = None if fabric is None else fabric_of(fabric, machine=asked.machine)
    numbers = f"{given('fabric', 'nvl72')} {given('size', '16MB')}"
    if own is None and asked.library is not None:
        raise ColltoolError("needs a fabric and a size", argument="library", fix=f"add {numbers}")
    if (own is None) != (size is None):
        fix = f"add {numbers}, or leave both out"
        raise ColltoolError(
            "numbers need a fabric and a size",
            argument="size" if size is None else "fabric",
            fix=fix,
        )
    loaded = None if own is None else as_read(under_library(own, asked.library), asked.readings)
    with called("python", algorithms="algorithm"):
        found = run(
            name,
            wanted,
            loaded,
            None if size is None else size_of(size),
            asked.group,
            asked.readings,
        )
    share = share_left(slow_rank, loaded)
    if own is None or loaded is None:
        return found
    if share is not None:
        from colltool.verification.slow_rank import with_slow_rank

        who = found.group.spec if found.group else None
        slow = [
            one.row
            and with_slow_rank([one.row], share, loaded, one.primitive, who, asked.readings)[0]
            for one in found.entries
        ]
        found = replace(
            found,
            entries=tuple(
                one._replace(row=row) for one, row in zip(found.entries, slow, strict=True)
            ),
        )
    if found.group is not None:
        from colltool.estimate.user_price import judged_row

        who = found.group.spec
        rows = (
            one.row and judged_row(one.row, one.primitive, loaded, who, asked.readings)
            for one in found.entries
        )
        found = replace(
            found,
            entries=tuple(
                one._replace(row=row) for one, row in zip(found.entries, rows, strict=True)
            ),
        )
    if loaded.library_name == "nccl":
        from colltool.estimate.library_pick import with_estimates

        found = with_estimates(found, loaded, asked=asked.is_other(own))
    return found


@command(
    [
        option("algorithm", "As price names it.", flags="", metavar="ALGORITHM"),
        option("primitive", "One primitive. [default: all]"),
        MAYBE_FABRIC,
        *GROUP,
        option("size", "Bytes per rank.", kind="text"),
        "library",
        "slow_rank",
        RESULT,
        READINGS,
    ],
    of=explain,
)
def explain_command(algorithm: str, fabric: FabricChoice, out: Out, **arguments: Any) -> None:
    """An algorithm's formula, where it comes from, what it assumes and which libraries implement
    it, with your numbers put in.

    Examples:
      colltool explain double-binary-tree
      colltool explain ring ar -f nvl72 -n 72 -M 16MB
      colltool explain hierarchical:ring/ring ar -f nvl72 -n 144 -M 16MB
      colltool explain multi-rail-ring ar -f dgx-h100 -n 64 -M 16MB --library nccl
    """
    if fabric.names:
        out.emit(explain(algorithm, fabric=fabric.load(), **arguments))
        return
    # stride and alone have values also where nobody said them
    unasked = {"stride": 1, "alone": False}
    about_group = {name: arguments[name] for name in (*GROUP, "library") if name in arguments}
    if about_group != unasked or fabric.overrides or ":" in algorithm:
        options = ", ".join(given(name) for name in ("ranks", "stride", "library", "overrides"))
        what = f"{options} and a choice of algorithms need a fabric"
        raise ColltoolError(what, fix=f"add {given('fabric', 'nvl72')} {given('size', '16MB')}")
    out.emit(explain(algorithm, **arguments))
