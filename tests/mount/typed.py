"""Console examples of the documentation: typed into a shell on a real mount, and what comes back is compared.

An example is a list of (command, [line of output, ...]). It is typed in order into one bash, on a fresh mount (memory:,
-o test-clock) whose root is the current directory. An example that mounts by itself begins in an empty folder.

What the shell is told
    /tmp/ is a folder of the test. `build/ttlfs` and other programs of build/ are those of this build, also without build/.
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

from conftest import BINARY, TIME_FACTOR

BUILD = BINARY.parent
ATTEMPTS = 3  # a machine may stall in the middle of what lasts two seconds


def add_line(example, line):
    """Adds a line of a block to an example: `$ COMMAND`, `> ` and more of it, or output."""
    if line.startswith("$ "):
        example.append((line[2:], []))
    elif line.startswith("> ") and not example[-1][1]:
        example[-1] = (example[-1][0] + "\n" + line[2:], [])
    else:
        example[-1][1].append(line)


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

    def __init__(self, where, work, prelude):
        self.work = str(work)
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "PATH": f"{work}/build:{os.environ['PATH']}"}
        self.process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], cwd=where, env=environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.type(PRELUDE + prelude)

    def type(self, command):
        """Its output as lines, with /tmp/ as the text writes it."""
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
    """build/ as the text names it: this build's programs, and ttlfs with a clock that can be moved."""
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


def type_example(example, before, prelude, mount, work):
    """Types an example, after `before`, whose output is not looked at. The first command whose output is another one,
    as text; None when all is as it says."""
    make_programs(work)
    mounts_itself = any(re.search(r"(?:^|[&;] *|build/)ttlfs ", command) for command, _ in before + example)
    shell = Shell(work if mounts_itself else mount().path, work, prelude)
    try:
        for command, _ in before:
            shell.type(command)
        for command, wanted in example:
            got, wanted = without_end(shell.type(command)), without_end(wanted)
            if not is_alike(wanted, got):
                return "\n".join([f"$ {command}", *got, "--- but the text says", *wanted])
    finally:
        shell.close()
        unmount_below(work)
    return None


def type_until_right(example, mount, tmp_path, before=(), prelude=""):
    """None, or what was wrong in each of ATTEMPTS."""
    problems = []
    for attempt in range(ATTEMPTS):
        problem = type_example(example, list(before), prelude, mount, tmp_path / f"typed{attempt}")
        if not problem:
            return None
        problems.append(f"attempt {attempt + 1}\n{problem}")
    return "\n".join(problems)
