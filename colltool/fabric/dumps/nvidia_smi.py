"""The matrix of ``nvidia-smi topo -m``: which links join two GPUs, and which NICs are near one.

Words of its legend: X the device itself, NV# the number of NVLinks (between two GPUs, or from each
to the switches), PIX and PXB PCIe switches, PHB a host bridge, NODE a NUMA node, SYS (SOC in old
drivers) between sockets. Columns are GPUs, then NICs, by number (NIC0, named in a legend below) or
in old drivers by name (mlx5_0), then each GPU's CPUs, its NUMA node and, where its own memory is one,
that of the GPU: on Grace.

The matrix does not name the GPUs: ``nvidia-smi``, ``nvidia-smi -L``, ``-q`` or a query in the same
file does. It never states the rate of a NIC.
"""

from __future__ import annotations

import os
import re
from itertools import combinations
from typing import NamedTuple

from colltool.base.errors import ColltoolError, quote
from colltool.base.files import AnyPath, read_text
from colltool.fabric.bundled_for import bundled_for
from colltool.fabric.dumps.nics import Nic, NicDistance, PlacedNic, is_interface, serving
from colltool.fabric.dumps.node import NodeDump, Pair

TOOL = "nvidia-smi topo -m"
MAX_DEVICES = 1024  # a dump of more is of no node
_FIX = "write one: (nvidia-smi -L; nvidia-smi topo -m) > topo.txt"
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
# two spaces end a name in the table of nvidia-smi: what follows is another column
_NAMES = re.compile(r"(?:NVIDIA|Tesla|Quadro|GeForce) (?!SMI|UVM)[A-Z](?: ?[\w.-]+){1,8}")
# The words of the matrix.
_LINK_WORD = re.compile(r"X|NV\d{1,2}|PIX|PXB|PHB|NODE|SYS|SOC|N/A")
_DISTANCES = {
    "PIX": NicDistance.SWITCH,
    "PXB": NicDistance.SWITCH,
    "PHB": NicDistance.CPU,
    "NODE": NicDistance.CPU,
}
# the head of a column: GPU0, NIC3, mlx5_0, roceP2p1s0
_DEVICE = re.compile(r"GPU\d+|NIC\d+|[a-z][\w.-]*_\w+|(?:roce|ib|rdma)\w+")
# heads whose tabs are lost: GPU0GPU1mlx5_0mlx5_1CPU Affinity
_GLUED = re.compile(r"(?:GPU|NIC)\d+?(?=GPU|NIC|CPU|mlx|\W|$)|mlx\d_\w+?(?=mlx|CPU|\W|$)")
# "  NIC0: mlx5_0"
_LEGEND = re.compile(r"\s*(NIC\d+):\s+(\S+)\s*$")
# Cores of Grace: the CPUs of each GPU are 0-71 or 72-143.
_GRACE_CORES = 72


class _Matrix(NamedTuple):
    """The matrix, with GPUs and NICs by the names of their columns."""

    head: str  # the line with the names of the columns
    gpus: list[str]
    nics: list[str]
    rows: dict[str, dict[str, str]]  # the words of each row by column
    tails: dict[str, list[str]]  # the words that follow them in each row


def read_nvidia_smi(path: AnyPath) -> NodeDump:
    """Return a node from the matrix.

    Raises:
        ColltoolError: no matrix in the file, one that is cut off or not symmetric, or an unknown
            word in it.
    """
    name = os.fsdecode(path)
    # terminals underline the head of the matrix
    lines = _ESCAPES.sub("", read_text(path, "topology")).splitlines()
    matrix = _matrix(name, lines)
    pairs = _pairs(name, matrix.gpus, matrix.rows)
    model = _model(lines)
    grace = _is_grace(matrix)
    served = serving(_nics(matrix, _legend(lines)), linked=bool(pairs))
    return NodeDump(
        file=name,
        tool=TOOL,
        accelerators=tuple(matrix.gpus),
        model=model,
        pairs=pairs,
        has_slots=not grace,
        nics=served.nics,
        cpu="arm" if grace else "",
        fits=_fitting(len(matrix.gpus), max(pairs.values(), default=0), grace=grace),
        notes=served.notes,
    )


def _matrix(name: str, lines: list[str]) -> _Matrix:
    """The table of links, by row and column, and what stands behind its rows."""
    head = _head(name, lines)
    columns = _columns(lines[head])
    if len(columns) > MAX_DEVICES:
        raise ColltoolError(
            f"has more than {MAX_DEVICES} devices", where=f"{name}:{head + 1}", fix=_FIX
        )
    rows: dict[str, dict[str, str]] = {}
    tails: dict[str, list[str]] = {}
    for number, line in enumerate(lines[head + 1 :], start=head + 2):
        words = line.split()
        # the head may be broken over lines
        if not words and not rows:
            continue
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
        tails[words[0]] = words[len(columns) + 1 :]
    missing = next((column for column in columns if column not in rows), None)
    if missing is not None:
        raise ColltoolError(
            f"the matrix is cut off: no row of {missing}", where=f"{name}:{head + 1}", fix=_FIX
        )
    gpus = [column for column in columns if re.fullmatch(r"GPU\d+", column)]
    nics = [column for column in columns if column not in gpus]
    return _Matrix(lines[head], gpus, nics, rows, tails)


def _head(name: str, lines: list[str]) -> int:
    """The index of the line with the names of the columns."""
    for number, line in enumerate(lines):
        words = line.split()
        if words[:1] and words[0].startswith("GPU0"):
            # a first row without columns above it
            if words[1:2] == ["X"]:
                break
            return number
    raise ColltoolError(
        "has no matrix of nvidia-smi topo -m: no line of columns that starts with GPU0",
        where=name,
        fix=_FIX,
    )


def _columns(head: str) -> list[str]:
    """The names of the columns, of a head whose tabs may be lost."""
    devices = re.split(r"\s*(?:CPU|NUMA|GPU NUMA)\b", head)[0].split()
    if all(_DEVICE.fullmatch(device) for device in devices):
        return devices
    return _GLUED.findall(head) or devices


def _model(lines: list[str]) -> str:
    """The first name of a GPU in the file of which a bundled fabric is known; empty if there is none."""
    for line in lines:
        for name in _NAMES.findall(line):
            # the next column of nvidia-smi's table is the persistence mode
            model = str(name).removesuffix(" On").removesuffix(" Off")
            if bundled_for(model):
                return model
    return ""


def _is_grace(matrix: _Matrix) -> bool:
    """Whether the CPUs are Grace: a GPU's memory is a NUMA node, and it is near 72 cores."""
    tail = matrix.tails[matrix.gpus[0]]
    if "GPU NUMA ID" in matrix.head and tail and tail[-1].isdigit():
        return True
    cores = re.match(r"(\d{1,5})-(\d{1,5})$", tail[0]) if tail else None
    if cores is None:
        return False
    first = int(cores[1])
    last = int(cores[2])
    return first % _GRACE_CORES == 0 and last - first + 1 == _GRACE_CORES


def _legend(lines: list[str]) -> dict[str, str]:
    """The names of NICs by number."""
    names = {}
    for line in lines:
        entry = _LEGEND.match(line)
        if entry is not None:
            names[entry[1]] = entry[2]
    return names


def _nics(matrix: _Matrix, names: dict[str, str]) -> list[PlacedNic]:
    """The NICs with their distance to each GPU; ``names``: those of the legend, by column. A port on a card
    of several, far from all GPUs, has a model that names BlueField, by which ``serving`` leaves it out
    where others serve."""
    placed = []
    for column in matrix.nics:
        name = names.get(column, column)
        words = [matrix.rows[gpu][column] for gpu in matrix.gpus]
        distances = tuple(_DISTANCES.get(word, NicDistance.FAR) for word in words)
        nic = Nic(name, medium="socket" if is_interface(name) else "")
        others = [matrix.rows[column][other] for other in matrix.nics if other != column]
        # At Grace no NIC is near a GPU, and cards of two ports (PIX to each other) are for storage.
        if "PIX" in others and min(distances) == NicDistance.FAR:
            nic = nic._replace(model="two ports of a BlueField or a like card")
        placed.append(PlacedNic(nic, distances))
    return placed


def _fitting(gpus: int, links: int, *, grace: bool) -> tuple[str, ...]:
    """The bundled fabrics of machines with so many GPUs and ``links``: NVLinks of each GPU to the switches,
    or between two. They are the hints where the model of the GPUs is unknown."""
    if grace and links == 18:
        return ("nvl72", "gb300-nvl72")
    if grace:
        return ("gh200",)
    by_links = {
        18: ("dgx-h100", "hgx-h200", "dgx-b200"),
        12: ("dgx-a100",),
        8: ("hgx-h800", "hgx-a800"),
    }
    if links in by_links:
        return by_links[links]
    if links in (1, 2) and gpus == 8:
        return ("dgx-1v",)
    if links:
        return ("juwels-booster", "gh200")
    return ("l40s-pcie", "a100-pcie")


def _pairs(name: str, gpus: list[str], rows: dict[str, dict[str, str]]) -> dict[Pair, int]:
    """NVLinks between two GPUs, by their positions; an error if the matrix is not symmetric."""
    pairs: dict[Pair, int] = {}
    for (low, gpu), (high, higher_gpu) in combinations(enumerate(gpus), 2):
        link = rows[gpu][higher_gpu]
        back = rows[higher_gpu][gpu]
        if link != back:
            what = f"{gpu} and {higher_gpu} are joined by {link} and by {back}"
            raise ColltoolError(what, where=name, fix=_FIX)
        if link.startswith("NV"):
            pairs[low, high] = int(link[2:])
    return pairs
