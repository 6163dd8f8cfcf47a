"""Oversubscription as typed, hop by hop: ``2``, ``2:1``, or ports and their rates."""

from __future__ import annotations

import re
from collections.abc import Sequence

from colltool.base.errors import ColltoolError
from colltool.base.quoting import clipped, shown
from colltool.base.units import parse_rate
from colltool.definitions.field_types import MAX_RATIO
from colltool.sizing.wiring import Split

Hops = Sequence[float | str] | float | str

_RATIO = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)(?::(\d{1,6}(?:\.\d{1,6})?))?")
_PORTS = re.compile(r"(\d{1,4})x([^:]+):(\d{1,4})x([^:]+)")
_FIX = "2, 2:1, or ports and rates 48x400Gbps:8x800Gbps, for each level below the top, bottom up: 2,1.5"


def hops_of(typed: Hops, radix: int) -> list[float | Split]:
    """The ratio or the ports of each level below the top, from one or several ratios or texts.

    >>> hops_of("48x400Gbps:8x800Gbps,2:1", 64)
    [Split(down=48, up=8, ratio=3.0), 2.0]

    Raises:
        ColltoolError: not a ratio from 1 to 1000, or more ports than the ``radix`` of a switch at the faster rate.
    """
    several = [typed] if isinstance(typed, str | bytes) or not isinstance(typed, Sequence) else typed
    parts = [part for one in several for part in (one.split(",") if isinstance(one, str) else [one])]
    return [_hop(part, radix) for part in parts]


def _hop(typed: object, radix: int) -> float | Split:
    if not isinstance(typed, str):
        if isinstance(typed, bool) or not isinstance(typed, int | float):
            raise _refused(f"expected a ratio, got {shown(typed)}")
        return _checked(typed)
    text = typed.strip()
    if ports := _PORTS.fullmatch(text):
        return _from_ports(text, int(ports[1]), parse_rate(ports[2]), int(ports[3]), parse_rate(ports[4]), radix)
    ratio = _RATIO.fullmatch(text)
    if ratio is None or (ratio[2] and not float(ratio[2])):
        raise _refused(f"'{clipped(text)}' is not an oversubscription")
    return _checked(float(ratio[1]) / float(ratio[2] or 1))


def _checked(ratio: float) -> float:
    if not 1 <= ratio <= MAX_RATIO:
        raise _refused(f"an oversubscription is 1 (non-blocking) to {MAX_RATIO}, got {clipped(shown(ratio))}")
    return float(ratio)


def _from_ports(text: str, down: int, down_Bps: float, up: int, up_Bps: float, radix: int) -> Split:
    """s from ports x rates. Source: Collectives Explainer Series part 03 §1."""
    if not (down and up and down_Bps and up_Bps):
        raise _refused(f"'{clipped(text)}' has no ports or no rate")
    taken = (down * down_Bps + up * up_Bps) / max(down_Bps, up_Bps)
    if taken > radix:
        raise _refused(f"'{clipped(text)}' needs {taken:g} ports at the faster rate, the switch has {radix}")
    return Split(down, up, down * down_Bps / (up * up_Bps))


def _refused(what: str) -> ColltoolError:
    return ColltoolError(what, argument="oversubscription", fix=f"write {_FIX}")
