"""partialFilterExpression: which documents an index lets expire (spec 3)."""
import errno
import json
import os

import pytest

from conftest import raises_errno
from ttlhelp import FAR_MS, bson, date, deadline, in_threads, index, long, names, now_ms

pytestmark = pytest.mark.ttlfs(opts="test-clock,monitor=off")


def filtered(expression, seconds=0):
    return json.dumps({"expireAfterSeconds": seconds, "partialFilterExpression": expression})


# filter -> (documents that match, documents that do not), without their date
FILTERS = {
    '{}': ([{}, {"a": 1}], []),
    '{"s":"done"}': ([{"s": "done"}, {"s": ["x", "done"]}], [{"s": "Done"}, {}, {"s": 1}, {"s": None}]),
    '{"s":{"$eq":"done"}}': ([{"s": "done"}], [{"s": "open"}, {}]),
    '{"n":5}': ([{"n": 5}, {"n": 5.0}, {"n": long(5)}, {"n": [1, 5]}], [{"n": "5"}, {"n": 5.5}, {}]),
    '{"n":null}': ([{}, {"n": None}], [{"n": 0}, {"n": ""}]),
    '{"a":{"b":1}}': ([{"a": {"b": 1}}], [{"a": {"b": 1, "c": 1}}, {"a": 1}]),
    '{"n":{"$gt":5}}': ([{"n": 6}, {"n": 5.1}, {"n": [1, 9]}], [{"n": 5}, {"n": "9"}, {}, {"n": None}]),
    '{"n":{"$gte":5}}': ([{"n": 5}, {"n": long(6)}], [{"n": 4.9}, {"n": "z"}, {}]),
    '{"n":{"$lt":5}}': ([{"n": 4}, {"n": -1e300}], [{"n": 5}, {"n": ""}, {}, {"n": True}]),
    '{"n":{"$lte":5}}': ([{"n": 5}, {"n": 5.0}], [{"n": 6}, {"n": {}}]),
    '{"n":{"$gt":2,"$lt":5}}': ([{"n": 3}], [{"n": 2}, {"n": 5}]),
    '{"s":{"$gt":"b"}}': ([{"s": "c"}, {"s": "ba"}], [{"s": "a"}, {"s": "b"}, {"s": 99}]),
    '{"t":{"$lt":{"$date":"2000-01-01T00:00:00Z"}}}': ([{"t": date(0)}], [{"t": date(FAR_MS)}, {"t": 0}, {}]),
    '{"s":{"$exists":true}}': ([{"s": 1}, {"s": None}, {"s": []}], [{}, {"S": 1}]),
    '{"s":{"$exists":false}}': ([{}], [{"s": 1}, {"s": None}]),
    '{"n":{"$type":"string"}}': ([{"n": "x"}, {"n": [1, "x"]}], [{"n": 1}, {}, {"n": None}]),
    '{"n":{"$type":2}}': ([{"n": "x"}], [{"n": 2}]),
    '{"n":{"$type":"number"}}': ([{"n": 1}, {"n": 1.5}, {"n": long(2**40)}], [{"n": "1"}, {"n": True}]),
    '{"n":{"$type":["bool","null"]}}': ([{"n": True}, {"n": None}], [{"n": 1}, {}]),
    '{"n":{"$in":[1,"x",null]}}': ([{"n": 1}, {"n": "x"}, {}, {"n": 1.0}, {"n": [7, 1]}], [{"n": 2}, {"n": "1"}]),
    '{"n":{"$in":[]}}': ([], [{"n": 1}, {}]),
    '{"$and":[{"a":1},{"b":{"$gt":1}}]}': ([{"a": 1, "b": 2}], [{"a": 1}, {"b": 2}, {"a": 1, "b": 1}]),
    '{"a":1,"b":2}': ([{"a": 1, "b": 2}], [{"a": 1}, {"b": 2}]),
    '{"$or":[{"a":1},{"b":1}]}': ([{"a": 1}, {"b": 1, "a": 2}], [{"a": 2}, {}]),
    '{"$or":[{"a":1},{"$and":[{"b":1},{"c":1}]}],"d":{"$exists":true}}': ([{"a": 1}, {"b": 1, "c": 1}], [{"b": 1}]),
    '{"a.b":1}': ([{"a": {"b": 1}}, {"a": [{"b": 2}, {"b": 1}]}], [{"a": {"b": 2}}, {"a": 1}, {"b": 1}]),
    '{"a.b":{"$exists":true}}': ([{"a": {"b": None}}], [{"a": {}}, {"b": 1}]),
}


@pytest.mark.parametrize("expression", FILTERS)
def test_a_filter_lets_expire_what_it_matches(mount, expression):
    mount.set(".", "ttl.index.d", filtered(json.loads(expression)))
    matching, others = FILTERS[expression]
    for number, fields in enumerate([*matching, *others]):
        mount.write(str(number), {"d": date(0), **fields})
    expected = [str(number) for number in range(len(matching), len(matching) + len(others))]
    assert names(mount) == sorted(expected), [*matching, *others]
    mount.run_pass()
    assert names(mount) == sorted(expected)


@pytest.mark.parametrize("expression", [
    '{"s":{"$ne":1}}', '{"s":{"$nin":[1]}}', '{"s":{"$not":{"$gt":1}}}', '{"$nor":[{"s":1}]}', '{"s":{"$regex":"a"}}',
    '{"s":{"$mod":[2,0]}}', '{"s":{"$size":1}}', '{"s":{"$all":[1]}}', '{"s":{"$elemMatch":{"x":1}}}',
    '{"$where":"true"}', '{"$expr":{"$gt":["$a",1]}}', '{"$text":{"$search":"x"}}', '{"s":{"$foo":1}}', '{"$foo":1}',
    '{"s":{"$in":1}}', '{"s":{"$type":"nonsense"}}', '{"s":{"$type":{}}}', '{"$and":1}', '{"$or":{}}', '{"$or":[1]}',
    '{"$and":[]}', '{"$or":[]}', '{"$or":[{"s":{"$ne":1}}]}', '{"s":{"$gt":1,"$ne":2}}', '[]', '1', '"s"', 'null',
])
def test_other_operators_and_operands_are_einval(mount, expression):
    mount.set(".", "ttl.index.d", filtered({"s": 1}, 77))
    before = mount.get(".", "ttl.index.d")
    with raises_errno(errno.EINVAL):
        mount.set(".", "ttl.index.d", filtered(json.loads(expression)))
    assert mount.get(".", "ttl.error").strip()
    assert mount.get(".", "ttl.index.d") == before


def test_the_filter_reads_back_as_it_was_set(mount):
    expression = {"$or": [{"s": {"$in": ["x", "y"]}}, {"n": {"$gt": 5, "$lte": 9}}], "a.b": {"$exists": True}}
    mount.set(".", "ttl.index.d", filtered(expression))
    assert index(mount, ".", "d")["partialFilterExpression"] == expression


def test_a_document_moves_in_and_out_of_the_filter(mount):
    mount.set(".", "ttl.index.d", filtered({"state": "done"}))
    mount.write("f", {"d": date(FAR_MS), "state": "open"})
    assert deadline(mount, "f") is None
    mount.write("f", {"d": date(FAR_MS), "state": "done"})
    assert deadline(mount, "f") == FAR_MS
    mount.write("f", {"d": date(FAR_MS), "state": ["open"]})
    assert deadline(mount, "f") is None
    mount.write("f", bson({"d": ("date", FAR_MS), "state": "done"}))
    assert deadline(mount, "f") == FAR_MS
    mount.write("f", b"no fields")
    assert deadline(mount, "f") is None
    mount.write("f", {"d": date(0), "state": "done"})
    assert not mount.exists("f")


def test_doc_attributes_move_a_document_in_and_out_of_the_filter(mount):
    mount.set(".", "ttl.index.d", filtered({"state": "done"}))
    mount.write("f", {"d": date(FAR_MS)})
    assert deadline(mount, "f") is None
    mount.set("f", "doc.state", '"done"')
    assert deadline(mount, "f") == FAR_MS
    mount.set("f", "doc.state", '"open"')
    assert deadline(mount, "f") is None
    mount.set("f", "doc.state", '"done"')
    mount.rm("f", "doc.state")
    assert deadline(mount, "f") is None


def test_an_update_out_of_the_filter_saves_under_until_deleted(mount):
    mount.set(".", "ttl.visibility", "until-deleted")
    mount.set(".", "ttl.index.d", filtered({"state": "done"}))
    for name in ("saved", "lost"):
        mount.write(name, {"d": date(0), "state": "done"})
    mount.write("saved", {"d": date(0), "state": "open again"})
    mount.run_pass()
    assert names(mount) == ["saved"]


def test_changing_the_filter_judges_the_documents_afresh(mount):
    mount.write("a", {"d": date(0), "s": "a"})
    mount.write("b", {"d": date(0), "s": "b"})
    for which, left in (("a", ["b"]), ("b", ["a"]), ("c", ["a", "b"])):
        mount.set(".", "ttl.index.d", filtered({"s": which}))
        assert names(mount) == left
    mount.set(".", "ttl.index.d", filtered({"s": {"$in": ["a", "b"]}}, seconds=2147483647))
    assert deadline(mount, "a") == deadline(mount, "b") == 2147483647_000


def test_two_filters_on_one_key(mount):
    mount.set(".", "ttl.index.short", json.dumps({"key": "d", "expireAfterSeconds": 10,
              "partialFilterExpression": {"class": "short"}}), os.XATTR_CREATE)
    mount.set(".", "ttl.index.long", json.dumps({"key": "d", "expireAfterSeconds": 1000,
              "partialFilterExpression": {"class": {"$exists": True}}}), os.XATTR_CREATE)
    mount.write("s", {"d": date(FAR_MS), "class": "short"})
    mount.write("l", {"d": date(FAR_MS), "class": "long"})
    mount.write("n", {"d": date(FAR_MS)})
    assert [deadline(mount, name) for name in "sln"] == [FAR_MS + 10_000, FAR_MS + 1_000_000, None]


def test_comparing_with_the_documents_system_dates(mount):
    limit = now_ms(mount) + 50_000
    mount.set(".", "ttl.index.d", filtered({"_created": {"$lt": date(limit)}}))
    mount.write("early", {"d": date(0)})
    mount.clock_advance(100_000)
    mount.write("late", {"d": date(0)})
    assert names(mount) == ["late"]


@pytest.mark.tsan
def test_filters_and_contents_change_at_once(mount):
    def rewrite(number):
        for state in ("open", "done"):
            mount.write(f"f{number}", {"d": date(FAR_MS), "state": state})

    def change(_):
        for state in ("open", "done"):
            mount.set(".", "ttl.index.d", filtered({"state": state}, 5))

    assert min(in_threads(rewrite, rewrite, rewrite, change, lambda _: mount.run_pass(), seconds=1)) > 0
    mount.set(".", "ttl.index.d", filtered({"state": "done"}, 9))
    assert [deadline(mount, f"f{n}") for n in range(3)] == [FAR_MS + 9000] * 3
