"""Makers of schedules, by (primitive, name): the same names as the algorithms they prove."""

from collections.abc import Callable

from colltool.algorithms.registry import Group
from colltool.primitives import Primitive
from colltool.schedules.step import Program

Maker = Callable[[Group, int], Program]

_MAKERS: dict[tuple[Primitive, str], Maker] = {}


def schedule(name: str, *primitives: Primitive) -> Callable[[Maker], Maker]:
    """Register a maker: (group, segments P) -> program. P matters to pipelined algorithms only."""

    def register(maker: Maker) -> Maker:
        for primitive in primitives:
            if (primitive, name) in _MAKERS:
                raise ValueError(f"a schedule of {name} is registered twice for {primitive}")
            _MAKERS[primitive, name] = maker
        return maker

    return register


def maker(primitive: Primitive, name: str) -> Maker | None:
    """The maker of that algorithm's schedule, or None."""
    return _MAKERS.get((primitive, name))
