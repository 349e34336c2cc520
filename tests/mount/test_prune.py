"""user.ttl.prune: subdirectories that expiry has emptied go, and no others."""
import contextlib
import errno
import os
import threading

import pytest

from conftest import raises_errno, run, wait_until
from ttlhelp import Watcher, in_threads, names, ttl_metrics, wait_for_documents

S = 1000
pytestmark = pytest.mark.ttlfs(opts="test-clock,monitor=off")


@pytest.fixture(params=["memory:", "dir"], ids=["memory", "store"])
def pruned(request, make_mount):
    """A directory "top" with prune=yes whose documents live for 100 s."""
    mount = make_mount(request.param, "test-clock,monitor=off")
    os.mkdir(mount.p("top"))
    mount.set("top", "ttl.prune", "yes")
    mount.set("top", "ttl.max", "100s")
    return mount


def expire(mount):
    mount.clock_advance(101 * S)
    return mount.run_pass()


def test_what_expiry_empties_goes_and_what_it_does_not_stays(pruned):
    for folder in ("a", "a/b", "a/b/c", "kept", "empty", "removed"):
        os.mkdir(pruned.p(f"top/{folder}"))
    pruned.write("top/a/b/c/doc", "x")
    pruned.write("top/kept/doc", "x")
    pruned.write("top/kept/held", "x")
    pruned.set("top/kept/held", "ttl.hold", "yes")
    pruned.write("top/removed/doc", "x")
    os.unlink(pruned.p("top/removed/doc"))
    pruned.write("top/doc", "x")
    result = expire(pruned)
    assert (result["deletedDocuments"], result["errors"]) == (3, 0)
    assert names(pruned, "top") == ["empty", "kept", "removed"] and names(pruned, "top/kept") == ["held"]
    assert os.stat(pruned.p("top")).st_nlink == 5
    if pruned.store != "memory:":
        pruned.remount()
        assert names(pruned, "top") == ["empty", "kept", "removed"]


def test_the_directory_with_the_rule_stays(mount):
    for folder in ("top", "top/own", "plain", "plain/sub"):
        os.mkdir(mount.p(folder))
    mount.set(".", "ttl.max", "100s")
    mount.set("top", "ttl.prune", "yes")
    mount.set("top/own", "ttl.prune", "no")
    for folder in ("top", "top/own", "plain/sub"):
        mount.write(f"{folder}/doc", "x")
    expire(mount)
    assert names(mount) == ["plain", "top"]
    assert names(mount, "top") == ["own"] and names(mount, "plain") == ["sub"]
    assert mount.get("top/own", "ttl.prune") == "no"
    with raises_errno(errno.EINVAL):
        mount.set("top", "ttl.prune", "maybe")
    assert "yes or no" in mount.get("top", "ttl.error")
    # On the root it is for all below, never for the root itself.
    mount.set(".", "ttl.prune", "yes")
    mount.write("plain/sub/doc", "x")
    mount.write("doc", "x")
    expire(mount)
    assert names(mount) == ["top"] and os.path.ismount(mount.path)


def test_rules_and_holds_of_a_subdirectory(pruned):
    for folder in ("ruled", "held", "released"):
        os.mkdir(pruned.p(f"top/{folder}"))
        pruned.write(f"top/{folder}/doc", "x")
    pruned.set("top/ruled", "ttl.idle", "50s")  # a rule of its own saves no directory
    pruned.set("top/held", "ttl.hold", "yes")
    pruned.set("top/released", "ttl.hold", "yes")
    expire(pruned)
    assert names(pruned, "top") == ["held", "released"]
    pruned.set("top/released", "ttl.hold", "no")
    pruned.run_pass()
    assert names(pruned, "top") == ["held"] and names(pruned, "top/held") == ["doc"]


def test_a_new_file_in_time_keeps_its_directory(pruned):
    os.mkdir(pruned.p("top/sub"))
    pruned.write("top/sub/old", "x")
    pruned.clock_advance(99 * S)
    pruned.write("top/sub/new", "x")
    pruned.clock_advance(2 * S)
    pruned.run_pass()
    assert names(pruned, "top/sub") == ["new"]
    # A name that is used again is no empty directory either.
    pruned.clock_advance(99 * S)
    pruned.write("top/sub/new", "x")
    pruned.run_pass()
    assert names(pruned, "top/sub") == ["new"]
    expire(pruned)
    assert names(pruned, "top") == []


def test_made_again_at_once(pruned):
    """No cached name stands in the way of what is made in the place of what was pruned."""
    for number in range(50):
        os.mkdir(pruned.p("top/sub"))
        pruned.write("top/sub/doc", "x")
        assert os.path.isdir(pruned.p("top/sub"))
        expire(pruned)
        assert not pruned.exists("top/sub"), number
        with raises_errno(errno.ENOENT):
            pruned.write("top/sub/doc", "x")


def test_a_working_directory_and_an_open_one(pruned):
    os.mkdir(pruned.p("top/sub"))
    pruned.write("top/sub/doc", "x")
    fd = os.open(pruned.p("top/sub"), os.O_RDONLY | os.O_DIRECTORY)
    expire(pruned)
    assert names(pruned, "top") == []
    assert os.fstat(fd).st_nlink == 0 and os.listdir(fd) == []
    with raises_errno(errno.ENOENT):
        os.open("doc", os.O_CREAT | os.O_WRONLY, dir_fd=fd)
    with raises_errno(errno.ENOENT):
        os.mkdir("below", dir_fd=fd)
    os.close(fd)


@pytest.mark.root
@pytest.mark.parametrize("notify", ["auto", "never"])
def test_a_mountpoint_stays(make_mount, notify):
    mount = make_mount(opts=f"test-clock,monitor=off,notify={notify}")
    mount.set(".", "ttl.max", "100s")
    mount.set(".", "ttl.prune", "yes")
    os.mkdir(mount.p("sub"))
    mount.write("sub/doc", "x")
    mount.clock_advance(101 * S)  # first: the kernel forgets all names then, and what is mounted on them
    run("mount", "-t", "tmpfs", "tmpfs", mount.p("sub"))
    try:
        (mount.p("sub") / "inner").touch()
        assert mount.run_pass()["deletedDocuments"] == 1
        assert names(mount, "sub") == ["inner"]
    finally:
        run("umount", mount.p("sub"))
    assert names(mount, "sub") == []


@pytest.mark.parametrize("notify", ["auto", "always"])
def test_watchers_hear_of_it(make_mount, tmp_path, notify):
    mount = make_mount(opts=f"test-clock,monitor=off,notify={notify}")
    mount.set(".", "ttl.max", "100s")
    mount.set(".", "ttl.prune", "yes")
    os.makedirs(mount.p("a/b"))
    mount.write("a/b/doc", "x")
    with Watcher(tmp_path, mount.path, mount.p("a"), mount.p("a/b")) as watcher:
        expire(mount)
        watcher.expect("DELETE", ["doc"])
        watcher.expect("DELETE,ISDIR", ["a", "b"])
    assert names(mount) == []


def test_an_archive_that_fails_keeps_the_directory(make_mount, tmp_path):
    archive = tmp_path / "archive"
    mount = make_mount("dir", opts="test-clock,monitor=off")
    mount.set(".", "ttl.max", "100s")
    mount.set(".", "ttl.prune", "yes")
    mount.set(".", "ttl.on-expire", "archive")
    os.makedirs(mount.p("a/b"))
    mount.write("a/b/doc", "x")
    assert expire(mount)["errors"] == 1 and names(mount, "a/b") == []
    mount.remount(f"test-clock,monitor=off,archive={archive}")
    assert expire(mount)["errors"] == 0 and names(mount) == []
    assert [path.name for path in archive.glob("a/b/*/*")] == ["doc"]


def test_thousands_of_directories(make_mount):
    mount = make_mount("dir", opts="test-clock,monitor=off")
    mount.set(".", "ttl.max", "100s")
    mount.set(".", "ttl.prune", "yes")
    for number in range(1000):
        os.makedirs(mount.p(f"{number % 10}/{number}"))
        mount.write(f"{number % 10}/{number}/doc", "x")
    mount.remount()  # the kernel knows none of them
    assert expire(mount)["deletedDocuments"] == 1000
    assert names(mount) == []
    wait_for_documents(mount, 0)
    mount.remount()
    assert names(mount) == []


@pytest.mark.tsan
def test_nothing_that_was_made_is_lost(make_mount):
    """Directories are pruned while others make files in them: who was told that a file was made finds it."""
    mount = make_mount(opts="monitor=off")
    mount.set(".", "ttl.prune", "yes")
    mount.param("ttlMonitorEnabled", "true")
    lock = threading.Lock()
    made = []

    def short(number):
        path = f"d{number}/short"
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(mount.p(f"d{number}"))
            mount.write(path, "x")
            mount.set(path, "ttl.expireAt", "+0s")
        except FileNotFoundError:
            return

    def long(number):
        other = number % 2
        try:
            path = mount.write(f"d{other}/long{len(made)}-{number}", "x")
        except FileNotFoundError:
            return
        assert path.exists(), f"{path} was made and is gone"
        with lock:
            made.append(path)
        os.unlink(path)

    in_threads(short, short, long, long, seconds=2)
    assert ttl_metrics(mount)["errors"] == 0
    for number in range(2):
        os.makedirs(mount.p(f"d{number}"), exist_ok=True)
        mount.write(f"d{number}/last", "x")
        mount.set(f"d{number}/last", "ttl.expireAt", "+0s")
        for name in names(mount, f"d{number}") if mount.exists(f"d{number}") else []:
            os.unlink(mount.p(f"d{number}/{name}"))
    wait_until(lambda: all(not mount.exists(f"d{number}") or not names(mount, f"d{number}") for number in range(2)), 10,
               "the last ones")
