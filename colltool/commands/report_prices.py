"""What a report's GPUs and networks cost: ``--price [FABRIC:]KEY[.PART]=VALUE``, else each fabric's
own ``prices``.

Such as ``gpu=30000``, ``switch=20000``, ``nvl72:switch.draws=700W``; ``KEY`` is :data:`GPU` or a key
of ``prices`` in a fabric file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

from colltool.base.errors import ColltoolError, clipped, nearest_and_all, rename_for_both

if TYPE_CHECKING:
    from colltool.analysis.report import FabricPrices
    from colltool.commands.report_page import PageColumn
    from colltool.definitions.overrides import Overrides
    from colltool.fabric.library import Prices

# the key of the price of a GPU, which fabric files do not have
GPU = "gpu"
USUAL_CURRENCY = "USD"
# what a fix shows
_EXAMPLE = "gpu=30000"
# keys of ``prices`` that are remarks, no amounts
_NOT_PRICES = ("notes", "source")


class _StatedPrice(NamedTuple):
    """A price as the user gave it: ``nvl72:switch.draws=700W``.

    Args:
        fabric: ``nvl72``; empty for all fabrics.
        key: ``switch.draws``, a key of ``prices``, and a part of it where it has parts.
        value: ``700W``.
    """

    fabric: str
    key: str
    value: str


def page_prices(
    given: Overrides | None, columns: Sequence[PageColumn]
) -> tuple[FabricPrices | None, ...]:
    """The prices of each fabric of a page, in the columns' order; None of a fabric without any.

    Args:
        given: ``KEY=VALUE`` or ``FABRIC:KEY=VALUE``, one or several, or a mapping; None for none.

    Raises:
        ColltoolError: no such key or fabric, or a value that is no amount of money.
    """
    stated = [_stated_price(pair, columns) for pair in _pairs(given)]
    if stated and all(price.key == "currency" for price in stated):
        raise _wrong("names a currency, and nothing is priced", f"add {_EXAMPLE}")
    return tuple(_prices_of(column, stated) for column in columns)


def _pairs(given: Overrides | None) -> Iterator[str]:
    """``KEY=VALUE`` of each price, from one such text, several, or a mapping of values by key."""
    if given is None:
        return
    if isinstance(given, str):
        yield given
    elif isinstance(given, Mapping):
        yield from (f"{key}={value}" for key, value in given.items())
    elif isinstance(given, Sequence) and all(isinstance(pair, str) for pair in given):
        yield from given
    else:
        raise _wrong("must be KEY=VALUE", f"write {_EXAMPLE}")


def _stated_price(pair: str, columns: Sequence[PageColumn]) -> _StatedPrice:
    """The price that a pair of ``--price`` states.

    Raises:
        ColltoolError: no value, an unknown key, a fabric that the page does not have, or of a GPU no
            amount. Other amounts are checked by :func:`_read_prices`.
    """
    name, _, value = pair.partition("=")
    fabric, _, key = name.strip().rpartition(":")
    value = value.strip()
    if not value:
        raise _wrong(f"'{clipped(pair)}' has no value", f"write {_EXAMPLE}")
    known_keys = _known_keys()
    if key.partition(".")[0] not in known_keys:
        raise _wrong(
            f"nothing is called '{clipped(key)}'",
            nearest_and_all(key, known_keys),
        )
    fabrics: dict[str, None] = {}
    for column in columns:
        fabrics |= dict.fromkeys(_names(column))
    if fabric and fabric not in fabrics:
        raise _wrong(f"the page has no fabric '{clipped(fabric)}'", f"known: {', '.join(fabrics)}")
    if key == GPU and _amount(value) is None:
        raise _wrong(f"'{clipped(value)}' is no price of a GPU", f"write a number: {_EXAMPLE}")
    return _StatedPrice(fabric, key, value)


def _known_keys() -> list[str]:
    """What may be priced: a GPU, and the keys of ``prices``."""
    from colltool.fabric.library import Prices

    return [GPU, *(key for key in Prices.model_fields if key not in _NOT_PRICES)]


def _amount(text: str) -> float | None:
    """A number of money; None where the text is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) and number >= 0 else None


def _names(column: PageColumn) -> tuple[str, ...]:
    """How the user may name a fabric: its title, its file's name, or as typed."""
    return tuple(filter(None, (column.title, column.file.name, column.typed)))


def _prices_of(column: PageColumn, stated: Sequence[_StatedPrice]) -> FabricPrices | None:
    """The prices of one fabric: what was stated for it, or for all, over those of its file; None
    without either.

    Raises:
        ColltoolError: another currency than the file's.
    """
    from colltool.analysis.report import FabricPrices

    values: dict[str, str] = {}
    # prices for all come first (False before True), so that those of this fabric replace them
    for price in sorted(stated, key=lambda price: bool(price.fabric)):
        if not price.fabric or price.fabric in _names(column):
            values[price.key] = price.value
    of_file = column.file.prices
    if of_file is None and not values:
        return None
    gpu = _amount(values.pop(GPU, ""))
    currency = values.pop("currency", of_file.currency if of_file else USUAL_CURRENCY)
    if of_file is not None and of_file.currency != currency:
        raise _wrong(
            f"the file of {column.title} has prices in {of_file.currency}, not {currency}",
            f"write currency={of_file.currency}",
        )
    network = _read_prices(currency, values)
    if of_file is None:
        return FabricPrices(currency, gpu, network if values else None)
    # only what was typed replaces the file's, not what has a default
    stated_keys = network.model_fields_set - {"currency"}
    network = of_file.model_copy(update={key: getattr(network, key) for key in stated_keys})
    return FabricPrices(currency, gpu, network)


def _read_prices(currency: str, values: Mapping[str, str]) -> Prices:
    """The prices of a network by the keys of ``prices``, checked as in a fabric file."""
    from colltool.fabric.prices_file import load_prices

    with rename_for_both(overrides="price"):
        pairs = [f"{key}={value}" for key, value in {"currency": currency, **values}.items()]
        return load_prices(None, pairs)


def _wrong(what: str, fix: str) -> ColltoolError:
    """The error for a price that cannot be used."""
    return ColltoolError(what, argument="price", fix=fix)
