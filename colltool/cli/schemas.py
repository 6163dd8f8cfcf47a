"""``--schema`` of the commands that read a definition other than a fabric: print its JSON Schema and stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer


def _printing(asked: bool, schema: Callable[[], str]) -> None:
    if asked:
        from colltool.cli.written import write

        write(schema(), None)
        raise typer.Exit


def _ladder() -> str:
    from colltool.fabric.ladder import LadderFile
    from colltool.fabric.schema import LADDER, json_schema
    from colltool.render.dispatch import to_json

    return to_json(json_schema(LadderFile, LADDER))


def _layout() -> str:
    from colltool.congestion.layout_file import LayoutFile
    from colltool.fabric.schema import LAYOUT, json_schema
    from colltool.render.dispatch import to_json

    return to_json(json_schema(LayoutFile, LAYOUT))


def _option(files: str, schema: Callable[[], str]) -> Any:
    return typer.Option(
        "--schema",
        help=f"Print the JSON Schema of {files} files, for editors, and stop.",
        is_eager=True,
        callback=lambda asked: _printing(asked, schema),
    )


LadderSchemaOption = Annotated[bool, _option("ladder", _ladder)]
LayoutSchemaOption = Annotated[bool, _option("layout", _layout)]
