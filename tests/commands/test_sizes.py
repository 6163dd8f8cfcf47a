"""Sizes as people type them: nccl-tests' 16M and -b -e, ranges, and the asked form printed back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.base.formatting import format_size, parse_size
from colltool.commands.reading import each_size, sizes_between


@swept("typed", ["16M", "16MiB", "16Mi"])
def test_a_bare_prefix_is_a_power_of_two_as_in_nccl_tests(typed: str) -> None:
    assert parse_size(typed) == 2.0**24


@swept("typed", ["16MB", "16MiB", "1GiB", "1.5GiB", "64KB", "8KiB", "512B", "1GB"])
def test_a_size_prints_as_it_was_typed(typed: str) -> None:
    assert format_size(parse_size(typed)) == typed


@given(st.integers(1, 2**50))
def test_a_printed_size_reads_back(size: int) -> None:
    assert parse_size(format_size(float(size))) == size


def test_ranges_double_or_go_up_by_a_factor_or_a_step() -> None:
    assert each_size(["1K-8K"]) == [2.0**10, 2.0**11, 2.0**12, 2.0**13]
    assert each_size(["1K:1M:32"]) == [2.0**10, 2.0**15, 2.0**20]
    assert each_size(["1MB", "2KB-3KB"]) == [1e6, 2e3]
    assert sizes_between(1.0, 4.0, step=1.0) == [1.0, 2.0, 3.0, 4.0]


@swept("typed", ["1G-1K", "1K:1G:1", "1K:1G:x", "1-1EB:1.0001", "1K:1G:1.0001"])
def test_a_range_that_is_none_says_what_to_write(typed: str) -> None:
    with pytest.raises(ColltoolError) as caught:
        each_size([typed])
    assert caught.value.fix


def test_nccl_tests_options(run: Any) -> None:
    where = ("price", "ar", "-f", "dgx-h100", "-n", "8", "--format", "csv")
    ranged = run(*where, "-b", "1M", "-e", "4M")
    assert ranged.out == run(*where, "-M", "1M,2M,4M").out != ""
    alone = run(*where, "-b", "1M")
    assert (alone.code, alone.out) == (2, "")
    assert "add -e 1G" in alone.err
