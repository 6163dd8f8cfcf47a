"""Whether a table can be of the collective that the caller states: busbw/algbw tells, where the log names none."""

from __future__ import annotations

from collections.abc import Sequence

from colltool.base.errors import ColltoolError, either
from colltool.base.primitives import Primitive, busbw_factor
from colltool.measurements.rank_count import Ratio, evidence

_SHARP = 0.02  # digits are enough to tell one collective from another: busbw/algbw is known within this share
_SLACK = 0.005  # of busbw/algbw, beyond the rounding of the printed digits
_MANY = 10**7


def check_collective(stated: Primitive, ratios: Sequence[Ratio], ranks: int | None) -> None:
    """Refuse a collective whose busbw/algbw cannot be the table's, where another one's is.

    Raises:
        ColltoolError: no row fits ``stated``, and most fit another.
    """
    sharp = [one for one in ratios if one.high - one.low <= _SHARP * one.high]
    for count in dict.fromkeys((ranks, None)):  # --ranks may be as wrong as --collective
        if not sharp or any(_fits(stated, one, count) for one in sharp):
            return
        for other in Primitive:
            fitting = [one for one in sharp if _fits(other, one, count)]
            if 2 * len(fitting) > len(sharp):
                raise _refusal(stated, min(fitting, key=lambda one: one.high - one.low), count)


def _fits(primitive: Primitive, one: Ratio, ranks: int | None) -> bool:
    """Whether that many ranks, or any number, would print these digits."""
    least, most = (busbw_factor(primitive, count) for count in ((ranks, ranks) if ranks else (2, _MANY)))
    return one.low * (1 - _SLACK) <= most and one.high * (1 + _SLACK) >= least


def _refusal(stated: Primitive, one: Ratio, ranks: int | None) -> ColltoolError:
    others = [other for other in Primitive if _fits(other, one, ranks)]
    counts = {found.spoken for other in others for found in evidence(other, [one])}
    on = f" on {ranks} ranks" if ranks else f" on {counts.pop()} ranks" if len(counts) == 1 else ""
    spoken = " or ".join(other.spoken for other in others)
    what = f"busbw/algbw is {(one.low + one.high) / 2:.3g}: that is {spoken}{on}, not {stated.spoken}"
    names = " or ".join(f'"{other}"' for other in others)
    fix = either(shell=f"--collective {' or '.join(others)}", python=f"primitive={names}")
    return ColltoolError(what, where=one.where, fix=fix)
