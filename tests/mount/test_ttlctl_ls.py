"""ttlctl ls, status and top: what a mount holds and how it stands."""
import json
import os
import signal

import pytest

from ctlhelp import FAILED, OK, TTLCTL, USAGE, Terminal, ttlctl
from ttlhelp import date, now_ms, rfc3339


def listed(*words, **kwargs):
    return ttlctl("ls", "--json", *words, **kwargs).json


def paths(*words, **kwargs):
    return [entry["path"] for entry in listed(*words, **kwargs)]


@pytest.fixture
def documents(mount):
    """One document per kind of deadline, in an order that is not that of their names."""
    mount.set(".", "ttl.index.at", "0")
    now = now_ms(mount)
    mount.write("hour", {"at": date(now + 3_600_000)})
    mount.write("day", {"at": date(now + 86_400_000)})
    mount.write("never", "no date")
    mount.write("minutes", {"at": date(now + 600_000)})
    mount.write("held", {"at": date(now + 60_000)})
    mount.set("held", "ttl.hold", "yes")
    os.symlink("hour", mount.p("link"))
    mount.now = now
    return mount


# ls

def test_sorted_by_deadline(documents):
    found = listed(cwd=documents.path)
    assert [entry["path"] for entry in found] == ["minutes", "hour", "day", "held", "never", "link"]
    minutes, hour, day, held, never, link = found
    assert minutes["deadline"] == documents.get("minutes", "ttl.deadline") == rfc3339(documents.now + 600_000)
    assert 500 < minutes["remaining"] <= 600 and 86_000 < day["remaining"] <= 86_400
    assert hour["reason"] == "index at" and held["reason"] == "hold" and never["reason"] == "none"
    assert held["deadline"] == held["remaining"] == never["deadline"] == never["remaining"] == "never"
    assert link == {"path": "link", "deadline": None, "remaining": None, "reason": None, "size": 4}


def test_for_people(documents):
    lines = ttlctl("ls", cwd=documents.path).lines
    assert lines[0].split() == ["DEADLINE", "REMAINING", "REASON", "NAME"]
    assert lines[1].split("  ")[0] == documents.get("minutes", "ttl.deadline")
    assert lines[1].endswith("index at  minutes") and " 9m 5" in lines[1]
    assert lines[6].split() == ["-", "-", "-", "link"]
    bare = ttlctl("ls", "-q", cwd=documents.path).lines
    assert [line.split()[-1] for line in bare] == [line.split()[-1] for line in lines[1:]]


def test_other_orders(documents):
    assert paths("--sort", "name", cwd=documents.path) == ["day", "held", "hour", "link", "minutes", "never"]
    assert paths("--sort=name", "--reverse", cwd=documents.path)[0] == "never"
    assert paths("--sort", "size", cwd=documents.path)[0] == "link"
    assert paths("-n", "2", cwd=documents.path) == ["minutes", "hour"]
    assert paths("-n", "1", "--reverse", cwd=documents.path) == ["link"]
    ttlctl("ls", "--sort", "colour", cwd=documents.path, status=USAGE)
    ttlctl("ls", "-n", "0", cwd=documents.path, status=USAGE)


def test_below_and_several(mount):
    os.makedirs(mount.p("a/b"))
    mount.set(".", "ttl.max", "1h")
    for name in ("top", "a/one", "a/b/two"):
        mount.write(name, "x")
    assert paths(cwd=mount.path) == ["top"]
    assert sorted(paths("-r", cwd=mount.path)) == ["a/b/two", "a/one", "top"]
    assert sorted(paths("a", "a/b", cwd=mount.path)) == ["a/b/two", "a/one"]
    assert paths("top", cwd=mount.path) == ["top"]
    os.symlink("a", mount.p("to-a"))
    os.symlink("top", mount.p("to-top"))
    assert paths("to-a", cwd=mount.path) == ["to-a/one"]
    assert listed("to-top", cwd=mount.path)[0]["reason"] == "max"
    assert paths(mount.p("a")) == [str(mount.p("a/one"))]


def test_nothing_there(mount):
    answer = ttlctl("ls", cwd=mount.path)
    assert answer.out == "" and answer.err == ""
    assert listed(cwd=mount.path) == []
    answer = ttlctl("ls", "gone", ".", cwd=mount.path, status=FAILED)
    assert answer.err == "ttlctl: gone: No such file or directory\n"


def test_looking_is_no_access(mount):
    mount.set(".", "ttl.idle", "10s")
    mount.write("f", "x")
    was = mount.get("f", "ttl.accessed")
    mount.clock_advance(5000)
    assert 0 < listed(cwd=mount.path)[0]["remaining"] <= 5, "by the mount's clock"
    assert mount.get("f", "ttl.accessed") == was


def test_odd_names(mount):
    mount.set(".", "ttl.max", "1h")
    names = [b"line\nfeed", b"not\xffutf8", b"esc\x1b[2J", b"-rf", b"two  blanks", b"\xc2\x9b2J", "ä".encode()]
    for name in names:
        mount.write(name, "x")
    long = b"x" * 255
    mount.write(long, "x")
    found = listed(cwd=mount.path)
    got = {bytes.fromhex(entry["pathHex"]) if "pathHex" in entry else entry["path"].encode() for entry in found}
    assert got == {*names, long}
    text = ttlctl("ls", cwd=mount.path).out
    assert text.count("\n") == len(names) + 2 and "\x1b" not in text and "\x9b" not in text
    for shown in ("line\\nfeed", "not\\xFFutf8", "esc\\e[2J", "\\xC2\\x9B2J", "ä"):
        assert shown in text


def test_paths_longer_than_one_call_takes(mount):
    mount.set(".", "ttl.max", "1h")
    depth = 40
    here = os.open(mount.path, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("deep", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    (found,) = listed("-r", cwd=mount.path)
    assert len(found["path"]) == 201 * depth + 4 and found["reason"] == "max"


# status

def test_status(documents):
    text = ttlctl("status", documents.path).out
    assert f"mount      {documents.path}\n" in text and "store      memory:\n" in text
    assert "documents  6," in text and "monitor    " in text
    told = ttlctl("status", "--json", cwd=documents.path).json
    assert told["documents"] == 6 and told["pid"] == documents.pid
    assert told["metrics"]["ttl"]["errors"] == 0


# top

def test_top_in_a_pipe(documents):
    text = ttlctl("top", "-n", "2", "-d", "0.01", documents.path).out
    assert text.count(f"{documents.path}  ") == 2 and "\x1b" not in text and "/s\n" in text
    lines = ttlctl("top", "--json", "-n", "3", "-d", "0.01", cwd=documents.path).jsonl
    assert len(lines) == 3 and all(line["documents"] == 6 for line in lines)
    assert {"passes", "deletedDocuments"} <= set(lines[0]["metrics"]) & set(lines[0]["perSecond"])


def test_top_tells_deletions_per_second(make_mount):
    m = make_mount(opts="test-clock,monitor=off")
    m.set(".", "ttl.max", "10s")
    for name in range(500):
        m.write(f"f{name}", "")
    m.clock_advance(20_000)
    with Terminal(TTLCTL, "top", "--json", "-d", "0.05", cwd=m.path) as terminal:
        terminal.wait_for(r"\n")
        m.run_pass()
        terminal.wait_for(r'"deletedDocuments" : 500\b[^\n]*\n')
        terminal.process.send_signal(signal.SIGINT)
        terminal.ended()
    lines = [json.loads(line) for line in terminal.text.splitlines() if line.startswith("{") and line.endswith("}")]
    assert max(line["perSecond"]["deletedDocuments"] for line in lines) > 0


def test_top_on_a_terminal(documents):
    with Terminal(TTLCTL, "top", "-d", "0.05", cwd=documents.path, columns=60, rows=12) as terminal:
        terminal.wait_for(r"\x1b\[H[\s\S]*documents  6,[\s\S]*\x1b\[H[\s\S]*documents  6,[\s\S]*\x1b\[J")
        terminal.type("q")
        assert terminal.ended() == OK
    for line in terminal.text.replace("\x1b[J", "\x1b[K").split("\x1b[K"):
        assert len(line.split("\x1b[H")[-1].strip("\r\n")) <= 60
    assert terminal.text.rstrip().endswith("\x1b[?25h\x1b[?1049l"), "the cursor and the old page are back"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_top_puts_the_terminal_back_when_it_is_interrupted(mount, number):
    with Terminal(TTLCTL, "top", cwd=mount.path) as terminal:
        terminal.wait_for(r"\x1b\[J")
        terminal.process.send_signal(number)
        assert terminal.ended() == OK
    assert "\x1b[?25h" in terminal.text


@pytest.mark.parametrize("words", [[], ["-b"]], ids=["screen", "batch"])
def test_top_ends_with_its_mount(make_mount, words):
    m = make_mount()
    with Terminal(TTLCTL, "top", *words, "-d", "0.05", m.path) as terminal:
        terminal.wait_for("documents")
        m.stop()
        assert terminal.ended() == FAILED
    last = terminal.text.split("\x1b[?1049l")[-1].splitlines()[-1]
    assert last.startswith(f"ttlctl: {m.path}/.ttlfs/status.json: "), "where it stays to be read"
