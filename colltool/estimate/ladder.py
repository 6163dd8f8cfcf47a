"""``ladder``: a fixed list of prices, each beside the fastest of its primitive and size.

A *rung* is one entry: a collective on a fabric, at a size. It has two prices: *ideal*, of wires alone,
and *realistic*, with contention. Its *gap* is its time over the fastest's: 1 for the fastest.
"""

from __future__ import annotations

from collections.abc import Sequence

from colltool.base.errors import ColltoolError, ManyErrors
from colltool.estimate.algorithm_specs import CannotRun
from colltool.estimate.assumptions import USUAL, ModelOptions
from colltool.estimate.candidates import candidates_for
from colltool.estimate.price import price
from colltool.estimate.results import Infeasible, Ladder, Price, Rung
from colltool.fabric.ladder import LadderDefinition, RungDefinition


def climb(definition: LadderDefinition, readings: ModelOptions | None) -> Ladder:
    """Price every rung under the model options (``readings``, by default the usual ones), ideal and
    realistic.

    What only the readings rule out, such as several links at once on one port, is left out with the
    reason.

    Raises:
        ColltoolError: a rung that cannot be priced; of several all their errors.
    """
    options = readings or USUAL
    rungs: list[Rung] = []
    skipped: list[Infeasible] = []
    problems = []
    for rung in definition.rungs:
        try:
            rungs.append(_priced_rung(rung, rung.size or definition.size, options))
        except ColltoolError as error:
            if isinstance(error, CannotRun) and _runs_usually(rung):
                what = f"{rung.primitive.label} by {rung.algorithm} on {rung.fabric.name}"
                skipped.append(Infeasible(what, error.reason))
            else:
                problems.append(_placed_in_file(error, rung))
    if problems:
        raise problems[0] if len(problems) == 1 else ManyErrors(problems)
    return Ladder(
        definition.name,
        definition.description,
        definition.size,
        tuple(_with_gaps(rung, rungs) for rung in rungs),
        options,
        tuple(skipped),
    )


def _placed_in_file(error: ColltoolError, rung: RungDefinition) -> ColltoolError:
    """The error at the rung's place in its file, where it has one, instead of at an argument."""
    return ColltoolError(
        error.what,
        where=rung.where or error.where,
        argument="" if rung.where else error.argument,
        fix=error.fix,
    )


def _priced_rung(rung: RungDefinition, size: float, readings: ModelOptions) -> Rung:
    """A rung at a size in bytes; its gaps are still to be found.

    A rung without an algorithm is priced by the fastest with contention, in both its numbers.
    """

    def price_of(only: Sequence[str], *, ideal: bool) -> Price:
        options = readings._replace(ideal=ideal)
        return price(rung.fabric, rung.primitive, size, rung.ranks, options, only)

    only = [rung.algorithm] if rung.algorithm else []
    realistic = price_of(only, ideal=False)
    ideal = price_of(only or [realistic.best.spec], ideal=True)
    return Rung(
        primitive=rung.primitive,
        fabric=rung.fabric.name,
        algorithm=ideal.best.title,
        ranks=realistic.ranks,
        ideal=ideal.best,
        realistic=realistic.best,
    )


def _with_gaps(rung: Rung, rungs: Sequence[Rung]) -> Rung:
    """A rung with its times over those of the fastest of its primitive and size, which may differ
    between ideal and realistic."""
    question = (rung.primitive, rung.ideal.bytes)
    peers = [peer for peer in rungs if (peer.primitive, peer.ideal.bytes) == question]
    ideal_s = min(float(peer.ideal.total_s) for peer in peers)
    realistic_s = min(float(peer.realistic.total_s) for peer in peers)
    return rung._replace(
        gap_ideal=float(rung.ideal.total_s / ideal_s),
        gap_realistic=float(rung.realistic.total_s / realistic_s),
    )


def _runs_usually(rung: RungDefinition) -> bool:
    """Whether a rung's algorithm runs under the usual options, so that only the readings keep it from
    being priced."""
    candidates = candidates_for(rung.fabric, rung.ranks, rung.primitive, USUAL)
    try:
        return bool(rung.algorithm and candidates.named([rung.algorithm]))
    except CannotRun:
        return False
