"""What single lines of logs state: failures, warnings, settings and facts, with what they mean and
what to type.

The lines are a table, ``stated_lines.toml``, whose head explains its keys; :func:`stated_in` finds
the row of a line, and :meth:`MatchedLine.stated` puts it in words.
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
# "node1.log:17", "report.json:1: results[3]"
_PLACE = re.compile(r"(.+?):(\d{1,12})(?::.*)?\Z", re.DOTALL)


class StatedLine(NamedTuple):
    """One thing that a log states."""

    kind: Kind
    code: str  # a section of stated_lines.toml or stated_conclusions.toml; "setting" of settings
    quoted: str  # the words of the log, first in ``file`` at ``line``
    file: str
    line: int
    means: str  # the meaning
    do: str = ""  # what to type, empty where there is nothing to do
    cause: str = ""  # the cause of slowness that it states
    soft: bool = False  # it is a failure only where no later line marks the end of the run
    follows: int = 0  # 1 where it comes after another error, 2 where it comes after any
    times: int = 1  # how many lines say it
    host: str = ""  # as the line names it

    @property
    def where(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.line}"

    @property
    def rank(self) -> tuple[int, int]:
        """Sort key: the worst first, and what led to it before what followed."""
        return KINDS.index(self.kind), self.follows


class LineWords(NamedTuple):
    """What a row of the table says; ``{name}`` in the words is a group of the row's pattern."""

    means: str
    do: str  # what to type
    follows: int  # as that of :class:`StatedLine`


class LineRule(NamedTuple):
    """A row of the table that lines are compared with."""

    code: str
    words: tuple[str, ...]  # of which such a line has one
    pattern: re.Pattern[str]
    kind: Kind
    cause: str  # empty for none
    soft: bool  # as that of :class:`StatedLine`


class MatchedLine(NamedTuple):
    """The row that a line matches, with the match."""

    rule: LineRule
    match: re.Match[str]

    def stated(self, quoted: str, file: str, line: int, host: str = "") -> StatedLine:
        """What the line states; ``quoted``, ``file``, ``line`` and ``host`` are as in a
        :class:`StatedLine`."""
        fields = {group: text.strip() for group, text in self.match.groupdict("").items()}
        code = self.rule.code
        # an error by its number, such as Xid 79, may have words of its own
        words = _words().get(f"{code}-{fields.get('by', '')}") or _words()[code]
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
    """The sections of the table by code."""
    return word_table("colltool.logs", "stated_lines.toml")


@cache
def _words() -> dict[str, LineWords]:
    """The words of every section by its code, ``xid-79`` also by ``xid-N`` of its further
    numbers."""
    by_code: dict[str, LineWords] = {}
    for code, section in _table().items():
        worded = _table()[section["like"]] if "like" in section else section
        words = LineWords(worded["means"], worded["do"], section.get("follows", 0))
        by_code[code] = words
        start = code.rpartition("-")[0]
        for number in section.get("also", ()):
            by_code[f"{start}-{number}"] = words
    return by_code


@cache
def line_rules() -> tuple[LineRule, ...]:
    """All rows that have a pattern, in their order."""
    rules = []
    for code, section in _table().items():
        if "pattern" in section:
            rules.append(
                LineRule(
                    code,
                    tuple(section["words"]),
                    re.compile(section["pattern"]),
                    section["kind"],
                    section.get("cause", ""),
                    bool(section.get("soft")),
                )
            )
    return tuple(rules)


@cache
def _any_words() -> tuple[str, ...]:
    """Words of which every line that the table knows has one, without those that hold another of
    them. A line without any of them needs no pattern."""
    all_words: list[str] = []
    for rule in line_rules():
        all_words += rule.words
    shortest: list[str] = []
    for word in sorted(all_words, key=len):
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


def stated_in(text: str) -> MatchedLine | None:
    """The first row of the table that a line matches; None for other lines."""
    if not has_any(text, _any_words()):
        return None
    for rule in line_rules():
        if has_any(text, rule.words):
            match = rule.pattern.search(text)
            if match:
                return MatchedLine(rule, match)
    return None


def worded_line(
    row: Mapping[str, Any],
    code: str,
    place: tuple[str, str, int],
    fields: Mapping[str, object],
) -> StatedLine:
    """A statement in the words of a table's row.

    Args:
        row: kind, means, do, and cause if it states one.
        place: the words that are quoted, their file and line.
        fields: for the ``{name}`` in the words.
    """
    return StatedLine(
        row["kind"],
        code,
        *place,
        means=row["means"].format_map(fields),
        do=row["do"].format_map(fields),
        cause=row.get("cause", ""),
    )


def wrong_row(size: float, count: int, file: str, line: int) -> StatedLine:
    """A row of nccl-tests for ``size`` bytes, of whose result ``count`` values are wrong."""
    words = _words()["wrong-row"]
    size_in_words = size_text(size)
    return StatedLine(
        "wrong",
        "wrong-row",
        quoted=f"#wrong {count} at {size_in_words}",
        file=file,
        line=line,
        means=words.means.format(size=size_in_words, count=count),
        do=words.do,
    )


def wrong_rows(reason: str, count: int, where: str) -> StatedLine:
    """Rows that a reader left out because their results are wrong.

    Args:
        reason: the reader's error, whose last part is quoted.
        where: ``file:line`` and what follows it.
    """
    words = _words()["wrong-rows"]
    place = _PLACE.match(where)
    file = where
    line = 0
    if place:
        file = place[1]
        line = int(place[2])
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
