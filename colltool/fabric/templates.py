"""Fabric files to start from, with comments: :func:`fabric_start`.

It begins with a template, tiers typed on a line (:mod:`colltool.fabric.tier_line`), or another fabric;
``_commented`` puts a comment at the first key of each kind. :func:`yaml_of` is any fabric as a file
without them. The comments are data: ``data/comments.toml``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from colltool.base.cache import packaged_toml
from colltool.base.errors import ColltoolError, argument_text
from colltool.base.files import BOUNDS
from colltool.definitions.overrides import Overrides
from colltool.fabric.load import FabricSource, fabric_data, load_fabric
from colltool.fabric.tier_line import tier_of_line
from colltool.fabric.yaml_writer import compact_yaml, fabric_text

# As the shipped dgx-h100, whose file has the sources.
TEMPLATE = "nvlink:star:8:450GB/s:0.5us,ib:clos:32/64:400Gbps:2us/8us:s=1"
_DATA = packaged_toml(Path(__file__).parent / "data" / "comments.toml")
# The comment of a key by its path with dots: tiers.name of every tier, tiers.0.name of the first alone.
COMMENTS: dict[str, str] = _DATA["comments"]
# Keys that a started file lacks, with an example of each; written as comments.
OPTIONAL_KEYS: dict[str, str] = _DATA["more"]
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
# The longest line with room for a comment behind it; comments begin two columns further.
_COMMENT_COLUMN = 36


def schema_line(kind: str) -> str:
    """Return the first comment of a file, by which editors find its schema: ``fabric.schema.json`` in
    the same folder."""
    return f"yaml-language-server: $schema={kind}.schema.json"


def start_lines(kind: str) -> tuple[str, ...]:
    """Return the comments on top of a file to start from, without their ``#``; ``kind``: ``fabric``,
    ``job`` ..., the name of its command and schema."""
    editors = f"in an editor: colltool schema {kind} -o {kind}.schema.json, beside the file"
    next_step = f"Put your own numbers in, then: colltool {kind} check FILE"
    return (schema_line(kind), next_step, f"All keys: colltool guide {kind}s; {editors}")


def fabric_start(
    source: FabricSource | None = None,
    tiers: str | None = None,
    overrides: Overrides = (),
    name: str = "",
    failed: Sequence[str] = (),
) -> str:
    """Return the text of a commented fabric file, from another fabric, tiers on one line, or a
    template.

    Args:
        source: the other fabric; ``tiers``: those of the line. At most one of the two.
        overrides: put on the fabric before it is written.
        name: of the new fabric, in which characters that no name may have become hyphens; default: the
            source's, or ``my-cluster``.
        failed: ranks and links that it is left without.

    Raises:
        ColltoolError: both ``source`` and ``tiers`` are given, or one of the arguments is refused.
    """
    if source is not None and tiers is not None:
        raise ColltoolError(
            "a file starts from a fabric or from tiers, not from both",
            argument="tiers",
            fix=f"leave out {argument_text('source')} or {argument_text('tiers')}",
        )
    if source is None:
        source = _new_fabric(tiers)
    if failed:
        from colltool.fabric.degraded import without_parts

        source = without_parts(fabric_data(source, overrides), failed)
        # they are in the source now
        overrides = ()
    data = {"schema": "colltool.fabric/2", **fabric_data(source, overrides)}
    if valid_name(name):
        data["name"] = valid_name(name)
    # only for its errors
    load_fabric(data)
    missing = {key: example for key, example in OPTIONAL_KEYS.items() if key not in data}
    return _commented(data, start_lines("fabric"), missing)


def _new_fabric(tiers: str | None) -> dict[str, Any]:
    """The data of a fabric of tiers on one line, or of the template."""
    tiers_data = [tier_of_line(text.strip()) for text in (tiers or TEMPLATE).split(",")]
    fabric: dict[str, Any] = {"name": "my-cluster", "tiers": tiers_data}
    if tiers is not None:
        # tiers alone have no library whose launch is known
        return fabric | {"launch_overhead": "5us"}
    # as the shipped dgx-h100
    tiers_data[-1]["sizing"] = {"rails": 8, "nics_per_rail": 1, "radix": 64}
    return fabric | {"device": "h100", "library": "nccl"}


def valid_name(text: str) -> str:
    """Return a text as the name of a fabric: letters, digits, ``-`` and ``_``, at most 64; every other run
    of characters is a hyphen. Empty if nothing is left."""
    return _NOT_IN_NAMES.sub("-", text).strip("-_")[:64]


def yaml_of(source: FabricSource, overrides: Overrides = ()) -> str:
    """Return a fabric with its overrides as the text of a file that loads to the same; the overrides are
    listed in a comment on top."""
    comments = []
    if overrides:
        pairs = load_fabric(source, overrides).overrides
        comments.append(f"with {', '.join(f'{key}={value}' for key, value in pairs)}")
    return fabric_text({"schema": "colltool.fabric/2", **fabric_data(source, overrides)}, comments)


def _commented(data: dict[str, Any], head: Sequence[str], missing: Mapping[str, str]) -> str:
    """A fabric file with a comment at the first key of each kind; without comments if it would be
    beyond the reader's size limit.

    ``head``: comment lines on top. ``missing``: keys that the file lacks, with examples, as comments
    at its end.
    """
    body = compact_yaml(data)
    lines = body.splitlines()
    explained_keys: set[str] = set()
    # a short mapping stands on one line, with room for the comment of its first key
    commented_lines: set[int] = set()
    for path, number in _keys(yaml.compose(body), ()):
        # with the numbers of items, else without
        key = ".".join(map(str, path))
        if key not in COMMENTS:
            key = ".".join(step for step in path if isinstance(step, str))
        if key in COMMENTS and key not in explained_keys and number not in commented_lines:
            explained_keys.add(key)
            commented_lines.add(number)
            lines[number] = _with_comment(lines[number], COMMENTS[key])
    above = [f"# {line}" for line in head]
    below = []
    if missing:
        below += ["", "# More that a file may say:"]
    for key, example in missing.items():
        below += [f"#   {COMMENTS[key]}:", f"# {key}: {example}"]
    text = "\n".join([*above, *lines, *below, ""])
    if len(text.encode()) > BOUNDS["definition"].limit:
        return fabric_text(data, head)
    return text


def _with_comment(line: str, comment: str) -> str:
    """A line with a comment behind it, or above it where it is long."""
    if len(line) <= _COMMENT_COLUMN:
        return f"{line:<{_COMMENT_COLUMN}}  # {comment}"
    indent = line[: len(line) - len(line.lstrip())]
    return f"{indent}# {comment}\n{line}"


def _keys(node: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """The path and the line (from 0) of each key below a node of YAML whose line has room for a comment, in
    the order of the file; ``path``: of the node."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, key.value)
            # a text over several lines has no room for a comment
            one_line = value.start_mark.line == value.end_mark.line
            if one_line or not isinstance(value, yaml.ScalarNode):
                yield inner, key.start_mark.line
            yield from _keys(value, inner)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _keys(value, (*path, index))
