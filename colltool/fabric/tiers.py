"""The tiers of a fabric file whose shape is a number or axes: star, full mesh, mesh, torus, k-D
mesh and Clos."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import ceil, prod
from typing import Annotated, Literal

from pydantic import Field, model_validator

from colltool.definitions import field_types as ft
from colltool.definitions.field_types import (
    FieldError,
    FieldErrors,
    FieldHint,
    model_check,
    raise_errors,
)
from colltool.fabric import tier_parts as parts
from colltool.fabric.tier_base import SizedTier, TierBase
from colltool.fabric.tier_parts import PLANES, InNetwork, Level, Planes, Shape, Sizing
from colltool.fabric.uplinks import leaf_and_spine

# What errors expect in place of a wrong value.
_IN_NETWORK = FieldHint("a mapping such as {reduce: true, alpha_switch: 0.2us}")
_LEVEL = FieldHint("a level: a mapping such as {name: leaf, group: 4, alpha: 2us}")
_WRAP = FieldHint("a list of true and false, one for each axis, such as [true, true, false]")
_SLICES = FieldHint("a list of shapes, such as [[2, 2, 1], [2, 2, 2]]")
_CUBE = FieldHint(f"a whole number from 2 to {ft.MAX_RANKS}, such as 4")
_UPLINKS = FieldHint("a number from 1 to 1000, such as 3")
_LEVELS = FieldHint(
    f"a list of 1 to {ft.MAX_DEPTH} levels, bottom up, such as [{{name: leaf, group: 4, alpha:"
    " 2us}]"
)
_TRUNK = FieldHint("the rate of an endpoint's whole trunk, such as 1.6Tbps", "rate")
_SIZING = FieldHint("a mapping such as {rails: 8, nics_per_rail: 1, radix: 64}")


class StarTier(SizedTier):
    """A star: one switch, every endpoint one hop from every other."""

    topology: Literal["star"]
    alpha: ft.Alpha
    planes: Annotated[Planes | None, PLANES] = None
    in_network: Annotated[InNetwork | None, _IN_NETWORK] = None

    @property
    def switches(self) -> InNetwork | None:
        return self.in_network

    @model_check
    def _switch_agrees(self) -> Iterator[FieldError]:
        """Refuse protocols of the switch that the tier does not list."""
        return parts.switch_errors(self.in_network, self.protocols or ())


class FullMeshTier(SizedTier):
    """A link between every pair; ``alpha`` and ``bandwidth`` are one link's."""

    topology: Literal["full_mesh"]
    alpha: ft.Alpha


class LatticeTier(TierBase):
    """A torus or a k-D mesh; ``alpha`` and ``bandwidth`` are one link's, one direction; ``wrap``:
    which axes are closed.

    ``twist``: the wraparound of each short axis lands half way round every axis of twice its
    length, as TPU v4 offers it.

    What its maker rents out: shapes (``slices``), and boxes of whole cubes (``cube``, their edge),
    which alone have wraparound.
    """

    topology: Literal["torus", "mesh"]
    shape: Shape
    wrap: Annotated[
        tuple[ft.Flag, ...] | None, Field(min_length=1, max_length=ft.MAX_DEPTH), _WRAP
    ] = None
    twist: ft.Flag = False
    slices: (
        Annotated[tuple[Shape, ...], Field(min_length=1, max_length=ft.MAX_LISTED), _SLICES] | None
    ) = None
    cube: Annotated[int | None, Field(ge=2, le=ft.MAX_RANKS, strict=True), _CUBE] = None
    alpha: ft.Alpha

    @model_check
    def _axes_agree(self) -> list[FieldError]:
        """Refuse a lattice that is too large, does not describe each of its axes, or wraps around and is no
        torus."""
        errors = []
        axes = len(self.shape)
        wrap = self.wrap or ()
        if self.endpoints > ft.MAX_RANKS:
            what = f"{self.endpoints} endpoints are more than {ft.MAX_RANKS}"
            errors.append(FieldError(what, "shorten an axis", ("shape",)))
        if wrap and len(wrap) != axes:
            what = f"has {len(wrap)} entries, the shape has {axes} axes"
            errors.append(FieldError(what, "give one for each axis", ("wrap",)))
        elif any(wrap) and not self.closes:
            fix = "write topology: torus, or leave out wrap"
            errors.append(FieldError("a mesh has no wraparound", fix, ("wrap",)))
        if self.twist and not errors:
            errors += parts.twist_errors(self.shape, self.wrap, self.cube, torus=self.closes)
        for index, shape in enumerate(self.slices or ()):
            if len(shape) != axes:
                what = f"has {len(shape)} axes, the shape has {axes}"
                errors.append(FieldError(what, "one number for each axis", ("slices", index)))
        return errors

    @property
    def endpoints(self) -> int:
        return prod(self.shape)

    @property
    def closes(self) -> bool:
        """Whether its axes may wrap around."""
        return self.topology == "torus"


class ClosTier(SizedTier):
    """Levels of switches, bottom up; give ``alpha`` for a single level or ``levels`` for more.

    ``trunk``: what leads out of an endpoint, one direction, in all: its ranks share it, however
    many ports they have. ``rails``:
    ``only`` where rails never meet: ranks at different places of their domains reach each other by
    way of a neighbour inside one.
    ``oversubscription``: of the uplinks of each endpoint, where there is one level
    (:mod:`colltool.fabric.uplinks`).
    """

    topology: Literal["clos"]
    alpha: ft.Alpha | None = None
    oversubscription: Annotated[ft.Ratio | None, _UPLINKS] = None
    trunk: Annotated[ft.Bandwidth | None, _TRUNK] = None
    levels: (
        Annotated[
            tuple[Annotated[Level, _LEVEL], ...],
            Field(min_length=1, max_length=ft.MAX_DEPTH),
            _LEVELS,
        ]
        | None
    ) = None
    planes: Annotated[Planes | None, PLANES] = None
    rails: Annotated[Literal["optimised", "only"], FieldHint("optimised or only")] = "optimised"
    in_network: Annotated[InNetwork | None, _IN_NETWORK] = None
    sizing: Annotated[Sizing | None, _SIZING] = None

    @property
    def switches(self) -> InNetwork | None:
        return self.in_network

    @property
    def rail_only(self) -> bool:
        return self.rails == "only"

    @property
    def level_names(self) -> tuple[str, ...]:
        return tuple(level.name for level in self.levels or ())

    @model_validator(mode="after")
    def _levels_agree(self) -> ClosTier:
        """Write one oversubscribed level as two, then refuse all but one alpha, or levels that nest.

        The last level is around all endpoints, and the hops multiply to at most ``MAX_RATIO``.
        """
        raise_errors(parts.switch_errors(self.in_network, self.protocols or ()))
        # the model is frozen, and its fields are valid: these replace alpha, oversubscription and levels
        self.__dict__.update(
            leaf_and_spine(
                self.levels or (), self.oversubscription, self.alpha, self.size, self.trunk
            )
        )
        if self.trunk is not None and (self.levels or self.sizing):
            what = "a trunk joins its endpoints directly, without switches to describe"
            fix = "remove it, and describe the switches inside an endpoint as a tier of their own"
            key = "levels" if self.levels else "sizing"
            raise FieldErrors(FieldError(what, fix, (key,)))
        if self.levels is None:
            if self.alpha is None:
                fix = "alpha: 2us, or levels: [{name: leaf, group: 4, alpha: 2us}]"
                raise FieldErrors(FieldError("needs alpha, or levels", fix))
            return self
        errors = []
        if self.alpha is not None:
            what = "has both alpha and levels: give each level its own alpha"
            errors.append(FieldError(what, "remove this one", ("alpha",)))
        errors += self._level_errors(self.levels)
        raise_errors(errors or _too_oversubscribed(self.levels))
        return self

    def _level_errors(self, levels: tuple[Level, ...]) -> Iterator[FieldError]:
        """An error for each mistake in names, groups and the first level's uplinks."""
        names = self.level_names
        repeated = parts.first_repeated(names)
        if repeated is not None:
            what = f"two levels have the same name: {', '.join(names)}"
            yield FieldError(what, "give each a name of its own", ("levels", repeated, "name"))
        leaf = levels[0]
        top = levels[-1]
        if leaf.oversubscription != 1:
            what = (
                f"oversubscription has no meaning on the first level '{leaf.name}': no uplinks"
                " enter it from below"
            )
            yield FieldError(what, "give it to the level above", ("levels", 0, "oversubscription"))
        for index, (below, above) in enumerate(pairwise(levels), start=1):
            if above.group % below.group or above.group <= below.group:
                what = (
                    f"groups do not nest: '{above.name}' has {above.group} endpoints, which is not"
                    f" a larger multiple of the {below.group} of '{below.name}'"
                )
                # the next larger multiple, at least twice the group below
                near = max(2, ceil(above.group / below.group)) * below.group
                yield FieldError(
                    what, f"the next that does: group: {near}", ("levels", index, "group")
                )
        if top.group < self.size:
            what = (
                f"the last level '{top.name}' joins {top.group} endpoints, the tier has {self.size}"
            )
            fix = f"give it a group of {self.size} or more, or add a level above it"
            yield FieldError(what, fix, ("levels", len(levels) - 1, "group"))


def _too_oversubscribed(levels: tuple[Level, ...]) -> Iterator[FieldError]:
    """An error for the first level whose hops multiply to more than ``MAX_RATIO``, which no price can be
    trusted with; none if all are below."""
    for index, total in enumerate(parts.oversubscription_totals(levels)):
        if total > ft.MAX_RATIO:
            what = f"oversubscribed {total:g}:1 against the endpoints"
            fix = f"hops multiply from the endpoints up: at most {ft.MAX_RATIO} in all"
            yield FieldError(what, fix, ("levels", index, "oversubscription"))
            return
