"""Ladder files: a list of prices to follow (rungs), on shipped fabrics or files in the ladder's folder.

:func:`load_ladder` finds a file and reads it (:func:`read_ladder`), or makes a ladder of a fabric
(:func:`ladder_of_fabric`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from colltool.base.errors import ColltoolError, ManyErrors
from colltool.base.files import read_text
from colltool.base.primitives import Primitive
from colltool.definitions.field_types import (
    AlgorithmName,
    Count,
    FieldHint,
    Label,
    Part,
    PrimitiveName,
    Size,
    Words,
)
from colltool.definitions.overrides import Overrides, Shorthand
from colltool.definitions.reader import Reading, read
from colltool.fabric.load import (
    SUFFIX,
    exists,
    find_file,
    load_fabric,
    shipped_fabrics,
    shipped_folder,
)
from colltool.fabric.model import Fabric

MOST_RUNGS = 10_000  # prices that a CI job waits for
# Bytes of the rungs of a fabric's own ladder: of latency, of both, of bandwidth.
LADDER_SIZES = (64e3, 16e6, 1e9)
_FABRIC_FILE = re.compile(r"^schema:\s*[\"']?colltool\.fabric/", re.MULTILINE)

_SHORTHAND = Shorthand(example="size=1MB")


class RungFile(Part):
    """One line of a ladder file."""

    primitive: PrimitiveName
    fabric: Annotated[
        str,
        Field(min_length=1),
        FieldHint("a shipped fabric or a file beside the ladder, such as star512", "text"),
    ]
    algorithm: AlgorithmName | None = None
    ranks: Count | None = None
    size: Size | None = None


class LadderFile(Part):
    """A ladder file."""

    schema_: Annotated[Literal["colltool.ladder-file/1"], Field(alias="schema")] = (
        "colltool.ladder-file/1"
    )
    name: Label = ""
    description: Words = ""
    size: Size
    rungs: Annotated[
        tuple[
            Annotated[
                RungFile,
                FieldHint("a rung, such as {primitive: ar, fabric: star512, algorithm: ring}"),
            ],
            ...,
        ],
        Field(min_length=1, max_length=MOST_RUNGS),
        FieldHint(
            f"a list of 1 to {MOST_RUNGS} rungs, such as - {{primitive: ar, fabric: star512}}"
        ),
    ]


class RungDefinition(NamedTuple):
    """One price of a ladder."""

    primitive: Primitive
    fabric: Fabric
    algorithm: str | None  # None: the fastest
    ranks: int | None  # None: all
    size: float | None = None  # bytes; None: the ladder's
    where: str = ""  # place in the file, for errors


class LadderDefinition(NamedTuple):
    """A ladder file as read; ``size`` in bytes, of the rungs that state none."""

    name: str
    description: str
    size: float
    rungs: tuple[RungDefinition, ...]
    overrides: tuple[tuple[str, str], ...] = ()


def load_ladder(
    ladder: str | os.PathLike[str] | Mapping[str, Any] = "n512", overrides: Overrides = ()
) -> LadderDefinition:
    """Return a ladder from a file or a mapping, or a shipped one by name; of a fabric's file or name
    the prices that a change of it may move."""
    if isinstance(ladder, Mapping):
        return read_ladder(ladder, "", Path(), overrides)
    if ladder in shipped_fabrics():
        return ladder_of_fabric(load_fabric(ladder, overrides))
    path, name = find_file(ladder, "ladder", shipped_folder() / "ladders")
    text = read_text(path, "definition")
    if _FABRIC_FILE.search(text):
        return ladder_of_fabric(load_fabric(path, overrides))
    return read_ladder(text, name, Path(path).parent, overrides)


def ladder_of_fabric(fabric: Fabric) -> LadderDefinition:
    """Return a rung for every collective on all ranks of a fabric at small, middle and large sizes."""
    rungs = []
    for primitive in Primitive:
        for size in LADDER_SIZES:
            rungs.append(RungDefinition(primitive, fabric, algorithm=None, ranks=None, size=size))
    description = f"every collective on {fabric.name} at {len(LADDER_SIZES)} sizes"
    return LadderDefinition(fabric.name, description, LADDER_SIZES[1], tuple(rungs))


def read_ladder(
    content: str | Mapping[str, Any], name: str, folder: Path, overrides: Overrides = ()
) -> LadderDefinition:
    """Return a ladder from its text or mapping; raises ManyErrors with all that is wrong in it.

    Args:
        name: of the file, for errors; empty for a mapping.
        folder: where fabrics that it names are looked for, but for the shipped ones.
        overrides: of the ladder's values, not of its fabrics.
    """
    reading = read(LadderFile, content, name, overrides, _SHORTHAND)
    fabrics = _fabrics(reading, folder)
    file = reading.result()
    rungs = []
    for index, rung in enumerate(file.rungs):
        definition = RungDefinition(
            primitive=rung.primitive,
            fabric=fabrics[rung.fabric],
            algorithm=rung.algorithm,
            ranks=rung.ranks,
            size=rung.size,
            where=reading.source.at(("rungs", index)),
        )
        rungs.append(definition)
    return LadderDefinition(file.name, file.description, file.size, tuple(rungs), reading.overrides)


def _fabrics(reading: Reading[LadderFile], folder: Path) -> dict[str, Fabric]:
    """The fabrics of all rungs, by the name in the file; an error in one is put on the reading once, where
    it is first named, and the fabric left out."""
    fabrics: dict[str, Fabric] = {}
    tried: set[str] = set()
    shipped = shipped_fabrics()
    # errors of validation are not raised yet: the data may have any form
    rungs = reading.data.get("rungs")
    for index, rung in enumerate(rungs if isinstance(rungs, list) else ()):
        path = ("rungs", index, "fabric")
        if not isinstance(rung, dict) or "fabric" not in rung or not reading.is_valid(path):
            continue
        name = rung["fabric"]
        if name in tried:
            continue
        if reading.has_enough_errors:
            break
        tried.add(name)
        # files are beside the ladder, so that of a path the last part counts there
        neighbour = str(folder / os.path.basename(name))
        in_folder = name.removesuffix(SUFFIX) not in shipped and exists(neighbour)
        try:
            fabrics[name] = load_fabric(neighbour if in_folder else name)
        except ColltoolError as error:
            # what is wrong in the fabric's file has a place there
            if error.where or isinstance(error, ManyErrors):
                reading.add_error(path, error)
            else:
                reading.refuse(path, error.what, error.fix)
    return fabrics
