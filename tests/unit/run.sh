#!/usr/bin/env bash
# Runs unit-test programs (cmocka) and prints one line for each, the output of those that fail, and the totals.
# Usage: tests/unit/run.sh PROGRAM...
set -uo pipefail

export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Sum of the numbers in cmocka's closing lines of one kind: "[  PASSED  ] 12 test(s)."
count() {
	sed -n "s/^\[ *$1 *\] \([0-9][0-9]*\) test(s).*/\1/p" "$log" | awk '{ n += $1 } END { print n + 0 }'
}

for program in "$@"; do
	timeout "${TEST_SECONDS:-300}" "$program" > "$log" 2>&1
	status=$?
	p=$(count PASSED) f=$(count FAILED) s=$(count SKIPPED)
	# A crash, a time-out or a sanitizer's report ends a program without, or in spite of, its closing lines.
	if [ $status -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
	if [ $((p + f + s)) -eq 0 ]; then f=1; echo "no test ran in $program" >> "$log"; fi
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	if [ "$f" -gt 0 ]; then
		echo "FAIL $program: $p passed, $f failed, $s skipped, exit status $status"
		grep -v '^\[ RUN  \|^\[       OK' "$log" | tail -n 60 | sed 's/^/    /'
	else
		echo "ok   $program: $p passed, $s skipped"
		[ "$s" -eq 0 ] || sed -n 's/^\[  SKIPPED \] \([a-zA-Z_].*\)/     skipped: \1/p' "$log" | sort -u
	fi
done
echo "unit tests: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
