"""What ``--algorithm`` names: an algorithm, or a composition with the algorithm of each tier."""

from __future__ import annotations

import re
from typing import NamedTuple

from colltool.base.errors import ColltoolError

_PRINTED = re.compile(r"([^ (:]+) \(([^,)]+)(?:, [^)]*)?\)")
"""What people paste from a table: ``hierarchical (ring / ring, pipelined)``."""


class Choice(NamedTuple):
    """A name, and of a composition the algorithms of its tiers, innermost first; empty where they are left open.

    >>> parse_choice("hierarchical:ring/ring")
    Choice(base='hierarchical', tiers=('ring', 'ring'))
    >>> parse_choice("ring").spec
    'ring'
    """

    base: str
    tiers: tuple[str, ...] = ()

    @property
    def spec(self) -> str:
        """As options take it: ``hierarchical:ring/ring``."""
        return f"{self.base}:{'/'.join(self.tiers)}" if self.tiers else self.base


def parse_choice(text: str) -> Choice:
    """The choice that a text names, also as tables print it; whether such algorithms exist is for the registry to say.

    Raises:
        ColltoolError: a colon with nothing behind it, or an empty name.
    """
    printed = _PRINTED.fullmatch(text)
    base, colon, rest = (printed[1], ":", printed[2]) if printed else text.partition(":")
    tiers = tuple(name.strip() for name in rest.split("/")) if colon else ()
    if not base or not all(tiers):
        fix = f"name one algorithm per tier, innermost first: {base or 'hierarchical'}:ring/ring"
        raise ColltoolError(f"'{text}' ends where a name is due", argument="algorithms", fix=fix)
    return Choice(base, tiers)
