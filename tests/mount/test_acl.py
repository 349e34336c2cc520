"""Access control lists (issue 2, item 1): what tmpfs does with setfacl and its kin, ttlfs does."""
import errno
import os
import shutil
import stat
import struct

import pytest

from aclhelp import ACCESS, DEFAULT, encode, get_acl, remove_acl, set_acl, skip_without
from conftest import raises_errno, run, run_as
from targets import AT_FDCWD, IS_ROOT, LIBC, checked, fs, is_tmpfs, tick

pytestmark = pytest.mark.skipif(not shutil.which("setfacl"), reason="Debian's acl is not installed")

AT_SYMLINK_FOLLOW = 0x400
SOME = "u::rwx,u:5001:rw,g::rx,g:6001:x,m::rwx,o::r"


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


@pytest.fixture
def file(fs):
    if is_tmpfs(fs):
        skip_without(fs)
    path = fs / "file"
    path.write_text("x")
    path.chmod(0o644)
    return path


@pytest.fixture
def top(fs):
    if is_tmpfs(fs):
        skip_without(fs)
    path = fs / "top"
    path.mkdir()
    path.chmod(0o755)
    return path


@pytest.fixture
def umask():
    """Sets the umask, for one test."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


# What is set is what is read

def test_none_at_first(file, top):
    for path in (file, top):
        assert get_acl(path) is None and get_acl(path, default=True) is None
        assert os.listxattr(path) == []


@pytest.mark.parametrize("text", [SOME, "u::,u:5001:,g::,m::,o::", "u::rwx,g::rwx,m::r,o::",
                                  "u::rw,u:0:rwx,u:4294967294:x,g::r,g:0:w,g:4294967294:r,m::rwx,o::r"])
def test_round_trip(file, top, text):
    for path in (file, top):
        set_acl(path, text)
        assert get_acl(path) == text
        assert os.listxattr(path) == [ACCESS]
    set_acl(top, text, default=True)
    assert get_acl(top, default=True) == text
    assert sorted(os.listxattr(top)) == [ACCESS, DEFAULT]


def test_through_a_descriptor(file):
    fd = os.open(file, os.O_RDONLY)
    os.setxattr(fd, ACCESS, encode(SOME))
    assert os.getxattr(fd, ACCESS) == encode(SOME)
    os.unlink(file)
    assert get_acl(fd) == SOME
    remove_acl(fd)
    assert get_acl(fd) is None
    os.close(fd)


def test_sizes(file):
    set_acl(file, SOME)
    size = len(encode(SOME))
    found = os.getxattr(file, ACCESS)
    assert len(found) == size == 4 + 8 * 6


def test_five_hundred_entries(file):
    """The kernel takes no more than a page of them from a FUSE filesystem; tmpfs takes 8191."""
    named = ",".join(f"u:{uid}:r" for uid in range(10_000, 10_507))
    text = f"u::rw,{named},g::r,m::r,o::r"
    set_acl(file, text)
    assert get_acl(file) == text


# Lists and modes

def test_a_list_sets_the_mode(file, top):
    for path in (file, top):
        os.chmod(path, 0o4777 if path == file else 0o1777)
        set_acl(path, SOME)
        assert mode(path) == (0o4774 if path == file else 0o1774)
        set_acl(path, "u::r,u:5001:rwx,g::rwx,m::x,o::w")
        assert mode(path) & 0o777 == 0o412


def test_a_minimal_list_is_a_mode(file, top):
    for path in (file, top):
        set_acl(path, "u::rw,g::r,o::x")
        assert mode(path) == 0o641
        assert get_acl(path) is None and os.listxattr(path) == []
        set_acl(path, SOME)
        set_acl(path, "u::rwx,g::,o::")
        assert mode(path) == 0o700 and get_acl(path) is None
        set_acl(path, "u::rw,g::r,m::w,o::x")  # a mask is more than a mode
        assert mode(path) == 0o621 and get_acl(path) == "u::rw,g::r,m::w,o::x"


def test_chmod_changes_the_list(file, top):
    for path in (file, top):
        set_acl(path, SOME)
        os.chmod(path, 0o640)
        assert get_acl(path) == "u::rw,u:5001:rw,g::rx,g:6001:x,m::r,o::"
        os.chmod(path, 0o2707)
        assert get_acl(path) == "u::rwx,u:5001:rw,g::rx,g:6001:x,m::,o::rwx"
        set_acl(path, "u::rw,g::r,m::w,o::x")
        os.chmod(path, 0o777)
        assert get_acl(path) == "u::rwx,g::r,m::rwx,o::rwx"


def test_a_default_list_changes_no_mode(top):
    set_acl(top, "u::,u:5001:,g::,m::,o::", default=True)
    assert mode(top) == 0o755 and get_acl(top) is None
    os.chmod(top, 0o700)
    assert get_acl(top, default=True) == "u::,u:5001:,g::,m::,o::"


def test_removal(file, top):
    for path in (file, top):
        set_acl(path, SOME)
        remove_acl(path)
        assert get_acl(path) is None and mode(path) == 0o774
        remove_acl(path)  # none to remove is no error
    set_acl(top, SOME, default=True)
    set_acl(top, SOME)
    remove_acl(top, default=True)
    assert get_acl(top, default=True) is None and get_acl(top) == SOME
    remove_acl(top, default=True)
    remove_acl(file, default=True)
    # A list without entries is none.
    os.setxattr(top, ACCESS, encode(""))
    assert get_acl(top) is None
    set_acl(top, SOME, default=True)
    os.setxattr(top, DEFAULT, encode(""))
    assert get_acl(top, default=True) is None


def test_ctime(file):
    def moved(action):
        before = file.stat()
        tick()
        action()
        after = file.stat()
        return after.st_ctime_ns > before.st_ctime_ns, after.st_mtime_ns > before.st_mtime_ns

    assert moved(lambda: set_acl(file, SOME)) == (True, False)
    assert moved(lambda: remove_acl(file)) == (True, False)
    assert moved(lambda: get_acl(file)) == (False, False)


# What is refused

INVALID = [
    "u::r", "u::r,g::r", "g::r,o::r", "u::r,o::r", "u::r,u:1:r,g::r,o::r", "u::r,g::r,g:1:r,o::r",
    "u::r,g::r,o::r,o::r", "u::r,u::r,g::r,o::r", "g::r,u::r,o::r", "u::r,g::r,o::r,m::r",
    "u::r,g:1:r,g::r,m::r,o::r", "u::r,g::r,u:1:r,m::r,o::r"]


def test_invalid_lists(file, top):
    set_acl(file, SOME)
    set_acl(top, SOME, default=True)
    for text in INVALID:
        with raises_errno(errno.EINVAL):
            set_acl(file, text)
        with raises_errno(errno.EINVAL):
            set_acl(top, text, default=True)
    assert get_acl(file) == SOME and get_acl(top, default=True) == SOME


def test_invalid_bytes(file):
    good = encode(SOME)
    for value in (good[:-1], good + b"\0", good[:3], b"x"):
        with raises_errno(errno.EINVAL):
            os.setxattr(file, ACCESS, value)
    with raises_errno(errno.EOPNOTSUPP):
        os.setxattr(file, ACCESS, struct.pack("<I", 1) + good[4:])
    for place, byte in ((4, 0x40), (5, 1), (6, 8), (7, 1)):
        with raises_errno(errno.EINVAL):
            os.setxattr(file, ACCESS, good[:place] + bytes([byte]) + good[place + 1:])
    assert get_acl(file) is None and mode(file) == 0o644


def test_default_lists_are_for_directories(file, fs):
    with raises_errno(errno.EACCES):
        set_acl(file, SOME, default=True)
    os.mkfifo(fs / "fifo")
    with raises_errno(errno.EACCES):
        set_acl(fs / "fifo", SOME, default=True)
    set_acl(fs / "fifo", SOME)
    assert get_acl(fs / "fifo") == SOME


def test_symlinks_have_none(fs, file):
    os.symlink("file", fs / "link")
    for name in (ACCESS, DEFAULT):
        with raises_errno(errno.EOPNOTSUPP):
            os.setxattr(fs / "link", name, encode(SOME), follow_symlinks=False)
        with raises_errno(errno.EOPNOTSUPP):
            os.removexattr(fs / "link", name, follow_symlinks=False)
        with raises_errno(errno.EOPNOTSUPP, errno.ENODATA):
            os.getxattr(fs / "link", name, follow_symlinks=False)
    set_acl(fs / "link", SOME)
    assert get_acl(file) == SOME


def test_other_system_attributes(file):
    for name in ("system.posix_acl", "system.posix_acl_accessx", "system.x", "system."):
        with raises_errno(errno.EOPNOTSUPP):
            os.setxattr(file, name, b"x")
        with raises_errno(errno.EOPNOTSUPP):
            os.getxattr(file, name)
        with raises_errno(errno.EOPNOTSUPP):
            os.removexattr(file, name)


# Inheritance

RICH = "u::rwx,u:5001:rwx,g::rx,g:6001:rw,m::rwx,o::rx"


def make_all(top, bits):
    os.close(os.open(top / "file", os.O_CREAT | os.O_EXCL | os.O_WRONLY, bits))
    os.mkdir(top / "dir", bits)
    os.mkfifo(top / "fifo", bits)
    os.mknod(top / "socket", stat.S_IFSOCK | bits)
    os.symlink("file", top / "link")


@pytest.mark.parametrize("bits", [0o777, 0o666, 0o640, 0o600, 0o070, 0])
def test_inheritance(top, umask, bits):
    set_acl(top, RICH, default=True)
    umask(0o077)  # a default list takes its place
    make_all(top, bits)
    rights = "".join(letter for letter, bit in (("r", 4), ("w", 2), ("x", 1)) if bits >> 3 & bit)
    owner = "".join(letter for letter, bit in (("r", 4), ("w", 2), ("x", 1)) if bits >> 6 & bit)
    other = "".join(letter for letter, bit in (("r", 4), ("x", 1)) if bits & bit)
    want = f"u::{owner},u:5001:rwx,g::rx,g:6001:rw,m::{rights},o::{other}"
    for name in ("file", "dir", "fifo", "socket"):
        assert get_acl(top / name) == want, name
        assert mode(top / name) == bits & 0o775, name
        assert get_acl(top / name, default=True) == (RICH if name == "dir" else None)
    assert os.listxattr(top / "link", follow_symlinks=False) == []
    assert stat.S_IMODE(os.lstat(top / "link").st_mode) == 0o777


def test_inheritance_goes_on_below(top):
    set_acl(top, RICH, default=True)
    os.makedirs(top / "a" / "b" / "c")
    (top / "a" / "b" / "c" / "file").write_text("x")
    assert get_acl(top / "a" / "b" / "c", default=True) == RICH
    assert get_acl(top / "a" / "b" / "c" / "file") == RICH.replace("u::rwx", "u::rw").replace("m::rwx", "m::rw") \
        .replace("o::rx", "o::r")
    remove_acl(top, default=True)
    (top / "later").mkdir()
    assert os.listxattr(top / "later") == []
    assert get_acl(top / "a", default=True) == RICH


def test_a_minimal_default_list(top, umask):
    set_acl(top, "u::rwx,g::rwx,o::", default=True)
    umask(0o022)
    make_all(top, 0o666)
    for name in ("file", "dir", "fifo", "socket"):
        assert mode(top / name) == 0o660
        assert get_acl(top / name) is None
    assert get_acl(top / "dir", default=True) == "u::rwx,g::rwx,o::"


def test_the_umask_without_a_default_list(top, umask):
    set_acl(top, RICH)  # an access list is not inherited
    umask(0o027)
    make_all(top, 0o777)
    for name in ("file", "dir", "fifo", "socket"):
        assert mode(top / name) == 0o750
        assert os.listxattr(top / name) == []


def test_tmpfile(top, umask):
    set_acl(top, RICH, default=True)
    umask(0o077)
    fd = os.open(top, os.O_TMPFILE | os.O_RDWR, 0o660)
    assert get_acl(fd) == "u::rw,u:5001:rwx,g::rx,g:6001:rw,m::rw,o::"
    assert stat.S_IMODE(os.fstat(fd).st_mode) == 0o660
    checked(LIBC.linkat(AT_FDCWD, f"/proc/self/fd/{fd}".encode(), AT_FDCWD, os.fsencode(top / "named"),
                        AT_SYMLINK_FOLLOW))
    os.close(fd)
    assert get_acl(top / "named") == "u::rw,u:5001:rwx,g::rx,g:6001:rw,m::rw,o::"
    remove_acl(top, default=True)
    fd = os.open(top, os.O_TMPFILE | os.O_RDWR, 0o666)
    assert stat.S_IMODE(os.fstat(fd).st_mode) == 0o600
    os.close(fd)


def test_setgid_directories(top, umask):
    os.chmod(top, 0o2775)
    set_acl(top, RICH, default=True)
    umask(0o077)
    make_all(top, 0o777)
    assert mode(top / "dir") == 0o2775 and mode(top / "file") == 0o775


def test_rename_and_link_inherit_nothing(fs, top, file):
    set_acl(top, RICH, default=True)
    os.rename(file, top / "file")
    assert get_acl(top / "file") is None and mode(top / "file") == 0o644
    set_acl(top / "file", SOME)
    os.link(top / "file", fs / "second")
    os.rename(top / "file", fs / "third")
    assert get_acl(fs / "second") == SOME == get_acl(fs / "third")
    os.rename(fs / "second", fs / "third")
    (fs / "plain").write_text("new")
    os.rename(fs / "plain", fs / "third")
    assert get_acl(fs / "third") is None


# Programs

def getfacl(*paths):
    return run("getfacl", "-p", "-c", "-n", *paths).stdout


def test_setfacl_and_getfacl(file, top):
    run("setfacl", "-m", "u:5001:rw,g:6001:r", file)
    assert getfacl(file).split() == ["user::rw-", "user:5001:rw-", "group::r--", "group:6001:r--", "mask::rw-",
                                     "other::r--"]
    run("setfacl", "-m", "m::r", file)
    assert "user:5001:rw-\t#effective:r--" in getfacl(file)
    run("setfacl", "-x", "u:5001", file)
    assert "5001" not in getfacl(file)
    run("setfacl", "-b", file)
    assert os.listxattr(file) == [] and mode(file) == 0o644
    run("setfacl", "-d", "-m", "u:5001:rwx", top)
    (top / "sub").mkdir()
    assert "default:user:5001:rwx" in getfacl(top / "sub")
    run("setfacl", "-k", top)
    assert get_acl(top, default=True) is None
    run("setfacl", "-R", "-b", top)
    assert "5001" not in getfacl(top / "sub")


def test_ls_shows_them(file):
    assert "+" not in run("ls", "-l", file).stdout.split()[0]
    set_acl(file, SOME)
    assert run("ls", "-l", file).stdout.split()[0] == "-rwxrwxr--+"


@pytest.fixture
def decorated(top):
    (top / "sub").mkdir()
    (top / "sub" / "file").write_text("content")
    set_acl(top / "sub", RICH, default=True)
    set_acl(top / "sub", "u::rwx,u:5002:rx,g::rx,m::rx,o::")
    set_acl(top / "sub" / "file", SOME)
    return top


def check_copy(copy):
    assert get_acl(copy / "sub", default=True) == RICH
    assert get_acl(copy / "sub") == "u::rwx,u:5002:rx,g::rx,m::rx,o::"
    assert get_acl(copy / "sub" / "file") == SOME
    assert (copy / "sub" / "file").read_text() == "content"


def test_cp(fs, decorated):
    run("cp", "-a", decorated, fs / "copy")
    check_copy(fs / "copy")
    run("cp", "-r", decorated, fs / "plain")
    assert get_acl(fs / "plain" / "sub" / "file") is None


def test_tar(fs, decorated):
    run("tar", "--acls", "-C", decorated, "-cf", fs / "archive.tar", "sub")
    (fs / "copy").mkdir()
    run("tar", "--acls", "-C", fs / "copy", "-xf", fs / "archive.tar")
    check_copy(fs / "copy")


@pytest.mark.skipif(not shutil.which("rsync"), reason="rsync is not installed")
def test_rsync(fs, decorated):
    run("rsync", "-aA", f"{decorated}/", f"{fs}/copy/")
    check_copy(fs / "copy")
    set_acl(decorated / "sub" / "file", "u::rw,g::r,m::w,o::")
    run("rsync", "-aA", f"{decorated}/", f"{fs}/copy/")
    assert get_acl(fs / "copy" / "sub" / "file") == "u::rw,g::r,m::w,o::"


def test_getfacl_restore(fs, decorated):
    saved = fs / "saved"
    saved.write_text(run("getfacl", "-R", "-n", "-p", decorated).stdout)
    run("setfacl", "-R", "-b", decorated)
    run("setfacl", f"--restore={saved}")
    check_copy(decorated)


# Mounts

@pytest.mark.parametrize("store", ["memory:", "dir"])
def test_private_mount(make_mount, umask, store):
    """Where the kernel checks nothing, because only its owner gets in, lists are kept all the same."""
    m = make_mount(store, opts="")
    top = m.p("top")
    os.mkdir(top)
    umask(0o027)
    os.close(os.open(top / "masked", os.O_CREAT | os.O_WRONLY, 0o666))
    assert mode(top / "masked") == 0o640
    set_acl(top, RICH, default=True)
    make_all(top, 0o660)
    assert mode(top / "file") == 0o660 and mode(top / "masked") == 0o640
    assert get_acl(top / "dir", default=True) == RICH
    assert get_acl(top / "file") == "u::rw,u:5001:rwx,g::rx,g:6001:rw,m::rw,o::"
    os.chmod(top / "file", 0o640)
    assert get_acl(top / "file") == "u::rw,u:5001:rwx,g::rx,g:6001:rw,m::r,o::"
    set_acl(top / "file", "u::r,g::,o::x")
    assert mode(top / "file") == 0o401 and get_acl(top / "file") is None
    # The kernel's own copy of the mode follows at once.
    script = top / "script"
    script.write_text("#!/bin/sh\nexit 0\n")
    with raises_errno(errno.EACCES):
        run(script)
    set_acl(script, "u::rwx,g::r,o::")
    run(script)


def test_persistence(make_mount):
    m = make_mount("dir")
    m.write("file", "x")
    os.mkdir(m.p("dir"))
    set_acl(m.p("file"), SOME)
    set_acl(m.p("dir"), RICH, default=True)
    m.set("file", "user.other", "1")
    m.remount()
    assert get_acl(m.p("file")) == SOME and mode(m.p("file")) == 0o774
    m.write("dir/new", "x")
    assert get_acl(m.p("dir/new")).startswith("u::rw,u:5001:rwx")
    fd = os.open(m.p("."), os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    m.kill9()
    m.start()
    assert get_acl(m.p("dir"), default=True) == RICH
    assert get_acl(m.p("dir/new")).startswith("u::rw,u:5001:rwx")
    remove_acl(m.p("file"))
    m.remount()
    assert get_acl(m.p("file")) is None and mode(m.p("file")) == 0o774
    assert m.lst("file") == ["user.other"]


@pytest.mark.parametrize("opts", ["noacl", "noacl,allow_other"])
def test_noacl(make_mount, umask, opts):
    if "allow_other" in opts and not IS_ROOT:
        pytest.skip("allow_other is root's here")
    m = make_mount("dir", opts="test-clock")
    os.mkdir(m.p("dir"))
    set_acl(m.p("dir"), RICH, default=True)
    set_acl(m.p("dir"), RICH)
    m.remount(opts=f"test-clock,{opts}")
    for name in (ACCESS, DEFAULT):
        with raises_errno(errno.EOPNOTSUPP):
            os.getxattr(m.p("dir"), name)
        with raises_errno(errno.EOPNOTSUPP):
            os.setxattr(m.p("dir"), name, encode(SOME))
        with raises_errno(errno.EOPNOTSUPP):
            os.removexattr(m.p("dir"), name)
    assert os.listxattr(m.p("dir")) == []
    umask(0o077)
    m.write("dir/file", "x")
    assert mode(m.p("dir/file")) == 0o600
    os.chmod(m.p("dir"), 0o700)
    # What was set is kept, and has followed the mode.
    m.remount(opts="test-clock,acl")
    assert get_acl(m.p("dir"), default=True) == RICH
    assert get_acl(m.p("dir")) == "u::rwx,u:5001:rwx,g::rx,g:6001:rw,m::,o::"


def test_the_control_directory_has_none(mount):
    for path in (".ttlfs", ".ttlfs/status.json", ".ttlfs/parameters"):
        with raises_errno(errno.ENODATA):
            os.getxattr(mount.p(path), ACCESS)
        with raises_errno(errno.EOPNOTSUPP):
            os.setxattr(mount.p(path), ACCESS, encode(SOME))
    if IS_ROOT:
        assert run_as(mount.path, 0, lambda: os.listdir(".ttlfs"))


def test_expired_documents_have_none(mount):
    mount.write("file", "x")
    mount.set(".", "ttl.idle", "10s")
    set_acl(mount.p("file"), SOME)
    mount.clock_advance(10_000)
    for action in (get_acl, remove_acl, lambda path: set_acl(path, SOME)):
        with raises_errno(errno.ENOENT):
            action(mount.p("file"))


def test_the_list_of_attributes(fs, file):
    """Both kinds, beside one another."""
    set_acl(file, SOME)
    os.setxattr(file, "user.x", b"1")
    assert sorted(os.listxattr(file)) == [ACCESS, "user.x"]
    if is_tmpfs(fs):
        return
    os.setxattr(file, "user.ttl.seconds", b"1h")
    os.truncate(file, 0)
    assert get_acl(file) == SOME
