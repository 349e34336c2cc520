"""user.ttl.index.*: creating, changing and dropping indexes, and the values they take (spec 3)."""
import errno
import json
import os
import random

import pytest

from conftest import raises_errno
from ttlhelp import FAR_MS, date, deadline, in_threads, index, names, now_ms, reason

pytestmark = pytest.mark.ttlfs(opts="test-clock,monitor=off")
CREATE, REPLACE = os.XATTR_CREATE, os.XATTR_REPLACE


def ttl_of(mount, name="d", path="."):
    return index(mount, path, name).get("expireAfterSeconds")


@pytest.mark.parametrize("value, seconds", [
    ("0", 0), ("1", 1), ("3600", 3600), ("2147483647", 2147483647),
    ("0s", 0), ("90s", 90), ("15m", 900), ("12h", 43200), ("30d", 2592000), ("2w", 1209600), ("2000ms", 2),
    ('{"expireAfterSeconds":0}', 0), ('{"expireAfterSeconds":10}', 10),
    ('{"expireAfterSeconds":10.0}', 10), ('{"expireAfterSeconds":{"$numberLong":"10"}}', 10),
    ('{"expireAfterSeconds":{"$numberInt":"10"}}', 10), ('{"expireAfterSeconds":2147483647}', 2147483647),
    (' { "key" : "d" , "expireAfterSeconds" : 10 } ', 10),
])
def test_an_index_takes_seconds_durations_and_json(mount, value, seconds):
    mount.set(".", "ttl.index.d", value)
    mount.write("f", {"d": date(FAR_MS)})
    assert ttl_of(mount) == seconds
    assert deadline(mount, "f") == FAR_MS + seconds * 1000
    assert reason(mount, "f") == "index d"


BAD = [
    "", " ", "x", "-1", "-2", "1.5", "10 s", "10x", "10 trailing", "1h30m", "500ms", "1500ms", "0x10",
    "2147483648", "35791395m", "99999999999999999999", "9223372036854775807w",
    "NaN", "Infinity", "-Infinity", "yes", "null", "true", "[]", "[10]", '"10"',
    '{"expireAfterSeconds":"10"}', '{"expireAfterSeconds":"1h"}', '{"expireAfterSeconds":1.5}',
    '{"expireAfterSeconds":-1}', '{"expireAfterSeconds":2147483648}', '{"expireAfterSeconds":1e300}',
    '{"expireAfterSeconds":NaN}', '{"expireAfterSeconds":{"$numberDouble":"NaN"}}',
    '{"expireAfterSeconds":{"$numberDouble":"Infinity"}}', '{"expireAfterSeconds":{"$numberDouble":"-Infinity"}}',
    '{"expireAfterSeconds":{"$numberLong":"-1"}}', '{"expireAfterSeconds":{"$numberLong":"4294967296"}}',
    '{"expireAfterSeconds":true}', '{"expireAfterSeconds":null}', '{"expireAfterSeconds":{}}',
    '{"expireAfterSeconds":[10]}', '{"expireAfterSeconds":{"$date":{"$numberLong":"10"}}}',
    '{"expireAfterSeconds":10', '{"expireAfterSeconds":10}x', '{"expireAfterSeconds":10}{}', '{"expireAfterSeconds":}',
    '{"expireAfterSeconds":10,"unique":true}', '{"ExpireAfterSeconds":10}', '{"expireafterseconds":10}',
    '{"expireAfterSeconds":10,"key":5}', '{"expireAfterSeconds":10,"key":""}', '{"expireAfterSeconds":10,"key":"a..b"}',
    '{"expireAfterSeconds":10,"hidden":"yes"}', '{"expireAfterSeconds":10,"as":"text"}',
    '{"expireAfterSeconds":10,"as":1}', '{"expireAfterSeconds":10,"partialFilterExpression":"x"}',
    '{"expireAfterSeconds":10,"jitterSeconds":-1}', '{"expireAfterSeconds":10,"jitterSeconds":"1"}',
    '{"expireAfterSeconds":10,"key":"a,b"}', '{"expireAfterSeconds":10,"key":"_id"}',
]


@pytest.mark.parametrize("flags", [0, REPLACE], ids=["set", "replace"])
def test_what_is_no_index_is_einval_and_the_old_rule_stays(mount, flags):
    mount.set(".", "ttl.index.d", "77")
    mount.write("f", {"d": date(FAR_MS)})
    before = mount.get(".", "ttl.index.d")
    accepted, wordless = [], []
    for bad in BAD:
        try:
            mount.set(".", "ttl.index.d", bad, flags)
            accepted.append(bad)
            mount.set(".", "ttl.index.d", before)
        except OSError as error:
            assert error.errno == errno.EINVAL, f"{bad}: {error}"
            if len(mount.get(".", "ttl.error").split()) < 2:
                wordless.append(bad)
        assert mount.get(".", "ttl.index.d") == before, bad
        assert deadline(mount, "f") == FAR_MS + 77_000, bad
    assert (accepted, wordless) == ([], [])
    assert mount.lst(".") == ["user.ttl.index.d"]  # user.ttl.error is not listed


def test_what_is_no_index_creates_none(mount):
    for bad in BAD:
        with raises_errno(errno.EINVAL):
            mount.set(".", "ttl.index.d", bad, CREATE)
        with raises_errno(errno.ENODATA):
            mount.get(".", "ttl.index.d")
    assert mount.lst(".") == []


def test_the_reason_of_an_einval_is_in_words_and_in_the_log(mount):
    os.mkdir(mount.p("sub"))
    with raises_errno(errno.EINVAL):
        mount.set("sub", "ttl.index.d", '{"expireAfterSeconds":10,"sparse":true}')
    words = mount.get("sub", "ttl.error")
    assert "sparse" in words
    assert words in mount.log
    with raises_errno(errno.EINVAL):
        mount.set("sub", "ttl.index.d", "2147483648")
    assert mount.get("sub", "ttl.error") != words
    assert "user.ttl.error" not in mount.lst("sub")


def test_an_index_reads_back_as_json_with_its_name_as_the_default_key(mount):
    mount.set(".", "ttl.index.d", "15m")
    spec = index(mount, ".", "d")
    assert (spec["expireAfterSeconds"], spec["key"]) == (900, "d")
    mount.set(".", "ttl.index.plain", "{}")
    spec = index(mount, ".", "plain")
    assert "expireAfterSeconds" not in spec and spec["key"] == "plain"


@pytest.mark.parametrize("value", [
    "90", "15m", "{}", '{"expireAfterSeconds":5,"key":"a.b"}',
    '{"key":"d","expireAfterSeconds":5,"as":"epochSeconds","hidden":true,"jitterSeconds":3,'
    '"partialFilterExpression":{"n":{"$gt":5},"$or":[{"s":"x"},{"t":{"$exists":true}}]}}',
])
def test_setting_back_what_was_read_changes_nothing(mount, value):
    mount.set(".", "ttl.index.d", value)
    mount.write("f", {"d": FAR_MS // 1000, "a": {"b": date(FAR_MS)}, "n": 6, "s": "x"})
    before = mount.get(".", "ttl.index.d"), mount.get("f", "ttl.deadline")
    for flags in (0, REPLACE):
        mount.set(".", "ttl.index.d", before[0], flags)
        assert (mount.get(".", "ttl.index.d"), mount.get("f", "ttl.deadline")) == before
    mount.rm(".", "ttl.index.d")
    mount.set(".", "ttl.index.d", before[0], CREATE)
    assert (mount.get(".", "ttl.index.d"), mount.get("f", "ttl.deadline")) == before


def test_create_of_an_existing_name_is_eexist(mount):
    mount.set(".", "ttl.index.d", "10", CREATE)
    for value in ("10", "20", '{"key":"other","expireAfterSeconds":10}'):
        with raises_errno(errno.EEXIST):
            mount.set(".", "ttl.index.d", value, CREATE)
    assert ttl_of(mount) == 10


def test_create_with_key_and_filter_of_another_index_is_eexist(mount):
    mount.set(".", "ttl.index.d", "10", CREATE)
    for value in ('{"key":"d","expireAfterSeconds":10}', '{"key":"d","expireAfterSeconds":99}', '{"key":"d"}'):
        with raises_errno(errno.EEXIST):
            mount.set(".", "ttl.index.other", value, CREATE)
    assert mount.lst(".") == ["user.ttl.index.d"]

    # Another filter makes another index; the same filter again does not.
    filtered = {"key": "d", "expireAfterSeconds": 5, "partialFilterExpression": {"s": "x"}}
    mount.set(".", "ttl.index.filtered", json.dumps(filtered), CREATE)
    with raises_errno(errno.EEXIST):
        mount.set(".", "ttl.index.again", json.dumps(filtered), CREATE)
    assert mount.lst(".") == ["user.ttl.index.d", "user.ttl.index.filtered"]


def test_replace_of_what_is_not_there_is_enodata(mount):
    with raises_errno(errno.ENODATA):
        mount.set(".", "ttl.index.d", "10", REPLACE)
    assert mount.lst(".") == []


def test_replace_turns_a_plain_index_into_a_ttl_index(mount):
    mount.set(".", "ttl.index.d", "{}", CREATE)
    mount.write("f", {"d": date(now_ms(mount) - 10_000)})
    assert deadline(mount, "f") is None
    mount.set(".", "ttl.index.d", "3600", REPLACE)
    assert ttl_of(mount) == 3600 and mount.exists("f")
    mount.set(".", "ttl.index.d", "5", REPLACE)
    assert not mount.exists("f")


def test_setfattr_without_a_flag_creates_and_changes(mount):
    mount.write("f", {"d": date(FAR_MS)})
    for seconds in (5, 7):
        mount.set(".", "ttl.index.d", seconds)
        assert deadline(mount, "f") == FAR_MS + seconds * 1000


@pytest.mark.parametrize("name, value", [
    ("_id", "10"), ("_id", '{"expireAfterSeconds":0}'), ("x", '{"key":"_id","expireAfterSeconds":10}'),
    ("a,b", "10"), ("x", '{"key":"a,b","expireAfterSeconds":10}'), ("x", '{"key":"d,_id","expireAfterSeconds":10}'),
])
def test_compound_keys_and_id_take_no_ttl(mount, name, value):
    with raises_errno(errno.EINVAL):
        mount.set(".", f"ttl.index.{name}", value)
    assert mount.get(".", "ttl.error").strip()
    assert mount.lst(".") == []


def test_compound_keys_and_id_are_fine_as_plain_indexes_and_stay_plain(mount):
    mount.set(".", "ttl.index.both", '{"key":"d,e"}')
    mount.set(".", "ttl.index._id", "{}")
    mount.write("f", {"d": date(0), "e": date(0)})
    assert deadline(mount, "f") is None
    for name, value in (("both", '{"key":"d,e","expireAfterSeconds":1}'), ("_id", "1")):
        with raises_errno(errno.EINVAL):
            mount.set(".", f"ttl.index.{name}", value, REPLACE)
    assert mount.exists("f")


def test_minus_one_is_for_ts_alone(mount):
    for value in ("-1", '{"expireAfterSeconds":-1}'):
        mount.set(".", "ttl.index._ts", value)
        assert ttl_of(mount, "_ts") == -1
        with raises_errno(errno.EINVAL):
            mount.set(".", "ttl.index.d", value)
    for value in ("-2", '{"expireAfterSeconds":-2}'):
        with raises_errno(errno.EINVAL):
            mount.set(".", "ttl.index._ts", value)
    assert ttl_of(mount, "_ts") == -1


def test_raising_e_saves_and_lowering_it_kills(mount):
    mount.set(".", "ttl.index.d", "3600")
    mount.write("f", {"d": date(now_ms(mount) - 100_000)})
    for _ in range(2):
        assert mount.exists("f")
        mount.set(".", "ttl.index.d", "50")
        assert not mount.exists("f") and names(mount) == []
        mount.set(".", "ttl.index.d", "3600")
    assert names(mount) == ["f"]


def test_dropping_the_index_saves_the_documents_not_yet_deleted(mount):
    mount.set(".", "ttl.index.d", "0")
    mount.write("f", {"d": date(0)})
    assert not mount.exists("f")
    mount.rm(".", "ttl.index.d")
    assert mount.read("f") and deadline(mount, "f") is None
    with raises_errno(errno.ENODATA):
        mount.rm(".", "ttl.index.d")
    with raises_errno(errno.ENODATA):
        mount.get(".", "ttl.index.d")
    mount.run_pass()
    assert mount.exists("f")


def test_an_index_that_comes_after_the_documents_holds_for_them(any_mount):
    now = now_ms(any_mount)
    os.makedirs(any_mount.p("a/b"))
    for i in range(600):
        where = ("", "a/", "a/b/")[i % 3]
        any_mount.write(f"{where}{i}", {"d": date(now - 10_000 if i % 2 else now + 3_600_000)})
    any_mount.set(".", "ttl.index.d", "0")
    left = names(any_mount) + names(any_mount, "a") + names(any_mount, "a/b")
    assert sorted(left) == sorted([str(i) for i in range(0, 600, 2)] + ["a", "b"])
    any_mount.run_pass()
    assert any_mount.status()["metrics"]["ttl"]["deletedDocuments"] == 300


def test_several_indexes_and_the_earliest_wins(mount):
    mount.set(".", "ttl.index.a", "100")
    mount.set(".", "ttl.index.b", "50")
    mount.write("f", {"a": date(FAR_MS), "b": date(FAR_MS)})
    assert (deadline(mount, "f"), reason(mount, "f")) == (FAR_MS + 50_000, "index b")
    mount.write("f", {"a": date(FAR_MS - 60_000), "b": date(FAR_MS)})
    assert (deadline(mount, "f"), reason(mount, "f")) == (FAR_MS + 40_000, "index a")
    mount.rm(".", "ttl.index.a")
    assert reason(mount, "f") == "index b"
    mount.write("f", {"a": date(0)})
    assert (deadline(mount, "f"), reason(mount, "f")) == (None, "none")


def test_a_hidden_index_still_expires(mount):
    mount.set(".", "ttl.index.d", '{"expireAfterSeconds":5,"hidden":true}')
    assert index(mount, ".", "d")["hidden"] is True
    mount.write("f", {"d": date(now_ms(mount) - 6000)})
    assert not mount.exists("f")


def test_inherited_indexes_are_in_force_but_not_set_here(mount):
    os.mkdir(mount.p("sub"))
    mount.set(".", "ttl.index.d", "100")
    assert index(mount, "sub", "d") == index(mount, ".", "d")
    assert mount.lst("sub") == []
    with raises_errno(errno.ENODATA):
        mount.set("sub", "ttl.index.d", "10", REPLACE)
    with raises_errno(errno.ENODATA):
        mount.rm("sub", "ttl.index.d")
    mount.set("sub", "ttl.index.d", "10", CREATE)
    mount.write("sub/f", {"d": date(FAR_MS)})
    assert deadline(mount, "sub/f") == FAR_MS + 10_000
    assert (mount.lst("sub"), ttl_of(mount)) == (["user.ttl.index.d"], 100)
    mount.rm("sub", "ttl.index.d")
    assert deadline(mount, "sub/f") == FAR_MS + 100_000


def test_off_stops_an_inherited_index(mount):
    os.makedirs(mount.p("sub/deeper"))
    mount.set(".", "ttl.index.d", "100")
    mount.set("sub", "ttl.index.d", "off")
    mount.write("sub/deeper/f", {"d": date(FAR_MS)})
    assert mount.get("sub", "ttl.index.d") == "off" and mount.lst("sub/deeper") == []
    assert deadline(mount, "sub/deeper/f") is None
    mount.rm("sub", "ttl.index.d")
    assert deadline(mount, "sub/deeper/f") == FAR_MS + 100_000


@pytest.mark.tsan
def test_documents_made_while_indexes_come_and_go(mount):
    now = now_ms(mount)

    def write(number):
        mount.write(f"{number}-{random.randrange(200)}", {"d": date(FAR_MS), "old": date(now - 10_000)})

    def change(_):
        mount.set(".", "ttl.index.d", random.randrange(1000))
        mount.set(".", "ttl.index.e", '{"key":"d","expireAfterSeconds":1,"partialFilterExpression":{"x":1}}')
        mount.rm(".", "ttl.index.d")
        mount.rm(".", "ttl.index.e")

    assert min(in_threads(write, write, write, change, lambda _: mount.run_pass(), seconds=1.5)) > 0
    mount.set(".", "ttl.index.d", "7")
    assert {deadline(mount, name) for name in names(mount)} == {FAR_MS + 7000}
    mount.set(".", "ttl.index.old", "0")
    assert names(mount) == []
