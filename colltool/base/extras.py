"""The error where a package of an extra is missing: it says what to type, from wherever this
colltool was installed.

colltool is in no package index that we know of, so ``pip install 'colltool[plot]'`` would find
nothing: a checkout is named by its path, an installation by what pip wrote down about it
(``direct_url.json``, PEP 610).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from colltool.base.errors import ColltoolError


def needs_extra(extra: str, what: str, package: str, *, argument: str = "") -> ColltoolError:
    """The error to raise where an import failed:
    ``needs_extra("plot", "a picture", "matplotlib", argument="output")``."""
    return ColltoolError(
        f"{what} needs {package}, which is missing", argument=argument, fix=install_command(extra)
    )


def install_command(extra: str) -> str:
    """The line that adds an extra to this installation:
    ``.venv/bin/python -m pip install -e '.[plot]'``."""
    import shlex
    import sys

    python = shlex.quote(_from_here(sys.executable or "python3"))
    checkout = Path(__file__).parents[2]
    if (checkout / "pyproject.toml").is_file():
        return f"{python} -m pip install -e '{_from_here(str(checkout))}[{extra}]'"
    return f"{python} -m pip install '{_requirement(extra, _direct_url())}'"


def _from_here(path: str) -> str:
    """A path as it is typed in the current directory: relative where it lies below."""
    import os

    try:
        return str(Path(path).relative_to(os.getcwd()))
    except (ValueError, OSError):  # elsewhere, or the directory was removed
        return path


def _direct_url() -> dict[str, Any]:
    """What pip wrote down about where this installation came from; nothing for one from an
    index."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        found = json.loads(distribution("colltool").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _requirement(extra: str, direct_url: dict[str, Any]) -> str:
    """``/src/colltool[plot]`` of a folder, ``colltool[plot] @ git+https://...`` of an address,
    ``colltool[plot]`` of an index."""
    from urllib.parse import unquote, urlsplit

    url = str(direct_url.get("url", ""))
    if url.startswith("file:") and "vcs_info" not in direct_url:
        return f"{_from_here(unquote(urlsplit(url).path))}[{extra}]"
    if not url:
        return f"colltool[{extra}]"
    vcs = direct_url.get("vcs_info")
    if isinstance(vcs, dict):
        url = f"{vcs.get('vcs', 'git')}+{url}@{vcs.get('commit_id', 'HEAD')}"
    return f"colltool[{extra}] @ {url}"
