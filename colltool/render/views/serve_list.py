"""Several deployments side by side, or the best of those that ``serve --search`` tried.

:func:`_answer` is the headline, which compares the best of them (:func:`_best`) with the next, and
:func:`_table` has a row for each deployment. Times and rates but the network's are None where the device is not
known; ``feasible`` is the number of layouts that a search could price, None without a search.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

from colltool.base.formatting import counted, format_bytes, format_time
from colltool.render.blocks import Block, Columns, Headline, Table, label, number
from colltool.render.dispatch import View, context, listed
from colltool.render.documents import Document, derived
from colltool.render.intervals import reasoned_interval
from colltool.render.views.serve import ServeDocument
from colltool.render.views.serve_answer import deployment_in_words, tokens_text
from colltool.serving.results import Served, ServeList

_SAME_RATE = 1.005  # ratio of tokens/s below which two deployments serve the same


class _NamedServed(NamedTuple):
    """One of several deployments, by the name that it has in their table."""

    name: str
    served: Served

    @property
    def kernel(self) -> str:
        """The kernel that takes most of decode's network time; empty where nothing is sent."""
        operations = self.served.decode.operations
        if not operations:
            return ""
        return max(operations, key=attrgetter("total_s")).kernel

    @property
    def rate(self) -> str:
        """Its tokens/s, as a sentence has them."""
        return tokens_text(self.served.estimated_tokens_per_s or 0.0)


_SERVED: Columns[_NamedServed] = (
    label("name", "deployment"),
    number(
        "estimated_tokens_per_s",
        "tokens/s",
        "{:,.0f}".format,
        path="served.estimated_tokens_per_s",
    ),
    number(
        "estimated_time_per_token_s",
        "per token",
        format_time,
        path="served.estimated_time_per_token_s",
    ),
    number("tokens_per_s", "at most", "{:,.0f}".format, 4, path="served.tokens_per_s"),
    number("time_per_token_s", None, format_time, hidden=True, path="served.time_per_token_s"),
    number("network_s", "network", format_time, path="served.decode.network_s"),
    number("floor_s", "memory or FLOPs", format_time, 3, path="served.decode.floor_s"),
    number("prefill_limit_s", "per prefill", format_time, 2, path="served.prefill.limit_s"),
    number("prefill_network_s", hidden=True, path="served.prefill.network_s"),
    number("bound_tokens_s", hidden=True, path="served.bound_tokens_s"),
    number("memory_bytes", "memory", format_bytes, 4, path="served.memory_bytes"),
    label("kernel", "most by", drop=5),
)


def _records(result: ServeList) -> list[_NamedServed]:
    return list(map(_NamedServed, result.names, result.served))


def _seconds_per_token(record: _NamedServed) -> float:
    """The inverse of the tokens/s of all sequences; of the network alone where the device is
    unknown."""
    served = record.served
    step_s = served.estimated_time_per_token_s
    if step_s is None:
        step_s = served.decode.network_s
    return step_s / served.deployment.batch


def _best(records: list[_NamedServed]) -> _NamedServed:
    """The one with the most tokens/s; with the least network where not every device is known."""
    if all(record.served.tokens_per_s for record in records):
        return min(records, key=_seconds_per_token)
    return min(records, key=lambda record: record.served.decode.network_s)


def _table(result: ServeList) -> Table:
    """The deployments, the best one highlighted."""
    records = _records(result)
    first = result.served[0]
    context_columns = context(first.overrides, job=first.job, engine=first.engine)
    return Table((*context_columns, *_SERVED), tuple(records), records.index(_best(records)))


def _time_in_words(served: Served) -> str:
    """``about 3,580 tokens/s, 17.9 ms per token: 2.428 ms of network and 15.4 ms of kernels``."""
    decode = served.decode
    if decode.kernels_s is None or decode.estimate_s is None:
        return f"{format_time(decode.network_s)} of network time per token"
    parts = f"{format_time(decode.kernels_s)} of kernels"
    if decode.network_s:
        network = f"{format_time(decode.network_s)} of network"
        if decode.network_interval:
            network += f" ({reasoned_interval(decode.network_interval, decode.network_s)})"
        parts = f"{network} and {parts}"
    rate = tokens_text(served.deployment.batch / decode.estimate_s)
    token = format_time(decode.estimate_s)
    return f"about {rate}, {token} per token: {parts}"


def _answer(result: ServeList) -> str:
    """The best deployment and how far ahead of the next it is, then what was asked."""
    records = _records(result)
    best = _best(records)
    question = f"{best.served.job} on {deployment_in_words(best.served)}"
    if result.feasible is not None:
        layouts = counted(result.feasible, "feasible layout")
        text = f"Best of {layouts} ({result.tried} tried): {best.name}"
        return f"{text}, {_time_in_words(best.served)}. {question}."
    if len(records) == 1:
        return f"{best.name}: {_time_in_words(best.served)}. {question}."
    if not all(record.served.tokens_per_s for record in records):
        network = format_time(best.served.decode.network_s)
        return f"{best.name} has the least network time per token, {network}: {question}."
    others = [record for record in records if record is not best]
    second = _best(others)
    ratio = _seconds_per_token(second) / _seconds_per_token(best)
    if ratio < _SAME_RATE:
        return f"{best.name} and {second.name} serve the same, about {best.rate}. {question}."
    if _overlap(best.served, second.served):
        rates = f"{best.name} serves about {best.rate}, {second.name} {second.rate}"
        reason = "the network's error is larger than the difference"
        return f"Too close to call: {rates}; {reason}. {question}."
    lead = f"{ratio:.3g} times {second.name}"
    return f"{best.name} serves most, {lead}: {_time_in_words(best.served)}. {question}."


def _overlap(best: Served, second: Served) -> bool:
    """Whether the intervals of the steps of two deployments overlap. Not on one fabric, where both err alike, nor
    with different batches, whose steps cannot be compared."""
    if best.fabric == second.fabric or best.deployment.batch != second.deployment.batch:
        return False
    best_network = best.decode.network_interval
    second_network = second.decode.network_interval
    if best_network is None or second_network is None:
        return False
    # the estimate of kernels errs alike on both, so that only the network's interval counts
    best_at_most_s = (best.decode.kernels_s or 0.0) + best_network.high_s
    second_at_least_s = (second.decode.kernels_s or 0.0) + second_network.low_s
    return best_at_most_s > second_at_least_s


def _blocks(result: ServeList) -> list[Block]:
    refused = (f"{name}: {reason}" for name, reason in result.refused)
    return [
        Headline(_answer(result)),
        _table(result),
        *listed("not possible", refused, first=0),
    ]


class RefusedDeployment(NamedTuple):
    """A deployment that is not possible, and why."""

    name: str
    reason: str


class NameDocument(Document):
    """The name of a deployment; a base of its own, so that it is the first key."""

    name: str


class NamedServeDocument(NameDocument, ServeDocument):
    """A deployment by its name."""


def _documents(result: ServeList) -> tuple[dict[str, Any], ...]:
    return tuple(
        NamedServeDocument.of(record.served, name=record.name) for record in _records(result)
    )


class ServeListDocument(Document):
    """Deployments side by side, or the best of those that were tried."""

    title: str
    tried: int
    feasible: int | None
    served: list[NamedServeDocument] = derived(_documents)
    refused: list[RefusedDeployment] = derived(
        lambda result: tuple(RefusedDeployment(*pair) for pair in result.refused)
    )


VIEWS = {ServeList: View("serve-list", _blocks, ServeListDocument.of, _table, _answer)}
