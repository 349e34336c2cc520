"""What an index finds at its key: contents, dates, arrays, user.doc.*, system fields (spec 2, 3 and 5)."""
import errno
import json
import subprocess
import mmap
import os

import pytest

from conftest import raises_errno, wait_until
from ttlhelp import (FAR_MS, INT64_MAX, bson, created, date, deadline, in_threads, is_near, long, names, opened,
                     reason)

pytestmark = pytest.mark.ttlfs(opts="test-clock,monitor=off")
T = FAR_MS
MIB = 1024 * 1024


def check_keys(mount, cases, options=None):
    """cases: name -> (key, content, the date expected or None). Each in a collection of its own."""
    wrong = {}
    for name, (key, content, expected) in cases.items():
        os.mkdir(mount.p(name))
        mount.set(name, "ttl.index.i", json.dumps({"key": key, "expireAfterSeconds": 50, **(options or {})}))
        mount.write(f"{name}/f", content)
        got = deadline(mount, f"{name}/f")
        if got != (None if expected is None else expected + 50_000):
            wrong[name] = (got, expected)
        assert mount.read(f"{name}/f") == (content if isinstance(content, bytes) else json.dumps(content).encode())
    assert not wrong


def test_keys_arrays_and_what_is_no_date(mount):
    check_keys(mount, {
        "a field": ("d", {"d": date(T)}, T),
        "a dotted path": ("a.b", {"a": {"b": date(T)}}, T),
        "three deep": ("a.b.c", {"a": {"b": {"c": date(T)}}}, T),
        "the earliest of an array": ("d", {"d": [date(T + 5), date(T), date(T + 9)]}, T),
        "elements that are no dates": ("d", {"d": ["x", None, 5, {"x": date(T - 9)}, date(T)]}, T),
        "an array without dates": ("d", {"d": ["x", 1, None]}, None),
        "an empty array": ("d", {"d": []}, None),
        "an array of sub-documents": ("a.b", {"a": [{"b": date(T + 5)}, {"b": date(T)}, {"c": date(0)}, 7]}, T),
        "arrays at two levels": ("a.b", {"a": [{"b": [date(T + 7), date(T)]}, {"b": date(T + 3)}]}, T),
        "an array in an array": ("d", {"d": [[date(T)]]}, None),
        "beside an array in an array": ("d", {"d": [[date(T)], date(T + 1)]}, T + 1),
        "sub-documents in an array in an array": ("a.b", {"a": [[{"b": date(T)}]]}, None),
        "a path through an array element": ("a.1", {"a": [date(T), date(T + 1)]}, T + 1),
        "a path into a scalar": ("a.b", {"a": date(T)}, None),
        "the field is missing": ("d", {"e": date(T)}, None),
        "only deeper down": ("d", {"a": {"d": date(T)}}, None),
        "null": ("d", {"d": None}, None),
        "a number": ("d", {"d": T}, None),
        "an ISO string": ("d", {"d": "2100-01-01T00:00:00Z"}, None),
        "a boolean": ("d", {"d": True}, None),
        "an object id": ("d", {"d": {"$oid": "507f1f77bcf86cd799439011"}}, None),
        "a timestamp": ("d", {"d": {"$timestamp": {"t": 1, "i": 1}}}, None),
        "a sub-document": ("d", {"d": {"x": date(T)}}, None),
        "an empty object": ("d", {}, None),
        "another case": ("d", {"D": date(T)}, None),
        "utf-8": ("größe", {"größe": date(T)}, T),
    })


def test_dates_from_one_end_of_int64_to_the_other(mount):
    mount.set(".", "ttl.index.d", "0")
    for name, ms in (("min", -INT64_MAX - 1), ("min+1", -INT64_MAX), ("year 0", -62167219200000), ("1969", -1000),
                     ("1970", 0)):
        mount.write(name, {"d": date(ms)})
        assert not mount.exists(name), name
    mount.write("relaxed 1969", '{"d":{"$date":"1969-12-31T23:59:59Z"}}')
    assert names(mount) == []

    mount.write("9999", '{"d":{"$date":"9999-12-31T23:59:59.999Z"}}')
    assert mount.get("9999", "ttl.deadline") == "9999-12-31T23:59:59.999Z"
    mount.write("max", {"d": date(INT64_MAX)})
    mount.write("max - 1 s", {"d": date(INT64_MAX - 1000)})
    for seconds in ("0", "1", "2147483647"):
        mount.set(".", "ttl.index.d", seconds)
        for name in ("max", "max - 1 s", "9999"):
            left = mount.get(name, "ttl.remaining")
            assert left == "never" or float(left) > 1e11, (seconds, name)
    # A date before 1970 with an E that reaches beyond now.
    mount.write("1969", {"d": date(-1000)})
    assert deadline(mount, "1969") == 2147483647_000 - 1000
    assert not mount.exists("min") and not mount.exists("min+1")


def test_as_iso8601(mount):
    check_keys(mount, {
        "UTC": ("d", {"d": "2100-01-01T00:00:00Z"}, T),
        "milliseconds": ("d", {"d": "2100-01-01T00:00:00.250Z"}, T + 250),
        "an offset": ("d", {"d": "2100-01-01T02:00:00+02:00"}, T),
        "array": ("d", {"d": ["2100-01-01T00:00:01Z", "2100-01-01T00:00:00Z", "never"]}, T),
        "no date": ("d", {"d": "tomorrow"}, None),
        "no such day": ("d", {"d": "2100-02-30T00:00:00Z"}, None),
        "trailing text": ("d", {"d": "2100-01-01T00:00:00Z or so"}, None),
        "a number": ("d", {"d": T}, None),
    }, {"as": "iso8601"})


@pytest.mark.parametrize("unit, n, step", [("epochSeconds", T // 1000, 1000), ("epochMillis", T, 1)])
def test_as_epoch(mount, unit, n, step):
    check_keys(mount, {
        "int64": ("d", {"d": long(n)}, T),
        "relaxed": ("d", {"d": n + 7}, T + 7 * step),
        "double": ("d", {"d": float(n)}, T),
        "int32": ("d", {"d": {"$numberInt": "2000000000"}}, 2000000000 * step),
        "array": ("d", {"d": [n + 5, n, "x", None]}, T),
        "a string": ("d", {"d": str(n)}, None),
        "a boolean": ("d", {"d": True}, None),
        "NaN": ("d", {"d": {"$numberDouble": "NaN"}}, None),
        "infinite": ("d", {"d": {"$numberDouble": "Infinity"}}, None),
    } if step == 1000 else {
        "int64": ("d", {"d": long(n)}, T),
        "relaxed": ("d", {"d": n + 7}, T + 7),
        "double": ("d", {"d": float(n)}, T),
        "a string": ("d", {"d": str(n)}, None),
    }, {"as": unit})


def test_as_epoch_saturates(mount):
    mount.set(".", "ttl.index.d", '{"expireAfterSeconds":100,"as":"epochSeconds"}')
    mount.write("late", {"d": long(INT64_MAX)})
    mount.write("later", {"d": 1e300})
    mount.write("early", {"d": long(-INT64_MAX)})
    assert names(mount) == ["late", "later"]


DOCUMENT = {"d": date(T), "user": "ann"}
LEGACY = ('{"_id":{"$oid":"507f1f77bcf86cd799439011"},"re":{"$regex":"a.*","$options":"i"},"d":{"$date":%d},'
          '"ref":{"$ref":"c","$id":{"$oid":"507f1f77bcf86cd799439011"}},"u":{"$undefined":true},'
          '"bin":{"$binary":"AQID","$type":"00"},"min":{"$minKey":1},"l":{"$numberLong":"5"}}' % T)
BSON = bson({"d": ("date", T), "user": "ann"})


@pytest.mark.parametrize("content, has_fields", [
    (json.dumps(DOCUMENT), True), ('{"d":{"$date":"2100-01-01T00:00:00Z"}}', True),
    ('{"d":{"$date":"2100-01-01T00:00:00.000+00:00"}}', True), ('{"d":{"$date":%d}}' % T, True), (LEGACY, True),
    ('\n\t {"d":{"$date":%d}} \r\n\n' % T, True), ('{\n  "d": {\n    "$date": %d\n  }\n}\n' % T, True),
    (BSON, True), (bson({"a": {"x": 1}, "l": [1, "x"], "d": ("date", T)}), True),
    ("", False), ("plain text", False), ("{", False), ("{}", False), ('{"d":{"$date":%d}' % T, False),
    ('{"d":{"$date":%d}} x' % T, False), ('{"d":{"$date":%d}}{"d":1}' % T, False),
    ('{"d":{"$date":%d}}\n{"d":1}\n' % T, False), ('[{"d":{"$date":%d}}]' % T, False), ('"d"', False),
    ("{'d':{'$date':%d}}" % T, False), ('{"d":{"$date":%d},}' % T, False), ('{"d":{"$date":"soon"}}', False),
    ('{"d":{"$date":%d},"x":"\xff"}'.encode("latin1") % T, False), (b'{"d":{"$date":%d}}\0' % T, False),
    ('{"a":' * 20000 + "1" + "}" * 20000, False), ('{"d":{"$date":%d},"x":%s}' % (T, "[" * 5000), False),
    (BSON + b"\0", False), (BSON[:-1], False), (BSON[:-1] + b"\1", False), (b"\xff\xff\xff\x7f" + BSON[4:], False),
    (b"\x05\0\0\0\0", False), (os.urandom(3000), False),
], ids=lambda value: None if isinstance(value, bool) else repr(value[:24]))
def test_contents_with_and_without_fields(mount, content, has_fields):
    raw = content if isinstance(content, bytes) else content.encode()
    mount.set(".", "ttl.index.d", "50")
    mount.write("f", raw)
    assert deadline(mount, "f") == (T + 50_000 if has_fields else None)
    assert mount.read("f") == raw


@pytest.mark.parametrize("size, has_fields", [
    (100 * 1024, True), (MIB, True), (16 * MIB, True), (16 * MIB + 1, False)])
def test_contents_up_to_16_mib_have_fields(any_mount, size, has_fields):
    any_mount.set(".", "ttl.index.d", "50")
    head = '{"d":{"$date":%d},"pad":"' % T
    any_mount.write("f", head + "x" * (size - len(head) - 2) + '"}')
    assert os.stat(any_mount.p("f")).st_size == size
    assert deadline(any_mount, "f") == (T + 50_000 if has_fields else None)


def test_fields_are_looked_at_on_close_and_fsync_and_not_before(mount):
    mount.set(".", "ttl.index.d", "0")
    mount.write("old", {"d": date(T)})
    for name, flags in (("new", os.O_CREAT), ("old", os.O_TRUNC)):
        with opened(mount.p(name), os.O_WRONLY | flags) as fd:
            os.write(fd, b'{"d":{"$date":0}}')
            assert mount.exists(name), f"{name}: not closed yet"
            assert name in names(mount)
        assert not mount.exists(name)
    with opened(mount.p("synced"), os.O_WRONLY | os.O_CREAT) as fd:
        os.write(fd, b'{"d":{"$date":0}}')
        assert mount.exists("synced")
        os.fsync(fd)
        assert not mount.exists("synced")
    assert names(mount) == []


def test_content_that_changes_by_append_truncate_and_mmap(mount):
    mount.set(".", "ttl.index.d", "50")
    mount.write("f", {"d": date(T)})
    with open(mount.p("f"), "ab") as file:
        file.write(b"not JSON any more")
    assert deadline(mount, "f") is None
    os.truncate(mount.p("f"), len(json.dumps({"d": date(T)})))
    assert deadline(mount, "f") == T + 50_000
    os.truncate(mount.p("f"), 0)
    assert deadline(mount, "f") is None
    content = json.dumps({"d": date(T)}).encode()
    mount.write("f", b"x" * len(content))
    with opened(mount.p("f"), os.O_RDWR) as fd, mmap.mmap(fd, len(content)) as mapped:
        mapped[:] = content
        mapped.flush()
    wait_until(lambda: deadline(mount, "f") == T + 50_000, 5, "the fields of a mapped file")


def test_a_descriptor_from_before_the_rule_cuts_its_file(mount):
    content = json.dumps({"d": date(T)})
    mount.write("f", content + " and more")
    fd = os.open(mount.p("f"), os.O_WRONLY)
    mount.set(".", "ttl.index.d", "0")
    assert deadline(mount, "f") is None
    os.ftruncate(fd, len(content))
    os.close(fd)
    wait_until(lambda: deadline(mount, "f") == T, 10, "the fields of what is left")


def test_doc_attributes_give_fields_to_any_file(mount):
    mount.set(".", "ttl.index.d", "50")
    mount.set(".", "ttl.index.e", '{"key":"a.b","expireAfterSeconds":0}')
    mount.write("f", b"\x89PNG, say")
    mount.set("f", "doc.d", json.dumps(date(T)))
    assert deadline(mount, "f") == T + 50_000
    mount.set("f", "doc.d", '{"$date":"2099-12-31T23:59:59Z"}')
    assert deadline(mount, "f") == T + 49_000
    mount.set("f", "doc.a.b", json.dumps(date(T + 1)))
    assert (deadline(mount, "f"), reason(mount, "f")) == (T + 1, "index e")
    assert json.loads(mount.get("f", "doc.a.b")) == date(T + 1)
    assert mount.lst("f") == ["user.doc.a.b", "user.doc.d"]
    mount.rm("f", "doc.a.b")
    assert deadline(mount, "f") == T + 49_000
    mount.set("f", "doc.d", "12")
    assert deadline(mount, "f") is None
    mount.rm("f", "doc.d")
    assert mount.lst("f") == [] and mount.read("f") == b"\x89PNG, say"


def test_content_wins_over_doc_attributes(mount):
    mount.set(".", "ttl.index.d", "0")
    mount.write("f", {"d": date(T)})
    mount.set("f", "doc.d", json.dumps(date(T + 5)))
    assert deadline(mount, "f") == T
    mount.write("f", {"d": "no date, but a field"})
    assert deadline(mount, "f") is None
    mount.write("f", {"other": 1})
    assert deadline(mount, "f") == T + 5
    mount.write("f", b"no fields at all")
    assert deadline(mount, "f") == T + 5


def test_a_bare_word_is_a_string_because_setfattr_strips_quotes(mount):
    mount.set(".", "ttl.index.d", json.dumps({"expireAfterSeconds": 0, "as": "iso8601"}))
    mount.write("f")
    subprocess.run(["setfattr", "-n", "user.doc.word", "-v", '"text"', mount.p("f")], check=True, timeout=10)
    assert mount.get("f", "doc.word") == "text"
    mount.set(".", "ttl.index.d", json.dumps({"expireAfterSeconds": 0, "as": "iso8601", "partialFilterExpression": {"word": "text"}}))
    mount.set("f", "doc.d", '"2100-01-01T00:00:00Z"')
    assert mount.get("f", "ttl.reason") == "index d"
    mount.set("f", "doc.word", "true")
    assert mount.get("f", "ttl.reason") == "none"


@pytest.mark.parametrize("value", ["", "'text'", '{"$date":"soon"}', '{"$date"', "12 13", "-", '"half'])
def test_doc_attributes_take_extended_json_only(mount, value):
    mount.write("f")
    mount.set("f", "doc.d", '"old"')
    with raises_errno(errno.EINVAL):
        mount.set("f", "doc.d", value)
    assert mount.get("f", "ttl.error").strip()
    assert mount.get("f", "doc.d") == '"old"'


@pytest.mark.parametrize("key", ["_ts", "_created", "_accessed"])
def test_system_dates_as_keys(mount, key):
    mount.set(".", f"ttl.index.{key}", "100")
    content = {key: date(T), "x": 1}  # the system's field is the stronger one
    mount.write("f", content)
    mount.set("f", "doc." + key, json.dumps(date(T)))
    born = created(mount, "f")

    def is_from(seconds):
        return is_near(deadline(mount, "f"), born + (seconds + 100) * 1000, 5000)

    assert is_from(0) and reason(mount, "f") == f"index {key}"
    mount.clock_advance(60_000)
    mount.read("f")
    wait_until(lambda: is_from(60 if key == "_accessed" else 0), 5, "the read")
    mount.clock_advance(30_000)
    mount.write("f", content)
    wait_until(lambda: is_from(0 if key == "_created" else 90), 5, "the write")
    mount.clock_advance(20_000)
    assert mount.exists("f") == (key != "_created")
    mount.clock_advance(90_000)
    assert not mount.exists("f")


def test_size_and_name_are_fields_but_no_dates(mount):
    mount.set(".", "ttl.index._size", "0")
    mount.write("f", {"_size": date(0), "_id": date(0)})
    assert deadline(mount, "f") is None
    mount.rm(".", "ttl.index._size")
    mount.set(".", "ttl.index.d", '{"expireAfterSeconds":0,"partialFilterExpression":{"_size":{"$gt":100}}}')
    mount.write("small", {"d": date(0), "_size": 1000})
    mount.write("large", {"d": date(0), "_size": 1, "pad": "x" * 100})
    assert (mount.exists("small"), mount.exists("large")) == (True, False)
    mount.set(".", "ttl.index.d", '{"expireAfterSeconds":0,"partialFilterExpression":{"_id":{"$in":["gone","x"]}}}')
    mount.write("gone", {"d": date(0)})
    mount.write("kept", {"d": date(0), "_id": "gone"})
    assert names(mount) == ["f", "kept", "large", "small"]
    os.rename(mount.p("kept"), mount.p("x"))  # the name is a field: it moves into the filter
    assert names(mount) == ["f", "large", "small"]


@pytest.mark.tsan
def test_documents_rewritten_by_several_threads_have_the_fields_of_their_last_content(mount):
    mount.set(".", "ttl.index.d", "50")

    def rewrite(number):
        for other in (T, T + 1000, T + 2000):
            mount.write(f"own{number}", {"d": date(other + number)})
            assert deadline(mount, f"own{number}") == other + number + 50_000
            mount.write("shared", {"d": date(other)})
            mount.set("shared", "doc.d", json.dumps(date(other)))

    assert min(in_threads(*[rewrite] * 4, lambda _: mount.run_pass(), seconds=1.5)) > 0
    mount.write("shared", {"d": date(T + 7000)})
    assert deadline(mount, "shared") == T + 57_000
