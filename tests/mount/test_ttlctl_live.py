"""ttlctl due, histogram, events, and the bar that shows how far long work has come."""
import json
import os
import re
import subprocess
import threading

import pytest

from conftest import TIME_FACTOR
from ctlhelp import FAILED, OK, TTLCTL, USAGE, Terminal, environment, ttlctl
from ttlhelp import date, now_ms, rfc3339


@pytest.fixture
def late(make_mount):
    """Two documents that are due and stay, for nothing deletes them; three that are not due."""
    m = make_mount(opts="test-clock,monitor=off")
    m.set(".", "ttl.visibility", "until-deleted")
    m.set(".", "ttl.index.at", "0")
    os.mkdir(m.p("d"))
    m.now = now_ms(m)
    for name, ms in (("old", -60_000), ("older", -120_000), ("soon", 30_000), ("later", 3_000_000)):
        m.write(f"d/{name}", {"at": date(m.now + ms)})
    m.write("none", "x")
    return m


# due

def test_due(late):
    lines = ttlctl("due", late.path).lines
    assert lines[0].split() == ["DEADLINE", "REASON", "NAME"]
    assert [line.split()[-1] for line in lines[1:]] == ["d/older", "d/old"], "oldest first"
    assert lines[1].startswith(rfc3339(late.now - 120_000)) and "index at" in lines[1]
    told = ttlctl("due", "--json", cwd=late.p("d")).jsonl
    assert [(one["collection"], one["name"]) for one in told] == [("/d", "older"), ("/d", "old")]
    assert len(ttlctl("due", "--json", "-n", "1", cwd=late.path).jsonl) == 1
    assert ttlctl("due", "-q", "-n", "1", cwd=late.path).lines == lines[1:2]
    assert ttlctl("due", "-n", "1", cwd=late.path).lines[-1] == "and more"
    ttlctl("pass", late.path)
    assert ttlctl("due", late.path).out == "nothing is due\n" and ttlctl("due", "--json", late.path).out == ""
    ttlctl("due", "-n", "x", late.path, status=USAGE)


# histogram

def counts(text):
    return {line.split()[0] if line[0] != "<" else line.split()[1]: int(line.split()[-1])
            for line in text.splitlines() if not line.endswith("due")}


def test_histogram(late):
    text = ttlctl("histogram", late.path, COLUMNS="60").out
    found = counts(text)
    assert list(found) == ["1s", "10s", "1m", "10m", "1h", "6h", "1d", "7d", "30d", "90d", "later", "never"]
    assert found["1s"] == 2 and found["1m"] == 1 and found["1h"] == 1 and found["never"] == 1
    assert text.splitlines()[-1] == "5 documents, 2 due"
    assert {len(line) for line in text.splitlines()[:-1]} == {60}
    bars = [line.count("█") for line in text.splitlines()]
    assert max(bars) == bars[0] > 30 and bars[2] == bars[0] // 2 and bars[1] == 0
    assert counts(ttlctl("histogram", "--collection", "d", late.path).out)["never"] == 0
    assert counts(ttlctl("histogram", "--collection", "/", late.path).out)["never"] == 1
    assert ttlctl("histogram", "--json", late.path).json["within"]["1s"] == 2
    assert ttlctl("histogram", "--json", "--collection=/d", late.path).json["documents"] == 4
    ttlctl("histogram", "--collection", "nowhere", late.path, status=FAILED)


def test_histogram_is_as_wide_as_the_terminal(late):
    for columns in (40, 132):
        with Terminal(TTLCTL, "histogram", late.path, columns=columns) as terminal:
            assert terminal.ended() == OK
        assert len(terminal.text.splitlines()[0]) == columns
    assert "#" in ttlctl("histogram", late.path, LC_ALL="C").out


# events

class Listener:
    """ttlctl events in the background, from before anything is made."""

    def __init__(self, mount, *words):
        self.process = subprocess.Popen([str(TTLCTL), "events", "--mount", str(mount.path), "-f", *words],
                                        stdout=subprocess.PIPE, env=environment())
        # Events are told from its open on: this tries until one is heard, which cannot be missed by those behind it.
        self.heard = []
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.heard.append(line.decode())

    def end(self):
        self.process.wait(30 * TIME_FACTOR)
        self.reader.join(30 * TIME_FACTOR)
        self.process.stdout.close()
        assert self.process.returncode == OK
        return self.heard

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()


def until_heard(mount, listener, name):
    """Makes documents until the listener hears of one."""
    made = 0
    while not listener.heard:
        mount.write(f"{name}{made}", "x")
        os.unlink(mount.p(f"{name}{made}"))
        made += 1
        if listener.process.poll() is not None:
            break


def test_events(mount):
    os.mkdir(mount.p("d"))
    os.mkdir(mount.p("d2"))
    with Listener(mount, "--json", "--collection", "d", "--event", "created,deleted", "-n", "4") as listener:
        until_heard(mount, listener, "d/try")
        mount.write("d2/other", "x")
        mount.write("d/a\nb", "x")
        os.unlink(mount.p("d/a\nb"))
        for number in range(4):
            mount.write(f"d/more{number}", "x")
        heard = [json.loads(line) for line in listener.end()]
    assert len(heard) == 4
    assert {one["event"] for one in heard} <= {"created", "deleted"} and {one["collection"] for one in heard} == {"/d"}


def test_events_for_people(mount):
    mount.set(".", "ttl.max", "1h")
    with Listener(mount, "--event=expired", "-n", "2") as listener:
        made = 0
        while listener.process.poll() is None and made < 100_000:
            mount.write(f"a\n{made}", "x")
            mount.set(f"a\n{made}", "ttl.expireAt", "1")
            made += 1
            mount.run_pass()
        heard = listener.end()
    assert len(heard) == 2 and all(line.endswith("  (expireAt)\n") and "  expired   a\\n" in line for line in heard)


def test_events_end_by_themselves(mount):
    assert ttlctl("events", "--seconds", "0.05", mount.path).out == ""
    assert ttlctl("events", "--json", mount.path).out == ""
    ttlctl("events", "--seconds", "nan", mount.path, status=USAGE)
    ttlctl("events", "-n", "-1", mount.path, status=USAGE)


# Bars. A folder that looks like a mount, with a pipe in place of `pass`: the pass lasts as long as the test likes.

def put(path, **members):
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(members))
    fresh.rename(path)


@pytest.fixture
def pretended(tmp_path):
    control = tmp_path / "mount" / ".ttlfs"
    control.mkdir(parents=True)
    put(control / "status.json", backlog=1000)
    os.mkfifo(control / "pass")
    return control


def finish(control):
    with open(control / "pass", "rb") as pipe:
        pipe.read()
    with open(control / "pass", "w", encoding="ascii") as pipe:
        pipe.write(json.dumps({"deletedDocuments": 1000, "errors": 0, "subPasses": 1, "durationMS": 5}))


@pytest.mark.tsan
def test_a_pass_shows_a_bar(pretended):
    with Terminal(TTLCTL, "pass", pretended.parent, columns=80) as terminal:
        terminal.wait_for(r"\r  0%  \[-+\]  deleting 0 of 1000\x1b\[K")
        put(pretended / "status.json", backlog=500)
        half = terminal.wait_for(r"\r 50%  \[(#+)(-+)\]  deleting 500 of 1000\x1b\[K")
        assert len(half[1]) == len(half[2]) and len(half[0]) < 80 + 4
        put(pretended / "status.json", backlog=0)
        terminal.wait_for(r"\r100%  \[#+\]  deleting 1000 of 1000")
        finish(pretended)
        assert terminal.ended() == OK
    assert terminal.text.endswith("\r\x1b[K1000 deleted, 0 errors, 1 sub-passes, 0.005 s\r\n"), "the bar is cleared away"


@pytest.mark.parametrize("words", [["-q"], ["--quiet", "--json"]])
def test_no_bar_when_quiet(pretended, words):
    with Terminal(TTLCTL, *words, "pass", pretended.parent) as terminal:
        finish(pretended)
        assert terminal.ended() == OK
    assert "\x1b" not in terminal.text and "deleting" not in terminal.text


def test_a_bar_without_figures(pretended):
    (pretended / "status.json").write_text("not yet")
    with Terminal(TTLCTL, "pass", pretended.parent) as terminal:
        terminal.wait_for(r"deleting, for \d+ s")
        finish(pretended)
        assert terminal.ended() == OK


# All that can be asked for as JSON is JSON

def test_json_is_json(late):
    for words in (["status"], ["ls"], ["ls", "-r"], ["get", "d"], ["get", "d/old"], ["index", "list"], ["histogram"],
                  ["hold", "d/soon"], ["hold", "--release", "d/soon"], ["set", "d", "max=1d"], ["unset", "d", "max"],
                  ["index", "create", "d", "x"], ["index", "modify", "d", "x", "5"], ["index", "drop", "d", "x"], ["pass"]):
        told = ttlctl("--json", *words, cwd=late.path)
        assert isinstance(told.json, (dict, list)) and told.err == "", words
    for words in (["top", "-n", "1"], ["due"], ["events", "--seconds", "0.01"]):
        for line in ttlctl("--json", *words, cwd=late.path).lines:
            assert re.match(r"\{.*\}$", line) and json.loads(line)
