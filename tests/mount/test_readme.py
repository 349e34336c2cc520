"""README.md is true: its console blocks are typed, see typed.py for what may differ.

A section is what stands below one heading; its blocks are one example. get and set_ of the section Words are there.
NEEDS names sections whose blocks are typed before.
"""
import pytest

from conftest import ROOT
from typed import add_line, is_alike, is_line_alike, type_until_right

NEEDS = {"Fields": ["If you come from MongoDB"]}


def read_sections():
    """{heading: example} of those that have console blocks, and the code of the section Words."""
    sections, helpers, heading, kind = {}, [], None, None
    for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            kind = line[3:] or "text" if kind is None else None
        elif kind is None and line.startswith("#"):
            heading = line.lstrip("# ")
        elif kind == "sh" and heading == "Words":
            helpers.append(line)
        elif kind == "console":
            add_line(sections.setdefault(heading, []), line)
    return sections, "\n".join(helpers)


SECTIONS, HELPERS = read_sections()


@pytest.mark.slow
@pytest.mark.parametrize("heading", SECTIONS)
def test_readme(heading, make_mount, tmp_path):
    before = [typed for needed in NEEDS.get(heading, []) for typed in SECTIONS[needed]]
    problem = type_until_right(SECTIONS[heading], make_mount, tmp_path, before, HELPERS)
    assert not problem, f"{heading}:\n{problem}"


# What this comparison lets pass, and what not

@pytest.mark.parametrize("wanted,got", [
    ("2026-11-21T14:01:31.220Z", "2027-01-01T00:00:00.001Z"), ("3599.995", "3597.000"), ("9.987 ttl", "6.100 ttl"),
    ("left  59m 59s x", "left 59m 48s x"), ("0.250 s", "3.999 s"), ("pid 17", "pid 99999"), ('{ "pid" : 1 }', '{ "pid" : 22 }'),
    ("a…z", "a 5 z"), ("…", "anything")])
def test_alike(wanted, got):
    assert is_line_alike(wanted, got)


@pytest.mark.parametrize("wanted,got", [
    ("2035-01-01T01:00:00.000Z", "2035-01-01T01:00:00.001Z"), ("2026-11-21T14:01:31.220Z", "never"),
    ("3599.995", "3000.000"), ("9.987 ttl", "9.987 seconds"), ("30 min", "29 min"), ("a…z", "a 5 y"), ("", "x"),
    ("59m 59s", "29m 59s")])
def test_not_alike(wanted, got):
    assert not is_line_alike(wanted, got)


def test_lines_that_are_left_out():
    assert is_alike(["a", "...", "b"], ["a", "1", "2", "b"]) and is_alike(["..."], [])
    assert not is_alike(["a", "...", "b"], ["a", "1"]) and not is_alike(["a"], []) and not is_alike([], ["a"])


def test_there_is_something_to_type():
    assert {"Five minutes", "Fields", "If you come from MongoDB"} <= set(SECTIONS)
    assert sum(map(len, SECTIONS.values())) > 60 and "set_()" in HELPERS
