"""A fabric as YAML text that loads again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Lists indented under their key; no anchors, which the reader refuses."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


# Text that only the reader takes for a number, such as 1e9 or 0o17, is quoted.
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+.0-9][-+.0-9eExXoa-fA-F]*\Z"), list("-+.0123456789"))


def fabric_text(data: dict[str, Any], comments: Sequence[str] = ()) -> str:
    """The text of a fabric file from plain data, under a head of comment lines."""
    head = "".join(f"# {line}".rstrip() + "\n" for line in comments)
    return head + yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
