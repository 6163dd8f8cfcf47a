"""Every argument of every public function, given what it does not take: an error of colltool's own,
or a result."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError

pytestmark = pytest.mark.usefixtures("datasheet")

DOCUMENT = {"schema": "colltool.price/1", "colltool": "0.7.0", "results": []}
LOG = "collective,ranks,bytes,time_us\n" + "".join(
    f"all_reduce,8,{2**k},{10 + 2**k / 300000}\n" for k in range(10, 28, 4)
)
JOB = {
    "model": {"layers": 2, "hidden": 256, "heads": 4, "ffn": 512, "vocab": 1000},
    "sequence": 128,
    "batch": {"global": 8, "micro": 1},
    "device": "h100",
    "stack": "megatron",
}
ON_8 = {"fabric": "dgx-h100", "primitive": "ar", "ranks": 8}
CALLS: dict[str, dict[str, Any]] = {
    "price": {**ON_8, "size": "1MB"},
    "price_list": ON_8,
    "crossover": ON_8,
    "breakdown": {**ON_8, "size": "1MB"},
    "explain": {"algorithm": "ring"},
    "verify": {"fabrics": "star512", "primitive": "ar", "ranks": 4},
    "sweep": {"fabrics": "dgx-h100", "primitive": "ar", "ranks": [8], "sizes": ["1MB"]},
    "compare": {
        "fabrics": ["dgx-h100", "dgx-b200"],
        "primitives": "ar",
        "ranks": [8],
        "sizes": ["1MB"],
    },
    "compare_sensitivity": {
        **{"fabrics": ["dgx-h100", "dgx-b200"], "primitive": "ar"},
        **{"ranks": 8, "size": "1MB", "samples": 50},
    },
    "sensitivity": {**ON_8, "size": "1MB", "samples": 50},
    "plan": {"job": JOB, "fabric": "dgx-h100", "ranks": 8},
    "compare_plans": {"job": JOB, "fabrics": ["dgx-h100", "dgx-b200"], "ranks": 8},
    "plan_sensitivity": {
        "job": JOB,
        "fabric": "dgx-h100",
        "ranks": 8,
        "samples": 2,
        "vary": "nvlink.alpha=2x",
    },
    "search_layouts": {
        "job": JOB,
        "fabric": "dgx-h100",
        "ranks": 8,
        "keep": ["tp=1", "pp=1", "cp=1", "shard=zero1"],
    },
    "report": {"fabric": "star512", "ranks": 8, "primitives": "p2p"},
    "draw_fabric": {"fabric": "star512"},
    "size_fabric": {"endpoints": 64, "radix": 8},
    "ladder": {},
    "score": {},
    "diff": {"old": DOCUMENT, "new": DOCUMENT},
    "serve": {"job": "llama3-8b", "fabric": "dgx-h100", "tp": 2},
    "reshard": {"job": "llama3-8b", "fabric": "dgx-h100", "senders": 8, "receivers": 8},
    "list_libraries": {},
    "show_library": {"library": "vllm@0.24.0"},
    "diff_libraries": {"fabric": "dgx-b200", "old": "sglang@0.5.10", "new": "sglang@0.5.14"},
    "load_fabric": {"fabric": "star512"},
    "load_job": {"job": JOB},
    "readings": {},
    "contention": {"fabric": "star512", "layout": {"kind": "block", "group": 8, "count": 1}},
    "calibrate": {"fabric": "dgx-h100", "logs": "log.csv", "algorithms": "ring"},
    "validate": {"fabric": "dgx-h100", "logs": "log.csv"},
    "expect": {"fabric": "dgx-h100", "ranks": 8, "against": "log.csv"},
    "doctor": {"logs": "log.csv", "fabric": "dgx-h100"},
    "trace": {"fabric": "dgx-h100", "files": "log.csv"},
    "plan_traces": {"fabric": "dgx-h100", "files": "log.csv"},
    "list_fabrics": {},
    "ModelOptions": {},
    "Readings": {},
}
WRONG: dict[str, Any] = {
    "nan": math.nan,
    "a number of 400 digits": 10**400,
    "a thing": object(),
    "numbers": np.array([1.0, 2.0]),
    "no numbers": np.array([]),
}
# A page takes long, and hands these on to functions that are held here.
ALREADY = {
    ("report", name)
    for name in ("ranks", "size", "primitives", "library", "readings", "logs", "job")
}


@pytest.fixture(autouse=True, scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "log.csv").write_text(LOG)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield


def arguments() -> Iterator[tuple[str, str]]:
    for name in CALLS:
        for parameter in inspect.signature(getattr(colltool, name)).parameters.values():
            by_name = parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            if by_name and (name, parameter.name) not in ALREADY:
                yield name, parameter.name


def test_every_public_function_is_held() -> None:
    assert set(CALLS) == set(colltool.__all__) - {"ColltoolError", "__version__"}


@swept(("name", "argument"), list(arguments()))
def test_what_an_argument_does_not_take(name: str, argument: str) -> None:
    function: Callable[..., Any] = getattr(colltool, name)
    for value in WRONG.values():
        with suppress(ColltoolError):
            function(**CALLS[name] | {argument: value})


REFUSED = [
    ("sweep", "ranks", ["8", math.nan, 0.5, True, b"8", {8: 8}, {8}, [None], ["8"], lambda: 8]),
    ("compare", "ranks", ["8", math.nan, 0.5, True, b"8", {8: 8}, [None], 0, -1, 10**9]),
    ("sweep", "limit", ["x", math.nan, math.inf, 0, -1, 2.5, True]),
    ("sweep", "sizes", [math.nan, b"x", {1: 2}, [None], object()]),
    ("compare", "primitives", [[], (), None, {}, ["ar", None]]),
    ("compare", "algorithms", ["nope", ["8"], b"ring"]),
    (
        "sweep",
        "overrides",
        [5, "nvlink.alpha=1us", [5], np.array(["nvlink.alpha=1us"]), b"x", math.nan, True],
    ),
    ("compare", "overrides", [5, [5]]),
    ("report", "overrides", [5, [5]]),
    ("load_fabric", "overrides", [5, "x", [None], np.array([1.0, 2.0])]),
    ("sensitivity", "samples", [-1, 0, 10**7, 10**400, "x", math.nan, None]),
    ("sensitivity", "seed", [-1, 10**400, "x", 0.5, None]),
    ("plan_sensitivity", "samples", [-1, 0, 10**7]),
    ("plan_sensitivity", "seed", [-1, 10**400]),
    ("plan", "ranks", [0, -1, "8", math.nan, 10**400]),
    ("plan", "links", [2, "yes", None, np.array([1.0, 2.0])]),
    ("search_layouts", "ranks", [0, -1]),
    ("compare_plans", "ranks", [0, -1]),
    ("doctor", "expect", [10**400, math.nan, math.inf, -1, "x", True]),
    ("validate", "max_mape", [10**400, math.nan, -1]),
    ("calibrate", "name", [5, b"x", object(), np.array(["a", "b"])]),
    ("calibrate", "line_rate", [10**400, math.nan, object()]),
    ("explain", "library", [5, "nccl", object()]),
    ("report", "against", [np.array(["nvl72", "dgx-b200"]), 5]),
]


@swept(("name", "argument", "values"), REFUSED)
def test_nonsense_is_refused_by_the_name_of_its_argument(
    name: str, argument: str, values: list[Any]
) -> None:
    for value in values:
        with pytest.raises(ColltoolError):
            getattr(colltool, name)(**CALLS[name] | {argument: value})


@swept(
    "several",
    [[8, 16], (8, 16), range(8, 17, 8), np.array([8, 16])],
)
def test_numbers_of_ranks_and_sizes_in_any_row(several: Any) -> None:
    swept = colltool.sweep("dgx-h100", "ar", ranks=several, sizes=several)
    assert [cell.at[1:] for cell in swept.cells] == [
        (ranks, size) for ranks in (8, 16) for size in (8.0, 16.0)
    ]


def test_none_is_the_default() -> None:
    plain = colltool.sweep("dgx-h100", "ar", ranks=8).cells
    assert (
        colltool.sweep("dgx-h100", "ar", ranks=8, sizes=None, overrides=None, limit=None).cells
        == plain
    )  # type: ignore[arg-type]


@swept("copied", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
@swept("what", [{"tiers": 5, "x": 1}, {"name": "n"}])
def test_errors_travel_between_processes(
    copied: Callable[[ColltoolError], ColltoolError], what: dict[str, Any]
) -> None:
    with pytest.raises(ColltoolError) as caught:
        colltool.load_fabric(what)
    error = caught.value
    twin = copied(error)
    assert (type(twin), str(twin), twin.spelled("shell")) == (
        type(error),
        str(error),
        error.spelled("shell"),
    )
    assert [str(one) for one in getattr(twin, "problems", ())] == [
        str(one) for one in getattr(error, "problems", ())
    ]


@swept(
    "name",
    ["price", "sweep", "compare", "sensitivity", "plan", "crossover", "contention", "size_fabric"],
)
def test_results_travel_between_processes(name: str) -> None:
    result = getattr(colltool, name)(**CALLS[name])
    twin = pickle.loads(pickle.dumps(result))
    assert twin.summary() == result.summary()
    assert copy.deepcopy(result).to_columns() == result.to_columns()


@pytest.mark.parametrize("sizes", ["16MB", [1e3, 1e9]], ids=["one", "many"])
def test_prices_with_measured_terms_travel_too(sizes: Any) -> None:
    result = colltool.price("nvl72", "ar", size=sizes)
    assert pickle.loads(pickle.dumps(result)) == result
