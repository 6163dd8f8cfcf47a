"""What a start loads: nothing that the question does not need."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import colltool

HEAVY = ("numpy", "yaml", "rich", "pydantic")
NOT_FOR_HELP = ("numpy", "yaml", "rich")  # typer from 0.29 on reads options with pydantic


def loaded(code: str) -> set[str]:
    """The modules that a fresh interpreter holds after this code."""
    report = "\nimport sys as _sys\n_sys.stderr.write('\\n' + ' '.join(_sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code + report],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(done.stderr.splitlines()[-1].split())


def running(*args: str) -> set[str]:
    """The modules that a command loads."""
    return loaded(f"from colltool.commands.app import run\nassert not run({list(args)!r})")


def test_the_application_loads_nothing_heavy() -> None:
    modules = loaded("import colltool.commands.root")
    assert not modules & {
        *HEAVY,
        "colltool.commands.reading",
        "colltool.estimate",
        "colltool.fabric",
        "colltool.algorithms",
        "colltool.render",
    }


def test_the_package_alone_loads_nothing_else() -> None:
    modules = loaded("import colltool")
    assert {name for name in modules if name.startswith("colltool")} == {"colltool"}
    assert not modules & {*HEAVY, "typer", "json", "importlib.metadata"}


@pytest.mark.parametrize(
    "args",
    [("--version",), ("--help",), ("price", "--help"), ("explain", "--help"), ("fabric", "-h")],
)
def test_help_loads_nothing_heavy(args: tuple[str, ...]) -> None:
    modules = running(*args)
    assert not modules & {*NOT_FOR_HELP, "colltool.fabric", "colltool.algorithms"}
    assert {name for name in modules if name.startswith("colltool.estimate.")} <= {
        "colltool.estimate.assumptions"
    }


def test_names_of_fabrics_are_completed_without_reading_any() -> None:
    code = "from colltool.commands.completion import complete_fabric\nassert complete_fabric('nv')"
    assert not loaded(code) & {*HEAVY, "colltool.fabric.load", "colltool.fabric.model"}


@pytest.mark.parametrize("form", ["json", "csv", "markdown"])
def test_a_price_for_a_machine_needs_neither_numpy_nor_rich(form: str) -> None:
    modules = running("price", "ar", "-f", "nvl72", "-n", "144", "-M", "16MB", "--format", form)
    assert "colltool.estimate.price" in modules
    assert not modules & {"numpy", "rich"}


def test_a_price_loads_no_other_command() -> None:
    modules = running("price", "ar", "-f", "nvl72", "-n", "144", "-M", "16MB")
    assert "numpy" not in modules
    others = {"colltool.estimate.crossover", "colltool.estimate.explain", "colltool.fabric.ladder"}
    assert not modules & {*others, "colltool.analysis.diff"}


def test_a_plan_follows_messages_only_where_it_is_asked_to() -> None:
    asked = ("plan", "mixtral-8x7b", "-f", "dgx-h100", "-n", "128", "--format", "json")
    assert not running(*asked) & {"numpy", "colltool.congestion", "colltool.algorithms.executor"}
    assert "colltool.congestion.loads" in running(*asked, "--links")


def test_the_core_works_without_the_extras() -> None:
    """Where synthesis is taken out, everything else is priced."""
    code = """
import sys
sys.modules["colltool.extras"] = None
import colltool
rows = colltool.price("dgx-1v", "ag", size="1MB", library="all").results
names = {row.algorithm for row in rows}
assert "direct" in names and not names & {"forest", "tacos", "mcf"}, names
"""
    assert not {name for name in loaded(code) if name.startswith("colltool.extras.")}


def test_the_version_is_the_one_that_is_installed() -> None:
    assert colltool.__version__ == version("colltool")


def test_a_public_name_stands_in_all_three_lists() -> None:
    """Where it is loaded from, what ``dir`` shows, and what type checkers read."""
    tree = ast.parse(Path(colltool.__file__).read_text(encoding="utf-8"))
    imported = {
        name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    loaded = {name for names in colltool._HOMES.values() for name in names}
    assert set(colltool.__all__) == loaded | {"__version__"}
    assert imported - {"Any", "import_module"} == loaded


def test_what_the_package_offers_is_there() -> None:
    assert all(getattr(colltool, name) is not None for name in colltool.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = colltool.nonsense
