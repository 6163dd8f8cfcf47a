"""What holds of every estimate: pieces are the estimates, arrays are their scalars, the pick is the
least, reasons are told."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, BC, P2P, RS, Primitive
from colltool.libraries.nccl.hardware import ALGORITHMS, PROTOCOLS, Hardware
from colltool.libraries.nccl.model import estimates, pick, picks, pieces, switch_points
from tests.nccl_machines import machine

MACHINES = (
    machine(1),
    machine(1, gpus=4),
    machine(2),
    machine(3),
    machine(8, collnet=True),
    machine(16, cpu="amd", nvls=False),
    machine(5, gpus=1),
    machine(8, gpu="blackwell"),
    machine(4, gpu="ampere", nic="25GB/s"),
)
machines = st.sampled_from(MACHINES)
primitives = st.sampled_from((AR, AG, RS, BC))
sizes = st.one_of(
    st.floats(1, 2.0**34),
    st.integers(0, 34).map(lambda exponent: 2.0**exponent),
    st.integers(1, 2**34).map(float),
)


@given(machines, primitives, sizes)
def test_all_21_in_nccls_order_of_scanning(on: Hardware, primitive: Primitive, size: float) -> None:
    found = [(one.algorithm, one.protocol) for one in estimates(on, primitive, size)]
    assert found == [(algorithm, protocol) for algorithm in ALGORITHMS for protocol in PROTOCOLS]


@given(machines, primitives, sizes)
def test_who_cannot_run_says_why_and_has_no_price(
    on: Hardware, primitive: Primitive, size: float
) -> None:
    for one in estimates(on, primitive, size):
        assert (one.seconds is None) == bool(one.reason)


@given(machines, primitives, sizes)
def test_the_pick_is_the_first_of_the_least(
    on: Hardware, primitive: Primitive, size: float
) -> None:
    known = [one for one in estimates(on, primitive, size) if one.seconds is not None]
    least = min(float(one.seconds or 0) for one in known)
    assert pick(on, primitive, size) == next(one for one in known if one.seconds == least)


@given(machines, primitives, sizes)
def test_the_map_of_picks_has_what_is_picked(
    on: Hardware, primitive: Primitive, size: float
) -> None:
    flip = [one for one in switch_points(on, primitive) if one.from_bytes <= size][-1]
    best = pick(on, primitive, size)
    (here,) = (one for one in estimates(on, primitive, size) if one[:2] == flip[1:])
    assert here.seconds == pytest.approx(best.seconds, rel=1e-9)


@given(machines, primitives)
def test_the_map_of_picks_changes_at_every_entry(on: Hardware, primitive: Primitive) -> None:
    found = switch_points(on, primitive)
    assert found[0].from_bytes == 1
    for one, other in pairwise(found):
        assert one.from_bytes < other.from_bytes
        assert one[1:] != other[1:]


@given(machines, primitives, sizes)
def test_pieces_are_the_estimates(on: Hardware, primitive: Primitive, size: float) -> None:
    for way, one in zip(pieces(on, primitive), estimates(on, primitive, size), strict=True):
        assert (way.algorithm, way.protocol, way.reason) == (
            one.algorithm,
            one.protocol,
            one.reason,
        )
        if one.seconds is not None:
            piece = [piece for piece in way.pieces if piece.from_bytes <= size][-1]
            assert one.seconds == piece.a_s + piece.b_s_per_byte * size
            assert one.latency_s == piece.a_s
            assert one.seconds == pytest.approx(one.latency_s + size / one.bandwidth_Bps)


@given(machines, primitives)
def test_time_grows_with_the_size_within_a_piece(on: Hardware, primitive: Primitive) -> None:
    for way in pieces(on, primitive):
        assert [piece.from_bytes for piece in way.pieces] == sorted(
            {piece.from_bytes for piece in way.pieces}
        )
        assert not way.pieces or way.pieces[0].from_bytes == 1
        assert all(piece.a_s > 0 and piece.b_s_per_byte > 0 for piece in way.pieces)


@given(machines, primitives, st.lists(sizes, min_size=1, max_size=8))
def test_an_array_is_its_scalars(on: Hardware, primitive: Primitive, many: list[float]) -> None:
    array = estimates(on, primitive, np.asarray(many))
    for index, size in enumerate(many):
        for one, whole in zip(estimates(on, primitive, size), array, strict=True):
            if one.seconds is None:
                assert whole == one
            else:
                assert whole.seconds[index] == one.seconds
                assert whole.latency_s[index] == one.latency_s
                assert whole.bandwidth_Bps[index] == one.bandwidth_Bps
    assert (
        picks(on, primitive, many)
        == picks(on, primitive, np.asarray(many))
        == [pick(on, primitive, size) for size in many]
    )


@pytest.mark.parametrize("primitive", [A2A, P2P])
def test_a_primitive_without_a_choice_is_refused(primitive: Primitive) -> None:
    with pytest.raises(ColltoolError, match="NCCL has one way for") as caught:
        estimates(machine(1), primitive, 1024)
    assert "all-reduce, all-gather, reduce-scatter, broadcast, reduce" in str(caught.value)


@swept("size", [0, -1, 0.5, float("nan"), float("inf")])
def test_no_size_is_refused(size: float) -> None:
    for ask in (lambda: estimates(machine(1), AR, size), lambda: pick(machine(1), AR, size)):
        with pytest.raises(ColltoolError, match="1 byte or more"):
            ask()
    with pytest.raises(ColltoolError, match="1 byte or more"):
        estimates(machine(1), AR, np.asarray([1024.0, size]))


REASONS = [
    (machine(1), AR, "nvls_tree", "simple", "more than one node"),
    (machine(1), AR, "collnet_direct", "simple", "2 nodes"),
    (machine(1), AR, "nvls", "ll", "Simple alone"),
    (machine(1), AR, "pat", "simple", "no pat for all-reduce"),
    (machine(1, nvls=False), AR, "nvls", "simple", "NVLS_ENABLE"),
    (machine(2, gpu="ampere", nic="25GB/s"), AR, "nvls_tree", "simple", "Hopper"),
    (machine(2), AR, "nvls", "simple", "SHARP"),
    (machine(2), AR, "collnet_chain", "simple", "SHARP"),
    (machine(2), AG, "pat", "simple", "one rank per node"),
    (machine(2), AG, "tree", "simple", "no tree for all-gather"),
    (machine(2), BC, "tree", "ll", "no tree for broadcast"),
    (machine(2, gpus=1), AR, "nvls_tree", "simple", "two GPUs"),
    (machine(2, gpus=1, collnet=True), AR, "collnet_direct", "simple", "NVSwitch"),
]


@swept(("on", "primitive", "algorithm", "protocol", "words"), REASONS)
def test_why_not(
    on: Hardware, primitive: Primitive, algorithm: str, protocol: str, words: str
) -> None:
    (one,) = (one for one in estimates(on, primitive, 1024) if one[:2] == (algorithm, protocol))
    assert one.seconds is None
    assert words in one.reason
