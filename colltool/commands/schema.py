"""The JSON Schema of an output, or of a kind of files."""

from __future__ import annotations

from pathlib import Path

from colltool.commands.command import command
from colltool.commands.output import write


@command(["document", "output"])
def schema_command(document: str | None = None, output: Path | None = None) -> None:
    """Print the JSON Schema of a command's JSON output or of a kind of file; without NAME, list them.

    Examples:
      colltool schema
      colltool schema price
      colltool schema fabric -o fabric.schema.json
    """
    from colltool.render.dispatch import to_json
    from colltool.render.schemas import FILE_KINDS, command_for, documents, schema_of

    if document is not None:
        # also as JSON has it, colltool.price/1, and as a command is typed: plan compare
        name = document.removeprefix("colltool.").removesuffix("/1").replace(" ", "-")
        write(to_json(schema_of(name)), output)
        return
    wide = max(map(len, documents()))
    printed = [f"  {name:<{wide}}  colltool {command_for(name)}" for name in documents()]
    read = [f"  {name:<{wide}}  files of this kind" for name in FILE_KINDS]
    write("\n".join(["printed with --format json:", *printed, "", "read:", *read, ""]), output)
