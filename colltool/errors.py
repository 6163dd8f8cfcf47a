"""What went wrong, where, and what to type next; and the exit codes of the command line."""

from __future__ import annotations

EXIT_DONE = 0
EXIT_CHECK_FAILED = 1
EXIT_UNUSABLE = 2
EXIT_BUG = 70


class ColltoolError(Exception):
    """Input or options that cannot be used.

    Args:
        what: what was found and why it cannot be used.
        where: the place: ``file:line:column`` and key path, or the option. Empty when there is none.
        fix: what to write instead. Empty when nothing better than ``what`` can be said.
    """

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        self.what = what
        self.where = where
        self.fix = fix
        super().__init__(str(self))

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}\n  {self.fix}" if self.fix else text


class ManyErrors(ColltoolError):
    """Every error of one file, reported at once, in the order of the file.

    Args:
        problems: at least one error.
    """

    def __init__(self, problems: list[ColltoolError]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in problems))


def nearest(word: str, known: list[str]) -> str:
    """A hint ``did you mean X?`` for a misspelt word, or the empty string when nothing is near."""
    from difflib import get_close_matches

    near = get_close_matches(word.lower(), [name.lower() for name in known], n=1, cutoff=0.6)
    if not near:
        return ""
    return f"did you mean '{next(name for name in known if name.lower() == near[0])}'?"
