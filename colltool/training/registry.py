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
    """A proposal."""

    of: Of  # what it changes
    uses: tuple[Use, ...]  # what it is for
    parts: tuple[str, ...]  # parts of the step of which one must be exposed; empty: always tried
    choice: str  # of ``search``: the choice whose values it gives, such as "tp"; else empty
    # What it takes and returns follows from its use: a ``Situation`` and changes of a job, a fabric
    # and its knobs, or a ``Space`` (with the sizes chosen so far) and values of a choice; see the
    # modules of the members.
    make: Callable[..., Any]


_MEMBERS: dict[str, Registered] = {}  # by code, in the order of registration
Make = TypeVar("Make", bound=Callable[..., Any])


def proposal(
    *uses: Use, of: Of = "job", parts: tuple[str, ...] = (), choice: str = ""
) -> Callable[[Make], Make]:
    """Register a function as a proposal, after those above it, which cost less time."""

    def register(make: Make) -> Make:
        code = make.__name__
        assert code not in _MEMBERS, code
        _MEMBERS[code] = Registered(of, uses, parts, choice, make)
        return make

    return register


def members(use: Use, *of: Of) -> Iterator[Registered]:
    """Yield the proposals for a use that change one of these, in the order of registration."""
    for member in _MEMBERS.values():
        if use in member.uses and member.of in of:
            yield member


def codes() -> tuple[str, ...]:
    """Return the codes of all proposals."""
    return tuple(_MEMBERS)
