"""Queries: `.find` in every directory."""
import ctypes
import errno
import json
import os
import subprocess
import threading

import pytest
from conftest import raises_errno, run, wait_until

D2035 = '{"$date":"2035-01-01T00:00:%02dZ"}'


def q(*filters):
    """The path of a query, filters as dicts or texts."""
    return "/".join([".find", *(f if isinstance(f, str) else json.dumps(f) for f in filters)])


def found(m, *filters, at="."):
    return sorted(os.listdir(m.p(f"{at}/{q(*filters)}")))


def explain(m, *filters, at="."):
    return json.loads(m.read(f"{at}/{q(*filters)}/.explain.json"))


@pytest.fixture
def people(any_mount):
    """Nine documents u1 … u9, and some that no filter on content finds."""
    m = any_mount
    for i in range(1, 10):
        text = '{"user":"user%d","n":%d,"even":%s,"seen":%s,"tags":["t%d",%d]}'
        m.write(f"u{i}", text % (i, i, "true" if i % 2 == 0 else "false", D2035 % i, i % 3, i))
    m.write("plain", "no fields at all")
    m.write("empty")
    os.symlink("u1", m.p("link"))
    os.mkdir(m.p("sub"))
    m.write("sub/u1", '{"n":1}')
    return m


# What is found


@pytest.mark.parametrize("query, names", [
    ({"n": 3}, ["u3"]),
    ({"n": {"$gt": 7}}, ["u8", "u9"]),
    ({"n": {"$gte": 2, "$lt": 4}}, ["u2", "u3"]),
    ({"n": {"$in": [1, 9, 77]}}, ["u1", "u9"]),
    ({"n": {"$nin": [1, 2, 3, 4, 5, 6, 7, 8]}}, ["empty", "link", "plain", "u9"]),
    ({"n": {"$lte": 9, "$ne": 5}}, ["u1", "u2", "u3", "u4", "u6", "u7", "u8", "u9"]),
    ({"n": {"$not": {"$gt": 1}}}, ["empty", "link", "plain", "u1"]),
    ({"$or": [{"n": 1}, {"user": "user2"}]}, ["u1", "u2"]),
    ({"$nor": [{"n": {"$gt": 1}}, {"n": None}]}, ["u1"]),
    ({"$and": [{"even": True}, {"n": {"$lt": 4}}]}, ["u2"]),
    ({"user": {"$regex": "^USER[12]$", "$options": "i"}}, ["u1", "u2"]),
    ({"tags": "t0"}, ["u3", "u6", "u9"]),
    ({"tags": {"$type": "int"}, "n": {"$lt": 3}}, ["u1", "u2"]),
    ({"seen": {"$lt": {"$date": "2035-01-01T00:00:03Z"}}}, ["u1", "u2"]),
    ({"n": {"$exists": False}}, ["empty", "link", "plain"]),
    ({"n": None}, ["empty", "link", "plain"]),
    ({"n": "3"}, []),
    ({"_id": {"$in": ["u4", "plain", "sub"]}}, ["plain", "u4"]),
    ({"_id": {"$regex": "^l"}}, ["link"]),
    ({"_size": 0}, ["empty"]),
    ({"_ts": {"$gt": {"$date": "2020-01-01T00:00:00Z"}}, "n": 7}, ["u7"]),
])
def test_operators(people, query, names):
    assert found(people, query) == names
    # The same with every field indexed.
    for field in ("n", "user", "seen", "tags", "_ts"):
        people.set(".", f"ttl.index.{field}", "{}")
    assert found(people, query) == names


def test_everything_and_nothing(people):
    names = sorted(name for name in os.listdir(people.path) if name != "sub")
    assert found(people, {}) == names
    assert found(people, {"n": {"$in": []}}) == []
    assert os.listdir(people.p(".find")) == []
    assert ".find" not in os.listdir(people.path)
    assert found(people, {"n": 1}, at="sub") == ["u1"]


def test_filters_below_each_other_are_anded(people):
    assert found(people, {"n": {"$gt": 3}}, {"even": True}) == ["u4", "u6", "u8"]
    assert found(people, {"n": {"$gt": 3}}, {"even": True}, {"n": {"$lt": 5}}) == ["u4"]
    assert people.read(q({"n": {"$gt": 3}}, {"even": True}) + "/u4").startswith(b'{"user":"user4"')
    with raises_errno(errno.ENOENT):
        people.read(q({"n": {"$gt": 3}}, {"even": True}) + "/u5")
    deep = people.path / ".find"
    for _ in range(32):
        deep = deep / "{}"
    assert "u1" in os.listdir(deep)
    with raises_errno(errno.EINVAL):
        os.listdir(deep / "{}")
    assert "32 filters" in people.get(".", "ttl.error")


def test_entries_are_the_documents(people):
    entry = q({"n": 3}) + "/u3"
    assert os.stat(people.p(entry)).st_ino == os.stat(people.p("u3")).st_ino
    people.set(entry, "ttl.expireAt", "+1h")
    assert people.get("u3", "ttl.reason") == "expireAt"
    os.chmod(people.p(entry), 0o600)
    assert os.stat(people.p("u3")).st_mode & 0o777 == 0o600
    with open(people.p(entry), "a", encoding="utf-8") as file:
        file.write(" ")
    assert people.read("u3").endswith(b"} ")
    # Written so that it does not match any more.
    people.write(entry, '{"n":33}')
    assert not people.exists(entry)
    assert people.exists(q({"n": 33}) + "/u3")
    people.set("plain", "doc.n", "3")
    assert found(people, {"n": 3}) == ["plain"]


def test_removing_matches(people):
    people.set(".", "ttl.index.n", "{}")
    before = os.stat(people.p("u9"))
    assert before.st_nlink == 1
    for name in found(people, {"n": {"$gt": 6}}):
        os.unlink(people.p(q({"n": {"$gt": 6}}) + "/" + name))
        assert not people.exists(name)
    assert found(people, {"n": {"$gt": 5}}) == ["u6"]
    with raises_errno(errno.ENOENT):
        os.unlink(people.p(q({"n": {"$gt": 6}}) + "/u1"))
    assert people.exists("u1")
    run("sh", "-c", "rm .find/'{\"n\":{\"$lt\":3}}'/*", cwd=people.path)
    assert found(people, {"n": {"$exists": True}}) == ["u3", "u4", "u5", "u6"]
    people.write("u9", '{"n":9}')
    assert people.exists("u9")


def test_a_document_that_looks_like_a_filter(people):
    people.write('{"n":1}', '{"n":1}')
    assert found(people, {"n": 1}) == ["u1", '{"n":1}']
    assert people.read(q({"n": 1}, '{"n":1}')) == b'{"n":1}'
    assert found(people, {"n": {"$gt": 1}}, '{"n":1}') == []


# What is refused


@pytest.mark.parametrize("text, words", [
    ("x", "not Extended JSON"),
    ("{", "not Extended JSON"),
    ("5", "JSON object"),
    ("[]", "JSON object"),
    ('{"a":{"$foo":1}}', "unknown operator $foo"),
    ('{"$where":"1"}', "$where"),
    ('{"a":{"$in":1}}', "$in needs an array"),
    ('{"a":{"$regex":"("}}', "$regex"),
])
def test_a_filter_that_does_not_parse(people, text, words):
    with raises_errno(errno.EINVAL):
        os.listdir(people.p(q(text)))
    assert words in people.get(".", "ttl.error") and words in people.get(".find", "ttl.error")
    wait_until(lambda: words in people.log, 10, "the reason in the log")
    with raises_errno(errno.EINVAL if text.startswith("{") else errno.ENOENT):
        os.listdir(people.p(q({}, text)))


def test_nothing_is_made_in_a_query(people):
    for place in (".find", q({"n": 1})):
        with raises_errno(errno.EPERM, errno.EINVAL):
            people.write(f"{place}/new", "x")
        with raises_errno(errno.EPERM, errno.EINVAL):
            os.mkdir(people.p(f"{place}/new"))
        with raises_errno(errno.EPERM, errno.EINVAL):
            os.symlink("x", people.p(f"{place}/new"))
        with raises_errno(errno.EPERM, errno.EINVAL):
            os.link(people.p("u2"), people.p(f"{place}/new"))
        with raises_errno(errno.EPERM, errno.EINVAL):
            os.rename(people.p("u2"), people.p(f"{place}/new"))
    with raises_errno(errno.EPERM):
        os.rmdir(people.p(q({"n": 1})))
    with raises_errno(errno.EPERM):
        os.unlink(people.p(q({"n": 1}) + "/.explain.json"))
    with raises_errno(errno.EACCES, errno.EPERM):
        people.write(q({"n": 1}) + "/.explain.json", "x")
    with raises_errno(errno.EPERM):
        os.chmod(people.p(".find"), 0o777)


def test_the_name_is_taken_in_every_directory(people):
    for place in (".", "sub"):
        for make in (lambda p: os.mkdir(p), lambda p: os.symlink("x", p), lambda p: os.rename(people.p("u1"), p)):
            with raises_errno(errno.EPERM, errno.EEXIST, errno.EISDIR, errno.EINVAL):
                make(people.p(f"{place}/.find"))
    assert people.exists("u1")


def test_moving_out_of_a_query(people):
    run("mv", people.p(q({"n": 1}) + "/u1"), people.p("sub/moved"))
    assert not people.exists("u1")
    assert json.loads(people.read("sub/moved"))["n"] == 1


# How it is served


def test_explain(people):
    plan = explain(people, {"n": 5})
    assert (plan["stage"], plan["keysExamined"], plan["docsExamined"], plan["nReturned"]) == ("COLLSCAN", 0, 12, 1)
    assert plan["queryPlanner"]["winningPlan"]["stage"] == "COLLSCAN"
    people.set(".", "ttl.index.number", '{"key":"n"}')
    plan = explain(people, {"n": 5})
    assert (plan["stage"], plan["indexName"]) == ("IXSCAN", "number")
    assert (plan["keysExamined"], plan["docsExamined"], plan["nReturned"]) == (1, 1, 1)
    assert plan["queryPlanner"]["winningPlan"]["inputStage"]["indexName"] == "number"
    assert plan["queryPlanner"]["parsedQuery"] == {"n": 5}
    assert plan["executionStats"]["totalDocsExamined"] == 1
    assert ".explain.json" not in os.listdir(people.p(q({"n": 5})))
    assert explain(people, {"user": "user5"})["stage"] == "COLLSCAN"
    plan = explain(people, {"even": True}, {"n": {"$in": [2, 3]}})
    assert (plan["stage"], plan["keysExamined"], plan["nReturned"]) == ("IXSCAN", 2, 1)


def test_an_index_may_be_called_anything(people):
    os.setxattr(people.path, b'user.ttl.index."\xff', b'{"key":"n"}')
    plan = explain(people, {"n": 5})
    assert (plan["stage"], plan["indexName"], plan["nReturned"]) == ("IXSCAN", '"\ufffd', 1)


def test_ttl_indexes_serve_queries(people):
    people.set(".", "ttl.index.seen", "3600")
    range_of_two = {"seen": {"$gte": {"$date": "2035-01-01T00:00:03Z"}, "$lt": {"$date": "2035-01-01T00:00:05Z"}}}
    plan = explain(people, range_of_two)
    assert (plan["stage"], plan["indexName"], plan["nReturned"]) == ("IXSCAN", "seen", 2)
    assert plan["keysExamined"] == 2
    # Held documents are found as well, and those that have other values.
    people.set("u3", "ttl.hold", "yes")
    people.run_pass()
    people.write("u5", '{"seen":"a string"}')
    assert found(people, range_of_two) == ["u3", "u4"]
    assert explain(people, {"seen": "a string"})["stage"] == "IXSCAN"
    assert found(people, {"seen": "a string"}) == ["u5"]
    # A hidden index serves no query, and expires all the same.
    people.set(".", "ttl.index.seen", '{"expireAfterSeconds":3600,"hidden":true}')
    assert explain(people, range_of_two)["stage"] == "COLLSCAN"
    assert people.get("u4", "ttl.reason") == "index seen"


def test_partial_and_inherited_indexes(people):
    people.set(".", "ttl.index.n", '{"partialFilterExpression":{"even":true}}')
    assert explain(people, {"n": {"$gt": 3}})["stage"] == "COLLSCAN"
    plan = explain(people, {"n": {"$gt": 3}, "even": True})
    assert (plan["stage"], plan["isPartial"], plan["nReturned"]) == ("IXSCAN", True, 3)
    assert explain(people, {"n": 1}, at="sub")["stage"] == "COLLSCAN"
    people.rm(".", "ttl.index.n")
    assert explain(people, {"n": 3, "even": False})["stage"] == "COLLSCAN"
    people.set(".", "ttl.index.n", "{}")
    plan = explain(people, {"n": 1}, at="sub")
    assert plan["nReturned"] == 1


def test_arrays_and_compound_keys(people):
    people.set(".", "ttl.index.tags", "{}")
    people.set(".", "ttl.index.pair", '{"key":"n,user"}')
    plan = explain(people, {"tags": "t1"})
    assert (plan["stage"], plan["isMultiKey"], plan["nReturned"]) == ("IXSCAN", True, 3)
    plan = explain(people, {"n": 4})
    assert (plan["indexName"], plan["keyPattern"]) == ("pair", {"n": 1, "user": 1})


def test_indexes_after_a_remount(make_mount):
    m = make_mount("dir")
    m.set(".", "ttl.index.n", "{}")
    for i in range(50):
        m.write(str(i), {"n": i, "text": "x" * 100})
    m.remount()
    plan = explain(m, {"n": {"$gte": 40}})
    assert (plan["stage"], plan["nReturned"]) == ("IXSCAN", 10)
    m.rm(".", "ttl.index.n")
    plan = explain(m, {"n": {"$gte": 40}})
    assert (plan["stage"], plan["nReturned"]) == ("COLLSCAN", 10)


# Expiry and access


@pytest.mark.ttlfs(opts="test-clock,monitor=off")
def test_expired_documents_are_not_found(people):
    for name in ("u1", "u2"):
        people.set(name, "ttl.expireAt", "+10s")
    for index in (False, True):
        if index:
            people.set(".", "ttl.index.n", "{}")
        assert found(people, {"n": {"$lt": 4}}) == ["u1", "u2", "u3"]
        people.clock_advance(20_000)
        assert found(people, {"n": {"$lt": 4}}) == ["u3"]
        assert not people.exists(q({"n": 1}) + "/u1")
        assert explain(people, {"n": {"$lt": 3}})["nReturned"] == 0
        people.set(".", "ttl.visibility", "until-deleted")
        assert found(people, {"n": {"$lt": 4}}) == ["u1", "u2", "u3"]
        people.rm(".", "ttl.visibility")
        people.clock_advance(-20_000)


def test_a_query_is_no_access(people):
    people.set(".", "ttl.idle", "100s")
    people.clock_advance(50_000)
    before = people.get("u1", "ttl.accessed")
    for _ in range(3):
        assert "u1" in found(people, {"n": {"$lt": 3}})
        os.stat(people.p(q({"n": 1}) + "/u1"))
        explain(people, {"n": 1})
    assert people.get("u1", "ttl.accessed") == before
    people.read(q({"n": 1}) + "/u1")
    assert people.get("u1", "ttl.accessed") > before


def test_no_stale_answers(mount):
    """What the kernel has cached of the directory and of the query never hides a change."""
    for i in range(30):
        mount.write("f", {"n": i})
        assert found(mount, {"n": i}) == ["f"]
        assert found(mount, {"n": i + 1}) == []
        assert mount.exists(q({"n": i}) + "/f")
        os.unlink(mount.p(q({"n": i}) + "/f"))
        assert not mount.exists("f")
        assert os.listdir(mount.path) == []


# Other users

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.mark.root
@needs_root
@pytest.mark.ttlfs(opts="test-clock,allow_other")
def test_a_filter_tells_nothing_that_may_not_be_read(mount):
    os.mkdir(mount.p("dir"))
    os.chmod(mount.p("dir"), 0o777)
    mount.write("dir/secret", {"code": 7})
    mount.write("dir/open", {"code": 7})
    mount.write("dir/group", {"code": 7})
    os.chmod(mount.p("dir/secret"), 0o600)
    os.chown(mount.p("dir/group"), 0, 4321)
    os.chmod(mount.p("dir/group"), 0o640)

    def ask(query):
        path = f"dir/{q(query)}"
        with open(f"{path}/.explain.json", encoding="utf-8") as file:
            plan = json.load(file)
        seen = [name for name in ("secret", "open", "group") if os.path.lexists(f"{path}/{name}")]
        return sorted(os.listdir(path)), sorted(seen), plan["keysExamined"], plan["docsExamined"]

    for index in (False, True):
        if index:
            mount.set("dir", "ttl.index.code", "{}")
        for query in ({"code": 7}, {"code": {"$ne": 8}}):
            names, seen, keys, docs = mount.run_as(1234, lambda query=query: ask(query))
            assert names == seen == ["open"]
            assert docs == 1 and keys <= 1
            names, seen, _, _ = mount.run_as(1234, lambda query=query: ask(query), groups=(4321,))
            assert names == seen == ["group", "open"]
            assert found(mount, query, at="dir") == ["group", "open", "secret"]
        # What stat tells is no secret.
        names, seen, _, _ = mount.run_as(1234, lambda: ask({"_id": "secret"}))
        assert names == seen == ["secret"]


@pytest.mark.root
@needs_root
@pytest.mark.ttlfs(opts="test-clock,allow_other")
def test_a_process_may_be_called_anything(mount):
    """A group without a right has less than others here; by no name does one get out of one's groups."""
    mount.write("f", {"code": 7})
    os.chown(mount.p("f"), 0, 4321)
    os.chmod(mount.p("f"), 0o604)

    def ask(name):
        ctypes.CDLL(None).prctl(15, name, 0, 0, 0)  # PR_SET_NAME
        return os.listdir(q({"code": 7}))

    for name in (b"plain", b"Groups:"):
        assert mount.run_as(1234, lambda name=name: ask(name), groups=(4321,)) == []
        assert mount.run_as(1234, lambda name=name: ask(name)) == ["f"]


@pytest.mark.root
@needs_root
@pytest.mark.ttlfs(opts="test-clock,allow_other")
def test_the_directory_decides_who_may_do_what(mount):
    os.mkdir(mount.p("closed"))
    os.chmod(mount.p("closed"), 0o700)
    os.mkdir(mount.p("shared"))
    os.chmod(mount.p("shared"), 0o1777)
    os.mkdir(mount.p("readable"))
    os.chmod(mount.p("readable"), 0o755)
    for place in ("closed", "shared", "readable"):
        mount.write(f"{place}/f", {"n": 1})
    mount.run_as(1234, lambda: open("shared/mine", "w", encoding="utf-8").close())
    query = q({"_size": {"$gte": 0}})

    def attempt(action, path):
        try:
            action(path)
            return 0
        except OSError as error:
            return error.errno

    def ask(action, path):
        return mount.run_as(1234, lambda: attempt(action, path))

    assert ask(os.listdir, f"closed/{query}") == errno.EACCES
    assert ask(os.listdir, "closed/.find") == errno.EACCES
    assert ask(os.listdir, f"readable/{query}") == 0
    assert ask(os.unlink, f"readable/{query}/f") == errno.EACCES
    assert ask(os.unlink, f"shared/{query}/f") == errno.EPERM
    assert ask(os.unlink, f"shared/{query}/mine") == 0
    os.chmod(mount.p("readable"), 0o711)
    assert ask(os.listdir, f"readable/{query}") == errno.EACCES
    assert ask(os.stat, f"readable/{query}/f") == 0
    assert ask(os.listdir, f"readable/{query}/.explain.json") in (errno.ENOTDIR, errno.EACCES)
    assert mount.run_as(1234, lambda: attempt(lambda p: open(p, "rb").close(),
                                              f"readable/{query}/.explain.json")) == errno.EACCES
    os.chmod(mount.p("readable"), 0o777)
    assert ask(os.unlink, f"readable/{query}/f") == 0


# Listings


def test_places_in_a_listing_stay_good(mount):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.opendir.restype = ctypes.c_void_p
    libc.readdir64.restype = ctypes.c_void_p
    for function in (libc.readdir64, libc.telldir, libc.closedir, libc.rewinddir):
        function.argtypes = [ctypes.c_void_p]
    libc.telldir.restype = ctypes.c_long
    libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
    for i in range(1000):
        mount.write(f"f{i}", {"n": i})
    directory = libc.opendir(os.fsencode(mount.p(q({"n": {"$gte": 500}}))))
    assert directory

    def next_name():
        entry = libc.readdir64(directory)
        return ctypes.string_at(entry + 19).decode() if entry else None

    places = []
    while True:
        place = libc.telldir(directory)
        name = next_name()
        if name is None:
            break
        places.append((place, name))
    assert len(places) == 502
    for place, name in places[::-7]:
        libc.seekdir(directory, place)
        assert next_name() == name
    # Half of them vanish; the rest stays where it was.
    left = []
    for number, (place, name) in enumerate(places):
        if name not in (".", "..") and number % 2:
            os.unlink(mount.p(name))
        else:
            left.append((place, name))
    libc.rewinddir(directory)
    assert {name for name in iter(next_name, None)} == {name for _, name in left}
    libc.seekdir(directory, left[50][0])
    assert next_name() == left[50][1]
    libc.closedir(directory)


@pytest.mark.tsan
def test_many_at_once(mount):
    """Listing, removing, writing and changing indexes at the same time: only what matches is ever found."""
    for i in range(200):
        mount.write(f"keep{i}", {"n": i, "keep": True})
    stop = threading.Event()
    failures = []

    def guarded(work):
        def body():
            try:
                while not stop.is_set():
                    work()
            except Exception as error:  # pylint: disable=broad-except
                failures.append(repr(error))
                stop.set()
        return body

    def churn():
        for i in range(20):
            mount.write(f"churn{threading.get_ident()}-{i}", {"n": 1000 + i})
        for name in found(mount, {"n": {"$gte": 1000}}):
            try:
                os.unlink(mount.p(q({"n": {"$gte": 1000}}) + "/" + name))
            except FileNotFoundError:
                continue

    def look():
        names = found(mount, {"keep": True}, {"n": {"$gte": 100}})
        assert len(names) == 100, len(names)
        assert explain(mount, {"n": {"$lt": 100}})["nReturned"] == 100

    def change():
        mount.set(".", "ttl.index.n", "{}")
        mount.set(".", "ttl.index.n", "31536000")
        mount.rm(".", "ttl.index.n")

    workers = [threading.Thread(target=guarded(work)) for work in (churn, churn, look, look, change)]
    for worker in workers:
        worker.start()
    stop.wait(2)
    stop.set()
    for worker in workers:
        worker.join()
    assert not failures, failures[0]
    assert len(found(mount, {"keep": True})) == 200


def test_thousands_of_queries(mount):
    mount.write("f", {"n": 5})
    for i in range(3000):
        names = os.listdir(mount.p(q({"n": i})))
        assert names == (["f"] if i == 5 else [])
    held = [os.open(mount.p(q({"n": i})), os.O_RDONLY | os.O_DIRECTORY) for i in range(300)]
    assert sum(len(os.listdir(fd)) for fd in held) == 1
    for fd in held:
        os.close(fd)


def test_the_directory_goes_while_somebody_is_in_its_query(mount):
    os.mkdir(mount.p("dir"))
    mount.write("dir/f", {"n": 1})
    fd = os.open(mount.p(f"dir/{q({'n': 1})}"), os.O_RDONLY | os.O_DIRECTORY)
    os.unlink(mount.p("dir/f"))
    os.rmdir(mount.p("dir"))
    assert os.listdir(fd) == []
    with raises_errno(errno.ENOENT):
        os.stat("f", dir_fd=fd)
    os.close(fd)
    os.mkdir(mount.p("dir"))
    mount.write("dir/g", {"n": 1})
    assert found(mount, {"n": 1}, at="dir") == ["g"]


def test_a_large_collection(make_mount):
    m = make_mount("memory:")
    m.set(".", "ttl.index.n", "{}")
    for i in range(5000):
        m.write(f"doc{i}", f'{{"n":{i},"s":"{"x" * 50}{i}"}}')
    assert len(found(m, {"s": {"$gt": ""}})) == 5000
    plan = explain(m, {"n": 77})
    assert (plan["stage"], plan["docsExamined"]) == ("IXSCAN", 1)
    run("sh", "-c", "rm .find/'{\"n\":{\"$gte\":100}}'/*", cwd=m.path)
    assert len(os.listdir(m.path)) == 100


def test_many_listings_at_once(mount):
    """More listings than the daemon has threads: each gets its answer, and so does everybody else."""
    for i in range(2000):
        mount.write(f"doc{i}", f'{{"n":{i},"s":"{i % 10}"}}')
    failures = []

    def list_some(number):
        try:
            for _ in range(3):
                assert len(found(mount, {"s": str(number % 10)})) == 200
                assert explain(mount, {"n": number})["nReturned"] == 1
        except Exception as error:  # pylint: disable=broad-except
            failures.append(repr(error))

    workers = [threading.Thread(target=list_some, args=(i,)) for i in range(40)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        mount.write("else", "x")
        os.unlink(mount.p("else"))
    for worker in workers:
        worker.join()
    assert not failures, failures[0]


def test_a_listing_can_be_interrupted(mount):
    """A killed reader's query ends, and the mount with it."""
    for i in range(300):
        mount.write(f"doc{i}", {"n": i})
    for _ in range(20):
        process = subprocess.Popen(["ls", q({"n": {"$gt": 5}})], cwd=mount.path, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        process.kill()
        process.wait()
    assert len(found(mount, {"n": {"$gte": 5}})) == 295
