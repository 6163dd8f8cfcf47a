"""The lower envelope of lines that is nearest to measured times, in relative error.

A component is a protocol, or reduction inside the network's switches, which has parameters θ of its
own. A point takes the least, over components and algorithms, of ``offset + x·θ``, with the θ of
:mod:`colltool.calibration.least_squares` and ``x = (1, n_α, n_β·M, own share·M)``. Points are
assigned to components and algorithms, and lines refitted, in turn: a few rounds from many starts,
then more rounds from the best of these (:func:`fit_envelope`).
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.calibration.least_squares import (
    ALPHA,
    LAUNCH,
    PARAMETERS,
    PER_BYTE,
    Array,
    Prior,
    robust_fit,
)

# A component or an algorithm for each point, by number.
Labels = NDArray[np.intp]
# Borders between components to start from: at most so many sizes, evenly spread.
_STARTS = 6
# Rounds of refitting from every start, then from the best few.
_FEW_ROUNDS = 2
_ROUNDS = 12
_BEST_STARTS = 6
# Relative error from which a point counts no more: points far off do not decide between fits.
_MOST_ERROR = 0.5
# Penalty, a relative error, for a point explained by an algorithm the library would not have run.
UNLIKELY = 0.03
# Points that determine a line.
_LEAST_POINTS = 2
# Launch overhead of a component without points: it explains none.
_NEVER_S = 1e6
# Points refitted in one batch, over all starts: more would only take memory.
_POINTS_AT_ONCE = 50_000


class Sample(NamedTuple):
    """Measured points and the costs of each algorithm there.

    Args:
        seconds, sizes: of each point; sizes in bytes.
        x: coefficients of θ, (algorithms, points, 4).
        offset: seconds that θ does not change, (components, algorithms, points); of one component
            where they are alike for all.
        allowed: which algorithms a component may run, (components, algorithms).
        unlikely: where the library would have run another algorithm, (algorithms, points).
    """

    seconds: Array
    sizes: Array
    x: Array
    offset: Array
    allowed: NDArray[np.bool_]
    prior: Prior
    unlikely: NDArray[np.bool_] | None = None

    def only(self, which: NDArray[np.bool_]) -> Sample:
        """The sample of some of the points."""
        return self._replace(
            seconds=self.seconds[which],
            sizes=self.sizes[which],
            x=self.x[:, which],
            offset=self.offset[:, :, which],
            unlikely=None if self.unlikely is None else self.unlikely[:, which],
        )


class Envelope(NamedTuple):
    """A fit: the parameters of each component, and where they put each point."""

    theta: Array  # (components, 4)
    component: Labels  # (points,)
    algorithm: Labels  # (points,)
    fitted: Array  # seconds, (points,)
    loss: Array  # mean relative error and penalty, one number


class _Envelopes(NamedTuple):
    """The fits from several starts: the arrays of :class:`Envelope`, with an axis of starts before
    their own."""

    theta: Array
    component: Labels
    algorithm: Labels
    fitted: Array
    loss: Array

    def start(self, index: int) -> Envelope:
        """The fit from one of the starts."""
        return Envelope(*(part[index] for part in self))


def evaluate(theta: Array, sample: Sample) -> Envelope:
    """The envelope under parameters that are known, (components, 4)."""
    return _evaluate_starts(theta[None], sample).start(0)


def _evaluate_starts(theta: Array, sample: Sample) -> _Envelopes:
    """The envelopes under several sets of parameters, (starts, components, 4)."""
    # every point takes the least of components x algorithms: of 2 x 3 the fifth is component 1
    # running algorithm 1, for 4 // 3 = 1 and 4 % 3 = 1
    starts, components, _ = theta.shape
    algorithms, points, _ = sample.x.shape
    # (starts, components, algorithms, points), then (starts, components x algorithms, points)
    times = np.einsum("anp,scp->scan", sample.x, theta) + sample.offset
    times[:, ~sample.allowed] = np.inf
    flat = times.reshape(starts, components * algorithms, points)
    least = flat.argmin(axis=1)
    # (starts, points): the number of the least among components x algorithms, and its time
    fitted = np.take_along_axis(flat, least[:, None], axis=1)[:, 0]
    loss = np.minimum(np.abs(fitted / sample.seconds - 1), _MOST_ERROR).mean(axis=1)
    if sample.unlikely is not None:
        loss = loss + UNLIKELY * sample.unlikely[least % algorithms, np.arange(points)].mean(axis=1)
    return _Envelopes(theta, least // algorithms, least % algorithms, fitted, loss)


def relative_errors(fit: Envelope, sample: Sample) -> Array:
    """fitted/measured - 1 of each point."""
    return fit.fitted / sample.seconds - 1


def fit_envelope(sample: Sample) -> Envelope:
    """The fit with the least loss from all starts."""
    rough = _refine(sample, *_starts(sample), _FEW_ROUNDS)
    best_starts = np.argsort(rough.loss, kind="stable")[:_BEST_STARTS]
    refined = _refine(sample, rough.component[best_starts], rough.algorithm[best_starts], _ROUNDS)
    return refined.start(int(refined.loss.argmin()))


def _starts(sample: Sample) -> tuple[Labels, Labels]:
    """Components and algorithms to start from, both (starts, points): each component has a range of
    sizes and one algorithm."""
    # two components, four sizes and a cut before the third: points 0 0 1 1, under ring and tree the
    # algorithms 0 0 1 1, 1 1 0 0, 0 0 0 0 ...
    components = len(sample.allowed)
    distinct = np.unique(sample.sizes)
    # a component begins at one of these: below and above it are at least two sizes
    cut_sizes = distinct[_LEAST_POINTS : len(distinct) - _LEAST_POINTS + 1]
    if len(cut_sizes):
        cut_sizes = cut_sizes[np.unique(np.linspace(0, len(cut_sizes) - 1, _STARTS).astype(int))]
    cuts = list(combinations(cut_sizes, components - 1)) or [()]
    mixes = sorted(_mixes(sample))
    component = []
    algorithm = []
    for cut in cuts:
        labels = np.searchsorted(np.array(cut), sample.sizes, side="right")
        for mix in mixes:
            component.append(labels)
            algorithm.append(np.array(mix)[labels])
    return np.stack(component), np.stack(algorithm)


def _mixes(sample: Sample) -> set[tuple[int, ...]]:
    """Algorithms to start from, one for each component."""
    components, algorithms = sample.allowed.shape
    order = np.arange(algorithms)
    mixes = {_first_allowed(sample.allowed, np.roll(order, shift)) for shift in range(algorithms)}
    if algorithms > 1:
        # the algorithm of fewest steps below, the one of fewest bytes above
        low = _first_allowed(sample.allowed, np.argsort(sample.x[:, :, ALPHA].mean(axis=1)))
        high = _first_allowed(sample.allowed, np.argsort(sample.x[:, :, PER_BYTE].sum(axis=1)))
        for split in range(1, components):
            mixes.add((*low[:split], *high[split:]))
    return mixes


def _first_allowed(allowed: NDArray[np.bool_], order: Labels) -> tuple[int, ...]:
    """The first algorithm in this order that each component may run."""
    return tuple(order[allowed[:, order].argmax(axis=1)].tolist())


def _refine(sample: Sample, component: Labels, algorithm: Labels, rounds: int) -> _Envelopes:
    """Every start refitted and reassigned until it converges, in batches."""
    starts_at_once = max(1, _POINTS_AT_ONCE // len(sample.seconds))
    parts = []
    for begin in range(0, len(component), starts_at_once):
        batch = slice(begin, begin + starts_at_once)
        parts.append(_refine_batch(sample, component[batch], algorithm[batch], rounds))
    return _Envelopes(*map(np.concatenate, zip(*parts, strict=True)))


def _refine_batch(sample: Sample, component: Labels, algorithm: Labels, rounds: int) -> _Envelopes:
    """The best envelope seen from each start of a batch, as refitting may cycle; ``component`` and
    ``algorithm`` are (starts, points)."""
    starts = len(component)
    theta = np.zeros((starts, len(sample.allowed), PARAMETERS))
    theta[:, :, LAUNCH] = _NEVER_S
    nothing_yet = np.full(starts, np.inf)
    best = _Envelopes(
        theta, component.copy(), algorithm.copy(), np.zeros(component.shape), nothing_yet
    )
    # The starts that have not converged: theta, component and algorithm hold these alone. Of starts
    # 0 to 3, where the second has converged, 0, 2 and 3.
    active = np.arange(starts)
    for _ in range(rounds):
        theta = _refit_lines(sample, component, algorithm, theta)
        fits = _evaluate_starts(theta, sample)
        _keep_better(best, fits, active)
        changed = ((fits.component != component) | (fits.algorithm != algorithm)).any(axis=1)
        if not changed.any():
            break
        active = active[changed]
        theta = theta[changed]
        component = fits.component[changed]
        algorithm = fits.algorithm[changed]
    return best


def _refit_lines(sample: Sample, component: Labels, algorithm: Labels, last_theta: Array) -> Array:
    """θ fitted to the points of each component, (starts, components, 4). A component with too few
    points keeps its last one."""
    # (starts, components, points): of components 0 0 1 of three points, T T F and F F T
    of_component = component[:, None, :] == np.arange(last_theta.shape[1])[:, None]
    has_enough = of_component.sum(axis=-1) >= _LEAST_POINTS
    # rows depend on the start through its algorithms and offsets: where there is one of each, the
    # rows of one start are those of all
    if len(sample.x) == len(sample.offset) == 1:
        algorithm, component = algorithm[:1], component[:1]
    x, y = relative_rows(sample, algorithm, component)
    return np.where(
        has_enough[:, :, None], robust_fit(x, y, of_component, sample.prior), last_theta
    )


def _keep_better(best: _Envelopes, fits: _Envelopes, active: Labels) -> None:
    """Overwrite the best fits, in their arrays, where those of the active starts lose less."""
    better = fits.loss < best.loss[active]
    for best_part, new_part in zip(best, fits, strict=True):
        best_part[active[better]] = new_part[better]


def refitted(fit: Envelope, sample: Sample) -> Envelope:
    """A fit to a sample of other costs, with every point in its component and algorithm."""
    theta = _refit_lines(
        sample, fit.component[None], fit.algorithm[None], last_theta=fit.theta[None]
    )
    return _evaluate_starts(theta, sample).start(0)


def relative_rows(sample: Sample, algorithm: Labels, component: Labels) -> tuple[Array, Array]:
    """Rows x/t and targets 1 - offset/t of the points under their algorithm and component, so that
    residuals are relative errors."""
    points = np.arange(len(sample.seconds))
    x = sample.x[algorithm, points] / sample.seconds[:, None]
    offset_of = component if len(sample.offset) > 1 else np.zeros_like(component)
    return x, 1 - sample.offset[offset_of, algorithm, points] / sample.seconds
