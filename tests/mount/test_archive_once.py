"""The archive when it fails, when names are used again, when ttlfs is killed: nothing is lost, nothing is kept twice."""
import os

import pytest

from archivehelp import HOUR, S, copies, expire
from conftest import run, wait_until
from observehelp import lines
from ttlhelp import names, ttl_metrics, wait_for_documents


@pytest.fixture
def archive(tmp_path):
    return tmp_path / "archive"


# When the archive cannot take it


def test_without_an_archive_nothing_is_lost(make_mount, archive):
    mount = make_mount("dir", opts="test-clock,monitor=off")
    mount.set(".", "ttl.max", "1h")
    os.mkdir(mount.p("keep"))
    mount.set("keep", "ttl.on-expire", "archive")
    for number in range(10):
        mount.write(f"keep/f{number}", f"{number}")
        mount.write(f"f{number}", "x")
    result = expire(mount)
    assert (result["deletedDocuments"], result["errors"]) == (10, 10)  # the others are not held up
    assert names(mount, "keep") == [] and not mount.exists("keep/f0")
    wait_for_documents(mount, 10)
    result = mount.run_pass()  # each pass tries again
    assert (result["deletedDocuments"], result["errors"]) == (0, 10)
    assert ttl_metrics(mount)["errors"] == 20
    assert mount.log.count("could not be archived") == 1 and "has no archive=" in mount.log
    # What is not deleted yet can be saved.
    mount.set("keep", "ttl.hold", "yes")
    assert len(names(mount, "keep")) == 10
    mount.set("keep", "ttl.hold", "no")
    mount.remount(f"test-clock,monitor=off,archive={archive}")
    mount.clock_advance(2 * HOUR)
    assert names(mount, "keep") == []
    result = mount.run_pass()
    assert (result["deletedDocuments"], result["errors"]) == (10, 0)
    assert sorted(copies(archive)) == [f"keep/f{number}" for number in range(10)]


@pytest.mark.root
@pytest.mark.parametrize("trouble", ["full", "read-only", "gone"])
def test_an_archive_that_fails_for_a_while(make_mount, tmp_path, trouble):
    place = tmp_path / "small"
    place.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place)
    try:
        mount = make_mount(opts=f"test-clock,monitor=off,archive={place}/archive")
        mount.set(".", "ttl.max", "1h")
        mount.set(".", "ttl.on-expire", "archive")
        os.mkdir(mount.p("others"))
        mount.set("others", "ttl.on-expire", "delete")
        mount.write("others/doc", "x")
        mount.write("large", os.urandom(200_000))
        mount.write("small", "x")
        if trouble == "full":
            (place / "ballast").write_bytes(b"x" * 150_000)
        elif trouble == "read-only":
            run("mount", "-o", "remount,ro", place)
        else:
            os.rename(place / "archive", place / "elsewhere")
        result = expire(mount)
        fits = 1 if trouble == "full" else 0
        assert (result["deletedDocuments"], result["errors"]) == (1 + fits, 2 - fits)
        assert names(mount) == ["others"] and names(mount, "others") == []
        if trouble == "full":
            assert sorted(copies(place / "archive")) == ["small"]
            os.unlink(place / "ballast")
        elif trouble == "read-only":
            run("mount", "-o", "remount,rw", place)
        else:
            os.rename(place / "elsewhere", place / "archive")
        result = mount.run_pass()
        assert (result["deletedDocuments"], result["errors"]) == (2 - fits, 0)
        assert sorted(copies(place / "archive")) == ["large", "small"]
        mount.stop()
    finally:
        run("umount", "-l", place)


@pytest.mark.tsan
def test_an_expired_name_is_free_at_once(make_mount, archive):
    """Whoever uses the name again does not wait for the archive, and what had it is not lost."""
    mount = make_mount("dir", opts="test-clock,monitor=off")
    mount.set(".", "ttl.max", "1h")
    mount.set(".", "ttl.on-expire", "archive")
    os.makedirs(mount.p("gone/deeper"))
    os.mkdir(mount.p("target"))
    for path in ("again", "renamed over", "gone/deeper/doc", "target/doc", "linked over"):
        mount.write(path, f"old {path}")
    os.link(mount.p("again"), mount.p("gone/second name"))
    mount.set("again", "note", "kept")
    held = os.open(mount.p("again"), os.O_RDONLY)
    mount.clock_advance(HOUR + S)
    number = os.fstat(held).st_ino
    mount.write("again", "new")
    assert os.stat(mount.p("again")).st_ino != number
    assert os.read(held, 100) == b"old again"
    assert [name for name in os.listxattr(held) if not name.startswith("user.")] == []
    os.close(held)
    mount.write("new", "new")
    os.rename(mount.p("new"), mount.p("renamed over"))
    os.rmdir(mount.p("gone/deeper"))
    os.rmdir(mount.p("gone"))
    os.mkdir(mount.p("directory"))
    os.rename(mount.p("directory"), mount.p("target"))
    os.link(mount.p("again"), mount.p("linked over"))
    assert names(mount) == ["again", "linked over", "renamed over", "target"]
    assert [line["reason"] for line in lines(mount, "due.jsonl")] == ["max"] * 6
    result = mount.run_pass()
    assert (result["deletedDocuments"], result["errors"]) == (0, 6)
    run("sync", mount.p("again"))
    mount.kill9()
    mount.opts = f"test-clock,monitor=off,archive={archive}"
    mount.start()
    mount.clock_advance(HOUR + 2 * S)
    mount.set(".", "ttl.hold", "yes")
    assert mount.read("again") == b"new" and names(mount) == ["again", "linked over", "renamed over", "target"]
    result = mount.run_pass()
    assert (result["deletedDocuments"], result["errors"]) == (6, 0)
    found = copies(archive)
    assert sorted(found) == ["again", "gone/deeper/doc", "gone/second name", "linked over", "renamed over", "target/doc"]
    for key, path in found.items():
        with open(path, "rb") as file:
            assert file.read() == b"old " + (b"again" if key == "gone/second name" else key.encode())
    assert os.getxattr(found["again"], "user.note") == b"kept"
    mount.remount()
    assert mount.run_pass()["deletedDocuments"] == 0
    assert len(copies(archive)) == 6


def test_who_waits_in_vain_is_let_go_when_the_rule_changes(make_mount):
    mount = make_mount(opts="test-clock,monitor=off")
    os.mkdir(mount.p("d"))
    mount.set("d", "ttl.max", "1h")
    mount.set("d", "ttl.on-expire", "archive")
    for _ in range(3):
        mount.write("d/doc", "x")
        mount.clock_advance(HOUR + S)
    mount.write("d/doc", "x")
    assert mount.run_pass()["errors"] == 3
    wait_for_documents(mount, 4)
    mount.set("d", "ttl.on-expire", "delete")
    result = mount.run_pass()
    assert (result["deletedDocuments"], result["errors"]) == (3, 0)
    assert names(mount, "d") == ["doc"]
    wait_for_documents(mount, 1)


# Exactly once


def thousands(mount, count):
    mount.set(".", "ttl.on-expire", "archive")
    os.mkdir(mount.p("d"))
    for number in range(count):
        with open(mount.p(f"d/f{number}"), "wb", buffering=0) as file:
            file.write(b"%d" % number)
    mount.set("d", "ttl.max", "1ms")
    run("sync", mount.p("d"))
    mount.param("ttlMonitorEnabled", "true")


def check_thousands(archive, count):
    found = copies(archive)
    assert sorted(found) == sorted(f"d/f{number}" for number in range(count))
    for key, path in found.items():
        with open(path, "rb") as file:
            assert file.read() == key[3:].encode()


@pytest.mark.limit(120)
@pytest.mark.parametrize("after", [1, 300, 900, 1990])
def test_killed_in_the_middle_each_is_kept_once(make_mount, archive, after):
    count = 2000
    mount = make_mount("dir", opts=f"monitor=off,commit=3600,archive={archive}")
    thousands(mount, count)
    day = wait_until(lambda: list(archive.glob("d/*")), 30, "nothing is archived")[0]
    wait_until(lambda: len(os.listdir(day)) >= after, 60, f"{after} copies")
    mount.kill9()
    mount.opts = f"archive={archive}"
    mount.start()
    wait_for_documents(mount, 0)
    check_thousands(archive, count)
    assert ttl_metrics(mount)["errors"] == 0


@pytest.mark.limit(120)
@pytest.mark.tsan
def test_unmounted_in_the_middle_each_is_kept_once(make_mount, archive):
    count = 500
    mount = make_mount("dir", opts=f"monitor=off,archive={archive}")
    thousands(mount, count)
    wait_until(lambda: list(archive.glob("d/*/f*")), 30, "nothing is archived")
    mount.remount(f"archive={archive}")
    wait_for_documents(mount, 0)
    check_thousands(archive, count)
    assert ttl_metrics(mount)["errors"] == 0


def test_an_archiving_that_is_repeated_after_a_crash_makes_one_file(make_mount, archive):
    """The copy is durable, the deletion is not yet: the second time the copy is known again."""
    mount = make_mount("dir", opts=f"test-clock,monitor=off,commit=3600,archive={archive}")
    mount.set(".", "ttl.on-expire", "archive")
    mount.set(".", "ttl.max", "1h")
    mount.write("doc", "x")
    mount.write("large", os.urandom(100_000))
    os.symlink("x", mount.p("link"))
    mount.write("locked", "x")
    os.chmod(mount.p("locked"), 0)
    mount.write("again", "x")
    mount.clock_advance(HOUR + S)
    mount.write("again", "another one")
    run("sync", mount.p("again"))
    for _ in range(3):
        assert mount.run_pass()["deletedDocuments"] == 5
        assert sorted(copies(archive)) == ["again", "doc", "large", "link", "locked"]
        mount.kill9()
        mount.start()
        mount.clock_advance(HOUR + S)
        wait_for_documents(mount, 6)
