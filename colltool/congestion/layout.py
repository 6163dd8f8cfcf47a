"""Reads layout files: the groups of ranks, what each group runs, and the endpoint of each rank.

    schema: colltool.layout/1
    groups:
      - {name: tp0, ranks: [0, 1, 2, 3], primitive: ar, algorithm: ring, size: 16MB}
      - {name: ep, pattern: {kind: cyclic, group: 8}, primitive: a2a}
    map: {kind: rotate}         # or a list: the endpoint of rank 0, 1, ...

``pattern`` in place of ``groups`` lays out the whole file; ``primitive``, ``algorithm`` and
``size`` at the top hold for every group that does not give its own. Read with the strictness of a
fabric file: all errors at once, each with its place.

:func:`load_layout` is the entry: pydantic checks each value by itself
(:mod:`colltool.congestion.layout_file`), :class:`_Groups` then ranks against the fabric and each other.
:func:`pattern_layout` makes a layout of one pattern without a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from colltool.base.errors import ColltoolError, argument_text, quote
from colltool.base.files import read_text
from colltool.base.formatting import parse_size
from colltool.base.primitives import parse_primitive
from colltool.congestion.layout_file import MOST_RANKS, LayoutFile
from colltool.congestion.layout_groups import GroupLayout, Layout, PatternGroups
from colltool.congestion.patterns import (
    MapPattern,
    Pattern,
    PatternError,
    Ranks,
    expand,
    expand_map,
)
from colltool.definitions.overrides import Overrides, Shorthand
from colltool.definitions.reader import Reading, read
from colltool.definitions.source import KeyPath
from colltool.fabric.model import Fabric
from colltool.fabric.uneven import check_even

# What makes fields of a :class:`GroupLayout` of a file's values, whose texts the model has checked.
_PARSERS: dict[str, Any] = {"primitive": parse_primitive, "algorithm": str, "size": parse_size}
_SHORTHAND = Shorthand("groups", "group", "size=16MB")


def load_layout(
    layout: str | os.PathLike[str] | Mapping[str, Any], fabric: Fabric, overrides: Overrides = ()
) -> Layout:
    """A layout from a file, or a mapping of the same content.

    Raises:
        ColltoolError: all that is wrong with it at once, each with its place.
    """
    if isinstance(layout, Mapping):
        return _layout_of(read(LayoutFile, layout, overrides=overrides, short=_SHORTHAND), fabric)
    return read_layout(read_text(layout, "definition"), os.fsdecode(layout), fabric, overrides)


def read_layout(text: str, name: str, fabric: Fabric, overrides: Overrides = ()) -> Layout:
    """Read a layout from a file's text, as :func:`load_layout`; ``name``: the file's, for errors."""
    return _layout_of(read(LayoutFile, text, name, overrides, _SHORTHAND), fabric)


def read_map(text: str, name: str, fabric: Fabric) -> Ranks:
    """The endpoint of each rank by the ``map`` of a layout file; rank r on endpoint r where it has none.
    Its groups are read, but not checked against the fabric."""
    _check_size(fabric)
    reading = read(LayoutFile, text, name)
    endpoints = _Groups(reading, fabric).endpoints
    reading.result()
    return endpoints


def _layout_of(reading: Reading[LayoutFile], fabric: Fabric) -> Layout:
    """The layout that was read; raises what pydantic and :class:`_Groups` refused, all at once."""
    _check_size(fabric)
    layout = _Groups(reading, fabric).layout()
    reading.result()
    return layout


def pattern_layout(pattern: Pattern, fabric: Fabric, placed: MapPattern | None = None) -> Layout:
    """A layout of one pattern, on endpoints by ``placed``: rank r on endpoint r by default. Errors name
    the argument."""
    _check_size(fabric)
    try:
        endpoints = expand_map(placed or MapPattern(), fabric)
    except PatternError as error:
        raise ColltoolError(error.what, argument="placed", fix=error.fix) from error
    try:
        groups = expand(pattern, fabric, fabric.ranks)
    except PatternError as error:
        raise ColltoolError(error.what, argument=error.key, fix=error.fix) from error
    return Layout(pattern.kind, PatternGroups(groups, endpoints))


def _check_size(fabric: Fabric) -> None:
    """Raise ColltoolError for a fabric with domains of different sizes, and for one that is too large to
    follow."""
    check_even(fabric)
    if fabric.ranks > MOST_RANKS:
        what = f"{fabric.name} has {fabric.ranks} ranks, too many to follow link by link"
        fix = f"at most {MOST_RANKS}; shrink it with {argument_text('overrides')}"
        raise ColltoolError(what, argument="fabric", fix=fix)


class _Groups:
    """Checks the groups of a layout file against the fabric and each other.

    It reads the raw data, not the model, and skips what the model refused, so that all errors come at
    once. To refuse is to add an error to the reading and go on; ``reading.result()`` raises them. A path
    is the keys and indices of a value from the top: ``("groups", 0, "ranks", 2)``.

    Attributes:
        group_of_rank: the name of the group that has each rank, and the path where that was read.
        names: the path of each group's name.
        endpoints: of each rank.
    """

    def __init__(self, reading: Reading[LayoutFile], fabric: Fabric) -> None:
        self.reading = reading
        self.fabric = fabric
        self.data = reading.data
        self.group_of_rank: dict[int, tuple[str, KeyPath]] = {}
        self.names: dict[str, KeyPath] = {}
        self.endpoints = self._endpoints()

    def layout(self) -> Layout:
        """The layout of the groups that are right; what is wrong is refused in the reading."""
        data = self.data
        job = self._job_of(data, ())
        groups: list[GroupLayout] = []
        what = "expected either 'groups' or 'pattern', and not both"
        if self._has_exactly_one("groups", data, (), what, "pattern: {kind: block, group: 8}"):
            if data.get("pattern") is not None:
                groups += self._from_pattern(data["pattern"], ("pattern",), "g", job)
            elif isinstance(data["groups"], list):
                for index, group in enumerate(data["groups"]):
                    groups += self._group(group, ("groups", index), job)
        return Layout(str(data.get("name") or "layout"), tuple(groups), self.reading.overrides)

    def _has_exactly_one(
        self, key: str, data: dict[str, Any], path: KeyPath, what: str, fix: str
    ) -> bool:
        """Whether either ``key`` or ``pattern`` is there, and not both; refused where not, unless one of
        the two was refused before: a second error would only repeat that."""
        exactly_one = (data.get(key) is None) != (data.get("pattern") is None)
        is_valid = self.reading.is_valid
        if not exactly_one and is_valid((*path, key)) and is_valid((*path, "pattern")):
            self.reading.refuse(path, what, fix)
        return exactly_one

    def _endpoints(self) -> Ranks:
        """The endpoint of each rank. Rank r is on endpoint r where the file has no map; also where it is
        refused, so that errors of the groups come as well."""
        value = self.data.get("map")
        in_order = tuple(range(self.fabric.ranks))
        if value is None or not self.reading.is_valid(("map",)):
            return in_order
        if isinstance(value, dict):
            try:
                return expand_map(
                    MapPattern(**_stated_values(value, MapPattern._fields)), self.fabric
                )
            except PatternError as error:
                self.reading.refuse(("map", error.key), error.what, error.fix)
            return in_order
        rank_on: dict[int, int] = {}
        for rank, endpoint in enumerate(value):
            path = ("map", rank)
            if self.reading.has_enough_errors:
                return in_order
            if not self._is_inside(endpoint, path, "endpoint", self.fabric.ranks):
                continue
            holder = rank_on.setdefault(endpoint, rank)
            if holder != rank:
                what = f"endpoint {endpoint} is given to rank {rank} and to rank {holder}"
                self.reading.refuse(path, what, "one rank each")
        return tuple(value) if len(rank_on) == len(value) else in_order

    def _group(self, group: Any, path: KeyPath, default: dict[str, Any]) -> Iterator[GroupLayout]:
        """The groups of an item of the file's list: one of ranks, or those of a pattern. ``default``: what
        it runs where it does not say."""
        if not isinstance(group, dict) or self.reading.has_enough_errors:
            return
        name = self._name(group, path)
        job = default | self._job_of(group, path)
        what = f"group {quote(name)} needs either 'ranks' or 'pattern', and not both"
        fix = "ranks: [0, 1, 2, 3], or pattern: {kind: block, group: 8}"
        if not self._has_exactly_one("ranks", group, path, what, fix):
            return
        if group.get("pattern") is not None:
            yield from self._from_pattern(group["pattern"], (*path, "pattern"), f"{name}.", job)
        elif ranks := self._ranks(group["ranks"], (*path, "ranks"), name):
            yield self._group_layout(name, ranks, path, job)

    def _name(self, group: dict[str, Any], path: KeyPath) -> str:
        """A group's name, which no other may have; without one its number."""
        place = (*path, "name")
        name = f"g{path[-1]}"
        if self.reading.is_valid(place):
            name = str(group.get("name") or name)
        taken_at = self.names.setdefault(name, place)
        if taken_at != place:
            where = self.reading.source.where(taken_at)
            what = f"two groups are called {quote(name)}, the first at {where}"
            self.reading.refuse(place, what, "a name of its own for each")
        return name

    def _group_layout(
        self, name: str, ranks: Ranks, path: KeyPath, job: dict[str, Any]
    ) -> GroupLayout:
        """Make the record of a group whose ranks were all checked."""
        endpoints = tuple(self.endpoints[rank] for rank in ranks)
        return GroupLayout(name, ranks, endpoints, **job, where=self.reading.source.where(path))

    def _ranks(self, value: Any, path: KeyPath, name: str) -> Ranks:
        """The ranks of a group; none of them where one is refused."""
        all_valid = self.reading.is_valid(path)
        for index, rank in enumerate(value if isinstance(value, list) else ()):
            if self.reading.has_enough_errors:
                return ()
            # the model has refused all else, true and false too
            if type(rank) is int:
                place = (*path, index)
                inside = self._is_inside(rank, place, "rank", len(self.endpoints))
                all_valid &= inside and self._claim_rank(rank, place, name)
        return tuple(value) if all_valid else ()

    def _is_inside(self, value: int, path: KeyPath, noun: str, total: int) -> bool:
        """Whether a rank or an endpoint (``noun``) is one of ``total``, refused where not."""
        if 0 <= value < total:
            return True
        there = f"{self.fabric.name} has" if total == self.fabric.ranks else "the map places"
        outside = f"{noun} {quote(value)} is outside the fabric"
        self.reading.refuse(path, outside, f"{there} {noun}s 0 .. {total - 1}")
        return False

    def _claim_rank(self, rank: int, path: KeyPath, name: str) -> bool:
        """Note the group of a rank; False, and refused, where the group or another has it already. With
        ``overlap: true`` a rank may be in several groups, of which the last is noted."""
        owner, taken_at = self.group_of_rank.setdefault(rank, (name, path))
        if taken_at == path:
            return True
        if owner == name:
            what = f"rank {rank} is named twice in group {quote(name)}, first at"
            fix = "name it once"
        elif self.data.get("overlap") is True:
            self.group_of_rank[rank] = (name, path)
            return True
        else:
            what = f"rank {rank} is in group {quote(name)} and in {quote(owner)}, at"
            fix = (
                "one group each; or overlap: true at the top, where its collectives run at the same"
                " time"
            )
        self.reading.refuse(path, f"{what} {self.reading.source.where(taken_at)}", fix)
        return False

    def _from_pattern(
        self, value: Any, path: KeyPath, prefix: str, job: dict[str, Any]
    ) -> Iterator[GroupLayout]:
        """The groups of a pattern, named ``prefix`` and their number; none where the pattern or a rank of
        it is refused."""
        if not self.reading.is_valid(path):
            return
        fields = _stated_values(value, Pattern._fields)
        fields["shape"] = tuple(fields.get("shape", ()))
        try:
            groups = expand(Pattern(**fields), self.fabric, len(self.endpoints))
        except PatternError as error:
            self.reading.refuse((*path, error.key), error.what, error.fix)
            return
        for number, ranks in enumerate(groups):
            for rank in ranks:
                # No file has this path: errors look up the nearest one above it, the pattern's.
                if not self._claim_rank(rank, (*path, number), f"{prefix}{number}"):
                    return  # one error per pattern is enough
        for number, ranks in enumerate(groups):
            yield self._group_layout(f"{prefix}{number}", ranks, path, job)

    def _job_of(self, data: dict[str, Any], path: KeyPath) -> dict[str, Any]:
        """The fields of a :class:`GroupLayout` that say what runs, as far as the file gives them."""
        job = {}
        for key, parse in _PARSERS.items():
            value = data.get(key)
            if value is not None and self.reading.is_valid((*path, key)):
                job[key] = parse(value)
        return job


def _stated_values(data: dict[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """The values that a mapping of the file gives, to make a record of; None is as good as absent."""
    return {key: data[key] for key in known if data.get(key) is not None}
