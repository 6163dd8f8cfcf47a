"""The groups of a layout: what they run, their traffic, and where their members are: :func:`jobs_of`.

Groups that run alike stay together, as half a million of them do: first in stretches of the layout,
then in batches whose traffic is the same.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from math import prod
from typing import NamedTuple

import numpy as np

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.formatting import MAX_SIZE
from colltool.base.primitives import A2A, AR, Primitive
from colltool.congestion.layout_groups import GroupLayout, Layout, PatternGroups
from colltool.congestion.skew import LEAST_BYTES, Skew, mean_bytes, skewed
from colltool.congestion.traffic import (
    MOST_MESSAGES,
    Members,
    SubLattice,
    Traffic,
    TrafficRow,
    message_estimate,
)
from colltool.congestion.traffic_by_formula import default_of
from colltool.congestion.traffic_rows import traffic_row
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.network.arrays import Floats, Indices
from colltool.network.links import SMALL


class GroupJob(NamedTuple):
    """What a group runs."""

    primitive: Primitive
    algorithm: str
    size: float | None  # bytes per rank; None: loads in units of M

    @property
    def scale(self) -> float:
        """What M is in the unit of loads."""
        return 1.0 if self.size is None else self.size


class JobBatch(NamedTuple):
    """Consecutive groups of a layout that run alike. Traffic is in units of M, the job's ``scale``."""

    job: GroupJob
    start: int  # number of the first group
    ends: Indices  # endpoints of their members, shape (groups, N)
    traffic: Traffic  # between members
    uniform: Floats  # sizes of the uniform traffic to compare with, shape of ``traffic.size``
    key: tuple[object, ...]  # the same for batches of the same run and traffic


class JobDefaults(NamedTuple):
    """What a group runs where the layout does not say."""

    primitive: Primitive | None
    algorithm: str | None
    size: float | None
    skew: Skew


class _JobStretch(NamedTuple):
    """Consecutive groups of a layout that run the same on as many ranks."""

    example: GroupLayout  # the first, which stands for all in errors
    start: int  # its number
    ends: Indices  # endpoints, shape (groups, N)


def jobs_of(fabric: Fabric, layout: Layout, defaults: JobDefaults) -> list[JobBatch]:
    """The groups of a layout in order, with their traffic.

    Raises:
        ColltoolError: a group that does not fit the fabric, sizes or a skew that fit no group, an
            algorithm that cannot run or whose traffic is not known, or too many messages.
    """
    if not layout.groups:
        raise ColltoolError(
            f"layout '{layout.name}' has no groups",
            argument="layout",
            fix="at least one of 2 ranks",
        )
    stretches = list(_stretches(layout.groups))
    jobs = []
    for stretch in stretches:
        _check_members(stretch, fabric)
        jobs.append(_job(stretch.example, defaults))
    if defaults.skew.is_set and all(job.primitive is not A2A for job in jobs):
        raise ColltoolError(
            "a skew applies to an all-to-all, and no group runs one",
            argument="primitive",
            fix=f"take {argument_text('primitive', 'a2a')}",
        )
    _check_sizes(stretches, jobs)
    rows = _traffic_rows(stretches, jobs)
    # by all that traffic depends on, as it is worked out once
    traffic_of: dict[tuple[object, ...], tuple[Traffic, Floats]] = {}
    batches = []
    for stretch, job, row in zip(stretches, jobs, rows, strict=True):
        for start, ends, members in _with_members(fabric, stretch, row):
            key = (job.primitive, job.algorithm, members.key)
            if key not in traffic_of:
                with _error_context(stretch.example):
                    traffic_of[key] = _traffic(job, row, members, defaults.skew)
            traffic, uniform = traffic_of[key]
            batch = JobBatch(
                job=job,
                start=start,
                ends=ends.astype(SMALL, copy=False),
                traffic=traffic,
                uniform=uniform,
                key=(*key, job.size),
            )
            batches.append(batch)
    # Again: how many messages a schedule has is known only once it has run.
    _check_message_count(sum(len(batch.ends) * len(batch.traffic.src) for batch in batches))
    return batches


def _traffic_rows(stretches: Sequence[_JobStretch], jobs: Sequence[GroupJob]) -> list[TrafficRow]:
    """How the traffic of each stretch is known. ColltoolError where it is not, or where it is estimated to
    be too many messages."""
    rows = []
    messages = 0
    for stretch, job in zip(stretches, jobs, strict=True):
        with _error_context(stretch.example):
            row = traffic_row(job.primitive, job.algorithm)
        groups, ranks = stretch.ends.shape
        messages += groups * message_estimate(row, ranks)
        rows.append(row)
    _check_message_count(messages)
    return rows


def _stretches(groups: Sequence[GroupLayout]) -> Iterator[_JobStretch]:
    """Consecutive groups that run the same on as many ranks; a pattern's groups all do."""
    if isinstance(groups, PatternGroups):
        yield _JobStretch(groups[0], 0, groups.ends)
        return

    def what_runs(group: GroupLayout) -> tuple[object, ...]:
        """What groups of a stretch have in common."""
        return group.primitive, group.algorithm, group.size, len(group.endpoints)

    start = 0
    for _, consecutive in groupby(groups, key=what_runs):
        alike = list(consecutive)
        yield _JobStretch(alike[0], start, np.array([group.endpoints for group in alike]))
        start += len(alike)


def _group_error(group: GroupLayout, argument: str, what: str, fix: str) -> ColltoolError:
    """An error at the group's place in the file, if it has one."""
    return ColltoolError(what, where=group.where, argument="" if group.where else argument, fix=fix)


def _check_members(stretch: _JobStretch, fabric: Fabric) -> None:
    """Raise ColltoolError for groups of one rank, and for endpoints that are outside the fabric or twice
    in a group. A layout file is checked where it is read, a layout built in Python is not."""
    group = stretch.example
    ends = stretch.ends
    ranks = ends.shape[1]
    if ranks < 2:
        raise _group_error(
            group, "group", f"group '{group.name}' has {ranks} ranks", "a group has at least 2"
        )
    outside = (ends < 0) | (ends >= fabric.ranks)
    if outside.any():
        raise _group_error(
            group,
            "layout",
            f"endpoint {ends[outside][0]} is outside {fabric.name}",
            f"0 .. {fabric.ranks - 1}",
        )
    ordered = np.sort(ends, axis=1)  # equal ones of a group are neighbours
    twice = ordered[:, 1:] == ordered[:, :-1]
    if twice.any():
        what = f"endpoint {ordered[:, 1:][twice][0]} is in a group twice"
        raise _group_error(group, "layout", what, "one rank on each endpoint")


def _job(group: GroupLayout, defaults: JobDefaults) -> GroupJob:
    """What a group runs: its own primitive, algorithm and size, else the defaults."""
    # A skew without a primitive means an all-to-all: nothing else can be skewed.
    primitive = group.primitive or defaults.primitive or (A2A if defaults.skew.is_set else AR)
    size = defaults.size if group.size is None else group.size
    if defaults.skew.matrix is not None and primitive is A2A:
        size = mean_bytes(defaults.skew)
    if size is not None and not LEAST_BYTES <= size <= MAX_SIZE:
        raise _group_error(
            group, "size", f"a size of {size} bytes", "a size is bytes per rank, such as 16MB"
        )
    algorithm = group.algorithm or defaults.algorithm or default_of(primitive)
    return GroupJob(primitive, algorithm, size)


def _check_sizes(stretches: Sequence[_JobStretch], jobs: Sequence[GroupJob]) -> None:
    """Raise ColltoolError for a layout in which some groups have a size and others have none."""
    sizes = [job.size for job in jobs]
    if None in sizes and any(size is not None for size in sizes):
        group = stretches[sizes.index(None)].example
        fix = f"{argument_text('size', '16MB')} holds for every group that gives none"
        raise _group_error(group, "size", f"group '{group.name}' has no size, others have one", fix)


def _check_message_count(messages: int) -> None:
    """Raise ColltoolError for more messages than a run follows."""
    if messages > MOST_MESSAGES:
        limit = f"more than the {MOST_MESSAGES} that are followed one by one"
        raise ColltoolError(
            f"{messages} messages between pairs are {limit}",
            argument="group",
            fix="an all-to-all of at most 1448 ranks; smaller groups, or fewer",
        )


@contextmanager
def _error_context(group: GroupLayout) -> Iterator[None]:
    """Make errors name the group, and its place in the file where the file chose the algorithm or no
    option is to blame; an error with neither place nor argument is of the algorithm."""
    try:
        yield
    except ColltoolError as error:
        where = error.where
        if group.where and error.argument in ("", "algorithm"):
            where = group.where
        argument = "" if where else error.argument or "algorithm"
        what = f"group '{group.name}': {error.what}"
        raise ColltoolError(what, where=where, argument=argument, fix=error.fix) from error


def _traffic(
    job: GroupJob, row: TrafficRow, members: Members, skew: Skew
) -> tuple[Traffic, Floats]:
    """The traffic of one group, and the sizes of the uniform traffic to compare it with: under a skew
    those of an even all-to-all, else its own.

    Raises:
        ColltoolError: a skew of an algorithm that forwards blocks.
    """
    plain = row.make_traffic(members)
    if job.primitive is not A2A or not skew.is_set:
        return plain, plain.size
    if not row.dense:
        what = "forwards blocks through other ranks, and is not modelled under a skew"
        raise ColltoolError(
            f"{job.algorithm} {what}",
            argument="algorithm",
            fix=f"take {argument_text('algorithm', default_of(A2A))}",
        )
    return skewed(skew, members.ranks)


def _with_members(
    fabric: Fabric, stretch: _JobStretch, row: TrafficRow
) -> Iterator[tuple[int, Indices, Members]]:
    """The groups of a stretch with what their traffic depends on: the number of the first, endpoints of
    shape (groups, N), and members. Where traffic depends on the members' places they come one group
    after the other, with the endpoints in the order of the schedule; else all groups at once."""
    ranks = stretch.ends.shape[1]
    if not row.by_axes and row.positions is None:
        yield stretch.start, stretch.ends, Members(ranks)
        return
    for number, ends in enumerate(stretch.ends, start=stretch.start):
        in_order = ends
        members = Members(ranks)
        if row.by_axes:
            members = Members(ranks, lattice=_sub_lattice(fabric, ends))
        elif row.positions is not None:
            with _error_context(stretch.example):
                positions = row.positions(fabric, ends)
            members = Members(ranks, positions=positions)
            in_order = ends[positions.order]
        yield number, in_order[None], members


def _sub_lattice(fabric: Fabric, ends: Indices) -> SubLattice | None:
    """The members by lattice coordinates, where they fill a sub-lattice of one domain of the
    innermost tier; None elsewhere, and where that tier is no lattice.

    Endpoints 1, 3, 5 and 7 of a 4x2 mesh lie at 1 and 3 along the first axis, 0 and 1 along the second:
    four members fill a sub-lattice of 2x2.
    """
    tier = fabric.tiers[0]
    lattice = capabilities_of(tier).axes
    if not lattice or len(np.unique(ends // tier.endpoints)) > 1:
        return None
    coordinates = []
    rings = []
    numbers = ends % tier.endpoints  # within all axes that are still to be read
    for axis in lattice:
        # places in use on the axis, and of each member the index among them
        places, coordinate = np.unique(numbers % axis.size, return_inverse=True)
        coordinates.append(coordinate)
        # A ring of fewer than all places closes where they are evenly spaced all the way round.
        steps = np.unique(np.diff(places, append=places[0] + axis.size))
        rings.append(axis.is_ring and len(places) >= 3 and len(steps) == 1)
        numbers = numbers // axis.size
    extents = [int(coordinate.max()) + 1 for coordinate in reversed(coordinates)]
    if prod(extents) != len(ends):
        return None
    grid = np.empty(extents, dtype=np.int64)
    grid[tuple(reversed(coordinates))] = np.arange(len(ends))
    return SubLattice(grid, tuple(reversed(rings)))
