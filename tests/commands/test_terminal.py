"""Tables on terminals of several widths, and in a pipe."""

from __future__ import annotations

import json
import os
import re
import struct
import sys
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import pytest

from colltool.commands.app import run as boundary

fcntl = pytest.importorskip("fcntl")
pty = pytest.importorskip("pty")
termios = pytest.importorskip("termios")

NVL = ("-f", "nvl72", "-n", "144")
COMMANDS: dict[str, tuple[str, ...]] = {
    "price": ("price", "ar", *NVL, "-M", "16MB"),
    "price sizes": ("price", "ar", "-f", "nvl72", "-n", "72", "-M", "1MB,1GB"),
    "price winners": ("price", "ar", *NVL),
    "crossover": ("crossover",),
    "crossover named": ("crossover", "ar", *NVL, "--algorithm", "hierarchical:ring/ring,ring"),
    "breakdown": ("breakdown", "ar", *NVL, "-M", "16MB"),
    "ladder": ("ladder",),
    "fabric list": ("fabric", "list"),
    "fabric show": ("fabric", "show", "nvl72"),
    "plan search": (
        "plan",
        "mixtral-8x7b",
        "-f",
        "dgx-h100",
        "-n",
        "128",
        "--search",
        "--keep",
        "tp=1",
        "--keep",
        "pp=4",
    ),
    "explain": ("explain", "ring", "ar", *NVL, "-M", "16MB"),
}
LEFT_OUT = "--all adds "
_UNSET = ("NO_COLOR", "COLUMNS", "LINES", "FORCE_COLOR", "TERM")
PLAIN = {name: value for name, value in os.environ.items() if name not in _UNSET}


@cache
def on_terminal(*args: str, columns: int = 80, code: int = 0, **env: str) -> str:
    """What a terminal of this width receives from a child of this process: modules are loaded
    already."""
    process, ours = pty.fork()
    if process == 0:
        _become_the_program(
            args, columns, PLAIN | {"TERM": "xterm-256color", "PYTHONUTF8": "1"} | env
        )
    received = b""
    while chunk := _read(ours):
        received += chunk
    os.close(ours)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == code
    return received.decode().replace("\r\n", "\n")


def _become_the_program(args: tuple[str, ...], columns: int, env: dict[str, str]) -> NoReturn:
    """Run the command on the terminal that the fork opened as standard streams, and end."""
    ended = 70
    try:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        os.environ.clear()
        os.environ.update(env)
        encoding = env.get("PYTHONIOENCODING", "utf-8")
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(at, "r" if at == 0 else "w", encoding=encoding) for at in range(3)
        )
        ended = boundary(args)
        sys.stdout.flush()
    finally:
        os._exit(ended)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other end is closed
        return b""


def without_colour(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def tables(text: str) -> list[list[list[str]]]:
    """Every table as rows of cells, its header first."""
    found: list[list[list[str]]] = []
    inside = False
    for line in text.splitlines():
        if re.match(r"[│|] ", line):
            cells = [cell.strip() for cell in re.split(r" [│|] | [│|]$", line[1:].strip("\n"))]
            if not inside:
                found.append([])
            found[-1].append(cells[:-1] if cells[-1] == "" else cells)
            inside = True
        elif (
            not re.match(r"[├|+╭╰]", line)
            or re.match(r"[╰]", line)
            or (inside and line.startswith("+"))
        ):
            inside = False
    return found


def left_out(text: str) -> str:
    """What the last line says that ``--all`` adds, the line's wrapping undone."""
    return " ".join(without_colour(text).partition(LEFT_OUT)[2].split())


@pytest.mark.alike(3)
@pytest.mark.parametrize("columns", [80, 160])
@pytest.mark.parametrize("name", COMMANDS)
def test_tables_fit_and_nothing_is_cut(name: str, columns: int) -> None:
    shown = without_colour(on_terminal(*COMMANDS[name], columns=columns))
    assert max(len(line) for line in shown.splitlines()) <= columns
    assert "…" not in shown
    whole, narrow = tables(without_colour(on_terminal(*COMMANDS[name], columns=500))), tables(shown)
    assert len(whole) == len(narrow)
    named = left_out(shown)
    for full, part in zip(whole, narrow, strict=True):
        header = " ".join(unfolded(part)[0])
        for title in full[0]:
            assert title in header or title in named, f"column {title} is gone without a word"
        cells = [word for row in part for cell in row for word in cell.split()]
        kept = [index for index, title in enumerate(full[0]) if title in header]
        assert sorted(cells) == sorted(
            word for row in full for index in kept for word in row[index].split()
        )


def unfolded(table: list[list[str]]) -> list[list[str]]:
    """A table whose heading may take several lines, until the first row that is no heading."""
    return [[" ".join(filter(None, cells)) for cells in zip(*table, strict=True)]]


@pytest.mark.alike(4)
@pytest.mark.parametrize("name", COMMANDS)
def test_all_columns_and_rows_fit_too(name: str) -> None:
    shown = without_colour(on_terminal(*COMMANDS[name], "--all"))
    assert max(len(line) for line in shown.splitlines()) <= 80
    assert LEFT_OUT not in shown
    whole = tables(without_colour(on_terminal(*COMMANDS[name], "--all", columns=500)))
    words = set(shown.split())
    assert {
        word for table in whole for row in table for cell in row for word in cell.split()
    } <= words


@pytest.mark.alike(5)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_wide_terminal_shows_every_column(name: str, run: Any) -> None:
    shown = without_colour(on_terminal(*COMMANDS[name], "--all", columns=500))
    assert LEFT_OUT not in shown
    assert tables(shown) == tables(run(*COMMANDS[name], "--all").out)


def test_some_column_is_left_out_at_80() -> None:
    """So that the test above tests something."""
    assert "columns: " in left_out(on_terminal(*COMMANDS["price"]))


@pytest.mark.alike(5)
@pytest.mark.parametrize("name", COMMANDS)
def test_no_word_of_a_text_is_cut_at_80(name: str, run: Any) -> None:
    """Text is wrapped between words, so every word of the pipe's text stands whole on the
    terminal."""
    out = run(*COMMANDS[name], "--all").out
    words = {
        word
        for line in out.splitlines()
        if not line.startswith(("|", "+"))
        for word in line.split()
    }
    assert words <= set(without_colour(on_terminal(*COMMANDS[name], "--all")).split())


def test_colour_on_a_terminal() -> None:
    assert "\x1b[" in on_terminal(*COMMANDS["price"])


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_no_colour_where_none_is_wanted(env: dict[str, str]) -> None:
    plain = on_terminal(*COMMANDS["price"], columns=160, **env)
    assert "\x1b" not in plain
    assert tables(plain) == tables(without_colour(on_terminal(*COMMANDS["price"], columns=160)))
    assert ("╭" in plain) is ("TERM" not in env), "a dumb terminal has no borders but ASCII"


def test_total_stays_longest() -> None:
    for name in ("price", "price sizes", "price winners"):
        first = tables(without_colour(on_terminal(*COMMANDS[name], columns=90)))[0][0]
        assert "total" in first, name
        assert "algbw" not in first


def test_a_comparison_keeps_its_border_at_80(tmp_path: Path, run: Any) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    ladder = run("ladder", "--format", "json").json
    old.write_text(json.dumps(ladder))
    for rung in ladder["rows"]:
        rung["realistic"]["bandwidth_s"] *= 1.5
    new.write_text(json.dumps(ladder))
    shown = without_colour(on_terminal("diff", str(old), str(new), "--all", code=1))
    assert max(map(len, shown.splitlines())) <= 80
    by_field, values = tables(shown)
    assert by_field[0] == ["what", "rows", "change", "largest in", "from", "to"]
    assert values[0] == ["where", "old", "new", "change"]
    assert {row[3] for row in values[1:]} == {"+50%", ""}, "a place that is too long goes on below"


def test_an_empty_no_color_is_not_set() -> None:
    assert "\x1b[" in on_terminal(*COMMANDS["price"], NO_COLOR="")


@pytest.mark.parametrize("form", ["json", "csv", "markdown"])
def test_machine_formats_are_the_same_on_a_terminal(form: str, run: Any) -> None:
    args = (*COMMANDS["price"], "--format", form)
    assert on_terminal(*args) == run(*args).out


def test_a_terminal_without_unicode_gets_ascii_borders() -> None:
    shown = on_terminal(*COMMANDS["price"], PYTHONUTF8="0", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert shown.isascii()
    assert "+--" in shown


def test_a_file_is_written_as_for_a_pipe(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "out"
    assert on_terminal(*COMMANDS["price"], "-o", str(file)) == ""
    assert file.read_text() == run(*COMMANDS["price"]).out


@pytest.mark.alike(5)
@pytest.mark.parametrize("name", COMMANDS)
def test_in_a_pipe_80_columns_and_all_as_wide_as_the_content(
    name: str, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm-256color")
    brief, whole = (run(*COMMANDS[name], *more).out for more in ((), ("--all",)))
    assert max(map(len, brief.splitlines())) <= 80
    assert LEFT_OUT not in whole
    assert not re.search("[\x1b\u2500-\u257f…]", brief + whole)
    for table in tables(whole):
        assert len({len(row) for row in table}) == 1, "no cell is folded"
