"""ttlctl index: createIndex, collMod, dropIndex and getIndexes from the shell."""
import json
import os

import pytest

from ctlhelp import FAILED, REFUSED, TTLCTL, USAGE, Terminal, ttlctl
from ttlhelp import index


@pytest.fixture
def there(mount):
    os.makedirs(mount.p("d/e"))
    return mount


def indexes(*words, **kwargs):
    return {entry["index"]: entry for entry in ttlctl("index", "list", "--json", *words, **kwargs).json}


def test_create(there):
    ttlctl("index", "create", "d", "at", "90m", cwd=there.path)
    assert index(there, "d", "at") == {"expireAfterSeconds": 5400, "key": "at"}
    ttlctl("index", "create", "d", "plain", cwd=there.path)
    assert index(there, "d", "plain") == {"key": "plain"}
    got = ttlctl("index", "create", "--json", "d", "x", '{"key":"a.b"}', cwd=there.path).json
    assert got == {"path": "d", "index": "x", "spec": {"key": "a.b"}}


def test_create_from_options(there):
    ttlctl("index", "create", "d", "temp", "--key", "a.b", "--expire-after", "2h", "--filter", '{"kind":"temp"}',
           "--as", "iso8601", "--jitter", "1m", "--hidden", cwd=there.path)
    assert index(there, "d", "temp") == {
        "expireAfterSeconds": 7200, "key": "a.b", "partialFilterExpression": {"kind": "temp"}, "as": "iso8601",
        "jitterSeconds": 60, "hidden": True}
    ttlctl("index", "create", "d", "_ts", "--expire-after=-1", cwd=there.path)
    assert index(there, "d", "_ts")["expireAfterSeconds"] == -1


def test_create_refuses_what_exists(there):
    ttlctl("index", "create", "d", "at", "5", cwd=there.path)
    assert "index.at" in ttlctl("index", "create", "d", "at", "6", cwd=there.path, status=REFUSED).err
    assert "again" in ttlctl("index", "create", "d", "again", "--key=at", cwd=there.path, status=REFUSED).err
    assert index(there, "d", "at")["expireAfterSeconds"] == 5


def test_modify(there):
    ttlctl("index", "modify", "d", "at", "6", cwd=there.path, status=REFUSED)
    ttlctl("index", "create", "d", "at", cwd=there.path)
    ttlctl("index", "modify", "d", "at", "6", cwd=there.path)
    assert index(there, "d", "at") == {"expireAfterSeconds": 6, "key": "at"}
    ttlctl("index", "modify", "d", "at", "--hidden", "--expire-after", "1d", cwd=there.path)
    assert index(there, "d", "at") == {"expireAfterSeconds": 86400, "key": "at", "hidden": True}
    ttlctl("index", "modify", "d", "at", "--visible", cwd=there.path)
    assert not index(there, "d", "at").get("hidden")


def test_drop(there):
    for name in ("a", "b", "c"):
        ttlctl("index", "create", "d", name, "5", cwd=there.path)
    ttlctl("index", "drop", "d", "a", "b", cwd=there.path)
    answer = ttlctl("index", "drop", "d", "a", "c", cwd=there.path, status=REFUSED)
    assert answer.err == "ttlctl: d: no index a is set here\n"
    assert there.lst("d") == [], "the others are dropped all the same"
    ttlctl("index", "drop", "nowhere", "a", cwd=there.path, status=FAILED)


def test_list_shows_what_is_in_force(there):
    ttlctl("index", "create", ".", "at", "5", cwd=there.path)
    ttlctl("index", "create", "d", "at", "7", cwd=there.path)
    ttlctl("index", "create", "d", "other", cwd=there.path)
    found = indexes("d/e", cwd=there.path)
    assert {name: entry["spec"].get("expireAfterSeconds") for name, entry in found.items()} == {"at": 7, "other": None}
    assert found["at"]["from"] == str(there.p("d"))
    assert indexes(cwd=there.path)["at"]["spec"]["expireAfterSeconds"] == 5
    there.set("d/e", "ttl.index.at", "off")
    assert set(indexes("d/e", cwd=there.path)) == {"other"}
    lines = ttlctl("index", "list", "d", cwd=there.path).lines
    assert lines[0].split() == ["NAME", "KEY", "E", "MORE", "SET"]
    assert lines[1].split() == ["at", "at", "7", "-", "here"]
    assert ttlctl("index", "list", cwd=there.p("d/e")).lines[2].split() == ["other", "other", "-", "-", str(there.p("d"))]


@pytest.mark.parametrize("words", [
    [], ["nonsense"], ["create", "d"], ["create", "d", "a", "5", "6"], ["create", "d", "a", "5", "--key=x"],
    ["create", "d", "a", "--expire-after", "soon"], ["create", "d", "a", "--expire-after", "500ms"],
    ["modify", "d", "a"], ["drop", "d"], ["list", "d", "e"], ["explain", "d"], ["explain", "d", '{"a":"b/c"}'],
    ["explain", "d", '{"a":"' + 300 * "x" + '"}']])
def test_wrong_usage(there, words):
    ttlctl("index", *words, cwd=there.path, status=USAGE)
    assert there.lst("d") == []


def test_refusals_have_reasons(there):
    answer = ttlctl("index", "create", "d", "a", "--filter", "{", cwd=there.path, status=REFUSED)
    assert answer.err.startswith("ttlctl: d: index.a: ") and "Invalid argument" not in answer.err
    answer = ttlctl("index", "create", "d", "a", "--key", "x,y", "--expire-after", "5", cwd=there.path, status=REFUSED)
    assert "compound" in answer.err
    assert there.lst("d") == []


def test_wait_deletes_at_once(make_mount):
    m = make_mount(opts="test-clock,monitor=off")
    m.write("f", {"at": {"$date": "2020-01-01T00:00:00Z"}})
    m.write("g", {"at": {"$date": "2090-01-01T00:00:00Z"}})
    ttlctl("index", "create", "--wait", ".", "at", "0", cwd=m.path)
    assert os.listdir(m.path) == ["g"]
    assert m.status()["metrics"]["ttl"]["deletedDocuments"] == 1


def test_explain(there):
    ttlctl("index", "create", "d", "user", cwd=there.path)
    for name in ("ann", "bob", "cy"):
        there.write(f"d/{name}", {"user": name, "n": 1})
    lines = ttlctl("index", "explain", "d", '{"user":"ann"}', cwd=there.path).lines
    told = dict(line.split(None, 1) for line in lines)
    assert told["stage"] == "IXSCAN" and told["indexName"] == "user" and told["nReturned"] == "1"
    told = ttlctl("index", "explain", "--json", "d", '{"user":"ann"}', '{"n":2}', cwd=there.path).json
    assert told["stage"] == "IXSCAN" and told["nReturned"] == 0
    assert ttlctl("index", "explain", "--json", "d", '{"n":1}', cwd=there.path).json["stage"] == "COLLSCAN"
    answer = ttlctl("index", "explain", "d", '{"$nope":1}', cwd=there.path, status=REFUSED)
    assert answer.err.startswith('ttlctl: d: {"$nope":1}: ') and "$nope" in answer.err[24:]
    ttlctl("index", "explain", "nowhere", "{}", cwd=there.path, status=FAILED)


def test_on_a_terminal(there):
    with Terminal(TTLCTL, "index", "create", "--json", there.p("d"), "at", "5") as terminal:
        assert terminal.ended() == 0
    assert json.loads(terminal.text)["spec"]["expireAfterSeconds"] == 5
