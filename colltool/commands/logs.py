"""Logs of benchmarks as an argument of calibrate, doctor, expect and validate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from colltool.base.primitives import Primitive
    from colltool.commands.reading import AnyPath
    from colltool.logs.series import Measurements

    Logs = Measurements | AnyPath | Sequence[AnyPath]

# Bound of ranks and nodes given for a log, up and down: what is wrong but no slip of a key, such as a
# negative number, is left to the reader of the log, whose errors name the log.
MAX_LOG_COUNT = 10**9


def measurements_of(
    logs: Any,
    ranks: int | None,
    primitive: Primitive | str | None,
    nodes: int | None,
    in_place: bool,
) -> Measurements:
    """Series of measurements from logs, or ``logs`` itself if they were read before.

    Args:
        ranks, primitive, nodes: for logs that do not say them.
        in_place: whether to take the in-place half of nccl-tests' tables.

    Raises:
        ColltoolError: a value that cannot be, or logs that cannot be read.
    """
    from colltool.commands.reading import count_if, flag_of, primitive_if
    from colltool.logs.read import read_logs
    from colltool.logs.series import Measurements

    # before anything else: what is given wrong is refused whether it is needed or not
    hints: dict[str, Any] = {
        "primitive": primitive_if(primitive),
        "ranks": count_if(ranks, "ranks", -MAX_LOG_COUNT, MAX_LOG_COUNT),
        "nodes": count_if(nodes, "nodes", -MAX_LOG_COUNT, MAX_LOG_COUNT),
        "in_place": flag_of(in_place, "in_place"),
    }
    if isinstance(logs, Measurements):
        return logs
    return read_logs(_log_paths(logs), **hints)


def devices_of(logs: Any) -> tuple[str, ...]:
    """The devices that logs name; none where they were read before."""
    from colltool.logs.hardware_in_log import logged_hardware
    from colltool.logs.series import Measurements

    if isinstance(logs, Measurements):
        return ()
    return logged_hardware(_log_paths(logs)).devices


def _log_paths(logs: Any) -> Sequence[AnyPath]:
    """One log or several, as a list of paths."""
    from colltool.commands.reading import paths_of

    return paths_of(logs, "logs", "logs", "all_reduce.log")
