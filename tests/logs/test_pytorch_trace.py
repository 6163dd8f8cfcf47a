"""The stream of a trace: whole, packed, cut anywhere, or something else."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swept import swept

from colltool.logs.json_stream import EVENTS, NotJson, Reader

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
HEADERS = st.dictionaries(st.text().filter(lambda key: key != EVENTS), VALUES, max_size=3)


def read(content: bytes, chunk: int = 7) -> tuple[list[tuple[str, Any]], bool]:
    reader = Reader(io.BufferedReader(io.BytesIO(content)), chunk)
    return list(reader.members()), reader.broken


@given(
    HEADERS,
    st.lists(VALUES, max_size=5),
    HEADERS,
    st.integers(1, 40),
    st.sampled_from([None, 1]),
    st.booleans(),
)
def test_what_was_written_is_read(
    before: dict[str, Any],
    events: list[Any],
    after: dict[str, Any],
    chunk: int,
    indent: int | None,
    packed: bool,
) -> None:
    after = {key: value for key, value in after.items() if key not in before}
    content = json.dumps(before | {EVENTS: events} | after, indent=indent).encode()
    members, broken = read(gzip.compress(content) if packed else content, chunk)
    assert members == [*before.items(), *((EVENTS, event) for event in events), *after.items()]
    assert not broken


@given(
    st.lists(VALUES.filter(lambda value: isinstance(value, dict)), min_size=1, max_size=5),
    st.data(),
)
def test_of_a_file_that_is_cut_the_whole_events_are_read(
    events: list[Any], data: st.DataObject
) -> None:
    content = json.dumps({EVENTS: events}).encode()
    start = content.index(b"[") + 1
    members, broken = read(content[: data.draw(st.integers(start, len(content) - 2))])
    assert broken
    assert [value for _, value in members] == events[: len(members)]


def test_a_bare_list_of_events() -> None:
    assert read(b'\xef\xbb\xbf [{"a": 1}, 2]') == ([(EVENTS, {"a": 1}), (EVENTS, 2)], False)


def test_packed_and_cut() -> None:
    content = gzip.compress(
        json.dumps({EVENTS: [{"a": number} for number in range(10_000)]}).encode()
    )
    members, broken = read(content[: len(content) // 2], 1000)
    assert broken
    assert 0 < len(members) < 10_000


@swept("tail", [b'{"a" 1}]}', b"nonsense]}", b'"a', b"[" * 100_000])
def test_damage_ends_the_reading(tail: bytes) -> None:
    assert read(b'{"traceEvents": [{"a": 1}, ' + tail, 1000) == ([(EVENTS, {"a": 1})], True)


def test_names_cut_within_a_character_and_control_characters() -> None:
    ((_, event),), broken = read(b'{"traceEvents": [{"name": "a\xc3\t"}]}')
    assert event == {"name": "a\ufffd\t"}
    assert not broken


@swept("content", [b"", b"hello", b"\x00\x01", b"<xml/>", gzip.compress(b"no", mtime=0)])
def test_something_else_is_said_to_be(content: bytes) -> None:
    with pytest.raises(NotJson):
        read(content)
