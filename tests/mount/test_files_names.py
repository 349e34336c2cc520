"""Names (spec 2): rename, links, directories, and what a name may be."""
import ctypes
import errno
import os
import shutil
import stat
import threading
import time

import pytest

from conftest import raises_errno, run
from targets import LIBC, RENAME_EXCHANGE, RENAME_NOREPLACE, content, fs, noise, renameat2

# Rename

def test_rename(fs):
    (fs / "a").write_text("content")
    number = (fs / "a").stat().st_ino
    (fs / "d").mkdir()
    os.rename(fs / "a", fs / "d" / "b")
    assert not (fs / "a").exists()
    assert content(fs / "d" / "b") == b"content"
    assert (fs / "d" / "b").stat().st_ino == number
    with raises_errno(errno.ENOENT):
        os.rename(fs / "a", fs / "c")
    with raises_errno(errno.ENOENT):
        os.rename(fs / "d" / "b", fs / "missing" / "b")


def test_rename_replaces(fs):
    (fs / "old").write_text("old")
    (fs / "new").write_text("new")
    reader = os.open(fs / "old", os.O_RDWR)
    writer = os.open(fs / "new", os.O_RDWR)
    os.rename(fs / "new", fs / "old")
    assert content(fs / "old") == b"new"
    assert os.read(reader, 10) == b"old" and os.fstat(reader).st_nlink == 0
    os.pwrite(reader, b"OLD", 0)
    os.pwrite(writer, b"NEW", 0)
    assert os.pread(reader, 10, 0) == b"OLD"
    os.close(reader)
    os.close(writer)
    assert content(fs / "old") == b"NEW"
    assert os.listdir(fs) == ["old"]


def test_rename_of_links_to_the_same_file_does_nothing(fs):
    (fs / "a").write_text("x")
    os.link(fs / "a", fs / "b")
    os.rename(fs / "a", fs / "b")
    assert sorted(os.listdir(fs)) == ["a", "b"]
    assert (fs / "a").stat().st_nlink == 2


def test_rename_noreplace(fs):
    (fs / "a").write_text("a")
    (fs / "b").write_text("b")
    with raises_errno(errno.EEXIST):
        renameat2(fs / "a", fs / "b", RENAME_NOREPLACE)
    assert content(fs / "a") == b"a" and content(fs / "b") == b"b"
    renameat2(fs / "a", fs / "c", RENAME_NOREPLACE)
    assert content(fs / "c") == b"a" and not (fs / "a").exists()


def test_rename_exchange(fs):
    (fs / "d1").mkdir()
    (fs / "d2").mkdir()
    (fs / "d1" / "file").write_text("file")
    (fs / "d2" / "dir").mkdir()
    (fs / "d2" / "dir" / "inner").write_text("inner")
    renameat2(fs / "d1" / "file", fs / "d2" / "dir", RENAME_EXCHANGE)
    assert content(fs / "d2" / "dir") == b"file"
    assert content(fs / "d1" / "file" / "inner") == b"inner"
    assert (fs / "d1").stat().st_nlink == 3 and (fs / "d2").stat().st_nlink == 2
    assert os.stat(fs / "d1" / "file" / "..").st_ino == (fs / "d1").stat().st_ino
    with raises_errno(errno.ENOENT):
        renameat2(fs / "d1", fs / "missing", RENAME_EXCHANGE)
    with raises_errno(errno.EINVAL):
        renameat2(fs / "d1", fs / "d2", RENAME_EXCHANGE | RENAME_NOREPLACE)
    with raises_errno(errno.EINVAL):
        renameat2(fs / "d1", fs / "d1" / "file", RENAME_EXCHANGE)


def test_rename_of_directories(fs):
    (fs / "a" / "b" / "c").mkdir(parents=True)
    (fs / "a" / "file").write_text("x")
    (fs / "empty").mkdir()
    (fs / "full" / "x").mkdir(parents=True)
    (fs / "plain").write_text("y")
    with raises_errno(errno.EINVAL):
        os.rename(fs / "a", fs / "a" / "b" / "inside")
    with raises_errno(errno.ENOTEMPTY):
        os.rename(fs / "a" / "b", fs / "a")
    with raises_errno(errno.ENOTEMPTY):
        os.rename(fs / "a", fs / "full")
    with raises_errno(errno.ENOTDIR):
        os.rename(fs / "a", fs / "plain")
    with raises_errno(errno.EISDIR):
        os.rename(fs / "plain", fs / "empty")
    os.rename(fs / "a", fs / "empty")
    assert sorted(os.listdir(fs)) == ["empty", "full", "plain"]
    assert sorted(os.listdir(fs / "empty")) == ["b", "file"]
    links = fs.stat().st_nlink
    os.rename(fs / "empty" / "b", fs / "b")
    assert fs.stat().st_nlink == links + 1
    assert (fs / "empty").stat().st_nlink == 2
    assert os.stat(fs / "b" / "..").st_ino == fs.stat().st_ino


def test_rename_of_an_open_file(fs):
    fd = os.open(fs / "a", os.O_CREAT | os.O_RDWR, 0o644)
    os.write(fd, b"one ")
    (fs / "d").mkdir()
    os.rename(fs / "a", fs / "d" / "b")
    os.rename(fs / "d", fs / "e")
    os.write(fd, b"two")
    os.close(fd)
    assert content(fs / "e" / "b") == b"one two"


@pytest.mark.tsan
def test_rename_swaps_are_never_seen_half_done(fs):
    """Whoever opens the name finds one whole version or the other, never nothing."""
    path = fs / "current"
    path.write_bytes(b"0" * 3000)
    stop = threading.Event()
    seen = []

    def read():
        while not stop.is_set():
            seen.append(set(path.read_bytes()))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(200):
        (fs / "next").write_bytes(b"%d" % (number % 10) * 3000)
        os.rename(fs / "next", path)
    stop.set()
    reader.join()
    assert seen and all(len(values) == 1 for values in seen)


# Links

def test_hard_links(fs):
    (fs / "d").mkdir()
    (fs / "a").write_text("one")
    os.link(fs / "a", fs / "d" / "b")
    assert (fs / "a").stat().st_ino == (fs / "d" / "b").stat().st_ino
    assert (fs / "a").stat().st_nlink == 2
    (fs / "d" / "b").write_text("two, longer")
    assert content(fs / "a") == b"two, longer"
    os.chmod(fs / "a", 0o604)
    os.setxattr(fs / "a", "user.mark", b"here")
    assert stat.S_IMODE((fs / "d" / "b").stat().st_mode) == 0o604
    assert os.getxattr(fs / "d" / "b", "user.mark") == b"here"
    os.unlink(fs / "a")
    assert (fs / "d" / "b").stat().st_nlink == 1
    assert content(fs / "d" / "b") == b"two, longer"
    with raises_errno(errno.EPERM):
        os.link(fs / "d", fs / "e")
    with raises_errno(errno.ENOENT):
        os.link(fs / "a", fs / "e")
    (fs / "x").write_text("x")
    with raises_errno(errno.EEXIST):
        os.link(fs / "x", fs / "d" / "b")


def test_many_hard_links(fs):
    (fs / "file").write_text("x")
    for number in range(500):
        os.link(fs / "file", fs / f"link{number}")
    assert (fs / "file").stat().st_nlink == 501
    for number in range(500):
        os.unlink(fs / f"link{number}")
    assert (fs / "file").stat().st_nlink == 1


def test_symlinks(fs):
    target = "t" * 4095
    os.symlink(target, fs / "long")
    assert os.readlink(fs / "long") == target
    assert os.lstat(fs / "long").st_size == 4095
    with raises_errno(errno.ENAMETOOLONG):
        os.symlink("t" * 4096, fs / "longer")
    with raises_errno(errno.ENOENT):
        os.symlink("", fs / "empty")
    (fs / "dir").mkdir()
    os.symlink("dir", fs / "to-dir")
    (fs / "to-dir" / "file").write_text("through")
    assert content(fs / "dir" / "file") == b"through"
    os.symlink("../to-dir/file", fs / "dir" / "back")
    assert content(fs / "dir" / "back") == b"through"
    os.symlink("loop", fs / "loop")
    with raises_errno(errno.ELOOP):
        os.stat(fs / "loop")
    with raises_errno(errno.EEXIST):
        os.symlink("x", fs / "loop")
    with raises_errno(errno.EINVAL):
        os.readlink(fs / "dir")
    with raises_errno(errno.EPERM):
        os.setxattr(fs / "loop", "user.x", b"1", follow_symlinks=False)
    os.utime(fs / "to-dir", ns=(1, 2), follow_symlinks=False)
    assert os.lstat(fs / "to-dir").st_mtime_ns == 2 and os.stat(fs / "to-dir").st_mtime_ns != 2
    assert stat.S_IMODE(os.lstat(fs / "to-dir").st_mode) == 0o777
    os.link(fs / "to-dir", fs / "same", follow_symlinks=False)
    assert os.readlink(fs / "same") == "dir"
    os.symlink(b"\xff\n\x01", os.fsencode(fs) + b"/bytes")
    assert os.readlink(os.fsencode(fs) + b"/bytes") == b"\xff\n\x01"
    os.unlink(fs / "to-dir")
    assert (fs / "dir").is_dir()


def test_unlink_of_an_open_file(fs):
    path = fs / "file"
    data = noise(100_000)
    path.write_bytes(data)
    fd = os.open(path, os.O_RDWR)
    number = os.fstat(fd).st_ino
    os.unlink(path)
    assert not path.exists() and os.listdir(fs) == []
    assert os.fstat(fd).st_nlink == 0
    assert os.pread(fd, len(data), 0) == data
    os.pwrite(fd, b"more", 200_000)
    os.fchmod(fd, 0o600)
    assert os.fstat(fd).st_size == 200_004
    os.ftruncate(fd, 10)
    path.write_text("another")
    assert path.stat().st_ino != number
    assert os.pread(fd, 100, 0) == data[:10]
    os.close(fd)
    assert content(path) == b"another"


def test_unlink_errors(fs):
    (fs / "dir").mkdir()
    with raises_errno(errno.EISDIR):
        os.unlink(fs / "dir")
    with raises_errno(errno.ENOENT):
        os.unlink(fs / "missing")


# Directories

def test_rmdir(fs):
    (fs / "d" / "sub").mkdir(parents=True)
    (fs / "file").write_text("x")
    with raises_errno(errno.ENOTEMPTY):
        os.rmdir(fs / "d")
    with raises_errno(errno.ENOTDIR):
        os.rmdir(fs / "file")
    with raises_errno(errno.ENOENT):
        os.rmdir(fs / "missing")
    with raises_errno(errno.EEXIST):
        os.mkdir(fs / "d")
    with raises_errno(errno.EEXIST):
        os.mkdir(fs / "file")
    held = os.open(fs / "d" / "sub", os.O_RDONLY | os.O_DIRECTORY)
    os.rmdir(fs / "d" / "sub")
    assert os.listdir(held) == []
    with raises_errno(errno.ENOENT):
        os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=held)
    assert os.fstat(held).st_nlink == 0
    os.close(held)
    os.rmdir(fs / "d")
    assert os.listdir(fs) == ["file"]


def test_directory_link_counts(fs):
    before = fs.stat().st_nlink
    (fs / "d").mkdir()
    assert (fs / "d").stat().st_nlink == 2
    assert fs.stat().st_nlink == before + 1
    for number in range(5):
        (fs / "d" / f"sub{number}").mkdir()
        (fs / "d" / f"file{number}").touch()
    assert (fs / "d").stat().st_nlink == 7
    (fs / "d" / "sub0").rmdir()
    assert (fs / "d").stat().st_nlink == 6
    shutil.rmtree(fs / "d")
    assert fs.stat().st_nlink == before


def test_nested_50_deep(fs):
    deep = fs
    for number in range(50):
        deep = deep / f"level{number}"
        deep.mkdir()
    (deep / "file").write_text("deep")
    os.rename(fs / "level0", fs / "top")
    deep = fs / "top" / deep.relative_to(fs / "level0")
    assert content(deep / "file") == b"deep"
    assert sum(len(files) for _, _, files in os.walk(fs)) == 1
    assert os.stat(os.path.join(deep, *[".."] * 50)).st_ino == fs.stat().st_ino
    shutil.rmtree(fs / "top")
    assert os.listdir(fs) == []


def test_readdir_of_5000_names(fs):
    names = [f"document-{number:05}" for number in range(5000)]
    for name in names:
        os.close(os.open(fs / name, os.O_CREAT | os.O_WRONLY, 0o644))
    assert sorted(os.listdir(fs)) == names
    entries = {entry.name: entry for entry in os.scandir(fs)}
    for name in names[::500]:
        assert entries[name].inode() == (fs / name).stat().st_ino
        assert entries[name].is_file() and not entries[name].is_symlink()
    fd = os.open(fs, os.O_RDONLY | os.O_DIRECTORY)
    assert sorted(os.listdir(fd)) == names
    os.unlink(fs / names[0])
    assert sorted(os.listdir(fd)) == names[1:], "rewinding shows the present"
    os.close(fd)


def test_readdir_while_others_create_and_unlink(fs):
    """Names that stay are listed exactly once, however much comes and goes around them."""
    stable = {f"stable-{number:04}" for number in range(1500)}
    for name in stable:
        (fs / name).touch()
    stop = threading.Event()

    def churn(who):
        number = 0
        while not stop.is_set():
            (fs / f"churn-{who}-{number}").touch()
            if number >= 20:
                os.unlink(fs / f"churn-{who}-{number - 20}")
            number += 1

    workers = [threading.Thread(target=churn, args=(who,)) for who in range(2)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(5):
            listed = []
            with os.scandir(fs) as entries:
                for number, entry in enumerate(entries):
                    listed.append(entry.name)
                    if number % 100 == 0:
                        time.sleep(0.001)
            found = [name for name in listed if name in stable]
            assert len(found) == len(set(found)), "a name was listed twice"
            assert set(found) == stable, "a name was left out"
    finally:
        stop.set()
        for worker in workers:
            worker.join()


def test_unlinking_what_is_being_listed(fs):
    for number in range(3000):
        os.close(os.open(fs / f"n{number}", os.O_CREAT | os.O_WRONLY, 0o644))
    with os.scandir(fs) as entries:
        for entry in entries:
            os.unlink(entry.path)
    assert os.listdir(fs) == []
    (fs / "again").touch()
    assert os.listdir(fs) == ["again"]


def test_dot_entries_and_positions(fs):
    (fs / "d").mkdir()
    for number in range(300):
        (fs / "d" / f"{number:03}").touch()
    assert run("ls", "-a", fs / "d").stdout.split()[:2] == [".", ".."]
    # seekdir to a remembered position goes on from there.
    readdir, opendir = LIBC.readdir, LIBC.opendir
    opendir.restype = readdir.restype = ctypes.c_void_p
    LIBC.telldir.restype = ctypes.c_long
    stream = ctypes.c_void_p(opendir(os.fsencode(fs / "d")))

    def following():
        entry = readdir(stream)
        return ctypes.string_at(entry + 19) if entry else None  # d_name of struct dirent on x86_64 and arm64

    for _ in range(100):
        following()
    position = ctypes.c_long(LIBC.telldir(stream))
    first = [following() for _ in range(150)]
    LIBC.seekdir(stream, position)
    assert [following() for _ in range(150)] == first
    LIBC.closedir(stream)


# Names

@pytest.mark.parametrize("name", [
    b"line\nbreak", b"\xff\xfe invalid \x80", b" blanks ", b"-rf", b"*?[", b"quote'\"\\", b"\x01\x7f", b"...", b".hidden",
    "ümlaut-日本".encode(), b"a" * 255, b"\xc3" * 255, b"user.ttl.idle", b"mongodb:"],
    ids=["newline", "not-utf8", "blanks", "dash", "glob", "quotes", "control", "dots", "hidden", "utf8", "255", "255-not-utf8",
         "like-an-attribute", "like-a-store"])
def test_any_name(fs, name):
    path = os.path.join(os.fsencode(fs), name)
    with open(path, "wb") as file:
        file.write(name)
    assert os.listdir(os.fsencode(fs)) == [name]
    assert content(path) == name
    os.rename(path, path[:-1] + b"Z")
    os.mkdir(path)
    assert sorted(os.listdir(os.fsencode(fs))) == sorted([name, name[:-1] + b"Z"])
    os.rmdir(path)
    os.unlink(path[:-1] + b"Z")
    assert os.listdir(fs) == []


@pytest.mark.parametrize("length", [256, 300, 1000, 3000])
def test_long_names_are_refused(fs, length):
    (fs / "x").write_text("x")
    path = fs / ("n" * length)
    for attempt in (lambda: os.stat(path), lambda: path.write_text("x"), path.mkdir, lambda: os.symlink("x", path),
                    lambda: os.rename(fs / "x", path), lambda: os.link(fs / "x", path), lambda: os.mkfifo(path),
                    lambda: os.unlink(path), lambda: os.rmdir(path)):
        with raises_errno(errno.ENAMETOOLONG):
            attempt()
    assert os.listdir(fs) == ["x"]


def test_names_differ_in_case(fs):
    (fs / "Name").write_text("1")
    (fs / "name").write_text("2")
    assert content(fs / "Name") == b"1" and content(fs / "name") == b"2"
