#!/usr/bin/env bash
# Ten seconds with ttlfs: documents that expire by a date in them, and by not being used.
#
#     make demo            or            TTLFS=build/ttlfs tests/demo.sh
#
# Runs as root or as an ordinary user in a folder of its own, which is gone afterwards, mount and all.
# The status is 0 when every document expired when it had to and the others are still there.
set -u

fail() {
    echo "demo: $*" >&2
    exit 1
}

ttlfs=$(realpath "${TTLFS:-$(dirname "$0")/../build/ttlfs}")
[ -x "$ttlfs" ] || fail "$ttlfs is not there: run make"
for tool in setfattr getfattr fusermount3; do
    command -v "$tool" > /dev/null || fail "$tool is not there: run make deps"
done
[ -e /dev/fuse ] || fail "/dev/fuse is not there: is the kernel module fuse loaded?"
[ -r /dev/fuse ] && [ -w /dev/fuse ] || fail "/dev/fuse may not be opened by $(id -un): its mode should be 666"

folder=$(mktemp -d "${TMPDIR:-/tmp}/ttlfs-demo.XXXXXX") || exit 1
folder=$(realpath "$folder")
folder_device=$(stat -c %d "$folder")

# mountinfo writes backslashes and blanks in octal.
in_mountinfo=$(printf '%s' "$folder/mnt" | sed 's/\\/\\134/g; s/ /\\040/g; s/\t/\\011/g')

mounted() {
    grep -qF " $in_mountinfo " /proc/self/mountinfo
}

# Is a process still at work that was started with this folder? The daemon outlives its mount by a
# moment. The pattern comes through a pipe, or grep would find its own command line.
daemon_runs() {
    printf '%s' "$folder" | grep -qsF -f - /proc/[0-9]*/cmdline
}

unmount() {
    fusermount3 -u "$@" "$folder/mnt" 2> /dev/null || umount ${1:+-l} "$folder/mnt" 2> /dev/null
}

cleanup() {
    trap '' INT TERM HUP
    cd /
    for _ in $(seq 50); do
        ! mounted || unmount
        mounted || daemon_runs || break
        sleep 0.1
    done
    ! mounted || unmount -z
    # Never delete through a mount that could not be taken away.
    if mounted || [ "$(stat -c %d "$folder/mnt" 2> /dev/null || echo "$folder_device")" != "$folder_device" ]; then
        echo "demo: still mounted: $folder/mnt" >&2
    else
        rm -rf --one-file-system "$folder"
    fi
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Shows a command as one types it, then its output.
run() {
    printf '\n\033[1m$ %s\033[0m\n' "$1" | if [ -t 1 ]; then cat; else sed 's/\x1b\[[0-9]*m//g'; fi
    eval "$1" || fail "that failed"
}

say() {
    printf '\n# %s\n' "$*"
}

milliseconds() {
    date +%s%3N
}

# until_gone SECONDS FILE [COMMAND]: waits for the file's end, doing COMMAND meanwhile.
until_gone() {
    local began deadline
    began=$(milliseconds)
    deadline=$((began + $1 * 1000))
    while [ -e "$2" ]; do
        [ "$(milliseconds)" -lt "$deadline" ] || fail "$2 did not expire within $1 s"
        [ -z "${3:-}" ] || eval "$3" 2> /dev/null
        sleep 0.1
    done
    echo "(after $((($(milliseconds) - began) / 100)) tenths of a second: $2 is gone)"
}

cd "$folder" || exit 1
PATH=$(dirname "$ttlfs"):$PATH
mkdir mnt

say "A directory to keep the documents in, and a place to see them."
printf -v store %q "$folder/store"
printf -v mnt %q "$folder/mnt"
run "ttlfs $store $mnt"
mounted || fail "nothing is mounted"
cd mnt || exit 1
run "mkdir sessions cache"

say "Sessions end 3 seconds after the date in their field lastSeen."
run "setfattr -n user.ttl.index.lastSeen -v 3 sessions"

# shellcheck disable=SC2016
now='$(date -u +%FT%T.%3NZ)'
run "echo '{\"user\": \"ann\", \"lastSeen\": {\"\$date\": \"'$now'\"}}' > sessions/ann.json"
run "echo '{\"user\": \"bob\", \"note\": \"no date, no end\"}' > sessions/bob.json"
run "cat sessions/ann.json"

say "Cached files end when nobody has used them for 2 seconds, and after 5 seconds in any case."
run "setfattr -n user.ttl.idle -v 2s cache && setfattr -n user.ttl.max -v 5s cache"
run "echo 'nobody reads this' > cache/idle && echo 'this is read all the time' > cache/busy"
run "ls -l sessions cache"

say "When, and why?"
run "getfattr -n user.ttl.remaining sessions/ann.json && getfattr -n user.ttl.reason sessions/ann.json"
run "ttlctl ls sessions cache"

say "Now we wait, and read cache/busy ten times a second. Nothing else deletes anything."
until_gone 6 cache/idle 'cat cache/busy > /dev/null'
[ -e cache/busy ] || fail "cache/busy expired although it was used"
run "getfattr -n user.ttl.remaining cache/busy && getfattr -n user.ttl.reason cache/busy"
until_gone 6 sessions/ann.json 'cat cache/busy > /dev/null'
[ -e cache/busy ] || fail "cache/busy expired although it was used"
run "ls sessions cache"

say "Use puts the end off, but not beyond the 5 seconds of user.ttl.max."
until_gone 8 cache/busy 'cat cache/busy > /dev/null'
run "ls -l sessions cache"
[ -e sessions/bob.json ] || fail "sessions/bob.json expired without a reason"

say "What has no reason to expire stays, here and in the store."
cd "$folder" || exit 1
run "fusermount3 -u $mnt"
echo
echo "demo: every document expired by itself, and only those that had to"
