"""Cosmos DB's TTL: the collection's default (E of `_ts`), the content field `ttl`, user.ttl.seconds (spec 3 to 5)."""
import json
import mmap
import os

import pytest

from conftest import wait_until
from ttlhelp import FAR_MS, bson, date, deadline, in_threads, is_near, long, names, now_ms, opened, reason

pytestmark = pytest.mark.ttlfs(opts="test-clock,monitor=off")
MAX = 2**31 - 1

# name -> (the content's fields, the seconds that its `ttl` means; None: as if there were none)
TTLS = {
    "absent": ({}, None), "null": ({"ttl": None}, None), "minus one": ({"ttl": -1}, -1), "zero": ({"ttl": 0}, None),
    "one": ({"ttl": 1}, 1), "n": ({"ttl": 500}, 500), "minus two": ({"ttl": -2}, None),
    "a whole double": ({"ttl": 1.0}, 1), "double n": ({"ttl": {"$numberDouble": "500.0"}}, 500),
    "double -1": ({"ttl": -1.0}, -1), "a fraction": ({"ttl": 1.5}, None), "just below one": ({"ttl": 0.5}, None),
    "a string": ({"ttl": "5"}, None), "2^31 - 1": ({"ttl": MAX}, MAX), "2^31": ({"ttl": 2**31}, None),
    "2^40": ({"ttl": 2**40}, None), "-2^31": ({"ttl": -2**31}, None), "int64 n": ({"ttl": long(500)}, 500),
    "int64 -1": ({"ttl": long(-1)}, -1), "int64 2^31": ({"ttl": long(2**31)}, None), "int64 0": ({"ttl": long(0)}, None),
    "int32 n": ({"ttl": {"$numberInt": "500"}}, 500), "double 2^31": ({"ttl": 2147483648.0}, None),
    "double max": ({"ttl": 2147483647.0}, MAX), "1e300": ({"ttl": 1e300}, None),
    "NaN": ({"ttl": {"$numberDouble": "NaN"}}, None), "Infinity": ({"ttl": {"$numberDouble": "Infinity"}}, None),
    "decimal": ({"ttl": {"$numberDecimal": "500"}}, None), "true": ({"ttl": True}, None),
    "a date": ({"ttl": date(5000)}, None), "an array": ({"ttl": [500]}, None), "a document": ({"ttl": {"ttl": 5}}, None),
    "not at the root": ({"a": {"ttl": 500}}, None), "TTL": ({"TTL": 500}, None), "among others": ({"a": 1, "ttl": 500}, 500),
}


def expected(default, ttl, seconds):
    """The TTL in seconds (None: never) and the reason."""
    if seconds is not None:
        return (None, "none") if seconds == -1 else (seconds, "seconds")
    if default is None:
        return None, "none"
    if ttl is not None:
        return (None, "none") if ttl == -1 else (ttl, "ttl")
    return (None, "none") if default == -1 else (default, "index _ts")


@pytest.mark.parametrize("seconds", [None, 60, -1])
@pytest.mark.parametrize("default", [None, -1, 0, 100])
def test_matrix_of_default_ttl_and_seconds(mount, default, seconds):
    os.mkdir(mount.p("c"))
    mount.set(".", "ttl.visibility", "until-deleted")  # so that a default of 0 can be looked at
    if default is not None:
        mount.set("c", "ttl.index._ts", default)
    wrong = {}
    for name, (fields, ttl) in TTLS.items():
        before = now_ms(mount)
        mount.write(f"c/{name}", {"v": 1, **fields})
        if seconds is not None:
            mount.set(f"c/{name}", "ttl.seconds", seconds)
        want, why = expected(default, ttl, seconds)
        got = deadline(mount, f"c/{name}")
        good = got is None if want is None else is_near(got, before + want * 1000, 1500)
        if not good or reason(mount, f"c/{name}") != why:
            wrong[name] = (got and got - before, reason(mount, f"c/{name}"), want, why)
    assert not wrong

    # And what is due is deleted, nothing else.
    mount.clock_advance(110_000)
    mount.run_pass()
    ends = {name: expected(default, ttl, seconds)[0] for name, (_, ttl) in TTLS.items()}
    left = [name for name, end in ends.items() if end is None or end > 110]
    assert names(mount, "c") == sorted(left)


def test_bson_ttl_counts_like_json(mount):
    mount.set(".", "ttl.index._ts", "-1")
    now = now_ms(mount)
    for name, value in (("n", 500), ("never", -1), ("zero", 0), ("text", "500"), ("large", 2**31)):
        mount.write(name, bson({"ttl": value}))
    assert is_near(deadline(mount, "n"), now + 500_000, 1500) and reason(mount, "n") == "ttl"
    assert [deadline(mount, name) for name in ("never", "zero", "text", "large")] == [None] * 4


def test_ttl_counts_only_while_the_collection_has_a_default(mount):
    mount.write("f", {"ttl": 50})
    assert deadline(mount, "f") is None
    mount.set(".", "ttl.index.d", "5")  # an index on something else is none
    assert deadline(mount, "f") is None
    mount.clock_advance(100_000)
    mount.set(".", "ttl.index._ts", "-1")
    assert not mount.exists("f")
    mount.rm(".", "ttl.index._ts")
    assert mount.exists("f") and reason(mount, "f") == "none"


def test_the_default_is_inherited_and_off_switches_the_ttl_off(mount):
    os.makedirs(mount.p("a/b"))
    mount.set(".", "ttl.index._ts", "100")
    now = now_ms(mount)
    for where in ("a", "a/b"):
        mount.write(f"{where}/own", {"ttl": 50})
        mount.write(f"{where}/default", {})
    assert is_near(deadline(mount, "a/b/own"), now + 50_000, 1500)
    assert is_near(deadline(mount, "a/b/default"), now + 100_000, 1500)
    mount.set("a", "ttl.index._ts", "off")
    assert deadline(mount, "a/own") is None and deadline(mount, "a/b/default") is None
    mount.set("a/b", "ttl.index._ts", "-1")
    assert deadline(mount, "a/own") is None and deadline(mount, "a/b/default") is None
    assert is_near(deadline(mount, "a/b/own"), now + 50_000, 1500)


def test_own_ttl_longer_and_shorter_than_the_default_and_other_indexes(mount):
    mount.set(".", "ttl.index._ts", "100")
    mount.set(".", "ttl.index.d", "0")
    now = now_ms(mount)
    mount.write("longer", {"ttl": 5000})
    mount.write("shorter", {"ttl": 50})
    mount.write("never", {"ttl": -1})
    mount.write("indexed", {"ttl": -1, "d": date(FAR_MS)})
    mount.write("index first", {"ttl": 5000, "d": date(now + 300_000)})
    assert is_near(deadline(mount, "longer"), now + 5_000_000, 1500)
    assert is_near(deadline(mount, "shorter"), now + 50_000, 1500)
    assert deadline(mount, "never") is None
    assert (deadline(mount, "indexed"), reason(mount, "indexed")) == (FAR_MS, "index d")
    assert (deadline(mount, "index first"), reason(mount, "index first")) == (now + 300_000, "index d")


def test_seconds_needs_no_default_and_minus_one_silences_ttl_and_default(mount):
    os.mkdir(mount.p("c"))
    mount.set("c", "ttl.index._ts", "100")
    for where in (".", "c"):
        now = now_ms(mount)
        mount.write(f"{where}/f", {"ttl": 50})
        mount.set(f"{where}/f", "ttl.seconds", "10m")
        assert is_near(deadline(mount, f"{where}/f"), now + 600_000, 1500)
        mount.set(f"{where}/f", "ttl.seconds", "-1")
        assert (deadline(mount, f"{where}/f"), reason(mount, f"{where}/f")) == (None, "none")
        mount.rm(f"{where}/f", "ttl.seconds")
    assert deadline(mount, "f") is None
    assert reason(mount, "c/f") == "ttl"


def test_rewriting_starts_the_ttl_anew_and_changes_it(mount):
    mount.set(".", "ttl.index._ts", "100")
    mount.write("f", {"ttl": 50})
    for ttl, want in ((50, 50), (500, 500), (-1, None), (None, 100), ("x", 100), (20, 20)):
        mount.clock_advance(30_000)
        now = now_ms(mount)
        mount.write("f", {"ttl": ttl})
        got = deadline(mount, "f")
        assert got is None if want is None else is_near(got, now + want * 1000, 1500), ttl
    mount.write("f", b"no fields any more")
    assert reason(mount, "f") == "index _ts"


def test_changing_the_default_holds_for_the_documents_that_are_there(mount):
    mount.set(".", "ttl.index._ts", "-1")
    now = now_ms(mount)
    mount.write("f", {})
    mount.write("own", {"ttl": 7})
    for default in (100, 50, 2147483647):
        mount.set(".", "ttl.index._ts", default)
        assert is_near(deadline(mount, "f"), now + default * 1000, 1500)
        assert is_near(deadline(mount, "own"), now + 7000, 1500)
    mount.set(".", "ttl.index._ts", "-1")
    assert deadline(mount, "f") is None


def append(path):
    with open(path, "ab") as file:
        file.write(b"x")


def write_shared_mapping(path):
    with opened(path, os.O_RDWR) as fd, mmap.mmap(fd, 4) as mapped:
        mapped[0] = 0x78
        mapped.flush()


def truncate_descriptor(path):
    with opened(path, os.O_RDWR) as fd:
        os.ftruncate(fd, 2)


CHANGES = {
    "rewrite": lambda path: path.write_bytes(b"new"), "append": append, "truncate": lambda path: os.truncate(path, 1),
    "ftruncate": truncate_descriptor, "extend": lambda path: os.truncate(path, 100),
    "open O_TRUNC": lambda path: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)), "mmap": write_shared_mapping,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_content_moves_ts(mount, change):
    mount.set(".", "ttl.index._ts", "1000")
    mount.write("f", "some text")
    mount.clock_advance(100_000)
    now = now_ms(mount)
    CHANGES[change](mount.p("f"))
    wait_until(lambda: is_near(deadline(mount, "f"), now + 1_000_000, 1500), 3, f"_ts after {change}")


def test_nothing_else_moves_ts(mount):
    mount.set(".", "ttl.index._ts", "1000")
    path = mount.write("f", "some text")
    os.mkdir(mount.p("sub"))
    before = deadline(mount, "f")
    not_changes = {
        "chmod": lambda: os.chmod(path, 0o600), "chown": lambda: os.chown(path, os.getuid(), os.getgid()),
        "utimens": lambda: os.utime(path), "utimens far": lambda: os.utime(path, (5, 5)),
        "setxattr": lambda: mount.set("f", "comment", "x"), "user.doc": lambda: mount.set("f", "doc.x", "1"),
        "user.ttl": lambda: mount.set("f", "ttl.hold", "no"), "removexattr": lambda: mount.rm("f", "comment"),
        "rename": lambda: os.rename(path, mount.p("g")), "move": lambda: os.rename(mount.p("g"), mount.p("sub/g")),
        "move back": lambda: os.rename(mount.p("sub/g"), path), "link": lambda: os.link(path, mount.p("l")),
        "unlink": lambda: os.unlink(mount.p("l")), "read": lambda: mount.read("f"),
        "open for writing": lambda: os.close(os.open(path, os.O_WRONLY)), "a pass": mount.run_pass,
    }
    for name, act in not_changes.items():
        mount.clock_advance(10_000)
        act()
        where = {"rename": "g", "move": "sub/g"}.get(name, "f")
        assert deadline(mount, where) == before, name


def test_the_systems_ts_is_stronger_than_the_contents(mount):
    mount.set(".", "ttl.index._ts", "1000")
    now = now_ms(mount)
    mount.write("f", {"_ts": date(0)})
    mount.write("g", {"_ts": FAR_MS // 1000})  # Cosmos DB's own is epoch seconds
    mount.set("g", "doc._ts", json.dumps(date(0)))
    assert is_near(deadline(mount, "f"), now + 1_000_000, 1500)
    assert is_near(deadline(mount, "g"), now + 1_000_000, 1500)


@pytest.mark.tsan
def test_rewrites_race_with_expiry_and_passes(mount):
    """Each thread's own document is rewritten before it is due, the shared ones expire all the time."""
    mount.set(".", "ttl.index._ts", "3600")

    def rewrite(number):
        mount.write(f"own{number}", {"ttl": 3600, "round": number})
        assert mount.exists(f"own{number}")
        mount.write(f"short{number}", {"ttl": 1})

    def leap(_):
        mount.clock_advance(1100)
        mount.run_pass()

    assert min(in_threads(rewrite, rewrite, rewrite, leap, seconds=1.5)) > 0
    mount.clock_advance(1100)
    assert names(mount) == ["own0", "own1", "own2"]
    assert mount.status()["metrics"]["ttl"]["deletedDocuments"] > 0
