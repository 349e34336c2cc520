"""make install puts everything where it belongs, and make uninstall takes it away again."""
import os
import shutil
import subprocess

import pytest

from conftest import BINARY, ROOT, TIME_FACTOR, run

COMPLETIONS = ["share/bash-completion/completions/ttlctl", "share/zsh/site-functions/_ttlctl",
               "share/fish/vendor_completions.d/ttlctl.fish"]
PAGES = ["share/man/man8/ttlfs.8", "share/man/man1/ttlctl.1", "share/man/man8/mount.ttlfs.8",
         "share/man/man7/ttlfs-attributes.7"]
DOCUMENTS = ["share/doc/ttlfs/README.md", "share/doc/ttlfs/examples/srv-ttl.mount",
             "share/doc/ttlfs/examples/srv-cache.mount"]


def make(*words):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"}
    # What is built is installed, not built again with the flags of a bare make.
    return run("make", "-C", ROOT, "--no-print-directory", "-o", "all", *words, env=clean, seconds=120)


def files_below(folder):
    return {os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names}


@pytest.fixture
def flavour():
    """The words for make by which it finds the programs that are tested here."""
    folder = BINARY.parent
    if folder.parent.name == "build":
        return [f"BUILD_ROOT={folder.parent}", f"FLAVOUR={folder.name}"]
    return [f"BUILD_ROOT={folder}", "FLAVOUR=release"]


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
@pytest.mark.parametrize("prefix,sbin", [("/usr", "sbin"), ("/usr/local", "sbin"), ("/opt/ttl", "opt/ttl/sbin")])
def test_install_and_uninstall(tmp_path, flavour, prefix, sbin):
    if not (BINARY.parent / "ttlctl").exists():
        pytest.skip("the binary under test is not from make")
    words = [*flavour, f"DESTDIR={tmp_path}", f"PREFIX={prefix}"]
    make(*words, "install")
    below = prefix.strip("/")
    wanted = {f"{below}/{name}" for name in ["bin/ttlfs", "bin/ttlctl", *COMPLETIONS, *PAGES, *DOCUMENTS]}
    wanted |= {f"{sbin}/mount.ttlfs", f"{sbin}/mount.fuse.ttlfs"}
    assert files_below(tmp_path) == wanted
    for name in files_below(tmp_path):
        assert os.stat(tmp_path / name).st_mode & 0o777 == (0o755 if "bin/" in name else 0o644), name
    done = subprocess.run([tmp_path / below / "bin/ttlfs", "--version"], capture_output=True, text=True,
                          timeout=30 * TIME_FACTOR, check=False)
    assert done.returncode == 0 and done.stdout.startswith("ttlfs ")
    make(*words, "uninstall")
    assert files_below(tmp_path) == set()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_units_are_valid(tmp_path):
    for unit in (ROOT / "mount-helpers").glob("*.mount"):
        shutil.copy(unit, tmp_path)
        done = run("systemd-analyze", "verify", "--man=no", tmp_path / unit.name, check=False)
        assert unit.name not in done.stdout, done.stdout
