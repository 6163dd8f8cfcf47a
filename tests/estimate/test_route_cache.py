"""Costs of routed messages that were kept: the same as those worked out, of shipped fabrics
alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from colltool.base.cache import cache_folder, keep, recall
from colltool.estimate import route_cache
from colltool.fabric.shipped import shipped_folder

PRICE = ("price", "ar", "-n", "512", "-M", "16MB", "--format", "json")
CODE = """
import sys
from colltool.commands.app import run
assert not run(sys.argv[1:])
print("numpy" in sys.modules, file=sys.stderr)
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def priced(fabric: str, *more: str) -> tuple[str, bool]:
    """The price in a process of its own, and whether messages were routed for it."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, *PRICE, "-f", fabric, *more],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, done.stderr.strip() == "True"


@pytest.mark.ci
def test_a_second_price_routes_no_message_and_is_the_same() -> None:
    first, routed = priced("frontier")
    assert routed
    assert priced("frontier") == (first, False)


@pytest.mark.ci
def test_a_file_of_the_users_and_a_changed_fabric_are_not_kept(tmp_path: Path) -> None:
    mine = tmp_path / "frontier.yaml"
    mine.write_text((shipped_folder() / "frontier.yaml").read_text())
    assert priced(str(mine))[1]
    assert priced("frontier", "--set", "slingshot.alpha=3us")[1]
    assert not list(cache_folder().glob("routes-*"))


@pytest.mark.ci
def test_an_entry_of_another_form_is_ignored() -> None:
    first, _ = priced("frontier")
    state = route_cache._code_state()
    costs = recall("routes-frontier", state)
    assert len(costs) >= 1
    broken = {links: {term: [[1]] for term in terms} for links, terms in costs.items()}
    for entry in (broken, {"links": 3}):
        keep("routes-frontier", state, entry)
        assert priced("frontier") == (first, True)
