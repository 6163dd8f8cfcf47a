"""A page about a fabric, what a person can hand over.

Each section asks the functions that a reader would ask, and keeps the command line beside the
answer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import colltool
from colltool.base.errors import ColltoolError, called, given, taken_from
from colltool.base.files import remembering
from colltool.base.formatting import Shape, format_size, shape_text
from colltool.base.primitives import SHORT, Primitive
from colltool.base.result import followed
from colltool.commands.arguments import AnyShape, command_line
from colltool.commands.command import command
from colltool.commands.options import FABRIC, READINGS, RESULT, FabricChoice, Out, option
from colltool.commands.output import chosen_format, collect, working
from colltool.estimate.assumptions import Readings, checked

if TYPE_CHECKING:
    from colltool.analysis.report import Report, ReportSection
    from colltool.commands.reading import AnyFabric, AnyPath
    from colltool.definitions.reader import Overrides
    from colltool.fabric.model import Fabric
    from colltool.fabric.own_machine import OwnMachine
    from colltool.training.job import Job


PRIMITIVES = ("ar", "ag", "a2a")


MOST_COLUMNS = 6
"""More cannot be told apart in a picture, and make a page of more than 2 MB."""


SIZES = ("1KB", "4KB", "16KB", "64KB", "256KB", "1MB", "4MB", "16MB", "64MB", "256MB", "1GB", "4GB")
"""Of the curves and maps: a factor of four apart, from latency to bandwidth."""


COMPARED = ("1KB", "64KB", "1MB", "16MB", "256MB", "4GB")


LINES, PANELS = 6, 3
"""The most numbers of ranks in one picture, and in a comparison."""


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
    library: str | None = None,
    machine: OwnMachine | None = None,
    readings: Readings | None = None,
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
        ranks: N, what is looked at closely, the ranks of the job, and of logs that do not say; all
            of the smallest fabric when None.
        shape, size: of the slice, and the bytes per rank, that are looked at closely, as in
            :func:`colltool.price`.
        primitives: one or several, by short or long name.
        overrides: as in :func:`colltool.load_fabric`, on every fabric.
        job_overrides: as in :func:`colltool.load_job`, on a job that is not loaded.
        library: whose schedules are ranked; default: each fabric's own.
        machine: as :func:`colltool.price`, on every fabric.
        readings, **parts: of the model, and single ones by name in place of those.

    Returns:
        A :class:`colltool.analysis.report.Report`: every result with the command line that gives
        it; ``to_html()`` is the page.

    Raises:
        ColltoolError: as the functions that it is made of.
    """
    from colltool.analysis.report import Report
    from colltool.commands.reading import (
        count_if,
        flag_of,
        is_nothing,
        paths_of,
        primitive_of,
        shape_of,
        size_of,
        vary_of,
    )
    from colltool.commands.requests import several_of
    from colltool.training.job import Job as Loaded
    from colltool.training.job import load_job

    with taken_from(fabrics="against", fabric="against"):
        fabrics = [fabric, *([] if is_nothing(against) else several_of(against))]
    each: Any = primitives if isinstance(primitives, list | tuple) else [primitives]
    page = Page(
        columns=_columns(fabrics, vary, overrides, library, machine),
        fabrics=fabrics,
        vary=vary_of(vary),
        overrides=overrides,
        primitives=[primitive_of(one) for one in each],
        ranks=count_if(ranks, "ranks"),
        size=size_of(size),
        library=library,
        machine=machine,
        readings=checked(readings, **parts),
        shape=shape_of(shape),
    )
    if again := next(
        (one for at, one in enumerate(page.primitives) if one in page.primitives[:at]), None
    ):
        raise ColltoolError(
            f"{again.spoken} stands twice", argument="primitives", fix="name each once"
        )
    if job is None and not is_nothing(job_overrides):
        raise ColltoolError(
            "is of a job", argument="job_overrides", fix=f"add {given('job', 'llama3-70b')}"
        )
    loaded = (
        job
        if job is None or isinstance(job, Loaded)
        else load_job(job, job_overrides, argument="job_overrides")
    )
    files = (
        []
        if is_nothing(logs)
        else [os.fspath(path) for path in paths_of(logs, "logs", "logs", "all_reduce.log")]
    )
    # what other files may be wrong about comes before all the prices
    with called("python", primitive="collective"):
        wanted = None if collective is None else primitive_of(collective)
        hints = {
            "primitive": wanted,
            "nodes": count_if(nodes, "nodes", 1),
            "in_place": flag_of(in_place, "in_place"),
        }
        measured = [_measured(page, files, hints)] if files else []
    step = [_step(page, loaded, _typed(job))] if loaded else []
    priced = [_collective(page, one) for one in followed(page.primitives)]
    sections = [_network(page), *priced, *step, *measured, _assumptions(page)]
    names, titles = (
        tuple(one.file for one in page.columns),
        tuple(one.title for one in page.columns),
    )
    return Report(
        fabrics=names, titles=titles, ranks=page.most, bytes=page.size, sections=tuple(sections)
    )


class PageColumn(NamedTuple):
    """A fabric of the page.

    Args:
        title: what tells it from the others.
        typed: the file or name that a command calls it by; empty for one of Python.
        file: as its file says.
        fabric: under the library that is asked for.
    """

    title: str
    typed: str
    file: Fabric
    fabric: Fabric

    @property
    def sets(self) -> list[str]:
        """The overrides that it was loaded with."""
        return [f"{key}={value}" for key, value in self.file.overrides]

    def line(self, command: str, **options: Any) -> tuple[str, ...]:
        """A command about its file; none for one of Python."""
        return (
            (command_line(command, self.typed, sets=self.sets, options=options),)
            if self.typed
            else ()
        )


class Page(NamedTuple):
    """What a page is asked for.

    Args:
        columns: its fabrics, what it is about first.
        fabrics, vary, overrides: what the columns are made of, as :func:`colltool.compare` takes
            them.
        primitives: a section each.
        ranks: of the job, and what is looked at closely; None where nobody said.
        size: bytes that are looked at closely.
        library, machine, readings, shape: as of :func:`colltool.price`.
    """

    columns: Sequence[PageColumn]
    fabrics: Sequence[AnyFabric]
    vary: Sequence[str]
    overrides: Overrides
    primitives: Sequence[Primitive]
    ranks: int | None
    size: float
    library: str | None
    readings: Readings
    shape: Shape | None = None
    machine: OwnMachine | None = None

    @property
    def most(self) -> int:
        """The ranks that are looked at closely: as said, else the most that fill whole domains of
        every fabric."""
        from colltool.estimate.groups import place
        from colltool.estimate.placement import GroupSpec

        if self.ranks is not None:
            return self.ranks
        if self.shape is not None:
            return place(self.columns[0].fabric, GroupSpec(shape=self.shape)).ranks
        if len(self.columns) == 1:
            return self.columns[0].fabric.ranks
        common = _common_counts([one.fabric for one in self.columns])
        if not common:
            what = "no number of ranks fills whole domains of every fabric"
            raise ColltoolError(what, argument="against", fix=f"say how many: {given('ranks', 64)}")
        return max(common)

    @property
    def _typed_machine(self) -> str | None:
        return _typed(self.machine) or None

    def line(self, command: str, *arguments: str, at: int = 0, **options: Any) -> tuple[str, ...]:
        """A command on one of the fabrics; none for one of Python."""
        one, more = (
            self.columns[at],
            {**options, "library": self.library, "machine": self._typed_machine},
        )
        if not (one.typed and all(arguments)):
            return ()
        return (
            command_line(
                command,
                *arguments,
                fabrics=[one.typed],
                sets=one.sets,
                readings=self.readings,
                options=more,
            ),
        )

    def side_by_side(self, command: str, argument: str, **options: Any) -> tuple[str, ...]:
        """A command on all fabrics at once: what they have in common is set, what tells them apart
        is varied."""
        from colltool.analysis.axes import axes_of

        typed = list(dict.fromkeys(one.typed for one in self.columns))
        if not (argument and all(typed)):
            return ()
        varied = {axis.key for axis in axes_of(self.vary)}
        sets = [
            f"{key}={value}" for key, value in self.columns[0].file.overrides if key not in varied
        ]
        more = {
            **options,
            "vary": list(self.vary),
            "library": self.library,
            "machine": self._typed_machine,
        }
        return (
            command_line(
                command, argument, fabrics=typed, sets=sets, readings=self.readings, options=more
            ),
        )


def _columns(
    fabrics: list[AnyFabric],
    vary: Sequence[str] | str,
    overrides: Overrides,
    library: str | None,
    machine: OwnMachine | None,
) -> list[PageColumn]:
    """The fabrics, each under every combination of values; no more than a page holds, and none
    twice."""
    from colltool.commands.reading import vary_of
    from colltool.commands.requests import columns_of

    asked, plain = (
        columns_of(fabrics, vary, overrides, whose, machine) for whose in (library, None)
    )
    if len(asked) > MOST_COLUMNS:
        what = f"a page compares at most {MOST_COLUMNS} fabrics or values, got {len(asked)}"
        raise ColltoolError(
            what,
            argument="vary" if vary_of(vary) else "against",
            fix="colltool compare takes more",
        )
    columns = [(plain[at].load(()), one.set) for at, one in enumerate(asked)]
    if again := next(
        (fabric for at, (fabric, values) in enumerate(columns) if (fabric, values) in columns[:at]),
        None,
    ):
        raise ColltoolError(f"{again.name} stands twice", argument="against", fix="another fabric")
    typed = [_typed(fabrics[at * len(fabrics) // len(asked)]) for at in range(len(asked))]
    return [
        PageColumn(one.name, typed[at], columns[at][0], one.load(()))
        for at, one in enumerate(asked)
    ]


def _typed(source: Any) -> str:
    """The file or name that somebody gave; empty for what is loaded or a mapping."""
    return os.fspath(source) if isinstance(source, str | os.PathLike) else ""


def _network(page: Page) -> ReportSection:
    """What each fabric is."""
    from colltool.analysis.report import ReportEntry, ReportSection
    from colltool.fabric.properties import fabric_facts
    from colltool.fabric.results import FabricShown

    found = []
    for at, one in enumerate(page.columns, 1):
        name = one.file.name if len(page.columns) == 1 else f"{one.file.name}-{at}"
        lines = (*one.line("fabric show"), *one.line("fabric draw", output=f"{name}.svg"))
        found.append(ReportEntry(one.title, FabricShown(one.file, fabric_facts(one.file)), lines))
    return ReportSection("network", "The network", tuple(found))


def _collective(page: Page, primitive: Primitive) -> ReportSection:
    """One primitive: its curves, who wins, where the time goes, whether that holds, and the same on
    the other fabrics."""
    from colltool.analysis.report import ReportEntry, ReportSection
    from colltool.commands.reading import size_of
    from colltool.estimate.groups import by_links, place
    from colltool.estimate.placement import GroupSpec

    fabric, short, size = page.columns[0].fabric, SHORT[primitive], format_size(page.size)
    counts = few(counts_of([fabric], page.most), LINES)
    swept = colltool.sweep(fabric, primitive, ranks=counts, sizes=SIZES, readings=page.readings)
    grid: dict[str, Any] = {
        "ranks": _listed(counts),
        "size": _listed(SIZES),
        "rows": "bytes",
        "cols": "ranks",
    }
    whole: dict[str, Any] = {"ranks": page.most, "shape": page.shape, "readings": page.readings}
    one: dict[str, Any] = whole | {"size": page.size}
    where = f"{page.most} ranks, {size}"
    typed: dict[str, Any] = {"ranks": page.most, "shape": page.shape and shape_text(page.shape)}
    entries = [
        ReportEntry(
            "Bus bandwidth by size and ranks",
            swept.pivoted("busbw", "bytes", "ranks"),
            page.line("sweep", short, **grid, pivot="busbw"),
            "busbw",
        ),
        ReportEntry(
            "The fastest schedule by size and ranks",
            swept.pivoted("algorithm", "bytes", "ranks"),
            page.line("sweep", short, **grid, pivot="algorithm"),
            "map",
        ),
        ReportEntry(
            f"Where the winner changes, {page.most} ranks",
            colltool.crossover(fabric, primitive, **whole),
            page.line("crossover", short, **typed),
        ),
        ReportEntry(
            f"Where the time goes, {where}",
            colltool.breakdown(fabric, primitive, **one),
            page.line("breakdown", short, **typed, size=size),
        ),
    ]
    if not by_links(place(fabric, GroupSpec(page.most, shape=page.shape))):
        line = page.line("sensitivity", short, **typed, size=size)
        entries.append(
            ReportEntry(
                f"Whether the choice is safe, {where}",
                colltool.sensitivity(fabric, primitive, **one),
                line,
            )
        )
    if len(page.columns) > 1:
        counts = few(counts_of([one.fabric for one in page.columns], page.most), PANELS)
        sizes = [format_size(one) for one in sorted({page.size, *map(size_of, COMPARED)})]
        compared = colltool.compare(
            page.fabrics,
            primitive,
            ranks=counts,
            sizes=sizes,
            vary=page.vary,
            overrides=page.overrides,
            library=page.library,
            machine=page.machine,
            readings=page.readings,
        )
        line = page.side_by_side("compare", short, ranks=_listed(counts), size=_listed(sizes))
        entries.append(ReportEntry("Side by side", compared, line))
    return ReportSection(short, primitive.spoken.capitalize(), tuple(entries))


def _step(page: Page, job: Job, typed: str) -> ReportSection:
    """A job's step on the fabric, and on the others; ``typed`` is empty for a job of Python."""
    from colltool.analysis.report import ReportEntry, ReportSection

    sets: dict[str, Any] = {
        "ranks": page.ranks,
        "job_overrides": [f"{key}={value}" for key, value in job.overrides],
    }
    plan = colltool.plan(job, page.columns[0].fabric, page.ranks, readings=page.readings)
    entries = [
        ReportEntry(f"A step on {page.columns[0].title}", plan, page.line("plan", typed, **sets))
    ]
    if len(page.columns) > 1:
        plans = colltool.compare_plans(
            job, [one.fabric for one in page.columns], page.ranks, readings=page.readings
        )
        if page.vary:  # plan has no columns of values: one command for each
            lines = tuple(
                line
                for at in range(len(page.columns))
                for line in page.line("plan", typed, at=at, **sets)
            )
        else:
            lines = page.side_by_side("plan", typed, **sets)
        entries.append(ReportEntry("The step on each", plans, lines))
    return ReportSection("job", f"The job {job.name}", tuple(entries))


def _measured(page: Page, logs: Sequence[str], hints: dict[str, Any]) -> ReportSection:
    """What was measured beside what is expected, traces by themselves; ``hints`` are of logs that
    do not say it themselves."""
    from colltool.analysis.report import ReportEntry, ReportSection
    from colltool.logs.busbw_ratio import RANKS_N, SAY_RANKS
    from colltool.logs.pytorch_trace import is_trace
    from colltool.logs.read import read_logs

    traces = [log for log in logs if is_trace(log)]
    others = [log for log in logs if log not in traces]
    entries = []
    if others:  # which say themselves which library ran
        ranks = None
        if page.ranks:  # where the logs leave it to somebody to say of how many they are
            try:
                read_logs(others, **hints)
            except ColltoolError as error:
                ranks = page.ranks if SAY_RANKS in error.fix or RANKS_N in error.fix else None
        result = colltool.doctor(
            others, page.columns[0].file, readings=page.readings, ranks=ranks, **hints
        )
        typed = {
            "collective": hints["primitive"],
            "nodes": hints["nodes"],
            "in_place": hints["in_place"] or None,
            "ranks": ranks,
        }
        line = page._replace(library=None).line("doctor", *others, **typed)
        entries.append(ReportEntry("What benchmarks measured", result, line))
    if traces:
        traced = colltool.trace(page.columns[0].fabric, traces, readings=page.readings)
        entries.append(ReportEntry("What a job measured", traced, page.line("trace", *traces)))
    return ReportSection("measured", "Measured against expected", tuple(entries))


def _assumptions(page: Page) -> ReportSection:
    """What the prices rest on, number by number, with where it comes from; of the other fabrics
    what differs."""
    from colltool.analysis.report import Assumptions, ReportEntry, ReportSection
    from colltool.fabric.variants import provenance

    told = [provenance(one.file) for one in page.columns]
    found = []
    for at, one in enumerate(page.columns):
        own = told[0] if at == 0 else tuple(number for number in told[at] if number not in told[0])
        title = one.title if at == 0 else f"{one.title}: what differs"
        result = Assumptions(one.file, own, page.library or "", page.readings)
        found.append(ReportEntry(title, result, one.line("fabric show", format="yaml"), None))
    return ReportSection("assumptions", "What the numbers rest on", tuple(found))


def _common_counts(fabrics: Sequence[Fabric]) -> set[int]:
    """Numbers of ranks that fill whole domains of every fabric."""
    from colltool.estimate.placement import whole_groups

    return set.intersection(*(set(whole_groups(fabric)) for fabric in fabrics))


def counts_of(fabrics: Sequence[Fabric], most: int) -> list[int]:
    """Those from a domain of the innermost tier up to so many."""
    least = min(fabric.tiers[0].endpoints if len(fabric.tiers) > 1 else 2 for fabric in fabrics)
    return sorted({count for count in _common_counts(fabrics) if least <= count < most} | {most})


def few(values: Sequence[int], most: int) -> list[int]:
    """So many of them, evenly, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    return [values[round(at * (len(values) - 1) / (most - 1))] for at in range(most)]


def _listed(values: Iterable[Any]) -> str:
    """As an option takes several."""
    return ",".join(map(str, values))


@command(
    [
        FABRIC,
        option("logs", "Logs and traces, as with --log.", python="more", default=None),
        option("fabric", "Compare with this one; repeatable.", flags="--against", python="against"),
        option("vary", "Values to compare, the first is what the page is about; repeatable."),
        "job",
        "job_overrides",
        option(
            "logs",
            "What was measured: logs of benchmarks, traces; repeatable.",
            flags="--log",
            metavar="LOG",
        ),
        option("collective", python="collective"),
        "nodes",
        "in_place",
        "page_ranks",
        "shape",
        option("size", "Bytes per rank looked at closely, as in nccl-tests."),
        option("primitives", default="ar,ag,a2a"),
        "library",
        RESULT,
        READINGS,
    ],
    of=report,
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
    """A page to hand over: a fabric drawn and priced, compared, a job's step on it, and what was
    measured.

    With -o report.html one file with pictures and tables that needs no network: for a screen, a
    phone or paper. Without it what follows, in sentences, and the commands that give it.

    Examples:
      colltool report -f dgx-h100 -o report.html
      colltool report -f dgx-h100 --against dgx-b200 --job llama3-70b -n 256 -o report.html
      colltool report -f dgx-h100 --vary ib.levels.spine.oversubscription=1,4 --set ib.size=64 --job llama3-70b -o report.html
      colltool report -f my-cluster.yaml -p ar,a2a -n 144 -M 1GB
      colltool report -f dgx-h100 --log all_reduce.log -o report.html
    """
    if chosen_format(out.form, out.path) == "html":
        from colltool.render.dispatch import without_columns
        from colltool.render.page import check_page

        without_columns(out.columns or "")
        check_page()
    if out.path is not None and not os.path.isdir(out.path.parent):
        what = f"cannot write {out.path}: no such folder"
        raise ColltoolError(what, argument="output", fix=f"create it: mkdir -p {out.path.parent}")
    collect()
    working("pricing the page ...")
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
