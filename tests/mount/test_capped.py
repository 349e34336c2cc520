"""Capped collections: the oldest documents make room for new ones, at every instant."""
import errno
import os
import threading

import pytest
from conftest import raises_errno, run, wait_until
from ttlhelp import (RENAME_EXCHANGE, Watcher, deadline, link_descriptor, names, opened, renameat2, ttl_metrics)


def cap(mount, path, value):
    mount.set(path, "ttl.capped", value)


def make(mount, path, value):
    os.makedirs(mount.p(path), exist_ok=True)
    cap(mount, path, value)


def sizes(mount, path):
    return sum(entry.stat().st_size for entry in os.scandir(mount.p(path)) if entry.is_file(follow_symlinks=False))


# The value


@pytest.mark.parametrize("value", [
    "", "{}", "5", "yes", "[]", '{"max":0}', '{"max":-1}', '{"max":1.5}', '{"max":"3"}', '{"size":0}',
    '{"max":3,"max":4}', '{"max":3,"other":1}', '{"max":3} x', '{"max":null}', '{"max":1e300}', '{"size":true}',
    '{"max":NaN}'])
def test_a_value_that_makes_no_sense_is_refused_with_a_reason(mount, value):
    make(mount, "c", '{"max":3}')
    with raises_errno(errno.EINVAL):
        cap(mount, "c", value)
    assert mount.get("c", "ttl.error")
    assert mount.get("c", "ttl.capped") == '{"max":3}'


def test_it_reads_back_as_it_was_set_and_is_not_inherited(mount):
    make(mount, "c/below", '{"max":2}')
    cap(mount, "c", '{ "size": 100, "max": 2.0 }')
    assert mount.get("c", "ttl.capped") == '{ "size": 100, "max": 2.0 }'
    cap(mount, "c", mount.get("c", "ttl.capped"))
    mount.rm("c/below", "ttl.capped")
    with raises_errno(errno.ENODATA):
        mount.get("c/below", "ttl.capped")
    for number in range(4):
        mount.write(f"c/below/{number}", "x")
        mount.write(f"c/{number}", "x")
    assert names(mount, "c/below") == ["0", "1", "2", "3"]
    assert names(mount, "c") == ["2", "3", "below"]


def test_a_file_cannot_be_capped(mount):
    mount.write("f", "x")
    with raises_errno(errno.EINVAL):
        cap(mount, "f", '{"max":1}')


# Who goes


def test_the_oldest_makes_room_for_the_new_one(any_mount):
    make(any_mount, "c", '{"max":3}')
    for number in range(10):
        any_mount.write(f"c/{number}", str(number))
        assert len(names(any_mount, "c")) == min(number + 1, 3)
    assert names(any_mount, "c") == ["7", "8", "9"]
    assert any_mount.read("c/7") == b"7"
    assert ttl_metrics(any_mount)["evictedDocuments"] == 7
    assert any_mount.status()["collections"]["/c"]["capped"] == {"max": 3, "documents": 3, "bytes": 3}


def test_overwriting_makes_nothing_younger_and_evicts_nobody(mount):
    make(mount, "c", '{"max":2}')
    mount.write("c/a", "1")
    mount.write("c/b", "1")
    mount.write("c/a", "22")
    assert names(mount, "c") == ["a", "b"]
    mount.write("c/new", "1")
    assert names(mount, "c") == ["b", "new"]


def test_bytes_are_kept_too(any_mount):
    make(any_mount, "c", '{"size":1000}')
    for number in range(5):
        any_mount.write(f"c/{number}", b"x" * 300)
    assert names(any_mount, "c") == ["2", "3", "4"]
    any_mount.write("c/large", b"x" * 1000)
    assert names(any_mount, "c") == ["large"]
    any_mount.write("c/empty", b"")
    assert names(any_mount, "c") == ["empty", "large"]


def test_a_document_that_grows_evicts_others_but_never_itself(any_mount):
    make(any_mount, "c", '{"size":100000}')
    any_mount.write("c/first", b"x" * 10)
    for number in range(9):
        any_mount.write(f"c/{number}", b"x" * 10000)
    with opened(any_mount.p("c/first"), os.O_WRONLY | os.O_APPEND) as fd:
        os.write(fd, b"y" * 40000)
        assert names(any_mount, "c") == ["4", "5", "6", "7", "8", "first"]
        os.ftruncate(fd, 95000)
        assert names(any_mount, "c") == ["first"]
    assert any_mount.read("c/first")[:12] == b"x" * 10 + b"yy"


def test_a_document_larger_than_the_cap_is_refused(any_mount):
    make(any_mount, "c", '{"size":1000}')
    any_mount.write("c/old", b"x" * 500)
    with raises_errno(errno.EFBIG):
        any_mount.write("c/f", b"x" * 1001)
    assert "1000" in any_mount.get("c", "ttl.error")
    assert "1000" in any_mount.get("c/f", "ttl.error")
    with raises_errno(errno.EFBIG):
        os.truncate(any_mount.p("c/f"), 1001)
    with opened(any_mount.p("c/f"), os.O_RDWR) as fd:
        with raises_errno(errno.EFBIG):
            os.posix_fallocate(fd, 0, 1001)
        with raises_errno(errno.EFBIG):
            os.pwrite(fd, b"x", 1000)
    assert names(any_mount, "c") == ["f", "old"]
    assert any_mount.read("c/f") == b""
    any_mount.write("outside", b"x" * 1001)
    with raises_errno(errno.EFBIG):
        os.rename(any_mount.p("outside"), any_mount.p("c/in"))
    with raises_errno(errno.EFBIG):
        os.link(any_mount.p("outside"), any_mount.p("c/in"))
    assert any_mount.exists("outside")
    assert names(any_mount, "c") == ["f", "old"]


def test_an_evicted_document_that_is_open_goes_on_unlinked(any_mount):
    make(any_mount, "c", '{"max":1}')
    with opened(any_mount.p("c/a"), os.O_RDWR | os.O_CREAT) as fd:
        os.write(fd, b"before")
        assert any_mount.exists("c/a")
        any_mount.write("c/b", "x")
        assert not any_mount.exists("c/a")
        os.write(fd, b" after")
        assert os.pread(fd, 100, 0) == b"before after"
        assert os.fstat(fd).st_nlink == 0
    assert names(any_mount, "c") == ["b"]


def test_no_cached_name_outlives_its_eviction(mount):
    make(mount, "c", '{"max":1}')
    for number in range(50):
        mount.write(f"c/{number}", "x")
        os.stat(mount.p(f"c/{number}"))
        list(os.scandir(mount.p("c")))
        if number:
            with raises_errno(errno.ENOENT):
                os.stat(mount.p(f"c/{number - 1}"))


def test_all_kinds_of_documents_count_and_directories_do_not(mount):
    make(mount, "c", '{"max":3}')
    os.mkdir(mount.p("c/sub"))
    mount.write("c/file", "x")
    os.symlink("file", mount.p("c/link"))
    os.mkfifo(mount.p("c/fifo"))
    assert names(mount, "c") == ["fifo", "file", "link", "sub"]
    os.symlink("file", mount.p("c/link2"))
    assert names(mount, "c") == ["fifo", "link", "link2", "sub"]
    os.rmdir(mount.p("c/sub"))
    assert names(mount, "c") == ["fifo", "link", "link2"]


# Ways in and out


def test_what_is_moved_or_linked_in_is_the_newest(any_mount):
    any_mount.write("old", "x")
    any_mount.write("older", "x")
    make(any_mount, "c", '{"max":2}')
    any_mount.write("c/a", "x")
    any_mount.write("c/b", "x")
    os.rename(any_mount.p("old"), any_mount.p("c/moved"))
    assert names(any_mount, "c") == ["b", "moved"]
    os.link(any_mount.p("older"), any_mount.p("c/linked"))
    assert names(any_mount, "c") == ["linked", "moved"]
    any_mount.write("c/new", "x")
    assert names(any_mount, "c") == ["linked", "new"]
    assert any_mount.exists("older")


def test_a_document_without_a_name_counts_when_it_gets_one(mount):
    make(mount, "c", '{"max":2}')
    mount.write("c/a", "x")
    mount.write("c/b", "x")
    with opened(mount.p("c"), os.O_TMPFILE | os.O_WRONLY) as fd:
        os.write(fd, b"hello")
        assert names(mount, "c") == ["a", "b"]
        link_descriptor(fd, mount.p("c/t"))
    assert names(mount, "c") == ["b", "t"]


def test_renaming_inside_and_saving_by_rename_evict_nobody(mount):
    make(mount, "c", '{"max":2,"size":100}')
    mount.write("c/a", "x" * 50)
    mount.write("c/b", "x" * 50)
    os.rename(mount.p("c/a"), mount.p("c/z"))
    assert names(mount, "c") == ["b", "z"]
    os.rename(mount.p("c/z"), mount.p("c/b"))
    assert names(mount, "c") == ["b"]
    mount.write("c/y", "y" * 50)
    mount.write("fresh", "z" * 50)
    os.rename(mount.p("fresh"), mount.p("c/b"))
    assert names(mount, "c") == ["b", "y"]
    assert mount.status()["collections"]["/c"]["capped"]["bytes"] == 100


def test_exchange_keeps_the_sums(mount):
    make(mount, "c", '{"size":100}')
    mount.write("c/a", "x" * 60)
    mount.write("c/b", "x" * 30)
    mount.write("out", "y" * 70)
    renameat2(mount.p("c/b"), mount.p("out"), RENAME_EXCHANGE)
    assert names(mount, "c") == ["b"]
    assert mount.read("out") == b"x" * 30
    assert mount.status()["collections"]["/c"]["capped"] == {"size": 100, "documents": 1, "bytes": 70}
    mount.write("big", "y" * 101)
    with raises_errno(errno.EFBIG):
        renameat2(mount.p("big"), mount.p("c/b"), RENAME_EXCHANGE)


def test_two_names_of_one_document_count_twice(mount):
    make(mount, "c", '{"size":100}')
    mount.write("c/a", "x" * 40)
    mount.write("c/b", "x" * 20)
    os.link(mount.p("c/a"), mount.p("c/a2"))
    assert mount.status()["collections"]["/c"]["capped"]["bytes"] == 100
    with opened(mount.p("c/a"), os.O_WRONLY | os.O_APPEND) as fd:
        os.write(fd, b"y" * 5)
    assert names(mount, "c") == ["a", "a2"]
    assert mount.status()["collections"]["/c"]["capped"]["bytes"] == 90


# Setting it later


def test_setting_it_on_a_full_directory_trims(any_mount):
    for number in range(500):
        any_mount.write(f"c/{number}" if number else str(os.mkdir(any_mount.p("c")) or "c/0"), "x")
    cap(any_mount, "c", '{"max":10}')
    assert names(any_mount, "c") == sorted(str(number) for number in range(490, 500))
    cap(any_mount, "c", '{"size":4}')
    assert names(any_mount, "c") == ["496", "497", "498", "499"]


def test_it_can_be_ended(mount):
    for end in (lambda: mount.rm("c", "ttl.capped"), lambda: cap(mount, "c", "off")):
        make(mount, "c", '{"max":1}')
        end()
        for number in range(3):
            mount.write(f"c/{number}", "x")
        assert len(names(mount, "c")) == 3
        mount.set("c", "ttl.index.at", "60")
        mount.rm("c", "ttl.index.at")
    make(mount, "c", '{"max":1}')
    assert names(mount, "c") == ["1"]


# Beside other rules


def test_ttl_indexes_are_refused(mount):
    make(mount, "c", '{"max":5}')
    for name, value in (("_ts", "60"), ("at", "0"), ("at", '{"expireAfterSeconds":5}')):
        with raises_errno(errno.EINVAL):
            mount.set("c", f"ttl.index.{name}", value)
        assert "capped" in mount.get("c", "ttl.error")
    mount.set("c", "ttl.index.plain", "{}")
    with raises_errno(errno.EINVAL):
        mount.set("c", "ttl.index.plain", '{"expireAfterSeconds":5}', os.XATTR_REPLACE)
    assert mount.get("c", "ttl.index.plain") == '{"key":"plain"}'


def test_it_is_refused_where_a_ttl_index_is_in_force(mount):
    os.makedirs(mount.p("a/b"))
    mount.set("a", "ttl.index.at", "60")
    for path in ("a", "a/b"):
        with raises_errno(errno.EINVAL):
            cap(mount, path, '{"max":5}')
        assert "at" in mount.get(path, "ttl.error")
    mount.set("a/b", "ttl.index.at", "off")
    cap(mount, "a/b", '{"max":5}')


def test_a_ttl_index_set_above_has_no_effect_in_it(mount):
    make(mount, "a/c", '{"max":5}')
    mount.write("a/c/f", "x")
    mount.set("a", "ttl.index._ts", "60")
    assert deadline(mount, "a/c/f") is None
    os.mkdir(mount.p("a/c/below"))
    mount.write("a/c/below/f", "x")
    assert deadline(mount, "a/c/below/f") is None


def test_documents_can_still_expire_by_their_own_rules(mount):
    make(mount, "c", '{"max":2}')
    mount.write("c/a", "x")
    mount.set("c/a", "ttl.expireAt", "+10s")
    mount.clock_advance(10_001)
    assert names(mount, "c") == []
    mount.run_pass()
    assert mount.status()["collections"]["/c"]["capped"]["documents"] == 0


def test_what_is_held_is_not_evicted(mount):
    make(mount, "c", '{"max":3}')
    for name in "abc":
        mount.write(f"c/{name}", "x")
    mount.set("c/a", "ttl.hold", "yes")
    mount.write("c/d", "x")
    assert names(mount, "c") == ["a", "c", "d"]
    mount.set("c", "ttl.hold", "yes")
    with raises_errno(errno.ENOSPC):
        mount.write("c/e", "x")
    assert "held" in mount.get("c", "ttl.error")
    assert names(mount, "c") == ["a", "c", "d"]
    mount.rm("c", "ttl.hold")
    mount.write("c/e", "x")
    assert names(mount, "c") == ["a", "d", "e"]


# Watchers


def test_who_watches_an_evicted_file_hears_of_it(mount, tmp_path):
    make(mount, "c", '{"max":1}')
    mount.write("c/a", "x")
    with Watcher(tmp_path, mount.p("c/a"), kinds=("delete_self",)) as watcher:
        mount.write("c/b", "x")
        wait_until(lambda: watcher.names("DELETE_SELF") == ["a"], 20, "IN_DELETE_SELF of the evicted file")


# Remount


@pytest.mark.parametrize("crash", [False, True])
def test_order_and_sums_survive_a_remount(make_mount, crash):
    mount = make_mount("dir", opts="test-clock,commit=0" if crash else "test-clock")
    mount.write("outside", "x" * 10)
    make(mount, "c", '{"max":3,"size":1000}')
    for name in "abc":
        mount.write(f"c/{name}", "x" * 10)
    os.rename(mount.p("outside"), mount.p("c/moved"))
    if crash:
        mount.kill9()
        mount.start()
    else:
        mount.remount()
    assert names(mount, "c") == ["b", "c", "moved"]
    assert mount.status()["collections"]["/c"]["capped"] == {"max": 3, "size": 1000, "documents": 3, "bytes": 30}
    assert mount.lst("c/moved") == []
    mount.write("c/x", "x")
    mount.write("c/y", "x")
    assert names(mount, "c") == ["moved", "x", "y"]
    mount.write("c/z", "x")
    assert names(mount, "c") == ["x", "y", "z"]


# Many at once


@pytest.mark.tsan
def test_the_limits_hold_at_every_instant_under_eight_writers(mount):
    make(mount, "c", '{"max":20,"size":40000}')
    errors = []
    done = threading.Event()

    def write(number):
        try:
            for turn in range(60):
                path = mount.p(f"c/{number}-{turn}")
                with open(path, "wb", buffering=0) as file:
                    file.write(b"x" * (turn * 37 % 3000))
                    file.write(b"y" * (turn * 911 % 9000))
                if turn % 10 == 9:
                    mount.write(f"m{number}", "z" * 500)
                    os.rename(mount.p(f"m{number}"), mount.p(f"c/moved{number}"))
        except BaseException as error:  # raised again below
            errors.append(error)

    def look():
        try:
            while not done.is_set():
                counts = mount.status()["collections"]["/c"]["capped"]
                assert counts["documents"] <= 20 and counts["bytes"] <= 40000, counts
                assert len(os.listdir(mount.p("c"))) <= 20
        except BaseException as error:  # raised again below
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    watcher = threading.Thread(target=look)
    for thread in [watcher, *threads]:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    watcher.join()
    if errors:
        raise errors[0]
    counts = mount.status()["collections"]["/c"]["capped"]
    assert counts["documents"] == len(names(mount, "c")) <= 20
    assert counts["bytes"] == sizes(mount, "c") <= 40000


def test_large_contents_that_grow_at_the_same_time(any_mount):
    make(any_mount, "c", '{"size":3000000}')
    errors = []

    def write(number):
        try:
            for turn in range(3):
                with open(any_mount.p(f"c/{number}-{turn}"), "wb", buffering=0) as file:
                    for _ in range(8):
                        file.write(b"x" * 100_000)
        except BaseException as error:  # raised again below
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert any_mount.status()["collections"]["/c"]["capped"]["bytes"] <= 3_000_000
    if errors:
        raise errors[0]
    counts = any_mount.status()["collections"]["/c"]["capped"]
    assert counts["bytes"] == sizes(any_mount, "c") <= 3_000_000


def test_shell_tools(mount):
    make(mount, "c", '{"max":2}')
    run("sh", "-c", "for i in 1 2 3 4; do echo $i > $0/$i; done", mount.p("c"))
    run("cp", "-a", mount.p("c/4"), mount.p("c/5"))
    assert names(mount, "c") == ["4", "5"]
    run("rm", "-r", mount.p("c"))
