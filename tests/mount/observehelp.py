"""What the tests of `.ttlfs` share: a reader of the event stream, and the files as data."""
import errno
import json
import os
import select

import pytest
from conftest import TIME_FACTOR


class Events:
    """`.ttlfs/events`, from now on: lines as dicts. poll() and a nonblocking read, as a program would."""

    def __init__(self, mount, flags=os.O_NONBLOCK):
        self.fd = os.open(mount.p(".ttlfs/events"), os.O_RDONLY | flags)
        self.rest = b""
        self.seen = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)

    def pull(self, seconds=10, size=65536):
        """Wait until something can be read, and read once; the new events. None if nothing came."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        if not poll.poll(seconds * 1000 * TIME_FACTOR):
            return None
        try:
            data = os.read(self.fd, size)
        except OSError as error:
            assert error.errno == errno.EAGAIN
            return []
        *lines, self.rest = (self.rest + data).split(b"\n")
        new = [json.loads(line) for line in lines]
        self.seen += new
        return new

    def until(self, condition, what, seconds=20):
        """Read until condition(all events seen) holds."""
        while not condition(self.seen):
            if self.pull(seconds) is None:
                pytest.fail(f"no event for {seconds} s: {what}\nlast: {self.seen[-5:]}")
        return self.seen

    def drain(self):
        """What there is to read now."""
        new = []
        while True:
            got = self.pull(0)
            if not got:
                return new
            new += got


def short(event):
    """created /c/name"""
    return f"{event['event']} {event['collection'].rstrip('/')}/{event['name']}"


def lines(mount, name):
    return [json.loads(line) for line in mount.read(f".ttlfs/{name}").splitlines()]


def whole(mount, name):
    return json.loads(mount.read(f".ttlfs/{name}"))


def index_of(mount, collection, name):
    """An index's figures in status.json."""
    found = [i for i in mount.status()["indexes"] if i["collection"] == collection and i["name"] == name]
    assert len(found) == 1, found
    return found[0]
