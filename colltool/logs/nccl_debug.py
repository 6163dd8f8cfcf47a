"""What NCCL_DEBUG=INFO lines, settings and errors in logs say of a machine and a run.

:func:`debug_lines` is the entry; it hands every line to :class:`_DebugReader`, and that messages of
NCCL to :mod:`colltool.logs.nccl_messages`, settings to :mod:`colltool.logs.nccl_settings`, and
whatever states something by itself, such as an error, to :mod:`colltool.logs.stated`. What several
lines say together is concluded in :mod:`colltool.logs.debug_conclusions`.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from colltool.base.errors import printable
from colltool.logs.debug_record import DebugLines
from colltool.logs.log_file import each_line
from colltool.logs.nccl_messages import NcclMessages, host_and_gpu, quoted_message
from colltool.logs.nccl_settings import SettingsReader, stated_by
from colltool.logs.stated import StatedLine, stated_in, wrong_row

_MOST = 1_000_000  # lines that are read, of all files
_LONGEST = 2000  # characters of a line that are read
_MOST_STATED = 500  # different statements that are kept
# a row of nccl-tests, behind a launcher's tag or a time:
# "[1,0]<stdout>: 1048576  262144  float  sum  -1  45.12  23.24  43.58  0  44.98  23.31  43.71  0"
_ROW = re.compile(r"\s*+(?:\S{1,60}\s++){0,3}?(\d{1,20}\s++\d{1,20}\s++[a-z]\w*\s.*)")
# what stands before the error that cut a row: all of "1048576  262144  float  sum  -1  45.12  " in
# "1048576  262144  float  sum  -1  45.12  node1: Test NCCL failure common.cu:594"
_CELLS = re.compile(
    r"^.*?"  # tags
    r"\d{1,20}\s+\d{1,20}\s+[a-z]\w*\s+"  # size, count and type
    r"(?:[a-z]\w*\s+)?"  # operation
    r"(?:-?[\d.]+(?:e[+-]\d+)?\s+|N/A\s+)*"  # root, times, rates and counts of wrong values
)
# "# Avg bus bandwidth    : 380.2", "# Collective test concluded: all_reduce_perf"
_ENDED = ("# Avg bus", "Collective test concluded")
# "\x1b[0;32mnode1\x1b[0m": colours of a terminal
_ANSI = re.compile(r"\x1b\[[0-9;?]{0,40}[A-Za-z]")
# "gpu: NVIDIA H100 80GB HBM3"
_DEVICE = re.compile(
    r"(?<![A-Za-z0-9])"
    r"(GB300|GB200|GH200|B300|B200|H200|H100|H800|H20|A100|A800|V100|MI300X|MI325X|MI355X|L40S|A10G|T4)"
    r"(?![0-9])",
    re.IGNORECASE,
)
# "instance type: p5.48xlarge", and the devices of these instances of AWS
_INSTANCE = re.compile(r"\b(p4de?|p5(?:en?)?)\.\d{0,2}xlarge", re.IGNORECASE)
_DEVICE_OF_INSTANCE = {"p4d": "A100", "p4de": "A100", "p5": "H100", "p5e": "H200", "p5en": "H200"}


def debug_lines(paths: Sequence[str | os.PathLike[str]]) -> DebugLines:
    """What the lines of these logs state, all of one machine; ColltoolError for a file that cannot
    be read."""
    reader = _DebugReader()
    each_line(paths, reader.begin, reader.take, most=_MOST, longest=_LONGEST)
    return reader.lines()


class _DebugReader:
    """What the lines so far say."""

    def __init__(self) -> None:
        self.messages = NcclMessages()
        self.env: dict[str, str] = {}  # the first value of each variable
        self.devices: Counter[str] = Counter()
        self.stated: dict[tuple[str, str], StatedLine] = {}  # by code, and words or meaning
        self.last_end: dict[str, int] = {}  # the last line that ends a run, by file
        self.begin("")

    def begin(self, file: str) -> None:
        """Begin a file."""
        self.file = file
        self.line = 0
        self.settings = SettingsReader()
        # of the table of nccl-tests: its columns, and the places of those that count wrong values
        self.columns = 0
        self.wrong_columns: tuple[int, ...] = ()

    def take(self, line: str) -> None:
        """Add what the next line of the file says."""
        self.line += 1
        if "\x1b" in line:
            line = _ANSI.sub("", line)
        text = line if line.isascii() and line.isprintable() else printable(line)
        row = _ROW.match(line)
        if row:
            self._take_row(row[1], text)
            return
        self._take_statement(text, text)
        if "#wrong" in text:
            self._take_header(text)
        if text.lstrip().startswith(_ENDED):
            self.last_end[self.file] = self.line
        for setting in self.settings.take(text):
            self.env.setdefault(setting.name, setting.value)
            self._keep(stated_by(setting, self.file, self.line))
        # every message has one of these, which is far cheaper to look for than each kind
        if "NCCL" in text or "NET" in text or "RDMA" in text or " via " in text:
            self.messages.take(text, self.file, self.line)
        self._take_device(text)

    def _take_row(self, row: str, text: str) -> None:
        """Keep that a row of nccl-tests has a wrong result: a count of wrong values that is not 0.
        ``row``: from its size on, ``text``: the whole line."""
        cells = row.split()
        if len(cells) == self.columns:
            wrong_cells = [cells[place] for place in self.wrong_columns]
            wrong_counts = [int(cell) for cell in wrong_cells if cell.isdigit()]
            if any(wrong_counts):
                self._keep(wrong_row(float(cells[0]), max(wrong_counts), self.file, self.line))
        # a row that does not end with a number was cut by an error
        if not text.rstrip()[-1:].isdigit():
            self._take_statement(text, _CELLS.sub("", text))

    def _take_statement(self, text: str, quoted: str) -> None:
        """Keep what a line states by itself; ``quoted``: the part of it that is quoted."""
        matched = stated_in(text)
        if matched:
            host, _ = host_and_gpu(text)
            self._keep(matched.stated(quoted_message(quoted), self.file, self.line, host))

    def _take_header(self, text: str) -> None:
        """Note the columns of a table of nccl-tests, "#  size  count  type  ...  #wrong"."""
        names = text.partition("#")[2].split()
        self.columns = len(names)
        self.wrong_columns = tuple(place for place, name in enumerate(names) if name == "#wrong")

    def _take_device(self, text: str) -> None:
        """Count a device or an instance that a line names; Rank lines are read elsewhere
        (:mod:`colltool.logs.hardware_in_log`)."""
        device = None if "Rank" in text else _DEVICE.search(text)
        instance = _INSTANCE.search(text) if "xlarge" in text else None
        if device:
            self.devices[device[1].upper()] += 1
        elif instance:
            self.devices[_DEVICE_OF_INSTANCE[instance[1].lower()]] += 1

    def _keep(self, stated: StatedLine) -> None:
        """Keep a statement, or count it where the same was stated before."""
        # settings are told apart by their words, all else by what it means
        key = (stated.code, stated.quoted if stated.code == "setting" else stated.means)
        known = self.stated.get(key)
        if known:
            self.stated[key] = known._replace(times=known.times + 1)
        elif len(self.stated) < _MOST_STATED:
            self.stated[key] = stated

    def lines(self) -> DebugLines:
        """What all lines say together."""
        messages = self.messages
        return DebugLines(
            network=_commonest(messages.networks) or "",
            provider=messages.provider,
            nics=messages.nics,
            nic_GBps=_commonest(messages.topology_GBps),
            links=tuple(messages.links.items()),
            nic_Mbps=tuple(messages.nic_Mbps.items()),
            via=tuple(sorted(messages.connections.items())),
            carrying=max(map(len, messages.nics_by_host.values()), default=None),
            gpus=max(map(len, messages.gpus_by_host.values()), default=0),
            gpudirect=messages.gpudirect(),
            multicast=True in messages.multicast if messages.multicast else None,
            channels=min(messages.channels, default=None),
            nvls_channels=min(messages.nvls_channels, default=None),
            picks=tuple(sorted(messages.picks.items())),
            begun=messages.inits["START"],
            complete=messages.inits["COMPLETE"],
            messages=messages.count,
            env=tuple(sorted(self.env.items())),
            mentioned=_commonest(self.devices) or "",
            stated=tuple(map(self._if_ended, self.stated.values())),
            places=messages.places,
        )

    def _if_ended(self, stated: StatedLine) -> StatedLine:
        """A statement, as a warning in place of a failure where the run went on to its end."""
        if stated.soft and stated.line < self.last_end.get(stated.file, 0):
            return stated._replace(kind="warning")
        return stated


_T = TypeVar("_T")


def _commonest(counts: Counter[_T]) -> _T | None:
    """What was counted most often; None of nothing."""
    for value, _ in counts.most_common(1):
        return value
    return None
