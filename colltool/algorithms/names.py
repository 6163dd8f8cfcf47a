"""Names that textbooks and other libraries give to the algorithms here, in any spelling.

:func:`specs_called` turns such a name into specs, the texts that ``--algorithm`` takes: ``ring``, or
``hierarchical:ring/tree`` of a composition. A library's own names depend on the group as well and
stand in :mod:`colltool.estimate.library_names`.
"""

from __future__ import annotations

from collections.abc import Collection

from colltool.algorithms.aliases import SPECS, normal_form
from colltool.algorithms.registry import Choice, all_algorithms, parse_choice
from colltool.base.primitives import Primitive


def specs_called(
    name: str, primitive: Primitive, composition_names: Collection[str] = ()
) -> list[str]:
    """The specs of a primitive that a name may mean, best first; empty where nothing is called so.

    Args:
        name: as typed, with the algorithms of its tiers behind a colon or without.
        composition_names: those of this primitive.

    >>> specs_called("RHD", Primitive.ALL_GATHER)
    ['recursive-doubling']
    """
    choice = parse_choice(name)
    normal = normal_form(choice.base)
    if choice.tiers:
        tiers = tuple(map(_tier_algorithm, choice.tiers))
        return [Choice(normal, tiers).spec] if normal in composition_names else []
    known_names = set(composition_names)
    known_names.update(row.name for row in all_algorithms() if row.primitive is primitive)
    # a name of ours goes before the specs that it is an alias of
    specs = (normal, *SPECS.get(normal, ()))
    return [spec for spec in specs if parse_choice(spec).base in known_names]


def _tier_algorithm(name: str) -> str:
    """Our name of an algorithm of one tier of a composition, for any primitive. An unknown name comes
    back as it is: what runs the composition refuses it, and lists what its tier has."""
    normal = normal_form(name)
    if any(row.name == normal for row in all_algorithms()):
        return normal
    # a tier runs no composition, whose specs have a colon
    for spec in SPECS.get(normal, ()):
        if ":" not in spec:
            return spec
    return name
