"""Every shipped schedule among ranks as MSCCL's XML and in colltool's own form: read back, proved,
the same messages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from small import fabric, star
from swept import swept

import colltool
from colltool.algorithms.program import program_maker
from colltool.algorithms.registry import algorithms
from colltool.base.errors import ColltoolError
from colltool.base.primitives import AR
from colltool.custom.file import custom_schedule
from colltool.custom.msccl_export import msccl_xml
from colltool.custom.msccl_machine import read_msccl
from colltool.custom.postcondition import PRIMITIVES
from colltool.custom.schedule import CustomSchedule, custom_from_program
from colltool.network.group import Axis, Group
from colltool.verification.shipped_schedule import shipped_schedule
from tests.commands.conftest import run

GROUPS = (
    Group(6, "star"),
    Group(8, "star"),
    Group(5, "full_mesh"),
    Group(8, "torus", axes=(Axis(4, wrap=True), Axis(2, wrap=True))),
)


def shipped() -> Iterator[CustomSchedule]:
    for primitive in PRIMITIVES:
        for row in algorithms(primitive):
            make = program_maker(primitive, row.name)
            for group in GROUPS:
                if make is None or row.why_not(group):
                    continue
                program = make(group, 3)
                if program.nodes == program.ranks and np.ptp(program.chunk_bytes) < 1e-12:
                    yield custom_from_program(row.name, program)


def messages(schedule: CustomSchedule) -> Counter[tuple[int, int, int, bool]]:
    return Counter(
        (*one, step.add)
        for batch in schedule.batches
        for step in batch
        for one in zip(*(part.tolist() for part in step[:3]), strict=True)
    )


@pytest.mark.ci
def test_every_shipped_schedule_is_read_back_and_proved() -> None:
    steps = Counter[bool]()
    for own in shipped():
        back = read_msccl(msccl_xml(own), "back.xml", "back")
        assert (back.name, back.primitive, back.ranks, back.chunks) == (
            own.name,
            own.primitive,
            own.ranks,
            own.chunks,
        )
        assert messages(back) == messages(own), own.name
        assert len(back.batches) <= len(own.batches), own.name
        steps[len(back.batches) == len(own.batches)] += 1
    # fewer where a rank that idles may send at once: trees and folds off powers of two
    assert steps[True] > 10 * steps[False]


def test_dependencies_are_what_makes_it_right() -> None:
    (own,) = (
        one for one in shipped() if (one.name, one.ranks, one.primitive) == ("rabenseifner", 8, AR)
    )
    text = msccl_xml(own)
    assert text.count('hasdep="1"') > 8
    broken = re.sub(r'depid="\d+" deps="\d+"', 'depid="-1" deps="-1"', text)
    with pytest.raises(
        ColltoolError, match=r"without the part of rank|reduced twice|dependency is missing"
    ):
        read_msccl(broken, "broken.xml", "broken")


@pytest.mark.parametrize("algorithm", ["hierarchical:ring/ring", "rabenseifner"])
def test_what_is_exported_costs_what_it_did(algorithm: str, tmp_path: Path) -> None:
    file = str(tmp_path / "x.xml")
    done = run(
        "export", "msccl", "ar", "-f", "dgx-h100", "-n", "16", "--algorithm", algorithm, "-o", file
    )
    assert (done.code, done.out) == (0, "")
    price = colltool.price(
        "dgx-h100",
        "ar",
        size="64MB",
        algorithm_files=file,
        algorithms=algorithm,
        library="all",
        ideal=True,
    )
    first, second = price.results
    assert {first.status, second.status} == {"shipped", "own"}
    assert float(first.total_s) == pytest.approx(float(second.total_s), rel=1e-3)


def test_an_algorithm_file_is_printed() -> None:
    out = run("export", "algorithm", "ar", "-f", "star512", "-n", "2", "--algorithm", "ring").out
    assert out.splitlines()[0] == "schema: colltool.algorithm/1"
    assert custom_schedule(out).messages == 4


@swept(
    ("words", "what"),
    [
        (
            "ar -f star512 -n 8 --algorithm parameter-server",
            "needs switches, servers or padding besides the ranks",
        ),
        ("ar -f star512 -n 8 --algorithm in-network", "in-network needs switches"),
        ("ar -f star512 -n 8 --algorithm rong", "did you mean 'ring'?"),
        (
            "ar -f star512 -n 8 --algorithm hierarchical",
            "hierarchical: needs a group over several tiers",
        ),
        ("p2p -f star512 -n 2 --algorithm send", "is no schedule of equal chunks"),
        ("a2a -f star512 -n 512 --algorithm bruck", "bruck: 512 ranks are too many to execute"),
    ],
)
def test_what_is_no_file_is_refused(words: str, what: str) -> None:
    done = run("export", "msccl", *words.split())
    assert (done.code, done.out) == (2, "")
    assert what in done.err


def test_a_composition_too_long_for_a_file_is_refused() -> None:
    with pytest.raises(ColltoolError, match="1024 ranks are too many to execute"):
        shipped_schedule(fabric(star(8), star(128)), None, AR, "hierarchical:ring/ring")
    with pytest.raises(ColltoolError, match=r"moves 1,[0-9,]+ chunks, and a file holds 1,000,000"):
        shipped_schedule(fabric(star(8), star(90)), None, AR, "hierarchical:ring/ring")
