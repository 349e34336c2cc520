"""Extended attributes of every namespace, with Linux's limits and errors (issue 2, item 1). As on tmpfs."""
import ctypes
import errno
import os
import random
import stat
import struct

import pytest

from conftest import raises_errno
from targets import IS_ROOT, LIBC, checked, fs, is_tmpfs, noise

CAPABILITY = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)  # cap_net_bind_service, permitted and effective
SPACES = ["user."] + (["trusted.", "security."] if IS_ROOT else [])


@pytest.fixture
def file(fs):
    path = fs / "file"
    path.write_bytes(noise(10_000))
    return path


def everything(path):
    return {name: os.getxattr(path, name) for name in os.listxattr(path)}


@pytest.mark.parametrize("space", SPACES)
def test_create_replace_remove(fs, file, space):
    (fs / "dir").mkdir()
    for path in (file, fs / "dir"):
        name = space + "name"
        for action in (lambda: os.getxattr(path, name), lambda: os.removexattr(path, name),
                       lambda: os.setxattr(path, name, b"1", os.XATTR_REPLACE)):
            with raises_errno(errno.ENODATA):
                action()
        os.setxattr(path, name, b"1", os.XATTR_CREATE)
        with raises_errno(errno.EEXIST):
            os.setxattr(path, name, b"2", os.XATTR_CREATE)
        with raises_errno(errno.EEXIST):
            os.setxattr(path, name, b"2", os.XATTR_CREATE | os.XATTR_REPLACE)
        assert everything(path) == {name: b"1"}
        os.setxattr(path, name, b"22", os.XATTR_REPLACE)
        os.setxattr(path, name, b"333")
        os.setxattr(path, name + "2", b"")
        assert everything(path) == {name: b"333", name + "2": b""}
        os.removexattr(path, name)
        assert everything(path) == {name + "2": b""}
        with raises_errno(errno.EINVAL):
            os.setxattr(path, name, b"1", 4)


@pytest.mark.parametrize("space", SPACES)
def test_nothing_behind_the_namespace(file, space):
    for action in (lambda: os.setxattr(file, space, b"1"), lambda: os.getxattr(file, space),
                   lambda: os.removexattr(file, space)):
        with raises_errno(errno.EINVAL):
            action()


def test_other_namespaces(file):
    for name in ("name", "usr.name", "user", "User.name", "system.name", "security", "btrfs.x", "."):
        with raises_errno(errno.EOPNOTSUPP):
            os.setxattr(file, name, b"1")
        with raises_errno(errno.EOPNOTSUPP):
            os.getxattr(file, name)
        with raises_errno(errno.EOPNOTSUPP):
            os.removexattr(file, name)
    with raises_errno(errno.ERANGE):
        os.setxattr(file, "", b"1")


@pytest.mark.parametrize("space", SPACES)
def test_names_are_bytes(file, space):
    names = [space + "\udcff\udc80", space + "a b", space + "a\nb", space + ".", space + "/", space + "=\"'"]
    for number, name in enumerate(names):
        os.setxattr(file, name, b"%d" % number)
    assert everything(file) == {name: b"%d" % number for number, name in enumerate(names)}


@pytest.mark.parametrize("space", SPACES)
def test_limits(file, space):
    longest = space + "n" * (255 - len(space))
    os.setxattr(file, longest, b"1")
    for action in (lambda: os.setxattr(file, longest + "n", b"1"), lambda: os.getxattr(file, longest + "n"),
                   lambda: os.removexattr(file, longest + "n")):
        with raises_errno(errno.ERANGE):
            action()
    largest = noise(65536)
    os.setxattr(file, longest, largest)
    assert os.getxattr(file, longest) == largest
    with raises_errno(errno.E2BIG):
        os.setxattr(file, longest, largest + b"1")
    assert os.getxattr(file, longest) == largest
    os.setxattr(file, longest, b"")
    assert os.getxattr(file, longest) == b""


def test_buffers(file):
    path, size = os.fsencode(file), ctypes.c_size_t
    buffer = ctypes.create_string_buffer(70_000)
    os.setxattr(file, "user.a", b"0123456789")
    os.setxattr(file, "user.empty", b"")
    assert checked(LIBC.getxattr(path, b"user.a", None, size(0))) == 10
    assert checked(LIBC.getxattr(path, b"user.a", buffer, size(70_000))) == 10
    assert buffer.raw[:10] == b"0123456789"
    for short in (1, 9):
        with raises_errno(errno.ERANGE):
            checked(LIBC.getxattr(path, b"user.a", buffer, size(short)))
    assert checked(LIBC.getxattr(path, b"user.empty", buffer, size(1))) == 0
    assert checked(LIBC.getxattr(path, b"user.empty", None, size(0))) == 0
    assert checked(LIBC.listxattr(path, None, size(0))) == 18
    assert checked(LIBC.listxattr(path, buffer, size(18))) == 18
    for short in (1, 17):
        with raises_errno(errno.ERANGE):
            checked(LIBC.listxattr(path, buffer, size(short)))


def test_a_list_of_64_kib(fs, file):
    """More than listxattr can give is E2BIG there; ttlfs takes no more than that. Each name is 256 bytes with its
    NUL: 256 of them fit exactly."""
    def name(number):
        return f"user.{number:03}" + "n" * 247

    for number in range(256):
        os.setxattr(file, name(number), b"")
    assert sorted(os.listxattr(file)) == [name(number) for number in range(256)]
    if is_tmpfs(fs):
        os.setxattr(file, name(256), b"")
        with raises_errno(errno.E2BIG):
            checked(LIBC.listxattr(os.fsencode(file), ctypes.create_string_buffer(65536), ctypes.c_size_t(65536)))
    else:
        with raises_errno(errno.ENOSPC):
            os.setxattr(file, name(256), b"")
    os.removexattr(file, name(0))
    os.setxattr(file, name(256), b"1")
    assert sorted(os.listxattr(file)) == [name(number) for number in range(1, 257)]


def test_many_large_ones(file):
    model = {f"user.{number}": noise(65536, number) for number in range(40)}
    for name, value in model.items():
        os.setxattr(file, name, value)
    assert everything(file) == model


@pytest.mark.root
def test_kinds_of_files(fs):
    """user. is for files and directories; the other two are for everything."""
    os.mkfifo(fs / "fifo")
    os.mknod(fs / "socket", stat.S_IFSOCK | 0o644)
    os.mknod(fs / "device", stat.S_IFCHR | 0o644, os.makedev(1, 3))
    os.symlink("nowhere", fs / "link")
    for name in ("fifo", "socket", "device", "link"):
        with raises_errno(errno.EPERM):
            os.setxattr(fs / name, "user.x", b"1", follow_symlinks=False)
        with raises_errno(errno.ENODATA):
            os.getxattr(fs / name, "user.x", follow_symlinks=False)
        with raises_errno(errno.EPERM):
            os.removexattr(fs / name, "user.x", follow_symlinks=False)
        for space in ("trusted.", "security."):
            os.setxattr(fs / name, space + "x", b"1", follow_symlinks=False)
            assert os.getxattr(fs / name, space + "x", follow_symlinks=False) == b"1"
        assert sorted(os.listxattr(fs / name, follow_symlinks=False)) == ["security.x", "trusted.x"]
        os.removexattr(fs / name, "trusted.x", follow_symlinks=False)


def test_links_share_them(fs, file):
    os.link(file, fs / "second")
    os.symlink("file", fs / "symlink")
    os.setxattr(fs / "symlink", "user.x", b"1")
    assert os.getxattr(fs / "second", "user.x") == b"1"
    os.removexattr(fs / "second", "user.x")
    assert os.listxattr(file) == []


def test_read_only_descriptors(file):
    fd = os.open(file, os.O_RDONLY)
    os.setxattr(fd, "user.x", b"1")
    os.removexattr(fd, "user.x")
    os.close(fd)
    fd = os.open(file, os.O_PATH)
    with raises_errno(errno.EBADF):
        os.setxattr(fd, "user.x", b"1")
    with raises_errno(errno.EBADF):
        os.listxattr(fd)
    os.close(fd)


# File capabilities

def write(path):
    fd = os.open(path, os.O_RDWR)
    os.write(fd, b"y")
    os.close(fd)


def shorten(path):
    fd = os.open(path, os.O_WRONLY)
    os.ftruncate(fd, 5)
    os.close(fd)


CLEARING = {
    "write": write,
    "truncate": lambda path: os.truncate(path, 5),
    "ftruncate": shorten,
    "O_TRUNC": lambda path: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)),
    "chown": lambda path: os.chown(path, 5001, -1),
}
KEEPING = {
    "read": lambda path: path.read_bytes(),
    "open": lambda path: os.close(os.open(path, os.O_RDWR)),
    "chmod": lambda path: os.chmod(path, 0o711),
    "utime": os.utime,
    "setxattr": lambda path: os.setxattr(path, "user.x", b"1"),
    "rename": lambda path: (os.rename(path, f"{path}.2"), os.rename(f"{path}.2", path)),
    "link": lambda path: os.link(path, f"{path}.2"),
}


@pytest.mark.root
def test_capabilities(fs):
    for action, function in {**CLEARING, **KEEPING}.items():
        path = fs / action
        path.write_bytes(noise(1000))
        os.setxattr(path, "security.capability", CAPABILITY)
        os.setxattr(path, "security.other", b"stays")
        function(path)
        names = os.listxattr(path)
        assert "security.other" in names
        assert ("security.capability" in names) == (action in KEEPING), action


@pytest.mark.root
def test_a_capability_is_checked_by_the_kernel(file):
    with raises_errno(errno.EINVAL):
        os.setxattr(file, "security.capability", b"nonsense")
    os.setxattr(file, "security.capability", CAPABILITY)
    assert os.getxattr(file, "security.capability") == CAPABILITY


# Stores

def test_they_survive(make_mount):
    m = make_mount("dir")
    m.write("file", "x")
    os.mkdir(m.p("dir"))
    os.symlink("x", m.p("link"))
    model = {f"{space}{number}": noise(number * 900, number) for space in SPACES for number in range(8)}
    for name, value in model.items():
        for path in ("file", "dir", "."):
            os.setxattr(m.p(path), name, value)
        if not name.startswith("user."):
            os.setxattr(m.p("link"), name, value, follow_symlinks=False)
    m.remount()
    for path in ("file", "dir", "."):
        assert everything(m.p(path)) == model
        for name in list(model)[::2]:
            os.removexattr(m.p(path), name)
    fd = os.open(m.p("file"), os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    m.kill9()
    m.start()
    left = {name: model[name] for name in list(model)[1::2]}
    for path in ("file", "dir", "."):
        assert everything(m.p(path)) == left
    assert sorted(os.listxattr(m.p("link"), follow_symlinks=False)) == \
        sorted(name for name in model if not name.startswith("user."))


@pytest.mark.tsan
def test_random_changes(fs, file):
    """What was said last is what is there."""
    rng = random.Random(5)
    names = [f"{rng.choice(SPACES)}{rng.choice('abcdefgh') * rng.randrange(1, 40)}{number}" for number in range(25)]
    model = {}
    for step in range(400):
        name, value = rng.choice(names), noise(rng.choice([0, 1, 20, 300, 5000]), step)
        flags = rng.choice([0, 0, os.XATTR_CREATE, os.XATTR_REPLACE])
        want = None
        if rng.random() < 0.3:
            want = None if name in model else errno.ENODATA
            action = lambda: os.removexattr(file, name)
            if not want:
                del model[name]
        else:
            action = lambda: os.setxattr(file, name, value, flags)
            if flags == os.XATTR_CREATE and name in model:
                want = errno.EEXIST
            elif flags == os.XATTR_REPLACE and name not in model:
                want = errno.ENODATA
            else:
                model[name] = value
        if want:
            with raises_errno(want):
                action()
        else:
            action()
        if step % 10 == 0:
            assert everything(file) == model
    assert everything(file) == model
