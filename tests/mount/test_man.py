"""The manual pages: rendered without warnings, complete, and their examples are true."""
import os
import re
import shutil
import subprocess

import pytest

from conftest import BINARY, ROOT, TIME_FACTOR, run
from ctlhelp import ttlctl
from typed import add_line, type_until_right

FOLDER = ROOT / "mount-helpers" / "man"
PAGES = ["ttlfs.8", "ttlctl.1", "mount.ttlfs.8", "ttlfs-attributes.7"]

needs_man = pytest.mark.skipif(not shutil.which("man"), reason="man is not installed")


def source(page):
    return (FOLDER / page).read_text(encoding="ascii")


def words(page):
    """The text without fonts and escapes, on one line."""
    text = re.sub(r"\\f[BIRP]", "", source(page)).replace("\\-", "-").replace("\\(dq", '"').replace("\\ ", " ")
    return " ".join(re.sub(r"^\.[A-Z]+ ?|\"", "", line) for line in text.splitlines() if not line.startswith('.\\"'))


def example(page):
    """The blocks between .EX and .EE that begin with a command."""
    typed = []
    for block in re.findall(r"^\.EX\n(.*?)^\.EE$", source(page), re.M | re.S):
        if block.startswith("$ "):
            for line in block.splitlines():
                add_line(typed, line.replace("\\-", "-").replace("\\e", "\\"))
    return typed


# Rendering

@needs_man
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", ["80", "60", "132"])
def test_no_warnings(page, width):
    done = subprocess.run(["man", "--warnings", "-Tutf8", "-E", "UTF-8", "-l", str(FOLDER / page)], capture_output=True,
                          env={**os.environ, "MANWIDTH": width, "LC_ALL": "C.UTF-8", "MANPAGER": "cat",
                               "MAN_DISABLE_SECCOMP": "1"}, text=True,
                          timeout=30 * TIME_FACTOR, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) > 40


@pytest.mark.parametrize("page", PAGES)
def test_every_page_has_its_sections(page):
    heads = re.findall(r"^\.SH (.*)$", source(page), re.M)
    assert heads[0] == "NAME" and heads[-1] == "SEE ALSO" and "EXAMPLES" in heads
    if not page.endswith(".7"):
        assert {"SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS"} <= set(heads)
    name, number = page.rsplit(".", 1)
    assert re.search(rf"^\.TH {re.escape(name.upper().replace('-', chr(92) + '-'))} {number} ", source(page), re.M)


def test_every_page_is_here():
    assert sorted(PAGES) == sorted(path.name for path in FOLDER.iterdir())


# Completeness

def test_every_option_of_ttlfs():
    text = words("ttlfs.8")
    listed = run(BINARY, "--help").stdout
    for option in re.findall(r"(?<![\w-])([a-z_-]+=)", listed):
        assert option in text, option
    for option in re.findall(r"^ +-o ([a-z-]+)(?!=)\b", listed, re.M):
        assert option in text, option
    for option in ("-f", "-d", "-h", "--help", "-V", "--version", "sync", "ro", "test-clock", "allow_other", "archive="):
        assert option in text, option


def test_every_file_of_the_control_directory(mount):
    text = words("ttlfs.8")
    for name in os.listdir(mount.p(".ttlfs")):
        assert name in text, name
    for name in os.listdir(mount.p(".ttlfs/parameters")):
        assert name in text, name


def test_every_attribute_of_the_sources():
    """What the sources know by name is described."""
    text = words("ttlfs-attributes.7")
    names = set()
    for path in (ROOT / "ttl").glob("*.c"):
        names |= set(re.findall(r'"(user\.ttl\.[A-Za-z-]+)', path.read_text(encoding="utf-8")))
    assert names - {name for name in names if name in text} == set()
    for name in ("index.", "idle", "max", "refresh", "jitter", "visibility", "capped", "timeseries", "on-expire", "prune",
                 "hold", "seconds", "expireAt", "deadline", "remaining", "created", "accessed", "reason", "error"):
        assert f"user.ttl.{name}" in text, name
    for member in ("expireAfterSeconds", "partialFilterExpression", "jitterSeconds", "hidden", "iso8601", "user.doc."):
        assert member in text, member


def test_every_subcommand_and_option_of_ttlctl():
    text = words("ttlctl.1")
    for line in ttlctl("--help").out.split("\n\n")[1].splitlines():
        name = line.split()[0]
        assert re.search(rf"\b{name}\b", text), name
        for option in re.findall(r"(?<![\w-])--?[A-Za-z][a-z-]*", ttlctl(name, "--help").out):
            assert option in text, f"{name} {option}"


def test_every_option_of_mount_ttlfs():
    for option in "sfnvrwNto":
        assert f"-{option}" in source("mount.ttlfs.8").replace("\\-", "-") or option in "sfnvrw"
    assert "\\-sfnvrw" in source("mount.ttlfs.8")


# Examples

@pytest.mark.parametrize("page", PAGES)
def test_examples(page, make_mount, tmp_path):
    typed = example(page)
    assert typed
    problem = type_until_right(typed, make_mount, tmp_path)
    assert not problem, f"{page}:\n{problem}"
