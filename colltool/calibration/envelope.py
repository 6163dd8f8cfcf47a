"""A lower envelope of lines fitted robustly to measured times, on relative error.

A point takes the least, over components (protocols) and algorithms, of ``offset + x·θ`` with
``θ = (launch overhead, α, 1/BW, 1/local copy) >= 0`` and ``x = (1, n_α, n_β·M, own share·M)``.
Points are assigned and lines refitted in turn, from many starts:
weighted least squares with a weak prior on α, batched over many weightings. Rows are relative, so
residuals are relative errors.
"""

from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
NOISE = 0.05  # relative measurement noise, against which the prior on α is weighed
HUBER = 1.5  # residuals beyond this many spreads are weighed down in inverse proportion
# widens both priors where the launch overhead has one too: they share out a sum, and do not move it
LOOSE = 4.0
_LEAST_SPREAD = 0.003
_PASSES = 3
_MIXED = np.eye(4) + np.diag((0.0, 0.0, 1.0), 1)  # (.., u, v) -> (.., u + v, v)
_UPPER = np.triu_indices(4)
# of the matrix's entries in the upper triangle
_PLACES = np.array([[0, 1, 2, 3], [1, 4, 5, 6], [2, 5, 7, 8], [3, 6, 8, 9]])
_SETS = np.array(list(product((0.0, 1.0), repeat=4)))
# one rank count cannot tell a local copy from 1/BW: prefer 1/BW
_RIDGE = np.array([1e-10, 1e-10, 1e-10, 1e-5])


class Prior(NamedTuple):
    """What is known before measuring. A known launch overhead is held and α takes the rest;
    otherwise α is held."""

    alpha_s: float
    launch_s: float | None = None

    @property
    def loose(self) -> float:
        return 1.0 if self.launch_s is None else LOOSE


def robust(x: Array, y: Array, mine: NDArray[np.bool_], prior: Prior) -> Array:
    """θ of every set of rows by iteratively reweighted least squares (Huber weights). Shapes: ``x``
    (..., rows, 4), ``y`` (..., rows) with ``x @ θ = y``, ``mine`` (..., sets, rows) selecting at
    least two rows each; returns (..., sets, 4)."""
    weight = mine.astype(float)
    theta = np.zeros((*mine.shape[:-1], 4))
    mixed = x @ _MIXED
    products = _products(mixed, y)
    scale = _largest(np.abs(mixed), mine)
    count = np.maximum(mine.sum(axis=-1, keepdims=True), 1)
    for _ in range(_PASSES):
        theta = _solved(products, scale, weight, prior, prior_width(theta, prior))
        residual = np.abs(theta @ np.swapaxes(x, -1, -2) - y[..., None, :])
        ordered = np.sort(np.where(mine, residual, np.inf), axis=-1)
        # the median of each set's residuals, as a standard deviation
        low = np.take_along_axis(ordered, (count - 1) // 2, axis=-1)
        high = np.take_along_axis(ordered, count // 2, axis=-1)
        spread = np.maximum(1.4826 * (low + high) / 2, _LEAST_SPREAD)
        weight = mine * np.minimum(1.0, HUBER * spread / np.maximum(residual, 1e-12))
    return theta


def prior_width(theta: Array, prior: Prior) -> Array:
    """The width of the α prior: the larger of prior and fitted α, so that a large α is not held
    down."""
    return np.maximum(prior.alpha_s, theta[..., 1]) * prior.loose


def solve(x: Array, y: Array, weight: Array, prior: Prior, width_s: Array) -> Array:
    """θ under every set of weights; shapes as in :func:`robust`, ``width_s`` (..., sets) is the
    width of the α prior. 1/copy is a part of 1/BW: a rank moves its own share at least as fast as
    its port carries data."""
    mixed = x @ _MIXED
    return _solved(_products(mixed, y), _largest(np.abs(mixed), weight > 0), weight, prior, width_s)


def _products(mixed: Array, y: Array) -> Array:
    """Per-row terms of the normal equations: the upper triangle of xxᵀ, then xy; (..., rows,
    14)."""
    return np.concatenate(
        [mixed[..., _UPPER[0]] * mixed[..., _UPPER[1]], mixed * y[..., None]], axis=-1
    )


def _solved(products: Array, scale: Array, weight: Array, prior: Prior, width_s: Array) -> Array:
    sums = weight @ products
    gram = sums[..., _PLACES] / (scale[..., :, None] * scale[..., None, :])
    right = sums[..., len(_UPPER[0]) :] / scale
    diagonal = np.einsum("...ii->...i", gram)  # a view
    diagonal += _RIDGE * np.maximum(diagonal.max(axis=-1, keepdims=True), 1e-9)
    # each prior is one more row, of a width in units of the noise
    priors = [(1, prior.alpha_s, width_s)]
    if prior.launch_s is not None:
        # hosts launch nothing: 0 s
        launch_width_s = prior.loose * (prior.launch_s or prior.alpha_s)
        priors.append((0, prior.launch_s, np.asarray(launch_width_s)))
    for column, expected_s, width in priors:
        strength = (NOISE / (width * scale[..., column])) ** 2
        gram[..., column, column] += strength
        right[..., column] += strength * expected_s * scale[..., column]
    return np.asarray((_non_negative(gram, right) / scale) @ _MIXED.T)


def _largest(values: Array, used: NDArray[np.bool_]) -> Array:
    """Column maxima over each set's rows, 1 where all are 0: (..., sets, 4)."""
    largest = np.where(used[..., None], values[..., None, :, :], 0.0).max(axis=-2)
    return np.where(largest > 0, largest, 1.0)


def _non_negative(gram: Array, right: Array) -> Array:
    """Exact minimum of θ'Gθ/2 - r'θ over θ >= 0: the best feasible one of all active sets."""
    theta = np.linalg.solve(gram, right[..., None])[..., 0]
    bad = (theta < 0).any(axis=-1)
    if bad.any():
        some = gram[bad][:, None]
        aims = right[bad][:, None]
        # a parameter outside the active set is solved as 0
        kept = some * _SETS[:, :, None] * _SETS[:, None, :] + np.eye(4) * (1 - _SETS[:, :, None])
        parts = np.linalg.solve(kept, (aims * _SETS)[..., None])[..., 0]
        values = np.where((parts >= 0).all(axis=-1), -(aims * parts).sum(axis=-1), np.inf)
        theta[bad] = parts[np.arange(len(parts)), values.argmin(axis=-1)]
    return np.asarray(theta)


Labels = NDArray[np.intp]
_STARTS = 6
_FEW_ROUNDS = 2
_ROUNDS = 12
_HOPEFUL = 6
_CLIPPED = 0.5
# penalty (relative error) for a point explained by an algorithm the library would not have run
UNLIKELY = 0.03
_AT_LEAST = 2
_NEVER = 1e6  # seconds of launch overhead of a component without points: it explains none
_TOGETHER = 50_000  # points refitted in one batch, over all starts: more would only take memory


class Sample(NamedTuple):
    """Measured points and the costs of each algorithm there.

    ``x`` (algorithms, points, 4); ``offset`` (components, algorithms, points): fixed seconds, one
    component where alike for all; ``allowed`` (components, algorithms); ``unlikely`` (algorithms,
    points): the library would have run another one.
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
    """A fit: ``theta`` (components, 4); the winning component and algorithm and the fitted seconds
    of each point; the loss. Or several, stacked along a leading axis of starts."""

    theta: Array
    component: Labels
    algorithm: Labels
    fitted: Array
    loss: Array

    def start(self, index: int) -> "Envelope":
        """The fit from one of the starts."""
        return Envelope(*(part[index] for part in self))


def evaluate(theta: Array, sample: Sample) -> Envelope:
    return _evaluated(theta[None], sample).start(0)


def _evaluated(theta: Array, sample: Sample) -> Envelope:
    starts, components, _ = theta.shape
    algorithms, points, _ = sample.x.shape
    times = np.einsum("anp,scp->scan", sample.x, theta) + sample.offset
    times[:, ~sample.allowed] = np.inf
    flat = times.reshape(starts, components * algorithms, points)
    best = flat.argmin(axis=1)
    fitted = np.take_along_axis(flat, best[:, None], axis=1)[:, 0]
    # points far off do not steer it
    loss = np.minimum(np.abs(fitted / sample.seconds - 1), _CLIPPED).mean(axis=1)
    if sample.unlikely is not None:
        loss = loss + UNLIKELY * sample.unlikely[best % algorithms, np.arange(points)].mean(axis=1)
    return Envelope(theta, best // algorithms, best % algorithms, fitted, loss)


def relative_errors(fit: Envelope, sample: Sample) -> Array:
    return fit.fitted / sample.seconds - 1


def fit_envelope(sample: Sample) -> Envelope:
    first = _refined(sample, *_starts(sample), _FEW_ROUNDS)
    hopeful = np.argsort(first.loss, kind="stable")[:_HOPEFUL]
    last = _refined(sample, first.component[hopeful], first.algorithm[hopeful], _ROUNDS)
    return last.start(int(last.loss.argmin()))


def _starts(sample: Sample) -> tuple[Labels, Labels]:
    """Initial components and algorithms, (starts, points): ranges of sizes, each with one
    algorithm."""
    components = len(sample.allowed)
    distinct = np.unique(sample.sizes)
    # a range has at least two sizes
    inner = distinct[_AT_LEAST : len(distinct) - _AT_LEAST + 1]
    if len(inner):
        inner = inner[np.unique(np.linspace(0, len(inner) - 1, _STARTS).astype(int))]
    cuts = list(combinations(inner, components - 1)) or [()]
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
    """Algorithms to start with, one for each component."""
    components, algorithms = sample.allowed.shape
    order = np.arange(algorithms)
    found = set()
    for turn in range(algorithms):
        found.add(_first_allowed(sample.allowed, np.roll(order, turn)))
    if algorithms > 1:
        # the algorithm of fewest steps below, the one of fewest bytes above
        low = _first_allowed(sample.allowed, np.argsort(sample.x[:, :, 1].mean(axis=1)))
        high = _first_allowed(sample.allowed, np.argsort(sample.x[:, :, 2].sum(axis=1)))
        for split in range(1, components):
            found.add((*low[:split], *high[split:]))
    return found


def _first_allowed(allowed: NDArray[np.bool_], order: Labels) -> tuple[int, ...]:
    """The first algorithm in this order that each component may run."""
    return tuple(order[allowed[:, order].argmax(axis=1)].tolist())


def _refined(sample: Sample, component: Labels, algorithm: Labels, rounds: int) -> Envelope:
    """Refit and reassign every start until it converges; keeps the best seen, since it may
    cycle."""
    together = max(1, _TOGETHER // len(sample.seconds))
    parts = []
    for first in range(0, len(component), together):
        batch = slice(first, first + together)
        parts.append(_refined_together(sample, component[batch], algorithm[batch], rounds))
    return Envelope(*map(np.concatenate, zip(*parts, strict=True)))


def _refined_together(
    sample: Sample, component: Labels, algorithm: Labels, rounds: int
) -> Envelope:
    starts = len(component)
    components = len(sample.allowed)
    theta = np.zeros((starts, components, 4))
    theta[:, :, 0] = _NEVER
    never = np.full(starts, np.inf)
    best = Envelope(theta, component.copy(), algorithm.copy(), np.zeros(component.shape), never)
    # the starts that have not converged
    moving = np.arange(starts)
    for _ in range(rounds):
        mine = component[:, None, :] == np.arange(components)[:, None]
        enough = mine.sum(axis=-1) >= _AT_LEAST
        # with one algorithm all starts share the rows
        shared = len(sample.x) == len(sample.offset) == 1
        own = slice(1) if shared else slice(None)
        rows = relative_rows(sample, algorithm[own], component[own])
        theta = np.where(enough[:, :, None], robust(*rows, mine, sample.prior), theta)
        fits = _evaluated(theta, sample)
        better = fits.loss < best.loss[moving]
        for kept, found in zip(best, fits, strict=True):
            kept[moving[better]] = found[better]
        changed = ((fits.component != component) | (fits.algorithm != algorithm)).any(axis=1)
        if not changed.any():
            break
        moving = moving[changed]
        theta = theta[changed]
        component = fits.component[changed]
        algorithm = fits.algorithm[changed]
    return best


def refitted(fit: Envelope, sample: Sample) -> Envelope:
    """A fit to other costs, its points labelled as before."""
    rows = relative_rows(sample, fit.algorithm, fit.component)
    mine = fit.component == np.arange(len(fit.theta))[:, None]
    theta = np.where((mine.sum(axis=1) > 1)[:, None], robust(*rows, mine, sample.prior), fit.theta)
    return evaluate(theta, sample)


def relative_rows(sample: Sample, algorithm: Labels, component: Labels) -> tuple[Array, Array]:
    """Rows x/t and targets 1 - offset/t of the points as labelled, so that residuals are relative
    errors."""
    points = np.arange(len(sample.seconds))
    x = sample.x[algorithm, points] / sample.seconds[:, None]
    own = component if len(sample.offset) > 1 else np.zeros_like(component)
    return x, 1 - sample.offset[own, algorithm, points] / sample.seconds


DRAWS = 200
_DRAWN_TOGETHER = 200_000  # weights drawn in one batch


class Certainty(NamedTuple):
    """95% intervals of one component's θ, (4, 2), and whether its points separate α from the launch
    overhead."""

    ci95: Array
    alpha_is_determined: bool


def certainty(sample: Sample, fit: Envelope, component: int) -> Certainty:
    """Confidence intervals by Bayesian bootstrap, with the assignment of points held fixed."""
    unknown = np.full((4, 2), np.nan)
    mine = fit.component == component
    if not mine.any():
        return Certainty(unknown, alpha_is_determined=False)
    all_x, all_y = relative_rows(sample, fit.algorithm, fit.component)
    x = all_x[mine]
    y = all_y[mine]
    theta = fit.theta[component]
    width_s = float(prior_width(theta, sample.prior))
    # whether the points constrain α more than the prior does, the other parameters free to follow;
    # not so where all points take equally many steps (α and launch overhead are one sum) or are too
    # large to feel a step
    scale = np.abs(x).max(axis=0)
    others = (x / np.where(scale > 0, scale, 1.0))[:, [0, 2, 3]]
    left = x[:, 1] - others @ np.linalg.lstsq(others, x[:, 1], rcond=1e-9)[0]
    determined = bool((left**2).sum() > (NOISE / width_s) ** 2)
    count = len(y)
    if count <= 2:
        return Certainty(unknown, determined)
    random = np.random.default_rng(0)
    together = max(1, min(DRAWS, _DRAWN_TOGETHER // count))
    draws = []
    for first in range(0, DRAWS, together):
        weight = random.exponential(size=(min(together, DRAWS - first), count))
        draws.append(solve(x, y, weight, sample.prior, np.full(len(weight), width_s)))
    low, high = np.percentile(np.concatenate(draws), (2.5, 97.5), axis=0)
    # theta is robust, unlike the draws: it may lie outside their interval
    ci95 = np.stack([np.minimum(low, theta), np.maximum(high, theta)], axis=1)
    return Certainty(ci95, determined)
