"""A schedule's trace: a table with a row for each step, and the same as plain values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from colltool.base.formatting import format_count
from colltool.render.blocks import Block, Lines, Table, label, number
from colltool.render.view import Document, fields
from colltool.schedules.trace import Held, Holdings, Message, Trace, Traced
from colltool.verification.results import Verified

_SUMS = (
    "0>1:2+ is chunk 2 from rank 0, which rank 1 adds to its own; without + it takes its place. "
    "2:013 is chunk 2 summed over ranks 0, 1 and 3"
)
_PIECES = "0>1:2 is chunk 2 from rank 0 to rank 1"


class _Row(NamedTuple):
    """A step by its number; 0 is before the first."""

    step: int
    traced: Traced | None
    holds: Holdings


def trace_blocks(results: Sequence[Verified]) -> list[Block]:
    """The table of every schedule that has a trace, and how to read it."""
    found = [(one, one.trace) for one in results if one.trace is not None]
    tables: list[Block] = [_table(one, trace) for one, trace in found]
    read = dict.fromkeys(_SUMS if trace.summed else _PIECES for _, trace in found)
    return [*tables, Lines("how to read the steps", tuple(read))] if found else []


def _table(one: Verified, trace: Trace) -> Table:
    first = _Row(0, None, trace.start)
    rows = [first, *(_Row(k, step, step.holds) for k, step in enumerate(trace.steps, start=1))]
    columns = (
        number("step", "step", get=lambda row: row.step),
        number("step_n_alpha", "n_alpha", format_count, get=lambda row: row.traced and row.traced.n_alpha),
        number("step_n_beta", "n_beta", format_count, get=lambda row: row.traced and row.traced.n_beta),
        label("messages", "messages", get=lambda row: _said(row.traced.messages) if row.traced else ""),
        *(label(f"rank_{rank}", _node(rank, trace), drop=1, get=_holdings(rank, trace)) for rank in range(len(trace.start))),
    )
    title = f"{one.algorithm}, {one.primitive.spoken} on {one.fabric}, {one.group.spoken}: {_chunks(trace.chunk_bytes)}"
    return Table(columns, tuple(rows), None, title)


def _chunks(sizes: Sequence[float]) -> str:
    """``4 chunks of M/4``."""
    if len(sizes) == 1:
        return "one chunk of M"
    return f"{len(sizes)} chunks of " + " and ".join(sorted({f"M/{1 / size:g}" for size in sizes}))


def _node(node: int, trace: Trace) -> str:
    return f"rank {node}" if node < trace.ranks else f"node {node}"


def _said(messages: Sequence[Message]) -> str:
    """Messages between the same two in one: ``0>1:2+ 1>0:0,1+``."""
    carried: dict[tuple[int, int, bool], list[str]] = {}
    for one in messages:
        carried.setdefault((one.src, one.dst, one.add), []).append(_numbered(one))
    return " ".join(f"{src}>{dst}:{','.join(chunks)}{'+' if add else ''}" for (src, dst, add), chunks in carried.items())


def _numbered(one: Message | Held) -> str:
    """A chunk, with the numbers in it where the run is on any: ``2(5)``."""
    return f"{one.chunk}({' '.join(f'{value:g}' for value in one.values)})" if one.values else str(one.chunk)


def _holdings(rank: int, trace: Trace) -> Callable[[_Row], str]:
    return lambda row: " ".join(_held(one, trace) for one in row.holds[rank])


def _held(one: Held, trace: Trace) -> str:
    if one.values:
        return _numbered(one)
    return f"{one.chunk}:{''.join(map(str, one.ranks))}" if trace.summed else str(one.chunk)


def trace_fields(trace: Trace) -> Document:
    """The trace as plain values; ``holds`` by node, switches after the ranks."""
    return {
        "chunks": list(trace.chunk_bytes),
        "start": _holds_fields(trace.start),
        "steps": [
            {
                "step": number_,
                "n_alpha": step.n_alpha,
                "n_beta": step.n_beta,
                "messages": [fields(one, "src dst chunk add" + " values" * bool(trace.vectors)) for one in step.messages],
                "holds": _holds_fields(step.holds),
            }
            for number_, step in enumerate(trace.steps, start=1)
        ],
    }


def _holds_fields(holds: Holdings) -> list[list[dict[str, Any]]]:
    return [[fields(one, "chunk ranks" + " values" * bool(one.values)) for one in node] for node in holds]
