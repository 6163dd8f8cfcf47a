"""How dense the code of colltool is: figures of each module and of all, held down by ratchets.

    python tests/density.py            the figures beside the goals, and the densest modules
    python tests/density.py --write    lower the ratchets to what stands now

Nodes are those of Python's syntax tree without docstrings, annotations and imports. Lines are no
measure: they can be won by writing denser.
"""

from __future__ import annotations

import ast
import csv
import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import cast

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "colltool"
RATCHETS = ROOT / "tests" / "data" / "density.csv"

PREPOSITIONS = (
    "As", "At", "Beside", "Between", "By", "From", "In", "Of", "On", "So", "To", "Under", "Whose",
    "Without",
)  # fmt: skip
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp

# Goals for the whole package; a figure above its goal may not grow, see RATCHETS.
GOALS = {
    "nodes": 330_000,
    "nodes a code line": 6.5,
    "comprehensions a thousand lines": 30,
    "ternaries a thousand lines": 20,
    "comments a thousand lines": 12,
    "commonest loop name": 800,
    "prepositions": 0,
    "untyped columns": 0,
    "fmt: skip": 20,
}
AT_LEAST = {"comments a thousand lines"}

# Goals for a single module. Formulas and schedules are arithmetic, of which a line holds more.
MODULE_GOALS = {
    "nodes a code line": 6.5,
    "ternaries a thousand lines": 30,
    "tangled comprehensions": 0,
    "uses of 'one'": 0,
    "prepositions": 0,
    "untyped columns": 0,
    "fmt: skip": 0,
}
FORMULAS = (
    "algorithms",
    "network",
    "congestion",
    "calibration",
    "extras",
)
NODES_A_LINE_OF_FORMULAS = 8.0


@dataclass
class Density:
    """Counts of one module, or of several together."""

    nodes: int = 0
    code_lines: int = 0  # without blank lines, comments, docstrings and imports
    lines: int = 0
    comments: int = 0
    comprehensions: int = 0
    tangled: int = 0  # comprehensions with more than one `for` or more than one condition
    ternaries: int = 0
    prepositions: int = 0  # docstrings that begin with one
    untyped: int = 0
    skips: int = 0
    looped: Counter[str] = field(default_factory=Counter)  # uses of a name in loops that bind it
    uses: Counter[str] = field(default_factory=Counter)  # of every name

    def add(self, other: Density) -> None:
        """Count what another has as well."""
        for part in self.__dataclass_fields__:
            if part in ("looped", "uses"):
                getattr(self, part).update(getattr(other, part))
            else:
                setattr(self, part, getattr(self, part) + getattr(other, part))

    def figures(self) -> dict[str, float]:
        """Figures by the names of the goals."""
        thousands = max(self.lines, 1) / 1000
        return {
            "nodes": self.nodes,
            "nodes a code line": round(self.nodes / max(self.code_lines, 1), 2),
            "comprehensions a thousand lines": round(self.comprehensions / thousands, 1),
            "tangled comprehensions": self.tangled,
            "ternaries a thousand lines": round(self.ternaries / thousands, 1),
            "comments a thousand lines": round(self.comments / thousands, 1),
            "commonest loop name": max(self.looped.values(), default=0),
            "uses of 'one'": self.uses["one"],
            "prepositions": self.prepositions,
            "untyped columns": self.untyped,
            "fmt: skip": self.skips,
        }


def docstring_node(node: ast.AST) -> ast.Expr | None:
    """The statement that is a node's docstring."""
    if not isinstance(node, DOCUMENTED) or ast.get_docstring(node, clean=False) is None:
        return None
    return cast(ast.Expr, node.body[0])


def read_nodes(tree: ast.AST) -> tuple[list[ast.AST], list[ast.AST]]:
    """All nodes but marks of loading and storing; and those of them that are read as code: no
    docstrings, annotations and imports."""
    every: list[ast.AST] = []
    own: list[ast.AST] = []
    waiting = [(tree, True)]
    while waiting:
        node, is_own = waiting.pop()
        every.append(node)
        if is_own:
            own.append(node)
        docstring = docstring_node(node)
        for name in node._fields:
            value = getattr(node, name, None)
            is_read = is_own and name not in ("annotation", "returns")
            for child in value if isinstance(value, list) else (value,):
                if not isinstance(child, ast.AST) or isinstance(child, ast.expr_context):
                    continue
                is_import = isinstance(child, ast.Import | ast.ImportFrom)
                waiting.append((child, is_read and child is not docstring and not is_import))
    return every, own


def code_lines(nodes: list[ast.AST], lines: list[str]) -> int:
    """Lines that hold code."""
    left_out: set[int] = set()
    for node in nodes:
        passage = node if isinstance(node, ast.Import | ast.ImportFrom) else docstring_node(node)
        if passage is not None:
            left_out.update(range(passage.lineno, (passage.end_lineno or passage.lineno) + 1))
    count = 0
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith("#") and number not in left_out:
            count += 1
    return count


def loop_names(nodes: list[ast.AST]) -> Counter[str]:
    """Uses of names in the loops and comprehensions that bind them."""
    counted: set[int] = set()
    found: Counter[str] = Counter()
    for loop in nodes:
        if isinstance(loop, ast.For | ast.AsyncFor):
            targets = [loop.target]
        elif isinstance(loop, COMPREHENSIONS):
            targets = [part.target for part in loop.generators]
        else:
            continue
        bound = set()
        for target in targets:
            bound.update(node.id for node in ast.walk(target) if isinstance(node, ast.Name))
        for node in ast.walk(loop):
            if isinstance(node, ast.Name) and node.id in bound and id(node) not in counted:
                counted.add(id(node))
                found[node.id] += 1
    return found


def is_tangled(node: ast.AST) -> bool:
    """Whether a comprehension would need reading twice."""
    if not isinstance(node, COMPREHENSIONS):
        return False
    return len(node.generators) > 1 or len(node.generators[0].ifs) > 1


def density(text: str) -> Density:
    """The figures of a module's text."""
    tree = ast.parse(text)
    nodes, own = read_nodes(tree)
    lines = text.splitlines()
    found = Density(
        nodes=len(own),
        code_lines=code_lines(nodes, lines),
        lines=len(lines),
        comments=sum(line.strip().startswith("#") for line in lines),
        untyped=text.count("Callable[[Any], Any]"),
        skips=text.count("# fmt: skip"),
        looped=loop_names(nodes),
    )
    for node in nodes:
        found.comprehensions += isinstance(node, COMPREHENSIONS)
        found.tangled += is_tangled(node)
        found.ternaries += isinstance(node, ast.IfExp)
        if isinstance(node, ast.Name):
            found.uses[node.id] += 1
        if isinstance(node, DOCUMENTED):
            words = (ast.get_docstring(node, clean=False) or "").split(None, 1)[:1]
            found.prepositions += words != [] and words[0] in PREPOSITIONS
    return found


@cache
def modules() -> dict[str, Density]:
    """The figures of each module, by its path below colltool."""
    return {
        path.relative_to(PACKAGE).as_posix(): density(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


@cache
def whole() -> Density:
    total = Density()
    for counts in modules().values():
        total.add(counts)
    return total


def goal_of(module: str, figure: str) -> float:
    if figure == "nodes a code line" and module.split("/")[0] in FORMULAS:
        return NODES_A_LINE_OF_FORMULAS
    return MODULE_GOALS[figure]


def beyond_goals() -> dict[tuple[str, str], float]:
    """Figures that miss their goal today, by module ("all" for the package) and name."""
    found = {}
    for name, goal in GOALS.items():
        value = whole().figures()[name]
        if value < goal if name in AT_LEAST else value > goal:
            found["all", name] = value
    for module, counts in modules().items():
        figures = counts.figures()
        for name in MODULE_GOALS:
            if figures[name] > goal_of(module, name):
                found[module, name] = figures[name]
    return found


@cache
def ratchets() -> dict[tuple[str, str], float]:
    """What each figure that missed its goal was when it was last lowered."""
    with RATCHETS.open(encoding="utf-8", newline="") as rows:
        return {(row["module"], row["figure"]): float(row["value"]) for row in csv.DictReader(rows)}


def write() -> None:
    """Lower the ratchets; a figure that grew keeps its old one."""
    old = ratchets() if RATCHETS.exists() else {}
    with RATCHETS.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["module", "figure", "value"])
        for (module, name), value in sorted(beyond_goals().items()):
            best = max if name in AT_LEAST else min
            writer.writerow([module, name, best(value, old.get((module, name), value))])


def main() -> None:
    if sys.argv[1:] == ["--write"]:
        write()
    figures = whole().figures()
    for name, goal in GOALS.items():
        sign = ">=" if name in AT_LEAST else "<="
        print(f"{name:34} {figures[name]:>10,}   {sign} {goal:,}")
    by_density = sorted(modules().items(), key=lambda item: -item[1].figures()["nodes a code line"])
    for module, counts in by_density[:5]:
        print(f"  densest: {counts.figures()['nodes a code line']:5.2f} nodes a line in {module}")


if __name__ == "__main__":
    main()
