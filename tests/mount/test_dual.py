"""Dual TTL: idle and max, what refreshes and what does not (spec 2, 3 and 5)."""
import errno
import os
import random
import time

import pytest

from conftest import TIME_FACTOR, raises_errno, wait_until
from ttlhelp import accessed, created, deadline, in_threads, index, is_near, now_ms, opened, reason

pytestmark = pytest.mark.ttlfs(opts="test-clock,monitor=off")
S = 1000
SLACK = 2000  # what the tests' own work may take on the clock, in milliseconds


def at(mount, base, seconds):
    """Is f's deadline this many seconds after base?"""
    return is_near(deadline(mount, "f"), base + seconds * S, SLACK)


def settled(mount, base, seconds, what):
    """As at(), but a close may reach the daemon behind later calls."""
    wait_until(lambda: at(mount, base, seconds), 3, f"{what}: deadline {seconds} s after the start")


def test_idle_counts_from_the_last_access(mount):
    mount.set(".", "ttl.idle", "100s")
    mount.write("f", "x")
    base = now_ms(mount)
    assert deadline(mount, "f") == accessed(mount, "f") + 100 * S
    assert reason(mount, "f") == "idle" and at(mount, base, 100)
    for step in range(1, 6):
        mount.clock_advance(80 * S)
        assert mount.read("f") == b"x"
        settled(mount, base, step * 80 + 100, "read")
    mount.clock_advance(97 * S)
    assert mount.exists("f")
    mount.clock_advance(4 * S)
    assert not mount.exists("f")


def test_max_counts_from_creation_whatever_the_access(mount):
    mount.set(".", "ttl.max", "100s")
    mount.write("f", "x")
    for _ in range(3):
        assert (deadline(mount, "f"), reason(mount, "f")) == (created(mount, "f") + 100 * S, "max")
        mount.clock_advance(30 * S)
        mount.read("f")
        mount.write("f", "y")
    mount.clock_advance(11 * S)
    assert not mount.exists("f")


def test_dual_is_the_earlier_of_idle_and_max(mount):
    mount.set(".", "ttl.idle", "100s")
    mount.set(".", "ttl.max", "250s")
    mount.write("f", "x")
    born = created(mount, "f")
    expected = [(0, 100, "idle"), (90, 190, "idle"), (140, 240, "idle"), (180, 250, "max"), (240, 250, "max")]
    passed = 0
    for when, seconds, why in expected:
        mount.clock_advance((when - passed) * S)
        passed = when
        mount.read("f")
        settled(mount, born, seconds, f"access after {when} s")
        assert reason(mount, "f") == why
        assert deadline(mount, "f") <= born + 250 * S
    mount.clock_advance(11 * S)
    assert not mount.exists("f")


@pytest.mark.parametrize("idle", ["250s", "251s", "1000w"])
def test_idle_of_max_or_more_means_max(mount, idle):
    mount.set(".", "ttl.idle", idle)
    mount.set(".", "ttl.max", "250s")
    mount.write("f", "x")
    assert (deadline(mount, "f"), reason(mount, "f")) == (created(mount, "f") + 250 * S, "max")
    mount.clock_advance(200 * S)
    mount.read("f")
    assert deadline(mount, "f") == created(mount, "f") + 250 * S


def test_refresh_write_counts_from_the_last_change(mount):
    mount.set(".", "ttl.idle", "100s")
    mount.set(".", "ttl.max", "250s")
    mount.set(".", "ttl.refresh", "write")
    mount.write("f", "x")
    born = created(mount, "f")
    mount.clock_advance(60 * S)
    mount.read("f")
    os.close(os.open(mount.p("f"), os.O_WRONLY))
    os.chmod(mount.p("f"), 0o600)
    time.sleep(0.05)
    assert at(mount, born, 100)
    mount.write("f", "y")
    settled(mount, born, 160, "write")
    mount.clock_advance(90 * S)
    with open(mount.p("f"), "ab") as file:
        file.write(b"z")
    settled(mount, born, 250, "append")
    mount.set(".", "ttl.refresh", "access")
    mount.read("f")
    assert deadline(mount, "f") == born + 250 * S


def test_refresh_extend_goes_to_max_with_the_first_access(mount):
    mount.set(".", "ttl.idle", "100s")
    mount.set(".", "ttl.max", "1000s")
    mount.set(".", "ttl.refresh", "extend")
    mount.write("f", "x")
    born = created(mount, "f")
    assert (deadline(mount, "f"), reason(mount, "f")) == (born + 100 * S, "idle")
    mount.clock_advance(50 * S)
    assert (deadline(mount, "f"), reason(mount, "f")) == (born + 100 * S, "idle")
    mount.read("f")
    assert (deadline(mount, "f"), reason(mount, "f")) == (born + 1000 * S, "max")
    mount.clock_advance(900 * S)
    mount.read("f")
    assert deadline(mount, "f") == born + 1000 * S
    mount.clock_advance(51 * S)
    assert not mount.exists("f")


def test_refresh_extend_without_access_and_without_max(mount):
    mount.set(".", "ttl.idle", "100s")
    mount.set(".", "ttl.refresh", "extend")
    for name in "fg":
        mount.write(name, "x")
    mount.clock_advance(50 * S)
    mount.read("f")
    assert (mount.get("f", "ttl.deadline"), reason(mount, "f")) == ("never", "none")
    mount.clock_advance(51 * S)
    assert mount.exists("f") and not mount.exists("g")


def test_the_creating_descriptor_is_no_access_for_extend(mount):
    mount.set(".", "ttl.idle", "100s")
    mount.set(".", "ttl.max", "1000s")
    mount.set(".", "ttl.refresh", "extend")
    with opened(mount.p("f"), os.O_RDWR | os.O_CREAT) as fd:
        born = created(mount, "f")
        for _ in range(3):
            os.pwrite(fd, b"x" * 5000, 0)
            os.fsync(fd)
            assert os.pread(fd, 10, 0) == b"x" * 10
            os.ftruncate(fd, 100)
            mount.clock_advance(10 * S)
            assert deadline(mount, "f") == born + 100 * S
    time.sleep(0.1)  # for the close to arrive
    assert deadline(mount, "f") == born + 100 * S
    os.close(os.open(mount.p("f"), os.O_RDONLY))
    assert deadline(mount, "f") == born + 1000 * S


def do(flags, act=lambda fd: None):
    def call(path):
        with opened(path, flags) as fd:
            act(fd)
    return call


ACCESS = {
    "open for reading": do(os.O_RDONLY), "open for writing": do(os.O_WRONLY), "open for both": do(os.O_RDWR),
    "read": do(os.O_RDONLY, lambda fd: os.read(fd, 5)), "write": do(os.O_WRONLY, lambda fd: os.write(fd, b"y")),
    "append": do(os.O_WRONLY | os.O_APPEND, lambda fd: os.write(fd, b"y")), "O_TRUNC": do(os.O_WRONLY | os.O_TRUNC),
    "O_CREAT": do(os.O_WRONLY | os.O_CREAT), "truncate": lambda path: os.truncate(path, 3),
    "ftruncate": do(os.O_RDWR, lambda fd: os.ftruncate(fd, 2)),
}


def test_what_is_access(mount):
    mount.set(".", "ttl.idle", "100s")
    path = mount.write("f", "text")
    for name, act in ACCESS.items():
        mount.clock_advance(50 * S)
        now = now_ms(mount)
        act(path)
        wait_until(lambda: is_near(accessed(mount, "f"), now, SLACK), 3, name)
        assert deadline(mount, "f") == accessed(mount, "f") + 100 * S


def test_what_is_no_access(mount):
    mount.set(".", "ttl.idle", "1000s")
    path = mount.write("f", "text")
    mount.set("f", "x", "1")
    time.sleep(0.1)  # for the close to arrive
    before = accessed(mount, "f")
    acts = {
        "stat": lambda: os.stat(path), "lstat": lambda: os.lstat(path), "access": lambda: os.access(path, os.R_OK),
        "readdir": lambda: os.listdir(mount.path), "ls -l": lambda: [e.stat() for e in os.scandir(mount.path)],
        "getxattr": lambda: mount.get("f", "x"), "a virtual one": lambda: mount.get("f", "ttl.deadline"),
        "listxattr": lambda: mount.lst("f"), "setxattr": lambda: mount.set("f", "x", "2"),
        "a rule": lambda: mount.set("f", "ttl.max", "1d"), "removexattr": lambda: mount.rm("f", "x"),
        "O_NOATIME": do(os.O_RDONLY | os.O_NOATIME), "O_PATH": do(os.O_PATH),
        "O_NOATIME read": do(os.O_RDONLY | os.O_NOATIME, lambda fd: os.read(fd, 9)),
        "chmod": lambda: os.chmod(path, 0o600), "utimens": lambda: os.utime(path, (1, 1)),
        "rename": lambda: os.rename(path, mount.p("g")), "rename back": lambda: os.rename(mount.p("g"), path),
        "link": lambda: os.link(path, mount.p("l")), "unlink": lambda: os.unlink(mount.p("l")),
        "a pass": mount.run_pass, "statvfs": lambda: os.statvfs(path),
    }
    for name, act in acts.items():
        mount.clock_advance(10 * S)
        act(path) if name.startswith("O_") else act()
        time.sleep(0.02)
        assert accessed(mount, "g" if name == "rename" else "f") == before, name
    assert deadline(mount, "f") == before + 1000 * S


def test_reading_a_symlink_is_access_to_the_link(mount):
    mount.set(".", "ttl.idle", "100s")
    for name in ("read", "followed", "left"):
        os.symlink("/dev/null", mount.p(name))
    for _ in range(3):
        mount.clock_advance(60 * S)
        mount.exists("left")
        assert os.readlink(mount.p("read")) == "/dev/null"
        mount.read("followed")
    assert [mount.exists(name) for name in ("read", "followed", "left")] == [True, True, False]


@pytest.mark.parametrize("writing", [False, True], ids=["reads", "writes"])
def test_a_descriptor_used_again_and_again_keeps_its_document(mount, writing):
    mount.set(".", "ttl.idle", "100s")
    mount.set(".", "ttl.max", "800s")
    path = mount.write("f", "x" * 100)
    with opened(path, os.O_RDWR) as fd:
        for step in range(10):
            mount.clock_advance(70 * S)
            if writing:
                os.pwrite(fd, b"y", step)
            else:
                assert len(os.pread(fd, 100, 0)) == 100
            assert mount.exists("f"), f"in use, after {(step + 1) * 70} s"
        mount.clock_advance(101 * S)
        assert not mount.exists("f")
        assert len(os.pread(fd, 200, 0)) == 100


def test_a_descriptor_that_is_only_open_keeps_nothing(mount):
    mount.set(".", "ttl.idle", "100s")
    path = mount.write("f", "x")
    with opened(path, os.O_RDONLY):
        mount.clock_advance(101 * S)
        assert not mount.exists("f")


def test_files_override_the_collection(mount):
    mount.set(".", "ttl.idle", "100s")
    mount.set(".", "ttl.max", "1000s")
    mount.write("f", "x")
    born = created(mount, "f")
    for name, value, seconds in (("idle", "20s", 20), ("idle", "500s", 500), ("max", "300s", 300), ("max", "2000s", 500),
                                 ("idle", "3000s", 2000)):
        mount.set("f", f"ttl.{name}", value)
        assert mount.get("f", f"ttl.{name}") == value
        assert at(mount, born, seconds), (name, value)
    assert mount.lst("f") == ["user.ttl.idle", "user.ttl.max"]
    mount.rm("f", "ttl.idle")
    mount.rm("f", "ttl.max")
    assert at(mount, born, 100)
    mount.set("f", "ttl.refresh", "extend")
    mount.read("f")
    assert at(mount, born, 1000)
    mount.set("f", "ttl.refresh", "write")
    assert at(mount, born, 100)


@pytest.mark.parametrize("name", ["idle", "max"])
def test_values_of_durations(mount, name):
    mount.write("f", "x")
    mount.set(".", "ttl.hold", "yes")  # or 500ms would be its end
    for path in (".", "f"):
        for good in ("500ms", "90s", "15m", "12h", "30d", "2w", "3600"):
            mount.set(path, f"ttl.{name}", good)
            assert mount.get(path, f"ttl.{name}") == good  # as it was set
        for bad in ("", "0", "0s", "-1", "-5s", "1.5h", "10x", "1h 30m", "1h30m", "s", "abc", "NaN", "never",
                    "99999999999999999999", "9223372036854775807w"):
            with raises_errno(errno.EINVAL):
                mount.set(path, f"ttl.{name}", bad)
            assert mount.get(path, "ttl.error").strip(), bad
            assert mount.get(path, f"ttl.{name}") == "3600"
    for bad in ("", "yes", "read", "Access", "write,read"):
        with raises_errno(errno.EINVAL):
            mount.set(".", "ttl.refresh", bad)


def test_sub_second_durations(mount):
    mount.set(".", "ttl.idle", "500ms")
    mount.set(".", "ttl.max", "2500ms")
    mount.set(".", "ttl.visibility", "until-deleted")
    mount.write("f", "x")
    assert deadline(mount, "f") - accessed(mount, "f") == 500
    mount.set(".", "ttl.idle", "1d")
    assert deadline(mount, "f") - created(mount, "f") == 2500


@pytest.mark.ttlfs(opts="test-clock,monitor=off,ttl=200,idle=50s,max=1h,refresh=write")
def test_mount_options_set_the_roots_rules(mount):
    assert [mount.get(".", f"ttl.{name}") for name in ("idle", "max", "refresh")] == ["50s", "1h", "write"]
    assert index(mount, ".", "_ts")["expireAfterSeconds"] == 200
    assert mount.lst(".") == ["user.ttl.idle", "user.ttl.index._ts", "user.ttl.max", "user.ttl.refresh"]
    os.mkdir(mount.p("sub"))
    mount.write("sub/f", "x")
    born = created(mount, "sub/f")
    assert is_near(deadline(mount, "sub/f"), born + 50 * S, SLACK)
    mount.set(".", "ttl.idle", "2h")
    assert is_near(deadline(mount, "sub/f"), born + 200 * S, SLACK)
    mount.rm(".", "ttl.index._ts")
    assert deadline(mount, "sub/f") == born + 3600 * S
    mount.rm(".", "ttl.max")
    assert is_near(deadline(mount, "sub/f"), born + 7200 * S, SLACK)


def test_the_nearest_definition_wins_key_by_key(mount):
    os.makedirs(mount.p("a/b/c"))
    mount.set(".", "ttl.idle", "100s")
    mount.set(".", "ttl.max", "1000s")
    mount.set("a", "ttl.idle", "off")
    mount.set("a/b", "ttl.max", "500s")
    mount.set("a/b/c", "ttl.idle", "50s")
    for path, seconds, why in (("f", 100, "idle"), ("a/f", 1000, "max"), ("a/b/f", 500, "max"), ("a/b/c/f", 50, "idle")):
        mount.write(path, "x")
        assert is_near(deadline(mount, path), created(mount, path) + seconds * S, SLACK), path
        assert reason(mount, path) == why
    assert [mount.get("a/b/c", f"ttl.{key}") for key in ("idle", "max")] == ["50s", "500s"]
    assert (mount.get("a", "ttl.idle"), mount.lst("a/b")) == ("off", ["user.ttl.max"])
    with raises_errno(errno.ENODATA):
        mount.rm("a/b", "ttl.idle")


def test_rules_are_evaluated_live(mount):
    os.makedirs(mount.p("a/b"))
    mount.write("a/b/f", "x")
    born = created(mount, "a/b/f")
    for path, value, seconds in ((".", "1000s", 1000), ("a", "500s", 500), (".", "5s", 500), ("a", "off", None),
                                 ("a/b", "70s", 70)):
        mount.set(path, "ttl.idle", value)
        got = deadline(mount, "a/b/f")
        assert got is None if seconds is None else is_near(got, born + seconds * S, SLACK), (path, value)
    mount.clock_advance(80 * S)
    assert not mount.exists("a/b/f")
    mount.set("a/b", "ttl.idle", "90s")  # not deleted yet: a longer rule saves it
    assert mount.exists("a/b/f")
    mount.rm("a/b", "ttl.idle")
    assert deadline(mount, "a/b/f") is None


@pytest.mark.ttlfs(opts="monitor=off")
def test_touch_at_the_edge_refreshes_or_fails_and_nothing_in_between(mount):
    idle_ms = 300 * TIME_FACTOR
    mount.set(".", "ttl.idle", f"{idle_ms}ms")
    outcomes = set()
    for number in range(15):
        path = mount.write(f"f{number}", "x")
        before = deadline(mount, f"f{number}")
        time.sleep(max(0, before / 1000 - time.time() + random.uniform(-0.004, 0.004)))
        start = time.time_ns() // 1_000_000
        try:
            os.close(os.open(path, os.O_RDONLY))
        except FileNotFoundError:
            assert time.time_ns() // 1_000_000 >= before - 1, "gone before its deadline"
            assert not mount.exists(f"f{number}")
            outcomes.add("gone")
            continue
        there = mount.exists(f"f{number}")
        if time.time_ns() // 1_000_000 < start + idle_ms - 20:
            assert there, "refreshed by open, yet gone"
        assert start < before + 20, "refreshed after its deadline"
        outcomes.add("refreshed")
    assert outcomes  # mostly both


@pytest.mark.tsan
@pytest.mark.ttlfs(opts="")
def test_readers_keep_their_documents_while_others_idle_out(mount):
    idle_ms = 400 * TIME_FACTOR
    mount.set(".", "ttl.idle", f"{idle_ms}ms")
    for number in range(3):
        mount.write(f"used{number}", "x")
    last = {number: time.monotonic() for number in range(3)}

    def use(number):
        try:
            assert mount.read(f"used{number}") == b"x"
        except FileNotFoundError:
            assert time.monotonic() - last[number] > idle_ms / 1000 - 0.02, "it was in use"
            mount.write(f"used{number}", "x")
        last[number] = time.monotonic()
        time.sleep(0.01)

    def leave(_):
        mount.write(f"idle{random.random()}", "x")
        time.sleep(0.005)

    in_threads(use, use, use, leave, seconds=2)
    wait_until(lambda: not [n for n in os.listdir(mount.path) if n.startswith("idle")], 5, "the idle ones' end")
    wait_until(lambda: mount.status()["metrics"]["ttl"]["deletedDocuments"] > 50, 5, "their deletion")
