"""The YAML schema of a layout file, as pydantic models."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from colltool.base.errors import shown
from colltool.congestion.patterns import MapKind, PatternKind
from colltool.definitions.field_types import (
    MAX_DEPTH,
    Accepted,
    AlgorithmName,
    Flag,
    Label,
    Part,
    PrimitiveName,
    Size,
    Slip,
    Slips,
    Words,
)
from colltool.definitions.source import MOST

MOST_RANKS = 2**20  # beyond it a layout takes gigabytes to follow link by link


def _few_wrong(listed: object) -> object:
    """Refuse items that are no whole numbers, but only as many as anybody reads."""
    if not isinstance(listed, list) or all(type(one) is int for one in listed):
        return listed
    wrong = [(index, one) for index, one in enumerate(listed) if type(one) is not int]
    raise Slips(*(Slip(f"expected a whole number, got {shown(one)}", at=(index,)) for index, one in wrong[: MOST + 1]))


Positive = Annotated[int, Field(ge=1, le=MOST_RANKS, strict=True), Accepted(f"a whole number from 1 to {MOST_RANKS}")]
Seed = Annotated[int, Field(ge=-(2**63), lt=2**63, strict=True), Accepted("a whole number, such as 1")]
# of a rank or an endpoint; whether it is in the fabric only the reader knows
Number = Annotated[int, Field(strict=True, json_schema_extra={"minimum": 0})]


class PatternFile(Part):
    """A pattern of groups: the fields of :class:`colltool.congestion.patterns.Pattern`."""

    kind: PatternKind = "block"
    group: Annotated[int | None, Field(ge=2, le=MOST_RANKS, strict=True), Accepted(f"a whole number from 2 to {MOST_RANKS}")] = (
        None
    )
    count: Positive | None = None
    axis: Annotated[int, Field(ge=1, le=MAX_DEPTH, strict=True), Accepted(f"a whole number from 1 to {MAX_DEPTH}")] = 1
    stride: Positive | None = None
    start: Annotated[int, Field(ge=0, le=MOST_RANKS, strict=True), Accepted(f"a whole number from 0 to {MOST_RANKS}")] = 0
    seed: Seed = 0
    shape: (
        Annotated[
            tuple[Positive, ...], Field(min_length=1, max_length=MAX_DEPTH), Accepted("a list of whole numbers, such as [4, 2]")
        ]
        | None
    ) = None


class MapFile(Part):
    """Which endpoint each rank sits on, by rule: the fields of :class:`colltool.congestion.patterns.MapPattern`."""

    kind: MapKind = "identity"
    domain: Positive | None = None
    seed: Seed = 0


_PATTERN = Accepted("a mapping such as {kind: block, group: 8, count: 8}")


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
            tuple[Number, ...],
            Field(min_length=2),
            BeforeValidator(_few_wrong),
            Accepted("a list of at least 2 ranks, such as [0, 1, 2, 3]"),
        ]
        | None
    ) = None
    pattern: Annotated[PatternFile | None, _PATTERN] = None


class LayoutFile(JobFields):
    """A layout file: groups or one pattern of them, and where ranks sit."""

    schema_: Annotated[Literal["colltool.layout/1"], Field(alias="schema")] = "colltool.layout/1"
    name: Label = ""
    description: Words = ""
    groups: (
        Annotated[
            tuple[Annotated[GroupFile, Accepted("a group, such as {name: a, ranks: [0, 1, 2, 3]}")], ...],
            Field(min_length=1),
            Accepted("a list of groups, such as - {name: a, ranks: [0, 1, 2, 3]}"),
        ]
        | None
    ) = None
    pattern: Annotated[PatternFile | None, _PATTERN] = None
    map: Annotated[
        Annotated[tuple[Number, ...], Field(min_length=1), BeforeValidator(_few_wrong)] | MapFile | None,
        Accepted("a list of endpoints, one for each rank, or a mapping such as {kind: rotate}"),
    ] = None
    overlap: Flag = False
