"""The embedded store: a clean restart brings back everything, a killed daemon one instant's state."""
import contextlib
import errno
import hashlib
import os
import shutil
import signal
import socket
import stat
import time

import pytest

from conftest import TIME_FACTOR, raises_errno, run, wait_until

LONG_COMMIT = "test-clock,commit=3600"  # nothing is committed unless somebody asks


def used(store):
    """Bytes of disk."""
    return sum(os.lstat(os.path.join(top, name)).st_blocks * 512
               for top, _, names in os.walk(store) for name in names)


# Restart

def attributes(m):
    """Everything that lstat and the xattrs tell, by path; what reading would change as well."""
    found, groups = {}, {}
    for top, folders, files in os.walk(os.fsencode(m.path)):
        for name in [b".", *folders, *files] if top == os.fsencode(m.path) else [*folders, *files]:
            path = os.path.join(top, name)
            info = os.lstat(path)
            entry = {"mode": info.st_mode, "owner": (info.st_uid, info.st_gid), "nlink": info.st_nlink, "mtime": info.st_mtime_ns,
                     "ctime": info.st_ctime_ns, "rdev": info.st_rdev}
            if not stat.S_ISDIR(info.st_mode):
                entry["size"] = info.st_size
                # Inode numbers need not last, but what was one file stays one file.
                entry["same as"] = groups.setdefault(info.st_ino, path)
            if stat.S_ISLNK(info.st_mode):
                entry["target"] = os.readlink(path)
            if stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode):
                entry["xattrs"] = {each: os.getxattr(path, each) for each in os.listxattr(path)}
            if stat.S_ISREG(info.st_mode):
                for each in ("created", "accessed", "deadline", "reason"):
                    entry[each] = os.getxattr(path, f"user.ttl.{each}")
            found[os.path.relpath(path, os.fsencode(m.path))] = entry
    return found


def contents(m):
    found = {}
    for top, _, files in os.walk(m.path):
        for name in files:
            path = os.path.join(top, name)
            if stat.S_ISREG(os.lstat(path).st_mode):
                with open(path, "rb") as file:
                    found[os.path.relpath(path, m.path)] = hashlib.sha256(file.read()).hexdigest()
    return found


def build_everything(m):
    (m.path / "rules" / "below").mkdir(parents=True)
    m.set("rules", "ttl.index.expiresAt", '{"expireAfterSeconds": 3600, "partialFilterExpression": {"kind": {"$eq": "s"}}}')
    m.set("rules", "ttl.index.plain", "{}")
    m.set("rules", "ttl.idle", "30d")
    m.set("rules", "ttl.max", "52w")
    m.set("rules/below", "ttl.idle", "off")
    m.set("rules/below", "ttl.hold", "yes")
    m.write("rules/json", {"kind": "s", "expiresAt": {"$date": "2100-01-01T00:00:00Z"}})
    m.write("rules/plain", "no fields")
    m.write("rules/below/held", {"kind": "s", "expiresAt": {"$date": "2000-01-01T00:00:00Z"}})
    m.write("rules/field", "text")
    m.set("rules/field", "doc.expiresAt", '{"$date":"2099-01-01T00:00:00Z"}')
    m.set("rules/field", "doc.kind", '"s"')
    m.write("rules/own", "text")
    m.set("rules/own", "ttl.expireAt", "2098-01-01T00:00:00Z")
    m.set("rules/own", "ttl.idle", "45d")
    m.set("rules/own", "ttl.seconds", "100d")
    for size in (0, 1, 511, 4095, 4097, 16_385, 70_000, 3 << 20):
        m.write(f"size{size}", os.urandom(size))
    m.write("large", b"large" * 300_000)
    with open(m.p("sparse"), "wb") as file:
        file.truncate(5 << 20)
        file.seek(4 << 20)
        file.write(b"x")
    m.set("large", "note", "value")
    m.set("large", "binary", b"\0\xff" * 5000)
    m.write("shrunk", b"x" * 200_000)
    os.truncate(m.p("shrunk"), 100)
    m.write("grown", b"y")
    os.truncate(m.p("grown"), 150_000)
    os.link(m.p("large"), m.p("rules/hard"))
    os.link(m.p("large"), m.p("rules/harder"))
    os.link(m.p("size1"), m.p("was-two"))
    os.unlink(m.p("was-two"))
    os.symlink("rules/json", m.p("link"))
    os.symlink("t" * 4095, m.p("long-link"))
    os.mkfifo(m.p("fifo"), 0o621)
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(m.path)
        server.bind("socket")
        os.chdir(here)
    if os.geteuid() == 0:
        os.mknod(m.p("device"), stat.S_IFCHR | 0o600, os.makedev(1, 3))
        os.chown(m.p("size511"), 1234, 4321)
        os.chown(m.p("rules"), 77, 88)
    m.write(b"name\n\xff\x80", "odd name")
    m.write("n" * 255, "long name")
    os.chmod(m.p("size511"), 0o4711)
    os.chmod(m.p("rules"), 0o3775)
    os.rename(m.p("size4095"), m.p("rules/below/renamed"))
    os.utime(m.p("size0"), ns=(1_000_000_001, 999_999_999_123_456_789))
    os.utime(m.p("rules/below"), ns=(5, 6))
    os.utime(m.p("link"), ns=(7, 8), follow_symlinks=False)


def test_restart_brings_back_everything(make_mount):
    m = make_mount("dir")
    build_everything(m)
    m.param("ttlIndexDeleteTargetDocs", 123)
    m.param("ttlMonitorSleepSecs", 77)
    bytes_before = contents(m)
    m.clock_advance(3_600_000)  # so that what happens from now on would be seen in a time of access
    before = attributes(m)
    m.remount()
    assert attributes(m) == before
    assert contents(m) == bytes_before
    assert m.param("ttlIndexDeleteTargetDocs") == "123"
    assert m.param("ttlMonitorSleepSecs") == "77"
    m.remount()
    assert contents(m) == bytes_before
    assert m.get("rules/harder", "note") == "value"
    m.write("rules/hard", "through one name")
    assert m.read("large") == b"through one name"


def test_a_copied_store_is_a_backup(make_mount, tmp_path):
    m = make_mount("dir")
    build_everything(m)
    bytes_before = contents(m)
    m.stop()
    run("cp", "-a", m.store, tmp_path / "backup")
    copy = make_mount(tmp_path / "backup")
    assert contents(copy) == bytes_before
    m.start()  # both at once: they are two stores
    assert contents(m) == bytes_before


def test_rules_still_work_after_a_restart(make_mount):
    m = make_mount("dir")
    m.set(".", "ttl.idle", "100s")
    m.set(".", "ttl.index.at", "0")
    m.write("idle", "x")
    m.write("dated", {"at": {"$date": "2100-01-01T00:00:00Z"}})
    deadline = m.get("idle", "ttl.deadline")
    m.remount()
    assert m.get("idle", "ttl.deadline") == deadline
    m.clock_advance(101_000)
    assert not m.exists("idle") and not m.exists("dated"), "both had the idle rule"
    m.write("new", {"at": {"$date": "2001-01-01T00:00:00Z"}})
    assert not m.exists("new")
    m.run_pass()
    m.remount()
    assert os.listdir(m.path) == []


def test_what_fell_due_while_unmounted_goes_in_the_first_pass(make_mount):
    m = make_mount("dir", opts="")
    for number in range(50):
        m.write(f"due{number}", "x")
        m.set(f"due{number}", "ttl.expireAt", "+1s")
    m.write("kept", "x")
    m.stop()
    time.sleep(1.2)  # the deadline passes while nobody looks
    m.start()
    assert os.listdir(m.path) == ["kept"]
    wait_until(lambda: m.status()["metrics"]["ttl"]["deletedDocuments"] == 50, 10, "the first pass")


def test_unlinked_while_open_is_gone_after_a_restart(make_mount):
    m = make_mount("dir", opts="commit=3600")
    fd = os.open(m.p("gone"), os.O_CREAT | os.O_RDWR, 0o644)
    os.write(fd, b"x" * 3_000_000)
    os.fsync(fd)
    os.unlink(m.p("gone"))
    m.write("kept", "x")
    kept = os.open(m.p("kept"), os.O_RDONLY)
    os.fsync(kept)
    m.kill9()
    for each in (fd, kept):
        with contextlib.suppress(OSError):  # nobody is there to flush to
            os.close(each)
    m.start()
    assert os.listdir(m.path) == ["kept"]
    assert used(m.store) < 1_500_000, "its blob was swept"


def test_many_documents_come_back(make_mount):
    m = make_mount("dir")
    for number in range(5000):
        if number % 500 == 0:
            (m.path / f"d{number // 500}").mkdir()
        m.write(f"d{number // 500}/{number}", b"%d" % number)
    m.remount()
    for number in range(0, 5000, 7):
        assert m.read(f"d{number // 500}/{number}") == b"%d" % number
    assert sum(len(files) for _, _, files in os.walk(m.path)) == 5000


# Killed

def fsync(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def test_fsync_survives_a_kill(make_mount):
    m = make_mount("dir", opts=LONG_COMMIT)
    wanted = {}
    for number in range(40):
        wanted[f"{number}"] = os.urandom(1 + number * 1000)
        m.write(f"{number}", wanted[f"{number}"])
        fsync(m.p(f"{number}"))
    wanted["large"] = os.urandom(5 << 20)
    m.write("large", wanted["large"])
    fsync(m.p("large"))
    m.kill9()
    m.start()
    assert sorted(os.listdir(m.path)) == sorted(wanted)
    for name, data in wanted.items():
        assert m.read(name) == data, name


@pytest.mark.parametrize("how", ["file", "directory", "fdatasync"])
def test_fsync_keeps_what_came_before(make_mount, how):
    """One instant's state: who has the last operation has all before it."""
    m = make_mount("dir", opts=LONG_COMMIT)
    (m.path / "d" / "e").mkdir(parents=True)
    m.write("d/a", "a")
    m.write("d/b", "b" * 100_000)
    m.set("d/a", "note", "1")
    m.set("d", "ttl.idle", "5h")
    os.rename(m.p("d/a"), m.p("d/e/moved"))
    os.link(m.p("d/b"), m.p("hard"))
    os.symlink("d/b", m.p("link"))
    os.chmod(m.p("d/b"), 0o604)
    m.write("dead", "x")
    os.unlink(m.p("dead"))
    os.truncate(m.p("d/b"), 50)
    m.write("last", "x")
    fd = os.open(m.path if how == "directory" else m.p("last"), os.O_RDONLY)
    if how == "fdatasync":
        os.fdatasync(fd)
    else:
        os.fsync(fd)
    os.close(fd)
    m.kill9()
    m.start()
    assert sorted(os.listdir(m.path)) == ["d", "hard", "last", "link"]
    assert sorted(os.listdir(m.p("d"))) == ["b", "e"]
    assert m.read("d/e/moved") == b"a" and m.get("d/e/moved", "note") == "1"
    assert m.read("hard") == b"b" * 50 and m.p("d/b").stat().st_nlink == 2
    assert m.get("d/e", "ttl.idle") == "5h"
    assert stat.S_IMODE(m.p("hard").stat().st_mode) == 0o604
    assert os.readlink(m.p("link")) == "d/b"


def test_sync_survives_a_kill_without_fsync(make_mount):
    m = make_mount("dir", opts="test-clock,sync")
    for number in range(30):
        m.write(f"{number}", b"%d" % number)
    os.rename(m.p("3"), m.p("three"))
    os.unlink(m.p("4"))
    m.set("5", "note", "five")
    m.write("large", b"l" * 1_000_000)
    (m.path / "dir").mkdir()
    m.kill9()
    m.start()
    assert sorted(os.listdir(m.path)) == sorted({str(n) for n in range(30)} - {"3", "4"} | {"three", "large", "dir"})
    for number in set(range(30)) - {3, 4}:
        assert m.read(f"{number}") == b"%d" % number
    assert m.get("5", "note") == "five"
    assert m.read("large") == b"l" * 1_000_000


def test_a_kill_loses_at_most_what_commit_says(make_mount):
    m = make_mount("dir", opts="commit=1")
    m.write("old", "written")
    m.write("large", b"l" * 400_000)
    began = time.monotonic()
    while time.monotonic() - began < 2.5 * TIME_FACTOR:  # others keep on writing
        m.write("busy", os.urandom(100))
    m.kill9()
    m.start()
    assert m.read("old") == b"written" and m.read("large") == b"l" * 400_000


def number_content(number):
    size = 100_000 if number % 10 == 9 else 50
    return b"%08d" % number * (size // 8)


@pytest.mark.parametrize("delay", [0.01, 0.4, 1.1, 1.7])
def test_a_kill_leaves_one_instant(make_mount, delay):
    """Numbered files in order, a name that is replaced at each step, and a kill in the middle."""
    m = make_mount("dir", opts="commit=1")
    synced = m.workdir / "synced"
    child = os.fork()
    if child == 0:
        number = 0
        try:
            while True:
                m.write(f"f{number:08}", number_content(number))
                m.write("next", b"%08d" % number)
                os.rename(m.p("next"), m.p("current"))
                if number % 50 == 49:
                    fsync(m.p("current"))
                    synced.write_text(str(number))
                if number % 3 == 0 and number >= 30:
                    os.unlink(m.p(f"f{number - 30:08}"))
                number += 1
        except OSError:
            os._exit(0)
        finally:
            os._exit(1)
    wait_until(synced.exists, 20, "the first fsync")
    time.sleep(delay)
    os.kill(child, signal.SIGSTOP)  # it must not go on in the folder below the mount
    m.kill9()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    m.start()
    names = set(os.listdir(m.path))
    survivors = sorted(int(name[1:]) for name in names if name.startswith("f"))
    last = survivors[-1]
    assert last >= int(synced.read_text() or 0)
    # What is missing is what the child unlinked up to that instant: multiples of 3 up to last - 30.
    missing = [number for number in range(last) if number not in set(survivors)]
    unlinked = list(range(0, last - 30 + 1, 3))
    assert missing in (unlinked, [number for number in unlinked if number != last - 30])
    for number in survivors[:-1]:
        assert m.read(f"f{number:08}") == number_content(number), number
    assert number_content(last).startswith(m.read(f"f{last:08}"))
    current = int(m.read("current")) if "current" in names else -1
    assert current in (last, last - 1)
    if current == last:
        assert m.read(f"f{last:08}") == number_content(last)
    assert names - {"current", "next"} == {f"f{number:08}" for number in survivors}


def test_kill_after_kill(make_mount):
    """Each life adds a file and is killed; nothing that was fsynced ever goes."""
    m = make_mount("dir", opts="commit=3600")
    for life in range(6):
        for earlier in range(life):
            assert m.read(f"{earlier}") == b"%d" % earlier * 30_000
        m.write(f"{life}", b"%d" % life * 30_000)
        fsync(m.p(f"{life}"))
        m.write("unsynced", b"x" * 500_000)
        m.kill9()
        m.start()
    assert used(m.store) < 6 * 30_000 + 3_000_000


def test_no_crash_shortens_a_lifetime(make_mount):
    m = make_mount("dir", opts=LONG_COMMIT)
    m.set(".", "ttl.idle", "100s")
    m.set(".", "ttl.max", "500s")
    m.write("file", "x")
    fsync(m.p("file"))
    created, deadline = m.get("file", "ttl.created"), m.get("file", "ttl.deadline")
    m.kill9()
    m.start()
    assert m.get("file", "ttl.created") == created
    assert m.get("file", "ttl.deadline") >= deadline


# Disk

def test_orphaned_blobs_are_swept(make_mount):
    m = make_mount("dir", opts=LONG_COMMIT)
    m.write("kept", b"k" * 1_000_000)
    fsync(m.p("kept"))
    for number in range(10):
        m.write(f"lost{number}", b"x" * 2_000_000)
    m.kill9()
    m.start()
    kept = os.listdir(m.path)
    assert "kept" in kept
    expected = sum(m.p(name).stat().st_size for name in kept)
    wait_until(lambda: used(m.store) < expected + 3_000_000, 10, "the orphans' space")


def test_deleting_gives_back_the_disk(make_mount):
    m = make_mount("dir", opts="test-clock,commit=1")
    empty = used(m.store)
    for number in range(20):
        m.write(f"{number}", os.urandom(1 << 20))
    fsync(m.p("0"))
    assert used(m.store) >= empty + (20 << 20)
    for number in range(10):
        os.unlink(m.p(f"{number}"))
    wait_until(lambda: used(m.store) < empty + (12 << 20), 15, "the space of unlinked files")
    for number in range(10, 15):
        os.truncate(m.p(f"{number}"), 0)
    for number in range(15, 20):
        m.set(f"{number}", "ttl.expireAt", "+1s")
    m.clock_advance(2000)
    m.run_pass()
    wait_until(lambda: used(m.store) < empty + (2 << 20), 15, "the space of truncated and expired files")


def test_the_space_of_small_documents_is_used_again(make_mount):
    m = make_mount("dir", opts="commit=1")
    sizes = []
    for turn in range(5):
        for number in range(1000):
            m.write(f"{turn}-{number}", b"x" * 1000)
        fsync(m.p(f"{turn}-0"))
        for number in range(1000):
            os.unlink(m.p(f"{turn}-{number}"))
        fsync(m.path)
        sizes.append(used(m.store))
    assert sizes[-1] <= sizes[1] * 1.5, sizes


def test_short_lived_files_cost_the_disk_little(make_mount):
    m = make_mount("dir", opts=LONG_COMMIT)
    before = used(m.store)
    for number in range(500):
        m.write("temporary", os.urandom(5000))
        os.unlink(m.p("temporary"))
    fsync(m.path)
    assert used(m.store) - before < 500_000


# Refusals

def test_a_store_that_is_none_is_refused(make_mount, tmp_path):
    m = make_mount("dir")
    m.write("file", "x")
    m.stop()
    damaged = tmp_path / "damaged"
    shutil.copytree(m.store, damaged)
    for path in damaged.rglob("*"):
        if path.is_file() and path.stat().st_size:
            path.write_bytes(b"nonsense" * (path.stat().st_size // 8 + 1))
    with pytest.raises(pytest.fail.Exception, match="ended with status 3"):
        make_mount(damaged)
    m.start()
    assert m.read("file") == b"x"


def test_nothing_is_written_outside_the_store(make_mount):
    m = make_mount("dir")
    m.write("file", b"x" * 300_000)
    m.stop()
    assert sorted(path.name for path in m.workdir.iterdir()) == ["log"]
    assert os.listdir(m.path) == []
    with raises_errno(errno.ENOENT):
        os.stat(m.path / "file")
