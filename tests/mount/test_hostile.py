"""Hostile use (issue 4.3): names, attributes, ioctls and paths of every kind and length that can be sent."""
import contextlib
import ctypes
import errno
import fcntl
import json
import os
import random
import re

import pytest

from conftest import raises_errno
from targets import fs  # noqa: F401  (a fixture)

LIBC = ctypes.CDLL(None, use_errno=True)
NASTY = [b"new\nline", b"tab\tbell\x07", b"\x1b[31mred\x1b[0m", b"\xff\xfe\x80", b"caf\xc3", b"\xed\xa0\x80", b"$(reboot)",
         b"`id`", b"; rm -rf .", b"a b  c", b"*", b"?[x]", b"'\"", b"-rf", b"--help", b"\\x00", b"%s%n%d", b"...", b" ", b"~",
         b"\x01", b"\x7f", b"\xc2\x85", "\u202egnp.exe".encode(), "é".encode(), "e\u0301".encode(), b"x" * 255, b"\xff" * 255,
         b"CON", b"a\r", b"#", b"&", b"|", b"<>", b"{}", b"$ttl", b".ttlfs.", b"user.ttl.idle"]


def printable_lines(mount):
    for line in mount.log_path.read_bytes().splitlines():
        text = line.decode()  # must be UTF-8
        assert text.isprintable(), text
        assert text.startswith("ttlfs: "), text


# Names


def test_names(fs):  # noqa: F811
    root = os.fsencode(fs)
    for name in NASTY:
        path = os.path.join(root, name)
        with open(path, "wb") as file:
            file.write(name)
    assert sorted(os.listdir(root)) == sorted(NASTY)
    for name in NASTY:
        path = os.path.join(root, name)
        with open(path, "rb") as file:
            assert file.read() == name
        os.rename(path, path[:-1] + b"\n")
        os.rename(path[:-1] + b"\n", path)
        os.symlink(name, root + b"/to")
        assert os.readlink(root + b"/to") == name
        os.unlink(root + b"/to")
        os.unlink(path)
    assert os.listdir(root) == []


def test_names_are_kept_by_a_store(make_mount):
    mount = make_mount("dir", opts="")
    for name in NASTY:
        os.mkdir(mount.p(name))
        with open(mount.p(os.path.join(name, name)), "wb") as file:
            file.write(name)
        os.setxattr(mount.p(name), "user.ttl.max", b"100d")
    mount.remount()
    assert sorted(os.listdir(os.fsencode(mount.path))) == sorted(NASTY)
    for name in NASTY:
        assert os.listdir(mount.p(name)) == [name]
        assert os.getxattr(mount.p(os.path.join(name, name)), "user.ttl.reason") == b"max"
    assert json.loads((mount.path / ".ttlfs/status.json").read_text(encoding="utf-8"))["documents"] == len(NASTY)


def test_names_expire_and_are_told(make_mount):
    mount = make_mount(opts="test-clock,notify=always,monitor=off")
    for name in NASTY:
        os.mkdir(mount.p(name))
        os.close(os.open(mount.p(os.path.join(name, name)), os.O_CREAT))
        os.setxattr(mount.p(os.path.join(name, name)), "user.ttl.expireAt", b"+5s")
    mount.clock_advance(6_000)
    assert all(os.listdir(mount.p(name)) == [] for name in NASTY)
    assert mount.run_pass()["deletedDocuments"] == len(NASTY)
    assert mount.status()["documents"] == 0
    printable_lines(mount)


@pytest.mark.parametrize("length", [1, 254, 255, 256, 257, 1000, 4000])
def test_length_of_a_name(fs, length):  # noqa: F811
    path = fs / ("n" * length)
    good = length <= 255
    for action in (lambda: os.close(os.open(path, os.O_CREAT | os.O_EXCL)), lambda: os.rename(path, path), lambda: os.stat(path),
                   lambda: os.link(path, fs / "other"), lambda: os.unlink(path), lambda: os.mkdir(path), lambda: os.rmdir(path),
                   lambda: os.symlink("x", path), lambda: os.unlink(path), lambda: os.mkfifo(path), lambda: os.unlink(path)):
        with contextlib.nullcontext() if good else raises_errno(errno.ENAMETOOLONG):
            action()


def test_length_of_a_path(fs):  # noqa: F811
    os.chdir(fs)
    try:
        for _ in range(16):
            os.mkdir("d" * 255)
            os.chdir("d" * 255)
    finally:
        os.chdir("/")
    deep = "d" * 255 + "/"
    with raises_errno(errno.ENAMETOOLONG):
        os.stat(os.fspath(fs) + "/" + deep * 16)
    directory = os.open(fs, os.O_RDONLY)
    try:
        longest = (deep * 16)[:4090]
        longest = longest[:longest.rindex("/")]
        room = 4095 - len(longest) - 1
        os.mkdir(longest + "/" + "x" * min(room, 255), dir_fd=directory)
        with raises_errno(errno.ENAMETOOLONG):
            os.stat(longest + "/" * (4096 - len(longest)), dir_fd=directory)
        with raises_errno(errno.ENAMETOOLONG):
            os.symlink("t" * 4096, "link", dir_fd=directory)
        os.symlink("t" * 4095, "link", dir_fd=directory)
        assert len(os.readlink("link", dir_fd=directory)) == 4095
        with raises_errno(errno.ENAMETOOLONG):
            os.open("link", os.O_RDONLY, dir_fd=directory)
    finally:
        os.close(directory)
    run_rm(fs)


def run_rm(directory):
    """rm -r walks with openat, however deep."""
    for name in os.listdir(directory):
        assert os.spawnlp(os.P_WAIT, "rm", "rm", "-rf", "--", os.path.join(directory, name)) == 0


@pytest.mark.tsan
def test_deep_directories(make_mount):
    """Far beyond what a path can name."""
    depth = 3000
    mount = make_mount("dir", opts="test-clock,monitor=off")
    os.chdir(mount.path)
    try:
        for _ in range(depth):
            os.mkdir("d")
            os.chdir("d")
        mount_file = os.open("f", os.O_CREAT | os.O_RDWR)
        os.close(mount_file)
        mount.set(".", "ttl.idle", "1h")
        assert os.getxattr("f", "user.ttl.idle") == b"1h"
        with raises_errno(errno.EINVAL):
            os.rename(mount.p("d"), "x")  # into itself
        mount.status()
    finally:
        os.chdir("/")
    mount.remount()
    mount.set(".", "ttl.idle", "2h")
    mount.clock_advance(7200_000)
    assert mount.run_pass()["deletedDocuments"] == 1
    run_rm(mount.path)
    assert mount.status()["documents"] == 0


# Attributes


def test_length_of_attribute_names(make_mount):
    mount = make_mount(opts="")
    mount.write("f", "x")
    os.mkdir(mount.p("d"))
    for path in ("f", "d"):
        for length in (6, 7, 9, 10, 100, 254, 255):
            for fill in ("a", ".", "\n", "é"):
                for prefix in ("user.", "user.ttl.", "user.doc.", "user.ttl.index."):
                    name = (prefix + fill * length).encode()[:length]
                    with contextlib.suppress(OSError):
                        os.setxattr(mount.p(path), name, b"5")
                    with contextlib.suppress(OSError):
                        os.getxattr(mount.p(path), name)
                    with contextlib.suppress(OSError):
                        os.removexattr(mount.p(path), name)
        for name in ("user." + "a" * 251, ""):
            with raises_errno(errno.ERANGE):
                os.setxattr(mount.p(path), name, b"5")
    printable_lines(mount)


@pytest.mark.parametrize("path", ["f", "d"])
def test_attribute_values(make_mount, path):
    mount = make_mount(opts="")
    mount.write("f", "x")
    os.mkdir(mount.p("d"))
    mount.set(path, "ttl.hold", "yes")  # some of them are dates long past
    values = [b"", b"\0", b"\n", b"\xff" * 100, b"%n%s", b"9" * 400, b"-1", b"+", b"{" * 30000, b"[" * 65536, b'{"a":' * 9000, b"0" * 65536,
              b'{"expireAfterSeconds":1e309}', b'{"partialFilterExpression":{"$or":[]}}', b"nan", b"1" + b"\0" * 10]
    keys = ["index.a", "index.", "idle", "max", "refresh", "jitter", "visibility", "capped", "timeseries", "on-expire", "prune",
            "hold", "seconds", "expireAt", "deadline", "error", "nonsense", "", "."]
    for key in keys:
        for value in values:
            with contextlib.suppress(OSError):
                os.setxattr(mount.p(path), "user.ttl." + key, value)
    for value in values:
        with contextlib.suppress(OSError):
            os.setxattr(mount.p(path), "user.doc.x", value)
    with raises_errno(errno.E2BIG):
        os.setxattr(mount.p(path), "user.x", b"x" * 65537)
    os.setxattr(mount.p(path), "user.x", b"x" * 65536)
    assert len(os.getxattr(mount.p(path), "user.x")) == 65536
    for name in mount.lst(path):
        os.getxattr(mount.p(path), name)
    mount.status()
    printable_lines(mount)


def test_hostile_index_names(make_mount):
    """What an index is called is shown in many places."""
    mount = make_mount("dir", opts="test-clock,monitor=off")
    for name in (b"\xff\xfe", b"a\nb", b"\"", b"x" * 200, b"$a", b"a b", "é".encode()):
        with contextlib.suppress(OSError):
            os.setxattr(mount.p("."), b"user.ttl.index." + name, b'{"key":"_created","expireAfterSeconds":1}')
    mount.write("f", "x")
    assert mount.get("f", "ttl.reason").startswith("index ")
    mount.status()
    mount.clock_advance(5_000)
    assert mount.run_pass()["deletedDocuments"] == 1
    with os.scandir(mount.p(".ttlfs")) as entries:
        files = [entry.path for entry in entries if entry.is_file() and entry.name != "events"]
    for file in files:
        with open(file, encoding="utf-8") as content:
            content.read()
    mount.remount()
    mount.status()
    printable_lines(mount)


def test_attributes_have_an_end(make_mount):
    """What one file can take of the daemon's memory, and of a record of the store, is limited."""
    mount = make_mount("dir", opts="")
    mount.write("f", "x")
    kept = 0
    with raises_errno(errno.ENOSPC):
        for number in range(400):
            os.setxattr(mount.p("f"), f"user.value{number}", b"x" * 65536)
            kept += 1
    assert kept == 256
    assert len(os.listxattr(mount.p("f"))) == 256
    mount.write("g", "x")
    with raises_errno(errno.ENOSPC):
        for number in range(400):
            os.setxattr(mount.p("g"), f"user.{number:03}" + "n" * 200, b"")
    os.setxattr(mount.p("g"), "user.000" + "n" * 200, b"another value")
    assert sum(len(name) + 1 for name in os.listxattr(mount.p("g"))) <= 65536
    os.removexattr(mount.p("g"), "user.000" + "n" * 200)
    os.setxattr(mount.p("g"), "user.new", b"")
    mount.remount()
    assert len(os.listxattr(mount.p("f"))) == 256


def test_the_log_is_not_flooded(make_mount):
    mount = make_mount(opts="")
    mount.write("f", "x")
    for _ in range(5000):
        with contextlib.suppress(OSError):
            os.setxattr(mount.p("f"), "user.ttl.seconds", b"nonsense\n\x1b[2J")
    lines = mount.log.splitlines()
    assert 500 < len(lines) < 4000
    printable_lines(mount)
    mount.stop()


# ioctl

TYPES = "fFvVrXT\x12\x94\xf5"


def test_ioctls(fs):  # noqa: F811
    """None of them is ours; all that can be sent come back with an error that an ioctl may have."""
    choose = random.Random(4)
    (fs / "f").write_text("x")
    numbers = {choose.randrange(1 << 32) for _ in range(300)}
    numbers |= {direction << 30 | size << 16 | ord(kind) << 8 | number
                for direction in range(4) for size in (0, 4, 8, 4096, 16383) for kind in TYPES for number in (0, 1, 2, 31, 255)}
    allowed = {errno.ENOTTY, errno.EINVAL, errno.EFAULT, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF, errno.ENXIO, errno.EBUSY,
               errno.EXDEV, errno.EIO, errno.EOVERFLOW}
    # Not those that do something to whole filesystems or descriptors, here or on tmpfs.
    numbers -= {number for number in numbers if number & 0xffff in (
        0x5877, 0x5878, 0x5879, 0x5450, 0x5451, 0x5452, 0x5421, 0x541b, 0x9409, 0x940d)}
    paths = [fs / "f", fs]
    if (fs / ".ttlfs").exists():
        paths += [fs / ".ttlfs", fs / ".ttlfs/status.json"]
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        try:
            for number in sorted(numbers):
                buffer = ctypes.create_string_buffer(16384)
                if LIBC.ioctl(fd, ctypes.c_ulong(number), buffer) < 0:
                    code = ctypes.get_errno()
                    assert code in allowed, f"{number:#x} on {path}: {errno.errorcode[code]}"
            assert fcntl.fcntl(fd, fcntl.F_GETFL) is not None
        finally:
            os.close(fd)
    assert (fs / "f").read_text() == "x"


# Numbers


def test_offsets_and_sizes(fs):  # noqa: F811
    fd = os.open(fs / "f", os.O_CREAT | os.O_RDWR)
    try:
        for size in (-1, -(1 << 63)):
            with raises_errno(errno.EINVAL):
                os.ftruncate(fd, size)
        with raises_errno(errno.EFBIG, errno.EINVAL):
            os.pwrite(fd, b"x" * 10, (1 << 63) - 1)
        for offset in (1 << 40, 1 << 62, (1 << 63) - 11):
            written = 0
            with contextlib.suppress(OSError):
                written = os.pwrite(fd, b"x" * 10, offset)
            assert os.pread(fd, 10, offset) == b"x" * written
            assert os.fstat(fd).st_size == (offset + written if written else os.fstat(fd).st_size)
        for offset, length in ((-1, 1), (0, 0), (0, -1), (1, (1 << 63) - 1)):
            with raises_errno(errno.EINVAL, errno.EFBIG):
                os.posix_fallocate(fd, offset, length)
        for mode in (0, 1, 3, 8, 16, 17, 32, 64, 1 << 20, -1):
            for offset, length in ((0, 1), (4095, 2), (1 << 40, 1 << 62)):
                LIBC.fallocate(fd, mode, ctypes.c_int64(offset), ctypes.c_int64(length))
        os.ftruncate(fd, 0)
        assert os.fstat(fd).st_blocks == 0
    finally:
        os.close(fd)


def test_control_files_take_what_comes(mount):
    for name in ("pass", "parameters/ttlMonitorSleepSecs", "parameters/clockOffsetMS", "parameters/ttlMonitorWake"):
        for data in (b"\0", b"\xff" * 100, b"x" * 70000, b"-" * 5, b"1" * 400, b"\n"):
            fd = os.open(mount.p(".ttlfs/" + name), os.O_RDWR)
            with contextlib.suppress(OSError):
                os.pwrite(fd, data, 1 << 40)
            with contextlib.suppress(OSError):
                os.write(fd, data)
            os.pread(fd, 100, 1 << 50)
            os.close(fd)
        with contextlib.suppress(OSError):
            os.truncate(mount.p(".ttlfs/" + name), 1 << 40)
    assert re.fullmatch("[0-9]+", mount.param("ttlMonitorSleepSecs"))
    for action in (lambda: os.mkdir(mount.p(".ttlfs/x")), lambda: os.rename(mount.p(".ttlfs/pass"), mount.p("p")),
                   lambda: os.link(mount.p(".ttlfs/pass"), mount.p("p")), lambda: os.symlink("x", mount.p(".ttlfs/x")),
                   lambda: os.mkdir(mount.p(".ttlfs")), lambda: os.rename(mount.p(".ttlfs"), mount.p("p")),
                   lambda: os.rmdir(mount.p(".ttlfs")), lambda: os.unlink(mount.p(".ttlfs/status.json")),
                   lambda: os.open(mount.p(".ttlfs/new"), os.O_CREAT | os.O_WRONLY),
                   lambda: os.chmod(mount.p(".ttlfs/pass"), 0o777), lambda: os.chown(mount.p(".ttlfs"), 1, 1),
                   lambda: os.utime(mount.p(".ttlfs/pass"), (1, 1)), lambda: os.mkfifo(mount.p(".ttlfs/x")),
                   lambda: os.setxattr(mount.p(".ttlfs"), "user.ttl.idle", b"5")):
        with raises_errno(errno.EPERM, errno.EACCES, errno.EEXIST, errno.EOPNOTSUPP, errno.EXDEV, errno.EBUSY, errno.EROFS):
            action()
