"""The collectives by the names that benchmarks, recorders and profilers have for them: a section
each of collective_names.toml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from colltool.base.cache import packaged_toml
from colltool.base.primitives import Primitive

_FILE = Path(__file__).with_name("collective_names.toml")


@cache
def collectives_of(source: str) -> Mapping[str, Primitive]:
    """Primitives by the names of a source, a section of the file such as ``osu``."""
    by_name: dict[str, Primitive] = {}
    for primitive, names in packaged_toml(_FILE)[source].items():
        by_name |= dict.fromkeys(names, Primitive(primitive))
    return by_name
