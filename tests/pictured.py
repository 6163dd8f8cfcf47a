"""A result of every kind that has a picture, small enough for a test."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import tracing
from machine_logs import log, time_on

import colltool

LONG = "a-cluster-of-the-north-hall-with-a-name-of-as-many-as-64-letters"
EVIL = "a_$cluster$_named_<script>alert(1)</script>_\\alpha_&amp;_"
SIZES = ["1KB", "64KB", "1MB", "16MB", "1GB"]
CLOS = """schema: colltool.fabric/1
name: NAME
tiers:
  - {name: link, topology: star, size: 8, alpha: 1us, bandwidth: 100GB/s}
  - {name: net, topology: star, size: 8, alpha: 5us, bandwidth: 25GB/s}
"""


def _diagnosis() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        slow = time_on(set_=["nvlink.bandwidth=300GB/s"])
        return colltool.doctor(log(Path(folder) / "a.log", slow, ("ar", "ag", "a2a")))


def _validation() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return colltool.validate("dgx-h100", log(Path(folder) / "a.log", time_on(), ("ar", "ag")))


def _trace() -> Any:
    events = [
        tracing.step(1, 0, 9_000),
        tracing.kernel(0, 2_000),
        tracing.call(1_000, 3_000, [0, 1]),
    ]
    events += [tracing.call(5_000, 900, [0, 1], elements=2**24), tracing.kernel(5_100, 500)]
    with tempfile.TemporaryDirectory() as folder:
        return colltool.trace("dgx-h100", [str(tracing.write(Path(folder) / "a.json", events))])


def named_fabric(name: str) -> str:
    """The text of a small fabric of some name."""
    return CLOS.replace("NAME", repr(name))


def _long_named() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.yaml"
        path.write_text(named_fabric(LONG), encoding="utf-8")
        found = colltool.compare([str(path), "dgx-h100"], "ar", ranks=[8, 64], sizes=SIZES)
    return replace(found, columns=(found.columns[0], found.columns[1]._replace(name=EVIL)))


MAKERS: dict[str, tuple[Callable[[], Any], str]] = {
    "map": (
        lambda: colltool.sweep(
            "dgx-h100", "ar", ranks=[8, 64], sizes=SIZES, vary="ib.bandwidth=25GB/s,50GB/s"
        ),
        "map",
    ),
    "lines": (
        lambda: colltool.sweep("dgx-h100", "ar", ranks=[8, 16, 64, 256], sizes=SIZES),
        "busbw",
    ),
    "many lines": (
        lambda: colltool.sweep("dgx-h100", "ar", ranks=[2 * k for k in range(4, 20)], sizes=SIZES),
        "busbw",
    ),
    "over a value": (
        lambda: colltool.sweep(
            "dgx-h100", "ar", ranks=64, sizes=["1MB"], vary="ib.bandwidth=25GB/s,50GB/s"
        ),
        "busbw",
    ),
    "comparison": (
        lambda: colltool.compare(["mi300x", "dgx-h100"], "ar", ranks=[8, 64], sizes=SIZES),
        "",
    ),
    "long names": (_long_named, ""),
    "sensitivity": (
        lambda: colltool.sensitivity("dgx-h100", "ar", size="32MB", ranks=64, samples=200),
        "",
    ),
    "breakdown": (
        lambda: colltool.breakdown(
            "dgx-h100", "ar", size="1GB", ranks=64, algorithm="hierarchical:ring/ring"
        ),
        "",
    ),
    "streamed": (lambda: colltool.breakdown("nvl72", "ar", size="16MB", ranks=144), ""),
    "plan": (lambda: colltool.plan("llama3-70b", "dgx-h100", 256), ""),
    "plans": (lambda: colltool.compare_plans("llama3-70b", ["dgx-h100", "dgx-b200"], 256), ""),
    "crossover": (lambda: colltool.crossover("dgx-h100", "ar", ranks=64), ""),
    "diagnosis": (_diagnosis, ""),
    "validation": (_validation, "busbw"),
    "trace": (_trace, ""),
}
"""What makes each result, and the view of it."""


@cache
def made(name: str) -> Any:
    """The result of this name, made once."""
    return MAKERS[name][0]()
