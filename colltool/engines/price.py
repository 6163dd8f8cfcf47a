"""What a call costs by a library's kernels: which of them were measured on the machine, and which
the library takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.formatting import format_rate, size_text
from colltool.base.primitives import A2A, AR
from colltool.engines.files import (
    EXPERTS,
    NCCL,
    AskedLibrary,
    KernelFile,
    LibraryFile,
    find_library,
    shipped_libraries,
)
from colltool.engines.formulas import FORMULAS, WIDTHS, KernelCall, KernelTimes, Tokens, bytes_sent
from colltool.engines.intervals import kernel_interval
from colltool.engines.results import KernelChoice, KernelEstimate, KernelPrice
from colltool.estimate.assumptions import Readings
from colltool.estimate.cut_bound import cut_bound_of
from colltool.estimate.groups import PlacedGroup, place
from colltool.estimate.placement import AnyGroup
from colltool.estimate.price import price as price_of
from colltool.estimate.user_price import price_for_user
from colltool.fabric.ground import under_library
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import check_even

_MEASURED_NIC = 50e9  # of a rank, bytes/s: 400 Gb/s ConnectX-7
_OTHER_NETWORKS = {
    "efa": "EFA, where others took 12 to 70% longer than ConnectX-7's law",
    "tcpxo": "GPUDirect-TCPXO",
    "tcpx": "GPUDirect-TCPX",
    "slingshot": "Slingshot",
}
"""By the tier's name: networks on which the law of ConnectX-7 was seen not to hold, or never
tried."""
_OFF = 2.0  # an error is taken this many times as wide off the measured ground


class Where(NamedTuple):
    """A group as kernels see it: ``gpu`` of the fabric, ranks a node (memory domain), nodes, and
    the NIC of a rank in bytes/s."""

    fabric: Fabric
    placed: PlacedGroup
    gpu: str
    ranks_a_node: int
    nodes: int
    nic_Bps: float
    wire: str

    @property
    def ranks(self) -> int:
        return self.placed.ranks


def where_of(fabric: Fabric, group: AnyGroup) -> Where:
    """A group as kernels see it.

    Raises:
        ColltoolError: the fabric does not say which device stands at its ends.
    """
    check_even(fabric)
    if fabric.device is None:
        what = f"{fabric.name} does not say which GPU it joins, and kernels were measured on GPUs"
        raise ColltoolError(what, argument="fabric", fix="write device: h100 into it")
    placed = place(fabric, group)
    inner = capabilities_of(placed.spans[0].tier).joins == "accelerators"
    a_node = (
        placed.spans[0].endpoints if inner and placed.spans[0].tier is not fabric.tiers[-1] else 1
    )
    if inner and len(fabric.tiers) == 1:
        a_node = placed.ranks
    nodes = placed.ranks // a_node
    tier = placed.spans[-1].tier
    return Where(
        fabric,
        placed,
        fabric.device,
        ranks_a_node=a_node,
        nodes=nodes,
        nic_Bps=capabilities_of(tier).rate_Bps,
        wire=tier.name,
    )


class _Ground(NamedTuple):
    """Kernels for an operation on a machine, and what to say where it is another machine than was
    measured."""

    kernels: tuple[KernelFile, ...]
    notes: tuple[str, ...] = ()
    # of another GPU's numbers; None where it was measured itself, or nobody knows
    like_error: float | None = None


def ground(library: LibraryFile, operation: str, on: Where) -> _Ground:
    """The library's kernels for an operation on a GPU, within a node or across.

    Raises:
        ColltoolError: it has none, or none was measured there.
    """
    own = [one for one in library.kernels if one.operation == operation]
    if not own:
        fix = f"it has {', '.join(library.operations)}"
        raise ColltoolError(
            f"{library.called} has no kernel for {operation.replace('_', '-')}",
            argument="library",
            fix=fix,
        )
    measured = sorted({gpu for one in own for gpu in one.gpus})
    gpu = on.gpu if on.gpu in measured else dict(library.like).get(on.gpu, "")
    if gpu not in measured:
        fix = f"measured on: {', '.join(measured)}; a file of your own: colltool library init"
        raise ColltoolError(
            f"no kernel of {library.called} was measured on {on.gpu}", argument="library", fix=fix
        )
    across = on.nodes > 1
    if across and operation in EXPERTS and (other := _OTHER_NETWORKS.get(on.wire)):
        fix = "a file of your own: colltool library init"
        raise ColltoolError(
            f"{library.called} was not measured on {other}", argument="library", fix=fix
        )
    found = tuple(one for one in own if gpu in one.gpus and one.across == across)
    if not found:
        have = "inside a node" if across else "across nodes"
        nodes = f"{on.ranks} ranks are on {on.nodes} node{'s' * across}"
        what = f"{library.called} was measured on {gpu} {have} alone, and these {nodes}"
        raise ColltoolError(
            what, argument="library", fix="take another number of ranks, or another library"
        )
    notes = [] if gpu == on.gpu else [f"{on.gpu} was not measured: {gpu}'s numbers"]
    if across and operation in EXPERTS and not 0.9 < on.nic_Bps / _MEASURED_NIC < 1.1:
        notes.append(
            f"measured on {format_rate(_MEASURED_NIC)} a rank, not on {format_rate(on.nic_Bps)}"
        )
    return _Ground(found, tuple(notes), None if gpu == on.gpu else library.like_error.get(on.gpu))


def estimate(
    kernel: KernelFile,
    library: str,
    on: Where,
    size: float,
    what: Tokens | None = None,
    under: _Ground | None = None,
) -> KernelEstimate:
    """A kernel's time; ``size`` is M, or with ``what`` made of its tokens.

    Below the smallest size that was measured the time is held there; above, on other ranks, and on
    another GPU whose error nobody knows, the law goes on and the error that is stated doubles.
    """
    sent = size if what is None else bytes_sent(kernel.copies, what, on.ranks, on.nodes)
    held, outside = _held(kernel, on, sent, what)
    other = under.notes if under is not None else ()
    known = under.like_error if under is not None else None
    experts, own = (
        (what.experts, what.tokens * what.hidden * WIDTHS[what.dtype]) if what else (0, 0.0)
    )
    times = FORMULAS[kernel.formula].of(
        kernel.parameters, KernelCall(on.ranks, held, experts, on.nic_Bps, own)
    )
    times = _no_faster_than_wires(times, kernel, on, sent, what)
    off = bool(outside) or (bool(other) and known is None)
    error = (
        None
        if kernel.error is None
        else max(known or 0.0, min(1.0, kernel.error * (_OFF if off else 1)))
    )
    return KernelEstimate(
        library=library,
        kernel=kernel.name,
        operation=kernel.operation,
        ranks=on.ranks,
        bytes=sent,
        latency_s=times.latency_s,
        bandwidth_s=times.bandwidth_s,
        wire=on.wire,
        formula=FORMULAS[kernel.formula].words,
        error=error,
        error_of=kernel.error_of,
        measured=measured_on(kernel),
        on_ground=not off,
        notes=tuple(filter(None, (*other, *outside, kernel.said))),
        interval=kernel_interval(
            times.latency_s + times.bandwidth_s, error, kernel.error_of, on_ground=not off
        ),
    )


def _held(
    kernel: KernelFile, on: Where, sent: float, what: Tokens | None
) -> tuple[float, list[str]]:
    """The bytes that a law is asked for, at least the fewest measured; and what of the call was not
    measured."""
    held, outside = sent, []
    if what is not None and kernel.tokens is not None:
        if what.tokens < kernel.tokens[0]:
            held = sent * kernel.tokens[0] / what.tokens
            outside.append(f"fewer than {kernel.tokens[0]} tokens were not measured: held there")
        elif what.tokens > kernel.tokens[1]:
            outside.append(f"more than {kernel.tokens[1]} tokens were not measured")
    elif what is None and kernel.sizes is not None:
        held = max(sent, kernel.sizes[0])
        if sent < kernel.sizes[0]:
            outside.append(f"below {size_text(kernel.sizes[0])} not measured: held there")
        elif sent > kernel.sizes[1] * (1 + 1e-9):
            outside.append(f"above {size_text(kernel.sizes[1])} not measured")
    low, high = kernel.ranks
    if not low <= on.ranks <= high:
        outside.append(
            f"measured on {low if low == high else f'{low} to {high}'} ranks, not on {on.ranks}"
        )
    return held, outside


def _no_faster_than_wires(
    times: KernelTimes, kernel: KernelFile, on: Where, sent: float, what: Tokens | None
) -> KernelTimes:
    """An oversubscribed network or a slower link than was measured takes at least what its cut
    needs."""
    if what is None:
        return times
    away = (on.nodes - 1) / on.nodes if on.nodes > 1 else (on.ranks - 1) / on.ranks
    least = float(cut_bound_of(on.placed, A2A, Readings()).seconds(sent / away)) / (
        kernel.parameters.get("eta", 1.0)
    )
    return times._replace(bandwidth_s=max(times.bandwidth_s, least))


def measured_on(kernel: KernelFile) -> str:
    low, high = kernel.ranks
    words = [", ".join(kernel.gpus), f"{low} ranks" if low == high else f"{low} to {high} ranks"]
    if kernel.sizes:
        words.append(f"{size_text(kernel.sizes[0])} to {size_text(kernel.sizes[1])}")
    if kernel.tokens:
        words.append(
            f"{kernel.tokens[0]} to {kernel.tokens[1]} tokens"
            if kernel.tokens[0] < kernel.tokens[1]
            else f"{kernel.tokens[0]} tokens"
        )
    return ", ".join([*words, kernel.network] if kernel.network else words)


def price_kernels(
    asked: AskedLibrary, fabric: Fabric, operation: str, size: float, group: AnyGroup = None
) -> KernelPrice:
    """An all-reduce or all-to-all of ``size`` bytes by a library's kernels, its own choice first.

    Raises:
        ColltoolError: none of its kernels was measured on the machine.
    """
    library, on = asked.library, where_of(fabric, group)
    notes = _of_version(asked)
    rows: list[KernelEstimate] = []
    taken, reason = _taken(library, operation, on, size)
    if taken != NCCL:
        found = ground(library, operation, on)
        rows = [estimate(one, library.called, on, size, under=found) for one in found.kernels]
        rows.sort(key=lambda row: row.total_s)
        taken = taken or rows[0].kernel
        if all(row.kernel != taken for row in rows):
            taken, reason = (
                rows[0].kernel,
                f"{taken} was not measured here: the fastest of the others",
            )
    if operation == "all_reduce" and (taken == NCCL or _past(library, operation, size)):
        rows.append(_by_nccl(fabric, group, size))
        if taken != NCCL and not _in_table(library, on, size):
            taken, reason = NCCL, "larger than its own kernels were measured at: left to NCCL"
    rows = [row._replace(picked=row.kernel == taken) for row in rows]
    rows.sort(key=lambda row: (not row.picked, row.total_s))
    choice = KernelChoice(library.name, library.version, taken, reason)
    return KernelPrice(
        fabric=fabric.name,
        operation=operation,
        group=on.placed.placement,
        bytes=size,
        results=tuple(rows),
        library=choice,
        notes=notes,
        overrides=fabric.overrides,
    )


def _of_version(asked: AskedLibrary) -> tuple[str, ...]:
    if not asked.unknown:
        return ()
    own = asked.library
    said = (
        f"no data of {own.name} {asked.unknown}: these are {own.called}'s kernels, and versions"
        " differ by up to 3x"
    )
    return (f"warning: {said}",)


def rules_for(library: LibraryFile, on: Where) -> list[tuple[float, float, str]]:
    """(from, to, kernel) of the library's own table on a machine, by size."""
    own = [
        row
        for row in library.dispatch
        if (on.gpu in row.gpus or not row.gpus) and row.ranks[0] <= on.ranks <= row.ranks[1]
    ]
    return sorted((row.from_, row.to, row.kernel) for row in own)


def _in_table(library: LibraryFile, on: Where, size: float) -> bool:
    return any(low <= size < high for low, high, _ in rules_for(library, on))


def _taken(library: LibraryFile, operation: str, on: Where, size: float) -> tuple[str, str]:
    """The kernel that the library takes, empty for the fastest; and why."""
    if operation != "all_reduce":
        return "", "the fastest of its kernels"
    if library.most_ranks and (on.nodes > 1 or on.ranks > library.most_ranks):
        why = "across nodes" if on.nodes > 1 else f"more than {library.most_ranks} ranks"
        return NCCL, f"{why}: its own kernels stay within a node of {library.most_ranks}"
    table = rules_for(library, on)
    for low, high, kernel in table:
        if low <= size < high:
            return (
                kernel,
                (
                    f"its table for {on.ranks} ranks of {on.gpu}: {size_text(low)} to"
                    f" {size_text(high)}"
                ),
            )
    if table and size >= table[-1][1]:
        return NCCL, f"above {size_text(table[-1][1])} its table leaves it to NCCL"
    return "", "the fastest of its kernels: it has no table here"


def _past(library: LibraryFile, operation: str, size: float) -> bool:
    tops = [one.sizes[1] for one in library.kernels if one.operation == operation and one.sizes]
    return bool(library.most_ranks) and bool(tops) and size > max(tops) * (1 + 1e-9)


def _by_nccl(fabric: Fabric, group: AnyGroup, size: float) -> KernelEstimate:
    """What colltool prices for NCCL on the fabric."""
    under = under_library(fabric, "nccl")
    found = price_of(under, AR, float(size), group)
    priced = price_for_user(found, under, Readings())
    best, accuracy = priced.best, priced.accuracy
    return KernelEstimate(
        library="nccl",
        kernel=NCCL,
        operation="all_reduce",
        ranks=found.ranks,
        bytes=size,
        latency_s=float(best.alpha_s + best.overhead_s + best.software_s),
        bandwidth_s=float(best.bandwidth_s),
        wire=best.phases[-1].tier if best.phases else "",
        formula=best.title,
        error=accuracy and accuracy.median,
        error_of=accuracy.like if accuracy else "",
        measured="colltool's price of NCCL",
        interval=best.interval,
    )


def check_tokens(what: Tokens) -> None:
    """ColltoolError for tokens that no call can have."""
    for name, value in (
        ("tokens", what.tokens),
        ("top_k", what.top_k),
        ("hidden", what.hidden),
        ("experts", what.experts),
    ):
        if value < 1:
            raise ColltoolError(
                f"must be at least 1, got {value}", argument=name, fix="write a positive number"
            )
    if what.top_k > what.experts:
        raise ColltoolError(
            f"{what.top_k} of {what.experts} experts",
            argument="top_k",
            fix="at most as many as there are experts",
        )
    if what.dtype not in WIDTHS:
        raise ColltoolError(
            f"'{what.dtype}' is not known", argument="dtype", fix=f"one of {', '.join(WIDTHS)}"
        )


def price_experts(
    asked: AskedLibrary | None, fabric: Fabric, operation: str, what: Tokens, group: AnyGroup = None
) -> KernelPrice:
    """Dispatch or combine by a library's kernels, or by those of every library that was measured on
    the machine.

    Those on measured ground first, then the fastest.

    Raises:
        ColltoolError: none was measured on the machine.
    """
    assert operation in EXPERTS
    check_tokens(what)
    on = where_of(fabric, group)
    if what.experts < on.ranks:
        fix = f"give experts={on.ranks} or more, or take fewer ranks"
        raise ColltoolError(
            f"{what.experts} experts do not reach {on.ranks} ranks", argument="experts", fix=fix
        )
    rows: list[KernelEstimate] = []
    refused: list[tuple[str, str]] = []
    for one in (asked,) if asked else _every(operation):
        try:
            found = ground(one.library, operation, on)
        except ColltoolError as error:
            if asked:
                raise
            refused.append((one.library.called, error.what))
            continue
        rows += [
            estimate(kernel, one.library.called, on, 0, what, found) for kernel in found.kernels
        ]
    if not rows:
        why = "; ".join(
            dict.fromkeys(
                what for name, what in refused if name.startswith("deepep") or on.gpu not in what
            )
        )
        fix = "NCCL's all-to-all of the same bytes, or a file of your own: colltool library init"
        raise ColltoolError(
            f"no library's {operation} was measured there: {why or refused[0][1]}",
            argument="fabric",
            fix=fix,
        )
    # what was measured goes before what is faster on paper
    rows.sort(key=lambda row: (not row.on_ground, row.total_s))
    rows[0] = rows[0]._replace(picked=True)
    choice = asked and KernelChoice(
        asked.library.name, asked.library.version, rows[0].kernel, "the faster of its modes"
    )
    copies = what.tokens * what.top_k * what.hidden * WIDTHS[what.dtype]
    return KernelPrice(
        fabric=fabric.name,
        operation=operation,
        group=on.placed.placement,
        bytes=copies,
        results=tuple(rows),
        library=choice,
        what=what,
        refused=tuple(refused),
        notes=_of_version(asked) if asked else (),
        overrides=fabric.overrides,
    )


def _every(operation: str) -> Iterator[AskedLibrary]:
    for name, version in shipped_libraries():
        asked = find_library(f"{name}@{version}")
        if operation in asked.library.operations:
            yield asked
