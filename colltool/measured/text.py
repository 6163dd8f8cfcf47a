"""Files as text: read, decoded, and freed of what terminals, launchers and NCCL's own messages put between the numbers."""

from __future__ import annotations

import re

from colltool.errors import ColltoolError

MAX_BYTES = 64 * 2**20
_SMALLER = "keep the tables and the lines above them: grep away NCCL INFO"
_MAX_LINE = 4096  # no benchmark prints longer lines; it keeps the patterns below cheap on hostile input

_BOMS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))  # PowerShell writes UTF-16
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07)")
_MPIRUN_TAG = re.compile(r"\[[^\[\]\s]*\d,\d+\]<std\w+>:?")
_NCCL_MESSAGE = re.compile(r"(?:\[[^\[\]]{1,40}\]\s*)?[A-Za-z][\w.-]*:\d+:\d+ \[-?\d+\].*NCCL.*|NCCL version .*")
_LABEL = re.compile(r"\s*[\w.-]{1,80}:\s+(?=[#\d.]|N/A)")  # "0: " of srun -l, "node03: " of pdsh


def read_text(path: str) -> str:
    """The text of a file, lines ending in ``\\n``.

    Raises:
        ColltoolError: missing, unreadable, a folder, too large, binary, empty.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ColltoolError(f"cannot be read: {reason}", where=path, fix="give the path of a benchmark's log") from error
    if len(data) > MAX_BYTES:
        raise ColltoolError(f"larger than {MAX_BYTES // 2**20} MiB", where=path, fix=_SMALLER)
    encoding = next((name for bom, name in _BOMS if data.startswith(bom)), "utf-8")
    if (encoding != "utf-16" and b"\0" in data) or data.startswith(b"\x1f\x8b"):
        raise ColltoolError("is binary, not text", where=path, fix="give the text that the benchmark printed, unpacked")
    text = data.decode(encoding, errors="replace").replace("\r\n", "\n")
    if not text.strip():
        raise ColltoolError("is empty", where=path, fix="give the output of a benchmark")
    return text


def clean(line: str) -> str:
    """A line without colours, mpirun's tags and NCCL's messages, wherever in the line they stand."""
    line = line[:_MAX_LINE]
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    if "<std" in line:
        line = _MPIRUN_TAG.sub(" ", line)
    if "NCCL" in line:
        line = _NCCL_MESSAGE.sub("", line)
    if label := _LABEL.match(line):
        line = line[label.end() :]
    return line
