"""nccom-test of AWS Neuron: nccl-tests' columns under names of its own."""

from __future__ import annotations

import re

from colltool.base.primitives import AR
from colltool.logs import nccl_tests_text
from colltool.logs.collective_names import collectives_of
from colltool.logs.log_file import Log
from colltool.logs.records import Format, ParsedLog, UserHints
from colltool.logs.tables import has

_SIGN = re.compile(rb"size\(B\) +count\(elems\) +type")
_NAMES = "#  size  count  type  time  algbw  busbw"
_COMMAND = re.compile(r"nccom-test +(?:-\S+ +(?:\d\S* +)?)*([a-z_]{4,20})")


def read(log: Log, hints: UserHints) -> ParsedLog:
    """The log with nccl-tests' header in place of its own, read as one of nccl-tests."""
    lines = [_NAMES if "count(elems)" in line else line for line in log.lines()]
    if hints.primitive is None and not re.search(r"_perf\b", log.text()):
        command = _COMMAND.search(log.text())
        named = command[1] if command else ""
        # an all-reduce is the default of nccom-test
        hints = hints._replace(primitive=collectives_of("nccom").get(named, AR))
    return nccl_tests_text.read(Log(log.file, "\n".join(lines).encode()), hints)


FORMAT = Format("nccom-test", "nccom-test ('size(B) count(elems) type')", has(_SIGN), read)
