"""The form of a layout file: what each key may hold (:class:`LayoutFile`).

Whether ranks are there and belong to one group only :mod:`colltool.congestion.layout` checks, which
reads the file.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from colltool.base.errors import quote
from colltool.congestion.patterns import MapKind, PatternKind
from colltool.definitions.field_types import (
    MAX_DEPTH,
    AlgorithmName,
    FieldError,
    FieldErrors,
    FieldHint,
    Flag,
    Label,
    Part,
    PrimitiveName,
    Size,
    Words,
)
from colltool.definitions.source import MAX_ERRORS

MOST_RANKS = 2**20  # beyond it a layout takes gigabytes to follow link by link


def _whole_numbers(items: object) -> object:
    """Check a list's items before pydantic does, which would list every wrong one of a million: raise
    FieldErrors of no more than are printed. What is no list comes back for pydantic to refuse."""
    if not isinstance(items, list):
        return items
    wrong = []
    for index, item in enumerate(items):
        # Not isinstance: true and false are no numbers of ranks.
        if type(item) is not int:
            wrong.append(FieldError(f"expected a whole number, got {quote(item)}", at=(index,)))
            if len(wrong) > MAX_ERRORS:
                break
    if wrong:
        raise FieldErrors(*wrong)
    return items


Positive = Annotated[
    int,
    Field(ge=1, le=MOST_RANKS, strict=True),
    FieldHint(f"a whole number from 1 to {MOST_RANKS}"),
]
Seed = Annotated[
    int, Field(ge=-(2**63), lt=2**63, strict=True), FieldHint("a whole number, such as 1")
]
# A rank or an endpoint; whether the fabric has it only the reader knows.
RankNumber = Annotated[int, Field(strict=True, json_schema_extra={"minimum": 0})]


class PatternFile(Part):
    """A pattern of groups: the fields of :class:`colltool.congestion.patterns.Pattern`."""

    kind: PatternKind = "block"
    group: Annotated[
        int | None,
        Field(ge=2, le=MOST_RANKS, strict=True),
        FieldHint(f"a whole number from 2 to {MOST_RANKS}"),
    ] = None
    count: Positive | None = None
    axis: Annotated[
        int,
        Field(ge=1, le=MAX_DEPTH, strict=True),
        FieldHint(f"a whole number from 1 to {MAX_DEPTH}"),
    ] = 1
    stride: Positive | None = None
    start: Annotated[
        int,
        Field(ge=0, le=MOST_RANKS, strict=True),
        FieldHint(f"a whole number from 0 to {MOST_RANKS}"),
    ] = 0
    seed: Seed = 0
    shape: (
        Annotated[
            tuple[Positive, ...],
            Field(min_length=1, max_length=MAX_DEPTH),
            FieldHint("a list of whole numbers, such as [4, 2]"),
        ]
        | None
    ) = None


class MapFile(Part):
    """Which endpoint each rank sits on, by rule: the fields of
    :class:`colltool.congestion.patterns.MapPattern`."""

    kind: MapKind = "identity"
    domain: Positive | None = None
    seed: Seed = 0


_PATTERN_HINT = FieldHint("a mapping such as {kind: block, group: 8, count: 8}")


class JobFields(Part):
    """What groups run, given for one or for all."""

    primitive: PrimitiveName | None = None
    algorithm: AlgorithmName | None = None
    size: Size | None = None


class GroupFile(JobFields):
    """A group of ranks in their order, or a pattern of groups."""

    name: Label = ""
    ranks: (
        Annotated[
            tuple[RankNumber, ...],
            Field(min_length=2),
            BeforeValidator(_whole_numbers),
            FieldHint("a list of at least 2 ranks, such as [0, 1, 2, 3]"),
        ]
        | None
    ) = None
    pattern: Annotated[PatternFile | None, _PATTERN_HINT] = None


class LayoutFile(JobFields):
    """A layout file: groups or one pattern of them, and where ranks sit."""

    schema_: Annotated[Literal["colltool.layout/1"], Field(alias="schema")] = "colltool.layout/1"
    name: Label = ""
    description: Words = ""
    groups: (
        Annotated[
            tuple[
                Annotated[GroupFile, FieldHint("a group, such as {name: a, ranks: [0, 1, 2, 3]}")],
                ...,
            ],
            Field(min_length=1),
            FieldHint("a list of groups, such as - {name: a, ranks: [0, 1, 2, 3]}"),
        ]
        | None
    ) = None
    pattern: Annotated[PatternFile | None, _PATTERN_HINT] = None
    map: Annotated[
        Annotated[tuple[RankNumber, ...], Field(min_length=1), BeforeValidator(_whole_numbers)]
        | MapFile
        | None,
        FieldHint("a list of endpoints, one for each rank, or a mapping such as {kind: rotate}"),
    ] = None
    overlap: Flag = False
