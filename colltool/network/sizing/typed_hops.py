"""Oversubscription as people type it for a sized Clos, level by level: :func:`hops_of`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from colltool.base.errors import ColltoolError, clipped, quote
from colltool.base.formatting import parse_rate
from colltool.definitions.field_types import MAX_RATIO
from colltool.network.sizing.wiring import Hop, Split

Hops = Sequence[float | str] | float | str

# 2, 2:1
_RATIO = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)(?::(\d{1,6}(?:\.\d{1,6})?))?")
# 48x400Gbps:8x800Gbps
_PORTS = re.compile(r"(\d{1,4})x([^:]+):(\d{1,4})x([^:]+)")
# 2, 2:1, 48x400Gbps:8x800Gbps, and 2,1.5 for two levels
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
    several: Sequence[object] = [typed]
    # bytes are a sequence of integers, and no hops
    if isinstance(typed, Sequence) and not isinstance(typed, str | bytes):
        several = typed
    hops: list[object] = []
    for hop in several:
        if isinstance(hop, str):
            hops += hop.split(",")
        else:
            hops.append(hop)
    return [_hop(hop, radix) for hop in hops]


def _hop(typed: object, radix: int) -> Hop:
    """The ratio or the ports of one level."""
    ratio = typed
    if isinstance(typed, str):
        text = typed.strip()
        ports = _PORTS.fullmatch(text)
        if ports:
            return _split(ports, clipped(text), radix)
        terms = _RATIO.fullmatch(text)
        if terms is None or float(terms[2] or 1) == 0:
            raise bad_oversubscription(f"'{clipped(text)}' is not an oversubscription")
        ratio = float(terms[1]) / float(terms[2] or 1)
    if isinstance(ratio, bool) or not isinstance(ratio, int | float):
        raise bad_oversubscription(f"expected a ratio, got {quote(ratio)}")
    if not 1 <= ratio <= MAX_RATIO:
        got = clipped(quote(ratio))
        raise bad_oversubscription(
            f"an oversubscription is 1 (non-blocking) to {MAX_RATIO}, got {got}"
        )
    return float(ratio)


def _split(ports: re.Match[str], text: str, radix: int) -> Split:
    """Ports and rates of a switch, s = ports x rates down over up: 48 x 400 over 8 x 800 Gbit/s is
    3. Source: Collectives Explainer Series part 03 §1."""
    down_count, down_rate, up_count, up_rate = ports.groups()
    down, up = int(down_count), int(up_count)
    down_Bps, up_Bps = parse_rate(down_rate), parse_rate(up_rate)
    if not (down and up and down_Bps and up_Bps):
        raise bad_oversubscription(f"'{text}' has no ports or no rate")
    ports_needed = (down * down_Bps + up * up_Bps) / max(down_Bps, up_Bps)
    if ports_needed > radix:
        raise bad_oversubscription(
            f"'{text}' needs {ports_needed:g} ports at the faster rate, the switch has {radix}"
        )
    return Split(down, up, down * down_Bps / (up * up_Bps))


def bad_oversubscription(what: str, fix: str = f"write {_FIX}") -> ColltoolError:
    return ColltoolError(what, argument="oversubscription", fix=fix)
