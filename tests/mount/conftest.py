"""The harness of the mount tests: a ttlfs of its own for every test, and the few helpers they share.

    def test_idle(make_mount):
        m = make_mount(opts="test-clock,monitor=off")      # or make_mount("dir"), make_mount(path)
        m.write("a", {"user": "ann"})                      # str, bytes or a dict (as JSON)
        m.set(".", "ttl.idle", "10s")                      # setxattr of user.ttl.idle on the root
        m.clock_advance(10_000)
        assert not m.exists("a")
        with raises_errno(errno.ENOENT):
            m.read("a")

Fixtures
    mount                one mount: memory:, -o test-clock
    any_mount            the same test over memory: and over a store directory
    make_mount(store="memory:", opts="test-clock", env=None) -> Mount, started; any number per test
                         store: "memory:", "dir" (a fresh directory below tmp_path) or a path
    @pytest.mark.ttlfs(store=…, opts=…) chooses other options for `mount` (opts also for `any_mount`)

class Mount
    path, store, opts, workdir, pid, log (text of stderr of all its daemons so far)
    start() stop() kill9() remount(opts=None)    stop() raises if the daemon did not end cleanly
    p(path)                                      an absolute path; all paths below may be relative to the mount
    write(path, data) read(path) exists(path)    write returns the path; exists is lstat
    set(path, name, value, flags=0) get(path, name) lst(path) rm(path, name)
                                                 xattrs as str; "user." is put before a name that lacks it;
                                                 lst gives sorted full names
    clock_advance(ms)                            adds to parameters/clockOffsetMS (-o test-clock)
    run_pass()                                   a pass of the monitor; its result as a dict
    status() param(name) param(name, value)      status.json as a dict; a parameter's text
    run_as(uid, function, gid=None, groups=())   function() in a child of that uid, whose working directory is the
                                                 mount (use relative paths); its result or exception (root only)

Functions: wait_until(condition, seconds, what), raises_errno(errno.X, …), run(command…) (a program with a
deadline, output captured, fails the test on a non-zero status), ROOT, BINARY, TIME_FACTOR.

Markers: limit(seconds) per phase, default 60; root (skipped for others), slow, long (make test-long), tsan (worth a run under
ThreadSanitizer), ttlfs(store=, opts=).

Environment: TTLFS, the binary (default build/ttlfs); TTLFS_WRAP, words before it (valgrind --error-exitcode=99 -q).
With a sanitizer or a wrap every deadline is TIME_FACTOR times as long.
"""
import contextlib
import errno
import json
import os
import pathlib
import pickle
import re
import resource
import shlex
import shutil
import signal
import subprocess
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("TTLFS") or ROOT / "build" / "ttlfs").absolute()
WRAP = shlex.split(os.environ.get("TTLFS_WRAP", ""))
DEFAULT_OPTS = "test-clock"
DEFAULT_LIMIT_SECONDS = 60
TROUBLE = re.compile(r"Sanitizer|[Aa]ssert|\bBUG\b|runtime error")
# The same in the text of a failed test, which has "assert" and AssertionError for reasons of its own.
TROUBLE_OF_DAEMON = re.compile(r"Sanitizer|Assertion `|core file:|its log has:|\bBUG\b|: runtime error:|ended with status|ended while mounted")


def _is_slow_build():
    """A sanitizer's runtime names itself in the binary, whatever the folder is called."""
    if WRAP:
        return True
    try:
        content = BINARY.read_bytes()
    except OSError:
        return False
    return any(mark in content for mark in (b"__asan_init", b"__tsan_init", b"__ubsan_handle", b"__msan_init"))


TIME_FACTOR = 3 if _is_slow_build() else 1
LIVE = set()  # mounts whose daemon runs, for the watchdog


def wait_until(condition, seconds, what):
    """Return condition()'s first true value; fail the test with `what` when none came in time."""
    deadline = time.monotonic() + seconds * TIME_FACTOR
    pause = 0.001
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            pytest.fail(f"waited {seconds * TIME_FACTOR} s in vain: {what}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)


@contextlib.contextmanager
def raises_errno(*codes):
    """The block must raise an OSError with one of these numbers."""
    names = " or ".join(errno.errorcode[code] for code in codes)
    try:
        yield
    except OSError as error:
        got = errno.errorcode.get(error.errno, error.errno)
        assert error.errno in codes, f"{got} instead of {names}: {error}"
    else:
        pytest.fail(f"no error instead of {names}")


def run(*command, seconds=30, check=True, **kwargs):
    """Run a program; its CompletedProcess with text output. A status other than 0 fails unless check=False."""
    kwargs.setdefault("stdout", subprocess.PIPE)
    kwargs.setdefault("stderr", subprocess.STDOUT)
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    kwargs.setdefault("errors", "surrogateescape")
    done = subprocess.run([str(word) for word in command], timeout=seconds * TIME_FACTOR, **kwargs)
    if check:
        words = shlex.join(str(word) for word in command)
        assert done.returncode == 0, f"{words}: status {done.returncode}\n{(done.stdout or '')[-4000:]}"
    return done


class Mount:
    """One STORE on one MOUNTPOINT and the daemon between them."""

    def __init__(self, tmp_path, number=0, store="memory:", opts=DEFAULT_OPTS, env=None):
        self.path = tmp_path / f"mnt{number}"
        self.workdir = tmp_path / f"daemon{number}"
        self.path.mkdir()
        self.workdir.mkdir()
        self.store = str(tmp_path / f"store{number}") if str(store) == "dir" else str(store)
        self.opts = opts
        self.env = env
        self.log_path = self.workdir / "log"
        self.log_path.touch()
        self.process = None

    # The daemon

    @property
    def pid(self):
        return self.process.pid if self.process else None

    @property
    def log(self):
        return self.log_path.read_text(errors="replace")

    def start(self):
        assert self.process is None, "already started"
        assert BINARY.exists(), f"{BINARY} is not there: run make, or set TTLFS"
        command = [*WRAP, str(BINARY), "-f"]
        if self.opts:
            command += ["-o", self.opts]
        environment = {**os.environ, **(self.env or {})}
        environment.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [*command, self.store, str(self.path)], cwd=self.workdir, env=environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        LIVE.add(self)
        watchdog = threading.Timer(20 * TIME_FACTOR, self._kill_hung)
        watchdog.daemon = True
        watchdog.start()
        try:
            wait_until(self._answers_or_ended, 10, f"the mount does not answer; its log:\n{self.log}")
        except BaseException:
            self.kill9()
            raise
        finally:
            watchdog.cancel()
        if self.process.poll() is not None:
            status = self.process.returncode
            self.kill9()
            pytest.fail(f"the daemon ended with status {status}; its log:\n{self.log}")
        return self

    def _answers_or_ended(self):
        if self.process.poll() is not None:
            return True
        try:
            if os.stat(self.path).st_dev == os.stat(self.path.parent).st_dev:
                return False
            os.stat(self.path / ".ttlfs" / "status.json")
            return True
        except OSError:
            return False

    def stop(self):
        """Unmount and wait for the daemon's end. Raises if anything about it was not clean."""
        if self.process is None:
            return
        problems = []
        if self.process.poll() is not None and self._is_mounted():
            problems.append("the daemon ended while mounted")
        self._unmount(problems)
        try:
            status = self.process.wait(15 * TIME_FACTOR)
        except subprocess.TimeoutExpired:
            problems.append(f"the daemon did not end after the unmount\n{self._stacks()}")
            self.process.kill()
            status = self.process.wait()
        if status != 0:
            problems.append(f"the daemon ended with status {status}")
        self._forget(problems)
        if problems:
            pytest.fail("\n".join(problems) + f"\nlog of {self.path}:\n{self.log[-6000:]}")

    def ended(self, seconds=15):
        """Wait for a daemon that ends by itself (a signal, a plain umount); its exit status. Its log is checked."""
        try:
            status = self.process.wait(seconds * TIME_FACTOR)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the daemon did not end\n{self._stacks()}")
        problems = []
        if self._is_mounted():
            problems.append("the daemon ended and left its mount")
            self._unmount(problems)
        self._forget(problems)
        if problems:
            pytest.fail("\n".join(problems) + f"\nlog of {self.path}:\n{self.log[-6000:]}")
        return status

    def kill9(self):
        """Kill the daemon as a crash would, and clear the dead mount away."""
        if self.process is None:
            return
        self.process.kill()
        self.process.wait()
        subprocess.run(["fusermount3", "-u", "-z", str(self.path)], stderr=subprocess.DEVNULL, check=False)
        problems = []
        self._forget(problems)
        if problems:
            pytest.fail("\n".join(problems) + f"\nlog of {self.path}:\n{self.log[-6000:]}")

    def remount(self, opts=None):
        """Unmount cleanly (unless that was done) and mount the same store again."""
        self.stop()
        if opts is not None:
            self.opts = opts
        return self.start()

    def _is_mounted(self):
        # mountinfo, because a dead mount cannot be asked by stat; it escapes blanks and the like in octal.
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
            points = [line.split()[4] for line in table]
        return str(self.path) in [re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), point) for point in points]

    def _unmount(self, problems):
        deadline = time.monotonic() + 5 * TIME_FACTOR
        while self._is_mounted():
            done = subprocess.run(["fusermount3", "-u", str(self.path)], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)
            if done.returncode == 0:
                break
            if time.monotonic() > deadline:
                problems.append(f"unmounted only lazily: {done.stdout.strip()}")
                lazily = ["umount", "-l"] if os.geteuid() == 0 else ["fusermount3", "-u", "-z"]
                subprocess.run([*lazily, str(self.path)], check=False)
                break
            time.sleep(0.05)  # the last release of a closed file may still be under way

    def _forget(self, problems):
        """What must hold whenever a daemon has ended, however it did."""
        LIVE.discard(self)
        self.process = None
        trouble = [line for line in self.log.splitlines() if TROUBLE.search(line)]
        if trouble:
            problems.append("its log has: " + trouble[0])
        cores = [path.name for path in self.workdir.glob("core*")]
        if cores:
            problems.append(f"core file: {self.workdir / cores[0]}")

    def _stacks(self):
        if not shutil.which("gdb"):
            return ""
        try:
            return subprocess.run(["gdb", "-p", str(self.pid), "-batch", "-ex", "thread apply all bt 20"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  text=True, timeout=20, check=False).stdout[-12000:]
        except (subprocess.TimeoutExpired, OSError):
            return ""

    def _kill_hung(self):
        """For the watchdog's thread. A request that the daemon took and does not answer cannot be interrupted by
        a signal: only the daemon's end frees the caller."""
        if self.process and self.process.poll() is None:
            with open(self.log_path, "a", encoding="utf-8") as log:
                log.write(f"\nharness: killed, it did not answer\n{self._stacks()}\n")
            self.process.kill()

    # Files

    def p(self, path):
        """An absolute path (bytes stay bytes)."""
        if isinstance(path, bytes):
            return os.path.join(os.fsencode(self.path), path)
        return self.path / path

    def write(self, path, data=b""):
        if isinstance(data, dict):
            data = json.dumps(data)
        if isinstance(data, str):
            data = data.encode()
        with open(self.p(path), "wb", buffering=0) as file:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest):]
        return self.p(path)

    def read(self, path):
        with open(self.p(path), "rb") as file:
            return file.read()

    def exists(self, path):
        try:
            os.lstat(self.p(path))
            return True
        except FileNotFoundError:
            return False

    # Rules

    @staticmethod
    def _name(name):
        return name if name.startswith("user.") else "user." + name

    def set(self, path, name, value, flags=0, follow=True):
        raw = value if isinstance(value, bytes) else str(value).encode()
        os.setxattr(self.p(path), self._name(name), raw, flags, follow_symlinks=follow)

    def get(self, path, name, follow=True):
        return os.getxattr(self.p(path), self._name(name), follow_symlinks=follow).decode(errors="surrogateescape")

    def lst(self, path, follow=True):
        names = os.listxattr(self.p(path), follow_symlinks=follow)
        return sorted(name for name in names if name.startswith("user."))

    def rm(self, path, name, follow=True):
        os.removexattr(self.p(path), self._name(name), follow_symlinks=follow)

    # The control directory

    def _control_read(self, name):
        return (self.path / ".ttlfs" / name).read_text(encoding="utf-8")

    def _control_write(self, name, text):
        # As the shell's > opens it; one write, so that its error is seen.
        fd = os.open(self.path / ".ttlfs" / name, os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)

    def status(self):
        return json.loads(self._control_read("status.json"))

    def param(self, name, value=None):
        if value is not None:
            self._control_write(f"parameters/{name}", f"{value}\n")
        return self._control_read(f"parameters/{name}").strip()

    def clock_advance(self, ms):
        self.param("clockOffsetMS", int(self.param("clockOffsetMS")) + ms)

    def run_pass(self):
        self._control_write("pass", "1\n")
        return json.loads(self._control_read("pass"))

    # Other users

    def run_as(self, uid, function, gid=None, groups=()):
        return run_as(self.path, uid, function, gid, groups)


def run_as(directory, uid, function, gid=None, groups=()):
    """function() in a forked child with this uid and `directory` as its working directory, entered while still
    root: pytest's own folders above it are closed to others."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            signal.setitimer(signal.ITIMER_REAL, 0)
            os.chdir(directory)
            os.setgroups(list(groups))
            os.setgid(uid if gid is None else gid)
            os.setuid(uid)
            try:
                outcome = (True, function())
            except BaseException as error:  # it is raised again in the parent
                outcome = (False, error)
            os.write(writer, pickle.dumps(outcome))
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    assert answer, "the child died"
    good, value = pickle.loads(answer)
    if not good:
        raise value
    return value


def _let_go(tmp_path):
    """Descriptors that a failed test left open would keep its mounts busy. They are not closed but turned to
    /dev/null: Python still believes that the numbers are its own."""
    null = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith(f"{tmp_path}/mnt"):
                os.dup2(null, int(name))
    os.close(null)


# Fixtures

@pytest.fixture
def make_mount(request, tmp_path):
    made = request.node.ttlfs_mounts = []  # where the report of a failure finds their logs

    def factory(store="memory:", opts=DEFAULT_OPTS, env=None):
        mount = Mount(tmp_path, len(made), store, opts, env)
        made.append(mount)
        return mount.start()

    yield factory
    _let_go(tmp_path)
    problems = []
    for mount in made:
        try:
            mount.stop()
        except (Exception, pytest.fail.Exception) as problem:  # the others must still be unmounted
            problems.append(str(problem))
    if problems:
        pytest.fail("\n".join(problems))


def _marked(request, **defaults):
    marker = request.node.get_closest_marker("ttlfs")
    return {**defaults, **(marker.kwargs if marker else {})}


@pytest.fixture
def mount(request, make_mount):
    return make_mount(**_marked(request, store="memory:", opts=DEFAULT_OPTS))


@pytest.fixture(params=["memory:", "dir"], ids=["memory", "store"])
def any_mount(request, make_mount):
    return make_mount(**{**_marked(request, opts=DEFAULT_OPTS), "store": request.param})


# Hooks

def pytest_configure(config):
    for line in ("limit(seconds): time limit of each phase of the test, 60 if not given",
                 "root: needs root", "slow: takes more than a few seconds", "long: for make test-long only",
                 "tsan: worth a run under ThreadSanitizer",
                 "ttlfs(store, opts): how the mount and any_mount fixtures mount"):
        config.addinivalue_line("markers", line)
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))


def pytest_runtest_setup(item):
    if item.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("needs root")


def _limited(item):
    """The middle of a hook wrapper: a phase that takes too long fails, even when all the time went in one call."""
    marker = item.get_closest_marker("limit")
    seconds = (marker.args[0] if marker else DEFAULT_LIMIT_SECONDS) * TIME_FACTOR
    what = f"the test took more than {seconds} s"
    expired = []

    def too_long(_signal, _frame):
        expired.append(True)
        raise TimeoutError(what)

    def kill_daemons():
        for mount in list(LIVE):
            mount._kill_hung()

    watchdog = threading.Timer(seconds + 3, kill_daemons)
    watchdog.daemon = True
    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    watchdog.start()
    try:
        outcome = yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        watchdog.cancel()
    if expired and outcome.excinfo is None:  # pluggy swallows what is raised inside its own frames
        raise TimeoutError(what)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    yield from _limited(item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item):
    yield from _limited(item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if not report.failed:
        return
    _note_failure(item, report)
    try:
        where = item.path.relative_to(ROOT)
    except ValueError:
        where = item.path
    test = shlex.quote(f"{where}::{item.nodeid.split('::', 1)[1]}")
    wrap = f"TTLFS_WRAP={shlex.quote(os.environ['TTLFS_WRAP'])} " if WRAP else ""
    command = f"cd {shlex.quote(str(ROOT))} && {wrap}TTLFS={shlex.quote(str(BINARY))} /usr/bin/python3 -m pytest {test}"
    report.sections.append(("repeat it alone", command))
    for mount in getattr(item, "ttlfs_mounts", []):
        report.sections.append((f"log of {mount.path}", mount.log[-6000:]))


def _note_failure(item, report):
    """For tests/mount/run.sh, which may try a failed test again: not one whose daemon was in trouble."""
    path = os.environ.get("TTLFS_FAILED_TESTS")
    if not path:
        return
    said = report.longreprtext + "".join(mount.log for mount in getattr(item, "ttlfs_mounts", []))
    in_trouble = TROUBLE_OF_DAEMON.search(said)
    with open(path, "a", encoding="utf-8", errors="surrogateescape") as notes:
        notes.write(f"{'never' if in_trouble else 'again'}\t{item.nodeid}\n")
