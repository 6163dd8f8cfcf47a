"""Prices of collectives by a library's measured kernels, the one that it picks first.

:func:`price_kernels` finds the kernels measured on the machine (:mod:`colltool.engines.measured`),
evaluates their formulas (:mod:`colltool.engines.formulas`) and puts the library's choice first: by its
table (:mod:`colltool.engines.dispatch`), or the fastest. Calls of experts are in
:mod:`colltool.engines.experts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import AR
from colltool.engines.dispatch import (
    USUAL_TYPE,
    DispatchRule,
    LibraryPick,
    library_choice,
    pick_at,
    rules_for,
)
from colltool.engines.estimates import ROUNDING, kernel_estimate, outside, within_measured
from colltool.engines.files import EITHER, NCCL, LibraryFile, Mode, ReducedType
from colltool.engines.formulas import FORMULAS, KernelCall
from colltool.engines.intervals import kernel_interval
from colltool.engines.launch import host_launch, launch_mode, with_host_launch
from colltool.engines.measured import measured_kernels
from colltool.engines.results import KernelChoice, KernelEstimate, KernelPrice, row_of_algorithm
from colltool.engines.site import KernelSite, kernel_site
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.placement import AnyGroup
from colltool.estimate.price import price as price_of
from colltool.estimate.user_price import price_for_user
from colltool.fabric.library_numbers import under_library
from colltool.fabric.model import Fabric

# NCCL among more than two L40S without P2P, by 53 calls of engines (vLLM, SGLang and TensorRT-LLM,
# ai-dynamo/aiconfigurator 0.12.0): the factor of the price within which nine of ten lie
_HOST_MEMORY_FACTOR = 1.9
# and their median relative error
_HOST_MEMORY_ERROR = 0.31


def price_kernels(
    library: LibraryFile,
    fabric: Fabric,
    operation: str,
    size: float,
    group: AnyGroup = None,
    mode: Mode | None = None,
    dtype: ReducedType = USUAL_TYPE,
) -> KernelPrice:
    """Price a collective of ``size`` bytes by a library's kernels: its choice first, then the fastest.

    A row of NCCL is among them where an all-reduce is left to it, or may be.

    Args:
        mode: how an engine launches it; None: in a CUDA graph.
        dtype: of the reduced values; some kernels take some types alone.

    Raises:
        ColltoolError: none of its kernels was measured on the machine, or none in this mode.
    """
    mode = launch_mode(library, mode)
    site = kernel_site(fabric, group)
    rules = rules_for(library, operation, site, dtype)
    # the pick of its table: NCCL, or kernels of its own, of which one is left once they are priced
    pick = _pick_of_type(library, operation, site, rules, size, dtype)
    rows: list[KernelEstimate] = []
    if pick.kernel != NCCL:
        rows = _estimates(library, operation, site, size, rules)
        pick = _fastest_named(pick, rows)
    # engines may leave to NCCL what is larger than their kernels were measured at
    is_beyond = library.leaves_rest and size > _largest_measured(library, operation) * ROUNDING
    # tables of shipped libraries name NCCL for all-reduces alone
    if operation == "all_reduce" and (pick.kernel == NCCL or is_beyond):
        rows.append(nccl_estimate(fabric, group, size))
        # and do so where no rule of their table names a kernel for the size
        if pick.kernel != NCCL and pick_at(rules, size) is None:
            pick = LibraryPick(NCCL, "larger than its own kernels were measured at: left to NCCL")
    if mode == "eager":
        rows = [with_host_launch(row, host_launch(library, site, row.kernel)) for row in rows]
    rows = _picked_first(rows, pick.kernel)
    if mode == "graph" and not rows[0].captured:
        raise ColltoolError(
            f"{library.full_name} captures no graph on {site.gpu}, where {pick.kernel} runs its calls",
            argument="mode",
            fix=f"write {argument_text('mode', 'eager')}",
        )
    return KernelPrice(
        fabric=fabric.name,
        operation=operation,
        group=site.placed.placement,
        bytes=size,
        results=tuple(rows),
        library=KernelChoice(library.name, library.version, pick.kernel, pick.reason),
        mode=mode,
        # a note of the file on every answer, or on the version that stands in for another
        notes=(library.said,) if library.said else (),
        overrides=fabric.overrides,
    )


def _picked_first(rows: list[KernelEstimate], kernel: str) -> list[KernelEstimate]:
    """The rows with the picked kernel marked and first, then the fastest."""
    rows = [row._replace(picked=row.kernel == kernel) for row in rows]
    return sorted(rows, key=lambda row: (not row.picked, row.total_s))


def _pick_of_type(
    library: LibraryFile,
    operation: str,
    site: KernelSite,
    rules: list[DispatchRule],
    size: float,
    dtype: ReducedType,
) -> LibraryPick:
    """What the library picks by its ``rules`` for the type. Where only the type keeps a kernel of its
    own from running, the reason says so."""
    pick = library_choice(library, operation, site, rules, size)
    if pick.kernel == NCCL and dtype != USUAL_TYPE:
        usual_rules = rules_for(library, operation, site)
        usual = library_choice(library, operation, site, usual_rules, size)
        if usual.kernel != NCCL:
            return pick._replace(reason=f"{usual.kernel} takes no {dtype}")
    return pick


def _fastest_named(pick: LibraryPick, rows: list[KernelEstimate]) -> LibraryPick:
    """The pick with one kernel: the fastest of those that it names (one, or several joined by
    EITHER), or of all rows if it names none (an empty text) or none of them was measured here."""
    named = [row for row in rows if row.kernel in pick.kernel.split(EITHER)]
    if pick.kernel and not named:
        unmeasured = f"{pick.kernel} was not measured here: the fastest of the others"
        pick = pick._replace(reason=unmeasured)
    fastest = min(named or rows, key=lambda row: row.total_s)
    return pick._replace(kernel=fastest.kernel)


def _estimates(
    library: LibraryFile,
    operation: str,
    site: KernelSite,
    size: float,
    rules: Sequence[DispatchRule],
) -> list[KernelEstimate]:
    """An estimate for ``size`` bytes by each kernel that was measured on the machine.

    Below the smallest measured size its time is used. Above the largest, on other rank counts, and
    on another GPU whose error is unknown, the formula is extrapolated and its error doubled.
    """
    estimates = []
    for measured in measured_kernels(library, operation, site, rules):
        kernel = measured.kernel
        evaluated_bytes, unmeasured = within_measured(kernel, size)
        unmeasured += outside(kernel.ranks, site.ranks, "on", "ranks")
        call = KernelCall(site.ranks, evaluated_bytes, nic_Bps=site.nic_Bps)
        times = FORMULAS[kernel.formula].of(kernel.parameters, call)
        estimates.append(kernel_estimate(measured, library, site, size, times, unmeasured))
    return estimates


def _largest_measured(library: LibraryFile, operation: str) -> float:
    """The largest size that any kernel for the operation was measured at, in bytes; infinite if none
    states sizes."""
    sizes = [kernel.sizes for kernel in library.kernels if kernel.operation == operation]
    return max((ends[1] for ends in sizes if ends), default=float("inf"))


def nccl_estimate(fabric: Fabric, group: AnyGroup, size: float) -> KernelEstimate:
    """Colltool's price of NCCL's all-reduce of ``size`` bytes on the fabric, as a row among kernels."""
    nccl_fabric = under_library(fabric, "nccl")
    prices = price_of(nccl_fabric, AR, float(size), group)
    priced = price_for_user(prices, nccl_fabric, ModelOptions())
    row = row_of_algorithm(
        priced.best, NCCL, AR, prices.ranks, size, "colltool's price of NCCL"
    )._replace(kernel=NCCL)
    accuracy = priced.accuracy
    if accuracy is not None:
        row = row._replace(error=accuracy.median, error_of=accuracy.like)
    # of the file, whichever library it prices
    facts = fabric.library_facts
    if facts is not None and facts.p2p is False and prices.ranks > 2:
        return _by_host_memory(row)
    return row


def _by_host_memory(row: KernelEstimate) -> KernelEstimate:
    """NCCL among cards that cannot reach each other's memory: all of them share their host's, whose
    speed the fabric does not state."""
    half_width = log(_HOST_MEMORY_FACTOR)
    interval = kernel_interval(
        row.total_s, (-half_width, half_width), row.error_of, measured_here=True
    )
    return row._replace(
        error=_HOST_MEMORY_ERROR,
        interval=interval._replace(reason="hosts of cards without P2P differ"),
    )
