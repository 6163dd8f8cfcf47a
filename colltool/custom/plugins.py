"""Algorithms of installed packages: functions behind the entry points of the group
``colltool.algorithms``.

A function is called as ``make(primitive="all_reduce", ranks=64, domains=(8, 8))``, ``domains``
being the members of each domain, innermost tier first. It returns what an algorithm file holds, as
a mapping or a text, or None where it has nothing to offer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from colltool.base.errors import ColltoolError, clipped, quote
from colltool.base.primitives import Primitive
from colltool.custom.file import custom_schedule
from colltool.custom.schedule import CustomSchedule

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_LONGEST_REASON = 200  # characters of why a plugin failed


def plugin_schedules(
    entries: Sequence[EntryPoint], primitive: Primitive, ranks: int, domains: Sequence[int]
) -> tuple[list[CustomSchedule], list[tuple[str, str]]]:
    """Return the schedules of all plugins that offer one, executed and checked; and (name, reason) of each
    plugin that failed. ``domains``: members of each domain, innermost tier first."""
    schedules: list[CustomSchedule] = []
    failed: list[tuple[str, str]] = []
    for entry in entries:
        try:
            returned: Any = entry.load()(
                primitive=str(primitive), ranks=ranks, domains=tuple(domains)
            )
            if returned is not None:
                schedules.append(_schedule_of(returned, f"plugin {entry.name}", primitive, ranks))
        # Code of others: whatever it raises, a price must not fail by it.
        except (Exception, SystemExit) as error:
            reason = str(error)
            if not isinstance(error, ColltoolError):
                reason = f"{type(error).__name__}: {reason}"
            failed.append((entry.name, clipped(reason.replace("\n", " "), _LONGEST_REASON)))
    return schedules, failed


def _schedule_of(returned: object, name: str, primitive: Primitive, ranks: int) -> CustomSchedule:
    """The schedule that a plugin returned for a group; ``name``: the plugin, for errors."""
    if not isinstance(returned, str | Mapping):
        raise ColltoolError(f"it returned {quote(returned)}, not a mapping or a text", where=name)
    # A mapping has no lines: its errors name key paths, the name is put in front below.
    schedule = custom_schedule(returned, name if isinstance(returned, str) else "")
    # It may have answered for another group.
    if (schedule.primitive, schedule.ranks) != (primitive, ranks):
        what = (
            f"asked for {primitive.label} on {ranks} ranks it returned {schedule.primitive.label}"
            f" on {schedule.ranks}"
        )
        raise ColltoolError(what, where=name)
    return schedule._replace(file=name)
