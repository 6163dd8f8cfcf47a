"""Pyodide's npm package and the wheel of pydantic_core for it, fetched once and kept; a test that needs
them is skipped where a network has neither."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest


def fetched(config: pytest.Config) -> Path:
    """A folder with both."""
    if shutil.which("npm") is None:
        pytest.skip("there is no npm")
    kept = Path(config.cache.mkdir("pyodide"))  # type: ignore[union-attr]
    # workers of one run want it at the same time
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        package = kept / "package"
        if not (package / "pyodide.mjs").exists():
            _fetch_pyodide(kept / "new", package)
        if not any(package.glob(f"pydantic_core-{version('pydantic_core')}-*.whl")):
            _fetch_core(package)
    return package


def _fetch_pyodide(new: Path, package: Path) -> None:
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    _run(["npm", "pack", "pyodide", "--silent"], new, "npm has no Pyodide")
    with tarfile.open(next(new.glob("pyodide-*.tgz"))) as packed:
        packed.extractall(new, filter="data")
    (new / "package").rename(package)


def _fetch_core(package: Path) -> None:
    made_for = json.loads((package / "pyodide-lock.json").read_text())["info"]
    python = "".join(made_for["python"].split(".")[:2])
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    pip += ["--only-binary", ":all:", "--python-version", python, "--abi", f"cp{python}"]
    pip += ["--platform", f"pyemscripten_{made_for['abi_version']}_{made_for['arch']}"]
    core = f"pydantic_core=={version('pydantic_core')}"
    _run([*pip, core], package, "no wheel of pydantic_core for this Pyodide")


def _run(line: list[str], folder: Path, missing: str) -> None:
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=120)
    if done.returncode:
        pytest.skip(f"{missing}: {done.stderr.strip().splitlines()[-1:]}")
