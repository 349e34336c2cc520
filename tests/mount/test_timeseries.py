"""Time-series collections: what may be written there, what a bucket is, and when it goes."""
import errno
import json
import os
import subprocess

import pytest
from conftest import raises_errno, run, wait_until
from ttlhelp import (FAR_MS, RENAME_EXCHANGE, bson, date, deadline, link_descriptor, long, names, now_ms, opened,
                     parse_ms, reason, renameat2, ttl_metrics)

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
BASE_MS = parse_ms("2035-06-01T00:00:00+00:00")
SPEC = {"timeField": "t", "metaField": "m", "expireAfterSeconds": 3600}


def make(mount, path="ts", **changes):
    os.makedirs(mount.p(path), exist_ok=True)
    mount.set(path, "ttl.timeseries", json.dumps({**SPEC, **changes}))
    return path


def put(mount, path, ms, meta="a", **more):
    mount.write(path, {"t": date(ms), **({} if meta is None else {"m": meta}), **more})


def deadlines(mount, *paths):
    return [deadline(mount, path) for path in paths]


# The value


@pytest.mark.parametrize("value", [
    "", "{}", "5", "[]", '{"metaField":"m"}', '{"timeField":5}', '{"timeField":""}', '{"timeField":"a.b"}',
    '{"timeField":"$t"}', '{"timeField":"_ts"}', '{"timeField":"t","metaField":"t"}', '{"timeField":"t","metaField":1}',
    '{"timeField":"t","granularity":"days"}', '{"timeField":"t","granularity":1}',
    '{"timeField":"t","expireAfterSeconds":-1}', '{"timeField":"t","expireAfterSeconds":1.5}',
    '{"timeField":"t","expireAfterSeconds":"5"}', '{"timeField":"t","expireAfterSeconds":2147483648}',
    '{"timeField":"t","other":1}', '{"timeField":"t","timeField":"t"}', '{"timeField":"t"} x',
    '{"timeField":"t","expireAfterSeconds":NaN}'])
def test_a_value_that_makes_no_sense_is_refused_with_a_reason(mount, value):
    os.mkdir(mount.p("ts"))
    with raises_errno(errno.EINVAL):
        mount.set("ts", "ttl.timeseries", value)
    assert mount.get("ts", "ttl.error")
    with raises_errno(errno.ENODATA):
        mount.get("ts", "ttl.timeseries")
    mount.write("ts/f", "anything")


def test_it_can_be_set_on_an_empty_directory_only(mount):
    os.makedirs(mount.p("ts/sub"))
    mount.write("ts/f", "x")
    with raises_errno(errno.EINVAL):
        make(mount)
    assert "empty" in mount.get("ts", "ttl.error")
    os.rmdir(mount.p("ts/sub"))
    with raises_errno(errno.EINVAL):
        make(mount)
    os.unlink(mount.p("ts/f"))
    make(mount)
    with raises_errno(errno.EINVAL):
        mount.set("ts", "ttl.capped", '{"max":5}')
    mount.write("file", "x")
    with raises_errno(errno.EINVAL):
        mount.set("file", "ttl.timeseries", json.dumps(SPEC))


@pytest.mark.ttlfs(opts="test-clock,monitor=off")
def test_expired_documents_leave_a_directory_empty(mount):
    os.mkdir(mount.p("ts"))
    mount.write("ts/f", "x")
    mount.set("ts/f", "ttl.expireAt", "+1s")
    mount.clock_advance(1001)
    make(mount)
    assert names(mount, "ts") == []


def test_it_is_not_inherited(mount):
    make(mount)
    os.mkdir(mount.p("ts/sub"))
    with raises_errno(errno.ENODATA):
        mount.get("ts/sub", "ttl.timeseries")
    mount.write("ts/sub/f", "anything")
    assert reason(mount, "ts/sub/f") == "none"


def test_what_may_change_afterwards(mount):
    make(mount, granularity="minutes")
    put(mount, "ts/a", BASE_MS)
    assert deadline(mount, "ts/a") == BASE_MS + HOUR_MS
    make(mount, granularity="minutes", expireAfterSeconds=60)
    assert deadline(mount, "ts/a") == BASE_MS + 60_000
    make(mount, granularity="hours", expireAfterSeconds=10)
    assert deadline(mount, "ts/a") == BASE_MS + 10_000
    for change in ({"granularity": "minutes"}, {"timeField": "u"}, {"metaField": "n"}):
        with raises_errno(errno.EINVAL):
            make(mount, **{"granularity": "hours", **change})
        assert deadline(mount, "ts/a") == BASE_MS + 10_000
    mount.set("ts", "ttl.timeseries", '{"timeField":"t","metaField":"m","granularity":"hours"}')
    assert (deadline(mount, "ts/a"), reason(mount, "ts/a")) == (None, "none")
    mount.set("ts", "ttl.timeseries", mount.get("ts", "ttl.timeseries"))
    make(mount, granularity="hours")
    assert deadline(mount, "ts/a") == BASE_MS + HOUR_MS
    for end in (lambda: mount.rm("ts", "ttl.timeseries"), lambda: mount.set("ts", "ttl.timeseries", "off")):
        with raises_errno(errno.EINVAL):
            end()
        assert "empty" in mount.get("ts", "ttl.error")
    os.unlink(mount.p("ts/a"))
    mount.rm("ts", "ttl.timeseries")
    mount.write("ts/b", "anything")


# What may be written


@pytest.mark.parametrize("content", [
    b"", b"text", b'{"x":1}', b'{"t":"2035-01-01T00:00:00Z"}', b'{"t":2056752000000}', b'{"t":null}',
    b'{"t":[{"$date":"2035-01-01T00:00:00Z"}]}', b'{"u":{"t":{"$date":"2035-01-01T00:00:00Z"}}}',
    b'{"t":{"$date":"2035-01-01T00:00:00Z"}', bson({"m": "a"})])
def test_a_document_without_the_time_is_refused_at_close(any_mount, content):
    make(any_mount)
    fd = os.open(any_mount.p("ts/f"), os.O_WRONLY | os.O_CREAT)
    os.write(fd, content)
    with raises_errno(errno.EINVAL):
        os.close(fd)
    assert not any_mount.exists("ts/f")
    assert names(any_mount, "ts") == []
    if content:
        assert "time field t" in any_mount.get("ts", "ttl.error")
        assert "time field t" in any_mount.log
    # The name is free, at once.
    put(any_mount, "ts/f", BASE_MS)
    assert deadline(any_mount, "ts/f") == BASE_MS + HOUR_MS


def test_the_reason_is_on_the_file_for_who_has_it_open(mount):
    make(mount)
    with opened(mount.p("ts/f"), os.O_RDWR | os.O_CREAT) as fd:
        os.write(fd, b'{"x":1}')
        with raises_errno(errno.EINVAL):
            os.close(os.dup(fd))
        assert "time field t" in os.getxattr(fd, "user.ttl.error").decode()
        assert not mount.exists("ts/f")
        # And who has it open can make it good.
        os.pwrite(fd, b'{"t":{"$date":"2035-01-01T00:00:00Z"}}', 0)
    assert mount.exists("ts/f")


def test_bson_and_fields_set_from_outside_count(mount):
    make(mount)
    mount.write("ts/bson", bson({"t": ("date", BASE_MS), "m": "a"}))
    assert deadline(mount, "ts/bson") == BASE_MS + HOUR_MS
    with opened(mount.p("ts/attr"), os.O_WRONLY | os.O_CREAT) as fd:
        os.setxattr(fd, "user.doc.t", json.dumps(date(BASE_MS + 1000)).encode())
        os.setxattr(fd, "user.doc.m", b'"a"')
    assert deadline(mount, "ts/attr") == BASE_MS + 1000 + HOUR_MS
    assert deadline(mount, "ts/bson") == BASE_MS + 1000 + HOUR_MS
    mount.set("ts/attr", "user.doc.t", json.dumps(date(BASE_MS + 2000)))
    assert deadline(mount, "ts/bson") == BASE_MS + 2000 + HOUR_MS


def test_redirections_and_pipes_of_a_shell_work(mount):
    make(mount)
    line = json.dumps({"t": date(BASE_MS)})
    for shell in ("sh", "bash"):
        run(shell, "-c", f"echo '{line}' > {shell}", cwd=mount.p("ts"))
        run(shell, "-c", f"{{ printf '{line[:10]}'; printf '%s' '{line[10:]}'; }} > {shell}.two", cwd=mount.p("ts"))
    run("cp", mount.p("ts/sh"), mount.p("ts/copy"))
    run("dd", f"if={mount.p('ts/sh')}", f"of={mount.p('ts/dd')}")
    assert names(mount, "ts") == ["bash", "bash.two", "copy", "dd", "sh", "sh.two"]
    assert run("touch", mount.p("ts/empty"), check=False).returncode != 0
    assert run("cp", "/etc/passwd", mount.p("ts/passwd"), check=False).returncode != 0
    assert len(names(mount, "ts")) == 6


def test_an_overwritten_document_keeps_its_place_when_its_new_content_has_no_time(any_mount):
    make(any_mount)
    put(any_mount, "ts/a", BASE_MS)
    put(any_mount, "ts/b", BASE_MS + 1000)
    with raises_errno(errno.EINVAL):
        any_mount.write("ts/b", "no time")
    assert "time field" in any_mount.get("ts/b", "ttl.error")
    assert any_mount.read("ts/b") == b"no time"
    assert deadlines(any_mount, "ts/a", "ts/b") == [BASE_MS + 1000 + HOUR_MS] * 2
    if any_mount.store != "memory:":
        any_mount.remount()
        assert deadlines(any_mount, "ts/a", "ts/b") == [BASE_MS + 1000 + HOUR_MS] * 2
    put(any_mount, "ts/b", BASE_MS + 5000)
    assert deadlines(any_mount, "ts/a", "ts/b") == [BASE_MS + 5000 + HOUR_MS] * 2


def test_overwriting_from_a_shell_leaves_no_reason_behind(mount):
    make(mount)
    line = json.dumps({"t": date(BASE_MS)})
    for shell in ("sh", "bash"):
        for _ in range(2):
            run(shell, "-c", f"echo '{line}' > {shell}", cwd=mount.p("ts"))
        with raises_errno(errno.ENODATA):
            mount.get(f"ts/{shell}", "ttl.error")
    with raises_errno(errno.ENODATA):
        mount.get("ts", "ttl.error")
    assert "refused" not in mount.log
    run("sh", "-c", ": > sh", cwd=mount.p("ts"))
    assert deadline(mount, "ts/sh") == BASE_MS + HOUR_MS  # emptied, and still in its place
    wait_until(lambda: "time field t" in mount.log, 20, "the reason why an empty document was refused")


def test_an_empty_file_with_fields_from_outside_gets_in(any_mount):
    make(any_mount)
    any_mount.write("f", b"")
    any_mount.set("f", "user.doc.t", json.dumps(date(BASE_MS)))
    os.rename(any_mount.p("f"), any_mount.p("ts/f"))
    assert deadline(any_mount, "ts/f") == BASE_MS + HOUR_MS
    any_mount.write("g", b"")
    any_mount.set("g", "user.doc.t", json.dumps(date(BASE_MS + 1000)))
    os.link(any_mount.p("g"), any_mount.p("ts/g"))
    assert deadlines(any_mount, "ts/f", "ts/g") == [BASE_MS + 1000 + HOUR_MS] * 2
    if any_mount.store != "memory:":
        any_mount.remount()
        assert deadlines(any_mount, "ts/f", "ts/g") == [BASE_MS + 1000 + HOUR_MS] * 2


def test_only_what_has_a_time_gets_in_by_other_ways(mount):
    make(mount)
    mount.write("bad", "x")
    put(mount, "good", BASE_MS)
    for call in (lambda: os.rename(mount.p("bad"), mount.p("ts/f")),
                 lambda: os.link(mount.p("bad"), mount.p("ts/f")),
                 lambda: os.symlink("x", mount.p("ts/f")),
                 lambda: os.mkfifo(mount.p("ts/f")),
                 lambda: os.mknod(mount.p("ts/f"))):
        with raises_errno(errno.EINVAL):
            call()
        assert "time field" in mount.get("ts", "ttl.error")
    assert names(mount, "ts") == []
    os.link(mount.p("good"), mount.p("ts/linked"))
    os.rename(mount.p("good"), mount.p("ts/moved"))
    os.mkdir(mount.p("ts/dir"))
    assert deadlines(mount, "ts/linked", "ts/moved") == [BASE_MS + HOUR_MS] * 2
    with raises_errno(errno.EINVAL):
        renameat2(mount.p("bad"), mount.p("ts/moved"), RENAME_EXCHANGE)
    for content, good in ((b"x", False), (json.dumps({"t": date(BASE_MS)}).encode(), True)):
        with opened(mount.p("ts"), os.O_TMPFILE | os.O_WRONLY) as fd:
            os.write(fd, content)
            if good:
                link_descriptor(fd, mount.p("ts/tmp"))
            else:
                with raises_errno(errno.EINVAL):
                    link_descriptor(fd, mount.p("ts/tmp"))
    assert deadline(mount, "ts/tmp") == BASE_MS + HOUR_MS


# Buckets


@pytest.mark.parametrize("granularity, span_ms", [("seconds", HOUR_MS), ("minutes", DAY_MS), ("hours", 30 * DAY_MS)])
def test_a_window_is_as_long_as_the_granularity_says(mount, granularity, span_ms):
    make(mount, granularity=granularity)
    put(mount, "ts/first", BASE_MS)
    put(mount, "ts/last", BASE_MS + span_ms - 1)
    put(mount, "ts/next", BASE_MS + span_ms)
    assert deadlines(mount, "ts/first", "ts/last", "ts/next") == [
        BASE_MS + span_ms - 1 + HOUR_MS, BASE_MS + span_ms - 1 + HOUR_MS, BASE_MS + span_ms + HOUR_MS]
    assert {reason(mount, f"ts/{name}") for name in names(mount, "ts")} == {"timeseries"}
    assert mount.status()["collections"]["/ts"]["timeseries"]["buckets"] == 2


def test_a_window_opens_at_its_first_document_rounded_down(mount):
    make(mount)
    put(mount, "ts/first", BASE_MS + 90_000)  # its window opens at the full minute, 60 s
    put(mount, "ts/in", BASE_MS + 60_000 + HOUR_MS - 1)
    put(mount, "ts/out", BASE_MS + 60_000 + HOUR_MS)
    assert deadlines(mount, "ts/first", "ts/out") == [
        BASE_MS + 60_000 + 2 * HOUR_MS - 1, BASE_MS + 60_000 + 2 * HOUR_MS]


def test_documents_that_come_late_join_too(mount):
    make(mount)
    put(mount, "ts/new", BASE_MS + 30 * 60_000)
    put(mount, "ts/old", BASE_MS + 10 * 60_000)
    put(mount, "ts/older", BASE_MS - 40 * 60_000)
    newest_ms = BASE_MS + 30 * 60_000 + HOUR_MS
    assert deadlines(mount, "ts/new", "ts/old") == [newest_ms] * 2
    assert deadline(mount, "ts/older") == BASE_MS - 40 * 60_000 + HOUR_MS


def test_each_meta_value_has_buckets_of_its_own(mount):
    make(mount)
    metas = {"one": 1, "text": "1", "document": {"a": 1, "b": 2}, "list": [1, 2], "null": None, "true": True}
    for number, (name, meta) in enumerate(metas.items()):
        mount.write(f"ts/{name}", {"t": date(BASE_MS), "m": meta})
        mount.write(f"ts/{name}2", {"t": date(BASE_MS + number * 1000 + 1000), "m": meta})
    mount.write("ts/missing", {"t": date(BASE_MS)})
    for number, name in enumerate(metas):
        assert deadline(mount, f"ts/{name}") == BASE_MS + number * 1000 + 1000 + HOUR_MS
    assert deadline(mount, "ts/missing") == BASE_MS + HOUR_MS
    # Equal is what MongoDB takes for equal.
    mount.write("ts/one3", {"t": date(BASE_MS + 60_000), "m": 1.0})
    mount.write("ts/one4", {"t": date(BASE_MS + 50_000), "m": long(1)})
    mount.write("ts/document3", {"t": date(BASE_MS + 70_000), "m": {"b": 2, "a": 1}})
    assert deadlines(mount, "ts/one", "ts/one4", "ts/document") == [
        BASE_MS + 60_000 + HOUR_MS, BASE_MS + 60_000 + HOUR_MS, BASE_MS + 70_000 + HOUR_MS]


def test_without_a_meta_field_there_is_one_series(mount):
    os.mkdir(mount.p("ts"))
    mount.set("ts", "ttl.timeseries", '{"timeField":"t","expireAfterSeconds":3600}')
    put(mount, "ts/a", BASE_MS, "a")
    put(mount, "ts/b", BASE_MS + 1000, "b")
    assert deadline(mount, "ts/a") == BASE_MS + 1000 + HOUR_MS


# Expiry


def test_a_bucket_goes_as_a_whole_and_not_before_its_newest_is_due(any_mount):
    make(any_mount, expireAfterSeconds=10)
    start_ms = now_ms(any_mount)
    for number in range(20):
        put(any_mount, f"ts/{number:02d}", start_ms - number * 1000)
    put(any_mount, "ts/other", start_ms + 5000, "b")
    any_mount.clock_advance(9000 - (now_ms(any_mount) - start_ms))
    any_mount.run_pass()
    assert len(names(any_mount, "ts")) == 21
    any_mount.clock_advance(1000)
    assert names(any_mount, "ts") == ["other"]
    any_mount.run_pass()
    assert ttl_metrics(any_mount)["deletedDocuments"] == 20
    assert any_mount.status()["collections"]["/ts"]["documents"] == 1
    assert any_mount.status()["collections"]["/ts"]["timeseries"]["buckets"] == 1
    any_mount.clock_advance(5000)
    any_mount.run_pass()
    assert any_mount.status()["collections"]["/ts"]["documents"] == 0


def test_a_document_that_makes_the_bucket_grow_postpones_all(mount):
    make(mount, expireAfterSeconds=10)
    start_ms = now_ms(mount)
    put(mount, "ts/a", start_ms)
    for step in range(1, 6):
        mount.clock_advance(8000)
        put(mount, f"ts/{step}", start_ms + step * 8000)
        mount.run_pass()
        assert len(names(mount, "ts")) == step + 1
    mount.clock_advance(10_001)
    assert names(mount, "ts") == []


def test_a_bucket_that_loses_its_newest_goes_earlier(mount):
    make(mount, expireAfterSeconds=10)
    start_ms = now_ms(mount)
    put(mount, "ts/old", start_ms)
    put(mount, "ts/old2", start_ms)
    put(mount, "ts/newest", start_ms + 60_000)
    mount.clock_advance(20_000)
    mount.run_pass()  # files what is old under the bucket's date
    assert len(names(mount, "ts")) == 3
    os.stat(mount.p("ts/old"))  # cached by the kernel until that
    os.unlink(mount.p("ts/newest"))
    assert not mount.exists("ts/old")
    assert names(mount, "ts") == []
    mount.run_pass()
    assert mount.status()["collections"]["/ts"]["documents"] == 0


def test_the_monitor_deletes_a_bucket_by_itself(mount):
    make(mount, expireAfterSeconds=0)
    start_ms = now_ms(mount)
    for number in range(600):
        put(mount, f"ts/{number}", start_ms + 3_000_000 + number)
    assert len(names(mount, "ts")) == 600
    mount.clock_advance(3_000_599)
    mount.run_pass()
    assert mount.status()["collections"]["/ts"]["documents"] == 0
    assert ttl_metrics(mount)["deletedDocuments"] == 600


def test_own_rules_of_a_document_count_as_well(mount):
    make(mount)
    put(mount, "ts/a", BASE_MS)
    put(mount, "ts/b", BASE_MS)
    mount.set("ts/a", "ttl.expireAt", "+10s")
    assert reason(mount, "ts/a") == "expireAt"
    mount.set("ts/b", "ttl.hold", "yes")
    assert reason(mount, "ts/b") == "hold"
    mount.clock_advance(10_001)
    assert names(mount, "ts") == ["b"]
    mount.clock_advance(BASE_MS + HOUR_MS - now_ms(mount) + 1)
    mount.run_pass()
    assert names(mount, "ts") == ["b"]
    mount.rm("ts/b", "ttl.hold")
    assert names(mount, "ts") == []
    mount.run_pass()
    assert mount.status()["collections"]["/ts"]["documents"] == 0


# TTL indexes


def test_ttl_indexes_are_on_the_time_field_or_filter_by_meta_alone(mount):
    make(mount)
    for value in ('{"key":"other","expireAfterSeconds":5}', '{"key":"_ts","expireAfterSeconds":5}',
                  '{"key":"t","expireAfterSeconds":5,"partialFilterExpression":{"x":1}}',
                  '{"key":"t","expireAfterSeconds":5,"partialFilterExpression":{"$and":[{"m":1},{"x":1}]}}',
                  '{"key":"other","expireAfterSeconds":5,"partialFilterExpression":{"m":1}}',
                  '{"key":"t","expireAfterSeconds":5,"jitterSeconds":9}'):
        with raises_errno(errno.EINVAL):
            mount.set("ts", "ttl.index.i", value)
        assert "time-series" in mount.get("ts", "ttl.error")
    for value in ('{"key":"t","expireAfterSeconds":5}', '{"key":"other"}',
                  '{"key":"t","expireAfterSeconds":5,"partialFilterExpression":{"m":1}}',
                  '{"key":"t","expireAfterSeconds":5,"partialFilterExpression":{"$or":[{"m":1},{"m.a":{"$gt":3}}]}}'):
        mount.set("ts", "ttl.index.i", value)
    os.mkdir(mount.p("d"))
    mount.set("d", "ttl.index._ts", "60")
    os.mkdir(mount.p("d/ts"))
    with raises_errno(errno.EINVAL):
        make(mount, "d/ts")
    assert "_ts" in mount.get("d/ts", "ttl.error")


def test_of_a_collection_rule_and_a_partial_rule_the_shorter_wins(mount):
    make(mount)
    mount.set("ts", "ttl.index.short",
              '{"key":"t","expireAfterSeconds":60,"partialFilterExpression":{"m":{"$in":["a","c"]}}}')
    mount.set("ts", "ttl.index.long", '{"key":"t","expireAfterSeconds":7200,"partialFilterExpression":{"m":"b"}}')
    for meta in "abc":
        put(mount, f"ts/{meta}1", BASE_MS, meta)
        put(mount, f"ts/{meta}2", BASE_MS + 30_000, meta)
    assert deadlines(mount, "ts/a1", "ts/a2") == [BASE_MS + 90_000] * 2  # by bucket, too
    assert deadlines(mount, "ts/b1", "ts/b2") == [BASE_MS + 30_000 + HOUR_MS] * 2
    assert (reason(mount, "ts/a1"), reason(mount, "ts/b1")) == ("index short", "timeseries")
    mount.clock_advance(BASE_MS + 89_000 - now_ms(mount))
    mount.run_pass()
    assert len(names(mount, "ts")) == 6
    mount.clock_advance(1000)
    mount.run_pass()
    assert names(mount, "ts") == ["b1", "b2"]
    assert mount.status()["collections"]["/ts"]["documents"] == 2


# The extended range


@pytest.mark.parametrize("time_ms", [-1, 2147483647_001, FAR_MS])
def test_a_date_outside_of_the_normal_range_stops_expiry_while_it_is_there(any_mount, time_ms):
    make(any_mount, expireAfterSeconds=10)
    start_ms = now_ms(any_mount)
    for number in range(5):
        put(any_mount, f"ts/{number}", start_ms, number)
    put(any_mount, "ts/strange", time_ms, "z")
    status = any_mount.status()["collections"]["/ts"]["timeseries"]
    assert status["ttlStopped"] is True and status["extendedRangeDocuments"] == 1
    assert deadlines(any_mount, "ts/0", "ts/strange") == [None, None]
    any_mount.clock_advance(11_000)
    any_mount.run_pass()
    assert len(names(any_mount, "ts")) == 6
    if any_mount.store != "memory:":
        any_mount.remount()
        any_mount.clock_advance(11_000)
        any_mount.run_pass()
        assert len(names(any_mount, "ts")) == 6
    os.unlink(any_mount.p("ts/strange"))
    assert names(any_mount, "ts") == []
    assert any_mount.status()["collections"]["/ts"]["timeseries"]["ttlStopped"] is False
    any_mount.run_pass()
    assert any_mount.status()["collections"]["/ts"]["documents"] == 0


def test_the_ends_of_the_normal_range_are_normal(mount):
    make(mount)
    put(mount, "ts/last", 2147483647_000)
    put(mount, "ts/first", 0, "b")
    assert not mount.exists("ts/first")  # due long ago
    assert deadline(mount, "ts/last") == 2147483647_000 + HOUR_MS


# Remount


@pytest.mark.parametrize("crash", [False, True])
def test_buckets_are_the_same_after_a_remount(make_mount, crash):
    mount = make_mount("dir", opts="test-clock,commit=0" if crash else "test-clock")
    make(mount)
    mount.set("ts", "ttl.index.short", '{"key":"t","expireAfterSeconds":60,"partialFilterExpression":{"m":"b"}}')
    minutes = [30, 80, 10, 55, 95, 130, 0, 70, 131, 89]
    for number, minute in enumerate(minutes):
        for meta in "ab":
            put(mount, f"ts/{meta}{number}", BASE_MS + minute * 60_000 + number, meta)
    os.rename(mount.p("ts/a3"), mount.p("ts/renamed"))
    before = {name: deadline(mount, f"ts/{name}") for name in names(mount, "ts")}
    buckets = mount.status()["collections"]["/ts"]["timeseries"]["buckets"]
    assert mount.lst("ts/a0") == []
    if crash:
        mount.kill9()
        mount.start()
    else:
        mount.remount()
    assert {name: deadline(mount, f"ts/{name}") for name in names(mount, "ts")} == before
    assert mount.status()["collections"]["/ts"]["timeseries"]["buckets"] == buckets
    put(mount, "ts/more", BASE_MS + 131 * 60_000 + 1000, "a")
    assert deadline(mount, "ts/a5") == BASE_MS + 131 * 60_000 + 1000 + HOUR_MS


def test_a_copy_does_not_carry_its_bucket_along(mount):
    make(mount)
    put(mount, "ts/a", BASE_MS)
    out = subprocess.run(["getfattr", "-d", "-m", "-", mount.p("ts/a")], stdout=subprocess.PIPE, text=True, check=True)
    assert "ttlfs." not in out.stdout
    make(mount, "ts2")
    run("cp", "-a", mount.p("ts/a"), mount.p("ts2/a"))
    os.rename(mount.p("ts/a"), mount.p("ts2/b"))
    put(mount, "ts2/c", BASE_MS + 1000)
    assert deadlines(mount, "ts2/a", "ts2/b") == [BASE_MS + 1000 + HOUR_MS] * 2
    assert mount.status()["collections"]["/ts"]["timeseries"]["buckets"] == 0
