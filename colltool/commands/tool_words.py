"""The words of errors and answers as an assistant reads them: tools and arguments in place of
commands, functions and options.

``for_people`` texts are those of the command line and of Python; ``tools.toml`` has what is told by
whole phrases, chapters and commands, and patterns here do the rest.
"""

from __future__ import annotations

import re

from colltool.base.errors import OPTIONS
from colltool.commands.tool_tables import TABLES
from colltool.commands.tools import ALIASES, TOOLS

# ranks=[8], library="nccl"; not the key of a file: ib.alpha="1us"
_PYTHON_VALUE = re.compile(r"(?<![\w.\"])([a-z]+[a-z_ ]*)=(\[[^\]]*\]|\"[^\"]*\")")
# the first of "size": "1MB" "ranks": 8, as fixes write them
_ANOTHER_FOLLOWS = re.compile(r'("\w+": (?:"[^"]*"|[^\s",]+)) (?="\w+": )')
# --per-rack; -n 64, but not the -n of a word
_FLAG = re.compile(r"(?<![\w-])(--[a-z][a-z-]*|-[fnMaeb](?= [\w./]))")


def in_words_of_tools(text: str) -> str:
    """A sentence with tools and arguments in place of commands, functions and options."""
    for for_people, for_tools in TABLES["suggested"].items():
        text = text.replace(for_people, for_tools)
    text = _with_tools(text)
    text = _ANOTHER_FOLLOWS.sub(r"\1, ", text)
    text = _PYTHON_VALUE.sub(_as_sent, text)
    return _FLAG.sub(_argument_of, text)


def _with_tools(text: str) -> str:
    """``colltool sweep`` and ``sweep()`` as ``compare with "what": "sweep"``."""
    text = re.sub(r"colltool guide (\w+)", r'guide with "topic": "\1"', text)
    for typed, topic in TABLES["chapters"].items():
        chapter = f'guide with "topic": "{topic}"'
        text = text.replace(f"colltool {typed}", chapter)
    for typed, (tool, what) in TABLES["commands"].items():
        call = _call_text(tool, what)
        text = text.replace(f"colltool {typed}", call)
    for name in (*ALIASES, *TOOLS):
        call = name
        if name in ALIASES:
            call = _call_text(*ALIASES[name])
        text = _mentions_of(name).sub(call, text)
    return text


def _mentions_of(name: str) -> re.Pattern[str]:
    """A function or command as errors name it: ``colltool sweep``, ``colltool.sweep()``, ``sweep()``."""
    return re.compile(rf"\bcolltool[ .]{name}\b(\(\))?|\b{name}\(\)")


def _argument_of(flag: re.Match[str]) -> str:
    """``ranks`` for ``-n``; an option of no argument's gives its own name, ``per_rack`` for
    ``--per-rack``."""
    typed = flag[0]
    for argument, flags in OPTIONS.items():
        if typed in flags:
            return argument
    name = typed.lstrip("-")
    return name.replace("-", "_")


def _call_text(tool: str, what: str) -> str:
    """``compare with "what": "sweep"``."""
    return f'{tool} with "what": "{what}"'


def _as_sent(python_value: re.Match[str]) -> str:
    """``ranks=[8]`` as ``"ranks": [8]``; words before the name stay."""
    typed, value = python_value.groups()
    # a name of two words, as errors have it
    words = typed.replace("job overrides", "job_overrides").split(" ")
    *words_before, name = words
    json_value = value.replace("'", '"')
    pair = f'"{name}": {json_value}'
    return " ".join([*words_before, pair])
