"""Prices of calls of experts by measured kernels: dispatch, combine, and the counts before them.

:func:`price_experts` takes the kernels that were measured on the machine, in the mode and format of
the call, and prices each for its tokens. The order of the choice: operation, GPU, network, mode,
format, and among kernels of one name the nearest number of ranks.

A call is given as :class:`~colltool.engines.tokens.Tokens`: the tokens of a rank, their hidden size,
the experts, and the format (``dtype``) to send them in. The bytes that leave a rank follow from it.
"""

from __future__ import annotations

from collections.abc import Iterator

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.formatting import format_rate
from colltool.base.primitives import A2A
from colltool.engines.estimates import kernel_estimate, outside
from colltool.engines.files import EXPERTS, KernelFile, LibraryFile, Mode
from colltool.engines.formulas import FORMULAS, KernelCall, KernelTimes
from colltool.engines.lookup import find_library
from colltool.engines.measured import OWN_FILE, MeasuredKernel, measured_kernels
from colltool.engines.results import KernelChoice, KernelEstimate, KernelPrice
from colltool.engines.shipped import shipped_libraries
from colltool.engines.site import KernelSite, kernel_site
from colltool.engines.tokens import Tokens, bytes_sent, copies_sent, width
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.cut_bound import cut_bound_of
from colltool.estimate.placement import AnyGroup
from colltool.fabric.model import Fabric

# NIC bandwidth of a rank, in bytes/s, on which exchanges of experts were measured: 400 Gb/s
# ConnectX-7
_MEASURED_NIC_BPS = 50e9

# Networks, by the tier's name, on which formulas measured on ConnectX-7 do not hold or were not
# tried; words for an error
_OTHER_NETWORKS = {
    "efa": "EFA, where others took 12 to 70% longer than by ConnectX-7",
    "tcpxo": "GPUDirect-TCPXO",
    "tcpx": "GPUDirect-TCPX",
    "slingshot": "Slingshot",
}


def price_experts(
    requested: LibraryFile | None,
    fabric: Fabric,
    operation: str,
    call: Tokens,
    group: AnyGroup = None,
    mode: Mode | None = None,
) -> KernelPrice:
    """Price a call of experts by the kernels of a library, or of all that were measured there.

    Rows that were measured on such a machine come first, of these the ones that send the call's
    format, then the fastest; the first is picked.

    Args:
        requested: the only library; None for all that were measured there.
        operation: one of EXPERTS.
        call: the tokens of a rank, and the format to send.
        mode: the kernel alone, as a CUDA graph runs it, or as the engine's host calls it (eager);
            None for graphs, or eager where a library was measured in no other way.

    Raises:
        ColltoolError: none was measured on the machine.
    """
    assert operation in EXPERTS
    check_tokens(call)
    site = kernel_site(fabric, group)
    if call.experts < site.ranks:
        raise ColltoolError(
            f"{call.experts} experts do not reach {site.ranks} ranks",
            argument="experts",
            fix=f"give experts={site.ranks} or more, or take fewer ranks",
        )
    rows: list[KernelEstimate] = []
    refused: list[tuple[str, str]] = []
    if requested is not None:
        rows = _estimates(requested, operation, site, call, mode)
    else:
        for library in _libraries_with(operation):
            try:
                rows += _estimates(library, operation, site, call, mode or "graph")
            except ColltoolError as error:
                refused.append((library.full_name, error.what))
    if not rows:
        raise _never_measured(operation, site, refused)
    # a measured kernel is selected before a faster extrapolation, and one that sends the format that
    # was asked for before one that does not
    rows.sort(key=lambda row: (not row.measured_here, row.sends != call.dtype, row.total_s))
    rows[0] = rows[0]._replace(picked=True)
    choice = None
    notes: tuple[str, ...] = ()
    if requested is not None:
        reason = "the faster of its modes"
        choice = KernelChoice(requested.name, requested.version, rows[0].kernel, reason)
        if requested.said:
            notes = (requested.said,)
    return KernelPrice(
        fabric=fabric.name,
        operation=operation,
        group=site.placed.placement,
        bytes=call.copied_bytes,
        results=tuple(rows),
        library=choice,
        what=call,
        refused=tuple(refused),
        notes=notes,
        overrides=fabric.overrides,
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


def _libraries_with(operation: str) -> Iterator[LibraryFile]:
    """Shipped libraries that have a kernel for an operation."""
    for library_name, version in shipped_libraries():
        library = find_library(f"{library_name}@{version}")
        if operation in library.operations:
            yield library


def _never_measured(
    operation: str, site: KernelSite, refused: list[tuple[str, str]]
) -> ColltoolError:
    """The error for an operation that no library was measured for, with the distinct reasons.

    Args:
        refused: libraries, each with its reason; at least one, as some library has the operation.
    """
    reasons: dict[str, None] = {}
    for library, reason in refused:
        # reasons that name the GPU say that it was not measured: of these only DeepEP's, the best
        # known library, is kept
        if library.startswith("deepep") or site.gpu not in reason:
            reasons[reason] = None
    why = "; ".join(reasons) or refused[0][1]
    return ColltoolError(
        f"no library's {operation} was measured there: {why}",
        argument="fabric",
        fix=f"NCCL's all-to-all of the same bytes, or {OWN_FILE}",
    )


def _estimates(
    library: LibraryFile, operation: str, site: KernelSite, call: Tokens, mode: Mode | None
) -> list[KernelEstimate]:
    """An estimate by each kernel that was measured on the machine, on its network, in a mode and
    format of the call.

    Raises:
        ColltoolError: there is none.
    """
    of_operation = [kernel for kernel in library.kernels if kernel.operation == operation]
    gpus = set(library.likes(site.gpu))
    kernels = [kernel for kernel in of_operation if not gpus.isdisjoint(kernel.gpus)]
    if kernels:
        kernels = _on_network(library, kernels, site)
        kernels = _that_send(library, _of_mode(library, kernels, mode), call)
    # without any the error says which GPUs were measured
    measured = measured_kernels(library, operation, site, among=kernels or of_operation)
    # a kernel whose time depends on its SMs states how many it takes by default
    if call.sms and not any(numbers.kernel.sms_default for numbers in measured):
        raise ColltoolError(
            f"no kernel of {library.full_name} was measured by its SMs there",
            argument="sms",
            fix=f"leave {argument_text('sms')} out",
        )
    return [_estimate(numbers, library, site, call) for numbers in measured]


def _on_network(
    library: LibraryFile, kernels: list[KernelFile], site: KernelSite
) -> list[KernelFile]:
    """The kernels that were measured on the machine's kind of network; all on one node, and where none
    was measured across nodes.

    Across nodes kernels of experts drive the NICs themselves, so they depend on it.

    Raises:
        ColltoolError: those across nodes were measured on other kinds alone.
    """
    across = [kernel for kernel in kernels if kernel.across]
    if site.nodes == 1 or not across:
        return kernels
    if site.wire in _OTHER_NETWORKS:
        measured = [kernel for kernel in across if site.wire in kernel.wires]
    else:
        # no wires: RDMA
        measured = [kernel for kernel in across if not kernel.wires]
    if measured:
        return measured
    network = _OTHER_NETWORKS.get(site.wire, "ConnectX-7 and the like")
    raise ColltoolError(
        f"{library.full_name} was not measured on {network}", argument="library", fix=OWN_FILE
    )


def _of_mode(
    library: LibraryFile, kernels: list[KernelFile], mode: Mode | None
) -> list[KernelFile]:
    """The kernels of a mode; None for graphs, or eager where nothing else was measured.

    Raises:
        ColltoolError: none was measured in the mode; all of ``kernels`` are then of the other one.
    """
    modes = {kernel.mode for kernel in kernels}
    if mode is None:
        mode = "graph" if "graph" in modes else "eager"
    if mode in modes:
        return [kernel for kernel in kernels if kernel.mode == mode]
    operation = kernels[0].operation
    only = "as its host calls it" if mode == "graph" else "alone, as in a CUDA graph"
    raise ColltoolError(
        f"{library.full_name}'s {operation} was measured there only {only}",
        argument="mode",
        fix=f"write {argument_text('mode', kernels[0].mode)}",
    )


def _that_send(library: LibraryFile, kernels: list[KernelFile], call: Tokens) -> list[KernelFile]:
    """The kernels that send values of the call's format: those measured in it (or in formats that
    are not known), and those of other names that are priced by their bytes.

    Raises:
        ColltoolError: there is none.
    """
    exact = [kernel for kernel in kernels if not kernel.sends or call.dtype in kernel.sends]
    names = {kernel.name for kernel in exact}
    scaled = [kernel for kernel in kernels if kernel.sends_others and kernel.name not in names]
    if exact or scaled:
        return [*exact, *scaled]
    formats: dict[str, None] = {}
    for kernel in kernels:
        formats |= dict.fromkeys(kernel.sends)
    raise ColltoolError(
        f"{library.full_name}'s {kernels[0].operation} sends no {call.dtype}",
        argument="dtype",
        fix=f"it sends {', '.join(formats)}",
    )


def _estimate(
    measured: MeasuredKernel, library: LibraryFile, site: KernelSite, call: Tokens
) -> KernelEstimate:
    """A kernel's time for the tokens of a call, from which the bytes sent follow; never less than
    the fabric's bisection takes for them."""
    kernel = measured.kernel
    if kernel.always_sends is not None:
        call = call._replace(dtype=kernel.always_sends)
    if kernel.formula == "counts":
        # no values are sent
        call = call._replace(hidden=0)
    formula_call = kernel_call(kernel, call, site)
    unmeasured = _unmeasured(kernel, call, site.ranks)
    times = FORMULAS[kernel.formula].of(kernel.parameters, formula_call)
    # the exchange crosses the fabric's own network, which may be slower than the measured one
    least_s = _least_exchange_s(kernel, site, formula_call.bytes)
    times = KernelTimes(times.latency_s, max(times.bandwidth_s, least_s))
    notes = [*measured.notes]
    # within a tenth it is the same kind of NIC
    if site.nodes > 1 and not 0.9 < site.nic_Bps / _MEASURED_NIC_BPS < 1.1:
        measured_rate = format_rate(_MEASURED_NIC_BPS)
        notes.append(f"measured with {measured_rate} per rank, not {format_rate(site.nic_Bps)}")
    estimate = kernel_estimate(
        measured._replace(notes=tuple(notes)), library, site, formula_call.bytes, times, unmeasured
    )
    estimate = estimate._replace(sends=call.dtype, mode=kernel.mode)
    if kernel.sms_default is None:
        return estimate
    sms = f"on {formula_call.sms} SMs"
    if not call.sms:
        sms += ", its default"
    return estimate._replace(notes=(*estimate.notes, sms))


def kernel_call(kernel: KernelFile, call: Tokens, site: KernelSite) -> KernelCall:
    """The arguments of a kernel's formula for a call of experts."""
    return KernelCall(
        ranks=site.ranks,
        bytes=bytes_sent(kernel.copies, call, site.ranks, site.nodes),
        experts=call.experts,
        nic_Bps=site.nic_Bps,
        token_bytes=call.token_bytes,
        values=call.tokens * call.hidden,
        tokens=call.tokens,
        copies=copies_sent(
            kernel.copies, call.top_k, site.ranks, site.nodes, call.groups, call.experts
        ),
        sms=call.sms or kernel.sms_default or 1,
    )


def _unmeasured(kernel: KernelFile, call: Tokens, ranks: int) -> list[str]:
    """Notes on ranks, tokens, a format and SMs that were not measured."""
    notes = outside(kernel.ranks, ranks, "on", "ranks")
    notes += outside(kernel.tokens, call.tokens, "with", "tokens")
    if kernel.sends and call.dtype not in kernel.sends:
        notes.append(f"measured in {' and '.join(kernel.sends)}, not in {call.dtype}")
    if call.sms:
        notes += outside(kernel.sms, call.sms, "on", "SMs")
    return notes


def _least_exchange_s(kernel: KernelFile, site: KernelSite, sent_bytes: float) -> float:
    """Lower bound of an exchange from the network's bisection, in seconds.

    It matters on an oversubscribed network, or on slower links than the measured ones.
    """
    peers = site.nodes if site.nodes > 1 else site.ranks
    remote_share = (peers - 1) / peers
    # M of an all-to-all counts the part for the rank itself, which is not sent
    all_to_all_bytes = sent_bytes / remote_share
    cut_s = float(cut_bound_of(site.placed, A2A, ModelOptions()).seconds(all_to_all_bytes))
    # a kernel takes the same share of slower links as of its NIC
    return cut_s / kernel.parameters.get("eta", 1.0)
