"""FIFOs, sockets, devices and locks (spec 2), and many threads at once."""
import errno
import fcntl
import os
import socket
import stat
import threading

import pytest

from conftest import raises_errno
from targets import fs, noise

# Special files

def test_fifo(fs):
    os.mkfifo(fs / "pipe", 0o600)
    assert stat.S_ISFIFO(os.lstat(fs / "pipe").st_mode)
    received = []
    reader = threading.Thread(target=lambda: received.append((fs / "pipe").read_bytes()))
    reader.start()
    (fs / "pipe").write_bytes(b"through the pipe")
    reader.join(10)
    assert received == [b"through the pipe"]
    os.rename(fs / "pipe", fs / "moved")
    os.unlink(fs / "moved")
    assert os.listdir(fs) == []


def test_unix_socket(fs):
    here = os.getcwd()
    os.chdir(fs)  # a socket's address holds 108 bytes only
    try:
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
            server.bind("socket")
            server.listen()
            assert stat.S_ISSOCK(os.lstat("socket").st_mode)
            client.connect("socket")
            connection, _ = server.accept()
            client.sendall(b"hello")
            assert connection.recv(10) == b"hello"
            connection.close()
        with socket.socket(socket.AF_UNIX) as late:
            with raises_errno(errno.ECONNREFUSED):
                late.connect("socket")
        os.unlink("socket")
    finally:
        os.chdir(here)
    assert os.listdir(fs) == []


@pytest.mark.root
def test_devices(fs):
    os.mknod(fs / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(fs / "disk", stat.S_IFBLK | 0o600, os.makedev(259, 70_000))
    assert os.lstat(fs / "null").st_rdev == os.makedev(1, 3)
    assert stat.S_ISCHR(os.lstat(fs / "null").st_mode)
    assert os.lstat(fs / "disk").st_rdev == os.makedev(259, 70_000)
    os.mknod(fs / "regular", stat.S_IFREG | 0o640)
    assert stat.S_ISREG(os.lstat(fs / "regular").st_mode)


# Locks

def test_flock(fs):
    (fs / "file").write_text("x")
    first, second = os.open(fs / "file", os.O_RDWR), os.open(fs / "file", os.O_RDWR)
    fcntl.flock(first, fcntl.LOCK_EX)
    with raises_errno(errno.EWOULDBLOCK):
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(first, fcntl.LOCK_SH)
    fcntl.flock(second, fcntl.LOCK_SH | fcntl.LOCK_NB)
    os.close(first)
    fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(second)


def test_fcntl_locks(fs):
    path = fs / "file"
    path.write_text("0123456789")
    fd = os.open(path, os.O_RDWR)
    fcntl.lockf(fd, fcntl.LOCK_EX, 5, 0)

    def in_child(start, blocking=False):
        """0 when another process gets the lock."""
        child = os.fork()
        if child == 0:
            mine = os.open(path, os.O_RDWR)
            try:
                fcntl.lockf(mine, fcntl.LOCK_EX | (0 if blocking else fcntl.LOCK_NB), 5, start)
                os._exit(0)
            except OSError:
                os._exit(1)
        return child

    def status(child):
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert status(in_child(0)) == 1
    assert status(in_child(5)) == 0
    waiter = in_child(0, blocking=True)
    assert os.waitpid(waiter, os.WNOHANG) == (0, 0)
    fcntl.lockf(fd, fcntl.LOCK_UN, 5, 0)
    assert status(waiter) == 0
    os.close(fd)


# Many at once

@pytest.mark.tsan
def test_threads_at_work_in_one_directory(fs):
    def work(who):
        for number in range(60):
            name = fs / f"{who}-{number}"
            data = noise(who * 3000 + number, number)
            name.write_bytes(data)
            os.setxattr(name, "user.n", b"%d" % number)
            os.rename(name, fs / f"{who}-{number}.done")
            assert (fs / f"{who}-{number}.done").read_bytes() == data
            if number % 3:
                os.unlink(fs / f"{who}-{number}.done")
            os.listdir(fs)

    failures = []

    def guarded(who):
        try:
            work(who)
        except BaseException as failure:
            failures.append(failure)

    workers = [threading.Thread(target=guarded, args=(who,)) for who in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []
    assert sorted(os.listdir(fs)) == sorted(f"{who}-{number}.done" for who in range(4) for number in range(0, 60, 3))
