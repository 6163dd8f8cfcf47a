"""Oversubscription as people type it for a sized Clos, level by level: :func:`hops_of`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from colltool.base.errors import ColltoolError, clipped, quote
from colltool.base.formatting import parse_rate
from colltool.definitions.field_types import MAX_RATIO
from colltool.network.sizing.wiring import Hop, Split

Hops = Sequence[float | str] | float | str

# A ratio and, by choice, what it is to: 2, 2.5, 2:1
_RATIO = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)(?::(\d{1,6}(?:\.\d{1,6})?))?")
# Ports and their rate down, ports and their rate up: 48x400Gbps:8x800Gbps
_PORTS = re.compile(r"(\d{1,4})x([^:]+):(\d{1,4})x([^:]+)")
_FIX = (
    "2, 2:1, or ports and rates 48x400Gbps:8x800Gbps, for each level below the top, bottom up:"
    " 2,1.5"
)


def hops_of(typed: Hops, radix: int) -> list[Hop]:
    """A ratio or ports for each level below the top: ``"48x400Gbps:8x800Gbps,2:1"`` is
    ``[Split(48, 8, 3.0), 2.0]``.

    ``radix`` counts ports of the faster rate. Raises :class:`ColltoolError` for ratios outside 1 to
    1000 and for more ports than the switch has.
    """
    items: Sequence[object] = [typed]
    # bytes are a sequence of integers, and no hops
    if isinstance(typed, Sequence) and not isinstance(typed, str | bytes):
        items = typed
    by_level: list[object] = []
    for item in items:
        if isinstance(item, str):
            by_level += item.split(",")
        else:
            by_level.append(item)
    return [_hop(typed_hop, radix) for typed_hop in by_level]


def _hop(typed_hop: object, radix: int) -> Hop:
    """The ratio or the ports of one level; what is typed may be of any type."""
    ratio = typed_hop
    if isinstance(typed_hop, str):
        text = typed_hop.strip()
        ports = _PORTS.fullmatch(text)
        if ports:
            return _split(ports, clipped(text), radix)
        terms = _RATIO.fullmatch(text)
        up = float(terms[2] or 1) if terms else 0.0
        if terms is None or up == 0:
            raise bad_oversubscription(f"'{clipped(text)}' is not an oversubscription")
        ratio = float(terms[1]) / up
    if isinstance(ratio, bool) or not isinstance(ratio, int | float):
        raise bad_oversubscription(f"expected a ratio, got {quote(ratio)}")
    if not 1 <= ratio <= MAX_RATIO:
        got = clipped(quote(ratio))
        raise bad_oversubscription(
            f"an oversubscription is 1 (non-blocking) to {MAX_RATIO}, got {got}"
        )
    return float(ratio)


def _split(ports: re.Match[str], text: str, radix: int) -> Split:
    """The split of typed ports and rates, s = ports x rates down over up: 48 x 400 over 8 x 800 Gbit/s
    is 3. ``ports`` is a match of :data:`_PORTS`, ``text`` what errors quote.

    Source: Collectives Explainer Series part 03 §1.
    """
    down_count, down_rate, up_count, up_rate = ports.groups()
    down, up = int(down_count), int(up_count)
    down_Bps, up_Bps = parse_rate(down_rate), parse_rate(up_rate)
    if not (down and up and down_Bps and up_Bps):
        raise bad_oversubscription(f"'{text}' has no ports or no rate")
    # a port of the slower rate takes part of one: two of 400 Gbit/s one of 800
    ports_needed = (down * down_Bps + up * up_Bps) / max(down_Bps, up_Bps)
    if ports_needed > radix:
        raise bad_oversubscription(
            f"'{text}' needs {ports_needed:g} ports at the faster rate, the switch has {radix}"
        )
    return Split(down, up, down * down_Bps / (up * up_Bps))


def bad_oversubscription(what: str, fix: str = f"write {_FIX}") -> ColltoolError:
    """The error of an oversubscription, to be raised."""
    return ColltoolError(what, argument="oversubscription", fix=fix)
