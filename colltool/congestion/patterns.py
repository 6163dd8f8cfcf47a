"""Patterns of groups and of rank-to-endpoint maps, as schedulers and launchers make them.

:func:`expand` lays out the groups of a :class:`Pattern`, :func:`expand_map` the endpoints of a
:class:`MapPattern`. Ranks are numbered from 0 through the fabric, the innermost tier and the first axis
fastest.
"""

from collections.abc import Sequence
from math import prod
from random import Random
from typing import Literal, NamedTuple, assert_never, get_args

import numpy as np

from colltool.base.errors import ColltoolError, argument_text, clipped, nearest
from colltool.base.formatting import shape_text
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.network.arrays import Indices

PatternKind = Literal["block", "cyclic", "random", "axis", "box"]
MapKind = Literal["identity", "reverse", "cyclic", "rotate", "random"]
KINDS: tuple[PatternKind, ...] = get_args(PatternKind)
MAP_KINDS: tuple[MapKind, ...] = get_args(MapKind)
Ranks = tuple[int, ...]


class PatternError(ColltoolError):
    """A pattern that cannot be laid out; ``key`` is the key (or option) to change."""

    def __init__(self, key: str, what: str, fix: str = "") -> None:
        self.key = key
        super().__init__(what, fix=fix)


class Pattern(NamedTuple):
    """``count`` groups of ``group`` ranks each, by kind:

    - block: consecutive ranks, a new group every ``stride``;
    - cyclic: ranks ``stride`` apart, as round robin over domains leaves them;
    - random: a shuffle by ``seed``, cut in blocks;
    - axis: along one axis of a lattice, ranks ``stride`` apart on the line;
    - box: sub-lattices of ``shape``, first axis fastest.
    """

    kind: PatternKind = "block"
    group: int | None = None  # None: all of the fabric, or of the axis
    count: int | None = None  # type: ignore[assignment]  # the file's word, over tuple's method
    axis: int = 1  # from 1
    # None: ``group`` for block, the farthest that fits for cyclic, 1 for axis
    stride: int | None = None
    start: int = 0  # ranks left free before the first group
    seed: int = 0
    shape: Ranks = ()  # ranks along each axis


class MapPattern(NamedTuple):
    """The endpoint of each rank, by kind:

    - identity: the rank's own number;
    - reverse: the last first;
    - cyclic: round robin over the domains;
    - rotate: position p of domain k moves to p + k, which breaks rails;
    - random: a shuffle by ``seed``.
    """

    kind: MapKind = "identity"
    domain: int | None = None  # endpoints in a domain; None: those of the innermost tier
    seed: int = 0


# The fields that each kind looks at, besides ``kind``.
_USED: dict[PatternKind, tuple[str, ...]] = {
    "block": ("group", "count", "stride", "start"),
    "cyclic": ("group", "count", "stride", "start"),
    "random": ("group", "count", "start", "seed"),
    "axis": ("group", "count", "axis", "stride"),
    "box": ("group", "count", "shape"),
}


def expand(pattern: Pattern, fabric: Fabric, total: int) -> list[Ranks]:
    """The ranks of each group, out of ``total`` ranks; :class:`PatternError` where they do not
    fit."""
    _check_kind(pattern.kind, KINDS, "pattern")
    _check_fields(pattern, total)
    match pattern.kind:
        case "block" | "cyclic" | "random":
            groups = _on_line(pattern, total)
            described = f"of {groups.shape[1]} ranks"
        case "axis":
            groups = _on_lattice(pattern, fabric, total)
            described = f"along axis {pattern.axis}"
        case "box":
            groups = _on_lattice(pattern, fabric, total)
            described = f"of shape {shape_text(pattern.shape)}"
        case _:
            assert_never(pattern.kind)
    most = len(groups)
    if not most:
        what = f"no group {described} fits in {total} ranks at this stride"
        raise PatternError("stride" if pattern.stride else "group", what, "make it smaller")
    count = pattern.count or most
    if count > most:
        what = f"{count} groups {described} do not fit: there is room for {most}"
        raise PatternError("count", what, f"at most {most}")
    return [tuple(ranks) for ranks in groups[:count].tolist()]


def _check_fields(pattern: Pattern, total: int) -> None:
    """Raise PatternError for fields that a pattern of this kind does not use, and for values that no
    pattern may have."""
    for key, default in Pattern()._asdict().items():
        # A value that the kind ignores is a mistake.
        if key != "kind" and key not in _USED[pattern.kind] and getattr(pattern, key) != default:
            kinds = [kind for kind, fields in _USED.items() if key in fields]
            fix = f"it belongs to {', '.join(kinds)}"
            raise PatternError(key, f"'{pattern.kind}' has no {key}", fix)
    for key in ("group", "count", "stride", "axis"):
        value = getattr(pattern, key)
        least = 2 if key == "group" else 1
        if value is not None and value < least:
            rule = "a group has at least 2 ranks" if key == "group" else f"{key} is at least 1"
            raise PatternError(key, f"{rule}, got {value}", "write a larger one")
    if not 0 <= pattern.start < total:
        what = f"start must be a rank of 0 .. {total - 1}, got {pattern.start}"
        raise PatternError("start", what, "leave fewer ranks free")


def _check_kind(word: str, known: Sequence[str], noun: str) -> None:
    """Raise PatternError for a word that is none of the known kinds of ``noun``, a pattern or map."""
    if word not in known:
        fix = f"{nearest(word, list(known))} known: {', '.join(known)}".strip()
        raise PatternError("kind", f"unknown {noun} '{clipped(word)}'", fix)


def _on_line(pattern: Pattern, total: int) -> Indices:
    """The ranks of the groups of a block, cyclic or random pattern; shape (groups, N)."""
    room = total - pattern.start
    group = pattern.group or room
    if group > room:
        what = f"a group of {group} ranks does not fit in {room}"
        raise PatternError("group", what, f"at most {room}")
    ranks = np.arange(pattern.start, total)
    if pattern.kind == "cyclic":
        return ranks[_interleave(room, group, pattern.stride or room // group)]
    stride = pattern.stride or group
    if stride < group:
        what = f"blocks of {group} ranks overlap at a stride of {stride}"
        raise PatternError("stride", what, f"at least {group}")
    if pattern.kind == "random":
        ranks = np.array(_shuffle(ranks, pattern.seed))
    # A stride longer than all ranks leaves one group.
    starts = np.arange(0, room - group + 1, min(stride, room))
    return ranks[np.add.outer(starts, np.arange(group))]


def _shuffle(ranks: Indices, seed: int) -> list[int]:
    """The ranks in an order that follows from the seed, on any machine."""
    shuffled: list[int] = ranks.tolist()
    Random(seed).shuffle(shuffled)
    return shuffled


def _interleave(room: int, group: int, stride: int) -> Indices:
    """Groups of places ``stride`` apart, shape (groups, N): ``stride`` of them share a stretch of group *
    stride; none where a stretch is longer than the room.

    16 places in groups of 4, 2 apart: 0 2 4 6 and 1 3 5 7, then the same from 8.
    """
    stretch = group * stride
    if stretch > room:
        return np.empty((0, group), dtype=np.int64)
    starts = np.add.outer(np.arange(0, room - stretch + 1, stretch), np.arange(stride))
    return np.add.outer(starts.ravel(), np.arange(0, stretch, stride))


def _on_lattice(pattern: Pattern, fabric: Fabric, total: int) -> Indices:
    """The ranks of the groups of an axis or box pattern, alike in every domain of the innermost tier;
    shape (groups, N)."""
    tier = fabric.tiers[0]
    shape = tuple(axis.size for axis in capabilities_of(tier).axes)
    if not shape:
        needs = f"'{pattern.kind}' needs a torus or mesh"
        raise PatternError(
            "kind",
            f"{needs}; {fabric.name} starts with a {tier.topology}",
            "block, cyclic and random go anywhere",
        )
    in_domain = _lines(pattern, shape) if pattern.kind == "axis" else _boxes(pattern, shape)
    first_ranks = np.arange(0, total - tier.endpoints + 1, tier.endpoints)
    groups: Indices = np.add.outer(first_ranks, in_domain).reshape(-1, in_domain.shape[1])
    return groups


def _lines(pattern: Pattern, shape: Ranks) -> Indices:
    """Groups along an axis of one lattice: whole lines, or parts of them; shape (groups, N)."""
    if pattern.axis > len(shape):
        what = f"axis {pattern.axis} does not exist: the torus or mesh has {len(shape)} axes"
        raise PatternError("axis", what, f"from 1 to {len(shape)}")
    size = shape[pattern.axis - 1]
    step = prod(shape[: pattern.axis - 1])  # from one place on the axis to the next
    group = pattern.group or size
    if group > size:
        what = f"{group} ranks do not fit along axis {pattern.axis} of {size}"
        raise PatternError("group", what, "kind: box spreads a group")
    places = np.arange(prod(shape))
    line_starts = places[places // step % size == 0]
    in_line = step * _interleave(size, group, pattern.stride or 1)
    groups: Indices = np.add.outer(line_starts, in_line).reshape(-1, group)
    return groups


def _boxes(pattern: Pattern, shape: Ranks) -> Indices:
    """Groups that are boxes of a lattice, in the order of their first places.

    Boxes of 2x1 on a lattice of 4x2: places 0 and 1 inside, and corners at 0, 2, 4 and 6.
    """
    if not pattern.shape:
        raise PatternError(
            "shape", "a box needs its shape", argument_text("shape", (4, 2), text="4x2")
        )
    # axes that the shape does not name are 1
    box = (*pattern.shape, *(1,) * (len(shape) - len(pattern.shape)))
    fits = all(1 <= extent <= size for extent, size in zip(box, shape, strict=False))
    if len(box) > len(shape) or not fits:
        there = shape_text(shape)
        what = f"a box of {shape_text(pattern.shape)} does not fit in {there}"
        raise PatternError("shape", what, f"at most {there}")
    if prod(box) < 2 or pattern.group not in (None, prod(box)):
        what = f"a box of {prod(box)} ranks, expected {pattern.group or 'at least 2'}"
        raise PatternError("shape", what, "give the shape or the group")
    # Places in a box, and the first place of every box.
    inside = corners = np.zeros(1, dtype=np.int64)
    step = 1
    for size, extent in zip(shape, box, strict=True):
        inside = np.add.outer(step * np.arange(extent), inside).ravel()
        corners = np.add.outer(step * extent * np.arange(size // extent), corners).ravel()
        step *= size
    return np.add.outer(corners, inside)


def expand_map(pattern: MapPattern, fabric: Fabric) -> Ranks:
    """The endpoint of every rank of the fabric; :class:`PatternError` where domains do not fill
    it."""
    _check_kind(pattern.kind, MAP_KINDS, "map")
    total = fabric.ranks
    domain = fabric.tiers[0].endpoints if pattern.domain is None else pattern.domain
    if domain < 1 or total % domain:
        what = f"domains of {domain} endpoints do not fill the {total} of {fabric.name}"
        raise PatternError("domain", what, f"a divisor of {total}")
    ranks = np.arange(total)
    match pattern.kind:
        case "identity":
            endpoints = ranks
        case "reverse":
            endpoints = ranks[::-1]
        case "cyclic":
            # rank 0 to the first domain, rank 1 to the second ...: columns of (domains, places)
            endpoints = ranks.reshape(-1, domain).T.ravel()
        case "rotate":
            number, position = np.divmod(ranks, domain)
            endpoints = number * domain + (position + number) % domain
        case "random":
            return tuple(_shuffle(ranks, pattern.seed))
        case _:
            assert_never(pattern.kind)
    return tuple(endpoints.tolist())
