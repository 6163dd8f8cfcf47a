"""Shipped fabrics beside the rows of ``tests/data/measured``: made from them, near them, the same
when made again."""

from __future__ import annotations

import re
from functools import cache

import fit_across
import fit_fabrics
import fit_mpi
import pytest
from effort import some
from measured_rows import rows, sources
from swept import swept

import colltool

LARGE = 128 * 2**20
LONG = pytest.mark.thorough
"""Fits of up to half a minute."""
PUBLISHED = [
    row
    for row in rows()
    if not row.source.source_id.startswith("aic-") and row.source.fabric in fit_fabrics.KNOWN
]
MADE = sorted(fit_fabrics.KNOWN)
MADE_FROM = [
    row for row in PUBLISHED if row.role == "fit" and not row.algorithm and row.bytes >= LARGE
]


@cache
def ratio(row: fit_across.Row) -> float:
    """Priced over measured time of what NCCL picks."""
    fabric = colltool.load_fabric(row.source.fabric, row.source.overrides)
    return float(fit_across.picked(fabric, row).total_s) / row.time_s


def test_every_row_names_a_public_source_and_stands_once() -> None:
    assert len(rows()) >= 2000
    keys = [
        (row.source.source_id, row.ranks, row.collective, row.bytes, row.algorithm)
        for row in rows()
    ]
    assert len(set(keys)) == len(keys)
    assert all(
        re.fullmatch(r"https://[\w.-]+\.(com|org|io|gov|ch)(/\S*)?", one.url)
        for one in sources().values()
    )
    assert all(
        row.role in ("fit", "check") and row.time_s > 0 and row.bytes > 0 and row.ranks >= 2
        for row in rows()
    )


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one == "mi300x" else LONG) for one in MADE]
)
def test_what_a_library_takes_inside_a_node_made_again_is_what_ships(name: str) -> None:
    texts = [
        file.read_text(encoding="utf-8") for file in fit_fabrics.library_file.FOLDER.glob("*.toml")
    ]
    assert any(fit_fabrics.inside_table(fit_fabrics.KNOWN[name]) in text for text in texts)


@LONG
def test_what_a_library_takes_made_again_is_what_ships() -> None:
    for file, text in fit_fabrics.texts().items():
        assert file.read_text(encoding="utf-8") == text


@pytest.mark.thorough
def test_hosts_with_mpi_made_again_are_those_that_ship() -> None:
    """Of its collectives the one that shows what posting takes."""
    data, several = (
        fit_fabrics.shipped("mpi-cluster"),
        [row for row in rows() if row.source.source_id == fit_mpi.SOURCE],
    )
    made = fit_mpi.fitted(data, several, ["all_to_all"])
    assert fit_mpi.file_with_post(data, made) == fit_mpi.FILE.read_text(encoding="utf-8")
    shipped = fit_mpi.LIBRARY.read_text(encoding="utf-8").splitlines()
    fitted = [
        line
        for line in fit_mpi.library_text(made).splitlines()
        if line.lstrip().startswith("{name")
    ]
    assert len(fitted) == 4
    assert set(fitted) <= set(shipped)


@swept("row", MADE_FROM, most=40)
def test_a_fabric_gives_back_the_figures_it_was_made_from(row: fit_across.Row) -> None:
    """Large messages; machines of one kind that differ by a third (two clouds' A100) meet in the
    middle.

    On Alps 128 MiB on 32 ranks took hardly longer than 64 MiB, and less than 32 MiB.
    """
    assert 0.70 <= ratio(row) <= (1.44 if row.source.source_id == "alps-gh200" else 1.37)


def test_most_figures_are_near() -> None:
    errors = sorted(abs(ratio(row) - 1) for row in some(MADE_FROM, 60))
    assert errors[len(errors) // 2] <= 0.03
    assert errors[int(0.8 * len(errors))] <= 0.08


def test_thirty_two_racks_take_no_less_than_two_were_measured_to() -> None:
    """Oracle's two racks of 64 take 395 us for 16 MiB. Twenty racks take long from 512 MiB on, and
    the curve goes to these."""
    priced = colltool.price("nvl72", "all_reduce", size="16MiB").best
    assert 395e-6 < priced.total_s < 5 * 395e-6
    assert priced.interval is not None
    assert priced.interval.high_s > 2 * priced.total_s


def test_a_name_that_was_merged_says_what_to_type() -> None:
    with pytest.raises(colltool.ColltoolError, match="dgx-h100-measured") as caught:
        colltool.load_fabric("dgx-h100-measured")
    assert "type dgx-h100" in caught.value.fix
    assert "datasheet" in caught.value.fix
