"""Attributes of files (spec 2): modes, owners, times and extended attributes."""
import ctypes
import errno
import os
import pathlib
import stat
import time

import pytest

from conftest import raises_errno, run, run_as
from targets import AT_FDCWD, LIBC, MIB, checked, fs, noise, tick

# Attributes

def test_chmod(fs):
    (fs / "file").write_text("x")
    (fs / "dir").mkdir()
    for mode in (0, 0o400, 0o644, 0o1777, 0o4755, 0o7777):
        os.chmod(fs / "file", mode)
        os.chmod(fs / "dir", mode)
        assert stat.S_IMODE((fs / "file").stat().st_mode) == mode
        assert stat.S_IMODE((fs / "dir").stat().st_mode) == mode
    os.chmod(fs / "dir", 0o755)
    os.chmod(fs / "file", 0o644)
    fd = os.open(fs / "file", os.O_RDWR)
    os.fchmod(fd, 0o611)
    assert stat.S_IMODE(os.fstat(fd).st_mode) == 0o611
    os.close(fd)


def test_umask(fs):
    before = os.umask(0o027)
    try:
        os.close(os.open(fs / "file", os.O_CREAT | os.O_WRONLY, 0o666))
        os.mkdir(fs / "dir", 0o777)
        os.mkfifo(fs / "fifo", 0o666)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((fs / name).stat().st_mode) for name in ("file", "dir", "fifo")]
    assert modes == [0o640, 0o750, 0o640]
    assert (fs / "file").stat().st_uid == os.geteuid() and (fs / "file").stat().st_gid == os.getegid()


@pytest.mark.parametrize("times", [(1, 2), (1_700_000_000_123_456_789, 1_600_000_000_987_654_321),
                                   (-315_619_200_000_000_001, -1), (9_200_000_000_000_000_001, 4_294_967_296_000_000_001)],
                         ids=["1970", "today", "1960", "2261"])
def test_utimens_to_the_nanosecond(fs, times):
    (fs / "file").write_text("x")
    (fs / "dir").mkdir()
    os.symlink("x", fs / "link")
    for name in ("file", "dir", "link"):
        os.utime(fs / name, ns=times, follow_symlinks=False)
    for name in ("file", "dir", "link"):
        found = os.lstat(fs / name)
        assert (found.st_atime_ns, found.st_mtime_ns) == times, name


def test_utimens_now_and_omit(fs):
    class Timespec(ctypes.Structure):
        _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]

    utime_now, utime_omit = (1 << 30) - 1, (1 << 30) - 2
    (fs / "file").write_text("x")
    os.utime(fs / "file", ns=(1000, 2000))
    both = (Timespec * 2)(Timespec(0, utime_omit), Timespec(0, utime_now))
    checked(LIBC.utimensat(AT_FDCWD, os.fsencode(fs / "file"), both, 0))
    found = (fs / "file").stat()
    assert found.st_atime_ns == 1000
    assert abs(found.st_mtime - time.time()) < 5
    both = (Timespec * 2)(Timespec(7, 8), Timespec(0, utime_omit))
    checked(LIBC.utimensat(AT_FDCWD, os.fsencode(fs / "file"), both, 0))
    assert (fs / "file").stat().st_atime_ns == 7_000_000_008
    assert (fs / "file").stat().st_mtime_ns == found.st_mtime_ns


def test_mtime_and_ctime_of_files(fs):
    path = fs / "file"

    def stamps():
        found = path.stat()
        return found.st_mtime_ns, found.st_ctime_ns

    def moved(action):
        before = stamps()
        tick()
        action()
        after = stamps()
        return after[0] > before[0], after[1] > before[1]

    path.write_text("x")
    assert moved(lambda: path.write_text("y")) == (True, True)
    assert moved(lambda: os.truncate(path, 10)) == (True, True)
    assert moved(lambda: path.chmod(0o600)) == (False, True)
    assert moved(lambda: os.chown(path, os.getuid(), os.getgid())) == (False, True)
    assert moved(lambda: os.setxattr(path, "user.x", b"1")) == (False, True)
    assert moved(lambda: os.removexattr(path, "user.x")) == (False, True)
    assert moved(lambda: os.link(path, fs / "link")) == (False, True)
    assert moved(lambda: os.unlink(fs / "link")) == (False, True)
    assert moved(path.read_bytes) == (False, False)
    assert moved(lambda: os.listdir(fs)) == (False, False)


def test_mtime_of_directories(fs):
    top = fs / "d"
    top.mkdir()
    (top / "old").write_text("x")

    def moved(action):
        before = top.stat()
        tick()
        action()
        after = top.stat()
        return after.st_mtime_ns > before.st_mtime_ns and after.st_ctime_ns > before.st_ctime_ns

    assert moved(lambda: (top / "file").write_text("x"))
    assert moved((top / "sub").mkdir)
    assert moved(lambda: os.symlink("x", top / "link"))
    assert moved(lambda: os.mkfifo(top / "fifo"))
    assert moved(lambda: os.link(top / "file", top / "hard"))
    assert moved(lambda: os.rename(top / "file", top / "renamed"))
    assert moved(lambda: os.rename(top / "renamed", fs / "out"))
    assert moved(lambda: os.rename(fs / "out", top / "in"))
    assert moved(lambda: os.unlink(top / "in"))
    assert moved(lambda: os.rmdir(top / "sub"))
    assert not moved(lambda: (top / "old").write_text("y"))
    assert not moved(lambda: os.listdir(top))


def test_explicit_times_survive_reading_and_renaming(fs):
    path = fs / "file"
    path.write_text("x")
    os.utime(path, ns=(5, 6))
    os.rename(path, fs / "other")
    (fs / "other").read_text()
    assert (fs / "other").stat().st_mtime_ns == 6


def test_inode_numbers(fs):
    numbers = set()
    for number in range(100):
        (fs / f"f{number}").touch()
        numbers.add((fs / f"f{number}").stat().st_ino)
    (fs / "dir").mkdir()
    numbers |= {(fs / "dir").stat().st_ino, fs.stat().st_ino}
    assert len(numbers) == 102 and 0 not in numbers
    assert os.stat(fs / "dir" / "..").st_ino == fs.stat().st_ino
    with os.scandir(fs) as entries:
        assert {entry.inode() for entry in entries} | {fs.stat().st_ino} == numbers
    assert len({(fs / name).stat().st_dev for name in ("f0", "dir", ".")}) == 1


def test_blocks_tell_the_space(fs):
    (fs / "file").write_bytes(noise(MIB))
    blocks = (fs / "file").stat().st_blocks
    assert MIB <= blocks * 512 <= 2 * MIB
    run("du", fs)


def test_statfs(fs):
    found = os.statvfs(fs)
    assert found.f_namemax == 255
    assert found.f_bsize >= 512 and found.f_frsize >= 512
    assert 0 < found.f_bavail <= found.f_bfree <= found.f_blocks
    assert 0 <= found.f_ffree <= found.f_files  # both 0 where there is no limit, as on tmpfs with nr_inodes=0
    run("df", fs)


# Extended attributes

def test_xattrs(fs):
    (fs / "file").write_text("x")
    (fs / "dir").mkdir()
    for path in (fs / "file", fs / "dir"):
        assert os.listxattr(path) == []
        os.setxattr(path, "user.plain", b"text")
        os.setxattr(path, "user.binary", b"\0\xff\0")
        os.setxattr(path, "user.empty", b"")
        assert os.getxattr(path, "user.plain") == b"text"
        assert os.getxattr(path, "user.binary") == b"\0\xff\0"
        assert os.getxattr(path, "user.empty") == b""
        assert sorted(os.listxattr(path)) == ["user.binary", "user.empty", "user.plain"]
        with raises_errno(errno.EEXIST):
            os.setxattr(path, "user.plain", b"other", os.XATTR_CREATE)
        with raises_errno(errno.ENODATA):
            os.setxattr(path, "user.new", b"other", os.XATTR_REPLACE)
        assert os.getxattr(path, "user.plain") == b"text"
        os.setxattr(path, "user.plain", b"changed", os.XATTR_REPLACE)
        os.setxattr(path, "user.new", b"created", os.XATTR_CREATE)
        assert os.getxattr(path, "user.plain") == b"changed"
        os.removexattr(path, "user.binary")
        with raises_errno(errno.ENODATA):
            os.getxattr(path, "user.binary")
        with raises_errno(errno.ENODATA):
            os.removexattr(path, "user.binary")
        assert sorted(os.listxattr(path)) == ["user.empty", "user.new", "user.plain"]
    with raises_errno(errno.EOPNOTSUPP):
        os.setxattr(fs / "file", "nonsense", b"x")
    with raises_errno(errno.ENOENT):
        os.setxattr(fs / "missing", "user.x", b"x")


def test_xattr_sizes(fs):
    path = fs / "file"
    path.write_text("x")
    large = noise(65536)
    os.setxattr(path, "user.large", large)
    assert os.getxattr(path, "user.large") == large
    with raises_errno(errno.E2BIG):
        os.setxattr(path, "user.larger", large + b"x")
    os.setxattr(path, "user." + "n" * 250, b"long name")
    assert os.getxattr(path, "user." + "n" * 250) == b"long name"
    with raises_errno(errno.ERANGE):
        os.setxattr(path, "user." + "n" * 251, b"too long")
    os.setxattr(path, "user.large", b"small now")
    assert os.getxattr(path, "user.large") == b"small now"


def test_xattr_buffers(fs):
    path = os.fsencode(fs / "file")
    (fs / "file").write_text("x")
    os.setxattr(path, "user.a", b"0123456789")
    buffer = ctypes.create_string_buffer(100)
    size = ctypes.c_size_t
    assert checked(LIBC.getxattr(path, b"user.a", None, size(0))) == 10
    assert checked(LIBC.getxattr(path, b"user.a", buffer, size(10))) == 10
    with raises_errno(errno.ERANGE):
        checked(LIBC.getxattr(path, b"user.a", buffer, size(9)))
    assert checked(LIBC.listxattr(path, None, size(0))) == 7
    assert checked(LIBC.listxattr(path, buffer, size(7))) == 7
    with raises_errno(errno.ERANGE):
        checked(LIBC.listxattr(path, buffer, size(6)))


def test_many_xattrs(fs):
    path = fs / "file"
    path.write_text("x")
    model = {f"user.key{number}": noise(number * 3, number) for number in range(200)}
    for name, value in model.items():
        os.setxattr(path, name, value)
    for name in list(model)[::3]:
        os.removexattr(path, name)
        del model[name]
    assert {name: os.getxattr(path, name) for name in os.listxattr(path)} == model


def test_xattrs_follow_the_file(fs):
    (fs / "a").write_text("x")
    os.setxattr(fs / "a", "user.x", b"1")
    os.rename(fs / "a", fs / "b")
    assert os.getxattr(fs / "b", "user.x") == b"1"
    fd = os.open(fs / "b", os.O_RDWR)
    os.unlink(fs / "b")
    os.setxattr(fd, "user.y", b"2")
    assert sorted(os.listxattr(fd)) == ["user.x", "user.y"]
    os.close(fd)
    (fs / "b").write_text("new")
    assert os.listxattr(fs / "b") == []
    os.setxattr(fs / "b", "user.x", b"1")
    (fs / "b").write_text("overwritten")
    assert os.getxattr(fs / "b", "user.x") == b"1"


def test_cp_and_mv_keep_xattrs(fs):
    (fs / "a").write_text("x")
    os.setxattr(fs / "a", "user.x", b"1")
    run("cp", "-a", fs / "a", fs / "b")
    run("mv", fs / "b", fs / "c")
    assert os.getxattr(fs / "c", "user.x") == b"1"
    run("cp", fs / "a", fs / "plain")
    assert os.listxattr(fs / "plain") == []


@pytest.mark.root
def test_trusted_xattrs(fs):
    (fs / "file").write_text("x")
    (fs / "file").chmod(0o666)
    os.setxattr(fs / "file", "trusted.x", b"1")
    assert os.getxattr(fs / "file", "trusted.x") == b"1"
    assert run_as(fs, 12345, lambda: os.listxattr("file")) == []


# Owners and permissions

ANN, BOB, STAFF = 21001, 21002, 21050


@pytest.fixture
def shared(fs):
    """A directory open to all."""
    (fs / "shared").mkdir()
    (fs / "shared").chmod(0o777)
    return fs / "shared"


@pytest.mark.root
def test_chown(fs):
    (fs / "file").write_text("x")
    (fs / "file").chmod(0o6755)
    os.symlink("file", fs / "link")
    os.chown(fs / "file", ANN, STAFF)
    found = (fs / "file").stat()
    assert (found.st_uid, found.st_gid) == (ANN, STAFF)
    assert stat.S_IMODE(found.st_mode) == 0o755, "a change of owner takes the set-id bits away"
    os.chown(fs / "file", -1, BOB)
    os.chown(fs / "link", BOB, -1, follow_symlinks=False)
    found = (fs / "file").stat()
    assert (found.st_uid, found.st_gid) == (ANN, BOB)
    assert os.lstat(fs / "link").st_uid == BOB


@pytest.mark.root
def test_creator_owns(shared):
    def create():
        os.umask(0o022)
        pathlib.Path("file").touch()
        os.mkdir("dir")
        os.symlink("x", "link")
        os.mkfifo("fifo")

    run_as(shared, ANN, create, gid=STAFF)
    for name in ("file", "dir", "link", "fifo"):
        found = os.lstat(shared / name)
        assert (found.st_uid, found.st_gid) == (ANN, STAFF), name


@pytest.mark.root
def test_setgid_directory(shared):
    os.chown(shared, 0, STAFF)
    shared.chmod(0o2777)

    def create():
        os.umask(0o022)
        pathlib.Path("file").touch()
        os.mkdir("sub")
        pathlib.Path("sub/file").touch()
        os.symlink("x", "link")

    run_as(shared, ANN, create)
    for name in ("file", "sub", "sub/file", "link"):
        assert os.lstat(shared / name).st_gid == STAFF, name
    assert stat.S_IMODE((shared / "sub").stat().st_mode) == 0o2755
    assert stat.S_IMODE((shared / "file").stat().st_mode) == 0o644


@pytest.mark.root
def test_permissions(shared):
    (shared / "secret").write_text("x")
    (shared / "secret").chmod(0o600)
    (shared / "closed").mkdir(mode=0o700)
    (shared / "group").write_text("y")
    (shared / "group").chmod(0o640)
    os.chown(shared / "group", 0, STAFF)
    with raises_errno(errno.EACCES):
        run_as(shared, ANN, lambda: os.open("secret", os.O_RDONLY))
    with raises_errno(errno.EACCES):
        run_as(shared, ANN, lambda: os.listdir("closed"))
    with raises_errno(errno.EACCES):
        run_as(shared, ANN, lambda: os.stat("closed/x"))
    with raises_errno(errno.EPERM):
        run_as(shared, ANN, lambda: os.chmod("secret", 0o666))
    with raises_errno(errno.EPERM):
        run_as(shared, ANN, lambda: os.utime("secret", ns=(1, 1)))
    with raises_errno(errno.EACCES):
        run_as(shared, ANN, lambda: os.getxattr("secret", "user.x"))
    with raises_errno(errno.EACCES):
        run_as(shared, ANN, lambda: os.setxattr("group", "user.x", b"1"))
    with raises_errno(errno.EACCES):
        run_as(shared, ANN, lambda: os.open("group", os.O_RDONLY))
    run_as(shared, ANN, lambda: os.close(os.open("group", os.O_RDONLY)), groups=[STAFF])
    shared.chmod(0o755)
    with raises_errno(errno.EACCES):
        run_as(shared, ANN, lambda: os.mkdir("new"))
    with raises_errno(errno.EACCES):
        run_as(shared, ANN, lambda: os.unlink("secret"))


@pytest.mark.root
def test_sticky_directory(shared):
    shared.chmod(0o1777)
    run_as(shared, ANN, pathlib.Path("ann's").touch)
    for attempt in (lambda: os.unlink("ann's"), lambda: os.rename("ann's", "bob's")):
        with raises_errno(errno.EPERM):
            run_as(shared, BOB, attempt)
    run_as(shared, ANN, lambda: os.unlink("ann's"))


@pytest.mark.root
@pytest.mark.parametrize("action", ["write", "truncate", "append"])
def test_set_id_bits_go_when_another_writes(shared, action):
    (shared / "file").write_text("x")
    os.chown(shared / "file", ANN, STAFF)
    (shared / "file").chmod(0o6777)

    def change():
        if action == "truncate":
            os.truncate("file", 0)
            return
        fd = os.open("file", os.O_WRONLY | (os.O_APPEND if action == "append" else 0))
        os.write(fd, b"changed")
        os.close(fd)

    run_as(shared, BOB, change)
    assert stat.S_IMODE((shared / "file").stat().st_mode) == 0o777
