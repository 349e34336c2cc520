"""Twins: the same random calls of several users on a tmpfs and on a ttlfs mount, compared call by call.

Each user is a forked process per filesystem, whose working directory is the directory under test. A step is drawn
from a seeded generator, made by the same user on both sides, and its errno or result compared; then all names are
looked at (attributes of all kinds, and which times moved), by root. A difference is reported with the steps that
led to it.

    python3 twin.py DIRECTORY DIRECTORY [SEED [STEPS]]        # as root; both empty
"""
import ctypes
import errno
import multiprocessing
import os
import random
import stat
import sys
import time
import traceback

LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, AT_SYMLINK_FOLLOW = -100, 0x400
UTIME_NOW, UTIME_OMIT = (1 << 30) - 1, (1 << 30) - 2
CLOCK_REALTIME_COARSE = 5

# uid, gid, further groups. Root comes first.
USERS = [(0, 0, ()), (21001, 21050, (21051,)), (21002, 21050, ()), (21003, 21052, (21051, 21050))]
IDS = [0, 21001, 21002, 21050, 21051, 21052]
DIRS = ["", "d/", "d/e/", "s/"]
NAMES = ["a", "b", "c", "x", "d", "e"]
MODES = [0o000, 0o400, 0o600, 0o644, 0o666, 0o755, 0o777, 0o1777, 0o2755, 0o2777, 0o4755, 0o6777, 0o2644, 0o6666,
         0o1666]
SIZES = [0, 1, 100, 4095, 4096, 4097, 9000, 20000, 70000]
OPENS = [os.O_RDONLY, os.O_WRONLY, os.O_RDWR]
EXTRAS = [0, 0, os.O_CREAT, os.O_CREAT, os.O_CREAT | os.O_EXCL, os.O_TRUNC, os.O_CREAT | os.O_TRUNC, os.O_APPEND,
          os.O_NOFOLLOW, os.O_DIRECTORY, os.O_CREAT | os.O_NOFOLLOW, os.O_NOATIME, os.O_PATH, os.O_NONBLOCK,
          os.O_TMPFILE & ~os.O_DIRECTORY | os.O_DIRECTORY]


def checked(result):
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def linkat(path, new, follow):
    flags = AT_SYMLINK_FOLLOW if follow else 0
    checked(LIBC.linkat(AT_FDCWD, os.fsencode(path), AT_FDCWD, os.fsencode(new), flags))


class Timespec(ctypes.Structure):
    _fields_ = [("sec", ctypes.c_int64), ("nsec", ctypes.c_int64)]


class Calls:
    """What a user can do; every method is a step's name."""

    def __init__(self):
        self.fds = {}

    def _fd(self, slot):
        if slot not in self.fds:
            raise OSError(errno.EBADF, "no such slot")
        return self.fds[slot]

    def _keep(self, slot, fd):
        self.close(slot)
        self.fds[slot] = fd

    def open(self, slot, path, flags, mode):
        self._keep(slot, os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, mode))

    def reopen(self, slot, flags):
        self._keep(slot, os.open(f"/proc/self/fd/{self._fd(slot)}", flags | os.O_NONBLOCK | os.O_CLOEXEC))

    def close(self, slot):
        fd = self.fds.pop(slot, None)
        if fd is not None:
            os.close(fd)

    def read(self, slot, size, offset):
        return os.pread(self._fd(slot), size, offset)

    def write(self, slot, data, offset):
        return os.pwrite(self._fd(slot), data, offset)

    def ftruncate(self, slot, size):
        os.ftruncate(self._fd(slot), size)

    def fstat(self, slot):
        found = os.fstat(self._fd(slot))
        return (found.st_mode, found.st_nlink, found.st_uid, found.st_gid, size_of(found))

    def fchmod(self, slot, mode):
        os.fchmod(self._fd(slot), mode)

    def fchown(self, slot, uid, gid):
        os.fchown(self._fd(slot), uid, gid)

    def fallocate(self, slot, mode, offset, length):
        checked(LIBC.fallocate(self._fd(slot), mode, ctypes.c_int64(offset), ctypes.c_int64(length)))

    def copy(self, source, target, length, from_offset, to_offset):
        return os.copy_file_range(self._fd(source), self._fd(target), length, from_offset, to_offset)

    def seek(self, slot, offset, whence):
        return os.lseek(self._fd(slot), offset, whence)

    def fsync(self, slot):
        os.fsync(self._fd(slot))

    def list_open(self, slot):
        os.lseek(self._fd(slot), 0, os.SEEK_SET)
        return sorted(os.listdir(self._fd(slot)))

    def link_open(self, slot, path):
        linkat(f"/proc/self/fd/{self._fd(slot)}", path, True)

    def chmod(self, path, mode):
        os.chmod(path, mode)

    def chown(self, path, uid, gid, follow):
        os.chown(path, uid, gid, follow_symlinks=follow)

    def truncate(self, path, size):
        os.truncate(path, size)

    def utimens(self, path, follow, *times):
        pair = (Timespec * 2)(*[Timespec(*each) for each in times]) if times else None
        checked(LIBC.utimensat(AT_FDCWD, os.fsencode(path), pair, 0 if follow else 0x100))

    def mkdir(self, path, mode):
        os.mkdir(path, mode)

    def rmdir(self, path):
        os.rmdir(path)

    def mknod(self, path, mode, device):
        os.mknod(path, mode, device)

    def unlink(self, path):
        os.unlink(path)

    def link(self, path, new, follow):
        linkat(path, new, follow)

    def symlink(self, target, path):
        os.symlink(target, path)

    def readlink(self, path):
        return os.readlink(path)

    def rename(self, path, new, flags):
        checked(LIBC.renameat2(AT_FDCWD, os.fsencode(path), AT_FDCWD, os.fsencode(new), ctypes.c_uint(flags)))

    def stat(self, path):
        found = os.stat(path)
        return (found.st_mode, found.st_nlink, found.st_uid, found.st_gid, size_of(found))

    def access(self, path, mode):
        checked(LIBC.faccessat(AT_FDCWD, os.fsencode(path), mode, 0))

    def list(self, path):
        return sorted(os.listdir(path or "."))

    def setxattr(self, path, name, value, flags, follow):
        os.setxattr(path, name, value, flags, follow_symlinks=follow)

    def getxattr(self, path, name, follow):
        return os.getxattr(path, name, follow_symlinks=follow)

    def removexattr(self, path, name, follow):
        os.removexattr(path, name, follow_symlinks=follow)

    def listxattr(self, path, follow):
        return sorted(os.listxattr(path, follow_symlinks=follow))

    def umask(self, mask):
        return os.umask(mask)

    def attributes(self):
        """All names with their attributes: for root."""
        found = {}
        for top, dirs, files in os.walk("."):
            for name in [".", *dirs, *files]:
                path = os.path.normpath(os.path.join(top, name))
                if path not in found:
                    found[path] = attributes_of(path)
        return found

    def contents(self):
        found = {}
        for top, _, files in os.walk("."):
            for name in files:
                path = os.path.join(top, name)
                if stat.S_ISREG(os.lstat(path).st_mode):
                    fd = os.open(path, os.O_RDONLY | os.O_NOATIME)
                    found[path] = os.read(fd, 1 << 20)
                    os.close(fd)
        return found


def size_of(found):
    return None if stat.S_ISDIR(found.st_mode) else found.st_size


def attributes_of(path):
    found = os.lstat(path)
    names = [] if stat.S_ISLNK(found.st_mode) else os.listxattr(path)
    return {
        "mode": oct(found.st_mode), "nlink": found.st_nlink, "owner": (found.st_uid, found.st_gid), "size": size_of(found),
        "blocks": None if stat.S_ISDIR(found.st_mode) else found.st_blocks, "device": found.st_rdev,
        "xattrs": sorted(names), "ino": found.st_ino, "mtime": found.st_mtime_ns, "ctime": found.st_ctime_ns}


def serve(directory, user, pipe):
    """A user's process: does what it is told until the pipe ends."""
    uid, gid, groups = user
    os.chdir(directory)
    os.setgroups(list(groups))
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    os.umask(0o022)
    calls = Calls()
    while True:
        step = pipe.recv()
        if step is None:
            return
        try:
            answer = getattr(calls, step[0])(*step[1:])
        except OSError as error:
            answer = errno.errorcode.get(error.errno, str(error.errno))
        except Exception:  # told to whoever asked
            answer = traceback.format_exc()
        pipe.send(answer)


class Side:
    """One filesystem, with a process for each user."""

    def __init__(self, directory):
        self.users = []
        context = multiprocessing.get_context("fork")
        for user in USERS:
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(directory, user, theirs), daemon=True)
            process.start()
            theirs.close()
            self.users.append((process, ours))
        self.before = {}

    def do(self, user, step):
        pipe = self.users[user][1]
        pipe.send(step)
        if not pipe.poll(60):
            raise TimeoutError(f"{step} does not return")
        return pipe.recv()

    def look(self):
        """Attributes of all names; of mtime and ctime whether they moved, of inodes which names share one."""
        now = self.do(0, ("attributes",))
        shown = {}
        first = {}
        for path, found in sorted(now.items()):
            old = self.before.get(found["ino"])
            shown[path] = dict(found)
            shown[path]["ino"] = first.setdefault(found["ino"], path)
            for key in ("mtime", "ctime"):
                shown[path][key] = "new" if old is None else "moved" if old[key] != found[key] else "same"
                if 0 < found[key] < 1000 * 10**9:  # one that utimens set
                    shown[path][key] += f" {found[key]}"
        self.before = {found["ino"]: found for found in now.values()}
        return shown

    def close(self):
        for process, pipe in self.users:
            try:
                pipe.send(None)
            except OSError:
                process.kill()
            process.join(10)
            pipe.close()


class Draw:
    """Random steps."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def path(self):
        if self.rng.random() < 0.02:
            return self.rng.choice(["a/b", "l/x", "loop", "n" * 256, "d/..", "d/.", "s/", "nothing/x", "", "d/e/.."])
        return self.rng.choice(DIRS) + self.rng.choice(NAMES)

    def ids(self):
        """Never two times -1: a stranger's chown of an open set-id file to what it has is the one known difference."""
        uid = self.rng.choice([*IDS, -1])
        return uid, self.rng.choice([*IDS, -1] if uid != -1 else IDS)

    def times(self):
        one = self.rng.choice([(self.rng.randrange(1, 999), self.rng.randrange(10**9)), (0, UTIME_NOW),
                               (0, UTIME_OMIT), (0, UTIME_NOW), (-5, 7), (5, 10**9)])
        other = self.rng.choice([(self.rng.randrange(1, 999), self.rng.randrange(10**9)), (0, UTIME_NOW),
                                 (0, UTIME_OMIT)])
        return self.rng.choice([(), (one, other), (other, other), ((0, UTIME_NOW), (0, UTIME_NOW))])

    def step(self):
        rng = self.rng
        slot = rng.randrange(3)
        path, new = self.path(), self.path()
        mode = rng.choice(MODES)
        follow = rng.random() < 0.6
        name = rng.choice(["user.x", "user.y", "trusted.x", "security.x", "user.", "foo.x", "system.x"])
        data = bytes([rng.randrange(1, 256)]) * rng.choice(SIZES)
        size, offset = rng.choice(SIZES), rng.choice(SIZES)
        choices = {
            "open": (14, lambda: (slot, path, rng.choice(OPENS) | rng.choice(EXTRAS), mode)),
            "reopen": (2, lambda: (slot, rng.choice(OPENS))),
            "close": (3, lambda: (slot,)),
            "read": (4, lambda: (slot, size, offset)),
            "write": (9, lambda: (slot, data, offset)),
            "ftruncate": (3, lambda: (slot, size)),
            "fstat": (2, lambda: (slot,)),
            "fchmod": (3, lambda: (slot, mode)),
            "fchown": (3, lambda: (slot, *self.ids())),
            "fallocate": (4, lambda: (slot, rng.choice([0, 0, 1, 2, 3, 3, 8, 9, 32, 64, 1 << 20]), offset, size)),
            "copy": (3, lambda: (slot, rng.randrange(3), size, offset, rng.choice(SIZES))),
            "seek": (2, lambda: (slot, offset, rng.choice([os.SEEK_SET, os.SEEK_CUR, 7]))),
            "fsync": (1, lambda: (slot,)),
            "list_open": (1, lambda: (slot,)),
            "link_open": (2, lambda: (slot, path)),
            "chmod": (7, lambda: (path, mode)),
            "chown": (7, lambda: (path, *self.ids(), follow)),
            "truncate": (4, lambda: (path, rng.choice([*SIZES, -1]))),
            "utimens": (5, lambda: (path, follow, *self.times())),
            "mkdir": (6, lambda: (path, mode)),
            "rmdir": (4, lambda: (path,)),
            "mknod": (3, lambda: (path, rng.choice([stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFBLK,
                                                    stat.S_IFREG, 0, stat.S_IFDIR, stat.S_IFLNK]) | mode, 0x0103)),
            "unlink": (5, lambda: (path,)),
            "link": (6, lambda: (path, new, follow)),
            "symlink": (3, lambda: (rng.choice(["a", "d", "loop", "d/../a", "nothing", "x" * 100]), path)),
            "readlink": (2, lambda: (path,)),
            "rename": (12, lambda: (path, new, rng.choice([0, 0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 6, 8]))),
            "stat": (2, lambda: (path,)),
            "access": (3, lambda: (path, rng.randrange(9))),
            "list": (2, lambda: (path,)),
            "setxattr": (4, lambda: (path, name, data[:64], rng.choice([0, 0, 1, 2, 3, 4]), follow)),
            "getxattr": (2, lambda: (path, name, follow)),
            "removexattr": (2, lambda: (path, name, follow)),
            "listxattr": (1, lambda: (path, follow)),
            "umask": (1, lambda: (rng.choice([0, 0o022, 0o077, 0o027]),)),
        }
        names = list(choices)
        kind = rng.choices(names, [choices[each][0] for each in names])[0]
        user = rng.choices(range(len(USERS)), [2, 3, 3, 3])[0]
        return user, (kind, *choices[kind][1]())


# So that there is something to work on: directories of several kinds, and links.
START = [
    ("umask", 0), ("chmod", ".", 0o777), ("mkdir", "d", 0o777), ("mkdir", "d/e", 0o2777), ("mkdir", "s", 0o1777),
    ("chown", "d/e", 21001, 21051, True), ("chmod", "d/e", 0o2777), ("chown", "s", 21002, 21050, True),
    ("symlink", "d", "l"), ("symlink", "loop", "loop"), ("umask", 0o022)]


def difference(left, right):
    """What the two looks differ in, in words; empty when nothing."""
    words = []
    for path in sorted(set(left) | set(right)):
        one, other = left.get(path), right.get(path)
        if one is None or other is None:
            words.append(f"{path} is {'not ' if one is None else ''}there on the first side only")
        elif one != other:
            words += [f"{path}: {key} {one[key]} / {other[key]}" for key in one if one[key] != other[key]]
    return "; ".join(words)


def next_tick():
    """tmpfs stamps files by a coarse clock: two steps in one tick would look like one."""
    start = time.clock_gettime(CLOCK_REALTIME_COARSE)
    while time.clock_gettime(CLOCK_REALTIME_COARSE) == start:
        time.sleep(0.0005)


def compare(left_dir, right_dir, seed, steps, blocks=True):
    """Returns None, or the first difference with the steps before it.

    blocks=False for a store: the filesystem below has its own ways with holes and lists of extents.
    """
    draw = Draw(seed)
    sides = [Side(str(left_dir)), Side(str(right_dir))]
    done = []
    try:
        for step in START:
            for side in sides:
                side.do(0, step)
        for side in sides:
            side.look()
        for number in range(steps):
            user, step = draw.step()
            next_tick()
            answers = [side.do(user, step) for side in sides]
            done.append(f"{USERS[user][0]}: {short(step)} -> {short(answers[0])}")
            words = ""
            if answers[0] != answers[1]:
                words = f"{short(answers[0])} / {short(answers[1])}"
            looks = [side.look() for side in sides]
            if not blocks:
                for found in (*looks[0].values(), *looks[1].values()):
                    found["blocks"] = None
            words = words or difference(*looks)
            if not words and number % 50 == 49:
                contents = [side.do(0, ("contents",)) for side in sides]
                if contents[0] != contents[1]:
                    bad = [path for path in contents[0] if contents[0][path] != contents[1].get(path)]
                    words = f"contents of {bad} differ"
            if words:
                state = "\n".join(f"{path}: {short(looks[0][path])}" for path in sorted(looks[0]))
                return f"seed {seed}, step {number}: {words}\n" + "\n".join(done[-25:]) + "\n" + state
        return None
    finally:
        for side in sides:
            side.close()


def short(value):
    text = repr(value)
    return text if len(text) < 160 else text[:150] + f"… ({len(text)})"


if __name__ == "__main__":
    first_seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    found = compare(sys.argv[1], sys.argv[2], first_seed, int(sys.argv[4]) if len(sys.argv) > 4 else 2000)
    print(found or "no difference")
    sys.exit(found is not None)
