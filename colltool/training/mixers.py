"""Operations that mix the tokens of a sequence: attention of all kinds, recurrences, convolutions.

``data/operations.toml`` describes each by its matrices, from which parameters, GEMMs, KV caches and
the names of modules follow. A :class:`Mixer` is one of them with its sizes, and the share of a
model's layers that have it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

Terms = tuple[tuple[float, tuple[str, ...]], ...]  # a sum of products: (number, names) each
Sizes = Mapping[str, float]


def terms_of(text: str) -> Terms:
    """Read a sum of products.

    >>> terms_of("2*heads*head_dim + 3")
    ((2, ('heads', 'head_dim')), (3, ()))
    """
    terms = []
    for product in filter(None, text.split("+")):
        number: float = 1
        names = []
        for word in product.split("*"):
            factor = word.strip()
            if factor.isdecimal():
                number *= int(factor)
            elif factor[:1].isdecimal():
                number *= float(factor)
            else:
                names.append(factor)
        terms.append((number, tuple(names)))
    return tuple(terms)


def value_of(terms: Terms, sizes: Sizes) -> float:
    """Return the value of a sum of products."""
    total: float = 0
    for number, names in terms:
        product: float = number
        for name in names:
            product *= sizes[name]
        total += product
    return total


class Weights(NamedTuple):
    """Matrices with the same input, which are multiplied at once."""

    inputs: Terms
    outputs: tuple[Terms, ...]

    def parameters(self, sizes: Sizes) -> float:
        return value_of(self.inputs, sizes) * self.width(sizes)

    def width(self, sizes: Sizes) -> float:
        """Elements of all outputs."""
        return sum(value_of(output, sizes) for output in self.outputs)

    def widths(self, sizes: Sizes) -> list[float]:
        """Elements of each output."""
        return [value_of(output, sizes) for output in self.outputs]


class MixerKind(NamedTuple):
    """An entry of ``data/operations.toml``, which explains each field."""

    what: str
    under: str
    modules: tuple[str, ...]
    needs: tuple[str, ...]
    source: str
    split: tuple[Weights, ...] = ()
    whole: tuple[Weights, ...] = ()
    small: Terms = ()
    q: Terms = ()
    k: Terms = ()
    v: Terms = ()
    out: Terms = ()
    cache: Terms = ()
    state: Terms = ()
    work: Terms = ()
    indexed: Terms = ()
    table: Terms = ()
    on_all_ranks: bool = False

    @property
    def attends(self) -> bool:
        """Whether queries meet the keys before them."""
        return bool(self.q)


def _matrices_of(rows: Iterable[list[str]]) -> tuple[Weights, ...]:
    found = []
    for inputs, *outputs in rows:
        found.append(Weights(terms_of(inputs), tuple(terms_of(output) for output in outputs)))
    return tuple(found)


def _kind_of(entry: Mapping[str, Any]) -> MixerKind:
    fields: dict[str, Any] = {}
    for key, value in entry.items():
        if key in ("split", "whole"):
            fields[key] = _matrices_of(value)
        elif key in ("modules", "needs"):
            fields[key] = tuple(value)
        elif key in ("what", "under", "source", "on_all_ranks"):
            fields[key] = value
        elif key != "like":
            fields[key] = terms_of(value)
    return MixerKind(**fields)


def _read_kinds(table: Mapping[str, Any]) -> dict[str, MixerKind]:
    rows: dict[str, dict[str, Any]] = {}
    for name, entry in table["operations"].items():
        base = rows[entry["like"]] if "like" in entry else {}
        rows[name] = {**base, **entry}
    return {name: _kind_of(entry) for name, entry in rows.items()}


_TABLE = tomllib.loads(
    (Path(__file__).parent / "data" / "operations.toml").read_text(encoding="utf-8")
)
KINDS = _read_kinds(_TABLE)
_DIVIDED = frozenset(_TABLE["divided"])


class MixerSizes:
    """What a mixer has on a rank of tensor parallelism.

    Args:
        sizes: its sizes by name, whole.
        tp: ranks that divide them; a rank has at least one head of keys and values.
    """

    def __init__(self, kind: MixerKind, sizes: Sizes, tp: int = 1) -> None:
        self.kind = kind
        self.whole = sizes
        divided = dict(sizes)
        for name in _DIVIDED & divided.keys():
            divided[name] = sizes[name] / tp
        if "kv_heads" in divided:
            divided["kv_heads"] = max(divided["kv_heads"], 1.0)
        self.sizes = divided if tp > 1 else sizes

    def value(self, terms: Terms) -> float:
        return value_of(terms, self.sizes)

    @cached_property
    def latent(self) -> float:
        """Elements of a token that every rank has: those of the bottlenecks."""
        if not self.kind.attends or not self.kind.whole:
            return 0.0
        return self.kind.whole[0].width(self.whole)


class Mixer(NamedTuple):
    """An operation that mixes tokens, in some layers of a model.

    Args:
        kind: its name in ``data/operations.toml``.
        sizes: its sizes by name.
        share: how many a layer has, in the mean over layers.
        window: keys that a query sees; 0: all before it.
        windowed: share of these operations with the window.
        chunked: the sequence is cut in windows, and a query sees no key of another.
    """

    kind: str
    sizes: tuple[tuple[str, int], ...]
    share: float = 1.0
    window: int = 0
    windowed: float = 1.0
    chunked: bool = False

    @property
    def row(self) -> MixerKind:
        return KINDS[self.kind]

    def on(self, tp: int = 1) -> MixerSizes:
        """The sizes of a rank."""
        return _sizes_on(self.kind, self.sizes, tp)

    def keys(self, sequence: int) -> float:
        """Keys that a query of a causal model sees, averaged over queries and operations: s/2; in a
        window w - w^2/2s."""
        whole = 0.5 * sequence
        if not self.window or self.window >= sequence:
            return whole
        if self.chunked:
            return 0.5 * self.window
        # the first queries of a sequence see fewer keys than a window has
        inside = self.window - 0.5 * self.window**2 / sequence
        return (1 - self.windowed) * whole + self.windowed * inside

    def split_parameters(self) -> float:
        """Parameters that tensor parallelism divides."""
        sizes = self.on().sizes
        return sum(matrix.parameters(sizes) for matrix in self.row.split)

    def whole_matrices(self) -> float:
        """Parameters of matrices that every rank has."""
        sizes = self.on().sizes
        return sum(matrix.parameters(sizes) for matrix in self.row.whole)


@lru_cache(maxsize=1024)
def _sizes_on(kind: str, sizes: tuple[tuple[str, int], ...], tp: int) -> MixerSizes:
    return MixerSizes(KINDS[kind], dict(sizes), tp)
