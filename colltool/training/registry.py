"""The registry of proposals: all that colltool can change of a job or of a fabric, a function each.

A function under :func:`proposal` is a member by its name. What it is for says who draws from it:
``time`` the changes of a plan, ``memory`` what makes a job fit its device, ``target`` the least
network for a target; ``device`` and ``layout`` a shipped or drafted job on a fabric that has another
device, or that its layout does not fit; ``search`` the values of a choice that a search tries.
Members are in ``job_changes``, ``fabric_changes``, ``adapted`` and ``search_space``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, TypeVar

Use = Literal["time", "memory", "target", "device", "layout", "search"]
# what a member changes: the layout of a model, the calls that a job lists itself, or a fabric
Of = Literal["job", "calls", "fabric"]


class Registered(NamedTuple):
    """A proposal: its code, what it changes, what it is for, and the function that makes it.

    ``parts``: parts of the step of which one is exposed where it can gain; none for always.
    ``choice``: what a search chooses from its values.
    """

    code: str
    of: Of
    uses: tuple[Use, ...]
    parts: tuple[str, ...]
    choice: str
    make: Callable[..., Any]


_MEMBERS: dict[str, Registered] = {}
Make = TypeVar("Make", bound=Callable[..., Any])


def proposal(
    *uses: Use, of: Of = "job", parts: tuple[str, ...] = (), choice: str = ""
) -> Callable[[Make], Make]:
    """Register a function as a proposal, after those that cost less time."""

    def register(make: Make) -> Make:
        code = make.__name__
        assert code not in _MEMBERS, code
        _MEMBERS[code] = Registered(code, of, uses, parts, choice, make)
        return make

    return register


def members(use: Use, *of: Of) -> Iterator[Registered]:
    """Yield the proposals for a use that change one of these, as registered."""
    for member in _MEMBERS.values():
        if use in member.uses and member.of in of:
            yield member


def codes() -> tuple[str, ...]:
    """Return the codes of all proposals."""
    return tuple(_MEMBERS)
