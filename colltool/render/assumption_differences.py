"""What two prices assume differently, in sentences: which layers of the model they have, whose
library overhead, which contention.

:func:`basis_sentences` has a sentence for each difference, :func:`basis_block` a list of them, and
:class:`BasisDocument` its JSON.

A difference has a ``code``, which says what its values are, and ``parts``: pairs of a value and the names of the
columns that have it. The order of parts is that of ``colltool.analysis.basis``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, assert_never

from colltool.algorithms.libraries import LIBRARIES
from colltool.analysis.basis import LAYERS, BasisDifference, Layer
from colltool.base.errors import argument_text, localize
from colltool.base.formatting import and_text, counted, format_time, title_size
from colltool.fabric.shipped import shipped_fabrics
from colltool.render.blocks import Block
from colltool.render.dispatch import listed
from colltool.render.documents import Document, derived
from colltool.render.verdicts import add_library, add_like, with_verb


def basis_block(ground: Sequence[BasisDifference], every: Sequence[int]) -> list[Block]:
    """A list of the differences in what prices rest on, as of :func:`basis_lines`."""
    return listed("Different assumptions", basis_lines(ground, every))


def basis_lines(ground: Sequence[BasisDifference], every: Sequence[int]) -> tuple[str, ...]:
    """The sentences of :func:`basis_sentences`, that of the layers first."""
    layers_first = sorted(ground, key=lambda difference: difference.code != "layers")
    return basis_sentences(layers_first, every)


def basis_sentences(
    ground: Sequence[BasisDifference], every: Sequence[int] = ()
) -> tuple[str, ...]:
    """A sentence for each difference in what prices rest on.

    Args:
        every: all rank counts of the result; a difference on all of them names none.
    """
    lines = []
    for difference in ground:
        ranks = ""
        if difference.ranks and set(difference.ranks) != set(every):
            ranks = f"on {', '.join(map(str, difference.ranks))} ranks: "
        lines.append(ranks + _basis_sentence(difference))
    return tuple(lines)


def basis_summary(ground: Sequence[BasisDifference]) -> tuple[str, ...]:
    """``2 different assumptions``, as one text; none without a difference."""
    codes = {difference.code for difference in ground}
    return (counted(len(codes), "different assumption"),) if ground else ()


def layers_sentence(ground: Sequence[BasisDifference]) -> str:
    """Which layers all columns are priced by, if some could have more; else empty."""
    for difference in ground:
        if difference.code == "layers":
            return _LAYERS[_fewest_layers(difference)[0]]
    # all columns have the same layers
    return ""


# what is said of a result by the fewest layers of its columns
_LAYERS: dict[Layer, str] = {
    "datasheet": "Priced from data sheets, without library overhead",
    "library": "Priced without measurements of the machines",
    "measured": "",
}


def _fewest_layers(difference: BasisDifference) -> Any:
    """The part of a difference with the fewest layers of the model, by which all columns are priced: the layers
    by their last, and the columns that have no more."""
    return min(difference.parts, key=lambda part: LAYERS.index(part[0]))


def _layers_sentence(difference: BasisDifference) -> str:
    """Which layers all are priced by, because of which columns, and what to add to their files."""
    layers, columns = _fewest_layers(difference)
    has = with_verb(columns, "has", "have")
    if layers == "library":
        return f"all are priced with the library overhead of such links: {has} no measurements"
    text = f"all are priced from data sheets, without library overhead: {has} no library's numbers"
    # a shipped file is not to be changed
    own_files = [column for column in columns if column not in shipped_fabrics()]
    return f"{text}; {add_library(own_files)}" if own_files else text


def _without_and_having(difference: BasisDifference) -> tuple[list[str], list[str]]:
    """The columns that lack what others have, and these."""
    without: list[str] = []
    having: list[str] = []
    for value, names in difference.parts:
        # False is compared as 0 is: a launch of 0 s is a lack too
        side = without if value in (None, False) else having
        side += names
    return without, having


def _launch_sentence(difference: BasisDifference) -> str:
    """Which columns have no launch overhead, and how to give one to all; a part's value is seconds, or None."""
    without, having = _without_and_having(difference)
    most = format_time(max(value for value, _ in difference.parts if value is not None))
    one_for_all = argument_text("overrides", [f"launch_overhead={most.replace(' ', '')}"])
    return localize(
        f"{with_verb(without, 'has', 'have')} no launch overhead, {with_verb(having, 'has', 'have')} ({most}),"
        f" so short times cannot be compared; give all of them one: {one_for_all}"
    )


def _software_time_sentence(difference: BasisDifference) -> str:
    """Which columns include measured library overhead, and what to write into the files of the others."""
    # the largest share of overhead (seconds, of seconds, bytes) with the columns that have any, and
    # None with the others
    ((software_s, total_s, size), having), (_, lacking) = difference.parts
    share = f"{format_time(software_s)} of {format_time(total_s)} at {title_size(size)}"
    return (
        f"{with_verb(having, 'includes', 'include')} measured library overhead ({share}),"
        f" {with_verb(lacking, 'does not', 'do not')}, so small sizes are not comparable;"
        f" {add_like(lacking)}"
    )


def _basis_sentence(difference: BasisDifference) -> str:
    """Say in one sentence what columns assume differently."""
    without, having = _without_and_having(difference)
    match difference.code:
        case "layers":
            return _layers_sentence(difference)
        case "launch":
            return _launch_sentence(difference)
        case "protocols":
            their = "its" if len(without) == 1 else "their"
            protocols = f"{with_verb(having, 'is', 'are')} priced with measured protocols"
            return f"{protocols}, {and_text(without)} with {their} tiers' own numbers"
        case "software":
            others = f"those of {and_text(without)} do not; {add_library(without)}"
            return f"the prices of {and_text(having)} include what the library reaches, {others}"
        case "contention":
            no_eta = f"{with_verb(without, 'states', 'state')} no contention (eta) on some tier"
            return f"{no_eta}, which is priced as if nobody else were sending"
        case "library":
            libraries = []
            for name, columns in difference.parts:
                known_as = LIBRARIES[name].label if name else "any library"
                libraries.append(f"{known_as} on {and_text(columns)}")
            return f"libraries: {', '.join(libraries)}"
        case "group":
            groups = (
                f"{' x '.join(map(str, shape))} on {and_text(columns)}"
                for shape, columns in difference.parts
            )
            return f"ranks per domain, innermost tier first: {', '.join(groups)}"
        case "slice":
            slices = (
                f"{shape} on {and_text(columns)}" for shape, columns in difference.parts if shape
            )
            return f"slices: {', '.join(slices)}"
        case "software_time":
            return _software_time_sentence(difference)
        case _:
            assert_never(difference.code)


# --- the document


class BasisValue(NamedTuple):
    """A value of what columns differ in, and the columns that have it."""

    value: Any
    columns: list[str]


def _basis_values(difference: BasisDifference) -> Iterator[BasisValue]:
    """The parts of a difference, as JSON has them."""
    for value, columns in difference.parts:
        yield BasisValue(value, list(columns))


class BasisDocument(Document, of=BasisDifference):
    """What makes columns not comparable."""

    code: str
    values: list[BasisValue] = derived(_basis_values)
    primitives: list[str]
    ranks: list[int]
    says: str = derived(_basis_sentence)
