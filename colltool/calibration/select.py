"""Chooses algorithms, the number of protocols, and whether collectives share them, by cross-validated error."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.base.errors import ColltoolError, either
from colltool.base.formatting import format_rate, percent
from colltool.calibration.candidates import Authority
from colltool.calibration.piecewise_linear_fit import (
    UNLIKELY,
    Envelope,
    Prior,
    Sample,
    evaluate,
    fit_envelope,
    relative_errors,
    relative_rows,
    robust,
)
from colltool.calibration.results import Candidate
from colltool.calibration.sample import NAMES, SWITCH, Member, components, left_out_errors, most_protocols, sample_of

# factor on unseen sizes by which a less likely choice must win; the second for two algorithms over one
_WORTH, _WORTH_TWO = 1.1, 1.2
_CLEAR = 1.5
_DOUBTED = 4 / 3  # factor by which a set must win that needs more than the port's stated rate
# what a further protocol may lose on unseen sizes and must gain on the others; 0.1% is noise
_MISLED, _EXPLAINED, _EXACT = 1.25, 0.8, 1e-3
_ABOVE_LINE = 1.02
_SHORTER = 0.9  # an in-switch launch may seem this much shorter than its protocol's, by noise


class ChosenFit(NamedTuple):
    """A chosen fit; ``errors`` are cross-validated, of the used points, members in order."""

    members: tuple[Member, ...]
    algorithms: tuple[str, ...]
    names: tuple[str, ...]
    sample: Sample
    fit: Envelope
    errors: NDArray[np.float64]
    candidates: tuple[Candidate, ...]
    confidence: str

    @property
    def cv_mape(self) -> float:
        return mape(self.errors)

    @property
    def said(self) -> str:
        return " + ".join(self.algorithms)


def mape(errors: NDArray[np.float64]) -> float:
    """Mean absolute relative error; 0 of no points."""
    known = errors[~np.isnan(errors)]
    return float(np.abs(known).mean()) if len(known) else 0.0


def unseen_mape(errors: NDArray[np.float64]) -> float | None:
    """Mean absolute cross-validated error; None where no fit without some sizes was possible."""
    return None if np.isnan(errors).all() else mape(errors)


def choose(options: Sequence[tuple[tuple[str, ...], Sequence[Member]]], prior: Prior, line_Bps: float,
           by: Authority | None = None) -> ChosenFit:  # fmt: skip
    """The best set of algorithms for one collective, each with as many protocols as earn their place.

    ``options``: simplest and likeliest first. ``line_Bps``: the port's stated rate; sets that need more come last. ``by``: whose
    word the first option is, None where nothing says what ran.
    """
    fits = [fewest(_fitted(names, members, prior), prior) for names, members in options]
    tried = [one for one in fits if _as_written(one)]
    if not tried:
        what = f"a switch beside protocols cannot take these times: {fits[0].said} cannot both have run"
        fix = either(shell="name one of them, or auto", python="name one of them, or none")
        raise ColltoolError(what, argument="algorithms", fix=fix)
    candidates = tuple(Candidate(one.algorithms, unseen_mape(one.errors)) for one in fits)
    within, least = [one for one in tried if above_line(one, line_Bps) is None], min(one.cv_mape for one in tried)
    least_within = min((one.cv_mape for one in within), default=least)
    # within the port's stated rate; all if none within it predicts nearly as well
    possible = within if within and least_within <= _CLEAR * least + _EXACT else tried
    best = min(possible, key=_error)
    if by and fits[0] is tried[0] and fits[0].cv_mape <= by.worth * min(least_within, _DOUBTED * least) + _EXACT:
        rival = min((one for one in possible if one is not fits[0]), key=_error, default=None)
        ours, words = _without_idle(fits[0], prior), f"as {by.said}"
        if rival and rival.cv_mape <= ours.cv_mape * _WORTH and set(rival.algorithms) != set(ours.algorithms):
            words += f"; the times cannot distinguish it from {rival.said}: {_against(ours, rival)}"
        return ours._replace(candidates=candidates, confidence=words)
    chosen = next(one for one in possible if one.cv_mape <= best.cv_mape * (_WORTH if len(one.algorithms) > 1 else _WORTH_TWO))
    rival = min((one for one in possible if one is not chosen), key=_error, default=None)
    beyond = [one for one in tried if all(one is not other for other in possible)] or [chosen]
    words = _confidence(chosen, rival, [one for one in beyond if above_line(one, line_Bps)], line_Bps)
    if by:
        words += f"; not as {by.said}, {fits[0].said}: another version, other settings, or CollNet"
    return chosen._replace(candidates=candidates, confidence=words)


def _error(one: ChosenFit) -> float:
    return one.cv_mape


def _against(one: ChosenFit, other: ChosenFit) -> str:
    return f"{percent(one.cv_mape)} against {percent(other.cv_mape)} on unseen sizes"


def _without_idle(one: ChosenFit, prior: Prior) -> ChosenFit:
    kept = sorted({int(index) for index in one.fit.algorithm})
    if len(kept) == len(one.algorithms):
        return one
    members = [
        member._replace(
            costs=tuple(member.costs[index] for index in kept),
            inner=tuple((name, tuple(costs[index] for index in kept)) for name, costs in member.inner),
            unlikely=None if member.unlikely is None else member.unlikely[kept],
        )
        for member in one.members
    ]
    fit, protocols = one.fit._replace(algorithm=np.searchsorted(kept, one.fit.algorithm)), one.names
    if members[0].switched.all():  # the switch alone
        used, component = np.unique(fit.component, return_inverse=True)
        fit, protocols = fit._replace(theta=fit.theta[used], component=component), NAMES[len(used)]
    names, sample = tuple(one.algorithms[index] for index in kept), sample_of(members, protocols, prior)
    return one._replace(algorithms=names, names=protocols, members=tuple(members), sample=sample, fit=fit)


def fewest(chosen: ChosenFit, prior: Prior) -> ChosenFit:
    """The same algorithms under as few protocols as suffice. A further one must explain a good part of the remaining error and
    not mislead on unseen sizes; a little it may, because a fold's fit has fewer points."""

    def unexplained(one: ChosenFit) -> float:
        return mape(relative_errors(one.fit, one.sample))

    fewer = [_fitted(chosen.algorithms, chosen.members, prior, count) for count in range(1, len(chosen.names))]
    rungs = [written for one in [*fewer, chosen] if (written := _as_written(one))] or [chosen]
    limit = min(one.cv_mape for one in rungs) * _MISLED + _EXACT
    kept = next(one for one in rungs if one.cv_mape <= limit)
    for one in rungs[[one is kept for one in rungs].index(True) + 1 :]:
        if one.cv_mape <= limit and unexplained(one) <= _EXPLAINED * unexplained(kept) - _EXACT:
            kept = one
    return kept


def under_names(chosen: ChosenFit, names: tuple[str, ...], prior: Prior) -> ChosenFit:
    """The fit with its protocols renamed; refitted where inner tiers list these names, since costs there change."""
    renamed = chosen._replace(names=names)
    if len(chosen.sample.offset) == 1 or names == chosen.names:
        return renamed
    sample, theta, labels = sample_of(chosen.members, names, prior), chosen.fit.theta, chosen.fit.component
    rows = relative_rows(sample, chosen.fit.algorithm, labels)
    mine = labels == np.arange(len(theta))[:, None]
    again = np.where((mine.sum(axis=1) > 1)[:, None], robust(*rows, mine, prior), theta)
    return renamed._replace(sample=sample, fit=evaluate(again, sample))


def together(groups: Sequence[ChosenFit], prior: Prior) -> ChosenFit | None:
    """One set of protocols for several collectives; None where separate ones predict clearly better."""
    if len(groups) < 2 or any(SWITCH in components(one.members, one.names) for one in groups):
        return None
    width, members = max(len(one.algorithms) for one in groups), []
    for member in (member for one in groups for member in one.members):  # algorithms repeated, so that all arrays stack
        inner = tuple((name, (costs * width)[:width]) for name, costs in member.inner)
        members.append(member._replace(costs=(member.costs * width)[:width], inner=inner, unlikely=None))
    joint = fewest(_fitted((), members, prior), prior)
    return joint if joint.cv_mape <= _WORTH * mape(np.concatenate([one.errors for one in groups])) else None


def _fitted(algorithms: tuple[str, ...], members: Sequence[Member], prior: Prior, count: int = 0) -> ChosenFit:
    """A fit of so many protocols, by default the most that the points can tell apart."""
    count = count or most_protocols(sum(int(member.used.sum()) for member in members))
    names = NAMES[count]
    sample = sample_of(members, names, prior)
    fit = fit_envelope(sample)
    if sample.unlikely is not None:  # by the library's own choices, unless a free one fits much better
        free = fit_envelope(sample._replace(unlikely=None))
        errors = [float(np.abs(relative_errors(one, sample)).mean()) for one in (fit, free)]
        fit = free if errors[1] < errors[0] - UNLIKELY else fit
    fit = _ordered(fit, sample, count)
    if count > 1 and fit.component[fit.component < count].max(initial=-1) < count - 1:  # no point needs the last one
        return _fitted(algorithms, members, prior, count - 1)
    unseen = left_out_errors(sample, members)
    return ChosenFit(tuple(members), algorithms, names, sample, fit, unseen, candidates=(), confidence="")


def _ordered(fit: Envelope, sample: Sample, count: int) -> Envelope:
    served = [np.log(sample.sizes[fit.component == c]).mean() if (fit.component == c).any() else np.inf for c in range(count)]
    order = [*np.argsort(served, kind="stable"), *range(count, len(fit.theta))]
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    ordered = fit._replace(theta=fit.theta[order], component=rank[fit.component])
    return ordered if len(sample.offset) == 1 or order == sorted(order) else evaluate(ordered.theta, sample)


def _as_written(one: ChosenFit) -> ChosenFit | None:
    """A fit as a file can express it, or None: the switch runs under the last protocol, or under one of its own. Its own where
    the last one's wires are slower or its launch is longer. Other algorithms may use that one too, but never win there."""
    theta, count = one.fit.theta, len(one.names)
    if len(theta) == count:
        return one
    switch, last = theta[count], theta[count - 1]
    if not (one.fit.component == count).any():
        return None
    if switch[2] >= last[2] > 0 and switch[0] >= last[0] * _SHORTER:
        return one
    return one._replace(names=NAMES[count + 1]) if count < len(NAMES) else None


def _fastest_wire(one: ChosenFit) -> float:
    """The bandwidth a fit needs where it matters, bytes/s; 0 where it never does."""
    slopes = one.fit.theta[: len(one.names), 2]
    used = [c for c in range(len(one.names)) if (one.fit.component == c).any() and slopes[c] > 0]
    x = one.sample.x[one.fit.algorithm, np.arange(len(one.sample.seconds)), 2]
    busy = [c for c in used if (x * slopes[c] / one.sample.seconds)[one.fit.component == c].max() > 0.5]
    return max((1 / float(slopes[c]) for c in busy), default=0.0)


def _confidence(chosen: ChosenFit, rival: ChosenFit | None, beyond: Sequence[ChosenFit], line_Bps: float) -> str:
    said = []
    if rival:
        ratio = rival.cv_mape / max(chosen.cv_mape, 1e-12)
        sure = "clearly better than" if ratio >= _CLEAR else "probably better than" if ratio >= _WORTH else "cannot be told from"
        errors = "too few sizes" if unseen_mape(chosen.errors) is None else _against(chosen, rival)
        said.append(f"{sure} {rival.said}: {errors}")
    for one in beyond[:1]:
        said.append(f"{one.said} would need {format_rate(_fastest_wire(one))} from a port of {format_rate(line_Bps)}")
    return "; ".join(said) or "the only algorithm tried"


def above_line(one: ChosenFit, line_Bps: float) -> float | None:
    """The bandwidth a fit needs if that exceeds the port's stated rate, bytes/s; else None."""
    needed = _fastest_wire(one)
    return needed if needed > line_Bps * _ABOVE_LINE else None
