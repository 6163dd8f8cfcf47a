"""``colltool guide``: the topics, a chapter in a pipe, in a file and on a terminal, and a topic
that does not exist."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import Any

import pytest
from swept import swept

import colltool
from colltool import guides
from colltool.base.errors import ColltoolError
from colltool.commands.app import COMMANDS
from colltool.render.guide_text import to_guide
from colltool.render.text import Screen

FOLDER = Path(colltool.__file__).parent / "guides"
every_topic = pytest.mark.parametrize("topic", guides.TOPICS)


def test_the_topics_are_the_files() -> None:
    assert sorted(guides.TOPICS) == sorted(path.stem for path in FOLDER.glob("*.md"))


@swept("command", COMMANDS)
def test_a_chapter_shows_every_command(command: str) -> None:
    chapters = "".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md"))
    assert re.search(rf"\bcolltool {command}\b", chapters)


def test_without_a_topic_every_topic_has_a_line(run: Any) -> None:
    done = run("guide")
    assert (done.code, done.err) == (0, "")
    lines = [line for line in done.out.splitlines() if line.startswith("- ")]
    assert [re.findall(r"colltool guide ([a-z]+)`: .", line) for line in lines] == [
        [topic] for topic in guides.TOPICS
    ]


@every_topic
def test_a_chapter_says_first_what_it_answers(topic: str) -> None:
    text = guides.read_guide(topic)
    assert text.startswith("# ")
    assert 20 < len(guides.about(topic)) <= 130
    assert guides.about(topic).endswith((".", "?"))
    assert guides.about(topic).replace("\n", " ") in text.replace("\n", " ")


@every_topic
def test_a_pipe_and_a_file_get_the_markdown(topic: str, run: Any, folder: Path) -> None:
    text = (FOLDER / f"{topic}.md").read_text(encoding="utf-8")
    assert run("guide", topic).out == text
    assert run("guide", topic, "-o", "chapter.md").out == ""
    assert Path("chapter.md").read_text(encoding="utf-8") == text


def test_an_unknown_topic_names_the_nearest(run: Any) -> None:
    done = run("guide", "measurement", "-o", "never")
    assert (done.code, done.out) == (2, "")
    assert "no guide 'measurement'" in done.err
    assert "'measurements'" in done.err
    assert not Path("never").exists()
    with pytest.raises(ColltoolError, match=r"no guide '\.\./model'"):
        guides.read_guide("../model")


@every_topic
@pytest.mark.parametrize("width", [80, 120, 400])
def test_on_a_terminal_prose_fits_and_nothing_is_lost(topic: str, width: int) -> None:
    text = guides.read_guide(topic)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", to_guide(text, Screen(width, colour=True, unicode=True)))
    fenced = [
        line
        for block in re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    ]
    shown = plain.splitlines()
    assert [
        line
        for line in fenced
        if len(line) < width - 1 and not {line, f"  {line}".rstrip()} & set(shown)
    ] == []
    whole = "\n".join(line for line in fenced if line.lstrip()[:1] in ("|", "+"))
    whole += "".join(re.findall(r"^```(?!console)\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    long = [
        line
        for line in shown
        if len(line) > width and line.strip() not in whole and " " in line.strip()
    ]
    assert long == []
    assert "```" not in plain
    words = re.findall(
        r"[A-Za-z]{4,}", re.sub(r"<!--.*?-->|^ *```\w*$", "", text, flags=re.MULTILINE)
    )
    assert set(words) <= set(re.findall(r"[A-Za-z]{4,}", plain))


def test_a_terminal_without_unicode_gets_the_markdown() -> None:
    assert to_guide(guides.read_guide("ci"), Screen(80)) == guides.read_guide("ci")


def test_the_terminal_gets_it_set() -> None:
    pytest.importorskip("pty")
    from tests.commands.test_terminal import on_terminal

    received = on_terminal("guide", "ci", PAGER="cat")
    assert "\x1b[" in received
    assert "```" not in received
    assert "\x1b[" not in on_terminal("guide", "ci", NO_COLOR="1", PAGER="cat")


def test_a_file_that_is_shown_keeps_its_name() -> None:
    assert "our-ladder.yaml:" in to_guide(guides.read_guide("ci"), Screen(80, unicode=True))


def test_a_site_is_of_all_topics(run: Any, tmp_path: Path) -> None:
    done = run("guide", "model", "--html", str(tmp_path / "site"))
    assert (done.code, done.out) == (2, "")
    assert "--html: writes the whole manual, not one topic" in done.err
    assert "colltool guide model -o model.md" in done.err
    assert not (tmp_path / "site").exists()


def test_completion_knows_the_topics() -> None:
    from colltool.commands.completion import words

    assert words(guides.TOPICS)("m") == ["model", "measurements"]


def test_a_long_command_is_wrapped_so_that_it_can_be_pasted() -> None:
    command = (
        "$ colltool plan llama3-70b -f dgx-h100 -n 256 --set nvlink.size=64 --set ib.size=128"
        " --job-set layout.tp=4"
    )
    shown = to_guide(
        f"```console\n{command}\nan answer\n```\n", Screen(60, unicode=True)
    ).splitlines()
    assert max(map(len, shown)) <= 60
    assert (
        " ".join(" ".join(line.strip() for line in shown[:-1]).replace("\\", "").split()) == command
    )


@pytest.mark.parametrize(
    ("args", "paged"), [(("model",), True), (("model", "--no-pager"), False), ((), False)]
)
def test_a_long_chapter_opens_in_the_pager(
    args: tuple[str, ...], paged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pty")
    from colltool.commands.guide import guide_command

    seen: list[str] = []
    monkeypatch.setattr("pydoc.pager", seen.append)
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setattr("os.get_terminal_size", lambda *_: os.terminal_size((80, 40)))
    guide_command.function(
        topic=args[0] if args else None, site=None, no_pager="--no-pager" in args, output=None
    )
    assert bool(seen) == paged


class Terminal(io.StringIO):
    """Standard output as a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True
