"""What a report's GPUs and networks cost: ``--price KEY=VALUE``, else each fabric's own
``prices``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

from colltool.base.errors import ColltoolError, clipped, nearest, rename_for_both

if TYPE_CHECKING:
    from colltool.analysis.report import FabricPrices
    from colltool.commands.report_sections import PageColumn
    from colltool.definitions.overrides import Overrides
    from colltool.fabric.library import Prices

GPU = "gpu"
USUAL_CURRENCY = "USD"
_EXAMPLE = "gpu=30000"


class _Stated(NamedTuple):
    """A price as the user gave it; ``fabric`` is empty for all fabrics."""

    fabric: str
    key: str
    value: str


def page_prices(
    given: Overrides | None, columns: Sequence[PageColumn]
) -> tuple[FabricPrices | None, ...]:
    """The prices of each fabric of a page.

    Raises:
        ColltoolError: no such key or fabric, or a value that is no amount of money.
    """
    stated = [_checked(pair, columns) for pair in _pairs(given)]
    if stated and all(price.key == "currency" for price in stated):
        raise _wrong("names a currency, and nothing is priced", f"add {_EXAMPLE}")
    return tuple(_prices_of(column, stated) for column in columns)


def _pairs(given: Overrides | None) -> Iterator[str]:
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


def _checked(pair: str, columns: Sequence[PageColumn]) -> _Stated:
    """A pair of ``--price``, refused where its key, fabric or amount is none."""
    from colltool.fabric.library import Prices

    name, _, value = pair.partition("=")
    fabric, _, key = name.strip().rpartition(":")
    value = value.strip()
    if not value:
        raise _wrong(f"'{clipped(pair)}' has no value", f"write {_EXAMPLE}")
    known = [GPU, *(field for field in Prices.model_fields if field not in ("notes", "source"))]
    if key.partition(".")[0] not in known:
        fix = f"{nearest(key, known)} known: {', '.join(known)}".strip()
        raise _wrong(f"nothing is called '{clipped(key)}'", fix)
    names = list(dict.fromkeys(name for column in columns for name in _names(column)))
    if fabric and fabric not in names:
        raise _wrong(f"the page has no fabric '{clipped(fabric)}'", f"known: {', '.join(names)}")
    if key == GPU and _amount(value) is None:
        raise _wrong(f"'{clipped(value)}' is no price of a GPU", f"write a number: {_EXAMPLE}")
    return _Stated(fabric, key, value)


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


def _prices_of(column: PageColumn, stated: Sequence[_Stated]) -> FabricPrices | None:
    """The prices of one fabric: what was stated for it, or for all, over those of its file."""
    from colltool.analysis.report import FabricPrices

    own = column.file.prices
    values: dict[str, str] = {}
    # what names a fabric comes after what is for all
    for price in sorted(stated, key=lambda price: bool(price.fabric)):
        if not price.fabric or price.fabric in _names(column):
            values[price.key] = price.value
    if own is None and not values:
        return None
    gpu = _amount(values.pop(GPU, ""))
    currency = values.pop("currency", own.currency if own else USUAL_CURRENCY)
    if own is not None and own.currency != currency:
        what = f"the file of {column.title} has prices in {own.currency}, not {currency}"
        raise _wrong(what, f"write currency={own.currency}")
    network = _loaded(currency, values)
    if own is not None:
        stated_keys = network.model_fields_set - {"currency"}
        network = own.model_copy(update={key: getattr(network, key) for key in stated_keys})
    has_parts = own is not None or bool(values)
    return FabricPrices(currency, gpu, network if has_parts else None)


def _loaded(currency: str, values: Mapping[str, str]) -> Prices:
    from colltool.fabric.prices_file import load_prices

    with rename_for_both(overrides="price"):
        pairs = [f"{key}={value}" for key, value in {"currency": currency, **values}.items()]
        return load_prices(None, pairs)


def _wrong(what: str, fix: str) -> ColltoolError:
    return ColltoolError(what, argument="price", fix=fix)
