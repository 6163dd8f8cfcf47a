"""``nvidia-smi topo -m`` as drivers and terminals print it, generated; no matrix states the rate of a
NIC."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from dumps import topo_matrix
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.fabric.dumps.nvidia_smi import read_nvidia_smi
from colltool.fabric.dumps.read import import_dumps
from colltool.fabric.load import load_fabric

TABLE = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
|   0  {name:<28} {on:<3} |   00000000:18:00.0 Off |                    0 |
+-----------------------------------------------------------------------------------------+

"""


def written(folder: Path, text: str) -> str:
    path = folder / "topo.txt"
    path.write_text(text, encoding="utf-8")
    return str(path)


def imported(folder: Path, text: str, **options: Any) -> dict[str, Any]:
    made = import_dumps(["nvidia-smi-topo", written(folder, text)], **options)
    data: dict[str, Any] = yaml.safe_load(made)
    data["loaded"] = load_fabric({key: data[key] for key in data})
    return data


@swept(
    ("name", "model"),
    [
        ("NVIDIA A100-SXM-64GB", "NVIDIA A100-SXM-64GB"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
        ("NVIDIA GB200", "NVIDIA GB200"),
        ("Tesla V100-SXM2...", "Tesla V100-SXM2..."),
        ("NVIDIA L40S", "NVIDIA L40S"),
        ("Quadro RTX 8000", "Quadro RTX 8000"),
    ],
)
@swept("on", ["On", "Off"])
def test_a_name_in_the_table_ends_before_persistence(
    name: str, model: str, on: str, tmp_path: Path
) -> None:
    matrix = topo_matrix(2, lambda *_: "SYS")
    node = read_nvidia_smi(written(tmp_path, TABLE.format(name=name, on=on) + matrix))
    assert node.model == model


@swept(
    ("name", "links", "gbps"),
    [
        ("Tesla V100-SXM2-32GB", "NV6", 100),
        ("NVIDIA A100-SXM4-80GB", "NV12", 200),
        ("NVIDIA H100 80GB HBM3", "NV18", 400),
        ("NVIDIA B200", "NV18", 400),
        ("NVIDIA B300 SXM6 AC", "NV18", 800),
    ],
)
def test_the_rate_of_a_nic_is_that_around_such_gpus_and_said(
    name: str, links: str, gbps: int, tmp_path: Path
) -> None:
    nics = [f"mlx5_{at}" for at in range(8)]
    text = topo_matrix(8, lambda *_: links, nics, name=name)
    made = imported(tmp_path, text, nodes=4)
    assert made["loaded"].tiers[-1].bandwidth == gbps * 1e9 / 8
    assert any(f"NICs of {gbps} Gb/s, as usual for {name}" in said for said in made["assumed"])
    stated = imported(tmp_path, text, nodes=4, nic="50Gbps")
    assert stated["loaded"].tiers[-1].bandwidth == 6.25e9
    assert not any("no rate is given" in said for said in stated["assumed"])


@swept(
    ("name", "slot"),
    [("NVIDIA A100-SXM4-80GB", 32e9), ("Tesla V100-SXM2-16GB", 16e9), ("NVIDIA L40S", 32e9)],
)
def test_no_rank_takes_more_than_its_slot(name: str, slot: float, tmp_path: Path) -> None:
    nics = [f"mlx5_{at}" for at in range(8)]
    text = topo_matrix(8, lambda *_: "SYS", nics, name=name)
    made = imported(tmp_path, text, nodes=2, nic="800G")
    assert made["loaded"].tiers[-1].bandwidth == slot


def test_cards_of_many_rates_need_a_rate(tmp_path: Path) -> None:
    text = topo_matrix(4, lambda *_: "SYS", ["mlx5_0"], "NODE", name="NVIDIA L40S")
    with pytest.raises(ColltoolError, match="does not give the rate of its NICs"):
        imported(tmp_path, text, nodes=2)
    assert [tier.name for tier in imported(tmp_path, text)["loaded"].tiers] == ["pcie"]


def grace(cores: tuple[str, str], numa: str) -> str:
    """A tray of four GPUs whose NICs are all far: four, and two cards of two ports."""
    text = topo_matrix(4, lambda *_: "NV18", [f"mlx5_{at}" for at in range(8)], "SYS")
    lines = text.replace("NODE", "SYS").splitlines()
    for at, line in enumerate(lines):
        if line.startswith("GPU") and "\tX" not in line.split("\t")[0]:
            lines[at] = f"{line}\t{cores[at > 2]}\t0,3-9\t{numa}"
    pairs = {"NIC2": 3, "NIC3": 2, "NIC6": 7, "NIC7": 6}
    for at, line in enumerate(lines):
        words = line.split("\t")
        if words[0] in pairs:
            words[5 + pairs[words[0]]] = "PIX"
            lines[at] = "\t".join(words)
    return "\n".join(lines)


@swept(
    ("cores", "numa"), [(("0-71", "72-143"), "2"), (("0-71", "72-143"), ""), (("0-3", "4-7"), "10")]
)
def test_a_grace_host_is_known_by_its_cores_or_its_gpus_memory(
    cores: tuple[str, str], numa: str, tmp_path: Path
) -> None:
    with pytest.raises(ColltoolError) as caught:
        imported(tmp_path, grace(cores, numa))
    assert 'like="nvl72" or like="gb300-nvl72"' in str(caught.value)
    assert "dgx" not in str(caught.value)
    made = imported(tmp_path, grace(cores, numa), like="nvl72", nodes=2)
    # cards of two ports beside single ones are for storage
    assert made["loaded"].tiers[-1].bandwidth == 50e9


@swept(
    ("links", "gpus", "hint"),
    [
        ("NV18", 8, "dgx-h100"),
        ("NV12", 8, "dgx-a100"),
        ("NV8", 8, "hgx-h800"),
        ("NV4", 4, "juwels-booster"),
    ],
)
def test_a_hint_fits_the_links(links: str, gpus: int, hint: str, tmp_path: Path) -> None:
    with pytest.raises(ColltoolError) as caught:
        imported(tmp_path, topo_matrix(gpus, lambda *_: links))
    assert f'like="{hint}"' in str(caught.value)


@settings(
    deadline=None,
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_matrix_as_it_was_copied(data: st.DataObject, tmp_path: Path) -> None:
    """Tabs as spaces or lost in the head, words of old drivers, NICs by name, indented, in colour."""
    gpus = data.draw(st.integers(2, 8))
    nics = [f"mlx5_{at}" for at in range(data.draw(st.integers(0, gpus)))]
    text = topo_matrix(gpus, lambda *_: "NV12", nics, name="NVIDIA A100-SXM4-40GB")
    expected = read_nvidia_smi(written(tmp_path, text))
    if data.draw(st.booleans()):
        text = text.replace("NODE", "SOC")
    if data.draw(st.booleans()):
        body, legend = text.split("\nLegend:")
        for at, nic in reversed(list(enumerate(nics))):
            body = body.replace(f"NIC{at}", nic)
        text = f"{body}\nLegend:{legend}"
    if data.draw(st.booleans()):
        text = text.replace("\t", "    ")
    head = next(line for line in text.splitlines() if "CPU Affinity" in line)
    if data.draw(st.booleans()):
        text = text.replace(head, "".join(head.split("\t")).replace("    ", ""))
    if data.draw(st.booleans()):
        text = "\n".join(f"    {line}" for line in text.splitlines())
    node = read_nvidia_smi(written(tmp_path, text))
    assert (node.accelerators, node.pairs, node.model) == (
        expected.accelerators,
        expected.pairs,
        expected.model,
    )
    assert [nic.name for nic in node.nics] == [nic.name for nic in expected.nics]
