"""``colltool mcp``: a server of the Model Context Protocol on stdin and stdout; the only module
that knows its SDK.

:func:`mcp_command` runs :func:`server`, whose tools are those of :mod:`colltool.commands.tools`. A
call is answered in a process of its own by :func:`answer`; resources are the shipped fabrics,
schemas and guides.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import chdir
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colltool import __version__
from colltool.base.errors import ColltoolError, problems_of, set_audience
from colltool.base.extras import needs_extra
from colltool.commands.command import command
from colltool.commands.output import ProgressLine, announce, enable_garbage_collection
from colltool.commands.tool_answers import (
    BRIEF,
    LONGEST_TEXT,
    WHOLE,
    bounded,
    brief_text,
    first_sentences,
    left_out_text,
)
from colltool.commands.tool_files import texts_as_files
from colltool.commands.tool_words import in_words_of_tools
from colltool.commands.tools import TOOLS, call_tool, description_of, input_schema

if TYPE_CHECKING:
    from anyio import CapacityLimiter
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

    from colltool.base.result import Result

INSTRUCTIONS = """\
What a collective (all-reduce, all-gather, all-to-all ...) costs on a cluster's network, what that
means for a training step or a served token, and what measured logs say. List what ships with fabric
and plan (what: jobs). Send your own fabric, job, layout or log as its text or content; file names
work within the folder that the server was given. Sizes carry a unit: 16MB is 10^6, 16MiB 2^20.
Answers are JSON in SI units (*_s seconds, *_Bps bytes per second) of at most 8 KB; left_out says
what was shortened, "detail": true sends all. Nine of ten measurements lie within interval; if the
interval of a ratio contains 1, it is too close to call. An error says what is wrong, where, and
what to send instead."""
# calls that run at once, each in a process of its own, which ends when the call is cancelled
_LANES = 2


@command(["folder"])
def mcp_command(folder: Path | None = None) -> None:
    """Run a server of the Model Context Protocol on stdin and stdout, until stdin ends.

    Twelve tools cover all commands. An answer is the JSON of the command line, shortened to 8 KB
    unless the assistant asks for detail; resources are the shipped fabrics and the guides. Logs and
    YAML may be sent as text; only files in --folder are read.

    Examples:
      colltool mcp
      colltool mcp --folder clusters
    """
    if folder is not None and not os.path.isdir(folder):
        raise ColltoolError(
            "is not a folder",
            where=str(folder),
            argument="folder",
            fix="name a folder that is there",
        )
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
    """The MCP server, with the handlers of its requests.

    Args:
        folder: files within it may be read; it is the current folder then. None: no files.
    """
    from mcp.server import Server

    @cache
    def lanes() -> CapacityLimiter:
        # it needs the running event loop: made at the first call
        from anyio import CapacityLimiter

        return CapacityLimiter(_LANES)

    async def call_in_worker(
        _: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        from anyio import BrokenWorkerProcess, to_process

        try:
            # a thread could not be stopped
            return await to_process.run_sync(
                _answer_in_worker,
                os.getpid(),
                params.name,
                params.arguments or {},
                folder,
                cancellable=True,
                limiter=lanes(),
            )
        except BrokenWorkerProcess:
            return _error(f"error: the worker process died, probably out of memory\n  {_LESS}")

    return Server(
        "colltool",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=_list_tools,
        on_call_tool=call_in_worker,
        on_list_resources=_list_resources,
        on_read_resource=_read_resource,
    )


async def _list_tools(
    _: ServerRequestContext[Any], __: PaginatedRequestParams | None
) -> ListToolsResult:
    """The tools, all on one page."""
    from mcp_types import ListToolsResult, Tool, ToolAnnotations

    # they only read, and nothing outside this machine: an assistant may call them without asking its user
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    tools = [
        Tool(
            name=tool,
            description=description_of(tool),
            input_schema=input_schema(tool),
            annotations=reads,
        )
        for tool in TOOLS
    ]
    return ListToolsResult(tools=tools)


_LESS = "ask for less in one call: fewer ranks, sizes or fabrics"


def _error(text: str) -> CallToolResult:
    """An answer that says what went wrong and, below it, what to do."""
    from mcp_types import CallToolResult, TextContent

    return CallToolResult(content=[TextContent(text=text)], is_error=True)


def _answer_in_worker(
    server_pid: int, name: str, arguments: Mapping[str, Any], folder: Path | None
) -> CallToolResult:
    """Answer a call, as :func:`answer`, in a process that ends when the server does, even amid its
    work: a thread looks every two seconds whether the process was handed to another parent."""
    from signal import SIGTERM
    from threading import Event, Thread

    is_done = Event()

    def end_with_server() -> None:
        while not is_done.wait(timeout=2):
            if os.getppid() != server_pid:
                os.kill(os.getpid(), SIGTERM)

    Thread(target=end_with_server, daemon=True).start()
    try:
        return answer(name, arguments, folder)
    finally:
        is_done.set()


def answer(name: str, arguments: Mapping[str, Any], folder: Path | None = None) -> CallToolResult:
    """Call a tool: the first sentences of its answer, and the JSON document as a value; or the
    error's text.

    Args:
        folder: as of :func:`server`; files of the package can always be read.
    """
    from mcp_types import CallToolResult, TextContent

    from colltool.base.reach import confined
    from colltool.fabric.load import shipped_folder

    readable = [Path(__file__).parent.parent, shipped_folder()]
    if folder is None:
        fix = "send the text of the file in place of its name"
    else:
        fix = "name a file within the server's folder, or send its text"
        readable.append(folder)
    with texts_as_files(arguments) as (with_files, texts_folder):
        if texts_folder:
            readable.append(Path(texts_folder))
        try:
            with confined(readable, fix), set_audience("tool"):
                text, document = _text_and_document(name, with_files, texts_folder)
        except ColltoolError as error:
            problems = [problem.spelled("tool") for problem in problems_of(error)]
            errors = "\n".join(f"error: {in_words_of_tools(problem)}" for problem in problems)
            return _error(first_sentences(_without_folder(errors, texts_folder), BRIEF))
        except MemoryError:
            return _error(f"error: this needs more memory than is available\n  {_LESS}")
        except RecursionError:
            return _error("error: this is nested too deeply\n  send a flatter definition")
        # a bug of ours ends one answer, not the server
        except Exception as error:
            first_line = str(error).partition("\n")[0][:200]
            bug = f"bug in colltool: {type(error).__name__}: {first_line} (please report it)"
            return _error(bug)
    content = [TextContent(text=text)]
    return CallToolResult(content=content, structured_content=document, is_error=False)


def _text_and_document(
    name: str, arguments: Mapping[str, Any], texts_folder: str
) -> tuple[str, dict[str, Any] | None]:
    """The text of a tool's answer, and the JSON document (None of a tool that answers with a text);
    together at most BRIEF bytes, or WHOLE with ``detail``.

    Args:
        texts_folder: what to cut from the names of files in it; empty for none.
    """
    from colltool.commands.reading import flag_of
    from colltool.render.data_formats import json_text
    from colltool.render.dispatch import document as document_of

    detail = flag_of(arguments.get("detail") or False, "detail")
    result = call_tool(name, arguments)
    if isinstance(result, str):
        note = 'Shortened. Send "detail": true for all of it.'
        return brief_text(_without_folder(result, texts_folder), note, detail=detail), None
    document = document_of(result)
    document |= _files_of(result, document["schema"])
    # by way of its text: a name of a file, or a character that no JSON has, may be in any string
    compact = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    whole = json.loads(_without_folder(json_text(compact), texts_folder))
    text = first_sentences(_without_folder(_headline(result), texts_folder))
    most_bytes = WHOLE if detail else BRIEF
    # room for the text, and for what was left out, which is said in the text and by key
    shortened = bounded(whole, most_bytes - len(text.encode()) - LONGEST_TEXT)
    if not shortened.left_out:
        return text, shortened.document
    note = left_out_text(shortened.left_out, detail=detail)
    # the first ten: the document has to fit with them
    first_left_out = dict(list(shortened.left_out.items())[:10])
    sentences = first_sentences(text, LONGEST_TEXT - len(note.encode()) - 1)
    return f"{sentences}\n{note}", {**shortened.document, "left_out": first_left_out}


def _files_of(result: Any, schema: str) -> dict[str, str]:
    """What the command line writes to files of two commands, by its key in the document: the picture
    of ``fabric draw``, and what ``calibrate`` fitted, which an assistant sends on as machine or
    fabric. Empty for other results."""
    if schema == "colltool.fabric-draw/1":
        return {"svg": result.svg}
    if schema != "colltool.calibrate/1":
        return {}
    # without a fitted series there are only rows of a machine
    return {"text": result.text} if result.series else {"machine_text": result.machine_text}


def _headline(result: Result) -> str:
    """The first sentences of a result as the command line prints them, else its summary; both in the
    words of tools."""
    from colltool.base.errors import localize
    from colltool.render.blocks import Headline
    from colltool.render.dispatch import blocks, summary

    first = next(iter(blocks(result)), None)
    sentences = first.text if isinstance(first, Headline) else summary(result)
    return in_words_of_tools(localize(sentences))


def _without_folder(text: str, folder: str) -> str:
    """A text in which the files that texts were written to are named without their folder; ``folder``
    is empty where there is none."""
    return text.replace(f"{folder}{os.sep}", "") if folder else text


def _shipped() -> Iterator[tuple[str, str, str]]:
    """The URI of each resource, its MIME type, and its description."""
    from colltool.fabric.load import shipped_fabrics
    from colltool.guides import TOPICS, about
    from colltool.render.schemas import FILE_KINDS, command_for, documents

    for topic in TOPICS:
        yield f"colltool://guides/{topic}", "text/markdown", about(topic)
    for fabric_name in shipped_fabrics():
        yield (
            f"colltool://fabrics/{fabric_name}",
            "application/yaml",
            f"The file of the shipped fabric {fabric_name}.",
        )
    for file_kind in FILE_KINDS:
        yield (
            f"colltool://schemas/{file_kind}",
            "application/schema+json",
            f"The JSON Schema of {file_kind.removesuffix('-file')} files.",
        )
    for name in documents():
        yield (
            f"colltool://schemas/{name}",
            "application/schema+json",
            f"The JSON Schema of what {command_for(name)} answers.",
        )


async def _list_resources(
    _: ServerRequestContext[Any], __: PaginatedRequestParams | None
) -> ListResourcesResult:
    """The resources, all on one page."""
    from mcp_types import ListResourcesResult, Resource

    resources = [
        Resource(
            uri=address,
            name=address.rpartition("/")[2],
            mime_type=mime_type,
            description=description,
        )
        for address, mime_type, description in _shipped()
    ]
    return ListResourcesResult(resources=resources)


async def _read_resource(
    _: ServerRequestContext[Any], params: ReadResourceRequestParams
) -> ReadResourceResult:
    """The text of one resource; MCPError for an unknown one."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import INVALID_PARAMS, ReadResourceResult, TextResourceContents

    mime_types = {address: mime_type for address, mime_type, _ in _shipped()}
    address = str(params.uri)
    if address not in mime_types:
        what = f"no resource '{address[:100]}': resources/list names them all"
        raise MCPError(INVALID_PARAMS, what)
    kind, name = address.removeprefix("colltool://").split("/")
    text = _text_of(kind, name)
    return ReadResourceResult(
        contents=[TextResourceContents(uri=address, mime_type=mime_types[address], text=text)]
    )


def _text_of(kind: str, name: str) -> str:
    """The text of an existing resource, ``colltool://KIND/NAME``: of a guide, a fabric or a schema."""
    from colltool.fabric.load import SUFFIX, shipped_folder
    from colltool.guides import read_guide

    if kind == "guides":
        return read_guide(name)
    if kind == "fabrics":
        return (shipped_folder() / f"{name}{SUFFIX}").read_text(encoding="utf-8")
    from colltool.render.data_formats import to_json
    from colltool.render.schemas import schema_of

    return to_json(schema_of(name))
