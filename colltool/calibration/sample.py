"""Series and algorithm costs as the arrays a fit works on; outlier rejection and cross-validation folds."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.base.formatting import size_text
from colltool.calibration.candidates import AlgorithmCosts
from colltool.calibration.piecewise_linear_fit import Prior, Sample, evaluate, fit_envelope, relative_errors
from colltool.calibration.results import ExcludedSize
from colltool.measurements.series import Series
from colltool.nccl.hardware import Hardware
from colltool.nccl.rules import SEGMENT, SPOKEN, protocol_of

# placeholder names of a fit's protocols, small sizes first
NAMES = {count: tuple(f"{SEGMENT}{place + 1}" for place in range(count)) for count in (1, 2, 3)}
SWITCH = "switch"
_FAR_OFF = 0.35
_ENOUGH = 8
_FOLDS = 5
_ROUNDS = 4


class Member(NamedTuple):
    """One series of a fit: its used points and the costs of the algorithms.

    ``unlikely``: (algorithms, points), what the library would not have run there; None if unknown. ``inner``: the costs under
    each protocol of the inner tiers, by name. ``on``: the hardware NCCL ran on; None for other libraries or where facts are
    missing.
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
    """One component per protocol, plus one for in-switch reduction where it competes with other algorithms."""
    mixed = any(member.switched.any() and not member.switched.all() for member in members)
    return [*names, *([SWITCH] if mixed else [])]


def sample_of(members: Sequence[Member], names: Sequence[str], prior: Prior, *, everything: bool = False) -> Sample:
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
        rows = [(ones, one.n_alpha * ones, one.n_beta * size, one.own * size) for one in member.costs]
        x.append(np.stack([np.stack(row, axis=1) for row in rows]))
        bases = [[one.base_s + one.base_s_per_byte * size for one in under] for under in _under_each(member, parts)]
        offset.append(np.stack(bases))
    switched, most = members[0].switched, max(map(len, offset))
    return Sample(
        seconds=np.concatenate(seconds),
        sizes=np.concatenate(sizes),
        x=np.concatenate(x, axis=1),
        offset=np.concatenate([np.broadcast_to(one, (most, *one.shape[1:])) for one in offset], axis=2),
        allowed=np.stack([switched if name == SWITCH else ~switched | switched.all() for name in parts]),
        prior=prior,
        unlikely=np.concatenate(unlikely, axis=1) if len(unlikely) == len(members) else None,
    )


def _under_each(member: Member, parts: Sequence[str]) -> list[tuple[AlgorithmCosts, ...]]:
    """The costs by component: a call uses one protocol on all tiers, so inner tiers run under the protocol of the same name;
    unnamed segments map to the inner tiers' protocols in order."""
    if len(member.inner) < 2:
        return [member.costs]
    inner = dict(member.inner)
    count = sum(name != SWITCH for name in parts)
    return [inner[name_inside(name, min(place, count - 1), count, list(inner))] for place, name in enumerate(parts)]


def name_inside(name: str, place: int, count: int, inner: Sequence[str]) -> str:
    """The inner tiers' protocol that goes with the ``place``-th of ``count`` protocols of the tier under test."""
    if name in inner and not name.startswith(SEGMENT):
        return name
    whole = SPOKEN.get(protocol_of(name))  # a part of a protocol: the whole stands for it
    if whole is not None and whole in inner:
        return whole
    last = len(inner) - 1
    return inner[last * place // (count - 1) if count > 1 else last]


def most_protocols(points: int) -> int:
    """How many protocols this many points can tell apart: three points each."""
    return max(1, min(len(NAMES), points // 3))


def left_out_errors(sample: Sample, members: Sequence[Member]) -> NDArray[np.float64]:
    """Out-of-fold relative errors, fitted/measured - 1; a fold is every fifth size, or a single one where points are few."""
    counts = [int(member.used.sum()) for member in members]
    few = sum(counts) < _ENOUGH
    fold = np.arange(sum(counts)) if few else np.concatenate([np.arange(count) % _FOLDS for count in counts])
    errors = np.full(len(fold), np.nan)
    for index in np.unique(fold):
        unseen = fold == index
        if (~unseen).sum() >= 2:
            judged = sample.only(unseen)
            errors[unseen] = relative_errors(evaluate(fit_envelope(sample.only(~unseen)).theta, judged), judged)
    return errors


def usable(member: Member, prior: Prior) -> tuple[NDArray[np.bool_], tuple[ExcludedSize, ...]]:
    """Which points an envelope of up to three lines can meet, and why the others are left out.

    Such a curve rises with size, and no faster than size: a point far slower than a larger message, or than a smaller one in
    proportion, is off it, and so is one far slower than the best fit of the others.
    """
    points = member.series.points
    if len(points) < _ENOUGH:
        return np.ones(len(points), dtype=bool), ()
    seconds, sizes = (np.array(values) for values in zip(*((p.seconds, p.bytes) for p in points), strict=True))
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
    for run in (list(run) for near, run in groupby(range(len(points)), key=lambda i: bool(used[i])) if not near):
        how = f"{max(float(ratio[i]) for i in run):.2g}x as slow as the rest predicts"
        first, last = (size_text(points[i].bytes) for i in (run[0], run[-1]))
        why = f"outlier at {first}: {how}" if len(run) == 1 else f"no alpha-beta curve from {first} to {last}: up to {how}"
        left += [ExcludedSize(points[i].bytes, why) for i in run]
    return used, tuple(left)
