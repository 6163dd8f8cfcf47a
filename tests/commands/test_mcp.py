"""``colltool mcp`` by a client of its own SDK: what README asks is answered, nothing outside of the
folder is read."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import documents
import msccl_texts
import pytest
from jsonschema import Draft202012Validator
from logged_graphs import broken, log_of
from small_nodes import h100

import colltool
from colltool.commands.app import COMMANDS
from colltool.commands.tools import ALIASES, TOOLS, find_kind, input_schema
from colltool.libraries.nccl.topology.graphs import graphs_of

pytest.importorskip("mcp")
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from swept import swept

from colltool.commands.mcp import answer, server

SIZE_64 = ["ib.size=64"]
LEAF = ["ib.levels.leaf.group=4"]
LLAMA: dict[str, Any] = {
    "job": "llama3-70b",
    "fabric": "dgx-h100",
    "ranks": 512,
    "overrides": SIZE_64,
}
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    # README
    "price ar -f dgx-h100 -n 64 -M 1GB": (
        "price",
        {"fabric": "dgx-h100", "primitive": "ar", "ranks": 64, "sizes": ["1GB"]},
    ),
    "crossover ar -f dgx-h100 -n 64": (
        "crossover",
        {"fabric": "dgx-h100", "primitive": "ar", "ranks": 64},
    ),
    "expect -f dgx-h100 -n 32": ("fabric", {"what": "expect", "fabric": "dgx-h100", "ranks": 32}),
    "breakdown ar -f nvl72 -n 144 -M 16MB": (
        "breakdown",
        {"fabric": "nvl72", "primitive": "ar", "ranks": 144, "size": "16MB"},
    ),
    "compare ar,a2a -f nvl72 -f dgx-b200 -n 1152": (
        "compare",
        {"fabrics": ["nvl72", "dgx-b200"], "primitives": ["ar", "a2a"], "ranks": 1152},
    ),
    "plan llama3-70b -f dgx-h100:nodes=64": (
        "plan",
        {"job": "llama3-70b", "fabric": "dgx-h100:nodes=64"},
    ),
    "plan llama3-70b -f dgx-h100 -n 512 --set ib.size=64": ("plan", LLAMA),
    "serve llama3-70b -f hgx-h200 --tp 8 --batch 64 --engine vllm@0.24.0": (
        "serve",
        {"job": "llama3-70b", "fabric": "hgx-h200", "tp": 8, "batch": 64, "engine": "vllm@0.24.0"},
    ),
    "doctor node07.log": ("doctor", {"logs": "node07.log"}),
    "doctor node07.log -f dgx-h100": ("doctor", {"logs": "node07.log", "fabric": "dgx-h100"}),
    "price ar -f cluster.yaml -M 1GB": (
        "price",
        {"fabric": "cluster.yaml", "primitive": "ar", "sizes": ["1GB"]},
    ),
    "validate node07.log -f dgx-h100": ("validate", {"fabric": "dgx-h100", "logs": ["node07.log"]}),
    # the guide of questions
    "sweep ar -f dgx-h100 -n 8,64,256 -M 64KB,1MB,16MB,1GB --pivot busbw": (
        "sweep",
        {
            "fabrics": "dgx-h100",
            "primitive": "ar",
            "ranks": [8, 64, 256],
            "sizes": ["64KB", "1MB", "16MB", "1GB"],
        },
    ),
    "breakdown ar -f nvl72 -n 144 -M 16MB --algorithm hierarchical:ring/ring": (
        "breakdown",
        {
            "fabric": "nvl72",
            "primitive": "ar",
            "ranks": 144,
            "size": "16MB",
            "algorithm": "hierarchical:ring/ring",
        },
    ),
    "explain ring ag -f nvl72 -n 72 -M 16MB": (
        "explain",
        {"algorithm": "ring", "primitive": "ag", "fabric": "nvl72", "ranks": 72, "size": "16MB"},
    ),
    "price ar -f dgx-h100 -n 64 -M 1MB,16MB,64MB,1GB --top 1": (
        "price",
        {
            "fabric": "dgx-h100",
            "primitive": "ar",
            "ranks": 64,
            "sizes": ["1MB", "16MB", "64MB", "1GB"],
            "top": 1,
        },
    ),
    "compare ar -f dgx-h100 -n 32,64,256 --vary library.collnet=false,true": (
        "compare",
        {
            "fabrics": ["dgx-h100"],
            "primitives": ["ar"],
            "ranks": [32, 64, 256],
            "vary": ["library.collnet=false,true"],
        },
    ),
    "compare ar,a2a -f dgx-h100 -n 64,256 --set ib.levels.leaf.group=4 --vary ib.levels.spine.oversubscription=1,2,4": (
        "compare",
        {
            "fabrics": "dgx-h100",
            "primitives": ["ar", "a2a"],
            "ranks": [64, 256],
            "overrides": {"ib.levels.leaf.group": 4},
            "vary": ["ib.levels.spine.oversubscription=1,2,4"],
        },
    ),
    "sensitivity ar -f dgx-h100 -n 64 -M 32MB --vary eta.beta=0.4:1 --vary alpha=4x": (
        "sensitivity",
        {
            "fabric": "dgx-h100",
            "primitive": "ar",
            "ranks": 64,
            "size": "32MB",
            "vary": ["eta.beta=0.4:1", "alpha=4x"],
        },
    ),
    "fabric size --endpoints 2048 --radix 64 --oversubscription 3 --price currency=USD --price switch=30000 --price optic=600": (
        "size_fabric",
        {
            "endpoints": 2048,
            "radix": 64,
            "oversubscription": 3,
            "overrides": ["currency=USD", "switch=30000", "optic=600"],
        },
    ),
    "plan llama3-70b -f dgx-h100 -n 512 --set ib.size=64 --set ib.levels.spine.oversubscription=4": (
        "plan",
        {**LLAMA, "overrides": [*SIZE_64, "ib.levels.spine.oversubscription=4"]},
    ),
    "plan llama3-70b -f dgx-h100 -n 512 --set ib.size=64 --job-set layout.tp=16": (
        "plan",
        {**LLAMA, "job_overrides": ["layout.tp=16"]},
    ),
    "plan llama3-70b -f dgx-h100 -n 512 --set ib.size=64 --search --keep cp=1 --top 2": (
        "search_layouts",
        {**LLAMA, "keep": ["cp=1"], "top": 2},
    ),
    "verify ar -f torus512 -n 64": (
        "verify",
        {"fabrics": "torus512", "primitive": "ar", "ranks": 64},
    ),
    "contention -f torus512 --pattern block --group 6 --count 4": (
        "contention",
        {"fabric": "torus512", "layout": {"kind": "block", "group": 6, "count": 4}},
    ),
    "report -f dgx-h100 -n 512 --set ib.size=64 --set ib.levels.leaf.group=4 --vary ib.levels.spine.oversubscription=1,4 --job llama3-70b": (  # noqa: E501
        "report",
        {**LLAMA, "overrides": [*SIZE_64, *LEAF], "vary": ["ib.levels.spine.oversubscription=1,4"]},
    ),
}
"""What README and the guide of questions show, by the words of a shell and as a call."""
FILES: dict[str, tuple[str, dict[str, Any]]] = {
    "export nccl-tuner -f dgx-h100 -n 8": ("nccl_tuner", {"fabric": "dgx-h100", "ranks": 8}),
    "export nccl-tuner -f dgx-h100 -n 8 --env": (
        "nccl_tuner",
        {"fabric": "dgx-h100", "ranks": [8], "env": True},
    ),
    "export astra-sim -f dgx-h100 -n 64 -M 1GB -o astra": (
        "astra_sim",
        {"fabric": "dgx-h100", "ranks": 64, "size": "1GB"},
    ),
}
SMALLER: dict[str, tuple[str, dict[str, Any]]] = {
    "report": (
        "report -f star512 -p ar -M 16MB --set star.alpha=2us --vary star.bandwidth=50GB/s,100GB/s",
        {
            "fabric": "star512",
            "primitives": "ar",
            "size": "16MB",
            "overrides": {"star.alpha": "2us"},
            "vary": "star.bandwidth=50GB/s,100GB/s",
        },
    ),
    "sensitivity": (
        (
            "sensitivity ar -f star512 -n 64 -M 32MB --vary eta.beta=0.4:1 --vary alpha=4x"
            " --samples 500 --seed 2"
        ),
        {
            "fabric": "star512",
            "primitive": "ar",
            "ranks": 64,
            "size": "32MB",
            "vary": ["eta.beta=0.4:1", "alpha=4x"],
            "samples": 500,
            "seed": 2,
        },
    ),
    "plan": (
        "plan llama3-8b -f dgx-h100 -n 32 --set ib.bandwidth=25GB/s --job-set layout.tp=4",
        {
            "job": "llama3-8b",
            "fabric": "dgx-h100",
            "ranks": 32,
            "overrides": ["ib.bandwidth=25GB/s"],
            "job_overrides": ["layout.tp=4"],
        },
    ),
    "search_layouts": (
        (
            "plan llama3-70b -f dgx-h100 -n 512 --set ib.size=64 --search --keep cp=1 --keep pp=4"
            " --keep tp=8 --top 2"
        ),
        {**LLAMA, "keep": {"cp": 1, "pp": 4, "tp": 8}, "top": 2},
    ),
    "compare": (
        (
            "compare ar,a2a -f dgx-h100 -n 64 -M 1MB --set ib.levels.leaf.group=4 --vary"
            " ib.levels.spine.oversubscription=1,2"
        ),
        {
            "fabrics": "dgx-h100",
            "primitives": ["ar", "a2a"],
            "ranks": [64],
            "sizes": ["1MB"],
            "overrides": {"ib.levels.leaf.group": 4},
            "vary": ["ib.levels.spine.oversubscription=1,2"],
        },
    ),
}
"""The same question of less, where it takes seconds as it stands."""
QUICK = {line: asked for line, asked in ASKED.items() if asked[0] not in SMALLER} | {
    line: (name, arguments) for name, (line, arguments) in SMALLER.items()
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the files of the documents."""
    for name, content in documents.files().items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked_in_documents() -> Iterator[str]:
    for path in (documents.README, documents.ROOT / "colltool" / "guides" / "questions.md"):
        for shown in documents.shown(path.read_text(encoding="utf-8")):
            words = shlex.split(shown.line.partition(" | ")[0])[1:]
            if "--columns" in words:
                at = words.index("--columns")
                del words[at : at + 2]
            yield " ".join(words)


def numbers(value: Any) -> Any:
    """All but the sentences, which name options to a shell and arguments to a client."""
    if isinstance(value, dict):
        return {key: numbers(one) for key, one in value.items() if key not in ("command", "fabric")}
    return (
        [numbers(one) for one in value]
        if isinstance(value, list)
        else value
        if not isinstance(value, str)
        else ""
    )


def test_every_command_of_the_questions_is_asked() -> None:
    assert set(asked_in_documents()) == {*ASKED, *FILES}


@pytest.mark.alike(5)
@pytest.mark.parametrize(
    "line", QUICK, ids=[f"{at} {line.split()[0]}" for at, line in enumerate(QUICK)]
)
def test_a_question_of_the_documents_is_answered_with_the_same_numbers(
    line: str, folder: Path, run: Any, remembered: Any
) -> None:
    """The whole of it and, without detail, a short answer that says what it leaves out."""
    name, arguments = QUICK[line]
    found = answer(name, {**arguments, "detail": True}, folder)
    assert not found.is_error, found.content
    whole = found.structured_content
    document = json.loads(run(*line.split(), "--format", "json").out)
    assert numbers(whole) == numbers(document)
    assert list(whole) == list(document)
    (said,) = found.content
    assert 20 < len(said.text.encode()) <= 1000
    found = answer(name, arguments, folder)
    (said,) = found.content
    assert bytes_of(found.structured_content) + len(said.text.encode()) <= 8192
    assert len(said.text.encode()) <= 1000
    assert found.structured_content["schema"] == whole["schema"]
    is_short = 'Send "detail": true for all of it.' in said.text
    if not is_short:
        assert found.structured_content == whole
    elif bytes_of(whole) > 8192:
        assert found.structured_content["left_out"]


def bytes_of(document: Any) -> int:
    return len(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode())


@pytest.mark.parametrize("line", FILES)
def test_a_file_for_another_program_is_answered_as_it_is_written(
    line: str, folder: Path, run: Any
) -> None:
    shown, (name, arguments) = run(*line.split()).out, FILES[line]
    (found,) = answer(name, arguments).content
    if name == "nccl_tuner":
        assert found.text == shown
        return
    written = [
        f"# {file}\n{Path('astra', file).read_text()}" for file in ("network.yml", "system.json")
    ]
    assert found.text == "\n".join([*written, *shown.splitlines()[1:]])


# --- what a tool says of itself
# ----------------------------------------------------------------------------------------------

# of price the table has the list, of the others no answer
ONLY_IN_PYTHON = {"price", "load_fabric", "load_job", "readings"}
# their parts have one each, where they answer something
WITHOUT_A_TOOL = {"mcp", "schema", "export", "library", "job", "fabric"}


def kinds() -> Iterator[tuple[str, str]]:
    """Each tool with each of its questions."""
    for name, tool in TOOLS.items():
        for what in tool.kinds:
            yield name, what


def test_every_public_function_answers_a_tool() -> None:
    functions = {name for name in colltool.__all__ if inspect.isfunction(getattr(colltool, name))}
    reached = {TOOLS[name].kinds[what].function.partition(":")[2] for name, what in kinds()}
    assert functions - ONLY_IN_PYTHON <= reached
    assert len(TOOLS) == 12
    # by its own name, too, without a word about what
    for function in reached - {"price_list"}:
        name, what = find_kind(function, {"algorithm": "ring"} if function == "explain" else {})
        assert TOOLS[name].kinds[what].function.endswith(f":{function}")
    assert set(COMMANDS) - WITHOUT_A_TOOL <= {*TOOLS, *ALIASES}


@swept("name", TOOLS)
def test_a_tool_describes_itself_and_each_argument(name: str) -> None:
    schema = input_schema(name)
    Draft202012Validator.check_schema(schema)
    for argument, one in schema["properties"].items():
        assert len(one.get("description", "what it asks")) > 5, argument
        assert "--" not in one.get("description", "")
        assert {"type", "enum"} & set(one)
    for what, kind in TOOLS[name].kinds.items():
        needed = {key for key, one in kind.arguments.items() if one.is_required}
        assert needed & set(schema["required"]) or not schema["required"] or what
    # what the schema asks for, every question of the tool takes
    for what in TOOLS[name].kinds:
        taken = TOOLS[name].kinds[what].arguments
        assert set(schema["required"]) <= {*taken, "logs"}


def test_the_list_of_tools_is_short() -> None:
    async def ask() -> None:
        async with Client(server()) as client:
            listed = await client.list_tools()
        assert len(listed.tools) == 12
        assert len(listed.model_dump_json(by_alias=True, exclude_none=True).encode()) <= 20_000

    asyncio.run(ask())


def test_the_calls_of_the_documents_fit_their_schemas() -> None:
    """And the types are there: no half of a rank, no number for a name."""
    for name, arguments in (*ASKED.values(), *FILES.values(), *QUICK.values()):
        tool, what = find_kind(name, arguments)
        schema = input_schema(tool)
        asked = {"what": what, **arguments} if len(TOOLS[tool].kinds) > 1 else arguments
        checked = Draft202012Validator({**schema, "required": []})
        if set(asked) <= set(schema["properties"]) and what not in (
            "sweep",
            "astra_sim",
            "nccl_tuner",
        ):
            checked.validate(asked)
    good = {"fabric": "nvl72", "primitive": "ar"}
    price = Draft202012Validator(input_schema("price"))
    assert price.is_valid({**good, "sizes": "1MB", "readings": {"ideal": True}})
    for bad in ({"ranks": 1.5}, {"top": 0}, {"fabric": 5}, {"primitive": None}):
        assert not price.is_valid({**good, **bad}), bad


# --- mistakes
# -----------------------------------------------------------------------------------------------------------------


def refused(name: str, arguments: dict[str, Any], folder: Path | None = None) -> str:
    """The error that a call meets."""
    found = answer(name, arguments, folder)
    assert found.is_error
    assert found.structured_content is None
    return "\n".join(one.text for one in found.content)


@swept(
    ("name", "arguments", "said"),
    [
        ("pric", {}, "no tool 'pric'\n  did you mean 'price'?"),
        ("price", {"fabrik": "nvl72"}, "price has no argument 'fabrik'\n  did you mean 'fabric'?"),
        (
            "price",
            {"fabric": "nvl72"},
            "primitive is missing\n  send primitive: ar (all-reduce), ag",
        ),
        (
            "price",
            {"fabric": "nvl73", "primitive": "ar"},
            "shipped fabric is called 'nvl73'\n  did you mean 'nvl72'? list the shipped ones: fabric with \"what\": \"list\"",
        ),
        (
            "price",
            {"fabric": "nvl72", "primitive": "ar", "ranks": "eight"},
            "expected a whole number, got 'eight'\n  write \"ranks\": 8",
        ),
        (
            "price",
            {"fabric": "nvl72", "primitive": "ar", "size": "1MB", "sizes": ["1MB"]},
            "sizes: given twice",
        ),
        ("compare", {"what": "fabric"}, "what is one of: compare, sweep"),
        ("fabric", {"what": 5}, "what: unknown question 5"),
        ("price", {"fabric": "nvl72", "primitive": "ar", "detail": "x"}, "detail"),
        (
            "price",
            {"fabric": "nvl72", "primitive": "ar", "readings": 5},
            "readings: expected readings by name",
        ),
        (
            "price",
            {"fabric": "nvl72", "primitive": "ar", "readings": {"idea": 1}},
            "there is no argument or model option called 'idea'",
        ),
        ("price", {"fabric": "nvl72", "primitive": "ar", "overrides": ["ib.x=1"]}, "x"),
        ("show_fabric", {"fabric": {"name": "mine"}}, "tiers"),
        (
            "plan",
            {"job": "llama3-70b", "fabric": "nvl72", "job_overrides": ["layout.x=1"]},
            "job_overrides",
        ),
        ("guide", {"topic": "nonsense"}, "no guide 'nonsense'"),
        ("nccl_tuner", {"fabric": "dgx-h100", "ranks": ["a"]}, "ranks: expected a whole number"),
    ],
)
def test_a_mistake_is_an_error_of_the_tool_that_says_what_to_write(
    name: str, arguments: dict[str, Any], said: str
) -> None:
    text = refused(name, arguments)
    assert text.startswith("error: ")
    assert said in text
    assert not re.search(r"(?<!\w)--?[a-z]|colltool [a-z]", text), "the words of a shell"


ODD: tuple[Any, ...] = (
    [],
    {},
    "",
    "x",
    -1,
    1e400,
    True,
    [[1]],
    {"a": {"b": []}},
    ["\0"],
    "\0",
    "\ud800",
)


@pytest.mark.ci
@swept("name", [*TOOLS, *ALIASES])
def test_no_value_of_an_argument_is_a_bug(name: str) -> None:
    """Whatever a model makes up: an error that a person could mend, or an answer."""
    tool, what = find_kind(name, {})
    taken = TOOLS[tool].kinds[what].arguments
    required = [argument for argument, one in taken.items() if one.is_required] or ["what"]
    needed = {argument: "nvl72" if "fabric" in argument else "ar" for argument in required}
    for argument in required:
        for odd in ODD:
            found = answer(name, {**needed, argument: odd})
            assert not any("bug" in one.text[:3] for one in found.content), (
                argument,
                odd,
                found.content,
            )
            assert len(found.content[0].text.encode("utf-8", "replace")) <= 8192


# --- files
# --------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def yard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be kept to, with ways out of it, and a file beside it."""
    (tmp_path / "out.yaml").write_text(documents.files()["cluster.yaml"])
    yard = tmp_path / "yard"
    (yard / "sub").mkdir(parents=True)
    for name in ("cluster.yaml", "node07.log"):
        (yard / name).write_text(documents.files()[name])
    (yard / "sub" / "inner.yaml").write_text("like: ../cluster.yaml\nname: inner\n")
    (yard / "far.yaml").write_text("like: ../out.yaml\nname: far\n")
    (yard / "link.yaml").symlink_to("../out.yaml")
    (yard / "way").symlink_to("..")
    (yard / "inside.yaml").symlink_to("cluster.yaml")
    os.mkfifo(yard / "pipe.yaml")
    monkeypatch.chdir(yard)
    return yard


@pytest.mark.parametrize(
    "name",
    ["cluster.yaml", "sub/inner.yaml", "inside.yaml", "sub/../cluster.yaml", "./cluster.yaml"],
)
def test_a_file_of_the_folder_is_read(name: str, yard: Path) -> None:
    for path in (name, str(yard / name)):
        assert not answer("show_fabric", {"fabric": path}, yard).is_error


OUTSIDE = (
    "../out.yaml",
    "link.yaml",
    "way/out.yaml",
    "sub/../../out.yaml",
    "far.yaml",
    "../none.yaml",
    "way/none.yaml",
    "/dev/zero",
)


@pytest.mark.parametrize("name", OUTSIDE)
def test_no_other_file_is_read_or_known_to_be_there(name: str, yard: Path) -> None:
    text = refused("show_fabric", {"fabric": name}, yard)
    assert "is no file that may be read here\n  name a file within the server's folder, or" in text
    assert "tiers" not in text
    if name.endswith("out.yaml"):
        assert text.replace("out", "none") == refused(
            "show_fabric", {"fabric": name.replace("out", "none")}, yard
        )


CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("doctor", {"logs": "{}"}),
    ("validate", {"fabric": "dgx-h100", "logs": ["{}"]}),
    ("calibrate", {"fabric": "dgx-h100", "logs": ["{}"]}),
    ("trace", {"fabric": "dgx-h100", "files": "{}"}),
    ("report", {"fabric": "star512", "primitives": "p2p", "size": "1MB", "logs": "{}"}),
    ("ladder", {"definition": "{}"}),
    ("verify", {"fabrics": ["{}"]}),
    ("plan", {"job": "{}", "fabric": "dgx-h100"}),
    ("plan", {"job": "llama3-8b", "fabric": "dgx-h100", "compute": "{}"}),
    ("serve", {"job": "{}", "fabric": "dgx-h100"}),
    ("contention", {"fabric": "star512", "layout": "{}"}),
    ("contention", {"fabric": "star512", "layout": {"kind": "block"}, "matrix": "{}"}),
    ("size_fabric", {"fat_tree": 4, "prices": "{}"}),
    ("show_job", {"job": "{}"}),
    ("show_library", {"library_file": "{}.toml"}),
    ("price", {"fabric": {"like": "{}", "name": "mine"}, "primitive": "ar"}),
    ("price", {"fabric": "star512", "primitive": "ar", "library_file": "{}.toml"}),
)


@pytest.mark.parametrize(
    ("name", "arguments"), CALLS, ids=[f"{at} {name}" for at, (name, _) in enumerate(CALLS)]
)
def test_without_a_folder_no_file_is_read(name: str, arguments: dict[str, Any], yard: Path) -> None:
    """By no argument of any tool: what is said of a file is said of one that is not there."""
    for path in (
        str(yard / "cluster.yaml"),
        str(yard / "node07.log"),
        "cluster.yaml",
        "../out.yaml",
    ):
        texts = [
            refused(name, json.loads(json.dumps(arguments).replace("{}", one))).replace(one, "FILE")
            for one in (
                path,
                path.replace("cluster", "missing")
                .replace("node07", "missing")
                .replace("out", "missing"),
            )
        ]
        assert texts[0] == texts[1]
        assert texts[0].startswith("error: ")


def test_nobody_waits_at_a_pipe(yard: Path) -> None:
    assert "pipe.yaml: is a pipe" in refused("show_fabric", {"fabric": "pipe.yaml"}, yard)
    assert "is a pipe" in refused("doctor", {"logs": "pipe.yaml"}, yard)


def test_outside_of_the_server_every_file_is_read_as_ever(yard: Path) -> None:
    answer("show_fabric", {"fabric": "cluster.yaml"})
    assert colltool.load_fabric("../out.yaml").name == "cluster"


def texts() -> dict[str, str]:
    return documents.files()


CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "_name_or_path": "meta/Small-1B",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_attention_heads": 32,
    "num_hidden_layers": 16,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": True,
}
LOG, CLUSTER = texts()["node07.log"], texts()["cluster.yaml"]


def answered(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What a server without a folder answers, in whole."""
    found = answer(name, {**arguments, "detail": True})
    assert not found.is_error, found.content[0].text
    assert "/colltool-" not in json.dumps(found.structured_content), "where texts were put"
    return found.structured_content


def test_channels_of_a_topology_file(tmp_path: Path) -> None:
    """The file's text, alone and beside a log."""
    file = broken(tmp_path, "node", *h100(2, 2))
    topology = file.read_text(encoding="utf-8")
    found = answered("fabric", {"topology_file": topology, "nodes": 2})
    assert (found["schema"], found["nodes"]) == ("colltool.channels/1", 2)
    assert [graph["graph"] for graph in found["graphs"]] == ["ring", "tree", "nvls"]
    log = log_of(tmp_path, graphs_of(file, 2)).read_text(encoding="utf-8")
    found = answered("doctor", {"logs": log, "topology_file": topology})
    assert found["topology"]["agrees"]


def test_the_text_of_a_log_is_taken_for_the_log(folder: Path) -> None:
    of_the_file = answer("doctor", {"logs": "node07.log", "detail": True}, folder)
    for given in ({"logs": LOG}, {"log": LOG}, {"logs": [LOG]}, {"logs": {"node07.log": LOG}}):
        found = answered("doctor", given)
        assert numbers(found) == numbers(of_the_file.structured_content)
    assert "log-2.log" in json.dumps(answered("doctor", {"logs": [LOG, LOG]}))
    assert "node08" in json.dumps(answered("doctor", {"logs": {"node07": LOG, "node08": LOG}}))
    for call in ("validate", "calibrate"):
        assert answered(call, {"fabric": "dgx-h100", "logs": LOG})
    assert "log.log:1: no table" in refused("doctor", {"logs": "no\nlog"})


def test_what_was_fitted_is_sent_back_as_text() -> None:
    given = {"fabric": "dgx-h100", "logs": LOG}
    machine = answer("calibrate", given).structured_content["machine_text"]
    asked = {"fabric": "dgx-h100", "primitive": "ar", "ranks": 8, "size": "256MB"}
    priced = answered("price", {**asked, "machine": machine})
    assert priced["machine"] == {"file": "machine.yaml", "rows": 11}
    fitted = answered("calibrate", {**given, "machine_only": False})["text"]
    assert answered("price", {**asked, "fabric": fitted})["fabric"] == "dgx-h100-calibrated"


def test_the_text_of_a_fabric_is_taken_for_the_file(folder: Path) -> None:
    asked = {"primitive": "ar", "ranks": 64, "size": "1GB"}
    of_the_file = answer("price", {**asked, "fabric": "cluster.yaml", "detail": True}, folder)
    assert answered("price", {**asked, "fabric": CLUSTER}) == of_the_file.structured_content
    wrong = CLUSTER.replace("topology: star", "topology: stir")
    assert "fabric.yaml:5:" in refused("price", {**asked, "fabric": wrong})
    assert "fabric-2.yaml:5:" in refused(
        "compare", {"fabrics": ["nvl72", wrong], "primitives": "ar"}
    )


def test_a_config_of_a_model_is_taken_as_text_and_as_an_object() -> None:
    asked = {"fabric": "dgx-h100", "ranks": 8}
    of_the_text = answered("plan", {**asked, "job": json.dumps(CONFIG)})
    assert of_the_text["job"] == "Small-1B"
    assert answered("plan", {**asked, "model": CONFIG}) == of_the_text
    job = {"schema": "colltool.job/1", "name": "mine", "model": "llama3-8b", "sequence": 8192}
    job |= {"stack": "megatron", "device": "h100"}
    job["batch"] = {"global": 32, "micro": 1}  # type: ignore[assignment]
    for given in (job, json.dumps(job)):
        assert answered("plan", {**asked, "ranks": 32, "job": given})["job"] == "mine"


def test_two_answers_are_compared_as_texts() -> None:
    asked = {"fabric": "star512", "primitive": "ar", "ranks": 8, "size": "1MB"}
    old = answered("price", asked)
    new = answered("price", {**asked, "overrides": "star.bandwidth=450GB/s"})
    found = answered("compare", {"old": json.dumps(old), "new": json.dumps(new)})
    assert found["schema"] == "colltool.diff/1"
    assert found["changed"]
    assert found == answered("diff", {"old": old, "new": new})
    assert '"detail": true' in refused("compare", {"old": "{}", "new": "{}"})


@swept(
    ("name", "arguments", "same"),
    [
        (
            "price",
            {"fabrics": ["star512"], "primitives": "ar", "size": "1MB,2MB", "ranks": "8"},
            {"fabric": "star512", "primitive": "ar", "sizes": ["1MB", "2MB"], "ranks": 8},
        ),
        (
            "price",
            {"fabric": "star512", "collective": "ar", "sizes": '["1MB"]', "algorithm": "ring"},
            {"fabric": "star512", "primitive": "ar", "sizes": ["1MB"], "algorithms": ["ring"]},
        ),
        (
            "breakdown",
            {"fabric": "star512", "primitive": "ar", "sizes": ["1MB"], "algorithms": ["ring"]},
            {"fabric": "star512", "primitive": "ar", "size": "1MB", "algorithm": "ring"},
        ),
        (
            "compare",
            {"fabric": "star512,torus512", "primitive": "ar,a2a", "ranks": "512", "size": "1MB"},
            {
                "fabrics": ["star512", "torus512"],
                "primitives": ["ar", "a2a"],
                "ranks": 512,
                "sizes": ["1MB"],
            },
        ),
        (
            "compare",
            {"fabrics": ["nvl72:nodes=4", "dgx-b200:nodes=36"], "primitives": "ar", "size": "1G"},
            {
                "fabrics": ["nvl72:nodes=4", "dgx-b200:nodes=36"],
                "primitives": "ar",
                "sizes": ["1G"],
            },
        ),
        ("fabric", {"name": "nvl72"}, {"what": "show", "fabric": "nvl72"}),
        ("plan", {"what": "jobs"}, {"what": "list_jobs"}),
    ],
)
def test_names_and_values_are_taken_in_singular_and_plural(
    name: str, arguments: dict[str, Any], same: dict[str, Any]
) -> None:
    assert answered(name, arguments) == answered(name, same)


# --- the protocol
# -------------------------------------------------------------------------------------------------------------


@pytest.mark.ci
def test_a_client_of_the_sdk_asks_in_this_process(yard: Path) -> None:
    async def ask() -> None:
        async with Client(server(yard)) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert list(tools) == list(TOOLS)
            assert tools["price"].input_schema == input_schema("price")
            found = await client.call_tool(
                "price",
                {"fabric": "cluster.yaml", "primitive": "ar", "ranks": 64, "sizes": ["1GB"]},
            )
            assert found.structured_content["schema"] == "colltool.price/1"
            several = await asyncio.gather(
                *(client.call_tool("guide", {"topic": topic}) for topic in ("model", "ci"))
            )
            assert [one.content[0].text.splitlines()[0] for one in several] == [
                "# The model in a page",
                "# In CI",
            ]
            for address in (
                "colltool://fabrics/../../etc/passwd",
                "file:///etc/passwd",
                "colltool://fabrics/nothing",
            ):
                with pytest.raises(MCPError, match="no resource"):
                    await client.read_resource(address)

    asyncio.run(ask())


NATURAL: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    ("price", {"fabric": "nvl72.yaml", "primitive": "ar", "size": "16MB"}, "price", "NVLSTree"),
    (
        "price",
        {"fabric": "dgx-h100", "primitive": "all-reduce", "ranks": 64, "size": "1GB"},
        "price",
        "NVLSTree",
    ),
    (
        "crossover",
        {"fabric": "dgx-h100", "primitive": "all-reduce", "ranks": 64},
        "crossover",
        "Tree",
    ),
    (
        "breakdown",
        {"fabric": "nvl72", "primitive": "ar", "ranks": 144, "size": "16MB"},
        "breakdown",
        "NVLSTree",
    ),
    (
        "compare",
        {
            "fabric": "dgx-h100",
            "primitive": "ar",
            "ranks": [64, 256],
            "overrides": ["ib.levels.leaf.group=4"],
            "vary": "ib.levels.spine.oversubscription=1,4",
        },
        "compare",
        "oversubscription=4",
    ),
    (
        "plan",
        {"model": "llama3-70b", "fabric": "dgx-h100", "ranks": 512, "overrides": {"ib.size": 64}},
        "plan",
        '"step_s"',
    ),
    (
        "serve",
        {
            "model": "llama3-70b",
            "fabric": "hgx-h200",
            "tp": 8,
            "batch": 64,
            "engine": "vllm@0.24.0",
        },
        "serve",
        '"network_s"',
    ),
    ("doctor", {"logs": LOG}, "doctor", "nvls-off"),
    (
        "price",
        {
            "fabric": "star512",
            "primitive": "ar",
            "ranks": 8,
            "size": "1MB",
            "algorithm_file": msccl_texts.all_reduce_ring(8),
        },
        "price",
        '"status": "own"',
    ),
    ("price", {"fabric": CLUSTER, "primitive": "ar", "size": "1GB"}, "price", "Ring"),
    ("validate", {"fabric": "dgx-h100", "logs": LOG}, "validate", "mape"),
    ("calibrate", {"fabric": "dgx-h100", "log": LOG}, "calibrate", "machine_text"),
    ("fabric", {}, "fabric-list", "nvl72"),
)
"""What README asks, as an assistant would with the list of tools alone: the tool, the arguments, the
document that answers, and a word of it."""


@pytest.mark.ci
def test_an_assistant_with_the_server_alone_answers_the_questions_of_readme() -> None:
    async def ask() -> None:
        async with Client(server()) as client:
            for name, arguments, document, word in NATURAL:
                found = await client.call_tool(name, arguments)
                (said,) = found.content
                assert not found.is_error, said.text
                assert word in said.text + json.dumps(found.structured_content), name
                assert found.structured_content["schema"] == f"colltool.{document}/1"
                assert len(said.text.encode()) + bytes_of(found.structured_content) <= 8192, name

    asyncio.run(ask())


SLOW: dict[str, Any] = {
    "what": "sweep",
    "fabrics": ["dgx-h100"],
    "primitives": "ar",
    "ranks": list(range(16, 129, 8)),
    "sizes": [f"{size}KB" for size in range(1, 1001)],
}
"""Minutes of work."""


@pytest.mark.ci
def test_a_call_that_is_cancelled_stops_and_holds_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("colltool.commands.mcp._LANES", 1)

    async def ask() -> None:
        async with Client(server()) as client:
            await client.call_tool("guide", {})
            for _ in range(2):
                with pytest.raises(MCPError, match="Timed out"):
                    await client.call_tool("compare", SLOW, read_timeout_seconds=0.5)
                found = await client.call_tool("guide", {}, read_timeout_seconds=60)
                assert not found.is_error

    asyncio.run(ask())


@pytest.mark.ci
def test_a_worker_ends_with_its_server() -> None:
    """Though nobody stopped it, and it works for minutes."""
    program = [sys.executable, "-m", "colltool", "mcp"]
    pipe = subprocess.PIPE
    with subprocess.Popen(program, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as one:
        assert one.stdin is not None
        assert one.stdout is not None
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
        hello["clientInfo"] = {"name": "a test", "version": "1"}
        for line in (
            {"id": 1, "method": "initialize", "params": hello},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": {"name": "compare", "arguments": SLOW}},
        ):
            one.stdin.write(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n")
            one.stdin.flush()
        one.stdout.readline()
        children = Path(f"/proc/{one.pid}/task/{one.pid}/children")
        if not children.exists():
            pytest.skip("no list of children here")
        worker = waited_for(lambda: children.read_text().split())[0]
        one.kill()
    # a zombie has ended, though nobody asked how
    status = Path("/proc", worker, "status")
    assert waited_for(lambda: not status.exists() or "(zombie)" in status.read_text())


def waited_for(found: Callable[[], Any]) -> Any:
    """What is found within a minute."""
    for _ in range(600):
        answer = found()
        if answer:
            return answer
        time.sleep(0.1)
    raise AssertionError("waited a minute")


def test_a_call_without_the_memory_it_takes_ends_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for error, said in ((MemoryError, "more memory than is"), (RecursionError, "too deep")):

        def fails(*_: Any, error: type[Exception] = error) -> None:
            raise error

        monkeypatch.setattr("colltool.commands.mcp.call_tool", fails)
        text = refused("price", {})
        assert said in text
        assert "\n  " in text
    monkeypatch.setattr("colltool.commands.mcp.call_tool", lambda *_: 1 / 0)
    assert refused("price", {}) == (
        "bug in colltool: ZeroDivisionError: division by zero (please report it)"
    )


def test_resources_are_the_shipped_fabrics_the_guides_and_the_schema() -> None:
    async def ask() -> None:
        async with Client(server()) as client:
            listed = {one.uri: one for one in (await client.list_resources()).resources}
            texts = {uri: (await client.read_resource(uri)).contents[0].text for uri in listed}
        assert {uri.split("/")[-1] for uri in listed if "//fabrics" in uri} == set(
            colltool.list_fabrics()
        )
        assert {uri.split("/")[-1] for uri in listed if "//guides" in uri} == {
            path.stem for path in documents.GUIDES
        }
        assert (
            texts["colltool://guides/model"]
            == (documents.ROOT / "colltool" / "guides" / "model.md").read_text()
        )
        assert "name: nvl72\n" in texts["colltool://fabrics/nvl72"]
        assert json.loads(texts["colltool://schemas/fabric"])["$id"] == "urn:colltool:fabric:1"

    asyncio.run(ask())


def test_a_process_answers_on_its_streams_and_ends_with_them(yard: Path) -> None:
    async def ask() -> None:
        started = StdioServerParameters(
            command=sys.executable,
            args=["-m", "colltool", "mcp", "--folder", "sub"],
            env={**os.environ},
        )
        async with Client(stdio_client(started)) as client:
            found = await client.call_tool("show_fabric", {"fabric": "inner.yaml"})
            assert found.is_error, "what it is like stands outside of the folder"
            found = await client.call_tool(
                "price", {"fabric": "star512", "primitive": "ar", "sizes": ["1MB"], "top": 1}
            )
            assert found.structured_content["results"][0]["name"]

    asyncio.run(ask())


def test_an_interrupt_ends_a_server_that_waits() -> None:
    program = [sys.executable, "-m", "colltool", "mcp"]
    # in the background of a shell, where the tests may run, children ignore interrupts
    heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    pipe = subprocess.PIPE
    with subprocess.Popen(program, stdin=pipe, stdout=pipe, stderr=pipe, preexec_fn=heeds) as one:
        assert one.stdin is not None
        assert one.stdout is not None
        one.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        one.stdin.flush()
        one.stdout.readline()  # it is there
        one.send_signal(signal.SIGINT)
        assert one.wait(timeout=60) == -signal.SIGINT
        assert one.stderr is not None
        assert one.stderr.read() == b""


def test_without_the_sdk_it_says_what_to_install(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.stdio", None)
    done = run("mcp")
    assert (done.code, done.out) == (2, "")
    assert "needs the SDK of the Model Context Protocol" in done.err
    assert "pip install" in done.err


def test_a_folder_that_is_none(run: Any, tmp_path: Path) -> None:
    done = run("mcp", "--folder", str(tmp_path / "none"))
    assert (done.code, done.out) == (2, "")
    assert "--folder: is not a folder" in done.err


def test_a_picture_comes_with_detail() -> None:
    asked = {"what": "draw", "fabric": "nvl72"}
    brief = answer("fabric", asked)
    assert brief.structured_content["left_out"] == {"svg": "all of it"}
    assert 'Left out: svg. Send "detail": true' in brief.content[0].text
    assert answered("fabric", asked)["svg"].startswith("<svg")


def test_a_long_text_is_cut_at_a_line_and_says_so() -> None:
    asked = {"what": "nccl_tuner", "fabric": "dgx-h100", "ranks": [8, 16, 32, 64, 128, 256]}
    for name, arguments in (("report", asked), ("guide", {"topic": "questions"})):
        whole = answer(name, {**arguments, "detail": True}).content[0].text
        brief = answer(name, arguments).content[0].text
        kept, _, note = brief.rpartition("\n\n")
        assert len(brief.encode()) <= 8192 < len(whole.encode())
        assert whole.startswith(f"{kept}\n")
        assert '"detail": true' in note
    assert "What will NCCL run?" in note
    section = answer("guide", {"topic": "questions", "section": "what will nccl"}).content[0].text
    assert section.startswith("## What will NCCL run?\n")
    assert section in whole


@pytest.mark.parametrize("detail", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_many_sizes_are_answered_within_bounds(detail: bool) -> None:
    sizes = [f"{size}KB" for size in range(1, 401 if detail else 61)]
    asked = {"fabric": "star512", "primitive": "ar", "ranks": 8, "sizes": sizes}
    found = answer("price", {**asked, "detail": detail})
    shown = found.structured_content["sizes"]
    assert bytes_of(found.structured_content) <= (1_000_000 if detail else 8192)
    text = found.content[0].text
    if detail:
        assert "fewer sizes" in text
    else:
        assert f"Shown: {len(shown)} of 60 sizes" in text
        # of a grid its ends are shown
        assert (shown[0]["bytes"], shown[-1]["bytes"]) == (1000, 60_000)


def test_a_call_asks_for_no_more_answers_than_it_can_hold() -> None:
    found = answer(
        "price",
        {"fabric": "star512", "primitive": "ar", "sizes": [f"{size}KB" for size in range(1, 1002)]},
    )
    assert found.is_error
    assert found.content[0].text.startswith(
        "error: sizes: more than 1000 values in one call, got 1001\n"
    )
