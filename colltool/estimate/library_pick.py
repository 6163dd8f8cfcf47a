"""What NCCL would run for a call by its own cost model, and our price of it.

Three parts, of which the first two need the last:

    picks      with_library_choice of prices, with_library_picks and with_pick_cost of a crossover,
               picked_at for many sizes, price_of_pick for a job
    estimates  with_estimates: the parts of NCCL's estimate, for an explanation
    hardware   hardware_on: what the model needs to know of a group; errors name missing facts and how
               to state them
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from math import log2
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from colltool.algorithms.libraries import FROM_HOPPER
from colltool.base.errors import ColltoolError, localize
from colltool.base.primitives import A2A, P2P, Primitive
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.candidates import Candidates, candidates_for
from colltool.estimate.groups import PlacedGroup, SameFabric, library_runs, place
from colltool.estimate.placement import AnyGroup
from colltool.estimate.price import price, rows_at
from colltool.estimate.results import Crossover, LibraryChoice, PickCost, Price, Winner
from colltool.fabric.library import GroupChannels, LibraryChannels, LibraryFacts, LibraryGraph
from colltool.fabric.library_numbers import has_gpudirect
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import domains_text, even_domains
from colltool.libraries.nccl.graphs import has_one_order, sent_channels
from colltool.libraries.nccl.hardware import (
    CACHE_CLEARS,
    Constants,
    Gpu,
    GpuNodes,
    Graph,
    Hardware,
    constants,
    tuned,
)
from colltool.libraries.nccl.model import cheapest, estimates, pick, picked_ways, switch_points
from colltool.libraries.nccl.rules import ALGORITHM_NAMES, name_of, rules_of, spec_of
from colltool.libraries.nccl.topology.kinds import KINDS, NVL, TREE, keeps_order

if TYPE_CHECKING:
    from colltool.estimate.explain import AlgorithmExplanation, Explanation, NcclEstimateParts

Channels = TypeVar("Channels", bound=LibraryChannels)

MODELLED_LIBRARIES = ("nccl",)
"""Libraries whose cost model is known."""
SIMPLE = "simple"
"""The protocol of large messages, as NCCL's tuner file spells it."""


def with_library_choice(
    prices: Sequence[Price],
    fabric: Fabric,
    readings: ModelOptions,
    *,
    required: bool,
    lead: bool = True,
) -> tuple[Price, ...]:
    """Add the library's own pick to prices of one primitive and group; unchanged if its cost model
    is not known.

    ``required``: the user named the library, so a model that cannot be computed is an error; otherwise
    a reason in the answer.
    ``lead``: the pick is the first of the rows.
    """
    first = prices[0]
    if first.library is None or first.library.name not in MODELLED_LIBRARIES:
        return tuple(prices)
    reason = ""
    if first.primitive not in _tuned(fabric):
        reason = f"NCCL has one way for {first.primitive.label}: there is nothing to choose"
    elif not all(isinstance(each.bytes, float) for each in prices):
        reason = "an array of sizes has no single pick: price_list has one for each size"
    joints = {capabilities_of(tier).joined_by for tier in fabric.tiers}
    linked = bool(joints & {"pair_links", "routes"})
    if not reason:
        try:
            hardware = hardware_on(fabric, first.group.spec)
        except ColltoolError as error:
            if required and not fabric.domains and not linked:
                raise
            reason = f"{localize(error.what)}; {localize(error.fix)}"
    elif not linked:
        check_switched(fabric)
    if reason:
        unknown = LibraryChoice(first.library.name, reason=reason)
        return tuple(replace(each, library=unknown) for each in prices)
    return tuple(_with_pick(each, fabric, hardware, readings, lead=lead) for each in prices)


def _with_pick(
    priced: Price, fabric: Fabric, on: Hardware, readings: ModelOptions, *, lead: bool
) -> Price:
    """Add the pick to a price. If the pick is one of the price's rows, it becomes the first: what
    is shown first is what runs."""
    size = priced.bytes
    group = priced.group.spec
    # arrays have no single pick
    assert isinstance(size, float)
    ways = tuple(estimates(on, priced.primitive, size))
    best = cheapest(ways)
    spec = schedule_on(best.algorithm, priced.primitive, on, place(fabric, group))
    runs: AlgorithmEstimate | None = next((row for row in priced.results if row.spec == spec), None)
    # a list is all that runs
    if runs is None and spec and not library_runs(place(fabric, group), priced.primitive):
        # it may be unable to run with this fabric's numbers
        with suppress(ColltoolError):
            runs = price(fabric, priced.primitive, size, group, readings, [spec]).best
    if runs is not None and runs.protocol and best.protocol == SIMPLE and on.nodes > 1:
        runs = _under_simple(runs, candidates_for(fabric, group, priced.primitive, readings))
    picked = replace(priced, library=LibraryChoice("nccl", on.version, best, ways, runs))
    if not lead or runs is None or not runs.selectable:
        return picked
    behind = [estimate for estimate in priced.results if estimate.title != runs.title]
    if len(behind) == len(priced.results):
        return picked
    return replace(picked, results=(runs, *behind))


class Picked(NamedTuple):
    """What NCCL picks at a size, as ``--algorithm`` takes it; ``simple``: priced under that
    protocol."""

    spec: str
    simple: bool


def picked_at(
    fabric: Fabric, group: AnyGroup, primitive: Primitive, sizes: Iterable[float]
) -> list[Picked] | None:
    """NCCL's pick at each size; None where its model does not know."""
    if fabric.library_name not in MODELLED_LIBRARIES or primitive not in _tuned(fabric):
        return None
    try:
        on = hardware_on(fabric, group)
    except ColltoolError:
        return None
    placed = place(fabric, group)
    tiers = len(placed.spans)
    found = []
    known: dict[tuple[str, str], Picked] = {}
    for way in picked_ways(on, primitive, list(map(float, sizes))):
        name = way.algorithm, way.protocol
        if name not in known:
            spec = schedule_on(way.algorithm, primitive, on, placed)
            # NCCL knows nodes and what joins them; over more tiers nothing here is its composition
            if ":" in spec and spec.count("/") + 1 != tiers:
                spec = ""
            known[name] = Picked(spec, way.protocol == SIMPLE and on.nodes > 1)
        found.append(known[name])
    return found


def schedule_on(algorithm: str, primitive: Primitive, on: Hardware, placed: PlacedGroup) -> str:
    """:func:`spec_of`, as it runs where no switch joins the GPUs of a node, or several tiers do."""
    spec = spec_of(algorithm, primitive, on)
    if algorithm != "ring":
        return spec
    joined_by = placed.spans[0].kind.joined_by
    if on.nodes > 1:
        # rings over links of a graph and NICs are no schedule of ours
        return "" if joined_by == "routes" and on.ranks_per_node > 1 else spec
    if spec != "ring":
        return spec
    if len(placed.spans) > 1:
        return "multi-rail-ring"
    if on.ranks == 2:
        return spec
    return {"pair_links": "multi-link-ring", "routes": "forest"}.get(joined_by, spec)


def price_of_pick(
    fabric: Fabric, primitive: Primitive, size: float, group: AnyGroup, readings: ModelOptions
) -> Price | None:
    """The row that :func:`with_library_choice` would put first, priced without the others. None
    where the whole list is needed to know it."""
    if readings.phases != "auto" or library_runs(place(fabric, group), primitive):
        return None
    picked = picked_at(fabric, group, primitive, [size])
    if not picked or not picked[0].spec:
        return None
    try:
        found = price(fabric, primitive, size, group, readings, [picked[0].spec])
    except ColltoolError:
        # it cannot run with this fabric's numbers
        return None
    if picked[0].simple and found.best.protocol:
        row = _under_simple(found.best, candidates_for(fabric, group, primitive, readings))
        return replace(found, results=(row,))
    return found


def _under_simple(estimate: AlgorithmEstimate, listed: Candidates) -> AlgorithmEstimate:
    """A schedule under Simple where NCCL picks that, though LL128 may be faster there, as rings of
    many nodes are.

    Where it picks LL or LL128 the faster is kept: their border moves with the version, and a fit's
    names are not quite NCCL's.
    """
    size = float(estimate.bytes)
    for cost_model in listed.named([estimate.spec], [size]):
        if cost_model.title == estimate.title and cost_model.protocol.lower() == SIMPLE:
            if cost_model.protocol != estimate.protocol:
                return rows_at(listed, [cost_model], size)[0]
            break
    return estimate


def _tuned(fabric: Fabric) -> tuple[Primitive, ...]:
    """The collectives that NCCL chooses for, in the version that the fabric names."""
    facts = fabric.library_facts
    return tuned((facts and facts.version) or "")


def with_library_picks(found: Crossover, fabric: Fabric) -> Crossover:
    """Add the library's own pick at each size, if known."""
    if found.library not in MODELLED_LIBRARIES or found.primitive not in _tuned(fabric):
        return found
    try:
        on = hardware_on(fabric, found.group.spec)
    except ColltoolError:
        return found
    placed = place(fabric, found.group.spec)
    points = switch_points(on, found.primitive)
    ends: list[float | None] = [point.from_bytes for point in points[1:]]
    picks = []
    for point, end in zip(points, [*ends, None], strict=True):
        spec = schedule_on(point.algorithm, found.primitive, on, placed)
        name = ALGORITHM_NAMES.get(point.algorithm, point.algorithm)
        picks.append(
            Winner(point.from_bytes, end, point.algorithm, point.protocol, spec, name=name)
        )
    return replace(found, picks=tuple(picks))


LARGEST_COMPARED = 16e9
"""Bytes up to which crossovers matter: nobody sends more per rank in one call."""
_SIZES_PER_OCTAVE = 2


def with_pick_cost(found: Crossover, fabric: Fabric, readings: ModelOptions) -> Crossover:
    """Add where the library's picks cost most, up to 16 GB; unchanged where they are not known."""
    if not found.picks or found.asked:
        return found
    group = found.group.spec
    steps = int(_SIZES_PER_OCTAVE * log2(LARGEST_COMPARED))
    sizes = [2.0 ** (step / _SIZES_PER_OCTAVE) for step in range(steps + 1)]
    picked = picked_at(fabric, group, found.primitive, sizes)
    if picked is None:
        return found
    from numpy import array

    priced = price(fabric, found.primitive, array(sizes), group, readings)
    runnable: dict[str, Any] = {estimate.spec: estimate.total_s for estimate in priced.runnable}
    simple = _seconds_under_simple(fabric, found, readings, picked, sizes)
    worst: tuple[float, float] | None = None
    for at, (size, way) in enumerate(zip(sizes, picked, strict=True)):
        if way.spec not in runnable:
            continue
        own_s = simple.get(way.spec, runnable[way.spec]) if way.simple else runnable[way.spec]
        factor = float(own_s[at]) / min(float(seconds[at]) for seconds in runnable.values())
        if worst is None or factor > worst[0]:
            worst = factor, size
    if worst is None:
        return found
    return replace(found, pick_cost=_pick_cost(found, fabric, readings, worst[1]))


def _seconds_under_simple(
    fabric: Fabric,
    found: Crossover,
    readings: ModelOptions,
    picked: Sequence[Picked],
    sizes: Sequence[float],
) -> dict[str, Any]:
    """Seconds at each size, by spec, of the schedules that NCCL runs under Simple somewhere."""
    from numpy import array

    listed = candidates_for(fabric, found.group.spec, found.primitive, readings)
    seconds: dict[str, Any] = {}
    for spec in {way.spec for way in picked if way.simple and way.spec}:
        for cost_model in listed.named([spec], [sizes[0], sizes[-1]]):
            if cost_model.protocol.lower() == SIMPLE and cost_model.choice.spec == spec:
                seconds[spec] = cost_model.at(array(sizes)).total_s
    return seconds


def _pick_cost(
    found: Crossover, fabric: Fabric, readings: ModelOptions, size: float
) -> PickCost | None:
    """What the pick costs at a size, by the price that a user reads there."""
    from colltool.estimate.user_price import price_for_user

    priced = price_for_user(
        price(fabric, found.primitive, size, found.group.spec, readings), fabric, readings
    )
    if not priced.shows_pick:
        return None
    own = priced.best
    fastest = priced.fastest
    own_s = float(own.total_s)
    fastest_s = float(fastest.total_s)
    close = own.interval is not None and fastest_s >= own.interval.low_s
    return PickCost(
        bytes=size,
        factor=own_s / fastest_s,
        pick=own.name,
        pick_s=own_s,
        fastest=fastest.name,
        fastest_s=fastest_s,
        close=close,
    )


def with_estimates(found: Explanation, fabric: Fabric, *, required: bool) -> Explanation:
    """Add the parts of NCCL's estimate to each entry that NCCL runs, if the explanation has a
    group.

    ``required``: the user named the library, so missing facts are an error; otherwise they leave it
    unchanged.
    """
    if found.group is None:
        return found
    try:
        on = hardware_on(fabric, found.group.spec)
    except ColltoolError:
        if required:
            raise
        return found
    placed = place(fabric, found.group.spec)
    entries = tuple(
        entry._replace(estimates=tuple(_parts(entry, on, found.bytes, placed)))
        for entry in found.entries
    )
    return replace(found, entries=entries, library=f"NCCL {on.version}")


def _parts(
    entry: AlgorithmExplanation, on: Hardware, size: float, placed: PlacedGroup
) -> Iterator[NcclEstimateParts]:
    """NCCL's estimates for an algorithm, protocol by protocol."""
    from colltool.estimate.explain import NcclEstimateParts

    primitive = entry.primitive
    if primitive not in on.constants.algorithms:
        return
    rules = rules_of(on.constants)
    chosen = pick(on, primitive, size)
    spec = entry.row.spec if entry.row else entry.algorithm
    for way in estimates(on, primitive, size):
        if way.seconds is None or schedule_on(way.algorithm, primitive, on, placed) != spec:
            continue
        # it runs, and so it has all its numbers
        assert way.latency_s is not None
        assert way.bandwidth_Bps is not None
        what = (on, primitive, way.algorithm, way.protocol)
        terms = rules.latency_terms(*what)
        counted = [term for term in terms if term.times and term.us]
        whole_s = sum(term.times * term.us for term in terms) * 1e-6
        bandwidth = rules.bandwidth_GBps(*what) * 1e9
        yield NcclEstimateParts(
            algorithm=way.algorithm,
            protocol=way.protocol,
            latency=tuple((term.name, term.times, term.us * 1e-6) for term in counted),
            plateau=float(way.latency_s) / whole_s if whole_s else 1.0,
            bus_Bps=rules.bus_GBps(*what) * 1e9,
            bandwidth_Bps=bandwidth,
            correction=float(way.bandwidth_Bps) / bandwidth,
            seconds=float(way.seconds),
            picked=(way.algorithm, way.protocol) == (chosen.algorithm, chosen.protocol),
        )


# NVLink of a GPU by generation, bytes/s one way. Source: NVIDIA A100, H100 and B200 data sheets
_NVLINK_BPS = {"ampere": 300e9, "hopper": 450e9, "blackwell": 900e9}
# a slot of 16 lanes of PCIe 5, as most hosts of Blackwell have
_PCIE_5_BPS = 64e9
_PRINTED = "NCCL prints them: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH"


def hardware_on(fabric: Fabric, group: AnyGroup = None) -> Hardware:
    """The hardware of a group (by default the whole fabric) as :func:`hardware_of` finds it,
    cached. Raises ColltoolError also if the group does not fit."""
    found = _cached_hardware(SameFabric(fabric), group)
    if isinstance(found, ColltoolError):
        raise ColltoolError(found.what, where=found.where, argument=found.argument, fix=found.fix)
    return found


@lru_cache(maxsize=256)
def _cached_hardware(where: SameFabric, group: AnyGroup) -> Hardware | ColltoolError:
    """The hardware, or the error: every price on a fabric that lacks a fact comes here again."""
    try:
        return hardware_of(place(where.fabric, group))
    except ColltoolError as error:
        return error


CACHE_CLEARS.append(_cached_hardware.cache_clear)


def hardware_of(placed: PlacedGroup) -> Hardware:
    """The hardware of a group.

    Nodes are NVLink domains: those of the innermost tier if it joins accelerators, else each rank
    is one. A node has the NICs that ``sizing`` counts, at most ``ports`` per rank of the group;
    each has the bandwidth of the next tier.

    Raises:
        ColltoolError: NCCL does not run on the fabric, there is no data for its version, or facts
            are missing.
    """
    fabric = placed.fabric
    facts = fabric.library_facts or LibraryFacts(name="nccl")
    _check_nodes(placed, facts)
    ranks = _ranks_of_node(placed, facts)
    nodes = placed.ranks // ranks
    facts = _of_group(facts, placed, ranks)
    stated = _flat(facts)
    numbers = constants(facts.version or "")
    rules = rules_of(numbers)
    across = nodes > 1
    alone = ranks == 1
    nics, nic_GBps = _nics(placed, facts) if across else (0, 0.0)
    staged = across and not has_gpudirect(fabric)
    machine = GpuNodes(
        gpu=facts.gpu or "volta",
        nodes=nodes,
        gpus=ranks,
        nic_GBps=nic_GBps,
        staged=staged,
        cpu=facts.cpu or "intel",
        link_share=_link_share(placed, facts),
        wide_slots=_has_wide_slots(fabric, facts),
    )
    _refuse_missing(fabric, facts, numbers, nics, machine)
    # or it would be missing
    assert facts.gpu is not None
    ring = _graph_of(stated.ring, facts.gpu) or rules.ring_graph(numbers, machine)
    collnet = None
    if facts.collnet and across:
        collnet = _graph_of(stated.collnet, facts.gpu)
        if collnet is None:
            collnet = ring
            if machine.gpu in numbers.search:
                collnet = rules.collnet_graph(numbers, machine)
    nvls = _nvls_graph(placed, facts, numbers, machine)
    same = alone or (not across and has_one_order(ring, ranks))
    if stated.ring is not None and stated.ring.same is not None:
        same = stated.ring.same
    return Hardware(
        version=numbers.version,
        gpu=facts.gpu,
        # on one node nothing depends on it
        cpu=facts.cpu or "intel",
        nodes=nodes,
        ranks_per_node=ranks,
        nics=nics,
        link=facts.link or "nvlink",
        nvswitch=not alone and facts.link != "pci",
        nvls=nvls is not None,
        collnet=bool(facts.collnet),
        ring=ring,
        tree=_graph_of(stated.tree, facts.gpu) or rules.tree_graph(numbers, machine),
        nvls_graph=nvls,
        collnet_graph=collnet,
        channels=stated.total or rules.communicator_channels(numbers, machine, ring),
        simple_tree=_is_simple_tree(stated, machine),
        gpudirect=not staged,
        same_channels=same,
    )


def _nvls_graph(
    placed: PlacedGroup, facts: LibraryFacts, numbers: Constants, machine: GpuNodes
) -> Graph | None:
    """The channels of NVLS, as stated or derived; None where it does not run."""
    inside = placed.spans[0].kind
    multicast = inside.joins == "accelerators" and {"reduce", "multicast"} <= inside.operations
    if facts.nvls is False or machine.gpus == 1 or not multicast or not machine.from_hopper:
        return None
    stated = _flat(facts)
    nvls = _graph_of(stated.nvls, machine.gpu)
    # a search that found none knows that there is none
    if nvls is None and not isinstance(stated, GroupChannels):
        nvls = rules_of(numbers).nvls_graph(numbers, machine)
    return nvls


def _is_simple_tree(stated: LibraryChannels, machine: GpuNodes) -> bool:
    """Whether trees have all traffic of a NIC go through one GPU, as stated or derived."""
    if stated.tree is not None and stated.tree.pattern is not None:
        return stated.tree.pattern == TREE
    # in a tray of Grace Blackwell both GPUs of a CPU reach their NICs over it
    over_cpu = (machine.gpu, machine.cpu) == ("blackwell", "arm")
    return machine.nodes > 1 and (machine.gpus == 1 or (machine.from_hopper and not over_cpu))


def channels_of(fabric: Fabric, group: AnyGroup, primitive: Primitive, spec: str) -> int | None:
    """Channels that NCCL runs a large call on, each a thread block that holds a multiprocessor.

    ``spec``: the schedule, as ``--algorithm`` takes it. None where NCCL's model does not know.
    """
    if fabric.library_name not in MODELLED_LIBRARIES:
        return None
    try:
        on = hardware_on(fabric, group)
    except ColltoolError:
        return None
    if primitive in (P2P, A2A):
        return sent_channels(on, to_all=primitive is A2A)
    if name_of(spec, primitive, on.ranks, on.nodes).startswith(ALGORITHM_NAMES["nvls"]):
        return int(on.constants.channels["nvls"].get(on.gpu, on.channels))
    return on.channels


def _ranks_of_node(placed: PlacedGroup, facts: LibraryFacts) -> int:
    """The group's ranks on a node: in the innermost tier, or in as many as the GPUs of the node that
    the file gives graphs of are in."""
    if not isinstance(facts.channels, tuple):
        return placed.ranks_per_node
    whole = max(graphs.gpus for graphs in facts.channels)
    ranks = inside = 1
    for tier, members in zip(placed.fabric.tiers, placed.placement.per_domain, strict=True):
        inside *= tier.endpoints
        if inside > whole:
            break
        ranks *= members
    return ranks


def _nics(placed: PlacedGroup, facts: LibraryFacts) -> tuple[int, float]:
    """NICs of a node, and the rate of each in GB/s, of a group across nodes."""
    tier = placed.spans[0 if placed.ranks_per_node == 1 else 1].tier
    sizing = capabilities_of(tier).sizing
    count = placed.ranks_per_node * tier.ports
    if sizing is not None:
        count = min(count, sizing.rails * sizing.nics_per_rail)
    return facts.nics or count, tier.bandwidth / 1e9


def _link_share(placed: PlacedGroup, facts: LibraryFacts) -> float:
    """The NVLinks of a GPU over those that its generation usually has: 8 of 18 of an H800."""
    usual_Bps = _NVLINK_BPS.get(facts.gpu or "")
    if usual_Bps is None or placed.ranks_per_node == 1:
        return 1.0
    tier = placed.fabric.tiers[0]
    return tier.bandwidth * tier.ports / usual_Bps


def _has_wide_slots(fabric: Fabric, facts: LibraryFacts) -> bool:
    """Whether GPUs reach their NICs at more than PCIe 5: B300, and Grace's GPUs, which have no slot
    between them."""
    if facts.gpu != "blackwell":
        return False
    # what hosts are like is read from a table, which most prices do without
    from colltool.fabric.dumps.pci import usual_host

    slot_Bps = usual_host((fabric.device or "").upper()).slot_Bps
    return slot_Bps is None or slot_Bps > _PCIE_5_BPS


def _of_group(facts: LibraryFacts, placed: PlacedGroup, present: int) -> LibraryFacts:
    """The facts for the ``present`` ranks of each node that are in the group.

    NCCL searches anew for the ranks of a communicator. A file may have the graphs of several numbers of
    them; of others, and of graphs of whole nodes, the share of the ranks is taken.
    """
    inner = placed.fabric.tiers[0]
    whole = inner.endpoints if capabilities_of(inner).joins == "accelerators" else present
    several = present < placed.ranks
    channels = facts.channels
    nics = facts.nics
    # the ranks of a node that the channels are stated for
    stated = whole
    if isinstance(channels, tuple):
        whole = max(graphs.gpus for graphs in channels)
        fitting = []
        for graphs in channels:
            if graphs.gpus >= present and graphs.nodes == 1 + several:
                fitting.append(graphs)
        channels = min(fitting, key=attrgetter("gpus"), default=None)
        if channels is not None:
            stated = channels.gpus
    if channels is not None and several and present < stated:
        channels = _share_of(channels, present, stated)
    if nics is not None and several and present < whole:
        nics = max(1, nics * present // whole)
    return facts.model_copy(update={"nics": nics, "channels": channels})


def _share_of(channels: Channels, present: int, whole: int) -> Channels:
    """The channels of some ranks of a node."""

    def part(count: int | None) -> int | None:
        return None if count is None else max(1, count * present // whole)

    fewer: dict[str, Any] = {"total": part(channels.total)}
    for algorithm in ("ring", "tree", "nvls", "collnet"):
        graph: LibraryGraph | None = getattr(channels, algorithm)
        if graph is not None:
            fewer[algorithm] = graph.model_copy(update={"channels": part(graph.channels)})
    return channels.model_copy(update=fewer)


def _flat(facts: LibraryFacts) -> LibraryChannels:
    """The graphs that the facts of a group state."""
    assert not isinstance(facts.channels, tuple), "of one group"
    return facts.channels or LibraryChannels()


def check_switched(fabric: Fabric) -> None:
    """NCCL's model only covers switched fabrics: a ColltoolError if a tier is a lattice or a full
    mesh."""
    for tier in fabric.tiers:
        kind = capabilities_of(tier)
        if kind.joined_by != "switches":
            what = "NCCL does not run" if kind.axes else "NCCL's own choice is not known"
            topology = kind.label.replace("_", " ")
            raise ColltoolError(
                f"{what} on {fabric.name}: '{tier.name}' is a {topology}",
                argument="fabric",
                fix="its model needs tiers that are a star or a Clos",
            )


def _check_nodes(placed: PlacedGroup, facts: LibraryFacts) -> None:
    """NCCL's model is known for switched nodes of one size."""
    if placed.domains:
        raise ColltoolError(
            f"NCCL's own choice is not known between domains of {domains_text(placed.domains)}"
            " ranks",
            argument="fabric",
            fix=f"for nodes of one size it is: {even_domains(placed.fabric)}",
        )
    if not isinstance(facts.channels, tuple):
        check_switched(placed.fabric)


def _refuse_missing(
    fabric: Fabric, facts: LibraryFacts, numbers: Constants, nics: int, machine: GpuNodes
) -> None:
    """Refuse a group of which the model lacks a fact, and say how to state it."""
    names = []
    keys = []
    if facts.gpu is None:
        names.append("the GPU generation")
        keys.append("gpu: hopper")
    if facts.cpu is None and machine.nodes > 1:
        names.append("the hosts' CPU")
        keys.append("cpu: intel")
    why = "" if facts.gpu is None else _not_derived(facts, numbers, nics, machine)
    absent = _unstated_graphs(facts, machine) if why else []
    if absent:
        graph = "{channels: 8, inside: 40GB/s, across: 40GB/s}"
        names.append(f"the channels of {why}")
        keys.append(f"channels: {{{', '.join(f'{name}: {graph}' for name in absent)}}}")
    if not names:
        return
    stated = []
    for key in ("name", "version", "gpu", "cpu", "link", "nics", "collnet", "nvls", "gpudirect"):
        value = getattr(facts, key)
        if value is not None:
            stated.append(f'{key}: "{value}"' if key == "version" else f"{key}: {value}".lower())
    fix = f"write library: {{{', '.join(stated + keys)}}}"
    if absent:
        fix += f" with your numbers; {_PRINTED}"
    raise ColltoolError(
        f"NCCL's model needs {' and '.join(names)}, which {fabric.name} does not give",
        where="library",
        fix=fix,
    )


def _unstated_graphs(facts: LibraryFacts, machine: GpuNodes) -> list[str]:
    """The graphs that a machine needs and the fabric does not state."""
    needed = ["ring", "tree"]
    if facts.nvls is not False and machine.from_hopper:
        needed.append("nvls")
    stated = _flat(facts)
    if isinstance(stated, GroupChannels):
        return []
    return [name for name in needed if getattr(stated, name) is None]


def _not_derived(facts: LibraryFacts, numbers: Constants, nics: int, machine: GpuNodes) -> str:
    """The kind of machine whose channels cannot be derived. Empty if they can."""
    if facts.gpu not in numbers.search or facts.link == "pci":
        link = "PCIe" if facts.link == "pci" else "NVLink"
        return f"GPUs of {facts.gpu} joined by {link}"
    if machine.nodes > 1 and nics != machine.gpus:
        return f"a node of {machine.gpus} GPUs with {nics} NICs"
    return ""


def _graph_of(graph: LibraryGraph | None, gpu: Gpu) -> Graph | None:
    if graph is None:
        return None
    across = graph.inside if graph.across is None else graph.across
    rates = graph.inside / 1e9, across / 1e9
    latency_us = (graph.latency or 0.0) * 1e6
    if graph.types is None:
        return Graph(graph.channels, *rates, latency_us)
    between_gpus, to_nics = map(KINDS.index, graph.types)
    return Graph(
        graph.channels,
        *rates,
        latency_us,
        link="nvlink" if between_gpus == NVL else "pci",
        runs_ll128=keeps_order(between_gpus, to_nics, from_hopper=gpu in FROM_HOPPER),
    )
