"""Names that textbooks and other libraries give to the algorithms here, in any spelling.

:func:`specs_called` turns such a name into the texts that ``--algorithm`` takes. A library's own
names depend on the group as well and stand in :mod:`colltool.estimate.library_names`.
"""

from __future__ import annotations

from collections.abc import Collection

from colltool.algorithms.aliases import SPECS, normal_form
from colltool.algorithms.registry import Choice, every_algorithm, on_request, parse_choice
from colltool.base.primitives import Primitive


def specs_called(name: str, primitive: Primitive, composed: Collection[str] = ()) -> list[str]:
    """The algorithms of a primitive that a name may mean, as ``--algorithm`` takes them, best
    first; empty where nothing is called so.

    Args:
        composed: names of compositions of this primitive.

    >>> specs_called("RHD", Primitive.ALL_GATHER)
    ['recursive-doubling']
    """
    choice = parse_choice(name)
    plain = normal_form(choice.base)
    if choice.tiers:
        tiers = tuple(map(_called_on_a_tier, choice.tiers))
        return [Choice(plain, tiers).spec] if plain in composed else []
    known = set(composed)
    known.update(
        algorithm.name
        for algorithm in (*every_algorithm(), *on_request())
        if algorithm.primitive is primitive
    )
    meant = (plain, *SPECS.get(plain, ()))
    return [spec for spec in meant if parse_choice(spec).base in known]


def _called_on_a_tier(name: str) -> str:
    """An algorithm of one phase of a composition, whose primitive is not known here. An unknown
    name comes back as it is: what runs the composition refuses it, and lists what its tier has."""
    plain = normal_form(name)
    if any(algorithm.name == plain for algorithm in (*every_algorithm(), *on_request())):
        return plain
    # a tier runs no composition
    single = [spec for spec in SPECS.get(plain, ()) if ":" not in spec]
    return single[0] if single else name
