"""``colltool job init`` and ``job show --format yaml``: files to go on with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml


def test_the_command_writes_and_does_not_overwrite(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("job", "init", "llama3-8b", "-f", "dgx-h100", "-n", "16", "-o", "mine.yaml")
    assert (done.code, done.err) == (0, "")
    assert run("job", "check", "mine.yaml").code == 0
    again = run("job", "init", "llama3-8b", "-o", "mine.yaml")
    assert again.code == 2
    assert "is there already" in again.err
    assert "add --fabric dgx-h100" in run("job", "init", "llama3-8b", "-n", "16").err
    shown = run("job", "show", "llama3-70b", "--set", "layout.tp=4", "--format", "yaml")
    assert yaml.safe_load(shown.out)["layout"]["tp"] == 4
    assert (
        "a YAML file has no columns"
        in run("job", "show", "llama3-70b", "--format", "yaml", "--columns", "a").err
    )
