#!/usr/bin/env bash
# Runs the mount tests and keeps their counts.
#
#     tests/mount/run.sh RESULT [PYTEST-ARGUMENT...]
#
# RESULT is a file for "PASSED FAILED"; an error in a fixture is a failure. TTLFS is the binary,
# MOUNT_TIMEOUT the seconds for all of it, RUN_WRAP words before the whole. When the time is up pytest
# gets an interrupt first, so that its fixtures still unmount.
set -u -o pipefail

result=$1
shift
mkdir -p "$(dirname "$result")"
report=$(realpath "$(dirname "$result")")/mount.xml
rm -f "$result" "$report"
python=${PYTHON:-/usr/bin/python3}
read -ra wrap <<< "${RUN_WRAP:-}"

export PYTHONDONTWRITEBYTECODE=1
timeout --foreground -s INT -k 60 "${MOUNT_TIMEOUT:-600}" "${wrap[@]}" "$python" -m pytest -q tests/mount \
    -rfEs -p no:cacheprovider --junitxml="$report" "$@" < /dev/null
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
if [ -n "$problem" ] || { [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; }; then
    failed=$((failed + 1))
fi
echo "mount tests: $passed passed, $failed failed${problem:+ ($problem)}"
echo "$passed $failed" > "$result"
[ "$failed" -eq 0 ]
