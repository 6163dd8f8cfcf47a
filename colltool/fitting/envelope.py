"""The numbers of a fit: a lower envelope of lines through measured times, robust and on relative error.

A point's time is the least, over components (protocols) and algorithms, of ``offset + x·θ`` with ``θ = (launch overhead,
α, 1/BW, 1/local copy)``, all at least 0, and ``x = (1, n_α, n_β·M, own share·M)``. Which component explains which point is
found by assigning and refitting in turn, from many starts.
"""

from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Labels = NDArray[np.intp]

NOISE = 0.05
"""Relative error that is taken for granted: what the weak prior on α is weighed against."""
_STARTS = 6
_FEW_ROUNDS, _ROUNDS = 2, 12
_HOPEFUL = 6
_HUBER = 1.5
_CLIPPED = 0.5
_AT_LEAST = 2
_MIXED = np.eye(4) + np.diag((0.0, 0.0, 1.0), 1)  # (.., u, v) -> (.., u + v, v)
_SETS = np.array(list(product((0.0, 1.0), repeat=4)))
_RIDGE = np.array([1e-10, 1e-10, 1e-10, 1e-5])  # what one rank count cannot tell from 1/BW is not called a local copy


class Sample(NamedTuple):
    """Measured points with what each algorithm would spend on them.

    Args:
        seconds, sizes: (points,), s and bytes.
        x: (algorithms, points, 4): see the module.
        offset: (algorithms, points): seconds that no parameter moves.
        allowed: (components, algorithms): which algorithm a component may run.
        alpha_s: α before any measurement: held where the data cannot tell it, and a weak prior where they can.
    """

    seconds: Array
    sizes: Array
    x: Array
    offset: Array
    allowed: NDArray[np.bool_]
    alpha_s: float

    def only(self, which: NDArray[np.bool_]) -> "Sample":
        """Some of the points."""
        return self._replace(
            seconds=self.seconds[which], sizes=self.sizes[which], x=self.x[:, which], offset=self.offset[:, which]
        )


class Envelope(NamedTuple):
    """A fit: ``theta`` (components, 4); ``component`` and ``algorithm`` of each point, ``fitted`` seconds."""

    theta: Array
    component: Labels
    algorithm: Labels
    fitted: Array


def evaluate(theta: Array, sample: Sample) -> Envelope:
    """The envelope's times at the points of a sample."""
    times = np.einsum("anp,cp->can", sample.x, theta) + sample.offset
    times[~sample.allowed] = np.inf
    components, algorithms, points = times.shape
    flat = times.reshape(components * algorithms, points)
    best = flat.argmin(axis=0)
    return Envelope(theta, best // algorithms, best % algorithms, flat[best, np.arange(points)])


def relative_errors(fit: Envelope, sample: Sample) -> Array:
    """fitted/measured - 1 at each point."""
    return fit.fitted / sample.seconds - 1


def fit_envelope(sample: Sample) -> Envelope:
    """The best envelope found from many starts; the loss forgives what lies far off, since cliffs do."""
    first = [_refined(sample, component, algorithm, _FEW_ROUNDS) for component, algorithm in _starts(sample)]
    hopeful = sorted(first, key=lambda fit: _loss(fit, sample))[:_HOPEFUL]
    return min((_refined(sample, fit.component, fit.algorithm, _ROUNDS) for fit in hopeful), key=lambda fit: _loss(fit, sample))


def _loss(fit: Envelope, sample: Sample) -> float:
    return float(np.minimum(np.abs(relative_errors(fit, sample)), _CLIPPED).mean())


def _starts(sample: Sample) -> list[tuple[Labels, Labels]]:
    """Assignments to begin with: sizes cut into as many ranges as components, each range with one algorithm."""
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
    return starts


def _first_allowed(allowed: NDArray[np.bool_], order: Labels) -> list[int]:
    """For each component the first algorithm in that order that it may run."""
    return [int(next(a for a in order if may[a])) for may in allowed]


def _refined(sample: Sample, component: Labels, algorithm: Labels, rounds: int) -> Envelope:
    """Refit and reassign until nothing changes; the best on the way, since it may go round in circles."""
    theta = np.zeros((sample.allowed.shape[0], 4))
    theta[:, 0] = np.inf  # a component without points explains none
    best, least = None, np.inf
    for _ in range(rounds):
        for c in range(len(theta)):
            mine = component == c
            if mine.sum() >= _AT_LEAST:
                theta[c] = fit_component(sample, mine, algorithm)
        fit = evaluate(np.where(np.isfinite(theta), theta, 1e6), sample)
        loss = _loss(fit, sample)
        if loss < least:
            best, least = fit, loss
        if (fit.component == component).all() and (fit.algorithm == algorithm).all():
            break
        component, algorithm = fit.component, fit.algorithm
    assert best is not None  # there is at least one round, and a loss is never infinite
    return best


def fit_component(sample: Sample, mine: NDArray[np.bool_], algorithm: Labels) -> Array:
    """θ of one component from its points: weighted least squares on relative error, large residuals weighed down."""
    x, y = relative_rows(sample, mine, algorithm)
    weight = np.ones(len(y))
    theta = np.zeros(4)
    for _ in range(3):
        theta = solve(x, y, weight, sample.alpha_s, prior_width(theta, sample.alpha_s))
        residual = np.abs(x @ theta - y)
        spread = max(1.4826 * float(np.median(residual)), 0.003)
        weight = np.minimum(1.0, _HUBER * spread / np.maximum(residual, 1e-12))
    return theta


def relative_rows(sample: Sample, mine: NDArray[np.bool_], algorithm: Labels) -> tuple[Array, Array]:
    """Rows x/t and targets 1 - offset/t of a component's points: residuals are relative errors."""
    index = np.flatnonzero(mine)
    chosen = algorithm[index]
    t = sample.seconds[index]
    return sample.x[chosen, index] / t[:, None], 1 - sample.offset[chosen, index] / t


def prior_width(theta: Array, alpha_s: float) -> float:
    """How far from the given α one lies that is off by a factor of two: its own size, so that a large one is not held down."""
    return max(alpha_s, float(theta[1]))


def solve(x: Array, y: Array, weight: Array, alpha_s: float, width_s: float) -> Array:
    """Least squares with θ >= 0 and a weak prior: α as given, give or take the width.

    A rank's own share moves at least as fast as what its port carries: 1/copy is a part of 1/BW.
    """
    theta = _bounded(x @ _MIXED, y, weight, alpha_s, width_s)
    return np.asarray(_MIXED @ theta)


def _bounded(x: Array, y: Array, weight: Array, alpha_s: float, width_s: float) -> Array:
    scale = np.abs(x).max(axis=0)
    scale[scale == 0] = 1.0
    scaled = x / scale
    gram = scaled.T @ (scaled * weight[:, None])
    right = scaled.T @ (y * weight)
    gram[np.diag_indices(4)] += _RIDGE * gram.diagonal().max()
    strength = (NOISE / (width_s * scale[1])) ** 2
    gram[1, 1] += strength
    right[1] += strength * alpha_s * scale[1]
    return np.asarray(_non_negative(gram, right) / scale)


def _non_negative(gram: Array, right: Array) -> Array:
    """The minimum of θ'Gθ/2 - r'θ over θ >= 0, exactly: of all sets of positive parameters the best feasible one."""
    theta = np.asarray(np.linalg.solve(gram, right))
    if (theta >= 0).all():
        return theta
    kept = gram * _SETS[:, :, None] * _SETS[:, None, :] + np.eye(4) * (1 - _SETS[:, :, None])
    parts = np.linalg.solve(kept, (right * _SETS)[:, :, None])[:, :, 0]
    values = np.where((parts >= 0).all(axis=1), -(right * parts).sum(axis=1), np.inf)
    return np.asarray(parts[values.argmin()])
