"""Runs of sizes at which one column does the same beside another, and how those of several numbers of ranks are joined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

from colltool.analysis.grid import Cell, PriceRequest, winner
from colltool.base.primitives import Primitive
from colltool.estimate.group_spec import GroupSpec
from colltool.estimate.groups import PlacedGroup, Span, place
from colltool.estimate.path_classes import tier_paths
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of

NEAR = 1.25  # sizes that far apart are one in a sentence

Outcome = Literal["same", "slower", "faster", "unlike", "first", "other", "neither"]


class OutcomeRange(NamedTuple):
    """Sizes in a row at which a column is slower, faster or the same as the first; ``ratio`` is the farthest from 1.

    ``unlike``: one of the two leaves out a launch that the other has. ``within``: the model's error, where the difference is no
    larger. ``why``: of what is the same.
    """

    outcome: Outcome
    from_bytes: float
    to_bytes: float
    ratio: float
    within: float | None = None
    why: tuple[SameReason, ...] = ()


Met = tuple[int, tuple[OutcomeRange, ...]]
"""A number of ranks, and what a column does there."""


def alike(each: Sequence[Met]) -> list[list[Met]]:
    """Numbers of ranks in a row that meet the same at about the same sizes."""
    groups: list[list[Met]] = []
    for one in each:
        if groups and _same_runs(groups[-1][0][1], one[1]):
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _same_runs(some: Sequence[OutcomeRange], others: Sequence[OutcomeRange]) -> bool:
    if [(run.outcome, run.within is None) for run in some] != [(run.outcome, run.within is None) for run in others]:
        return False
    edges = ((one.to_bytes, other.to_bytes) for one, other in zip(some, others, strict=True))
    return all(max(pair) <= NEAR * min(pair) for pair in edges)


def farthest(ratios: Sequence[float]) -> float:
    """The ratio that is farthest from 1, either way."""
    return max(ratios, key=lambda ratio: max(ratio, 1 / ratio))


def merged(several: Sequence[Sequence[OutcomeRange]]) -> tuple[OutcomeRange, ...]:
    """Runs of several numbers of ranks that meet the same: the widest sizes, the farthest ratio."""
    return tuple(
        OutcomeRange(
            same[0].outcome,
            min(run.from_bytes for run in same),
            max(run.to_bytes for run in same),
            farthest([run.ratio for run in same]),
            max((run.within for run in same if run.within is not None), default=None),
        )
        for same in zip(*several, strict=True)
    )


Reason = Literal["tier", "level", "share", "unpaid", "small"]


class SameReason(NamedTuple):
    """A reason, and what it is about.

    Args:
        reason: ``tier``: the group has no two ranks that meet on it; ``level``: none meet at it, as one domain of the level below
            holds all; ``share``: few enough messages cross it at a time; ``unpaid``: the fastest schedule pays nothing of the
            kind; ``small``: it moves the time, by less than is called a difference.
        key: the value that differs; empty between fabrics.
        tier, level: where it stands.
        below: the level below, and ``endpoints`` of the group on the tier: a domain of it holds them all.
        algorithm: the fastest.
        most: the farthest that the time moves, as a share.
    """

    reason: Reason
    key: str = ""
    tier: str = ""
    level: str = ""
    below: str = ""
    endpoints: int = 0
    algorithm: str = ""
    most: float = 0.0


def why_same(
    fabric: Fabric, asked: PriceRequest, group: GroupSpec, size: float, keys: Sequence[str], most: float
) -> tuple[SameReason, ...]:
    """Why values of a fabric make no difference.

    Args:
        fabric: one of the two.
        asked, group, size: what runs.
        keys: those in which the two differ; none between two files.
        most: the farthest from 1 that the ratio of their times is.
    """
    algorithm = winner(fabric, asked, group, size).title
    if most > 1e-9 or not keys:
        return (SameReason("small" if most > 1e-9 else "unpaid", " and ".join(keys), algorithm=algorithm, most=most),)
    placed = place(fabric, group)
    return tuple(_unused(placed, asked, key, algorithm) for key in keys)


def _unused(placed: PlacedGroup, asked: PriceRequest, key: str, algorithm: str) -> SameReason:
    parts = key.split(".")
    parts = parts[1:] if parts[0] == "tiers" else parts
    tiers = placed.fabric.tiers
    tier = next((one for at, one in enumerate(tiers) if parts[0] in (one.name, str(at))), None)
    if tier is None:
        return SameReason("unpaid", key, algorithm=algorithm)
    span = next((one for one in placed.spans if one.tier.name == tier.name), None)
    if span is None:
        return SameReason("tier", key, tier.name, algorithm=algorithm)
    if parts[1:2] == ["levels"] and len(parts) > 2:
        return _of_level(span, asked, key, parts, algorithm)
    return SameReason("unpaid", key, tier.name, algorithm=algorithm)


def _of_level(span: Span, asked: PriceRequest, key: str, parts: Sequence[str], algorithm: str) -> SameReason:
    names = [level.name for level in capabilities_of(span.tier).levels]
    at = names.index(parts[2]) if parts[2] in names else int(parts[2])
    met = [level.name for level in tier_paths(span.tier, span.endpoints, asked.readings, occupancy=span.occupancy).used]
    where = SameReason("unpaid", key, span.tier.name, names[at], algorithm=algorithm)
    if names[at] not in met and at:
        return where._replace(reason="level", below=names[at - 1], endpoints=span.endpoints)
    return where._replace(reason="share") if parts[-1] in ("oversubscription", "uplinks") else where


class OnePortWinner(NamedTuple):
    """A row in which another column is the fastest once a rank sends one message at a time over one port."""

    primitive: Primitive
    ranks: int
    bytes: float
    column: str
    instead_of: str


class ColumnRow(Protocol):
    """The cells of all columns at a primitive, a number of ranks and a size."""

    @property
    def primitive(self) -> Primitive:
        """What is priced."""

    @property
    def ranks(self) -> int:
        """On how many."""

    @property
    def bytes(self) -> float:
        """The size, bytes."""

    @property
    def cells(self) -> tuple[Cell, ...]:
        """One for each column."""


def one_port_winners(
    asked: PriceRequest, rows: Callable[[PriceRequest], Iterable[ColumnRow]], columns: Sequence[str], least: float
) -> Iterator[OnePortWinner]:
    """The rows whose fastest column is another one on one port, where it leads there by more than ``least``, a share.

    None where algorithms are named, or ports: then nothing else was asked.
    """
    if asked.only or asked.readings.ports != "all":
        return
    one_port = asked._replace(readings=asked.readings._replace(ports="one"))
    for now, then in zip(rows(asked), rows(one_port), strict=True):
        here, there = _fastest(now.cells), _fastest(then.cells)
        if here is None or there is None or here == there:
            continue
        before, after = then.cells[here].total_s, then.cells[there].total_s
        if before is None or after is None or before > after * (1 + least):
            yield OnePortWinner(now.primitive, now.ranks, now.bytes, columns[there], columns[here])


def _fastest(cells: Sequence[Cell]) -> int | None:
    priced = [(one.total_s, at) for at, one in enumerate(cells) if one.total_s is not None]
    return min(priced)[1] if priced else None
