"""Layout files: which ranks form which groups, what each group runs, and which endpoint each rank sits on.

    schema: colltool.layout/1
    groups:
      - {name: tp0, ranks: [0, 1, 2, 3], primitive: ar, algorithm: ring, size: 16MB}
      - {name: ep, pattern: {kind: cyclic, group: 8}, primitive: a2a}
    map: {kind: rotate}         # or a list: the endpoint of rank 0, 1, ...

``pattern`` in place of ``groups`` lays out the whole file; ``primitive``, ``algorithm`` and ``size`` at the top hold for every
group that does not give its own. Read with the strictness of a fabric file: all errors at once, each with its place.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from colltool.base.errors import ColltoolError, given, shown
from colltool.base.files import read_text
from colltool.base.formatting import parse_size
from colltool.base.primitives import parse_primitive
from colltool.congestion.groups import GroupLayout, Layout, PatternGroups, Ranks, numbers
from colltool.congestion.layout_file import MOST_RANKS, LayoutFile
from colltool.congestion.patterns import MapPattern, Pattern, PatternError, expand, expand_map
from colltool.definitions.reader import Overrides, Reading, Shorthand, read
from colltool.definitions.source import KeyPath
from colltool.fabric.model import Fabric

_RUN: dict[str, Any] = {"primitive": parse_primitive, "algorithm": str, "size": parse_size}
_SHORT = Shorthand("groups", "group", "size=16MB")


def load_layout(layout: str | os.PathLike[str] | Mapping[str, Any], fabric: Fabric, overrides: Overrides = ()) -> Layout:
    """A layout from a file, or from a mapping of the same content.

    Raises:
        ManyErrors: everything that is wrong with its content, by ``file:line:column`` or key path.
        ColltoolError: an unreadable file, not YAML.
    """
    if isinstance(layout, Mapping):
        return _checked(read(LayoutFile, layout, overrides=overrides, short=_SHORT), fabric)
    return read_layout(read_text(layout, "definition"), os.fsdecode(layout), fabric, overrides)


def read_layout(text: str, name: str, fabric: Fabric, overrides: Overrides = ()) -> Layout:
    return _checked(read(LayoutFile, text, name, overrides, _SHORT), fabric)


def read_map(text: str, name: str, fabric: Fabric) -> Ranks:
    """The endpoint of each rank by the ``map`` of a layout file, whatever its groups; all in order without one."""
    _small_enough(fabric)
    reading = read(LayoutFile, text, name)
    endpoints = _Groups(reading, fabric).places()
    reading.result()
    return endpoints


def _checked(reading: Reading[LayoutFile], fabric: Fabric) -> Layout:
    _small_enough(fabric)
    layout = _Groups(reading, fabric).layout()
    reading.result()
    return layout


def pattern_layout(pattern: Pattern, fabric: Fabric, placed: MapPattern | None = None) -> Layout:
    """A layout of one pattern; errors name the argument."""
    _small_enough(fabric)
    try:
        endpoints = numbers(expand_map(placed or MapPattern(), fabric))
    except PatternError as error:
        raise ColltoolError(error.what, argument="placed", fix=error.fix) from error
    try:
        groups = expand(pattern, fabric, fabric.ranks)
    except PatternError as error:
        raise ColltoolError(error.what, argument=error.key, fix=error.fix) from error
    return Layout(pattern.kind, PatternGroups(groups, endpoints))


def _small_enough(fabric: Fabric) -> None:
    if fabric.ranks > MOST_RANKS:
        fix = f"at most {MOST_RANKS}; shrink it with {given('overrides')}"
        raise ColltoolError(
            f"{fabric.name} has {fabric.ranks} ranks, too many to follow link by link", argument="fabric", fix=fix
        )


class _Groups:
    """Checks the groups of a layout file against the fabric and each other.

    It reads the data beside the model and skips what the model refused, so that all errors come at once.
    """

    def __init__(self, reading: Reading[LayoutFile], fabric: Fabric) -> None:
        self.reading, self.fabric, self.data = reading, fabric, reading.data
        self.total = fabric.ranks
        self.endpoints: Ranks = ()
        self.taken: dict[int, tuple[str, KeyPath]] = {}
        self.names: dict[str, KeyPath] = {}
        self.overlap = self.data.get("overlap") is True

    def layout(self) -> Layout:
        data, reading = self.data, self.reading
        self.endpoints = self.places()
        self.total = len(self.endpoints)
        run = self._run(data, ())
        if (data.get("groups") is None) == (data.get("pattern") is None):
            if reading.sound(("groups",)) and reading.sound(("pattern",)):
                fix = "pattern: {kind: block, group: 8}"
                reading.refuse((), "expected either 'groups' or 'pattern', and not both", fix)
            groups = []
        elif data.get("pattern") is not None:
            groups = self._from_pattern(data["pattern"], ("pattern",), "g", run)
        else:
            listed = data["groups"] if isinstance(data["groups"], list) else []
            groups = [one for index, group in enumerate(listed) for one in self._group(group, ("groups", index), run)]
        return Layout(str(data.get("name") or "layout"), tuple(groups), reading.overrides)

    def places(self) -> Ranks:
        value, identity = self.data.get("map"), tuple(range(self.fabric.ranks))
        if value is None or not self.reading.sound(("map",)):
            return identity
        if isinstance(value, dict):
            try:
                return expand_map(MapPattern(**_fields(value, MapPattern._fields)), self.fabric)
            except PatternError as error:
                self.reading.refuse(("map", error.key), error.what, error.fix)
            return identity
        seen: dict[int, int] = {}
        for rank, endpoint in enumerate(value):
            path = ("map", rank)
            if self.reading.enough:
                return identity
            if not self._inside(endpoint, path, "endpoint", self.fabric.ranks):
                continue
            if endpoint in seen:
                what = f"endpoint {endpoint} is given to rank {rank} and to rank {seen[endpoint]}"
                self.reading.refuse(path, what, "one rank each")
            seen.setdefault(endpoint, rank)
        return tuple(value) if len(seen) == len(value) else identity

    def _group(self, group: Any, path: KeyPath, default: dict[str, Any]) -> list[GroupLayout]:
        if not isinstance(group, dict) or self.reading.enough:
            return []
        name = self._name(group, path)
        run = default | self._run(group, path)
        if (group.get("ranks") is None) == (group.get("pattern") is None):
            if self.reading.sound((*path, "ranks")) and self.reading.sound((*path, "pattern")):
                what = f"group {shown(name)} needs either 'ranks' or 'pattern', and not both"
                self.reading.refuse(path, what, "ranks: [0, 1, 2, 3], or pattern: {kind: block, group: 8}")
            return []
        if group.get("pattern") is not None:
            return self._from_pattern(group["pattern"], (*path, "pattern"), f"{name}.", run)
        ranks = self._ranks(group["ranks"], (*path, "ranks"), name)
        places = tuple(self.endpoints[rank] for rank in ranks)
        return [GroupLayout(name, ranks, places, **run, where=self.reading.source.where(path))] if ranks else []

    def _name(self, group: dict[str, Any], path: KeyPath) -> str:
        at = (*path, "name")
        name = str(group.get("name") or f"g{path[-1]}") if self.reading.sound(at) else f"g{path[-1]}"
        if name in self.names:
            first = self.reading.source.where(self.names[name])
            self.reading.refuse(at, f"two groups are called {shown(name)}, the first at {first}", "a name of its own for each")
        self.names.setdefault(name, at)
        return name

    def _ranks(self, value: Any, path: KeyPath, name: str) -> Ranks:
        good = self.reading.sound(path)
        for index, rank in enumerate(value if isinstance(value, list) else ()):
            if self.reading.enough:
                return ()
            if type(rank) is int:
                there = (*path, index)
                good &= self._inside(rank, there, "rank", self.total) and self._take(rank, there, name)
        return tuple(value) if good else ()

    def _inside(self, value: int, path: KeyPath, what: str, total: int) -> bool:
        if 0 <= value < total:
            return True
        there = f"{self.fabric.name} has" if total == self.fabric.ranks else "the map places"
        self.reading.refuse(path, f"{what} {shown(value)} is outside the fabric", f"{there} {what}s 0 .. {total - 1}")
        return False

    def _take(self, rank: int, path: KeyPath, name: str) -> bool:
        """Note who has a rank; several groups may have it where their collectives overlap."""
        owner, first = self.taken.setdefault(rank, (name, path))
        if first == path:
            return True
        if owner != name and self.overlap:
            self.taken[rank] = (name, path)
            return True
        place = self.reading.source.where(first)
        if owner == name:
            self.reading.refuse(path, f"rank {rank} is named twice in group {shown(name)}, first at {place}", "name it once")
        else:
            fix = "one group each; or overlap: true at the top, where its collectives run at the same time"
            self.reading.refuse(path, f"rank {rank} is in group {shown(name)} and in {shown(owner)}, at {place}", fix)
        return False

    def _from_pattern(self, value: Any, path: KeyPath, name: str, run: dict[str, Any]) -> list[GroupLayout]:
        if not self.reading.sound(path):
            return []
        fields = _fields(value, Pattern._fields)
        try:
            groups = expand(Pattern(**fields | {"shape": tuple(fields.get("shape", ()))}), self.fabric, self.total)
        except PatternError as error:
            self.reading.refuse((*path, error.key), error.what, error.fix)
            return []
        for number, ranks in enumerate(groups):
            if not all(self._take(rank, (*path, number), f"{name}{number}") for rank in ranks):
                return []  # one error per pattern is enough
        run = run | {"where": self.reading.source.where(path)}
        placed = enumerate(tuple(self.endpoints[rank] for rank in ranks) for ranks in groups)
        return [GroupLayout(f"{name}{number}", groups[number], ends, **run) for number, ends in placed]

    def _run(self, data: dict[str, Any], path: KeyPath) -> dict[str, Any]:
        told = ((key, data.get(key)) for key in _RUN if self.reading.sound((*path, key)))
        return {key: _RUN[key](value) for key, value in told if value is not None}


def _fields(data: dict[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    return {key: data[key] for key in known if data.get(key) is not None}
