"""Data as the YAML text of a file that loads again: :func:`fabric_text`."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import yaml

from colltool.base.errors import ColltoolError
from colltool.base.files import BOUNDS

# Characters up to which a mapping or list is written on one line.
_LONGEST_FLOW = 110
# Bytes to keep free for the line that says how many comments are left out.
_CUT_LINE = 100


def fabric_text(
    data: dict[str, Any], comments: Sequence[str] = (), *, compact: bool = False
) -> str:
    """Return a fabric file under as many comment lines as the reader's size limit allows.

    Args:
        data: what the file says, in the order of its keys.
        comments: lines without their ``#``.
        compact: whether short mappings and lists stand on one line.

    Raises:
        ColltoolError: the data alone is beyond the limit.
    """
    limit = BOUNDS["definition"].limit
    body = compact_yaml(data) if compact else _dumped(data, _Dumper)
    room = limit - len(body.encode()) - _CUT_LINE
    if room < 0:
        raise ColltoolError(
            f"a fabric file of more than {limit // 2**20} MiB cannot be read back",
            fix="use fewer logs, protocols or texts",
        )
    lines = [f"# {line}".rstrip() + "\n" for line in comments]
    # how many lines fit, by the bytes up to the end of each
    sizes = [len(line.encode()) for line in lines]
    fitting = bisect_right(list(accumulate(sizes)), room)
    text = "".join(lines[:fitting])
    if fitting < len(lines):
        more = len(lines) - fitting
        text += f"# ({more} more lines are left out: a file holds at most {limit // 2**20} MiB)\n"
    return text + body


def compact_yaml(data: dict[str, Any]) -> str:
    """Return data as YAML with short mappings and lists on one line."""
    return _dumped(data, _CompactDumper)


def _dumped(data: dict[str, Any], dumper: type[yaml.SafeDumper]) -> str:
    """Data as YAML, keys in their order."""
    text: str = yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=True, width=120)
    return text


class OneLine(dict[str, Any]):
    """A mapping that is always written on one line."""


class _Dumper(yaml.SafeDumper):
    """Lists indented under their key; no anchors, which the reader refuses."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        # PyYAML asks for no indent of lists
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


_Dumper.add_representer(
    OneLine,
    lambda dumper, line: dumper.represent_mapping("tag:yaml.org,2002:map", line, flow_style=True),
)


# Text such as 1e9 or 0o17 is quoted: our reader (YAML 1.2) takes it for a number, PyYAML (1.1) does not.
# The list is of the characters that such a text may begin with.
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+.0-9][-+.0-9eExXoa-fA-F]*\Z"),
    list("-+.0123456789"),
)


class _CompactDumper(_Dumper):
    """Writes short mappings and lists of plain values on one line, as people do."""

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> Any:
        # texts of a source stand on lines of their own
        is_short = len(str(mapping)) <= _LONGEST_FLOW and "source" not in mapping
        return super().represent_mapping(tag, mapping, flow_style=flow_style or is_short)

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> Any:  # noqa: ARG002
        is_plain = not any(isinstance(item, dict) for item in sequence)
        is_short = len(str(sequence)) <= _LONGEST_FLOW
        return super().represent_sequence(tag, sequence, flow_style=is_plain and is_short)
