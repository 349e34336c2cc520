"""What the tests of TTL semantics share: dates, deadlines, BSON by hand, inotify, threads."""
import contextlib
import ctypes
import datetime
import json
import os
import struct
import subprocess
import threading
import time

from conftest import wait_until

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
FAR_MS = 4102444800000  # 2100-01-01T00:00:00Z, for deadlines that no test reaches
INT64_MAX = 2**63 - 1
CLOCK_SLACK_MS = 50  # between our clock and the daemon's, which may be a coarse one

# Dates


def parse_ms(text):
    """RFC 3339 with milliseconds to milliseconds since 1970."""
    when = datetime.datetime.fromisoformat(text)
    assert when.tzinfo, f"{text} has no offset"
    return (when - EPOCH) // datetime.timedelta(milliseconds=1)


def rfc3339(ms):
    when = EPOCH + datetime.timedelta(milliseconds=ms)
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"


def date(ms):
    """A BSON date in canonical Extended JSON, which has room for any int64."""
    return {"$date": {"$numberLong": str(ms)}}


def long(number):
    return {"$numberLong": str(number)}


def now_ms(mount):
    """The filesystem's clock."""
    offset = int(mount.param("clockOffsetMS")) if "test-clock" in (mount.opts or "") else 0
    return time.time_ns() // 1_000_000 + offset


# Figures of a document


def deadline(mount, path):
    """Milliseconds, or None for never."""
    text = mount.get(path, "ttl.deadline")
    return None if text == "never" else parse_ms(text)


def reason(mount, path):
    return mount.get(path, "ttl.reason")


def created(mount, path):
    return parse_ms(mount.get(path, "ttl.created"))


def accessed(mount, path):
    return parse_ms(mount.get(path, "ttl.accessed"))


def index(mount, path, name):
    """An index's specification as a dict."""
    return json.loads(mount.get(path, f"ttl.index.{name}"))


def ttl_metrics(mount):
    return mount.status()["metrics"]["ttl"]


def names(mount, path="."):
    return sorted(os.listdir(mount.p(path)))


def wait_for_documents(mount, count, seconds=60):
    """What was deleted counts until the kernel has let go of it, too."""
    wait_until(lambda: mount.status()["documents"] == count, seconds, f"{count} documents")


def is_near(value, expected, slack=CLOCK_SLACK_MS):
    return value is not None and abs(value - expected) <= slack


# BSON


def bson(fields):
    """A BSON document from ints (int64), strings, dicts, lists and ("date", ms) pairs."""
    body = b""
    for name, value in fields.items():
        key = name.encode() + b"\0"
        if isinstance(value, tuple):
            body += b"\x09" + key + struct.pack("<q", value[1])
        elif isinstance(value, int):
            body += b"\x12" + key + struct.pack("<q", value)
        elif isinstance(value, str):
            raw = value.encode() + b"\0"
            body += b"\x02" + key + struct.pack("<i", len(raw)) + raw
        elif isinstance(value, list):
            body += b"\x04" + key + bson({str(at): item for at, item in enumerate(value)})
        else:
            body += b"\x03" + key + bson(value)
    return struct.pack("<i", len(body) + 5) + body + b"\0"


# System calls that Python lacks

RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
AT_FDCWD, AT_SYMLINK_FOLLOW = -100, 0x400
_LIBC = ctypes.CDLL(None, use_errno=True)


def renameat2(source, target, flags):
    if _LIBC.renameat2(AT_FDCWD, os.fsencode(source), AT_FDCWD, os.fsencode(target), flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(source))


def link_descriptor(fd, target):
    """linkat() of an open file, by its name in /proc: what gives an O_TMPFILE a name."""
    source = f"/proc/self/fd/{fd}".encode()
    if _LIBC.linkat(AT_FDCWD, source, AT_FDCWD, os.fsencode(target), AT_SYMLINK_FOLLOW) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(target))


# Descriptors


@contextlib.contextmanager
def opened(path, flags, mode=0o644):
    fd = os.open(path, flags, mode)
    try:
        yield fd
    finally:
        os.close(fd)


# inotify


class Watcher:
    """inotifywait -m on some paths, from before __enter__ returns. events() gives (kind, name) pairs."""

    def __init__(self, tmp_path, *paths, kinds=("delete", "delete_self")):
        self.output = tmp_path / f"events{id(self)}"
        options = [word for kind in kinds for word in ("-e", kind)]
        self.command = ["inotifywait", "-m", *options, "--format", "%e|%w|%f", *map(str, paths)]
        self.process = None

    def __enter__(self):
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(self.command, stdout=output, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if "established" in line:
                return self
        self.process.wait()
        raise AssertionError(f"inotifywait ended with {self.process.returncode}")

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()

    def events(self):
        found = []
        whole_lines = self.output.read_text().split("\n")[:-1]
        for line in whole_lines:
            kind, watched, name = line.split("|")
            found.append((kind, name or os.path.basename(watched)))
        return found

    def names(self, kind):
        return sorted(name for k, name in self.events() if k == kind)

    def expect(self, kind, expected, seconds=10):
        wait_until(lambda: self.names(kind) == sorted(expected), seconds,
                   f"{kind} of {len(expected)} documents; got {len(self.names(kind))}")


# Threads


def in_threads(*functions, seconds=1.0):
    """Run each function(number) again and again in a thread of its own; the first exception fails the test."""
    end = time.monotonic() + seconds
    errors = []
    rounds = [0] * len(functions)

    def loop(number, function):
        try:
            while time.monotonic() < end and not errors:
                function(number)
                rounds[number] += 1
        except BaseException as error:  # raised again below
            errors.append(error)

    threads = [threading.Thread(target=loop, args=pair) for pair in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return rounds
