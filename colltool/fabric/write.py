"""A fabric as YAML text that loads again."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import yaml

from colltool.base.errors import ColltoolError
from colltool.base.inputs import BOUNDS

_SHORT = 110  # characters of what stands on one line
_COLUMN = 36  # where comments begin
_CUT_LINE = 100  # bytes of the line that says what is left out


class _Dumper(yaml.SafeDumper):
    """Lists indented under their key; no anchors, which the reader refuses."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


# Text that only the reader takes for a number, such as 1e9 or 0o17, is quoted.
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+.0-9][-+.0-9eExXoa-fA-F]*\Z"), list("-+.0123456789"))


class _Drafter(_Dumper):
    """Short mappings and lists of plain values on one line, as people write them."""

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> Any:  # noqa: ARG002
        return super().represent_mapping(tag, mapping, flow_style=_is_short(mapping) and "source" not in mapping)

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> Any:  # noqa: ARG002
        plain = not any(isinstance(one, dict) for one in sequence)
        return super().represent_sequence(tag, sequence, flow_style=plain and _is_short(sequence))


def _is_short(value: Any) -> bool:
    return len(str(value)) <= _SHORT and not isinstance(value, str)


def commented_text(data: dict[str, Any], head: Sequence[str], comments: Mapping[str, str], more: Mapping[str, str]) -> str:
    """A fabric file with a comment at the first occurrence of each kind of key; without them beyond the reader's size limit.

    ``head``: comment lines on top. ``comments``: by key path, without list indices or with that of one item. ``more``: keys that
    are missing, with examples, as comments below.
    """
    body = yaml.dump(data, Dumper=_Drafter, sort_keys=False, allow_unicode=True, width=120)
    lines = body.splitlines()
    for number, said in _comments(yaml.compose(body), comments).items():
        lines[number] = _commented(lines[number], said)
    below = ["", "# More that a file may say:"] if more else []
    below += [line for key, example in more.items() for line in (f"#   {comments[key]}:", f"# {key}: {example}")]
    text = "\n".join([*(f"# {line}" for line in head), *lines, *below, ""])
    if len(text.encode()) > BOUNDS["definition"].limit:
        return fabric_text(data, head)
    return text


def _commented(line: str, said: str) -> str:
    if len(line) <= _COLUMN:
        return f"{line:<{_COLUMN}}  # {said}"
    indent = line[: len(line) - len(line.lstrip())]
    return f"{indent}# {said}\n{line}"


def _comments(root: Any, comments: Mapping[str, str]) -> dict[int, str]:
    """What to write on which line: the first key of each comment, the first comment of each line."""
    found: dict[int, str] = {}
    told: set[str] = set()
    for path, line in _keys(root, ()):
        plain = ".".join(str(step) for step in path if not isinstance(step, int))
        exact = ".".join(map(str, path))
        name = exact if exact in comments else plain
        if name in comments and name not in told and line not in found:
            found[line] = comments[name]
            told.add(name)
    return found


def _keys(node: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, key.value)
            if value.start_mark.line == value.end_mark.line or not isinstance(value, yaml.ScalarNode):
                yield inner, key.start_mark.line
            yield from _keys(value, inner)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _keys(value, (*path, index))


def fabric_text(data: dict[str, Any], comments: Sequence[str] = ()) -> str:
    """A fabric file under as many comment lines as the reader's size limit allows."""
    limit = BOUNDS["definition"].limit
    body = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    room = limit - len(body.encode()) - _CUT_LINE
    if room < 0:
        fix = "use fewer logs, protocols or texts"
        raise ColltoolError(f"a fabric file of more than {limit // 2**20} MiB cannot be read back", fix=fix)
    lines = [f"# {line}".rstrip() + "\n" for line in comments]
    ends = list(accumulate(len(line.encode()) for line in lines))
    kept = bisect_right(ends, room)
    left = len(lines) - kept
    cut = f"# ({left} more lines are left out: a file holds at most {limit // 2**20} MiB)\n" if left else ""
    return "".join(lines[:kept]) + cut + body
