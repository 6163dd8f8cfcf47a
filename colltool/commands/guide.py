"""The manual, chapter by chapter."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from colltool.base.errors import ColltoolError, given
from colltool.commands import options as o
from colltool.commands.command import command
from colltool.commands.output import screen_of, write, write_bytes
from colltool.guides import TOPICS

if TYPE_CHECKING:
    pass


def _write_site(folder: Path) -> None:
    from colltool.fabric.load import load_fabric, shipped_fabrics
    from colltool.render.site import site

    for name, text in site([load_fabric(one) for one in shipped_fabrics()]):
        write_bytes(folder / name, text.encode(), "site", folder=(folder / name).parent)
    write(f"{folder / 'index.html'}\n", None)


@command()
def guide_command(
    topic: Annotated[str | None, o.option("topic", words=TOPICS)] = None,
    html: Annotated[Path | None, o.option("site"), o.WRITTEN] = None,
    no_pager: Annotated[bool, o.option("no_pager")] = False,
    output: o.Output = None,
) -> None:
    """The manual, a chapter a topic: set for a terminal and its pager, Markdown in a pipe or file,
    or all of it as a site.

    Examples:
      colltool guide
      colltool guide fabrics
      colltool guide model -o model.md
      colltool guide --html site
    """
    if html is not None:
        if topic is not None:
            what, fix = (
                "is of the whole manual, not of one topic",
                f"write {given('site', str(html))} without {topic}",
            )
            raise ColltoolError(
                what, argument="site", fix=f"{fix}, or colltool guide {topic} -o {topic}.md"
            )
        _write_site(html)
        return
    from colltool.guides import contents, read_guide

    text, file = contents() if topic is None else read_guide(topic), o.to_file(output)
    if file is not None or sys.stdout is None or not sys.stdout.isatty():
        write(text, file)
        return
    from colltool.render.text import to_guide

    screen = screen_of(to_file=False)
    text = to_guide(text, screen)
    if no_pager or text.count("\n") < os.get_terminal_size().lines or not screen.unicode:
        write(text, None)
        return
    import pydoc

    # colours as they are, wide outputs cut and not wrapped: arrow keys show the rest
    os.environ.setdefault("LESS", "-RFS")
    pydoc.pager(text)
