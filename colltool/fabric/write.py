"""A fabric as YAML text that loads again."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import yaml

from colltool.errors import ColltoolError
from colltool.inputs import BOUNDS

_CUT_LINE = 100  # bytes of the line that says what is left out


class _Dumper(yaml.SafeDumper):
    """Lists indented under their key; no anchors, which the reader refuses."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


# Text that only the reader takes for a number, such as 1e9 or 0o17, is quoted.
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+.0-9][-+.0-9eExXoa-fA-F]*\Z"), list("-+.0123456789"))


def fabric_text(data: dict[str, Any], comments: Sequence[str] = ()) -> str:
    """The text of a fabric file from plain data, under a head of comment lines: as many as the reader's limit leaves room for.

    Raises:
        ColltoolError: the data alone is more than the reader takes.
    """
    limit = BOUNDS["definition"].limit
    body = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    room = limit - len(body.encode()) - _CUT_LINE
    if room < 0:
        fix = "fewer logs, protocols or texts"
        raise ColltoolError(f"a fabric file of more than {limit // 2**20} MiB is one that nothing reads", fix=fix)
    lines = [f"# {line}".rstrip() + "\n" for line in comments]
    ends = list(accumulate(len(line.encode()) for line in lines))
    kept = bisect_right(ends, room)
    cut = (
        [f"# ({len(lines) - kept} more lines are left out: a file holds at most {limit // 2**20} MiB)\n"]
        if kept < len(lines)
        else []
    )
    return "".join([*lines[:kept], *cut]) + body
