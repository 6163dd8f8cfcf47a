"""What a library would have run: NCCL by its own model on the fabric's hardware, MPI by MPICH's
sizes; nothing of others."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from generated import fit, measured
from handmade import by_steps, series
from small import gb, us
from swept import swept

from colltool.base.primitives import A2A, AG, AR, BC, P2P, Primitive
from colltool.calibration.calibrate import Calibration
from colltool.calibration.library_choice import library_runs_of, nccl_on
from colltool.diagnosis.validate import validate
from colltool.estimate.groups import place
from colltool.estimate.protocols import tier_under
from colltool.fabric.load import fabric_data, load_fabric, read_fabric
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.yaml_writer import fabric_text
from colltool.libraries.nccl.model import picks
from colltool.logs.series import Measurements, Series

SIZES = by_steps(256, 2**32, 2)


def made(primitive: Primitive, ranks: int, library: str = "NCCL") -> Series:
    return series(lambda size: 1e-5 + size / 100e9, SIZES, ranks, primitive, library=library)


@swept(
    ("primitive", "ranks", "runs"),
    [
        (AR, 8, ["ring", "in-network"]),
        (AG, 8, ["ring"]),
        (BC, 8, ["chain"]),
    ],
)
def test_nccl_runs_what_its_own_model_picks(
    primitive: Primitive, ranks: int, runs: list[str]
) -> None:
    fabric = load_fabric("dgx-h100")
    (on,) = nccl_on(fabric, [place(fabric, ranks)], "NCCL")
    found = library_runs_of([made(primitive, ranks)], [on])
    assert found is not None
    assert list(found.algorithms) == runs
    picked = picks(on, primitive, SIZES)
    changes = [
        size for size, (a, b) in zip(SIZES[1:], pairwise(found.runs[0]), strict=True) if a != b
    ]
    turns = [
        size
        for size, (a, b) in zip(SIZES[1:], pairwise(picked), strict=True)
        if a.algorithm != b.algorithm
    ]
    assert changes == turns


@pytest.mark.parametrize("primitive", [A2A, P2P])
def test_nccl_has_one_way_to_send(primitive: Primitive) -> None:
    fabric = load_fabric("dgx-h100")
    assert library_runs_of([made(primitive, 2)], nccl_on(fabric, [place(fabric, 2)], "")) is None


@swept("library", ["MPI", "RCCL", "MVAPICH"])
def test_nccls_model_is_for_nccl_alone(library: str) -> None:
    fabric = load_fabric("dgx-h100")
    assert nccl_on(fabric, [place(fabric, 8)], library) == ()


def test_mpi_changes_at_mpichs_sizes() -> None:
    gather, exchange = (library_runs_of([made(primitive, 8, "MPI")], ()) for primitive in (AG, A2A))
    assert gather is not None
    assert exchange is not None
    assert list(gather.runs[0]) == [
        "recursive-doubling" if size <= 2**19 else "ring" for size in SIZES
    ]
    assert list(exchange.runs[0]) == ["bruck" if size <= 8 * 256 else "pairwise" for size in SIZES]
    assert library_runs_of([made(BC, 8, "MPI")], ()) is None


# --- across nodes
# -----------------------------------------------------------------------------------------------------


def pod(*protocols: dict[str, Any], outer: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Nodes of 4 with a NIC for each, as NCCL knows them; protocols of their own where given."""
    inside = {
        "name": "node",
        "topology": "star",
        "size": 4,
        "alpha": "0.8us",
        "bandwidth": "400GB/s",
    }
    levels = [{"name": "leaf", "group": 64, "alpha": "5us"}]
    net = {"name": "net", "topology": "clos", "size": 64, "bandwidth": "25GB/s", "levels": levels}
    tiers = [
        inside | ({"protocols": list(protocols)} if protocols else {}),
        net | ({"protocols": outer} if outer else {}),
    ]
    library = {"name": "nccl", "version": "2.30", "gpu": "hopper", "cpu": "intel"}
    return {
        "schema": "colltool.fabric/1",
        "name": "pod",
        "tiers": tiers,
        "launch_overhead": "5us",
        "library": library,
    }


def listed(name: str, launch: float, alpha: float, bandwidth: float) -> dict[str, Any]:
    return {
        "name": name,
        "launch_overhead": us(launch),
        "alpha": us(alpha),
        "bandwidth": gb(bandwidth),
    }


TREE = "hierarchical:ring/double-binary-tree"
TRUTH = pod(
    listed("LL", 5, 0.8, 150),
    listed("Simple", 8, 3.0, 350),
    outer=[listed("LL", 5, 9.0, 6), listed("Simple", 8, 20.0, 22)],
)


def fabric_from(data: dict[str, Any]) -> Fabric:
    return read_fabric(fabric_text(data), "pod.yaml")


def across(*ranks: int) -> list[Series]:
    truth = fabric_from(TRUTH)
    return [measured(truth, AR, n, SIZES, ["ring"] if n <= 4 else [TREE]) for n in ranks]


def error(found: Calibration, *series: Series) -> float:
    return validate(found.fabric, Measurements(series, ())).mape


def test_two_nodes_tell_what_eight_take_where_the_pick_is_known() -> None:
    """One count of nodes cannot tell a tree from a ring, nor alpha from a launch: NCCL's pick and
    the known launch do."""
    two, eight = across(8, 32)
    found = fit(pod(), two)
    assert TREE in found.series[0].algorithms
    assert error(found, eight) < 0.15
    unknown = {
        key: value for key, value in pod().items() if key not in ("library", "launch_overhead")
    }
    assert error(fit(unknown, two), eight) > 2 * error(found, eight)


@pytest.mark.ci
def test_a_call_runs_under_one_protocol_on_every_tier() -> None:
    """The tiers inside run under the protocol of the same name when an outer one is fitted, and
    when it is priced."""
    found = fit(pod(), *across(2, 4, 8, 16, 32))
    inner, outer = found.fabric.tiers
    assert set(inner.protocols_for(AR)) == {"LL", "Simple"}
    assert set(outer.protocols_for(AR)) <= set(inner.protocols_for(AR))
    assert error(found, *across(2, 4, 8, 16, 32)) < 0.03
    low = outer.protocols_for(AR)["LL"]
    under = tier_under(outer, low, 4)
    alpha_s = capabilities_of(under).nearest_alpha_s * under.eta.alpha
    assert alpha_s == pytest.approx(9e-6, rel=0.05)
    assert under.bandwidth * under.eta.beta == pytest.approx(6e9, rel=0.05)


@pytest.mark.ci
def test_segments_across_nodes_have_names_of_their_own() -> None:
    data = {key: value for key, value in pod().items() if key != "library"}
    found = fit(data, *across(2, 4, 8, 16, 32))
    inner, outer = (list(tier.protocols_for(AR)) for tier in found.fabric.tiers)
    assert all(name.startswith("net-segment-") for name in outer)
    assert set(outer) < set(inner)
    assert error(found, *across(2, 4, 8, 16, 32)) < 0.05


def test_the_shipped_fabric_has_what_the_model_needs() -> None:
    assert nccl_on(
        load_fabric("dgx-h100"), [place(load_fabric("dgx-h100"), n) for n in (2, 8, 64)], ""
    )
    assert fabric_data("dgx-h100", [])["library"]["name"] == "nccl"


@pytest.mark.alike(2)
@pytest.mark.parametrize("seed", range(4))
def test_a_log_in_which_the_switch_ran_alone_leaves_no_ring_that_nothing_ran_under(
    seed: int,
) -> None:
    """NCCL picks a ring for the first size and NVLS from then on."""
    noise = random.Random(seed)
    sizes = [2.0**k for k in range(20, 34)]
    own = series(
        lambda size: (30e-6 + size / 200e9) * noise.gauss(1, 0.02), sizes, 8, AR, library="NCCL"
    )
    fitted = fit(fabric_data("dgx-h100", []), own)
    assert fitted.fabric == read_fabric(fitted.text, "written")
    assert all(float(one.launch_overhead_s) < 1e-3 for one in fitted.series[0].protocols)
