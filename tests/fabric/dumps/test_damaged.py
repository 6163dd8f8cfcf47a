"""Dumps of every kind, cut and mixed: each is an error with a place and a fix, or a fabric."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from dumps import DGX_1V, NDV4_TOPO, NVSWITCHES, nccl_topo, rails, rccl_topo, topo_matrix
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from colltool.base.errors import ColltoolError
from colltool.fabric.dumps.read import import_dumps

pytestmark = pytest.mark.usefixtures("whole_nodes_alone")

SLURM = "SwitchName=s Switches=a,b\nSwitchName=a Nodes=n[01-04]\nSwitchName=b Nodes=n[05-08]\n"
SLURM_YAML = (
    "- topology: t\n  tree:\n    switches:\n    - {switch: s, children: 'a,b'}\n"
    "    - {switch: a, nodes: 'n[1-2]'}\n    - {switch: b, nodes: 'n[3-4]'}\n"
)
HWLOC = (
    '<topology version="2.0"><object type="Machine"><object type="Bridge" bridge_type="0-1">'
    '<object type="PCIDev" pci_busid="0000:01:00.0" pci_type="0302 [10de:26b9] [10de:1] a1"'
    ' pci_link_speed="31.507692"/><object type="PCIDev" pci_busid="0000:02:00.0"'
    ' pci_type="0207 [15b3:101b] [15b3:6] 00" pci_link_speed="15.753846"/></object></object>'
    "</topology>"
)
DUMPS = [
    ("nccl-topo", nccl_topo(4, NVSWITCHES)),
    ("nccl-topo", rccl_topo(4)),
    ("nccl-topo", NDV4_TOPO),
    ("nvidia-smi-topo", topo_matrix(4, lambda *_: "NV18", ["mlx5_0"], name="NVIDIA H100")),
    ("nvidia-smi-topo", DGX_1V),
    ("lstopo", HWLOC),
    ("slurm-topology", SLURM),
    ("slurm-topology", SLURM_YAML),
    ("ibnetdiscover", rails(nodes=4, per_leaf=2, ports=2, spines=1).text()),
]
PUT = [
    "",
    "0",
    "-1",
    "9" * 25,
    '"',
    "<",
    ">",
    "[",
    "]",
    "{",
    ":",
    ",",
    "=",
    "\n",
    "\t",
    "NV99",
    "é",
]


@pytest.mark.parametrize(("kind", "text"), DUMPS)
@settings(
    deadline=None,
    max_examples=examples(30),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_damaged_dump_is_an_error_or_a_fabric(
    kind: str, text: str, data: st.DataObject, tmp_path: Path
) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 40))
        text = text[:at] + data.draw(st.sampled_from(PUT)) + text[at + length :]
    if data.draw(st.booleans()):
        lines = text.splitlines()
        first = data.draw(st.integers(0, len(lines)))
        text = "\n".join([*lines[first:], *lines[:first]])
    (tmp_path / "dump").write_text(text, encoding="utf-8")
    like = data.draw(st.sampled_from([None, "dgx-a100", "l40s-pcie", "mi300x", "frontier"]))
    nic = data.draw(st.sampled_from([None, "100G"]))
    # any other exception fails the test
    with suppress(ColltoolError):
        import_dumps([kind, str(tmp_path / "dump")], like=like, nic=nic)
