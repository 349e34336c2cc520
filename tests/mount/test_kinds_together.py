"""Capped and time-series collections beside everything else: queries, archive, holds, watchers, dry runs."""
import errno
import json
import os
import threading

import pytest
from conftest import raises_errno, run, wait_until
from ttlhelp import Watcher, date, deadline, names, now_ms, opened, parse_ms, reason, ttl_metrics

HOUR_MS = 3_600_000
BASE_MS = parse_ms("2035-06-01T00:00:00+00:00")


def series(mount, path="ts", seconds=10):
    os.makedirs(mount.p(path), exist_ok=True)
    mount.set(path, "ttl.timeseries", json.dumps(
        {"timeField": "t", "metaField": "m", "expireAfterSeconds": seconds}))


def capped(mount, path="c", **limits):
    os.makedirs(mount.p(path), exist_ok=True)
    mount.set(path, "ttl.capped", json.dumps(limits))


def put(mount, path, ms, meta="a"):
    mount.write(path, {"t": date(ms), "m": meta})


def control_lines(mount, name):
    return [json.loads(line) for line in (mount.path / ".ttlfs" / name).read_text().splitlines()]


def test_queries_find_what_is_there_and_nothing_else(mount):
    series(mount)
    capped(mount, max=2)
    mount.set("ts", "ttl.index.part", '{"key":"t","expireAfterSeconds":9,"partialFilterExpression":{"m":"b"}}')
    for number, meta in enumerate("aabb"):
        put(mount, f"ts/{number}", BASE_MS + number * 60_000, meta)
    with opened(mount.p("ts/refused"), os.O_WRONLY | os.O_CREAT) as fd:
        os.write(fd, b'{"m":"a"}')
        with raises_errno(errno.EINVAL):
            os.close(os.dup(fd))
        assert sorted(os.listdir(mount.p('ts/.find/{"m":"a"}'))) == ["0", "1"]
        os.pwrite(fd, json.dumps({"t": date(BASE_MS), "m": "c"}).encode(), 0)
    assert sorted(os.listdir(mount.p('ts/.find/{"m":"b"}'))) == ["2", "3"]
    mount.clock_advance(BASE_MS + 60_000 - now_ms(mount))
    mount.run_pass()
    since = json.dumps({"m": "b", "t": {"$gte": {"$date": "2035-06-01T00:02:30Z"}}})
    assert os.listdir(mount.p(f"ts/.find/{since}")) == ["3"]
    for number in range(5):
        mount.write(f"c/{number}", {"n": number})
    assert sorted(os.listdir(mount.p('c/.find/{"n":{"$gte":0}}'))) == ["3", "4"]


@pytest.mark.ttlfs(opts="test-clock,monitor=off")
def test_a_dry_run_shows_the_whole_bucket(mount):
    series(mount)
    start_ms = now_ms(mount)
    for number in range(5):
        put(mount, f"ts/{number}", start_ms - number)
    assert control_lines(mount, "due.jsonl") == []
    mount.clock_advance(10_001)
    due = control_lines(mount, "due.jsonl")
    assert len(due) == 5
    assert {line["reason"] for line in due} == {"timeseries"}
    index = [index for index in mount.status()["indexes"] if index["collection"] == "/ts"]
    assert [(i["name"], i["ttl"], i["expireAfterSeconds"], i["documents"]) for i in index] == [
        ("timeseries", True, 10, 5)]
    mount.run_pass()
    assert mount.status()["collections"]["/ts"]["documents"] == 0


def test_status_warns_where_a_date_stops_expiry(mount):
    series(mount)
    put(mount, "ts/old", -1)
    warnings = [warning for warning in mount.status()["warnings"] if warning["collection"] == "/ts"]
    assert len(warnings) == 1
    assert "stopped" in warnings[0]["reason"]
    os.unlink(mount.p("ts/old"))
    assert [warning for warning in mount.status()["warnings"] if warning["collection"] == "/ts"] == []


def test_evictions_and_buckets_are_events(mount):
    capped(mount, max=1)
    series(mount)
    fd = os.open(mount.p(".ttlfs/events"), os.O_RDONLY | os.O_NONBLOCK)
    try:
        text = b""
        mount.write("c/a", "x")
        mount.write("c/b", "x")
        put(mount, "ts/a", now_ms(mount) - 10_001)
        mount.run_pass()

        def heard():
            nonlocal text
            try:
                text += os.read(fd, 65536)
            except BlockingIOError:
                pass
            # Whole lines only.
            lines = text[:text.rfind(b"\n") + 1].splitlines()
            found = [(e.get("event"), e.get("collection"), e.get("name")) for e in map(json.loads, lines)]
            return ("deleted", "/c", "a") in found and ("expired", "/ts", "a") in found

        wait_until(heard, 20, "events of an eviction and of an expired bucket")
    finally:
        os.close(fd)


def test_an_archived_bucket_is_archived_whole_and_an_evicted_document_is_not(make_mount, tmp_path):
    archive = tmp_path / "archive"
    archive.mkdir()
    mount = make_mount("dir", opts=f"test-clock,archive={archive}")
    series(mount)
    capped(mount, max=1)
    for path in ("ts", "c"):
        mount.set(path, "ttl.on-expire", "archive")
    start_ms = now_ms(mount)
    for number in range(5):
        put(mount, f"ts/{number}", start_ms - number)
    mount.write("outside", "x")
    os.rename(mount.p("outside"), mount.p("c/a"))
    mount.write("c/b", "x")
    mount.clock_advance(10_001)
    mount.run_pass()
    assert mount.status()["collections"]["/ts"]["documents"] == 0
    kept = [name for _, _, files in os.walk(archive) for name in files]
    assert sum(not name.startswith(".") for name in kept) == 5
    assert ttl_metrics(mount)["archivedDocuments"] == 5


def test_what_takes_the_place_of_an_unarchived_document_does_not_bring_its_bucket_back(make_mount):
    mount = make_mount(opts="test-clock,monitor=off")
    series(mount)
    mount.set("ts", "ttl.on-expire", "archive")
    start_ms = now_ms(mount)
    for name in "abc":
        put(mount, f"ts/{name}", start_ms)
    mount.clock_advance(11_000)
    assert names(mount, "ts") == []
    # The old document waits for an archive, and nothing gets into its bucket any more.
    put(mount, "ts/a", start_ms + 11_000)
    assert names(mount, "ts") == ["a"]
    assert mount.status()["collections"]["/ts"]["timeseries"]["buckets"] == 2


def test_hold_on_a_tree_keeps_buckets_and_fills_capped_collections(mount):
    series(mount, "d/ts")
    capped(mount, "d/c", max=1)
    put(mount, "d/ts/a", now_ms(mount) - 5_000)
    mount.write("d/c/a", "x")
    mount.set("d", "ttl.hold", "yes")
    mount.clock_advance(20_000)
    mount.run_pass()
    assert (names(mount, "d/ts"), reason(mount, "d/ts/a")) == (["a"], "hold")
    with raises_errno(errno.ENOSPC):
        mount.write("d/c/b", "x")
    with raises_errno(errno.ENOSPC):
        os.symlink("x", mount.p("d/c/b"))
    mount.rm("d", "ttl.hold")
    assert names(mount, "d/ts") == []
    mount.write("d/c/b", "x")
    assert names(mount, "d/c") == ["b"]


@pytest.mark.ttlfs(opts="test-clock,monitor=off")
def test_visibility_until_deleted_shows_a_bucket_until_the_pass(mount):
    series(mount)
    mount.set("ts", "ttl.visibility", "until-deleted")
    for number in range(3):
        put(mount, f"ts/{number}", now_ms(mount) - 20_000)
    assert len(names(mount, "ts")) == 3
    mount.run_pass()
    assert names(mount, "ts") == []


@pytest.mark.ttlfs(opts="test-clock,notify=always")
def test_watchers_of_a_bucket_hear_of_every_name(mount, tmp_path):
    series(mount)
    expected = [str(number) for number in range(8)]
    for name in expected:
        put(mount, f"ts/{name}", now_ms(mount))
    with Watcher(tmp_path, mount.p("ts")) as watcher:
        mount.clock_advance(10_001)
        mount.run_pass()
        watcher.expect("DELETE", expected)


def test_directories_of_either_kind_can_be_moved_and_removed(any_mount):
    series(any_mount, "a/ts")
    capped(any_mount, "a/c", max=2)
    put(any_mount, "a/ts/1", BASE_MS)
    any_mount.write("a/c/1", "x")
    os.rename(any_mount.p("a"), any_mount.p("b"))
    assert deadline(any_mount, "b/ts/1") == BASE_MS + 10_000
    with raises_errno(errno.EINVAL):
        any_mount.write("b/ts/2", "x")
    any_mount.write("b/c/2", "x")
    any_mount.write("b/c/3", "x")
    assert names(any_mount, "b/c") == ["2", "3"]
    run("rm", "-r", any_mount.p("b"))
    assert any_mount.status()["documents"] == 0


def test_a_directory_with_a_refused_document_can_be_removed(mount):
    series(mount)
    with opened(mount.p("ts/f"), os.O_WRONLY | os.O_CREAT) as fd:
        os.write(fd, b"no time")
        with raises_errno(errno.EINVAL):
            os.close(os.dup(fd))
        os.rmdir(mount.p("ts"))
    assert not mount.exists("ts")


def test_saving_by_rename_in_a_series_keeps_rules(mount):
    series(mount, seconds=3600)
    put(mount, "ts/a", BASE_MS)
    mount.set("ts/a", "ttl.max", "30d")
    put(mount, "ts/a.new", BASE_MS + 1000)
    os.rename(mount.p("ts/a.new"), mount.p("ts/a"))
    assert mount.get("ts/a", "ttl.max") == "30d"
    assert mount.status()["collections"]["/ts"]["timeseries"]["buckets"] == 1


@pytest.mark.tsan
def test_writers_of_buckets_and_the_monitor_at_the_same_time(mount):
    series(mount, seconds=1)
    capped(mount, max=5)
    errors = []

    def write(number):
        try:
            for turn in range(25):
                path = f"ts/{number}-{turn}"
                put(mount, path, now_ms(mount) - turn * 70, number % 3)
                if turn % 5 == 0:
                    with raises_errno(errno.EINVAL):
                        mount.write(f"ts/bad{number}", "no time")
                if turn % 7 == 3:
                    try:
                        os.rename(mount.p(path), mount.p(f"c/{number}-{turn}"))
                    except FileNotFoundError:
                        assert not mount.exists(path)  # it was due
        except BaseException as error:  # raised again below
            errors.append(error)

    def expire():
        try:
            for _ in range(20):
                mount.clock_advance(300)
                mount.run_pass()
        except BaseException as error:  # raised again below
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    threads.append(threading.Thread(target=expire))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    mount.clock_advance(HOUR_MS)
    mount.run_pass()
    status = mount.status()["collections"]
    assert (status["/ts"]["documents"], status["/ts"]["timeseries"]["buckets"]) == (0, 0)
    assert status["/c"]["capped"]["documents"] == len(names(mount, "c")) <= 5


def test_a_refused_document_that_gives_way_is_not_archived_and_no_expiry(make_mount, tmp_path):
    archive = tmp_path / "archive"
    archive.mkdir()
    mount = make_mount(opts=f"test-clock,archive={archive}")
    series(mount)
    mount.set("ts", "ttl.on-expire", "archive")
    with opened(mount.p("ts/f"), os.O_WRONLY | os.O_CREAT) as fd:
        os.write(fd, b"no time")
        with raises_errno(errno.EINVAL):
            os.close(os.dup(fd))
        put(mount, "ts/f", BASE_MS)
    assert deadline(mount, "ts/f") == BASE_MS + 10_000
    assert ttl_metrics(mount)["deletedDocuments"] == 0
    assert [files for _, _, files in os.walk(archive) if files] == []
    metrics = (mount.path / ".ttlfs" / "metrics").read_text()
    assert "ttlfs_capped_evicted_documents_total 0" in metrics


@pytest.mark.ttlfs(opts="test-clock,monitor=off")
def test_a_series_can_be_ended_when_all_that_is_left_has_expired(mount):
    series(mount)
    put(mount, "ts/f", now_ms(mount) - 20_000)
    assert names(mount, "ts") == []
    mount.rm("ts", "ttl.timeseries")
    mount.write("ts/f", "anything")
