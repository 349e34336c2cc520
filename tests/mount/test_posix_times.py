"""POSIX to the letter: which call moves which time; noatime, strictatime, nodiratime; the birth time."""
import ctypes
import errno
import mmap
import os
import pathlib
import re
import stat
import time

import pytest

from conftest import BINARY, raises_errno, run, run_as, wait_until
from targets import FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, LIBC, checked, fallocate, fs, is_tmpfs, tick

ANN, BOB = 21001, 21002
ALL = ("atime", "mtime", "ctime")


def times(path):
    found = os.lstat(path)
    return {"atime": found.st_atime_ns, "mtime": found.st_mtime_ns, "ctime": found.st_ctime_ns}


def moved(path, action, *others):
    """Which times of a path (and of others) an action moves, all of them old and settled before."""
    paths = (path, *others)
    tick()
    before = [times(each) for each in paths]
    action()
    tick()
    shown = []
    for each, old in zip(paths, before):
        new = times(each) if os.path.lexists(each) else old
        shown.append(" ".join(key[0] for key in ALL if new[key] != old[key]))
    return shown if others else shown[0]


def settled(path):
    """So that relatime updates nothing by itself: the access is later than the last change."""
    found = os.lstat(path)
    os.utime(path, ns=(found.st_mtime_ns + 10**9, found.st_mtime_ns), follow_symlinks=False)
    future = time.time_ns() + 3600 * 10**9
    os.utime(path, ns=(future, found.st_mtime_ns), follow_symlinks=False)


def with_fd(path, flags, action):
    fd = os.open(path, flags, 0o644)
    try:
        return action(fd)
    finally:
        os.close(fd)


CHANGES = {
    "write": ("m c", lambda p: with_fd(p, os.O_WRONLY, lambda fd: os.write(fd, b"x"))),
    "write of nothing": ("", lambda p: with_fd(p, os.O_WRONLY, lambda fd: os.write(fd, b""))),
    "pwrite behind the end": ("m c", lambda p: with_fd(p, os.O_RDWR, lambda fd: os.pwrite(fd, b"x", 50000))),
    "ftruncate": ("m c", lambda p: with_fd(p, os.O_RDWR, lambda fd: os.ftruncate(fd, 3))),
    "ftruncate to the same size": ("m c", lambda p: with_fd(p, os.O_RDWR, lambda fd: os.ftruncate(fd, 10))),
    "truncate": ("m c", lambda p: os.truncate(p, 3)),
    "truncate to the same size": ("m c", lambda p: os.truncate(p, 10)),
    "O_TRUNC": ("m c", lambda p: with_fd(p, os.O_WRONLY | os.O_TRUNC, lambda fd: None)),
    "O_TRUNC for reading": ("m c", lambda p: with_fd(p, os.O_RDONLY | os.O_TRUNC, lambda fd: None)),
    "fallocate": ("m c", lambda p: with_fd(p, os.O_RDWR, lambda fd: fallocate(fd, 0, 0, 9000))),
    "punch": ("m c", lambda p: with_fd(p, os.O_RDWR, lambda fd: fallocate(
        fd, FALLOC_KEEP_SIZE | FALLOC_PUNCH_HOLE, 0, 5))),
    "chmod": ("c", lambda p: os.chmod(p, 0o600)),
    "chmod to the same": ("c", lambda p: os.chmod(p, 0o644)),
    "chown to the same": ("c", lambda p: os.chown(p, os.getuid(), os.getgid())),
    "chown to nothing": ("c", lambda p: os.chown(p, -1, -1)),
    "setxattr": ("c", lambda p: os.setxattr(p, "user.x", b"1")),
    "link": ("c", lambda p: os.link(p, f"{p}.link")),
    "rename": ("", lambda p: os.rename(p, f"{p}.moved")),
    "open": ("", lambda p: with_fd(p, os.O_RDWR, lambda fd: None)),
    "stat": ("", os.stat),
    "utime": ("a m c", lambda p: os.utime(p)),
}


@pytest.mark.parametrize("name", list(CHANGES))
def test_changes_of_a_file(fs, name):
    expected, action = CHANGES[name]
    (fs / "file").write_bytes(b"0123456789")
    (fs / "file").chmod(0o644)
    settled(fs / "file")
    assert moved(fs / "file", lambda: action(fs / "file")) == expected


def test_truncate_of_nothing(fs):
    (fs / "file").touch()
    os.truncate(fs / "file", 100)
    assert moved(fs / "file", lambda: os.truncate(fs / "file", 100)) == "", "a hole and nothing else"
    os.truncate(fs / "file", 0)
    assert moved(fs / "file", lambda: os.truncate(fs / "file", 0)) == ""
    assert moved(fs / "file", lambda: with_fd(fs / "file", os.O_RDWR, lambda fd: os.ftruncate(fd, 0))) == "m c"
    assert moved(fs / "file", lambda: with_fd(fs / "file", os.O_RDWR | os.O_TRUNC, lambda fd: None)) == "m c"


def test_changes_of_directories(fs):
    for name in ("d", "to"):
        (fs / name).mkdir()
    make = {
        "file": lambda: (fs / "d/file").touch(), "dir": lambda: (fs / "d/dir").mkdir(),
        "fifo": lambda: os.mkfifo(fs / "d/fifo"), "symlink": lambda: os.symlink("x", fs / "d/symlink"),
        "link": lambda: os.link(fs / "d/file", fs / "d/link"),
        "socket": lambda: os.mknod(fs / "d/socket", stat.S_IFSOCK | 0o600)}
    for name, action in make.items():
        assert moved(fs / "d", action) == "m c", name
    for name in ("file", "fifo", "symlink"):
        assert moved(fs / "d", lambda name=name: os.rename(fs / "d" / name, fs / "to" / name), fs / "to") == \
            ["m c", "m c"], name
    assert moved(fs / "d", lambda: os.rename(fs / "d/link", fs / "d/link2")) == "m c"
    assert moved(fs / "d", lambda: os.unlink(fs / "d/link2"), fs / "to/file") == ["m c", "c"]
    assert moved(fs / "d", lambda: (fs / "d/dir").rmdir()) == "m c"
    assert moved(fs / "d", lambda: with_fd(fs / "d/socket2", os.O_CREAT | os.O_WRONLY, lambda fd: None)) == "m c"
    assert moved(fs / "d", lambda: with_fd(fs / "d/socket2", os.O_CREAT | os.O_WRONLY, lambda fd: None)) == ""


def test_failed_calls_move_nothing(fs):
    (fs / "file").write_text("x")
    (fs / "dir").mkdir()
    (fs / "dir/in").touch()

    def refused():
        for call in (lambda: os.rmdir(fs / "dir"), lambda: os.unlink(fs / "dir"), lambda: os.mkdir(fs / "file"),
                     lambda: os.link(fs / "file", fs / "dir"), lambda: os.rename(fs / "dir", fs / "dir/in/x"),
                     lambda: os.truncate(fs / "file", -1), lambda: os.rename(fs / "file", fs / "dir"),
                     lambda: os.setxattr(fs / "file", "user.x", b"1", os.XATTR_REPLACE),
                     lambda: os.symlink("x", fs / "file"), lambda: os.mkfifo(fs / "file")):
            with pytest.raises(OSError):
                call()

    assert moved(fs, refused, fs / "file", fs / "dir", fs / "dir/in") == ["", "", "", ""]


def test_mtime_of_a_mapping(fs):
    (fs / "file").write_bytes(b"x" * 8192)
    with open(fs / "file", "r+b") as file, mmap.mmap(file.fileno(), 8192) as view:
        settled(fs / "file")

        def change():
            view[5000:5003] = b"yyy"
            view.flush()

        assert moved(fs / "file", change) == "m c"


# Access times

def read_once(path):
    if stat.S_ISLNK(os.lstat(path).st_mode):
        os.readlink(path)
    elif stat.S_ISDIR(os.lstat(path).st_mode):
        os.listdir(path)
    else:
        with open(path, "rb") as file:
            file.read()


def reads(top):
    """For each kind of node: does a read move an old atime, does a second, does it when relatime has no reason?"""
    (top / "file").write_text("x")
    (top / "dir").mkdir()
    (top / "dir/a").touch()
    os.symlink("file", top / "link")
    shown = {}
    for name in ("file", "dir", "link"):
        path = top / name
        now = time.time_ns()
        os.utime(path, ns=(now - 10**10, now), follow_symlinks=False)
        first = moved(path, lambda path=path: read_once(path))
        os.utime(path, ns=(now + 10**12, now), follow_symlinks=False)
        second = moved(path, lambda path=path: read_once(path))
        shown[name] = (first, second)
    return shown


RELATIME = {"file": ("a", ""), "dir": ("a", ""), "link": ("a", "")}
STRICT = {"file": ("a", "a"), "dir": ("a", "a"), "link": ("a", "a")}
NEVER = {"file": ("", ""), "dir": ("", ""), "link": ("", "")}
NODIR = {**RELATIME, "dir": ("", "")}
STRICT_NODIR = {**STRICT, "dir": ("", "")}


def test_relatime(fs):
    assert reads(fs) == RELATIME


def test_reading_nothing_and_o_noatime(fs):
    (fs / "file").write_text("x")
    os.utime(fs / "file", ns=(1, 10**9))
    assert moved(fs / "file", lambda: with_fd(
        fs / "file", os.O_RDONLY | os.O_NOATIME, lambda fd: os.read(fd, 10))) == ""
    assert moved(fs / "file", lambda: with_fd(fs / "file", os.O_RDONLY, lambda fd: None)) == ""
    (fs / "dir").mkdir()
    os.utime(fs / "dir", ns=(1, 10**9))
    assert moved(fs / "dir", lambda: with_fd(
        fs / "dir", os.O_RDONLY | os.O_DIRECTORY | os.O_NOATIME, os.listdir)) == ""


@pytest.fixture(params=["tmpfs", "memory", "store"])
def mounted_with(request, make_mount, tmp_path):
    """A function that mounts with these words and gives the path."""
    mounted = []

    def mount(words):
        if request.param != "tmpfs":
            return make_mount("memory:" if request.param == "memory" else "dir", opts=words).path
        path = tmp_path / "tmpfs"
        path.mkdir()
        run("mount", "-t", "tmpfs", "-o", words, "tmpfs", path)
        mounted.append(path)
        return path

    yield mount
    for path in mounted:
        run("umount", path)


@pytest.mark.root
@pytest.mark.parametrize("words, expected", [
    ("noatime", NEVER), ("strictatime", STRICT), ("nodiratime", NODIR), ("strictatime,nodiratime", STRICT_NODIR),
    ("norelatime", RELATIME)])
def test_words_of_mount(mounted_with, words, expected):
    path = mounted_with(words)
    assert reads(path) == expected
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        options = next(line.split()[5] for line in table if line.split()[4] == str(path)).split(",")
    assert ("noatime" in options) == (expected is NEVER)
    assert ("nodiratime" in options) == ("nodiratime" in words)
    assert ("relatime" in options) == (expected in (RELATIME, NODIR))


def test_strictatime_without_root(make_mount):
    """The kernel does not let everybody set the flag; the daemon honours the word all the same."""
    path = make_mount(opts="strictatime").path
    assert reads(path) == STRICT


# utimensat's rules

UTIME_NOW, UTIME_OMIT = (1 << 30) - 1, (1 << 30) - 2


def utimens(path, *pair):
    class Timespec(ctypes.Structure):
        _fields_ = [("sec", ctypes.c_int64), ("nsec", ctypes.c_int64)]

    array = (Timespec * 2)(*[Timespec(*each) for each in pair]) if pair else None
    checked(LIBC.utimensat(-100, os.fsencode(path), array, 0))


@pytest.mark.root
def test_who_may_set_times(fs):
    fs.chmod(0o777)
    for name, mode in (("writable", 0o666), ("readable", 0o644)):
        (fs / name).write_text("x")
        (fs / name).chmod(mode)
        os.chown(fs / name, ANN, ANN)
    now, omit, given = (0, UTIME_NOW), (0, UTIME_OMIT), (5, 6)
    # as, file, arguments, errno
    rules = [
        (BOB, "writable", (), 0), (BOB, "writable", (now, now), 0), (BOB, "writable", (omit, omit), 0),
        (BOB, "writable", (now, omit), errno.EPERM), (BOB, "writable", (omit, now), errno.EPERM),
        (BOB, "writable", (given, given), errno.EPERM), (BOB, "writable", (given, omit), errno.EPERM),
        (BOB, "readable", (), errno.EACCES), (BOB, "readable", (now, now), errno.EACCES),
        (BOB, "readable", (omit, omit), 0), (BOB, "readable", (now, omit), errno.EPERM),
        (ANN, "readable", (), 0), (ANN, "readable", (now, omit), 0), (ANN, "readable", (given, given), 0),
        (0, "readable", (given, now), 0), (0, "readable", ((0, 10**9), now), errno.EINVAL)]
    for uid, name, pair, code in rules:
        if code:
            with raises_errno(code):
                run_as(fs, uid, lambda name=name, pair=pair: utimens(name, *pair))
        else:
            run_as(fs, uid, lambda name=name, pair=pair: utimens(name, *pair))
    utimens(fs / "readable", (-5, 999_999_999), (253_402_300_800, 1))
    found = os.stat(fs / "readable")
    assert (found.st_atime_ns, found.st_mtime_ns) == (-5 * 10**9 + 999_999_999, 253_402_300_800 * 10**9 + 1)


# The birth time

class StatxTime(ctypes.Structure):
    _fields_ = [("sec", ctypes.c_int64), ("nsec", ctypes.c_uint32), ("pad", ctypes.c_int32)]


class Statx(ctypes.Structure):
    _fields_ = [("mask", ctypes.c_uint32), ("blksize", ctypes.c_uint32), ("attributes", ctypes.c_uint64),
                ("nlink", ctypes.c_uint32), ("uid", ctypes.c_uint32), ("gid", ctypes.c_uint32),
                ("mode", ctypes.c_uint16), ("pad", ctypes.c_uint16), ("ino", ctypes.c_uint64),
                ("size", ctypes.c_uint64), ("blocks", ctypes.c_uint64), ("attributes_mask", ctypes.c_uint64),
                ("atime", StatxTime), ("btime", StatxTime), ("ctime", StatxTime), ("mtime", StatxTime),
                ("rdev_major", ctypes.c_uint32), ("rdev_minor", ctypes.c_uint32), ("rest", ctypes.c_uint8 * 120)]


STATX_BTIME, STATX_BASIC = 0x800, 0x7ff


def statx(path):
    found = Statx()
    checked(LIBC.statx(-100, os.fsencode(path), 0x100, STATX_BASIC | STATX_BTIME, ctypes.byref(found)))
    return found


def birth(path):
    found = statx(path)
    assert found.mask & STATX_BTIME
    return found.btime.sec * 10**9 + found.btime.nsec


def kernel_has_statx():
    return tuple(int(word) for word in re.findall(r"\d+", os.uname().release)[:2]) >= (6, 6)


@pytest.mark.skipif(not kernel_has_statx(), reason="FUSE has statx since Linux 6.6")
def test_birth_time(fs):
    start = time.time_ns() - 10**8
    (fs / "file").write_text("x")
    (fs / "dir").mkdir()
    os.symlink("file", fs / "link")
    os.mkfifo(fs / "fifo")
    for name in ("file", "dir", "link", "fifo"):
        assert start <= birth(fs / name) <= time.time_ns(), name
        found, plain = statx(fs / name), os.lstat(fs / name)
        assert (found.ino, found.mode, found.nlink, found.size, found.uid, found.gid, found.blocks) == (
            plain.st_ino, plain.st_mode, plain.st_nlink, plain.st_size, plain.st_uid, plain.st_gid, plain.st_blocks)
        assert found.mtime.sec * 10**9 + found.mtime.nsec == plain.st_mtime_ns
    born = birth(fs / "file")
    tick()
    (fs / "file").write_text("changed")
    os.rename(fs / "file", fs / "moved")
    os.utime(fs / "moved", ns=(5, 5))
    assert birth(fs / "moved") == born


@pytest.mark.root
@pytest.mark.skipif(not kernel_has_statx(), reason="FUSE has statx since Linux 6.6")
def test_statx_of_devices_and_of_the_control_directory(fs):
    os.mknod(fs / "disk", stat.S_IFBLK | 0o600, os.makedev(259, 70_000))
    found = statx(fs / "disk")
    assert (found.rdev_major, found.rdev_minor) == (259, 70_000)
    if not is_tmpfs(fs):
        found = statx(fs / ".ttlfs" / "status.json")
        assert stat.S_ISREG(found.mode) and not found.mask & STATX_BTIME


@pytest.mark.skipif(not kernel_has_statx(), reason="FUSE has statx since Linux 6.6")
def test_birth_survives_a_remount(make_mount):
    mount = make_mount("dir")
    mount.write("file", "x")
    born = birth(mount.p("file"))
    mount.remount()
    assert birth(mount.p("file")) == born
    assert pathlib.Path(mount.p("file")).read_text() == "x"


# mount -o remount

def options_of(path):
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        return next(line.split()[5] for line in table if line.split()[4] == str(path)).split(",")


def remount(mount, words):
    run(BINARY, "-o", f"remount,{words}", mount.store, mount.path)


@pytest.mark.root
@pytest.mark.tsan
def test_remount_changes_access_times(any_mount):
    remount(any_mount, "noatime")
    assert "noatime" in options_of(any_mount.path)
    number = iter(range(1000))

    def reads_are(expected):
        def look():
            top = any_mount.path / f"top{next(number)}"
            top.mkdir()
            return reads(top) == expected
        wait_until(look, 10, f"reads as {expected}")

    reads_are(NEVER)
    remount(any_mount, "strictatime")
    reads_are(STRICT)
    remount(any_mount, "relatime,nodiratime")
    reads_are(NODIR)
    remount(any_mount, "diratime,nosuid")
    assert "nosuid" in options_of(any_mount.path)
    reads_are(RELATIME)


@pytest.mark.root
def test_remount_read_only_and_back(any_mount):
    any_mount.write("file", "x")
    any_mount.set(".", "ttl.idle", "10s")
    remount(any_mount, "ro")
    assert "ro" in options_of(any_mount.path)
    for action in (lambda: any_mount.write("new"), lambda: os.unlink(any_mount.p("file")),
                   lambda: os.mkdir(any_mount.p("dir")), lambda: os.truncate(any_mount.p("file"), 0)):
        with raises_errno(errno.EROFS):
            action()
    assert any_mount.read("file") == b"x"
    remount(any_mount, "rw")
    assert "rw" in options_of(any_mount.path)
    any_mount.write("new", "y")
    # The monitor goes on.
    wait_until(lambda: "remounted: read-write" in any_mount.log, 10, "the daemon knows")
    any_mount.clock_advance(20_000)
    wait_until(lambda: any_mount.status()["metrics"]["ttl"]["deletedDocuments"] == 2, 10, "both are deleted")


@pytest.mark.root
def test_remount_read_only_while_something_is_open_for_writing(any_mount):
    with open(any_mount.p("file"), "w", encoding="utf-8"):
        done = run(BINARY, "-o", "remount,ro", any_mount.store, any_mount.path, check=False)
        assert done.returncode == 4
        assert "busy" in done.stdout
    assert "rw" in options_of(any_mount.path)


@pytest.mark.root
def test_a_store_opened_read_only_stays_so(make_mount):
    mount = make_mount("dir")
    mount.write("file", "x")
    mount.remount(opts="ro,test-clock")
    remount(mount, "rw")
    with raises_errno(errno.EROFS):
        mount.write("new", "y")
    with raises_errno(errno.EROFS):
        os.unlink(mount.p("file"))
    with raises_errno(errno.EROFS):
        mount.write("file", "y")
    assert mount.read("file") == b"x"


def test_remount_of_nothing(tmp_path):
    done = run(BINARY, "-o", "remount,noatime", "memory:", tmp_path, check=False)
    assert done.returncode == 4
    assert done.stdout.startswith("ttlfs: the remount failed")
