"""OSU micro-benchmarks: latency tests of collectives, and of point-to-point messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive
from colltool.measurements.busbw_ratio import SAY_RANKS, UnusableRow, looks_like_a_row, message_size, positive_time
from colltool.measurements.series import Format, Log, Note, ParsedLog, Record, UserHints, agree, clean

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
_MOST_VALUES = 20  # of a row
_PER_PEER = (AG, A2A)  # their size is per rank, ours the total
_SIGN = re.compile(rb"# {0,9}OSU [^\n]{0,100}Test")
_TITLE = re.compile(r"# ?OSU (?:(MPI|[A-Za-z]*CCL)[\w-]*[ _]+)?(.{0,80}?) ?Test(?: v?(\d[\w.]*))?$")  # one space in a row
_NAMES = re.compile(r"# *(Size\b.*\(us\).*)")
_DTYPE = re.compile(r"# *Datatype: *([\w-]+)")
_BETWEEN = re.compile(r"\s{2,}|(?<=\))\s+|(?<=^Size)\s+")


@dataclass
class _Test:
    title: str
    library: str
    version: str
    line: int
    dtype: str = ""
    names: list[str] = field(default_factory=list)
    rows: list[tuple[int, str]] = field(default_factory=list)


def recognises(log: Log) -> bool:
    return _SIGN.search(log.content) is not None


def read(log: Log, stated: UserHints) -> ParsedLog:
    timings: list[Record] = []
    notes: list[Note] = []
    unusable: list[ColltoolError] = []
    for test in _tests(log, notes):
        title, latency, rest = test.title.partition("Latency")
        primitive = _TITLES.get(re.sub(r"[\s_-]", "", title).lower()) if latency and not rest.strip() else None
        if primitive is None or not test.names:
            what = (
                "an OSU test without its column names"
                if primitive is not None
                else f"'OSU {test.title} Test' is not the latency of a modelled primitive"
            )
            known = f"known: {', '.join(title for title in _TITLES if title)}"
            fix = "keep the line '# Size  Avg Latency(us)'" if primitive is not None else known
            unusable.append(ColltoolError(what, where=f"{log.file}:{test.line}", fix=fix))
            notes += [Note(what, log.file, number) for number, _ in test.rows]
        elif test.rows:
            timings += _timings(test, primitive, log.file, stated, notes)
        else:
            notes.append(Note("a table without rows", log.file, test.line))
    if timings:
        return ParsedLog(tuple(timings), tuple(notes))
    if unusable:
        raise unusable[0]
    where = f"{log.file}:{notes[0].line if notes else 1}"
    raise ColltoolError("an OSU log without rows", where=where, fix="the run was cut short or failed; run it again")


def _tests(log: Log, notes: list[Note]) -> Iterator[_Test]:
    test: _Test | None = None
    for number, line in enumerate(log.lines(), 1):
        text = clean(line)
        if "OSU" in text and (title := _TITLE.search(" ".join(text.split()))):
            if test is not None:
                yield test
            test = _Test(title=title[2], library=title[1] or "", version=f"OSU {title[3]}" if title[3] else "OSU", line=number)
        elif test is not None:
            _take(test, text, number, log.file, notes)
    if test is not None:
        yield test


def _take(test: _Test, text: str, number: int, file: str, notes: list[Note]) -> None:
    if "#" in text:
        if dtype := _DTYPE.search(text):
            test.dtype = dtype[1]
        elif "(us)" in text and (names := _NAMES.search(text)):
            test.names = ["".join(name.lower().split()) for name in _BETWEEN.split(names[1].strip())]
    elif (words := text.split(None, _MOST_VALUES)) and words[0][0].isdigit() and len(words) < _MOST_VALUES:
        test.rows.append((number, text))
    elif looks_like_a_row(text):
        notes.append(Note("garbled: no row of this table", file, number))


def _timings(test: _Test, primitive: Primitive, file: str, stated: UserHints, notes: list[Note]) -> list[Record]:
    where = f"{file}:{test.line}"
    agree(primitive, stated.primitive, "the collective is", "primitive", where)
    # Ping-pong is between two, whatever was launched.
    ranks = agree(2 if primitive is P2P else None, stated.ranks, "ranks:", "ranks", where)
    if ranks is None:
        raise ColltoolError("an OSU log does not say on how many ranks it ran", where=where, fix=SAY_RANKS)
    timings: list[Record] = []
    bad: list[Note] = []
    per_peer = ranks if primitive in _PER_PEER else 1
    for number, text in test.rows:
        try:
            size, seconds = _values(test.names, text.split())
        except UnusableRow as error:
            bad.append(Note(str(error), file, number))
            continue
        timings.append(
            Record(
                primitive, ranks, stated.nodes, size * per_peer, seconds, test.dtype,
                library=test.library, version=test.version, file=file, line=number,
            )
        )  # fmt: skip
    if not timings:
        what = f"no row of this table can be used; the first: {bad[0].reason}"
        raise ColltoolError(what, where=f"{file}:{bad[0].line}", fix=f"the table starts at line {test.line}; measure it again")
    notes += bad
    return timings


def _values(names: list[str], words: list[str]) -> tuple[float, float]:
    if len(words) < len(names):
        raise UnusableRow("truncated: fewer values than columns")
    if len(words) > len(names) and "iterations" not in names[-1]:
        raise UnusableRow("more values than columns")
    cells = dict(zip(names, words, strict=False))
    if "fail" in cells.get("validation", "").lower():
        raise UnusableRow("the result is wrong: validation failed")
    time = next((cells[name] for name in ("avglatency(us)", "latency(us)") if name in cells), "")
    return message_size(words[0]), positive_time(time).value / 1e6


FORMAT = Format("OSU ('# OSU MPI Allreduce Latency Test')", recognises, read, shares=True)
