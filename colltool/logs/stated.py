"""What single lines of logs state: failures, warnings, settings and facts, with what they mean and
what to type.

The lines are a table, ``stated_lines.toml``; :func:`stated_in` finds the row of a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, Literal, NamedTuple, get_args

from colltool.base.formatting import counted, size_text
from colltool.base.statements import word_table

Kind = Literal["failed", "wrong", "cause", "setting", "warning", "fact"]
"""The worst first: a run that ended, wrong values, a cause of slowness, a setting to look at, what
is to be mended though nothing ended, what is merely so."""
KINDS: tuple[Kind, ...] = get_args(Kind)


_PLACE = re.compile(r"(.+?):(\d{1,12})(?::.*)?\Z", re.DOTALL)


class StatedLine(NamedTuple):
    """One thing that a log states."""

    kind: Kind
    code: str  # a section of a table
    quoted: str  # the words of the log, first in ``file`` at ``line``
    file: str
    line: int
    means: str  # the meaning
    do: str = ""  # what to type, empty where there is nothing to do
    cause: str = ""  # the cause of slowness that it states
    soft: bool = False  # it ends a run only where that has no end
    follows: int = 0  # 1 where it comes after another error, 2 where it comes after any
    times: int = 1  # how many lines say it
    host: str = ""  # as the line names it

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def rank(self) -> tuple[int, int]:
        """Sort key: the worst first, and what led to it before what followed."""
        return KINDS.index(self.kind), self.follows


class LineWords(NamedTuple):
    """What a row of the table says: its meaning, what to do, and whether it follows another
    error."""

    means: str
    do: str
    follows: int


class LineRule(NamedTuple):
    """A row of the table that lines are compared with."""

    code: str
    words: tuple[str, ...]
    pattern: re.Pattern[str]
    kind: Kind
    cause: str
    soft: bool


class Found(NamedTuple):
    """The row that a line matches, with the match."""

    rule: LineRule
    match: re.Match[str]

    def stated(self, quoted: str, file: str, line: int, host: str = "") -> StatedLine:
        """What the line states."""
        fields = {group: said.strip() for group, said in self.match.groupdict("").items()}
        code = self.rule.code
        numbered = f"{code}-{fields.get('by', '')}"
        words = _words().get(numbered) or _words()[code]
        return StatedLine(
            self.rule.kind,
            code,
            quoted,
            file,
            line,
            means=words.means.format_map(fields),
            do=words.do.format_map(fields),
            cause=self.rule.cause,
            soft=self.rule.soft,
            follows=words.follows,
            host=host,
        )


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    return word_table("colltool.logs", "stated_lines.toml")


@cache
def _words() -> dict[str, LineWords]:
    """The words of every section, also by its further numbers."""
    found: dict[str, LineWords] = {}
    for code, section in _table().items():
        said = _table()[section["like"]] if "like" in section else section
        words = LineWords(said["means"], said["do"], section.get("follows", 0))
        found[code] = words
        start = code.rpartition("-")[0]
        for number in section.get("also", ()):
            found[f"{start}-{number}"] = words
    return found


@cache
def line_rules() -> tuple[LineRule, ...]:
    """All rows that have a pattern, in their order."""
    rules = []
    for code, section in _table().items():
        if "pattern" in section:
            rule = LineRule(
                code,
                tuple(section["words"]),
                re.compile(section["pattern"]),
                section["kind"],
                section.get("cause", ""),
                bool(section.get("soft")),
            )
            rules.append(rule)
    return tuple(rules)


@cache
def _any_words() -> tuple[str, ...]:
    """Words of which every line that the table knows has one. A line without any of them needs no
    pattern."""
    found: list[str] = []
    for rule in line_rules():
        found += rule.words
    shortest: list[str] = []
    for word in sorted(found, key=len):
        if not has_any(word, shortest):
            shortest.append(word)
    return tuple(shortest)


def has_any(text: str, words: Sequence[str]) -> bool:
    """Whether a text holds any of these words."""
    # a plain loop is several times as fast as any(), and most lines of a log come here
    for word in words:  # noqa: SIM110
        if word in text:
            return True
    return False


def stated_in(text: str) -> Found | None:
    """The first row of the table that a line matches; None for other lines."""
    if not has_any(text, _any_words()):
        return None
    for rule in line_rules():
        if has_any(text, rule.words):
            match = rule.pattern.search(text)
            if match:
                return Found(rule, match)
    return None


def wrong_row(size: float, count: int, file: str, line: int) -> StatedLine:
    """A row of nccl-tests for ``size`` bytes whose result is wrong."""
    words = _words()["wrong-row"]
    fields = {"size": size_text(size), "count": count}
    return StatedLine(
        "wrong",
        "wrong-row",
        quoted=f"#wrong {count} at {size_text(size)}",
        file=file,
        line=line,
        means=words.means.format_map(fields),
        do=words.do,
    )


def wrong_rows(reason: str, count: int, where: str) -> StatedLine:
    """Rows that a reader left out because their results are wrong. ``where`` is ``file:line`` and
    what follows it."""
    words = _words()["wrong-rows"]
    place = _PLACE.match(where)
    file, line = (place[1], int(place[2])) if place else (where, 0)
    return StatedLine(
        "wrong",
        "wrong-rows",
        quoted=reason.rpartition(": ")[2],
        file=file,
        line=line,
        means=words.means.format(count=counted(count, "row")),
        do=words.do,
        times=count,
    )


def worst_first(stated: Iterable[StatedLine]) -> tuple[StatedLine, ...]:
    """Sort for an answer: the worst first, what led to others before them, else as in the log."""
    return tuple(sorted(stated, key=attrgetter("rank")))
