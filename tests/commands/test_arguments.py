"""Arguments of wrong types and impossible values: a ColltoolError that names the argument, never an
error from deep inside."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError

LOG = "collective,ranks,bytes,time_us\nall_reduce,8,1000000,10\n"


def price(**changed: Any) -> Any:
    return colltool.price(**({"fabric": "star512", "primitive": "ar", "size": "1MB"} | changed))


def breakdown(**changed: Any) -> Any:
    return colltool.breakdown(**({"fabric": "star512", "primitive": "ar", "size": "1MB"} | changed))


def price_list(**changed: Any) -> Any:
    return colltool.price_list(
        **({"fabric": "star512", "primitive": "ar", "sizes": ["1MB"]} | changed)
    )


def crossover(**changed: Any) -> Any:
    return colltool.crossover(**({"fabric": "star512"} | changed))


def verify(**changed: Any) -> Any:
    return colltool.verify(**({"fabrics": "star512", "ranks": 4} | changed))


def diff(**changed: Any) -> Any:
    document = {"schema": "colltool.price/1", "x": 1}
    return colltool.diff(**({"old": document, "new": document} | changed))


def explain(**changed: Any) -> Any:
    return colltool.explain(**({"algorithm": "ring"} | changed))


def ladder(**changed: Any) -> Any:
    return colltool.ladder(**changed)


def contention(**changed: Any) -> Any:
    hot = {"hot": 2} if "hot_members" in changed else {}
    return colltool.contention(
        **hot,
        **({"fabric": "star512", "layout": {"kind": "block", "group": 8, "count": 1}} | changed),
    )


def validate(**changed: Any) -> Any:
    return colltool.validate(**({"fabric": "dgx-h100", "logs": "log.csv"} | changed))


def calibrate(**changed: Any) -> Any:
    return colltool.calibrate(**({"fabric": "dgx-h100", "logs": "log.csv"} | changed))


def sweep(**changed: Any) -> Any:
    return colltool.sweep(
        **({"fabrics": "dgx-h100", "primitive": "ar", "ranks": 8, "sizes": 1e6} | changed)
    )


def compare(**changed: Any) -> Any:
    return colltool.compare(
        **(
            {"fabrics": ["dgx-h100", "nvl72"], "primitives": "ar", "ranks": 8, "sizes": 1e6}
            | changed
        )
    )


def sensitivity(**changed: Any) -> Any:
    return colltool.sensitivity(
        **({"fabric": "dgx-h100", "primitive": "ar", "ranks": 8, "size": 1e6} | changed)
    )


Call = Callable[..., Any]
WRONG: list[tuple[Call, str, Any]] = [
    *((price, "fabric", value) for value in (3, None, object(), b"star512")),
    *((price, "primitive", value) for value in (0, None, ["ar"])),
    *(
        (price, "size", value)
        for value in (object(), None, True, 1j, 10**400, nan, inf, -1, [], [None], {"a": 1})
    ),
    *(
        (price, "size", value)
        for value in (np.array([1j]), np.ones((2, 2)), np.array(["1MB"]), np.array([True]))
    ),
    *((price, "ranks", value) for value in ("8", 8.0, nan, True, [8], 10**400, object())),
    *((price, "algorithms", value) for value in ([None], 3, [""], "", {"ring": 1}, [["ring"]])),
    *((breakdown, "algorithm", value) for value in (0, "", ["ring"])),
    *((breakdown, "size", value) for value in (None, [1e6], np.ones(3))),
    *((price_list, "sizes", value) for value in (None, 3, "1MB", [None], [nan])),
    *((crossover, "algorithms", value) for value in ([None, None], 7)),
    *((crossover, "ranks", value) for value in (2.5, "x")),
    *((verify, "fabrics", value) for value in (0, None, [])),
    *((verify, "segments", value) for value in (-1, 0, 1.5, True, 10**12, 10**400)),
    *((verify, "trace", value) for value in ("yes", 1, None)),
    *((diff, "old", value) for value in (0, None, [], "x", {"schema": 3})),
    *((diff, "rtol", value) for value in (-1, nan, inf, "x", None, 1j)),
    *((explain, "algorithm", value) for value in (0, None, "")),
    *((explain, "primitive", value) for value in (0, [])),
    *((ladder, "definition", value) for value in (0, None, {})),
    *((contention, "layout", value) for value in (0, None, [], {"kinds": "block"})),
    *((contention, "hot", value) for value in ("x", nan, 1j, True)),
    *((contention, "hot_members", value) for value in (3, ["x"], [1.5])),
    *((contention, "zipf", value) for value in ("x", nan, inf)),
    *((contention, "seed", value) for value in (nan, "x", None, 1.5)),
    *((contention, "per_link", value) for value in ("yes", 1, None)),
    *((contention, "algorithm", value) for value in (0, "")),
    *((contention, "size", value) for value in (object(), nan)),
    *((validate, "logs", value) for value in (0, None, [], [3])),
    *((validate, "ranks", value) for value in ("x", 1.5, 10**400)),
    *((validate, "nodes", value) for value in ("x", 1.5)),
    *((validate, "in_place", value) for value in ("yes", 1)),
    *((validate, "max_mape", value) for value in ("15%", nan, 1j)),
    *((calibrate, "fabric", value) for value in (0, None)),
    *((calibrate, "line_rate", value) for value in (object(), nan, "fast", 1j)),
    *((calibrate, "tier", value) for value in (0, "")),
    *(
        (call, "vary", value)
        for call in (sweep, compare, sensitivity)
        for value in (3, [3], [""], {"alpha": "2x"})
    ),
    *((call, "fabrics", value) for call in (sweep, compare) for value in ([], None, 3)),
]


@swept(("call", "argument", "value"), WRONG)
def test_a_wrong_value_is_refused_with_the_name_of_its_argument(
    call: Call, argument: str, value: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text(LOG)
    with pytest.raises(ColltoolError) as caught:
        call(**{argument: value})
    text = str(caught.value)
    assert text.startswith(f"{argument}: "), text
    assert "\n  " in text, "no cure"


def test_the_mapping_of_a_pattern_names_its_field() -> None:
    with pytest.raises(ColltoolError, match=r"^group: expected a whole number, got 'x'"):
        contention(layout={"kind": "block", "group": "x"})
    with pytest.raises(ColltoolError, match="did you mean 'group'"):
        contention(layout={"kind": "block", "grup": 8})


def test_sizes_are_the_caller_s_own() -> None:
    sizes = np.array([1e6, 2e6])
    found = price(size=sizes)
    sizes[:] = 7
    assert found.bytes.tolist() == [1e6, 2e6]
    assert all(row.bytes.tolist() == [1e6, 2e6] for row in found.results)
    before = price(size=[1e6, 2e6])
    assert [row.total_s.tolist() for row in found.results] == [
        row.total_s.tolist() for row in before.results
    ]


@swept("size", ["1MB", 1_000_000, 1e6, np.float64(1e6), np.int64(10**6), np.array(1e6)])
def test_one_size_in_any_form(size: Any) -> None:
    assert price(size=size).best.total_s == price(size=1e6).best.total_s


def test_sizes_in_any_form() -> None:
    wanted = price(size=np.array([1e3, 1e6])).results[0].total_s.tolist()
    for sizes in (
        ["1KB", "1MB"],
        (1e3, 1_000_000),
        np.array([1000, 1_000_000]),
        np.array([1e3, 1e6], dtype=np.float32),
    ):
        assert price(size=sizes).results[0].total_s.tolist() == wanted


def test_numpy_s_own_counts_are_counts() -> None:
    assert price(ranks=np.int32(64)).ranks == 64


def test_fabrics_that_there_are() -> None:
    assert "nvl72" in colltool.list_fabrics()
    assert all(colltool.load_fabric(name).ranks > 1 for name in colltool.list_fabrics())
