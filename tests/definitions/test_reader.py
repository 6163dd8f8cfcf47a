"""The one reader: files and mappings, overrides of every kind of definition, every error at its
place."""

from __future__ import annotations

import copy
import pickle
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.congestion.layout import load_layout, read_layout
from colltool.congestion.layout_file import LayoutFile
from colltool.congestion.layout_groups import Layout
from colltool.congestion.patterns import KINDS, MAP_KINDS, MapPattern, Pattern
from colltool.definitions.places import path_of, place_at
from colltool.definitions.reader import read
from colltool.definitions.source import MAX_ERRORS, MAX_VALUES
from colltool.fabric.ladder import LadderDefinition, LadderFile, load_ladder, read_ladder
from colltool.fabric.load import fabric_data, load_fabric, read_fabric, shipped_folder
from colltool.fabric.model import Fabric
from colltool.training.files.job import JobFile
from colltool.training.job import Job, read_job

STAR = {"name": "port", "topology": "star", "size": 8, "alpha": "1us", "bandwidth": "100GB/s"}
SMALL: dict[str, Any] = {"name": "small", "tiers": [STAR]}
FABRIC = (shipped_folder() / "nvl72.yaml").read_text()
LADDER = (
    "schema: colltool.ladder-file/1\nname: mine\nsize: 1MB\nrungs:\n  - {primitive: ar, fabric:"
    " star512, ranks: 64}\n"
)
LAYOUT = """\
schema: colltool.layout/1
size: 16MB
groups:
  - {name: tp, ranks: [0, 1, 2, 3], primitive: ar, algorithm: ring}
  - {name: ep, pattern: {kind: box, shape: [2, 2], count: 2}}
map: {kind: rotate}
overlap: true
"""
JOB = """\
schema: colltool.job/1
name: mine
model: {name: tiny, layers: 8, hidden: 512, heads: 8, ffn: 2048, vocab: 32000}
sequence: 2048
batch: {global: 64, micro: 1}
layout: {tp: 2, sp: true, pp: 2, dp: auto, order: [tp, cp, ep, dp, pp]}
shard: {mode: zero1, bucket: 25MB}
device: h100
stack: megatron
overlap: {dp: true, overhead: 5us}
"""
TORUS = read_fabric(
    "name: t\ntiers:\n - {name: t, topology: torus, shape: [4, 4], alpha: 1us, bandwidth:"
    " 100GB/s}\n",
    "t.yaml",
)

HOLDS = "a definition holds text, finite numbers, true, false, lists and mappings"

READERS: dict[str, tuple[str, Callable[..., object]]] = {
    "fabric": (FABRIC, lambda text, overrides=(): read_fabric(text, "any.yaml", overrides)),
    "ladder": (LADDER, lambda text, overrides=(): read_ladder(text, "any.yaml", Path(), overrides)),
    "job": (JOB, lambda text, overrides=(): read_job(text, "any.yaml", Path(), overrides)),
    "layout": (LAYOUT, lambda text, overrides=(): read_layout(text, "any.yaml", TORUS, overrides)),
}
every_kind = pytest.mark.parametrize("kind", READERS)


def refusal(call: Callable[[], object]) -> list[str]:
    with pytest.raises(ColltoolError) as caught:
        call()
    return [one.spelled("shell") for one in getattr(caught.value, "problems", [caught.value])]


# Mappings


def test_a_mapping_is_the_fabric_of_its_file() -> None:
    assert load_fabric(fabric_data("nvl72")) == load_fabric("nvl72")
    assert load_fabric(SMALL | {"tiers": ({**STAR, "size": np.int64(8)},)}) == load_fabric(SMALL)


def test_errors_of_a_mapping_name_key_paths_alone() -> None:
    bad = {
        "name": "a b",
        "tiers": [STAR | {"size": 0, "alpha": 1, "eta": {"beta": float("nan")}, "ports": object()}],
        3: 4,
    }
    assert refusal(lambda: load_fabric(bad)) == [
        "3: the key 3 is not text\n  a key is text",
        (
            "name: expected a name of at most 64 letters, digits, '-' and '_', such as rack-1, got"
            " 'a b'"
        ),
        "tiers.0.size: expected a whole number from 1 to 10000000, got 0",
        (
            "tiers.0.alpha: expected a time from 0.1 ns to 1 s, such as 0.5us, got 1\n  is the unit"
            " missing? write 1us or 1ns"
        ),
        "tiers.0.eta.beta: nan is not a finite number\n  " + HOLDS,
        "tiers.0.ports: no definition holds an object\n  " + HOLDS,
    ]
    assert refusal(lambda: load_fabric({})) == [
        (
            "key 'name' is missing\n  give a name of at most 64 letters, digits, '-' and '_', such"
            " as rack-1"
        ),
        "key 'tiers' is missing\n  give a list of 1 to 8 tiers, innermost first",
    ]


def test_a_mapping_without_end_or_bounds() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert "nested deeper than 32 levels" in refusal(lambda: load_fabric({"notes": endless}))[0]
    assert "holds more than" in refusal(lambda: load_fabric({"notes": [0] * MAX_VALUES}))[0]
    assert (
        "a number of more than 60 digits"
        in refusal(lambda: load_fabric(SMALL | {"launch_overhead": 10**5000}))[0]
    )


def test_ladders_and_layouts_from_mappings() -> None:
    ladder = load_ladder(
        {"size": "1MB", "rungs": [{"primitive": "ar", "fabric": "star512"}]}, {"rungs.0.ranks": 8}
    )
    assert (ladder.size, ladder.rungs[0].ranks, ladder.rungs[0].where) == (1e6, 8, "rungs.0")
    assert ladder.overrides == (("rungs.0.ranks", "8"),)
    layout = load_layout({"groups": [{"ranks": [0, 1]}, {"ranks": [2, 1]}], "overlap": True}, TORUS)
    assert [group.ranks for group in layout.groups] == [(0, 1), (2, 1)]
    assert refusal(lambda: load_layout({"groups": [{"ranks": [0, 99]}]}, TORUS)) == [
        "groups.0.ranks.1: rank 99 is outside the fabric\n  t has ranks 0 .. 15"
    ]


# Overrides


def test_a_fabric_remembers_its_overrides() -> None:
    fabric = load_fabric("nvl72", ["nvlink.alpha=1us", "ib.size=16", " ib.size = 8 "])
    assert fabric.overrides == (("nvlink.alpha", "1us"), ("ib.size", "8"))
    assert load_fabric("nvl72").overrides == ()
    for same in (fabric.model_copy(), copy.deepcopy(fabric), pickle.loads(pickle.dumps(fabric))):
        assert (same, same.overrides, hash(same)) == (fabric, fabric.overrides, hash(fabric))
    assert fabric.model_copy(update={"launch_overhead": 1.0}).overrides == fabric.overrides


def test_overrides_are_no_part_of_the_data() -> None:
    same = load_fabric("nvl72", ["ib.size=32"])
    assert same == load_fabric("nvl72")
    assert same.model_dump() == load_fabric("nvl72").model_dump()
    assert load_fabric("nvl72", ["ib.size=16"]) != load_fabric("nvl72")
    assert load_fabric("nvl72") != "nvl72"


def test_overrides_as_a_mapping() -> None:
    fabric = load_fabric(
        "nvl72", {"ib.size": 16, "nvlink.alpha": "1us", "nvlink.eta": {"beta": 0.5}}
    )
    assert fabric == load_fabric(
        "nvl72", ["ib.size=16", "nvlink.alpha=1us", "nvlink.eta={beta: 0.5}"]
    )
    assert dict(fabric.overrides)["ib.size"] == "16"
    assert refusal(
        lambda: load_fabric("nvl72", {"nvlink.alpha": 5, "ib.siz": 4, "ib.size": None})
    ) == [
        (
            "overrides['nvlink.alpha']: expected a time from 0.1 ns to 1 s, such as 0.5us, got 5\n"
            "  is the unit missing? write 5us or 5ns"
        ),
        (
            "overrides['ib.siz']: unknown key 'siz'\n  did you mean 'size'? known: name, bandwidth,"
            " eta, ports, max_size, cable, energy, post, medium, protocols, algorithms, size,"
            " domains, topology, alpha, oversubscription, trunk, levels, planes, rails, in_network,"
            " sizing, notes, source"
        ),
        "overrides['ib.size']: expected KEY=VALUE\n  write --set nvlink.alpha=1us",
    ]
    for wrong in ("ib.size=16", 5):
        assert refusal(lambda wrong=wrong: load_fabric("nvl72", wrong))[0].startswith(
            "--set: expected a list"
        )


def test_overrides_of_any_definition() -> None:
    assert read_ladder(LADDER, "l.yaml", Path(), ["size=2MB", "rungs.0.ranks=8"]).size == 2e6
    layout = read_layout(LAYOUT, "l.yaml", TORUS, ["tp.ranks=[4, 5]", "ep.pattern.count=1"])
    assert [group.ranks for group in layout.groups] == [(4, 5), (0, 1, 4, 5)]
    assert layout.overrides == (("tp.ranks", "[4, 5]"), ("ep.pattern.count", "1"))
    assert refusal(lambda: read_layout(LAYOUT, "l.yaml", TORUS, ["tp.ranks=[4, 99]"])) == [
        "--set tp.ranks=[4, 99]: groups.0.ranks.1: rank 99 is outside the fabric\n  t has ranks 0"
        " .. 15"
    ]


@swept("key", ["nvlink.size", f"tiers.{'9' * 5000}.size", "nvlink.eta.alpha", "nvlink.ports"])
@swept("value", ["9" * 5000, "1e999", "\u0665", "0x" + "f" * 99, "-" * 5000, "\x1b[31m", "\u202e1"])
def test_no_number_and_no_character_of_an_override_gets_through(key: str, value: str) -> None:
    for line in refusal(lambda: load_fabric("nvl72", [f"{key}={value}"])):
        assert all(part.isprintable() and len(part) < 500 for part in line.split("\n"))


# Places


def test_a_validator_names_the_key_and_tells_what_does_not_depend() -> None:
    levels = (
        "[{name: a, group: 4, alpha: 1us, oversubscription: 2}, "
        "{name: a, group: 6, alpha: 2us}, {name: c, group: 12, alpha: 3us}]"
    )
    text = (
        "name: x\ntiers:\n  - {name: t, topology: clos, size: 16, bandwidth: 1GB/s, alpha: 1us,\n"
        f"     levels: {levels}}}\n"
    )
    assert [re.sub(r"\n.*", "", line) for line in refusal(lambda: read_fabric(text, "f.yaml"))] == [
        "f.yaml:3:66: tiers.0.alpha: has both alpha and levels: give each level its own alpha",
        (
            "f.yaml:4:65: tiers.0.levels.0.oversubscription: oversubscription has no meaning on the"
            " first level 'a': no uplinks enter it from below"
        ),
        "f.yaml:4:76: tiers.0.levels.1.name: two levels have the same name: a, a, c",
        (
            "f.yaml:4:86: tiers.0.levels.1.group: groups do not nest: 'a' has 6 endpoints, "
            "which is not a larger multiple of the 4 of 'a'"
        ),
        (
            "f.yaml:4:119: tiers.0.levels.2.group: the last level 'c' joins 12 endpoints, the tier"
            " has 16"
        ),
    ]


def test_a_path_of_pydantic_is_the_path_of_the_file() -> None:
    data = {
        "tiers": [{"topology": "star", "notes": {"star": 1}, "algorithms": {"x": []}}],
        "notes": [1],
    }
    for loc, path in (
        (("tiers", 0, "star", "alpha"), ("tiers", 0, "alpha")),
        (("tiers", 0, "star", "notes", "dict[str,str]", "star"), ("tiers", 0, "notes", "star")),
        (("tiers", 0, "star", "notes", "str"), ("tiers", 0, "notes")),
        (("tiers", 0, "star", "algorithms", "x", "[key]"), ("tiers", 0, "algorithms", "x")),
        (("notes", "list[str]", 0), ("notes", 0)),
    ):
        assert path_of(Fabric, loc, data)[0] == path


def test_what_a_place_accepts() -> None:
    data = {"tiers": [{"topology": "torus", "in_network": {}}]}
    for path, words in (
        (("tiers", 0, "shape"), "a list of 1 to 8 whole numbers, such as [8, 8, 4]"),
        (("tiers", 0, "protocols", 3, "primitives", 0), "a primitive, such as all_reduce"),
        (("tiers", 0, "algorithms", "ar"), "a list of algorithms, such as [ring, in-network]"),
        (("schema",), "one of colltool.fabric/2, colltool.fabric/1"),
    ):
        spot = place_at(Fabric, path, data)
        assert spot
        assert spot.words == words
    assert place_at(Fabric, ("tiers", 0, "size"), data) is None


def test_a_check_beyond_the_model_sees_what_is_sound() -> None:
    reading = read(
        LayoutFile, "groups:\n  - {name: 3, ranks: [0, 1]}\n  - {ranks: [x, 1]}\n", "l.yaml"
    )
    assert reading.model is None
    assert reading.is_valid(("groups", 0, "ranks"))
    assert not reading.is_valid(("groups", 0))
    assert not reading.is_valid(("groups", 0, "name"))
    assert not reading.is_valid(("groups", 1, "ranks", 0, "deeper"))
    reading.refuse(("groups", 0, "ranks", 0), "first")
    assert refusal(reading.result)[0].startswith("l.yaml:2:12: groups.0.name")
    assert refusal(reading.result)[1] == "l.yaml:2:23: groups.0.ranks.0: first"


def test_patterns_have_the_fields_of_their_files() -> None:
    from colltool.congestion.layout_file import MapFile, PatternFile

    for model, pattern, kinds in ((PatternFile, Pattern, KINDS), (MapFile, MapPattern, MAP_KINDS)):
        assert set(pattern._fields) == set(model.model_fields) - {"notes", "source"}
        spot = place_at(model, ("kind",), {})
        assert spot
        assert spot.words == f"one of {', '.join(kinds)}"
        plain = pattern()._asdict()
        assert {
            key: field.default for key, field in model.model_fields.items() if key in plain
        } == plain | ({"shape": None} if "shape" in plain else {})


# Abuse


FLOODS = {
    "ranks outside": "groups:\n - {name: a, ranks: [" + ",".join(["99999"] * 30_000) + "]}\n",
    "words for ranks": "groups:\n - {name: a, ranks: [" + ",".join(["x"] * 30_000) + "]}\n",
    "one rank": "groups:\n - {name: a, ranks: [" + ",".join(["9"] * 30_000) + "]}\n",
    "one endpoint": "pattern: {}\nmap: [" + ",".join(["0"] * 30_000) + "]\n",
    "no groups": "groups: [" + ",".join(["x"] * 30_000) + "]\n",
    "empty groups": "groups: [" + ",".join(["{}"] * 30_000) + "]\n",
    "keys": "".join(f"k{index}: 1\n" for index in range(20_000)),
    "values": "groups: [" + ",".join(["0"] * 130_000) + "]\n",
    "anchors": "groups: [" + ",".join(["&a 0"] * 30_000) + "]\n",
}


@pytest.mark.alike(3)
@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_of_errors_is_refused_at_once(flood: str) -> None:
    start = time.process_time()
    found = refusal(lambda: read_layout(FLOODS[flood], "any.yaml", TORUS))
    assert time.process_time() - start < 10  # 0.1 to 0.3 s alone; without a bound it is minutes
    assert len(found) == (1 if flood == "values" else MAX_ERRORS + 1)


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
    "\x9b",
    "\u202e",
    "\u0665",
    "9" * 5000,
    ".nan",
    "5e-324",
    "true",
    "1us",
    "16MB",
    ", ",
    ": ",
    "{a: 1}",
    "\ud800",
    "0x1",
    "1EB",
    "\ufeff",
]


@every_kind
@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_any_mutation_is_a_model_or_an_error_with_its_place(kind: str, data: st.DataObject) -> None:
    text, reader = READERS[kind]
    for _ in range(data.draw(st.integers(1, 4))):
        words = [match.span() for match in re.finditer(r"[\w./-]+|\S", text)]
        start, end = data.draw(st.sampled_from(words))
        text = (
            text[:start]
            + data.draw(st.sampled_from([*JUNK, ""]))
            + text[data.draw(st.sampled_from([start, end])) :]
        )
    try:
        places = (
            []
            if isinstance(reader(text), Fabric | LadderDefinition | Layout | Job)
            else ["nothing"]
        )
    except ColltoolError as error:
        places = [one.where for one in getattr(error, "problems", [error])]
    assert all(re.match(r"any\.yaml(:\d+:\d+(: .+)?)?$", place) for place in places)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(JUNK),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)
PATHS = {
    "fabric": [
        "nvlink.alpha",
        "ib.levels.0",
        "ib.levels",
        "tiers",
        "name",
        "nvlink.in_network",
        "ib.protocols",
        "notes",
        "nvlink.eta",
    ],
    "ladder": [
        "size",
        "rungs.0",
        "rungs.0.fabric",
        "rungs.0.ranks",
        "name",
        "description",
        "rungs",
    ],
    "job": [
        "model",
        "model.heads",
        "sequence",
        "batch",
        "batch.global",
        "layout",
        "layout.tp",
        "layout.dp",
        "layout.order",
        "layout.stages",
        "shard",
        "shard.bucket",
        "device",
        "stack",
        "overlap.overhead",
        "calls",
        "compute",
        "notes",
    ],
    "layout": [
        "groups.0.ranks",
        "groups.1.pattern",
        "map",
        "pattern",
        "overlap",
        "size",
        "groups",
        "tp.name",
        "ep.pattern.shape",
    ],
}


@every_kind
@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_any_value_of_pythons_is_taken_or_refused(kind: str, data: st.DataObject) -> None:
    text, reader = READERS[kind]
    keys = st.sampled_from(PATHS[kind])
    try:
        found = reader(text, data.draw(st.dictionaries(keys, values, min_size=1, max_size=2)))
    except ColltoolError as error:
        found = [one.where for one in getattr(error, "problems", [error])]
    assert isinstance(found, Fabric | LadderDefinition | Layout | Job) or all(found)


def test_every_definition_has_its_model() -> None:
    assert all(
        model.model_fields["schema_"].alias == "schema"
        for model in (Fabric, LadderFile, LayoutFile, JobFile)
    )
