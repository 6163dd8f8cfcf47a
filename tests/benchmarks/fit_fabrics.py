"""How the shipped fabrics of measured machines are made: their tiers inside a node from ``tests/data/measured``.

    python tests/benchmarks/fit_fabrics.py [--check]

Reads each file of ``fabrics/`` that is listed here, replaces what is fitted and keeps the rest: run again it gives the same
files. ``colltool calibrate`` fits the rows of one node; :mod:`fit_across` fits the hop between nodes and what is left.
``--check``: write nothing, exit 1 if a file would change.
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
from colltool.fabric.templates import OneLine, fabric_text, schema_line

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import fit_across  # noqa: E402
from measured_rows import Row, rows  # noqa: E402

FOLDER = Path(__file__).parent.parent.parent / "fabrics"
Data = dict[str, Any]


class Machine(NamedTuple):
    """A shipped file. ``inside``: whose rows of one node it takes (its own where empty); ``nvls``: start (us) and bandwidth
    (GB/s) of an all-reduce in the switches, what it takes beside them is software by size; ``scale``: of the bandwidths taken
    over, a machine with fewer links; ``said``: why these rows hold here; ``ran``: an all-reduce's algorithms; ``alike``: other
    collectives of the same steps that were not measured and take the all-reduce's numbers."""

    name: str
    inside: str = ""
    nvls: tuple[float, float] | None = None
    scale: float = 1.0
    said: str = ""
    ran: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()


MACHINES = (
    Machine("dgx-h100", nvls=(36, 275)),
    Machine("hgx-h200", inside="dgx-h100", nvls=(36, 275), said="H200 has H100's NVLink and NVSwitch"),
    Machine("dgx-a100"),
    Machine("dgx-b200", nvls=(58, 432)),
    Machine("nvl72", nvls=(58, 472), ran=("ring",)),
    Machine("gh200", ran=("ring",), alike=("all_gather", "reduce_scatter")),
    Machine("mi300x", ran=("two-shot",), alike=("all_gather", "reduce_scatter", "all_to_all")),
)
KNOWN = {one.name: one for one in MACHINES}
_ALGORITHMS = {
    "all_reduce": ("ring", "in-network"),
    "all_gather": ("ring",),
    "reduce_scatter": ("ring",),
    "all_to_all": ("pairwise",),
}
_TAKEN_OVER = {"all_gather": "broadcast", "reduce_scatter": "reduce", "all_to_all": "p2p"}
_LL128_SAID = "LL128, which one node seldom shows, is Simple with 0.92 of its bandwidth: 120 of 128 bytes are data"
_RAN_SAID = "What the library runs there; the fit is of these"
_LL128 = 0.92  # of Simple's bandwidth: 120 of 128 bytes are data, NCCL's own model takes 0.92


def inside_rows(name: str, without: Collection[str] = ()) -> list[Row]:
    """Rows of one node that a machine's innermost tier is fitted to."""
    own = KNOWN[name].inside or name
    return [
        row
        for row in rows()
        if row.source.fabric == own
        and row.role == "fit"
        and row.ranks <= (8 if own not in ("nvl72", "gh200") else 4)
        and not row.algorithm
        and row.collective in _ALGORITHMS
        and row.source.source_id not in without
    ]


def shipped(name: str) -> Data:
    found: Data = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    return found


def _series(several: list[Row]) -> dict[str, dict[tuple[int, int], list[float]]]:
    found: dict[str, dict[tuple[int, int], list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in several:
        found[row.collective][row.ranks, row.bytes].append(row.time_s)
    return found


def _calibrated(data: Data, several: list[Row]) -> Data:
    """The innermost tier as ``colltool calibrate`` has it, one run a collective."""
    tier = deepcopy(data["tiers"][0])
    start = {key: data[key] for key in ("schema", "name")} | {"tiers": [_bare(tier)]}
    if "library" in data:
        start["library"] = {key: value for key, value in data["library"].items() if key != "reached"}
    found: list[Data] = []
    for collective, points in _series(several).items():
        known = _ALGORITHMS[collective] if collective != "all_reduce" else KNOWN[data["name"]].ran or _ALGORITHMS[collective]
        names = [one for one in known if one != "in-network" or "in_network" in tier]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.csv"
            with path.open("w", encoding="utf-8", newline="") as file:
                table = csv.writer(file)
                table.writerow(("collective", "ranks", "nodes", "bytes", "time_us"))
                for (ranks, size), times in sorted(points.items()):
                    table.writerow((collective, ranks, 1, size, geometric_mean(times) * 1e6))
            result = yaml.safe_load(colltool.calibrate(start, [path], tier=tier["name"], algorithms=names).text)
        fitted = result["tiers"][0]
        found += fitted["protocols"]
        if "in_network" in fitted and collective == "all_reduce":
            tier["in_network"] = fitted["in_network"]
    return tier | {"protocols": found}


def _bare(tier: Data) -> Data:
    """A tier as it was before the fit."""
    bare = {key: value for key, value in tier.items() if key not in ("protocols", "algorithms")}
    if switch := bare.get("in_network"):
        bare["in_network"] = {key: value for key, value in switch.items() if key != "protocols"}
        bare["in_network"]["source"] = {key: text for key, text in switch["source"].items() if key != "protocols"}
    return bare


def _protocols(fitted: list[Data], machine: Machine, line_GBps: float) -> list[Data]:
    """One line each, bandwidths as shares of the line rate, so that another rate is felt under all of them.

    LL128, which one node seldom shows, is Simple with fewer data bytes; other collectives of the same steps use the same wires.
    """
    found: list[Data] = []
    longer = {one["primitives"][0] for one in fitted if one["name"] == "short-Simple"}
    for one in fitted:
        (collective,) = one["primitives"]
        line = OneLine({key: one[key] for key in ("name", "launch_overhead", "alpha")})
        if collective in longer:  # what runs across nodes is the shorter one, whose launch is that of one call
            line["name"] = {"short-Simple": "Simple", "Simple": "long-Simple"}.get(one["name"], one["name"])
        share = _number(one["bandwidth"]) / line_GBps * machine.scale
        line["eta"] = _share(share)
        if "local_copy" in one:
            line["local_copy"] = one["local_copy"]
        line["primitives"] = [collective, *(machine.alike if collective == "all_reduce" else (_TAKEN_OVER[collective],))]
        found.append(OneLine(line | {"measured": OneLine(one["measured"])}))
        if line["name"] == "Simple":
            found.append(OneLine(line | {"name": "LL128", "eta": _share(share * _LL128)}))
    return found


def _share(beta: float) -> OneLine:
    return OneLine(alpha=1.0, beta=float(f"{beta:.4g}"))


def _number(text: str) -> float:
    return float(text.rstrip("GBusm/"))


def _switch(tier: Data, machine: Machine, source: str) -> Data:
    """What an all-reduce in the switches takes: start and bandwidth under Simple, whose launch and own copy it pays as well."""
    switch: Data = dict(tier["in_network"])
    simple = next(one for one in tier["protocols"] if one["name"] == "Simple" and "all_reduce" in one["primitives"])
    if machine.nvls is not None:
        start, rate = machine.nvls
        copied = 1 / (tier["size"] * _number(simple["local_copy"])) if "local_copy" in simple else 0.0
        share = 1 / (1 / rate - copied) / _number(tier["bandwidth"])
        eta = switch.get("eta_beta")
        others = {key: value for key, value in eta.items() if key != "all_reduce"} if isinstance(eta, dict) else {}
        switch["alpha_switch"] = f"{max(start - _number(simple['launch_overhead']), 0.2) / 2:.4g}us"
        switch["eta_beta"] = {"all_reduce": round(share, 4), **others}
    switch["protocols"] = ["Simple"]
    said = {
        "protocols": "NVLS runs only under Simple: NCCL 2.30, src/graph/tuning.cc",
        "alpha_switch": source,
        "eta_beta": source,
    }
    return switch | {"source": switch["source"] | said}


def sources_text(several: list[Row]) -> str:
    names = dict.fromkeys(row.source.source_id for row in several)
    return f"{len(several)} rows of {', '.join(names)} (tests/data/measured)"


def with_inside(data: Data, without: Collection[str] = ()) -> Data:
    """A machine's data with the tier inside a node fitted, or taken over from the machine that has the same."""
    machine, tier = KNOWN[data["name"]], data["tiers"][0]
    source = f"{sources_text(inside_rows(machine.name, without))}, by colltool calibrate"
    taken = _inside(machine.inside or machine.name, frozenset(without))
    if machine.said:
        source += f"; {machine.said}"
    said = tier["source"] | {
        "protocols": f"{source}. {_LL128_SAID}" if "in_network" in taken else source,
        "algorithms": _RAN_SAID,
    }
    tier = tier | {"source": said, "protocols": _protocols(taken["protocols"], machine, _number(tier["bandwidth"]))}
    if "in_network" in taken:
        tier["in_network"] = _switch(tier | {"in_network": taken["in_network"]}, machine, source)
    algorithms = dict(taken["algorithms"]) | {name: ["direct"] for name in machine.alike}
    return data | {"tiers": [tier | {"algorithms": OneLine(algorithms)}, *data["tiers"][1:]]}


@cache
def _inside(name: str, without: frozenset[str]) -> Data:
    several, data = inside_rows(name, without), shipped(name)
    tier = _calibrated(data, several)
    known = _ALGORITHMS | ({"all_reduce": KNOWN[name].ran} if "ring" not in (KNOWN[name].ran or ("ring",)) else {})
    ran = {key: [one for one in names if one != "in-network" or "in_network" in tier] for key, names in known.items()}
    return tier | {"algorithms": OneLine({key: names for key, names in ran.items() if key in _series(several)})}


@cache
def _hop(network: tuple[str, ...], without: frozenset[str]) -> fit_across.Hop:
    bases = {name: _based(name, without) for name in network}
    return fit_across.fitted_hop(bases, without)


def _based(name: str, without: frozenset[str]) -> Data:
    data = with_inside(shipped(name), without)
    return data | {"library": data["library"] | {"reached": fit_across.base_reached(name)}}


def fitted(name: str, without: Collection[str] = ()) -> Data:
    """The data of a machine's file, made without the rows of some sources."""
    left_out = frozenset(without)
    if name not in fit_across.KINDS:
        return with_inside(shipped(name), left_out)
    other = fit_across.FALLBACK.get(name)
    return fit_across.with_software(_across(name, left_out), _beside(name, left_out), other and _beside(other, left_out))


def _across(name: str, without: frozenset[str]) -> Data:
    return fit_across.with_hop(_based(name, without), _hop(fit_across.same_network(name), without))


def _beside(name: str, without: frozenset[str]) -> fit_across.Beside:
    return fit_across.beside(_across(name, without), without)


def text_of(name: str) -> str:
    head = "Fitted parts: python tests/benchmarks/fit_fabrics.py makes them from tests/data/measured; the rest is by hand."
    return fabric_text(fitted(name), [schema_line("fabric"), head], compact=True)


def main() -> int:
    check, changed = "--check" in sys.argv, []
    for name in KNOWN:
        file, text = FOLDER / f"{name}.yaml", text_of(name)
        if file.read_text(encoding="utf-8") != text:
            changed.append(name)
            if not check:
                file.write_text(text, encoding="utf-8")
    print(f"{len(KNOWN)} fabrics, changed: {', '.join(changed) or 'none'}")
    return int(bool(changed) and check)


if __name__ == "__main__":
    sys.exit(main())
