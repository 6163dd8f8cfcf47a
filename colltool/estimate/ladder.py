"""``ladder``: a fixed list of prices, each beside the fastest of its primitive and size."""

from __future__ import annotations

from collections.abc import Sequence

from colltool.base.errors import ColltoolError, ManyErrors
from colltool.estimate.algorithm_specs import CannotRun
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.candidates import candidates_for
from colltool.estimate.price import price
from colltool.estimate.results import Infeasible, Ladder, Price, Rung
from colltool.fabric.ladder import LadderDefinition, RungDefinition


def climb(definition: LadderDefinition, readings: ModelOptions | None) -> Ladder:
    """Price every rung, ideal and realistic; the gap is to the fastest rung of the same primitive
    and size.

    What only the readings rule out, such as several links at once on one port, is left out with the
    reason.

    Raises:
        ColltoolError: a rung that cannot be priced; of several all their errors.
    """
    options = readings or ModelOptions()
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
                continue
            problems.append(
                ColltoolError(
                    error.what,
                    where=rung.where or error.where,
                    argument="" if rung.where else error.argument,
                    fix=error.fix,
                )
            )
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


def _priced_rung(rung: RungDefinition, size: float, readings: ModelOptions) -> Rung:
    """A rung at a size in bytes; its gaps are still to be found."""

    def price_of(only: Sequence[str], *, ideal: bool) -> Price:
        options = readings._replace(ideal=ideal)
        return price(rung.fabric, rung.primitive, size, rung.ranks, options, only)

    only = list(filter(None, [rung.algorithm]))
    realistic = price_of(only, ideal=False)
    # both numbers are of one schedule, the fastest with contention
    ideal = price_of(only or [realistic.best.spec], ideal=True)
    return Rung(
        rung.primitive,
        rung.fabric.name,
        ideal.best.title,
        realistic.ranks,
        ideal.best,
        realistic.best,
    )


def _with_gaps(rung: Rung, rungs: Sequence[Rung]) -> Rung:
    """A rung with its times relative to the fastest of its primitive and size."""
    question = (rung.primitive, rung.ideal.bytes)
    peers = [peer for peer in rungs if (peer.primitive, peer.ideal.bytes) == question]
    ideal_s = min(float(peer.ideal.total_s) for peer in peers)
    realistic_s = min(float(peer.realistic.total_s) for peer in peers)
    return rung._replace(
        gap_ideal=float(rung.ideal.total_s / ideal_s),
        gap_realistic=float(rung.realistic.total_s / realistic_s),
    )


def _runs_usually(rung: RungDefinition) -> bool:
    """Whether only the readings keep a rung from being priced."""
    candidates = candidates_for(rung.fabric, rung.ranks, rung.primitive, ModelOptions())
    try:
        return bool(rung.algorithm and candidates.named([rung.algorithm]))
    except CannotRun:
        return False
