"""Ladder files: a list of prices to follow, read with the same strictness as a fabric.

The fabrics that a ladder names are shipped ones, or files beside the ladder.
"""

import os
from pathlib import Path
from typing import Any, NamedTuple

from colltool.errors import ColltoolError, ManyErrors, nearest
from colltool.fabric.load import load_fabric, shipped_fabrics, shipped_folder
from colltool.fabric.model import Fabric
from colltool.fabric.places import Position, Source
from colltool.fabric.source import read_source
from colltool.inputs import read_text
from colltool.primitives import Primitive, parse_primitive
from colltool.shown import shown
from colltool.units import parse_size

SCHEMA = "colltool.ladder-file/1"
_KEYS = ("schema", "name", "description", "size", "rungs", "notes", "source")
_RUNG_KEYS = ("primitive", "fabric", "algorithm", "ranks", "notes")
_MOST_RUNGS = 10_000


class RungDefinition(NamedTuple):
    """One line of a ladder file: what to price where. Without an algorithm, the fastest that exists."""

    primitive: Primitive
    fabric: Fabric
    algorithm: str | None
    ranks: int | None


class LadderDefinition(NamedTuple):
    """A ladder file: its name and its rungs, all at one size in bytes."""

    name: str
    description: str
    size: float
    rungs: tuple[RungDefinition, ...]


def load_ladder(path_or_name: str | os.PathLike[str] = "n512") -> LadderDefinition:
    """A ladder from a file, or a shipped one by name.

    Raises:
        ManyErrors: everything that is wrong with its content, with ``file:line:column``.
        ColltoolError: no such ladder, an unreadable file, not YAML.
    """
    typed = os.fspath(path_or_name)
    if os.path.exists(typed) and not os.path.isdir(typed):
        return read_ladder(read_text(typed, "definition"), typed, Path(typed).parent)
    if os.path.isdir(typed):
        raise ColltoolError("is a directory, expected a ladder file", where=typed)
    folder = shipped_folder() / "ladders"
    shipped = sorted(file.stem for file in folder.glob("*.yaml"))
    stem = typed.removesuffix(".yaml")
    if stem in shipped:
        return read_ladder(read_text(folder / f"{stem}.yaml", "definition", f"{stem}.yaml"), f"{stem}.yaml", folder)
    fix = f"{nearest(stem, shipped)} shipped: {', '.join(shipped)}".strip()
    raise ColltoolError(f"no file and no shipped ladder is called {shown(typed)}", fix=fix)


def read_ladder(text: str, name: str, folder: Path) -> LadderDefinition:
    """As :func:`load_ladder`, from text; ``folder`` holds the fabrics it names."""
    source = read_source(text, name)
    reader = _Reader(source, folder)
    ladder = reader.ladder()
    if reader.found:
        raise ManyErrors([problem for _, problem in sorted(reader.found, key=lambda item: item[0])])
    return ladder


class _Reader:
    """Collects every problem of a ladder file, so that all are reported at once."""

    def __init__(self, source: Source, folder: Path) -> None:
        self.source, self.folder = source, folder
        self.found: list[tuple[Position, ColltoolError]] = []
        self.fabrics: dict[str, Fabric | None] = {}

    def ladder(self) -> LadderDefinition:
        data = self.source.data
        self._known(data, (), _KEYS)
        if data.get("schema", SCHEMA) != SCHEMA:
            self._say(("schema",), f"expected {SCHEMA}, found {shown(data['schema'])}")
        size = self._try(("size",), lambda: parse_size(self._need(data, "size")))
        name, description = (self._text(data, key) for key in ("name", "description"))
        rungs = data.get("rungs")
        if not isinstance(rungs, list) or not 1 <= len(rungs) <= _MOST_RUNGS:
            self._say(("rungs",), f"expected a list of 1 to {_MOST_RUNGS} rungs", "- {primitive: ar, fabric: star512}")
            rungs = []
        read = [self._rung(rung, ("rungs", index)) for index, rung in enumerate(rungs)]
        return LadderDefinition(name, description, size or 1.0, tuple(rung for rung in read if rung is not None))

    def _rung(self, rung: Any, path: tuple[str | int, ...]) -> RungDefinition | None:
        if not isinstance(rung, dict):
            self._say(path, f"expected a mapping, found {shown(rung)}", "{primitive: ar, fabric: star512, algorithm: ring}")
            return None
        self._known(rung, path, _RUNG_KEYS)
        primitive = self._try((*path, "primitive"), lambda: parse_primitive(str(self._need(rung, "primitive"))))
        fabric = self._try((*path, "fabric"), lambda: self._fabric(str(self._need(rung, "fabric"))))
        ranks, algorithm = rung.get("ranks"), rung.get("algorithm")
        if ranks is not None and (isinstance(ranks, bool) or not isinstance(ranks, int)):
            self._say((*path, "ranks"), f"expected a whole number, found {shown(ranks)}")
        if algorithm is not None and not isinstance(algorithm, str):
            self._say((*path, "algorithm"), f"expected a name, found {shown(algorithm)}")
        if primitive is None or fabric is None:
            return None
        return RungDefinition(primitive, fabric, algorithm, ranks)

    def _fabric(self, name: str) -> Fabric | None:
        if name not in self.fabrics:
            self.fabrics[name] = None
            beside = self.folder / os.path.basename(name)
            known = name.removesuffix(".yaml") in shipped_fabrics()
            self.fabrics[name] = load_fabric(name if known or not beside.is_file() else beside)
        return self.fabrics[name]

    def _text(self, data: dict[str, Any], key: str) -> str:
        value = data.get(key, "")
        if not isinstance(value, str):
            self._say((key,), f"expected text, found {shown(value)}")
        return str(value)

    def _known(self, data: dict[str, Any], path: tuple[str | int, ...], known: tuple[str, ...]) -> None:
        for key in data:
            if key not in known:
                fix = f"{nearest(key, list(known))} known: {', '.join(known)}".strip()
                self._say((*path, key), f"unknown key {shown(key)}", fix, key=True)

    def _need(self, data: dict[str, Any], key: str) -> Any:
        if key not in data:
            raise ColltoolError(f"key '{key}' is missing")
        return data[key]

    def _try(self, path: tuple[str | int, ...], parse: Any) -> Any:
        try:
            return parse()
        except ManyErrors as error:
            self.found += [(self.source.position(path), problem) for problem in error.problems]
        except ColltoolError as error:
            self._say(path, error.what, error.fix)
        return None

    def _say(self, path: tuple[str | int, ...], what: str, fix: str = "", *, key: bool = False) -> None:
        place = self.source.position(path, key=key)
        self.found.append((place, ColltoolError(what, where=self.source.where(path, key=key), fix=fix)))
