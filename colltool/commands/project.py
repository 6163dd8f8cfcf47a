"""What a project asks every time: ``colltool.toml`` in the current folder or one above it, and the
variable COLLTOOL_FABRIC. What is typed wins over both.

The file has three keys, each as its option takes it::

    fabric = "cluster.yaml"
    ranks = 64
    size = "1GB"

:func:`with_project` puts what it states among the values of a command.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from colltool.base.errors import ColltoolError, nearest_and_all
from colltool.commands.option_text import reader
from colltool.commands.options import REQUIRED, Option

FILE = "colltool.toml"
VARIABLE = "COLLTOOL_FABRIC"
KEYS = ("fabric", "ranks", "size")
# the options that a project may state, each with the key that states it: size for one or several
_STATED = {"fabric": "fabric", "ranks": "ranks", "size": "size", "sizes": "size"}


def project_file() -> Path | None:
    """The nearest ``colltool.toml``, from the current folder upwards; None without one."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        file = folder / FILE
        if file.is_file():
            return file
    return None


def project_defaults() -> dict[str, str]:
    """The texts of the options that the project states, by key; of the variable only the fabric.

    Raises:
        ColltoolError: a file that is no TOML, an unknown key, or a value that is no text or whole
            number.
    """
    stated: dict[str, str] = {}
    file = project_file()
    if file is not None:
        stated = _read(file)
    fabric = os.environ.get(VARIABLE)
    if fabric:
        stated["fabric"] = fabric
        # the file's ranks are those of the file's fabric
        stated.pop("ranks", None)
    return stated


def _read(file: Path) -> dict[str, str]:
    """The keys of the project's file, checked; ColltoolError at its place for what is no key."""
    import tomllib

    from colltool.base.files import read_text

    try:
        stated = tomllib.loads(read_text(file, "definition", FILE))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ColltoolError(
            f"not TOML: {error}", where=FILE, fix='such as fabric = "nvl72"'
        ) from error
    values = {}
    for key, value in stated.items():
        if key not in KEYS:
            raise ColltoolError(
                f"unknown key '{key}'",
                where=FILE,
                fix=nearest_and_all(key, KEYS),
            )
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise ColltoolError(
                f"{key}: expected a text or a whole number", where=FILE, fix='such as size = "1GB"'
            )
        values[key] = str(value)
    if "fabric" in values:
        values["fabric"] = _beside(file, values["fabric"])
    return values


def _beside(file: Path, fabric: str) -> str:
    """The fabric's path, which the file states from its own folder; a shipped name stays."""
    path = file.parent / fabric
    if not path.is_file():
        return fabric
    return os.path.relpath(path)


def may_be_stated(option: Option) -> bool:
    """Whether an option is one that a project may state: it has a flag, and a command needs its
    value (the default is another than None)."""
    return bool(option.default is not None and option.row.flags and option.name in _STATED)


def with_project(options: Sequence[Option], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a command's options, with the project's where nothing was typed. Only a command
    that does not do without a fabric takes them.

    Raises:
        ColltoolError: what the command needs was neither typed nor stated.
    """
    completed = dict(values)
    known = {option.name: option for option in options}
    if "fabric" not in known or not may_be_stated(known["fabric"]):
        return completed
    stated = project_defaults()
    # a number of ranks is that of the project's own fabric
    if values["fabric"]:
        stated.pop("ranks", None)
    for name, key in _STATED.items():
        option = known.get(name)
        # an empty list was not typed either; a 0 was
        if option is None or completed[name] not in (None, []):
            continue
        if key in stated:
            completed[name] = _read_as_typed(option, stated[key])
        elif option.default is REQUIRED:
            raise _missing(option)
        else:
            completed[name] = option.default
    return completed


def _read_as_typed(option: Option, text: str) -> Any:
    """The value of an option from the project's text, as if it had been typed."""
    read = reader(option.name, option.row)
    value = text if read is None else read(text)
    return [value] if option.row.many else value


def _missing(option: Option) -> ColltoolError:
    """The error for a required option that was neither typed nor stated: a fabric or a size."""
    flags = option.row.flags.split()
    name = next(flag for flag in flags if flag.startswith("--"))
    if option.name == "fabric":
        return ColltoolError(
            f"{name} is missing: a price needs a fabric", fix=f"add -f with {which_fabric()}"
        )
    return ColltoolError(f"{name} is missing", fix=f"add {flags[-1]} 16MB, or state it in {FILE}")


def which_fabric() -> str:
    """What a fabric may be, for an error."""
    from colltool.fabric.load import shipped_fabrics

    names = ", ".join(shipped_fabrics())
    return f"a fabric file, or one of {names}; colltool fabric list says what they are"
