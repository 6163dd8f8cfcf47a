"""``--schema`` prints what an editor needs and asks for nothing else."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from jsonschema import Draft202012Validator


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
    done = subprocess.run([sys.executable, "-m", "colltool", *args], capture_output=True, text=True, timeout=60, check=True)
    schema = json.loads(done.stdout)
    assert schema["$id"] == identity
    Draft202012Validator.check_schema(schema)
    assert not done.stderr
