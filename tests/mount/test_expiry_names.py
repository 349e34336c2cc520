"""Renames, hard links and remounts of documents that expire (spec 5)."""
import errno
import os
import time

import pytest

from conftest import raises_errno, wait_until
from ttlhelp import (FAR_MS, RENAME_EXCHANGE, RENAME_NOREPLACE, accessed, created, date, deadline, in_threads, is_near,
                     names, reason, renameat2, rfc3339, ttl_metrics)

pytestmark = pytest.mark.ttlfs(opts="test-clock,monitor=off")
S = 1000


def save_over(mount, target, content, **rules):
    """As editors and session stores do: write a new file, rename it over the old one."""
    mount.write("tmp", content)
    for name, value in rules.items():
        mount.set("tmp", f"ttl.{name}", value)
    os.rename(mount.p("tmp"), mount.p(target))


def test_a_rename_over_a_document_keeps_the_earlier_creation(mount):
    mount.write("old", "1")
    born = created(mount, "old")
    mount.clock_advance(100 * S)
    save_over(mount, "old", "2")
    assert (created(mount, "old"), mount.read("old")) == (born, b"2")
    mount.clock_advance(100 * S)
    mount.write("new", "3")
    os.rename(mount.p("old"), mount.p("new"))  # the source is the older one here
    assert (created(mount, "new"), mount.read("new"), names(mount)) == (born, b"2", ["new"])


def test_saving_never_lengthens_a_max(mount):
    mount.set(".", "ttl.max", "1000s")
    mount.write("f", "x")
    end = deadline(mount, "f")
    for _ in range(3):
        mount.clock_advance(300 * S)
        save_over(mount, "f", "x")
        assert deadline(mount, "f") == end
    mount.clock_advance(101 * S)
    assert not mount.exists("f")


def test_saving_keeps_the_targets_rules_where_the_source_sets_none(mount):
    mount.write("f", "x")
    for name, value in (("max", "1000s"), ("idle", "1h"), ("expireAt", rfc3339(FAR_MS)), ("refresh", "write")):
        mount.set("f", f"ttl.{name}", value)
    mount.set("f", "comment", "the old file's")
    before = {name: mount.get("f", name) for name in mount.lst("f") if name.startswith("user.ttl.")}
    save_over(mount, "f", "y")
    assert {name: mount.get("f", name) for name in mount.lst("f")} == before
    save_over(mount, "f", "z", idle="2h")
    assert {name: mount.get("f", name) for name in mount.lst("f")} == {**before, "user.ttl.idle": "2h"}
    assert (deadline(mount, "f"), mount.read("f")) == (created(mount, "f") + 1000 * S, b"z")


def test_saving_counts_as_a_change_of_the_source_only(mount):
    mount.set(".", "ttl.index._ts", "1000")
    mount.write("f", "x")
    mount.set("f", "ttl.seconds", "500")
    mount.clock_advance(100 * S)
    mount.write("tmp", "y")
    changed = deadline(mount, "tmp") - 1000 * S
    mount.clock_advance(50 * S)
    os.rename(mount.p("tmp"), mount.p("f"))
    assert (deadline(mount, "f"), reason(mount, "f")) == (changed + 500 * S, "seconds")


def test_a_rename_over_a_held_document_keeps_the_hold(mount):
    mount.write("f", "x")
    mount.set("f", "ttl.hold", "yes")
    save_over(mount, "f", "y", expireAt="+10s")
    mount.clock_advance(100 * S)
    assert (mount.read("f"), reason(mount, "f")) == (b"y", "hold")


def test_a_rename_over_an_expired_document_takes_nothing_from_it(mount):
    mount.write("f", "x")
    mount.set("f", "ttl.max", "100s")
    born = created(mount, "f")
    mount.clock_advance(101 * S)
    save_over(mount, "f", "y")
    assert (mount.read("f"), mount.lst("f"), deadline(mount, "f")) == (b"y", [], None)
    assert created(mount, "f") >= born + 100 * S
    mount.run_pass()
    assert mount.read("f") == b"y"


def test_renaming_an_expired_document_is_enoent(mount):
    mount.write("target", "t")
    mount.write("f", "x")
    mount.set("f", "ttl.expireAt", "1")
    for flags in (0, RENAME_NOREPLACE, RENAME_EXCHANGE):
        with raises_errno(errno.ENOENT):
            renameat2(mount.p("f"), mount.p("target" if flags != RENAME_NOREPLACE else "fresh"), flags)
    assert (names(mount), mount.read("target")) == (["target"], b"t")


def test_exchange_keeps_each_documents_own_figures(mount):
    mount.write("a", "1")
    mount.set("a", "ttl.max", "1000s")
    mount.clock_advance(100 * S)
    mount.write("b", "2")
    born = created(mount, "a"), created(mount, "b")
    renameat2(mount.p("a"), mount.p("b"), RENAME_EXCHANGE)
    assert (created(mount, "b"), created(mount, "a")) == born
    assert (mount.lst("b"), mount.lst("a")) == (["user.ttl.max"], [])
    assert (mount.read("b"), deadline(mount, "b"), deadline(mount, "a")) == (b"1", born[0] + 1000 * S, None)


def test_exchange_moves_each_document_under_the_others_rules(mount):
    os.mkdir(mount.p("strict"))
    mount.set("strict", "ttl.index.d", "0")
    mount.write("due", {"d": date(0)})
    mount.write("strict/later", {"d": date(FAR_MS)})
    renameat2(mount.p("due"), mount.p("strict/later"), RENAME_EXCHANGE)
    assert (names(mount), names(mount, "strict")) == (["due", "strict"], [])
    assert deadline(mount, "due") is None
    mount.run_pass()
    assert ttl_metrics(mount)["deletedDocuments"] == 1


def test_a_rename_within_the_filesystem_keeps_the_figures(mount):
    os.mkdir(mount.p("d"))
    mount.write("f", "x")
    mount.set("f", "ttl.max", "1000s")
    time.sleep(0.05)
    before = [mount.get("f", f"ttl.{name}") for name in ("created", "accessed", "deadline", "max")]
    mount.clock_advance(100 * S)
    os.rename(mount.p("f"), mount.p("d/g"))
    assert [mount.get("d/g", f"ttl.{name}") for name in ("created", "accessed", "deadline", "max")] == before


def test_moving_between_directories_moves_under_other_rules(mount):
    for name, rule in (("lax", None), ("idle", "100s"), ("strict", "10s")):
        os.mkdir(mount.p(name))
        if rule:
            mount.set(name, "ttl.idle", rule)
    mount.write("lax/f", "x")
    assert deadline(mount, "lax/f") is None
    last = accessed(mount, "lax/f")
    for where, seconds in (("idle", 100), ("strict", 10), ("lax", None), ("idle", 100)):
        source = next(name for name in ("lax", "idle", "strict") if mount.exists(f"{name}/f"))
        os.rename(mount.p(f"{source}/f"), mount.p(f"{where}/f"))
        got = deadline(mount, f"{where}/f")
        assert got is None if seconds is None else is_near(got, last + seconds * S, 1000), where
    mount.clock_advance(50 * S)
    os.rename(mount.p("idle/f"), mount.p("strict/f"))
    assert names(mount, "strict") == [] and not mount.exists("strict/f")
    mount.run_pass()
    assert ttl_metrics(mount)["deletedDocuments"] == 1


def test_moving_a_directory_moves_all_below_it_under_other_rules(mount):
    os.makedirs(mount.p("lax/a/b"))
    os.mkdir(mount.p("strict"))
    mount.set("strict", "ttl.index.d", "0")
    mount.write("lax/a/b/old", {"d": date(0)})
    mount.write("lax/a/b/new", {"d": date(FAR_MS)})
    os.rename(mount.p("lax/a"), mount.p("strict/a"))
    assert names(mount, "strict/a/b") == ["new"]
    assert deadline(mount, "strict/a/b/new") == FAR_MS
    mount.run_pass()
    os.rename(mount.p("strict/a"), mount.p("lax/a"))
    assert names(mount, "lax/a/b") == ["new"] and deadline(mount, "lax/a/b/new") is None


# Hard links


def wait_for_links(mount, path, count):
    """The kernel hears of a name that a pass deleted a little behind the pass's end."""
    wait_until(lambda: os.stat(mount.p(path)).st_nlink == count, 3, f"{path} to have {count} links")


def test_a_document_loses_the_names_that_their_directories_let_expire(any_mount):
    mount = any_mount
    for name, rule in (("kept", None), ("short", "100s"), ("long", "1000s")):
        os.mkdir(mount.p(name))
        if rule:
            mount.set(name, "ttl.max", rule)
    mount.write("kept/f", "content")
    for name in ("short", "long"):
        os.link(mount.p("kept/f"), mount.p(f"{name}/f"))
    os.link(mount.p("short/f"), mount.p("short/g"))
    assert os.stat(mount.p("kept/f")).st_nlink == 4
    mount.clock_advance(101 * S)
    assert (names(mount, "short"), names(mount, "long"), names(mount, "kept")) == ([], ["f"], ["f"])
    mount.run_pass()
    wait_for_links(mount, "long/f", 2)
    mount.clock_advance(900 * S)
    assert not mount.exists("long/f") and mount.read("kept/f") == b"content"
    mount.run_pass()
    wait_for_links(mount, "kept/f", 1)
    os.link(mount.p("kept/f"), mount.p("again"))
    assert os.stat(mount.p("again")).st_nlink == 2


def test_the_documents_own_rules_take_all_its_names(mount):
    os.mkdir(mount.p("d"))
    mount.write("f", "x")
    os.link(mount.p("f"), mount.p("d/f"))
    mount.set("d/f", "ttl.expireAt", "+100s")
    assert deadline(mount, "f") == deadline(mount, "d/f")
    mount.clock_advance(101 * S)
    assert not mount.exists("f") and not mount.exists("d/f")
    mount.run_pass()
    assert (names(mount), names(mount, "d")) == (["d"], [])


def test_a_hold_in_one_directory_keeps_that_name_only(mount):
    for name in ("a", "b"):
        os.mkdir(mount.p(name))
    mount.set("b", "ttl.hold", "yes")
    mount.set(".", "ttl.max", "100s")
    mount.write("a/f", "x")
    os.link(mount.p("a/f"), mount.p("b/f"))
    mount.clock_advance(101 * S)
    mount.run_pass()
    assert (names(mount, "a"), names(mount, "b")) == ([], ["f"])
    wait_for_links(mount, "b/f", 1)


def test_a_link_into_a_directory_whose_rules_have_expired_it(mount):
    os.mkdir(mount.p("strict"))
    mount.set("strict", "ttl.max", "10s")
    mount.write("f", "x")
    mount.clock_advance(100 * S)
    os.link(mount.p("f"), mount.p("strict/f"))
    assert not mount.exists("strict/f") and mount.exists("f")
    mount.run_pass()
    assert mount.read("f") == b"x"
    wait_for_links(mount, "f", 1)


# Remounts


def test_a_remount_keeps_every_lifetime(make_mount):
    mount = make_mount("dir", opts="test-clock,monitor=off")
    os.makedirs(mount.p("a/b"))
    mount.set(".", "ttl.index.d", "50")
    mount.set("a", "ttl.idle", "1h")
    mount.set("a", "ttl.max", "1d")
    mount.set("a/b", "ttl.refresh", "extend")
    for path in ("indexed", "a/idle", "a/b/extended", "a/b/fresh", "rules", "fields"):
        mount.write(path, {"d": date(FAR_MS)} if path == "indexed" else "x")
    os.symlink("x", mount.p("a/link"))
    mount.set("rules", "ttl.seconds", "1000000")
    mount.set("rules", "ttl.expireAt", "+1h")
    mount.set("fields", "doc.d", '{"$date":"2100-01-01T00:00:00Z"}')
    mount.clock_advance(50 * S)
    mount.read("a/b/extended")
    mount.read("a/idle")
    time.sleep(0.1)

    def figures():
        found = {path: [mount.get(path, name) for name in mount.lst(path)] for path in (".", "a", "a/b")}
        for path in ("indexed", "a/idle", "a/b/extended", "a/b/fresh", "rules", "fields"):
            found[path] = [mount.get(path, f"ttl.{name}") for name in ("created", "accessed", "deadline", "reason")]
            found[path] += [(name, mount.get(path, name)) for name in mount.lst(path)]
        return found

    before = figures()
    for _ in range(2):
        mount.remount()
        assert figures() == before
    assert [before[path][3] for path in ("indexed", "a/idle", "a/b/extended", "a/b/fresh", "rules", "fields")] == [
        "index d", "idle", "max", "idle", "expireAt", "index d"]


def test_what_fell_due_while_unmounted_goes_in_the_first_pass(make_mount):
    mount = make_mount("dir", opts="monitor=off")
    for number in range(200):
        mount.write(str(number), "x")
        if number % 2:
            mount.set(str(number), "ttl.seconds", "700ms")
    mount.stop()
    time.sleep(0.75)
    mount.start()
    assert names(mount) == sorted(str(number) for number in range(0, 200, 2))
    mount.run_pass()
    assert ttl_metrics(mount)["deletedDocuments"] == 100
    mount.remount(opts="")
    assert len(names(mount)) == 100


def test_the_monitor_starts_on_the_backlog_by_itself(make_mount):
    mount = make_mount("dir", opts="monitor=off")
    for number in range(50):
        mount.write(str(number), "x")
        mount.set(str(number), "ttl.expireAt", "1")
    mount.remount(opts="")
    wait_until(lambda: ttl_metrics(mount)["deletedDocuments"] == 50, 5, "the first pass")
    mount.remount()
    assert ttl_metrics(mount)["deletedDocuments"] == 0 and names(mount) == []


@pytest.mark.tsan
def test_saves_race_with_expiry_and_keep_creation_and_rules(mount):
    """Sessions are saved by rename while a second name of each expires in a strict directory."""
    os.mkdir(mount.p("strict"))
    mount.set("strict", "ttl.index._ts", "0")
    born = {}
    for number in range(3):
        mount.write(f"s{number}", "x")
        mount.set(f"s{number}", "ttl.max", "100000s")
        born[number] = created(mount, f"s{number}")

    def save(number):
        mount.write(f"tmp{number}", "y")
        os.link(mount.p(f"tmp{number}"), mount.p(f"strict/{time.monotonic_ns()}-{number}"))
        os.rename(mount.p(f"tmp{number}"), mount.p(f"s{number}"))
        assert created(mount, f"s{number}") == born[number]
        assert mount.get(f"s{number}", "ttl.max") == "100000s"

    assert min(in_threads(save, save, save, lambda _: mount.run_pass(), seconds=1.5)) > 0
    mount.run_pass()
    assert (names(mount), names(mount, "strict")) == (["s0", "s1", "s2", "strict"], [])
    for number in range(3):
        wait_for_links(mount, f"s{number}", 1)
