"""The opening sentences of an answer: the result, its error, and what would change it."""

from __future__ import annotations

from collections.abc import Iterable

from colltool.analysis.basis import model_error
from colltool.base.formatting import format_rate, format_time, sentence, whole_percent
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.placement import tiers_spanned
from colltool.estimate.results import Price
from colltool.render import estimate_columns as r


def answer(best: r.Ranked) -> str:
    price, row = best
    said = f"{r.named(price, row)}: {format_time(float(row.total_s))}, busbw {format_rate(float(row.busbw_Bps))}"
    return " ".join(filter(None, (f"{said}. {sentence(r.heading(price))}.", _error(best), _turns(row))))


def error_of(row: AlgorithmEstimate, price: Price) -> float | None:
    """The median error of such a price, as a share; None for an ideal one."""
    if price.mode == "ideal":
        return None
    several = tiers_spanned(price.group.per_domain) > 1
    return model_error(float(price.bytes), measured=bool(row.protocol), several_tiers=several)


def _error(best: r.Ranked) -> str:
    price, row = best
    error = error_of(row, price)
    if error is None or not row.selectable:
        return ""
    close = [one for one in price.leading if one is not row and float(one.total_s) <= float(row.total_s) * (1 + error)]
    off = off_by([error])
    if not close:
        return f"{off}; the runner-up is further behind." if len(price.leading) > 1 else f"{off}."
    names = [r.named(price, one) for one in close]
    who = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    return f"{off}; {who} may be as fast."


_TURNS = {
    "latency": "is latency: more bandwidth gains little.",
    "bandwidth": "is transfer time: it grows with the size and falls with bandwidth.",
    "overhead": "is launch overhead: fewer and larger calls gain most.",
    "software": "is the library's own overhead: a faster network gains little.",
}


def _turns(row: AlgorithmEstimate) -> str:
    seconds = {"latency": row.alpha_s, "bandwidth": row.bandwidth_s, "overhead": row.overhead_s, "software": row.software_s}
    return f"{whole_percent(float(seconds[row.bound] / row.total_s))} {_TURNS[row.bound]}"


def off_by(errors: Iterable[float]) -> str:
    """The median error of prices or the range of several, without a full stop."""
    low, high = (whole_percent(end(errors)) for end in (min, max))
    return f"Median error of such prices: {low if low == high else f'{low[:-1]} to {high}'}"
