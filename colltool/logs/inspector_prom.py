"""NCCL Inspector's Prometheus text: one file a GPU, a snapshot of the last dump.

Two generations:

- NCCL 2.28.x: a call a communicator, with labels comm_id, rank, nranks, n_nodes, collective,
  coll_sn, message_size="4.00MB" (two decimals) and the exact rates;
- later (version="v5.1"): a bucket of sizes, labels comm_name, message_size="4-5MB" and algo_proto,
  with the mean time and the geometric mean of busbw.

The size is busbw x time over the factor of the collective, which is exact to busbw's six digits;
the label is its bound. Exposition format of Prometheus: comments, label values with escapes, a time
stamp behind the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import log2
from typing import NamedTuple

from colltool.base.primitives import busbw_factor
from colltool.logs.call_records import (
    MESSAGE,
    NOT_MODELLED,
    START_UP,
    CallPlace,
    parsed_log,
    primitive_of,
    rank_call,
)
from colltool.logs.log_file import Log
from colltool.logs.printed_numbers import rounding_interval
from colltool.logs.records import Format, Note, ParsedLog, Record, UserHints, agreed_nodes
from colltool.logs.sentences import statement

# nccl_bus_bandwidth_gbs{comm_id="0x7",rank="3",collective="AllReduce"} 231.4 1767225600000
_SAMPLE = re.compile(r"(nccl_\w{1,80})\{(.{0,4000})\}\s+(\S{1,40})(?:\s+-?\d{1,20})?$")
_LABEL = re.compile(r'([A-Za-z_]\w{0,60})="((?:[^"\\]|\\.){0,1000})"')
TIME_METRIC = "nccl_collective_exec_time_microseconds"
BUSBW_METRIC = "nccl_bus_bandwidth_gbs"
_MESSAGES = "nccl_p2p_"
# "4.00MB" of NCCL 2.28, "4-5MB" later: MB are of 2**20 bytes
_BUCKET = re.compile(r"(\d{1,9}(?:\.\d{1,4})?)(?:-(\d{1,9}))?([KMGT]?)B")
_UNITS = {"": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40}
# share by which the product of a mean time and a mean rate may miss the size
_MISSES = 0.02
# factor by which it may leave its bucket: time and busbw are means of two kinds
_LEAVES = 1.05


class _LabelledMetrics(NamedTuple):
    """The metrics of one set of labels: a call, or a bucket of sizes."""

    line: int  # of the first
    labels: Mapping[str, str]
    metrics: dict[str, float]  # by name


def _recognises(log: Log) -> bool:
    """Whether a log has a sample of either metric."""
    return log.contains(b"nccl_", b"_exec_time_microseconds{") or log.contains(
        BUSBW_METRIC.encode() + b"{"
    )


def read(log: Log, hints: UserHints) -> ParsedLog:
    """The collectives of a snapshot; ColltoolError where none can be used."""
    fix = f"keep both {TIME_METRIC} and {BUSBW_METRIC} of collectives; or give Inspector's JSON"
    return parsed_log(log, _calls(log, hints), "NCCL Inspector's Prometheus text", fix)


def _calls(log: Log, hints: UserHints) -> Iterator[Record | Note]:
    """The calls that the samples of a file state, and notes on messages and what cannot be used."""
    samples: dict[str, _LabelledMetrics] = {}
    for number, text in log.clean_lines():
        match = _SAMPLE.match(text) if text.startswith("nccl_") else None
        if match is None:
            continue
        name, labels, printed = match.groups()
        if name.startswith(_MESSAGES):
            yield Note(MESSAGE, log.file, number)
        elif name in (TIME_METRIC, BUSBW_METRIC):
            sample = samples.setdefault(
                labels, _LabelledMetrics(number, dict(_LABEL.findall(labels)), {})
            )
            value = rounding_interval(printed)
            sample.metrics[name] = value.value if value else 0.0
    for sample in samples.values():
        yield _record_of(sample, log.file, hints)


def _record_of(sample: _LabelledMetrics, file: str, hints: UserHints) -> Record | Note:
    """The call or the bucket of a set of labels, or a note on why it cannot be used."""
    place = CallPlace("Inspector", file, sample.line)
    labels = sample.labels
    name = labels.get("collective")
    primitive = primitive_of(name)
    ranks = _count(labels, "nranks", "n_ranks")
    seconds = sample.metrics.get(TIME_METRIC, 0.0) / 1e6
    busbw_Bps = sample.metrics.get(BUSBW_METRIC, 0.0) * 1e9
    if primitive is None or ranks is None or ranks < 2:
        return place.note(NOT_MODELLED)
    if seconds <= 0 or busbw_Bps <= 0:
        return place.note(NOT_MODELLED)
    size = _power_of_two(busbw_Bps * seconds / busbw_factor(primitive, ranks))
    bucket = labels.get("message_size", "")
    if size < 1 or not _is_in_bucket(bucket, size, ranks):
        return place.note(statement("not-in-bucket", label=bucket))
    number = _count(labels, "coll_sn")
    if number == 0:
        return place.note(START_UP)
    return place.record(
        primitive,
        ranks,
        agreed_nodes(_count(labels, "n_nodes", "nnodes"), hints, place.where),
        size,
        seconds,
        call=rank_call(
            labels.get("comm_id", ""),
            name,
            number,
            rank=_count(labels, "rank"),
        ),
    )


def _power_of_two(size: float) -> float:
    """The power of two that a size stands for, within the spread of its means; else the size in
    whole bytes. So the files of several GPUs agree on it."""
    nearest = 2.0 ** round(log2(max(size, 1.0)))
    return nearest if abs(size / nearest - 1) < _MISSES else float(round(size))


def _count(labels: Mapping[str, str], *names: str) -> int | None:
    """A whole number by the first of its labels that has one; None if none has."""
    for label in names:
        text = labels.get(label, "")
        if text.isascii() and text.isdigit() and len(text) <= 18:
            return int(text)
    return None


def _is_in_bucket(bucket: str, size: float, ranks: int) -> bool:
    """Whether a size, or one rank's share of it, is about in the range that the label states; True
    where that has another form."""
    match = _BUCKET.fullmatch(bucket)
    if match is None:
        return True
    first, last, unit = match.groups()
    low = float(first) * _UNITS[unit] / _LEAVES
    high = float(last or first) * _UNITS[unit] * _LEAVES
    return any(low <= passed <= high for passed in (size, size / ranks))


FORMAT = Format(
    ".prom",
    "NCCL Inspector's Prometheus text ('nccl_bus_bandwidth_gbs{...')",
    _recognises,
    read,
    versions="NCCL 2.28 to 2.30 (v5.1)",
)
