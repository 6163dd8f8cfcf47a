"""The sections of a report: each asks the functions that a reader would ask, and keeps the command line beside the answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.api import choices, jobs, measured, prices
from colltool.api.commands import command_line
from colltool.fabric.model import Fabric
from colltool.pricing.readings import Readings
from colltool.pricing.walk import whole_groups
from colltool.primitives import SHORT, Primitive
from colltool.study.report import Assumptions, Exhibit, Section
from colltool.words import format_size

if TYPE_CHECKING:
    from colltool.workload.job import Job

SIZES = ("1KB", "4KB", "16KB", "64KB", "256KB", "1MB", "4MB", "16MB", "64MB", "256MB", "1GB", "4GB")
"""Of the curves and maps: a factor of four apart, from latency to bandwidth."""

COMPARED = ("1KB", "64KB", "1MB", "16MB", "256MB", "4GB")
LINES, PANELS = 6, 3
"""The most numbers of ranks in one picture, and in a comparison."""


class Column(NamedTuple):
    """A fabric of the page: what tells it from the others, and the file or name that a command calls it by."""

    title: str
    typed: str
    fabric: Fabric

    @property
    def sets(self) -> list[str]:
        """The overrides that it was loaded with."""
        return [f"{key}={value}" for key, value in self.fabric.overrides]


class Asked(NamedTuple):
    """What a page is asked for.

    Args:
        columns: its fabrics, what it is about first.
        compared: what :func:`colltool.compare` is asked for to have them side by side.
        primitives: a section each.
        ranks: of the job, and what is looked at closely; None where nobody said.
        size: bytes that are looked at closely.
        library, readings: as of :func:`colltool.price`.
    """

    columns: Sequence[Column]
    compared: dict[str, Any]
    primitives: Sequence[Primitive]
    ranks: int | None
    size: float
    library: str | None
    readings: Readings

    @property
    def fabric(self) -> Fabric:
        """What the page is about."""
        return self.columns[0].fabric

    @property
    def most(self) -> int:
        """The ranks that are looked at closely."""
        return self.ranks or min(one.fabric.ranks for one in self.columns)

    def line(self, command: str, *arguments: str, at: int = 0, options: dict[str, Any] | None = None) -> str:
        """A command on one of the fabrics."""
        one, more = self.columns[at], {**(options or {}), "library": self.library}
        return command_line(command, *arguments, fabrics=[one.typed], sets=one.sets, readings=self.readings, options=more)


def network(asked: Asked) -> Section:
    """What each fabric is."""
    from colltool.fabric.derive import fabric_facts
    from colltool.fabric.results import FabricShown

    return Section("network", "The network", tuple(
        Exhibit(one.title, FabricShown(one.fabric, fabric_facts(one.fabric)),
                (command_line("fabric show", one.typed, sets=one.sets),
                 command_line("fabric draw", one.typed, sets=one.sets, options={"output": f"{one.fabric.name}.svg"})))
        for one in asked.columns
    ))  # fmt: skip


def collective(asked: Asked, primitive: Primitive) -> Section:
    """One primitive: its curves, who wins, where the time goes, whether that holds, and the same on the other fabrics."""
    fabric, short = asked.fabric, SHORT[primitive]
    counts = few(counts_of([fabric], asked.most), LINES)
    swept = choices.sweep(fabric, primitive, ranks=counts, sizes=SIZES, readings=asked.readings)
    grid = {"ranks": listed(counts), "size": listed(SIZES), "rows": "bytes", "cols": "ranks"}
    whole: dict[str, Any] = {"ranks": asked.most, "readings": asked.readings}
    one: dict[str, Any] = whole | {"size": asked.size}
    close = {"ranks": asked.most, "size": format_size(asked.size)}
    where = f"{asked.most} ranks, {close['size']}"
    exhibits = [
        Exhibit("Bus bandwidth by size and ranks", swept.pivoted("busbw", "bytes", "ranks"),
                (asked.line("sweep", short, options=grid | {"pivot": "busbw"}),), "busbw",
                swept.pivoted("busbw", "ranks", "bytes")),
        Exhibit("The fastest schedule by size and ranks", swept.pivoted("algorithm", "bytes", "ranks"),
                (asked.line("sweep", short, options=grid | {"pivot": "algorithm"}),), "map"),
        Exhibit(f"Where the winner changes, {asked.most} ranks", prices.crossover(fabric, primitive, **whole),
                (asked.line("crossover", short, options={"ranks": asked.most}),)),
        Exhibit(f"Where the time goes, {where}", prices.breakdown(fabric, primitive, **one),
                (asked.line("breakdown", short, options=close),)),
        Exhibit(f"Whether the choice is safe, {where}", choices.sensitivity(fabric, primitive, **one),
                (asked.line("sensitivity", short, options=close),)),
        *compared(asked, primitive),
    ]  # fmt: skip
    return Section(short, primitive.spoken.capitalize(), tuple(exhibits))


def compared(asked: Asked, primitive: Primitive) -> Iterator[Exhibit]:
    """The fabrics side by side; nothing where there is one."""
    if len(asked.columns) == 1:
        return
    counts = few(counts_of([one.fabric for one in asked.columns], asked.most), PANELS)
    result = choices.compare(primitives=primitive, ranks=counts, sizes=COMPARED, readings=asked.readings, **asked.compared)
    line = _side_by_side(asked, "compare", SHORT[primitive], options={"ranks": listed(counts), "size": listed(COMPARED)})
    yield Exhibit("Side by side", result, (line,))


def step(asked: Asked, job: Job, typed: str) -> Section:
    """A job's step on the fabric, and on the others."""
    job_sets = {"ranks": asked.ranks, "job_overrides": [f"{key}={value}" for key, value in job.overrides]}
    plan = jobs.plan(job, asked.fabric, asked.ranks, readings=asked.readings)
    lines = [asked.line("plan", typed, at=at, options=job_sets) for at in range(len(asked.columns))]
    exhibits = [Exhibit(f"A step on {asked.columns[0].title}", plan, (lines[0],))]
    if len(asked.columns) > 1:
        fabrics = [one.fabric for one in asked.columns]
        plans = jobs.compare_plans(job, fabrics, asked.ranks, readings=asked.readings)
        same = () if asked.compared["vary"] else (_side_by_side(asked, "plan", typed, options=job_sets),)
        exhibits.append(Exhibit("The step on each", plans, same or tuple(lines)))
    return Section("job", f"The job {job.name}", tuple(exhibits))


def logged(asked: Asked, logs: Sequence[str]) -> Section:
    """What was measured beside what is expected, traces by themselves."""
    from colltool.traces import is_trace

    traces = [log for log in logs if is_trace(log)]
    others = [log for log in logs if log not in traces]
    exhibits = []
    if others:
        own = choices.columns_of(**asked.compared | {"library": None})[0].load(())  # logs say which library ran
        result = measured.doctor(others, own, readings=asked.readings)
        exhibits.append(Exhibit("What benchmarks measured", result, (asked._replace(library=None).line("doctor", *others),)))
    if traces:
        traced = measured.trace(asked.fabric, traces, readings=asked.readings)
        exhibits.append(Exhibit("What a job measured", traced, (asked.line("trace", *traces),)))
    return Section("measured", "Measured against expected", tuple(exhibits))


def assumptions(asked: Asked) -> Section:
    """What the prices rest on, number by number, with where it comes from; of the other fabrics what differs."""
    from colltool.fabric.stated import stated

    told = [stated(one.fabric) for one in asked.columns]
    own = [told[0], *(tuple(number for number in other if number not in told[0]) for other in told[1:])]
    return Section("assumptions", "What the numbers rest on", tuple(
        Exhibit(one.title if at == 0 else f"{one.title}: what differs", Assumptions(one.fabric, own[at], asked.readings),
                (command_line("fabric show", one.typed, sets=one.sets, options={"format": "yaml"}),), None)
        for at, one in enumerate(asked.columns)
    ))  # fmt: skip


def _side_by_side(asked: Asked, command: str, argument: str, *, options: dict[str, Any]) -> str:
    """A command on all fabrics at once: what they have in common is set, what tells them apart is varied."""
    vary: Sequence[str] = asked.compared["vary"]
    varied = {text.partition("=")[0].strip() for text in vary}
    sets = [f"{key}={value}" for key, value in asked.fabric.overrides if key not in varied]
    more = {**options, "vary": list(vary), "library": asked.library}
    typed = list(dict.fromkeys(one.typed for one in asked.columns))
    return command_line(command, argument, fabrics=typed, sets=sets, readings=asked.readings, options=more)


def counts_of(fabrics: Sequence[Fabric], most: int) -> list[int]:
    """Numbers of ranks from a domain of the innermost tier up, that fill whole domains of every fabric."""
    least = min(fabric.tiers[0].endpoints if len(fabric.tiers) > 1 else 2 for fabric in fabrics)
    common = set.intersection(*(set(whole_groups(fabric)) for fabric in fabrics))
    return sorted({count for count in common if least <= count < most} | {most})


def few(values: Sequence[int], most: int) -> list[int]:
    """So many of them, evenly, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    return [values[round(at * (len(values) - 1) / (most - 1))] for at in range(most)]


def listed(values: Iterable[Any]) -> str:
    """As an option takes several."""
    return ",".join(map(str, values))
