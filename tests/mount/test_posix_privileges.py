"""POSIX to the letter: set-user-ID, set-group-ID and file capabilities, and what takes them away; sticky directories."""
import errno
import itertools
import os
import pathlib
import shutil
import stat
import struct
import subprocess

import pytest

from conftest import run_as
from targets import FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, fallocate, fs, renameat2

pytestmark = pytest.mark.root

ANN, BOB, STAFF, OTHERS = 21001, 21002, 21050, 21051
MODES = [0o4777, 0o2777, 0o6777, 0o2767, 0o6767, 0o1777, 0o6666]
# Version 2: cap_net_raw permitted and effective.
CAPABILITY = struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0)


def with_fd(flags, action):
    fd = os.open("file", flags)
    try:
        action(fd)
    finally:
        os.close(fd)


def copy_range(fd):
    source = os.open("source", os.O_RDONLY)
    try:
        os.copy_file_range(source, fd, 4)
    finally:
        os.close(source)


def map_and_write(fd):
    import mmap
    with mmap.mmap(fd, 4) as view:
        view[0:1] = b"m"
        view.flush()


ACTIONS = {
    "write": lambda: with_fd(os.O_WRONLY, lambda fd: os.write(fd, b"x")),
    "write through the cache": lambda: with_fd(os.O_RDWR, lambda fd: os.write(fd, b"x")),
    "append": lambda: with_fd(os.O_WRONLY | os.O_APPEND, lambda fd: os.write(fd, b"x")),
    "write of nothing": lambda: with_fd(os.O_WRONLY, lambda fd: os.write(fd, b"")),
    "truncate": lambda: os.truncate("file", 2),
    "ftruncate": lambda: with_fd(os.O_RDWR, lambda fd: os.ftruncate(fd, 2)),
    "O_TRUNC": lambda: with_fd(os.O_WRONLY | os.O_TRUNC, lambda fd: None),
    "fallocate": lambda: with_fd(os.O_RDWR, lambda fd: fallocate(fd, 0, 0, 9000)),
    "fallocate, the same size": lambda: with_fd(os.O_RDWR, lambda fd: fallocate(fd, FALLOC_KEEP_SIZE, 0, 9000)),
    "punch": lambda: with_fd(os.O_RDWR, lambda fd: fallocate(fd, FALLOC_KEEP_SIZE | FALLOC_PUNCH_HOLE, 0, 2)),
    "copy_file_range": lambda: with_fd(os.O_RDWR, copy_range),
    "a mapping": lambda: with_fd(os.O_RDWR, map_and_write),
    "open": lambda: with_fd(os.O_RDWR, lambda fd: None),
    "utime": lambda: os.utime("file"),
}
KEEPS = {"open", "utime", "write of nothing", "a mapping"}


def expected_after_write(mode, user, group, groups):
    """setattr_should_drop_suidgid: what a change of content leaves."""
    if user == 0:
        return mode
    mode &= ~0o4000
    if mode & 0o2000 and (mode & 0o010 or group not in groups):
        mode &= ~0o2000
    return mode


@pytest.mark.parametrize("name", list(ACTIONS))
def test_change_of_content(fs, name):
    fs.chmod(0o777)
    (fs / "source").write_text("data")
    for uid, groups in [(0, [0]), (ANN, [ANN]), (BOB, [BOB]), (BOB, [BOB, STAFF])]:
        for mode in MODES:
            os.mkdir(fs / oct(mode))
            (fs / oct(mode) / "file").write_bytes(b"0123")
            os.link(fs / "source", fs / oct(mode) / "source")
            os.chown(fs / oct(mode) / "file", ANN, STAFF)
            (fs / oct(mode) / "file").chmod(mode)

        def all_of_them():
            top = os.open(".", os.O_RDONLY)
            for mode in MODES:
                os.chdir(oct(mode))
                ACTIONS[name]()
                os.fchdir(top)

        run_as(fs, uid, all_of_them, groups=groups)
        for mode in MODES:
            left = stat.S_IMODE((fs / oct(mode) / "file").stat().st_mode)
            wanted = mode if name in KEEPS else expected_after_write(mode, uid, STAFF, groups)
            assert oct(left) == oct(wanted), f"{oct(mode)}, user {uid} with groups {groups}"
            shutil.rmtree(fs / oct(mode))


@pytest.mark.parametrize("kind", ["file", "dir", "fifo"])
def test_change_of_owner(fs, kind):
    fs.chmod(0o777)
    make = {"file": lambda p: p.touch(), "dir": lambda p: p.mkdir(), "fifo": os.mkfifo}[kind]
    for uid, groups, to in [
            (0, [0], (BOB, BOB)), (0, [0], (-1, BOB)), (0, [0], (ANN, STAFF)), (0, [0], (-1, -1)),
            (ANN, [ANN, STAFF], (-1, ANN)), (ANN, [ANN, OTHERS], (-1, OTHERS)), (ANN, [ANN, STAFF], (-1, -1)),
            (ANN, [ANN], (ANN, -1))]:
        for mode in MODES:
            make(fs / oct(mode))
            os.chown(fs / oct(mode), ANN, STAFF)
            (fs / oct(mode)).chmod(mode)
        run_as(fs, uid, lambda to=to: [os.chown(oct(mode), *to) for mode in MODES], groups=groups)
        for mode in MODES:
            left = stat.S_IMODE((fs / oct(mode)).stat().st_mode)
            wanted = mode
            if kind != "dir":
                wanted &= ~0o4000
                if wanted & 0o010 or (uid and STAFF not in groups):
                    wanted &= ~0o2000
            assert oct(left) == oct(wanted), f"{oct(mode)}, user {uid} with groups {groups}: chown to {to}"
            remove(fs / oct(mode))


@pytest.mark.parametrize("name", [name for name in ACTIONS if name not in KEEPS])
def test_change_of_content_is_seen_by_who_asks_for_the_mode_alone(fs, name):
    """`stat -c %a` does so, and the kernel itself when it runs a program."""
    fs.chmod(0o777)
    (fs / "source").write_text("data")
    for uid in (ANN, BOB):
        (fs / "file").write_bytes(b"0123")
        os.chown(fs / "file", ANN, ANN)
        (fs / "file").chmod(0o6777)
        run_as(fs, uid, ACTIONS[name])
        shown = subprocess.run(["stat", "-c", "%a", fs / "file"], stdout=subprocess.PIPE, text=True, check=True)
        assert shown.stdout == "777\n", f"user {uid}"
        (fs / "file").unlink()


def test_a_stranger_sets_no_owner_and_no_group(fs):
    """chown to -1, -1 takes away privileges, or does nothing."""
    for mode, groups, wanted in [(0o755, [BOB], "ok"), (0o4755, [BOB], "EPERM"), (0o2755, [BOB], "EPERM"),
                                 (0o2755, [BOB, STAFF], "EPERM"), (0o2745, [BOB, STAFF], "ok"),
                                 (0o2745, [BOB], "EPERM"), (0o6666, [BOB, STAFF], "EPERM"), (0o1755, [BOB], "ok")]:
        for kind in (stat.S_IFREG, stat.S_IFIFO):
            os.mknod(fs / "node", kind | 0o600)
            os.chown(fs / "node", ANN, STAFF)
            (fs / "node").chmod(mode)
            shown = run_as(fs, BOB, lambda: outcome(lambda: os.chown("node", -1, -1)), groups=groups)
            assert shown == wanted, f"{oct(mode)}, groups {groups}"
            assert oct(stat.S_IMODE((fs / "node").stat().st_mode)) == oct(mode)
            (fs / "node").unlink()


def test_chmod_of_a_group_one_is_not_in(fs):
    fs.chmod(0o777)
    for kind, groups, wanted in (("file", [ANN], 0o755), ("file", [ANN, STAFF], 0o2755), ("dir", [ANN], 0o755),
                                 ("dir", [ANN, STAFF], 0o2755)):
        if kind == "file":
            (fs / "node").touch()
        else:
            (fs / "node").mkdir()
        os.chown(fs / "node", ANN, STAFF)
        run_as(fs, ANN, lambda: os.chmod("node", 0o2755), groups=groups)
        assert oct(stat.S_IMODE((fs / "node").stat().st_mode)) == oct(wanted), (kind, groups)
        (fs / "node").rmdir() if kind == "dir" else (fs / "node").unlink()


@pytest.mark.parametrize("name", [*ACTIONS, "chown", "chmod", "rename"])
def test_capabilities(fs, name):
    fs.chmod(0o777)
    (fs / "source").write_text("data")
    actions = {**ACTIONS, "chown": lambda: os.chown("file", 0, 0), "chmod": lambda: os.chmod("file", 0o755),
               "rename": lambda: (os.rename("file", "f2"), os.rename("f2", "file"))}
    for uid in (0, BOB):
        if uid and name in ("chown", "chmod", "utime", "rename"):
            continue
        (fs / "file").write_bytes(b"0123")
        (fs / "file").chmod(0o777)
        os.setxattr(fs / "file", "security.capability", CAPABILITY)
        run_as(fs, uid, actions[name])
        left = "security.capability" in os.listxattr(fs / "file")
        assert left == (name in KEEPS | {"chmod", "rename"}), f"user {uid}"
        (fs / "file").unlink()


def test_setgid_directories_pass_their_group_on(fs):
    (fs / "dir").mkdir()
    os.chown(fs / "dir", 0, STAFF)
    (fs / "dir").chmod(0o2777)

    def make():
        os.umask(0)
        os.close(os.open("dir/file", os.O_CREAT | os.O_WRONLY, 0o2755))
        os.close(os.open("dir/noexec", os.O_CREAT | os.O_WRONLY, 0o2644))
        os.mknod("dir/node", stat.S_IFREG | 0o2755)
        os.mkfifo("dir/fifo", 0o644)
        os.mkdir("dir/sub", 0o700)
        os.symlink("x", "dir/link")
        fd = os.open("dir", os.O_TMPFILE | os.O_RDWR, 0o2755)
        mode = os.fstat(fd)
        os.close(fd)
        return mode.st_gid, oct(mode.st_mode & 0o7777)

    assert run_as(fs, ANN, make) == (STAFF, oct(0o755))
    shown = {name: (os.lstat(fs / "dir" / name).st_gid, oct(os.lstat(fs / "dir" / name).st_mode & 0o7777))
             for name in ("file", "noexec", "node", "fifo", "sub", "link")}
    assert shown == {
        "file": (STAFF, oct(0o755)), "noexec": (STAFF, oct(0o2644)), "node": (STAFF, oct(0o755)),
        "fifo": (STAFF, oct(0o644)), "sub": (STAFF, oct(0o2700)), "link": (STAFF, oct(0o777))}
    run_as(fs, ANN, lambda: os.close(os.open("dir/member", os.O_CREAT | os.O_WRONLY, 0o2755)), groups=[STAFF])
    assert oct((fs / "dir/member").stat().st_mode & 0o7777) == oct(0o2755)


# Sticky directories: pjdfstest's matrix

def outcome(action):
    try:
        action()
        return "ok"
    except OSError as error:
        return errno.errorcode[error.errno]


KINDS = ["file", "dir", "fifo", "link"]


def make(path, kind, owner):
    if kind == "file":
        pathlib.Path(path).touch()
    elif kind == "dir":
        os.mkdir(path)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        os.symlink("x", path)
    os.chown(path, owner, owner, follow_symlinks=False)


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        os.rmdir(path)
    else:
        os.unlink(path)


@pytest.mark.parametrize("kind", KINDS)
def test_sticky_directories(fs, kind):
    """Who owns the directory, who the file, who calls: only owners and root may remove or rename away."""
    for dir_owner, owner, mode in itertools.product((0, ANN, BOB), (0, ANN, BOB), (0o1777, 0o777)):
        allowed = not mode & 0o1000 or ANN in (dir_owner, owner)
        wanted = "ok" if allowed else "EPERM"
        for name in ("from", "to"):
            (fs / name).mkdir()
        for name in ("from", "to"):
            os.chown(fs / name, dir_owner, dir_owner)
            (fs / name).chmod(mode)
        make(fs / "from" / "a", kind, owner)
        make(fs / "from" / "b", kind, owner)
        make(fs / "to" / "target", kind, owner)
        where = f"directory of {dir_owner} with {oct(mode)}, {kind} of {owner}"
        # A directory that moves to another parent must be writable itself, for its "..".
        moves = "EACCES" if allowed and kind == "dir" and owner != ANN else wanted

        def attempts():
            return [outcome(lambda: os.rename("from/a", "from/c")),
                    outcome(lambda: os.rename("from/b", "to/new")),
                    outcome(lambda: remove("to/target"))]

        assert run_as(fs, ANN, attempts) == [wanted, moves, wanted], where
        shutil.rmtree(fs / "from")
        shutil.rmtree(fs / "to")


def test_sticky_target_of_a_rename(fs):
    for owner, wanted in ((ANN, "ok"), (BOB, "EPERM")):
        (fs / "dir").mkdir()
        os.chown(fs / "dir", 0, 0)
        (fs / "dir").chmod(0o1777)
        make(fs / "dir/mine", "file", ANN)
        make(fs / "dir/target", "file", owner)
        make(fs / "dir/other", "file", ANN)
        assert run_as(fs, ANN, lambda: outcome(lambda: renameat2("dir/mine", "dir/target", 2))) == wanted
        assert run_as(fs, ANN, lambda: outcome(lambda: os.rename("dir/other", "dir/target"))) == wanted
        shutil.rmtree(fs / "dir")
