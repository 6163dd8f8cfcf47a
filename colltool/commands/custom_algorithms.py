"""Custom algorithms as arguments: algorithm files and plugins, executed and checked, then priced on
the group of a request.

:func:`custom_schedules` reads files, :func:`plugin_schedules` asks installed packages;
:func:`all_costs` prices both on a group. What computes something wrong is refused by either.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from colltool.algorithms.composed import every_composition
from colltool.algorithms.registry import on_request, parse_choice, usual_algorithms
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

# the group of entry points under which packages offer algorithms
PLUGINS = "colltool.algorithms"
# paths of algorithm files, or mappings of what one would hold; one, or several in a list
AnyAlgorithms = Any


def custom_schedules(
    files: AnyAlgorithms, primitive: Primitive | str | None
) -> list[CustomSchedule]:
    """The schedules of algorithm files, executed and checked, under names that no other has.

    Raises:
        ColltoolError: a file is wrong, or is for another collective than ``primitive``.
    """
    if is_nothing(files):
        return []
    from colltool.custom.file import custom_schedule, load_algorithm

    # executed here: a schedule that computes something wrong is refused with its step
    schedules = []
    for file in _listed(files):
        schedules.append(
            custom_schedule(file) if isinstance(file, Mapping) else load_algorithm(file)
        )
    wanted = primitive_if(primitive)
    for schedule in schedules:
        if wanted is not None and wanted is not schedule.primitive:
            raise _wrong_primitive(schedule, wanted)
    return _with_free_names(schedules)


def _wrong_primitive(schedule: CustomSchedule, wanted: Primitive) -> ColltoolError:
    """The error for a schedule of another collective."""
    kind = schedule.primitive
    article = "an" if str(kind).startswith("a") else "a"
    return ColltoolError(
        f"{schedule.name} is {article} {kind.label}, not {wanted.label}",
        where=schedule.file,
        fix=f"ask for {kind}, or give a file of {wanted.label}",
    )


def _with_free_names(schedules: Sequence[CustomSchedule]) -> list[CustomSchedule]:
    """Schedules under names that no shipped algorithm has."""
    from colltool.verification.custom_cost import with_unique_names

    return with_unique_names(schedules, _shipped_names())


def _shipped_names() -> set[str]:
    """Names of all shipped algorithms and compositions."""
    flat = {algorithm.name for algorithm in usual_algorithms()}
    return flat.union(composition.name for composition in every_composition())


def plugin_schedules(request: Request) -> tuple[list[CustomSchedule], tuple[Infeasible, ...]]:
    """The schedules that installed packages offer for a request, and the plugins that failed, as rows
    of what cannot run. What plugins print goes to stderr."""
    entries = _plugins()
    if not entries:
        return [], ()
    from colltool.commands.output import printing_to_stderr
    from colltool.custom.plugins import plugin_schedules
    from colltool.estimate.groups import place
    from colltool.estimate.results import Infeasible

    placed = place(request.fabric, request.group)
    with printing_to_stderr():
        schedules, failed = plugin_schedules(
            entries, request.primitive, placed.ranks, placed.placement.per_domain
        )
    reasons = [Infeasible(name, f"plugin failed: {reason}") for name, reason in failed]
    return schedules, tuple(reasons)


@lru_cache(maxsize=1)
def _plugins() -> tuple[EntryPoint, ...]:
    """The entry points of installed packages that offer algorithms."""
    from colltool.base.entry_points import entry_points_of

    return entry_points_of(PLUGINS)


def _listed(files: AnyAlgorithms) -> Sequence[AnyPath | Mapping[str, Any]]:
    """One file or several, as a list or tuple; ColltoolError for anything else."""
    several = [files] if _is_file(files) else files
    if isinstance(several, list | tuple) and all(map(_is_file, several)):
        return several
    raise wrong(
        files,
        "algorithm_files",
        "paths of algorithm files",
        f"write {argument_text('algorithm_files', ['my.xml'])}",
    )


def _is_file(value: Any) -> bool:
    """Whether a value may be an algorithm file: a path, or a mapping of what one holds."""
    return isinstance(value, str | os.PathLike | Mapping)


def ranks_of(
    ranks: int | None, custom: Sequence[CustomSchedule], options: Mapping[str, object]
) -> int | None:
    """The requested number of ranks, else the one that the files are for; None for neither, and
    where the options have a shape, which gives the ranks."""
    if ranks is not None or not custom or options.get("shape") is not None:
        return ranks
    counts = sorted({schedule.ranks for schedule in custom})
    if len(counts) > 1:
        raise ColltoolError(
            f"the files are for {' and '.join(map(str, counts))} ranks",
            argument="algorithm_files",
            fix="give files for one number of ranks per call",
        )
    return counts[0]


def costs_of(custom: Sequence[CustomSchedule], request: Request) -> list[CostModel]:
    """The schedules' costs on the group of a request."""
    if not custom:
        return []
    from colltool.verification.custom_cost import custom_costs

    return custom_costs(custom, request.fabric, request.group, request.readings)


def all_costs(
    custom: Sequence[CustomSchedule], request: Request, only: Sequence[str]
) -> tuple[list[CostModel], tuple[Infeasible, ...]]:
    """The costs of files and plugins on the group of a request, and the plugins that failed.

    Args:
        only: names of the requested algorithms; plugins are asked if it is empty or names one that
            does not ship.
    """
    # requested names that no shipped algorithm has: of plugins, or of the files
    of_plugins: set[str] = set()
    if only:
        shipped = _shipped_names() | {row.name for row in on_request()}
        of_plugins = {name for name in only if parse_choice(name).base not in shipped}
    readings = request.readings
    asks_plugins = of_plugins or not only
    # schedules are followed on packed groups with all ports
    if not asks_plugins or readings.placement != "packed" or readings.ports != "all":
        return costs_of(custom, request), ()
    offered, failed = plugin_schedules(request)
    for plugin in failed:
        if plugin.algorithm in of_plugins:
            raise ColltoolError(
                f"{plugin.algorithm}: {plugin.reason}",
                argument="algorithms",
                fix="see to the package that offers it",
            )
    # a table of all algorithms lists plugins that failed; one of named algorithms does not
    listed = () if only else failed
    if not offered:
        return costs_of(custom, request), listed
    # a plugin's name gives way to one of a file, which comes first; the order stays
    renamed = _with_free_names([*custom, *offered])
    files = renamed[: len(custom)]
    plugins = [plugin for plugin in renamed[len(custom) :] if not only or plugin.name in of_plugins]
    return costs_of([*files, *plugins], request), listed


def refuse_files(files: AnyAlgorithms) -> None:
    """Raise ColltoolError for algorithm files in a request that kernels answer."""
    if not is_nothing(files):
        raise ColltoolError(
            "your own algorithm can be compared with those of NCCL and other such libraries, not"
            " with the kernels of an engine",
            argument="algorithm_files",
            fix=f"leave {argument_text('library')} out, or the file",
        )
