"""Mounting (spec 1): exit statuses, background, signals, options, and mount -t ttlfs."""
import contextlib
import errno
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import tempfile

import pytest

from conftest import BINARY, WRAP, raises_errno, run, wait_until

BAD_OPTIONS, NO_MOUNTPOINT, SETUP, MOUNT = 1, 2, 3, 4


def mounted(path):
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        return str(path) in [line.split()[4] for line in table]


def daemons(path):
    """The processes that name this mountpoint."""
    found = []
    for process in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0") if process.name.isdigit() else []
            if os.fsencode(path) in words and int(process.name) != os.getpid():
                found.append(int(process.name))
    return found


class Background:
    """ttlfs as a user starts it: without -f."""

    def __init__(self, folder):
        self.folder = folder
        self.path = folder / "mnt"
        self.store = folder / "store"
        self.path.mkdir()

    def ttlfs(self, *args, binary=BINARY, **kwargs):
        kwargs.setdefault("stderr", subprocess.PIPE)
        return run(*WRAP, binary, *args, check=False, seconds=20, **kwargs)

    def refused(self, status, *args, **kwargs):
        """ttlfs must end with this status (or one of these) and one line on stderr; the line."""
        done = self.ttlfs(*args, **kwargs)
        allowed = status if isinstance(status, tuple) else (status,)
        assert done.returncode in allowed, f"status {done.returncode}: {done.stderr}"
        assert not mounted(self.path)
        assert done.stdout == ""
        assert re.fullmatch(r"[^\n]+\n", done.stderr), f"not one line: {done.stderr!r}"
        return done.stderr

    def unmount(self):
        run("fusermount3", "-u", self.path)
        self.wait_for_the_end()

    def wait_for_the_end(self):
        wait_until(lambda: not daemons(self.path), 15, "the daemon's end")


@pytest.fixture
def background(tmp_path):
    it = Background(tmp_path)
    yield it
    if mounted(it.path):
        it.unmount()
    it.wait_for_the_end()


# Exit statuses

@pytest.mark.parametrize("option", [
    "nonsense", "nonsense=1", "size", "size=", "size=abc", "size=-1", "size=1x", "size=1m2", "nr_inodes=x", "nr_inodes=-5",
    "mode=9", "mode=abc", "mode=77777777", "uid=x", "uid=-2", "gid=", "gid=99999999999", "commit=-1", "commit=abc", "commit=",
    "ttl=abc", "ttl=-2", "ttl=1.5", "ttl=2147483648", "ttl=500ms", "idle=0", "idle=", "idle=-1", "idle=5x", "idle=1h30m", "max=0",
    "max=abc", "refresh=maybe", "refresh=", "monitor=perhaps", "monitor", "notify=sometimes", "test-clock=yes",
    "idle=5s,nonsense", "size=1m,mode=8"])
def test_bad_options(background, option):
    line = background.refused(BAD_OPTIONS, "-f", "-o", option, "memory:", background.path)
    named = [part for part in re.split("[,=]", option) if part in line]
    assert named, f"the line does not name the option: {line}"


@pytest.mark.parametrize("args", [["--nonsense"], ["-x"]])
def test_bad_flags(background, args):
    background.refused(BAD_OPTIONS, *args, "memory:", background.path)


def test_too_many_arguments(background):
    background.refused(BAD_OPTIONS, "memory:", background.path, "another")


def test_no_mountpoint(background):
    background.refused(NO_MOUNTPOINT, "memory:")
    background.refused((BAD_OPTIONS, NO_MOUNTPOINT))


def test_mountpoint_that_is_not_there(background):
    background.refused((NO_MOUNTPOINT, MOUNT), "memory:", background.folder / "missing")


def test_mountpoint_that_is_a_file(background):
    (background.folder / "file").write_text("x")
    background.refused((NO_MOUNTPOINT, MOUNT), "memory:", background.folder / "file")
    assert (background.folder / "file").read_text() == "x"


def test_store_that_is_a_file(background):
    background.store.write_text("x")
    line = background.refused(SETUP, background.store, background.path)
    assert str(background.store) in line
    background.refused(SETUP, background.store / "below", background.path)
    assert background.store.read_text() == "x"


@pytest.mark.root
def test_mount_without_rights_to_the_mountpoint(background):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ttlfs-test."))  # pytest's own are closed to nobody
    try:
        folder.chmod(0o755)
        (folder / "mnt").mkdir()
        shutil.copy(BINARY, folder / "ttlfs")
        done = background.ttlfs("memory:", folder / "mnt", binary=folder / "ttlfs", user=65534, group=65534,
                                extra_groups=[], cwd="/")
        assert done.returncode == MOUNT, done.stderr
        assert done.stderr and not mounted(folder / "mnt")
    finally:
        shutil.rmtree(folder)


def test_help_and_version(background):
    for flag in ("--help", "-h"):
        done = background.ttlfs(flag, stderr=subprocess.STDOUT)
        assert done.returncode == 0
        assert "STORE" in done.stdout and "commit=" in done.stdout
    done = background.ttlfs("--version", stderr=subprocess.STDOUT)
    assert done.returncode == 0 and "ttlfs" in done.stdout


def test_store_in_use(background, make_mount):
    holder = make_mount("dir")
    holder.write("mine", "x")
    line = background.refused(SETUP, holder.store, background.path)
    assert re.search(rf"\b{holder.pid}\b", line), line
    os.symlink(holder.store, background.folder / "alias")
    line = background.refused(SETUP, background.folder / "alias", background.path)
    assert re.search(rf"\b{holder.pid}\b", line), line
    assert holder.read("mine") == b"x"
    holder.stop()
    assert background.ttlfs(holder.store, background.path).returncode == 0
    assert (background.path / "mine").read_text() == "x"


def test_two_memory_mounts_are_two(make_mount):
    one, two = make_mount(), make_mount()
    one.write("x", "1")
    assert not two.exists("x")


def test_store_is_free_after_a_kill(make_mount):
    m = make_mount("dir")
    m.kill9()
    m.start()


# Background

@pytest.mark.parametrize("store", ["memory:", "dir"])
def test_background_returns_when_the_mount_answers(background, store):
    place = background.store if store == "dir" else store
    done = background.ttlfs(place, background.path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert background.path.stat().st_dev != background.folder.stat().st_dev
    (background.path / "file").write_text("at once")
    assert (background.path / "file").read_text() == "at once"
    pids = daemons(background.path)
    assert len(pids) == 1 and os.getsid(pids[0]) != os.getsid(0)
    background.unmount()
    assert not (background.path / "file").exists()


def test_background_with_relative_paths(background):
    """A daemon changes to /; what it was told was meant where it was started."""
    here = {"cwd": background.folder}
    assert background.ttlfs("store", "mnt", **here).returncode == 0
    (background.path / "file").write_text("kept")
    run("fusermount3", "-u", background.path)
    wait_until(lambda: not mounted(background.path), 10, "the unmount")
    assert background.store.is_dir()
    wait_until(lambda: background.ttlfs("store", "mnt", **here).returncode == 0, 10, "the store is free again")
    assert (background.path / "file").read_text() == "kept"
    run("fusermount3", "-u", background.path)


def test_option_spellings(background):
    done = background.ttlfs("-o", "idle=5s", "-oallow_other" if os.geteuid() == 0 else "-onosuid", "-o", "max=1m,test-clock",
                            "memory:", background.path)
    assert done.returncode == 0, done.stderr
    assert os.getxattr(background.path, "user.ttl.idle") == b"5s"
    assert os.getxattr(background.path, "user.ttl.max") == b"1m"
    with open("/proc/self/mounts", encoding="utf-8") as table:
        line, = [line for line in table if line.split()[1] == str(background.path)]
    assert "ttlfs" in line


def test_options_of_the_loop(background):
    for option in ("max_threads=1", "max_threads=x", "max_idle_threads=0", "max_threads=", "clone_fd=1"):
        assert option in background.refused(BAD_OPTIONS, "-o", option, "memory:", background.path)
    done = background.ttlfs("-o", "clone_fd,max_threads=4,max_idle_threads=2", "memory:", background.path)
    assert done.returncode == 0, done.stderr
    (background.path / "file").write_text("text")
    assert (background.path / "file").read_text() == "text"


def test_nothing_of_the_terminal_is_held(background):
    """The pipe's end comes when the parent returns: the daemon has let go of it."""
    words = " ".join(WRAP + [str(BINARY)])
    assert run("sh", "-c", f"{words} memory: {background.path} 2>&1 | cat").stdout == ""
    wait_until(lambda: mounted(background.path), 10, "the mount")


# The end

def fill(m):
    """Much that nobody fsynced."""
    (m.path / "dir").mkdir()
    for number in range(200):
        m.write(f"dir/{number}", f"content {number}")
    m.write("large", b"large" * 200_000)
    m.set("dir/5", "doc.colour", '"red"')
    os.rename(m.p("dir/7"), m.p("seven"))
    os.unlink(m.p("dir/8"))


def assert_filled(m):
    for number in set(range(200)) - {7, 8}:
        assert m.read(f"dir/{number}") == f"content {number}".encode()
    assert m.read("large") == b"large" * 200_000
    assert m.get("dir/5", "doc.colour") == '"red"'
    assert m.read("seven") == b"content 7"
    assert sorted(os.listdir(m.path)) == ["dir", "large", "seven"] and len(os.listdir(m.p("dir"))) == 198


@pytest.mark.tsan
@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "SIGHUP", "fusermount3"])
def test_clean_end_keeps_everything(make_mount, how):
    m = make_mount("dir", opts="commit=3600")
    fill(m)
    if how.startswith("SIG"):
        os.kill(m.pid, getattr(signal, how))
    else:
        run("fusermount3", "-u", m.path)
    assert m.ended() == 0
    m.start()
    assert_filled(m)


@pytest.mark.root
def test_umount_keeps_everything(make_mount):
    m = make_mount("dir", opts="commit=3600")
    fill(m)
    run("umount", m.path)
    assert m.ended() == 0
    m.start()
    assert_filled(m)


@pytest.mark.parametrize("store", ["memory:", "dir"])
def test_signal_while_files_are_open(make_mount, store):
    m = make_mount(store, opts="commit=3600")
    fd = os.open(m.p("open"), os.O_CREAT | os.O_RDWR, 0o644)
    os.write(fd, b"written")
    held = os.open(m.path, os.O_RDONLY | os.O_DIRECTORY)
    os.kill(m.pid, signal.SIGTERM)
    wait_until(lambda: m.process.poll() is not None, 15, "the daemon's end")
    assert m.process.returncode == 0
    os.close(held)
    with contextlib.suppress(OSError):  # its flush has nobody to go to
        os.close(fd)
    assert m.ended() == 0
    if store == "dir":
        m.start()
        assert m.read("open") == b"written"


def test_signals_during_work(make_mount):
    """Requests that come while it ends are answered or fail; what was acknowledged is there."""
    m = make_mount("dir", opts="commit=3600")
    child = os.fork()
    if child == 0:
        number = 0
        try:
            while True:
                with open(m.p(f"{number:06}"), "wb", buffering=0) as file:
                    file.write(b"%06d" % number)
                number += 1
                (m.workdir / "count.new").write_text(str(number))
                os.replace(m.workdir / "count.new", m.workdir / "count")  # it may be killed at any moment
        except OSError:
            os._exit(0)
        finally:
            os._exit(1)
    wait_until(lambda: m.exists("000100"), 20, "a hundred files")
    os.kill(m.pid, signal.SIGTERM)
    assert m.ended() == 0
    # Once unmounted, the child may write into the folder below: that one ends it.
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    below = [path.name for path in m.path.iterdir()]
    for name in below:
        (m.path / name).unlink()
    m.start()
    for number in range(int((m.workdir / "count").read_text()) - len(below)):
        assert m.read(f"{number:06}") == b"%06d" % number


def test_first_mount_makes_the_store(make_mount, tmp_path):
    m = make_mount(tmp_path / "new")
    m.stop()
    assert (tmp_path / "new").is_dir()
    assert not stat.S_IMODE((tmp_path / "new").stat().st_mode) & 0o077, "contents are nobody else's business"


def test_memory_forgets(make_mount):
    m = make_mount("memory:")
    m.write("file", "x")
    m.remount()
    assert os.listdir(m.path) == []


# Options

@pytest.mark.root
@pytest.mark.parametrize("store", ["memory:", "dir"])
def test_mode_uid_gid(make_mount, store):
    found = make_mount(store, opts="mode=1777,uid=1234,gid=4321").path.stat()
    assert stat.S_IMODE(found.st_mode) == 0o1777
    assert (found.st_uid, found.st_gid) == (1234, 4321)


def test_mode_of_the_root(make_mount):
    m = make_mount(opts="mode=0750")
    assert stat.S_IMODE(m.path.stat().st_mode) == 0o750
    assert (m.path.stat().st_uid, m.path.stat().st_gid) == (os.geteuid(), os.getegid())
    m.path.chmod(0o711)
    assert stat.S_IMODE(m.path.stat().st_mode) == 0o711


@pytest.mark.parametrize("size,expected", [("4m", 4 << 20), ("4M", 4 << 20), ("4096k", 4 << 20), ("4194304", 4 << 20), ("1g", 1 << 30)])
def test_size_in_statfs(make_mount, size, expected):
    found = os.statvfs(make_mount(opts=f"size={size}").path)
    assert found.f_blocks * found.f_frsize == expected
    assert found.f_bfree * found.f_frsize > expected * 0.98


def test_size_as_a_share_of_memory(make_mount):
    found = os.statvfs(make_mount(opts="size=25%").path)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert found.f_blocks * found.f_frsize == pytest.approx(memory / 4, rel=0.02)


@pytest.mark.ttlfs(opts="size=2m")
def test_size_is_a_limit(any_mount):
    m = any_mount
    piece = b"x" * 65536

    def fill_up(name):
        written = 0
        fd = os.open(m.p(name), os.O_CREAT | os.O_WRONLY, 0o644)
        try:
            with raises_errno(errno.ENOSPC):
                while written < 8 << 20:
                    written += os.write(fd, piece)
        finally:
            os.close(fd)
        return written

    first = fill_up("first")
    assert (2 << 20) * 0.8 <= first <= 2 << 20
    assert m.p("first").stat().st_size == first
    found = os.statvfs(m.path)
    assert found.f_bavail * found.f_frsize <= 65536 * 2
    with raises_errno(errno.ENOSPC):
        m.write("second", piece * 3)
    os.unlink(m.p("second"))
    os.truncate(m.p("first"), 0)
    assert fill_up("third") >= first * 0.9
    os.unlink(m.p("third"))

    def is_free():
        return os.statvfs(m.path).f_bavail * found.f_frsize > (2 << 20) * 0.95

    wait_until(is_free, 5, "the space of what was unlinked")  # its release comes behind the close
    fd = os.open(m.p("open"), os.O_CREAT | os.O_RDWR, 0o644)
    os.write(fd, piece * 16)
    os.unlink(m.p("open"))
    os.close(fd)
    wait_until(is_free, 5, "the space of what was unlinked while open")
    m.write("small", "fits")
    assert m.read("small") == b"fits"


@pytest.mark.ttlfs(opts="size=1m")
def test_size_does_not_count_holes(any_mount):
    fd = os.open(any_mount.p("sparse"), os.O_CREAT | os.O_RDWR, 0o644)
    os.ftruncate(fd, 1 << 30)
    os.pwrite(fd, b"x", 1 << 29)
    os.close(fd)
    any_mount.write("more", b"x" * 500_000)


@pytest.mark.ttlfs(opts="size=1m")
def test_size_counts_small_documents(any_mount):
    with raises_errno(errno.ENOSPC):
        for number in range(4000):
            any_mount.write(f"{number}", b"x" * 1000)
    assert len(os.listdir(any_mount.path)) > 200
    for name in os.listdir(any_mount.path):
        os.unlink(any_mount.p(name))
    any_mount.write("large", b"x" * 900_000)


@pytest.mark.ttlfs(opts="nr_inodes=50")
def test_nr_inodes(any_mount):
    m = any_mount
    found = os.statvfs(m.path)
    assert found.f_files == 50 and found.f_ffree in (49, 50)
    made = 0
    with raises_errno(errno.ENOSPC):
        for made in range(100):
            m.write(f"{made}", "x")
    assert made in (49, 50)
    assert os.statvfs(m.path).f_ffree == 0
    for attempt in (lambda: m.p("dir").mkdir(), lambda: os.symlink("x", m.p("link")), lambda: os.mkfifo(m.p("fifo"))):
        with raises_errno(errno.ENOSPC):
            attempt()
    os.rename(m.p("1"), m.p("one"))
    m.write("one", "overwriting is no new document")
    os.unlink(m.p("0"))
    os.unlink(m.p("2"))
    m.p("dir").mkdir()
    m.write("dir/file", "y")
    with raises_errno(errno.ENOSPC):
        m.write("dir/another", "y")


def test_nr_inodes_with_a_suffix(make_mount):
    assert os.statvfs(make_mount(opts="nr_inodes=2k").path).f_files == 2048


@pytest.mark.parametrize("store", ["memory:", "dir"])
def test_rules_at_mount(make_mount, store):
    m = make_mount(store, opts="test-clock,monitor=off,ttl=3600,idle=10m,max=1d,refresh=write")
    assert json.loads(m.get(".", "ttl.index._ts"))["expireAfterSeconds"] == 3600
    assert m.get(".", "ttl.idle") == "10m"
    assert m.get(".", "ttl.max") == "1d"
    assert m.get(".", "ttl.refresh") == "write"
    (m.path / "sub").mkdir()
    assert m.get("sub", "ttl.idle") == "10m"
    m.write("sub/file", "x")
    assert m.get("sub/file", "ttl.reason") == "idle"
    m.clock_advance(600_000)
    assert not m.exists("sub/file")


def test_ttl_at_mount_expires(make_mount):
    m = make_mount(opts="test-clock,ttl=5")
    m.write("file", "x")
    assert m.get("file", "ttl.reason") == "index _ts"
    m.clock_advance(4000)
    assert m.exists("file")
    m.clock_advance(1000)
    assert not m.exists("file")
    wait_until(lambda: m.status()["metrics"]["ttl"]["deletedDocuments"] == 1, 10, "the deletion")


def test_ttl_minus_one_leaves_it_to_the_documents(make_mount):
    m = make_mount(opts="test-clock,ttl=-1")
    m.write("plain", {"a": 1})
    m.write("own", {"ttl": 5})
    m.clock_advance(6000)
    assert m.exists("plain") and not m.exists("own")


def test_rules_at_a_later_mount_win(make_mount):
    m = make_mount("dir", opts="idle=1h,max=2d")
    m.remount("idle=2h")
    assert m.get(".", "ttl.idle") == "2h"
    assert m.get(".", "ttl.max") == "2d"
    m.remount("")
    assert m.get(".", "ttl.idle") == "2h"


def test_monitor_off(make_mount):
    on, off = make_mount(opts="test-clock"), make_mount(opts="test-clock,monitor=off")
    for m in (off, on):
        m.write("file", "x")
        m.set("file", "ttl.expireAt", "+5s")
        m.clock_advance(6000)
    wait_until(lambda: on.status()["metrics"]["ttl"]["deletedDocuments"] == 1, 10, "the monitor's deletion")
    assert off.status()["metrics"]["ttl"]["deletedDocuments"] == 0
    assert not off.exists("file"), "hidden all the same"
    off.run_pass()
    assert off.status()["metrics"]["ttl"]["deletedDocuments"] == 1, "a pass on demand works"


def test_read_only(make_mount):
    m = make_mount("dir", opts="test-clock")
    m.write("file", "content")
    (m.path / "dir").mkdir()
    os.symlink("file", m.p("link"))
    m.set("file", "note", "1")
    m.write("due", "x")
    m.set("due", "ttl.expireAt", "+1s")
    m.remount("test-clock,ro")
    assert m.read("file") == b"content" and m.read("link") == b"content"
    assert m.get("file", "note") == "1"
    for attempt in (lambda: m.write("file", "y"), lambda: m.write("new", "y"), lambda: m.p("new").mkdir(),
                    lambda: os.unlink(m.p("file")), lambda: os.rmdir(m.p("dir")), lambda: os.chmod(m.p("file"), 0o600),
                    lambda: os.rename(m.p("file"), m.p("dir/file")), lambda: os.link(m.p("file"), m.p("hard")),
                    lambda: os.truncate(m.p("file"), 0), lambda: m.set("file", "note", "2"), lambda: m.rm("file", "note"),
                    lambda: os.utime(m.p("file")), lambda: os.symlink("x", m.p("l2")), lambda: os.mkfifo(m.p("fifo")),
                    lambda: m.set(".", "ttl.idle", "5s")):
        with raises_errno(errno.EROFS):
            attempt()
    assert os.statvfs(m.path).f_flag & os.ST_RDONLY
    wait_until(lambda: not m.exists("due"), 10, "it is hidden")
    assert m.status()["metrics"]["ttl"]["deletedDocuments"] == 0, "the monitor is idle"
    m.remount("test-clock")
    assert m.read("file") == b"content"
    wait_until(lambda: m.status()["metrics"]["ttl"]["deletedDocuments"] == 1, 10, "now it goes")


def test_without_test_clock_the_clock_is_not_settable(make_mount):
    m = make_mount(opts="")
    assert not m.exists(".ttlfs/parameters/clockOffsetMS")
    with raises_errno(errno.ENOENT, errno.EACCES, errno.EPERM):
        m.param("clockOffsetMS", 1000)


@pytest.mark.parametrize("opts", ["commit=0", "commit=5", "sync", "noatime,nosuid,nodev,noexec", "notify=never", "notify=always",
                                  "notify=auto", "monitor=on", "default_permissions", "fsname=mystore", "idle=5s,max=2s",
                                  "idle=2w", "max=5000ms", "ttl=0", "ttl=90s", "refresh=extend,idle=1h,max=1d"])
def test_accepted_options(make_mount, opts):
    m = make_mount("dir", opts=opts)
    if "ttl=0" not in opts:
        m.write("file", "x")
        assert m.read("file") == b"x"


# mount(8)

@pytest.fixture
def mount8(background):
    """mount -t ttlfs needs its helper in /sbin; a remount looks for it under the type that the kernel shows."""
    beside = BINARY.resolve().parent / "mount.ttlfs"
    lent = []
    for helper in (pathlib.Path("/sbin/mount.ttlfs"), pathlib.Path("/sbin/mount.fuse.ttlfs")):
        if not os.path.lexists(helper):
            assert beside.exists(), f"{beside} is not there: run make"
            os.symlink(beside, helper)
            lent.append(helper)
    yield background
    if mounted(background.path):
        run("umount", background.path)
    for helper in lent:
        os.unlink(helper)


@pytest.mark.root
def test_mount_t_ttlfs(mount8):
    run("mount", "-t", "ttlfs", mount8.store, mount8.path, "-o", "idle=5m,noatime,x-systemd.automount,mode=1777")
    assert os.getxattr(mount8.path, "user.ttl.idle") == b"5m"
    assert stat.S_IMODE(mount8.path.stat().st_mode) == 0o1777
    (mount8.path / "file").write_text("kept")
    run("umount", mount8.path)
    mount8.wait_for_the_end()
    run("mount", "-t", "ttlfs", "-r", mount8.store, mount8.path)
    assert (mount8.path / "file").read_text() == "kept"
    with raises_errno(errno.EROFS):
        (mount8.path / "new").touch()


@pytest.mark.root
def test_fstab(mount8):
    fstab = mount8.folder / "fstab"
    fstab.write_text(f"memory: {mount8.path} ttlfs noauto,nofail,user,exec,max=1h,size=8m,_netdev 0 0\n")
    run("mount", "-T", fstab, mount8.path)
    assert os.getxattr(mount8.path, "user.ttl.max") == b"1h"
    found = os.statvfs(mount8.path)
    assert found.f_blocks * found.f_frsize == 8 << 20
    run("umount", mount8.path)
    mount8.wait_for_the_end()


def flags_of(path):
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        return next(line.split()[5] for line in table if line.split()[4] == str(path)).split(",")


@pytest.mark.root
def test_mount_o_remount(mount8):
    run("mount", "-t", "ttlfs", mount8.store, mount8.path, "-o", "nosuid")
    (mount8.path / "file").write_text("kept")
    run("mount", "-o", "remount,ro", mount8.path)
    assert {"ro", "nosuid", "relatime"} <= set(flags_of(mount8.path))
    with raises_errno(errno.EROFS):
        (mount8.path / "new").touch()
    run("mount", "-o", "remount,rw,noatime", mount8.path)
    assert {"rw", "nosuid", "noatime"} <= set(flags_of(mount8.path))
    (mount8.path / "new").touch()
    run("mount", "-t", "ttlfs", "-o", "remount,noexec", mount8.store, mount8.path)
    assert {"rw", "nosuid", "noatime", "noexec"} <= set(flags_of(mount8.path))
    assert (mount8.path / "file").read_text() == "kept"


@pytest.mark.root
def test_remount_of_a_line_of_fstab(mount8):
    fstab = mount8.folder / "fstab"
    fstab.write_text(f"memory: {mount8.path} ttlfs noauto,nofail,max=1h,size=8m,mode=1777,_netdev 0 0\n")
    run("mount", "-T", fstab, mount8.path)
    run("mount", "-T", fstab, "-o", "remount,ro", mount8.path)
    assert "ro" in flags_of(mount8.path)
    run("mount", "-T", fstab, "-o", "remount", mount8.path)
    assert "rw" in flags_of(mount8.path)
    (mount8.path / "new").touch()


@pytest.mark.root
def test_mount_t_ttlfs_reports_failure(mount8):
    mount8.store.write_text("not a store")
    done = run("mount", "-t", "ttlfs", mount8.store, mount8.path, check=False)
    assert done.returncode == 32 and str(mount8.store) in done.stdout
    done = run("mount", "-t", "ttlfs", "memory:", mount8.path, "-o", "idle=never", check=False)
    assert done.returncode in (1, 32) and "idle" in done.stdout
    assert not mounted(mount8.path)
