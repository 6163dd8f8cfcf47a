"""One run of one of the programs of nccl-tests or rccl-tests, as its report tells it: text or JSON."""

from dataclasses import dataclass, field
from typing import NamedTuple

from colltool.measurements.nccl_tests.table import TableRow
from colltool.measurements.timing import Note, place


class Device(NamedTuple):
    """A Rank line: one rank, and the process that drives it."""

    rank: int
    group: str
    pid: str
    host: str
    line: int


@dataclass
class Run:
    """What the report of one run says, line by line.

    Args:
        file: as the user named it.
        started: the program as it announces itself; ``mentions`` are programs that are named before its table.
        devices_cut: whether a Rank line is broken, so that their number says nothing.
        per_process: ranks of a process, nThread x nGpus; 0 where the report does not say.
        table: the line of its name line; 0 while there is none.
        rows, bad: those of its tables, and rows that cannot be read, with the reason.
        time: what the time column is called.
    """

    file: str
    started: str = ""
    mentions: set[str] = field(default_factory=set)
    per_process: int = 0
    devices: list[Device] = field(default_factory=list)
    devices_cut: bool = False
    library: str = ""
    library_version: str = ""
    tests_version: str = ""
    table: int = 0
    time: str = "time"
    closed: bool = False
    rows: list[TableRow] = field(default_factory=list)
    bad: list[Note] = field(default_factory=list)

    @property
    def where(self) -> str:
        """``file:line`` of the table."""
        return f"{self.file}:{self.table}"

    def place(self, row: TableRow) -> str:
        """``file:line`` of a row, and its item."""
        return place(self.file, row.number, row.item)

    def note(self, reason: str, row: TableRow, *, used: bool = False) -> Note:
        """A note on a row."""
        return Note(reason, self.file, row.number, row.item, used)


def spelled(code: int) -> str:
    """NCCL's version code as people write it: 22902 is 2.29.2, and before 2.9 2804 was 2.8.4."""
    major = 10000 if code >= 10000 else 1000
    return f"{code // major}.{code % major // 100}.{code % 100}"
