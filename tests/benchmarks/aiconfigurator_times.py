"""aiconfigurator's times for the questions of ``colltool score --template``, as CSV on stdout.

    pip install aiconfigurator-core   # in an environment of its own
    python tests/benchmarks/aiconfigurator_times.py questions.csv > aiconfigurator.csv

Its NCCL operation is asked as its models ask it (half precision). Rows of its own tables are left
empty: it would read back what it was made from.
"""

from __future__ import annotations

import csv
import sys
import warnings
from functools import cache
from typing import Any

SYSTEMS = {
    "dgx-h100": "h100_sxm",
    "aws-p5": "h100_sxm",
    "gcp-a3-mega": "h100_sxm",
    "hgx-h200": "h200_sxm",
    "dgx-a100": "a100_sxm",
    "aws-p4d": "a100_sxm",
    "dgx-b200": "b200_sxm",
    "aws-p6-b200": "b200_sxm",
    "nvl72": "gb200",
    "gb300-nvl72": "gb300",
    "l40s-pcie": "l40s",
    "rtx-pro-6000-pcie": "rtx_pro_6000_server",
}
"""aiconfigurator's systems by our machines; it has no others of them."""
OPERATIONS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "all_to_all": "alltoall",
}
HALF = 2  # bytes of an element
MOST_TOKENS = 2**20


@cache
def database(system: str) -> Any:
    from aiconfigurator_core.sdk import perf_database

    version = perf_database.get_latest_database_version(system, "trtllm")
    return perf_database.get_database(system, "trtllm", version)


def time_us(question: dict[str, str]) -> float | None:
    """None for what it has no answer to."""
    from aiconfigurator_core.sdk import common
    from aiconfigurator_core.sdk.operations import communication

    system = SYSTEMS.get(question["machine"].partition(":")[0])
    operation = OPERATIONS.get(question["collective"])
    own = question["source"].startswith("aic-")
    if system is None or operation is None or own:
        return None
    ranks = int(question["ranks"])
    half = common.CommQuantMode.half
    elements = max(int(question["bytes"]) // HALF, 1)
    # a count of tokens has 32 bits
    each = max(elements // MOST_TOKENS, 1)
    asked = communication.NCCL("collective", 1.0, operation, each, ranks, half)
    found = float(asked._engine_query(database(system), x=elements // each))
    return found * 1e3 if found > 0 else None


def main() -> int:
    warnings.filterwarnings("ignore")
    with open(sys.argv[1], encoding="utf-8", newline="") as file:
        lines = csv.DictReader(file)
        writer = csv.DictWriter(sys.stdout, lines.fieldnames or (), lineterminator="\n")
        writer.writeheader()
        for question in lines:
            found = time_us(question)
            writer.writerow(question | {"time_us": "" if found is None else f"{found:.5g}"})
    return 0


if __name__ == "__main__":
    sys.exit(main())
