"""`.ttlfs/status.json` and `.ttlfs/metrics`: how it stands."""
import os
import re
import shutil
import subprocess
import threading

import pytest
from conftest import run, wait_until
from observehelp import index_of

MONITOR_OFF = pytest.mark.ttlfs(opts="test-clock,monitor=off")

LABELS = r'(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"(?:,[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*")*)'
SAMPLE = re.compile(rf"([a-zA-Z_:][\w:]*)(?:\{{({LABELS})\}})? ([-+]?[\d.]+(?:e[-+]?\d+)?|NaN|[-+]Inf)$")
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"')


def parse(text):
    """Prometheus' text format 0.0.4, strictly: {(name, ((label, value), …)): number}."""
    assert text.endswith("\n")
    types, helps, samples = {}, set(), {}
    for line in text.split("\n")[:-1]:
        if line.startswith("# "):
            kind, name, rest = re.fullmatch(r"# (HELP|TYPE) ([a-zA-Z_:][\w:]*) (.+)", line).groups()
            if kind == "HELP":
                assert name not in helps, f"two HELP of {name}"
                helps.add(name)
            else:
                assert name in helps and name not in types and rest in ("counter", "gauge", "histogram")
                types[name] = rest
            continue
        name, labels, value = SAMPLE.fullmatch(line).groups()
        pairs = tuple((key, re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), text))
                      for key, text in LABEL.findall(labels or ""))
        family = name if name in types else re.sub(r"_(bucket|sum|count)$", "", name)
        assert family in types, f"{name} has no TYPE"
        assert (types[family] == "counter") == name.endswith("_total"), name
        assert (name, pairs) not in samples, f"twice: {line}"
        samples[name, pairs] = float(value)
    return samples


def metrics(mount):
    return parse(mount.read(".ttlfs/metrics").decode())


def value(mount, name, **labels):
    return metrics(mount)[name, tuple(labels.items())]


def test_status_of_a_new_mount(mount):
    status = mount.status()
    assert status["store"] == "memory:" and status["pid"] == mount.pid
    assert status["documents"] == 0 and status["backlog"] == 0 and status["lagMS"] == 0
    assert status["nextDeadline"] is None and status["indexes"] == [] and status["warnings"] == []
    assert status["collections"] == {"/": {"documents": 0, "collections": 0}}
    assert set(status["metrics"]["ttl"]) >= {
        "passes", "subPasses", "deletedDocuments", "deletedKeys", "invalidTTLIndexSkips", "archivedDocuments",
        "errors", "hiddenAccesses"}


@MONITOR_OFF
def test_backlog_and_lag(mount):
    os.mkdir(mount.p("s"))
    mount.set("s", "ttl.idle", "10s")
    mount.set("s", "ttl.index._created", "60")
    for name in ("a", "b", "used"):
        mount.write(f"s/{name}", "x")
    assert index_of(mount, "/s", "idle")["backlog"] == 0
    assert index_of(mount, "/s", "idle")["entries"] == 3
    mount.clock_advance(8_000)
    mount.read("s/used")
    mount.clock_advance(5_000)
    idle = index_of(mount, "/s", "idle")
    assert idle["backlog"] == 2, "the one that was read is not due"
    assert 3_000 <= idle["lagMS"] < 3_000 + 60_000
    status = mount.status()
    assert status["backlog"] == 2 and status["lagMS"] >= 3_000
    assert value(mount, "ttlfs_ttl_backlog") == 2
    assert value(mount, "ttlfs_index_backlog", collection="/s", index="idle", key="") == 2
    assert value(mount, "ttlfs_index_backlog", collection="/s", index="_created", key="_created") == 0
    mount.run_pass()
    assert mount.status()["backlog"] == 0 and mount.status()["lagMS"] == 0
    assert value(mount, "ttlfs_ttl_deleted_documents_total") == 2


@MONITOR_OFF
def test_the_earliest_date_there_is(mount):
    """Later than that by more than 64 bits can say: figures stay numbers, and their sums, too."""
    mount.param("ttlIndexDeleteTargetDocs", "1")
    mount.set(".", "ttl.index.at", "60")
    for name in ("a", "b", "c"):
        mount.write(name, '{"at":{"$date":{"$numberLong":"-9223372036854775808"}}}')
    index = index_of(mount, "/", "at")
    assert index["backlog"] == 3 and index["lagMS"] == 2**63 - 1
    assert mount.status()["lagMS"] == 2**63 - 1
    assert mount.run_pass()["deletedDocuments"] == 3
    assert value(mount, "ttlfs_ttl_visit_lag_seconds_sum") > 9e15


@MONITOR_OFF
def test_next_deadline(mount):
    mount.set(".", "ttl.idle", "100s")
    mount.write("a", "x")
    created = mount.get("a", "ttl.deadline")
    mount.clock_advance(50_000)
    mount.read("a")  # filed under 100 s, due at 150 s
    # Closing it is an access too, and comes a moment later.
    wait_until(lambda: mount.status()["nextDeadline"] == {"$date": mount.get("a", "ttl.deadline")}, 10, "the true one")
    assert mount.status()["nextDeadline"]["$date"] > created


def test_an_index_that_nothing_fits(mount):
    os.mkdir(mount.p("s"))
    mount.set("s", "ttl.index.at", "60")

    def reasons():
        return [(w["collection"], w.get("index"), w["reason"]) for w in mount.status()["warnings"]]

    assert reasons() == []
    mount.write("s/none", {"other": 1})
    wait_until(lambda: any("missing" in reason[2] for reason in reasons()), 10, "the field is missing")
    mount.write("s/text", {"at": "2090-01-01T00:00:00Z"})
    wait_until(lambda: any("never a date" in reason[2] for reason in reasons()), 10, "it is no date")
    assert reasons()[0][:2] == ("/s", "at")
    assert value(mount, "ttlfs_warnings") == 1
    mount.set("s", "ttl.index.at", '{"expireAfterSeconds":60,"as":"iso8601"}')
    wait_until(lambda: reasons() == [], 10, "as iso8601 it is one")


def test_archive_without_an_archive(mount):
    os.mkdir(mount.p("kept"))
    mount.set("kept", "ttl.on-expire", "archive")
    warnings = mount.status()["warnings"]
    assert [w["collection"] for w in warnings] == ["/kept"] and "archive" in warnings[0]["reason"]


def test_metrics_are_valid(mount):
    mount.set(".", "ttl.idle", "1h")
    mount.set(".", "ttl.index.idle", "60")  # the name of a built-in one
    for name in ('quote"d', "back\\slash", "new\nline", "bl ank", "grün"):
        os.mkdir(mount.p(name))
        mount.set(name, "ttl.index.at", "60")
        mount.write(f"{name}/a", "x")
    for raw in (b"bad\xff", b"bad\xfe", b"car\rriage"):  # two look the same, and are not
        os.mkdir(mount.p(raw))
    mount.run_pass()
    assert b"\r" not in mount.read(".ttlfs/metrics"), "it would end the line for many a reader"
    found = metrics(mount)
    collections = {dict(labels)["collection"] for name, labels in found if name == "ttlfs_collection_documents"}
    assert {'/quote"d', "/back\\slash", "/new\nline", "/bl ank", "/grün", "/"} <= collections
    assert len([c for c in collections if c.startswith("/bad\ufffd")]) == 2
    buckets = [number for (name, _), number in found.items() if name == "ttlfs_ttl_visit_duration_seconds_bucket"]
    assert buckets == sorted(buckets)
    assert buckets[-1] == found["ttlfs_ttl_visit_duration_seconds_count", ()]


@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool")
def test_promtool_has_nothing_to_say(mount):
    mount.set(".", "ttl.idle", "1h")
    os.mkdir(mount.p('odd "name"\n'))
    mount.write("a", "x")
    mount.run_pass()
    text = mount.read(".ttlfs/metrics")
    done = subprocess.run(["promtool", "check", "metrics"], input=text, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, b"")


def test_lists_are_bounded(mount):
    for number in range(1010):
        os.mkdir(mount.p(f"d{number}"))
    status = mount.status()
    assert len(status["collections"]) == 1000 and status["collectionsCut"] is True
    found = metrics(mount)
    assert len([1 for name, _ in found if name == "ttlfs_collection_documents"]) == 1000
    assert found["ttlfs_lists_cut", ()] == 1
    assert found["ttlfs_collections", ()] == 1011


def test_a_text_is_what_it_was_when_it_was_opened(mount):
    with open(mount.p(".ttlfs/status.json"), encoding="utf-8") as file:
        begin = file.read(20)
        for number in range(50):
            mount.write(f"n{number}", "x")
        rest = file.read()
    assert '"documents":0' in begin + rest


@pytest.mark.tsan
def test_reading_while_everything_changes(mount):
    """Every file of .ttlfs, while names, rules and documents come and go."""
    stop = threading.Event()
    troubles = []

    def work(thread):
        try:
            while not stop.is_set():
                os.makedirs(mount.p(f"d{thread}/sub"), exist_ok=True)
                mount.set(f"d{thread}", "ttl.idle", "1h")
                mount.set(f"d{thread}", "ttl.index.at", "60")
                for number in range(20):
                    mount.write(f"d{thread}/sub/n{number}", {"at": {"$date": "2030-01-01T00:00:00Z"}})
                mount.rm(f"d{thread}", "ttl.index.at")
                run("rm", "-rf", mount.p(f"d{thread}"))
        except OSError as error:
            troubles.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(15):
            metrics(mount)
            for name in ("status.json", "currentOp.json", "profile.jsonl", "distribution.json", "due.jsonl"):
                mount.read(f".ttlfs/{name}")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert troubles == []
