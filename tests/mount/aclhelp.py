"""Access control lists in the tests: text to the bytes of setxattr and back, and users who do things.

    set_acl(path, "u::rw,u:5001:rw,g::r,m::rw,o::-")        the access list; default=True for the other one
    get_acl(path) -> the same form of text, None without a list
    with Users(5001, 5002) as users: users[5001](function, …)    each a child process that stays
"""
import errno
import os
import pickle
import signal
import struct
import traceback

import pytest

ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
TAGS = {("u", False): 1, ("u", True): 2, ("g", False): 4, ("g", True): 8, ("m", False): 16, ("o", False): 32}
NOBODY = 0xFFFFFFFF


def encode(text):
    found = struct.pack("<I", 2)
    for entry in text.split(",") if text else []:
        kind, who, rights = entry.split(":")
        perm = sum(value for letter, value in (("r", 4), ("w", 2), ("x", 1)) if letter in rights)
        found += struct.pack("<HHI", TAGS[kind, bool(who)], perm, int(who) if who else NOBODY)
    return found


def decode(value):
    assert struct.unpack_from("<I", value)[0] == 2 and len(value) % 8 == 4
    words = {tag: key for key, tag in TAGS.items()}
    entries = []
    for tag, perm, who in struct.iter_unpack("<HHI", value[4:]):
        rights = "".join(letter for letter, bit in (("r", 4), ("w", 2), ("x", 1)) if perm & bit)
        kind, named = words[tag]
        entries.append(f"{kind}:{who if named else ''}:{rights}")
    return ",".join(entries)


def set_acl(path, text, default=False):
    os.setxattr(path, DEFAULT if default else ACCESS, encode(text))


def remove_acl(path, default=False):
    os.removexattr(path, DEFAULT if default else ACCESS)


def get_acl(path, default=False):
    try:
        return decode(os.getxattr(path, DEFAULT if default else ACCESS))
    except OSError as error:
        if error.errno == errno.ENODATA:
            return None
        raise


def skip_without(directory):
    """A tmpfs that was mounted with noacl proves nothing."""
    try:
        remove_acl(directory)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        pytest.skip(f"no access control lists in {directory}")


class User:
    """A child process of one user, told through pipes what to do."""

    def __init__(self, uid, groups):
        request, self.requests = os.pipe()
        self.answers, answer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0)
                os.setgroups(list(groups))
                os.setgid(uid)
                os.setuid(uid)
                os.close(self.requests)
                self._serve(request, answer)
            finally:
                os._exit(0)
        os.close(request)
        os.close(answer)
        self.incoming = os.fdopen(self.answers, "rb")

    @staticmethod
    def _serve(request, answer):
        with os.fdopen(request, "rb") as incoming:
            while True:
                try:
                    function, args = pickle.load(incoming)
                except EOFError:
                    return
                try:
                    outcome = (True, function(*args))
                except BaseException as error:  # it is raised again in the parent
                    if not isinstance(error, OSError):
                        traceback.print_exc()
                    outcome = (False, error)
                os.write(answer, pickle.dumps(outcome))

    def __call__(self, function, *args):
        os.write(self.requests, pickle.dumps((function, args)))
        good, value = pickle.load(self.incoming)
        if not good:
            raise value
        return value

    def end(self):
        """By a signal: an end of file would only come with the end of the users made later, who have the pipe too."""
        os.kill(self.pid, signal.SIGKILL)
        os.close(self.requests)
        self.incoming.close()
        os.waitpid(self.pid, 0)


class Users(dict):
    """Users by number; each is also in the groups given for it, besides one that has its own number."""

    def __init__(self, *uids, groups=None):
        super().__init__()
        self.wanted = {uid: (groups or {}).get(uid, ()) for uid in uids}

    def __enter__(self):
        for uid, groups in self.wanted.items():
            self[uid] = User(uid, groups)
        return self

    def __exit__(self, *_):
        for user in self.values():
            user.end()
