"""Node dumps as fabrics: of known machines the bundled ones, of others what their links make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from dumps import DGX_1V, NDV4_TOPO, NVSWITCHES, nccl_topo, rccl_topo, topo_matrix

import colltool
from colltool.base.errors import ColltoolError
from colltool.fabric.dumps.read import import_dumps
from colltool.fabric.lint import check_fabric
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of

pytestmark = pytest.mark.usefixtures("datasheet", "whole_nodes_alone")

Imported = Callable[..., Fabric]


@pytest.fixture
def take(tmp_path: Path) -> Imported:
    """The fabric that text of a kind makes, through the file."""

    def taken(kind: str, text: str, **options: Any) -> Fabric:
        (tmp_path / "dump").write_text(text, encoding="utf-8")
        (tmp_path / "made.yaml").write_text(
            import_dumps([kind, str(tmp_path / "dump")], name="made", **options), encoding="utf-8"
        )
        return check_fabric(str(tmp_path / "made.yaml")).fabric

    return taken


A100 = '<nvlink target="a" count="12" tclass="0x068000"/>'


def refused(take: Imported, kind: str, text: str, **options: Any) -> ColltoolError:
    with pytest.raises(ColltoolError) as caught:
        take(kind, text, **options)
    return caught.value


def seconds(fabric: Any, **options: Any) -> float:
    return float(colltool.price(fabric, "ar", size="64MB", **options).results[0].total_s)


@pytest.mark.alike(4)
@pytest.mark.parametrize(
    ("text", "shipped", "changes"),
    [
        (nccl_topo(8, NVSWITCHES), "hgx-h200", ["roce.size=4"]),
        (
            nccl_topo(8, NVSWITCHES, device="0x2330", nic_class="0x020700"),
            "dgx-h100",
            ["ib.size=4"],
        ),
        (
            nccl_topo(8, NVSWITCHES, device="0x2330", vendor="AuthenticAMD"),
            "dgx-h100",
            ["ib.size=4", "library.cpu=amd"],
        ),
        (
            nccl_topo(8, NVSWITCHES, device="0x2330", nics=4),
            "dgx-h100",
            ["ib.size=4", "ib.bandwidth=25GB/s"],
        ),
        (nccl_topo(4, NVSWITCHES, device="0x2330"), "dgx-h100", ["ib.size=4", "nvlink.size=4"]),
        (nccl_topo(8, NVSWITCHES, device="0x2901", sm="100"), "dgx-b200", ["ib.size=4"]),
        (
            nccl_topo(8, A100, device="0x20b2", sm="80", mbps=200_000, vendor="AuthenticAMD"),
            "dgx-a100",
            ["ib.size=4"],
        ),
        (rccl_topo(), "mi300x-cluster", ["roce.size=4"]),
    ],
)
def test_a_known_machine_is_the_bundled_fabric(
    text: str, shipped: str, changes: list[str], take: Imported
) -> None:
    made = take("nccl-topo", text, nodes=4)
    own = colltool.load_fabric(shipped, changes)
    assert made.ranks == own.ranks
    assert seconds(made) == pytest.approx(seconds(own), rel=1e-9)
    assert made.device == own.device


def test_what_was_told_has_its_source_and_the_rest_is_marked(tmp_path: Path) -> None:
    (tmp_path / "node.xml").write_text(nccl_topo(8, NVSWITCHES), encoding="utf-8")
    text = import_dumps(["nccl-topo", str(tmp_path / "node.xml")])
    data = yaml.safe_load(text)
    assert data["like"] == "hgx-h200"
    assert data["set"]["nvlink.source.bandwidth"].startswith("18 NVLinks a GPU: ")
    assert "alpha and eta above all, is that of hgx-h200" in text
    assert not any("alpha" in key for key in data["set"])


def test_a_gpu_with_fewer_links_is_named(take: Imported, tmp_path: Path) -> None:
    """NCCL's own report of such a node: one GPU of a GB300 tray without an nvlink element."""
    take("nccl-topo", nccl_topo(8, lambda gpu: NVSWITCHES if gpu != 5 else ""))
    assert "# Note: 0000:58:00.0 has 0 of 18 links" in (tmp_path / "made.yaml").read_text(
        encoding="utf-8"
    )


def test_several_trays_of_one_nvlink_domain(take: Imported) -> None:
    """A dump of multi-node NVLink holds the trees of every host, and names its hosts."""
    links = '<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>'
    one = nccl_topo(4, links, device="0x2941", sm="100").replace(
        'arch="x86_64" vendor="GenuineIntel"', 'arch="arm64" host_hash="0x1"'
    )
    body = one.split("\n", 1)[1].replace("</system>\n", "")
    made = take(
        "nccl-topo", '<system version="1">\n' + body + body.replace('"0x1"', '"0x2"') + "</system>"
    )
    own = colltool.load_fabric("nvl72", ["nvlink.size=8", "ib.size=1"])
    assert (made.device, made.tiers[0].endpoints) == ("gb200", 8)
    assert seconds(made) == seconds(own)


def test_pairs_of_bridged_cards(take: Imported) -> None:
    """A bridge of 12 NVLinks over two A100 PCIe: Azure's NCv4 topology; four of them on PCIe."""

    def bridge(gpu: int) -> str:
        return f'<nvlink target="0000:{gpu ^ 1}8:00.0" count="12" tclass="0x030200"/>'

    made = take("nccl-topo", nccl_topo(8, bridge, device="0x20b5", sm="80", nics=1, mbps=100_000))
    inner, middle, outer = made.tiers
    assert [tier.topology for tier in made.tiers] == ["full_mesh", "star", "clos"]
    assert (inner.endpoints, inner.bandwidth) == (2, 300e9)
    # two of a pair share what NCCL counts between the CPUs, 3/4 of its transfers
    assert middle.endpoints == 4
    assert middle.bandwidth == pytest.approx(40e9 / 0.75 / 2)
    assert outer.bandwidth == 100e9 / 8 / 8


def test_cards_on_pcie(take: Imported) -> None:
    made = take("nccl-topo", nccl_topo(8, "", device="0x26b9", sm="89", nics=0))
    own = colltool.load_fabric("l40s-pcie", ["pcie.bandwidth=53.333333GB/s"])
    assert (made.device, seconds(made)) == ("l40s", seconds(own))


@pytest.mark.parametrize("kind", ["nccl-topo", "nvidia-smi-topo"])
def test_the_hybrid_cube_mesh_is_a_graph_of_its_links(kind: str, take: Imported) -> None:
    """DGX-1: six NVLinks of 25 GB/s for each V100, which the matrix and the XML tell alike."""
    rows = [line.split("\t") for line in DGX_1V.splitlines()[1:9]]

    def links(gpu: int) -> str:
        words = [
            (other, word) for other, word in enumerate(rows[gpu][1:9]) if word.startswith("NV")
        ]
        return "".join(
            f'<nvlink target="0000:{other}8:00.0" count="{word[2:]}" tclass="0x030200"/>'
            for other, word in words
        )

    text = (
        DGX_1V
        if kind == "nvidia-smi-topo"
        else nccl_topo(8, links, device="0x1db1", sm="70", nics=0)
    )
    made = take(
        kind,
        "GPU 0: Tesla V100-SXM2-16GB (UUID: GPU-0)\n" + text if kind == "nvidia-smi-topo" else text,
    )
    board = made.tiers[0]
    assert (board.topology, board.endpoints, board.bandwidth) == ("graph", 8, 25e9)
    assert capabilities_of(board).joined_by == "routes"
    data = made.model_dump()["tiers"][0]
    assert (
        sum(edge.get("links", 1) if isinstance(edge, dict) else 1 for edge in data["edges"])
        == 8 * 6 / 2
    )


@pytest.mark.parametrize(
    ("name", "links", "shipped"),
    [
        ("NVIDIA H100 80GB HBM3", "NV18", "dgx-h100"),
        ("NVIDIA H800", "NV8", "hgx-h800"),
        ("NVIDIA B200", "NV18", "dgx-b200"),
        ("NVIDIA A100-SXM4-80GB", "NV12", "dgx-a100"),
    ],
)
def test_a_matrix_of_equal_links_through_switches(
    name: str, links: str, shipped: str, take: Imported
) -> None:
    nics = [f"mlx5_{at}" for at in range(10)]  # two of them near no GPU: storage
    made = take("nvidia-smi-topo", topo_matrix(8, lambda *_: links, nics, name=name), nodes=2)
    own = colltool.load_fabric(shipped)
    own = colltool.load_fabric(shipped, [f"{own.tiers[1].name}.size=2"])
    assert (made.device, seconds(made)) == (own.device, seconds(own))


def test_four_gpus_on_direct_links_are_a_full_mesh(take: Imported) -> None:
    """HGX A100 4-GPU: four NVLinks of each pair."""
    made = take("nvidia-smi-topo", topo_matrix(4, lambda *_: "NV4", name="NVIDIA A100-SXM4-40GB"))
    assert (made.tiers[0].topology, made.tiers[0].bandwidth, made.device) == (
        "full_mesh",
        100e9,
        None,
    )


def test_a_matrix_does_not_tell_which_gpus(take: Imported) -> None:
    text = topo_matrix(8, lambda *_: "NV18")
    error = refused(take, "nvidia-smi-topo", text)
    assert "does not tell which accelerators" in error.what
    assert take("nvidia-smi-topo", text, like="dgx-b200").tiers[0].bandwidth == 900e9
    assert take("nvidia-smi-topo", text, like="dgx-h100").tiers[0].bandwidth == 450e9


def test_a_file_for_nccl_topo_file_tells_no_links(take: Imported) -> None:
    assert "does not say which links" in refused(take, "nccl-topo", NDV4_TOPO).what
    made = take("nccl-topo", NDV4_TOPO, like="dgx-a100", nodes=8)
    assert seconds(made) == seconds(
        colltool.load_fabric("dgx-a100", ["nvlink.size=2", "ib.size=8"])
    )


LAUGHS = '<!DOCTYPE system [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is not the XML of NCCL, or cut off"),
        (nccl_topo(8, NVSWITCHES)[:-10], "cut off: no element found"),
        (f"{LAUGHS}<system>&b;</system>", "has a document type (system)"),
        ('<!DOCTYPE x SYSTEM "file:///etc/passwd"><system/>', "has a document type (x)"),
        ("<topology><object/></topology>", "its root is <topology>"),
        ("<system/>", "has no accelerators"),
        ("<system>" + "<pci>" * 100, "nested deeper than 64"),
        (
            nccl_topo(8, '<nvlink target="a" count="lots" tclass="0x068000"/>'),
            "expected a count of links",
        ),
        (nccl_topo(8, NVSWITCHES, mbps=10**12), "expected a speed in Mb/s"),
        (nccl_topo(8, NVSWITCHES).replace("0x2335", "0x2330", 1), "has different accelerators"),
        ("<system>" + '<gpu sm="90"/>' * 1100 + "</system>", "more than 1024 accelerators"),
    ],
)
def test_hostile_xml(text: str, what: str, take: Imported) -> None:
    error = refused(take, "nccl-topo", text)
    assert what in error.what
    assert error.fix


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "has no matrix"),
        (nccl_topo(2, ""), "has no matrix"),
        ("\n".join(DGX_1V.splitlines()[:5]), "no row of GPU4"),
        (DGX_1V.replace("GPU7\tSYS", "GPU7\tNV9"), "are joined by SYS and by NV9"),
        (DGX_1V.replace("GPU0\t X \tNV1", "GPU0\t X \tFOO"), "'FOO' is no link"),
        (DGX_1V.replace(DGX_1V.splitlines()[1], "GPU0\t X "), "row of GPU0 is cut off"),
    ],
)
def test_hostile_matrices(text: str, what: str, take: Imported) -> None:
    error = refused(take, "nvidia-smi-topo", text)
    assert what in error.what
    assert error.fix
