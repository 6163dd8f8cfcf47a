"""The answer of ``price`` and ``breakdown`` at one size, in sentences: :func:`price_answer`.

It names a row (an algorithm's price) with its interval, the row to compare it with, what its time
consists of, what would shorten it, and what was asked. The helpers stand below it in this order; each returns a
sentence without its full stop, or an empty text where there is nothing to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from colltool.base.formatting import (
    format_factor,
    format_rate,
    format_time,
    sentence,
    whole_percent,
)
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.results import Gain, Price
from colltool.libraries.nccl.names import ALGORITHM_NAMES, algorithms_of
from colltool.render import estimates
from colltool.render.blocks import names_by_text
from colltool.render.intervals import interval_and_reason, may_be_as_fast

_MOST_GAINS = 2  # that the answer names
_FELT_GAIN = 0.01  # share of the total below which nobody notices a gain
_LITTLE = 0.3  # a part of the time below this share is not worth shortening
_MOST_SIZES = 4  # that a sentence lists


def price_answer(
    price: Price,
    row: AlgorithmEstimate,
    gains: Sequence[Gain] = (),
) -> str:
    """The verdict on a row of a price at one size.

    ``gains``: what changes of the fabric would save, the largest first; not said without any.
    """
    library = estimates.library_label(price)
    total_s = estimates.seconds(row)
    is_best = row is price.best
    name = row.name
    if price.shows_pick and is_best:
        name += f" ({library}'s pick)"
    time = format_time(total_s)
    interval = interval_and_reason(row)
    if interval:
        time += f" ({interval})"
    busbw = format_rate(float(row.busbw_Bps))
    sentences = [f"{name}: {time}, busbw {busbw}"]
    if price.as_filed_s is not None and is_best:
        sentences.append(_change_of_values(price.as_filed_s, total_s))
    sentences.append(_rival_text(price, row))
    sentences.append(_largest_part(price, row))
    sentences.append(_largest_gains(gains, total_s))
    if gains and _is_fixed_latency(row, gains):
        software = library or "the library"
        sentences.append(
            f"Latency is mostly {software}'s own time per step, which no link shortens"
        )
    for inert in price.inert:
        reason = inert.reason.replace(row.title, row.name)
        sentences.append(f"{inert.key} does not change this time: {reason}")
    sentences.append(sentence(estimates.heading(price)))
    return f"{'. '.join(filter(None, sentences))}."


def _change_of_values(as_filed_s: float, total_s: float) -> str:
    """``That is 1.52x faster than with the file's own values, 5.945 ms``; empty for equal times."""
    factor = format_factor(max(as_filed_s / total_s, total_s / as_filed_s))
    if factor == "1x":
        return ""
    word = "faster" if total_s < as_filed_s else "slower"
    time = format_time(as_filed_s)
    return f"That is {factor} {word} than with the file's own values, {time}"


# --- the row to compare with


def _rival_text(price: Price, row: AlgorithmEstimate) -> str:
    """Say of the fastest other row that may lead that it would be faster and how to run it, else that it comes
    next and whether it is too close to call. Empty where there is no other."""
    rivals = [rival for rival in price.leading if rival is not row]
    if not rivals:
        return ""
    rivals.sort(key=estimates.seconds)
    rival = rivals[0]
    row_s = estimates.seconds(row)
    rival_s = estimates.seconds(rival)
    change = estimates.change_text(rival_s / row_s - 1)
    time = f"{format_time(rival_s)} ({change})"
    saved = 1 - rival_s / row_s
    error = price.accuracy.median if price.accuracy else 0.0
    # a rival is faster only where the row is the library's pick, which need not be the fastest
    if saved > error and not may_be_as_fast(row, rival):
        name = rival.name
        if rival.status == "own":
            name = f"Your own {name}"
        how = _how_to_run(price, rival)
        return f"{name} would be faster, {time}{how}"
    text = f"Next: {rival.name}, {time}"
    if saved > 0:
        text = f"{rival.name} might be faster, {time}"
    close = sum(estimates.seconds(other) <= row_s * (1 + error) for other in rivals)
    # without an interval the price is exact: no contention, no error
    if not close or not row.interval:
        return text
    if close > 1:
        return f"{text}; too close to call, as are {close - 1} more"
    return f"{text}, too close to call"


def _how_to_run(price: Price, rival: AlgorithmEstimate) -> str:
    """What to set to run an algorithm of the library's, or what the price of one's own leaves out, to follow the
    rival's time; empty where the library's pick is not known."""
    if rival.status == "own":
        if rival.protocol:
            return ""
        return " before any library overhead"
    if price.shows_pick:
        return f": set NCCL_ALGO={_nccl_algo(price, rival)}"
    return ""


def _nccl_algo(price: Price, row: AlgorithmEstimate) -> str:
    """What NCCL_ALGO calls a row."""
    if row.library_name:
        return row.library_name
    # a row may have no name of the library's on this network and still be one of its algorithms: a
    # tree over ranks that form no nodes
    known = sorted(algorithms_of(row.spec, price.primitive))
    if not known:
        return row.name
    return ALGORITHM_NAMES[known[0]]


# --- what the time consists of, and what would shorten it


def _largest_part(price: Price, row: AlgorithmEstimate) -> str:
    """The largest part of the time, and what would shorten it or not: ``Bandwidth-bound (95% of the
    time)``, ``Half of the time is latency and 31% transfer``."""
    library = estimates.library_label(price) or "library"
    # by the words of `row.bound`, which names the largest
    parts = {
        "latency": (float(row.steps_s), "latency"),
        "bandwidth": (float(row.moved_s), "transfer"),
        "overhead": (float(row.overhead_s), "launch overhead"),
        "software": (float(row.rest_s), f"{library} overhead"),
    }
    total_s = estimates.seconds(row)
    largest_s, name = parts.pop(row.bound)
    share = whole_percent(largest_s / total_s)
    if share == "50%":
        share = "half"
    text = sentence(f"{share} of the time is {name}")
    if row.bound == "overhead":
        return f"{text}; fewer and larger calls would help most"
    if row.bound == "software" and float(row.moved_s) < _LITTLE * total_s:
        return f"{text}; a faster network would barely help"
    if 2 * largest_s < total_s:
        second_s, second = max(parts.values())
        second_share = whole_percent(second_s / total_s)
        return f"{text} and {second_share} {second}"
    if row.bound == "bandwidth":
        return f"Bandwidth-bound ({share} of the time)"
    if row.bound == "latency":
        return f"Latency-bound ({share} of the time); more bandwidth would barely help"
    return text


def _largest_gains(gains: Sequence[Gain], total_s: float) -> str:
    """``Twice the bandwidth of ib would save 34%, half the latency of nvlink 3%``. Empty where
    nothing saves a percent."""
    texts: list[str] = []
    for gain in gains[:_MOST_GAINS]:
        saved = 1 - gain.total_s / total_s
        if saved >= _FELT_GAIN:
            # the verb once: half the latency of nvlink 3%
            verb = "" if texts else " would save"
            share = whole_percent(saved)
            texts.append(f"{gain_words(gain)}{verb} {share}")
    return sentence(", ".join(texts))


def gain_words(gain: Gain) -> str:
    """``twice the bandwidth of ib``."""
    match gain.kind:
        case "bandwidth":
            return f"twice the bandwidth of {gain.tier}"
        case "alpha":
            return f"half the latency of {gain.tier}"
        case "launch_overhead":
            return "half the launch overhead"
        case _:
            assert_never(gain.kind)


def _is_fixed_latency(row: AlgorithmEstimate, gains: Sequence[Gain]) -> bool:
    """Whether much of a time is latency, of which halving all that the file states saves little."""
    total_s = estimates.seconds(row)
    latency_s = float(row.steps_s)
    if latency_s <= _LITTLE * total_s:
        return False
    # Halving all of 100 us of latency would save 50 us. If halving every tier's alpha saves only 10 us, 40 us of
    # the 50 are not the file's: more than 0.7 of them.
    half_s = latency_s / 2
    saved_s = sum(total_s - gain.total_s for gain in gains if gain.kind == "alpha")
    return half_s - saved_s > (1 - _LITTLE) * half_s


# --- several sizes


def names_at_sizes(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """``Tree at 1MB, 4MB`` for each name, of (name, size) pairs in order."""
    return [f"{name} at {_sizes_text(sizes)}" for name, sizes in names_by_text(pairs).items()]


def _sizes_text(sizes: Sequence[str]) -> str:
    """``1KB, 4KB``; of many ``1KB to 1GB (12 sizes)``."""
    if len(sizes) > _MOST_SIZES:
        return f"{sizes[0]} to {sizes[-1]} ({len(sizes)} sizes)"
    return ", ".join(sizes)
