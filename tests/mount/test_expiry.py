"""What an expired document looks like: hidden, until-deleted, kernel caches, open descriptors (spec 5)."""
import contextlib
import errno
import mmap
import os
import random
import stat
import time

import pytest

from conftest import TIME_FACTOR, raises_errno, run, wait_until
from ttlhelp import (FAR_MS, RENAME_EXCHANGE, RENAME_NOREPLACE, created, date, deadline, in_threads, link_descriptor,
                     names, now_ms, opened, renameat2, rfc3339, ttl_metrics)

pytestmark = pytest.mark.ttlfs(opts="test-clock,monitor=off")
S = 1000


def expired(mount, path="f", content="x"):
    """A document that has just expired and that no pass has deleted."""
    mount.write(path, content)
    mount.set(path, "ttl.expireAt", "+100s")
    os.stat(mount.p(path))
    mount.clock_advance(101 * S)
    return mount.p(path)


def access(path):
    if not os.access(path, os.F_OK):
        raise FileNotFoundError(errno.ENOENT, "access", str(path))


PATH_CALLS = {
    "stat": os.stat, "lstat": os.lstat, "access": access,
    "open to read": lambda p: os.close(os.open(p, os.O_RDONLY)), "open to write": lambda p: os.open(p, os.O_WRONLY),
    "open O_PATH": lambda p: os.close(os.open(p, os.O_PATH)), "open O_TRUNC": lambda p: os.open(p, os.O_RDWR | os.O_TRUNC),
    "unlink": os.unlink, "rename": lambda p: os.rename(p, f"{p}2"), "rename to itself": lambda p: os.rename(p, p),
    "link": lambda p: os.link(p, f"{p}2"), "chmod": lambda p: os.chmod(p, 0o600), "utimens": os.utime,
    "chown": lambda p: os.chown(p, os.getuid(), os.getgid()), "truncate": lambda p: os.truncate(p, 0),
    "exchange": lambda p: renameat2(p, p.parent / "other", RENAME_EXCHANGE),
    "exchange from the other side": lambda p: renameat2(p.parent / "other", p, RENAME_EXCHANGE),
    "rename, no replace": lambda p: renameat2(p, f"{p}2", RENAME_NOREPLACE),
    "getxattr": lambda p: os.getxattr(p, "user.ttl.deadline"), "getxattr of another": lambda p: os.getxattr(p, "user.x"),
    "setxattr": lambda p: os.setxattr(p, "user.x", b"1"), "listxattr": os.listxattr,
    "a rule": lambda p: os.setxattr(p, "user.ttl.expireAt", b"never"), "hold": lambda p: os.setxattr(p, "user.ttl.hold", b"yes"),
    "removexattr": lambda p: os.removexattr(p, "user.ttl.expireAt"), "rmdir": os.rmdir, "listdir": os.listdir,
}


@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
def test_hidden_is_enoent_for_every_path_call(mount, warm):
    mount.write("other", "y")
    path = expired(mount)
    outcomes = {}
    for name, call in PATH_CALLS.items():
        if warm:  # what the kernel knew of the name before the deadline
            mount.set(".", "ttl.hold", "yes")
            os.stat(path)
            mount.rm(".", "ttl.hold")
        try:
            call(path)
            outcomes[name] = "no error"
        except OSError as error:
            outcomes[name] = errno.errorcode[error.errno]
    assert {name: outcome for name, outcome in outcomes.items() if outcome != "ENOENT"} == {}
    assert names(mount) == ["other"] and mount.read("other") == b"y"
    assert not os.path.lexists(f"{path}2")


def test_hidden_is_not_listed_and_does_not_count_for_rmdir(mount):
    os.mkdir(mount.p("d"))
    for number in range(20):
        mount.write(f"d/{number}", "x")
        if number % 2:
            mount.set(f"d/{number}", "ttl.seconds", "100")
    os.symlink("x", mount.p("d/link"))
    with raises_errno(errno.ENOTEMPTY):
        os.rmdir(mount.p("d"))
    mount.set("d", "ttl.max", "200s")
    names(mount, "d")
    mount.clock_advance(101 * S)
    assert len(names(mount, "d")) == 11
    assert len(run("ls", "-f", mount.p("d")).stdout.split()) == 13  # with . and ..
    with raises_errno(errno.ENOTEMPTY):
        os.rmdir(mount.p("d"))
    mount.clock_advance(100 * S)
    assert names(mount, "d") == []
    os.rmdir(mount.p("d"))
    assert not mount.exists("d") and names(mount) == []
    mount.run_pass()
    assert ttl_metrics(mount)["errors"] == 0


def test_a_directory_of_expired_documents_can_be_replaced_by_rename(mount):
    for name in ("empty", "full"):
        os.mkdir(mount.p(name))
    expired(mount, "full/f")
    os.rename(mount.p("empty"), mount.p("full"))
    assert names(mount) == ["full"] and names(mount, "full") == []


def test_hidden_accesses_are_counted(mount):
    path = expired(mount)
    before = ttl_metrics(mount)["hiddenAccesses"]
    with raises_errno(errno.ENOENT):
        os.stat(path)
    assert ttl_metrics(mount)["hiddenAccesses"] > before


# Making the name anew

MAKERS = {
    "O_CREAT": lambda p: os.close(os.open(p, os.O_WRONLY | os.O_CREAT, 0o644)),
    "O_EXCL": lambda p: os.close(os.open(p, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)),
    "mkdir": os.mkdir, "symlink": lambda p: os.symlink("target", p), "mkfifo": os.mkfifo,
    "link": lambda p: os.link(p.parent / "other", p), "rename": lambda p: os.rename(p.parent / "other", p),
    "rename, no replace": lambda p: renameat2(p.parent / "other", p, RENAME_NOREPLACE),
    "rename of a directory": lambda p: os.rename(p.parent / "dir", p),
    "shell": lambda p: run("sh", "-c", 'echo -n > "$0"', p),
}


@pytest.mark.parametrize("make", MAKERS)
def test_the_name_of_an_expired_document_can_be_made_anew_at_once(mount, make):
    mount.write("other", "y")
    os.mkdir(mount.p("dir"))
    mount.write("f", "old content")
    mount.set("f", "comment", "old")
    mount.set("f", "ttl.max", "1000s")
    mount.set("f", "ttl.expireAt", "+100s")
    inode, born = os.stat(mount.p("f")).st_ino, created(mount, "f")
    mount.clock_advance(101 * S)
    MAKERS[make](mount.p("f"))
    fresh = os.lstat(mount.p("f"))
    assert fresh.st_ino != inode
    if stat.S_ISREG(fresh.st_mode):
        assert mount.read("f") == (b"y" if make.startswith(("link", "rename")) else b"")
        assert mount.lst("f") == [] and deadline(mount, "f") is None
        if make in ("O_CREAT", "O_EXCL", "shell"):
            assert created(mount, "f") >= born + 100 * S
    mount.run_pass()
    assert os.lstat(mount.p("f")).st_ino == fresh.st_ino
    mount.clock_advance(2000 * S)
    mount.run_pass()
    assert mount.exists("f")


def test_a_new_document_gets_a_fresh_lifetime_from_the_rules(mount):
    mount.set(".", "ttl.max", "100s")
    mount.write("f", "one")
    for content in ("two", "three"):
        mount.clock_advance(101 * S)
        mount.write("f", content)
        assert deadline(mount, "f") - now_ms(mount) > 95 * S
        mount.clock_advance(90 * S)
        assert mount.read("f") == content.encode()


# until-deleted


def test_until_deleted_stays_visible_until_the_pass(mount):
    mount.set(".", "ttl.visibility", "until-deleted")
    expired(mount)
    assert mount.read("f") == b"x" and names(mount) == ["f"]
    assert deadline(mount, "f") < now_ms(mount)
    with raises_errno(errno.EEXIST):
        os.open(mount.p("f"), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    mount.run_pass()
    assert names(mount) == [] and not mount.exists("f")


def test_until_deleted_counts_for_rmdir_and_is_inherited(mount):
    os.makedirs(mount.p("d/e"))
    mount.set("d", "ttl.visibility", "until-deleted")
    expired(mount, "d/e/f")
    with raises_errno(errno.ENOTEMPTY):
        os.rmdir(mount.p("d/e"))
    mount.set("d/e", "ttl.visibility", "hidden")
    assert names(mount, "d/e") == []
    mount.rm("d/e", "ttl.visibility")
    assert names(mount, "d/e") == ["f"] and mount.get("d/e", "ttl.visibility") == "until-deleted"


def test_an_update_under_until_deleted_saves(mount):
    mount.set(".", "ttl.visibility", "until-deleted")
    mount.set(".", "ttl.index.d", "0")
    mount.set(".", "ttl.idle", "1d")
    for name in ("saved", "lost"):
        mount.write(name, {"d": date(0)})
    mount.write("saved", {"d": date(FAR_MS)})
    expired(mount, "idle too")
    mount.set("idle too", "ttl.expireAt", "never")
    mount.run_pass()
    assert names(mount) == ["idle too", "saved"]


# Kernel caches, against the real clock


@pytest.mark.ttlfs(opts="monitor=off")
@pytest.mark.parametrize("call", ["stat", "open", "listdir", "access"])
def test_the_kernels_caches_never_outlive_a_deadline(mount, call):
    path = mount.write("f", "x")
    end = time.time_ns() // 10**6 + 900
    mount.set("f", "ttl.expireAt", rfc3339(end))
    act = {"stat": lambda: os.stat(path), "open": lambda: os.close(os.open(path, os.O_RDONLY)),
           "listdir": lambda: os.listdir(mount.path).index("f"),
           "access": lambda: os.access(path, os.R_OK) or 1 // 0}[call]
    calls = 0
    while time.time_ns() // 10**6 < end + 300:
        start = time.time_ns() // 10**6
        try:
            act()
            there = True
        except (FileNotFoundError, ValueError, ZeroDivisionError):
            there = False
        done = time.time_ns() // 10**6
        calls += 1
        assert there or done >= end - 1, f"gone {end - done} ms early"
        assert not there or start <= end + 20, f"still there after {start - end} ms"
    assert calls > 20


@pytest.mark.ttlfs(opts="monitor=off")
def test_cached_names_do_not_stop_a_creation_after_the_deadline(mount):
    end = time.time_ns() // 10**6 + 700 * TIME_FACTOR
    for number in range(4):
        path = mount.write(f"f{number}", "x")
        mount.set(f"f{number}", "ttl.expireAt", rfc3339(end))
    while time.time_ns() // 10**6 < end + 15:
        with contextlib.suppress(FileNotFoundError):  # listed just before the deadline, asked for just behind it
            [entry.stat() for entry in os.scandir(mount.path)]  # readdirplus and stat keep the kernel's memory fresh
        time.sleep(0.002)
    os.mkdir(mount.p("f0"))
    os.close(os.open(mount.p("f1"), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    os.symlink("x", mount.p("f2"))
    os.rename(mount.p("f1"), mount.p("f3"))
    assert names(mount) == ["f0", "f2", "f3"] and path.read_bytes() == b""


@pytest.mark.ttlfs(opts="monitor=off")
def test_a_rule_change_that_brings_deadlines_forward_reaches_the_kernels_caches(mount):
    os.makedirs(mount.p("sub"))
    os.makedirs(mount.p("strict"))
    mount.set("strict", "ttl.index.d", "0")
    paths = [mount.write(name, {"d": date(5000)}) for name in ("a", "b", "sub/a", "sub/b")]

    def there():
        return [os.path.exists(path) for path in paths]

    for _ in range(3):
        assert all(there())
        mount.set(".", "ttl.index.d", "10")
        assert not any(there())
        mount.set(".", "ttl.index.d", "2147483647")
    assert all(there())
    mount.set("sub", "ttl.index.d", "10")
    assert there() == [True, True, False, False]
    mount.rm("sub", "ttl.index.d")
    assert all(there())
    mount.set("a", "ttl.expireAt", "1")
    mount.write("b", {"d": date(-2**40)})
    assert there() == [False, False, True, True]
    os.stat(mount.p("sub/a"))
    os.rename(mount.p("sub"), mount.p("strict/sub"))
    assert not mount.exists("strict/sub/a") and names(mount, "strict/sub") == []
    os.rename(mount.p("strict/sub"), mount.p("sub"))
    assert there() == [False, False, True, True]


# Open descriptors


def test_an_open_descriptor_keeps_working_and_brings_nothing_back(any_mount):
    mount = any_mount
    with opened(mount.write("f", "0123456789"), os.O_RDWR) as fd:
        mount.set("f", "ttl.expireAt", "+100s")
        mount.clock_advance(101 * S)
        for deleted in (False, True):
            assert os.pread(fd, 4, 2) == b"2345"
            assert os.pwrite(fd, b"ab", 0) == 2
            assert os.fstat(fd).st_size == 10
            os.fsync(fd)
            os.ftruncate(fd, 5000)
            assert os.pread(fd, 6000, 0) == b"ab23456789" + bytes(4990)
            os.ftruncate(fd, 10)
            os.pwrite(fd, b"01", 0)
            os.fchmod(fd, 0o600)
            assert not mount.exists("f"), deleted
            with raises_errno(errno.ENOENT, errno.EPERM):
                link_descriptor(fd, mount.p("linked"))
            mount.run_pass()
        mount.write("f", "another")
        os.pwrite(fd, b"XX", 0)
        assert mount.read("f") == b"another"
        os.unlink(mount.p("f"))
    time.sleep(0.05)
    mount.run_pass()
    assert names(mount) == []


@pytest.mark.parametrize("name, value", [("expireAt", "never"), ("hold", "yes"), ("seconds", "1000"), ("expireAt", "+1d")])
def test_rules_set_through_a_descriptor_bring_nothing_back(mount, name, value):
    with opened(mount.write("f", "x"), os.O_RDWR) as fd:
        mount.set("f", "ttl.expireAt", "+100s")
        mount.clock_advance(101 * S)
        try:
            os.setxattr(fd, f"user.ttl.{name}", value.encode())
        except OSError as error:
            assert error.errno in (errno.ENOENT, errno.ESTALE)
        assert not mount.exists("f")
        mount.run_pass()
        assert not mount.exists("f") and os.pread(fd, 5, 0) == b"x"
    assert names(mount) == []


def test_content_written_after_the_deadline_brings_nothing_back(mount):
    mount.set(".", "ttl.index.d", "0")
    mount.set(".", "ttl.idle", "100s")
    with opened(mount.write("f", {"d": date(FAR_MS)}), os.O_RDWR) as fd:
        mount.clock_advance(101 * S)
        os.pwrite(fd, b'{"d":{"$date":4102444800000}}', 0)
        os.fsync(fd)
        os.pread(fd, 5, 0)
        assert not mount.exists("f")
    time.sleep(0.05)
    assert not mount.exists("f")
    mount.run_pass()
    assert not mount.exists("f") and ttl_metrics(mount)["deletedDocuments"] == 1


def test_a_mapping_keeps_working_after_expiry(any_mount):
    mount = any_mount
    pages = 16 * 4096
    with opened(mount.write("f", b"a" * pages), os.O_RDWR) as fd, mmap.mmap(fd, pages) as mapped:
        mount.set("f", "ttl.expireAt", "+100s")
        assert mapped[:4096] == b"a" * 4096
        mount.clock_advance(101 * S)
        assert not mount.exists("f")
        mapped[4096:8192] = b"b" * 4096
        mount.run_pass()
        assert mapped[:] == b"a" * 4096 + b"b" * 4096 + b"a" * (pages - 8192)
        mapped[0:5] = b"later"
        mapped.flush()
        assert os.pread(fd, 5, 0) == b"later"
    assert not mount.exists("f")


def test_an_expired_program_is_not_found(mount):
    path = mount.write("script", "#!/bin/sh\necho done\n")
    os.chmod(path, 0o755)
    mount.set("script", "ttl.expireAt", "+100s")
    assert run(path).stdout == "done\n"
    mount.clock_advance(101 * S)
    assert run("sh", "-c", str(path), check=False).returncode == 127


@pytest.mark.tsan
@pytest.mark.ttlfs(opts="")
def test_names_that_expire_while_threads_make_and_read_and_rename_them(mount):
    mount.set(".", "ttl.max", f"{60 * TIME_FACTOR}ms")

    def churn(act, *allowed):
        def call(number):
            try:
                act(f"n{random.randrange(6)}", f"n{random.randrange(6)}")
            except OSError as error:
                assert error.errno in allowed, f"{number}: {error}"
        return call

    def rename(a, b):
        os.rename(mount.p(a), mount.p(b))

    def link(a, b):
        os.link(mount.p(a), mount.p(b))

    def write(a, _):
        mount.write(a, "x")  # O_CREAT without O_EXCL: whatever was there, it must go well

    assert min(in_threads(churn(rename, errno.ENOENT), churn(lambda a, _: mount.read(a), errno.ENOENT),
                          churn(link, errno.ENOENT, errno.EEXIST), churn(write), churn(write), seconds=2)) > 0
    wait_until(lambda: names(mount) == [], 5, "the end of all")
    wait_until(lambda: ttl_metrics(mount)["deletedDocuments"] > 0, 5, "their deletion")
