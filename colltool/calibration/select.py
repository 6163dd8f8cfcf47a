"""Series and costs as arrays; chooses algorithms, protocols, and whether collectives share them, by
cross-validated error."""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.base.errors import ColltoolError, either
from colltool.base.formatting import format_rate, percent, size_text
from colltool.calibration.envelope import (
    UNLIKELY,
    Envelope,
    Prior,
    Sample,
    evaluate,
    fit_envelope,
    refitted,
    relative_errors,
)
from colltool.calibration.series_prices import AlgorithmCosts, Authority
from colltool.libraries.nccl.hardware import Hardware
from colltool.libraries.nccl.rules import SEGMENT, SPOKEN, protocol_of
from colltool.logs.series import Series

# placeholder names of a fit's protocols, small sizes first
NAMES = {count: tuple(f"{SEGMENT}{place + 1}" for place in range(count)) for count in (1, 2, 3)}
SWITCH = "switch"
_FAR_OFF = 0.35
_ENOUGH = 8
_FOLDS = 5
_ROUNDS = 4


class Candidate(NamedTuple):
    """Algorithms tried together, and their mean absolute relative error on unseen sizes (None with
    too few sizes)."""

    algorithms: tuple[str, ...]
    cv_mape: float | None


class ExcludedSize(NamedTuple):
    bytes: float
    reason: str


class Member(NamedTuple):
    """One series of a fit: its used points and the costs of the algorithms.

    ``unlikely``: (algorithms, points), what the library would not have run there; None if unknown.
    ``inner``: the costs under each protocol of the inner tiers, by name. ``on``: the hardware NCCL
    ran on; None for other libraries or where facts are missing.
    """

    series: Series
    used: NDArray[np.bool_]
    costs: tuple[AlgorithmCosts, ...]
    unlikely: NDArray[np.bool_] | None = None
    inner: tuple[tuple[str, tuple[AlgorithmCosts, ...]], ...] = ()
    on: Hardware | None = None

    @property
    def switched(self) -> NDArray[np.bool_]:
        return np.array([one.switched for one in self.costs])


def components(members: Sequence[Member], names: Sequence[str]) -> list[str]:
    """One component per protocol, plus one for in-switch reduction where it competes with other
    algorithms."""
    mixed = any(member.switched.any() and not member.switched.all() for member in members)
    return [*names, *([SWITCH] if mixed else [])]


def sample_of(
    members: Sequence[Member], names: Sequence[str], prior: Prior, *, everything: bool = False
) -> Sample:
    parts = components(members, names)
    seconds, sizes, x, offset, unlikely = [], [], [], [], []
    for member in members:
        taken = member.used | everything
        kept = [p for p, used in zip(member.series.points, taken, strict=True) if used]
        unlikely += [] if member.unlikely is None else [member.unlikely[:, taken]]
        size = np.array([point.bytes for point in kept])
        ones = np.ones_like(size)
        seconds.append(np.array([point.seconds for point in kept]))
        sizes.append(size)
        rows = [
            (ones, one.n_alpha * ones, one.n_beta * size, one.own * size) for one in member.costs
        ]
        x.append(np.stack([np.stack(row, axis=1) for row in rows]))
        bases = [
            [one.base_s + one.base_s_per_byte * size for one in under]
            for under in _under_each(member, parts)
        ]
        offset.append(np.stack(bases))
    switched, most = members[0].switched, max(map(len, offset))
    return Sample(
        seconds=np.concatenate(seconds),
        sizes=np.concatenate(sizes),
        x=np.concatenate(x, axis=1),
        offset=np.concatenate(
            [np.broadcast_to(one, (most, *one.shape[1:])) for one in offset], axis=2
        ),
        allowed=np.stack(
            [switched if name == SWITCH else ~switched | switched.all() for name in parts]
        ),
        prior=prior,
        unlikely=np.concatenate(unlikely, axis=1) if len(unlikely) == len(members) else None,
    )


def _under_each(member: Member, parts: Sequence[str]) -> list[tuple[AlgorithmCosts, ...]]:
    """The costs by component: a call uses one protocol on all tiers, so inner tiers run under the
    protocol of the same name; unnamed segments map to the inner tiers' protocols in order."""
    if len(member.inner) < 2:
        return [member.costs]
    inner = dict(member.inner)
    count = sum(name != SWITCH for name in parts)
    return [
        inner[name_inside(name, min(place, count - 1), count, list(inner))]
        for place, name in enumerate(parts)
    ]


def name_inside(name: str, place: int, count: int, inner: Sequence[str]) -> str:
    """The inner tiers' protocol that goes with the ``place``-th of ``count`` protocols of the tier
    under test."""
    if name in inner and not name.startswith(SEGMENT):
        return name
    whole = SPOKEN.get(protocol_of(name))  # a part of a protocol: the whole stands for it
    if whole is not None and whole in inner:
        return whole
    last = len(inner) - 1
    return inner[last * place // (count - 1) if count > 1 else last]


def most_protocols(points: int) -> int:
    return max(1, min(len(NAMES), points // 3))


def left_out_errors(sample: Sample, members: Sequence[Member]) -> NDArray[np.float64]:
    """Out-of-fold relative errors, fitted/measured - 1; a fold is every fifth size, or a single one
    where points are few."""
    counts = [int(member.used.sum()) for member in members]
    few = sum(counts) < _ENOUGH
    fold = (
        np.arange(sum(counts))
        if few
        else np.concatenate([np.arange(count) % _FOLDS for count in counts])
    )
    errors = np.full(len(fold), np.nan)
    for index in np.unique(fold):
        unseen = fold == index
        if (~unseen).sum() >= 2:
            judged = sample.only(unseen)
            errors[unseen] = relative_errors(
                evaluate(fit_envelope(sample.only(~unseen)).theta, judged), judged
            )
    return errors


def usable(member: Member, prior: Prior) -> tuple[NDArray[np.bool_], tuple[ExcludedSize, ...]]:
    """Which points an envelope of up to three lines can meet, and why the others are left out.

    Such a curve rises with size, and no faster than size: a point far slower than a larger message,
    or than a smaller one in proportion, is off it, and so is one far slower than the best fit of
    the others.
    """
    points = member.series.points
    if len(points) < _ENOUGH:
        return np.ones(len(points), dtype=bool), ()
    seconds, sizes = (
        np.array(values) for values in zip(*((p.seconds, p.bytes) for p in points), strict=True)
    )
    later = np.minimum.accumulate(seconds[::-1])[::-1]
    smaller = np.minimum.accumulate(seconds / sizes) * sizes
    used = seconds <= (1 + _FAR_OFF) * np.minimum(later, smaller)
    names = NAMES[most_protocols(int(used.sum()))]
    whole = sample_of([member], names, prior, everything=True)
    for _ in range(_ROUNDS):
        fit = fit_envelope(sample_of([member._replace(used=used)], names, prior))
        ratio = seconds / evaluate(fit.theta, whole).fitted
        kept = ratio <= 1 + _FAR_OFF
        if (kept == used).all() or kept.sum() < 2:
            break
        used = kept
    left = []
    for run in (
        list(run)
        for near, run in groupby(range(len(points)), key=lambda i: bool(used[i]))
        if not near
    ):
        how = f"{max(float(ratio[i]) for i in run):.2g}x as slow as the rest predicts"
        first, last = (size_text(points[i].bytes) for i in (run[0], run[-1]))
        why = (
            f"outlier at {first}: {how}"
            if len(run) == 1
            else f"no alpha-beta curve from {first} to {last}: up to {how}"
        )
        left += [ExcludedSize(points[i].bytes, why) for i in run]
    return used, tuple(left)


# factor on unseen sizes by which a less likely choice must win; the second for two algorithms over
# one
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
    return None if np.isnan(errors).all() else mape(errors)


def choose(
    options: Sequence[tuple[tuple[str, ...], Sequence[Member]]],
    prior: Prior,
    line_Bps: float,
    by: Authority | None = None,
) -> ChosenFit:
    """The best set of algorithms for one collective, each with as many protocols as earn their
    place.

    ``options``: simplest and likeliest first. ``line_Bps``: the port's stated rate; sets that need
    more come last. ``by``: whose word the first option is, None where nothing says what ran.
    """
    fits = [fewest(_fitted(names, members, prior), prior) for names, members in options]
    tried = [one for one in fits if _as_written(one)]
    if not tried:
        what = (
            f"a switch beside protocols cannot take these times: {fits[0].said} cannot both"
            " have run"
        )
        fix = either(shell="name one of them, or auto", python="name one of them, or none")
        raise ColltoolError(what, argument="algorithms", fix=fix)
    candidates = tuple(Candidate(one.algorithms, unseen_mape(one.errors)) for one in fits)
    within, least = (
        [one for one in tried if above_line(one, line_Bps) is None],
        min(one.cv_mape for one in tried),
    )
    least_within = min((one.cv_mape for one in within), default=least)
    # within the port's stated rate; all if none within it predicts nearly as well
    possible = within if within and least_within <= _CLEAR * least + _EXACT else tried
    best = min(one.cv_mape for one in possible)
    if (
        by
        and fits[0] is tried[0]
        and fits[0].cv_mape <= by.worth * min(least_within, _DOUBTED * least) + _EXACT
    ):
        rival = min(
            (one for one in possible if one is not fits[0]), key=attrgetter("cv_mape"), default=None
        )
        ours, words = _without_idle(fits[0], prior), f"as {by.said}"
        if (
            rival
            and rival.cv_mape <= ours.cv_mape * _WORTH
            and set(rival.algorithms) != set(ours.algorithms)
        ):
            words += f"; the times cannot distinguish it from {rival.said}: {_against(ours, rival)}"
        return ours._replace(candidates=candidates, confidence=words)
    chosen = next(
        one
        for one in possible
        if one.cv_mape <= best * (_WORTH if len(one.algorithms) > 1 else _WORTH_TWO)
    )
    rival = min(
        (one for one in possible if one is not chosen), key=attrgetter("cv_mape"), default=None
    )
    beyond = [one for one in tried if all(one is not other for other in possible)] or [chosen]
    words = _confidence(chosen, rival, beyond, line_Bps)
    if by:
        words += f"; not as {by.said}, {fits[0].said}: another version, other settings, or CollNet"
    return chosen._replace(candidates=candidates, confidence=words)


def _against(one: ChosenFit, other: ChosenFit) -> str:
    return f"{percent(one.cv_mape)} against {percent(other.cv_mape)} on unseen sizes"


def _without_idle(one: ChosenFit, prior: Prior) -> ChosenFit:
    kept = sorted({int(index) for index in one.fit.algorithm})
    if len(kept) == len(one.algorithms):
        return one
    members = [
        member._replace(
            costs=tuple(member.costs[index] for index in kept),
            inner=tuple(
                (name, tuple(costs[index] for index in kept)) for name, costs in member.inner
            ),
            unlikely=None if member.unlikely is None else member.unlikely[kept],
        )
        for member in one.members
    ]
    fit, protocols = one.fit._replace(algorithm=np.searchsorted(kept, one.fit.algorithm)), one.names
    if members[0].switched.all():  # the switch alone
        used, component = np.unique(fit.component, return_inverse=True)
        fit, protocols = fit._replace(theta=fit.theta[used], component=component), NAMES[len(used)]
    names, sample = (
        tuple(one.algorithms[index] for index in kept),
        sample_of(members, protocols, prior),
    )
    return one._replace(
        algorithms=names, names=protocols, members=tuple(members), sample=sample, fit=fit
    )


def fewest(chosen: ChosenFit, prior: Prior) -> ChosenFit:
    """The same algorithms under as few protocols as suffice. A further one must explain a good part
    of the remaining error and not mislead on unseen sizes; a little it may, because a fold's fit
    has fewer points."""

    def unexplained(one: ChosenFit) -> float:
        return mape(relative_errors(one.fit, one.sample))

    fewer = [
        _fitted(chosen.algorithms, chosen.members, prior, count)
        for count in range(1, len(chosen.names))
    ]
    rungs = [written for one in [*fewer, chosen] if (written := _as_written(one))] or [chosen]
    limit = min(one.cv_mape for one in rungs) * _MISLED + _EXACT
    kept = next(one for one in rungs if one.cv_mape <= limit)
    for one in rungs[[one is kept for one in rungs].index(True) + 1 :]:
        if one.cv_mape <= limit and unexplained(one) <= _EXPLAINED * unexplained(kept) - _EXACT:
            kept = one
    return kept


def under_names(chosen: ChosenFit, names: tuple[str, ...], prior: Prior) -> ChosenFit:
    """The fit with its protocols renamed; refitted where inner tiers list these names, since costs
    there change."""
    renamed = chosen._replace(names=names)
    if len(chosen.sample.offset) == 1 or names == chosen.names:
        return renamed
    sample = sample_of(chosen.members, names, prior)
    return renamed._replace(sample=sample, fit=refitted(chosen.fit, sample))


def together(groups: Sequence[ChosenFit], prior: Prior) -> ChosenFit | None:
    """One set of protocols for several collectives; None where separate ones predict clearly
    better."""
    if len(groups) < 2 or any(SWITCH in components(one.members, one.names) for one in groups):
        return None
    width, members = max(len(one.algorithms) for one in groups), []
    # algorithms repeated, so that all arrays stack
    for member in (member for one in groups for member in one.members):
        inner = tuple((name, (costs * width)[:width]) for name, costs in member.inner)
        members.append(
            member._replace(costs=(member.costs * width)[:width], inner=inner, unlikely=None)
        )
    joint = fewest(_fitted((), members, prior), prior)
    return (
        joint
        if joint.cv_mape <= _WORTH * mape(np.concatenate([one.errors for one in groups]))
        else None
    )


def _fitted(
    algorithms: tuple[str, ...], members: Sequence[Member], prior: Prior, count: int = 0
) -> ChosenFit:
    """A fit of so many protocols, by default the most that the points can tell apart."""
    count = count or most_protocols(sum(int(member.used.sum()) for member in members))
    names = NAMES[count]
    sample = sample_of(members, names, prior)
    fit = fit_envelope(sample)
    # by the library's own choices, unless a free one fits much better
    if sample.unlikely is not None:
        free = fit_envelope(sample._replace(unlikely=None))
        errors = [float(np.abs(relative_errors(one, sample)).mean()) for one in (fit, free)]
        fit = free if errors[1] < errors[0] - UNLIKELY else fit
    fit = _ordered(fit, sample, count)
    # no point needs the last one
    if count > 1 and fit.component[fit.component < count].max(initial=-1) < count - 1:
        return _fitted(algorithms, members, prior, count - 1)
    unseen = left_out_errors(sample, members)
    return ChosenFit(
        tuple(members), algorithms, names, sample, fit, unseen, candidates=(), confidence=""
    )


def _ordered(fit: Envelope, sample: Sample, count: int) -> Envelope:
    served = [
        np.log(sample.sizes[fit.component == c]).mean() if (fit.component == c).any() else np.inf
        for c in range(count)
    ]
    order = [*np.argsort(served, kind="stable"), *range(count, len(fit.theta))]
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    ordered = fit._replace(theta=fit.theta[order], component=rank[fit.component])
    return (
        ordered
        if len(sample.offset) == 1 or order == sorted(order)
        else evaluate(ordered.theta, sample)
    )


def _as_written(one: ChosenFit) -> ChosenFit | None:
    """A fit as a file can express it, or None: the switch runs under the last protocol, or under
    one of its own. Its own where the last one's wires are slower or its launch is longer. Other
    algorithms may use that one too, but never win there."""
    theta, count = one.fit.theta, len(one.names)
    if len(theta) == count:
        return one
    switch, last = theta[count], theta[count - 1]
    if not (one.fit.component == count).any():
        return None
    if switch[2] >= last[2] > 0 and switch[0] >= last[0] * _SHORTER:
        return one
    return one._replace(names=NAMES[count + 1]) if count < len(NAMES) else None


def above_line(one: ChosenFit, line_Bps: float) -> float | None:
    """The bandwidth that a fit needs where it matters, bytes/s, if that exceeds the port's stated
    rate; else None."""
    slopes = one.fit.theta[: len(one.names), 2]
    used = [c for c in range(len(one.names)) if (one.fit.component == c).any() and slopes[c] > 0]
    x = one.sample.x[one.fit.algorithm, np.arange(len(one.sample.seconds)), 2]
    busy = [
        c for c in used if (x * slopes[c] / one.sample.seconds)[one.fit.component == c].max() > 0.5
    ]
    needed = max((1 / float(slopes[c]) for c in busy), default=0.0)
    return needed if needed > line_Bps * _ABOVE_LINE else None


def _confidence(
    chosen: ChosenFit, rival: ChosenFit | None, beyond: Sequence[ChosenFit], line_Bps: float
) -> str:
    said = []
    if rival:
        ratio = rival.cv_mape / max(chosen.cv_mape, 1e-12)
        sure = (
            "clearly better than"
            if ratio >= _CLEAR
            else "probably better than"
            if ratio >= _WORTH
            else "cannot be told from"
        )
        errors = "too few sizes" if unseen_mape(chosen.errors) is None else _against(chosen, rival)
        said.append(f"{sure} {rival.said}: {errors}")
    more = [(one.said, needed) for one in beyond if (needed := above_line(one, line_Bps))]
    said += [
        f"{names} would need {format_rate(needed)} from a port of {format_rate(line_Bps)}"
        for names, needed in more[:1]
    ]
    return "; ".join(said) or "the only algorithm tried"
