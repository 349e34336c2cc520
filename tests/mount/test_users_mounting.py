"""Users who mount for themselves, through fusermount3 (issue 4.2).

fusermount3 reads /etc/fuse.conf, opens /dev/fuse and looks the user up. Each test has a mount namespace of its own, in
which all of that is what the test wants; the machine's stay as they are. What a test does there is a shell script that ends with a line
"good"; `as UID COMMAND...` runs a command as that user.
"""
import pathlib
import shlex
import shutil
import stat
import tempfile

import pytest

from conftest import BINARY, WRAP, run

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(WRAP), reason="fusermount3 does not start under a wrap"),
]

ANN, BOB = 23001, 23002

PRELUDE = r"""
set -eu
as() { uid=$1; shift; setpriv --reuid="$uid" --regid="$uid" --clear-groups "$@"; }
fails() { if "$@" > out 2>&1; then echo "did not fail: $*"; exit 1; fi; }
mounted() { grep -q "$PWD/$1 [^ ]*${2:-}" /proc/self/mountinfo; }  # NAME [OPTION]
gone() { i=0; while mounted "$1"; do i=$((i + 1)); [ $i -lt 600 ]; sleep 0.05; done; }
mount -t tmpfs -o mode=755 none dev
mknod dev/fuse c 10 229
chmod 666 dev/fuse
mount --bind dev/fuse /dev/fuse
mount --bind fuse.conf /etc/fuse.conf
{ cat /etc/passwd; echo "ttlfsann:x:23001:23001::/:/bin/sh"; echo "ttlfsbob:x:23002:23002::/:/bin/sh"; } > passwd
chmod 644 passwd
mount --bind passwd /etc/passwd
"""


@pytest.fixture
def script(tmp_path):
    """script(text, conf): runs it in a fresh folder that everybody may enter; `mnt` is ann's."""
    fusermount = shutil.which("fusermount3")
    if not fusermount or not pathlib.Path(fusermount).stat().st_mode & stat.S_ISUID:
        pytest.skip("fusermount3 is not setuid root here")
    if run("unshare", "--mount", "--propagation", "private", "true", check=False).returncode != 0:
        pytest.skip("no mount namespaces here")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ttlfs-test."))
    folder.chmod(0o755)
    shutil.copy(BINARY, folder / "ttlfs")
    for name in ("dev", "mnt", "closed"):
        (folder / name).mkdir()
    shutil.chown(folder / "mnt", ANN, ANN)

    def go(text, conf=""):
        (folder / "fuse.conf").write_text(conf)
        (folder / "fuse.conf").chmod(0o644)
        (folder / "script").write_text(PRELUDE + text)
        done = run("unshare", "--mount", "--propagation", "private", "sh", "-c",
                   f"cd {shlex.quote(str(folder))} && exec sh ./script", check=False, seconds=50)
        assert done.returncode == 0 and done.stdout.endswith("good\n"), f"status {done.returncode}:\n{done.stdout}"
        return done.stdout

    yield go
    shutil.rmtree(folder)


def test_a_user_mounts_for_himself(script):
    script(f"""
        as {ANN} ./ttlfs memory: mnt
        mounted mnt nosuid
        mounted mnt nodev
        as {ANN} sh -c 'umask 077; echo hello > mnt/f; cat mnt/f; mkdir mnt/d; ls -l mnt'
        [ "$(as {ANN} stat -c '%u %g %a' mnt/f)" = "{ANN} {ANN} 600" ]
        [ "$(as {ANN} stat -c '%u %a' mnt)" = "{ANN} 755" ]
        # Nobody else gets in, not even root.
        fails as {BOB} ls mnt
        fails ls mnt
        # The rules and the control directory are his.
        as {ANN} sh -c 'echo 30 > mnt/.ttlfs/parameters/ttlMonitorSleepSecs'
        [ "$(as {ANN} cat mnt/.ttlfs/parameters/ttlMonitorSleepSecs)" = 30 ]
        as {ANN} setfattr -n user.ttl.idle -v 1h mnt
        as {ANN} setfattr -n user.ttl.expireAt -v 1 mnt/f
        fails as {ANN} cat mnt/f
        # He may not become somebody else there.
        as {ANN} touch mnt/g
        fails as {ANN} chown {BOB} mnt/g
        fails as {ANN} mknod mnt/null c 1 3
        # Somebody else cannot unmount it.
        fails as {BOB} fusermount3 -u mnt
        as {ANN} fusermount3 -u mnt
        gone mnt
        echo good
    """)


def test_a_store_of_his_own(script):
    script(f"""
        mkdir home && chown {ANN}:{ANN} home
        as {ANN} ./ttlfs "$PWD/home/store" mnt
        as {ANN} sh -c 'echo kept > mnt/f; sync mnt/f; setfattr -n user.ttl.seconds -v 1h mnt/f'
        [ "$(stat -c '%U %a' home/store | cut -d' ' -f2)" = 700 ]
        as {ANN} fusermount3 -u mnt
        gone mnt
        i=0; until as {ANN} ./ttlfs "$PWD/home/store" mnt 2> err; do i=$((i + 1)); [ $i -lt 200 ]; sleep 0.05; done
        [ "$(as {ANN} cat mnt/f)" = kept ]
        [ "$(as {ANN} getfattr --only-values -n user.ttl.seconds mnt/f)" = 1h ]
        as {ANN} fusermount3 -u mnt
        gone mnt
        echo good
    """)


def test_where_he_may_not_mount(script):
    script(f"""
        fails as {BOB} ./ttlfs memory: mnt
        fails as {ANN} ./ttlfs memory: closed
        fails mounted mnt
        fails mounted closed
        echo good
    """)


def test_allow_other_needs_fuse_conf(script):
    script(f"""
        fails as {ANN} ./ttlfs -o allow_other memory: mnt
        grep -q user_allow_other out
        [ "$(wc -l < out)" = 1 ]
        fails mounted mnt
        fails as {ANN} ./ttlfs -o allow_root memory: mnt
        echo good
    """)


def test_allow_other_with_fuse_conf(script):
    script(f"""
        as {ANN} ./ttlfs -o allow_other memory: mnt
        [ "$(stat -c '%u %a' mnt)" = "{ANN} 1777" ]
        as {ANN} sh -c 'umask 0; echo hello > mnt/f'
        [ "$(as {BOB} cat mnt/f)" = hello ]
        as {BOB} sh -c 'echo mine > mnt/g'
        [ "$(stat -c %u mnt/g)" = {BOB} ]
        fails as {BOB} rm -f mnt/f
        fails as {BOB} setfattr -n user.ttl.seconds -v 5 mnt/f
        fails as {BOB} setfattr -n user.ttl.idle -v 5 mnt
        fails as {BOB} sh -c 'echo 30 > mnt/.ttlfs/parameters/ttlMonitorSleepSecs'
        as {ANN} sh -c 'echo 30 > mnt/.ttlfs/parameters/ttlMonitorSleepSecs'
        echo 31 > mnt/.ttlfs/parameters/ttlMonitorSleepSecs
        # ann owns the sticky root: she may remove and shorten what others put there.
        as {BOB} chmod 666 mnt/g
        as {ANN} setfattr -n user.ttl.seconds -v 5m mnt/g
        as {ANN} rm -f mnt/g
        as {ANN} fusermount3 -u mnt
        gone mnt
        echo good
    """, conf="user_allow_other\n")
