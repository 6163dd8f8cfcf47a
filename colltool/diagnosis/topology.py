"""The channels of a log beside the topology file of its node, for ``doctor --topology``.

:func:`compared_with_topology` reads and compares both; :func:`topology_findings` makes a finding of
each kind of host that differs, with the damage that explains it as the cause. Below it stand the
parts of such a cause's sentences, whose table is ``sentences.toml``.

A :class:`~colltool.libraries.nccl.topology.damages.Damage` has a ``kind``, the ``names`` of the
parts that it is of (or is of ``all`` parts of the kind), and how much there is of what it lowers
without it (``was``) and with it (``now``): links or MB/s. Several that are there at once are
``together`` one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from colltool.base.files import AnyPath
from colltool.base.statements import NOTHING, Statement
from colltool.base.xml_tree import read_xml
from colltool.diagnosis.channel_damages import compared_nodes
from colltool.diagnosis.logged_channels import (
    GRAPH_NAMES,
    NO_OWNERS,
    ComparedNode,
    DamageExplanation,
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
from colltool.logs.debug_record import DebugLines
from colltool.logs.nccl_graph_lines import GraphLines, graph_lines

# the oldest release of NCCL whose search is known rule by rule
_OLDEST = (2, 26)
_MOST_NAMED = 4  # parts, hosts or damages that a sentence names
KINDS_BY_PART = {
    "nic": ("nic-missing", "nics-few", "gdr-nic", "nic-slot", "port", "nic-far", "nic-apart"),
    "gpu": ("gdr-gpu", "nvlinks", "nvlink-pair", "gpu-slot"),
    "switch": ("switch-slot",),
}
"""Kinds of damages by the part that they are of; settings and damages of a whole node have none."""
LEAD_CODES = {
    "channels": "fewer",
    "inside_Bps": "slower",
    "across_Bps": "slower-across",
    "to_nics": "nics",
    "between_gpus": "gpus",
}
"""The sentence (lead-CODE) for the first figure that differs, in this order."""


def compared_with_topology(
    path: AnyPath, logs: Sequence[AnyPath], debug: DebugLines, nodes: int | None
) -> TopologyCompared:
    """Compare what logs state with a topology file.

    Args:
        debug: what other lines of the same logs say.
        nodes: of the run; None or 0 to take what the logs say.

    Raises:
        ColltoolError: ``path`` is no topology file, or has no NIC though the run has several nodes.
    """
    name = os.fsdecode(path)
    # read first, so that an unreadable file is an error also where the log has nothing to compare
    system = system_of(read_xml(path, FORMAT), name, version_of(RELEASE))
    lines = graph_lines([os.fsdecode(log) for log in logs])
    node_count = nodes or _node_count(lines, system)
    compared: list[ComparedNode] = []
    notes = []
    if lines.rccl:
        notes.append(statement("rccl-graphs"))
    elif lines.nodes:
        # which NICs NCCL_IB_HCA leaves, the log's list of NICs says
        env = {variable: value for variable, value in debug.env if variable != "NCCL_IB_HCA"}
        compared = compared_nodes(path, name, lines, env, node_count)
        notes += _notes(lines, compared)
    ports = [net.name for net in system.nets]
    if lines.nics and ports and set(ports).isdisjoint(lines.nics):
        in_log = lines.nics[:_MOST_NAMED]
        in_file = ports[:_MOST_NAMED]
        notes.append(statement("other-nics", found=in_log, file=name, ports=in_file))
    return TopologyCompared(
        file=name,
        release=lines.release,
        nodes=node_count,
        compared=tuple(compared),
        missing=tuple(lines.unlisted(ports)),
        notes=tuple(notes),
    )


def _node_count(lines: GraphLines, system: System) -> int:
    """How many nodes like the file's ran: as NCCL counts them, else by the number of ranks, and then
    at least two where channels use NICs; no fewer than hosts that the log names."""
    nccl_nodes = 0
    hosts = set()
    least = 1
    for logged in lines.nodes:
        nccl_nodes = max(nccl_nodes, logged.nodes)
        hosts.add(logged.host)
        if logged.nets:
            least = 2
    if nccl_nodes:
        # NCCL counts each NVLink domain of a file's node as a node
        domains = len(domains_of(paths_of(system)))
        return max(nccl_nodes // domains, len(hosts), 1)
    by_ranks = -(-lines.ranks // system.ranks)  # rounded up
    return max(by_ranks, len(hosts), least)


def _notes(lines: GraphLines, compared: Sequence[ComparedNode]) -> Iterator[Statement]:
    """What was not compared, or differs without being a finding."""
    # "2.28.9"; empty where no line says
    numbers = map(int, filter(None, lines.release.split(".")))
    release = tuple(numbers) or _OLDEST
    if release < _OLDEST:
        yield statement("old-search", release=lines.release)
    if any(node.has_collnet for node in lines.nodes):
        yield statement("collnet-graphs")
    if lines.nodes and not compared:
        yield statement("no-ring")
    for node in compared:
        if node.gpus_used:
            yield statement("some-gpus", count=node.gpus_used)
        orders = [GRAPH_NAMES[graph.graph] for graph in node.graphs if graph.differs == ("order",)]
        if orders and not node.differs:
            yield statement("other-order", graphs=orders)


def topology_findings(compared: TopologyCompared, debug: DebugLines) -> Iterator[DiagnosisFinding]:
    """A finding for each kind of host whose channels differ; where none does, one for NICs of the
    file that the log does not list."""
    env = dict(debug.env)
    for node in compared.compared:
        if node.differs:
            yield finding_of(list(_causes(node, compared, env)))
    if compared.missing and not any(node.differs for node in compared.compared):
        damage = without_nics(compared.missing)
        text = statement("beside-topology", what=_damage_text(damage), file=compared.file)
        yield finding_of([_cause(text, _todo(damage, env))])


def _causes(node: ComparedNode, compared: TopologyCompared, env: dict[str, str]) -> Iterator[Cause]:
    """A cause for each damage that explains what differs, the first also with what differs; where
    none does, what differs alone."""
    lead = _lead(node)
    explained = node.explained or DamageExplanation()
    if not explained.damages and compared.missing:
        # that these are missing the log states itself, whatever else differs
        damage = without_nics(compared.missing)
        text = statement("differs-in-part", lead=lead, cause=_damage_text(damage))
        yield _cause(text, _todo(damage, env))
        return
    if not explained.damages:
        text = statement(
            "differs-unexplained", lead=lead, tried=explained.tried, file=compared.file
        )
        yield _cause(text, str(statement("do-unexplained")))
        return
    for index, alike in enumerate(_alike(explained.damages)):
        text = _damage_text(alike[0], [damage.names for damage in alike], node.owners)
        if index == 0:
            text = statement("differs", lead=lead, cause=text)
        yield _cause(text, _todo(alike[0], env))


def _cause(text: Statement, todo: str) -> Cause:
    """A cause by a statement; no price, so no error of one."""
    return Cause("topology", text, todo, error=None, error_all=None)


def _alike(damages: Sequence[Damage]) -> list[list[Damage]]:
    """Damages in groups that are the same but for the part, the likeliest first as they come. Where
    a part fits at several rates, only the first is kept."""
    groups: dict[tuple[object, ...], list[Damage]] = {}
    known_parts = set()
    for damage in damages:
        part = (damage.kind, damage.names, damage.all)
        if part not in known_parts:
            known_parts.add(part)
            groups.setdefault((damage.kind, damage.now, damage.all), []).append(damage)
    return list(groups.values())


def _lead(node: ComparedNode) -> Statement:
    """What differs first, as the beginning of a sentence: of the ring, where that does; ``node``:
    one that differs."""
    # graphs stand in the order of GRAPH_NAMES, the ring first; one of them differs
    graph = next(graph for graph in node.graphs if graph.differs)
    found = graph.found
    allowed = graph.allowed
    fields: dict[str, object] = {
        "graph": GRAPH_NAMES[graph.graph],
        "count": found.channels,
        "on": _hosts_text(node.hosts),
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
    lead_code = "way"  # only the pattern, crossNic or the order
    for field, field_code in LEAD_CODES.items():
        if field in graph.differs:
            lead_code = field_code
            break
    has_more_channels = found.channels > allowed.channels
    if lead_code == "fewer" and ("inside_Bps" in graph.differs or has_more_channels):
        lead_code = "both"
    return statement(f"lead-{lead_code}", **fields)


def _hosts_text(hosts: Sequence[str]) -> Statement:
    """``on node1, node2``; NOTHING where the log names no host."""
    if not hosts:
        return NOTHING
    return statement("on-hosts", hosts=hosts[:_MOST_NAMED])


def _damage_text(
    damage: Damage,
    names_alike: Sequence[Sequence[str]] = (),
    owners: Mapping[str, int] = NO_OWNERS,
) -> Statement:
    """A damage in words.

    Args:
        names_alike: names of the parts of each damage that would explain as much; one or none where
            there is no other.
        owners: ranks of the GPUs that have a NIC of their own, by the NIC's name.
    """
    if damage.together:
        together = damage.together[:_MOST_NAMED]
        parts = tuple(_damage_text(part, owners=owners) for part in together)
        return statement("damages", parts=parts)
    fields: dict[str, object] = {}
    for part, kinds in KINDS_BY_PART.items():
        if damage.kind in kinds:
            fields["what"] = _part_text(part, damage, names_alike, owners)
    if damage.kind == "setting":
        fields["settings"] = damage.names
    elif damage.kind in ("nvlinks", "nvlink-pair"):
        # numbers of links
        fields |= {"now": damage.now, "was": damage.was}
    elif damage.was:
        # MB/s
        fields |= {"now": damage.now * 1e6, "was": damage.was * 1e6}
    return statement(f"damage-{damage.kind}", **fields)


def _part_text(
    part: str, damage: Damage, names_alike: Sequence[Sequence[str]], owners: Mapping[str, int]
) -> Statement:
    """What a damage is of: ``GPU 3``, ``GPU 0 or 1`` where either would do, ``all GPUs``."""
    if damage.all:
        return statement(f"all-{part}")
    if len(names_alike) > 1:
        options = [" and ".join(names) for names in names_alike]
        return statement(f"some-{part}", names=_shortened(options, " or "))
    if len(damage.names) > 1:
        return statement(f"several-{part}", names=_shortened(damage.names, " and "))
    (name,) = damage.names
    if name in owners:
        return statement("owned-nic", gpu=owners[name], name=name)
    return statement(f"some-{part}", names=name)


def _shortened(names: Sequence[str], before_last: str) -> str:
    """``0, 1 and 2``, or the first four of many and how many more."""
    listed = list(names[:_MOST_NAMED])
    if len(names) > len(listed):
        listed.append(f"{len(names) - len(listed)} more")
    *firsts, last = listed
    return before_last.join(filter(None, [", ".join(firsts), last]))


def _todo(damage: Damage, env: dict[str, str]) -> str:
    """What to type next; first the setting of the log that may hide NICs."""
    advice = []
    hca = env.get("NCCL_IB_HCA")
    if damage.kind in ("nic-missing", "nics-few") and hca:
        advice.append(str(statement("do-hca", value=hca)))
    advice.append(str(statement(f"do-{damage.kind}")))
    return "; ".join(advice)


def dumped_topology(debug: DebugLines) -> Iterator[Statement]:
    """A hint that the log's run wrote its topology to a file, which can be compared with; none
    without NCCL_TOPO_DUMP_FILE."""
    dumped = dict(debug.env).get("NCCL_TOPO_DUMP_FILE")
    if dumped:
        yield statement("topology-dumped", file=dumped)
