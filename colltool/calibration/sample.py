"""Series and the costs of their algorithms as the arrays that a fit works on; and what no fit can use."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.base.formatting import size_text
from colltool.calibration.candidates import AlgorithmCosts
from colltool.calibration.least_squares import Prior
from colltool.calibration.piecewise_linear_fit import Envelope, Sample, evaluate, fit_envelope, relative_errors
from colltool.calibration.results import ExcludedSize
from colltool.measurements.series import Series
from colltool.nccl.algorithm_map import SEGMENT, SPOKEN, protocol_of
from colltool.nccl.hardware import Hardware

NAMES = {count: tuple(f"{SEGMENT}{place + 1}" for place in range(count)) for count in (1, 2, 3)}
"""What the protocols of a fit are called, small sizes first, until they are identified."""

SWITCH = "switch"
_FAR_OFF = 0.35
_ENOUGH = 8
_FOLDS = 5
_ROUNDS = 4


class Member(NamedTuple):
    """One series of a fit: the points that are used, and the costs of the algorithms.

    ``unlikely``: (algorithms, points), which of them the library would not have run at a point; None where nothing says.
    ``inner``: the costs under each protocol of the tiers inside, by its name; none where these list none. ``on``: what NCCL ran
    on; None of other libraries, and where the fabric lacks the facts.
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
    """The components of a fit: a protocol each, and one for what runs inside the switch beside something else."""
    mixed = any(member.switched.any() and not member.switched.all() for member in members)
    return [*names, *([SWITCH] if mixed else [])]


def sample_of(members: Sequence[Member], names: Sequence[str], prior: Prior, *, everything: bool = False) -> Sample:
    """The used points of all members as one sample."""
    parts = components(members, names)
    seconds, sizes, x, offset, unlikely = [], [], [], [], []
    for member in members:
        taken = member.used | everything
        kept = [p for p, used in zip(member.series.points, taken, strict=True) if used]
        unlikely.append(None if member.unlikely is None else member.unlikely[:, taken])
        size = np.array([point.bytes for point in kept])
        seconds.append(np.array([point.seconds for point in kept]))
        sizes.append(size)
        x.append(np.stack([_row(one, size) for one in member.costs]))
        bases = [[one.base_s + one.base_s_per_byte * size for one in under] for under in _under_each(member, parts)]
        offset.append(np.stack(bases))
    switched, most = members[0].switched, max(map(len, offset))
    allowed = np.stack([switched if name == SWITCH else ~switched | switched.all() for name in parts])
    told = [one for one in unlikely if one is not None]
    return Sample(
        seconds=np.concatenate(seconds),
        sizes=np.concatenate(sizes),
        x=np.concatenate(x, axis=1),
        offset=np.concatenate([np.broadcast_to(one, (most, *one.shape[1:])) for one in offset], axis=2),
        allowed=allowed,
        prior=prior,
        unlikely=np.concatenate(told, axis=1) if len(told) == len(members) else None,
    )


def _under_each(member: Member, parts: Sequence[str]) -> list[tuple[AlgorithmCosts, ...]]:
    """The costs by component: a call runs under one protocol throughout, so the tiers inside run under the one of that name.

    Of segments without a name the first runs under their first, the last under their last, another in the middle.
    """
    if len(member.inner) < 2:
        return [member.costs]
    inner = dict(member.inner)
    count = sum(name != SWITCH for name in parts)
    return [inner[name_inside(name, min(place, count - 1), count, list(inner))] for place, name in enumerate(parts)]


def name_inside(name: str, place: int, count: int, inner: Sequence[str]) -> str:
    """Under which protocol the tiers inside run where the tier under test runs under this one, the ``place``-th of so many."""
    if name in inner and not name.startswith(SEGMENT):
        return name
    whole = SPOKEN.get(protocol_of(name))  # a part of a protocol: the whole stands for it
    if whole is not None and whole in inner:
        return whole
    last = len(inner) - 1
    return inner[last * place // (count - 1) if count > 1 else last]


def _row(one: AlgorithmCosts, size: NDArray[np.float64]) -> NDArray[np.float64]:
    ones = np.ones_like(size)
    return np.stack([ones, one.n_alpha * ones, one.n_beta * size, one.own * size], axis=1)


def most_protocols(points: int) -> int:
    """How many protocols so many points can tell apart at all: three points each."""
    return max(1, min(len(NAMES), points // 3))


def folds(members: Sequence[Member]) -> NDArray[np.intp]:
    """Which fold each used point belongs to: every fifth size of a series, or each point alone where there are few."""
    count = sum(int(member.used.sum()) for member in members)
    if count < _ENOUGH:
        return np.arange(count)
    return np.concatenate([np.arange(int(member.used.sum())) % _FOLDS for member in members])


def left_out_errors(sample: Sample, fold: NDArray[np.intp]) -> NDArray[np.float64]:
    """fitted/measured - 1 of every point by a fit that has not seen its fold."""
    errors = np.full(len(fold), np.nan)
    for index in np.unique(fold):
        unseen = fold == index
        if (~unseen).sum() >= 2:
            fit: Envelope = fit_envelope(sample.only(~unseen))
            judged = sample.only(unseen)
            errors[unseen] = relative_errors(evaluate(fit.theta, judged), judged)
    return errors


def usable(member: Member, prior: Prior) -> tuple[NDArray[np.bool_], tuple[ExcludedSize, ...]]:
    """Which points of one series a curve of up to three protocols can meet, and why the others are left out.

    Every such curve rises with size, and no faster than size does. A point that is far slower than a larger message, or than
    a smaller one in proportion, lies on none; nor does one that is far slower than the best fit of the others.
    """
    points = member.series.points
    if len(points) < _ENOUGH:
        return np.ones(len(points), dtype=bool), ()
    seconds, sizes = (np.array(values) for values in zip(*((p.seconds, p.bytes) for p in points), strict=True))
    used = seconds <= (1 + _FAR_OFF) * _ceiling(seconds, sizes)
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
    for near, run in groupby(range(len(points)), key=lambda i: bool(used[i])):
        indices = list(run)
        left += [] if near else [ExcludedSize(points[i].bytes, _reason(member.series, indices, ratio)) for i in indices]
    return used, tuple(left)


def _ceiling(seconds: NDArray[np.float64], sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The most that a rising curve of falling time per byte allows at each size, as the other points have it."""
    later = np.minimum.accumulate(seconds[::-1])[::-1]
    smaller = np.minimum.accumulate(seconds / sizes) * sizes
    return np.minimum(later, smaller)


def _reason(series: Series, run: Sequence[int], ratio: NDArray[np.float64]) -> str:
    how = f"{max(float(ratio[i]) for i in run):.2g}x as slow as the rest predicts"
    if len(run) == 1:
        return f"outlier at {size_text(series.points[run[0]].bytes)}: {how}"
    first, last = (size_text(series.points[i].bytes) for i in (run[0], run[-1]))
    return f"no alpha-beta curve from {first} to {last}: up to {how}"
