"""README.md is true: its console blocks are typed into a shell on a real mount, and what comes back is compared.

A section is what stands below one heading. Its blocks are typed in order, into one bash, on a fresh mount (memory:,
-o test-clock) whose root is the current directory; get and set_ of the section Words are there. A section that mounts
by itself (build/ttlfs) begins in an empty folder. NEEDS names sections whose blocks are typed before, unseen.

What the shell is told
    `$ COMMAND`, its output below it; a line that begins with `> ` goes on with the command.
    /tmp/ is a folder of the test. `build/ttlfs` and other programs of build/ are those of this build.
    sleep moves the mount's clock instead of waiting, where it can.

What may differ
    a line `...`: any lines; `…` within a line: anything
    a date in 2025 to 2027: any date; other dates are exact
    a number with three decimals, and lengths of time as ttlctl writes them: by 5 s or a tenth
    the numbers behind pid, ino, uid; runs of blanks
"""
import os
import re
import select
import shlex
import subprocess
import time

import pytest

from conftest import BINARY, ROOT, TIME_FACTOR

BUILD = BINARY.parent
ATTEMPTS = 3  # a machine may stall in the middle of what lasts two seconds
NEEDS = {"Fields": ["If you come from MongoDB"]}

# Reading


def read_sections():
    """{heading: [(command, [line, …]), …]} of those that have console blocks, and the code of the section Words."""
    sections, helpers, heading, kind = {}, [], None, None
    for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            kind = line[3:] or "text" if kind is None else None
        elif kind is None and line.startswith("#"):
            heading = line.lstrip("# ")
        elif kind == "sh" and heading == "Words":
            helpers.append(line)
        elif kind == "console":
            typed = sections.setdefault(heading, [])
            if line.startswith("$ "):
                typed.append((line[2:], []))
            elif line.startswith("> ") and not typed[-1][1]:
                typed[-1] = (typed[-1][0] + "\n" + line[2:], [])
            else:
                typed[-1][1].append(line)
    return sections, "\n".join(helpers)


SECTIONS, HELPERS = read_sections()

# Comparing

DATE = r"\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"
LENGTH = r"\b\d+[dhm] \d+[hms]\b|\b\d+\.\d{1,3} s\b|(?<![\d.T:-])\d+\.\d{3}(?![\dZ])"
LOOSE = re.compile(rf"({DATE}|{LENGTH}|(?<=\bpid )\d+|(?<=\b(?:pid|ino|uid)\" : )\d+|…)")
UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def seconds_of(text):
    if " " in text and not text.endswith(" s"):
        return sum(int(part[:-1]) * UNITS[part[-1]] for part in text.split())
    return float(text.split()[0])


def is_piece_alike(wanted, got):
    if wanted == got:
        return True
    if re.fullmatch(DATE, wanted):
        return wanted[:4] in ("2025", "2026", "2027") and re.fullmatch(DATE, got) is not None
    if re.fullmatch(LENGTH, wanted) and re.fullmatch(LENGTH, got):
        return abs(seconds_of(wanted) - seconds_of(got)) <= max(5, seconds_of(wanted) / 10)
    return wanted.isdigit() and got.isdigit()


def is_line_alike(wanted, got):
    wanted, got = (" ".join(line.split()) for line in (wanted, got))
    if "…" in wanted:
        pattern = ".*".join(re.escape(part) for part in wanted.split("…"))
        return re.fullmatch(pattern, got) is not None
    left, right = LOOSE.split(wanted), LOOSE.split(got)
    return len(left) == len(right) and all(map(is_piece_alike, left, right))


def is_alike(wanted, got):
    """Lists of lines; `...` stands for any number of them."""
    if not wanted:
        return not got
    if wanted[0].strip() == "...":
        return any(is_alike(wanted[1:], got[at:]) for at in range(len(got) + 1))
    return bool(got) and is_line_alike(wanted[0], got[0]) and is_alike(wanted[1:], got[1:])


def without_end(lines):
    lines = list(lines)
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


# Typing

PRELUDE = r"""
exec 2>&1
sleep() {
    local clock=.ttlfs/parameters/clockOffsetMS
    if [ -w "$clock" ]; then
        echo $(($(cat "$clock") + $(printf '%.0f' "${1}e3"))) > "$clock"
    else
        command sleep "$@"
    fi
}
"""


class Shell:
    """A bash that is fed line by line. Its working directory is `where`."""

    MARK = "-- typed, status "

    def __init__(self, where, work):
        self.work = str(work)
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "PATH": f"{work}/build:{os.environ['PATH']}"}
        self.process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], cwd=where, env=environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.type(PRELUDE + HELPERS)

    def type(self, command):
        """Its output as lines, with /tmp/ as README writes it."""
        command = command.replace("/tmp/", self.work + "/")
        self.process.stdin.write(f"{command}\nprintf '\\n{self.MARK}%d\\n' $?\n".encode())
        self.process.stdin.flush()
        text, deadline = b"", time.monotonic() + 30 * TIME_FACTOR
        end = re.compile(rb"\n" + self.MARK.encode() + rb"\d+\n")
        while not end.search(text):
            ready, _, _ = select.select([self.process.stdout], [], [], 1)
            data = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            assert data or not ready, f"the shell ended at: {command}\n{text.decode()}"
            assert time.monotonic() < deadline, f"no end of: {command}\n{text.decode()}"
            text += data
        text = end.split(text)[0].decode(errors="replace").replace(self.work + "/", "/tmp/")
        return [re.sub(r"^bash: line \d+: ", "bash: ", line) for line in text.split("\n")]

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(10 * TIME_FACTOR)


def make_programs(work):
    """build/ as README names it: this build's programs, and ttlfs with a clock that can be moved."""
    (work / "build").mkdir(parents=True)
    for program in BUILD.iterdir():
        if program.is_file() and os.access(program, os.X_OK) and program.name != "ttlfs":
            (work / "build" / program.name).symlink_to(program)
    script = work / "build" / "ttlfs"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(str(BINARY))} -o test-clock "$@"\n')
    script.chmod(0o755)


def unmount_below(work):
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        points = [line.split()[4] for line in table]
    for point in points:
        if point.startswith(f"{work}/"):
            subprocess.run(["fusermount3", "-u", "-z", point], check=False)


def type_section(heading, mount, work):
    """Types a section. The first command whose output is another one, as text; None when all is as it says."""
    make_programs(work)
    mounts_itself = any("build/ttlfs" in command for command, _ in SECTIONS[heading])
    shell = Shell(work if mounts_itself else mount().path, work)
    try:
        for needed in NEEDS.get(heading, []):
            for command, _ in SECTIONS[needed]:
                shell.type(command)
        for command, wanted in SECTIONS[heading]:
            got, wanted = without_end(shell.type(command)), without_end(wanted)
            if not is_alike(wanted, got):
                return "\n".join([f"$ {command}", *got, "--- but README says", *wanted])
    finally:
        shell.close()
        unmount_below(work)
    return None


@pytest.mark.slow
@pytest.mark.parametrize("heading", SECTIONS)
def test_readme(heading, make_mount, tmp_path):
    for attempt in range(ATTEMPTS):
        problem = type_section(heading, make_mount, tmp_path / f"typed{attempt}")
        if not problem:
            return
    pytest.fail(f"{heading}:\n{problem}")


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
