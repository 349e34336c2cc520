"""profile.jsonl, currentOp.json, distribution.json, due.jsonl."""
import errno
import json
import os
import threading

import pytest
from conftest import raises_errno, wait_until
from observehelp import lines, whole

MONITOR_OFF = pytest.mark.ttlfs(opts="test-clock,monitor=off")

SPANS = ["1s", "10s", "1m", "10m", "1h", "6h", "1d", "7d", "30d", "90d", "later", "never"]
SECOND, MINUTE, HOUR, DAY = 1, 60, 3600, 86400


def test_everything_can_be_read_and_nothing_written(mount):
    for name in ("status.json", "metrics", "currentOp.json", "profile.jsonl", "events", "distribution.json",
                 "due.jsonl"):
        assert os.stat(mount.p(f".ttlfs/{name}")).st_mode & 0o777 == 0o444
        with raises_errno(errno.EACCES):
            os.open(mount.p(f".ttlfs/{name}"), os.O_WRONLY)
        assert name in os.listdir(mount.p(".ttlfs"))


@MONITOR_OFF
def test_visits_are_in_the_profile(mount):
    mount.param("ttlIndexDeleteTargetDocs", "2")
    os.mkdir(mount.p("s"))
    mount.set("s", "ttl.idle", "10s")
    for number in range(5):
        mount.write(f"s/n{number}", "x")
    mount.clock_advance(60_000)
    mount.run_pass()
    visits = [line for line in lines(mount, "profile.jsonl") if line["type"] == "visit"]
    assert [v["documents"] for v in visits] == [2, 2, 1]
    assert [v["limit"] for v in visits] == ["documents", "documents", "none"]
    assert [v["subPass"] for v in visits] == [1, 2, 3]
    assert {(v["stage"], v["collection"], v["index"], v["pass"]) for v in visits} == {
        ("BATCHED_DELETE", "/s", "idle", visits[0]["pass"])}
    assert all(v["lagMS"] >= 50_000 and v["durationMS"] >= 0 and v["errors"] == 0 for v in visits)


def test_configuration_changes_are_in_the_profile(mount):
    mount.param("ttlMonitorSleepSecs", "30")
    os.mkdir(mount.p("s"))
    mount.set("s", "ttl.idle", "10s")
    mount.set("s", "ttl.idle", "20s")
    with raises_errno(errno.EINVAL):
        mount.set("s", "ttl.idle", "nonsense")
    mount.rm("s", "ttl.idle")
    mount.write("file", "x")
    mount.set("file", "ttl.expireAt", "+1h")  # a document's own rule is no configuration
    changes = [line for line in lines(mount, "profile.jsonl") if line["type"] == "config"]
    assert [(c["what"], c["old"], c["new"]) for c in changes] == [
        ("ttlMonitorSleepSecs", "60", "30"),
        ("user.ttl.idle", None, "10s"),
        ("user.ttl.idle", "10s", "20s"),
        ("user.ttl.idle", "20s", None),
    ]
    assert {c["uid"] for c in changes} == {os.getuid()} and changes[1]["collection"] == "/s"
    assert {c["pid"] for c in changes} == {os.getpid()}


def test_the_profile_keeps_the_last_1000(mount):
    for number in range(1, 1101):
        mount.param("ttlMonitorSleepSecs", str(number))
    changes = lines(mount, "profile.jsonl")
    assert len(changes) == 1000
    assert [c["new"] for c in changes] == [str(number) for number in range(101, 1101)]


def test_slow_operations_are_in_the_profile(mount):
    for number in range(2000):
        mount.write(f"n{number}", {"at": number})
    mount.param("slowOpThresholdMS", "1")

    def slow():
        mount.set(".", "ttl.index.at", "{}")
        mount.rm(".", "ttl.index.at")
        mount.read("n1")
        return [line for line in lines(mount, "profile.jsonl")
                if line["type"] == "slow" and line["op"] == "setxattr"]

    line = wait_until(slow, 20, "an index build of 2000 documents takes more than a tick")[0]
    assert line["ino"] == os.stat(mount.path).st_ino and line["durationMS"] >= 1
    assert line["uid"] == os.getuid()
    mount.param("slowOpThresholdMS", "0")
    before = len([line for line in lines(mount, "profile.jsonl") if line["type"] == "slow"])
    mount.set(".", "ttl.index.at", "{}")
    assert len([line for line in lines(mount, "profile.jsonl") if line["type"] == "slow"]) == before


def test_nothing_in_progress(mount):
    assert whole(mount, "currentOp.json") == {"inprog": []}


def test_an_index_build_shows_its_progress(mount):
    os.mkdir(mount.p("s"))
    for number in range(3000):
        mount.write(f"s/n{number}", {"at": {"$date": "2030-01-01T00:00:00Z"}})
    stop = threading.Event()

    def build():
        while not stop.is_set():
            mount.set("s", "ttl.index.at", "60")
            mount.rm("s", "ttl.index.at")

    thread = threading.Thread(target=build)
    thread.start()
    try:
        op = wait_until(lambda: next((op for op in whole(mount, "currentOp.json")["inprog"]
                                      if op["op"] == "indexBuild" and op["done"]), None), 30, "a build is seen")
    finally:
        stop.set()
        thread.join()
    assert op["collection"] == "/s" and op["index"] == "at"
    assert 0 < op["done"] <= op["total"] == 3000 and op["runningMS"] >= 0 and "$date" in op["since"]
    assert whole(mount, "currentOp.json") == {"inprog": []}


@MONITOR_OFF
def test_a_pass_is_in_progress(mount):
    mount.param("ttlIndexDeleteTargetDocs", "0")
    os.mkdir(mount.p("s"))

    def fill_and_look():
        mount.set("s", "ttl.idle", "10s")
        for number in range(3000):
            os.close(os.open(mount.p(f"s/n{number}"), os.O_CREAT | os.O_WRONLY))
        mount.clock_advance(60_000)
        thread = threading.Thread(target=mount.run_pass)
        thread.start()
        found = None
        while thread.is_alive() and not found:
            found = next((op for op in whole(mount, "currentOp.json")["inprog"] if op["index"]), None)
        thread.join()
        return found

    op = wait_until(fill_and_look, 40, "a pass is seen")
    assert op["op"] == "ttlPass" and op["collection"] == "/s" and op["index"] == "idle"
    assert op["pass"] >= 1 and op["subPass"] >= 1
    assert 0 <= op["documents"] <= op["deletedDocuments"] <= 3000


def span_of(seconds):
    limits = [SECOND, 10, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY, 90 * DAY]
    return next((SPANS[i] for i, limit in enumerate(limits) if seconds <= limit), "later")


@MONITOR_OFF
def test_distribution(mount):
    os.mkdir(mount.p("s"))
    expected = dict.fromkeys(SPANS, 0)
    for number, seconds in enumerate([9, 59, 500, 3500, 5 * HOUR, 23 * HOUR, 6 * DAY, 29 * DAY, 80 * DAY, 100 * DAY]):
        mount.write(f"s/n{number}", "x")
        mount.set(f"s/n{number}", "ttl.expireAt", f"+{seconds}s")
        expected[span_of(seconds)] += 1
    mount.write("s/never", "x")
    mount.write("due", "x")
    mount.set("due", "ttl.expireAt", "+1s")
    mount.clock_advance(2_000)
    expected["never"] = 1
    found = whole(mount, "distribution.json")
    assert list(found["within"]) == SPANS
    assert found["collections"]["/s"]["within"] == expected
    assert found["collections"]["/s"]["due"] == 0 and found["collections"]["/s"]["documents"] == 11
    assert found["collections"]["/"]["within"] == {**dict.fromkeys(SPANS, 0), "1s": 1}
    assert found["due"] == 1 and found["documents"] == 12
    assert found["within"] == {**expected, "1s": 1}
    assert sum(found["within"].values()) == found["documents"]
    assert found["collectionsCut"] is False


def test_distribution_of_collections_that_look_alike(mount):
    for raw in (b"bad\xff", b"bad\xfe"):
        os.mkdir(mount.p(raw))
        os.close(os.open(mount.p(raw + b"/f"), os.O_CREAT | os.O_WRONLY))
    found = whole(mount, "distribution.json")["collections"]
    assert [one["documents"] for path, one in found.items() if path.startswith("/bad\ufffd")] == [1, 1]


@MONITOR_OFF
def test_due(mount):
    os.mkdir(mount.p("s"))
    mount.set("s", "ttl.idle", "20s")
    mount.set("s", "ttl.max", "25s")  # by both, and yet once
    mount.write("s/idle", "x")
    mount.write("s/held", "x")
    mount.set("s/held", "ttl.hold", "yes")
    for name, seconds in (("third", 30), ("first", 10), ("not", 3000)):
        mount.write(name, "x")
        mount.set(name, "ttl.expireAt", f"+{seconds}s")
    os.close(os.open(mount.p(b"s/\xff"), os.O_CREAT | os.O_WRONLY))
    assert lines(mount, "due.jsonl") == []
    mount.clock_advance(100_000)
    found = lines(mount, "due.jsonl")
    short = [(line["collection"], line["name"], line["reason"]) for line in found]
    assert (short[0], short[3]) == (("/", "first", "expireAt"), ("/", "third", "expireAt"))
    assert sorted(short[1:3]) == [("/s", "idle", "idle"), ("/s", "\ufffd", "idle")]
    assert [line["nameHex"] for line in found if "nameHex" in line] == ["ff"]
    deadlines = [line["deadline"]["$date"] for line in found]
    assert deadlines == sorted(deadlines)
    result = mount.run_pass()
    assert result["deletedDocuments"] == len(found)
    assert lines(mount, "due.jsonl") == []
    assert mount.exists("not") and mount.exists("s/held")


@pytest.mark.parametrize("any_kind", ["memory:", "dir"])
def test_parameters_are_kept(make_mount, any_kind):
    m = make_mount(any_kind)
    m.param("slowOpThresholdMS", "250")
    with raises_errno(errno.EINVAL):
        m.param("slowOpThresholdMS", "-1")
    assert m.param("slowOpThresholdMS") == "250"
    if any_kind == "dir":
        m.remount()
        assert m.param("slowOpThresholdMS") == "250"


def test_a_path_that_is_long(mount):
    """Deeper than can be shown: the end of the path is what tells most."""
    fd = os.open(mount.path, os.O_RDONLY)
    for _ in range(40):
        os.mkdir("d" * 200, dir_fd=fd)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("end", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    collections = mount.status()["collections"]
    assert len(collections) == 41
    assert json.dumps(collections)
