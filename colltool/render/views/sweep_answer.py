"""The answer of a sweep: what runs at which sizes, and where something else would be faster.

:func:`sweep_answer` puts its sentences together, and each stands below it. A cell is a point of the grid:
``known_as`` is the library's name of what runs there, ``runner_up_known_as`` that of the next, ``at`` the cell's values
on all axes. Texts are empty where there is nothing to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from colltool.analysis.axes import GRID_AXES
from colltool.analysis.cells import Cell
from colltool.analysis.sweep import Sweep, is_surely_beaten
from colltool.base.formatting import counted, format_factor, or_text, sentence
from colltool.render.assumption_differences import layers_sentence
from colltool.render.estimates import library_in_title
from colltool.render.fitted_words import fitted_sentences
from colltool.render.views.compare import cell_intervals
from colltool.render.views.sweep_words import axis_values, question, value_in_words, value_text

_MOST_NAMES = 3  # algorithms that a sentence names
# the index of the size in a cell's values: the axes of GRID_AXES stand first in every sweep
_BYTES = GRID_AXES.index("bytes")


def sweep_answer(result: Sweep) -> str:
    """Say what runs where, how sure that is, and what was done to let fabrics hold the ranks."""
    parts = [
        f"{sentence(question(result))}: {_what_runs(result)}",
        _faster_text(result),
        _too_close_text(result),
        _none_implemented_text(result),
        cell_intervals(result.priced),
        *fitted_sentences(result.fitted),
        layers_sentence(result.ground),
    ]
    return f"{'. '.join(filter(None, parts))}."


def _what_runs(result: Sweep) -> str:
    """``NCCL runs Ring (8 ranks) or Tree up to 1MB, NVLSTree from 16MB``."""
    if not result.priced:
        return f"none of {_points(result)} can be priced"
    runs = "the fastest is"
    if any(cell.picked for cell in result.priced):
        # of several fabrics the first may have none
        library = "the library"
        if result.library:
            library = library_in_title(result.library, leads=True)
        runs = f"{library} runs"
    small, large = _size_classes(result)
    names = _names_at(result, small)
    if not large:
        return f"{runs} {names}"
    largest = value_text("bytes", small[-1])
    next_size = value_text("bytes", large[0])
    names_of_large = _names_at(result, large)
    return f"{runs} {names} up to {largest}, {names_of_large} from {next_size}"


def _size_classes(result: Sweep) -> tuple[Sequence[float], Sequence[float]]:
    """All sizes in at most two classes, cut so that they name the fewest algorithms: every size
    counts the names of its class.

    With Ring at 1KB and Tree at 1MB and 1GB, the cut after 1KB counts 1 x 1 + 2 x 1 names, and one
    class of all sizes 3 x 2.
    """
    sizes = sorted(axis_values(result, "bytes"))
    names: dict[float, set[str]] = {size: set() for size in sizes}
    for cell in result.priced:
        names[cell.at[_BYTES]].add(cell.known_as)

    def count_names(cut: int) -> int:
        """Count the names of the classes before and after an index of the sizes."""
        count = 0
        for size_class in (sizes[:cut], sizes[cut:]):
            names_of_class: set[str] = set()
            for size in size_class:
                names_of_class |= names[size]
            count += len(size_class) * len(names_of_class)
        return count

    # min() takes the first of equals, and cuts go down from all sizes: one class where two say no more
    cut = min(range(len(sizes), 0, -1), key=count_names)
    return sizes[:cut], sizes[cut:]


def _names_at(result: Sweep, sizes: Sequence[float]) -> str:
    """The algorithms at some sizes, commonest first, each with the value of the axis that sets it
    apart: ``Tree or Ring (8 ranks)``."""
    cells = [cell for cell in result.priced if cell.at[_BYTES] in sizes]
    counts = Counter(cell.known_as for cell in cells)
    texts = []
    for name, _ in counts.most_common(_MOST_NAMES):
        condition = _only_at(result, cells, name)
        texts.append(f"{name}{condition}")
    if len(counts) > _MOST_NAMES:
        texts.append("others")
    return or_text(texts)


def _only_at(
    result: Sweep,
    cells: Sequence[Cell],
    name: str,
) -> str:
    """The one value of an axis at which an algorithm runs, where others run at other values alone:
    `` (8 ranks)``. Empty if no axis has one, or if nothing else runs."""
    own = [cell for cell in cells if cell.known_as == name]
    others = [cell for cell in cells if cell.known_as != name]
    if not others:
        return ""
    for index, axis in enumerate(result.axes):
        if axis.key == "bytes" or len(axis.values) == 1:
            continue
        values = {cell.at[index] for cell in own}
        values_of_others = {cell.at[index] for cell in others}
        if len(values) == 1 and values.isdisjoint(values_of_others):
            value = values.pop()
            return f" ({value_in_words(axis.key, value)})"
    return ""


def _points(result: Sweep) -> str:
    """``12 points``: all cells."""
    return counted(len(result.cells), "point")


def _faster_text(result: Sweep) -> str:
    """``Tree would be up to 1.4x faster in 3 of 12 points``: where another algorithm surely beats what
    runs. Empty for none."""
    beaten = [cell for cell in result.priced if is_surely_beaten(cell)]
    if not beaten:
        return ""
    names = dict.fromkeys(cell.runner_up_known_as for cell in beaten)
    rivals = "others"
    if len(names) <= _MOST_NAMES:
        rivals = or_text(list(names))
    factors = []
    for cell in beaten:
        # neither is None, nor 0, in a cell that is beaten: the values are for the type checker
        total_s = cell.total_s or 0.0
        faster_s = cell.runner_up_s or 1.0
        factors.append(total_s / faster_s)
    largest = format_factor(max(factors), 3)
    points = _points(result)
    return f"{sentence(rivals)} would be up to {largest} faster in {len(beaten)} of {points}"


def _too_close_text(result: Sweep) -> str:
    """``In 3 of 12 points two algorithms are too close to call``. Empty for none."""
    close = [cell for cell in result.close if not is_surely_beaten(cell)]
    if not close:
        return ""
    if len(result.cells) == 1:
        return "Two algorithms are too close to call"
    points = _points(result)
    return f"In {len(close)} of {points} two algorithms are too close to call"


def _none_implemented_text(result: Sweep) -> str:
    """Say that the library runs none of the algorithms. Empty where it runs some."""
    if not result.library or any(cell.selectable for cell in result.priced):
        return ""
    return sentence(library_in_title(result.library, leads=False))
