"""Algorithms of one's own among the arguments: files are read and proved, and priced on the group
of a question."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from colltool.algorithms.composed import compositions
from colltool.algorithms.registry import algorithms, on_request, parse_choice
from colltool.base.errors import ColltoolError, given
from colltool.base.primitives import Primitive
from colltool.commands import reading as v

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from colltool.commands.reading import AnyPath
    from colltool.commands.requests import Request
    from colltool.custom.schedule import OwnSchedule
    from colltool.estimate.cost_model import CostModel
    from colltool.estimate.results import Infeasible

PLUGINS = "colltool.algorithms"
"""The group of entry points behind which packages offer algorithms."""
AnyAlgorithms = Any
"""Paths of algorithm files, or mappings of what one would hold; one, or several in a list."""


def own_of(files: AnyAlgorithms, primitive: Primitive | str | None) -> list[OwnSchedule]:
    """The schedules of files, executed and proved, under names of their own; all of them of the
    primitive, if one is given."""
    if v.is_nothing(files):
        return []
    from colltool.custom.file import load_algorithm, own_schedule

    found = [
        own_schedule(one) if isinstance(one, Mapping) else load_algorithm(one)
        for one in _listed(files)
    ]
    asked = None if primitive is None else v.primitive_of(primitive)
    for one in found:
        if asked not in (None, one.primitive):
            assert asked is not None
            what = (
                f"{one.name} is {'an' if str(one.primitive)[0] == 'a' else 'a'}"
                f" {one.primitive.spoken}"
            )
            fix = f"ask for {one.primitive}, or give a file of {asked.spoken}"
            raise ColltoolError(f"{what}, not {asked.spoken}", where=one.file, fix=fix)
    return _renamed(found)


def _renamed(found: Sequence[OwnSchedule]) -> list[OwnSchedule]:
    from colltool.verification.own_cost import with_own_names

    return with_own_names(found, _taken())


def _taken() -> set[str]:
    return {
        row.name
        for one in Primitive
        for rows in (algorithms(one), compositions(one))
        for row in rows
    }


def of_plugins(on: Request) -> tuple[list[OwnSchedule], tuple[Infeasible, ...]]:
    """What installed packages offer for a question, and which of them failed; nothing is loaded
    where there are none."""
    if not (entries := _plugins()):
        return [], ()
    from colltool.custom.plugins import offered
    from colltool.estimate.groups import place
    from colltool.estimate.results import Infeasible

    placed = place(on.fabric, on.group)
    found, failed = offered(entries, on.primitive, placed.ranks, placed.placement.per_domain)
    return found, tuple(Infeasible(name, f"plugin failed: {reason}") for name, reason in failed)


@lru_cache(maxsize=1)
def _plugins() -> tuple[EntryPoint, ...]:
    from colltool.base.entry_points import entry_points_of

    return entry_points_of(PLUGINS)


def _listed(files: AnyAlgorithms) -> Sequence[AnyPath | Mapping[str, Any]]:
    several = [files] if isinstance(files, str | os.PathLike | Mapping) else files
    if not isinstance(several, list | tuple) or not all(
        isinstance(one, str | os.PathLike | Mapping) for one in several
    ):
        raise v.wrong(
            files,
            "algorithm_files",
            "paths of algorithm files",
            f"write {given('algorithm_files', ['my.xml'])}",
        )
    return several


def ranks_of(
    ranks: int | None, own: Sequence[OwnSchedule], options: Mapping[str, Any]
) -> int | None:
    """So many ranks as were asked for, else as the files are for."""
    if ranks is not None or not own or options.get("shape") is not None:
        return ranks
    counts = sorted({one.ranks for one in own})
    if len(counts) > 1:
        what = f"the files are for {' and '.join(map(str, counts))} ranks"
        raise ColltoolError(what, argument="algorithm_files", fix="one number of ranks a call")
    return counts[0]


def costs_of(own: Sequence[OwnSchedule], on: Request) -> list[CostModel]:
    """The schedules' costs on the group that is asked for."""
    if not own:
        return []
    from colltool.verification.own_cost import own_costs

    return own_costs(own, on.fabric, on.group, on.readings)


def all_costs(
    own: Sequence[OwnSchedule], on: Request, only: Sequence[str]
) -> tuple[list[CostModel], tuple[Infeasible, ...]]:
    """The costs of files and of what plugins offer, if algorithms are named of those; and the
    plugins that failed."""
    named = {
        one
        for one in only
        if parse_choice(one).base not in _taken() | {row.name for row in on_request()}
    }
    if (only and not named) or on.readings.placement != "packed" or on.readings.ports != "all":
        return costs_of(own, on), ()
    offered, failed = of_plugins(on)
    if told := next((one for one in failed if one.algorithm in named), None):
        raise ColltoolError(
            f"{told.algorithm}: {told.reason}",
            argument="algorithms",
            fix="see to the package that offers it",
        )
    every = _renamed([*own, *offered]) if offered else own
    theirs = [one for one in every[len(own) :] if not only or one.name in named]
    return costs_of([*every[: len(own)], *theirs], on), () if only else failed


def no_files(files: AnyAlgorithms) -> None:
    """Refuse files where an engine's kernels are asked for."""
    if not v.is_nothing(files):
        what = (
            "a schedule is priced beside those of NCCL and its like, not beside an engine's kernels"
        )
        raise ColltoolError(
            what, argument="algorithm_files", fix=f"leave {given('library')} out, or the file"
        )
