"""A fabric by path, shipped name or mapping, with what-if overrides, validated once: every error in
one report.

:func:`load_fabric` finds the file (:func:`find_fabric`), reads it (``_reading`` merges a ``like`` with
the fabric that it names), validates it (``_checked``), and puts the library's numbers on it
(``_with_numbers``). Shipped fabrics come from their prebuilt form, other short texts from a cache.

A ``Reading`` is a file after pydantic has looked at it: its data with overrides, the model, and errors
that ``result()`` raises together; ``refuse`` adds one. Of a file two texts are handed on: ``file``, its
path, and ``name``, what errors call it (of a shipped one the file name alone).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from colltool.base.errors import ColltoolError, argument_text, nearest, printable, quote
from colltool.base.files import read_text
from colltool.base.reach import confine, within_reach
from colltool.definitions.frozen import frozen
from colltool.definitions.overrides import Overrides, Requested, Shorthand, texts_of
from colltool.definitions.reader import Reading, read, read_source, sourced
from colltool.definitions.source import MAX_CACHED_TEXT
from colltool.fabric.bundled_for import bundled_for, fabric_of_device
from colltool.fabric.custom_machine import CustomMachine, machine_file_of, on_machine
from colltool.fabric.expression import (
    FabricExpression,
    parse_expression,
    resized,
    with_per_rack,
)
from colltool.fabric.library_numbers import with_library_numbers
from colltool.fabric.model import Fabric
from colltool.fabric.prebuilt import keep_prebuilt, prebuilt
from colltool.fabric.shipped import SUFFIX as SUFFIX
from colltool.fabric.shipped import shipped_fabrics as shipped_fabrics
from colltool.fabric.shipped import shipped_folder as shipped_folder
from colltool.fabric.shipped import stems_in

# Keys of a fabric's overrides may omit ``tiers``.
SHORTHAND = Shorthand("tiers", "tier", "nvlink.alpha=1us")

# A path or name, as text also with settings behind a colon; or what a file would hold.
FabricSource = str | os.PathLike[str] | Mapping[str, Any]


# --- finding the file


def find_fabric(path_or_name: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the path that ``--fabric`` means, and its name for errors. A file is meant before a device
    (the usual machine with it), a device before a shipped fabric.

    Raises:
        ColltoolError: as :func:`find_file`.
    """
    listing = "list the shipped ones: colltool fabric list"
    typed = os.fsdecode(path_or_name)
    if not exists(typed):
        typed = fabric_of_device(typed) or typed
    return find_file(typed, "fabric", shipped_folder(), listing)


def find_file(
    path_or_name: str | os.PathLike[str], noun: str, folder: Path, listing: str = ""
) -> tuple[str, str]:
    """Return the path of an existing file, else of a shipped one of a folder by file name or stem,
    and its name for errors.

    Args:
        noun: what is looked for, in errors: ``fabric``, ``job``.
        folder: of the shipped ones.
        listing: how to list the shipped ones, for errors; default: their names.

    Raises:
        ColltoolError: there is neither, a folder has the name, or the path is out of reach.
    """
    typed = os.fsdecode(path_or_name)
    if exists(typed) and not os.path.isdir(typed):
        return typed, typed
    shipped = stems_in(folder)
    stem = typed.removesuffix(SUFFIX)
    if stem in shipped:
        return str(folder / f"{stem}{SUFFIX}"), f"{stem}{SUFFIX}"
    if os.path.dirname(typed) or os.path.splitext(typed)[1]:
        confine(typed, printable(typed))
    if exists(typed):
        raise ColltoolError(
            f"is a directory, expected a {noun} file",
            where=printable(typed),
            fix="give a file in it",
        )
    # names of earlier versions, which had a second file with the measured numbers
    merged = stem.removesuffix("-measured")
    if merged != stem and merged in shipped:
        fix = (
            f"{merged} holds the measured numbers now: type {merged}, and"
            f" {argument_text('numbers', 'datasheet')} for the datasheet's"
        )
        raise ColltoolError(f"no {noun} is called {quote(typed)} any more", fix=fix)
    hint = nearest(os.path.basename(stem) if listing else stem, list(shipped))
    if noun == "fabric":
        hint = _other_meaning(typed) or hint
    if not listing:
        listing = f"shipped: {', '.join(shipped)}"
    fix = f"{hint} {listing}".strip()
    raise ColltoolError(f"no file and no shipped {noun} is called {quote(typed)}", fix=fix)


def _other_meaning(typed: str) -> str:
    """A hint, to end in a semicolon, for a name that is no fabric but a device, or a number. Empty for any
    other."""
    device = bundled_for(typed.removesuffix(SUFFIX).upper())
    if device is not None and not device.differs:
        return f"the shipped machine with such a device is {device.fabric};"
    if typed.isdecimal():
        # nccl-tests takes the factor of its sizes by -f
        factor = argument_text("factor", typed)
        return f"the factor between sizes is {factor} here, unlike in nccl-tests;"
    return ""


def exists(typed: str) -> bool:
    """Return whether a file, pipe or folder has this name, and is within reach."""
    try:
        return os.path.exists(typed) and within_reach(typed)
    except ValueError:  # a NUL, or a lone surrogate
        return False


# --- loading


def load_fabric(
    fabric: FabricSource, overrides: Overrides = (), machine: CustomMachine | None = None
) -> Fabric:
    """Return a validated fabric, from a path, a shipped name, or a mapping of what a file would hold.

    ``overrides`` as for ``--set``: ``nvlink.alpha=1us``, ``ib.levels.spine.oversubscription=4``,
    ``torus.shape=[8,8,4]``, ``tiers.0.eta.beta=0.7``, where a later one wins; or values by key.
    A name may carry its own: ``dgx-b200:nodes=144``, ``nvl72:ib.bandwidth=100GB/s``.
    Raises ManyErrors with everything wrong in the content.
    ``machine``: a file of measured rows, as :func:`colltool.calibrate` writes; default:
    ``NAME.machine.yaml`` next to ``NAME.yaml``.
    """
    if isinstance(fabric, str):
        fabric, overrides = _split_expression(fabric, overrides)
    loaded = _load(fabric, overrides)
    if machine is None and isinstance(fabric, str | os.PathLike):
        file, name = find_fabric(fabric)
        # a user's own file: of a shipped one the name is no path
        if file == name:
            machine = machine_file_of(file)
    if machine is None:
        return loaded
    return on_machine(loaded, machine)


def _split_expression(fabric: str, overrides: Overrides) -> tuple[str, Overrides]:
    """The file or name of a fabric, and the overrides, followed by what was typed after its colon, which so
    wins."""
    expression = parse_expression(fabric)
    if expression == FabricExpression(fabric):
        return fabric, overrides
    name = expression.name
    typed = list(expression.overrides)
    if expression.nodes is not None:
        typed += resized(_load(name, ()), expression.nodes)
    if expression.per_rack is not None:
        typed += with_per_rack(_load(name, ()), expression.per_rack)
    if not isinstance(overrides, Mapping):
        return name, [*texts_of(overrides), *typed]
    merged = dict(overrides)
    for option in typed:
        key, _, value = option.partition("=")
        merged[key] = value
    return name, merged


def _load(fabric: FabricSource, overrides: Overrides) -> Fabric:
    """Load a fabric without a machine file; a shipped one comes from its prebuilt form, another from
    a cache of its text."""
    if not isinstance(fabric, str | os.PathLike) or not isinstance(overrides, list | tuple):
        return _with_numbers(fabric_reading(fabric, overrides), partial(_load, fabric))
    file, name = find_fabric(fabric)
    # read once: it may be a pipe
    text = read_text(file, "definition", name)
    if not overrides and _is_shipped(file):
        texts = _shipped_texts(text)
        if texts is not None:
            return _shipped_fabric(file, name, texts)
    # a file that is like another may not be cached: the other is a part of it, and may change
    is_whole = "like:" not in text
    are_texts = all(isinstance(option, str) for option in overrides)
    if len(text) <= MAX_CACHED_TEXT and is_whole and are_texts:
        return _loaded_text(text, name, tuple(overrides))
    reading = _reading_of_text(text, file, name, overrides)
    return _with_numbers(reading, partial(_load_text, text, file, name))


def _load_text(text: str, file: str, name: str, overrides: list[str]) -> Fabric:
    """Load the text of a file that was read before, with other overrides: it may be a pipe."""
    return _with_numbers(_reading_of_text(text, file, name, overrides))


@lru_cache(maxsize=32)
def _loaded_text(text: str, name: str, overrides: tuple[str, ...]) -> Fabric:
    """Load a text that is like no other fabric. The same text gives the same object: fabrics are immutable,
    and caches find results by the identity of their tiers."""
    return frozen(read_fabric(text, name, overrides))


def _is_shipped(file: str) -> bool:
    """Whether a path is of the folder of shipped fabrics."""
    return os.path.dirname(file) == str(shipped_folder())


# like: dgx-h100
_LIKE = re.compile(r"^like: ([\w-]+)$", re.MULTILINE)


def _shipped_texts(text: str) -> tuple[str, ...] | None:
    """The text of a shipped fabric, then that of the fabric that it is like, then that of the one which
    that is like, and so on. None if one of these does not ship."""
    if "like:" not in text:
        return (text,)
    like = _LIKE.search(text)
    if like is None:
        return None
    file, name = find_fabric(like[1])
    if not _is_shipped(file):
        return None
    others = _shipped_texts(read_text(file, "definition", name))
    if others is None:
        return None
    return (text, *others)


@lru_cache(maxsize=64)
def _shipped_fabric(file: str, name: str, texts: tuple[str, ...]) -> Fabric:
    """Load a shipped fabric, always as the same object, from the cache of an earlier process if that has
    it.

    ``texts``: those of :func:`_shipped_texts`, which are the keys of both caches: a new text is a new
    fabric.
    """
    key = name.removesuffix(SUFFIX)
    fabric = prebuilt(key, texts)
    if fabric is None:
        fabric = _checked(_reading_of_text(texts[0], file, name, ()))
        keep_prebuilt(key, texts, fabric)
    return frozen(with_library_numbers(fabric).as_shipped())


def _with_numbers(
    reading: Reading[Fabric], reload: Callable[[list[str]], Fabric] | None = None
) -> Fabric:
    """The fabric of a reading with its library's numbers, which are relative to those of the file without
    overrides; ``reload`` loads the same fabric with other overrides than those of the reading."""
    fabric = _checked(reading)
    if not reading.overrides:
        return with_library_numbers(fabric)
    as_filed = None
    if reload is not None:
        with suppress(ColltoolError):  # a file that only its overrides make valid
            as_filed = reload([])
    return with_library_numbers(fabric, as_filed).with_overrides(
        reading.overrides, as_filed, reload
    )


def _checked(reading: Reading[Fabric]) -> Fabric:
    """The fabric as its file has it, its ``uncertainty`` checked too; raises ManyErrors where anything in
    it is refused."""
    if reading.model is not None and reading.model.uncertainty:
        from colltool.fabric.ranges import parameter_ranges

        for key, bounds in reading.model.uncertainty.items():
            # a number of a library, in a file of schema /1: parameter_ranges knows the fabric's alone
            if ".protocols." in key:
                continue
            # only for its errors: the ranges themselves are read where they are used
            try:
                parameter_ranges(reading.model, [f"{key}={bounds}"])
            except ColltoolError as error:
                reading.refuse(("uncertainty", key), error.what, error.fix)
    return reading.result()


# --- reading, up to validation


def fabric_data(fabric: FabricSource, overrides: Overrides = ()) -> dict[str, Any]:
    """Return the plain data of a valid fabric with its overrides, to be changed and written; raises
    ManyErrors where anything is refused."""
    reading = fabric_reading(fabric, overrides)
    reading.result()
    return reading.data


def read_fabric(text: str, name: str, overrides: Overrides = ()) -> Fabric:
    """Return a fabric from YAML text without a key ``like``; ``name`` is that of the file in errors."""
    reading = read(Fabric, text, name, overrides, SHORTHAND)
    return _with_numbers(reading, partial(read_fabric, text, name))


def fabric_reading(fabric: FabricSource, overrides: Overrides = ()) -> Reading[Fabric]:
    """Read as :func:`load_fabric` does, with the places of everything in the file, and errors not
    yet raised."""
    if isinstance(fabric, Mapping):
        return _reading(fabric, "", "", overrides)
    if isinstance(fabric, str):
        fabric, overrides = _split_expression(fabric, overrides)
    if not isinstance(fabric, str | os.PathLike):
        fix = 'give a path, the name of a shipped fabric ("nvl72"), or a mapping'
        if isinstance(fabric, Fabric):
            fix += "; one that is loaded takes other numbers where it is loaded"
        what = f"expected a fabric to load, got a {type(fabric).__name__}"
        raise ColltoolError(what, argument="fabric", fix=fix)
    file, name = find_fabric(fabric)
    return _reading_of_text(read_text(file, "definition", name), file, name, overrides)


def _reading_of_text(text: str, file: str, name: str, overrides: Overrides) -> Reading[Fabric]:
    """Read the text of a file, whose folder may have the fabric that it is like; overrides too."""
    return _reading(text, name, os.path.dirname(file), overrides, (os.path.realpath(file),))


def _reading(
    content: str | Mapping[str, Any],
    name: str,
    folder: str,
    overrides: Overrides,
    files_before: tuple[str, ...] = (),
) -> Reading[Fabric]:
    """Read a fabric, merged with the one that it is like if it is like any.

    Args:
        name: of the file, for errors; empty for a mapping.
        folder: where a relative ``like`` is looked for first.
        files_before: the resolved paths of this file and of those that are like it, to find circles.
    """
    source, problems = sourced(content, name)
    from_file: list[Requested] = []
    if "like" in source.data:
        # few files have the key
        from colltool.fabric.like import like_and_changes, merged_with_like

        like, changes = like_and_changes(source)
        other = _like_data(like, source.at(("like",)), folder, files_before)
        source, from_file = merged_with_like(source, other, changes)
    return read_source(Fabric, source, problems, overrides, SHORTHAND, from_file)


def _like_data(like: str, where: str, folder: str, files_before: tuple[str, ...]) -> dict[str, Any]:
    """The data of the valid fabric that ``like`` names, itself merged with the one that it is like;
    ``where``: the place of the key, for errors."""
    neighbour = os.path.join(folder, like)
    if os.path.isfile(neighbour):
        like = neighbour
    try:
        file, name = find_fabric(like)
    except ColltoolError as error:
        raise ColltoolError(error.what, where=where, fix=error.fix) from None
    resolved = os.path.realpath(file)
    if resolved in files_before:
        fix = "name the fabric that it differs from"
        raise ColltoolError("is like itself", where=where, fix=fix)
    text = read_text(file, "definition", name)
    reading = _reading(text, name, os.path.dirname(file), (), (*files_before, resolved))
    reading.result()
    return reading.data
