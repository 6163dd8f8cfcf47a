"""Makers of schedules, by (primitive, name): the same names as the algorithms they prove."""

from collections.abc import Callable

from colltool.algorithms.group import Group
from colltool.base.primitives import Primitive
from colltool.schedules.step import Program

Maker = Callable[[Group, int], Program]

_MAKERS: dict[tuple[Primitive, str], Maker] = {}
_PER_PAIR: dict[tuple[Primitive, str], int | Callable[[int], int]] = {}

_MANY = 16


def schedule(name: str, *primitives: Primitive, per_pair: int | Callable[[int], int] = _MANY) -> Callable[[Maker], Maker]:
    """Register a maker: (group, segments P) -> program. P matters to pipelined algorithms only.

    ``per_pair``: about how many chunks move for each pair of ranks, or that of N, so that nobody waits for hours.
    """

    def register(maker: Maker) -> Maker:
        for primitive in primitives:
            if (primitive, name) in _MAKERS:
                raise ValueError(f"a schedule of {name} is registered twice for {primitive}")
            _MAKERS[primitive, name] = maker
            _PER_PAIR[primitive, name] = per_pair
        return maker

    return register


def maker(primitive: Primitive, name: str) -> Maker | None:
    """The maker of that algorithm's schedule, or None."""
    return _MAKERS.get((primitive, name))


def effort(primitive: Primitive, name: str, ranks: int, segments: int | None) -> int:
    """About how much work an execution is, in messages moved at once; ``segments`` of a pipelined one go step by step."""
    if segments is not None:
        return _MANY * ranks * segments
    per_pair = _PER_PAIR[primitive, name]
    return ranks**2 * (per_pair(ranks) if callable(per_pair) else per_pair)
