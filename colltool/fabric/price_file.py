"""Prices from a file of their own, from a fabric that has some, or from a mapping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from colltool.errors import ColltoolError, given
from colltool.fabric.definition import read
from colltool.fabric.load import FabricSource, fabric_data, find_fabric
from colltool.fabric.overrides import Overrides, Shorthand
from colltool.fabric.places import from_mapping
from colltool.fabric.prices import Prices
from colltool.fabric.source import scan
from colltool.inputs import read_text

_SHORT = Shorthand(example="switch=30000")


def load_prices(prices: FabricSource | None, overrides: Overrides = ()) -> Prices:
    """The prices that a file holds: the keys alone, or a fabric with the key ``prices``.

    Args:
        prices: a file, the name of a shipped fabric, or a mapping; None for those of the overrides alone.
        overrides: ``KEY=VALUE`` each, ``"switch=30000"``, or a mapping.

    Raises:
        ManyErrors: everything that is wrong with them, such as a currency that is missing.
        ColltoolError: no such file, or a fabric without prices.
    """
    if prices is None or isinstance(prices, Mapping):
        source, _ = from_mapping(prices or {})
        return read(Prices, _inner(source.data, "prices", prices) if prices else {}, "", overrides, _SHORT).result()
    file, name = find_fabric(prices)
    text = read_text(file, "definition", name)
    source, problems = scan(text, name)
    if not problems and "tiers" in source.data:
        return read(Prices, _inner(source.data, name, prices), name, overrides, _SHORT).result()
    return read(Prices, text, name, overrides, _SHORT).result()


def _inner(data: Mapping[str, Any], name: str, source: FabricSource) -> Mapping[str, Any]:
    """The key ``prices`` of a fabric that holds; a mapping of prices as it is."""
    if "tiers" not in data:
        return data
    found: Mapping[str, Any] | None = fabric_data(source).get("prices")
    if not found:
        fix = f"give a file with prices, or {given('overrides', ['currency=USD'])} and more"
        raise ColltoolError("is a fabric without prices", where=name, fix=fix)
    return found
