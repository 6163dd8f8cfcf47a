"""A kernel's times as a row of results: error, interval, and notes on what was not measured."""

from __future__ import annotations

from math import log, log2

from colltool.base.formatting import size_text
from colltool.engines.files import KernelFile, LibraryFile
from colltool.engines.formulas import FORMULAS, KernelTimes
from colltool.engines.intervals import kernel_interval, log_factors
from colltool.engines.lookup import WARNING
from colltool.engines.measured import MeasuredKernel
from colltool.engines.results import KernelEstimate
from colltool.engines.site import KernelSite
from colltool.estimate.interval import Interval

# the error of a kernel is doubled outside of what was measured
_ERROR_FACTOR = 2.0

# exponent of the factors of an interval, by another GPU's numbers whose error on that GPU is known
_LIKE_FACTOR = 1.3

# relative tolerance when sizes are compared
ROUNDING = 1 + 1e-9


def kernel_estimate(
    measured: MeasuredKernel,
    library: LibraryFile,
    site: KernelSite,
    sent: float,
    times: KernelTimes,
    unmeasured: list[str],
) -> KernelEstimate:
    """A kernel's times as a row of results, with its error and interval.

    Args:
        sent: bytes of the call.
        times: what the kernel's formula gives for it.
        unmeasured: notes on how the call differs from measured ones; empty if it does not.
    """
    kernel = measured.kernel
    # so begins what lookup says of a version that another one stands in for
    if library.said.startswith(WARNING):
        unmeasured = [*unmeasured, "measured in other versions"]
    # notes say that another GPU's numbers are used; like_error is how well they hold here
    other_machine = bool(measured.notes) and measured.like_error is None
    measured_here = not unmeasured and not other_machine
    error = _error(measured, site.ranks, measured_here)
    notes = [*measured.notes, *unmeasured]
    if kernel.said:
        notes.append(kernel.said)
    return KernelEstimate(
        library=library.full_name,
        kernel=kernel.name,
        operation=kernel.operation,
        ranks=site.ranks,
        bytes=sent,
        latency_s=times.latency_s,
        bandwidth_s=times.bandwidth_s,
        wire=site.wire,
        formula=FORMULAS[kernel.formula].words,
        error=error,
        error_of=kernel.error_of,
        measured=_measured_on(kernel),
        measured_here=measured_here,
        notes=tuple(notes),
        interval=_interval(measured, times.total_s, error, measured_here=measured_here),
        captured=kernel.captured,
    )


def _error(measured: MeasuredKernel, ranks: int, measured_here: bool) -> float | None:
    """The kernel's median relative error; None if it is not known.

    Where the call was not measured it is doubled, or times the ranks over the most measured if that is
    more, and at least ``error_beyond`` for each doubling of these ranks; but 1 at most. It is never less
    than the error of another GPU's numbers.
    """
    error = measured.kernel.error
    if error is None:
        return None
    if not measured_here:
        rank_ratio = ranks / measured.kernel.ranks[1]
        error *= max(_ERROR_FACTOR, rank_ratio)
        if rank_ratio > 1 and measured.kernel.error_beyond is not None:
            error = max(error, measured.kernel.error_beyond * log2(rank_ratio))
        error = min(1.0, error)
    return max(measured.like_error or 0.0, error)


def _interval(
    measured: MeasuredKernel, total_s: float, error: float | None, *, measured_here: bool
) -> Interval | None:
    """Where nine of ten measurements lie: by the kernel's own rows, or by its median error; None
    where neither is known."""
    kernel = measured.kernel
    if kernel.nine_in_ten is not None:
        # of logarithms a factor: an exponent of the file's own factors
        widened = 1.0
        if not measured_here:
            widened = _ERROR_FACTOR
        elif measured.like_error is not None:
            widened = _LIKE_FACTOR
        low, high = kernel.nine_in_ten
        ends = (log(low) * widened, log(high) * widened)
    elif error is not None:
        ends = log_factors(error)
    else:
        return None
    return kernel_interval(total_s, ends, kernel.error_of, measured_here=measured_here)


def within_measured(kernel: KernelFile, size: float) -> tuple[float, list[str]]:
    """Bytes at which to evaluate the formula: the least measured size for a smaller one, else ``size``;
    and notes on a size that was not measured, none where it was."""
    if kernel.sizes is not None:
        least, largest = kernel.sizes
        if size < least:
            return least, [f"below {size_text(least)} not measured: held there"]
        if size > largest * ROUNDING:
            return size, [f"above {size_text(largest)} not measured"]
    return size, []


def outside(ends: tuple[int, int] | None, number: int, preposition: str, noun: str) -> list[str]:
    """Return a note on a number that was not measured, such as ``measured on 8 ranks, not on 16``
    (``on`` is the preposition); none where it was.

    Args:
        ends: the least and the most measured; None for any.
    """
    if ends is None or ends[0] <= number <= ends[1]:
        return []
    return [f"measured {preposition} {span(*ends)} {noun}, not {preposition} {number}"]


def span(least: int, most: int) -> str:
    """``8``, or ``2 to 8``."""
    return f"{least}" if least == most else f"{least} to {most}"


def _measured_on(kernel: KernelFile) -> str:
    """GPUs, ranks, sizes and network that a kernel was measured on, as text."""
    words = [", ".join(kernel.gpus), f"{span(*kernel.ranks)} ranks"]
    if kernel.sizes:
        words.append(f"{size_text(kernel.sizes[0])} to {size_text(kernel.sizes[1])}")
    if kernel.tokens:
        words.append(f"{span(*kernel.tokens)} tokens")
    if kernel.sends:
        words.append(" or ".join(kernel.sends))
    if kernel.sms:
        words.append(f"{span(*kernel.sms)} SMs")
    if kernel.network:
        words.append(kernel.network)
    return ", ".join(words)
