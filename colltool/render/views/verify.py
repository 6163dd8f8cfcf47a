"""``verify``: formulas against executed schedules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from colltool.algorithms.trace import Held, Holdings, Message, Trace, Traced
from colltool.base.formatting import (
    counted,
    format_count,
    format_factor,
    format_time,
    ordinal,
    sentence,
)
from colltool.render.blocks import Block, Column, Headline, Lines, Table, gathered, label, number
from colltool.render.dispatch import (
    Document,
    View,
    context,
    fields,
    group_columns,
    group_field,
    listed,
    set_field,
    set_text,
)
from colltool.verification.executed import COUNTS_ONLY, VERDICTS
from colltool.verification.verify import Verification, Verified

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


_TITLES = {"n_alpha_executed": "n_alpha", "n_beta_executed": "n_beta", "executed_s": "takes"}
_OWN = tuple(
    one._replace(title=_TITLES.get(one.key, one.title))
    for one in _COLUMNS
    if "formula" not in one.key
)
"""Of algorithms without a formula."""


def _table(result: Verification) -> Table:
    if all(one.n_alpha[0] is None for one in result.results):
        return Table((*_OWN, *context(result.overrides)), result.results)
    apart = group_columns(result.results[0].group, lambda one: one.group)
    other = [number("simulated_s", result.simulator, format_time)] if result.simulator else []
    return Table(
        (*_COLUMNS[:-1], *other, _COLUMNS[-1], *apart, *context(result.overrides)), result.results
    )


def _counts(result: Verification) -> str:
    verdicts = [one.verdict for one in result.results]
    shown = [name for name in VERDICTS if name != COUNTS_ONLY or name in verdicts]
    counts = ", ".join(f"{verdicts.count(name)} {name}" for name in shown)
    counts += f"; {len(result.skipped)} not executed" if result.skipped else ""
    if (stride := result.results[0].group.stride) > 1:
        counts += f"; every {ordinal(stride)} rank"
    return counts + (f"; with {set_text(result.overrides)}" if result.overrides else "")


def _blocks(result: Verification) -> list[Block]:
    order = {name: at for at, name in enumerate(reversed(VERDICTS))}
    ordered = sorted(result.results, key=lambda one: order[one.verdict])
    odd = sum(one.verdict != "proved" for one in ordered)
    noted = gathered(
        (one.note, f"{one.algorithm} ({one.primitive.spoken}, {one.fabric})")
        for one in ordered
        if one.note
    )
    skipped = gathered((one.reason, one.algorithm) for one in result.skipped)
    traces = [(one, one.trace) for one in result.results if one.trace is not None]
    return [
        Headline(_answer(result)),
        _table(result)._replace(records=tuple(ordered), first=max(odd, _MOST_ROWS)),
        *(table for one, trace in traces for table in _trace_tables(one, trace)),
        *listed("how to read the steps", dict.fromkeys(_legend(trace) for _, trace in traces)),
        Lines(
            "notes",
            (*(f"{note}: {', '.join(names)}" for note, names in noted.items()), _ENDS_HERE),
            first=0,
        ),
        *listed(
            "not executed",
            (f"{reason}: {', '.join(names)}" for reason, names in skipped.items()),
            first=0,
        ),
    ]


_MOST_ROWS = 10
_ENDS_HERE = (
    "A step waits for its busiest port or link, and for its longest way; flows of a domain are"
    " spread evenly over its uplinks. For packets, queues and adaptive routing turn to a"
    " packet-level simulator (ns-3, htsim, SST) or to ASTRA-sim."
)


def _answer(result: Verification) -> str:
    own = [one for one in result.results if one.n_alpha[0] is None]
    names = ", ".join(dict.fromkeys(one.algorithm for one in own))
    if len(own) == len(result.results):
        promised = " and ".join(dict.fromkeys(one.primitive.spoken for one in own))
        return (
            f"{names}: proved, every rank ends with what {promised} promises."
            f" {sentence(_counts(result))}."
        )
    verdicts = [one.verdict for one in result.results if one.n_alpha[0] is not None]
    wrong, held, every = verdicts.count("mismatch"), verdicts.count("proved"), len(verdicts)
    if wrong:
        return f"{wrong} of {counted(every, 'formula')} do not hold: {_counts(result)}."
    which = (
        "The formula holds"
        if every == held == 1
        else f"{'All' if every == held else held} of {counted(every, 'formula')} hold"
    )
    return f"{sentence(which)} exactly when executed: {_counts(result)}.{_second(result)}"


def _second(result: Verification) -> str:
    """What the simulator finds: the ratios to the executed times."""
    pairs = [
        (one.simulated_s, one.time_s[1])
        for one in result.results
        if one.simulated_s is not None and one.time_s
    ]
    if not pairs:
        return ""
    low, high = (
        format_factor(pick(theirs / ours for theirs, ours in pairs)) for pick in (min, max)
    )
    span = low if low == high else f"{low} to {high}"
    return (
        f" {result.simulator} finds {span} the executed time of {counted(len(pairs), 'schedule')}."
    )


def _document(result: Verification) -> Document:
    results = [_fields(one) for one in result.results]
    asked = {"simulator": result.simulator} if result.simulator else {}
    return {
        "holds": result.holds,
        **set_field(result.overrides),
        **asked,
        "results": results,
        **fields(result, "skipped"),
    }


def _fields(one: Verified) -> Document:
    counts = {
        name: dict(zip(("formula", "executed"), getattr(one, name), strict=True))
        for name in ("n_alpha", "n_beta")
    }
    time = dict(zip(("price", "executed"), one.time_s, strict=True)) if one.time_s else None
    return (
        fields(one, "primitive algorithm fabric ranks")
        | {"group": group_field(one.group), "verdict": one.verdict, **counts}
        | {"post_condition": one.post_condition, "time_s": time, **fields(one, "note spec")}
        | ({"simulated_s": one.simulated_s} if one.simulated_s is not None else {})
        | ({"trace": _trace_fields(one.trace)} if one.trace else {})
    )


def _summary(result: Verification) -> str:
    return f"executed: {_counts(result)}"


_SUMS = (
    "0>1:2+ is chunk 2 from rank 0, which rank 1 adds to its own; without + it takes its place. "
    "2:013 is chunk 2 summed over ranks 0, 1 and 3"
)
_MANY_SUMS = (
    "0>1:2+ is chunk 2 from rank 0, which rank 1 adds to its own; without + it takes its place. "
    "2:0-3+12 is chunk 2 summed over ranks 0 to 3 and 12"
)
_ONE_DIGIT = 10  # ranks that have one
_PIECES = "0>1:2 is chunk 2 from rank 0 to rank 1"


def _legend(trace: Trace) -> str:
    if not trace.summed:
        return _PIECES
    return _SUMS if trace.ranks <= _ONE_DIGIT else _MANY_SUMS


class _TraceRow(NamedTuple):
    """The state after a step; step 0 is the start."""

    step: int
    traced: Traced | None
    holds: Holdings


_NODES_A_PAGE = 4  # that fit beside the messages on 80 columns


def _trace_tables(one: Verified, trace: Trace) -> Iterator[Table]:
    """The steps with what every rank holds, some ranks to a table: a table that is too wide would
    lose some."""
    nodes = len(trace.start)
    for first in range(0, nodes, _NODES_A_PAGE):
        yield _trace_table(one, trace, range(first, min(first + _NODES_A_PAGE, nodes)))


def _trace_table(one: Verified, trace: Trace, nodes: range) -> Table:
    """The steps with what some nodes hold after each; the first table also has the messages."""

    def held(rank: int) -> Column:
        name = f"rank {rank}" if rank < trace.ranks else f"node {rank}"
        return label(
            f"rank_{rank}", name, get=lambda row: " ".join(map(chunk, row.holds[rank])), fold=6
        )

    def chunk(one: Held) -> str:
        return (
            f"{one.chunk}:{_summed(one.ranks, trace.ranks)}"
            if trace.summed and not one.values
            else _numbered(one)
        )

    rows = [
        _TraceRow(0, None, trace.start),
        *(_TraceRow(k, step, step.holds) for k, step in enumerate(trace.steps, start=1)),
    ]
    moved = (
        number(
            "step_n_alpha",
            "n_alpha",
            format_count,
            2,
            get=lambda row: row.traced and row.traced.n_alpha,
        ),
        number(
            "step_n_beta",
            "n_beta",
            format_count,
            2,
            get=lambda row: row.traced and row.traced.n_beta,
        ),
        label(
            "messages",
            "messages",
            get=lambda row: _said(row.traced.messages) if row.traced else "",
            fold=12,
        ),
    )
    columns = (number("step", "step"), *(moved if nodes.start == 0 else ()), *map(held, nodes))
    sizes = sorted({f"M/{1 / size:g}" for size in trace.chunk_bytes})
    chunks = (
        f"{len(trace.chunk_bytes)} chunks of {' and '.join(sizes)}"
        if len(trace.chunk_bytes) > 1
        else "one chunk of M"
    )
    title = f"{one.algorithm}, {one.primitive.spoken} on {one.fabric}, {one.group.spoken}: {chunks}"
    if len(nodes) < len(trace.start):
        title += f"; ranks {nodes[0]} to {nodes[-1]}" if len(nodes) > 1 else f"; rank {nodes[0]}"
    return Table(columns, tuple(rows), None, title)


def _summed(ranks: Sequence[int], of: int) -> str:
    """The ranks in a sum: ``013``; with numbers of two digits around, ``0-3+12``."""
    if of <= _ONE_DIGIT:
        return "".join(map(str, ranks))
    parts: list[list[int]] = []
    for rank in ranks:
        if parts and rank == parts[-1][-1] + 1:
            parts[-1].append(rank)
        else:
            parts.append([rank])
    return "+".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def _said(messages: Sequence[Message]) -> str:
    """Messages, merged by sender and receiver: ``0>1:2+ 1>0:0,1+``."""
    carried: dict[tuple[int, int, bool], list[str]] = {}
    for one in messages:
        carried.setdefault((one.src, one.dst, one.add), []).append(_numbered(one))
    return " ".join(
        f"{src}>{dst}:{','.join(chunks)}{'+' if add else ''}"
        for (src, dst, add), chunks in carried.items()
    )


def _numbered(one: Message | Held) -> str:
    """A chunk, with its numbers if the run is on numbers: ``2(5)``."""
    return (
        f"{one.chunk}({' '.join(f'{value:g}' for value in one.values)})"
        if one.values
        else str(one.chunk)
    )


def _trace_fields(trace: Trace) -> Document:
    """The trace for JSON; ``holds`` is by node, switches after the ranks."""
    of_message = "src dst chunk add" + " values" * bool(trace.vectors)
    steps = [
        {"step": at, "n_alpha": step.n_alpha, "n_beta": step.n_beta}
        | {
            "messages": [fields(one, of_message) for one in step.messages],
            "holds": _holds_fields(step.holds),
        }
        for at, step in enumerate(trace.steps, start=1)
    ]
    return {"chunks": list(trace.chunk_bytes), "start": _holds_fields(trace.start), "steps": steps}


def _holds_fields(holds: Holdings) -> list[list[dict[str, Any]]]:
    return [
        [fields(one, "chunk ranks" + " values" * bool(one.values)) for one in node]
        for node in holds
    ]


VIEWS = {Verification: View("verify", _blocks, _document, _table, _summary)}
