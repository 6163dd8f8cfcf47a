"""A cluster's tree in every form of Slurm and topograph: one network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.fabric.dumps.clos import ClosNetwork
from colltool.fabric.dumps.read import import_dumps
from colltool.fabric.dumps.slurm_topology import read_slurm_topology
from colltool.fabric.load import load_fabric


class Cluster(NamedTuple):
    """Leaves of so many nodes, so many leaves under a spine, all spines under a core if several."""

    nodes: int
    leaves: int
    spines: int

    @property
    def hosts(self) -> int:
        return self.nodes * self.leaves * self.spines

    @property
    def groups(self) -> list[int]:
        """Hosts under a switch of each level that joins more than the one below."""
        counts = [self.nodes, self.nodes * self.leaves, self.hosts]
        return list(dict.fromkeys(counts))

    def tree(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """The children of switches, and the nodes of leaves."""
        children: dict[str, list[str]] = {}
        nodes = {}
        number = 0
        for spine in range(self.spines):
            for leaf in range(self.leaves):
                name = f"leaf{spine * self.leaves + leaf}"
                children.setdefault(f"spine{spine}", []).append(name)
                nodes[name] = [f"n{number + at:04d}" for at in range(self.nodes)]
                number += self.nodes
        if self.spines > 1:
            children["core"] = [f"spine{spine}" for spine in range(self.spines)]
        return children, nodes

    def conf(self) -> str:
        children, nodes = self.tree()
        lines = ["# written by a tool", "SwitchName=unused Switches="]
        lines = lines[:1]
        for name, below in children.items():
            lines.append(f"SwitchName={name} Switches={','.join(below)} # a comment")
        for name, hosts in nodes.items():
            number = hosts[0][1:]
            listed = f"n[{number}-{hosts[-1][1:]}]"
            lines.append(f"switchname={name} \\\n  NODES={listed} LinkSpeed=100")
        return "\n".join(lines)

    def yaml(self) -> str:
        children, nodes = self.tree()
        switches: list[dict[str, str]] = []
        for name, below in children.items():
            switches.append({"switch": name, "children": ",".join(below)})
        for name, hosts in nodes.items():
            switches.append({"switch": name, "nodes": ",".join(hosts)})
        flat = {"topology": "flat", "flat": True}
        tree = {"topology": "t", "cluster_default": True, "tree": {"switches": switches}}
        return "---\n" + yaml.safe_dump([flat, tree], sort_keys=False)

    def model(self) -> str:
        children, nodes = self.tree()
        switches: dict[str, object] = {
            name: {"switches": below} for name, below in children.items()
        }
        switches |= {name: {"nodes": hosts} for name, hosts in nodes.items()}
        return yaml.safe_dump({"switches": switches})

    def graph(self) -> str:
        children, nodes = self.tree()
        above = {low: high for high, lows in children.items() for low in lows}
        instances = []
        for leaf, hosts in nodes.items():
            layers = [leaf]
            while layers[-1] in above:
                layers.append(above[layers[-1]])
            instances += [{"id": host, "network_layers": layers} for host in hosts]
        return json.dumps({"instances": instances})

    def config_map(self) -> str:
        data = {"topology.conf": self.conf()}
        return yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "data": data})


def read(folder: Path, text: str) -> ClosNetwork:
    (folder / "topology").write_text(text, encoding="utf-8")
    return read_slurm_topology(str(folder / "topology"))


FORMS = ["conf", "yaml", "model", "graph", "config_map"]


@pytest.mark.parametrize("form", FORMS)
@settings(
    deadline=None,
    max_examples=examples(15),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_every_form_is_the_same_network(form: str, data: st.DataObject, tmp_path: Path) -> None:
    cluster = Cluster(*(data.draw(st.integers(1, 5)) for _ in range(3)))
    net = read(tmp_path, getattr(cluster, form)())
    assert net.hosts == cluster.hosts
    assert [level.group for level in net.levels] == cluster.groups
    assert (net.port_Bps, net.radix) == (None, None)


def test_blocks_are_domains_under_one_network(tmp_path: Path) -> None:
    lines = [f"BlockName=b{at} Nodes=rack{at}n[01-18]" for at in range(4)]
    net = read(tmp_path, "\n".join([*lines, "BlockSizes=18,72"]))
    assert (net.hosts, [level.group for level in net.levels]) == (72, [18, 72])
    blocks = [{"block": f"b{at}", "nodes": f"r{at}n[1-4]"} for at in range(2)]
    text = yaml.safe_dump([{"topology": "b", "block": {"block_sizes": [4], "blocks": blocks}}])
    assert [level.group for level in read(tmp_path, text).levels] == [4, 8]


def test_ranges_of_several_brackets(tmp_path: Path) -> None:
    net = read(tmp_path, "SwitchName=s Nodes=r[1-2]n[01-03,9],login")
    assert net.hosts == 9


def test_the_rate_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "topology").write_text(Cluster(4, 2, 2).conf(), encoding="utf-8")
    dump = ("slurm-topology", str(tmp_path / "topology"))
    with pytest.raises(ColltoolError, match="does not give the rate of a NIC"):
        import_dumps(dump)
    data = yaml.safe_load(import_dumps(dump, nic="200Gbps"))
    assert load_fabric(data).tiers[0].bandwidth == 25e9
    assert "uplinks as fast as all downlinks; the file lists no cables" in data["assumed"]
    named = yaml.safe_load(import_dumps(dump, like="dgx-a100"))
    assert named["assumed"][0] == "ib.bandwidth: the network of dgx-a100; no file gives its rate"


def test_switches_unlike_the_usual_are_said(tmp_path: Path) -> None:
    text = "SwitchName=s Switches=a,b,c\nSwitchName=a Nodes=a[1-4]\nSwitchName=b Nodes=b[1-4]\n"
    net = read(tmp_path, text + "SwitchName=c Nodes=c[1-2]")
    assert [level.group for level in net.levels] == [4, 12]
    assert net.notes == ("1 of 3 switches of level 1 have not 4 hosts",)


@swept(
    ("text", "what"),
    [
        ("SwitchName=a", "has no nodes"),
        ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2", "2 switches have none above"),
        ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2", "'a' is listed twice"),
        (
            "SwitchName=a Nodes=n1\nSwitchName=b Switches=a\nSwitchName=c Switches=a",
            "'a' is under two switches: b and c",
        ),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a Nodes=n", "switches in a circle"),
        ("SwitchName=a Nodes=n[1-999999999]", "lists more than 100000 nodes"),
        ("SwitchName=a Nodes=n[1-9999]m[1-9999]", "lists more than 100000 nodes"),
        ("SwitchName=a Nodes=n[1-]", "'1-' is no range"),
        ("- topology: t\n  flat: true", "has no topology with tree or block"),
        ("- topology: t\n  tree: 5", "expected a list switches in tree"),
        ("- topology: t\n  tree: {switches: [5]}", "expected a mapping with switch"),
        ("switches: {a: 5}", "expected a mapping as a"),
        ("switches: {a: {nodes: [{}]}}", "expected names as nodes"),
        ("instances: [5]", "expected an instance"),
        ("instances: [{id: a, network_layers: []}]", "expected 1 to 8 network_layers"),
        ("instances: [{id: a, network_layers: [a, b, a]}]", "switches in a circle"),
        ("kind: ConfigMap\ndata: {other: x}", "is a ConfigMap without"),
        ("a: 1", "has no switches or blocks"),
    ],
)
def test_hostile_text(text: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(ColltoolError) as caught:
        read(tmp_path, text)
    assert what in caught.value.what
