"""A tier typed on a line, ``ib:clos:8/32:400Gbps:5us/11us:s=2``, as data of a fabric file:
:func:`tier_of_line`.

The fields are those of ``_FIELDS``, then options. In the helpers ``text`` is always the whole tier, for
errors; the values stay text with units, as a file has them, and are parsed only to check them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain, repeat, zip_longest
from typing import Any

from colltool.base.errors import ColltoolError, argument_text, clipped, nearest_and_all
from colltool.base.formatting import parse_rate, parse_time
from colltool.fabric.media import medium_of
from colltool.network.sizing.size_clos import level_names

EXAMPLE = "nvlink:star:8:450GB/s:0.8us,ib:clos:8/32:400Gbps:5us/11us"
# Default contention (α, β) of the topologies that a line can describe, which take no more than a
# size. Source: Collectives Explainer Series part 05 §4.1 and §4.2.
ETAS = {
    "star": (1.0, 0.8),
    "full_mesh": (1.0, 0.8),
    "torus": (1.2, 0.6),
    "mesh": (1.2, 0.6),
    "clos": (1.2, 0.8),
}

# What must be typed, as errors call it.
_FIELDS = ("NAME", "TOPOLOGY", "SIZE", "BANDWIDTH", "ALPHA")
_WHOLE = re.compile(r"\d{1,8}")  # 32
_RATIO = re.compile(r"\d{1,6}(\.\d{1,6})?")  # 1.5


def tier_of_line(text: str) -> dict[str, Any]:
    """Return one tier as data of a fabric file, whose own checks come later; :data:`EXAMPLE` is two such
    tiers with a comma between.

    Raises:
        ColltoolError: a field is missing or cannot be read, or fields contradict each other.
    """
    fields = [field.strip() for field in text.split(":")]
    # every field that must be there, and nothing empty among the options
    for expected, field in zip_longest(_FIELDS, fields, fillvalue=""):
        if not field:
            what = f"'{clipped(text)}' has no {expected or 'value behind a colon'}"
            example = EXAMPLE.split(",")[0]
            raise _line_error(what, f"a tier is {':'.join(_FIELDS)}, such as {example}")
    name, topology, size, rate, alpha = fields[: len(_FIELDS)]
    if topology not in ETAS:
        fix = nearest_and_all(topology, ETAS, "one of")
        raise _line_error(f"'{clipped(topology)}' is not a topology in '{clipped(text)}'", fix)
    _check_quantity(parse_rate, rate, text)
    options = dict(_option(field, text) for field in fields[len(_FIELDS) :])
    alphas = [part.strip() for part in alpha.split("/")]
    for part in alphas:
        _check_quantity(parse_time, part, text)
    # the keys in the order in which a file has them
    tier: dict[str, Any] = {"name": name, "topology": topology}
    medium = medium_of(None, name, parse_rate(rate), device=None)
    if medium is not None:
        tier["medium"] = medium.name
    # Endpoints under a switch of each level of a Clos, bottom up. A star and a full mesh have one such
    # group, of all endpoints; a lattice has a shape instead.
    groups: list[int] = []
    if topology in ("torus", "mesh"):
        tier["shape"] = _counts(size, "x", "a shape such as 8x8x4", text)
    elif topology == "clos":
        groups = _counts(size, "/", "8, or groups of levels 8/32", text)
    elif _WHOLE.fullmatch(size):
        groups = [int(size)]
    else:
        raise _size_error(size, "a whole number such as 8", text)
    if groups:
        tier["size"] = groups[-1]
    has_levels = topology == "clos" and (len(groups) > 1 or len(alphas) > 1)
    if not has_levels:
        if len(alphas) > 1:
            fix = "one, such as 0.8us; a clos with levels has one for each"
            raise _line_error(f"'{clipped(alpha)}' gives several alphas", fix)
        tier["alpha"] = alpha
    eta_alpha, eta_beta = ETAS[topology]
    # of levels; what is left of the options are keys of the tier, where eta replaces the default
    ratios = options.pop("s", [])
    tier |= {"bandwidth": rate, "eta": {"alpha": eta_alpha, "beta": eta_beta}, **options}
    if has_levels:
        tier["levels"] = _levels(groups, alphas, ratios, text)
    elif ratios:
        what = f"'{clipped(text)}' has no levels to be oversubscribed"
        raise _line_error(what, "a clos with groups: ib:clos:8/32:400Gbps:5us/11us:s=2")
    return tier


def _levels(
    groups: list[int], alphas: list[str], ratios: list[float], text: str
) -> list[dict[str, Any]]:
    """The levels of a Clos as data, bottom up.

    Args:
        groups: endpoints under a switch of each level.
        alphas: of each level, with their units.
        ratios: oversubscription of the levels above the first, 1 for those that it does not reach.
    """
    if len(groups) != len(alphas):
        what = f"'{clipped(text)}' has {len(groups)} groups and {len(alphas)} alphas"
        raise _line_error(what, "one alpha for each level, bottom up: 8/32 with 5us/11us")
    if len(ratios) > len(groups) - 1:
        what = (
            f"'{clipped(text)}' has {len(ratios)} ratios for {len(groups) - 1} boundaries of levels"
        )
        raise _line_error(what, "one for each level above the first: s=2, s=2/1.5")
    levels: list[dict[str, Any]] = []
    for name, group, alpha in zip(level_names(len(groups)), groups, alphas, strict=True):
        levels.append({"name": name, "group": group, "alpha": alpha})
    # levels above the typed ratios are not oversubscribed
    for level, ratio in zip(levels[1:], chain(ratios, repeat(1.0)), strict=False):
        level["oversubscription"] = uplink_ratio(ratio, len(levels))
    return levels


def uplink_ratio(ratio: float, levels: int) -> Any:
    """Return the downlinks of the switches below a level over their uplinks (``ratio``), as a file of so
    many ``levels`` writes it: 2, 1.5, or ``{uplinks: 2}``."""
    plain = int(ratio) if ratio.is_integer() else ratio
    # A plain number in a file is the product of all hops below. With one level above the leaves there is
    # one hop, and both forms mean the same.
    if levels == 2:
        return plain
    return {"uplinks": plain}


def _option(field: str, text: str) -> tuple[str, Any]:
    """The key and value of an option: of ``s=2/1.5`` ``("s", [2.0, 1.5])``, of ``eta=1.2/0.8`` a mapping, of
    ``ports=4`` an int."""
    key, _, value = (part.strip() for part in field.partition("="))
    if key == "ports" and _WHOLE.fullmatch(value):
        return key, int(value)
    parts = [part.strip() for part in value.split("/")]
    if all(map(_RATIO.fullmatch, parts)):
        numbers = list(map(float, parts))
        if key == "s":
            return key, numbers
        if key == "eta" and len(numbers) == 2:
            alpha, beta = numbers
            return key, {"alpha": alpha, "beta": beta}
    what = f"'{clipped(field)}' is not understood in '{clipped(text)}'"
    raise _line_error(what, "s=2, eta=1.2/0.8 or ports=4 may follow")


def _counts(text: str, separator: str, expected: str, tier: str) -> list[int]:
    """The whole numbers of a size, ``8/32`` or ``8x8x4``; ``expected``: words for it, in errors."""
    parts = [part.strip() for part in text.split(separator)]
    if not all(map(_WHOLE.fullmatch, parts)):
        raise _size_error(text, expected, tier)
    return list(map(int, parts))


def _size_error(text: str, expected: str, tier: str) -> ColltoolError:
    """The error for a size that cannot be read."""
    what = f"'{clipped(text)}' is not a size in '{clipped(tier)}'"
    return _line_error(what, f"expected {expected}")


def _check_quantity(parse: Callable[[str], float], value: str, tier: str) -> None:
    """Raise an error if a value of a tier cannot be parsed, or a rate has no unit."""
    try:
        parse(value)
    except ColltoolError as error:
        raise _line_error(f"{error.what}, in '{clipped(tier)}'", error.fix) from error
    if parse is parse_rate and not value[-1].isalpha():
        what = f"'{clipped(value)}' has no unit, in '{clipped(tier)}'"
        raise _line_error(what, "write 450GB/s (bytes) or 400Gbps (bits)")


def _line_error(what: str, fix: str) -> ColltoolError:
    """The error for a tier on a line; an empty ``fix`` is replaced by an example."""
    return ColltoolError(
        what, argument="tiers", fix=fix or f"write {argument_text('tiers', EXAMPLE)}"
    )
