"""Hostile use (issue 4.3): storms, clients that are killed in the middle of a call, interrupted calls, busy unmounts."""
import contextlib
import errno
import fcntl
import mmap
import os
import random
import select
import shutil
import signal
import subprocess
import threading
import time

import pytest

from conftest import BINARY, TIME_FACTOR, raises_errno, run, wait_until
from targets import RENAME_EXCHANGE, RENAME_NOREPLACE, renameat2


def descriptors(mount):
    return len(os.listdir(f"/proc/{mount.pid}/fd"))


def threads(mount):
    return len(os.listdir(f"/proc/{mount.pid}/task"))


def resident_kib(mount):
    with open(f"/proc/{mount.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


class Client:
    """function() in a forked child: started when the constructor returns. Its exit status is 0, or the errno it met."""

    def __init__(self, function):
        ready, go = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 99
            try:
                signal.setitimer(signal.ITIMER_REAL, 0)
                os.write(go, b"x")
                function()
                status = 0
            except OSError as error:
                status = error.errno
            finally:
                os._exit(status)
        os.close(go)
        os.read(ready, 1)
        os.close(ready)

    def kill(self, number=signal.SIGKILL):
        os.kill(self.pid, number)

    def wait(self, seconds=10):
        """Its exit status (negative: the signal); fails when it does not end."""
        found = []

        def reaped():
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                found.append(os.waitstatus_to_exitcode(status))
            return pid
        wait_until(reaped, seconds, f"the end of client {self.pid}")
        return found[0]


# Storms


@pytest.mark.tsan
def test_rename_storm(any_mount):
    """Eight threads on few names: renames of all kinds, links, exchanges, replaced and removed directories."""
    mount = any_mount
    directories = ["a", "b", "a/c", "b/d"]
    for directory in directories:
        os.mkdir(mount.p(directory))
    expected = {errno.ENOENT, errno.EEXIST, errno.EPERM, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ELOOP, errno.ESTALE}
    unexpected = []
    end = time.monotonic() + 1.5 * TIME_FACTOR

    def storm(seed):
        choose = random.Random(seed)

        def name():
            return mount.p(choose.choice(directories) + "/" + choose.choice("uvwxyz"))

        def create():
            os.close(os.open(name(), os.O_CREAT | os.O_WRONLY))
        actions = [create, create, lambda: os.rename(name(), name()), lambda: os.rename(name(), name()),
                   lambda: os.link(name(), name()), lambda: os.unlink(name()),
                   lambda: renameat2(name(), name(), RENAME_EXCHANGE), lambda: renameat2(name(), name(), RENAME_NOREPLACE),
                   lambda: os.mkdir(name()), lambda: os.rmdir(name()),
                   lambda: os.rename(mount.p(choose.choice(directories)), name()), lambda: os.rename(name(), mount.p("a/c")),
                   lambda: os.setxattr(name(), "user.ttl.seconds", b"1h"), lambda: os.listdir(mount.p("a"))]
        while time.monotonic() < end:
            try:
                choose.choice(actions)()
            except OSError as error:
                if error.errno not in expected:
                    unexpected.append(error)

    workers = [threading.Thread(target=storm, args=(seed,)) for seed in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert unexpected == []
    # What is listed is what is counted, and link counts say how many names there are.
    numbers = {}
    for where, below, files in os.walk(mount.path):
        assert os.stat(where).st_nlink == 2 + len(below)
        for file in files:
            found = os.lstat(os.path.join(where, file))
            names, _ = numbers.get(found.st_ino, (0, 0))
            numbers[found.st_ino] = names + 1, found.st_nlink
    assert all(names == links for names, links in numbers.values())
    wait_until(lambda: mount.status()["documents"] == len(numbers), 10, "documents without a name are freed")
    shutil.rmtree(mount.p("a"), ignore_errors=True)


def test_storms_leave_nothing_behind(make_mount):
    """No descriptor, no document, and no memory but what an allocator keeps."""
    mount = make_mount("dir", opts="test-clock,size=64m")
    mount.status()
    os.mkdir(mount.p("d"))

    def storm():
        for number in range(300):
            path = mount.p(f"d/{number}")
            fd = os.open(path, os.O_CREAT | os.O_RDWR)
            os.write(fd, b"x" * (100 if number % 3 else 40000))  # every third in a file of its own
            os.setxattr(path, "user.ttl.idle", b"1h")
            os.setxattr(path, "user.doc.a", b"1")
            with mmap.mmap(fd, 50, mmap.MAP_SHARED) as mapped:
                mapped[0:4] = b"map!"
            os.link(path, mount.p(f"d/{number}l"))
            os.rename(path, mount.p(f"d/{number}r"))
            os.unlink(mount.p(f"d/{number}l"))
            os.close(fd)
        os.sync()
        for number in range(300):
            os.unlink(mount.p(f"d/{number}r"))
        wait_until(lambda: mount.status()["documents"] == 0, 20, "all documents are gone")
    storm()
    wait_until(lambda: mount.status()["usedBytes"] == 0, 20, "their contents are gone")
    before_fds = descriptors(mount) - threads(mount)
    before_kib = resident_kib(mount)
    for _ in range(4):
        storm()
    wait_until(lambda: descriptors(mount) - threads(mount) <= before_fds, 20, "descriptors are closed")
    assert resident_kib(mount) < before_kib + 16 * 1024 * TIME_FACTOR
    wait_until(lambda: not any(files for _, _, files in os.walk(os.path.join(mount.store, "blobs"))), 20, "no blob is left")


def test_many_links(any_mount):
    """Taking one of many names away costs no look at the others."""
    count = 3000
    any_mount.write("f", "x")
    for number in range(count):
        os.link(any_mount.p("f"), any_mount.p(f"l{number}"))
    assert os.stat(any_mount.p("f")).st_nlink == count + 1
    any_mount.set("l7", "ttl.seconds", "1h")
    assert any_mount.get("l2999", "ttl.reason") == "seconds"
    for number in range(0, count, 2):
        os.unlink(any_mount.p(f"l{number}"))
    assert os.stat(any_mount.p("f")).st_nlink == count // 2 + 1
    any_mount.clock_advance(3_600_000)
    any_mount.run_pass()
    wait_until(lambda: os.listdir(any_mount.path) == [], 20, "all names expire")
    wait_until(lambda: any_mount.status()["documents"] == 0, 20, "the kernel lets go of the document")


# Clients that are killed


@pytest.mark.tsan
def test_killed_clients_leave_nothing_behind(any_mount):
    mount = any_mount
    os.mkdir(mount.p("d"))
    before = None

    def busy():
        choose = random.Random(os.getpid())
        while True:
            name = f"{mount.path}/d/{choose.randrange(20)}"
            with contextlib.suppress(OSError):
                fd = os.open(name, os.O_CREAT | os.O_RDWR)
                fcntl.flock(fd, fcntl.LOCK_EX)
                os.write(fd, b"x" * choose.randrange(60000))
                os.fsync(fd)
                os.setxattr(name, "user.ttl.idle", b"1h")
                os.rename(name, f"{mount.path}/d/{choose.randrange(20)}")
                os.unlink(name)
    for _ in range(12):
        clients = [Client(busy) for _ in range(4)]
        time.sleep(0.03)
        for client in clients:
            client.kill()
        for client in clients:
            assert client.wait() == -signal.SIGKILL
        for name in os.listdir(mount.p("d")):
            with open(mount.p("d/" + name), "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # whoever held it is dead
            os.unlink(mount.p("d/" + name))
        wait_until(lambda: mount.status()["documents"] == 0, 20, "what was open is freed")
        if before is None:
            before = descriptors(mount) - threads(mount)
    wait_until(lambda: descriptors(mount) - threads(mount) <= before, 20, "descriptors are closed")


@pytest.mark.parametrize("how", ["flock", "posix", "fifo-open", "fifo-read", "poll"])
def test_killed_while_waiting(mount, how):
    """The kernel waits for locks and pipes itself; a signal must get through all the same."""
    mount.write("f", "x")
    os.mkfifo(mount.p("fifo"))
    held = os.open(mount.p("f"), os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    fcntl.lockf(held, fcntl.LOCK_EX)
    calling = os.pipe()

    def wait():
        fd = os.open(mount.p("f"), os.O_RDWR)
        if how in ("fifo-read", "poll"):
            fifo = os.open(mount.p("fifo"), os.O_RDWR)
        os.write(calling[1], b"x")
        if how == "flock":
            fcntl.flock(fd, fcntl.LOCK_EX)
        elif how == "posix":
            fcntl.lockf(fd, fcntl.LOCK_EX)
        elif how == "fifo-open":
            os.open(mount.p("fifo"), os.O_RDONLY)
        elif how == "fifo-read":
            os.read(fifo, 1)
        else:
            select.select([fifo], [], [])
    clients = [Client(wait) for _ in range(3)]
    for _ in clients:
        os.read(calling[0], 1)
    for client in clients:
        client.kill()
        assert client.wait() == -signal.SIGKILL
    fcntl.flock(held, fcntl.LOCK_UN)
    os.close(held)
    os.close(calling[0])
    os.close(calling[1])
    fd = os.open(mount.p("f"), os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fd)


# Interrupted calls


class Interrupted(Exception):
    """What the handler of a signal raises: Python would repeat the call otherwise."""


def raise_interrupted(_number, _frame):
    raise Interrupted


@pytest.mark.ttlfs(opts="test-clock,monitor=off,notify=always")
def test_a_pass_that_is_waited_for_can_be_interrupted(mount):
    """The pass itself goes on."""
    os.mkdir(mount.p("d"))
    mount.set("d", "ttl.max", "5s")

    calling = os.pipe()

    def wait():
        signal.signal(signal.SIGUSR1, raise_interrupted)
        fd = os.open(mount.p(".ttlfs/pass"), os.O_WRONLY)
        os.write(calling[1], b"x")
        try:
            os.write(fd, b"1")
        except Interrupted:
            os._exit(77)
    count = 4000
    for attempt in range(6):
        for number in range(count):
            os.mkfifo(mount.p(f"d/{number}"))
        mount.clock_advance(5_000)
        clients = [Client(wait) for _ in range(3)]
        for _ in clients:
            os.read(calling[0], 1)
        wait_until(lambda: mount.status()["passRunning"] or mount.status()["documents"] == 0, 20, "the pass begins")
        clients[0].kill(signal.SIGUSR1)
        clients[1].kill(signal.SIGKILL)
        statuses = [clients[0].wait(), clients[1].wait()]
        running = mount.status()["passRunning"]
        assert clients[2].wait(60) == 0
        if running and statuses == [77, -signal.SIGKILL]:
            break
        count *= 2
    else:
        pytest.fail(f"no client came back before the end of the pass: {statuses}")
    os.close(calling[0])
    os.close(calling[1])
    wait_until(lambda: mount.status()["documents"] == 0, 30, "the pass has gone on")
    assert mount.run_pass()["deletedDocuments"] == 0


SLOW_DISK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void wait_for_disk(void)
{
    const char *hold = getenv("HOLD");
    while (hold && access(hold, F_OK) == 0)
        usleep(2000);
}

int fdatasync(int fd)
{
    wait_for_disk();
    return ((int (*)(int)) dlsym(RTLD_NEXT, "fdatasync"))(fd);
}

int fsync(int fd)
{
    wait_for_disk();
    return ((int (*)(int)) dlsym(RTLD_NEXT, "fsync"))(fd);
}

int msync(void *at, size_t len, int flags)
{
    wait_for_disk();
    return ((int (*)(void *, size_t, int)) dlsym(RTLD_NEXT, "msync"))(at, len, flags);
}
"""


@pytest.mark.skipif(TIME_FACTOR != 1, reason="a sanitizer wants to be the first library")
def test_killed_while_the_disk_is_slow(make_mount, tmp_path):
    """fsync waits for the disk as long as it takes; who is killed meanwhile does not."""
    (tmp_path / "slow.c").write_text(SLOW_DISK)
    run("gcc", "-shared", "-fPIC", "-o", tmp_path / "slow.so", tmp_path / "slow.c", "-ldl")
    hold = tmp_path / "hold"
    mount = make_mount("dir", opts="commit=1000", env={"LD_PRELOAD": str(tmp_path / "slow.so"), "HOLD": str(hold)})
    mount.write("f", "x")
    calling = os.pipe()

    def sync():
        signal.signal(signal.SIGUSR1, lambda *_: None)
        fd = os.open(mount.p(f"f{os.getpid()}"), os.O_RDWR | os.O_CREAT)  # the kernel locks a file that is synced
        os.write(fd, b"changed")
        os.write(calling[1], b"x")
        os.fsync(fd)
    hold.touch()
    try:
        clients = [Client(sync) for _ in range(3)]
        for _ in clients:
            os.read(calling[0], 1)
        clients[2].kill(signal.SIGUSR1)  # is no reason for an error
        for client in clients[:2]:
            client.kill()
            assert client.wait() == -signal.SIGKILL
        assert os.waitpid(clients[2].pid, os.WNOHANG)[0] == 0
        assert mount.read("f") == b"x"  # nobody else waits
    finally:
        hold.unlink()
        os.close(calling[0])
        os.close(calling[1])
    assert clients[2].wait(30) == 0
    mount.remount()
    assert mount.read(f"f{clients[2].pid}") == b"changed"


# Unmounting


@pytest.mark.root
def test_busy_unmount(make_mount):
    mount = make_mount("dir", opts="")
    mount.write("f", "x")
    fd = os.open(mount.p("f"), os.O_RDWR)
    for command in (["umount"], ["fusermount3", "-u"]):
        done = run(*command, mount.path, check=False)
        assert done.returncode != 0 and "busy" in done.stdout.lower()
    os.write(fd, b"still there")
    assert mount.read("f") == b"still there"
    # Lazily: the name goes now, the daemon when nobody uses it any more, and nothing is lost.
    run("umount", "-l", mount.path)
    assert os.listdir(mount.path) == [] and mount.process.poll() is None
    os.write(fd, b"!")
    os.close(fd)
    assert mount.ended() == 0
    mount.start()
    assert mount.read("f") == b"still there!"


@pytest.mark.root
def test_busy_by_a_working_directory(mount):
    os.mkdir(mount.p("d"))
    reader, writer = os.pipe()

    def stay():
        os.close(writer)
        os.chdir(mount.p("d"))
        os.read(reader, 1)
    client = Client(stay)
    wait_until(lambda: os.readlink(f"/proc/{client.pid}/cwd") == str(mount.p("d")), 10, "the client is inside")
    assert run("umount", mount.path, check=False).returncode != 0
    os.close(writer)
    assert client.wait() == 0
    os.close(reader)


def test_ended_by_a_signal_under_load(make_mount):
    """SIGTERM in the middle of everything: the daemon ends cleanly, its clients get errors, not hangs."""
    mount = make_mount("dir", opts="")
    os.mkdir(mount.p("d"))

    def busy():
        while True:
            fd = os.open(f"{mount.path}/d/{os.getpid()}", os.O_CREAT | os.O_RDWR)
            os.write(fd, b"x" * 30000)
            os.fsync(fd)
            os.close(fd)
            os.unlink(f"{mount.path}/d/{os.getpid()}")
    clients = [Client(busy) for _ in range(4)]
    time.sleep(0.05)
    mount.process.terminate()
    assert mount.ended() == 0
    for client in clients:
        client.kill()  # the mountpoint is an ordinary directory now
        assert client.wait() in (-signal.SIGKILL, errno.ENOTCONN, errno.ENOENT, errno.ECONNABORTED, errno.EIO)
    mount.start()
    assert len(os.listdir(mount.p("d"))) <= 4


# One inside the other


def test_a_mount_inside_a_mount(make_mount):
    outer = make_mount("dir", opts="")
    os.mkdir(outer.p("inner"))
    os.mkdir(outer.p("store"))
    inner = make_mount(outer.p("store") / "s", opts="test-clock,notify=always,monitor=off")
    nested = outer.p("inner")
    process = None
    try:
        # Its store is inside the first mount, and a third is mounted there.
        inner.write("f", "x" * 30000)
        inner.set("f", "ttl.seconds", "1h")
        fd = os.open(inner.p("f"), os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
        inner.clock_advance(3_600_000)
        assert inner.run_pass()["deletedDocuments"] == 1
        process = subprocess.Popen([str(BINARY), "-f", "memory:", nested],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: os.path.exists(nested / ".ttlfs/pass"), 10, "the third mount answers")
        (nested / "g").write_text("deep")
        assert (nested / "g").read_text() == "deep"
        with raises_errno(errno.EBUSY):
            os.rmdir(nested)
        with raises_errno(errno.EXDEV):
            os.rename(nested / "g", outer.p("g"))
    finally:
        if process:
            # The last release of a closed file may still be under way.
            wait_until(lambda: process.poll() is not None or
                       run("fusermount3", "-u", nested, check=False).returncode == 0, 20, "the third mount ends")
            process.wait(20 * TIME_FACTOR)
        inner.stop()
    assert os.listdir(nested) == []
