"""A report: what it is made of, that its commands give what it shows, and what it refuses."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import reports
from swept import swept

import colltool
from colltool.analysis.report import Assumptions, Exhibit, Report
from colltool.base.errors import ColltoolError
from colltool.commands.report_sections import counts_of, evenly_spaced
from colltool.commands.shell import command_line
from colltool.render.dispatch import document
from tests.commands.conftest import run


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return reports.small(tmp_path_factory.mktemp("report"))


def exhibits(report: Report) -> list[Exhibit]:
    return [one for section in report.sections for one in section.exhibits]


def test_a_page_answers_its_questions_in_order(report: Report) -> None:
    assert [section.key for section in report.sections] == [
        "network",
        "ar",
        "a2a",
        "job",
        "measured",
        "assumptions",
    ]
    kinds = [type(one.result).__name__ for one in report.sections[1].exhibits]
    assert kinds == ["Sweep", "Sweep", "Crossover", "Breakdown", "Sensitivity", "Comparison"]
    assert [type(one.result).__name__ for one in report.sections[3].exhibits] == ["Plan", "Plans"]
    assert [type(one.result).__name__ for one in report.sections[4].exhibits] == [
        "Diagnosis",
        "TraceComparison",
    ]


def test_without_others_jobs_and_logs_there_are_no_such_sections() -> None:
    report = colltool.report("torus512", primitives="ar", ranks=64)
    assert [section.key for section in report.sections] == ["network", "ar", "assumptions"]
    assert "Comparison" not in [type(one.result).__name__ for one in exhibits(report)]


def said_by(line: str) -> Any:
    """What a command line of a page gives: its JSON; of what no document holds its text."""
    program, *words = shlex.split(line)
    assert program == "colltool"
    form = [] if {"--format", "--output"} & set(words) else ["--format", "json"]
    done = run(*words, *form)
    assert done.code in (0, 1), done.err
    return spoken_alike(done.json) if form else done.out


def spoken_alike(document: Any) -> Any:
    """Of what cannot run the reason names the option to a terminal, the argument to Python."""
    for one in document.get("infeasible", ()) if isinstance(document, dict) else ():
        one["reason"] = one["reason"].replace("--algorithm prices", "algorithms prices")
    return document


@pytest.mark.parametrize("fabric", ["dgx-1v", "uneven-racks"])
def test_fabrics_followed_link_by_link_have_a_page_without_a_spread(fabric: str) -> None:
    (section,) = [
        one for one in colltool.report(fabric, primitives="ar").sections if one.key == "ar"
    ]
    assert [entry.title.split(",")[0] for entry in section.exhibits][-1] == "Where the time goes"


@pytest.mark.ci
def test_every_command_gives_what_the_page_shows(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for one in exhibits(report):
        told = [said_by(line) for line in one.commands]
        if isinstance(one.result, Assumptions):
            assert "schema: colltool.fabric/2\nnumbers: datasheet\nname: dgx-h100\n" in told[0]
        elif (
            "compare" in document(one.result)["schema"] and len(told) > 1
        ):  # the step on each: one command a fabric
            assert [each["step_s"] for each in told] == [
                plan["step_s"] for plan in document(one.result)["plans"]
            ]
        else:
            assert told[0] == reread(document(one.result)), one.commands[0]
    for at in (1, 2):
        assert (tmp_path / f"dgx-h100-{at}.svg").read_text().startswith("<?xml")


def reread(content: Any) -> Any:
    """A document as a reader of its JSON has it."""
    import json

    from colltool.render.data_formats import to_json

    return json.loads(to_json(content))


@pytest.mark.thorough
def test_fabrics_side_by_side_are_one_command() -> None:
    report = colltool.report(
        "dgx-h100", against="dgx-b200", job="llama3-70b", ranks=64, primitives=["a2a"], ideal=True
    )
    (plans,) = [one for one in exhibits(report) if type(one.result).__name__ == "Plans"]
    assert plans.commands == ("colltool plan llama3-70b -f dgx-h100 -f dgx-b200 -n 64 --ideal",)
    assert said_by(plans.commands[0]) == reread(document(plans.result))


def test_readings_and_the_library_are_those_asked_for() -> None:
    report = colltool.report(
        "dgx-h100", ranks=8, primitives="ar", library="all", size="1MB", placement="scattered"
    )
    lines = [line for one in exhibits(report) for line in one.commands if "breakdown" in line]
    assert lines == [
        "colltool breakdown ar -f dgx-h100 -n 8 -M 1MB --library all --placement scattered"
    ]
    (one,) = [one for one in exhibits(report) if type(one.result).__name__ == "Breakdown"]
    assert said_by(lines[0]) == reread(document(one.result))


def test_under_another_library_every_command_gives_what_is_shown(tmp_path: Path) -> None:
    report = colltool.report(
        "dgx-h100", ranks=8, primitives="ar", library="mpi", logs=reports.logs(tmp_path)
    )
    for one in exhibits(report)[:-1]:
        assert said_by(one.commands[0]) == reread(document(one.result)), one.commands[0]
    assert "library=mpi" in exhibits(report)[-1].result.to_html()


def test_what_is_only_in_python_has_no_commands() -> None:
    import yaml

    from colltool.fabric.load import shipped_folder

    mapping = yaml.safe_load((shipped_folder() / "torus512.yaml").read_text())
    for source, primitive in ((mapping, "bc"), (colltool.load_fabric(mapping), "p2p")):
        report = colltool.report(source, primitives=primitive, ranks=64)
        assert not [one for one in exhibits(report) if one.commands]
    assert "To see it again" not in report.to_html()


@pytest.mark.thorough
def test_fabrics_of_other_sizes_meet_at_what_fills_both() -> None:
    report = colltool.report("nvl72", against="dgx-h100", primitives="ar")
    assert report.ranks == 64  # of 256: nvl72 has domains of 72
    assert colltool.report("dgx-h100", against="nvl72", primitives="ar").ranks == 64


@pytest.mark.thorough
def test_a_page_of_as_many_fabrics_as_it_holds_is_small() -> None:
    """Under 2 MB with all seven primitives: one of them and the job; each further one adds 200
    kB."""
    six = "ib.bandwidth=25GB/s,40GB/s,50GB/s,80GB/s,100GB/s,200GB/s"
    report = colltool.report("dgx-h100", vary=six, ranks=64, job="llama3-70b", primitives="ar")
    assert len(report.to_html().encode()) < 640_000


def test_the_head_says_what_follows(report: Report) -> None:
    title, *verdict = report.summary().split("\n")
    assert title == (
        "oversubscription=1: no measurable difference in all-reduce; training step equally long"
    )
    begins = (
        "A training step of llama3-70b on 64 GPUs takes ",
        "All-reduce, 64 GPUs: ",
        "Benchmarks: ",
    )
    for words in begins:
        assert any(line.startswith(words) for line in verdict), words


def test_the_curves_have_so_many_ranks_from_a_node_up() -> None:
    fabrics = {
        name: colltool.load_fabric(name) for name in ("dgx-h100", "nvl72", "torus512", "star512")
    }
    assert counts_of([fabrics["dgx-h100"]], 256) == [8, 16, 32, 64, 128, 256]
    assert counts_of([fabrics["nvl72"]], 2304) == [72, 144, 288, 576, 1152, 2304]
    assert counts_of([fabrics["dgx-h100"], fabrics["star512"]], 256) == [
        2,
        4,
        8,
        16,
        32,
        64,
        128,
        256,
    ]
    assert counts_of([fabrics["dgx-h100"]], 24)[-1] == 24
    for name, fabric in fabrics.items():
        for count in counts_of([fabric], fabric.ranks):
            colltool.price(name, "ar", ranks=count, size="1MB")


@swept("length", range(1, 20))
@swept("most", [2, 3, 6])
def test_few_keep_the_first_and_the_last(length: int, most: int) -> None:
    values = list(range(100, 100 + length))
    kept = evenly_spaced(values, most)
    assert len(kept) == len(set(kept)) == min(length, most)
    assert kept == sorted(kept)
    assert (kept[0], kept[-1]) == (values[0], values[-1])


def test_every_number_of_a_fabric_has_its_source(report: Report) -> None:
    assumed, other = (one.result for one in report.sections[-1].exhibits)
    assert isinstance(assumed, Assumptions)
    assert isinstance(other, Assumptions)
    assert [(one.key, one.value, one.source) for one in other.stated] == [
        ("ib.levels.spine.oversubscription", 4, "set for this call")
    ]
    told = {one.key: one for one in assumed.stated}
    assert told["ib.levels.spine.oversubscription"].value == 1
    assert told["ib.levels.leaf.alpha"].source.startswith("NCCL 2.30, its own model")
    assert told["nvlink.eta.beta"].source.startswith("Collectives Explainer Series part 05")
    assert told["library.reached.multi-rail-ring"].source.startswith("NVIDIA/nccl issue 1229")
    assert all(
        one.source
        for one in assumed.stated
        if not one.key.endswith(("topology", ".name", "numbers"))
    )
    assert (
        "450 GB/s"
        in dict(zip(assumed.to_columns()["key"], assumed.to_columns()["value"], strict=True))[
            "nvlink.bandwidth"
        ]
    )


def test_command_lines_are_what_a_shell_takes() -> None:
    line = command_line(
        "plan",
        "my job.yaml",
        fabrics=["a b.yaml"],
        sets=["x='1 2'"],
        readings=colltool.ModelOptions(tree_beta=1.5),
    )
    assert shlex.split(line) == [
        "colltool",
        "plan",
        "my job.yaml",
        "-f",
        "a b.yaml",
        "--set",
        "x='1 2'",
        "--tree-beta",
        "1.5",
    ]
    assert (
        command_line("price", "ar", readings=colltool.ModelOptions(ideal=True))
        == "colltool price ar --ideal"
    )


@swept(
    ("more", "says"),
    [
        ({"against": "dgx-b20"}, "did you mean 'dgx-b200'"),
        ({"against": 3}, "^against: "),
        ({"vary": "ideal=true,false"}, "is an option of the model"),
        ({"vary": 3}, "^vary: "),
        ({"primitives": "arr"}, "unknown primitive"),
        ({"primitives": 3}, "^primitive"),
        ({"primitives": ["ar", "all_reduce"]}, "twice"),
        ({"against": "dgx-h100"}, "twice"),
        ({"vary": "ib.bandwidth=25GB/s:100GB/s:7"}, "at most 6"),
        ({"vary": "library=mpi,nccl", "library": "mpi"}, "library is varied"),
        ({"job_overrides": ["layout.tp=2"]}, "requires a job"),
        ({"ranks": 0}, "at least 2"),
        ({"size": "1"}, None),
        ({"size": None}, "^size: "),
        ({"ranks": 3.5}, "^ranks: "),
        ({"ranks": 12}, "half full"),
        ({"job": "llama"}, "llama"),
        ({"job": "llama3-70b", "job_overrides": ["layout.tpp=2"]}, "layout.tp"),
        ({"logs": ["nowhere.log"]}, "nowhere.log"),
        ({"logs": 3}, "^logs: "),
        ({"job": "llama3-70b", "ranks": 8}, "ranks"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(more: dict[str, Any], says: str | None) -> None:
    if says is None:
        assert colltool.report("mi300x", primitives="ar", **more).bytes == 1
        return
    with pytest.raises(ColltoolError, match=says):
        colltool.report("dgx-h100", **({"primitives": "ar"} | more))


def test_a_served_model_has_a_section_with_its_command() -> None:
    page = colltool.report(
        "dgx-h100:nodes=8",
        primitives="a2a",
        ranks=64,
        serve="deepseek-v3",
        serve_options={"ep": 64, "weights": "fp8", "batch": 8192},
    )
    section = next(section for section in page.sections if section.key == "serving")
    served = section.exhibits[0].result
    alone = colltool.serve("deepseek-v3", "dgx-h100:nodes=8", ep=64, weights="fp8", batch=8192)
    assert served.decode.network_s == alone.decode.network_s
    assert section.exhibits[0].commands[0].startswith("colltool serve deepseek-v3")
    assert "--ep 64" in section.exhibits[0].commands[0]
    assert "Serving: About" in page.summary()
    assert "Serving deepseek-v3" in page.to_html()


@swept(
    ("options", "says"),
    [
        (["epp=64"], "did you mean"),
        (["ep=many"], "ep is a number"),
        (["two_batch_overlap=maybe"], "true or false"),
    ],
)
def test_options_of_a_served_model_are_checked(options: list[str], says: str) -> None:
    with pytest.raises(ColltoolError, match=says):
        colltool.report("dgx-h100", serve="deepseek-v3", serve_options=options)
