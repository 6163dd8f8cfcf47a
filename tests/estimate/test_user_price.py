"""The user's price: pick, intervals and accuracy together, and arrays whose numbers are made when
they are read."""

import pickle

import numpy as np
import pytest
from swept import swept

import colltool
from colltool.base.primitives import AR
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.price import price
from colltool.estimate.user_price import price_for_user

FABRICS = ("dgx-h100", "nvl72", "mi300x-cluster")


@swept("name", FABRICS)
def test_it_is_what_users_read(name: str) -> None:
    fabric = colltool.load_fabric(name)
    bare = price(fabric, AR, 16e6, 16)
    found = price_for_user(bare, fabric, ModelOptions())
    read = colltool.price(fabric, "ar", size=16e6, ranks=16)
    assert found.results == read.results
    assert found.accuracy == read.accuracy
    assert [row.interval for row in found.results] == [row.interval for row in read.results]
    assert all(row.interval is not None for row in found.results)
    assert found.library is not None
    assert read.library is not None
    assert (found.library.pick is None) is (read.library.pick is None)


def test_the_total_of_an_array_is_that_of_the_fastest_protocol() -> None:
    fabric = colltool.load_fabric("nvl72")
    sizes = np.geomspace(1e3, 1e9, 200)
    row = colltool.price(fabric, "ar", size=sizes, ranks=72, algorithms="ring").results[0]
    assert "protocol" not in vars(row)
    singles = [
        colltool.price(fabric, "ar", size=size, ranks=72, algorithms="ring").results[0]
        for size in sizes.tolist()
    ]
    assert np.asarray(row.total_s) == pytest.approx([single.total_s for single in singles])
    assert list(row.protocol) == [single.protocol for single in singles]
    assert np.asarray(row.steps_s) == pytest.approx([single.steps_s for single in singles])
    assert np.asarray(sum(row.layers)) == pytest.approx(np.asarray(row.total_s))


def test_a_row_of_an_array_travels_between_processes() -> None:
    fabric = colltool.load_fabric("nvl72")
    sizes = np.geomspace(1e3, 1e9, 50)
    row = colltool.price(fabric, "ar", size=sizes, ranks=72, algorithms="ring").results[0]
    assert pickle.loads(pickle.dumps(row)) == row
