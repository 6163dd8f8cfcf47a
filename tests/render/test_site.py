"""The site: every machine and guide has a page, every link leads somewhere, numbers are those of
``expect``, measurements have their sources, and pages load nothing from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urljoin
from xml.etree import ElementTree as ET

import pytest
from swept import swept

from colltool.analysis.machine_curves import NODES, SIZES, machine_groups
from colltool.base.formatting import format_rate, format_time, title_size
from colltool.base.primitives import NCCL_TESTS, Primitive
from colltool.calibration.published import published_rows, published_sources
from colltool.calibration.score import Score, machine_score, score
from colltool.estimate.expected import test_name as name_of_test
from colltool.estimate.placement import fits
from colltool.fabric.load import load_fabric, shipped_fabrics
from colltool.guides import TOPICS
from colltool.render.site import site
from colltool.render.site.guide import body_of
from colltool.render.site.index import vendor_of
from colltool.render.site.machine import machine_page
from colltool.render.site.measured import measured_curves
from colltool.render.site.scoreboard import PREDICTORS
from tests.commands.conftest import run

# a site of three machines and all guides takes seconds
pytestmark = pytest.mark.ci

VOID = {"meta", "link", "img", "br", "hr"}
MOST_BYTES = 300_000
MACHINES = ("nvl72", "a100-pcie", "tpu-v6e")
"""Racks with measurements; a box like another; a torus of one tier without any."""


class Page(HTMLParser):
    """Links, ids, tables and commands of a page; tags that are not closed are a failure."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.refs: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.dots: list[tuple[str, str]] = []  # address and path of measured points
        self.tables: list[list[list[str]]] = []
        self.in_cell = False
        self.commands: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = dict(attrs)
        assert tag != "script"
        assert not [key for key in own if key.startswith("on")]
        self.refs += [ref for key in ("href", "src") if (ref := own.get(key))]
        self.ids += [str(own["id"])] if "id" in own else []
        if tag == "path" and str(own.get("class")).startswith("ct-dots"):
            self.dots.append((self.refs[-1], str(own["d"])))
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self.in_cell = True
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.in_cell = self.in_cell and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.in_cell:
            self.tables[-1][-1][-1] += data
        if self.open and self.open[-1] == "code":
            self.commands += [line for line in data.splitlines() if line.startswith("colltool ")]


@cache
def scored() -> Score:
    """What the scoreboard shows."""
    return score(list(PREDICTORS))


@cache
def files() -> dict[str, str]:
    """The site of a few machines by the names of its files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("colltool.render.site.scoreboard.score", lambda _: scored())
        return dict(site([load_fabric(name) for name in MACHINES]))


@cache
def pages() -> dict[str, Page]:
    return {name: Page(text) for name, text in files().items() if name.endswith(".html")}


def sections(name: str) -> Iterator[tuple[str, Page]]:
    """The sections of a page by their address."""
    for text in re.findall(r"<section>\n.*?</section>\n", files()[name], re.DOTALL):
        found = Page(text)
        yield found.ids[0], found


def test_every_machine_and_guide_has_a_page_that_the_first_leads_to() -> None:
    expected = {f"guides/{topic}.html" for topic in TOPICS}
    expected |= {f"machines/{name}.html" for name in MACHINES} | {"scoreboard.html"}
    assert expected <= set(pages())
    assert expected <= set(pages()["index.html"].refs)
    for name, page in pages().items():
        up = "../" * name.count("/")
        assert f"{up}index.html" in page.refs


def test_every_link_leads_somewhere() -> None:
    for name, page in pages().items():
        for ref in page.refs:
            if ref.startswith("https://"):
                continue
            path, anchor = urldefrag(urljoin(name, ref))
            assert path in files(), (name, ref)
            assert not anchor or anchor in pages()[path].ids, (name, ref)


def test_addresses_within_a_page_are_apart() -> None:
    for name, page in pages().items():
        if not name.startswith("guides/"):
            assert len(set(page.ids)) == len(page.ids), name


def test_pages_are_light_and_load_nothing() -> None:
    for name, text in files().items():
        assert len(text.encode()) < MOST_BYTES, name
        assert not re.search(r"@import|url\(|<iframe|<object", text), name


def test_the_same_version_gives_the_same_text_and_names_no_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("colltool.render.site.scoreboard_page", str)
    again = dict(site([load_fabric("tpu-v6e")]))
    own = {name: text for name, text in again.items() if "tpu-v6e" in name}
    assert len(own) == 3
    for name, text in own.items():
        assert text == files()[name]
    for text in files().values():
        assert str(Path(__file__).parent.parent.parent) not in text


def test_llms_txt_has_a_line_for_every_page() -> None:
    lines = files()["llms.txt"].splitlines()
    assert lines[0].startswith("# ")
    assert lines[2].startswith("> ")
    linked = [match[1] for line in lines if (match := re.match(r"- \[[^]]+\]\(([^)]+)\): .", line))]
    assert set(linked) == set(pages()) - {"index.html"}


@swept("name", MACHINES)
def test_a_page_has_each_test_at_its_address(name: str) -> None:
    tests = [name_of_test(primitive) for primitive in NCCL_TESTS]
    found = dict(sections(f"machines/{name}.html"))
    assert list(found) == ["expected", "machine", "tests", *tests, "accuracy"]
    for test in tests:
        assert found[test].commands
        assert all(f"--test {test} " in line for line in found[test].commands)


def test_a_grown_machine_is_said_to_be_one() -> None:
    assert "nvl72:nodes=128 is the machine with so many nodes." in files()["machines/nvl72.html"]
    assert "so many nodes" not in files()["machines/a100-pcie.html"]


def cells_of(size: dict[str, Any]) -> list[str]:
    """What a row of the page says of a size of the JSON."""
    return [
        str(size["ranks"]),
        title_size(size["bytes"]),
        format_time(size["expected_s"]),
        format_rate(size["busbw_Bps"]),
        format_rate(size["floor_busbw_Bps"]),
    ]


@pytest.mark.parametrize(
    ("name", "test"),
    [("nvl72", "all_reduce"), ("a100-pcie", "alltoall"), ("tpu-v6e", "sendrecv")],
)
def test_numbers_are_those_of_the_commands_below_the_chart(name: str, test: str) -> None:
    shown = dict(sections(f"machines/{name}.html"))[test]
    told = []
    for line in shown.commands:
        answer = run(*line.split()[1:], "--format", "json")
        assert answer.code == 0, answer.err
        told += [cells_of(size) for size in answer.json["sizes"]]
    (table,) = shown.tables
    assert [row[:5] for row in table[1:]] == told
    assert len(told) == len(shown.commands) * len(SIZES)


@swept("name", MACHINES)
def test_the_short_table_is_that_of_its_commands(name: str) -> None:
    shown = dict(sections(f"machines/{name}.html"))["expected"]
    (table,) = shown.tables
    for row, line in zip(table[1:], shown.commands, strict=True):
        answer = run(*line.split()[1:], "--format", "json").json
        rates = []
        for size in answer["sizes"]:
            rates += [format_rate(size["busbw_Bps"]), format_rate(size["floor_busbw_Bps"])]
        assert row[1:6] == [str(answer["group"]["ranks"]), *rates]


@swept("name", MACHINES)
def test_measured_points_lead_to_their_sources(name: str) -> None:
    addresses = {source.url for source in published_sources().values()}
    for test, section in sections(f"machines/{name}.html"):
        measured = [
            row
            for row in published_rows()
            if row.fabric == name and test in (row.collective, "alltoall")
        ]
        if test == "alltoall":
            measured = [row for row in measured if row.collective == Primitive.ALL_TO_ALL]
        within = [row for row in measured if SIZES[0] <= row.bytes <= SIZES[-1]]
        large = [row for row in within if row.bytes >= 16 * 2**20]
        drawn = sum(path.count("h0") for _, path in section.dots)
        assert drawn == len(within) + len(large), test
        assert {address for address, _ in section.dots} <= addresses
        for row in measured:
            assert row.source.url in section.refs


def test_measured_curves_are_those_of_the_file() -> None:
    (first, *_) = measured_curves("nvl72", Primitive.ALL_REDUCE)
    row = first.rows[-1]
    # 2(N-1)/N of the bytes
    assert first.ranks == 2
    assert first.busbw_Bps(row) == pytest.approx(row.bytes / row.time_s)
    assert [row.bytes for row in first.rows] == sorted(row.bytes for row in first.rows)


def test_the_errors_of_a_machine_are_the_scoreboard_s() -> None:
    whole = score(["colltool"])
    for name in ("nvl72", "dgx-h100"):
        (line,) = [row for row in whole.rows if (row.by, row.name) == ("machine", name)]
        own = machine_score(name)
        assert own[0]._replace(by="machine", name=name) == line
        assert sum(row.rows for row in own if row.by == "size") == line.rows
    assert machine_score("tpu-v6e") == []


def test_the_scoreboard_has_every_row_and_command() -> None:
    page = pages()["scoreboard.html"]
    assert sum(len(table) - 1 for table in page.tables) == len(scored().rows)
    assert page.commands[0] == "colltool score colltool nccl datasheet alpha-beta --all"
    assert page.tables[0][1][:3] == ["colltool", "all", str(scored().rows[0].rows)]


def test_guides_that_are_named_are_links_and_headings_have_addresses() -> None:
    link = '<a href="measurements.html"><code>colltool guide measurements</code></a>'
    assert link in files()["guides/accuracy.html"]
    assert '<h2 id="the-scoreboard">The scoreboard</h2>' in files()["guides/accuracy.html"]
    assert body_of("## What `a` & b do") == (
        '<h2 id="what-a-b-do">What <code>a</code> &amp; b do</h2>\n'
    )


@swept("name", MACHINES)
def test_machines_are_drawn_and_their_files_are_there(name: str) -> None:
    assert ET.fromstring(files()[f"drawings/{name}.svg"].partition("\n")[2]).tag.endswith("svg")
    assert f"\nname: {name}\n" in files()[f"fabrics/{name}.yaml"]
    assert f"../drawings/{name}.svg" in pages()[f"machines/{name}.html"].refs


@swept("name", shipped_fabrics())
def test_groups_are_as_many_nodes_as_they_say(name: str) -> None:
    fabric = load_fabric(name)
    groups = machine_groups(fabric)
    assert 1 <= len(groups) <= len(NODES) + 1
    assert len({group.ranks for group in groups}) == len(groups)
    for group in groups:
        assert fits(load_fabric(group.typed), group.ranks, 1)
        if group.nodes:
            assert group.ranks == group.nodes * fabric.tiers[0].endpoints
            assert group.nodes in NODES or group.ranks == fabric.ranks
    if len(fabric.tiers) == 1:
        assert max(group.ranks for group in groups) == fabric.ranks


@swept(
    ("name", "vendor"),
    [
        ("dgx-h100", "NVIDIA"),
        ("mi355x", "AMD"),
        ("frontier", "AMD"),
        ("tpu7x", "Google"),
        ("trn2-ultraserver", "AWS"),
        ("aws-p5", "NVIDIA"),
        ("cloudmatrix384", "Huawei"),
        ("ub-mesh", "Huawei"),
        ("tomahawk-ultra", "Broadcom"),
        ("mpi-cluster", "CPUs"),
        ("star512", "Textbook networks"),
    ],
)
def test_machines_stand_under_their_vendor(name: str, vendor: str) -> None:
    assert vendor_of(load_fabric(name)) == vendor


def test_no_machine_of_another_vendor_is_called_nvidia_s() -> None:
    """A machine whose vendor is not known goes to NVIDIA: one of another needs a line."""
    for name in shipped_fabrics():
        fabric = load_fabric(name)
        words = f"{fabric.description} {fabric.device} {fabric.library_name}"
        if vendor_of(fabric) == "NVIDIA":
            assert re.search(r"\bnccl\b|NVLink|A100|Rubin|NVIDIA", words), name


def test_texts_of_a_file_are_escaped() -> None:
    from colltool.analysis.machine_curves import machine_curves

    fabric = load_fabric("dgx-spark").model_copy(update={"description": "<b>&", "notes": ["<i>"]})
    text = machine_page(machine_curves(fabric), "x.yaml")
    assert "<b>&<" not in text
    assert "&lt;b&gt;&amp;" in text
    assert "<i>" not in text


def test_it_is_written_into_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("colltool.render.site.scoreboard_page", str)
    monkeypatch.setattr("colltool.fabric.load.shipped_fabrics", lambda: ("dgx-spark",))
    done = run("guide", "--html", str(tmp_path / "site"))
    assert done.code == 0, done.err
    assert done.out.strip().endswith("index.html")
    assert {path.name for path in (tmp_path / "site" / "guides").iterdir()} == {
        f"{topic}.html" for topic in TOPICS
    }
    assert (tmp_path / "site" / "machines" / "dgx-spark.html").is_file()
    assert (tmp_path / "site" / "drawings" / "dgx-spark.svg").is_file()
    assert (tmp_path / "site" / "llms.txt").read_text(encoding="utf-8").startswith("# colltool\n")
