"""The axes and the question of a sweep in words: for its tables, its answer, and titles of plots and
pages.

An axis is ``fabric``, ``ranks``, ``bytes`` (those of ``GRID_AXES``, which every sweep has), or what else is varied: a
key of a fabric or of the model, such as ``ib.bandwidth``, or ``ideal``, with the values True and False.
``result.varied`` are the axes with several values.

:func:`question` is the collective, the fabric and the settings; :func:`sweep_title` adds library and contention.
"""

from __future__ import annotations

from typing import Any

from colltool.analysis.axes import GRID_AXES
from colltool.analysis.sweep import AxisSettings, Sweep
from colltool.base.formatting import title_size
from colltool.machines.used import Applied, Overrides, assumed_in, machine_used
from colltool.render.dispatch import on_fabric
from colltool.render.estimates import library_in_title


def value_text(key: str, value: Any) -> str:
    """A value of an axis alone, as in a table's heading: ``16MB``, ``64``, ``true``. See :func:`value_in_words`."""
    if key == "bytes":
        return title_size(float(value))
    text = str(value)
    if isinstance(value, bool):
        return text.lower()
    return text


def axis_title(key: str) -> str:
    """``size`` for ``bytes``, else the key."""
    return "size" if key == "bytes" else key


def axis_values(result: Sweep, key: str) -> tuple[Any, ...]:
    """The values of an axis in the sweep's order. The sweep has to have the axis: else StopIteration."""
    return next(axis.values for axis in result.axes if axis.key == key)


def value_in_words(key: str, value: Any) -> str:
    """A value of an axis where the axis is not named beside it: ``64 ranks``, ``16MB``,
    ``ib.bandwidth 25GB/s``."""
    text = value_text(key, value)
    if key == "ranks":
        return f"{text} ranks"
    if key in GRID_AXES:
        return text
    return f"{key} {text}"


def settings_in_words(settings: AxisSettings) -> str:
    """``64 ranks, ib.bandwidth 25GB/s``."""
    texts = [value_in_words(key, value) for key, value in settings]
    return ", ".join(texts)


def pivot_title(result: Sweep, fixed: AxisSettings) -> str:
    """What sets one of several tables apart: of its ``fixed`` values those on axes that vary."""
    varied = {axis.key for axis in result.varied}
    settings = tuple((key, value) for key, value in fixed if key in varied)
    return settings_in_words(settings)


def sweep_title(result: Sweep) -> str:
    """The question, the library and whether there is contention, as a title: without the axes that vary."""
    parts = [question(result)]
    if result.library:
        leads = any(cell.selectable for cell in result.priced)
        parts.append(library_in_title(result.library, leads=leads))
    if all(axis.key != "ideal" for axis in result.axes):
        parts.append("without contention" if result.ideal else "with contention")
    return ", ".join(parts)


def question(result: Sweep) -> str:
    """What is priced, where, and with what: ``all-reduce on nvl72, 64 ranks, alpha=1us``. Axes that vary are left
    out."""
    # the values of the others by key
    single = {}
    for axis in result.axes:
        if len(axis.values) == 1:
            single[axis.key] = axis.values[0]
    asked = result.primitive.label
    # without a name where fabrics vary: the overrides of all remain
    fabric = on_fabric(str(single.pop("fabric", "")), _typed_overrides(result)).strip()
    if fabric:
        asked += f" on {fabric}"
    parts = [asked]
    for key, value in single.items():
        if key == "bytes":
            parts.append(f"{value_text(key, value)} per rank")
        elif key == "ranks":
            parts.append(value_in_words(key, value))
        else:
            parts.append(f"{key}={value_text(key, value)}")
    return ", ".join(parts)


def _typed_overrides(result: Sweep) -> Overrides:
    """The overrides that the user typed, for titles.

    All overrides also have those that a fabric was fitted with to hold the ranks, such as ``ib.size=16``, which the
    answer names. They are told by their text alone: one that the user typed just so is left out too.
    """
    overrides = result.overrides
    fitting: set[str] = set()
    for _, change in result.fitted:
        fitting.update(change.overrides)
    typed = [(key, value) for key, value in overrides if f"{key}={value}" not in fitting]
    # the pairs alone would lose what the fabric's overrides also know: its machine, what was assumed
    return Applied(
        typed,
        machine_used(overrides),
        assumed_in(overrides),
    )
