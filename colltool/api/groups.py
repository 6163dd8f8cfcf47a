"""Who takes part, as the public functions take it: ranks, stride, alone and shape."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from colltool.api.arguments import count_of, each_of, flag_of, whole_of, wrong
from colltool.base.errors import given
from colltool.base.formatting import Shape
from colltool.base.units import parse_shape
from colltool.definitions.field_types import MAX_DEPTH, MAX_RANKS
from colltool.estimate.group_spec import GroupSpec

AnyShape = str | Sequence[int]


def ranks_of(ranks: int | None, least: float = -inf) -> int | None:
    """N, where it was given: what a group may have is the fabric's to say, a job has one rank at ``least``."""
    return None if ranks is None else whole_of(count_of(ranks, "ranks", least), "ranks")


def shape_of(shape: AnyShape | None) -> Shape | None:
    """Ranks along each axis of a slice, where it was given: ``"4x4x4"`` or ``(4, 4, 4)``.

    Raises:
        ColltoolError: neither, or an axis below 1.
    """
    if shape is None:
        return None
    if isinstance(shape, str):
        return parse_shape(shape, "shape")
    if not isinstance(shape, list | tuple) or not 1 <= len(shape) <= MAX_DEPTH:
        raise wrong(shape, "shape", f"ranks along each of at most {MAX_DEPTH} axes", f"write {given('shape', (4, 4, 4))}")
    return tuple(count_of(size, "shape", 1, MAX_RANKS) for size in shape)


def group_of(ranks: int | None, stride: int = 1, alone: bool = False, shape: AnyShape | None = None) -> GroupSpec:
    """Who is in a group, where that can be said without its fabric.

    Raises:
        ColltoolError: ranks or stride that are no whole number, ``alone`` that is neither True nor False, or no shape.
    """
    return GroupSpec(ranks_of(ranks), whole_of(stride, "stride"), flag_of(alone, "alone"), shape_of(shape))


def groups_of(ranks: Sequence[int] | int | None, stride: int, *, alone: bool, shape: AnyShape | None) -> list[GroupSpec]:
    """A group for each number of ranks; one where none is given.

    Raises:
        ColltoolError: as :func:`group_of`.
    """
    counts: list[int | None] = [whole_of(one, "ranks") for one in each_of(ranks)]
    return [group_of(one, stride, alone, shape) for one in counts or [None]]
