"""Where the tests of file semantics run: a tmpfs, memory: and a store; and how they look at files.

tmpfs comes first and proves each test: whatever it does, ttlfs does.
"""
import ctypes
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import time

import pytest

LIBC = ctypes.CDLL(None, use_errno=True)
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_COLLAPSE_RANGE, FALLOC_ZERO_RANGE = 1, 2, 8, 16
AT_FDCWD = -100
MIB = 1 << 20
IS_ROOT = os.geteuid() == 0


@pytest.fixture(params=["tmpfs", "memory", "store"])
def fs(request, make_mount):
    """The directory to test in."""
    if request.param == "tmpfs":
        kind = subprocess.run(["stat", "-f", "-c", "%T", "/dev/shm"], stdout=subprocess.PIPE, text=True, check=False)
        if kind.stdout.strip() != "tmpfs":
            pytest.skip("/dev/shm is no tmpfs here")
        path = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm", prefix="ttlfs-test."))
        path.chmod(0o755)
        yield path
        shutil.rmtree(path)
    else:
        store = "memory:" if request.param == "memory" else "dir"
        yield make_mount(store, opts="allow_other" if IS_ROOT else "").path


def is_tmpfs(fs):
    return str(fs).startswith("/dev/shm")


def noise(size, seed=0):
    return random.Random(f"{seed}/{size}").randbytes(size)


def content(path):
    """What the filesystem holds, not what the page cache remembers of our own writes."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return file.read()


def checked(result):
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def renameat2(old, new, flags):
    checked(LIBC.renameat2(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), ctypes.c_uint(flags)))


def fallocate(fd, mode, offset, length):
    checked(LIBC.fallocate(fd, mode, ctypes.c_int64(offset), ctypes.c_int64(length)))


def tick():
    """Let the coarse clock that stamps files move on."""
    time.sleep(0.02)
