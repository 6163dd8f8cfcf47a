"""The matrix of ``nvidia-smi topo -m``: which links join two GPUs, and which NICs are near one.

Words of its legend: X itself, NV# as many NVLinks (of two GPUs, or of each to the switches), PIX
and PXB PCIe switches, PHB a host bridge, NODE a NUMA node, SYS between sockets. It has no names of
GPUs: ``nvidia-smi -L`` in the same file tells them.
"""

from __future__ import annotations

import os
import re

from colltool.base.errors import ColltoolError, shown
from colltool.base.files import AnyPath, read_text
from colltool.fabric.by_device import known
from colltool.fabric.dumps.node import Nic, NodeDump, Pair

TOOL = "nvidia-smi topo -m"
MAX_DEVICES = 1024
_FIX = "write one: (nvidia-smi -L; nvidia-smi topo -m) > topo.txt"
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_NAMES = re.compile(r"(?:NVIDIA|Tesla) (?!SMI|UVM)[A-Z][\w .-]{1,40}")
_NEAR = ("PIX", "PXB")
_CELL = re.compile(r"X|NV\d{1,2}|PIX|PXB|PHB|NODE|SYS|N/A")


def read_nvidia_smi(path: AnyPath) -> NodeDump:
    """A node from the matrix.

    Raises:
        ColltoolError: no matrix in the file, one that is cut off or not symmetric, or an unknown
            word in it.
    """
    name, lines = os.fsdecode(path), _ESCAPES.sub("", read_text(path, "topology")).splitlines()
    starts = [number for number, line in enumerate(lines) if line.split()[:1] == ["GPU0"]]
    if not starts or lines[head := starts[0]].split()[1:2] == ["X"]:
        raise ColltoolError(
            "has no matrix of nvidia-smi topo -m: no line of columns that starts with GPU0",
            where=name,
            fix=_FIX,
        )
    columns = re.split(r"\s+(?:CPU|NUMA|GPU NUMA)\b", lines[head])[0].split()
    if len(columns) > MAX_DEVICES:
        raise ColltoolError(
            f"has more than {MAX_DEVICES} devices", where=f"{name}:{head + 1}", fix=_FIX
        )
    cells = _cells(name, lines, head, columns)
    gpus = [at for at, column in enumerate(columns) if re.fullmatch(r"GPU\d+", column)]
    pairs: dict[Pair, int] = {}
    for row in gpus:
        for column in gpus:
            if (links := re.fullmatch(r"NV(\d+)", cells[row][column])) and row < column:
                pairs[gpus.index(row), gpus.index(column)] = int(links[1])
            if cells[row][column] != cells[column][row]:
                what = (
                    f"{columns[row]} and {columns[column]} are joined by {cells[row][column]} and"
                    f" by {cells[column][row]}"
                )
                raise ColltoolError(what, where=name, fix=_FIX)
    others = [at for at in range(len(columns)) if at not in gpus]
    near = [at for at in others if any(cells[gpu][at] in _NEAR for gpu in gpus)] or others
    left = [columns[at] for at in others if at not in near]
    models = [found for line in lines for found in _NAMES.findall(line) if known(found)]
    return NodeDump(
        file=name,
        tool=TOOL,
        accelerators=tuple(columns[at] for at in gpus),
        model=models[0].strip() if models else "",
        pairs=pairs,
        nics=tuple(Nic(columns[at]) for at in near),
        notes=(
            (f"NICs behind no PCIe switch of a GPU are not counted: {', '.join(left)}",)
            if left
            else ()
        ),
    )


def _cells(name: str, lines: list[str], head: int, columns: list[str]) -> list[list[str]]:
    """The matrix row by row, as wide as its columns."""
    found: dict[str, list[str]] = {}
    for number, line in enumerate(lines[head + 1 :], start=head + 2):
        words = line.split()
        if not words or words[0] not in columns:
            break
        row = words[1 : len(columns) + 1]
        unknown = next((word for word in row if not _CELL.fullmatch(word)), None)
        if unknown is not None or len(row) < len(columns):
            what = (
                f"{shown(unknown)} is no link" if unknown else f"the row of {words[0]} is cut off"
            )
            raise ColltoolError(
                f"{what}: {len(columns)} words such as NV18, PIX or SYS follow",
                where=f"{name}:{number}",
                fix=_FIX,
            )
        found[words[0]] = row
    missing = [column for column in columns if column not in found]
    if missing:
        raise ColltoolError(
            f"the matrix is cut off: no row of {missing[0]}", where=f"{name}:{head + 1}", fix=_FIX
        )
    return [found[column] for column in columns]
