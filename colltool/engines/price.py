"""Prices of calls by a library's measured kernels, and the kernel that the library picks.

:func:`price_kernels` prices collectives, :func:`price_experts` dispatch and combine. Both find the
kernels measured on the machine (:func:`measured_kernels`), evaluate their formulas
(:func:`_estimate`) and put the library's choice first: by its dispatch table, or the fastest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.formatting import format_rate, size_text
from colltool.base.primitives import A2A, AR
from colltool.engines.files import (
    EXPERTS,
    NCCL,
    KernelFile,
    LibraryFile,
    find_library,
)
from colltool.engines.formulas import FORMULAS, KernelCall, KernelTimes, Tokens, bytes_sent, width
from colltool.engines.intervals import kernel_interval
from colltool.engines.results import KernelChoice, KernelEstimate, KernelPrice
from colltool.engines.shipped import shipped_libraries
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.cut_bound import cut_bound_of
from colltool.estimate.groups import PlacedGroup, place
from colltool.estimate.placement import AnyGroup
from colltool.estimate.price import price as price_of
from colltool.estimate.user_price import price_for_user
from colltool.fabric.library_numbers import under_library
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import check_even

# NIC bandwidth of a rank, in bytes/s, on which exchanges of experts were measured: 400 Gb/s
# ConnectX-7
_MEASURED_NIC_BPS = 50e9

_OTHER_NETWORKS = {
    "efa": "EFA, where others took 12 to 70% longer than by ConnectX-7",
    "tcpxo": "GPUDirect-TCPXO",
    "tcpx": "GPUDirect-TCPX",
    "slingshot": "Slingshot",
}
"""Networks, by the tier's name, on which formulas measured on ConnectX-7 do not hold or were not
tried."""

# the error of a kernel is doubled outside of what was measured
_ERROR_FACTOR = 2.0

# relative tolerance when sizes are compared
_ROUNDING = 1 + 1e-9

_OWN_FILE = "a file of your own: colltool library init"


class KernelSite(NamedTuple):
    """The part of a group's placement that kernels depend on.

    Args:
        gpu: the fabric's device.
        nodes: memory domains that the group spans.
        nic_Bps: bandwidth of a rank on the outermost tier, in bytes/s.
        wire: the name of that tier.
    """

    fabric: Fabric
    placed: PlacedGroup
    gpu: str
    nodes: int
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
    return KernelSite(
        fabric=fabric,
        placed=placed,
        gpu=fabric.device,
        nodes=placed.ranks // node_ranks,
        nic_Bps=capabilities_of(outer).rate_Bps,
        wire=outer.name,
    )


class MeasuredKernels(NamedTuple):
    """A library's kernels for an operation on a machine.

    Args:
        notes: how the machine differs from the measured one.
        like_error: relative error of another GPU's numbers; None if the GPU itself was measured, or
            the error is unknown.
    """

    kernels: tuple[KernelFile, ...]
    notes: tuple[str, ...] = ()
    like_error: float | None = None


def measured_kernels(library: LibraryFile, operation: str, site: KernelSite) -> MeasuredKernels:
    """Return the library's kernels for an operation on a GPU, within a node or across.

    Raises:
        ColltoolError: it has none, or none was measured there.
    """
    candidates = [kernel for kernel in library.kernels if kernel.operation == operation]
    if not candidates:
        what = f"{library.full_name} has no kernel for {operation.replace('_', '-')}"
        fix = f"it has {', '.join(library.operations)}"
        raise ColltoolError(what, argument="library", fix=fix)
    gpu = _measured_gpu(library, candidates, site.gpu)
    across = site.nodes > 1
    # kernels of experts drive the NICs themselves, so they depend on the kind of network
    over_nics = across and operation in EXPERTS
    if over_nics and site.wire in _OTHER_NETWORKS:
        what = f"{library.full_name} was not measured on {_OTHER_NETWORKS[site.wire]}"
        raise ColltoolError(what, argument="library", fix=_OWN_FILE)
    kernels = tuple(
        kernel for kernel in candidates if gpu in kernel.gpus and kernel.across == across
    )
    if not kernels:
        measured = "within one node" if across else "across nodes"
        nodes = f"{site.nodes} nodes" if across else f"{site.nodes} node"
        what = (
            f"{library.full_name} was measured only {measured} of {gpu}, and these {site.ranks} ranks"
            f" are on {nodes}"
        )
        raise ColltoolError(
            what, argument="library", fix="take another number of ranks, or another library"
        )
    notes = []
    like_error = None
    if gpu != site.gpu:
        notes.append(f"{site.gpu} was not measured: the numbers of {gpu} are used")
        like_error = library.like_error.get(site.gpu)
    if over_nics and not 0.9 < site.nic_Bps / _MEASURED_NIC_BPS < 1.1:
        measured = format_rate(_MEASURED_NIC_BPS)
        notes.append(f"measured with {measured} per rank, not {format_rate(site.nic_Bps)}")
    return MeasuredKernels(kernels, tuple(notes), like_error)


def _measured_gpu(library: LibraryFile, kernels: list[KernelFile], gpu: str) -> str:
    """The GPU whose numbers are used for ``gpu``: itself, or the one that the file's ``like`` has."""
    measured: set[str] = set()
    for kernel in kernels:
        measured.update(kernel.gpus)
    for candidate in (gpu, dict(library.like).get(gpu)):
        if candidate in measured:
            return candidate
    raise ColltoolError(
        f"no kernel of {library.full_name} was measured on {gpu}",
        argument="library",
        fix=f"measured on: {', '.join(sorted(measured))}; {_OWN_FILE}",
    )


def _estimates(
    library: LibraryFile,
    operation: str,
    site: KernelSite,
    size: float = 0.0,
    tokens: Tokens | None = None,
) -> list[KernelEstimate]:
    """An estimate by each kernel that was measured on the machine."""
    measured = measured_kernels(library, operation, site)
    return [
        _estimate(kernel, library.full_name, measured, site, size, tokens)
        for kernel in measured.kernels
    ]


def _estimate(
    kernel: KernelFile,
    library: str,
    measured: MeasuredKernels,
    site: KernelSite,
    size: float,
    tokens: Tokens | None,
) -> KernelEstimate:
    """A kernel's time for ``size`` bytes, or for ``tokens``, from which the bytes sent follow.

    Below the smallest measured size its time is used. Above the largest, on other rank counts, and
    on another GPU whose error is unknown, the formula is extrapolated and its error doubled.
    """
    formula = FORMULAS[kernel.formula]
    call = KernelCall(site.ranks, size, nic_Bps=site.nic_Bps)
    if tokens is not None:
        sent = bytes_sent(kernel.copies, tokens, site.ranks, site.nodes)
        call = call._replace(bytes=sent, experts=tokens.experts, token_bytes=tokens.token_bytes)
    evaluated_bytes, unmeasured = _within_measured(kernel, call.bytes, tokens)
    unmeasured += _other_ranks(kernel, site.ranks)
    times = formula.of(kernel.parameters, call._replace(bytes=evaluated_bytes))
    # all-reduces use measured links only; exchanges cross the fabric's own network
    if tokens is not None:
        least_s = _least_exchange_s(kernel, site, call.bytes)
        times = KernelTimes(times.latency_s, max(times.bandwidth_s, least_s))
    other_machine = bool(measured.notes) and measured.like_error is None
    measured_here = not unmeasured and not other_machine
    error = _error(kernel, measured.like_error, measured_here)
    notes = [*measured.notes, *unmeasured]
    if kernel.said:
        notes.append(kernel.said)
    return KernelEstimate(
        library=library,
        kernel=kernel.name,
        operation=kernel.operation,
        ranks=site.ranks,
        bytes=call.bytes,
        latency_s=times.latency_s,
        bandwidth_s=times.bandwidth_s,
        wire=site.wire,
        formula=formula.words,
        error=error,
        error_of=kernel.error_of,
        measured=_measured_on(kernel),
        measured_here=measured_here,
        notes=tuple(notes),
        interval=kernel_interval(
            times.total_s, error, kernel.error_of, measured_here=measured_here
        ),
    )


def _error(kernel: KernelFile, like_error: float | None, measured_here: bool) -> float | None:
    if kernel.error is None:
        return None
    widened = kernel.error if measured_here else min(1.0, kernel.error * _ERROR_FACTOR)
    return max(like_error or 0.0, widened)


def _within_measured(
    kernel: KernelFile, sent: float, tokens: Tokens | None
) -> tuple[float, list[str]]:
    """Bytes at which to evaluate the formula, at least the fewest measured; and notes on sizes that
    were not measured."""
    if tokens is not None:
        if kernel.tokens is None:
            return sent, []
        fewest, most = kernel.tokens
        if tokens.tokens < fewest:
            scaled = sent * fewest / tokens.tokens
            return scaled, [f"fewer than {fewest} tokens were not measured: held there"]
        if tokens.tokens > most:
            return sent, [f"more than {most} tokens were not measured"]
    elif kernel.sizes is not None:
        least, largest = kernel.sizes
        if sent < least:
            return least, [f"below {size_text(least)} not measured: held there"]
        if sent > largest * _ROUNDING:
            return sent, [f"above {size_text(largest)} not measured"]
    return sent, []


def _other_ranks(kernel: KernelFile, ranks: int) -> list[str]:
    fewest, most = kernel.ranks
    if fewest <= ranks <= most:
        return []
    return [f"measured on {_span(fewest, most)} ranks, not on {ranks}"]


def _span(least: int, most: int) -> str:
    return f"{least}" if least == most else f"{least} to {most}"


def _least_exchange_s(kernel: KernelFile, site: KernelSite, sent: float) -> float:
    """Lower bound of an exchange from the network's bisection, in seconds.

    It matters on an oversubscribed network, or on slower links than the measured ones.
    """
    peers = site.nodes if site.nodes > 1 else site.ranks
    remote_share = (peers - 1) / peers
    cut_s = float(cut_bound_of(site.placed, A2A, ModelOptions()).seconds(sent / remote_share))
    return cut_s / kernel.parameters.get("eta", 1.0)


def _measured_on(kernel: KernelFile) -> str:
    """GPUs, ranks, sizes and network that a kernel was measured on, as text."""
    words = [", ".join(kernel.gpus), f"{_span(*kernel.ranks)} ranks"]
    if kernel.sizes:
        words.append(f"{size_text(kernel.sizes[0])} to {size_text(kernel.sizes[1])}")
    if kernel.tokens:
        words.append(f"{_span(*kernel.tokens)} tokens")
    if kernel.network:
        words.append(kernel.network)
    return ", ".join(words)


def price_kernels(
    library: LibraryFile, fabric: Fabric, operation: str, size: float, group: AnyGroup = None
) -> KernelPrice:
    """Price an all-reduce or all-to-all of ``size`` bytes by a library's kernels, its choice first.

    Raises:
        ColltoolError: none of its kernels was measured on the machine.
    """
    site = kernel_site(fabric, group)
    rules = rules_for(library, site)
    kernel, reason = _library_choice(library, operation, site, rules, size)
    rows: list[KernelEstimate] = []
    if kernel != NCCL:
        rows = _estimates(library, operation, site, size)
        rows.sort(key=lambda row: row.total_s)
        fastest = rows[0].kernel
        if not kernel:
            kernel = fastest
        elif all(row.kernel != kernel for row in rows):
            reason = f"{kernel} was not measured here: the fastest of the others"
            kernel = fastest
    beyond = bool(library.most_ranks) and size > _largest_measured(library, operation) * _ROUNDING
    if operation == "all_reduce" and (kernel == NCCL or beyond):
        rows.append(_nccl_estimate(fabric, group, size))
        # without a rule of its table, sizes beyond the measured ones are left to NCCL
        if not any(rule.covers(size) for rule in rules) and kernel != NCCL:
            kernel = NCCL
            reason = "larger than its own kernels were measured at: left to NCCL"
    rows = [row._replace(picked=row.kernel == kernel) for row in rows]
    rows.sort(key=lambda row: (not row.picked, row.total_s))
    return KernelPrice(
        fabric=fabric.name,
        operation=operation,
        group=site.placed.placement,
        bytes=size,
        results=tuple(rows),
        library=KernelChoice(library.name, library.version, kernel, reason),
        overrides=fabric.overrides,
    )


class DispatchRule(NamedTuple):
    """A row of a library's dispatch table: from one size up to another, which is not included."""

    from_bytes: float
    to_bytes: float
    kernel: str

    def covers(self, size: float) -> bool:
        return self.from_bytes <= size < self.to_bytes


def rules_for(library: LibraryFile, site: KernelSite) -> list[DispatchRule]:
    """Return the rows of the library's dispatch table that apply to a machine, by size."""
    rules = []
    for case in library.dispatch:
        on_gpu = not case.gpus or site.gpu in case.gpus
        if on_gpu and case.ranks[0] <= site.ranks <= case.ranks[1]:
            rules.append(DispatchRule(case.from_, case.to, case.kernel))
    return sorted(rules)


def _library_choice(
    library: LibraryFile, operation: str, site: KernelSite, rules: list[DispatchRule], size: float
) -> tuple[str, str]:
    """The kernel that the library picks, empty for its fastest; and the reason."""
    if operation != "all_reduce":
        return "", "the fastest of its kernels"
    most = library.most_ranks
    if most and (site.nodes > 1 or site.ranks > most):
        reason = "across nodes" if site.nodes > 1 else f"more than {most} ranks"
        return NCCL, f"{reason}: its own kernels stay within a node of {most}"
    for rule in rules:
        if rule.covers(size):
            sizes = f"{size_text(rule.from_bytes)} to {size_text(rule.to_bytes)}"
            return rule.kernel, f"its table for {site.ranks} ranks of {site.gpu}: {sizes}"
    if rules and size >= rules[-1].to_bytes:
        return NCCL, f"above {size_text(rules[-1].to_bytes)} its table leaves it to NCCL"
    return "", "the fastest of its kernels: it has no table here"


def _largest_measured(library: LibraryFile, operation: str) -> float:
    """The largest size of any kernel, in bytes; infinite if none has sizes."""
    sizes = [kernel.sizes for kernel in library.kernels if kernel.operation == operation]
    return max((ends[1] for ends in sizes if ends), default=float("inf"))


def _nccl_estimate(fabric: Fabric, group: AnyGroup, size: float) -> KernelEstimate:
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


def check_tokens(call: Tokens) -> None:
    """Raise ColltoolError for impossible arguments of a call of experts."""
    for argument in ("tokens", "top_k", "hidden", "experts"):
        value = getattr(call, argument)
        if value < 1:
            raise ColltoolError(
                f"must be at least 1, got {value}", argument=argument, fix="write a positive number"
            )
    if call.top_k > call.experts:
        raise ColltoolError(
            f"{call.top_k} of {call.experts} experts",
            argument="top_k",
            fix="at most as many as there are experts",
        )
    width(call.dtype)


def price_experts(
    asked: LibraryFile | None,
    fabric: Fabric,
    operation: str,
    call: Tokens,
    group: AnyGroup = None,
) -> KernelPrice:
    """Price dispatch or combine by the kernels of a library, or of all that were measured there.

    Those that were measured on such a machine come first, then the fastest.

    Raises:
        ColltoolError: none was measured on the machine.
    """
    assert operation in EXPERTS
    check_tokens(call)
    site = kernel_site(fabric, group)
    if call.experts < site.ranks:
        fix = f"give experts={site.ranks} or more, or take fewer ranks"
        raise ColltoolError(
            f"{call.experts} experts do not reach {site.ranks} ranks", argument="experts", fix=fix
        )
    rows: list[KernelEstimate] = []
    refused: list[tuple[str, str]] = []
    if asked is not None:
        rows = _estimates(asked, operation, site, tokens=call)
    else:
        for library in _libraries_with(operation):
            try:
                rows += _estimates(library, operation, site, tokens=call)
            except ColltoolError as error:
                refused.append((library.full_name, error.what))
    if not rows:
        raise _never_measured(operation, site, refused)
    # a measured kernel is selected before a faster extrapolation
    rows.sort(key=lambda row: (not row.measured_here, row.total_s))
    rows[0] = rows[0]._replace(picked=True)
    choice = None
    if asked is not None:
        reason = "the faster of its modes"
        choice = KernelChoice(asked.name, asked.version, rows[0].kernel, reason)
    return KernelPrice(
        fabric=fabric.name,
        operation=operation,
        group=site.placed.placement,
        bytes=call.copied_bytes,
        results=tuple(rows),
        library=choice,
        what=call,
        refused=tuple(refused),
        overrides=fabric.overrides,
    )


def _libraries_with(operation: str) -> Iterator[LibraryFile]:
    for library_name, version in shipped_libraries():
        library = find_library(f"{library_name}@{version}")
        if operation in library.operations:
            yield library


def _never_measured(
    operation: str, site: KernelSite, refused: list[tuple[str, str]]
) -> ColltoolError:
    reasons: dict[str, None] = {}
    for library, reason in refused:
        # Of the reasons "not measured on this GPU" only that of DeepEP, the best known, is kept.
        if library.startswith("deepep") or site.gpu not in reason:
            reasons[reason] = None
    why = "; ".join(reasons) or refused[0][1]
    return ColltoolError(
        f"no library's {operation} was measured there: {why}",
        argument="fabric",
        fix=f"NCCL's all-to-all of the same bytes, or {_OWN_FILE}",
    )
