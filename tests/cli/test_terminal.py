"""Tables on terminals of several widths, and in a pipe."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

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
    "plan search": ("plan", "mixtral-8x7b", "-f", "dgx-h100", "-n", "128", "--search", "--keep", "tp=1", "--keep", "pp=4"),
    "explain": ("explain", "ring", "ar", *NVL, "-M", "16MB"),
}
LEFT_OUT = "columns left out for want of width: "
_UNSET = ("NO_COLOR", "COLUMNS", "LINES", "FORCE_COLOR", "TERM")
PLAIN = {name: value for name, value in os.environ.items() if name not in _UNSET}


@cache
def on_terminal(*args: str, columns: int = 80, code: int = 0, **env: str) -> str:
    """What a terminal of this width receives."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    settings = PLAIN | {"TERM": "xterm-256color", "PYTHONUTF8": "1"} | env
    process = subprocess.Popen([sys.executable, "-m", "colltool", *args], stdout=theirs, stderr=theirs, env=settings)
    os.close(theirs)
    received = b""
    while chunk := _read(ours):
        received += chunk
    os.close(ours)
    assert process.wait(timeout=60) == code
    return received.decode().replace("\r\n", "\n")


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
        elif not re.match(r"[├|+╭╰]", line) or re.match(r"[╰]", line) or (inside and line.startswith("+")):
            inside = False
    return found


def left_out(text: str) -> list[str]:
    """What each table says it left out, the line's wrapping undone."""
    flat = re.sub(r" *\n(?!\n)", " ", without_colour(text).replace("\n\n", "\0")).replace("\0", "\n")
    return [match[1] for match in re.finditer(LEFT_OUT + "(.*?)(?=$|\n)", flat, re.MULTILINE)]


@pytest.mark.parametrize("columns", [80, 160])
@pytest.mark.parametrize("name", COMMANDS)
def test_tables_fit_and_nothing_is_cut(name: str, columns: int, run: Any) -> None:
    shown = without_colour(on_terminal(*COMMANDS[name], columns=columns))
    assert max(len(line) for line in shown.splitlines()) <= columns
    assert "…" not in shown
    whole, narrow = tables(run(*COMMANDS[name]).out), tables(shown)
    assert len(whole) == len(narrow)
    named = " ".join(left_out(shown))
    for full, part in zip(whole, narrow, strict=True):
        header = full[0]
        kept = [header.index(title) for title in part[0]]
        assert kept == sorted(kept)
        assert part[1:] == [[row[index] for index in kept] for row in full[1:]], "a kept column has every cell, whole"
        for title in header:
            assert title in part[0] or title in named, f"column {title} is gone without a word"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wide_terminal_shows_everything(name: str, run: Any) -> None:
    shown = without_colour(on_terminal(*COMMANDS[name], columns=400))
    assert LEFT_OUT not in shown
    assert tables(shown) == tables(run(*COMMANDS[name]).out)


def test_some_column_is_left_out_at_80() -> None:
    """So that the test above tests something."""
    assert left_out(on_terminal(*COMMANDS["price"]))


@pytest.mark.parametrize("name", COMMANDS)
def test_no_word_of_a_text_is_cut_at_80(name: str, run: Any) -> None:
    """Text is wrapped between words, so every word of the pipe's text stands whole on the terminal."""
    words = {word for line in run(*COMMANDS[name]).out.splitlines() if not line.startswith(("|", "+")) for word in line.split()}
    assert words <= set(without_colour(on_terminal(*COMMANDS[name])).split())


def test_no_column_is_left_out_that_would_fit(run: Any) -> None:
    (table,) = tables(run(*COMMANDS["fabric list"]).out)
    shown = without_colour(on_terminal(*COMMANDS["fabric list"]))
    used = len(shown.splitlines()[0])
    for index, title in enumerate(table[0]):
        width = max(len(row[index]) for row in table) + 3
        assert title in shown.splitlines()[1] or used + width > 80, f"{title} would fit"


def test_colour_on_a_terminal() -> None:
    assert "\x1b[" in on_terminal(*COMMANDS["price"])


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_no_colour_where_none_is_wanted(env: dict[str, str]) -> None:
    plain = on_terminal(*COMMANDS["price"], columns=160, **env)
    assert "\x1b" not in plain
    assert tables(plain) == tables(without_colour(on_terminal(*COMMANDS["price"], columns=160)))
    assert ("╭" in plain) is ("TERM" not in env), "a dumb terminal has no borders but ASCII"


def test_total_and_busbw_stay_longest() -> None:
    for name in ("price", "price sizes", "price winners"):
        first = tables(without_colour(on_terminal(*COMMANDS[name], columns=90)))[0][0]
        assert {"total", "busbw"} <= set(first), name
        assert "algbw" not in first


def test_a_comparison_keeps_its_border_at_80(tmp_path: Path, run: Any) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    ladder = run("ladder", "--format", "json").json
    old.write_text(json.dumps(ladder))
    for rung in ladder["rows"]:
        rung["realistic"]["bandwidth_s"] *= 1.5
    new.write_text(json.dumps(ladder))
    shown = without_colour(on_terminal("diff", str(old), str(new), code=1))
    assert max(map(len, shown.splitlines())) <= 80
    assert LEFT_OUT not in shown
    (table, *_) = tables(shown)
    assert table[0] == ["where", "old", "new", "change"]
    assert {row[3] for row in table[1:]} == {"+50%", ""}, "a place that is too long goes on below"


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


@pytest.mark.parametrize("name", COMMANDS)
def test_in_a_pipe_as_wide_as_the_content(name: str, spawn: Any) -> None:
    out = spawn(*COMMANDS[name], env={"COLUMNS": "40", "TERM": "xterm-256color"}).out
    assert LEFT_OUT not in out
    assert "\x1b" not in out
    assert not re.search("[\u2500-\u257f…]", out)
    assert name in ("fabric show", "explain", "crossover", "crossover named") or max(map(len, out.splitlines())) > 80
