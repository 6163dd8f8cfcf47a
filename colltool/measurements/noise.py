"""What terminals, launchers and NCCL's own messages put between the numbers of a log."""

from __future__ import annotations

import re

from colltool.measurements.log import MAX_LINE

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]{0,40}[A-Za-z]|\][^\x07]{0,200}\x07)")
_MPIRUN_TAG = re.compile(r"\[[^\[\]\s]*\d,\d+\]<std\w+>:?")
_NCCL_PLACE = re.compile(r":\d+:\d+ \[-?\d+\]")  # process, thread and device, behind a host's name
_HOST = re.compile(r"(?:\[[^\[\]]{1,40}\]\s*)?[A-Za-z][\w.-]*\Z")
_LABEL = re.compile(r"\s*[\w.-]{1,80}:\s+(?=[#\d.]|N/A)")  # "0: " of srun -l, "node03: " of pdsh
_LONGEST_HOST = 300


def clean(line: str) -> str:
    """A line without colours, mpirun's tags and NCCL's messages, wherever in the line they stand."""
    line = line[:MAX_LINE]
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    if "<std" in line:
        line = _MPIRUN_TAG.sub(" ", line)
    if "NCCL" in line:
        line = line[: _message_start(line)]
    if ":" in line and (label := _LABEL.match(line)):
        line = line[label.end() :]
    return line


def _message_start(line: str) -> int:
    """Where a message of NCCL begins, which reaches to the end of the line; the length of the line where there is none."""
    version = line.find("NCCL version ")
    start = version if version >= 0 else len(line)
    place = _NCCL_PLACE.search(line)
    if place is None or line.rfind("NCCL") < place.end():
        return start
    first = max(0, place.start() - _LONGEST_HOST)
    host = _HOST.search(line[first : place.start()])
    return min(start, first + host.start()) if host else start
