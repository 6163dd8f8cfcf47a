"""The JSON Schema of an output, or of a kind of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from colltool.commands import options as o
from colltool.commands.command import command
from colltool.commands.output import write

if TYPE_CHECKING:
    pass


@command()
def schema_command(
    name: Annotated[str | None, o.option("document")] = None,
    output: o.Output = None,
) -> None:
    """The JSON Schema of what a command prints with --format json, or of a kind of files; without
    NAME the list of them.

    Examples:
      colltool schema
      colltool schema price
      colltool schema fabric -o fabric.schema.json
    """
    from colltool.render.dispatch import to_json
    from colltool.render.schemas import FILE_KINDS, asked_by, documents, schema_of

    if name is not None:
        write(
            to_json(schema_of(name.removeprefix("colltool.").removesuffix("/1").replace(" ", "-"))),
            output,
        )
        return
    wide = max(map(len, documents()))
    printed = [f"  {one:<{wide}}  colltool {asked_by(one)}" for one in documents()]
    read = [f"  {one:<{wide}}  files of this kind" for one in FILE_KINDS]
    write("\n".join(["printed with --format json:", *printed, "", "read:", *read, ""]), output)
