"""Every algorithm of any-to-any fabrics, executed message by message: right result, and the counts
that its formula claims."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np
import pytest
from swept import swept

import colltool.algorithms
import colltool.extras.synthesis
from colltool.algorithms.binary_trees import depths, double_tree_arrays, one_root_tree_arrays
from colltool.algorithms.executor import Network, Outcome, run
from colltool.algorithms.program import Program, Step, program_maker, step
from colltool.algorithms.registry import find, usual_algorithms
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive, Route, totals
from colltool.network.group import Axis, Group, Topology
from tests.wiring import LatticeNetwork, MeshNetwork, Ports

SIZES = (2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 24, 31, 32, 33, 64, 100)
SEGMENTS = (1, 2, 7, 16)
ROWS: list[tuple[Primitive, str]] = [
    *((p, name) for name in ("chain", "binomial", "pipelined-tree") for p in (BC, REDUCE)),
    (BC, "scatter-allgather"),
    (P2P, "send"),
    *((AR, name) for name in ("ring", "tree", "double-binary-tree", "recursive-doubling")),
    *((AR, name) for name in ("rabenseifner", "one-shot", "two-shot")),
    *((p, name) for name in ("ring", "pat", "direct") for p in (AG, RS)),
    (AG, "recursive-doubling"),
    (RS, "recursive-halving"),
    *((A2A, name) for name in ("pairwise", "bruck", "direct")),
    *(
        (AR, name)
        for name in ("recursive-doubling-fold", "rabenseifner-fold", "rabenseifner-padded")
    ),
    *((AG, "recursive-doubling-fold"), (RS, "recursive-halving-fold")),
    *((p, "in-network") for p in (AR, RS, AG, BC, REDUCE, A2A)),
]
PIPELINED = [
    (BC, "chain"),
    (REDUCE, "chain"),
    (BC, "pipelined-tree"),
    (REDUCE, "pipelined-tree"),
    (AR, "double-binary-tree"),
]
AT_ONCE = [(AR, "one-shot"), (AR, "two-shot"), (AG, "direct"), (RS, "direct"), (A2A, "direct")]
LOCK_STEP = [row for row in ROWS if row not in PIPELINED and row[1] != "in-network"]


def group_of(n: int, topology: Topology = "star") -> Group:
    able = (
        frozenset({"reduce", "multicast", "all_to_all"}) if topology == "star" else frozenset[str]()
    )
    return Group(n, topology, scale_out=True, switch=able)


def made(primitive: Primitive, name: str, group: Group, segments: int = 1) -> Program:
    make = program_maker(primitive, name)
    assert make is not None, f"no maker of {name}"
    return make(group, segments)


def executed(primitive: Primitive, name: str, n: int, segments: int, net: Network) -> Program:
    program = made(primitive, name, group_of(n), segments)
    outcome = run(program, net.carry)
    assert outcome.holds, outcome.problem
    return program


def formula(primitive: Primitive, name: str, group: Group) -> tuple[float, float] | None:
    """(n_α, n_β) of the registered row, or None where it is not feasible."""
    row = find(primitive, name)
    if row.why_not(group):
        return None
    schedule = row.schedule(group)
    return totals(schedule)


def cases(rows: list[tuple[Primitive, str]]) -> list[tuple[Primitive, str, int]]:
    """The rows at every size where they are feasible."""
    return [(*row, n) for row in rows for n in SIZES if formula(*row, group_of(n)) is not None]


def is_one_more_than_a_power_of_two(n: int) -> bool:
    return n & (n - 1) != 0 and (n - 1) & (n - 2) == 0


# Where an executed schedule does not do exactly what its formula says, and by how much. ``hops``
# and ``peak`` follow.


def hops_short_of(primitive: Primitive, name: str) -> int:
    """In-network broadcast and reduce: two links, up and down, but one pass through the switch,
    which is what n_α counts."""
    return -1 if name == "in-network" and primitive in (BC, REDUCE) else 0


def peak_of_trees(n: int, segments: int, depth: int) -> float:
    """Two-tree broadcast and reduce: (L+P-1)/P, but for levels with a single edge in each tree,
    half a segment's worth.

    N = 3: its only level below the top; N = 2^k + 1 with P = 1: the level under the top.
    """
    thin = n == 3 or (segments == 1 and is_one_more_than_a_power_of_two(n))
    return (depth + segments - 1 - thin / 2) / segments


def peak_of_double_tree(n: int, segments: int, depth: int) -> float:
    """Double binary tree, from P = L-1 on: (2P+L-3)/P, at N = 2^k + 1 one less in 2P+L-3; below the
    formula's 2(L+P-1)/P.

    The load of 2/P is that of a step in which every edge works both ways; while the pipe fills and
    drains it is 1/P to 1.5/P.
    Two ranks (load 1 each way, no more than the vector) and three (1.5) never reach it.
    """
    if n == 2:
        return 1.0
    if n == 3:
        return (1.5 * segments + 1.5) / segments
    return (2 * segments + depth - 3 - is_one_more_than_a_power_of_two(n)) / segments


@swept(("primitive", "name", "n"), cases(LOCK_STEP))
def test_lock_step_schedules_do_what_their_formulas_say(
    primitive: Primitive, name: str, n: int
) -> None:
    net = Ports(n)
    executed(primitive, name, n, 1, net)
    assert (net.hops, net.peak) == pytest.approx(formula(primitive, name, group_of(n)), rel=1e-12)


@swept("segments", SEGMENTS)
@swept(("primitive", "name", "n"), cases(PIPELINED))
def test_pipelined_schedules_take_l_plus_p_minus_1_steps(
    primitive: Primitive, name: str, n: int, segments: int
) -> None:
    net = Ports(n)
    executed(primitive, name, n, segments, net)
    claimed = formula(primitive, name, group_of(n))
    assert claimed is not None
    depth, load = int(claimed[0]), claimed[1]
    steps = depth + segments - 1
    assert net.hops == steps
    assert net.peak <= load * steps / segments + 1e-12
    if name == "chain":
        assert (net.peak, net.busiest) == pytest.approx((steps / segments, 1.0), rel=1e-12)
    elif name == "pipelined-tree":
        assert (net.peak, net.busiest) == pytest.approx(
            (peak_of_trees(n, segments, depth), 1.0), rel=1e-12
        )
    else:
        assert net.busiest == pytest.approx({2: 1.0, 3: 1.5}.get(n, load), rel=1e-12)
        if segments >= depth - 1:
            assert net.peak == pytest.approx(peak_of_double_tree(n, segments, depth), rel=1e-12)
        else:
            assert net.peak <= (2 * segments + depth - 3) / segments + 1e-12


@swept("n", [2, 3, 4, 9, 17, 100])
def test_the_double_binary_tree_in_one_segment_is_two_trees_side_by_side(n: int) -> None:
    """P = 1: a step that forks or joins carries M, the two at the roots half of it each; the
    formula's row is 2 L."""
    net, depth = Ports(n), 2 * (n - 1).bit_length()
    executed(AR, "double-binary-tree", n, 1, net)
    assert net.peak == pytest.approx(
        {2: 1.0, 3: 2.0}.get(n, depth - 1 - is_one_more_than_a_power_of_two(n))
    )


@pytest.mark.alike(3)
@pytest.mark.parametrize("segments", [400, 1600])
@pytest.mark.parametrize("n", [4, 9, 12])
def test_many_segments_come_to_the_asymptotic_rows(n: int, segments: int) -> None:
    for primitive, name in PIPELINED:
        net = Ports(n)
        executed(primitive, name, n, segments, net)
        claimed = formula(primitive, name, group_of(n))
        assert claimed is not None
        assert claimed[1] <= net.peak < claimed[1] + 16 / segments


@swept(("primitive", "name", "n"), cases([row for row in ROWS if row[1] == "in-network"]))
def test_in_network_schedules_load_their_ports_as_claimed(
    primitive: Primitive, name: str, n: int
) -> None:
    net = Ports(n)
    program = executed(primitive, name, n, 1, net)
    claimed = formula(primitive, name, group_of(n))
    assert claimed is not None
    assert (program.streamed, program.nodes) == (True, n + 1)
    assert (net.hops + hops_short_of(primitive, name), net.busiest) == pytest.approx(
        claimed, rel=1e-12
    )


@swept("n", SIZES)
@swept(("primitive", "name"), AT_ONCE)
def test_all_links_of_a_full_mesh_at_once(primitive: Primitive, name: str, n: int) -> None:
    group, net = group_of(n, "full_mesh"), MeshNetwork(n)
    outcome = run(made(primitive, name, group), net.carry)
    assert outcome.holds, outcome.problem
    assert (net.hops, net.peak) == pytest.approx(formula(primitive, name, group), rel=1e-12)


BIG = [
    (AR, "ring"),
    (AR, "rabenseifner"),
    (AR, "two-shot"),
    (AG, "pat"),
    (RS, "pat"),
    (A2A, "bruck"),
    (A2A, "direct"),
]


@pytest.mark.ci
@swept(("primitive", "name"), BIG)
def test_512_ranks(primitive: Primitive, name: str) -> None:
    net = Ports(512)
    executed(primitive, name, 512, 1, net)
    assert (net.hops, net.peak) == pytest.approx(formula(primitive, name, group_of(512)), rel=1e-9)


@swept(("primitive", "name"), PIPELINED)
def test_512_ranks_pipelined(primitive: Primitive, name: str) -> None:
    net = Ports(512)
    executed(primitive, name, 512, 32, net)
    depth = {"chain": 511, "pipelined-tree": 9, "double-binary-tree": 18}[name]
    peak = peak_of_double_tree(512, 32, depth) if primitive is AR else (depth + 31) / 32
    assert (net.hops, net.peak) == pytest.approx((depth + 31, peak))


@swept(
    ("axes", "peak"),
    [
        ([Axis(5, True)], 1.0),
        ([Axis(2, True), Axis(3, True)], 1.0),
        ([Axis(4, True), Axis(5, True)], 1.0),
        ([Axis(4, False), Axis(3, False)], 1.0),
        # Half round an even ring both ways are as short: the lattice splits the message, the
        # formula sends it one way.
        ([Axis(4, True)], 0.5),
        ([Axis(4, True), Axis(6, True)], 0.5),
    ],
)
def test_send_goes_to_the_farthest_rank_of_a_lattice(axes: list[Axis], peak: float) -> None:
    net = LatticeNetwork(axes)
    closed = all(axis.wrap for axis in axes)
    group = Group(net.ranks, "torus" if closed else "mesh", axes=tuple(axes))
    outcome = run(made(P2P, "send", group), net.carry)
    assert outcome.holds, outcome.problem
    assert (net.hops, net.peak) == (formula(P2P, "send", group)[0], peak)  # type: ignore[index]


def test_every_algorithm_of_one_any_to_any_tier_is_executed_here() -> None:
    assert {
        (row.primitive, row.name) for row in usual_algorithms() if "star" in row.topologies
    } == set(ROWS)


COSTS = {route.__name__ for route in get_args(Route)} | {"Terms", "Schedule", "Pipeline"}


class Definition(NamedTuple):
    """A function or class of a module, with the names that it uses and what registers it."""

    uses: frozenset[str]
    is_formula: bool
    is_messages: bool


def names_in(node: ast.AST) -> frozenset[str]:
    return frozenset(child.id for child in ast.walk(node) if isinstance(child, ast.Name))


def definitions(module: str) -> dict[str, Definition]:
    """Everything that a module defines by def, class or assignment; its registrations of messages
    that are written elsewhere are left out, as these are looked at there."""
    tree = ast.parse(Path(str(import_module(module).__file__)).read_text(encoding="utf-8"))
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            makers = frozenset().union(*map(names_in, node.decorator_list))
            returned = names_in(node.returns) if node.returns is not None else frozenset()
            found[node.name] = Definition(
                names_in(node), bool(returned & COSTS), bool(makers & {"schedule", "moves"})
            )
        elif isinstance(node, ast.ClassDef):
            found[node.name] = Definition(names_in(node), False, False)
        elif isinstance(node, ast.Assign):
            for target in names_in(node):
                found.setdefault(target, Definition(names_in(node.value), False, False))
    return found


FAMILIES = [
    module.__name__
    for package in (colltool.algorithms, colltool.extras.synthesis)
    for module in vars(package).values()
    if inspect.ismodule(module) and module.__name__.startswith(package.__name__)
]


@swept("module", FAMILIES)
def test_messages_do_not_know_the_formulas(module: str) -> None:
    """What a schedule sends is written from its definition: were it derived from the formula, its
    execution would prove nothing."""
    known = definitions(module)
    waiting = [name for name, definition in known.items() if definition.is_messages]
    reached = set(waiting)
    while waiting:
        used = known[waiting.pop()].uses
        assert not used & COSTS
        assert not {name for name in used if name in known and known[name].is_formula}
        new = {name for name in used if name in known} - reached
        waiting += new
        reached |= new


def test_the_reader_of_definitions_tells_messages_from_formulas() -> None:
    found = definitions("colltool.algorithms.broadcast")
    assert found["chain"].is_formula
    assert found["_chain"].is_messages
    assert {"binomial_steps", "_send"} <= {name for name, some in found.items() if some.is_messages}
    assert "pipelined_tree" in {name for name, some in found.items() if some.is_formula}


# The two trees themselves.


@swept("n", [*SIZES, 63, 65, 511, 512])
def test_the_two_trees_are_binary_complementary_and_shallow(n: int) -> None:
    for trees, roots in ((double_tree_arrays(n), 2), (one_root_tree_arrays(n), 1)):
        interior = []
        for parents in trees:
            children = np.bincount(parents[parents >= 0], minlength=n)
            assert children.max() <= 2
            assert (parents < 0).sum() == 1
            assert children[parents < 0] == 1
            assert depths(parents).max() == (n - 1).bit_length()
            interior.append((children > 0) & (parents >= 0))
        assert not (interior[0] & interior[1]).any()
        assert len({int(np.flatnonzero(parents < 0)[0]) for parents in trees}) == roots


def test_the_two_trees_of_eight_are_nccls() -> None:
    first, second = double_tree_arrays(8)
    assert list(first) == [-1, 2, 4, 2, 0, 6, 4, 6]
    assert list(second) == [1, 3, 1, 7, 5, 3, 5, -1]


# Mutations: every schedule below is broken in one place, and the machine must notice.


def judged(program: Program, batches: list[tuple[Step, ...]]) -> Outcome:
    return run(program._replace(batches=iter(batches)))


def without(one: Step, at: int) -> Step:
    return Step(*(np.delete(column, at) for column in one[:3]), one.add)


# Scatter-allgather sends blocks to ranks that have them already: losing one of those does no harm.
FRUGAL = [row for row in ROWS if row[1] != "scatter-allgather"]


def runs_on_powers(primitive: Primitive, name: str) -> bool:
    return formula(primitive, name, group_of(8)) is not None


def runs_off_powers(primitive: Primitive, name: str) -> bool:
    return formula(primitive, name, group_of(6)) is not None


SMALL = {(True, True): (2, 5, 6), (True, False): (3, 5, 6, 7), (False, True): (4, 8)}


def eight_or_six(primitive: Primitive, name: str) -> Group:
    return group_of(8 if runs_on_powers(primitive, name) else 6)


@swept(("primitive", "name"), FRUGAL)
def test_every_single_message_counts(primitive: Primitive, name: str) -> None:
    for n in SMALL[runs_off_powers(primitive, name), runs_on_powers(primitive, name)]:
        batches = list(made(primitive, name, group_of(n), 3).batches)
        for b, batch in enumerate(batches):
            for s, one in enumerate(batch):
                for at in range(len(one.src)):
                    fewer = (*batch[:s], without(one, at), *batch[s + 1 :])
                    broken = [
                        *batches[:b],
                        *([fewer] if any(len(x.src) for x in fewer) else []),
                        *batches[b + 1 :],
                    ]
                    assert not judged(made(primitive, name, group_of(n), 3), broken).holds


def test_scatter_allgather_can_lose_only_what_a_rank_already_has() -> None:
    batches = list(made(BC, "scatter-allgather", group_of(6)).batches)
    held = set(product([0], range(6)))
    spare = 0
    for b, (one,) in enumerate(batches):
        for at, arrival in enumerate(zip(one.dst.tolist(), one.chunk.tolist(), strict=True)):
            fewer = without(one, at)
            broken = [*batches[:b], *([(fewer,)] if len(fewer.src) else []), *batches[b + 1 :]]
            assert judged(made(BC, "scatter-allgather", group_of(6)), broken).holds == (
                arrival in held
            )
            spare += arrival in held
        held |= set(zip(one.dst.tolist(), one.chunk.tolist(), strict=True))
    # of the root, of ranks 2 and 4: what the scatter left there beyond their own blocks
    assert spare == 5 + 1 + 1


SUMMED = [row for row in ROWS if row[0] in (AR, RS, REDUCE)]


@swept(("primitive", "name"), SUMMED)
def test_no_message_may_be_added_twice(primitive: Primitive, name: str) -> None:
    program = made(primitive, name, eight_or_six(primitive, name), 3)
    batches = list(program.batches)
    for b, batch in enumerate(batches):
        for s, one in enumerate(batch):
            if not one.add:
                continue
            twice = step(*(np.append(column, column[:1]) for column in one[:3]), add=True)
            broken = [*batches[:b], (*batch[:s], twice, *batch[s + 1 :]), *batches[b + 1 :]]
            assert not judged(program, broken).holds
            assert not judged(program, [*batches[: b + 1], (one,), *batches[b + 1 :]]).holds


@swept(("primitive", "name"), [row for row in ROWS if row[0] in (A2A, P2P)])
def test_no_chunk_may_be_moved_twice(primitive: Primitive, name: str) -> None:
    program = made(primitive, name, group_of(8))
    batches = list(program.batches)
    for b, batch in enumerate(batches):
        assert (
            "does not hold"
            in judged(program, [*batches[: b + 1], batch, *batches[b + 1 :]]).problem
        )
        assert (
            "twice" in judged(program, [*batches[:b], (*batch, *batch), *batches[b + 1 :]]).problem
        )


# These run in any order: their messages do not build on each other, or build up the same sums.
ONE_STEP = ("send", "one-shot", "direct")
ANY_ORDER = [(AR, "recursive-doubling"), (A2A, "pairwise")]


@swept(
    ("primitive", "name"), [row for row in ROWS if row[1] not in ONE_STEP and row not in ANY_ORDER]
)
def test_nothing_may_be_sent_before_it_was_received(primitive: Primitive, name: str) -> None:
    program = made(primitive, name, eight_or_six(primitive, name), 3)
    batches = list(program.batches)
    assert len(batches) > 1
    outcome = judged(program, batches[::-1])
    assert not outcome.holds
    if primitive in (AG, BC):
        assert "before it has it" in outcome.problem
    if primitive is A2A:
        assert "does not hold" in outcome.problem


def swapped(one: Step) -> Step | None:
    """The step with the chunks exchanged between two messages of different ends, or None if all
    carry the same chunk."""
    for other in range(1, len(one.src)):
        if one.chunk[other] != one.chunk[0] and (one.src[other], one.dst[other]) != (
            one.src[0],
            one.dst[0],
        ):
            chunk = one.chunk.copy()
            chunk[[0, other]] = chunk[[other, 0]]
            return one._replace(chunk=chunk)
    return None


@swept(("primitive", "name"), [row for row in ROWS if row[1] != "scatter-allgather"])
def test_no_two_chunks_may_be_swapped(primitive: Primitive, name: str) -> None:
    program = made(primitive, name, eight_or_six(primitive, name), 3)
    batches = list(program.batches)
    tried = 0
    for b, batch in enumerate(batches):
        for s, one in enumerate(batch):
            wrong = swapped(one)
            if wrong is not None:
                tried += 1
                assert not judged(
                    program, [*batches[:b], (*batch[:s], wrong, *batch[s + 1 :]), *batches[b + 1 :]]
                ).holds
    assert tried or (program.chunk_bytes == 1.0).all()
