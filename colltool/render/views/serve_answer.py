"""The answer of ``serve`` in sentences: whether the deployment fits, its tokens/s, what a token's time
goes to, and what would gain most.

:func:`serve_answer` is the headline; its sentences stand below it in its order. Decode makes a token
a step, prefill reads a prompt. Without a known device there are no tokens/s, only the network's time.

Of a phase, ``network_s`` is the network's time of a step, ``floor_s`` the least of memory or compute, ``limit_s``
the least of both together; of decode, ``kernels_s`` and ``estimate_s`` are what to expect. All but the network's are
None where the device is not known; ``or 0.0`` below stands where it is known, for the type checker. ``fits`` is None
where the memory is not known.
"""

from __future__ import annotations

from colltool.base.errors import argument_text, either, localize
from colltool.base.formatting import format_bytes, format_time, whole_percent
from colltool.estimate.interval import Interval
from colltool.render.dispatch import fabric_of
from colltool.render.intervals import reasoned_interval
from colltool.render.views.kernels import warnings_first
from colltool.serving.results import Served, ServedChange, ServedPhase

_NO_LIBRARY = "all"
"""The engine of a result where neither the fabric nor the user named a library."""

STEP_NOUN = {
    "decode": "token",
    "prefill": "prefill",
}
"""What a step of a phase makes."""

_LARGER_THAN_FP8 = 1.5  # bytes of a weight: formats with more than that shrink under fp8


def serve_answer(result: Served) -> str:
    """The headline of a deployment."""
    sentences = warnings_first(result.notes)
    if result.fits is False:
        sentences.append(_misfit(result))
    decode = result.decode
    if result.tokens_per_s is None or result.time_per_token_s is None:
        sentences += _network_alone(result)
    else:
        sentences.append(_tokens(result))
        sentences.append(_parts(decode))
    if result.overlapped:
        sentences.append(_two_batches(result))
    if result.tpot_s is not None and decode.network_s:
        sentences.append(_share_of_given_time(result, result.tpot_s))
    if result.fits:
        sentences.append(f"It fits: {_memory(result)}{_room_for(result)}.")
    # the largest gain stands first
    best = result.changes[0] if result.changes else None
    if best is not None and best.gain > 1 and result.fits is not False:
        sentences.append(f"Most would be gained by {change_text(best)}.")
    return " ".join(sentences)


def _tokens(result: Served) -> str:
    """``About 3,580 tokens/s (2,900 to 4,300: ...; at most 7,400), with 17.9 ms per token (TPOT) and at
    least 290 ms per prefill (part of TTFT): llama3-70b on ...``, where the device is known."""
    about = "About"
    if result.fits is False:
        about = "If it did: about"
    tokens = tokens_text(result.estimated_tokens_per_s or 0.0)
    batch = result.deployment.batch
    # the smallest that fills the layout is the default, which few mean
    if batch == result.deployment.dp * result.deployment.pp:
        tokens += f" at batch {batch}"
    limits = f"at most {_rate_text(result.tokens_per_s or 0.0)}"
    interval = result.decode.estimate_interval
    if interval is not None:
        # the longest step serves the fewest tokens
        least = _rate_text(batch / interval.high_s)
        most = _rate_text(batch / interval.low_s)
        limits = f"{least} to {most}: {interval.reason}; {limits}"
    token = format_time(result.estimated_time_per_token_s or 0.0)
    prefill = format_time(result.prefill.limit_s or 0.0)
    return (
        f"{about} {tokens} ({limits}),"
        f" with {token} per token (TPOT)"
        f" and at least {prefill} per prefill (part of TTFT):"
        f" {_question(result)}."
    )


def _parts(decode: ServedPhase) -> str:
    """What a token's time goes to: ``Kernels take 12.18 ms of it (memory alone at least 6.137 ms),
    the network 17%: 2.4 ms.``, where the device is known."""
    kernels = format_time(decode.kernels_s or 0.0)
    least = format_time(decode.floor_s or 0.0)
    limit = "compute" if decode.floor_by == "FLOPs" else "memory"
    text = f"Kernels take {kernels} of it ({limit} alone at least {least})"
    if not decode.network_s:
        return f"{text}; nothing is sent."
    network = _network_text(decode)
    # two-batch overlap
    if decode.beside:
        hidden = format_time(decode.hidden_s)
        return f"{text}, the network {network}, {hidden} of that while kernels run."
    share = whole_percent(decode.network_s / (decode.estimate_s or 1.0))
    return f"{text}, the network {share}: {network}."


def _two_batches(result: Served) -> str:
    """What two-batch overlap gains or loses: ``Two-batch overlap loses 8% per token (58.7 ms without
    it) and gains 12% per prefill (...).``"""
    texts = []
    for phase, without in result.overlapped:
        change = phase.least_known_s / without.least_known_s - 1
        verb = "gains"
        if change > 0:
            verb = "loses"
        share = whole_percent(abs(change))
        time = format_time(without.least_known_s)
        texts.append(f"{verb} {share} per {STEP_NOUN[phase.name]} ({time} without it)")
    changes = " and ".join(texts)
    return f"Two-batch overlap {changes}."


def _network_alone(result: Served) -> list[str]:
    """The network's times where the device is not known, and what to add."""
    decode = result.decode
    device = localize(either(shell="--set device=h100", python='overrides=["device=h100"]'))
    unknown = (
        f"Tokens/s are not given: {result.fabric} names no device whose memory and FLOPs are known;"
        f" add {device}."
    )
    question = _question(result)
    if not decode.network_s:
        return [f"Nothing is sent: {question} needs one rank.", unknown]
    token = _network_text(decode)
    prefill = format_time(result.prefill.network_s)
    return [
        f"Network time: {token} per token and {prefill} per prefill: {question}.",
        unknown,
    ]


def _share_of_given_time(result: Served, tpot_s: float) -> str:
    """Say what share the network is of the time per token that the user gave, or that this time is below
    the lower limit."""
    least_s = result.time_per_token_s
    tpot = format_time(tpot_s)
    if least_s is not None and tpot_s < least_s:
        limit = f"its lower limit, {format_time(least_s)}"
        return f"The {tpot} per token that were given are below {limit}."
    share = whole_percent(result.share or 0.0)
    return f"The network is {share} of {tpot} per token."


def _memory(result: Served) -> str:
    """``61.2 GB of 80 GB per rank``, where the device is known."""
    needed = format_bytes(result.memory_bytes)
    capacity = format_bytes(result.capacity_bytes or 0)
    return f"{needed} of {capacity} per rank"


def _room_for(result: Served) -> str:
    """The largest batch that fits, where it is larger than the one asked about."""
    if result.most_batch is None or result.most_batch <= result.deployment.batch:
        return ""
    return f", up to batch {result.most_batch:,}"


def _misfit(result: Served) -> str:
    """Say how much memory it needs and there is, and what would fit."""
    fix = "more ranks"
    # None where it is not known; 0 where not even one sequence fits
    if result.most_batch:
        fix += f", batch {result.most_batch:,} or less"
    if result.weights.dense > _LARGER_THAN_FP8:
        fix += localize(f" or {argument_text('weights', 'fp8')}")
    return f"It does not fit: it needs {_memory(result)}; take {fix}."


def change_text(change: ServedChange) -> str:
    """``batch 128: 11,010 tokens/s (+47%) at 11.6 ms per token``."""
    tokens_per_s = change.estimated_tokens_per_s
    token_s = change.estimated_time_per_token_s
    if tokens_per_s is None or token_s is None:
        network = format_time(change.network_s)
        return f"{change.change}: {network} of network time per token ({change.factor:.3g} times)"
    sign = "+" if change.gain >= 1 else "-"
    gain = whole_percent(abs(change.gain - 1))
    tokens = tokens_text(tokens_per_s)
    token = format_time(token_s)
    return f"{change.change}: {tokens} ({sign}{gain}) at {token} per token"


def _question(result: Served) -> str:
    """What was asked: the model and its deployment."""
    return f"{result.job} on {deployment_in_words(result)}"


def deployment_in_words(result: Served) -> str:
    """``hgx-h200, tp 8, batch 64, 4096 in, 1024 out, vllm@0.24.0, weights: bf16``."""
    deployment = result.deployment
    parts = [
        fabric_of(result),
        deployment.label,
        f"batch {deployment.batch}, {deployment.input} in, {deployment.output} out",
    ]
    if result.engine != _NO_LIBRARY:
        parts.append(result.engine)
    parts.append(result.weights.label)
    if result.mode == "eager":
        parts.append(result.mode)
    return ", ".join(parts)


def _network_text(phase: ServedPhase) -> str:
    """``2.428 ms (-13% to +15%: the kernel's own rows)``; 0 has no interval."""
    interval = phase.network_interval if phase.network_s else None
    return time_text(phase.network_s, interval)


def time_text(seconds: float, interval: Interval | None) -> str:
    """A time, and its interval with the reason where it has one."""
    time = format_time(seconds)
    if interval is None:
        return time
    return f"{time} ({reasoned_interval(interval, seconds)})"


def tokens_text(tokens_per_s: float) -> str:
    """``3,580 tokens/s``."""
    return f"{_rate_text(tokens_per_s)} tokens/s"


def _rate_text(tokens_per_s: float) -> str:
    """``3,580``, or three digits below 100."""
    if tokens_per_s >= 100:
        return f"{tokens_per_s:,.0f}"
    return f"{tokens_per_s:.3g}"
