"""Algorithm files: who sends which chunk to whom, step by step; in colltool's own form, or as MSCCL
and MSCCL++ write them.

schema: colltool.algorithm/1
name: swap-and-add
primitive: all_reduce
ranks: 2
chunks: 2                     # equal parts of M; default: one a rank
steps:                        # the sends of a step happen at once
  - 0>1:1+ 1>0:0+             # chunk 1 from rank 0, which rank 1 adds to its own (+), and so on
  - [{src: 0, dst: 1, chunk: 0}, {src: 1, dst: 0, chunks: [1]}]   # the same written out; reduce:
    true adds
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any, Literal

from pydantic import Field

from colltool.base.errors import ColltoolError, printable, shown
from colltool.base.files import AnyPath, read_text
from colltool.base.primitives import A2A, Primitive
from colltool.custom.schedule import (
    MOST_CHUNKS,
    MOST_MOVES,
    MOST_RANKS,
    Batch,
    OwnSchedule,
    Promise,
    batch_of,
    follow,
    promise_of,
)
from colltool.definitions.field_types import Accepted, Label, Part, PrimitiveName
from colltool.definitions.reader import Reading, read
from colltool.definitions.source import KeyPath

FORM = "colltool.algorithm/1"
_SEND = re.compile(r"(\d{1,7})>(\d{1,7}):([\d,-]{1,200000})(\+?)")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_EXAMPLE = (
    "write 0>1:2 (chunk 2 from rank 0 to rank 1), 0>1:0-3+ to add, or {src: 0, dst: 1, chunk: 2}"
)
_WIDTH = 120

Chunk = Annotated[int, Field(ge=0, strict=True), Accepted("the number of a chunk")]
Rank = Annotated[int, Field(ge=0, lt=MOST_RANKS, strict=True), Accepted("the number of a rank")]
Sent = tuple[int, int, int, bool]  # src, dst, chunk, add


class SendFile(Part):
    """A send of a step, written out."""

    src: Rank
    dst: Rank
    chunk: Chunk | None = None
    chunks: Annotated[
        list[Chunk] | None,
        Field(max_length=MOST_CHUNKS),
        Accepted("a list of chunks, such as [0, 1]"),
    ] = None
    reduce: Annotated[bool, Field(strict=True), Accepted("true or false")] = False


class AlgorithmFile(Part):
    """An algorithm file."""

    schema_: Annotated[Literal["colltool.algorithm/1"], Field(alias="schema")] = FORM  # type: ignore[assignment]
    name: Label
    primitive: PrimitiveName
    ranks: Annotated[
        int,
        Field(ge=2, le=MOST_RANKS, strict=True),
        Accepted(f"a whole number from 2 to {MOST_RANKS}"),
    ]
    chunks: Annotated[
        int | None,
        Field(ge=1, le=MOST_CHUNKS, strict=True),
        Accepted(f"a whole number from 1 to {MOST_CHUNKS}"),
    ] = None
    root: Rank = 0
    steps: Annotated[
        list[str | list[str | SendFile]],
        Field(min_length=1),
        Accepted("a list of steps, each a text such as 0>1:2, or a list"),
    ]


def load_algorithm(path: AnyPath) -> OwnSchedule:
    """The schedule of a file, executed; ColltoolError names the step that fails if it is not what
    its primitive promises."""
    text, file = read_text(path, "algorithm"), printable(os.fsdecode(path))
    if text.lstrip("\ufeff \t\r\n").startswith("<"):
        from colltool.custom.msccl_file import read_msccl

        return read_msccl(text, file, Path(file).stem)
    from colltool.custom.mscclpp_file import is_plan, read_mscclpp

    return read_mscclpp(text, file, Path(file).stem) if is_plan(text) else own_schedule(text, file)


def own_schedule(content: str | Mapping[str, Any], file: str = "") -> OwnSchedule:
    """The schedule of YAML or JSON text, or of a mapping, in colltool's own form."""
    reading = read(AlgorithmFile, content, file)
    if reading.model is None:
        reading.result()
    assert reading.model is not None
    model = reading.model
    try:
        promise = promise_of(
            model.primitive,
            model.ranks,
            model.ranks if model.chunks is None else model.chunks,
            model.root,
        )
        batches = tuple(_steps(reading, promise, model.steps))
        reading.result()
        follow(promise, batches)
    except ColltoolError as error:
        error.where = error.where or file
        raise
    return OwnSchedule(
        model.name,
        promise.primitive,
        promise.ranks,
        promise.chunks,
        batches,
        file=file,
        form=FORM,
        root=promise.root,
    )


def _steps(
    reading: Reading[AlgorithmFile], promise: Promise, steps: list[str | list[str | SendFile]]
) -> Iterator[Batch]:
    moves = 0
    for number, listed in enumerate(steps):
        sends: list[Sent] = []
        texts = 0
        path: KeyPath = ("steps", number)
        for at, one in enumerate([listed] if isinstance(listed, str) else listed):
            where = path if isinstance(listed, str) else (*path, at)
            for text in one.split() if isinstance(one, str) else (one,):
                found = _sends(reading, where, promise, text, MOST_MOVES - moves)
                texts += 1
                moves += len(found)
                sends += found
            if reading.enough:
                return
        if not texts:
            reading.refuse(path, "a step without a send", _EXAMPLE)
        yield batch_of(sends)


def _sends(
    reading: Reading[AlgorithmFile], path: KeyPath, promise: Promise, one: str | SendFile, left: int
) -> list[Sent]:
    """The messages of one send; what is wrong with it is refused at its place."""
    spans: list[tuple[int, int]]
    if isinstance(one, str):
        parts = _SEND.fullmatch(one)
        ranges = [_RANGE.fullmatch(text) for text in parts[3].split(",")] if parts else []
        if parts is None or None in ranges:
            reading.refuse(path, f"{shown(one)} is no send", _EXAMPLE)
            return []
        src, dst, add = int(parts[1]), int(parts[2]), bool(parts[4])
        spans = [(int(span[1]), int(span[2] or span[1])) for span in ranges if span]
    else:
        src, dst, add = one.src, one.dst, one.reduce
        listed = [*([] if one.chunk is None else [one.chunk]), *(one.chunks or ())]
        spans = [(chunk, chunk) for chunk in listed]
        if (one.chunk is None) == (one.chunks is None) or not listed:
            reading.refuse(
                path, "a send has either 'chunk' or 'chunks'", "chunk: 2, or chunks: [2, 3]"
            )
    chunks = promise.chunks * (promise.ranks if promise.primitive is A2A else 1)
    for value, most, what in (
        (src, promise.ranks, "rank"),
        (dst, promise.ranks, "rank"),
        *((last, chunks, "chunk") for _, last in spans),
    ):
        if value >= most:
            reading.refuse(path, f"{what} {value} is not there: {what}s are 0 .. {most - 1}")
            return []
    if src == dst or any(first > last for first, last in spans):
        reading.refuse(
            path,
            f"rank {src} sends to itself" if src == dst else "a range of chunks runs backwards",
            _EXAMPLE,
        )
        return []
    if sum(last - first + 1 for first, last in spans) > left:
        reading.refuse(
            path, f"more than {MOST_MOVES} chunks are sent in all", "fewer, larger chunks"
        )
        return []
    return [(src, dst, chunk, add) for first, last in spans for chunk in range(first, last + 1)]


def algorithm_text(schedule: OwnSchedule) -> str:
    """A schedule in colltool's own form, which reads back as the same."""
    from colltool.definitions.source import MAX_VALUES

    if len(schedule.batches) > MAX_VALUES // 2:
        what = f"{len(schedule.batches)} steps are more than a file may have"
        raise ColltoolError(what, argument="ranks", fix="fewer ranks")
    head = {
        "schema": FORM,
        "name": schedule.name,
        "primitive": str(schedule.primitive),
        "ranks": schedule.ranks,
        "chunks": schedule.chunks,
    }
    lines = [f"{key}: {value}" for key, value in head.items()]
    lines += [f"root: {schedule.root}"] * bool(schedule.root)
    lines.append("steps:")
    for batch in schedule.batches:
        text = " ".join(_said(batch))
        lines.append(
            fill(
                text,
                _WIDTH,
                initial_indent="  - ",
                subsequent_indent="    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        )
    return "\n".join([*lines, ""])


def _said(batch: Batch) -> Iterator[str]:
    """Sends as texts, the chunks of one pair together: ``0>1:0-3,6+``."""
    for one in batch:
        pairs: dict[tuple[int, int], list[int]] = {}
        for src, dst, chunk in zip(
            one.src.tolist(), one.dst.tolist(), one.chunk.tolist(), strict=True
        ):
            pairs.setdefault((src, dst), []).append(chunk)
        for (src, dst), chunks in pairs.items():
            yield f"{src}>{dst}:{','.join(map(_span, runs(chunks)))}{'+' if one.add else ''}"


def _span(run: tuple[int, int]) -> str:
    first, count = run
    return f"{first}-{first + count - 1}" if count > 1 else str(first)


def runs(chunks: list[int]) -> list[tuple[int, int]]:
    """Chunks as runs ``(first, count)`` of consecutive numbers, ascending."""
    found: list[tuple[int, int]] = []
    for chunk in sorted(chunks):
        if found and sum(found[-1]) == chunk:
            found[-1] = found[-1][0], found[-1][1] + 1
        else:
            found.append((chunk, 1))
    return found


def primitive_called(name: str) -> Primitive | None:
    """The primitive that other tools call ``allreduce`` or ``reduce_scatter``; None of a collective
    that is none here."""
    from colltool.base.primitives import parse_primitive

    try:
        return parse_primitive(name)
    except ColltoolError:
        return None
