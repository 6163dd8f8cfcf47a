"""How an engine's host launches its kernels: in a CUDA graph, or each call by itself (eager)."""

from __future__ import annotations

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.formatting import format_time
from colltool.engines.files import LaunchFile, LibraryFile, Mode
from colltool.engines.intervals import kernel_interval, log_factors
from colltool.engines.results import KernelEstimate
from colltool.engines.site import KernelSite

# a call that takes so many times the host's launch hides all of it
_LAUNCH_HIDDEN = 3.0


def launch_mode(library: LibraryFile, mode: Mode | None) -> Mode | None:
    """How a library's calls are launched: an engine's in a CUDA graph unless a mode is named; None for
    a library that is no engine, which others launch.

    Raises:
        ColltoolError: a mode of a library that is no engine.
    """
    if library.leaves_rest:
        return mode or "graph"
    if mode is not None:
        raise ColltoolError(
            f"{library.full_name} is no engine, which says how its calls are launched",
            argument="mode",
            fix=f"leave {argument_text('mode')} out",
        )
    return None


def host_launch(library: LibraryFile, site: KernelSite, kernel: str) -> LaunchFile:
    """What the library's host takes for a call of a kernel without CUDA graphs.

    The GPU's own numbers come before those of GPUs that stand in for it, and of these the first in
    the file's order.

    Raises:
        ColltoolError: it was not measured on these GPUs.
    """
    within = "host" if site.hosts == 1 else "domain"
    for gpu in library.likes(site.gpu):
        for launch in library.launch:
            of_kernel = launch.kernels is None or kernel in launch.kernels
            if gpu in launch.gpus and launch.within == within and of_kernel:
                return launch
    where = site.gpu if site.hosts == 1 else f"{site.hosts} hosts of {site.gpu}"
    raise ColltoolError(
        f"{library.full_name} was measured in CUDA graphs alone on {where}",
        argument="mode",
        fix="take graph, which is the default",
    )


def with_host_launch(row: KernelEstimate, launch: LaunchFile) -> KernelEstimate:
    """The price of a kernel as a call that the host launches: at least the host's time, and with the
    copy before the kernel.

    Up to a few times the host's time the launch is hidden in part, so that its error counts as well:
    the larger of both. Where the host's time is all of it, its error alone counts.
    """
    least_s = launch.us * 1e-6
    copy_s = launch.copy_s(row.bytes)
    error = row.error
    if error is None or row.total_s < _LAUNCH_HIDDEN * least_s:
        error = max(launch.error, error or 0.0)
    elif not copy_s:
        return row
    total_s = launch.total_s(row.total_s, row.bytes)
    bandwidth_s = min(row.bandwidth_s + copy_s, total_s)
    notes = row.notes
    if total_s == least_s:
        notes = (*notes, f"the host takes {format_time(least_s)} to launch it")
        error = launch.error
    elif copy_s:
        notes = (*notes, f"{format_time(copy_s)} of it copy the vector into the engine's buffer")
    return row._replace(
        latency_s=total_s - bandwidth_s,
        bandwidth_s=bandwidth_s,
        error=error,
        error_of=launch.error_of,
        interval=kernel_interval(
            total_s, log_factors(error), launch.error_of, measured_here=row.measured_here
        ),
        notes=notes,
    )
