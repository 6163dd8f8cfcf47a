"""``colltool schema``: the JSON Schema of an output, or of a kind of files; or their names."""

from __future__ import annotations

from pathlib import Path

from colltool.commands.command import command
from colltool.commands.output import screen_of, write


@command(["document", "output"])
def schema_command(document: str | None = None, output: Path | None = None) -> None:
    """Print the JSON Schema of a command's JSON output or of a kind of file; without NAME, list them.

    Examples:
      colltool schema
      colltool schema price
      colltool schema fabric -o fabric.schema.json
    """
    from colltool.render.data_formats import to_json
    from colltool.render.schemas import schema_of

    if document is not None:
        # also as JSON has it, colltool.price/1, and as a command is typed: plan compare
        name = document.removeprefix("colltool.").removesuffix("/1").replace(" ", "-")
        write(to_json(schema_of(name)), output)
        return
    screen = screen_of(to_file=output is not None)
    write("\n".join([*_listed(screen.width), ""]), output)


def _listed(width: int | None) -> list[str]:
    """The names, as lines: in columns on a terminal; in a pipe (no width) one a line, with its
    command."""
    from colltool.render.schemas import FILE_KINDS, command_for, documents

    count = len(documents()) + len(FILE_KINDS)
    lines = [f"{count} JSON Schemas: colltool schema NAME prints one.", ""]
    if width is None:
        width_of_names = max(map(len, documents()))
        lines.append("printed with --format json:")
        lines += [
            f"  {document:<{width_of_names}}  colltool {command_for(document)}"
            for document in documents()
        ]
        lines += ["", "read:"]
        return lines + [
            f"  {file_kind:<{width_of_names}}  files of this kind" for file_kind in FILE_KINDS
        ]
    lines.append("printed with --format json:")
    lines += _in_columns(documents(), width)
    return [*lines, "", "read:", *_in_columns(list(FILE_KINDS), width)]


def _in_columns(names: list[str], width: int) -> list[str]:
    """The names side by side, read downwards, as far as the width allows."""
    width_of_names = max(map(len, names)) + 2
    column_count = max(1, (width - 2) // width_of_names)
    # rounded up
    row_count = -(-len(names) // column_count)
    lines = []
    for first in range(row_count):
        cells = [f"{name:<{width_of_names}}" for name in names[first::row_count]]
        lines.append(f"  {''.join(cells)}".rstrip())
    return lines
