"""Prices from a file of their own, from a fabric that has some, or from a mapping."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from colltool.base.errors import ColltoolError, given
from colltool.base.inputs import read_text
from colltool.definitions.definition import read
from colltool.definitions.overrides import Overrides, Shorthand
from colltool.definitions.source import scan
from colltool.fabric.load import FabricSource, fabric_data, find_fabric
from colltool.fabric.prices import Prices

_SHORT = Shorthand(example="switch=30000")
_EACH = given("overrides", ["currency=USD"])


def load_prices(prices: FabricSource | None, overrides: Overrides = ()) -> Prices:
    """The prices that a file holds: the keys alone, or a fabric with the key ``prices``.

    Args:
        prices: a file, the name of a shipped fabric, or a mapping; None for those of the overrides alone.
        overrides: ``KEY=VALUE`` each, ``"switch=30000"``, or a mapping.

    Raises:
        ManyErrors: everything that is wrong with them, such as a currency that is missing.
        ColltoolError: no such file, or a fabric without prices.
    """
    if prices is None:
        return read(Prices, {}, "", overrides, _SHORT).result()
    if isinstance(prices, Mapping):
        return read(Prices, _inner(prices, "prices", prices), "", overrides, _SHORT).result()
    if not isinstance(prices, str | os.PathLike):
        what = f"expected prices, got a {type(prices).__name__}"
        raise ColltoolError(what, argument="prices", fix='give a file, or a mapping such as {"currency": "USD", "switch": 30000}')
    file, name = find_fabric(prices)
    text = read_text(file, "definition", name)
    source, problems = scan(text, name)
    whole = not problems and _inner(source.data, name, prices) is not source.data
    return read(Prices, _inner(source.data, name, prices) if whole else text, name, overrides, _SHORT).result()


def _inner(data: Mapping[str, Any], name: str, source: FabricSource) -> Mapping[str, Any]:
    """The key ``prices`` of a fabric that holds, or of a file that has nothing else; a mapping of prices as it is."""
    if list(data) == ["prices"] and isinstance(data["prices"], Mapping):
        inner: Mapping[str, Any] = data["prices"]
        return inner
    if "name" not in data:  # as every fabric has; both may have tiers
        return data
    found: Mapping[str, Any] | None = fabric_data(source).get("prices")
    if not found:
        raise ColltoolError("is a fabric without prices", where=name, fix=f"give a file with prices, or {_EACH} and more")
    return found
