"""Spreading (user.ttl.jitter, jitterSeconds) and conditions of expireAt."""
import errno
import os
import threading

import pytest
from conftest import raises_errno
from ttlhelp import created, date, deadline, now_ms

MONITOR_OFF = pytest.mark.ttlfs(opts="test-clock,monitor=off")

COUNT = 400


def fill(mount, data=b""):
    """Documents written in a burst; their names."""
    for number in range(COUNT):
        mount.write(f"n{number}", data)
    return [f"n{number}" for number in range(COUNT)]


def check_even(delays, span):
    """Each tenth of the span has its share, give or take."""
    # Closing the file, which may be heard of a moment later, is an access too.
    assert all(0 <= delay < span + 30_000 for delay in delays), (min(delays), max(delays))
    tenths = [0] * 10
    for delay in delays:
        tenths[min(delay * 10 // span, 9)] += 1
    assert min(tenths) > COUNT // 10 // 2 and max(tenths) < COUNT // 10 * 2, tenths


def test_idle_deadlines_are_spread(mount):
    mount.set(".", "ttl.idle", "1h")
    mount.set(".", "ttl.jitter", "10m")
    names = fill(mount)
    check_even([deadline(mount, n) - created(mount, n) - 3600_000 for n in names], 600_000)


def test_an_index_is_spread(mount):
    at_ms = now_ms(mount)
    mount.set(".", "ttl.index.at", '{"expireAfterSeconds":3600,"jitterSeconds":1000}')
    names = fill(mount, {"at": date(at_ms)})
    check_even([deadline(mount, n) - at_ms - 3600_000 for n in names], 1000_000)


@pytest.mark.parametrize("rule", ["idle", "index"])
def test_the_share_is_the_same_after_a_remount(make_mount, rule):
    m = make_mount("dir")
    if rule == "idle":
        m.set(".", "ttl.idle", "1h")
        m.set(".", "ttl.jitter", "10m")
    else:
        m.set(".", "ttl.index._created", '{"expireAfterSeconds":3600,"jitterSeconds":600}')
    for number in range(50):
        m.write(f"n{number}")
    m.remount()  # whatever came behind the closing has come
    before = {name: deadline(m, name) for name in os.listdir(m.path)}
    assert len(set(before.values())) > 40
    m.remount()
    assert {name: deadline(m, name) for name in os.listdir(m.path)} == before


def test_never_past_created_and_max(mount):
    mount.set(".", "ttl.idle", "50m")
    mount.set(".", "ttl.max", "1h")
    mount.set(".", "ttl.jitter", "2h")
    ages = [deadline(mount, n) - created(mount, n) for n in fill(mount)]
    assert max(ages) == 3600_000 and min(ages) >= 3000_000
    assert len(set(ages)) > 10, "what is due before max is still spread"


@MONITOR_OFF
def test_a_burst_does_not_go_at_once(mount):
    mount.set(".", "ttl.idle", "100s")
    mount.set(".", "ttl.jitter", "1000s")
    fill(mount)
    mount.clock_advance(600_000)
    assert COUNT / 4 < mount.run_pass()["deletedDocuments"] < 3 * COUNT / 4
    mount.clock_advance(600_000)
    mount.run_pass()
    assert os.listdir(mount.path) == []


FAR, FARTHER = "2090-01-01T00:00:00.000Z", "2091-01-01T00:00:00.000Z"


@pytest.mark.parametrize("old,value,new", [
    (None, "nx:" + FAR, FAR), (FAR, "nx:" + FARTHER, None),
    (None, "xx:" + FAR, None), (FAR, "xx:" + FARTHER, FARTHER),
    (None, "gt:" + FAR, None), (FAR, "gt:" + FAR, None), (FAR, "gt:" + FARTHER, FARTHER), (FARTHER, "gt:" + FAR, None),
    (None, "lt:" + FAR, FAR), (FAR, "lt:" + FAR, None), (FARTHER, "lt:" + FAR, FAR), (FAR, "lt:" + FARTHER, None),
    (FAR, "gt:never", "never"), (FAR, "lt:never", None), (None, "lt:never", None), (None, "nx:never", "never"),
])
def test_conditions(mount, old, value, new):
    """As Redis's EXPIRE: none counts as never."""
    mount.write("f", "x")
    if old:
        mount.set("f", "ttl.expireAt", old)
    if new is None:
        with raises_errno(errno.ECANCELED):
            mount.set("f", "ttl.expireAt", value)
        new = old or "never"
    else:
        mount.set("f", "ttl.expireAt", value)
    assert mount.get("f", "ttl.deadline") == new


@pytest.mark.tsan
def test_conditions_are_atomic(mount):
    """Of many who set it only if it is later, the latest wins; nobody is told to try again."""
    mount.write("f", "x")
    mount.set("f", "ttl.expireAt", FAR)
    base = 3786912000  # 2090-01-01, in seconds
    won = []

    def work(thread):
        for number in range(50):
            at = base + 1 + number * 4 + thread
            try:
                mount.set("f", "ttl.expireAt", f"gt:{at}")
                won.append(at)
            except OSError as error:
                if error.errno != errno.ECANCELED:
                    won.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(isinstance(at, int) for at in won), won
    assert deadline(mount, "f") == max(won) * 1000 == (base + 1 + 49 * 4 + 3) * 1000
