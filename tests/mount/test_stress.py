"""Everything at once, with the monitor running: no deadlock, no unexpected error, nothing left over.

A deadlock shows as the test's time limit, which kills the daemon and dumps its stacks."""

import collections
import errno
import os
import random
import threading
import time

import pytest

from conftest import raises_errno, wait_until

EXPECTED = {errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EINVAL}
RULES = ["off", "{}", "5", '{"key":"_created","expireAfterSeconds":1}',
         '{"key":"t","expireAfterSeconds":0,"partialFilterExpression":{"_size":{"$gt":5}}}']


class Worker(threading.Thread):
    """Random calls on few names in four directories, each under rules of its own."""

    def __init__(self, mount, seed, end):
        super().__init__()
        self.mount, self.random, self.end, self.seed = mount, random.Random(seed), end, seed
        self.unexpected = collections.Counter()

    def name(self):
        return self.mount.p(self.random.choice("abcd") + "/" + self.random.choice(["", "s/"]) + f"f{self.random.randrange(60)}")

    def directory(self):
        return self.mount.p(self.random.choice("abcd"))

    def create(self):
        with open(self.name(), "w") as file:
            file.write('{"t":{"$date":%d},"ttl":1}' % int(time.time() * 1000 + self.random.randrange(500)))

    def rename(self):
        os.rename(self.name(), self.name())

    def link(self):
        os.link(self.name(), self.name())

    def unlink(self):
        os.unlink(self.name())

    def own_rule(self):
        rule = self.random.choice(["ttl.seconds", "ttl.idle", "ttl.max", "ttl.expireAt"])
        os.setxattr(self.name(), "user." + rule, self.random.choice([b"1", b"100ms", b"+10ms", b"2s"]))

    def read(self):
        with open(self.name(), "rb") as file:
            file.read()

    def truncate(self):
        os.truncate(self.name(), self.random.randrange(40000))

    def list(self):
        directory = self.directory()
        for name in os.listdir(directory)[:5]:
            os.lstat(os.path.join(directory, name))

    def mkdir(self):
        os.mkdir(os.path.join(self.directory(), "s"))

    def rmdir(self):
        os.rmdir(os.path.join(self.directory(), "s"))

    def symlink(self):
        os.symlink("x", self.name())

    def save(self):
        name = str(self.name())
        with open(f"{name}.{self.seed}", "w") as file:
            file.write("x" * self.random.randrange(40000))
        os.rename(f"{name}.{self.seed}", name)

    def synced(self):
        with open(self.name(), "a") as file:
            file.write("x")
            os.fsync(file.fileno())

    def rule(self):
        if self.random.random() < 0.1:
            os.setxattr(self.directory(), "user.ttl.index.q", self.random.choice(RULES).encode())

    def run(self):
        calls = [self.create] * 3 + [self.rename, self.link, self.unlink, self.own_rule, self.read, self.truncate, self.list,
                                     self.mkdir, self.rmdir, self.symlink, self.save, self.synced, self.rule]
        while time.monotonic() < self.end:
            call = self.random.choice(calls)
            try:
                call()
            except OSError as error:
                if error.errno not in EXPECTED:
                    self.unexpected[call.__name__, errno.errorcode[error.errno]] += 1


@pytest.mark.tsan
@pytest.mark.limit(90)
@pytest.mark.ttlfs(opts="")
def test_eight_threads_of_everything_under_a_running_monitor(any_mount):
    m = any_mount
    for name in "abcd":
        os.mkdir(m.p(name))
    m.set("a", "ttl.max", "200ms")
    m.set("b", "ttl.idle", "50ms")
    m.set("c", "ttl.index._ts", "1")
    m.set("d", "ttl.index.t", "0")
    workers = [Worker(m, seed, time.monotonic() + 6) for seed in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sum((worker.unexpected for worker in workers), collections.Counter()) == {}
    assert m.status()["metrics"]["ttl"]["deletedDocuments"] > 100
    for name in "abcd":
        for folder, _, files in os.walk(m.p(name), topdown=False):
            for file in files:
                try:
                    os.unlink(os.path.join(folder, file))
                except FileNotFoundError:
                    pass  # expired meanwhile
            os.rmdir(folder)
    wait_until(lambda: m.status()["documents"] == 0, 5, "all documents are gone")
    wait_until(lambda: m.status()["usedBytes"] == 0, 5, "all room is free again")
    assert m.status()["backlog"] == 0


@pytest.mark.limit(60)
@pytest.mark.ttlfs(opts="")
def test_truncation_by_open_during_large_writes(any_mount):
    """The kernel serialises writes with ftruncate, but not with an open that truncates."""
    path = any_mount.p("f")
    any_mount.write("f", b"x" * 200000)
    end = time.monotonic() + 2
    block = b"y" * 131072
    errors = []

    def loop(flags, call):
        try:
            while time.monotonic() < end:
                fd = os.open(path, flags)
                try:
                    call(fd)
                finally:
                    os.close(fd)
        except OSError as error:
            errors.append(error)

    def write(fd):
        for number in range(20):
            os.pwrite(fd, block, number * len(block))

    def read(fd):
        assert set(os.pread(fd, 4096, 0)) <= set(b"xy\0")

    threads = [threading.Thread(target=loop, args=args) for args in [
        (os.O_WRONLY, write), (os.O_WRONLY, write), (os.O_WRONLY | os.O_TRUNC, lambda fd: None), (os.O_RDONLY, read)]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    os.unlink(path)
    wait_until(lambda: any_mount.status()["usedBytes"] == 0, 5, "all room is free again")


def test_what_has_expired_gets_no_new_name_through_its_descriptor(any_mount):
    m = any_mount
    os.mkdir(m.p("d"))
    m.write("f", "old")
    m.set("f", "ttl.expireAt", "+100s")
    with open(m.p("f"), "rb") as file:
        m.clock_advance(101000)
        m.run_pass()
        for name in ("d/g", "g"):
            with raises_errno(errno.ENOENT):
                # With a dir_fd Python calls linkat with AT_SYMLINK_FOLLOW.
                os.link(f"/proc/self/fd/{file.fileno()}", m.p(name), src_dir_fd=file.fileno(), follow_symlinks=True)
        assert file.read() == b"old"
    assert os.listdir(m.p("d")) == []


def test_a_document_whose_hold_ends_is_deleted(any_mount):
    m = any_mount
    m.set(".", "ttl.index.d", "0")
    m.write("f", {"d": {"$date": "2037-01-01T00:00:00Z"}})
    m.set("f", "ttl.hold", "yes")
    m.clock_advance(20 * 365 * 86400 * 1000)
    m.run_pass()
    assert m.exists("f"), "the pass met it, held"
    m.rm("f", "ttl.hold")
    assert not m.exists("f")
    m.run_pass()
    assert m.status()["metrics"]["ttl"]["deletedDocuments"] == 1
