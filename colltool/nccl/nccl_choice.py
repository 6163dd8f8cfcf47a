"""What NCCL would run for a call by its own cost model, beside our price of it, and the parts of its estimates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from colltool.base.errors import ColltoolError, said
from colltool.base.primitives import Primitive
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import Readings
from colltool.estimate.groups import library_runs, place
from colltool.estimate.price import price
from colltool.estimate.results import Crossover, LibraryChoice, Price, Winner
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.nccl.hardware import Hardware, tuned
from colltool.nccl.model import cheapest, estimates, pick, switch_points
from colltool.nccl.rules import rules_of, spec_of
from colltool.nccl.topology_inputs import check_switched, hardware_on

if TYPE_CHECKING:  # a price needs none of it
    from colltool.estimate.explain import AlgorithmExplanation, Explanation, NcclEstimateParts

WITH_A_MODEL = ("nccl",)
"""Libraries whose cost model is known."""


def with_library_choice(prices: Sequence[Price], fabric: Fabric, readings: Readings, *, asked: bool) -> tuple[Price, ...]:
    """Add the library's own pick to prices of one primitive and group; unchanged if its cost model is not known.

    ``asked``: the user named the library, so a model that cannot be computed is an error; otherwise a reason in the answer.
    """
    first = prices[0]
    if first.library is None or first.library.name not in WITH_A_MODEL:
        return tuple(prices)
    reason = ""
    if first.primitive not in _tuned(fabric):
        reason = f"NCCL has one way for {first.primitive.spoken}: there is nothing to choose"
    elif not all(isinstance(one.bytes, float) for one in prices):
        reason = "an array of sizes has no single pick: price_list has one for each size"
    if reason:
        check_switched(fabric)
    else:
        try:
            hardware = hardware_on(fabric, first.group.spec)
        except ColltoolError as error:
            if asked and not any(capabilities_of(tier).joined_by == "pair_links" for tier in fabric.tiers):
                raise
            reason = f"{said(error.what)}; {said(error.fix)}"
    if reason:
        return tuple(replace(one, library=LibraryChoice(one.library.name, reason=reason)) for one in prices if one.library)
    return tuple(_with_pick(one, fabric, hardware, readings) for one in prices)


def _with_pick(one: Price, fabric: Fabric, on: Hardware, readings: Readings) -> Price:
    assert isinstance(one.bytes, float)  # arrays have no single pick
    ways = tuple(estimates(on, one.primitive, one.bytes))
    best = cheapest(ways)
    spec = spec_of(best.algorithm, one.primitive, on)
    runs: AlgorithmEstimate | None = next((row for row in one.results if row.spec == spec), None)
    if runs is None and spec and not library_runs(place(fabric, one.group.spec), one.primitive):  # a list is all that runs
        with suppress(ColltoolError):  # it cannot run with this fabric's numbers
            runs = price(fabric, one.primitive, one.bytes, one.group.spec, readings, [spec]).best
    return replace(one, library=LibraryChoice("nccl", on.version, best, ways, runs))


def _tuned(fabric: Fabric) -> tuple[Primitive, ...]:
    facts = fabric.library_facts
    return tuned((facts and facts.version) or "")


def with_library_picks(found: Crossover, fabric: Fabric) -> Crossover:
    """Add the library's own pick at each size, if known."""
    if found.library not in WITH_A_MODEL or found.primitive not in _tuned(fabric):
        return found
    try:
        on = hardware_on(fabric, found.group.spec)
    except ColltoolError:
        return found
    turns = switch_points(on, found.primitive)
    ends = [*(turn.from_bytes for turn in turns[1:]), None]
    picks = (
        Winner(turn.from_bytes, end, turn.algorithm, turn.protocol, spec_of(turn.algorithm, found.primitive, on))
        for turn, end in zip(turns, ends, strict=True)
    )
    return replace(found, picks=tuple(picks))


def with_estimates(found: Explanation, fabric: Fabric, *, asked: bool) -> Explanation:
    """Add the parts of NCCL's estimate to each entry that NCCL runs, if the explanation has a group.

    ``asked``: the user named the library, so missing facts are an error; otherwise they leave it unchanged.
    """
    if found.group is None:
        return found
    try:
        on = hardware_on(fabric, found.group.spec)
    except ColltoolError:
        if asked:
            raise
        return found
    entries = tuple(one._replace(estimates=tuple(_parts(one, on, found.bytes))) for one in found.entries)
    return replace(found, entries=entries, library=f"NCCL {on.version}")


def _parts(entry: AlgorithmExplanation, on: Hardware, size: float) -> Iterator[NcclEstimateParts]:
    from colltool.estimate.explain import NcclEstimateParts

    primitive = entry.primitive
    if primitive not in on.constants.algorithms:
        return
    rules, chosen = rules_of(on.constants), pick(on, primitive, size)
    for one in estimates(on, primitive, size):
        if one.seconds is None or spec_of(one.algorithm, primitive, on) != (entry.row.spec if entry.row else entry.algorithm):
            continue
        assert one.latency_s is not None  # it runs
        assert one.bandwidth_Bps is not None
        what = (on, primitive, one.algorithm, one.protocol)
        terms, bandwidth = rules.latency_terms(*what), rules.bandwidth_GBps(*what) * 1e9
        whole = sum(term.times * term.us for term in terms) * 1e-6
        yield NcclEstimateParts(
            algorithm=one.algorithm,
            protocol=one.protocol,
            latency=tuple((term.name, term.times, term.us * 1e-6) for term in terms if term.times and term.us),
            plateau=float(one.latency_s) / whole if whole else 1.0,
            bus_Bps=rules.bus_GBps(*what) * 1e9,
            bandwidth_Bps=bandwidth,
            correction=float(one.bandwidth_Bps) / bandwidth,
            seconds=float(one.seconds),
            picked=(one.algorithm, one.protocol) == (chosen.algorithm, chosen.protocol),
        )
