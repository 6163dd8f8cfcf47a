"""One error, two readers: options for somebody at a shell, arguments for somebody in Python."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from swept import swept

import colltool
from colltool.base.errors import (
    ColltoolError,
    ManyErrors,
    argument_text,
    either,
    rename_arguments,
    spell,
)
from colltool.commands.arguments import ARGUMENTS


@swept(
    ("mark", "shell", "python"),
    [
        (argument_text("ranks"), "--ranks", "ranks"),
        (argument_text("ranks", 64), "-n 64", "ranks=64"),
        (argument_text("ranks", ...), "-n ...", "ranks=..."),
        (argument_text("size", "16MB"), "-M 16MB", 'size="16MB"'),
        (argument_text("phases", "sequential"), "--phases sequential", 'phases="sequential"'),
        (
            argument_text("algorithms", ["ring", "tree"]),
            "--algorithm ring,tree",
            'algorithms=["ring", "tree"]',
        ),
        (argument_text("ideal", True), "--ideal", "ideal=True"),
        (argument_text("ring_alpha", "worst"), "--ring-alpha worst", 'ring_alpha="worst"'),
        (argument_text("overrides", ["a=1"]), "--set a=1", 'overrides=["a=1"]'),
        (argument_text("shape", (4, 2), text="4x2"), "--shape 4x2", "shape=(4, 2)"),
        (argument_text("primitive", "ar"), "ar", 'primitive="ar"'),
        (
            either(shell="colltool fabric list", python="colltool.list_fabrics()"),
            "colltool fabric list",
            "colltool.list_fabrics()",
        ),
    ],
)
def test_both_spellings(mark: str, shell: str, python: str) -> None:
    assert spell(f"take {mark}, or not", "shell") == f"take {shell}, or not"
    assert spell(f"{mark} and {mark}", "python") == f"{python} and {python}"


def test_an_error_names_its_argument_and_its_place() -> None:
    error = ColltoolError(
        "does not fit", where="a.csv:3", argument="ranks", fix=f"take {argument_text('ranks', 8)}"
    )
    assert str(error) == "a.csv:3: ranks: does not fit\n  take ranks=8"
    assert error.spelled("shell") == "a.csv:3: --ranks: does not fit\n  take -n 8"
    assert error.lines("shell") == ["a.csv:3: --ranks: does not fit", "take -n 8"]
    assert error.argument == "ranks"


def test_a_function_or_command_that_calls_it_otherwise() -> None:
    with (
        pytest.raises(ColltoolError) as caught,
        rename_arguments("python", algorithms="algorithm"),
        rename_arguments("shell", primitive="--collective"),
    ):
        raise ManyErrors(
            [
                ColltoolError("one", argument="algorithms"),
                ColltoolError(f"give {argument_text('primitive')}"),
            ]
        )
    assert str(caught.value) == "algorithm: one\ngive primitive"
    assert caught.value.spelled("shell") == "--algorithm: one\ngive --collective"


def test_text_that_holds_a_mark_of_its_own_is_text() -> None:
    for text in ("\ue000", "\ue000ranks", "a\ue002b", "\ue000\ue002", "\ue001"):
        assert "".join(one for one in spell(text, "python") if one.isprintable()) in (
            "",
            "ranks",
            "ab",
        )


OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+|(?<![\w-])-[nMfaop] (?=\S)")


# Command lines of nccl-tests, mpirun, nvidia-smi, and properties of CSS: options that are not ours.
OF_OTHERS = (
    "analysis/benchmark_command.py",
    "analysis/machine_curves.py",
    "diagnosis/link_health.py",
    "diagnosis/trace.py",
    "extras/interop/chakra.py",
    "extras/interop/goal.py",
    "extras/interop/simgrid_run.py",
    "extras/pictures/plot/page.py",
    "fabric/dumps/hwloc.py",
    "logs/launch_line.py",
    "render/gates.py",
    "render/playground.py",
)
# What says which option shows the rest of an output, or which command prints a page's numbers.
OF_THE_COMMAND_LINE = (
    "render/markup.py",
    "render/schemas.py",
    "render/site/machine.py",
    "render/site/scoreboard.py",
    "render/text.py",
)


def bodies(tree: ast.Module, where: str) -> list[ast.AST]:
    """The code whose texts Python users read: of a command its public function, without the
    options that decorate it."""
    if not where.startswith("commands/"):
        return [tree]
    return [
        statement
        for function in tree.body
        if isinstance(function, ast.FunctionDef) and function.name in colltool.__all__
        for statement in function.body
    ]


def test_only_the_command_line_names_its_options() -> None:
    """Everybody else marks an argument with given(), so that Python reads of arguments."""
    package = Path(colltool.__file__).parent
    found = set()
    for path in sorted(package.rglob("*.py")):
        where = path.relative_to(package).as_posix()
        if where in OF_THE_COMMAND_LINE + OF_OTHERS:
            continue
        text = path.read_text(encoding="utf-8")
        if not OPTION.search(text):
            continue
        nodes = [node for body in bodies(ast.parse(text), where) for node in ast.walk(body)]
        said_both_ways = (node for node in nodes if is_either(node) or prepares_either(node))
        spoken = {id(node) for said in said_both_ways for node in ast.walk(said)}
        documented = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in spoken | documented
            ):
                found |= {
                    f"{where}:{node.lineno}: {node.value}" for _ in OPTION.findall(node.value)
                }
    assert not found


def prepares_either(node: ast.AST) -> bool:
    """A function that puts together what either() then marks."""
    return isinstance(node, ast.FunctionDef) and any(is_either(one) for one in ast.walk(node))


def is_either(node: ast.AST) -> bool:
    """A call of either(), or of to_type(), which puts both spellings of a change into one."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    return node.func.id in ("either", "to_type")


def test_options_are_those_of_the_table_of_arguments() -> None:
    for name, row in ARGUMENTS.items():
        # the first of a pair such as --chart/--no-chart
        options = row.flags.partition("/")[0].split() or [row.metavar.rstrip("."), ""]
        assert spell(argument_text(name), "shell") == max(options, key=len)
        assert spell(argument_text(name, "X"), "shell") == f"{options[-1]} X".strip()
    assert (
        spell(
            f"{argument_text('ranks')} {argument_text('ranks', 8)} {argument_text('algorithms', 'ring')}",
            "shell",
        )
        == "--ranks -n 8 --algorithm ring"
    )
    # without a row
    assert (
        spell(f"{argument_text('ring_alpha')} {argument_text('watch', 1)}", "shell")
        == "--ring-alpha --watch 1"
    )


def test_an_assistant_reads_json() -> None:
    """What it sends: names as the function has them, values as JSON has them."""
    said = {
        argument_text("ranks", 64): '"ranks": 64',
        argument_text("sizes", ["1MB", "1GB"]): '"sizes": ["1MB", "1GB"]',
        argument_text("shape", (4, 4)): '"shape": [4, 4]',
        argument_text("alone", True): '"alone": true',
        argument_text("fabric"): "fabric",
    }
    for text, spelled in said.items():
        assert spell(text, "tool") == spelled
    with pytest.raises(ColltoolError) as caught, rename_arguments("python", ranks="counts"):
        raise ColltoolError("too many", argument="ranks")
    assert caught.value.spelled("tool") == "counts: too many"
