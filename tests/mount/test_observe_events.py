"""`.ttlfs/events`: a stream of what happens to documents."""
import ctypes
import errno
import os
import select
import signal
import subprocess
import threading

import pytest
from conftest import TIME_FACTOR, raises_errno, wait_until
from observehelp import Events, short

MONITOR_OFF = pytest.mark.ttlfs(opts="test-clock,monitor=off")


def create(mount, path):
    os.close(os.open(mount.p(path), os.O_CREAT | os.O_WRONLY, 0o644))


def test_what_is_told(mount):
    os.mkdir(mount.p("c"))
    with Events(mount) as events:
        mount.write("c/a", "one")
        events.until(lambda seen: len(seen) == 2, "created and changed")
        mount.write("c/a", "two")
        events.until(lambda seen: len(seen) == 3, "changed")
        with open(mount.p("c/a"), "rb+") as file:
            os.ftruncate(file.fileno(), 2)
        events.until(lambda seen: len(seen) == 4, "changed")
        os.truncate(mount.p("c/a"), 1)
        os.link(mount.p("c/a"), mount.p("link"))
        os.symlink("c", mount.p("symlink"))
        os.mkfifo(mount.p("fifo"))
        os.rename(mount.p("c/a"), mount.p("b"))
        os.unlink(mount.p("b"))
        os.rename(mount.p("fifo"), mount.p("symlink"))
        events.until(lambda seen: len(seen) == 13, "the rest")
        assert [short(event) for event in events.seen] == [
            "created /c/a", "changed /c/a",
            "changed /c/a",
            "changed /c/a",
            "changed /c/a",
            "created /link",
            "created /symlink",
            "created /fifo",
            "deleted /c/a", "created /b",
            "deleted /b",
            "deleted /fifo", "changed /symlink",
        ]
        assert events.seen[8]["ino"] == events.seen[9]["ino"] == events.seen[0]["ino"]
        assert all(set(event["ts"]) == {"$date"} for event in events.seen)


def test_a_cut_through_a_descriptor_is_a_change_when_it_is_closed(mount):
    mount.write("a", "text")
    with Events(mount) as events:
        fd = os.open(mount.p("a"), os.O_WRONLY)
        os.ftruncate(fd, 2)
        os.ftruncate(fd, 1)
        os.mkfifo(mount.p("before"))
        os.close(fd)
        events.until(lambda seen: len(seen) == 2, "the change")
        os.mkfifo(mount.p("behind"))
        events.until(lambda seen: len(seen) == 3, "what comes behind")
        assert [short(event) for event in events.seen] == ["created /before", "changed /a", "created /behind"]


def test_directories_reading_and_attributes_say_nothing(mount):
    mount.write("a", "text")
    with Events(mount) as events:
        os.mkdir(mount.p("d"))
        os.rename(mount.p("d"), mount.p("e"))
        os.rmdir(mount.p("e"))
        mount.read("a")
        os.stat(mount.p("a"))
        os.chmod(mount.p("a"), 0o600)
        mount.set("a", "ttl.expireAt", "+1h")
        create(mount, "last")
        events.until(lambda seen: seen, "the last one")
        assert [short(event) for event in events.seen] == ["created /last"]


@MONITOR_OFF
def test_expiry(mount):
    mount.set(".", "ttl.idle", "10s")
    create(mount, "idle")
    create(mount, "own")
    mount.set("own", "ttl.expireAt", "+5s")
    with Events(mount) as events:
        mount.clock_advance(20_000)
        create(mount, "own")  # takes the expired one's place
        mount.run_pass()
        events.until(lambda seen: len(seen) == 3, "two expired, one created")
        assert [short(event) for event in events.seen] == ["expired /own", "created /own", "expired /idle"]
        assert [event.get("reason") for event in events.seen] == ["expireAt", None, "idle"]
        assert events.seen[0]["deadline"]["$date"] < events.seen[0]["ts"]["$date"]
    assert not mount.exists("idle") and mount.exists("own")


def test_rename_over_and_exchange(mount):
    for name in ("a", "b", "c", "d"):
        create(mount, name)
    libc = ctypes.CDLL(None, use_errno=True)
    with Events(mount) as events:
        os.rename(mount.p("a"), mount.p("b"))
        exchanged = libc.renameat2(-100, bytes(mount.p("c")), -100, bytes(mount.p("d")), 2)
        assert exchanged == 0
        events.until(lambda seen: len(seen) == 4, "two and two")
        assert [short(event) for event in events.seen] == [
            "deleted /a", "changed /b", "changed /c", "changed /d"]


def test_names_that_are_not_utf8(mount):
    with Events(mount) as events:
        os.close(os.open(mount.p(b"bad\xff\n\""), os.O_CREAT | os.O_WRONLY, 0o644))
        event = events.until(lambda seen: seen, "created")[0]
        assert event["name"] == "bad\ufffd\n\""
        assert bytes.fromhex(event["nameHex"]) == b"bad\xff\n\""


def test_begins_with_what_comes(mount):
    with Events(mount) as early:
        create(mount, "a")
        early.until(lambda seen: seen, "a")
        with Events(mount) as late:
            create(mount, "b")
            late.until(lambda seen: seen, "b")
            early.until(lambda seen: len(seen) == 2, "a and b")
            assert [e["name"] for e in late.seen] == ["b"]
            assert [e["name"] for e in early.seen] == ["a", "b"]
    with Events(mount) as again:
        assert again.drain() == []


def test_nonblocking_read(mount):
    with Events(mount) as events:
        with raises_errno(errno.EAGAIN):
            os.read(events.fd, 100)
        create(mount, "a")
        assert events.until(lambda seen: seen, "a")[0]["name"] == "a"
        with raises_errno(errno.EAGAIN):
            os.read(events.fd, 100)


def test_poll_select_and_epoll(mount):
    with Events(mount) as events, select.epoll() as epoll:
        epoll.register(events.fd, select.EPOLLIN)
        assert select.select([events.fd], [], [], 0)[0] == []
        assert epoll.poll(0) == []
        threading.Timer(0.1, create, (mount, "a")).start()
        assert epoll.poll(20 * TIME_FACTOR) == [(events.fd, select.EPOLLIN)]
        assert select.select([events.fd], [], [], 0)[0] == [events.fd]
        assert [e["name"] for e in events.drain()] == ["a"]
        assert epoll.poll(0) == []
        threading.Timer(0.1, create, (mount, "b")).start()
        assert select.select([events.fd], [], [], 20 * TIME_FACTOR)[0] == [events.fd]
        assert epoll.poll(20 * TIME_FACTOR) == [(events.fd, select.EPOLLIN)]
        assert [e["name"] for e in events.drain()] == ["b"]


def test_edge_triggered_epoll(mount):
    with Events(mount) as events, select.epoll() as epoll:
        epoll.register(events.fd, select.EPOLLIN | select.EPOLLET)
        for name in ("a", "b"):  # nothing is read in between: a new line is a new edge
            create(mount, name)
            assert epoll.poll(20 * TIME_FACTOR) == [(events.fd, select.EPOLLIN)]
        events.until(lambda seen: len(seen) == 2, "both")


def test_poll_of_other_files(mount):
    mount.write("a", "text")
    with open(mount.p("a"), "rb+") as file:
        poll = select.poll()
        poll.register(file, select.POLLIN | select.POLLOUT)
        assert poll.poll(0) == [(file.fileno(), select.POLLIN | select.POLLOUT)]


@pytest.mark.tsan
def test_reads_wait(mount):
    got = []

    def reader():
        fd = os.open(mount.p(".ttlfs/events"), os.O_RDONLY)
        opened.wait()
        data = b""
        while data.count(b"\n") < 3:
            data += os.read(fd, 65536)
        os.close(fd)
        got.append(data)

    opened = threading.Barrier(4)
    readers = [threading.Thread(target=reader) for _ in range(3)]
    for thread in readers:
        thread.start()
    opened.wait(20 * TIME_FACTOR)
    for name in ("a", "b", "c"):
        create(mount, name)
    for thread in readers:
        thread.join(20 * TIME_FACTOR)
    assert len(got) == 3, "a read did not return"
    assert all([b'"a"' in lines[0], b'"b"' in lines[1], b'"c"' in lines[2]] == [True] * 3
               for lines in (data.splitlines() for data in got))


def blocked_cat(mount):
    """cat, in its second read."""
    cat = subprocess.Popen(["cat", str(mount.p(".ttlfs/events"))], stdout=subprocess.PIPE)
    fd = f"/proc/{cat.pid}/fd/3"

    def is_open():
        try:
            return "events" in os.readlink(fd)
        except FileNotFoundError:
            return False
    wait_until(is_open, 20, "cat opens events")
    number = 0

    def has_read():
        nonlocal number
        number += 1
        create(mount, f"for-cat{number}")
        return select.select([cat.stdout], [], [], 0.1)[0]
    wait_until(has_read, 20, "cat reads")
    os.read(cat.stdout.fileno(), 65536)
    return cat


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_a_waiting_read(mount, number):
    cat = blocked_cat(mount)
    cat.send_signal(number)
    assert cat.wait(20 * TIME_FACTOR) == -number
    cat.stdout.close()
    create(mount, "after")


def test_the_end_of_the_mount_ends_a_waiting_read(mount):
    cat = blocked_cat(mount)
    os.kill(mount.pid, signal.SIGTERM)
    assert mount.ended() == 0
    assert cat.wait(20 * TIME_FACTOR) in (0, 1)
    cat.stdout.close()


def test_a_busy_mount_is_not_unmounted(mount):
    with Events(mount):
        done = subprocess.run(["fusermount3", "-u", str(mount.path)], stderr=subprocess.PIPE, check=False)
        assert done.returncode != 0
        create(mount, "still there")


def test_reading_in_pieces(mount):
    with Events(mount) as events:
        for number in range(20):
            create(mount, f"n{number}")
        while len(events.seen) < 20:
            assert events.pull(10, size=7) is not None
        assert [e["name"] for e in events.seen] == [f"n{number}" for number in range(20)]


def test_it_cannot_be_sought_nor_written(mount):
    with Events(mount) as events:
        with raises_errno(errno.ESPIPE):
            os.lseek(events.fd, 0, os.SEEK_SET)
    with raises_errno(errno.EACCES):
        os.open(mount.p(".ttlfs/events"), os.O_WRONLY)
    assert os.stat(mount.p(".ttlfs/events")).st_mode & 0o777 == 0o444


def test_a_slow_reader_loses_the_oldest_lines_and_is_told(mount):
    # Control characters are written as six: few names make many bytes.
    deep = "/".join(["\x01" * 250] * 3)
    os.makedirs(mount.p(deep))
    total = 3500
    directory = os.open(mount.p(deep), os.O_RDONLY)
    try:
        with Events(mount) as slow:
            for number in range(total):
                name = f"{number:04d}" + "\x02" * 250
                os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=directory))
                os.unlink(name, dir_fd=directory)
            slow.until(lambda seen: seen and seen[-1].get("event") == "deleted"
                       and seen[-1]["name"].startswith(f"{total - 1:04d}"), "the last one", 20)
            lost = sum(event["count"] for event in slow.seen if event["event"] == "lost")
            read = [event for event in slow.seen if event["event"] != "lost"]
            assert lost > 0 and lost + len(read) == 2 * total
            # Where it goes on after what was lost nothing is missing.
            at = max(i for i, event in enumerate(slow.seen) if event["event"] == "lost")
            rest = [(int(e["name"][:4]), e["event"]) for e in slow.seen[at + 1:]]
            begin = rest[0][0] * 2 + (rest[0][1] == "deleted")
            assert rest == [(k // 2, ("created", "deleted")[k % 2]) for k in range(begin, 2 * total)]
    finally:
        os.close(directory)


def expire_while_polling(mount, total):
    """Each expiration is told once, in the order of the deadlines."""
    mount.set(".", "ttl.index._created", "10")
    os.mkdir(mount.p("many"))
    directory = os.open(mount.p("many"), os.O_RDONLY)
    for number in range(total):
        os.close(os.open(f"n{number}", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=directory))
    os.close(directory)
    with Events(mount) as events:
        mount.clock_advance(3600_000)
        mount.param("ttlMonitorEnabled", "true")
        events.until(lambda seen: len(seen) >= total, "all expired", 30)
        assert events.drain() == []
        assert all(event["event"] == "expired" and event["collection"] == "/many" for event in events.seen)
        assert sorted(int(event["name"][1:]) for event in events.seen) == list(range(total))
        deadlines = [event["deadline"]["$date"] for event in events.seen]
        assert deadlines == sorted(deadlines)


@pytest.mark.tsan
@MONITOR_OFF
def test_every_expiration_is_told_once(mount):
    expire_while_polling(mount, 5000)


@pytest.mark.long
@pytest.mark.limit(600)
@MONITOR_OFF
def test_100000_expirations(mount):
    expire_while_polling(mount, 100_000)


@pytest.mark.tsan
def test_many_writers_and_readers(mount):
    """Whatever happens at the same time, every reader gets every line once."""
    count = 300

    def work(thread):
        for number in range(count):
            create(mount, f"t{thread}-{number}")
            os.unlink(mount.p(f"t{thread}-{number}"))

    with Events(mount) as one, Events(mount) as other:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
        for thread in threads:
            thread.start()
        for events in (one, other):
            events.until(lambda seen: len(seen) >= 3 * 2 * count, "all")
        for thread in threads:
            thread.join()
        assert [short(e) for e in one.seen] == [short(e) for e in other.seen]
        assert len(set(short(e) for e in one.seen)) == 3 * 2 * count
