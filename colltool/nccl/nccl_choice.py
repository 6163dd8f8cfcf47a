"""What NCCL would run for a call by its own cost model, beside our price of it; the parts of its
estimates; and the hardware of a group that the model needs, with errors that name missing facts and
how to state them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from colltool.base.errors import ColltoolError, said
from colltool.base.primitives import Primitive
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import Readings
from colltool.estimate.candidates import Candidates, candidates_for
from colltool.estimate.groups import PlacedGroup, SameFabric, library_runs, place
from colltool.estimate.placement import AnyGroup
from colltool.estimate.price import price, rows_at
from colltool.estimate.results import Crossover, LibraryChoice, Price, Winner
from colltool.fabric.ground import has_gpudirect
from colltool.fabric.library import LibraryChannels, LibraryFacts, LibraryGraph
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import domains_text, even_domains
from colltool.nccl.hardware import FORGET, Constants, GpuNodes, Graph, Hardware, constants, tuned
from colltool.nccl.model import cheapest, estimates, pick, picks, switch_points
from colltool.nccl.rules import rules_of, spec_of

if TYPE_CHECKING:
    from colltool.estimate.explain import AlgorithmExplanation, Explanation, NcclEstimateParts

WITH_A_MODEL = ("nccl",)
"""Libraries whose cost model is known."""
SIMPLE = "simple"


def with_library_choice(
    prices: Sequence[Price], fabric: Fabric, readings: Readings, *, asked: bool, lead: bool = True
) -> tuple[Price, ...]:
    """Add the library's own pick to prices of one primitive and group; unchanged if its cost model
    is not known.

    ``asked``: the user named the library, so a model that cannot be computed is an error; otherwise
    a reason in the answer.
    ``lead``: the pick is the first of the rows.
    """
    first = prices[0]
    if first.library is None or first.library.name not in WITH_A_MODEL:
        return tuple(prices)
    reason = ""
    if first.primitive not in _tuned(fabric):
        reason = f"NCCL has one way for {first.primitive.spoken}: there is nothing to choose"
    elif not all(isinstance(one.bytes, float) for one in prices):
        reason = "an array of sizes has no single pick: price_list has one for each size"
    linked = any(
        capabilities_of(tier).joined_by in ("pair_links", "routes") for tier in fabric.tiers
    )
    if reason and not linked:
        check_switched(fabric)
    elif not reason:
        try:
            hardware = hardware_on(fabric, first.group.spec)
        except ColltoolError as error:
            if asked and not fabric.domains and not linked:
                raise
            reason = f"{said(error.what)}; {said(error.fix)}"
    if reason:
        return tuple(
            replace(one, library=LibraryChoice(one.library.name, reason=reason))
            for one in prices
            if one.library
        )
    return tuple(_with_pick(one, fabric, hardware, readings, lead=lead) for one in prices)


def _with_pick(
    one: Price, fabric: Fabric, on: Hardware, readings: Readings, *, lead: bool
) -> Price:
    """With the pick beside the rows, and first of them if it is one: what is shown first is what
    runs."""
    assert isinstance(one.bytes, float)  # arrays have no single pick
    ways = tuple(estimates(on, one.primitive, one.bytes))
    best = cheapest(ways)
    spec = spec_of(best.algorithm, one.primitive, on)
    runs: AlgorithmEstimate | None = next((row for row in one.results if row.spec == spec), None)
    # a list is all that runs
    if runs is None and spec and not library_runs(place(fabric, one.group.spec), one.primitive):
        with suppress(ColltoolError):  # it cannot run with this fabric's numbers
            runs = price(fabric, one.primitive, one.bytes, one.group.spec, readings, [spec]).best
    if runs is not None and runs.protocol and best.protocol == SIMPLE and on.nodes > 1:
        runs = _under_simple(runs, candidates_for(fabric, one.group.spec, one.primitive, readings))
    picked = replace(one, library=LibraryChoice("nccl", on.version, best, ways, runs))
    behind = tuple(row for row in one.results if runs is not None and row.title != runs.title)
    if not lead or runs is None or not runs.selectable or len(behind) == len(one.results):
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
    if fabric.library_name not in WITH_A_MODEL or primitive not in _tuned(fabric):
        return None
    try:
        on = hardware_on(fabric, group)
    except ColltoolError:
        return None
    tiers = len(place(fabric, group).spans)
    specs = [(spec_of(one.algorithm, primitive, on), one) for one in picks(on, primitive, sizes)]
    # NCCL knows nodes and what joins them; over more tiers nothing here is its composition
    fitting = [
        ("" if ":" in spec and spec.count("/") + 1 != tiers else spec, one) for spec, one in specs
    ]
    return [Picked(spec, one.protocol == SIMPLE and on.nodes > 1) for spec, one in fitting]


def price_of_pick(
    fabric: Fabric, primitive: Primitive, size: float, group: AnyGroup, readings: Readings
) -> Price | None:
    """The row that :func:`with_library_choice` would put first, priced alone; None where only the
    whole list can tell."""
    if readings.phases != "auto" or library_runs(place(fabric, group), primitive):
        return None
    picked = picked_at(fabric, group, primitive, [size])
    if not picked or not picked[0].spec:
        return None
    try:
        found = price(fabric, primitive, size, group, readings, [picked[0].spec])
    except ColltoolError:  # it cannot run with this fabric's numbers
        return None
    if picked[0].simple and found.best.protocol:
        row = _under_simple(found.best, candidates_for(fabric, group, primitive, readings))
        return replace(found, results=(row,))
    return found


def _under_simple(row: AlgorithmEstimate, listed: Candidates) -> AlgorithmEstimate:
    """A schedule under Simple where NCCL picks that, though LL128 may be faster there, as rings of
    many nodes are.

    Where it picks LL or LL128 the faster stands: their border moves with the version, and a fit's
    names are not quite NCCL's.
    """
    size = float(row.bytes)
    own = (
        one
        for one in listed.named([row.spec], [size])
        if one.title == row.title and one.protocol.lower() == SIMPLE
    )
    costed = next(own, None)
    return (
        row
        if costed is None or row.protocol == costed.protocol
        else rows_at(listed, [costed], size)[0]
    )


def _tuned(fabric: Fabric) -> tuple[Primitive, ...]:
    facts = fabric.library_facts
    return tuned((facts and facts.version) or "")


def with_library_picks(found: Crossover, fabric: Fabric) -> Crossover:
    """Add the library's own pick at each size, if known."""
    if found.library not in WITH_A_MODEL or found.primitive not in _tuned(fabric):
        return found
    try:
        on = hardware_on(fabric, found.group.spec)
    except ColltoolError:
        return found
    turns = switch_points(on, found.primitive)
    ends = [*(turn.from_bytes for turn in turns[1:]), None]
    picks = (
        Winner(
            turn.from_bytes,
            end,
            turn.algorithm,
            turn.protocol,
            spec_of(turn.algorithm, found.primitive, on),
        )
        for turn, end in zip(turns, ends, strict=True)
    )
    return replace(found, picks=tuple(picks))


def with_estimates(found: Explanation, fabric: Fabric, *, asked: bool) -> Explanation:
    """Add the parts of NCCL's estimate to each entry that NCCL runs, if the explanation has a
    group.

    ``asked``: the user named the library, so missing facts are an error; otherwise they leave it
    unchanged.
    """
    if found.group is None:
        return found
    try:
        on = hardware_on(fabric, found.group.spec)
    except ColltoolError:
        if asked:
            raise
        return found
    entries = tuple(
        one._replace(estimates=tuple(_parts(one, on, found.bytes))) for one in found.entries
    )
    return replace(found, entries=entries, library=f"NCCL {on.version}")


def _parts(entry: AlgorithmExplanation, on: Hardware, size: float) -> Iterator[NcclEstimateParts]:
    from colltool.estimate.explain import NcclEstimateParts

    primitive = entry.primitive
    if primitive not in on.constants.algorithms:
        return
    rules, chosen = rules_of(on.constants), pick(on, primitive, size)
    for one in estimates(on, primitive, size):
        if one.seconds is None or spec_of(one.algorithm, primitive, on) != (
            entry.row.spec if entry.row else entry.algorithm
        ):
            continue
        assert one.latency_s is not None  # it runs
        assert one.bandwidth_Bps is not None
        what = (on, primitive, one.algorithm, one.protocol)
        terms, bandwidth = rules.latency_terms(*what), rules.bandwidth_GBps(*what) * 1e9
        whole = sum(term.times * term.us for term in terms) * 1e-6
        yield NcclEstimateParts(
            algorithm=one.algorithm,
            protocol=one.protocol,
            latency=tuple(
                (term.name, term.times, term.us * 1e-6) for term in terms if term.times and term.us
            ),
            plateau=float(one.latency_s) / whole if whole else 1.0,
            bus_Bps=rules.bus_GBps(*what) * 1e9,
            bandwidth_Bps=bandwidth,
            correction=float(one.bandwidth_Bps) / bandwidth,
            seconds=float(one.seconds),
            picked=(one.algorithm, one.protocol) == (chosen.algorithm, chosen.protocol),
        )


_MOST_GPUS = 8  # of a node whose channels are derived; NVL72 is not
_PRINTED = "NCCL prints them: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH"


def hardware_on(fabric: Fabric, group: AnyGroup = None) -> Hardware:
    """The hardware of a group (default: the whole fabric); a ColltoolError if it does not fit, or
    as :func:`hardware_of`."""
    found = _found_on(SameFabric(fabric), group)
    if isinstance(found, ColltoolError):
        raise ColltoolError(found.what, where=found.where, argument=found.argument, fix=found.fix)
    return found


@lru_cache(maxsize=256)
def _found_on(where: SameFabric, group: AnyGroup) -> Hardware | ColltoolError:
    """Caches errors too: every price on a fabric that lacks a fact asks again."""
    try:
        return hardware_of(place(where.fabric, group))
    except ColltoolError as error:
        return error


FORGET.append(_found_on.cache_clear)


def hardware_of(placed: PlacedGroup) -> Hardware:
    """The hardware of a group.

    Nodes are NVLink domains: those of the innermost tier if it joins accelerators, else each rank
    is one. A node has the NICs that ``sizing`` counts, at most ``ports`` per rank of the group;
    each has the bandwidth of the next tier.

    Raises:
        ColltoolError: NCCL does not run on the fabric, there is no data for its version, or facts
            are missing.
    """
    fabric, ranks = placed.fabric, placed.ranks_per_node
    _check_nodes(placed)
    facts = _of_members(fabric.library_facts or LibraryFacts(name="nccl"), placed)
    numbers, nodes = constants(facts.version or ""), placed.ranks // ranks
    across, alone = nodes > 1, ranks == 1
    nics, nic_GBps = _nics(placed, facts) if across else (0, 0.0)
    staged = across and not has_gpudirect(fabric)
    machine = GpuNodes(facts.gpu or "volta", nodes, ranks, nic_GBps, staged, facts.cpu or "intel")
    _refuse_missing(fabric, facts, numbers, nics, machine)
    assert facts.gpu is not None  # not missing
    given, rules = facts.channels or LibraryChannels(), rules_of(numbers)
    ring = _given(given.ring) or rules.ring_graph(numbers, machine)
    nvls = collnet = None
    inside = capabilities_of(placed.spans[0].tier)
    multicast = inside.joins == "accelerators" and {"reduce", "multicast"} <= inside.operations
    if facts.nvls is not False and not alone and multicast and machine.from_hopper:
        nvls = _given(given.nvls) or rules.nvls_graph(numbers, machine)
    if facts.collnet and across:
        known = machine.gpu in numbers.search
        collnet = _given(given.collnet) or (
            rules.collnet_graph(numbers, machine) if known else ring
        )
    return Hardware(
        version=numbers.version,
        gpu=facts.gpu,
        cpu=facts.cpu or "intel",  # on one node nothing asks for it
        nodes=nodes,
        ranks_per_node=ranks,
        nics=nics,
        link=facts.link or "nvlink",
        nvswitch=not alone and facts.link != "pci",
        nvls=nvls is not None,
        collnet=bool(facts.collnet),
        ring=ring,
        tree=_given(given.tree) or rules.tree_graph(numbers, machine),
        nvls_graph=nvls,
        collnet_graph=collnet,
        channels=given.total or rules.communicator_channels(numbers, machine, ring),
        simple_tree=across and (alone or machine.from_hopper),
        gpudirect=not staged,
        same_channels=alone or not across,
    )


def _nics(placed: PlacedGroup, facts: LibraryFacts) -> tuple[int, float]:
    """Of a node, and the rate of each in GB/s."""
    tier = placed.spans[0 if placed.ranks_per_node == 1 else 1].tier
    sizing, most = capabilities_of(tier).sizing, placed.ranks_per_node * tier.ports
    return (
        facts.nics or (min(most, sizing.rails * sizing.nics_per_rail) if sizing else most),
        tier.bandwidth / 1e9,
    )


def _of_members(facts: LibraryFacts, placed: PlacedGroup) -> LibraryFacts:
    """Scale a node's NICs and channels to the ranks of it that are in the group.

    NCCL searches anew for the ranks of a communicator, but channels given by the user are for whole
    nodes.
    """
    whole, own = placed.fabric.tiers[0].endpoints, placed.ranks_per_node
    if (
        placed.nodes == 1
        or capabilities_of(placed.fabric.tiers[0]).joins != "accelerators"
        or own == whole
    ):
        return facts

    def part(count: int | None) -> int | None:
        return None if count is None else max(1, count * own // whole)

    channels = facts.channels
    if channels is not None:
        graphs = {name: getattr(channels, name) for name in ("ring", "tree", "nvls", "collnet")}
        fewer = {
            name: one and one.model_copy(update={"channels": part(one.channels)})
            for name, one in graphs.items()
        }
        channels = channels.model_copy(update=fewer | {"total": part(channels.total)})
    return facts.model_copy(update={"nics": part(facts.nics), "channels": channels})


def check_switched(fabric: Fabric) -> None:
    """NCCL's model only covers switched fabrics: a ColltoolError if a tier is a lattice or a full
    mesh."""
    for tier in fabric.tiers:
        if capabilities_of(tier).joined_by != "switches":
            where = (
                f"on {fabric.name}: '{tier.name}' is a"
                f" {capabilities_of(tier).spoken.replace('_', ' ')}"
            )
            what = (
                "NCCL does not run"
                if capabilities_of(tier).axes
                else "NCCL's own choice is not known"
            )
            raise ColltoolError(
                f"{what} {where}",
                argument="fabric",
                fix="its model needs tiers that are a star or a Clos",
            )


def _check_nodes(placed: PlacedGroup) -> None:
    """NCCL's model is known for switched nodes of one size."""
    if placed.domains:
        what = (
            f"NCCL's own choice is not known between domains of {domains_text(placed.domains)}"
            " ranks"
        )
        raise ColltoolError(
            what,
            argument="fabric",
            fix=f"for nodes of one size it is: {even_domains(placed.fabric)}",
        )
    check_switched(placed.fabric)


def _refuse_missing(
    fabric: Fabric, facts: LibraryFacts, numbers: Constants, nics: int, machine: GpuNodes
) -> None:
    missing, channels = [], ""
    if facts.gpu is None:
        missing.append(("the GPU generation", "gpu: hopper"))
    if facts.cpu is None and machine.nodes > 1:
        missing.append(("the hosts' CPU", "cpu: intel"))
    if facts.gpu is not None and (why := _not_derived(facts, numbers, nics, machine)):
        wanted = [
            "ring",
            "tree",
            *(["nvls"] if facts.nvls is not False and machine.from_hopper else []),
        ]
        absent = [
            name for name in wanted if getattr(facts.channels or LibraryChannels(), name) is None
        ]
        channels = ", ".join(
            f"{name}: {{channels: 8, inside: 40GB/s, across: 40GB/s}}" for name in absent
        )
        if absent:
            missing.append((f"the channels of {why}", f"channels: {{{channels}}}"))
    if not missing:
        return
    keys = ("name", "version", "gpu", "cpu", "link", "nics", "collnet", "nvls", "gpudirect")
    given = {key: value for key in keys if (value := getattr(facts, key)) is not None}
    told = [
        f'{key}: "{value}"' if key == "version" else f"{key}: {str(value).lower()}"
        for key, value in given.items()
    ]
    what = (
        f"NCCL's model needs {' and '.join(name for name, _ in missing)}, which {fabric.name} does"
        " not give"
    )
    fix = f"write library: {{{', '.join([*told, *(key for _, key in missing)])}}}"
    raise ColltoolError(
        what, where="library", fix=f"{fix} with your numbers; {_PRINTED}" if channels else fix
    )


def _not_derived(facts: LibraryFacts, numbers: Constants, nics: int, machine: GpuNodes) -> str:
    """The kind of machine whose channels cannot be derived; empty if they can."""
    if facts.gpu not in numbers.search or facts.link == "pci":
        return f"GPUs of {facts.gpu} joined by {'PCIe' if facts.link == 'pci' else 'NVLink'}"
    if machine.gpus > _MOST_GPUS:
        return f"a node of {machine.gpus} GPUs"
    if machine.nodes > 1 and nics != machine.gpus:
        return f"a node of {machine.gpus} GPUs with {nics} NICs"
    return (
        "NICs of more than 400 Gbps" if facts.gpu == "blackwell" and machine.nic_GBps > 50 else ""
    )


def _given(graph: LibraryGraph | None) -> Graph | None:
    if graph is None:
        return None
    across = graph.inside if graph.across is None else graph.across
    return Graph(graph.channels, graph.inside / 1e9, across / 1e9)
