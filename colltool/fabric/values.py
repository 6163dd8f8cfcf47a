"""All values of a fabric by their path, and copies with other values (:func:`with_values`).

Copies are not validated. Values may be arrays: pricing then works on every element, which prices
many fabrics at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of

# Path of a value in a fabric, by names of fields, indices of lists and keys: ``("tiers", 0, "eta", "beta")``.
Place = tuple[str | int, ...]

# Fields that no price reads: texts, and the library's numbers in a file of schema /1, which act
# through the tier's ``library`` instead.
_NEVER_PRICED = frozenset(
    {
        "source",
        "notes",
        "description",
        "name",
        "assumed",
        "protocols",
        "algorithms",
        "reached",
    }
)


def values_of(fabric: Fabric) -> dict[Place, Any]:
    """Return every value that a price may depend on, by its path."""
    return dict(_values(fabric, ()))


def _values(part: Any, at: Place) -> Iterator[tuple[Place, Any]]:
    """Every value of a part of a fabric that a price may depend on, with its place, which begins with
    ``at``. Of a tuple its length too, as ``length``."""
    if isinstance(part, BaseModel):
        for field_name in type(part).model_fields:
            if field_name not in _NEVER_PRICED:
                yield from _values(getattr(part, field_name), (*at, field_name))
        # what a library adds to a tier is no field of it
        numbers = getattr(part, "library", None)
        if numbers is not None and "library" not in type(part).model_fields:
            yield (*at, "library"), numbers
    elif isinstance(part, tuple):
        for index, item in enumerate(part):
            yield from _values(item, (*at, index))
        yield (*at, "length"), len(part)
    elif isinstance(part, dict):
        for key, item in part.items():
            yield from _values(item, (*at, str(key)))
    else:
        yield at, part


def differences(fabrics: Sequence[Fabric]) -> dict[Place, list[float]] | None:
    """Return the numbers in which fabrics differ, with their value in each, in the order of the
    fabrics. None if they differ in more than numbers."""
    first, *others = [values_of(fabric) for fabric in fabrics]
    if any(values.keys() != first.keys() for values in others):
        return None
    differing: dict[Place, list[float]] = {}
    for place, first_value in first.items():
        values = [first_value, *(values[place] for values in others)]
        if all(value == first_value for value in values):
            continue
        if not all(isinstance(value, float) for value in values):
            return None
        differing[place] = values
    return differing


def with_values(fabric: Fabric, values: Mapping[Place, Any]) -> Fabric:
    """Return the fabric with values, or arrays of one length, at some of its places."""
    for place, value in values.items():
        fabric = _put(fabric, place, value)
    return fabric


def _put(part: Any, place: Place, value: Any) -> Any:
    """A copy of a part with another value at a place within it."""
    if not place:
        return value
    step = place[0]
    rest = place[1:]
    if isinstance(part, tuple):
        items = list(part)
        items[int(step)] = _put(items[int(step)], rest, value)
        return tuple(items)
    if isinstance(part, dict):
        # keys are names of primitives, whose text is the step
        return part | {key: _put(part[key], rest, value) for key in part if str(key) == step}
    return part.model_copy(update={str(step): _put(getattr(part, str(step)), rest, value)})


def numbers_of(fabric: Fabric) -> dict[Place, str]:
    """Return every number (float) of a tier, and the launch, by its place, with its key:
    ``ib.levels.spine.alpha``."""
    value_of = values_of(fabric)
    numbers: dict[Place, str] = {}
    for place, key in keys_of(fabric).items():
        # sizing is of counts, and no price reads it
        is_of_tier = place[0] == "tiers" and place[2:3] != ("sizing",)
        if not is_of_tier and place != ("launch_overhead",):
            continue
        if isinstance(value_of[place], float):
            numbers[place] = key
    return numbers


def keys_of(fabric: Fabric) -> dict[Place, str]:
    """Return the key, as ``--set`` takes it, of every value that a price may depend on, by the value's
    place."""
    keys: dict[Place, str] = {}
    for place in values_of(fabric):
        steps = list(map(str, place))
        if steps[0] == "tiers" and len(steps) > 2:
            tier = fabric.tiers[int(steps[1])]
            steps = [tier.name, *steps[2:]]
            # a level by its name; ("tiers", 1, "levels", "length") is none
            if steps[1] == "levels" and len(steps) > 2 and steps[2].isdecimal():
                steps[2] = capabilities_of(tier).levels[int(steps[2])].name
        # the field global_ of a dragonfly is global in its file
        keys[place] = ".".join(step.rstrip("_") for step in steps)
    return keys
