"""What the tests of the archive share: its files, their records, an hour that has passed."""
import datetime
import json
import os

S = 1000
HOUR = 3600 * S
RECORD = "user.ttlfs.archive"


def today(mount):
    """The day on which what is made now expires."""
    offset = int(mount.param("clockOffsetMS")) if "test-clock" in mount.opts else 0
    now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(milliseconds=offset + HOUR)
    return now.strftime("%Y-%m-%d")


def copies(archive):
    """Archived files by their path below the archive without the day, sidecars left out; nothing is there twice."""
    found = {}
    for folder, folders, files in os.walk(os.fsencode(archive)):
        for name in files + [f for f in folders if os.path.islink(os.path.join(folder, f))]:
            assert not name.startswith(b".ttlfs-"), f"{name} was left behind"
            if name.startswith(b".") and name.endswith(b".ttlfs"):
                continue
            collection = os.path.relpath(os.path.dirname(folder), os.fsencode(archive))
            key = os.fsdecode(os.path.normpath(os.path.join(collection, name)))
            found.setdefault(key, []).append(os.path.join(folder, name))
    assert all(len(paths) == 1 for paths in found.values()), found
    return {key: paths[0] for key, paths in found.items()}


def record(path):
    """What stands beside an archived file: its attribute, or its sidecar."""
    try:
        return json.loads(os.getxattr(path, RECORD, follow_symlinks=False))
    except OSError:
        folder, name = os.path.split(os.fsencode(path))
        with open(os.path.join(folder, b"." + name + b".ttlfs"), "rb") as file:
            return json.loads(file.read())


def expire(mount):
    mount.clock_advance(HOUR + S)
    return mount.run_pass()
