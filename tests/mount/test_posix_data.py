"""POSIX to the letter: contents under random operations, holes, limits, mappings, locks and events."""
import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import random
import select
import signal
import struct

import pytest

from conftest import raises_errno, run, run_as, wait_until
from targets import (
    FALLOC_COLLAPSE_RANGE, FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_ZERO_RANGE, LIBC, MIB, checked, fallocate, fs, is_tmpfs)

PAGE = 4096


# Random operations with verification of every byte

class Checked:
    """A file and what must be in it."""

    FILE_MAX = 160_000

    def __init__(self, path, rng):
        self.path, self.rng = path, rng
        self.model = bytearray()
        self.log = []
        self.fd = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600)

    def place(self):
        """Often at page borders and at the limit between small and large contents."""
        near = self.rng.choice([0, PAGE, 4 * PAGE, 16 * PAGE, len(self.model), self.rng.randrange(self.FILE_MAX)])
        return max(0, min(self.FILE_MAX - 1, near + self.rng.randint(-3, 3)))

    def length(self):
        return self.rng.choice([0, 1, 5, PAGE, PAGE + 1, self.rng.randrange(1, 40_000)])

    def grow(self, size):
        if size > len(self.model):
            self.model.extend(bytes(size - len(self.model)))

    def put(self, at, data):
        if data:
            self.grow(at + len(data))
            self.model[at:at + len(data)] = data

    def data(self, length):
        return bytes([self.rng.randrange(1, 256)]) * length

    # Each does one thing to the file and the same to the model.

    def write(self):
        at, data = self.place(), self.data(self.length())
        assert os.pwrite(self.fd, data, at) == len(data)
        self.put(at, data)

    def write_past_the_cache(self):
        at, data = self.place(), self.data(self.length())
        fd = os.open(self.path, os.O_WRONLY)
        os.pwrite(fd, data, at)
        os.close(fd)
        self.put(at, data)

    def append(self):
        data = self.data(self.length() % 5000)
        if len(self.model) + len(data) > self.FILE_MAX:
            return
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        os.write(fd, data)
        os.close(fd)
        self.put(len(self.model), data)

    def read(self):
        at, length = self.place(), self.length()
        assert os.pread(self.fd, length, at) == self.model[at:at + length]

    def truncate(self):
        size = self.place()
        os.ftruncate(self.fd, size)
        del self.model[size:]
        self.grow(size)

    def empty(self):
        if self.rng.random() < 0.3:
            os.close(os.open(self.path, os.O_WRONLY | os.O_TRUNC))
            self.model.clear()

    def map(self):
        if not self.model:
            return
        with mmap.mmap(self.fd, len(self.model)) as view:
            assert view[:] == self.model
            at = self.rng.randrange(len(self.model))
            data = self.data(self.length())[:len(self.model) - at]
            view[at:at + len(data)] = data
            if self.rng.random() < 0.5:
                view.flush()
        self.put(at, data)

    def punch(self):
        at, length = self.place(), self.length() + 1
        fallocate(self.fd, FALLOC_KEEP_SIZE | FALLOC_PUNCH_HOLE, at, length)
        end = min(at + length, len(self.model))
        self.model[at:end] = bytes(max(0, end - at))

    def allocate(self):
        at, length = self.place(), self.length() + 1
        keep = self.rng.random() < 0.5
        fallocate(self.fd, FALLOC_KEEP_SIZE if keep else 0, at, length)
        if not keep:
            self.grow(at + length)

    def zero(self):
        at, length = self.place(), self.length() + 1
        keep = self.rng.random() < 0.5
        try:
            fallocate(self.fd, FALLOC_ZERO_RANGE | (FALLOC_KEEP_SIZE if keep else 0), at, length)
        except OSError as error:
            assert error.errno == errno.EOPNOTSUPP  # tmpfs has none
            return
        if not keep:
            self.grow(at + length)
        end = min(at + length, len(self.model))
        self.model[at:end] = bytes(max(0, end - at))

    def copy(self):
        at, to, length = self.place(), self.place(), self.length()
        if abs(at - to) < length:
            return
        length = min(length, max(0, len(self.model) - at))
        if length:
            assert os.copy_file_range(self.fd, self.fd, length, at, to) == length
            self.put(to, bytes(self.model[at:at + length]))

    def holes(self):
        """Where SEEK_DATA finds nothing, only zeros are read."""
        at = 0
        while at < len(self.model):
            try:
                data = os.lseek(self.fd, at, os.SEEK_DATA)
            except OSError as error:
                assert error.errno == errno.ENXIO
                data = len(self.model)
            assert data >= at and not any(self.model[at:data])
            if data >= len(self.model):
                break
            at = os.lseek(self.fd, data, os.SEEK_HOLE)
            assert at > data

    def reopen(self):
        os.close(self.fd)
        self.fd = os.open(self.path, os.O_RDWR)

    def sync(self):
        os.fsync(self.fd)

    def step(self):
        name = self.rng.choices(
            ["write", "write_past_the_cache", "append", "read", "truncate", "empty", "map", "punch", "allocate", "zero",
             "copy", "holes", "reopen", "sync"], [10, 4, 3, 6, 4, 1, 4, 5, 3, 3, 4, 3, 3, 1])[0]
        self.log.append(name)
        getattr(self, name)()
        assert os.fstat(self.fd).st_size == len(self.model)

    def verify(self):
        fd = os.open(self.path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        found = os.pread(fd, len(self.model) + 10, 0)
        os.close(fd)
        if found != self.model:
            bad = next((i for i, (a, b) in enumerate(zip(found, self.model)) if a != b), min(len(found), len(self.model)))
            raise AssertionError(f"{self.path.name} differs at {bad}; sizes {len(found)}, {len(self.model)}; {self.log[-15:]}")


def exercise(files, steps, rng):
    for number in range(steps):
        file = rng.choice(files)
        try:
            file.step()
        except (AssertionError, OSError) as error:
            raise AssertionError(f"step {number} on {file.path.name}: {file.log[-15:]}: {error}") from error
        if number % 40 == 39:
            file.verify()


@pytest.mark.parametrize("seed", [1, 2])
def test_random_operations(fs, seed):
    rng = random.Random(seed)
    files = [Checked(fs / f"file{number}", rng) for number in range(3)]
    exercise(files, 600, rng)
    for file in files:
        file.verify()
        os.close(file.fd)


@pytest.mark.tsan
def test_random_operations_with_remounts(make_mount):
    rng = random.Random(77)
    mount = make_mount("dir", opts="commit=1")
    files = [Checked(mount.p(f"file{number}"), rng) for number in range(3)]
    for _ in range(4):
        exercise(files, 120, rng)
        for file in files:
            os.close(file.fd)
        before = [(os.stat(file.path).st_size, os.stat(file.path).st_blocks) for file in files]
        mount.remount()
        assert [(os.stat(file.path).st_size, os.stat(file.path).st_blocks) for file in files] == before
        for file in files:
            file.verify()
            file.fd = os.open(file.path, os.O_RDWR)
    for file in files:
        os.close(file.fd)


@pytest.mark.long
@pytest.mark.limit(600)
@pytest.mark.parametrize("seed", range(100, 102))
def test_random_operations_for_long(fs, seed):
    rng = random.Random(seed)
    files = [Checked(fs / f"file{number}", rng) for number in range(4)]
    exercise(files, 20_000, rng)
    for file in files:
        file.verify()
        os.close(file.fd)


# Holes and sizes

def extents(fd, size):
    found, at = [], 0
    while at < size:
        try:
            data = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as error:
            assert error.errno == errno.ENXIO
            break
        at = os.lseek(fd, data, os.SEEK_HOLE)
        found.append((data, at))
    return found


def takes(fs, found, pages):
    """Whether a file takes so many pages; in a store, whose disk may add some for its own lists, about so many."""
    blocks = pages * PAGE // 512
    return blocks <= found.st_blocks <= blocks + 32 if store_of(fs) == "store" else found.st_blocks == blocks


def test_holes_of_large_files(fs):
    fd = os.open(fs / "file", os.O_CREAT | os.O_RDWR, 0o600)
    size = 100 * PAGE
    os.ftruncate(fd, size)
    assert extents(fd, size) == []
    for page in (3, 4, 50):
        os.pwrite(fd, b"x", page * PAGE + 7)
    assert extents(fd, size) == [(3 * PAGE, 5 * PAGE), (50 * PAGE, 51 * PAGE)]
    assert takes(fs, os.fstat(fd), 3)
    fallocate(fd, FALLOC_KEEP_SIZE | FALLOC_PUNCH_HOLE, 4 * PAGE, PAGE)
    assert extents(fd, size) == [(3 * PAGE, 4 * PAGE), (50 * PAGE, 51 * PAGE)]
    assert takes(fs, os.fstat(fd), 2)
    for offset, whence in ((size, os.SEEK_DATA), (size, os.SEEK_HOLE), (51 * PAGE, os.SEEK_DATA)):
        with raises_errno(errno.ENXIO):
            os.lseek(fd, offset, whence)
    with raises_errno(errno.ENXIO, errno.EINVAL):
        os.lseek(fd, -1, os.SEEK_DATA)
    assert os.lseek(fd, size - 1, os.SEEK_HOLE) == size - 1
    os.close(fd)


def test_holes_of_small_files(fs):
    """Step by step: what takes room, and where data is."""
    fd = os.open(fs / "file", os.O_CREAT | os.O_RDWR, 0o600)
    steps = [
        (lambda: os.ftruncate(fd, 100), 0, []),
        (lambda: os.ftruncate(fd, 3000), 0, []),
        (lambda: os.pwrite(fd, b"x", 10), 1, [(0, 3000)]),
        (lambda: os.ftruncate(fd, PAGE), 1, [(0, PAGE)]),
        (lambda: os.ftruncate(fd, PAGE + 10), 1, [(0, PAGE)]),
        (lambda: os.ftruncate(fd, PAGE + 5), 1, [(0, PAGE)]),
        (lambda: os.pwrite(fd, b"x", PAGE - 1), 1, [(0, PAGE)]),
        (lambda: os.pwrite(fd, b"x", PAGE + 7), 2, [(0, PAGE + 8)]),
        (lambda: os.ftruncate(fd, 2 * PAGE + 1), 2, [(0, 2 * PAGE)]),
        (lambda: (fallocate(fd, 0, 2 * PAGE, 2), os.pwrite(fd, b"x", 2 * PAGE)), 3, [(0, 2 * PAGE + 2)]),
        (lambda: os.ftruncate(fd, 3 * PAGE + 1), 3, [(0, 3 * PAGE)]),
        (lambda: os.pwrite(fd, b"x", 4 * PAGE + 5), 4, [(0, 3 * PAGE), (4 * PAGE, 4 * PAGE + 6)]),
        (lambda: os.ftruncate(fd, 0), 0, []),
        (lambda: os.pwrite(fd, b"x", PAGE), 1, [(PAGE, PAGE + 1)]),
        (lambda: os.ftruncate(fd, 0), 0, []),
        (lambda: os.pwrite(fd, b"x", 4000), 1, [(0, 4001)]),
    ]
    for number, (action, pages, expected) in enumerate(steps):
        action()
        found = os.fstat(fd)
        assert takes(fs, found, pages), f"step {number}"
        assert extents(fd, found.st_size) == expected, f"step {number}"
    os.close(fd)


def test_holes_of_small_files_survive_a_remount(make_mount):
    mount = make_mount("dir")
    mount.write("file", b"x" * PAGE)
    os.truncate(mount.p("file"), PAGE + 100)
    os.truncate(mount.write("empty"), 50)
    mount.remount()
    for name, pages in (("file", 1), ("empty", 0)):
        assert os.stat(mount.p(name)).st_blocks == pages * PAGE // 512
    assert mount.read("file") == b"x" * PAGE + bytes(100)
    assert mount.read("empty") == bytes(50)
    with open(mount.p("file"), "r+b", buffering=0) as file:
        assert extents(file.fileno(), PAGE + 100) == [(0, PAGE)]
        os.pwrite(file.fileno(), b"y", PAGE)
    assert os.stat(mount.p("file")).st_blocks == 2 * PAGE // 512


def test_truncation_drops_what_was_allocated_behind_the_end(fs):
    fd = os.open(fs / "file", os.O_CREAT | os.O_RDWR, 0o600)
    for size in (100, 5 * PAGE, 0):
        os.ftruncate(fd, size)
        fallocate(fd, FALLOC_KEEP_SIZE, 10 * PAGE, 100 * PAGE)
        assert takes(fs, os.fstat(fd), 100)
        os.ftruncate(fd, size)
        assert takes(fs, os.fstat(fd), 0)
        assert os.fstat(fd).st_size == size
    os.close(fd)


def test_fallocate_arguments(fs):
    fd = os.open(fs / "file", os.O_CREAT | os.O_RDWR, 0o600)
    for mode, offset, length, code in (
            (0, -1, 10, errno.EINVAL), (0, 0, 0, errno.EINVAL), (0, 0, -1, errno.EINVAL),
            (FALLOC_PUNCH_HOLE, 0, 10, errno.EOPNOTSUPP), (FALLOC_COLLAPSE_RANGE, 0, PAGE, errno.EOPNOTSUPP),
            (32, 0, PAGE, errno.EOPNOTSUPP), (1 << 20, 0, 10, errno.EOPNOTSUPP),
            (0, (1 << 63) - 1, 10, errno.EFBIG)):
        with raises_errno(code):
            fallocate(fd, mode, offset, length)
    os.close(fd)
    fd = os.open(fs / "file", os.O_RDONLY)
    with raises_errno(errno.EBADF):
        fallocate(fd, 0, 0, 10)
    os.close(fd)
    os.mkfifo(fs / "fifo")
    fd = os.open(fs / "fifo", os.O_RDWR)
    with raises_errno(errno.ESPIPE):
        fallocate(fd, 0, 0, 10)
    os.close(fd)


def store_of(fs):
    if is_tmpfs(fs):
        return "tmpfs"
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        source = next(line.split(" - ")[1].split()[1] for line in table if line.split()[4] == str(fs))
    return "memory" if source == "memory:" else "store"


def test_sizes_that_are_too_large(fs):
    (fs / "file").touch()
    largest = (1 << 63) - 1
    os.truncate(fs / "file", largest)
    assert (fs / "file").stat().st_size == largest
    fd = os.open(fs / "file", os.O_RDWR)
    if store_of(fs) != "store":  # whose files are those of the filesystem below, with its limit
        os.pwrite(fd, b"last", largest - 4)
        assert os.pread(fd, 4, largest - 4) == b"last"
    with raises_errno(errno.EFBIG, errno.EINVAL):
        os.pwrite(fd, b"x", largest)
    os.ftruncate(fd, 0)
    os.close(fd)


def test_limit_of_the_process(fs):
    import resource
    (fs / "file").touch()
    fs.chmod(0o777)

    def child():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        with open("file", "r+b", buffering=0) as file:
            written = [os.pwrite(file.fileno(), b"x" * 100, 9_950)]
            for call in (lambda: os.pwrite(file.fileno(), b"x", 10_000), lambda: os.ftruncate(file.fileno(), 10_001),
                         lambda: os.truncate("file", 10_001)):
                try:
                    call()
                    written.append("ok")
                except OSError as error:
                    written.append(errno.errorcode[error.errno])
            return written

    assert run_as(fs, os.getuid(), child) == [50, "EFBIG", "EFBIG", "EFBIG"]


def test_sparse_file_of_64_gib(fs):
    with open(fs / "file", "wb") as file:
        file.truncate(64 << 30)
        for gib in (0, 13, 63):
            os.pwrite(file.fileno(), b"here", gib << 30)
    assert (fs / "file").stat().st_size == 64 << 30
    assert takes(fs, (fs / "file").stat(), 3)
    with open(fs / "file", "rb") as file:
        for gib in (0, 13, 63):
            assert os.pread(file.fileno(), 6, gib << 30) == b"here\0\0"
        assert os.pread(file.fileno(), 100, 40 << 30) == bytes(100)
        assert os.lseek(file.fileno(), 1 << 30, os.SEEK_DATA) == 13 << 30
    with open(fs / "file", "r+b") as file:
        file.truncate((13 << 30) + 2)
        file.truncate(64 << 30)
    assert takes(fs, (fs / "file").stat(), 2)
    with open(fs / "file", "rb") as file:
        assert os.pread(file.fileno(), 6, 13 << 30) == b"he" + bytes(4)


# Limits of the mount

@pytest.fixture(params=["tmpfs", "memory", "store"])
def limited(request, make_mount, tmp_path):
    """A mount of 64 pages and 20 documents."""
    words = "size=256k,nr_inodes=20"
    if request.param != "tmpfs":
        yield make_mount("memory:" if request.param == "memory" else "dir", opts=words).path
        return
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a tmpfs")
    path = tmp_path / "tmpfs"
    path.mkdir()
    run("mount", "-t", "tmpfs", "-o", words, "tmpfs", path)
    yield path
    run("umount", path)


def test_the_mount_is_full_exactly_then(limited):
    assert os.statvfs(limited).f_blocks * os.statvfs(limited).f_frsize == 64 * PAGE
    fd = os.open(limited / "file", os.O_CREAT | os.O_RDWR, 0o600)
    with raises_errno(errno.ENOSPC):
        fallocate(fd, 0, 0, 65 * PAGE)
    for page in range(64):
        assert os.pwrite(fd, b"x" * PAGE, page * PAGE) == PAGE
        free = os.statvfs(limited)
        assert free.f_bfree == free.f_bavail == 63 - page
    with raises_errno(errno.ENOSPC):
        os.pwrite(fd, b"x", 64 * PAGE)
    assert os.fstat(fd).st_size == 64 * PAGE
    os.pwrite(fd, b"y" * PAGE, 0)  # what is there may be overwritten
    (limited / "empty").touch()
    os.ftruncate(fd, 10 * PAGE)
    assert os.statvfs(limited).f_bfree == 54
    fallocate(fd, 0, 0, 64 * PAGE)
    os.close(fd)
    os.unlink(limited / "file")
    wait_until(lambda: os.statvfs(limited).f_bfree == 64, 10, "the kernel lets go of the file")


def test_no_more_documents_than_allowed(limited):
    found = os.statvfs(limited)
    assert found.f_files == 20
    room = found.f_ffree
    names = []
    with raises_errno(errno.ENOSPC):
        for number in range(30):
            (limited / str(number)).touch()
            names.append(str(number))
    assert len(names) == room
    for call in (os.mkdir, os.mkfifo, lambda p: os.symlink("x", p)):
        with raises_errno(errno.ENOSPC):
            call(limited / "more")
    with raises_errno(errno.ENOSPC):
        os.open(limited, os.O_TMPFILE | os.O_RDWR, 0o600)
    os.unlink(limited / "0")
    wait_until(lambda: os.statvfs(limited).f_ffree == 1, 10, "the kernel lets go of the file")
    (limited / "more").mkdir()


def test_room_is_there_again_at_once(limited):
    """What was deleted makes room for what is written next, however soon that is."""
    for _ in range(30):
        (limited / "file").write_bytes(b"x" * 64 * PAGE)
        with raises_errno(errno.ENOSPC):
            (limited / "other").write_bytes(b"x" * PAGE)
        os.unlink(limited / "file")
        os.unlink(limited / "other")


# Mappings

def test_truncation_under_a_mapping(fs):
    (fs / "file").write_bytes(b"x" * 3 * PAGE)

    def child():
        with open("file", "r+b") as file:
            view = mmap.mmap(file.fileno(), 3 * PAGE)
            before = view[2 * PAGE]
            os.ftruncate(file.fileno(), PAGE + 10)
            tail = view[PAGE:PAGE + 20]
            caught = []
            reader, writer = os.pipe()
            pid = os.fork()
            if pid == 0:
                signal.signal(signal.SIGBUS, signal.SIG_DFL)
                view[2 * PAGE]  # beyond the end: SIGBUS
                os._exit(0)
            os.close(writer)
            os.close(reader)
            caught = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            return before, tail, caught

    fs.chmod(0o777)
    assert run_as(fs, os.getuid(), child) == (ord("x"), b"x" * 10 + bytes(10), -signal.SIGBUS)


def test_a_mapping_and_a_descriptor_see_the_same(fs):
    (fs / "file").write_bytes(b"x" * 2 * PAGE)
    with open(fs / "file", "r+b") as file:
        other = os.open(fs / "file", os.O_RDWR)
        with mmap.mmap(file.fileno(), 2 * PAGE) as view, \
                mmap.mmap(other, 2 * PAGE, access=mmap.ACCESS_COPY) as private:
            view[5:9] = b"mapp"
            assert os.pread(other, 4, 5) == b"mapp"
            os.pwrite(other, b"written", PAGE)
            assert view[PAGE:PAGE + 7] == b"written"
            private[0:3] = b"own"
            assert os.pread(other, 3, 0) == b"xxx"
            for flag in (mmap.MADV_DONTNEED, mmap.MADV_RANDOM):
                view.madvise(flag)
            assert view[5:9] == b"mapp"
            os.unlink(fs / "file")
            view[0:1] = b"z"
            view.flush()
            assert os.pread(other, 1, 0) == b"z"
        os.close(other)


# Locks and leases

F_OFD_GETLK, F_OFD_SETLK, F_SETLEASE, F_GETLEASE = 36, 37, 1024, 1025


def lock(kind, start=0, length=0):
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0)


def attempt(action):
    try:
        action()
        return "ok"
    except OSError as error:
        return errno.errorcode[error.errno]


def test_locks_of_open_files(fs):
    """OFD locks belong to the descriptor: two of one process keep each other out."""
    one = os.open(fs / "file", os.O_CREAT | os.O_RDWR, 0o600)
    two = os.open(fs / "file", os.O_RDWR)
    fcntl.fcntl(one, F_OFD_SETLK, lock(fcntl.F_WRLCK, 0, 10))
    assert attempt(lambda: fcntl.fcntl(two, F_OFD_SETLK, lock(fcntl.F_RDLCK, 5, 10))) == "EAGAIN"
    assert attempt(lambda: fcntl.fcntl(two, F_OFD_SETLK, lock(fcntl.F_WRLCK, 10, 10))) == "ok"
    found = struct.unpack("hhqqi4x", fcntl.fcntl(two, F_OFD_GETLK, lock(fcntl.F_RDLCK, 0, 10)))
    assert found[:4] == (fcntl.F_WRLCK, os.SEEK_SET, 0, 10)
    os.close(one)
    assert attempt(lambda: fcntl.fcntl(two, F_OFD_SETLK, lock(fcntl.F_RDLCK, 0, 10))) == "ok"
    os.close(two)


def test_both_kinds_of_locks_do_not_see_each_other(fs):
    fd = os.open(fs / "file", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)

    def child():
        other = os.open("file", os.O_RDWR)
        return [attempt(lambda: fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)),
                attempt(lambda: fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB))]

    fs.chmod(0o777)
    assert run_as(fs, os.getuid(), child) == ["EAGAIN", "ok"]
    os.close(fd)


def test_closing_any_descriptor_drops_the_locks_of_a_process(fs):
    fd = os.open(fs / "file", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.lockf(fd, fcntl.LOCK_EX)

    def child():
        return attempt(lambda: fcntl.lockf(os.open("file", os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB))

    fs.chmod(0o777)
    assert run_as(fs, os.getuid(), child) in ("EAGAIN", "EACCES")
    os.close(os.open(fs / "file", os.O_RDONLY))
    assert run_as(fs, os.getuid(), child) == "ok"
    os.close(fd)


# Events

IN_ALL = 0xfff
INOTIFY_NAMES = {1: "ACCESS", 2: "MODIFY", 4: "ATTRIB", 8: "CLOSE_WRITE", 16: "CLOSE_NOWRITE", 32: "OPEN", 64: "MOVED_FROM",
                 128: "MOVED_TO", 256: "CREATE", 512: "DELETE", 1024: "DELETE_SELF", 2048: "MOVE_SELF"}


@contextlib.contextmanager
def watched(path):
    """A function that gives what inotify told since it was last asked."""
    fd = checked(LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    checked(LIBC.inotify_add_watch(fd, os.fsencode(path), ctypes.c_uint32(IN_ALL)))

    def events():
        found = []
        while select.select([fd], [], [], 0.05)[0]:
            raw = os.read(fd, 65536)
            at = 0
            while at < len(raw):
                _, mask, _, length = struct.unpack_from("iIII", raw, at)
                name = raw[at + 16:at + 16 + length].rstrip(b"\0").decode()
                found.append(f"{INOTIFY_NAMES.get(mask & IN_ALL, hex(mask))} {name}".strip())
                at += 16 + length
        return found

    try:
        yield events
    finally:
        os.close(fd)


def test_events(fs):
    (fs / "dir").mkdir()
    (fs / "other").mkdir()
    with watched(fs / "dir") as events:
        def told(action):
            action()
            return events()

        path = fs / "dir/file"
        steps = [
            (path.touch, ["CREATE file", "OPEN file", "CLOSE_WRITE file"]),
            (lambda: path.write_text("x"), ["OPEN file", "MODIFY file", "CLOSE_WRITE file"]),
            (lambda: path.chmod(0o600), ["ATTRIB file"]),
            (lambda: os.truncate(path, 0), ["MODIFY file"]),
            (lambda: os.setxattr(path, "user.x", b"1"), ["ATTRIB file"]),
            (lambda: os.link(path, fs / "dir/link"), ["CREATE link"]),
            (lambda: os.unlink(fs / "dir/link"), ["DELETE link"]),
            (lambda: os.symlink("x", fs / "dir/symlink"), ["CREATE symlink"]),
            (lambda: os.rename(path, fs / "dir/moved"), ["MOVED_FROM file", "MOVED_TO moved"]),
            (lambda: os.rename(fs / "dir/moved", fs / "other/moved"), ["MOVED_FROM moved"]),
            (lambda: os.rename(fs / "other/moved", fs / "dir/back"), ["MOVED_TO back"]),
            (lambda: os.unlink(fs / "dir/back"), ["DELETE back"]),
            (lambda: (fs / "dir/sub").mkdir(), ["CREATE sub"]),
            (lambda: (fs / "dir/sub").rmdir(), ["DELETE sub"]),
            (lambda: os.listdir(fs / "dir"), ["OPEN", "ACCESS", "CLOSE_NOWRITE"])]
        for number, (action, expected) in enumerate(steps):
            assert told(action) == expected, f"step {number}"


def test_events_of_a_file(fs):
    (fs / "file").write_text("x")
    with watched(fs / "file") as events:
        (fs / "file").read_text()
        assert events() == ["OPEN", "ACCESS", "CLOSE_NOWRITE"]
        fd = os.open(fs / "file", os.O_WRONLY | os.O_TRUNC)
        os.write(fd, b"y")
        os.close(fd)
        assert events() == ["OPEN", "MODIFY", "CLOSE_WRITE"]
        os.rename(fs / "file", fs / "new")
        assert events() == ["MOVE_SELF"]
        os.unlink(fs / "new")
        assert events()[:2] == ["ATTRIB", "DELETE_SELF"]


# Directories

@pytest.mark.long
@pytest.mark.limit(900)
def test_a_million_entries(fs):
    count = 1_000_000
    top = fs / "top"
    top.mkdir()
    folder = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    for number in range(count):
        os.mknod(f"{number:07}", 0o100600, dir_fd=folder)
    assert top.stat().st_nlink == 2
    assert sum(1 for _ in os.scandir(top)) == count
    for number in range(0, count, 2):
        os.unlink(f"{number:07}", dir_fd=folder)
    assert len({entry.name for entry in os.scandir(top)}) == count // 2
    for number in range(1, count, 2):
        os.unlink(f"{number:07}", dir_fd=folder)
    os.close(folder)
    assert os.listdir(top) == []
    top.rmdir()


def test_a_large_read_and_write_of_everything(fs):
    data = random.Random(4).randbytes(3 * MIB + 17)
    with open(fs / "file", "wb", buffering=0) as file:
        assert file.write(data) == len(data)
    fd = os.open(fs / "file", os.O_RDONLY | os.O_DIRECT)
    with mmap.mmap(-1, 4 * MIB) as buffer:
        assert os.preadv(fd, [buffer], 0) == len(data)
        assert buffer[:len(data)] == data
    os.close(fd)
