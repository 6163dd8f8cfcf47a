"""How the kernels of experts and NCCL's windows in ``colltool/engines/data`` are made: each kernel's two
to six numbers, from rows of tests/data/inference/kernels.csv. Engines'
all-reduces: fit_engines.py; DeepEP and the experts of engines: fit_experts.py.

    python tests/benchmarks/fit_kernels.py [--check]

Least squares of relative errors with numbers of at least 0, weighted so that a few outliers do not
pull (towards least absolute errors).
``--check``: write nothing, exit 1 if a file would change. tests/benchmarks/bench_kernels.py prints
the errors of unseen rows.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from colltool.engines.tokens import Tokens, bytes_sent

ROOT = Path(__file__).parent.parent.parent
ROWS = ROOT / "tests" / "data" / "inference" / "kernels.csv"
OUT = ROOT / "colltool" / "engines" / "data"
KIB, MIB = 1024, 2**20
AIC = "ai-dynamo/aiconfigurator, commit 095f58a51 (Apache-2.0), read 2026-08"
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
    like_error: dict[str, float] | None = None,
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
    head += (
        "like = { " + ", ".join(f'{one} = "{other}"' for one, other in like.items()) + " }\n"
        if like
        else ""
    )
    if like_error:
        listed = ", ".join(f"{gpu} = {error!r}" for gpu, error in like_error.items())
        head += f"like_error = {{ {listed} }}\n"
    return "\n".join([head, *(kernel.text() for kernel in kernels)])


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
