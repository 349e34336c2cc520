"""The monitor: passes, sub-passes and their budgets, parameters, waking (spec 6 and 7)."""
import errno
import os
import subprocess
import time

import pytest

from conftest import raises_errno, wait_until
from ttlhelp import FAR_MS, date, in_threads, names, now_ms, ttl_metrics

pytestmark = pytest.mark.ttlfs(opts="test-clock,monitor=off")
S = 1000
DEFAULTS = {"ttlMonitorEnabled": "true", "ttlMonitorWake": "deadline", "ttlMonitorSleepSecs": "60",
            "ttlMonitorSubPassTargetSecs": "60", "ttlIndexDeleteTargetDocs": "50000",
            "ttlIndexDeleteTargetTimeMS": "1000", "ttlMonitorClockJumpSecs": "3600"}


def due(mount, where, count, prefix="f"):
    """That many documents of a collection with an index on d, all due."""
    if not mount.exists(where):
        os.mkdir(mount.p(where))
        mount.set(where, "ttl.index.d", "0")
    for number in range(count):
        mount.write(f"{where}/{prefix}{number}", {"d": date(number)})


def counts(mount):
    metrics = ttl_metrics(mount)
    return metrics["passes"], metrics["subPasses"], metrics["deletedDocuments"]


def a_pass(mount):
    """What a pass by hand adds to (passes, sub-passes, deleted documents)."""
    before = counts(mount)
    mount.run_pass()
    return tuple(after - start for after, start in zip(counts(mount), before))


def test_a_pass_deletes_what_is_due_and_nothing_else(any_mount):
    due(any_mount, "c", 40)
    for number in range(10):
        any_mount.write(f"c/kept{number}", {"d": date(FAR_MS)})
    assert a_pass(any_mount) == (1, 1, 40)
    assert len(names(any_mount, "c")) == 10
    assert a_pass(any_mount)[2] == 0
    metrics = ttl_metrics(any_mount)
    assert metrics["deletedKeys"] >= 40
    assert (metrics["errors"], metrics["invalidTTLIndexSkips"], metrics["archivedDocuments"]) == (0, 0, 0)


def test_a_pass_tells_its_result(mount):
    due(mount, "c", 25)
    mount.param("ttlIndexDeleteTargetDocs", 10)
    result = mount.run_pass()
    assert result["deletedDocuments"] == 25
    assert result["subPasses"] in (3, 4)
    assert mount.run_pass()["deletedDocuments"] == 0


def test_one_pass_takes_every_kind_of_deadline(mount):
    mount.write("expireAt", "x")
    mount.set("expireAt", "ttl.expireAt", "+50s")
    mount.write("seconds", "x")
    mount.set("seconds", "ttl.seconds", "50")
    mount.write("own max", "x")
    mount.set("own max", "ttl.max", "50s")
    for name, rule, value in (("index", "index.d", "0"), ("idle", "idle", "50s"), ("max", "max", "50s"),
                              ("_ts", "index._ts", "50"), ("ttl", "index._ts", "-1"), ("created", "index._created", "50")):
        os.mkdir(mount.p(name))
        mount.set(name, f"ttl.{rule}", value)
        mount.write(f"{name}/f", {"ttl": 50, "d": date(now_ms(mount) + 50 * S)})
        os.symlink("x", mount.p(f"{name}/link"))
        mount.write(f"{name}/held", {"ttl": 50, "d": date(now_ms(mount) + 50 * S)})
        mount.set(f"{name}/held", "ttl.hold", "yes")
    mount.clock_advance(60 * S)
    assert a_pass(mount)[2] == 9 + 4  # links have no fields, but access, creation and change
    for name in ("index", "idle", "max", "_ts", "ttl", "created"):
        assert names(mount, name) == (["held", "link"] if name in ("index", "ttl") else ["held"])


# Sub-passes and budgets


def test_a_visit_stops_at_the_number_of_documents_and_sub_passes_go_on(any_mount):
    due(any_mount, "c", 95)
    any_mount.param("ttlIndexDeleteTargetDocs", 10)
    passes, sub_passes, deleted = a_pass(any_mount)
    assert (passes, deleted) == (1, 95) and 10 <= sub_passes <= 11


def test_sub_passes_visit_every_index_in_turn(mount):
    for where in ("a", "b", "c"):
        due(mount, where, 55)
    due(mount, "few", 3)
    mount.param("ttlIndexDeleteTargetDocs", 10)
    passes, sub_passes, deleted = a_pass(mount)
    # One after the other it would take 6 + 6 + 6 + 1.
    assert (passes, deleted) == (1, 168) and 6 <= sub_passes <= 7


@pytest.mark.parametrize("docs, millis", [(0, 0), (0, 1000), (50000, 0)])
def test_zero_is_no_limit(mount, docs, millis):
    due(mount, "c", 1500)
    mount.param("ttlIndexDeleteTargetDocs", docs)
    mount.param("ttlIndexDeleteTargetTimeMS", millis)
    passes, sub_passes, deleted = a_pass(mount)
    assert (passes, deleted) == (1, 1500) and (sub_passes == 1 or millis)


def test_a_visit_stops_at_its_time(make_mount):
    mount = make_mount("dir", opts="test-clock,monitor=off,notify=never")
    due(mount, "c", 8000)
    mount.param("ttlIndexDeleteTargetDocs", 0)
    mount.param("ttlIndexDeleteTargetTimeMS", 1)
    passes, sub_passes, deleted = a_pass(mount)
    assert (passes, deleted) == (1, 8000) and sub_passes >= 2


def test_lowering_e_goes_through_the_same_batches(mount):
    os.mkdir(mount.p("c"))
    mount.set("c", "ttl.index.d", "2147483647")
    for number in range(50):
        mount.write(f"c/{number}", {"d": date(number)})
    assert a_pass(mount)[2] == 0
    mount.set("c", "ttl.index.d", "1")
    mount.param("ttlIndexDeleteTargetDocs", 20)
    _, sub_passes, deleted = a_pass(mount)
    assert deleted == 50 and 3 <= sub_passes <= 4


def test_a_refreshed_document_is_not_deleted_by_the_entry_of_its_old_deadline(mount):
    mount.set(".", "ttl.idle", "100s")
    for number in range(20):
        mount.write(str(number), "x")
    mount.clock_advance(60 * S)
    for number in range(10):
        mount.read(str(number))
    mount.clock_advance(50 * S)
    assert a_pass(mount)[2] == 10
    assert names(mount) == sorted(map(str, range(10)))
    mount.clock_advance(60 * S)
    assert a_pass(mount)[2] == 10


@pytest.mark.root
def test_an_undeletable_document_neither_blocks_others_nor_makes_a_pass_endless(make_mount, tmp_path):
    mount = make_mount(opts="test-clock,monitor=off,notify=always")
    due(mount, "c", 20)
    mount.set("c", "ttl.hold", "yes")
    other = tmp_path / "other"
    other.write_text("o")
    subprocess.run(["mount", "--bind", other, mount.p("c/f7")], check=True)  # unlink will say EBUSY
    try:
        mount.rm("c", "ttl.hold")
        start = time.monotonic()
        assert a_pass(mount)[2] >= 19
        assert time.monotonic() - start < 10
    finally:
        subprocess.run(["umount", mount.p("c/f7")], check=False, stderr=subprocess.DEVNULL)
    mount.run_pass()
    assert names(mount, "c") == [] and counts(mount)[2] == 20


# Parameters


def test_the_parameters_and_their_defaults(make_mount):
    mount = make_mount(opts="")
    listed = os.listdir(mount.p(".ttlfs/parameters"))
    assert set(DEFAULTS) <= set(listed) and "clockOffsetMS" not in listed
    assert {name: mount.param(name) for name in DEFAULTS} == DEFAULTS


@pytest.mark.parametrize("name, good, bad", [
    ("ttlMonitorSleepSecs", "5", ["0", "-1", "1.5", "x", " ", "5 s", "99999999999999999999", "NaN"]),
    ("ttlMonitorSubPassTargetSecs", "7", ["-1", "x", "1.5", " "]),
    ("ttlIndexDeleteTargetDocs", "0", ["-1", "x", "1e3", "1.5", " ", "99999999999999999999"]),
    ("ttlIndexDeleteTargetTimeMS", "0", ["-1", "x", "1.5", " "]),
    ("ttlMonitorClockJumpSecs", "60", ["-1", "x", "1.5"]),
    ("ttlMonitorWake", "interval", ["", " ", "x", "Deadline", "deadline interval"]),
    ("ttlMonitorEnabled", "false", ["", "x", "2", "perhaps"]),
    ("clockOffsetMS", "-5000", ["x", "1.5", " ", "99999999999999999999"]),
])
def test_parameters_are_validated_and_the_old_value_stays(mount, name, good, bad):
    mount.param(name, good)
    for value in bad:
        with raises_errno(errno.EINVAL):
            mount.param(name, value)
        assert mount.param(name) == good, value
    with open(mount.p(f".ttlfs/parameters/{name}"), "w") as file:
        file.write(good)  # without a newline
    assert mount.param(name) == good


def test_there_is_no_clock_to_set_without_test_clock(make_mount):
    mount = make_mount(opts="monitor=off")
    with raises_errno(errno.ENOENT):
        mount.param("clockOffsetMS")
    with raises_errno(errno.EACCES, errno.EPERM, errno.ENOENT, errno.EOPNOTSUPP):
        os.open(mount.p(".ttlfs/parameters/nonsense"), os.O_CREAT | os.O_WRONLY)


def test_parameters_survive_a_remount(make_mount):
    mount = make_mount("dir", opts="monitor=off")
    values = {"ttlMonitorWake": "interval", "ttlMonitorSleepSecs": "17", "ttlMonitorSubPassTargetSecs": "18",
              "ttlIndexDeleteTargetDocs": "19", "ttlIndexDeleteTargetTimeMS": "0", "ttlMonitorClockJumpSecs": "21"}
    for name, value in values.items():
        mount.param(name, value)
    for _ in range(2):
        mount.remount()
        assert {name: mount.param(name) for name in values} == values


# When the monitor works by itself


def deleted(mount):
    return ttl_metrics(mount)["deletedDocuments"]


def soon(mount, name, millis):
    """A document due in so many milliseconds of the real clock; when, in time.time()'s seconds."""
    mount.write(name, "x")
    mount.set(name, "ttl.expireAt", f"+{millis}ms")
    return time.time() + millis / 1000


@pytest.mark.ttlfs(opts="")
def test_the_monitor_wakes_by_the_deadline(mount):
    soon(mount, "later", 3_600_000)
    for number in range(3):
        end = soon(mount, f"f{number}", 400)
        assert deleted(mount) == number
        wait_until(lambda: deleted(mount) == number + 1, 3, "the deletion")
        assert -0.2 < time.time() - end < 1.0
    assert names(mount) == ["later"]


@pytest.mark.ttlfs(opts="")
def test_the_monitor_wakes_for_deadlines_that_come_forward(mount):
    mount.set(".", "ttl.idle", "1h")
    mount.write("f", {"d": date(0)})
    time.sleep(0.2)
    assert deleted(mount) == 0
    mount.set(".", "ttl.idle", "1ms")
    wait_until(lambda: deleted(mount) == 1, 3, "a shorter rule")
    mount.set(".", "ttl.idle", "off")
    mount.write("f", {"d": date(0)})
    mount.set(".", "ttl.index.d", "10")
    wait_until(lambda: deleted(mount) == 2, 3, "a new index")
    mount.write("g", {"d": date(0)})
    wait_until(lambda: deleted(mount) == 3, 3, "a content")


@pytest.mark.ttlfs(opts="")
def test_with_interval_the_monitor_sleeps_through_deadlines(mount):
    mount.param("ttlMonitorWake", "interval")
    end = soon(mount, "f", 200)
    time.sleep(max(0, end - time.time()) + 0.7)
    assert deleted(mount) == 0 and not mount.exists("f")
    mount.param("ttlMonitorSleepSecs", 1)
    wait_until(lambda: deleted(mount) == 1, 4, "the end of a sleep of one second")
    mount.param("ttlMonitorSleepSecs", 60)
    end = soon(mount, "g", 100)
    time.sleep(max(0, end - time.time()) + 0.3)
    mount.param("ttlMonitorWake", "deadline")
    wait_until(lambda: deleted(mount) == 2, 4, "waking by deadline again")


@pytest.mark.ttlfs(opts="")
def test_a_disabled_monitor_does_nothing_but_passes_by_hand(mount):
    mount.param("ttlMonitorEnabled", "false")
    end = soon(mount, "f", 100)
    time.sleep(max(0, end - time.time()) + 0.5)
    assert deleted(mount) == 0 and names(mount) == []
    end = soon(mount, "g", 10)
    time.sleep(max(0, end - time.time()) + 0.05)
    assert a_pass(mount)[2] == 2
    end = soon(mount, "h", 10)
    time.sleep(max(0, end - time.time()) + 0.05)
    mount.param("ttlMonitorEnabled", "true")
    wait_until(lambda: deleted(mount) == 3, 3, "the enabled monitor")


@pytest.mark.ttlfs(opts="test-clock")
def test_setting_the_clock_forward_is_no_leap_for_the_guard(mount):
    mount.set(".", "ttl.max", "10h")
    mount.write("f", "x")
    mount.clock_advance(11 * 3600 * S)
    assert not mount.exists("f")
    mount.run_pass()
    assert deleted(mount) == 1


@pytest.mark.tsan
@pytest.mark.ttlfs(opts="test-clock")
def test_passes_parameters_and_foreground_work_at_once(mount):
    for where in ("a", "b", "c"):
        os.mkdir(mount.p(where))
        mount.set(where, "ttl.index.d", "0")
    made = [0, 0, 0]

    def work(number):
        where = "abc"[number]
        made[number] += 1
        mount.write(f"{where}/{made[number]}", {"d": date(made[number])})
        mount.write(f"{where}/kept{made[number] % 50}", {"d": date(FAR_MS)})
        assert all(name.startswith("kept") for name in names(mount, where))

    def tune(number):
        mount.param("ttlIndexDeleteTargetDocs", number % 3)
        mount.param("ttlIndexDeleteTargetTimeMS", number % 2)
        mount.param("ttlMonitorWake", "interval")
        mount.param("ttlMonitorWake", "deadline")
        mount.status()

    assert min(in_threads(work, work, work, tune, lambda _: mount.run_pass(), seconds=2)) > 0
    mount.run_pass()
    assert deleted(mount) == sum(made)
    assert sum(len(names(mount, where)) for where in "abc") == sum(min(50, count) for count in made)
