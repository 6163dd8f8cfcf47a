"""How ``colltool/engines/data/*.toml`` are made: each kernel's two to six numbers, from rows of
tests/data/inference/kernels.csv.

    python tests/benchmarks/fit_kernels.py [--check]

Least squares of relative errors with numbers of at least 0, weighted so that a few outliers do not
pull (towards least absolute errors). Which branch of a one-shot/two-shot law a row belongs to is
what fits best, or what the engine's own table says.
``--check``: write nothing, exit 1 if a file would change. tests/benchmarks/bench_kernels.py prints
the errors of unseen rows.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from colltool.engines.formulas import Tokens, bytes_sent, width

ROOT = Path(__file__).parent.parent.parent
ROWS = ROOT / "tests" / "data" / "inference" / "kernels.csv"
OUT = ROOT / "colltool" / "kernels" / "data"
KIB, MIB = 1024, 2**20
AIC = "ai-dynamo/aiconfigurator, commit 095f58a51 (Apache-2.0), read 2026-08"
SMALL = (1024, 4 * MIB)

LIKE_ERRORS = {"h200": 0.049, "b300": 0.088, "gb300": 0.077}
"""The largest median of an engine's law asked of the next GPU: H100's of H200 3.4 to 4.9%, B200's
of B300 4.9 to 8.8%, GB200's of GB300 4.1 to 7.7%."""

Array = Any


class Row(NamedTuple):
    source: str
    gpu: str
    ranks: int
    operation: str
    kernel: str
    version: str
    dtype: str
    bytes: float
    tokens: int
    hidden: int
    top_k: int
    experts: int
    us: float


def rows(**wanted: Any) -> list[Row]:
    """The rows whose fields are these, or among these."""
    with ROWS.open(encoding="utf-8") as file:
        every = [_row(one) for one in csv.DictReader(file)]
    return [
        row
        for row in every
        if all(_is(getattr(row, name), value) for name, value in wanted.items())
    ]


def _row(one: dict[str, str]) -> Row:
    whole = {
        name: int(one[name] or 0) for name in ("ranks", "tokens", "hidden", "top_k", "experts")
    }
    words = {
        name: one[name] for name in ("source", "gpu", "operation", "kernel", "version", "dtype")
    }
    return Row(**words, **whole, bytes=float(one["bytes"] or 0), us=float(one["time_us"]))  # type: ignore[arg-type]


def _is(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, list | tuple | set) else bool(value == wanted)


def small(several: Iterable[Row], least: float = SMALL[0], most: float = SMALL[1]) -> list[Row]:
    return [row for row in several if least <= row.bytes <= most]


def not_negative(features: Array, wanted: Array) -> Array:
    """Least squares with numbers of at least 0: the best of all sets of columns, which are few."""
    best, least = np.zeros(features.shape[1]), np.inf
    for size in range(1, features.shape[1] + 1):
        for chosen in combinations(range(features.shape[1]), size):
            own, *_ = np.linalg.lstsq(features[:, chosen], wanted, rcond=None)
            if (own < 0).any():
                continue
            off = float(((features[:, chosen] @ own - wanted) ** 2).sum())
            if off < least - 1e-12:
                best, least = np.zeros(features.shape[1]), off
                best[list(chosen)] = own
    return best


def fitted(features: Array, us: Array) -> Array:
    """Numbers with small relative errors, the middle rows counting most."""
    relative = features / us[:, None]
    own = not_negative(relative, np.ones(len(us)))
    for _ in range(30):
        weight = np.maximum(np.abs(relative @ own - 1), 0.01) ** -0.5
        own = not_negative(relative * weight[:, None], weight)
    return own


def one_shot(several: Sequence[Row]) -> Array:
    return np.array([[1.0, row.ranks - 1, (row.ranks - 1) * row.bytes / 1e3] for row in several])


def two_shot(several: Sequence[Row]) -> Array:
    return np.array(
        [[1.0, row.ranks - 1, 2 * (row.ranks - 1) / row.ranks * row.bytes / 1e3] for row in several]
    )


class Law(NamedTuple):
    """base_us, per_rank_us and GB/s of a branch; ``used`` rows chose it."""

    base: float
    per_rank: float
    GBps: float
    used: int = 0

    @classmethod
    def of(cls, own: Array, used: int) -> Law:
        return cls(float(own[0]), float(own[1]), float(1 / own[2]) if own[2] > 1e-9 else 1e6, used)

    @property
    def numbers(self) -> Array:
        return np.array([self.base, self.per_rank, 1 / self.GBps])


def two_branches(several: Sequence[Row]) -> tuple[Law, Law]:
    """Both branches, each row on the faster one; the best over all sizes at which each rank count
    may change over."""
    us = np.array([row.us for row in several])
    ones, twos = one_shot(several), two_shot(several)
    sizes = sorted({row.bytes for row in several})
    counts = sorted({row.ranks for row in several})
    best, least = None, np.inf
    for starts in product([*sizes, np.inf], repeat=len(counts)):
        first = np.array([row.bytes < starts[counts.index(row.ranks)] for row in several])
        if 0 < first.sum() < 3 or 0 < (~first).sum() < 3:
            continue
        first_law = (
            not_negative(ones[first] / us[first, None], np.ones(first.sum()))
            if first.any()
            else np.array([1e6, 0, 0])
        )
        second = (
            not_negative(twos[~first] / us[~first, None], np.ones((~first).sum()))
            if (~first).any()
            else np.array([1e6, 0, 0])
        )
        off = float(np.abs(np.minimum(ones @ first_law, twos @ second) / us - 1).mean())
        if off < least:
            best, least = first, off
    assert best is not None
    laws = []
    for features, chosen in ((ones, best), (twos, ~best)):
        laws.append(
            Law.of(fitted(features[chosen], us[chosen]), int(chosen.sum()))
            if chosen.any()
            else Law(1e6, 0, 1e6)
        )
    return laws[0], laws[1]


def scaled(laws: tuple[Law, Law], several: Sequence[Row]) -> tuple[Law, Law]:
    """Another GPU's two branches, with a factor for latencies and one for rates: all that a single
    rank count shows."""
    us = np.array([row.us for row in several])
    ones, twos = one_shot(several), two_shot(several)
    best, least = laws, np.inf
    for slower, faster in product(np.geomspace(0.5, 2, 57), np.geomspace(0.4, 2.5, 75)):
        own = tuple(
            Law(law.base * slower, law.per_rank * slower, law.GBps * faster) for law in laws
        )
        off = float(
            np.abs(np.minimum(ones @ own[0].numbers, twos @ own[1].numbers) / us - 1).mean()
        )
        if off < least:
            best, least = (own[0], own[1]), off
    return best


def tokens_of(row: Row) -> Tokens:
    return Tokens(
        row.tokens, row.top_k, row.hidden, row.experts, row.dtype.replace("bfloat16", "bf16")
    )


def exchanged(
    several: Sequence[Row],
    copies: Any,
    *,
    dtype: str = "",
    gpus_a_node: int = 0,
    terms: str = "bre",
) -> dict[str, float]:
    """base_us, per_rank_us, per_expert_us and GBps of dispatch or combine; ``terms``: those of the
    first three to fit."""
    us = np.array([row.us for row in several])
    sent = [
        bytes_sent(
            copies,
            tokens_of(row)._replace(dtype=dtype or tokens_of(row).dtype),
            row.ranks,
            max(1, row.ranks // gpus_a_node) if gpus_a_node else 1,
        )
        for row in several
    ]
    columns = {
        "b": [1.0] * len(us),
        "r": [row.ranks for row in several],
        "e": [row.experts for row in several],
    }
    features = np.array(
        [*(columns[term] for term in terms), [one / 1e3 for one in sent]], dtype=float
    ).T
    own = fitted(features, us)
    found = dict(zip(terms, own, strict=False))
    return {
        "base_us": found.get("b", 0.0),
        "per_rank_us": found.get("r", 0.0),
        "per_expert_us": found.get("e", 0.0),
        "GBps": 1 / own[-1],
    }


def copied(several: Sequence[Row], dtype: str = "") -> dict[str, float]:
    """base_us, GBps of what leaves (one copy a rank), and own_GBps of all tokens once."""
    us = np.array([row.us for row in several])
    whats = [tokens_of(row)._replace(dtype=dtype or tokens_of(row).dtype) for row in several]
    features = [
        [
            1.0,
            bytes_sent("ranks", what, row.ranks, 1) / 1e3,
            what.tokens * what.hidden * width(what.dtype) / 1e3,
        ]
        for what, row in zip(whats, several, strict=True)
    ]
    base, rate, own = fitted(np.array(features), us)
    return {"base_us": base, "GBps": 1 / rate, "own_GBps": 1 / own}


def numbers(own: dict[str, float]) -> str:
    return (
        "{ "
        + ", ".join(f"{name} = {float(f'{value:.4g}')!r}" for name, value in own.items())
        + " }"
    )


class Kernel(NamedTuple):
    """A table [[kernels]] of a file to be."""

    name: str
    operation: str
    formula: str
    own: dict[str, float]
    gpus: Sequence[str]
    ranks: tuple[int, int]
    source: str
    sizes: tuple[str, str] | None = None
    tokens: tuple[int, int] | None = None
    copies: str = ""
    across: bool = False
    network: str = ""
    error: float | None = None
    error_of: str = ""
    said: str = ""

    def text(self) -> str:
        lines = [
            "[[kernels]]",
            f'name = "{self.name}"',
            f'operation = "{self.operation}"',
            f'formula = "{self.formula}"',
        ]
        lines += [
            f"parameters = {numbers(self.own)}",
            f"gpus = {_list(self.gpus)}",
            f"ranks = {list(self.ranks)}",
        ]
        lines += [f"sizes = {_list(self.sizes)}"] if self.sizes else []
        lines += [f"tokens = {list(self.tokens)}"] if self.tokens else []
        lines += [f'copies = "{self.copies}"'] if self.copies else []
        lines += ["across = true"] if self.across else []
        words = (
            ("network", self.network),
            ("error_of", self.error_of),
            ("said", self.said),
            ("source", self.source),
        )
        lines += [f"error = {float(f'{self.error:.2g}')!r}"] if self.error is not None else []
        return "\n".join([*lines, *(f'{key} = "{value}"' for key, value in words if value)]) + "\n"


def _list(words: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{word}"' for word in words) + "]"


def library(
    name: str,
    version: str,
    spoken: str,
    kernels: Sequence[Kernel],
    like: dict[str, str],
    notes: str,
    more: str = "",
    most_ranks: int = 0,
) -> str:
    """The text of a file."""
    head = (
        "# Fitted by tests/benchmarks/fit_kernels.py from tests/data/inference/kernels.csv.\n#"
        f" {notes}\n"
    )
    head += (
        f'schema = "colltool.library/1"\nname = "{name}"\nversion = "{version}"\nspoken ='
        f' "{spoken}"\n'
    )
    head += f"most_ranks = {most_ranks}\n" if most_ranks else ""
    head += (
        "like = { " + ", ".join(f'{one} = "{other}"' for one, other in like.items()) + " }\n"
        if like
        else ""
    )
    if any(gpu in LIKE_ERRORS for gpu in like) and most_ranks:
        head += (
            "like_error = { "
            + ", ".join(f"{gpu} = {LIKE_ERRORS[gpu]}" for gpu in like if gpu in LIKE_ERRORS)
            + " }\n"
        )
    return "\n".join([head, *(kernel.text() for kernel in kernels), *([more] if more else [])])


def main(check: bool) -> int:
    from kernel_files import FILES  # beside this one: what each file holds

    makers: dict[str, Callable[[], str]] = FILES
    stale = 0
    for name, make in makers.items():
        text, path = make(), OUT / f"{name}.toml"
        if check and (not path.exists() or path.read_text(encoding="utf-8") != text):
            print(f"{path.name} would change")
            stale = 1
        elif not check:
            path.write_text(text, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    raise SystemExit(main("--check" in sys.argv[1:]))
