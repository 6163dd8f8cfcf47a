"""nccom-test of AWS Neuron: nccl-tests' columns under names of its own."""

from __future__ import annotations

import re

from colltool.base.primitives import AR
from colltool.logs import nccl_tests_text
from colltool.logs.collective_names import collectives_of
from colltool.logs.log_file import Log
from colltool.logs.records import Format, ParsedLog, UserHints
from colltool.logs.tables import recognised_by

# "size(B)  count(elems)  type  time:avg(us)  algbw(GB/s)  busbw(GB/s)"
_SIGN = re.compile(rb"size\(B\) +count\(elems\) +type")
# nccl-tests' names of the same columns
_NAMES = "#  size  count  type  time  algbw  busbw"
# "nccom-test -r 64 -b 1K -e 1G allg"
_COMMAND = re.compile(r"nccom-test +(?:-\S+ +(?:\d\S* +)?)*([a-z_]{4,20})")


def read(log: Log, hints: UserHints) -> ParsedLog:
    """The log with nccl-tests' header in place of its own, read as one of nccl-tests."""
    lines = []
    for line in log.lines():
        if "count(elems)" in line:
            line = _NAMES
        lines.append(line)
    text = log.text()
    if hints.primitive is None and not re.search(r"_perf\b", text):
        # the default of nccom-test
        primitive = AR
        command = _COMMAND.search(text)
        if command:
            primitive = collectives_of("nccom").get(command[1], AR)
        hints = hints._replace(primitive=primitive)
    content = "\n".join(lines).encode()
    return nccl_tests_text.read(Log(log.file, content), hints)


FORMAT = Format(
    "nccom-test", "nccom-test ('size(B) count(elems) type')", recognised_by(_SIGN), read
)
