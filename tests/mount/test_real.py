"""Real programs from Debian on the mount (issue 3, point 8): php, gcc, git, tar, sqlite3, and many documents."""
import filecmp
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from conftest import TIME_FACTOR, run, wait_until


def needs(*programs):
    missing = [program for program in programs if not shutil.which(program)]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {' '.join(missing)}")


# php sessions

PHP_SCRIPT = """<?php
session_id($argv[1]);
session_start();
$_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
$_SESSION['blob'] = str_repeat('x', 50);
$count = $_SESSION['count'];
session_write_close();
echo $count;
"""


class Sessions:
    def __init__(self, m):
        self.mount = m
        (m.path / "sessions").mkdir(mode=0o700)
        self.script = m.workdir / "session.php"
        self.script.write_text(PHP_SCRIPT)

    def use(self, name):
        """What the session has counted to, this use included."""
        done = run("php", "-n", "-d", f"session.save_path={self.mount.p('sessions')}", "-d", "session.gc_probability=0",
                   "-d", "session.use_strict_mode=0", "-d", "session.use_cookies=0", "-d", "display_errors=stderr",
                   self.script, name, stderr=subprocess.PIPE)
        return int(done.stdout)


@needs("php")
def test_php_sessions_by_the_clock(any_mount):
    m = any_mount
    sessions = Sessions(m)
    m.set("sessions", "ttl.idle", "10s")
    m.set("sessions", "ttl.max", "60s")
    assert sessions.use("unused") == 1
    counts = []
    for _ in range(11):
        counts.append(sessions.use("used"))
        m.clock_advance(5000)
    assert counts == list(range(1, 12)), "used within every idle time, it lives on"
    assert m.exists("sessions/sess_used") and not m.exists("sessions/sess_unused")
    assert sessions.use("unused") == 1, "a new one of the same name"
    m.clock_advance(6000)
    assert not m.exists("sessions/sess_used"), "61 s: its maximum"
    assert sessions.use("used") == 1
    assert sessions.use("unused") == 2
    m.clock_advance(11_000)
    m.run_pass()
    assert os.listdir(m.p("sessions")) == []


@needs("php")
@pytest.mark.slow
@pytest.mark.ttlfs(opts="")
def test_php_sessions_in_real_seconds(any_mount):
    idle, longest = 3 * TIME_FACTOR, 8 * TIME_FACTOR
    m = any_mount
    sessions = Sessions(m)
    m.set("sessions", "ttl.idle", f"{idle}s")
    m.set("sessions", "ttl.max", f"{longest}s")
    assert sessions.use("unused") == 1
    assert sessions.use("used") == 1
    began = time.monotonic()
    count = 1
    while time.monotonic() - began < longest - TIME_FACTOR:
        time.sleep(TIME_FACTOR / 2)
        count += 1
        assert sessions.use("used") == count
    assert not m.exists("sessions/sess_unused")
    wait_until(lambda: not m.exists("sessions/sess_used"), 3, "none outlives max")
    assert time.monotonic() - began > longest - TIME_FACTOR
    assert sessions.use("used") == 1
    wait_until(lambda: m.status()["metrics"]["ttl"]["deletedDocuments"] == 2, 10, "the monitor deletes them by itself")


# Builds

C_MAIN = """
#include <stdio.h>
#include "part.h"
int main(void) { printf("%d\\n", part(20) + PART_BASE); return 0; }
"""
C_PART = """
#include "part.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
int part(int n) { return n < 2 ? n : part(n - 1) + part(n - 2); }
"""


def build_program(folder, temporaries):
    (folder / "main.c").write_text(C_MAIN)
    (folder / "part.c").write_text(C_PART)
    (folder / "part.h").write_text("#define PART_BASE 1000\nint part(int n);\n")
    (folder / "Makefile").write_text("all: program\nprogram: main.o part.o\n\tgcc -o $@ $^\n"
                                     "%.o: %.c part.h\n\tgcc -O2 -save-temps=obj -c -o $@ $<\nclean:\n\trm -f *.o *.i *.s program\n")
    run("make", "-j2", cwd=folder, env={**os.environ, "TMPDIR": str(temporaries), "MAKEFLAGS": ""}, seconds=60)


@needs("gcc", "make")
def test_build_with_tmpdir_and_sources_on_the_mount(any_mount, tmp_path):
    m = any_mount
    for name in ("source", "tmp"):
        (m.path / name).mkdir()
    m.set("tmp", "ttl.idle", "1h")
    (tmp_path / "elsewhere").mkdir()
    build_program(m.p("source"), m.p("tmp"))
    build_program(tmp_path / "elsewhere", tmp_path)
    assert run(m.p("source/program")).stdout == "7765\n"
    names = sorted(path.name for path in (tmp_path / "elsewhere").iterdir())
    assert sorted(os.listdir(m.p("source"))) == names
    _, different, failed = filecmp.cmpfiles(tmp_path / "elsewhere", m.p("source"), names, shallow=False)
    assert (different, failed) == ([], [])
    assert os.listdir(m.p("tmp")) == [], "gcc clears its temporary files away"
    assert "Nothing to be done" in run("make", cwd=m.p("source"), env={**os.environ, "MAKEFLAGS": ""}).stdout


@needs("gcc")
def test_gcc_save_temps_in_tmpdir(any_mount):
    m = any_mount
    m.write("a.c", C_PART)
    m.write("part.h", "int part(int n);\n")
    run("gcc", "-save-temps", "-pipe", "-c", "a.c", cwd=m.path, env={**os.environ, "TMPDIR": str(m.path)})
    assert sorted(os.listdir(m.path)) == ["a.c", "a.i", "a.o", "a.s", "part.h"]


# git

@needs("git")
@pytest.mark.limit(120)
def test_git_clone_gc_fsck(any_mount):
    m = any_mount
    environment = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(m.workdir), "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
                   "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}

    def git(*words, folder=m.p("first")):
        return run("git", *words, cwd=folder, env=environment, seconds=60).stdout

    (m.path / "first").mkdir()
    git("init", "-q", "-b", "main")
    for commit in range(8):
        for number in range(12):
            path = m.p(f"first/d{number % 4}/file{number}")
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(hashlib.sha512(b"%d/%d" % (commit, number)).digest() * (1 + 37 * number))
        git("add", "-A")
        git("commit", "-q", "-m", f"commit {commit}")
    git("checkout", "-q", "-b", "side", "HEAD~3")
    git("checkout", "-q", "main")
    git("clone", "-q", "first", "linked", folder=m.path)
    git("clone", "-q", "--no-local", "first", "copied", folder=m.path)
    for folder in ("first", "linked", "copied"):
        git("gc", "-q", "--prune=now", folder=m.p(folder))
        git("fsck", "--full", "--strict", folder=m.p(folder))
        assert git("status", "--porcelain", folder=m.p(folder)) == ""
        assert git("rev-parse", "HEAD", folder=m.p(folder)) == git("rev-parse", "HEAD")
    assert run("diff", "-r", "--exclude=.git", m.p("first"), m.p("copied")).stdout == ""
    shutil.rmtree(m.p("first"))
    git("fsck", "--full", "--strict", folder=m.p("linked"))
    if m.store != "memory:":
        m.remount()
        git("fsck", "--full", "--strict", folder=m.p("linked"))
        git("log", "--stat", folder=m.p("copied"))


# tar

def tar_stream(folder):
    """A digest of everything that tar sees: names, modes, owners, times to the nanosecond, links, contents."""
    with subprocess.Popen(["tar", "--create", "--sort=name", "--format=posix",
                           "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime", "--numeric-owner", "--owner=0", "--group=0", "-C", str(folder), "."], stdout=subprocess.PIPE) as tar:
        digest = hashlib.sha256()
        while block := tar.stdout.read(1 << 20):
            digest.update(block)
    assert tar.returncode == 0
    return digest.hexdigest()


@needs("tar", "diff")
@pytest.mark.limit(120)
def test_tar_of_a_system_directory(any_mount):
    m = any_mount
    source = next(pathlib.Path(each) for each in ("/usr/include/linux", "/usr/lib/python3.11/asyncio", "/usr/share/doc", "/etc")
                  if os.path.isdir(each))
    (m.path / "out").mkdir()
    with subprocess.Popen(["tar", "-c", "--format=posix", "-C", str(source), "."], stdout=subprocess.PIPE) as maker:
        run("tar", "-x", "-p", "-C", m.p("out"), stdin=maker.stdout, seconds=90)
    assert run("diff", "-r", "--no-dereference", source, m.p("out"), seconds=60).stdout == ""
    assert tar_stream(m.p("out")) == tar_stream(source)
    run("tar", "-c", "--format=posix", "-f", m.p("archive.tar"), "-C", source, ".")
    run("tar", "-d", "-f", m.p("archive.tar"), "-C", m.p("out"), seconds=60)
    if m.store != "memory:":
        m.remount()
        assert tar_stream(m.p("out")) == tar_stream(source)


@needs("tar")
def test_tar_of_links_and_modes(any_mount, tmp_path):
    m = any_mount
    source = tmp_path / "source"
    (source / "deep" / "er").mkdir(parents=True)
    (source / "file").write_bytes(os.urandom(70_000))
    os.link(source / "file", source / "deep" / "hard")
    os.symlink("../file", source / "deep" / "soft")
    os.mkfifo(source / "deep" / "fifo", 0o620)
    with open(source / "sparse", "wb") as file:
        file.truncate(10 << 20)
        file.seek(7 << 20)
        file.write(b"data")
    (source / "file").chmod(0o4750)
    (source / "deep" / "er").chmod(0o1777)
    os.utime(source / "deep" / "er", ns=(0, 123_456_789_012_345_678))
    (m.path / "copy").mkdir()
    run("tar", "-c", "--format=posix", "-S", "-f", m.p("a.tar"), "-C", source, ".")
    run("tar", "-x", "-p", "-f", m.p("a.tar"), "-C", m.p("copy"))
    assert tar_stream(m.p("copy")) == tar_stream(source)
    assert m.p("copy/sparse").stat().st_blocks * 512 < 2 << 20, "the hole stays one"
    run("cp", "-a", source, m.p("by-cp"))
    assert tar_stream(m.p("by-cp")) == tar_stream(source)


# sqlite3

@needs("sqlite3")
@pytest.mark.parametrize("mode", ["delete", "wal", "truncate", "persist"])
def test_sqlite(any_mount, mode):
    m = any_mount
    database = m.p("test.db")

    def sql(statements, **kwargs):
        return run("sqlite3", "-batch", "-bail", "-cmd", ".timeout 20000", database, statements, **kwargs).stdout.strip()

    assert sql(f"PRAGMA journal_mode={mode};") == mode
    sql("CREATE TABLE t(id INTEGER PRIMARY KEY, who TEXT, data BLOB); CREATE INDEX by_who ON t(who);")
    inserts = ".timeout 20000\n" + "".join(
        f"BEGIN IMMEDIATE; INSERT INTO t(who, data) VALUES('%s', randomblob({500 + number * 20})); COMMIT;\n" for number in range(60))
    writers = [subprocess.Popen(["sqlite3", "-batch", "-bail", str(database)], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
               for _ in range(2)]
    feeders = [threading.Thread(target=writer.communicate, args=(inserts.replace("%s", name),)) for writer, name in zip(writers, "ab")]
    for feeder in feeders:
        feeder.start()
    while any(feeder.is_alive() for feeder in feeders):  # a reader meanwhile
        assert sql("SELECT count(*) >= 0 FROM t;") == "1"
    for feeder in feeders:
        feeder.join()
    assert [writer.returncode for writer in writers] == [0, 0]
    assert sql("SELECT who, count(*) FROM t GROUP BY who;") == "a|60\nb|60"
    sql("DELETE FROM t WHERE id % 3 = 0; VACUUM;")
    assert sql("PRAGMA integrity_check;") == "ok"
    assert sql("SELECT count(*) FROM t;") == "80"
    if m.store != "memory:":
        m.remount()
        assert sql("PRAGMA integrity_check; SELECT count(*) FROM t;") == "ok\n80"


@needs("sqlite3")
def test_sqlite_after_a_kill(make_mount):
    """A journal left behind by a killed writer is rolled back; what was committed is there."""
    m = make_mount("dir", opts="commit=3600")
    run("sqlite3", "-batch", m.p("test.db"), "CREATE TABLE t(x); INSERT INTO t VALUES(1),(2);")
    with subprocess.Popen(["sqlite3", "-batch", str(m.p("test.db"))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        writer.stdin.write("PRAGMA cache_size=5;\nBEGIN;\nUPDATE t SET x = x + 10;\n"
                           "INSERT INTO t SELECT randomblob(3000) FROM generate_series(1, 100);\nSELECT 'ready';\n")
        writer.stdin.flush()
        line = ""
        while "ready" not in line:
            line = writer.stdout.readline()
            assert line, "sqlite3 ended"
        writer.send_signal(signal.SIGKILL)
    m.kill9()
    m.start()
    assert run("sqlite3", "-batch", m.p("test.db"), "PRAGMA integrity_check; SELECT x FROM t;").stdout == "ok\n1\n2\n"


# Many documents

WRITER = textwrap.dedent("""
    import json, os, sys, time
    folder, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    os.chdir(folder)
    now = int(time.time() * 1000)
    for number in range(first, last):
        fd = os.open(f"session-{number:06}", os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600)
        os.write(fd, json.dumps({"user": f"user{number % 977}", "csrf": "%032x" % (number * 7919),
                                 "lastUse": {"$date": now + number % 60000}, "cart": [number, number + 1]}).encode())
        os.close(fd)
""")
DOCUMENTS = 100_000


@pytest.mark.slow
@pytest.mark.limit(240)
@pytest.mark.parametrize("store,visibility", [("memory:", "until-deleted"), ("dir", "hidden")], ids=["memory", "store"])
def test_100000_sessions_expire_in_sub_passes(make_mount, store, visibility):
    m = make_mount(store, opts="test-clock,monitor=off")
    (m.path / "sessions").mkdir()
    m.set("sessions", "ttl.visibility", visibility)
    m.param("ttlIndexDeleteTargetDocs", 10_000)
    for number in range(200):
        m.write(f"sessions/live{number}", {"user": "live", "number": number})
    half = DOCUMENTS // 2

    def write(first, last):
        return subprocess.Popen([sys.executable, "-c", WRITER, str(m.p("sessions")), str(first), str(last)])

    writers = [write(0, half // 2), write(half // 2, half)]
    assert [writer.wait() for writer in writers] == [0, 0]
    m.set("sessions", "ttl.index.lastUse", "600")  # half are there already, the others come into the index
    writers = [write(half, half + half // 2), write(half + half // 2, DOCUMENTS)]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert m.get("sessions/session-000000", "ttl.reason") == "index lastUse"
    assert m.get(f"sessions/session-{DOCUMENTS - 1:06}", "ttl.reason") == "index lastUse"
    listing = ["ls", "-U", str(m.p("sessions"))]
    assert len(run(*listing).stdout.splitlines()) == DOCUMENTS + 200

    before = m.status()["metrics"]["ttl"]
    stop = threading.Event()
    counts, contents, failures = [], [], []

    def keep(action):
        def loop():
            try:
                while not stop.is_set():
                    action()
            except BaseException as failure:
                failures.append(failure)
        thread = threading.Thread(target=loop)
        thread.start()
        return thread

    def list_all():
        counts.append(len(run(*listing).stdout.splitlines()))

    def cat_all():
        contents.append(run("sh", "-c", "cat live*", cwd=m.p("sessions")).stdout)

    loops = [keep(list_all), keep(cat_all)]
    try:
        wait_until(lambda: counts and contents, 30, "ls and cat have begun")
        m.clock_advance(661_000)
        result = m.run_pass()
    finally:
        rounds = len(counts), len(contents)
        wait_until(lambda: failures or (len(counts) > rounds[0] + 1 and len(contents) > rounds[1] + 1), 30, "one more round of both")
        stop.set()
        for loop in loops:
            loop.join()
    assert failures == []
    after = m.status()["metrics"]["ttl"]
    assert after["deletedDocuments"] - before["deletedDocuments"] == DOCUMENTS
    assert after["subPasses"] - before["subPasses"] >= DOCUMENTS // 10_000
    assert after["passes"] - before["passes"] == 1
    assert isinstance(result, dict) and result
    assert counts == sorted(counts, reverse=True) and counts[-1] == 200
    expected = "".join(json.dumps({"user": "live", "number": int(name[4:])})
                       for name in sorted(f"live{number}" for number in range(200)))
    assert set(contents) == {expected}
    assert len(os.listdir(m.p("sessions"))) == 200
