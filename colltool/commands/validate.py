"""Measured logs against a fabric's prices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import colltool
from colltool.base.files import remembering
from colltool.base.primitives import Primitive
from colltool.commands import option_text as values
from colltool.commands import options as o
from colltool.commands.command import command, failed
from colltool.commands.options import FabricChoice, Out, Plots
from colltool.estimate.assumptions import Readings, checked

if TYPE_CHECKING:
    from colltool.commands.logs import Logs
    from colltool.commands.reading import AnyFabric
    from colltool.diagnosis.results import Validation
    from colltool.fabric.own_machine import OwnMachine


@remembering()
def validate(
    fabric: AnyFabric,
    logs: Logs,
    *,
    ranks: int | None = None,
    primitive: Primitive | str | None = None,
    nodes: int | None = None,
    in_place: bool = False,
    algorithms: Sequence[str] | str = (),
    max_mape: float | None = None,
    machine: OwnMachine | None = None,
    readings: Readings | None = None,
    **parts: Any,
) -> Validation:
    """Compare measured times with the prices of a fabric, size by size, and say what the difference
    tells.

    Args:
        fabric: as :func:`price`.
        logs: files of nccl-tests, rccl-tests (text or JSON), OSU micro-benchmarks or CSV; or what
            was read from them.
        ranks, primitive, nodes: for logs that do not say.
        in_place: the in-place half of nccl-tests' tables.
        algorithms: exactly these; when empty what the fabric lists for its library, else what the
            library of the log ships.
        max_mape: up to which mean absolute relative error of each series the result ``holds``; a
            fraction.
        machine, readings, **parts: as :func:`price`.

    Returns:
        A :class:`colltool.diagnosis.results.Validation`; a relative error is predicted/measured -
        1.

    Raises:
        ColltoolError: logs that cannot be read, ranks that the fabric does not hold or places
            elsewhere; says where and what to do instead.
    """
    from colltool.commands import reading as v
    from colltool.commands.logs import measurements_of
    from colltool.diagnosis.validate import validate as run
    from colltool.estimate.groups import as_read

    limit, reading, names = (
        v.fraction_if(max_mape, "max_mape"),
        checked(readings, **parts),
        v.names_of(algorithms),
    )
    read = measurements_of(logs, ranks, primitive, nodes, in_place)
    return run(
        as_read(v.fabric_of(fabric, machine=machine), reading),
        read,
        max_mape=limit,
        readings=reading,
        algorithms=names,
    )


@command(primitive="--collective")
def validate_command(
    logs: o.Logs,
    fabric: FabricChoice,
    ranks: o.LogRanks = None,
    collective: o.Collective = None,
    nodes: o.Nodes = None,
    in_place: o.InPlace = False,
    algorithm: Annotated[
        str | None,
        o.option(
            "algorithms",
            "What ran, comma-separated. [default: whatever the log's library implements]",
        ),
    ] = None,
    max_mape: Annotated[float | None, o.option("max_mape")] = None,
    *,
    out: Annotated[Out, Plots(("time", "busbw"))],
    readings: Readings,
) -> None:
    """Compare measured times with the prices of a fabric, size by size, and say what the
    difference tells.

    Each size is compared with the fastest algorithm that the log's library implements; error =
    predicted/measured - 1.

    Examples:
      colltool validate all_reduce.log -f dgx-h100
      colltool validate osu_allreduce.txt -f my-cluster.yaml -n 64 --max-mape 15%
      colltool validate *.log -f my-cluster.yaml --format json -o validation.json
      colltool validate all_reduce.log -f dgx-h100 --algorithm ring,double-binary-tree --plot validation.svg
    """
    result = colltool.validate(
        fabric.load(),
        logs,
        ranks=ranks,
        primitive=collective,
        nodes=nodes,
        in_place=in_place,
        algorithms=values.names(algorithm),
        max_mape=max_mape,
        readings=readings,
    )
    out.emit(result)
    if not result.holds and result.max_mape is not None:
        from colltool.base.formatting import percent, short_percent

        bar = short_percent(result.max_mape)
        off = {
            one.series.title: percent(one.mape)
            for one in result.series
            if one.mape > result.max_mape
        }
        failed(
            *(
                f"does not hold: {title}: {mape} off on average, more than {bar}"
                for title, mape in off.items()
            )
        )
