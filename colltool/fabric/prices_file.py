"""Prices of parts from a file, a shipped fabric or a mapping: :func:`load_prices`. They stand by
themselves, under a key ``prices``, or in a fabric.
"""

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

_PRICE_SHORTHAND = Shorthand(example="switch=30000")
_CURRENCY = argument_text("overrides", ["currency=USD"])


def load_prices(prices: FabricSource | None, overrides: Overrides) -> Prices:
    """Return prices from a file, a shipped fabric or a mapping, with overrides; None: from the overrides
    only.

    Raises:
        ColltoolError: none of these, a fabric without prices, or prices that are refused.
    """
    content: str | Mapping[str, Any] = {}
    name = ""
    if isinstance(prices, Mapping):
        content = _prices_in(prices, "prices", prices)
    elif isinstance(prices, str | os.PathLike):
        file, name = find_fabric(prices)
        content = read_text(file, "definition", name)
        source, problems = scan(content, name)
        # read the text itself where it has problems or is prices by themselves: so errors have places
        if not problems:
            found = _prices_in(source.data, name, prices)
            if found is not source.data:
                content = found
    elif prices is not None:
        raise ColltoolError(
            f"expected prices, got a {type(prices).__name__}",
            argument="prices",
            fix='give a file, or a mapping such as {"currency": "USD", "switch": 30000}',
        )
    return read(Prices, content, name, overrides, _PRICE_SHORTHAND).result()


def _prices_in(data: Mapping[str, Any], name: str, source: FabricSource) -> Mapping[str, Any]:
    """The prices of a fabric, or those under the only key ``prices``; a mapping of prices as it is.

    Args:
        data: of a file or mapping.
        name: its name, for errors.
        source: what ``data`` was read from: a fabric is loaded anew, as it may be like another.
    """
    if list(data) == ["prices"] and isinstance(data["prices"], Mapping):
        prices: Mapping[str, Any] = data["prices"]
        return prices
    # a fabric has a name, which prices have not; both may have tiers
    if "name" not in data:
        return data
    found: Mapping[str, Any] | None = fabric_data(source).get("prices")
    if not found:
        raise ColltoolError(
            "is a fabric without prices",
            where=name,
            fix=f"give a file with prices, or {_CURRENCY} and more",
        )
    return found
