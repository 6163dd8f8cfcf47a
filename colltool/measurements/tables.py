"""Tables of other benchmarks: Intel MPI Benchmarks, OSU bandwidth tests, perftest, nccom-test,
stas00's and torchcomms' tables.

Each row becomes a time. A bandwidth is of a stream of messages: it counts as one transfer of all of
them, from messages on that are long enough to fill the link.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from colltool.base.errors import ColltoolError, given
from colltool.base.formatting import parse_size
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive
from colltool.measurements import nccl_tests
from colltool.measurements.busbw_ratio import (
    SAY_RANKS,
    UnusableRow,
    message_size,
    positive_time,
    ranks_of,
    ratio,
    rounding_interval,
)
from colltool.measurements.series import (
    Format,
    Log,
    Note,
    ParsedLog,
    Record,
    UserHints,
    agree,
    clean,
)

_STREAM = "used as one transfer of the whole stream: a rate, no latency"
# bytes of a message that fills a link; messages in flight of OSU's tests
_FILLS, _WINDOW = 2.0**16, 64


def _stream(size: str, count: float, rate_Bps: float) -> list[tuple[str, float]]:
    """The stream's bytes and seconds; nothing where its messages are too short to fill a link."""
    total = float(size) * count
    return [(f"{total:.0f}", total / rate_Bps)] if float(size) >= _FILLS and rate_Bps > 0 else []


class _OtherTable(NamedTuple):
    """What a program measured: ``rows`` of line, bytes and seconds as text; ``per_peer``: bytes are
    a rank's part."""

    primitive: Primitive | None
    ranks: int | None
    nodes: int | None
    library: str
    version: str
    line: int
    rows: list[tuple[int, str, float | str]]
    per_peer: bool = False
    note: str = ""


def _table(
    primitive: Primitive | None, ranks: int | None, version: str, line: int, library: str = "MPI"
) -> _OtherTable:
    rows: list[tuple[int, str, float | str]] = []
    return _OtherTable(
        primitive=primitive,
        ranks=ranks,
        nodes=None,
        library=library,
        version=version,
        line=line,
        rows=rows,
    )


def _records(log: Log, tables: Iterable[_OtherTable], stated: UserHints) -> ParsedLog:
    timings: list[Record] = []
    notes: list[Note] = []
    for table in tables:
        where = f"{log.file}:{table.line}"
        primitive = agree(
            table.primitive, stated.primitive, "the collective is", "primitive", where
        )
        if primitive is None:
            raise ColltoolError(
                "the table does not say which collective it is",
                where=where,
                fix=f"say it: {given('primitive')}",
            )
        ranks = agree(table.ranks, stated.ranks, "ranks:", "ranks", where)
        if ranks is None:
            raise ColltoolError(
                f"{table.version} does not say on how many ranks it ran", where=where, fix=SAY_RANKS
            )
        nodes, whole = (
            agree(table.nodes, stated.nodes, "nodes:", "nodes", where),
            ranks if table.per_peer else 1,
        )
        for number, size, time in table.rows:
            try:
                bytes_ = message_size(size) * whole
                seconds = positive_time(time).value / 1e6 if isinstance(time, str) else time
            except UnusableRow as error:
                notes.append(Note(str(error), log.file, number))
                continue
            notes += [Note(table.note, log.file, number, used=True)] if table.note else []
            timings.append(
                Record(
                    primitive,
                    ranks,
                    nodes,
                    bytes_,
                    seconds,
                    "",
                    library=table.library,
                    version=table.version,
                    file=log.file,
                    line=number,
                )
            )
    if not timings:
        why = f": {notes[0].reason}" if notes else ""
        raise ColltoolError(
            f"a table without usable rows{why}",
            where=f"{log.file}:1",
            fix="the run was cut short; run it again",
        )
    return ParsedLog(tuple(timings), tuple(notes))


def _lines(log: Log) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(log.lines(), 1):
        yield number, clean(line).strip()


def _numbers(text: str, least: int) -> list[str]:
    """The words of a row of numbers; empty for other lines."""
    words = text.split(None, 20)
    return (
        words
        if len(words) >= least and all(rounding_interval(word) for word in words[:least])
        else []
    )


# --- Intel MPI Benchmarks: sizes are a rank's part where each rank has one
_IMB = {
    "allreduce": AR,
    "allgather": AG,
    "allgatherv": AG,
    "alltoall": A2A,
    "alltoallv": A2A,
    "bcast": BC,
    "reduce": REDUCE,
    "reduce_scatter": RS,
    "reduce_scatter_block": RS,
    "pingpong": P2P,
    "pingping": P2P,
}
_IMB_TITLE = re.compile(r"# *Benchmarking +([A-Za-z_]+)")
_IMB_RANKS = re.compile(r"# *#processes *= *(\d{1,7})")


def _imb(log: Log) -> Iterator[_OtherTable]:
    table, name, at = None, "", 0
    for number, text in _lines(log):
        if title := _IMB_TITLE.match(text):
            name, table = title[1].lower(), None
        elif (ranks := _IMB_RANKS.match(text)) and name in _IMB:
            primitive = _IMB[name]
            many = 2 if primitive is P2P else int(ranks[1])
            per_peer = primitive in (AG, A2A)
            table = _table(primitive, many, "Intel MPI Benchmarks", number)._replace(
                per_peer=per_peer
            )
            yield table
        elif table and text.startswith("#bytes"):
            names = text.split()
            at = next((at for at, one in enumerate(names) if one in ("t_avg[usec]", "t[usec]")), 2)
        elif table and (words := _numbers(text, 3)) and words[0] != "0":
            table.rows.append((number, words[0], words[min(at, len(words) - 1)]))


# --- OSU: bandwidth of one or several pairs
_OSU_TITLE = re.compile(rb"# {0,9}OSU [^\n]{0,60}(?:Bandwidth|Message Rate)[^\n]{0,40}Test")
_PAIRS = re.compile(r"\[ *pairs: *(\d{1,6}) *\]")


def _osu_rates(log: Log) -> Iterator[_OtherTable]:
    table, pairs, ways = None, 1, 1
    for number, text in _lines(log):
        if "OSU" in text and "Test" in text:
            library = next((one for one in ("NCCL", "RCCL") if one in text), "MPI")
            ways = 2 if "Bi-Directional" in text else 1
            table = _table(P2P, 2, "OSU bandwidth test", number, library)._replace(note=_STREAM)
            yield table
        elif found := _PAIRS.search(text):
            pairs = int(found[1])
        elif table and (words := _numbers(text, 2)) and float(words[1]) > 0:
            rate = float(words[1]) * 1e6 / (pairs * ways)
            table.rows.extend(
                (number, size, seconds) for size, seconds in _stream(words[0], _WINDOW, rate)
            )


# --- perftest: ib_write_bw, ib_send_lat ...
_PERFTEST = re.compile(
    rb"(?:RDMA_Write|RDMA_Read|Send|Atomic)[^\n]{0,20}(?:BW|Latency)[^\n]{0,20}Test"
)
_PER_S = {"Gb/sec": 1e9 / 8, "MB/sec": 2.0**20, "MiB/sec": 2.0**20, "GB/sec": 1e9}


def _perftest(log: Log) -> Iterator[_OtherTable]:
    table = _table(P2P, 2, "perftest", 1)._replace(nodes=2, note=_STREAM)
    unit, at, latency = _PER_S["Gb/sec"], 3, False
    for number, text in _lines(log):
        if text.startswith("#bytes"):
            latency = "usec" in text
            unit = next((rate for name, rate in _PER_S.items() if name in text), unit)
            at = 5 if latency else 3
            table = table._replace(line=number, note="" if latency else _STREAM)
        elif (words := _numbers(text, 4)) and len(words) > at and float(words[at]) > 0:
            if latency:
                table.rows.append((number, words[0], words[at]))
            else:
                whole = _stream(words[0], float(words[1]), float(words[at]) * unit)
                table.rows.extend((number, size, seconds) for size, seconds in whole)
    yield table


# --- nccom-test of AWS Neuron: nccl-tests' columns under names of its own
_NCCOM = re.compile(rb"size\(B\) +count\(elems\) +type")
_NCCOM_NAMES = "#  size  count  type  time  algbw  busbw"


def _nccom(log: Log, stated: UserHints) -> ParsedLog:
    lines = [_NCCOM_NAMES if "count(elems)" in line else line for line in log.lines()]
    if stated.primitive is None and not re.search(r"_perf\b", log.text()):
        named = re.search(rb"nccom-test +(?:-\S+ +(?:\d\S* +)?)*([a-z_]{4,20})", log.content)
        short = {
            "allr": AR,
            "allg": AG,
            "redsct": RS,
            "alltoall": A2A,
            "sendrecv": P2P,
            "all_reduce": AR,
        }
        found = short.get(named[1].decode()) if named else None
        stated = stated._replace(primitive=found or AR)  # the default of nccom-test
    return nccl_tests.read(Log(log.file, "\n".join(lines).encode()), stated)


# --- all_reduce_bench of stas00/ml-engineering: a Markdown table of payload, busbw and algbw
_STAS = re.compile(rb"\| *payload *\| *busbw *\| *algbw *\|")
_RATE = re.compile(r"([\d.]{1,20}) *GBps")


def _stas(log: Log, stated: UserHints) -> Iterator[_OtherTable]:
    rows: list[tuple[int, str, float | str]] = []
    ratios = []
    start = 1
    for number, text in _lines(log):
        cells = [cell.strip() for cell in text.strip("|").split("|")]
        start = number if cells[0] == "payload" else start
        rates = [found[1] for cell in cells[1:] if (found := _RATE.fullmatch(cell))]
        if len(cells) != 3 or len(rates) != 2 or float(rates[1]) <= 0:
            continue
        size, where = parse_size(cells[0]), f"{log.file}:{number}"
        rows.append((number, f"{size:.0f}", size / (float(rates[1]) * 1e9)))
        if one := ratio(rounding_interval(rates[1]), rounding_interval(rates[0]), where):
            ratios.append(one)
    ranks = stated.ranks or ranks_of(AR, ratios, None, "", f"{log.file}:{start}", named=True)[0]
    yield _table(AR, ranks, "all_reduce_bench", start, "NCCL")._replace(rows=rows)


# --- torchcomms: a column of algbw in GB/s for each backend, of which NCCL's is taken
_TORCHCOMMS = re.compile(rb"Size +NCCL\(?\w*\)? +\S+")


def _torchcomms(log: Log) -> Iterator[_OtherTable]:
    table = None
    for number, text in _lines(log):
        words = text.split()
        if words[:1] == ["Size"] and words[1:2] and words[1].startswith("NCCL"):
            note = f"used as GB/s of {words[1]}: the table names no unit"
            table = _table(None, None, "torchcomms", number, "NCCL")._replace(note=note)
            yield table
        elif (
            table
            and len(words) > 1
            and re.fullmatch(r"\d+[KMG]?B", words[0])
            and (rate := rounding_interval(words[1]))
        ):
            size = parse_size(
                words[0].replace("KB", "KiB").replace("MB", "MiB").replace("GB", "GiB")
            )
            if rate.value > 0:
                table.rows.append((number, f"{size:.0f}", size / (rate.value * 1e9)))


def _format(
    known_by: str, sign: re.Pattern[bytes], tables: Callable[[Log], Iterator[_OtherTable]]
) -> Format:
    def read(log: Log, stated: UserHints) -> ParsedLog:
        return _records(log, list(_filled(tables(log))), stated)

    return Format(known_by, partial(_has, sign), read)


def _filled(tables: Iterator[_OtherTable]) -> Iterator[_OtherTable]:
    yield from [table for table in list(tables) if table.rows]


def _has(sign: re.Pattern[bytes], log: Log) -> bool:
    return sign.search(log.content) is not None


def _read_stas(log: Log, stated: UserHints) -> ParsedLog:
    return _records(log, _stas(log, stated), stated)


IMB = _format(
    "Intel MPI Benchmarks ('# Benchmarking Allreduce')",
    re.compile(rb"# *Benchmarking +[A-Za-z_]+"),
    _imb,
)
OSU_RATES = _format("OSU bandwidth ('# OSU MPI Bandwidth Test')", _OSU_TITLE, _osu_rates)
PERFTEST = _format("perftest (ib_write_bw)", _PERFTEST, _perftest)
NCCOM = Format("nccom-test ('size(B) count(elems) type')", partial(_has, _NCCOM), _nccom)
STAS = Format("all_reduce_bench ('| payload | busbw | algbw |')", partial(_has, _STAS), _read_stas)
TORCHCOMMS = _format("torchcomms ('Size NCCL(auto) ...')", _TORCHCOMMS, _torchcomms)
