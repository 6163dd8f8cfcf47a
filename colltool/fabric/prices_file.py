"""Prices of parts from a file, a shipped fabric or a mapping: :func:`load_prices`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.files import read_text
from colltool.definitions.overrides import Overrides, Shorthand
from colltool.definitions.reader import read
from colltool.definitions.source import scan
from colltool.fabric.library import Prices
from colltool.fabric.load import FabricSource, fabric_data, find_fabric
from colltool.fabric.shipped import SUFFIX as SUFFIX
from colltool.fabric.shipped import shipped_fabrics as shipped_fabrics
from colltool.fabric.shipped import shipped_folder as shipped_folder

_PRICE_SHORTHAND = Shorthand(example="switch=30000")
_CURRENCY = argument_text("overrides", ["currency=USD"])


def load_prices(prices: FabricSource | None, overrides: Overrides) -> Prices:
    """Prices from a file, a shipped fabric or a mapping, alone or under ``prices``; None: from the
    overrides only."""
    content: str | Mapping[str, Any] = {}
    name = ""
    if isinstance(prices, Mapping):
        content = _inner(prices, "prices", prices)
    elif isinstance(prices, str | os.PathLike):
        file, name = find_fabric(prices)
        content = read_text(file, "definition", name)
        source, problems = scan(content, name)
        inner = source.data if problems else _inner(source.data, name, prices)
        # prices by themselves are read from their text, whose errors have places
        if inner is not source.data:
            content = inner
    elif prices is not None:
        raise ColltoolError(
            f"expected prices, got a {type(prices).__name__}",
            argument="prices",
            fix='give a file, or a mapping such as {"currency": "USD", "switch": 30000}',
        )
    return read(Prices, content, name, overrides, _PRICE_SHORTHAND).result()


def _inner(data: Mapping[str, Any], name: str, source: FabricSource) -> Mapping[str, Any]:
    """The prices in a fabric or under the only key ``prices``; a mapping of prices as it is."""
    if list(data) == ["prices"] and isinstance(data["prices"], Mapping):
        inner: Mapping[str, Any] = data["prices"]
        return inner
    if "name" not in data:  # as every fabric has; both may have tiers
        return data
    found: Mapping[str, Any] | None = fabric_data(source).get("prices")
    if not found:
        raise ColltoolError(
            "is a fabric without prices",
            where=name,
            fix=f"give a file with prices, or {_CURRENCY} and more",
        )
    return found
