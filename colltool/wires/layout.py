"""Layout files: which ranks form which groups, what each group runs, and which endpoint each rank sits on.

    schema: colltool.layout/1
    groups:
      - {name: tp0, ranks: [0, 1, 2, 3], primitive: ar, algorithm: ring, size: 16MB}
      - {name: ep, pattern: {kind: cyclic, group: 8}, primitive: a2a}
    map: {kind: rotate}         # or a list: the endpoint of rank 0, 1, ...

``pattern`` in place of ``groups`` lays out the whole file; ``primitive``, ``algorithm`` and ``size`` at the top hold for every
group that does not give its own. Read with the strictness of a fabric file: all errors at once, each with its place.
"""

import os
from typing import Any

from colltool.errors import ColltoolError, ManyErrors, nearest
from colltool.fabric.model import Fabric
from colltool.fabric.places import KeyPath, Position, Source
from colltool.fabric.source import read_source
from colltool.inputs import read_text
from colltool.primitives import parse_primitive
from colltool.shown import shown
from colltool.units import parse_size
from colltool.wires.groups import GroupLayout, Layout, PatternGroups, Ranks, numbers
from colltool.wires.patterns import MapPattern, Pattern, PatternError, expand, expand_map

SCHEMA = "colltool.layout/1"
MOST_RANKS = 2**20
"""Beyond it a layout takes gigabytes to follow link by link."""

_RUN = ("primitive", "algorithm", "size")
_KEYS = ("schema", "name", "description", "groups", "pattern", *_RUN, "map", "overlap", "notes", "source")
_GROUP_KEYS = ("name", "ranks", "pattern", *_RUN, "notes")
_MOST_ERRORS = 20


def load_layout(path: str | os.PathLike[str], fabric: Fabric) -> Layout:
    """A layout from a file.

    Raises:
        ManyErrors: everything that is wrong with its content, with ``file:line:column``.
        ColltoolError: an unreadable file, not YAML.
    """
    name = os.fspath(path)
    return read_layout(read_text(name, "definition"), name, fabric)


def read_layout(text: str, name: str, fabric: Fabric) -> Layout:
    """As :func:`load_layout`, from text."""
    _small_enough(fabric)
    reader = _Reader(read_source(text, name), fabric)
    layout = reader.layout()
    problems = [error for _, error in sorted(reader.problems, key=lambda problem: problem[0])]
    if len(problems) > _MOST_ERRORS:
        problems = [*problems[:_MOST_ERRORS], ColltoolError("more errors follow these", where=name)]
    if problems:
        raise ManyErrors(problems)
    return layout


def pattern_layout(pattern: Pattern, fabric: Fabric, placed: MapPattern | None = None) -> Layout:
    """A layout of one pattern, its groups called g0, g1 ...

    Raises:
        ColltoolError: it does not fit; names the option.
    """
    _small_enough(fabric)
    try:
        endpoints = numbers(expand_map(placed or MapPattern(), fabric))
    except PatternError as error:
        raise ColltoolError(error.what, where="--map", fix=error.fix) from error
    try:
        groups = expand(pattern, fabric, fabric.ranks)
    except PatternError as error:
        raise ColltoolError(error.what, where=f"--{_OPTIONS.get(error.key, error.key)}", fix=error.fix) from error
    return Layout(pattern.kind, PatternGroups(groups, endpoints))


_OPTIONS = {"kind": "pattern"}


def _small_enough(fabric: Fabric) -> None:
    if fabric.ranks > MOST_RANKS:
        fix = f"at most {MOST_RANKS}; shrink it with --set"
        raise ColltoolError(f"{fabric.name} has {fabric.ranks} ranks, too many to follow link by link", where="--fabric", fix=fix)


def _numbered(groups: list[Ranks], name: str, endpoints: Ranks, **run: Any) -> list[GroupLayout]:
    return [
        GroupLayout(f"{name}{number}", ranks, tuple(endpoints[rank] for rank in ranks), **run)
        for number, ranks in enumerate(groups)
    ]


class _Reader:
    """Collects every problem of a layout file, so that all are reported at once."""

    def __init__(self, source: Source, fabric: Fabric) -> None:
        self.source, self.fabric = source, fabric
        self.problems: list[tuple[Position, ColltoolError]] = []
        self.total = fabric.ranks
        self.endpoints: Ranks = ()
        self.taken: dict[int, tuple[str, KeyPath]] = {}
        self.names: dict[str, KeyPath] = {}
        self.overlap = False

    def layout(self) -> Layout:
        data = self.source.data
        self._known(data, (), _KEYS)
        if data.get("schema", SCHEMA) != SCHEMA:
            self._say(("schema",), f"expected {SCHEMA}, found {shown(data['schema'])}")
        name = self._text(data, ("name",)) or "layout"
        self.overlap = data.get("overlap", False)
        if not isinstance(self.overlap, bool):
            self._say(("overlap",), f"expected true or false, found {shown(self.overlap)}")
        self.endpoints = self._map(data.get("map"))
        self.total = len(self.endpoints)
        run = self._run(data, ())
        if ("groups" in data) == ("pattern" in data):
            self._say((), "expected either 'groups' or 'pattern', and not both", "pattern: {kind: block, group: 8}")
            return Layout(name, ())
        if "pattern" in data:
            return Layout(name, tuple(self._from_pattern(data["pattern"], ("pattern",), "g", run)))
        groups = data["groups"]
        if not isinstance(groups, list) or not groups:
            self._say(("groups",), f"expected a list of groups, found {shown(groups)}", "- {name: a, ranks: [0, 1, 2, 3]}")
            return Layout(name, ())
        read = [one for index, group in enumerate(groups) for one in self._group(group, ("groups", index), run)]
        return Layout(name, tuple(read))

    def _map(self, value: Any) -> Ranks:
        identity = tuple(range(self.fabric.ranks))
        if value is None:
            return identity
        if isinstance(value, dict):
            self._known(value, ("map",), MapPattern._fields)
            pattern = MapPattern(**{key: value[key] for key in MapPattern._fields if self._typed(value, ("map",), key)})
            try:
                return expand_map(pattern, self.fabric)
            except PatternError as error:
                self._say(("map", error.key), error.what, error.fix)
            return identity
        if not isinstance(value, list) or not value:
            self._say(("map",), f"expected a list of endpoints or {{kind: ...}}, found {shown(value)}")
            return identity
        seen: dict[int, int] = {}
        before = len(self.problems)
        for rank, endpoint in enumerate(value):
            path = ("map", rank)
            if not self._is_rank(endpoint, path, "endpoint", self.fabric.ranks):
                continue
            if endpoint in seen:
                self._say(path, f"endpoint {endpoint} is given to rank {rank} and to rank {seen[endpoint]}", "one rank each")
            seen.setdefault(endpoint, rank)
        return tuple(value) if len(self.problems) == before else identity

    def _group(self, group: Any, path: KeyPath, default: dict[str, Any]) -> list[GroupLayout]:
        if not isinstance(group, dict):
            self._say(path, f"expected a mapping, found {shown(group)}", "{name: a, ranks: [0, 1, 2, 3]}")
            return []
        self._known(group, path, _GROUP_KEYS)
        name = self._text(group, (*path, "name")) or f"g{path[-1]}"
        if name in self.names:
            first = self.source.where(self.names[name])
            self._say((*path, "name"), f"two groups are called {shown(name)}, the first at {first}")
        self.names.setdefault(name, (*path, "name"))
        run = default | {key: value for key, value in self._run(group, path).items() if value is not None}
        if ("ranks" in group) == ("pattern" in group):
            self._say(path, f"group {shown(name)} needs either 'ranks' or 'pattern', and not both")
            return []
        if "pattern" in group:
            return self._from_pattern(group["pattern"], (*path, "pattern"), f"{name}.", run)
        ranks = self._ranks(group["ranks"], (*path, "ranks"), name)
        if not ranks:
            return []
        places = tuple(self.endpoints[rank] for rank in ranks)
        return [GroupLayout(name, ranks, places, **run, where=self.source.where(path))]

    def _ranks(self, value: Any, path: KeyPath, name: str) -> Ranks:
        if not isinstance(value, list) or len(value) < 2:
            self._say(path, f"expected a list of at least 2 ranks, found {shown(value)}", "[0, 1, 2, 3]")
            return ()
        before = len(self.problems)
        for index, rank in enumerate(value):
            if self._is_rank(rank, (*path, index), "rank", self.total):
                self._take(rank, (*path, index), name)
        return tuple(value) if len(self.problems) == before else ()

    def _take(self, rank: int, path: KeyPath, name: str) -> None:
        """Notes who has a rank; a rank is in one group, or in several whose collectives overlap."""
        owner, first = self.taken.setdefault(rank, (name, path))
        if first == path:
            return
        place = self.source.where(first)
        if owner == name:
            self._say(path, f"rank {rank} is named twice in group {shown(name)}, first at {place}")
        elif not self.overlap:
            fix = "one group each; or overlap: true at the top, where its collectives run at the same time"
            self._say(path, f"rank {rank} is in group {shown(name)} and in {shown(owner)}, at {place}", fix)
        else:
            self.taken[rank] = (name, path)

    def _from_pattern(self, value: Any, path: KeyPath, name: str, run: dict[str, Any]) -> list[GroupLayout]:
        if not isinstance(value, dict):
            self._say(path, f"expected a mapping, found {shown(value)}", "{kind: block, group: 8, count: 8}")
            return []
        self._known(value, path, Pattern._fields)
        given = {key: value[key] for key in Pattern._fields if self._typed(value, path, key)}
        if "shape" in given:
            given["shape"] = tuple(given["shape"])
        try:
            groups = expand(Pattern(**given), self.fabric, self.total)
        except PatternError as error:
            self._say((*path, error.key), error.what, error.fix)
            return []
        before = len(self.problems)
        for number, ranks in enumerate(groups):
            for rank in ranks:
                if len(self.problems) == before:
                    self._take(rank, (*path, number), f"{name}{number}")
        return _numbered(groups, name, self.endpoints, **run, where=self.source.where(path))

    def _typed(self, value: dict[str, Any], path: KeyPath, key: str) -> bool:
        """Whether a key of a pattern is there and of its type."""
        if key not in value:
            return False
        found = value[key]
        if key == "kind":
            good, expected = isinstance(found, str), "a name"
        elif key == "shape":
            good, expected = isinstance(found, list) and bool(found) and all(map(_whole, found)), "a list of whole numbers"
        else:
            good, expected = _whole(found), "a whole number"
        if not good:
            self._say((*path, key), f"expected {expected}, found {shown(found)}")
        return good

    def _run(self, data: dict[str, Any], path: KeyPath) -> dict[str, Any]:
        out: dict[str, Any] = {"primitive": None, "algorithm": None, "size": None}
        if "primitive" in data:
            out["primitive"] = self._try((*path, "primitive"), lambda: parse_primitive(str(data["primitive"])))
        if "algorithm" in data:
            out["algorithm"] = self._text(data, (*path, "algorithm")) or None
        if "size" in data:
            out["size"] = self._try((*path, "size"), lambda: parse_size(data["size"]))
        return out

    def _is_rank(self, value: Any, path: KeyPath, what: str, total: int) -> bool:
        if not _whole(value):
            self._say(path, f"expected the number of a {what}, found {shown(value)}")
            return False
        if not 0 <= value < total:
            there = f"{self.fabric.name} has" if total == self.fabric.ranks else "the map places"
            self._say(path, f"{what} {value} is outside the fabric", f"{there} {what}s 0 .. {total - 1}")
            return False
        return True

    def _text(self, data: dict[str, Any], path: KeyPath) -> str:
        value = data.get(str(path[-1]), "")
        if not isinstance(value, str):
            self._say(path, f"expected text, found {shown(value)}")
        return str(value)

    def _known(self, data: dict[str, Any], path: KeyPath, known: tuple[str, ...]) -> None:
        for key in data:
            if key not in known:
                fix = f"{nearest(key, list(known))} known: {', '.join(known)}".strip()
                self._say((*path, key), f"unknown key {shown(key)}", fix, key=True)

    def _try(self, path: KeyPath, parse: Any) -> Any:
        try:
            return parse()
        except ColltoolError as error:
            self._say(path, error.what, error.fix)
        return None

    def _say(self, path: KeyPath, what: str, fix: str = "", *, key: bool = False) -> None:
        error = ColltoolError(what, where=self.source.where(path, key=key), fix=fix)
        self.problems.append((self.source.position(path, key=key), error))


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
