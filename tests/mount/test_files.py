"""Contents of files (spec 2): the bytes that were written are the bytes that are read. And how files are opened."""
import errno
import mmap
import os
import random
import shutil
import socket
import stat
import threading

import pytest

from conftest import raises_errno, run
from targets import (FALLOC_COLLAPSE_RANGE, FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_ZERO_RANGE, LIBC, MIB,
                     checked, content, fallocate, fs, is_tmpfs, noise)

# Around every boundary that a store may have: sectors, pages, inline contents, requests, blobs.
SIZES = [0, 1, 511, 4095, 4096, 4097, 16383, 16384, 16385, MIB, 5 * MIB]

# Contents

@pytest.mark.parametrize("size", SIZES)
def test_content_is_exact(fs, size):
    data = noise(size)
    path = fs / "file"
    path.write_bytes(data)
    assert content(path) == data
    assert path.stat().st_size == size


def test_overwrite(fs):
    path = fs / "file"
    for number, size in enumerate([100, 5000, 10, 200_000, 0, 16_384, 3]):
        data = noise(size, number)
        path.write_bytes(data)
        assert content(path) == data, f"step {number}"
        assert path.stat().st_size == size


def test_o_trunc_without_writing(fs):
    path = fs / "file"
    path.write_bytes(noise(70_000))
    os.close(os.open(path, os.O_WRONLY | os.O_TRUNC))
    assert path.stat().st_size == 0 and content(path) == b""


def test_append_grows_through_all_sizes(fs):
    path = fs / "log"
    model = b""
    for number in range(60):
        piece = noise(1 + number * 97, number)
        with open(path, "ab") as file:
            file.write(piece)
        model += piece
    assert content(path) == model


@pytest.mark.parametrize("size", [100, 4096, 20_000, 300_000])
def test_truncate_down_and_up_leaves_zeros(fs, size):
    path = fs / "file"
    data = noise(size)
    path.write_bytes(data)
    os.truncate(path, size // 3)
    assert content(path) == data[: size // 3]
    os.truncate(path, size * 2)
    assert path.stat().st_size == size * 2
    assert content(path) == data[: size // 3] + bytes(size * 2 - size // 3)
    os.truncate(path, 0)
    assert content(path) == b""


@pytest.mark.tsan
def test_ftruncate_of_an_open_file(fs):
    fd = os.open(fs / "file", os.O_CREAT | os.O_RDWR, 0o644)
    os.write(fd, b"abcdef")
    os.ftruncate(fd, 3)
    assert os.fstat(fd).st_size == 3
    os.write(fd, b"X")  # the position stays where it was
    assert os.pread(fd, 100, 0) == b"abc\0\0\0X"
    os.close(fd)
    with raises_errno(errno.EINVAL):
        os.truncate(fs / "file", -1)


@pytest.mark.parametrize("offset", [1, 4095, 10_000, 70_000, 3 * MIB])
def test_pwrite_beyond_the_end(fs, offset):
    fd = os.open(fs / "file", os.O_CREAT | os.O_RDWR, 0o644)
    os.write(fd, b"x")
    os.pwrite(fd, b"tail", offset + 5)
    os.close(fd)
    assert content(fs / "file") == b"x" + bytes(offset + 4) + b"tail"


def test_many_small_pwrites(fs):
    dice = random.Random(1)
    model = bytearray(40_000)
    fd = os.open(fs / "file", os.O_CREAT | os.O_RDWR, 0o644)
    os.ftruncate(fd, len(model))
    for number in range(2000):
        offset = dice.randrange(len(model) - 7)
        piece = noise(7, number)
        os.pwrite(fd, piece, offset)
        model[offset:offset + 7] = piece
    assert os.pread(fd, len(model) + 1, 0) == model
    os.close(fd)
    assert content(fs / "file") == model


@pytest.mark.parametrize("seed,limit", [(1, 6_000), (2, 40_000), (3, 400_000)])
def test_random_operations_against_a_model(fs, seed, limit):
    """Two descriptors and the path, in random order, against a bytearray."""
    dice = random.Random(seed)
    path = fs / "file"
    descriptors = [os.open(path, os.O_CREAT | os.O_RDWR, 0o644), os.open(path, os.O_RDWR)]
    model = bytearray()

    def write():
        offset, size = dice.randrange(limit), dice.randrange(1, limit // 4)
        piece = dice.randbytes(size)
        assert os.pwrite(dice.choice(descriptors), piece, offset) == size
        model.extend(bytes(max(0, offset - len(model))))
        model[offset:offset + size] = piece

    def truncate():
        size = dice.choice([0, dice.randrange(limit), dice.randrange(limit), len(model) // 2])
        os.truncate(path, size)
        model.extend(bytes(max(0, size - len(model))))
        del model[size:]

    def read():
        offset, size = dice.randrange(limit), dice.randrange(1, limit)
        assert os.pread(dice.choice(descriptors), size, offset) == model[offset:offset + size]

    def reopen():
        os.close(descriptors.pop(0))
        descriptors.append(os.open(path, os.O_RDWR))

    for _ in range(250):
        dice.choices([write, truncate, read, reopen], [5, 1, 5, 1])[0]()
        assert path.stat().st_size == len(model)
    for fd in descriptors:
        os.close(fd)
    assert content(path) == model


def test_vectors_and_sendfile(fs):
    path = fs / "file"
    fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    assert os.pwritev(fd, [b"one ", b"two ", b"three"], 3) == 13
    buffers = [bytearray(5), bytearray(100)]
    assert os.preadv(fd, buffers, 0) == 16
    assert bytes(buffers[0]) == b"\0\0\0on" and bytes(buffers[1][:11]) == b"e two three"
    left, right = socket.socketpair()
    assert os.sendfile(left.fileno(), fd, 3, 13) == 13
    assert right.recv(100) == b"one two three"
    for each in (left, right):
        each.close()
    os.close(fd)


def test_copy_file_range(fs):
    data = noise(300_000)
    (fs / "from").write_bytes(data)
    source = os.open(fs / "from", os.O_RDONLY)
    target = os.open(fs / "to", os.O_CREAT | os.O_RDWR, 0o644)
    done = 0
    while done < 250_000:
        step = os.copy_file_range(source, target, 250_000 - done, offset_src=10_000 + done, offset_dst=500 + done)
        assert step > 0
        done += step
    assert os.copy_file_range(source, target, 10, offset_src=len(data)) == 0
    os.close(source)
    os.close(target)
    assert content(fs / "to") == bytes(500) + data[10_000:260_000]


def test_sparse_file_of_8_gib(fs):
    path = fs / "huge"
    size = 8 << 30
    fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    os.ftruncate(fd, size)
    os.pwrite(fd, b"middle", 5 << 30)
    os.pwrite(fd, b"end", size - 3)
    assert os.fstat(fd).st_size == size
    assert os.pread(fd, 10, 1 << 30) == bytes(10)
    assert os.pread(fd, 8, (5 << 30) - 1) == b"\0middle\0"
    assert os.pread(fd, 100, size - 5) == b"\0\0end"
    os.fsync(fd)
    os.close(fd)
    assert path.stat().st_size == size
    assert path.stat().st_blocks * 512 < 2 * MIB
    with open(path, "rb") as file:
        file.seek(-3, os.SEEK_END)
        assert file.read() == b"end"
    path.unlink()


def test_seek_hole_and_data(fs):
    path = fs / "file"
    fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    os.ftruncate(fd, 4 * MIB)
    os.pwrite(fd, bytes([1]) * 65536, 2 * MIB)
    data = os.lseek(fd, 0, os.SEEK_DATA)
    assert 0 < data <= 2 * MIB, "the hole before the data must be seen"
    hole = os.lseek(fd, 2 * MIB, os.SEEK_HOLE)
    assert 2 * MIB + 65536 <= hole < 4 * MIB, "and the one behind it"
    with raises_errno(errno.ENXIO):
        os.lseek(fd, hole, os.SEEK_DATA)
    with raises_errno(errno.ENXIO):
        os.lseek(fd, 4 * MIB, os.SEEK_HOLE)
    os.close(fd)
    (fs / "dense").write_bytes(b"x" * 1000)
    fd = os.open(fs / "dense", os.O_RDONLY)
    assert os.lseek(fd, 0, os.SEEK_DATA) == 0
    assert os.lseek(fd, 5, os.SEEK_HOLE) == 1000
    os.close(fd)


def test_fallocate(fs):
    data = noise(200_000)
    path = fs / "file"
    path.write_bytes(data)
    fd = os.open(path, os.O_RDWR)
    fallocate(fd, FALLOC_KEEP_SIZE, 0, 400_000)
    assert os.fstat(fd).st_size == 200_000
    fallocate(fd, 0, 150_000, 100_000)
    assert os.fstat(fd).st_size == 250_000
    fallocate(fd, FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, 10_001, 100_003)
    with raises_errno(errno.EOPNOTSUPP):
        fallocate(fd, FALLOC_COLLAPSE_RANGE, 0, 4096)
    with raises_errno(errno.EINVAL):
        fallocate(fd, 0, 0, 0)
    expected = data[:10_001] + bytes(100_003) + data[110_004:] + bytes(50_000)
    assert os.pread(fd, MIB, 0) == expected
    os.close(fd)
    assert content(path) == expected


@pytest.mark.parametrize("size", [100, 5000])
def test_fallocate_of_a_small_file(fs, size):
    data = noise(size)
    (fs / "file").write_bytes(data)
    fd = os.open(fs / "file", os.O_RDWR)
    fallocate(fd, FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, 10, 50)
    fallocate(fd, FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, size - 10, 50)
    assert os.fstat(fd).st_size == size
    fallocate(fd, 0, 0, size + 20)
    os.close(fd)
    assert content(fs / "file") == data[:10] + bytes(50) + data[60:size - 10] + bytes(30)


def test_fallocate_zero_range(fs):
    data = noise(100_000)
    (fs / "file").write_bytes(data)
    fd = os.open(fs / "file", os.O_RDWR)
    try:
        fallocate(fd, FALLOC_ZERO_RANGE, 5_000, 20_000)
        data = data[:5_000] + bytes(20_000) + data[25_000:]
    except OSError as error:  # tmpfs has no such thing either
        assert error.errno == errno.EOPNOTSUPP
    os.close(fd)
    assert content(fs / "file") == data


def test_shared_mmap(fs):
    path = fs / "file"
    data = bytearray(noise(100_000))
    path.write_bytes(data)
    fd = os.open(path, os.O_RDWR)
    with mmap.mmap(fd, len(data)) as view:
        assert view[:] == data
        view[50_000:50_005] = b"HELLO"
        data[50_000:50_005] = b"HELLO"
        view.flush()
        assert os.pread(fd, 5, 50_000) == b"HELLO"
        os.pwrite(fd, b"WORLD", 70_000)
        data[70_000:70_005] = b"WORLD"
        assert view[70_000:70_005] == b"WORLD"
        view[0:3] = data[0:3] = b"xyz"
        os.close(fd)  # the mapping outlives the descriptor
        view[99_999] = data[99_999] = 7
    assert content(path) == data
    assert path.stat().st_size == len(data)


def test_private_mmap_leaves_the_file_alone(fs):
    path = fs / "file"
    data = noise(10_000)
    path.write_bytes(data)
    fd = os.open(path, os.O_RDONLY)
    with mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE) as view:
        view[0:5] = b"mine!"
        assert view[:] == b"mine!" + data[5:]
    os.close(fd)
    assert content(path) == data


def test_programs_run_from_it(fs):
    shutil.copy("/bin/echo", fs / "echo")
    assert run(fs / "echo", "from", "here").stdout == "from here\n"
    (fs / "script").write_text("#!/bin/sh\necho script $1\n")
    with raises_errno(errno.EACCES):
        run(fs / "script")
    (fs / "script").chmod(0o755)
    assert run(fs / "script", "runs").stdout == "script runs\n"


def test_fsync_of_everything(fs):
    (fs / "dir").mkdir()
    fd = os.open(fs / "dir" / "file", os.O_CREAT | os.O_RDWR, 0o644)
    os.write(fd, b"x")
    os.fdatasync(fd)
    os.write(fd, b"y")
    os.fsync(fd)
    os.unlink(fs / "dir" / "file")
    os.fsync(fd)
    os.close(fd)
    fd = os.open(fs / "dir", os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(fd)
    checked(LIBC.syncfs(fd))
    os.close(fd)


# Opening

def test_o_append(fs):
    path = fs / "log"
    path.write_bytes(b"start ")
    first = os.open(path, os.O_WRONLY | os.O_APPEND)
    second = os.open(path, os.O_WRONLY | os.O_APPEND)
    for number in range(5):
        os.write(first, b"a%d " % number)
        os.lseek(second, 0, os.SEEK_SET)
        os.write(second, b"b%d " % number)
    os.close(first)
    os.close(second)
    assert content(path) == b"start " + b"".join(b"a%d b%d " % (n, n) for n in range(5))


@pytest.mark.tsan
def test_concurrent_appends_lose_nothing(fs):
    path = fs / "log"

    def append(who):
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        for number in range(150):
            os.write(fd, b"%d:%03d\n" % (who, number))
        os.close(fd)

    workers = [threading.Thread(target=append, args=(who,)) for who in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    lines = content(path).splitlines()
    assert len(lines) == 600
    for who in range(4):
        assert [line for line in lines if line.startswith(b"%d:" % who)] == [b"%d:%03d" % (who, n) for n in range(150)]


def test_o_excl(fs):
    path = fs / "file"
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    with raises_errno(errno.EEXIST):
        os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    os.symlink("nowhere", fs / "dangling")
    with raises_errno(errno.EEXIST):
        os.open(fs / "dangling", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    assert not os.path.lexists(fs / "nowhere")


@pytest.mark.tsan
def test_o_excl_has_one_winner(fs):
    wins = []

    def compete(who):
        for number in range(60):
            try:
                os.close(os.open(fs / f"lock{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                wins.append((number, who))
            except FileExistsError:
                pass

    workers = [threading.Thread(target=compete, args=(who,)) for who in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(number for number, _ in wins) == list(range(60))


def test_open_flags(fs):
    (fs / "dir").mkdir()
    (fs / "file").write_text("x")
    os.symlink("file", fs / "link")
    os.symlink("created", fs / "dangling")
    with raises_errno(errno.ENOENT):
        os.open(fs / "missing", os.O_RDONLY)
    with raises_errno(errno.EISDIR):
        os.open(fs / "dir", os.O_WRONLY)
    with raises_errno(errno.EISDIR):
        os.open(fs / "dir", os.O_CREAT | os.O_RDWR)
    with raises_errno(errno.ENOTDIR):
        os.open(fs / "file", os.O_RDONLY | os.O_DIRECTORY)
    with raises_errno(errno.ENOTDIR):
        os.stat(f"{fs}/file/")
    with raises_errno(errno.ENOTDIR):
        os.stat(fs / "file" / "below")
    with raises_errno(errno.ELOOP):
        os.open(fs / "link", os.O_RDONLY | os.O_NOFOLLOW)
    os.close(os.open(fs / "dangling", os.O_CREAT | os.O_WRONLY, 0o600))
    assert (fs / "created").stat().st_size == 0


def test_mode_does_not_bind_the_creating_descriptor(fs):
    fd = os.open(fs / "file", os.O_CREAT | os.O_RDWR, 0o000)
    os.write(fd, b"data")
    assert os.pread(fd, 10, 0) == b"data"
    os.close(fd)
    assert stat.S_IMODE((fs / "file").stat().st_mode) == 0


def open_tmpfile(fs, flags=0):
    try:
        return os.open(fs, os.O_TMPFILE | os.O_RDWR | flags, 0o640)
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP and not is_tmpfs(fs):
            pytest.skip("libfuse 3.14 has no O_TMPFILE")
        raise


def link_descriptor(fd, target):
    root = os.open("/", os.O_PATH)
    try:
        os.link(f"/proc/self/fd/{fd}", target, src_dir_fd=root)  # with src_dir_fd it is linkat, which follows
    finally:
        os.close(root)


def test_o_tmpfile(fs):
    fd = open_tmpfile(fs)
    os.write(fd, b"content")
    assert os.fstat(fd).st_nlink == 0
    assert os.listdir(fs) == []
    link_descriptor(fd, fs / "name")
    assert os.fstat(fd).st_nlink == 1
    assert (fs / "name").stat().st_ino == os.fstat(fd).st_ino
    os.close(fd)
    assert content(fs / "name") == b"content"
    assert stat.S_IMODE((fs / "name").stat().st_mode) == 0o640


def test_o_tmpfile_with_o_excl_cannot_be_linked(fs):
    fd = open_tmpfile(fs, os.O_EXCL)
    with raises_errno(errno.ENOENT):
        link_descriptor(fd, fs / "name")
    os.close(fd)
