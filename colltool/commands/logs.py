"""Logs of benchmarks as arguments of several commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from colltool.base.primitives import Primitive
    from colltool.commands.reading import AnyPath
    from colltool.logs.series import Measurements

    Logs = Measurements | AnyPath | Sequence[AnyPath]

MOST = 10**9
"""The most ranks or nodes that a log may be said to have: what is wrong with a number is the log's
to say, at its line."""


def measurements_of(
    logs: Any,
    ranks: int | None,
    primitive: Primitive | str | None,
    nodes: int | None,
    in_place: bool,
) -> Measurements:
    """Read logs into series; the other arguments are for logs that do not say."""
    from colltool.commands.reading import count_if, flag_of, paths_of, primitive_if
    from colltool.logs.read import read_logs
    from colltool.logs.series import Measurements

    hints: dict[str, Any] = {
        "primitive": primitive_if(primitive),
        "ranks": count_if(ranks, "ranks", -MOST, MOST),
        "nodes": count_if(nodes, "nodes", -MOST, MOST),
        "in_place": flag_of(in_place, "in_place"),
    }
    if isinstance(logs, Measurements):
        return logs
    return read_logs(paths_of(logs, "logs", "logs", "all_reduce.log"), **hints)
