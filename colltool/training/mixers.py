"""Operations that mix the tokens of a sequence: attention of all kinds, recurrences, convolutions.

``data/operations.toml`` describes each by its matrices, from which parameters, GEMMs, KV caches and
the names of modules follow. A :class:`Mixer` is one of them with its sizes, and how many of it a layer
has; :meth:`Mixer.on` gives its :class:`MixerSizes` on a rank. The data file's head explains its keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from colltool.base.cache import packaged_toml

Terms = tuple[tuple[float, tuple[str, ...]], ...]  # a sum of products: (number, names) each
SizesByName = Mapping[str, float]  # such as {"heads": 32, "head_dim": 128}


def terms_of(text: str) -> Terms:
    """Read a sum of products, without signs, parentheses or checks: the table is ours.

    >>> terms_of("2*heads*head_dim + 3")
    ((2, ('heads', 'head_dim')), (3, ()))
    """
    terms = []
    # an empty text is a sum of nothing
    for product in text.split("+") if text else ():
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


def value_of(terms: Terms, sizes: SizesByName) -> float:
    """Return the value of a sum of products; ``sizes`` has every name in it."""
    total: float = 0
    for number, names in terms:
        product: float = number
        for name in names:
            product *= sizes[name]
        total += product
    return total


class Weights(NamedTuple):
    """Matrices with the same input, which are multiplied at once."""

    inputs: Terms  # elements of a token that go in
    outputs: tuple[Terms, ...]  # those that come out of each matrix

    def parameters(self, sizes: SizesByName) -> float:
        """Parameters of all the matrices."""
        return value_of(self.inputs, sizes) * self.width(sizes)

    def width(self, sizes: SizesByName) -> float:
        """Elements of all outputs."""
        return sum(self.widths(sizes))

    def widths(self, sizes: SizesByName) -> list[float]:
        """Elements of each output."""
        return [value_of(output, sizes) for output in self.outputs]


class MixerKind(NamedTuple):
    """An entry of ``data/operations.toml``: sums of products of an operation's sizes.

    Such as ``heads*head_dim`` for ``q``. The order of matrices counts: attention without ``replicated`` ones has
    queries, keys and values first in ``split``; of recurrences, and of attention with ``replicated`` ones, the last
    of ``split`` counts as the output.
    """

    what: str  # its name for people, such as "latent attention"
    under: str  # the name of a checkpoint for the module that has its matrices, such as "self_attn"
    modules: tuple[str, ...]  # names of these matrices there, such as "q_proj"
    needs: tuple[str, ...]  # names of the sizes that it must be given, such as "heads"
    source: str  # the paper or code that says so

    # parameters
    split: tuple[Weights, ...] = ()  # matrices that tensor parallelism divides
    replicated: tuple[Weights, ...] = ()  # matrices that every rank has; bottlenecks first
    small: Terms = ()  # parameters that are no matrices, such as those of norms
    looked_up: Terms = ()  # parameters of an embedding, of which a token reads a row

    # elements of a token of queries, keys, values and the output, which attention multiplies; without
    # them it is no attention
    q: Terms = ()
    k: Terms = ()
    v: Terms = ()
    out: Terms = ()

    # what serving keeps
    cache: Terms = ()  # values of a token
    on_all_ranks: bool = False  # whether every rank keeps all of them, undivided
    state: Terms = ()  # values of a sequence, however long it is

    # FLOPs besides those of matrices
    work: Terms = ()  # of a token
    indexed: Terms = ()  # of a query and any key, by the indexer that chooses keys for it

    @property
    def attends(self) -> bool:
        """Whether queries meet the keys before them."""
        return bool(self.q)


def _matrices_of(rows: list[list[str]]) -> tuple[Weights, ...]:
    """Return the matrices of rows such as ["hidden", "heads*head_dim", "kv_heads*head_dim"]: their inputs
    and the outputs of each."""
    return tuple(
        Weights(terms_of(inputs), tuple(map(terms_of, outputs))) for inputs, *outputs in rows
    )


# What reads the value of an entry's key; all others are sums of products.
_READERS: dict[str, Callable[[Any], object]] = {
    "what": str,
    "under": str,
    "modules": tuple,
    "needs": tuple,
    "source": str,
    "split": _matrices_of,
    "replicated": _matrices_of,
    "on_all_ranks": bool,
}


def _kind_of(entry: Mapping[str, Any]) -> MixerKind:
    """Return the kind of an entry, which has its own keys and those of the entry that it is ``like``."""
    fields: dict[str, Any] = {}
    for key, value in entry.items():
        fields[key] = _READERS.get(key, terms_of)(value)
    return MixerKind(**fields)


def _read_kinds(entries: Mapping[str, Any]) -> dict[str, MixerKind]:
    """Return the kinds of all entries by name, each with the keys of the entry above it that it is
    ``like``, unless it has its own."""
    complete: dict[str, dict[str, Any]] = {}
    for name, entry in entries.items():
        own_keys = dict(entry)
        complete[name] = complete.get(own_keys.pop("like", ""), {}) | own_keys
    return {name: _kind_of(entry) for name, entry in complete.items()}


_FILE = packaged_toml(Path(__file__).parent / "data" / "operations.toml")
KINDS = _read_kinds(_FILE["operations"])
_DIVIDED = frozenset(_FILE["divided"])  # names of the sizes that tensor parallelism divides


class MixerSizes(NamedTuple):
    """What a mixer has on a rank of tensor parallelism."""

    kind: MixerKind  # its entry of the table
    undivided: SizesByName  # of the model
    sizes: SizesByName  # of the rank: a tp-th of what is divided, which need not be whole

    def value(self, terms: Terms) -> float:
        """Return the value of a sum of products for the rank."""
        return value_of(terms, self.sizes)

    @property
    def latent(self) -> float:
        """Elements of a token that every rank has: those of the bottlenecks, which are the first
        replicated matrix of an attention in the data file; 0 without."""
        if not self.kind.attends or not self.kind.replicated:
            return 0.0
        return self.kind.replicated[0].width(self.undivided)


class Mixer(NamedTuple):
    """An operation that mixes tokens, in some layers of a model.

    Args:
        kind: its name in ``data/operations.toml``.
        sizes: its sizes by name, before tensor parallelism divides them.
        share: how many of it a layer has, in the mean over layers: 0.25 of one in every fourth.
        window: keys that a query sees; 0: all before it.
        windowed: part of these operations that have the window, 0 to 1; all others see all before.
        chunked: the sequence is cut in windows, and a query sees no key of another; ``windowed`` is
            then 1.
    """

    kind: str
    sizes: tuple[tuple[str, int], ...]
    share: float = 1.0
    window: int = 0
    windowed: float = 1.0
    chunked: bool = False

    @property
    def description(self) -> MixerKind:
        """Its entry in ``data/operations.toml``."""
        return KINDS[self.kind]

    def on(self, tp: int = 1) -> MixerSizes:
        """The sizes of a rank among ``tp``."""
        return _sizes_on(self.kind, self.sizes, tp)

    def keys(self, sequence: int) -> float:
        """How many keys a query of a causal model sees, averaged over queries and operations.

        Of s tokens, s/2; with a window of w < s, w - w^2/(2s); in chunks of w tokens, w/2.
        """
        all_before = 0.5 * sequence
        if not self.window or self.window >= sequence:
            return all_before
        if self.chunked:
            return 0.5 * self.window
        # the first queries of a sequence see fewer keys than a window has
        in_window = self.window - 0.5 * self.window**2 / sequence
        return (1 - self.windowed) * all_before + self.windowed * in_window

    def split_parameters(self) -> float:
        """Parameters of matrices that tensor parallelism divides."""
        return self._parameters(self.description.split)

    def replicated_parameters(self) -> float:
        """Parameters of matrices that every rank has."""
        return self._parameters(self.description.replicated)

    def _parameters(self, matrices: tuple[Weights, ...]) -> float:
        """Parameters of matrices of the whole model."""
        sizes = self.on().sizes
        return sum(matrix.parameters(sizes) for matrix in matrices)


@lru_cache(maxsize=1024)
def _sizes_on(kind: str, sizes: tuple[tuple[str, int], ...], tp: int) -> MixerSizes:
    """Return the sizes of a rank among ``tp``."""
    undivided = dict(sizes)
    if tp == 1:
        return MixerSizes(KINDS[kind], undivided, undivided)
    on_rank: dict[str, float] = dict(sizes)
    for name in _DIVIDED & on_rank.keys():
        on_rank[name] /= tp
    # a rank has at least one head of keys and values: those that are fewer than ranks are copied; tp
    # must divide query heads
    if "kv_heads" in on_rank:
        on_rank["kv_heads"] = max(on_rank["kv_heads"], 1.0)
    return MixerSizes(KINDS[kind], undivided, on_rank)
