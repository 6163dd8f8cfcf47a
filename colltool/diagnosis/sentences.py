"""What a diagnosis says, by code: the words of causes, findings, notes and reasons are those of
sentences.toml.

A field may have a unit as its format: ``{share:percent}`` is 80% of 0.8, ``{size:size}`` 64 KiB.
tests/diagnosis/test_sentences.py holds the fields of every sentence against where it is used.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.resources import files
from string import Formatter
from typing import Any

from colltool.base.formatting import format_rate, format_time, percent, size_text, whole_percent

UNITS: dict[str, Callable[[float], str]] = {
    "percent": whole_percent,
    "error": partial(percent, digits=0),
    "rate": partial(format_rate, digits=3),
    "size": size_text,
    "time": partial(format_time, digits=3),
}


class _Words(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        unit = UNITS.get(format_spec)
        return unit(value) if unit else str(super().format_field(value, format_spec))


_WORDS = _Words()


def table(name: str) -> dict[str, dict[str, str]]:
    """A table of words from this folder, by section and key."""
    text = (files("colltool.diagnosis") / name).read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def sentences() -> Mapping[str, str]:
    """All sentences by code, of whatever section."""
    found: dict[str, str] = {}
    for section in table("sentences.toml").values():
        # a code is in one section only
        assert not found.keys() & section.keys()
        found |= section
    return found


def sentence(code: str, **fields: Any) -> str:
    """The words of a code with its fields."""
    return _WORDS.vformat(sentences()[code], (), fields)
