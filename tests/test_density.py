"""The code gets no denser: every figure keeps its goal, or what it was when it was last lowered."""

from __future__ import annotations

from density import AT_LEAST, GOALS, Density, beyond_goals, density, modules, ratchets, whole
from swept import swept


def test_no_figure_gets_worse() -> None:
    """A new module keeps all goals. ``python tests/density.py --write`` lowers the ratchets."""
    known = ratchets()
    worse = []
    for place, value in beyond_goals().items():
        if place not in known:
            worse.append(f"{place[0]}: {place[1]} {value}")
        elif value < known[place] if place[1] in AT_LEAST else value > known[place]:
            worse.append(f"{place[0]}: {place[1]} {known[place]} -> {value}")
    assert not worse


def test_ratchets_name_what_there_is() -> None:
    """A module that went, or that keeps its goals by now, has no ratchet."""
    left_over = set(ratchets()) - set(beyond_goals())
    assert not left_over, "run python tests/density.py --write"


def test_the_whole_is_the_sum_of_its_modules() -> None:
    assert whole().nodes == sum(counts.nodes for counts in modules().values())
    assert set(GOALS) <= set(whole().figures())


def test_density_counts_what_is_read() -> None:
    text = (
        '"""Of a module."""\n'
        "\n"
        "from typing import Any  # not counted\n"
        "\n"
        "# a comment\n"
        "def f(x: list[Any]) -> Any:\n"
        '    """Sum.\n'
        "\n"
        '    By hand."""\n'
        "    return [one for one in x] if x else None\n"
    )
    # Module; FunctionDef, arguments, arg; Return, IfExp, x, None; ListComp, one; comprehension,
    # one, x
    found = density(text)
    assert (found.nodes, found.code_lines, found.lines, found.comments) == (13, 2, 10, 1)
    assert (found.comprehensions, found.tangled, found.ternaries) == (1, 0, 1)
    assert (found.prepositions, found.uses["one"], found.looped["one"]) == (1, 2, 2)
    assert found.figures()["nodes a code line"] == 6.5
    columns = density("cell: Callable[[Any], Any]\n")
    assert (columns.untyped, columns.nodes) == (1, 3)  # Module, AnnAssign and its name


@swept(
    "text",
    ["[a for b in c for a in b]", "{a for a in b if a if not c}", "sum(a for b in c for a in b)"],
)
def test_tangled_comprehensions_are_seen(text: str) -> None:
    assert density(text).tangled == 1
    assert density("[a for a in b if a]").tangled == 0


def test_counts_add_up() -> None:
    both = density("a = 1\n")
    both.add(density("# why\nb = [c for c in d]\n"))
    assert (both.lines, both.comments, both.comprehensions) == (3, 1, 1)
    assert both.uses == {"a": 1, "b": 1, "c": 2, "d": 1}
    assert Density().figures()["nodes"] == 0
