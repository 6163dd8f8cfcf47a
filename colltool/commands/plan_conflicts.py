"""Options of ``plan`` that exclude each other: what a search, a comparison, a sensitivity and traces do
not take is refused before anything is loaded.

:func:`refuse_conflicts` is for plans of a job, :func:`refuse_with_traces` for those of traces.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from colltool.base.errors import ColltoolError, clipped
from colltool.commands.plan import ONE_STEP_ARGUMENTS


def refuse_conflicts(
    fabrics: Sequence[str],
    search_options: dict[str, Any],
    arguments: dict[str, Any],
    *,
    search: bool,
    vary: bool,
    plot: Path | None,
) -> None:
    """Raise ColltoolError for options of a job's plan that do not go together.

    Args:
        fabrics: those that were given.
        search_options: those that act with ``--search`` only; None where not given.
        arguments: further ones: ``links`` always, :data:`ONE_STEP_ARGUMENTS` where given.
        search, vary: whether ``--search`` and ``--vary`` were given.
        plot: the file of a picture, if one was asked for.
    """
    if not search:
        _refuse_outside_search(search_options)
    elif arguments["links"]:
        raise ColltoolError(
            "shows the links of one layout",
            argument="links",
            fix="plan the layout that the search prints, with --links",
        )
    if plot is not None and (search or vary):
        raise ColltoolError(
            "draws one step on one fabric",
            argument="plot",
            fix=f"leave --{'search' if search else 'vary'} out",
        )
    has_several = len(fabrics) > 1
    if search or vary or has_several:
        _refuse_one_step_options(arguments)
    if has_several and (vary or arguments["links"]):
        raise ColltoolError(
            "is about one fabric",
            argument="vary" if vary else "links",
            fix=f"run it once for each of {', '.join(fabrics)}",
        )


def _refuse_outside_search(search_options: dict[str, Any]) -> None:
    """Raise ColltoolError for the first option that was given; for ``--keep`` its fix also has the
    overrides of the job that say the same."""
    for argument, value in search_options.items():
        if value is None:
            continue
        fix = "add --search"
        if argument == "keep":
            overrides = map(_job_set_of, value)
            fix += f", or write {' '.join(overrides)} to plan such a layout"
        raise ColltoolError("acts only with --search", argument=argument, fix=fix)


def _job_set_of(pair: str) -> str:
    """``--job-set layout.tp=8`` for the constraint ``tp=8``; an unknown key stays as it is."""
    from colltool.training.layout_constraints import CHOICE_OF_KEY

    name, _, value = pair.partition("=")
    job_key = next((key for key, choice in CHOICE_OF_KEY.items() if choice == name.strip()), name)
    return f"--job-set {job_key}={value.strip()}"


def _refuse_one_step_options(arguments: dict[str, Any]) -> None:
    """Raise ColltoolError for the first of :data:`ONE_STEP_ARGUMENTS` that was given, in a question
    about several steps."""
    for argument in ONE_STEP_ARGUMENTS:
        if argument in arguments:
            raise ColltoolError(
                "is about one step on one fabric",
                argument=argument,
                fix="leave --search, --vary and further fabrics out",
            )


def single_job(job: list[str]) -> str:
    """The only job; ColltoolError for several, as only traces may be several files."""
    if len(job) > 1:
        raise ColltoolError(
            "is a second job",
            where=clipped(job[1]),
            fix="run it once for each job; traces all end in .et",
        )
    return job[0]


def refuse_with_traces(paths: list[str], traces: list[str], job_options: dict[str, Any]) -> None:
    """Raise ColltoolError for options of a job, and for files other than traces.

    A trace is of one layout, batch and model, which it does not name.

    Args:
        paths: as typed; a folder has traces of its own.
        traces: the traces among them and in their folders.
    """
    for path in paths:
        if path not in traces and not os.path.isdir(path):
            raise ColltoolError(
                "is not a trace (.et), but others are",
                where=clipped(path),
                fix="give only traces, or one job",
            )
    for name, value in job_options.items():
        if value not in (None, False, []):
            raise ColltoolError(
                "changes a job, and a trace already has its layout, batch and model",
                argument=name,
                fix="leave it out, or plan a job file",
            )
