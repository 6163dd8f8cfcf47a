"""Algorithms of one's own among the arguments: files are read and proved, and priced on the group
of a question."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from colltool.algorithms.composed import compositions
from colltool.algorithms.registry import algorithms, on_request, parse_choice
from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import Primitive
from colltool.commands.reading import is_nothing, primitive_if, wrong

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from colltool.commands.reading import AnyPath
    from colltool.commands.requests import Request
    from colltool.custom.schedule import CustomSchedule
    from colltool.estimate.cost_model import CostModel
    from colltool.estimate.results import Infeasible

PLUGINS = "colltool.algorithms"
"""The group of entry points behind which packages offer algorithms."""
AnyAlgorithms = Any
"""Paths of algorithm files, or mappings of what one would hold; one, or several in a list."""


def own_of(files: AnyAlgorithms, primitive: Primitive | str | None) -> list[CustomSchedule]:
    """The schedules of files, executed and proved, under names of their own; all of them of the
    primitive, if one is given."""
    if is_nothing(files):
        return []
    from colltool.custom.file import custom_schedule, load_algorithm

    # executed here: a schedule that computes something wrong is refused with its step
    schedules = []
    for file in _listed(files):
        schedules.append(
            custom_schedule(file) if isinstance(file, Mapping) else load_algorithm(file)
        )
    asked = primitive_if(primitive)
    for schedule in schedules:
        if asked is not None and asked is not schedule.primitive:
            raise _of_another(schedule, asked)
    return _renamed(schedules)


def _of_another(schedule: CustomSchedule, asked: Primitive) -> ColltoolError:
    """The error for a schedule of another collective."""
    kind = schedule.primitive
    article = "an" if str(kind).startswith("a") else "a"
    what = f"{schedule.name} is {article} {kind.label}, not {asked.label}"
    fix = f"ask for {kind}, or give a file of {asked.label}"
    return ColltoolError(what, where=schedule.file, fix=fix)


def _renamed(schedules: Sequence[CustomSchedule]) -> list[CustomSchedule]:
    """Schedules under names that no shipped algorithm has."""
    from colltool.verification.custom_cost import with_unique_names

    return with_unique_names(schedules, _taken())


def _taken() -> set[str]:
    """Names of shipped algorithms."""
    names: set[str] = set()
    for primitive in Primitive:
        names.update(row.name for row in algorithms(primitive))
        names.update(row.name for row in compositions(primitive))
    return names


def of_plugins(request: Request) -> tuple[list[CustomSchedule], tuple[Infeasible, ...]]:
    """What installed packages offer for a question, and which of them failed; nothing is loaded
    where there are none."""
    entries = _plugins()
    if not entries:
        return [], ()
    from colltool.custom.plugins import plugin_schedules
    from colltool.estimate.groups import place
    from colltool.estimate.results import Infeasible

    placed = place(request.fabric, request.group)
    schedules, failed = plugin_schedules(
        entries, request.primitive, placed.ranks, placed.placement.per_domain
    )
    reasons = [Infeasible(name, f"plugin failed: {reason}") for name, reason in failed]
    return schedules, tuple(reasons)


@lru_cache(maxsize=1)
def _plugins() -> tuple[EntryPoint, ...]:
    from colltool.base.entry_points import entry_points_of

    return entry_points_of(PLUGINS)


def _listed(files: AnyAlgorithms) -> Sequence[AnyPath | Mapping[str, Any]]:
    several = [files] if _is_file(files) else files
    if isinstance(several, list | tuple) and all(map(_is_file, several)):
        return several
    fix = f"write {argument_text('algorithm_files', ['my.xml'])}"
    raise wrong(files, "algorithm_files", "paths of algorithm files", fix)


def _is_file(value: Any) -> bool:
    return isinstance(value, str | os.PathLike | Mapping)


def ranks_of(
    ranks: int | None, own: Sequence[CustomSchedule], options: Mapping[str, object]
) -> int | None:
    """The number of ranks that was asked for, else the one that the files are for."""
    if ranks is not None or not own or options.get("shape") is not None:
        return ranks
    counts = sorted({schedule.ranks for schedule in own})
    if len(counts) > 1:
        what = f"the files are for {' and '.join(map(str, counts))} ranks"
        raise ColltoolError(what, argument="algorithm_files", fix="one number of ranks a call")
    return counts[0]


def costs_of(own: Sequence[CustomSchedule], request: Request) -> list[CostModel]:
    """The schedules' costs on the group that is asked for."""
    if not own:
        return []
    from colltool.verification.custom_cost import custom_costs

    return custom_costs(own, request.fabric, request.group, request.readings)


def all_costs(
    own: Sequence[CustomSchedule], request: Request, only: Sequence[str]
) -> tuple[list[CostModel], tuple[Infeasible, ...]]:
    """The costs of files and of what plugins offer, if algorithms are named of those; and the
    plugins that failed."""
    shipped = _taken() | {row.name for row in on_request()}
    named = {name for name in only if parse_choice(name).base not in shipped}
    readings = request.readings
    if (only and not named) or readings.placement != "packed" or readings.ports != "all":
        return costs_of(own, request), ()
    plugin_schedules, failed = of_plugins(request)
    for plugin in failed:
        if plugin.algorithm in named:
            raise ColltoolError(
                f"{plugin.algorithm}: {plugin.reason}",
                argument="algorithms",
                fix="see to the package that offers it",
            )
    if not plugin_schedules:
        return costs_of(own, request), () if only else failed
    # a plugin's name gives way to one of a file
    every = _renamed([*own, *plugin_schedules])
    files = every[: len(own)]
    theirs = [plugin for plugin in every[len(own) :] if not only or plugin.name in named]
    return costs_of([*files, *theirs], request), () if only else failed


def no_files(files: AnyAlgorithms) -> None:
    """Refuse files where an engine's kernels are asked for."""
    if not is_nothing(files):
        raise ColltoolError(
            "a schedule is priced beside those of NCCL and its like, not beside an engine's"
            " kernels",
            argument="algorithm_files",
            fix=f"leave {argument_text('library')} out, or the file",
        )
