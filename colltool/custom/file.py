"""Algorithm files: who sends which chunk to whom, step by step. The format is colltool's own, or
that of MSCCL or MSCCL++. :func:`load_algorithm` reads any of them, :func:`algorithm_text` writes
colltool's own (the format of MSCCL is written by :mod:`colltool.custom.msccl_export`):

schema: colltool.algorithm/1
name: swap-and-add
primitive: all_reduce
ranks: 2
chunks: 2                     # equal parts of M; default: one a rank
steps:                        # the sends of a step happen at once
  - 0>1:1+ 1>0:0+             # chunk 1 from rank 0, which rank 1 adds to its own (+), and so on
  # the same written out; reduce: true adds
  - [{src: 0, dst: 1, chunk: 0}, {src: 1, dst: 0, chunks: [1]}]
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from colltool.base.errors import ColltoolError, printable, quote
from colltool.base.files import AnyPath, read_text
from colltool.base.primitives import A2A
from colltool.custom.postcondition import MOST_CHUNKS, MOST_RANKS, PostCondition, postcondition_of
from colltool.custom.schedule import MOST_MOVES, Batch, CustomSchedule, Sent, batch_of, follow
from colltool.definitions.field_types import FieldHint, Label, Part, PrimitiveName
from colltool.definitions.reader import Reading, read
from colltool.definitions.source import KeyPath

FORM = "colltool.algorithm/1"
# 0>1:0-3,6+
_SEND = re.compile(r"(\d{1,7})>(\d{1,7}):([\d,-]{1,200000})(\+?)")
# a chunk, 6, or a range of chunks, 0-3
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_EXAMPLE = (
    "write 0>1:2 (chunk 2 from rank 0 to rank 1), 0>1:0-3+ to add, or {src: 0, dst: 1, chunk: 2}"
)
_WIDTH = 120  # characters of a written line

Chunk = Annotated[int, Field(ge=0, strict=True), FieldHint("the number of a chunk")]
Rank = Annotated[int, Field(ge=0, lt=MOST_RANKS, strict=True), FieldHint("the number of a rank")]


class SendFile(Part):
    """A send of a step, written out."""

    src: Rank
    dst: Rank
    chunk: Chunk | None = None
    chunks: Annotated[
        list[Chunk] | None,
        Field(max_length=MOST_CHUNKS),
        FieldHint("a list of chunks, such as [0, 1]"),
    ] = None
    reduce: Annotated[bool, Field(strict=True), FieldHint("true or false")] = False


class AlgorithmFile(Part):
    """An algorithm file."""

    schema_: Annotated[Literal["colltool.algorithm/1"], Field(alias="schema")] = FORM  # type: ignore[assignment]
    name: Label
    primitive: PrimitiveName
    ranks: Annotated[
        int,
        Field(ge=2, le=MOST_RANKS, strict=True),
        FieldHint(f"a whole number from 2 to {MOST_RANKS}"),
    ]
    chunks: Annotated[
        int | None,
        Field(ge=1, le=MOST_CHUNKS, strict=True),
        FieldHint(f"a whole number from 1 to {MOST_CHUNKS}"),
    ] = None
    root: Rank = 0
    steps: Annotated[
        list[str | list[str | SendFile]],
        Field(min_length=1),
        FieldHint("a list of steps, each a text such as 0>1:2, or a list"),
    ]


def load_algorithm(path: AnyPath) -> CustomSchedule:
    """Return the schedule of a file in any of the formats, executed.

    Raises:
        ColltoolError: the file cannot be read, or ranks do not end with what the primitive promises; it
            names the step that fails.
    """
    text = read_text(path, "algorithm")
    file = printable(os.fsdecode(path))
    # Other tools' files are recognised by their first characters, behind a byte order mark. Readers are
    # imported where they are needed: most calls need none.
    begins_with = text.lstrip("\ufeff \t\r\n").startswith
    if begins_with("<"):
        from colltool.custom.msccl_machine import read_msccl

        return read_msccl(text, file, Path(file).stem)
    if '"gpus"' in text and begins_with("{"):
        from colltool.custom.mscclpp_machine import read_mscclpp

        return read_mscclpp(text, file, Path(file).stem)
    return custom_schedule(text, file)


def custom_schedule(content: str | Mapping[str, Any], file: str = "") -> CustomSchedule:
    """Return the executed schedule of YAML or JSON text, or of a mapping, in colltool's format; ``file``: its
    name, for errors. Raises as :func:`load_algorithm`."""
    reading = read(AlgorithmFile, content, file)
    # result() raises all errors that were found; without a model there are some
    if reading.model is None:
        reading.result()
    assert reading.model is not None
    model = reading.model
    chunks = model.ranks if model.chunks is None else model.chunks
    try:
        postcondition = postcondition_of(model.primitive, model.ranks, chunks, model.root)
        batches = tuple(_batches(reading, postcondition, model.steps))
        # _batches adds its errors to the reading
        reading.result()
        follow(postcondition, batches)
    except ColltoolError as error:
        error.where = error.where or file
        raise
    return CustomSchedule(
        model.name,
        model.primitive,
        model.ranks,
        chunks,
        batches,
        file=file,
        form=FORM,
        root=model.root,
    )


def _batches(
    reading: Reading[AlgorithmFile],
    postcondition: PostCondition,
    steps: list[str | list[str | SendFile]],
) -> Iterator[Batch]:
    """The messages of each step, from their texts. Errors are added to the reading, and the step goes on
    without the send that is wrong."""
    chunks_left = MOST_MOVES
    for number, step in enumerate(steps):
        path: KeyPath = ("steps", number)
        entries: list[tuple[KeyPath, str | SendFile]]
        # A step is a text, or a list of texts and sends that are written out.
        if isinstance(step, str):
            entries = [(path, step)]
        else:
            entries = [((*path, index), entry) for index, entry in enumerate(step)]
        messages: list[Sent] = []
        sends = 0
        for entry_path, entry in entries:
            # a text may have several sends, wrong ones too
            for send in entry.split() if isinstance(entry, str) else [entry]:
                of_send = _messages(reading, entry_path, postcondition, send, chunks_left)
                sends += 1
                chunks_left -= len(of_send)
                messages += of_send
            # Further errors would bury the first ones.
            if reading.has_enough_errors:
                return
        if not sends:
            reading.refuse(path, "a step without a send", _EXAMPLE)
        yield batch_of(messages)


class _Send(NamedTuple):
    """A send of one or more ranges of chunks."""

    src: int
    dst: int
    ranges: list[tuple[int, int]]  # first and last chunk of each
    add: bool


def _send_of(text: str) -> _Send | None:
    """The send of a text such as ``0>1:0-3,6+``. None if it is no send."""
    parts = _SEND.fullmatch(text)
    if parts is None:
        return None
    ranges = []
    for range_text in parts[3].split(","):
        ends = _RANGE.fullmatch(range_text)
        if ends is None:
            return None
        ranges.append((int(ends[1]), int(ends[2] or ends[1])))
    return _Send(int(parts[1]), int(parts[2]), ranges, bool(parts[4]))


def _messages(
    reading: Reading[AlgorithmFile],
    path: KeyPath,
    postcondition: PostCondition,
    entry: str | SendFile,
    most: int,
) -> list[Sent]:
    """The messages of one send, a chunk each. Empty if it is wrong, which is added to the errors.

    Args:
        path: of the entry in the file.
        most: chunks that may still be sent.
    """
    if isinstance(entry, str):
        send = _send_of(entry)
        if send is None:
            reading.refuse(path, f"{quote(entry)} is no send", _EXAMPLE)
            return []
    else:
        chunks = list(entry.chunks or ())
        if entry.chunk is not None:
            chunks.insert(0, entry.chunk)
        if (entry.chunk is None) == (entry.chunks is None) or not chunks:
            reading.refuse(
                path, "a send has either 'chunk' or 'chunks'", "chunk: 2, or chunks: [2, 3]"
            )
        send = _Send(entry.src, entry.dst, [(chunk, chunk) for chunk in chunks], entry.reduce)
    problem, fix = _problem_of(send, postcondition, most)
    if problem:
        reading.refuse(path, problem, fix)
        return []
    messages: list[Sent] = []
    for first, last in send.ranges:
        messages += [(send.src, send.dst, chunk, send.add) for chunk in range(first, last + 1)]
    return messages


def _problem_of(send: _Send, postcondition: PostCondition, most: int) -> tuple[str, str]:
    """Return what is wrong with a send and how to fix it; the first is empty if nothing is, the second if
    there is nothing to add. ``most``: chunks that may still be sent."""
    for rank in (send.src, send.dst):
        if rank >= postcondition.ranks:
            return f"rank {rank} is not there: ranks are 0 .. {postcondition.ranks - 1}", ""
    chunks = postcondition.chunks
    # of an all-to-all each rank has chunks of its own
    if postcondition.primitive is A2A:
        chunks *= postcondition.ranks
    for _, last in send.ranges:
        if last >= chunks:
            return f"chunk {last} is not there: chunks are 0 .. {chunks - 1}", ""
    if send.src == send.dst:
        return f"rank {send.src} sends to itself", _EXAMPLE
    if any(first > last for first, last in send.ranges):
        return "a range of chunks runs backwards", _EXAMPLE
    if sum(last - first + 1 for first, last in send.ranges) > most:
        return f"more than {MOST_MOVES} chunks are sent in all", "fewer, larger chunks"
    return "", ""


def algorithm_text(schedule: CustomSchedule) -> str:
    """Return a schedule in colltool's own format, which reads back as the same; ColltoolError for one
    of more steps than a file may have."""
    from colltool.definitions.source import MAX_VALUES

    # Each step is two of the values that a file may hold.
    if len(schedule.batches) > MAX_VALUES // 2:
        what = f"{len(schedule.batches)} steps are more than a file may have"
        raise ColltoolError(what, argument="ranks", fix="fewer ranks")
    lines = [
        f"schema: {FORM}",
        f"name: {schedule.name}",
        f"primitive: {schedule.primitive}",
        f"ranks: {schedule.ranks}",
        f"chunks: {schedule.chunks}",
    ]
    if schedule.root:
        lines.append(f"root: {schedule.root}")
    lines.append("steps:")
    for batch in schedule.batches:
        step = fill(
            " ".join(_texts_of(batch)),
            _WIDTH,
            initial_indent="  - ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines.append(step)
    return "\n".join([*lines, ""])


def _texts_of(batch: Batch) -> Iterator[str]:
    """Sends as texts, the chunks of one pair together: ``0>1:0-3,6+``."""
    for step in batch:
        chunks_of_pair: dict[tuple[int, int], list[int]] = {}
        messages = zip(step.src.tolist(), step.dst.tolist(), step.chunk.tolist(), strict=True)
        for src, dst, chunk in messages:
            chunks_of_pair.setdefault((src, dst), []).append(chunk)
        add = "+" if step.add else ""
        for (src, dst), chunks in chunks_of_pair.items():
            yield f"{src}>{dst}:{','.join(map(_run_text, runs(chunks)))}{add}"


def _run_text(run: tuple[int, int]) -> str:
    """A run of :func:`runs` as ``0-3``, or ``6`` of a single chunk."""
    first, count = run
    return f"{first}-{first + count - 1}" if count > 1 else str(first)


def runs(chunks: list[int]) -> list[tuple[int, int]]:
    """Return distinct chunks as runs of consecutive numbers, ``(first, count)``, ascending."""
    consecutive: list[tuple[int, int]] = []
    first = count = 0
    for chunk in sorted(chunks):
        if count and chunk == first + count:
            count += 1
            consecutive[-1] = (first, count)
        else:
            first = chunk
            count = 1
            consecutive.append((first, count))
    return consecutive
