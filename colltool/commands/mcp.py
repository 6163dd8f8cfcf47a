"""``colltool mcp``: a server of the Model Context Protocol on stdin and stdout; the only module
that knows its SDK."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colltool import __version__
from colltool.base.errors import ColltoolError, problems_of
from colltool.base.extras import needs_extra
from colltool.commands.command import command
from colltool.commands.output import ProgressLine, announce, enable_garbage_collection
from colltool.commands.tools import TOOLS, call_tool, input_schema, output_schema

if TYPE_CHECKING:
    from mcp.server import Server, ServerRequestContext
    from mcp_types import (
        CallToolRequestParams,
        CallToolResult,
        ListResourcesResult,
        ListToolsResult,
        PaginatedRequestParams,
        ReadResourceRequestParams,
        ReadResourceResult,
    )

INSTRUCTIONS = """\
What a collective (all-reduce, all-gather, all-to-all ...) costs on a cluster's network, what a training step or a token makes of
it, and what measured logs say. list_fabrics and list_jobs name what ships; a fabric, job or layout of one's own is given as an
object (guide, topics fabrics and jobs), or as a file of the folder that the server may read. Sizes are texts with a unit: 16MB is
10^6, 16MiB 2^20. Answers are JSON in SI units: *_s seconds, *_Bps bytes a second; a sentence stands before it. An error says what
is wrong, where, and what to write instead. interval in an answer is where nine of ten measurements lie; where a ratio's own
interval holds 1, either may win."""


@command(["folder"])
def mcp_command(folder: Path | None = None) -> None:
    """Run a server of the Model Context Protocol on stdin and stdout, until stdin ends.

    The tools are colltool's functions, and answer with the JSON of the command line; the resources
    are the shipped fabrics and the guides. The server writes no files, and reads only those in
    --folder.

    Examples:
      colltool mcp
      colltool mcp --folder clusters
    """
    if folder is not None and not os.path.isdir(folder):
        fix = "name a folder that is there"
        raise ColltoolError("is not a folder", where=str(folder), argument="folder", fix=fix)
    try:
        import anyio
        from mcp.server.stdio import stdio_server
    except ImportError as error:
        raise needs_extra("mcp", "the server", "the SDK of the Model Context Protocol") from error
    enable_garbage_collection()
    ProgressLine.end()
    announce("waiting for the lines of a client on stdin; Ctrl-C ends it")
    root = None if folder is None else folder.resolve()

    async def serve() -> None:
        mcp_server = server(root)
        async with stdio_server() as (read, write):
            await mcp_server.run(read, write, mcp_server.create_initialization_options())

    _end_at_once()
    with chdir(root or os.curdir):
        anyio.run(serve)


def _end_at_once() -> None:
    """Let an interrupt end the server while it waits for a line; there is nothing to clean up."""
    import signal

    for number in (signal.SIGINT, signal.SIGTERM):
        # replace only the handler of our entry point, not one of a host process
        if getattr(signal.getsignal(number), "__module__", "") == "colltool.commands.app":
            signal.signal(number, signal.SIG_DFL)


def server(folder: Path | None = None) -> Server[Any]:
    """The MCP server.

    Args:
        folder: files within it may be read; it is the current folder then. None: no files.
    """
    from mcp.server import Server

    # CapacityLimiter needs the running event loop: made at the first call
    limit: list[Any] = []

    async def on_call_tool(
        _: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        from anyio import CapacityLimiter, to_thread

        if not limit:
            # one call after the other, in a thread: pings are answered meanwhile
            limit.append(CapacityLimiter(1))
        return await to_thread.run_sync(
            partial(answer, params.name, params.arguments or {}, folder), limiter=limit[0]
        )

    return Server(
        "colltool",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=_tools,
        on_call_tool=on_call_tool,
        on_list_resources=_resources,
        on_read_resource=_resource,
    )


async def _tools(
    _: ServerRequestContext[Any], __: PaginatedRequestParams | None
) -> ListToolsResult:
    from mcp_types import ListToolsResult, Tool, ToolAnnotations

    # an assistant may call them without asking its user
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    tools = [
        Tool(
            name=name,
            description=tool.description,
            input_schema=input_schema(name),
            output_schema=output_schema(name),
            annotations=reads,
        )
        for name, tool in TOOLS.items()
    ]
    return ListToolsResult(tools=tools)


def answer(name: str, arguments: Mapping[str, Any], folder: Path | None = None) -> CallToolResult:
    """Call a tool: a sentence, and the JSON document as text and as a value; or the error's text."""
    from mcp_types import CallToolResult, TextContent

    from colltool.base.reach import confined
    from colltool.fabric.load import shipped_folder

    readable = [Path(__file__).parent.parent, shipped_folder()]
    if folder is None:
        fix = "start the server with --folder DIR to have files read"
    else:
        fix = "name a file within the server's folder"
        readable.append(folder)
    document = None
    is_error = True
    try:
        with confined(readable, fix):
            texts, document = _texts_of(name, arguments)
        is_error = False
    except ColltoolError as error:
        texts = [f"error: {problem.spelled('python')}" for problem in problems_of(error)]
    except Exception as error:  # a bug of ours ends one answer, not the server
        first_line = str(error).partition("\n")[0]
        texts = [f"bug in colltool: {type(error).__name__}: {first_line} (please report it)"]
    content = [TextContent(text=text) for text in texts]
    return CallToolResult(content=content, structured_content=document, is_error=is_error)


def _texts_of(name: str, arguments: Mapping[str, Any]) -> tuple[list[str], dict[str, Any] | None]:
    """The texts of a tool's answer, last the JSON document; and the document (None of a text)."""
    from colltool.render.dispatch import document, json_text, summary

    found = call_tool(name, arguments)
    if isinstance(found, str):
        return [found], None
    plain = json.dumps(document(found), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = json_text(plain)
    texts = [summary(found)]
    # the fitted fabric file, which an assistant may write for its user
    if name == "calibrate" and getattr(found, "text", None):
        texts.append(found.text)  # type: ignore[attr-defined]
    return [*texts, text], json.loads(text)


def _shipped() -> Iterator[tuple[str, str, str]]:
    """The URI of each resource, its MIME type, and its description."""
    from colltool.fabric.load import shipped_fabrics
    from colltool.guides import TOPICS, about
    from colltool.render.schemas import FILE_KINDS, command_for, documents

    for topic in TOPICS:
        yield f"colltool://guides/{topic}", "text/markdown", about(topic)
    for name in shipped_fabrics():
        yield (
            f"colltool://fabrics/{name}",
            "application/yaml",
            f"The file of the shipped fabric {name}.",
        )
    for name in FILE_KINDS:
        yield (
            f"colltool://schemas/{name}",
            "application/schema+json",
            f"The JSON Schema of {name.removesuffix('-file')} files.",
        )
    for name in documents():
        yield (
            f"colltool://schemas/{name}",
            "application/schema+json",
            f"The JSON Schema of what {command_for(name)} answers.",
        )


async def _resources(
    _: ServerRequestContext[Any], __: PaginatedRequestParams | None
) -> ListResourcesResult:
    from mcp_types import ListResourcesResult, Resource

    found = [
        Resource(uri=address, name=address.rpartition("/")[2], mime_type=kind, description=text)
        for address, kind, text in _shipped()
    ]
    return ListResourcesResult(resources=found)


async def _resource(
    _: ServerRequestContext[Any], params: ReadResourceRequestParams
) -> ReadResourceResult:
    from mcp.shared.exceptions import MCPError
    from mcp_types import INVALID_PARAMS, ReadResourceResult, TextResourceContents

    kinds = {address: kind for address, kind, _ in _shipped()}
    address = str(params.uri)
    if address not in kinds:
        what = f"no resource '{address[:100]}': resources/list names them all"
        raise MCPError(INVALID_PARAMS, what)
    text = _text_of(*address.removeprefix("colltool://").split("/"))
    return ReadResourceResult(
        contents=[TextResourceContents(uri=address, mime_type=kinds[address], text=text)]
    )


def _text_of(kind: str, name: str) -> str:
    """The text of an existing resource."""
    from colltool.fabric.load import SUFFIX, shipped_folder
    from colltool.guides import read_guide

    if kind == "guides":
        return read_guide(name)
    if kind == "fabrics":
        return (shipped_folder() / f"{name}{SUFFIX}").read_text(encoding="utf-8")
    from colltool.render.dispatch import to_json
    from colltool.render.schemas import schema_of

    return to_json(schema_of(name))
