"""YAML as plain data with positions, and what a definition file may not hold."""

from __future__ import annotations

import pytest
import yaml
from small import read_source
from swept import swept

from colltool.base.errors import ColltoolError, ManyErrors, quote
from colltool.definitions import source, yaml_text
from colltool.definitions.source import Position, read_value, scan

TEXT = """\
# a comment
name: x
tiers:
  - size: 8
    eta: {alpha: 1, beta: 0.5}
  - size: 4
"""


@pytest.fixture(params=["CSafeLoader", "SafeLoader"], autouse=True)
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(yaml, request.param):
        pytest.skip("PyYAML without libyaml")
    monkeypatch.setattr(yaml_text, "_Loader", getattr(yaml, request.param))


def refusal(text: str) -> str:
    with pytest.raises(ColltoolError) as caught:
        read_source(text, "f.yaml")
    return str(caught.value)


def test_positions_of_values_and_keys() -> None:
    read = read_source(TEXT, "f.yaml")
    assert read.data == {
        "name": "x",
        "tiers": [{"size": 8, "eta": {"alpha": 1, "beta": 0.5}}, {"size": 4}],
    }
    assert read.positions[("tiers", 0, "eta", "beta")] == Position(5, 27)
    assert read.keys[("tiers", 0, "eta", "beta")] == Position(5, 21)
    assert read.where(("tiers", 1, "size")) == "f.yaml:6:11"
    assert read.where(("tiers", 1, "size"), key=True) == "f.yaml:6:5"


def test_where_falls_back_to_the_nearest_known_ancestor() -> None:
    read = read_source(TEXT, "f.yaml")
    assert read.where(("tiers", 0, "eta", "gamma", 3)) == "f.yaml:5:10"
    assert read.where(("tiers", 0, "eta", "gamma"), key=True) == "f.yaml:5:5"
    assert read.where(("tiers", 7)) == "f.yaml:4:3"
    assert read.where(("nothing",)) == "f.yaml:2:1"


def test_a_byte_order_mark_and_crlf_do_not_move_positions() -> None:
    read = read_source("\ufeffa: 1\r\nb: é\r\nc: 2\r\n", "f.yaml")
    assert (read.data, read.where(("c",))) == ({"a": 1, "b": "é", "c": 2}, "f.yaml:3:4")


@swept(
    ("text", "value"),
    [
        ("1e9", 1e9),
        ("1E9", 1e9),
        ("1.5e-6", 1.5e-6),
        ("-1e+3", -1e3),
        (".5", 0.5),
        ("5.", 5.0),
        ("72", 72),
        ("-3", -3),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("100:80:00", "100:80:00"),
        ("2024-01-01", "2024-01-01"),
        ("yes", "yes"),
        ("on", "on"),
        ("NO", "NO"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("'1e9'", "1e9"),
        ('"true"', "true"),
        ("1us", "1us"),
        ("e9", "e9"),
        (".", "."),
        ("-", "-"),
        ("=", "="),
        ("[8,8,4]", [8, 8, 4]),
        ("{alpha: 1us}", {"alpha": "1us"}),
    ],
)
def test_plain_scalars_in_the_core_sense(text: str, value: object) -> None:
    if text != "-":  # alone on a line it opens a list
        read = read_value(text, "--set")
        assert read == value
        assert type(read) is type(value)
    assert read_source("a: '-'", "f.yaml").data == {"a": "-"}


@swept("key", ["on", "yes", "12:30", "2024-01-01", '"1"', "'true'", "a b"])
def test_keys_that_are_text(key: str) -> None:
    assert list(read_source(f"{key}: 1", "f.yaml").data) == [key.strip("\"'")]


@swept("key", ["1", "1.5", "1e3", "true", "null", "~", ".inf"])
def test_keys_that_are_not_text(key: str) -> None:
    assert (
        refusal(f"a:\n  {key}: 1")
        == f'f.yaml:2:3: a.{key}: the key {key} is not text\n  quote it: "{key}":'
    )


@swept("number", [".inf", "-.INF", ".nan", ".NaN", "1e999", "9" * 200])
def test_numbers_that_are_not_finite(number: str) -> None:
    assert refusal(f"a: [1, {number}]").startswith("f.yaml:1:8: a.1: ")


@swept(
    ("text", "words"),
    [
        (
            "a: 1\nb: 2\na: 3",
            "f.yaml:3:1: a: key 'a' is repeated, first given at f.yaml:1:1\n  keep one of the two",
        ),
        (
            "a: {b: 1, b: 1}",
            (
                "f.yaml:1:11: a.b: key 'b' is repeated, first given at f.yaml:1:5\n  keep one of"
                " the two"
            ),
        ),
        (
            "a: &x 1",
            (
                "f.yaml:1:4: a: anchors ('&x') are not supported\n  remove it; write values out"
                " where needed"
            ),
        ),
        (
            "&k a: 1",
            (
                "f.yaml:1:1: a: anchors ('&k') are not supported\n  remove it; write values out"
                " where needed"
            ),
        ),
        ("a: *x", "f.yaml:1:4: a: aliases ('*x') are not supported\n  write the value out"),
        ("*x : 1", "f.yaml:1:1: aliases ('*x') are not supported\n  write the value out"),
        (
            "a: !!str 5",
            (
                "f.yaml:1:4: a: tags ('!!str') are not supported\n  remove it; quote the value if"
                " it is text"
            ),
        ),
        (
            "a: !mine [1]",
            (
                "f.yaml:1:4: a: tags ('!mine') are not supported\n  remove it; quote the value if"
                " it is text"
            ),
        ),
        (
            "!!map\na: 1",
            (
                "f.yaml:1:1: tags ('!!map') are not supported\n  remove it; quote the value if it"
                " is text"
            ),
        ),
        (
            "a:\n  <<: {b: 1}",
            "f.yaml:2:3: a.<<: merge keys ('<<') are not supported\n  write the keys out",
        ),
        ("? [a]\n: 1", "f.yaml:1:3: a list or mapping cannot be a key\n  a key is text"),
        (
            "a: 1\n---\nb: 1",
            "f.yaml:2:1: a second document starts here\n  one file holds one document",
        ),
        ("", "f.yaml:1:1: the file is empty, expected keys and values\n  write 'key: value'"),
        (
            "\n# only a comment\n",
            "f.yaml:1:1: the file is empty, expected keys and values\n  write 'key: value'",
        ),
        ("5", "f.yaml:1:1: expected keys and values, got 5\n  write 'key: value'"),
        ("- a", "f.yaml:1:1: expected keys and values, got a list\n  write 'key: value'"),
        (
            "some words",
            "f.yaml:1:1: expected keys and values, got 'some words'\n  write 'key: value'",
        ),
        (
            "a: \x01",
            "f.yaml:1:4: not a text file: it holds the control character U+0001\n  remove it",
        ),
        (
            "a: 1\nb: \ud800",
            "f.yaml:2:4: not a text file: it holds the control character U+D800\n  remove it",
        ),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    assert refusal(text) == words


def test_a_value_without_a_key() -> None:
    assert refusal("a:\n  ?\n  : 1").endswith(": a: a value without a key\n  write 'key: value'")


def test_all_refusals_at_once_in_the_order_of_the_file() -> None:
    with pytest.raises(ManyErrors) as caught:
        read_source("a: *x\nb: .nan\nb: 1\n1: 2\n", "f.yaml")
    assert [problem.where for problem in caught.value.problems] == [
        "f.yaml:1:4",
        "f.yaml:2:4",
        "f.yaml:3:1",
        "f.yaml:4:1",
    ]


def test_scan_marks_what_it_refused() -> None:
    read, problems = scan("a: *x\nb: 1\n", "f.yaml")
    assert isinstance(read.data["a"], source.Refused)
    assert [problem.path for problem in problems] == [("a",)]


@swept(
    "text",
    ["a: [1", "a: b: c", "\ta: 1", "a: 'x", "a: @x", "%YAML 9.9.9\n---\na: 1", 'a: "\\UFFFFFFFF"'],
)
def test_a_syntax_error_is_one_line_with_its_place(text: str) -> None:
    first, *rest = refusal(text).split("\n")
    # the end of the file may be the start of its next line
    assert first.startswith(("f.yaml:1:", "f.yaml:2:1:"))
    assert ": not valid YAML: " in first
    assert len(rest) <= 1


def test_nesting_has_a_limit() -> None:
    assert read_source("a: " + "[" * 31 + "]" * 31, "f.yaml").data
    for text in ("a: " + "[" * 32 + "]" * 32, "[" * 10**6, "{" * 10**6, "- " * 10**5):
        assert "nested deeper than 32 levels" in refusal(text)


def test_size_has_a_limit() -> None:
    assert "larger than 1 MiB" in refusal("#" * (2**20 + 1))


def test_values_are_shown_on_one_short_line() -> None:
    assert [quote(value) for value in (None, True, 5, 0.5, "a", [], [1], {}, {"a": 1})] == [
        "nothing",
        "true",
        "5",
        "0.5",
        "'a'",
        "an empty list",
        "a list",
        "an empty mapping",
        "a mapping",
    ]
    assert quote("\x1b[31m\n") == r"'\x1b[31m\n'"
    assert len(quote("x" * 1000)) == 62
