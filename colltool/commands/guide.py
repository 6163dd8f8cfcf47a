"""``colltool guide``: a chapter of the manual in the terminal or as Markdown, or all of it as a web site
with a page for each shipped machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from colltool.base.errors import ColltoolError, argument_text
from colltool.commands.command import command
from colltool.commands.options import option, to_file
from colltool.commands.output import ProgressLine, screen_of, write, write_bytes
from colltool.guides import TOPICS


def _write_site(folder: Path, pyodide: Path | None) -> None:
    """Write the pages and pictures of the site, and print where the first page is.

    Args:
        pyodide: the folder of Pyodide's package, for the playground; None for a site without.
    """
    from colltool.fabric.load import load_fabric, shipped_fabrics
    from colltool.render.site import site as site_pages

    playground_files: dict[str, bytes] = {}
    # before the pages are made, which takes seconds: a wrong folder is refused at once
    if pyodide is not None:
        from colltool.render.playground import playground

        playground_files = dict(playground(pyodide))
    fabrics = [load_fabric(name) for name in shipped_fabrics()]
    for name, text in site_pages(fabrics, playground=bool(playground_files)):
        file = folder / name
        write_bytes(file, text.encode(), "site", folder=file.parent)
    for name, content in playground_files.items():
        file = folder / name
        write_bytes(file, content, "playground", folder=file.parent)
    write(f"{folder / 'index.html'}\n", None)


@command([option("topic", words=TOPICS), "site", "playground", "no_pager", "output"])
def guide_command(
    topic: str | None = None,
    site: Path | None = None,
    playground: Path | None = None,
    no_pager: bool = False,
    output: Path | None = None,
) -> None:
    """Read the manual: one chapter, formatted for the terminal, as Markdown in a pipe or file, or a
    web site with all of it and a page for each shipped machine: what it should reach in nccl-tests.

    Examples:
      colltool guide
      colltool guide fabrics
      colltool guide model -o model.md
      colltool guide --html site
      colltool guide --html site --playground node_modules/pyodide
    """
    from colltool.guides import contents, read_guide

    if site is not None:
        if topic is not None:
            whole_manual = f"write {argument_text('site', str(site))} without {topic}"
            one_chapter = f"colltool guide {topic} -o {topic}.md"
            raise ColltoolError(
                "writes the whole manual, not one topic",
                argument="site",
                fix=f"{whole_manual}, or {one_chapter}",
            )
        _write_site(site, playground)
        return
    if playground is not None:
        raise ColltoolError(
            "is a page of the site", argument="playground", fix="add --html site, the site's folder"
        )
    text = contents() if topic is None else read_guide(topic)
    file = to_file(output)
    # Markdown in a file or pipe, formatted text on a terminal
    if file is not None or sys.stdout is None or not sys.stdout.isatty():
        write(text, file)
    else:
        _show(text, paged=not no_pager)


def _show(text: str, *, paged: bool) -> None:
    """Print a chapter formatted for the terminal, in a pager if it is longer than the screen."""
    from colltool.render.guide_text import to_guide

    screen = screen_of(to_file=False)
    formatted = to_guide(text, screen)
    # a terminal without Unicode may have no pager either
    may_page = paged and screen.unicode
    if not may_page or formatted.count("\n") < os.get_terminal_size().lines:
        write(formatted, None)
        return
    import pydoc

    # -R: keep colours; -F: no pager for a short text; -S: cut wide lines, arrow keys scroll
    os.environ.setdefault("LESS", "-RFS")
    ProgressLine.end()
    pydoc.pager(formatted)
