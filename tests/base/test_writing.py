"""Files that are written whole or not at all: killed writers, full disks, readers in between,
links, several at once."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from colltool.base import whole_files
from colltool.base.errors import ColltoolError
from colltool.base.files import same_file
from colltool.base.whole_files import write_file, write_files

OLD = b"old and whole\n"
LIMITED = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
from colltool.base.errors import ColltoolError
from colltool.base.whole_files import write_files
try:
    write_files({Path(name): content for name, content in %r.items()})
except ColltoolError as error:
    print(error)
    sys.exit(2)
"""
ENDLESS = """
import sys
from pathlib import Path
from colltool.base.whole_files import write_file
print("up", flush=True)
k = 0
while True:
    k += 1
    write_file(Path(sys.argv[1]), bytes([65 + k % 26]) * 3_000_000)
"""


@pytest.fixture
def out(tmp_path: Path) -> Path:
    path = tmp_path / "out"
    path.write_bytes(OLD)
    return path


def child(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_new_file_and_an_old_one(tmp_path: Path, out: Path) -> None:
    write_file(out, b"new")
    write_file(tmp_path / "another", b"x" * 10)
    assert (out.read_bytes(), (tmp_path / "another").read_bytes()) == (b"new", b"x" * 10)
    assert sorted(os.listdir(tmp_path)) == ["another", "out"]


def test_a_full_disk_leaves_the_old_file_whole(tmp_path: Path, out: Path) -> None:
    done = child(LIMITED % {str(out): b"x" * 5000})
    assert done.returncode == 2, done.stderr
    assert done.stdout.startswith(f"{out}: cannot write: File too large")
    assert out.read_bytes() == OLD
    assert os.listdir(tmp_path) == ["out"]


def test_of_several_files_one_that_does_not_fit_keeps_all(tmp_path: Path, out: Path) -> None:
    done = child(
        LIMITED
        % {
            str(out): b"fits",
            str(tmp_path / "new"): b"fits",
            str(tmp_path / "large"): b"x" * 5000,
        }
    )
    assert done.returncode == 2
    assert out.read_bytes() == OLD
    assert os.listdir(tmp_path) == ["out"]


def test_a_killed_writer_never_leaves_a_torn_file(tmp_path: Path, out: Path) -> None:
    for pause in (0.001, 0.005, 0.013, 0.02, 0.031):
        with subprocess.Popen(
            [sys.executable, "-c", ENDLESS, str(out)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"up\n"
            time.sleep(pause)
            writer.send_signal(signal.SIGKILL)
        content = out.read_bytes()
        assert content == OLD or (len(content) == 3_000_000 and len(set(content)) == 1)


def test_a_reader_sees_whole_files_only(out: Path) -> None:
    seen = set()
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(out)], stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        end = time.monotonic() + 20
        while len(seen) < 6 and time.monotonic() < end:
            content = out.read_bytes()
            assert content == OLD or (len(content) == 3_000_000 and len(set(content)) == 1)
            seen.add(content[:1])
        writer.kill()
    assert len(seen) >= 3, "the writer hardly wrote"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_leaves_nothing_beside(
    tmp_path: Path, out: Path, number: int
) -> None:
    code = (
        # a background job ignores it
        "import sys, os, signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import colltool.base.whole_files as f; __file__ = 'bin/colltool'\nimport colltool.commands.app\n"
        f"f.os.replace = lambda *_: os.kill(os.getpid(), {int(number)})\n"
        f"f.write_file(f.Path({str(out)!r}), b'new')\nprint('went on')"
    )
    done = child(code)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "")
    assert out.read_bytes() == OLD
    assert os.listdir(tmp_path) == ["out"]


def test_one_that_cannot_be_moved_puts_the_others_back(
    tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, moved = os.replace, []

    def replace(source: str, target: str) -> None:
        if target.endswith("third"):
            raise OSError(5, "Input/output error")
        moved.append(target)
        real(source, target)

    monkeypatch.setattr(whole_files.os, "replace", replace)
    with pytest.raises(ColltoolError, match="third: cannot write: Input/output error"):
        write_files({out: b"new", tmp_path / "second": b"2", tmp_path / "third": b"3"})
    assert str(out) in moved
    assert out.read_bytes() == OLD
    assert os.listdir(tmp_path) == ["out"]


def test_a_file_system_without_hard_links_loses_nothing(
    tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.replace

    def no_link(*_: str) -> None:
        raise OSError(1, "Operation not permitted")

    def replace(source: str, target: str) -> None:
        if target.endswith("second"):
            raise OSError(5, "Input/output error")
        real(source, target)

    monkeypatch.setattr(whole_files.os, "link", no_link)
    monkeypatch.setattr(whole_files.os, "replace", replace)
    with pytest.raises(ColltoolError):
        write_files({out: b"new", tmp_path / "second": b"2"})
    assert out.read_bytes() == OLD
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o640, 0o755])
def test_permissions_stay(out: Path, mode: int) -> None:
    out.chmod(mode)
    write_file(out, b"new")
    assert stat.S_IMODE(out.stat().st_mode) == mode


def test_a_new_file_has_the_permissions_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "new", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path: Path, out: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    chain, link, fresh = folder / "chain", folder / "link", folder / "fresh"
    chain.symlink_to("link")
    link.symlink_to("../out")
    fresh.symlink_to("../made")
    write_file(chain, b"through")
    write_file(fresh, b"new")
    assert (out.read_bytes(), (tmp_path / "made").read_bytes()) == (b"through", b"new")
    assert all(one.is_symlink() for one in (chain, link, fresh))


@pytest.mark.parametrize("target", ["loop", "missing/folder/file"])
def test_a_link_that_leads_nowhere_changes_nothing(tmp_path: Path, target: str) -> None:
    (tmp_path / "loop").symlink_to(target)
    with pytest.raises(ColltoolError, match="cannot write"):
        write_file(tmp_path / "loop", b"x")
    assert os.listdir(tmp_path) == ["loop"]
    assert os.readlink(tmp_path / "loop") == target


def test_what_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing" / "file", Path("")):
        with pytest.raises(ColltoolError, match=r"cannot write|not the name of a file"):
            write_file(path, b"x")
    assert os.listdir(tmp_path) == []


def test_devices_and_pipes_are_written_as_they_stand(tmp_path: Path) -> None:
    write_file(Path("/dev/null"), b"x")
    assert not Path("/dev/null").is_file()
    reader, writer = os.pipe()
    write_file(Path(f"/dev/fd/{writer}"), b"through")
    os.close(writer)
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    if Path("/dev/full").exists():
        with pytest.raises(ColltoolError, match="No space left"):
            write_file(Path("/dev/full"), b"x")


def test_same_file_by_any_name(tmp_path: Path, out: Path) -> None:
    (tmp_path / "link").symlink_to(out)
    os.link(out, tmp_path / "hard")
    assert same_file(out, tmp_path / "link")
    assert same_file(tmp_path / "hard", tmp_path / "." / "out")
    assert not same_file(out, tmp_path / "other")
