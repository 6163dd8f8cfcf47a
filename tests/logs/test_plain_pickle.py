"""Pickles: those of plain data in every protocol are read as their JSON is, hostile ones are refused
by name before anything runs."""

from __future__ import annotations

import copyreg
import json
import os
import pickle
import struct
import sys
import time
from pathlib import Path
from typing import Any

import effort
import pytest

from colltool.base.errors import ColltoolError
from colltool.logs.log_file import open_log
from colltool.logs.read import read_logs
from tests.logs.test_hostile_records import FLIGHT, read_or_refused

MARKER = "marker-that-must-not-appear"


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def written(content: bytes) -> Path:
        path = tmp_path / "nccl_trace_rank_0"
        path.write_bytes(content)
        return path

    return written


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_flight_recorder_is_the_same_in_both_forms(protocol: int, write: Any) -> None:
    dump = json.loads(json.dumps(FLIGHT))
    for entry in dump["entries"]:
        # as PyTorch has it
        entry["process_group"] = tuple(entry["process_group"])
    path = write(pickle.dumps(dump, protocol))
    (of_pickle,) = read_logs([path]).series
    path.write_text(json.dumps(FLIGHT))
    assert read_logs([path]).series == (of_pickle,)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_data_comes_out_as_json_has_it(protocol: int, write: Any) -> None:
    shared = [1, 2]
    data = {
        "text": "a\u00e9\U0001f600" * 200,
        "numbers": [0, 255, 65536, -1, 2**40, -(2**70), 1.5],
        "others": [None, True, False, (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
        "nested": {"a": {"b": [[]]}},
        "twice": [shared, shared],
        1: "a number as a key",
    }
    path = write(pickle.dumps(data, protocol))
    assert json.loads(open_log(str(path)).content) == json.loads(json.dumps(data))
    if protocol > 2:  # before, bytes are made by a function
        path = write(pickle.dumps([b"bytes", bytearray(b"more")][: protocol - 2], protocol))
        if protocol != 4:  # a bytearray is, too, before 5
            assert json.loads(open_log(str(path)).content)[0] == "bytes"


class Runs:
    def __init__(self, call: Any, *arguments: Any) -> None:
        self.made = call, arguments

    def __reduce__(self) -> Any:
        return self.made


def _stack_global(module: str, name: str) -> bytes:
    return (
        b"\x8c"
        + bytes([len(module)])
        + module.encode()
        + b"\x8c"
        + bytes([len(name)])
        + name.encode()
        + b"\x93"
    )


HOSTILE = {
    "os.system by reduce": pickle.dumps({"entries": Runs(os.system, f"touch {MARKER}")}, 2),
    "os.system by stack global": pickle.dumps({"pg_config": Runs(os.system, f"touch {MARKER}")}, 4),
    "exec": pickle.dumps(Runs(exec, f"open('{MARKER}', 'w')"), 5),
    "eval in a list": pickle.dumps([{"a": [Runs(eval, "1+1")]}], 3),
    "a class without a call": pickle.dumps(os.path.join, 4),
    "builtins by name": b"\x80\x04" + _stack_global("builtins", "print") + b".",
    "inst": b"\x80\x02(S'id'\nios\nsystem\n.",
    "obj": b"\x80\x02(cos\nsystem\nS'id'\no.",
    "newobj": b"\x80\x02cos\nsystem\n)\x81.",
    "newobj_ex": b"\x80\x04" + _stack_global("os", "system") + b")}\x92.",
    "build": b"\x80\x02}}b.",
    "ext1": b"\x80\x02\x82\x01.",
    "ext2": b"\x80\x02\x83\x01\x01.",
    "ext4": b"\x80\x02\x84" + struct.pack("<i", 300) + b".",
    "persistent id": b"\x80\x02Psomewhere\n.",
    "persistent id in binary": b"\x80\x02X\x01\x00\x00\x00aQ.",
    "out-of-band buffer": b"\x80\x05\x97.",
    "read-only buffer": b"\x80\x05\x97\x98.",
    "an ordered dict": b"\x80\x02ccollections\nOrderedDict\n)R.",
    "torch's type tag": b"\x80\x02ctorch.jit._pickle\nbuild_intlist\n](K\x01etR.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_names_or_calls_code_is_refused(
    name: str, write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(HOSTILE[name])
    with pytest.raises(ColltoolError, match="only plain data is read") as refused:
        read_logs([path])
    assert "_dump_nccl_trace_json" in str(refused.value)
    assert not Path(MARKER).exists()


def test_the_name_of_the_code_is_said(write: Any) -> None:
    with pytest.raises(ColltoolError, match=r"names code \('(posix|nt|os) system'\) at byte \d+"):
        read_logs([write(HOSTILE["os.system by reduce"])])


def test_a_registered_number_is_no_way_in(write: Any) -> None:
    copyreg.add_extension("os", "system", 0x7F)
    try:
        # once loaded, pickle keeps it in a cache that asks nobody
        assert pickle.loads(b"\x80\x02\x82\x7f.") is os.system
        with pytest.raises(ColltoolError, match="registered number"):
            read_logs([write(b"\x80\x02\x82\x7f(S'id'\ntR.")])
    finally:
        copyreg.remove_extension("os", "system", 0x7F)


def _laughs(levels: int) -> bytes:
    """A list of ten of a list of ten of ..., a few bytes a level."""
    content = b"\x80\x02](K\x01e"
    for level in range(levels):
        content += (
            b"r" + struct.pack("<I", level) + b"0](" + (b"j" + struct.pack("<I", level)) * 10 + b"e"
        )
    return content + b"."


BOMBS = {
    "ten to the twelfth": _laughs(12),
    "a list that holds itself": b"\x80\x02]q\x00h\x00a.",
    "a memo of four thousand millions": b"\x80\x02]r" + struct.pack("<I", 2**32 - 1) + b".",
    "a text of 2^62 bytes": b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"abc.",
    "bytes of 2^31": b"\x80\x03B" + struct.pack("<I", 2**31) + b"abc.",
    "a frame of 2^60 bytes": b"\x80\x04\x95" + struct.pack("<Q", 2**60) + b"].",
    "a number of 200,000 digits": b"\x80\x02L" + b"9" * 200_000 + b"L\n.",
    "a number of a million bytes": b"\x80\x02\x8b"
    + struct.pack("<i", 10**6)
    + b"\x7f" * 10**6
    + b".",
    "deep lists": b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
    "no end": b"\x80\x02" + b"]0" * 1000,
    "below the bottom": b"\x80\x02a.",
    "a mark that is not there": b"\x80\x02]e.",
    "a memo that is not there": b"\x80\x02h\x07.",
    "a list as a key": b"\x80\x02}]]s.",
    "added to a number": b"\x80\x02K\x01K\x02a.",
    "an odd number of items": b"\x80\x02}(K\x01K\x02K\x03u.",
    "a mark as the value": b"\x80\x02(.",
    "nothing": b"\x80\x02.",
    "an unknown opcode": b"\x80\x02\xff.",
    "not a number": b"\x80\x02Fnan\n.",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_or_a_broken_pickle_ends_soon_in_words(name: str, write: Any) -> None:
    path = write(BOMBS[name])
    before = time.monotonic()
    with pytest.raises(ColltoolError) as refused:
        read_logs([path])
    assert refused.value.fix
    assert time.monotonic() - before < 20


def test_any_bytes_changed_is_read_or_refused(write: Any) -> None:
    content = pickle.dumps(FLIGHT, 2)
    for place in range(2, len(content), 3 if effort.thorough else 9):
        for other in (0, 40, 82, 99, 128, 255):
            read_or_refused(write(content[:place] + bytes([other]) + content[place + 1 :]))


def test_the_pickle_module_is_not_used() -> None:
    source = (Path(sys.modules["colltool.logs.plain_pickle"].__file__ or "")).read_text()
    assert "import pickle\n" not in source
    assert "__import__" not in source
    assert "getattr" not in source
