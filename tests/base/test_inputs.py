"""One door for every input: files and pipes within their bounds, nothing that never ends."""

from __future__ import annotations

import gzip
import os
import socket
import threading
from pathlib import Path

import pytest
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.base.files import BOUNDS, Kind, not_utf8, read_bytes, read_text

KINDS = list(BOUNDS)


def refusal(path: str | bytes | Path, kind: Kind = "definition", name: str = "") -> ColltoolError:
    with pytest.raises(ColltoolError) as caught:
        read_text(path, kind, name)
    assert caught.value.fix  # a cure in every message
    return caught.value


def piped(path: Path, content: bytes) -> None:
    """Feeds a named pipe; a reader that has enough closes it."""
    os.mkfifo(path)

    def feed() -> None:
        with open(path, "wb", buffering=0) as stream:
            try:
                stream.write(content)
            except BrokenPipeError:
                return

    threading.Thread(target=feed, daemon=True).start()


def test_text_without_its_mark(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfa: \xc3\xa9\r\n")
    assert read_text(tmp_path / "a", "definition") == "a: é\r\n"
    assert read_bytes(os.fsencode(tmp_path / "a"), "log")[:3] == b"\xef\xbb\xbf"


@pytest.mark.parametrize("kind", KINDS)
def test_a_pipe_does_as_well_as_a_file(kind: Kind, tmp_path: Path) -> None:
    piped(tmp_path / "pipe", b"a: 1\n")
    assert read_text(tmp_path / "pipe", kind) == "a: 1\n"


@swept("kind", KINDS)
def test_a_large_file_is_refused_before_it_is_read(kind: Kind, tmp_path: Path) -> None:
    file = tmp_path / "big"
    with file.open("wb") as stream:
        # sparse: nothing is written, and nothing may be read
        stream.truncate(BOUNDS[kind].limit + 1)
    file.chmod(0o200)
    assert refusal(file, kind).what.startswith(f"is larger than {BOUNDS[kind].limit // 2**20} MiB")


def test_a_file_at_its_limit_is_read(tmp_path: Path) -> None:
    (tmp_path / "full").write_bytes(b"#" * BOUNDS["definition"].limit)
    assert len(read_text(tmp_path / "full", "definition")) == BOUNDS["definition"].limit


def test_a_pipe_that_never_ends_is_refused_at_the_limit(tmp_path: Path) -> None:
    piped(tmp_path / "pipe", b"\0" * (BOUNDS["definition"].limit + 2**17))
    assert "is larger than 1 MiB" in refusal(tmp_path / "pipe").what


@swept("device", ["/dev/zero", "/dev/random", "/dev/null"])
def test_a_device_is_no_input(device: str) -> None:
    error = refusal(device, "document")
    assert (
        str(error)
        == f"{device}: is a device, expected a JSON file\n  give a regular file or a pipe"
    )


def test_what_else_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(tmp_path).what == "is a directory, expected a YAML file"
    assert refusal(tmp_path / "none", name="none").where == "none"
    assert refusal(tmp_path / "none").what == "cannot be read: No such file or directory"
    assert refusal("a\0b").what == "is not the name of a file"
    assert refusal("\ud800").what == "is not the name of a file"
    monkeypatch.chdir(tmp_path)  # a socket's name is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        assert refusal("s").what == "is a socket, expected a YAML file"


def test_a_name_that_is_no_utf_8(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.yaml"
    Path(os.fsdecode(path)).write_bytes(b"a: 1\nb: caf\xe9\n")
    for name in (path, os.fsdecode(path), Path(os.fsdecode(path))):
        error = refusal(name)
        assert error.where.endswith(r"/\udcff.yaml:2:7")
        assert error.what == "is not UTF-8 text, but looks like ISO-8859-1"
        str(error).encode()


TEXT = "name: caf\u00e9 \u201cquoted\u201d\n" * 40


@swept(
    ("content", "says", "cure"),
    [
        (TEXT.encode("utf-16"), "looks like UTF-16", "iconv -f UTF-16 -t UTF-8"),
        (TEXT.encode("utf-16-le"), "looks like UTF-16LE", "iconv -f UTF-16LE -t UTF-8"),
        (TEXT.encode("utf-16-be"), "looks like UTF-16BE", "iconv -f UTF-16BE -t UTF-8"),
        (TEXT.encode("utf-32"), "looks like UTF-32", "iconv -f UTF-32 -t UTF-8"),
        (TEXT.encode("cp1252"), "looks like WINDOWS-1252", "iconv -f WINDOWS-1252 -t UTF-8"),
        (
            "plain letters\n".encode("utf-16-le"),
            "looks like UTF-16LE",
            "iconv -f UTF-16LE -t UTF-8",
        ),
        ("caf\u00e9\n".encode("latin-1"), "looks like ISO-8859-1", "iconv -f ISO-8859-1 -t UTF-8"),
        (gzip.compress(TEXT.encode(), mtime=0), "is gzipped, not text", "gunzip -c"),
        (bytes(range(256)) * 9, "is binary, not text", "give the text itself"),
    ],
)
def test_another_encoding_is_named_with_its_conversion(
    content: bytes, says: str, cure: str, tmp_path: Path
) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(content)
    error = not_utf8(content, "f", "f")
    assert says in error.what
    assert cure in error.fix
    assert says in refusal(path).what
