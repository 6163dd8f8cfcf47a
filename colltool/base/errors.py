"""The error of everything that a user can fix (what is wrong, where, what to type next), and the
exit codes of the command line.

A shell user typed ``--ranks 64``, a Python user ``ranks=64``, an assistant sent ``"ranks": 64``.
:func:`argument_text` puts a neutral mark into the text, :func:`spell` turns marks into an
audience's words where the text leaves the program: ``str(error)`` is Python's spelling,
:meth:`ColltoolError.spelled` any. Notes of a result are spelled by :func:`localize`.

A mark has one of three forms, between ``_START`` and ``_END``, its parts separated by ``_NEXT``: an
argument; an argument, its value for a shell and its value for Python; an empty argument and two texts, for a
shell and for all others.

User input is quoted by :func:`quote`: on one line, clipped, control characters escaped.

Code that calls another function for the user wraps it in :func:`error_argument`,
:func:`rename_arguments` or :func:`rename_for_both`, so that errors name what the user typed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal

# Characters of user input that an error repeats.
LONGEST = 60


def quote(value: Any) -> str:
    """Return a value as an error names it: text in quotes and clipped, ``true``, ``nothing``, ``a list``, a
    number by its digits, anything else by its type."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{clipped(value)}'"
    if isinstance(value, list | tuple | dict):
        kind = "mapping" if isinstance(value, dict) else "list"
        return f"a {kind}" if value else f"an empty {kind}"
    if isinstance(value, int) and abs(value) >= 10**LONGEST:
        # repr takes quadratic time, and refuses 5,000 digits
        return f"a number of more than {LONGEST} digits"
    if isinstance(value, int | float):
        return repr(value)
    name = type(value).__name__
    article = "an" if name[0] in "aeiou" else "a"
    return f"{article} {name}"


def clipped(text: str, longest: int = LONGEST) -> str:
    """Return a text on one line, with an ellipsis where it is longer."""
    if len(text) > longest:
        text = f"{text[: longest - 3]}..."
    return printable(text)


def printable(text: str) -> str:
    """Escape control characters, line breaks and lone surrogates."""
    if text.isprintable():
        return text
    return "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    """A character, or its escape such as ``\\n`` where it cannot be printed."""
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode()


# Exit codes of the command line; 70 is EX_SOFTWARE of sysexits.h.
EXIT_DONE = 0
EXIT_CHECK_FAILED = 1
EXIT_UNUSABLE = 2
EXIT_BUG = 70

Audience = Literal["shell", "python", "tool"]

# The options of an argument, last the one that is written before a value;
# :mod:`colltool.commands.arguments` fills it from its table. An argument without a row is its name
# with two dashes.
OPTIONS: dict[str, list[str]] = {}
# Delimiters of a mark, from Unicode's private use area: no typed text holds them.
_START, _NEXT, _END = "\ue000", "\ue001", "\ue002"
# All delimiters, for code that splits a text at its marks.
MARKS = _START + _NEXT + _END


def argument_text(argument: str, value: Any = None, *, text: str = "") -> str:
    """Return a mark for an argument, which reads ``-n 64`` or ``ranks=64`` for ``("ranks", 64)``.

    Without a value it names just the argument; an ellipsis is a value left to the reader. ``text``
    is the value as a shell takes it, if not its ``str``.
    """
    if value is None and not text:
        return f"{_START}{argument}{_END}"
    typed = str(value)
    written = repr(text if value is None else value).replace("'", '"')
    if value is ...:
        typed = written = "..."
    elif isinstance(value, list | tuple):
        typed = ",".join(map(str, value))
    elif value is True:  # a flag has no value
        typed = ""
    return f"{_START}{argument}{_NEXT}{text or typed}{_NEXT}{written}{_END}"


def options_of(argument: str) -> list[str]:
    """Return the options of an argument, such as ``--ranks`` and ``-n``; the last one is written
    before a value."""
    return OPTIONS.get(argument) or [f"--{argument.replace('_', '-')}"]


def either(*, shell: str, python: str) -> str:
    """Return a mark for text that differs between the audiences, such as a command and a function."""
    return f"{_START}{_NEXT}{shell}{_NEXT}{python}{_END}"


def spell(text: str, audience: Audience, names: Mapping[str, str] | None = None) -> str:
    """Replace marks by an audience's words; ``names``: other names of arguments in this command or
    function."""
    # nearly every text of a result is without marks
    if _START not in text:
        return text
    first, *rest = text.split(_START)
    out = [first]
    for piece in rest:
        # what has no end, as it was cut, is text
        mark, ended, after = piece.partition(_END)
        out += [_spelled(mark, audience, names or {}) if ended else mark, after]
    return "".join(out)


_AUDIENCE: ContextVar[Audience] = ContextVar("audience", default="python")


@contextmanager
def set_audience(audience: Audience) -> Iterator[None]:
    """Set the audience of :func:`localize`; Python is the default."""
    token = _AUDIENCE.set(audience)
    try:
        yield
    finally:
        _AUDIENCE.reset(token)


def localize(text: str) -> str:
    """Return a note or reason of a result in the words of the current audience."""
    return spell(text, _AUDIENCE.get())


def displayed(text: str) -> str:
    """Return a text of a result as outputs show it: marks in the audience's words, on one line."""
    return printable(localize(text))


def _spelled(mark: str, audience: Audience, names: Mapping[str, str]) -> str:
    """Return the words of one mark: an argument, an argument with its value, or one text for each
    audience. ``names``: other names of arguments, for this audience."""
    argument, *values = mark.split(_NEXT)
    shell, python = values if len(values) == 2 else ("", "")
    if not argument:
        return shell if audience == "shell" else python
    if audience != "shell":
        name = names.get(argument, argument)
        if not values:
            return name
        return f"{name}={python}" if audience == "python" else f'"{name}": {_as_json(python)}'
    options = [names[argument]] if argument in names else options_of(argument)
    # before a value the option that is usual there, alone the longest
    return f"{options[-1]} {shell}".strip() if values else max(options, key=len)


def _as_json(python: str) -> str:
    """A value as JSON has it, from the text that Python has for it: ``(4, 4)`` is ``[4, 4]``."""
    words = {"True": "true", "False": "false", "None": "null"}
    if python.startswith("(") and python.endswith(")"):
        return f"[{python[1:-1].rstrip(',')}]"
    return words.get(python, python)


class ColltoolError(Exception):
    """Unusable input or arguments; texts may hold marks of :func:`argument_text`.

    ``what``: what was found and why it cannot be used; ``where``: ``file:line:column`` and key
    path; ``argument``: by its Python name; ``fix``: what to write instead. Each but ``what`` may be
    empty.
    """

    def __init__(self, what: str, *, where: str = "", argument: str = "", fix: str = "") -> None:
        self.what = what
        self.where = where
        self.argument = argument
        self.fix = fix
        # other names of arguments, by audience and argument: see rename_arguments
        self.names: dict[tuple[Audience, str], str] = {}
        super().__init__(what)

    def __str__(self) -> str:
        return self.spelled("python")

    def spelled(self, audience: Audience) -> str:
        """Return place, argument and what, then the fix on a line of its own, in an audience's words."""
        return "\n  ".join(self.lines(audience))

    def lines(self, audience: Audience) -> list[str]:
        """Return the line of what went wrong, with its place and argument, and that of the fix if there is
        one."""
        names = {}
        # an assistant's tool calls an argument as the Python function does
        spelled_for = "shell" if audience == "shell" else "python"
        for (named_for, argument), name in self.names.items():
            if named_for == spelled_for:
                names[argument] = name
        argument = argument_text(self.argument) if self.argument else ""
        text = ": ".join(filter(None, (self.where, argument, self.what)))
        return [spell(line, audience, names) for line in (text, self.fix) if line]


class ManyErrors(ColltoolError):
    """All errors of one file, in its order."""

    def __init__(self, problems: list[ColltoolError]) -> None:
        super().__init__("\n".join(problem.what for problem in problems))
        self.problems = tuple(problems)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self.problems),), {"names": self.names}

    def spelled(self, audience: Audience) -> str:
        return "\n".join(problem.spelled(audience) for problem in self.problems)


def problems_of(error: ColltoolError) -> tuple[ColltoolError, ...]:
    """Return the errors of a file one by one; any other error alone."""
    return error.problems if isinstance(error, ManyErrors) else (error,)


@contextmanager
def rename_arguments(audience: Audience, **names: str) -> Iterator[None]:
    """Rename arguments in errors for one audience.

    ``rename_arguments("python", algorithms="algorithm")`` in a function that takes only one.
    """
    try:
        yield
    except ColltoolError as error:
        for problem in (error, *problems_of(error)):
            for argument, name in names.items():
                problem.names.setdefault((audience, argument), name)
        raise


@contextmanager
def rename_for_both(**names: str) -> Iterator[None]:
    """Rename arguments in errors for both audiences: each as another argument, by that one's option for a
    shell.

    ``rename_for_both(overrides="vary")`` where the values of ``vary`` become overrides.
    """
    # a shell user typed the longest option of the other argument
    options = {name: max(options_of(other), key=len) for name, other in names.items()}
    with rename_arguments("shell", **options), rename_arguments("python", **names):
        yield


@contextmanager
def error_argument(argument: str) -> Iterator[None]:
    """Give errors this argument if they name neither an argument nor a place."""
    try:
        yield
    except ColltoolError as error:
        if not error.where:
            error.argument = error.argument or argument
        raise


def nearest(word: str, known: list[str]) -> str:
    """Return ``did you mean 'X'?`` for a misspelt word; empty if none of those known is near."""
    from difflib import get_close_matches

    # by small letters; of two that differ in case alone the first stays
    names = {name.lower(): name for name in reversed(known)}
    near = get_close_matches(word.lower(), names, n=1, cutoff=0.6)
    if not near:
        return ""
    return f"did you mean '{names[near[0]]}'?"


def nearest_and_all(word: str, known: Iterable[str], heading: str = "known:") -> str:
    """Return the fix for a word that is none of several: ``did you mean 'ring'? known: ring, tree``."""
    names = list(known)
    return f"{nearest(word, names)} {heading} {', '.join(names)}".strip()
