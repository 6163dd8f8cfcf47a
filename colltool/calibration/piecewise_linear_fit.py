"""A lower envelope of lines fitted robustly to measured times, on relative error.

A point takes the least, over components (protocols) and algorithms, of ``offset + x·θ`` with ``θ = (launch overhead, α, 1/BW,
1/local copy) >= 0`` and ``x = (1, n_α, n_β·M, own share·M)``. Points are assigned and lines refitted in turn, from many starts.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.calibration.least_squares import NOISE, Array, Prior, prior_width, robust, solve

Labels = NDArray[np.intp]

_STARTS = 6
_FEW_ROUNDS, _ROUNDS = 2, 12
_HOPEFUL = 6
_CLIPPED = 0.5
UNLIKELY = 0.03  # penalty (relative error) for a point explained by an algorithm the library would not have run
_AT_LEAST = 2
_NEVER = 1e6  # seconds of launch overhead of a component without points: it explains none
_TOGETHER = 50_000  # points refitted in one batch, over all starts: more would only take memory


class Sample(NamedTuple):
    """Measured points and the costs of each algorithm there.

    ``x`` (algorithms, points, 4); ``offset`` (components, algorithms, points): fixed seconds, one component where alike for all;
    ``allowed`` (components, algorithms); ``unlikely`` (algorithms, points): the library would have run another one.
    """

    seconds: Array
    sizes: Array
    x: Array
    offset: Array
    allowed: NDArray[np.bool_]
    prior: Prior
    unlikely: NDArray[np.bool_] | None = None

    def only(self, which: NDArray[np.bool_]) -> "Sample":
        return self._replace(
            seconds=self.seconds[which],
            sizes=self.sizes[which],
            x=self.x[:, which],
            offset=self.offset[:, :, which],
            unlikely=None if self.unlikely is None else self.unlikely[:, which],
        )


class Envelope(NamedTuple):
    """A fit: ``theta`` (components, 4); the winning component and algorithm and the fitted seconds of each point."""

    theta: Array
    component: Labels
    algorithm: Labels
    fitted: Array


def evaluate(theta: Array, sample: Sample) -> Envelope:
    return _evaluated(theta[None], sample).one(0)


class _Fits(NamedTuple):
    """Envelopes with their losses, stacked along a leading axis of starts."""

    theta: Array
    component: Labels
    algorithm: Labels
    fitted: Array
    loss: Array

    def one(self, start: int) -> Envelope:
        return Envelope(self.theta[start], self.component[start], self.algorithm[start], self.fitted[start])


def _evaluated(theta: Array, sample: Sample) -> _Fits:
    starts, components, _ = theta.shape
    algorithms, points, _ = sample.x.shape
    times = np.einsum("anp,scp->scan", sample.x, theta) + sample.offset
    times[:, ~sample.allowed] = np.inf
    flat = times.reshape(starts, components * algorithms, points)
    best = flat.argmin(axis=1)
    fitted = np.take_along_axis(flat, best[:, None], axis=1)[:, 0]
    loss = np.minimum(np.abs(fitted / sample.seconds - 1), _CLIPPED).mean(axis=1)  # points far off do not steer it
    if sample.unlikely is not None:
        loss = loss + UNLIKELY * sample.unlikely[best % algorithms, np.arange(points)].mean(axis=1)
    return _Fits(theta, best // algorithms, best % algorithms, fitted, loss)


def relative_errors(fit: Envelope, sample: Sample) -> Array:
    return fit.fitted / sample.seconds - 1


def fit_envelope(sample: Sample) -> Envelope:
    first = _refined(sample, *_starts(sample), _FEW_ROUNDS)
    hopeful = np.argsort(first.loss, kind="stable")[:_HOPEFUL]
    last = _refined(sample, first.component[hopeful], first.algorithm[hopeful], _ROUNDS)
    return last.one(int(last.loss.argmin()))


def _starts(sample: Sample) -> tuple[Labels, Labels]:
    """Initial components and algorithms, (starts, points): ranges of sizes, each with one algorithm."""
    components, algorithms = sample.allowed.shape
    distinct = np.unique(sample.sizes)
    inner = distinct[_AT_LEAST : len(distinct) - _AT_LEAST + 1]
    places = inner[np.unique(np.linspace(0, len(inner) - 1, _STARTS).astype(int))] if len(inner) else inner
    cuts = list(combinations(places, components - 1)) or [()]
    mixes = {tuple(_first_allowed(sample.allowed, np.roll(np.arange(algorithms), turn))) for turn in range(algorithms)}
    if algorithms > 1:  # the algorithm of fewest steps below, the one of fewest bytes above
        steps, load = sample.x[:, :, 1].mean(axis=1), sample.x[:, :, 2].sum(axis=1)
        low, high = _first_allowed(sample.allowed, np.argsort(steps)), _first_allowed(sample.allowed, np.argsort(load))
        mixes |= {(*low[:split], *high[split:]) for split in range(1, components)}
    starts = []
    for cut in cuts:
        component = np.searchsorted(np.array(cut), sample.sizes, side="right")
        starts += [(component, np.array(mix)[component]) for mix in sorted(mixes)]
    component, algorithm = (np.stack(labels) for labels in zip(*starts, strict=True))
    return component, algorithm


def _first_allowed(allowed: NDArray[np.bool_], order: Labels) -> list[int]:
    return [int(next(a for a in order if may[a])) for may in allowed]


def _refined(sample: Sample, component: Labels, algorithm: Labels, rounds: int) -> _Fits:
    """Refit and reassign every start until it converges; keeps the best seen, since it may cycle."""
    together = max(1, _TOGETHER // len(sample.seconds))
    parts = [
        _refined_together(sample, component[at : at + together], algorithm[at : at + together], rounds)
        for at in range(0, len(component), together)
    ]
    return _Fits(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _refined_together(sample: Sample, component: Labels, algorithm: Labels, rounds: int) -> _Fits:
    starts, components = len(component), sample.allowed.shape[0]
    theta = np.zeros((starts, components, 4))
    theta[:, :, 0] = _NEVER
    best = _Fits(theta, component.copy(), algorithm.copy(), np.zeros(component.shape), np.full(starts, np.inf))
    moving = np.arange(starts)
    for _ in range(rounds):
        mine = component[:, None, :] == np.arange(components)[:, None]
        enough = mine.sum(axis=-1) >= _AT_LEAST
        shared = len(sample.x) == len(sample.offset) == 1  # with one algorithm all starts share the rows
        rows = relative_rows(sample, algorithm[:1], component[:1]) if shared else relative_rows(sample, algorithm, component)
        theta = np.where(enough[:, :, None], robust(*rows, mine, sample.prior), theta)
        fits = _evaluated(theta, sample)
        better = fits.loss < best.loss[moving]
        for kept, found in zip(best, fits, strict=True):
            kept[moving[better]] = found[better]
        changed = ((fits.component != component) | (fits.algorithm != algorithm)).any(axis=1)
        if not changed.any():
            break
        moving, theta, component, algorithm = (array[changed] for array in (moving, theta, fits.component, fits.algorithm))
    return best


def relative_rows(sample: Sample, algorithm: Labels, component: Labels) -> tuple[Array, Array]:
    """Rows x/t and targets 1 - offset/t of the points as labelled, so that residuals are relative errors."""
    points = np.arange(len(sample.seconds))
    x = sample.x[algorithm, points] / sample.seconds[:, None]
    own = component if len(sample.offset) > 1 else np.zeros_like(component)
    return x, 1 - sample.offset[own, algorithm, points] / sample.seconds


DRAWS = 200
_DRAWN_TOGETHER = 200_000  # weights drawn in one batch


class Certainty(NamedTuple):
    """95% intervals of one component's θ, (4, 2), and whether its points separate α from the launch overhead."""

    ci95: Array
    alpha_is_told: bool


def certainty(sample: Sample, fit: Envelope, component: int) -> Certainty:
    """Confidence intervals by Bayesian bootstrap, with the assignment of points held fixed."""
    mine = fit.component == component
    if not mine.any():
        return Certainty(np.full((4, 2), np.nan), alpha_is_told=False)
    x, y = (rows[mine] for rows in relative_rows(sample, fit.algorithm, fit.component))
    random = np.random.default_rng(0)
    count = len(y)
    width = float(prior_width(fit.theta[component], sample.prior))
    if count <= 2:
        return Certainty(np.full((4, 2), np.nan), _told(x, width))
    together = max(1, min(DRAWS, _DRAWN_TOGETHER // count))
    draws = [
        solve(x, y, random.exponential(size=(some, count)), sample.prior, np.full(some, width))
        for some in np.diff([*range(0, DRAWS, together), DRAWS])
    ]
    low, high = np.percentile(np.concatenate(draws), (2.5, 97.5), axis=0)
    theta = fit.theta[component]  # robust, unlike the draws: it may lie outside their interval
    return Certainty(np.stack([np.minimum(low, theta), np.maximum(high, theta)], axis=1), _told(x, width))


def _told(x: Array, width_s: float) -> bool:
    """Whether the points constrain α more than the prior does, the other parameters free to follow. Not so where all points take
    equally many steps (α and launch overhead are one sum) or are too large to feel a step."""
    scale = np.abs(x).max(axis=0)
    others = x[:, [0, 2, 3]] / np.where(scale > 0, scale, 1.0)[[0, 2, 3]]
    left = x[:, 1] - others @ np.linalg.lstsq(others, x[:, 1], rcond=1e-9)[0]
    return bool((left**2).sum() > (NOISE / width_s) ** 2)
