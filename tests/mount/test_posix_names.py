"""POSIX to the letter: rename in all its forms, removal of what is in use, and the errors of names and paths."""
import ctypes
import errno
import os
import pathlib
import shutil
import stat

import pytest

from conftest import raises_errno, run_as
from targets import AT_FDCWD, LIBC, RENAME_EXCHANGE, RENAME_NOREPLACE, checked, fs, is_tmpfs, renameat2

RENAME_WHITEOUT = 4
ANN = 21001


def outcome(action):
    try:
        action()
        return "ok"
    except OSError as error:
        return errno.errorcode[error.errno]


# Rename

NODES = ["missing", "file", "dir", "full", "link", "fifo"]


def make(path, kind):
    if kind == "file":
        path.write_text(path.name)
    elif kind in ("dir", "full"):
        path.mkdir()
        if kind == "full":
            (path / "in").touch()
    elif kind == "link":
        os.symlink("nowhere", path)
    elif kind == "fifo":
        os.mkfifo(path)


def renamed(source, target, flags):
    """What rename(2) must answer for every pair of kinds."""
    if source == "missing":
        return "ENOENT"
    if flags == RENAME_EXCHANGE:
        return "ENOENT" if target == "missing" else "ok"
    if target == "missing":
        return "ok"
    if flags & RENAME_NOREPLACE:
        return "EEXIST"
    if source in ("dir", "full"):
        return {"dir": "ok", "full": "ENOTEMPTY"}.get(target, "ENOTDIR")
    return "EISDIR" if target in ("dir", "full") else "ok"


def kind_of(path):
    mode = os.lstat(path).st_mode
    if stat.S_ISDIR(mode):
        return "full" if os.listdir(path) else "dir"
    return {stat.S_IFREG: "file", stat.S_IFLNK: "link", stat.S_IFIFO: "fifo", stat.S_IFCHR: "whiteout"}[
        stat.S_IFMT(mode)]


@pytest.mark.parametrize("flags", [0, RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT,
                                   RENAME_WHITEOUT | RENAME_NOREPLACE])
def test_rename_of_everything_over_everything(fs, flags):
    for source in NODES:
        for target in NODES:
            for name in ("from", "to"):
                (fs / name).mkdir()
            make(fs / "from/a", source)
            make(fs / "to/b", target)
            found = outcome(lambda: renameat2(fs / "from/a", fs / "to/b", flags))
            what = f"{source} over {target}, flags {flags}"
            assert found == renamed(source, target, flags), what
            if found == "ok":
                assert kind_of(fs / "to/b") == source, what
                if flags == RENAME_EXCHANGE:
                    assert kind_of(fs / "from/a") == target, what
                elif flags & RENAME_WHITEOUT:
                    assert kind_of(fs / "from/a") == "whiteout", what
                else:
                    assert os.listdir(fs / "from") == [], what
                links = [(fs / name).stat().st_nlink for name in ("from", "to")]
                dirs = [sum(each.is_dir() and not each.is_symlink() for each in (fs / name).iterdir())
                        for name in ("from", "to")]
                assert links == [2 + number for number in dirs], what
            for name in ("from", "to"):
                shutil.rmtree(fs / name)


def test_rename_flags_that_do_not_go_together(fs):
    (fs / "a").touch()
    (fs / "b").touch()
    for flags in (RENAME_EXCHANGE | RENAME_NOREPLACE, RENAME_EXCHANGE | RENAME_WHITEOUT, 8, 1 << 31):
        with raises_errno(errno.EINVAL):
            renameat2(fs / "a", fs / "b", flags)


@pytest.mark.root
def test_whiteout(fs):
    fs.chmod(0o777)
    (fs / "a").write_text("x")
    os.chown(fs / "a", ANN, ANN)
    run_as(fs, ANN, lambda: renameat2("a", "b", RENAME_WHITEOUT))
    found = os.lstat(fs / "a")
    assert (found.st_mode, found.st_rdev, found.st_nlink, found.st_uid, found.st_gid) == (
        stat.S_IFCHR, 0, 1, ANN, ANN)
    assert (fs / "b").read_text() == "x"
    os.link(fs / "b", fs / "c")
    renameat2(fs / "b", fs / "c", RENAME_WHITEOUT)
    assert (fs / "b").read_text() == "x", "two names of one file: nothing happens"
    renameat2(fs / "b", fs / "a", RENAME_WHITEOUT)
    assert stat.S_ISCHR(os.lstat(fs / "b").st_mode)
    assert sorted(os.listdir(fs)) == ["a", "b", "c"]


@pytest.mark.root
def test_whiteout_survives_a_remount(make_mount):
    mount = make_mount("dir", opts="allow_other,dev")
    mount.write("a", "x")
    renameat2(mount.p("a"), mount.p("b"), RENAME_WHITEOUT)
    mount.remount()
    assert os.lstat(mount.p("a")).st_mode == stat.S_IFCHR
    assert mount.read("b") == b"x"


def test_rename_onto_itself_and_below_itself(fs):
    (fs / "dir/sub").mkdir(parents=True)
    (fs / "file").write_text("x")
    os.link(fs / "file", fs / "dir/same")
    for path in ("file", "dir"):
        os.rename(fs / path, fs / path)
    os.rename(fs / "file", fs / "dir/same")
    assert (fs / "file").exists() and (fs / "file").stat().st_nlink == 2
    renameat2(fs / "file", fs / "dir/same", RENAME_EXCHANGE)
    with raises_errno(errno.EEXIST):
        renameat2(fs / "file", fs / "file", RENAME_NOREPLACE)
    for target in ("dir/sub/x", "dir/x"):
        with raises_errno(errno.EINVAL):
            os.rename(fs / "dir", fs / target)
    with raises_errno(errno.EINVAL):
        renameat2(fs / "dir", fs / "dir/sub", RENAME_EXCHANGE)
    with raises_errno(errno.ENOTEMPTY):
        os.rename(fs / "dir/sub", fs / "dir")
    for name in (".", "..", "dir/.", "dir/.."):
        with raises_errno(errno.EBUSY, errno.EINVAL):
            os.rename(f"{fs}/{name}", fs / "new")


def test_a_moved_directory_has_another_parent(fs):
    (fs / "a/sub").mkdir(parents=True)
    (fs / "b").mkdir()
    below = os.open(fs / "a/sub", os.O_RDONLY | os.O_DIRECTORY)
    os.rename(fs / "a/sub", fs / "b/sub")
    try:
        above = os.open("..", os.O_RDONLY | os.O_DIRECTORY, dir_fd=below)
        assert os.fstat(above).st_ino == (fs / "b").stat().st_ino
        os.close(above)
        assert os.readlink(f"/proc/self/fd/{below}") == str(fs / "b/sub")
    finally:
        os.close(below)


# What is in use

def test_unlink_and_rmdir_of_what_is_open(fs):
    (fs / "dir").mkdir()
    (fs / "file").write_text("content")
    file = os.open(fs / "file", os.O_RDWR)
    folder = os.open(fs / "dir", os.O_RDONLY | os.O_DIRECTORY)
    os.unlink(fs / "file")
    os.rmdir(fs / "dir")
    assert os.fstat(file).st_nlink == 0 and os.fstat(folder).st_nlink == 0
    assert os.pread(file, 10, 0) == b"content"
    os.pwrite(file, b"CON", 0)
    os.fchmod(file, 0o600)
    os.ftruncate(file, 5)
    os.setxattr(file, "user.x", b"1")
    assert os.pread(file, 10, 0) == b"CONte"
    assert os.readlink(f"/proc/self/fd/{file}").endswith("/file (deleted)")
    assert os.listdir(folder) == []
    for attempt in (lambda: os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=folder),
                    lambda: os.mkdir("x", dir_fd=folder), lambda: os.symlink("x", "y", dir_fd=folder),
                    lambda: os.stat("x", dir_fd=folder)):
        with raises_errno(errno.ENOENT):
            attempt()
    again = os.open(f"/proc/self/fd/{file}", os.O_RDWR)
    assert os.read(again, 10) == b"CONte"
    os.close(again)
    os.close(file)
    os.close(folder)


def test_working_directory_that_goes_away(fs):
    (fs / "dir/sub").mkdir(parents=True)

    def child():
        os.chdir("dir/sub")
        os.rmdir("../sub")
        return [outcome(os.getcwd), outcome(lambda: os.listdir(".")), outcome(lambda: os.mkdir("x")),
                outcome(lambda: os.open("x", os.O_CREAT)), outcome(lambda: os.rmdir(".")),
                outcome(lambda: os.rename("../sub", "x")), os.stat(".").st_nlink,
                os.stat("..").st_ino == os.stat(fs / "dir").st_ino]

    assert run_as(fs, os.getuid(), child) == [
        "ENOENT", "ok", "ENOENT", "ENOENT", "EINVAL", "ENOENT", 0, True]


# Errors of paths

def test_lengths(fs):
    os.mkdir(fs / ("n" * 255))
    for call in (os.stat, os.mkdir, os.unlink, os.rmdir, os.mkfifo, os.readlink, lambda p: os.open(p, os.O_CREAT),
                 lambda p: os.rename(p, fs / "x"), lambda p: os.rename(fs / ("n" * 255), p),
                 lambda p: os.symlink("x", p), lambda p: os.link(fs / "x", p), lambda p: os.chmod(p, 0o600),
                 lambda p: os.truncate(p, 0)):
        (fs / "x").touch()
        with raises_errno(errno.ENAMETOOLONG):
            call(fs / ("n" * 256))
        with raises_errno(errno.ENAMETOOLONG):
            call(f"{fs}/{'y/' * 2048}")
    # 4095 bytes are a path.
    room = 4095 - len(str(fs)) - 1
    deep = "/".join(["d" * 200] * (room // 201))
    os.makedirs(fs / deep)
    last = "l" * (room - len(deep) - 1) if room - len(deep) > 1 else ""
    path = f"{fs}/{deep}/{last}" if last else f"{fs}/{deep}"
    assert len(path) <= 4095
    if last:
        pathlib.Path(path).touch()
    os.stat(path)
    with raises_errno(errno.ENAMETOOLONG):
        os.stat(path + "x" * (4096 - len(path)))
    os.symlink("t" * 4095, fs / "longest")
    assert len(os.readlink(fs / "longest")) == 4095
    with raises_errno(errno.ENAMETOOLONG):
        os.symlink("t" * 4096, fs / "longer")
    with raises_errno(errno.ENOENT):
        os.symlink("", fs / "empty")


def test_loops(fs):
    os.symlink("one", fs / "two")
    os.symlink("two", fs / "one")
    os.symlink("self", fs / "self")
    for name in ("one", "self", "one/x"):
        for call in (os.stat, os.listdir, lambda p: os.open(p, os.O_RDONLY), lambda p: os.chmod(p, 0o600),
                     lambda p: os.truncate(p, 1)):
            with raises_errno(errno.ELOOP):
                call(fs / name)
    with raises_errno(errno.ELOOP):
        os.open(fs / "one", os.O_RDONLY | os.O_NOFOLLOW)
    (fs / "end").touch()
    for number in range(41):
        os.symlink("end" if number == 0 else f"chain{number - 1}", fs / f"chain{number}")
    os.stat(fs / "chain39")
    with raises_errno(errno.ELOOP):
        os.stat(fs / "chain40")


def test_what_is_no_directory(fs):
    (fs / "file").touch()
    os.mkfifo(fs / "fifo")
    os.symlink("file", fs / "link")
    for name in ("file", "fifo", "link"):
        for call in (os.stat, os.mkdir, os.unlink, os.rmdir, lambda p: os.open(p, os.O_CREAT), os.mkfifo,
                     lambda p: os.rename(p, fs / "x"), lambda p: os.symlink("x", p), os.readlink):
            with raises_errno(errno.ENOTDIR):
                call(fs / name / "below")
        with raises_errno(errno.ENOTDIR):
            os.rmdir(fs / name)
        with raises_errno(errno.ENOTDIR):
            os.listdir(fs / name)
    with raises_errno(errno.EINVAL):
        os.readlink(fs / "file")
    (fs / "dir").mkdir()
    with raises_errno(errno.EPERM):
        os.link(fs / "dir", fs / "hard")
    with raises_errno(errno.EISDIR):
        os.unlink(fs / "dir")
    with raises_errno(errno.EISDIR):
        os.truncate(fs / "dir", 0)
    with raises_errno(errno.EINVAL):
        os.rmdir(f"{fs}/dir/.")
    (fs / "dir/sub").mkdir()
    with raises_errno(errno.ENOTEMPTY):
        os.rmdir(f"{fs}/dir/sub/..")


def test_across_filesystems(fs, tmp_path):
    (fs / "file").touch()
    (tmp_path / "other").touch()
    with raises_errno(errno.EXDEV):
        os.rename(fs / "file", tmp_path / "new")
    with raises_errno(errno.EXDEV):
        os.link(tmp_path / "other", fs / "new")


@pytest.mark.root
def test_busy(fs, make_mount):
    """A mountpoint cannot be removed or renamed, nor can the root of a filesystem."""
    inner = make_mount()
    (fs / "point").mkdir()
    checked(LIBC.mount(os.fsencode(inner.path), os.fsencode(fs / "point"), None, ctypes.c_ulong(4096), None))
    try:
        with raises_errno(errno.EBUSY):
            os.rmdir(fs / "point")
        with raises_errno(errno.EBUSY):
            os.rename(fs / "point", fs / "moved")
        with raises_errno(errno.EXDEV):
            os.rename(fs / "point/x", fs / "x") if (fs / "point/x").exists() else os.link(
                inner.write("x"), fs / "x")
    finally:
        checked(LIBC.umount2(os.fsencode(fs / "point"), 2))
    os.rmdir(fs / "point")


def test_a_running_program_is_not_written_to(fs):
    shutil.copy("/bin/sleep", fs / "program")
    if is_tmpfs(fs) and os.statvfs(fs).f_flag & os.ST_NOEXEC:
        pytest.skip("programs do not run from /dev/shm here")
    import subprocess
    with subprocess.Popen([fs / "program", "60"]) as process:
        try:
            for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC):
                with raises_errno(errno.ETXTBSY):
                    os.open(fs / "program", flags)
            with raises_errno(errno.ETXTBSY):
                os.truncate(fs / "program", 0)
            os.unlink(fs / "program")
        finally:
            process.kill()
    shutil.copy("/bin/sleep", fs / "program")
    with open(fs / "program", "r+b"):
        with raises_errno(errno.ETXTBSY):
            subprocess.run([fs / "program", "0"], check=True)
    subprocess.run([fs / "program", "0"], check=True)


# Opening

def test_flags_of_open(fs):
    (fs / "dir").mkdir()
    (fs / "file").write_text("content")
    os.mkfifo(fs / "fifo")
    os.symlink("file", fs / "link")
    os.symlink("dir", fs / "dirlink")
    cases = [
        ("file", os.O_CREAT | os.O_EXCL, "EEXIST"), ("link", os.O_CREAT | os.O_EXCL, "EEXIST"),
        ("dir", os.O_CREAT, "EISDIR"), ("dir", os.O_RDWR, "EISDIR"), ("dir", os.O_TRUNC, "EISDIR"),
        ("dir", os.O_RDONLY, "ok"), ("dirlink", os.O_DIRECTORY, "ok"), ("link", os.O_DIRECTORY, "ENOTDIR"),
        ("dirlink", os.O_NOFOLLOW, "ELOOP"), ("link", os.O_NOFOLLOW | os.O_CREAT, "ELOOP"),
        ("fifo", os.O_WRONLY | os.O_NONBLOCK, "ENXIO"), ("fifo", os.O_RDONLY | os.O_NONBLOCK, "ok"),
        ("fifo", os.O_RDWR, "ok"), ("fifo", os.O_DIRECTORY, "ENOTDIR"), ("file", os.O_DIRECT | os.O_RDWR, "ok"),
        ("link", os.O_PATH | os.O_NOFOLLOW, "ok"), ("file", os.O_PATH, "ok"), ("missing", os.O_PATH, "ENOENT"),
        ("file", os.O_APPEND | os.O_WRONLY, "ok"), ("file", os.O_SYNC | os.O_RDWR, "ok"),
        ("new/", os.O_CREAT, "EISDIR"), ("missing/x", os.O_CREAT, "ENOENT"),
        ("dir", os.O_DIRECTORY | os.O_CREAT, "EINVAL"), ("file", os.O_TMPFILE | os.O_RDWR, "ENOTDIR"),
        ("dir", os.O_TMPFILE, "EINVAL")]

    def attempt(name, flags):
        os.close(os.open(f"{fs}/{name}", flags, 0o600))

    for name, flags, expected in cases:
        assert outcome(lambda name=name, flags=flags: attempt(name, flags)) == expected, (name, oct(flags))
    with pytest.raises(OSError):
        os.open(f"{fs}/missing", os.O_RDONLY)
    os.mknod(fs / "socket", stat.S_IFSOCK | 0o600)
    assert outcome(lambda: attempt("socket", os.O_RDONLY)) == "ENXIO"


def test_truncation_by_a_reader(fs):
    (fs / "file").write_text("content")
    fd = os.open(fs / "file", os.O_RDONLY | os.O_TRUNC)
    assert os.fstat(fd).st_size == 0
    with raises_errno(errno.EBADF):
        os.write(fd, b"x")
    os.close(fd)


@pytest.mark.root
def test_truncation_needs_the_right_to_write(fs):
    (fs / "file").write_text("content")
    (fs / "file").chmod(0o444)
    fs.chmod(0o777)
    with raises_errno(errno.EACCES):
        run_as(fs, ANN, lambda: os.open("file", os.O_RDONLY | os.O_TRUNC))
    assert (fs / "file").read_text() == "content"


def test_path_descriptors(fs):
    (fs / "file").write_text("content")
    fd = os.open(fs / "file", os.O_PATH)
    for call in (lambda: os.read(fd, 1), lambda: os.write(fd, b"x"), lambda: os.fchmod(fd, 0o600),
                 lambda: os.ftruncate(fd, 0), lambda: os.getxattr(fd, "user.x")):
        with raises_errno(errno.EBADF):
            call()
    assert os.fstat(fd).st_size == 7
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
    os.write(again, b"CON")
    os.close(again)
    os.rename(fs / "file", fs / "moved")
    os.chmod(f"/proc/self/fd/{fd}", 0o600)
    os.close(fd)
    assert (fs / "moved").read_text() == "CONtent"
    assert stat.S_IMODE((fs / "moved").stat().st_mode) == 0o600


@pytest.mark.root
def test_an_owner_without_permission(fs):
    fs.chmod(0o777)

    def child():
        fd = os.open("file", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0)
        os.write(fd, b"x")
        return [outcome(lambda: os.open("file", os.O_RDONLY)), outcome(lambda: os.open("file", os.O_WRONLY)),
                outcome(lambda: os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)), os.pread(fd, 1, 0),
                outcome(lambda: os.truncate("file", 0)), outcome(lambda: os.ftruncate(fd, 0))]

    assert run_as(fs, ANN, child) == ["EACCES", "EACCES", "EACCES", b"x", "EACCES", "ok"]


def test_access(fs):
    (fs / "file").touch()
    (fs / "file").chmod(0o640)
    assert os.access(fs / "file", os.R_OK | os.W_OK)
    assert not os.access(fs / "file", os.X_OK), "not even root executes what nobody may"
    (fs / "file").chmod(0o010)
    if os.geteuid() == 0:
        assert os.access(fs / "file", os.R_OK | os.W_OK | os.X_OK)
        fs.chmod(0o755)
        assert not run_as(fs, ANN, lambda: os.access("file", os.R_OK))
    with raises_errno(errno.ENOENT):
        checked(LIBC.faccessat(AT_FDCWD, os.fsencode(fs / "missing"), 0, 0))
    with raises_errno(errno.EINVAL):
        checked(LIBC.syscall(439, AT_FDCWD, os.fsencode(fs / "file"), 99, 0))  # faccessat2


# Handles

class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]


@pytest.mark.root
def test_file_handles(fs):
    (fs / "file").write_text("content")
    handle, mount_id = Handle(bytes=128), ctypes.c_int()
    checked(LIBC.name_to_handle_at(AT_FDCWD, os.fsencode(fs / "file"), ctypes.byref(handle), ctypes.byref(mount_id), 0))
    root = os.open(fs, os.O_RDONLY)
    keeper = os.open(fs / "file", os.O_RDONLY)  # for as long as the kernel knows the inode
    try:
        fd = checked(LIBC.open_by_handle_at(root, ctypes.byref(handle), os.O_RDONLY))
        assert os.read(fd, 10) == b"content"
        os.close(fd)
    finally:
        os.close(keeper)
        os.close(root)
