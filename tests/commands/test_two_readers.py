"""The same mistake made in Python and at a shell: arguments there, options here, and neither in the
other's words."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import colltool
from colltool.base.errors import ColltoolError
from tests.commands.conftest import run

CSV = "collective,ranks,bytes,time_us\n"
FILES = {
    "log.csv": CSV + "".join(f"all_reduce,16,{4**k},{10 + 4**k / 1e4}\n" for k in range(5, 12)),
    "bare.csv": "bytes,time_us\n1024,10\n",
    "ranks.csv": "collective,bytes,time_us\nall_reduce,1024,10\n",
    "twelve.csv": CSV + "all_reduce,12,1024,10\n",
    "osu.log": "# OSU MPI Allreduce Latency Test v7.3\n# Size       Avg Latency(us)\n8      2.5\n",
}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+|(?<![\w-])-[nMfaop](?= \S)")
FUNCTIONS = [
    getattr(colltool, name)
    for name in colltool.__all__
    if inspect.isfunction(getattr(colltool, name))
]
ARGUMENTS = {
    name for function in FUNCTIONS for name in inspect.signature(function).parameters
} | set(colltool.ModelOptions._fields)
PYTHON = re.compile(rf"(?<![\w.-])(?:{'|'.join(sorted(ARGUMENTS))})=|colltool\.[a-z_]+\(")

MB = {"size": "1MB"}
PRICE = "price ar -f dgx-h100 -M 1MB"
SAME: dict[str, Callable[[], Any]] = {
    f"{PRICE} -n 12": lambda: colltool.price("dgx-h100", "ar", **MB, ranks=12),
    f"{PRICE} -n 1": lambda: colltool.price("dgx-h100", "ar", **MB, ranks=1),
    f"{PRICE} -n 99999999": lambda: colltool.price("dgx-h100", "ar", **MB, ranks=99_999_999),
    f"{PRICE} -n x": lambda: colltool.price("dgx-h100", "ar", **MB, ranks="x"),  # type: ignore[arg-type]
    f"{PRICE} --algorithm ring:": lambda: colltool.price(
        "dgx-h100", "ar", **MB, algorithms="ring:"
    ),
    f"{PRICE} --algorithm ring:ring/ring": lambda: colltool.price(
        "dgx-h100", "ar", **MB, algorithms="ring:ring/ring"
    ),
    f"{PRICE} --algorithm rong": lambda: colltool.price("dgx-h100", "ar", **MB, algorithms="rong"),
    f"{PRICE} --algorithm multi-ring": lambda: colltool.price(
        "dgx-h100", "ar", **MB, algorithms="multi-ring"
    ),
    f"{PRICE} --algorithm hierarchical:ring": lambda: colltool.price(
        "dgx-h100", "ar", **MB, algorithms="hierarchical:ring"
    ),
    f"{PRICE} --algorithm hierarchical:dim-ring/ring": lambda: colltool.price(
        "dgx-h100", "ar", **MB, algorithms="hierarchical:dim-ring/ring"
    ),
    f"{PRICE} --phases x": lambda: colltool.price("dgx-h100", "ar", **MB, phases="x"),
    f"{PRICE} --tree-beta 7": lambda: colltool.price("dgx-h100", "ar", **MB, tree_beta=7),
    f"{PRICE} --pipelining 0": lambda: colltool.price("dgx-h100", "ar", **MB, pipelining=0),
    "price ar -f dgx-h100 -M 0": lambda: colltool.price("dgx-h100", "ar", size=0),
    "price ar -f none.yaml": lambda: colltool.price("none.yaml", "ar", **MB),
    "crossover ar -f dgx-h100 --algorithm ring": lambda: colltool.crossover(
        "dgx-h100", algorithms="ring"
    ),
    "crossover ar -f dgx-h100 --algorithm hierarchical:ring/ring,ring --phases pipelined --pipelining optimal": lambda: (
        colltool.crossover(
            "dgx-h100",
            algorithms=["hierarchical:ring/ring", "ring"],
            phases="pipelined",
            pipelining="optimal",
        )
    ),
    "breakdown ar -f dgx-h100 -M 1MB --algorithm ring:": lambda: colltool.breakdown(
        "dgx-h100", "ar", **MB, algorithm="ring:"
    ),
    "fabric show nvl72 --set nvlnk.alpha=1us": lambda: colltool.load_fabric(
        "nvl72", ["nvlnk.alpha=1us"]
    ),
    "fabric show nvl72 --set nvlink.alpha=1": lambda: colltool.load_fabric(
        "nvl72", ["nvlink.alpha=1"]
    ),
    "fabric show nvl72 --set nvlink.alpha": lambda: colltool.load_fabric("nvl72", ["nvlink.alpha"]),
    "fabric show nvl72 --set nvlink.alpha=*x": lambda: colltool.load_fabric(
        "nvl72", ["nvlink.alpha=*x"]
    ),
    "fabric show dgx-h100 --set ib.levels.0.group=3": lambda: colltool.load_fabric(
        "dgx-h100", ["ib.levels.0.group=3"]
    ),
    "contention -f torus512 --pattern spin": lambda: colltool.contention(
        "torus512", {"kind": "spin"}
    ),
    "contention -f torus512 --group 999": lambda: colltool.contention(
        "torus512", {"kind": "block", "group": 999}
    ),
    "contention -f torus512 --pattern axis --axis 7": lambda: colltool.contention(
        "torus512", {"kind": "axis", "axis": 7}
    ),
    "contention -f torus512 --map spin": lambda: colltool.contention(
        "torus512", {"kind": "block"}, placed="spin"
    ),
    "contention -f torus512 --hot 3 -p ar": lambda: colltool.contention(
        "torus512", {"kind": "block"}, hot=3, primitive="ar"
    ),
    "verify a2a -f tpu-v5p -n 4096": lambda: colltool.verify("tpu-v5p", "a2a", ranks=4096),
    "verify ar -f star512 -n 64 -a double-binary-tree --segments 65536": lambda: colltool.verify(
        "star512", "ar", ranks=64, algorithms="double-binary-tree", segments=65_536
    ),
    "explain rong": lambda: colltool.explain("rong"),
    "validate bare.csv -f dgx-h100": lambda: colltool.validate("dgx-h100", "bare.csv"),
    "validate ranks.csv -f dgx-h100": lambda: colltool.validate("dgx-h100", "ranks.csv"),
    "validate osu.log -f dgx-h100": lambda: colltool.validate("dgx-h100", "osu.log"),
    "validate twelve.csv -f dgx-h100": lambda: colltool.validate("dgx-h100", "twelve.csv"),
    "doctor log.csv": lambda: colltool.doctor("log.csv"),
    "doctor log.csv --collective ag -f dgx-h100": lambda: colltool.doctor(
        "log.csv", "dgx-h100", primitive="ag"
    ),
    "doctor osu.log -f dgx-h100": lambda: colltool.doctor("osu.log", "dgx-h100"),
    "validate log.csv -f dgx-h100 -n 8": lambda: colltool.validate("dgx-h100", "log.csv", ranks=8),
    "validate log.csv -f dgx-h100 -n 1": lambda: colltool.validate("dgx-h100", "log.csv", ranks=1),
    "validate log.csv -f dgx-h100 --nodes 0": lambda: colltool.validate(
        "dgx-h100", "log.csv", nodes=0
    ),
    "validate log.csv -f dgx-h100 --collective ag": lambda: colltool.validate(
        "dgx-h100", "log.csv", primitive="ag"
    ),
    "validate log.csv -f dgx-h100 --algorithm pairwise": lambda: colltool.validate(
        "dgx-h100", "log.csv", algorithms="pairwise"
    ),
    "validate log.csv -f dgx-h100 --algorithm rong": lambda: colltool.validate(
        "dgx-h100", "log.csv", algorithms="rong"
    ),
    "calibrate log.csv -f dgx-h100 --tier none": lambda: colltool.calibrate(
        "dgx-h100", "log.csv", tier="none"
    ),
    "calibrate log.csv -f dgx-h100 --tier nvlink": lambda: colltool.calibrate(
        "dgx-h100", "log.csv", tier="nvlink"
    ),
    "calibrate log.csv -f dgx-h100 --line-rate 1": lambda: colltool.calibrate(
        "dgx-h100", "log.csv", line_rate=1
    ),
    "calibrate log.csv -f dgx-h100 --algorithm multi-ring": lambda: colltool.calibrate(
        "dgx-h100", "log.csv", algorithms="multi-ring"
    ),
}


@pytest.mark.alike(12)
@pytest.mark.parametrize("line", SAME)
def test_each_reader_is_told_in_its_own_words(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ColltoolError) as caught:
        SAME[line]()
    assert not OPTION.search(str(caught.value)), str(caught.value)
    done = run(*line.split())
    assert (done.code, done.out) == (2, "")
    assert not PYTHON.search(done.err), done.err
    for text in (str(caught.value), done.err):
        assert all(letter.isprintable() or letter == "\n" for letter in text), (
            "a mark that nobody spelled"
        )


def test_results_speak_to_who_asked() -> None:
    """Notes and reasons too; the next reader gets words of its own."""

    def python() -> str:
        priced = colltool.price("star512", "p2p", size=np.array([1e6]))
        return "; ".join((*priced.results[0].notes, *(one.reason for one in measured().infeasible)))

    def measured() -> Any:
        return colltool.price("dgx-h100", "ar", size="1MB", ranks=8)

    first = python()
    shell = (
        run("price", "p2p", "-f", "star512", "-M", "1MB", "--all").out
        + run("price", "ar", "-f", "dgx-h100", "-n", "8", "-M", "1MB", "--all").out
    )
    assert "ranks=2 for neighbours" in first
    assert "algorithms prices it anyway" in first
    assert "-n 2 for neighbours" in shell
    assert "--algorithm prices it anyway" in " ".join(shell.split())
    assert python() == first
