"""ttlctl restore: archived documents come back with all that they had, and do not expire at once."""
import json
import os
import socket
import stat

import pytest

from ctlhelp import FAILED, NO_MOUNT, USAGE, ttlctl
from ttlhelp import date, names, opened, reason

S = 1000
HOUR = 3600 * S


@pytest.fixture
def archive(tmp_path):
    return tmp_path / "archive"


@pytest.fixture
def kept(make_mount, archive):
    mount = make_mount(opts=f"test-clock,monitor=off,archive={archive}")
    mount.set(".", "ttl.on-expire", "archive")
    mount.set(".", "ttl.max", "1h")
    return mount


def expire(mount):
    mount.clock_advance(HOUR + S)
    assert mount.run_pass()["errors"] == 0


def archived(archive, name):
    """The archived file of this name."""
    found = [os.path.join(folder, file) for folder, folders, files in os.walk(archive) for file in files + folders
             if file == name and "2" in os.path.basename(folder)[:1]]
    assert len(found) == 1, found
    return found[0]


def test_it_comes_back_with_all_that_it_had(kept, archive):
    os.makedirs(kept.p("a/b"))
    path = kept.write("a/b/doc", {"user": "ann"})
    kept.set("a/b/doc", "note", b"\x00binary")
    kept.set("a/b/doc", "doc.colour", '"red"')
    kept.set("a/b/doc", "ttl.seconds", "20m")
    kept.set("a/b/doc", "ttl.expireAt", "2020-01-01T00:00:00Z")  # it goes at once
    os.makedirs(kept.p("c"))
    kept.write("c/doc2", "x")
    kept.set("c/doc2", "ttl.idle", "10m")
    os.chmod(kept.p("c/doc2"), 0o4640)
    if os.geteuid() == 0:
        os.chown(kept.p("c/doc2"), 1234, 2345)
        os.chmod(kept.p("c/doc2"), 0o4640)
    os.utime(kept.p("c/doc2"), ns=(1_500_000_000_000_000_001, 1_400_000_000_000_000_002))
    before = os.lstat(kept.p("c/doc2"))
    expire(kept)
    os.rmdir(kept.p("c"))  # what is missing is made
    one, two = archived(archive, "doc"), archived(archive, "doc2")
    answer = ttlctl("restore", one, two)
    assert answer.lines == [str(path), str(kept.p("c/doc2"))]
    assert json.loads(kept.read("a/b/doc")) == {"user": "ann"}
    assert kept.lst("a/b/doc") == ["user.doc.colour", "user.note", "user.ttl.seconds"]
    assert os.getxattr(path, "user.note") == b"\x00binary" and reason(kept, "a/b/doc") == "seconds"
    after = os.lstat(kept.p("c/doc2"))
    for figure in ("st_mode", "st_uid", "st_gid", "st_size", "st_atime_ns", "st_mtime_ns"):
        assert getattr(after, figure) == getattr(before, figure), figure
    assert (kept.get("c/doc2", "ttl.idle"), reason(kept, "c/doc2")) == ("10m", "idle")
    assert os.path.exists(one)
    kept.run_pass()
    assert names(kept, "a/b") == ["doc"]


def test_large_and_sparse(kept, archive):
    dense = os.urandom(700_000)
    kept.write("dense", dense)
    with open(kept.p("sparse"), "wb") as file:
        file.seek(32 * 1024 * 1024)
        file.write(b"in the middle")
        file.truncate(64 * 1024 * 1024)
    kept.write("empty", b"")
    expire(kept)
    ttlctl("restore", *(archived(archive, name) for name in ("dense", "sparse", "empty")))
    assert kept.read("dense") == dense and kept.read("empty") == b""
    state = os.stat(kept.p("sparse"))
    assert state.st_size == 64 * 1024 * 1024 and state.st_blocks * 512 < 1024 * 1024
    with open(kept.p("sparse"), "rb") as file:
        file.seek(32 * 1024 * 1024 - 5)
        assert file.read(25) == b"\0" * 5 + b"in the middle" + b"\0" * 7


def test_links_pipes_and_sockets(kept, archive):
    os.symlink("points nowhere", kept.p("link"))
    os.mkfifo(kept.p("pipe"), 0o620)
    with socket.socket(socket.AF_UNIX) as server, opened(kept.path, os.O_RDONLY | os.O_DIRECTORY) as fd:
        server.bind(f"/proc/self/fd/{fd}/socket")
    os.chmod(kept.p("pipe"), 0o620)
    expire(kept)
    assert names(kept) == []
    ttlctl("restore", *(archived(archive, name) for name in ("link", "pipe", "socket")), cwd=archive.parent)
    assert os.readlink(kept.p("link")) == "points nowhere"
    assert os.lstat(kept.p("pipe")).st_mode == stat.S_IFIFO | 0o620
    assert stat.S_ISSOCK(os.lstat(kept.p("socket")).st_mode)


def test_odd_names(kept, archive):
    odd = [b"line\nbreak", b"\xff not UTF-8", b"n" * 255, b"-rf", b"." + b"m" * 254]
    for name in odd:
        os.mkdir(kept.p(name))
        kept.write(os.path.join(name, name), name)
    expire(kept)
    files = [os.path.join(folder, file) for folder, _, files in os.walk(os.fsencode(archive)) for file in files]
    ttlctl("restore", "--remove", "--", *files)
    for name in odd:
        assert kept.read(os.path.join(name, name)) == name
    assert [files for _, _, files in os.walk(archive) if files] == []


def test_what_its_own_content_would_expire_is_held(kept, archive):
    kept.set(".", "ttl.index.at", "0")
    kept.write("doc", {"at": date(0)})
    kept.run_pass()
    one = archived(archive, "doc")
    answer = ttlctl("restore", one)
    assert "held" in answer.out and (kept.get("doc", "ttl.hold"), reason(kept, "doc")) == ("yes", "hold")
    kept.run_pass()
    assert json.loads(kept.read("doc"))["at"] == {"$date": {"$numberLong": "0"}}
    os.unlink(kept.p("doc"))
    assert ttlctl("restore", "--json", one).json == {"from": one, "to": str(kept.p("doc")), "hold": True}
    # The rule that expired it is not the only one under which it is due.
    kept.rm(".", "ttl.index.at")
    kept.write("late", {"at": date(0)})
    kept.clock_advance(HOUR + S)
    kept.set("doc", "ttl.hold", "no")
    kept.run_pass()
    kept.set(".", "ttl.index.at", "0")
    ttlctl("restore", archived(archive, "late"))
    assert (kept.get("late", "ttl.hold"), reason(kept, "late")) == ("yes", "hold")


def test_where_to(kept, archive, make_mount, tmp_path):
    kept.write("doc", "x")
    expire(kept)
    one = archived(archive, "doc")
    kept.write("doc", "another")
    answer = ttlctl("restore", one, status=FAILED)
    assert "exists already" in answer.err and kept.read("doc") == b"another"
    ttlctl("restore", "--force", "-q", one)
    assert kept.read("doc") == b"x"
    os.mkdir(kept.p("here"))
    assert ttlctl("restore", "--to", "here", one, cwd=kept.path).lines == ["here/doc"]
    assert kept.read("here/doc") == b"x"
    other = make_mount()
    ttlctl("restore", "--mount", other.path, "--remove", one)
    assert other.read("doc") == b"x" and not os.path.exists(one)
    assert "such file" in ttlctl("restore", one, status=FAILED).err
    # Not archived, not a mount, nothing said.
    (tmp_path / "plain").write_text("x")
    assert "no archived document" in ttlctl("restore", tmp_path / "plain", status=FAILED).err
    kept.write("again", "x")
    expire(kept)
    ttlctl("restore", "--to", tmp_path, archived(archive, "again"), status=NO_MOUNT)
    ttlctl("restore", status=USAGE)
    ttlctl("restore", "--to", "x", "--mount", "y", "z", status=USAGE)
    kept.stop()
    assert "--mount" in ttlctl("restore", archived(archive, "again"), status=NO_MOUNT).err
    assert names(other) == ["doc"]


def test_nothing_half_done_is_left(make_mount, archive):
    """A mount that is full, and one that refuses the document."""
    mount = make_mount(opts=f"test-clock,monitor=off,size=1m,archive={archive}")
    mount.set(".", "ttl.on-expire", "archive")
    mount.set(".", "ttl.max", "1h")
    mount.write("large", os.urandom(600_000))
    expire(mount)
    mount.write("ballast", os.urandom(600_000))
    assert "space" in ttlctl("restore", archived(archive, "large"), status=FAILED).err
    assert names(mount) == ["ballast"]
    os.unlink(mount.p("ballast"))
    ttlctl("restore", archived(archive, "large"))
    assert names(mount) == ["large"]
