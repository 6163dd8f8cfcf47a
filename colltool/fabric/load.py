"""A fabric by path or shipped name, with what-if overrides, validated once: every error of the file in one report."""

import os
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from colltool.errors import ColltoolError, ManyErrors, nearest
from colltool.fabric.model import Fabric
from colltool.fabric.source import KeyPath, Position, Refused, Source, dotted, read_value, scan
from colltool.fabric.wording import MOST, Finding, findings, keys_at, value_at
from colltool.inputs import read_text
from colltool.shown import printable, shown

SUFFIX = ".yaml"


class Override(NamedTuple):
    """One ``--set``: the option as typed and the key path that it sets."""

    option: str
    path: KeyPath


def shipped_folder() -> Path:
    """The folder of the shipped fabrics: in the wheel within the package, in a checkout at its top."""
    package = Path(__file__).parent.parent
    packed = package / "_fabrics"
    return packed if packed.is_dir() else package.parent / "fabrics"


def shipped_fabrics() -> list[str]:
    """The names of the shipped fabrics, sorted."""
    return sorted(file.stem for file in shipped_folder().glob(f"*{SUFFIX}"))


def find_fabric(path_or_name: str | os.PathLike[str]) -> tuple[str, str]:
    """The file that ``--fabric`` means, and what errors call it.

    Args:
        path_or_name: an existing file, else the file name or stem of a shipped fabric.

    Returns:
        The path to open, and a name for people: as typed, or the bare file name of a shipped fabric.

    Raises:
        ColltoolError: neither, or a directory.
    """
    typed = os.fspath(path_or_name)
    if os.path.exists(typed) and not os.path.isdir(typed):
        return typed, typed
    shipped = shipped_fabrics()
    stem = typed.removesuffix(SUFFIX)
    if stem in shipped:
        return str(shipped_folder() / f"{stem}{SUFFIX}"), f"{stem}{SUFFIX}"
    if os.path.isdir(typed):
        raise ColltoolError("is a directory, expected a fabric file", where=printable(typed))
    hint = nearest(os.path.basename(stem), shipped)
    raise ColltoolError(
        f"no file and no shipped fabric is called {shown(typed)}",
        fix=f"{hint} the shipped ones: colltool fabric list".strip(),
    )


def load_fabric(path_or_name: str | os.PathLike[str], overrides: Sequence[str] = ()) -> Fabric:
    """A validated fabric.

    Args:
        path_or_name: an existing file, else the file name or stem of a shipped fabric.
        overrides: ``KEY=VALUE`` each, as for ``--set``: ``nvlink.alpha=1us``, ``ib.levels.spine.oversubscription=4``,
            ``torus.shape=[8,8,4]``, ``tiers.0.eta.beta=0.7``, ``launch_overhead=5us``. A later one wins.

    Raises:
        ManyErrors: everything that is wrong with the content, in the order of the file, then the overrides.
        ColltoolError: no such fabric, an unreadable file, not YAML.
    """
    file, name = find_fabric(path_or_name)
    return read_fabric(read_text(file, "definition", name), name, overrides)


def fabric_data(path_or_name: str | os.PathLike[str], overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The plain data of a fabric file that holds, with its overrides: to be changed and written again.

    Raises:
        ColltoolError: as :func:`load_fabric`.
    """
    file, name = find_fabric(path_or_name)
    text = read_text(file, "definition", name)
    read_fabric(text, name, overrides)
    return _override(scan(text, name)[0].data, overrides)[0]


def read_fabric(text: str, name: str, overrides: Sequence[str] = ()) -> Fabric:
    """As :func:`load_fabric`, from text.

    Args:
        text: the YAML.
        name: what errors call it.
        overrides: ``KEY=VALUE`` each.

    Raises:
        ManyErrors: everything that is wrong with the content.
        ColltoolError: not YAML.
    """
    source, refused = scan(text, name)
    data, applied, unusable = _override(source.data, overrides)
    try:
        fabric = Fabric.model_validate(data)
    except ValidationError as error:
        found = [item for item in findings(error, data) if not _covered(item, data)]
    else:
        if not refused and not unusable:
            return fabric
        found = []
    placed = [(problem.position, problem.error) for problem in refused] + [_place(item, source, applied) for item in found]
    errors = [error for _, error in sorted(placed, key=lambda item: item[0])] + unusable
    if len(errors) > MOST:
        errors = [*errors[:MOST], ColltoolError("more errors follow these", where=printable(name))]
    raise ManyErrors(errors)


def _covered(finding: Finding, data: Any) -> bool:
    """Whether a finding only repeats that a value was refused: nothing is known of what stands there."""
    return any(isinstance(value_at(finding.path[:end], data), Refused) for end in range(len(finding.path) + 1))


def _place(finding: Finding, source: Source, applied: list[Override]) -> tuple[Position, ColltoolError]:
    """A finding as an error at the override that set the value, else at its line and column."""
    key_path = dotted(finding.path)
    position = source.position(finding.path, key=finding.about_key)
    what, fix = printable(finding.what), printable(finding.fix)
    for override in reversed(applied):
        above = override.path[: len(finding.path)] == finding.path
        if finding.path[: len(override.path)] == override.path or (above and finding.path not in source.positions):
            where = f"--set {printable(override.option)}"
            where += f": {key_path}" if finding.path != override.path else ""
            return Position(2**31, applied.index(override)), ColltoolError(what, where=where, fix=fix)
    within = [override.option for override in applied if override.path[: len(finding.path)] == finding.path]
    if within:
        what += f" (with --set {printable(', '.join(within))})"
    where = source.where(finding.path, key=finding.about_key)
    return position, ColltoolError(what, where=f"{where}: {key_path}" if key_path else where, fix=fix)


def _override(data: dict[str, Any], options: Sequence[str]) -> tuple[dict[str, Any], list[Override], list[ColltoolError]]:
    """The data with each ``KEY=VALUE`` put in, the overrides made, and the errors of those that could not be."""
    data = deepcopy(data) if options else data
    applied: list[Override] = []
    unusable: list[ColltoolError] = []
    for option in options:
        where = f"--set {printable(option)}"
        try:
            applied.append(Override(option, _set(data, option, where)))
        except ColltoolError as error:
            unusable.append(error)
    return data, applied, unusable


def _set(data: dict[str, Any], option: str, where: str) -> KeyPath:
    """Puts one value into ``data``; returns where."""
    key, equals, text = option.partition("=")
    if not equals or not key.strip() or not text.strip():
        raise ColltoolError("expected KEY=VALUE", where=where, fix="write --set nvlink.alpha=1us")
    value = read_value(text, where)
    parts = _spelt_out(key.strip().split("."), data, where)
    target: Any = data
    path: KeyPath = ()
    for depth, part in enumerate(parts):
        step: Any = _index(target, part, path, where) if isinstance(target, list) else part
        path = (*path, step)
        if depth == len(parts) - 1:
            target[step] = value
            break
        inner = target[step] if isinstance(target, list) else target.get(step)
        if inner is None:
            inner = target[step] = _new_mapping(path, data, where)
        if not isinstance(inner, dict | list):
            raise ColltoolError(f"'{'.'.join(parts[: depth + 1])}' has no keys: it is {shown(inner)}", where=where)
        target = inner
    return path


def _spelt_out(parts: list[str], data: dict[str, Any], where: str) -> list[str]:
    """The parts of a key from the top of the file: ``nvlink.alpha`` is short for ``tiers.nvlink.alpha``."""
    top = keys_at((), data)
    tiers = _names(data.get("tiers"))
    if len(parts) > 1 and parts[0] in tiers:
        return ["tiers", *parts]
    if parts[0] in top:
        return parts
    if parts[0] in tiers:
        raise ColltoolError(
            f"'{parts[0]}' is a tier, not a value", where=where, fix=f"name one of its keys: {parts[0]}.KEY=VALUE"
        )
    if len(parts) > 1:
        kind, known = "tier", tiers
    else:
        kind, known = "key", [key for key in top if key != "tiers"] + [f"{tier}.KEY" for tier in tiers]
    hint = nearest(parts[0], known)
    if kind == "key" and (owner := next((name for i, name in enumerate(tiers) if parts[0] in keys_at(("tiers", i), data)), "")):
        hint = f"name the tier: {owner}.{parts[0]};"
    raise ColltoolError(f"unknown {kind} {shown(parts[0])}", where=where, fix=f"{hint} known: {', '.join(known)}".strip())


def _index(items: list[Any], part: str, path: KeyPath, where: str) -> int:
    """The index of an item given by name or by index."""
    names = _names(items)
    hits = {index for index, name in enumerate(names) if name == part}
    if part.isdecimal() and int(part) < len(items):
        hits.add(int(part))
    if len(hits) == 1:
        return hits.pop()
    kind = {"tiers": "tier", "levels": "level"}.get(str(path[-1]), f"item of {path[-1]}")
    if hits:
        fix = "give its index, or each a name of its own in the file"
        raise ColltoolError(f"'{part}' is more than one {kind}", where=where, fix=fix)
    known = [name for name in names if name] or [str(index) for index in range(len(items))]
    raise ColltoolError(
        f"unknown {kind} {shown(part)}", where=where, fix=f"{nearest(part, known)} known: {', '.join(known)}".strip()
    )


def _new_mapping(path: KeyPath, data: Any, where: str) -> dict[str, Any]:
    """A mapping for a part that the file leaves out, such as ``eta``; levels have to be there to be changed."""
    if path == ("tiers",):
        raise ColltoolError("the file has no tiers", where=where, fix="only those that it gives can be changed")
    if path[0] == "tiers" and path[2:] == ("levels",):
        tier = shown(_names(data["tiers"])[int(path[1])])
        raise ColltoolError(f"tier {tier} has no levels", where=where, fix="only those that the file gives can be changed")
    return {}


def _names(items: Any) -> list[str]:
    """The names of a list of tiers or levels, empty text where there is none."""
    if not isinstance(items, list):
        return []
    return [str(item.get("name", "")) if isinstance(item, dict) else "" for item in items]
