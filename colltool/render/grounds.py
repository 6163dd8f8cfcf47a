"""Sentences on what makes the prices of several fabrics not comparable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, get_args

from colltool.algorithms.libraries import LIBRARIES
from colltool.analysis.basis import BasisDifference, Code
from colltool.analysis.grid import Cell
from colltool.base.errors import given, said
from colltool.base.formatting import counted, format_time, title_size
from colltool.render.blocks import Block, Lines


def ground_block(ground: Sequence[BasisDifference], every: Sequence[int] = ()) -> list[Block]:
    return [Lines("not alike", ground_lines(ground, every))] if ground else []


def ground_lines(ground: Sequence[BasisDifference], every: Sequence[int] = ()) -> tuple[str, ...]:
    """A sentence each; ``every`` is all rank counts, which are not named."""
    return tuple(_where(one, every) + _SAID[one.code](one) for one in ground)


def ground_summary(ground: Sequence[BasisDifference]) -> tuple[str, ...]:
    ways = len({one.code for one in ground})
    return (f"not alike in {counted(ways, 'way')}",) if ground else ()


def ground_field(ground: Sequence[BasisDifference]) -> list[dict[str, Any]]:
    return [
        {
            "code": one.code,
            "values": [{"value": value, "columns": list(columns)} for value, columns in one.parts],
            "primitives": [str(primitive) for primitive in one.primitives],
            "ranks": list(one.ranks),
            "says": _SAID[one.code](one),
        }
        for one in ground
    ]


def _where(one: BasisDifference, every: Sequence[int]) -> str:
    return "" if not one.ranks or set(one.ranks) == set(every) else f"on {', '.join(map(str, one.ranks))} ranks: "


def _columns(one: BasisDifference, *, having: bool) -> tuple[str, ...]:
    return tuple(name for value, names in one.parts for name in names if (value not in (None, False)) == having)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _does(names: Sequence[str], singular: str, plural: str) -> str:
    return singular if len(names) == 1 else plural


def _launch(one: BasisDifference) -> str:
    without, having = _columns(one, having=False), _columns(one, having=True)
    most = format_time(max(value for value, _ in one.parts if value is not None))
    lacking = f"{_listed(without)} {_does(without, 'has', 'have')} no launch overhead"
    rest = f"{_listed(having)} {_does(having, 'has', 'have')} ({most})"
    rule = "times in which that is felt cannot be compared"
    one_for_all = given("overrides", [f"launch_overhead={most.replace(' ', '')}"])
    return said(f"{lacking}, {rest}: {rule}. To give all of them one: {one_for_all}")


def _protocols(one: BasisDifference) -> str:
    without, having = _columns(one, having=False), _columns(one, having=True)
    return (
        f"{_listed(having)} {_does(having, 'is', 'are')} priced by measured protocols, {_listed(without)} by "
        f"{_does(without, 'its', 'their')} tiers' own numbers"
    )


def _software(one: BasisDifference) -> str:
    without, having = _columns(one, having=False), _columns(one, having=True)
    return f"what the library reaches is in the prices of {_listed(having)}, not in those of {_listed(without)}: no figures there"


def _contention(one: BasisDifference) -> str:
    without = _columns(one, having=False)
    who = f"{_listed(without)} {_does(without, 'states', 'state')}"
    return f"{who} no contention (eta) on some tier: 1 there, as if nobody else sent"


def _library(one: BasisDifference) -> str:
    return ", ".join(f"{LIBRARIES[name].spoken if name else 'any library'} on {_listed(columns)}" for name, columns in one.parts)


def _group(one: BasisDifference) -> str:
    sits = (f"{_across(shape)} on {_listed(columns)}" for shape, columns in one.parts)
    return f"ranks in a domain of each tier, innermost first: {', '.join(sits)}"


def _slice(one: BasisDifference) -> str:
    sits = (f"{shape} on {_listed(columns)}" for shape, columns in one.parts if shape)
    return f"slices: {', '.join(sits)}"


def _software_time(one: BasisDifference) -> str:
    ((fitted, total, size), having), (_, lacking) = one.parts
    paid = f"{format_time(fitted)} of {format_time(total)} at {title_size(size)}"
    what = f"{_listed(having)} {_does(having, 'pays', 'pay')} measured software time ({paid})"
    return (
        f"{what}, {_listed(lacking)} {_does(lacking, 'has', 'have')} none measured: small sizes are not the same kind of number"
    )


def _across(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def held_lines(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Notes on cells beyond the measured sizes or ranks, whose software time is held at the nearest measured one."""
    found = Counter(cell.held.partition(" was not measured ")[0] for cell in cells if cell.held)
    every = counted(sum(cell.algorithm is not None for cell in cells), "cell")
    return tuple(
        f"{count} of {every}: {what} was not measured there (size or ranks): held at the nearest" for what, count in found.items()
    )


_SAID: dict[Code, Callable[[BasisDifference], str]] = {
    "launch": _launch,
    "protocols": _protocols,
    "software": _software,
    "contention": _contention,
    "library": _library,
    "group": _group,
    "slice": _slice,
    "software_time": _software_time,
}
assert set(_SAID) == set(get_args(Code))
