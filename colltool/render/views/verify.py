"""``verify``: formulas against executed schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from colltool.base.formatting import counted, format_count, format_time, ordinal, sentence
from colltool.render.blocks import Block, Column, Headline, Lines, Table, gathered, label, later, number
from colltool.render.view import Document, Overrides, View, fields, group_columns, group_field, set_field, set_text
from colltool.schedules.trace import Held, Holdings, Message, Trace, Traced
from colltool.verification.executed import COUNTS_ONLY, VERDICTS
from colltool.verification.verify import Verification, Verified

ENDS_HERE = (
    "A step waits for its busiest port or link, and for its longest way; flows of a domain are spread evenly over its uplinks. "
    "For packets, queues and adaptive routing turn to a packet-level simulator (ns-3, htsim, SST) or to ASTRA-sim."
)

_COLUMNS: tuple[Column, ...] = (
    label("primitive", "primitive", lambda primitive: primitive.spoken),
    label("fabric", "fabric", drop=7),
    label("algorithm", "algorithm"),
    number("ranks", "ranks", drop=6),
    label("verdict", "verdict"),
    number("n_alpha_formula", "n_alpha", format_count, 4, get=lambda one: one.n_alpha[0]),
    number("n_alpha_executed", "executed", format_count, 5, get=lambda one: one.n_alpha[1]),
    number("n_beta_formula", "n_beta", format_count, 2, get=lambda one: one.n_beta[0]),
    number("n_beta_executed", "executed", format_count, 3, get=lambda one: one.n_beta[1]),
    number("price_s", "price", format_time, 8, get=lambda one: one.time_s and one.time_s[0]),
    number("executed_s", "executed", format_time, 9, get=lambda one: one.time_s and one.time_s[1]),
    label("note", "note", hidden=True),
)


def _table(result: Verification, title: str = "") -> Table:
    apart = group_columns(result.results[0].group, lambda one: one.group)
    return Table((*_COLUMNS, *apart, *_set(result.overrides)), result.results, None, title)


def _set(overrides: Overrides) -> tuple[Column, ...]:
    return (label("set", "set", get=lambda _: set_text(overrides), hidden=True),) if overrides else ()


def _counts(result: Verification) -> str:
    verdicts = [one.verdict for one in result.results]
    shown = [name for name in VERDICTS if name != COUNTS_ONLY or name in verdicts]
    counts = ", ".join(f"{verdicts.count(name)} {name}" for name in shown)
    counts += f"; {len(result.skipped)} not executed" if result.skipped else ""
    if (stride := result.results[0].group.stride) > 1:
        counts += f"; every {ordinal(stride)} rank"
    return counts + (f"; with {set_text(result.overrides)}" if result.overrides else "")


def _blocks(result: Verification) -> list[Block]:
    ordered = sorted(result.results, key=lambda one: _ORDER[one.verdict])
    odd = sum(one.verdict != "proved" for one in ordered)
    noted = ((one.note, f"{one.algorithm} ({one.primitive.spoken}, {one.fabric})") for one in ordered if one.note)
    lines = [f"{note}: {', '.join(names)}" for note, names in gathered(noted).items()]
    by_reason = gathered((skipped.reason, skipped.algorithm) for skipped in result.skipped)
    reasons = tuple(f"{reason}: {', '.join(names)}" for reason, names in by_reason.items())
    table = _table(result)._replace(records=tuple(ordered), first=max(odd, _MOST_ROWS))
    out: list[Block] = [Headline(_answer(result)), table, *trace_blocks(result.results)]
    return [*out, *map(later, [Lines("notes", (*lines, ENDS_HERE)), *([Lines("not executed", reasons)] if reasons else [])])]


_MOST_ROWS = 10
_ORDER = {name: at for at, name in enumerate(reversed(VERDICTS))}


def _answer(result: Verification) -> str:
    verdicts = [one.verdict for one in result.results]
    wrong, held, every = verdicts.count("mismatch"), verdicts.count("proved"), len(verdicts)
    if wrong:
        return f"{wrong} of {counted(every, 'formula')} do not hold: {_counts(result)}."
    which = (
        "The formula holds" if every == held == 1 else f"{'All' if every == held else held} of {counted(every, 'formula')} hold"
    )
    return f"{sentence(which)} exactly when executed: {_counts(result)}."


def _document(result: Verification) -> Document:
    return {"holds": result.holds} | set_field(result.overrides) | {
        "results": [_fields(one) for one in result.results],
        "skipped": [{"algorithm": one.algorithm, "reason": one.reason} for one in result.skipped],
    }  # fmt: skip


def _fields(one: Verified) -> Document:
    return {
        **fields(one, "primitive algorithm fabric ranks"),
        "group": group_field(one.group),
        "verdict": one.verdict,
        "n_alpha": dict(zip(("formula", "executed"), one.n_alpha, strict=True)),
        "n_beta": dict(zip(("formula", "executed"), one.n_beta, strict=True)),
        "post_condition": one.post_condition,
        "time_s": dict(zip(("price", "executed"), one.time_s, strict=True)) if one.time_s else None,
        **fields(one, "note spec"),
        **({"trace": trace_fields(one.trace)} if one.trace else {}),
    }


def _summary(result: Verification) -> str:
    return f"executed: {_counts(result)}"


_SUMS = (
    "0>1:2+ is chunk 2 from rank 0, which rank 1 adds to its own; without + it takes its place. "
    "2:013 is chunk 2 summed over ranks 0, 1 and 3"
)
_PIECES = "0>1:2 is chunk 2 from rank 0 to rank 1"


class _TraceRow(NamedTuple):
    """The state after a step; step 0 is the start."""

    step: int
    traced: Traced | None
    holds: Holdings


def trace_blocks(results: Sequence[Verified]) -> list[Block]:
    found = [(one, one.trace) for one in results if one.trace is not None]
    tables: list[Block] = [_trace_table(one, trace) for one, trace in found]
    read = dict.fromkeys(_SUMS if trace.summed else _PIECES for _, trace in found)
    return [*tables, Lines("how to read the steps", tuple(read))] if found else []


def _trace_table(one: Verified, trace: Trace) -> Table:
    first = _TraceRow(0, None, trace.start)
    rows = [first, *(_TraceRow(k, step, step.holds) for k, step in enumerate(trace.steps, start=1))]
    columns = (
        number("step", "step", get=lambda row: row.step),
        number("step_n_alpha", "n_alpha", format_count, 2, get=lambda row: row.traced and row.traced.n_alpha),
        number("step_n_beta", "n_beta", format_count, 2, get=lambda row: row.traced and row.traced.n_beta),
        label("messages", "messages", get=lambda row: _said(row.traced.messages) if row.traced else "", fold=12),
        *(
            label(f"rank_{rank}", _node(rank, trace), drop=1, get=_holdings(rank, trace), fold=6)
            for rank in range(len(trace.start))
        ),
    )
    title = f"{one.algorithm}, {one.primitive.spoken} on {one.fabric}, {one.group.spoken}: {_chunks(trace.chunk_bytes)}"
    return Table(columns, tuple(rows), None, title)


def _chunks(sizes: Sequence[float]) -> str:
    if len(sizes) == 1:
        return "one chunk of M"
    return f"{len(sizes)} chunks of " + " and ".join(sorted({f"M/{1 / size:g}" for size in sizes}))


def _node(node: int, trace: Trace) -> str:
    return f"rank {node}" if node < trace.ranks else f"node {node}"


def _said(messages: Sequence[Message]) -> str:
    """Messages, merged by sender and receiver: ``0>1:2+ 1>0:0,1+``."""
    carried: dict[tuple[int, int, bool], list[str]] = {}
    for one in messages:
        carried.setdefault((one.src, one.dst, one.add), []).append(_numbered(one))
    return " ".join(f"{src}>{dst}:{','.join(chunks)}{'+' if add else ''}" for (src, dst, add), chunks in carried.items())


def _numbered(one: Message | Held) -> str:
    """A chunk, with its numbers if the run is on numbers: ``2(5)``."""
    return f"{one.chunk}({' '.join(f'{value:g}' for value in one.values)})" if one.values else str(one.chunk)


def _holdings(rank: int, trace: Trace) -> Callable[[_TraceRow], str]:
    return lambda row: " ".join(_held(one, trace) for one in row.holds[rank])


def _held(one: Held, trace: Trace) -> str:
    if one.values:
        return _numbered(one)
    return f"{one.chunk}:{''.join(map(str, one.ranks))}" if trace.summed else str(one.chunk)


def trace_fields(trace: Trace) -> Document:
    """The trace for JSON; ``holds`` is by node, switches after the ranks."""
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


VIEWS = {Verification: View("verify", _blocks, _document, _table, _summary)}
