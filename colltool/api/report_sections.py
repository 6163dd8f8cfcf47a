"""The sections of a report: each asks the functions that a reader would ask, and keeps the command line beside the answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import colltool
from colltool.analysis.grid import axes_of
from colltool.analysis.report import Assumptions, ReportEntry, ReportSection
from colltool.api.arguments import command_line
from colltool.api.fabrics import AnyFabric
from colltool.base.errors import ColltoolError, given
from colltool.base.formatting import Shape, format_size, shape_text
from colltool.base.primitives import SHORT, Primitive
from colltool.definitions.reader import Overrides
from colltool.estimate.assumptions import Readings
from colltool.estimate.groups import place
from colltool.estimate.placement import GroupSpec, whole_groups
from colltool.fabric.model import Fabric
from colltool.measurements.busbw_ratio import RANKS_N, SAY_RANKS

if TYPE_CHECKING:
    from colltool.training.job import Job

SIZES = ("1KB", "4KB", "16KB", "64KB", "256KB", "1MB", "4MB", "16MB", "64MB", "256MB", "1GB", "4GB")
"""Of the curves and maps: a factor of four apart, from latency to bandwidth."""

COMPARED = ("1KB", "64KB", "1MB", "16MB", "256MB", "4GB")
LINES, PANELS = 6, 3
"""The most numbers of ranks in one picture, and in a comparison."""


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
        return (command_line(command, self.typed, sets=self.sets, options=options),) if self.typed else ()


class Page(NamedTuple):
    """What a page is asked for.

    Args:
        columns: its fabrics, what it is about first.
        fabrics, vary, overrides: what the columns are made of, as :func:`colltool.compare` takes them.
        primitives: a section each.
        ranks: of the job, and what is looked at closely; None where nobody said.
        size: bytes that are looked at closely.
        library, readings, shape: as of :func:`colltool.price`.
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

    @property
    def fabric(self) -> Fabric:
        """What the page is about."""
        return self.columns[0].fabric

    @property
    def most(self) -> int:
        """The ranks that are looked at closely: as said, else the most that fill whole domains of every fabric.

        Raises:
            ColltoolError: no number does.
        """
        if self.ranks is not None:
            return self.ranks
        if self.shape is not None:
            return place(self.fabric, GroupSpec(shape=self.shape)).ranks
        if len(self.columns) == 1:
            return self.fabric.ranks
        common = common_counts([one.fabric for one in self.columns])
        if not common:
            what = "no number of ranks fills whole domains of every fabric"
            raise ColltoolError(what, argument="against", fix=f"say how many: {given('ranks', 64)}")
        return max(common)

    def line(self, command: str, *arguments: str, at: int = 0, **options: Any) -> tuple[str, ...]:
        """A command on one of the fabrics; none for one of Python."""
        one, more = self.columns[at], {**options, "library": self.library}
        if not (one.typed and all(arguments)):
            return ()
        return (command_line(command, *arguments, fabrics=[one.typed], sets=one.sets, readings=self.readings, options=more),)

    def side_by_side(self, command: str, argument: str, **options: Any) -> tuple[str, ...]:
        """A command on all fabrics at once: what they have in common is set, what tells them apart is varied."""
        typed = list(dict.fromkeys(one.typed for one in self.columns))
        if not (argument and all(typed)):
            return ()
        varied = {axis.key for axis in axes_of(self.vary)}
        sets = [f"{key}={value}" for key, value in self.columns[0].file.overrides if key not in varied]
        more = {**options, "vary": list(self.vary), "library": self.library}
        return (command_line(command, argument, fabrics=typed, sets=sets, readings=self.readings, options=more),)


def network(page: Page) -> ReportSection:
    """What each fabric is."""
    from colltool.fabric.properties import fabric_facts
    from colltool.fabric.results import FabricShown

    found = []
    for at, one in enumerate(page.columns, 1):
        name = one.file.name if len(page.columns) == 1 else f"{one.file.name}-{at}"
        lines = (*one.line("fabric show"), *one.line("fabric draw", output=f"{name}.svg"))
        found.append(ReportEntry(one.title, FabricShown(one.file, fabric_facts(one.file)), lines))
    return ReportSection("network", "The network", tuple(found))


def collective(page: Page, primitive: Primitive) -> ReportSection:
    """One primitive: its curves, who wins, where the time goes, whether that holds, and the same on the other fabrics."""
    fabric, short, size = page.fabric, SHORT[primitive], format_size(page.size)
    counts = few(counts_of([fabric], page.most), LINES)
    swept = colltool.sweep(fabric, primitive, ranks=counts, sizes=SIZES, readings=page.readings)
    grid: dict[str, Any] = {"ranks": listed(counts), "size": listed(SIZES), "rows": "bytes", "cols": "ranks"}
    whole: dict[str, Any] = {"ranks": page.most, "shape": page.shape, "readings": page.readings}
    one: dict[str, Any] = whole | {"size": page.size}
    where = f"{page.most} ranks, {size}"
    typed: dict[str, Any] = {"ranks": page.most, "shape": page.shape and shape_text(page.shape)}
    exhibits = [
        ReportEntry("Bus bandwidth by size and ranks", swept.pivoted("busbw", "bytes", "ranks"),
                page.line("sweep", short, **grid, pivot="busbw"), "busbw"),
        ReportEntry("The fastest schedule by size and ranks", swept.pivoted("algorithm", "bytes", "ranks"),
                page.line("sweep", short, **grid, pivot="algorithm"), "map"),
        ReportEntry(f"Where the winner changes, {page.most} ranks", colltool.crossover(fabric, primitive, **whole),
                page.line("crossover", short, **typed)),
        ReportEntry(f"Where the time goes, {where}", colltool.breakdown(fabric, primitive, **one),
                page.line("breakdown", short, **typed, size=size)),
        ReportEntry(f"Whether the choice is safe, {where}", colltool.sensitivity(fabric, primitive, **one),
                page.line("sensitivity", short, **typed, size=size)),
        *compared(page, primitive),
    ]  # fmt: skip
    return ReportSection(short, primitive.spoken.capitalize(), tuple(exhibits))


def compared(page: Page, primitive: Primitive) -> Iterator[ReportEntry]:
    """The fabrics side by side; nothing where there is one."""
    if len(page.columns) == 1:
        return
    counts = few(counts_of([one.fabric for one in page.columns], page.most), PANELS)
    result = colltool.compare(
        page.fabrics, primitive, ranks=counts, sizes=COMPARED, vary=page.vary, overrides=page.overrides, library=page.library,
        readings=page.readings,
    )  # fmt: skip
    line = page.side_by_side("compare", SHORT[primitive], ranks=listed(counts), size=listed(COMPARED))
    yield ReportEntry("Side by side", result, line)


def step(page: Page, job: Job, typed: str) -> ReportSection:
    """A job's step on the fabric, and on the others; ``typed`` is empty for a job of Python."""
    sets: dict[str, Any] = {"ranks": page.ranks, "job_overrides": [f"{key}={value}" for key, value in job.overrides]}
    plan = colltool.plan(job, page.fabric, page.ranks, readings=page.readings)
    exhibits = [ReportEntry(f"A step on {page.columns[0].title}", plan, page.line("plan", typed, **sets))]
    if len(page.columns) > 1:
        plans = colltool.compare_plans(job, [one.fabric for one in page.columns], page.ranks, readings=page.readings)
        if page.vary:  # plan has no columns of values: one command for each
            lines = tuple(line for at in range(len(page.columns)) for line in page.line("plan", typed, at=at, **sets))
        else:
            lines = page.side_by_side("plan", typed, **sets)
        exhibits.append(ReportEntry("The step on each", plans, lines))
    return ReportSection("job", f"The job {job.name}", tuple(exhibits))


class LogHints(NamedTuple):
    """What somebody says of logs that do not say it themselves."""

    primitive: Primitive | None = None
    nodes: int | None = None
    in_place: bool = False


def logged(page: Page, logs: Sequence[str], said: LogHints) -> ReportSection:
    """What was measured beside what is expected, traces by themselves."""
    from colltool.traces import is_trace

    traces = [log for log in logs if is_trace(log)]
    others = [log for log in logs if log not in traces]
    exhibits = []
    if others:  # which say themselves which library ran
        asked = said._asdict() | {"ranks": page.ranks if page.ranks and _without_ranks(others, said) else None}
        result = colltool.doctor(others, page.columns[0].file, readings=page.readings, **asked)
        typed = {"collective": said.primitive, "nodes": said.nodes, "in_place": said.in_place or None, "ranks": asked["ranks"]}
        line = page._replace(library=None).line("doctor", *others, **typed)
        exhibits.append(ReportEntry("What benchmarks measured", result, line))
    if traces:
        traced = colltool.trace(page.fabric, traces, readings=page.readings)
        exhibits.append(ReportEntry("What a job measured", traced, page.line("trace", *traces)))
    return ReportSection("measured", "Measured against expected", tuple(exhibits))


def _without_ranks(logs: Sequence[str], said: LogHints) -> bool:
    """Whether the logs leave it to somebody to say of how many ranks they are."""
    from colltool.measurements.read import read_logs

    try:
        read_logs(logs, primitive=said.primitive, nodes=said.nodes, in_place=said.in_place)
    except ColltoolError as error:
        return SAY_RANKS in error.fix or RANKS_N in error.fix
    return False


def assumptions(page: Page) -> ReportSection:
    """What the prices rest on, number by number, with where it comes from; of the other fabrics what differs."""
    from colltool.fabric.variants import provenance

    told = [provenance(one.file) for one in page.columns]
    found = []
    for at, one in enumerate(page.columns):
        own = told[0] if at == 0 else tuple(number for number in told[at] if number not in told[0])
        title = one.title if at == 0 else f"{one.title}: what differs"
        result = Assumptions(one.file, own, page.library or "", page.readings)
        found.append(ReportEntry(title, result, one.line("fabric show", format="yaml"), None))
    return ReportSection("assumptions", "What the numbers rest on", tuple(found))


def common_counts(fabrics: Sequence[Fabric]) -> set[int]:
    """Numbers of ranks that fill whole domains of every fabric."""
    return set.intersection(*(set(whole_groups(fabric)) for fabric in fabrics))


def counts_of(fabrics: Sequence[Fabric], most: int) -> list[int]:
    """Those from a domain of the innermost tier up to so many."""
    least = min(fabric.tiers[0].endpoints if len(fabric.tiers) > 1 else 2 for fabric in fabrics)
    return sorted({count for count in common_counts(fabrics) if least <= count < most} | {most})


def few(values: Sequence[int], most: int) -> list[int]:
    """So many of them, evenly, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    return [values[round(at * (len(values) - 1) / (most - 1))] for at in range(most)]


def listed(values: Iterable[Any]) -> str:
    """As an option takes several."""
    return ",".join(map(str, values))
