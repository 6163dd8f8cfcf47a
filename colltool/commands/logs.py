"""Logs of benchmarks as arguments of several commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from colltool.base.primitives import Primitive

if TYPE_CHECKING:
    from colltool.commands.reading import AnyPath
    from colltool.logs.series import Measurements

    Logs = Measurements | AnyPath | Sequence[AnyPath]


MOST = 10**9  # ranks or nodes that a log may be said to have


def measurements_of(
    logs: Any,
    ranks: int | None,
    primitive: Primitive | str | None,
    nodes: int | None,
    in_place: bool,
) -> Measurements:
    """Read logs into series; the other arguments are for logs that do not say."""
    from colltool.commands.reading import count_if, flag_of, paths_of, primitive_of
    from colltool.logs.read import read_logs
    from colltool.logs.series import Measurements

    wanted = None if primitive is None else primitive_of(primitive)
    count, machines = (
        count_if(ranks, "ranks", -MOST, MOST),
        count_if(nodes, "nodes", -MOST, MOST),
    )
    half = flag_of(in_place, "in_place")
    if isinstance(logs, Measurements):
        return logs
    paths = paths_of(logs, "logs", "logs", "all_reduce.log")
    return read_logs(paths, ranks=count, primitive=wanted, nodes=machines, in_place=half)
