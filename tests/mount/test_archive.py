"""user.ttl.on-expire=archive and the option archive=: what expires is kept first."""
import datetime
import errno
import json
import os
import socket
import stat
import subprocess

import pytest

from archivehelp import HOUR, RECORD, S, copies, expire, record, today
from conftest import BINARY, raises_errno, run
from ttlhelp import Watcher, date, link_descriptor, names, opened, ttl_metrics


@pytest.fixture
def archive(tmp_path):
    return tmp_path / "archive"


@pytest.fixture(params=["memory:", "dir"], ids=["memory", "store"])
def kept(request, make_mount, archive):
    """A mount whose root archives what is an hour old; the monitor acts when asked."""
    mount = make_mount(request.param, f"test-clock,monitor=off,archive={archive}")
    mount.set(".", "ttl.on-expire", "archive")
    mount.set(".", "ttl.max", "1h")
    return mount


# What is kept


def test_content_attributes_and_rules_are_kept(kept, archive):
    os.makedirs(kept.p("a/b"))
    path = kept.write("a/b/doc", {"user": "ann"})
    kept.set("a/b/doc", "note", "hello")
    kept.set("a/b/doc", "doc.colour", '"red"')
    kept.set("a/b/doc", "ttl.seconds", "50m")
    os.chmod(path, 0o640)
    if os.geteuid() == 0:
        os.chown(path, 1234, 2345)
    os.utime(path, ns=(1_500_000_000_000_000_001, 1_400_000_000_000_000_002))
    before = os.lstat(path)
    day = today(kept)
    result = expire(kept)
    assert (result["deletedDocuments"], result["errors"]) == (1, 0)
    assert names(kept, "a/b") == []
    copy = archive / "a" / "b" / day / "doc"
    assert copies(archive) == {"a/b/doc": os.fsencode(copy)}
    after = os.lstat(copy)
    for figure in ("st_mode", "st_uid", "st_gid", "st_size", "st_atime_ns", "st_mtime_ns"):
        assert getattr(after, figure) == getattr(before, figure), figure
    assert json.loads(copy.read_bytes()) == {"user": "ann"}
    kept_attributes = {name: os.getxattr(copy, name) for name in os.listxattr(copy) if name.startswith("user.")}
    note = json.loads(kept_attributes.pop(RECORD))
    assert kept_attributes == {"user.note": b"hello", "user.doc.colour": b'"red"', "user.ttl.seconds": b"50m"}
    assert (note["path"], note["name"], note["reason"]) == ("a/b", "doc", "seconds")
    assert ttl_metrics(kept)["archivedDocuments"] == 1


def test_large_and_sparse_files_keep_bytes_and_holes(kept, archive):
    os.mkdir(kept.p("d"))
    dense = os.urandom(700_000)
    kept.write("d/dense", dense)
    kept.write("d/empty", b"")
    with open(kept.p("d/sparse"), "wb") as file:
        file.truncate(64 * 1024 * 1024)
        file.seek(32 * 1024 * 1024)
        file.write(b"in the middle")
    expire(kept)
    found = copies(archive)
    assert sorted(found) == ["d/dense", "d/empty", "d/sparse"]
    with open(found["d/dense"], "rb") as file:
        assert file.read() == dense
    assert os.path.getsize(found["d/empty"]) == 0
    state = os.stat(found["d/sparse"])
    assert state.st_size == 64 * 1024 * 1024 and state.st_blocks * 512 < 1024 * 1024
    with open(found["d/sparse"], "rb") as file:
        file.seek(32 * 1024 * 1024 - 5)
        assert file.read(25) == b"\0" * 5 + b"in the middle" + b"\0" * 7


def test_links_pipes_sockets_and_devices_are_kept(kept, archive):
    os.symlink("where/it points\n", kept.p("link"))
    os.mkfifo(kept.p("pipe"), 0o600)
    with socket.socket(socket.AF_UNIX) as server:
        # A path of a socket has room for 107 bytes.
        with opened(kept.path, os.O_RDONLY | os.O_DIRECTORY) as fd:
            server.bind(f"/proc/self/fd/{fd}/socket")
    kinds = {"link": stat.S_IFLNK, "pipe": stat.S_IFIFO, "socket": stat.S_IFSOCK}
    if os.geteuid() == 0:
        os.mknod(kept.p("device"), stat.S_IFCHR | 0o640, os.makedev(1, 3))
        kinds["device"] = stat.S_IFCHR
    expire(kept)
    assert names(kept) == []
    found = copies(archive)
    assert {name: stat.S_IFMT(os.lstat(path).st_mode) for name, path in found.items()} == kinds
    assert os.readlink(found["link"]) == b"where/it points\n"
    assert record(found["link"])["target"] == "where/it points\n"
    if "device" in found:
        assert os.lstat(found["device"]).st_rdev == os.makedev(1, 3)
    assert all(record(path)["name"] == name for name, path in found.items())


ODD = [b"line\nbreak", b"\xff\xfe not UTF-8", b"n" * 255, b"'; rm -rf $HOME #", b"-rf", "ä€😀".encode(), b"." + b"m" * 254]


def test_odd_names(kept, archive):
    for name in ODD:
        os.mkdir(kept.p(name))
        kept.write(os.path.join(name, name), name)
        os.symlink(b"x", kept.p(os.path.join(name, b"L" + name[1:])))
    result = expire(kept)
    assert (result["deletedDocuments"], result["errors"]) == (2 * len(ODD), 0)
    found = {os.fsencode(key): path for key, path in copies(archive).items() if not os.path.islink(path)}
    assert sorted(found) == sorted(os.path.join(name, name) for name in ODD)
    for key, path in found.items():
        with open(path, "rb") as file:
            assert file.read() == os.path.basename(key)


def test_a_path_longer_than_any_system_call_takes(kept, archive):
    deep = "d" * 250
    fd = os.open(kept.path, os.O_RDONLY)
    for _ in range(20):  # 5,000 bytes
        os.mkdir(deep, dir_fd=fd)
        below = os.open(deep, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("doc", os.O_WRONLY | os.O_CREAT, dir_fd=fd))
    os.close(fd)
    result = expire(kept)
    assert (result["deletedDocuments"], result["errors"]) == (1, 0)
    fd = os.open(archive, os.O_RDONLY)
    for _ in range(20):
        below = os.open(deep, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = below
    day, = os.listdir(fd)
    with opened(f"/proc/self/fd/{fd}/{day}", os.O_RDONLY) as found:
        # What is too long for one block of attributes goes into a file of its own.
        assert [name for name in os.listdir(found) if name != ".doc.ttlfs"] == ["doc"]
    os.close(fd)
    run("rm", "-r", archive / deep)


@pytest.mark.root
def test_an_archive_without_attributes(make_mount, tmp_path):
    place = tmp_path / "plain"
    place.mkdir()
    run("mount", "-t", "ramfs", "ramfs", place)  # takes no user attributes
    try:
        mount = make_mount(opts=f"test-clock,monitor=off,archive={place}/archive")
        mount.set(".", "ttl.on-expire", "archive")
        mount.set(".", "ttl.max", "1h")
        mount.write("doc", "x")
        mount.set("doc", "note", b"\x00\xff binary")
        mount.write("doc2", "x")
        expire(mount)
        found = copies(place / "archive")
        assert sorted(found) == ["doc", "doc2"]
        attributes = {x["name"]: x["value"]["$binary"]["base64"] for x in record(found["doc"])["xattrs"]}
        assert attributes == {"user.note": "AP8gYmluYXJ5"}
        # The same document again is known by its sidecar, another one gets another name.
        mount.write("doc", "y")
        expire(mount)
        assert sorted(key.split(".")[0] for key in copies(place / "archive")) == ["doc", "doc", "doc2"]
        mount.stop()
    finally:
        run("umount", "-l", place)


# Which ones


def test_the_rule_is_inherited_and_ends_with_off(make_mount, archive):
    mount = make_mount(opts=f"test-clock,monitor=off,archive={archive}")
    os.makedirs(mount.p("a/b/c"))
    os.makedirs(mount.p("a/off"))
    os.makedirs(mount.p("a/delete"))
    mount.set(".", "ttl.max", "1h")
    mount.set("a", "ttl.on-expire", "archive")
    mount.set("a/off", "ttl.on-expire", "off")
    mount.set("a/delete", "ttl.on-expire", "delete")
    for folder in ("", "a/", "a/b/c/", "a/off/", "a/delete/"):
        mount.write(folder + "doc", folder)
    assert mount.get("a/b/c", "ttl.on-expire") == "archive"
    for bad in ("yes", "", "archive ", "Archive"):
        with raises_errno(errno.EINVAL):
            mount.set("a", "ttl.on-expire", bad)
    assert "delete or archive" in mount.get("a", "ttl.error")
    assert mount.get("a", "ttl.on-expire") == "archive"
    result = expire(mount)
    assert (result["deletedDocuments"], result["errors"]) == (5, 0)
    assert sorted(copies(archive)) == ["a/b/c/doc", "a/doc"]
    assert ttl_metrics(mount)["archivedDocuments"] == 2


def test_what_somebody_removes_is_not_archived(kept, archive):
    kept.write("removed", "x")
    kept.write("replaced", "x")
    kept.write("new", "y")
    os.unlink(kept.p("removed"))
    os.rename(kept.p("new"), kept.p("replaced"))
    expire(kept)
    assert sorted(copies(archive)) == ["replaced"]


def test_several_names_of_one_document(kept, archive):
    os.mkdir(kept.p("short"))
    os.mkdir(kept.p("long"))
    kept.set("long", "ttl.max", "off")
    kept.write("short/a", "both")
    os.link(kept.p("short/a"), kept.p("long/b"))
    os.link(kept.p("short/a"), kept.p("short/c"))
    expire(kept)
    assert sorted(copies(archive)) == ["short/a", "short/c"]
    assert kept.read("long/b") == b"both" and os.stat(kept.p("long/b")).st_nlink == 1


def test_the_day_is_the_one_of_the_expiry(kept, archive):
    kept.write("doc", "x")
    day = today(kept)
    kept.clock_advance(30 * 24 * HOUR)
    kept.run_pass()
    assert os.listdir(archive) == [day]
    # A date in the content may be older than the document.
    kept.set(".", "ttl.index.at", "0")
    born = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=30)).strftime("%Y-%m-")
    kept.write("old", {"at": date(0)})
    kept.run_pass()
    other, = set(os.listdir(archive)) - {day}
    assert other.startswith(born) or not born  # of the day it was written
    assert record(archive / other / "old")["byContent"] is True


def test_another_document_of_the_same_name_on_the_same_day(kept, archive):
    kept.set(".", "ttl.max", "1s")
    for number in range(4):
        kept.write("doc", f"number {number}")
        kept.clock_advance(2 * S)
        kept.run_pass()
    contents = set()
    for key, path in copies(archive).items():
        parts = key.split(".")
        assert parts[0] == "doc" and len(parts) <= 2
        if len(parts) == 2:
            assert int(parts[1]) == record(path)["ino"]
        with open(path, "rb") as file:
            contents.add(file.read())
    assert contents == {b"number 0", b"number 1", b"number 2", b"number 3"}


# Watchers, open descriptors, visibility


@pytest.mark.parametrize("notify", ["auto", "always", "never"])
def test_archived_before_anybody_hears_of_it(make_mount, archive, tmp_path, notify):
    mount = make_mount(opts=f"test-clock,monitor=off,notify={notify},archive={archive}")
    os.mkdir(mount.p("d"))
    mount.set("d", "ttl.max", "1h")
    mount.set("d", "ttl.on-expire", "archive")
    expected = [f"f{number}" for number in range(20)]
    for name in expected:
        mount.write(f"d/{name}", name)
    with Watcher(tmp_path, mount.p("d")) as watcher:
        result = expire(mount)
        assert (result["deletedDocuments"], result["errors"]) == (20, 0)
        watcher.expect("DELETE", [] if notify == "never" else expected)
    assert sorted(copies(archive)) == sorted(f"d/{name}" for name in expected)
    assert ttl_metrics(mount)["archivedDocuments"] == 20


def test_an_open_file(kept, archive):
    path = kept.write("doc", "as it was")
    with opened(path, os.O_RDWR) as fd:
        expire(kept)
        assert os.pread(fd, 100, 0) == b"as it was"
        os.pwrite(fd, b"later", 0)
        assert os.fstat(fd).st_nlink == 0
    with open(copies(archive)["doc"], "rb") as file:
        assert file.read() == b"as it was"


def test_a_temporary_file_with_a_late_name(kept, archive):
    with opened(kept.path, os.O_TMPFILE | os.O_RDWR) as fd:
        os.write(fd, b"named late")
        link_descriptor(fd, kept.p("late"))
    expire(kept)
    with open(copies(archive)["late"], "rb") as file:
        assert file.read() == b"named late"


def test_visible_until_deleted(kept, archive):
    kept.set(".", "ttl.visibility", "until-deleted")
    kept.write("doc", "x")
    kept.clock_advance(HOUR + S)
    assert kept.read("doc") == b"x"
    kept.run_pass()
    assert names(kept) == [] and sorted(copies(archive)) == ["doc"]


# The option


def test_where_an_archive_may_be(make_mount, tmp_path, archive):
    mountpoint, store = tmp_path / "here", tmp_path / "kept"
    mountpoint.mkdir()
    (tmp_path / "file").touch()
    cases = [("memory:", mountpoint, 1), ("memory:", mountpoint / "below", 1), (store, store, 1),
             ("memory:", tmp_path / "file", 3), ("memory:", tmp_path / "missing" / "below", 3), ("memory:", "", 1)]
    for source, place, status in cases:
        done = subprocess.run([BINARY, "-o", f"archive={place}", str(source), mountpoint], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        assert done.returncode == status, f"archive={place}: {done.returncode} {done.stderr}"
        assert done.stderr.count("\n") == 1 and "archive" in done.stderr
        if place == mountpoint / "below":
            place.rmdir()
    # A relative one is relative to where ttlfs was started, and made when it is missing.
    mount = make_mount(opts="test-clock,monitor=off,archive=relative")
    mount.set(".", "ttl.on-expire", "archive")
    mount.set(".", "ttl.max", "1h")
    mount.write("doc", "x")
    expire(mount)
    assert sorted(copies(mount.workdir / "relative")) == ["doc"]
    assert not archive.exists()
