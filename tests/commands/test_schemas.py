"""``--schema`` prints what an editor needs and asks for nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from swept import swept


@pytest.mark.alike(2)
@pytest.mark.parametrize(
    ("args", "identity"),
    [
        (("ladder", "--schema"), "urn:colltool:ladder:1"),
        (("contention", "--schema"), "urn:colltool:layout:1"),
        (("contention", "-f", "no-such-fabric", "--schema"), "urn:colltool:layout:1"),
        (("export", "algorithm", "--schema"), "urn:colltool:algorithm:1"),
        (("fabric", "schema"), "urn:colltool:fabric:1"),
        (("job", "schema"), "urn:colltool:job:1"),
    ],
)
def test_every_definition_prints_its_schema(args: tuple[str, ...], identity: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "colltool", *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    schema = json.loads(done.stdout)
    assert schema["$id"] == identity
    Draft202012Validator.check_schema(schema)
    assert not done.stderr


@swept(
    ("args", "kind", "read"),
    [
        (("fabric", "init", "--from", "dgx-h100"), "fabric", yaml.safe_load),
        (("job", "init", "llama3-8b"), "job", yaml.safe_load),
        (("library", "init"), "library", tomllib.loads),
    ],
)
def test_a_file_to_start_from_names_the_schema_that_it_keeps(
    args: tuple[str, ...], kind: str, read: Callable[[str], object], run: Any
) -> None:
    first, *rest = (text := run(*args).out).splitlines()
    assert first in (
        f"# yaml-language-server: $schema={kind}.schema.json",
        f"#:schema ./{kind}.schema.json",
    )
    command = (
        next(line for line in rest if "in an editor" in line.lower())
        .split("colltool ")[-1]
        .split(",")[0]
        .split()
    )
    assert command == ["schema", kind, "-o", f"{kind}.schema.json"]
    Draft202012Validator(json.loads(run(*command[:2]).out)).validate(read(text))
