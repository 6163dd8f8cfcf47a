"""Dumps of machines and networks, small, each after a public one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

NVSWITCHES = "".join(
    f'<nvlink target="0000:0{at}:00.0" count="{count}" tclass="0x068000"/>'
    for at, count in enumerate((5, 5, 4, 4))
)
"""18 links of an H200 to four NVSwitches: NVIDIA/nccl, an issue on 8 x H200 with ConnectX-7."""

LinksOf = Callable[[int], str]


def nccl_topo(
    gpus: int,
    links: str | LinksOf,
    *,
    device: str = "0x2335",
    sm: str = "90",
    nics: int | None = None,
    mbps: int = 400_000,
    vendor: str = "GenuineIntel",
    nic_class: str = "0x020000",
    root: str = '<system version="1">',
) -> str:
    """NCCL_TOPO_DUMP_FILE of a node on two sockets, a PCIe switch for each GPU and NIC."""
    lines = [root]
    for socket in range(2):
        lines.append(
            f'<cpu numaid="{socket}" arch="x86_64" vendor="{vendor}" familyid="6" modelid="207">'
        )
        for gpu in range(socket * gpus // 2, (socket + 1) * gpus // 2):
            own = links if isinstance(links, str) else links(gpu)
            lines += [
                (
                    f'<pci busid="0000:{gpu}0:00.0" class="0x060400" vendor="0x1000"'
                    ' link_speed="32.0 GT/s PCIe" link_width="16">'
                ),
                (
                    f'<pci busid="0000:{gpu}8:00.0" class="0x030200" vendor="0x10de"'
                    f' device="{device}" link_speed="32.0 GT/s PCIe" link_width="16"><gpu'
                    f' dev="{gpu}" sm="{sm}" rank="{gpu}" gdr="1">{own}</gpu></pci>'
                ),
            ]
            if gpu < (gpus if nics is None else nics):
                lines.append(
                    f'<pci busid="0000:{gpu}9:00.0" class="{nic_class}" vendor="0x15b3"'
                    f' device="0x1021"><nic><net name="mlx5_{gpu}" dev="{gpu}" speed="{mbps}"'
                    f' port="1" guid="0xa{gpu}" gdr="1"/></nic></pci>'
                )
            lines.append("</pci>")
        lines.append("</cpu>")
    return "\n".join([*lines, "</system>", ""])


def rccl_topo(gpus: int = 8) -> str:
    """NCCL_TOPO_DUMP_FILE of MI300X: ROCm/rccl, tools/topo_expl/models/topo_8p_942vm.xml."""
    lines = [
        '<system version="2">',
        '<cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">',
    ]
    for gpu in range(gpus):
        links = "".join(
            f'<xgmi target="00{other + 1}1:00:00.0" count="1" tclass="0x120000"/>'
            for other in range(gpus)
            if other != gpu
        )
        lines += [
            (
                f'<pci busid="00{gpu + 1}1:00:00.0" class="0x120000" vendor="0x1002"'
                f' device="0x74b5" link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="{gpu}"'
                f' sm="304" gcn="gfx942" arch="38911" rank="{gpu}" gdr="1">{links}</gpu></pci>'
            ),
            (
                f'<pci busid="00{gpu + 1}0:00:00.0" class="0x020700" vendor="0x15b3"'
                f' device="0x101e"><nic><net name="mlx5_{gpu}" dev="{gpu}" speed="400000" port="1"'
                ' latency="0.000000" guid="0xd9" gdr="1"/></nic></pci>'
            ),
        ]
    return "\n".join([*lines, "</cpu>", "</system>", ""])


NDV4_TOPO = """\
<system version="1">
  <cpu numaid="0" affinity="00000000,00000000,00ffffff" arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49">
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">
      <pci busid="0003:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
      <pci busid="0103:00:00.0" class="0x020700" link_speed="16 GT/s" link_width="16"/>
      <pci busid="0004:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
      <pci busid="0104:00:00.0" class="0x020700" link_speed="16 GT/s" link_width="16"/>
    </pci>
  </cpu>
</system>
"""
"""For NCCL_TOPO_FILE, without links: a quarter of Azure/azhpc-images, topology/ndv4-topo.xml."""

DGX_1V = """\
GPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tmlx5_0\tmlx5_1\tmlx5_2\tmlx5_3\tCPU Affinity
GPU0\t X \tNV1\tNV1\tNV2\tNV2\tSYS\tSYS\tSYS\tPIX\tPHB\tSYS\tSYS\t0-19,40-59
GPU1\tNV1\t X \tNV2\tNV1\tSYS\tNV2\tSYS\tSYS\tPIX\tPHB\tSYS\tSYS\t0-19,40-59
GPU2\tNV1\tNV2\t X \tNV2\tSYS\tSYS\tNV1\tSYS\tPHB\tPIX\tSYS\tSYS\t0-19,40-59
GPU3\tNV2\tNV1\tNV2\t X \tSYS\tSYS\tSYS\tNV1\tPHB\tPIX\tSYS\tSYS\t0-19,40-59
GPU4\tNV2\tSYS\tSYS\tSYS\t X \tNV1\tNV1\tNV2\tSYS\tSYS\tPIX\tPHB\t20-39,60-79
GPU5\tSYS\tNV2\tSYS\tSYS\tNV1\t X \tNV2\tNV1\tSYS\tSYS\tPIX\tPHB\t20-39,60-79
GPU6\tSYS\tSYS\tNV1\tSYS\tNV1\tNV2\t X \tNV2\tSYS\tSYS\tPHB\tPIX\t20-39,60-79
GPU7\tSYS\tSYS\tSYS\tNV1\tNV2\tNV1\tNV2\t X \tSYS\tSYS\tPHB\tPIX\t20-39,60-79
mlx5_0\tPIX\tPIX\tPHB\tPHB\tSYS\tSYS\tSYS\tSYS\t X \tPHB\tSYS\tSYS
mlx5_1\tPHB\tPHB\tPIX\tPIX\tSYS\tSYS\tSYS\tSYS\tPHB\t X \tSYS\tSYS
mlx5_2\tSYS\tSYS\tSYS\tSYS\tPIX\tPIX\tPHB\tPHB\tSYS\tSYS\t X \tPHB
mlx5_3\tSYS\tSYS\tSYS\tSYS\tPHB\tPHB\tPIX\tPIX\tSYS\tSYS\tPHB\t X

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks
"""
"""The hybrid cube-mesh of a DGX-1 with V100, as printed in many public reports."""


def topo_matrix(
    gpus: int,
    word: Callable[[int, int], str],
    nics: Sequence[str] = (),
    near: str = "PIX",
    name: str = "",
) -> str:
    """``nvidia-smi -L; nvidia-smi topo -m``; the NIC of a GPU is ``near`` it, others at NODE."""
    names = [f"GPU{at}" for at in range(gpus)] + [f"NIC{at}" for at in range(len(nics))]
    lines = [f"GPU {at}: {name} (UUID: GPU-0)" for at in range(gpus) if name]
    lines.append(
        "\x1b[4m\t" + "\t".join(names) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m"
    )

    def cell(row: int, column: int) -> str:
        low, high = sorted((row, column))
        if low == high:
            return " X "
        return word(low, high) if high < gpus else near if high - gpus == low else "NODE"

    lines += [
        "\t".join([own, *(cell(row, column) for column in range(len(names)))])
        for row, own in enumerate(names)
    ]
    legend = [f"  NIC{at}: {nic}" for at, nic in enumerate(nics)]
    return "\n".join(
        [*lines, "", "Legend:", "", "  X    = Self", "", "NIC Legend:", "", *legend, ""]
    )


class Subnet:
    """Cables of an InfiniBand subnet, and what ibnetdiscover prints of them.

    Lines as in public ones:
    ``Switch\t41 "S-..."\t\t# "MF0;r-ufm-sw95:MQM8700/U1" enhanced port 0 lid 13 lmc 0``.
    """

    def __init__(self, ports: int = 64, aggregation: bool = True) -> None:
        self.ports, self.aggregation = ports, aggregation
        self.cabled: dict[str, list[tuple[int, str, int, str]]] = {}

    def add(self, one: str, other: str, rate: str = "4xNDR") -> None:
        at, beside = (len(self.cabled.setdefault(name, [])) + 1 for name in (one, other))
        self.cabled[one].append((at, other, beside, rate))
        self.cabled[other].append((beside, one, at, rate))

    def described(self, name: str) -> str:
        return f"MF0;{name}:MQM9700/U1" if name.startswith("sw") else name

    def text(self) -> str:
        lines = ["#", "# Topology file: generated on Mon Jan  1 00:00:00 2024", "#", ""]
        guids = {
            name: f"{'S' if name.startswith('sw') else 'H'}-{at:016x}"
            for at, name in enumerate(self.cabled, start=1)
        }
        for name, cables in self.cabled.items():
            switch = name.startswith("sw")
            lines += ["vendid=0x2c9", "devid=0xd2f2", f"sysimgguid=0x{guids[name][2:]}"]
            ports = self.ports + self.aggregation
            kind = (
                f'Switch\t{ports} "{guids[name]}"\t\t# "{self.described(name)}" enhanced port 0 lid'
                " 1 lmc 0"
            )
            lines.append(kind if switch else f'Ca\t1 "{guids[name]}"\t\t# "{self.described(name)}"')
            for at, other, beside, rate in cables:
                if switch:
                    own = "" if other.startswith("sw") else f"({guids[other][2:]})"
                    lines.append(
                        f'[{at}]\t"{guids[other]}"[{beside}]{own} \t\t# "{self.described(other)}"'
                        f" lid 9 {rate}"
                    )
                else:
                    lines.append(
                        f'[{at}]({guids[name][2:]}) \t"{guids[other]}"[{beside}]\t\t# lid 9 lmc 0 "'
                        f'{self.described(other)}" lid 1 {rate}'
                    )
            if switch and self.aggregation:
                lines.append(
                    f'[{ports}]\t"H-a{guids[name][3:]}"[1](a) \t\t# "Mellanox Technologies'
                    ' Aggregation Node" lid 9 4xNDR'
                )
            lines.append("")
        return "\n".join(lines)


def rails(
    nodes: int,
    per_leaf: int,
    ports: int,
    spines: int,
    up: int = 1,
    rate: str = "4xNDR",
    **other: bool,
) -> Subnet:
    """Leaf and spine, a leaf for each port of ``per_leaf`` nodes, ``up`` cables from a leaf to each
    spine of all rails."""
    net = Subnet(**other)
    for node in range(nodes):
        for port in range(ports):
            net.add(f"node{node:03d} mlx5_{port}", f"sw-leaf{node // per_leaf}-{port}", rate)
    for group in range(-(-nodes // per_leaf)):
        for port in range(ports):
            for spine in range(spines):
                for _ in range(up):
                    net.add(f"sw-leaf{group}-{port}", f"sw-spine{spine}", rate)
    return net
