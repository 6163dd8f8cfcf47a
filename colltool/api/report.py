"""A page about a fabric: what a person can hand over."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from colltool.api.arguments import AnyShape
from colltool.api.fabrics import AnyFabric, columns_of, several_of
from colltool.api.values import (
    AnyPath,
    count_of,
    flag_of,
    is_nothing,
    paths_of,
    primitive_of,
    ranks_of,
    shape_of,
    size_of,
    vary_of,
)
from colltool.base.errors import ColltoolError, called, given, taken_from
from colltool.base.files import remembering
from colltool.base.primitives import Primitive
from colltool.base.result import followed
from colltool.definitions.reader import Overrides
from colltool.estimate.assumptions import Readings, checked

if TYPE_CHECKING:
    from colltool.analysis.report import Report
    from colltool.api.report_sections import PageColumn
    from colltool.training.job import Job

PRIMITIVES = ("ar", "ag", "a2a")
MOST_COLUMNS = 6
"""More cannot be told apart in a picture, and make a page of more than 2 MB."""


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
    readings: Readings | None = None,
    **parts: Any,
) -> Report:
    """A fabric on one page: what it is, what collectives and a job cost on it, and what was measured.

    Args:
        fabric: what the page is about: a fabric, or a path, shipped name or mapping to load.
        against: fabrics that it is compared with.
        vary: keys with their values, as in :func:`colltool.compare`: a column for each; the first is what the page is about.
        job: a job, or a path, shipped name or mapping to load: its step on each fabric.
        logs: of nccl-tests, rccl-tests, OSU micro-benchmarks, or traces of the PyTorch profiler.
        collective, nodes, in_place: of logs that do not say, as ``primitive``, ``nodes`` and ``in_place`` in
            :func:`colltool.doctor`.
        ranks: N, what is looked at closely, the ranks of the job, and of logs that do not say; all of the smallest fabric when
            None.
        shape: of the slice that is looked at closely, as in :func:`colltool.price`.
        size: bytes per rank that are looked at closely, by nccl-tests' convention.
        primitives: one or several, by short or long name.
        overrides: as in :func:`colltool.load_fabric`, on every fabric.
        job_overrides: as in :func:`colltool.load_job`, on a job that is not loaded.
        library: whose schedules are ranked; default: each fabric's own.
        readings: of the model.
        **parts: single readings by name, in place of those.

    Returns:
        A :class:`colltool.analysis.report.Report`: every result with the command line that gives it; ``to_html()`` is the page.

    Raises:
        ColltoolError: as the functions that it is made of.
    """
    from colltool.analysis.report import Report
    from colltool.api import report_sections as of
    from colltool.training.job import Job as Loaded
    from colltool.training.job import load_job

    with taken_from(fabrics="against", fabric="against"):
        fabrics = [fabric, *([] if is_nothing(against) else several_of(against))]
    page = of.Page(
        columns=_columns(fabrics, vary, overrides, library),
        fabrics=fabrics,
        vary=vary_of(vary),
        overrides=overrides,
        primitives=_primitives(primitives),
        ranks=ranks_of(ranks),
        size=size_of(size),
        shape=shape_of(shape),
        library=library,
        readings=checked(readings, **parts),
    )
    if job is None and not is_nothing(job_overrides):
        raise ColltoolError("is of a job", argument="job_overrides", fix=f"add {given('job', 'llama3-70b')}")
    loaded = job if job is None or isinstance(job, Loaded) else load_job(job, job_overrides, argument="job_overrides")
    files = [] if is_nothing(logs) else [os.fspath(path) for path in paths_of(logs, "logs", "logs", "all_reduce.log")]
    sections = [of.network(page), *(of.collective(page, one) for one in followed(page.primitives))]
    sections += [of.step(page, loaded, _typed(job))] if loaded else []
    with called("python", primitive="collective"):
        said = of.LogHints(
            primitive=None if collective is None else primitive_of(collective),
            nodes=None if nodes is None else count_of(nodes, "nodes", 1),
            in_place=flag_of(in_place, "in_place"),
        )
        sections += [of.logged(page, files, said)] if files else []
    sections.append(of.assumptions(page))
    return Report(
        fabrics=tuple(one.file for one in page.columns),
        titles=tuple(one.title for one in page.columns),
        ranks=page.most,
        bytes=page.size,
        sections=tuple(sections),
    )


def _primitives(primitives: Primitive | str | Sequence[Primitive | str]) -> list[Primitive]:
    several = list(primitives) if isinstance(primitives, list | tuple) else [primitives]
    found = [primitive_of(one) for one in several]  # type: ignore[arg-type]
    if again := next((one for at, one in enumerate(found) if one in found[:at]), None):
        raise ColltoolError(f"{again.spoken} stands twice", argument="primitives", fix="name each once")
    return found


def _columns(fabrics: list[AnyFabric], vary: Sequence[str] | str, overrides: Overrides, library: str | None) -> list[PageColumn]:
    """The fabrics, each under every combination of values.

    Raises:
        ColltoolError: more than a page holds, or one twice.
    """
    from colltool.api.report_sections import PageColumn

    asked, plain = (columns_of(fabrics, vary, overrides, whose) for whose in (library, None))
    if len(asked) > MOST_COLUMNS:
        what = f"a page compares at most {MOST_COLUMNS} fabrics or values, got {len(asked)}"
        raise ColltoolError(what, argument="vary" if vary_of(vary) else "against", fix="colltool compare takes more")
    columns = [(plain[at].load(()), one.set) for at, one in enumerate(asked)]
    if again := next((fabric for at, (fabric, values) in enumerate(columns) if (fabric, values) in columns[:at]), None):
        raise ColltoolError(f"{again.name} stands twice", argument="against", fix="another fabric")
    typed = [_typed(fabrics[at * len(fabrics) // len(asked)]) for at in range(len(asked))]
    return [PageColumn(one.name, typed[at], columns[at][0], one.load(())) for at, one in enumerate(asked)]


def _typed(source: Any) -> str:
    """The file or name that somebody gave; empty for what is loaded or a mapping."""
    return os.fspath(source) if isinstance(source, str | os.PathLike) else ""
