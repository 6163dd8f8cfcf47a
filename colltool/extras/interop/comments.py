"""Notes as comments at the head of a file for another program."""

from textwrap import fill

WIDTH = 120  # most letters of a line's text behind the mark


def comment(text: str, mark: str = "#", *, indent: str = "", break_on_hyphens: bool = True) -> str:
    """A note in comment lines, each behind a mark, all but the first indented."""
    return fill(
        text,
        len(mark) + 1 + WIDTH,
        initial_indent=f"{mark} ",
        subsequent_indent=f"{mark} {indent}",
        break_on_hyphens=break_on_hyphens,
    )
