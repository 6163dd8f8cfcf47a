"""The sections of a report, a function each: the network, a collective, a job's step, a served model,
measurements, and what the numbers rest on.

:func:`colltool.report` calls them in that order, with a :class:`colltool.commands.report_page.Page`.
Each calls the public functions that a reader could call, and keeps with every result (an
:class:`colltool.analysis.report.Exhibit`) the command line that gives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import colltool
from colltool.base.errors import ColltoolError, rename_arguments
from colltool.base.formatting import format_size, shape_text
from colltool.base.primitives import SHORT, Primitive
from colltool.commands.report_page import Page, common_counts, typed_path

if TYPE_CHECKING:
    from colltool.analysis.report import Exhibit, ReportSection
    from colltool.fabric.model import Fabric
    from colltool.training.job import Job

# sizes of curves and maps: a factor of four apart, from latency-bound to bandwidth-bound
CURVE_SIZES = (
    "1KB",
    "4KB",
    "16KB",
    "64KB",
    "256KB",
    "1MB",
    "4MB",
    "16MB",
    "64MB",
    "256MB",
    "1GB",
    "4GB",
)
# rank counts in one picture: a line each
MAX_LINES = 6


def network_section(page: Page) -> ReportSection:
    """What each fabric is, with the commands that show it and draw it."""
    from colltool.analysis.report import Exhibit, ReportSection
    from colltool.fabric.properties import fabric_facts
    from colltool.fabric.results import FabricShown

    entries = []
    for number, column in enumerate(page.columns, 1):
        picture = column.file.name
        if len(page.columns) > 1:
            picture = f"{picture}-{number}"
        lines = column.line("fabric show") + column.line("fabric draw", output=f"{picture}.svg")
        facts = FabricShown(column.file, fabric_facts(column.file))
        entries.append(Exhibit(column.title, facts, lines))
    return ReportSection("network", "The network", tuple(entries))


def collective_section(page: Page, primitive: Primitive) -> ReportSection:
    """A collective: over sizes and ranks, at the reference point, and against the other fabrics."""
    from colltool.analysis.report import ReportSection
    from colltool.estimate.groups import by_links, place
    from colltool.estimate.placement import GroupSpec

    entries = [*_grid_entries(page, primitive), *_reference_entries(page, primitive)]
    group = place(page.first.fabric, GroupSpec(page.reference_ranks, shape=page.shape))
    # sensitivity does not support groups that are priced link by link
    if not by_links(group):
        entries.append(_sensitivity_entry(page, primitive))
    if len(page.columns) > 1:
        entries.append(_comparison_entry(page, primitive))
    return ReportSection(SHORT[primitive], primitive.label.capitalize(), tuple(entries))


def _grid_entries(page: Page, primitive: Primitive) -> list[Exhibit]:
    """Bus bandwidth as curves, and a table of the fastest schedules, over sizes and ranks."""
    from colltool.analysis.report import Exhibit

    short = SHORT[primitive]
    fabric = page.first.fabric
    counts = evenly_spaced(counts_of([fabric], page.reference_ranks), MAX_LINES)
    swept = colltool.sweep(
        fabric, primitive, ranks=counts, sizes=CURVE_SIZES, readings=page.readings
    )
    grid: dict[str, Any] = {
        "ranks": _listed(counts),
        "size": _listed(CURVE_SIZES),
        "rows": "bytes",
        "cols": "ranks",
    }
    return [
        Exhibit(
            "Bus bandwidth by size and ranks",
            swept.pivoted("busbw", "bytes", "ranks"),
            page.line("sweep", short, **grid, pivot="busbw"),
            "busbw",
        ),
        Exhibit(
            "The fastest schedule by size and ranks",
            swept.pivoted("algorithm", "bytes", "ranks"),
            page.line("sweep", short, **grid, pivot="algorithm"),
            view=None,
        ),
    ]


def _group_arguments(page: Page) -> dict[str, Any]:
    """The group of the reference point, as keyword arguments of public functions."""
    return {"ranks": page.reference_ranks, "shape": page.shape, "readings": page.readings}


def _group_options(page: Page) -> dict[str, Any]:
    """The group of the reference point, as options of commands; :meth:`Page.line` adds the readings."""
    return {"ranks": page.reference_ranks, "shape": page.shape and shape_text(page.shape)}


def _reference_entries(page: Page, primitive: Primitive) -> list[Exhibit]:
    """The crossovers of the group of the reference point, and where the winner's time goes there."""
    from colltool.analysis.report import Exhibit

    short = SHORT[primitive]
    fabric = page.first.fabric
    size = format_size(page.size)
    group = _group_arguments(page)
    options = _group_options(page)
    return [
        Exhibit(
            f"Where the winner changes, {page.reference_ranks} ranks",
            colltool.crossover(fabric, primitive, **group),
            page.line("crossover", short, **options),
            view=None,
        ),
        Exhibit(
            f"Where the time goes, {page.reference_ranks} ranks, {size}",
            colltool.breakdown(fabric, primitive, size=page.size, **group),
            page.line("breakdown", short, **options, size=size),
            view=None,
        ),
    ]


def _sensitivity_entry(page: Page, primitive: Primitive) -> Exhibit:
    """Whether the winner of the reference point stays the winner if numbers are off."""
    from colltool.analysis.report import Exhibit

    size = format_size(page.size)
    line = page.line("sensitivity", SHORT[primitive], **_group_options(page), size=size)
    title = f"Whether the choice is safe, {page.reference_ranks} ranks, {size}"
    spread = colltool.sensitivity(
        page.first.fabric, primitive, size=page.size, **_group_arguments(page)
    )
    return Exhibit(title, spread, line, view=None)


def _comparison_entry(page: Page, primitive: Primitive) -> Exhibit:
    """All fabrics side by side, at the sizes of the curves and of the reference point."""
    from colltool.analysis.report import Exhibit
    from colltool.commands.reading import size_of

    sizes = [format_size(size) for size in sorted({page.size, *map(size_of, CURVE_SIZES)})]
    compared = colltool.compare(
        page.fabrics,
        primitive,
        ranks=page.reference_ranks,
        sizes=sizes,
        vary=page.vary,
        overrides=page.overrides,
        library=page.library,
        machine=page.machine,
        readings=page.readings,
    )
    options = {"ranks": page.reference_ranks, "size": _listed(sizes)}
    line = page.side_by_side("compare", SHORT[primitive], **options)
    return Exhibit("Side by side", compared, line)


def step_section(page: Page, job: Job, typed: str) -> ReportSection:
    """A job's step on the fabric, and on the others.

    Args:
        typed: the job's file or name as the user wrote it; empty for a job object.
    """
    from colltool.analysis.report import Exhibit, ReportSection

    fabrics = [column.fabric for column in page.columns]
    plans = None
    if len(fabrics) > 1:
        plans = colltool.compare_plans(job, fabrics, page.ranks, readings=page.readings)
        plan = plans.plans[0]
    else:
        plan = colltool.plan(job, page.first.fabric, page.ranks, readings=page.readings)
    options: dict[str, Any] = {
        # of several fabrics all run as many ranks, which plan on the first alone would not choose
        "ranks": plan.ranks if plans else page.ranks,
        "job_overrides": [f"{key}={value}" for key, value in job.overrides],
    }
    title = f"A step on {page.first.title}"
    entries = [Exhibit(title, plan, page.line("plan", typed, **options), view=None)]
    if plans:
        # plan --vary is a sensitivity, not a comparison of values: a command for each column
        lines_of = page.line_on_each if page.vary else page.side_by_side
        lines = lines_of("plan", typed, **options)
        entries.append(Exhibit("The step on each", plans, lines, view=None))
    return ReportSection("job", f"The job {job.name}", tuple(entries))


def serving_section(page: Page, job: Any, deployment: dict[str, Any]) -> ReportSection:
    """A served model on the fabric, and on the others.

    Args:
        job: the model or job, as :func:`colltool.serve` takes it.
        deployment: further arguments of :func:`colltool.serve`.
    """
    from colltool.analysis.report import Exhibit, ReportSection
    from colltool.estimate.assumptions import ModelOptions
    from colltool.serving.results import Served

    typed = typed_path(job)
    # serve has no library and no readings: it takes the fabric's own library
    lines_page = page._replace(library=None, readings=ModelOptions())
    options: dict[str, Any] = {}
    for name, value in deployment.items():
        # a flag that is off is not written
        options[name] = value if value is not False else None
    with rename_arguments("python", **dict.fromkeys(deployment, "serve_options")):
        served = colltool.serve(job, page.first.file, **deployment)
        # one fabric, no search and no ranges
        assert isinstance(served, Served)
        title = f"Serving on {page.first.title}"
        line = lines_page.line("serve", typed, **options)
        entries = [Exhibit(title, served, line, view=None)]
        if len(page.columns) > 1:
            fabrics = [column.file for column in page.columns]
            on_all = colltool.serve(job, fabrics, **deployment)
            lines = lines_page.line_on_each("serve", typed, **options)
            entries.append(Exhibit("Serving on each", on_all, lines, view=None))
    return ReportSection("serving", f"Serving {served.job}", tuple(entries))


def measured_section(page: Page, logs: Sequence[str], hints: dict[str, Any]) -> ReportSection:
    """Measurements against expectations: benchmark logs together, then traces.

    Args:
        hints: ``primitive``, ``nodes`` and ``in_place`` for logs that do not say them.
    """
    from colltool.analysis.report import Exhibit, ReportSection
    from colltool.logs.pytorch_trace import is_trace

    traces = [log for log in logs if is_trace(log)]
    benchmarks = [log for log in logs if log not in traces]
    entries = []
    if benchmarks:
        entries.append(_benchmarks_entry(page, benchmarks, hints))
    if traces:
        traced = colltool.trace(page.first.fabric, traces, readings=page.readings)
        entries.append(Exhibit("What a job measured", traced, page.line("trace", *traces)))
    return ReportSection("measured", "Measured against expected", tuple(entries))


def _benchmarks_entry(page: Page, logs: list[str], hints: dict[str, Any]) -> Exhibit:
    """What the benchmark logs show, as ``doctor`` reads them; ranks as the page's where they do not
    say how many."""
    from colltool.analysis.report import Exhibit

    ranks = None
    if page.ranks and _lack_ranks(logs, hints):
        ranks = page.ranks
    diagnosis = colltool.doctor(logs, page.first.file, readings=page.readings, ranks=ranks, **hints)
    options = {
        "collective": hints["primitive"],
        "nodes": hints["nodes"],
        "in_place": hints["in_place"] or None,
        "ranks": ranks,
    }
    # doctor has no library: logs say which one ran
    line = page._replace(library=None).line("doctor", *logs, **options)
    return Exhibit("What benchmarks measured", diagnosis, line)


def _lack_ranks(logs: list[str], hints: dict[str, Any]) -> bool:
    """Whether a log does not say how many ranks ran; other errors are left to ``doctor``."""
    from colltool.logs.busbw_ratio import RanksNotStated
    from colltool.logs.read import read_logs

    try:
        read_logs(logs, **hints)
    except ColltoolError as error:
        return isinstance(error, RanksNotStated)
    return False


def assumptions_section(page: Page) -> ReportSection:
    """The numbers behind the prices with their sources; of other fabrics only what differs."""
    from colltool.analysis.report import Assumptions, Exhibit, ReportSection
    from colltool.fabric.provenance import provenance

    numbers_of_first = provenance(page.first.file)
    entries = []
    for column in page.columns:
        title = column.title
        numbers = numbers_of_first
        if column is not page.first:
            title = f"{column.title}: what differs"
            all_numbers = provenance(column.file)
            numbers = tuple(number for number in all_numbers if number not in numbers_of_first)
        result = Assumptions(column.file, numbers, page.library or "", page.readings)
        line = column.line("fabric show", format="yaml")
        entries.append(Exhibit(title, result, line, view=None))
    return ReportSection("assumptions", "What the numbers rest on", tuple(entries))


def counts_of(fabrics: Sequence[Fabric], most: int) -> list[int]:
    """Rank counts that fill whole domains of every fabric, from one innermost domain (2 ranks where a
    fabric has a single tier) up to ``most``, ascending; ``most`` is among them."""
    domains = [fabric.tiers[0].endpoints if len(fabric.tiers) > 1 else 2 for fabric in fabrics]
    fewest = min(domains)
    smaller = {count for count in common_counts(fabrics) if fewest <= count < most}
    return sorted(smaller | {most})


def evenly_spaced(values: Sequence[int], most: int) -> list[int]:
    """Evenly spaced values, at most ``most``, with the first and the last."""
    if len(values) <= most:
        return list(values)
    last_index = len(values) - 1
    return [values[round(number * last_index / (most - 1))] for number in range(most)]


def _listed(values: Iterable[Any]) -> str:
    """Values separated by commas, as an option takes them."""
    return ",".join(map(str, values))
