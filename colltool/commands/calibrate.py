"""A fabric fitted to measured logs: :func:`calibrate` for programs, :func:`calibrate_command` as typed.

The work is in :mod:`colltool.calibration.calibrate`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colltool.base.errors import ColltoolError, argument_text, error_argument
from colltool.base.files import MACHINE_SUFFIX, remembering
from colltool.base.primitives import Primitive
from colltool.commands.command import command
from colltool.commands.logs import devices_of, measurements_of
from colltool.commands.options import (
    FABRIC_SUFFIXES,
    PLOT,
    WIRING,
    FabricChoice,
    Out,
    check_plot,
    option,
    plot_views,
    to_file,
)
from colltool.commands.output import announce, say, write

if TYPE_CHECKING:
    from colltool.calibration.calibrate import Calibration
    from colltool.commands.logs import Logs
    from colltool.commands.reading import AnyPath


# alpha and bandwidth are two numbers: a series of fewer sizes gives rows, but no fit
_FEWEST_SIZES = 2


@remembering()
def calibrate(
    fabric: AnyPath | Mapping[str, Any],
    logs: Logs,
    *,
    overrides: Sequence[str] = (),
    tier: str | None = None,
    algorithms: Sequence[str] | str = (),
    line_rate: str | float | None = None,
    ranks: int | None = None,
    primitive: Primitive | str | None = None,
    nodes: int | None = None,
    in_place: bool = False,
    name: str | None = None,
    machine_only: bool | None = None,
) -> Calibration:
    """Turn measured times into rows for your machine, and into a fabric with fitted launch
    overheads, α and bandwidths.

    The rows are ``machine_text``, a machine file (``NAME.machine.yaml``) for ``machine=`` of
    :func:`price`; one row per series is enough. The fit takes one to three protocols per collective and
    tier.

    Args:
        fabric: path or shipped name; gives the shape, and α where the logs cannot tell it.
        overrides: ``KEY=VALUE`` each, as for :func:`colltool.load_fabric`.
        tier: fit only this tier; default: every tier that is the outermost one of a series.
        algorithms: algorithms that ran; when empty, those that the log's library may have run are
            compared.
        line_rate: write bandwidths as shares of this rate, bytes/s or text with a unit.
        logs, ranks, primitive, nodes, in_place: as :func:`validate`.
        name: name of the new fabric or machine; default: the old name, with ``-calibrated`` for a
            fitted fabric.
        machine_only: write only rows, without a fit; default: if no series has two sizes.

    Returns:
        A :class:`colltool.calibration.calibrate.Calibration`: its ``fabric`` can be priced at once,
        its ``text`` is the file; ``machine`` and ``machine_text`` are the rows, ``next`` is the
        measurement that would narrow prices most.

    Raises:
        ColltoolError: logs or a fabric that cannot be used, logs of other devices, ranks that the
            fabric does not hold, an algorithm that cannot run.
    """
    from colltool.base.formatting import parse_rate
    from colltool.calibration.calibrate import FitRequest, machine_calibration, with_machine
    from colltool.calibration.calibrate import calibrate as fit
    from colltool.calibration.other_hardware import check_hardware
    from colltool.commands.reading import flag_of, names_of, number_of, text_of, wrong
    from colltool.fabric.load import fabric_data, load_fabric

    if not isinstance(fabric, str | os.PathLike | Mapping):
        raise wrong(
            fabric,
            "fabric",
            "a fabric by path, by name or as a mapping",
            f"write {argument_text('fabric', 'dgx-h100')}",
        )
    tier_name = None if tier is None else text_of(tier, "tier", "ib")
    algorithm_names = tuple(names_of(algorithms))
    if line_rate is not None and not isinstance(line_rate, str):
        line_rate = number_of(line_rate, "line_rate")
    with error_argument("line_rate"):
        line_Bps = None if line_rate is None else parse_rate(line_rate)
    request = FitRequest(tier_name, algorithm_names, line_Bps)
    # the fit writes its numbers into the file's data, rows of a machine need the fabric itself
    data = fabric_data(fabric, overrides)
    measurements = measurements_of(logs, ranks, primitive, nodes, in_place)
    new_name = "" if name is None else _file_stem(text_of(name, "name", "measured"))
    loaded = load_fabric(fabric, overrides)
    check_hardware(loaded, devices_of(logs))
    if machine_only is None:
        # the sizes of the longest series; without any series the fit is tried, which says what is wrong
        most_sizes = max(
            (len(series.points) for series in measurements.series), default=_FEWEST_SIZES
        )
        writes_rows_only = most_sizes < _FEWEST_SIZES
    else:
        writes_rows_only = flag_of(machine_only, "machine_only")
    if writes_rows_only:
        return machine_calibration(loaded, measurements, request, new_name or loaded.name)
    fitted = fit(data, measurements, request, new_name or f"{data['name']}-calibrated")
    return with_machine(fitted, loaded, measurements, request, new_name or loaded.name)


def _file_stem(text: str) -> str:
    """The text as the stem of a file: letters, digits, ``_`` and ``-``, others as ``-``; empty for a
    text without a letter or digit."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-_")


@command(
    [
        "logs",
        WIRING,
        option(
            "output",
            "File for the rows; NAME.yaml writes a fitted fabric instead.",
            metavar="NAME.machine.yaml",
        ),
        "tier",
        option(
            "algorithms",
            "Algorithms that ran, comma-separated; auto compares those of the log's library.",
            default="auto",
        ),
        "line_rate",
        "log_ranks",
        "collective",
        "nodes",
        "in_place",
        PLOT,
        plot_views(("time", "busbw")),
        option("form", "Output format. [default: table]"),
        "everything",
    ],
    public=calibrate,
    primitive="--collective",  # what errors call it; most commands take it without an option
)
def calibrate_command(
    fabric: FabricChoice,
    algorithms: list[str],
    plot: Path | None,
    plot_what: str,
    output: Path | None = None,
    format: str | None = None,
    everything: bool = False,
    **arguments: Any,
) -> None:
    """Turn measured times into rows for your machine, which price and the other commands then use
    (NAME.machine.yaml next to NAME.yaml).

    One row per series is enough; three (4 KB, 8 MB, 1 GB) are better, and the output says which
    measurement to make next. -o NAME.yaml fits a whole fabric instead: launch overhead, alpha and
    bandwidth of up to three protocols per tier.

    Examples:
      colltool calibrate all_reduce.log -f my-cluster.yaml -o my-cluster.machine.yaml
      colltool calibrate three.csv -f dgx-h100 -o h100.machine.yaml && colltool price ar -f dgx-h100 --machine h100.machine.yaml
      colltool calibrate all_reduce.log -f dgx-h100 -o measured.yaml
      colltool calibrate logs/*.log -f my-cluster.yaml --tier ib -o measured.yaml --plot fit.svg
      colltool calibrate osu_allreduce.txt -f my-cluster.yaml -n 64 --algorithm ring -o measured.yaml
      colltool calibrate all_gather.log -f dgx-h100 --line-rate 450GB/s -o measured.yaml
    """
    # to_file is None for "-", the terminal, which is refused here: it has no suffix, and the suffix
    # decides what is written
    target = to_file(output) or output
    if target is not None and target.suffix not in FABRIC_SUFFIXES:
        raise ColltoolError(
            f"a fabric file ends in .yaml, got {target}",
            argument="output",
            fix="name it OUT.yaml; what was found goes to the terminal in the format of --format",
        )
    if target is not None:
        arguments["machine_only"] = target.name.endswith(MACHINE_SUFFIX)
        arguments["name"] = target.name.removesuffix(MACHINE_SUFFIX).removesuffix(target.suffix)
    check_plot(plot)
    announce(f"fitting {', '.join(arguments['logs'])} ...")
    result = calibrate(
        fabric.name,
        overrides=fabric.overrides,
        algorithms=() if algorithms == ["auto"] else algorithms,
        **arguments,
    )
    if target is not None:
        _write_definition(result, target, as_rows=arguments["machine_only"])
        result = replace(result, path=str(target))
    Out(format, everything=everything, plot=plot, plot_what=plot_what).emit(result)


def _write_definition(result: Calibration, target: Path, *, as_rows: bool) -> None:
    """Write the machine file, or else the fitted fabric, with a note that rows can be kept instead.

    Args:
        as_rows: whether ``target`` is a machine file, by its suffix.
    """
    if as_rows:
        write(result.machine_text, target)
        return
    instead = f"-o {target.stem}{MACHINE_SUFFIX}"
    say(
        f"note: {target} is a fitted fabric, for one more version; {instead} keeps the rows"
        " themselves"
    )
    write(result.text, target)
