"""Measured logs against a fabric's prices: :func:`validate`, and ``colltool validate``, which exits
with 1 where a limit of the error does not hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from colltool.base.files import remembering
from colltool.base.formatting import percent, short_percent
from colltool.base.primitives import Primitive
from colltool.commands.command import command, failed
from colltool.commands.logs import devices_of, measurements_of
from colltool.commands.options import (
    CHART,
    FABRIC,
    PLOT,
    READINGS,
    FabricChoice,
    Out,
    option,
    plot_views,
    result_options,
)
from colltool.estimate.assumptions import ModelOptions, checked

if TYPE_CHECKING:
    from colltool.commands.logs import Logs
    from colltool.commands.reading import AnyFabric
    from colltool.diagnosis.results import Validation
    from colltool.fabric.custom_machine import CustomMachine


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
    machine: CustomMachine | None = None,
    readings: ModelOptions | None = None,
    **parts: Any,
) -> Validation:
    """Compare measured times with the prices of a fabric, size by size, and say what the difference
    tells.

    Args:
        fabric: as :func:`price`.
        logs: files of nccl-tests, rccl-tests (text or JSON), OSU micro-benchmarks or CSV; or what
            was read from them.
        ranks, primitive, nodes: for logs that do not state them.
        in_place: use the in-place columns of nccl-tests.
        algorithms: algorithms that ran; when empty, those that the fabric lists for its library,
            else those of the log's library.
        max_mape: the result ``holds`` if the mean absolute relative error of each series is at most
            this fraction.
        machine, readings, **parts: as :func:`price`.

    Returns:
        A :class:`colltool.diagnosis.results.Validation`; a relative error is predicted/measured -
        1.

    Raises:
        ColltoolError: logs that cannot be read, or ranks that the fabric does not hold, or would place
            on other numbers of nodes than the log says; says where and what to do instead.
    """
    from colltool.commands.reading import fraction_if, names_of
    from colltool.commands.requests import fabric_of
    from colltool.diagnosis.machines import hardware_note
    from colltool.diagnosis.validate import validate as run
    from colltool.estimate.machine_factor import as_read

    limit = fraction_if(max_mape, "max_mape")
    model = checked(readings, **parts)
    names = names_of(algorithms)
    measured = measurements_of(logs, ranks, primitive, nodes, in_place)
    # without the measured rows of its machine where the options ask for none
    loaded = as_read(fabric_of(fabric, machine=machine), model)
    validation = run(loaded, measured, max_mape=limit, readings=model, algorithms=names)
    devices = devices_of(logs)
    return replace(validation, devices=devices, other_hardware=hardware_note(loaded, devices))


@command(
    [
        "logs",
        FABRIC,
        "log_ranks",
        "collective",
        "nodes",
        "in_place",
        option(
            "algorithms",
            "Algorithms that ran, comma-separated. [default: those of the log's library]",
        ),
        "max_mape",
        result_options(PLOT, plot_views(("time", "busbw")), CHART),
        READINGS,
    ],
    public=validate,
    primitive="--collective",
)
def validate_command(fabric: FabricChoice, out: Out, **arguments: Any) -> None:
    """Compare measured times with the prices of a fabric, size by size, and explain the difference.

    Each size is compared with the fastest algorithm that the log's library implements. Error is
    predicted/measured - 1.

    Examples:
      colltool validate all_reduce.log -f dgx-h100
      colltool validate osu_allreduce.txt -f my-cluster.yaml -n 64 --max-mape 15%
      colltool validate *.log -f my-cluster.yaml --format json -o validation.json
      colltool validate all_reduce.log -f dgx-h100 --algorithm ring,double-binary-tree --plot validation.svg
    """
    result = validate(fabric.load(), **arguments)
    out.emit(result)
    if result.max_mape is None or result.holds:
        return
    limit = short_percent(result.max_mape)
    # the line of each title: of several runs of a series, the last one's
    beyond = {}
    for fit in result.series:
        if fit.mape > result.max_mape:
            beyond[fit.series.title] = (
                f"does not hold: {fit.series.title}: {percent(fit.mape)} off on average, more than"
                f" {limit}"
            )
    failed(*beyond.values())
