"""Weighted least squares for ``θ = (launch overhead, α, 1/BW, 1/local copy) >= 0`` with a weak prior on α, batched over many
weightings. Rows are relative, so residuals are relative errors."""

from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

NOISE = 0.05  # relative measurement noise, against which the prior on α is weighed
HUBER = 1.5  # residuals beyond this many spreads are weighed down in inverse proportion
LOOSE = 4.0  # widens both priors where the launch overhead has one too: they share out a sum, and do not move it
_LEAST_SPREAD = 0.003
_PASSES = 3
_MIXED = np.eye(4) + np.diag((0.0, 0.0, 1.0), 1)  # (.., u, v) -> (.., u + v, v)
_UPPER = np.triu_indices(4)
_PLACES = np.array([[0, 1, 2, 3], [1, 4, 5, 6], [2, 5, 7, 8], [3, 6, 8, 9]])  # of the matrix's entries in the upper triangle
_SETS = np.array(list(product((0.0, 1.0), repeat=4)))
_RIDGE = np.array([1e-10, 1e-10, 1e-10, 1e-5])  # one rank count cannot tell a local copy from 1/BW: prefer 1/BW


class Prior(NamedTuple):
    """What is known before measuring. A known launch overhead is held and α takes the rest; otherwise α is held."""

    alpha_s: float
    launch_s: float | None = None

    @property
    def loose(self) -> float:
        return 1.0 if self.launch_s is None else LOOSE


def robust(x: Array, y: Array, mine: NDArray[np.bool_], prior: Prior) -> Array:
    """θ of every set of rows by iteratively reweighted least squares (Huber weights). Shapes: ``x`` (..., rows, 4), ``y`` (...,
    rows) with ``x @ θ = y``, ``mine`` (..., sets, rows) selecting at least two rows each; returns (..., sets, 4)."""
    weight = mine.astype(float)
    theta = np.zeros((*mine.shape[:-1], 4))
    mixed = x @ _MIXED
    products, scale = _products(mixed, y), _largest(np.abs(mixed), mine)
    for _ in range(_PASSES):
        theta = _solved(products, scale, weight, prior, prior_width(theta, prior))
        residual = np.abs(theta @ np.swapaxes(x, -1, -2) - y[..., None, :])
        spread = np.maximum(1.4826 * _median(residual, mine), _LEAST_SPREAD)
        weight = mine * np.minimum(1.0, HUBER * spread[..., None] / np.maximum(residual, 1e-12))
    return theta


def _median(values: Array, mine: NDArray[np.bool_]) -> Array:
    ordered = np.sort(np.where(mine, values, np.inf), axis=-1)
    count = np.maximum(mine.sum(axis=-1, keepdims=True), 1)
    low, high = (np.take_along_axis(ordered, at, axis=-1)[..., 0] for at in ((count - 1) // 2, count // 2))
    return np.asarray((low + high) / 2)


def prior_width(theta: Array, prior: Prior) -> Array:
    """The width of the α prior: the larger of prior and fitted α, so that a large α is not held down."""
    return np.maximum(prior.alpha_s, theta[..., 1]) * prior.loose


def solve(x: Array, y: Array, weight: Array, prior: Prior, width_s: Array) -> Array:
    """θ under every set of weights; shapes as in :func:`robust`, ``width_s`` (..., sets) is the width of the α prior. 1/copy is a
    part of 1/BW: a rank moves its own share at least as fast as its port carries data."""
    mixed = x @ _MIXED
    return _solved(_products(mixed, y), _largest(np.abs(mixed), weight > 0), weight, prior, width_s)


def _launch_width_s(prior: Prior) -> float:
    """The launch overhead itself; α's for a launch overhead of zero, as on hosts."""
    return prior.loose * (prior.launch_s or prior.alpha_s)


def _products(mixed: Array, y: Array) -> Array:
    """Per-row terms of the normal equations: the upper triangle of xxᵀ, then xy; (..., rows, 14)."""
    return np.concatenate([mixed[..., _UPPER[0]] * mixed[..., _UPPER[1]], mixed * y[..., None]], axis=-1)


def _solved(products: Array, scale: Array, weight: Array, prior: Prior, width_s: Array) -> Array:
    sums = weight @ products
    gram = sums[..., _PLACES] / (scale[..., :, None] * scale[..., None, :])
    right = sums[..., len(_UPPER[0]) :] / scale
    diagonal = np.einsum("...ii->...i", gram)  # a view
    diagonal += _RIDGE * np.maximum(diagonal.max(axis=-1, keepdims=True), 1e-9)
    strength = (NOISE / (width_s * scale[..., 1])) ** 2
    gram[..., 1, 1] += strength
    right[..., 1] += strength * prior.alpha_s * scale[..., 1]
    if prior.launch_s is not None:
        held = (NOISE / (_launch_width_s(prior) * scale[..., 0])) ** 2
        gram[..., 0, 0] += held
        right[..., 0] += held * prior.launch_s * scale[..., 0]
    return np.asarray((_non_negative(gram, right) / scale) @ _MIXED.T)


def _largest(values: Array, used: NDArray[np.bool_]) -> Array:
    """Column maxima over each set's rows, 1 where all are 0: (..., sets, 4)."""
    columns = [np.where(used, values[..., None, :, i], 0.0).max(axis=-1) for i in range(values.shape[-1])]
    largest = np.stack(columns, axis=-1)
    return np.where(largest > 0, largest, 1.0)


def _non_negative(gram: Array, right: Array) -> Array:
    """Exact minimum of θ'Gθ/2 - r'θ over θ >= 0: the best feasible one of all active sets."""
    theta = np.linalg.solve(gram, right[..., None])[..., 0]
    bad = (theta < 0).any(axis=-1)
    if bad.any():
        some, aims = gram[bad][:, None], right[bad][:, None]
        kept = some * _SETS[:, :, None] * _SETS[:, None, :] + np.eye(4) * (1 - _SETS[:, :, None])
        parts = np.linalg.solve(kept, (aims * _SETS)[..., None])[..., 0]
        values = np.where((parts >= 0).all(axis=-1), -(aims * parts).sum(axis=-1), np.inf)
        theta[bad] = parts[np.arange(len(parts)), values.argmin(axis=-1)]
    return np.asarray(theta)
