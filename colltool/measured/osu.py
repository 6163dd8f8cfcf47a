"""OSU micro-benchmarks: latency tests of collectives, and of point-to-point messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from colltool.errors import ColltoolError
from colltool.measured.nccl.table import looks_like_a_row
from colltool.measured.rows import Note, Reading, Stated, Timing, Unusable, agree, message_size, positive_time
from colltool.measured.text import clean
from colltool.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive

# By the title without spaces and hyphens. A reduce-scatter's size is what a rank sends in all, as in nccl-tests.
_TITLES = {
    "allreduce": AR,
    "allgather": AG,
    "alltoall": A2A,
    "alltoallpersonalizedexchange": A2A,
    "broadcast": BC,
    "bcast": BC,
    "reduce": REDUCE,
    "reducescatter": RS,
    "reducescatterblock": RS,
    "": P2P,
}
_PER_PEER = (AG, A2A)  # their size is one rank's share of ours

_TITLE = re.compile(r"# *OSU +(?:(MPI|[A-Za-z]*CCL)[\w-]*[ _]+)?(.{0,80}?) *Test(?: +v?(\d[\w.]*))?\s*$")
_NAMES = re.compile(r"# *(Size\b.*\(us\).*)")
_DTYPE = re.compile(r"# *Datatype: *([\w-]+)")
_BETWEEN = re.compile(r"\s{2,}|(?<=\))\s+|(?<=^Size)\s+")


@dataclass
class _Test:
    """One test: its title, and rows as words under the names of its columns."""

    title: str
    library: str
    version: str
    line: int
    dtype: str = ""
    names: list[str] = field(default_factory=list)
    rows: list[tuple[int, list[str]]] = field(default_factory=list)


def recognises(text: str) -> bool:
    """Whether the text holds the title of an OSU test."""
    return re.search(r"# {0,9}OSU [^\n]{0,100}Test", text) is not None


def read(lines: Sequence[str], file: str, stated: Stated) -> Reading:
    """All rows of a log.

    Raises:
        ColltoolError: an unknown test, no rank count, no usable row.
    """
    rows: list[Timing] = []
    notes: list[Note] = []
    other: list[ColltoolError] = []
    for test in _tests(lines, notes, file):
        primitive = _primitive(test)
        if primitive is None or not test.names:
            what = (
                f"'OSU {test.title} Test' is not the latency of a primitive that is modelled"
                if primitive is None
                else "an OSU test without its column names"
            )
            other.append(
                ColltoolError(what, where=f"{file}:{test.line}", fix=f"known: {', '.join(title for title in _TITLES if title)}")
            )
            notes += [Note(what, file, number) for number, _ in test.rows]
        elif test.rows:
            rows += _settle(test, primitive, file, stated, notes)
        else:
            notes.append(Note("a table without rows", file, test.line))
    if not rows:
        fix = "the run was cut short or failed; run it again"
        raise (
            other[0]
            if other
            else ColltoolError("an OSU log without any row", where=f"{file}:{notes[0].line if notes else 1}", fix=fix)
        )
    return Reading(tuple(rows), tuple(notes))


def _tests(lines: Sequence[str], notes: list[Note], file: str) -> list[_Test]:
    tests: list[_Test] = []
    for number, line in enumerate(lines, 1):
        text = clean(line)
        if title := _TITLE.search(text):
            tests.append(_Test(title[2], title[1] or "", f"OSU {title[3]}" if title[3] else "OSU", number))
        elif not tests:
            continue
        elif dtype := _DTYPE.search(text):
            tests[-1].dtype = dtype[1]
        elif names := _NAMES.search(text):
            tests[-1].names = ["".join(name.lower().split()) for name in _BETWEEN.split(names[1].strip())]
        elif (words := text.split()) and words[0][0].isdigit() and "#" not in text and len(words) < 20:
            tests[-1].rows.append((number, words))
        elif looks_like_a_row(text):
            notes.append(Note("garbled: no row of this table", file, number))
    return tests


def _primitive(test: _Test) -> Primitive | None:
    title, latency, rest = test.title.partition("Latency")
    key = re.sub(r"[\s_-]", "", title).lower()
    return _TITLES.get(key) if latency and not rest.strip() else None


def _settle(test: _Test, primitive: Primitive, file: str, stated: Stated, notes: list[Note]) -> list[Timing]:
    where = f"{file}:{test.line}"
    agree(primitive, stated.primitive, "the collective is", "--collective", where)
    # Ping-pong is between two, whatever was launched.
    ranks = agree(2 if primitive is P2P else None, stated.ranks, "ranks:", "--ranks", where)
    if ranks is None:
        raise ColltoolError("an OSU log does not say on how many ranks it ran", where=where, fix="say how many: --ranks N")
    rows: list[Timing] = []
    bad: list[Note] = []
    for number, words in test.rows:
        try:
            size, seconds = _values(test.names, words)
        except Unusable as error:
            bad.append(Note(str(error), file, number))
            continue
        size *= ranks if primitive in _PER_PEER else 1
        rows.append(Timing(primitive, ranks, stated.nodes, size, seconds, test.dtype, test.library, test.version, file, number))
    if not rows:
        what = f"no row of this table can be used; the first: {bad[0].reason}"
        raise ColltoolError(what, where=f"{file}:{bad[0].line}", fix=f"the table starts at line {test.line}; measure it again")
    notes += bad
    return rows


def _values(names: list[str], words: list[str]) -> tuple[float, float]:
    if len(words) < len(names):
        raise Unusable("truncated: fewer values than columns")
    if len(words) > len(names) and "iterations" not in names[-1]:
        raise Unusable("more values than columns")
    cells = dict(zip(names, words, strict=False))
    if "fail" in cells.get("validation", "").lower():
        raise Unusable("the result is wrong: validation failed")
    time = next((cells[name] for name in ("avglatency(us)", "latency(us)") if name in cells), "")
    return message_size(words[0]), positive_time(time).value / 1e6
