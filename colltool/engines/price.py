"""Prices of calls by a library's measured kernels, and the kernel that the library picks.

:func:`price_kernels` finds the kernels measured on the machine (:func:`measured_kernels`), evaluates
their formulas and puts the library's choice first: by its dispatch table, or the fastest. Calls of
experts are in :mod:`colltool.engines.experts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2
from typing import NamedTuple

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.formatting import format_time, size_text
from colltool.base.primitives import AR
from colltool.engines.files import (
    EITHER,
    EXPERTS,
    NCCL,
    WARNING,
    KernelFile,
    LaunchFile,
    LibraryFile,
    Mode,
    ReducedType,
)
from colltool.engines.formulas import FORMULAS, KernelCall, KernelTimes
from colltool.engines.intervals import kernel_interval, rows_interval
from colltool.engines.results import KernelChoice, KernelEstimate, KernelPrice
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import PlacedGroup, place
from colltool.estimate.interval import Interval
from colltool.estimate.placement import AnyGroup
from colltool.estimate.price import price as price_of
from colltool.estimate.user_price import price_for_user
from colltool.fabric.library_numbers import under_library
from colltool.fabric.media import PER_HOST
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import check_even

# the error of a kernel is doubled outside of what was measured
_ERROR_FACTOR = 2.0
# intervals of another GPU's numbers whose error on that GPU is known
_LIKE_FACTOR = 1.3

# calls of so many times the host's launch hide it
_LAUNCH_HIDDEN = 3.0

# a table's last row has no end if it is above any message
_NO_END = 2.0**40

# relative tolerance when sizes are compared
_ROUNDING = 1 + 1e-9

# the type that engines were measured with
USUAL_TYPE: ReducedType = "bf16"

OWN_FILE = "a file of your own: colltool library init"


class KernelSite(NamedTuple):
    """The part of a group's placement that kernels depend on.

    Args:
        gpu: the fabric's device.
        nodes: memory domains that the group spans.
        hosts: hosts that it spans; several trays of a rack are one domain.
        nic_Bps: bandwidth of a rank on the outermost tier, in bytes/s.
        wire: the name of that tier.
    """

    fabric: Fabric
    placed: PlacedGroup
    gpu: str
    nodes: int
    hosts: int
    nic_Bps: float
    wire: str

    @property
    def ranks(self) -> int:
        return self.placed.ranks


def kernel_site(fabric: Fabric, group: AnyGroup) -> KernelSite:
    """Return the site of a group on a fabric.

    Raises:
        ColltoolError: the fabric has no ``device``.
    """
    check_even(fabric)
    if fabric.device is None:
        what = f"{fabric.name} does not say which GPU it joins, and kernels were measured on GPUs"
        raise ColltoolError(what, argument="fabric", fix="write device: h100 into it")
    placed = place(fabric, group)
    inner = placed.spans[0]
    outer = placed.spans[-1].tier
    # A node is the innermost tier, where that joins accelerators; a fabric of NICs has nodes of one.
    node_ranks = 1
    if capabilities_of(inner.tier).joins == "accelerators":
        if len(fabric.tiers) == 1:
            node_ranks = placed.ranks
        elif inner.tier is not fabric.tiers[-1]:
            node_ranks = inner.endpoints
    nodes = placed.ranks // node_ranks
    hosts = nodes
    if fabric.device in PER_HOST:
        on_each = max(1, PER_HOST[fabric.device] // placed.placement.stride)
        hosts = max(nodes, ceil(placed.ranks / on_each))
    return KernelSite(
        fabric=fabric,
        placed=placed,
        gpu=fabric.device,
        nodes=nodes,
        hosts=hosts,
        nic_Bps=capabilities_of(outer).rate_Bps,
        wire=outer.name,
    )


class MeasuredKernel(NamedTuple):
    """A kernel of a library, with numbers for a machine.

    Args:
        notes: how the machine differs from the measured one.
        like_error: relative error of another GPU's numbers; None if the GPU itself was measured, or
            the error is unknown.
    """

    kernel: KernelFile
    notes: tuple[str, ...] = ()
    like_error: float | None = None


def measured_kernels(
    library: LibraryFile,
    operation: str,
    site: KernelSite,
    rules: Sequence[DispatchRule] = (),
    of: Sequence[KernelFile] | None = None,
) -> tuple[MeasuredKernel, ...]:
    """Return the library's kernels for an operation on a GPU, within a host, a node or across.

    Of several with one name it is the one of this GPU, or of the nearest that stands in for it, and
    there the one of the nearest number of ranks. Those that the library's table has, but not in the
    ``rules`` for this machine, are left out.

    Args:
        of: some of the library's kernels; None for all.

    Raises:
        ColltoolError: it has none, or none was measured there.
    """
    kernels = library.kernels if of is None else of
    candidates = [kernel for kernel in kernels if kernel.operation == operation]
    if not candidates:
        what = f"{library.full_name} has no kernel for {operation.replace('_', '-')}"
        fix = f"it has {', '.join(library.operations)}"
        raise ColltoolError(what, argument="library", fix=fix)
    gpus = library.likes(site.gpu)
    on_gpu = [kernel for kernel in candidates if not set(gpus).isdisjoint(kernel.gpus)]
    if not on_gpu:
        raise _other_gpus(library, candidates, site.gpu)
    reaching = [kernel for kernel in on_gpu if _reaches(kernel, site)]
    if not reaching:
        raise _not_reached(library, on_gpu, site)
    elsewhere = _taken_elsewhere(library, rules)
    reaching = [kernel for kernel in reaching if kernel.name not in elsewhere] or reaching
    found = []
    for name in dict.fromkeys(kernel.name for kernel in reaching):
        own = [kernel for kernel in reaching if kernel.name == name]
        found.append(_nearest(library, own, site, gpus))
    return tuple(found)


def _taken_elsewhere(library: LibraryFile, rules: Sequence[DispatchRule]) -> set[str]:
    """Kernels that the library takes on other ranks or GPUs alone, by its table."""
    elsewhere: set[str] = set()
    if rules:
        for kernel in {case.kernel for case in library.dispatch}:
            elsewhere.update(kernel.split(EITHER))
        for kernel in {rule.kernel for rule in rules}:
            elsewhere.difference_update(kernel.split(EITHER))
    return elsewhere


def _reaches(kernel: KernelFile, site: KernelSite) -> bool:
    """Whether a kernel runs on all ranks of a group: on one host, in one domain, or across nodes."""
    if kernel.across or site.nodes > 1:
        return kernel.across and site.nodes > 1
    return site.hosts == 1 or kernel.within == "domain"


def _nearest(
    library: LibraryFile,
    kernels: list[KernelFile],
    site: KernelSite,
    gpus: tuple[str, ...],
) -> MeasuredKernel:
    """The numbers of one kernel that are nearest to a machine."""

    def distance(kernel: KernelFile) -> tuple[int, int]:
        gpu = min(gpus.index(name) for name in kernel.gpus if name in gpus)
        fewest, most = kernel.ranks
        return gpu, max(fewest - site.ranks, site.ranks - most, 0)

    kernel = min(kernels, key=distance)
    if site.gpu in kernel.gpus:
        return MeasuredKernel(kernel)
    gpu = gpus[distance(kernel)[0]]
    note = f"{site.gpu} was not measured: the numbers of {gpu} are used"
    return MeasuredKernel(kernel, (note,), library.like_error.get(site.gpu))


def _not_reached(
    library: LibraryFile, kernels: list[KernelFile], site: KernelSite
) -> ColltoolError:
    """Why none of the kernels runs on a group."""
    gpus: dict[str, None] = {}
    for kernel in kernels:
        gpus |= dict.fromkeys(kernel.gpus)
    if site.nodes == 1 and any(not kernel.across for kernel in kernels):
        what = (
            f"{library.full_name}'s kernels stay within a host of {PER_HOST[site.gpu]}, and these"
            f" {site.ranks} ranks are on {site.hosts}"
        )
    else:
        measured = "within one node" if site.nodes > 1 else "across nodes"
        nodes = "1 node" if site.nodes == 1 else f"{site.nodes} nodes"
        what = (
            f"{library.full_name} was measured only {measured} of {', '.join(gpus)}, and these {site.ranks}"
            f" ranks are on {nodes}"
        )
    fix = "take another number of ranks, or another library"
    if kernels[0].operation in EXPERTS:
        fix += f"; without {argument_text('library')} every measured one is priced"
    return ColltoolError(what, argument="library", fix=fix)


def _other_gpus(library: LibraryFile, kernels: list[KernelFile], gpu: str) -> ColltoolError:
    measured: set[str] = set()
    for kernel in kernels:
        measured.update(kernel.gpus)
    return ColltoolError(
        f"no kernel of {library.full_name} was measured on {gpu}",
        argument="library",
        fix=f"measured on: {', '.join(sorted(measured))}; {OWN_FILE}",
    )


def _estimates(
    library: LibraryFile,
    operation: str,
    site: KernelSite,
    size: float,
    rules: Sequence[DispatchRule] = (),
) -> list[KernelEstimate]:
    """An estimate by each kernel that was measured on the machine."""
    return [
        _estimate(measured, library, site, size)
        for measured in measured_kernels(library, operation, site, rules)
    ]


def _estimate(
    measured: MeasuredKernel, library: LibraryFile, site: KernelSite, size: float
) -> KernelEstimate:
    """A kernel's time for ``size`` bytes.

    Below the smallest measured size its time is used. Above the largest, on other rank counts, and
    on another GPU whose error is unknown, the formula is extrapolated and its error doubled.
    """
    kernel = measured.kernel
    formula = FORMULAS[kernel.formula]
    evaluated_bytes, unmeasured = _within_measured(kernel, size)
    unmeasured += other_ranks(kernel, site.ranks)
    times = formula.of(
        kernel.parameters, KernelCall(site.ranks, evaluated_bytes, nic_Bps=site.nic_Bps)
    )
    return kernel_estimate(measured, library, site, size, times, unmeasured)


def kernel_estimate(
    measured: MeasuredKernel,
    library: LibraryFile,
    site: KernelSite,
    sent: float,
    times: KernelTimes,
    unmeasured: list[str],
) -> KernelEstimate:
    """A kernel's times as a result, with the interval of its rows.

    Args:
        sent: bytes.
        unmeasured: notes on how the call differs from measured ones.
    """
    kernel = measured.kernel
    if library.said.startswith(WARNING):
        unmeasured = [*unmeasured, "measured in other versions"]
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
    """The kernel's error, doubled off what was measured, and more beyond twice its ranks."""
    error = measured.kernel.error
    if error is None:
        return None
    if not measured_here:
        beyond = ranks / measured.kernel.ranks[1]
        error *= max(_ERROR_FACTOR, beyond)
        if beyond > 1 and measured.kernel.error_beyond is not None:
            error = max(error, measured.kernel.error_beyond * log2(beyond))
        error = min(1.0, error)
    return max(measured.like_error or 0.0, error)


def _interval(
    measured: MeasuredKernel, total_s: float, error: float | None, *, measured_here: bool
) -> Interval | None:
    """Where nine of ten measurements lie: by the kernel's own rows, or by its median error."""
    kernel = measured.kernel
    if kernel.nine_in_ten is None:
        return kernel_interval(total_s, error, kernel.error_of, measured_here=measured_here)
    wider = 1.0
    if not measured_here:
        wider = _ERROR_FACTOR
    elif measured.like_error is not None:
        wider = _LIKE_FACTOR
    return rows_interval(
        total_s, kernel.nine_in_ten, wider, kernel.error_of, measured_here=measured_here
    )


def _within_measured(kernel: KernelFile, size: float) -> tuple[float, list[str]]:
    """Bytes at which to evaluate the formula, at least the fewest measured; and notes on sizes that
    were not measured."""
    if kernel.sizes is not None:
        least, largest = kernel.sizes
        if size < least:
            return least, [f"below {size_text(least)} not measured: held there"]
        if size > largest * _ROUNDING:
            return size, [f"above {size_text(largest)} not measured"]
    return size, []


def other_ranks(kernel: KernelFile, ranks: int) -> list[str]:
    """A note on a number of ranks that was not measured."""
    fewest, most = kernel.ranks
    if fewest <= ranks <= most:
        return []
    return [f"measured on {span(fewest, most)} ranks, not on {ranks}"]


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


def price_kernels(
    library: LibraryFile,
    fabric: Fabric,
    operation: str,
    size: float,
    group: AnyGroup = None,
    mode: Mode | None = None,
    dtype: ReducedType = USUAL_TYPE,
) -> KernelPrice:
    """Price a collective of ``size`` bytes by a library's kernels, its choice first.

    Args:
        mode: how an engine launches it; None: in a CUDA graph.
        dtype: of the reduced values; some kernels take some types alone.

    Raises:
        ColltoolError: none of its kernels was measured on the machine, or none in this mode.
    """
    mode = launched_by(library, mode)
    site = kernel_site(fabric, group)
    rules = rules_for(library, operation, site, dtype)
    kernel, reason = _library_choice(library, operation, site, rules, size)
    if kernel == NCCL and dtype != USUAL_TYPE:
        usual_rules = rules_for(library, operation, site)
        usual, _ = _library_choice(library, operation, site, usual_rules, size)
        if usual != NCCL:
            reason = f"{usual} takes no {dtype}"
    rows: list[KernelEstimate] = []
    if kernel != NCCL:
        rows = _estimates(library, operation, site, size, rules)
        named = [row for row in rows if row.kernel in kernel.split(EITHER)]
        if kernel and not named:
            reason = f"{kernel} was not measured here: the fastest of the others"
        kernel = min(named or rows, key=lambda row: row.total_s).kernel
    beyond = library.leaves_rest and size > _largest_measured(library, operation) * _ROUNDING
    if operation == "all_reduce" and (kernel == NCCL or beyond):
        rows.append(nccl_estimate(fabric, group, size))
        # without a rule of its table, sizes beyond the measured ones are left to NCCL
        if not any(rule.covers(size) for rule in rules) and kernel != NCCL:
            kernel = NCCL
            reason = "larger than its own kernels were measured at: left to NCCL"
    if mode == "eager":
        rows = [_by_host(row, launch_by_host(library, site, row.kernel)) for row in rows]
    rows = [row._replace(picked=row.kernel == kernel) for row in rows]
    rows.sort(key=lambda row: (not row.picked, row.total_s))
    if mode == "graph" and not rows[0].captured:
        raise ColltoolError(
            f"{library.full_name} captures no graph on {site.gpu}, where {kernel} runs its calls",
            argument="mode",
            fix=f"write {argument_text('mode', 'eager')}",
        )
    return KernelPrice(
        fabric=fabric.name,
        operation=operation,
        group=site.placed.placement,
        bytes=size,
        results=tuple(rows),
        library=KernelChoice(library.name, library.version, kernel, reason),
        mode=mode,
        notes=tuple(filter(None, (library.said,))),
        overrides=fabric.overrides,
    )


def launched_by(library: LibraryFile, mode: Mode | None) -> Mode | None:
    """How a library's calls are launched: an engine's in a CUDA graph unless a mode is named; None of
    libraries that engines or programs call.

    Raises:
        ColltoolError: a mode of a library that is no engine.
    """
    if library.leaves_rest:
        return mode or "graph"
    if mode is not None:
        what = f"{library.full_name} is no engine, which says how its calls are launched"
        raise ColltoolError(what, argument="mode", fix=f"leave {argument_text('mode')} out")
    return None


def launch_by_host(library: LibraryFile, site: KernelSite, kernel: str) -> LaunchFile:
    """What the library's host takes for a call of a kernel without CUDA graphs.

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


def _by_host(row: KernelEstimate, launch: LaunchFile) -> KernelEstimate:
    """A kernel that the host launches: it takes at least the host's time, and the copy before it.

    Up to a few times of the host's time the launch is hidden in part, so that its error counts as
    well.
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
        interval=kernel_interval(total_s, error, launch.error_of, measured_here=row.measured_here),
        notes=notes,
    )


class DispatchRule(NamedTuple):
    """A row of a library's dispatch table on a machine: from one size of M up to another.

    Args:
        kernel: its name, several of which the faster runs, or NCCL.
        to_included: whether the last size counts.
        multiple_of: bytes; other sizes are not taken.
    """

    from_bytes: float
    to_bytes: float
    kernel: str
    to_included: bool = False
    multiple_of: int = 1

    def covers(self, size: float) -> bool:
        inside = self.from_bytes <= size < self.to_bytes
        at_end = self.to_included and size == self.to_bytes
        return (inside or at_end) and size % self.multiple_of == 0


def rules_for(
    library: LibraryFile, operation: str, site: KernelSite, dtype: ReducedType = USUAL_TYPE
) -> list[DispatchRule]:
    """Return the rows of the library's dispatch table that apply to a machine, in its order; those
    of kernels that do not reach all ranks are left out."""
    reached = {NCCL: True}
    for kernel in library.kernels:
        reached[kernel.name] = reached.get(kernel.name, False) or _reaches(kernel, site)
    rules = []
    for case in library.dispatch:
        on_gpu = not case.gpus or site.gpu in case.gpus
        on_ranks = case.ranks[0] <= site.ranks <= case.ranks[1]
        of_type = not case.dtypes or dtype in case.dtypes
        if case.operation != operation or not (on_gpu and on_ranks and of_type):
            continue
        if not all(reached.get(name) for name in case.kernel.split(EITHER)):
            continue
        # a table by the bytes of all ranks, as one by those of each
        each = site.ranks if case.per == "total" else 1
        rules.append(
            DispatchRule(
                max(1.0, case.from_ / each),
                case.to / each,
                case.kernel,
                case.to_included,
                case.multiple_of,
            )
        )
    return rules


def pick_at(rules: list[DispatchRule], size: float) -> DispatchRule | None:
    """Return the first rule that takes a size."""
    return next((rule for rule in rules if rule.covers(size)), None)


def _library_choice(
    library: LibraryFile, operation: str, site: KernelSite, rules: list[DispatchRule], size: float
) -> tuple[str, str]:
    """The kernel that the library picks, empty for its fastest; and the reason."""
    most = library.most_ranks
    if most and operation == "all_reduce" and (site.nodes > 1 or site.ranks > most):
        reason = "across nodes" if site.nodes > 1 else f"more than {most} ranks"
        return NCCL, f"{reason}: its own kernels stay within a node of {most}"
    rule = pick_at(rules, size)
    if rule is not None and rule.kernel != NCCL:
        # earlier rows of the table take smaller sizes
        before = [each.to_bytes for each in rules[: rules.index(rule)] if each.to_bytes <= size]
        start = size_text(max([rule.from_bytes, *before]))
        sizes = f"{start} on"
        if rule.to_bytes < _NO_END:
            sizes = f"{start} to {size_text(rule.to_bytes)}"
        return rule.kernel, f"its table for {site.ranks} ranks of {site.gpu}: {sizes}"
    if rule is not None or (rules and size >= max(each.to_bytes for each in rules)):
        return NCCL, _why_nccl(library, site, rules, size)
    if not library.dispatch:
        return "", "the fastest of its kernels"
    return "", "the fastest of its kernels: it has no table here"


def _why_nccl(
    library: LibraryFile, site: KernelSite, rules: list[DispatchRule], size: float
) -> str:
    """Why a library leaves a call to NCCL."""
    own = [rule for rule in rules if rule.kernel != NCCL]
    if own:
        end = max(rule.to_bytes for rule in own)
        if size >= end:
            return f"above {size_text(end)} its table leaves it to NCCL"
        multiple = max(rule.multiple_of for rule in own)
        return f"its own kernels take multiples of {multiple} B"
    if site.nodes > 1:
        return f"across {site.nodes} nodes, where its own kernels do not reach"
    all_reduces = [kernel for kernel in library.kernels if kernel.operation == "all_reduce"]
    if site.hosts > 1 and not any(_reaches(kernel, site) for kernel in all_reduces):
        return f"on {site.hosts} hosts: its own kernels stay within a host of {PER_HOST[site.gpu]}"
    return f"it has no kernel of its own for {site.ranks} ranks of {site.gpu}"


def _largest_measured(library: LibraryFile, operation: str) -> float:
    """The largest size of any kernel, in bytes; infinite if none has sizes."""
    sizes = [kernel.sizes for kernel in library.kernels if kernel.operation == operation]
    return max((ends[1] for ends in sizes if ends), default=float("inf"))


def nccl_estimate(fabric: Fabric, group: AnyGroup, size: float) -> KernelEstimate:
    """Colltool's price of NCCL's all-reduce on the fabric, as a row among kernels."""
    nccl_fabric = under_library(fabric, "nccl")
    prices = price_of(nccl_fabric, AR, float(size), group)
    priced = price_for_user(prices, nccl_fabric, ModelOptions())
    best = priced.best
    accuracy = priced.accuracy
    return KernelEstimate(
        library=NCCL,
        kernel=NCCL,
        operation="all_reduce",
        ranks=prices.ranks,
        bytes=size,
        latency_s=float(best.alpha_s + best.overhead_s + best.software_s),
        bandwidth_s=float(best.bandwidth_s),
        wire=best.phases[-1].tier if best.phases else "",
        formula=best.title,
        error=accuracy.median if accuracy else None,
        error_of=accuracy.like if accuracy else "",
        measured="colltool's price of NCCL",
        interval=best.interval,
    )
