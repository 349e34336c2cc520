#!/bin/bash
# run-quick.sh - the short benchmarks, in under three minutes. `make bench-quick` builds all and runs it; needs root.
#
# 1. ops: fsload at 1 and 4 threads, interleaved over tmpfs, bindfs and libfuse's passthrough_ll (both over tmpfs),
#    bare_ll, and ttlfs on `memory:` and on a directory, both with a TTL index of an hour. One table of medians.
# 2. expiry: documents per second that one pass deletes, in memory and, made durable, from a store.
# 3. memory: resident bytes per empty document with a 16-byte name under one TTL index, in 16 directories and in one.
#
# Environment:
#   TTLFS           the daemon (default: ttlfs in the build folder)
#   TTLFS_BUILD     the build folder with bench/fsload, bench/fill, bench/bare_ll (default: build below the project)
#   TTLFS_OPTS      more mount options for both ttlfs mounts of ops
#   WITHOUT_TTLFS   1: leave ttlfs out, which leaves the peers' table only; else its absence is a failure
#   STAGES          which to run (default: "ops expiry memory")
#   ROUNDS          of fsload (default 11)
#   EXPIRY_DOCS     default 200000
#   MEMORY_DOCS     default 1000000
#   BENCH_RESULTS   where fsload's JSON is kept (default: bench/results-quick in the build folder)
#
# Exit status: 0 unless a step failed; a bar that is missed is printed, not a failure.

set -euo pipefail
export LC_ALL=C

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BUILD=${TTLFS_BUILD:-$ROOT/build}
TTLFS=${TTLFS:-$BUILD/ttlfs}
STAGES=${STAGES:-ops expiry memory}
ROUNDS=${ROUNDS:-11}
EXPIRY_DOCS=${EXPIRY_DOCS:-200000}
MEMORY_DOCS=${MEMORY_DOCS:-1000000}
RESULTS=${BENCH_RESULTS:-$BUILD/bench/results-quick}
PYTHON=${PYTHON:-/usr/bin/python3}
EXAMPLES=/usr/share/doc/libfuse3-dev/examples

FILL_SECONDS=90
PASS_SECONDS=60
EXIT_SECONDS=20
EXPIRY_BAR_MEMORY=300000
EXPIRY_BAR_STORE=100000
BYTES_BAR=400

fail() {
    echo "run-quick: $*" >&2
    exit 1
}

# ---- what must be undone ----

WORK=
declare -a MOUNTS=()  # mountpoints, in the order in which they came
declare -A DAEMONS=() # mountpoint -> pid

# unmount MOUNTPOINT: and wait until its daemon has gone, so that its store is closed.
unmount() {
    local mountpoint=$1 pid=${DAEMONS[$1]:-} i
    if mountpoint -q "$mountpoint"; then
        umount "$mountpoint" 2> /dev/null || umount -l "$mountpoint" || return 1
    fi
    [ -n "$pid" ] || return 0
    for ((i = 0; i < EXIT_SECONDS * 10; i++)); do
        [ -d "/proc/$pid" ] || return 0
        sleep 0.1
    done
    kill -9 "$pid" 2> /dev/null || true
    echo "run-quick: the daemon of $mountpoint did not end in $EXIT_SECONDS s and was killed" >&2
    return 1
}

cleanup() {
    local status=$? i
    trap - EXIT INT TERM
    # Fillers in the background keep their mount busy.
    for i in $(jobs -p); do kill "$i" 2> /dev/null || true; done
    wait 2> /dev/null || true
    for ((i = ${#MOUNTS[@]} - 1; i >= 0; i--)); do
        unmount "${MOUNTS[i]}" || status=1
    done
    if [ -n "$WORK" ] && ! grep -q " $WORK/" /proc/self/mounts; then
        rm -rf --one-file-system "$WORK"
    fi
    exit "$status"
}

# ---- mounts ----

# daemon_of MOUNTPOINT: the pid of the process that was started with it as an argument.
daemon_of() {
    local mountpoint=$1 dir arg
    for dir in /proc/[0-9]*; do
        while IFS= read -r -d '' arg; do
            if [ "$arg" = "$mountpoint" ]; then
                echo "${dir#/proc/}"
                return 0
            fi
        done 2> /dev/null < "$dir/cmdline" || true
    done
    return 1
}

# serve MOUNTPOINT COMMAND...: runs a command that mounts and goes to the background.
serve() {
    local mountpoint=$1 i
    shift
    mkdir -p "$mountpoint"
    MOUNTS+=("$mountpoint")
    "$@" > "$WORK/mount.log" 2>&1 || fail "$1 $mountpoint failed: $(tail -n 3 "$WORK/mount.log")"
    for ((i = 0; i < 100; i++)); do
        ! mountpoint -q "$mountpoint" || break
        sleep 0.1
    done
    mountpoint -q "$mountpoint" || fail "$1 did not mount $mountpoint: $(tail -n 3 "$WORK/mount.log")"
    DAEMONS[$mountpoint]=$(daemon_of "$mountpoint") || fail "no process serves $mountpoint"
}

# serve_ttlfs MOUNTPOINT STORE OPTIONS: with a TTL index of an hour on the whole mount.
serve_ttlfs() {
    serve "$1" "$TTLFS" "$2" "$1" ${3:+-o "$3"}
    setfattr -n user.ttl.index._ts -v 3600 "$1"
}

# give_back: unmounts all and starts anew.
give_back() {
    local i
    for ((i = ${#MOUNTS[@]} - 1; i >= 0; i--)); do
        unmount "${MOUNTS[i]}" || fail "cannot unmount ${MOUNTS[i]}"
    done
    MOUNTS=()
    DAEMONS=()
}

build_passthrough() {
    local from=$BUILD/bench/passthrough file
    mkdir -p "$from"
    for file in passthrough_ll.c passthrough_helpers.h; do
        if [ -f "$EXAMPLES/$file" ]; then
            cp "$EXAMPLES/$file" "$from/"
        elif [ -f "$EXAMPLES/$file.gz" ]; then
            gzip -dc "$EXAMPLES/$file.gz" > "$from/$file"
        else
            fail "$EXAMPLES/$file is missing (package libfuse3-dev)"
        fi
    done
    # shellcheck disable=SC2046 # flags are words
    ${CC:-cc} -O2 -w -o "$BUILD/bench/passthrough_ll" "$from/passthrough_ll.c" $(pkg-config --cflags --libs fuse3)
}

# ---- figures ----

now() {
    echo "${EPOCHREALTIME/./}"
}

# judge WHAT VALUE UNIT at-least|at-most BAR
judge() {
    awk -v what="$1" -v value="$2" -v unit="$3" -v sense="$4" -v bar="$5" 'BEGIN {
        met = sense == "at-least" ? value >= bar : value <= bar
        sub("-", " ", sense)
        printf "  %-46s %9d %s  (bar %s %d)  %s\n", what, value, unit, sense, bar, met ? "met" : "MISSED"
    }'
}

# ---- stages ----

ops() {
    local targets=() label spec args
    mkdir -p "$WORK/tmpfs" "$RESULTS"
    MOUNTS+=("$WORK/tmpfs")
    mount -t tmpfs -o size=1g run-quick "$WORK/tmpfs"
    mkdir "$WORK/tmpfs/plain" "$WORK/tmpfs/bindfs" "$WORK/tmpfs/passthrough"
    build_passthrough
    serve "$WORK/bindfs" bindfs "$WORK/tmpfs/bindfs" "$WORK/bindfs"
    serve "$WORK/passthrough" "$BUILD/bench/passthrough_ll" -o "source=$WORK/tmpfs/passthrough" "$WORK/passthrough"
    serve "$WORK/bare" "$BUILD/bench/bare_ll" "$WORK/bare"
    targets=("tmpfs=$WORK/tmpfs/plain")
    for label in bindfs passthrough bare; do targets+=("$label=$WORK/$label"); done
    if [ -z "${WITHOUT_TTLFS:-}" ]; then
        serve_ttlfs "$WORK/memory" memory: "${TTLFS_OPTS:-}"
        serve_ttlfs "$WORK/store" "$WORK/store.d" "${TTLFS_OPTS:-}"
        targets+=("memory=$WORK/memory" "store=$WORK/store")
    fi
    rm -f "$RESULTS"/*.jsonl
    for spec in "1 own" "4 own" "4 one"; do
        read -ra args <<< "$spec"
        "$BUILD/bench/fsload" -t "${args[0]}" -l "${args[1]}" -n $((400 / args[0])) -r "$ROUNDS" -s 20 --json \
            "${targets[@]}" > "$RESULTS/${args[0]}-${args[1]}.jsonl"
    done
    "$PYTHON" "$ROOT/tests/bench/quick_table.py" "$RESULTS"/{1-own,4-own,4-one}.jsonl
    give_back
}

deleted_by_monitor() {
    "$PYTHON" -c 'import json, sys
value = json.load(open(sys.argv[1]))["metrics"]["ttl"]["deletedDocuments"]
print(int(value["$numberLong"]) if isinstance(value, dict) else int(value))' "$1/.ttlfs/status.json"
}

# expire LABEL BAR: lets the documents of a filled mount fall due all at once, and times the pass.
expire() {
    local mountpoint=$WORK/expiry-$1 begin passed durable deleted
    sync "$mountpoint" # fsync of the root directory: FUSE has no syncfs
    echo 7200000 > "$mountpoint/.ttlfs/parameters/clockOffsetMS"
    begin=$(now)
    timeout "$PASS_SECONDS" bash -c 'echo 1 > "$1"' pass "$mountpoint/.ttlfs/pass" || fail "the pass on $1 failed"
    passed=$(($(now) - begin))
    sync "$mountpoint"
    durable=$(($(now) - begin))
    deleted=$(deleted_by_monitor "$mountpoint")
    [ "$deleted" -ge "$EXPIRY_DOCS" ] || fail "$1: $deleted of $EXPIRY_DOCS documents were deleted"
    echo "  $1: $EXPIRY_DOCS documents, pass $((passed / 1000)) ms, durable after $((durable / 1000)) ms"
    [ "$1" = memory ] && durable=$passed
    judge "expired documents, $1${3:+ ($3)}" $((EXPIRY_DOCS * 1000000 / durable)) "per s" at-least "$2"
}

# fill_two A B DOCS DIRECTORIES-A DIRECTORIES-B: fills two mounts at the same time; what they print is in fill.A, fill.B.
fill_two() {
    local first second status=0
    # One thread for one directory: the kernel creates in a directory under its lock, more threads only fight for it.
    "$BUILD/bench/fill" -s "$FILL_SECONDS" -d "$4" -t $(($4 < 4 ? $4 : 4)) "$3" "$1" > "$WORK/fill.a" &
    first=$!
    "$BUILD/bench/fill" -s "$FILL_SECONDS" -d "$5" -t $(($5 < 4 ? $5 : 4)) "$3" "$2" > "$WORK/fill.b" &
    second=$!
    wait "$first" || status=1
    wait "$second" || status=1
    [ "$status" = 0 ] || fail "filling failed"
}

expiry() {
    local made _
    echo
    echo "Expiry:"
    serve_ttlfs "$WORK/expiry-memory" memory: test-clock,monitor=off,notify=never
    serve_ttlfs "$WORK/expiry-store" "$WORK/expiry-store.d" test-clock,monitor=off,notify=never
    fill_two "$WORK/expiry-memory" "$WORK/expiry-store" "$EXPIRY_DOCS" 4 4
    for made in a b; do
        read -r made _ < "$WORK/fill.$made"
        [ "$made" = "$EXPIRY_DOCS" ] || fail "only $made of $EXPIRY_DOCS documents in $FILL_SECONDS s"
    done
    expire memory "$EXPIRY_BAR_MEMORY"
    expire store "$EXPIRY_BAR_STORE" durable
    give_back
}

resident_bytes() {
    local key value _
    while read -r key value _; do
        if [ "$key" = VmRSS: ]; then
            echo $((value * 1024))
            return
        fi
    done < "/proc/$1/status"
}

memory() {
    local many=$WORK/memory-many one=$WORK/memory-one many_before one_before made seconds
    echo
    echo "Memory:"
    serve_ttlfs "$many" memory: monitor=off,notify=never
    serve_ttlfs "$one" memory: monitor=off,notify=never
    many_before=$(resident_bytes "${DAEMONS[$many]}")
    one_before=$(resident_bytes "${DAEMONS[$one]}")
    fill_two "$many" "$one" "$MEMORY_DOCS" 16 1
    read -r made seconds < "$WORK/fill.a"
    judge "resident, $made documents in 16 directories" \
        $((($(resident_bytes "${DAEMONS[$many]}") - many_before) / made)) "bytes" at-most "$BYTES_BAR"
    read -r made seconds < "$WORK/fill.b"
    judge "resident, $made documents in one directory" \
        $((($(resident_bytes "${DAEMONS[$one]}") - one_before) / made)) "bytes" at-most "$BYTES_BAR"
    echo "  both filled at the same time, in $seconds s"
    give_back
}

# ---- main ----

[ "$(id -u)" = 0 ] || fail "needs root: it mounts a tmpfs and remounts what it measures"
for program in fsload fill bare_ll; do
    [ -x "$BUILD/bench/$program" ] || fail "$BUILD/bench/$program is missing: make benches"
done
for program in bindfs setfattr mountpoint pkg-config "$PYTHON"; do
    command -v "$program" > /dev/null || fail "$program is missing"
done
if [ -n "${WITHOUT_TTLFS:-}" ]; then
    STAGES=ops
elif [ ! -x "$TTLFS" ]; then
    fail "$TTLFS is missing (WITHOUT_TTLFS=1 measures the others alone)"
fi

trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
ulimit -n 65536 2> /dev/null || true # passthrough_ll holds a descriptor for every inode that the kernel knows
WORK=$(mktemp -d "${TMPDIR:-/tmp}/ttlfs-bench.XXXXXX")
SECONDS=0
for stage in $STAGES; do
    case $stage in
    ops | expiry | memory) "$stage" ;;
    *) fail "no stage $stage" ;;
    esac
done
echo
echo "run-quick: $SECONDS s"
