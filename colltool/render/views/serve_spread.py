"""``serve --vary KEY=RANGE``: how far uncertain numbers of a fabric move the network time of a token.

:func:`_answer` is the headline, :func:`_table` a row for each number. ``moved`` has the network's time of a token with
one number at either end of its range, and ``span_s`` between the two, the largest first.
"""

from __future__ import annotations

from colltool.base.formatting import format_time
from colltool.render.blocks import Block, Columns, Headline, Table, label, number
from colltool.render.dispatch import View, context
from colltool.render.documents import Document, derived
from colltool.render.shared_documents import MovedNumberDocument
from colltool.render.views.sensitivity import rows_that_move, times_at_ends
from colltool.render.views.serve import ServeDocument
from colltool.render.views.serve_answer import deployment_in_words
from colltool.serving.spread import ServedBar, ServeSpread


def _answer(result: ServeSpread) -> str:
    """The network time of a token, where nine of ten samples of it lie, and the number that moves it
    most."""
    served = result.served
    network = format_time(served.decode.network_s)
    samples = f"{format_time(result.p5_s)} to {format_time(result.p95_s)}, 90% of the samples"
    question = f"{served.job} on {deployment_in_words(served)}"
    text = f"The network takes {network} per token ({samples}): {question}."
    # the first moves it most
    if not result.moved or not result.moved[0].span_s:
        none = "None of the fabric's numbers changes it: only the kernels' own error is left."
        return f"{text} {none}"
    largest = result.moved[0]
    return f"{text} {largest.number.key} matters most: {times_at_ends(largest)}."


_MOVED: Columns[ServedBar] = (
    label("key", "number", path="number.key"),
    number("value", "now", "{:.4g}".format, path="number.value"),
    number("low", "from", "{:.4g}".format, 2, path="number.low"),
    number("high", "to", "{:.4g}".format, 2, path="number.high"),
    number("low_s", "per token from", format_time),
    number("high_s", "to", format_time),
    number("span_s", "apart", format_time, 1),
)


def _table(result: ServeSpread) -> Table:
    served = result.served
    return Table(
        (*context(served.overrides, job=served.job), *_MOVED),
        result.moved,
        title="network time per token when one number changes alone",
        first=rows_that_move(result.moved),
    )


def _blocks(result: ServeSpread) -> list[Block]:
    return [Headline(_answer(result)), _table(result)]


class ServedBarDocument(MovedNumberDocument, of=ServedBar):
    """The network of a token at both ends of a number's range."""


class ServeSpreadDocument(Document):
    """The network of a token over samples of a fabric's uncertain numbers."""

    served: ServeDocument = derived(lambda result: ServeDocument.of(result.served))
    network_s: float = derived("served.decode.network_s")
    p5_s: float
    p50_s: float
    p95_s: float
    samples: int
    seed: int
    moved: list[ServedBarDocument]


VIEWS = {ServeSpread: View("serve-spread", _blocks, ServeSpreadDocument.of, _table, _answer)}
