#!/usr/bin/env bash
# Runs the mount tests and keeps their counts.
#
#     tests/mount/run.sh RESULT [PYTEST-ARGUMENT...]
#
# RESULT is a file for "PASSED FAILED"; an error in a fixture is a failure. TTLFS is the binary,
# MOUNT_TIMEOUT the seconds for all of it, RUN_WRAP words before the whole. When the time is up pytest
# gets an interrupt first, so that its fixtures still unmount.
#
# MOUNT_RETRIES (default 0): when no more tests than that failed, each of them is run once more, alone,
# and named FLAKY if it passes then. A test that failed because of a sanitizer's report, an assertion of
# the daemon or a core file is never tried again: what was seen there did happen.
set -u -o pipefail

result=$1
shift
mkdir -p "$(dirname "$result")"
folder=$(realpath "$(dirname "$result")")
report=$folder/mount.xml
export TTLFS_FAILED_TESTS=$folder/mount.failed
rm -f "$result" "$report" "$TTLFS_FAILED_TESTS"
python=${PYTHON:-/usr/bin/python3}
read -ra wrap <<< "${RUN_WRAP:-}"
export PYTHONDONTWRITEBYTECODE=1

run_pytest() { # seconds, argument...
    local seconds=$1
    shift
    timeout --foreground -s INT -k 60 "$seconds" "${wrap[@]}" "$python" -m pytest -q -rfEs -p no:cacheprovider "$@" \
        < /dev/null
}

run_pytest "${MOUNT_TIMEOUT:-600}" tests/mount --durations=15 --junitxml="$report" "$@"
status=$?

counts=$("$python" - "$report" <<'PYTHON'
import sys, xml.etree.ElementTree as tree
passed = failed = 0
try:
    for suite in tree.parse(sys.argv[1]).getroot().iter("testsuite"):
        for case in suite.iter("testcase"):
            kinds = {child.tag for child in case}
            if kinds & {"failure", "error"}:
                failed += 1
            elif "skipped" not in kinds:
                passed += 1
except (OSError, tree.ParseError):
    pass
print(passed, failed)
PYTHON
)
read -r passed failed <<< "${counts:-0 0}"

case $status in
0 | 1) problem= ;;
5) problem="no test was found" ;;
124 | 137) problem="not finished within ${MOUNT_TIMEOUT:-600} s" ;;
*) problem="pytest ended with status $status" ;;
esac
[ $((passed + failed)) -gt 0 ] || problem=${problem:-no test ran}

# The second try. The file has a line for each failed test: "again" or "never", a tab, the test.
tries=()
if [ -z "$problem" ] && [ "$failed" -gt 0 ] && [ "$failed" -le "${MOUNT_RETRIES:-0}" ] && [ -s "$TTLFS_FAILED_TESTS" ]; then
    mapfile -t tries < <(sort -u "$TTLFS_FAILED_TESTS")
fi
unset TTLFS_FAILED_TESTS
for try in "${tries[@]}"; do
    [ "${try%%$'\t'*}" = again ] || continue
    echo "trying once more, alone: ${try#*$'\t'}"
    if run_pytest 300 "${try#*$'\t'}"; then
        echo "FLAKY: ${try#*$'\t'} failed among the others and passed alone"
        passed=$((passed + 1)) failed=$((failed - 1))
        [ "$failed" -gt 0 ] || status=0
    fi
done

if [ -n "$problem" ] || { [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; }; then
    failed=$((failed + 1))
fi
echo "mount tests: $passed passed, $failed failed${problem:+ ($problem)}"
echo "$passed $failed" > "$result"
[ "$failed" -eq 0 ]
