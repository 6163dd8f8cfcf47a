"""How NCCL's and RCCL's numbers (layer 3) are made: ``colltool/libraries/*.toml`` from
``tests/data/measured``.

    python tests/benchmarks/fit_fabrics.py [--check]

``colltool calibrate`` fits the rows of one node, :mod:`fit_across` the hop between nodes; both in
numbers of a fabric, which are then written as what they add to the wires and contention of
``fabrics/``. Run again it gives the same files. ``--check``:
write nothing, exit 1 if a file would change. What is left between these prices and the rows is
:mod:`fit_machines`'.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections import defaultdict
from collections.abc import Collection
from copy import deepcopy
from functools import cache
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

import yaml

import colltool
from colltool.fabric.model import Fabric
from colltool.fabric.yaml_writer import OneLine

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import fit_across  # noqa: E402
import fit_fills  # noqa: E402
import fit_slots  # noqa: E402
import library_file  # noqa: E402
from measured_rows import Row, rows  # noqa: E402

FOLDER = Path(__file__).parent.parent.parent / "fabrics"
Data = dict[str, Any]


class Machine(NamedTuple):
    """A machine whose rows of one node make a library's numbers, and where these hold.

    ``step_us``: of a ring of small messages, near which calibrate keeps what sizes do not tell
    apart. ``nvls``: start (us) and bandwidth (GB/s) of an all-reduce in the switches, and busbw
    over line rate of other collectives there; ``ran``: an all-reduce's algorithms; ``alike``: other
    collectives of the same steps that were not measured and take the all-reduce's numbers;
    ``media``, ``gpus``: what the numbers are of; ``names``: protocols that fitted segments are.
    """

    name: str
    step_us: float
    media: tuple[str, ...]
    gpus: tuple[str, ...]
    nvls: tuple[float, float] | None = None
    nvls_shares: tuple[tuple[str, float], ...] = ()
    ran: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()
    names: tuple[tuple[str, str], ...] = ()


_NVLS_300 = (("all_gather", 0.67), ("reduce_scatter", 0.67))
"""NVLS on 8 H100: busbw 300 of 450 GB/s in all-gather and reduce-scatter, where a ring has 350
(nccl-tests)."""
MACHINES = (
    Machine("dgx-a100", 1.03, ("nvlink3",), ("ampere",)),
    Machine(
        "gh200",
        0.8,
        ("nvlink4",),
        ("gh200",),
        ran=("ring",),
        alike=("all_gather", "reduce_scatter"),
    ),
    Machine("dgx-h100", 0.80, ("nvlink4",), ("hopper",), nvls=(36, 275), nvls_shares=_NVLS_300),
    Machine(
        "nvl72",
        1.24,
        ("nvlink5", "nvlink6"),
        ("gb200", "gb300", "vr200"),
        nvls=(58, 472),
        ran=("ring",),
    ),
    Machine("dgx-b200", 1.24, ("nvlink5",), ("blackwell",), nvls=(58, 432)),
    Machine(
        "mi300x",
        1.0,
        ("xgmi",),
        ("cdna3", "cdna4"),
        ran=("two-shot",),
        alike=("all_gather", "reduce_scatter", "all_to_all"),
        names=(("segment-1", "LL"), ("segment-2", "Simple")),
    ),
)
KNOWN = {one.name: one for one in MACHINES}
INSIDE = {**{name: name for name in KNOWN}, "hgx-h200": "dgx-h100"}
"""Whose numbers inside a node a fabric stands on; H200 has H100's NVLink and NVSwitch."""
SAME_AS = {"gb300-nvl72": ("nvl72", "ib.bandwidth=100GB/s")}
"""Fabrics whose file is another's with some numbers changed, as layers 1 to 3 are made without a
source."""
_ALGORITHMS = {
    "all_reduce": ("ring", "in-network"),
    "all_gather": ("ring",),
    "reduce_scatter": ("ring",),
    "all_to_all": ("pairwise",),
}
_TAKEN_OVER = {"all_gather": "broadcast", "reduce_scatter": "reduce", "all_to_all": "p2p"}
_LL128_SAID = (
    "LL128, which one node seldom shows, is Simple with 0.92 of its bandwidth: 120 of 128 bytes are"
    " data"
)
_LL128 = 0.92  # of Simple's bandwidth: 120 of 128 bytes are data, NCCL's own model takes 0.92


def inside_rows(name: str, without: Collection[str] = ()) -> list[Row]:
    """Rows of one node that the numbers inside it are fitted to."""
    own = INSIDE[name]
    most = 4 if own in ("nvl72", "gh200") else 8
    return [
        row
        for row in rows()
        if row.source.fabric == own
        and row.role == "fit"
        and row.ranks <= most
        and not row.algorithm
        and row.collective in _ALGORITHMS
        and row.source.source_id not in without
    ]


def shipped(name: str) -> Data:
    found: Data = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    return found


def bare(name: str) -> Data:
    """A shipped fabric in the form that may list protocols of its own, without what its library
    adds."""
    data = shipped(name) | {"schema": "colltool.fabric/1"}
    tiers = [
        {key: value for key, value in tier.items() if key != "medium"} for tier in data["tiers"]
    ]
    library = data.get("library")
    named = {"library": dict(library)} if isinstance(library, dict) else {}
    return data | {"tiers": tiers, **named}


def _series(several: list[Row]) -> dict[str, dict[tuple[int, int], list[float]]]:
    found: dict[str, dict[tuple[int, int], list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in several:
        found[row.collective][row.ranks, row.bytes].append(row.time_s)
    return found


def _calibrated(name: str, several: list[Row]) -> Data:
    """The innermost tier as ``colltool calibrate`` has it, one run a collective."""
    data, machine = bare(name), KNOWN[name]
    tier = deepcopy(data["tiers"][0]) | {"alpha": f"{machine.step_us}us"}
    # a rough start, for calibrate to tell calls in the switches from rings
    if machine.nvls is not None:
        begins_us, rate_GBps = machine.nvls
        eta_beta = {
            "all_reduce": rate_GBps / library_file.gigabytes(tier["bandwidth"]),
            **dict(machine.nvls_shares),
        }
        tier["in_network"] |= {"alpha_switch": f"{begins_us / 4}us", "eta_beta": eta_beta}
    start = {"schema": data["schema"], "name": name, "numbers": "datasheet", "tiers": [tier]}
    if isinstance(data.get("library"), dict):
        start["library"] = data["library"]
    found: list[Data] = []
    for collective, points in _series(several).items():
        known = (
            _ALGORITHMS[collective]
            if collective != "all_reduce"
            else machine.ran or _ALGORITHMS[collective]
        )
        names = [one for one in known if one != "in-network" or "in_network" in tier]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.csv"
            with path.open("w", encoding="utf-8", newline="") as file:
                table = csv.writer(file)
                table.writerow(("collective", "ranks", "nodes", "bytes", "time_us"))
                for (ranks, size), times in sorted(points.items()):
                    table.writerow((collective, ranks, 1, size, geometric_mean(times) * 1e6))
            result = yaml.safe_load(
                colltool.calibrate(start, [path], tier=tier["name"], algorithms=names).text
            )
        found += result["tiers"][0]["protocols"]
    return tier | {"protocols": found}


def _protocols(fitted: list[Data], machine: Machine, line_GBps: float) -> list[Data]:
    """Bandwidths as shares of the line rate, so that another rate is felt under all of them.

    LL128, which one node seldom shows, is Simple with fewer data bytes; other collectives of the
    same steps use the same wires.
    """
    found: list[Data] = []
    longer = {one["primitives"][0] for one in fitted if one["name"] == "short-Simple"}
    renamed = dict(machine.names)
    for one in fitted:
        (collective,) = one["primitives"]
        line = OneLine({key: one[key] for key in ("name", "launch_overhead", "alpha")})
        line["name"] = renamed.get(line["name"], line["name"])
        # what runs across nodes is the shorter one, whose launch is that of one call
        if collective in longer:
            line["name"] = {"short-Simple": "Simple", "Simple": "long-Simple"}.get(
                one["name"], one["name"]
            )
        share = library_file.gigabytes(one["bandwidth"]) / line_GBps
        line["eta"] = _share(share)
        if "local_copy" in one:
            line["local_copy"] = one["local_copy"]
        line["primitives"] = [
            collective,
            *(machine.alike if collective == "all_reduce" else (_TAKEN_OVER[collective],)),
        ]
        found.append(OneLine(line | {"measured": OneLine(one["measured"])}))
        # one node shows two lines: what is not Simple's counts for both
        if machine.names and line["name"] == "LL":
            found.append(OneLine(line | {"name": "LL128"}))
        elif line["name"] == "Simple" and not machine.names:
            found.append(OneLine(line | {"name": "LL128", "eta": _share(share * _LL128)}))
    return found


def _share(beta: float) -> OneLine:
    return OneLine(alpha=1.0, beta=float(f"{beta:.4g}"))


def _switch(tier: Data, protocols: list[Data], machine: Machine) -> Data:
    """What an all-reduce in the switches takes: start and bandwidth under Simple, whose launch and
    own copy it pays as well."""
    switch: Data = dict(tier["in_network"])
    simple = next(
        one for one in protocols if one["name"] == "Simple" and "all_reduce" in one["primitives"]
    )
    assert machine.nvls is not None
    start, rate = machine.nvls
    copied = (
        1 / (tier["size"] * library_file.gigabytes(simple["local_copy"]))
        if "local_copy" in simple
        else 0.0
    )
    share = 1 / (1 / rate - copied) / library_file.gigabytes(tier["bandwidth"])
    begins_us = max(start - library_file.microseconds(simple["launch_overhead"]), 0.2) / 2
    shares = {"all_reduce": round(share, 4), **dict(machine.nvls_shares)}
    return switch | {
        "alpha_switch": f"{begins_us:.4g}us",
        "eta_beta": shares,
        "protocols": ["Simple"],
    }


def sources_text(several: list[Row]) -> str:
    names = dict.fromkeys(row.source.source_id for row in several)
    return f"{len(several)} rows of {', '.join(names)} (tests/data/measured)"


@cache
def fitted_inside(name: str, without: frozenset[str] = frozenset()) -> Data:
    """Protocols, switch and algorithms of the innermost tier, in numbers of its own; ``name``: of
    :data:`KNOWN`."""
    machine, tier = KNOWN[name], bare(name)["tiers"][0]
    several = inside_rows(name, without)
    line_GBps = library_file.gigabytes(tier["bandwidth"])
    protocols = _protocols(_calibrated(name, several)["protocols"], machine, line_GBps)
    found: Data = {"protocols": protocols}
    if machine.nvls is not None:
        found["in_network"] = _switch(tier, protocols, machine)
    known = _ALGORITHMS | (
        {"all_reduce": machine.ran} if "ring" not in (machine.ran or ("ring",)) else {}
    )
    ran = {
        key: [one for one in names if one != "in-network" or "in_network" in tier]
        for key, names in known.items()
    }
    seen = {key: names for key, names in ran.items() if key in _series(several)}
    return found | {"algorithms": seen | {name: ["direct"] for name in machine.alike}}


def with_inside(name: str, without: frozenset[str] = frozenset()) -> Data:
    """A machine's data with the numbers inside a node as its own."""
    data = bare(name)
    tier = data["tiers"][0] | fitted_inside(INSIDE[name], without)
    return data | {"tiers": [tier, *data["tiers"][1:]]}


@cache
def hop_of(network: tuple[str, ...], without: frozenset[str] = frozenset()) -> fit_across.Hop:
    """The hop between nodes, of all machines on a kind of network."""
    bases = {name: based(name, without) for name in network}
    return fit_across.fitted_hop(bases, without)


def based(name: str, without: frozenset[str] = frozenset()) -> Data:
    """Data whose inside is fitted and whose library reaches what is known by itself."""
    data = with_inside(name, without)
    reached = fit_across.base_reached(name)
    if name in NVLS_TREES:
        reached = [fit_fills.filled(name, fill_of(without)), *reached]
    elif name == "nvl72":
        reached = [fit_fills.racks_filled(racks_fill(without)), *reached]
        if fill := switch_fill(without):
            reached.append(fit_fills.switch_filled(fill))
    return data | {"library": data["library"] | {"reached": reached}}


NVLS_TREES = ("dgx-h100", "hgx-h200", "dgx-b200")
"""Machines with nodes on a NIC a GPU whose all-reduces NVLSTree runs."""


@cache
def fill_of(without: frozenset[str] = frozenset()) -> fit_fills.Fill:
    """What NVLSTree takes to fill, on InfiniBand and RoCE."""
    bases = {name: with_inside(name, without) for name in fit_fills.FILLED}
    sources = [source for several in fit_fills.FILLED.values() for source in several]
    return fit_fills.filling(bases, sources, without)


@cache
def slingshot_fill(without: frozenset[str] = frozenset()) -> fit_fills.TreeFill:
    """What a tree takes to fill over Slingshot."""
    return fit_fills.tree_filling(
        based("gh200", without), hop_of(fit_across.SLINGSHOT, without), without
    )


@cache
def racks_fill(without: frozenset[str] = frozenset()) -> fit_fills.TreeFill:
    """What NVLSTree takes to fill over racks of NVL72."""
    return fit_fills.racks_filling(with_inside("nvl72", without), without)


@cache
def switch_fill(without: frozenset[str] = frozenset()) -> fit_fills.SwitchFill | None:
    """What NVLS takes to fill inside a rack of NVL72."""
    return fit_fills.switch_filling(with_inside("nvl72", without), without)


@cache
def efa_fill() -> fit_fills.Fill:
    """What NVLSTree takes to fill on EFA, whose hops are longer."""
    data = with_inside("hgx-h200")
    *inner, outer = data["tiers"]
    rows_as = {"aws-p5": data | {"tiers": [*inner, outer]}}
    return fit_fills.filling(rows_as, ("aws-p5-efa",), hop=fit_across.EFA)


def fitted(name: str, without: Collection[str] = ()) -> Data:
    """Layers 1 to 3 of a machine as data of a fabric file, made without the rows of some
    sources."""
    left_out = frozenset(without)
    if name not in fit_across.KINDS:
        return with_inside(name, left_out)
    data, hop = based(name, left_out), hop_of(fit_across.same_network(name), left_out)
    if name in fit_across.SLINGSHOT:
        reached = [fit_fills.tree_filled(slingshot_fill(left_out)), *data["library"]["reached"]]
        data = data | {"library": data["library"] | {"reached": reached}}
    return fit_across.with_hop(data, hop)


def loaded_without(name: str, change: str, without: Collection[str]) -> Fabric:
    """The fabric of layers 1 to 3 made without the rows of some sources, under overrides."""
    same, differs = SAME_AS.get(name, (name, ""))
    return colltool.load_fabric(fitted(same, without), f"{differs} {change}".split())


def inside_table(machine: Machine) -> str:
    """The entry of a machine's innermost tier in the library's file."""
    tier, found = shipped(machine.name)["tiers"][0], fitted_inside(machine.name)
    alpha_us = library_file.microseconds(tier["alpha"]) * tier["eta"]["alpha"]
    said = f"{sources_text(inside_rows(machine.name))}, by colltool calibrate"
    entry: Data = {"media": machine.media, "gpus": machine.gpus}
    entry["source"] = f"{said}. {_LL128_SAID}" if "in_network" in found else said
    entry["protocols"] = library_file.protocols_of(
        found["protocols"], tier, alpha_us, every=bool(machine.alike)
    )
    if "in_network" in found:
        entry["switch"] = library_file.switch_of(found["in_network"], tier)
    entry["runs"] = {**found["algorithms"], **ACROSS_TOO.get(machine.name, {})}
    return library_file.table("tier", entry)


ACROSS_TOO = {
    "mi300x": {
        "all_reduce": ["two-shot", "multi-link-ring", "multi-rail-ring"],
        "all_gather": ["direct", "multi-rail-ring"],
        "reduce_scatter": ["direct", "multi-rail-ring"],
        "all_to_all": ["direct", "pairwise"],
    }
}
"""What RCCL runs: MSCCL's two-shot and all links at once inside a node, rings over all links across
nodes."""


def texts() -> dict[Path, str]:
    """The libraries' files."""
    import fit_media  # which stands on this module

    told = "made by tests/benchmarks/fit_fabrics.py from tests/data/measured"
    nccl = [inside_table(machine) for machine in MACHINES if machine.name != "mi300x"]
    hops = hop_of(fit_across.same_network("dgx-h100")), hop_of(fit_across.same_network("gh200"))
    others = [*fit_media.tables("nccl"), *fit_media.socket_tables(), *fit_slots.tables()]
    fills = fit_fills.Fills(fill_of(), efa_fill(), slingshot_fill(), racks_fill(), switch_fill())
    nccl += fit_across.tables(
        *hops, filled=fills.entries(), ll_rates=fit_media.ll_rates(), others=others
    )
    head = f"NCCL's numbers on NVLink, InfiniBand, RoCE and clouds' networks, as measured; {told}."
    rccl = f"RCCL's numbers on Infinity Fabric and between nodes, as measured; {told}."
    amd = [inside_table(KNOWN["mi300x"]), *fit_media.tables("rccl"), *fit_media.rccl_tables()]
    return {
        library_file.FOLDER / "nccl-2.30.toml": library_file.file_text(head, "nccl", "2.30", nccl),
        library_file.FOLDER / "rccl-2.22.toml": library_file.file_text(rccl, "rccl", "2.22", amd),
    }


def main() -> int:
    check, changed = "--check" in sys.argv, []
    for file, text in texts().items():
        if file.read_text(encoding="utf-8") != text:
            changed.append(file.name)
            if not check:
                file.write_text(text, encoding="utf-8")
    print(f"changed: {', '.join(changed) or 'none'}")
    return int(bool(changed) and check)


if __name__ == "__main__":
    sys.exit(main())
