"""Many users on one mount (issue 4.2): who may remove, rename and re-rule what.

The first half is the kernel's doing and proven on tmpfs; the rules are ours alone.
"""
import errno
import os
import shutil
import subprocess

import pytest

from conftest import raises_errno, run_as
from targets import fs  # noqa: F401  (a fixture)
from targets import renameat2, RENAME_EXCHANGE

pytestmark = pytest.mark.root

ANN, BOB, EVE = 23001, 23002, 23003  # nobody else's numbers
TEAM = 23100
SHARED = "allow_other,test-clock"


def refused(directory, uid, function, *codes, **kwargs):
    with raises_errno(*(codes or (errno.EPERM, errno.EACCES))):
        run_as(directory, uid, function, **kwargs)


def make(directory, uid, name, mode=0o644, data=b"x"):
    def make_it():
        fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.write(fd, data)
        os.fchmod(fd, mode)
        os.close(fd)
    run_as(directory, uid, make_it)


def setter(path, name, value, flags=0):
    return lambda: os.setxattr(path, "user." + name, value.encode(), flags)


def remover(path, name):
    return lambda: os.removexattr(path, "user." + name)


# Names: as on tmpfs


@pytest.fixture
def shared(fs):  # noqa: F811
    fs.chmod(0o1777)
    return fs


def test_sticky_directory(shared):
    make(shared, ANN, "ann", 0o666)
    make(shared, BOB, "bob")
    for action in (lambda: os.unlink("ann"), lambda: os.rename("ann", "mine"), lambda: os.rename("bob", "ann"),
                   lambda: renameat2("bob", "ann", RENAME_EXCHANGE), lambda: os.chmod("ann", 0o777),
                   lambda: os.chown("ann", BOB, BOB), lambda: os.utime("ann", (1, 1))):
        refused(shared, BOB, action)
    assert sorted(os.listdir(shared)) == ["ann", "bob"]
    run_as(shared, ANN, lambda: os.rename("ann", "renamed"))
    run_as(shared, ANN, lambda: os.unlink("renamed"))


def test_directories_of_others(shared):
    run_as(shared, ANN, lambda: (os.mkdir("d"), os.mkdir("d/e"), os.chmod("d", 0o755)))
    for action in (lambda: os.rmdir("d/e"), lambda: os.rmdir("d"), lambda: os.rename("d", "mine"),
                   lambda: os.mkdir("d/x"), lambda: os.symlink("x", "d/x"), lambda: os.mkfifo("d/x")):
        refused(shared, BOB, action)
    run_as(shared, ANN, lambda: os.chmod("d", 0o700))
    refused(shared, BOB, lambda: os.listdir("d"), errno.EACCES)
    refused(shared, BOB, lambda: os.stat("d/e"), errno.EACCES)


def test_owner_of_a_sticky_directory_may(shared):
    run_as(shared, ANN, lambda: (os.mkdir("d"), os.chmod("d", 0o1777)))
    make(shared, BOB, "d/bob", 0o600)
    refused(shared, EVE, lambda: os.unlink("d/bob"))
    run_as(shared, ANN, lambda: os.unlink("d/bob"))


def test_group_of_a_directory(shared):
    os.mkdir(shared / "team")
    os.chown(shared / "team", 0, TEAM)
    (shared / "team").chmod(0o2775)
    refused(shared, ANN, lambda: os.mkdir("team/x"), errno.EACCES)

    def as_member():
        os.mkdir("team/x")
        return os.stat("team/x")
    made = run_as(shared, ANN, as_member, groups=[TEAM])
    assert made.st_gid == TEAM and made.st_uid == ANN and made.st_mode & 0o2000
    run_as(shared, BOB, lambda: os.rmdir("team/x"), groups=[TEAM])


# Rules of files


STRICTER = [("ttl.seconds", "5"), ("ttl.expireAt", "+5s"), ("ttl.expireAt", "1"), ("ttl.idle", "5s"), ("ttl.max", "5s"),
            ("ttl.refresh", "write"), ("ttl.expireAt", "lt:+5s")]
HARMLESS = [("ttl.hold", "yes"), ("ttl.seconds", "-1"), ("ttl.idle", "off"), ("ttl.max", "off"), ("ttl.refresh", "extend"),
            ("ttl.hold", "no"), ("ttl.expireAt", "never")]


@pytest.fixture
def m(make_mount):
    return make_mount(opts=SHARED)


@pytest.mark.parametrize("name,value", STRICTER)
def test_stricter_rules_are_for_who_may_delete(m, name, value):
    make(m.path, ANN, "f", 0o666)
    refused(m.path, BOB, setter("f", name, value), errno.EPERM)
    assert "may not delete" in m.get("f", "ttl.error") and name in m.get("f", "ttl.error")
    assert m.lst("f") == [] and m.get("f", "ttl.deadline") == "never"
    run_as(m.path, ANN, setter("f", name, value))
    assert not m.exists("f") or m.lst("f") == [f"user.{name}"]


@pytest.mark.parametrize("name,value", HARMLESS)
def test_milder_rules_are_for_who_may_write(m, name, value):
    make(m.path, ANN, "f", 0o666)
    run_as(m.path, BOB, setter("f", name, value))
    assert m.get("f", "ttl.deadline") == "never"


def test_without_write_permission_nothing(m):
    make(m.path, ANN, "f", 0o644)
    refused(m.path, BOB, setter("f", "ttl.hold", "yes"), errno.EACCES)
    refused(m.path, BOB, setter("f", "doc.a", "1"), errno.EACCES)
    run_as(m.path, ANN, setter("f", "ttl.hold", "yes"))
    refused(m.path, BOB, remover("f", "ttl.hold"), errno.EACCES)
    assert run_as(m.path, BOB, lambda: os.getxattr("f", "user.ttl.reason")) == b"hold"


def test_longer_is_allowed_and_shorter_is_not(m):
    make(m.path, ANN, "f", 0o666)
    for name in ("ttl.seconds", "ttl.idle", "ttl.max"):
        run_as(m.path, ANN, setter("f", name, "100"))
        refused(m.path, BOB, setter("f", name, "99"), errno.EPERM)
        run_as(m.path, BOB, setter("f", name, "101"))
        refused(m.path, BOB, setter("f", name, "100s"), errno.EPERM)
        assert m.get("f", name) == "101"
        run_as(m.path, BOB, remover("f", name))  # nothing of the kind is in force then
    run_as(m.path, ANN, setter("f", "ttl.expireAt", "2090-01-01T00:00:00Z"))
    refused(m.path, BOB, setter("f", "ttl.expireAt", "2089-01-01T00:00:00Z"), errno.EPERM)
    refused(m.path, BOB, setter("f", "ttl.expireAt", "lt:2089-01-01T00:00:00Z"), errno.EPERM)
    refused(m.path, BOB, setter("f", "ttl.expireAt", "gt:2089-01-01T00:00:00Z"), errno.ECANCELED)
    run_as(m.path, BOB, setter("f", "ttl.expireAt", "gt:2091-01-01T00:00:00Z"))
    run_as(m.path, BOB, remover("f", "ttl.expireAt"))
    assert m.get("f", "ttl.deadline") == "never"


def test_hold_is_taken_away_only_by_who_may_delete(m):
    make(m.path, ANN, "f", 0o666)
    run_as(m.path, ANN, setter("f", "ttl.hold", "yes"))
    for action in (remover("f", "ttl.hold"), setter("f", "ttl.hold", "no"), setter("f", "ttl.hold", "off")):
        refused(m.path, BOB, action, errno.EPERM)
    assert m.get("f", "ttl.hold") == "yes"
    run_as(m.path, ANN, remover("f", "ttl.hold"))


def test_a_rule_that_replaces_the_directorys(m):
    m.set(".", "ttl.index._ts", "1000")
    m.set(".", "ttl.idle", "2000")
    m.set(".", "ttl.max", "3000")
    make(m.path, ANN, "f", 0o666)
    refused(m.path, BOB, setter("f", "ttl.seconds", "999"), errno.EPERM)
    refused(m.path, BOB, setter("f", "ttl.idle", "1999"), errno.EPERM)
    refused(m.path, BOB, setter("f", "ttl.max", "2999"), errno.EPERM)
    for name, value in (("ttl.seconds", "5000"), ("ttl.idle", "6000"), ("ttl.max", "7000")):
        run_as(m.path, BOB, setter("f", name, value))
        refused(m.path, BOB, remover("f", name), errno.EPERM)  # the directory's is stricter
    make(m.path, ANN, "g", 0o666, b'{"ttl":50}')
    refused(m.path, BOB, setter("g", "ttl.seconds", "49"), errno.EPERM)
    run_as(m.path, BOB, setter("g", "ttl.seconds", "51"))
    refused(m.path, BOB, remover("g", "ttl.seconds"), errno.EPERM)


def test_what_a_hold_covers_is_guarded_too(m):
    m.set(".", "ttl.hold", "yes")
    make(m.path, ANN, "f", 0o666)
    refused(m.path, BOB, setter("f", "ttl.seconds", "5"), errno.EPERM)
    refused(m.path, BOB, setter("f", "ttl.hold", "no"), errno.EPERM)


def test_bad_values_are_still_bad(m):
    make(m.path, ANN, "f", 0o666)
    refused(m.path, BOB, setter("f", "ttl.seconds", "nonsense"), errno.EINVAL)
    refused(m.path, BOB, setter("f", "ttl.nonsense", "5"), errno.EINVAL)
    refused(m.path, BOB, setter("f", "ttl.deadline", "5"), errno.EPERM)
    refused(m.path, BOB, remover("f", "ttl.seconds"), errno.ENODATA)


def test_root_may_all(m):
    make(m.path, ANN, "f", 0o600)
    m.set("f", "ttl.seconds", "5")
    m.rm("f", "ttl.seconds")
    m.set("f", "ttl.expireAt", "1")
    assert not m.exists("f")


def test_in_a_directory_of_ones_own(m):
    """The owner of the directory may delete what others have put there, so he may shorten it."""
    run_as(m.path, ANN, lambda: (os.mkdir("d"), os.chmod("d", 0o1777)))
    make(m.path, BOB, "d/f", 0o666)
    refused(m.path, EVE, setter("d/f", "ttl.seconds", "5"), errno.EPERM)
    run_as(m.path, ANN, setter("d/f", "ttl.seconds", "5"))


def test_owner_of_a_file_that_he_cannot_delete(m):
    os.mkdir(m.p("d"))
    m.write("d/f", "x")
    os.chown(m.p("d/f"), ANN, ANN)
    refused(m.path, ANN, setter("d/f", "ttl.seconds", "5"), errno.EPERM)
    refused(m.path, ANN, lambda: os.unlink("d/f"), errno.EACCES)
    run_as(m.path, ANN, setter("d/f", "ttl.hold", "yes"))
    refused(m.path, ANN, remover("d/f", "ttl.hold"), errno.EPERM)


@pytest.mark.tsan
def test_groups_count(m):
    os.mkdir(m.p("team"))
    os.chown(m.p("team"), 0, TEAM)
    os.chmod(m.p("team"), 0o775)
    m.write("team/f", "x")
    os.chown(m.p("team/f"), ANN, TEAM)
    os.chmod(m.p("team/f"), 0o666)
    refused(m.path, BOB, setter("team/f", "ttl.seconds", "5"), errno.EPERM)
    run_as(m.path, BOB, setter("team/f", "ttl.seconds", "50"), groups=[24000, TEAM])
    run_as(m.path, BOB, setter("team/f", "ttl.seconds", "40"), gid=TEAM)
    refused(m.path, BOB, setter("team/f", "ttl.seconds", "30"), errno.EPERM)
    os.chmod(m.p("team"), 0o1775)  # sticky: being in the group is no longer enough
    refused(m.path, BOB, setter("team/f", "ttl.seconds", "30"), errno.EPERM, groups=[TEAM])
    os.chmod(m.p("team"), 0o757)  # the group has less than the others
    refused(m.path, BOB, setter("team/f", "ttl.seconds", "30"), errno.EPERM, groups=[TEAM])
    run_as(m.path, EVE, setter("team/f", "ttl.seconds", "30"))


def test_every_name_of_a_file_counts(m):
    make(m.path, ANN, "f", 0o666)
    run_as(m.path, ANN, lambda: (os.mkdir("d"), os.chmod("d", 0o777)))
    run_as(m.path, ANN, lambda: os.link("f", "d/g"))
    refused(m.path, BOB, setter("d/g", "ttl.seconds", "5"), errno.EPERM)  # f is in the sticky root
    run_as(m.path, BOB, lambda: os.unlink("d/g"))
    run_as(m.path, ANN, lambda: os.rename("f", "d/f"))
    run_as(m.path, BOB, setter("d/f", "ttl.seconds", "5"))


def test_a_file_without_a_name(m):
    def unnamed():
        fd = os.open("f", os.O_CREAT | os.O_RDWR, 0o644)
        os.unlink("f")
        os.setxattr(fd, "user.ttl.seconds", b"5")
        os.setxattr(fd, "user.ttl.hold", b"yes")
        os.removexattr(fd, "user.ttl.hold")
        os.close(fd)
    run_as(m.path, BOB, unnamed)


# Fields


def test_fields_that_a_rule_reads(m):
    m.set(".", "ttl.index.at", "0")
    m.set(".", "ttl.index.part", '{"key":"_created","expireAfterSeconds":5,"partialFilterExpression":{"kind":"temp"}}')
    m.set(".", "ttl.index._ts", "-1")
    m.set(".", "ttl.index.plain", "{}")
    make(m.path, ANN, "f", 0o666)
    past = '{"$date":"1990-01-01T00:00:00Z"}'
    for field, value in (("at", past), ("at.b", past), ("kind", '"temp"'), ("kind.of", "1"), ("ttl", "1")):
        refused(m.path, BOB, setter("f", "doc." + field, value), errno.EPERM)
        assert "may not delete" in m.get("f", "ttl.error")
    for field in ("plain", "note", "atlas", "a"):
        run_as(m.path, BOB, setter("f", "doc." + field, past))
    run_as(m.path, ANN, setter("f", "doc.at", '{"$date":"2090-01-01T00:00:00Z"}'))
    refused(m.path, BOB, remover("f", "doc.at"), errno.EPERM)
    run_as(m.path, BOB, remover("f", "doc.note"))
    run_as(m.path, ANN, setter("f", "doc.at", past))
    assert not m.exists("f")


def test_fields_of_a_time_series(m):
    run_as(m.path, ANN, lambda: (os.mkdir("d"), os.chmod("d", 0o1777)))
    m.set("d", "ttl.timeseries", '{"timeField":"at","metaField":"m","granularity":"hours","expireAfterSeconds":50}')
    make(m.path, BOB, "d/f", 0o666, b'{"at":{"$date":"2035-01-01T00:00:00Z"},"m":1}')
    for field in ("at", "m", "m.x"):
        refused(m.path, EVE, setter("d/f", "doc." + field, "5"), errno.EPERM)
    run_as(m.path, EVE, setter("d/f", "doc.note", "5"))
    run_as(m.path, BOB, setter("d/f", "doc.m", "5"))


def test_writing_is_writing(m):
    """Who may write a content decides what its fields say; README says so."""
    m.set(".", "ttl.index.at", "0")
    make(m.path, ANN, "f", 0o666)

    def write():
        with open("f", "w", encoding="ascii") as file:
            file.write('{"at":{"$date":"1990-01-01T00:00:00Z"}}')
    run_as(m.path, BOB, write)
    assert not m.exists("f")


# Rules of directories


def test_rules_of_a_directory_are_its_owners(m):
    run_as(m.path, ANN, lambda: (os.mkdir("d"), os.chmod("d", 0o777)))
    for name, value in (("ttl.idle", "5s"), ("ttl.index._ts", "5"), ("ttl.hold", "yes"), ("ttl.visibility", "hidden"),
                        ("ttl.refresh", "extend")):
        refused(m.path, BOB, setter("d", name, value), errno.EPERM)
        assert "owner" in m.get("d", "ttl.error")
        run_as(m.path, ANN, setter("d", name, value))
        refused(m.path, BOB, remover("d", name), errno.EPERM)
        run_as(m.path, ANN, remover("d", name))
    run_as(m.path, BOB, setter("d", "other", "plain attributes follow the permission bits"))
    refused(m.path, BOB, setter(".", "ttl.idle", "5s"), errno.EPERM)  # the shared root
    m.set("d", "ttl.idle", "5s")


def test_a_rule_of_the_directory_ends_everybodys_documents(m):
    run_as(m.path, ANN, lambda: (os.mkdir("d"), os.chmod("d", 0o1777)))
    make(m.path, BOB, "d/bob", 0o600)
    run_as(m.path, ANN, setter("d", "ttl.max", "5s"))
    m.clock_advance(5_000)
    assert not m.exists("d/bob")


# The control directory


def test_control_directory_is_the_owners(m):
    def parameter(text):
        with open(".ttlfs/parameters/ttlMonitorSleepSecs", "w", encoding="ascii") as file:
            file.write(text)

    def start_pass():
        with open(".ttlfs/pass", "w", encoding="ascii") as file:
            file.write("1")
    for uid in (ANN, BOB):
        refused(m.path, uid, lambda: parameter("77"), errno.EACCES)
        refused(m.path, uid, start_pass, errno.EACCES)
        refused(m.path, uid, lambda: os.unlink(".ttlfs/pass"))
        refused(m.path, uid, lambda: os.rename(".ttlfs", "x"))
        refused(m.path, uid, lambda: os.chmod(".ttlfs/pass", 0o666))
        refused(m.path, uid, setter(".ttlfs/pass", "ttl.idle", "5"))
        assert run_as(m.path, uid, lambda: open(".ttlfs/status.json", encoding="utf-8").read(1)) == "{"
        assert run_as(m.path, uid, lambda: open(".ttlfs/parameters/ttlMonitorSleepSecs", encoding="ascii").read()) == "60\n"
    run_as(m.path, 0, lambda: parameter("78"))
    assert m.param("ttlMonitorSleepSecs") == "78"


# Accounts, and what they type


@pytest.fixture
def accounts():
    """Two accounts of this machine, for the time of one test."""
    names = [f"ttlfs{who}{os.getpid()}" for who in ("ann", "bob")]
    made = []
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    useradd, userdel = shutil.which("useradd", path=path), shutil.which("userdel", path=path)
    if not useradd or not userdel:
        pytest.skip("no useradd here")
    try:
        for name in names:
            subprocess.run([useradd, "--no-create-home", "--shell", "/bin/sh", name], check=True, timeout=60)
            made.append(name)
        yield names
    finally:
        for name in made:
            subprocess.run([userdel, name], check=False, timeout=60, stderr=subprocess.DEVNULL)


def test_a_session_of_two_accounts(make_mount, accounts):
    mount = make_mount(opts="allow_other")
    ann, bob = accounts

    def types(user, line):
        done = subprocess.run(["sh", "-c", line], cwd=mount.path, user=user, group=user, extra_groups=[], check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=60, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"})
        return done.returncode, done.stdout.strip()
    assert types(ann, "umask 0; echo hello > f; setfattr -n user.ttl.idle -v 1h f; stat -c '%U %a' f") == (0, f"{ann} 666")
    assert types(bob, "cat f; echo more >> f; cat f") == (0, "hello\nhello\nmore")
    assert types(bob, "rm -f f") == (1, "rm: cannot remove 'f': Operation not permitted")
    assert types(bob, "mv f g")[0] == 1
    assert types(bob, "echo x > h; mv -f h f")[0] == 1
    assert types(bob, "setfattr -n user.ttl.seconds -v 1 f") == (1, "setfattr: f: Operation not permitted")
    assert types(bob, "setfattr -n user.ttl.idle -v 10m f")[0] == 1
    assert types(bob, "setfattr -n user.ttl.idle -v 2h f") == (0, "")
    assert types(bob, "getfattr --only-values -n user.ttl.idle f") == (0, "2h")
    assert types(bob, "setfattr -n user.ttl.idle -v 1h .") == (1, "setfattr: .: Operation not permitted")
    assert types(bob, "echo 5 > .ttlfs/parameters/ttlMonitorSleepSecs")[0] != 0
    assert types(bob, "mkdir mine && setfattr -n user.ttl.idle -v 1h mine && echo x > mine/a") == (0, "")
    assert types(ann, "setfattr -n user.ttl.idle -v 1s mine")[0] == 1
    assert types(ann, "setfattr -n user.ttl.seconds -v 1 f && rm -f f") == (0, "")
