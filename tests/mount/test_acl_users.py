"""Access control lists and several users: who may do what, and who may say so. As on tmpfs."""
import errno
import os
import pathlib
import random
import shutil
import stat
import tempfile

import pytest

from aclhelp import ACCESS, DEFAULT, Users, encode, get_acl, remove_acl, set_acl, skip_without
from conftest import raises_errno, run_as
from targets import fs, is_tmpfs

pytestmark = [pytest.mark.root]

ANN, BEN, CLO, DOM = 5001, 5002, 5003, 5004
STAFF, GUESTS = 6001, 6002
GROUPS = {BEN: (STAFF,), CLO: (STAFF, GUESTS), DOM: (GUESTS,)}


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


@pytest.fixture
def area(fs):
    """A directory of ANN's with a file of hers that nobody else may touch."""
    if is_tmpfs(fs):
        skip_without(fs)
    fs.chmod(0o1777)
    path = fs / "area"
    path.mkdir()
    (path / "file").write_text("secret")
    os.chmod(path / "file", 0o600)
    os.chmod(path, 0o755)
    os.chown(path / "file", ANN, ANN)
    os.chown(path, ANN, ANN)
    return path


def rights(area, uid):
    """What a user may do with ANN's file, as letters."""
    def look():
        found = ""
        for letter, flags in (("r", os.O_RDONLY), ("w", os.O_WRONLY)):
            try:
                os.close(os.open("file", flags))
                found += letter
            except PermissionError:
                pass
        return found + ("x" if os.access("file", os.X_OK, effective_ids=True) else "")

    return run_as(area, uid, look, groups=GROUPS.get(uid, ()))


def everybody(area):
    return {uid: rights(area, uid) for uid in (ANN, BEN, CLO, DOM)}


def test_named_users(area):
    assert everybody(area) == {ANN: "rw", BEN: "", CLO: "", DOM: ""}
    set_acl(area / "file", f"u::rw,u:{BEN}:r,u:{CLO}:rwx,g::,m::rwx,o::")
    assert everybody(area) == {ANN: "rw", BEN: "r", CLO: "rwx", DOM: ""}
    os.chmod(area / "file", 0o640)
    assert everybody(area) == {ANN: "rw", BEN: "r", CLO: "r", DOM: ""}
    set_acl(area / "file", f"u::,u:{BEN}:,g::rwx,m::rwx,o::rwx")
    assert everybody(area) == {ANN: "", BEN: "", CLO: "rwx", DOM: "rwx"}
    remove_acl(area / "file")
    assert everybody(area) == {ANN: "", BEN: "rwx", CLO: "rwx", DOM: "rwx"}


def test_groups(area):
    set_acl(area / "file", f"u::rw,g::,g:{STAFF}:r,g:{GUESTS}:w,m::rw,o::")
    assert everybody(area) == {ANN: "rw", BEN: "r", CLO: "rw", DOM: "w"}
    # No single group of CLO's grants both.
    with raises_errno(errno.EACCES):
        run_as(area, CLO, lambda: os.close(os.open("file", os.O_RDWR)), groups=GROUPS[CLO])
    set_acl(area / "file", f"u::rw,g::,g:{STAFF}:,m::rw,o::rwx")
    assert everybody(area) == {ANN: "rw", BEN: "", CLO: "", DOM: "rwx"}
    os.chown(area / "file", -1, GUESTS)
    set_acl(area / "file", f"u::rw,g::r,g:{STAFF}:w,m::rw,o::")
    assert everybody(area) == {ANN: "rw", BEN: "w", CLO: "rw", DOM: "r"}


def test_an_empty_mask(area):
    """The kernel then does not look at the list: named users fall to the group's or the others' bits."""
    set_acl(area / "file", f"u::rw,u:{BEN}:rwx,g::r,m::,o::x")
    assert everybody(area) == {ANN: "rw", BEN: "x", CLO: "x", DOM: "x"}


def test_directories(area):
    os.chmod(area / "file", 0o644)
    set_acl(area, f"u::rwx,u:{BEN}:rwx,u:{CLO}:rx,u:{DOM}:x,g::,m::rwx,o::")

    def as_user(uid, function):
        return run_as(area.parent, uid, function, groups=GROUPS.get(uid, ()))

    as_user(BEN, lambda: pathlib.Path("area/bens").touch())
    assert sorted(as_user(CLO, lambda: os.listdir("area"))) == ["bens", "file"]
    for uid in (CLO, DOM):
        with raises_errno(errno.EACCES):
            as_user(uid, lambda: pathlib.Path("area/new").touch())
        with raises_errno(errno.EACCES):
            as_user(uid, lambda: os.unlink("area/bens"))
        with raises_errno(errno.EACCES):
            as_user(uid, lambda: os.rename("area/bens", "area/other"))
        assert as_user(uid, lambda: pathlib.Path("area/file").read_text()) == "secret"
    with raises_errno(errno.EACCES):
        as_user(DOM, lambda: os.listdir("area"))
    as_user(BEN, lambda: os.unlink("area/file"))
    remove_acl(area)
    os.chmod(area, 0o700)
    with raises_errno(errno.EACCES):
        as_user(BEN, lambda: os.stat("area/bens"))


def test_changes_count_at_once(area):
    """Whatever the kernel has cached."""
    for allowed in (True, False) * 10:
        set_acl(area / "file", f"u::rw,u:{BEN}:{'r' if allowed else ''},g::,m::r,o::")
        assert (rights(area, BEN) == "r") == allowed


def test_only_the_owner_sets_them(area):
    for uid in (BEN, DOM):
        for name in (ACCESS, DEFAULT):
            path = "file" if name == ACCESS else "."
            with raises_errno(errno.EPERM):
                run_as(area, uid, lambda: os.setxattr(path, name, encode("u::rwx,g::rwx,o::rwx")))
            with raises_errno(errno.EPERM):
                run_as(area, uid, lambda: os.removexattr(path, name))
    run_as(area, ANN, lambda: set_acl("file", f"u::rw,u:{BEN}:rwx,g::,m::rwx,o::"))
    # Who may write is still not who may say who may.
    with raises_errno(errno.EPERM):
        run_as(area, BEN, lambda: os.removexattr("file", ACCESS))
    assert run_as(area, BEN, lambda: get_acl("file")) == f"u::rw,u:{BEN}:rwx,g::,m::rwx,o::"
    run_as(area, ANN, lambda: remove_acl("file"))
    set_acl(area / "file", "u::rw,g::r,m::r,o::")  # root may


def test_setgid_goes_when_a_stranger_to_the_group_sets_a_list(area):
    path = area / "file"

    def prepared(group):
        os.chown(path, ANN, group)
        os.chmod(path, 0o2755)
        remove_acl(path)

    for action in (lambda: set_acl("file", f"u::rwx,u:{BEN}:r,g::rx,m::rx,o::"),
                   lambda: set_acl("file", "u::rwx,g::rx,o::"), lambda: remove_acl("file")):
        prepared(STAFF)
        run_as(area, ANN, action)
        assert not mode(path) & stat.S_ISGID
        prepared(ANN)
        run_as(area, ANN, action)
        assert mode(path) & stat.S_ISGID
        prepared(STAFF)
        run_as(area, ANN, action, groups=(GUESTS, STAFF))
        assert mode(path) & stat.S_ISGID
        prepared(STAFF)
        run_as(area, 0, action)
        assert mode(path) & stat.S_ISGID
    # A default list is no reason.
    os.chown(area, ANN, STAFF)
    os.chmod(area, 0o2755)
    run_as(area, ANN, lambda: set_acl(".", "u::rwx,g::rx,o::", default=True))
    assert mode(area) & stat.S_ISGID


def test_files_made_under_a_default_list_belong_to_their_maker(area):
    set_acl(area, f"u::rwx,u:{BEN}:rwx,g::,m::rwx,o::x")
    set_acl(area, f"u::rwx,u:{ANN}:rwx,g::,m::rwx,o::", default=True)

    def make():
        os.umask(0o077)
        os.close(os.open("bens", os.O_CREAT | os.O_WRONLY, 0o666))
        os.mkdir("dir", 0o777)

    run_as(area, BEN, make, groups=GROUPS[BEN])
    found = os.stat(area / "bens")
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (BEN, BEN, 0o660)
    run_as(area, ANN, lambda: pathlib.Path("bens").write_text("ann was here"))
    run_as(area, ANN, lambda: pathlib.Path("dir/file").touch())
    with raises_errno(errno.EACCES):
        run_as(area, DOM, lambda: pathlib.Path("bens").read_text())


def test_trusted_and_security_attributes_are_roots(area):
    path = area / "file"
    os.chmod(path, 0o666)
    os.setxattr(path, "trusted.x", b"1")
    os.setxattr(path, "user.x", b"2")
    os.setxattr(path, "security.x", b"3")
    assert os.getxattr(path, "trusted.x") == b"1"
    assert sorted(os.listxattr(path)) == ["security.x", "trusted.x", "user.x"]
    assert sorted(run_as(area, ANN, lambda: os.listxattr("file"))) == ["security.x", "user.x"]
    with raises_errno(errno.ENODATA):
        run_as(area, ANN, lambda: os.getxattr("file", "trusted.x"))
    assert run_as(area, ANN, lambda: os.getxattr("file", "security.x")) == b"3"
    for name in ("trusted.x", "trusted.new", "security.x", "security.new"):
        with raises_errno(errno.EPERM):
            run_as(area, ANN, lambda: os.setxattr("file", name, b"4"))
        with raises_errno(errno.EPERM):
            run_as(area, ANN, lambda: os.removexattr("file", name))


def test_user_attributes_need_the_files_permissions(area):
    os.setxattr(area / "file", "user.x", b"1")
    with raises_errno(errno.EACCES):
        run_as(area, BEN, lambda: os.getxattr("file", "user.x"))
    with raises_errno(errno.EACCES):
        run_as(area, BEN, lambda: os.setxattr("file", "user.x", b"2"))
    set_acl(area / "file", f"u::rw,u:{BEN}:r,g::,m::rw,o::")
    assert run_as(area, BEN, lambda: os.getxattr("file", "user.x")) == b"1"
    with raises_errno(errno.EACCES):
        run_as(area, BEN, lambda: os.setxattr("file", "user.x", b"2"))
    set_acl(area / "file", f"u::rw,u:{BEN}:rw,g::,m::rw,o::")
    run_as(area, BEN, lambda: os.setxattr("file", "user.x", b"2"))
    # In a sticky directory only its owner has attributes of the directory to set.
    os.chmod(area, 0o1777)
    with raises_errno(errno.EPERM):
        run_as(area, BEN, lambda: os.setxattr(".", "user.x", b"2"))
    run_as(area, ANN, lambda: os.setxattr(".", "user.x", b"2"))


# Twins: the same random steps on both must have the same results

NAMES = ["d0", "d0/d1", "d0/d1/f1", "d0/f0", "d2", "d2/f2", "f3", "d2/f4", "d0/new", "d2/d5", "d2/d5/f6"]
STEPS = 250


def random_acl(rng, minimal=False):
    def some():
        return "".join(letter for letter in "rwx" if rng.random() < 0.7)

    if minimal:
        return f"u::{some()},g::{some()},o::{some()}"
    users = "".join(f",u:{uid}:{some()}" for uid in (ANN, BEN, CLO, DOM) if rng.random() < 0.4)
    groups = "".join(f",g:{gid}:{some()}" for gid in (ANN, STAFF, GUESTS) if rng.random() < 0.4)
    return f"u::{some()}{users},g::{some()}{groups},m::{some()},o::{some()}"


def do_create(path, bits, umask):
    os.umask(umask)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_NONBLOCK, bits))


def do_mkdir(path, bits, umask):
    os.umask(umask)
    os.mkdir(path, bits)


def do_mkfifo(path, bits, umask):
    os.umask(umask)
    os.mkfifo(path, bits)


def do_open(path, flags):
    os.close(os.open(path, flags | os.O_NONBLOCK))


def do_access(path, want):
    return os.access(path, want, effective_ids=True)


def do_listdir(path):
    return sorted(os.listdir(path))


def random_step(rng):
    """A function and its arguments."""
    path, other = rng.choice(NAMES), rng.choice(NAMES)
    bits, umask = rng.randrange(0o10000), rng.choice([0, 0o022, 0o077, 0o027])
    if rng.random() < 0.7:
        bits &= 0o777
    default = rng.random() < 0.4
    # Mostly what the name says: otherwise soon everything lies below a file.
    if rng.random() < 0.3:
        make = do_mkdir if path.rpartition("/")[2][0] == "d" else rng.choice([do_create, do_mkfifo])
        return make, path, bits | (0o500 if rng.random() < 0.5 else 0), umask
    return rng.choice([
        (os.chmod, path, bits), (set_acl, path, random_acl(rng), default), (remove_acl, path, default),
        (set_acl, path, random_acl(rng, minimal=True), default),
        (os.chown, path, rng.choice([ANN, BEN, CLO]), rng.choice([-1, ANN, STAFF, GUESTS])),
        (os.chown, path, -1, rng.choice([ANN, STAFF, GUESTS])),
        (do_create, path, bits, umask), (do_mkdir, path, bits, umask), (do_mkfifo, path, bits, umask),
        (os.unlink, path), (os.rmdir, path), (os.rename, path, other), (os.link, path, other)])


def probes(rng):
    """What changes nothing, tried by every user after each step."""
    for path in rng.sample(NAMES, 3):
        yield from ((do_open, path, os.O_RDONLY), (do_open, path, os.O_WRONLY), (do_access, path, os.X_OK))
    yield do_listdir, rng.choice(["d0", "d2", "d0/d1"])


def outcome(user, directory, step):
    """The result of a step in one of the directories, or its errno."""
    user(os.fchdir, directory)
    try:
        return user(*step)
    except OSError as error:
        return errno.errorcode[error.errno]


def picture(root):
    """All that can be seen of a tree, and that both must have."""
    found = {}
    for top, dirs, files in os.walk(root):
        for name in [".", *dirs, *files]:
            path = pathlib.Path(top) / name
            st = os.lstat(path)
            default = get_acl(path, default=True) if stat.S_ISDIR(st.st_mode) else None
            found[str(path.relative_to(root))] = (oct(st.st_mode), st.st_uid, st.st_gid, st.st_nlink,
                                                  get_acl(path), default)
    return found


@pytest.mark.tsan
@pytest.mark.parametrize("seed", range(3))
def test_twins(make_mount, seed):
    rng = random.Random(seed)
    mounted = make_mount("dir" if seed == 1 else "memory:", opts="allow_other,mode=1777").path
    twin = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm", prefix="ttlfs-test."))
    descriptors = []
    try:
        skip_without(twin)
        twin.chmod(0o1777)
        roots = [twin, mounted]
        for root in roots:
            descriptors.append(os.open(root, os.O_RDONLY))
        with Users(0, ANN, BEN, CLO, DOM, groups=GROUPS) as users:
            for number in range(STEPS):
                who = rng.choice([0, ANN, BEN, CLO, DOM])
                step = random_step(rng)
                say = f"seed {seed}, step {number}: {who} {step[0].__name__}{step[1:]}"
                results = [outcome(users[who], directory, step) for directory in descriptors]
                assert results[0] == results[1], say
                pictures = [picture(root) for root in roots]
                assert pictures[0] == pictures[1], say
                tried = list(probes(rng))
                for uid in rng.sample([ANN, BEN, CLO, DOM], 2):
                    for probe in tried:
                        results = [outcome(users[uid], directory, probe) for directory in descriptors]
                        assert results[0] == results[1], f"{say}; then {uid} {probe[0].__name__}{probe[1:]}"
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
        shutil.rmtree(twin)
