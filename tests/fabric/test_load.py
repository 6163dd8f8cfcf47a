"""Fabrics by name and path, overrides, and the exact words of every refusal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import yaml
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from swept import swept

from colltool.base.errors import ColltoolError, ManyErrors
from colltool.congestion.layout_file import LayoutFile
from colltool.definitions import yaml_text
from colltool.definitions.places import place_at
from colltool.definitions.source import MAX_ERRORS
from colltool.fabric import load
from colltool.fabric.ladder import LadderFile
from colltool.fabric.library import (
    Efficiency,
    EfficiencyAt,
    GroupChannels,
    LibraryChannels,
    LibraryFacts,
    LibraryGraph,
    MeasuredTime,
    PartPrice,
    Prices,
)
from colltool.fabric.load import (
    find_fabric,
    load_fabric,
    read_fabric,
    shipped_fabrics,
    shipped_folder,
)
from colltool.fabric.model import Fabric
from colltool.fabric.tier_parts import (
    AxisLinks,
    Eta,
    GraphLink,
    GroupLinks,
    HopByHop,
    InNetwork,
    Level,
    Limits,
    MeasuredRange,
    Planes,
    Protocol,
    Sizing,
)
from colltool.fabric.tiers import ClosTier, LatticeTier, StarTier

BAD = sorted((Path(__file__).parent / "bad").glob("*.yaml"))

GOOD = """\
schema: colltool.fabric/1
name: two-tiers
tiers:
  - name: nvlink
    topology: star
    size: 72
    alpha: 0.5us
    bandwidth: 900GB/s
    eta: {alpha: 1.0, beta: 0.80}
  - name: ib
    topology: clos
    size: 32
    bandwidth: 50GB/s
    levels:
      - {name: leaf, group: 4, alpha: 2us}
      - {name: spine, group: 32, alpha: 8us, oversubscription: 1}
"""
TORUS = """\
name: pod
tiers:
  - {name: pod, topology: torus, shape: [4, 4], alpha: 1us, bandwidth: 50GB/s}
"""


def refusal(*overrides: str, text: str = GOOD) -> str:
    with pytest.raises(ManyErrors) as caught:
        read_fabric(text, "good.yaml", overrides)
    return caught.value.spelled("shell")


@swept("file", BAD)
def test_every_bad_file_is_refused_in_these_words(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if file.stem.startswith("syntax") and not hasattr(yaml, "CSafeLoader"):
        return  # the words of a syntax error are libyaml's
    monkeypatch.chdir(file.parent)
    with pytest.raises(ColltoolError) as caught:
        load_fabric(file.name)
    assert f"{caught.value}\n" == file.with_suffix(".error").read_text()


def test_both_parsers_give_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_text, "_Loader", yaml.SafeLoader)
    monkeypatch.chdir(BAD[0].parent)
    for file in BAD:
        with pytest.raises(ColltoolError) as caught:
            load_fabric(file.name)
        if not file.stem.startswith("syntax"):  # the parser's own words
            assert f"{caught.value}\n" == file.with_suffix(".error").read_text()


def test_the_corpus_is_whole() -> None:
    assert len(BAD) > 50
    assert {file.stem for file in BAD} == {file.stem for file in BAD[0].parent.glob("*.error")}


def test_a_good_fabric() -> None:
    fabric = read_fabric(GOOD, "good.yaml")
    star, clos = fabric.tiers
    assert (fabric.ranks, star.endpoints, clos.endpoints) == (2304, 72, 32)
    assert (star.bandwidth, star.eta) == (9e11, Eta(alpha=1.0, beta=0.8))
    assert isinstance(star, StarTier)
    assert star.alpha == pytest.approx(5e-7)
    assert isinstance(clos, ClosTier)
    assert clos.levels
    assert [level.name for level in clos.levels] == ["leaf", "spine"]


def test_a_plain_number_with_an_exponent_is_a_rate() -> None:
    assert read_fabric(GOOD.replace("900GB/s", "9e11"), "good.yaml").tiers[0].bandwidth == 9e11


# Overrides


def test_overrides_by_name_and_by_index() -> None:
    for key in (
        "ib.levels.spine.oversubscription",
        "ib.levels.1.oversubscription",
        "tiers.1.levels.1.oversubscription",
    ):
        tier = read_fabric(GOOD, "good.yaml", [f"{key}=4"]).tiers[1]
        assert isinstance(tier, ClosTier)
        assert tier.levels
        assert tier.levels[1].oversubscription == 4


def test_overrides_of_what_the_file_leaves_out() -> None:
    fabric = read_fabric(
        GOOD,
        "good.yaml",
        ["ib.eta.beta=0.5", "nvlink.in_network.alpha_switch=200ns", "launch_overhead=5us"],
    )
    assert fabric.tiers[1].eta.beta == 0.5
    assert isinstance(fabric.tiers[0], StarTier)
    assert fabric.tiers[0].in_network
    assert fabric.tiers[0].in_network.alpha_switch == pytest.approx(2e-7)
    assert fabric.launch_overhead == pytest.approx(5e-6)


def test_overrides_of_lists_and_mappings() -> None:
    tier = read_fabric(
        TORUS, "pod.yaml", ["pod.shape=[8,8,4]", "pod.eta={alpha: 2, beta: 0.5}"]
    ).tiers[0]
    assert isinstance(tier, LatticeTier)
    assert (tier.shape, tier.eta) == ((8, 8, 4), Eta(alpha=2, beta=0.5))
    tier = read_fabric(TORUS, "pod.yaml", ["pod.shape.0=2"]).tiers[0]
    assert isinstance(tier, LatticeTier)
    assert tier.shape == (2, 4)


def test_the_last_override_wins() -> None:
    assert (
        read_fabric(GOOD, "good.yaml", ["nvlink.bandwidth=1GB/s", "nvlink.bandwidth=2GB/s"])
        .tiers[0]
        .bandwidth
        == 2e9
    )


def test_an_override_can_mend_the_file() -> None:
    assert (
        read_fabric(GOOD.replace("size: 72", "size: many"), "good.yaml", ["nvlink.size=8"]).ranks
        == 256
    )


@swept(
    ("option", "words"),
    [
        (
            "nvlnk.alpha=1us",
            (
                "--set nvlnk.alpha=1us: unknown tier 'nvlnk'\n  did you mean 'nvlink'? known:"
                " nvlink, ib"
            ),
        ),
        (
            "alpha=1us",
            (
                "--set alpha=1us: unknown key 'alpha'\n  name the tier: nvlink.alpha; known:"
                " schema, name, description, launch_overhead, library, hypothetical, announced,"
                " assumed, measured_on, numbers, device, uncertainty, prices, notes, source, nvlink.KEY,"
                " ib.KEY"
            ),
        ),
        (
            "nvlink.alhpa=1us",
            (
                "--set nvlink.alhpa=1us: unknown key 'alhpa'\n  did you mean 'alpha'? known: "
                "name, bandwidth, eta, ports, max_size, cable, energy, post, medium, protocols, "
                "algorithms, size, domains, topology, alpha, "
                "planes, in_network, notes, source"
            ),
        ),
        (
            "ib.levels.spin.alpha=1us",
            (
                "--set ib.levels.spin.alpha=1us: unknown level 'spin'\n  did you mean 'spine'?"
                " known: leaf, spine"
            ),
        ),
        (
            "ib.levels.7.alpha=1us",
            "--set ib.levels.7.alpha=1us: unknown level '7'\n  known: leaf, spine",
        ),
        (
            "nvlink.levels.spine.alpha=1us",
            (
                "--set nvlink.levels.spine.alpha=1us: tier 'nvlink' has no levels\n  an override"
                " can only change those in the file"
            ),
        ),
        (
            "nvlink=5",
            (
                "--set nvlink=5: 'nvlink' is a tier, not a value\n  name one of its keys:"
                " nvlink.KEY=VALUE"
            ),
        ),
        ("nvlink.alpha", "--set nvlink.alpha: expected KEY=VALUE\n  write --set nvlink.alpha=1us"),
        (
            "nvlink.alpha=",
            "--set nvlink.alpha=: expected KEY=VALUE\n  write --set nvlink.alpha=1us",
        ),
        ("=5", "--set =5: expected KEY=VALUE\n  write --set nvlink.alpha=1us"),
        (
            "nvlink.alpha.x=3",
            (
                "--set nvlink.alpha.x=3: 'tiers.nvlink.alpha' has no keys: it is '0.5us'\n"
                "  set it as a whole, without the rest of the key"
            ),
        ),
        (
            "nvlink.alpha=1",
            (
                "--set nvlink.alpha=1: expected a time from 0.1 ns to 1 s, such as 0.5us, got 1\n"
                "  is the unit missing? write 1us or 1ns"
            ),
        ),
        (
            "nvlink.in_network.reduce=true",
            (
                "--set nvlink.in_network.reduce=true: tiers.0.in_network: key 'alpha_switch' is"
                " missing\n  give a time from 0.1 ns to 1 s, such as 0.5us"
            ),
        ),
        (
            "nvlink.eta={alpha: 0.5}",
            (
                "--set nvlink.eta={alpha: 0.5}: tiers.0.eta.alpha: expected a number from 1 to"
                " 1000, such as 1.2, got 0.5"
            ),
        ),
        (
            "ib.size=40",
            (
                "good.yaml:16:30: tiers.1.levels.1.group: the last level 'spine' joins 32"
                " endpoints, the tier has 40 (with --set ib.size=40)\n  give it a group of 40 or"
                " more, or add a level above it"
            ),
        ),
        (
            "nvlink.alpha=*x",
            "--set nvlink.alpha=*x: aliases ('*x') are not supported\n  write the value out",
        ),
        (
            "nvlink.size=.inf",
            (
                "--set nvlink.size=.inf: .inf is not a finite number\n  write a number, or quote it"
                " if it is text"
            ),
        ),
        (
            "nvlink.size='72'",
            (
                "--set nvlink.size='72': expected a whole number from 1 to 10000000, got '72'\n "
                " write 72 without quotes"
            ),
        ),
        ("tiers=5", "--set tiers=5: expected a list of 1 to 8 tiers, innermost first, got 5"),
        (
            "source.levels.x=1",
            "--set source.levels.x=1: source.levels: expected a text, got a mapping",
        ),
    ],
)
def test_an_override_that_cannot_be(option: str, words: str) -> None:
    assert refusal(option) == words


def test_a_name_that_is_also_another_index() -> None:
    text = GOOD.replace("name: nvlink", "name: '1'")
    assert refusal("tiers.1.alpha=1us", text=text).startswith(
        "--set tiers.1.alpha=1us: '1' is more than one tier"
    )


def test_errors_of_the_file_and_of_overrides_come_together() -> None:
    text = GOOD.replace("0.5us", "5").replace("50GB/s", "&x 50GB/s")
    assert [
        line.split(": ")[0]
        for line in refusal("foo=1", "nvlink.size=0", text=text).splitlines()
        if line[0] != " "
    ] == [
        "good.yaml:7:12",
        "good.yaml:13:16",
        "--set nvlink.size=0",
        "--set foo=1",
    ]


def test_a_flood_of_errors_is_cut() -> None:
    lines = refusal(text=GOOD + "".join(f"key{i}: 1\n" for i in range(500))).splitlines()
    assert len([line for line in lines if line[0] != " "]) == MAX_ERRORS + 1
    assert lines[-1] == "good.yaml: more errors follow these"


def test_notes_that_nobody_reads_are_refused() -> None:
    some = GOOD + "notes: [" + "x, " * 1000 + "]\n"
    assert read_fabric(some, "good.yaml").notes == ["x"] * 1000
    words = "a text, a list of texts or a mapping of texts, at most 1000"
    assert (
        refusal(text=some.replace("[x", "[x, x"))
        == f"good.yaml:17:8: notes: expected {words}, got a list"
    )


def test_no_control_character_and_no_endless_line_gets_out() -> None:
    text = GOOD.replace("alpha: 0.5us", 'alpha: "\\e[31m"').replace(
        "size: 72", f'? "{"k" * 5000}\\n"\n    : {"v" * 5000}'
    )
    assert all(line.isprintable() and len(line) < 300 for line in refusal(text=text).splitlines())


# Finding


def test_shipped_by_stem_and_by_file_name() -> None:
    assert "nvl72" in shipped_fabrics()
    assert shipped_fabrics() == sorted(shipped_fabrics())
    assert (
        find_fabric("nvl72")
        == find_fabric("nvl72.yaml")
        == (str(shipped_folder() / "nvl72.yaml"), "nvl72.yaml")
    )


def test_shipped_are_yaml_files_only() -> None:
    assert "fabric.schema" not in shipped_fabrics()
    assert "ladders" not in shipped_fabrics()


def test_an_existing_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nvl72.yaml").write_text(GOOD)
    assert load_fabric("nvl72.yaml").name == "two-tiers"
    assert load_fabric(Path("nvl72.yaml")).name == "two-tiers"
    assert load_fabric("nvl72").name == "nvl72"


def test_a_folder_of_the_same_name_does_not_hide_a_shipped_fabric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nvl72").mkdir()
    assert load_fabric("nvl72").name == "nvl72"


def test_errors_of_a_shipped_fabric_name_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.yaml").write_text("name: x\n")
    monkeypatch.setattr(load, "shipped_folder", lambda: tmp_path)
    with pytest.raises(ManyErrors) as caught:
        load_fabric("mine")
    assert str(caught.value).startswith("mine.yaml:1:1: key 'tiers' is missing")
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize("text", ["nvl7", "/no/such/nvl7.yaml"])
def test_not_found(text: str) -> None:
    with pytest.raises(ColltoolError) as caught:
        load_fabric(text)
    assert (
        str(caught.value)
        == f"no file and no shipped fabric is called '{text}'\n  did you mean 'nvl72'? list the"
        " shipped ones: colltool fabric list"
    )


def test_a_folder_is_no_fabric(tmp_path: Path) -> None:
    with pytest.raises(ColltoolError, match="is a directory, expected a fabric file"):
        load_fabric(tmp_path)


@swept("name", shipped_fabrics())
def test_every_shipped_fabric_loads_under_its_own_name(name: str) -> None:
    assert load_fabric(name).name == name


# Drift and abuse


def models(annotation: object) -> set[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {annotation}.union(
            *(models(field.annotation) for field in annotation.model_fields.values())
        )
    return set().union(*(models(part) for part in get_args(annotation)))


@swept("definition", [Fabric, LadderFile, LayoutFile])
def test_every_key_of_a_model_has_words(definition: type[BaseModel]) -> None:
    for model in models(definition):
        for name, field in model.model_fields.items():
            spot = place_at(model, (field.alias or name,), {})
            assert spot
            assert spot.words != "another value", f"{model.__name__}.{name}"


def test_every_tier_is_known_by_its_topology() -> None:
    tier = place_at(Fabric, ("tiers", 0), {"tiers": [{}]})
    assert tier
    wanted = [
        "star",
        "full_mesh",
        "torus",
        "mesh",
        "clos",
        "graph",
        "hyperx",
        "dragonfly",
        "dragonfly_plus",
    ]
    assert list(tier.kinds) == wanted
    channels = {LibraryChannels, GroupChannels, LibraryGraph}
    library = {LibraryFacts, *channels, Efficiency, EfficiencyAt, MeasuredTime}
    prices = {Prices, PartPrice}
    parts = {
        AxisLinks,
        Eta,
        GraphLink,
        GroupLinks,
        InNetwork,
        HopByHop,
        Level,
        Limits,
        MeasuredRange,
        Planes,
        Protocol,
        Sizing,
    }
    assert models(Fabric) == {Fabric, *parts, *library, *prices, *tier.kinds.values()}


PIECES = [
    "nvlink",
    "star",
    "72",
    "0.5us",
    "900GB/s",
    "levels",
    "alpha",
    "tiers",
    "- name",
    "topology",
    "{",
    "}",
    "0.80",
    "\n",
]
JUNK = [
    "~",
    "[]",
    "{}",
    "-1",
    "1e9",
    "*a",
    "&a ",
    "!!str ",
    "<<",
    "? ",
    "yes",
    "'",
    '"',
    "\t",
    "- ",
    "---\n",
    "[[1]]",
    "\x00",
]


def read_or_refused(text: str, overrides: list[str], place: str) -> bool:
    try:
        return isinstance(read_fabric(text, "any.yaml", overrides), Fabric)
    except ColltoolError as error:
        return place in str(error)


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(PIECES), st.integers(0, 5), st.sampled_from(JUNK)),
        min_size=1,
        max_size=4,
    )
)
def test_any_mutation_is_read_or_refused(changes: list[tuple[str, int, str]]) -> None:
    text = GOOD
    for old, skip, new in changes:
        parts = text.split(old)
        cut = min(skip, len(parts) - 1)
        text = old.join(parts[:cut]) + new + old.join(parts[cut:])
    assert read_or_refused(text, [], "any.yaml")


KEYS = [
    "tiers",
    "nvlink",
    "ib",
    "0",
    "levels",
    "spine",
    "alpha",
    "eta",
    "beta",
    "shape",
    "source",
    "in_network",
    "",
    "schema",
]
VALUES = ["1", "1us", "[1]", "{a: 1}", "~", "x: y", "{", "- 1"]


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.sampled_from(KEYS), min_size=1, max_size=5), st.sampled_from(VALUES))
def test_any_override_is_taken_or_refused(key: list[str], value: str) -> None:
    assert read_or_refused(GOOD, [f"{'.'.join(key)}={value}"], "overrides=[")


def test_loading_imports_nothing_heavy() -> None:
    heavy = {"numpy", "jsonschema", "rich", "typer", "difflib"}
    code = (
        "import sys; import colltool.fabric.load as l; l.load_fabric('nvl72');"
        f" print(*sorted({heavy} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    ("given_", "cure"), [([1], "give a path"), (load_fabric("nvl72"), "where it is loaded")]
)
def test_what_is_no_source_of_a_fabric(given_: object, cure: str) -> None:
    with pytest.raises(ColltoolError, match="expected a fabric to load") as caught:
        load_fabric(given_)  # type: ignore[arg-type]
    assert cure in str(caught.value)
