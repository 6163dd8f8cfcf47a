"""``colltool validate``."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colltool.cli import options as o
from colltool.errors import EXIT_CHECK_FAILED, ColltoolError

if TYPE_CHECKING:
    from colltool.fitting.results import Validation
    from colltool.render.parts import Block

EXAMPLES = """
\b
Examples:
  colltool validate all_reduce.log -f dgx-h100
  colltool validate osu_allreduce.txt -f my-cluster.yaml -n 64 --max-mape 15%
  colltool validate *.log -f my-cluster.yaml --format json -o validation.json
  colltool validate all_reduce.log -f dgx-h100 --algorithm ring,double-binary-tree --plot validation.svg
"""


def validate(
    logs: o.LogsArgument,
    fabric: o.FabricOption,
    ranks: o.LogRanksOption = None,
    collective: o.CollectiveOption = None,
    nodes: o.NodesOption = None,
    in_place: o.InPlaceOption = False,
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            "-a",
            help="What ran, comma-separated. [default: whatever the log's library ships]",
            autocompletion=o.complete_algorithm,
        ),
    ] = None,
    max_mape: Annotated[
        str | None,
        typer.Option("--max-mape", metavar="SHARE", help="Exit 1 where a series is further off on average: 15%, 0.15."),
    ] = None,
    plot: o.PlotOption = None,
    plot_what: o.PlotWhatOption = o.PlotWhat.TIME,
    ideal: o.IdealOption = False,
    set_: o.SetOption = None,
    form: o.FormatOption = None,
    output: o.OutputOption = None,
    pipelining: o.PipeliningOption = "asymptotic",
    phases: o.PhasesOption = None,
    placement: o.PlacementOption = o.Placement.PACKED,
    ring_alpha: o.RingAlphaOption = o.RingAlpha.MEAN,
    tree_beta: o.TreeBetaOption = 2.0,
    order: o.OrderOption = None,
) -> None:
    """Hold measured times against the prices of a fabric, size by size, and say what the difference tells.

    Each size is held against the fastest algorithm that the log's library ships; error = predicted/measured - 1.
    """
    from colltool import api
    from colltool.cli.output import chosen_format, emit

    limit = _share(max_mape)
    o.check_plot(plot, plot_what)
    result = api.validate(
        api.load_fabric(o.one(fabric, "--fabric"), set_ or ()),
        logs,
        ranks=ranks,
        primitive=collective,
        nodes=nodes,
        in_place=in_place,
        algorithms=o.names(algorithm),
        max_mape=limit,
        **o.model(ideal, pipelining, phases, placement, ring_alpha, tree_beta, order),
    )
    if plot is not None:
        from colltool.render.plot import plot_validation

        plot_validation(result, plot, plot_what.value)
    emit(_rendered(result, chosen_format(form, output)), form, output)
    _finish(result)


def _rendered(result: Validation, form: o.Format) -> dict[str, Any] | list[Block]:
    """The document, all points for CSV, or what people read."""
    from colltool.render.validate_blocks import validate_blocks, validate_document, validate_points

    if form is o.Format.JSON:
        return validate_document(result)
    return validate_points(result) if form is o.Format.CSV else validate_blocks(result)


def _finish(result: Validation) -> None:
    """Exit 1 where a series does not hold, and name it."""
    if result.holds or result.max_mape is None:
        return
    from colltool.fitting.sizes import percent

    for one in result.series:
        if one.mape > result.max_mape:
            off = f"{percent(one.mape)} off on average, more than {result.max_mape * 100:.4g}%"
            typer.echo(f"does not hold: {one.series.title}: {off}", err=True)
    raise typer.Exit(EXIT_CHECK_FAILED)


def _share(text: str | None) -> float | None:
    """``15%`` or ``0.15`` as a fraction.

    Raises:
        ColltoolError: no number, not positive, or above 1 without a percent sign.
    """
    if text is None:
        return None
    number, percent, rest = text.strip().partition("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = float("nan")
    if rest or not isfinite(share) or share <= 0:
        raise ColltoolError(f"'{text}' is not a positive share", where="--max-mape", fix="write 15% or 0.15")
    if share > 1 and not percent:
        raise ColltoolError(f"'{text}' is {share:.0%}", where="--max-mape", fix=f"write {number}% if that is what you mean")
    return share
