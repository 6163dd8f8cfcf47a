"""The report: a page about a fabric, drawn, priced, compared and measured.

Its sections are made in :mod:`colltool.commands.report_sections`, its arguments are read in
:mod:`colltool.commands.report_page` and :mod:`colltool.commands.report_prices`, and its HTML is in
:mod:`colltool.render.page`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from colltool.base.errors import ColltoolError, argument_text, rename_arguments, rename_for_both
from colltool.base.files import remembering
from colltool.base.primitives import Primitive
from colltool.base.result import with_progress
from colltool.commands.command import command
from colltool.commands.options import FABRIC, READINGS, RESULT, FabricChoice, Out, option
from colltool.commands.output import announce, chosen_format, enable_garbage_collection
from colltool.commands.public_options import AnyShape
from colltool.commands.report_page import Page, deployment_of, page_columns, typed_path
from colltool.commands.report_prices import page_prices
from colltool.commands.report_sections import (
    assumptions_section,
    collective_section,
    measured_section,
    network_section,
    serving_section,
    step_section,
)
from colltool.estimate.assumptions import ModelOptions, checked

if TYPE_CHECKING:
    from colltool.analysis.report import Report, ReportSection
    from colltool.commands.reading import AnyFabric, AnyPath
    from colltool.definitions.overrides import Overrides
    from colltool.fabric.custom_machine import CustomMachine
    from colltool.training.job import Job


# collectives of a page by default: those of data, sharded and expert parallelism
PRIMITIVES = ("ar", "ag", "a2a")


@remembering()
def report(
    fabric: AnyFabric,
    *,
    against: AnyFabric | Sequence[AnyFabric] = (),
    vary: Sequence[str] | str = (),
    job: Job | AnyPath | Mapping[str, Any] | None = None,
    logs: AnyPath | Sequence[AnyPath] = (),
    collective: Primitive | str | None = None,
    nodes: int | None = None,
    in_place: bool = False,
    ranks: int | None = None,
    shape: AnyShape | None = None,
    size: str | float = "64MB",
    primitives: Primitive | str | Sequence[Primitive | str] = PRIMITIVES,
    overrides: Overrides = (),
    job_overrides: Overrides = (),
    serve: Job | AnyPath | Mapping[str, Any] | None = None,
    serve_options: Overrides = (),
    price: Overrides = (),
    library: str | None = None,
    machine: CustomMachine | None = None,
    readings: ModelOptions | None = None,
    **parts: Any,
) -> Report:
    """A fabric on one page: what it is, what collectives and a job cost on it, and what was
    measured.

    Args:
        fabric: what the page is about: a fabric, or a path, shipped name or mapping to load.
        against: fabrics that it is compared with.
        vary: keys with their values, as in :func:`colltool.compare`: a column for each; the first
            is what the page is about.
        job: a job, or a path, shipped name or mapping to load: its step on each fabric.
        logs: of nccl-tests, rccl-tests, OSU micro-benchmarks, or traces of the PyTorch profiler.
        collective, nodes, in_place: of logs that do not say, as in :func:`colltool.doctor`, where
            the first is ``primitive``.
        ranks: N of the reference point, of the job, and of logs that do not say; all of the
            smallest fabric when None.
        shape, size: slice, and bytes per rank, of the reference point, as in
            :func:`colltool.price`.
        primitives: one or several, by short or long name.
        overrides: as in :func:`colltool.load_fabric`, on every fabric.
        job_overrides: as in :func:`colltool.load_job`, on a job that is not loaded.
        serve: a model or job that is served, as in :func:`colltool.serve`: a section on it.
            serve_options: its arguments there, such as ``{"ep": 64, "batch": 8192}``, a mapping or
            ``KEY=VALUE``.
        price: of each GPU (``gpu``) and what the key ``prices`` of a fabric holds (``switch``,
            ``cable``, ``optic``, ``nic``, ``currency`` ...), a mapping or ``KEY=VALUE``;
            ``FABRIC:KEY`` for one fabric alone. Default: each fabric's own ``prices``.
        library: library that runs the collectives; default: each fabric's own.
        machine: as :func:`colltool.price`, on every fabric.
        readings, **parts: options of the model, all together or one by one by name.

    Returns:
        A :class:`colltool.analysis.report.Report`: every result with the command line that gives
        it; ``to_html()`` is the page.

    Raises:
        ColltoolError: as the functions that it is made of.
    """
    from colltool.analysis.report import Report
    from colltool.commands.reading import (
        count_if,
        is_nothing,
        primitive_of,
        shape_of,
        size_of,
        vary_of,
    )
    from colltool.commands.several_fabrics import several_of

    with rename_for_both(fabrics="against", fabric="against"):
        fabrics = [fabric, *([] if is_nothing(against) else several_of(against))]
    several: Any = primitives if isinstance(primitives, list | tuple) else [primitives]
    page = Page(
        columns=page_columns(fabrics, vary, overrides, library, machine),
        fabrics=fabrics,
        vary=vary_of(vary),
        overrides=overrides,
        primitives=[primitive_of(primitive) for primitive in several],
        ranks=count_if(ranks, "ranks"),
        size=size_of(size),
        library=library,
        machine=machine,
        readings=checked(readings, **parts),
        shape=shape_of(shape),
    )
    _refuse_repeated(page.primitives)
    prices = page_prices(price, page.columns)
    deployment = deployment_of(serve, serve_options)
    loaded_job = _loaded_job(job, job_overrides)
    # mistakes in logs are reported before the long work of pricing
    measured = _measured_sections(page, logs, collective, nodes, in_place)
    # a section each, so that the terminal shows how far the page is; the job shows its own progress
    makers: list[Callable[[], ReportSection]] = [partial(network_section, page)]
    makers += [partial(collective_section, page, primitive) for primitive in page.primitives]
    sections = [make() for make in with_progress(makers)]
    if loaded_job:
        sections.append(step_section(page, loaded_job, typed_path(job)))
    if serve is not None:
        sections.append(serving_section(page, serve, deployment))
    sections += [*measured, assumptions_section(page)]
    return Report(
        fabrics=tuple(column.file for column in page.columns),
        titles=tuple(column.title for column in page.columns),
        ranks=page.reference_ranks,
        bytes=page.size,
        sections=tuple(sections),
        prices=prices,
    )


def _measured_sections(
    page: Page, logs: Any, collective: Any, nodes: int | None, in_place: bool
) -> list[ReportSection]:
    """The section of the measurements, in a list; an empty one without logs, whose arguments are
    checked all the same."""
    from colltool.commands.reading import count_if, flag_of, is_nothing, paths_of, primitive_if

    files = [] if is_nothing(logs) else paths_of(logs, "logs", "logs", "all_reduce.log")
    with rename_arguments("python", primitive="collective"):
        hints = {
            "primitive": primitive_if(collective),
            "nodes": count_if(nodes, "nodes", least=1),
            "in_place": flag_of(in_place, "in_place"),
        }
        if not files:
            return []
        return [measured_section(page, [os.fspath(file) for file in files], hints)]


def _refuse_repeated(primitives: Sequence[Primitive]) -> None:
    """Raise ColltoolError for a collective that is named twice."""
    for position, primitive in enumerate(primitives):
        if primitive in primitives[:position]:
            raise ColltoolError(
                f"{primitive.label} stands twice", argument="primitives", fix="name each once"
            )


def _loaded_job(job: Any, overrides: Overrides) -> Job | None:
    """The job of the page: as it is if it is loaded, else loaded with the overrides; None without one.

    Raises:
        ColltoolError: overrides without a job, or what cannot be loaded.
    """
    from colltool.commands.reading import is_nothing
    from colltool.training.job import Job, load_job

    if job is None and not is_nothing(overrides):
        raise ColltoolError(
            "requires a job",
            argument="job_overrides",
            fix=f"add {argument_text('job', 'llama3-70b')}",
        )
    if job is None or isinstance(job, Job):
        return job
    return load_job(job, overrides, argument="job_overrides")


@command(
    [
        FABRIC,
        option("logs", "Logs and traces, like --log.", python="more", default=None),
        option(
            "fabric", "Fabric to compare with (repeatable).", flags="--against", python="against"
        ),
        option("vary", "Values to compare; the page is about the first (repeatable)."),
        "job",
        "job_overrides",
        "page_serve",
        "serve_options",
        "page_price",
        option(
            "logs",
            "Measurements: benchmark logs or traces (repeatable).",
            flags="--log",
            metavar="LOG",
        ),
        option("collective", python="collective"),
        "nodes",
        "in_place",
        "page_ranks",
        "shape",
        option("size", "Bytes per rank of the reference point, as in nccl-tests."),
        option("primitives", default="ar,ag,a2a"),
        "library",
        RESULT,
        READINGS,
    ],
    public=report,
    logs="--log",
    primitive="--collective",
)
def report_command(
    fabric: FabricChoice,
    out: Out,
    primitives: str,
    more: list[str] | None = None,
    logs: list[str] | None = None,
    against: list[str] | None = None,
    **arguments: Any,
) -> None:
    """Write a page for a decision: the verdict, cost and risk of a fabric, compared with others, with
    a job, a served model or measurements where given.

    With -o report.html it is one file for a screen, a phone or paper, which needs no network and no
    extra package. Without -o the terminal shows its sentences and the commands behind them.

    Examples:
      colltool report -f dgx-h100 -o report.html
      colltool report -f dgx-h100 --against dgx-b200 --job llama3-70b -n 256 -o report.html
      colltool report -f nvl72 -f dgx-b200:nodes=144 -n 1152 --price gpu=35000 --price switch=20000
      colltool report -f dgx-h100 --vary ib.levels.spine.oversubscription=1,4 --set ib.size=64 --job llama3-70b -o report.html
      colltool report -f dgx-h100 --serve deepseek-v3 --serve-set ep=64 --serve-set weights=fp8 -o report.html
      colltool report -f my-cluster.yaml -p ar,a2a -n 144 -M 1GB
      colltool report -f dgx-h100 --log all_reduce.log -o report.html
    """
    if chosen_format(out.form, out.path) == "html":
        from colltool.render.column_choice import without_columns

        without_columns(out.columns or "")
    # a page takes seconds to minutes: check first what would stop it at the end
    if out.path is not None and not os.path.isdir(out.path.parent):
        raise ColltoolError(
            f"cannot write {out.path}: no such folder",
            argument="output",
            fix=f"create it: mkdir -p {out.path.parent}",
        )
    enable_garbage_collection()
    announce("pricing the page ...")
    first, *others = fabric.several
    result = report(
        first,
        against=[*others, *(against or ())],
        logs=[*(logs or ()), *(more or ())],
        primitives=[name.strip() for name in primitives.split(",")],
        overrides=fabric.overrides,
        machine=fabric.machine,
        **arguments,
    )
    out.emit(result)
