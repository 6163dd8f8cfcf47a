"""How ``colltool/libraries/mpi-4.1.toml`` is made: MPI's eager and rendezvous protocols between
hosts, from rows of OSU.

    python tests/benchmarks/fit_mpi.py [--check]

``post`` of ``fabrics/mpi-cluster.yaml`` comes from the same fit, and the rest of that file is by
hand. Each collective has its own latency on either tier and one bandwidth, by coordinate descent; a
reduction's is lower, as the hosts sum what they receive.
``--check``: write nothing, exit 1 if a file would change. It prints how far off 32 ranks are for a
fit that has seen 8 alone.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import log
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import yaml

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from library_file import FOLDER, file_text, microseconds, protocols_of, table  # noqa: E402
from measured_rows import Row, rows  # noqa: E402

import colltool  # noqa: E402
from colltool.estimate.accuracy import CLASSES, size_class  # noqa: E402
from colltool.fabric.templates import schema_line  # noqa: E402
from colltool.fabric.yaml_writer import OneLine, fabric_text  # noqa: E402

FILE = Path(__file__).parent.parent.parent / "fabrics" / "mpi-cluster.yaml"
LIBRARY = FOLDER / "mpi-4.1.toml"
SOURCE = "alcf-polaris-osu"
ALIKE = {
    "all_gather": ["broadcast"],
    "all_reduce": ["reduce", "reduce_scatter"],
    "all_to_all": ["p2p"],
}
SEEN = 8  # ranks, for the fit that is judged on 32


class Protocols(NamedTuple):
    """us on shared memory and on the network, and GB/s, under eager and under rendezvous."""

    eager_shm: float = 0.6
    eager_net: float = 2.0
    eager_GBps: float = 2.0
    rendezvous_shm: float = 1.5
    rendezvous_net: float = 5.0
    rendezvous_GBps: float = 4.0


def of(collective: str, several: Sequence[Row]) -> list[Row]:
    return [row for row in several if row.collective == collective]


def with_protocols(
    data: dict[str, Any], found: dict[str, Protocols], post_us: float
) -> dict[str, Any]:
    """The fabric with protocols of its own, which is schema /1: a fit tries numbers that no library
    has yet."""
    tiers = []
    for at, tier in enumerate(data["tiers"]):
        line_GBps = float(tier["bandwidth"].removesuffix("GB/s"))
        lines = [
            OneLine(
                name=name,
                alpha=f"{own[3 * number + at]:.3g}us",
                eta=OneLine(
                    alpha=1.0, beta=float(f"{min(own[3 * number + 2] / line_GBps, 1):.4g}")
                ),
                primitives=[collective, *ALIKE[collective]],
            )
            for collective, own in found.items()
            for number, name in enumerate(("eager", "rendezvous"))
        ]
        tiers.append(tier | {"post": f"{post_us:.3g}us", "protocols": lines})
    return data | {"schema": "colltool.fabric/1", "tiers": tiers}


def error(fabric: Any, row: Row) -> float:
    return (
        float(colltool.price(fabric, row.collective, size=row.bytes, ranks=row.ranks).best.total_s)
        / row.time_s
    )


def fitted(
    data: dict[str, Any], several: Sequence[Row], collectives: Sequence[str] = tuple(ALIKE)
) -> dict[str, Any]:
    """The data with protocols of each collective, and the posting cost that an all-to-all shows."""
    found: dict[str, Protocols] = {}
    post = 0.3
    for collective in collectives:
        own, post = _descended(data, of(collective, several), Protocols(), post)
        found[collective] = own
    return with_protocols(data, found, post)


def _descended(
    data: dict[str, Any], several: list[Row], best: Protocols, post: float
) -> tuple[Protocols, float]:
    """Coordinate descent on the mean |log(priced / measured)|."""
    collective = several[0].collective

    def loss(own: Protocols, post: float) -> float:
        fabric = colltool.load_fabric(with_protocols(data, {collective: own}, post))
        return fmean(abs(log(error(fabric, row))) for row in several)

    least = loss(best, post)
    fields = (*Protocols._fields, *(["post"] if collective == "all_to_all" else []))
    for step in (0.5, 0.5, 0.2, 0.2, 0.1, 0.1, 0.05, 0.05):
        for field in fields:
            for factor in (1 + step, 1 / (1 + step)):
                while True:
                    own = (
                        best
                        if field == "post"
                        else best._replace(**{field: getattr(best, field) * factor})
                    )
                    other = post * factor if field == "post" else post
                    if (tried := loss(own, other)) > least - 1e-5:
                        break
                    best, post, least = own, other, tried
    return best, post


def library_text(made: dict[str, Any]) -> str:
    """The library's file: what MPI adds to the tiers' own numbers."""
    tables = []
    for tier in made["tiers"]:
        protocols = protocols_of(
            tier["protocols"], tier, tier["eta"]["alpha"] * microseconds(tier["alpha"])
        )
        source = f"152 rows of {SOURCE} (tests/data/measured), by tests/benchmarks/fit_mpi.py"
        tables.append(
            table(
                "tier",
                {
                    "media": [tier["medium"]],
                    "gpus": ["host"],
                    "source": source,
                    "protocols": protocols,
                },
            )
        )
    made_by = "made by tests/benchmarks/fit_mpi.py from tests/data/measured."
    head = f"MPI's numbers in host memory: Cray MPICH on Polaris, as measured; {made_by}"
    return file_text(head, "mpi", "4.1", tables)


def file_with_post(data: dict[str, Any], made: dict[str, Any]) -> str:
    """The fabric's file with the posting cost of the fit."""
    tiers = [
        tier | {"post": fit["post"]} for tier, fit in zip(data["tiers"], made["tiers"], strict=True)
    ]
    return fabric_text(data | {"tiers": tiers}, [schema_line("fabric")], compact=True)


def main() -> int:
    data = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    several = [row for row in rows() if row.source.source_id == SOURCE]
    seen = colltool.load_fabric(fitted(data, [row for row in several if row.ranks == SEEN]))
    for collective in ALIKE:
        by_class: dict[int, list[float]] = {}
        for row in of(collective, several):
            if row.ranks != SEEN:
                by_class.setdefault(size_class(row.bytes), []).append(abs(error(seen, row) - 1))
        print(
            f"{collective}, unseen:",
            ", ".join(f"{CLASSES[at]} {median(off):.0%}" for at, off in sorted(by_class.items())),
        )
    made = fitted(data, several)
    texts = {LIBRARY: library_text(made), FILE: file_with_post(data, made)}
    changed = [path for path, text in texts.items() if text != path.read_text(encoding="utf-8")]
    print("changed:", ", ".join(path.name for path in changed) or "none")
    if "--check" in sys.argv:
        return int(bool(changed))
    for path in changed:
        path.write_text(texts[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
