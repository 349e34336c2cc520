"""What the tests of ttlctl share: the program, and a terminal to run it on."""
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import struct
import subprocess
import termios
import time

from conftest import ROOT, TIME_FACTOR

TTLCTL = pathlib.Path(os.environ.get("TTLFS_BUILD", ROOT / "build")).absolute() / "ttlctl"

OK, FAILED, USAGE, NO_MOUNT, REFUSED = range(5)


class Answer:
    """What a program said."""

    def __init__(self, status, out, err=""):
        self.status, self.out, self.err = status, out, err

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def jsonl(self):
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def lines(self):
        return self.out.splitlines()


def environment(**more):
    clean = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    return {**clean, "LC_ALL": "C.UTF-8", "TERM": "xterm", **more}


def ttlctl(*words, cwd=None, status=OK, seconds=30, **env):
    """Run ttlctl with its output in pipes; the status must be the expected one."""
    done = subprocess.run([str(TTLCTL), *map(str_or_bytes, words)], cwd=cwd, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=seconds * TIME_FACTOR, env=environment(**env), check=False)
    answer = Answer(done.returncode, done.stdout.decode(errors="surrogateescape"),
                    done.stderr.decode(errors="surrogateescape"))
    assert answer.status == status, f"status {answer.status}\n{answer.out}\n{answer.err}"
    if status != OK:
        assert answer.err.count("\n") >= 1 and answer.err.startswith("ttlctl: "), answer.err
    return answer


def str_or_bytes(word):
    return word if isinstance(word, bytes) else str(word)


class Terminal:
    """A program on a terminal of its own. `text` is all that it wrote so far."""

    def __init__(self, *words, cwd=None, columns=80, rows=24, **env):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen([str_or_bytes(word) for word in words], cwd=cwd, stdin=slave, stdout=slave,
                                        stderr=slave, env=environment(**env), start_new_session=True)
        os.close(slave)
        self.text = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)

    def _read(self, seconds):
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:  # EIO: the other side is closed
            return False
        self.text += data.decode(errors="replace")
        return bool(data)

    def wait_for(self, pattern, seconds=20):
        """Read until the pattern appears; its match."""
        deadline = time.monotonic() + seconds * TIME_FACTOR
        while not re.search(pattern, self.text):
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.text[-2000:]!r}"
            assert self._read(0.05), f"ended without {pattern!r}: {self.text[-2000:]!r}"
        return re.search(pattern, self.text)

    def type(self, keys):
        os.write(self.master, keys.encode())

    def ended(self, seconds=20):
        """Read to the end; the exit status."""
        deadline = time.monotonic() + seconds * TIME_FACTOR
        while self._read(0.05):
            assert time.monotonic() < deadline, f"still running: {self.text[-2000:]!r}"
        return self.process.wait(seconds * TIME_FACTOR)
