"""POSIX to the letter: random calls of four users on tmpfs and on a mount must give the same answers (tests/mount/twin.py)."""
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from twin import compare

STEPS, LONG_STEPS = 300, 4000


@pytest.fixture
def model():
    """An empty directory on a tmpfs."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", "/dev/shm"], stdout=subprocess.PIPE, text=True, check=False)
    if kind.stdout.strip() != "tmpfs":
        pytest.skip("/dev/shm is no tmpfs here")
    path = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm", prefix="ttlfs-twin."))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.mark.root
@pytest.mark.tsan
@pytest.mark.ttlfs(opts="allow_other,dev,suid")
@pytest.mark.parametrize("seed", [1])
def test_twins(any_mount, model, seed):
    (any_mount.path / "top").mkdir()
    assert compare(model, any_mount.path / "top", seed, STEPS, any_mount.store == "memory:") is None


@pytest.mark.root
@pytest.mark.long
@pytest.mark.limit(600)
@pytest.mark.ttlfs(opts="allow_other,dev,suid")
@pytest.mark.parametrize("seed", range(1000, 1002))
def test_twins_for_long(any_mount, model, seed):
    (any_mount.path / "top").mkdir()
    assert compare(model, any_mount.path / "top", seed, LONG_STEPS, any_mount.store == "memory:") is None
