"""Algorithms and compositions by their executed schedules: what they send is what ``plan --links`` counts."""

from __future__ import annotations

import numpy as np

from colltool.algorithms.choice import Choice, parse_choice
from colltool.algorithms.composed import compositions, find_composition
from colltool.algorithms.group import Group
from colltool.algorithms.registry import find, row_of
from colltool.base.errors import ColltoolError, given
from colltool.base.formatting import counted
from colltool.base.primitives import Primitive
from colltool.congestion.arrays import Indices
from colltool.congestion.seated import Seated, seated
from colltool.congestion.sent import Unrouted, sent_by
from colltool.congestion.traffic import Members, Row, Traffic
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.schedules.library import maker


def executed(primitive: Primitive, algorithm: str) -> Row | None:
    """The row of an algorithm or composition that has a schedule; None of any other.

    Raises:
        ColltoolError: a text that names nothing.
    """
    choice = parse_choice(algorithm)
    composed = choice.base in _composed(primitive)
    if not composed and choice.base != "multi-rail-ring" and maker(primitive, choice.base) is None:
        return None

    def seats(fabric: Fabric, ends: Indices) -> Seated:
        return seated(fabric, ends) if composed else _flat_seats(fabric, ends)

    def traffic(members: Members, _: Primitive) -> Traffic:
        assert members.seated is not None  # rows with seats are asked with them
        _check(primitive, choice, members.seated)
        try:
            return sent_by(primitive, choice, members.seated.groups, members.seated.whole)
        except Unrouted as error:
            raise ColltoolError(str(error), argument="algorithm", fix="a smaller group, or another algorithm") from error

    return Row(traffic, seats=seats)


def _composed(primitive: Primitive) -> list[str]:
    return [row.name for row in compositions(primitive)]


def _flat_seats(fabric: Fabric, ends: Indices) -> Seated:
    """Flat schedules go from member to member as the group lists them; on a lattice, from place to place."""
    lattice = any(capabilities_of(tier).axes for tier in fabric.tiers)
    try:
        sits = seated(fabric, ends)
    except ColltoolError:
        if lattice:
            raise
        sits = Seated((), Group(len(ends), "tiers"), np.arange(len(ends)))
    return sits if lattice else sits._replace(order=np.arange(len(ends)))


def _check(primitive: Primitive, choice: Choice, sits: Seated) -> None:
    """Refuses what cannot run on these seats.

    Raises:
        ColltoolError: one tier only, another number of names than tiers, an unknown name, or one that cannot run there.
    """
    if choice.base not in _composed(primitive):
        row = find(primitive, choice.base, _composed(primitive))
        _refuse(row.name, row.why_not(row.on(sits.whole, choice)))
        return
    if len(sits.groups) < 2:
        _refuse(choice.base, f"needs a group over several tiers; its {sits.whole.ranks} ranks lie on one")
    if len(choice.tiers) != len(sits.groups):
        what = f"'{choice.spec}' names {counted(len(choice.tiers), 'algorithm')}, the group spans {len(sits.groups)} tiers"
        usual = Choice(choice.base, ("ring",) * len(sits.groups)).spec
        raise ColltoolError(what, argument="algorithm", fix=f"one for each, innermost first, such as {given('algorithm', usual)}")
    sizes = tuple(group.ranks for group in sits.groups)
    begun: dict[int, Primitive] = {}
    for step in find_composition(primitive, choice.base).steps(sizes, "inner-first"):
        begun.setdefault(step.tier, step.primitive)
    for tier, first in begun.items():
        row = row_of(first, choice.tiers[tier]) or find(first, choice.tiers[tier])
        _refuse(row.name, row.why_not(sits.groups[tier]))


def _refuse(name: str, reason: str | None) -> None:
    if reason:
        raise ColltoolError(f"{name} cannot run here: {reason}", argument="algorithm", fix="price lists what can")
