"""What went wrong, where, and what to type next; and the exit codes of the command line.

The same error is read by two audiences: somebody at a shell, who gave ``--ranks 64``, and somebody in Python, who gave
``ranks=64``. Whoever raises it writes neither: :func:`given` puts a mark into the text, and :func:`spell` turns the marks into
the words of the audience where the text leaves the program. ``str(error)`` is Python's spelling, :meth:`ColltoolError.spelled`
takes the other. A text of a result is spelled by :func:`said` where the result is made: it knows who asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import EllipsisType
from typing import Any, Literal

EXIT_DONE = 0
EXIT_CHECK_FAILED = 1
EXIT_UNUSABLE = 2
EXIT_BUG = 70

Audience = Literal["shell", "python"]

# An argument that the command line does not call by its Python name with two dashes: its long and its short option.
_OPTIONS = {
    "algorithms": ("--algorithm", "--algorithm"),
    "fabric": ("--fabric", "-f"),
    "fabrics": ("--fabric", "-f"),
    "hot_members": ("--hot", "--hot"),
    "job_overrides": ("--job-set", "--job-set"),
    "kind": ("--pattern", "--pattern"),
    "files": ("FILE", ""),
    "logs": ("LOG", ""),
    "new": ("NEW", ""),
    "old": ("OLD", ""),
    "overrides": ("--set", "--set"),
    "placed": ("--map", "--map"),
    "primitive": ("PRIM", ""),
    "ranks": ("--ranks", "-n"),
    "size": ("--size", "-M"),
    "sizes": ("--size", "-M"),
}
_START, _NEXT, _END = "\ue000", "\ue001", "\ue002"  # of private use: no text of a person holds them, no escape shows them
MARKS = _START + _NEXT + _END
"""The characters that make a mark of :func:`given`."""


def given(argument: str, value: Any = None, *, text: str = "") -> str:
    """A mark for an argument in the text of an error: ``given("ranks", 64)`` is read as ``-n 64`` or ``ranks=64``.

    Args:
        argument: its name in Python.
        value: what it is given; without one the argument itself is meant: ``--ranks`` or ``ranks``. An ellipsis stands for a
            value of the reader's own.
        text: the value as the command line writes it, where it is more than the value's own text.
    """
    if value is None and not text:
        return f"{_START}{argument}{_END}"
    return f"{_START}{argument}{_NEXT}{text or _typed(value)}{_NEXT}{_written(value if value is not None else text)}{_END}"


def option_of(argument: str) -> str:
    """What a shell calls an argument: ``-n`` of ranks, ``--job-set`` of job_overrides."""
    return _OPTIONS.get(argument, (f"--{argument.replace('_', '-')}",) * 2)[1]


def either(*, shell: str, python: str) -> str:
    """A mark for what the two audiences do in different ways: a command, or a function."""
    return f"{_START}{_NEXT}{shell}{_NEXT}{python}{_END}"


def spell(text: str, audience: Audience, names: Mapping[str, str] | None = None) -> str:
    """A text with its marks in the words of an audience.

    Args:
        text: with marks of :func:`given` and :func:`either`.
        audience: who reads it.
        names: what a command or function calls an argument that others call by another name.
    """
    if _START not in text:
        return text
    first, *rest = text.split(_START)
    out = [first]
    for piece in rest:
        mark, ended, after = piece.partition(_END)
        out += [_spelled(mark, audience, names or {}) if ended else mark, after]
    return "".join(out)


_AUDIENCE: ContextVar[Audience] = ContextVar("audience", default="python")


@contextmanager
def speaking(audience: Audience) -> Iterator[None]:
    """Within it results are worded for this audience: the command line speaks to a shell, everybody else to Python."""
    token = _AUDIENCE.set(audience)
    try:
        yield
    finally:
        _AUDIENCE.reset(token)


def said(text: str) -> str:
    """A text of a result, such as a note or a reason, with its marks in the words of who asked for it."""
    return spell(text, _AUDIENCE.get())


def _spelled(mark: str, audience: Audience, names: Mapping[str, str]) -> str:
    argument, *values = mark.split(_NEXT)
    shell, python = values if len(values) == 2 else ("", "")
    if not argument:
        return shell if audience == "shell" else python
    if audience == "python":
        name = names.get(argument, argument)
        return f"{name}={python}" if values else name
    long, short = _OPTIONS.get(argument, (f"--{argument.replace('_', '-')}",) * 2)
    if argument in names:
        long = short = names[argument]
    return f"{short} {shell}".strip() if values else long


def _typed(value: Any) -> str:
    """A value as a shell takes it; a flag has none."""
    if isinstance(value, list | tuple):
        return ",".join(str(one) for one in value)
    return "" if value is True else "..." if isinstance(value, EllipsisType) else str(value)


def _written(value: Any) -> str:
    return "..." if isinstance(value, EllipsisType) else repr(value).replace("'", '"')


class ColltoolError(Exception):
    """Input or arguments that cannot be used.

    Args:
        what: what was found and why it cannot be used.
        where: the place in a file: ``file:line:column`` and key path. Empty when there is none.
        argument: the argument that gave it, by its name in Python. Empty when there is none.
        fix: what to write instead. Empty when nothing better than ``what`` can be said.

    Texts may hold marks of :func:`given`; ``str()`` spells them for Python.
    """

    def __init__(self, what: str, *, where: str = "", argument: str = "", fix: str = "") -> None:
        self.what = what
        self.where = where
        self.argument = argument
        self.fix = fix
        self.names: dict[tuple[Audience, str], str] = {}
        super().__init__(what)

    def __str__(self) -> str:
        return self.spelled("python")

    def spelled(self, audience: Audience) -> str:
        """The error in the words of an audience: place, argument and what, and the cure on a line of its own."""
        return "\n  ".join(self.lines(audience))

    def lines(self, audience: Audience) -> list[str]:
        """As :meth:`spelled`: what went wrong, and the cure where there is one."""
        names = {argument: name for (whose, argument), name in self.names.items() if whose == audience}
        place = [part for part in (self.where, self.argument and given(self.argument)) if part]
        text = ": ".join((*place, self.what))
        return [spell(line, audience, names) for line in (text, self.fix) if line]


class ManyErrors(ColltoolError):
    """Every error of one file, reported at once, in the order of the file.

    Args:
        problems: at least one error.
    """

    def __init__(self, problems: list[ColltoolError]) -> None:
        super().__init__("\n".join(problem.what for problem in problems))
        self.problems = tuple(problems)

    def __reduce__(self) -> tuple[Any, ...]:
        """As it is made: an exception's own way would hand the text to where the errors belong."""
        return type(self), (list(self.problems),), {"names": self.names}

    def spelled(self, audience: Audience) -> str:
        """All of them, one after the other."""
        return "\n".join(problem.spelled(audience) for problem in self.problems)


def problems_of(error: ColltoolError) -> tuple[ColltoolError, ...]:
    """Each error that this one stands for."""
    return error.problems if isinstance(error, ManyErrors) else (error,)


@contextmanager
def called(audience: Audience, **names: str) -> Iterator[None]:
    """Within it an argument goes by another name: ``called("python", algorithms="algorithm")`` where one is taken."""
    try:
        yield
    except ColltoolError as error:
        for problem in (error, *problems_of(error)):
            for argument, name in names.items():
                problem.names.setdefault((audience, argument), name)
        raise


@contextmanager
def taken_from(**names: str) -> Iterator[None]:
    """Within it an argument is another one, for both audiences: ``taken_from(overrides="vary")`` where axes become overrides."""
    options = {name: _OPTIONS.get(other, (f"--{other}",))[0] for name, other in names.items()}
    with called("shell", **options), called("python", **names):
        yield


def nearest(word: str, known: list[str]) -> str:
    """A hint ``did you mean X?`` for a misspelt word, or the empty string when nothing is near."""
    from difflib import get_close_matches

    near = get_close_matches(word.lower(), [name.lower() for name in known], n=1, cutoff=0.6)
    if not near:
        return ""
    return f"did you mean '{next(name for name in known if name.lower() == near[0])}'?"
