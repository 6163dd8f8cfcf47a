"""Tiers as a planner types them on one line: ``nvlink:star:8:450GB/s:0.8us,ib:clos:8/32:400Gbps:5us/11us:s=2``.

Each tier is NAME:TOPOLOGY:SIZE:BANDWIDTH:ALPHA, innermost first. A lattice's size is its shape, ``8x8x4``. A Clos may list the
groups of its levels bottom up, ``8/32``, with an alpha for each, ``5us/11us``. Behind the five: ``s=2`` (oversubscription,
switch by switch, ``s=2/1.5`` for three levels), ``eta=1.2/0.8``, ``ports=4``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from colltool.base.errors import ColltoolError, given, nearest
from colltool.base.quoting import clipped
from colltool.base.units import parse_rate, parse_time
from colltool.sizing.size_clos import LEVELS

EXAMPLE = "nvlink:star:8:450GB/s:0.8us,ib:clos:8/32:400Gbps:5us/11us"
ETAS = {"star": (1.0, 0.8), "full_mesh": (1.0, 0.8), "torus": (1.2, 0.6), "mesh": (1.2, 0.6), "clos": (1.2, 0.8)}
"""Contention where nothing is said. Source: Collectives Explainer Series part 05 §4.1 and §4.2."""

_FIELDS = ("NAME", "TOPOLOGY", "SIZE", "BANDWIDTH", "ALPHA")
_WHOLE = re.compile(r"\d{1,8}")


def tiers_of(typed: str) -> list[dict[str, Any]]:
    """The tiers as a fabric file holds them.

    Raises:
        ColltoolError: a tier that is not of this form; what the file's own checks refuse comes later.
    """
    return [_tier(text.strip()) for text in typed.split(",")]


def _tier(text: str) -> dict[str, Any]:
    fields = [field.strip() for field in text.split(":")]
    if len(fields) < len(_FIELDS) or not all(fields):
        missing = _FIELDS[next((i for i, field in enumerate(fields) if not field), len(fields)) :]
        what = f"'{clipped(text)}' has no {missing[0] if missing else 'value behind a colon'}"
        raise _refused(what, f"a tier is {':'.join(_FIELDS)}, such as {EXAMPLE.split(',')[0]}")
    name, topology, size, rate, alpha = fields[: len(_FIELDS)]
    if topology not in ETAS:
        hint = nearest(topology, list(ETAS))
        raise _refused(f"'{clipped(topology)}' is no topology in '{clipped(text)}'", f"{hint} one of {', '.join(ETAS)}".strip())
    _read(parse_rate, rate, text)
    tier: dict[str, Any] = {"name": name, "topology": topology}
    more = dict(_option(field, text) for field in fields[len(_FIELDS) :])
    alphas = [one.strip() for one in alpha.split("/")]
    for one in alphas:
        _read(parse_time, one, text)
    if topology in ("torus", "mesh"):
        tier["shape"] = _counts(size, "x", "a shape such as 8x8x4", text)
    else:
        groups = _counts(size, "/", "a whole number such as 8" if topology != "clos" else "8, or groups of levels 8/32", text)
        tier["size"] = groups[-1]
    levels = topology == "clos" and (len(groups) > 1 or len(alphas) > 1)
    if not levels and len(alphas) > 1:
        raise _refused(f"'{clipped(alpha)}' gives several alphas", "one, such as 0.8us; a clos with levels has one for each")
    tier |= {"alpha": alpha} if not levels else {}
    tier |= {"bandwidth": rate, "eta": more.get("eta") or dict(zip(("alpha", "beta"), ETAS[topology], strict=True))}
    if "ports" in more:
        tier["ports"] = more["ports"]
    if levels:
        tier["levels"] = _levels(groups, alphas, more.get("s", []), text)
    elif "s" in more:
        raise _refused(
            f"'{clipped(text)}' has no levels to be oversubscribed", "a clos with groups: ib:clos:8/32:400Gbps:5us/11us:s=2"
        )
    return tier


def _levels(groups: list[int], alphas: list[str], ratios: list[float], text: str) -> list[dict[str, Any]]:
    """Bottom up: a leaf, a spine and what is above."""
    if len(groups) != len(alphas):
        what = f"'{clipped(text)}' has {len(groups)} groups and {len(alphas)} alphas"
        raise _refused(what, "one alpha for each level, bottom up: 8/32 with 5us/11us")
    if len(ratios) > len(groups) - 1:
        what = f"'{clipped(text)}' has {len(ratios)} ratios for {len(groups) - 1} boundaries of levels"
        raise _refused(what, "one for each level above the first: s=2, s=2/1.5")
    levels = []
    for index, (group, alpha) in enumerate(zip(groups, alphas, strict=True)):
        name = LEVELS[index] if index < len(LEVELS) else f"level{index + 1}"
        level: dict[str, Any] = {"name": name, "group": group, "alpha": alpha}
        if index:
            ratio = ratios[index - 1] if index <= len(ratios) else 1.0
            plain = int(ratio) if ratio == int(ratio) else ratio
            level["oversubscription"] = plain if len(groups) == 2 else {"uplinks": plain}  # of two levels both say the same
        levels.append(level)
    return levels


def _option(field: str, text: str) -> tuple[str, Any]:
    """``s=2/1.5``, ``eta=1.2/0.8`` or ``ports=4``."""
    key, _, value = (part.strip() for part in field.partition("="))
    numbers = [_number(one) for one in value.split("/")]
    known = {"s": None not in numbers, "eta": None not in numbers and len(numbers) == 2, "ports": bool(_WHOLE.fullmatch(value))}
    if not known.get(key):
        raise _refused(f"'{clipped(field)}' is not understood in '{clipped(text)}'", "s=2, eta=1.2/0.8 or ports=4 may follow")
    read: dict[str, Callable[[], Any]] = {
        "s": lambda: numbers,
        "eta": lambda: {"alpha": numbers[0], "beta": numbers[1]},
        "ports": lambda: int(value),
    }
    return key, read[key]()


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,6}(\.\d{1,6})?", text.strip()) else None


def _counts(text: str, between: str, wanted: str, tier: str) -> list[int]:
    parts = [part.strip() for part in text.split(between)]
    if not all(_WHOLE.fullmatch(part) for part in parts) or (wanted.endswith("such as 8") and len(parts) > 1):
        raise _refused(f"'{clipped(text)}' is no size in '{clipped(tier)}'", f"expected {wanted}")
    return [int(part) for part in parts]


def _read(parse: Callable[[str], float], value: str, tier: str) -> None:
    """Refuse a quantity here, where the tier can be named."""
    try:
        parse(value)
    except ColltoolError as error:
        raise _refused(f"{error.what}, in '{clipped(tier)}'", error.fix) from error
    if parse is parse_rate and not value[-1].isalpha():
        raise _refused(f"'{clipped(value)}' has no unit, in '{clipped(tier)}'", "write 450GB/s (bytes) or 400Gbps (bits)")


def _refused(what: str, fix: str) -> ColltoolError:
    return ColltoolError(what, argument="tiers", fix=fix or f"write {given('tiers', EXAMPLE)}")
