"""inotify events of expired documents, and the control directory around the monitor (spec 6 and 7)."""
import errno
import json
import os
import random
import signal
import stat
import subprocess
import time

import pytest

from conftest import BINARY, raises_errno, wait_until
from ttlhelp import FAR_MS, Watcher, date, in_threads, names, ttl_metrics

pytestmark = pytest.mark.ttlfs(opts="test-clock,monitor=off")
S = 1000


def documents(mount, where, count, prefix="f"):
    for number in range(count):
        mount.write(f"{where}/{prefix}{number}", "x")
    return [f"{prefix}{number}" for number in range(count)]


@pytest.fixture(params=["auto", "always"])
def noisy(request, make_mount):
    mount = make_mount(opts=f"test-clock,monitor=off,notify={request.param}")
    os.mkdir(mount.p("d"))
    mount.set(".", "ttl.max", "100s")
    return mount


def test_a_watched_directory_hears_of_every_expired_document(noisy, tmp_path):
    expected = documents(noisy, "d", 50)
    documents(noisy, ".", 5, "elsewhere")
    noisy.write("d/held", "x")
    noisy.set("d/held", "ttl.hold", "yes")
    with Watcher(tmp_path, noisy.p("d")) as watcher:
        noisy.clock_advance(101 * S)
        assert names(noisy, "d") == ["held"]
        noisy.run_pass()
        watcher.expect("DELETE", expected)
        os.unlink(noisy.p("d/held"))
        watcher.expect("DELETE", [*expected, "held"])
    assert ttl_metrics(noisy)["deletedDocuments"] == 55


def test_a_watched_file_hears_of_its_end(noisy, tmp_path):
    documents(noisy, "d", 3)
    with Watcher(tmp_path, noisy.p("d/f1")) as watcher:
        noisy.clock_advance(101 * S)
        noisy.run_pass()
        watcher.expect("DELETE_SELF", ["f1"])


def test_a_watcher_from_before_the_documents_that_sleeps_through_the_purge(noisy, tmp_path):
    with Watcher(tmp_path, noisy.p("d")) as watcher:
        expected = documents(noisy, "d", 1000)
        watcher.process.send_signal(signal.SIGSTOP)
        noisy.clock_advance(101 * S)
        noisy.run_pass()
        assert ttl_metrics(noisy)["deletedDocuments"] == 1000
        watcher.process.send_signal(signal.SIGCONT)
        watcher.expect("DELETE", expected, 20)


def test_oldest_deadlines_go_first(noisy, tmp_path):
    noisy.set("d", "ttl.index.d", "0")
    noisy.set("d", "ttl.hold", "yes")
    noisy.param("ttlIndexDeleteTargetDocs", 7)
    numbers = random.sample(range(100, 1000), 60)
    for number in numbers:
        noisy.write(f"d/{number}", {"d": date(number)})
    with Watcher(tmp_path, noisy.p("d")) as watcher:
        noisy.rm("d", "ttl.hold")
        noisy.run_pass()
        watcher.expect("DELETE", [str(number) for number in numbers])
        assert [name for _, name in watcher.events()] == [str(number) for number in sorted(numbers)]


def test_a_recursive_watcher_and_a_document_with_two_names(noisy, tmp_path):
    os.mkdir(noisy.p("d/e"))
    noisy.write("d/f", "x")
    os.link(noisy.p("d/f"), noisy.p("d/e/g"))
    with Watcher(tmp_path, "-r", noisy.p("d")) as watcher:
        noisy.clock_advance(101 * S)
        noisy.run_pass()
        watcher.expect("DELETE", ["f", "g"])


def test_a_name_made_anew_is_not_reported_as_deleted_twice(noisy, tmp_path):
    noisy.write("d/f", "old")
    with Watcher(tmp_path, noisy.p("d"), kinds=("delete", "create")) as watcher:
        noisy.clock_advance(101 * S)
        noisy.write("d/f", "new")
        noisy.run_pass()
        noisy.run_pass()
        noisy.write("d/last", "x")
        wait_until(lambda: ("CREATE", "last") in watcher.events(), 5, "the last event")
        assert ("CREATE", "f") in watcher.events()
        assert watcher.names("DELETE") in ([], ["f"])
        # Whatever was said about the old one came before the new one.
        assert [kind for kind, name in watcher.events() if name == "f"][-1] == "CREATE"
    assert noisy.read("d/f") == b"new"


@pytest.mark.ttlfs(opts="test-clock,monitor=off,notify=never")
def test_notify_never_raises_none(mount, tmp_path):
    os.mkdir(mount.p("d"))
    mount.set("d", "ttl.max", "100s")
    documents(mount, "d", 10)
    with Watcher(tmp_path, mount.p("d")) as watcher:
        mount.clock_advance(101 * S)
        mount.run_pass()
        assert ttl_metrics(mount)["deletedDocuments"] == 10
        mount.write("d/own", "x")
        os.unlink(mount.p("d/own"))
        watcher.expect("DELETE", ["own"])
        time.sleep(0.3)
        assert watcher.names("DELETE") == ["own"]


@pytest.mark.ttlfs(opts="")
def test_the_monitor_by_itself_raises_events_soon_after_the_deadline(mount, tmp_path):
    os.mkdir(mount.p("d"))
    with Watcher(tmp_path, mount.p("d")) as watcher:
        expected = documents(mount, "d", 20)
        mount.set("d", "ttl.max", "200ms")
        watcher.expect("DELETE", expected, 20)


def test_a_watched_directory_can_be_unmounted(make_mount, tmp_path):
    mount = make_mount(opts="test-clock,monitor=off,notify=always")
    os.mkdir(mount.p("d"))
    mount.set("d", "ttl.max", "100s")
    expected = documents(mount, "d", 200)
    with Watcher(tmp_path, mount.p("d")) as watcher:
        mount.clock_advance(101 * S)
        mount.run_pass()
        watcher.expect("DELETE", expected)
        mount.stop()


@pytest.mark.root
def test_what_is_mounted_over_it_is_never_touched(make_mount):
    below = make_mount(opts="test-clock,monitor=off,notify=always")
    os.mkdir(below.p("d"))
    for name in ("f", "d/f"):
        below.write(name, "old")
        below.set(name, "ttl.expireAt", "+100s")
    root = os.open(below.path, os.O_RDONLY | os.O_DIRECTORY)
    subprocess.run([BINARY, "memory:", below.path], check=True, timeout=20)
    try:
        # The same numbers, the same names, another filesystem.
        os.mkdir(below.p("d"))
        for name in ("f", "d/f"):
            below.write(name, "new")
        for path, text in ((".ttlfs/parameters/clockOffsetMS", "200000"), (".ttlfs/pass", "1")):
            fd = os.open(path, os.O_WRONLY, dir_fd=root)
            os.write(fd, text.encode())
            os.close(fd)
        assert [below.read(name) for name in ("f", "d/f")] == [b"new", b"new"]
    finally:
        subprocess.run(["umount", below.path], check=True, timeout=20)
        os.close(root)
    assert names(below) == ["d"] and names(below, "d") == []
    assert ttl_metrics(below)["deletedDocuments"] == 2


@pytest.mark.tsan
@pytest.mark.ttlfs(opts="notify=always")
def test_events_and_foreground_work_in_one_directory(mount, tmp_path):
    os.mkdir(mount.p("d"))
    mount.set("d", "ttl.max", "20ms")
    made = [0, 0, 0]
    with Watcher(tmp_path, mount.p("d")) as watcher:
        def work(number):
            made[number] += 1
            mount.write(f"d/{number}-{made[number]}", "x")
            names(mount, "d")
            time.sleep(0.001)

        in_threads(work, work, work, lambda _: mount.run_pass(), seconds=2)
        expected = [f"{number}-{i}" for number in range(3) for i in range(1, made[number] + 1)]
        watcher.expect("DELETE", expected, 10)
    assert ttl_metrics(mount)["deletedDocuments"] == sum(made) and names(mount, "d") == []


# The control directory


def test_the_control_directory_is_there_by_name_only(mount):
    mount.write("f", "x")
    assert names(mount) == ["f"]
    found = os.stat(mount.p(".ttlfs"))
    assert stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o555
    listed = os.listdir(mount.p(".ttlfs"))
    assert {"status.json", "pass", "parameters"} <= set(listed)
    for name in ("status.json", "pass", "parameters/ttlMonitorSleepSecs"):
        assert stat.S_IMODE(os.stat(mount.p(f".ttlfs/{name}")).st_mode) & 0o444 == 0o444, name
    assert stat.S_IMODE(os.stat(mount.p(".ttlfs/status.json")).st_mode) & 0o222 == 0
    for name in ("pass", "parameters/ttlMonitorSleepSecs"):
        assert stat.S_IMODE(os.stat(mount.p(f".ttlfs/{name}")).st_mode) & 0o222 == 0o200, name
    os.mkdir(mount.p("sub"))
    assert not mount.exists("sub/.ttlfs")


@pytest.mark.parametrize("act", [
    lambda p: os.mkdir(p), lambda p: os.rmdir(p), lambda p: os.rename(p, f"{p}2"), lambda p: os.unlink(p / "status.json"),
    lambda p: os.mkdir(p / "x"), lambda p: open(p / "x", "w"), lambda p: os.rename(p.parent / "d", p),
    lambda p: os.rename(p / "pass", p.parent / "pass"), lambda p: os.link(p / "status.json", p.parent / "l"),
    lambda p: os.rename(p.parent / "f", p / "f"), lambda p: os.symlink("x", p), lambda p: os.chmod(p, 0o777),
    lambda p: os.setxattr(p, "user.ttl.idle", b"1s"), lambda p: os.setxattr(p / "pass", "user.ttl.seconds", b"1"),
], ids=["mkdir", "rmdir", "rename", "unlink", "mkdir below", "create below", "rename over", "move out", "link out", "move in",
        "symlink over", "chmod", "a rule", "a rule below"])
def test_the_control_directory_cannot_be_changed(mount, act):
    os.mkdir(mount.p("d"))
    mount.write("f", "x")
    with raises_errno(errno.EPERM, errno.EACCES, errno.EEXIST, errno.EBUSY, errno.ENOTEMPTY, errno.EXDEV, errno.EOPNOTSUPP,
                      errno.EROFS, errno.EINVAL):
        act(mount.p(".ttlfs"))
    assert names(mount) == ["d", "f"]
    assert mount.status()["metrics"]["ttl"]["errors"] == 0


def test_the_control_files_are_no_documents_and_never_expire(mount):
    mount.set(".", "ttl.max", "1s")
    mount.set(".", "ttl.index._ts", "0")
    mount.clock_advance(10 * S)
    mount.run_pass()
    assert ttl_metrics(mount)["deletedDocuments"] == 0
    assert os.path.exists(mount.p(".ttlfs/status.json")) and mount.param("ttlMonitorSleepSecs") == "60"


@pytest.mark.root
@pytest.mark.ttlfs(opts="allow_other,test-clock,monitor=off")
def test_others_may_read_but_not_write(mount):
    def act():
        read = [open(f".ttlfs/{name}").read() for name in ("status.json", "pass", "parameters/ttlMonitorSleepSecs")]
        refused = []
        for name in ("pass", "parameters/ttlMonitorSleepSecs", "status.json"):
            try:
                os.open(f".ttlfs/{name}", os.O_WRONLY)
            except OSError as error:
                refused.append(error.errno)
        return read, refused

    read, refused = mount.run_as(65534, act)
    assert json.loads(read[0]) and read[2].strip() == "60"
    assert refused == [errno.EACCES] * 3


def test_status_json(mount):
    os.mkdir(mount.p("c"))
    mount.set("c", "ttl.index.d", "0")
    for number in range(7):
        mount.write(f"c/{number}", {"d": date(0 if number < 3 else FAR_MS)})
    status = mount.status()
    assert status["version"] and "memory:" in str(status["store"])
    assert float(status["uptime"]) >= 0 if not isinstance(status["uptime"], dict) else status["uptime"]
    assert set(status["metrics"]["ttl"]) >= {"passes", "subPasses", "deletedDocuments", "deletedKeys",
                                             "invalidTTLIndexSkips", "archivedDocuments", "errors", "hiddenAccesses"}
    assert all(isinstance(value, int) for value in status["metrics"]["ttl"].values())
    lower = {key.lower(): value for key, value in status.items()}
    assert lower["backlog"] == 3
    assert any("deadline" in key for key in lower) and any("collection" in key for key in lower)
    mount.run_pass()
    status = mount.status()
    assert {key.lower(): value for key, value in status.items()}["backlog"] == 0
    assert "2100-01-01T00:00:00" in json.dumps(status)  # the next deadline


def test_reading_the_pass_is_no_pass(mount):
    mount.write("f", "x")
    mount.set("f", "ttl.expireAt", "1")
    before = ttl_metrics(mount)["passes"]
    mount.p(".ttlfs/pass").read_text()
    assert ttl_metrics(mount)["passes"] == before
    with open(mount.p(".ttlfs/pass"), "w") as file:
        file.write("anything at all")
    assert ttl_metrics(mount)["passes"] == before + 1
    assert ttl_metrics(mount)["deletedDocuments"] == 1
