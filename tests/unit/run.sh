#!/usr/bin/env bash
# Runs unit test programs one after the other and sums their closing lines "N passed, N failed".
#
#     tests/unit/run.sh RESULT PROGRAM...
#
# RESULT is a file for the sum. A program that crashes, hangs (UNIT_TIMEOUT seconds), says nothing or
# ran no case is one failure. RUN_WRAP: words before each program.
set -u -o pipefail

result=$1
shift
mkdir -p "$(dirname "$result")"
rm -f "$result"
read -ra wrap <<< "${RUN_WRAP:-}"
passed=0 failed=0

for program; do
    log=$program.log
    timeout --foreground -k 5 "${UNIT_TIMEOUT:-120}" "${wrap[@]}" "$program" > "$log" 2>&1 < /dev/null
    status=$?
    counts=$(sed -n 's/^\([0-9]\{1,\}\) passed, \([0-9]\{1,\}\) failed$/\1 \2/p' "$log" | tail -n 1)
    read -r good bad <<< "${counts:-0 0}"
    problem=
    if [ "$bad" -eq 0 ]; then
        case $status in
        0) [ "$good" -gt 0 ] || problem="ran nothing" ;;
        124 | 137) problem="did not end within ${UNIT_TIMEOUT:-120} s" ;;
        *) problem="ended with status $status" ;;
        esac
        [ -z "$problem" ] || bad=1
    fi
    passed=$((passed + good))
    failed=$((failed + bad))
    if [ "$bad" -gt 0 ]; then
        tail -n 100 "$log"
        echo "FAILED ${program##*/}: $good passed, $bad failed${problem:+ ($problem)}; alone: ${wrap[*]+${wrap[*]} }$program"
    else
        echo "${program##*/}: $good passed"
    fi
done

echo "unit tests: $passed passed, $failed failed"
echo "$passed $failed" > "$result"
if [ $((passed + failed)) -eq 0 ]; then
    echo "unit tests: none ran"
    exit 1
fi
[ "$failed" -eq 0 ]
