"""What the channels of a log say beside the topology file of its node: a finding with the damage
that explains them (:func:`compared_with_topology`)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from colltool.base.files import AnyPath
from colltool.base.statements import NOTHING, Statement
from colltool.base.xml_tree import read_xml
from colltool.diagnosis.channel_damages import compared_nodes
from colltool.diagnosis.logged_channels import (
    GRAPH_NAMES,
    NO_OWNERS,
    ComparedNode,
    Explained,
    TopologyCompared,
)
from colltool.diagnosis.results import Cause, DiagnosisFinding
from colltool.diagnosis.sentences import statement
from colltool.diagnosis.stated_findings import finding_of
from colltool.libraries.nccl.topology.damages import Damage, without_nics
from colltool.libraries.nccl.topology.domains import domains_of
from colltool.libraries.nccl.topology.paths import paths_of
from colltool.libraries.nccl.topology.system import System
from colltool.libraries.nccl.topology.system_reader import FORMAT, system_of
from colltool.libraries.nccl.topology.versions import RELEASE, version_of
from colltool.logs.nccl_debug import DebugLines
from colltool.logs.nccl_graph_lines import GraphLines, graph_lines

# the oldest release whose search is known rule by rule
_OLDEST = (2, 26)
_MOST_NAMED = 4
# what each kind of damage is of
_WHAT = {
    "nic": ("nic-missing", "nics-few", "gdr-nic", "nic-slot", "port", "nic-far", "nic-apart"),
    "gpu": ("gdr-gpu", "nvlinks", "nvlink-pair", "gpu-slot"),
    "switch": ("switch-slot",),
}
# the sentence for the first figure that differs
_LEADS = {
    "channels": "fewer",
    "inside_Bps": "slower",
    "across_Bps": "slower-across",
    "to_nics": "nics",
    "between_gpus": "gpus",
}
LEADS = (*_LEADS.values(), "both", "way", "none")
"""What may differ first."""
PARTS = tuple(_WHAT)
"""What damages are of."""
KINDS = ("gdr", "slots-unknown", "flat", "one-cpu", "setting", *chain.from_iterable(_WHAT.values()))
"""Kinds of damages, each with a sentence and with what to type."""


def compared_with_topology(
    path: AnyPath, logs: Sequence[AnyPath], debug: DebugLines, nodes: int | None
) -> TopologyCompared:
    """Compare what logs state with a topology file; ``nodes``: of the run, None where the logs say.

    Raises:
        ColltoolError: a topology file that is none, and nodes without NICs.
    """
    name = os.fsdecode(path)
    # an unreadable file is said so also where the log has nothing to compare
    system = system_of(read_xml(path, FORMAT), name, version_of(RELEASE))
    lines = graph_lines([os.fsdecode(log) for log in logs])
    count = nodes or _nodes_of(lines, system)
    compared: list[ComparedNode] = []
    notes = []
    if lines.rccl:
        notes.append(statement("rccl-graphs"))
    elif lines.nodes:
        env = {key: value for key, value in debug.env if key != "NCCL_IB_HCA"}
        compared = compared_nodes(path, name, lines, env, count)
        notes += _notes(lines, compared)
    ports = [net.name for net in system.nets]
    if lines.nics and ports and set(ports).isdisjoint(lines.nics):
        listed = lines.nics[:_MOST_NAMED]
        own = ports[:_MOST_NAMED]
        notes.append(statement("other-nics", found=listed, file=name, ports=own))
    return TopologyCompared(
        file=name,
        release=lines.release,
        nodes=count,
        compared=tuple(compared),
        missing=tuple(lines.unlisted(ports)),
        notes=tuple(notes),
    )


def _nodes_of(lines: GraphLines, system: System) -> int:
    """How many nodes ran: as the log says, by its ranks, or two where channels use NICs."""
    nodes = 0
    hosts = set()
    least = 1
    for logged in lines.nodes:
        nodes = max(nodes, logged.nodes)
        hosts.add(logged.host)
        if logged.nets:
            least = 2
    if nodes:
        # NVLink domains and parts of a node count as nodes, too
        per_file = len(domains_of(paths_of(system)))
        return max(nodes // per_file, len(hosts), 1)
    by_ranks = -(-lines.ranks // system.ranks)
    return max(by_ranks, len(hosts), least)


def _notes(lines: GraphLines, compared: Sequence[ComparedNode]) -> Iterator[Statement]:
    parts = map(int, filter(None, lines.release.split(".")))
    release = tuple(parts) or _OLDEST
    if release < _OLDEST:
        yield statement("old-search", release=lines.release)
    if any(node.has_collnet for node in lines.nodes):
        yield statement("collnet-graphs")
    if lines.nodes and not compared:
        yield statement("no-ring")
    for node in compared:
        if node.kept:
            yield statement("some-gpus", count=node.kept)
        orders = [GRAPH_NAMES[graph.graph] for graph in node.graphs if graph.differs == ("order",)]
        if orders and not node.differs:
            yield statement("other-order", graphs=orders)


def topology_findings(compared: TopologyCompared, debug: DebugLines) -> Iterator[DiagnosisFinding]:
    """A finding for each kind of host whose channels differ, and for NICs that nobody uses."""
    env = dict(debug.env)
    for node in compared.compared:
        if node.differs:
            yield finding_of(list(_causes(node, compared, env)))
    if compared.missing and not any(node.differs for node in compared.compared):
        damage = without_nics(compared.missing)
        said = statement("beside-topology", what=_damage_text(damage), file=compared.file)
        yield finding_of([_cause(said, _todo(damage, env))])


def _causes(node: ComparedNode, compared: TopologyCompared, env: dict[str, str]) -> Iterator[Cause]:
    """What differs, and each damage that explains it."""
    lead = _lead(node)
    explained = node.explained or Explained()
    if not explained.damages and compared.missing:
        # the log states this much, whatever else differs
        damage = without_nics(compared.missing)
        said = statement("differs-in-part", lead=lead, cause=_damage_text(damage))
        yield _cause(said, _todo(damage, env))
        return
    if not explained.damages:
        said = statement(
            "differs-unexplained", lead=lead, tried=explained.tried, file=compared.file
        )
        yield _cause(said, str(statement("do-unexplained")))
        return
    for place, alike in enumerate(_alike(explained.damages)):
        said = _damage_text(alike[0], [damage.names for damage in alike], node.owners)
        if place == 0:
            said = statement("differs", lead=lead, cause=said)
        yield _cause(said, _todo(alike[0], env))


def _cause(said: Statement, todo: str) -> Cause:
    return Cause("topology", said, todo, error=None, error_all=None)


def _alike(damages: Sequence[Damage]) -> list[list[Damage]]:
    """Damages that are the same but for the part; of a part at several rates only the first."""
    groups: dict[tuple[object, ...], list[Damage]] = {}
    known = set()
    for damage in damages:
        part = (damage.kind, damage.names, damage.all)
        if part not in known:
            known.add(part)
            groups.setdefault((damage.kind, damage.now, damage.all), []).append(damage)
    return list(groups.values())


def _lead(node: ComparedNode) -> Statement:
    """What differs first: of the ring, where that does."""
    graph = next(graph for graph in node.graphs if graph.differs)
    found = graph.found
    allowed = graph.allowed
    fields: dict[str, object] = {
        "graph": GRAPH_NAMES[graph.graph],
        "count": found.channels,
        "on": _on(node.hosts),
    }
    if allowed is None:
        return statement("lead-none", **fields)
    fields |= {
        "allowed": allowed.channels,
        "rate": found.inside_Bps,
        "allowed_rate": allowed.inside_Bps,
        "rates": (found.inside_Bps, allowed.inside_Bps),
        "rates_across": (found.across_Bps, allowed.across_Bps),
        "ends": (found.between_gpus, allowed.between_gpus),
        "nics": (found.to_nics, allowed.to_nics),
    }
    code = "way"
    for field, word in _LEADS.items():
        if field in graph.differs:
            code = word
            break
    if code == "fewer" and ("inside_Bps" in graph.differs or found.channels > allowed.channels):
        code = "both"
    return statement(f"lead-{code}", **fields)


def _on(hosts: Sequence[str]) -> Statement:
    if not hosts:
        return NOTHING
    return statement("on-hosts", hosts=hosts[:_MOST_NAMED])


def _what(damage: Damage, names: Sequence[Sequence[str]], owners: Mapping[str, int]) -> Statement:
    """The parts that a damage is of: ``GPU 3``, or ``GPU 0 or 1`` where either would do."""
    kind = next(kind for kind, damages in _WHAT.items() if damage.kind in damages)
    if damage.all:
        return statement(f"all-{kind}")
    if len(names) > 1:
        options = [" and ".join(named) for named in names]
        return statement(f"some-{kind}", names=_shortened(options, " or "))
    own = damage.names
    if len(own) > 1:
        return statement(f"several-{kind}", names=_shortened(own, " and "))
    (name,) = own
    if name in owners:
        return statement("owned-nic", gpu=owners[name], name=name)
    return statement(f"some-{kind}", names=name)


def _shortened(names: Sequence[str], last: str) -> str:
    """``0, 1 and 2``, or the first of many and how many more."""
    shown = list(names[:_MOST_NAMED])
    if len(names) > len(shown):
        shown.append(f"{len(names) - len(shown)} more")
    *first, end = shown
    return last.join(filter(None, [", ".join(first), end]))


def _damage_text(
    damage: Damage, names: Sequence[Sequence[str]] = (), owners: Mapping[str, int] = NO_OWNERS
) -> Statement:
    if damage.together:
        return statement(
            "damages",
            parts=tuple(_damage_text(part, (), owners) for part in damage.together[:_MOST_NAMED]),
        )
    fields: dict[str, object] = {}
    if any(damage.kind in kinds for kinds in _WHAT.values()):
        fields["what"] = _what(damage, names, owners)
    if damage.kind == "setting":
        fields["settings"] = damage.names
    elif damage.kind in ("nvlinks", "nvlink-pair"):
        fields |= {"now": damage.now, "was": damage.was}
    elif damage.was:
        fields |= {"now": damage.now * 1e6, "was": damage.was * 1e6}
    return statement(f"damage-{damage.kind}", **fields)


def _todo(damage: Damage, env: dict[str, str]) -> str:
    """What to type next; first the setting of the log that may be the reason."""
    parts = []
    hca = env.get("NCCL_IB_HCA")
    if damage.kind in ("nic-missing", "nics-few") and hca:
        parts.append(str(statement("do-hca", value=hca)))
    parts.append(str(statement(f"do-{damage.kind}")))
    return "; ".join(parts)


def dumped_topology(debug: DebugLines) -> Iterator[Statement]:
    """That the dump which the log's run wrote can be compared with."""
    dumped = dict(debug.env).get("NCCL_TOPO_DUMP_FILE")
    if dumped:
        yield statement("topology-dumped", file=dumped)
