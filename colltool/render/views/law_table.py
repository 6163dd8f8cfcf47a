"""``export table``: the times of collectives as JSON (:func:`table_json`) and as a C header
(:func:`table_header`), for programs that cannot call colltool.

A law is the time of one collective on some ranks, in pieces that are straight lines over size: ``a_s`` seconds at
``from_bytes``, and ``b_s`` more for each byte, up to the next piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from colltool import __version__
from colltool.analysis.laws import Law, LawTable, LinePiece, NotCovered
from colltool.base.errors import displayed
from colltool.base.formatting import format_bytes, whole_percent
from colltool.render.data_formats import to_json
from colltool.render.dispatch import set_text
from colltool.render.documents import Document, optional


class LawDocument(Document, of=Law):
    """The price of a collective on some ranks."""

    primitive: str
    ranks: int
    nodes: int
    worst: float  # relative error of its pieces, at sizes from which they were not made
    pieces: list[LinePiece]


class TableDocument(Document):
    """``colltool.table/1``."""

    fabric: str
    set: str = optional(lambda table: set_text(table.overrides))
    library: str
    from_bytes: int
    to_bytes: int
    within: float  # the relative error that was asked for, which no law exceeds
    laws: list[LawDocument]
    not_covered: list[NotCovered]


def table_json(table: LawTable) -> str:
    """The laws as JSON."""
    head: dict[str, Any] = {"schema": "colltool.table/1", "colltool": __version__}
    return to_json(head | TableDocument.of(table))


# braces of C are doubled, as str.format has single ones
_HEADER = """\
/* {title}: time of collectives, by colltool {version}.
 *
 * colltool_seconds(collective, ranks, bytes): within {within} of "colltool price", from {least} to {most}.
 * bytes: as nccl-tests counts them (all-gather and reduce-scatter: all ranks together).
 * ranks: the first of the fabric, domain by domain; only the counts below, nothing in between.
 * Returns -1 for what is not here.
{not_covered} */
#ifndef COLLTOOL_TABLE_H
#define COLLTOOL_TABLE_H

enum colltool_collective {{
{names}
}};

/* seconds = a + b * (bytes - from), from this size on */
struct colltool_piece {{ double from, a, b; }};
struct colltool_law {{ int collective, ranks, first, pieces; }};

static const struct colltool_piece colltool_pieces[] = {{
{pieces}
}};

static const struct colltool_law colltool_laws[] = {{
{laws}
}};

static inline double colltool_seconds(int collective, int ranks, double bytes) {{
  const int laws = (int)(sizeof colltool_laws / sizeof colltool_laws[0]);
  if (!(bytes >= {least_bytes}.0 && bytes <= {most_bytes}.0)) return -1.0;
  for (int i = 0; i < laws; i++) {{
    const struct colltool_law *law = &colltool_laws[i];
    if (law->collective != collective || law->ranks != ranks) continue;
    int low = law->first, high = law->first + law->pieces - 1;
    while (low < high) {{
      const int middle = (low + high + 1) / 2;
      if (colltool_pieces[middle].from <= bytes) low = middle;
      else high = middle - 1;
    }}
    const struct colltool_piece *piece = &colltool_pieces[low];
    return piece->a + piece->b * (bytes - piece->from);
  }}
  return -1.0;
}}

#endif
"""


def table_header(table: LawTable) -> str:
    """The laws as a C header, which C++ reads too."""
    names = dict.fromkeys(map(_constant, table.laws))  # each once, in their order
    # the pieces of all laws in one array: a law has the index of its first one, and how many
    pieces: list[str] = []
    laws = []
    for law in table.laws:
        laws.append(f"  {{{_constant(law)}, {law.ranks}, {len(pieces)}, {len(law.pieces)}}},")
        for piece in law.pieces:
            pieces.append(f"  {{{piece.from_bytes}.0, {piece.a_s:.9g}, {piece.b_s:.9g}}},")
    return _HEADER.format(
        title=_in_comment(f"{table.fabric} {set_text(table.overrides)}".strip()),
        version=__version__,
        within=whole_percent(table.within),
        least=format_bytes(table.from_bytes),
        most=f"{table.to_bytes / 2**30:g} GiB",
        not_covered="".join(_not_covered_lines(table)),
        names=",\n".join(f"  {constant}" for constant in names),
        pieces="\n".join(pieces),
        laws="\n".join(laws),
        least_bytes=table.from_bytes,
        most_bytes=table.to_bytes,
    )


def _constant(law: Law) -> str:
    """``COLLTOOL_ALL_REDUCE``."""
    return f"COLLTOOL_{str(law.primitive).upper()}"


def _not_covered_lines(table: LawTable) -> Iterator[str]:
    """Lines of the header's first comment."""
    for left_out in table.not_covered:
        reason = _in_comment(left_out.reason)
        yield f" * Not here: {left_out.primitive} on {left_out.ranks} ranks: {reason}\n"


def _in_comment(text: str) -> str:
    """Text that does not end a comment of C."""
    return displayed(text).replace("*/", "* /").replace("\\", "/").replace("\n", " ")
