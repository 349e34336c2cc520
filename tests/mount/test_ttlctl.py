"""ttlctl: options, exit statuses, rules and figures of a path."""
import os

import pytest

from conftest import BINARY, run
from ctlhelp import FAILED, NO_MOUNT, OK, REFUSED, TTLCTL, USAGE, Terminal, ttlctl


# The command line

def test_help_names_every_subcommand_and_every_subcommand_has_help():
    text = ttlctl("--help").out
    listed = [line.split()[0] for line in text.split("\n\n")[1].splitlines()]
    assert {"set", "unset", "get", "hold", "pass"} <= set(listed)
    for name in listed:
        helped = ttlctl(name, "--help")
        assert helped.out.startswith(f"usage: ttlctl {name}")
        assert "--json" in helped.out and helped.err == ""
        assert max(len(line) for line in helped.lines) <= 100


def test_version_is_that_of_ttlfs():
    assert ttlctl("--version").out.split() == ["ttlctl", run(BINARY, "--version").stdout.split()[1].strip(",")]
    assert ttlctl("get", "--version").out == ttlctl("-V").out


@pytest.mark.parametrize("words", [
    [], ["nonsense"], ["--nonsense"], ["get"], ["get", "-x", "."], ["get", "--mount"], ["set", "."],
    ["set", ".", "idle"], ["set", ".", "=5"], ["unset", "."], ["hold"], ["hold", "--release"], ["pass", "a", "b"],
    ["--json=5", "get", "."]])
def test_wrong_usage(words, tmp_path):
    answer = ttlctl(*words, cwd=tmp_path, status=USAGE)
    assert answer.out == "" and answer.err.count("\n") == 1 and "--help" in answer.err


def test_common_options_stand_before_and_behind_the_subcommand(mount):
    for words in (["--json", "get", "."], ["get", "--json", "."], ["get", ".", "--json"]):
        assert ttlctl(*words, cwd=mount.path).json == {"path": ".", "attributes": {}}


def test_not_on_a_mount(tmp_path):
    assert "not on a ttlfs mount" in ttlctl("pass", tmp_path, status=NO_MOUNT).err
    assert "not on a ttlfs mount" in ttlctl("pass", "--mount", tmp_path, status=NO_MOUNT).err
    assert "No such file" in ttlctl("pass", tmp_path / "nothing" / "here", status=FAILED).err


@pytest.mark.parametrize("words", [
    ["get", "DIR"], ["get", "DIR/f", "idle"], ["set", "DIR", "idle=5"], ["unset", "DIR", "idle"], ["hold", "DIR/f"],
    ["hold", "--release", "DIR"], ["ls", "DIR"], ["ls", "--json", "DIR/f"], ["index", "create", "DIR", "a", "5"],
    ["index", "modify", "DIR", "a", "5"], ["index", "drop", "DIR", "a"], ["index", "list", "DIR"],
    ["index", "explain", "DIR", "{}"]])
def test_a_rule_is_set_on_nothing_that_is_on_no_mount(words, tmp_path):
    (tmp_path / "f").write_text("x")
    answer = ttlctl(*[word.replace("DIR", str(tmp_path)) for word in words], status=NO_MOUNT)
    assert "not on a ttlfs mount" in answer.err
    assert os.listxattr(tmp_path) == os.listxattr(tmp_path / "f") == []


def test_the_mount_is_found_from_anywhere_in_it(mount):
    os.makedirs(mount.p("a/b/c"))
    mount.write("a/b/file", "x")
    for path in ("a/b/c", "a/b/file", "."):
        assert ttlctl("pass", "--json", mount.p(path)).json["errors"] == 0
        assert ttlctl("--mount", mount.p(path), "pass", "--json").json["errors"] == 0
    os.symlink(mount.p("a/b"), mount.workdir / "into")
    assert ttlctl("pass", "--json", mount.workdir / "into").json["errors"] == 0
    assert "deleted" in ttlctl("pass", cwd=mount.p("a/b/c")).out


def test_output_that_cannot_be_written(mount):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = run(TTLCTL, "get", mount.path, "--json", check=False, stdout=full)
    assert done.returncode == FAILED


# set, get, unset

def test_set_and_get_a_directory(mount):
    os.mkdir(mount.p("d"))
    ttlctl("set", "d", "idle=1h", "user.ttl.max=2d", "index.at=3600", cwd=mount.path)
    assert mount.get("d", "ttl.idle") == "1h" and mount.get("d", "ttl.max") == "2d"
    assert ttlctl("get", "d", "idle", cwd=mount.path).out == "1h\n"
    assert ttlctl("get", "d", "idle", "max", cwd=mount.path).lines == ["idle=1h", "max=2d"]
    attributes = ttlctl("get", "--json", "d", cwd=mount.path).json["attributes"]
    assert attributes["user.ttl.idle"] == "1h"
    assert attributes["user.ttl.index.at"] == mount.get("d", "ttl.index.at")
    ttlctl("unset", "d", "idle", "user.ttl.index.at", cwd=mount.path)
    assert ttlctl("get", "d", cwd=mount.path).lines == ["max=2d"]


def test_get_shows_the_figures_of_a_file(mount):
    mount.set(".", "ttl.idle", "1h")
    mount.write("f", {"user": "ann"})
    ttlctl("set", mount.p("f"), 'doc.note="text"', "expireAt=+2h")
    attributes = ttlctl("get", "--json", mount.p("f")).json["attributes"]
    assert attributes["user.ttl.reason"] == "idle" and attributes["user.doc.note"] == '"text"'
    assert attributes["user.ttl.deadline"] == mount.get("f", "ttl.deadline")
    assert 3500 < float(attributes["user.ttl.remaining"]) <= 3600
    assert "user.ttl.created" in attributes and "user.ttl.expireAt" in attributes
    assert attributes["user.ttl.idle"] == "1h", "in force, though not set on the file"


def test_values_may_hold_anything(mount):
    mount.write("f", "x")
    ttlctl("set", mount.p("f"), 'doc.text="a=b\\n"')
    assert mount.get("f", "user.doc.text") == '"a=b\\n"'
    assert ttlctl("get", mount.p("f"), "doc.text").out == '"a=b\\n"\n'


def test_a_value_cannot_move_the_cursor(mount):
    mount.write("f", "x")
    mount.set("f", "user.doc.text", '"\x9b2J"')
    with Terminal(TTLCTL, "get", mount.p("f"), "doc.text") as terminal:
        assert terminal.ended() == OK
    assert terminal.text == '"\\xC2\\x9B2J"\r\n'
    assert ttlctl("get", mount.p("f"), "doc.text").out == '"\x9b2J"\n'


def test_json_reports_what_was_done(mount):
    assert ttlctl("set", "--json", ".", "idle=1h", "hold=yes", cwd=mount.path).json == \
        {"path": ".", "set": ["user.ttl.idle", "user.ttl.hold"]}
    assert ttlctl("unset", "--json", ".", "idle", cwd=mount.path).json == {"path": ".", "unset": ["user.ttl.idle"]}


def test_a_refusal_is_told_in_words(mount):
    answer = ttlctl("set", ".", "idle=1h", "index.pair={\"key\":\"a,b\",\"expireAfterSeconds\":5}", "max=1d",
                    cwd=mount.path, status=REFUSED)
    assert answer.err == 'ttlctl: .: index.pair: expireAfterSeconds needs one key, "a,b" is compound\n'
    assert mount.lst(".") == ["user.ttl.idle"], "what stands before it is set, what stands behind is not"
    mount.write("f", "x")
    ttlctl("set", mount.p("f"), "expireAt=+1h")
    assert ttlctl("set", mount.p("f"), "expireAt=nx:+2h", status=REFUSED).err.startswith(f"ttlctl: {mount.p('f')}: expireAt: ")
    ttlctl("set", mount.p("f"), "deadline=never", status=FAILED)


def test_what_is_not_there(mount):
    assert "No such file" in ttlctl("get", mount.p("gone"), status=FAILED).err
    assert "No such file" in ttlctl("set", mount.p("gone"), "idle=1h", status=FAILED).err
    assert "idle is not set" in ttlctl("get", mount.path, "idle", status=FAILED).err
    assert "idle is not set here" in ttlctl("unset", mount.path, "idle", status=FAILED).err
    answer = ttlctl("get", "--json", mount.path, "idle", status=FAILED)
    assert answer.json["attributes"] == {}


def test_errors_are_one_line_whatever_the_name(mount):
    answer = ttlctl("get", os.fsencode(mount.path) + b"/a\nb\x1b\xff", status=FAILED)
    assert answer.err.endswith("/a\\nb\\e\\xFF: No such file or directory\n") and answer.err.count("\n") == 1


def test_names_in_json(mount):
    name = b"x\n\xff\x01"
    mount.write(name, "x")
    mount.set(".", "ttl.idle", "1h")
    got = ttlctl("get", "--json", mount.p(name), "reason").json
    assert bytes.fromhex(got["pathHex"]) == os.fsencode(mount.path) + b"/" + name
    assert got["path"].endswith("/x\n\ufffd\x01") and got["attributes"] == {"user.ttl.reason": "idle"}


# hold

def test_hold_and_release(mount):
    os.mkdir(mount.p("d"))
    mount.set(".", "ttl.idle", "1h")
    for name in ("a", "b"):
        mount.write(f"d/{name}", "x")
    ttlctl("hold", mount.p("d/a"), mount.p("d/b"))
    assert mount.get("d/a", "ttl.reason") == mount.get("d/b", "ttl.reason") == "hold"
    ttlctl("hold", "--release", mount.p("d/a"))
    assert mount.get("d/a", "ttl.reason") == "idle"
    assert "user.ttl.hold" not in mount.lst("d/a")
    ttlctl("hold", mount.p("d"))
    assert mount.get("d/a", "ttl.reason") == "hold"
    got = ttlctl("hold", "--release", "--json", mount.p("d/a"), mount.p("d/b")).json
    assert [one["hold"] for one in got] == [False, False]
    assert mount.get("d/a", "ttl.reason") == "idle", "although its directory is held"
    ttlctl("hold", "--release", mount.p("d"))
    assert mount.lst("d") == []
    answer = ttlctl("hold", mount.p("gone"), mount.p("d/a"), status=FAILED)
    assert "gone" in answer.err and mount.get("d/a", "ttl.hold") == "yes", "the others are tried"


# pass

def test_pass_deletes_what_is_due(make_mount):
    m = make_mount(opts="test-clock,monitor=off")
    m.set(".", "ttl.max", "10s")
    for name in range(20):
        m.write(f"f{name}", "x")
    m.clock_advance(20_000)
    assert ttlctl("pass", "--json", m.path).json["deletedDocuments"] == 20
    assert ttlctl("pass", m.path).out.startswith("0 deleted, 0 errors")
    m.write("again", "x")
    m.clock_advance(20_000)
    ttlctl("set", m.path, "max=5s", "--wait")
    assert m.status()["metrics"]["ttl"]["deletedDocuments"] == 21


@pytest.mark.root
@pytest.mark.ttlfs(opts="test-clock,allow_other,mode=1777")
def test_only_the_owner_starts_a_pass(mount):
    def other():
        os.environ["LC_ALL"] = "C"
        return run(TTLCTL, "pass", check=False)

    if not os.access(TTLCTL, os.X_OK) or mount.run_as(12345, lambda: os.access(TTLCTL, os.X_OK)) is False:
        pytest.skip("the build folder is closed to others")
    done = mount.run_as(12345, other)
    assert done.returncode == FAILED and "owner and root" in done.stdout


# Terminals

def test_progress_needs_a_terminal(mount):
    assert ttlctl("pass", mount.path).err == ""
    with Terminal(TTLCTL, "pass", mount.path) as terminal:
        assert terminal.ended() == OK
        assert "0 deleted" in terminal.text
