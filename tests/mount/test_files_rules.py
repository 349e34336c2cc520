"""Rules and figures on files: seconds, expireAt, hold, the virtual attributes (spec 4)."""
import errno
import os
import re

import pytest

from conftest import raises_errno, wait_until
from ttlhelp import (FAR_MS, accessed, created, date, deadline, in_threads, is_near, names, now_ms, parse_ms, reason,
                     rfc3339)

pytestmark = pytest.mark.ttlfs(opts="test-clock,monitor=off")
S = 1000
FAR, FARTHER = rfc3339(FAR_MS), rfc3339(FAR_MS + 1000 * S)
VIRTUAL = ["deadline", "remaining", "created", "accessed", "reason"]

# user.ttl.seconds


@pytest.mark.parametrize("value, seconds", [("1", 1), ("3600", 3600), ("90s", 90), ("15m", 900), ("2w", 1209600),
                                            ("1500ms", 1.5), ("2147483648", 2147483648)])
def test_seconds_count_from_the_last_change(mount, value, seconds):
    mount.set(".", "ttl.visibility", "until-deleted")
    now = now_ms(mount)
    mount.write("f", "x")
    mount.set("f", "ttl.seconds", value)
    assert mount.get("f", "ttl.seconds") == value
    assert is_near(deadline(mount, "f"), now + seconds * S, 1500) and reason(mount, "f") == "seconds"
    mount.clock_advance(60 * S)
    os.chmod(mount.p("f"), 0o600)
    mount.read("f")
    assert is_near(deadline(mount, "f"), now + seconds * S, 1500)
    mount.write("f", "y")
    assert is_near(deadline(mount, "f"), now + (60 + seconds) * S, 1500)
    mount.rm("f", "ttl.seconds")
    assert (deadline(mount, "f"), reason(mount, "f"), mount.lst("f")) == (None, "none", [])


def test_values_of_seconds(mount):
    mount.write("f", "x")
    mount.set("f", "ttl.seconds", "-1")
    assert (mount.get("f", "ttl.seconds"), deadline(mount, "f")) == ("-1", None)
    mount.set("f", "ttl.seconds", "500")
    before = deadline(mount, "f")
    for bad in ("", "0", "0s", "-2", "-1s", "1.5", "never", "x", "10 s", "1h30m", "99999999999999999999999"):
        with raises_errno(errno.EINVAL):
            mount.set("f", "ttl.seconds", bad)
        assert mount.get("f", "ttl.error").strip(), bad
        assert (mount.get("f", "ttl.seconds"), deadline(mount, "f")) == ("500", before)
    assert mount.lst("f") == ["user.ttl.seconds"]


def test_seconds_expire_the_document(mount):
    mount.write("f", "x")
    mount.set("f", "ttl.seconds", "100")
    mount.clock_advance(97 * S)
    assert mount.exists("f")
    mount.clock_advance(4 * S)
    assert not mount.exists("f")


def test_seconds_never_does_not_touch_the_other_rules(mount):
    mount.set(".", "ttl.index.d", "0")
    mount.write("f", {"d": date(FAR_MS)})
    mount.set("f", "ttl.seconds", "-1")
    assert (deadline(mount, "f"), reason(mount, "f")) == (FAR_MS, "index d")
    mount.set("f", "ttl.max", "100s")
    assert (deadline(mount, "f"), reason(mount, "f")) == (created(mount, "f") + 100 * S, "max")


# user.ttl.expireAt


@pytest.mark.parametrize("value, ms", [
    ("2100-01-01T00:00:00Z", 0), ("2100-01-01T00:00:00.123Z", 123), ("2100-01-01T02:00:00+02:00", 0),
    ("2099-12-31T18:30:00.5-05:30", 500), ("2100-01-01t00:00:00z", 0), ("4102444800", 0), ("4102444801", 1000),
])
def test_expire_at_an_instant(mount, value, ms):
    mount.write("f", "x")
    mount.set("f", "ttl.expireAt", value)
    assert (deadline(mount, "f"), reason(mount, "f")) == (FAR_MS + ms, "expireAt")
    mount.write("f", "y")
    assert deadline(mount, "f") == FAR_MS + ms
    mount.set("f", "ttl.expireAt", mount.get("f", "ttl.expireAt"))  # what was read, set back
    assert deadline(mount, "f") == FAR_MS + ms


@pytest.mark.parametrize("value, ms", [("+90s", 90 * S), ("+15m", 900 * S), ("+500ms", 500), ("+3600", 3600 * S)])
def test_expire_at_a_distance_from_now(mount, value, ms):
    mount.set(".", "ttl.visibility", "until-deleted")
    mount.write("f", "x")
    mount.clock_advance(1000 * S)
    now = now_ms(mount)
    mount.set("f", "ttl.expireAt", value)
    before = deadline(mount, "f")
    assert is_near(before, now + ms, 1500)
    mount.clock_advance(10 * S)
    assert deadline(mount, "f") == before  # an instant, not a distance that moves along
    mount.set("f", "ttl.expireAt", mount.get("f", "ttl.expireAt"))
    assert deadline(mount, "f") == before


@pytest.mark.parametrize("value", ["0", "1", "-5", "2000-01-01T00:00:00Z", "1969-12-31T23:59:59Z"])
def test_expire_at_a_past_instant_is_now(mount, value):
    mount.write("f", "x")
    mount.set("f", "ttl.expireAt", value)
    assert not mount.exists("f") and names(mount) == []
    mount.run_pass()
    assert mount.status()["metrics"]["ttl"]["deletedDocuments"] == 1


@pytest.mark.parametrize("clear", ["never", "removal", "xx:never"])
def test_never_and_removal_clear_it(mount, clear):
    mount.write("f", "x")
    mount.set("f", "ttl.expireAt", FAR)
    if clear == "removal":
        mount.rm("f", "ttl.expireAt")
    else:
        mount.set("f", "ttl.expireAt", clear)
    assert (deadline(mount, "f"), reason(mount, "f"), mount.lst("f")) == (None, "none", [])
    with raises_errno(errno.ENODATA):
        mount.get("f", "ttl.expireAt")
    mount.set("f", "ttl.expireAt", "nx:" + FAR)  # none is set
    assert deadline(mount, "f") == FAR_MS


@pytest.mark.parametrize("value", [
    "", "x", "tomorrow", "2100-13-01T00:00:00Z", "2100-02-30T00:00:00Z", "2100-01-01T25:00:00Z", "1.5x", "+", "+x",
    "+-5s", "++5s", "+5s ", "2100-01-01T00:00:00Zx", "nx:", "xx:", "gt:", "lt:", "gt:x", "nx:gt:" + FAR, "zz:" + FAR,
    "NX :" + FAR, "99999999999999999999999", "+9223372036854775807w"])
def test_what_is_no_instant_is_einval(mount, value):
    mount.write("f", "x")
    mount.set("f", "ttl.expireAt", FAR)
    with raises_errno(errno.EINVAL):
        mount.set("f", "ttl.expireAt", value)
    assert mount.get("f", "ttl.error").strip()
    assert deadline(mount, "f") == FAR_MS and mount.lst("f") == ["user.ttl.expireAt"]


@pytest.mark.parametrize("prefix, before, value, holds", [
    ("nx", None, FAR, True), ("nx", FAR, FARTHER, False), ("nx", FAR, FAR, False),
    ("xx", None, FAR, False), ("xx", FAR, FARTHER, True), ("xx", FARTHER, FAR, True),
    ("gt", FAR, FARTHER, True), ("gt", FARTHER, FAR, False), ("gt", FAR, FAR, False), ("gt", None, FAR, False),
    ("lt", FARTHER, FAR, True), ("lt", FAR, FARTHER, False), ("lt", FAR, FAR, False), ("lt", None, FAR, True),
    ("gt", FAR, "+10s", False), ("lt", FAR, "+1000s", True), ("nx", None, "+1000s", True), ("lt", FAR, "4102444799", True),
])
def test_conditions(mount, prefix, before, value, holds):
    mount.write("f", "x")
    if before:
        mount.set("f", "ttl.expireAt", before)
    if holds:
        now = now_ms(mount)
        mount.set("f", "ttl.expireAt", f"{prefix}:{value}")
        expected = {"+1000s": now + 1000 * S, "4102444799": FAR_MS - S}.get(value) or parse_ms(value)
        assert is_near(deadline(mount, "f"), expected, 1500 if value[0] == "+" else 0)
        assert prefix not in mount.get("f", "ttl.expireAt")
    else:
        with raises_errno(errno.ECANCELED):
            mount.set("f", "ttl.expireAt", f"{prefix}:{value}")
        assert deadline(mount, "f") == (parse_ms(before) if before else None)
        assert mount.lst("f") == (["user.ttl.expireAt"] if before else [])


def test_expire_at_is_one_of_the_deadlines(mount):
    mount.set(".", "ttl.index.d", "0")
    mount.write("f", {"d": date(FAR_MS)})
    mount.set("f", "ttl.expireAt", FARTHER)
    assert (deadline(mount, "f"), reason(mount, "f")) == (FAR_MS, "index d")
    mount.set("f", "ttl.expireAt", rfc3339(FAR_MS - 1))
    assert (deadline(mount, "f"), reason(mount, "f")) == (FAR_MS - 1, "expireAt")
    mount.set("f", "ttl.seconds", "1000")
    assert reason(mount, "f") == "seconds"


# hold


def test_hold_on_a_file_beats_everything(mount):
    mount.set(".", "ttl.index.d", "0")
    mount.set(".", "ttl.index._ts", "10")
    mount.write("f", {"d": date(FAR_MS), "ttl": 5})
    mount.set("f", "ttl.hold", "yes")
    for name, value in (("seconds", "1"), ("expireAt", "1"), ("idle", "1s"), ("max", "1s")):
        mount.set("f", f"ttl.{name}", value)
    mount.write("f", {"d": date(0), "ttl": 1})
    mount.clock_advance(10**9)
    mount.run_pass()
    assert [mount.get("f", f"ttl.{name}") for name in ("deadline", "remaining", "reason")] == ["never", "never", "hold"]
    mount.set("f", "ttl.hold", "no")
    assert not mount.exists("f")


def test_hold_on_a_directory_is_inherited_and_a_nearer_no_wins(mount):
    os.makedirs(mount.p("a/b"))
    mount.set(".", "ttl.index.d", "0")
    mount.set(".", "ttl.hold", "yes")
    for path in ("f", "a/f", "a/b/f"):
        mount.write(path, {"d": date(0)})
        assert reason(mount, path) == "hold"
    assert (mount.get("a/b", "ttl.hold"), mount.lst("a/b")) == ("yes", [])
    mount.set("a", "ttl.hold", "no")
    assert [mount.exists(path) for path in ("f", "a/f", "a/b/f")] == [True, False, False]
    mount.set("a/b", "ttl.hold", "yes")
    assert [mount.exists(path) for path in ("f", "a/f", "a/b/f")] == [True, False, True]
    mount.set("f", "ttl.hold", "no")  # the file's own word is the nearest of all
    assert not mount.exists("f")
    mount.run_pass()
    assert (names(mount), names(mount, "a"), names(mount, "a/b")) == (["a"], ["b"], ["f"])


def test_hold_saves_what_is_not_deleted_yet(mount):
    mount.write("f", "x")
    mount.set("f", "ttl.expireAt", "1")
    assert not mount.exists("f")
    mount.set(".", "ttl.hold", "yes")
    mount.run_pass()
    assert mount.read("f") == b"x"
    mount.set("f", "ttl.expireAt", "never")
    mount.rm(".", "ttl.hold")
    assert mount.exists("f") and reason(mount, "f") == "none"


@pytest.mark.parametrize("name, bad", [("hold", ("", "true", "1", "maybe", "YES!")),
                                       ("visibility", ("", "visible", "deleted", "Hidden!"))])
def test_words_that_are_no_values(mount, name, bad):
    good = {"hold": "yes", "visibility": "until-deleted"}[name]
    mount.set(".", f"ttl.{name}", good)
    for value in bad:
        with raises_errno(errno.EINVAL):
            mount.set(".", f"ttl.{name}", value)
        assert mount.get(".", "ttl.error").strip()
        assert mount.get(".", f"ttl.{name}") == good


def test_unknown_rules_are_refused(mount):
    mount.write("f", "x")
    for path in (".", "f"):
        for name in ("ttl.nonsense", "ttl.", "ttl.index.", "ttl.Idle"):
            with raises_errno(errno.EINVAL, errno.EOPNOTSUPP):
                mount.set(path, name, "10s")
        assert mount.lst(path) == []


@pytest.mark.parametrize("rule, value, other", [("idle", "1h", "2h"), ("max", "1h", "2h"), ("hold", "no", "yes"),
                                                ("refresh", "write", "extend"), ("visibility", "hidden", "until-deleted")])
def test_flags_and_removal_look_at_the_rules_set_here_only(mount, rule, value, other):
    os.makedirs(mount.p("a/b"))
    rule = f"ttl.{rule}"
    with raises_errno(errno.ENODATA):
        mount.set("a", rule, value, os.XATTR_REPLACE)
    mount.set("a", rule, value, os.XATTR_CREATE)
    with raises_errno(errno.EEXIST):
        mount.set("a", rule, other, os.XATTR_CREATE)
    assert (mount.get("a/b", rule), mount.lst("a/b")) == (value, [])
    with raises_errno(errno.ENODATA):
        mount.set("a/b", rule, other, os.XATTR_REPLACE)
    with raises_errno(errno.ENODATA):
        mount.rm("a/b", rule)
    mount.set("a/b", rule, other, os.XATTR_CREATE)
    assert (mount.get("a", rule), mount.get("a/b", rule)) == (value, other)
    mount.rm("a/b", rule)
    assert mount.get("a/b", rule) == value


def test_rules_of_files_on_directories_and_the_other_way_round(mount):
    os.mkdir(mount.p("d"))
    mount.write("f", "x")
    for path, rule, value in (("d", "seconds", "10"), ("d", "expireAt", "+1h"), ("f", "index.d", "10")):
        with raises_errno(errno.EINVAL):
            mount.set(path, f"ttl.{rule}", value)
        assert mount.get(path, "ttl.error").strip() and mount.lst(path) == []


# Virtual attributes


def test_the_virtual_attributes_have_the_promised_forms(mount):
    before = now_ms(mount)
    mount.write("f", "x")
    rfc = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d)")
    assert [mount.get("f", f"ttl.{name}") for name in ("deadline", "remaining", "reason")] == ["never", "never", "none"]
    mount.set("f", "ttl.seconds", "100")
    for name in ("deadline", "created", "accessed"):
        assert rfc.fullmatch(mount.get("f", f"ttl.{name}")), name
    assert is_near(created(mount, "f"), before, 1500) and is_near(accessed(mount, "f"), before, 1500)
    left = mount.get("f", "ttl.remaining")
    assert re.fullmatch(r"\d+(\.\d+)?", left) and 90 < float(left) <= 100
    mount.clock_advance(50 * S)
    assert 40 < float(mount.get("f", "ttl.remaining")) <= 50
    assert mount.lst("f") == ["user.ttl.seconds"]


def test_remaining_is_never_negative(mount):
    mount.set(".", "ttl.visibility", "until-deleted")
    mount.write("f", "x")
    mount.set("f", "ttl.expireAt", "1000")
    assert float(mount.get("f", "ttl.remaining")) == 0 and "-" not in mount.get("f", "ttl.remaining")
    assert (deadline(mount, "f"), reason(mount, "f")) == (1000 * S, "expireAt")


def test_created_survives_overwriting_and_accessed_follows(mount):
    mount.write("f", "x")
    born = created(mount, "f")
    mount.clock_advance(100 * S)
    mount.write("f", "y")
    os.truncate(mount.p("f"), 0)
    os.rename(mount.p("f"), mount.p("g"))
    assert created(mount, "g") == born
    wait_until(lambda: is_near(accessed(mount, "g"), born + 100 * S, 5 * S), 3, "the access")


@pytest.mark.parametrize("name", VIRTUAL)
def test_the_virtual_attributes_are_read_only(mount, name):
    mount.write("f", "x")
    mount.set("f", "ttl.max", "1000s")
    before = mount.get("f", f"ttl.{name}")
    refused = (errno.EPERM, errno.EACCES, errno.EINVAL, errno.EOPNOTSUPP)
    for flags in (0, os.XATTR_CREATE, os.XATTR_REPLACE):
        with raises_errno(*refused, errno.EEXIST):
            mount.set("f", f"ttl.{name}", FAR, flags)
    with raises_errno(*refused):
        mount.rm("f", f"ttl.{name}")
    assert mount.lst("f") == ["user.ttl.max"]
    if name != "remaining":
        assert mount.get("f", f"ttl.{name}") == before


def test_looking_at_the_figures_changes_none_of_them(mount):
    mount.set(".", "ttl.idle", "1000s")
    mount.write("f", "x")
    figures = [name for name in VIRTUAL if name != "remaining"]
    before = [mount.get("f", f"ttl.{name}") for name in figures]
    mount.clock_advance(100 * S)
    os.listdir(mount.path)
    assert [mount.get("f", f"ttl.{name}") for name in figures] == before


def test_rules_survive_an_error_and_other_attributes_are_nobodys_business(mount):
    mount.write("f", "x")
    mount.set("f", "comment", "ttl")
    mount.set("f", "ttlx", "1")
    assert mount.lst("f") == ["user.comment", "user.ttlx"]
    assert deadline(mount, "f") is None


@pytest.mark.tsan
def test_one_of_several_threads_wins_the_nx_race(mount):
    for number in range(30):
        mount.write(str(number), "x")
    won = []

    def claim(thread):
        for number in range(30):
            try:
                mount.set(str(number), "ttl.expireAt", f"nx:{FAR_MS // 1000 + thread}")
                won.append((number, thread))
            except OSError as error:
                assert error.errno == errno.ECANCELED

    in_threads(*[claim] * 4, lambda _: mount.run_pass(), seconds=1)
    assert sorted(number for number, _ in won) == list(range(30))
    assert all(deadline(mount, str(number)) == FAR_MS + thread * S for number, thread in won)
