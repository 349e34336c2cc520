"""user.ttl.hold on trees: nothing below expires, and what is let go is due at once."""
import errno
import os

import pytest

from conftest import raises_errno, wait_until
from ttlhelp import RENAME_EXCHANGE, date, deadline, in_threads, names, reason, renameat2, ttl_metrics, wait_for_documents

S = 1000
DAY = 24 * 3600 * S
pytestmark = pytest.mark.ttlfs(opts="test-clock,monitor=off")


def tree(mount, top, folders, files, held=False):
    """A tree with documents that every kind of rule lets expire within 100 s."""
    os.makedirs(mount.p(top), exist_ok=True)
    mount.set(top, "ttl.index._ts", "100")
    mount.set(top, "ttl.idle", "90s")
    mount.set(top, "ttl.max", "80s")
    mount.set(top, "ttl.index.at", "0")
    paths = []
    for folder in range(folders):
        os.makedirs(mount.p(f"{top}/{folder}/deeper"))
        for number in range(files):
            path = f"{top}/{folder}/{'deeper/' if number % 2 else ''}f{number}"
            mount.write(path, {"at": date(0)} if held and number % 5 == 0 else "x")
            if number % 7 == 0:
                mount.set(path, "ttl.expireAt", "+10s")
            if number % 11 == 0:
                mount.set(path, "ttl.seconds", "5")
            paths.append(path)
    return paths


def held_tree(mount, top="top", folders=4, files=50):
    os.makedirs(mount.p(top))
    mount.set(top, "ttl.hold", "yes")
    return tree(mount, top, folders, files, held=True)


def there(mount, paths):
    return sum(mount.exists(path) for path in paths)


def test_nothing_below_expires_until_it_is_let_go(any_mount):
    m = any_mount
    paths = held_tree(m)
    for _ in range(3):
        m.clock_advance(DAY)
        result = m.run_pass()
        assert (result["deletedDocuments"], result["errors"]) == (0, 0)
    # Parked: a pass does not meet them again and again.
    assert m.run_pass()["visits"] == 0 and m.status()["nextDeadline"] is None
    assert there(m, paths) == len(paths) and {reason(m, path) for path in paths} == {"hold"}
    assert {deadline(m, path) for path in paths} == {None}
    m.param("ttlIndexDeleteTargetDocs", 20)
    m.set("top", "ttl.hold", "no")
    assert there(m, paths) == 0
    wait_for_documents(m, len(paths))
    result = m.run_pass()
    assert (result["deletedDocuments"], result["errors"]) == (len(paths), 0)
    assert result["subPasses"] >= 3  # through the same batches as everything
    wait_for_documents(m, 0)


def test_a_hold_brings_back_what_is_hidden(any_mount):
    m = any_mount
    paths = tree(m, "top", 3, 30)
    m.clock_advance(DAY)
    assert there(m, paths) == 0
    m.set("top", "ttl.hold", "yes")
    assert there(m, paths) == len(paths)
    assert len(names(m, "top/1")) + len(names(m, "top/1/deeper")) == 31
    assert m.run_pass()["deletedDocuments"] == 0
    m.rm("top", "ttl.hold")
    assert there(m, paths) == 0
    assert m.run_pass()["deletedDocuments"] == len(paths)


def test_the_nearest_word_counts(mount):
    held_tree(mount, "a", 2, 10)
    for folder, value in (("a/0", "no"), ("a/0/deeper", "yes"), ("a/1", "off")):
        mount.set(folder, "ttl.hold", value)
    mount.set("a/1/f2", "ttl.hold", "yes")
    mount.set("a/0/deeper/f3", "ttl.hold", "no")
    mount.clock_advance(DAY)
    mount.run_pass()
    assert names(mount, "a/0") == ["deeper"]
    assert names(mount, "a/0/deeper") == ["f1", "f5", "f7", "f9"]
    assert names(mount, "a/1") == ["deeper", "f2"] and names(mount, "a/1/deeper") == []
    mount.rm("a/0", "ttl.hold")
    mount.write("a/0/again", "x")
    mount.clock_advance(DAY)
    assert mount.run_pass()["deletedDocuments"] == 0 and mount.exists("a/0/again")


def test_a_hold_survives_the_mount(make_mount):
    mount = make_mount("dir", opts="test-clock,monitor=off")
    paths = held_tree(mount)
    mount.remount("test-clock")
    mount.clock_advance(DAY)
    mount.run_pass()
    assert there(mount, paths) == len(paths)
    mount.set("top", "ttl.hold", "no")
    wait_for_documents(mount, 0)


def test_into_and_out_of_held_trees(any_mount):
    m = any_mount
    held_tree(m, "held", 2, 6)
    tree(m, "free", 2, 6)
    m.rename = lambda source, target: os.rename(m.p(source), m.p(target))
    m.write("free/doc in", "x")
    m.write("held/doc out", "x")
    m.rename("free/doc in", "held/doc in")
    m.rename("held/doc out", "free/doc out")
    m.rename("free/0", "held/dir in")
    m.rename("held/0", "free/dir out")
    renameat2(m.p("held/1"), m.p("free/1"), RENAME_EXCHANGE)
    kept = [os.path.join(folder, name) for folder, _, files in os.walk(m.p("held")) for name in files]
    lost = [os.path.join(folder, name) for folder, _, files in os.walk(m.p("free")) for name in files]
    assert len(kept) == 1 + 6 + 6 and lost  # of the others some were due when they came
    m.clock_advance(DAY)
    assert there(m, kept) == len(kept) and there(m, lost) == 0
    m.run_pass()
    assert there(m, kept) == len(kept)
    wait_for_documents(m, len(kept))


def test_a_name_in_a_held_tree_keeps_the_document(mount):
    held_tree(mount, "held", 1, 2)
    tree(mount, "free", 1, 2)
    mount.write("free/doc", "x")
    os.link(mount.p("free/doc"), mount.p("held/doc"))
    mount.clock_advance(DAY)
    assert not mount.exists("free/doc") and os.stat(mount.p("held/doc")).st_nlink in (1, 2)
    mount.run_pass()
    assert mount.read("held/doc") == b"x" and os.stat(mount.p("held/doc")).st_nlink == 1


def test_a_name_that_was_used_again_does_not_come_back(mount):
    os.mkdir(mount.p("top"))
    mount.set("top", "ttl.max", "10s")
    mount.write("top/doc", "old")
    mount.clock_advance(20 * S)
    mount.write("top/doc", "new")
    mount.set("top", "ttl.hold", "yes")
    mount.clock_advance(DAY)
    assert mount.read("top/doc") == b"new" and names(mount, "top") == ["doc"]


def test_a_directory_with_held_documents_is_not_empty(mount):
    paths = tree(mount, "top", 1, 4)
    mount.clock_advance(DAY)
    mount.set("top/0", "ttl.hold", "yes")
    with raises_errno(errno.ENOTEMPTY):
        os.rmdir(mount.p("top/0/deeper"))
    mount.set("top/0", "ttl.hold", "no")
    os.rmdir(mount.p("top/0/deeper"))
    os.rmdir(mount.p("top/0"))
    assert there(mount, paths) == 0


def test_a_hold_that_ends_on_one_of_many_levels(mount):
    """A deep tree, held at its top, let go in the middle."""
    path = "t"
    os.mkdir(mount.p(path))
    mount.set("t", "ttl.hold", "yes")
    mount.set("t", "ttl.max", "10s")
    for level in range(60):
        mount.write(f"{path}/doc", "x")
        path += f"/{level}"
        os.mkdir(mount.p(path))
    middle = "t/" + "/".join(str(level) for level in range(30))
    mount.clock_advance(DAY)
    assert mount.run_pass()["deletedDocuments"] == 0
    mount.set(middle, "ttl.hold", "off")
    assert mount.run_pass()["deletedDocuments"] == 30
    wait_for_documents(mount, 30)


@pytest.mark.ttlfs(opts="")
@pytest.mark.tsan
def test_what_is_held_is_never_deleted(mount):
    """While the monitor runs, a hold is set before the deadline and taken away behind it, again and again."""
    for number in range(3):
        os.makedirs(mount.p(f"d{number}/sub"))
        mount.set(f"d{number}", "ttl.max", "1ms")

    def cycle(number):
        folder = f"d{number}"
        mount.set(folder, "ttl.hold", "yes")
        paths = [mount.write(f"{folder}/sub/f{at}", f"{at}") for at in range(5)]
        for at, path in enumerate(paths):
            assert path.read_bytes() == b"%d" % at
        mount.set(folder, "ttl.hold", "no")
        wait_until(lambda: there(mount, paths) == 0, 10, "the last one's millisecond")

    rounds = in_threads(cycle, cycle, cycle, seconds=2)
    assert all(rounds)
    wait_for_documents(mount, 0)
    metrics = ttl_metrics(mount)
    assert metrics["errors"] == 0
