"""mount.ttlfs: what mount(8) says becomes what ttlfs understands, and back.

Nothing is mounted: a shell script that writes down its arguments stands in for ttlfs beside a copy
of the helper. The helper is $TTLFS_BUILD/mount.ttlfs.
"""

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HELPER = pathlib.Path(os.environ.get("TTLFS_BUILD", ROOT / "build")) / "mount.ttlfs"

FAKE_TTLFS = """#!/bin/sh
here=$(dirname "$0")
printf '%s\\n' "$@" > "$here/arguments"
[ ! -e "$here/stderr" ] || cat "$here/stderr" >&2
[ ! -e "$here/signal" ] || kill -"$(cat "$here/signal")" $$
exit "$(cat "$here/status")"
"""


class Helper:
    """A copy of mount.ttlfs with a stand-in for ttlfs beside it."""

    def __init__(self, folder):
        self.folder = folder
        self.path = folder / "mount.ttlfs"
        self.arguments = folder / "arguments"
        assert HELPER.is_file(), f"{HELPER} is missing: make"
        shutil.copy(HELPER, self.path)
        self.put_ttlfs(folder)

    @staticmethod
    def put_ttlfs(folder, status=0):
        (folder / "ttlfs").write_text(FAKE_TTLFS)
        (folder / "ttlfs").chmod(0o755)
        (folder / "status").write_text(str(status))

    def run(self, *args, environment=None):
        self.arguments.unlink(missing_ok=True)
        return subprocess.run([str(self.path), *args], capture_output=True, text=True, check=False,
                              timeout=30, env={**os.environ, **(environment or {})})

    def passed(self, *args):
        """What ttlfs was called with; the helper must succeed, silently."""
        result = self.run(*args)
        assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
        return self.arguments.read_text().splitlines()


@pytest.fixture
def helper(tmp_path):
    return Helper(tmp_path)


def options(helper, *args):
    """The options that ttlfs was given, as a list."""
    passed = helper.passed("memory:", "/mnt", *args)
    assert passed[-2:] == ["memory:", "/mnt"]
    if len(passed) == 2:
        return []
    assert len(passed) == 4 and passed[0] == "-o"
    return passed[1].split(",")


def test_plain(helper):
    assert helper.passed("memory:", "/mnt") == ["memory:", "/mnt"]
    assert helper.passed("/var/lib/a store", "/srv/a b") == ["/var/lib/a store", "/srv/a b"]


def test_options_are_passed_on(helper):
    given = ("nosuid,nodev,noexec,suid,dev,exec,noatime,relatime,strictatime,sync,dirsync,"
             "allow_other,default_permissions,size=10m,nr_inodes=1k,mode=1777,uid=0,gid=0,commit=5,"
             "ttl=60,idle=30m,max=1d,refresh=write,monitor=off,archive=/a,notify=never,test-clock,"
             "fsname=x,unknown,unknown=5")
    assert options(helper, "-o", given) == given.split(",")


@pytest.mark.parametrize("dropped", [
    "auto", "noauto", "user", "user=ann", "users", "nouser", "nousers", "owner", "noowner",
    "group", "nogroup", "nofail", "_netdev", "defaults", "rw", "comment=", "comment=some words",
    "x-systemd.automount", "x-systemd.requires=a.service", "x-", "X-mount.mkdir", "X-a=b",
    "uhelper=udisks2", "helper=ttlfs"])
def test_options_for_others_are_dropped(helper, dropped):
    assert options(helper, "-o", dropped) == []
    assert options(helper, "-o", f"nodev,{dropped},ttl=5") == ["nodev", "ttl=5"]
    assert options(helper, "-o", f"{dropped},nodev") == ["nodev"]
    assert options(helper, "-o", f"nodev,{dropped}") == ["nodev"]


@pytest.mark.parametrize("kept", [
    "automatic", "users2", "user_id=5", "grouped", "nofailure", "defaults2", "default_permissions",
    "rwx", "row", "comment", "xattr", "x", "X", "_netdevice", "owner=5", "Auto", "ttl=auto"])
def test_options_that_only_look_like_those_are_kept(helper, kept):
    assert options(helper, "-o", kept) == [kept]


def test_empty_options(helper):
    assert options(helper, "-o", "") == []
    assert options(helper, "-o", ",,,") == []
    assert options(helper, "-o", ",nodev,,nosuid,") == ["nodev", "nosuid"]


def test_several_o_are_merged_in_order(helper):
    assert options(helper, "-o", "a,b", "-o", "", "-o", "noauto", "-o", "c") == ["a", "b", "c"]


def test_commas_inside_an_option(helper):
    assert options(helper, "-o", r"archive=/a\,noauto,noauto,b") == ["archive=/a\\", "noauto", "b"]
    assert options(helper, "-o", 'x-a="b,c",d') == ["d"]
    assert options(helper, "-o", r"x-a=b\,c,d") == ["d"]
    assert options(helper, "-o", "a\\") == ["a\\"]
    assert options(helper, "-o", 'a="b') == ['a="b']


@pytest.mark.parametrize("args,read_only", [
    (["-o", "ro"], True), (["-r"], True), (["-o", "rw"], False), (["-w"], False), ([], False),
    (["-o", "ro,rw"], False), (["-o", "rw,ro"], True), (["-o", "ro", "-o", "rw"], False),
    (["-r", "-o", "rw"], False), (["-o", "rw", "-r"], True), (["-r", "-w"], False),
    (["-o", "ro,ro", "-r"], True), (["-o", "defaults,ro"], True), (["-r", "-o", "defaults"], True)])
def test_read_only(helper, args, read_only):
    assert options(helper, *args) == (["ro"] if read_only else [])


def test_flags_of_mount(helper):
    assert options(helper, "-s") == []
    assert options(helper, "-n") == []
    assert options(helper, "-sn", "-t", "ttlfs", "-o", "nodev") == ["nodev"]
    assert options(helper, "-t", "fuse.ttlfs") == []


def test_flags_may_stand_anywhere(helper):
    want = ["-o", "nodev", "memory:", "/mnt"]
    assert helper.passed("-o", "nodev", "memory:", "/mnt") == want
    assert helper.passed("memory:", "-o", "nodev", "/mnt") == want
    assert helper.passed("-onodev", "memory:", "/mnt") == want
    assert helper.passed("-o", "nodev", "--", "memory:", "/mnt") == want
    result = helper.run("memory:", "/mnt", "-o", "nodev", environment={"POSIXLY_CORRECT": "1"})
    assert result.returncode == 0
    assert helper.arguments.read_text().splitlines() == want


def test_fake_mounts_nothing(helper):
    result = helper.run("memory:", "/mnt", "-f", "-o", "nodev")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not helper.arguments.exists()
    assert helper.run("memory:", "-f").returncode == 1


def test_verbose_prints_the_command(helper):
    line = f"mount.ttlfs: {helper.folder}/ttlfs -o nodev,ro memory: /mnt\n"
    result = helper.run("memory:", "/mnt", "-v", "-o", "nodev,auto,ro")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", line)
    assert helper.arguments.exists()
    result = helper.run("memory:", "/mnt", "-fv", "-o", "nodev,ro")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", line)
    assert not helper.arguments.exists()


@pytest.mark.parametrize("args", [
    [], ["memory:"], ["memory:", "/mnt", "third"], ["memory:", "/mnt", "-o"], ["memory:", "/mnt", "-N"],
    ["memory:", "/mnt", "-t"], ["memory:", "/mnt", "-x"], ["memory:", "/mnt", "--help"],
    ["", "/mnt"], ["memory:", ""], ["--", "-store", "/mnt"], ["--", "memory:", "-mnt"],
    ["--", "memory:", "/mnt", "-v"]])
def test_incorrect_invocation(helper, args):
    result = helper.run(*args)
    assert result.returncode == 1
    assert "usage: mount.ttlfs STORE MOUNTPOINT" in result.stderr
    assert not helper.arguments.exists()


@pytest.mark.parametrize("theirs,ours", [
    (0, 0), (1, 1), (2, 1), (3, 32), (4, 32), (5, 32), (6, 32), (7, 32), (8, 32), (255, 32)])
def test_exit_status(helper, theirs, ours):
    (helper.folder / "status").write_text(str(theirs))
    (helper.folder / "stderr").write_text("ttlfs: the reason\n")
    result = helper.run("memory:", "/mnt")
    assert (result.returncode, result.stderr) == (ours, "ttlfs: the reason\n")


def test_killed_by_a_signal(helper):
    (helper.folder / "signal").write_text("KILL")
    result = helper.run("memory:", "/mnt")
    assert result.returncode == 32
    assert "signal 9" in result.stderr


def test_finds_ttlfs_through_a_symbolic_link(helper, tmp_path_factory):
    sbin = tmp_path_factory.mktemp("sbin")
    (sbin / "mount.ttlfs").symlink_to(helper.path)
    helper.path = sbin / "mount.ttlfs"
    assert helper.passed("memory:", "/mnt") == ["memory:", "/mnt"]


def test_what_stands_beside_it_comes_before_the_path(helper, tmp_path_factory):
    other = tmp_path_factory.mktemp("bin")
    Helper.put_ttlfs(other, status=4)
    result = helper.run("memory:", "/mnt", environment={"PATH": f"{other}:{os.environ['PATH']}"})
    assert result.returncode == 0
    assert not (other / "arguments").exists()


@pytest.mark.parametrize("how", ["missing", "not executable"])
def test_otherwise_installed_or_in_the_path(helper, tmp_path_factory, how):
    if how == "missing":
        (helper.folder / "ttlfs").unlink()
    else:
        (helper.folder / "ttlfs").chmod(0o644)
    other = tmp_path_factory.mktemp("bin")
    Helper.put_ttlfs(other)
    result = helper.run("memory:", "/mnt", "-fv",
                        environment={"PATH": f"{other}:{os.environ['PATH']}"})
    chosen = result.stderr.split()[1]
    assert chosen == "ttlfs" or chosen.endswith("/bin/ttlfs")
    if chosen == "ttlfs":  # none is installed: the PATH decides
        result = helper.run("memory:", "/mnt", environment={"PATH": f"{other}:{os.environ['PATH']}"})
        assert result.returncode == 0
        assert (other / "arguments").read_text().splitlines() == ["memory:", "/mnt"]


def test_ttlfs_that_cannot_be_run(helper):
    (helper.folder / "ttlfs").write_text("#!/no/such/interpreter\n")
    result = helper.run("memory:", "/mnt")
    assert result.returncode == 2
    assert f"cannot run {helper.folder}/ttlfs" in result.stderr


@pytest.mark.parametrize("namespace", ["/no/such/file", "/dev/null", "99999999999", "x", ""])
def test_namespace_that_cannot_be_entered(helper, namespace):
    result = helper.run("memory:", "/mnt", "-N", namespace)
    assert result.returncode == 2
    assert f"namespace {namespace}: " in result.stderr
    assert not helper.arguments.exists()
