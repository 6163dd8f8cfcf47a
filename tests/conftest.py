"""What all tests share: helper modules on the path, property tests that draw the same examples on
every run, one option."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# With --import-mode=importlib a test cannot import its neighbours; tests/small.py is one, and some
# judge by what a benchmark has.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parent / "benchmarks")]

import effort
from remembered import remembered  # noqa: F401 - a fixture

import colltool.commands.arguments  # noqa: F401 - errors speak of options as its table has them
from colltool.fabric import load

# Hundreds of tests start the program: it is compiled once, not at every start, whatever the
# machine's environment says.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# nor does a width that the terminal or the workers state fold what goes into a pipe
os.environ.pop("COLUMNS", None)
sys.dont_write_bytecode = False

# What the program keeps between processes is kept apart from the user's own.
os.environ["XDG_CACHE_HOME"] = str(Path(tempfile.gettempdir()) / f"colltool-tests-{os.getuid()}")

# Hypothesis would parse every module for constants to draw: seconds of each worker, and other
# examples where other modules are.
providers._get_local_constants = lambda: providers._local_constants

DATASHEET = Path(__file__).parent / "data" / "datasheet"


@pytest.fixture
def datasheet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines by their datasheets: shipped names mean files without measured tiers, whose prices
    are plain formulas."""
    known = load.find_fabric

    def find(path_or_name: str | os.PathLike[str]) -> tuple[str, str]:
        file = DATASHEET / f"{os.fsdecode(path_or_name).removesuffix('.yaml')}.yaml"
        return (
            (str(file), file.name)
            if file.is_file() and not Path(path_or_name).is_file()
            else known(path_or_name)
        )

    monkeypatch.setattr(load, "find_fabric", find)


@pytest.fixture(scope="module")
def whole_nodes_alone() -> Iterator[None]:
    """An import without the graphs of fewer GPUs than a node has, which take most of its search."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("colltool.fabric.dumps.searched._entries_of_fewer", lambda *_: ())
        yield


def pytest_configure(config: pytest.Config) -> None:
    effort.thorough = config.getoption("--thorough")
    effort.in_ci = config.getoption("--ci")
    settings.register_profile(
        "repeatable",
        derandomize=True,
        deadline=None,
        max_examples=effort.examples(50),
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough",
        action="store_true",
        help="every case of every sweep; about three times as long",
    )
    parser.addoption(
        "--ci", action="store_true", help="also what is marked ci, which takes CI a minute more"
    )
    parser.addoption(
        "--update-readme",
        action="store_true",
        help="write what the commands of README and guides print; no tests",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With ``--update-readme`` only what writes runs; of cases that are alike some, and nothing
    thorough unless asked."""
    kept = effort.taken(items)
    if config.getoption("--update-readme"):
        writers = (
            "test_a_document_shows_what_its_commands_print",
            "test_the_picture_is_what_the_command_draws",
        )
        kept = [item for item in items if any(name in item.nodeid for name in writers)]
    config.hook.pytest_deselected(items=list(set(items).difference(kept)))
    items[:] = kept


def pytest_collection_finish() -> None:
    """Thousands of collected tests stay to the end: the garbage collector need not look through
    them again and again."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
