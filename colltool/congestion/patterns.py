"""Patterns of groups and of rank-to-endpoint maps, as schedulers and launchers make them.

Ranks are numbered from 0 through the fabric, the innermost tier and the first axis fastest.
"""

from collections.abc import Sequence
from math import prod
from random import Random
from typing import Literal, NamedTuple, assert_never, get_args

from colltool.base.errors import ColltoolError, clipped, given, nearest
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of

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
    """``count`` groups of ``group`` ranks each.

    Kinds: ``block``: consecutive ranks, a new group every ``stride``; ``cyclic``: ranks ``stride``
        apart, as round robin over
    domains leaves them; ``random``: a shuffle by ``seed``, cut in blocks; ``axis``: along one axis
    of a lattice, ranks ``stride`` apart on the line; ``box``: sub-lattices of ``shape``, first axis
    fastest.
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
    """Which endpoint each rank sits on.

    Kinds: ``identity``; ``reverse``; ``cyclic``: round robin over the domains; ``rotate``: position
        p of domain k moves to p + k,
    which breaks rails; ``random``: a shuffle by ``seed``.
    """

    kind: MapKind = "identity"
    domain: int | None = None  # endpoints in a domain; None: those of the innermost tier
    seed: int = 0


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
    for key, default in Pattern()._asdict().items():  # a value that the kind ignores is a mistake
        if key != "kind" and key not in _USED[pattern.kind] and getattr(pattern, key) != default:
            kinds = [kind for kind, used in _USED.items() if key in used]
            raise PatternError(
                key, f"'{pattern.kind}' has no {key}", f"it belongs to {', '.join(kinds)}"
            )
    for key in ("group", "count", "stride", "axis"):
        value = getattr(pattern, key)
        if value is not None and value < (2 if key == "group" else 1):
            least = "a group has at least 2 ranks" if key == "group" else f"{key} is at least 1"
            raise PatternError(key, f"{least}, got {value}", "write a larger one")
    if not 0 <= pattern.start < total:
        raise PatternError(
            "start",
            f"start must be a rank of 0 .. {total - 1}, got {pattern.start}",
            "leave fewer ranks free",
        )
    each, groups = (_on_lattice if pattern.kind in ("axis", "box") else _on_line)(
        pattern, fabric, total
    )
    if not groups:
        what = f"no group {each} fits in {total} ranks at this stride"
        raise PatternError("stride" if pattern.stride else "group", what, "make it smaller")
    count = pattern.count or len(groups)
    if count > len(groups):
        what = f"{count} groups {each} do not fit: there is room for {len(groups)}"
        raise PatternError("count", what, f"at most {len(groups)}")
    return groups[:count]


def _check_kind(word: str, known: Sequence[str], what: str) -> None:
    if word not in known:
        fix = f"{nearest(word, list(known))} known: {', '.join(known)}".strip()
        raise PatternError("kind", f"unknown {what} '{clipped(word)}'", fix)


def _on_line(pattern: Pattern, _: Fabric, total: int) -> tuple[str, list[Ranks]]:
    room = total - pattern.start
    group = pattern.group or room
    if group > room:
        raise PatternError(
            "group", f"a group of {group} ranks does not fit in {room}", f"at most {room}"
        )
    ranks = tuple(range(pattern.start, total))
    if pattern.kind == "cyclic":
        places = _interleaved(room, group, pattern.stride or room // group)
        return f"of {group} ranks", [
            tuple(pattern.start + place for place in some) for some in places
        ]
    stride = pattern.stride or group
    if pattern.kind == "random":
        ranks = _shuffled(ranks, pattern.seed)
    elif stride < group:
        raise PatternError(
            "stride",
            f"blocks of {group} ranks overlap at a stride of {stride}",
            f"at least {group}",
        )
    return f"of {group} ranks", [
        ranks[first : first + group] for first in range(0, room - group + 1, stride)
    ]


def _shuffled(ranks: Sequence[int], seed: int) -> Ranks:
    shuffled = list(ranks)
    Random(seed).shuffle(shuffled)
    return tuple(shuffled)


def _interleaved(room: int, group: int, stride: int) -> list[Ranks]:
    """Groups of ranks ``stride`` apart: ``stride`` of them share a stretch of group * stride
    ranks."""
    stretch = group * stride
    starts = (
        first + offset
        for first in range(0, room - stretch + 1, stretch)
        for offset in range(stride)
    )
    return [tuple(range(start, start + stretch, stride)) for start in starts]


def _on_lattice(pattern: Pattern, fabric: Fabric, total: int) -> tuple[str, list[Ranks]]:
    tier = fabric.tiers[0]
    shape = tuple(axis.size for axis in capabilities_of(tier).axes)
    if not shape:
        what = (
            f"'{pattern.kind}' needs a torus or mesh; {fabric.name} starts with a {tier.topology}"
        )
        raise PatternError("kind", what, "block, cyclic and random go anywhere")
    if pattern.kind == "axis":
        each, within = f"along axis {pattern.axis}", _lines(pattern, shape)
    else:
        each, within = f"of shape {'x'.join(map(str, pattern.shape))}", _boxes(pattern, shape)
    domains = range(0, total - tier.endpoints + 1, tier.endpoints)
    return each, [tuple(first + r for r in ranks) for first in domains for ranks in within]


def _lines(pattern: Pattern, shape: Ranks) -> list[Ranks]:
    if pattern.axis > len(shape):
        raise PatternError(
            "axis",
            f"axis {pattern.axis} does not exist: the lattice has {len(shape)}",
            f"from 1 to {len(shape)}",
        )
    size, step = shape[pattern.axis - 1], prod(shape[: pattern.axis - 1])
    group = pattern.group or size
    if group > size:
        raise PatternError(
            "group",
            f"{group} ranks do not fit along axis {pattern.axis} of {size}",
            "kind: box spreads a group",
        )
    places = _interleaved(size, group, pattern.stride or 1)
    feet = [foot for foot in range(prod(shape)) if foot // step % size == 0]
    return [tuple(foot + place * step for place in line) for foot in feet for line in places]


def _boxes(pattern: Pattern, shape: Ranks) -> list[Ranks]:
    if not pattern.shape:
        raise PatternError("shape", "a box needs its shape", given("shape", (4, 2), text="4x2"))
    box = (*pattern.shape, *(1,) * (len(shape) - len(pattern.shape)))
    if len(box) > len(shape) or any(not 1 <= b <= s for b, s in zip(box, shape, strict=False)):
        asked, there = "x".join(map(str, pattern.shape)), "x".join(map(str, shape))
        raise PatternError(
            "shape", f"a box of {asked} does not fit in the lattice of {there}", f"at most {there}"
        )
    if prod(box) < 2 or pattern.group not in (None, prod(box)):
        what = f"a box of {prod(box)} ranks, expected {pattern.group or 'at least 2'}"
        raise PatternError("shape", what, "give the shape or the group")
    steps = [prod(shape[:axis]) for axis in range(len(shape))]
    inside = _walk(box, steps)
    corners = _walk(
        [s // b for s, b in zip(shape, box, strict=True)],
        [b * s for b, s in zip(box, steps, strict=True)],
    )
    return [tuple(corner + place for place in inside) for corner in corners]


def _walk(counts: Sequence[int], steps: Sequence[int]) -> list[int]:
    places = [0]
    for count, step in zip(counts, steps, strict=True):
        places = [place + number * step for number in range(count) for place in places]
    return places


def expand_map(pattern: MapPattern, fabric: Fabric) -> Ranks:
    """The endpoint of every rank of the fabric; :class:`PatternError` where domains do not fill
    it."""
    total, ranks = fabric.ranks, range(fabric.ranks)
    _check_kind(pattern.kind, MAP_KINDS, "map")
    domain = fabric.tiers[0].endpoints if pattern.domain is None else pattern.domain
    if domain < 1 or total % domain:
        what = f"domains of {domain} endpoints do not fill the {total} of {fabric.name}"
        raise PatternError("domain", what, f"a divisor of {total}")
    match pattern.kind:
        case "identity":
            return tuple(ranks)
        case "reverse":
            return tuple(reversed(ranks))
        case "cyclic":
            return tuple(
                rank % (total // domain) * domain + rank // (total // domain) for rank in ranks
            )
        case "rotate":
            return tuple(
                rank // domain * domain + (rank + rank // domain) % domain for rank in ranks
            )
        case "random":
            return _shuffled(ranks, pattern.seed)
        case _:
            assert_never(pattern.kind)
