"""The matrix of ``nvidia-smi topo -m``: which links join two GPUs, and which NICs are near one.

Words of its legend: X the device itself, NV# the number of NVLinks (between two GPUs, or from each
to the switches), PIX and PXB PCIe switches, PHB a host bridge, NODE a NUMA node, SYS between
sockets. The matrix does not name the GPUs: ``nvidia-smi -L`` in the same file does.
"""

from __future__ import annotations

import os
import re
from itertools import combinations

from colltool.base.errors import ColltoolError, quote
from colltool.base.files import AnyPath, read_text
from colltool.fabric.bundled_for import bundled_for
from colltool.fabric.dumps.node import Nic, NodeDump, Pair

TOOL = "nvidia-smi topo -m"
MAX_DEVICES = 1024
_FIX = "write one: (nvidia-smi -L; nvidia-smi topo -m) > topo.txt"
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_NAMES = re.compile(r"(?:NVIDIA|Tesla) (?!SMI|UVM)[A-Z][\w .-]{1,40}")
# A NIC behind a PCIe switch of a GPU; farther ones are for storage or management.
_NEAR = {"PIX", "PXB"}
# The words of the matrix.
_LINK_WORD = re.compile(r"X|NV\d{1,2}|PIX|PXB|PHB|NODE|SYS|N/A")


def read_nvidia_smi(path: AnyPath) -> NodeDump:
    """Return a node from the matrix.

    Raises:
        ColltoolError: no matrix in the file, one that is cut off or not symmetric, or an unknown
            word in it.
    """
    name = os.fsdecode(path)
    # terminals underline the head of the matrix
    lines = _ESCAPES.sub("", read_text(path, "topology")).splitlines()
    head = _head(name, lines)
    columns = re.split(r"\s+(?:CPU|NUMA|GPU NUMA)\b", lines[head])[0].split()
    if len(columns) > MAX_DEVICES:
        raise ColltoolError(
            f"has more than {MAX_DEVICES} devices", where=f"{name}:{head + 1}", fix=_FIX
        )
    rows = _rows(name, lines, head, columns)
    gpus = [column for column in columns if re.fullmatch(r"GPU\d+", column)]
    near = []
    far = []
    for nic in columns:
        if nic not in gpus:
            if _NEAR.isdisjoint(rows[gpu][nic] for gpu in gpus):
                far.append(nic)
            else:
                near.append(nic)
    notes = []
    if near and far:
        notes.append(f"NICs behind no PCIe switch of a GPU are not counted: {', '.join(far)}")
    return NodeDump(
        file=name,
        tool=TOOL,
        accelerators=tuple(gpus),
        model=_model(lines),
        pairs=_pairs(name, gpus, rows),
        nics=tuple(map(Nic, near or far)),
        notes=tuple(notes),
    )


def _head(name: str, lines: list[str]) -> int:
    """The index of the line with the names of the columns."""
    for number, line in enumerate(lines):
        words = line.split()
        if words[:1] == ["GPU0"]:
            # a first row without columns above it
            if words[1:2] == ["X"]:
                break
            return number
    raise ColltoolError(
        "has no matrix of nvidia-smi topo -m: no line of columns that starts with GPU0",
        where=name,
        fix=_FIX,
    )


def _model(lines: list[str]) -> str:
    for line in lines:
        for model in _NAMES.findall(line):
            if bundled_for(model):
                return str(model).strip()
    return ""


def _pairs(name: str, gpus: list[str], rows: dict[str, dict[str, str]]) -> dict[Pair, int]:
    """NVLinks between two GPUs, by their positions."""
    pairs: dict[Pair, int] = {}
    for (low, first), (high, second) in combinations(enumerate(gpus), 2):
        link = rows[first][second]
        back = rows[second][first]
        if link != back:
            what = f"{first} and {second} are joined by {link} and by {back}"
            raise ColltoolError(what, where=name, fix=_FIX)
        if link.startswith("NV"):
            pairs[low, high] = int(link[2:])
    return pairs


def _rows(name: str, lines: list[str], head: int, columns: list[str]) -> dict[str, dict[str, str]]:
    """The cells of the matrix by device of the row, then of the column."""
    rows: dict[str, dict[str, str]] = {}
    for number, line in enumerate(lines[head + 1 :], start=head + 2):
        words = line.split()
        if not words or words[0] not in columns:
            break
        cells = words[1 : len(columns) + 1]
        unknown = next((cell for cell in cells if not _LINK_WORD.fullmatch(cell)), None)
        if unknown is not None or len(cells) < len(columns):
            what = f"the row of {words[0]} is cut off"
            if unknown is not None:
                what = f"{quote(unknown)} is no link"
            raise ColltoolError(
                f"{what}: {len(columns)} words such as NV18, PIX or SYS follow",
                where=f"{name}:{number}",
                fix=_FIX,
            )
        rows[words[0]] = dict(zip(columns, cells, strict=True))
    missing = next((column for column in columns if column not in rows), None)
    if missing is not None:
        raise ColltoolError(
            f"the matrix is cut off: no row of {missing}", where=f"{name}:{head + 1}", fix=_FIX
        )
    return rows
