"""How tokens reach their experts and come back: dispatchers by name, what each sends, and its price.

A dispatcher sends every token to the ranks that have its experts (dispatch) and brings the results
back (combine). They differ in the copies that cross the network (a copy an expert, a rank or a
node), in what forwards them inside a node, in the time until the first byte leaves, and in where
they run. :func:`exchange_cost` prices one call on the fabric from the plain collectives of the bytes
that it sends; :func:`dispatcher_violations` says why a dispatcher does not run on a fabric.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import comb
from pathlib import Path
from typing import Literal, NamedTuple

from colltool.base.cache import packaged_toml
from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, distinct
from colltool.fabric.model import Fabric
from colltool.fabric.tier_media import media_of
from colltool.fabric.topology import capabilities_of
from colltool.training.collective_cost import CollectiveCost, CollectiveCostCache
from colltool.training.files import DispatcherName
from colltool.training.model import Moe
from colltool.training.parallel_config import ParallelConfig, ParallelLayout, split_group
from colltool.training.strategies import rows_for
from colltool.training.violation import Violation

# a copy of a token for each expert, for each rank, or for each node with forwarding inside it; or
# all tokens to all ranks
Copies = Literal["expert", "rank", "node", "all"]

# Share of the time of all node copies, that of a token's own node among them, over the time in which
# NCCL sends the remote ones: kernels that forward reach 43 to 60 GB/s of 50 GB/s NICs by that count.
_WITH_OWN_NODE = 0.9
# bytes/s that the multiprocessors of such a kernel copy over NVLink
_FORWARDED_BPS = 470e9
# bytes/s of a rank that NCCL's all-to-all reaches on EFA between more than two nodes
_CROWDED_BPS = 34e9
_FEWEST_CROWDED = 3  # nodes from which it is no faster
# Share of a dispatcher's price by which another has to be lower: 22 pairs of runs on EFA (B300)
# differ in their exchanges by no more than this from what their prices differ by.
_ERROR = 0.25


class Dispatcher(NamedTuple):
    """A dispatcher of ``data/dispatchers.toml``: what it sends, and where it runs.

    Args:
        name: as a job file has it.
        spoken: its name in texts.
        copies: what crosses the network.
        source: paper or code that describes it.
        startup_s: seconds of a call until bytes flow, in which the host waits; nothing hides them.
        startup_per_node_s: seconds more for each node that takes part, where there are several.
        messages_per_s: messages, of a token each, that a rank's proxy posts; 0 where the GPU does.
        inside: media of a node on which it runs; empty for any.
        across: media between nodes on which it runs; empty for any.
        ranks: sizes of an exchange that it has; empty for any.
        domain: most ranks of a node that its kernels reach over NVLink, and what a node must have
            where there are several; 0 for any.
        why: why it does not run on other media.
    """

    name: DispatcherName
    spoken: str
    copies: Copies
    source: str
    startup_s: float = 0.0
    startup_per_node_s: float = 0.0
    messages_per_s: float = 0.0
    inside: Sequence[str] = ()
    across: Sequence[str] = ()
    ranks: Sequence[int] = ()
    domain: int = 0
    why: str = ""

    @property
    def forwards(self) -> bool:
        """Whether a token crosses once to a node, and is forwarded inside it."""
        return self.copies == "node"


_TABLE = packaged_toml(Path(__file__).parent / "data" / "dispatchers.toml")
DISPATCHERS = rows_for(DispatcherName, [Dispatcher(**row) for row in _TABLE["dispatchers"]])


def dispatcher_of(layout: ParallelLayout, fabric: Fabric | None = None) -> Dispatcher | None:
    """Return the dispatcher of a layout; None where ``deduplicate`` alone says what is sent: tokens
    once to a rank, priced as an all-to-all of any library.

    On EFA the libraries that deduplicate reach less than on other networks: there it is UCCL-EP.
    Without a fabric that is not known.
    """
    if layout.dispatcher:
        return DISPATCHERS[layout.dispatcher]
    if not layout.deduplicate:
        return DISPATCHERS["alltoall"]
    if fabric is not None and len(fabric.tiers) > 1 and _network(fabric) == "efa":
        return DISPATCHERS["uccl-ep"]
    return None


def copies(layout: ParallelLayout, moe: Moe) -> float:
    """Copies of a token in a rank's send buffer, those for itself counted: k, one for each rank with
    any of its experts (a mean), or one for every rank."""
    dispatcher = dispatcher_of(layout)
    if dispatcher is not None and dispatcher.copies == "all":
        return float(layout.ep)
    if dispatcher is not None and dispatcher.copies == "expert":
        return float(moe.top_k)
    return rank_copies(layout.ep, moe)


def rank_copies(ranks: int, moe: Moe) -> float:
    """Expected ranks with any of a token's experts: e (1 - (1 - 1/e)^k), over the share of ranks
    that limited routing reaches.

    >>> rank_copies(8, Moe(experts=8, top_k=2, ffn=1))
    1.875
    """
    return distinct(max(1.0, moe.reached * ranks), moe.top_k)


def node_copies(nodes: int, moe: Moe) -> float:
    """Expected nodes with any of a token's experts.

    Routing that is limited to some of the groups of experts reaches the nodes that have one of
    them: of 8 groups on 4 nodes, 4 are on 3.14 nodes in the mean.

    >>> node_copies(2, Moe(experts=8, top_k=2, ffn=1))
    1.5
    """
    reached = max(1.0, moe.reached * nodes)
    groups_of_node, left_over = divmod(moe.groups, nodes)
    if groups_of_node and not left_over:
        # probability that none of a token's groups is on a node
        elsewhere = comb(moe.groups - groups_of_node, moe.top_groups)
        missed = elsewhere / comb(moe.groups, moe.top_groups)
        reached = nodes * (1 - missed)
    return distinct(reached, moe.top_k)


def exchange_cost(
    config: ParallelConfig, costs: CollectiveCostCache, size: float
) -> CollectiveCost:
    """Price one dispatch or combine whose send buffer has ``size`` bytes, with even routing.

    Raises:
        ColltoolError: the dispatcher does not run on the fabric, or the group has no place on it.
    """
    layout = config.layout
    moe = config.known_moe
    group = layout.group("ep", experts=True)
    plain = costs.of(A2A, group, size, "ep")
    inner = _members_of_node(costs.fabric, plain)
    nodes = max(1, group.ranks // inner)
    dispatcher = dispatcher_of(layout, costs.fabric)
    if dispatcher is None:
        return plain.scaled(_share_once_a_node(layout, moe, inner))
    for problem in dispatcher_violations(config, costs):
        raise ColltoolError(problem.what, argument="job_overrides", fix=problem.fix)
    if not dispatcher.forwards:
        return _cost_on_crowded_network(plain, costs.fabric, nodes, size)
    return _forwarding_cost(dispatcher, config, costs, plain, inner, size)


def _forwarding_cost(
    dispatcher: Dispatcher,
    config: ParallelConfig,
    costs: CollectiveCostCache,
    plain: CollectiveCost,
    inner: int,
    size: float,
) -> CollectiveCost:
    """Price an exchange that crosses once to a node, and is forwarded inside it.

    Args:
        plain: the price of an all-to-all of the whole group.
        inner: members of the group in a node.
        size: bytes of the send buffer, a copy of a token for each rank.
    """
    layout = config.layout
    moe = config.known_moe
    group = layout.group("ep", experts=True)
    nodes = max(1, group.ranks // inner)
    within_s = size * (inner - 1) / inner / _FORWARDED_BPS
    if nodes == 1:
        # NCCL's kernels reach no more of NVLink than these
        return _cost_after_startup(
            dispatcher, nodes, plain, (plain,), max(plain.bandwidth_s, within_s)
        )
    inside, across = split_group(group, inner)
    copies_sent = node_copies(nodes, moe)
    sent_bytes = size / copies(layout, moe) * copies_sent
    # a rank exchanges with those at its place in the other nodes
    between = costs.of(A2A, across, sent_bytes, "ep")
    between = between.scaled(max(1.0, _WITH_OWN_NODE * nodes / (nodes - 1)))
    parts = [between]
    if inner > 1:
        parts.append(costs.of(A2A, inside, size, "ep"))
    moved_s = max(within_s, *(part.bandwidth_s for part in parts))
    if dispatcher.messages_per_s:
        tokens = config.tokens / (layout.tp if layout.sp else 1)
        messages = tokens * copies_sent * (nodes - 1) / nodes
        moved_s = max(moved_s, messages / dispatcher.messages_per_s)
    return _cost_after_startup(dispatcher, nodes, plain, parts, moved_s)


def _share_once_a_node(layout: ParallelLayout, moe: Moe, inner: int) -> float:
    """Share of a deduplicated all-to-all's bytes that cross, where a token crosses once a node and
    not once a rank; ``inner``: members of the exchange in a node."""
    # a rank a node, or one node
    if inner in (0, 1, layout.ep):
        return 1.0
    return rank_copies(layout.ep // inner, moe) / rank_copies(layout.ep, moe)


def _cost_on_crowded_network(
    plain: CollectiveCost, fabric: Fabric, nodes: int, size: float
) -> CollectiveCost:
    """Return the price of NCCL's all-to-all, at the rate that jobs between several nodes reach on EFA
    where that takes longer."""
    if nodes < _FEWEST_CROWDED or _network(fabric) != "efa":
        return plain
    least_s = size * (nodes - 1) / nodes / _CROWDED_BPS
    if least_s <= plain.bandwidth_s:
        return plain
    return plain.scaled(least_s / plain.bandwidth_s)


def _cost_after_startup(
    dispatcher: Dispatcher,
    nodes: int,
    plain: CollectiveCost,
    parts: Sequence[CollectiveCost],
    moved_s: float,
) -> CollectiveCost:
    """Return the cost of parts that run at once, as a pipeline, after the dispatcher's start-up.

    ``plain``: the price of the whole group's all-to-all, which says where the group lies;
    ``moved_s``: seconds of the slowest part.
    """
    startup_s = dispatcher.startup_s
    if nodes > 1:
        startup_s += nodes * dispatcher.startup_per_node_s
    return plain.with_traffic_of(parts)._replace(
        algorithm=dispatcher.spoken,
        protocol="",
        picked_by="",
        latency_s=startup_s + max(part.latency_s for part in parts),
        bandwidth_s=moved_s,
        startup_s=startup_s,
    )


def _medium(fabric: Fabric, tier: int) -> str:
    """The medium of a tier, whatever its generation; empty where nothing tells."""
    medium = media_of(fabric)[tier]
    if medium is None:
        return ""
    name = medium.name.rstrip("0123456789")  # nvlink5: nvlink
    return "nvlink" if name == "nvswitch" else name


def _network(fabric: Fabric) -> str:
    """The medium of the outermost tier, such as "efa"; empty where nothing tells."""
    return _medium(fabric, -1)


def _members_of_node(fabric: Fabric, cost: CollectiveCost) -> int:
    """Members of a priced group in a node or NVLink domain; 1 on a fabric whose innermost tier
    joins hosts."""
    if capabilities_of(fabric.tiers[0]).joins == "hosts":
        return 1
    return max(1, cost.per_domain[0])


def dispatcher_violations(
    config: ParallelConfig, costs: CollectiveCostCache
) -> Iterator[Violation]:
    """Yield why the dispatcher that a layout names does not run on a fabric, and as the fix which do;
    nothing where it names none, or where tokens stay on their rank."""
    layout = config.layout
    if layout.dispatcher is None or layout.ep == 1:
        return
    group = layout.group("ep", experts=True)
    inner = _members_of_node(costs.fabric, costs.of(A2A, group, 1.0, "ep"))
    what = _obstacle(DISPATCHERS[layout.dispatcher], layout, costs.fabric, inner)
    if what:
        names = [known.name for known in dispatchers_here(layout, costs.fabric, inner)]
        yield Violation(("layout", "dispatcher"), what, f"what runs here: {', '.join(names)}")


def dispatchers_here(layout: ParallelLayout, fabric: Fabric, inner: int) -> list[Dispatcher]:
    """Return the dispatchers that run for a layout on a fabric.

    ``inner``: members of the exchange in a node, or NVLink domain.
    """
    return [known for known in DISPATCHERS.values() if not _obstacle(known, layout, fabric, inner)]


def faster_dispatchers(
    config: ParallelConfig, fabric: Fabric, current: CollectiveCost, size: float
) -> list[Dispatcher]:
    """Return the dispatchers that send a layout's tokens faster than its own does, by more than the
    error of their prices.

    ``current``: the cost of a dispatch whose send buffer has ``size`` bytes.
    """
    layout = config.layout
    moe = config.known_moe
    costs = CollectiveCostCache(fabric)
    faster = []
    token_bytes = size / copies(layout, moe)
    for known in dispatchers_here(layout, fabric, _members_of_node(fabric, current)):
        # all tokens to all ranks: never less than what the others send
        if known.copies == "all":
            continue
        changed = layout._replace(dispatcher=known.name, deduplicate=False)
        buffer_bytes = token_bytes * copies(changed, moe)
        each_s = exchange_cost(config._replace(layout=changed), costs, buffer_bytes).each_s
        if (1 + _ERROR) * each_s < current.each_s:
            faster.append(known)
    return faster


def _obstacle(dispatcher: Dispatcher, layout: ParallelLayout, fabric: Fabric, inner: int) -> str:
    """Why a dispatcher does not run for a layout on a fabric; empty where it does."""
    ranks = layout.ep * layout.etp  # the ranks that share an expert take part
    crossed = []  # (medium of the fabric, media on which the dispatcher runs)
    if inner > 1:
        crossed.append((_medium(fabric, 0), dispatcher.inside))
    if inner < layout.ep:
        crossed.append((_network(fabric), dispatcher.across))
    for medium, known_media in crossed:
        # wires of which nothing is known are taken at the user's word
        if medium and known_media and medium not in known_media:
            return f"{dispatcher.spoken} does not run over {medium}: {dispatcher.why}"
    if dispatcher.ranks and ranks not in dispatcher.ranks:
        known = ", ".join(map(str, dispatcher.ranks))
        return f"{dispatcher.spoken} has no configuration for {ranks} ranks: it has {known}"
    if dispatcher.inside and inner == 1:
        return (
            f"{dispatcher.spoken} forwards inside nodes, and each rank here is on a node of its own"
        )
    in_node = min(inner * layout.etp, ranks)
    # as many as its kernels reach, or all where there are fewer
    if dispatcher.domain and in_node != min(ranks, dispatcher.domain):
        return (
            f"{dispatcher.spoken} takes {dispatcher.domain} ranks of a node, and {in_node} of this exchange are"
            " in one"
        )
    return ""
