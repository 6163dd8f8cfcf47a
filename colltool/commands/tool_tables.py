"""The tables of ``tools.toml``: the tools of the MCP server, their arguments, and words for them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

TABLES: dict[str, Any] = tomllib.loads(
    (Path(__file__).parent / "tools.toml").read_text(encoding="utf-8")
)
