"""What results offer in Python: columns, frames, lines, notebooks; equal where their numbers
are."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small import clos, fabric, star
from small_nodes import h100, written
from swept import swept
from tracing import call, kernel, write

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.result import Result
from colltool.commands.explain import list_algorithms
from colltool.engines.results import LibraryChecks
from colltool.estimate.results import Price, PriceList
from colltool.fabric.lint import check_fabric
from colltool.fabric.properties import fabric_facts
from colltool.fabric.results import FabricList, FabricsChecked, FabricShown
from colltool.libraries.nccl.topology.results import channels_found
from colltool.render.dispatch import FORMATS, document, rendered
from colltool.training.job_results import JobList, JobsChecked, check_job, show_job
from tests.logs.test_chakra_traces import STEP
from tests.logs.test_chakra_traces import write as chakra_file

pytestmark = pytest.mark.usefixtures("datasheet")

WHERE = fabric(star(8, 1.0, 400.0), clos(4, alpha=3.0))
LOG = "collective,ranks,bytes,time_us\n" + "".join(
    f"all_reduce,8,{2**k},{10 + 2**k / 2e5}\n" for k in range(10, 27, 2)
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """One of every public result."""
    log = tmp_path_factory.mktemp("logs") / "log.csv"
    log.write_text(LOG)
    ran = write(
        tmp_path_factory.mktemp("traces") / "rank0.json",
        [kernel(0, 50), call(100, 40, list(range(8)))],
        0,
        8,
    )
    old = document(colltool.price(WHERE, "ar", size=1e6))
    contention = colltool.contention(WHERE, {"group": 4})
    report = colltool.report(WHERE, primitives="ar")
    return {
        "report": report,
        "assumptions": report.sections[-1].exhibits[0].result,
        "price": colltool.price(WHERE, "ar", size=1e6),
        "price of an array": colltool.price(WHERE, "ar", size=[1e3, 1e6, 1e9]),
        "price list": colltool.price_list(WHERE, "ar", sizes=["1MB", "1GB"]),
        "winners": colltool.price_list(WHERE, "ar"),
        "algorithms": list_algorithms(),
        "breakdown": colltool.breakdown(WHERE, "ar", size="1MB"),
        "crossover": colltool.crossover(WHERE, "ar"),
        "ladder": colltool.ladder(),
        "score": colltool.score(),
        "channels": channels_found(written(ran.parent, *h100())),
        "diff": colltool.diff(old, document(colltool.price(WHERE, "ar", size=2e6)) | {"note": 1}),
        "explanation": colltool.explain("ring"),
        "verification": colltool.verify(WHERE, "ar", ranks=8),
        "contention": contention,
        "eta": contention.as_eta(),
        "calibration": colltool.calibrate("dgx-h100", log),
        "expected": colltool.expect("dgx-h100", ranks=16, sizes=["1MB", "1GB"]),
        "validation": colltool.validate("dgx-h100", log),
        "trace": colltool.trace("dgx-h100", ran),
        "plan of traces": colltool.plan_traces(
            chakra_file(ran.parent / "a.0.et", *STEP), "dgx-h100"
        ),
        "diagnosis": colltool.doctor(log, WHERE),
        "fabric": FabricShown(WHERE, fabric_facts(WHERE)),
        "fabrics": FabricList((WHERE,)),
        "drawn": colltool.draw_fabric(WHERE),
        "sized": colltool.size_fabric(2048, 64, prices={"currency": "USD", "switch": 30000}),
        "sized without levels": colltool.size_fabric(2048, 64, topology="dragonfly"),
        "checked": FabricsChecked((check_fabric("nvl72", "nvl72"),)),
        "job": show_job(colltool.load_job("llama3-70b"), 512),
        "jobs": JobList((colltool.load_job("llama3-70b"),)),
        "jobs checked": JobsChecked((check_job("llama3-70b"),)),
        "plan": colltool.plan("mixtral-8x7b", "dgx-h100", 128),
        "sweep": colltool.sweep([WHERE, "dgx-h100"], "ar", ranks=[8, 16], sizes=["1MB", "1GB"]),
        "comparison": colltool.compare(
            [WHERE, "dgx-h100"], "ar", ranks=[8, 16], sizes=["1MB", "1GB"]
        ),
        "sensitivity": colltool.sensitivity(WHERE, "ar", size="1MB", samples=200),
        "plans": colltool.compare_plans("mixtral-8x7b", ["dgx-h100", "hgx-h200"], 128),
        "contest": colltool.compare_sensitivity(
            ["dgx-h100", "hgx-h200"], "ar", ranks=16, size="1MB", samples=100
        ),
        "plan spread": colltool.plan_sensitivity(
            "mixtral-8x7b", "dgx-h100", 128, vary="nvlink.alpha=2x", samples=5
        ),
        "search": colltool.search_layouts(
            "mixtral-8x7b", "dgx-h100", 128, {"tp": 1, "pp": 4}, top=20
        ),
        "kernels": colltool.price("dgx-h100", "ar", size="64KB", ranks=8, library="vllm"),
        "kernel sizes": colltool.price_list(
            "dgx-h100", "ar", sizes=["64KB", "1MB"], ranks=8, library="vllm"
        ),
        "kernel crossover": colltool.crossover("dgx-b200", "ar", ranks=8, library="vllm"),
        "libraries": colltool.list_libraries(),
        "library": colltool.show_library("vllm"),
        "libraries checked": LibraryChecks(colltool.list_libraries().rows[:1]),
        "served": colltool.serve("llama3-8b", "dgx-h100", tp=2),
        "served apart": colltool.serve("llama3-8b", ["dgx-h100", "dgx-b200"], tp=2),
        "served within": colltool.serve("llama3-8b", "dgx-h100", tp=2, vary="nvlink.alpha=2x"),
        "resharded": colltool.reshard("llama3-8b", "dgx-h100", senders=8, receivers=8),
        "libraries apart": colltool.diff_libraries("dgx-b200", "sglang@0.5.10", "sglang@0.5.14"),
    }


NAMES = (
    "report",
    "assumptions",
    "price",
    "price of an array",
    "price list",
    "winners",
    "algorithms",
    "breakdown",
    "crossover",
    "ladder",
    "score",
    "channels",
    "diff",
    "explanation",
    "verification",
    "contention",
    "eta",
    "calibration",
    "expected",
    "validation",
    "trace",
    "plan of traces",
    "diagnosis",
    "fabric",
    "fabrics",
    "drawn",
    "sized",
    "sized without levels",
    "checked",
    "job",
    "jobs",
    "jobs checked",
    "plan",
    "sweep",
    "comparison",
    "sensitivity",
    "plans",
    "contest",
    "plan spread",
    "search",
    "kernels",
    "kernel sizes",
    "kernel crossover",
    "libraries",
    "library",
    "libraries checked",
    "served",
    "served apart",
    "served within",
    "resharded",
    "libraries apart",
)
every_result = swept("name", NAMES)


def test_every_result_is_here(results: dict[str, Result]) -> None:
    assert tuple(results) == NAMES
    kinds = {kind for kind in _subclasses(Result) if kind.__module__.startswith("colltool.")}
    assert kinds == {type(result) for result in results.values()}


def _subclasses(kind: type) -> set[type]:
    return {one for below in kind.__subclasses__() for one in {below, *_subclasses(below)}}


@every_result
def test_columns_are_of_one_length_and_plain(name: str, results: dict[str, Result]) -> None:
    columns = results[name].to_columns()
    assert columns
    assert len({len(values) for values in columns.values()}) == 1
    for values in columns.values():
        assert values
        assert {type(value) for value in values} <= {str, int, float, bool, type(None), tuple, list}


@every_result
def test_every_number_of_csv_is_in_json(name: str, results: dict[str, Result]) -> None:
    held = {value for value in _plain(document(results[name])) if isinstance(value, int | float)}
    for key, values in results[name].to_columns().items():
        numbers = [
            value
            for value in _plain(values)
            if isinstance(value, int | float) and not isinstance(value, bool)
        ]
        assert set(numbers) <= held, key


def _plain(part: Any) -> Iterator[Any]:
    """Every value within, keys left out."""
    if isinstance(part, dict | list | tuple):
        for one in part.values() if isinstance(part, dict) else part:
            yield from _plain(one)
    else:
        yield part


@every_result
def test_a_repr_is_a_line_and_a_summary_a_few(name: str, results: dict[str, Result]) -> None:
    result = results[name]
    assert repr(result).startswith(f"<{type(result).__name__}: ")
    assert "\n" not in repr(result)
    assert len(repr(result)) < 520
    assert 1 <= len(result.summary().splitlines()) <= 4


@every_result
def test_no_mark_is_left_in_any_output(name: str, results: dict[str, Result]) -> None:
    """Marks of arguments are private characters: the words of the audience stand in their place."""
    result = results[name]
    texts = [rendered(result, form, everything=True) for form in FORMATS if form != "csv"]
    texts += [rendered(result, "csv"), result.summary(), repr(result), result._repr_html_()]
    texts += map(str, _plain(result.to_columns()))
    for text in texts:
        assert not re.search(r"[\ue000-\uf8ff]|\\ue00", text)


@every_result
def test_a_notebook_gets_a_table_of_its_own(name: str, results: dict[str, Result]) -> None:
    shown = results[name]._repr_html_()
    assert shown.startswith('<div class="colltool">')
    assert shown.count("<table") == shown.count("</table>")
    assert shown.count("<table") >= (
        name
        not in ("explanation", "checked", "drawn", "jobs checked", "libraries checked", "report")
    )
    assert "http" not in shown or name == "explanation"


@every_result
def test_a_result_is_equal_to_itself_alone(name: str, results: dict[str, Result]) -> None:
    result = results[name]
    assert result == result
    assert result != 1
    assert all((result == other) is (other is result) for other in results.values())
    with pytest.raises(FrozenInstanceError):
        result.subject = "other"  # type: ignore[misc]


def test_arrays_compare_by_their_numbers() -> None:
    def one(size: list[float]) -> Price:
        return colltool.price(WHERE, "ar", size=size)

    assert one([1e3, 1e6]) == one([1e3, 1e6])
    assert one([1e3, 1e6]) != one([1e3, 2e6])
    assert one([1e3, 1e6]) != one([1e3, 1e6, 1e9])
    assert one([1e3]).results[0] == one([1e3]).results[0]
    assert one([1e3]).results[0] != one([2e3]).results[0]


def test_columns_of_a_price_are_its_rows() -> None:
    price = colltool.price(WHERE, "ar", size=1e6)
    columns = price.to_columns()
    assert columns["algorithm"] == [row.title for row in price.results]
    assert columns["total_s"] == [row.total_s for row in price.results]
    assert columns["busbw_Bps"] == [row.busbw_Bps for row in price.results]
    assert set(columns["primitive"]) == {"all_reduce"}
    assert set(columns["bytes"]) == {1_000_000}


def test_columns_of_an_array_are_those_of_its_sizes() -> None:
    sizes = [1e3, 1e6, 1e9]
    columns = colltool.price(WHERE, "ar", size=sizes).to_columns()
    assert list(columns) == list(colltool.price(WHERE, "ar", size=1e3).to_columns())
    found = dict(
        zip(zip(columns["bytes"], columns["spec"], strict=True), columns["total_s"], strict=True)
    )
    assert len(found) == len(columns["bytes"])
    for size in sizes:
        # an array has more: what is fastest at none of these sizes
        rows = colltool.price(WHERE, "ar", size=size).results
        assert [found[size, row.spec] for row in rows] == pytest.approx(
            [row.total_s for row in rows]
        )


def test_an_array_is_copied() -> None:
    sizes = np.array([1e3, 1e6])
    price = colltool.price(WHERE, "ar", size=sizes, algorithms="ring")
    sizes[0] = 5.0
    assert price.bytes[0] == 1e3  # type: ignore[index]
    assert price.results[0].bytes[0] == 1e3  # type: ignore[index]
    with pytest.raises(ValueError, match="read-only"):
        price.bytes[0] = 7.0  # type: ignore[index]


def test_a_frame_needs_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ColltoolError, match=r"to_frame\(\) needs pandas") as caught:
        colltool.price(WHERE, "ar", size=1e6).to_frame()
    assert "to_columns()" in caught.value.fix


def test_a_frame_is_made_of_the_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pandas:
        DataFrame = staticmethod(lambda columns: ("frame", columns))

    monkeypatch.setitem(sys.modules, "pandas", Pandas)  # type: ignore[arg-type]
    price = colltool.price(WHERE, "ar", size=1e6)
    assert price.to_frame() == ("frame", price.to_columns())


def test_overrides_are_named_everywhere() -> None:
    from dataclasses import replace

    from colltool.render.dispatch import FORMATS, rendered

    price = replace(colltool.price(WHERE, "ar", size=1e6), overrides=(("t1.alpha", "2us"),))
    for one in (price, PriceList((price, price)), PriceList((price,), winners_only=True)):
        for form in FORMATS:
            shown = rendered(one, form)
            assert '"set": {' in shown if form == "json" else "t1.alpha=2us" in shown
    assert document(price)["set"] == {"t1.alpha": "2us"}
    assert "set" not in document(replace(price, overrides=()))


def test_top_counts_what_may_lead() -> None:
    price = colltool.price(WHERE, "ar", size=1e6)
    assert price.others
    assert price.top(2).results == price.leading[:2]
    assert price.top(99).results == price.leading
    alone = colltool.price(WHERE, "ar", size=1e6, algorithms="inner-ring")
    assert alone.top(1).results == alone.results, (
        "of what may not lead the first, where nothing else was asked for"
    )


def test_the_methods_do_not_load_the_renderers_before(tmp_path: Path) -> None:
    import subprocess

    code = (
        "import colltool.estimate.results, sys; assert not [m for m in sys.modules if"
        " m.startswith('colltool.render')]"
    )
    done: Any = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_new_result_needs_no_line_in_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result names its subject, and a module of that name renders it: in every format, and in
    Python."""
    from dataclasses import dataclass
    from types import ModuleType

    from colltool.render.blocks import Table, number
    from colltool.render.dispatch import FORMATS, View, rendered

    @dataclass(frozen=True, eq=False, repr=False)
    class Trial(Result):
        values: tuple[float, ...]

    Trial.subject = "trial"

    def table(result: Trial) -> Table:
        return Table((number("value_s", "value", get=float),), result.values, None, "a trial")

    module = ModuleType("trial")
    module.VIEWS = {  # type: ignore[attr-defined]
        Trial: View(
            "trial",
            lambda result: [table(result)],
            lambda result: {"values": list(result.values)},
            table,
            lambda _: "two values",
        )
    }
    monkeypatch.setitem(sys.modules, "colltool.render.views.trial", module)
    trial = Trial((1.5, 2.5))
    assert rendered(trial, "csv") == "value_s\n1.5\n2.5\n"
    assert list(document(trial)) == ["schema", "colltool", "values"]
    assert document(trial)["schema"] == "colltool.trial/1"
    assert all("2.5" in rendered(trial, form) for form in FORMATS)
    assert trial.to_columns() == {"value_s": [1.5, 2.5]}
    assert repr(trial) == "<Trial: two values>"


def test_what_a_fabric_was_given_in_place_of_its_own_reaches_every_result(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(LOG)
    changed = colltool.load_fabric("dgx-h100", ["nvlink.alpha=2us"])
    for result in (
        colltool.price(changed, "ar", size=1e6),
        colltool.crossover(changed, "ar"),
        colltool.explain("ring", "ar", fabric=changed, size=1e6),
        colltool.verify(changed, "ar", ranks=8),
        colltool.contention(changed, {"group": 4}),
        colltool.validate(changed, log),
    ):
        assert document(result)["set"] == {"nvlink.alpha": "2us"}
        assert "nvlink.alpha=2us" in result.summary()
        assert set(result.to_columns()["set"]) == {"nvlink.alpha=2us"}
    assert document(colltool.breakdown(changed, "ar", size="1MB"))["set"] == {"nvlink.alpha": "2us"}
